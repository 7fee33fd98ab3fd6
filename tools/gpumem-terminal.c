/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "tools/gpumem-terminal.h"

#define NARROWEST   20
#define NO_TERMINAL 80

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

/* Returns the escape sequence that begins text of @style, or "" if standard output is not a
 * terminal. */
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

/* Returns FALSE if @file is not a terminal or its size is unknown. */
static gboolean
get_size (int             file,
          struct winsize *size)
{
  return isatty (file) && ioctl (file, TIOCGWINSZ, size) == 0 && size->ws_col > 0;
}

/* Returns the number of columns for a table on standard output. */
guint
gpumem_terminal_width (void)
{
  struct winsize size = { 0 };

  return get_size (STDOUT_FILENO, &size) ? MAX (size.ws_col, NARROWEST) : NO_TERMINAL;
}

/* Returns the number of lines of the terminal on standard output, or 0 if there is none. */
guint
gpumem_terminal_height (void)
{
  struct winsize size = { 0 };

  return get_size (STDOUT_FILENO, &size) ? size.ws_row : 0;
}

/* Returns the number of columns of the terminal on standard error, or 0 if there is none. */
guint
gpumem_terminal_error_width (void)
{
  struct winsize size = { 0 };

  return get_size (STDERR_FILENO, &size) ? MAX (size.ws_col, NARROWEST) : 0;
}

/* Returns the column of the word after the last gap of several spaces. In a list of options, the
 * description begins there. */
static guint
find_indent (const char *line)
{
  guint indent = 0;
  guint n_spaces = 0;
  guint column = 0;

  for (; *line != '\0'; line = g_utf8_next_char (line), column++)
    {
      if (*line != ' ' && n_spaces > 1)
        indent = column;
      n_spaces = *line == ' ' ? n_spaces + 1 : 0;
    }
  return indent;
}

static void
append_wrapped (GString    *text,
                const char *line,
                guint       width)
{
  const guint found = find_indent (line);
  const guint indent = found + NARROWEST <= width ? found : 2;
  const char *word = line;
  guint column = 0;

  while (*word != '\0')
    {
      const char *rest = word + strspn (word, " ");
      const char *end = rest + strcspn (rest, " ");
      const guint n_spaces = rest - word;
      const guint length = g_utf8_strlen (rest, end - rest);

      if (column > indent && column + n_spaces + length > width)
        {
          g_string_append_printf (text, "\n%*s", (int) indent, "");
          column = indent;
        }
      else
        {
          g_string_append_len (text, word, n_spaces);
          column += n_spaces;
        }
      g_string_append_len (text, rest, end - rest);
      column += length;
      word = end;
    }
  g_string_append_c (text, '\n');
}

/* Wraps each line of @text. Joins consecutive lines without indentation to a paragraph first. */
char *
gpumem_terminal_wrap (const char *text,
                      guint       width)
{
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
  g_autoptr (GString) wrapped = g_string_new (NULL);
  g_autoptr (GString) paragraph = g_string_new (NULL);

  for (guint i = 0; lines[i] != NULL; i++)
    {
      const char *next = lines[i + 1];

      g_string_append (paragraph, g_strchomp (lines[i]));
      if (next != NULL && *next != '\0' && *next != ' ' && *lines[i] != '\0' && *lines[i] != ' ' &&
          !g_str_has_suffix (lines[i], ":"))
        {
          g_string_append_c (paragraph, ' ');
          continue;
        }
      if (next != NULL || paragraph->len > 0)
        append_wrapped (wrapped, paragraph->str, width);
      g_string_truncate (paragraph, 0);
    }
  return g_string_free (g_steal_pointer (&wrapped), FALSE);
}
