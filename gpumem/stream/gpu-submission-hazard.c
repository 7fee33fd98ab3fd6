/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Hazards: collects the earlier work that a submission must follow, and enqueues waits for that
 * work. */
#include "config.h"

#include "gpumem/base/gpu-debug-private.h"
#include "gpumem/device/gpu-context-private.h"
#include "gpumem/stream/gpu-submission-hazard-private.h"
#include "gpumem/timeline/gpu-user-event-private.h"

static void
wait_clear (gpointer data)
{
  GpuFenceWait *wait = data;

  _gpu_fence_unref (wait->fence);
  g_clear_pointer (&wait->user_events, g_ptr_array_unref);
  g_clear_pointer (&wait->cross, g_ptr_array_unref);
}

static GpuFenceWait *
get_wait (GpuSubmitter *s,
          guint         i)
{
  return &g_array_index (s->waits, GpuFenceWait, i);
}

static gboolean
has_fence (GpuSubmitter *s,
           GpuFence     *fence)
{
  for (guint i = 0; i < s->waits->len; i++)
    {
      if (get_wait (s, i)->fence == fence)
        return TRUE;
    }

  return FALSE;
}

/* Makes the submission wait for @fence, which the user events in @user_events may fail. */
static void
append_wait_locked (GpuSubmitter *s,
                    GpuTimeline  *timeline,
                    GpuFence     *fence,
                    GPtrArray    *user_events,
                    guint64       capture,
                    gboolean      is_asked)
{
  const GpuFenceWait wait = {
    .fence = _gpu_fence_ref (fence),
    .context = timeline->context,
    .user_events = user_events != NULL ? g_ptr_array_ref (user_events) : NULL,
    .cross = s->submission->ignores_failure ? NULL
             : _gpu_timeline_list_cross_driver_locked (timeline, fence->seq, &s->has_dropped),
    .capture = capture,
    .is_asked = is_asked,
  };

  g_array_append_val (s->waits, wait);
  s->may_fail = s->may_fail || user_events != NULL;
}

static gboolean
has_failed_event (GPtrArray *user_events)
{
  for (guint i = 0; i < user_events->len; i++)
    {
      if (_gpu_user_event_query (user_events->pdata[i], NULL) == GPU_EVENT_STATUS_FAILED)
        return TRUE;
    }

  return FALSE;
}

/* If a user event fails, @fence may complete before earlier work has completed, so the stream must
 * also wait for the earlier fences. Each user event that may fail an earlier fence may also fail
 * @fence, so it is in @user_events, the list of @fence. While no event has failed, the waits share
 * this list. After a failure, a list for each fence shows which fences the event has failed. */
static void
add_unordered_locked (GpuSubmitter *s,
                      GpuTimeline  *timeline,
                      GpuFence     *fence,
                      GPtrArray    *user_events)
{
  const gboolean is_shared = !has_failed_event (user_events);

  for (GList *l = timeline->fences.head; l != NULL; l = l->next)
    {
      GpuFence *earlier = l->data;
      g_autoptr (GPtrArray) own = NULL;

      if (earlier->seq >= fence->seq || has_fence (s, earlier))
        continue;

      if (!is_shared)
        own = _gpu_timeline_list_user_events_locked (timeline, earlier->seq);

      append_wait_locked (s, timeline, earlier, is_shared ? user_events : own, 0, FALSE);
    }
}

/* Makes the submission wait for @fence, unless it already does. */
static void
add_wait_locked (GpuSubmitter *s,
                 GpuTimeline  *timeline,
                 GpuFence     *fence,
                 guint64       capture,
                 gboolean      is_asked)
{
  g_autoptr (GPtrArray) user_events = NULL;

  if (s->waits == NULL)
    {
      s->waits = g_array_new (FALSE, FALSE, sizeof (GpuFenceWait));
      g_array_set_clear_func (s->waits, wait_clear);
    }

  if (is_asked)
    {
      s->causes = _gpu_timeline_list_causes_locked (timeline, s->submission->after->seq,
                                                    FALSE);
      s->may_fail = s->may_fail || s->causes != NULL;
    }

  if (has_fence (s, fence))
    return;

  user_events = _gpu_timeline_list_user_events_locked (timeline, fence->seq);
  append_wait_locked (s, timeline, fence, user_events, capture, is_asked);

  if (user_events != NULL)
    add_unordered_locked (s, timeline, fence, user_events);
}

/* Captured work cannot wait for a fence, and a new fence is pending for a moment even behind
 * completed work. So if the point has no fence, queries the stream instead. Returns FALSE with an
 * error if the work has failed, or if the driver must not be asked. */
static gboolean
query_outside_locked (const GpuPoint  *point,
                      gboolean        *is_complete,
                      GError         **error)
{
  GpuTimeline *timeline = point->timeline;
  GpuEventStatus status;

  if (timeline->stream == NULL || timeline->is_ended
      || _gpu_timeline_has_fence_locked (timeline, point->seq)
      || _gpu_timeline_is_capturing_locked (timeline))
    return TRUE;

  status = timeline->context->backend->stream->query (timeline->stream, error);
  *is_complete = status == GPU_EVENT_STATUS_COMPLETE;

  return status != GPU_EVENT_STATUS_FAILED;
}

static gboolean
add_fence_locked (GpuSubmitter    *s,
                  const GpuPoint  *point,
                  GError         **error)
{
  GpuTimeline *timeline = point->timeline;
  g_autoptr (GpuFence) fence = NULL;
  gboolean is_complete = timeline->completed >= point->seq;
  guint64 capture;

  if (!is_complete && s->capture != 0 && !query_outside_locked (point, &is_complete, error))
    return FALSE;

  if (is_complete)
    return TRUE;

  fence = _gpu_timeline_get_stream_fence_locked (timeline, point->seq, &capture, &s->captured,
                                                 error);

  if (fence == NULL)
    return FALSE;

  /* The capture may have begun after the search. */
  if (s->capture == 0)
    s->capture = capture;

  add_wait_locked (s, timeline, fence, capture,
                   point == s->submission->after && !s->submission->ignores_failure);

  return TRUE;
}

static gboolean
is_loss (const GError *failure)
{
  return g_error_matches (failure, GPU_ERROR, GPU_ERROR_DEVICE_LOST);
}

static gboolean
uses_context (const GpuSubmission *submission,
              GpuNativeContext    *context)
{
  for (guint i = 0; i < submission->n_accesses; i++)
    {
      if (submission->accesses[i].storage->context == context)
        return TRUE;
    }

  return FALSE;
}

static void
note_lost (GpuSubmitter     *s,
           GpuNativeContext *context,
           const GError     *failure)
{
  if (s->lost != NULL)
    return;

  s->lost = _gpu_native_context_ref (context);
  s->loss = g_error_copy (failure);
}

/* Skips a wait for work of a lost context, because that work has ended. Fails if the submission
 * uses memory of that context or is gpu_stream_wait_event(). Takes ownership of @failure. */
static gboolean
skip_lost (GpuSubmitter      *s,
           GpuNativeContext  *context,
           GError            *failure,
           GError           **error)
{
  note_lost (s, context, failure);

  if (s->submission->after == NULL && !uses_context (s->submission, context))
    {
      g_error_free (failure);
      return TRUE;
    }

  s->is_others = TRUE;
  g_propagate_error (error, failure);

  return FALSE;
}

/* Snapshots the fence and its user events atomically: a failed fence no longer lists them. */
static gboolean
add_fence (GpuSubmitter    *s,
           const GpuPoint  *point,
           GError         **error)
{
  GpuNativeContext *context = point->timeline->context;
  gboolean has_failure_lock;
  gboolean success;
  GError *failure = NULL;

  has_failure_lock = _gpu_timeline_lock_against_failure (point->timeline);
  success = add_fence_locked (s, point, &failure);
  _gpu_timeline_unlock_against_failure (point->timeline, has_failure_lock);

  if (success)
    return TRUE;

  if (context != s->timeline->context && is_loss (failure))
    return skip_lost (s, context, failure, error);

  g_propagate_error (error, failure);

  return FALSE;
}

/* Finds the capture that the submission takes part in, or joins because it follows @point. */
static void
search_capture (GpuSubmitter   *s,
                const GpuPoint *point)
{
  if (!s->has_others)
    s->capture = _gpu_timeline_get_capture (s->timeline);

  s->has_others = TRUE;

  if (s->capture == 0)
    s->capture = _gpu_timeline_get_capture_of (point->timeline, point->seq);
}

/* A use on the same stream needs no wait, only a barrier if the stream is out of order. */
static inline gboolean
add_wait (GpuSubmitter    *s,
          const GpuPoint  *point,
          GError         **error)
{
  if (point->timeline == s->timeline)
    {
      s->own = MAX (s->own, point->seq);
      return TRUE;
    }

  if (!_gpu_point_is_pending (point))
    return TRUE;

  if (!s->is_searching)
    return add_fence (s, point, error);

  search_capture (s, point);

  return TRUE;
}

static void
follow_point (GpuSubmitter   *s,
              const GpuPoint *point)
{
  if (point->timeline == s->timeline)
    s->own = MAX (s->own, point->seq);
}

/* On an out-of-order stream, an unmap must not overtake the map operation. The unmap must therefore
 * also wait for reads: map operations for reading, and all map operations of untracked memory, are
 * recorded as reads. */
static void
follow_mapping_locked (GpuSubmitter *s,
                       GpuStorage   *root)
{
  follow_point (s, &root->reader);

  for (guint i = 0; root->readers != NULL && i < root->readers->len; i++)
    follow_point (s, &g_array_index (root->readers, GpuPoint, i));
}

static gboolean
add_waits_locked (GpuSubmitter     *s,
                  const GpuAccess  *access,
                  GError          **error)
{
  GpuStorage *root = access->storage->root;
  const gboolean is_untracked = (root->flags & GPU_MEMORY_FLAGS_UNTRACKED) != 0;

  if (access->memory == NULL && (is_untracked || !access->write))
    follow_mapping_locked (s, root);

  if (is_untracked)
    return TRUE;

  if (!add_wait (s, &root->writer, error))
    return FALSE;

  if (!access->write)
    return TRUE;

  if (!add_wait (s, &root->reader, error))
    return FALSE;

  for (guint i = 0; root->readers != NULL && i < root->readers->len; i++)
    {
      if (!add_wait (s, &g_array_index (root->readers, GpuPoint, i), error))
        return FALSE;
    }

  return TRUE;
}

/* Adds the wait that the caller requested. Returns FALSE if the work that the caller waits for has
 * already failed. */
static gboolean
add_asked (GpuSubmitter    *s,
           const GpuPoint  *point,
           GError         **error)
{
  if (!add_wait (s, point, error))
    return FALSE;

  if (s->submission->ignores_failure)
    return TRUE;

  if (_gpu_point_is_pending (point)
      ? _gpu_timeline_check_cross_driver (point->timeline, point->seq, error)
      : _gpu_timeline_check (point->timeline, point->seq, error))
    return TRUE;

  s->is_others = TRUE;

  return FALSE;
}

static gboolean
add_all_waits_locked (GpuSubmitter  *s,
                      GError       **error)
{
  const GpuSubmission *submission = s->submission;

  for (guint i = 0; i < submission->n_accesses; i++)
    {
      if (!add_waits_locked (s, &submission->accesses[i], error))
        return FALSE;
    }

  return TRUE;
}

/* If streams may be captured, first finds the capture: it decides how the other work is
 * collected. */
gboolean
_gpu_submitter_collect_locked (GpuSubmitter  *s,
                               GError       **error)
{
  const GpuPoint *after = s->submission->after;

  s->is_searching = g_atomic_int_get (&_gpu_may_capture);

  if (s->is_searching)
    {
      add_all_waits_locked (s, NULL);

      if (after != NULL)
        add_wait (s, after, NULL);
    }

  s->is_searching = FALSE;

  return add_all_waits_locked (s, error) && (after == NULL || add_asked (s, after, error));
}

/* Propagates the error of the failed user event, which is the cause. If no user event failed,
 * propagates @failure, the driver's error. Takes ownership of @failure. */
static void
propagate_cause (const GpuFenceWait  *wait,
                 GError              *failure,
                 GError             **error)
{
  for (guint i = 0; wait->user_events != NULL && i < wait->user_events->len; i++)
    {
      g_autoptr (GError) cause = NULL;

      if (_gpu_user_event_query (wait->user_events->pdata[i], &cause) == GPU_EVENT_STATUS_FAILED)
        {
          g_error_free (failure);
          failure = g_steal_pointer (&cause);
          break;
        }
    }

  g_propagate_error (error, failure);
}

/* Takes ownership of @failure. */
static gboolean
drop_wait (GpuSubmitter        *s,
           const GpuFenceWait  *wait,
           GError              *failure,
           GError             **error)
{
  if (wait->context != s->timeline->context && is_loss (failure))
    return skip_lost (s, wait->context, failure, error);

  if (wait->is_asked)
    {
      propagate_cause (wait, failure, error);
      return FALSE;
    }

  g_error_free (failure);
  s->has_dropped = TRUE;

  return TRUE;
}

gboolean
_gpu_submission_check_writers (const GpuSubmission  *submission,
                               GError              **error)
{
  for (guint i = 0; i < submission->n_accesses; i++)
    {
      const GpuAccess *access = &submission->accesses[i];
      GpuPoint writer = { NULL, 0 };
      gboolean success;

      if (access->memory == NULL || (access->write && !access->is_promoted && !submission->reads)
          || !_gpu_storage_get_writer (access->storage->root, &writer))
        continue;

      success = _gpu_point_is_pending (&writer)
                ? _gpu_timeline_check_pending (writer.timeline, writer.seq, error)
                : _gpu_timeline_check (writer.timeline, writer.seq, error);
      _gpu_point_clear (&writer);

      if (!success)
        {
          g_autofree char *what = _gpu_memory_describe (access->memory);
          gboolean is_part = access->storage != access->storage->root;

          g_prefix_error (error, "%s: the last write of the %s%s failed: ", submission->function,
                          is_part ? "memory that contains the " : "", what);
          return FALSE;
        }
    }

  return TRUE;
}

/* Returns FALSE with an error if a user event on which the point `submission->after` depends has
 * failed. Some drivers run the work after a failed event and report no failure. */
static gboolean
check_causes (GpuSubmitter  *s,
              GError       **error)
{
  for (guint i = 0; s->causes != NULL && i < s->causes->len; i++)
    {
      if (_gpu_user_event_query (s->causes->pdata[i], error) == GPU_EVENT_STATUS_FAILED)
        return FALSE;
    }

  return TRUE;
}

gboolean
_gpu_submitter_drop_failed (GpuSubmitter  *s,
                            GError       **error)
{
  const GpuEventOps *ops = s->timeline->context->backend->event;

  if (!check_causes (s, error))
    return FALSE;

  for (guint i = s->waits->len; i > 0; i--)
    {
      const GpuFenceWait *wait = get_wait (s, i - 1);
      g_autoptr (GError) failure = NULL;

      /* A query of an event of a capture would invalidate the capture. */
      if (wait->capture != 0
          || ops->query (wait->fence->event, &failure) != GPU_EVENT_STATUS_FAILED)
        continue;

      if (!drop_wait (s, wait, g_steal_pointer (&failure), error))
        return FALSE;

      g_array_remove_index_fast (s->waits, i - 1);
    }

  return TRUE;
}

static gboolean
fail_outside_locked (GpuSubmitter  *s,
                     GError       **error)
{
  GpuTimeline *timeline = s->timeline;

  g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
               "a graph into which stream 0x%" G_GINT64_MODIFIER "x is being captured cannot wait "
               "for pending work that does not belong to the graph; wait for that work before the "
               "capture",
               s->captured != 0 ? s->captured
               : timeline->context->backend->stream->get_handle (timeline->stream));

  return FALSE;
}

gboolean
_gpu_submitter_isolate_locked (GpuSubmitter  *s,
                               GError       **error)
{
  const GpuEventOps *ops = s->timeline->context->backend->event;

  if (s->capture == 0)
    return TRUE;

  for (guint i = s->waits != NULL ? s->waits->len : 0; i > 0; i--)
    {
      const GpuFenceWait *wait = get_wait (s, i - 1);
      g_autoptr (GError) failure = NULL;

      if (wait->capture == s->capture)
        continue;

      if (wait->capture != 0
          || ops->query (wait->fence->event, &failure) == GPU_EVENT_STATUS_PENDING)
        return fail_outside_locked (s, error);

      if (failure != NULL && !drop_wait (s, wait, g_steal_pointer (&failure), error))
        return FALSE;

      g_array_remove_index_fast (s->waits, i - 1);
    }

  return TRUE;
}

/* After a failure, some drivers fail the dependent work a little later, on their own thread, and
 * meanwhile refuse waits for the failed event. Retry at most N_REFUSED times, with pauses of
 * REFUSED_PAUSE microseconds. */
#define N_REFUSED 100
#define REFUSED_PAUSE 100

/* Returns whether the driver refused to enqueue a wait because the work to wait for has failed. */
static gboolean
is_refused (const GError *failure)
{
  return g_error_matches (failure, GPU_ERROR, GPU_ERROR_FAILED);
}

/* Records a fence before the stream waits for a user event or joins a capture. Without this fence,
 * waiters for earlier work would also wait for the user event, or join the capture. */
static gboolean
fence_off_locked (GpuTimeline  *timeline,
                  GError      **error)
{
  g_autoptr (GpuFence) fence = NULL;

  if (timeline->completed == timeline->submitted)
    return TRUE;

  fence = _gpu_timeline_get_fence_locked (timeline, timeline->submitted, error);

  return fence != NULL;
}

/* Enqueues a wait. May set @event even if it fails. */
static gboolean
enqueue_wait_locked (GpuTimeline            *timeline,
                     GpuNativeEvent *const  *events,
                     guint                   n_events,
                     GpuNativeEvent        **event,
                     GError                **error)
{
  if (timeline->context->backend->stream->wait (timeline->stream, events, n_events, event, error))
    return TRUE;

  /* The driver may have enqueued a part of the wait. PoCL then ignores the previous barrier, so
   * that barrier no longer orders later work. */
  timeline->barrier = 0;

  return FALSE;
}

static gboolean
waits_for_users (GpuSubmitter *s)
{
  for (guint i = 0; s->waits != NULL && i < s->waits->len; i++)
    {
      if (get_wait (s, i)->user_events != NULL)
        return TRUE;
    }

  return s->user_wait != NULL;
}

/* Records that the user events of the waits may fail the work of @timeline. Waits that share a list
 * of pending events need one record. If an event of the list has failed in the meantime, the record
 * depends on the fence. */
static void
inherit_user_events_locked (GpuSubmitter *s,
                            GpuTimeline  *timeline)
{
  const GPtrArray *last = NULL;
  gboolean is_pending = FALSE;

  for (guint i = 0; s->waits != NULL && i < s->waits->len; i++)
    {
      const GpuFenceWait *wait = get_wait (s, i);

      if (wait->user_events == NULL || (wait->user_events == last && is_pending))
        continue;

      last = wait->user_events;
      is_pending = TRUE;

      for (guint j = 0; j < last->len; j++)
        is_pending &= _gpu_timeline_wait_user_locked (timeline, timeline->submitted,
                                                      last->pdata[j], wait->fence);
    }
}

/* Returns whether the stream joins a capture and may have pending work. Without a fence, that work
 * would count as captured. */
static gboolean
joins_behind_work_locked (const GpuSubmitter *s)
{
  GpuTimeline *timeline = s->timeline;

  return s->captured != 0 && timeline->completed != timeline->submitted
         && !_gpu_timeline_is_capturing_locked (timeline)
         && timeline->context->backend->stream->query (timeline->stream, NULL)
            != GPU_EVENT_STATUS_COMPLETE;
}

static gboolean
wait_locked (GpuSubmitter           *s,
             GpuNativeEvent *const  *events,
             guint                   n_events,
             GError                **error)
{
  GpuTimeline *timeline = s->timeline;
  gboolean is_users = waits_for_users (s);
  gboolean may_fail = is_users || _gpu_timeline_may_fail_locked (timeline);
  GpuNativeEvent *event = NULL;
  gboolean success;

  if ((is_users || joins_behind_work_locked (s)) && !fence_off_locked (timeline, error))
    return FALSE;

  success = enqueue_wait_locked (timeline, events, n_events, may_fail ? &event : NULL, error);

  if (!success && event == NULL)
    return FALSE;

  if (event != NULL)
    _gpu_timeline_retain_event_locked (timeline, event);

  if (s->user_wait != NULL)
    _gpu_timeline_wait_user_locked (timeline, timeline->submitted, s->submission->user_event, NULL);

  inherit_user_events_locked (s, timeline);

  for (guint i = 0; s->waits != NULL && i < s->waits->len; i++)
    _gpu_timeline_inherit_cross_driver_locked (timeline, get_wait (s, i)->cross);

  return success;
}

static gboolean
wait_for_unordered_locked (GpuTimeline  *timeline,
                           GError      **error)
{
  g_autoptr (GPtrArray) events = g_ptr_array_new ();
  GpuNativeEvent *event = NULL;
  gboolean success;

  _gpu_timeline_list_unordered_locked (timeline, events);
  success = events->len == 0
            || enqueue_wait_locked (timeline, (GpuNativeEvent *const *) events->pdata,
                                    events->len, &event, error);

  if (event != NULL)
    _gpu_timeline_retain_event_locked (timeline, event);

  return success;
}

/* After a user event failed: makes the stream wait for the work submitted before the failure.
 * Caller holds the failure lock. */
static gboolean
restore_order_locked (GpuTimeline  *timeline,
                      GError      **error)
{
  g_autoptr (GError) failure = NULL;

  for (guint i = 0; !wait_for_unordered_locked (timeline, &failure); i++)
    {
      if (i == N_REFUSED || !is_refused (failure))
        {
          g_propagate_error (error, g_steal_pointer (&failure));
          return FALSE;
        }

      g_clear_error (&failure);
      g_usleep (REFUSED_PAUSE);
    }

  _gpu_timeline_set_reordered_locked (timeline);

  return TRUE;
}

static gboolean
wait_for_fences_locked (GpuSubmitter  *s,
                        GError       **error)
{
  g_autofree GpuNativeEvent **events = g_new (GpuNativeEvent *, s->waits->len);

  for (guint i = 0; i < s->waits->len; i++)
    events[i] = get_wait (s, i)->fence->event;

  return wait_locked (s, events, s->waits->len, error);
}

/* Handles a wait that the driver refused. Returns TRUE to retry without the failed waits. Returns
 * FALSE if the submission fails, because the error is not a failed wait or because
 * `submission->after` failed. */
static gboolean
drop_refused (GpuSubmitter  *s,
              guint          n_refused,
              GError        *failure,
              GError       **error)
{
  guint n = s->waits->len;

  if (n_refused < N_REFUSED && (is_refused (failure) || is_loss (failure)))
    {
      if (n_refused > 0 && is_refused (failure))
        g_usleep (REFUSED_PAUSE);

      if (!_gpu_submitter_drop_failed (s, error))
        {
          g_error_free (failure);
          return FALSE;
        }

      /* Retry after a device-lost error only if a wait for another lost context was dropped.
       * Otherwise the context of this stream is lost. */
      if (is_refused (failure) || s->waits->len < n)
        {
          g_error_free (failure);
          return TRUE;
        }
    }

  g_propagate_error (error, failure);

  return FALSE;
}

static gboolean
wait_for_others_locked (GpuSubmitter  *s,
                        GError       **error)
{
  GpuTimeline *timeline = s->timeline;
  GError *failure = NULL;

  _gpu_debug_print (GPU_DEBUG_HAZARDS, "%s: timeline %p waits for %u others",
                    s->submission->function, (void *) timeline, s->waits->len);

  if (s->submission->after == NULL)
    __atomic_add_fetch (&timeline->n_hazard_waits, s->waits->len, __ATOMIC_RELAXED);

  for (guint i = 0; s->waits->len > 0 && !wait_for_fences_locked (s, &failure); i++)
    {
      if (!drop_refused (s, i, g_steal_pointer (&failure), error))
        return FALSE;
    }

  return TRUE;
}

gboolean
_gpu_submitter_order_locked (GpuSubmitter  *s,
                             GError       **error)
{
  GpuTimeline *timeline = s->timeline;

  if (s->has_failure_lock && !restore_order_locked (timeline, error))
    return FALSE;

  if ((timeline->flags & GPU_STREAM_FLAGS_OUT_OF_ORDER) != 0 && s->own > timeline->barrier
      && !_gpu_timeline_barrier_locked (timeline, error))
    return FALSE;

  if (s->user_wait != NULL)
    return wait_locked (s, &s->user_wait, 1, error);

  return s->waits == NULL || s->waits->len == 0 || wait_for_others_locked (s, error);
}

static gboolean
is_lost (GpuTimeline *timeline)
{
  gboolean has_failure_lock = _gpu_timeline_lock_against_failure (timeline);
  g_autoptr (GError) failure = NULL;
  g_autoptr (GpuNativeEvent) event = NULL;

  event = timeline->context->backend->stream->record (timeline->stream, GPU_EVENT_FLAGS_NONE,
                                                      &failure);
  _gpu_timeline_unlock_against_failure (timeline, has_failure_lock);

  return event == NULL && is_loss (failure);
}

void
_gpu_submitter_find_lost (GpuSubmitter *s,
                          const GError *failure)
{
  const GpuSubmission *submission = s->submission;

  if (!submission->peers || s->is_others || !is_loss (failure) || is_lost (s->timeline))
    return;

  for (guint i = 0; i < submission->n_accesses; i++)
    {
      GpuNativeContext *context = submission->accesses[i].storage->context;

      if (context != s->timeline->context)
        note_lost (s, context, failure);
    }

  s->is_others = TRUE;
}

void
_gpu_submitter_clear (GpuSubmitter *s)
{
  g_clear_pointer (&s->waits, g_array_unref);
  g_clear_pointer (&s->causes, g_ptr_array_unref);
  g_clear_pointer (&s->lost, _gpu_native_context_unref);
  g_clear_error (&s->loss);
  g_clear_pointer (&s->user_wait, _gpu_native_event_unref);

  while (s->n_handover > 0)
    _gpu_native_event_unref (s->handover[--s->n_handover]);
}
