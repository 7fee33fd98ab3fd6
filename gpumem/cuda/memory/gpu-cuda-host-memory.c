/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Host memory. Page-locked memory also has a device address. Pageable memory has none: copies use
 * the host address, and fills copy from a page-locked block of the kind that mappings use.
 */
#include "config.h"

#include "gpumem/base/gpu-debug-private.h"
#include "gpumem/base/gpu-numa-private.h"
#include "gpumem/base/gpu-pages-private.h"
#include "gpumem/cuda/core/gpu-cuda-current.h"

/* Maps a lack of device memory to a lack of host memory, because the driver returns the same code
 * for both. */
static void
set_host_error (GError **error)
{
  if (error != NULL && g_error_matches (*error, GPU_ERROR, GPU_ERROR_OUT_OF_DEVICE_MEMORY))
    (*error)->code = GPU_ERROR_OUT_OF_HOST_MEMORY;
}

static GpuCudaBuffer *
locked_new (int          kind,
            gpointer     data,
            CUdeviceptr  address,
            gsize        size)
{
  GpuCudaBuffer *buffer = _gpu_cuda_buffer_new (address, size, kind);

  buffer->base.host = data;
  buffer->base.is_locked = TRUE;

  return buffer;
}

static GpuCudaBuffer *
alloc_by_driver (unsigned int   flags,
                 gsize          size,
                 GError       **error)
{
  const char *function = "cuMemHostAlloc";
  CUdeviceptr address = 0;
  void *data = NULL;
  CUresult code;

  if (size >= GPU_PAGES_MIN_SIZE && !_gpu_cuda_check_host_room (size, error))
    return NULL;

  code = _gpu_cuda.cuMemHostAlloc (&data, size, flags);

  if (code == CUDA_SUCCESS)
    {
      function = "cuMemHostGetDevicePointer";
      code = _gpu_cuda.cuMemHostGetDevicePointer (&address, data, 0);
    }

  if (code == CUDA_SUCCESS)
    return locked_new (GPU_CUDA_MEMORY_HOST, data, address, size);

  if (data != NULL)
    _gpu_cuda.cuMemFreeHost (data);
  _gpu_cuda_fail_locked (function, code, size, error);

  return NULL;
}

/* The registration is one call, and not one for each part of the memory, because the driver rejects
 * copies that cross the end of a registration. */
static GpuCudaBuffer *
lock_pages (gpointer   data,
            gsize      size)
{
  CUdeviceptr address = 0;
  CUresult code = _gpu_cuda.cuMemHostRegister (data, size, CU_MEMHOSTREGISTER_PORTABLE
                                                           | CU_MEMHOSTREGISTER_DEVICEMAP);

  if (code == CUDA_SUCCESS)
    {
      code = _gpu_cuda.cuMemHostGetDevicePointer (&address, data, 0);

      if (code == CUDA_SUCCESS)
        return locked_new (GPU_CUDA_MEMORY_LOCKED, data, address, size);

      /* Keep the mapping of pages that stay registered. */
      if (_gpu_cuda.cuMemHostUnregister (data) != CUDA_SUCCESS)
        return NULL;
    }

  _gpu_debug_print (GPU_DEBUG_ERRORS, "%" G_GSIZE_FORMAT " bytes cannot be registered: code %d",
                    size, (int) code);
  _gpu_pages_unmap (data, size);

  return NULL;
}

/* cuMemHostAlloc() provides pages with one thread, so large memory is mapped, written by several
 * threads and then registered. Memory that must be write-combined, and memory that the driver does
 * not register, is from cuMemHostAlloc(). */
GpuCudaBuffer *
_gpu_cuda_alloc_locked (GpuCudaContext  *context,
                        unsigned int     flags,
                        int             *numa_node,
                        gsize            size,
                        GError         **error)
{
  int node = _gpu_numa_resolve ("", *numa_node, context->base.devices[0]->pci_bus_id);
  GpuCudaBuffer *buffer;
  gpointer data;

  *numa_node = GPU_NUMA_NODE_NONE;

  if (size < GPU_PAGES_MIN_SIZE || (flags & CU_MEMHOSTALLOC_WRITECOMBINED) != 0
      || !_gpu_cuda_get_optional (context->device, CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED))
    return alloc_by_driver (flags, size, error);

  data = _gpu_pages_map (size, &node, error);

  if (data == NULL)
    return NULL;

  buffer = lock_pages (data, size);

  if (buffer == NULL)
    return alloc_by_driver (flags, size, error);

  *numa_node = node;

  return buffer;
}

static const struct
{
  GpuHostMemoryFlags flag;
  unsigned int       native;
} flags_table[] =
{
  { GPU_HOST_MEMORY_FLAGS_PORTABLE, CU_MEMHOSTALLOC_PORTABLE },
  { GPU_HOST_MEMORY_FLAGS_MAPPED, CU_MEMHOSTALLOC_DEVICEMAP },
  { GPU_HOST_MEMORY_FLAGS_WRITE_COMBINED, CU_MEMHOSTALLOC_WRITECOMBINED }
};

/* Caller has entered the context. Returns the flags that the driver reports for @buffer. If the
 * driver reports none, returns @given. */
static GpuHostMemoryFlags
read_flags (GpuCudaBuffer *buffer,
            unsigned int   given)
{
  GpuHostMemoryFlags flags = GPU_HOST_MEMORY_FLAGS_NONE;
  unsigned int native = 0;

  if (_gpu_cuda.cuMemHostGetFlags (&native, buffer->base.host) != CUDA_SUCCESS)
    native = given;

  for (gsize i = 0; i < G_N_ELEMENTS (flags_table); i++)
    {
      if ((native & flags_table[i].native) != 0)
        flags |= flags_table[i].flag;
    }

  return flags;
}

GpuNativeBuffer *
_gpu_cuda_alloc_host (GpuNativeContext    *native,
                      GpuHostMemoryFlags  *flags,
                      int                 *numa_node,
                      gsize                size,
                      GError             **error)
{
  GpuCudaContext *context = (GpuCudaContext *) native;
  unsigned int native_flags = 0;
  GpuCudaBuffer *buffer;
  gboolean entered;

  for (gsize i = 0; i < G_N_ELEMENTS (flags_table); i++)
    {
      if ((*flags & flags_table[i].flag) != 0)
        native_flags |= flags_table[i].native;
    }

  if (!_gpu_cuda_enter (context, &entered, error))
    return NULL;

  buffer = _gpu_cuda_alloc_locked (context, native_flags, numa_node, size, error);

  if (buffer != NULL && buffer->kind == GPU_CUDA_MEMORY_LOCKED)
    native_flags |= CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP;
  if (buffer != NULL)
    *flags = read_flags (buffer, native_flags);

  _gpu_cuda_leave (entered);

  return buffer != NULL ? &buffer->base : NULL;
}

/* Registered memory is always portable and mapped. */
GpuNativeBuffer *
_gpu_cuda_register_host (GpuNativeContext    *native,
                         GpuHostMemoryFlags  *flags,
                         gpointer             data,
                         gsize                size,
                         GError             **error)
{
  gboolean read_only = (*flags & GPU_HOST_MEMORY_FLAGS_READ_ONLY) != 0;
  GError *failure = NULL;
  GpuNativeBuffer *buffer = _gpu_cuda_register (native, read_only, data, size, &failure);

  if (buffer == NULL)
    {
      set_host_error (&failure);
      g_propagate_error (error, failure);
      return NULL;
    }

  *flags |= GPU_HOST_MEMORY_FLAGS_PORTABLE | GPU_HOST_MEMORY_FLAGS_MAPPED;

  return buffer;
}

GpuNativeBuffer *
_gpu_cuda_use_host (GpuNativeContext  *context G_GNUC_UNUSED,
                    gpointer           data,
                    gsize              size,
                    GError           **error G_GNUC_UNUSED)
{
  GpuCudaBuffer *buffer = _gpu_cuda_buffer_new ((guintptr) data, size, GPU_CUDA_MEMORY_ORDINARY);

  buffer->base.host = data;
  buffer->base.is_host_only = TRUE;

  return &buffer->base;
}
