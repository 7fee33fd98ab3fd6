/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What each thread keeps of what it gave back, by stream and size: taken again without a lock.
 *
 * The thread itself never uses an atomic read-modify-write: it says that it is busy, and looks
 * whether somebody is about to steal. Who steals, under the lock of the pool, says so, makes all
 * threads of the process see that (membarrier), and waits until the thread is not busy.
 */
#pragma once

#include "gpumem/pool/core/gpu-pool-private.h"

G_BEGIN_DECLS

#define GPU_POOL_CACHE_DEPTH   16
#define GPU_POOL_CACHE_CLASSES 320
/* Classes that a block may be larger than was asked for: at most an eighth of it. */
#define GPU_POOL_CACHE_MAX_LARGER 4

/* The cache of one thread for one stream. */
typedef struct _GpuPoolStreamCache GpuPoolStreamCache;
struct _GpuPoolStreamCache
{
  gpointer            key;
  GpuPoolStream      *stream;       /* pinned */
  guint64             slot;         /* as in a use */
  GpuPoolStreamCache *next;
  guint               next_evicted; /* the class that makes room next */
  guint64             filled[GPU_POOL_CACHE_CLASSES / 64 + 1]; /* classes that may have nodes */
  guint8              depth[GPU_POOL_CACHE_CLASSES];
  GpuPoolNode        *nodes[GPU_POOL_CACHE_CLASSES]; /* by free_next */
};

struct _GpuPoolCache
{
  guint               busy;         /* atomic: the thread is at it */
  guint               stolen;       /* atomic: somebody else is */
  GpuPool            *pool;         /* atomic; NULL when the pool is gone */
  guint32             units;        /* atomic for readers: in all drawers */
  GpuPoolStreamCache *last_used;
  GpuPoolStreamCache *stream_caches;
  GpuPoolCounts       counts;       /* atomic for readers */

  GpuPoolCache       *next;         /* of the thread */
  GpuPoolCache       *pool_prev;    /* of the pool, guarded by its lock */
  GpuPoolCache       *pool_next;
};

/* One pointer: there is always room for it, also where the library is opened late. */
extern __thread GpuPoolCache *_gpu_pool_cache_current
  __attribute__ ((tls_model ("initial-exec")));
extern gboolean               _gpu_pool_has_membarrier;

/* The cache of this thread for @pool, made if @make. Without the lock of the pool. */
GpuPoolCache  *_gpu_pool_cache_get        (GpuPool        *pool,
                                           gboolean        make);
/* The stream of @key, for which there is a place from now on. Without the lock of the pool. */
GpuPoolStream *_gpu_pool_cache_get_stream (GpuPool        *pool,
                                           GpuPoolCache   *cache,
                                           gpointer        key);
/* A node of one of the next classes after @bin, which becomes its class; nullable. */
GpuPoolNode   *_gpu_pool_cache_find_larger (GpuPoolStreamCache *stream_cache,
                                            guint              *bin);
/* A block of class @bin had no room: makes some for the next ones. The pool is locked. */
void           _gpu_pool_cache_flush_some (GpuPool            *pool,
                                           GpuPoolCache       *cache,
                                           GpuPoolStreamCache *stream_cache,
                                           guint               bin);
/* Puts back what this thread keeps; TRUE if there was any. The pool is locked. */
gboolean       _gpu_pool_cache_flush_own  (GpuPool        *pool);
/* Puts all that threads keep back into the heap, which is locked; TRUE if there was any. @streams:
 * they forget the streams too, which may be swept then. */
gboolean       _gpu_pool_cache_flush_all  (GpuPool        *pool,
                                           gboolean        streams);
/* The pool goes. */
void           _gpu_pool_cache_detach_all (GpuPool        *pool);

/* --- the path of every call --------------------------------------------------------- */

static inline void
gpu_pool_cache_count (guint64 *counter,
                      guint64  n)
{
  __atomic_store_n (counter, __atomic_load_n (counter, __ATOMIC_RELAXED) + n, __ATOMIC_RELAXED);
}

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

/* NULL if there is none of @units, which are those of a class, or of a little more. */
static inline GpuPoolNode *
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
          || (node = _gpu_pool_cache_find_larger (stream_cache, &bin)) != NULL))
    {
      guint32 units = node->units;

      stream_cache->nodes[bin] = node->free_next;
      stream_cache->depth[bin]--;
      __atomic_store_n (&cache->units, cache->units - units, __ATOMIC_RELAXED);
      __atomic_store_n (&node->slack, ((gsize) units << unit_shift) - size, __ATOMIC_RELAXED);
      gpu_pool_node_set_state (node, GPU_POOL_NODE_ACTIVE);
      gpu_pool_cache_count (&cache->counts.n_allocs, 1);
      gpu_pool_cache_count ((guint64 *) &cache->counts.bytes, size);
      gpu_pool_cache_count ((guint64 *) &cache->counts.units, units);
    }

  gpu_pool_cache_leave (cache);

  return node;
}

/* Whether giving @node back to the stream of @slot covers all uses of it. It does not where it was
 * handed out to another stream while uses before that were still under way. */
static inline gboolean
gpu_pool_use_is_covered (const GpuPoolNode *node,
                         guint              slot)
{
  return gpu_pool_use_slot (node->use) == slot || gpu_pool_use_seq (node->use) == 0;
}

/* FALSE if there is no room. */
static inline gboolean
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

  /* Only now: who has lowered it steals what was pushed before. */
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
      gpu_pool_cache_count (&cache->counts.n_frees, 1);
      gpu_pool_cache_count ((guint64 *) &cache->counts.bytes, -size);
      gpu_pool_cache_count ((guint64 *) &cache->counts.units, -(guint64) units);
      pushed = TRUE;
    }

  gpu_pool_cache_leave (cache);

  return pushed;
}

G_END_DECLS
