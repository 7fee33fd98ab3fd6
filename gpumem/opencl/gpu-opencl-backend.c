/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/opencl/driver/gpu-opencl.h"

const GpuBackend _gpu_opencl_backend =
{
  .name    = "opencl",
  .device  = &_gpu_opencl_device_ops,
  .context = &_gpu_opencl_context_ops,
  .stream  = &_gpu_opencl_stream_ops,
  .event   = &_gpu_opencl_event_ops,
  .memory  = &_gpu_opencl_memory_ops,
  .buffer  = &_gpu_opencl_buffer_ops,
  .svm     = &_gpu_opencl_svm_ops,
  .image   = &_gpu_opencl_image_ops,
  .sampler = &_gpu_opencl_sampler_ops,
  .program = &_gpu_opencl_program_ops,
  .kernel  = &_gpu_opencl_kernel_ops,
  .transfer = &_gpu_opencl_transfer_ops
};
