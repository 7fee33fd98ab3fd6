/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What is over, what goes back to the owner, and what people ask about. */
#include "config.h"

#include "gpumem/pool/core/gpu-pool-cache.h"

/* --- uses ------------------------------------------------------------------------------ */

/* Drops uses that are over; @mark: makes marks where there are none. */
static void
settle_uses (GpuPoolShared *shared,
             gboolean       mark)
{
  for (guint i = shared->n_uses; i > 0; i--)
    {
      if (mark)
        _gpu_pool_use_mark (&shared->uses[i - 1], NULL);
      if (_gpu_pool_use_is_over (&shared->uses[i - 1]))
        shared->uses[i - 1] = shared->uses[--shared->n_uses];
    }
}

/* Those with one use left are free memory of its stream. */
gboolean
_gpu_pool_settle_shared (GpuPool *pool)
{
  g_autoptr (GPtrArray) all = NULL;
  gboolean any = FALSE;

  _gpu_pool_lock (&pool->lock);
  if (pool->shared->len > 0)
    {
      all = pool->shared;
      pool->shared = g_ptr_array_new ();
    }
  _gpu_pool_unlock (&pool->lock);

  if (all == NULL)
    return FALSE;

  for (guint i = 0; i < all->len; i++)
    settle_uses (g_ptr_array_index (all, i), TRUE);

  _gpu_pool_lock (&pool->lock);
  for (guint i = 0; i < all->len; i++)
    {
      GpuPoolShared *shared = g_ptr_array_index (all, i);
      GpuPoolUse use = shared->uses[0];

      if (shared->n_uses > 1)
        {
          g_ptr_array_add (pool->shared, shared);
          continue;
        }

      any = TRUE;
      if (shared->n_uses == 0)
        use = (GpuPoolUse) { NULL, 0 };
      _gpu_pool_heap_add (pool, shared->node,
                          gpu_pool_use_pack (_gpu_pool_stream_get_slot (use.stream), use.stamp));
      g_free (shared);
    }
  _gpu_pool_leave (pool);

  return any;
}

static gboolean
is_worth_waiting (const GpuPoolRequest *request,
                  GpuPoolStream        *stream)
{
  return request == NULL || (stream != request->stream && _gpu_pool_stream_is_free (stream));
}

static gboolean
find_pending (GpuPool              *pool,
              const GpuPoolRequest *request,
              GpuPoolUse           *use)
{
  gboolean found = FALSE;

  _gpu_pool_lock (&pool->lock);
  for (guint slot = 1; slot < pool->n_frees && !found; slot++)
    {
      GpuPoolFrees *frees = pool->frees[slot];

      if (frees == NULL || frees->n == 0)
        continue;

      *use = (GpuPoolUse) { frees->stream, frees->youngest };
      found = !gpu_pool_stream_has_reached (use->stream, use->stamp)
              && is_worth_waiting (request, use->stream);
    }
  if (!found && request == NULL && pool->shared->len > 0)
    {
      GpuPoolShared *shared = g_ptr_array_index (pool->shared, 0);

      *use = shared->uses[0];
      found = TRUE;
    }
  _gpu_pool_unlock (&pool->lock);

  return found;
}

gboolean
_gpu_pool_wait_for_pending (GpuPool              *pool,
                            const GpuPoolRequest *request)
{
  GpuPoolUse use;
  gboolean waited;

  if (!find_pending (pool, request, &use) || !_gpu_pool_use_follow (&use, NULL, &waited, NULL))
    return FALSE;

  _gpu_pool_settle_shared (pool);
  _gpu_pool_lock (&pool->lock);
  pool->stats.n_waits += waited;
  _gpu_pool_heap_settle (pool, TRUE);
  _gpu_pool_leave (pool);

  return TRUE;
}

/* A mark for each stream that has free memory which is not over, unless one is under way. */
static void
mark_pending (GpuPool *pool)
{
  g_autoptr (GArray) uses = g_array_new (FALSE, FALSE, sizeof (GpuPoolUse));

  _gpu_pool_lock (&pool->lock);
  for (guint slot = 1; slot < pool->n_frees; slot++)
    {
      GpuPoolFrees *frees = pool->frees[slot];

      if (frees != NULL && frees->n > 0)
        {
          GpuPoolUse use = { frees->stream, frees->youngest };

          g_array_append_val (uses, use);
        }
    }
  _gpu_pool_unlock (&pool->lock);

  for (guint i = 0; i < uses->len; i++)
    _gpu_pool_use_mark (&g_array_index (uses, GpuPoolUse, i), NULL);
}

void
_gpu_pool_settle (GpuPool *pool)
{
  mark_pending (pool);
  _gpu_pool_streams_poll (pool->streams);
  _gpu_pool_settle_shared (pool);

  _gpu_pool_lock (&pool->lock);
  _gpu_pool_heap_settle (pool, TRUE);
  _gpu_pool_leave (pool);
}

/* --- giving back ----------------------------------------------------------------------- */

static guint64
get_keep (GpuPool *pool)
{
  guint64 threshold, used;

  _gpu_pool_lock (&pool->lock);
  threshold = pool->is_holding ? pool->limits.release_threshold : 0;
  used = _gpu_pool_sum_used (pool);
  _gpu_pool_unlock (&pool->lock);

  return threshold > G_MAXUINT64 - used ? G_MAXUINT64 : used + threshold;
}

void
_gpu_pool_release_excess (GpuPool *pool)
{
  /* When something is growing there may be a next time. Where nothing is to be held it is left to
   * who grows: the caller may have a lock that the owner's memory needs, such as that of Python. */
  if (!__atomic_load_n (&pool->is_holding, __ATOMIC_RELAXED))
    __atomic_store_n (&pool->has_left_excess, TRUE, __ATOMIC_SEQ_CST);

  if (!_gpu_pool_try_lock (&pool->growth_lock))
    return;

  __atomic_store_n (&pool->grower, g_thread_self (), __ATOMIC_RELAXED);
  __atomic_store_n (&pool->has_left_excess, FALSE, __ATOMIC_SEQ_CST);
  _gpu_pool_settle (pool);
  _gpu_pool_shrink (pool, get_keep (pool));
  _gpu_pool_unlock_growth (pool);
}

/* Allocators, and who listens to memory pressure, may call the pool that is growing. */
gboolean
_gpu_pool_lock_growth (GpuPool *pool)
{
  if (__atomic_load_n (&pool->grower, __ATOMIC_RELAXED) == g_thread_self ())
    return FALSE;

  _gpu_pool_lock (&pool->growth_lock);
  __atomic_store_n (&pool->grower, g_thread_self (), __ATOMIC_RELAXED);

  return TRUE;
}

void
_gpu_pool_unlock_growth (GpuPool *pool)
{
  __atomic_store_n (&pool->grower, NULL, __ATOMIC_RELAXED);
  _gpu_pool_unlock (&pool->growth_lock);
  __atomic_thread_fence (__ATOMIC_SEQ_CST);

  if (G_UNLIKELY (__atomic_load_n (&pool->has_left_excess, __ATOMIC_SEQ_CST)))
    _gpu_pool_release_excess (pool);
}

/* Waits that it takes at most. */
static guint
count_pending (GpuPool *pool)
{
  guint n;

  _gpu_pool_lock (&pool->lock);
  n = pool->n_frees + pool->shared->len;
  for (guint i = 0; i < pool->shared->len; i++)
    n += ((GpuPoolShared *) g_ptr_array_index (pool->shared, i))->n_uses;
  _gpu_pool_unlock (&pool->lock);

  return n;
}

static gboolean
manages_more (GpuPool *pool,
              guint64  keep)
{
  gboolean more;

  _gpu_pool_lock (&pool->lock);
  more = pool->stats.managed_bytes > keep;
  _gpu_pool_unlock (&pool->lock);

  return more;
}

void
_gpu_pool_trim (GpuPool  *pool,
                guint64   keep,
                gboolean  wait)
{
  _gpu_pool_lock (&pool->lock);
  _gpu_pool_cache_flush_all (pool, FALSE);
  _gpu_pool_leave (pool);

  if (!_gpu_pool_lock_growth (pool))
    return;

  _gpu_pool_settle (pool);
  _gpu_pool_shrink (pool, keep);

  /* Not for what others give back meanwhile. */
  for (guint n = count_pending (pool); wait && n > 0 && manages_more (pool, keep); n--)
    {
      if (!_gpu_pool_wait_for_pending (pool, NULL))
        break;
      _gpu_pool_shrink (pool, keep);
    }

  _gpu_pool_unlock_growth (pool);
}

void
_gpu_pool_tidy (GpuPool *pool)
{
  _gpu_pool_release_excess (pool);
}

void
_gpu_pool_stop_holding (GpuPool *pool)
{
  _gpu_pool_lock (&pool->lock);
  __atomic_store_n (&pool->is_holding, FALSE, __ATOMIC_RELAXED);
  _gpu_pool_set_cache_limits (pool);
  _gpu_pool_cache_flush_all (pool, FALSE);
  _gpu_pool_leave (pool);

  _gpu_pool_release_excess (pool);
}

void
_gpu_pool_set_limits (GpuPool             *pool,
                      const GpuPoolLimits *limits)
{
  _gpu_pool_lock (&pool->lock);
  pool->limits = *limits;
  _gpu_pool_set_cache_limits (pool);
  _gpu_pool_unlock (&pool->lock);
}

/* --- closing --------------------------------------------------------------------------- */

/* Unlocks; the last one out tells that the pool is done with, and may not look at it again. */
static void
leave_closed (GpuPool *pool)
{
  GDestroyNotify notify = NULL;
  gpointer data = pool->closed_data;

  if (pool->n_out == 0 && pool->n_inside == 0)
    notify = g_steal_pointer (&pool->closed);

  _gpu_pool_leave (pool);

  if (notify != NULL)
    notify (data);
}

void
_gpu_pool_leave_excess (GpuPool  *pool,
                        gboolean  has_excess)
{
  if (G_LIKELY (!has_excess))
    {
      _gpu_pool_leave (pool);
      return;
    }

  pool->n_inside++;
  _gpu_pool_leave (pool);

  _gpu_pool_release_excess (pool);

  _gpu_pool_lock (&pool->lock);
  pool->n_inside--;
  leave_closed (pool);
}

void
_gpu_pool_close (GpuPool        *pool,
                 GDestroyNotify  notify,
                 gpointer        data)
{
  _gpu_pool_lock (&pool->lock);
  pool->closed = notify;
  pool->closed_data = data;
  pool->n_inside++;
  _gpu_pool_unlock (&pool->lock);

  _gpu_pool_stop_holding (pool);

  _gpu_pool_lock (&pool->lock);
  pool->n_inside--;
  leave_closed (pool);
}

GPtrArray *
_gpu_pool_list_pending (GpuPool *pool)
{
  g_autoptr (GPtrArray) streams = g_ptr_array_new ();
  GPtrArray *keys = g_ptr_array_new ();

  _gpu_pool_lock (&pool->lock);

  for (guint slot = 1; slot < pool->n_frees; slot++)
    if (pool->frees[slot] != NULL && pool->frees[slot]->n > 0)
      g_ptr_array_add (streams, pool->frees[slot]->stream);

  for (guint i = 0; i < pool->shared->len; i++)
    {
      const GpuPoolShared *shared = g_ptr_array_index (pool->shared, i);

      for (guint k = 0; k < shared->n_uses; k++)
        if (!g_ptr_array_find (streams, shared->uses[k].stream, NULL))
          g_ptr_array_add (streams, shared->uses[k].stream);
    }

  _gpu_pool_unlock (&pool->lock);

  for (guint i = 0; i < streams->len; i++)
    {
      gpointer key = _gpu_pool_stream_ref_key (g_ptr_array_index (streams, i));

      if (key != NULL)
        g_ptr_array_add (keys, key);
    }

  return keys;
}

gpointer
_gpu_pool_get_owner (GpuPool *pool)
{
  return pool->owner;
}

/* --- figures --------------------------------------------------------------------------- */

static guint64
count_held (GpuPool *pool)
{
  guint64 n = pool->shared->len;

  for (guint slot = 0; slot < pool->n_frees; slot++)
    if (pool->frees[slot] != NULL)
      n += pool->frees[slot]->n;

  return n;
}

static guint64
find_largest (GpuPool *pool)
{
  guint32 largest = 0;

  for (guint slot = 0; slot < pool->n_frees; slot++)
    {
      GpuPoolNode *node = NULL;

      if (pool->frees[slot] != NULL)
        node = _gpu_pool_index_largest (&pool->frees[slot]->index);
      if (node != NULL)
        largest = MAX (largest, node->units);
    }

  return gpu_pool_bytes (pool, largest);
}

void
_gpu_pool_get_stats (GpuPool      *pool,
                     GpuPoolStats *stats)
{
  GpuPoolCounts counts;

  _gpu_pool_lock (&pool->lock);

  *stats = pool->stats;
  counts = pool->counts;
  for (GpuPoolCache *cache = pool->caches; cache != NULL; cache = cache->pool_next)
    {
      guint64 n_allocs = __atomic_load_n (&cache->counts.n_allocs, __ATOMIC_RELAXED);

      stats->n_cache_hits += n_allocs;
      counts.n_allocs += n_allocs;
      counts.n_frees += __atomic_load_n (&cache->counts.n_frees, __ATOMIC_RELAXED);
      counts.bytes += __atomic_load_n (&cache->counts.bytes, __ATOMIC_RELAXED);
      counts.units += __atomic_load_n (&cache->counts.units, __ATOMIC_RELAXED);
    }

  stats->n_allocs = counts.n_allocs;
  stats->n_frees = counts.n_frees;
  stats->active_blocks = counts.n_allocs > counts.n_frees ? counts.n_allocs - counts.n_frees : 0;
  stats->active_bytes = MAX (counts.bytes, 0);
  stats->used_bytes = gpu_pool_bytes (pool, MAX (counts.units, 0));
  stats->peak_active_bytes = MAX (stats->peak_active_bytes, stats->active_bytes);
  stats->peak_used_bytes = MAX (stats->peak_used_bytes, stats->used_bytes);
  pool->stats.peak_active_bytes = stats->peak_active_bytes;
  pool->stats.peak_used_bytes = stats->peak_used_bytes;
  stats->held_blocks = count_held (pool) + pool->n_out - stats->active_blocks;
  stats->largest_free = find_largest (pool);

  _gpu_pool_unlock (&pool->lock);
}

static GpuPoolState
get_state (GpuPool           *pool,
           const GpuPoolNode *node)
{
  switch (gpu_pool_node_state (node))
    {
    case GPU_POOL_NODE_ACTIVE:
      return GPU_POOL_ACTIVE;
    case GPU_POOL_NODE_CACHED:
      return GPU_POOL_CACHED;
    case GPU_POOL_NODE_GAP:
      return GPU_POOL_UNMAPPED;
    case GPU_POOL_NODE_FREE:
      if (_gpu_pool_heap_is_over (pool, node->use))
        return GPU_POOL_FREE;
      return GPU_POOL_PENDING;
    default:
      return GPU_POOL_PENDING;
    }
}

static void
visit_area (GpuPool           *pool,
            const GpuPoolArea *area,
            GpuPoolVisitFunc   func,
            gpointer           data)
{
  for (GpuPoolNode *node = area->first; node != NULL; node = node->next)
    {
      GpuPoolState state = get_state (pool, node);
      gsize size = gpu_pool_bytes (pool, node->units), requested = 0;
      gpointer key = NULL;

      if (state == GPU_POOL_ACTIVE)
        requested = size - __atomic_load_n (&node->slack, __ATOMIC_RELAXED);
      if (state == GPU_POOL_PENDING && gpu_pool_node_state (node) == GPU_POOL_NODE_FREE)
        key = _gpu_pool_stream_get_key (gpu_pool_heap_use (pool, node->use).stream);

      func (data, &area->segment,
            area->segment.address + gpu_pool_bytes (pool, node->offset), size, requested, state,
            key);
    }
}

static gint
compare_areas (gconstpointer a,
               gconstpointer b)
{
  const GpuPoolArea *area = *(const GpuPoolArea *const *) a;
  const GpuPoolArea *other = *(const GpuPoolArea *const *) b;

  return (area->segment.address > other->segment.address)
         - (area->segment.address < other->segment.address);
}

void
_gpu_pool_visit (GpuPool          *pool,
                 GpuPoolVisitFunc  func,
                 gpointer          data)
{
  g_autoptr (GPtrArray) areas = g_ptr_array_new ();

  _gpu_pool_lock (&pool->lock);

  for (guint id = 0; id < pool->n_areas; id++)
    if (pool->areas[id] != NULL)
      g_ptr_array_add (areas, pool->areas[id]);
  g_ptr_array_sort (areas, compare_areas);

  for (guint i = 0; i < areas->len; i++)
    visit_area (pool, g_ptr_array_index (areas, i), func, data);

  _gpu_pool_unlock (&pool->lock);
}

/* --- of a block ------------------------------------------------------------------------ */

GpuPool *
_gpu_pool_block_get_pool (const GpuMemoryBlock *block)
{
  return gpu_pool_node_pool (block);
}

guint64
_gpu_pool_block_get_address (const GpuMemoryBlock *block)
{
  GpuPool *pool = gpu_pool_node_pool (block);

  return pool->areas[block->area]->segment.address + gpu_pool_bytes (pool, block->offset);
}

gsize
_gpu_pool_block_get_size (const GpuMemoryBlock *block)
{
  return gpu_pool_bytes (gpu_pool_node_pool (block), block->units) - block->slack;
}

gsize
_gpu_pool_block_get_capacity (const GpuMemoryBlock *block)
{
  return gpu_pool_bytes (gpu_pool_node_pool (block), block->units);
}

gboolean
_gpu_pool_block_get_mark (const GpuMemoryBlock *block)
{
  return gpu_pool_node_flag (block);
}

void
_gpu_pool_block_set_mark (GpuMemoryBlock *block,
                          gboolean        mark)
{
  __atomic_store_n (&block->flag, mark != FALSE, __ATOMIC_RELEASE);
}

gpointer
_gpu_pool_block_get_segment (const GpuMemoryBlock *block)
{
  return gpu_pool_node_pool (block)->areas[block->area]->segment.data;
}

gpointer
_gpu_pool_block_get_data (const GpuMemoryBlock *block)
{
  return block->data != NULL ? block->data->data : NULL;
}

void
_gpu_pool_block_set_data (GpuMemoryBlock *block,
                          gpointer        data,
                          GDestroyNotify  destroy)
{
  GpuPoolData *old = g_steal_pointer (&block->data);

  if (data != NULL)
    {
      block->data = g_new0 (GpuPoolData, 1);
      block->data->data = data;
      block->data->destroy = destroy;
    }

  _gpu_pool_destroy_data (old);
}
