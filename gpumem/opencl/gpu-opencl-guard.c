/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Protection against two faults of PoCL. Both occur if a command waits for two events, one event
 * fails on one thread, and the other event completes on another thread at the same time.
 *
 * - PoCL may both fail and run the command, which ends the process. Each user event therefore has a
 *   guard: a second user event, which is set after the first. Commands that depend on a user event
 *   and may depend on other work also wait for the guard. While PoCL fails such a command, the
 *   guard is still pending, so PoCL cannot also run the command. Host-signalled waits never fail,
 *   and have no guards: each pending copy of a file has several such waits, and all their guards
 *   would be in each list of events to wait for.
 * - The two threads still use the command's event, and the events that the command waits for, after
 *   all these events have completed or failed. The threads hold no references to these events. If
 *   a command has failed because of one event, PoCL even uses the command's event when the other
 *   events end, much later. The back end therefore holds the events of commands that depend on user
 *   events, and the events that these commands wait for. Each stream holds its events in the order
 *   of their commands, the awaited events first. Whenever an event is added, the first events are
 *   checked. An event is released more than HOLD_TIME after a check has found that its command and
 *   the commands of all earlier events have ended. When a stream is freed, the context takes its
 *   events. When the context is freed, it releases all remaining events.
 */
#include "config.h"

#include "gpumem/opencl/driver/gpu-opencl.h"

/* In microseconds. PoCL uses the events for a few microseconds after the command has ended.
 * HOLD_TIME is much longer, because PoCL's threads may not be scheduled at once. */
#define HOLD_TIME 20000

/* The number of pending events that are checked each time an event is added, and the number of
 * events that are released each time. */
#define N_CHECKS 4

typedef struct
{
  cl_event event;
  gint64   ended;                   /* time at which the command was found to have ended */
} GpuOpenclEnded;

static void
release_event (gpointer event)
{
  clReleaseEvent (event);
}

/* Returns whether the event is pending. Also returns TRUE if the driver does not report the
 * status. */
static gboolean
is_pending (cl_event event)
{
  cl_int status = CL_QUEUED;

  clGetEventInfo (event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, NULL);

  return status > CL_COMPLETE;
}

GPtrArray *
_gpu_opencl_guards_new (void)
{
  return g_ptr_array_new_with_free_func (release_event);
}

/* Adds the pending events of @guards to @all. @seen is the set of lists and events added so far,
 * because many events share a list. */
static void
add_guards (GPtrArray  **all,
            GPtrArray   *guards,
            GHashTable **seen)
{
  if (guards == NULL)
    return;

  if (*seen == NULL)
    *seen = g_hash_table_new (NULL, NULL);

  if (!g_hash_table_add (*seen, guards))
    return;

  for (guint i = 0; i < guards->len; i++)
    {
      cl_event guard = g_ptr_array_index (guards, i);

      if (!g_hash_table_add (*seen, guard) || !is_pending (guard)
          || clRetainEvent (guard) != CL_SUCCESS)
        continue;

      if (*all == NULL)
        *all = _gpu_opencl_guards_new ();

      g_ptr_array_add (*all, guard);
    }
}

GPtrArray *
_gpu_opencl_list_guards (GpuNativeStream       *stream,
                         GpuNativeEvent *const *events,
                         guint                  n_events)
{
  g_autoptr (GHashTable) seen = NULL;
  GPtrArray *all = NULL;

  add_guards (&all, ((GpuOpenclStream *) stream)->shared_queue->guards, &seen);
  for (guint i = 0; i < n_events; i++)
    add_guards (&all, ((GpuOpenclEvent *) events[i])->guards, &seen);

  return all;
}

void
_gpu_opencl_set_guards (GpuNativeStream *stream,
                        GPtrArray       *guards)
{
  GpuOpenclQueue *queue = ((GpuOpenclStream *) stream)->shared_queue;

  g_clear_pointer (&queue->guards, g_ptr_array_unref);
  queue->guards = guards != NULL ? g_ptr_array_ref (guards) : NULL;
}

static void
release_first (GpuOpenclHeld *held)
{
  GpuOpenclEnded *first = g_queue_pop_head (&held->ended);

  clReleaseEvent (first->event);
  g_free (first);
}

static void
check_first (GpuOpenclHeld *held)
{
  gint64 now = g_get_monotonic_time ();

  for (guint i = 0; i < N_CHECKS; i++)
    {
      cl_event event = g_queue_peek_head (&held->pending);
      GpuOpenclEnded *ended;

      if (event == NULL || is_pending (event))
        break;

      ended = g_new (GpuOpenclEnded, 1);
      ended->event = g_queue_pop_head (&held->pending);
      ended->ended = now;
      g_queue_push_tail (&held->ended, ended);
    }

  for (guint i = 0; i < N_CHECKS; i++)
    {
      GpuOpenclEnded *first = g_queue_peek_head (&held->ended);

      if (first == NULL || now - first->ended <= HOLD_TIME)
        break;

      release_first (held);
    }
}

void
_gpu_opencl_hold_event (GpuNativeStream *stream,
                        cl_event         event)
{
  GpuOpenclContext *context = (GpuOpenclContext *) stream->context;
  GpuOpenclHeld *held = &((GpuOpenclStream *) stream)->held;

  if (clRetainEvent (event) != CL_SUCCESS)
    return;

  g_queue_push_tail (&held->pending, event);
  check_first (held);

  g_mutex_lock (&context->held_lock);
  check_first (&context->held);
  g_mutex_unlock (&context->held_lock);
}

cl_int
_gpu_opencl_hold_awaited (GpuNativeStream       *stream,
                          GpuNativeEvent *const *events,
                          guint                  n_events,
                          GPtrArray             *guards)
{
  cl_event last = NULL;
  cl_int code;

  for (guint i = 0; i < n_events; i++)
    _gpu_opencl_hold_event (stream, _gpu_opencl_event_handle (events[i]));
  for (guint i = 0; i < guards->len; i++)
    _gpu_opencl_hold_event (stream, g_ptr_array_index (guards, i));

  code = clEnqueueMarkerWithWaitList (_gpu_opencl_stream_handle (stream), 0, NULL, &last);

  if (last != NULL)
    {
      _gpu_opencl_hold_event (stream, last);
      clReleaseEvent (last);
    }

  return code;
}

GPtrArray *
_gpu_opencl_guard_event (GpuNativeStream *stream,
                         cl_event         event)
{
  GPtrArray *guards = _gpu_opencl_list_guards (stream, NULL, 0);

  _gpu_opencl_set_guards (stream, guards);

  if (guards != NULL)
    _gpu_opencl_hold_event (stream, event);

  return guards;
}

static void
move_all (GQueue *from,
          GQueue *to)
{
  while (!g_queue_is_empty (from))
    g_queue_push_tail_link (to, g_queue_pop_head_link (from));
}

void
_gpu_opencl_pass_held (GpuNativeStream *stream)
{
  GpuOpenclContext *context = (GpuOpenclContext *) stream->context;
  GpuOpenclHeld *held = &((GpuOpenclStream *) stream)->held;

  g_mutex_lock (&context->held_lock);
  move_all (&held->pending, &context->held.pending);
  move_all (&held->ended, &context->held.ended);
  g_mutex_unlock (&context->held_lock);
}

void
_gpu_opencl_release_held (GpuOpenclContext *context)
{
  GpuOpenclHeld *held = &context->held;
  cl_event event;

  if (!g_queue_is_empty (&held->pending) || !g_queue_is_empty (&held->ended))
    g_usleep (HOLD_TIME);

  while (!g_queue_is_empty (&held->ended))
    release_first (held);
  while ((event = g_queue_pop_head (&held->pending)) != NULL)
    clReleaseEvent (event);
}
