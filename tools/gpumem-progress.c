/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <stdio.h>
#include <unistd.h>

#include "tools/gpumem-progress.h"
#include "tools/gpumem-terminal.h"

#define BAR_WIDTH     32
#define PERCENT_WIDTH 11  /* brackets, percentage, gaps, and the last column */

/* A progress bar on standard error, on the last line of the terminal. If standard error is not a
 * terminal, draws nothing; the lines of the report then show the progress. */
struct _GpumemProgress
{
  gboolean  terminal;
  gboolean  drawn;
  guint     n_steps;
  guint     n_begun;
  int       permille;     /* as last drawn */
  char     *label;
};

GpumemProgress *
gpumem_progress_new (guint n_steps)
{
  GpumemProgress *progress = g_new0 (GpumemProgress, 1);

  progress->terminal = isatty (STDERR_FILENO);
  progress->n_steps = MAX (n_steps, 1);
  return progress;
}

void
gpumem_progress_free (GpumemProgress *progress)
{
  gpumem_progress_clear (progress);
  g_free (progress->label);
  g_free (progress);
}

/* Returns: (transfer full): the first @width characters. A longer label would wrap, and erasing the
 * bar would then leave the first line of the label */
static char *
clip (const char *label,
      int         width)
{
  g_autofree char *valid = g_utf8_make_valid (label, -1);

  return g_utf8_strlen (valid, -1) <= width ? g_steal_pointer (&valid)
                                            : g_utf8_substring (valid, 0, width);
}

static void
draw (GpumemProgress *progress,
      double          part)
{
  double done = (MAX (progress->n_begun, 1) - 1 + CLAMP (part, 0, 1)) / progress->n_steps;
  int permille = CLAMP (done, 0, 1) * 1000;
  const int width = gpumem_terminal_error_width ();
  const int bar_width = CLAMP (width / 3, 1, BAR_WIDTH);
  const int filled = permille * bar_width / 1000;
  g_autofree char *label = NULL;
  char bar[BAR_WIDTH + 1];

  if (!progress->terminal || (progress->drawn && progress->permille == permille))
    return;
  for (int i = 0; i < bar_width; i++)
    bar[i] = i < filled ? '#' : '.';
  bar[bar_width] = '\0';
  label = clip (progress->label, MAX (width - bar_width - PERCENT_WIDTH, 0));
  fprintf (stderr, "\r[%s] %3d %%  %s\033[K", bar, permille / 10, label);
  fflush (stderr);
  progress->permille = permille;
  progress->drawn = TRUE;
}

void
gpumem_progress_begin (GpumemProgress *progress,
                       const char     *format,
                       ...)
{
  va_list arguments;

  g_free (progress->label);
  va_start (arguments, format);
  progress->label = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  progress->n_begun++;
  progress->drawn = FALSE;
  draw (progress, 0);
}

/* Sets the completed part of the current step, from 0 to 1. */
void
gpumem_progress_part (GpumemProgress *progress,
                      double          part)
{
  draw (progress, part);
}

/* Removes @n_steps steps that will not run. */
void
gpumem_progress_skip (GpumemProgress *progress,
                      guint           n_steps)
{
  progress->n_begun += n_steps;
}

/* Erases the bar, so that other lines can be printed. */
void
gpumem_progress_clear (GpumemProgress *progress)
{
  if (!progress->drawn)
    return;
  fputs ("\r\033[K", stderr);
  fflush (stderr);
  progress->drawn = FALSE;
}
