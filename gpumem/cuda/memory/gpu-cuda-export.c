/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Exports memory to other processes. */
#include "config.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "gpumem/cuda/core/gpu-cuda-current.h"
#include "gpumem/cuda/memory/gpu-cuda-ipc.h"

/* Caller has entered the context. */
static gboolean
handle_init_buffer (GpuCudaHandle        *handle,
                    GpuCudaContext       *context,
                    GpuCudaBuffer        *buffer,
                    GpuCudaHandleKind     kind,
                    CUpointer_attribute   start_attribute,
                    CUpointer_attribute   size_attribute,
                    GError              **error)
{
  CUdeviceptr address = buffer->address;
  guint64 start = address;
  guint64 size = 0;

  _gpu_cuda_handle_init (handle, kind);
  _gpu_cuda_get_uuid (context->device->device, &handle->device);

  if (!_gpu_cuda_query_pointer (address, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, &start, error)
      || !_gpu_cuda_query_pointer (address, start_attribute, &start, error)
      || !_gpu_cuda_query_pointer (address, CU_POINTER_ATTRIBUTE_RANGE_SIZE, &size, error)
      || !_gpu_cuda_query_pointer (address, size_attribute, &size, error))
    return FALSE;

  handle->size = buffer->base.size;
  handle->offset = address - start;
  handle->whole_size = size != 0 ? size : handle->offset + handle->size;

  return TRUE;
}

/* Caller has entered the context. */
static GBytes *
export_memory (GpuCudaContext  *context,
               GpuCudaBuffer   *buffer,
               GError         **error)
{
  CUpointer_attribute capable = CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE;
  CUipcMemHandle native;
  GpuCudaHandle handle;

  if (_gpu_cuda_get_pointer_attribute (buffer->address, capable, TRUE) == FALSE)
    {
      g_set_error_literal (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                           "imported memory, stream-ordered memory and that of expandable pools "
                           "have no handle: export imported memory in the process that allocated "
                           "it; allocate other memory, or create its pool, with "
                           "GPU_MEMORY_FLAGS_SHAREABLE and use gpu_buffer_export_fds(), or use a "
                           "pool of the kind GPU_MEMORY_POOL_SEGMENTS without this flag");
      return NULL;
    }

  if (!handle_init_buffer (&handle, context, buffer, GPU_CUDA_HANDLE_MEMORY,
                           CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE,
                           error)
      || !_gpu_cuda_check_ipc (_gpu_cuda.cuIpcGetMemHandle (&native,
                                                            buffer->address - handle.offset),
                               "cuIpcGetMemHandle", error))
    return NULL;

  memcpy (handle.native, &native, sizeof native);

  return g_bytes_new (&handle, sizeof handle);
}

static gboolean
check_exportable (GpuCudaBuffer  *buffer,
                  GpuCudaGroup    group,
                  GError        **error)
{
  if (!_gpu_cuda_has_group (group, error))
    return FALSE;

  if (buffer->base.host == NULL)
    return TRUE;

  g_set_error_literal (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                       "host memory cannot be exported: share it by means of the operating system");

  return FALSE;
}

GBytes *
_gpu_cuda_export_handle (GpuNativeContext  *native,
                         GpuNativeBuffer   *native_buffer,
                         GError           **error)
{
  GpuCudaContext *context = (GpuCudaContext *) native;
  GpuCudaBuffer *buffer = (GpuCudaBuffer *) native_buffer;
  gboolean entered;
  GBytes *bytes;

  if (!check_exportable (buffer, GPU_CUDA_GROUP_IPC, error)
      || !_gpu_cuda_enter (context, &entered, error))
    return NULL;

  bytes = export_memory (context, buffer, error);
  _gpu_cuda_leave (entered);

  return bytes;
}

/* Caller has entered the context. The driver may report a whole chunk of the pool instead of the
 * allocation, so use the recorded start and size of the allocation. */
static gboolean
handle_init_pooled (GpuCudaHandle   *handle,
                    GpuCudaContext  *context,
                    GpuCudaBuffer   *buffer,
                    GError         **error)
{
  if (!handle_init_buffer (handle, context, buffer, GPU_CUDA_HANDLE_POOLED,
                           CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE,
                           error))
    return FALSE;

  if (buffer->whole != 0)
    {
      handle->offset = buffer->address - buffer->whole;
      handle->whole_size = buffer->whole_size;
    }

  return TRUE;
}

static gboolean
fail_pooled (GpuCudaContext  *context,
             GpuCudaBuffer   *buffer,
             CUmemoryPool     pool,
             const char      *function,
             CUresult         code,
             GError         **error)
{
  CUdeviceptr address = buffer->address;

  _gpu_cuda_set_error (error, function, code,
                       "%" G_GSIZE_FORMAT " bytes at 0x%" G_GINT64_MODIFIER "x, allocation at 0x%"
                       G_GINT64_MODIFIER "x, the driver's range begins at 0x%" G_GINT64_MODIFIER
                       "x with %" G_GUINT64_FORMAT " bytes; pool %p, that of the context is %p; "
                       "pools of the device support the handle types 0x%x", buffer->base.size,
                       (guint64) address, (guint64) buffer->whole,
                       _gpu_cuda_get_pointer_attribute (address,
                                                        CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, 0),
                       _gpu_cuda_get_pointer_attribute (address, CU_POINTER_ATTRIBUTE_RANGE_SIZE,
                                                        0),
                       (void *) pool, (void *) context->pool,
                       _gpu_cuda_get_pool_handle_types (context));

  return _gpu_cuda_fail_ipc (error);
}

/* Makes all exported descriptors of the context's pool share one open file description, so that
 * importers can detect that two descriptors refer to the same pool. Takes ownership of @fd. Returns
 * the descriptor to export. */
static int
share_pool_fd (GpuCudaContext *context,
               int             fd)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&context->import_lock);
  int copy = fcntl (context->pool_fd >= 0 ? context->pool_fd : fd, F_DUPFD_CLOEXEC, 3);

  if (copy < 0)
    return fd;

  if (context->pool_fd < 0)
    {
      context->pool_fd = copy;
      return fd;
    }

  close (fd);

  return copy;
}

/* Caller has entered the context. Exports both the pool and the address, because an importer must
 * import the pool before the address. */
static GBytes *
export_pooled (GpuCudaContext  *context,
               GpuCudaBuffer   *buffer,
               CUmemoryPool     pool,
               GArray          *fds,
               GError         **error)
{
  CUmemPoolPtrExportData native;
  CUresult code;
  GpuCudaHandle handle;
  int fd = -1;

  if ((_gpu_cuda_get_pool_handle_types (context) & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) == 0)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                   "stream-ordered memory cannot be exported as a file descriptor on device "
                   "%s: its pools support the handle types 0x%x only",
                   context->base.devices[0]->id, _gpu_cuda_get_pool_handle_types (context));
      return NULL;
    }

  if (!handle_init_pooled (&handle, context, buffer, error))
    return NULL;

  code = _gpu_cuda.cuMemPoolExportToShareableHandle (&fd, pool,
                                                     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);

  if (code != CUDA_SUCCESS)
    {
      fail_pooled (context, buffer, pool, "cuMemPoolExportToShareableHandle", code, error);
      return NULL;
    }

  code = _gpu_cuda.cuMemPoolExportPointer (&native, buffer->address - handle.offset);

  if (code != CUDA_SUCCESS)
    {
      close (fd);
      fail_pooled (context, buffer, pool, "cuMemPoolExportPointer", code, error);
      return NULL;
    }

  memcpy (handle.native, &native, sizeof native);

  if (pool == context->pool)
    fd = share_pool_fd (context, fd);

  g_array_append_val (fds, fd);

  return g_bytes_new (&handle, sizeof handle);
}

/* Caller has entered the context. Adds the descriptor of the chunk that is mapped at @start to
 * @fds. */
static gboolean
export_chunk (GpuCudaContext  *context,
              CUdeviceptr      start,
              GArray          *fds,
              GError         **error)
{
  CUmemGenericAllocationHandle allocation = 0;
  gboolean exported;
  int fd = -1;

  if (!_gpu_cuda_check_ipc (_gpu_cuda.cuMemRetainAllocationHandle
                              (&allocation, (void *) (guintptr) start),
                            "cuMemRetainAllocationHandle", error))
    {
      g_prefix_error (error, "only shareable and stream-ordered memory can be exported as "
                      "a file descriptor: ");
      return FALSE;
    }

  exported = _gpu_cuda_check_ipc (_gpu_cuda.cuMemExportToShareableHandle
                                    (&fd, allocation, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
                                  "cuMemExportToShareableHandle", error);
  _gpu_cuda.cuMemRelease (allocation);

  if (!exported)
    return FALSE;

  fd = _gpu_cuda_range_share_fd (context, start, fd);
  g_array_append_val (fds, fd);

  return TRUE;
}

/* Caller has entered the context. Adds the descriptors of all chunks from @start to @end to @fds,
 * and their sizes to @sizes. @size is the size of the first chunk. */
static gboolean
export_chunks (GpuCudaContext  *context,
               CUdeviceptr      start,
               CUdeviceptr      end,
               guint64          size,
               GArray          *fds,
               GArray          *sizes,
               GError         **error)
{
  for (;;)
    {
      if (!export_chunk (context, start, fds, error))
        return FALSE;

      g_array_append_val (sizes, size);

      if (size >= end - start)
        return TRUE;

      start += size;
      size = 0;

      if (!_gpu_cuda_query_pointer (start, CU_POINTER_ATTRIBUTE_MAPPING_SIZE, &size, error))
        return FALSE;

      if (size == 0)
        {
          g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                       "the driver reports no size of the memory at 0x%" G_GINT64_MODIFIER
                       "x, within a buffer over several chunks", (guint64) start);
          return FALSE;
        }
    }
}

/* Caller has entered the context. */
static GBytes *
export_virtual (GpuCudaContext  *context,
                GpuCudaBuffer   *buffer,
                gsize            size,
                GArray          *fds,
                GError         **error)
{
  g_autoptr (GArray) sizes = g_array_new (FALSE, FALSE, sizeof (guint64));
  GByteArray *bytes;
  GpuCudaHandle handle;

  if (!handle_init_buffer (&handle, context, buffer, GPU_CUDA_HANDLE_VIRTUAL,
                           CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR,
                           CU_POINTER_ATTRIBUTE_MAPPING_SIZE, error)
      || !export_chunks (context, buffer->address - handle.offset,
                         buffer->address + size, handle.whole_size, fds, sizes, error))
    return NULL;

  handle.size = size;
  handle.whole_size = 0;

  for (guint i = 0; i < sizes->len; i++)
    handle.whole_size += g_array_index (sizes, guint64, i);

  bytes = g_byte_array_new ();
  g_byte_array_append (bytes, (const guint8 *) &handle, sizeof handle);

  if (sizes->len > 1)
    g_byte_array_append (bytes, (const guint8 *) sizes->data, sizes->len * sizeof (guint64));

  return g_byte_array_free_to_bytes (bytes);
}

GBytes *
_gpu_cuda_export_fd (GpuNativeContext  *native,
                     GpuNativeBuffer   *native_buffer,
                     gsize              size,
                     GArray            *fds,
                     GError           **error)
{
  GpuCudaContext *context = (GpuCudaContext *) native;
  GpuCudaBuffer *buffer = (GpuCudaBuffer *) native_buffer;
  gboolean entered;
  GBytes *bytes = NULL;
  guint64 pool = 0;

  if (!check_exportable (buffer, GPU_CUDA_GROUP_VIRTUAL_MEMORY, error)
      || !_gpu_cuda_enter (context, &entered, error))
    return NULL;

  if (!_gpu_cuda_query_pointer (buffer->address, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, &pool, error))
    _gpu_cuda_fail_ipc (error);
  else if (pool != 0)
    bytes = export_pooled (context, buffer, (CUmemoryPool) (guintptr) pool, fds, error);
  else
    bytes = export_virtual (context, buffer, size, fds, error);

  _gpu_cuda_leave (entered);

  return bytes;
}
