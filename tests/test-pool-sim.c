/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "test-pool-sim.h"

#define RANGE_ADDRESS (G_GUINT64_CONSTANT (1) << 40)
#define NEVER         G_MAXUINT64

/* An item in a stream: a point for which other streams wait, or a wait for another stream. */
typedef struct
{
  guint64 seq;
  gint    after;                    /* index of the stream to wait for, or -1 */
  guint64 after_seq;
  guint64 known[SIM_MAX_STREAMS];
} SimItem;

struct _SimStream
{
  Sim     *sim;
  gint     index;
  gint     refs;
  gboolean closed;
  guint64  lag;
  guint64  submitted;
  guint64  completed;
  guint64  known[SIM_MAX_STREAMS];  /* by stream: the point that the next work waits for */
  GQueue   items;                   /* of SimItem, not yet completed */
};

typedef struct
{
  guint64  used[SIM_MAX_STREAMS];   /* the last work that used the unit, by stream */
  gboolean taken;
} SimUnit;

/* A contiguous range of addresses: a segment, or the reserved address range of a pool with
 * chunks. */
typedef struct
{
  guint64  address;
  gsize    size;
  SimUnit *units;
} SimArea;

/* A chunk has units of its own, because it may be mapped at two places. */
typedef struct
{
  gsize    size;
  guint    n_maps;
  gboolean was_mapped;
  SimUnit *units;
} SimChunk;

/* The part of a chunk that is mapped to a granule. */
typedef struct
{
  SimChunk *chunk;
  gsize     offset;
} SimGranule;

struct _Sim
{
  GMutex      lock;
  gsize       capacity;
  gsize       lost;                 /* bytes by which an allocation exceeds its segment */
  gboolean         has_thread_heaps;
  gsize       unit;
  gsize       granularity;
  gboolean    checked;
  guint64     next_address;
  GTree      *areas;                /* by address */
  SimArea    *range;
  SimGranule *mapped;               /* by granule */
  guint       n_granules;
  guint       fail_in;
  GpuError    fail_code;
  gboolean    has_failed;
  gboolean  (*make_room) (gpointer data);
  gpointer    make_room_data;
  SimStream  *streams[SIM_MAX_STREAMS];
  guint64     last_seqs[SIM_MAX_STREAMS];       /* of closed streams; new streams begin there */
  SimStats    stats;
};

/* --- the time of driver calls ------------------------------------------------------------ */

typedef enum
{
  CREATE,
  MAP,                              /* including the access */
  UNMAP,
  DESTROY,
  N_CALLS
} SimCall;

/* Times of an H200 in us, from `benchmarks/cuda-chunks cuda:0`, for a chunk of each size. */
static const double estimate_sizes[] = { 2, 8, 32, 128 };     /* MiB */
static const double estimates[N_CALLS][G_N_ELEMENTS (estimate_sizes)] = {
  [CREATE]  = { 10.1, 11.2, 11.4, 11.7 },
  [MAP]     = { 24.25, 25.7, 40.8, 40.9 },
  [UNMAP]   = { 15.8, 16.0, 23.2, 23.3 },
  [DESTROY] = { 12.2, 17.2, 36.2, 75.0 },
};

/* Estimates the time of @call for a chunk of @size bytes in ns: a linear interpolation. */
static guint64
sim_estimate (SimCall call,
              gsize   size)
{
  double mib = size / (1024.0 * 1024.0), share;
  const double *times = estimates[call];
  guint i = 1;

  while (i + 1 < G_N_ELEMENTS (estimate_sizes) && estimate_sizes[i] < mib)
    i++;
  share = (mib - estimate_sizes[i - 1]) / (estimate_sizes[i] - estimate_sizes[i - 1]);

  return 1000 * (times[i - 1] + MAX (share, 0) * (times[i] - times[i - 1]));
}

/* --- memory --------------------------------------------------------------------------- */

static gint
compare_addresses (gconstpointer a,
                   gconstpointer b,
                   gpointer      data)
{
  guint64 x = *(const guint64 *) a, y = *(const guint64 *) b;

  return (x > y) - (x < y);
}

static void
area_free (gpointer data)
{
  SimArea *area = data;

  g_free (area->units);
  g_free (area);
}

static SimArea *
add_area (Sim     *sim,
          guint64  address,
          gsize    size)
{
  SimArea *area = g_new0 (SimArea, 1);

  area->address = address;
  area->size = size;
  if (sim->checked)
    area->units = g_new0 (SimUnit, size / sim->unit);
  g_tree_insert (sim->areas, &area->address, area);

  return area;
}

Sim *
sim_new (gsize    capacity,
         gsize    unit,
         gsize    granularity,
         gboolean checked)
{
  Sim *sim = g_new0 (Sim, 1);

  g_mutex_init (&sim->lock);
  sim->capacity = capacity;
  sim->unit = unit;
  sim->granularity = granularity;
  sim->checked = checked;
  sim->next_address = unit;
  sim->areas = g_tree_new_full (compare_addresses, NULL, NULL, area_free);

  if (granularity != 0)
    {
      gsize size = (2 * capacity + granularity - 1) / granularity * granularity;

      sim->range = add_area (sim, RANGE_ADDRESS, size);
      sim->n_granules = size / granularity;
      sim->mapped = g_new0 (SimGranule, sim->n_granules);
    }

  return sim;
}

void
sim_free (Sim *sim)
{
  g_assert_cmpuint (sim->stats.n_segments, ==, 0);
  g_assert_cmpuint (sim->stats.n_chunks, ==, 0);
  g_assert_cmpuint (sim->stats.bytes, ==, 0);

  for (guint i = 0; i < SIM_MAX_STREAMS; i++)
    g_assert_null (sim->streams[i]);

  g_tree_unref (sim->areas);
  g_free (sim->mapped);
  g_mutex_clear (&sim->lock);
  g_free (sim);
}

void
sim_config (Sim           *sim,
            GpuPoolConfig *config)
{
  *config = (GpuPoolConfig) {
    .unit = sim->unit,
    .granularity = sim->granularity,
    .segment_size = MAX (sim->capacity / 16, sim->unit),
    .has_thread_heaps = sim->has_thread_heaps,
  };
  if (sim->range != NULL)
    {
      config->range_address = sim->range->address;
      config->range_size = sim->range->size;
    }
}

GpuPool *
sim_pool_new (Sim *sim)
{
  GpuPoolConfig config;

  sim_config (sim, &config);

  return _gpu_pool_new (&config, &sim_ops, sim, &sim_stream_ops, NULL);
}

void
sim_get_stats (Sim      *sim,
               SimStats *stats)
{
  g_mutex_lock (&sim->lock);
  *stats = sim->stats;
  g_mutex_unlock (&sim->lock);
}

void
sim_set_capacity (Sim   *sim,
                  gsize  capacity)
{
  g_mutex_lock (&sim->lock);
  sim->capacity = capacity;
  g_mutex_unlock (&sim->lock);
}

void
sim_set_thread_heaps (Sim      *sim,
                      gboolean  has_thread_heaps)
{
  sim->has_thread_heaps = has_thread_heaps;
}

void
sim_set_lost (Sim   *sim,
              gsize  lost)
{
  g_mutex_lock (&sim->lock);
  sim->lost = lost;
  g_mutex_unlock (&sim->lock);
}

void
sim_fail (Sim      *sim,
          guint     nth,
          GpuError  code)
{
  g_mutex_lock (&sim->lock);
  sim->fail_in = nth;
  sim->fail_code = code;
  sim->has_failed = FALSE;
  g_mutex_unlock (&sim->lock);
}

gboolean
sim_has_failed (Sim *sim)
{
  gboolean has_failed;

  g_mutex_lock (&sim->lock);
  has_failed = sim->has_failed;
  g_mutex_unlock (&sim->lock);

  return has_failed;
}

void
sim_set_make_room (Sim       *sim,
                   gboolean (*make_room) (gpointer data),
                   gpointer   data)
{
  sim->make_room = make_room;
  sim->make_room_data = data;
}

static gboolean
may_fail (Sim     *sim,
          GError **error)
{
  if (sim->fail_in == 0 || --sim->fail_in > 0)
    return FALSE;

  sim->has_failed = TRUE;
  g_set_error (error, GPU_ERROR, sim->fail_code, "made to fail");

  return TRUE;
}

static gboolean
add_bytes (Sim     *sim,
           gsize    size,
           GError **error)
{
  if (may_fail (sim, error))
    return FALSE;

  if (sim->stats.bytes + size > sim->capacity)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_OUT_OF_DEVICE_MEMORY, "nothing is left");
      return FALSE;
    }

  sim->stats.n_allocs++;
  sim->stats.bytes += size;
  sim->stats.peak_bytes = MAX (sim->stats.peak_bytes, sim->stats.bytes);

  return TRUE;
}

/* Checks that the memory is free and that all work on it has completed. */
static void
check_unused (Sim           *sim,
              const SimArea *area,
              gsize          offset,
              gsize          size)
{
  if (!sim->checked)
    return;

  for (gsize i = offset / sim->unit; i < (offset + size) / sim->unit; i++)
    {
      SimUnit *unit = &area->units[i];

      g_assert_false (unit->taken);
      for (guint j = 0; j < SIM_MAX_STREAMS; j++)
        if (unit->used[j] != 0 && sim->streams[j] != NULL)
          g_assert_cmpuint (unit->used[j], <=, sim->streams[j]->completed);
      memset (unit, 0, sizeof (SimUnit));
    }
}

static gboolean
sim_alloc_segment (gpointer         owner,
                   gsize            size,
                   GpuPoolSegment  *segment,
                   GError         **error)
{
  Sim *sim = owner;
  gboolean added;

  g_mutex_lock (&sim->lock);
  g_assert_cmpuint (size, >, 0);
  g_assert_cmpuint (size % sim->unit, ==, 0);
  added = add_bytes (sim, size, error);
  if (added)
    {
      segment->address = sim->next_address;
      segment->size = size;
      segment->lost = sim->lost;
      segment->data = add_area (sim, segment->address, size);
      /* Some segments are adjacent: the pool must not merge ranges of different segments. */
      sim->next_address += size + (sim->stats.n_allocs % 2) * sim->unit;
      sim->stats.n_segments++;
    }
  g_mutex_unlock (&sim->lock);

  return added;
}

static void
sim_free_segment (gpointer              owner,
                  const GpuPoolSegment *segment)
{
  Sim *sim = owner;
  SimArea *area;

  g_mutex_lock (&sim->lock);
  area = g_tree_lookup (sim->areas, &segment->address);
  g_assert_nonnull (area);
  g_assert_true (segment->data == area);
  g_assert_cmpuint (segment->size, ==, area->size);
  check_unused (sim, area, 0, area->size);
  sim->stats.bytes -= area->size;
  sim->stats.n_segments--;
  sim->stats.n_frees++;
  g_tree_remove (sim->areas, &segment->address);
  g_mutex_unlock (&sim->lock);
}

static gpointer
sim_create_chunk (gpointer   owner,
                  gsize      size,
                  GError   **error)
{
  Sim *sim = owner;
  SimChunk *chunk = NULL;

  g_mutex_lock (&sim->lock);
  g_assert_cmpuint (size, >, 0);
  g_assert_cmpuint (size % sim->granularity, ==, 0);
  if (add_bytes (sim, size, error))
    {
      chunk = g_new0 (SimChunk, 1);
      chunk->size = size;
      if (sim->checked)
        chunk->units = g_new0 (SimUnit, size / sim->unit);
      sim->stats.n_chunks++;
      sim->stats.driver_time += sim_estimate (CREATE, size);
      sim->stats.first_time += sim_estimate (CREATE, size);
    }
  g_mutex_unlock (&sim->lock);

  return chunk;
}

static void
sim_destroy_chunk (gpointer owner,
                   gpointer data,
                   gsize    size)
{
  Sim *sim = owner;
  SimChunk *chunk = data;

  g_mutex_lock (&sim->lock);
  g_assert_cmpuint (chunk->size, ==, size);
  g_assert_cmpuint (chunk->n_maps, ==, 0);
  sim->stats.bytes -= size;
  sim->stats.n_chunks--;
  sim->stats.driver_time += sim_estimate (DESTROY, size);
  sim->stats.n_frees++;
  g_free (chunk->units);
  g_free (chunk);
  g_mutex_unlock (&sim->lock);
}

static gboolean
sim_map_chunks (gpointer         owner,
                gsize            offset,
                const gpointer  *chunks,
                const gsize     *sizes,
                guint            n_chunks,
                GError         **error)
{
  Sim *sim = owner;
  gboolean failed;

  g_mutex_lock (&sim->lock);
  g_assert_cmpuint (n_chunks, >, 0);
  failed = may_fail (sim, error);
  for (guint i = 0; i < n_chunks && !failed; i++)
    {
      SimChunk *chunk = chunks[i];

      g_assert_cmpuint (chunk->size, ==, sizes[i]);
      g_assert_cmpuint (offset % sim->granularity, ==, 0);
      g_assert_cmpuint (offset + chunk->size, <=, sim->range->size);
      sim->stats.n_mapped_twice += chunk->n_maps;
      chunk->n_maps++;
      sim->stats.driver_time += sim_estimate (MAP, chunk->size);
      sim->stats.first_time += chunk->was_mapped ? 0 : sim_estimate (MAP, chunk->size);
      chunk->was_mapped = TRUE;
      for (gsize at = 0; at < chunk->size; at += sim->granularity)
        {
          SimGranule *granule = &sim->mapped[(offset + at) / sim->granularity];

          g_assert_null (granule->chunk);
          *granule = (SimGranule) { chunk, at };
        }
      offset += chunk->size;
    }
  sim->stats.n_maps += !failed;
  sim->stats.n_mapped += failed ? 0 : n_chunks;
  g_mutex_unlock (&sim->lock);

  return !failed;
}

static void
sim_unmap_chunks (gpointer owner,
                  gsize    offset,
                  gsize    size)
{
  Sim *sim = owner;

  g_mutex_lock (&sim->lock);
  check_unused (sim, sim->range, offset, size);
  for (gsize at = 0; at < size; )
    {
      SimChunk *chunk = sim->mapped[(offset + at) / sim->granularity].chunk;

      g_assert_nonnull (chunk);
      g_assert_cmpuint (chunk->size, <=, size - at);
      for (gsize done = 0; done < chunk->size; done += sim->granularity, at += sim->granularity)
        {
          SimGranule *granule = &sim->mapped[(offset + at) / sim->granularity];

          g_assert_true (granule->chunk == chunk);
          g_assert_cmpuint (granule->offset, ==, done);
          granule->chunk = NULL;
        }
      chunk->n_maps--;
      sim->stats.n_unmapped++;
      sim->stats.driver_time += sim_estimate (UNMAP, chunk->size);
    }
  sim->stats.n_unmaps++;
  g_mutex_unlock (&sim->lock);
}

static gboolean
sim_make_room (gpointer owner,
               gsize    size,
               guint   *attempt)
{
  Sim *sim = owner;

  g_mutex_lock (&sim->lock);
  sim->stats.n_rooms++;
  g_mutex_unlock (&sim->lock);

  return ++*attempt <= 3 && sim->make_room != NULL && sim->make_room (sim->make_room_data);
}

const GpuPoolOps sim_ops = {
  .alloc_segment = sim_alloc_segment,
  .free_segment = sim_free_segment,
  .create_chunk = sim_create_chunk,
  .destroy_chunk = sim_destroy_chunk,
  .map_chunks = sim_map_chunks,
  .unmap_chunks = sim_unmap_chunks,
  .make_room = sim_make_room,
};

/* --- streams ---------------------------------------------------------------------------- */

SimStream *
sim_stream_new (Sim     *sim,
                guint64  lag)
{
  SimStream *stream = g_new0 (SimStream, 1);

  stream->sim = sim;
  stream->lag = lag;
  stream->refs = 1;
  g_queue_init (&stream->items);

  g_mutex_lock (&sim->lock);
  while (sim->streams[stream->index] != NULL)
    g_assert_cmpint (++stream->index, <, SIM_MAX_STREAMS);
  sim->streams[stream->index] = stream;
  stream->submitted = stream->completed = sim->last_seqs[stream->index];
  g_mutex_unlock (&sim->lock);

  return stream;
}

/* Completes the work of @stream up to @seq. If some of this work waits for pending work of another
 * stream: if @force is TRUE, completes the other work first, and if @force is FALSE, stops and
 * returns FALSE. */
static gboolean
advance (SimStream *stream,
         guint64    seq,
         gboolean   force)
{
  while (stream->completed < seq)
    {
      SimItem *item = g_queue_peek_head (&stream->items);

      if (item == NULL || item->seq > seq)
        {
          stream->completed = seq;
          break;
        }

      if (item->after >= 0)
        {
          SimStream *after = stream->sim->streams[item->after];

          if (after != NULL && after->completed < item->after_seq
              && !(force && advance (after, item->after_seq, TRUE)))
            return FALSE;
        }

      stream->completed = item->seq;
      g_free (g_queue_pop_head (&stream->items));
    }

  return TRUE;
}

static void
lag_behind (SimStream *stream)
{
  if (stream->submitted > stream->lag)
    advance (stream, stream->submitted - stream->lag, FALSE);
}

static SimItem *
add_item (SimStream *stream)
{
  SimItem *item = g_new0 (SimItem, 1);

  item->seq = ++stream->submitted;
  item->after = -1;
  g_queue_push_tail (&stream->items, item);

  return item;
}

static gpointer
sim_ref (gpointer key)
{
  SimStream *stream = key;

  g_atomic_int_inc (&stream->refs);

  return key;
}

static void
sim_unref (gpointer key)
{
  SimStream *stream = key;
  Sim *sim = stream->sim;

  g_mutex_lock (&sim->lock);
  if (--stream->refs == 0)
    {
      g_queue_clear_full (&stream->items, g_free);
      sim->streams[stream->index] = NULL;
      sim->last_seqs[stream->index] = stream->submitted;
      g_free (stream);
    }
  g_mutex_unlock (&sim->lock);
}

void
sim_stream_unref (SimStream *stream)
{
  sim_unref (stream);
}

guint
sim_stream_get_refs (SimStream *stream)
{
  guint refs;

  g_mutex_lock (&stream->sim->lock);
  refs = stream->refs;
  g_mutex_unlock (&stream->sim->lock);

  return refs;
}

static gboolean
sim_add_fence (gpointer   key,
               guint64   *seq,
               GError   **error)
{
  SimStream *stream = key;
  gboolean failed;

  g_mutex_lock (&stream->sim->lock);
  failed = may_fail (stream->sim, error);
  if (!failed)
    {
      SimItem *item = add_item (stream);

      memcpy (item->known, stream->known, sizeof (stream->known));
      item->known[stream->index] = item->seq;
      *seq = item->seq;
      stream->sim->stats.n_fences++;
    }
  g_mutex_unlock (&stream->sim->lock);

  return !failed;
}

static gboolean
sim_is_reached (gpointer key,
                guint64  seq)
{
  SimStream *stream = key;
  gboolean is_reached;

  g_mutex_lock (&stream->sim->lock);
  lag_behind (stream);
  stream->sim->stats.n_asked++;
  is_reached = stream->completed >= seq;
  g_mutex_unlock (&stream->sim->lock);

  return is_reached;
}

static void
order_after (SimStream *stream,
             SimStream *after,
             guint64    seq)
{
  SimItem *item = add_item (stream);

  item->after = after->index;
  item->after_seq = seq;
  for (GList *l = after->items.head; l != NULL; l = l->next)
    {
      SimItem *add_fence = l->data;

      if (add_fence->seq == seq)
        for (guint i = 0; i < SIM_MAX_STREAMS; i++)
          stream->known[i] = MAX (stream->known[i], add_fence->known[i]);
    }
  stream->known[after->index] = MAX (stream->known[after->index], seq);
}

static gboolean
sim_order_after (gpointer   key,
                 gpointer   after,
                 guint64    seq,
                 GError   **error)
{
  SimStream *stream = key;
  gboolean failed;

  g_mutex_lock (&stream->sim->lock);
  failed = may_fail (stream->sim, error);
  if (!failed)
    {
      order_after (stream, after, seq);
      stream->sim->stats.n_orders++;
    }
  g_mutex_unlock (&stream->sim->lock);

  return !failed;
}

static gboolean
sim_wait (gpointer key,
          guint64  seq)
{
  SimStream *stream = key;

  g_mutex_lock (&stream->sim->lock);
  g_assert_true (advance (stream, seq, TRUE));
  stream->sim->stats.n_waits++;
  g_mutex_unlock (&stream->sim->lock);

  return TRUE;
}

static gboolean
sim_is_gone (gpointer key)
{
  SimStream *stream = key;
  gboolean is_gone;

  g_mutex_lock (&stream->sim->lock);
  if (stream->closed)
    advance (stream, stream->submitted, FALSE);
  is_gone = stream->closed && stream->completed == stream->submitted;
  g_mutex_unlock (&stream->sim->lock);

  return is_gone;
}

const GpuPoolStreamOps sim_stream_ops = {
  .ref = sim_ref,
  .unref = sim_unref,
  .add_fence = sim_add_fence,
  .is_reached = sim_is_reached,
  .order_after = sim_order_after,
  .wait = sim_wait,
  .is_gone = sim_is_gone,
};

void
sim_stream_submit (SimStream *stream)
{
  g_mutex_lock (&stream->sim->lock);
  stream->submitted++;
  lag_behind (stream);
  g_mutex_unlock (&stream->sim->lock);
}

void
sim_stream_finish (SimStream *stream)
{
  g_mutex_lock (&stream->sim->lock);
  g_assert_true (advance (stream, stream->submitted, TRUE));
  g_mutex_unlock (&stream->sim->lock);
}

void
sim_stream_close (SimStream *stream)
{
  g_mutex_lock (&stream->sim->lock);
  stream->closed = TRUE;
  g_mutex_unlock (&stream->sim->lock);
}

void
sim_order (SimStream *stream,
           SimStream *after)
{
  g_mutex_lock (&stream->sim->lock);
  add_item (after);
  memcpy (((SimItem *) g_queue_peek_tail (&after->items))->known, after->known,
          sizeof (after->known));
  order_after (stream, after, after->submitted);
  g_mutex_unlock (&stream->sim->lock);
}

/* --- the program ------------------------------------------------------------------------- */

static SimUnit *
find_units (Sim     *sim,
            guint64  address,
            gsize    size)
{
  GTreeNode *node = g_tree_upper_bound (sim->areas, &address);
  SimArea *area;

  node = node != NULL ? g_tree_node_previous (node) : g_tree_node_last (sim->areas);
  g_assert_nonnull (node);
  area = g_tree_node_value (node);

  g_assert_cmpuint (address % sim->unit, ==, 0);
  g_assert_cmpuint (address, >=, area->address);
  g_assert_cmpuint (address + size, <=, area->address + area->size);

  if (area == sim->range)
    for (gsize at = address - area->address; at < address - area->address + size;
         at = (at / sim->granularity + 1) * sim->granularity)
      g_assert_nonnull (sim->mapped[at / sim->granularity].chunk);

  return &area->units[(address - area->address) / sim->unit];
}

/* Returns the unit of the chunk that is mapped at @address, or NULL if @address is in a segment. */
static SimUnit *
find_chunk_unit (Sim     *sim,
                 guint64  address)
{
  const SimGranule *granule;
  gsize offset = address - RANGE_ADDRESS;

  if (sim->range == NULL)
    return NULL;

  granule = &sim->mapped[offset / sim->granularity];

  return &granule->chunk->units[(granule->offset + offset % sim->granularity) / sim->unit];
}

static void
check_ordered (Sim           *sim,
               SimStream     *stream,
               const SimUnit *unit)
{
  for (gint i = 0; i < SIM_MAX_STREAMS; i++)
    {
      const SimStream *user = sim->streams[i];

      if (unit->used[i] == 0 || user == NULL || user == stream
          || unit->used[i] <= user->completed)
        continue;

      g_assert_nonnull (stream);
      g_assert_cmpuint (unit->used[i], <=, stream->known[i]);
    }
}

void
sim_take (Sim       *sim,
          SimStream *stream,
          guint64    address,
          gsize      size)
{
  gsize n = (size + sim->unit - 1) / sim->unit;
  SimUnit *units;

  g_mutex_lock (&sim->lock);
  units = find_units (sim, address, size);
  for (gsize i = 0; i < n; i++)
    {
      SimUnit *unit = find_chunk_unit (sim, address + i * sim->unit);

      g_assert_false (units[i].taken);
      units[i].taken = TRUE;
      check_ordered (sim, stream, &units[i]);
      if (unit != NULL)
        {
          g_assert_false (unit->taken);
          unit->taken = TRUE;
          check_ordered (sim, stream, unit);
        }
    }
  g_mutex_unlock (&sim->lock);
}

void
sim_use (Sim       *sim,
         SimStream *stream,
         guint64    address,
         gsize      size)
{
  gsize n = (size + sim->unit - 1) / sim->unit;
  SimUnit *units;
  guint64 seq;

  g_mutex_lock (&sim->lock);
  units = find_units (sim, address, size);
  seq = ++stream->submitted;
  for (gsize i = 0; i < n; i++)
    {
      SimUnit *unit = find_chunk_unit (sim, address + i * sim->unit);

      g_assert_true (units[i].taken);
      check_ordered (sim, stream, &units[i]);
      units[i].used[stream->index] = seq;
      if (unit != NULL)
        unit->used[stream->index] = seq;
    }
  lag_behind (stream);
  g_mutex_unlock (&sim->lock);
}

void
sim_give (Sim     *sim,
          guint64  address,
          gsize    size)
{
  gsize n = (size + sim->unit - 1) / sim->unit;
  SimUnit *units;

  g_mutex_lock (&sim->lock);
  units = find_units (sim, address, size);
  for (gsize i = 0; i < n; i++)
    {
      SimUnit *unit = find_chunk_unit (sim, address + i * sim->unit);

      g_assert_true (units[i].taken);
      units[i].taken = FALSE;
      if (unit != NULL)
        unit->taken = FALSE;
    }
  g_mutex_unlock (&sim->lock);
}
