/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Memory that passes to other processes as a file descriptor: the driver has the memory and the
 * addresses at which it is seen apart. */
#include "config.h"

#include "gpumem/cuda/gpu-cuda.h"

static const CUmemAllocationProp *
get_properties (GpuCudaContext      *context,
                CUmemAllocationProp *properties)
{
  *properties = (CUmemAllocationProp) { .type = CU_MEM_ALLOCATION_TYPE_PINNED };
  properties->requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  properties->location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties->location.id = context->device->device;

  return properties;
}

gboolean
_gpu_cuda_virtual_map (GpuCudaContext                *context,
                       CUmemGenericAllocationHandle   allocation,
                       gsize                          size,
                       CUdeviceptr                   *address,
                       GError                       **error)
{
  CUmemAccessDesc access[GPU_CUDA_MAX_PEERS + 1];
  guint n_access = _gpu_cuda_list_access (context, access);

  if (!_gpu_cuda_check (_gpu_cuda.cuMemAddressReserve (address, size, 0, 0, 0),
                        "cuMemAddressReserve", error))
    return FALSE;

  if (!_gpu_cuda_check (_gpu_cuda.cuMemMap (*address, size, 0, allocation, 0), "cuMemMap", error))
    {
      _gpu_cuda.cuMemAddressFree (*address, size);
      return FALSE;
    }

  if (_gpu_cuda_check (_gpu_cuda.cuMemSetAccess (*address, size, access, n_access),
                       "cuMemSetAccess", error))
    return TRUE;

  _gpu_cuda_virtual_unmap (*address, size);

  return FALSE;
}

void
_gpu_cuda_virtual_unmap (CUdeviceptr address,
                         gsize       size)
{
  _gpu_cuda.cuMemUnmap (address, size);
  _gpu_cuda.cuMemAddressFree (address, size);
}

static gboolean
get_whole_size (const CUmemAllocationProp  *properties,
                gsize                      *size,
                GError                    **error)
{
  size_t granularity = 0;

  if (!_gpu_cuda_check (_gpu_cuda.cuMemGetAllocationGranularity
                          (&granularity, properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
                        "cuMemGetAllocationGranularity", error))
    return FALSE;

  *size = (*size + granularity - 1) / granularity * granularity;

  return TRUE;
}

GpuCudaBuffer *
_gpu_cuda_virtual_alloc (GpuCudaContext  *context,
                         gsize            size,
                         GError         **error)
{
  CUmemGenericAllocationHandle allocation = 0;
  CUmemAllocationProp properties;
  CUdeviceptr address = 0;
  gsize whole = size;
  GpuCudaBuffer *buffer;
  gboolean mapped;
  CUresult code;

  if (!_gpu_cuda_has_group (GPU_CUDA_GROUP_VIRTUAL_MEMORY, error)
      || !get_whole_size (get_properties (context, &properties), &whole, error))
    return NULL;

  code = _gpu_cuda.cuMemCreate (&allocation, whole, &properties, 0);
  if (_gpu_cuda_make_room (context, code))
    code = _gpu_cuda.cuMemCreate (&allocation, whole, &properties, 0);

  if (code != CUDA_SUCCESS)
    {
      _gpu_cuda_fail_alloc (context, "cuMemCreate", code, whole, error);
      return NULL;
    }

  /* What is mapped keeps the allocation. */
  mapped = _gpu_cuda_virtual_map (context, allocation, whole, &address, error);
  _gpu_cuda.cuMemRelease (allocation);

  if (!mapped)
    return NULL;

  buffer = _gpu_cuda_buffer_new (address, size, GPU_CUDA_MEMORY_VIRTUAL);
  buffer->mapped_size = whole;

  return buffer;
}
