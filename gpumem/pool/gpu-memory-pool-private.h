/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The private declarations of GpuMemoryPool: its state, its backing, and the memory objects that it
 * creates over its blocks. The suballocator is in gpumem/pool/core/.
 */
#pragma once

#include "gpumem/allocator/gpu-basic-allocator-private.h"
#include "gpumem/base/gpu-stripe-private.h"
#include "gpumem/base/gpu-type-check-private.h"
#include "gpumem/memory/gpu-memory-private.h"
#include "gpumem/pool/core/gpu-pool-bins.h"
#include "gpumem/pool/core/gpu-pool-lock.h"
#include "gpumem/pool/core/gpu-pool.h"

G_BEGIN_DECLS

/* Recycled objects per stripe. */
#define GPU_POOL_MAX_RECYCLED 64

/* Flags for GpuPoolCore.modes. The fast path handles a pool only if none is set. */
#define GPU_POOL_STOPPED (1u << 0)  /* the pool keeps no freed memory */
#define GPU_POOL_RECORDS (1u << 1)  /* the pool records its history */

typedef enum
{
  GPU_POOL_ALLOC,
  GPU_POOL_RELEASE,
  GPU_POOL_SEGMENT_ALLOC,
  GPU_POOL_SEGMENT_FREE,
  GPU_POOL_CHUNK_MAP,
  GPU_POOL_CHUNK_UNMAP,
  GPU_POOL_OUT_OF_MEMORY,
  GPU_POOL_GRAPH_ALLOC,             /* within a block that GPU_POOL_ALLOC has recorded */
  GPU_POOL_GRAPH_FREE
} GpuPoolAction;

typedef struct _GpuPoolHistory GpuPoolHistory;

/* The recycled objects of the threads that use one stripe. */
typedef struct
{
  gboolean     taken;               /* atomic; TRUE while a thread uses the other members */
  gboolean     closed;              /* the pool is finalized */
  guint        n;                   /* atomic; also read by threads that have not taken the list */
  GpuMemory   *objects[GPU_POOL_MAX_RECYCLED];  /* GpuBuffer objects */
} __attribute__ ((aligned (GPU_LINE))) GpuPoolRecycled;

typedef struct
{
  gatomicrefcount    refs;          /* held by the pool and by memory objects over its blocks */
  guint              modes;         /* atomic; GPU_POOL_STOPPED, GPU_POOL_RECORDS */
  GpuNativeContext  *context;
  GpuMemoryFlags     flags;         /* flags of the memory objects that the pool creates */
  GpuAllocator      *allocator;     /* allocates segments or items; NULL for an expandable pool */
  GpuNativeBuffer   *range;         /* the address range of an expandable pool, or NULL */
  GpuSvmAllocator   *svm;           /* the innermost allocator, if it is a GpuSvmAllocator */
  gboolean           has_addresses; /* whether all memory of the pool has device addresses */
  gsize              unit;          /* alignment of blocks, in bytes */
  GpuPool           *pool;          /* NULL for GPU_MEMORY_POOL_BINS */
  GpuPoolBins       *bins;          /* NULL for other kinds */
  gpointer           owner;         /* GWeakRef on the GpuMemoryPool, for signals */

  GpuPoolHistory    *history;       /* see gpu-memory-pool-history.c; has its own lock */

  GMutex             lock;          /* guards next_address and extras */

  GpuPoolRecycled   *recycled;      /* array of GPU_N_STRIPES lists */
  guint64            next_address;  /* the next artificial address, if the driver reports none */
  GHashTable        *extras;        /* key: a GpuMemoryBlock with the owner flag; value: the Extra
                                     * of the block (see gpu-memory-block.c) */
} GpuPoolCore;

/* The suballocation of a memory object: a GpuMemoryBlock, or a GpuPoolItem of a pool with bins. */
typedef gpointer GpuPoolSuballocation;

/* A view: the driver's handle of a suballocation. Buffers and pending work share the view. A
 * suballocation keeps its view while it is unused, except in an address range: there, a recycled
 * buffer keeps the view, because the handle of a slice of the range can be moved. */
typedef struct
{
  gatomicrefcount   refs;
  const GpuBackend *backend;
  GpuNativeContext *context;        /* NULL if `whole` is an address range: freeing its slices needs
                                     * no context, and the threads of a program would contend for
                                     * the count of its references */
  GpuStorage       *source;         /* storage of `whole`; NULL if `whole` is an address range */
  GpuNativeBuffer  *whole;          /* the allocation that contains the suballocation */
  gsize             offset;         /* before the handle was moved */
  GpuNativeBuffer  *buffer;         /* handle of exactly the suballocation; may be `whole` */
  GpuMemoryFlags    flags;
} GpuPoolView;

struct _GpuMemoryPool
{
  GObject            parent_instance;

  GpuContext        *context;
  GpuAllocator      *allocator;     /* NULL if the pool allocates from the driver */
  GpuMemoryPoolKind  kind;
  GpuMemoryFlags     flags;
  guint              leading_bits;
  GpuPoolCore       *core;          /* NULL if never initialised */
  GpuPool           *blocks;        /* `core->pool` if its blocks have addresses, or NULL */
  GMutex             lock;          /* guards `limits`, `n_limit_changes`, `notify_interval` and
                                     * `notify_source` */
  GpuPoolLimits      limits;
  guint              n_limit_changes;
  guint              notify_interval;   /* milliseconds; 0: no notifications */
  GSource           *notify_source;     /* nullable */
  struct _GpuPoolHooksState *hooks;     /* nullable; guarded by `lock` */
};

#define GPU_POOL_N_FIGURES 20

/* A counter of GpuPoolStats. Each counter is also a property with the same name. */
typedef struct
{
  const char *name;
  gsize       offset;
} GpuPoolFigure;

extern const GpuPoolFigure _gpu_pool_figures[GPU_POOL_N_FIGURES];

guint64       _gpu_pool_stats_get          (const GpuPoolStats *stats,
                                            guint               i);
guint         _gpu_memory_pool_get_notify_interval (GpuMemoryPool *pool);
void          _gpu_memory_pool_set_notify_interval (GpuMemoryPool *pool,
                                                    guint          interval);
/* Must be called in finalize, when no other thread uses @pool. */
void          _gpu_memory_pool_stop_notifying      (GpuMemoryPool *pool);

/* Follows a chain of adaptors and pools. Returns the innermost allocator if it is a
 * GpuSvmAllocator, or NULL. */
GpuSvmAllocator *_gpu_pool_find_svm        (GpuAllocator       *allocator);
/* Returns TRUE if host and device must take turns: the host cannot access an allocation of shared
 * virtual memory while the device uses any part of that allocation. Such an allocation cannot be
 * divided into blocks. */
gboolean      _gpu_pool_takes_turns        (GpuNativeContext   *context);

/* Streams of a pool, implemented by timelines. */
extern const GpuPoolStreamOps _gpu_pool_timeline_ops;
/* In gpu-memory-pool-frozen.c. Guards the captures of all pools. Callers may hold locks of pools,
 * so code that holds this lock never calls a pool. */
extern GMutex _gpu_pool_captures_lock;
/* The number of active captures of all pools: while it is 0, no stream is known to capture. */
extern gint _gpu_pool_n_captures;

/* A capture. If `timeline` is not NULL, the watch becomes inactive when its capture has ended. */
typedef struct
{
  gboolean     is_active;
  GpuTimeline *timeline;            /* nullable; valid while the watch is active */
  guint64      sequence;            /* the driver's number of the capture of `timeline` */
} GpuPoolWatch;

void          _gpu_pool_watch_set_active_locked (GpuPoolWatch      *watch,
                                                 gboolean           is_active);
/* GpuPoolOps.is_frozen(): whether any stream is capturing. @owner is ignored. */
gboolean      _gpu_pool_is_frozen             (gpointer             owner);
/* While a stream is capturing, the driver refuses some calls of all threads, and the capture
 * fails. The library's own calls are safe; allocators of the program may make such calls. Between
 * these two calls, the driver refuses no call of this thread. */
guint         _gpu_pool_relax_captures        (GpuNativeContext    *context);
void          _gpu_pool_restore_captures      (GpuNativeContext    *context,
                                               guint                rule);
/* In gpu-memory-pool-capture.c. Returns the memory of destroyed graphs to the pool, unless a stream
 * is capturing. Returns TRUE if any memory was returned. */
gboolean      _gpu_memory_pool_collect_captures (GpuMemoryPool      *pool);
/* Waits for all work of the device. Returns FALSE if the driver refuses, as while a stream is
 * capturing. */
gboolean      _gpu_pool_synchronize_context   (GpuNativeContext    *context);
/* Returns whether work of @timeline is being captured, or must not be submitted because work of
 * some stream is being captured. */
gboolean      _gpu_pool_is_capturing          (GpuTimeline         *timeline);
/* The driver's stream must exist until the role is GPU_CAPTURE_ROLE_NONE. */
void          _gpu_pool_set_capture_role      (GpuTimeline         *timeline,
                                               GpuCaptureRole       role);
/* In gpu-memory-block.c. Like gpu_memory_pool_alloc_block(), for errors of @function. */
GpuMemoryBlock *_gpu_memory_pool_alloc_block (GpuMemoryPool      *pool,
                                              gsize               size,
                                              GpuStream          *stream,
                                              const char         *function,
                                              GError            **error);
/* Frees @block as gpu_memory_pool_free_block() does. @timeline used the
 * block last; its stream may have ended. */
void          _gpu_memory_block_release     (GpuMemoryBlock      *block,
                                             GpuTimeline         *timeline);
/* Orders all later work of an out-of-order stream after all its earlier work. */
gboolean      _gpu_pool_timeline_add_barrier (GpuTimeline        *timeline,
                                              const char         *function,
                                              GError            **error);

/* The kind of @pool must not be AUTOMATIC. Returns NULL with an error if the device does not
 * support that kind. */
GpuPoolCore  *_gpu_pool_core_new           (GpuMemoryPool      *pool,
                                            GpuAllocator       *allocator,
                                            GError            **error);
GpuPoolCore  *_gpu_pool_core_ref           (GpuPoolCore        *core);
void          _gpu_pool_core_unref         (GpuPoolCore        *core);
/* Called when the GpuMemoryPool is finalized. The core is freed when all blocks are freed and all
 * work that uses them has completed. */
void          _gpu_pool_core_close         (GpuPoolCore        *core);
GpuPoolSuballocation _gpu_pool_core_alloc         (GpuPoolCore        *core,
                                                   gsize               size,
                                                   gsize               alignment,
                                                   GpuTimeline        *timeline,
                                                   GError            **error);
/* Frees @suballocation. @uses is an array of GpuPoint, or NULL. The memory is reused only after all
 * work that was submitted so far to @alloc_timeline and to the timelines in @uses. A pool that
 * keeps no freed memory returns the memory to the driver or the allocator when that work has
 * completed. */
void          _gpu_pool_core_release       (GpuPoolCore          *core,
                                            GpuPoolSuballocation  suballocation,
                                            GpuTimeline          *alloc_timeline,
                                            GArray               *uses);
/* Takes ownership of a reference to @core. A pool that keeps no freed memory frees its unused
 * memory when all work submitted so far to @timeline has completed. */
void          _gpu_pool_core_release_excess_after (GpuPoolCore        *core,
                                                   GpuTimeline        *timeline);
/* Returns the size in bytes, as requested. */
gsize         _gpu_pool_core_get_size      (GpuPoolCore          *core,
                                            GpuPoolSuballocation  suballocation);
/* Returns (transfer full) the view of @suballocation, or NULL with an error if the driver fails to
 * create the view. */
GpuPoolView  *_gpu_pool_core_get_view      (GpuPoolCore           *core,
                                            GpuPoolSuballocation   suballocation,
                                            GError               **error);

/* Returns whether _gpu_pool_core_move_slice() can move the handle of a view. */
static inline gboolean
_gpu_pool_core_moves_slices (GpuPoolCore *core)
{
  return core->range != NULL;
}

/* Moves @slice, the handle of a view that only the caller references, to @suballocation. Returns
 * the new offset within the address range. */
gsize         _gpu_pool_core_move_slice    (GpuPoolCore           *core,
                                            GpuNativeBuffer       *slice,
                                            GpuPoolSuballocation   suballocation);
GpuPoolView  *_gpu_pool_view_ref           (GpuPoolView        *view);
void          _gpu_pool_view_unref         (gpointer            view);
/* Returns the driver's handle of the memory. */
guint64       _gpu_pool_item_get_handle    (const GpuPoolItem  *item);

void          _gpu_pool_core_set_limits    (GpuPoolCore         *core,
                                            const GpuPoolLimits *limits);
void          _gpu_pool_core_trim          (GpuPoolCore        *core,
                                            guint64             keep,
                                            gboolean            wait);
void          _gpu_pool_core_stop_holding  (GpuPoolCore        *core);
/* In gpu-memory-pool-status.c. @kind is a static string. */
void          _gpu_pool_status_add         (GpuPoolCore        *core,
                                            const char         *device,
                                            const char         *kind);
void          _gpu_pool_status_remove      (GpuPoolCore        *core);
void          _gpu_pool_core_get_stats     (GpuPoolCore        *core,
                                            GpuPoolStats       *stats);
void          _gpu_pool_core_reset_peaks   (GpuPoolCore        *core);

/* Returns FALSE with @error if @pool was never initialised. */
gboolean      _gpu_memory_pool_check       (GpuMemoryPool      *pool,
                                            const char         *function,
                                            GError            **error);
/* Returns (transfer none) the timeline of @stream, which must belong to the pool's context. With
 * @stream NULL, returns the timeline of the default stream. */
GpuTimeline  *_gpu_memory_pool_get_timeline (GpuMemoryPool      *pool,
                                             GpuStream          *stream,
                                             const char         *function,
                                             GError            **error);
/* In gpu-memory-pool-limits.c. */
guint64       _gpu_memory_pool_get_limit   (GpuMemoryPool       *pool,
                                            guint64             *limit);
void          _gpu_memory_pool_set_limit   (GpuMemoryPool       *pool,
                                            const char          *name,
                                            guint64             *limit,
                                            guint64              value);

/* In gpu-memory-pool-history.c. */
guint         _gpu_pool_history_get_size   (GpuPoolHistory      *history);
GpuPoolHistory *_gpu_pool_history_new      (void);
void          _gpu_pool_history_free       (GpuPoolHistory     *history);
/* Caller holds no lock of the pool. @key identifies a stream; NULL for none. */
GPU_COLD void _gpu_pool_core_record        (GpuPoolCore        *core,
                                            GpuPoolAction       action,
                                            guint64             address,
                                            gsize               size,
                                            gpointer            key);
/* Returns (transfer full) a table of the numbers that were assigned to streams so far, by key. */
GHashTable   *_gpu_pool_core_list_streams  (GpuPoolCore        *core);
/* Returns the number of @key, from 1, and assigns a number on first use. Returns 0 for a NULL
 * @key. */
guint32       _gpu_pool_streams_get_number (GHashTable         *streams,
                                            gpointer            key);

static inline gboolean
gpu_pool_core_records (GpuPoolCore *core)
{
  return G_UNLIKELY ((__atomic_load_n (&core->modes, __ATOMIC_RELAXED) & GPU_POOL_RECORDS) != 0);
}

/* In gpu-memory-pool-buffer.c. Creates a GpuBuffer over @suballocation. With @is_svm, creates a
 * GpuSvm instead; `core->svm` must then be set. Takes ownership of @suballocation even on
 * failure. */
GpuMemory    *_gpu_pool_core_new_memory    (GpuPoolCore           *core,
                                            GpuContext            *context,
                                            gboolean               is_svm,
                                            GpuPoolSuballocation   suballocation,
                                            GpuTimeline           *timeline,
                                            GError               **error);
/* Creates and frees the empty lists of recycled objects. */
void          _gpu_pool_core_init_recycled (GpuPoolCore        *core);
void          _gpu_pool_core_clear_recycled (GpuPoolCore        *core);
/* Drops the recycled objects. No object is recycled from now on. */
void          _gpu_pool_core_drop_recycled (GpuPoolCore        *core);

/* The class, set by class_init. */
extern gpointer _gpu_memory_pool_class;

static inline gboolean
_gpu_is_memory_pool (gpointer object)
{
  return _gpu_has_class (object, _gpu_memory_pool_class)
         || _gpu_is_a (object, gpu_memory_pool_get_type);
}

/* Faster than the public check. Messages about failed preconditions quote this name. */
#define GPU_IS_MEMORY_POOL(object) (_gpu_is_memory_pool (object))

G_END_DECLS
