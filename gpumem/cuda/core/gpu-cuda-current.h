/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The current context of a thread. Ops call _gpu_cuda_enter() before driver calls that need a
 * current context, and _gpu_cuda_leave() after them to restore the current context of the
 * application. If the comment of a function begins with "Caller has entered the context", the
 * function must be called between the two.
 */
#pragma once

#include "gpumem/cuda/core/gpu-cuda.h"

G_BEGIN_DECLS

/* Makes @context current on the calling thread. Sets @entered to TRUE on success, because
 * _gpu_cuda_leave() must then restore the previous context. */
GPU_COLD gboolean
            _gpu_cuda_push         (GpuCudaContext  *context,
                                    gboolean        *entered,
                                    GError         **error);

/* Makes @context current on the calling thread. If @context is already current, sets @entered to
 * FALSE, and _gpu_cuda_leave() has no effect. */
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

/* Like _gpu_cuda_enter(), for ops that free or wait. Tries twice: if both attempts fail, objects
 * leak, or callers wrongly assume that the work has completed. Usually fails only if there is
 * nothing to free or wait for: the driver has shut down, or the context belongs to the parent
 * process of a fork. */
gboolean    _gpu_cuda_enter_again  (GpuCudaContext  *context,
                                    gboolean        *entered,
                                    GError         **error);

/* Returns CUDA_SUCCESS if the stream is not being captured into a graph, and
 * CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED if it is. Any other code means that this is not known: for
 * example, the driver reports an error for the legacy default stream while a stream that waits for
 * it is being captured. So after each code but CUDA_SUCCESS, a query of the stream or a wait for it
 * may invalidate a capture. Caller has entered the context. */
static inline CUresult
_gpu_cuda_check_capture (CUstream stream)
{
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  CUresult code;

  if (G_LIKELY (!g_atomic_int_get (&_gpu_may_capture))
      || !_gpu_cuda_has_group (GPU_CUDA_GROUP_CAPTURE, NULL))
    return CUDA_SUCCESS;

  code = _gpu_cuda.cuStreamGetCaptureInfo_v2 (stream, &status, NULL, NULL, NULL, NULL);

  return code == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE
         ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : code;
}

G_END_DECLS
