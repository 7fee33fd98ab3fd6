/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Shared by all kinds of allocations: the buffer structure, the error, and queries of addresses. */
#include "config.h"

#include "gpumem/cuda/core/gpu-cuda.h"

GpuCudaBuffer *
_gpu_cuda_buffer_new (CUdeviceptr address,
                      gsize       size,
                      int         kind)
{
  GpuCudaBuffer *buffer = g_new0 (GpuCudaBuffer, 1);

  buffer->base.backend = &_gpu_cuda_backend;
  buffer->base.size = size;
  buffer->address = address;
  buffer->kind = kind;

  return buffer;
}

void
_gpu_cuda_fail_alloc (GpuCudaContext  *context,
                      const char      *function,
                      CUresult         code,
                      gsize            size,
                      GError         **error)
{
  size_t free_size = 0;
  size_t total_size = 0;

  _gpu_cuda.cuMemGetInfo (&free_size, &total_size);
  _gpu_cuda_set_error (error, function, code,
                       "%" G_GSIZE_FORMAT " bytes requested, %" G_GSIZE_FORMAT " bytes held by the "
                       "context; device %s has %" G_GSIZE_FORMAT " bytes free of %" G_GSIZE_FORMAT,
                       size, (gsize) g_atomic_pointer_get (&context->base.allocated),
                       context->base.devices[0]->id, free_size, total_size);
}

guint64
_gpu_cuda_get_pointer_attribute (CUdeviceptr         address,
                                 CUpointer_attribute attribute,
                                 guint64             fallback)
{
  guint64 value = 0;

  return _gpu_cuda.cuPointerGetAttribute (&value, attribute, address) == CUDA_SUCCESS ? value
                                                                                      : fallback;
}
