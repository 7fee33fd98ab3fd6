/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Host memory. OpenCL does not specify page locking, but drivers that lock pages do so for buffers
 * with CL_MEM_ALLOC_HOST_PTR or CL_MEM_USE_HOST_PTR. The library allocates memory with the first
 * flag. With the second flag and pages that the library has mapped, a driver need not lock the
 * pages: it may copy the memory each time it is mapped. Such a buffer remains mapped for its whole
 * lifetime, and OpenCL does not allow commands to use a mapped buffer. Copies therefore use the
 * mapped address as host memory, and kernels cannot access the buffer. For host memory that kernels
 * must access, the library allocates fine-grained shared virtual memory and creates a buffer over
 * it, which all commands accept.
 */
#include "config.h"

#include "gpumem/opencl/gpu-opencl-region-private.h"

static void
set_out_of_host_memory (GError **error)
{
  if (error != NULL && g_error_matches (*error, GPU_ERROR, GPU_ERROR_OUT_OF_DEVICE_MEMORY))
    (*error)->code = GPU_ERROR_OUT_OF_HOST_MEMORY;
}

/* Returns an in-order queue on the first device. The queue never contains work of the program. */
static cl_command_queue
get_internal (GpuOpenclContext  *context,
              GError           **error)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&context->internal_lock);
  cl_int code = CL_SUCCESS;

  if (context->internal == NULL)
    context->internal = clCreateCommandQueue (context->context, context->ids[0], 0, &code);

  if (code == CL_SUCCESS)
    return context->internal;

  context->internal = NULL;
  _gpu_opencl_set_error (error, "clCreateCommandQueue", code, "device %s",
                         context->base.devices[0]->id);

  return NULL;
}

static gboolean
map (GpuOpenclContext  *context,
     GpuOpenclBuffer   *buffer,
     GError           **error)
{
  cl_command_queue queue = get_internal (context, error);
  gpointer data;
  cl_int code;

  if (queue == NULL)
    return FALSE;

  data = clEnqueueMapBuffer (queue, buffer->mem, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0,
                             buffer->base.size, 0, NULL, NULL, &code);

  if (code != CL_SUCCESS)
    {
      _gpu_opencl_set_error (error, "clEnqueueMapBuffer", code, "%" G_GSIZE_FORMAT
                             " bytes of host memory", buffer->base.size);
      set_out_of_host_memory (error);
      return FALSE;
    }

  buffer->base.host = data;
  buffer->base.is_host_only = TRUE;
  buffer->base.is_locked = TRUE;
  buffer->is_mapped = TRUE;

  g_mutex_lock (&context->internal_lock);
  if (context->mapped == NULL)
    context->mapped = g_ptr_array_new ();
  g_ptr_array_add (context->mapped, buffer);
  g_mutex_unlock (&context->internal_lock);

  return TRUE;
}

gboolean
_gpu_opencl_is_mapped_host (GpuOpenclContext *context,
                            gconstpointer     data,
                            gsize             size)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&context->internal_lock);

  for (guint i = 0; context->mapped != NULL && i < context->mapped->len; i++)
    {
      const GpuNativeBuffer *buffer = g_ptr_array_index (context->mapped, i);
      gsize offset = (guintptr) data - (guintptr) buffer->host;

      if (offset < buffer->size && size <= buffer->size - offset)
        return TRUE;
    }

  return FALSE;
}

/* Unmaps the memory. Blocks if the memory belongs to the program, because the program may free it
 * after this call. */
void
_gpu_opencl_unmap_host (GpuOpenclContext *context,
                        GpuOpenclBuffer  *buffer)
{
  cl_event event = NULL;

  g_mutex_lock (&context->internal_lock);
  g_ptr_array_remove_fast (context->mapped, buffer);
  g_mutex_unlock (&context->internal_lock);

  if (clEnqueueUnmapMemObject (context->internal, buffer->mem, buffer->base.host, 0, NULL, &event)
      != CL_SUCCESS)
    return;

  if (buffer->is_registered)
    clWaitForEvents (1, &event);
  else
    clFlush (context->internal);

  clReleaseEvent (event);
}

/* Takes ownership of @native. */
static GpuNativeBuffer *
map_or_free (GpuNativeContext  *context,
             GpuNativeBuffer   *native,
             GError           **error)
{
  if (native == NULL || map ((GpuOpenclContext *) context, (GpuOpenclBuffer *) native, error))
    return native;

  context->backend->memory->free (context, native);

  return NULL;
}

static gboolean
check_shared (GpuNativeContext  *context,
              GError           **error)
{
  for (guint i = 0; i < context->n_devices; i++)
    {
      if ((context->devices[i]->capabilities & GPU_CAPABILITIES_SVM_FINE) != 0)
        continue;

      g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                   "kernels on %s cannot access host memory while it is mapped: the device has no "
                   "fine-grain shared virtual memory; use gpu_buffer_new() with "
                   "GPU_MEMORY_FLAGS_ALLOC_HOST for a buffer that host and device access in turn",
                   context->devices[i]->id);
      return FALSE;
    }

  return TRUE;
}

static GpuNativeBuffer *
alloc_shared (GpuNativeContext  *context,
              gsize              size,
              GError           **error)
{
  GpuNativeBuffer *buffer;

  if (!check_shared (context, error))
    return NULL;

  buffer = _gpu_opencl_svm_alloc (context, GPU_MEMORY_FLAGS_NONE, GPU_SVM_FLAGS_FINE_GRAIN, size, 0,
                                  error);

  if (buffer == NULL)
    set_out_of_host_memory (error);
  else
    buffer->is_locked = TRUE;

  return buffer;
}

GpuNativeBuffer *
_gpu_opencl_alloc_host (GpuNativeContext    *context,
                        GpuHostMemoryFlags  *flags,
                        int                 *numa_node,
                        gsize                size,
                        GError             **error)
{
  GpuNativeBuffer *buffer;

  *flags &= GPU_HOST_MEMORY_FLAGS_MAPPED;
  *numa_node = GPU_NUMA_NODE_NONE;

  if (*flags != GPU_HOST_MEMORY_FLAGS_NONE)
    return alloc_shared (context, size, error);

  buffer = _gpu_opencl_buffer_create (context, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, size,
                                      NULL, error);

  if (buffer == NULL)
    set_out_of_host_memory (error);

  return map_or_free (context, buffer, error);
}

/* Creates host memory without a cl_mem. */
static GpuNativeBuffer *
unmapped_new (gpointer data,
              gsize    size)
{
  GpuNativeBuffer *buffer = _gpu_opencl_buffer_new (NULL, size);

  buffer->host = data;
  buffer->is_host_only = TRUE;

  return buffer;
}

static GpuNativeBuffer *
map_program_memory (GpuNativeContext  *context,
                    gpointer           data,
                    gsize              size,
                    GError           **error)
{
  GpuNativeBuffer *buffer = _gpu_opencl_buffer_create (context, CL_MEM_READ_WRITE
                                                                | CL_MEM_USE_HOST_PTR, size, data,
                                                       error);

  if (buffer == NULL)
    set_out_of_host_memory (error);
  else
    ((GpuOpenclBuffer *) buffer)->is_registered = TRUE;

  return map_or_free (context, buffer, error);
}

/* Does not map read-only memory: drivers may write the unchanged contents back to mapped pages,
 * which fails on pages without write access. */
GpuNativeBuffer *
_gpu_opencl_register_host (GpuNativeContext    *context,
                           GpuHostMemoryFlags  *flags,
                           gpointer             data,
                           gsize                size,
                           GError             **error)
{
  if ((*flags & GPU_HOST_MEMORY_FLAGS_MAPPED) != 0)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                   "kernels on %s cannot access memory of the program while the host does; use "
                   "gpu_buffer_new_for_host_bytes() for a buffer that host and device access in "
                   "turn", context->devices[0]->id);
      return NULL;
    }

  *flags &= GPU_HOST_MEMORY_FLAGS_READ_ONLY;

  if (*flags != GPU_HOST_MEMORY_FLAGS_NONE)
    return unmapped_new (data, size);

  return map_program_memory (context, data, size, error);
}

/* NVIDIA's driver reads pageable memory when a command is enqueued, before earlier commands have
 * written their results to it. On that driver, the memory is therefore mapped through a buffer. */
GpuNativeBuffer *
_gpu_opencl_use_host (GpuNativeContext  *context,
                      gpointer           data,
                      gsize              size,
                      GError           **error)
{
  GpuNativeBuffer *buffer;

  if (!_gpu_opencl_device_is_nvidia ((GpuOpenclDevice *) context->devices[0]))
    return unmapped_new (data, size);

  buffer = map_program_memory (context, data, size, error);

  if (buffer != NULL)
    buffer->is_locked = FALSE;

  return buffer;
}

GpuNativeBuffer *
_gpu_opencl_slice_host (GpuNativeBuffer *parent,
                        gsize            offset,
                        gsize            size)
{
  return unmapped_new ((guint8 *) parent->host + offset, size);
}

/* --- commands --------------------------------------------------------------------------------- */

gboolean
_gpu_opencl_pass (GpuNativeStream  *stream,
                  GpuNativeEvent  **event,
                  GError          **error)
{
  cl_event native = NULL;
  cl_int code;

  if (event == NULL)
    return TRUE;

  code = clEnqueueMarkerWithWaitList (_gpu_opencl_stream_handle (stream), 0, NULL, &native);

  return _gpu_opencl_enqueued (stream, code, "clEnqueueMarkerWithWaitList", native, event, error,
                               "marker after the submitted work");
}

static gboolean
copy_sides (GpuNativeStream  *stream,
            GpuRegionSide     to,
            GpuRegionSide     from,
            gsize             size,
            GpuNativeEvent  **event,
            GError          **error)
{
  const GpuExtent extent = { size, 1, 1 };

  to.context = from.context = stream->context;
  to.row_pitch = to.slice_pitch = from.row_pitch = from.slice_pitch = size;

  return _gpu_opencl_copy_region (stream, &to, &from, &extent, event, error);
}

gboolean
_gpu_opencl_copy_host (GpuNativeStream  *stream,
                       GpuNativeBuffer  *destination,
                       gsize             destination_offset,
                       GpuNativeBuffer  *source,
                       gsize             source_offset,
                       gsize             size,
                       GpuNativeEvent  **event,
                       GError          **error)
{
  return copy_sides (stream, (GpuRegionSide) { .memory = destination,
                                               .offset = destination_offset },
                     (GpuRegionSide) { .memory = source, .offset = source_offset }, size, event,
                     error);
}

gboolean
_gpu_opencl_write_host (GpuNativeStream  *stream,
                        GpuNativeBuffer  *destination,
                        gsize             offset,
                        gconstpointer     data,
                        gsize             size,
                        GpuNativeEvent  **event,
                        GError          **error)
{
  return copy_sides (stream, (GpuRegionSide) { .memory = destination, .offset = offset },
                     (GpuRegionSide) { .data = (gpointer) data }, size, event, error);
}

gboolean
_gpu_opencl_read_host (GpuNativeStream  *stream,
                       GpuNativeBuffer  *source,
                       gsize             offset,
                       gpointer          data,
                       gsize             size,
                       GpuNativeEvent  **event,
                       GError          **error)
{
  return copy_sides (stream, (GpuRegionSide) { .data = data },
                     (GpuRegionSide) { .memory = source, .offset = offset }, size, event, error);
}
