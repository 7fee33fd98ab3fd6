/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Host memory. Page-locked memory also has a device address. Pageable memory has none: copies use
 * the host address, and fills copy from a page-locked block of the kind that mappings use.
 */
#include "config.h"

#include "gpumem/cuda/core/gpu-cuda-current.h"

/* Maps a lack of device memory to a lack of host memory, because the driver returns the same code
 * for both. */
static void
set_host_error (GError **error)
{
  if (error != NULL && g_error_matches (*error, GPU_ERROR, GPU_ERROR_OUT_OF_DEVICE_MEMORY))
    (*error)->code = GPU_ERROR_OUT_OF_HOST_MEMORY;
}

GpuCudaBuffer *
_gpu_cuda_alloc_locked (GpuCudaContext  *context,
                        unsigned int     flags,
                        gsize            size,
                        GError         **error)
{
  const char *function = "cuMemHostAlloc";
  CUdeviceptr address = 0;
  GpuCudaBuffer *buffer;
  void *data = NULL;
  CUresult code = _gpu_cuda.cuMemHostAlloc (&data, size, flags);

  if (code == CUDA_SUCCESS)
    {
      function = "cuMemHostGetDevicePointer";
      code = _gpu_cuda.cuMemHostGetDevicePointer (&address, data, 0);
    }

  if (code != CUDA_SUCCESS)
    {
      if (data != NULL)
        _gpu_cuda.cuMemFreeHost (data);
      _gpu_cuda_fail_alloc (context, function, code, size, error);
      set_host_error (error);
      return NULL;
    }

  buffer = _gpu_cuda_buffer_new (address, size, GPU_CUDA_MEMORY_HOST);
  buffer->base.host = data;
  buffer->base.is_locked = TRUE;

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

  buffer = _gpu_cuda_alloc_locked (context, native_flags, size, error);

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
