/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Physical memory. The driver allocates it separately from the address range to which it is
 * mapped. */
#include "config.h"

#include "gpumem/cuda/core/gpu-cuda-current.h"

/* Without a handle type, no library can export the memory, and without GPUDirect RDMA, no network
 * card can access it: communication libraries then copy it through the host. So all memory has
 * both, unless the driver refuses them. */
static CUmemAllocationProp
get_properties (GpuCudaContext *context,
                gboolean        shareable)
{
  CUmemAllocationProp properties = { .type = CU_MEM_ALLOCATION_TYPE_PINNED };
  const GpuCudaDevice *device = context->device;

  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device->device;

  if (shareable || ((device->base.capabilities & GPU_CAPABILITIES_IPC_FDS) != 0
                    && !g_atomic_int_get (&device->refuses_exports)))
    {
      properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
      properties.allocFlags.gpuDirectRDMACapable = device->gpu_direct_rdma;
    }

  return properties;
}

/* Allocates memory, also if the driver first has to free unused memory of its pools. */
static CUresult
create (GpuCudaContext                *context,
        gsize                          size,
        const CUmemAllocationProp     *properties,
        CUmemGenericAllocationHandle  *allocation)
{
  CUresult code = _gpu_cuda.cuMemCreate (allocation, size, properties, 0);

  if (_gpu_cuda_trim_pools (context, code))
    code = _gpu_cuda.cuMemCreate (allocation, size, properties, 0);

  return code;
}

/* Changes @properties to those of memory that cannot be exported. Returns FALSE if @code does not
 * mean that the driver refuses @properties. Some drivers report handle types that they then refuse,
 * for example in containers. */
static gboolean
set_plain (CUmemAllocationProp *properties,
           CUresult             code)
{
  const gboolean is_refused = code == CUDA_ERROR_NOT_SUPPORTED || code == CUDA_ERROR_NOT_PERMITTED
                              || code == CUDA_ERROR_INVALID_VALUE
                              || code == CUDA_ERROR_INVALID_DEVICE;

  if (!is_refused || properties->requestedHandleTypes == CU_MEM_HANDLE_TYPE_NONE)
    return FALSE;

  properties->requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
  properties->allocFlags.gpuDirectRDMACapable = FALSE;

  return TRUE;
}

gboolean
_gpu_cuda_physical_get_granularity (GpuCudaContext  *context,
                                    gboolean         shareable,
                                    gsize           *granularity,
                                    GError         **error)
{
  const CUmemAllocationGranularity_flags minimum = CU_MEM_ALLOC_GRANULARITY_MINIMUM;
  CUmemAllocationProp properties = get_properties (context, shareable);
  size_t value = 0;
  CUresult code = _gpu_cuda.cuMemGetAllocationGranularity (&value, &properties, minimum);

  if (!shareable && set_plain (&properties, code))
    code = _gpu_cuda.cuMemGetAllocationGranularity (&value, &properties, minimum);

  if (!_gpu_cuda_check (code, "cuMemGetAllocationGranularity", error))
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
  CUresult code = create (context, size, &properties, allocation);

  if (!shareable && set_plain (&properties, code))
    {
      code = create (context, size, &properties, allocation);

      if (code == CUDA_SUCCESS)
        g_atomic_int_set (&context->device->refuses_exports, TRUE);
    }

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
  range = _gpu_cuda_range_new_for (context, &allocation, &whole, 1, error);
  _gpu_cuda.cuMemRelease (allocation);

  if (range == NULL)
    return NULL;

  buffer = _gpu_cuda_buffer_new (range->address, size, GPU_CUDA_MEMORY_VIRTUAL);
  buffer->shared = range;

  return buffer;
}
