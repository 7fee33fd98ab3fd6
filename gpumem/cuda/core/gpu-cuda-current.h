/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The current context of a thread. Every op brackets its driver calls with _gpu_cuda_enter() and
 * _gpu_cuda_leave(), which restore the application's own current context. Functions that need no
 * current context say so.
 */
#pragma once

#include "gpumem/cuda/core/gpu-cuda.h"

G_BEGIN_DECLS

/* Makes @context current on the calling thread; sets @entered if _gpu_cuda_leave() must undo it. */
GPU_COLD gboolean
            _gpu_cuda_push         (GpuCudaContext  *context,
                                    gboolean        *entered,
                                    GError         **error);

/* The same, unless @context is current already. */
static inline gboolean
_gpu_cuda_enter (GpuCudaContext  *context,
                 gboolean        *entered,
                 GError         **error)
{
  CUcontext current;

  *entered = FALSE;

  return (G_LIKELY (!g_atomic_int_get (&_gpu_forked))
          && G_LIKELY (_gpu_cuda.cuCtxGetCurrent (&current) == CUDA_SUCCESS)
          && G_LIKELY (current == context->context))
         || _gpu_cuda_push (context, entered, error);
}

static inline void
_gpu_cuda_leave (gboolean entered)
{
  CUcontext popped;

  if (G_UNLIKELY (entered))
    _gpu_cuda.cuCtxPopCurrent (&popped);
}

/* For ops that free or wait: tries twice, because objects that are not freed here leak, and callers
 * treat work that was not waited for as complete. Returns FALSE if there is nothing to do: the
 * driver has shut down, or belongs to the parent process of a fork. */
gboolean    _gpu_cuda_enter_again  (GpuCudaContext  *context,
                                    gboolean        *entered,
                                    GError         **error);

G_END_DECLS
