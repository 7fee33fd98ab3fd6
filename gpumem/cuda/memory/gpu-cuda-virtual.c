/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Pieces of memory for pools, mapped at addresses that the pools reserve. */
#include "config.h"

#include "gpumem/cuda/core/gpu-cuda-current.h"

typedef struct
{
  GpuNativePiece                base;
  CUmemGenericAllocationHandle  allocation;
} GpuCudaPiece;

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

static GpuNativePiece *
virtual_create_piece (GpuNativeContext  *native,
                      gsize              size,
                      gboolean           shareable,
                      GError           **error)
{
  GpuCudaContext *context = (GpuCudaContext *) native;
  CUmemGenericAllocationHandle allocation = 0;
  GpuCudaPiece *piece;
  gboolean entered;
  gboolean created;

  if (!_gpu_cuda_enter (context, &entered, error))
    return NULL;

  created = _gpu_cuda_physical_create (context, size, shareable, &allocation, error);
  _gpu_cuda_leave (entered);

  if (!created)
    return NULL;

  piece = g_new0 (GpuCudaPiece, 1);
  piece->base.backend = &_gpu_cuda_backend;
  piece->base.size = size;
  piece->allocation = allocation;

  return &piece->base;
}

static void
virtual_destroy_piece (GpuNativeContext *context,
                       GpuNativePiece   *piece)
{
  gboolean entered;

  if (_gpu_cuda_enter_again ((GpuCudaContext *) context, &entered, NULL))
    {
      _gpu_cuda.cuMemRelease (((GpuCudaPiece *) piece)->allocation);
      _gpu_cuda_leave (entered);
    }

  g_free (piece);
}

static gboolean
virtual_map (GpuNativeContext       *native,
             GpuNativeBuffer        *range,
             gsize                   offset,
             GpuNativePiece *const  *pieces,
             guint                   n_pieces,
             GError                **error)
{
  g_autofree CUmemGenericAllocationHandle *allocations =
    g_new (CUmemGenericAllocationHandle, n_pieces);
  g_autofree gsize *sizes = g_new (gsize, n_pieces);
  GpuCudaContext *context = (GpuCudaContext *) native;
  gboolean entered;
  gboolean mapped;

  for (guint i = 0; i < n_pieces; i++)
    {
      allocations[i] = ((const GpuCudaPiece *) pieces[i])->allocation;
      sizes[i] = pieces[i]->size;
    }

  if (!_gpu_cuda_enter (context, &entered, error))
    return FALSE;

  mapped = _gpu_cuda_range_map (context, ((GpuCudaBuffer *) range)->shared, offset, allocations,
                                sizes, n_pieces, error);
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
  .create_piece    = virtual_create_piece,
  .destroy_piece   = virtual_destroy_piece,
  .map             = virtual_map,
  .unmap           = virtual_unmap
};
