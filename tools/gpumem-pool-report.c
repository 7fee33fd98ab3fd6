/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "tools/gpumem-format.h"
#include "tools/gpumem-pool.h"
#include "tools/gpumem-table.h"

#define MAX_COLUMNS 4               /* traces side by side */

/* --- replay ------------------------------------------------------------------------------ */

/* The counters in the table, with the names of the statistics of the pool. */
static const struct
{
  const char *title;
  const char *figure;
} counts[] = {
  { "growths", "n-growths" },
  { "maps", "n-maps" },
  { "unmaps", "n-unmaps" },
  { "moved chunks", "n-recycled" },
  { "steals", "n-steals" },
  { "waits", "n-waits" },
  { "hits", "n-hits" },
  { "hits of thread caches", "n-cache-hits" }
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
  add_row (table, "replay loop, subtracted", results, n, format_loop, NULL);
  add_row (table, "peak live", results, n, format_live, NULL);
  add_row (table, "peak managed", results, n, format_managed, NULL);
  add_row (table, "managed / live", results, n, format_ratio, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (counts); i++)
    add_row (table, counts[i].title, results, n, format_count, counts[i].figure);
  add_row (table, "refused", results, n, format_refused, NULL);
  g_print ("\n");
  gpumem_table_print (table, gpumem_terminal_width ());
}

static void
print_refusal (const GpumemReplayed *replayed)
{
  g_autofree char *reason = gpumem_command_plain (replayed->refusal);
  g_autofree char *text = g_strdup_printf ("%s, operation %" G_GSIZE_FORMAT ": %s", replayed->name,
                                           replayed->refused_at, reason);
  g_autofree char *wrapped = gpumem_terminal_wrap (text, gpumem_terminal_width ());

  g_print ("\n%s%s%s", gpumem_style_begin (GPUMEM_STYLE_BAD), wrapped,
           gpumem_style_end (GPUMEM_STYLE_BAD));
}

void
gpumem_replay_print (const GpumemReplay *replay,
                     GPtrArray          *results)
{
  gpumem_command_print_device (replay->device);
  for (guint i = 0; i < results->len; i += MAX_COLUMNS)
    print_columns ((GpumemReplayed *const *) results->pdata + i,
                   MIN (results->len - i, MAX_COLUMNS));
  if (results->len == 0)
    g_print ("Nothing measured\n");
  for (guint i = 0; i < results->len; i++)
    {
      const GpumemReplayed *replayed = g_ptr_array_index (results, i);

      if (replayed->refusal != NULL)
        print_refusal (replayed);
    }
}

/* --- bench --------------------------------------------------------------------------------- */

static char *
format_nanoseconds (double nanoseconds)
{
  return nanoseconds > 0 ? g_strdup_printf (nanoseconds < 1000 ? "%.1f" : "%.0f", nanoseconds)
                         : NULL;
}

static char *
format_speedup (double ratio)
{
  return g_strdup_printf (ratio < 10 ? "%.2f" : ratio < 100 ? "%.1f" : "%.0f", ratio);
}

static void
add_latency (GpumemTable         *table,
             const GpumemLatency *latency)
{
  g_autofree char *n_threads = g_strdup_printf ("%u", latency->n_threads);
  char *cells[8] = { NULL };
  GpumemTimes ratio;

  for (guint i = 0; i <= GPUMEM_SOURCE_MALLOC; i++)
    cells[i] = format_nanoseconds (latency->times[i].median);
  if (gpumem_latency_get_ratio (latency, &ratio))
    {
      cells[5] = format_speedup (ratio.median);
      cells[6] = format_speedup (ratio.least);
      cells[7] = format_speedup (ratio.most);
    }
  gpumem_table_add (table, GPUMEM_STYLE_PLAIN,
                    (const char *const[]) { latency->workload, n_threads, cells[0], cells[1],
                                            cells[2], cells[3], cells[4], cells[5], cells[6],
                                            cells[7] });
  for (guint i = 0; i < G_N_ELEMENTS (cells); i++)
    g_free (cells[i]);
}

/* A row for each library, because a column for each would not fit in a terminal. */
static void
add_libraries (GpumemTable         *table,
               const GpumemLatency *latency)
{
  static const char *const names[GPUMEM_N_SOURCES] = {
    [GPUMEM_SOURCE_JEMALLOC] = "  jemalloc", [GPUMEM_SOURCE_MIMALLOC] = "  mimalloc"
  };
  g_autofree char *n_threads = g_strdup_printf ("%u", latency->n_threads);

  for (guint i = GPUMEM_SOURCE_JEMALLOC; i < GPUMEM_N_SOURCES; i++)
    {
      g_autofree char *time = format_nanoseconds (latency->times[i].median);

      if (time != NULL)
        gpumem_table_add (table, GPUMEM_STYLE_PLAIN,
                          (const char *const[]) { names[i], n_threads, NULL, NULL, NULL, NULL, time,
                                                  NULL, NULL, NULL });
    }
}

static void
print_omissions (const GpumemPoolBench *bench)
{
  static const GpumemColumn columns[] = { { NULL, FALSE, 1 } };
  g_autoptr (GpumemTable) table = gpumem_table_new (columns, 1);

  if (bench->omissions->len == 0)
    return;
  g_print ("\n%sLeft out%s\n", gpumem_style_begin (GPUMEM_STYLE_TITLE),
           gpumem_style_end (GPUMEM_STYLE_TITLE));
  for (guint i = 0; i < bench->omissions->len; i++)
    {
      g_autofree char *reason = gpumem_command_plain (g_ptr_array_index (bench->omissions, i));
      g_autofree char *line = g_strconcat ("  ", reason, NULL);

      gpumem_table_add (table, GPUMEM_STYLE_PLAIN, (const char *const[]) { line });
    }
  gpumem_table_print (table, gpumem_terminal_width ());
}

void
gpumem_pool_bench_print (const GpumemPoolBench *bench)
{
  static const GpumemColumn columns[] = {
    { "WORKLOAD", FALSE, 20 }, { "THREADS", TRUE, 0 }, { "BLOCK", TRUE, 0 }, { "BUFFER", TRUE, 0 },
    { "DEVICE", TRUE, 0 }, { "STREAM", TRUE, 0 }, { "MALLOC", TRUE, 0 }, { "RATIO", TRUE, 0 },
    { "MIN", TRUE, 0 }, { "MAX", TRUE, 0 }
  };
  g_autoptr (GpumemTable) table = gpumem_table_new (columns, G_N_ELEMENTS (columns));

  gpumem_command_print_device (bench->device);
  g_print ("Pool of kind %s; ns of an allocation and a free.\n"
           "RATIO is that of the driver's time to the pool's, MIN and MAX its extremes.\n\n",
           gpumem_pool_kind_get_name (bench->kind));
  for (guint i = 0; i < bench->latencies->len; i++)
    {
      add_latency (table, g_ptr_array_index (bench->latencies, i));
      add_libraries (table, g_ptr_array_index (bench->latencies, i));
    }
  if (bench->latencies->len > 0)
    gpumem_table_print (table, gpumem_terminal_width ());
  else
    g_print ("Nothing measured\n");
  print_omissions (bench);
}
