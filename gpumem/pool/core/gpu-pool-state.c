/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The limits and counters of a pool, and the functions that serve requests from the pool's heap
 * under its lock. */
#include "config.h"

#include "gpumem/pool/core/gpu-pool-cache.h"

#define CACHED_BYTES  (1024 * 1024)
/* The maximum size of a thread's cache in bytes. All threads share 1/CACHE_DIVISOR of the managed
 * bytes equally, but each thread may cache at least CACHE_BUDGET and at most MAX_CACHE_BUDGET. */
#define CACHE_BUDGET  (8 * 1024 * 1024)
#define CACHE_DIVISOR 64
#define MAX_CACHE_BUDGET (64 * 1024 * 1024)
/* In a pool with a limit or a release threshold, a thread caches at most 1/LIMIT_DIVISOR of it. */
#define LIMIT_DIVISOR 64
/* The size of the ranges that the pool lends to the heaps of threads, in bytes: each heap gets
 * 1/CACHE_DIVISOR of its share of the managed bytes at once, or enough for LENT_REQUESTS requests
 * of the size that needs the range. */
#define MIN_LENT      (4 * 1024 * 1024)
#define MAX_LENT      (32 * 1024 * 1024)
#define LENT_REQUESTS 16
/* The maximum size of a small block in bytes, which comes from the end of a range, and that of a
 * block that comes from a range with a low address. */
#define SMALL_BYTES   (256 * 1024)
#define LOW_BYTES     (128 * 1024)

__thread GpuPoolCache *_gpu_pool_cache_current;

void
_gpu_pool_set_cache_limits (GpuPool *pool)
{
  const GpuPoolLimits *limits = &pool->limits;
  gsize least = CACHE_BUDGET, budget, lent;
  guint32 units;

  if (limits->limit != 0)
    least = MIN (least, limits->limit / LIMIT_DIVISOR);
  least = MIN (least, limits->release_threshold / LIMIT_DIVISOR);
  if (!pool->is_holding)
    least = 0;

  budget = least;
  if (pool->is_holding && limits->limit == 0 && limits->release_threshold == G_MAXUINT64)
    budget = CLAMP (pool->stats.managed_bytes / (CACHE_DIVISOR * MAX (pool->n_caches, 1)), least,
                    MAX_CACHE_BUDGET);

  lent = CLAMP (pool->stats.managed_bytes / (CACHE_DIVISOR * gpu_pool_n_heaps (pool)), MIN_LENT,
                MAX_LENT);
  __atomic_store_n (&pool->lent_units, lent >> pool->unit_shift, __ATOMIC_RELAXED);
  __atomic_store_n (&pool->may_lend,
                    pool->is_holding && limits->limit == 0 && limits->soft_limit == 0
                    && limits->release_threshold == G_MAXUINT64, __ATOMIC_SEQ_CST);

  units = MIN (CACHED_BYTES, least / 4) >> pool->unit_shift;
  while (units > 0 && gpu_pool_index_bin_above (units) >= GPU_POOL_CACHE_CLASSES)
    units /= 2;

  __atomic_store_n (&pool->cached_units, units, __ATOMIC_RELAXED);
  __atomic_store_n (&pool->cache_budget, budget >> pool->unit_shift, __ATOMIC_RELAXED);
}

guint32
_gpu_pool_get_lent_units (GpuPool              *pool,
                          const GpuPoolRequest *request)
{
  const guint64 most = MAX_LENT >> pool->unit_shift;

  return MAX (__atomic_load_n (&pool->lent_units, __ATOMIC_RELAXED),
              MIN ((guint64) LENT_REQUESTS * request->units, most));
}

void
_gpu_pool_count_managed (GpuPool *pool,
                         gint64   bytes)
{
  GpuPoolStats *stats = &pool->stats;

  stats->managed_bytes += bytes;
  stats->peak_managed_bytes = MAX (stats->peak_managed_bytes, stats->managed_bytes);
  _gpu_pool_set_cache_limits (pool);

  /* The owner has memory again for the heaps of threads. */
  if (bytes < 0 || (guint64) bytes >= gpu_pool_bytes (pool, pool->lent_units))
    __atomic_store_n (&pool->has_failed_early, FALSE, __ATOMIC_RELAXED);
}

/* --- unlocking ---------------------------------------------------------------------- */

void
_gpu_pool_destroy_data (GpuPoolData *dropped)
{
  while (dropped != NULL)
    {
      GpuPoolData *data = dropped;

      dropped = data->next;
      if (data->destroy != NULL)
        data->destroy (data->data);
      g_free (data);
    }
}

void
_gpu_pool_unlock_and_destroy (GpuPool *pool)
{
  GpuPoolData *dropped = g_steal_pointer (&pool->dropped);

  _gpu_pool_unlock (&pool->lock);

  if (G_UNLIKELY (dropped != NULL))
    _gpu_pool_destroy_data (dropped);
}

/* --- counting ---------------------------------------------------------------------- */

static guint64
sum_active (GpuPool *pool)
{
  gint64 bytes = pool->counts.bytes;

  for (guint i = 1; i < gpu_pool_n_heaps (pool); i++)
    bytes += __atomic_load_n (&gpu_pool_heap_at (pool, i)->counts.bytes, __ATOMIC_RELAXED);

  for (GpuPoolCache *cache = pool->caches; cache != NULL; cache = cache->pool_next)
    bytes += __atomic_load_n (&cache->counts.bytes, __ATOMIC_RELAXED);

  return MAX (bytes, 0);
}

static inline void
set_peak_used (GpuPool *pool,
               guint64  bytes)
{
  if (G_LIKELY (bytes <= pool->stats.peak_used_bytes))
    return;

  pool->stats.peak_used_bytes = bytes;
  pool->most_used_bytes = MAX (pool->most_used_bytes, bytes);
}

/* Other threads may have freed blocks into their caches without flushing their counts yet. The
 * counts of the pool still include these blocks. A new peak is therefore computed from the counts
 * of the pool and of all caches. */
static inline void
update_peaks (GpuPool *pool)
{
  GpuPoolStats *stats = &pool->stats;
  guint64 bytes = MAX (pool->counts.bytes, 0);

  if (G_UNLIKELY (bytes > stats->peak_active_bytes))
    stats->peak_active_bytes = MAX (stats->peak_active_bytes, sum_active (pool));

  set_peak_used (pool, gpu_pool_used_bytes (pool));
}

guint64
_gpu_pool_sum_used (GpuPool *pool)
{
  gint64 units = pool->counts.units;

  for (guint i = 1; i < gpu_pool_n_heaps (pool); i++)
    units += __atomic_load_n (&gpu_pool_heap_at (pool, i)->counts.units, __ATOMIC_RELAXED);

  for (GpuPoolCache *cache = pool->caches; cache != NULL; cache = cache->pool_next)
    units += __atomic_load_n (&cache->counts.units, __ATOMIC_RELAXED);

  return gpu_pool_bytes (pool, MAX (units, 0));
}

static void
move_counts (GpuPool       *pool,
             GpuPoolCounts *counts)
{
  pool->counts.n_allocs += counts->n_allocs;
  pool->counts.n_frees += counts->n_frees;
  pool->counts.bytes += counts->bytes;
  pool->counts.units += counts->units;

  __atomic_store_n (&counts->n_allocs, 0, __ATOMIC_RELAXED);
  __atomic_store_n (&counts->n_frees, 0, __ATOMIC_RELAXED);
  __atomic_store_n (&counts->bytes, 0, __ATOMIC_RELAXED);
  __atomic_store_n (&counts->units, 0, __ATOMIC_RELAXED);
}

void
_gpu_pool_add_counts (GpuPool       *pool,
                      GpuPoolCounts *counts)
{
  pool->stats.n_cache_hits += counts->n_allocs;
  move_counts (pool, counts);
}

void
_gpu_pool_add_heap_counts (GpuPool *pool,
                           GpuPool *heap)
{
  _gpu_pool_lock (&heap->lock);
  move_counts (pool, &heap->counts);
  _gpu_pool_unlock_nested (pool, heap);
  update_peaks (pool);
}

static void
count_alloc (GpuPool              *pool,
             GpuPoolNode          *node,
             const GpuPoolRequest *request)
{
  GpuPoolCache *cache = _gpu_pool_cache_current;

  if (cache != NULL && cache->pool == pool
      && (cache->counts.n_allocs | cache->counts.n_frees) != 0)
    _gpu_pool_add_counts (pool, &cache->counts);

  if (request->is_lent)
    return;

  pool->n_out++;
  gpu_pool_add_to (&pool->counts.n_allocs, 1);
  gpu_pool_add_to (&pool->counts.bytes, request->size);
  gpu_pool_add_to (&pool->counts.units, node->units);
  if (pool->pool == pool)
    update_peaks (pool);
}

static guint64
count_held (GpuPool *pool)
{
  guint64 n = pool->shared->len;

  for (guint slot = 0; slot < pool->n_free_lists; slot++)
    if (pool->free_lists[slot] != NULL)
      n += pool->free_lists[slot]->n;

  return n;
}

static guint64
find_largest (GpuPool *pool)
{
  guint32 largest = 0;

  for (guint slot = 0; slot < pool->n_free_lists; slot++)
    {
      GpuPoolNode *node = NULL;

      if (pool->free_lists[slot] != NULL)
        node = _gpu_pool_index_largest (&pool->free_lists[slot]->index);
      if (node != NULL)
        largest = MAX (largest, node->units);
    }

  return gpu_pool_bytes (pool, largest);
}

/* Adds the figures of the heaps of threads. Returns the number of blocks that the heaps hold, and
 * blocks that are in use. */
static guint64
add_heap_stats (GpuPool      *pool,
                GpuPoolStats *stats)
{
  guint64 n = 0;

  for (guint i = 1; i < gpu_pool_n_heaps (pool); i++)
    {
      GpuPool *heap = gpu_pool_heap_at (pool, i);

      _gpu_pool_lock (&heap->lock);
      move_counts (pool, &heap->counts);
      n += count_held (heap) + heap->n_out;
      stats->n_hits += heap->stats.n_hits;
      stats->n_steals += heap->stats.n_steals;
      stats->n_waits += heap->stats.n_waits;
      stats->largest_free = MAX (stats->largest_free, find_largest (heap));
      _gpu_pool_unlock_nested (pool, heap);
    }

  return n;
}

/* Like find_largest(), for a pool without active blocks: counts adjacent ranges as one, even if
 * work of different streams may still use them, or if caches hold them. A pool of chunks can move
 * all its memory to one place. */
static guint64
find_largest_of_empty (GpuPool *pool)
{
  guint64 largest = 0;

  for (guint i = 0; i < pool->n_areas; i++)
    {
      GpuPoolNode *node = pool->areas[i] != NULL ? pool->areas[i]->first : NULL;
      guint64 units = 0;

      for (; node != NULL; node = node->next)
        {
          GpuPoolNodeState state = gpu_pool_node_state (node);

          if (state == GPU_POOL_NODE_FREE || state == GPU_POOL_NODE_CACHED
              || state == GPU_POOL_NODE_SHARED || state == GPU_POOL_NODE_LENT)
            units += node->units;
          else if (pool->chunks == NULL)
            units = 0;
          largest = MAX (largest, units);
        }
    }

  return gpu_pool_bytes (pool, largest);
}

void
_gpu_pool_get_stats (GpuPool      *pool,
                     GpuPoolStats *stats)
{
  GpuPoolCounts counts;
  guint64 n;

  _gpu_pool_lock (&pool->lock);

  *stats = pool->stats;
  stats->n_slow = __atomic_load_n (&pool->n_slow, __ATOMIC_RELAXED);
  stats->largest_free = find_largest (pool);
  n = count_held (pool) + pool->n_out + add_heap_stats (pool, stats);
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
  set_peak_used (pool, stats->used_bytes);
  pool->stats.peak_active_bytes = stats->peak_active_bytes;
  stats->peak_used_bytes = pool->stats.peak_used_bytes;
  stats->held_blocks = n - stats->active_blocks;
  if (stats->active_blocks == 0)
    stats->largest_free = find_largest_of_empty (pool);

  _gpu_pool_unlock_and_destroy (pool);
}

void
_gpu_pool_reset_peaks (GpuPool *pool)
{
  _gpu_pool_lock (&pool->lock);
  pool->stats.peak_active_bytes = sum_active (pool);
  pool->stats.peak_used_bytes = _gpu_pool_sum_used (pool);
  pool->stats.peak_managed_bytes = pool->stats.managed_bytes;
  _gpu_pool_unlock (&pool->lock);
}

void
_gpu_pool_set_refused (GpuPool               *pool,
                       const GpuPoolRequest  *request,
                       int                    code,
                       const char            *reason,
                       GError               **error)
{
  g_autofree char *rest = NULL;
  GpuPoolStats stats;
  guint64 limit;

  _gpu_pool_lock (&pool->lock);
  pool->stats.n_refused++;
  limit = pool->limits.limit;
  _gpu_pool_unlock (&pool->lock);

  _gpu_pool_get_stats (pool, &stats);
  if (limit != 0)
    rest = g_strdup_printf ("the limit is %" G_GUINT64_FORMAT " bytes, which leaves %"
                            G_GUINT64_FORMAT " for growth", limit,
                            limit - MIN (limit, stats.managed_bytes));

  g_set_error (error, GPU_ERROR, code,
               "no memory for %" G_GSIZE_FORMAT " bytes: %s; the pool has %" G_GUINT64_FORMAT
               " bytes, of which %" G_GUINT64_FORMAT " are active and %" G_GUINT64_FORMAT
               " held; the largest free range has %" G_GUINT64_FORMAT "; %s",
               request->size, reason, stats.managed_bytes, stats.active_bytes,
               stats.managed_bytes - stats.used_bytes, stats.largest_free,
               rest != NULL ? rest : "the pool has no limit");
}

/* --- cutting requested blocks from free ranges --------------------------------------- */

/* Returns the units before the requested block in @node. Small blocks come from the end of a range,
 * so that fewer of them lie between large ones. */
static guint32
get_pad (GpuPool              *pool,
         const GpuPoolNode    *node,
         const GpuPoolRequest *request)
{
  guint64 first = pool->areas[node->area]->segment.address >> pool->unit_shift;
  guint64 at = first + node->offset;

  if (request->units <= (guint32) SMALL_BYTES >> pool->unit_shift)
    return ((at + node->units - request->units) & -(guint64) request->align) - at;

  return -at & (request->align - 1);
}

/* Makes @node, which has the requested units, the block of @request. */
static inline GpuPoolNode *
serve_with (GpuPool              *pool,
            GpuPoolNode          *node,
            const GpuPoolRequest *request)
{
  /* The range has no pending use. Record the requesting stream as its allocation stream, with the
   * use sequence 0, which means that no use is pending. */
  if (node->use == 0 && request->slot != 0)
    {
      _gpu_pool_heap_get_free_list (pool, request->stream);
      node->use = gpu_pool_use_pack (request->slot, 0);
    }

  __atomic_store_n (&node->slack, gpu_pool_bytes (pool, node->units) - request->size,
                    __ATOMIC_RELAXED);
  __atomic_store_n (&node->flag, FALSE, __ATOMIC_RELAXED);
  gpu_pool_node_set_state (node, request->is_lent ? GPU_POOL_NODE_BUSY : GPU_POOL_NODE_ACTIVE);
  count_alloc (pool, node, request);

  return node;
}

GpuPoolNode *
_gpu_pool_serve_from (GpuPool              *pool,
                      GpuPoolNode          *node,
                      const GpuPoolRequest *request)
{
  guint32 pad = get_pad (pool, node, request);

  return serve_with (pool, _gpu_pool_heap_cut (pool, node, pad, request->units), request);
}

/* Finds a range with a low address. Small blocks then lie close together, and not between large
 * ranges, where they would keep chunks from being moved. The ranges of a pool with chunks are in a
 * single area. */
static GpuPoolNode *
find_lowest (GpuPool *pool,
             guint    slot,
             guint32  units)
{
  GpuPoolFreeList *free_list = gpu_pool_heap_filled_at_slot (pool, slot);

  return free_list != NULL ? _gpu_pool_index_find_lowest (&free_list->index, units) : NULL;
}

GpuPoolNode *
_gpu_pool_find_fit (GpuPool              *pool,
                    const GpuPoolRequest *request)
{
  guint32 units = request->units + request->align - 1;
  GpuPoolNode *own = NULL, *common = NULL;

  if (pool->granule != 0 && units <= (guint32) LOW_BYTES >> pool->unit_shift)
    {
      common = find_lowest (pool, 0, units);
      if (request->slot != 0)
        own = find_lowest (pool, request->slot, units);
      if (own != NULL && common != NULL)
        return own->offset < common->offset ? own : common;
    }

  if (own == NULL && common == NULL)
    {
      common = gpu_pool_heap_find (pool, 0, units);
      if (request->slot != 0)
        own = gpu_pool_heap_find (pool, request->slot, units);
    }

  return own == NULL || (common != NULL && common->units < own->units) ? common : own;
}

GpuPoolNode *
_gpu_pool_serve (GpuPool              *pool,
                 const GpuPoolRequest *request)
{
  GpuPoolNode *node = _gpu_pool_find_fit (pool, request);

  if (node == NULL)
    return NULL;

  /* Do not cut whole chunks if there are many edges, which may suffice. */
  if (request->prefers_edges
      && node->units - request->units >= pool->granule / GPU_POOL_MIN_EDGE + request->align - 1
      && gpu_pool_wants_edges (pool, request->units))
    return NULL;

  pool->stats.n_hits += !request->is_lent;
  node = _gpu_pool_heap_take (pool, node, get_pad (pool, node, request), request->units);

  return serve_with (pool, node, request);
}

void
_gpu_pool_serve_undo (GpuPool     *pool,
                      GpuPoolNode *node,
                      guint64      use)
{
  gpu_pool_count_free (pool, node);
  gpu_pool_add_to (&pool->counts.n_allocs, -1);
  gpu_pool_add_to (&pool->counts.n_frees, -1);
  _gpu_pool_heap_add (pool, node, use);
}

GpuPoolNode *
_gpu_pool_lock_and_serve (GpuPool              *pool,
                          const GpuPoolRequest *request)
{
  GpuPoolNode *node;

  _gpu_pool_lock (&pool->lock);
  node = _gpu_pool_serve (pool, request);
  _gpu_pool_unlock_and_destroy (pool);

  return node;
}
