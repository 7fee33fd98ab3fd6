/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Physical memory. The driver allocates it separately from the address range to which it is
 * mapped. */
#include "config.h"

#include "gpumem/cuda/core/gpu-cuda-current.h"

/* Only shareable memory has a handle type: UCX 1.22 exports only the first chunk of a buffer with a
 * handle type, and then accesses memory past its end. It copies other buffers through the host.
 * GPUDirect RDMA lets network cards access the memory; so all memory has that property, unless the
 * driver refuses it. */
static CUmemAllocationProp
get_properties (GpuCudaContext      *context,
                GpuCudaPhysicalKind  kind)
{
  CUmemAllocationProp properties = { .type = CU_MEM_ALLOCATION_TYPE_PINNED };
  const GpuCudaDevice *device = context->device;

  if (kind == GPU_CUDA_PHYSICAL_HOST)
    {
      properties.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
      properties.location.id = _gpu_cuda_get_numa_node (context);
      return properties;
    }

  properties.requestedHandleTypes = kind == GPU_CUDA_PHYSICAL_SHAREABLE
                                    ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
                                    : CU_MEM_HANDLE_TYPE_NONE;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device->device;
  properties.allocFlags.gpuDirectRDMACapable = device->gpu_direct_rdma
                                               && !g_atomic_int_get (&device->refuses_rdma);

  return properties;
}

/* Removes GPUDirect RDMA from the properties. Returns FALSE if they do not have it, or if @code
 * does not mean that the driver refuses it. In containers, for example, some drivers report
 * properties that they then refuse. */
static gboolean
remove_rdma (CUmemAllocationProp *properties,
             CUresult             code)
{
  const gboolean is_refused = code == CUDA_ERROR_NOT_SUPPORTED || code == CUDA_ERROR_NOT_PERMITTED
                              || code == CUDA_ERROR_INVALID_VALUE
                              || code == CUDA_ERROR_INVALID_DEVICE;

  if (!is_refused || !properties->allocFlags.gpuDirectRDMACapable)
    return FALSE;

  properties->allocFlags.gpuDirectRDMACapable = FALSE;

  return TRUE;
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

gboolean
_gpu_cuda_physical_get_granularity (GpuCudaContext  *context,
                                    GpuCudaPhysicalKind kind,
                                    gsize           *granularity,
                                    GError         **error)
{
  const CUmemAllocationGranularity_flags minimum = CU_MEM_ALLOC_GRANULARITY_MINIMUM;
  CUmemAllocationProp properties = get_properties (context, kind);
  size_t value = 0;
  CUresult code = _gpu_cuda.cuMemGetAllocationGranularity (&value, &properties, minimum);

  if (remove_rdma (&properties, code))
    code = _gpu_cuda.cuMemGetAllocationGranularity (&value, &properties, minimum);

  if (!_gpu_cuda_check (code, "cuMemGetAllocationGranularity", error))
    return FALSE;

  *granularity = value;

  return TRUE;
}

gboolean
_gpu_cuda_physical_create (GpuCudaContext                *context,
                           gsize                          size,
                           GpuCudaPhysicalKind            kind,
                           CUmemGenericAllocationHandle  *allocation,
                           GError                       **error)
{
  CUmemAllocationProp properties = get_properties (context, kind);
  CUresult code;

  if (kind == GPU_CUDA_PHYSICAL_HOST && !_gpu_cuda_check_host_room (size, error))
    return FALSE;

  code = create (context, size, &properties, allocation);

  if (remove_rdma (&properties, code))
    {
      code = create (context, size, &properties, allocation);

      if (code == CUDA_SUCCESS)
        g_atomic_int_set (&context->device->refuses_rdma, TRUE);
    }

  if (code == CUDA_SUCCESS)
    return TRUE;

  if (kind == GPU_CUDA_PHYSICAL_HOST)
    _gpu_cuda_fail_locked ("cuMemCreate", code, size, error);
  else
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
      || !_gpu_cuda_physical_get_granularity (context, GPU_CUDA_PHYSICAL_SHAREABLE, &granularity,
                                             error))
    return NULL;

  whole = (size + granularity - 1) / granularity * granularity;

  if (!_gpu_cuda_physical_create (context, whole, GPU_CUDA_PHYSICAL_SHAREABLE, &allocation, error))
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
