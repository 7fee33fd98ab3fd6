/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "gpumem/timeline/gpu-timeline-private.h"
#include "gpumem/timeline/gpu-user-event-private.h"

G_BEGIN_DECLS

GpuContext *_gpu_event_get_context (GpuEvent *event);

GpuEvent       *_gpu_event_new_for_point (GpuContext      *context,
                                          GpuTimeline     *timeline,
                                          guint64          seq,
                                          GpuNativeEvent  *timed);
/* An event that completes with the point @last, and fails if any point from @first to @last
 * fails. */
GpuEvent       *_gpu_event_new_for_points (GpuContext     *context,
                                           GpuTimeline    *timeline,
                                           guint64         first,
                                           guint64         last);
/* The first function sets the event that records the times of the last operation before an event
 * with a time of its own. The second sets the event for gpu_event_export_handle(), the third sets
 * the event that records the start of the operation. All these events are nullable. */
void            _gpu_event_set_operation (GpuEvent        *event,
                                          GpuNativeEvent  *operation);
void            _gpu_event_set_shared    (GpuEvent        *event,
                                          GpuNativeEvent  *shared);
void            _gpu_event_set_start     (GpuEvent        *event,
                                          GpuNativeEvent  *start);
/* Sets the event of gpu_event_new_wrapped(). */
void            _gpu_event_set_wrapped   (GpuEvent        *event,
                                          GpuNativeEvent  *wrapped);
/* (transfer none) (nullable) */
GpuNativeEvent *_gpu_event_get_wrapped   (GpuEvent        *event);
/* (transfer none) (nullable): the event of _gpu_event_set_shared(), and the event that records the
 * times. */
GpuNativeEvent *_gpu_event_get_shared    (GpuEvent        *event);
GpuNativeEvent *_gpu_event_get_timed     (GpuEvent        *event);
/* Returns FALSE with an error if @event was never initialised. */
gboolean        _gpu_event_check         (GpuEvent        *event,
                                          const char      *function,
                                          GError         **error);
/* Returns NULL for an event of a stream. */
GpuUserEvent   *_gpu_event_get_user      (GpuEvent        *event);
const GpuPoint *_gpu_event_get_point     (GpuEvent        *event);
/* Returns whether the driver of @context can wait for @event. Otherwise, streams wait for
 * _gpu_event_mirror(). */
gboolean        _gpu_event_can_wait      (GpuEvent          *event,
                                          GpuNativeContext  *context);
/* Returns a user event of @context that completes or fails soon after @event. Fails if @context has
 * no user events, or if no thread can be started. */
GpuUserEvent   *_gpu_event_mirror        (GpuEvent          *event,
                                          GpuNativeContext  *context,
                                          GError           **error);
/* Makes @timeline wait for @point, but not fail with that work. Both are of the same context. */
gboolean        _gpu_timeline_follow_end (GpuTimeline       *timeline,
                                          const GpuPoint    *point,
                                          const char        *function,
                                          GError           **error);

G_END_DECLS
