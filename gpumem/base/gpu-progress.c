/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/base/gpu-latch-private.h"
#include "gpumem/base/gpu-progress-private.h"

/* The shortest time between two calls of the program's function, in microseconds. */
#define INTERVAL (40 * G_TIME_SPAN_MILLISECOND)

struct _GpuProgress
{
  gatomicrefcount        refs;
  GSource               *source;    /* holds a reference until it is destroyed */
  GFileProgressCallback  func;
  gpointer               data;
  GDestroyNotify         destroy;   /* nullable */
  GpuLatch              *ordered;
  gsize                  total;
  gsize                  copied;    /* atomic */
  gint                   is_due;    /* atomic; the ready time is set */
  gint64                 next;      /* atomic; the earliest time of the next call */
};

static gboolean
report (gpointer data)
{
  GpuProgress *progress = data;
  gsize copied;

  g_source_set_ready_time (progress->source, -1);
  __atomic_store_n (&progress->next, g_source_get_time (progress->source) + INTERVAL,
                    __ATOMIC_RELAXED);
  g_atomic_int_set (&progress->is_due, FALSE);
  copied = (gsize) g_atomic_pointer_get (&progress->copied);

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

GpuProgress *
_gpu_progress_new (GMainContext          *context,
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

      return NULL;
    }

  progress = g_new0 (GpuProgress, 1);
  g_atomic_ref_count_init (&progress->refs);
  progress->func = func;
  progress->data = data;
  progress->destroy = destroy;
  progress->total = total;
  progress->ordered = _gpu_latch_new ();
  progress->source = g_source_new (&source_funcs, sizeof (GSource));
  g_source_set_static_name (progress->source, "[gpumem] progress");
  g_source_set_callback (progress->source, report, _gpu_progress_ref (progress), release);
  g_source_attach (progress->source, context);

  return progress;
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

  g_source_unref (progress->source);
  _gpu_latch_unref (progress->ordered);
  g_free (progress);
}

void
_gpu_progress_add (GpuProgress *progress,
                   gsize        size)
{
  g_atomic_pointer_add (&progress->copied, size);

  if (g_atomic_int_compare_and_exchange (&progress->is_due, FALSE, TRUE))
    g_source_set_ready_time (progress->source,
                             __atomic_load_n (&progress->next, __ATOMIC_RELAXED));
}

void
_gpu_progress_set_ordered (GpuProgress *progress)
{
  _gpu_latch_open (_gpu_latch_ref (progress->ordered), NULL);
}

void
_gpu_progress_wait_until_ordered (GpuProgress *progress)
{
  _gpu_latch_wait (progress->ordered, -1, NULL, NULL);
}

void
_gpu_progress_end (GpuProgress *progress,
                   gboolean     is_complete)
{
  if (is_complete)
    progress->func (progress->total, progress->total, progress->data);

  g_source_destroy (progress->source);
}
