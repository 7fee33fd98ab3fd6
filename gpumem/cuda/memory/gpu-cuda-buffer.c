/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <string.h>

#include "gpumem/cuda/core/gpu-cuda-current.h"

/* Copies on a stream of the library, because cuMemcpyHtoD() copies on the default stream. Such a
 * copy waits for streams of the application, and non-blocking streams do not wait for the copy. */
static gboolean
upload (GpuCudaContext  *context,
        GpuCudaBuffer   *buffer,
        gconstpointer    data,
        GError         **error)
{
  gsize size = buffer->base.size;
  CUstream stream;

  if (buffer->base.host != NULL)
    {
      memcpy (buffer->base.host, data, size);
      return TRUE;
    }

  return _gpu_cuda_get_internal_stream (context, &stream, error)
         && _gpu_cuda_check (_gpu_cuda.cuMemcpyHtoDAsync (buffer->address, data, size, stream),
                             "cuMemcpyHtoDAsync", error)
         && _gpu_cuda_check (_gpu_cuda.cuStreamSynchronize (stream), "cuStreamSynchronize", error);
}

/* Caller has entered the context. */
static GpuCudaBuffer *
alloc_entered (GpuCudaContext  *context,
               GpuMemoryFlags   flags,
               gsize            size,
               GError         **error)
{
  int numa_node = GPU_NUMA_NODE_DEVICE;
  CUdeviceptr address = 0;
  CUresult code;

  if ((flags & GPU_MEMORY_FLAGS_SHAREABLE) != 0)
    return _gpu_cuda_virtual_alloc (context, size, error);

  if ((flags & GPU_MEMORY_FLAGS_ALLOC_HOST) != 0)
    return _gpu_cuda_alloc_locked (context, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP,
                                   &numa_node, size, error);

  code = _gpu_cuda.cuMemAlloc (&address, size);
  if (_gpu_cuda_trim_pools (context, code))
    code = _gpu_cuda.cuMemAlloc (&address, size);

  if (code == CUDA_SUCCESS)
    return _gpu_cuda_buffer_new (address, size, GPU_CUDA_MEMORY_OWN);

  _gpu_cuda_fail_alloc (context, "cuMemAlloc", code, size, error);

  return NULL;
}

static gboolean
check_flags (GpuMemoryFlags   flags,
             GError         **error)
{
  if ((~flags & (GPU_MEMORY_FLAGS_SHAREABLE | GPU_MEMORY_FLAGS_ALLOC_HOST)) != 0)
    return TRUE;

  g_set_error_literal (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                       "host memory cannot be exported: share it by means of the operating system");

  return FALSE;
}

static GpuNativeBuffer *
buffer_alloc (GpuNativeContext  *native,
              GpuMemoryFlags     flags,
              gsize              size,
              gconstpointer      data,
              GError           **error)
{
  GpuCudaContext *context = (GpuCudaContext *) native;
  GpuCudaBuffer *buffer;
  gboolean entered;

  if (!check_flags (flags, error) || !_gpu_cuda_enter (context, &entered, error))
    return NULL;

  buffer = alloc_entered (context, flags, size, error);

  if (buffer != NULL && data != NULL && !upload (context, buffer, data, error))
    {
      _gpu_cuda_buffer_free (native, &buffer->base);
      buffer = NULL;
    }

  _gpu_cuda_leave (entered);

  return buffer != NULL ? &buffer->base : NULL;
}

/* Returns the element size for cuMemAllocPitch(): the size of the accesses with which kernels read
 * the rows. The driver accepts only 4, 8 and 16 bytes. */
static unsigned int
get_element_size (gsize element_size)
{
  if (element_size <= 4)
    return 4;

  return element_size <= 8 ? 8 : 16;
}

static GpuNativeBuffer *
buffer_alloc_pitched (GpuNativeContext  *native,
                      GpuMemoryFlags     flags,
                      gsize              row_size,
                      gsize              n_rows,
                      gsize              element_size,
                      gsize             *row_pitch,
                      GError           **error)
{
  GpuCudaContext *context = (GpuCudaContext *) native;
  gsize alignment = native->devices[0]->base_alignment;
  const unsigned int element = get_element_size (element_size);
  CUdeviceptr address = 0;
  size_t pitch = 0;
  gboolean entered;
  CUresult code;

  if ((flags & (GPU_MEMORY_FLAGS_ALLOC_HOST | GPU_MEMORY_FLAGS_SHAREABLE)) != 0)
    {
      *row_pitch = (row_size + alignment - 1) / alignment * alignment;
      return buffer_alloc (native, flags, *row_pitch * n_rows, NULL, error);
    }

  if (!_gpu_cuda_enter (context, &entered, error))
    return NULL;

  code = _gpu_cuda.cuMemAllocPitch (&address, &pitch, row_size, n_rows, element);
  if (_gpu_cuda_trim_pools (context, code))
    code = _gpu_cuda.cuMemAllocPitch (&address, &pitch, row_size, n_rows, element);

  if (code != CUDA_SUCCESS)
    _gpu_cuda_fail_alloc (context, "cuMemAllocPitch", code, row_size * n_rows, error);

  _gpu_cuda_leave (entered);

  if (code != CUDA_SUCCESS)
    return NULL;

  *row_pitch = pitch;

  return &_gpu_cuda_buffer_new (address, pitch * n_rows, GPU_CUDA_MEMORY_OWN)->base;
}

/* Memory of the driver's pools belongs to a device instead of a context. For such memory, the
 * driver reports no context. */
static gboolean
check_owner (GpuCudaContext  *context,
             CUdeviceptr      address,
             gboolean         is_host,
             GError         **error)
{
  guint64 owner = 0;
  guint64 value = (guint64) context->device->ordinal;
  int ordinal;

  if (is_host)
    return TRUE;

  if (!_gpu_cuda_query_pointer (address, CU_POINTER_ATTRIBUTE_CONTEXT, &owner, error)
      || !_gpu_cuda_query_pointer (address, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, &value, error))
    return FALSE;

  ordinal = (int) value;

  if (owner == (guintptr) context->context
      || (owner == 0 && ordinal == context->device->ordinal))
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "address 0x%" G_GINT64_MODIFIER "x belongs to context 0x%" G_GINT64_MODIFIER "x on "
               "cuda:%d, not to the context on %s", (guint64) address, owner, ordinal,
               context->device->base.id);

  return FALSE;
}

/* @start is 0 if the driver does not report the start of the allocation. */
static gboolean
check_size (CUdeviceptr   address,
            guint64       start,
            gsize        *size,
            GError      **error)
{
  guint64 range = *size;

  if (!_gpu_cuda_query_pointer (address, CU_POINTER_ATTRIBUTE_RANGE_SIZE, &range, error))
    return FALSE;

  start = start != 0 ? start : address;
  range -= MIN (address - start, range);

  if (*size == 0)
    *size = range;

  if (*size != 0 && *size <= range)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "there are %" G_GUINT64_FORMAT " bytes at address 0x%" G_GINT64_MODIFIER "x, not %"
               G_GSIZE_FORMAT, range, (guint64) address, *size);

  return FALSE;
}

static gboolean
check_adoption (CUdeviceptr   address,
                guint64       start,
                GpuWrapMode   mode,
                GError      **error)
{
  if (mode != GPU_WRAP_MODE_ADOPT || start == 0 || start == address)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "address 0x%" G_GINT64_MODIFIER "x is not the start of its allocation, so it cannot "
               "be adopted", (guint64) address);

  return FALSE;
}

/* Caller has entered the context. */
static GpuNativeBuffer *
wrap_entered (GpuCudaContext  *context,
              CUdeviceptr      address,
              gsize            size,
              GpuWrapMode      mode,
              GError         **error)
{
  guint64 type = 0;
  CUresult code = _gpu_cuda.cuPointerGetAttribute (&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                                   address);
  gboolean is_host = (type & G_MAXUINT32) == CU_MEMORYTYPE_HOST;
  guint64 host = address;
  guint64 start = 0;
  GpuCudaBuffer *buffer;

  if (code != CUDA_SUCCESS)
    {
      _gpu_cuda_set_error (error, "cuPointerGetAttribute", code, "address 0x%"
                           G_GINT64_MODIFIER "x", (guint64) address);
      return NULL;
    }

  if (!check_owner (context, address, is_host, error)
      || !_gpu_cuda_query_pointer (address, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, &start, error)
      || !check_size (address, start, &size, error)
      || !check_adoption (address, start, mode, error)
      || (is_host
          && !_gpu_cuda_query_pointer (address, CU_POINTER_ATTRIBUTE_HOST_POINTER, &host, error)))
    return NULL;

  buffer = _gpu_cuda_buffer_new (address, size, GPU_CUDA_MEMORY_BORROWED);
  buffer->around = start;
  buffer->is_chunked = is_host;

  if (is_host)
    buffer->base.host = (gpointer) (guintptr) host;
  if (mode == GPU_WRAP_MODE_ADOPT)
    buffer->kind = is_host ? GPU_CUDA_MEMORY_HOST : GPU_CUDA_MEMORY_OWN;

  return &buffer->base;
}

static GpuNativeBuffer *
buffer_wrap (GpuNativeContext  *context,
             guint64            handle,
             gsize              size,
             GpuWrapMode        mode,
             GError           **error)
{
  GpuNativeBuffer *buffer;
  gboolean entered;

  if (!_gpu_cuda_enter ((GpuCudaContext *) context, &entered, error))
    return NULL;

  buffer = wrap_entered ((GpuCudaContext *) context, handle, size, mode, error);
  _gpu_cuda_leave (entered);

  return buffer;
}

static void
buffer_move_slice (GpuNativeBuffer  *slice,
                   GpuNativeBuffer  *parent,
                   gsize             offset,
                   gsize             size)
{
  slice->size = size;
  ((GpuCudaBuffer *) slice)->address = ((GpuCudaBuffer *) parent)->address + offset;

  if (parent->host != NULL)
    slice->host = (guint8 *) parent->host + offset;
}

static GpuNativeBuffer *
buffer_slice (GpuNativeContext  *context G_GNUC_UNUSED,
              GpuNativeBuffer   *native,
              GpuMemoryFlags     flags G_GNUC_UNUSED,
              gsize              offset,
              gsize              size,
              GError           **error G_GNUC_UNUSED)
{
  GpuCudaBuffer *parent = (GpuCudaBuffer *) native;
  GpuCudaBuffer *buffer = _gpu_cuda_buffer_new (0, 0, parent->kind == GPU_CUDA_MEMORY_SYSTEM
                                                      ? parent->kind : GPU_CUDA_MEMORY_BORROWED);

  buffer->whole = parent->whole;
  buffer->whole_size = parent->whole_size;
  buffer->is_managed = parent->is_managed;
  buffer->is_chunked = parent->is_chunked;
  buffer_move_slice (&buffer->base, native, offset, size);

  return &buffer->base;
}

const GpuBufferOps _gpu_cuda_buffer_ops =
{
  .max_fill_pattern = GPU_CUDA_PATTERN_MAX,
  .max_now_size     = 1024 * 1024,
  .alloc            = buffer_alloc,
  .alloc_pitched    = buffer_alloc_pitched,
  .alloc_for_host   = _gpu_cuda_alloc_for_host,
  .alloc_host       = _gpu_cuda_alloc_host,
  .register_host    = _gpu_cuda_register_host,
  .use_host         = _gpu_cuda_use_host,
  .wrap             = buffer_wrap,
  .slice            = buffer_slice,
  .move_slice       = buffer_move_slice,
  .export_handle    = _gpu_cuda_export_handle,
  .import_handle    = _gpu_cuda_import_handle,
  .export_fd        = _gpu_cuda_export_fd,
  .import_fd        = _gpu_cuda_import_fd,
  .get_fd_kinds     = _gpu_cuda_get_fd_kinds,
  .share_fd         = _gpu_cuda_share_fd,
  .open_fd          = _gpu_cuda_open_fd,
  .alloc_ordered    = _gpu_cuda_alloc_ordered,
  .free_ordered     = _gpu_cuda_free_ordered,
  .copy             = _gpu_cuda_copy,
  .copy_peer        = _gpu_cuda_copy_peer,
  .prepare_batch    = _gpu_cuda_prepare_batch,
  .copy_batch       = _gpu_cuda_copy_batch,
  .copy_rows        = _gpu_cuda_copy_rows,
  .write            = _gpu_cuda_write,
  .read             = _gpu_cuda_read,
  .write_now        = _gpu_cuda_write_now,
  .read_now         = _gpu_cuda_read_now,
  .fill             = _gpu_cuda_fill,
  .fill_region      = _gpu_cuda_fill_region,
  .map              = _gpu_cuda_map
};
