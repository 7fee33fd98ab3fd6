/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The current context of a thread. The fast path of _gpu_cuda_enter() is inline in the header. */
#include "config.h"

#include "gpumem/cuda/core/gpu-cuda-current.h"

gboolean
_gpu_cuda_push (GpuCudaContext  *context,
                gboolean        *entered,
                GError         **error)
{
  *entered = _gpu_backend_check_process (error)
             && _gpu_cuda_check (_gpu_cuda.cuCtxPushCurrent (context->context),
                                 "cuCtxPushCurrent", error);

  return *entered;
}

gboolean
_gpu_cuda_enter_again (GpuCudaContext  *context,
                       gboolean        *entered,
                       GError         **error)
{
  return _gpu_cuda_enter (context, entered, NULL) || _gpu_cuda_enter (context, entered, error);
}
