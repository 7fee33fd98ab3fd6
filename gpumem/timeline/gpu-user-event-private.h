/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The core of an event that the program completes itself. */
#pragma once

#include "gpumem/timeline/gpu-timeline-private.h"

G_BEGIN_DECLS

/* Atomic; the number of user events of the process that have failed. */
extern guint _gpu_user_events_failed;

struct _GpuUserEvent
{
  gatomicrefcount   refs;
  GpuNativeContext *context;
  GMutex            lock;           /* guards the fields below */
  GpuEventStatus    status;
  GError           *error;          /* set if `status` is GPU_EVENT_STATUS_FAILED */
  GpuNativeEvent   *event;          /* created when the first stream waits */
  GQueue            waiters;        /* of GpuUserWaiter */
};

GpuUserEvent   *_gpu_user_event_new        (GpuNativeContext  *context);
GpuUserEvent   *_gpu_user_event_ref        (GpuUserEvent      *event);
void            _gpu_user_event_unref      (GpuUserEvent      *event);
/* Returns the status. Sets @failure if the event has failed. */
GpuEventStatus  _gpu_user_event_query      (GpuUserEvent      *event,
                                            GError           **failure);
/* Completes the event, or fails it if @failure is not NULL. Returns FALSE if the event had already
 * completed or failed, or with the driver's error. */
gboolean        _gpu_user_event_set        (GpuUserEvent      *event,
                                            const GError      *failure,
                                            GError           **error);
/* Gets the driver's event, for which streams wait. Sets @native to NULL, without an error, if the
 * event has completed. Returns FALSE with the error of the event if it has failed. */
gboolean        _gpu_user_event_get_native (GpuUserEvent      *event,
                                            GpuNativeEvent   **native,
                                            GError           **error);
void            _gpu_user_event_notify     (GpuUserEvent      *event,
                                            GpuWaiterFunc      func,
                                            gpointer           data);
gboolean        _gpu_user_event_wait_until (GpuUserEvent      *event,
                                            gint64             deadline,
                                            GCancellable      *cancellable,
                                            GError           **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (GpuUserEvent, _gpu_user_event_unref)

/* Like _gpu_timeline_return_task() */
void            _gpu_user_event_return_task (GpuUserEvent    *event,
                                             GTask           *task);

G_END_DECLS
