/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Shared by the files of the core. Lock order, outermost first:
 *
 * - threads_lock (gpu-pool-cache.c), which is never held together with growth_lock
 * - GpuPool.growth_lock, which is held while the ops of the owner are called
 * - GpuPool.lock of a pool
 * - GpuPool.lock of the heap of a thread; a thread holds at most one of these
 * - GpuPool.moves_lock
 * - GpuPoolStreams.lock; is_frozen(), is_free() and is_capturing() are called with it or with the
 *   previous ones, and must not call the pool.
 *
 * A thread that waits for another thread to leave its cache holds GpuPool.lock, so no thread takes
 * a lock while it is inside its cache. The owner may call the core with locks of its own, such as
 * those of the tables in gpu-memory-pool-hooks.c, if its ops do not take these locks. Data that the
 * owner has attached to ranges is destroyed without a lock. */
#pragma once

#include "gpumem/base/gpu-attributes-private.h"
#include "gpumem/pool/core/gpu-pool-index.h"
#include "gpumem/pool/core/gpu-pool-lock.h"
#include "gpumem/pool/core/gpu-pool-node.h"
#include "gpumem/pool/core/gpu-pool-stream.h"
#include "gpumem/pool/core/gpu-pool.h"

G_BEGIN_DECLS

#define GPU_POOL_MAX_AREAS 65536
/* Heaps of threads. Any further threads only use the heap of the pool. */
#define GPU_POOL_MAX_HEAPS 64

/* The smallest edge, which is a free part of a chunk, that is worth a driver call:
 * 1/GPU_POOL_MIN_EDGE of a granule. */
#define GPU_POOL_MIN_EDGE 32
/* Requests use edges before whole chunks while the edges exceed GPU_POOL_EDGE_WASTE times the
 * allowed waste, and the free whole chunks, less the request, are at most GPU_POOL_EDGE_ROOM times
 * the allowed waste. */
#define GPU_POOL_EDGE_WASTE 2.0
#define GPU_POOL_EDGE_ROOM  8.0
/* Edges serve requests of up to 1/GPU_POOL_EDGE_SHARE of the peak use, and larger ones only if the
 * growth is frugal. Edges save little of a large block, and once freed it cannot be joined with the
 * ranges next to it. */
#define GPU_POOL_EDGE_SHARE 12

typedef struct _GpuPoolCache GpuPoolCache;
typedef struct _GpuPoolChunks GpuPoolChunks;
typedef struct _GpuPoolRequest GpuPoolRequest;

/* A segment, the address range that chunks are mapped into, or a range that the pool has lent to
 * the heap of a thread. */
struct _GpuPoolArea
{
  GpuPoolSegment  segment;
  guint32         units;
  guint           id;
  GpuPoolNode    *first;
  GpuPoolNode    *lent;             /* the lent node, of another heap; NULL in the pool itself */
};

/* Free ranges last used by one stream; slot 0 holds ranges without pending uses. */
typedef struct
{
  GpuPoolIndex   index;
  GpuPoolStream *stream;
  guint          n;
  guint64        units;
  guint64        latest_seq;        /* the latest use sequence of the ranges */
  guint          n_latest;          /* number of ranges with latest_seq */
  guint64        scanned_at;        /* use sequence that had completed at the last scan */
} GpuPoolFreeList;

/* A block that was freed with pending uses on several streams. */
typedef struct
{
  GpuPoolNode *node;
  guint        n_uses;
  GpuPoolUse   uses[];
} GpuPoolShared;

/* The chunk that backs a granule. A granule is the smallest part of the address range that can be
 * mapped. */
typedef struct
{
  gpointer handle;                  /* NULL: none */
  guint32  first;                   /* first granule of the chunk */
  guint32  n : 31;                  /* granules in the chunk */
  guint32  is_split : 1;            /* set in the first granule of each mapping of a split chunk */
} GpuPoolGranule;

/* Allocations and frees since the last flush of the counters. */
typedef struct
{
  guint64 n_allocs;
  guint64 n_frees;
  gint64  bytes;
  gint64  units;
} GpuPoolCounts;

/* A pool, or the heap of a thread. The heap of a thread has its own lock and uses only the members
 * nodes, free_lists, areas, shared, dropped, counts, n_out, and the counters in stats. Its areas
 * are ranges of the pool. */
struct _GpuPool
{
  /* Read by every call */
  GpuPool          *pool;           /* the pool itself, or the pool of this heap */
  guint             unit_shift;
  guint32           cached_units;   /* atomic: size of the largest block that caches accept */
  guint32           cache_budget;   /* atomic: maximum size of a thread cache */
  guint32           lent_units;     /* atomic: least usual size of ranges that threads borrow */
  gboolean          is_holding;     /* atomic */
  GThread          *grower;         /* atomic: owner of growth_lock, or NULL */
  guint             n_inside;       /* threads that are releasing excess memory or closing the pool;
                                     * guarded by `lock` */
  GDestroyNotify    closed;         /* nullable; to call once all blocks of a closed pool are freed;
                                     * guarded by `lock` */
  gpointer          closed_data;

  GpuPoolConfig     config;
  GpuPoolOps        ops;
  gpointer          owner;
  GpuPoolStreams   *streams;

  /* Held while the owner's ops are called: serializes growth and shrinking. */
  GpuPoolLock       growth_lock;
  gboolean          has_left_excess;  /* atomic: the holder of growth_lock must release the
                                       * excess */
  gboolean          has_failed_early; /* atomic: growth for the heap of a thread failed, and no
                                       * memory was returned to the owner since */
  gint              n_awaiting;     /* atomic: threads that may wait for the end of a move */
  GMutex            moves_lock;
  GCond             move_ended;
  guint             n_grown;        /* segments allocated so far */
  GpuPoolChunks    *chunks;

  GpuPool          *heaps[GPU_POOL_MAX_HEAPS];  /* of threads; elements are set once */
  guint             n_heaps;        /* atomic; only changes under `lock` */
  gboolean          may_lend;       /* atomic: whether the heaps of threads may get memory */
  gboolean          has_thread;     /* heap of a thread: a thread uses it; guarded by the lock of
                                     * the pool */

  GpuPoolLock       lock __attribute__ ((aligned (GPU_LINE)));  /* guards all members below */
  GpuPoolNodes      nodes;
  GpuPoolFreeList **free_lists;     /* by slot */
  guint             n_free_lists;
  guint             n_streams;      /* slots in use so far */
  GpuPoolArea     **areas;          /* by id */
  guint             n_areas;        /* the largest id so far, plus 1 */
  guint             n_used_areas;   /* ids in use now. In the heap of a thread, atomic: only that
                                     * thread adds areas */
  GPtrArray        *shared;         /* of GpuPoolShared */
  GpuPoolCache     *caches;
  guint             n_caches;
  guint64           n_slow;         /* atomic; requests that took the slow path */
  guint64           n_past_moves;   /* n_moves of caches that are no longer in the list: of threads
                                     * that have exited */
  GpuPoolData      *dropped;        /* to destroy after unlocking */
  GpuPoolLimits     limits;
  GpuPoolCounts     counts;
  guint64           n_out;          /* active blocks, and blocks in thread caches; of this heap */
  guint32           granule;        /* units; 0: the pool has no chunks */
  guint             granule_shift;  /* binary logarithm of `granule` */
  GpuPoolGranule   *granules;       /* written under growth_lock; those of free ranges do not
                                     * change */
  guint64           edge_units;     /* in free ranges, outside of whole chunks */
  guint64           edge_budget;    /* number of requests that may try to use edges before whole
                                     * chunks */
  guint64           most_used_bytes; /* like stats.peak_used_bytes, but never reset: decisions of
                                      * the pool depend on it */
  GpuPoolStats      stats;          /* counters updated directly */
};

/* --- the pool ------------------------------------------------------------------- */

static inline gsize
gpu_pool_bytes (GpuPool *pool,
                guint64  units)
{
  return units << pool->unit_shift;
}

/* Returns the bytes of active blocks, including rounding. The result does not include counts that
 * threads have not flushed yet. The sum of the flushed counts may be negative for a moment, if a
 * thread frees a block that another thread allocated. */
static inline guint64
gpu_pool_used_bytes (GpuPool *pool)
{
  return gpu_pool_bytes (pool, MAX (pool->counts.units, 0));
}

/* Like gpu_pool_used_bytes(), but includes the unflushed counts of all threads. Caller holds
 * `lock`. */
guint64       _gpu_pool_sum_used          (GpuPool           *pool);
/* Unlocks the pool, and then destroys the data that the owner had attached to ranges, if these
 * ranges were split or joined under the lock. */
void          _gpu_pool_unlock_and_destroy (GpuPool           *pool);
void          _gpu_pool_destroy_data      (GpuPoolData       *dropped);
/* Like _gpu_pool_unlock_and_destroy(), after a free. With @has_excess, also releases memory that
 * the pool holds beyond its limits. */
void          _gpu_pool_unlock_and_release_excess (GpuPool           *pool,
                                                   gboolean           has_excess);
/* Adds @bytes to the managed bytes. @bytes is negative for memory returned to the owner. Caller
 * holds `lock`. */
void          _gpu_pool_count_managed     (GpuPool           *pool,
                                           gint64             bytes);
/* Adds the counts of a thread to those of the pool. Caller holds `lock`. */
void          _gpu_pool_add_counts        (GpuPool           *pool,
                                           GpuPoolCounts     *counts);

/* Adds @n to a counter that one thread at a time writes, and that others read at any time. */
static inline void
gpu_pool_add_to (gpointer counter,
                 gint64   n)
{
  guint64 *value = counter;

  __atomic_store_n (value, __atomic_load_n (value, __ATOMIC_RELAXED) + n, __ATOMIC_RELAXED);
}

/* Counts the free of @node. Caller holds `lock`. */
static inline void
gpu_pool_count_free (GpuPool           *pool,
                     const GpuPoolNode *node)
{
  pool->n_out--;
  gpu_pool_add_to (&pool->counts.n_frees, 1);
  gpu_pool_add_to (&pool->counts.bytes,
                   node->slack - (gint64) gpu_pool_bytes (pool, node->units));
  gpu_pool_add_to (&pool->counts.units, -(gint64) node->units);
}

/* --- heaps of threads -------------------------------------------------------------- */

static inline gboolean
gpu_pool_may_lend (GpuPool *pool)
{
  return __atomic_load_n (&pool->may_lend, __ATOMIC_SEQ_CST);
}

/* The number of heaps, including that of the pool. */
static inline guint
gpu_pool_n_heaps (GpuPool *pool)
{
  return 1 + __atomic_load_n (&pool->n_heaps, __ATOMIC_ACQUIRE);
}

/* Heap 0 is the pool itself. */
static inline GpuPool *
gpu_pool_heap_at (GpuPool *pool,
                  guint    i)
{
  return i == 0 ? pool : pool->heaps[i - 1];
}

/* Returns whether an area id is left for a further range. Called by the thread of @heap. */
static inline gboolean
gpu_pool_heap_may_borrow (GpuPool *heap)
{
  return __atomic_load_n (&heap->n_used_areas, __ATOMIC_RELAXED) < GPU_POOL_MAX_AREAS;
}

/* Returns a heap for the calling thread, or NULL if there are too many. Caller holds `lock`. */
GpuPool      *_gpu_pool_heap_claim        (GpuPool           *pool);
void          _gpu_pool_heap_free         (GpuPool           *heap);
/* Takes a free range of @from that can serve @request, to lend it to another heap. Returns NULL if
 * no range is large enough. Takes the lock of @from. */
GpuPoolNode  *_gpu_pool_take_lendable     (GpuPool              *from,
                                           const GpuPoolRequest *request);
/* Lends @node, which is busy, to @heap, and serves @request from it. Counts a hit unless the pool
 * has grown for @request. Takes the lock of @heap. */
GpuPoolNode  *_gpu_pool_lend              (GpuPool              *heap,
                                           GpuPoolNode          *node,
                                           const GpuPoolRequest *request,
                                           gboolean              has_grown);
/* Takes back the areas of heaps that have no block. Returns TRUE if there were any. Sets
 * @has_excess (nullable) to TRUE if the pool must return memory to the owner. Caller holds
 * `lock`. */
gboolean      _gpu_pool_take_back         (GpuPool           *pool,
                                           gboolean          *has_excess);
/* Returns a block of a thread's cache to its heap. Caller holds `lock`. */
void          _gpu_pool_uncache           (GpuPool           *pool,
                                           GpuPoolNode       *node);
/* Adds the counts of @heap to those of the pool. Caller holds `lock`. */
void          _gpu_pool_add_heap_counts   (GpuPool           *pool,
                                           GpuPool           *heap);
/* Unlocks @heap. Its data to destroy is destroyed when the pool is unlocked. Caller holds
 * `lock`. */
void          _gpu_pool_unlock_nested     (GpuPool           *pool,
                                           GpuPool           *heap);

/* --- the heap: caller holds lock -------------------------------------------------- */

GpuPoolFreeList *_gpu_pool_heap_get_free_list (GpuPool           *pool,
                                               GpuPoolStream     *stream);
/* Like _gpu_pool_heap_get_free_list(), for the stream of @slot. */
GpuPoolFreeList *_gpu_pool_heap_make_free_list (GpuPool           *pool,
                                                guint              slot);
gboolean      _gpu_pool_heap_is_completed (GpuPool           *pool,
                                           guint64            use);
/* Frees @node and joins it with its neighbours; returns the resulting node. */
GpuPoolNode  *_gpu_pool_heap_add          (GpuPool           *pool,
                                           GpuPoolNode       *node,
                                           guint64            use);
/* Removes @node from its index and marks it busy. */
void          _gpu_pool_heap_remove       (GpuPool           *pool,
                                           GpuPoolNode       *node);
/* Cuts @units out of a busy node. The cut begins @pad units after the start of the node. The rest
 * becomes free. Its last use is the use that @node records. */
GpuPoolNode  *_gpu_pool_heap_cut          (GpuPool           *pool,
                                           GpuPoolNode       *node,
                                           guint32            pad,
                                           guint32            units);
/* Takes @units out of a free node, which is in an index. The part begins @pad units after the start
 * of the node. */
GpuPoolNode  *_gpu_pool_heap_take         (GpuPool           *pool,
                                           GpuPoolNode       *node,
                                           guint32            pad,
                                           guint32            units);
/* Splits @node after @units. Both parts keep the state of @node. Neither part is in an index. */
GpuPoolNode  *_gpu_pool_heap_split        (GpuPool           *pool,
                                           GpuPoolNode       *node,
                                           guint32            units);
/* Joins @node, which is in no index, with its successor. */
void          _gpu_pool_heap_join_next    (GpuPool           *pool,
                                           GpuPoolNode       *node);
void          _gpu_pool_heap_drop_data    (GpuPool           *pool,
                                           GpuPoolNode       *node);
/* Moves free ranges whose use has completed from the free lists of streams to the list of slot 0,
 * which holds ranges without pending uses. If @all is TRUE, also scans lists in which few uses have
 * completed. */
void          _gpu_pool_heap_reclaim_completed (GpuPool           *pool,
                                                gboolean           all);
/* Makes the free ranges of other streams, as far as @stream is ordered after their uses, free
 * ranges of @stream. */
void          _gpu_pool_heap_take_over    (GpuPool           *pool,
                                           GpuPoolStream     *stream);
GpuPoolArea  *_gpu_pool_heap_add_area     (GpuPool              *pool,
                                           const GpuPoolSegment *segment);
/* The only node of @area must be busy. */
void          _gpu_pool_heap_remove_area  (GpuPool           *pool,
                                           GpuPoolArea       *area);

/* Returns the free list of @slot, or NULL if it has no range. */
static inline GpuPoolFreeList *
gpu_pool_heap_filled_at_slot (GpuPool *pool,
                              guint    slot)
{
  GpuPoolFreeList *free_list = slot < pool->n_free_lists ? pool->free_lists[slot] : NULL;

  return free_list != NULL && free_list->n > 0 ? free_list : NULL;
}

/* Finds the best fit in the free list of @slot. */
static inline GpuPoolNode *
gpu_pool_heap_find (GpuPool *pool,
                    guint    slot,
                    guint32  units)
{
  GpuPoolFreeList *free_list = gpu_pool_heap_filled_at_slot (pool, slot);

  return free_list != NULL ? _gpu_pool_index_find (&free_list->index, units) : NULL;
}

/* Returns the free list of @slot. The heap of a thread gets a list when it first has memory of that
 * stream, and may see uses of the stream before. */
static inline GpuPoolFreeList *
gpu_pool_heap_at_slot (GpuPool *pool,
                       guint    slot)
{
  if (G_LIKELY (slot < pool->n_free_lists && pool->free_lists[slot] != NULL))
    return pool->free_lists[slot];

  return _gpu_pool_heap_make_free_list (pool, slot);
}

/* @pool may also be the heap of a thread. */
static inline gboolean
gpu_pool_is_frozen (GpuPool *pool)
{
  const GpuPool *whole = pool->pool;

  return whole->ops.is_frozen != NULL && whole->ops.is_frozen (whole->owner);
}

static inline GpuPoolUse
gpu_pool_heap_use (GpuPool *pool,
                   guint64  use)
{
  guint slot = gpu_pool_use_slot (use);

  return (GpuPoolUse) { gpu_pool_heap_at_slot (pool, slot)->stream, gpu_pool_use_seq (use) };
}

/* Returns a use by @stream, packed into a number, that covers all work submitted to @stream so far.
 * Returns 0 if @stream is NULL. */
static inline guint64
gpu_pool_get_use_now (GpuPoolStream *stream)
{
  if (stream == NULL)
    return 0;

  return gpu_pool_use_pack (stream->slot, gpu_pool_stream_load_use_seq (stream));
}

/* --- serving --------------------------------------------------------------------- */

struct _GpuPoolRequest
{
  gsize          size;              /* bytes */
  guint32        units;
  guint32        align;             /* units, a power of two */
  GpuPoolStream *stream;
  guint          slot;
  gboolean       is_lent;           /* memory to lend to the heap of a thread; the node remains
                                     * busy, and is not counted as an allocation */
  gboolean       prefers_edges;     /* see gpu_pool_wants_edges() */
};

/* Caller holds `lock`. */
static inline gboolean
gpu_pool_is_small_for_edges (GpuPool *pool,
                             guint32  units)
{
  return gpu_pool_bytes (pool, units) <= pool->most_used_bytes / GPU_POOL_EDGE_SHARE;
}

/* Returns whether a request of @units should use edges before whole chunks: there are many edges,
 * and few whole chunks are free. Caller holds `lock`. */
static inline gboolean
gpu_pool_wants_edges (GpuPool *pool,
                      guint32  units)
{
  guint64 edges = gpu_pool_bytes (pool, pool->edge_units);
  double allowed = pool->most_used_bytes * pool->limits.waste;

  return pool->edge_budget > 0 && edges > GPU_POOL_EDGE_WASTE * allowed + pool->config.granularity
         && pool->stats.managed_bytes < GPU_POOL_EDGE_ROOM * allowed + gpu_pool_used_bytes (pool)
                                        + edges + gpu_pool_bytes (pool, units)
         && gpu_pool_is_small_for_edges (pool, units) && !gpu_pool_is_frozen (pool);
}

/* Finds a free range of the stream of @request, or without pending uses, for @request. Caller holds
 * `lock`. */
GpuPoolNode  *_gpu_pool_find_fit          (GpuPool              *pool,
                                           const GpuPoolRequest *request);
/* Serves @request from the range that _gpu_pool_find_fit() finds. Returns NULL if there is none, or
 * if the request should use edges. Caller holds `lock`. */
GpuPoolNode  *_gpu_pool_serve             (GpuPool              *pool,
                                           const GpuPoolRequest *request);
/* Like _gpu_pool_serve(), but takes `lock`. */
GpuPoolNode  *_gpu_pool_lock_and_serve    (GpuPool              *pool,
                                           const GpuPoolRequest *request);
/* Serves @request from @node, which is busy. */
GpuPoolNode  *_gpu_pool_serve_from        (GpuPool              *pool,
                                           GpuPoolNode          *node,
                                           const GpuPoolRequest *request);

/* Undoes the allocation of @node. @use is the use that @node had before the allocation. */
void          _gpu_pool_serve_undo        (GpuPool              *pool,
                                           GpuPoolNode          *node,
                                           guint64               use);
/* Slow path: tries all fallbacks. Caller does not hold `lock`. */
GpuPoolNode  *_gpu_pool_alloc_slowly      (GpuPool              *pool,
                                           const GpuPoolRequest *request,
                                           GError              **error);
/* Grows the pool by a range, and lends this range to @heap, unless the pool has too much unused
 * memory. A heap that uses memory of other heaps instead must wait for their streams, and the
 * memory cannot be joined with its neighbours. Returns NULL without an error on failure. After a
 * failure, does not ask the owner again until memory was returned to the owner, or until the pool
 * has grown by as much. Caller does not hold `lock`. */
GpuPoolNode  *_gpu_pool_grow_early        (GpuPool              *pool,
                                           GpuPool              *heap,
                                           const GpuPoolRequest *request);
/* Counts the refused request, and sets an error with @code that quotes the figures of the pool. */
void          _gpu_pool_set_refused       (GpuPool              *pool,
                                           const GpuPoolRequest *request,
                                           int                   code,
                                           const char           *reason,
                                           GError              **error);

/* --- growth: caller holds growth_lock, but does not hold `lock` ---------------------- */

/* Gets memory from the owner and serves @request from it. */
GpuPoolNode  *_gpu_pool_grow              (GpuPool              *pool,
                                           const GpuPoolRequest *request,
                                           GError              **error);
/* Returns unused memory to the owner until at most @keep bytes are managed. Returns TRUE if any
 * memory was returned. */
gboolean      _gpu_pool_shrink            (GpuPool              *pool,
                                           guint64               keep);

void          _gpu_pool_chunks_new        (GpuPool              *pool);
void          _gpu_pool_chunks_free       (GpuPool              *pool);
GpuPoolNode  *_gpu_pool_chunks_grow       (GpuPool              *pool,
                                           const GpuPoolRequest *request,
                                           GError              **error);
/* Serves the request with edges, and with chunks moved between them. Returns NULL if there are no
 * suitable edges. */
GpuPoolNode  *_gpu_pool_chunks_serve      (GpuPool              *pool,
                                           const GpuPoolRequest *request);
gboolean      _gpu_pool_chunks_shrink     (GpuPool              *pool,
                                           guint64               keep);
void          _gpu_pool_segments_free     (GpuPool              *pool);

/* Creates the missing fences of pending uses, polls all fences, and reclaims memory whose uses have
 * completed. */
void          _gpu_pool_reclaim_completed (GpuPool              *pool);
/* Like _gpu_pool_reclaim_completed(), for blocks with uses on several streams. A block becomes free
 * once at most one of its uses is pending. Returns TRUE if any block became free. */
gboolean      _gpu_pool_reclaim_shared    (GpuPool              *pool);
/* Returns whether @request may use memory whose last use, on @stream, may be pending. While a
 * stream is capturing, nothing may wait for that stream, and that stream waits for nothing; a
 * request without a stream would block. */
gboolean      _gpu_pool_may_follow        (GpuPool              *pool,
                                           const GpuPoolRequest *request,
                                           GpuPoolStream        *stream);
/* Orders the stream of @request, if any, after the pending uses of free memory by other streams, as
 * far as possible, and makes this memory free memory of the stream of @request. Returns FALSE if
 * there is no such memory, or if threads have heaps. */
gboolean      _gpu_pool_take_over         (GpuPool              *pool,
                                           const GpuPoolRequest *request);
/* (transfer full): lists the pending uses of freed memory, as GpuPoolUse. If @request is not NULL,
 * skips the stream of the request, and streams whose work waits for an action of the program. A
 * thread that waits for listed uses does not wait for memory that other threads free meanwhile. */
GArray       *_gpu_pool_list_uses         (GpuPool              *pool,
                                           const GpuPoolRequest *request);
/* Removes uses from @pending until it has waited for one. Skips uses for which the wait is refused,
 * see _gpu_pool_use_follow(). Returns FALSE if none is left. */
gboolean      _gpu_pool_wait_for_next     (GpuPool              *pool,
                                           GArray               *pending);
/* Returns whether the pool must return memory to the owner after the free of @node. Memory of the
 * heap of a thread first has to return to the pool. Caller holds `lock`. */
static inline gboolean
gpu_pool_has_excess (GpuPool           *pool,
                     const GpuPoolNode *node)
{
  guint64 used = gpu_pool_used_bytes (pool);
  gsize whole = pool->config.granularity;

  if (!__atomic_load_n (&pool->pool->is_holding, __ATOMIC_RELAXED))
    return TRUE;

  if (pool->pool != pool)
    return FALSE;

  if (pool->stats.managed_bytes <= used
      || pool->stats.managed_bytes - used <= pool->limits.release_threshold)
    return FALSE;

  if (whole == 0)
    return node->units == pool->areas[node->area]->units;

  return gpu_pool_bytes (pool, node->units) >= whole;
}

/* Locks growth_lock. Returns FALSE if the calling thread already holds it. */
gboolean      _gpu_pool_lock_growth       (GpuPool              *pool);
/* Unlocks growth_lock, and releases the excess memory that other threads could not release while it
 * was locked. */
void          _gpu_pool_unlock_growth     (GpuPool              *pool);
void          _gpu_pool_set_cache_limits  (GpuPool              *pool);
/* Returns the usual size of the range that a heap borrows to serve @request. */
guint32       _gpu_pool_get_lent_units    (GpuPool              *pool,
                                           const GpuPoolRequest *request);

G_END_DECLS
