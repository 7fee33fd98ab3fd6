/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Export and import of memory as file descriptors, for other libraries. */
#include "config.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gpumem/base/gpu-nick-private.h"
#include "gpumem/device/gpu-context-private.h"
#include "gpumem/memory/gpu-memory-private.h"

#define DESTINATION_FLAGS (GPU_MEMORY_FLAGS_READ_ONLY | GPU_MEMORY_FLAGS_WRITE_ONLY \
                           | GPU_MEMORY_FLAGS_UNTRACKED \
                           | GPU_MEMORY_FLAGS_HOST_READ_ONLY | GPU_MEMORY_FLAGS_HOST_WRITE_ONLY \
                           | GPU_MEMORY_FLAGS_HOST_NO_ACCESS)

static GpuFdKinds
get_kinds (GpuNativeContext *context,
           gboolean          import)
{
  const GpuBufferOps *ops = context->backend->buffer;

  return ops->get_fd_kinds != NULL ? ops->get_fd_kinds (context, import) : GPU_FD_KINDS_NONE;
}

static gboolean
check_kind (GpuNativeContext  *context,
            const char        *function,
            gboolean           import,
            GpuFdKinds         kind,
            GError           **error)
{
  g_autofree char *kinds = NULL;
  g_autofree char *text = _gpu_flags_get_nicks (GPU_TYPE_FD_KINDS, kind);

  if (kind != GPU_FD_KINDS_OPAQUE && kind != GPU_FD_KINDS_DMA_BUF)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "%s: %s is not a single kind of file descriptor", function, text);
      return FALSE;
    }

  if ((get_kinds (context, import) & kind) != 0)
    return TRUE;

  kinds = _gpu_flags_get_nicks (GPU_TYPE_FD_KINDS, get_kinds (context, import));
  g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
               "%s: %s cannot %s memory as a file descriptor of the kind %s, only of: %s",
               function, context->devices[0]->id, import ? "import" : "export", text, kinds);

  return FALSE;
}

/**
 * gpu_context_get_export_kinds:
 * @context: a #GpuContext
 *
 * Gets the kinds of file descriptors that gpu_buffer_export_fd() supports for memory of @context.
 * Does not block.
 *
 * Returns: the kinds, or %GPU_FD_KINDS_NONE
 *
 * Since: 0.1
 */
GpuFdKinds
gpu_context_get_export_kinds (GpuContext *context)
{
  GpuNativeContext *native;

  g_return_val_if_fail (GPU_IS_CONTEXT (context), GPU_FD_KINDS_NONE);

  native = _gpu_context_get_native (context);

  return native != NULL ? get_kinds (native, FALSE) : GPU_FD_KINDS_NONE;
}

/**
 * gpu_context_get_import_kinds:
 * @context: a #GpuContext
 *
 * Gets the kinds of file descriptors that gpu_buffer_new_from_fd() accepts for @context. On CUDA,
 * dma-bufs require a driver of version 12.9 or newer. Once the driver has rejected a dma-buf, as
 * some do, that kind is omitted. On OpenCL the kinds are those that all devices of @context support
 * through cl_khr_external_memory, with OpenCL 3.0. Does not block.
 *
 * Returns: the kinds, or %GPU_FD_KINDS_NONE
 *
 * Since: 0.1
 */
GpuFdKinds
gpu_context_get_import_kinds (GpuContext *context)
{
  GpuNativeContext *native;

  g_return_val_if_fail (GPU_IS_CONTEXT (context), GPU_FD_KINDS_NONE);

  native = _gpu_context_get_native (context);

  return native != NULL ? get_kinds (native, TRUE) : GPU_FD_KINDS_NONE;
}

static gboolean
check_export (GpuBuffer   *buffer,
              const char  *function,
              GpuFdKinds   kind,
              GError     **error)
{
  GpuMemory *memory = GPU_MEMORY (buffer);

  if (!_gpu_memory_check (memory, function, error)
      || !_gpu_context_check (memory->context, function, error)
      || !check_kind (_gpu_context_get_native (memory->context), function, FALSE, kind, error))
    return FALSE;

  if ((memory->flags & GPU_MEMORY_FLAGS_SHAREABLE) != 0)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s: the memory %p was created without GPU_MEMORY_FLAGS_SHAREABLE", function,
               (void *) buffer);

  return FALSE;
}

/**
 * gpu_buffer_export_fd:
 * @buffer: a #GpuBuffer with %GPU_MEMORY_FLAGS_SHAREABLE, which may be a slice
 * @kind: one kind of gpu_context_get_export_kinds()
 * @whole_size: (out) (optional): size of the memory behind the descriptor, in bytes
 * @offset: (out) (optional): offset of @buffer within that memory, in bytes
 * @error: return location for an error
 *
 * Creates a file descriptor for @buffer, for another library, such as Vulkan, another back end or
 * another process (CUDA: cuMemExportToShareableHandle, cuMemGetHandleForAddressRange for a dma-buf;
 * a sealed memfd on the host). The memory lives as long as any user of it. The descriptor does not
 * carry synchronization: before another library uses the memory, the program must wait for the
 * pending work on @buffer. Between programs of this library, gpu_buffer_export_fds() does the same
 * with a handle that is validated on import. Does not block; may be called from any thread.
 *
 * Returns: the descriptor, for the caller to close, or -1 with %GPU_ERROR_NOT_SUPPORTED if @kind is
 *   not supported or the memory was allocated in stream order, %GPU_ERROR_INVALID_ARGUMENT without
 *   %GPU_MEMORY_FLAGS_SHAREABLE or for more than one kind, %GPU_ERROR_RELEASED, or the driver's
 *   error
 *
 * Since: 0.1
 */
gint
gpu_buffer_export_fd (GpuBuffer   *buffer,
                      GpuFdKinds   kind,
                      gsize       *whole_size,
                      gsize       *offset,
                      GError     **error)
{
  const char *function = "gpu_buffer_export_fd";
  GpuNativeContext *context;
  GpuStorage *storage;
  GError *failure = NULL;
  gsize found_size = 0;
  gsize found_offset = 0;
  int fd = -1;

  g_return_val_if_fail (GPU_IS_BUFFER (buffer), -1);

  if (!check_export (buffer, function, kind, error))
    return -1;

  storage = _gpu_memory_acquire (GPU_MEMORY (buffer), function, error);

  if (storage == NULL)
    return -1;

  context = storage->context;
  context->backend->buffer->share_fd (context, storage->buffer, kind, &fd, &found_size,
                                      &found_offset, &failure);
  _gpu_storage_unuse (storage);

  if (!_gpu_native_context_end (context, function, failure, error))
    return -1;

  if (whole_size != NULL)
    *whole_size = found_size;
  if (offset != NULL)
    *offset = found_offset;

  return fd;
}

/* NULL for files that may be memory, including character devices: NVIDIA's memory is one. */
static const char *
get_file_kind (mode_t mode)
{
  if (S_ISFIFO (mode))
    return "a pipe";
  if (S_ISSOCK (mode))
    return "a socket";
  if (S_ISDIR (mode))
    return "a directory";
  if (S_ISBLK (mode))
    return "a block device";

  return NULL;
}

/* Size of the memory behind the descriptor, or -1 if the system does not know it. The inode of a
 * dma-buf has no size, but lseek() returns its end. Anonymous inodes of drivers report 0 both
 * ways. */
static gint64
get_file_size (int                fd,
               const struct stat *status)
{
  gint64 end;

  if (S_ISCHR (status->st_mode))
    return -1;
  if (S_ISREG (status->st_mode) || status->st_size > 0)
    return status->st_size;

  end = lseek (fd, 0, SEEK_END);

  return end > 0 ? end : -1;
}

/* Drivers trust the stated size: NVIDIA's driver ends the process when work exceeds the memory. */
gboolean
_gpu_buffer_check_fd (const char  *function,
                      int          fd,
                      gsize        whole_size,
                      GError     **error)
{
  struct stat status;
  const char *kind;
  gint64 size;

  if (fstat (fd, &status) != 0)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "%s: file descriptor %d is not open: fstat: %s (%d)", function, fd,
                   g_strerror (errno), errno);
      return FALSE;
    }

  kind = get_file_kind (status.st_mode);

  if (kind != NULL)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_IPC, "%s: file descriptor %d is %s, not memory",
                   function, fd, kind);
      return FALSE;
    }

  size = get_file_size (fd, &status);

  if (size < 0 || (guint64) size >= whole_size)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_IPC,
               "%s: there are %" G_GINT64_FORMAT " bytes behind file descriptor %d, not %"
               G_GSIZE_FORMAT " as stated", function, size, fd, whole_size);

  return FALSE;
}

static gboolean
check_import (GpuNativeContext  *context,
              const char        *function,
              GpuMemoryFlags     flags,
              gint               fd,
              gsize              whole_size,
              gsize              offset,
              gsize              size,
              GError           **error)
{
  if (!_gpu_buffer_check_flags (function, context, flags, error))
    return FALSE;

  if ((flags & ~DESTINATION_FLAGS) != 0)
    {
      g_autofree char *text = _gpu_flags_get_nicks (GPU_TYPE_MEMORY_FLAGS, flags);

      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "%s: imported memory cannot be %s", function, text);
      return FALSE;
    }

  if (size > 0 && whole_size <= G_MAXSSIZE && offset <= whole_size && size <= whole_size - offset)
    return _gpu_buffer_check_fd (function, fd, whole_size, error);

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s: the range of %" G_GSIZE_FORMAT " bytes at offset %" G_GSIZE_FORMAT
               " is empty or exceeds the %" G_GSIZE_FORMAT " bytes behind file descriptor %d",
               function, size, offset, whole_size, fd);

  return FALSE;
}

/* Takes ownership of @opened. */
static GpuBuffer *
buffer_new (GpuContext       *context,
            const char       *function,
            GpuMemoryFlags    flags,
            GpuNativeBuffer  *opened,
            GError          **error)
{
  GpuNativeContext *native = _gpu_context_get_native (context);
  gboolean is_constant = opened->is_constant;
  GpuStorage *storage;
  GpuBuffer *buffer;

  if (is_constant && (flags & GPU_MEMORY_FLAGS_READ_ONLY) == 0)
    {
      native->backend->memory->free (native, opened);
      g_set_error (error, GPU_ERROR, GPU_ERROR_IPC, "%s: the memory behind the file descriptor is "
                   "read only and requires GPU_MEMORY_FLAGS_READ_ONLY", function);
      return NULL;
    }

  if (opened->is_shareable)
    flags |= GPU_MEMORY_FLAGS_SHAREABLE;

  /* Each use must acquire and release external memory, so uses are always ordered. */
  if (opened->is_external)
    flags &= ~GPU_MEMORY_FLAGS_UNTRACKED;

  buffer = g_object_new (GPU_TYPE_BUFFER, "context", context, NULL);
  storage = _gpu_storage_new (native, opened, flags, GPU_STORAGE_FOREIGN, NULL, NULL);

  storage->is_constant |= is_constant;
  _gpu_memory_set_storage (GPU_MEMORY (buffer), storage);

  return buffer;
}

typedef struct
{
  const char *function;
  GpuFdKinds  kind;
  int         fd;
  gsize       whole_size;
} Descriptor;

static GpuBuffer *
open_range (GpuContext        *context,
            GpuMemoryFlags     flags,
            const Descriptor  *descriptor,
            gsize              offset,
            gsize              size,
            GError           **error)
{
  GpuNativeContext *native = _gpu_context_get_native (context);
  GError *failure = NULL;
  GpuNativeBuffer *opened = native->backend->buffer->open_fd (native, descriptor->kind,
                                                              descriptor->fd,
                                                              descriptor->whole_size, offset,
                                                              size, &failure);

  if (!_gpu_native_context_end (native, descriptor->function, failure, error))
    return NULL;

  return buffer_new (context, descriptor->function, flags, opened, error);
}

/**
 * gpu_buffer_new_from_fd:
 * @context: a #GpuContext
 * @flags: the intended use of the buffer, without %GPU_MEMORY_FLAGS_ALLOC_HOST and
 *   %GPU_MEMORY_FLAGS_SHAREABLE. A read-only file on the host requires %GPU_MEMORY_FLAGS_READ_ONLY,
 *   and then the host cannot write the buffer either
 * @kind: one kind of gpu_context_get_import_kinds()
 * @fd: the descriptor; the caller keeps ownership
 * @whole_size: size of the memory behind @fd, in bytes
 * @offset: offset of the buffer within that memory, in bytes
 * @size: size of the buffer, in bytes
 * @error: return location for an error
 *
 * Creates a buffer for memory that was exported by another library, or by this one with
 * gpu_buffer_export_fd() (CUDA: cuMemImportFromShareableHandle, or else cuImportExternalMemory and
 * cuExternalMemoryGetMappedBuffer; OpenCL: clCreateBufferWithProperties; on the host mmap of a
 * sealed memfd, which maps only the pages of the buffer). @whole_size must be the size that the
 * exporter states: if the system does not know the size of the memory, the driver trusts it.
 *
 * Each side sees the writes of the other. The library does not track uses by the exporter, so the
 * program must order them: before it submits work to one side it waits for the work on the other,
 * with gpu_stream_synchronize(), gpu_event_wait() or the calls of the other API. On CUDA and OpenCL
 * every import of the same memory is mapped, and tracked, separately. The memory does not count
 * towards gpu_context_get_allocated_size(). Does not block; may be called from any thread.
 *
 * On OpenCL every operation that uses the buffer is enclosed in
 * clEnqueueAcquireExternalMemObjectsKHR and clEnqueueReleaseExternalMemObjectsKHR. These operations
 * run one after another, even if they only read or the buffer has %GPU_MEMORY_FLAGS_UNTRACKED. The
 * buffer stays acquired while a range of it is mapped. After a copy by a stream of another context,
 * gpu_context_synchronize() of @context also waits until the buffer is released. NVIDIA's driver
 * blocks the caller until the earlier work of the stream has completed; if that work depends on a
 * user event, the operation fails with %GPU_ERROR_BUSY. With an @offset, the buffer is a slice of a
 * buffer that begins at 0, and @offset must be a multiple of gpu_device_get_base_alignment().
 *
 * On the host the buffer has %GPU_MEMORY_FLAGS_SHAREABLE and can be exported again with
 * gpu_buffer_export_fd(). Other drivers cannot export imported memory: pass on the original
 * descriptor.
 *
 * Returns: (transfer full): the buffer, or %NULL with %GPU_ERROR_NOT_SUPPORTED if @kind is not
 *   supported, %GPU_ERROR_INVALID_ARGUMENT for a descriptor that is not open, a range that is empty
 *   or exceeds @whole_size, an @offset that is not aligned, invalid flags, or more than one kind,
 *   %GPU_ERROR_IPC for a descriptor that does not refer to memory or refers to fewer bytes than
 *   @whole_size, or the driver's error
 *
 * Since: 0.1
 */
GpuBuffer *
gpu_buffer_new_from_fd (GpuContext      *context,
                        GpuMemoryFlags   flags,
                        GpuFdKinds       kind,
                        gint             fd,
                        gsize            whole_size,
                        gsize            offset,
                        gsize            size,
                        GError         **error)
{
  const char *function = "gpu_buffer_new_from_fd";
  const Descriptor descriptor = { function, kind, fd, whole_size };
  g_autoptr (GpuBuffer) from_start = NULL;
  GpuNativeContext *native;

  g_return_val_if_fail (GPU_IS_CONTEXT (context), NULL);

  if (!_gpu_context_check (context, function, error))
    return NULL;

  native = _gpu_context_get_native (context);

  if (!check_kind (native, function, TRUE, kind, error)
      || !check_import (native, function, flags, fd, whole_size, offset, size, error))
    return NULL;

  if (offset == 0 || !native->backend->buffer->opens_from_start)
    return open_range (context, flags, &descriptor, offset, size, error);

  from_start = open_range (context, flags, &descriptor, 0, offset + size, error);

  return from_start != NULL ? _gpu_memory_slice (GPU_MEMORY (from_start), function, "memory",
                                                 GPU_MEMORY_FLAGS_NONE, offset, size, error)
                            : NULL;
}
