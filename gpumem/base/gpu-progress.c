/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/base/gpu-progress-private.h"

/* The shortest time between two calls of the program's function, in microseconds. */
#define INTERVAL (40 * G_TIME_SPAN_MILLISECOND)

struct _GpuProgress
{
  gatomicrefcount        refs;
  GFileProgressCallback  func;
  gpointer               data;
  GDestroyNotify         destroy;   /* nullable */
  gsize                  total;

  GMutex                 lock;      /* guards the fields below */
  GSource               *source;    /* holds a reference to this struct; NULL after the end */
  gsize                  copied;
  gboolean               is_due;    /* the ready time is set */
  gint64                 next;      /* the earliest time of the next call */
};

static G_DEFINE_QUARK (gpu-progress, get)

static gboolean
report (gpointer data)
{
  GpuProgress *progress = data;
  gsize copied;

  g_mutex_lock (&progress->lock);

  /* A thread other than that of the main context may have ended the reports. */
  if (progress->source == NULL)
    {
      g_mutex_unlock (&progress->lock);
      return G_SOURCE_REMOVE;
    }

  g_source_set_ready_time (progress->source, -1);
  progress->next = g_source_get_time (progress->source) + INTERVAL;
  progress->is_due = FALSE;
  copied = progress->copied;
  g_mutex_unlock (&progress->lock);

  /* Do not report the total here, because the copy has not completed: _gpu_progress_end() does
   * so. */
  if (copied < progress->total)
    progress->func (copied, progress->total, progress->data);

  return G_SOURCE_CONTINUE;
}

/* Called when the source is destroyed. */
static void
release (gpointer data)
{
  GpuProgress *progress = data;

  if (progress->destroy != NULL)
    progress->destroy (progress->data);

  _gpu_progress_unref (progress);
}

static gboolean
dispatch (GSource     *source G_GNUC_UNUSED,
          GSourceFunc  callback,
          gpointer     data)
{
  return callback (data);
}

void
_gpu_progress_begin (GTask                 *task,
                     gsize                  total,
                     GFileProgressCallback  func,
                     gpointer               data,
                     GDestroyNotify         destroy)
{
  static GSourceFuncs source_funcs = { .dispatch = dispatch };
  GpuProgress *progress;

  if (func == NULL)
    {
      if (destroy != NULL)
        destroy (data);

      return;
    }

  progress = g_new0 (GpuProgress, 1);
  g_atomic_ref_count_init (&progress->refs);
  g_mutex_init (&progress->lock);
  progress->func = func;
  progress->data = data;
  progress->destroy = destroy;
  progress->total = total;
  progress->source = g_source_new (&source_funcs, sizeof (GSource));
  g_source_set_static_name (progress->source, "[gpumem] progress");
  g_source_set_priority (progress->source, g_task_get_priority (task));
  g_source_set_callback (progress->source, report, _gpu_progress_ref (progress), release);
  g_source_attach (progress->source, g_task_get_context (task));
  g_object_set_qdata_full (G_OBJECT (task), get_quark (), progress,
                           (GDestroyNotify) _gpu_progress_unref);
}

GpuProgress *
_gpu_progress_peek (GTask *task)
{
  return g_object_get_qdata (G_OBJECT (task), get_quark ());
}

GpuProgress *
_gpu_progress_ref (GpuProgress *progress)
{
  g_atomic_ref_count_inc (&progress->refs);

  return progress;
}

void
_gpu_progress_unref (GpuProgress *progress)
{
  if (!g_atomic_ref_count_dec (&progress->refs))
    return;

  g_mutex_clear (&progress->lock);
  g_free (progress);
}

void
_gpu_progress_add (GpuProgress *progress,
                   gsize        size)
{
  g_mutex_lock (&progress->lock);
  progress->copied += size;

  if (progress->source != NULL && !progress->is_due)
    {
      progress->is_due = TRUE;
      g_source_set_ready_time (progress->source, progress->next);
    }

  g_mutex_unlock (&progress->lock);
}

/* After a cancellation, threads may count bytes until the copy has completed. Drops the source
 * here, so that these threads never use a source whose main context may be freed. */
void
_gpu_progress_end (GTask    *task,
                   gboolean  is_complete)
{
  GpuProgress *progress = _gpu_progress_peek (task);
  GSource *source;

  if (progress == NULL)
    return;

  /* The last report must be the total, even if the function iterates the main context. */
  g_mutex_lock (&progress->lock);
  source = g_steal_pointer (&progress->source);
  g_mutex_unlock (&progress->lock);

  /* From now on, a cancellation does not change the result of the task. */
  if (is_complete && !g_cancellable_is_cancelled (g_task_get_cancellable (task)))
    {
      g_task_set_check_cancellable (task, FALSE);
      progress->func (progress->total, progress->total, progress->data);
    }

  g_source_destroy (source);
  g_source_unref (source);
}
