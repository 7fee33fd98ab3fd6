/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/pool/core/gpu-pool-bins-private.h"

#include "gpumem/base/gpu-debug-private.h"

/* --- streams, under the lock -------------------------------------------------- */

GPU_COLD static GpuPoolStream *
pin_known_stream (GpuPoolBins *bins,
                  gpointer     key,
                  KnownStream *known)
{
  GpuPoolStream *stream;

  bins_unlock (bins);
  stream = _gpu_pool_streams_get_pinned (bins->streams, key);
  bins_lock (bins);
  bins_forget_stream (known);
  *known = (KnownStream) { key, stream };

  return stream;
}

static inline GpuPoolStream *
find_stream (GpuPoolBins *bins,
             gpointer     key)
{
  gsize number = GPOINTER_TO_SIZE (key);
  KnownStream *known = &bins->known[(number >> 4 ^ number >> 9) % N_CACHED_STREAMS];

  if (key == NULL)
    return NULL;
  if (G_LIKELY (known->key == key))
    return known->stream;

  return pin_known_stream (bins, key, known);
}

/* --- the entry points ------------------------------------------------------------ */

GpuPoolBins *
_gpu_pool_bins_new (guint                   bits,
                    const GpuPoolBinsOps   *ops,
                    gpointer                owner,
                    const GpuPoolStreamOps *stream_ops)
{
  GpuPoolBins *bins;

  g_return_val_if_fail (bits <= GPU_POOL_BINS_MAX_BITS, NULL);

  bins = g_new0 (GpuPoolBins, 1);
  _gpu_pool_lock_init (&bins->lock);
  pthread_cond_init (&bins->moved, NULL);
  bins->bits = bits;
  bins->n_bins = 64u << bits;
  bins->tops = g_new0 (GpuPoolItem *, bins->n_bins);
  bins->ops = ops;
  bins->owner = owner;
  bins->streams = _gpu_pool_streams_new (stream_ops);
  bins->limits.release_threshold = G_MAXUINT64;
  bins->trace = _gpu_debug_has (GPU_DEBUG_POOL);

  return bins;
}

GPU_HOT GpuPoolItem *
_gpu_pool_bins_alloc (GpuPoolBins  *bins,
                      gsize         size,
                      gpointer      key,
                      GError      **error)
{
  GpuPoolRequest request = { bins, size, gpu_pool_bin_number (bins->bits, size), NULL, 0 };
  GpuPoolItem *item;

  bins_lock (bins);
  request.stream = find_stream (bins, key);
  item = bins_take_ready (bins, request.bin, request.stream);
  if (G_LIKELY (item != NULL))
    {
      item_forget_uses (item);
      bins->stats.n_hits++;
      bins_set_active (bins, item, size);
    }
  bins_unlock (bins);

  if (G_UNLIKELY (item == NULL))
    return _gpu_pool_bins_alloc_slowly (&request, error);
  if (bins_are_traced (bins))
    _gpu_pool_bins_print (bins, "%" G_GSIZE_FORMAT " bytes from bin %u of %" G_GSIZE_FORMAT, size,
                          request.bin, item->capacity);

  return item;
}

/* Unlocks. The last thread inside a closed pool calls the pool's notify, which may free the
 * pool. */
static void
unlock_and_notify (GpuPoolBins *bins)
{
  GDestroyNotify notify = NULL;
  gpointer data = bins->closed_data;

  if (bins->stats.active_blocks == 0 && bins->n_inside == 0)
    notify = g_steal_pointer (&bins->closed);

  bins_unlock (bins);

  if (notify != NULL)
    notify (data);
}

static void
release_excess (GpuPoolBins *bins)
{
  _gpu_pool_bins_trim_to (bins, NULL, FALSE);

  bins_lock (bins);
  bins->n_inside--;
  unlock_and_notify (bins);
}

void
_gpu_pool_bins_close (GpuPoolBins    *bins,
                      GDestroyNotify  notify,
                      gpointer        data)
{
  bins_lock (bins);
  bins->stopped = TRUE;
  bins->closed = notify;
  bins->closed_data = data;
  bins->n_inside++;
  bins_unlock (bins);

  release_excess (bins);
}

GPtrArray *
_gpu_pool_bins_list_pending (GpuPoolBins *bins)
{
  g_autoptr (GPtrArray) streams = g_ptr_array_new ();

  bins_lock (bins);
  for (GpuPoolItem *item = bins->items; item != NULL; item = item->next)
    for (guint i = 0; item->requested == 0 && i < item->n_uses; i++)
      if (item->uses[i].stream != NULL && !g_ptr_array_find (streams, item->uses[i].stream, NULL))
        g_ptr_array_add (streams, item->uses[i].stream);
  bins_unlock (bins);

  return _gpu_pool_streams_ref_keys (streams);
}

GPU_COLD static void
was_released (GpuPoolBins *bins,
              guint        bin,
              gboolean     excess)
{
  if (bins_are_traced (bins))
    _gpu_pool_bins_print (bins, "a block of %" G_GSIZE_FORMAT " bytes returned to bin %u",
                          gpu_pool_bin_size (bins->bits, bin), bin);
  if (excess)
    release_excess (bins);
}

/* Makes @item a held item, and releases the lock, which the caller holds. Another thread may own
 * @item as soon as the lock is released. */
static inline void
hold_and_unlock (GpuPoolBins *bins,
                 GpuPoolItem *item)
{
  guint bin = item->bin;
  gboolean excess;

  bins->stats.n_frees++;
  bins_set_held (bins, item);
  excess = bins_have_excess (bins);
  bins->n_inside += excess;
  bins_unlock (bins);

  if (G_UNLIKELY (excess) || bins_are_traced (bins))
    was_released (bins, bin, excess);
}

GPU_HOT void
_gpu_pool_bins_release (GpuPoolItem *item,
                        gpointer     key)
{
  GpuPoolBins *bins = item->bins;

  bins_lock (bins);
  if (key != NULL)
    {
      GpuPoolStream *stream = find_stream (bins, key);

      item->own = (GpuPoolUse) { stream, _gpu_pool_stream_get_use_seq (stream) };
      item->n_uses = 1;
    }
  hold_and_unlock (bins, item);
}

void
_gpu_pool_bins_release_all (GpuPoolItem    *item,
                            const gpointer *keys,
                            guint           n_keys)
{
  GpuPoolBins *bins = item->bins;

  if (n_keys > 1)
    item->uses = g_new (GpuPoolUse, n_keys);

  for (guint i = 0; i < n_keys; i++)
    {
      GpuPoolStream *stream;

      if (keys[i] == NULL)
        continue;
      stream = _gpu_pool_streams_get (bins->streams, keys[i]);
      item->uses[item->n_uses++] = (GpuPoolUse) { stream, _gpu_pool_stream_get_use_seq (stream) };
    }

  bins_lock (bins);
  hold_and_unlock (bins, item);
}

gpointer
_gpu_pool_item_get_data (const GpuPoolItem *item)
{
  return item->data;
}

gsize
_gpu_pool_item_get_size (const GpuPoolItem *item)
{
  return item->requested;
}

gsize
_gpu_pool_item_get_capacity (const GpuPoolItem *item)
{
  return item->capacity;
}

void
_gpu_pool_bins_set_limits (GpuPoolBins         *bins,
                           const GpuPoolLimits *limits)
{
  gboolean excess;

  bins_lock (bins);
  bins->limits = *limits;
  excess = bins_have_excess (bins);
  bins->n_inside += excess;
  bins_unlock (bins);

  if (excess)
    release_excess (bins);
}

void
_gpu_pool_bins_stop_holding (GpuPoolBins *bins)
{
  bins_lock (bins);
  bins->stopped = TRUE;
  bins_unlock (bins);

  _gpu_pool_bins_trim (bins, 0, FALSE);
}

void
_gpu_pool_bins_free (GpuPoolBins *bins)
{
  GpuPoolItem *item;

  g_return_if_fail (bins->stats.active_blocks == 0);

  _gpu_pool_bins_trim (bins, 0, TRUE);
  /* Free the remaining items without a wait for their uses, because the device is lost. */
  for (guint bin = 0; bin < bins->n_bins; bin++)
    {
      while ((item = bins_pop_moving (bins, bin)) != NULL)
        _gpu_pool_bins_discard (bins, item);
    }

  _gpu_pool_streams_free (bins->streams);
  pthread_cond_destroy (&bins->moved);
  _gpu_pool_lock_clear (&bins->lock);
  g_free (bins->tops);
  g_free (bins);
}

void
_gpu_pool_bins_set_trace (GpuPoolBins *bins,
                          gboolean     trace)
{
  g_atomic_int_set (&bins->trace, trace);
}

void
_gpu_pool_bins_visit (GpuPoolBins          *bins,
                      GpuPoolBinsVisitFunc  func,
                      gpointer              data)
{
  bins_lock (bins);
  for (GpuPoolItem *item = bins->items; item != NULL; item = item->next)
    {
      GpuPoolState state = GPU_POOL_ACTIVE;

      if (item->requested == 0)
        state = !item->moving && item_is_ready (item, NULL) ? GPU_POOL_FREE : GPU_POOL_PENDING;
      func (data, item, item->capacity, item->requested, state);
    }
  bins_unlock (bins);
}
