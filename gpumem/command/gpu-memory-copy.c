/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Asynchronous copies between memory and bytes, which may report their progress. */
#include "config.h"

#include "gpumem/base/gpu-workers-private.h"
#include "gpumem/command/gpu-command-private.h"
#include "gpumem/command/gpu-memory-task-private.h"

/* The submission of a smaller copy never blocks for long. */
#define THREAD_SIZE_MIN (16 * 1024 * 1024)

static gboolean
submit (GpuTimeline         *timeline,
        const GpuMemoryCopy *copy,
        GpuPending          *pending,
        GError             **error)
{
  gsize size;
  gpointer data = (gpointer) g_bytes_get_data (copy->bytes, &size);

  return copy->write
         ? _gpu_timeline_write (timeline, copy->function, copy->memory, copy->offset, data, size,
                                copy->bytes, pending, error)
         : _gpu_timeline_read (timeline, copy->function, copy->memory, copy->offset, data, size,
                               copy->bytes, pending, error);
}

typedef struct
{
  GpuMemoryCopy  copy;
  GpuTimeline   *timeline;
  GpuProgress   *progress;
  GpuTaskWait   *wait;
} Submission;

/* Releases the memory before the task returns, so that the last reference is dropped in the main
 * context of the task. */
static void
submission_end (Submission *s,
                gboolean    success,
                guint64     seq,
                GError     *error)
{
  GpuTaskWait *wait = s->wait;
  g_autoptr (GpuTimeline) timeline = s->timeline;
  g_autoptr (GError) failure = error;

  g_object_unref (s->copy.memory);
  g_bytes_unref (s->copy.bytes);
  _gpu_progress_unref (s->progress);
  g_free (s);

  if (!success || !_gpu_timeline_notify (timeline, seq, _gpu_task_wait_end, wait, &failure))
    _gpu_task_wait_end (wait, failure);
}

static void
submit_with_progress (gpointer data)
{
  Submission *s = data;
  GpuPending pending = { .progress = s->progress };
  GError *error = NULL;
  gboolean success = submit (s->timeline, &s->copy, &pending, &error);

  /* If the copy has a point of its own, wait only for that point: the caller may already have
   * submitted work that itself waits for the end of this copy. */
  if (pending.seq == 0)
    pending.seq = _gpu_timeline_get_submitted (s->timeline);

  g_clear_pointer (&pending.event, _gpu_native_event_unref);
  _gpu_progress_set_ordered (s->progress);
  submission_end (s, success, pending.seq, error);
}

static void
copy_with_progress (GTask               *task,
                    GpuTimeline         *timeline,
                    const GpuMemoryCopy *copy,
                    GpuProgress         *progress)
{
  static GpuWorkers workers = { .name = "gpumem-submit" };
  Submission *s = g_new (Submission, 1);

  s->copy = *copy;
  g_object_ref (copy->memory);
  g_bytes_ref (copy->bytes);
  s->timeline = _gpu_timeline_ref (timeline);
  s->progress = _gpu_progress_ref (progress);
  s->wait = _gpu_task_wait_new (task, copy->write ? NULL : g_bytes_ref (copy->bytes),
                                (GDestroyNotify) g_bytes_unref, progress);

  /* A driver may block while many chunks are submitted. A worker thread therefore submits them, and
   * the main context stays free to report the progress. */
  if (g_bytes_get_size (copy->bytes) > THREAD_SIZE_MIN
      && _gpu_workers_push (&workers, G_MAXUINT, submit_with_progress, s, NULL))
    _gpu_progress_wait_until_ordered (progress);
  else
    submit_with_progress (s);
}

void
_gpu_memory_copy_async (GTask               *task,
                        GpuTimeline         *timeline,
                        const GpuMemoryCopy *copy,
                        GpuProgress         *progress,
                        GError              *error)
{
  gboolean has_result = !copy->write && copy->bytes != NULL;

  if (progress != NULL && error == NULL)
    {
      copy_with_progress (task, timeline, copy, progress);
      return;
    }

  if (progress != NULL)
    _gpu_progress_end (progress, FALSE);
  else if (error == NULL)
    submit (timeline, copy, NULL, &error);

  _gpu_memory_end_task (task, timeline, has_result ? g_bytes_ref (copy->bytes) : NULL,
                        (GDestroyNotify) g_bytes_unref, error);
}
