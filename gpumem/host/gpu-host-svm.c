/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Shared virtual memory. Kernels run on the host, so all memory is shared. */
#include "config.h"

#include "gpumem/host/gpu-host.h"

static GpuNativeBuffer *
svm_alloc (GpuNativeContext  *context,
           GpuMemoryFlags     flags,
           GpuSvmFlags        svm_flags G_GNUC_UNUSED,
           gsize              size,
           gsize              alignment,
           GError           **error)
{
  if (alignment <= GPU_HOST_BASE_ALIGNMENT)
    return _gpu_host_buffer_alloc (context, flags, size, NULL, error);

  return _gpu_host_buffer_alloc_aligned (context, size, alignment, error);
}

const GpuSvmOps _gpu_host_svm_ops =
{
  .alloc          = svm_alloc,
  .alloc_for_host = _gpu_host_buffer_alloc_for_host
};
