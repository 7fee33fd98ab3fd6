/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "gpumem/backend/gpu-backend.h"
#include "gpumem/base/gpu-attributes-private.h"

G_BEGIN_DECLS

/* Sets the error of a context that is lost, or was another process's. */
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

/* Every error of a driver passes here: a lost device is lost for good, and the context says so
 * once, in its own main context. */
void              _gpu_native_context_report        (GpuNativeContext  *context,
                                                     const GError      *error);
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
G_END_DECLS
