/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Streams as a pool sees them, and when memory that was given back on one may be used on another.
 *
 * Every giving back is stamped with a number of its stream, which costs no call of anybody. A mark
 * is what the stream really reached: it is made only when another stream wants the memory, and it
 * covers all stamps before it. Also work that others put into the stream behind the library's back
 * is before the mark.
 *
 * Stamps are epochs: the number of marks that a stream had when the memory was given back. So
 * taking one is a load. A mark counts up first and marks then; whoever still read the old number
 * had put his work into the stream before, as the stream orders both by a lock of its own.
 */
#pragma once

#include <glib.h>

#include "gpumem/pool/core/gpu-pool-lock.h"

G_BEGIN_DECLS

typedef struct _GpuPoolStreams GpuPoolStreams;
typedef struct _GpuPoolStream  GpuPoolStream;

/* How a pool asks about streams. @key is what the owner of the pool calls a stream: compared by
 * address, and kept with references. Called with no lock of the pool; from any thread. */
typedef struct
{
  gpointer (*ref)         (gpointer   key);
  void     (*unref)       (gpointer   key);
  /* All that was submitted so far is before @seq. Does not block. */
  gboolean (*add_fence)        (gpointer   key,
                                guint64   *seq,
                                GError   **error);
  /* Whether @seq, of a mark, is over. Does not block. */
  gboolean (*is_reached)  (gpointer   key,
                           guint64    seq);
  /* What is submitted to @key later waits for @seq of @after. Does not block. */
  gboolean (*order_after) (gpointer   key,
                           gpointer   after,
                           guint64    seq,
                           GError   **error);
  /* Blocks until @seq is over; well or badly, it is over. */
  void     (*wait)        (gpointer   key,
                           guint64    seq);
  /* Whether nobody can submit to @key any more and all of it is over. */
  gboolean (*is_gone)     (gpointer   key);
  /* Whether all of it ends without the program doing anything more for that. Quick: it is called
   * with locks of the pool. NULL: it does. */
  gboolean (*is_free)     (gpointer   key);
} GpuPoolStreamOps;

/* A use of memory that may not be over. */
typedef struct
{
  GpuPoolStream *stream;            /* NULL: over */
  guint64        use_seq;
} GpuPoolUse;

GpuPoolStreams *_gpu_pool_streams_new   (const GpuPoolStreamOps *ops);
void            _gpu_pool_streams_free  (GpuPoolStreams         *streams);
/* The one for @key, made when it is first asked for. @key NULL is the host, for which NULL stands:
 * what it gives back nobody uses any more, and what it takes is over. The structure lives as long
 * as @streams; once it was swept its uses are over, and it may come back for another key. */
GpuPoolStream  *_gpu_pool_streams_get   (GpuPoolStreams         *streams,
                                         gpointer                key);
/* The same, and it is not swept before it is unpinned. */
GpuPoolStream  *_gpu_pool_streams_get_pinned (GpuPoolStreams         *streams,
                                              gpointer                key);
void            _gpu_pool_stream_unpin  (GpuPoolStream          *stream);
/* Its key with a reference; NULL once it was swept. */
gpointer        _gpu_pool_stream_ref_key (GpuPoolStream         *stream);
/* (transfer full): the keys of those of @streams, of GpuPoolStream, that were not swept. */
GPtrArray      *_gpu_pool_streams_ref_keys (GPtrArray           *streams);
/* Asks about all marks that are not reached yet; TRUE if one has become so. */
gboolean        _gpu_pool_streams_poll  (GpuPoolStreams         *streams);
/* All uses of streams that are gone are over; those that nobody has pinned are forgotten. */
void            _gpu_pool_streams_sweep (GpuPoolStreams         *streams);
/* Whether there are so many more streams than after the last sweep that it is worth one. */
gboolean        _gpu_pool_streams_want_sweep (GpuPoolStreams    *streams);

/* From 1, small, another one for each stream there is at a time; 0 for the host. */
guint           _gpu_pool_stream_get_slot (GpuPoolStream        *stream);
/* The stamp of what is given back now, 0 for the host. Any thread, without a lock. */
guint64         _gpu_pool_stream_get_use_seq (GpuPoolStream          *stream);
/* Whether the use is over, by what marks have shown so far; asks about them, makes none. */
gboolean        _gpu_pool_use_is_completed (const GpuPoolUse       *use);
/* Makes a mark that covers the use, unless one does or it is over. */
gboolean        _gpu_pool_use_add_fence (const GpuPoolUse       *use,
                                         GError                **error);
/* Makes @stream wait for the use, by a mark if none covers it; blocks instead where @stream is the
 * host. Nothing is done where it is over, or of @stream itself. */
gboolean        _gpu_pool_use_follow    (const GpuPoolUse       *use,
                                         GpuPoolStream          *stream,
                                         gboolean               *waited,
                                         GError                **error);

/* --- inside the core: streams are cheap to look at -------------------------------------- */

/* More marks of one stream than these are not worth asking about: the older ones are forgotten. */
#define GPU_POOL_MAX_FENCES 8

/* That are there at a time: slots have 16 bits in a node. */
#define GPU_POOL_MAX_STREAMS 65535

typedef struct
{
  guint64 use_seq;                  /* it covers this one and all before */
  guint64 seq;
} GpuPoolFence;

/* Never freed before its streams: who still holds one that was swept finds all its uses over. */
struct _GpuPoolStream
{
  guint64         use_seq;          /* atomic; from 1, as 0 is over */
  guint64         reached;          /* atomic: stamps up to here are over */
  guint           slot;             /* from 1 */
  guint           n_pins;           /* guarded by the lock, as all below */
  gpointer        key;              /* NULL: swept */
  GpuPoolStreams *streams;
  GpuPoolFence    fences[GPU_POOL_MAX_FENCES];    /* by stamp */
  guint           n_fences;
  GArray         *followed;         /* of guint64, by slot: what of others it waits for */
};

struct _GpuPoolStreams
{
  GpuPoolStreamOps ops;
  GpuPoolLock      lock;
  GHashTable      *by_key;
  GPtrArray       *by_slot;         /* slot - 1; also those that were swept */
  guint            n_fences;        /* atomic: of all streams, that are not reached */
  guint            n_swept;         /* streams there were after the last sweep */
};

/* NULL once it was swept. */
gpointer _gpu_pool_stream_get_key (GpuPoolStream *stream);
/* GpuPoolStreamOps.is_free() */
gboolean _gpu_pool_stream_is_free (GpuPoolStream *stream);

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
