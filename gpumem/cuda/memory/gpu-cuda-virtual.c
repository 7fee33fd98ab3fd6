/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Chunks of memory for pools, mapped at addresses that the pools reserve. */
#include "config.h"

#include "gpumem/base/gpu-error-private.h"
#include "gpumem/cuda/core/gpu-cuda-current.h"

typedef struct
{
  GpuNativeChunk                base;
  CUmemGenericAllocationHandle  allocation;
} GpuCudaChunk;

static GpuCudaPhysicalKind
get_kind (gboolean is_host,
          gboolean is_shareable)
{
  if (is_host)
    return GPU_CUDA_PHYSICAL_HOST;

  return is_shareable ? GPU_CUDA_PHYSICAL_SHAREABLE : GPU_CUDA_PHYSICAL_DEVICE;
}

static gboolean
virtual_get_granularity (GpuNativeContext  *native,
                         gboolean           is_host,
                         gsize             *granularity,
                         GError           **error)
{
  GpuCudaContext *context = (GpuCudaContext *) native;
  gboolean entered;
  gboolean found;

  if (!_gpu_cuda_enter (context, &entered, error))
    return FALSE;

  found = _gpu_cuda_physical_get_granularity (context, get_kind (is_host, FALSE), granularity,
                                              error);
  _gpu_cuda_leave (entered);

  return found;
}

/* Caller has entered the context. Maps some memory of the host, because the driver may refuse it to
 * this process, in a container for example, although it reports support. */
static gboolean
try_host (GpuCudaContext  *context,
          GpuCudaRange    *range,
          GError         **error)
{
  CUmemGenericAllocationHandle allocation = 0;
  gboolean is_mapped;
  gsize size = 0;

  if (!_gpu_cuda_physical_get_granularity (context, GPU_CUDA_PHYSICAL_HOST, &size, error)
      || !_gpu_cuda_physical_create (context, size, GPU_CUDA_PHYSICAL_HOST, &allocation, error))
    return FALSE;

  is_mapped = _gpu_cuda_range_map (context, range, 0, &allocation, &size, 1, error);

  if (is_mapped)
    _gpu_cuda_range_unmap (context, range, 0, size);
  _gpu_cuda.cuMemRelease (allocation);

  return is_mapped;
}

/* Caller has entered the context. */
static GpuCudaRange *
reserve (GpuCudaContext  *context,
         gboolean         is_host,
         gsize            size,
         GError         **error)
{
  GpuCudaRange *range = _gpu_cuda_range_new (context, size, error);
  GError *failure = NULL;

  if (range == NULL || !is_host)
    return range;

  range->is_host = TRUE;

  if (try_host (context, range, &failure))
    return range;

  _gpu_cuda_range_free (context, range);
  if (!_gpu_error_is_out_of_memory (failure)
      && !g_error_matches (failure, GPU_ERROR, GPU_ERROR_DEVICE_LOST))
    failure->code = GPU_ERROR_NOT_SUPPORTED;
  g_propagate_error (error, failure);

  return NULL;
}

static GpuNativeBuffer *
virtual_reserve (GpuNativeContext  *native,
                 gboolean           is_host,
                 gsize              size,
                 GError           **error)
{
  GpuCudaContext *context = (GpuCudaContext *) native;
  GpuCudaBuffer *buffer;
  GpuCudaRange *range;
  gboolean entered;

  if (!_gpu_cuda_enter (context, &entered, error))
    return NULL;

  range = reserve (context, is_host, size, error);
  _gpu_cuda_leave (entered);

  if (range == NULL)
    return NULL;

  buffer = _gpu_cuda_buffer_new (range->address, size, GPU_CUDA_MEMORY_RESERVED);
  buffer->shared = range;
  buffer->is_chunked = is_host;

  if (is_host)
    buffer->base.host = (gpointer) (guintptr) range->address;

  return &buffer->base;
}

static GpuNativeChunk *
virtual_create_chunk (GpuNativeContext  *native,
                      gboolean           is_host,
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

  created = _gpu_cuda_physical_create (context, size, get_kind (is_host, shared != NULL),
                                       &allocation, error);
  _gpu_cuda_leave (entered);

  if (!created)
    return NULL;

  chunk = g_new0 (GpuCudaChunk, 1);
  chunk->base.backend = &_gpu_cuda_backend;
  chunk->base.size = size;
  chunk->base.is_host = is_host;
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
