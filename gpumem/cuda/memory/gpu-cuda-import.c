/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Memory of other processes: what is imported twice is opened once. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "gpumem/cuda/core/gpu-cuda-current.h"
#include "gpumem/cuda/memory/gpu-cuda-ipc.h"

/* Memory of another process, as often as it is imported. */
typedef struct
{
  guint          refs;
  GpuCudaHandle  handle;            /* its process, device, id and kind are the key */
  CUdeviceptr    address;           /* of the whole allocation; pooled: of the buffer's */
  CUmemoryPool   pool;              /* nullable */
  GpuCudaRange  *range;             /* nullable; of virtual memory */
  CUexternalMemory external;        /* nullable */
} Import;

static guint
import_hash (gconstpointer key)
{
  const GpuCudaHandle *handle = key;
  guint64 bits = handle->process ^ (handle->id * G_GUINT64_CONSTANT (0x9e3779b97f4a7c15));

  return (guint) (bits ^ (bits >> 32));
}

static gboolean
import_equal (gconstpointer a,
              gconstpointer b)
{
  const GpuCudaHandle *one = a;
  const GpuCudaHandle *other = b;

  return one->process == other->process && one->id == other->id && one->kind == other->kind
         && memcmp (&one->device, &other->device, sizeof one->device) == 0;
}

/* With the context entered. */
static gboolean
open_memory (Import  *import,
             GError **error)
{
  CUipcMemHandle native;

  memcpy (&native, import->handle.native, sizeof native);

  return _gpu_cuda_check_ipc (_gpu_cuda.cuIpcOpenMemHandle (&import->address, native,
                                                            CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
                              "cuIpcOpenMemHandle", error);
}

/* With the context entered. */
static gboolean
open_virtual (GpuCudaContext  *context,
              Import          *import,
              int              fd,
              GError         **error)
{
  CUmemGenericAllocationHandle allocation = 0;

  if (!_gpu_cuda_check_ipc (_gpu_cuda.cuMemImportFromShareableHandle
                              (&allocation, (void *) (gintptr) fd,
                               CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
                            "cuMemImportFromShareableHandle", error))
    return FALSE;

  import->range = _gpu_cuda_range_new_for (context, allocation, import->handle.whole_size, error);
  _gpu_cuda.cuMemRelease (allocation);

  if (import->range == NULL)
    return _gpu_cuda_fail_ipc (error);

  import->address = import->range->address;

  return TRUE;
}

/* With the context entered. */
static gboolean
open_pooled (GpuCudaContext  *context,
             Import          *import,
             int              fd,
             GError         **error)
{
  const CUmemAccessDesc access =
  {
    .location = { CU_MEM_LOCATION_TYPE_DEVICE, context->device->device },
    .flags    = CU_MEM_ACCESS_FLAGS_PROT_READWRITE
  };
  CUmemPoolPtrExportData native;

  memcpy (&native, import->handle.native, sizeof native);

  if (!_gpu_cuda_check_ipc (_gpu_cuda.cuMemPoolImportFromShareableHandle
                              (&import->pool, (void *) (gintptr) fd,
                               CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
                            "cuMemPoolImportFromShareableHandle", error))
    return FALSE;

  if (_gpu_cuda_check_ipc (_gpu_cuda.cuMemPoolSetAccess (import->pool, &access, 1),
                           "cuMemPoolSetAccess", error)
      && _gpu_cuda_check_ipc (_gpu_cuda.cuMemPoolImportPointer (&import->address, import->pool,
                                                                &native),
                              "cuMemPoolImportPointer", error))
    return TRUE;

  _gpu_cuda.cuMemPoolDestroy (import->pool);

  return FALSE;
}

/* With the context entered. The driver takes the descriptor over where it succeeds. */
static gboolean
import_external (Import                      *import,
                 int                          fd,
                 CUexternalMemoryHandleType   type,
                 GError                     **error)
{
  CUDA_EXTERNAL_MEMORY_HANDLE_DESC description =
  {
    .type   = type,
    .handle = { .fd = fcntl (fd, F_DUPFD_CLOEXEC, 3) },
    .size   = import->handle.whole_size
  };

  if (description.handle.fd >= 0
      && _gpu_cuda_check_ipc (_gpu_cuda.cuImportExternalMemory (&import->external, &description),
                              "cuImportExternalMemory", error))
    return TRUE;

  if (description.handle.fd >= 0)
    close (description.handle.fd);
  else
    g_set_error (error, GPU_ERROR, GPU_ERROR_FAILED, "fcntl: %s (%d): file descriptor %d",
                 g_strerror (errno), errno, fd);

  return FALSE;
}

/* With the context entered. */
static gboolean
open_external (GpuCudaContext  *context,
               Import          *import,
               int              fd,
               GError         **error)
{
  const CUDA_EXTERNAL_MEMORY_BUFFER_DESC description = { .size = import->handle.whole_size };
  CUexternalMemoryHandleType type;

  memcpy (&type, import->handle.native, sizeof type);

  if (!import_external (import, fd, type, error))
    {
      /* Drivers know the type before they take any. */
      if (type == GPU_CUDA_EXTERNAL_MEMORY_DMA_BUF_FD
          && g_error_matches (*error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED))
        g_atomic_int_set (&context->device->refuses_dma_bufs, TRUE);

      return FALSE;
    }

  if (_gpu_cuda_check_ipc (_gpu_cuda.cuExternalMemoryGetMappedBuffer (&import->address,
                                                                      import->external,
                                                                      &description),
                           "cuExternalMemoryGetMappedBuffer", error))
    return TRUE;

  _gpu_cuda.cuDestroyExternalMemory (import->external);

  return FALSE;
}

static gboolean
import_open (GpuCudaContext  *context,
             Import          *import,
             int              fd,
             GError         **error)
{
  switch ((GpuCudaHandleKind) import->handle.kind)
    {
    case GPU_CUDA_HANDLE_MEMORY:
      return open_memory (import, error);
    case GPU_CUDA_HANDLE_VIRTUAL:
      return open_virtual (context, import, fd, error);
    case GPU_CUDA_HANDLE_POOLED:
      return open_pooled (context, import, fd, error);
    case GPU_CUDA_HANDLE_EXTERNAL:
      return open_external (context, import, fd, error);
    case GPU_CUDA_HANDLE_EVENT:
    default:
      g_assert_not_reached ();
    }
}

/* With the context entered. The exporter may be gone. */
static void
import_close (GpuCudaContext *context,
              Import         *import)
{
  CUstream stream;

  switch ((GpuCudaHandleKind) import->handle.kind)
    {
    case GPU_CUDA_HANDLE_MEMORY:
      _gpu_cuda.cuIpcCloseMemHandle (import->address);
      break;
    case GPU_CUDA_HANDLE_VIRTUAL:
      _gpu_cuda_range_free (context, import->range);
      break;
    case GPU_CUDA_HANDLE_EXTERNAL:
      _gpu_cuda.cuMemFree (import->address);
      _gpu_cuda.cuDestroyExternalMemory (import->external);
      break;
    case GPU_CUDA_HANDLE_POOLED:
      if (!_gpu_cuda_get_internal_stream (context, &stream, NULL))
        _gpu_cuda.cuMemFree (import->address);
      else if (_gpu_cuda.cuMemFreeAsync (import->address, stream) == CUDA_SUCCESS)
        _gpu_cuda.cuStreamSynchronize (stream);
      _gpu_cuda.cuMemPoolDestroy (import->pool);
      break;
    case GPU_CUDA_HANDLE_EVENT:
    default:
      break;
    }
}

/* The bytes come from outside: believe the driver rather than them. */
static gboolean
check_range (const Import  *import,
             GError       **error)
{
  CUdeviceptr address = import->address;
  guint64 start = _gpu_cuda_ask_address (address, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address);
  guint64 range = _gpu_cuda_ask_address (address, CU_POINTER_ATTRIBUTE_RANGE_SIZE, 0);

  range -= MIN (address - start, range);

  if (import->handle.whole_size <= range)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_IPC,
               "the handle tells of %" G_GUINT64_FORMAT " bytes where there are %"
               G_GUINT64_FORMAT, import->handle.whole_size, range);

  return FALSE;
}

CUdeviceptr
_gpu_cuda_import_get_address (gpointer import)
{
  return ((Import *) import)->address;
}

void
_gpu_cuda_import_unref (GpuCudaContext *context,
                        gpointer        data)
{
  Import *import = data;
  gboolean entered;

  g_mutex_lock (&context->import_lock);

  if (--import->refs > 0)
    {
      g_mutex_unlock (&context->import_lock);
      return;
    }

  g_hash_table_remove (context->imported, &import->handle);

  if (_gpu_cuda_enter_again (context, &entered, NULL))
    {
      import_close (context, import);
      _gpu_cuda_leave (entered);
    }

  g_mutex_unlock (&context->import_lock);
  g_free (import);
}

/* With the lock held and the context entered. */
static Import *
import_locked (GpuCudaContext       *context,
               const GpuCudaHandle  *handle,
               int                   fd,
               GError              **error)
{
  Import *import;

  if (context->imported == NULL)
    context->imported = g_hash_table_new (import_hash, import_equal);

  import = g_hash_table_lookup (context->imported, handle);

  if (import != NULL && import->handle.whole_size == handle->whole_size)
    {
      import->refs++;
      return import;
    }

  if (import != NULL)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_IPC, "the handle tells of %" G_GUINT64_FORMAT
                   " bytes, the same one before told of %" G_GUINT64_FORMAT, handle->whole_size,
                   import->handle.whole_size);
      return NULL;
    }

  import = g_new0 (Import, 1);
  import->refs = 1;
  import->handle = *handle;

  if (!import_open (context, import, fd, error))
    {
      g_free (import);
      return NULL;
    }

  if (!check_range (import, error))
    {
      import_close (context, import);
      g_free (import);
      return NULL;
    }

  g_hash_table_insert (context->imported, &import->handle, import);

  return import;
}

GpuNativeBuffer *
_gpu_cuda_import_for (GpuNativeContext     *native,
                      const GpuCudaHandle  *handle,
                      int                   fd,
                      gsize                 size,
                      GError              **error)
{
  GpuCudaContext *context = (GpuCudaContext *) native;
  GpuCudaBuffer *buffer;
  gboolean entered;
  Import *memory;

  if (!_gpu_cuda_enter (context, &entered, error))
    return NULL;

  g_mutex_lock (&context->import_lock);
  memory = import_locked (context, handle, fd, error);
  g_mutex_unlock (&context->import_lock);
  _gpu_cuda_leave (entered);

  if (memory == NULL)
    return NULL;

  buffer = _gpu_cuda_buffer_new (memory->address + handle->offset,
                                 size != 0 ? size : handle->size, GPU_CUDA_MEMORY_IMPORTED);
  buffer->shared = memory;

  return &buffer->base;
}

GpuNativeBuffer *
_gpu_cuda_import_handle (GpuNativeContext  *context,
                         GBytes            *bytes,
                         gsize              size,
                         GError           **error)
{
  GpuCudaHandle handle;

  if (!_gpu_cuda_has_group (GPU_CUDA_GROUP_IPC, error)
      || !_gpu_cuda_handle_read (&handle, bytes, 1u << GPU_CUDA_HANDLE_MEMORY, size, error))
    return NULL;

  return _gpu_cuda_import_for (context, &handle, -1, size, error);
}

GpuNativeBuffer *
_gpu_cuda_import_fd (GpuNativeContext  *context,
                     GBytes            *bytes,
                     int                fd,
                     gsize              size,
                     GError           **error)
{
  const guint kinds = 1u << GPU_CUDA_HANDLE_VIRTUAL | 1u << GPU_CUDA_HANDLE_POOLED;
  GpuCudaHandle handle;

  if (!_gpu_cuda_handle_read (&handle, bytes, kinds, size, error)
      || !_gpu_cuda_has_group (handle.kind == GPU_CUDA_HANDLE_POOLED ? GPU_CUDA_GROUP_STREAM_ORDERED
                                                          : GPU_CUDA_GROUP_VIRTUAL_MEMORY,
                               error))
    return NULL;

  return _gpu_cuda_import_for (context, &handle, fd, size, error);
}
