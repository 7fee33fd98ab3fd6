/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Physical memory. The driver allocates it separately from the address range to which it is
 * mapped. */
#include "config.h"

#include "gpumem/cuda/core/gpu-cuda-current.h"

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

gboolean
_gpu_cuda_physical_get_granularity (GpuCudaContext  *context,
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

gboolean
_gpu_cuda_physical_create (GpuCudaContext                *context,
                           gsize                          size,
                           gboolean                       shareable,
                           CUmemGenericAllocationHandle  *allocation,
                           GError                       **error)
{
  CUmemAllocationProp properties = get_properties (context, shareable);
  CUresult code = _gpu_cuda.cuMemCreate (allocation, size, &properties, 0);

  if (_gpu_cuda_trim_pools (context, code))
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
      || !_gpu_cuda_physical_get_granularity (context, TRUE, &granularity, error))
    return NULL;

  whole = (size + granularity - 1) / granularity * granularity;

  if (!_gpu_cuda_physical_create (context, whole, TRUE, &allocation, error))
    return NULL;

  /* The mapping keeps the allocation alive. */
  range = _gpu_cuda_range_new_for (context, allocation, whole, error);
  _gpu_cuda.cuMemRelease (allocation);

  if (range == NULL)
    return NULL;

  buffer = _gpu_cuda_buffer_new (range->address, size, GPU_CUDA_MEMORY_VIRTUAL);
  buffer->shared = range;

  return buffer;
}
