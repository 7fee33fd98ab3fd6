/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Copies between memory of two drivers, or of two contexts of a driver that cannot copy between
 * contexts, or between memory and a file. Chunks are copied through host memory, by commands in two
 * streams: one stream of the source's context and one stream of the destination's context. A file
 * takes the place of one of the streams: threads read it or write it.
 *
 * All commands are in the streams when _gpu_cross_driver_submit() returns. Apart from earlier work
 * of its stream, a command waits only for host-signalled waits. A thread signals such a wait once a
 * command of the other stream has completed. This cannot deadlock: that command was submitted
 * earlier, or to a different driver.
 */
#pragma once

#include "gpumem/backend/gpu-backend.h"
#include "gpumem/base/gpu-progress-private.h"
#include "gpumem/staging/gpu-transfer-file.h"

G_BEGIN_DECLS

typedef struct _GpuCrossDriver GpuCrossDriver;

/* The two sides of a copy, source and destination, as indices. */
enum
{
  GPU_CROSS_DRIVER_FROM,
  GPU_CROSS_DRIVER_TO
};

typedef struct
{
  GpuNativeContext *context;
  gsize             offset;         /* bytes */
} GpuCrossDriverSide;

/* A thread that drives the copies between files and one stream, one after the other. */
typedef struct _GpuTransferQueue GpuTransferQueue;

/* The file that takes the place of the memory and the stream of one side. That side has no
 * context. */
typedef struct
{
  GpuTransferFile  *file;           /* NULL for a copy between two drivers */
  const char       *function;       /* for errors */
  guint64           position;       /* of the first byte in the file */
  gboolean          is_direct;      /* the host can access the memory of the other side: the copy
                                     * needs no page-locked memory, and no commands but waits */
  GpuTransferQueue *queue;          /* of the stream */
  gconstpointer     order;          /* identifies the stream */
  GpuProgress      *progress;       /* nullable */
  GCancellable     *cancellable;    /* nullable */
} GpuCrossDriverFile;

typedef struct
{
  GpuCrossDriverSide sides[2];
  GpuCrossDriverFile file;
  gsize          size;              /* bytes, not 0 */
  guint          user;              /* the side of the user's stream */
  /* Returns the cause of failures in the stream of @side, NULL if none is known. The cause may be
   * known before the driver reports a failure. */
  GError *     (*explain) (gpointer data, guint side);
  /* Called by a thread when both streams have completed the copy. */
  void         (*end)     (gpointer data);
  gpointer       data;
} GpuCrossDriverCopy;

/* Returns NULL, with a @reason, if the streams cannot execute the copy. Caller holds no lock. The
 * result must be submitted or abandoned. */
GpuCrossDriver *_gpu_cross_driver_begin (const GpuCrossDriverCopy *copy,
                                         const char              **reason);
/* Submits the commands of the sides that are selected by the bits of @sides. Called once for both
 * sides, or once for each side. @memories are the current native memories. With @retain_waits, the
 * events of waits are retained as long as the copy. On failure, sets @failed to the side that
 * failed. */
gboolean   _gpu_cross_driver_submit (GpuCrossDriver          *cross,
                                     GpuNativeMemory *const  *memories,
                                     GpuNativeStream *const  *streams,
                                     guint                    sides,
                                     gboolean                 retain_waits,
                                     guint                   *failed,
                                     GError                 **error);
/* (transfer full): gets the event of the last command of @side. */
GpuNativeEvent *
           _gpu_cross_driver_get_event (GpuCrossDriver          *cross,
                                        guint                    side);
/* Called instead of a submission, or after a submission that failed. */
void       _gpu_cross_driver_abandon (GpuCrossDriver      *cross);
/* Like _gpu_transfer_check(), but ignores failures of commands in the stream of the context @known,
 * which is nullable. */
gboolean   _gpu_cross_driver_check (GpuCrossDriver          *cross,
                                    const GpuNativeContext  *known,
                                    GError                 **error);
/* Returns %GPU_EVENT_STATUS_FAILED with the error if the copy has failed, or will fail because of a
 * user event. A copy that was not submitted as a whole counts as complete, because its caller has
 * got the error. */
GpuEventStatus
           _gpu_cross_driver_query (GpuCrossDriver  *cross,
                                    GError         **error);

/* gpu-transfer-cross-file.c: copies between a file and memory, in the order of a stream. */
GpuTransferQueue *
           _gpu_transfer_queue_new   (void);
GpuTransferQueue *
           _gpu_transfer_queue_ref   (GpuTransferQueue       *queue);
void       _gpu_transfer_queue_unref (GpuTransferQueue       *queue);
/* Like _gpu_cross_driver_begin(), for a copy with a file. Blocks only while another thread begins
 * or submits a copy of the same stream. Copies of one stream share page-locked memory, so their
 * number is not limited. */
GpuCrossDriver *
           _gpu_cross_file_begin     (const GpuCrossDriverCopy *copy,
                                      const char              **reason);
/* Submits the commands, like a stream op of a back end. Copies of one stream are submitted in its
 * order. If one of the copies in @earlier fails, or if @failure is not NULL, the copy fails in its
 * turn, and does not access the file. Takes ownership of @earlier and @failure, which are
 * nullable. Sets @event to a new reference to an event that covers the copy and all earlier work of
 * the stream. */
gboolean   _gpu_cross_file_submit    (GpuCrossDriver         *cross,
                                      GpuNativeMemory        *memory,
                                      GpuNativeStream        *stream,
                                      gboolean                retain_waits,
                                      GPtrArray              *earlier,
                                      GError                 *failure,
                                      GpuNativeEvent        **event,
                                      GError                **error);
/* Called instead of a submission. */
void       _gpu_cross_file_abandon   (GpuCrossDriver         *cross);
/* Cancels the copy, unless it has failed or ended. Later work of the stream does not get the error
 * of the cancellation. Calls @func once, on any thread and without locks, when the library no
 * longer uses the file. Then _gpu_cross_file_get_failure() returns the position. */
void       _gpu_cross_file_cancel    (GpuCrossDriver         *cross,
                                      GDestroyNotify          func,
                                      gpointer                data);
/* (transfer full) (nullable): gets the failure of the copy, or the error that stopped the use of
 * the file. */
GError    *_gpu_cross_file_get_failure (GpuCrossDriver       *cross);
/* Returns whether @cross is a copy with a file whose commands were all submitted. When it ends, it
 * has failed if any earlier copy of its stream has failed. */
gboolean   _gpu_cross_file_is_whole  (GpuCrossDriver         *cross);

GpuCrossDriver *_gpu_cross_driver_ref (GpuCrossDriver     *cross);
void       _gpu_cross_driver_unref (GpuCrossDriver        *cross);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (GpuCrossDriver, _gpu_cross_driver_unref)

G_END_DECLS
