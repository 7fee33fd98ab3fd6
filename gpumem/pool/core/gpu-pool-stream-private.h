/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Stamps are epochs: the number of marks that a stream had when the memory was given back. So
 * taking one is a load. A mark counts up first and marks then; whoever still read the old number
 * had put his work into the stream before, as the stream orders both by a lock of its own.
 */
#pragma once

#include "gpumem/pool/core/gpu-pool-lock.h"
#include "gpumem/pool/core/gpu-pool-stream.h"

G_BEGIN_DECLS

/* More marks of one stream than these are not worth asking about: the older ones are forgotten. */
#define GPU_POOL_MAX_MARKS 8

/* That are there at a time: slots have 16 bits in a node. */
#define GPU_POOL_MAX_STREAMS 65535

typedef struct
{
  guint64 stamp;                    /* it covers this one and all before */
  guint64 seq;
} GpuPoolMark;

/* Never freed before its streams: who still holds one that was swept finds all its uses over. */
struct _GpuPoolStream
{
  guint64         stamp;            /* atomic; from 1, as 0 is over */
  guint64         reached;          /* atomic: stamps up to here are over */
  guint           slot;             /* from 1 */
  guint           n_pins;           /* guarded by the lock, as all below */
  gpointer        key;              /* NULL: swept */
  GpuPoolStreams *streams;
  GpuPoolMark     marks[GPU_POOL_MAX_MARKS];    /* by stamp */
  guint           n_marks;
  GArray         *followed;         /* of guint64, by slot: what of others it waits for */
};

struct _GpuPoolStreams
{
  GpuPoolStreamOps ops;
  GpuPoolLock      lock;
  GHashTable      *by_key;
  GPtrArray       *by_slot;         /* slot - 1; also those that were swept */
  guint            n_marks;         /* atomic: of all streams, that are not reached */
  guint            n_swept;         /* streams there were after the last sweep */
};

/* NULL once it was swept. */
gpointer _gpu_pool_stream_get_key (GpuPoolStream *stream);
/* GpuPoolStreamOps.is_free() */
gboolean _gpu_pool_stream_is_free (GpuPoolStream *stream);

static inline guint64
gpu_pool_stream_load_stamp (GpuPoolStream *stream)
{
  return __atomic_load_n (&stream->stamp, __ATOMIC_ACQUIRE);
}

static inline gboolean
gpu_pool_stream_has_reached (GpuPoolStream *stream,
                             guint64        stamp)
{
  return stamp <= __atomic_load_n (&stream->reached, __ATOMIC_ACQUIRE);
}

G_END_DECLS
