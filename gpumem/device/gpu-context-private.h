/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "gpumem/timeline/gpu-timeline-private.h"

G_BEGIN_DECLS

typedef struct _GpuArrayKernels GpuArrayKernels;

/* NULL for a context that was never initialised. */
GpuNativeContext *_gpu_context_get_native           (GpuContext        *context);
/* FALSE if @context was never initialised or is lost. */
gboolean          _gpu_context_check                (GpuContext        *context,
                                                     const char        *function,
                                                     GError           **error);
/* Sets the error of a context that is lost, or was another process's. */
GPU_COLD gboolean _gpu_native_context_fail          (GpuNativeContext  *context,
                                                     GError           **error);

static inline gboolean
_gpu_native_context_check (GpuNativeContext  *context,
                           GError           **error)
{
  return (G_LIKELY (!g_atomic_int_get (&context->lost))
          && G_LIKELY (!g_atomic_int_get (&_gpu_hot.forked)))
         || _gpu_native_context_fail (context, error);
}

/* Every error of a driver passes here: a lost device is lost for good, and the context says so
 * once, in its own main context. */
void              _gpu_native_context_report        (GpuNativeContext  *context,
                                                     const GError      *error);
gboolean          _gpu_cache_preference_check       (GpuCachePreference  preference,
                                                     const char        *function,
                                                     GError           **error);
/* Ends a call of the driver: TRUE if there is no @failure, else takes it over. */
gboolean          _gpu_native_context_end           (GpuNativeContext  *context,
                                                     const char        *function,
                                                     GError            *failure,
                                                     GError           **error);
/* FALSE, and GPU_ERROR_NOT_SUPPORTED: the entry of @backend for @what is NULL. */
gboolean          _gpu_backend_fail                 (const GpuBackend  *backend,
                                                     const char        *function,
                                                     const char        *what,
                                                     GError           **error);
/* (transfer full): @stream's timeline, or the default one of @context if @stream is NULL. */
GpuTimeline      *_gpu_context_get_timeline         (GpuContext        *context,
                                                     GpuStream         *stream,
                                                     const char        *function,
                                                     GError           **error);
/* (transfer none): the same; whoever has @stream, or @context, has it. */
GpuTimeline      *_gpu_context_peek_timeline        (GpuContext        *context,
                                                     GpuStream         *stream,
                                                     const char        *function,
                                                     GError           **error);
/* (transfer none) */
GpuArrayKernels  *_gpu_context_get_array_kernels    (GpuContext        *context);
/* Tells ::memory-pressure of a request that the device has no room for. TRUE if the handlers have
 * run, so that trying again may help. */
gboolean          _gpu_context_signal_pressure      (GpuContext        *context,
                                                     guint64            requested);

G_END_DECLS
