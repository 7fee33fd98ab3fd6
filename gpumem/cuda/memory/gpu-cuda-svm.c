/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Shared virtual memory: managed memory, and system memory for devices that can access it. */
#include "config.h"

#include "gpumem/cuda/core/gpu-cuda-current.h"
#include "gpumem/cuda/memory/gpu-cuda-managed.h"

static GpuNativeBuffer *
svm_alloc (GpuNativeContext  *native,
           GpuMemoryFlags     flags G_GNUC_UNUSED,
           GpuSvmFlags        svm_flags G_GNUC_UNUSED,
           gsize              size,
           gsize              alignment,
           GError           **error)
{
  GpuCudaContext *context = (GpuCudaContext *) native;
  GpuCudaBuffer *buffer;
  gboolean entered;

  if (!_gpu_cuda_enter (context, &entered, error))
    return NULL;

  buffer = _gpu_cuda_managed_alloc (context, size, alignment, error);
  _gpu_cuda_leave (entered);

  return buffer != NULL ? &buffer->base : NULL;
}

static GpuNativeBuffer *
svm_alloc_for_host (GpuNativeContext  *context G_GNUC_UNUSED,
                    GpuMemoryFlags     flags G_GNUC_UNUSED,
                    gpointer           data,
                    gsize              size,
                    GError           **error G_GNUC_UNUSED)
{
  GpuCudaBuffer *buffer = _gpu_cuda_buffer_new ((guintptr) data, size, GPU_CUDA_MEMORY_SYSTEM);

  buffer->base.host = data;

  return &buffer->base;
}

const GpuSvmOps _gpu_cuda_svm_ops =
{
  .is_unlimited   = TRUE,
  .alloc          = svm_alloc,
  .alloc_for_host = svm_alloc_for_host,
  .advise         = _gpu_cuda_managed_advise,
  .attach         = _gpu_cuda_managed_attach,
  .prefetch       = _gpu_cuda_prefetch
};
