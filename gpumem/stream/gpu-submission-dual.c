/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * One operation in two streams. The locks of the memory, and the pair lock of the user's stream,
 * are held until both have it: so of two such operations that share streams or memory one comes
 * before the other everywhere, and never each waits for the other.
 */
#include "config.h"

#include "gpumem/device/gpu-context-private.h"
#include "gpumem/staging/gpu-transfer-cross-driver.h"
#include "gpumem/stream/gpu-submission-hazard-private.h"

typedef struct
{
  GpuPairSide  *sides;
  guint         user;
  GpuPairFunc   run;
  gpointer      data;
  GpuPending   *pending;            /* nullable */
  GpuSubmitter  submitters[2];
  GpuStorage   *roots[2];
  GpuNativeEvent *event;            /* of the user's stream, nullable */
  GPtrArray    *across[2];          /* nullable; copies before this one, whose failure either side
                                     * passes on to the other */
  guint         locked;             /* the sides whose timeline is, as bits */
  guint         failed;             /* the side that did */
} Pair;

#define BOTH 3

static void
lock_roots (Pair *pair)
{
  guint first = pair->roots[0] < pair->roots[1] ? 0 : 1;

  _gpu_storage_lock_shared (pair->roots[first]);
  _gpu_storage_lock_shared (pair->roots[1 - first]);
}

static void
unlock_roots (Pair *pair)
{
  _gpu_storage_unlock_shared (pair->roots[0]);
  _gpu_storage_unlock_shared (pair->roots[1]);
}

static void
lock_failures (Pair *pair)
{
  guint first = pair->sides[0].timeline->context < pair->sides[1].timeline->context ? 0 : 1;

  for (guint i = 0; i < 2; i++)
    {
      guint side = i == 0 ? first : 1 - first;

      if (pair->submitters[side].has_failure_lock)
        g_mutex_lock (&pair->sides[side].timeline->context->failure_lock);
    }
}

static void
unlock_failures (Pair *pair)
{
  for (guint side = 0; side < 2; side++)
    {
      if (pair->submitters[side].has_failure_lock)
        g_mutex_unlock (&pair->sides[side].timeline->context->failure_lock);

      pair->submitters[side].has_failure_lock = FALSE;
    }
}

static void
unlock_sides (Pair  *pair,
              guint  sides)
{
  sides &= pair->locked;
  pair->locked &= ~sides;

  for (guint side = 0; side < 2; side++)
    {
      if ((sides & 1u << side) != 0)
        _gpu_timeline_unlock (pair->sides[side].timeline);
    }
}

/* FALSE if the failure lock of a side is needed that is not held. */
static gboolean
try_lock_timelines (Pair *pair)
{
  gboolean success = TRUE;

  _gpu_timeline_lock (pair->sides[pair->user].timeline);
  _gpu_timeline_lock (pair->sides[1 - pair->user].timeline);
  pair->locked = BOTH;

  for (guint side = 0; side < 2; side++)
    {
      if (pair->submitters[side].has_failure_lock
          || !_gpu_timeline_may_fail_locked (pair->sides[side].timeline))
        continue;

      pair->submitters[side].has_failure_lock = TRUE;
      success = FALSE;
    }

  return success;
}

/* The failure locks come first, and only what has to do with events of the user takes them. */
static void
lock_timelines (Pair *pair)
{
  for (guint side = 0; side < 2; side++)
    pair->submitters[side].has_failure_lock = pair->submitters[side].may_fail;

  while (TRUE)
    {
      gboolean held[] = { pair->submitters[0].has_failure_lock,
                          pair->submitters[1].has_failure_lock };

      lock_failures (pair);

      if (try_lock_timelines (pair))
        return;

      unlock_sides (pair, BOTH);

      for (guint side = 0; side < 2; side++)
        {
          if (held[side])
            g_mutex_unlock (&pair->sides[side].timeline->context->failure_lock);
        }
    }
}

static gboolean
order_locked (Pair    *pair,
              guint    sides,
              GError **error)
{
  for (guint side = 0; side < 2; side++)
    {
      GpuSubmitter *s = &pair->submitters[side];

      if ((sides & 1u << side) == 0)
        continue;

      pair->failed = side;
      _gpu_timeline_inherit_across_locked (s->timeline, pair->across[1 - side]);

      if ((s->has_failure_lock && s->waits != NULL && !_gpu_submitter_drop_failed (s, error))
          || !_gpu_submitter_order_locked (s, error)
          || (s->is_exclusive && !_gpu_submitter_attach_locked (s, error))
          || (s->is_external && !_gpu_submitter_acquire_locked (s, error)))
        return FALSE;
    }

  return TRUE;
}

/* Sets @event to the last command in the user's stream, if there is a waiter. */
static gboolean
release_locked (Pair            *pair,
                guint            sides,
                gboolean         success,
                GpuNativeEvent **event,
                GError         **error)
{
  for (guint side = 0; side < 2; side++)
    {
      GpuSubmitter *s = &pair->submitters[side];
      gboolean is_last = side == pair->user && pair->pending != NULL;

      if (!s->is_external || (sides & 1u << side) == 0
          || _gpu_submitter_release_locked (s, success, is_last && success ? event : NULL,
                                            success ? error : NULL)
          || !success)
        continue;

      pair->failed = side;
      success = FALSE;

      for (guint i = 0; i < 2; i++)
        pair->sides[i].timeline->stream->partial |= (sides & 1u << i) != 0;
    }

  return success;
}

/* Counts a partial submission as a use of all its memory. */
static void
enter_locked (Pair           *pair,
              guint           sides,
              gboolean        success,
              GpuNativeEvent *last)
{
  for (guint side = 0; side < 2; side++)
    {
      GpuTimeline *timeline = pair->sides[side].timeline;
      const GpuSubmission *submission = &pair->sides[side].submission;
      gboolean is_user = side == pair->user;
      GpuPending *pending = success && is_user ? pair->pending : NULL;

      if ((sides & 1u << side) == 0)
        continue;

      if (!success && !timeline->stream->partial)
        ;
      else if (is_user && last != NULL)
        _gpu_submission_enter_locked (submission, timeline, last, g_steal_pointer (&pair->event),
                                      pending);
      else
        _gpu_submission_enter_locked (submission, timeline,
                                      is_user ? g_steal_pointer (&pair->event) : NULL, NULL,
                                      pending);

      timeline->stream->partial = FALSE;
      _gpu_submitter_keep_handover_locked (&pair->submitters[side]);
    }
}

static gboolean
run_locked (Pair     *pair,
            guint     sides,
            gboolean  may_fail,
            GError  **error)
{
  GpuNativeStream *streams[] = { pair->sides[0].timeline->stream,
                                 pair->sides[1].timeline->stream };
  GpuNativeEvent *last = NULL;
  gboolean success;

  pair->submitters[0].keeps_events = pair->submitters[1].keeps_events = may_fail;
  success = order_locked (pair, sides, error)
            && pair->run (pair->data, streams, sides, may_fail, &pair->event, &pair->failed,
                          error);
  success = release_locked (pair, sides, success, &last, error);
  enter_locked (pair, sides, success, last);

  return success;
}

/* The side whose driver has events of the user comes first, if the other one's has none: that may
 * make this thread wait until one is set, which needs the failure lock. Nobody waits for a timeline
 * with that lock meanwhile but for the other one, which only this stream's pairs lock so. */
static gboolean
run_sides (Pair    *pair,
           GError **error)
{
  gboolean has_lock[] = { pair->submitters[0].has_failure_lock,
                          pair->submitters[1].has_failure_lock };
  guint first = has_lock[1] ? 1 : 0;

  if (has_lock[0] == has_lock[1])
    return run_locked (pair, BOTH, has_lock[0], error);

  if (!run_locked (pair, 1u << first, TRUE, error))
    return FALSE;

  unlock_sides (pair, 1u << first);
  unlock_failures (pair);

  return run_locked (pair, 1u << (1 - first), TRUE, error);
}

static gpointer
copy_ref (gconstpointer across,
          gpointer      data G_GNUC_UNUSED)
{
  return _gpu_across_ref ((GpuAcross *) across);
}

static void
list_across_locked (Pair *pair)
{
  for (guint side = 0; side < 2; side++)
    {
      GpuSubmitter *s = &pair->submitters[side];
      GPtrArray *list = _gpu_timeline_list_across_locked (s->timeline, G_MAXUINT64);

      for (guint i = 0; s->waits != NULL && i < s->waits->len; i++)
        {
          GPtrArray *inherited = g_array_index (s->waits, GpuFenceWait, i).across;

          if (inherited == NULL)
            continue;

          if (list == NULL)
            list = g_ptr_array_new_with_free_func ((GDestroyNotify) _gpu_across_unref);

          g_ptr_array_extend (list, inherited, copy_ref, NULL);
        }

      pair->across[side] = list;
    }
}

/* With the locks of the roots. */
static gboolean
submit_locked (Pair    *pair,
               GError **error)
{
  GMutex *pair_lock = &pair->sides[pair->user].timeline->pair_lock;
  gboolean success;

  for (pair->failed = 0; pair->failed < 2; pair->failed++)
    {
      GpuSubmitter *s = &pair->submitters[pair->failed];

      if (!_gpu_submission_check_locked (s->submission, error))
        return FALSE;

      _gpu_submitter_claim (s);

      if (!_gpu_submitter_collect_locked (s, error))
        return FALSE;
    }

  g_mutex_lock (pair_lock);
  lock_timelines (pair);
  list_across_locked (pair);
  success = run_sides (pair, error);
  unlock_sides (pair, BOTH);
  unlock_failures (pair);
  g_mutex_unlock (pair_lock);

  return success;
}

static gboolean
end (Pair    *pair,
     GError  *failure,
     GError **error)
{
  for (guint side = 0; side < 2; side++)
    {
      GpuSubmitter *s = &pair->submitters[side];

      if (s->lost != NULL)
        _gpu_native_context_report (s->lost, s->loss);

      _gpu_submitter_clear (s);
      g_clear_pointer (&pair->across[side], g_ptr_array_unref);
    }

  if (failure == NULL)
    return TRUE;

  /* The user's side went in, and the other one failed. */
  if (pair->pending != NULL)
    g_clear_pointer (&pair->pending->event, _gpu_native_event_unref);

  g_clear_pointer (&pair->event, _gpu_native_event_unref);
  _gpu_native_context_report (pair->sides[pair->failed].timeline->context, failure);
  g_propagate_error (error, failure);

  return FALSE;
}

gboolean
_gpu_submit_pair (GpuPairSide  *sides,
                  guint         user,
                  GpuPairFunc   run,
                  gpointer      data,
                  GpuPending   *pending,
                  GError      **error)
{
  Pair pair = { .sides = sides, .user = user, .run = run, .data = data,
                .pending = pending };
  GError *failure = NULL;

  for (guint side = 0; side < 2; side++)
    {
      GpuAccess *access = sides[side].submission.accesses;

      access->storage = access->memory->storage;
      pair.roots[side] = access->storage->root;
      pair.submitters[side].timeline = sides[side].timeline;
      pair.submitters[side].submission = &sides[side].submission;
      pair.submitters[side].roots = &pair.roots[side];
      pair.submitters[side].n_roots = 1;
    }

  lock_roots (&pair);

  if (!submit_locked (&pair, &failure)
      && !g_str_has_prefix (failure->message, sides[user].submission.function))
    g_prefix_error (&failure, "%s: ", sides[user].submission.function);

  unlock_roots (&pair);

  return end (&pair, failure, error);
}
