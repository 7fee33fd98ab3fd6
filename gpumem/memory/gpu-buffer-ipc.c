/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Buffers that pass to other processes. */
#include "config.h"

#include <gio/gunixfdlist.h>
#include <glib/gstdio.h>

#include "gpumem/device/gpu-ipc-private.h"
#include "gpumem/memory/gpu-memory-private.h"

/* The flags of memory that pass with it. */
#define ACCESS_FLAGS (GPU_MEMORY_FLAGS_READ_ONLY | GPU_MEMORY_FLAGS_WRITE_ONLY \
                      | GPU_MEMORY_FLAGS_HOST_READ_ONLY \
                      | GPU_MEMORY_FLAGS_HOST_WRITE_ONLY | GPU_MEMORY_FLAGS_HOST_NO_ACCESS)

/**
 * gpu_buffer_export_handle:
 * @buffer: a #GpuBuffer, which may be a slice
 * @error: return location for an error
 *
 * Makes a handle of @buffer that another process of the machine opens with
 * gpu_buffer_new_from_handle() (CUDA: cuIpcGetMemHandle): plain bytes, to be passed on by whatever
 * means. They say where in the driver's own allocation the buffer lies, and how large it is. The
 * handle does not hold the memory: @buffer must live as long as another process uses it. Nor does
 * it say when work on it is done: pass an event as well, see gpu_event_export_handle(). Does not
 * block.
 *
 * Whoever has the handle reaches all of the driver's allocation, which can hold more than @buffer.
 *
 * Returns: (transfer full): the handle, or %NULL with %GPU_ERROR_NOT_SUPPORTED on devices without
 *   %GPU_CAPABILITIES_IPC_HANDLES and for memory of a kind that does not pass, such as that of the
 *   host, %GPU_ERROR_RELEASED, or the driver's error
 *
 * Since: 0.1
 */
GBytes *
gpu_buffer_export_handle (GpuBuffer  *buffer,
                          GError    **error)
{
  const char *function = "gpu_buffer_export_handle";
  GpuMemory *memory = GPU_MEMORY (buffer);
  g_auto (GpuIpcEnvelope) envelope = { .fd = -1 };
  GpuNativeContext *context;
  GpuStorage *storage;
  GError *failure = NULL;

  g_return_val_if_fail (GPU_IS_BUFFER (buffer), NULL);

  if (!_gpu_memory_check (memory, function, error)
      || !_gpu_context_check (memory->context, function, error))
    return NULL;

  context = _gpu_context_get_native (memory->context);

  if (!_gpu_ipc_check (context, function, context->backend->buffer->export_handle != NULL,
                       GPU_CAPABILITIES_IPC_HANDLES, "handles for other processes", error))
    return NULL;

  storage = _gpu_memory_acquire (memory, function, error);

  if (storage == NULL)
    return NULL;

  envelope.size = memory->size;
  envelope.flags = memory->flags & ACCESS_FLAGS;
  envelope.payload = context->backend->buffer->export_handle (context, storage->buffer, &failure);
  _gpu_storage_unuse (storage);

  if (!_gpu_native_context_end (context, function, failure, error))
    return NULL;

  return _gpu_ipc_envelope_seal (&envelope, GPU_IPC_BUFFER, context->backend);
}

/* A size from outside may exceed the address space. */
static gboolean
check_size (const GpuIpcEnvelope  *envelope,
            const char            *function,
            GError               **error)
{
  if (envelope->size > 0 && envelope->size <= G_MAXSSIZE)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_IPC,
               "%s: the handle tells of a buffer of %" G_GUINT64_FORMAT " bytes", function,
               envelope->size);

  return FALSE;
}

static GpuNativeContext *
import_begin (GpuContext      *context,
              GpuIpcType       type,
              GBytes          *handle,
              const char      *function,
              GpuIpcEnvelope  *envelope,
              GError         **error)
{
  GpuNativeContext *native = _gpu_ipc_import_begin (context, type, handle, function, envelope,
                                                    error);

  if (native == NULL || !check_size (envelope, function, error)
      || !_gpu_buffer_check_flags (function, native, envelope->flags, error))
    return NULL;

  return native;
}

/* Takes @native over. */
static GpuBuffer *
buffer_new (GpuContext       *context,
            GpuNativeBuffer  *native,
            GpuMemoryFlags    flags)
{
  GpuBuffer *buffer = g_object_new (GPU_TYPE_BUFFER, "context", context, NULL);

  _gpu_memory_set_storage (GPU_MEMORY (buffer),
                           _gpu_storage_new (_gpu_context_get_native (context), native, flags,
                                             GPU_STORAGE_FOREIGN, NULL, NULL));

  return buffer;
}

/**
 * gpu_buffer_new_from_handle:
 * @context: a #GpuContext on the same device of the machine
 * @handle: what gpu_buffer_export_handle() gave in another process
 * @error: return location for an error
 *
 * Makes a buffer of memory that another process holds (CUDA: cuIpcOpenMemHandle). Both see what the
 * other one writes; uses there are not tracked here. The same memory imported again is mapped
 * once, and uses of both buffers are ordered as those of one. It does not count for
 * gpu_context_get_allocated_size(), and stays that of the other process: once that is gone, so is
 * what the memory holds. A process cannot import its own handles on CUDA. Does not block.
 *
 * Returns: (transfer full): the buffer, or %NULL with %GPU_ERROR_IPC if @handle is none, of another
 *   back end, or tells of memory that is gone, %GPU_ERROR_NOT_SUPPORTED on devices without
 *   %GPU_CAPABILITIES_IPC_HANDLES, or the driver's error
 *
 * Since: 0.1
 */
GpuBuffer *
gpu_buffer_new_from_handle (GpuContext  *context,
                            GBytes      *handle,
                            GError     **error)
{
  const char *function = "gpu_buffer_new_from_handle";
  g_auto (GpuIpcEnvelope) envelope = { 0 };
  GpuNativeContext *native;
  GpuNativeBuffer *imported;
  GError *failure = NULL;

  g_return_val_if_fail (GPU_IS_CONTEXT (context), NULL);
  g_return_val_if_fail (handle != NULL, NULL);

  native = import_begin (context, GPU_IPC_BUFFER, handle, function, &envelope, error);

  if (native == NULL)
    return NULL;

  imported = native->backend->buffer->import_handle (native, envelope.payload, envelope.size,
                                                     &failure);

  if (!_gpu_native_context_end (native, function, failure, error))
    return NULL;

  return buffer_new (context, imported, envelope.flags & ACCESS_FLAGS);
}

/**
 * gpu_buffer_export_fds:
 * @buffer: a #GpuBuffer with %GPU_MEMORY_FLAGS_SHAREABLE, which may be a slice
 * @fds: a list that the file descriptor of the memory is added to
 * @error: return location for an error
 *
 * Makes a handle of @buffer that another process opens with gpu_buffer_new_from_fds(), given that
 * it gets @fds as well: with #GUnixConnection or GDBus (CUDA: cuMemExportToShareableHandle,
 * cuMemPoolExportToShareableHandle; a memfd on the host). Other than with
 * gpu_buffer_export_handle() the memory lives as long as anybody holds it, and only who was given
 * the descriptor reaches it. That of gpu_buffer_new_on_stream() is the exception: it goes back to
 * the driver's pool with @buffer, which must live as long as another process uses it. Several
 * buffers can go with one list. Does not block.
 *
 * Returns: (transfer full): the handle, or %NULL with %GPU_ERROR_NOT_SUPPORTED on devices without
 *   %GPU_CAPABILITIES_IPC_FDS, %GPU_ERROR_INVALID_ARGUMENT without %GPU_MEMORY_FLAGS_SHAREABLE,
 *   %GPU_ERROR_RELEASED, or the driver's error
 *
 * Since: 0.1
 */
GBytes *
gpu_buffer_export_fds (GpuBuffer    *buffer,
                       GUnixFDList  *fds,
                       GError      **error)
{
  const char *function = "gpu_buffer_export_fds";
  GpuMemory *memory = GPU_MEMORY (buffer);
  g_auto (GpuIpcEnvelope) envelope = { 0 };
  GpuNativeContext *context;
  GpuStorage *storage;
  GError *failure = NULL;
  int fd = -1;

  g_return_val_if_fail (GPU_IS_BUFFER (buffer), NULL);
  g_return_val_if_fail (G_IS_UNIX_FD_LIST (fds), NULL);

  if (!_gpu_memory_check (memory, function, error)
      || !_gpu_context_check (memory->context, function, error))
    return NULL;

  context = _gpu_context_get_native (memory->context);

  if (!_gpu_ipc_check (context, function, context->backend->buffer->export_fd != NULL,
                       GPU_CAPABILITIES_IPC_FDS, "memory with file descriptors", error))
    return NULL;

  if ((memory->flags & GPU_MEMORY_FLAGS_SHAREABLE) == 0)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "%s: the memory %p was made without GPU_MEMORY_FLAGS_SHAREABLE", function,
                   (void *) buffer);
      return NULL;
    }

  storage = _gpu_memory_acquire (memory, function, error);

  if (storage == NULL)
    return NULL;

  envelope.size = memory->size;
  envelope.flags = memory->flags & ACCESS_FLAGS;
  envelope.payload = context->backend->buffer->export_fd (context, storage->buffer, &fd, &failure);
  _gpu_storage_unuse (storage);

  if (!_gpu_native_context_end (context, function, failure, error))
    return NULL;

  /* The list takes a descriptor of its own. */
  envelope.fd = g_unix_fd_list_append (fds, fd, error);
  g_close (fd, NULL);

  if (envelope.fd < 0)
    {
      g_prefix_error (error, "%s: ", function);
      return NULL;
    }

  return _gpu_ipc_envelope_seal (&envelope, GPU_IPC_BUFFER_FD, context->backend);
}

static int
get_fd (GUnixFDList           *fds,
        const GpuIpcEnvelope  *envelope,
        const char            *function,
        GError               **error)
{
  int fd;

  if (envelope->fd < 0 || envelope->fd >= g_unix_fd_list_get_length (fds))
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_IPC,
                   "%s: the handle tells of file descriptor %d among %d", function, envelope->fd,
                   g_unix_fd_list_get_length (fds));
      return -1;
    }

  fd = g_unix_fd_list_get (fds, envelope->fd, error);

  if (fd < 0)
    g_prefix_error (error, "%s: ", function);

  return fd;
}

/**
 * gpu_buffer_new_from_fds:
 * @context: a #GpuContext on the same device of the machine
 * @handle: what gpu_buffer_export_fds() gave in another process, or in this one
 * @fds: the list that it was given with; it stays as it is
 * @error: return location for an error
 *
 * Makes a buffer of memory that another process shares (CUDA: cuMemImportFromShareableHandle,
 * cuMemPoolImportFromShareableHandle; mmap on the host). Both see what the other one writes; uses
 * there are not tracked here. The same memory imported again is mapped once, and uses of both
 * buffers are ordered as those of one; on the host that goes for memory that this process has
 * exported, too, while on CUDA that is mapped, and tracked, apart. It does not count for
 * gpu_context_get_allocated_size(), and can be exported again. Does not block.
 *
 * Returns: (transfer full): the buffer, or %NULL with %GPU_ERROR_IPC if @handle is none, of another
 *   back end, or does not go with what is in @fds, %GPU_ERROR_NOT_SUPPORTED on devices without
 *   %GPU_CAPABILITIES_IPC_FDS, a #GIOErrorEnum if the descriptor cannot be duplicated, or the
 *   driver's error
 *
 * Since: 0.1
 */
GpuBuffer *
gpu_buffer_new_from_fds (GpuContext   *context,
                         GBytes       *handle,
                         GUnixFDList  *fds,
                         GError      **error)
{
  const char *function = "gpu_buffer_new_from_fds";
  g_auto (GpuIpcEnvelope) envelope = { 0 };
  GpuNativeContext *native;
  GpuNativeBuffer *imported;
  GError *failure = NULL;
  int fd;

  g_return_val_if_fail (GPU_IS_CONTEXT (context), NULL);
  g_return_val_if_fail (handle != NULL, NULL);
  g_return_val_if_fail (G_IS_UNIX_FD_LIST (fds), NULL);

  native = import_begin (context, GPU_IPC_BUFFER_FD, handle, function, &envelope, error);

  if (native == NULL)
    return NULL;

  fd = get_fd (fds, &envelope, function, error);

  if (fd < 0)
    return NULL;

  if (!_gpu_buffer_check_fd (function, fd, 0, error))
    {
      g_close (fd, NULL);
      return NULL;
    }

  imported = native->backend->buffer->import_fd (native, envelope.payload, fd, envelope.size,
                                                 &failure);
  g_close (fd, NULL);

  if (!_gpu_native_context_end (native, function, failure, error))
    return NULL;

  return buffer_new (context, imported,
                     (envelope.flags & ACCESS_FLAGS) | GPU_MEMORY_FLAGS_SHAREABLE);
}
