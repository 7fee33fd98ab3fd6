/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/base/gpu-error-private.h"
#include "gpumem/base/gpu-progress-private.h"
#include "gpumem/command/gpu-command-private.h"
#include "gpumem/command/gpu-memory-task-private.h"
#include "gpumem/command/gpu-staging-private.h"
#include "gpumem/device/gpu-context-private.h"
#include "gpumem/stream/gpu-event-private.h"

GPU_HOT GpuTimeline *
_gpu_memory_peek_timeline (GpuMemory     *memory,
                           GpuStream     *stream,
                           const char    *function,
                           GCancellable  *cancellable,
                           GError       **error)
{
  /* A memory object whose initialization failed may have no context. */
  if (G_UNLIKELY (memory->storage == NULL))
    {
      _gpu_memory_fail (memory, function, error);
      return NULL;
    }

  if (cancellable != NULL && !_gpu_error_check_cancelled (cancellable, function, error))
    return NULL;

  return _gpu_context_peek_timeline (memory->context, stream, function, error);
}

gboolean
_gpu_memory_begin_wait (GpuMemory     *memory,
                        GpuStream     *stream,
                        const char    *function,
                        GCancellable  *cancellable,
                        GpuHostWait   *wait,
                        GError       **error)
{
  GpuTimeline *timeline = _gpu_memory_peek_timeline (memory, stream, function, cancellable, error);

  if (timeline == NULL || !_gpu_timeline_check_capture (timeline, function, error))
    return FALSE;

  _gpu_host_wait_begin (wait, timeline);

  return TRUE;
}

GPU_HOT gboolean
_gpu_memory_wait_for_operation (GpuTimeline  *timeline,
                                GpuPending   *pending,
                                const char   *function,
                                GError      **error)
{
  if (_gpu_pending_wait (pending, timeline, error))
    return TRUE;

  g_prefix_error (error, "%s: ", function);

  return FALSE;
}

gboolean
_gpu_memory_wait_for_work (const GpuHostWait  *wait,
                           const char         *function,
                           GCancellable       *cancellable,
                           GError            **error)
{
  if (_gpu_host_wait_block (wait, cancellable, error))
    return TRUE;

  g_prefix_error (error, "%s: ", function);

  return FALSE;
}

/* The uses of the memory that a task waits for, one after another. */
typedef struct
{
  GArray           *uses;           /* of GpuUse */
  guint             next;
  GpuUseIgnoreFunc *can_ignore;
  const char       *function;
  GError           *failure;        /* the error of the first use that failed */
} UseWait;

static void
use_wait_free (gpointer data)
{
  UseWait *wait = data;

  g_array_unref (wait->uses);
  g_clear_error (&wait->failure);
  g_free (wait);
}

static void step_done (GObject      *source,
                       GAsyncResult *result,
                       gpointer      user_data);

/* Takes ownership of @task. Called in the main context of the task. */
static void
step (GTask *task)
{
  UseWait *wait = g_task_get_task_data (task);

  if (wait->next < wait->uses->len)
    {
      const GpuUse *use = &g_array_index (wait->uses, GpuUse, wait->next++);
      g_autoptr (GTask) part = g_task_new (g_task_get_source_object (task),
                                           g_task_get_cancellable (task), step_done, task);

      _gpu_timeline_return_task (use->point.timeline, use->point.seq, use->point.seq, part);
      return;
    }

  if (wait->failure != NULL)
    {
      g_prefix_error (&wait->failure, "%s: ", wait->function);
      g_task_return_error (task, g_steal_pointer (&wait->failure));
    }
  else
    g_task_return_boolean (task, TRUE);

  g_object_unref (task);
}

static void
step_done (GObject      *source G_GNUC_UNUSED,
           GAsyncResult *result,
           gpointer      user_data)
{
  GTask *task = user_data;
  UseWait *wait = g_task_get_task_data (task);
  const GpuUse *use = &g_array_index (wait->uses, GpuUse, wait->next - 1);
  g_autoptr (GMainContext) context = g_main_context_ref (g_task_get_context (task));
  g_autoptr (GError) error = NULL;

  g_task_propagate_boolean (G_TASK (result), &error);

  /* The wait was cancelled. */
  if (error != NULL && _gpu_point_is_pending (&use->point))
    wait->next = wait->uses->len;

  if (error != NULL && wait->failure == NULL && !wait->can_ignore (use, error))
    wait->failure = g_steal_pointer (&error);

  g_main_context_push_thread_default (context);
  step (task);                          /* may complete the task */
  g_main_context_pop_thread_default (context);
}

void
_gpu_uses_wait_task (GTask             *task,
                     GArray            *uses,
                     GpuUseIgnoreFunc  *can_ignore,
                     const char        *function)
{
  UseWait *wait = g_new0 (UseWait, 1);

  *wait = (UseWait) { .uses = uses, .can_ignore = can_ignore, .function = function };
  g_task_set_task_data (task, wait, use_wait_free);
  step (task);
}

gboolean
_gpu_memory_read_spilled (GpuMemory   *memory,
                          GBytes      *contents,
                          gsize        offset,
                          gpointer     data,
                          gsize        size,
                          const char  *function,
                          GError     **error)
{
  if (!_gpu_memory_check_bounds (memory, function, "source", offset, size, error))
    return FALSE;

  if (size > 0)
    memcpy (data, (const guint8 *) g_bytes_get_data (contents, NULL) + offset, size);

  return TRUE;
}

GTask *
_gpu_memory_begin_task (GpuMemory            *memory,
                        GpuStream            *stream,
                        const char           *function,
                        gpointer              tag,
                        GCancellable         *cancellable,
                        GAsyncReadyCallback   callback,
                        gpointer              user_data,
                        GpuHostWait          *wait,
                        GError              **error)
{
  GTask *task = g_task_new (memory, cancellable, callback, user_data);

  g_task_set_name (task, function);
  g_task_set_source_tag (task, tag);
  _gpu_memory_begin_wait (memory, stream, function, cancellable, wait, error);

  return task;
}

void
_gpu_memory_end_task (GTask              *task,
                      const GpuHostWait  *wait,
                      gpointer            result,
                      GDestroyNotify      result_free,
                      GError             *error)
{
  if (error == NULL)
    {
      GpuTaskWait *end = _gpu_task_wait_new (task, g_task_get_name (task), result, result_free);
      g_autoptr (GError) failure = NULL;

      if (wait->timeline == NULL
          || !_gpu_host_wait_notify (wait, _gpu_task_wait_end, end, &failure))
        _gpu_task_wait_end (end, failure);

      return;
    }

  if (result != NULL)
    result_free (result);

  _gpu_progress_end (task, FALSE);
  g_task_return_error (task, error);
}

GBytes *
_gpu_bytes_new (gsize        size,
                const char  *function,
                gpointer    *data,
                GError     **error)
{
  *data = _gpu_try_alloc (function, size, 1, error);

  return *data != NULL ? g_bytes_new_take (*data, size) : NULL;
}
