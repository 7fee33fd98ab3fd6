/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/host/gpu-host-stream.h"

gpointer
_gpu_host_operation_new (gsize          size,
                         GpuHostRunFunc run)
{
  GpuHostOperation *operation = g_malloc0 (size);

  operation->kind = GPU_HOST_OPERATION_WORK;
  operation->run = run;

  return operation;
}

void
_gpu_host_operation_free (GpuHostOperation *operation)
{
  if (operation->kind == GPU_HOST_OPERATION_WAIT)
    {
      GpuHostWait *wait = (GpuHostWait *) operation;

      for (guint i = 0; i < wait->n_events; i++)
        _gpu_native_event_unref (&wait->events[i]->parent);
    }

  if (operation->event != NULL)
    _gpu_native_event_unref (&operation->event->parent);

  if (operation->release != NULL)
    operation->release (operation);

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

void
_gpu_host_stream_unlock_and_wake (GpuHostStream *stream)
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
  _gpu_host_stream_unlock_and_wake (stream);
}

static gboolean
start_locked (GpuHostStream  *stream,
              GError        **error)
{
  g_autoptr (GError) reason = NULL;

  stream->thread = g_thread_try_new ("gpumem-stream", _gpu_host_stream_thread,
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

  if (!_gpu_backend_check_process (error))
    {
      _gpu_host_operation_free (operation);
      return FALSE;
    }

  g_mutex_lock (&stream->lock);

  if (stream->thread == NULL && !start_locked (stream, error))
    {
      g_mutex_unlock (&stream->lock);
      _gpu_host_operation_free (operation);
      return FALSE;
    }

  operation->seq = ++stream->submitted;

  if (event != NULL
      && (operation->kind == GPU_HOST_OPERATION_RECORD || !stream_is_out_of_order (stream)))
    event->seq = operation->seq;

  if (queued != 0)
    set_submit_times (event, queued);

  if (stream->tail != NULL)
    stream->tail->next = operation;
  else
    stream->head = operation;

  stream->tail = operation;
  _gpu_host_stream_unlock_and_wake (stream);

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

  if (stream_is_out_of_order (stream))
    stream->epochs = stream->epoch = g_new0 (GpuHostEpoch, 1);

  return &stream->parent;
}

/* Does not join the thread, which ends by itself. */
static void
host_stream_free (GpuNativeStream *stream)
{
  GpuHostStream *self = (GpuHostStream *) stream;

  g_mutex_lock (&self->lock);
  g_atomic_int_set (&self->stopped, TRUE);
  _gpu_host_stream_unlock_and_wake (self);
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
  GpuHostOperation *operation;

  if (event == NULL && !stream_is_out_of_order ((GpuHostStream *) stream))
    return TRUE;

  operation = _gpu_host_operation_new (sizeof *operation, NULL);
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

  return event != NULL && _gpu_host_event_ops.wait (event, FALSE, error);
}

gboolean
_gpu_host_stream_submit_nothing (GpuNativeStream  *stream,
                                 GpuNativeEvent  **event,
                                 GError          **error)
{
  return _gpu_host_stream_submit (stream, _gpu_host_operation_new (sizeof (GpuHostOperation), NULL),
                                  event, error);
}

const GpuStreamOps _gpu_host_stream_ops =
{
  .foreign_events = TRUE,
  .times_any = TRUE,
  .create = host_stream_create,
  .free = host_stream_free,
  .get_handle = host_stream_get_handle,
  .record = host_stream_record,
  .wait = host_stream_wait,
  .barrier = host_stream_barrier,
  .flush = host_stream_flush,
  .finish = host_stream_finish
};
