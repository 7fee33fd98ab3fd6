/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "tools/gpumem-terminal.h"

#define NARROWEST 80
#define WIDEST    120
#define NO_TERMINAL 100

static gboolean
has_colours (void)
{
  static int colours = -1;

  if (colours < 0)
    {
      const char *no_colour = g_getenv ("NO_COLOR");
      const char *terminal = g_getenv ("TERM");

      colours = isatty (STDOUT_FILENO) && (no_colour == NULL || *no_colour == '\0') &&
                terminal != NULL && g_strcmp0 (terminal, "dumb") != 0;
    }
  return colours;
}

/* Returns the escape sequence before text of @style; "" unless standard output is a terminal. */
const char *
gpumem_style_begin (GpumemStyle style)
{
  static const char *const sequences[] = {
    [GPUMEM_STYLE_PLAIN] = "",
    [GPUMEM_STYLE_TITLE] = "\033[1m",
    [GPUMEM_STYLE_GOOD]  = "\033[32m",
    [GPUMEM_STYLE_BAD]   = "\033[31m",
    [GPUMEM_STYLE_FAINT] = "\033[2m"
  };

  return has_colours () ? sequences[style] : "";
}

const char *
gpumem_style_end (GpumemStyle style)
{
  return has_colours () && style != GPUMEM_STYLE_PLAIN ? "\033[0m" : "";
}

/* Returns the number of columns for a table on standard output. */
guint
gpumem_terminal_width (void)
{
  struct winsize size = { 0 };

  if (!isatty (STDOUT_FILENO) || ioctl (STDOUT_FILENO, TIOCGWINSZ, &size) != 0 ||
      size.ws_col == 0)
    return NO_TERMINAL;
  return CLAMP (size.ws_col, NARROWEST, WIDEST);
}
