/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A stream is a queue of operations and, from the first of them on, a thread.
 *
 * The thread of a stream in order runs them itself. That of one out of order hands them to the
 * pool, shuffled, and waits only where a barrier or an event says so. A record there ends an
 * epoch: its event completes when the operations of its epoch and of all before have.
 *
 * After a failure, which is an event waited for that failed or work that could not run, the
 * operations behind it fail without running: those submitted before the failure was seen, and
 * any later one until somebody was told of it.
 */
#include "config.h"

#include "gpumem/gpu-debug-private.h"
#include "gpumem/host/gpu-host.h"

#define HOST_DELAY_MAX_USEC 400

struct _GpuHostEpoch
{
  GpuHostEpoch   *next;
  gsize           n_running;        /* operations of this epoch on the pool */
  GpuHostEvent   *event;            /* what ends it; NULL while it goes on */
  GpuHostFailure *failure;
};

struct _GpuHostStream
{
  GpuNativeStream   parent;
  gatomicrefcount   refs;           /* of the front, the thread, the pool and events */
  GpuStreamFlags    flags;

  GMutex            lock;           /* guards what follows */
  GCond             cond;           /* the thread's */
  gboolean          sleeping;
  gint              stopped;        /* atomic; written under lock */
  GThread          *thread;         /* NULL before the first operation */
  GpuHostOperation *head;
  GpuHostOperation *tail;
  guint64           submitted;
  gsize             n_running;      /* operations on the pool */
  GpuHostEpoch     *epochs;         /* the oldest that is not over, out of order only */
  GpuHostEpoch     *epoch;          /* the newest */

  /* The thread's own. */
  GpuHostFailure   *failure;
  guint64           failed;         /* the last operation that failed by it */
  guint64           failed_until;   /* all up to here fail by it */
  guint32           random;
};

gpointer
_gpu_host_operation_new (gsize          size,
                         GpuHostRunFunc run)
{
  GpuHostOperation *operation = g_malloc0 (size);

  operation->kind = GPU_HOST_OPERATION_WORK;
  operation->run = run;

  return operation;
}

static void
operation_free (GpuHostOperation *operation)
{
  if (operation->kind == GPU_HOST_OPERATION_WAIT)
    {
      GpuHostWait *wait = (GpuHostWait *) operation;

      for (guint i = 0; i < wait->n_events; i++)
        _gpu_native_event_unref (&wait->events[i]->parent);
    }

  if (operation->event != NULL)
    _gpu_native_event_unref (&operation->event->parent);

  g_free (operation);
}

GpuHostStream *
_gpu_host_stream_ref (GpuHostStream *stream)
{
  g_atomic_ref_count_inc (&stream->refs);

  return stream;
}

void
_gpu_host_stream_unref (GpuHostStream *stream)
{
  if (!g_atomic_ref_count_dec (&stream->refs))
    return;

  g_clear_pointer (&stream->thread, g_thread_unref);
  g_clear_pointer (&stream->failure, _gpu_host_failure_unref);

  if (stream->epoch != NULL)
    g_clear_pointer (&stream->epoch->failure, _gpu_host_failure_unref);

  g_free (stream->epoch);
  g_mutex_clear (&stream->lock);
  g_cond_clear (&stream->cond);
  g_free (stream);
}

/* Wakes the thread, at most once for each time it goes to sleep. The signal comes after the lock
 * is free again, so that the thread does not wake just to wait for it. */
static void
unlock_and_wake (GpuHostStream *stream)
{
  gboolean sleeping = stream->sleeping;

  stream->sleeping = FALSE;
  g_mutex_unlock (&stream->lock);

  if (sleeping)
    g_cond_signal (&stream->cond);
}

void
_gpu_host_stream_wake (GpuHostStream *stream)
{
  g_mutex_lock (&stream->lock);
  unlock_and_wake (stream);
}

static void
sleep_locked (GpuHostStream *stream)
{
  stream->sleeping = TRUE;
  g_cond_wait (&stream->cond, &stream->lock);
  stream->sleeping = FALSE;
}

static gboolean
is_out_of_order (GpuHostStream *stream)
{
  return (stream->flags & GPU_STREAM_FLAGS_OUT_OF_ORDER) != 0;
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

/* NULL if it went well. */
static GpuHostFailure *
operation_run (GpuHostOperation *operation)
{
  GpuHostEvent *event = operation->event;
  GError *error = NULL;

  delay ();

  if (event != NULL && event->is_timed)
    event->times[GPU_PROFILING_POINT_STARTED] = _gpu_host_get_time ();

  if (operation->run != NULL && !operation->run (operation, &error))
    return _gpu_host_failure_new (error);

  if (event != NULL && event->is_timed)
    event->times[GPU_PROFILING_POINT_ENDED] = _gpu_host_get_time ();

  return NULL;
}

static void
operation_end (GpuHostOperation *operation,
               GpuHostFailure   *failure)
{
  if (operation->event != NULL)
    _gpu_host_event_end (operation->event, failure);

  operation_free (operation);
}

/* Takes @failure of the operation @seq over. */
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

/* A stream that was freed with work left in it belongs to a context that is lost, and what the
 * work needs may be gone. */
static void
check_stopped (GpuHostStream *stream,
               guint64        seq)
{
  if (!g_atomic_int_get (&stream->stopped) || stream->failure != NULL)
    return;

  set_failure (stream,
               _gpu_host_failure_new (g_error_new_literal (GPU_ERROR, GPU_ERROR_DEVICE_LOST,
                                                           "host: the stream is no more")),
               seq);
}

/* Why @operation must not run, or NULL. */
static GpuHostFailure *
get_failure (GpuHostStream    *stream,
             GpuHostOperation *operation)
{
  GpuHostFailure *failure = stream->failure;

  if (failure != NULL && operation->seq > stream->failed_until
      && __atomic_load_n (&failure->reported, __ATOMIC_ACQUIRE) >= stream->failed)
    g_clear_pointer (&stream->failure, _gpu_host_failure_unref);

  check_stopped (stream, operation->seq);

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

/* Completes the events of all the epochs that are over. */
static void
end_epochs (GpuHostStream *stream)
{
  GpuHostEpoch *over = NULL;
  GpuHostEpoch **last = &over;
  GpuHostEpoch *epoch;

  g_mutex_lock (&stream->lock);

  while ((epoch = epoch_pop_locked (stream)) != NULL)
    {
      epoch->next = NULL;
      *last = epoch;
      last = &epoch->next;
    }

  g_mutex_unlock (&stream->lock);

  while ((epoch = over) != NULL)
    {
      over = epoch->next;
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
  unlock_and_wake (stream);
  end_epochs (stream);
  _gpu_host_stream_unref (stream);
}

/* Hands @n operations to the pool in any order. */
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

  if (is_out_of_order (stream))
    {
      g_mutex_lock (&stream->lock);
      epoch_fail_locked (stream->epoch, stream->failure);
      g_mutex_unlock (&stream->lock);
    }

  operation_end (operation, stream->failure);
}

/* NULL if @event completed. */
static GError *
wait_for_event (GpuHostStream *stream,
                GpuHostEvent  *event)
{
  static const char *const text = "host: the event waited for failed";
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
                                      "host: the stream ended before the event it waited for");
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

  if (operation->event->is_timed)
    {
      operation->event->times[GPU_PROFILING_POINT_STARTED] = _gpu_host_get_time ();
      operation->event->times[GPU_PROFILING_POINT_ENDED] = _gpu_host_get_time ();
    }

  g_mutex_lock (&stream->lock);

  if (failure != NULL)
    epoch_fail_locked (stream->epoch, failure);

  stream->epoch->event = g_steal_pointer (&operation->event);
  stream->epoch->next = epoch;
  stream->epoch = epoch;
  g_mutex_unlock (&stream->lock);

  operation_free (operation);
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

  if (operation->kind == GPU_HOST_OPERATION_RECORD && is_out_of_order (stream))
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

/* All that was submitted, oldest first; NULL once the stream is no more. */
static GpuHostOperation *
take_operations (GpuHostStream *stream)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&stream->lock);

  while (stream->head == NULL && !g_atomic_int_get (&stream->stopped))
    sleep_locked (stream);

  stream->tail = NULL;

  return g_steal_pointer (&stream->head);
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

static gpointer
stream_thread (gpointer data)
{
  GpuHostStream *stream = data;
  GpuHostOperation *operations;

  while ((operations = take_operations (stream)) != NULL)
    {
      while (operations != NULL)
        {
          GpuHostOperation *operation = operations;

          if (is_out_of_order (stream))
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

static gboolean
start_locked (GpuHostStream  *stream,
              GError        **error)
{
  g_autoptr (GError) reason = NULL;

  stream->thread = g_thread_try_new ("gpumem-stream", stream_thread,
                                     _gpu_host_stream_ref (stream), &reason);

  if (stream->thread != NULL)
    return TRUE;

  g_atomic_ref_count_dec (&stream->refs);
  g_set_error (error, GPU_ERROR, GPU_ERROR_OUT_OF_HOST_MEMORY, "host: pthread_create: %s",
               reason->message);

  return FALSE;
}

static void
set_submit_times (GpuHostEvent *event,
                  guint64       queued)
{
  event->times[GPU_PROFILING_POINT_QUEUED] = queued;
  event->times[GPU_PROFILING_POINT_SUBMITTED] = _gpu_host_get_time ();
}

static gboolean
submit (GpuHostStream     *stream,
        GpuHostOperation  *operation,
        GError           **error)
{
  GpuHostEvent *event = operation->event;
  guint64 queued = event != NULL && event->is_timed ? _gpu_host_get_time () : 0;

  g_mutex_lock (&stream->lock);

  if (stream->thread == NULL && !start_locked (stream, error))
    {
      g_mutex_unlock (&stream->lock);
      operation_free (operation);
      return FALSE;
    }

  operation->seq = ++stream->submitted;

  if (event != NULL && (operation->kind == GPU_HOST_OPERATION_RECORD || !is_out_of_order (stream)))
    event->seq = operation->seq;

  if (queued != 0)
    set_submit_times (event, queued);

  if (stream->tail != NULL)
    stream->tail->next = operation;
  else
    stream->head = operation;

  stream->tail = operation;
  unlock_and_wake (stream);

  return TRUE;
}

gboolean
_gpu_host_stream_submit (GpuNativeStream  *stream,
                         gpointer          operation,
                         GpuNativeEvent  **event,
                         GError          **error)
{
  GpuHostStream *self = (GpuHostStream *) stream;
  GpuHostOperation *submitted = operation;
  GpuNativeEvent *result;

  if (event == NULL)
    return submit (self, submitted, error);

  submitted->event = _gpu_host_event_new ((self->flags & GPU_STREAM_FLAGS_PROFILING) != 0);
  result = _gpu_native_event_ref (&submitted->event->parent);

  if (!submit (self, submitted, error))
    {
      _gpu_native_event_unref (result);
      return FALSE;
    }

  *event = result;

  return TRUE;
}

static GpuNativeStream *
host_stream_create (GpuNativeContext  *context,
                    GpuNativeDevice   *device G_GNUC_UNUSED,
                    GpuStreamFlags     flags,
                    int                priority G_GNUC_UNUSED,
                    GError           **error G_GNUC_UNUSED)
{
  GpuHostStream *stream = g_new0 (GpuHostStream, 1);

  stream->parent.backend = &_gpu_host_backend;
  stream->parent.context = context;
  stream->flags = flags;
  stream->random = g_random_int () | 1;
  g_atomic_ref_count_init (&stream->refs);
  g_mutex_init (&stream->lock);
  g_cond_init (&stream->cond);

  if (is_out_of_order (stream))
    stream->epochs = stream->epoch = g_new0 (GpuHostEpoch, 1);

  return &stream->parent;
}

/* The thread ends by itself; nobody waits for it. */
static void
host_stream_free (GpuNativeStream *stream)
{
  GpuHostStream *self = (GpuHostStream *) stream;

  g_mutex_lock (&self->lock);
  g_atomic_int_set (&self->stopped, TRUE);
  unlock_and_wake (self);
  _gpu_host_stream_unref (self);
}

static guint64
host_stream_get_handle (GpuNativeStream *stream)
{
  return (guintptr) stream;
}

static GpuNativeEvent *
host_stream_record (GpuNativeStream  *stream,
                    GpuEventFlags     flags,
                    GError          **error)
{
  GpuHostStream *self = (GpuHostStream *) stream;
  gboolean is_timed = (flags & GPU_EVENT_FLAGS_TIMING) != 0
                      || (self->flags & GPU_STREAM_FLAGS_PROFILING) != 0;
  GpuHostOperation *operation = _gpu_host_operation_new (sizeof *operation, NULL);
  g_autoptr (GpuNativeEvent) event = NULL;

  operation->kind = GPU_HOST_OPERATION_RECORD;
  operation->event = _gpu_host_event_new (is_timed);
  event = _gpu_native_event_ref (&operation->event->parent);

  if (!submit (self, operation, error))
    return NULL;

  return g_steal_pointer (&event);
}

static gboolean
host_stream_wait (GpuNativeStream        *stream,
                  GpuNativeEvent *const  *events,
                  guint                   n_events,
                  GpuNativeEvent        **event,
                  GError                **error)
{
  GpuHostWait *wait;

  wait = _gpu_host_operation_new (sizeof *wait + n_events * sizeof wait->events[0], NULL);
  wait->parent.kind = GPU_HOST_OPERATION_WAIT;
  wait->n_events = n_events;

  for (guint i = 0; i < n_events; i++)
    wait->events[i] = (GpuHostEvent *) _gpu_native_event_ref (events[i]);

  return _gpu_host_stream_submit (stream, wait, event, error);
}

static gboolean
host_stream_barrier (GpuNativeStream  *stream,
                     GpuNativeEvent  **event,
                     GError          **error)
{
  GpuHostOperation *operation = _gpu_host_operation_new (sizeof *operation, NULL);

  operation->kind = GPU_HOST_OPERATION_BARRIER;

  return _gpu_host_stream_submit (stream, operation, event, error);
}

static gboolean
host_stream_flush (GpuNativeStream  *stream G_GNUC_UNUSED,
                   GError          **error G_GNUC_UNUSED)
{
  return TRUE;
}

static gboolean
host_stream_finish (GpuNativeStream  *stream,
                    GError          **error)
{
  g_autoptr (GpuNativeEvent) event = host_stream_record (stream, GPU_EVENT_FLAGS_NONE, error);

  return event != NULL && _gpu_host_event_ops.wait (event, error);
}

const GpuStreamOps _gpu_host_stream_ops =
{
  .create = host_stream_create,
  .free = host_stream_free,
  .get_handle = host_stream_get_handle,
  .record = host_stream_record,
  .wait = host_stream_wait,
  .barrier = host_stream_barrier,
  .flush = host_stream_flush,
  .finish = host_stream_finish
};
