/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "gpumem/host/gpu-host.h"

G_BEGIN_DECLS

struct _GpuHostEpoch
{
  GpuHostEpoch   *next;
  gsize           n_running;        /* incomplete operations of this epoch that were passed to the
                                     * thread pool */
  GpuHostEvent   *event;            /* of the record that ended the epoch; NULL until then */
  GpuHostFailure *failure;
};

struct _GpuHostStream
{
  GpuNativeStream   parent;
  gatomicrefcount   refs;           /* held by the GpuStream, the thread, events, and operations on
                                     * the thread pool */
  GpuStreamFlags    flags;

  GMutex            lock;           /* protects the fields up to epoch */
  GCond             cond;           /* wakes the thread */
  gboolean          sleeping;
  gint              stopped;        /* atomic; written under lock */
  GThread          *thread;         /* NULL before the first operation */
  GpuHostOperation *head;
  GpuHostOperation *tail;
  guint64           submitted;
  gsize             n_running;      /* incomplete operations that were passed to the thread pool */
  GpuHostEpoch     *epochs;         /* list from the oldest incomplete epoch; NULL if in order */
  GpuHostEpoch     *epoch;          /* the newest */

  /* Used by the stream's thread only. */
  GpuHostFailure   *failure;
  guint64           failed;         /* the last operation that failed with `failure` */
  guint64           failed_until;   /* all operations up to this one fail with `failure` */
  guint32           random;
};

/* Returns whether operations may run in another order than they were submitted in. */
static inline gboolean
stream_is_out_of_order (const GpuHostStream *stream)
{
  return (stream->flags & GPU_STREAM_FLAGS_OUT_OF_ORDER) != 0;
}

void     _gpu_host_operation_free         (GpuHostOperation *operation);
/* Unlocks the stream, and then wakes its thread, so that the thread does not wake only to block on
 * the lock. Sends at most one signal while the thread sleeps. */
void     _gpu_host_stream_unlock_and_wake (GpuHostStream    *stream);
/* The main function of a stream's thread. Owns a reference on the stream, @data. */
gpointer _gpu_host_stream_thread          (gpointer          data);

G_END_DECLS
