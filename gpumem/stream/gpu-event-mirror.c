/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Waits for events that the driver of a stream does not know: those of another driver, or of
 * another OpenCL context. The stream waits for a user event of its own context, the mirror, and a
 * thread of the library completes or fails the mirror when the other event has completed or failed.
 * A waiter must not set the mirror itself, because the thread that calls the waiter may hold the
 * failure lock of the context.
 */
#include "config.h"

#include "gpumem/base/gpu-latch-private.h"
#include "gpumem/base/gpu-workers-private.h"
#include "gpumem/stream/gpu-event-private.h"

static GpuWorkers workers = { .name = "gpumem-mirror" };

typedef struct
{
  GpuUserEvent *user_event;
  GpuLatch     *latch;              /* opened when the other event has completed or failed */
} Mirror;

static void
mirror_run (gpointer data)
{
  Mirror *mirror = data;
  g_autoptr (GError) failure = NULL;

  _gpu_latch_wait (mirror->latch, -1, NULL, &failure);

  /* With the code GPU_ERROR_DEVICE_LOST, the context of the stream would count as lost. */
  if (g_error_matches (failure, GPU_ERROR, GPU_ERROR_DEVICE_LOST))
    {
      failure->code = GPU_ERROR_FAILED;
      g_prefix_error (&failure, "an event of another context failed: ");
    }

  _gpu_user_event_set (mirror->user_event, failure, NULL);
  _gpu_user_event_unref (mirror->user_event);
  _gpu_latch_unref (mirror->latch);
  g_free (mirror);
}

static gboolean
check_support (GpuNativeContext  *context,
               GError           **error)
{
  if (context->backend->event->create_user != NULL
      && (context->devices[0]->capabilities & GPU_CAPABILITIES_USER_EVENTS) != 0)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
               "streams of %s (%s) cannot wait for events of other drivers or contexts, because "
               "the driver has no user events; wait with gpu_event_wait() before you submit the "
               "work",
               context->devices[0]->id, context->devices[0]->name);

  return FALSE;
}

/* Opens @latch when @event has completed or failed. */
static gboolean
open_with_event (GpuLatch  *latch,
                 GpuEvent  *event,
                 GError   **error)
{
  GpuUserEvent *user = _gpu_event_get_user (event);
  const GpuPoint *point = _gpu_event_get_point (event);
  g_autoptr (GError) failure = NULL;

  if (user != NULL)
    {
      _gpu_user_event_notify (user, _gpu_latch_open, _gpu_latch_ref (latch));
      return TRUE;
    }

  if (_gpu_timeline_notify (point->timeline, point->seq, _gpu_latch_open, _gpu_latch_ref (latch),
                            &failure))
    return TRUE;

  /* The thread already waits for the latch, and must end. */
  _gpu_latch_open (latch, failure);
  g_propagate_error (error, g_steal_pointer (&failure));

  return FALSE;
}

GpuUserEvent *
_gpu_event_mirror (GpuEvent          *event,
                   GpuNativeContext  *context,
                   GError           **error)
{
  g_autoptr (GpuUserEvent) user_event = NULL;
  g_autoptr (GpuLatch) latch = NULL;
  Mirror *mirror;

  if (!check_support (context, error))
    return NULL;

  user_event = _gpu_user_event_new (context);
  latch = _gpu_latch_new ();
  mirror = g_new (Mirror, 1);
  mirror->user_event = _gpu_user_event_ref (user_event);
  mirror->latch = _gpu_latch_ref (latch);

  /* No limit on the threads: an event may complete only after another mirror is set. */
  if (!_gpu_workers_push (&workers, G_MAXUINT, mirror_run, mirror, error))
    {
      _gpu_user_event_unref (mirror->user_event);
      _gpu_latch_unref (mirror->latch);
      g_free (mirror);
      return NULL;
    }

  return open_with_event (latch, event, error) ? g_steal_pointer (&user_event) : NULL;
}
