/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "gpumem/host/gpu-host.h"

G_BEGIN_DECLS

struct _GpuHostEpoch
{
  GpuHostEpoch   *next;
  gsize           n_running;        /* operations of this epoch on the pool */
  GpuHostEvent   *event;            /* what ends it; NULL while it goes on */
  GpuHostFailure *failure;
};

struct _GpuHostStream
{
  GpuNativeStream   parent;
  gatomicrefcount   refs;           /* of the front, the thread, the pool and events */
  GpuStreamFlags    flags;

  GMutex            lock;           /* guards what follows */
  GCond             cond;           /* the thread's */
  gboolean          sleeping;
  gint              stopped;        /* atomic; written under lock */
  GThread          *thread;         /* NULL before the first operation */
  GpuHostOperation *head;
  GpuHostOperation *tail;
  guint64           submitted;
  gsize             n_running;      /* operations on the pool */
  GpuHostEpoch     *epochs;         /* the oldest that is not over, out of order only */
  GpuHostEpoch     *epoch;          /* the newest */

  /* The thread's own. */
  GpuHostFailure   *failure;
  guint64           failed;         /* the last operation that failed by it */
  guint64           failed_until;   /* all up to here fail by it */
  guint32           random;
};

/* Whether work may overtake other work. */
static inline gboolean
stream_is_out_of_order (const GpuHostStream *stream)
{
  return (stream->flags & GPU_STREAM_FLAGS_OUT_OF_ORDER) != 0;
}

void     _gpu_host_operation_free         (GpuHostOperation *operation);
/* Wakes the thread, at most once for each time it goes to sleep. The signal comes after the lock
 * is free again, so that the thread does not wake just to wait for it. */
void     _gpu_host_stream_unlock_and_wake (GpuHostStream    *stream);
/* What the thread of a stream runs; it owns a reference on the stream, @data. */
gpointer _gpu_host_stream_thread          (gpointer          data);

G_END_DECLS
