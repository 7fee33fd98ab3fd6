/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * While a stream is being captured into a graph, the driver refuses some calls of all threads, and
 * invalidates the capture: those that may wait for the device, or allocate or free memory. Code
 * that does not use this library may have begun the capture. So the library sets the calling thread
 * to the relaxed mode during each of these calls: the driver then permits them. It still refuses to
 * wait for captured work.
 */
#include "config.h"

#include "gpumem/base/gpu-attributes-private.h"
#include "gpumem/cuda/driver/gpu-cuda-api.h"

GpuCudaApi _gpu_cuda_raw;

GPU_HOT gboolean
_gpu_cuda_relax (CUstreamCaptureMode *mode)
{
  *mode = CU_STREAM_CAPTURE_MODE_RELAXED;

  return _gpu_cuda.has[GPU_CUDA_GROUP_CAPTURE]
         && _gpu_cuda.cuThreadExchangeStreamCaptureMode (mode) == CUDA_SUCCESS;
}

/* If the driver fails to exchange the mode, the call is made in the mode of the thread. */
#define GPU_CUDA_SYMBOL(group, name, version, parameters)
#define GPU_CUDA_UNSAFE(group, name, version, parameters, arguments) \
  static CUresult CUDAAPI \
  relaxed_##name parameters \
  { \
    CUstreamCaptureMode mode; \
    gboolean is_relaxed = _gpu_cuda_relax (&mode); \
    CUresult code = _gpu_cuda_raw.name arguments; \
  \
    if (is_relaxed) \
      _gpu_cuda.cuThreadExchangeStreamCaptureMode (&mode); \
  \
    return code; \
  }
#define GPU_CUDA_UNSAFE_REVISION(group, name, revision, version, parameters, arguments) \
  GPU_CUDA_UNSAFE (group, name##revision, version, parameters, arguments)
#include "gpumem/cuda/driver/gpu-cuda-symbols.h"

void
_gpu_cuda_relax_captures (void)
{
  _gpu_cuda_raw = _gpu_cuda;

  if (!_gpu_cuda.has[GPU_CUDA_GROUP_CAPTURE])
    return;

#define GPU_CUDA_UNSAFE(group, name, version, parameters, arguments) \
  if (_gpu_cuda_raw.name != NULL) \
    _gpu_cuda.name = relaxed_##name;
#define GPU_CUDA_UNSAFE_REVISION(group, name, revision, version, parameters, arguments) \
  GPU_CUDA_UNSAFE (group, name##revision, version, parameters, arguments)
#include "gpumem/cuda/driver/gpu-cuda-symbols.h"
#undef GPU_CUDA_SYMBOL
}
