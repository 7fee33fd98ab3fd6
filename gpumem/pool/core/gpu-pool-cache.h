/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Caches of freed blocks. A thread has a cache for each pool, with a list for each stream and size
 * class, and reuses the blocks without a lock.
 *
 * The owning thread uses no atomic read-modify-write operation: it sets `busy` and then checks
 * `stolen`. A thread that flushes the caches of other threads holds the pool's lock, sets `stolen`,
 * issues a memory barrier on all threads (membarrier), and waits until `busy` is clear.
 */
#pragma once

#include "gpumem/pool/core/gpu-pool-private.h"

G_BEGIN_DECLS

#define GPU_POOL_CACHE_DEPTH   16
#define GPU_POOL_CACHE_CLASSES 320
/* The number of larger size classes to search if the requested class is empty. A block from these
 * classes wastes at most an eighth of its size. */
#define GPU_POOL_CACHE_MAX_LARGER 4

/* The cache of one thread for one stream. */
typedef struct _GpuPoolStreamCache GpuPoolStreamCache;
struct _GpuPoolStreamCache
{
  gpointer            key;
  GpuPoolStream      *stream;       /* pinned */
  guint64             slot;         /* stream slot, packed as in GpuPoolNode.use */
  GpuPoolStreamCache *next;
  guint               next_evicted; /* class that is evicted next */
  guint64             filled[GPU_POOL_CACHE_CLASSES / 64 + 2]; /* bit map of classes that have
                                                                * nodes; searches read one word
                                                                * beyond that of the last class */
  guint8              depth[GPU_POOL_CACHE_CLASSES]; /* the maximum if the stream does not fit a
                                                      * node */
  GpuPoolNode        *nodes[GPU_POOL_CACHE_CLASSES]; /* linked by free_next */
};

struct _GpuPoolCache
{
  guint               busy;         /* atomic: the owning thread is using the cache */
  guint               stolen;       /* atomic: another thread is flushing the cache */
  GpuPool            *pool;         /* atomic; NULL once the pool is freed */
  guint32             units;        /* size of all cached blocks; other threads also read this
                                     * member */
  GpuPoolStreamCache *last_used;
  GpuPoolStreamCache *stream_caches;
  GpuPoolCounts       counts;       /* other threads also read this member */
  GpuPool            *heap;         /* the heap of the thread, or NULL; only the owning thread reads
                                     * this member */
  guint               contention;   /* see gpu-pool.c; only for the owning thread */
  guint               n_unflushed;  /* requests that `heap` could not serve */
  guint               n_uncounted;  /* requests to `heap` since its counts were added to the pool */
  guint64             n_moves;      /* atomic: begun and ended moves of free memory; odd while the
                                     * thread moves memory from one place to another, where other
                                     * threads do not find it */

  GpuPoolCache       *next;         /* next cache of the thread */
  GpuPoolCache       *pool_prev;    /* caches of the pool, guarded by its lock */
  GpuPoolCache       *pool_next;
};

/* Only one pointer is in the static TLS block, so that it fits even if the library is loaded with
 * dlopen(). */
extern __thread GpuPoolCache *_gpu_pool_cache_current
  __attribute__ ((tls_model ("initial-exec")));
extern gboolean               _gpu_pool_has_membarrier;

/* Must succeed before the first pool is created, as the caches of a thread are flushed when it
 * exits. */
gboolean       _gpu_pool_cache_init       (GError        **error);
/* Returns the cache of this thread for @pool. With @make, creates the cache if it does not exist.
 * Caller does not hold `lock`. */
GpuPoolCache  *_gpu_pool_cache_get        (GpuPool        *pool,
                                           gboolean        make);
/* Returns the stream of @key. On the first call for a stream, creates an entry for it in @cache.
 * Caller does not hold `lock`. */
GpuPoolStream *_gpu_pool_cache_get_stream (GpuPool        *pool,
                                           GpuPoolCache   *cache,
                                           gpointer        key);
/* Takes blocks out of the cache after a block of class @bin did not fit. If that class is full,
 * takes half of its blocks. Otherwise the cache as a whole is full: each call then takes the next
 * size class, and the call after the last class takes all blocks. Blocks of sizes that are no
 * longer used therefore do not remain in the cache. Returns the blocks, linked by free_next. Caller
 * is the owning thread, and has entered the cache or holds `lock`. */
GpuPoolNode   *_gpu_pool_cache_evict      (GpuPoolCache       *cache,
                                           GpuPoolStreamCache *stream_cache,
                                           guint               bin);
/* Like _gpu_pool_cache_evict(), but takes all blocks. */
GpuPoolNode   *_gpu_pool_cache_evict_all  (GpuPoolCache       *cache);
/* Returns the blocks that _gpu_pool_cache_evict() takes to their heaps. Caller holds `lock`. */
void           _gpu_pool_cache_flush_some (GpuPool            *pool,
                                           GpuPoolCache       *cache,
                                           GpuPoolStreamCache *stream_cache,
                                           guint               bin);
/* Flushes the cache of this thread. Returns TRUE if the cache had any blocks. Caller holds
 * `lock`. */
gboolean       _gpu_pool_cache_flush_own  (GpuPool        *pool);
/* Flushes the caches of all threads, and takes unused memory back from the heaps of threads.
 * Returns TRUE if any cache or heap had such memory. With @streams, also unpins the streams of the
 * caches, so that the streams can be swept. Caller holds `lock`. */
gboolean       _gpu_pool_cache_flush_all  (GpuPool        *pool,
                                           gboolean        streams);
/* Returns a number that differs from an earlier result if a thread has freed a block since, or has
 * begun or ended a move of free memory. Caller does not hold `lock`. */
guint64        _gpu_pool_cache_count_changes (GpuPool     *pool);
/* Returns whether @n_changes differs from the present number of changes, and updates @n_changes. If
 * another thread is moving free memory, waits until a move ends, for at most a second; that is a
 * change, and sets @has_moved to TRUE. Caller does not hold `lock`. */
gboolean       _gpu_pool_cache_has_changed (GpuPool       *pool,
                                            guint64       *n_changes,
                                            gboolean      *has_moved);
/* Wakes the threads that wait for the end of a move. */
void           _gpu_pool_cache_wake       (GpuPool        *pool);
/* Called before the pool is freed. Flushes all caches and detaches them from the pool. */
void           _gpu_pool_cache_detach_all (GpuPool        *pool);

/* The owning thread calls these functions around a move of free memory that other threads could
 * otherwise not find for a moment. Call the first one before the memory leaves its place. */
static inline void
gpu_pool_cache_begin_move (GpuPoolCache *cache)
{
  __atomic_store_n (&cache->n_moves, cache->n_moves + 1, __ATOMIC_SEQ_CST);
}

/* Caller may hold `lock`, or the lock of a heap. */
static inline void
gpu_pool_cache_end_move (GpuPool      *pool,
                         GpuPoolCache *cache)
{
  __atomic_store_n (&cache->n_moves, cache->n_moves + 1, __ATOMIC_SEQ_CST);
  if (G_UNLIKELY (__atomic_load_n (&pool->n_awaiting, __ATOMIC_SEQ_CST) > 0))
    _gpu_pool_cache_wake (pool);
}

/* --- the fast path ------------------------------------------------------------------ */

static inline void
gpu_pool_cache_leave (GpuPoolCache *cache)
{
  __atomic_store_n (&cache->busy, 0, __ATOMIC_RELEASE);
}

static inline gboolean
gpu_pool_cache_enter (GpuPoolCache *cache)
{
  if (G_LIKELY (_gpu_pool_has_membarrier))
    {
      __atomic_store_n (&cache->busy, 1, __ATOMIC_RELAXED);
      __atomic_signal_fence (__ATOMIC_SEQ_CST);
      if (G_LIKELY (__atomic_load_n (&cache->stolen, __ATOMIC_ACQUIRE) == 0))
        return TRUE;
    }
  else
    {
      __atomic_exchange_n (&cache->busy, 1, __ATOMIC_SEQ_CST);
      if (__atomic_load_n (&cache->stolen, __ATOMIC_SEQ_CST) == 0)
        return TRUE;
    }

  gpu_pool_cache_leave (cache);

  return FALSE;
}

static inline GpuPoolCache *
gpu_pool_cache_here (GpuPool *pool)
{
  GpuPoolCache *cache = _gpu_pool_cache_current;

  if (G_LIKELY (cache != NULL && __atomic_load_n (&cache->pool, __ATOMIC_RELAXED) == pool))
    return cache;

  return _gpu_pool_cache_get (pool, FALSE);
}

static inline GpuPoolStreamCache *
gpu_pool_cache_find (GpuPoolCache *cache,
                     gpointer      key)
{
  GpuPoolStreamCache *stream_cache = cache->last_used;

  if (G_LIKELY (stream_cache != NULL && stream_cache->key == key))
    return stream_cache;

  for (stream_cache = cache->stream_caches; stream_cache != NULL; stream_cache = stream_cache->next)
    if (stream_cache->key == key)
      {
        cache->last_used = stream_cache;
        return stream_cache;
      }

  return NULL;
}

/* Finds a node in the next larger classes, and sets @bin to the class of the node. Returns NULL if
 * these classes have no node. */
G_ALWAYS_INLINE static inline GpuPoolNode *
gpu_pool_cache_find_larger (GpuPoolStreamCache *stream_cache,
                            guint              *bin)
{
  guint first = *bin + 1;
  const guint64 *words = &stream_cache->filled[first / 64];
  /* The two shifts to the left shift by 1 to 64 bits. */
  guint64 larger = words[0] >> first % 64 | words[1] << 1 << (63 - first % 64);

  larger &= (1u << MIN (*bin / 8, GPU_POOL_CACHE_MAX_LARGER)) - 1;
  if (larger == 0)
    return NULL;

  *bin = first + __builtin_ctzll (larger);

  return stream_cache->nodes[*bin];
}

/* Returns NULL if no block of class @bin or a slightly larger class is cached. */
G_ALWAYS_INLINE static inline GpuPoolNode *
gpu_pool_cache_pop (GpuPoolCache *cache,
                    gpointer      key,
                    guint         bin,
                    gsize         size,
                    guint         unit_shift)
{
  GpuPoolNode *node = NULL;
  GpuPoolStreamCache *stream_cache;

  if (G_UNLIKELY (!gpu_pool_cache_enter (cache)))
    return NULL;

  stream_cache = gpu_pool_cache_find (cache, key);
  if (G_LIKELY (stream_cache != NULL)
      && ((node = stream_cache->nodes[bin]) != NULL
          || (node = gpu_pool_cache_find_larger (stream_cache, &bin)) != NULL))
    {
      guint32 units = node->units;
      guint64 is_last = node->free_next == NULL;

      stream_cache->nodes[bin] = node->free_next;
      stream_cache->filled[bin / 64] &= ~(is_last << bin % 64);
      stream_cache->depth[bin]--;
      __atomic_store_n (&cache->units, cache->units - units, __ATOMIC_RELAXED);
      __atomic_store_n (&node->slack, ((gsize) units << unit_shift) - size, __ATOMIC_RELAXED);
      gpu_pool_node_set_state (node, GPU_POOL_NODE_ACTIVE);
      gpu_pool_add_to (&cache->counts.n_allocs, 1);
      gpu_pool_add_to (&cache->counts.bytes, size);
      gpu_pool_add_to (&cache->counts.units, units);
    }

  gpu_pool_cache_leave (cache);

  return node;
}

/* Returns whether a free of @node on the stream of @slot comes after all uses of @node. That is so
 * if @node was allocated on that stream, or if no use of it was pending when it was allocated. */
static inline gboolean
gpu_pool_use_is_covered (const GpuPoolNode *node,
                         guint              slot)
{
  return gpu_pool_use_slot (node->use) == slot || gpu_pool_use_seq (node->use) == 0;
}

/* Returns FALSE if the cache has no room for @node. */
G_ALWAYS_INLINE static inline gboolean
gpu_pool_cache_push (GpuPool      *pool,
                     GpuPoolCache *cache,
                     gpointer      key,
                     GpuPoolNode  *node,
                     guint         bin)
{
  gboolean pushed = FALSE;
  GpuPoolStreamCache *stream_cache;
  guint32 budget;

  if (G_UNLIKELY (!gpu_pool_cache_enter (cache)))
    return FALSE;

  /* Read the budget after entering the cache. A thread that lowers the budget also flushes the
   * cache afterwards, which removes blocks that were cached under the old budget. */
  budget = __atomic_load_n (&pool->cache_budget, __ATOMIC_RELAXED);

  stream_cache = gpu_pool_cache_find (cache, key);
  if (G_LIKELY (stream_cache != NULL && stream_cache->depth[bin] < GPU_POOL_CACHE_DEPTH
                && cache->units + node->units <= budget
                && gpu_pool_use_is_covered (node, gpu_pool_use_slot (stream_cache->slot))))
    {
      guint32 units = node->units;
      gsize size = ((gsize) units << pool->unit_shift) - node->slack;

      node->use = stream_cache->slot;
      if (stream_cache->stream != NULL)
        node->use |= gpu_pool_stream_load_use_seq (stream_cache->stream);
      node->free_next = stream_cache->nodes[bin];
      gpu_pool_node_set_state (node, GPU_POOL_NODE_CACHED);
      stream_cache->nodes[bin] = node;
      stream_cache->filled[bin / 64] |= (guint64) 1 << bin % 64;
      stream_cache->depth[bin]++;
      __atomic_store_n (&cache->units, cache->units + units, __ATOMIC_RELAXED);
      gpu_pool_add_to (&cache->counts.n_frees, 1);
      gpu_pool_add_to (&cache->counts.bytes, -size);
      gpu_pool_add_to (&cache->counts.units, -(gint64) units);
      pushed = TRUE;
    }

  gpu_pool_cache_leave (cache);

  return pushed;
}

/* Returns whether the cache that this thread used last is that of @pool. */
static inline gboolean
gpu_pool_cache_is_current (GpuPool *pool)
{
  GpuPoolCache *cache = _gpu_pool_cache_current;

  return G_LIKELY (cache != NULL)
         && G_LIKELY (__atomic_load_n (&cache->pool, __ATOMIC_RELAXED) == pool);
}

/* The fast path of _gpu_pool_alloc(): allocates from the cache that this thread used last. Returns
 * NULL if that has no suitable block, or if the size is 0. Calls no function, so that callers need
 * not save registers. */
G_ALWAYS_INLINE static inline GpuMemoryBlock *
gpu_pool_alloc_cached (GpuPool  *pool,
                       gsize     size,
                       gpointer  key)
{
  guint shift = pool->unit_shift;
  gsize last_unit = (size - 1) >> shift;

  if (G_UNLIKELY (last_unit >= __atomic_load_n (&pool->cached_units, __ATOMIC_RELAXED))
      || !gpu_pool_cache_is_current (pool))
    return NULL;

  return gpu_pool_cache_pop (_gpu_pool_cache_current, key,
                             gpu_pool_index_bin_above (last_unit + 1), size, shift);
}

/* The fast path of _gpu_pool_release(): puts @block into the cache that this thread used last.
 * Returns FALSE if that has no room, or if @block is not active. Calls no function. */
G_ALWAYS_INLINE static inline gboolean
gpu_pool_release_cached (GpuPool        *pool,
                         GpuMemoryBlock *block,
                         gpointer        key)
{
  return G_LIKELY (gpu_pool_node_state (block) == GPU_POOL_NODE_ACTIVE)
         && G_LIKELY (block->units <= __atomic_load_n (&pool->cached_units, __ATOMIC_RELAXED))
         && gpu_pool_cache_is_current (pool)
         && gpu_pool_cache_push (pool, _gpu_pool_cache_current, key, block,
                                 gpu_pool_index_bin (block->units));
}

/* In gpu-pool.c: the rest of _gpu_pool_alloc() and _gpu_pool_release(), after the fast path. */
GPU_APART GpuMemoryBlock *
               _gpu_pool_alloc_uncached   (GpuPool         *pool,
                                           gsize            size,
                                           gsize            alignment,
                                           gpointer         key,
                                           GError         **error);
GPU_APART void _gpu_pool_release_uncached (GpuPool         *pool,
                                           GpuMemoryBlock  *block,
                                           gpointer         key);

G_END_DECLS
