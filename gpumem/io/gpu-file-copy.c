/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Copies between files and memory, in the order of a stream. */
#include "config.h"

#include <stdlib.h>

#include "gpumem/backend/gpu-native-context-private.h"
#include "gpumem/base/gpu-debug-private.h"
#include "gpumem/base/gpu-error-private.h"
#include "gpumem/base/gpu-latch-private.h"
#include "gpumem/base/gpu-workers-private.h"
#include "gpumem/command/gpu-command-private.h"
#include "gpumem/command/gpu-memory-task-private.h"
#include "gpumem/command/gpu-staging-private.h"
#include "gpumem/io/gpu-file-private.h"
#include "gpumem/memory/gpu-host-memory-private.h"
#include "gpumem/staging/gpu-transfer-cross-driver.h"
#include "gpumem/timeline/gpu-user-event-private.h"

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
  GCancellable    *cancellable;     /* nullable */
  GpuProgress     *progress;        /* nullable */
  gboolean         is_awaited;      /* the caller waits for the copy and cancels it, and only the
                                     * caller gets the error of the cancellation */
} FileCopy;

/* The user events whose failure fails a copy; nullable */
typedef struct
{
  GPtrArray *user_events;
} Causes;

typedef struct
{
  const FileCopy *copy;
  GpuCrossDriver *cross;
  Causes         *causes;           /* freed at the end of the copy */
  guint64         seq;              /* the point of the copy; 0 until the copy is submitted */
} Operation;

/* --- copies that the calling thread performs -------------------------------------------------- */

static gboolean
wait_for_work (const FileCopy     *copy,
               const GpuHostWait  *wait,
               GError            **error)
{
  GError *failure = NULL;

  if (_gpu_host_wait_block (wait, copy->cancellable, &failure))
    return TRUE;

  if (!g_str_has_prefix (failure->message, copy->function))
    g_prefix_error (&failure, "%s: ", copy->function);

  g_propagate_error (error, failure);

  return FALSE;
}

static gboolean
copy_device (const FileCopy  *copy,
             gsize            done,
             gsize            size,
             GBytes          *bytes,
             GError         **error)
{
  g_auto (GpuHostWait) wait = { NULL };
  guint8 *data = (guint8 *) g_bytes_get_data (bytes, NULL);
  gsize offset = copy->offset + done;
  gboolean success;

  _gpu_host_wait_begin (&wait, copy->timeline);
  success = copy->read
            ? _gpu_timeline_write (copy->timeline, copy->function, copy->memory, offset, data, size,
                                   bytes, NULL, error)
            : _gpu_timeline_read (copy->timeline, copy->function, copy->memory, offset, data, size,
                                  bytes, NULL, error);

  return success && wait_for_work (copy, &wait, error);
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
  guint64 end = copy->position + copy->size;
  guint64 failed_at = position + size;
  GError *failure = NULL;

  if (copy->read)
    _gpu_transfer_file_copy (copy->file, NULL, TRUE, position, data, size, end, &failed_at,
                             &failure);

  if (failed_at > position && !copy_device (copy, done, failed_at - position, bytes, error))
    {
      g_clear_error (&failure);
      return FALSE;
    }

  if (!copy->read)
    _gpu_transfer_file_copy (copy->file, NULL, FALSE, position, data, size, end, &failed_at,
                             &failure);

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

static gboolean
wait_for_earlier (const FileCopy  *copy,
                  GError         **error)
{
  g_auto (GpuHostWait) wait = { NULL };

  _gpu_host_wait_begin (&wait, copy->timeline);

  return _gpu_timeline_is_complete (copy->timeline, _gpu_timeline_get_submitted (copy->timeline))
         || wait_for_work (copy, &wait, error);
}

/* Copies in the calling thread, because the stream cannot execute the copy: the driver cannot make
 * streams wait for the host, or there is no page-locked memory or thread. */
static gboolean
copy_in_caller (const FileCopy  *copy,
                GError         **error)
{
  g_autoptr (GBytes) block = NULL;

  if (!wait_for_earlier (copy, error)
      || (block = block_new (copy, error)) == NULL)
    return FALSE;

  for (gsize done = 0; done < copy->size; done += BLOCK_SIZE)
    {
      gsize size = MIN (copy->size - done, BLOCK_SIZE);

      if (!_gpu_error_check_cancelled (copy->cancellable, copy->function, error)
          || !copy_block (copy, done, size, block, error))
        return FALSE;

      if (copy->progress != NULL)
        _gpu_progress_add (copy->progress, size);
    }

  return TRUE;
}

/* --- copies that the stream executes ---------------------------------------------------------- */

static const GpuRetainType retain_cross = { (GBoxedCopyFunc) _gpu_cross_driver_ref,
                                            (GDestroyNotify) _gpu_cross_driver_unref };

/* Returns the error of a failed user event, which drivers do not report. */
static GError *
explain (gpointer data,
         guint    side G_GNUC_UNUSED)
{
  const Causes *causes = data;
  GError *cause = NULL;

  for (guint i = 0; causes->user_events != NULL && i < causes->user_events->len && cause == NULL;
       i++)
    _gpu_user_event_query (causes->user_events->pdata[i], &cause);

  return cause;
}

static void
end_causes (gpointer data)
{
  Causes *causes = data;

  g_clear_pointer (&causes->user_events, g_ptr_array_unref);
  g_free (causes);
}

/* The last event of a copy that is awaited becomes a fence, so that the wait does not include work
 * which other threads submit meanwhile. The handover of external memory follows the copy. */
static gboolean
run_cross (Operation        *operation,
           GpuNativeStream  *stream,
           gboolean          may_fail,
           GpuNativeEvent  **event,
           GError          **error)
{
  const FileCopy *copy = operation->copy;
  GpuTimeline *timeline = copy->timeline;
  g_autoptr (GpuNativeEvent) last = NULL;
  GError *failure = NULL;
  GPtrArray *earlier = _gpu_timeline_list_earlier_locked (timeline, &failure);

  operation->seq = timeline->submitted + 1;
  operation->causes->user_events
    = _gpu_timeline_list_causes_locked (timeline, operation->seq, TRUE);

  if (!_gpu_cross_file_submit (operation->cross, copy->memory->storage->buffer, stream, may_fail,
                               earlier, failure, &last, error))
    return FALSE;

  if (event != NULL)
    *event = _gpu_native_event_ref (last);

  if (copy->is_awaited && !copy->memory->storage->root->is_external)
    _gpu_timeline_add_fence_locked (timeline, operation->seq, g_steal_pointer (&last));

  return TRUE;
}

static gboolean
run_fallible (gconstpointer     operation,
              GpuNativeStream  *stream,
              GpuNativeEvent  **event,
              GError          **error)
{
  return run_cross ((Operation *) operation, stream, TRUE, event, error);
}

static gboolean
run_infallible (gconstpointer     operation,
                GpuNativeStream  *stream,
                GpuNativeEvent  **event,
                GError          **error)
{
  return run_cross ((Operation *) operation, stream, FALSE, event, error);
}

static GpuTransferQueue *
get_queue (GpuTimeline *timeline)
{
  GpuTransferQueue *queue;

  _gpu_timeline_lock (timeline);
  if (timeline->file_queue == NULL)
    timeline->file_queue = _gpu_transfer_queue_new ();
  queue = timeline->file_queue;
  _gpu_timeline_unlock (timeline);

  return queue;
}

/* Exclusive memory belongs to the stream during the operation. Memory whose alignment the file does
 * not accept is copied through aligned places. CUDA accesses pageable memory during the call that
 * submits a copy, before the file is read, so the host must access such memory. */
static gboolean
is_direct (const FileCopy *copy)
{
  GpuMemory *memory = copy->memory;

  if (!memory->has_host_data || memory->storage->root->is_exclusive)
    return FALSE;

  if (!GPU_IS_HOST_MEMORY (memory) || ((GpuHostMemory *) memory)->is_locked)
    return _gpu_transfer_file_suits (copy->file, copy->position,
                                     (guint8 *) memory->storage->buffer->host + copy->offset);

  /* The pages may be written without the driver, see GpuTransferCopy.in_order. */
  g_atomic_int_set (&copy->timeline->context->stages_host_memory, TRUE);

  return TRUE;
}

static GpuCrossDriver *
begin (const FileCopy  *copy,
       Causes         **causes)
{
  guint user = copy->read ? GPU_CROSS_DRIVER_TO : GPU_CROSS_DRIVER_FROM;
  const char *reason = "the context or the memory is unusable";
  GpuCrossDriverCopy cross = { .size = copy->size, .user = user, .explain = explain,
                               .end = end_causes };
  GpuCrossDriver *begun = NULL;

  cross.sides[user] = (GpuCrossDriverSide) { copy->timeline->context, copy->offset };
  cross.file = (GpuCrossDriverFile) { .file = copy->file, .function = copy->function,
                                      .position = copy->position, .is_direct = is_direct (copy),
                                      .queue = get_queue (copy->timeline),
                                      .order = copy->timeline, .progress = copy->progress,
                                      .cancellable = copy->is_awaited ? NULL
                                                                      : copy->cancellable };
  cross.data = *causes = g_new0 (Causes, 1);
  begun = _gpu_cross_file_begin (&cross, &reason);

  if (begun == NULL)
    {
      _gpu_debug_print (GPU_DEBUG_TRANSFER, "copying %" G_GSIZE_FORMAT " bytes of a file blocks a "
                        "thread: %s", copy->size, reason);
      g_clear_pointer (causes, end_causes);
    }

  return begun;
}

/* Submits the copy, and sets @cross to a new reference to it. Sets @cross to NULL, without an
 * error, if the calling thread must copy. Callers are within a GpuHostWait. */
static gboolean
submit (const FileCopy  *copy,
        GpuCrossDriver **cross,
        GError         **error)
{
  GpuAccess access = { copy->memory, copy->read, copy->offset, copy->size };
  Operation operation = { .copy = copy };
  GpuRetain retain = { NULL, &retain_cross, 1, NULL };
  GpuSubmission submission = { .function = copy->function, .accesses = &access, .n_accesses = 1,
                               .run = run_fallible, .run_infallible = run_infallible,
                               .operation = &operation, .retain = &retain };

  *cross = NULL;

  if (!_gpu_native_context_check (copy->timeline->context, error)
      || !_gpu_memory_check (copy->memory, copy->function, error)
      || !_gpu_timeline_check_capture (copy->timeline, copy->function, error))
    return FALSE;

  operation.cross = begin (copy, &operation.causes);
  if (operation.cross == NULL)
    return TRUE;

  retain.object = operation.cross;

  if (_gpu_submit (copy->timeline, &submission, NULL, error))
    {
      *cross = operation.cross;
      return TRUE;
    }

  if (operation.seq == 0)
    _gpu_cross_file_abandon (operation.cross);

  _gpu_cross_driver_unref (operation.cross);

  return FALSE;
}

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

/* Sets the timeline, which is nullable if @error is set, and the file, and checks the copy. */
static gboolean
prepare (FileCopy     *copy,
         GpuTimeline  *timeline,
         GpuFile      *file,
         GError      **error)
{
  copy->timeline = timeline;

  if (timeline == NULL || !_gpu_error_check_cancelled (copy->cancellable, copy->function, error))
    return FALSE;

  copy->file = _gpu_file_peek_core (file, copy->read, copy->function, error);

  return copy->file != NULL && check (copy, error);
}

/* Returns the description of a copy that the program requests. */
static FileCopy
make_copy (const char   *function,
           gboolean      read,
           GpuMemory    *memory,
           gsize         offset,
           guint64       position,
           gsize         size,
           GCancellable *cancellable)
{
  return (FileCopy) { .function = function, .memory = memory, .read = read, .offset = offset,
                      .position = position, .size = size, .cancellable = cancellable };
}

/* --- one call --------------------------------------------------------------------------------- */

/* Returns at once, unless the calling thread must copy. */
static gboolean
copy_in_order (FileCopy   *copy,
               GpuStream  *stream,
               GpuFile    *file,
               GError    **error)
{
  g_autoptr (GpuCrossDriver) cross = NULL;
  g_auto (GpuHostWait) wait = { NULL };

  if (!prepare (copy, _gpu_stream_get_timeline (stream, copy->function, error), file, error))
    return FALSE;

  if (copy->size == 0)
    return TRUE;

  _gpu_host_wait_begin (&wait, copy->timeline);

  return submit (copy, &cross, error) && (cross != NULL || copy_in_caller (copy, error));
}

static void
open_latch (gpointer latch)
{
  _gpu_latch_open (latch, NULL);
}

/* Cancels a copy that the caller has waited for. Returns when the library no longer uses the
 * file. */
static void
cancel (GpuCrossDriver  *cross,
        GError         **error)
{
  g_autoptr (GpuLatch) latch = _gpu_latch_new ();
  GError *failure;

  _gpu_cross_file_cancel (cross, open_latch, _gpu_latch_ref (latch));
  _gpu_latch_wait (latch, -1, NULL, NULL);
  failure = _gpu_cross_file_get_failure (cross);

  if (failure == NULL)
    return;

  g_clear_error (error);
  g_propagate_error (error, failure);
}

static gboolean
copy_and_wait (const FileCopy     *copy,
               const GpuHostWait  *wait,
               GError            **error)
{
  g_autoptr (GpuCrossDriver) cross = NULL;

  if (!submit (copy, &cross, error))
    return FALSE;

  if (cross == NULL)
    return copy_in_caller (copy, error);

  if (wait_for_work (copy, wait, error))
    return TRUE;

  if (g_cancellable_is_cancelled (copy->cancellable))
    cancel (cross, error);

  return FALSE;
}

static gboolean
copy_blocking (FileCopy   *copy,
               GpuStream  *stream,
               GpuFile    *file,
               GError    **error)
{
  g_auto (GpuHostWait) wait = { NULL };

  copy->is_awaited = TRUE;

  return _gpu_memory_begin_wait (copy->memory, stream, copy->function, NULL, &wait, error)
         && prepare (copy, wait.timeline, file, error)
         && (copy->size == 0 || copy_and_wait (copy, &wait, error));
}

/* --- asynchronous variants -------------------------------------------------------------------- */

/* The wait of a task for a copy. The task ends when the copy has completed, or when it is cancelled
 * and no thread uses the file. */
typedef struct
{
  gatomicrefcount  refs;
  GpuCrossDriver  *cross;
  GSource         *cancel_source;   /* nullable */
  gint             ended;           /* atomic */
  GpuTaskWait     *wait;
} Waiter;

static void
waiter_unref (gpointer data)
{
  Waiter *waiter = data;

  if (!g_atomic_ref_count_dec (&waiter->refs))
    return;

  g_clear_pointer (&waiter->cancel_source, g_source_unref);
  _gpu_cross_driver_unref (waiter->cross);
  g_free (waiter);
}

static Waiter *
waiter_ref (Waiter *waiter)
{
  g_atomic_ref_count_inc (&waiter->refs);

  return waiter;
}

/* A GpuWaiterFunc. Takes ownership of a reference. */
static void
waiter_end (gpointer      data,
            const GError *error)
{
  Waiter *waiter = data;

  if (g_atomic_int_compare_and_exchange (&waiter->ended, FALSE, TRUE))
    {
      if (waiter->cancel_source != NULL)
        g_source_destroy (waiter->cancel_source);
      _gpu_task_wait_end (waiter->wait, error);
    }

  waiter_unref (waiter);
}

static void
waiter_stopped (gpointer data)
{
  Waiter *waiter = data;
  g_autoptr (GError) failure = _gpu_cross_file_get_failure (waiter->cross);

  /* The copy has completed: its point will end the task. */
  if (failure == NULL)
    {
      waiter_unref (waiter);
      return;
    }

  waiter_end (waiter, failure);
}

static gboolean
waiter_cancelled (GCancellable *cancellable G_GNUC_UNUSED,
                  gpointer      data)
{
  Waiter *waiter = data;

  _gpu_cross_file_cancel (waiter->cross, waiter_stopped, waiter_ref (waiter));

  return G_SOURCE_REMOVE;
}

/* Takes ownership of @cross. */
static void
wait_in_task (GTask             *task,
              const FileCopy    *copy,
              GpuCrossDriver    *cross,
              const GpuHostWait *wait)
{
  Waiter *waiter = g_new0 (Waiter, 1);
  g_autoptr (GError) error = NULL;

  g_atomic_ref_count_init (&waiter->refs);
  waiter->cross = cross;
  waiter->wait = _gpu_task_wait_new (task, NULL, NULL, NULL);

  if (copy->cancellable != NULL)
    {
      waiter->cancel_source = g_cancellable_source_new (copy->cancellable);
      g_source_set_callback (waiter->cancel_source, G_SOURCE_FUNC (waiter_cancelled),
                             waiter_ref (waiter), waiter_unref);
      g_source_attach (waiter->cancel_source, g_task_get_context (task));
    }

  if (!_gpu_host_wait_notify (wait, waiter_end, waiter, &error))
    waiter_end (waiter, error);
}

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

  copy_in_caller (&job->copy, &error);
  job_end (job, error);
}

/* The task does not have the cancellable: only the thread may end the task, because after its end
 * no more work may be submitted. */
static void
job_start (GTask          *task,
           const FileCopy *copy)
{
  static GpuWorkers workers = { .name = "gpumem-file" };
  Job *job = g_new0 (Job, 1);
  g_autoptr (GError) error = NULL;

  job->copy = *copy;
  if (copy->progress != NULL)
    _gpu_progress_ref (copy->progress);
  _gpu_timeline_ref (copy->timeline);
  _gpu_timeline_use (copy->timeline);
  _gpu_transfer_file_ref (copy->file);
  g_object_ref (copy->memory);
  if (copy->cancellable != NULL)
    g_object_ref (copy->cancellable);
  job->wait = _gpu_task_wait_new (task, NULL, NULL, NULL);

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
  g_auto (GpuHostWait) wait = { NULL };
  GpuCrossDriver *cross = NULL;
  GError *error = NULL;
  g_autoptr (GTask) task = _gpu_memory_begin_task (copy->memory, stream, copy->function, tag, NULL,
                                                   callback, user_data, &wait, &error);

  _gpu_progress_begin (task, copy->size, progress_callback, progress_data, progress_notify);
  copy->progress = _gpu_progress_peek (task);
  copy->is_awaited = TRUE;

  if (!prepare (copy, wait.timeline, file, &error) || copy->size == 0
      || !submit (copy, &cross, &error))
    _gpu_memory_end_task (task, &wait, NULL, NULL, error);
  else if (cross != NULL)
    wait_in_task (task, copy, cross, &wait);
  else
    job_start (task, copy);
}

/* --- functions -------------------------------------------------------------------------------- */

/**
 * gpu_stream_read_file:
 * @stream: the stream to copy on
 * @memory: linear memory
 * @offset: offset of the range in @memory, in bytes
 * @file: a file that is open for reading
 * @position: position of the first byte in @file
 * @size: the number of bytes; 0 does nothing
 * @cancellable: (nullable): a #GCancellable that ends the copy, or %NULL
 * @error: return location for an error
 *
 * Reads a file into @memory, in the order of the stream. Returns at once. The copy holds references
 * to @file and to the memory.
 *
 * When the earlier work of the stream has completed, threads of the library call pread() into
 * page-locked memory of the context, and commands of the stream copy it to the device (OpenCL:
 * clEnqueueWriteBuffer; CUDA: cuMemcpyHtoDAsync). If the host can access @memory, as it can access
 * #GpuHostMemory and all memory of the host back end, the threads read into @memory itself.
 *
 * If the file fails, the copy fails: its event, waits for it, and later work of the stream, and of
 * streams that are ordered after the copy, get the error of the file, with the position in the
 * file. All bytes before the position are in @memory, the other bytes of the range are undefined.
 * Calls that read @memory fail until a later write of it, even of a part, see #GpuFile. Later work
 * includes all work that is submitted before a wait or a query reports the failure. If
 * @cancellable is cancelled, the copy ends before the next part of the file, and fails with
 * %G_IO_ERROR_CANCELLED in the same way. The copy checks @cancellable when the stream has reached
 * the copy.
 *
 * If earlier work of the stream has failed, and no wait or query has reported that yet, the copy
 * fails with the same error, and does not use the file.
 *
 * All pending copies of one stream share page-locked memory, so any number of them may be pending.
 * A stream uses at most one block of 4 MiB beyond gpu_context_set_staging_limit(). The calling
 * thread copies, and blocks until the copy has completed, only if the limit disables staging, no
 * page-locked memory can be allocated, no thread can be started, or the driver cannot make a stream
 * wait for the host. CUDA's driver also blocks the caller while about 50 events are pending, and
 * continues when the device does: a copy has two events, and one for each chunk of at most 4 MiB.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_INVALID_ARGUMENT if a range exceeds the memory or the
 *   largest position of a file, @file is not open for reading, the flags of the memory deny the
 *   access or the memory belongs to another context; %GPU_ERROR_RELEASED; %GPU_ERROR_BUSY if the
 *   range is mapped; %GPU_ERROR_NOT_SUPPORTED if @stream is being captured into a graph;
 *   %G_IO_ERROR_CANCELLED if @cancellable is already cancelled; or the driver's error
 *
 * Since: 0.1
 */
gboolean
gpu_stream_read_file (GpuStream     *stream,
                      GpuMemory     *memory,
                      gsize          offset,
                      GpuFile       *file,
                      guint64        position,
                      gsize          size,
                      GCancellable  *cancellable,
                      GError       **error)
{
  FileCopy copy = make_copy ("gpu_stream_read_file", TRUE, memory, offset, position, size,
                             cancellable);

  g_return_val_if_fail (GPU_IS_STREAM (stream), FALSE);
  g_return_val_if_fail (GPU_IS_MEMORY (memory), FALSE);
  g_return_val_if_fail (GPU_IS_FILE (file), FALSE);

  return copy_in_order (&copy, stream, file, error);
}

/**
 * gpu_stream_write_file:
 * @stream: the stream to copy on
 * @memory: linear memory
 * @offset: offset of the range in @memory, in bytes
 * @file: a file that is open for writing
 * @position: position of the first byte in @file
 * @size: the number of bytes; 0 does nothing
 * @cancellable: (nullable): a #GCancellable that ends the copy, or %NULL
 * @error: return location for an error
 *
 * Writes @memory to a file, in the order of the stream. Returns at once. Commands of the stream
 * copy to page-locked memory of the context (OpenCL: clEnqueueReadBuffer; CUDA: cuMemcpyDtoHAsync),
 * and threads of the library call pwrite(), or process_vm_writev() for existing bytes of a file in
 * tmpfs, with a mapping. If the host can access @memory, the threads write from @memory itself.
 * When the copy has completed, all bytes are in the file, but not necessarily on the disk.
 *
 * Failures, cancellation, earlier failures of the stream and blocking are as in
 * gpu_stream_read_file(). All bytes before the position of the error are in the file. If the work
 * before the copy fails, nothing is written.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_INVALID_ARGUMENT if a range exceeds the memory or the
 *   largest position of a file, @file is not open for writing, the flags of the memory deny the
 *   access or the memory belongs to another context; %GPU_ERROR_RELEASED; %GPU_ERROR_BUSY if the
 *   range is mapped for writing; the error of the last write of the memory if that write failed;
 *   %GPU_ERROR_NOT_SUPPORTED if @stream is being captured into a graph; %G_IO_ERROR_CANCELLED if
 *   @cancellable is already cancelled; or the driver's error
 *
 * Since: 0.1
 */
gboolean
gpu_stream_write_file (GpuStream     *stream,
                       GpuMemory     *memory,
                       gsize          offset,
                       GpuFile       *file,
                       guint64        position,
                       gsize          size,
                       GCancellable  *cancellable,
                       GError       **error)
{
  FileCopy copy = make_copy ("gpu_stream_write_file", FALSE, memory, offset, position, size,
                             cancellable);

  g_return_val_if_fail (GPU_IS_STREAM (stream), FALSE);
  g_return_val_if_fail (GPU_IS_MEMORY (memory), FALSE);
  g_return_val_if_fail (GPU_IS_FILE (file), FALSE);

  return copy_in_order (&copy, stream, file, error);
}

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
 * completed. Copies like gpu_stream_read_file(), and gets the error of the file. Does not wait for
 * work that other threads submit to the stream after the copy.
 *
 * A cancellation ends the copy. When the function returns, the library no longer uses the file. The
 * commands of the copy remain in the stream, so that later work of the stream is ordered after
 * them, and the range of @memory behind the position of the error is undefined. Later work does not
 * fail because of the cancellation. A copy that fails before it is cancelled keeps its error.
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
  FileCopy copy = make_copy ("gpu_memory_read_file", TRUE, memory, offset, position, size,
                             cancellable);

  g_return_val_if_fail (GPU_IS_MEMORY (memory), FALSE);
  g_return_val_if_fail (GPU_IS_FILE (file), FALSE);

  return copy_blocking (&copy, stream, file, error);
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
 * Copies like gpu_stream_read_file(), and so in the order of the stream, but never blocks, and
 * reports the end of the copy. @callback is called in the thread-default main context of the
 * calling thread. @progress_callback is called as in gpu_buffer_read_bytes_async(). A cancellation
 * is as in gpu_memory_read_file().
 *
 * If the stream cannot execute the copy, for the reasons in gpu_stream_read_file(), a thread of the
 * library waits for the earlier work of the stream and copies. Later work of @stream is then not
 * ordered after the copy. If no thread can be started, the error is
 * %GPU_ERROR_OUT_OF_HOST_MEMORY.
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
  FileCopy copy = make_copy ("gpu_memory_read_file_async", TRUE, memory, offset, position, size,
                             cancellable);

  g_return_if_fail (GPU_IS_MEMORY (memory));
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

  return _gpu_error_propagate_boolean (result, "gpu_memory_read_file_async", error);
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
 * completed. Copies like gpu_stream_write_file(), and gets the error of the file. Does not wait for
 * work that other threads submit to the stream after the copy.
 *
 * A cancellation ends the copy. When the function returns, the library no longer uses the file, and
 * all bytes before the position of the error are in the file. Later work of the stream does not
 * fail because of the cancellation. A copy that fails before it is cancelled keeps its error.
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
  FileCopy copy = make_copy ("gpu_memory_write_file", FALSE, memory, offset, position, size,
                             cancellable);

  g_return_val_if_fail (GPU_IS_MEMORY (memory), FALSE);
  g_return_val_if_fail (GPU_IS_FILE (file), FALSE);

  return copy_blocking (&copy, stream, file, error);
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
 * Copies like gpu_stream_write_file(), and so in the order of the stream, but never blocks, and
 * reports the end of the copy. @callback is called in the thread-default main context of the
 * calling thread. @progress_callback is called as in gpu_buffer_read_bytes_async(). A cancellation
 * is as in gpu_memory_write_file(). A stream that cannot execute the copy is handled as in
 * gpu_memory_read_file_async().
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
  FileCopy copy = make_copy ("gpu_memory_write_file_async", FALSE, memory, offset, position, size,
                             cancellable);

  g_return_if_fail (GPU_IS_MEMORY (memory));
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

  return _gpu_error_propagate_boolean (result, "gpu_memory_write_file_async", error);
}
