/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The back ends in this build, in order of preference. No other file names all of them. */
#include "config.h"

#include "gpumem/backend/gpu-backend.h"

extern const GpuBackend _gpu_cuda_backend;
extern const GpuBackend _gpu_host_backend;
extern const GpuBackend _gpu_opencl_backend;

const GpuBackend *const _gpu_backends[GPU_MAX_BACKENDS + 1] =
{
#ifdef HAVE_CUDA
  &_gpu_cuda_backend,
#endif
#ifdef HAVE_OPENCL
  &_gpu_opencl_backend,
#endif
  &_gpu_host_backend,
  NULL
};
