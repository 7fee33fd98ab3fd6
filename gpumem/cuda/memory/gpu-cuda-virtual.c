/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Chunks of memory for pools, mapped at addresses that the pools reserve. */
#include "config.h"

#include "gpumem/cuda/core/gpu-cuda-current.h"

typedef struct
{
  GpuNativeChunk                base;
  CUmemGenericAllocationHandle  allocation;
} GpuCudaChunk;

static gboolean
virtual_get_granularity (GpuNativeContext  *native,
                         gsize             *granularity,
                         GError           **error)
{
  GpuCudaContext *context = (GpuCudaContext *) native;
  gboolean entered;
  gboolean found;

  if (!_gpu_cuda_enter (context, &entered, error))
    return FALSE;

  found = _gpu_cuda_physical_get_granularity (context, FALSE, granularity, error);
  _gpu_cuda_leave (entered);

  return found;
}

static GpuNativeBuffer *
virtual_reserve (GpuNativeContext  *native,
                 gsize              size,
                 GError           **error)
{
  GpuCudaContext *context = (GpuCudaContext *) native;
  GpuCudaBuffer *buffer;
  GpuCudaRange *range;
  gboolean entered;

  if (!_gpu_cuda_enter (context, &entered, error))
    return NULL;

  range = _gpu_cuda_range_new (context, size, error);
  _gpu_cuda_leave (entered);

  if (range == NULL)
    return NULL;

  buffer = _gpu_cuda_buffer_new (range->address, size, GPU_CUDA_MEMORY_RESERVED);
  buffer->shared = range;

  return &buffer->base;
}

static GpuNativeChunk *
virtual_create_chunk (GpuNativeContext  *native,
                      gsize              size,
                      GpuNativeBuffer   *shared,
                      GError           **error)
{
  GpuCudaContext *context = (GpuCudaContext *) native;
  CUmemGenericAllocationHandle allocation = 0;
  GpuCudaChunk *chunk;
  gboolean entered;
  gboolean created;

  if (!_gpu_cuda_enter (context, &entered, error))
    return NULL;

  created = _gpu_cuda_physical_create (context, size, shared != NULL, &allocation, error);
  _gpu_cuda_leave (entered);

  if (!created)
    return NULL;

  chunk = g_new0 (GpuCudaChunk, 1);
  chunk->base.backend = &_gpu_cuda_backend;
  chunk->base.size = size;
  chunk->allocation = allocation;

  return &chunk->base;
}

static void
virtual_destroy_chunk (GpuNativeContext *context,
                       GpuNativeChunk   *chunk)
{
  gboolean entered;

  if (_gpu_cuda_enter_again ((GpuCudaContext *) context, &entered, NULL))
    {
      _gpu_cuda.cuMemRelease (((GpuCudaChunk *) chunk)->allocation);
      _gpu_cuda_leave (entered);
    }

  g_free (chunk);
}

static gboolean
virtual_map (GpuNativeContext       *native,
             GpuNativeBuffer        *range,
             gsize                   offset,
             GpuNativeChunk *const  *chunks,
             guint                   n_chunks,
             GError                **error)
{
  g_autofree CUmemGenericAllocationHandle *allocations =
    g_new (CUmemGenericAllocationHandle, n_chunks);
  g_autofree gsize *sizes = g_new (gsize, n_chunks);
  GpuCudaContext *context = (GpuCudaContext *) native;
  gboolean entered;
  gboolean mapped;

  for (guint i = 0; i < n_chunks; i++)
    {
      allocations[i] = ((const GpuCudaChunk *) chunks[i])->allocation;
      sizes[i] = chunks[i]->size;
    }

  if (!_gpu_cuda_enter (context, &entered, error))
    return FALSE;

  mapped = _gpu_cuda_range_map (context, ((GpuCudaBuffer *) range)->shared, offset, allocations,
                                sizes, n_chunks, error);
  _gpu_cuda_leave (entered);

  return mapped;
}

static void
virtual_unmap (GpuNativeContext *context,
               GpuNativeBuffer  *range,
               gsize             offset,
               gsize             size)
{
  _gpu_cuda_range_unmap ((GpuCudaContext *) context, ((GpuCudaBuffer *) range)->shared, offset,
                         size);
}

const GpuVirtualOps _gpu_cuda_virtual_ops =
{
  .get_granularity = virtual_get_granularity,
  .reserve         = virtual_reserve,
  .create_chunk    = virtual_create_chunk,
  .destroy_chunk   = virtual_destroy_chunk,
  .map             = virtual_map,
  .unmap           = virtual_unmap
};
