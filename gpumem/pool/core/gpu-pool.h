/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The core of GpuMemoryPool: a suballocator that cuts blocks from memory supplied by its owner (the
 * code that created the pool), and reuses freed blocks. The core handles addresses, sizes and
 * streams (gpu-pool-stream.h), and calls no driver.
 *
 * All functions are thread-safe. The owner's ops are called without locks of the pool, except the
 * lock that serializes growth.
 */
#pragma once

#include <gpumem/gpumem.h>

#include "gpumem/pool/core/gpu-pool-stream.h"

G_BEGIN_DECLS

typedef struct _GpuPool GpuPool;

/* A segment: one allocation of the owner. */
typedef struct
{
  guint64  address;                 /* a multiple of the unit of the pool */
  gsize    size;                    /* bytes */
  gpointer data;                    /* data of the owner */
  gsize    lost;                    /* bytes of the allocation outside the segment; they also count
                                     * as managed */
} GpuPoolSegment;

/* The owner's functions that allocate and free memory. A pool has either segments, or one address
 * range into which chunks of physical memory are mapped. If an allocation fails with
 * GPU_ERROR_OUT_OF_DEVICE_MEMORY or GPU_ERROR_OUT_OF_HOST_MEMORY, the pool tries its fallbacks.
 * After any other error, the request for memory fails. */
typedef struct
{
  gboolean (*alloc_segment) (gpointer               owner,
                             gsize                  size,
                             GpuPoolSegment        *segment,
                             GError               **error);
  void     (*free_segment)  (gpointer               owner,
                             const GpuPoolSegment  *segment);

  /* A chunk is physical memory without an address. Sizes of chunks, and offsets into the address
   * range, are multiples of the granularity. */
  gpointer (*create_chunk)  (gpointer               owner,
                             gsize                  size,
                             GError               **error);
  /* The chunk is not mapped. */
  void     (*destroy_chunk) (gpointer               owner,
                             gpointer               chunk,
                             gsize                  size);
  /* Maps the chunks one after another, starting at @offset. The memory must be ready for use on
   * return. On failure, no chunk is mapped. */
  gboolean (*map_chunks)    (gpointer               owner,
                             gsize                  offset,
                             const gpointer        *chunks,
                             const gsize           *sizes,
                             guint                  n_chunks,
                             GError               **error);
  /* Unmaps one or more adjacent chunks, which have no pending uses. */
  void     (*unmap_chunks)  (gpointer               owner,
                             gsize                  offset,
                             gsize                  size);

  /* Called when a request of @size bytes fails after the pool has freed all memory that it can
   * free. Returns TRUE to try again, which the function must do only a few times for a request.
   * @attempt is 0 in the first call for a request; the next call gets the value that the function
   * sets. */
  gboolean (*make_room)     (gpointer               owner,
                             gsize                  size,
                             guint                 *attempt);
  /* Returns whether the pool must neither move nor free memory, nor wait for a stream, because work
   * of some stream is being captured. Called with locks of the pool held. Nullable: the pool then
   * assumes FALSE. */
  gboolean (*is_frozen)     (gpointer               owner);
} GpuPoolOps;

typedef struct
{
  gsize    unit;                    /* bytes, a power of two: alignment of all addresses and
                                     * sizes */
  gsize    granularity;             /* bytes, a power of two; the size of each chunk is a multiple
                                     * of this value; 0 for a pool with segments */
  guint64  range_address;           /* start of the address range, whose size is range_size */
  gsize    range_size;
  gsize    segment_size;            /* bytes of an ordinary segment; a larger block gets its own
                                     * segment */
  gsize    max_segment_size;        /* bytes, 0 if there is no limit */
  gboolean has_thread_heaps;        /* every thread gets its own heap; otherwise only threads that
                                     * contend for the lock of the pool do */
  gsize    slack;                   /* additional bytes that the pool requests, because a segment
                                     * may begin after the start of its allocation */
} GpuPoolConfig;

/* Limits that may change at any time. */
typedef struct
{
  guint64  limit;                   /* maximum of managed bytes; 0: no limit */
  guint64  soft_limit;              /* managed bytes above which the pool moves and frees memory
                                     * before it grows */
  guint64  release_threshold;       /* maximum of unused bytes that the pool keeps */
  double   waste;                   /* fraction of the peak of used bytes. If growth would raise the
                                     * managed bytes above the peak by more than this fraction,
                                     * the pool moves chunks */
} GpuPoolLimits;

typedef struct
{
  guint64  active_blocks, held_blocks;
  guint64  active_bytes;            /* as requested */
  guint64  used_bytes;              /* including rounding */
  guint64  managed_bytes;           /* of all segments, or of the mapped memory */
  guint64  largest_free;            /* bytes */
  guint64  peak_active_bytes, peak_used_bytes, peak_managed_bytes;
  guint64  n_allocs, n_frees;
  guint64  n_cache_hits;            /* requests served from the thread's cache */
  guint64  n_hits;                  /* requests served from free ranges without a wait */
  guint64  n_steals, n_waits;       /* n_steals: requests served from memory of other streams;
                                     * n_waits: waits for pending uses */
  guint64  n_growths, n_recycled;   /* growths, chunks moved */
  guint64  n_maps, n_unmaps;        /* calls that mapped and unmapped chunks */
  guint64  n_refused;               /* failed requests */
  guint64  n_slow, n_flushes;       /* requests that took the slow path; flushes of the caches of
                                     * all threads */
} GpuPoolStats;

/* Fails only if the process has no key of thread-specific data left, so never while another pool
 * exists. */
GpuPool        *_gpu_pool_new         (const GpuPoolConfig     *config,
                                       const GpuPoolOps        *ops,
                                       gpointer                 owner,
                                       const GpuPoolStreamOps  *stream_ops,
                                       GError                 **error);
/* All blocks must have been freed. */
void            _gpu_pool_free        (GpuPool                 *pool);
/* Closes the pool, which must not allocate after this call. Returns all memory to the owner, except
 * memory of active blocks. Calls @notify, which may free the pool, once all blocks are freed. This
 * may happen before the call returns. */
void            _gpu_pool_close       (GpuPool                 *pool,
                                       GDestroyNotify           notify,
                                       gpointer                 data);
/* Returns (transfer full) the keys of streams with pending uses of freed memory. The caller owns a
 * reference to each key. */
GPtrArray      *_gpu_pool_list_pending (GpuPool                *pool);
gpointer        _gpu_pool_get_owner   (GpuPool                 *pool);

/* @key identifies a stream; NULL for the host. @alignment is a power of two or 0. @size is not
 * 0. */
GpuMemoryBlock *_gpu_pool_alloc       (GpuPool                 *pool,
                                       gsize                    size,
                                       gsize                    alignment,
                                       gpointer                 key,
                                       GError                 **error);
/* Frees @block. Later requests reuse its memory only after all work that was submitted to @key so
 * far. */
void            _gpu_pool_release     (GpuMemoryBlock          *block,
                                       gpointer                 key);
/* Like _gpu_pool_release() with the allocation stream. */
void            _gpu_pool_release_on_alloc_stream (GpuMemoryBlock         *block);
/* Returns (transfer full) the key of the allocation stream, or NULL for the host. Also returns NULL
 * if the stream was swept, because all its uses have completed. */
gpointer        _gpu_pool_block_ref_alloc_stream (GpuMemoryBlock       *block);
/* Like _gpu_pool_release() with several streams. */
void            _gpu_pool_release_all (GpuMemoryBlock          *block,
                                       const gpointer          *keys,
                                       guint                    n_keys);
/* Allocates all blocks under one lock. Blocks of size 0 are NULL. On failure, no block is
 * allocated. */
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
/* Returns the size in bytes, including rounding. */
gsize           _gpu_pool_block_get_capacity (const GpuMemoryBlock *block);
/* Get and set one bit for use by the owner, initially FALSE. */
gboolean        _gpu_pool_block_get_owner_flag (const GpuMemoryBlock *block);
void            _gpu_pool_block_set_owner_flag (GpuMemoryBlock       *block,
                                                gboolean              flag);
/* Returns GpuPoolSegment.data, or NULL if the pool has an address range instead of segments. */
gpointer        _gpu_pool_block_get_segment (const GpuMemoryBlock *block);
/* Get and set data that the owner attaches to the range of @block, such as a driver handle. When
 * the range is split or joined with another range, the pool calls @destroy without a lock. */
gpointer        _gpu_pool_block_get_data    (const GpuMemoryBlock *block);
void            _gpu_pool_block_set_data    (GpuMemoryBlock       *block,
                                             gpointer              data,
                                             GDestroyNotify        destroy);

/* Returns unused memory to the owner until at most @keep bytes are managed. If @wait is TRUE,
 * blocks until pending uses of the memory have completed. */
void            _gpu_pool_trim        (GpuPool                 *pool,
                                       guint64                  keep,
                                       gboolean                 wait);
/* Returns memory above the limits to the owner, if the uses of the memory have completed. If
 * another thread is growing the pool, that thread or a later call returns the memory. */
void            _gpu_pool_release_excess (GpuPool                 *pool);
/* From now on the pool keeps no freed memory: memory returns to the owner when its last use has
 * completed. */
void            _gpu_pool_stop_holding (GpuPool                *pool);
void            _gpu_pool_set_limits  (GpuPool                 *pool,
                                       const GpuPoolLimits     *limits);
void            _gpu_pool_get_stats   (GpuPool                 *pool,
                                       GpuPoolStats            *stats);
/* Sets the peaks to the present values, for programs. Decisions of the pool do not change. */
void            _gpu_pool_reset_peaks (GpuPool                 *pool);

/* The state of a range, as reported by _gpu_pool_visit(). */
typedef enum
{
  GPU_POOL_ACTIVE,
  GPU_POOL_CACHED,                  /* in a thread's cache */
  GPU_POOL_PENDING,                 /* freed, with a use that may be pending */
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
/* Visits every block and unmapped range in order of address. Holds the lock, so @func must not call
 * the pool. */
void            _gpu_pool_visit       (GpuPool                 *pool,
                                       GpuPoolVisitFunc         func,
                                       gpointer                 data);

G_END_DECLS
