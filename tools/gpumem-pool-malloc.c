/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Measures malloc() of other libraries: in new processes that preload the library, because jemalloc
 * cannot be loaded later. */
#include "config.h"

#include <gmodule.h>
#include <stdio.h>

#include "tools/gpumem-pool.h"

typedef struct
{
  const char *library;
  const char *symbol;               /* only this library has this function */
} Malloc;

static const Malloc mallocs[GPUMEM_N_SOURCES] = {
  [GPUMEM_SOURCE_JEMALLOC] = { "libjemalloc.so.2", "mallocx" },
  [GPUMEM_SOURCE_MIMALLOC] = { "libmimalloc.so.2", "mi_malloc" }
};

static const Malloc *
get_malloc (GpumemSource source)
{
  return &mallocs[source];
}

static gboolean
is_loaded (const Malloc *library)
{
  GModule *process = g_module_open (NULL, 0);
  gpointer function;
  gboolean found = process != NULL && g_module_symbol (process, library->symbol, &function);

  if (process != NULL)
    g_module_close (process);
  return found;
}

/* Runs a process that measures one line. Returns: its output; %NULL after an error */
static char *
run_process (const GpumemPoolBench  *bench,
             GpumemSource            source,
             guint                   workload,
             guint                   n_threads,
             GError                **error)
{
  g_autoptr (GSubprocessLauncher) launcher =
    g_subprocess_launcher_new (G_SUBPROCESS_FLAGS_STDOUT_PIPE | G_SUBPROCESS_FLAGS_STDERR_SILENCE);
  g_autoptr (GSubprocess) process = NULL;
  g_autofree char *program = g_file_read_link ("/proc/self/exe", error);
  g_autofree char *line = g_strdup_printf ("--malloc-line=%u,%u", source, workload);
  g_autofree char *threads = g_strdup_printf ("--threads=%u", n_threads);
  g_autofree char *time = g_strdup_printf ("--min-time=%.9f", bench->min_time);
  char *output = NULL;

  if (program == NULL)
    return NULL;
  g_subprocess_launcher_setenv (launcher, "LD_PRELOAD", get_malloc (source)->library, TRUE);
  process = g_subprocess_launcher_spawn (launcher, error, program, "pool", "bench", "host", line,
                                         threads, time, NULL);
  if (process == NULL)
    return NULL;
  /* No GCancellable: with one, GLib 2.74 has once blocked forever after the process had ended.
   * Ctrl-C also interrupts the process, which belongs to the same group. */
  if (g_subprocess_communicate_utf8 (process, NULL, NULL, &output, NULL, error)
      && g_subprocess_wait_check (process, NULL, error))
    return output;
  g_subprocess_force_exit (process);
  g_free (output);
  return NULL;
}

GpumemTimes
gpumem_pool_bench_measure_malloc (const GpumemPoolBench  *bench,
                                  GpumemSource            source,
                                  guint                   workload,
                                  guint                   n_threads,
                                  GError                **error)
{
  const char *library = get_malloc (source)->library;
  g_autofree char *output = run_process (bench, source, workload, n_threads, error);
  GpumemTimes times = { 0 };

  if (output == NULL)
    g_prefix_error (error, "a process that preloads %s: ", library);
  else if (output[0] == '\0')
    g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED, "%s is not installed", library);
  else
    {
      g_auto (GStrv) words = g_strsplit (output, " ", 3);

      for (guint i = 0; i < g_strv_length (words); i++)
        *(double *[]) { &times.median, &times.least, &times.most }[i] = g_ascii_strtod (words[i],
                                                                                        NULL);
    }
  return times;
}

gboolean
gpumem_pool_bench_print_malloc (GpumemPoolBench  *bench,
                                const char       *line,
                                GError          **error)
{
  char numbers[3][G_ASCII_DTOSTR_BUF_SIZE];
  guint source, workload;
  GpumemTimes times;

  if (sscanf (line, "%u,%u", &source, &workload) != 2 || source >= GPUMEM_N_SOURCES ||
      mallocs[source].library == NULL)
    {
      g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, "invalid line '%s'", line);
      return FALSE;
    }
  if (!is_loaded (&mallocs[source]))
    return TRUE;
  times = gpumem_pool_bench_measure (bench, workload, error);
  g_print ("%s %s %s\n", g_ascii_dtostr (numbers[0], sizeof *numbers, times.median),
           g_ascii_dtostr (numbers[1], sizeof *numbers, times.least),
           g_ascii_dtostr (numbers[2], sizeof *numbers, times.most));
  return *error == NULL;
}
