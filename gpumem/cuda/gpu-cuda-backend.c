/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/cuda/image/gpu-cuda-image.h"

const GpuBackend _gpu_cuda_backend =
{
  .name    = "cuda",
  .device  = &_gpu_cuda_device_ops,
  .context = &_gpu_cuda_context_ops,
  .stream  = &_gpu_cuda_stream_ops,
  .event   = &_gpu_cuda_event_ops,
  .memory  = &_gpu_cuda_memory_ops,
  .buffer  = &_gpu_cuda_buffer_ops,
  .virtual_memory = &_gpu_cuda_virtual_ops,
  .svm     = &_gpu_cuda_svm_ops,
  .image   = &_gpu_cuda_image_ops,
  .sampler = &_gpu_cuda_sampler_ops,
  .program = &_gpu_cuda_program_ops,
  .kernel  = &_gpu_cuda_kernel_ops,
  .transfer = &_gpu_cuda_transfer_ops
};
