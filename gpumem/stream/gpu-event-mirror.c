/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Waits for events that the driver of a stream does not know: those of another driver, or of
 * another OpenCL context. The stream waits for a user event of its own context, the mirror. After
 * the other event has completed or failed, a thread of the library completes or fails the mirror.
 *
 * A stream also waits for a mirror of a wrapped user event. The library protects its own user
 * events from faults of drivers, and knows that work that waits for them may not depend on the
 * device alone. It has no such protection and knowledge of user events of the program.
 *
 * The waiter must not set the mirror itself, because the thread that calls the waiter may hold the
 * failure lock of the context.
 */
#include "config.h"

#include "gpumem/base/gpu-workers-private.h"
#include "gpumem/stream/gpu-event-private.h"
#include "gpumem/stream/gpu-submission-private.h"

static GpuWorkers workers = { .name = "gpumem-mirror" };

typedef struct
{
  GpuUserEvent *user_event;
  GError       *failure;            /* of the other event */
  gboolean      ignores_failure;
} Mirror;

static void
mirror_free (Mirror *mirror)
{
  _gpu_user_event_unref (mirror->user_event);
  g_clear_error (&mirror->failure);
  g_free (mirror);
}

static void
mirror_run (gpointer data)
{
  Mirror *mirror = data;

  /* With the code GPU_ERROR_DEVICE_LOST, the context of the stream would count as lost. */
  if (g_error_matches (mirror->failure, GPU_ERROR, GPU_ERROR_DEVICE_LOST))
    {
      mirror->failure->code = GPU_ERROR_FAILED;
      g_prefix_error (&mirror->failure, "an event of another context failed: ");
    }

  _gpu_user_event_set (mirror->user_event, mirror->failure, NULL);
  mirror_free (mirror);
}

static void
mirror_end (gpointer      data,
            const GError *error)
{
  Mirror *mirror = data;

  if (error != NULL && !mirror->ignores_failure)
    mirror->failure = g_error_copy (error);

  _gpu_workers_defer (&workers, mirror_run, mirror);
}

static gboolean
has_user_events (GpuNativeContext *context)
{
  return context->backend->event->create_user != NULL
         && (context->devices[0]->capabilities & GPU_CAPABILITIES_USER_EVENTS) != 0;
}

gboolean
_gpu_event_can_wait (GpuEvent         *event,
                     GpuNativeContext *context)
{
  GpuUserEvent *user = _gpu_event_get_user (event);
  const GpuPoint *point = _gpu_event_get_point (event);
  GpuNativeEvent *wrapped = _gpu_event_get_wrapped (event);

  if (user != NULL)
    return user->context == context;

  if (point->timeline->context == context)
    return wrapped == NULL || !wrapped->is_user || !has_user_events (context);

  return point->timeline->context->backend == context->backend
         && context->backend->stream->foreign_events;
}

static gboolean
check_support (GpuNativeContext  *context,
               GError           **error)
{
  if (has_user_events (context))
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
               "streams of %s (%s) cannot wait for events of other drivers or contexts, because "
               "the driver has no user events; wait with gpu_event_wait() before you submit the "
               "work",
               context->devices[0]->id, context->devices[0]->name);

  return FALSE;
}

/* Ends @mirror when @event has completed or failed. */
static gboolean
end_with_event (Mirror    *mirror,
                GpuEvent  *event,
                GError   **error)
{
  GpuUserEvent *user = _gpu_event_get_user (event);
  const GpuPoint *point = _gpu_event_get_point (event);

  if (user == NULL)
    return _gpu_timeline_notify (point->timeline, point->seq, mirror_end, mirror, error);

  _gpu_user_event_notify (user, mirror_end, mirror);

  return TRUE;
}

static Mirror *
mirror_new (GpuUserEvent *user_event,
            gboolean      ignores_failure)
{
  Mirror *mirror = g_new0 (Mirror, 1);

  mirror->user_event = _gpu_user_event_ref (user_event);
  mirror->ignores_failure = ignores_failure;

  return mirror;
}

GpuUserEvent *
_gpu_event_mirror (GpuEvent          *event,
                   GpuNativeContext  *context,
                   GError           **error)
{
  g_autoptr (GpuUserEvent) user_event = NULL;
  Mirror *mirror;

  if (!check_support (context, error))
    return NULL;

  user_event = _gpu_user_event_new (context);
  mirror = mirror_new (user_event, FALSE);

  if (!end_with_event (mirror, event, error))
    {
      mirror_free (mirror);
      return NULL;
    }

  return g_steal_pointer (&user_event);
}

/* Returns a user event that completes soon after @point was reached, even if that work failed. */
static GpuUserEvent *
mirror_point (const GpuPoint  *point,
              GError         **error)
{
  g_autoptr (GpuUserEvent) user_event = _gpu_user_event_new (point->timeline->context);
  Mirror *mirror = mirror_new (user_event, TRUE);

  if (!_gpu_timeline_notify (point->timeline, point->seq, mirror_end, mirror, error))
    {
      mirror_free (mirror);
      return NULL;
    }

  return g_steal_pointer (&user_event);
}

static gboolean
may_fail (const GpuPoint *point)
{
  g_autoptr (GPtrArray) user_events = NULL;

  _gpu_timeline_lock (point->timeline);
  if (point->timeline->n_user_waits > 0)
    user_events = _gpu_timeline_list_user_events_locked (point->timeline, point->seq);
  _gpu_timeline_unlock (point->timeline);

  return user_events != NULL;
}

/* If the work waits for user events, drivers would fail @timeline, so @timeline waits for a user
 * event that the library completes after that work. */
gboolean
_gpu_timeline_follow_end (GpuTimeline     *timeline,
                          const GpuPoint  *point,
                          const char      *function,
                          GError         **error)
{
  g_autoptr (GpuUserEvent) mirror = NULL;
  GpuSubmission submission = { .function = function };

  if (may_fail (point))
    {
      mirror = mirror_point (point, error);
      submission.user_event = mirror;

      return mirror != NULL && _gpu_submit (timeline, &submission, NULL, error);
    }

  submission.after = point;
  submission.ignores_failure = TRUE;

  return _gpu_submit (timeline, &submission, NULL, error);
}
