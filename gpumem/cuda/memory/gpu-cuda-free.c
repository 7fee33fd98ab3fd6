/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Frees buffers of every kind. */
#include "config.h"

#include "gpumem/base/gpu-pages-private.h"
#include "gpumem/cuda/core/gpu-cuda-current.h"

static void
free_entered (GpuCudaContext *context,
              GpuCudaBuffer  *buffer)
{
  CUstream stream;

  switch (buffer->kind)
    {
    case GPU_CUDA_MEMORY_OWN:
      _gpu_cuda.cuMemFree (buffer->address);
      break;
    case GPU_CUDA_MEMORY_STREAM_ORDERED:
      /* If the internal stream cannot be created, use cuMemFree(), which waits for the device. */
      if (_gpu_cuda_get_internal_stream (context, &stream, NULL))
        _gpu_cuda.cuMemFreeAsync (buffer->address, stream);
      else
        _gpu_cuda.cuMemFree (buffer->address);
      break;
    case GPU_CUDA_MEMORY_HOST:
      _gpu_cuda.cuMemFreeHost (buffer->base.host);
      break;
    case GPU_CUDA_MEMORY_LOCKED:
      /* If the driver fails, the pages stay registered: nothing else may get their addresses. */
      if (_gpu_cuda.cuMemHostUnregister (buffer->base.host) == CUDA_SUCCESS)
        _gpu_pages_unmap (buffer->base.host, buffer->base.size);
      break;
    case GPU_CUDA_MEMORY_MANAGED:
      _gpu_cuda.cuMemFree (((GpuCudaManaged *) buffer->shared)->allocation);
      break;
    case GPU_CUDA_MEMORY_VIRTUAL:
    case GPU_CUDA_MEMORY_RESERVED:
    case GPU_CUDA_MEMORY_SYSTEM:
    case GPU_CUDA_MEMORY_REGISTERED:
    case GPU_CUDA_MEMORY_IMPORTED:
    case GPU_CUDA_MEMORY_BORROWED:
    case GPU_CUDA_MEMORY_ORDINARY:
    default:
      break;
    }
}

void
_gpu_cuda_buffer_free (GpuNativeContext *native,
                       GpuNativeBuffer  *native_buffer)
{
  GpuCudaContext *context = (GpuCudaContext *) native;
  GpuCudaBuffer *buffer = (GpuCudaBuffer *) native_buffer;
  gboolean entered;

  if (buffer->kind == GPU_CUDA_MEMORY_REGISTERED)
    {
      _gpu_cuda_unregister (buffer->shared);
    }
  else if (buffer->kind == GPU_CUDA_MEMORY_IMPORTED)
    {
      _gpu_cuda_import_unref (context, buffer->shared);
    }
  else if (buffer->kind == GPU_CUDA_MEMORY_VIRTUAL || buffer->kind == GPU_CUDA_MEMORY_RESERVED)
    {
      _gpu_cuda_range_free (context, buffer->shared);
    }
  else if (buffer->kind != GPU_CUDA_MEMORY_BORROWED && buffer->kind != GPU_CUDA_MEMORY_SYSTEM
           && buffer->kind != GPU_CUDA_MEMORY_ORDINARY
           && _gpu_cuda_enter_again (context, &entered, NULL))
    {
      free_entered (context, buffer);
      _gpu_cuda_leave (entered);
    }

  if (buffer->kind == GPU_CUDA_MEMORY_MANAGED)
    g_free (buffer->shared);

  g_free (buffer);
}
