/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Copies between files and memory: a sequence of operations of a stream that a thread waits for. */
#include "config.h"

#include <stdlib.h>

#include "gpumem/base/gpu-workers-private.h"
#include "gpumem/command/gpu-command-private.h"
#include "gpumem/command/gpu-memory-task-private.h"
#include "gpumem/command/gpu-staging-private.h"
#include "gpumem/io/gpu-file-private.h"
#include "gpumem/memory/gpu-host-memory-private.h"

/* The size of one operation of a sequence, in bytes. Two operations are in flight, and together
 * have as many chunks as the CUDA driver accepts without blocking. */
#define OPERATION_SIZE ((gsize) 64 * 1024 * 1024)

/* The size of the reads and writes of a copy that the calling thread performs, in bytes */
#define BLOCK_SIZE ((gsize) 4 * 1024 * 1024)

typedef struct
{
  GpuTimeline     *timeline;
  const char      *function;
  GpuMemory       *memory;
  GpuTransferFile *file;
  gboolean         read;            /* from the file into the memory */
  gsize            offset;          /* in the memory */
  guint64          position;        /* in the file */
  gsize            size;
  guint64          previous;        /* the point of the previous operation of the sequence, or 0 */
  GCancellable    *cancellable;     /* nullable */
  GpuProgress     *progress;        /* nullable */
} FileCopy;

typedef struct
{
  GpuMemory   *memory;
  GpuTransfer *staged;
  gboolean    *refused;
} StagedCopy;

/* Waits for the operations up to @seq; 0 for none. */
static gboolean
wait_until (const FileCopy  *copy,
            guint64          seq,
            GError         **error)
{
  if (seq == 0 || _gpu_timeline_wait_until (copy->timeline, seq, -1, copy->cancellable, error))
    return TRUE;

  g_prefix_error (error, "%s: ", copy->function);

  return FALSE;
}

/* --- copies that the calling thread performs -------------------------------------------------- */

static gboolean
copy_device (const FileCopy  *copy,
             gsize            done,
             gsize            size,
             GBytes          *bytes,
             GError         **error)
{
  guint8 *data = (guint8 *) g_bytes_get_data (bytes, NULL);
  gsize offset = copy->offset + done;
  gboolean success = copy->read
                     ? _gpu_timeline_write (copy->timeline, copy->function, copy->memory, offset,
                                            data, size, bytes, NULL, error)
                     : _gpu_timeline_read (copy->timeline, copy->function, copy->memory, offset,
                                           data, size, bytes, NULL, error);

  return success && wait_until (copy, _gpu_timeline_get_submitted (copy->timeline), error);
}

/* If the file fails, all bytes before its failure are copied. */
static gboolean
copy_block (const FileCopy  *copy,
            gsize            done,
            gsize            size,
            GBytes          *bytes,
            GError         **error)
{
  guint8 *data = (guint8 *) g_bytes_get_data (bytes, NULL);
  guint64 position = copy->position + done;
  guint64 failed_at = position + size;
  GError *failure = NULL;

  if (copy->read)
    _gpu_transfer_file_copy (copy->file, TRUE, position, data, size, &failed_at, &failure);

  if (failed_at > position && !copy_device (copy, done, failed_at - position, bytes, error))
    {
      g_clear_error (&failure);
      return FALSE;
    }

  if (!copy->read)
    _gpu_transfer_file_copy (copy->file, FALSE, position, data, size, &failed_at, &failure);

  if (failure != NULL)
    g_propagate_prefixed_error (error, failure, "%s: ", copy->function);

  return failure == NULL;
}

/* The memory is aligned for direct access to the file. Operations that are in flight after a
 * cancellation hold references to it. */
static GBytes *
block_new (const FileCopy  *copy,
           GError         **error)
{
  gpointer data = aligned_alloc (GPU_TRANSFER_FILE_ALIGNMENT, BLOCK_SIZE);

  if (data != NULL)
    return g_bytes_new_with_free_func (data, BLOCK_SIZE, free, data);

  g_set_error (error, GPU_ERROR, GPU_ERROR_OUT_OF_HOST_MEMORY,
               "%s: cannot allocate %" G_GSIZE_FORMAT " bytes of host memory", copy->function,
               BLOCK_SIZE);

  return NULL;
}

/* Copies in the calling thread, because the copy cannot be staged: the stream is out of order,
 * profiles or waits for a user event, the memory is pageable host memory, or there is no
 * page-locked memory or thread. */
static gboolean
copy_in_caller (const FileCopy  *copy,
                GError         **error)
{
  g_autoptr (GBytes) block = NULL;

  /* If the previous operation fails, its position is the first one. */
  if (!wait_until (copy, copy->previous, error) || (block = block_new (copy, error)) == NULL)
    return FALSE;

  for (gsize done = 0; done < copy->size; done += BLOCK_SIZE)
    {
      gsize size = MIN (copy->size - done, BLOCK_SIZE);

      if (g_cancellable_set_error_if_cancelled (copy->cancellable, error)
          || !copy_block (copy, done, size, block, error))
        return FALSE;

      if (copy->progress != NULL)
        _gpu_progress_add (copy->progress, size);
    }

  return TRUE;
}

/* --- one operation ---------------------------------------------------------------------------- */

static gboolean
run_staged (gconstpointer     operation,
            GpuNativeStream  *stream,
            GpuNativeEvent  **event,
            GError          **error)
{
  const StagedCopy *copy = operation;

  return _gpu_transfer_submit (copy->staged, stream, copy->memory->storage->buffer, event, error);
}

/* Runs instead of run_staged() if other work of the memory waits for a user event: drivers have
 * faults with staged copies behind such an event if it fails. */
static gboolean
refuse (gconstpointer     operation,
        GpuNativeStream  *stream G_GNUC_UNUSED,
        GpuNativeEvent  **event G_GNUC_UNUSED,
        GError          **error)
{
  const StagedCopy *copy = operation;

  *copy->refused = TRUE;
  g_set_error_literal (error, GPU_ERROR, GPU_ERROR_BUSY, "the memory waits for a user event");

  return FALSE;
}

static GpuTransfer *
stage (const FileCopy *copy)
{
  const GpuTransferCopy staged = {
    .write = copy->read, .extent = { copy->size, 1, 1 }, .unit = 1,
    .device = { .offset = copy->offset, .row_pitch = copy->size, .slice_pitch = copy->size },
    .host = { .row_pitch = copy->size, .slice_pitch = copy->size },
    .file = copy->file, .position = copy->position, .progress = copy->progress
  };

  /* CUDA accesses pageable memory during the call that submits a copy, before the file is read. */
  if (GPU_IS_HOST_MEMORY (copy->memory) && !((GpuHostMemory *) copy->memory)->is_locked)
    return NULL;

  return _gpu_timeline_stage (copy->timeline, copy->memory, &staged, FALSE);
}

/* Submits the copy, or performs it if it cannot be staged. */
static gboolean
submit (const FileCopy  *copy,
        GError         **error)
{
  gboolean refused = FALSE;
  GpuAccess access = { copy->memory, copy->read, copy->offset, copy->size };
  StagedCopy staged = { copy->memory, stage (copy), &refused };
  GpuSubmission submission = { .function = copy->function, .accesses = &access, .n_accesses = 1,
                               .run = refuse, .run_infallible = run_staged, .operation = &staged };
  GError *failure = NULL;

  if (staged.staged == NULL)
    return copy_in_caller (copy, error);

  if (_gpu_submit_staged (copy->timeline, &submission, staged.staged, NULL, &failure))
    return TRUE;

  if (!refused)
    {
      g_propagate_error (error, failure);
      return FALSE;
    }

  g_error_free (failure);

  return copy_in_caller (copy, error);
}

/* --- the sequence ----------------------------------------------------------------------------- */

static gboolean
check (const FileCopy  *copy,
       GError         **error)
{
  const char *name = copy->read ? "destination" : "source";

  if (!_gpu_memory_check (copy->memory, copy->function, error)
      || !_gpu_memory_check_range (copy->memory, copy->function, name, copy->offset, copy->size,
                                   error)
      || !_gpu_memory_check_host (copy->memory, copy->function, copy->read, error))
    return FALSE;

  if (copy->position <= G_MAXINT64 && copy->size <= G_MAXINT64 - copy->position)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s: %" G_GSIZE_FORMAT " bytes at position %" G_GUINT64_FORMAT
               " exceed the largest position of a file, %" G_GINT64_FORMAT, copy->function,
               copy->size, copy->position, G_MAXINT64);

  return FALSE;
}

/* Submits the operation @copy and waits for the previous one. An error of the previous operation
 * precedes that of this operation, because its position in the file is lower. */
static gboolean
submit_next (const FileCopy  *copy,
             GError         **error)
{
  GError *failure = NULL;
  gboolean submitted = !g_cancellable_set_error_if_cancelled (copy->cancellable, &failure)
                       && submit (copy, &failure);
  gboolean success = wait_until (copy, copy->previous, error);

  if (!success)
    g_clear_error (&failure);
  else if (!submitted)
    g_propagate_error (error, failure);

  return success && submitted;
}

/* Waits for the earlier work of the stream, then copies in operations of at most OPERATION_SIZE,
 * with two of them in flight. If one fails, waits for the other, so that the file is no longer in
 * use. */
static gboolean
copy_and_wait (const FileCopy  *whole,
               GError         **error)
{
  FileCopy copy = *whole;
  guint64 earlier = _gpu_timeline_get_submitted (copy.timeline);
  gboolean success = _gpu_timeline_is_complete (copy.timeline, earlier)
                     || wait_until (&copy, earlier, error);

  for (gsize done = 0; success && done < whole->size; done += copy.size)
    {
      copy.offset = whole->offset + done;
      copy.position = whole->position + done;
      copy.size = MIN (whole->size - done, OPERATION_SIZE);
      success = submit_next (&copy, error);
      copy.previous = _gpu_timeline_get_submitted (copy.timeline);

      if (!success)
        wait_until (&copy, copy.previous, NULL);
    }

  return success && wait_until (&copy, copy.previous, error);
}

static gboolean
copy_blocking (const char    *function,
               gboolean       read,
               GpuMemory     *memory,
               GpuStream     *stream,
               gsize          offset,
               GpuFile       *file,
               guint64        position,
               gsize          size,
               GCancellable  *cancellable,
               GError       **error)
{
  FileCopy copy = { .function = function, .memory = memory, .read = read, .offset = offset,
                    .position = position, .size = size, .cancellable = cancellable };
  g_autoptr (GpuTimeline) timeline = _gpu_memory_get_timeline (memory, stream, function,
                                                               cancellable, error);

  copy.timeline = timeline;
  copy.file = timeline != NULL ? _gpu_file_peek_core (file, read, function, error) : NULL;

  return copy.file != NULL && check (&copy, error) && (size == 0 || copy_and_wait (&copy, error));
}

/* --- asynchronous variants -------------------------------------------------------------------- */

/* A copy that a thread performs. Owns its references. */
typedef struct
{
  FileCopy     copy;
  GpuTaskWait *wait;
} Job;

/* Drops the reference to the memory before the task ends, so that the program drops the last
 * reference. */
static void
job_end (Job          *job,
         const GError *error)
{
  _gpu_timeline_unuse (job->copy.timeline);
  _gpu_timeline_unref (job->copy.timeline);
  _gpu_transfer_file_unref (job->copy.file);
  g_clear_pointer (&job->copy.progress, _gpu_progress_unref);
  g_clear_object (&job->copy.cancellable);
  g_object_unref (job->copy.memory);
  _gpu_task_wait_end (job->wait, error);
  g_free (job);
}

static void
job_run (gpointer data)
{
  Job *job = data;
  g_autoptr (GError) error = NULL;

  copy_and_wait (&job->copy, &error);
  job_end (job, error);
}

/* The task does not have the cancellable: only the thread may end the task, because after its end
 * no more work may be submitted. */
static void
job_start (GTask          *task,
           const FileCopy *copy)
{
  static GpuWorkers workers = { .name = "gpumem-file" };
  GpuProgress *progress = _gpu_progress_peek (task);
  Job *job = g_new0 (Job, 1);
  g_autoptr (GError) error = NULL;

  job->copy = *copy;
  job->copy.progress = progress != NULL ? _gpu_progress_ref (progress) : NULL;
  _gpu_timeline_ref (copy->timeline);
  _gpu_timeline_use (copy->timeline);
  _gpu_transfer_file_ref (copy->file);
  g_object_ref (copy->memory);
  if (copy->cancellable != NULL)
    g_object_ref (copy->cancellable);
  job->wait = _gpu_task_wait_new (task, NULL, NULL);

  if (!_gpu_workers_push (&workers, G_MAXUINT, job_run, job, &error))
    job_end (job, error);
}

static void
copy_async (FileCopy              *copy,
            gpointer               tag,
            GpuStream             *stream,
            GpuFile               *file,
            GFileProgressCallback  progress_callback,
            gpointer               progress_data,
            GDestroyNotify         progress_notify,
            GAsyncReadyCallback    callback,
            gpointer               user_data)
{
  g_autoptr (GpuTimeline) timeline = NULL;
  GError *error = NULL;
  g_autoptr (GTask) task = _gpu_memory_begin_task (copy->memory, stream, copy->function, tag, NULL,
                                                   callback, user_data, &timeline, &error);

  _gpu_progress_begin (task, copy->size, progress_callback, progress_data, progress_notify);
  copy->timeline = timeline;
  copy->file = timeline != NULL ? _gpu_file_peek_core (file, copy->read, copy->function, &error)
                                : NULL;

  if (copy->file != NULL && !g_cancellable_set_error_if_cancelled (copy->cancellable, &error)
      && check (copy, &error) && copy->size > 0)
    job_start (task, copy);
  else
    _gpu_memory_end_task (task, timeline, NULL, NULL, error);
}

/* --- functions -------------------------------------------------------------------------------- */

/**
 * gpu_memory_read_file:
 * @memory: linear memory
 * @stream: (nullable): the stream to copy on, %NULL for the default stream
 * @offset: offset of the range in @memory, in bytes
 * @file: a file that is open for reading
 * @position: position of the first byte in @file
 * @size: the number of bytes; 0 does nothing
 * @cancellable: (nullable): a #GCancellable, or %NULL
 * @error: return location for an error
 *
 * Reads a file into @memory, after the earlier work of the stream, and waits until the copy has
 * completed. Threads of the library call pread() into page-locked memory of the context; commands
 * of the stream copy it to the device (OpenCL: clEnqueueWriteBuffer; CUDA: cuMemcpyHtoDAsync).
 *
 * The copy consists of operations of at most 64 MiB, two of which are in flight. If no page-locked
 * memory is left, no thread can be started, @memory is #GpuHostMemory that is not page-locked, or
 * the stream is out of order, profiles or waits for a user event, the calling thread copies in
 * blocks of 4 MiB.
 *
 * A cancellation ends the copy. The operations in flight continue in the stream, so that later work
 * of the stream is ordered after them.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_INVALID_ARGUMENT if a range exceeds the memory or the
 *   largest position of a file, @file is not open for reading, the flags of the memory deny the
 *   access or the memory belongs to another context; %GPU_ERROR_RELEASED; %GPU_ERROR_BUSY if the
 *   range is mapped; the error of the file, see #GpuFile; the error of earlier work on the stream;
 *   %G_IO_ERROR_CANCELLED; or the driver's error
 *
 * Since: 0.1
 */
gboolean
gpu_memory_read_file (GpuMemory     *memory,
                      GpuStream     *stream,
                      gsize          offset,
                      GpuFile       *file,
                      guint64        position,
                      gsize          size,
                      GCancellable  *cancellable,
                      GError       **error)
{
  g_return_val_if_fail (_gpu_is_memory (memory), FALSE);
  g_return_val_if_fail (GPU_IS_FILE (file), FALSE);

  return copy_blocking ("gpu_memory_read_file", TRUE, memory, stream, offset, file, position, size,
                        cancellable, error);
}

/**
 * gpu_memory_read_file_async:
 * @memory: linear memory
 * @stream: (nullable): the stream to copy on, %NULL for the default stream
 * @offset: offset of the range in @memory, in bytes
 * @file: a file that is open for reading
 * @position: position of the first byte in @file
 * @size: the number of bytes; 0 does nothing
 * @cancellable: (nullable): a #GCancellable, or %NULL
 * @progress_callback: (nullable) (scope notified) (closure progress_data)
 *   (destroy progress_notify): called with the number of bytes copied so far and the total number
 *   of bytes, or %NULL
 * @progress_data: data for @progress_callback
 * @progress_notify: (nullable): frees @progress_data, after the last call of @progress_callback
 * @callback: (scope async) (nullable): called when the copy has completed
 * @user_data: data for @callback
 *
 * Copies like gpu_memory_read_file(), on another thread. Never blocks. @callback is called in the
 * thread-default main context of the calling thread, when the thread submits nothing more.
 * @progress_callback is called as in gpu_buffer_read_bytes_async().
 *
 * Later work of @stream does not wait for the copy: wait for @callback before you use @memory or
 * change the file. If no thread can be started, the error is %GPU_ERROR_OUT_OF_HOST_MEMORY.
 *
 * Since: 0.1
 */
void
gpu_memory_read_file_async (GpuMemory             *memory,
                            GpuStream             *stream,
                            gsize                  offset,
                            GpuFile               *file,
                            guint64                position,
                            gsize                  size,
                            GCancellable          *cancellable,
                            GFileProgressCallback  progress_callback,
                            gpointer               progress_data,
                            GDestroyNotify         progress_notify,
                            GAsyncReadyCallback    callback,
                            gpointer               user_data)
{
  FileCopy copy = { .function = "gpu_memory_read_file_async", .memory = memory,
                    .read = TRUE, .offset = offset, .position = position, .size = size,
                    .cancellable = cancellable };

  g_return_if_fail (_gpu_is_memory (memory));
  g_return_if_fail (GPU_IS_FILE (file));

  copy_async (&copy, gpu_memory_read_file_async, stream, file, progress_callback, progress_data,
              progress_notify, callback, user_data);
}

/**
 * gpu_memory_read_file_finish:
 * @memory: a #GpuMemory
 * @result: the #GAsyncResult passed to the callback
 * @error: return location for an error
 *
 * Finishes gpu_memory_read_file_async().
 *
 * Returns: like gpu_memory_read_file()
 *
 * Since: 0.1
 */
gboolean
gpu_memory_read_file_finish (GpuMemory     *memory,
                             GAsyncResult  *result,
                             GError       **error)
{
  g_return_val_if_fail (g_task_is_valid (result, memory), FALSE);

  return g_task_propagate_boolean (G_TASK (result), error);
}

/**
 * gpu_memory_write_file:
 * @memory: linear memory
 * @stream: (nullable): the stream to copy on, %NULL for the default stream
 * @offset: offset of the range in @memory, in bytes
 * @file: a file that is open for writing
 * @position: position of the first byte in @file
 * @size: the number of bytes; 0 does nothing
 * @cancellable: (nullable): a #GCancellable, or %NULL
 * @error: return location for an error
 *
 * Writes @memory to a file, after the earlier work of the stream, and waits until the copy has
 * completed. Commands of the stream copy to page-locked memory of the context (OpenCL:
 * clEnqueueReadBuffer; CUDA: cuMemcpyDtoHAsync); threads of the library call pwrite().
 *
 * The copy consists of operations of at most 64 MiB, two of which are in flight. If no page-locked
 * memory is left, no thread can be started, @memory is #GpuHostMemory that is not page-locked, or
 * the stream is out of order, profiles or waits for a user event, the calling thread copies in
 * blocks of 4 MiB.
 *
 * A cancellation ends the copy. The operations in flight continue in the stream, so that later work
 * of the stream is ordered after them.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_INVALID_ARGUMENT if a range exceeds the memory or the
 *   largest position of a file, @file is not open for writing, the flags of the memory deny the
 *   access or the memory belongs to another context; %GPU_ERROR_RELEASED; %GPU_ERROR_BUSY if the
 *   range is mapped for writing; the error of the last write of the memory if that write failed;
 *   the error of the file, see #GpuFile; the error of earlier work on the stream;
 *   %G_IO_ERROR_CANCELLED; or the driver's error
 *
 * Since: 0.1
 */
gboolean
gpu_memory_write_file (GpuMemory     *memory,
                       GpuStream     *stream,
                       gsize          offset,
                       GpuFile       *file,
                       guint64        position,
                       gsize          size,
                       GCancellable  *cancellable,
                       GError       **error)
{
  g_return_val_if_fail (_gpu_is_memory (memory), FALSE);
  g_return_val_if_fail (GPU_IS_FILE (file), FALSE);

  return copy_blocking ("gpu_memory_write_file", FALSE, memory, stream, offset, file, position,
                        size, cancellable, error);
}

/**
 * gpu_memory_write_file_async:
 * @memory: linear memory
 * @stream: (nullable): the stream to copy on, %NULL for the default stream
 * @offset: offset of the range in @memory, in bytes
 * @file: a file that is open for writing
 * @position: position of the first byte in @file
 * @size: the number of bytes; 0 does nothing
 * @cancellable: (nullable): a #GCancellable, or %NULL
 * @progress_callback: (nullable) (scope notified) (closure progress_data)
 *   (destroy progress_notify): called with the number of bytes copied so far and the total number
 *   of bytes, or %NULL
 * @progress_data: data for @progress_callback
 * @progress_notify: (nullable): frees @progress_data, after the last call of @progress_callback
 * @callback: (scope async) (nullable): called when the copy has completed
 * @user_data: data for @callback
 *
 * Copies like gpu_memory_write_file(), on another thread. Never blocks. @callback is called in the
 * thread-default main context of the calling thread, when the thread submits nothing more.
 * @progress_callback is called as in gpu_buffer_read_bytes_async().
 *
 * Later work of @stream does not wait for the copy: wait for @callback before you use the file or
 * change @memory. If no thread can be started, the error is %GPU_ERROR_OUT_OF_HOST_MEMORY.
 *
 * Since: 0.1
 */
void
gpu_memory_write_file_async (GpuMemory             *memory,
                             GpuStream             *stream,
                             gsize                  offset,
                             GpuFile               *file,
                             guint64                position,
                             gsize                  size,
                             GCancellable          *cancellable,
                             GFileProgressCallback  progress_callback,
                             gpointer               progress_data,
                             GDestroyNotify         progress_notify,
                             GAsyncReadyCallback    callback,
                             gpointer               user_data)
{
  FileCopy copy = { .function = "gpu_memory_write_file_async", .memory = memory,
                    .read = FALSE, .offset = offset, .position = position, .size = size,
                    .cancellable = cancellable };

  g_return_if_fail (_gpu_is_memory (memory));
  g_return_if_fail (GPU_IS_FILE (file));

  copy_async (&copy, gpu_memory_write_file_async, stream, file, progress_callback, progress_data,
              progress_notify, callback, user_data);
}

/**
 * gpu_memory_write_file_finish:
 * @memory: a #GpuMemory
 * @result: the #GAsyncResult passed to the callback
 * @error: return location for an error
 *
 * Finishes gpu_memory_write_file_async().
 *
 * Returns: like gpu_memory_write_file()
 *
 * Since: 0.1
 */
gboolean
gpu_memory_write_file_finish (GpuMemory     *memory,
                              GAsyncResult  *result,
                              GError       **error)
{
  g_return_val_if_fail (g_task_is_valid (result, memory), FALSE);

  return g_task_propagate_boolean (G_TASK (result), error);
}
