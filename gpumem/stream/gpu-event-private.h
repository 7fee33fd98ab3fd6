/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "gpumem/timeline/gpu-timeline-private.h"
#include "gpumem/timeline/gpu-user-event-private.h"

G_BEGIN_DECLS

GpuEvent       *_gpu_event_new_for_point (GpuContext      *context,
                                          GpuTimeline     *timeline,
                                          guint64          seq,
                                          GpuNativeEvent  *timed);
/* What gpu_event_export_handle() exports, and when the operation of @event began; nullable. */
void            _gpu_event_set_shared    (GpuEvent        *event,
                                          GpuNativeEvent  *shared);
void            _gpu_event_set_start     (GpuEvent        *event,
                                          GpuNativeEvent  *start);
/* (transfer none) (nullable) */
GpuNativeEvent *_gpu_event_get_shared    (GpuEvent        *event);
GpuNativeEvent *_gpu_event_get_timed     (GpuEvent        *event);
/* FALSE if @event was never initialised. */
gboolean        _gpu_event_check         (GpuEvent        *event,
                                          const char      *function,
                                          GError         **error);
/* NULL for an event of a stream. */
GpuUserEvent   *_gpu_event_get_user      (GpuEvent        *event);
const GpuPoint *_gpu_event_get_point     (GpuEvent        *event);

/* Returns @task once the point is reached, or once its cancellable is cancelled: with @result,
 * which it takes over, or with TRUE if that is NULL. */
void            _gpu_timeline_return_task   (GpuTimeline     *timeline,
                                             guint64          seq,
                                             GTask           *task,
                                             gpointer         result,
                                             GDestroyNotify   result_free);
void            _gpu_user_event_return_task (GpuUserEvent    *event,
                                             GTask           *task);

G_END_DECLS
