/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Makes chosen calls of NVRTC fail. GPUMEM_CUDA_NVRTC is a comma-separated list of
 *
 *   fail=17              the 17th call
 *   lost=17              all calls from the 17th on
 *   counts=FILE          the number of calls, written at exit
 *   report=FILE          the function that failed, written at exit
 *
 * If the variable is set, an nvrtcProgram that was not destroyed changes the exit status to 99.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nvrtc.h"

#define EXIT_BAD_STATE 99

static struct
{
  guint  first;
  guint  last;
  char  *counts;
  char  *report;
}
asked;

static gint n_calls;                /* atomic */
static gint n_failed;               /* atomic */
static gint n_programs;             /* atomic */
static const char *failed;          /* function of the first failed call */

static void __attribute__ ((constructor))
fault_init (void)
{
  const char *text = g_getenv ("GPUMEM_CUDA_NVRTC");
  g_auto (GStrv) words = g_strsplit (text != NULL ? text : "", ",", -1);

  for (guint i = 0; words[i] != NULL; i++)
    {
      const char *value = strchr (words[i], '=');

      if (value == NULL)
        continue;
      value++;
      if (g_str_has_prefix (words[i], "fail="))
        asked.first = asked.last = strtoul (value, NULL, 10);
      else if (g_str_has_prefix (words[i], "lost="))
        {
          asked.first = strtoul (value, NULL, 10);
          asked.last = G_MAXUINT;
        }
      else if (g_str_has_prefix (words[i], "counts="))
        asked.counts = g_strdup (value);
      else if (g_str_has_prefix (words[i], "report="))
        asked.report = g_strdup (value);
    }
}

nvrtcResult
nvrtc_fault (const char *function)
{
  guint n = g_atomic_int_add (&n_calls, 1) + 1;

  if (asked.first == 0 || n < asked.first || n > asked.last)
    return NVRTC_SUCCESS;
  if (g_atomic_int_add (&n_failed, 1) == 0)
    failed = function;
  return NVRTC_ERROR_OUT_OF_MEMORY;
}

void
nvrtc_count_programs (int change)
{
  g_atomic_int_add (&n_programs, change);
}

static void __attribute__ ((destructor))
fault_report (void)
{
  FILE *file = asked.counts != NULL ? fopen (asked.counts, "w") : NULL;

  if (file != NULL)
    {
      fprintf (file, "failable %d\nfailed %d\n", n_calls, n_failed);
      fclose (file);
    }
  file = asked.report != NULL ? fopen (asked.report, "w") : NULL;
  if (file != NULL)
    {
      if (failed != NULL)
        fprintf (file, "fault: call %u (%s) failed with %u, %d in all\n", asked.first, failed,
                 (guint) NVRTC_ERROR_OUT_OF_MEMORY, n_failed);
      fprintf (file, "%d programs leaked\n", n_programs);
      fclose (file);
      if (n_programs != 0)
        {
          fprintf (stderr, "gpumem-cuda-driver: %d programs of NVRTC leaked\n", n_programs);
          _exit (EXIT_BAD_STATE);
        }
    }
  g_clear_pointer (&asked.counts, g_free);
  g_clear_pointer (&asked.report, g_free);
}
