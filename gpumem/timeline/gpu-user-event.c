/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/base/gpu-latch-private.h"
#include "gpumem/timeline/gpu-timeline-private.h"
#include "gpumem/timeline/gpu-user-event-private.h"

guint _gpu_user_events_failed;

typedef struct
{
  GpuWaiterFunc func;
  gpointer      data;
} GpuUserWaiter;

GpuUserEvent *
_gpu_user_event_new (GpuNativeContext *context)
{
  GpuUserEvent *event = g_new0 (GpuUserEvent, 1);

  g_atomic_ref_count_init (&event->refs);
  event->context = _gpu_native_context_ref (context);
  event->status = GPU_EVENT_STATUS_PENDING;
  g_mutex_init (&event->lock);

  return event;
}

GpuUserEvent *
_gpu_user_event_ref (GpuUserEvent *event)
{
  g_atomic_ref_count_inc (&event->refs);

  return event;
}

void
_gpu_user_event_unref (GpuUserEvent *event)
{
  if (!g_atomic_ref_count_dec (&event->refs))
    return;

  g_clear_pointer (&event->event, _gpu_native_event_unref);
  g_clear_error (&event->error);
  g_queue_clear_full (&event->waiters, g_free);
  _gpu_native_context_unref (event->context);
  g_mutex_clear (&event->lock);
  g_free (event);
}

GpuEventStatus
_gpu_user_event_query (GpuUserEvent  *event,
                       GError       **failure)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&event->lock);

  if (event->error != NULL && failure != NULL)
    *failure = g_error_copy (event->error);

  return event->status;
}

static void
call_waiters (GQueue       *waiters,
              const GError *failure)
{
  GpuUserWaiter *waiter;

  while ((waiter = g_queue_pop_head (waiters)) != NULL)
    {
      waiter->func (waiter->data, failure);
      g_free (waiter);
    }
}

/* Caller holds the failure lock, so that the status of this event and of the driver's event change
 * together. */
static gboolean
set_status (GpuUserEvent  *event,
            const GError  *failure,
            GQueue        *waiters,
            GError       **error)
{
  g_autoptr (GpuNativeEvent) native = NULL;

  g_mutex_lock (&event->lock);

  if (event->status != GPU_EVENT_STATUS_PENDING)
    {
      g_mutex_unlock (&event->lock);
      g_set_error_literal (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                           "the event has already completed or failed");
      return FALSE;
    }

  if (failure != NULL)
    g_atomic_int_set (&_gpu_timeline_any_failed, TRUE);

  event->status = failure != NULL ? GPU_EVENT_STATUS_FAILED : GPU_EVENT_STATUS_COMPLETE;
  event->error = failure != NULL ? g_error_copy (failure) : NULL;
  /* Set the status before this counter changes. A timeline searches for failed events once for each
   * value of the counter, and must then find this event. */
  if (failure != NULL)
    g_atomic_int_inc (&_gpu_user_events_failed);

  *waiters = event->waiters;
  g_queue_init (&event->waiters);
  native = g_steal_pointer (&event->event);
  g_mutex_unlock (&event->lock);

  return native == NULL
         || event->context->backend->event->set_user (native, failure == NULL, error);
}

gboolean
_gpu_user_event_set (GpuUserEvent  *event,
                     const GError  *failure,
                     GError       **error)
{
  GQueue waiters = G_QUEUE_INIT;
  gboolean success;

  g_mutex_lock (&event->context->failure_lock);
  success = set_status (event, failure, &waiters, error);
  g_mutex_unlock (&event->context->failure_lock);
  call_waiters (&waiters, failure);

  return success;
}

gboolean
_gpu_user_event_get_native (GpuUserEvent    *event,
                            GpuNativeEvent **native,
                            GError         **error)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&event->lock);
  const GpuEventOps *ops = event->context->backend->event;

  *native = NULL;

  if (event->status == GPU_EVENT_STATUS_COMPLETE)
    return TRUE;

  if (event->status == GPU_EVENT_STATUS_FAILED)
    {
      g_propagate_error (error, g_error_copy (event->error));
      return FALSE;
    }

  if (event->event == NULL)
    event->event = ops->create_user (event->context, error);

  if (event->event == NULL)
    return FALSE;

  *native = _gpu_native_event_ref (event->event);

  return TRUE;
}

void
_gpu_user_event_notify (GpuUserEvent  *event,
                        GpuWaiterFunc  func,
                        gpointer       data)
{
  g_mutex_lock (&event->lock);

  if (event->status == GPU_EVENT_STATUS_PENDING)
    {
      GpuUserWaiter *waiter = g_new (GpuUserWaiter, 1);

      waiter->func = func;
      waiter->data = data;
      g_queue_push_tail (&event->waiters, waiter);
      g_mutex_unlock (&event->lock);
      return;
    }

  g_mutex_unlock (&event->lock);
  /* The error is read without the lock, because it is set only once. */
  func (data, event->error);
}

static gboolean
remove_waiter (GpuUserEvent *event,
               gpointer      data)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&event->lock);

  for (GList *l = event->waiters.head; l != NULL; l = l->next)
    {
      GpuUserWaiter *waiter = l->data;

      if (waiter->data == data)
        {
          g_queue_delete_link (&event->waiters, l);
          g_free (waiter);
          return TRUE;
        }
    }

  return FALSE;
}

gboolean
_gpu_user_event_wait_until (GpuUserEvent  *event,
                            gint64         deadline,
                            GCancellable  *cancellable,
                            GError       **error)
{
  g_autoptr (GpuLatch) latch = NULL;

  if (g_cancellable_set_error_if_cancelled (cancellable, error))
    return FALSE;

  latch = _gpu_latch_new ();
  _gpu_user_event_notify (event, _gpu_latch_open, _gpu_latch_ref (latch));

  if (_gpu_latch_wait (latch, deadline, cancellable, error))
    return TRUE;

  if (remove_waiter (event, latch))
    _gpu_latch_unref (latch);

  return FALSE;
}
