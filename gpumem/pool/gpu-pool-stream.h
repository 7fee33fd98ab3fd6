/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Streams as a pool sees them, and when memory that was given back on one may be used on another.
 *
 * Every giving back is stamped with a number of its stream, which costs no call of anybody. A mark
 * is what the stream really reached: it is made only when another stream wants the memory, and it
 * covers all stamps before it. Also work that others put into the stream behind the library's back
 * is before the mark.
 */
#pragma once

#include <glib.h>

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
  gboolean (*mark)        (gpointer   key,
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
} GpuPoolStreamOps;

/* A use of memory that may not be over. */
typedef struct
{
  GpuPoolStream *stream;            /* NULL: over */
  guint64        stamp;
} GpuPoolUse;

GpuPoolStreams *_gpu_pool_streams_new   (const GpuPoolStreamOps *ops);
void            _gpu_pool_streams_free  (GpuPoolStreams         *streams);
/* The one for @key, made when it is first asked for; lives as long as @streams unless it is swept.
 * @key NULL is the host: what it gives back nobody uses any more, and what it takes is over. */
GpuPoolStream  *_gpu_pool_streams_get   (GpuPoolStreams         *streams,
                                         gpointer                key);
/* Forgets streams that are gone and that no use names (@uses counts them). */
void            _gpu_pool_streams_sweep (GpuPoolStreams         *streams);

/* The stamp of what is given back now. Any thread, without a lock. */
guint64         _gpu_pool_stream_stamp  (GpuPoolStream          *stream);
/* Whether the use is over, by what marks have shown so far; asks about them, makes none. */
gboolean        _gpu_pool_use_is_over   (const GpuPoolUse       *use);
/* Makes @stream wait for the use, by a mark if none covers it; blocks instead where @stream is the
 * host. Nothing is done where it is over, or of @stream itself. */
gboolean        _gpu_pool_use_follow    (const GpuPoolUse       *use,
                                         GpuPoolStream          *stream,
                                         gboolean               *waited,
                                         GError                **error);

G_END_DECLS
