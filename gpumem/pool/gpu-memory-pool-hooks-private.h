/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The state of the hooks of a pool: the streams of the driver, the addresses of blocks, and the
 * captures. */
#pragma once

#include "gpumem/pool/gpu-memory-pool-hooks.h"
#include "gpumem/pool/gpu-memory-pool-private.h"

G_BEGIN_DECLS

#define GPU_POOL_HOOKS_SHARDS 64

typedef struct _GpuPoolCapture GpuPoolCapture;

/* The blocks by address. Each shard has its own lock, so that threads seldom wait. */
typedef struct
{
  GpuPoolLock  lock;
  GHashTable  *blocks;              /* address -> GpuMemoryBlock */
} GpuPoolHooksShard;

/* A stream of the driver. A record without users is recycled; it is only freed with the hooks, so
 * that the thread that used it last may look at it. */
typedef struct
{
  gint         n_users;             /* atomic: the calls that use the record, and the table */
  gboolean     is_dead;             /* the driver has destroyed the stream */
  gpointer     handle;
  guint64      id;                  /* atomic: unique in the process, 0 while unknown */
  GpuStream   *stream;
  GpuTimeline *timeline;            /* owned by `stream` */
} GpuPoolHooksStream;

typedef struct _GpuPoolHooksState GpuPoolHooksState;
struct _GpuPoolHooksState
{
  GpuPoolHooks       table;
  GpuMemoryPool     *owner;         /* has this structure */
  guint64            generation;    /* atomic: changes whenever a stream is forgotten; never the
                                     * same for two pools */
  GpuPoolLock        lock;          /* guards the next four members */
  GHashTable        *streams;       /* handle -> GpuPoolHooksStream */
  GHashTable        *past;          /* handle of end_stream() that was not used since -> GpuTimeline
                                     * with the last point of the stream */
  GPtrArray         *recycled;      /* of GpuPoolHooksStream without users */
  GPtrArray         *ended;         /* of GpuStream: the driver has destroyed these streams */
  GMutex             visit_lock;    /* held while pools of captures are visited or freed */
  GPtrArray         *captures;      /* of GpuPoolCapture; guarded by the lock of captures */
  GPtrArray         *freed;         /* like `captures`: released, and all memory is freed */
  gint               n_begun;       /* atomic: captures between begin and end, if announced */
  GpuPoolHooksShard  shards[GPU_POOL_HOOKS_SHARDS];
};

/* (transfer none): creates the hooks on the first call. */
GpuPoolHooks   *_gpu_memory_pool_get_hooks    (GpuMemoryPool       *pool);
void            _gpu_memory_pool_free_hooks   (GpuMemoryPool       *pool);

/* In gpu-memory-pool-capture.c */

/* (transfer full) (nullable): finds the capture to which memory for @stream belongs. @sequence is
 * the driver's number of the capture of the stream, 0 if it is not capturing. The capture remains
 * open until _gpu_pool_capture_leave(). */
GpuPoolCapture *_gpu_pool_captures_find       (GpuPoolHooksState   *state,
                                               GpuPoolHooksStream  *stream,
                                               guint64              sequence);
void            _gpu_pool_capture_leave       (GpuPoolCapture      *capture);
GpuMemoryBlock *_gpu_pool_capture_alloc       (GpuPoolCapture      *capture,
                                               gsize                size,
                                               GpuTimeline         *timeline,
                                               GError             **error);
/* @block belongs to a capture. @timeline is NULL for the stream of the allocation. */
void            _gpu_pool_capture_free        (GpuMemoryBlock      *block,
                                               GpuTimeline         *timeline);
void            _gpu_pool_capture_add_timeline (GpuMemoryBlock     *block,
                                                GpuTimeline        *timeline);
gboolean        _gpu_pool_captures_begin      (gpointer             state,
                                               guint64              number,
                                               GpuPoolStreamFilter  filter,
                                               gpointer             data,
                                               GDestroyNotify       destroy,
                                               GError             **error);
gboolean        _gpu_pool_captures_end        (gpointer             state,
                                               guint64              number);
gboolean        _gpu_pool_captures_release    (gpointer             state,
                                               guint64              number);
/* Returns the memory of captures whose graphs were destroyed, unless a stream is capturing. May
 * wait for the device. Returns TRUE if any memory was returned. */
gboolean        _gpu_pool_captures_collect    (GpuPoolHooksState   *state);
/* Captures no longer watch the stream of @timeline. Adds their references to the stream to
 * @streams. */
void            _gpu_pool_captures_forget_stream (GpuPoolHooksState *state,
                                                  GpuTimeline       *timeline,
                                                  GPtrArray         *streams);
/* Calls @func for the GpuPool of each capture. */
void            _gpu_pool_captures_visit      (GpuPoolHooksState   *state,
                                               GFunc                func,
                                               gpointer             data);
/* Called when the pool is finalized. */
void            _gpu_pool_captures_clear      (GpuPoolHooksState   *state);

G_END_DECLS
