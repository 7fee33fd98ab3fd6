/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the files of the core share. Locks, outermost first: that of threads, that of growth, that
 * of the heap, that of the streams. */
#pragma once

#include "gpumem/base/gpu-attributes-private.h"
#include "gpumem/pool/core/gpu-pool-index.h"
#include "gpumem/pool/core/gpu-pool-lock.h"
#include "gpumem/pool/core/gpu-pool-node.h"
#include "gpumem/pool/core/gpu-pool-stream.h"
#include "gpumem/pool/core/gpu-pool.h"

G_BEGIN_DECLS

#define GPU_POOL_MAX_AREAS 65536

typedef struct _GpuPoolCache GpuPoolCache;
typedef struct _GpuPoolChunks GpuPoolChunks;

/* A segment, or the range of addresses that pieces are put behind. */
typedef struct
{
  GpuPoolSegment  segment;
  guint32         units;
  guint           id;
  GpuPoolNode    *first;
} GpuPoolArea;

/* The free ranges that one stream used last; those of slot 0 nobody uses. */
typedef struct
{
  GpuPoolIndex   index;
  GpuPoolStream *stream;
  guint          n;
  guint64        latest_seq;        /* stamp, and how many have it */
  guint          n_latest;
  guint64        scanned_at;        /* what the stream had reached when they were looked through */
} GpuPoolFreeList;

/* Given back after uses on several streams. */
typedef struct
{
  GpuPoolNode *node;
  guint        n_uses;
  GpuPoolUse   uses[];
} GpuPoolShared;

/* Of what was handed out and given back since they were last added up. */
typedef struct
{
  guint64 n_allocs;
  guint64 n_frees;
  gint64  bytes;
  gint64  units;
} GpuPoolCounts;

struct _GpuPool
{
  /* Read by every call */
  guint             unit_shift;
  guint32           cached_units;   /* atomic: of the largest block that threads keep */
  guint32           cache_budget;   /* atomic: units a thread keeps */
  gboolean          is_holding;     /* atomic */
  GThread          *grower;         /* atomic: who has the lock of growth, or NULL */
  guint             n_inside;       /* threads that give back what is too much; under lock */
  GDestroyNotify    closed;         /* NULL until it is closed, and after; under lock */
  gpointer          closed_data;

  GpuPoolConfig     config;
  GpuPoolOps        ops;
  gpointer          owner;
  GpuPoolStreams   *streams;

  /* Held while ops of the owner are called: who changes what is managed. */
  GpuPoolLock       growth_lock;
  gboolean          has_left_excess;  /* atomic; who holds that lock gives it back */
  guint             n_grown;        /* segments */
  GpuPoolChunks    *chunks;

  GpuPoolLock       lock;           /* guards all below */
  GpuPoolNodes      nodes;
  GpuPoolFreeList **free_lists;     /* by slot */
  guint             n_free_lists;
  guint             n_streams;      /* slots that have been used */
  GpuPoolArea     **areas;          /* by id */
  guint             n_areas;        /* ids */
  GPtrArray        *shared;         /* of GpuPoolShared */
  GpuPoolCache     *caches;
  guint             n_caches;
  GpuPoolData      *dropped;        /* to be destroyed without the lock */
  GpuPoolLimits     limits;
  GpuPoolCounts     counts;
  guint64           n_out;          /* blocks of the program and of threads' caches */
  GpuPoolStats      stats;          /* what is counted in place */
};

/* --- the pool ------------------------------------------------------------------- */

static inline gsize
gpu_pool_bytes (GpuPool *pool,
                guint64  units)
{
  return units << pool->unit_shift;
}

/* Of blocks that are active, as far as threads have told: what one takes and another gives back
 * may be counted for one of them only. */
static inline guint64
gpu_pool_used_bytes (GpuPool *pool)
{
  return gpu_pool_bytes (pool, MAX (pool->counts.units, 0));
}

/* The same, with what threads have not told; the lock is held. */
guint64       _gpu_pool_sum_used          (GpuPool           *pool);
/* Unlocks, and destroys what was dropped meanwhile. */
void          _gpu_pool_unlock_and_destroy (GpuPool           *pool);
void          _gpu_pool_destroy_data      (GpuPoolData       *dropped);
/* The same for who gives back; @has_excess: there may be too much now. */
void          _gpu_pool_unlock_and_release_excess (GpuPool           *pool,
                                                   gboolean           has_excess);
/* The owner gave, or got back, so many bytes; the lock is held. */
void          _gpu_pool_count_managed     (GpuPool           *pool,
                                           gint64             bytes);
/* Adds the counts of a thread to those of the pool; the lock is held. */
void          _gpu_pool_add_counts        (GpuPool           *pool,
                                           GpuPoolCounts     *counts);

/* The program gives @node back; the lock is held. */
static inline void
gpu_pool_count_free (GpuPool           *pool,
                     const GpuPoolNode *node)
{
  pool->n_out--;
  pool->counts.n_frees++;
  pool->counts.bytes -= gpu_pool_bytes (pool, node->units) - node->slack;
  pool->counts.units -= node->units;
}

/* --- the heap: all of it under the lock ------------------------------------------- */

GpuPoolFreeList *_gpu_pool_heap_get_free_list (GpuPool           *pool,
                                               GpuPoolStream     *stream);
gboolean      _gpu_pool_heap_is_completed (GpuPool           *pool,
                                           guint64            use);
/* Makes @node free and joins it with its neighbours; returns what it is part of now. */
GpuPoolNode  *_gpu_pool_heap_add          (GpuPool           *pool,
                                           GpuPoolNode       *node,
                                           guint64            use);
/* Out of its index: it is busy. */
void          _gpu_pool_heap_remove       (GpuPool           *pool,
                                           GpuPoolNode       *node);
/* The tightest of those of @slot. */
GpuPoolNode  *_gpu_pool_heap_find         (GpuPool           *pool,
                                           guint              slot,
                                           guint32            units);
/* Makes @units of a busy node, @pad units from its beginning, a node of its own; the rest is free,
 * with the use of the node. */
GpuPoolNode  *_gpu_pool_heap_cut          (GpuPool           *pool,
                                           GpuPoolNode       *node,
                                           guint32            pad,
                                           guint32            units);
/* Splits off what is behind @units; both have the state of @node, and neither is in an index. */
GpuPoolNode  *_gpu_pool_heap_split        (GpuPool           *pool,
                                           GpuPoolNode       *node,
                                           guint32            units);
/* @node, which is in no index, takes over what is behind it. */
void          _gpu_pool_heap_join_next    (GpuPool           *pool,
                                           GpuPoolNode       *node);
void          _gpu_pool_heap_drop_data    (GpuPool           *pool,
                                           GpuPoolNode       *node);
/* What is over by now becomes memory of nobody. @all looks also where it is unlikely. */
void          _gpu_pool_heap_reclaim_completed (GpuPool           *pool,
                                                gboolean           all);
GpuPoolArea  *_gpu_pool_heap_add_area     (GpuPool              *pool,
                                           const GpuPoolSegment *segment);
/* Its only node is busy. */
void          _gpu_pool_heap_remove_area  (GpuPool           *pool,
                                           GpuPoolArea       *area);

static inline GpuPoolUse
gpu_pool_heap_use (GpuPool *pool,
                   guint64  use)
{
  guint slot = gpu_pool_use_slot (use);

  return (GpuPoolUse) { slot != 0 ? pool->free_lists[slot]->stream : NULL, gpu_pool_use_seq (use) };
}

/* What @stream does from now on. */
static inline guint64
gpu_pool_get_use_now (GpuPoolStream *stream)
{
  if (stream == NULL)
    return 0;

  return gpu_pool_use_pack (stream->slot, gpu_pool_stream_load_use_seq (stream));
}

/* --- serving --------------------------------------------------------------------- */

typedef struct
{
  gsize          size;              /* bytes */
  guint32        units;
  guint32        align;             /* units, a power of two */
  GpuPoolStream *stream;
  guint          slot;
} GpuPoolRequest;

/* From what @request can have without anything being done; the heap is locked. */
GpuPoolNode  *_gpu_pool_serve             (GpuPool              *pool,
                                           const GpuPoolRequest *request);
/* The same; locks the heap. */
GpuPoolNode  *_gpu_pool_lock_and_serve    (GpuPool              *pool,
                                           const GpuPoolRequest *request);
/* Cuts it from @node, which is busy. */
GpuPoolNode  *_gpu_pool_serve_from        (GpuPool              *pool,
                                           GpuPoolNode          *node,
                                           const GpuPoolRequest *request);

/* As if @node had never been handed out; it was @use's before. */
void          _gpu_pool_serve_undo        (GpuPool              *pool,
                                           GpuPoolNode          *node,
                                           guint64               use);
/* All else that there is to try; without the lock of the heap. */
GpuPoolNode  *_gpu_pool_alloc_slowly      (GpuPool              *pool,
                                           const GpuPoolRequest *request,
                                           GError              **error);
/* Counts it, and puts the figures into the error. */
void          _gpu_pool_set_refused       (GpuPool              *pool,
                                           const GpuPoolRequest *request,
                                           const char           *reason,
                                           GError              **error);

/* --- growth: without the lock of the heap, with that of growth ----------------------- */

/* Gets memory of the owner, and serves from it; NULL with an error if it cannot be had. */
GpuPoolNode  *_gpu_pool_grow              (GpuPool              *pool,
                                           const GpuPoolRequest *request,
                                           GError              **error);
/* Gives back what nobody uses, until @keep bytes are managed; TRUE if it gave any. */
gboolean      _gpu_pool_shrink            (GpuPool              *pool,
                                           guint64               keep);

void          _gpu_pool_chunks_new        (GpuPool              *pool);
void          _gpu_pool_chunks_free       (GpuPool              *pool);
GpuPoolNode  *_gpu_pool_chunks_grow       (GpuPool              *pool,
                                           const GpuPoolRequest *request,
                                           GError              **error);
gboolean      _gpu_pool_chunks_shrink     (GpuPool              *pool,
                                           guint64               keep);
void          _gpu_pool_segments_free     (GpuPool              *pool);

/* For what is not needed any more: asks about all uses, and makes marks to ask about later. */
void          _gpu_pool_reclaim_completed (GpuPool              *pool);
/* The same for blocks that were used on several streams; TRUE if one is free now. */
gboolean      _gpu_pool_reclaim_shared    (GpuPool              *pool);
/* Waits for a use. For @request, nullable, memory is only wanted: it is none of its own stream, nor
 * one that waits for the program. */
gboolean      _gpu_pool_wait_for_pending  (GpuPool              *pool,
                                           const GpuPoolRequest *request);
/* Whether memory should go back to the owner now that @node is free; the heap is locked. */
static inline gboolean
gpu_pool_has_excess (GpuPool           *pool,
                     const GpuPoolNode *node)
{
  guint64 used = gpu_pool_used_bytes (pool);
  gsize whole = pool->config.granularity;

  if (!pool->is_holding)
    return TRUE;

  if (pool->stats.managed_bytes <= used
      || pool->stats.managed_bytes - used <= pool->limits.release_threshold)
    return FALSE;

  if (whole == 0)
    return node->units == pool->areas[node->area]->units;

  return gpu_pool_bytes (pool, node->units) >= whole;
}

/* FALSE if this thread has it. */
gboolean      _gpu_pool_lock_growth       (GpuPool              *pool);
/* Does what was left to who holds the lock. */
void          _gpu_pool_unlock_growth     (GpuPool              *pool);
void          _gpu_pool_set_cache_limits  (GpuPool              *pool);

G_END_DECLS
