/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * One operation in two streams. All locks of both are held until both have it: so of two such
 * operations that share streams or memory one comes before the other everywhere, and never each
 * waits for the other.
 */
#include "config.h"

#include "gpumem/gpu-context-private.h"
#include "gpumem/gpu-submission-order-private.h"

typedef struct
{
  GpuPairSide  *sides;
  guint         user;
  GpuPairFunc   run;
  gpointer      data;
  GpuPending   *pending;            /* nullable */
  GpuSubmitter  submitters[2];
  GpuStorage   *roots[2];
  guint         failed;             /* the side that did */
} Pair;

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
    }
}

static void
unlock_timelines (Pair *pair)
{
  _gpu_timeline_unlock (pair->sides[1 - pair->user].timeline);
  _gpu_timeline_unlock (pair->sides[pair->user].timeline);
}

/* FALSE if the failure lock of a side is needed that is not held. */
static gboolean
try_lock_timelines (Pair *pair)
{
  gboolean success = TRUE;

  _gpu_timeline_lock (pair->sides[pair->user].timeline);
  _gpu_timeline_lock (pair->sides[1 - pair->user].timeline);

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

      unlock_timelines (pair);

      for (guint side = 0; side < 2; side++)
        {
          if (held[side])
            g_mutex_unlock (&pair->sides[side].timeline->context->failure_lock);
        }
    }
}

static gboolean
order_locked (Pair    *pair,
              GError **error)
{
  for (guint side = 0; side < 2; side++)
    {
      GpuSubmitter *s = &pair->submitters[side];

      pair->failed = side;

      if ((s->has_failure_lock && s->waits != NULL && !_gpu_submitter_drop_failed (s, error))
          || !_gpu_submitter_order_locked (s, error)
          || (s->is_exclusive && !_gpu_submitter_attach_locked (s, error))
          || (s->is_external && !_gpu_submitter_acquire_locked (s, error)))
        return FALSE;
    }

  return TRUE;
}

/* @event becomes what is the last thing in the user's stream, where somebody waits for it. */
static gboolean
release_locked (Pair            *pair,
                gboolean         success,
                GpuNativeEvent **event,
                GError         **error)
{
  for (guint side = 0; side < 2; side++)
    {
      GpuSubmitter *s = &pair->submitters[side];
      gboolean is_last = side == pair->user && pair->pending != NULL;

      if (!s->is_external
          || _gpu_submitter_release_locked (s, success, is_last && success ? event : NULL,
                                            success ? error : NULL)
          || !success)
        continue;

      pair->failed = side;
      success = FALSE;

      for (guint i = 0; i < 2; i++)
        pair->sides[i].timeline->stream->partial = TRUE;
    }

  return success;
}

/* What was attached, or is in a stream already, uses the memory as all of it would have. */
static void
enter_locked (Pair           *pair,
              gboolean        success,
              GpuNativeEvent *event,
              GpuNativeEvent *timed)
{
  for (guint side = 0; side < 2; side++)
    {
      GpuTimeline *timeline = pair->sides[side].timeline;
      GpuPending *pending = success && side == pair->user ? pair->pending : NULL;

      if (success || timeline->stream->partial)
        _gpu_submission_enter_locked (&pair->sides[side].submission, timeline,
                                      side == pair->user ? event : NULL,
                                      side == pair->user ? timed : NULL, pending);

      timeline->stream->partial = FALSE;
      _gpu_submitter_keep_handover_locked (&pair->submitters[side]);
    }
}

static gboolean
run_locked (Pair    *pair,
            GError **error)
{
  GpuNativeStream *streams[] = { pair->sides[0].timeline->stream,
                                 pair->sides[1].timeline->stream };
  gboolean may_fail = pair->submitters[0].has_failure_lock || pair->submitters[1].has_failure_lock;
  GpuNativeEvent *event = NULL;
  GpuNativeEvent *last = NULL;
  gboolean success;

  pair->submitters[0].keeps_events = pair->submitters[1].keeps_events = may_fail;
  success = order_locked (pair, error)
            && pair->run (pair->data, streams, may_fail, &event, &pair->failed, error);
  success = release_locked (pair, success, &last, error);

  if (last != NULL)
    enter_locked (pair, success, last, event);
  else
    enter_locked (pair, success, event, NULL);

  return success;
}

/* With the locks of the roots. */
static gboolean
submit_locked (Pair    *pair,
               GError **error)
{
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

  lock_timelines (pair);
  success = run_locked (pair, error);
  unlock_timelines (pair);
  unlock_failures (pair);

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
    }

  if (failure == NULL)
    return TRUE;

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
