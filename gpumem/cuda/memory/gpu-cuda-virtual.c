/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Memory that the driver has apart from the addresses at which it is seen: pieces for pools, and
 * memory that passes to other processes as a file descriptor. */
#include "config.h"

#include "gpumem/cuda/core/gpu-cuda-current.h"

typedef struct
{
  GpuNativePiece                base;
  CUmemGenericAllocationHandle  allocation;
} GpuCudaPiece;

static CUmemAllocationProp
get_properties (GpuCudaContext *context,
                gboolean        shareable)
{
  CUmemAllocationProp properties = { .type = CU_MEM_ALLOCATION_TYPE_PINNED };

  properties.requestedHandleTypes = shareable ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
                                              : CU_MEM_HANDLE_TYPE_NONE;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = context->device->device;

  return properties;
}

static gboolean
get_granularity (GpuCudaContext  *context,
                 gboolean         shareable,
                 gsize           *granularity,
                 GError         **error)
{
  CUmemAllocationProp properties = get_properties (context, shareable);
  size_t value = 0;

  if (!_gpu_cuda_check (_gpu_cuda.cuMemGetAllocationGranularity
                          (&value, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
                        "cuMemGetAllocationGranularity", error))
    return FALSE;

  *granularity = value;

  return TRUE;
}

/* With the context entered. */
static gboolean
create (GpuCudaContext                *context,
        gsize                          size,
        gboolean                       shareable,
        CUmemGenericAllocationHandle  *allocation,
        GError                       **error)
{
  CUmemAllocationProp properties = get_properties (context, shareable);
  CUresult code = _gpu_cuda.cuMemCreate (allocation, size, &properties, 0);

  if (_gpu_cuda_make_room (context, code))
    code = _gpu_cuda.cuMemCreate (allocation, size, &properties, 0);

  if (code == CUDA_SUCCESS)
    return TRUE;

  _gpu_cuda_fail_alloc (context, "cuMemCreate", code, size, error);

  return FALSE;
}

GpuCudaBuffer *
_gpu_cuda_virtual_alloc (GpuCudaContext  *context,
                         gsize            size,
                         GError         **error)
{
  CUmemGenericAllocationHandle allocation = 0;
  gsize granularity = 1;
  GpuCudaBuffer *buffer;
  GpuCudaRange *range;
  gsize whole;

  if (!_gpu_cuda_has_group (GPU_CUDA_GROUP_VIRTUAL_MEMORY, error)
      || !get_granularity (context, TRUE, &granularity, error))
    return NULL;

  whole = (size + granularity - 1) / granularity * granularity;

  if (!create (context, whole, TRUE, &allocation, error))
    return NULL;

  /* What is mapped keeps the allocation. */
  range = _gpu_cuda_range_new_for (context, allocation, whole, error);
  _gpu_cuda.cuMemRelease (allocation);

  if (range == NULL)
    return NULL;

  buffer = _gpu_cuda_buffer_new (range->address, size, GPU_CUDA_MEMORY_VIRTUAL);
  buffer->shared = range;

  return buffer;
}

/* --- pieces ----------------------------------------------------------------------------------- */

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

  found = get_granularity (context, FALSE, granularity, error);
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

  created = create (context, size, shareable, &allocation, error);
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
