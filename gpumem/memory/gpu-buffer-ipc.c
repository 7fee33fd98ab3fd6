/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Sharing of buffers with other processes. */
#include "config.h"

#include <gio/gunixfdlist.h>

#include "gpumem/base/gpu-descriptor-private.h"
#include "gpumem/device/gpu-ipc-private.h"
#include "gpumem/memory/gpu-memory-private.h"

/* The memory flags that a handle contains. The buffer that the importing process creates also has
 * these flags. */
#define ACCESS_FLAGS (GPU_MEMORY_FLAGS_READ_ONLY | GPU_MEMORY_FLAGS_WRITE_ONLY \
                      | GPU_MEMORY_FLAGS_HOST_READ_ONLY \
                      | GPU_MEMORY_FLAGS_HOST_WRITE_ONLY | GPU_MEMORY_FLAGS_HOST_NO_ACCESS)

/**
 * gpu_buffer_export_handle:
 * @buffer: a #GpuBuffer, which may be a slice
 * @error: return location for an error
 *
 * Creates a handle of @buffer that another process on the same machine can open with
 * gpu_buffer_new_from_handle() (CUDA: cuIpcGetMemHandle). The handle consists of plain bytes, which
 * the program may pass to the other process by any means. The bytes include the size of the buffer
 * and its offset within the driver's allocation. The handle does not keep the memory alive: @buffer
 * must live as long as another process uses the memory. The handle does not carry synchronization:
 * also pass the handle of an event, see gpu_event_export_handle(). Does not block.
 *
 * A process that has the handle can access the driver's whole allocation, which may be larger than
 * @buffer. Where both are supported, prefer gpu_buffer_export_fds(), which keeps most memory alive.
 *
 * Returns: (transfer full): the handle, or %NULL with %GPU_ERROR_NOT_SUPPORTED on devices without
 *   %GPU_CAPABILITIES_IPC_HANDLES and for memory that cannot be shared, such as host memory and
 *   memory with %GPU_MEMORY_FLAGS_SHAREABLE, %GPU_ERROR_RELEASED, or the driver's error
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

  if ((memory->flags & GPU_MEMORY_FLAGS_SHAREABLE) != 0)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                   "%s: memory with GPU_MEMORY_FLAGS_SHAREABLE has no handle, only file "
                   "descriptors: use gpu_buffer_export_fds()", function);
      return NULL;
    }

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

/* The size comes from another process, so it may be invalid or exceed the address space. */
static gboolean
check_size (const GpuIpcEnvelope  *envelope,
            const char            *function,
            GError               **error)
{
  if (envelope->size > 0 && envelope->size <= G_MAXSSIZE)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_IPC,
               "%s: the handle has an invalid size of %" G_GUINT64_FORMAT " bytes", function,
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

/* Takes ownership of @native. */
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
 * @context: a #GpuContext on the device that the exported buffer is on
 * @handle: a handle that gpu_buffer_export_handle() returned in another process
 * @error: return location for an error
 *
 * Creates a buffer for memory of another process (CUDA: cuIpcOpenMemHandle). Each process sees the
 * writes of the other. Uses by the other process are not tracked. If this process imports the same
 * memory repeatedly, all the buffers share one mapping, and the library orders their uses. The
 * memory does not count towards gpu_context_get_allocated_size(). The other process owns the
 * memory: when that process ends, the contents are lost. On CUDA a process cannot import its own
 * handles. Does not block.
 *
 * Returns: (transfer full): the buffer, or %NULL with %GPU_ERROR_IPC if @handle is invalid, belongs
 *   to another back end or device, or refers to freed memory, %GPU_ERROR_NOT_SUPPORTED on devices
 *   without %GPU_CAPABILITIES_IPC_HANDLES, or the driver's error
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

/* Adds copies of all descriptors in @from to @list. */
static gboolean
append_fds (GpuIpcEnvelope  *envelope,
            GUnixFDList     *list,
            const GArray    *from,
            const char      *function,
            GError         **error)
{
  envelope->n_fds = from->len;
  envelope->fd = g_unix_fd_list_get_length (list);

  for (guint i = 0; i < from->len; i++)
    {
      if (g_unix_fd_list_append (list, g_array_index (from, int, i), error) < 0)
        {
          g_prefix_error (error, "%s: ", function);
          return FALSE;
        }
    }

  return TRUE;
}

/**
 * gpu_buffer_export_fds:
 * @buffer: a #GpuBuffer with %GPU_MEMORY_FLAGS_SHAREABLE, which may be a slice or belong to a
 *   #GpuMemoryPool
 * @fds: a list to which the file descriptors of the memory are added. If the call fails, some of
 *   them may have been added
 * @error: return location for an error
 *
 * Creates a handle of @buffer that another process can open with gpu_buffer_new_from_fds() (CUDA:
 * cuMemExportToShareableHandle, cuMemPoolExportToShareableHandle; a memfd on the host). The program
 * must pass @fds to that process together with the handle, for example with #GUnixConnection or
 * GDBus. One list can carry the descriptors of several buffers.
 *
 * Unlike with gpu_buffer_export_handle(), the memory is freed only when no process uses it any
 * more, and only processes that have the descriptors can access the memory. Memory of
 * gpu_buffer_new_on_stream() and of a #GpuMemoryPool is an exception: it returns to the pool when
 * @buffer is released, so @buffer must live as long as another process uses the memory. Later, the
 * pool uses the memory for other buffers, and a process that still has the memory mapped accesses
 * these. The memory keeps its address while @buffer exists.
 *
 * Most memory has one descriptor. A buffer of an expandable pool has one for each chunk of memory
 * that it lies in. Linux passes at most 253 descriptors in one message: send more of them in
 * several messages. A descriptor gives access to the whole chunk or segment of the pool, with other
 * buffers in it; on the host, to a file of 64 MiB or more with several chunks. Does not block.
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
  g_autoptr (GArray) exported = NULL;
  GError *failure = NULL;

  g_return_val_if_fail (GPU_IS_BUFFER (buffer), NULL);
  g_return_val_if_fail (G_IS_UNIX_FD_LIST (fds), NULL);

  if (!_gpu_memory_check (memory, function, error)
      || !_gpu_context_check (memory->context, function, error))
    return NULL;

  context = _gpu_context_get_native (memory->context);

  if (!_gpu_ipc_check (context, function, context->backend->buffer->export_fd != NULL,
                       GPU_CAPABILITIES_IPC_FDS, "memory with file descriptors", error))
    return NULL;

  if (!_gpu_buffer_check_shareable (buffer, function, error))
    return NULL;

  storage = _gpu_memory_acquire (memory, function, error);

  if (storage == NULL)
    return NULL;

  envelope.size = memory->size;
  envelope.flags = memory->flags & ACCESS_FLAGS;
  exported = _gpu_descriptors_new ();
  envelope.payload = context->backend->buffer->export_fd (context, storage->buffer, memory->size,
                                                          exported, &failure);
  _gpu_storage_unuse (storage);

  if (!_gpu_native_context_end (context, function, failure, error)
      || !append_fds (&envelope, fds, exported, function, error))
    return NULL;

  return _gpu_ipc_envelope_seal (&envelope, GPU_IPC_BUFFER_FD, context->backend);
}

/* Returns the descriptors of the handle: @envelope->n_fds elements, which belong to @fds. */
static const int *
peek_fds (GUnixFDList           *fds,
          const GpuIpcEnvelope  *envelope,
          const char            *function,
          GError               **error)
{
  gint length;
  const int *all = g_unix_fd_list_peek_fds (fds, &length);

  if (envelope->fd < 0 || envelope->fd > length || envelope->n_fds == 0
      || envelope->n_fds > (guint) (length - envelope->fd))
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_IPC,
                   "%s: the handle refers to %u file descriptors, from descriptor %d of a list of "
                   "%d on", function, envelope->n_fds, envelope->fd, length);
      return NULL;
    }

  for (guint i = 0; i < envelope->n_fds; i++)
    {
      if (!_gpu_buffer_check_fd (function, all[envelope->fd + i], 0, error))
        return NULL;
    }

  return all + envelope->fd;
}

/**
 * gpu_buffer_new_from_fds:
 * @context: a #GpuContext on the device that the exported buffer is on
 * @handle: a handle that gpu_buffer_export_fds() returned in another process, or in this process
 * @fds: the list that belongs to @handle; it is not changed
 * @error: return location for an error
 *
 * Creates a buffer for memory that was exported with gpu_buffer_export_fds() (CUDA:
 * cuMemImportFromShareableHandle, cuMemPoolImportFromShareableHandle; mmap on the host). Each
 * process sees the writes of the other. Uses by the other process are not tracked. If this process
 * imports the same memory repeatedly, all the buffers share one mapping, and the library orders
 * their uses. This process may also import memory that it exported itself. The library orders uses
 * of the imported and the original buffer on the host back end only, and not if the memory is from
 * a #GpuMemoryPool. On CUDA, and for memory of an expandable pool, the memory is mapped again. If a
 * buffer over several chunks of a pool is imported, and also a slice of it, the library orders the
 * uses of the two only if both handles have the same descriptors. The memory does not count towards
 * gpu_context_get_allocated_size(). On the host back end, the buffer has
 * %GPU_MEMORY_FLAGS_SHAREABLE and can be exported again. Does not block.
 *
 * Returns: (transfer full): the buffer, or %NULL with %GPU_ERROR_IPC if @handle is invalid, belongs
 *   to another back end or device, or does not match @fds, %GPU_ERROR_NOT_SUPPORTED on devices
 *   without %GPU_CAPABILITIES_IPC_FDS, a #GIOErrorEnum if the descriptor cannot be duplicated, or
 *   the driver's error
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
  const int *given;

  g_return_val_if_fail (GPU_IS_CONTEXT (context), NULL);
  g_return_val_if_fail (handle != NULL, NULL);
  g_return_val_if_fail (G_IS_UNIX_FD_LIST (fds), NULL);

  native = import_begin (context, GPU_IPC_BUFFER_FD, handle, function, &envelope, error);

  if (native == NULL)
    return NULL;

  given = peek_fds (fds, &envelope, function, error);

  if (given == NULL)
    return NULL;

  imported = native->backend->buffer->import_fd (native, envelope.payload, given, envelope.n_fds,
                                                 envelope.size, &failure);

  if (!_gpu_native_context_end (native, function, failure, error))
    return NULL;

  return buffer_new (context, imported,
                     (envelope.flags & ACCESS_FLAGS)
                     | (imported->is_shareable ? GPU_MEMORY_FLAGS_SHAREABLE : 0));
}
