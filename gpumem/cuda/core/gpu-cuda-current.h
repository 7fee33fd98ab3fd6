/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The current context of a thread: every op brackets its driver calls with _gpu_cuda_enter() and
 * _gpu_cuda_leave(), which leave the application's own current context as they found it. Functions
 * that need no current context say so.
 */
#pragma once

#include "gpumem/cuda/core/gpu-cuda.h"

G_BEGIN_DECLS

/* Makes @context current on the calling thread; what it has to undo goes to @entered. */
GPU_COLD gboolean
            _gpu_cuda_push         (GpuCudaContext  *context,
                                    gboolean        *entered,
                                    GError         **error);

/* The same, if it is not current already. */
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

/* For ops that free or wait, which do not give up at once: nobody else frees what they leave, and
 * what was not waited for is taken to be over. FALSE where there is nothing to be done: the driver
 * is gone, or is that of the process before a fork. */
gboolean    _gpu_cuda_enter_again  (GpuCudaContext  *context,
                                    gboolean        *entered,
                                    GError         **error);

G_END_DECLS
