/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <stdio.h>
#include <unistd.h>

#include "tools/gpumem-progress.h"

#define BAR_WIDTH 32

/* A progress bar on the last line of the terminal on standard error. Draws nothing if standard
 * error is not a terminal; the lines of the report then show the progress. */
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

static void
draw (GpumemProgress *progress,
      double          part)
{
  double done = (MAX (progress->n_begun, 1) - 1 + CLAMP (part, 0, 1)) / progress->n_steps;
  int permille = CLAMP (done, 0, 1) * 1000;
  int filled = permille * BAR_WIDTH / 1000;
  char bar[BAR_WIDTH + 1];

  if (!progress->terminal || (progress->drawn && progress->permille == permille))
    return;
  for (int i = 0; i < BAR_WIDTH; i++)
    bar[i] = i < filled ? '#' : '.';
  bar[BAR_WIDTH] = '\0';
  fprintf (stderr, "\r[%s] %3d %%  %.40s\033[K", bar, permille / 10, progress->label);
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
