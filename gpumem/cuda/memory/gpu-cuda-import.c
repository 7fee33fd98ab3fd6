/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Imports memory of other processes. If the same memory is imported twice, the driver opens it only
 * once.
 *
 * The bytes of a handle are untrusted: a hostile process may combine the bytes of another process's
 * handle with a descriptor of its own. Therefore two imports only count as the same memory if their
 * driver handles are equal, and if Linux reports the same file for both descriptors.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gpumem/base/gpu-descriptor-private.h"
#include "gpumem/cuda/core/gpu-cuda-current.h"
#include "gpumem/cuda/memory/gpu-cuda-ipc.h"

/* Since Linux 6.10. */
#ifndef F_DUPFD_QUERY
#define F_DUPFD_QUERY 1027
#endif

/* The file behind a descriptor. */
typedef struct
{
  int    fd;
  dev_t  device;
  ino_t  inode;
  mode_t mode;
  gsize  size;                      /* bytes of the allocation, as the exporter states */
} ImportFile;

/* The identity of memory according to Linux and the driver. */
typedef struct
{
  guint32     kind;
  guint       n_files;              /* 0 for handles without a descriptor */
  ImportFile *files;                /* more than one for memory over several chunks */
  guint8      native[CU_IPC_HANDLE_SIZE];
} ImportKey;

/* Exported memory: the handle, and the descriptors of its chunks. */
typedef struct
{
  const GpuCudaHandle *handle;
  const int           *fds;
  const gsize         *sizes;       /* bytes of the chunk behind each descriptor */
  guint                n_fds;
} Source;

/* Memory of another process, shared by all its imports. */
typedef struct
{
  guint          refs;
  ImportKey      key;               /* owns its descriptors */
  gboolean       is_listed;
  CUdeviceptr    address;           /* start of the exported allocation */
  guint64        size;              /* bytes from address on, as the driver reports */
  CUmemoryPool   pool;              /* nullable */
  GpuCudaRange  *range;             /* nullable; of virtual memory */
  CUexternalMemory external;        /* nullable */
  int            external_fd;       /* -1 if the driver closes the descriptor for `external` */
} Import;

static guint
import_hash (gconstpointer data)
{
  const ImportKey *key = data;
  guint64 bits = key->n_files > 0 ? key->files[0].inode + key->n_files : 0;

  for (gsize i = 0; i < sizeof key->native; i += sizeof bits)
    {
      guint64 word;

      memcpy (&word, key->native + i, sizeof word);
      bits = (bits ^ word) * G_GUINT64_CONSTANT (0x9e3779b97f4a7c15);
    }

  return (guint) (bits ^ (bits >> 32));
}

/* Returns whether @a and @b share one open file description. Also returns FALSE if Linux cannot
 * compare them; the memory is then opened a second time. */
static gboolean
is_same_description (int a,
                     int b)
{
  int answer = fcntl (a, F_DUPFD_QUERY, b);

#ifdef SYS_kcmp
  if (answer < 0)
    return syscall (SYS_kcmp, getpid (), getpid (), 0, a, b) == 0;
#endif

  return answer == 1;
}

/* Two descriptors of a memfd are equal if they have the same inode. All descriptors of NVIDIA's
 * driver have the inode of one device file, so two of these are only equal if they share one open
 * file description. */
static gboolean
is_same_file (const ImportFile *one,
              const ImportFile *other)
{
  return one->device == other->device && one->inode == other->inode
         && (S_ISREG (one->mode) || is_same_description (one->fd, other->fd));
}

/* The sizes of several chunks determine where each of them is mapped. The size of a single chunk
 * does not, so handles that state different sizes share one mapping. */
static gboolean
import_equal (gconstpointer a,
              gconstpointer b)
{
  const ImportKey *one = a;
  const ImportKey *other = b;

  if (one->kind != other->kind || memcmp (one->native, other->native, sizeof one->native) != 0
      || one->n_files != other->n_files)
    return FALSE;

  for (guint i = 0; i < one->n_files; i++)
    {
      if (!is_same_file (&one->files[i], &other->files[i])
          || (one->n_files > 1 && one->files[i].size != other->files[i].size))
        return FALSE;
    }

  return TRUE;
}

/* @file gets a duplicate of @fd. On failure, the caller must also close the descriptor of @file. */
static gboolean
import_file_init (ImportFile  *file,
                  int          fd,
                  gsize        size,
                  GError     **error)
{
  struct stat status = { 0 };

  file->size = size;
  file->fd = _gpu_descriptor_duplicate (fd, error);

  if (file->fd < 0)
    return FALSE;

  if (fstat (file->fd, &status) != 0)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_FAILED, "fstat: %s (%d): file descriptor %d",
                   g_strerror (errno), errno, fd);
      return FALSE;
    }

  file->device = status.st_dev;
  file->inode = status.st_ino;
  file->mode = status.st_mode;

  return TRUE;
}

/* On failure, the caller must also clear @key. */
static gboolean
import_key_init (ImportKey     *key,
                 const Source  *source,
                 GError       **error)
{
  memset (key, 0, sizeof *key);
  key->kind = source->handle->kind;
  memcpy (key->native, source->handle->native, sizeof key->native);
  key->files = g_new0 (ImportFile, source->n_fds);

  for (guint i = 0; i < source->n_fds; i++)
    {
      key->n_files++;

      if (!import_file_init (&key->files[i], source->fds[i], source->sizes[i], error))
        return FALSE;
    }

  return TRUE;
}

static void
import_key_clear (ImportKey *key)
{
  for (guint i = 0; i < key->n_files; i++)
    {
      if (key->files[i].fd >= 0)
        close (key->files[i].fd);
    }

  g_free (key->files);
}

static void
import_free (Import *import)
{
  import_key_clear (&import->key);
  g_free (import);
}

/* Returns the number of bytes from @address to the end of the allocation, as the driver reports
 * it. */
static guint64
get_size (CUdeviceptr address)
{
  guint64 start = _gpu_cuda_get_pointer_attribute (address, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                                   address);
  guint64 range = _gpu_cuda_get_pointer_attribute (address, CU_POINTER_ATTRIBUTE_RANGE_SIZE, 0);

  return range - MIN (address - start, range);
}

/* Caller has entered the context. */
static gboolean
open_memory (Import  *import,
             GError **error)
{
  CUipcMemHandle native;

  memcpy (&native, import->key.native, sizeof native);

  if (!_gpu_cuda_check_ipc (_gpu_cuda.cuIpcOpenMemHandle (&import->address, native,
                                                          CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
                            "cuIpcOpenMemHandle", error))
    return FALSE;

  import->size = get_size (import->address);

  return TRUE;
}

/* Caller has entered the context. Gets the allocation behind each descriptor. Sets @n_allocations
 * to their number, also on failure. */
static gboolean
import_allocations (const ImportKey               *key,
                    CUmemGenericAllocationHandle  *allocations,
                    guint                         *n_allocations,
                    GError                       **error)
{
  for (*n_allocations = 0; *n_allocations < key->n_files; (*n_allocations)++)
    {
      const int fd = key->files[*n_allocations].fd;

      if (!_gpu_cuda_check_ipc (_gpu_cuda.cuMemImportFromShareableHandle
                                  (&allocations[*n_allocations], (void *) (gintptr) fd,
                                   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
                                "cuMemImportFromShareableHandle", error))
        return FALSE;
    }

  return TRUE;
}

/* Caller has entered the context. The driver only maps whole allocations, and therefore rejects
 * wrong sizes. */
static gboolean
open_virtual (GpuCudaContext  *context,
              Import          *import,
              GError         **error)
{
  const ImportKey *key = &import->key;
  g_autofree CUmemGenericAllocationHandle *allocations = g_new0 (CUmemGenericAllocationHandle,
                                                                 key->n_files);
  g_autofree gsize *sizes = g_new (gsize, key->n_files);
  guint n_allocations;

  for (guint i = 0; i < key->n_files; i++)
    sizes[i] = key->files[i].size;

  if (import_allocations (key, allocations, &n_allocations, error))
    {
      import->range = _gpu_cuda_range_new_for (context, allocations, sizes, n_allocations, error);

      if (import->range == NULL && error != NULL
          && !g_error_matches (*error, GPU_ERROR, GPU_ERROR_DEVICE_LOST))
        (*error)->code = GPU_ERROR_IPC;
    }

  while (n_allocations > 0)
    _gpu_cuda.cuMemRelease (allocations[--n_allocations]);

  if (import->range == NULL)
    return FALSE;

  import->address = import->range->address;
  import->size = import->range->size;

  return TRUE;
}

/* Caller has entered the context. */
static gboolean
open_pooled (GpuCudaContext  *context,
             Import          *import,
             GError         **error)
{
  const CUmemAccessDesc access =
  {
    .location = { CU_MEM_LOCATION_TYPE_DEVICE, context->device->device },
    .flags    = CU_MEM_ACCESS_FLAGS_PROT_READWRITE
  };
  CUmemPoolPtrExportData native;

  memcpy (&native, import->key.native, sizeof native);

  if (!_gpu_cuda_check_ipc (_gpu_cuda.cuMemPoolImportFromShareableHandle
                              (&import->pool, (void *) (gintptr) import->key.files[0].fd,
                               CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
                            "cuMemPoolImportFromShareableHandle", error))
    return FALSE;

  if (_gpu_cuda_check_ipc (_gpu_cuda.cuMemPoolSetAccess (import->pool, &access, 1),
                           "cuMemPoolSetAccess", error)
      && _gpu_cuda_check_ipc (_gpu_cuda.cuMemPoolImportPointer (&import->address, import->pool,
                                                                &native),
                              "cuMemPoolImportPointer", error))
    {
      import->size = get_size (import->address);
      return TRUE;
    }

  _gpu_cuda.cuMemPoolDestroy (import->pool);

  return FALSE;
}

/* Caller has entered the context. On success, the driver owns the duplicated descriptor if it is
 * opaque. NVIDIA's documentation does not state that for dma-bufs: if the duplicate is still open,
 * the driver has not closed it. If Linux cannot compare descriptors, the duplicate leaks, because
 * closing the descriptor of another thread would be worse. */
static gboolean
import_external (Import                      *import,
                 guint64                      size,
                 CUexternalMemoryHandleType   type,
                 GError                     **error)
{
  CUDA_EXTERNAL_MEMORY_HANDLE_DESC description =
  {
    .type   = type,
    .handle = { .fd = _gpu_descriptor_duplicate (import->key.files[0].fd, error) },
    .size   = size
  };

  if (description.handle.fd < 0)
    return FALSE;

  if (_gpu_cuda_check_ipc (_gpu_cuda.cuImportExternalMemory (&import->external, &description),
                           "cuImportExternalMemory", error))
    {
      if (type == GPU_CUDA_EXTERNAL_MEMORY_DMA_BUF_FD
          && is_same_description (description.handle.fd, import->key.files[0].fd))
        import->external_fd = description.handle.fd;

      return TRUE;
    }

  close (description.handle.fd);

  return FALSE;
}

/* Caller has entered the context. The driver may have closed the descriptor with the memory. */
static void
close_external (Import *import)
{
  _gpu_cuda.cuDestroyExternalMemory (import->external);

  if (import->external_fd >= 0
      && is_same_description (import->external_fd, import->key.files[0].fd))
    close (import->external_fd);
}

/* Caller has entered the context. GpuBuffer has checked @size as far as possible; the driver does
 * not check it. */
static gboolean
open_external (GpuCudaContext  *context,
               Import          *import,
               guint64          size,
               GError         **error)
{
  const CUDA_EXTERNAL_MEMORY_BUFFER_DESC description = { .size = size };
  CUexternalMemoryHandleType type;

  memcpy (&type, import->key.native, sizeof type);

  if (!import_external (import, size, type, error))
    {
      /* Some drivers have the handle type for dma-bufs but fail to import any dma-buf. After such a
       * failure, the device no longer reports that it can import them. */
      if (type == GPU_CUDA_EXTERNAL_MEMORY_DMA_BUF_FD
          && g_error_matches (*error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED))
        g_atomic_int_set (&context->device->refuses_dma_bufs, TRUE);

      return FALSE;
    }

  if (_gpu_cuda_check_ipc (_gpu_cuda.cuExternalMemoryGetMappedBuffer (&import->address,
                                                                      import->external,
                                                                      &description),
                           "cuExternalMemoryGetMappedBuffer", error))
    {
      import->size = size;
      return TRUE;
    }

  close_external (import);

  return FALSE;
}

static gboolean
import_open (GpuCudaContext  *context,
             Import          *import,
             guint64          size,
             GError         **error)
{
  switch ((GpuCudaHandleKind) import->key.kind)
    {
    case GPU_CUDA_HANDLE_MEMORY:
      return open_memory (import, error);
    case GPU_CUDA_HANDLE_VIRTUAL:
      return open_virtual (context, import, error);
    case GPU_CUDA_HANDLE_POOLED:
      return open_pooled (context, import, error);
    case GPU_CUDA_HANDLE_EXTERNAL:
      return open_external (context, import, size, error);
    case GPU_CUDA_HANDLE_EVENT:
    default:
      g_assert_not_reached ();
    }
}

/* Caller has entered the context. Ignores failures, because the exporting process may have
 * ended. */
static void
import_close (GpuCudaContext *context,
              Import         *import)
{
  CUstream stream;

  switch ((GpuCudaHandleKind) import->key.kind)
    {
    case GPU_CUDA_HANDLE_MEMORY:
      _gpu_cuda.cuIpcCloseMemHandle (import->address);
      break;
    case GPU_CUDA_HANDLE_VIRTUAL:
      _gpu_cuda_range_free (context, import->range);
      break;
    case GPU_CUDA_HANDLE_EXTERNAL:
      _gpu_cuda.cuMemFree (import->address);
      close_external (import);
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

/* Checks that the range that @handle states lies within the imported memory. Called for every
 * import, because each handle of the same memory states its own range. */
static gboolean
check_range (const Import         *import,
             const GpuCudaHandle  *handle,
             gsize                 size,
             GError              **error)
{
  if (handle->offset <= import->size && size <= import->size - handle->offset)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_IPC,
               "the handle states %" G_GSIZE_FORMAT " bytes at offset %" G_GUINT64_FORMAT
               ", but the driver reports %" G_GUINT64_FORMAT " bytes", size, handle->offset,
               import->size);

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

  /* In a forked process, a thread that exists only in the parent may hold the lock, so this process
   * must not wait for the lock. */
  if (g_atomic_int_get (&_gpu_forked))
    return;

  g_mutex_lock (&context->import_lock);

  if (--import->refs > 0)
    {
      g_mutex_unlock (&context->import_lock);
      return;
    }

  if (import->is_listed)
    g_hash_table_remove (context->imported, &import->key);

  if (_gpu_cuda_enter_again (context, &entered, NULL))
    {
      import_close (context, import);
      _gpu_cuda_leave (entered);
    }

  g_mutex_unlock (&context->import_lock);
  import_free (import);
}

/* Caller holds import_lock and has entered the context. Takes ownership of the contents of @key on
 * success. */
static Import *
import_new_locked (GpuCudaContext       *context,
                   const ImportKey      *key,
                   const GpuCudaHandle  *handle,
                   gsize                 size,
                   GError              **error)
{
  Import *import = g_new0 (Import, 1);

  import->refs = 1;
  import->key = *key;
  import->external_fd = -1;

  if (!import_open (context, import, handle->whole_size, error))
    {
      g_free (import);
      return NULL;
    }

  if (!check_range (import, handle, size, error))
    {
      import_close (context, import);
      g_free (import);
      return NULL;
    }

  return import;
}

/* Caller holds import_lock and has entered the context. Takes ownership of the contents of @key on
 * success. */
static Import *
import_locked (GpuCudaContext       *context,
               ImportKey            *key,
               const GpuCudaHandle  *handle,
               gsize                 size,
               GError              **error)
{
  Import *import;

  if (context->imported == NULL)
    context->imported = g_hash_table_new (import_hash, import_equal);

  import = g_hash_table_lookup (context->imported, key);

  if (import != NULL)
    {
      if (!check_range (import, handle, size, error))
        return NULL;

      import->refs++;
      import_key_clear (key);

      return import;
    }

  import = import_new_locked (context, key, handle, size, error);

  if (import != NULL)
    {
      g_hash_table_insert (context->imported, &import->key, import);
      import->is_listed = TRUE;
    }

  return import;
}

static GpuNativeBuffer *
import_for (GpuNativeContext  *native,
            const Source      *source,
            gsize              size,
            gboolean           is_alone,
            GError           **error)
{
  GpuCudaContext *context = (GpuCudaContext *) native;
  const GpuCudaHandle *handle = source->handle;
  Import *import = NULL;
  GpuCudaBuffer *buffer;
  gboolean entered;
  ImportKey key;

  if (!_gpu_cuda_enter (context, &entered, error))
    return NULL;

  g_mutex_lock (&context->import_lock);

  if (import_key_init (&key, source, error))
    import = is_alone ? import_new_locked (context, &key, handle, size, error)
                      : import_locked (context, &key, handle, size, error);

  g_mutex_unlock (&context->import_lock);
  _gpu_cuda_leave (entered);

  if (import == NULL)
    {
      import_key_clear (&key);
      return NULL;
    }

  buffer = _gpu_cuda_buffer_new (import->address + handle->offset, size, GPU_CUDA_MEMORY_IMPORTED);
  buffer->shared = import;

  return &buffer->base;
}

GpuNativeBuffer *
_gpu_cuda_import_alone (GpuNativeContext     *context,
                        const GpuCudaHandle  *handle,
                        int                   fd,
                        gsize                 size,
                        GError              **error)
{
  const gsize whole_size = handle->whole_size;
  const Source source = { handle, &fd, &whole_size, 1 };

  return import_for (context, &source, size, TRUE, error);
}

GpuNativeBuffer *
_gpu_cuda_import_handle (GpuNativeContext  *context,
                         GBytes            *bytes,
                         gsize              size,
                         GError           **error)
{
  GpuCudaHandle handle;
  const Source source = { &handle, NULL, NULL, 0 };

  if (!_gpu_cuda_has_group (GPU_CUDA_GROUP_IPC, error)
      || !_gpu_cuda_handle_read (&handle, bytes, 0, 1u << GPU_CUDA_HANDLE_MEMORY, size, error)
      || !_gpu_cuda_handle_check_device (&handle, (GpuCudaContext *) context, error))
    return NULL;

  return import_for (context, &source, size, FALSE, error);
}

GpuNativeBuffer *
_gpu_cuda_import_fd (GpuNativeContext  *context,
                     GBytes            *bytes,
                     const int         *fds,
                     guint              n_fds,
                     gsize              size,
                     GError           **error)
{
  const guint kinds = 1u << GPU_CUDA_HANDLE_VIRTUAL | 1u << GPU_CUDA_HANDLE_POOLED;
  g_autofree gsize *sizes = NULL;
  GpuCudaHandle handle;
  Source source = { &handle, fds, NULL, n_fds };

  if (!_gpu_cuda_handle_read (&handle, bytes, n_fds, kinds, size, error)
      || !_gpu_cuda_has_group (handle.kind == GPU_CUDA_HANDLE_POOLED ? GPU_CUDA_GROUP_STREAM_ORDERED
                                                          : GPU_CUDA_GROUP_VIRTUAL_MEMORY,
                               error)
      || !_gpu_cuda_handle_check_device (&handle, (GpuCudaContext *) context, error))
    return NULL;

  sizes = _gpu_cuda_handle_read_sizes (&handle, bytes, n_fds, error);
  source.sizes = sizes;

  return sizes != NULL ? import_for (context, &source, size, FALSE, error) : NULL;
}

gboolean
_gpu_cuda_is_own_fd (GpuNativeContext *native,
                     int               fd)
{
  CUmemGenericAllocationHandle allocation = 0;
  gboolean entered;
  CUresult code;

  if (!_gpu_cuda_enter ((GpuCudaContext *) native, &entered, NULL))
    return FALSE;

  code = _gpu_cuda.cuMemImportFromShareableHandle (&allocation, (void *) (gintptr) fd,
                                                   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);

  if (code == CUDA_SUCCESS)
    _gpu_cuda.cuMemRelease (allocation);

  _gpu_cuda_leave (entered);

  return code == CUDA_SUCCESS;
}
