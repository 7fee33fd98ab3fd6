/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The part of a submission that most operations run, as inline functions: the compiler removes the
 * checks that the operation of the caller does not need, and fewer functions are between the public
 * function and the driver. A driver call is so deep that the processor forgets the return addresses
 * of outer functions, and mispredicts their returns.
 */
#pragma once

#include "gpumem/device/gpu-context-private.h"
#include "gpumem/stream/gpu-submission-hazard-private.h"

G_BEGIN_DECLS

/* The parts that few operations run. */
GPU_COLD gboolean
         _gpu_submission_prepare          (GpuTimeline            *timeline,
                                           const GpuSubmission    *submission,
                                           const GpuPending       *pending);
GPU_COLD gboolean
         _gpu_submission_fail_access      (const GpuSubmission    *submission,
                                           const GpuNativeContext *context,
                                           const GpuAccess        *access,
                                           GError                **error);
gboolean _gpu_submission_retain_in_graph_locked (GpuTimeline      *timeline,
                                           const GpuSubmission    *submission,
                                           GError                **error);
gboolean _gpu_submission_fail_locked      (GpuTimeline            *timeline,
                                           const GpuSubmission    *submission,
                                           GpuNativeEvent         *event,
                                           GpuPending             *pending);
void     _gpu_submission_commit_event_locked (GpuTimeline         *timeline,
                                           guint64                 seq,
                                           GpuNativeEvent         *event,
                                           GpuPending             *pending);
gboolean _gpu_submission_run_pending_locked (GpuTimeline          *timeline,
                                           const GpuSubmission    *submission,
                                           GpuPending             *pending,
                                           GError                **error);
gboolean _gpu_submission_run_map_locked   (GpuTimeline            *timeline,
                                           const GpuSubmission    *submission,
                                           GError                **error);
gboolean _gpu_submit_again                (GpuTimeline            *timeline,
                                           const GpuSubmission    *submission,
                                           GpuPending             *pending,
                                           GError                **error);
GPU_COLD gboolean
         _gpu_submit_marked               (GpuTimeline            *timeline,
                                           const GpuSubmission    *submission,
                                           GpuPending             *pending,
                                           GError                **error);
GPU_COLD gboolean
         _gpu_submission_fail             (GpuTimeline            *timeline,
                                           GError                 *failure,
                                           GError                **error);

/* Sets the storage of each access and checks the state of the memory.
 * _gpu_submission_check_locked() repeats the check, because another thread may release the memory
 * in the meantime. The first check takes no locks, because a thread that spills the memory may hold
 * them for long. */
G_ALWAYS_INLINE static inline gboolean
_gpu_submission_check_memories (const GpuSubmission  *submission,
                                GpuTimeline          *timeline,
                                GError              **error)
{
  const GpuNativeContext *context = timeline->context;
  GpuAccess *end = submission->accesses + submission->n_accesses;

  for (GpuAccess *access = submission->accesses; access < end; access++)
    {
      GpuMemory *memory = access->memory;

      if (G_LIKELY (memory != NULL))
        {
          access->storage = memory->storage;
          access->is_promoted = FALSE;

          if ((G_UNLIKELY (access->storage == NULL)
               || G_UNLIKELY (_gpu_memory_is_refused (memory, access->write))
               || (G_UNLIKELY (access->storage->context != context) && !submission->peers))
              && !_gpu_submission_fail_access (submission, context, access, error))
            return FALSE;
        }
    }

  return TRUE;
}

/* Returns whether check_access_locked() can be skipped. Reads the state first: the locks do not
 * protect the other fields of released memory. */
G_ALWAYS_INLINE static inline gboolean
_gpu_access_is_usable_locked (const GpuAccess *access)
{
  return G_LIKELY (access->memory != NULL)
         && G_LIKELY (g_atomic_int_get (&access->memory->state) == GPU_MEMORY_STATE_USABLE)
         && G_LIKELY (access->storage->root->mapped == NULL);
}

G_ALWAYS_INLINE static inline void
_gpu_submission_set_uses_locked (GpuTimeline         *timeline,
                                 const GpuSubmission *submission,
                                 guint64              seq)
{
  const GpuAccess *end = submission->accesses + submission->n_accesses;

  for (const GpuAccess *access = submission->accesses; access < end; access++)
    {
      if (G_UNLIKELY (access->is_promoted))
        _gpu_storage_set_promoted_locked (access->storage->root, timeline, seq);
      else
        _gpu_storage_set_use_locked (access->storage->root, timeline, seq, access->write);
    }
}

/* Counts an operation that the driver accepted, records its uses of memory and retains its
 * objects. */
G_ALWAYS_INLINE static inline guint64
_gpu_submission_count_locked (GpuTimeline         *timeline,
                              const GpuSubmission *submission,
                              const GpuPending    *pending)
{
  guint64 seq = _gpu_timeline_submit_locked (timeline);

  _gpu_submission_set_uses_locked (timeline, submission, seq);

  if (G_UNLIKELY (_gpu_host_wait != NULL) && pending == NULL)
    _gpu_host_wait_add_locked (timeline, seq);

  for (const GpuRetain *retain = submission->retain; retain != NULL; retain = retain->next)
    {
      if (retain->size == 0)
        _gpu_timeline_retain_shared_locked (timeline, retain->object, retain->type);
      else
        _gpu_timeline_retain_locked (timeline, retain->type->retain (retain->object),
                                     retain->type->release, retain->size);
    }

  return seq;
}

/* Calls the driver and records the operation. @known is @submission, or a copy of it that no other
 * function gets, so that the compiler knows its fields. @is_captured: whether the stream joins a
 * capture, which cannot contain the work of threads. */
G_ALWAYS_INLINE static inline gboolean
_gpu_submission_run_locked (GpuTimeline          *timeline,
                            const GpuSubmission  *known,
                            const GpuSubmission  *submission,
                            gboolean              may_fail,
                            gboolean              is_captured,
                            GpuPending           *pending,
                            GError              **error)
{
  gboolean with_event = pending != NULL || may_fail
                        || G_UNLIKELY ((timeline->flags & GPU_STREAM_FLAGS_PROFILING) != 0);
  GpuOperationFunc run = known->run;
  GpuNativeEvent *event = NULL;
  gboolean is_marker;
  guint64 seq;

  if (G_UNLIKELY (known->run_infallible != NULL) && timeline->n_user_waits == 0 && !is_captured)
    run = known->run_infallible;

  if (G_UNLIKELY (g_atomic_int_get (&_gpu_may_capture)) && known->retain != NULL
      && !_gpu_submission_retain_in_graph_locked (timeline, submission, error))
    return FALSE;

  if (G_LIKELY (run != NULL)
      && G_UNLIKELY (!run (known->operation, timeline->stream, with_event ? &event : NULL, error)))
    return _gpu_submission_fail_locked (timeline, submission, event, pending);

  is_marker = run == NULL && timeline->timed_seq == timeline->submitted;
  seq = _gpu_submission_count_locked (timeline, known, pending);

  if (G_UNLIKELY (event != NULL))
    _gpu_submission_commit_event_locked (timeline, seq, event, pending);
  else if (is_marker)
    timeline->timed_seq = seq;

  return TRUE;
}

/* Returns whether all memory is biased to @timeline (no other timeline may have pending uses of the
 * memory), and no work of @timeline waits for a user event. Sets @usable to whether
 * _gpu_submission_check_locked() can be skipped. */
G_ALWAYS_INLINE static inline gboolean
_gpu_submission_is_biased_locked (GpuTimeline         *timeline,
                                  const GpuSubmission *submission,
                                  gboolean            *usable)
{
  const GpuAccess *end = submission->accesses + submission->n_accesses;

  *usable = TRUE;

  for (const GpuAccess *access = submission->accesses; access < end; access++)
    {
      if (G_UNLIKELY (!_gpu_storage_is_biased_to (access->storage->root, timeline)))
        return FALSE;

      if (!_gpu_access_is_usable_locked (access))
        *usable = FALSE;
    }

  return G_LIKELY (timeline->n_user_waits == 0);
}

/* Fast path for a submission that waits for no event, and whose memory is all biased to the stream.
 * For other submissions, does nothing and returns FALSE. */
G_ALWAYS_INLINE static inline gboolean
_gpu_submission_run_biased (GpuTimeline          *timeline,
                            const GpuSubmission  *known,
                            const GpuSubmission  *submission,
                            GpuPending           *pending,
                            GError              **error)
{
  gboolean usable;
  gboolean held;

  if (G_UNLIKELY (known->user_event != NULL) || G_UNLIKELY (known->after != NULL))
    return FALSE;

  _gpu_timeline_lock (timeline);
  held = _gpu_submission_is_biased_locked (timeline, known, &usable);

  /* Memory biased to an in-order stream has no hazards. */
  if (G_LIKELY (held) && (G_LIKELY (usable) || _gpu_submission_check_locked (submission, error)))
    {
      gboolean success = G_UNLIKELY (pending != NULL)
                         ? _gpu_submission_run_pending_locked (timeline, submission, pending, error)
                         : G_UNLIKELY (known->maps)
                         ? _gpu_submission_run_map_locked (timeline, submission, error)
                         : _gpu_submission_run_locked (timeline, known, submission, FALSE, FALSE,
                                                       NULL, error);

      if (G_UNLIKELY (!success))
        g_prefix_error (error, "%s: ", submission->function);
    }

  _gpu_timeline_unlock (timeline);

  return held;
}

/* Like _gpu_submit(). */
G_ALWAYS_INLINE static inline gboolean
_gpu_submit_inline (GpuTimeline          *timeline,
                    const GpuSubmission  *submission,
                    GpuPending           *pending,
                    GError              **error)
{
  const GpuSubmission known = *submission;
  GError *failure = NULL;

  if (G_UNLIKELY ((timeline->flags & (GPU_STREAM_FLAGS_OUT_OF_ORDER | GPU_TIMELINE_MARKS)) != 0)
      && G_UNLIKELY (_gpu_submission_prepare (timeline, submission, pending)))
    return _gpu_submit_marked (timeline, submission, pending, error);

  if (G_UNLIKELY (!_gpu_native_context_check (timeline->context, &failure)))
    g_prefix_error (&failure, "%s: ", submission->function);
  else if (G_LIKELY (_gpu_submission_check_memories (submission, timeline, &failure)))
    {
      /* Do not call _gpu_submission_fail(), which reports the error to this context: the error may
       * be the loss of another context. */
      if (G_UNLIKELY (g_atomic_int_get (&_gpu_timeline_any_failed))
          && !_gpu_submission_check_writers (submission, error))
        return FALSE;

      if (G_UNLIKELY (!_gpu_submission_run_biased (timeline, &known, submission, pending,
                                                    &failure)))
        return _gpu_submit_again (timeline, submission, pending, error);
    }

  return G_LIKELY (failure == NULL) || _gpu_submission_fail (timeline, failure, error);
}

G_END_DECLS
