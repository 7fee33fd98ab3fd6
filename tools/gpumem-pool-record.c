/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Records the state of a pool while a trace is replayed, for a diagram and for external viewers. */
#include "config.h"

#include <string.h>

#include "tools/gpumem-plot.h"
#include "tools/gpumem-pool.h"
#ifdef HAVE_TOUR
#include "tools/gpumem-snapshot.h"
#endif

static void
add_event (GpumemRecord          *record,
           const GpumemPoolEvent *event)
{
  GpumemPoolEvent *place = &record->events[record->n_events++ % GPUMEM_MAX_EVENTS];

  *place = *event;
  place->time = g_get_monotonic_time ();
}

static guint64
get_device_free (GpuMemoryPool *pool)
{
  GpuContext *context = gpu_allocator_get_context (GPU_ALLOCATOR (pool));
  GpuMemoryInfoSource source;
  guint64 free = 0, total;

  gpu_context_get_memory_info (context, &free, &total, &source, NULL);
  return free;
}

/* Records each free as completed, because the pool does not report the completion of pending
 * uses. */
void
gpumem_record_add (GpumemRecord               *record,
                   GpuMemoryPool              *pool,
                   const GpumemTraceOperation *operation,
                   guint64                     address,
                   const GError               *refusal)
{
  GpumemPoolEvent event = { .address = address, .size = operation->size,
                            .stream = operation->stream + 1 };
  guint64 managed;

  if (record->events == NULL)
    return;
  g_object_get (pool, "managed-bytes", &managed, NULL);
  if (managed != record->managed)
    {
      const gboolean more = managed > record->managed;
      const GpumemPoolEvent change = { .action = more ? "segment_map" : "segment_unmap",
                                       .size = more ? managed - record->managed
                                                    : record->managed - managed };

      add_event (record, &change);
      record->managed = managed;
    }
  if (refusal != NULL)
    {
      event.action = "oom";
      event.device_free = get_device_free (pool);
      add_event (record, &event);
    }
  else if (address != 0)
    {
      event.action = operation->is_free ? "free_requested" : "alloc";
      add_event (record, &event);
      if (operation->is_free)
        {
          event.action = "free_completed";
          add_event (record, &event);
        }
    }
}

void
gpumem_record_sample (GpumemRecord  *record,
                      GpuMemoryPool *pool,
                      gsize          operation)
{
  GpumemSample sample = { .operation = operation };

  g_object_get (pool, "active-bytes", &sample.live, "used-bytes", &sample.used, "managed-bytes",
                &sample.managed, NULL);
  g_array_append_val (record->samples, sample);
}

void
gpumem_record_clear (GpumemRecord *record)
{
  g_clear_pointer (&record->samples, g_array_unref);
  g_clear_pointer (&record->events, g_free);
  g_clear_pointer (&record->snapshot, g_variant_unref);
}

/* --- the diagram ----------------------------------------------------------------------------- */

gboolean
gpumem_replay_plot (const GpumemReplay    *replay,
                    const GpumemReplayed  *replayed,
                    const GpumemRecord    *record,
                    const char            *path,
                    GError               **error)
{
  const double mib = 1 << 20;
  g_autoptr (GString) script = gpumem_plot_begin (path);
  g_autofree char *title = g_strdup_printf ("%s on %s, pool of kind %s", replayed->name,
                                            gpu_device_get_id (replay->device),
                                            gpumem_pool_kind_get_name (replayed->kind));

  g_string_append (script, "set title ");
  gpumem_plot_append_quoted (script, title);
  g_string_append (script,
                   " noenhanced\nset xlabel 'operations'\nset ylabel 'MiB'\nset grid\n"
                   "set yrange [0:*]\nset rmargin 6\nset key outside below\n");
  g_string_append_printf (script, "set xrange [0:%" G_GSIZE_FORMAT "]\n$samples << END\n",
                          replayed->n_operations);
  for (guint i = 0; i < record->samples->len; i++)
    {
      const GpumemSample *sample = &g_array_index (record->samples, GpumemSample, i);

      g_string_append_printf (script, "%" G_GSIZE_FORMAT, sample->operation);
      gpumem_plot_append_number (script, sample->live / mib);
      gpumem_plot_append_number (script, sample->used / mib);
      gpumem_plot_append_number (script, sample->managed / mib);
      g_string_append_c (script, '\n');
    }
  g_string_append (script,
                   "END\n"
                   "plot $samples using 1:4 with lines lw 2 title 'managed', "
                   "$samples using 1:3 with lines title 'used, with rounding', "
                   "$samples using 1:2 with lines title 'live'\n");
  return gpumem_plot_draw (path, script->str, error);
}

/* --- viewers ----------------------------------------------------------------------------- */

#ifdef HAVE_TOUR
static GVariant *
describe_event (const GpumemPoolEvent *event)
{
  GVariantDict dict;

  g_variant_dict_init (&dict, NULL);
  g_variant_dict_insert (&dict, "action", "s", event->action);
  g_variant_dict_insert (&dict, "time", "t", event->time);
  g_variant_dict_insert (&dict, "address", "t", event->address);
  g_variant_dict_insert (&dict, "size", "t", event->size);
  g_variant_dict_insert (&dict, "stream", "u", event->stream);
  g_variant_dict_insert (&dict, "device-free", "t", event->device_free);
  return g_variant_dict_end (&dict);
}

/* If @with_segments is FALSE, omits the events of segments, because the record has only the sizes
 * of segments, not their addresses. */
static GVariant *
list_events (const GpumemRecord *record,
             gboolean            with_segments)
{
  const gsize n = MIN (record->n_events, GPUMEM_MAX_EVENTS);
  GVariantBuilder builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE ("aa{sv}"));
  for (gsize i = record->n_events - n; i < record->n_events; i++)
    {
      const GpumemPoolEvent *event = &record->events[i % GPUMEM_MAX_EVENTS];

      if (with_segments || !g_str_has_prefix (event->action, "segment"))
        g_variant_builder_add_value (&builder, describe_event (event));
    }
  return g_variant_ref_sink (g_variant_builder_end (&builder));
}

static gboolean
save (JsonNode    *node,
      const char  *path,
      GError     **error)
{
  g_autoptr (GBytes) bytes = NULL;
  char *text;

  if (g_str_has_suffix (path, ".pickle"))
    bytes = gpumem_snapshot_pickle (node);
  else
    {
      text = json_to_string (node, FALSE);
      bytes = g_bytes_new_take (text, strlen (text));
    }
  return g_file_set_contents (path, g_bytes_get_data (bytes, NULL), g_bytes_get_size (bytes),
                              error);
}

gboolean
gpumem_record_save (const GpumemRecord  *record,
                    const char          *snapshot,
                    const char          *perfetto,
                    GError             **error)
{
  if (snapshot != NULL)
    {
      g_autoptr (GVariant) events = list_events (record, FALSE);
      g_autoptr (JsonNode) node = gpumem_snapshot_to_viewer (record->snapshot, events, error);

      if (node == NULL || !save (node, snapshot, error))
        return FALSE;
    }
  if (perfetto != NULL)
    {
      g_autoptr (GVariant) events = list_events (record, TRUE);
      g_autoptr (JsonNode) node = gpumem_snapshot_to_perfetto (events, error);

      if (node == NULL || !save (node, perfetto, error))
        return FALSE;
    }
  return TRUE;
}
#endif
