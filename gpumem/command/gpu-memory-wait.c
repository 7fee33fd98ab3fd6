/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Waiting for all work that uses a memory. */
#include "config.h"

#include "gpumem/backend/gpu-native-context-private.h"
#include "gpumem/base/gpu-error-private.h"
#include "gpumem/command/gpu-memory-task-private.h"
#include "gpumem/gpumem-bindings.h"
#include "gpumem/memory/gpu-memory-private.h"
#include "gpumem/stream/gpu-stream-private.h"

/**
 * gpu_memory_wait:
 * @memory: a #GpuMemory
 * @cancellable: (nullable): a #GCancellable, or %NULL
 * @error: return location for an error
 *
 * Blocks until all earlier work that uses @memory has completed, on all streams, and until all
 * earlier work on the streams registered with gpu_memory_add_stream() has completed. Does not wait
 * for other work of the context, with one exception: for memory of a pool, also waits for work that
 * used the memory before the pool reused it, and ignores errors of such work. For a slice, waits
 * for all work that uses the memory that contains the slice. May be called from any thread.
 *
 * Returns: %TRUE, or %FALSE with the error of work that uses @memory, %GPU_ERROR_RELEASED if
 *   @memory was released, %GPU_ERROR_BUSY if it is spilled, or %G_IO_ERROR_CANCELLED
 *
 * Since: 0.1
 */
gboolean
gpu_memory_wait (GpuMemory     *memory,
                 GCancellable  *cancellable,
                 GError       **error)
{
  const char *function = "gpu_memory_wait";
  GpuStorage *storage;
  GArray *uses;

  g_return_val_if_fail (GPU_IS_MEMORY (memory), FALSE);
  g_return_val_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable), FALSE);

  if (!_gpu_error_check_cancelled (cancellable, function, error))
    return FALSE;

  storage = _gpu_memory_acquire (memory, function, error);

  if (storage == NULL)
    return FALSE;

  uses = _gpu_storage_list_work (storage->root);
  _gpu_storage_unuse (storage);

  if (_gpu_uses_wait (uses, _gpu_use_can_ignore, cancellable, error))
    return TRUE;

  g_prefix_error (error, "%s: ", function);

  return FALSE;
}

/**
 * gpu_memory_wait_async:
 * @memory: a #GpuMemory
 * @cancellable: (nullable): a #GCancellable, or %NULL
 * @callback: (scope async) (nullable): called when the work has completed
 * @user_data: data for @callback
 *
 * Waits like gpu_memory_wait() without blocking, for work that was submitted before this call.
 * @callback is called in the thread-default main context of the calling thread. May be called from
 * any thread.
 *
 * Since: 0.1
 */
void
gpu_memory_wait_async (GpuMemory            *memory,
                       GCancellable         *cancellable,
                       GAsyncReadyCallback   callback,
                       gpointer              user_data)
{
  const char *function = "gpu_memory_wait_async";
  GError *error = NULL;
  GpuStorage *storage;
  GTask *task;
  GArray *uses;

  g_return_if_fail (GPU_IS_MEMORY (memory));
  g_return_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable));

  task = g_task_new (memory, cancellable, callback, user_data);
  g_task_set_source_tag (task, gpu_memory_wait_async);
  storage = _gpu_memory_acquire (memory, function, &error);

  if (storage == NULL)
    {
      g_task_return_error (task, error);
      g_object_unref (task);
      return;
    }

  uses = _gpu_storage_list_work (storage->root);
  _gpu_storage_unuse (storage);
  _gpu_uses_wait_task (task, uses, _gpu_use_can_ignore, function);
}

/**
 * gpu_memory_wait_finish:
 * @memory: a #GpuMemory
 * @result: the #GAsyncResult passed to the callback
 * @error: return location for an error
 *
 * Finishes gpu_memory_wait_async().
 *
 * Returns: like gpu_memory_wait()
 *
 * Since: 0.1
 */
gboolean
gpu_memory_wait_finish (GpuMemory     *memory,
                        GAsyncResult  *result,
                        GError       **error)
{
  g_return_val_if_fail (g_task_is_valid (result, memory), FALSE);

  return _gpu_error_propagate_boolean (result, "gpu_memory_wait_async", error);
}

/**
 * gpu_memory_add_stream:
 * @memory: a #GpuMemory
 * @stream: a #GpuStream of the context of @memory
 * @error: return location for an error
 *
 * Registers @stream as a user of @memory, for work that the library cannot track: work that the
 * program itself submits to the driver's stream, or kernels that receive only the address of the
 * memory. When @memory is released or its last reference is dropped, its memory is neither freed
 * nor reused by a pool until all work submitted to @stream before that time has completed.
 * Registration does not order untracked work after other uses of @memory: use
 * gpu_stream_wait_event(). Registering a slice registers the memory that contains the slice. Does
 * not block, and calls no driver function. May be called from any thread.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_RELEASED if @memory was released, %GPU_ERROR_BUSY if it
 *   is spilled (see gpu_buffer_spill()), or %GPU_ERROR_INVALID_ARGUMENT if @stream belongs to
 *   another context
 *
 * Since: 0.1
 */
gboolean
gpu_memory_add_stream (GpuMemory  *memory,
                       GpuStream  *stream,
                       GError    **error)
{
  const char *function = "gpu_memory_add_stream";
  GpuTimeline *timeline;
  GpuStorage *storage;

  g_return_val_if_fail (GPU_IS_MEMORY (memory), FALSE);
  g_return_val_if_fail (GPU_IS_STREAM (stream), FALSE);

  timeline = _gpu_stream_get_timeline (stream, function, error);
  storage = timeline != NULL ? _gpu_memory_acquire (memory, function, error) : NULL;

  if (storage == NULL)
    return FALSE;

  if (timeline->context == storage->context)
    _gpu_storage_add_stream (storage->root, timeline);
  else
    _gpu_native_context_set_memory_mismatch (function, memory->size, storage->context,
                                             timeline->context, error);

  _gpu_storage_unuse (storage);

  return timeline->context == storage->context;
}

static gboolean
is_idle (GpuStorage *root)
{
  g_autoptr (GArray) uses = _gpu_storage_list_work (root);

  for (guint i = 0; i < uses->len; i++)
    {
      const GpuPoint *point = &g_array_index (uses, GpuUse, i).point;

      if (_gpu_point_is_pending (point)
          && _gpu_timeline_query (point->timeline, point->seq, NULL) == GPU_EVENT_STATUS_PENDING)
        return FALSE;
    }

  return TRUE;
}

gboolean
_gpu_binding_is_idle (GpuMemory *memory)
{
  GpuStorage *storage;
  gboolean idle;

  g_return_val_if_fail (GPU_IS_MEMORY (memory), TRUE);

  storage = _gpu_memory_acquire (memory, "gpu_memory_wait", NULL);

  if (storage == NULL)
    return TRUE;

  /* In a forked child, the wait fails, and a query would report the work as pending. */
  idle = !_gpu_native_context_check (storage->context, NULL) || is_idle (storage->root);
  _gpu_storage_unuse (storage);

  return idle;
}
