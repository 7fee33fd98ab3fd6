/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Submits one operation to two streams. Each stream, with its half of the operation, is called a
 * side. _gpu_submit_dual() holds the locks of the memory and the dual_lock of the user's stream,
 * which is the stream that the caller passed, until both streams have the operation. If two such
 * operations share streams or memory, all streams therefore execute them in the same order, which
 * prevents deadlocks.
 */
#include "config.h"

#include "gpumem/base/gpu-marks-private.h"
#include "gpumem/device/gpu-context-private.h"
#include "gpumem/staging/gpu-transfer-cross-driver.h"
#include "gpumem/stream/gpu-submission-hazard-private.h"

typedef struct
{
  GpuDualSide  *sides;
  guint         user;
  GpuDualFunc   run;
  gpointer      data;
  GpuPending   *pending;            /* nullable */
  GpuSubmitter  submitters[2];
  GpuStorage   *roots[2];
  GpuNativeEvent *event;            /* of the user's stream, nullable */
  GPtrArray    *cross[2];           /* nullable; for each side, the pending cross-driver copies on
                                     * which this side depends. If one of these copies fails, later
                                     * work of the other side also fails */
  guint         locked;             /* bit mask of the sides whose timeline is locked */
  guint         failed;             /* the side that failed, after a failure */
  gboolean      must_retry;         /* nothing was submitted, because work that the operation may
                                     * depend on has failed */
} Dual;

#define BOTH 3

static void
lock_roots (Dual *dual)
{
  guint first = dual->roots[0] < dual->roots[1] ? 0 : 1;

  _gpu_storage_lock_shared (dual->roots[first]);
  _gpu_storage_lock_shared (dual->roots[1 - first]);
}

static void
unlock_roots (Dual *dual)
{
  _gpu_storage_unlock_shared (dual->roots[0]);
  _gpu_storage_unlock_shared (dual->roots[1]);
}

static void
lock_failures (Dual *dual)
{
  guint first = dual->sides[0].timeline->context < dual->sides[1].timeline->context ? 0 : 1;

  for (guint i = 0; i < 2; i++)
    {
      guint side = i == 0 ? first : 1 - first;

      if (dual->submitters[side].has_failure_lock)
        g_mutex_lock (&dual->sides[side].timeline->context->failure_lock);
    }
}

static void
unlock_failures (Dual *dual)
{
  for (guint side = 0; side < 2; side++)
    {
      if (dual->submitters[side].has_failure_lock)
        g_mutex_unlock (&dual->sides[side].timeline->context->failure_lock);

      dual->submitters[side].has_failure_lock = FALSE;
    }
}

static void
unlock_sides (Dual  *dual,
              guint  sides)
{
  sides &= dual->locked;
  dual->locked &= ~sides;

  for (guint side = 0; side < 2; side++)
    {
      if ((sides & 1u << side) != 0)
        _gpu_timeline_unlock (dual->sides[side].timeline);
    }
}

/* Locks both timelines. Returns FALSE if a side needs a failure lock that this thread does not
 * hold. */
static gboolean
try_lock_timelines (Dual *dual)
{
  gboolean success = TRUE;

  _gpu_timeline_lock (dual->sides[dual->user].timeline);
  _gpu_timeline_lock (dual->sides[1 - dual->user].timeline);
  dual->locked = BOTH;

  for (guint side = 0; side < 2; side++)
    {
      if (dual->submitters[side].has_failure_lock
          || !_gpu_timeline_may_fail_locked (dual->sides[side].timeline))
        continue;

      dual->submitters[side].has_failure_lock = TRUE;
      success = FALSE;
    }

  return success;
}

/* Failure locks must be taken before timeline locks, and are taken only if user events may fail
 * work. */
static void
lock_timelines (Dual *dual)
{
  for (guint side = 0; side < 2; side++)
    dual->submitters[side].has_failure_lock = dual->submitters[side].may_fail;

  while (TRUE)
    {
      gboolean held[] = { dual->submitters[0].has_failure_lock,
                          dual->submitters[1].has_failure_lock };

      lock_failures (dual);

      if (try_lock_timelines (dual))
        return;

      unlock_sides (dual, BOTH);

      for (guint side = 0; side < 2; side++)
        {
          if (held[side])
            g_mutex_unlock (&dual->sides[side].timeline->context->failure_lock);
        }
    }
}

static gboolean
order_side_locked (Dual    *dual,
                   guint    side,
                   GError **error)
{
  GpuSubmitter *s = &dual->submitters[side];

  _gpu_timeline_inherit_cross_driver_locked (s->timeline, dual->cross[1 - side]);

  return (!s->has_failure_lock || s->waits == NULL || _gpu_submitter_drop_failed (s, error))
         && _gpu_submitter_order_locked (s, error);
}

static gboolean
attach_side_locked (Dual    *dual,
                    guint    side,
                    GError **error)
{
  GpuSubmitter *s = &dual->submitters[side];

  return (!s->is_exclusive || _gpu_submitter_attach_locked (s, error))
         && (!s->is_external || _gpu_submitter_acquire_locked (s, error));
}

static gboolean
for_sides (Dual      *dual,
           guint      sides,
           gboolean (*func) (Dual *dual, guint side, GError **error),
           GError   **error)
{
  for (guint side = 0; side < 2; side++)
    {
      if ((sides & 1u << side) == 0)
        continue;

      dual->failed = side;

      if (!func (dual, side, error))
        return FALSE;
    }

  return TRUE;
}

/* Releases external memory to the other API. If a caller waits for the operation, and the user's
 * stream releases memory, sets @event to the event of that release. */
static gboolean
release_locked (Dual            *dual,
                guint            sides,
                gboolean         success,
                GpuNativeEvent **event,
                GError         **error)
{
  for (guint side = 0; side < 2; side++)
    {
      GpuSubmitter *s = &dual->submitters[side];
      gboolean is_last = side == dual->user && dual->pending != NULL;

      if (!s->is_external || (sides & 1u << side) == 0
          || _gpu_submitter_release_locked (s, success, is_last && success ? event : NULL,
                                            success ? error : NULL)
          || !success)
        continue;

      dual->failed = side;
      success = FALSE;

      for (guint i = 0; i < 2; i++)
        dual->sides[i].timeline->stream->partial |= (sides & 1u << i) != 0;
    }

  return success;
}

/* Records the operation, as a use of its memory, in the timelines of @sides. If the operation
 * failed, records it only in the timelines whose streams have received some of its commands. */
static void
enter_locked (Dual           *dual,
              guint           sides,
              gboolean        success,
              GpuNativeEvent *last)
{
  for (guint side = 0; side < 2; side++)
    {
      GpuTimeline *timeline = dual->sides[side].timeline;
      const GpuSubmission *submission = &dual->sides[side].submission;
      gboolean is_user = side == dual->user;
      GpuPending *pending = success && is_user ? dual->pending : NULL;

      if ((sides & 1u << side) == 0)
        continue;

      if (!_gpu_submission_take_partial_locked (timeline) && !success)
        ;
      else if (is_user && last != NULL)
        _gpu_submission_enter_locked (submission, timeline, last, g_steal_pointer (&dual->event),
                                      pending);
      else
        _gpu_submission_enter_locked (submission, timeline,
                                      is_user ? g_steal_pointer (&dual->event) : NULL, NULL,
                                      pending);

      _gpu_submitter_retain_handover_locked (&dual->submitters[side]);
    }
}

/* @is_first: whether nothing has been submitted yet */
static gboolean
run_locked (Dual     *dual,
            guint     sides,
            gboolean  is_first,
            gboolean  may_fail,
            GError  **error)
{
  GpuNativeStream *streams[] = { dual->sides[0].timeline->stream,
                                 dual->sides[1].timeline->stream };
  GpuNativeEvent *last = NULL;
  gboolean success;

  dual->submitters[0].retains_events = dual->submitters[1].retains_events = may_fail;
  success = for_sides (dual, sides, order_side_locked, error);

  for (guint side = 0; side < 2 && success && is_first; side++)
    dual->must_retry |= dual->submitters[side].has_dropped && dual->submitters[side].may_retry;
  if (dual->must_retry)
    return TRUE;

  success = success && for_sides (dual, sides, attach_side_locked, error)
            && dual->run (dual->data, streams, sides, may_fail, &dual->event, &dual->failed,
                          error);
  success = release_locked (dual, sides, success, &last, error);
  enter_locked (dual, sides, success, last);

  return success;
}

/* Submits both sides of the operation together, unless only one side needs its failure lock. In
 * that case, submits that side first, and then unlocks the failure lock. The submission of the
 * second side may block this thread until another thread sets a user event, and the other thread
 * needs the failure lock for that. While this thread blocks, no other thread holds the failure lock
 * and waits for the timeline of the second side: only operations of the user's stream lock both
 * timelines, and dual_lock excludes those operations. */
static gboolean
run_sides (Dual    *dual,
           GError **error)
{
  gboolean has_lock[] = { dual->submitters[0].has_failure_lock,
                          dual->submitters[1].has_failure_lock };
  guint first = has_lock[1] ? 1 : 0;

  if (has_lock[0] == has_lock[1])
    return run_locked (dual, BOTH, TRUE, has_lock[0], error);

  if (!run_locked (dual, 1u << first, TRUE, TRUE, error))
    return FALSE;
  if (dual->must_retry)
    return TRUE;

  unlock_sides (dual, 1u << first);
  unlock_failures (dual);

  return run_locked (dual, 1u << (1 - first), FALSE, TRUE, error);
}

static gpointer
copy_ref (gconstpointer cross,
          gpointer      data G_GNUC_UNUSED)
{
  return _gpu_cross_driver_ref ((GpuCrossDriver *) cross);
}

static void
list_cross_driver_locked (Dual *dual)
{
  for (guint side = 0; side < 2; side++)
    {
      GpuSubmitter *s = &dual->submitters[side];
      GPtrArray *list = _gpu_timeline_list_cross_driver_locked (s->timeline, G_MAXUINT64,
                                                                &s->has_dropped);

      for (guint i = 0; s->waits != NULL && i < s->waits->len; i++)
        {
          GPtrArray *inherited = g_array_index (s->waits, GpuFenceWait, i).cross;

          if (inherited == NULL)
            continue;

          if (list == NULL)
            list = g_ptr_array_new_with_free_func ((GDestroyNotify) _gpu_cross_driver_unref);

          g_ptr_array_extend (list, inherited, copy_ref, NULL);
        }

      dual->cross[side] = list;
    }
}

/* Returns whether work of one of the two streams has failed, perhaps after check_writers() has
 * searched for failures. */
static gboolean
has_failed_meanwhile_locked (Dual *dual)
{
  for (guint side = 0; side < 2; side++)
    {
      GpuTimeline *timeline = dual->sides[side].timeline;

      if (dual->submitters[side].may_retry && g_atomic_int_get (&_gpu_timeline_any_failed)
          && !_gpu_timeline_check_pending_locked (timeline, timeline->submitted, NULL))
        return TRUE;
    }

  return FALSE;
}

/* Caller holds the locks of the roots. May set `must_retry`, and then submits nothing. */
static gboolean
submit_locked (Dual    *dual,
               GError **error)
{
  GMutex *dual_lock = &dual->sides[dual->user].timeline->dual_lock;
  gboolean success;

  for (dual->failed = 0; dual->failed < 2; dual->failed++)
    {
      GpuSubmitter *s = &dual->submitters[dual->failed];

      if (!_gpu_submission_check_constant (s->submission, error)
          || !_gpu_submission_check_locked (s->submission, error))
        return FALSE;

      _gpu_submitter_promote_to_write (s);

      if (!_gpu_submitter_collect_locked (s, error))
        return FALSE;

      /* Threads of the library take part in the operation. */
      if (s->captured != 0)
        return _gpu_timeline_fail_captured (s->captured, error);
    }

  g_mutex_lock (dual_lock);
  lock_timelines (dual);
  dual->must_retry = has_failed_meanwhile_locked (dual);
  list_cross_driver_locked (dual);
  success = dual->must_retry || run_sides (dual, error);
  unlock_sides (dual, BOTH);
  unlock_failures (dual);
  g_mutex_unlock (dual_lock);

  return success;
}

static gboolean
end (Dual    *dual,
     GError  *failure,
     GError **error)
{
  for (guint side = 0; side < 2; side++)
    {
      GpuSubmitter *s = &dual->submitters[side];

      if (s->lost != NULL)
        _gpu_native_context_report (s->lost, s->loss);

      _gpu_submitter_clear (s);
      g_clear_pointer (&dual->cross[side], g_ptr_array_unref);
    }

  if (failure == NULL)
    return TRUE;

  /* The commands on one of the two streams may have been enqueued, and have set these events,
   * before the submission to the other stream failed. */
  if (dual->pending != NULL)
    g_clear_pointer (&dual->pending->event, _gpu_native_event_unref);

  g_clear_pointer (&dual->event, _gpu_native_event_unref);
  _gpu_native_context_report (dual->sides[dual->failed].timeline->context, failure);
  g_propagate_error (error, failure);

  return FALSE;
}

static gboolean
check_writers (Dual    *dual,
               GError **error)
{
  for (dual->failed = 0; dual->failed < 2; dual->failed++)
    {
      const GpuSubmission *submission = &dual->sides[dual->failed].submission;

      if (!_gpu_submission_check_writers (submission, error))
        return FALSE;
    }

  return TRUE;
}

static gboolean
attempt (Dual      *dual,
         gboolean   may_retry,
         GError   **error)
{
  const char *function = dual->sides[dual->user].submission.function;
  GError *failure = NULL;

  for (guint side = 0; side < 2; side++)
    {
      GpuSubmitter *s = &dual->submitters[side];

      g_clear_pointer (&dual->cross[side], g_ptr_array_unref);
      _gpu_submitter_clear (s);
      *s = (GpuSubmitter) { .timeline = dual->sides[side].timeline,
                            .submission = &dual->sides[side].submission,
                            .roots = &dual->roots[side], .n_roots = 1, .may_retry = may_retry };
    }

  dual->must_retry = FALSE;
  if (!check_writers (dual, error))
    return FALSE;

  lock_roots (dual);

  if (!submit_locked (dual, &failure) && !g_str_has_prefix (failure->message, function))
    g_prefix_error (&failure, "%s: ", function);

  unlock_roots (dual);

  if (failure != NULL)
    g_propagate_error (error, failure);

  return failure == NULL;
}

gboolean
_gpu_submit_dual (GpuDualSide  *sides,
                  guint         user,
                  GpuDualFunc   run,
                  gpointer      data,
                  GpuPending   *pending,
                  GError      **error)
{
  Dual dual = { .sides = sides, .user = user, .run = run, .data = data,
                .pending = pending };
  g_auto (GpuMark) mark = { NULL, };
  GError *failure = NULL;

  if ((sides[user].timeline->flags & GPU_TIMELINE_MARKS) != 0)
    mark = _gpu_mark_begin (sides[user].submission.function,
                            sides[user].submission.accesses->size);

  for (guint side = 0; side < 2; side++)
    {
      GpuAccess *access = sides[side].submission.accesses;

      access->storage = access->memory->storage;
      dual.roots[side] = access->storage->root;
    }

  /* As in a submission to one stream: if other work has failed, and the operation may depend on
   * that work, checks the writers once more. */
  if (attempt (&dual, TRUE, &failure) && dual.must_retry)
    attempt (&dual, FALSE, &failure);

  return end (&dual, failure, error);
}
