/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Waits for points of a timeline (see gpu-timeline-private.h). Either the calling thread waits, or
 * a job waits on behalf of registered waiters. A job runs on a thread of the library.
 *
 * A job blocks in the driver's own wait for one fence, then retires the points that the fence
 * covers and continues with the next fence that a waiter needs. So a stream occupies a thread only
 * while it has waiters or objects to release. Driver callbacks are not used, because some drivers
 * never invoke them for failed work.
 */
#include "config.h"

#include "gpumem/backend/gpu-native-context-private.h"
#include "gpumem/base/gpu-debug-private.h"
#include "gpumem/base/gpu-latch-private.h"
#include "gpumem/base/gpu-marks-private.h"
#include "gpumem/base/gpu-workers-private.h"
#include "gpumem/timeline/gpu-timeline-private.h"

static void job (gpointer data);

/* Begins a range for profilers before the calling thread blocks. */
static inline GpuMark
mark_wait (GpuTimeline *timeline)
{
  if (G_UNLIKELY ((timeline->flags & GPU_TIMELINE_MARKS) != 0))
    return _gpu_mark_begin ("wait", 0);

  return (GpuMark) { NULL, };
}

static GpuWorkers workers = { .name = "gpumem-wait" };

static gboolean
start_job_locked (GpuTimeline  *timeline,
                  GError      **error)
{
  if (_gpu_workers_push (&workers, G_MAXUINT, job, _gpu_timeline_ref (timeline), error))
    return TRUE;

  _gpu_timeline_unref (timeline);

  return FALSE;
}

static gboolean
job_waits_for_locked (GpuTimeline *timeline,
                      guint64      seq)
{
  for (guint i = 0; i < timeline->jobs->len; i++)
    {
      if (g_array_index (timeline->jobs, guint64, i) <= seq)
        return TRUE;
    }

  return FALSE;
}

/* Returns FALSE if no waiter needs a point, or another job already waits for the same point. Also
 * returns FALSE if the stream is being captured: all waiters already have fences, and the next wait
 * or collection after the capture releases the retained objects.
 *
 * Sets @seq to the point to wait for, and @fence to its fence. If no fence could be recorded, sets
 * @fence to NULL, and @drained to whether all work has completed, with @failure if work failed. */
static gboolean
job_begin_locked (GpuTimeline  *timeline,
                  guint64      *seq,
                  GpuFence    **fence,
                  gboolean     *drained,
                  GError      **failure)
{
  g_autoptr (GError) error = NULL;

  *seq = _gpu_timeline_get_needed_locked (timeline);

  if (*seq == 0)
    return FALSE;

  *fence = _gpu_timeline_get_fence_locked (timeline, *seq, &error);

  if (*fence == NULL && _gpu_timeline_is_capturing_locked (timeline))
    {
      timeline->collect_to = timeline->completed;
      return FALSE;
    }

  *seq = *fence != NULL ? (*fence)->seq : timeline->submitted;
  *drained = *fence == NULL && _gpu_timeline_drain_locked (timeline, failure);

  for (guint i = 0; i < timeline->jobs->len; i++)
    {
      if (g_array_index (timeline->jobs, guint64, i) == *seq)
        return FALSE;
    }

  g_array_append_val (timeline->jobs, *seq);

  return TRUE;
}

static gboolean
job_begin (GpuTimeline  *timeline,
           guint64      *seq,
           GpuFence    **fence,
           gboolean     *drained,
           GError      **failure)
{
  gboolean has_failure_lock = _gpu_timeline_lock_against_failure (timeline);
  gboolean success = job_begin_locked (timeline, seq, fence, drained, failure);

  _gpu_timeline_unlock_against_failure (timeline, has_failure_lock);

  if (!success)
    g_clear_pointer (fence, _gpu_fence_unref);

  return success;
}

/* Returns whether a wait must also wait for earlier fences. When a user event fails, PoCL
 * immediately fails the work that waits for the event, even if earlier work of the queue is still
 * running. Such earlier work has its own fence. Needs no lock: a user event that may have failed
 * the work was added before the wait began. */
static inline gboolean
needs_earlier_fences (GpuTimeline *timeline,
                      gboolean     failed)
{
  return failed || g_atomic_int_get (&timeline->n_user_waits) > 0;
}

/* (transfer full) (nullable): gets the first fence before @seq. */
static GpuFence *
get_earlier_fence (GpuTimeline *timeline,
                   guint64      seq)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&timeline->lock);
  GpuFence *fence = g_queue_peek_head (&timeline->fences);

  if (fence == NULL || fence->seq >= seq)
    return NULL;

  return _gpu_fence_ref (fence);
}

static inline void
retire_fences (GpuTimeline *timeline,
               guint64      before,
               gboolean     failed)
{
  GpuFence *fence;

  while (G_UNLIKELY (needs_earlier_fences (timeline, failed))
         && (fence = get_earlier_fence (timeline, before)) != NULL)
    {
      g_autoptr (GError) failure = NULL;

      timeline->context->backend->event->wait (fence->event, FALSE, &failure);
      _gpu_timeline_retire (timeline, fence->seq, failure);
      _gpu_fence_unref (fence);
    }
}

static void
retire (GpuTimeline  *timeline,
        guint64       seq,
        const GError *failure)
{
  retire_fences (timeline, seq, failure != NULL);
  _gpu_timeline_retire (timeline, seq, failure);
}

/* Called after the driver has completed all work of the stream up to @seq. Retires that work fence
 * by fence, because each fence has the error of the work before the fence. */
static void
retire_finished (GpuTimeline *timeline,
                 guint64      seq)
{
  retire_fences (timeline, seq + 1, TRUE);
  _gpu_timeline_retire (timeline, seq, NULL);
}

static void
job (gpointer data)
{
  g_autoptr (GpuTimeline) timeline = data;
  const GpuBackend *backend = timeline->context->backend;
  g_autoptr (GpuFence) fence = NULL;
  g_autoptr (GError) failure = NULL;
  gboolean drained;
  guint64 seq;

  while (job_begin (timeline, &seq, &fence, &drained, &failure))
    {
      /* Without the lock, because this wait may need the program. The stream exists meanwhile:
       * take_stream_locked() frees none that has jobs, and the program cannot destroy it. If it is
       * borrowed, it has waits for user events (see _gpu_timeline_drain_locked()), so it is of
       * OpenCL, whose wrap() retains the queue. */
      if (fence != NULL)
        backend->event->wait (fence->event, FALSE, &failure);
      else if (!drained)
        backend->stream->finish (timeline->stream, &failure);

      if (fence == NULL && failure == NULL)
        retire_finished (timeline, seq);
      else
        retire (timeline, seq, failure);

      _gpu_timeline_job_end (timeline, seq);
      g_clear_pointer (&fence, _gpu_fence_unref);
      g_clear_error (&failure);
    }
}

gboolean
_gpu_pending_wait_for_event (GpuPending   *pending,
                             GpuTimeline  *timeline,
                             GError      **error)
{
  g_autoptr (GpuNativeEvent) event = g_steal_pointer (&pending->event);
  g_autoptr (GError) failure = NULL;
  g_auto (GpuMark) mark = mark_wait (timeline);

  event->backend->event->wait (event, TRUE, &failure);
  retire (timeline, pending->covers, failure);

  if (!_gpu_timeline_check (timeline, pending->covers, error)
      || !_gpu_timeline_check_operation (timeline, pending->seq, error))
    return FALSE;

  if (failure == NULL)
    return TRUE;

  g_propagate_error (error, g_steal_pointer (&failure));

  return FALSE;
}

/* Like _gpu_timeline_get_fence(), but reports a failure to the context. Caller holds no lock. */
static gboolean
get_fence (GpuTimeline  *timeline,
           guint64       seq,
           GpuFence    **fence,
           GError      **error)
{
  GError *failure = NULL;

  if ((_gpu_timeline_is_complete (timeline, seq) || _gpu_backend_check_process (&failure))
      && _gpu_timeline_get_fence (timeline, seq, fence, &failure))
    return TRUE;

  _gpu_native_context_report (timeline->context, failure);
  g_propagate_error (error, failure);

  return FALSE;
}

/* Returns FALSE if the stream was freed or is being captured. Also returns FALSE in a forked
 * process, because another thread of the parent may have held a lock during the fork. Sets @drained
 * to whether all work has completed, with @failure if work failed. */
static gboolean
begin_finish (GpuTimeline  *timeline,
              guint64      *submitted,
              gboolean     *drained,
              GError      **failure)
{
  g_autoptr (GMutexLocker) locker = NULL;

  if (!_gpu_backend_check_process (NULL))
    return FALSE;

  locker = g_mutex_locker_new (&timeline->lock);

  if (_gpu_timeline_is_capturing_locked (timeline)
      || !_gpu_timeline_begin_finish_locked (timeline, submitted))
    return FALSE;

  *drained = _gpu_timeline_drain_locked (timeline, failure);

  return TRUE;
}

/* Waits for all work in the stream. Called if no fence could be recorded. Without this wait, the
 * caller could free memory that the device still uses. */
static gboolean
finish (GpuTimeline *timeline)
{
  g_autoptr (GError) failure = NULL;
  guint64 submitted;
  gboolean drained, success;

  if (!begin_finish (timeline, &submitted, &drained, &failure))
    return FALSE;

  success = drained ? failure == NULL
                    : timeline->context->backend->stream->finish (timeline->stream, NULL);

  if (success)
    retire_fences (timeline, submitted + 1, TRUE);

  _gpu_timeline_end_finish (timeline, success ? submitted : 0, NULL);

  return success;
}

/* Returns FALSE in these cases: the point is reached; a fence for the point exists; user events may
 * fail the work; the stream is out of order or has no users; the program may destroy the stream
 * during the wait; the stream is being captured. */
static gboolean
begin_wait (GpuTimeline *timeline,
            guint64      seq,
            guint64     *submitted)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&timeline->lock);
  const GpuFence *newest = g_queue_peek_tail (&timeline->fences);

  if (timeline->completed >= seq || (newest != NULL && newest->seq >= seq)
      || timeline->n_user_waits > 0 || (timeline->flags & GPU_STREAM_FLAGS_OUT_OF_ORDER) != 0
      || timeline->is_borrowed || g_atomic_int_get (&timeline->users) == 0
      || _gpu_timeline_is_capturing_locked (timeline))
    return FALSE;

  return _gpu_timeline_begin_finish_locked (timeline, submitted);
}

/* Waits for all submitted work without recording a fence. Returns FALSE without waiting if the
 * driver or the stream does not allow this. */
static gboolean
wait_for_queue (GpuTimeline *timeline,
                guint64      seq)
{
  const GpuStreamOps *ops = timeline->context->backend->stream;
  g_autoptr (GError) failure = NULL;
  g_auto (GpuMark) mark = { NULL, };
  guint64 submitted;

  if (!ops->finish_reports_failure || g_atomic_int_get (&_gpu_forked)
      || !begin_wait (timeline, seq, &submitted))
    return FALSE;

  mark = mark_wait (timeline);
  ops->finish (timeline->stream, &failure);
  retire_fences (timeline, submitted, failure != NULL);
  _gpu_timeline_end_finish (timeline, submitted, failure);

  return TRUE;
}

GPU_HOT gboolean
_gpu_timeline_wait (GpuTimeline  *timeline,
                    guint64       seq,
                    GError      **error)
{
  g_autoptr (GpuFence) fence = NULL;
  g_autoptr (GError) failure = NULL;

  if (wait_for_queue (timeline, seq))
    return _gpu_timeline_check (timeline, seq, error);

  if (!get_fence (timeline, seq, &fence, &failure))
    {
      if (finish (timeline) || _gpu_timeline_is_complete (timeline, seq))
        return _gpu_timeline_check (timeline, seq, error);

      g_propagate_error (error, g_steal_pointer (&failure));
      return FALSE;
    }

  if (fence != NULL)
    {
      g_auto (GpuMark) mark = mark_wait (timeline);

      timeline->context->backend->event->wait (fence->event, TRUE, &failure);
      retire (timeline, fence->seq, failure);
    }

  return _gpu_timeline_check (timeline, seq, error);
}

gboolean
_gpu_timeline_synchronize (GpuTimeline  *timeline,
                           GError      **error)
{
  const guint64 seq = _gpu_timeline_get_last_point (timeline);
  GError *failure = NULL;

  if (_gpu_timeline_wait (timeline, seq, &failure))
    return TRUE;

  if (!_gpu_timeline_check (timeline, seq, NULL))
    {
      if (g_atomic_int_get (&timeline->users) == 0
          && __atomic_exchange_n (&timeline->reported, seq, __ATOMIC_RELAXED) == seq)
        {
          g_error_free (failure);
          return TRUE;
        }

      g_prefix_error (&failure, "the last work of a stream failed: ");
    }

  g_propagate_error (error, failure);

  return FALSE;
}

static gboolean
wait_for_latch (GpuTimeline   *timeline,
                GpuLatch      *latch,
                gint64         deadline,
                GCancellable  *cancellable,
                GError       **error)
{
  g_auto (GpuMark) mark = mark_wait (timeline);

  return _gpu_latch_wait (latch, deadline, cancellable, error);
}

/* Returns TRUE if a wait for the work ends at once. The worker thread that wakes other waiting
 * threads sleeps in the driver, which may take 0.5 ms to wake it. Polls each fence once: bindings
 * divide long waits into short ones, so that they can handle signals. */
static gboolean
poll_fence (GpuTimeline *timeline,
            guint64      seq,
            gint64       deadline)
{
  const GpuEventOps *ops = timeline->context->backend->event;
  g_autoptr (GpuFence) fence = NULL;
  g_auto (GpuMark) mark = { NULL, };

  if (ops->poll == NULL || !_gpu_backend_check_process (NULL)
      || !_gpu_timeline_get_fence (timeline, seq, &fence, NULL))
    return FALSE;

  if (fence == NULL)
    return TRUE;

  if (g_atomic_int_exchange (&fence->is_polled, TRUE))
    return FALSE;

  mark = mark_wait (timeline);

  return ops->poll (fence->event, deadline);
}

GPU_HOT gboolean
_gpu_timeline_wait_until (GpuTimeline   *timeline,
                          guint64        seq,
                          gint64         deadline,
                          GCancellable  *cancellable,
                          GError       **error)
{
  g_autoptr (GpuLatch) latch = NULL;

  if (g_cancellable_set_error_if_cancelled (cancellable, error))
    return FALSE;

  if (cancellable == NULL && (deadline < 0 || poll_fence (timeline, seq, deadline)))
    return _gpu_timeline_wait (timeline, seq, error);

  latch = _gpu_latch_new ();

  if (!_gpu_timeline_notify (timeline, seq, _gpu_latch_open, _gpu_latch_ref (latch), error))
    {
      _gpu_latch_unref (latch);
      return FALSE;
    }

  if (wait_for_latch (timeline, latch, deadline, cancellable, error))
    return TRUE;

  if (_gpu_timeline_remove_waiter (timeline, _gpu_latch_open, latch))
    _gpu_latch_unref (latch);

  return FALSE;
}

gboolean
_gpu_pending_wait_until (GpuPending    *pending,
                         GpuTimeline   *timeline,
                         GCancellable  *cancellable,
                         GError       **error)
{
  g_autoptr (GpuTimeline) operation = NULL;

  if (cancellable == NULL || pending->event == NULL)
    return _gpu_pending_wait (pending, timeline, error);

  operation = _gpu_timeline_new_for_event (timeline->context,
                                           _gpu_native_event_ref (pending->event));

  if (_gpu_timeline_wait_until (operation, 1, -1, cancellable, NULL)
      || !g_cancellable_set_error_if_cancelled (cancellable, error))
    return _gpu_pending_wait (pending, timeline, error);

  /* PoCL aborts if an event is released while PoCL fails that event. */
  _gpu_timeline_defer_until_complete (timeline, g_steal_pointer (&pending->event),
                                      (GDestroyNotify) _gpu_native_event_unref, 0);

  return FALSE;
}

/* Queries @fence. Like retire(), returns COMPLETE or FAILED only if all earlier work has
 * completed. */
static GpuEventStatus
query_fence (GpuTimeline  *timeline,
             GpuFence     *fence,
             GError      **error)
{
  const GpuEventOps *ops = timeline->context->backend->event;
  GpuEventStatus status = ops->query (fence->event, error);
  GpuFence *earlier;

  while (status != GPU_EVENT_STATUS_PENDING
         && needs_earlier_fences (timeline, status == GPU_EVENT_STATUS_FAILED)
         && (earlier = get_earlier_fence (timeline, fence->seq)) != NULL)
    {
      g_autoptr (GError) failure = NULL;

      if (ops->query (earlier->event, &failure) == GPU_EVENT_STATUS_PENDING)
        {
          g_clear_error (error);
          if (failure != NULL)
            g_propagate_error (error, g_steal_pointer (&failure));
          status = GPU_EVENT_STATUS_PENDING;
        }
      else
        _gpu_timeline_retire (timeline, earlier->seq, failure);

      _gpu_fence_unref (earlier);
    }

  return status;
}

GpuEventStatus
_gpu_timeline_query (GpuTimeline  *timeline,
                     guint64       seq,
                     GError      **error)
{
  return _gpu_timeline_query_points (timeline, seq, seq, error);
}

GpuEventStatus
_gpu_timeline_query_points (GpuTimeline  *timeline,
                            guint64       first,
                            guint64       last,
                            GError      **error)
{
  g_autoptr (GpuFence) fence = NULL;

  if (!get_fence (timeline, last, &fence, error))
    return g_atomic_int_get (&timeline->context->lost) ? GPU_EVENT_STATUS_FAILED
                                                       : GPU_EVENT_STATUS_PENDING;

  if (fence != NULL)
    {
      g_autoptr (GError) failure = NULL;
      GpuEventStatus status;

      status = query_fence (timeline, fence, &failure);

      if (status == GPU_EVENT_STATUS_PENDING)
        {
          if (failure != NULL)
            g_propagate_error (error, g_steal_pointer (&failure));
          return status;
        }

      _gpu_timeline_retire (timeline, fence->seq, failure);
    }

  return _gpu_timeline_check_points (timeline, first, last, error) ? GPU_EVENT_STATUS_COMPLETE
                                                                   : GPU_EVENT_STATUS_FAILED;
}

static gboolean
add_waiter_locked (GpuTimeline    *timeline,
                   guint64         first,
                   guint64         last,
                   GpuWaiterFunc   func,
                   gpointer        data,
                   GError        **error)
{
  g_autoptr (GpuFence) fence = _gpu_timeline_get_fence_locked (timeline, last, error);

  if (fence == NULL
      || (!job_waits_for_locked (timeline, fence->seq) && !start_job_locked (timeline, error)))
    return FALSE;

  /* It is safe to add the waiter after the job is started: the job looks for waiters only with the
   * lock, which this thread holds. */
  _gpu_timeline_add_waiter_locked (timeline, first, last, func, data);

  return TRUE;
}

/* Adds a waiter. If the points are already reached, sets @reached instead. */
static gboolean
add_waiter (GpuTimeline    *timeline,
            guint64         first,
            guint64         last,
            GpuWaiterFunc   func,
            gpointer        data,
            gboolean       *reached,
            GError        **error)
{
  gboolean has_failure_lock = _gpu_timeline_lock_against_failure (timeline);
  gboolean success;

  *reached = timeline->completed >= last;
  success = *reached || add_waiter_locked (timeline, first, last, func, data, error);
  _gpu_timeline_unlock_against_failure (timeline, has_failure_lock);

  return success;
}

gboolean
_gpu_timeline_notify (GpuTimeline    *timeline,
                      guint64         seq,
                      GpuWaiterFunc   func,
                      gpointer        data,
                      GError        **error)
{
  return _gpu_timeline_notify_points (timeline, seq, seq, func, data, error);
}

gboolean
_gpu_timeline_notify_points (GpuTimeline    *timeline,
                             guint64         first,
                             guint64         last,
                             GpuWaiterFunc   func,
                             gpointer        data,
                             GError        **error)
{
  g_autoptr (GError) failure = NULL;
  gboolean reached = _gpu_timeline_is_complete (timeline, last);

  if (!reached && (!_gpu_backend_check_process (&failure)
                || !add_waiter (timeline, first, last, func, data, &reached, &failure)))
    {
      _gpu_native_context_report (timeline->context, failure);
      g_propagate_error (error, g_steal_pointer (&failure));

      return FALSE;
    }

  if (reached)
    {
      _gpu_timeline_check_points (timeline, first, last, &failure);
      func (data, failure);
    }

  return TRUE;
}

void
_gpu_timeline_run_later (GDestroyNotify func,
                         gpointer       data)
{
  _gpu_workers_defer (&workers, func, data);
}

void
_gpu_timeline_collect_locked (GpuTimeline *timeline)
{
  gboolean pending = timeline->collect_to > timeline->completed;

  timeline->collect_to = timeline->submitted;

  if (!pending && timeline->collect_to > timeline->completed)
    _gpu_workers_defer (&workers, job, _gpu_timeline_ref (timeline));
  else
    _gpu_workers_retry (&workers);
}

static gboolean
can_retire_now (GpuTimeline *timeline)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&timeline->lock);

  return timeline->collect_to <= timeline->completed && timeline->n_user_waits == 0
         && !timeline->is_borrowed && timeline->stream != NULL;
}

gboolean
_gpu_timeline_try_retire (GpuTimeline *timeline,
                          guint64      seq)
{
  /* On a back end with captures, a query may record a fence, and a fence on the legacy default
   * stream invalidates captures of blocking streams. */
  return timeline->context->backend->stream->set_capture_rule == NULL
         && !g_atomic_int_get (&_gpu_forked) && !g_atomic_int_get (&timeline->context->lost)
         && can_retire_now (timeline)
         && _gpu_timeline_query (timeline, seq, NULL) != GPU_EVENT_STATUS_PENDING;
}

void
_gpu_timeline_defer_until_complete (GpuTimeline    *timeline,
                                    gpointer        object,
                                    GDestroyNotify  release,
                                    gsize           size)
{
  g_mutex_lock (&timeline->lock);

  if (timeline->completed == timeline->submitted)
    {
      g_mutex_unlock (&timeline->lock);
      release (object);
      return;
    }

  _gpu_timeline_retain_locked (timeline, object, release, size);
  _gpu_timeline_collect_locked (timeline);
  g_mutex_unlock (&timeline->lock);
}
