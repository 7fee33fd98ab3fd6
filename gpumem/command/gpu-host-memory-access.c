/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Host access to memory that devices also use. */
#include "config.h"

#include <string.h>

#include "gpumem/base/gpu-nick-private.h"
#include "gpumem/command/gpu-command-private.h"
#include "gpumem/command/gpu-memory-task-private.h"
#include "gpumem/memory/gpu-host-memory-private.h"
#include "gpumem/stream/gpu-event-private.h"

/* The uses of the memory that the host waits for, one after another. */
typedef struct
{
  GArray   *uses;                   /* of GpuUse */
  guint     next;
  gboolean  reads;                  /* the host reads the memory, so it is an error if the last
                                     * write failed */
} Wait;

static void
wait_free (gpointer data)
{
  Wait *wait = data;

  g_array_unref (wait->uses);
  g_free (wait);
}

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

/* Returns NULL on error. */
static Wait *
wait_new (GpuHostMemory  *memory,
          const char     *function,
          GpuMapFlags     flags,
          GCancellable   *cancellable,
          GError        **error)
{
  GpuStorage *storage;
  Wait *wait;

  if (!check_flags (function, flags, error)
      || g_cancellable_set_error_if_cancelled (cancellable, error))
    return NULL;

  storage = _gpu_memory_acquire (GPU_MEMORY (memory), function, error);

  if (storage == NULL)
    return NULL;

  wait = g_new0 (Wait, 1);
  wait->uses = _gpu_storage_list_uses (storage->root, flags != GPU_MAP_FLAGS_READ);
  wait->reads = flags == GPU_MAP_FLAGS_NONE || (flags & GPU_MAP_FLAGS_READ) != 0;
  _gpu_storage_unuse (storage);

  return wait;
}

/* Returns whether the host may access the memory although the wait for @use failed with @error.
 * Failed work no longer uses the memory. Its failure only matters if the work was the last write
 * and the host reads the memory. */
static gboolean
can_ignore (const Wait   *wait,
            const GpuUse *use,
            const GError *error)
{
  return error->domain != G_IO_ERROR && !_gpu_point_is_pending (&use->point)
         && (use->kind != GPU_USE_WRITE || !wait->reads);
}

static gboolean
wait_for_all (Wait          *wait,
              const char    *function,
              GCancellable  *cancellable,
              GError       **error)
{
  while (wait->next < wait->uses->len)
    {
      const GpuUse *use = &g_array_index (wait->uses, GpuUse, wait->next++);
      GError *failure = NULL;

      if (_gpu_timeline_wait_until (use->point.timeline, use->point.seq, -1, cancellable, &failure))
        continue;

      if (!can_ignore (wait, use, failure))
        {
          g_propagate_prefixed_error (error, failure, "%s: ", function);
          return FALSE;
        }

      g_error_free (failure);
    }

  return TRUE;
}

static gboolean
synchronize (GpuHostMemory  *memory,
             const char     *function,
             GpuMapFlags     flags,
             GCancellable   *cancellable,
             GError        **error)
{
  Wait *wait = wait_new (memory, function, flags, cancellable, error);
  gboolean success;

  if (wait == NULL)
    return FALSE;

  success = wait_for_all (wait, function, cancellable, error);
  wait_free (wait);

  return success;
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

static void step_done (GObject      *source,
                       GAsyncResult *result,
                       gpointer      user_data);

/* Takes ownership of @task. Called in the main context of the task. */
static void
step (GTask *task)
{
  Wait *wait = g_task_get_task_data (task);
  const GpuUse *use;
  g_autoptr (GTask) part = NULL;

  if (wait->next == wait->uses->len)
    {
      g_task_return_boolean (task, TRUE);
      g_object_unref (task);
      return;
    }

  use = &g_array_index (wait->uses, GpuUse, wait->next++);
  part = g_task_new (g_task_get_source_object (task), g_task_get_cancellable (task), step_done,
                     task);
  _gpu_timeline_return_task (use->point.timeline, use->point.seq, part, NULL, NULL);
}

static void
step_done (GObject      *source G_GNUC_UNUSED,
           GAsyncResult *result,
           gpointer      user_data)
{
  GTask *task = user_data;
  Wait *wait = g_task_get_task_data (task);
  g_autoptr (GMainContext) context = g_main_context_ref (g_task_get_context (task));
  const GpuUse *use = &g_array_index (wait->uses, GpuUse, wait->next - 1);
  GError *error = NULL;

  if (!g_task_propagate_boolean (G_TASK (result), &error) && !can_ignore (wait, use, error))
    {
      g_prefix_error (&error, "gpu_host_memory_synchronize_async: ");
      g_task_return_error (task, error);
      g_object_unref (task);
      return;
    }

  g_clear_error (&error);
  g_main_context_push_thread_default (context);
  step (task);                          /* may complete the task */
  g_main_context_pop_thread_default (context);
}

/**
 * gpu_host_memory_synchronize_async:
 * @memory: a #GpuHostMemory
 * @flags: the intended access of the host
 * @cancellable: (nullable): a #GCancellable
 * @callback: (scope async): called in the thread-default main context of the calling thread when
 *   the host may access the memory
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
  GError *error = NULL;
  GTask *task;
  Wait *wait;

  g_return_if_fail (GPU_IS_HOST_MEMORY (memory));

  task = g_task_new (memory, cancellable, callback, user_data);
  g_task_set_source_tag (task, gpu_host_memory_synchronize_async);
  wait = wait_new (memory, "gpu_host_memory_synchronize_async", flags, cancellable, &error);

  if (wait == NULL)
    {
      g_task_return_error (task, error);
      g_object_unref (task);
      return;
    }

  g_task_set_task_data (task, wait, wait_free);
  step (task);
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

  return g_task_propagate_boolean (G_TASK (result), error);
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

  g_return_val_if_fail (GPU_IS_HOST_MEMORY (memory), NULL);

  storage = _gpu_memory_acquire (self, "gpu_host_memory_get_bytes", NULL);

  if (storage == NULL)
    return NULL;

  if (self->host_bytes != NULL)
    {
      _gpu_storage_unuse (storage);
      return g_bytes_ref (self->host_bytes);
    }

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
