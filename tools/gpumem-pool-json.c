/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "tools/gpumem-json.h"
#include "tools/gpumem-pool.h"

static JsonBuilder *
begin (GpuDevice    *device,
       GCancellable *cancellable)
{
  JsonBuilder *builder = json_builder_new ();

  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "device");
  json_builder_begin_object (builder);
  gpumem_json_add_device (builder, device);
  json_builder_end_object (builder);
  gpumem_json_add_boolean (builder, "interrupted", g_cancellable_is_cancelled (cancellable));
  return builder;
}

/* Adds the statistics that the pool had at the end of the replay, as members with their names. */
static void
add_statistics (JsonBuilder *builder,
                GVariant    *statistics)
{
  GVariantIter iter;
  const char *name;
  GVariant *value;

  json_builder_set_member_name (builder, "statistics");
  json_builder_begin_object (builder);
  g_variant_iter_init (&iter, statistics);
  while (g_variant_iter_loop (&iter, "{&sv}", &name, &value))
    gpumem_json_add_int (builder, name, g_variant_get_uint64 (value));
  json_builder_end_object (builder);
}

static void
add_replayed (JsonBuilder          *builder,
              const GpumemReplayed *replayed)
{
  const GpumemTrace *trace = replayed->trace;

  json_builder_begin_object (builder);
  gpumem_json_add_string (builder, "trace", replayed->path);
  gpumem_json_add_string (builder, "comment", trace->comment);
  gpumem_json_add_string (builder, "kind", gpumem_pool_kind_get_name (replayed->kind));
  gpumem_json_add_string (builder, "taken", replayed->has_blocks ? "blocks" : "buffers");
  gpumem_json_add_int (builder, "operations", replayed->n_operations);
  gpumem_json_add_int (builder, "allocations", trace->n_blocks);
  gpumem_json_add_int (builder, "streams", trace->streams->len);
  gpumem_json_add_double (builder, "ns-per-operation", replayed->nanoseconds);
  gpumem_json_add_double (builder, "loop-ns-per-operation", replayed->loop);
  gpumem_json_add_int (builder, "peak-live", replayed->peak_live);
  gpumem_json_add_int (builder, "peak-live-of-trace", trace->peak_live);
  gpumem_json_add_int (builder, "peak-managed", replayed->peak_managed);
  if (replayed->peak_live > 0)
    gpumem_json_add_double (builder, "ratio",
                            (double) replayed->peak_managed / replayed->peak_live);
  gpumem_json_add_int (builder, "refused", replayed->n_refused);
  if (replayed->refusal != NULL)
    gpumem_json_add_int (builder, "refused-at", replayed->refused_at);
  gpumem_json_add_string (builder, "refusal", replayed->refusal);
  add_statistics (builder, replayed->statistics);
  json_builder_end_object (builder);
}

void
gpumem_replay_print_json (const GpumemReplay *replay,
                          GPtrArray          *results,
                          gboolean            csv)
{
  g_autoptr (JsonBuilder) builder = begin (replay->device, replay->cancellable);

  json_builder_set_member_name (builder, "results");
  json_builder_begin_array (builder);
  for (guint i = 0; i < results->len; i++)
    add_replayed (builder, g_ptr_array_index (results, i));
  json_builder_end_array (builder);
  json_builder_end_object (builder);
  gpumem_json_print (builder, csv ? "results" : NULL);
}

static void
add_latency (JsonBuilder         *builder,
             const GpumemLatency *latency)
{
  GpumemTimes ratio;

  json_builder_begin_object (builder);
  gpumem_json_add_string (builder, "workload", latency->workload);
  gpumem_json_add_int (builder, "threads", latency->n_threads);
  for (guint i = 0; i < GPUMEM_N_SOURCES; i++)
    if (latency->times[i].median > 0)
      gpumem_json_add_double (builder, gpumem_source_get_name (i), latency->times[i].median);
  if (gpumem_latency_get_ratio (latency, &ratio))
    {
      gpumem_json_add_double (builder, "ratio", ratio.median);
      gpumem_json_add_double (builder, "ratio-least", ratio.least);
      gpumem_json_add_double (builder, "ratio-most", ratio.most);
    }
  json_builder_end_object (builder);
}

void
gpumem_pool_bench_print_json (const GpumemPoolBench *bench,
                              gboolean               csv)
{
  g_autoptr (JsonBuilder) builder = begin (bench->device, bench->cancellable);

  gpumem_json_add_string (builder, "kind", gpumem_pool_kind_get_name (bench->kind));
  gpumem_json_add_boolean (builder, "blocks", bench->has_blocks);
  json_builder_set_member_name (builder, "results");
  json_builder_begin_array (builder);
  for (guint i = 0; i < bench->latencies->len; i++)
    add_latency (builder, g_ptr_array_index (bench->latencies, i));
  json_builder_end_array (builder);
  json_builder_set_member_name (builder, "left-out");
  json_builder_begin_array (builder);
  for (guint i = 0; i < bench->omissions->len; i++)
    json_builder_add_string_value (builder, g_ptr_array_index (bench->omissions, i));
  json_builder_end_array (builder);
  json_builder_end_object (builder);
  gpumem_json_print (builder, csv ? "results" : NULL);
}
