/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <string.h>

#include "tools/gpumem-html.h"
#include "tools/gpumem-pool.h"

static void
add_bytes (GString              *page,
           const GpumemReplayed *replayed,
           const GpumemRecord   *record)
{
  GpumemSeries *managed, *used, *live;
  GpumemChart chart;

  gpumem_chart_init (&chart);
  chart.title = replayed->name;
  chart.x_label = "operations";
  chart.y_label = "memory";
  chart.y_unit = GPUMEM_UNIT_BYTES;
  managed = gpumem_chart_add (&chart, "managed", 0, FALSE);
  used = gpumem_chart_add (&chart, "used, with rounding", 1, FALSE);
  live = gpumem_chart_add (&chart, "live", 2, FALSE);
  for (guint i = 0; i < record->samples->len; i++)
    {
      const GpumemSample *sample = &g_array_index (record->samples, GpumemSample, i);

      gpumem_series_add (managed, sample->operation, sample->managed);
      gpumem_series_add (used, sample->operation, sample->used);
      gpumem_series_add (live, sample->operation, sample->live);
    }
  gpumem_html_chart (page, &chart);
  gpumem_chart_clear (&chart);
}

static void
add_number (GString    *page,
            const char *name,
            guint64     number)
{
  g_autofree char *text = g_strdup_printf ("%" G_GUINT64_FORMAT, number);

  gpumem_html_row (page, (const char *const[]) { name, text, NULL });
}

static void
add_figures (GString              *page,
             const GpumemReplayed *replayed)
{
  g_autofree char *time = g_strdup_printf ("%.1f", replayed->nanoseconds);
  g_autofree char *ratio = g_strdup_printf ("%.4f", (double) replayed->peak_managed /
                                                    MAX (replayed->peak_live, 1));
  GVariantIter iter;
  const char *name;
  GVariant *value;

  gpumem_html_begin_table (page, (const char *const[]) { "Figure", "Value", NULL });
  add_number (page, "operations", replayed->n_operations);
  gpumem_html_row (page, (const char *const[]) { "ns per operation", time, NULL });
  add_number (page, "peak of live bytes", replayed->peak_live);
  add_number (page, "peak of managed bytes", replayed->peak_managed);
  gpumem_html_row (page, (const char *const[]) { "managed / live", ratio, NULL });
  add_number (page, "failed allocations", replayed->n_refused);
  g_variant_iter_init (&iter, replayed->statistics);
  while (g_variant_iter_loop (&iter, "{&sv}", &name, &value))
    add_number (page, name, g_variant_get_uint64 (value));
  gpumem_html_end_table (page);
  if (replayed->refusal != NULL)
    gpumem_html_paragraph (page, replayed->refusal);
}

gboolean
gpumem_replay_save_report (const GpumemReplay    *replay,
                           const GpumemReplayed  *replayed,
                           const GpumemRecord    *record,
                           const char            *path,
                           GError               **error)
{
  g_autofree char *title = g_strdup_printf ("gpumem pool replay: %s on %s", replayed->name,
                                            gpu_device_get_id (replay->device));
  g_autoptr (GString) page = gpumem_html_begin (title);

  gpumem_html_heading (page, "Replay");
  add_bytes (page, replayed, record);
  add_figures (page, replayed);
  return gpumem_html_save (page, path, error);
}

/* --- bench ----------------------------------------------------------------------------------- */

/* Draws a series of points for each source. The x axis shows the number of the workload in the
 * table. */
static void
add_times (GString               *page,
           const GpumemPoolBench *bench)
{
  GpumemChart chart;

  gpumem_chart_init (&chart);
  chart.title = "Time of an allocation and its free";
  chart.y_logarithmic = TRUE;
  chart.only_points = TRUE;
  chart.x_label = "workload, by its number in the table";
  chart.y_label = "ns";
  for (guint source = 0; source < GPUMEM_N_SOURCES; source++)
    {
      g_autofree char *name = g_strndup (gpumem_source_get_name (source),
                                         strlen (gpumem_source_get_name (source)) - strlen ("-ns"));
      GpumemSeries *series = gpumem_chart_add (&chart, name, source, FALSE);

      for (guint i = 0; i < bench->latencies->len; i++)
        {
          const GpumemLatency *latency = g_ptr_array_index (bench->latencies, i);

          if (latency->times[source].median > 0)
            gpumem_series_add (series, i + 1, latency->times[source].median);
        }
    }
  gpumem_html_chart (page, &chart);
  gpumem_chart_clear (&chart);
}

static char *
format_times (const GpumemTimes *times)
{
  const int n_digits = times->most < 1000 ? 1 : 0;

  return times->median > 0 ? g_strdup_printf ("%.*f (%.*f to %.*f)", n_digits, times->median,
                                              n_digits, times->least, n_digits, times->most)
                           : g_strdup ("-");
}

static void
add_latencies (GString               *page,
               const GpumemPoolBench *bench)
{
  static const char *const columns[] = { "Number", "Workload", "Threads", "Block", "Buffer",
                                         "Device", "On stream", "malloc()", "jemalloc",
                                         "mimalloc", "Ratio", NULL };

  gpumem_html_begin_table (page, columns);
  for (guint i = 0; i < bench->latencies->len; i++)
    {
      const GpumemLatency *latency = g_ptr_array_index (bench->latencies, i);
      g_autofree char *number = g_strdup_printf ("%u", i + 1);
      g_autofree char *n_threads = g_strdup_printf ("%u", latency->n_threads);
      GpumemTimes ratio = { 0 };
      char *cells[GPUMEM_N_SOURCES + 1];

      gpumem_latency_get_ratio (latency, &ratio);
      for (guint j = 0; j < GPUMEM_N_SOURCES; j++)
        cells[j] = format_times (&latency->times[j]);
      cells[GPUMEM_N_SOURCES] = format_times (&ratio);
      gpumem_html_row (page, (const char *const[]) { number, latency->workload, n_threads,
                                                     cells[0], cells[1], cells[2], cells[3],
                                                     cells[4], cells[5], cells[6], cells[7],
                                                     NULL });
      for (guint j = 0; j < G_N_ELEMENTS (cells); j++)
        g_free (cells[j]);
    }
  gpumem_html_end_table (page);
}

gboolean
gpumem_pool_bench_save_report (const GpumemPoolBench  *bench,
                               const char             *path,
                               GError                **error)
{
  g_autofree char *title = g_strdup_printf ("gpumem pool bench: %s, %s",
                                            gpu_device_get_id (bench->device),
                                            gpu_device_get_name (bench->device));
  g_autoptr (GString) page = gpumem_html_begin (title);

  gpumem_html_heading (page, "Allocations");
  gpumem_html_paragraph (page, "Nanoseconds of an allocation and its free: medians, with the "
                               "minimum and the maximum of the rounds. The ratio is that of the "
                               "driver's time to the pool's.");
  add_times (page, bench);
  add_latencies (page, bench);
  for (guint i = 0; i < bench->omissions->len; i++)
    gpumem_html_paragraph (page, g_ptr_array_index (bench->omissions, i));
  return gpumem_html_save (page, path, error);
}
