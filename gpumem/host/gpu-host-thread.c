/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A stream is a queue of operations and a thread, which the first operation starts.
 *
 * The thread of an in-order stream runs the operations itself. The thread of an out-of-order stream
 * passes them to the thread pool in random order, and waits only for barriers and events. The
 * operations of an out-of-order stream between two records are an epoch. The event of a record
 * completes after all operations of the epoch that the record ends, and of all previous epochs.
 *
 * A stream fails when an operation that its thread runs fails, or when an event that it waits for
 * fails. The operations that were submitted before the thread detected the failure then fail
 * without running. Later operations fail in the same way until a caller has received the error. If
 * an operation fails on a thread of the pool, only the event of its epoch fails.
 */
#include "config.h"

#include "gpumem/base/gpu-debug-private.h"
#include "gpumem/host/gpu-host-stream.h"

#define HOST_DELAY_MAX_USEC 400

static void
sleep_locked (GpuHostStream *stream)
{
  stream->sleeping = TRUE;
  g_cond_wait (&stream->cond, &stream->lock);
  stream->sleeping = FALSE;
}

static guint32
next_random (GpuHostStream *stream)
{
  stream->random ^= stream->random << 13;
  stream->random ^= stream->random >> 17;
  stream->random ^= stream->random << 5;

  return stream->random;
}

static void
delay (void)
{
  if (_gpu_debug_has (GPU_DEBUG_HOST_DELAY))
    g_usleep (g_random_int_range (0, HOST_DELAY_MAX_USEC));
}

static void
set_time (GpuHostEvent      *event,
          GpuProfilingPoint  point)
{
  if (event != NULL && event->is_timed)
    event->times[point] = _gpu_host_get_time ();
}

/* Returns NULL on success. */
static GpuHostFailure *
operation_run (GpuHostOperation *operation)
{
  GError *error = NULL;

  delay ();
  set_time (operation->event, GPU_PROFILING_POINT_STARTED);

  if (operation->run != NULL && !operation->run (operation, &error))
    return _gpu_host_failure_new (error);

  set_time (operation->event, GPU_PROFILING_POINT_ENDED);

  return NULL;
}

static void
operation_end (GpuHostOperation *operation,
               GpuHostFailure   *failure)
{
  if (operation->event != NULL)
    _gpu_host_event_end (operation->event, failure);

  _gpu_host_operation_free (operation);
}

/* Takes ownership of @failure, the failure of the operation @seq. */
static void
set_failure (GpuHostStream  *stream,
             GpuHostFailure *failure,
             guint64         seq)
{
  g_clear_pointer (&stream->failure, _gpu_host_failure_unref);
  stream->failure = failure;
  stream->failed = seq;

  g_mutex_lock (&stream->lock);
  stream->failed_until = stream->submitted;
  g_mutex_unlock (&stream->lock);
}

/* Fails the remaining work of a stream that was freed. Such a stream only has work if its context
 * was lost, and the memory of that work may have been freed. Records and barriers use no memory and
 * still run, so that waiters for their events return. */
static void
check_stopped (GpuHostStream    *stream,
               GpuHostOperation *operation)
{
  if (!g_atomic_int_get (&stream->stopped) || stream->failure != NULL
      || operation->kind == GPU_HOST_OPERATION_RECORD
      || operation->kind == GPU_HOST_OPERATION_BARRIER)
    return;

  set_failure (stream,
               _gpu_host_failure_new (g_error_new_literal (GPU_ERROR, GPU_ERROR_DEVICE_LOST,
                                                           "host: the stream was freed before "
                                                           "this work ran")),
               operation->seq);
}

/* Returns the failure that prevents @operation from running, or NULL. */
static GpuHostFailure *
get_failure (GpuHostStream    *stream,
             GpuHostOperation *operation)
{
  GpuHostFailure *failure = stream->failure;

  if (failure != NULL && operation->seq > stream->failed_until
      && __atomic_load_n (&failure->reported, __ATOMIC_ACQUIRE) >= stream->failed)
    g_clear_pointer (&stream->failure, _gpu_host_failure_unref);

  check_stopped (stream, operation);

  return stream->failure;
}

static GpuHostEpoch *
epoch_pop_locked (GpuHostStream *stream)
{
  GpuHostEpoch *epoch = stream->epochs;

  if (epoch == NULL || epoch->event == NULL || epoch->n_running > 0)
    return NULL;

  stream->epochs = epoch->next;

  return epoch;
}

/* Ends the events of all completed epochs. */
static void
end_epochs (GpuHostStream *stream)
{
  GpuHostEpoch *completed = NULL;
  GpuHostEpoch **last = &completed;
  GpuHostEpoch *epoch;

  g_mutex_lock (&stream->lock);

  while ((epoch = epoch_pop_locked (stream)) != NULL)
    {
      epoch->next = NULL;
      *last = epoch;
      last = &epoch->next;
    }

  g_mutex_unlock (&stream->lock);

  while ((epoch = completed) != NULL)
    {
      completed = epoch->next;
      set_time (epoch->event, GPU_PROFILING_POINT_STARTED);
      set_time (epoch->event, GPU_PROFILING_POINT_ENDED);
      _gpu_host_event_end (epoch->event, epoch->failure);
      _gpu_native_event_unref (&epoch->event->parent);
      g_clear_pointer (&epoch->failure, _gpu_host_failure_unref);
      g_free (epoch);
    }
}

static void
epoch_fail_locked (GpuHostEpoch   *epoch,
                   GpuHostFailure *failure)
{
  if (epoch->failure == NULL)
    epoch->failure = _gpu_host_failure_ref (failure);
}

static void
run_on_pool (gpointer data)
{
  GpuHostOperation *operation = data;
  GpuHostStream *stream = operation->stream;
  GpuHostEpoch *epoch = operation->epoch;
  g_autoptr (GpuHostFailure) failure = operation_run (operation);

  operation_end (operation, failure);
  g_mutex_lock (&stream->lock);

  if (failure != NULL)
    epoch_fail_locked (epoch, failure);

  epoch->n_running--;
  stream->n_running--;
  _gpu_host_stream_unlock_and_wake (stream);
  end_epochs (stream);
  _gpu_host_stream_unref (stream);
}

/* Passes @n operations to the pool in random order. */
static void
scatter (GpuHostStream     *stream,
         GpuHostOperation **operations,
         guint              n)
{
  g_mutex_lock (&stream->lock);
  stream->epoch->n_running += n;
  stream->n_running += n;
  g_mutex_unlock (&stream->lock);

  for (; n > 0; n--)
    {
      guint i = next_random (stream) % n;
      GpuHostOperation *operation = operations[i];

      operations[i] = operations[n - 1];
      operation->stream = _gpu_host_stream_ref (stream);
      operation->epoch = stream->epoch;
      _gpu_host_pool_push (run_on_pool, operation);
    }
}

static void
fail_operation (GpuHostStream    *stream,
                GpuHostOperation *operation)
{
  if (operation->kind != GPU_HOST_OPERATION_RECORD)
    stream->failed = operation->seq;

  if (stream_is_out_of_order (stream))
    {
      g_mutex_lock (&stream->lock);
      epoch_fail_locked (stream->epoch, stream->failure);
      g_mutex_unlock (&stream->lock);
    }

  operation_end (operation, stream->failure);
}

/* Returns NULL if @event completed. */
static GError *
wait_for_event (GpuHostStream *stream,
                GpuHostEvent  *event)
{
  static const char *const text = "host: an event that the stream waited for has failed";
  const GError *cause;
  gboolean stopped;

  if (_gpu_host_event_add_stream (event, stream))
    {
      g_mutex_lock (&stream->lock);

      while (g_atomic_int_get (&event->status) == GPU_EVENT_STATUS_PENDING
             && !g_atomic_int_get (&stream->stopped))
        sleep_locked (stream);

      stopped = g_atomic_int_get (&stream->stopped);
      g_mutex_unlock (&stream->lock);

      if (stopped)
        {
          _gpu_host_event_remove_stream (event, stream);
          return g_error_new_literal (GPU_ERROR, GPU_ERROR_DEVICE_LOST,
                                      "host: the stream was freed while it waited for an event");
        }
    }

  if (g_atomic_int_get (&event->status) == GPU_EVENT_STATUS_COMPLETE)
    return NULL;

  cause = event->failure->error;

  if (g_str_has_prefix (cause->message, text))
    return g_error_copy (cause);

  return g_error_new (GPU_ERROR, GPU_ERROR_FAILED, "%s (%s)", text, cause->message);
}

static void
process_wait (GpuHostStream *stream,
              GpuHostWait   *wait)
{
  GError *error = NULL;

  for (guint i = 0; i < wait->n_events && error == NULL; i++)
    error = wait_for_event (stream, wait->events[i]);

  if (error != NULL)
    {
      set_failure (stream, _gpu_host_failure_new (error), wait->parent.seq);
      fail_operation (stream, &wait->parent);
      return;
    }

  operation_run (&wait->parent);
  operation_end (&wait->parent, NULL);
}

static void
wait_for_pool (GpuHostStream *stream)
{
  g_mutex_lock (&stream->lock);

  while (stream->n_running > 0)
    sleep_locked (stream);

  g_mutex_unlock (&stream->lock);
}

static void
end_epoch (GpuHostStream    *stream,
           GpuHostOperation *operation,
           GpuHostFailure   *failure)
{
  GpuHostEpoch *epoch = g_new0 (GpuHostEpoch, 1);

  g_mutex_lock (&stream->lock);

  if (failure != NULL)
    epoch_fail_locked (stream->epoch, failure);

  stream->epoch->event = g_steal_pointer (&operation->event);
  stream->epoch->next = epoch;
  stream->epoch = epoch;
  g_mutex_unlock (&stream->lock);

  _gpu_host_operation_free (operation);
  end_epochs (stream);
}

static void
process_in_order (GpuHostStream    *stream,
                  GpuHostOperation *operation)
{
  GpuHostFailure *failure = operation_run (operation);

  if (failure != NULL)
    set_failure (stream, failure, operation->seq);

  operation_end (operation, failure);
}

static void
process (GpuHostStream    *stream,
         GpuHostOperation *operation)
{
  GpuHostFailure *failure = get_failure (stream, operation);

  if (operation->kind == GPU_HOST_OPERATION_RECORD && stream_is_out_of_order (stream))
    {
      end_epoch (stream, operation, failure);
      return;
    }

  if (failure != NULL)
    {
      fail_operation (stream, operation);
      return;
    }

  switch (operation->kind)
    {
    case GPU_HOST_OPERATION_WAIT:
      process_wait (stream, (GpuHostWait *) operation);
      break;

    case GPU_HOST_OPERATION_BARRIER:
      wait_for_pool (stream);
      process_in_order (stream, operation);
      break;

    case GPU_HOST_OPERATION_WORK:
    case GPU_HOST_OPERATION_RECORD:
    default:
      process_in_order (stream, operation);
      break;
    }
}

/* Blocks until the queue has operations, and takes all of them, oldest first. Returns NULL if the
 * stream was freed and its queue is empty. */
static GpuHostOperation *
take_operations (GpuHostStream *stream)
{
  GpuHostOperation *operations;

  g_mutex_lock (&stream->lock);

  while (stream->head == NULL && !g_atomic_int_get (&stream->stopped))
    sleep_locked (stream);

  operations = g_steal_pointer (&stream->head);
  stream->tail = NULL;
  g_mutex_unlock (&stream->lock);

  return operations;
}

static GpuHostOperation *
process_batch (GpuHostStream    *stream,
               GpuHostOperation *operation)
{
  GpuHostOperation *batch[64];
  guint n = 0;

  while (operation != NULL && operation->kind == GPU_HOST_OPERATION_WORK
         && n < G_N_ELEMENTS (batch) && get_failure (stream, operation) == NULL)
    {
      batch[n++] = operation;
      operation = operation->next;
    }

  scatter (stream, batch, n);

  return operation;
}

gpointer
_gpu_host_stream_thread (gpointer data)
{
  GpuHostStream *stream = data;
  GpuHostOperation *operations;

  while ((operations = take_operations (stream)) != NULL)
    {
      while (operations != NULL)
        {
          GpuHostOperation *operation = operations;

          if (stream_is_out_of_order (stream))
            operations = process_batch (stream, operation);

          if (operations == operation)
            {
              operations = operation->next;
              process (stream, operation);
            }
        }
    }

  _gpu_host_stream_unref (stream);

  return NULL;
}
