/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The core of GpuMemoryPool: cuts blocks from memory that its owner gets for it, and hands out
 * again what is given back. It knows addresses, sizes and streams (gpu-pool-stream.h), and no
 * driver.
 *
 * Any thread calls anything. No op of the owner is called with a lock of the pool held, but for the
 * one that lets one thread at a time grow it.
 */
#pragma once

#include <gpumem/gpumem.h>

#include "gpumem/pool/core/gpu-pool-stream.h"

G_BEGIN_DECLS

typedef struct _GpuPool GpuPool;

/* A segment that the owner got in one piece. */
typedef struct
{
  guint64  address;                 /* a multiple of the unit of the pool */
  gsize    size;                    /* bytes */
  gpointer data;                    /* the owner's */
} GpuPoolSegment;

/* Where memory comes from. A pool has either segments, or one range of addresses in which pieces of
 * memory are put behind the addresses and taken away again. Errors are those of drivers:
 * GPU_ERROR_OUT_OF_DEVICE_MEMORY is what the ladder goes on for. */
typedef struct
{
  gboolean (*alloc_segment) (gpointer               owner,
                             gsize                  size,
                             GpuPoolSegment        *segment,
                             GError               **error);
  void     (*free_segment)  (gpointer               owner,
                             const GpuPoolSegment  *segment);

  /* A piece is memory without an address. Sizes and offsets, from the beginning of the range, are
   * multiples of the granularity. */
  gpointer (*create_chunk)  (gpointer               owner,
                             gsize                  size,
                             GError               **error);
  void     (*destroy_chunk) (gpointer               owner,
                             gpointer               chunk,
                             gsize                  size);
  /* The pieces follow each other from @offset on, and are there for use when it returns; all of
   * them or, when it fails, none. */
  gboolean (*map_chunks)    (gpointer               owner,
                             gsize                  offset,
                             const gpointer        *chunks,
                             const gsize           *sizes,
                             guint                  n_chunks,
                             GError               **error);
  /* Of exactly what was mapped as one piece; nobody uses it any more. */
  void     (*unmap_chunk)   (gpointer               owner,
                             gsize                  offset,
                             gpointer               chunk,
                             gsize                  size);

  /* There is no memory for @size bytes although the pool has given up what it can: somebody may
   * make room. TRUE if it should try again; @attempt counts from 0, to 2. */
  gboolean (*make_room)     (gpointer               owner,
                             gsize                  size,
                             guint                  attempt);
} GpuPoolOps;

typedef struct
{
  gsize    unit;                    /* bytes, a power of two: of all addresses and sizes */
  gsize    granularity;             /* of pieces; 0 for segments */
  guint64  range_address;           /* of the range of addresses, and its size */
  gsize    range_size;
  gsize    segment_size;            /* bytes of an ordinary segment; larger blocks get their own */
  gsize    max_segment_size;        /* bytes, 0 if there is no limit */
} GpuPoolConfig;

/* The knobs that may change at any time. */
typedef struct
{
  guint64  limit;                   /* bytes that are held and active at most; 0: no limit */
  guint64  soft_limit;              /* from here on it recycles and trims rather than grow */
  guint64  release_threshold;       /* bytes that are kept when nobody uses them */
  double   waste;                   /* so much over the peak of used bytes before it recycles */
} GpuPoolLimits;

typedef struct
{
  guint64  active_blocks, held_blocks;
  guint64  active_bytes;            /* as requested */
  guint64  used_bytes;              /* the same with rounding */
  guint64  managed_bytes;           /* of segments, or mapped */
  guint64  largest_free;            /* bytes */
  guint64  peak_active_bytes, peak_used_bytes, peak_managed_bytes;
  guint64  n_allocs, n_frees;
  guint64  n_cache_hits;            /* served by the cache of the thread */
  guint64  n_hits;                  /* by free blocks of the stream or of nobody */
  guint64  n_steals, n_waits;       /* from other streams; with a wait put in */
  guint64  n_growths, n_recycled;   /* pieces or segments made, pieces moved */
  guint64  n_maps, n_unmaps;        /* calls */
  guint64  n_refused;               /* out of memory in the end */
} GpuPoolStats;

GpuPool        *_gpu_pool_new         (const GpuPoolConfig     *config,
                                       const GpuPoolOps        *ops,
                                       gpointer                 owner,
                                       const GpuPoolStreamOps  *stream_ops);
/* All blocks were given back. */
void            _gpu_pool_free        (GpuPool                 *pool);
/* Nothing is handed out any more, and nothing held but for what blocks that are active lie in.
 * @notify is called once all are given back, which may be now, and may free the pool. */
void            _gpu_pool_close       (GpuPool                 *pool,
                                       GDestroyNotify           notify,
                                       gpointer                 data);
/* (transfer full): the keys, each with a reference, of streams whose work may still use memory that
 * was given back. */
GPtrArray      *_gpu_pool_list_pending (GpuPool                *pool);
gpointer        _gpu_pool_get_owner   (GpuPool                 *pool);

/* @key is a stream, NULL for the host. @alignment is a power of two or 0. @size is not 0. */
GpuMemoryBlock *_gpu_pool_alloc       (GpuPool                 *pool,
                                       gsize                    size,
                                       gsize                    alignment,
                                       gpointer                 key,
                                       GError                 **error);
/* Free for use after all that was submitted to @key so far. */
void            _gpu_pool_release     (GpuMemoryBlock          *block,
                                       gpointer                 key);
/* The same with the stream that it was handed out to. */
void            _gpu_pool_release_on_alloc_stream (GpuMemoryBlock         *block);
/* (transfer full): that stream; NULL for the host, and once all of it is over. */
gpointer        _gpu_pool_block_ref_alloc_stream (GpuMemoryBlock       *block);
/* The same after all of several streams. */
void            _gpu_pool_release_all (GpuMemoryBlock          *block,
                                       const gpointer          *keys,
                                       guint                    n_keys);
/* One lock for all. All, NULL for those of 0 bytes, or, when it fails, none. */
gboolean        _gpu_pool_alloc_n     (GpuPool                 *pool,
                                       const gsize             *sizes,
                                       guint                    n,
                                       gpointer                 key,
                                       GpuMemoryBlock         **blocks,
                                       GError                 **error);
void            _gpu_pool_release_n   (GpuMemoryBlock *const   *blocks,
                                       guint                    n,
                                       gpointer                 key);

GpuPool        *_gpu_pool_block_get_pool    (const GpuMemoryBlock *block);
guint64         _gpu_pool_block_get_address (const GpuMemoryBlock *block);
gsize           _gpu_pool_block_get_size    (const GpuMemoryBlock *block);   /* as requested */
/* With rounding. */
gsize           _gpu_pool_block_get_capacity (const GpuMemoryBlock *block);
/* One bit for the owner, not set at first. */
gboolean        _gpu_pool_block_get_owner_flag (const GpuMemoryBlock *block);
void            _gpu_pool_block_set_owner_flag (GpuMemoryBlock       *block,
                                                gboolean              flag);
/* GpuPoolSegment.data; NULL in a range. */
gpointer        _gpu_pool_block_get_segment (const GpuMemoryBlock *block);
/* What the owner keeps with the place, e.g. a driver's handle for exactly this range: stays until
 * the block is cut or joined, when @destroy is called without a lock. */
gpointer        _gpu_pool_block_get_data    (const GpuMemoryBlock *block);
void            _gpu_pool_block_set_data    (GpuMemoryBlock       *block,
                                             gpointer              data,
                                             GDestroyNotify        destroy);

/* Gives back what nobody uses and whose last use is over, until at most @keep bytes are managed. */
void            _gpu_pool_trim        (GpuPool                 *pool,
                                       guint64                  keep,
                                       gboolean                 wait);
/* Gives back what is beyond the limits, as far as it is over. Leaves it to a thread that is growing
 * the pool, if there is one. */
void            _gpu_pool_release_excess (GpuPool                 *pool);
/* From now on nothing is held: what is given back goes back to the owner when its use is over. */
void            _gpu_pool_stop_holding (GpuPool                *pool);
void            _gpu_pool_set_limits  (GpuPool                 *pool,
                                       const GpuPoolLimits     *limits);
void            _gpu_pool_get_stats   (GpuPool                 *pool,
                                       GpuPoolStats            *stats);

/* Every block and gap in order of addresses, under the lock: @func calls nothing. */
typedef enum
{
  GPU_POOL_ACTIVE,
  GPU_POOL_CACHED,                  /* of a thread */
  GPU_POOL_PENDING,                 /* given back, and its use not known to be over */
  GPU_POOL_FREE,
  GPU_POOL_UNMAPPED
} GpuPoolState;

typedef void (*GpuPoolVisitFunc)      (gpointer                 data,
                                       const GpuPoolSegment    *segment,
                                       guint64                  address,
                                       gsize                    size,
                                       gsize                    requested,
                                       GpuPoolState             state,
                                       gpointer                 key);
void            _gpu_pool_visit       (GpuPool                 *pool,
                                       GpuPoolVisitFunc         func,
                                       gpointer                 data);

G_END_DECLS
