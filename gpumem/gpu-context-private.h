/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "gpumem/gpu-timeline-private.h"

G_BEGIN_DECLS

/* NULL for a context that was never initialised. */
GpuNativeContext *_gpu_context_get_native           (GpuContext        *context);
/* FALSE if @context was never initialised or is lost. */
gboolean          _gpu_context_check                (GpuContext        *context,
                                                     const char        *function,
                                                     GError           **error);
gboolean          _gpu_native_context_check         (GpuNativeContext  *context,
                                                     GError           **error);
/* Every error of a driver passes here: a lost device is lost for good, and the context says so
 * once, in its own main context. */
void              _gpu_native_context_report        (GpuNativeContext  *context,
                                                     const GError      *error);
/* (transfer full): @stream's timeline, or the default one of @context if @stream is NULL. */
GpuTimeline      *_gpu_context_get_timeline         (GpuContext        *context,
                                                     GpuStream         *stream,
                                                     const char        *function,
                                                     GError           **error);
/* Tells ::memory-pressure of a request that the device has no room for. TRUE if the handlers have
 * run, so that trying again may help. */
gboolean          _gpu_context_signal_pressure      (GpuContext        *context,
                                                     guint64            requested);

G_END_DECLS
