/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <string.h>

#include "gpumem/opencl/driver/gpu-opencl.h"

static GpuNativeBuffer *
buffer_alloc (GpuNativeContext  *context,
              GpuMemoryFlags     flags,
              gsize              size,
              gconstpointer      data,
              GError           **error)
{
  cl_mem_flags cl_flags = _gpu_opencl_get_root_flags (flags);

  if (flags & GPU_MEMORY_FLAGS_ALLOC_HOST)
    cl_flags |= CL_MEM_ALLOC_HOST_PTR;
  if (data != NULL)
    cl_flags |= CL_MEM_COPY_HOST_PTR;

  return _gpu_opencl_buffer_create (context, cl_flags, size, (gpointer) data, error);
}

/* Ignores GPU_MEMORY_FLAGS_ALLOC_HOST, because the buffer uses @data, which is host memory
 * already. */
static GpuNativeBuffer *
buffer_alloc_for_host (GpuNativeContext  *context,
                       GpuMemoryFlags     flags,
                       gpointer           data,
                       gsize              size,
                       GError           **error)
{
  return _gpu_opencl_buffer_create (context, _gpu_opencl_get_root_flags (flags)
                                             | CL_MEM_USE_HOST_PTR, size, data, error);
}

static gboolean
check_foreign (GpuNativeContext  *context,
               cl_mem             mem,
               gsize             *size,
               GError           **error)
{
  cl_mem_object_type type = 0;
  gsize mem_size = 0;

  if (!_gpu_opencl_mem_get (mem, CL_MEM_TYPE, &type, sizeof type, error)
      || !_gpu_opencl_mem_get (mem, CL_MEM_SIZE, &mem_size, sizeof mem_size, error))
    return FALSE;

  if (type != CL_MEM_OBJECT_BUFFER)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "memory object %p is not a buffer: its type is 0x%04x", (gpointer) mem, type);
      return FALSE;
    }

  if (!_gpu_opencl_mem_check (context, mem, error))
    return FALSE;

  if (*size > mem_size)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "buffer %p has %" G_GSIZE_FORMAT " bytes, not %" G_GSIZE_FORMAT,
                   (gpointer) mem, mem_size, *size);
      return FALSE;
    }

  if (*size == 0)
    *size = mem_size;

  return TRUE;
}

static GpuNativeBuffer *
buffer_wrap (GpuNativeContext  *context,
             guint64            handle,
             gsize              size,
             GpuWrapMode        mode,
             GError           **error)
{
  cl_mem mem = (cl_mem) (guintptr) handle;
  GpuNativeBuffer *buffer;
  cl_mem parent;
  gsize parent_offset;

  if (!check_foreign (context, mem, &size, error)
      || !_gpu_opencl_mem_find_parent (mem, &parent, &parent_offset, error)
      || (mode == GPU_WRAP_MODE_BORROW && !_gpu_opencl_mem_retain (mem, error)))
    return NULL;

  buffer = _gpu_opencl_buffer_new (mem, size);
  /* The library may also have an object for the parent, which shares the memory. */
  ((GpuOpenclBuffer *) buffer)->parent = parent;
  ((GpuOpenclBuffer *) buffer)->parent_offset = parent_offset;
  /* A buffer that the program created without CL_MEM_DEVICE_PRIVATE_ADDRESS_EXT has no address. */
  _gpu_opencl_buffer_read_address (context, (GpuOpenclBuffer *) buffer, NULL);

  return buffer;
}

static GpuNativeBuffer *
buffer_slice (GpuNativeContext  *context,
              GpuNativeBuffer   *parent,
              GpuMemoryFlags     flags,
              gsize              offset,
              gsize              size,
              GError           **error)
{
  GpuOpenclBuffer *root = (GpuOpenclBuffer *) parent;
  /* A sub-buffer has no sub-buffers, so a part of it is a sub-buffer of its own parent. */
  cl_mem whole = root->parent != NULL ? root->parent : root->mem;
  const cl_buffer_region region = { root->parent_offset + offset, size };
  cl_mem_flags access = _gpu_opencl_get_access_flags (flags);
  GpuOpenclSlice *slice = NULL;
  GpuOpenclBuffer *buffer;
  cl_mem mem = NULL;
  cl_int code;

  if (parent->is_host_only)
    return _gpu_opencl_slice_host (parent, offset, size);

  if (root->usm != NULL)
    return _gpu_opencl_usm_slice (root, offset, size);

  if (whole == root->mem && _gpu_opencl_device_is_nvidia ((GpuOpenclDevice *) context->devices[0]))
    slice = _gpu_opencl_slice_get ((GpuOpenclContext *) context, root, access, &region, &mem,
                                   &code);
  else
    mem = clCreateSubBuffer (whole, access, CL_BUFFER_CREATE_TYPE_REGION, &region, &code);

  if (code == CL_SUCCESS)
    {
      buffer = (GpuOpenclBuffer *) _gpu_opencl_buffer_new (mem, size);
      buffer->slice = slice;
      buffer->parent = whole;
      buffer->parent_offset = region.origin;
      if (parent->host != NULL)
        buffer->base.host = (guint8 *) parent->host + offset;

      if (parent->in_place != NULL)
        buffer->base.in_place = (guint8 *) parent->in_place + offset;

      if (root->address != 0)
        buffer->address = root->address + offset;

      if (root->svm != NULL)
        buffer->svm = (guint8 *) root->svm + offset;

      if (root->svm_argument != NULL)
        buffer->svm_argument = (guint8 *) root->svm_argument + offset;

      return &buffer->base;
    }

  _gpu_opencl_set_error (error, "clCreateSubBuffer", code,
                         "flags 0x%x, %" G_GSIZE_FORMAT " bytes from offset %" G_GSIZE_FORMAT
                         " of a buffer of %" G_GSIZE_FORMAT " bytes", flags, size, offset,
                         parent->size);
  return NULL;
}

static gboolean
buffer_copy (GpuNativeStream  *stream,
             GpuNativeBuffer  *destination,
             gsize             destination_offset,
             GpuNativeBuffer  *source,
             gsize             source_offset,
             gsize             size,
             GpuNativeEvent  **event,
             GError          **error)
{
  const GpuOpenclBuffer *to = (const GpuOpenclBuffer *) destination;
  const GpuOpenclBuffer *from = (const GpuOpenclBuffer *) source;
  cl_event native = NULL;
  gboolean held;
  cl_int code;

  if (G_UNLIKELY (to->usm != NULL && from->usm != NULL))
    return _gpu_opencl_usm_copy (stream, to->usm, (guint8 *) to->svm + destination_offset,
                                 (guint8 *) from->svm + source_offset, size, event, error);

  if (G_UNLIKELY (to->mem == NULL || from->mem == NULL || destination->is_host_only
                  || source->is_host_only))
    return _gpu_opencl_copy_host (stream, destination, destination_offset, source, source_offset,
                                  size, event, error);

  held = _gpu_opencl_hold_slices (stream);
  code = clEnqueueCopyBuffer (_gpu_opencl_stream_handle (stream),
                              _gpu_opencl_buffer_handle (source),
                              _gpu_opencl_buffer_handle (destination), source_offset,
                              destination_offset, size, 0, NULL, event != NULL ? &native : NULL);
  _gpu_opencl_release_slices (stream, held);

  if (G_LIKELY (code == CL_SUCCESS && event == NULL))
    return TRUE;

  return _gpu_opencl_enqueued (stream, code, "clEnqueueCopyBuffer", native, event, error,
                               "%" G_GSIZE_FORMAT " bytes from offset %" G_GSIZE_FORMAT " of %"
                               G_GSIZE_FORMAT " bytes to offset %" G_GSIZE_FORMAT " of %"
                               G_GSIZE_FORMAT " bytes", size, source_offset, source->size,
                               destination_offset, destination->size);
}

static gboolean
enqueue_write (GpuNativeStream  *stream,
               GpuNativeBuffer  *destination,
               gsize             offset,
               gconstpointer     data,
               gsize             size,
               cl_event         *event,
               GError          **error)
{
  gboolean held = _gpu_opencl_hold_slices (stream);
  const char *function;
  cl_int code = _gpu_opencl_enqueue_write (stream, _gpu_opencl_buffer_handle (destination), offset,
                                           data, size, event, &function);

  _gpu_opencl_release_slices (stream, held);

  if (G_LIKELY (code == CL_SUCCESS))
    return TRUE;

  _gpu_opencl_set_error (error, function, code, "%" G_GSIZE_FORMAT
                         " bytes to offset %" G_GSIZE_FORMAT " of %" G_GSIZE_FORMAT " bytes", size,
                         offset, destination->size);
  return FALSE;
}

static gboolean
buffer_write (GpuNativeStream  *stream,
              GpuNativeBuffer  *destination,
              gsize             offset,
              gconstpointer     data,
              gsize             size,
              GpuNativeEvent  **event,
              GError          **error)
{
  const GpuOpenclBuffer *buffer = (const GpuOpenclBuffer *) destination;
  cl_event native = NULL;

  if (G_UNLIKELY (buffer->usm != NULL))
    return _gpu_opencl_usm_copy (stream, buffer->usm, (guint8 *) buffer->svm + offset, data, size,
                                 event, error);

  if (G_UNLIKELY (destination->is_host_only))
    return _gpu_opencl_write_host (stream, destination, offset, data, size, event, error);

  if (!enqueue_write (stream, destination, offset, data, size, event != NULL ? &native : NULL,
                      error))
    return FALSE;

  if (event != NULL)
    *event = _gpu_opencl_event_new (stream, native);
  return TRUE;
}

static gboolean
enqueue_read (GpuNativeStream  *stream,
              GpuNativeBuffer  *source,
              gsize             offset,
              gpointer          data,
              gsize             size,
              cl_event         *event,
              GError          **error)
{
  gboolean held = _gpu_opencl_hold_slices (stream);
  const char *function;
  cl_int code = _gpu_opencl_enqueue_read (stream, _gpu_opencl_buffer_handle (source), offset, data,
                                          size, event, &function);

  _gpu_opencl_release_slices (stream, held);

  if (G_LIKELY (code == CL_SUCCESS))
    return TRUE;

  _gpu_opencl_set_error (error, function, code, "%" G_GSIZE_FORMAT
                         " bytes from offset %" G_GSIZE_FORMAT " of %" G_GSIZE_FORMAT " bytes",
                         size, offset, source->size);
  return FALSE;
}

static gboolean
buffer_read (GpuNativeStream  *stream,
             GpuNativeBuffer  *source,
             gsize             offset,
             gpointer          data,
             gsize             size,
             GpuNativeEvent  **event,
             GError          **error)
{
  const GpuOpenclBuffer *buffer = (const GpuOpenclBuffer *) source;
  cl_event native = NULL;

  if (G_UNLIKELY (buffer->usm != NULL))
    return _gpu_opencl_usm_copy (stream, buffer->usm, data, (guint8 *) buffer->svm + offset, size,
                                 event, error);

  if (G_UNLIKELY (source->is_host_only))
    return _gpu_opencl_read_host (stream, source, offset, data, size, event, error);

  if (!enqueue_read (stream, source, offset, data, size, event != NULL ? &native : NULL, error))
    return FALSE;

  if (event != NULL)
    *event = _gpu_opencl_event_new (stream, native);
  return TRUE;
}

/* Waits for @event and frees it. */
static gboolean
wait_for (GpuNativeStream  *stream,
          GpuNativeEvent   *event,
          GError          **error)
{
  cl_event handle = ((GpuOpenclEvent *) event)->event;

  clRetainEvent (handle);
  _gpu_opencl_event_ops.free (event);

  return _gpu_opencl_wait_and_release (stream, handle, error);
}

static gboolean
buffer_write_now (GpuNativeStream  *stream,
                  GpuNativeBuffer  *destination,
                  gsize             offset,
                  gconstpointer     data,
                  gsize             size,
                  GError          **error)
{
  GpuNativeEvent *usm_event = NULL;
  cl_event event = NULL;

  if (!_gpu_backend_check_process (error))
    return FALSE;

  if (((GpuOpenclBuffer *) destination)->usm != NULL)
    return buffer_write (stream, destination, offset, data, size, &usm_event, error)
           && wait_for (stream, usm_event, error);

  if (destination->is_host_only)
    {
      memcpy ((guint8 *) destination->host + offset, data, size);
      return TRUE;
    }

  return enqueue_write (stream, destination, offset, data, size, &event, error) &&
         _gpu_opencl_wait_and_release (stream, event, error);
}

static gboolean
buffer_read_now (GpuNativeStream  *stream,
                 GpuNativeBuffer  *source,
                 gsize             offset,
                 gpointer          data,
                 gsize             size,
                 GError          **error)
{
  GpuNativeEvent *usm_event = NULL;
  cl_event event = NULL;

  if (!_gpu_backend_check_process (error))
    return FALSE;

  if (((GpuOpenclBuffer *) source)->usm != NULL)
    return buffer_read (stream, source, offset, data, size, &usm_event, error)
           && wait_for (stream, usm_event, error);

  if (source->is_host_only)
    {
      memcpy (data, (const guint8 *) source->host + offset, size);
      return TRUE;
    }

  return enqueue_read (stream, source, offset, data, size, &event, error) &&
         _gpu_opencl_wait_and_release (stream, event, error);
}

static gboolean
buffer_fill (GpuNativeStream      *stream,
             GpuNativeBuffer      *destination,
             const GpuNativeFill  *fill,
             GpuNativeEvent      **event,
             GError              **error)
{
  cl_event native = NULL;
  gboolean held;
  cl_int code;

  if (G_UNLIKELY (((GpuOpenclBuffer *) destination)->usm != NULL))
    return _gpu_opencl_usm_fill (stream, destination, fill, event, error);

  if (G_UNLIKELY (destination->is_host_only))
    return _gpu_opencl_fill_host (stream, destination, fill, event, error);

  held = _gpu_opencl_hold_slices (stream);
  code = clEnqueueFillBuffer (_gpu_opencl_stream_handle (stream),
                              _gpu_opencl_buffer_handle (destination), fill->pattern,
                              fill->pattern_size, fill->offset, fill->size, 0, NULL,
                              event != NULL ? &native : NULL);
  _gpu_opencl_release_slices (stream, held);

  if (G_LIKELY (code == CL_SUCCESS && event == NULL))
    return TRUE;

  return _gpu_opencl_enqueued (stream, code, "clEnqueueFillBuffer", native, event, error,
                               "%" G_GSIZE_FORMAT " bytes from offset %" G_GSIZE_FORMAT " of %"
                               G_GSIZE_FORMAT " bytes, with a pattern of %" G_GSIZE_FORMAT
                               " bytes", fill->size, fill->offset, destination->size,
                               fill->pattern_size);
}

static gpointer
buffer_map (GpuNativeStream  *stream,
            GpuNativeBuffer  *buffer,
            GpuMapFlags       flags,
            gsize             offset,
            gsize             size,
            GpuNativeEvent  **event,
            GError          **error)
{
  cl_event native = NULL;
  gpointer data;
  gboolean held;
  cl_int code;

  if (((GpuOpenclBuffer *) buffer)->usm != NULL)
    return _gpu_opencl_usm_map (stream, buffer, flags, offset, size, event, error);

  if (buffer->is_host_only)
    return _gpu_opencl_pass (stream, event, error) ? (guint8 *) buffer->host + offset : NULL;

  held = _gpu_opencl_hold_slices (stream);
  data = clEnqueueMapBuffer (_gpu_opencl_stream_handle (stream),
                             _gpu_opencl_buffer_handle (buffer), CL_FALSE,
                             _gpu_opencl_get_map_flags (flags), offset, size, 0, NULL,
                             event != NULL ? &native : NULL, &code);
  _gpu_opencl_release_slices (stream, held);

  if (!_gpu_opencl_enqueued (stream, code, "clEnqueueMapBuffer", native, event, error,
                             "%" G_GSIZE_FORMAT " bytes from offset %" G_GSIZE_FORMAT " of %"
                             G_GSIZE_FORMAT " bytes, flags 0x%x", size, offset, buffer->size,
                             flags))
    return NULL;

  return data;
}

const GpuBufferOps _gpu_opencl_buffer_ops =
{
  .is_deferred    = TRUE,
  .max_now_size   = 16 * 1024,
  .alloc          = buffer_alloc,
  .alloc_for_host = buffer_alloc_for_host,
  .alloc_host     = _gpu_opencl_alloc_host,
  .register_host  = _gpu_opencl_register_host,
  .use_host       = _gpu_opencl_use_host,
  .wrap           = buffer_wrap,
  .slice          = buffer_slice,
  .opens_from_start = TRUE,
  .get_fd_kinds   = _gpu_opencl_get_fd_kinds,
  .open_fd        = _gpu_opencl_open_fd,
  .acquire        = _gpu_opencl_acquire,
  .release        = _gpu_opencl_release,
  .copy           = buffer_copy,
  .prepare_batch  = _gpu_opencl_prepare_batch,
  .copy_batch     = _gpu_opencl_copy_batch,
  .write          = buffer_write,
  .read           = buffer_read,
  .write_now      = buffer_write_now,
  .read_now       = buffer_read_now,
  .fill           = buffer_fill,
  .map            = buffer_map
};
