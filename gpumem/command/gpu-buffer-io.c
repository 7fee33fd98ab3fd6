/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The blocking methods of buffers, and their asynchronous variants. */
#include "config.h"

#include "gpumem/base/gpu-error-private.h"
#include "gpumem/base/gpu-workers-private.h"
#include "gpumem/command/gpu-command-private.h"
#include "gpumem/command/gpu-copy-cross-driver-private.h"
#include "gpumem/command/gpu-memory-task-private.h"

static gboolean
read_device (GpuMemory     *memory,
             GpuStream     *stream,
             gsize          offset,
             gpointer       data,
             gsize          size,
             const char    *function,
             GCancellable  *cancellable,
             GError       **error)
{
  GpuPending pending = { NULL, 0 };
  GpuTimeline *timeline = _gpu_memory_peek_timeline (memory, stream, function, cancellable, error);

  return timeline != NULL
         && _gpu_timeline_read (timeline, function, memory, offset, data, size, NULL, &pending,
                                error)
         && _gpu_memory_wait_for_operation (timeline, &pending, function, error);
}

static gboolean
read_spilled (GpuMemory     *memory,
              GBytes        *contents,
              gsize          offset,
              gpointer       data,
              gsize          size,
              const char    *function,
              GCancellable  *cancellable,
              GError       **error)
{
  return _gpu_error_check_cancelled (cancellable, function, error)
         && _gpu_memory_read_spilled (memory, contents, offset, data, size, function, error);
}

/**
 * gpu_buffer_read: (skip)
 * @buffer: a #GpuBuffer
 * @stream: (nullable): the stream to read on, %NULL for the default stream
 * @offset: offset of the range in @buffer, in bytes
 * @data: (not nullable): memory of at least @size bytes for the result
 * @size: the number of bytes
 * @cancellable: (nullable): a #GCancellable, or %NULL; checked before the read begins
 * @error: return location for an error
 *
 * Reads @buffer into memory of the caller and waits until the operation completes (OpenCL:
 * clEnqueueReadBuffer, clWaitForEvents; CUDA: cuMemcpyDtoHAsync, cuEventSynchronize).
 *
 * If gpu_buffer_spill() has moved @buffer to the host, copies the contents from there at once:
 * @buffer stays spilled, @stream is not used, and the call neither waits for earlier work nor
 * reports its errors.
 *
 * Returns: %TRUE, or %FALSE with the errors of gpu_stream_read(), or the error of earlier work on
 *   the stream
 *
 * Since: 0.1
 */
GPU_HOT gboolean
gpu_buffer_read (GpuBuffer     *buffer,
                 GpuStream     *stream,
                 gsize          offset,
                 gpointer       data,
                 gsize          size,
                 GCancellable  *cancellable,
                 GError       **error)
{
  const char *function = "gpu_buffer_read";
  GpuMemory *memory = (GpuMemory *) buffer;
  GError *failure = NULL;
  gboolean success;
  gint n_moves;

  g_return_val_if_fail (GPU_IS_BUFFER (buffer), FALSE);
  g_return_val_if_fail (data != NULL || size == 0, FALSE);

  do
    {
      g_autoptr (GBytes) spilled = _gpu_memory_ref_spilled (memory, &n_moves);

      success = G_LIKELY (spilled == NULL)
                ? read_device (memory, stream, offset, data, size, function, cancellable, &failure)
                : read_spilled (memory, spilled, offset, data, size, function, cancellable,
                                &failure);
    }
  while (G_UNLIKELY (!success) && _gpu_memory_was_moved (memory, n_moves, &failure));

  if (G_UNLIKELY (!success))
    g_propagate_error (error, failure);

  return success;
}

/**
 * gpu_buffer_write: (skip)
 * @buffer: a #GpuBuffer
 * @stream: (nullable): the stream to write on, %NULL for the default stream
 * @offset: offset of the range in @buffer, in bytes
 * @data: (not nullable): the @size bytes to write
 * @size: the number of bytes
 * @cancellable: (nullable): a #GCancellable, or %NULL; checked before the write begins
 * @error: return location for an error
 *
 * Writes memory of the caller to @buffer and waits until the operation completes (OpenCL:
 * clEnqueueWriteBuffer, clWaitForEvents; CUDA: cuMemcpyHtoDAsync, cuEventSynchronize).
 *
 * Returns: %TRUE, or %FALSE with the errors of gpu_stream_write(), or the error of earlier work on
 *   the stream
 *
 * Since: 0.1
 */
GPU_HOT gboolean
gpu_buffer_write (GpuBuffer      *buffer,
                  GpuStream      *stream,
                  gsize           offset,
                  gconstpointer   data,
                  gsize           size,
                  GCancellable   *cancellable,
                  GError        **error)
{
  const char *function = "gpu_buffer_write";
  GpuTimeline *timeline;
  GpuPending pending = { NULL, 0 };

  g_return_val_if_fail (GPU_IS_BUFFER (buffer), FALSE);
  g_return_val_if_fail (data != NULL || size == 0, FALSE);

  timeline = _gpu_memory_peek_timeline ((GpuMemory *) buffer, stream, function, cancellable, error);

  return timeline != NULL
         && _gpu_timeline_write (timeline, function, (GpuMemory *) buffer, offset, data, size,
                                 NULL, &pending, error)
         && _gpu_memory_wait_for_operation (timeline, &pending, function, error);
}

/* Returns @contents itself for the whole range, otherwise a copy: a small part must not keep all
 * contents allocated. */
static GBytes *
get_spilled (GpuMemory     *memory,
             GBytes        *contents,
             gsize          offset,
             gsize          size,
             const char    *function,
             GCancellable  *cancellable,
             GError       **error)
{
  g_autoptr (GBytes) bytes = NULL;
  gpointer data = NULL;

  if (!_gpu_error_check_cancelled (cancellable, function, error)
      || !_gpu_memory_check_bounds (memory, function, "source", offset, size, error))
    return NULL;

  if (size == memory->size)
    return g_bytes_ref (contents);

  bytes = _gpu_bytes_new (size, function, &data, error);

  if (bytes == NULL
      || !_gpu_memory_read_spilled (memory, contents, offset, data, size, function, error))
    return NULL;

  return g_steal_pointer (&bytes);
}

GBytes *
_gpu_memory_read_bytes (GpuMemory     *memory,
                        GpuStream     *stream,
                        gsize          offset,
                        gsize          size,
                        const char    *function,
                        GCancellable  *cancellable,
                        GError       **error)
{
  g_auto (GpuHostWait) wait = { NULL };
  GpuPending pending = { NULL, 0 };
  g_autoptr (GBytes) bytes = NULL;
  gpointer data;

  if (!_gpu_memory_begin_wait (memory, stream, function, cancellable, &wait, error)
      || !_gpu_memory_check_range (memory, function, "source", offset, size, error))
    return NULL;

  bytes = _gpu_bytes_new (size, function, &data, error);

  if (bytes == NULL
      || !_gpu_timeline_read (wait.timeline, function, memory, offset, data, size,
                              cancellable == NULL ? NULL : bytes,
                              cancellable == NULL ? &pending : NULL, error)
      || !_gpu_memory_wait_for_operation (wait.timeline, &pending, function, error)
      || (cancellable != NULL
          && !_gpu_memory_wait_for_work (&wait, function, cancellable, error)))
    return NULL;

  return g_steal_pointer (&bytes);
}

/**
 * gpu_buffer_read_bytes:
 * @buffer: a #GpuBuffer
 * @stream: (nullable): the stream to read on, %NULL for the default stream
 * @offset: offset of the range in @buffer, in bytes
 * @size: the number of bytes
 * @cancellable: (nullable): a #GCancellable, or %NULL
 * @error: return location for an error
 *
 * Reads @buffer into new host memory and waits until the operation completes (OpenCL:
 * clEnqueueReadBuffer, clWaitForEvents; CUDA: cuMemcpyDtoHAsync, cuEventSynchronize). Cancellation
 * ends the wait, but the read continues. Reads a spilled buffer from the host, like
 * gpu_buffer_read().
 *
 * Returns: (transfer full): the bytes, or %NULL with the errors of gpu_stream_read_bytes(), the
 *   error of earlier work on the stream, or %G_IO_ERROR_CANCELLED
 *
 * Since: 0.1
 */
GBytes *
gpu_buffer_read_bytes (GpuBuffer     *buffer,
                       GpuStream     *stream,
                       gsize          offset,
                       gsize          size,
                       GCancellable  *cancellable,
                       GError       **error)
{
  const char *function = "gpu_buffer_read_bytes";
  GpuMemory *memory = (GpuMemory *) buffer;
  GError *failure = NULL;
  GBytes *bytes;
  gint n_moves;

  g_return_val_if_fail (GPU_IS_BUFFER (buffer), NULL);

  do
    {
      g_autoptr (GBytes) spilled = _gpu_memory_ref_spilled (memory, &n_moves);

      bytes = spilled != NULL
              ? get_spilled (memory, spilled, offset, size, function, cancellable, &failure)
              : _gpu_memory_read_bytes (memory, stream, offset, size, function, cancellable,
                                        &failure);
    }
  while (bytes == NULL && _gpu_memory_was_moved (memory, n_moves, &failure));

  if (bytes == NULL)
    g_propagate_error (error, failure);

  return bytes;
}

/* Begins @wait and submits the read of gpu_buffer_read_bytes_async(). */
static GBytes *
begin_read (GpuMemory    *memory,
            GpuStream    *stream,
            gsize         offset,
            gsize         size,
            GTask        *task,
            GpuHostWait  *wait,
            GError      **error)
{
  const char *function = "gpu_buffer_read_bytes_async";
  g_autoptr (GBytes) bytes = NULL;
  gpointer data;

  if (!_gpu_memory_begin_wait (memory, stream, function, g_task_get_cancellable (task), wait,
                               error)
      || !_gpu_memory_check_range (memory, function, "source", offset, size, error)
      || (bytes = _gpu_bytes_new (size, function, &data, error)) == NULL
      || !_gpu_timeline_transfer_bytes (wait->timeline, function, FALSE, memory, offset, bytes,
                                        _gpu_progress_peek (task), error))
    return NULL;

  return g_steal_pointer (&bytes);
}

/**
 * gpu_buffer_read_bytes_async:
 * @buffer: a #GpuBuffer
 * @stream: (nullable): the stream to read on, %NULL for the default stream
 * @offset: offset of the range in @buffer, in bytes
 * @size: the number of bytes
 * @cancellable: (nullable): a #GCancellable, or %NULL
 * @progress_callback: (nullable) (scope notified) (closure progress_data)
 *   (destroy progress_notify): called with the number of bytes copied so far and the total number
 *   of bytes, or %NULL
 * @progress_data: data for @progress_callback
 * @progress_notify: (nullable): frees @progress_data, after the last call of @progress_callback
 * @callback: (scope async) (nullable): called when the bytes are available
 * @user_data: data for @callback
 *
 * Reads like gpu_buffer_read_bytes(), but does not wait until the operation completes. May block
 * under the same conditions as gpu_stream_read(). @callback is called in the thread-default main
 * context of the calling thread. Reads a spilled buffer from the host, like gpu_buffer_read(). A
 * part of a spilled buffer is copied during the call.
 *
 * @progress_callback reports a long copy, as in g_file_copy_async(): it is called in the same main
 * context, at most 25 times per second, with increasing numbers of bytes. If the read succeeds,
 * @progress_callback is called once with the total, right before @callback. After an error or a
 * cancellation it is never called with the total. The numbers increase by chunks of at most 4 MiB
 * for a staged copy (see gpu_context_set_staging_limit()). Any other copy of more than 16 MiB on an
 * in-order stream is submitted in at most 16 parts of 16 MiB or more; the last part may be smaller.
 * A smaller copy, and such a copy on an out-of-order or profiling stream or behind a user event,
 * only reports the total.
 *
 * A copy with @progress_callback is one operation of the stream, and is ordered, waited for and
 * cancelled like a copy without it. While a call blocks the thread of the main context, for example
 * where gpu_stream_read() blocks, @progress_callback is not called.
 *
 * Since: 0.1
 */
void
gpu_buffer_read_bytes_async (GpuBuffer             *buffer,
                             GpuStream             *stream,
                             gsize                  offset,
                             gsize                  size,
                             GCancellable          *cancellable,
                             GFileProgressCallback  progress_callback,
                             gpointer               progress_data,
                             GDestroyNotify         progress_notify,
                             GAsyncReadyCallback    callback,
                             gpointer               user_data)
{
  g_auto (GpuHostWait) wait = { NULL };
  GpuMemory *memory = (GpuMemory *) buffer;
  g_autoptr (GTask) task = NULL;
  GError *error = NULL;
  GBytes *bytes;
  gint n_moves;

  g_return_if_fail (GPU_IS_BUFFER (buffer));

  task = g_task_new (buffer, cancellable, callback, user_data);
  g_task_set_source_tag (task, gpu_buffer_read_bytes_async);
  _gpu_progress_begin (task, size, progress_callback, progress_data, progress_notify);

  do
    {
      g_autoptr (GBytes) spilled = _gpu_memory_ref_spilled (memory, &n_moves);

      _gpu_host_wait_end (&wait);
      bytes = spilled != NULL
              ? get_spilled (memory, spilled, offset, size, "gpu_buffer_read_bytes_async",
                             cancellable, &error)
              : begin_read (memory, stream, offset, size, task, &wait, &error);
    }
  while (bytes == NULL && _gpu_memory_was_moved (memory, n_moves, &error));

  _gpu_memory_end_task (task, &wait, bytes, (GDestroyNotify) g_bytes_unref, error);
}

/**
 * gpu_buffer_read_bytes_finish:
 * @buffer: a #GpuBuffer
 * @result: the #GAsyncResult passed to the callback
 * @error: return location for an error
 *
 * Finishes gpu_buffer_read_bytes_async().
 *
 * Returns: (transfer full): like gpu_buffer_read_bytes()
 *
 * Since: 0.1
 */
GBytes *
gpu_buffer_read_bytes_finish (GpuBuffer     *buffer,
                              GAsyncResult  *result,
                              GError       **error)
{
  g_return_val_if_fail (g_task_is_valid (result, buffer), NULL);

  return _gpu_error_propagate_pointer (result, "gpu_buffer_read_bytes_async", error);
}

/**
 * gpu_buffer_write_bytes:
 * @buffer: a #GpuBuffer
 * @stream: (nullable): the stream to write on, %NULL for the default stream
 * @offset: offset of the range in @buffer, in bytes
 * @bytes: the bytes to write
 * @cancellable: (nullable): a #GCancellable, or %NULL
 * @error: return location for an error
 *
 * Writes @bytes to @buffer and waits until the operation completes (OpenCL: clEnqueueWriteBuffer,
 * clWaitForEvents; CUDA: cuMemcpyHtoDAsync, cuEventSynchronize). Cancellation ends the wait, but
 * the write continues and holds a reference to @bytes.
 *
 * Returns: %TRUE, or %FALSE with the errors of gpu_stream_write(), the error of earlier work on the
 *   stream, or %G_IO_ERROR_CANCELLED
 *
 * Since: 0.1
 */
gboolean
gpu_buffer_write_bytes (GpuBuffer     *buffer,
                        GpuStream     *stream,
                        gsize          offset,
                        GBytes        *bytes,
                        GCancellable  *cancellable,
                        GError       **error)
{
  const char *function = "gpu_buffer_write_bytes";
  g_auto (GpuHostWait) wait = { NULL };
  GpuPending pending = { NULL, 0 };
  gconstpointer data;
  gsize size;

  g_return_val_if_fail (GPU_IS_BUFFER (buffer), FALSE);
  g_return_val_if_fail (bytes != NULL, FALSE);

  data = g_bytes_get_data (bytes, &size);

  return _gpu_memory_begin_wait ((GpuMemory *) buffer, stream, function, cancellable, &wait, error)
         && _gpu_timeline_write (wait.timeline, function, GPU_MEMORY (buffer), offset, data, size,
                                 bytes, cancellable == NULL ? &pending : NULL, error)
         && _gpu_memory_wait_for_operation (wait.timeline, &pending, function, error)
         && (cancellable == NULL
             || _gpu_memory_wait_for_work (&wait, function, cancellable, error));
}

/**
 * gpu_buffer_write_bytes_async:
 * @buffer: a #GpuBuffer
 * @stream: (nullable): the stream to write on, %NULL for the default stream
 * @offset: offset of the range in @buffer, in bytes
 * @bytes: the bytes to write
 * @cancellable: (nullable): a #GCancellable, or %NULL
 * @progress_callback: (nullable) (scope notified) (closure progress_data)
 *   (destroy progress_notify): called with the number of bytes copied so far and the total number
 *   of bytes, or %NULL
 * @progress_data: data for @progress_callback
 * @progress_notify: (nullable): frees @progress_data, after the last call of @progress_callback
 * @callback: (scope async) (nullable): called when the bytes are written
 * @user_data: data for @callback
 *
 * Writes like gpu_buffer_write_bytes(), but does not wait until the operation completes. May block
 * under the same conditions as gpu_stream_write(). @callback is called in the thread-default main
 * context of the calling thread.
 *
 * @progress_callback reports a long copy, see gpu_buffer_read_bytes_async(). The chunks of a staged
 * copy are counted when they are in page-locked memory, at most 32 MiB before the device has them.
 * CUDA blocks this call for a part of a copy of more than about 200 MiB of pageable memory, like
 * gpu_stream_write(). Long copies from #GpuHostMemory do not block.
 *
 * Since: 0.1
 */
void
gpu_buffer_write_bytes_async (GpuBuffer             *buffer,
                              GpuStream             *stream,
                              gsize                  offset,
                              GBytes                *bytes,
                              GCancellable          *cancellable,
                              GFileProgressCallback  progress_callback,
                              gpointer               progress_data,
                              GDestroyNotify         progress_notify,
                              GAsyncReadyCallback    callback,
                              gpointer               user_data)
{
  const char *function = "gpu_buffer_write_bytes_async";
  g_auto (GpuHostWait) wait = { NULL };
  g_autoptr (GTask) task = NULL;
  GError *error = NULL;

  g_return_if_fail (GPU_IS_BUFFER (buffer));
  g_return_if_fail (bytes != NULL);

  task = _gpu_memory_begin_task ((GpuMemory *) buffer, stream, function,
                                 gpu_buffer_write_bytes_async, cancellable, callback, user_data,
                                 &wait, &error);
  _gpu_progress_begin (task, g_bytes_get_size (bytes), progress_callback, progress_data,
                       progress_notify);

  if (wait.timeline != NULL)
    _gpu_timeline_transfer_bytes (wait.timeline, function, TRUE, GPU_MEMORY (buffer), offset, bytes,
                                  _gpu_progress_peek (task), &error);

  _gpu_memory_end_task (task, &wait, NULL, NULL, error);
}

/**
 * gpu_buffer_write_bytes_finish:
 * @buffer: a #GpuBuffer
 * @result: the #GAsyncResult passed to the callback
 * @error: return location for an error
 *
 * Finishes gpu_buffer_write_bytes_async().
 *
 * Returns: like gpu_buffer_write_bytes()
 *
 * Since: 0.1
 */
gboolean
gpu_buffer_write_bytes_finish (GpuBuffer     *buffer,
                               GAsyncResult  *result,
                               GError       **error)
{
  g_return_val_if_fail (g_task_is_valid (result, buffer), FALSE);

  return _gpu_error_propagate_boolean (result, "gpu_buffer_write_bytes_async", error);
}

/**
 * gpu_buffer_fill:
 * @buffer: a #GpuBuffer
 * @stream: (nullable): the stream to fill on, %NULL for the default stream
 * @offset: offset of the range in @buffer, in bytes
 * @size: the number of bytes, a multiple of @pattern_size
 * @pattern: (array length=pattern_size) (element-type guint8): the bytes to repeat
 * @pattern_size: size of @pattern in bytes, not 0
 * @cancellable: (nullable): a #GCancellable, or %NULL
 * @error: return location for an error
 *
 * Fills a range of @buffer with a pattern and waits until the operation completes, see
 * gpu_stream_fill(). Cancellation ends the wait, but the fill continues.
 *
 * Returns: %TRUE, or %FALSE with the errors of gpu_stream_fill(), the error of earlier work on the
 *   stream, or %G_IO_ERROR_CANCELLED
 *
 * Since: 0.1
 */
gboolean
gpu_buffer_fill (GpuBuffer     *buffer,
                 GpuStream     *stream,
                 gsize          offset,
                 gsize          size,
                 gconstpointer  pattern,
                 gsize          pattern_size,
                 GCancellable  *cancellable,
                 GError       **error)
{
  const char *function = "gpu_buffer_fill";
  g_auto (GpuHostWait) wait = { NULL };

  g_return_val_if_fail (GPU_IS_BUFFER (buffer), FALSE);

  return _gpu_memory_begin_wait ((GpuMemory *) buffer, stream, function, cancellable, &wait, error)
         && _gpu_timeline_fill (wait.timeline, function, GPU_MEMORY (buffer), offset, size, pattern,
                                pattern_size, error)
         && _gpu_memory_wait_for_work (&wait, function, cancellable, error);
}

/**
 * gpu_buffer_copy:
 * @buffer: the destination
 * @stream: (nullable): the stream to copy on, %NULL for the default stream
 * @offset: offset of the range in @buffer, in bytes
 * @source: the source
 * @source_offset: offset of the range in @source, in bytes
 * @size: the number of bytes
 * @cancellable: (nullable): a #GCancellable, or %NULL
 * @error: return location for an error
 *
 * Copies from @source to @buffer and waits until the operation completes, see gpu_stream_copy().
 * Cancellation ends the wait, but the copy continues. If the calling thread itself performs the
 * copy (see gpu_stream_copy()), cancellation stops the copy.
 *
 * Returns: %TRUE, or %FALSE with the errors of gpu_stream_copy(), the error of earlier work on the
 *   stream, or %G_IO_ERROR_CANCELLED
 *
 * Since: 0.1
 */
gboolean
gpu_buffer_copy (GpuBuffer     *buffer,
                 GpuStream     *stream,
                 gsize          offset,
                 GpuBuffer     *source,
                 gsize          source_offset,
                 gsize          size,
                 GCancellable  *cancellable,
                 GError       **error)
{
  const char *function = "gpu_buffer_copy";
  const GpuRangeCopy copy = { (GpuMemory *) buffer, offset, (GpuMemory *) source, source_offset,
                              size };
  GpuPatience patience = { .cancellable = cancellable };
  g_auto (GpuHostWait) wait = { NULL };

  g_return_val_if_fail (GPU_IS_BUFFER (buffer), FALSE);
  g_return_val_if_fail (GPU_IS_BUFFER (source), FALSE);

  return _gpu_memory_begin_wait ((GpuMemory *) buffer, stream, function, cancellable, &wait, error)
         && _gpu_timeline_copy_with (wait.timeline, function, &copy, &patience, error)
         && _gpu_memory_wait_for_work (&wait, function, cancellable, error);
}

/* A copy that a worker thread performs for gpu_buffer_copy_async(). */
typedef struct
{
  GpuTimeline  *timeline;
  GpuRangeCopy  ranges;             /* owns a reference to the source; the task owns one to the
                                     * destination */
} AsyncCopy;

static AsyncCopy *
async_copy_new (GpuTimeline         *timeline,
                const GpuRangeCopy  *ranges)
{
  AsyncCopy *copy = g_new (AsyncCopy, 1);

  _gpu_timeline_use (timeline);
  *copy = (AsyncCopy) { _gpu_timeline_ref (timeline), *ranges };
  g_object_ref (copy->ranges.source);

  return copy;
}

static void
async_copy_free (gpointer data)
{
  AsyncCopy *copy = data;

  _gpu_timeline_unuse (copy->timeline);
  _gpu_timeline_unref (copy->timeline);
  g_object_unref (copy->ranges.source);
  g_free (copy);
}

static gssize
copy_in_thread (gpointer       source_object G_GNUC_UNUSED,
                gpointer       task_data,
                GCancellable  *cancellable,
                GError       **error)
{
  const char *function = "gpu_buffer_copy_async";
  const AsyncCopy *copy = task_data;
  g_auto (GpuHostWait) wait = { NULL };
  GpuPatience patience = { .cancellable = cancellable };

  _gpu_host_wait_begin (&wait, copy->timeline);

  return _gpu_timeline_copy_with (copy->timeline, function, &copy->ranges, &patience, error)
         && _gpu_memory_wait_for_work (&wait, function, cancellable, error) ? TRUE : -1;
}

/**
 * gpu_buffer_copy_async:
 * @buffer: the destination
 * @stream: (nullable): the stream to copy on, %NULL for the default stream
 * @offset: offset of the range in @buffer, in bytes
 * @source: the source
 * @source_offset: offset of the range in @source, in bytes
 * @size: the number of bytes
 * @cancellable: (nullable): a #GCancellable, or %NULL
 * @callback: (scope async) (nullable): called when the copy is done
 * @user_data: data for @callback
 *
 * Copies like gpu_buffer_copy() without blocking. @callback is called in the thread-default main
 * context of the calling thread. If gpu_stream_copy() would block until the copy completes, for
 * example between two back ends if no page-locked memory is left, a worker thread performs the
 * copy. Later work in @stream does not wait for such a copy.
 *
 * Since: 0.1
 */
void
gpu_buffer_copy_async (GpuBuffer           *buffer,
                       GpuStream           *stream,
                       gsize                offset,
                       GpuBuffer           *source,
                       gsize                source_offset,
                       gsize                size,
                       GCancellable        *cancellable,
                       GAsyncReadyCallback  callback,
                       gpointer             user_data)
{
  const char *function = "gpu_buffer_copy_async";
  const GpuRangeCopy copy = { (GpuMemory *) buffer, offset, (GpuMemory *) source, source_offset,
                              size };
  GpuPatience patience = { .must_not_block = TRUE };
  g_auto (GpuHostWait) wait = { NULL };
  g_autoptr (GTask) task = NULL;
  GError *error = NULL;

  g_return_if_fail (GPU_IS_BUFFER (buffer));
  g_return_if_fail (GPU_IS_BUFFER (source));

  task = _gpu_memory_begin_task ((GpuMemory *) buffer, stream, function, gpu_buffer_copy_async,
                                 cancellable, callback, user_data, &wait, &error);

  if (wait.timeline != NULL)
    _gpu_timeline_copy_with (wait.timeline, function, &copy, &patience, &error);

  if (patience.would_block)
    {
      g_task_set_task_data (task, async_copy_new (wait.timeline, &copy), async_copy_free);
      _gpu_workers_run_task (task, TRUE, copy_in_thread);
      return;
    }

  _gpu_memory_end_task (task, &wait, NULL, NULL, error);
}

/**
 * gpu_buffer_copy_finish:
 * @buffer: a #GpuBuffer
 * @result: the #GAsyncResult passed to the callback
 * @error: return location for an error
 *
 * Finishes gpu_buffer_copy_async().
 *
 * Returns: like gpu_buffer_copy()
 *
 * Since: 0.1
 */
gboolean
gpu_buffer_copy_finish (GpuBuffer     *buffer,
                        GAsyncResult  *result,
                        GError       **error)
{
  g_return_val_if_fail (g_task_is_valid (result, buffer), FALSE);

  return _gpu_error_propagate_boolean (result, "gpu_buffer_copy_async", error);
}

/**
 * gpu_buffer_map:
 * @buffer: a #GpuBuffer
 * @stream: (nullable): the stream to map on, %NULL for the default stream
 * @flags: the intended access of the host
 * @offset: offset of the range in @buffer, in bytes
 * @size: size of the range in bytes, not 0
 * @cancellable: (nullable): a #GCancellable, or %NULL
 * @error: return location for an error
 *
 * Maps a range of @buffer and waits until the host may access it, see gpu_stream_map().
 * Cancellation unmaps the range.
 *
 * Returns: (transfer full): the mapping, or %NULL with the errors of gpu_stream_map(), the error of
 *   earlier work on the stream, or %G_IO_ERROR_CANCELLED
 *
 * Since: 0.1
 */
GpuMapping *
gpu_buffer_map (GpuBuffer     *buffer,
                GpuStream     *stream,
                GpuMapFlags    flags,
                gsize          offset,
                gsize          size,
                GCancellable  *cancellable,
                GError       **error)
{
  const char *function = "gpu_buffer_map";
  g_auto (GpuHostWait) wait = { NULL };
  g_autoptr (GpuMapping) mapping = NULL;

  g_return_val_if_fail (GPU_IS_BUFFER (buffer), NULL);

  if (!_gpu_memory_begin_wait ((GpuMemory *) buffer, stream, function, cancellable, &wait, error))
    return NULL;

  mapping = _gpu_timeline_map (wait.timeline, function, GPU_MEMORY (buffer), flags, offset, size,
                               error);

  if (mapping == NULL || !_gpu_memory_wait_for_work (&wait, function, cancellable, error))
    return NULL;

  return g_steal_pointer (&mapping);
}

/**
 * gpu_buffer_map_async:
 * @buffer: a #GpuBuffer
 * @stream: (nullable): the stream to map on, %NULL for the default stream
 * @flags: the intended access of the host
 * @offset: offset of the range in @buffer, in bytes
 * @size: size of the range in bytes, not 0
 * @cancellable: (nullable): a #GCancellable, or %NULL
 * @callback: (scope async) (nullable): called when the host may access the range
 * @user_data: data for @callback
 *
 * Maps like gpu_buffer_map() without blocking. @callback is called in the thread-default main
 * context of the calling thread.
 *
 * Since: 0.1
 */
void
gpu_buffer_map_async (GpuBuffer           *buffer,
                      GpuStream           *stream,
                      GpuMapFlags          flags,
                      gsize                offset,
                      gsize                size,
                      GCancellable        *cancellable,
                      GAsyncReadyCallback  callback,
                      gpointer             user_data)
{
  const char *function = "gpu_buffer_map_async";
  g_auto (GpuHostWait) wait = { NULL };
  g_autoptr (GTask) task = NULL;
  GpuMapping *mapping = NULL;
  GError *error = NULL;

  g_return_if_fail (GPU_IS_BUFFER (buffer));

  task = _gpu_memory_begin_task ((GpuMemory *) buffer, stream, function, gpu_buffer_map_async,
                                 cancellable, callback, user_data, &wait, &error);

  if (wait.timeline != NULL)
    mapping = _gpu_timeline_map (wait.timeline, function, GPU_MEMORY (buffer), flags, offset, size,
                                 &error);

  _gpu_memory_end_task (task, &wait, mapping, g_object_unref, error);
}

/**
 * gpu_buffer_map_finish:
 * @buffer: a #GpuBuffer
 * @result: the #GAsyncResult passed to the callback
 * @error: return location for an error
 *
 * Finishes gpu_buffer_map_async().
 *
 * Returns: (transfer full): like gpu_buffer_map()
 *
 * Since: 0.1
 */
GpuMapping *
gpu_buffer_map_finish (GpuBuffer     *buffer,
                       GAsyncResult  *result,
                       GError       **error)
{
  g_return_val_if_fail (g_task_is_valid (result, buffer), NULL);

  return _gpu_error_propagate_pointer (result, "gpu_buffer_map_async", error);
}
