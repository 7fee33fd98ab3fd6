/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * External memory is memory that another API also uses. Each operation acquires the memory before
 * its own commands and releases it after them, in the same stream. Mapped memory stays acquired
 * until it is unmapped. The lock of the root storage, which tracks the uses of the memory, is held
 * throughout, so that acquires and releases alternate in submission order. Each use counts as a
 * write, so that streams execute the uses in submission order.
 */
#include "config.h"

#include "gpumem/stream/gpu-submission-hazard-private.h"

static void
note_event (GpuSubmitter   *s,
            GpuNativeEvent *event)
{
  if (event == NULL)
    return;

  g_assert (s->n_handover < G_N_ELEMENTS (s->handover));
  s->handover[s->n_handover++] = event;
}

/* Enqueues a barrier between the acquire or release and the operation. In-order streams need no
 * barrier. */
static gboolean
separate (GpuSubmitter  *s,
          GError       **error)
{
  GpuNativeStream *stream = s->timeline->stream;
  GpuNativeEvent *event = NULL;
  gboolean success;

  if ((s->timeline->flags & GPU_STREAM_FLAGS_OUT_OF_ORDER) == 0)
    return TRUE;

  success = stream->backend->stream->barrier (stream, s->retains_events ? &event : NULL, error);
  note_event (s, event);

  return success;
}

static void
set_acquired (GpuSubmitter *s,
              gboolean      acquired)
{
  for (guint i = 0; i < s->n_roots; i++)
    {
      GpuStorage *root = s->roots[i];

      if (root->is_external && (acquired || root->n_maps == 0))
        root->is_acquired = acquired;
    }
}

/* Fails if the driver would block until a user event is set: the thread that sets the event may
 * need locks that the caller holds. */
static gboolean
check_waits (GpuSubmitter     *s,
             GpuNativeBuffer **buffers,
             guint             n_buffers,
             GError          **error)
{
  if (!_gpu_timeline_may_fail_locked (s->timeline))
    return TRUE;

  for (guint i = 0; i < n_buffers; i++)
    {
      if (!buffers[i]->acquire_waits)
        continue;

      g_set_error (error, GPU_ERROR, GPU_ERROR_BUSY,
                   "the stream waits for a user event, and the driver of %s cannot acquire memory "
                   "of another API in such a stream: complete the event first",
                   s->timeline->device->id);
      return FALSE;
    }

  return TRUE;
}

gboolean
_gpu_submitter_acquire_locked (GpuSubmitter  *s,
                               GError       **error)
{
  GpuNativeStream *stream = s->timeline->stream;
  g_autofree GpuNativeBuffer **buffers = g_new (GpuNativeBuffer *, s->n_roots);
  GpuNativeEvent *event = NULL;
  guint n_buffers = 0;

  for (guint i = 0; i < s->n_roots; i++)
    {
      if (s->roots[i]->is_external && !s->roots[i]->is_acquired)
        buffers[n_buffers++] = s->roots[i]->buffer;
    }

  if (n_buffers == 0)
    return TRUE;

  if (!check_waits (s, buffers, n_buffers, error)
      || !stream->backend->buffer->acquire (stream, buffers, n_buffers,
                                         s->retains_events ? &event : NULL, error))
    return FALSE;

  note_event (s, event);
  set_acquired (s, TRUE);
  s->timeline->is_prepared = TRUE;

  return separate (s, error);
}

/* Counts the mappings of the memory. A failed unmap does not reduce the count, so that the memory
 * stays acquired. */
static void
count_maps (GpuSubmitter *s,
            GpuStorage   *root,
            gboolean      success)
{
  if (!success)
    return;

  if (s->submission->maps)
    root->n_maps++;
  else if (s->submission->unmaps)
    root->n_maps--;
}

gboolean
_gpu_submitter_release_locked (GpuSubmitter    *s,
                               gboolean         success,
                               GpuNativeEvent **event,
                               GError         **error)
{
  GpuNativeStream *stream = s->timeline->stream;
  g_autofree GpuNativeBuffer **buffers = g_new (GpuNativeBuffer *, s->n_roots);
  GpuNativeEvent *last = NULL;
  guint n_buffers = 0;

  for (guint i = 0; i < s->n_roots; i++)
    {
      GpuStorage *root = s->roots[i];

      if (!root->is_external)
        continue;

      count_maps (s, root, success);

      if (root->is_acquired && root->n_maps == 0)
        buffers[n_buffers++] = root->buffer;
    }

  if (n_buffers == 0)
    return TRUE;

  if (!separate (s, error)
      || !stream->backend->buffer->release (stream, buffers, n_buffers,
                                            event != NULL || s->retains_events ? &last : NULL,
                                            error))
    return FALSE;

  set_acquired (s, FALSE);

  if (event != NULL)
    *event = last;
  else
    note_event (s, last);

  return TRUE;
}

void
_gpu_submitter_retain_handover_locked (GpuSubmitter *s)
{
  while (s->n_handover > 0)
    _gpu_timeline_retain_locked (s->timeline, s->handover[--s->n_handover],
                                 (GDestroyNotify) _gpu_native_event_unref, 0);
}

/* If some commands were enqueued before the failure, counts them as one operation that uses all the
 * memory of the submission. Returns FALSE. */
static gboolean
fail_locked (GpuSubmitter *s,
             GpuPending   *pending)
{
  GpuTimeline *timeline = s->timeline;

  if (!_gpu_submission_take_partial_locked (timeline))
    return FALSE;

  _gpu_submission_enter_locked (s->submission, timeline, NULL, NULL, NULL);
  _gpu_submitter_retain_handover_locked (s);

  if (pending != NULL)
    pending->covers = timeline->submitted;

  return FALSE;
}

static gboolean
run_locked (GpuSubmitter    *s,
            GpuNativeEvent **event,
            GError         **error)
{
  const GpuSubmission *submission = s->submission;
  GpuOperationFunc run = submission->run;

  if (submission->run_infallible != NULL && s->timeline->n_user_waits == 0 && s->captured == 0)
    run = submission->run_infallible;

  return run (submission->operation, s->timeline->stream, event, error);
}

gboolean
_gpu_submitter_run_external_locked (GpuSubmitter  *s,
                                    GpuPending    *pending,
                                    GError       **error)
{
  GpuTimeline *timeline = s->timeline;
  GpuNativeEvent *event = NULL;
  GpuNativeEvent *last = NULL;
  gboolean with_event;
  gboolean has_run;
  gboolean success;

  s->retains_events = _gpu_timeline_may_fail_locked (timeline);
  with_event = pending != NULL || s->retains_events
               || (timeline->flags & GPU_STREAM_FLAGS_PROFILING) != 0;

  has_run = _gpu_submitter_acquire_locked (s, error)
            && run_locked (s, with_event ? &event : NULL, error);
  success = _gpu_submitter_release_locked (s, has_run,
                                           has_run && pending != NULL ? &last : NULL,
                                           has_run ? error : NULL)
            && has_run;

  if (!success)
    {
      timeline->stream->partial |= has_run;
      note_event (s, event);
      return fail_locked (s, pending);
    }

  timeline->is_prepared = FALSE;

  if (last != NULL)
    _gpu_submission_enter_locked (s->submission, timeline, last, event, pending);
  else
    _gpu_submission_enter_locked (s->submission, timeline, event, NULL, pending);

  _gpu_submitter_retain_handover_locked (s);

  return TRUE;
}
