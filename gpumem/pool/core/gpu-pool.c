/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/pool/core/gpu-pool-cache.h"

/* A thread gets its own heap when its contention exceeds MAX_CONTENTION: each time that the thread
 * finds the lock of the pool taken adds CONTENTION_STEP, and each other time subtracts 1. So a
 * thread gets a heap if it often finds the lock taken more than once in CONTENTION_STEP times. */
#define CONTENTION_STEP 16
#define MAX_CONTENTION  256
/* The counts of a heap are added to those of the pool after this many requests. */
#define MAX_UNCOUNTED   256
/* A thread flushes its cache for every FLUSH_INTERVAL-th request that its heap cannot serve. */
#define FLUSH_INTERVAL  16

/* --- creating and freeing ---------------------------------------------------------- */

/* Returns the binary logarithm of the unit: the configured unit, doubled until the largest area has
 * at most 2^32 units. */
static guint
choose_unit_shift (const GpuPoolConfig *config)
{
  guint shift = g_bit_storage (config->unit) - 1;

  while (config->range_size >> shift > G_MAXUINT32)
    shift++;

  return shift;
}

GpuPool *
_gpu_pool_new (const GpuPoolConfig     *config,
               const GpuPoolOps        *ops,
               gpointer                 owner,
               const GpuPoolStreamOps  *stream_ops,
               GError                 **error)
{
  GpuPool *pool;

  if (!_gpu_pool_cache_init (error))
    return NULL;

  pool = g_aligned_alloc0 (1, sizeof (GpuPool), GPU_LINE);
  pool->pool = pool;
  pool->config = *config;
  pool->ops = *ops;
  pool->owner = owner;
  pool->unit_shift = choose_unit_shift (config);
  pool->is_holding = TRUE;
  pool->limits = (GpuPoolLimits) { .release_threshold = G_MAXUINT64, .waste = 0.01 };

  _gpu_pool_lock_init (&pool->growth_lock);
  g_mutex_init (&pool->moves_lock);
  g_cond_init (&pool->move_ended);
  _gpu_pool_lock_init (&pool->lock);
  pool->streams = _gpu_pool_streams_new (stream_ops);
  pool->shared = g_ptr_array_new ();
  pool->areas = g_new0 (GpuPoolArea *, GPU_POOL_MAX_AREAS);
  _gpu_pool_heap_get_free_list (pool, NULL);
  _gpu_pool_set_cache_limits (pool);
  if (config->granularity != 0)
    _gpu_pool_chunks_new (pool);

  return pool;
}

void
_gpu_pool_free (GpuPool *pool)
{
  _gpu_pool_cache_detach_all (pool);
  _gpu_pool_trim (pool, 0, TRUE);
  if (pool->chunks != NULL)
    _gpu_pool_chunks_free (pool);
  _gpu_pool_segments_free (pool);
  for (guint i = 1; i < gpu_pool_n_heaps (pool); i++)
    _gpu_pool_heap_free (gpu_pool_heap_at (pool, i));

  for (guint i = 0; i < pool->n_free_lists; i++)
    g_free (pool->free_lists[i]);
  g_free (pool->free_lists);
  g_free (pool->areas);
  g_ptr_array_unref (pool->shared);
  _gpu_pool_nodes_clear (&pool->nodes);
  _gpu_pool_streams_free (pool->streams);
  _gpu_pool_lock_clear (&pool->lock);
  _gpu_pool_lock_clear (&pool->growth_lock);
  g_mutex_clear (&pool->moves_lock);
  g_cond_clear (&pool->move_ended);
  g_aligned_free (pool);
}

gpointer
_gpu_pool_get_owner (GpuPool *pool)
{
  return pool->owner;
}

/* --- alloc and release ------------------------------------------------------------------- */

/* Rounds a cacheable size up to the size of its cache class. */
static inline guint32
round_units (guint32 units)
{
  guint shift = gpu_pool_index_step_shift (units);

  return (units + (1u << shift) - 1) >> shift << shift;
}

static inline gboolean
make_request (GpuPool         *pool,
              gsize            size,
              gsize            alignment,
              GpuPoolRequest  *request,
              GError         **error)
{
  gsize unit = (gsize) 1 << pool->unit_shift;
  guint64 units = (size >> pool->unit_shift) + ((size & (unit - 1)) != 0);
  guint64 align = MAX (alignment >> pool->unit_shift, 1);

  *request = (GpuPoolRequest) { .size = size };

  if (units + align > G_MAXUINT32)
    {
      _gpu_pool_set_refused (pool, request, GPU_ERROR_OUT_OF_DEVICE_MEMORY,
                             "the size exceeds that of any range", error);
      return FALSE;
    }

  if (units <= __atomic_load_n (&pool->cached_units, __ATOMIC_RELAXED))
    units = round_units (units);
  request->units = units;
  request->align = align;
  request->prefers_edges = pool->granule != 0 && units >= pool->granule;

  return TRUE;
}

/* Sets the stream of @request. Fails if no node can store the slot of @stream. */
static gboolean
set_stream (GpuPoolRequest  *request,
            GpuPoolStream   *stream,
            GError         **error)
{
  request->stream = stream;
  request->slot = _gpu_pool_stream_get_slot (stream);
  if (G_LIKELY (gpu_pool_stream_fits_node (stream)))
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
               "the stream cannot allocate from the pool: at most %d streams use a pool at the "
               "same time; use another pool, or drop streams and create this one anew",
               GPU_POOL_MAX_STREAMS);

  return FALSE;
}

static void
sweep_streams (GpuPool *pool)
{
  if (!_gpu_pool_streams_want_sweep (pool->streams))
    return;

  _gpu_pool_lock (&pool->lock);
  _gpu_pool_cache_flush_all (pool, TRUE);
  _gpu_pool_unlock_and_destroy (pool);

  _gpu_pool_streams_sweep (pool->streams);
}

static inline GpuPoolCache *
get_cache (GpuPool *pool)
{
  GpuPoolCache *cache = gpu_pool_cache_here (pool);

  if (G_LIKELY (cache != NULL))
    return cache;

  cache = _gpu_pool_cache_get (pool, TRUE);
  if (pool->config.has_thread_heaps)
    cache->contention = MAX_CONTENTION + 2;

  return cache;
}

/* Locks the pool. If this thread contends for the lock, gives it a heap. */
static void
lock_for_thread (GpuPool      *pool,
                 GpuPoolCache *cache)
{
  if (G_LIKELY (_gpu_pool_try_lock (&pool->lock)))
    cache->contention -= cache->contention > 0;
  else
    {
      cache->contention += CONTENTION_STEP;
      _gpu_pool_lock (&pool->lock);
    }

  if (G_UNLIKELY (cache->contention > MAX_CONTENTION) && cache->heap == NULL
      && gpu_pool_may_lend (pool))
    {
      cache->contention = 0;
      cache->heap = _gpu_pool_heap_claim (pool);
      _gpu_pool_set_cache_limits (pool);
    }
}

/* Gets the thread's cache and the cache's entry for @key, and locks the pool. Creates the cache and
 * the entry if they do not exist. */
static GpuPoolStreamCache *
lock_with_stream_cache (GpuPool       *pool,
                        GpuPoolCache **cache,
                        gpointer       key)
{
  GpuPoolStreamCache *stream_cache;

  *cache = get_cache (pool);
  lock_for_thread (pool, *cache);
  while (G_UNLIKELY ((stream_cache = gpu_pool_cache_find (*cache, key)) == NULL))
    {
      _gpu_pool_unlock (&pool->lock);
      sweep_streams (pool);
      _gpu_pool_cache_get_stream (pool, *cache, key);
      _gpu_pool_lock (&pool->lock);
    }

  return stream_cache;
}

/* --- heaps of threads ------------------------------------------------------------------- */

/* Enters the cache, and finds its entry for @key. Creates the entry if it does not exist. */
static GpuPoolStreamCache *
enter_stream_cache (GpuPool      *pool,
                    GpuPoolCache *cache,
                    gpointer      key)
{
  while (TRUE)
    {
      GpuPoolStreamCache *stream_cache;

      if (G_UNLIKELY (!gpu_pool_cache_enter (cache)))
        {
          /* Another thread flushes the cache, and holds the lock until it has finished. */
          _gpu_pool_lock (&pool->lock);
          _gpu_pool_unlock (&pool->lock);
          continue;
        }

      stream_cache = gpu_pool_cache_find (cache, key);
      if (G_LIKELY (stream_cache != NULL))
        return stream_cache;

      gpu_pool_cache_leave (cache);
      sweep_streams (pool);
      _gpu_pool_cache_get_stream (pool, cache, key);
    }
}

/* Locks @heap. If the pool must not keep unused memory in @heap, locks the pool first, and returns
 * TRUE. Check that under the lock: a thread that clears may_lend takes unused memory back
 * afterwards, under the same lock. */
static gboolean
lock_heap (GpuPool *pool,
           GpuPool *heap)
{
  _gpu_pool_lock (&heap->lock);
  if (heap == pool || G_LIKELY (gpu_pool_may_lend (pool)))
    return FALSE;

  _gpu_pool_unlock (&heap->lock);
  _gpu_pool_lock (&pool->lock);
  _gpu_pool_lock (&heap->lock);

  return TRUE;
}

/* Undoes lock_heap(), which returned @nested. */
static void
unlock_heap (GpuPool  *pool,
             GpuPool  *heap,
             gboolean  nested,
             gboolean  has_excess)
{
  if (nested)
    {
      _gpu_pool_unlock_nested (pool, heap);
      _gpu_pool_take_back (pool, &has_excess);
    }

  if (nested || heap == pool)
    _gpu_pool_unlock_and_release_excess (pool, has_excess || !pool->is_holding);
  else
    _gpu_pool_unlock_and_destroy (heap);
}

/* Undoes lock_heap(), which returned @nested, while this thread moves memory. Does not return
 * memory to the owner, because other threads may wait for the end of the move. */
static void
unlock_heap_in_move (GpuPool  *pool,
                     GpuPool  *heap,
                     gboolean  nested)
{
  if (nested)
    {
      _gpu_pool_unlock_nested (pool, heap);
      _gpu_pool_take_back (pool, NULL);
    }

  _gpu_pool_unlock_and_destroy (nested ? pool : heap);
}

/* Adds the blocks of @heap in @list, which were in a thread's cache, to the free ranges of @heap.
 * Returns the other blocks. Caller holds the lock of @heap. */
static GpuPoolNode *
add_evicted (GpuPool     *heap,
             GpuPoolNode *list)
{
  GpuPoolNode *others = NULL;

  while (list != NULL)
    {
      GpuPoolNode *node = list;

      list = node->free_next;
      if (gpu_pool_node_heap (node) == heap)
        {
          _gpu_pool_heap_add (heap, node, node->use);
          heap->n_out--;
        }
      else
        {
          node->free_next = others;
          others = node;
        }
    }

  return others;
}

/* Returns the blocks of @list, which were in @cache, to their heaps, and ends the move of
 * @cache. */
static void
return_evicted (GpuPool      *pool,
                GpuPoolCache *cache,
                GpuPoolNode  *list)
{
  while (list != NULL)
    {
      GpuPool *heap = gpu_pool_node_heap (list);
      gboolean nested = lock_heap (pool, heap);

      list = add_evicted (heap, list);
      if (list != NULL)
        {
          unlock_heap_in_move (pool, heap, nested);
          continue;
        }

      /* After the unlock, the pool and the cache may no longer exist. */
      gpu_pool_cache_end_move (pool, cache);
      unlock_heap (pool, heap, nested, FALSE);
    }
}

/* Returns the cached blocks of this thread to their heaps, so that they can be joined. Returns
 * FALSE if there are none, or if the last attempt was a short time ago. */
static gboolean
flush_to_heaps (GpuPool      *pool,
                GpuPoolCache *cache,
                gpointer      key)
{
  GpuPoolNode *evicted;

  if (cache->n_unflushed++ % FLUSH_INTERVAL != 0
      || __atomic_load_n (&cache->units, __ATOMIC_RELAXED) == 0)
    return FALSE;

  enter_stream_cache (pool, cache, key);
  gpu_pool_cache_begin_move (cache);
  evicted = _gpu_pool_cache_evict_all (cache);
  gpu_pool_cache_leave (cache);
  if (evicted != NULL)
    return_evicted (pool, cache, evicted);
  else
    gpu_pool_cache_end_move (pool, cache);

  return TRUE;
}

/* Lends a free range to the heap of this thread, from the pool or from another heap, and serves
 * @request from it. Returns NULL if no free range of the stream of @request, or without pending
 * uses, is large enough. */
static GpuPoolNode *
lend_and_serve (GpuPool              *pool,
                GpuPoolCache         *cache,
                const GpuPoolRequest *request)
{
  GpuPoolNode *node = NULL;

  gpu_pool_cache_begin_move (cache);
  for (guint i = 0; i < gpu_pool_n_heaps (pool) && node == NULL; i++)
    {
      GpuPool *from = gpu_pool_heap_at (pool, i);

      if (from != cache->heap)
        node = _gpu_pool_take_lendable (from, request);
    }
  if (node != NULL)
    node = _gpu_pool_lend (cache->heap, node, request, FALSE);
  gpu_pool_cache_end_move (pool, cache);

  return node;
}

/* Adds the counts of the thread to those of the pool from time to time. The counts of the pool
 * determine the peaks. */
static void
count_request (GpuPool      *pool,
               GpuPoolCache *cache)
{
  GpuPool *heap = cache->heap;
  gint64 units = __atomic_load_n (&heap->counts.units, __ATOMIC_RELAXED)
                 + __atomic_load_n (&cache->counts.units, __ATOMIC_RELAXED);

  if (G_LIKELY (++cache->n_uncounted < MAX_UNCOUNTED
                && ABS (units) <= __atomic_load_n (&pool->cache_budget, __ATOMIC_RELAXED)))
    return;

  cache->n_uncounted = 0;
  _gpu_pool_lock (&pool->lock);
  _gpu_pool_add_counts (pool, &cache->counts);
  _gpu_pool_add_heap_counts (pool, heap);
  _gpu_pool_unlock_and_destroy (pool);
}

/* Serves @request from the heap of this thread. Returns NULL if that heap has no memory, and the
 * pool has none to lend. */
static GpuPoolNode *
alloc_from_thread_heap (GpuPool        *pool,
                        GpuPoolCache   *cache,
                        gpointer        key,
                        GpuPoolRequest *request)
{
  GpuPool *heap = cache->heap;
  gboolean may_borrow = gpu_pool_heap_may_borrow (heap);
  GpuPoolStream *stream;
  GpuPoolNode *node;

  stream = enter_stream_cache (pool, cache, key)->stream;
  gpu_pool_cache_leave (cache);
  if (!set_stream (request, stream, NULL))
    return NULL;

  node = _gpu_pool_lock_and_serve (heap, request);
  if (node == NULL && may_borrow)
    node = lend_and_serve (pool, cache, request);
  if (node == NULL && flush_to_heaps (pool, cache, key))
    node = _gpu_pool_lock_and_serve (heap, request);
  if (node == NULL && may_borrow)
    node = _gpu_pool_grow_early (pool, heap, request);
  if (node != NULL)
    count_request (pool, cache);

  return node;
}

static void
add_shared (GpuPool       *pool,
            GpuPoolNode   *node,
            GpuPoolShared *shared)
{
  shared->node = node;
  gpu_pool_node_set_state (node, GPU_POOL_NODE_SHARED);
  g_ptr_array_add (pool->shared, shared);
}

/* Frees @node after its allocation stream, whose use may be pending (@is_pending), and after
 * @stream. A list of uses names a stream by pointer, so @stream need not fit a node. */
static void
release_shared (GpuPool       *pool,
                GpuPoolNode   *node,
                GpuPoolStream *stream,
                gboolean       is_pending,
                gboolean      *has_excess)
{
  GpuPoolShared *shared = g_malloc (sizeof (GpuPoolShared) + 2 * sizeof (GpuPoolUse));

  shared->n_uses = 1;
  shared->uses[0] = (GpuPoolUse) { stream, _gpu_pool_stream_get_use_seq (stream) };
  if (is_pending)
    shared->uses[shared->n_uses++] = gpu_pool_heap_use (pool, node->use);
  add_shared (pool, node, shared);
  *has_excess |= !__atomic_load_n (&pool->pool->is_holding, __ATOMIC_RELAXED);
}

static void
release_node (GpuPool       *pool,
              GpuPoolNode   *node,
              GpuPoolStream *stream,
              gboolean      *has_excess)
{
  gboolean fits_node = gpu_pool_stream_fits_node (stream);
  guint64 use = fits_node ? gpu_pool_get_use_now (stream) : 0;
  gboolean is_pending = G_UNLIKELY (!gpu_pool_use_is_covered (node, gpu_pool_use_slot (use)))
                        && !_gpu_pool_heap_is_completed (pool, node->use);

  gpu_pool_count_free (pool, node);

  if (G_UNLIKELY (!fits_node || (is_pending && stream != NULL)))
    {
      release_shared (pool, node, stream, is_pending, has_excess);
      return;
    }

  if (is_pending)
    use = node->use;

  node = _gpu_pool_heap_add (pool, node, use);
  *has_excess |= gpu_pool_has_excess (pool, node);
}

/* Returns @node to its heap, and evicts blocks from the cache of this thread, which has no room for
 * @node. */
static void
release_to_thread_heap (GpuPool      *pool,
                        GpuPoolCache *cache,
                        GpuPoolNode  *node,
                        gpointer      key)
{
  GpuPool *heap = gpu_pool_node_heap (node);
  GpuPoolStreamCache *stream_cache = enter_stream_cache (pool, cache, key);
  GpuPoolStream *stream = stream_cache->stream;
  GpuPoolNode *evicted = NULL;
  gboolean has_excess = FALSE, nested;

  gpu_pool_cache_begin_move (cache);
  if (node->units <= __atomic_load_n (&pool->cached_units, __ATOMIC_RELAXED))
    evicted = _gpu_pool_cache_evict (cache, stream_cache, gpu_pool_index_bin (node->units));
  gpu_pool_cache_leave (cache);

  nested = lock_heap (pool, heap);
  evicted = add_evicted (heap, evicted);
  if (evicted == NULL)
    gpu_pool_cache_end_move (pool, cache);
  else
    {
      unlock_heap_in_move (pool, heap, nested);
      return_evicted (pool, cache, evicted);
      nested = lock_heap (pool, heap);
    }

  /* The pool exists as long as @node is busy. */
  release_node (heap, node, stream, &has_excess);
  unlock_heap (pool, heap, nested, has_excess);
}

/* --- alloc and release ------------------------------------------------------------------- */

GpuMemoryBlock *
_gpu_pool_alloc_uncached (GpuPool   *pool,
                          gsize      size,
                          gsize      alignment,
                          gpointer   key,
                          GError   **error)
{
  GpuPoolRequest request;
  GpuPoolCache *cache;
  GpuPoolNode *node;
  gboolean has_stream;

  if (G_UNLIKELY (!gpu_pool_cache_is_current (pool)) && _gpu_pool_cache_get (pool, FALSE) != NULL)
    return _gpu_pool_alloc (pool, size, alignment, key, error);

  if (!make_request (pool, size, alignment, &request, error))
    return NULL;

  cache = gpu_pool_cache_here (pool);
  if (cache != NULL && cache->heap != NULL && request.align == 1 && gpu_pool_may_lend (pool)
      && request.units <= __atomic_load_n (&pool->cached_units, __ATOMIC_RELAXED))
    {
      node = alloc_from_thread_heap (pool, cache, key, &request);
      if (node != NULL)
        return node;
    }

  has_stream = set_stream (&request, lock_with_stream_cache (pool, &cache, key)->stream, error);
  node = has_stream ? _gpu_pool_serve (pool, &request) : NULL;
  _gpu_pool_unlock_and_destroy (pool);
  if (!has_stream)
    return NULL;

  return node != NULL ? node : _gpu_pool_alloc_slowly (pool, &request, error);
}

GPU_HOT GpuMemoryBlock *
_gpu_pool_alloc (GpuPool   *pool,
                 gsize      size,
                 gsize      alignment,
                 gpointer   key,
                 GError   **error)
{
  GpuPoolNode *node = NULL;

  if (G_LIKELY (alignment <= (gsize) 1 << pool->unit_shift))
    node = gpu_pool_alloc_cached (pool, size, key);

  return node != NULL ? node : _gpu_pool_alloc_uncached (pool, size, alignment, key, error);
}

void
_gpu_pool_release_uncached (GpuPool        *pool,
                            GpuMemoryBlock *block,
                            gpointer        key)
{
  guint32 units = block->units;
  gboolean has_excess = FALSE;
  GpuPoolCache *cache;
  GpuPoolStreamCache *stream_cache;

  g_return_if_fail (gpu_pool_node_state (block) == GPU_POOL_NODE_ACTIVE);

  if (G_UNLIKELY (!gpu_pool_cache_is_current (pool)) && _gpu_pool_cache_get (pool, FALSE) != NULL)
    {
      _gpu_pool_release (block, key);
      return;
    }

  cache = get_cache (pool);
  if (cache->heap != NULL || gpu_pool_node_heap (block) != pool)
    {
      release_to_thread_heap (pool, cache, block, key);
      return;
    }

  stream_cache = lock_with_stream_cache (pool, &cache, key);
  release_node (pool, block, stream_cache->stream, &has_excess);
  if (units <= pool->cached_units)
    _gpu_pool_cache_flush_some (pool, cache, stream_cache, gpu_pool_index_bin (units));
  _gpu_pool_unlock_and_release_excess (pool, has_excess);
}

GPU_HOT void
_gpu_pool_release (GpuMemoryBlock *block,
                   gpointer        key)
{
  GpuPool *pool = gpu_pool_node_pool (block);

  if (!gpu_pool_release_cached (pool, block, key))
    _gpu_pool_release_uncached (pool, block, key);
}

gpointer
_gpu_pool_block_ref_alloc_stream (GpuMemoryBlock *block)
{
  GpuPool *heap = gpu_pool_node_heap (block);
  GpuPoolStream *stream;

  _gpu_pool_lock (&heap->lock);
  stream = gpu_pool_heap_use (heap, block->use).stream;
  _gpu_pool_unlock_and_destroy (heap);

  return stream != NULL ? _gpu_pool_stream_ref_key (stream) : NULL;
}

void
_gpu_pool_release_on_alloc_stream (GpuMemoryBlock *block)
{
  GpuPool *pool = gpu_pool_node_pool (block), *heap = gpu_pool_node_heap (block);
  gboolean has_excess = FALSE, nested;

  g_return_if_fail (gpu_pool_node_state (block) == GPU_POOL_NODE_ACTIVE);

  nested = lock_heap (pool, heap);
  release_node (heap, block, gpu_pool_heap_use (heap, block->use).stream, &has_excess);
  unlock_heap (pool, heap, nested, has_excess);
}

/* --- several streams or blocks at once -------------------------------------------------- */

static void
add_use (GpuPoolShared *shared,
         GpuPoolUse     use)
{
  for (guint i = 0; i < shared->n_uses; i++)
    if (shared->uses[i].stream == use.stream)
      return;

  shared->uses[shared->n_uses++] = use;
}

void
_gpu_pool_release_all (GpuMemoryBlock *block,
                       const gpointer *keys,
                       guint           n_keys)
{
  GpuPool *pool = gpu_pool_node_pool (block), *heap = gpu_pool_node_heap (block);
  GpuPoolCache *cache = _gpu_pool_cache_get (pool, TRUE);
  gboolean nested;
  GpuPoolShared *shared = g_malloc (sizeof (GpuPoolShared) + (n_keys + 1) * sizeof (GpuPoolUse));
  gpointer last = NULL;

  g_return_if_fail (gpu_pool_node_state (block) == GPU_POOL_NODE_ACTIVE);

  shared->n_uses = 0;
  for (guint i = 0; i < n_keys; i++)
    if (keys[i] != NULL)
      {
        GpuPoolStream *stream = _gpu_pool_cache_get_stream (pool, cache, keys[i]);

        add_use (shared, (GpuPoolUse) { stream, _gpu_pool_stream_get_use_seq (stream) });
        last = keys[i];
      }

  if (shared->n_uses < 2)
    {
      g_free (shared);
      _gpu_pool_release (block, last);
      return;
    }

  nested = lock_heap (pool, heap);
  if (!_gpu_pool_heap_is_completed (heap, block->use))
    add_use (shared, gpu_pool_heap_use (heap, block->use));
  gpu_pool_count_free (heap, block);
  add_shared (heap, block, shared);
  unlock_heap (pool, heap, nested, !__atomic_load_n (&pool->is_holding, __ATOMIC_RELAXED));
}

gboolean
_gpu_pool_alloc_n (GpuPool         *pool,
                   const gsize     *sizes,
                   guint            n,
                   gpointer         key,
                   GpuMemoryBlock **blocks,
                   GError         **error)
{
  GpuPoolRequest request;
  GpuPoolCache *cache;
  GpuPoolStream *stream = lock_with_stream_cache (pool, &cache, key)->stream;
  guint n_done;

  for (guint i = 0; i < n; i++)
    blocks[i] = NULL;
  for (n_done = 0; n_done < n && cache->heap == NULL; n_done++)
    {
      if (sizes[n_done] == 0)
        continue;
      /* If a size or the number of streams is too large, leave the loop without an error.
       * _gpu_pool_alloc() fails and sets the error below, after the unlock. */
      if (sizes[n_done] >> pool->unit_shift >= G_MAXUINT32 - 1
          || !make_request (pool, sizes[n_done], 0, &request, NULL)
          || !set_stream (&request, stream, NULL))
        break;
      blocks[n_done] = _gpu_pool_serve (pool, &request);
      if (blocks[n_done] == NULL)
        break;
    }
  _gpu_pool_unlock_and_destroy (pool);

  for (; n_done < n; n_done++)
    {
      if (sizes[n_done] == 0)
        continue;
      blocks[n_done] = _gpu_pool_alloc (pool, sizes[n_done], 0, key, error);
      if (blocks[n_done] == NULL)
        {
          _gpu_pool_release_n (blocks, n_done, key);
          memset (blocks, 0, n * sizeof (GpuMemoryBlock *));
          return FALSE;
        }
    }

  return TRUE;
}

/* Releases the blocks that belong to heaps of threads. Returns @n, or 0 if no block is left: the
 * pool may then no longer exist. */
static guint
release_from_heaps (GpuPool               *pool,
                    GpuMemoryBlock *const *blocks,
                    guint                  n,
                    gpointer               key)
{
  guint n_left = 0;

  if (gpu_pool_n_heaps (pool) == 1)
    return n;

  for (guint i = 0; i < n; i++)
    n_left += blocks[i] != NULL && gpu_pool_node_heap (blocks[i]) == pool;

  for (guint i = 0; i < n; i++)
    if (blocks[i] != NULL && gpu_pool_node_heap (blocks[i]) != pool)
      _gpu_pool_release (blocks[i], key);

  return n_left > 0 ? n : 0;
}

void
_gpu_pool_release_n (GpuMemoryBlock *const *blocks,
                     guint                  n,
                     gpointer               key)
{
  gboolean has_excess = FALSE;
  GpuPoolCache *cache;
  GpuPool *pool;
  GpuPoolStream *stream;

  while (n > 0 && blocks[0] == NULL)
    {
      blocks++;
      n--;
    }
  if (n == 0)
    return;

  pool = gpu_pool_node_pool (blocks[0]);
  n = release_from_heaps (pool, blocks, n, key);
  if (n == 0)
    return;

  stream = lock_with_stream_cache (pool, &cache, key)->stream;
  for (guint i = 0; i < n; i++)
    if (blocks[i] != NULL && gpu_pool_node_heap (blocks[i]) == pool)
      release_node (pool, blocks[i], stream, &has_excess);
  _gpu_pool_unlock_and_release_excess (pool, has_excess);
}

/* --- functions of blocks --------------------------------------------------------------- */

GpuPool *
_gpu_pool_block_get_pool (const GpuMemoryBlock *block)
{
  return gpu_pool_node_pool (block);
}

guint64
_gpu_pool_block_get_address (const GpuMemoryBlock *block)
{
  GpuPool *heap = gpu_pool_node_heap (block);

  return heap->areas[block->area]->segment.address + gpu_pool_bytes (heap, block->offset);
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
_gpu_pool_block_get_owner_flag (const GpuMemoryBlock *block)
{
  return gpu_pool_node_flag (block);
}

void
_gpu_pool_block_set_owner_flag (GpuMemoryBlock *block,
                                gboolean        flag)
{
  __atomic_store_n (&block->flag, flag != FALSE, __ATOMIC_RELEASE);
}

gpointer
_gpu_pool_block_get_segment (const GpuMemoryBlock *block)
{
  return gpu_pool_node_heap (block)->areas[block->area]->segment.data;
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
