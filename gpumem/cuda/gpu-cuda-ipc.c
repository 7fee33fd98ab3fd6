/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Memory and events of other processes. A handle of the driver stands for a whole allocation, so
 * ours tells beside it where in there the buffer lies. What is imported twice is opened once.
 */
#include "config.h"

#include <string.h>
#include <unistd.h>

#include "gpumem/cuda/gpu-cuda.h"

#define HANDLE_MAGIC   0x4d555047u  /* "GPUM" */
#define HANDLE_VERSION 1

typedef enum
{
  KIND_MEMORY  = 1,                 /* CUipcMemHandle */
  KIND_VIRTUAL = 2,                 /* with the file descriptor of the allocation */
  KIND_POOLED  = 3,                 /* CUmemPoolPtrExportData, and the pool's file descriptor */
  KIND_EVENT   = 4                  /* CUipcEventHandle */
} HandleKind;

/* What the bytes hold that pass between processes of one machine. */
typedef struct
{
  guint32 magic;
  guint32 version;
  guint32 kind;
  guint32 reserved;
  guint64 process;                  /* a random number of the exporter's */
  guint64 id;                       /* of the allocation, in that process */
  guint64 size;                     /* bytes of the buffer */
  guint64 offset;                   /* of the buffer in the allocation */
  guint64 whole_size;               /* bytes of the allocation */
  CUuuid  device;
  guint8  native[CU_IPC_HANDLE_SIZE];
} Handle;

G_STATIC_ASSERT (sizeof (Handle) == 136);
G_STATIC_ASSERT (sizeof (CUmemPoolPtrExportData) == CU_IPC_HANDLE_SIZE);

/* Memory of another process, as often as it is imported. */
typedef struct
{
  guint          refs;
  Handle         handle;            /* its process, id and kind are the key */
  CUdeviceptr    address;           /* of the whole allocation; pooled: of the buffer's */
  CUmemoryPool   pool;              /* nullable */
} Import;

static guint64
get_process (void)
{
  static gsize process;

  if (g_once_init_enter (&process))
    g_once_init_leave (&process, ((gsize) g_random_int () << 32) | g_random_int () | 1);

  return process;
}

/* All that fails here is a matter of the other process, unless the device is lost. */
static gboolean
fail_ipc (GError **error)
{
  if (error != NULL && !g_error_matches (*error, GPU_ERROR, GPU_ERROR_DEVICE_LOST)
      && !g_error_matches (*error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED))
    (*error)->code = GPU_ERROR_IPC;

  return FALSE;
}

static gboolean
check (CUresult     code,
       const char  *function,
       GError     **error)
{
  return _gpu_cuda_check (code, function, error) || fail_ipc (error);
}

static gboolean
handle_init (Handle          *handle,
             GpuCudaContext  *context,
             HandleKind       kind,
             GError         **error)
{
  memset (handle, 0, sizeof *handle);
  handle->magic = HANDLE_MAGIC;
  handle->version = HANDLE_VERSION;
  handle->kind = kind;
  handle->process = get_process ();

  return check (_gpu_cuda.cuDeviceGetUuid (&handle->device, context->device->device),
                "cuDeviceGetUuid", error);
}

/* With the context entered. */
static gboolean
handle_init_buffer (Handle               *handle,
                    GpuCudaContext       *context,
                    GpuCudaBuffer        *buffer,
                    HandleKind            kind,
                    CUpointer_attribute   start_attribute,
                    CUpointer_attribute   size_attribute,
                    GError              **error)
{
  CUdeviceptr address = buffer->address;
  guint64 start;

  if (!handle_init (handle, context, kind, error))
    return FALSE;

  start = _gpu_cuda_ask_address (address, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address);
  start = _gpu_cuda_ask_address (address, start_attribute, start);
  handle->size = buffer->base.size;
  handle->offset = address - start;
  handle->whole_size = _gpu_cuda_ask_address (address, CU_POINTER_ATTRIBUTE_RANGE_SIZE,
                                              handle->offset + handle->size);
  handle->whole_size = _gpu_cuda_ask_address (address, size_attribute, handle->whole_size);
  handle->id = _gpu_cuda_ask_address (start, CU_POINTER_ATTRIBUTE_BUFFER_ID, start);

  return TRUE;
}

static gboolean
handle_read (Handle          *handle,
             GBytes          *bytes,
             guint            kinds,
             gsize            size,
             GError         **error)
{
  gsize n_bytes;
  gconstpointer data = g_bytes_get_data (bytes, &n_bytes);

  if (n_bytes == sizeof *handle)
    memcpy (handle, data, sizeof *handle);

  if (n_bytes != sizeof *handle || handle->magic != HANDLE_MAGIC
      || handle->version != HANDLE_VERSION || handle->kind > KIND_EVENT
      || (kinds & (1u << handle->kind)) == 0)
    g_set_error (error, GPU_ERROR, GPU_ERROR_IPC,
                 "the %" G_GSIZE_FORMAT " bytes are no handle of this kind and version", n_bytes);
  else if (handle->size < size || handle->offset > handle->whole_size
           || handle->size > handle->whole_size - handle->offset)
    g_set_error (error, GPU_ERROR, GPU_ERROR_IPC,
                 "the handle is of %" G_GUINT64_FORMAT " bytes at offset %" G_GUINT64_FORMAT
                 " of %" G_GUINT64_FORMAT ", %" G_GSIZE_FORMAT " bytes are wanted", handle->size,
                 handle->offset, handle->whole_size, size);
  else if (handle->process == get_process ()
           && (handle->kind == KIND_MEMORY || handle->kind == KIND_EVENT))
    g_set_error (error, GPU_ERROR, GPU_ERROR_IPC,
                 "the handle is of this process, and the driver opens those of others only");
  else
    return TRUE;

  return FALSE;
}

/* With the context entered. */
static GBytes *
export_memory (GpuCudaContext  *context,
               GpuCudaBuffer   *buffer,
               GError         **error)
{
  CUpointer_attribute capable = CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE;
  CUipcMemHandle native;
  Handle handle;

  if (_gpu_cuda_ask_address (buffer->address, capable, TRUE) == FALSE)
    {
      g_set_error_literal (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                           "memory that was allocated in the order of a stream, or as shareable, "
                           "passes as a file descriptor only");
      return NULL;
    }

  if (!handle_init_buffer (&handle, context, buffer, KIND_MEMORY,
                           CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE,
                           error)
      || !check (_gpu_cuda.cuIpcGetMemHandle (&native, buffer->address - handle.offset),
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

  if (buffer->host == NULL)
    return TRUE;

  g_set_error_literal (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                       "memory of the host passes to other processes by means of the system");

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

/* With the context entered. What the driver takes for the allocation may be the piece of the pool
 * that it was cut from, with one id for all that lies in there. */
static gboolean
handle_init_pooled (Handle          *handle,
                    GpuCudaContext  *context,
                    GpuCudaBuffer   *buffer,
                    GError         **error)
{
  if (!handle_init_buffer (handle, context, buffer, KIND_POOLED,
                           CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE,
                           error))
    return FALSE;

  if (buffer->whole != 0)
    {
      handle->offset = buffer->address - buffer->whole;
      handle->whole_size = buffer->whole_size;
    }

  handle->id ^= (buffer->address - handle->offset) * G_GUINT64_CONSTANT (0x9e3779b97f4a7c15);

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
                       "%" G_GSIZE_FORMAT " bytes at 0x%" G_GINT64_MODIFIER "x, allocated at 0x%"
                       G_GINT64_MODIFIER "x, the driver's range begins at 0x%" G_GINT64_MODIFIER
                       "x with %" G_GUINT64_FORMAT " bytes; pool %p, that of the context is %p; "
                       "pools of the device pass as handles of the types 0x%x", buffer->base.size,
                       (guint64) address, (guint64) buffer->whole,
                       _gpu_cuda_ask_address (address, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, 0),
                       _gpu_cuda_ask_address (address, CU_POINTER_ATTRIBUTE_RANGE_SIZE, 0),
                       (void *) pool, (void *) context->pool,
                       _gpu_cuda_get_pool_handle_types (context));

  return fail_ipc (error);
}

/* With the context entered. Addresses of a pool pass only once the pool itself has. */
static GBytes *
export_pooled (GpuCudaContext  *context,
               GpuCudaBuffer   *buffer,
               CUmemoryPool     pool,
               int             *fd,
               GError         **error)
{
  CUmemPoolPtrExportData native;
  CUresult code;
  Handle handle;

  if ((_gpu_cuda_get_pool_handle_types (context) & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) == 0)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                   "memory that was allocated in the order of a stream does not pass as a file "
                   "descriptor on device %s: its pools have handles of the types 0x%x only",
                   context->base.devices[0]->id, _gpu_cuda_get_pool_handle_types (context));
      return NULL;
    }

  if (!handle_init_pooled (&handle, context, buffer, error))
    return NULL;

  code = _gpu_cuda.cuMemPoolExportToShareableHandle (fd, pool,
                                                     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);

  if (code != CUDA_SUCCESS)
    {
      *fd = -1;
      fail_pooled (context, buffer, pool, "cuMemPoolExportToShareableHandle", code, error);
      return NULL;
    }

  code = _gpu_cuda.cuMemPoolExportPointer (&native, buffer->address - handle.offset);

  if (code != CUDA_SUCCESS)
    {
      close (*fd);
      *fd = -1;
      fail_pooled (context, buffer, pool, "cuMemPoolExportPointer", code, error);
      return NULL;
    }

  memcpy (handle.native, &native, sizeof native);

  return g_bytes_new (&handle, sizeof handle);
}

/* With the context entered. */
static GBytes *
export_virtual (GpuCudaContext  *context,
                GpuCudaBuffer   *buffer,
                int             *fd,
                GError         **error)
{
  CUmemGenericAllocationHandle allocation = 0;
  Handle handle;
  gboolean exported;

  if (!handle_init_buffer (&handle, context, buffer, KIND_VIRTUAL,
                           CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR,
                           CU_POINTER_ATTRIBUTE_MAPPING_SIZE, error)
      || !check (_gpu_cuda.cuMemRetainAllocationHandle
                   (&allocation, (void *) (guintptr) (buffer->address - handle.offset)),
                 "cuMemRetainAllocationHandle", error))
    {
      g_prefix_error (error, "only memory that was allocated as shareable or from a pool passes as "
                      "a file descriptor: ");
      return NULL;
    }

  exported = check (_gpu_cuda.cuMemExportToShareableHandle
                      (fd, allocation, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
                    "cuMemExportToShareableHandle", error);
  _gpu_cuda.cuMemRelease (allocation);

  return exported ? g_bytes_new (&handle, sizeof handle) : NULL;
}

GBytes *
_gpu_cuda_export_fd (GpuNativeContext  *native,
                     GpuNativeBuffer   *native_buffer,
                     int               *fd,
                     GError           **error)
{
  GpuCudaContext *context = (GpuCudaContext *) native;
  GpuCudaBuffer *buffer = (GpuCudaBuffer *) native_buffer;
  CUmemoryPool pool;
  gboolean entered;
  GBytes *bytes;

  *fd = -1;

  if (!check_exportable (buffer, GPU_CUDA_GROUP_VIRTUAL_MEMORY, error)
      || !_gpu_cuda_enter (context, &entered, error))
    return NULL;

  pool = (CUmemoryPool) (guintptr) _gpu_cuda_ask_address
    (buffer->address, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, 0);

  if (pool != NULL)
    bytes = export_pooled (context, buffer, pool, fd, error);
  else
    bytes = export_virtual (context, buffer, fd, error);

  _gpu_cuda_leave (entered);

  return bytes;
}

static guint
import_hash (gconstpointer key)
{
  const Handle *handle = key;
  guint64 bits = handle->process ^ (handle->id * G_GUINT64_CONSTANT (0x9e3779b97f4a7c15));

  return (guint) (bits ^ (bits >> 32));
}

static gboolean
import_equal (gconstpointer a,
              gconstpointer b)
{
  const Handle *one = a;
  const Handle *other = b;

  return one->process == other->process && one->id == other->id && one->kind == other->kind;
}

/* With the context entered. */
static gboolean
open_memory (Import  *import,
             GError **error)
{
  CUipcMemHandle native;

  memcpy (&native, import->handle.native, sizeof native);

  return check (_gpu_cuda.cuIpcOpenMemHandle (&import->address, native,
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
  gboolean mapped;

  if (!check (_gpu_cuda.cuMemImportFromShareableHandle
                (&allocation, (void *) (gintptr) fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
              "cuMemImportFromShareableHandle", error))
    return FALSE;

  mapped = _gpu_cuda_virtual_map (context, allocation, import->handle.whole_size,
                                  &import->address, error);
  _gpu_cuda.cuMemRelease (allocation);

  return mapped || fail_ipc (error);
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

  if (!check (_gpu_cuda.cuMemPoolImportFromShareableHandle
                (&import->pool, (void *) (gintptr) fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                 0),
              "cuMemPoolImportFromShareableHandle", error))
    return FALSE;

  if (check (_gpu_cuda.cuMemPoolSetAccess (import->pool, &access, 1), "cuMemPoolSetAccess", error)
      && check (_gpu_cuda.cuMemPoolImportPointer (&import->address, import->pool, &native),
                "cuMemPoolImportPointer", error))
    return TRUE;

  _gpu_cuda.cuMemPoolDestroy (import->pool);

  return FALSE;
}

static gboolean
import_open (GpuCudaContext  *context,
             Import          *import,
             int              fd,
             GError         **error)
{
  switch ((HandleKind) import->handle.kind)
    {
    case KIND_MEMORY:
      return open_memory (import, error);
    case KIND_VIRTUAL:
      return open_virtual (context, import, fd, error);
    case KIND_POOLED:
      return open_pooled (context, import, fd, error);
    case KIND_EVENT:
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

  switch ((HandleKind) import->handle.kind)
    {
    case KIND_MEMORY:
      _gpu_cuda.cuIpcCloseMemHandle (import->address);
      break;
    case KIND_VIRTUAL:
      _gpu_cuda_virtual_unmap (import->address, import->handle.whole_size);
      break;
    case KIND_POOLED:
      if (_gpu_cuda_get_internal_stream (context, &stream, NULL)
          && _gpu_cuda.cuMemFreeAsync (import->address, stream) == CUDA_SUCCESS)
        _gpu_cuda.cuStreamSynchronize (stream);
      _gpu_cuda.cuMemPoolDestroy (import->pool);
      break;
    case KIND_EVENT:
    default:
      break;
    }
}

/* The bytes come from outside: believe the driver rather than them. */
static gboolean
check_range (const Import  *import,
             GError       **error)
{
  guint64 range = _gpu_cuda_ask_address (import->address, CU_POINTER_ATTRIBUTE_RANGE_SIZE,
                                         import->handle.whole_size);

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
import_locked (GpuCudaContext  *context,
               const Handle    *handle,
               int              fd,
               GError         **error)
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

static GpuNativeBuffer *
import (GpuNativeContext  *native,
        const Handle      *handle,
        int                fd,
        gsize              size,
        GError           **error)
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
  Handle handle;

  if (!_gpu_cuda_has_group (GPU_CUDA_GROUP_IPC, error)
      || !handle_read (&handle, bytes, 1u << KIND_MEMORY, size, error))
    return NULL;

  return import (context, &handle, -1, size, error);
}

GpuNativeBuffer *
_gpu_cuda_import_fd (GpuNativeContext  *context,
                     GBytes            *bytes,
                     int                fd,
                     gsize              size,
                     GError           **error)
{
  Handle handle;

  if (!handle_read (&handle, bytes, 1u << KIND_VIRTUAL | 1u << KIND_POOLED, size, error)
      || !_gpu_cuda_has_group (handle.kind == KIND_POOLED ? GPU_CUDA_GROUP_STREAM_ORDERED
                                                          : GPU_CUDA_GROUP_VIRTUAL_MEMORY,
                               error))
    return NULL;

  return import (context, &handle, fd, size, error);
}

GBytes *
_gpu_cuda_event_export (GpuNativeEvent  *native,
                        GError         **error)
{
  GpuCudaEvent *event = (GpuCudaEvent *) native;
  CUipcEventHandle ipc;
  gboolean entered;
  gboolean exported;
  Handle handle;

  if (!_gpu_cuda_has_group (GPU_CUDA_GROUP_IPC, error)
      || !_gpu_cuda_enter (event->context, &entered, error))
    return NULL;

  exported = handle_init (&handle, event->context, KIND_EVENT, error)
             && check (_gpu_cuda.cuIpcGetEventHandle (&ipc, event->event), "cuIpcGetEventHandle",
                       error);
  _gpu_cuda_leave (entered);

  if (!exported)
    return NULL;

  memcpy (handle.native, &ipc, sizeof ipc);

  return g_bytes_new (&handle, sizeof handle);
}

GpuNativeEvent *
_gpu_cuda_event_import (GpuNativeContext  *native,
                        GBytes            *bytes,
                        GError           **error)
{
  GpuCudaContext *context = (GpuCudaContext *) native;
  CUipcEventHandle ipc;
  CUevent event = NULL;
  gboolean entered;
  gboolean opened;
  Handle handle;

  if (!_gpu_cuda_has_group (GPU_CUDA_GROUP_IPC, error)
      || !handle_read (&handle, bytes, 1u << KIND_EVENT, 0, error)
      || !_gpu_cuda_enter (context, &entered, error))
    return NULL;

  memcpy (&ipc, handle.native, sizeof ipc);
  opened = check (_gpu_cuda.cuIpcOpenEventHandle (&event, ipc), "cuIpcOpenEventHandle", error);
  _gpu_cuda_leave (entered);

  return opened ? &_gpu_cuda_event_new_for (context, event)->base : NULL;
}
