/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/host/gpu-host.h"

const GpuBackend _gpu_host_backend =
{
  .name = "host",
  .device = &_gpu_host_device_ops,
  .context = &_gpu_host_context_ops,
  .stream = &_gpu_host_stream_ops,
  .event = &_gpu_host_event_ops,
  .memory = &_gpu_host_memory_ops,
  .buffer = &_gpu_host_buffer_ops,
  .virtual_memory = &_gpu_host_virtual_ops,
  .svm = &_gpu_host_svm_ops,
  .image = &_gpu_host_image_ops,
  .sampler = &_gpu_host_sampler_ops,
  .program = &_gpu_host_program_ops,
  .kernel = &_gpu_host_kernel_ops,
  .transfer = &_gpu_host_transfer_ops
};
