/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Copies between memory of two drivers, or of two contexts of a driver that cannot copy between
 * contexts. Chunks are copied through host memory, by commands in two streams: one stream of the
 * source's context and one stream of the destination's context.
 *
 * All commands are in the streams when _gpu_cross_driver_submit() returns. Apart from earlier work
 * of its stream, a command waits only for host-signalled waits. A thread signals such a wait once a
 * command of the other stream has completed. This cannot deadlock: that command was submitted
 * earlier, or to a different driver.
 */
#pragma once

#include "gpumem/backend/gpu-backend.h"

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

typedef struct
{
  GpuCrossDriverSide sides[2];
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
GpuCrossDriver *_gpu_cross_driver_ref (GpuCrossDriver     *cross);
void       _gpu_cross_driver_unref (GpuCrossDriver        *cross);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (GpuCrossDriver, _gpu_cross_driver_unref)

G_END_DECLS
