/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Tasks that return when a point is reached. */
#include "config.h"

#include "gpumem/base/gpu-progress-private.h"
#include "gpumem/timeline/gpu-timeline-private.h"
#include "gpumem/timeline/gpu-user-event-private.h"

/* A wait ends when the work has completed or when the cancellable is cancelled, maybe on two
 * threads at the same time. The first of these threads returns the task. The task, and with it the
 * source object, is released in the task's main context. */
struct _GpuTaskWait
{
  gatomicrefcount  refs;
  GSource         *cancel_source;   /* nullable */
  gint             returned;        /* atomic; the thread that sets it owns the fields below */
  GTask           *task;
  const char      *function;        /* nullable; the error begins with this name */
  gpointer         result;          /* the return value of the task, NULL for TRUE */
  GDestroyNotify   result_free;
  GError          *error;           /* nullable */
};

static GpuTaskWait *
task_wait_ref (GpuTaskWait *wait)
{
  g_atomic_ref_count_inc (&wait->refs);

  return wait;
}

static void
clear_result (GpuTaskWait *wait)
{
  if (wait->result != NULL)
    wait->result_free (g_steal_pointer (&wait->result));

  g_clear_error (&wait->error);
}

/* Also releases the task, in case its main context was destroyed before the task could return. */
static void
task_wait_unref (gpointer data)
{
  GpuTaskWait *wait = data;

  if (!g_atomic_ref_count_dec (&wait->refs))
    return;

  clear_result (wait);
  g_clear_pointer (&wait->cancel_source, g_source_unref);
  g_clear_object (&wait->task);
  g_free (wait);
}

static gboolean
task_cancelled (GCancellable *cancellable,
                gpointer      data)
{
  GpuTaskWait *wait = data;
  g_autoptr (GTask) task = NULL;

  if (!g_atomic_int_compare_and_exchange (&wait->returned, FALSE, TRUE))
    return G_SOURCE_REMOVE;

  task = g_steal_pointer (&wait->task);
  clear_result (wait);
  _gpu_progress_end (task, FALSE);
  g_task_return_new_error (task, G_IO_ERROR, G_IO_ERROR_CANCELLED, "the operation was cancelled");

  return G_SOURCE_REMOVE;
}

GpuTaskWait *
_gpu_task_wait_new (GTask          *task,
                    const char     *function,
                    gpointer        result,
                    GDestroyNotify  result_free)
{
  GCancellable *cancellable = g_task_get_cancellable (task);
  GpuTaskWait *wait = g_new0 (GpuTaskWait, 1);

  g_atomic_ref_count_init (&wait->refs);
  wait->task = g_object_ref (task);
  wait->function = function;
  wait->result = result;
  wait->result_free = result_free;

  if (cancellable != NULL)
    {
      wait->cancel_source = g_cancellable_source_new (cancellable);
      g_source_set_callback (wait->cancel_source, G_SOURCE_FUNC (task_cancelled),
                             task_wait_ref (wait), task_wait_unref);
      g_source_attach (wait->cancel_source, g_task_get_context (task));
    }

  return wait;
}

static gboolean
return_result (gpointer data)
{
  GpuTaskWait *wait = data;
  g_autoptr (GTask) task = g_steal_pointer (&wait->task);

  _gpu_progress_end (task, wait->error == NULL);

  if (wait->error != NULL)
    g_task_return_error (task, g_steal_pointer (&wait->error));
  else if (wait->result == NULL)
    g_task_return_boolean (task, TRUE);
  else
    g_task_return_pointer (task, g_steal_pointer (&wait->result), wait->result_free);

  clear_result (wait);

  return G_SOURCE_REMOVE;
}

/* Returns the task from an idle source: g_task_return_boolean() may invoke the callback at once,
 * which must not happen within a call of the program, such as a query that reaches the point. */
static void
return_later (GpuTaskWait *wait)
{
  g_autoptr (GMainContext) context = g_main_context_ref (g_task_get_context (wait->task));
  g_autoptr (GSource) source = g_idle_source_new ();

  g_source_set_priority (source, g_task_get_priority (wait->task));
  g_source_set_callback (source, return_result, task_wait_ref (wait), task_wait_unref);
  g_source_attach (source, context);
}

void
_gpu_task_wait_end (gpointer      data,
                    const GError *error)
{
  GpuTaskWait *wait = data;

  if (g_atomic_int_compare_and_exchange (&wait->returned, FALSE, TRUE))
    {
      wait->error = error != NULL ? g_error_copy (error) : NULL;
      if (error != NULL && wait->function != NULL)
        g_prefix_error (&wait->error, "%s: ", wait->function);

      if (wait->cancel_source != NULL)
        g_source_destroy (wait->cancel_source);

      return_later (wait);
    }

  task_wait_unref (wait);
}

void
_gpu_timeline_return_task (GpuTimeline    *timeline,
                           guint64         first,
                           guint64         last,
                           GTask          *task)
{
  GpuTaskWait *wait = _gpu_task_wait_new (task, g_task_get_name (task), NULL, NULL);
  g_autoptr (GError) error = NULL;

  if (!_gpu_timeline_notify_points (timeline, first, last, _gpu_task_wait_end, wait, &error))
    _gpu_task_wait_end (wait, error);
}

void
_gpu_user_event_return_task (GpuUserEvent *event,
                             GTask        *task)
{
  _gpu_user_event_notify (event, _gpu_task_wait_end,
                          _gpu_task_wait_new (task, g_task_get_name (task), NULL, NULL));
}
