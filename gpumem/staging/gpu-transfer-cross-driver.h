/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Copies between memory of two drivers, or of two contexts that their driver keeps apart: in chunks
 * by way of memory of the host, with commands in a stream on either side.
 *
 * All commands are in the streams when _gpu_cross_driver_submit() returns. Each waits at most for
 * host waits that a thread signals once a command of the other stream is over, which was submitted
 * before, or will be to another driver.
 */
#pragma once

#include "gpumem/backend/gpu-backend.h"

G_BEGIN_DECLS

typedef struct _GpuCrossDriver GpuCrossDriver;

/* The two sides, as indices. */
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
  /* Why work in the stream of @side fails, nullable; knows it before the driver tells. */
  GError *     (*explain) (gpointer data, guint side);
  /* Called by a thread when both streams are through with the copy. */
  void         (*end)     (gpointer data);
  gpointer       data;
} GpuCrossDriverCopy;

/* NULL, with a @reason, if the streams cannot do it by themselves. Called without any lock; what it
 * gives must be submitted or given up. */
GpuCrossDriver *_gpu_cross_driver_begin (const GpuCrossDriverCopy *copy,
                                         const char              **reason);
/* A stream op of those of @streams that @sides has a bit for, of @memories as they are now: once
 * for both, or once for each. With @retain_waits the events of waits are kept as long as the copy
 * is. When it fails, @failed becomes the side that did. */
gboolean   _gpu_cross_driver_submit (GpuCrossDriver          *cross,
                                     GpuNativeMemory *const  *memories,
                                     GpuNativeStream *const  *streams,
                                     guint                    sides,
                                     gboolean                 retain_waits,
                                     guint                   *failed,
                                     GError                 **error);
/* (transfer full): of the last command of @side. */
GpuNativeEvent *
           _gpu_cross_driver_get_event (GpuCrossDriver          *cross,
                                        guint                    side);
/* Instead of a submission, or after one that came to nothing. */
void       _gpu_cross_driver_abandon (GpuCrossDriver      *cross);
/* As _gpu_transfer_check(), but for a failure of commands in a stream of @known, nullable. */
gboolean   _gpu_cross_driver_check (GpuCrossDriver          *cross,
                                    const GpuNativeContext  *known,
                                    GError                 **error);
/* Whether it is done, or known to have failed. */
gboolean   _gpu_cross_driver_is_complete (GpuCrossDriver  *cross);
GpuCrossDriver *_gpu_cross_driver_ref (GpuCrossDriver     *cross);
void       _gpu_cross_driver_unref (GpuCrossDriver        *cross);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (GpuCrossDriver, _gpu_cross_driver_unref)

G_END_DECLS
