/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The blocking and asynchronous methods that write an array. */
#include "config.h"

#include "gpumem/array/gpu-array-io-private.h"
#include "gpumem/base/gpu-error-private.h"
#include "gpumem/command/gpu-memory-task-private.h"
#include "gpumem/command/gpu-staging-private.h"

gboolean
_gpu_array_begin (GpuArray      *array,
                  GpuStream     *stream,
                  const char    *function,
                  GCancellable  *cancellable,
                  GpuHostWait   *wait,
                  GError       **error)
{
  GpuTimeline *timeline;

  if (!_gpu_error_check_cancelled (cancellable, function, error))
    return FALSE;

  timeline = _gpu_array_peek_timeline (array, stream, function, error);

  if (timeline == NULL || !_gpu_timeline_check_capture (timeline, function, error))
    return FALSE;

  _gpu_host_wait_begin (wait, timeline);

  return TRUE;
}

gboolean
_gpu_array_wait (const GpuHostWait  *wait,
                 GpuPending         *pending,
                 const char         *function,
                 GCancellable       *cancellable,
                 GError            **error)
{
  if (pending->event != NULL || pending->covers != 0)
    return _gpu_memory_wait_for_operation (wait->timeline, pending, function, error);

  return _gpu_memory_wait_for_work (wait, function, cancellable, error);
}

GTask *
_gpu_array_task_new (GpuArray            *array,
                     gpointer             tag,
                     const char          *function,
                     GCancellable        *cancellable,
                     GAsyncReadyCallback  callback,
                     gpointer             user_data)
{
  GTask *task = g_task_new (array, cancellable, callback, user_data);

  g_task_set_source_tag (task, tag);
  g_task_set_name (task, function);

  return task;
}

/* Returns FALSE if the size of @bytes is not the size of all elements without gaps. */
static gboolean
get_bytes_layout (GpuArray        *array,
                  GpuArrayOrder    order,
                  GBytes          *bytes,
                  const char      *function,
                  GpuArrayLayout  *layout,
                  GError         **error)
{
  if (!_gpu_array_get_dense_layout (array, order, function, layout, error))
    return FALSE;

  if (g_bytes_get_size (bytes) == _gpu_array_layout_get_size (layout))
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s: there are %" G_GSIZE_FORMAT " bytes, but the array has %" G_GSIZE_FORMAT,
               function, g_bytes_get_size (bytes), _gpu_array_layout_get_size (layout));

  return FALSE;
}

static gboolean
write_and_wait (GpuArray              *array,
                GpuStream             *stream,
                GBytes                *bytes,
                const GpuArrayLayout  *host,
                const char            *function,
                GCancellable          *cancellable,
                GError               **error)
{
  g_auto (GpuHostWait) wait = { NULL };
  GpuPending pending = { NULL, 0 };

  return _gpu_array_begin (array, stream, function, cancellable, &wait, error)
         && _gpu_array_write (array, wait.timeline, bytes, host,
                              cancellable == NULL ? &pending : NULL, function, error)
         && _gpu_array_wait (&wait, &pending, function, cancellable, error);
}

static void
write_async (GTask                 *task,
             GpuStream             *stream,
             GBytes                *bytes,
             const GpuArrayLayout  *host,
             GError                *error)
{
  g_auto (GpuHostWait) wait = { NULL };
  GpuArray *array = g_task_get_source_object (task);
  const char *function = g_task_get_name (task);

  if (error == NULL
      && _gpu_array_begin (array, stream, function, g_task_get_cancellable (task), &wait, &error))
    _gpu_array_write (array, wait.timeline, bytes, host, NULL, function, &error);

  _gpu_memory_end_task (task, &wait, NULL, NULL, error);
}

/**
 * gpu_array_write_bytes:
 * @array: a #GpuArray
 * @stream: (nullable): the stream to write on, %NULL for the default stream
 * @order: the order of the elements in @bytes
 * @bytes: all elements, without gaps
 * @cancellable: (nullable): a #GCancellable, or %NULL
 * @error: return location for an error
 *
 * Writes all elements and blocks until they are written, see gpu_stream_write_array(). @cancellable
 * cancels the wait, not the copy. The copy holds a reference to @bytes until it completes.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_INVALID_ARGUMENT if the size of @bytes is not the size
 *   of the elements, an error of gpu_stream_write_array() or of earlier work on the stream, or
 *   %G_IO_ERROR_CANCELLED
 *
 * Since: 0.1
 */
gboolean
gpu_array_write_bytes (GpuArray       *array,
                       GpuStream      *stream,
                       GpuArrayOrder   order,
                       GBytes         *bytes,
                       GCancellable   *cancellable,
                       GError        **error)
{
  const char *function = "gpu_array_write_bytes";
  GpuArrayLayout host;

  g_return_val_if_fail (GPU_IS_ARRAY (array), FALSE);
  g_return_val_if_fail (stream == NULL || GPU_IS_STREAM (stream), FALSE);
  g_return_val_if_fail (bytes != NULL, FALSE);

  return get_bytes_layout (array, order, bytes, function, &host, error)
         && write_and_wait (array, stream, bytes, &host, function, cancellable, error);
}

/**
 * gpu_array_write_bytes_async:
 * @array: a #GpuArray
 * @stream: (nullable): the stream to write on, %NULL for the default stream
 * @order: the order of the elements in @bytes
 * @bytes: all elements, without gaps
 * @cancellable: (nullable): a #GCancellable, or %NULL
 * @callback: (scope async) (nullable): called when the elements are written
 * @user_data: for @callback
 *
 * Writes like gpu_array_write_bytes(), but does not wait until the elements are written. May block
 * under the same conditions as gpu_stream_write(). @callback is called in the thread-default main
 * context of the calling thread.
 *
 * Since: 0.1
 */
void
gpu_array_write_bytes_async (GpuArray            *array,
                             GpuStream           *stream,
                             GpuArrayOrder        order,
                             GBytes              *bytes,
                             GCancellable        *cancellable,
                             GAsyncReadyCallback  callback,
                             gpointer             user_data)
{
  const char *function = "gpu_array_write_bytes_async";
  g_autoptr (GTask) task = NULL;
  GpuArrayLayout host;
  GError *error = NULL;

  g_return_if_fail (GPU_IS_ARRAY (array));
  g_return_if_fail (stream == NULL || GPU_IS_STREAM (stream));
  g_return_if_fail (bytes != NULL);

  task = _gpu_array_task_new (array, gpu_array_write_bytes_async, function, cancellable, callback,
                              user_data);
  get_bytes_layout (array, order, bytes, function, &host, &error);
  write_async (task, stream, bytes, &host, error);
}

/**
 * gpu_array_write_bytes_finish:
 * @array: a #GpuArray
 * @result: the #GAsyncResult of the callback
 * @error: return location for an error
 *
 * Finishes gpu_array_write_bytes_async().
 *
 * Returns: like gpu_array_write_bytes()
 *
 * Since: 0.1
 */
gboolean
gpu_array_write_bytes_finish (GpuArray      *array,
                              GAsyncResult  *result,
                              GError       **error)
{
  g_return_val_if_fail (g_task_is_valid (result, array), FALSE);

  return _gpu_error_propagate_boolean (result, "gpu_array_write_bytes_async", error);
}

/**
 * gpu_array_write_strided:
 * @array: a #GpuArray
 * @stream: (nullable): the stream to write on, %NULL for the default stream
 * @bytes: the elements to write
 * @offset: the offset in @bytes of the element whose indices are all 0
 * @strides: (array length=n_strides) (nullable): the distance between neighbouring elements in
 *   @bytes along each dimension; %NULL for C order without gaps
 * @n_strides: the number of strides
 * @cancellable: (nullable): a #GCancellable, or %NULL
 * @error: return location for an error
 *
 * Writes all elements and blocks until they are written, see gpu_stream_write_array(). @cancellable
 * cancels the wait, not the copy. The copy holds a reference to @bytes until it completes.
 *
 * Returns: %TRUE, or %FALSE with an error of gpu_stream_write_array() or of earlier work on the
 *   stream, or %G_IO_ERROR_CANCELLED
 *
 * Since: 0.1
 */
gboolean
gpu_array_write_strided (GpuArray      *array,
                         GpuStream     *stream,
                         GBytes        *bytes,
                         gsize          offset,
                         const gssize  *strides,
                         guint          n_strides,
                         GCancellable  *cancellable,
                         GError       **error)
{
  const char *function = "gpu_array_write_strided";
  GpuArrayLayout host;

  g_return_val_if_fail (GPU_IS_ARRAY (array), FALSE);
  g_return_val_if_fail (stream == NULL || GPU_IS_STREAM (stream), FALSE);
  g_return_val_if_fail (bytes != NULL, FALSE);
  g_return_val_if_fail (strides != NULL || n_strides == 0, FALSE);

  return _gpu_array_get_host_layout (array, g_bytes_get_size (bytes), offset, strides, n_strides,
                                     function, &host, error)
         && write_and_wait (array, stream, bytes, &host, function, cancellable, error);
}
