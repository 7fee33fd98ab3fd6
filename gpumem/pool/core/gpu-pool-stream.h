/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Streams, and the conditions for reusing memory that was freed on another stream.
 *
 * A free only records the current use sequence of its stream, with one load and no driver call.
 * When another stream needs the memory, the pool creates a fence. The fence covers all earlier use
 * sequences, and work that the program submitted directly to the driver's stream.
 *
 * The use sequence is the number of fences created so far. To create a fence, a thread increments
 * the use sequence and then records the fence on the stream. If a second thread still reads the old
 * number for a free, that thread had already submitted its work. The fence covers that work,
 * because the stream's lock orders the two submissions.
 */
#pragma once

#include <glib.h>

#include "gpumem/pool/core/gpu-pool-lock.h"

G_BEGIN_DECLS

typedef struct _GpuPoolStreams GpuPoolStreams;
typedef struct _GpuPoolStream  GpuPoolStream;

/* Operations on the streams of the owner. @key identifies a stream. Keys are compared by address;
 * the pool holds references to them. The operations are called from any thread, without locks of
 * the pool except where noted. */
typedef struct
{
  gpointer (*ref)         (gpointer   key);
  void     (*unref)       (gpointer   key);
  /* Creates a fence after all work submitted to @key so far, and sets @seq to the number of the
   * fence in the order of the stream. Fails with GPU_ERROR_NOT_SUPPORTED if work of the stream is
   * being captured: the pool then uses other memory. Does not block. */
  gboolean (*add_fence)        (gpointer   key,
                                guint64   *seq,
                                GError   **error);
  /* Returns whether @seq, which add_fence() returned, has completed. Does not block. */
  gboolean (*is_reached)  (gpointer   key,
                           guint64    seq);
  /* Orders later work of @key after the fence @seq of the stream @after. Does not block. */
  gboolean (*order_after) (gpointer   key,
                           gpointer   after,
                           guint64    seq,
                           GError   **error);
  /* Blocks until @seq has completed or failed. Returns FALSE if the wait was refused, such as
   * during a capture: work up to @seq may then be pending. */
  gboolean (*wait)        (gpointer   key,
                           guint64    seq);
  /* Returns whether the stream accepts no more work and all its work has completed. */
  gboolean (*is_gone)     (gpointer   key);
  /* Returns whether the pending work of @key completes without an action of the program. Called
   * with locks of the pool held, so the function must be fast. Nullable: the pool then assumes
   * TRUE. */
  gboolean (*is_free)     (gpointer   key);
  /* Returns whether the work of @key is being captured: the stream then neither gets a fence nor a
   * wait. Called with locks of the pool held. Nullable: the pool then assumes FALSE. */
  gboolean (*is_capturing) (gpointer  key);
} GpuPoolStreamOps;

/* A use of memory that may be pending. */
typedef struct
{
  GpuPoolStream *stream;            /* NULL: completed */
  guint64        use_seq;
} GpuPoolUse;

GpuPoolStreams *_gpu_pool_streams_new   (const GpuPoolStreamOps *ops);
void            _gpu_pool_streams_free  (GpuPoolStreams         *streams);
/* Gets the stream for @key, and creates it on first use. The number of streams has no limit.
 * Returns NULL if @key is NULL, which stands for the host. Uses by the host always count as
 * completed. The stream is freed with @streams. After the stream was swept, all its uses count as
 * completed, and it may be reused for another key. */
GpuPoolStream  *_gpu_pool_streams_get   (GpuPoolStreams         *streams,
                                         gpointer                key);
/* Returns the stream with @slot, which is not 0. */
GpuPoolStream  *_gpu_pool_streams_get_at (GpuPoolStreams        *streams,
                                          guint                  slot);
/* Like _gpu_pool_streams_get(), but also pins the stream: it is not swept until it is unpinned. */
GpuPoolStream  *_gpu_pool_streams_get_pinned (GpuPoolStreams         *streams,
                                              gpointer                key);
void            _gpu_pool_stream_unpin  (GpuPoolStream          *stream);
/* Returns (transfer full) the key, or NULL after the stream was swept. */
gpointer        _gpu_pool_stream_ref_key (GpuPoolStream         *stream);
/* Returns (transfer full) the keys of the GpuPoolStream pointers in @streams, except for swept
 * streams. */
GPtrArray      *_gpu_pool_streams_ref_keys (GPtrArray           *streams);
/* Polls all pending fences. Returns TRUE if any fence has completed. */
gboolean        _gpu_pool_streams_poll  (GpuPoolStreams         *streams);
/* Sweeps the streams for which is_gone() is TRUE: counts all uses on such a stream as completed,
 * and drops the stream's key unless another thread has pinned the stream. */
void            _gpu_pool_streams_sweep (GpuPoolStreams         *streams);
/* Returns whether the number of streams has doubled since the last sweep, or a new stream would not
 * fit a node (gpu_pool_stream_fits_node()). */
gboolean        _gpu_pool_streams_want_sweep (GpuPoolStreams    *streams);

/* Returns a small number from 1, unique among current streams, or 0 for the host. */
guint           _gpu_pool_stream_get_slot (GpuPoolStream        *stream);
/* Returns the use sequence to record for a free that happens now, or 0 for the host. May be called
 * from any thread without a lock. */
guint64         _gpu_pool_stream_get_use_seq (GpuPoolStream          *stream);
/* Returns whether the use has completed. Polls existing fences and creates none. */
gboolean        _gpu_pool_use_is_completed (const GpuPoolUse       *use);
/* Creates a fence that covers the use, unless one exists or the use has completed. */
gboolean        _gpu_pool_use_add_fence (const GpuPoolUse       *use,
                                         GError                **error);
/* Orders @stream after the use, and creates a fence if none covers the use. Blocks if @stream is
 * the host. Does nothing if the use has completed or is a use by @stream itself. Returns FALSE
 * without an error if the wait of the host was refused, or if one of the two streams is being
 * captured into a graph. */
gboolean        _gpu_pool_use_follow    (const GpuPoolUse       *use,
                                         GpuPoolStream          *stream,
                                         gboolean               *waited,
                                         GError                **error);
/* Returns whether @stream is ordered after the use: the use is by @stream itself, or
 * _gpu_pool_use_follow() has ordered @stream after it. */
gboolean        _gpu_pool_use_is_followed (const GpuPoolUse      *use,
                                           GpuPoolStream         *stream);

/* --- inside the core ------------------------------------------------------------------- */

/* Fences kept per stream. */
#define GPU_POOL_MAX_FENCES 8

/* Maximum number of streams that allocate from a GpuPool at the same time: a node has 16 bits for
 * the slot of a stream. */
#define GPU_POOL_MAX_STREAMS 65535

typedef struct
{
  guint64 use_seq;                  /* the fence covers this use sequence and all earlier ones */
  guint64 seq;                      /* the number that add_fence() returned */
} GpuPoolFence;

/* A stream, as the pools know it. A stream is swept, which drops its key, after all its uses have
 * completed. The structure is only freed with its GpuPoolStreams, so a pointer to a swept stream
 * remains valid. */
struct _GpuPoolStream
{
  guint64         use_seq;          /* atomic; from 1, as 0 means completed */
  guint64         reached;          /* atomic: sequences up to here have completed */
  guint           slot;             /* from 1 */
  guint           n_pins;           /* the lock guards this member and all below */
  gpointer        key;              /* NULL: swept */
  GpuPoolStreams *streams;
  GpuPoolFence    fences[GPU_POOL_MAX_FENCES];    /* in order of use_seq */
  guint           n_fences;
  GArray         *followed;         /* of guint64, by slot: for each other stream, the use sequence
                                     * up to which this stream is ordered after it */
};

struct _GpuPoolStreams
{
  GpuPoolStreamOps ops;
  GpuPoolLock      lock;
  GHashTable      *by_key;
  GPtrArray       *by_slot;         /* by slot - 1; including swept streams */
  guint            n_fences;        /* atomic: pending fences of all streams */
  guint            n_swept;         /* streams that remained after the last sweep */
};

/* Returns the key, or NULL after the stream was swept. */
gpointer _gpu_pool_stream_get_key (GpuPoolStream *stream);
/* Calls GpuPoolStreamOps.is_free(). */
gboolean _gpu_pool_stream_is_free (GpuPoolStream *stream);
/* Calls GpuPoolStreamOps.is_capturing(). @stream is nullable. */
gboolean _gpu_pool_stream_is_capturing (GpuPoolStream *stream);

/* Returns whether a node can store the slot of @stream, which is nullable. */
static inline gboolean
gpu_pool_stream_fits_node (const GpuPoolStream *stream)
{
  return stream == NULL || stream->slot <= GPU_POOL_MAX_STREAMS;
}

static inline guint64
gpu_pool_stream_load_use_seq (GpuPoolStream *stream)
{
  return __atomic_load_n (&stream->use_seq, __ATOMIC_ACQUIRE);
}

static inline gboolean
gpu_pool_stream_has_reached (GpuPoolStream *stream,
                             guint64        use_seq)
{
  return use_seq <= __atomic_load_n (&stream->reached, __ATOMIC_ACQUIRE);
}

G_END_DECLS
