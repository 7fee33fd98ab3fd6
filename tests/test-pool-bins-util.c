/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "test-pool-bins-util.h"

PoolStream pool_streams[POOL_N_STREAMS];
guint pool_n_blocked;

#define get(field) __atomic_load_n (&(field), __ATOMIC_SEQ_CST)
#define set(field, value) __atomic_store_n (&(field), value, __ATOMIC_SEQ_CST)

/* --- the owner of the memory ----------------------------------------------------- */

static gpointer
alloc_item (gpointer   data,
            gsize      size,
            GError   **error)
{
  PoolOwner *owner = data;
  PoolMemory *memory = NULL;
  gboolean trims, churns;

  g_mutex_lock (&owner->lock);
  g_string_append_c (owner->steps, 'a');
  if (owner->failure != NULL)
    {
      g_propagate_error (error, g_steal_pointer (&owner->failure));
    }
  else if (size > owner->capacity - owner->used)
    {
      owner->n_refused++;
      g_set_error (error, GPU_ERROR, GPU_ERROR_OUT_OF_DEVICE_MEMORY, "the owner has no more");
    }
  else
    {
      memory = g_new0 (PoolMemory, 1);
      memory->size = size;
      owner->used += size;
      owner->n_live++;
      owner->n_allocs++;
    }
  trims = memory == NULL && owner->trims;
  churns = memory == NULL && owner->churned != NULL;
  g_mutex_unlock (&owner->lock);

  if (trims)
    _gpu_pool_bins_trim (owner->bins, 0, FALSE);
  if (churns)
    {
      gsize requested = _gpu_pool_item_get_size (owner->churned);

      _gpu_pool_bins_release (owner->churned, NULL);
      owner->churned = pool_take (owner->bins, requested, NULL);
    }

  return memory;
}

static void
free_item (gpointer data,
           gpointer item,
           gsize    size)
{
  PoolOwner *owner = data;
  PoolMemory *memory = item;

  g_assert_cmpuint (memory->size, ==, size);
  pool_assert_is_complete (memory, NULL);
  g_mutex_lock (&owner->lock);
  g_string_append_c (owner->steps, 'f');
  g_array_append_val (owner->freed, size);
  owner->used -= size;
  owner->n_live--;
  owner->n_frees++;
  g_mutex_unlock (&owner->lock);
  g_free (memory);
}

static gboolean
make_room (gpointer data,
           gsize    size G_GNUC_UNUSED,
           guint   *attempt)
{
  PoolOwner *owner = data;
  g_autoptr (GPtrArray) garbage = NULL;
  gboolean room;

  g_mutex_lock (&owner->lock);
  g_string_append_printf (owner->steps, "r%u", (*attempt)++);
  room = owner->n_rooms > 0;
  owner->n_rooms -= room;
  garbage = g_steal_pointer (&owner->garbage);
  owner->garbage = g_ptr_array_new ();
  g_mutex_unlock (&owner->lock);

  for (guint i = 0; i < garbage->len; i++)
    _gpu_pool_bins_release (g_ptr_array_index (garbage, i), NULL);

  return room;
}

static const GpuPoolBinsOps owner_ops = { alloc_item, free_item, make_room };

/* --- streams ---------------------------------------------------------------------- */

static gpointer
stream_ref (gpointer key)
{
  PoolStream *stream = key;

  g_atomic_int_inc (&stream->refs);

  return stream;
}

static void
stream_unref (gpointer key)
{
  PoolStream *stream = key;

  g_atomic_int_add (&stream->refs, -1);
}

static gboolean
stream_add_fence (gpointer   key,
                  guint64   *seq,
                  GError   **error)
{
  PoolStream *stream = key;

  if (get (stream->broken))
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_DEVICE_LOST, "stream %u is broken", stream->number);
      return FALSE;
    }
  g_atomic_int_inc (&stream->n_fences);
  *seq = get (stream->submitted);

  return TRUE;
}

static gboolean
stream_is_reached (gpointer key,
                   guint64  seq)
{
  PoolStream *stream = key;

  return get (stream->completed) >= seq;
}

static gboolean
stream_order_after (gpointer   key,
                    gpointer   after,
                    guint64    seq,
                    GError   **error)
{
  PoolStream *stream = key, *other = after;

  if (get (other->refusing))
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED, "stream %u is refusing",
                   other->number);
      return FALSE;
    }
  g_atomic_int_inc (&stream->n_waits);
  set (stream->waits[other->number], MAX (get (stream->waits[other->number]), seq));

  return TRUE;
}

static gboolean
stream_wait (gpointer key,
             guint64  seq)
{
  PoolStream *stream = key;
  guint64 completed = get (stream->completed);

  if (get (stream->refusing))
    {
      g_atomic_int_inc (&stream->n_refused);
      return FALSE;
    }
  g_atomic_int_inc (&pool_n_blocked);
  while (completed < seq
         && !__atomic_compare_exchange_n (&stream->completed, &completed, seq, FALSE,
                                          __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
    continue;

  return TRUE;
}

static gboolean
stream_is_gone (gpointer key)
{
  PoolStream *stream = key;

  return get (stream->gone);
}

static const GpuPoolStreamOps stream_ops =
{
  stream_ref, stream_unref, stream_add_fence, stream_is_reached, stream_order_after, stream_wait,
  stream_is_gone
};

/* --- functions for tests ----------------------------------------------------------- */

void
pool_assert_is_complete (const PoolMemory *memory,
                         const PoolStream *stream)
{
  for (guint i = 0; i < memory->n_uses; i++)
    {
      const PoolStream *user = &pool_streams[memory->streams[i]];

      g_assert_true (user == stream || get (user->completed) >= memory->points[i]
                     || (stream != NULL && get (stream->waits[user->number]) >= memory->points[i]));
    }
}

guint
pool_count_fences (void)
{
  guint n = 0;

  for (guint i = 0; i < POOL_N_STREAMS; i++)
    n += g_atomic_int_get (&pool_streams[i].n_fences);

  return n;
}

GpuPoolBins *
pool_begin (PoolOwner *owner,
            guint64    capacity)
{
  *owner = (PoolOwner) { .capacity = capacity };
  g_mutex_init (&owner->lock);
  owner->freed = g_array_new (FALSE, FALSE, sizeof (gsize));
  owner->steps = g_string_new (NULL);
  owner->garbage = g_ptr_array_new ();
  owner->bins = _gpu_pool_bins_new (GPU_POOL_BINS_BITS, &owner_ops, owner, &stream_ops);

  pool_n_blocked = 0;
  for (guint i = 0; i < POOL_N_STREAMS; i++)
    pool_streams[i] = (PoolStream) { .number = i };

  return owner->bins;
}

void
pool_end (PoolOwner *owner)
{
  GpuPoolStats stats;

  _gpu_pool_bins_get_stats (owner->bins, &stats);
  g_assert_cmpuint (stats.active_blocks, ==, 0);
  g_assert_cmpuint (stats.active_bytes, ==, 0);
  g_assert_cmpuint (stats.used_bytes, ==, 0);
  g_assert_cmpuint (stats.held_blocks, ==, owner->n_live);
  g_assert_cmpuint (stats.managed_bytes, ==, owner->used);
  g_assert_cmpuint (stats.n_growths, ==, owner->n_allocs);
  g_assert_cmpuint (stats.n_allocs, ==, stats.n_frees);

  _gpu_pool_bins_free (owner->bins);
  g_assert_cmpuint (owner->n_live, ==, 0);
  g_assert_cmpuint (owner->used, ==, 0);
  g_assert_cmpuint (owner->n_frees, ==, owner->n_allocs);
  for (guint i = 0; i < POOL_N_STREAMS; i++)
    g_assert_cmpuint (pool_streams[i].refs, ==, 0);

  g_clear_error (&owner->failure);
  g_array_unref (owner->freed);
  g_string_free (owner->steps, TRUE);
  g_ptr_array_unref (owner->garbage);
  g_mutex_clear (&owner->lock);
}

GpuPoolItem *
pool_take (GpuPoolBins *bins,
           gsize        size,
           PoolStream  *stream)
{
  g_autoptr (GError) error = NULL;
  GpuPoolItem *item = _gpu_pool_bins_alloc (bins, size, stream, &error);
  PoolMemory *memory;

  test_assert_ok (item != NULL, error);
  memory = _gpu_pool_item_get_data (item);
  g_assert_cmpuint (_gpu_pool_item_get_size (item), ==, size);
  g_assert_cmpuint (_gpu_pool_item_get_capacity (item), ==, memory->size);
  g_assert_cmpuint (memory->size, ==, gpu_pool_bin_size (4, gpu_pool_bin_number (4, size)));

  return item;
}

void
pool_give (GpuPoolItem *item,
           PoolStream  *stream)
{
  __atomic_add_fetch (&stream->submitted, 1, __ATOMIC_SEQ_CST);
  _gpu_pool_bins_release (item, stream);
}

void
pool_assert_steps (PoolOwner  *owner,
                   const char *steps)
{
  g_assert_cmpstr (owner->steps->str, ==, steps);
  g_string_truncate (owner->steps, 0);
}
