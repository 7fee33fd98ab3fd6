/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/gpu-context-private.h"
#include "gpumem/gpu-debug-private.h"
#include "gpumem/gpu-submission-private.h"
#include "gpumem/gpu-user-event-private.h"

#define MAX_ROOTS 16

/* A barrier out of order costs drivers a look at everything that is not complete, so a stream whose
 * operations depend on others must not run away from the device. */
#define MAX_BEHIND 64

typedef struct
{
  GpuTimeline         *timeline;
  const GpuSubmission *submission;
  GpuStorage         **roots;       /* each once, by address, locked */
  guint                n_roots;
  GPtrArray           *waits;       /* of GpuFence on other timelines; NULL while there is none */
  GPtrArray           *user_events; /* that may fail the waits; NULL likewise */
  GpuNativeEvent      *user_wait;   /* of the submission's user event, nullable */
  guint64              own;         /* the last point of this timeline that must come before */
} Submitter;

static gboolean
check_memories (const GpuSubmission  *submission,
                GpuTimeline          *timeline,
                GError              **error)
{
  for (guint i = 0; i < submission->n_accesses; i++)
    {
      GpuMemory *memory = submission->accesses[i].memory;

      if (memory == NULL)
        continue;

      if (G_UNLIKELY (memory->storage == NULL))
        return _gpu_memory_check (memory, submission->function, error);

      submission->accesses[i].storage = memory->storage;

      if (G_UNLIKELY (memory->storage->context != timeline->context))
        {
          g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                       "%s: the memory %p and the stream belong to different contexts",
                       submission->function, (void *) memory);
          return FALSE;
        }
    }

  return TRUE;
}

/* Locks are taken by address, so that two submissions never wait for each other. */
static void
lock_roots (Submitter *s)
{
  if (s->submission->n_accesses == 1)
    {
      s->roots[s->n_roots++] = s->submission->accesses[0].storage->root;
      g_mutex_lock (&s->roots[0]->lock);
      return;
    }

  for (guint i = 0; i < s->submission->n_accesses; i++)
    {
      GpuStorage *root = s->submission->accesses[i].storage->root;
      guint at = s->n_roots;

      while (at > 0 && s->roots[at - 1] > root)
        at--;

      if (at > 0 && s->roots[at - 1] == root)
        continue;

      memmove (&s->roots[at + 1], &s->roots[at], (s->n_roots - at) * sizeof *s->roots);
      s->roots[at] = root;
      s->n_roots++;
    }

  for (guint i = 0; i < s->n_roots; i++)
    g_mutex_lock (&s->roots[i]->lock);
}

static void
unlock_roots (Submitter *s)
{
  for (guint i = s->n_roots; i > 0; i--)
    g_mutex_unlock (&s->roots[i - 1]->lock);
}

/* With the locks held: what another thread may change. */
static gboolean
check_access_locked (const Submitter  *s,
                     const GpuAccess  *access,
                     GError          **error)
{
  GpuStorage *storage = access->storage;
  const GpuMappedRange *clash;

  if (access->memory == NULL)
    return TRUE;

  if (!_gpu_memory_check (access->memory, s->submission->function, error))
    return FALSE;

  if (storage->root->mapped == NULL || (storage->root->flags & GPU_MEMORY_UNTRACKED) != 0)
    return TRUE;

  clash = _gpu_storage_find_clash_locked (storage->root, storage->offset + access->offset,
                                          access->size, access->write);

  if (clash == NULL)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_BUSY,
               "%s: bytes %" G_GSIZE_FORMAT " to %" G_GSIZE_FORMAT " would be %s while bytes %"
               G_GSIZE_FORMAT " to %" G_GSIZE_FORMAT " are mapped for %s; unmap them first",
               s->submission->function, storage->offset + access->offset,
               storage->offset + access->offset + access->size,
               access->write ? "written" : "read", clash->offset, clash->offset + clash->size,
               clash->write ? "writing" : "reading");

  return FALSE;
}

/* The fence and what may fail it are taken as of one moment: once it has failed, nothing would tell
 * that it must not be waited for. */
static gboolean
add_fence (Submitter       *s,
           const GpuPoint  *point,
           GError         **error)
{
  GpuTimeline *timeline = point->timeline;
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&timeline->lock);
  g_autoptr (GpuFence) fence = NULL;

  if (timeline->completed >= point->seq)
    return TRUE;

  fence = _gpu_timeline_get_fence_locked (timeline, point->seq, error);

  if (fence == NULL)
    return FALSE;

  if (s->waits == NULL)
    {
      s->waits = g_ptr_array_new_with_free_func ((GDestroyNotify) _gpu_fence_unref);
      s->user_events = g_ptr_array_new_with_free_func ((GDestroyNotify) _gpu_user_event_unref);
    }

  if (!g_ptr_array_find (s->waits, fence, NULL))
    {
      _gpu_timeline_list_user_events_locked (timeline, fence->seq, s->user_events);
      g_ptr_array_add (s->waits, g_steal_pointer (&fence));
    }

  return TRUE;
}

/* A use on the same stream costs a compare. */
static inline gboolean
add_wait (Submitter       *s,
          const GpuPoint  *point,
          GError         **error)
{
  if (point->timeline == s->timeline)
    {
      s->own = MAX (s->own, point->seq);
      return TRUE;
    }

  return !_gpu_point_is_pending (point) || add_fence (s, point, error);
}

static gboolean
add_waits_locked (Submitter   *s,
                  GpuStorage  *root,
                  gboolean     write,
                  GError     **error)
{
  if ((root->flags & GPU_MEMORY_UNTRACKED) != 0)
    return TRUE;

  if (!add_wait (s, &root->writer, error))
    return FALSE;

  if (!write)
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

/* The user event that failed says more of the reason than the driver. Takes @failure over. */
static void
propagate_cause (Submitter  *s,
                 GError     *failure,
                 GError    **error)
{
  for (guint i = 0; i < s->user_events->len; i++)
    {
      g_autoptr (GError) cause = NULL;

      if (_gpu_user_event_query (s->user_events->pdata[i], &cause) == GPU_EVENT_STATUS_FAILED)
        {
          g_error_free (failure);
          failure = g_steal_pointer (&cause);
          break;
        }
    }

  g_propagate_error (error, failure);
}

/* What is still pending does not come from them. */
static void
forget_failed_events (Submitter *s)
{
  for (guint i = s->user_events->len; i > 0; i--)
    {
      if (_gpu_user_event_query (s->user_events->pdata[i - 1], NULL) == GPU_EVENT_STATUS_FAILED)
        g_ptr_array_remove_index_fast (s->user_events, i - 1);
    }
}

/* With the failure lock held: what has failed by now is over, and must not be waited for. FALSE if
 * it is what the caller asked to wait for. */
static gboolean
drop_failed_waits (Submitter  *s,
                   GError    **error)
{
  const GpuEventOps *ops = s->timeline->context->backend->event;

  for (guint i = s->waits->len; i > 0; i--)
    {
      g_autoptr (GError) failure = NULL;
      GpuFence *fence = g_ptr_array_index (s->waits, i - 1);

      if (ops->query (fence->event, &failure) != GPU_EVENT_STATUS_FAILED)
        continue;

      g_ptr_array_remove_index_fast (s->waits, i - 1);

      if (s->submission->after != NULL)
        {
          propagate_cause (s, g_steal_pointer (&failure), error);
          return FALSE;
        }
    }

  forget_failed_events (s);

  return TRUE;
}

/* Who waits for work submitted before must not wait for a user's event as well. */
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

static gboolean
wait_locked (Submitter              *s,
             GpuNativeEvent *const  *events,
             guint                   n_events,
             GError                **error)
{
  GpuTimeline *timeline = s->timeline;
  gboolean is_users = s->user_wait != NULL || s->user_events->len > 0;
  gboolean may_fail = is_users || _gpu_timeline_may_fail_locked (timeline);
  GpuNativeEvent *event = NULL;

  if (is_users && !fence_off_locked (timeline, error))
    return FALSE;

  if (!timeline->context->backend->stream->wait (timeline->stream, events, n_events,
                                                 may_fail ? &event : NULL, error))
    return FALSE;

  if (event != NULL)
    _gpu_timeline_keep_event_locked (timeline, event);

  if (s->user_wait != NULL)
    _gpu_timeline_wait_user_locked (timeline, timeline->submitted, s->submission->user_event);

  for (guint i = 0; s->user_events != NULL && i < s->user_events->len; i++)
    _gpu_timeline_wait_user_locked (timeline, timeline->submitted, s->user_events->pdata[i]);

  return TRUE;
}

/* After the failure of a user event: has the stream wait for what came before it. */
static gboolean
mend_order_locked (GpuTimeline  *timeline,
                   GError      **error)
{
  g_autoptr (GPtrArray) events = g_ptr_array_new ();
  GpuNativeEvent *event = NULL;

  _gpu_timeline_list_overtaken_locked (timeline, events);

  if (events->len == 0)
    return TRUE;

  if (!timeline->context->backend->stream->wait (timeline->stream,
                                                 (GpuNativeEvent *const *) events->pdata,
                                                 events->len, &event, error))
    return FALSE;

  _gpu_timeline_keep_event_locked (timeline, event);

  return TRUE;
}

/* With the timeline's lock held: has the stream wait for what came before elsewhere. */
static gboolean
order_locked (Submitter  *s,
              GError    **error)
{
  GpuTimeline *timeline = s->timeline;
  g_autofree GpuNativeEvent **events = NULL;

  if (G_UNLIKELY (timeline->user_waits->len > 0) && !mend_order_locked (timeline, error))
    return FALSE;

  if ((timeline->flags & GPU_STREAM_FLAGS_OUT_OF_ORDER) != 0 && s->own > timeline->barrier
      && !_gpu_timeline_barrier_locked (timeline, error))
    return FALSE;

  if (s->user_wait != NULL)
    return wait_locked (s, &s->user_wait, 1, error);

  if (s->waits == NULL || s->waits->len == 0)
    return TRUE;

  events = g_new (GpuNativeEvent *, s->waits->len);

  for (guint i = 0; i < s->waits->len; i++)
    events[i] = ((GpuFence *) s->waits->pdata[i])->event;

  if (_gpu_debug_has (GPU_DEBUG_HAZARDS))
    _gpu_debug_print (GPU_DEBUG_HAZARDS, "%s: timeline %p waits for %u others",
                      s->submission->function, (void *) timeline, s->waits->len);

  if (s->submission->after == NULL)
    __atomic_add_fetch (&timeline->n_hazard_waits, s->waits->len, __ATOMIC_RELAXED);

  return wait_locked (s, events, s->waits->len, error);
}

static void
commit_event_locked (Submitter       *s,
                     guint64          seq,
                     GpuNativeEvent  *event,
                     GpuPending      *pending)
{
  GpuTimeline *timeline = s->timeline;

  if ((timeline->flags & GPU_STREAM_FLAGS_PROFILING) != 0)
    {
      g_clear_pointer (&timeline->timed_event, _gpu_native_event_unref);
      timeline->timed_event = _gpu_native_event_ref (event);
      timeline->timed_seq = seq;
    }

  if (pending == NULL)
    {
      _gpu_timeline_keep_locked (timeline, event, (GDestroyNotify) _gpu_native_event_unref, 0);
      return;
    }

  pending->event = event;
  pending->covers = (timeline->flags & GPU_STREAM_FLAGS_OUT_OF_ORDER) != 0 ? 0 : seq;
}

static void
commit_locked (Submitter      *s,
               GpuNativeEvent *event,
               GpuPending     *pending)
{
  const GpuSubmission *submission = s->submission;
  GpuTimeline *timeline = s->timeline;
  guint64 seq = _gpu_timeline_submit_locked (timeline);

  for (guint i = 0; i < submission->n_accesses; i++)
    {
      const GpuAccess *access = &submission->accesses[i];

      _gpu_storage_set_use_locked (access->storage->root, timeline, seq, access->write);
    }

  if (submission->keep != NULL)
    _gpu_timeline_keep_locked (timeline, submission->keep, submission->release,
                               submission->keep_size);

  if (event != NULL)
    commit_event_locked (s, seq, event, pending);
}

static gboolean
run_locked (Submitter   *s,
            GpuPending  *pending,
            GError     **error)
{
  const GpuSubmission *submission = s->submission;
  GpuTimeline *timeline = s->timeline;
  GpuNativeEvent *event = NULL;
  gboolean with_event;

  if (!order_locked (s, error))
    return FALSE;

  with_event = pending != NULL || (timeline->flags & GPU_STREAM_FLAGS_PROFILING) != 0
               || _gpu_timeline_may_fail_locked (timeline);

  if (submission->run != NULL
      && !submission->run (submission->operation, timeline->stream, with_event ? &event : NULL,
                           error))
    return FALSE;

  commit_locked (s, event, pending);

  return TRUE;
}

static gboolean
check_accesses_locked (Submitter  *s,
                       GError    **error)
{
  for (guint i = 0; i < s->submission->n_accesses; i++)
    {
      if (!check_access_locked (s, &s->submission->accesses[i], error))
        return FALSE;
    }

  return TRUE;
}

static gboolean
add_all_waits_locked (Submitter  *s,
                      GError    **error)
{
  const GpuSubmission *submission = s->submission;

  for (guint i = 0; i < submission->n_accesses; i++)
    {
      const GpuAccess *access = &submission->accesses[i];

      if (!add_waits_locked (s, access->storage->root, access->write, error))
        return FALSE;
    }

  return submission->after == NULL || add_wait (s, submission->after, error);
}

static gboolean
run_with_waits (Submitter   *s,
                GpuPending  *pending,
                GError     **error)
{
  GpuUserEvent *user_event = s->submission->user_event;
  gboolean success;

  if (user_event != NULL && !_gpu_user_event_get_native (user_event, &s->user_wait, error))
    return FALSE;

  _gpu_timeline_lock (s->timeline);
  success = run_locked (s, pending, error);
  _gpu_timeline_unlock (s->timeline);

  return success;
}

/* With the locks of the roots held. */
static gboolean
submit_locked (Submitter   *s,
               GpuPending  *pending,
               GError     **error)
{
  gboolean may_fail;
  gboolean success;

  if (!check_accesses_locked (s, error))
    return FALSE;

  success = add_all_waits_locked (s, error);
  may_fail = s->submission->user_event != NULL || (s->waits != NULL && s->user_events->len > 0);

  if (success && may_fail)
    {
      g_mutex_lock (&s->timeline->context->failure_lock);

      success = (s->waits == NULL || drop_failed_waits (s, error))
                && run_with_waits (s, pending, error);
      g_mutex_unlock (&s->timeline->context->failure_lock);
    }
  else if (success)
    {
      success = run_with_waits (s, pending, error);
    }

  if (!success)
    g_prefix_error (error, "%s: ", s->submission->function);

  return success;
}

static void
submitter_clear (Submitter *s)
{
  g_clear_pointer (&s->waits, g_ptr_array_unref);
  g_clear_pointer (&s->user_events, g_ptr_array_unref);
  g_clear_pointer (&s->user_wait, _gpu_native_event_unref);
}

/* Nobody but the device must be needed for going on: not the user's event, for one. */
static gboolean
must_catch_up (GpuTimeline *timeline)
{
  g_autoptr (GMutexLocker) locker = NULL;
  guint64 submitted = _gpu_timeline_get_submitted (timeline);

  if (G_LIKELY ((timeline->flags & GPU_STREAM_FLAGS_OUT_OF_ORDER) == 0)
      || submitted < MAX_BEHIND
      || _gpu_timeline_is_complete (timeline, submitted - MAX_BEHIND))
    return FALSE;

  locker = g_mutex_locker_new (&timeline->lock);

  return timeline->user_waits->len == 0;
}

gboolean
_gpu_submit (GpuTimeline          *timeline,
             const GpuSubmission  *submission,
             GpuPending           *pending,
             GError              **error)
{
  GpuStorage *few[MAX_ROOTS];
  g_autofree GpuStorage **many = NULL;
  g_autoptr (GError) failure = NULL;
  Submitter s = { .timeline = timeline, .submission = submission, .roots = few };

  /* How the work ended is told to who waits for it. */
  if (must_catch_up (timeline))
    _gpu_timeline_wait (timeline, _gpu_timeline_get_submitted (timeline), NULL);

  if (G_UNLIKELY (!_gpu_native_context_check (timeline->context, &failure)))
    g_prefix_error (&failure, "%s: ", submission->function);
  else if (check_memories (submission, timeline, &failure))
    {
      if (submission->n_accesses > MAX_ROOTS)
        s.roots = many = g_new (GpuStorage *, submission->n_accesses);

      lock_roots (&s);
      submit_locked (&s, pending, &failure);
      unlock_roots (&s);
      submitter_clear (&s);
    }

  if (G_LIKELY (failure == NULL))
    return TRUE;

  _gpu_native_context_report (timeline->context, failure);
  g_propagate_error (error, g_steal_pointer (&failure));

  return FALSE;
}
