/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Trimming, closing and visiting a pool. */
#include "config.h"

#include "gpumem/pool/core/gpu-pool-cache.h"

/* --- trimming -------------------------------------------------------------------------- */

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
  /* If another thread is growing the pool, do not wait for growth_lock: the caller may hold a lock
   * that the owner's allocator needs, such as the lock of the Python interpreter. A later call
   * releases the excess. In a pool that keeps no freed memory, the growing thread releases the
   * excess when it unlocks growth_lock. */
  if (!__atomic_load_n (&pool->is_holding, __ATOMIC_RELAXED))
    __atomic_store_n (&pool->has_left_excess, TRUE, __ATOMIC_SEQ_CST);

  if (!_gpu_pool_try_lock (&pool->growth_lock))
    return;

  __atomic_store_n (&pool->grower, g_thread_self (), __ATOMIC_RELAXED);
  __atomic_store_n (&pool->has_left_excess, FALSE, __ATOMIC_SEQ_CST);
  _gpu_pool_reclaim_completed (pool);
  _gpu_pool_shrink (pool, get_keep (pool));
  _gpu_pool_unlock_growth (pool);
}

/* Locks growth_lock. Returns FALSE if this thread already holds the lock: allocators and
 * memory-pressure handlers may call the pool while it grows. */
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
  g_autoptr (GArray) pending = NULL;

  _gpu_pool_lock (&pool->lock);
  _gpu_pool_cache_flush_all (pool, FALSE);
  _gpu_pool_unlock_and_destroy (pool);

  if (!_gpu_pool_lock_growth (pool))
    return;

  _gpu_pool_reclaim_completed (pool);
  _gpu_pool_shrink (pool, keep);

  if (wait)
    pending = _gpu_pool_list_uses (pool, NULL);
  while (wait && manages_more (pool, keep) && _gpu_pool_wait_for_next (pool, pending))
    _gpu_pool_shrink (pool, keep);

  _gpu_pool_unlock_growth (pool);
}

void
_gpu_pool_stop_holding (GpuPool *pool)
{
  _gpu_pool_lock (&pool->lock);
  __atomic_store_n (&pool->is_holding, FALSE, __ATOMIC_RELAXED);
  _gpu_pool_set_cache_limits (pool);
  _gpu_pool_cache_flush_all (pool, FALSE);
  _gpu_pool_unlock_and_destroy (pool);

  _gpu_pool_release_excess (pool);
}

void
_gpu_pool_set_limits (GpuPool             *pool,
                      const GpuPoolLimits *limits)
{
  guint32 budget;
  gboolean may_lend, keeps_less;

  _gpu_pool_lock (&pool->lock);
  budget = pool->cache_budget;
  may_lend = pool->may_lend;
  keeps_less = limits->release_threshold < pool->limits.release_threshold;
  pool->limits = *limits;
  _gpu_pool_set_cache_limits (pool);

  /* Threads do not return, by themselves, the memory that they hold beyond their new shares. */
  if (pool->cache_budget < budget || (may_lend && !pool->may_lend))
    _gpu_pool_cache_flush_all (pool, FALSE);
  _gpu_pool_unlock_and_destroy (pool);

  if (keeps_less)
    _gpu_pool_release_excess (pool);
}

/* --- closing --------------------------------------------------------------------------- */

/* Returns the number of blocks that are active or in the caches of threads. Caller holds `lock`. */
static guint64
count_out (GpuPool *pool)
{
  guint64 n = pool->n_out;

  for (guint i = 1; i < gpu_pool_n_heaps (pool); i++)
    {
      GpuPool *heap = gpu_pool_heap_at (pool, i);

      _gpu_pool_lock (&heap->lock);
      n += heap->n_out;
      _gpu_pool_unlock_nested (pool, heap);
    }

  return n;
}

/* Unlocks. The last thread inside a closed pool calls the pool's notify, which may free the
 * pool. */
static void
unlock_and_notify (GpuPool *pool)
{
  GDestroyNotify notify = NULL;
  gpointer data = pool->closed_data;

  if (pool->closed != NULL && pool->n_inside == 0 && count_out (pool) == 0)
    notify = g_steal_pointer (&pool->closed);

  _gpu_pool_unlock_and_destroy (pool);

  if (notify != NULL)
    notify (data);
}

void
_gpu_pool_unlock_and_release_excess (GpuPool  *pool,
                                     gboolean  has_excess)
{
  if (G_LIKELY (!has_excess))
    {
      _gpu_pool_unlock_and_destroy (pool);
      return;
    }

  pool->n_inside++;
  _gpu_pool_unlock_and_destroy (pool);

  _gpu_pool_release_excess (pool);

  _gpu_pool_lock (&pool->lock);
  pool->n_inside--;
  unlock_and_notify (pool);
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
  unlock_and_notify (pool);
}

/* --- visiting -------------------------------------------------------------------------- */

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
    case GPU_POOL_NODE_UNMAPPED:
    case GPU_POOL_NODE_HIDDEN:
      return GPU_POOL_UNMAPPED;
    case GPU_POOL_NODE_FREE:
      if (_gpu_pool_heap_is_completed (pool, node->use))
        return GPU_POOL_FREE;
      return GPU_POOL_PENDING;
    default:
      return GPU_POOL_PENDING;
    }
}

static void
visit_area (GpuPool              *pool,
            const GpuPoolArea    *area,
            const GpuPoolSegment *segment,
            GpuPoolVisitFunc      func,
            gpointer              data);

/* Visits @area, which @lender lent. Loans may form a cycle: a heap lends a part of a range to the
 * heap that lent the range to it. So at most one heap is locked at a time, besides the pool. */
static void
visit_lent (GpuPool              *lender,
            const GpuPoolArea    *area,
            const GpuPoolSegment *segment,
            GpuPoolVisitFunc      func,
            gpointer              data)
{
  GpuPool *pool = lender->pool;
  GpuPool *heap = gpu_pool_node_heap (area->first);

  if (lender != pool)
    _gpu_pool_unlock_nested (pool, lender);

  _gpu_pool_lock (&heap->lock);
  visit_area (heap, area, segment, func, data);
  _gpu_pool_unlock_nested (pool, heap);

  if (lender != pool)
    _gpu_pool_lock (&lender->lock);
}

/* @segment is the segment of the pool that contains @area. Caller holds the lock of the pool, and
 * that of @pool, which may be the heap of a thread. */
static void
visit_area (GpuPool              *pool,
            const GpuPoolArea    *area,
            const GpuPoolSegment *segment,
            GpuPoolVisitFunc      func,
            gpointer              data)
{
  for (GpuPoolNode *node = area->first; node != NULL; node = node->next)
    {
      GpuPoolState state;
      gsize size = gpu_pool_bytes (pool, node->units), requested = 0;
      gpointer key = NULL;

      if (__atomic_load_n (&node->state, __ATOMIC_ACQUIRE) == GPU_POOL_NODE_LENT)
        {
          /* Other threads may change the neighbours of the node meanwhile, but not the node itself:
           * loans only end under the lock of the pool. So node->next is valid afterwards. */
          visit_lent (pool, node->lent, segment, func, data);
          continue;
        }

      state = get_state (pool, node);
      if (state == GPU_POOL_ACTIVE)
        requested = size - __atomic_load_n (&node->slack, __ATOMIC_RELAXED);
      if (state == GPU_POOL_PENDING && gpu_pool_node_state (node) == GPU_POOL_NODE_FREE)
        key = _gpu_pool_stream_get_key (gpu_pool_heap_use (pool, node->use).stream);

      func (data, segment,
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
    {
      const GpuPoolArea *area = g_ptr_array_index (areas, i);

      visit_area (pool, area, &area->segment, func, data);
    }

  _gpu_pool_unlock (&pool->lock);
}
