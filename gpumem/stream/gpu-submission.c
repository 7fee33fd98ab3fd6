/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <string.h>

#include "gpumem/base/gpu-marks-private.h"
#include "gpumem/device/gpu-context-private.h"
#include "gpumem/stream/gpu-submission-hazard-private.h"
#include "gpumem/stream/gpu-submission-inline-private.h"
#include "gpumem/timeline/gpu-user-event-private.h"

const GpuRetainType _gpu_retain_bytes = { (GBoxedCopyFunc) g_bytes_ref,
                                          (GDestroyNotify) g_bytes_unref };

#define MAX_ROOTS 16

/* The maximum number of pending operations of an out-of-order stream. The number is limited because
 * drivers examine every incomplete command for each barrier. */
#define MAX_BEHIND 64

GPU_COLD static gboolean
fail_constant (const GpuSubmission  *submission,
               const GpuAccess      *access,
               GError              **error)
{
  const gsize offset = access->memory->storage->offset + access->offset;

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s: bytes %" G_GSIZE_FORMAT " to %" G_GSIZE_FORMAT " of memory on %s would be "
               "written, but the memory is read only%s", submission->function, offset,
               offset + access->size, access->memory->storage->context->devices[0]->id,
               strstr (submission->function, "launch") == NULL ? ""
               : "; a kernel must take it as an argument that is a pointer to const");

  return FALSE;
}

/* Returns TRUE if the access is allowed, otherwise sets the error. */
gboolean
_gpu_submission_fail_access (const GpuSubmission    *submission,
                             const GpuNativeContext *context,
                             const GpuAccess        *access,
                             GError                **error)
{
  GpuMemory *memory = access->memory;

  if (!_gpu_memory_check_access (memory, access->write, submission->function, error))
    return FALSE;

  /* A submission without an operation writes nothing: the access only orders later work. */
  if (memory->storage->context == context || submission->peers)
    return submission->run == NULL || !memory->is_constant || !access->write
           || fail_constant (submission, access, error);

  return _gpu_native_context_set_memory_mismatch (submission->function, memory->size,
                                                  memory->storage->context, context, error);
}

gboolean
_gpu_submission_check_constant (const GpuSubmission  *submission,
                                GError              **error)
{
  for (guint i = 0; i < submission->n_accesses; i++)
    {
      const GpuAccess *access = &submission->accesses[i];

      if (access->memory != NULL && access->memory->is_constant && access->write)
        return fail_constant (submission, access, error);
    }

  return TRUE;
}

/* Takes the locks in the order of the addresses of the roots, to prevent deadlocks between
 * submissions. */
static void
lock_roots (GpuSubmitter *s)
{
  if (s->submission->n_accesses == 1)
    {
      s->roots[s->n_roots++] = s->submission->accesses[0].storage->root;
      _gpu_storage_lock_shared (s->roots[0]);
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
    _gpu_storage_lock_shared (s->roots[i]);
}

static void
unlock_roots (GpuSubmitter *s)
{
  for (guint i = s->n_roots; i > 0; i--)
    _gpu_storage_unlock_shared (s->roots[i - 1]);
}

/* Returns a mapped range that conflicts with the access, or NULL. For exclusive memory, any mapping
 * conflicts. */
static const GpuMappedRange *
find_clash_locked (const GpuSubmission *submission,
                   const GpuAccess     *access)
{
  GpuStorage *storage = access->storage;
  GpuStorage *root = storage->root;

  if (root->is_exclusive && !submission->maps)
    return root->mapped->len > 0 ? &g_array_index (root->mapped, GpuMappedRange, 0) : NULL;

  return _gpu_storage_find_clash_locked (root, storage->offset + access->offset, access->size,
                                         access->write);
}

/* Checks the state of the memory, which another thread may have changed. Caller holds the locks. */
GPU_COLD static gboolean
check_access_locked (const GpuSubmission  *submission,
                     const GpuAccess      *access,
                     GError              **error)
{
  const char *function = submission->function;
  GpuStorage *storage = access->storage;
  const GpuMappedRange *clash;

  if (access->memory == NULL)
    return TRUE;

  if (!_gpu_memory_check_access (access->memory, access->write, function, error))
    return FALSE;

  if (storage->root->mapped == NULL || (storage->root->flags & GPU_MEMORY_FLAGS_UNTRACKED) != 0)
    return TRUE;

  clash = find_clash_locked (submission, access);

  if (clash == NULL)
    return TRUE;

  if (submission->check_parts != NULL)
    return submission->check_parts (submission->operation, access, error);

  g_set_error (error, GPU_ERROR, GPU_ERROR_BUSY,
               "%s: bytes %" G_GSIZE_FORMAT " to %" G_GSIZE_FORMAT " would be %s while bytes %"
               G_GSIZE_FORMAT " to %" G_GSIZE_FORMAT " are mapped for %s%s; unmap them first",
               function, storage->offset + access->offset,
               storage->offset + access->offset + access->size,
               access->write ? "written" : "read", clash->offset, clash->offset + clash->size,
               clash->write ? "writing" : "reading",
               storage->root->is_exclusive ? ", and the device cannot use any part of this memory "
                                             "while the host may" : "");

  return FALSE;
}

G_GNUC_NO_INLINE gboolean
_gpu_submission_check_locked (const GpuSubmission  *submission,
                              GError              **error)
{
  for (guint i = 0; i < submission->n_accesses; i++)
    {
      const GpuAccess *access = &submission->accesses[i];

      if (!_gpu_access_is_usable_locked (access)
          && !check_access_locked (submission, access, error))
        return FALSE;
    }

  return TRUE;
}

gboolean
_gpu_submission_check_mappings (const char  *function,
                                GpuAccess   *accesses,
                                guint        n_accesses,
                                GError     **error)
{
  for (guint i = 0; i < n_accesses; i++)
    {
      const GpuSubmission part = { .function = function, .accesses = &accesses[i],
                                   .n_accesses = 1 };
      GpuStorage *root;
      gboolean success;

      if (!_gpu_memory_check_access (accesses[i].memory, accesses[i].write, function, error))
        return FALSE;

      accesses[i].storage = accesses[i].memory->storage;
      root = accesses[i].storage->root;

      /* Keeps the bias of the memory, which _gpu_storage_lock_shared() would remove. */
      _gpu_storage_lock (root);
      success = _gpu_submission_check_locked (&part, error);
      _gpu_storage_unlock (root);

      if (!success)
        return FALSE;
    }

  return TRUE;
}

void
_gpu_submission_commit_event_locked (GpuTimeline     *timeline,
                                     guint64          seq,
                                     GpuNativeEvent  *event,
                                     GpuPending      *pending)
{
  if ((timeline->flags & GPU_STREAM_FLAGS_PROFILING) != 0)
    {
      g_clear_pointer (&timeline->timed_event, _gpu_native_event_unref);

      /* The event of a captured operation never gets a time. */
      if (!_gpu_timeline_is_capturing_locked (timeline))
        {
          timeline->timed_event = _gpu_native_event_ref (event);
          timeline->timed_seq = seq;
        }
    }

  if (pending == NULL)
    {
      _gpu_timeline_retain_locked (timeline, event, (GDestroyNotify) _gpu_native_event_unref, 0);
      return;
    }

  pending->event = event;
  pending->seq = seq;
  pending->covers = (timeline->flags & GPU_STREAM_FLAGS_OUT_OF_ORDER) != 0 ? 0 : seq;
}

void
_gpu_submission_enter_locked (const GpuSubmission *submission,
                              GpuTimeline         *timeline,
                              GpuNativeEvent      *event,
                              GpuNativeEvent      *timed,
                              GpuPending          *pending)
{
  guint64 seq = _gpu_submission_count_locked (timeline, submission, pending);

  if (event != NULL)
    _gpu_submission_commit_event_locked (timeline, seq, event, pending);

  if (timed != NULL)
    _gpu_submission_commit_event_locked (timeline, seq, timed, NULL);
}

/* Called after the driver failed. If some commands of @submission were enqueued before the failure,
 * counts them as one operation that uses all the memory of @submission. Returns FALSE. */
gboolean
_gpu_submission_fail_locked (GpuTimeline         *timeline,
                             const GpuSubmission *submission,
                             GpuNativeEvent      *event,
                             GpuPending          *pending)
{
  guint64 seq;

  if (!_gpu_submission_take_partial_locked (timeline))
    return FALSE;

  seq = _gpu_submission_count_locked (timeline, submission, pending);

  if (pending != NULL)
    pending->covers = seq;

  if (event != NULL)
    _gpu_timeline_retain_locked (timeline, event, (GDestroyNotify) _gpu_native_event_unref, 0);

  return FALSE;
}

/* A launch of a graph accesses the same host memory as the captured operation. The program cannot
 * retain the bytes that a language binding copies. */
gboolean
_gpu_submission_retain_in_graph_locked (GpuTimeline          *timeline,
                                        const GpuSubmission  *submission,
                                        GError              **error)
{
  for (const GpuRetain *retain = submission->retain; retain != NULL; retain = retain->next)
    {
      if (retain->type == &_gpu_retain_bytes
          && !_gpu_timeline_retain_in_graph_locked (timeline, retain->object, retain->type, error))
        return FALSE;
    }

  return TRUE;
}

/* Returns whether to run `run_now` under the locks. This is allowed only while the context is idle:
 * the operation then takes about as long as a submission. */
static inline gboolean
can_run_now_locked (GpuTimeline         *timeline,
                    const GpuSubmission *submission)
{
  const GpuStreamFlags flags = GPU_STREAM_FLAGS_OUT_OF_ORDER | GPU_STREAM_FLAGS_PROFILING;

  return submission->run_now != NULL && (timeline->flags & flags) == 0
         && _gpu_timeline_is_alone_locked (timeline);
}

/* Sets `covers` of @pending without an event: there is nothing to wait for. */
GPU_HOT static gboolean
run_now_locked (GpuTimeline          *timeline,
                const GpuSubmission  *submission,
                GpuPending           *pending,
                GError              **error)
{
  if (!submission->run_now (submission->operation, timeline->stream, NULL, error))
    return FALSE;

  pending->covers = _gpu_timeline_pass_locked (timeline);
  _gpu_submission_set_uses_locked (timeline, submission, pending->covers);

  return TRUE;
}

/* Returns whether the event of a command can be a fence: if waits of the back end need a fence
 * anyway, and nothing needs the event of each operation. */
static gboolean
can_keep_fence_locked (GpuTimeline *timeline)
{
  const GpuStreamFlags flags = GPU_STREAM_FLAGS_OUT_OF_ORDER | GPU_STREAM_FLAGS_PROFILING;

  return (timeline->flags & flags) == 0 && timeline->n_user_waits == 0
         && !timeline->context->backend->stream->finish_reports_failure;
}

/* The caller of a map waits for the map. So the event of the map becomes a fence, and the wait
 * records no other. */
gboolean
_gpu_submission_run_map_locked (GpuTimeline          *timeline,
                                const GpuSubmission  *submission,
                                GError              **error)
{
  GpuNativeEvent *event = NULL;
  guint64 seq;

  if (!_gpu_timeline_check_fence_locked (timeline, error))
    return FALSE;

  if (!can_keep_fence_locked (timeline))
    return _gpu_submission_run_locked (timeline, submission, submission, FALSE, FALSE, NULL,
                                       error);

  if (!submission->run (submission->operation, timeline->stream, &event, error))
    return _gpu_submission_fail_locked (timeline, submission, event, NULL);

  seq = _gpu_submission_count_locked (timeline, submission, NULL);

  if (event != NULL)
    _gpu_timeline_add_fence_locked (timeline, seq, event);

  return TRUE;
}

GPU_HOT gboolean
_gpu_submission_run_pending_locked (GpuTimeline          *timeline,
                                    const GpuSubmission  *submission,
                                    GpuPending           *pending,
                                    GError              **error)
{
  if (G_UNLIKELY (g_atomic_int_get (&_gpu_may_capture))
      && !_gpu_timeline_check_fence_locked (timeline, error))
    return FALSE;

  if (can_run_now_locked (timeline, submission))
    return run_now_locked (timeline, submission, pending, error);

  if (pending->if_idle && timeline->completed != timeline->submitted)
    {
      pending->busy = TRUE;
      return TRUE;
    }

  return _gpu_submission_run_locked (timeline, submission, submission, FALSE, FALSE, pending,
                                     error);
}

static gboolean
is_idle_locked (const GpuSubmitter *s)
{
  return s->timeline->completed == s->timeline->submitted && s->user_wait == NULL
         && (s->waits == NULL || s->waits->len == 0);
}

gboolean
_gpu_submitter_attach_locked (GpuSubmitter  *s,
                              GError       **error)
{
  const GpuSubmission *submission = s->submission;
  GpuNativeStream *stream = s->timeline->stream;

  for (guint i = 0; i < submission->n_accesses; i++)
    {
      const GpuAccess *access = &submission->accesses[i];
      GpuStorage *root = access->storage->root;

      if (!root->is_exclusive || access->memory == NULL)
        continue;

      if (!stream->backend->svm->attach (stream, root->buffer,
                                         submission->maps ? GPU_SVM_ATTACHMENT_HOST
                                                          : root->attachment, NULL, error))
        return FALSE;

      s->timeline->is_prepared = TRUE;
    }

  return TRUE;
}

static gboolean
run_attached_locked (GpuSubmitter  *s,
                     GpuPending    *pending,
                     GError       **error)
{
  GpuTimeline *timeline = s->timeline;
  gboolean may_fail = _gpu_timeline_may_fail_locked (timeline);
  gboolean success;

  if (s->is_external && s->submission->run != NULL)
    return _gpu_submitter_run_external_locked (s, pending, error);

  if (!s->is_exclusive)
    return _gpu_submission_run_locked (timeline, s->submission, s->submission, may_fail,
                                       s->captured != 0, pending, error);

  if (!_gpu_submitter_attach_locked (s, error))
    return _gpu_submission_fail_locked (timeline, s->submission, NULL, pending);

  success = _gpu_submission_run_locked (timeline, s->submission, s->submission, may_fail,
                                        s->captured != 0, pending, error);
  timeline->is_prepared = FALSE;

  return success;
}

static gboolean
order_and_run_locked (GpuSubmitter  *s,
                      GpuPending    *pending,
                      GError       **error)
{
  GpuTimeline *timeline = s->timeline;

  if (s->captured != 0 && (pending != NULL || s->submission->maps || _gpu_host_wait != NULL))
    return _gpu_timeline_fail_captured (s->captured, error);

  if ((pending != NULL || s->submission->maps)
      && !_gpu_timeline_check_fence_locked (timeline, error))
    return FALSE;

  if (!_gpu_submitter_isolate_locked (s, error))
    return FALSE;

  if (s->waits == NULL && s->user_wait == NULL && !s->is_exclusive && !s->is_external
      && can_run_now_locked (timeline, s->submission))
    return run_now_locked (timeline, s->submission, pending, error);

  if (pending != NULL && pending->if_idle && !is_idle_locked (s))
    {
      pending->busy = TRUE;
      return TRUE;
    }

  if (!_gpu_submitter_order_locked (s, error))
    return FALSE;

  s->must_retry = s->has_dropped && s->may_retry;

  return !s->must_retry && run_attached_locked (s, pending, error);
}

/* Records a fence behind an operation that waits for another stream or copies between contexts:
 * streams that use memory in turns wait for such operations. A fence that is recorded only when the
 * other stream needs it also waits for all that this stream does in between, and the streams would
 * work one after the other. A fence behind completed work would never be removed. */
static void
record_fence_locked (const GpuSubmitter *s)
{
  GpuTimeline *timeline = s->timeline;
  GpuFence *fence;

  if ((s->waits == NULL && !s->submission->peers) || s->submission->n_accesses == 0
      || timeline->completed == timeline->submitted
      || (timeline->flags & GPU_STREAM_FLAGS_OUT_OF_ORDER) != 0)
    return;

  fence = _gpu_timeline_get_fence_locked (timeline, timeline->submitted, NULL);

  if (fence != NULL)
    _gpu_fence_unref (fence);
}

/* Called after the operation was submitted. */
static void
set_used_locked (const GpuSubmitter *s)
{
  record_fence_locked (s);

  /* An out-of-order stream needs barriers between its own operations, so never bias memory to
   * it. */
  if ((s->timeline->flags & GPU_STREAM_FLAGS_OUT_OF_ORDER) != 0)
    return;

  for (guint i = 0; i < s->n_roots; i++)
    _gpu_storage_bias_locked (s->roots[i], s->timeline);
}

static gboolean
run_shared (GpuSubmitter  *s,
            GpuPending    *pending,
            GError       **error)
{
  GpuTimeline *timeline = s->timeline;
  GpuUserEvent *user_event = s->submission->user_event;
  gboolean success;

  if (user_event != NULL && !_gpu_user_event_get_native (user_event, &s->user_wait, error))
    return FALSE;

  if (s->has_failure_lock)
    _gpu_timeline_lock (timeline);
  else
    s->has_failure_lock = _gpu_timeline_lock_against_failure (timeline);

  success = order_and_run_locked (s, pending, error);

  if (success && (pending == NULL || !pending->busy))
    set_used_locked (s);

  _gpu_timeline_unlock (timeline);

  return success;
}

void
_gpu_submitter_promote_to_write (GpuSubmitter *s)
{
  for (guint i = 0; i < s->submission->n_accesses; i++)
    {
      GpuAccess *access = &s->submission->accesses[i];

      if (!access->storage->root->is_exclusive && !access->storage->root->is_external)
        continue;

      access->is_promoted |= !access->write;
      access->write = TRUE;
      s->is_exclusive |= access->storage->root->is_exclusive;
      s->is_external |= access->storage->root->is_external;
    }
}

/* Caller holds the locks of the roots. */
static gboolean
submit_shared_locked (GpuSubmitter  *s,
                      GpuPending    *pending,
                      GError       **error)
{
  _gpu_submitter_promote_to_write (s);

  if (!_gpu_submitter_collect_locked (s, error))
    return FALSE;

  if (s->submission->user_event != NULL || s->may_fail)
    {
      g_mutex_lock (&s->timeline->context->failure_lock);
      s->has_failure_lock = TRUE;

      if (s->waits != NULL && !_gpu_submitter_drop_failed (s, error))
        return FALSE;
    }

  return run_shared (s, pending, error);
}

gboolean
_gpu_submission_fail (GpuTimeline  *timeline,
                      GError       *failure,
                      GError      **error)
{
  _gpu_native_context_report (timeline->context, failure);
  g_propagate_error (error, failure);

  return FALSE;
}

/* Ends the submission. Returns TRUE if @failure is NULL. If @failure means that another context is
 * lost, marks that context as lost, but not the context of the stream. Takes ownership of @failure.
 * Caller holds no lock. */
static gboolean
end_shared (GpuSubmitter  *s,
            GError        *failure,
            GError       **error)
{
  if (failure != NULL)
    _gpu_submitter_find_lost (s, failure);

  if (s->lost != NULL)
    _gpu_native_context_report (s->lost, s->loss);

  if (failure == NULL)
    return TRUE;

  if (!s->is_others)
    return _gpu_submission_fail (s->timeline, failure, error);

  g_propagate_error (error, failure);

  return FALSE;
}

/* Submits nothing and sets @retry to TRUE if some work that the submission would wait for has
 * failed, and that failure is not recorded yet. Otherwise submits and sets @retry to FALSE. If
 * @retry is NULL, submits in either case. */
G_GNUC_NO_INLINE static gboolean
submit_shared (GpuTimeline          *timeline,
               const GpuSubmission  *submission,
               GpuPending           *pending,
               gboolean             *retry,
               GError              **error)
{
  GpuStorage *few[MAX_ROOTS];
  g_autofree GpuStorage **many = NULL;
  GpuSubmitter s = { .timeline = timeline, .submission = submission, .roots = few,
                     .may_retry = retry != NULL };
  GError *failure = NULL;
  gboolean success;

  if (submission->n_accesses > MAX_ROOTS)
    s.roots = many = g_new (GpuStorage *, submission->n_accesses);

  lock_roots (&s);

  if (_gpu_submission_check_locked (submission, &failure)
      && !submit_shared_locked (&s, pending, &failure))
    g_prefix_error (&failure, "%s: ", submission->function);

  if (s.has_failure_lock)
    g_mutex_unlock (&timeline->context->failure_lock);

  unlock_roots (&s);
  success = end_shared (&s, failure, error);
  _gpu_submitter_clear (&s);

  if (retry != NULL)
    *retry = s.must_retry;

  return success;
}

/* If submit_shared() sets `retry`, tries once more: by then the failure of the earlier work is
 * recorded. */
gboolean
_gpu_submit_again (GpuTimeline          *timeline,
                   const GpuSubmission  *submission,
                   GpuPending           *pending,
                   GError              **error)
{
  gboolean retry;

  return submit_shared (timeline, submission, pending, &retry, error)
         && (!retry || (_gpu_submission_check_writers (submission, error)
                        && submit_shared (timeline, submission, pending, NULL, error)));
}

/* Returns whether the submission may block the calling thread. An unmap must not block, because a
 * finalizer may submit it. A submission with `if_idle` must not block either. */
static gboolean
may_block (const GpuSubmission *submission,
           const GpuPending    *pending)
{
  return (pending == NULL || !pending->if_idle)
         && (submission->n_accesses == 0 || submission->accesses[0].memory != NULL);
}

/* Returns whether the caller must wait because too many operations are pending. Returns FALSE if
 * these operations wait for a user event. */
static gboolean
must_catch_up (GpuTimeline *timeline)
{
  g_autoptr (GMutexLocker) locker = NULL;
  guint64 submitted = _gpu_timeline_get_submitted (timeline);

  if (submitted < MAX_BEHIND
      || _gpu_timeline_is_complete (timeline, submitted - MAX_BEHIND))
    return FALSE;

  locker = g_mutex_locker_new (&timeline->lock);

  return timeline->n_user_waits == 0;
}

/* If too many operations of an out-of-order stream are pending, blocks until they have completed.
 * Ignores failures of this work, which are reported to each thread that waits for the work. */
GPU_COLD static void
catch_up (GpuTimeline         *timeline,
          const GpuSubmission *submission,
          const GpuPending    *pending)
{
  if (may_block (submission, pending) && must_catch_up (timeline))
    _gpu_timeline_wait (timeline, _gpu_timeline_get_submitted (timeline), NULL);
}

/* Returns the size of the largest range of memory that the operation uses. */
static gsize
get_size (const GpuSubmission *submission)
{
  gsize size = 0;

  for (guint i = 0; i < submission->n_accesses; i++)
    size = MAX (size, submission->accesses[i].size);

  return size;
}

/* Returns TRUE if the caller must submit the work with submit_marked(). */
gboolean
_gpu_submission_prepare (GpuTimeline         *timeline,
                         const GpuSubmission *submission,
                         const GpuPending    *pending)
{
  if ((timeline->flags & GPU_TIMELINE_MARKS) != 0 && !submission->is_marked)
    return TRUE;

  if ((timeline->flags & GPU_STREAM_FLAGS_OUT_OF_ORDER) != 0)
    catch_up (timeline, submission, pending);

  return FALSE;
}

/* Submits the work within a range for profilers. */
gboolean
_gpu_submit_marked (GpuTimeline          *timeline,
                    const GpuSubmission  *submission,
                    GpuPending           *pending,
                    GError              **error)
{
  g_auto (GpuMark) mark = _gpu_mark_begin (submission->function, get_size (submission));
  GpuSubmission marked = *submission;

  marked.is_marked = TRUE;

  return _gpu_submit (timeline, &marked, pending, error);
}

GPU_HOT gboolean
_gpu_submit (GpuTimeline          *timeline,
             const GpuSubmission  *submission,
             GpuPending           *pending,
             GError              **error)
{
  return _gpu_submit_inline (timeline, submission, pending, error);
}
