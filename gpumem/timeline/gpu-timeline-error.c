/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The failed points of a timeline, and the user events that may still fail other points. */
#include "config.h"

#include "gpumem/staging/gpu-transfer-cross-driver.h"
#include "gpumem/staging/gpu-transfer.h"
#include "gpumem/timeline/gpu-timeline-private.h"
#include "gpumem/timeline/gpu-user-event-private.h"

/* The number of most recently recorded failures that are always kept. A thread that has just waited
 * for a point queries the failure of that point, and a read of memory looks up the failure of the
 * last write. */
#define RECENT_FAILURES 1024

gint _gpu_timeline_any_failed;

/* The points in (from, to] failed. */
typedef struct
{
  guint64  from;
  guint64  to;
  guint64  serial;                  /* number in the order of recording, which may differ from the
                                     * order of the points */
  GError  *error;
} GpuFailure;

typedef struct
{
  guint64       seq;
  guint64       last;               /* the last point that would have added the same wait again; 0
                                     * if there is none */
  guint64       until;              /* the points from seq up to this one fail with the event; 0 if
                                     * the event is not known to have failed, so that all later
                                     * points depend on it */
  GpuUserEvent *event;
  GpuFence     *fence;              /* nullable; set if the event had already failed when the wait
                                     * was added; then only this fence shows whether the point
                                     * fails */
  gboolean      reordered;          /* later work waits for the work before this point */
} GpuUserWait;

static void
failure_clear (gpointer data)
{
  GpuFailure *failure = data;

  g_error_free (failure->error);
}

void
_gpu_user_wait_free (gpointer data)
{
  GpuUserWait *wait = data;

  _gpu_user_event_unref (wait->event);
  g_clear_pointer (&wait->fence, _gpu_fence_unref);
  g_free (wait);
}

void
_gpu_timeline_init_failures (GpuTimeline *timeline)
{
  timeline->failures = g_array_new (FALSE, FALSE, sizeof (GpuFailure));
  timeline->n_failures_max = 2 * RECENT_FAILURES;
  timeline->user_waits = g_ptr_array_new_with_free_func (_gpu_user_wait_free);
  timeline->user_events = g_hash_table_new (NULL, NULL);
  g_array_set_clear_func (timeline->failures, failure_clear);
}

static GpuFailure *
get_failure (GpuTimeline *timeline,
             guint        i)
{
  return i < timeline->failures->len ? &g_array_index (timeline->failures, GpuFailure, i) : NULL;
}

/* Returns the index of the first failure that ends at @seq or later. */
static guint
find_range_locked (GpuTimeline *timeline,
                   guint64      seq)
{
  guint low = 0;
  guint high = timeline->failures->len;

  while (low < high)
    {
      guint middle = low + (high - low) / 2;

      if (get_failure (timeline, middle)->to < seq)
        low = middle + 1;
      else
        high = middle;
    }

  return low;
}

static const GError *
find_failure_locked (GpuTimeline *timeline,
                     guint64      first,
                     guint64      last)
{
  const GpuFailure *failure = get_failure (timeline, find_range_locked (timeline, first));

  return failure != NULL && failure->from < last ? failure->error : NULL;
}

gboolean
_gpu_timeline_check_points_locked (GpuTimeline  *timeline,
                                   guint64       first,
                                   guint64       last,
                                   GError      **error)
{
  const GError *failure = find_failure_locked (timeline, first, last);

  if (failure != NULL && error != NULL)
    *error = g_error_copy (failure);

  return failure == NULL;
}

static gboolean
check_locked (GpuTimeline  *timeline,
              guint64       seq,
              GError      **error)
{
  return _gpu_timeline_check_points_locked (timeline, seq, seq, error);
}

gboolean
_gpu_timeline_check_points (GpuTimeline  *timeline,
                            guint64       first,
                            guint64       last,
                            GError      **error)
{
  g_autoptr (GMutexLocker) locker = NULL;

  if (G_LIKELY (!g_atomic_int_get (&timeline->failed)))
    return TRUE;

  locker = g_mutex_locker_new (&timeline->lock);

  return _gpu_timeline_check_points_locked (timeline, first, last, error);
}

GPU_HOT gboolean
_gpu_timeline_check (GpuTimeline  *timeline,
                     guint64       seq,
                     GError      **error)
{
  return _gpu_timeline_check_points (timeline, seq, seq, error);
}

void
_gpu_timeline_watch_locked (GpuTimeline *timeline,
                            GpuWatch    *watch,
                            guint64      seq)
{
  if (watch->link.data == NULL)
    {
      watch->link.data = watch;
      watch->first = seq;
      g_queue_push_tail_link (&timeline->watches, &watch->link);
    }

  watch->last = seq;
}

void
_gpu_timeline_watch (GpuTimeline *timeline,
                     GpuWatch    *watch,
                     guint64      seq)
{
  g_mutex_lock (&timeline->lock);
  _gpu_timeline_watch_locked (timeline, watch, seq);
  g_mutex_unlock (&timeline->lock);
}

void
_gpu_timeline_unwatch (GpuTimeline *timeline,
                       GpuWatch    *watch)
{
  if (watch->link.data == NULL)
    return;

  g_mutex_lock (&timeline->lock);
  g_queue_unlink (&timeline->watches, &watch->link);
  g_mutex_unlock (&timeline->lock);
  *watch = (GpuWatch) { { NULL } };
}

static gboolean
is_watched_locked (GpuTimeline      *timeline,
                   const GpuFailure *failure)
{
  for (GList *l = timeline->watches.head; l != NULL; l = l->next)
    {
      const GpuWatch *watch = l->data;

      if (failure->from < watch->last && watch->first <= failure->to)
        return TRUE;
    }

  return FALSE;
}

static void
forget_failures_locked (GpuTimeline *timeline)
{
  GArray *failures = timeline->failures;
  guint n_kept = 0;

  for (guint i = 0; i < failures->len; i++)
    {
      GpuFailure *failure = get_failure (timeline, i);
      GpuFailure kept = *failure;

      if (failure->serial + RECENT_FAILURES <= timeline->n_failures_recorded
          && !is_watched_locked (timeline, failure))
        continue;

      *failure = *get_failure (timeline, n_kept);
      *get_failure (timeline, n_kept++) = kept;
    }

  g_array_set_size (failures, n_kept);
  timeline->n_failures_max = MAX (2 * n_kept, 2 * RECENT_FAILURES);
}

/* Removes the points in (from, to] from older failures, because the newest failure of a point
 * replaces older ones. Returns the index for the new failure. */
static guint
make_room_locked (GpuTimeline *timeline,
                  guint64      from,
                  guint64      to)
{
  guint at = find_range_locked (timeline, from + 1);
  GpuFailure *failure = get_failure (timeline, at);
  guint n = 0;

  if (failure != NULL && failure->from < from)
    {
      GpuFailure head = { failure->from, from, failure->serial,
                          g_error_copy (failure->error) };

      failure->from = from;
      g_array_insert_val (timeline->failures, at, head);
      at++;
    }

  while ((failure = get_failure (timeline, at + n)) != NULL && failure->to <= to)
    n++;

  if (failure != NULL)
    failure->from = MAX (failure->from, to);

  if (n > 0)
    g_array_remove_range (timeline->failures, at, n);

  return at;
}

void
_gpu_timeline_fail_locked (GpuTimeline *timeline,
                           guint64      from,
                           guint64      to,
                           GError      *error)
{
  const GpuFailure failure = { from, to, timeline->n_failures_recorded++, error };

  if (timeline->failures->len >= timeline->n_failures_max)
    forget_failures_locked (timeline);

  g_array_insert_val (timeline->failures, make_room_locked (timeline, from, to), failure);
  g_atomic_int_set (&timeline->failed, TRUE);
  g_atomic_int_set (&_gpu_timeline_any_failed, TRUE);
}

static gboolean
has_event_failed (GpuUserWait *wait)
{
  return _gpu_user_event_query (wait->event, NULL) == GPU_EVENT_STATUS_FAILED;
}

void
_gpu_timeline_note_failed_locked (GpuTimeline *timeline)
{
  guint n_failed = g_atomic_int_get (&_gpu_user_events_failed);

  if (timeline->n_events_failed == n_failed)
    return;

  timeline->n_events_failed = n_failed;

  for (guint i = 0; i < timeline->user_waits->len; i++)
    {
      GpuUserWait *wait = g_ptr_array_index (timeline->user_waits, i);

      if (wait->until != 0 || !has_event_failed (wait))
        continue;

      wait->until = timeline->submitted;
      timeline->is_unordered = TRUE;
    }
}

/* Returns whether the point @seq fails if the event of @wait fails. Returns FALSE if @wait has a
 * fence, because only the driver reports whether the fence failed. */
static gboolean
depends_on (guint64            seq,
            const GpuUserWait *wait)
{
  return wait->fence == NULL && wait->seq <= seq && (wait->until == 0 || seq <= wait->until);
}

/* Returns whether the work of @wait failed because its user event failed. Returns FALSE if @wait
 * has a fence that is pending. */
static gboolean
has_failed (GpuTimeline  *timeline,
            GpuUserWait  *wait,
            GError      **cause)
{
  const GpuEventOps *ops = timeline->context->backend->event;

  return (wait->fence == NULL
          || ops->query (wait->fence->event, NULL) == GPU_EVENT_STATUS_FAILED)
         && _gpu_user_event_query (wait->event, cause) == GPU_EVENT_STATUS_FAILED;
}

gboolean
_gpu_timeline_search_failing_locked (GpuTimeline *timeline)
{
  for (guint i = 0; i < timeline->user_waits->len; i++)
    {
      GpuUserWait *wait = g_ptr_array_index (timeline->user_waits, i);

      if (_gpu_user_event_query (wait->event, NULL) != GPU_EVENT_STATUS_COMPLETE)
        return TRUE;
    }

  return FALSE;
}

GPtrArray *
_gpu_timeline_list_user_events_locked (GpuTimeline *timeline,
                                       guint64      seq)
{
  g_autoptr (GHashTable) seen = NULL;
  GPtrArray *events = NULL;

  for (guint i = 0; i < timeline->user_waits->len; i++)
    {
      GpuUserWait *wait = g_ptr_array_index (timeline->user_waits, i);

      if (wait->seq > seq
          || _gpu_user_event_query (wait->event, NULL) == GPU_EVENT_STATUS_COMPLETE)
        continue;

      if (events == NULL)
        {
          events = g_ptr_array_new_with_free_func ((GDestroyNotify) _gpu_user_event_unref);
          seen = g_hash_table_new (NULL, NULL);
        }

      if (g_hash_table_add (seen, wait->event))
        g_ptr_array_add (events, _gpu_user_event_ref (wait->event));
    }

  return events;
}

GPtrArray *
_gpu_timeline_list_causes_locked (GpuTimeline *timeline,
                                  guint64      seq,
                                  gboolean     with_failed)
{
  GPtrArray *events = NULL;

  _gpu_timeline_note_failed_locked (timeline);

  for (guint i = 0; i < timeline->user_waits->len; i++)
    {
      GpuUserWait *wait = g_ptr_array_index (timeline->user_waits, i);

      if (!depends_on (seq, wait) && !(with_failed && has_failed (timeline, wait, NULL)))
        continue;

      if (events == NULL)
        events = g_ptr_array_new_with_free_func ((GDestroyNotify) _gpu_user_event_unref);

      g_ptr_array_add (events, _gpu_user_event_ref (wait->event));
    }

  return events;
}

gboolean
_gpu_timeline_check_operation (GpuTimeline  *timeline,
                               guint64       seq,
                               GError      **error)
{
  g_autoptr (GMutexLocker) locker = NULL;

  if (G_LIKELY (__atomic_load_n (&timeline->n_user_waits, __ATOMIC_RELAXED) == 0
                && !g_atomic_int_get (&timeline->failed)))
    return TRUE;

  locker = g_mutex_locker_new (&timeline->lock);

  for (guint i = 0; i < timeline->user_waits->len; i++)
    {
      GpuUserWait *wait = g_ptr_array_index (timeline->user_waits, i);

      if (depends_on (seq, wait)
          && _gpu_user_event_query (wait->event, error) == GPU_EVENT_STATUS_FAILED)
        return FALSE;
    }

  return check_locked (timeline, seq, error);
}

gboolean
_gpu_timeline_lock_against_failure (GpuTimeline *timeline)
{
  _gpu_timeline_lock (timeline);

  if (!_gpu_timeline_may_fail_locked (timeline))
    return FALSE;

  _gpu_timeline_unlock (timeline);
  g_mutex_lock (&timeline->context->failure_lock);
  _gpu_timeline_lock (timeline);

  return TRUE;
}

void
_gpu_timeline_unlock_against_failure (GpuTimeline *timeline,
                                      gboolean     has_failure_lock)
{
  _gpu_timeline_unlock (timeline);

  if (has_failure_lock)
    g_mutex_unlock (&timeline->context->failure_lock);
}

static gboolean
is_unordered (GpuUserWait *wait)
{
  return !wait->reordered && has_event_failed (wait);
}

void
_gpu_timeline_list_unordered_locked (GpuTimeline *timeline,
                                     GPtrArray   *events)
{
  const GpuEventOps *ops = timeline->context->backend->event;
  guint64 seq = 0;

  _gpu_timeline_note_failed_locked (timeline);

  if (!timeline->is_unordered)
    return;

  for (guint i = 0; i < timeline->user_waits->len; i++)
    {
      GpuUserWait *wait = g_ptr_array_index (timeline->user_waits, i);

      if (is_unordered (wait))
        seq = MAX (seq, MAX (wait->seq, wait->last));
    }

  for (GList *l = timeline->fences.head; l != NULL; l = l->next)
    {
      GpuFence *fence = l->data;

      if (fence->seq < seq && ops->query (fence->event, NULL) == GPU_EVENT_STATUS_PENDING)
        g_ptr_array_add (events, fence->event);
    }
}

void
_gpu_timeline_set_reordered_locked (GpuTimeline *timeline)
{
  if (!timeline->is_unordered)
    return;

  for (guint i = 0; i < timeline->user_waits->len; i++)
    {
      GpuUserWait *wait = g_ptr_array_index (timeline->user_waits, i);

      wait->reordered = wait->reordered || is_unordered (wait);
    }

  timeline->is_unordered = FALSE;
}

gboolean
_gpu_timeline_wait_user_locked (GpuTimeline  *timeline,
                                guint64       seq,
                                GpuUserEvent *event,
                                GpuFence     *fence)
{
  gboolean failed = _gpu_user_event_query (event, NULL) == GPU_EVENT_STATUS_FAILED;
  GpuUserWait *wait = failed ? NULL : g_hash_table_lookup (timeline->user_events, event);

  /* All later points already depend on the event. */
  if (wait != NULL)
    {
      wait->last = seq;
      return TRUE;
    }

  wait = g_new0 (GpuUserWait, 1);
  wait->seq = seq;
  wait->event = _gpu_user_event_ref (event);

  if (!failed)
    g_hash_table_insert (timeline->user_events, event, wait);
  else
    timeline->is_unordered = TRUE;

  if (failed && fence != NULL)
    {
      wait->fence = _gpu_fence_ref (fence);
      wait->until = seq;
    }
  else if (failed)
    {
      /* Make the next submission search for the failed event. */
      timeline->n_events_failed = g_atomic_int_get (&_gpu_user_events_failed) - 1;
    }

  g_ptr_array_add (timeline->user_waits, wait);
  __atomic_store_n (&timeline->n_user_waits, timeline->n_user_waits + 1, __ATOMIC_RELAXED);

  return !failed;
}

/* Returns whether points after @seq wait for the event of @wait themselves. Earlier points can end
 * while the event is pending, if another event fails them. */
static gboolean
is_renewed (const GpuUserWait *wait,
            guint64            seq)
{
  return wait->last > seq
         && _gpu_user_event_query (wait->event, NULL) == GPU_EVENT_STATUS_PENDING;
}

/* Replaces the error of the driver by the error of the user event. For work that is ordered after a
 * failed user event, drivers report a failure without this cause, or no failure. */
void
_gpu_timeline_retire_user_waits_locked (GpuTimeline  *timeline,
                                        guint64       seq,
                                        GQueue       *retired,
                                        guint64      *from,
                                        GError      **failure)
{
  GPtrArray *waits = timeline->user_waits;
  gboolean failed = FALSE;
  guint n_kept = 0;

  while (n_kept < waits->len && ((GpuUserWait *) waits->pdata[n_kept])->seq <= seq)
    {
      GpuUserWait *wait = waits->pdata[n_kept];
      g_autoptr (GError) cause = NULL;

      if (is_renewed (wait, seq))
        {
          wait->seq = seq + 1;
          n_kept++;
          continue;
        }

      g_ptr_array_steal_index (waits, n_kept);
      if (g_hash_table_lookup (timeline->user_events, wait->event) == wait)
        g_hash_table_remove (timeline->user_events, wait->event);

      if (has_failed (timeline, wait, &cause))
        {
          guint64 until = wait->until != 0 ? wait->until : timeline->submitted;

          /* Also fail the later points that depend on the event, because the driver may execute
           * their work and report no failure. */
          if (until > seq)
            _gpu_timeline_fail_locked (timeline, seq, until, g_error_copy (cause));

          g_clear_error (failure);
          *failure = g_steal_pointer (&cause);

          /* The failure begins at the first failed wait: the driver has executed all work that was
           * submitted before that wait. */
          if (!failed)
            *from = MAX (*from, wait->seq - 1);

          failed = TRUE;
        }

      g_queue_push_tail (retired, wait);
    }

  __atomic_store_n (&timeline->n_user_waits, waits->len, __ATOMIC_RELAXED);
}

/* Returns FALSE with the error if a cross-driver copy has failed on which the point @seq depends,
 * or if a failure of @seq is recorded. Skips the retained objects before the index @first. */
static gboolean
check_copies_locked (GpuTimeline  *timeline,
                     guint         first,
                     guint64       seq,
                     GError      **error)
{
  for (guint i = first; timeline->n_cross_driver > 0 && i < timeline->retained->len; i++)
    {
      const GpuRetained *retained = &g_array_index (timeline->retained, GpuRetained, i);

      if (retained->seq <= seq && _gpu_retained_is_cross_driver (retained)
          && _gpu_cross_driver_query (retained->object, error) == GPU_EVENT_STATUS_FAILED)
        return FALSE;
    }

  return check_locked (timeline, seq, error);
}

static gboolean
check_pending_locked (GpuTimeline  *timeline,
                      guint         first,
                      guint64       seq,
                      GError      **error)
{
  for (guint i = 0; i < timeline->user_waits->len; i++)
    {
      GpuUserWait *wait = g_ptr_array_index (timeline->user_waits, i);

      if (wait->seq > seq)
        break;

      if (has_failed (timeline, wait, error))
        return FALSE;
    }

  return check_copies_locked (timeline, first, seq, error);
}

gboolean
_gpu_timeline_check_pending_locked (GpuTimeline  *timeline,
                                    guint64       seq,
                                    GError      **error)
{
  return check_pending_locked (timeline, timeline->retained_first, seq, error);
}

gboolean
_gpu_timeline_check_cross_driver (GpuTimeline  *timeline,
                                  guint64       seq,
                                  GError      **error)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&timeline->lock);

  return check_copies_locked (timeline, timeline->retained_first, seq, error);
}

gboolean
_gpu_timeline_check_pending (GpuTimeline  *timeline,
                             guint64       seq,
                             GError      **error)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&timeline->lock);

  return _gpu_timeline_check_pending_locked (timeline, seq, error);
}

/* If work depends on failed work, the driver reports a failure without the original cause. Replaces
 * such a @failure by the error that was recorded for the points at @from or directly after
 * @from. */
void
_gpu_timeline_inherit_cause_locked (GpuTimeline  *timeline,
                                    guint64       from,
                                    GError      **failure)
{
  const GpuFailure *last = get_failure (timeline, find_range_locked (timeline, from));

  if (last == NULL || from < last->from
      || !g_error_matches (*failure, GPU_ERROR, GPU_ERROR_FAILED))
    return;

  g_clear_error (failure);
  *failure = g_error_copy (last->error);
}

/* --- copies whose failure no driver reports --------------------------------------------------- */

/* Releases a cross-driver copy of another timeline, on which work of this timeline depends. The
 * address of this function distinguishes such a copy from copies of this timeline. */
static void
release_inherited (gpointer cross)
{
  _gpu_cross_driver_unref (cross);
}

gboolean
_gpu_retained_is_cross_driver (const GpuRetained *retained)
{
  return retained->release == (GDestroyNotify) _gpu_cross_driver_unref || retained->release
         == release_inherited;
}

static GPtrArray *
list_copies_locked (GpuTimeline *timeline,
                    guint        first,
                    guint64      seq,
                    gboolean    *is_failing)
{
  GPtrArray *list = NULL;

  for (guint i = first; timeline->n_cross_driver > 0 && i < timeline->retained->len; i++)
    {
      const GpuRetained *retained = &g_array_index (timeline->retained, GpuRetained, i);
      GpuEventStatus status;

      if (retained->seq > seq || !_gpu_retained_is_cross_driver (retained))
        continue;

      status = _gpu_cross_driver_query (retained->object, NULL);
      *is_failing |= status == GPU_EVENT_STATUS_FAILED;
      if (status != GPU_EVENT_STATUS_PENDING)
        continue;

      if (list == NULL)
        list = g_ptr_array_new_with_free_func ((GDestroyNotify) _gpu_cross_driver_unref);

      g_ptr_array_add (list, _gpu_cross_driver_ref (retained->object));
    }

  return list;
}

GPtrArray *
_gpu_timeline_list_cross_driver_locked (GpuTimeline *timeline,
                                        guint64      seq,
                                        gboolean    *is_failing)
{
  return list_copies_locked (timeline, timeline->retained_first, seq, is_failing);
}

/* Returns the index of the newest retained copy with a file of this stream, or of the first
 * retained object. That copy inherits the failures of all copies before it. */
static guint
find_file_copy_locked (GpuTimeline *timeline)
{
  guint i = timeline->retained->len;

  while (timeline->n_cross_driver > 0 && i > timeline->retained_first)
    {
      const GpuRetained *retained = &g_array_index (timeline->retained, GpuRetained, --i);

      if (retained->release == (GDestroyNotify) _gpu_cross_driver_unref
          && _gpu_cross_file_is_whole (retained->object))
        break;
    }

  return i;
}

GPtrArray *
_gpu_timeline_list_earlier_locked (GpuTimeline  *timeline,
                                   GError      **failure)
{
  guint first = find_file_copy_locked (timeline);
  gboolean is_failing = FALSE;
  GPtrArray *list = list_copies_locked (timeline, first, G_MAXUINT64, &is_failing);

  /* After the list: a copy that fails meanwhile is either in the list or found here. */
  if (timeline->completed != timeline->submitted)
    check_pending_locked (timeline, first, timeline->submitted, failure);

  return list;
}

static gboolean
is_retained_locked (GpuTimeline   *timeline,
                    gconstpointer  object)
{
  for (guint i = timeline->retained->len; i > timeline->retained_first; i--)
    {
      if (g_array_index (timeline->retained, GpuRetained, i - 1).object == object)
        return TRUE;
    }

  return FALSE;
}

void
_gpu_timeline_inherit_cross_driver_locked (GpuTimeline *timeline,
                                           GPtrArray   *list)
{
  gboolean is_counted = FALSE;

  for (guint i = 0; list != NULL && i < list->len; i++)
    {
      if (is_retained_locked (timeline, list->pdata[i]))
        continue;

      if (!is_counted)
        _gpu_timeline_submit_marker_locked (timeline);

      is_counted = TRUE;
      _gpu_timeline_retain_locked (timeline, _gpu_cross_driver_ref (list->pdata[i]),
                                   release_inherited, 0);
    }
}

/* Returns whether a copy between two drivers succeeded. The copy records failures of its commands
 * in this stream. These failures are ignored if the driver has reported a failure of this stream,
 * or if user events may fail the work of this stream, because the other errors are more precise. */
static gboolean
check_cross_driver_locked (GpuTimeline       *timeline,
                           const GpuRetained *retained,
                           gboolean           failed,
                           GError           **error)
{
  const GpuNativeContext *known = failed || timeline->n_user_waits > 0 ? timeline->context : NULL;

  if (retained->release == release_inherited)
    return failed || _gpu_cross_driver_check (retained->object, NULL, error);

  return _gpu_cross_driver_check (retained->object, known, error);
}

void
_gpu_timeline_check_retained_locked (GpuTimeline       *timeline,
                                     const GpuRetained *retained,
                                     gboolean           failed)
{
  GError *failure = NULL;

  if (retained->release == (GDestroyNotify) _gpu_transfer_retire
      && !_gpu_transfer_check (retained->object, &failure))
    _gpu_timeline_fail_locked (timeline, retained->seq - 1, retained->seq, failure);

  if (!_gpu_retained_is_cross_driver (retained))
    return;

  timeline->n_cross_driver--;

  /* All work submitted so far may depend on the result of the copy. */
  if (!check_cross_driver_locked (timeline, retained, failed, &failure))
    _gpu_timeline_fail_locked (timeline, retained->seq - 1, timeline->submitted, failure);
}
