/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Export and import of memory as file descriptors that other libraries can use. */
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
  const GpuFdKinds supported = get_kinds (context, import);
  g_autofree char *kinds = NULL;
  g_autofree char *text = _gpu_flags_get_nicks (GPU_TYPE_FD_KINDS, kind);

  if (kind != GPU_FD_KINDS_OPAQUE && kind != GPU_FD_KINDS_DMA_BUF)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "%s: %s is not a single kind of file descriptor", function, text);
      return FALSE;
    }

  if ((supported & kind) != 0)
    return TRUE;

  kinds = _gpu_flags_get_nicks (GPU_TYPE_FD_KINDS, supported);
  g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
               "%s: %s cannot %s memory as a file descriptor of the kind %s, %s%s",
               function, context->devices[0]->id, import ? "import" : "export", text,
               supported != 0 ? "only of: " : "nor of any other kind",
               supported != 0 ? kinds : "");

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
 * Gets the kinds of file descriptors that gpu_buffer_new_from_fd() accepts for @context.
 *
 * On CUDA, %GPU_FD_KINDS_DMA_BUF requires a driver for CUDA 12.9 or newer. Some of these drivers
 * cannot import any dma-buf: once an import has failed for this reason, the result no longer
 * contains %GPU_FD_KINDS_DMA_BUF. On OpenCL, each kind requires OpenCL 3.0 and
 * cl_khr_external_memory on every device of @context. Does not block.
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

gboolean
_gpu_buffer_check_shareable (GpuBuffer   *buffer,
                             const char  *function,
                             GError     **error)
{
  GpuMemory *memory = GPU_MEMORY (buffer);
  const char *advice = "";

  if ((memory->flags & GPU_MEMORY_FLAGS_SHAREABLE) != 0)
    return TRUE;

  if (memory->storage != NULL && memory->storage->suballocation != NULL)
    advice = ": create its pool with this flag";
  else if (memory->storage != NULL && memory->storage->kind == GPU_STORAGE_FOREIGN)
    advice = ": it is imported or wrapped, so only its owner can export it";

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s: the memory of %" G_GSIZE_FORMAT " bytes was created without "
               "GPU_MEMORY_FLAGS_SHAREABLE%s", function, memory->size, advice);

  return FALSE;
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

  return _gpu_buffer_check_shareable (buffer, function, error);
}

/**
 * gpu_buffer_export_fd:
 * @buffer: a #GpuBuffer with %GPU_MEMORY_FLAGS_SHAREABLE, which may be a slice or belong to a
 *   #GpuMemoryPool
 * @kind: one of the kinds that gpu_context_get_export_kinds() returns
 * @whole_size: (out) (optional): size of the memory behind the descriptor, in bytes
 * @offset: (out) (optional): offset of @buffer within that memory, in bytes
 * @error: return location for an error
 *
 * Creates a file descriptor through which another process, another back end or a library such as
 * Vulkan can access the memory of @buffer (CUDA: cuMemExportToShareableHandle, or
 * cuMemGetHandleForAddressRange for a dma-buf; on the host, a sealed memfd). The memory is freed
 * only when the buffer, the descriptor and all imports of the descriptor have been freed. Memory of
 * a #GpuMemoryPool is an exception: see gpu_buffer_export_fds(). The descriptor does not carry
 * synchronization: before another library uses the memory, the program must wait for the pending
 * work on @buffer. If the importing program also uses this library, prefer gpu_buffer_export_fds(),
 * whose handles are validated on import. Does not block; may be called from any thread.
 *
 * Returns: the descriptor, for the caller to close, or -1 with %GPU_ERROR_NOT_SUPPORTED if @kind is
 *   not supported, the memory was allocated in stream order or @buffer lies in several chunks of an
 *   expandable pool, %GPU_ERROR_INVALID_ARGUMENT if @buffer does not have
 *   %GPU_MEMORY_FLAGS_SHAREABLE or @kind is more than one kind, %GPU_ERROR_RELEASED, or the
 *   driver's error
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

/* Returns the name of the file type, for types that cannot refer to memory, and NULL for all other
 * types. Character devices can refer to memory: NVIDIA's driver exports memory as such devices. */
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

/* Returns the size of the memory behind the descriptor, or -1 if the system does not know the size.
 * For a dma-buf, fstat() reports 0 bytes, but lseek() to the end returns the size. For anonymous
 * inodes of drivers, both functions report 0. */
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

/* Drivers do not check the stated size. If the memory is smaller, NVIDIA's driver ends the process
 * when work accesses bytes beyond the end of the memory. */
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

  /* Every operation acquires external memory first and releases the memory afterwards. Operations
   * that overlap would acquire the memory twice, so operations must run in order, even if the
   * caller asked for untracked memory. */
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
 * @context: a #GpuContext on the device of the memory. The descriptor does not name the device, so
 *   the library cannot check this
 * @flags: the intended use of the buffer, without %GPU_MEMORY_FLAGS_ALLOC_HOST and
 *   %GPU_MEMORY_FLAGS_SHAREABLE. On the host back end, a descriptor that does not permit writing
 *   requires %GPU_MEMORY_FLAGS_READ_ONLY, and neither kernels nor the host can write the buffer
 * @kind: one of the kinds that gpu_context_get_import_kinds() returns
 * @fd: the descriptor; the caller keeps ownership
 * @whole_size: size of the memory behind @fd, in bytes
 * @offset: offset of the buffer within that memory, in bytes
 * @size: size of the buffer, in bytes
 * @error: return location for an error
 *
 * Creates a buffer for memory that was exported by another library, or by this library with
 * gpu_buffer_export_fd() (CUDA: cuMemImportFromShareableHandle, or else cuImportExternalMemory and
 * cuExternalMemoryGetMappedBuffer; OpenCL: clCreateBufferWithProperties; on the host, mmap of the
 * pages of a sealed memfd that contain the buffer). @whole_size must be the size that the exporter
 * states: if the system does not know the size of the memory, the library cannot check @whole_size,
 * and the driver does not check it.
 *
 * The exporter and this buffer share the memory, so each sees the writes of the other. The library
 * does not track uses of the memory by the exporter. The program must therefore wait for the
 * exporter's work on the memory before it submits work that uses the buffer. Before the exporter
 * uses the memory again, the program must wait for the work that uses the buffer, with
 * gpu_stream_synchronize() or gpu_event_wait(). On CUDA and OpenCL, each import of the same memory
 * has a mapping of its own, and the library does not order uses of different imports. The memory
 * does not count towards gpu_context_get_allocated_size(). Does not block; may be called from any
 * thread.
 *
 * On OpenCL, every operation that uses the buffer is enclosed in
 * clEnqueueAcquireExternalMemObjectsKHR and clEnqueueReleaseExternalMemObjectsKHR. Operations on
 * the buffer run one after another, even if they only read or if @flags contains
 * %GPU_MEMORY_FLAGS_UNTRACKED. The buffer stays acquired while a range of it is mapped. If a stream
 * of another context has copied the buffer, gpu_context_synchronize() with @context also waits for
 * the release command of that copy. NVIDIA's driver blocks the calling thread in the acquire
 * command until the earlier work of the stream has completed; if that work depends on a user event,
 * the operation fails with %GPU_ERROR_BUSY instead. If @offset is not 0, the buffer is a slice of
 * an imported buffer that begins at offset 0, and @offset must be a multiple of
 * gpu_device_get_base_alignment().
 *
 * On the host back end, the buffer has %GPU_MEMORY_FLAGS_SHAREABLE and can be exported again with
 * gpu_buffer_export_fd(). Other back ends cannot export imported memory: pass on the original
 * descriptor instead.
 *
 * Returns: (transfer full): the buffer, or %NULL with %GPU_ERROR_NOT_SUPPORTED if @kind is not
 *   supported; %GPU_ERROR_INVALID_ARGUMENT for a descriptor that is not open, a range that is empty
 *   or exceeds @whole_size, an @offset that is not aligned, invalid flags, or more than one kind;
 *   %GPU_ERROR_IPC for a descriptor that does not refer to memory or refers to fewer bytes than
 *   @whole_size; or the driver's error
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
