/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Host access to memory that devices also use. */
#include "config.h"

#include <string.h>

#include "gpumem/base/gpu-error-private.h"
#include "gpumem/base/gpu-nick-private.h"
#include "gpumem/command/gpu-command-private.h"
#include "gpumem/command/gpu-memory-task-private.h"
#include "gpumem/memory/gpu-host-memory-private.h"

static gboolean
check_flags (const char   *function,
             GpuMapFlags   flags,
             GError      **error)
{
  const GpuMapFlags known = GPU_MAP_FLAGS_READ | GPU_MAP_FLAGS_WRITE
                            | GPU_MAP_FLAGS_WRITE_INVALIDATE;
  g_autofree char *text = NULL;

  if ((flags & ~known) == 0)
    return TRUE;

  text = _gpu_flags_get_nicks (GPU_TYPE_MAP_FLAGS, flags);
  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT, "%s: unknown map flags %s",
               function, text);

  return FALSE;
}

/* (transfer full): lists the uses of the memory that the host must wait for. Returns NULL on
 * error. */
static GArray *
list_uses (GpuHostMemory  *memory,
           const char     *function,
           GpuMapFlags     flags,
           GCancellable   *cancellable,
           GError        **error)
{
  GpuStorage *storage;
  GArray *uses;

  if (!check_flags (function, flags, error)
      || !_gpu_error_check_cancelled (cancellable, function, error))
    return NULL;

  storage = _gpu_memory_acquire (GPU_MEMORY (memory), function, error);

  if (storage == NULL)
    return NULL;

  uses = _gpu_storage_list_uses (storage->root, flags != GPU_MAP_FLAGS_READ);
  _gpu_storage_unuse (storage);

  return uses;
}

/* Failed work no longer uses the memory. If the wait was cancelled, the work is pending. */
static gboolean
can_ignore_for_write (const GpuUse *use,
                      const GError *error G_GNUC_UNUSED)
{
  return !_gpu_point_is_pending (&use->point);
}

/* If the last write failed, there is no content to read. */
static gboolean
can_ignore_for_read (const GpuUse *use,
                     const GError *error)
{
  return use->kind != GPU_USE_WRITE && can_ignore_for_write (use, error);
}

static GpuUseIgnoreFunc *
get_can_ignore (GpuMapFlags flags)
{
  gboolean reads = flags == GPU_MAP_FLAGS_NONE || (flags & GPU_MAP_FLAGS_READ) != 0;

  return reads ? can_ignore_for_read : can_ignore_for_write;
}

static gboolean
synchronize (GpuHostMemory  *memory,
             const char     *function,
             GpuMapFlags     flags,
             GCancellable   *cancellable,
             GError        **error)
{
  GArray *uses = list_uses (memory, function, flags, cancellable, error);

  if (uses == NULL)
    return FALSE;

  if (_gpu_uses_wait (uses, get_can_ignore (flags), cancellable, error))
    return TRUE;

  g_prefix_error (error, "%s: ", function);

  return FALSE;
}

/**
 * gpu_host_memory_synchronize:
 * @memory: a #GpuHostMemory
 * @flags: the intended access of the host
 * @cancellable: (nullable): a #GCancellable
 * @error: return location for an error
 *
 * Blocks until the host may access @memory in place. If @flags are %GPU_MAP_FLAGS_READ, waits for
 * the last work that writes @memory; with other flags, waits for all work that uses @memory. This
 * includes work on all streams, but not work that other threads submit during the wait.
 * gpu_stream_map() is an alternative: it orders the access of the host in a stream, and the library
 * rejects conflicting uses until the mapping is unmapped.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_RELEASED, %GPU_ERROR_INVALID_ARGUMENT for unknown
 *   flags, %G_IO_ERROR_CANCELLED, or, if @flags include a read, the error of the last work that
 *   writes the memory
 *
 * Since: 0.1
 */
gboolean
gpu_host_memory_synchronize (GpuHostMemory  *memory,
                             GpuMapFlags     flags,
                             GCancellable   *cancellable,
                             GError        **error)
{
  g_return_val_if_fail (GPU_IS_HOST_MEMORY (memory), FALSE);

  return synchronize (memory, "gpu_host_memory_synchronize", flags, cancellable, error);
}

/**
 * gpu_host_memory_synchronize_async:
 * @memory: a #GpuHostMemory
 * @flags: the intended access of the host
 * @cancellable: (nullable): a #GCancellable
 * @callback: (scope async) (nullable): called in the thread-default main context of the calling
 *   thread when the host may access the memory
 * @user_data: data for @callback
 *
 * Waits like gpu_host_memory_synchronize() without blocking.
 *
 * Since: 0.1
 */
void
gpu_host_memory_synchronize_async (GpuHostMemory        *memory,
                                   GpuMapFlags           flags,
                                   GCancellable         *cancellable,
                                   GAsyncReadyCallback   callback,
                                   gpointer              user_data)
{
  const char *function = "gpu_host_memory_synchronize_async";
  GError *error = NULL;
  GTask *task;
  GArray *uses;

  g_return_if_fail (GPU_IS_HOST_MEMORY (memory));

  task = g_task_new (memory, cancellable, callback, user_data);
  g_task_set_source_tag (task, gpu_host_memory_synchronize_async);
  uses = list_uses (memory, function, flags, cancellable, &error);

  if (uses == NULL)
    {
      g_task_return_error (task, error);
      g_object_unref (task);
      return;
    }

  _gpu_uses_wait_task (task, uses, get_can_ignore (flags), function);
}

/**
 * gpu_host_memory_synchronize_finish:
 * @memory: a #GpuHostMemory
 * @result: the #GAsyncResult passed to the callback
 * @error: return location for an error
 *
 * Finishes gpu_host_memory_synchronize_async().
 *
 * Returns: %TRUE, or %FALSE with the errors of gpu_host_memory_synchronize()
 *
 * Since: 0.1
 */
gboolean
gpu_host_memory_synchronize_finish (GpuHostMemory  *memory,
                                    GAsyncResult   *result,
                                    GError        **error)
{
  g_return_val_if_fail (g_task_is_valid (result, memory), FALSE);

  return _gpu_error_propagate_boolean (result, "gpu_host_memory_synchronize_async", error);
}

static void
release_view (gpointer data)
{
  GpuStorage *storage = data;

  _gpu_storage_unuse (storage);
  _gpu_storage_unref (storage);
}

/**
 * gpu_host_memory_get_bytes:
 * @memory: a #GpuHostMemory
 *
 * Gets the memory as bytes, without copying it. The memory remains valid as long as the bytes
 * exist, even after @memory is released or finalized. Work that writes the memory changes the
 * bytes: call gpu_host_memory_synchronize() before reading them. For registered memory, returns the
 * bytes passed to its constructor. Does not block.
 *
 * Returns: (transfer full) (nullable): the bytes, or %NULL once the memory is released
 *
 * Since: 0.1
 */
GBytes *
gpu_host_memory_get_bytes (GpuHostMemory *memory)
{
  GpuMemory *self = GPU_MEMORY (memory);
  GpuStorage *storage;
  GBytes *bytes;

  g_return_val_if_fail (GPU_IS_HOST_MEMORY (memory), NULL);

  bytes = gpu_memory_get_host_bytes (self);

  if (bytes != NULL)
    return bytes;

  storage = _gpu_memory_acquire (self, "gpu_host_memory_get_bytes", NULL);

  if (storage == NULL)
    return NULL;

  return g_bytes_new_with_free_func (memory->data, self->size, release_view,
                                     _gpu_storage_ref (storage));
}

/* Blocks until the host may access the memory, then returns the address of @offset. On success, the
 * caller must call _gpu_storage_unuse(). */
static guint8 *
begin_access (GpuHostMemory  *memory,
              const char     *function,
              GpuMapFlags     flags,
              gsize           offset,
              gsize           size,
              GCancellable   *cancellable,
              GError        **error)
{
  GpuMemory *self = GPU_MEMORY (memory);

  if (!_gpu_memory_check_range (self, function, "memory", offset, size, error)
      || !_gpu_memory_check_host (self, function, flags != GPU_MAP_FLAGS_READ, error)
      || _gpu_memory_acquire (self, function, error) == NULL)
    return NULL;

  if (synchronize (memory, function, flags, cancellable, error))
    return memory->data + offset;

  _gpu_storage_unuse (self->storage);

  return NULL;
}

/**
 * gpu_host_memory_read_bytes:
 * @memory: a #GpuHostMemory
 * @offset: offset of the range in @memory, in bytes
 * @size: the number of bytes
 * @cancellable: (nullable): a #GCancellable
 * @error: return location for an error
 *
 * Copies a range of the memory, for languages without pointers. Blocks until the last work that
 * writes the memory has completed.
 *
 * Returns: (transfer full): the bytes, or %NULL with %GPU_ERROR_INVALID_ARGUMENT if the range
 *   exceeds the memory, %GPU_ERROR_OUT_OF_HOST_MEMORY, or the errors of
 *   gpu_host_memory_synchronize()
 *
 * Since: 0.1
 */
GBytes *
gpu_host_memory_read_bytes (GpuHostMemory  *memory,
                            gsize           offset,
                            gsize           size,
                            GCancellable   *cancellable,
                            GError        **error)
{
  const char *function = "gpu_host_memory_read_bytes";
  const guint8 *from;
  GBytes *bytes;
  gpointer data;

  g_return_val_if_fail (GPU_IS_HOST_MEMORY (memory), NULL);

  from = begin_access (memory, function, GPU_MAP_FLAGS_READ, offset, size, cancellable, error);

  if (from == NULL)
    return NULL;

  bytes = _gpu_bytes_new (size, function, &data, error);

  if (bytes != NULL)
    memcpy (data, from, size);

  _gpu_storage_unuse (GPU_MEMORY (memory)->storage);

  return bytes;
}

/**
 * gpu_host_memory_write_bytes:
 * @memory: a #GpuHostMemory
 * @offset: offset of the range in @memory, in bytes
 * @bytes: the bytes to write
 * @cancellable: (nullable): a #GCancellable
 * @error: return location for an error
 *
 * Copies @bytes into a range of the memory, for languages without pointers. Blocks until all work
 * that uses the memory has completed.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_INVALID_ARGUMENT if the range exceeds the memory or the
 *   memory was registered with %GPU_HOST_MEMORY_FLAGS_READ_ONLY, or the errors of
 *   gpu_host_memory_synchronize()
 *
 * Since: 0.1
 */
gboolean
gpu_host_memory_write_bytes (GpuHostMemory  *memory,
                             gsize           offset,
                             GBytes         *bytes,
                             GCancellable   *cancellable,
                             GError        **error)
{
  gconstpointer data;
  guint8 *to;
  gsize size;

  g_return_val_if_fail (GPU_IS_HOST_MEMORY (memory), FALSE);
  g_return_val_if_fail (bytes != NULL, FALSE);

  data = g_bytes_get_data (bytes, &size);
  to = begin_access (memory, "gpu_host_memory_write_bytes", GPU_MAP_FLAGS_WRITE, offset, size,
                     cancellable, error);

  if (to == NULL)
    return FALSE;

  if (size > 0)
    memcpy (to, data, size);

  _gpu_storage_unuse (GPU_MEMORY (memory)->storage);

  return TRUE;
}
