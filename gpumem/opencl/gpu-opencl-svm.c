/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Shared virtual memory. For each allocation, the library creates a cl_mem that has the allocation
 * as its storage, as the specification allows. Copies, fills, mappings and slices use the cl_mem,
 * as for any buffer; kernels get the pointer. The functions require OpenCL 2.0. The caller checks
 * the capabilities of the device, because older devices and platforms do not support such memory.
 */
#include "config.h"

#include "gpumem/opencl/driver/gpu-opencl.h"

/* The size of the largest type of OpenCL C. clSVMAlloc() accepts no larger alignment. */
#define MAX_TYPE_SIZE 128

static cl_svm_mem_flags
get_svm_flags (GpuMemoryFlags flags,
               GpuSvmFlags    svm_flags)
{
  cl_svm_mem_flags result = CL_MEM_READ_WRITE;

  if (flags & GPU_MEMORY_FLAGS_READ_ONLY)
    result = CL_MEM_READ_ONLY;
  if (flags & GPU_MEMORY_FLAGS_WRITE_ONLY)
    result = CL_MEM_WRITE_ONLY;
  if (svm_flags & GPU_SVM_FLAGS_FINE_GRAIN)
    result |= CL_MEM_SVM_FINE_GRAIN_BUFFER;
  if (svm_flags & GPU_SVM_FLAGS_ATOMICS)
    result |= CL_MEM_SVM_ATOMICS;

  return result;
}

/* For an alignment that the driver does not accept, allocates more memory and aligns the start
 * within the allocation. */
static gpointer
alloc_aligned (cl_context         context,
               cl_svm_mem_flags   flags,
               gsize              size,
               gsize              alignment,
               gpointer          *data)
{
  gsize room = alignment > MAX_TYPE_SIZE ? alignment : 0;
  gpointer allocation = NULL;

  if (size <= G_MAXSIZE - room)
    allocation = clSVMAlloc (context, flags, size + room, room == 0 ? (cl_uint) alignment : 0);

  *data = allocation;

  if (allocation != NULL && room != 0)
    *data = (gpointer) (((guintptr) allocation + room - 1) & ~(guintptr) (room - 1));

  return allocation;
}

/* Creates a buffer over @data. */
static GpuOpenclBuffer *
wrap_data (GpuNativeContext  *context,
           GpuMemoryFlags     flags,
           gpointer           data,
           gsize              size,
           GError           **error)
{
  cl_mem_flags cl_flags = _gpu_opencl_get_root_flags (flags) | CL_MEM_USE_HOST_PTR;
  GpuOpenclBuffer *buffer;
  cl_int code;
  cl_mem mem = clCreateBuffer (_gpu_opencl_context_handle (context), cl_flags, size, data, &code);

  if (code != CL_SUCCESS)
    {
      _gpu_opencl_set_error (error, "clCreateBuffer", code, "over %" G_GSIZE_FORMAT
                             " bytes of shared virtual memory", size);
      return NULL;
    }

  buffer = (GpuOpenclBuffer *) _gpu_opencl_buffer_new (mem, size);
  buffer->svm = data;
  buffer->base.in_place = data;

  /* NVIDIA's driver refuses launches after the same argument was set to a cl_mem and to a
   * pointer. */
  if (!_gpu_opencl_device_is_nvidia ((GpuOpenclDevice *) context->devices[0]))
    buffer->svm_argument = data;

  return buffer;
}

static GpuNativeBuffer *
alloc_locked (GpuNativeContext  *context,
              GpuMemoryFlags     flags,
              GpuSvmFlags        svm_flags,
              gsize              size,
              gsize              alignment,
              GError           **error)
{
  cl_context handle = _gpu_opencl_context_handle (context);
  GpuOpenclBuffer *buffer;
  gpointer data;
  gpointer allocation = alloc_aligned (handle, get_svm_flags (flags, svm_flags), size, alignment,
                                       &data);

  if (allocation == NULL)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_OUT_OF_DEVICE_MEMORY,
                   "clSVMAlloc: NULL: %" G_GSIZE_FORMAT " bytes requested, aligned to %"
                   G_GSIZE_FORMAT ", %" G_GSIZE_FORMAT " bytes held by the context; device %s has %"
                   G_GUINT64_FORMAT " bytes, at most %" G_GUINT64_FORMAT " in one allocation",
                   size, alignment, (gsize) g_atomic_pointer_get (&context->allocated),
                   context->devices[0]->id, context->devices[0]->memory_size,
                   context->devices[0]->max_allocation);
      return NULL;
    }

  buffer = wrap_data (context, flags, data, size, error);

  if (buffer == NULL)
    {
      clSVMFree (handle, allocation);
      return NULL;
    }

  buffer->svm_allocation = allocation;

  if (svm_flags & GPU_SVM_FLAGS_FINE_GRAIN)
    buffer->base.host = data;

  return &buffer->base;
}

/* Holds svm_lock, because on NVIDIA's driver an allocation may fail while another thread frees
 * shared virtual memory. */
GpuNativeBuffer *
_gpu_opencl_svm_alloc (GpuNativeContext  *context,
                       GpuMemoryFlags     flags,
                       GpuSvmFlags        svm_flags,
                       gsize              size,
                       gsize              alignment,
                       GError           **error)
{
  const GpuSvmFlags usm = GPU_SVM_FLAGS_USM_DEVICE | GPU_SVM_FLAGS_USM_HOST
                          | GPU_SVM_FLAGS_USM_SHARED;
  GpuNativeBuffer *buffer;

  if ((svm_flags & usm) != 0)
    return _gpu_opencl_usm_alloc (context, svm_flags & usm, size, alignment, error);

  g_mutex_lock (&((GpuOpenclContext *) context)->svm_lock);
  buffer = alloc_locked (context, flags, svm_flags, size, alignment, error);
  g_mutex_unlock (&((GpuOpenclContext *) context)->svm_lock);

  return buffer;
}

void
_gpu_opencl_svm_free (GpuOpenclContext *context,
                      GpuOpenclBuffer  *buffer)
{
  g_mutex_lock (&context->svm_lock);
  clReleaseMemObject (buffer->mem);
  clSVMFree (context->context, buffer->svm_allocation);
  g_mutex_unlock (&context->svm_lock);
}

/* Creates shared virtual memory over memory of the program, for devices that can access all host
 * memory. Allocates no memory. */
static GpuNativeBuffer *
svm_alloc_for_host (GpuNativeContext  *context,
                    GpuMemoryFlags     flags,
                    gpointer           data,
                    gsize              size,
                    GError           **error)
{
  GpuOpenclBuffer *buffer = wrap_data (context, flags, data, size, error);

  if (buffer == NULL)
    return NULL;

  buffer->base.host = data;

  return &buffer->base;
}

static cl_mem_migration_flags
get_migration_flags (GpuMigrateFlags flags)
{
  return ((flags & GPU_MIGRATE_FLAGS_HOST) ? CL_MIGRATE_MEM_OBJECT_HOST : 0) |
         ((flags & GPU_MIGRATE_FLAGS_CONTENT_UNDEFINED) ? CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED
                                                        : 0);
}

static gboolean
svm_prefetch (GpuNativeStream  *stream,
              GpuNativeBuffer  *native,
              GpuMigrateFlags   flags,
              gsize             offset,
              gsize             size,
              GpuNativeEvent  **event,
              GError          **error)
{
  GpuOpenclBuffer *buffer = (GpuOpenclBuffer *) native;
  GpuOpenclDevice *device = ((GpuOpenclStream *) stream)->device;
  const void *pointer = (guint8 *) buffer->svm + offset;
  cl_event handle = NULL;
  cl_int code;

  if (buffer->usm != NULL)
    return _gpu_opencl_pass (stream, event, error);

  if (device->api < 21 || device->level < 21 || buffer->svm_allocation == NULL)
    {
      /* migrate() moves the whole buffer. If the range is only a part of the buffer, the rest must
       * keep its contents. */
      if (size < native->size)
        flags &= ~GPU_MIGRATE_FLAGS_CONTENT_UNDEFINED;

      return stream->backend->memory->migrate (stream, &native, 1, flags, event, error);
    }

  code = clEnqueueSVMMigrateMem (_gpu_opencl_stream_handle (stream), 1, &pointer, &size,
                                 get_migration_flags (flags), 0, NULL,
                                 event != NULL ? &handle : NULL);

  return _gpu_opencl_enqueued (stream, code, "clEnqueueSVMMigrateMem", handle, event, error,
                               "%" G_GSIZE_FORMAT " bytes from offset %" G_GSIZE_FORMAT " of %"
                               G_GSIZE_FORMAT " bytes, flags 0x%x", size, offset, native->size,
                               flags);
}

const GpuSvmOps _gpu_opencl_svm_ops =
{
  .alloc          = _gpu_opencl_svm_alloc,
  .alloc_for_host = svm_alloc_for_host,
  .prefetch       = svm_prefetch
};
