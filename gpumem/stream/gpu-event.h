/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#if !defined (__GPUMEM_INSIDE__) && !defined (GPUMEM_COMPILATION)
#error "Only <gpumem/gpumem.h> can be included directly."
#endif

#include <gpumem/base/gpu-types.h>

G_BEGIN_DECLS

#define GPU_TYPE_EVENT (gpu_event_get_type ())

GPU_AVAILABLE_IN_0_1
G_DECLARE_FINAL_TYPE (GpuEvent, gpu_event, GPU, EVENT, GObject)

GPU_AVAILABLE_IN_0_1
GpuEvent       *gpu_event_new_user           (GpuContext           *context,
                                              GError              **error);
GPU_AVAILABLE_IN_0_1
GpuEvent       *gpu_event_new_from_handle    (GpuContext           *context,
                                              GBytes               *handle,
                                              GError              **error);
GPU_AVAILABLE_IN_0_1
GpuEvent       *gpu_event_new_wrapped        (GpuContext           *context,
                                              guint64               handle,
                                              GpuWrapMode           mode,
                                              GError              **error);
GPU_AVAILABLE_IN_0_1
GBytes         *gpu_event_export_handle      (GpuEvent             *event,
                                              GError              **error);
GPU_AVAILABLE_IN_0_1
gboolean        gpu_event_complete           (GpuEvent             *event,
                                              GError              **error);
GPU_AVAILABLE_IN_0_1
gboolean        gpu_event_fail               (GpuEvent             *event,
                                              const char           *message,
                                              GError              **error);
GPU_AVAILABLE_IN_0_1
GpuEventStatus  gpu_event_query              (GpuEvent             *event,
                                              GError              **error);
GPU_AVAILABLE_IN_0_1
gboolean        gpu_event_wait               (GpuEvent             *event,
                                              GCancellable         *cancellable,
                                              GError              **error);
GPU_AVAILABLE_IN_0_1
gboolean        gpu_event_wait_timeout       (GpuEvent             *event,
                                              gint64                timeout_usec,
                                              GCancellable         *cancellable,
                                              GError              **error);
GPU_AVAILABLE_IN_0_1
GpuEventStatus  gpu_event_poll               (GpuEvent             *event,
                                              gint64                timeout_usec,
                                              GCancellable         *cancellable,
                                              GError              **error);
GPU_AVAILABLE_IN_0_1
gboolean        gpu_event_wait_all           (GpuEvent            **events,
                                              gsize                 n_events,
                                              GCancellable         *cancellable,
                                              GError              **error);
GPU_AVAILABLE_IN_0_1
void            gpu_event_wait_async         (GpuEvent             *event,
                                              GCancellable         *cancellable,
                                              GAsyncReadyCallback   callback,
                                              gpointer              user_data);
GPU_AVAILABLE_IN_0_1
gboolean        gpu_event_wait_finish        (GpuEvent             *event,
                                              GAsyncResult         *result,
                                              GError              **error);
GPU_AVAILABLE_IN_0_1
gboolean        gpu_event_watch              (GpuEvent             *event,
                                              GError              **error);
GPU_AVAILABLE_IN_0_1
gboolean        gpu_event_get_elapsed        (GpuEvent             *event,
                                              GpuEvent             *since,
                                              gint64               *nanoseconds,
                                              GError              **error);
GPU_AVAILABLE_IN_0_1
gboolean        gpu_event_get_duration       (GpuEvent             *event,
                                              guint64              *nanoseconds,
                                              GError              **error);
GPU_AVAILABLE_IN_0_1
gboolean        gpu_event_get_profiling_time (GpuEvent             *event,
                                              GpuProfilingPoint     point,
                                              guint64              *nanoseconds,
                                              GError              **error);

G_END_DECLS
