/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The history of a pool: its most recent events. */
#include "config.h"

#include "gpumem/pool/gpu-memory-pool-private.h"

typedef struct
{
  GpuPoolAction action;
  guint32       stream;             /* number of the stream, from 1; 0 for none */
  guint64       time;               /* microseconds */
  guint64       address;
  guint64       size;               /* bytes */
  guint64       device_free;        /* bytes; used only for GPU_POOL_OUT_OF_MEMORY */
} Event;

struct _GpuPoolHistory
{
  GMutex      lock;                 /* guards the other members; no other lock is taken while it is
                                     * held */
  Event      *events;               /* a ring buffer, or NULL */
  guint       n_room;               /* length of `events` */
  guint64     n_events;             /* events recorded since the history was resized */
  GHashTable *streams;              /* numbers of streams by key; the stream of a key may no longer
                                     * exist */
};

GpuPoolHistory *
_gpu_pool_history_new (void)
{
  GpuPoolHistory *history = g_new0 (GpuPoolHistory, 1);

  g_mutex_init (&history->lock);
  history->streams = g_hash_table_new (NULL, NULL);

  return history;
}

void
_gpu_pool_history_free (GpuPoolHistory *history)
{
  g_hash_table_unref (history->streams);
  g_free (history->events);
  g_mutex_clear (&history->lock);
  g_free (history);
}

guint32
_gpu_pool_streams_get_number (GHashTable *streams,
                              gpointer    key)
{
  gpointer number;

  if (key == NULL)
    return 0;

  number = g_hash_table_lookup (streams, key);

  if (number == NULL)
    {
      number = GUINT_TO_POINTER (g_hash_table_size (streams) + 1);
      g_hash_table_insert (streams, key, number);
    }

  return GPOINTER_TO_UINT (number);
}

void
_gpu_pool_core_record (GpuPoolCore   *core,
                       GpuPoolAction  action,
                       guint64        address,
                       gsize          size,
                       gpointer       key)
{
  GpuPoolHistory *history = core->history;
  guint64 total = core->context->devices[0]->memory_size;
  guint64 held = (gsize) g_atomic_pointer_get (&core->context->allocated);
  Event event = { .action = action, .address = address, .size = size,
                  .device_free = total - MIN (held, total) };

  g_mutex_lock (&history->lock);

  if (history->n_room > 0)
    {
      event.time = (guint64) g_get_monotonic_time ();
      event.stream = _gpu_pool_streams_get_number (history->streams, key);
      history->events[history->n_events++ % history->n_room] = event;
    }

  g_mutex_unlock (&history->lock);
}

GHashTable *
_gpu_pool_core_list_streams (GpuPoolCore *core)
{
  GHashTable *streams = g_hash_table_new (NULL, NULL);
  GHashTableIter iter;
  gpointer key, number;

  g_mutex_lock (&core->history->lock);
  g_hash_table_iter_init (&iter, core->history->streams);

  while (g_hash_table_iter_next (&iter, &key, &number))
    g_hash_table_insert (streams, key, number);

  g_mutex_unlock (&core->history->lock);

  return streams;
}

static void
add_event (GVariantBuilder *builder,
           const Event     *event,
           const char      *action)
{
  GVariantDict dict;

  g_variant_dict_init (&dict, NULL);
  g_variant_dict_insert (&dict, "action", "s", action);
  g_variant_dict_insert (&dict, "time", "t", event->time);
  g_variant_dict_insert (&dict, "size", "t", event->size);

  if (event->stream != 0)
    g_variant_dict_insert (&dict, "stream", "u", event->stream);

  if (event->action == GPU_POOL_OUT_OF_MEMORY)
    g_variant_dict_insert (&dict, "device-free", "t", event->device_free);
  else
    g_variant_dict_insert (&dict, "address", "t", event->address);

  g_variant_builder_add_value (builder, g_variant_dict_end (&dict));
}

/* Viewers of snapshots expect two events for each free: "free_requested" and "free_completed". */
static void
describe_event (GVariantBuilder *builder,
                const Event     *event)
{
  static const char *const names[] =
  {
    [GPU_POOL_ALLOC] = "alloc",
    [GPU_POOL_RELEASE] = "free_requested",
    [GPU_POOL_SEGMENT_ALLOC] = "segment_alloc",
    [GPU_POOL_SEGMENT_FREE] = "segment_free",
    [GPU_POOL_CHUNK_MAP] = "segment_map",
    [GPU_POOL_CHUNK_UNMAP] = "segment_unmap",
    [GPU_POOL_OUT_OF_MEMORY] = "oom",
    [GPU_POOL_GRAPH_ALLOC] = "graph_alloc",
    [GPU_POOL_GRAPH_FREE] = "graph_free"
  };

  add_event (builder, event, names[event->action]);

  if (event->action == GPU_POOL_RELEASE)
    add_event (builder, event, "free_completed");
}

static void
copy_events (GpuPoolHistory *history,
             GArray         *events)
{
  guint64 first;

  g_mutex_lock (&history->lock);
  first = history->n_events > history->n_room ? history->n_events - history->n_room : 0;

  for (guint64 i = first; i < history->n_events; i++)
    g_array_append_val (events, history->events[i % history->n_room]);

  g_mutex_unlock (&history->lock);
}

/**
 * gpu_memory_pool_get_history:
 * @pool: a #GpuMemoryPool
 *
 * Gets the most recent events of the pool, the oldest first. The list is empty if
 * #GpuMemoryPool:history-size is 0. Each event has
 *
 * - `action`, s: "alloc" when memory is allocated; "free_requested", followed by "free_completed",
 *   when memory is freed, even if it has pending uses; "segment_alloc", "segment_free",
 *   "segment_map" and "segment_unmap" when the pool gets memory from the driver or its allocator,
 *   returns it, maps it or unmaps it; "oom" when a request fails for lack of memory; "graph_alloc"
 *   and "graph_free" when memory of a captured graph is allocated or freed (see #GpuPoolHooks).
 *   That memory is in larger blocks, which the graph owns, and which have "alloc" events without a
 *   stream
 * - `time`, t: microseconds of g_get_monotonic_time()
 * - `size`, t: bytes. For allocations and frees, this is the requested size. For a failed request
 *   for several blocks, it is the sum of their sizes
 * - `address`, t, except in "oom": the address. As in gpu_memory_pool_snapshot(), the address may
 *   be artificial
 * - `stream`, u: the number of the stream on which the memory was allocated or freed, as in
 *   gpu_memory_pool_snapshot(); a new stream may get the number of a stream that no longer exists
 * - `device-free`, t, in "oom": bytes of device memory that are not allocated by the context
 *
 * The memory viewer of PyTorch expects events with these names in `device_traces`. May be called
 * from any thread; does not block.
 *
 * Returns: (transfer full): the events, an array of type aa{sv}
 *
 * Since: 0.1
 */
GVariant *
gpu_memory_pool_get_history (GpuMemoryPool *pool)
{
  g_autoptr (GArray) events = g_array_new (FALSE, FALSE, sizeof (Event));
  GVariantBuilder builder;

  g_return_val_if_fail (GPU_IS_MEMORY_POOL (pool), NULL);

  if (pool->core != NULL)
    copy_events (pool->core->history, events);

  g_variant_builder_init (&builder, G_VARIANT_TYPE ("aa{sv}"));

  for (guint i = 0; i < events->len; i++)
    describe_event (&builder, &g_array_index (events, Event, i));

  return g_variant_ref_sink (g_variant_builder_end (&builder));
}

guint
_gpu_pool_history_get_size (GpuPoolHistory *history)
{
  guint n;

  g_mutex_lock (&history->lock);
  n = history->n_room;
  g_mutex_unlock (&history->lock);

  return n;
}

/**
 * gpu_memory_pool_set_history_size:
 * @pool: a #GpuMemoryPool
 * @n_events: the number of events to keep, at most %GPU_MEMORY_POOL_MAX_HISTORY; 0 to keep none
 * @error: return location for an error
 *
 * Sets the number of events that the pool keeps (see gpu_memory_pool_get_history()), and discards
 * all earlier events. To record an event, the pool takes a lock and reads the clock. If @n_events
 * is 0, the pool records nothing. Does not block; may be called from any thread.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_INVALID_ARGUMENT if @n_events is too large or @pool was
 *   never initialised
 *
 * Since: 0.1
 */
gboolean
gpu_memory_pool_set_history_size (GpuMemoryPool  *pool,
                                  guint           n_events,
                                  GError        **error)
{
  const char *function = "gpu_memory_pool_set_history_size";
  g_autofree Event *events = NULL;
  g_autofree Event *old = NULL;
  GpuPoolHistory *history;
  gboolean changed;

  g_return_val_if_fail (GPU_IS_MEMORY_POOL (pool), FALSE);
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);

  if (!_gpu_memory_pool_check (pool, function, error))
    return FALSE;

  if (n_events > GPU_MEMORY_POOL_MAX_HISTORY)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "%s: a pool keeps at most %u events, not %u", function,
                   GPU_MEMORY_POOL_MAX_HISTORY, n_events);
      return FALSE;
    }

  history = pool->core->history;
  events = n_events > 0 ? g_new0 (Event, n_events) : NULL;

  g_mutex_lock (&history->lock);
  changed = history->n_room != n_events;
  history->n_room = n_events;
  history->n_events = 0;
  old = g_steal_pointer (&history->events);
  history->events = g_steal_pointer (&events);

  if (n_events > 0)
    g_atomic_int_or (&pool->core->modes, GPU_POOL_RECORDS);
  else
    g_atomic_int_and (&pool->core->modes, ~GPU_POOL_RECORDS);

  g_mutex_unlock (&history->lock);

  if (changed)
    g_object_notify (G_OBJECT (pool), "history-size");

  return TRUE;
}
