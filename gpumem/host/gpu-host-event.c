/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <time.h>

#include "gpumem/host/gpu-host.h"

guint64
_gpu_host_get_time (void)
{
  struct timespec now;

  clock_gettime (CLOCK_MONOTONIC, &now);

  return (guint64) now.tv_sec * G_GUINT64_CONSTANT (1000000000) + now.tv_nsec;
}

/* Takes ownership of @error. */
GpuHostFailure *
_gpu_host_failure_new (GError *error)
{
  GpuHostFailure *failure = g_new0 (GpuHostFailure, 1);

  g_atomic_ref_count_init (&failure->refs);
  failure->error = error;

  return failure;
}

GpuHostFailure *
_gpu_host_failure_ref (GpuHostFailure *failure)
{
  g_atomic_ref_count_inc (&failure->refs);

  return failure;
}

void
_gpu_host_failure_unref (GpuHostFailure *failure)
{
  if (!g_atomic_ref_count_dec (&failure->refs))
    return;

  g_error_free (failure->error);
  g_free (failure);
}

GpuHostEvent *
_gpu_host_event_new (gboolean is_timed)
{
  GpuHostEvent *event = g_new0 (GpuHostEvent, 1);

  _gpu_native_event_init (&event->parent, &_gpu_host_backend);
  event->is_timed = is_timed;
  event->status = GPU_EVENT_STATUS_PENDING;
  g_mutex_init (&event->lock);
  g_cond_init (&event->cond);

  return event;
}

gboolean
_gpu_host_event_end (GpuHostEvent   *event,
                     GpuHostFailure *failure)
{
  GSList *streams;

  g_mutex_lock (&event->lock);

  if (g_atomic_int_get (&event->status) != GPU_EVENT_STATUS_PENDING)
    {
      g_mutex_unlock (&event->lock);
      return FALSE;
    }

  if (failure != NULL)
    event->failure = _gpu_host_failure_ref (failure);

  g_atomic_int_set (&event->status, failure != NULL ? GPU_EVENT_STATUS_FAILED
                                                    : GPU_EVENT_STATUS_COMPLETE);
  streams = g_steal_pointer (&event->streams);

  if (event->n_sleepers > 0)
    g_cond_broadcast (&event->cond);

  g_mutex_unlock (&event->lock);

  for (GSList *l = streams; l != NULL; l = l->next)
    {
      _gpu_host_stream_wake (l->data);
      _gpu_host_stream_unref (l->data);
    }

  g_slist_free (streams);

  return TRUE;
}

gboolean
_gpu_host_event_add_stream (GpuHostEvent  *event,
                            GpuHostStream *stream)
{
  gboolean is_pending;

  g_mutex_lock (&event->lock);
  is_pending = g_atomic_int_get (&event->status) == GPU_EVENT_STATUS_PENDING;

  if (is_pending)
    event->streams = g_slist_prepend (event->streams, _gpu_host_stream_ref (stream));

  g_mutex_unlock (&event->lock);

  return is_pending;
}

void
_gpu_host_event_remove_stream (GpuHostEvent  *event,
                               GpuHostStream *stream)
{
  GSList *link;

  g_mutex_lock (&event->lock);
  link = g_slist_find (event->streams, stream);
  event->streams = g_slist_remove_link (event->streams, link);
  g_mutex_unlock (&event->lock);

  if (link == NULL)
    return;

  g_slist_free_1 (link);
  _gpu_host_stream_unref (stream);
}

static GpuNativeEvent *
host_event_create_user (GpuNativeContext  *context G_GNUC_UNUSED,
                        GError           **error G_GNUC_UNUSED)
{
  GpuHostEvent *event = _gpu_host_event_new (FALSE);

  event->is_user = TRUE;

  return &event->parent;
}

static gboolean
host_event_set_user (GpuNativeEvent  *event,
                     gboolean         success,
                     GError         **error)
{
  GpuHostEvent *self = (GpuHostEvent *) event;
  g_autoptr (GpuHostFailure) failure = NULL;

  if (!success)
    failure = _gpu_host_failure_new (g_error_new (GPU_ERROR, GPU_ERROR_FAILED,
                                                  "host: the user event was set to failed"));

  if (self->is_user && _gpu_host_event_end (self, failure))
    return TRUE;

  g_set_error_literal (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                       self->is_user ? "host: the user event is already set"
                                     : "host: the event is not a user event");

  return FALSE;
}

static void
host_event_free (GpuNativeEvent *event)
{
  GpuHostEvent *self = (GpuHostEvent *) event;

  g_clear_pointer (&self->failure, _gpu_host_failure_unref);
  g_mutex_clear (&self->lock);
  g_cond_clear (&self->cond);
  g_free (self);
}

static guint64
host_event_get_handle (GpuNativeEvent *event)
{
  return (guintptr) event;
}

static void
report (GpuHostEvent *event)
{
  guint64 *reported = &event->failure->reported;
  guint64 seq = __atomic_load_n (reported, __ATOMIC_RELAXED);

  while (seq < event->seq
         && !__atomic_compare_exchange_n (reported, &seq, event->seq, TRUE, __ATOMIC_RELEASE,
                                          __ATOMIC_RELAXED))
    ;
}

static GpuEventStatus
host_event_query (GpuNativeEvent  *event,
                  GError         **error)
{
  GpuHostEvent *self = (GpuHostEvent *) event;
  GpuEventStatus status = g_atomic_int_get (&self->status);

  if (status == GPU_EVENT_STATUS_FAILED)
    {
      report (self);
      g_propagate_error (error, g_error_copy (self->failure->error));
    }

  return status;
}

static gboolean
host_event_wait (GpuNativeEvent  *event,
                 gboolean         urgent G_GNUC_UNUSED,
                 GError         **error)
{
  GpuHostEvent *self = (GpuHostEvent *) event;

  if (!_gpu_backend_check_process (error))
    return FALSE;

  if (g_atomic_int_get (&self->status) == GPU_EVENT_STATUS_PENDING)
    {
      g_mutex_lock (&self->lock);
      self->n_sleepers++;

      while (g_atomic_int_get (&self->status) == GPU_EVENT_STATUS_PENDING)
        g_cond_wait (&self->cond, &self->lock);

      self->n_sleepers--;
      g_mutex_unlock (&self->lock);
    }

  return host_event_query (event, error) == GPU_EVENT_STATUS_COMPLETE;
}

static gboolean
host_event_get_profiling_time (GpuNativeEvent     *event,
                               GpuProfilingPoint   point,
                               guint64            *nanoseconds,
                               GError            **error)
{
  GpuHostEvent *self = (GpuHostEvent *) event;

  if (!self->is_timed)
    {
      g_set_error_literal (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                           "host: the event has no times, because its stream does not profile");
      return FALSE;
    }

  if (g_atomic_int_get (&self->status) != GPU_EVENT_STATUS_COMPLETE)
    {
      g_set_error_literal (error, GPU_ERROR, GPU_ERROR_BUSY, "host: the event is not complete");
      return FALSE;
    }

  *nanoseconds = self->times[point];

  return TRUE;
}

const GpuEventOps _gpu_host_event_ops =
{
  .create_user = host_event_create_user,
  .set_user = host_event_set_user,
  .free = host_event_free,
  .get_handle = host_event_get_handle,
  .query = host_event_query,
  .wait = host_event_wait,
  .get_profiling_time = host_event_get_profiling_time
};
