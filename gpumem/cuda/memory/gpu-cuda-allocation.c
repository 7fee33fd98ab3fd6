/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Shared by all kinds of allocations: the buffer structure, the error, and queries of addresses. */
#include "config.h"

#include <sys/resource.h>

#include "gpumem/base/gpu-memory-limits-private.h"
#include "gpumem/cuda/core/gpu-cuda.h"

GpuCudaBuffer *
_gpu_cuda_buffer_new (CUdeviceptr address,
                      gsize       size,
                      int         kind)
{
  GpuCudaBuffer *buffer = g_new0 (GpuCudaBuffer, 1);

  buffer->base.backend = &_gpu_cuda_backend;
  buffer->base.size = size;
  buffer->address = address;
  buffer->kind = kind;

  return buffer;
}

void
_gpu_cuda_fail_alloc (GpuCudaContext  *context,
                      const char      *function,
                      CUresult         code,
                      gsize            size,
                      GError         **error)
{
  size_t free_size = 0;
  size_t total_size = 0;

  _gpu_cuda.cuMemGetInfo (&free_size, &total_size);
  _gpu_cuda_set_error (error, function, code,
                       "%" G_GSIZE_FORMAT " bytes requested, %" G_GSIZE_FORMAT " bytes held by the "
                       "context; device %s has %" G_GSIZE_FORMAT " bytes free of %" G_GSIZE_FORMAT,
                       size, (gsize) g_atomic_pointer_get (&context->base.allocated),
                       context->base.devices[0]->id, free_size, total_size);
}

gboolean
_gpu_cuda_check_host_room (gsize    size,
                           GError **error)
{
  GpuMemoryLimits memory;

  _gpu_memory_limits_read ("", &memory);

  if (size <= memory.free_size)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_OUT_OF_HOST_MEMORY,
               "%" G_GSIZE_FORMAT " bytes of page-locked memory requested, %" G_GUINT64_FORMAT
               " free of %" G_GUINT64_FORMAT " on the host: request less, or free other memory of "
               "the host first", size, memory.free_size, memory.total_size);

  return FALSE;
}

/* The message names the limits of the host, because the driver returns one code for all of them. */
void
_gpu_cuda_fail_locked (const char  *function,
                       CUresult     code,
                       gsize        size,
                       GError     **error)
{
  g_autofree char *lockable = NULL;
  struct rlimit limit = { RLIM_INFINITY, RLIM_INFINITY };
  GpuMemoryLimits memory;

  _gpu_memory_limits_read ("", &memory);
  getrlimit (RLIMIT_MEMLOCK, &limit);
  lockable = limit.rlim_cur == RLIM_INFINITY
             ? g_strdup ("unlimited")
             : g_strdup_printf ("%" G_GUINT64_FORMAT " bytes", (guint64) limit.rlim_cur);

  _gpu_cuda_set_error (error, function, code,
                       "%" G_GSIZE_FORMAT " bytes of page-locked memory requested, %"
                       G_GUINT64_FORMAT " free of %" G_GUINT64_FORMAT " on the host, the limit of "
                       "locked memory is %s: request less, free other page-locked memory, or raise "
                       "the limit (ulimit -l)", size, memory.free_size, memory.total_size,
                       lockable);

  if (error != NULL && g_error_matches (*error, GPU_ERROR, GPU_ERROR_OUT_OF_DEVICE_MEMORY))
    (*error)->code = GPU_ERROR_OUT_OF_HOST_MEMORY;
}

int
_gpu_cuda_get_numa_node (GpuCudaContext *context)
{
  return (int) _gpu_cuda_get_optional (context->device, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID);
}

gboolean
_gpu_cuda_query_pointer (CUdeviceptr           address,
                         CUpointer_attribute   attribute,
                         guint64              *value,
                         GError              **error)
{
  guint64 answer = 0;
  CUresult code = _gpu_cuda.cuPointerGetAttribute (&answer, attribute, address);

  if (code == CUDA_SUCCESS)
    *value = answer;
  else if (code != CUDA_ERROR_INVALID_VALUE && code != CUDA_ERROR_NOT_SUPPORTED)
    _gpu_cuda_set_error (error, "cuPointerGetAttribute", code, "attribute %d of the address 0x%"
                         G_GINT64_MODIFIER "x", (int) attribute, (guint64) address);

  return code == CUDA_SUCCESS || code == CUDA_ERROR_INVALID_VALUE
         || code == CUDA_ERROR_NOT_SUPPORTED;
}

guint64
_gpu_cuda_get_pointer_attribute (CUdeviceptr         address,
                                 CUpointer_attribute attribute,
                                 guint64             fallback)
{
  guint64 value = 0;

  return _gpu_cuda.cuPointerGetAttribute (&value, attribute, address) == CUDA_SUCCESS ? value
                                                                                      : fallback;
}
