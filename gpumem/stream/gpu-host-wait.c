/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The scope of a call that submits work and waits for it. */
#include "config.h"

#include "gpumem/stream/gpu-submission-private.h"

__thread GpuHostWait *_gpu_host_wait;

void
_gpu_host_wait_begin (GpuHostWait *wait,
                      GpuTimeline *timeline)
{
  *wait = (GpuHostWait) { .timeline = _gpu_timeline_ref (timeline), .outer = _gpu_host_wait };
  _gpu_host_wait = wait;
}

void
_gpu_host_wait_end (GpuHostWait *wait)
{
  if (wait->timeline == NULL)
    return;

  g_assert (_gpu_host_wait == wait);
  _gpu_host_wait = wait->outer;
  _gpu_timeline_unwatch (wait->timeline, &wait->work);
  g_clear_pointer (&wait->timeline, _gpu_timeline_unref);
}

void
_gpu_host_wait_add_locked (GpuTimeline *timeline,
                           guint64      seq)
{
  for (GpuHostWait *wait = _gpu_host_wait; wait != NULL; wait = wait->outer)
    {
      if (wait->timeline == timeline)
        _gpu_timeline_watch_locked (timeline, &wait->work, seq);
    }
}

/* A call may submit nothing, such as a copy of 0 bytes. It then waits for the earlier work. */
static GpuWatch
get_points (const GpuHostWait *wait)
{
  GpuWatch points = { .first = wait->work.first, .last = wait->work.last };

  if (points.last == 0)
    points.first = points.last = _gpu_timeline_get_submitted (wait->timeline);

  return points;
}

gboolean
_gpu_host_wait_block (const GpuHostWait  *wait,
                      GCancellable       *cancellable,
                      GError            **error)
{
  const GpuWatch points = get_points (wait);

  return _gpu_timeline_wait_until (wait->timeline, points.last, -1, cancellable, error)
         && _gpu_timeline_check_points (wait->timeline, points.first, points.last, error);
}

gboolean
_gpu_host_wait_notify (const GpuHostWait  *wait,
                       GpuWaiterFunc       func,
                       gpointer            data,
                       GError            **error)
{
  const GpuWatch points = get_points (wait);

  return _gpu_timeline_notify_points (wait->timeline, points.first, points.last, func, data, error);
}
