/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <stdio.h>

#include "tools/gpumem-format.h"
#include "tools/gpumem-pool.h"
#include "tools/gpumem-table.h"

#define MAX_COLUMNS 4               /* traces side by side */

static void
print_device (GpuDevice *device)
{
  g_print ("%s%s: %s, driver %s%s\n", gpumem_style_begin (GPUMEM_STYLE_TITLE),
           gpu_device_get_id (device), gpu_device_get_name (device),
           gpu_device_get_driver_version (device), gpumem_style_end (GPUMEM_STYLE_TITLE));
}

/* --- replay ------------------------------------------------------------------------------ */

/* The counters, by the names of the statistics of the pool. */
static const struct
{
  const char *title;
  const char *figure;
} counts[] = {
  { "growths", "n-growths" },
  { "maps", "n-maps" },
  { "unmaps", "n-unmaps" },
  { "recycled pieces", "n-recycled" },
  { "steals", "n-steals" },
  { "waits", "n-waits" },
  { "hits", "n-hits" },
  { "hits of caches", "n-cache-hits" }
};

typedef char *(*FormatFunc) (const GpumemReplayed *replayed,
                             const char           *figure);

static char *
format_kind (const GpumemReplayed *replayed,
             const char           *figure G_GNUC_UNUSED)
{
  return g_strdup_printf ("%s, %s", gpumem_pool_kind_get_name (replayed->kind),
                          replayed->has_blocks ? "blocks" : "buffers");
}

static char *
format_operations (const GpumemReplayed *replayed,
                   const char           *figure G_GNUC_UNUSED)
{
  return g_strdup_printf ("%" G_GSIZE_FORMAT, replayed->n_operations);
}

static char *
format_streams (const GpumemReplayed *replayed,
                const char           *figure G_GNUC_UNUSED)
{
  return g_strdup_printf ("%u", replayed->trace->streams->len);
}

static char *
format_time (const GpumemReplayed *replayed,
             const char           *figure G_GNUC_UNUSED)
{
  return g_strdup_printf ("%.1f", replayed->nanoseconds);
}

static char *
format_loop (const GpumemReplayed *replayed,
             const char           *figure G_GNUC_UNUSED)
{
  return g_strdup_printf ("%.1f", replayed->loop);
}

static char *
format_live (const GpumemReplayed *replayed,
             const char           *figure G_GNUC_UNUSED)
{
  return gpumem_format_size (replayed->peak_live);
}

static char *
format_managed (const GpumemReplayed *replayed,
                const char           *figure G_GNUC_UNUSED)
{
  return gpumem_format_size (replayed->peak_managed);
}

static char *
format_ratio (const GpumemReplayed *replayed,
              const char           *figure G_GNUC_UNUSED)
{
  if (replayed->peak_live == 0)
    return g_strdup ("-");
  return g_strdup_printf ("%.4f", (double) replayed->peak_managed / replayed->peak_live);
}

static char *
format_count (const GpumemReplayed *replayed,
              const char           *figure)
{
  return g_strdup_printf ("%" G_GUINT64_FORMAT, gpumem_replayed_get (replayed, figure));
}

static char *
format_refused (const GpumemReplayed *replayed,
                const char           *figure G_GNUC_UNUSED)
{
  return g_strdup_printf ("%" G_GUINT64_FORMAT, replayed->n_refused);
}

static void
add_row (GpumemTable           *table,
         const char            *title,
         GpumemReplayed *const *results,
         guint                  n,
         FormatFunc             format,
         const char            *figure)
{
  char *cells[MAX_COLUMNS + 2] = { (char *) title };

  for (guint i = 0; i < n; i++)
    cells[i + 1] = format (results[i], figure);
  gpumem_table_add (table, GPUMEM_STYLE_PLAIN, (const char *const *) cells);
  for (guint i = 0; i < n; i++)
    g_free (cells[i + 1]);
}

static void
print_columns (GpumemReplayed *const *results,
               guint                  n)
{
  GpumemColumn columns[MAX_COLUMNS + 1] = { { "TRACE", FALSE, 0 } };
  g_autoptr (GpumemTable) table = NULL;

  for (guint i = 0; i < n; i++)
    columns[i + 1] = (GpumemColumn) { results[i]->name, TRUE, 12 };
  table = gpumem_table_new (columns, n + 1);
  add_row (table, "pool", results, n, format_kind, NULL);
  add_row (table, "operations", results, n, format_operations, NULL);
  add_row (table, "streams", results, n, format_streams, NULL);
  add_row (table, "ns per operation", results, n, format_time, NULL);
  add_row (table, "taken off: the loop", results, n, format_loop, NULL);
  add_row (table, "peak live", results, n, format_live, NULL);
  add_row (table, "peak managed", results, n, format_managed, NULL);
  add_row (table, "managed / live", results, n, format_ratio, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (counts); i++)
    add_row (table, counts[i].title, results, n, format_count, counts[i].figure);
  add_row (table, "refused", results, n, format_refused, NULL);
  g_print ("\n");
  gpumem_table_print (table, gpumem_terminal_width ());
}

void
gpumem_replay_print (const GpumemReplay *replay,
                     GPtrArray          *results)
{
  print_device (replay->device);
  for (guint i = 0; i < results->len; i += MAX_COLUMNS)
    print_columns ((GpumemReplayed *const *) results->pdata + i,
                   MIN (results->len - i, MAX_COLUMNS));
  for (guint i = 0; i < results->len; i++)
    {
      const GpumemReplayed *replayed = g_ptr_array_index (results, i);

      if (replayed->refusal != NULL)
        g_print ("\n%s%s, operation %" G_GSIZE_FORMAT ": %s%s\n",
                 gpumem_style_begin (GPUMEM_STYLE_BAD), replayed->name, replayed->refused_at,
                 replayed->refusal, gpumem_style_end (GPUMEM_STYLE_BAD));
    }
  fflush (stdout);
}

/* --- bench --------------------------------------------------------------------------------- */

static char *
format_nanoseconds (double nanoseconds)
{
  return nanoseconds > 0 ? g_strdup_printf (nanoseconds < 1000 ? "%.1f" : "%.0f", nanoseconds)
                         : NULL;
}

/* Returns the ratio of the faster driver allocation to that of the pool. */
static char *
format_gain (const GpumemLatency *latency)
{
  const double *all = latency->nanoseconds;
  double ours = all[GPUMEM_SOURCE_BLOCKS] > 0 ? all[GPUMEM_SOURCE_BLOCKS]
                                              : all[GPUMEM_SOURCE_BUFFERS];
  double theirs = all[GPUMEM_SOURCE_DEVICE];

  if (all[GPUMEM_SOURCE_STREAM] > 0)
    theirs = MIN (theirs, all[GPUMEM_SOURCE_STREAM]);
  return ours > 0 && theirs > 0 ? g_strdup_printf ("%.2f", theirs / ours) : NULL;
}

static void
add_latency (GpumemTable         *table,
             const GpumemLatency *latency)
{
  g_autofree char *n_threads = g_strdup_printf ("%u", latency->n_threads);
  g_autofree char *gain = format_gain (latency);
  char *cells[GPUMEM_N_SOURCES];

  for (guint i = 0; i < GPUMEM_N_SOURCES; i++)
    cells[i] = format_nanoseconds (latency->nanoseconds[i]);
  gpumem_table_add (table, GPUMEM_STYLE_PLAIN,
                    (const char *const[]) { latency->workload, n_threads, cells[0], cells[1],
                                            cells[2], cells[3], gain });
  for (guint i = 0; i < GPUMEM_N_SOURCES; i++)
    g_free (cells[i]);
}

void
gpumem_pool_bench_print (const GpumemPoolBench *bench)
{
  static const GpumemColumn columns[] = {
    { "WORKLOAD", FALSE, 20 }, { "THREADS", TRUE, 0 }, { "BLOCK", TRUE, 0 }, { "BUFFER", TRUE, 0 },
    { "DEVICE", TRUE, 0 }, { "ON STREAM", TRUE, 0 }, { "RATIO", TRUE, 0 }
  };
  g_autoptr (GpumemTable) table = gpumem_table_new (columns, G_N_ELEMENTS (columns));

  print_device (bench->device);
  g_print ("Pool of kind %s; ns of an allocation and a free; the ratio is that of the driver's "
           "time to the pool's\n\n", gpumem_pool_kind_get_name (bench->kind));
  for (guint i = 0; i < bench->latencies->len; i++)
    add_latency (table, g_ptr_array_index (bench->latencies, i));
  gpumem_table_print (table, gpumem_terminal_width ());
  if (bench->omissions->len > 0)
    g_print ("\n%sLeft out%s\n", gpumem_style_begin (GPUMEM_STYLE_TITLE),
             gpumem_style_end (GPUMEM_STYLE_TITLE));
  for (guint i = 0; i < bench->omissions->len; i++)
    g_print ("  %s\n", (const char *) g_ptr_array_index (bench->omissions, i));
  fflush (stdout);
}
