/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "gpumem/backend/gpu-backend.h"
#include "gpumem/base/gpu-attributes-private.h"

G_BEGIN_DECLS

/* Sets the error of a context that is lost or that was created before the process forked. */
GPU_COLD gboolean _gpu_native_context_fail          (GpuNativeContext  *context,
                                                     GError           **error);

static inline gboolean
_gpu_native_context_check (GpuNativeContext  *context,
                           GError           **error)
{
  return (G_LIKELY (!g_atomic_int_get (&context->lost))
          && G_LIKELY (!g_atomic_int_get (&_gpu_forked)))
         || _gpu_native_context_fail (context, error);
}

/* Must be called for every error of a driver. If the error means that the device is lost, marks
 * @context as lost and calls notify_lost(), but only once for each context. The GpuContext then
 * emits GpuContext::lost in its main context. */
void              _gpu_native_context_report        (GpuNativeContext  *context,
                                                     const GError      *error);
/* Ends a driver call. Returns TRUE if @failure is NULL. Otherwise takes ownership of @failure,
 * reports it, and sets @error. */
gboolean          _gpu_native_context_end           (GpuNativeContext  *context,
                                                     const char        *function,
                                                     GError            *failure,
                                                     GError           **error);
/* Sets the error of a call with an object of the context @theirs, described by @what, in a stream
 * of the context @ours. Returns FALSE. */
gboolean          _gpu_native_context_set_mismatch  (const char             *function,
                                                     const char             *what,
                                                     const GpuNativeContext *theirs,
                                                     const GpuNativeContext *ours,
                                                     GError                **error);
/* The same for memory of @size bytes. */
gboolean          _gpu_native_context_set_memory_mismatch (const char       *function,
                                                     gsize                   size,
                                                     const GpuNativeContext *theirs,
                                                     const GpuNativeContext *ours,
                                                     GError                **error);
/* Sets GPU_ERROR_NOT_SUPPORTED, because @backend lacks the op for @what, and returns FALSE. */
gboolean          _gpu_backend_fail                 (const GpuBackend  *backend,
                                                     const char        *function,
                                                     const char        *what,
                                                     GError           **error);
G_END_DECLS
