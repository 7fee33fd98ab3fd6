/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Events. The back end does not use event callbacks of the driver: PoCL never calls the callbacks
 * of an event that fails.
 */
#include "config.h"

#include "gpumem/opencl/driver/gpu-opencl.h"

/* The number of waits that the driver may refuse before finish_queue() is used. */
#define N_WAITS 3

/* Limits of delay_failure(): the number of markers that it enqueues, the number of polls of each
 * marker, and the pause after each poll and each marker, in microseconds. */
#define N_MARKERS 1000
#define N_POLLS 20
#define PAUSE 100

GpuOpenclQueue *
_gpu_opencl_queue_new (cl_command_queue  handle,
                       GpuOpenclDevice  *device)
{
  GpuOpenclQueue *queue = g_new0 (GpuOpenclQueue, 1);

  g_atomic_ref_count_init (&queue->refs);
  g_mutex_init (&queue->lock);
  queue->handle = handle;
  queue->fails_late = _gpu_opencl_device_is_nvidia (device);

  return queue;
}

static void
queue_unref (GpuOpenclQueue *queue)
{
  if (!g_atomic_ref_count_dec (&queue->refs))
    return;

  g_mutex_clear (&queue->lock);
  g_clear_pointer (&queue->guards, g_ptr_array_unref);
  g_free (queue);
}

/* Returns (transfer full) the queue's handle, or NULL if the stream was freed. The reference keeps
 * the handle valid, so that the caller may block without `lock`. */
static cl_command_queue
queue_ref_handle (GpuOpenclQueue *queue)
{
  cl_command_queue handle;

  g_mutex_lock (&queue->lock);
  handle = queue->handle;

  if (handle != NULL && clRetainCommandQueue (handle) != CL_SUCCESS)
    handle = NULL;

  g_mutex_unlock (&queue->lock);

  return handle;
}

void
_gpu_opencl_queue_close (GpuOpenclQueue *queue)
{
  g_mutex_lock (&queue->lock);
  queue->handle = NULL;
  g_mutex_unlock (&queue->lock);
  queue_unref (queue);
}

GpuNativeEvent *
_gpu_opencl_event_new (GpuNativeStream *stream,
                       cl_event         handle)
{
  GpuOpenclEvent *event = g_new0 (GpuOpenclEvent, 1);

  _gpu_native_event_init (&event->base, &_gpu_opencl_backend);
  event->event = handle;

  if (stream != NULL)
    {
      event->queue = ((GpuOpenclStream *) stream)->shared_queue;
      g_atomic_ref_count_inc (&event->queue->refs);

      if (G_UNLIKELY (event->queue->guards != NULL))
        event->guards = _gpu_opencl_guard_event (stream, handle);
    }

  return &event->base;
}

static void
clear_event (gpointer data)
{
  clReleaseEvent (*(cl_event *) data);
}

GArray *
_gpu_opencl_pieces_new (void)
{
  GArray *pieces = g_array_new (FALSE, FALSE, sizeof (cl_event));

  g_array_set_clear_func (pieces, clear_event);

  return pieces;
}

gboolean
_gpu_opencl_enqueued (GpuNativeStream  *stream,
                      cl_int            code,
                      const char       *function,
                      cl_event          native,
                      GpuNativeEvent  **event,
                      GError          **error,
                      const char       *format,
                      ...)
{
  g_autofree char *details = NULL;
  va_list arguments;

  if (G_LIKELY (code == CL_SUCCESS))
    {
      if (event != NULL)
        *event = _gpu_opencl_event_new (stream, native);
      return TRUE;
    }

  va_start (arguments, format);
  details = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  _gpu_opencl_set_error (error, function, code, "%s", details);

  return FALSE;
}

static cl_event
create_user (GpuNativeContext  *context,
             GError           **error)
{
  cl_int code;
  cl_event event = clCreateUserEvent (_gpu_opencl_context_handle (context), &code);

  if (code == CL_SUCCESS)
    return event;

  _gpu_opencl_set_error (error, "clCreateUserEvent", code, "context %p",
                         (gpointer) _gpu_opencl_context_handle (context));
  return NULL;
}

static gboolean
create_guard (GpuOpenclEvent    *event,
              GpuNativeContext  *context,
              GError           **error)
{
  cl_event guard = create_user (context, error);

  if (guard == NULL)
    return FALSE;

  event->guards = _gpu_opencl_guards_new ();
  g_ptr_array_add (event->guards, guard);
  return TRUE;
}

/* Completes the guard even if the user event fails: a command that waits for the guard and the user
 * event has already failed in this case, and does not run. */
static cl_int
complete_guard (GpuOpenclEvent *event)
{
  return event->guards == NULL ? CL_SUCCESS
         : clSetUserEventStatus (g_ptr_array_index (event->guards, 0), CL_COMPLETE);
}

GpuNativeEvent *
_gpu_opencl_create_host_wait (GpuNativeContext  *context,
                              GError           **error)
{
  GpuOpenclDevice *device = (GpuOpenclDevice *) context->devices[0];
  GpuOpenclEvent *event;
  cl_event handle;

  if (_gpu_opencl_device_hangs (device))
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                   "device %s does not support user events: it hangs when a user event is set",
                   device->base.id);
      return NULL;
    }
  if (!_gpu_backend_check_process (error) || (handle = create_user (context, error)) == NULL)
    return NULL;

  event = (GpuOpenclEvent *) _gpu_opencl_event_new (NULL, handle);
  event->unset = TRUE;
  event->cannot_fail = _gpu_opencl_device_is_intel_cpu (device);

  return &event->base;
}

static GpuNativeEvent *
event_create_user (GpuNativeContext  *context,
                   GError           **error)
{
  GpuNativeEvent *event = _gpu_opencl_create_host_wait (context, error);

  if (event == NULL || ((GpuOpenclDevice *) context->devices[0])->pocl == 0
      || create_guard ((GpuOpenclEvent *) event, context, error))
    return event;

  _gpu_native_event_unref (event);

  return NULL;
}

static gboolean
get_info (cl_event        event,
          cl_event_info   info,
          gpointer        value,
          gsize           size,
          GError        **error)
{
  cl_int code = clGetEventInfo (event, info, size, value, NULL);

  if (code == CL_SUCCESS)
    return TRUE;

  _gpu_opencl_set_error (error, "clGetEventInfo", code, "event %p, info 0x%04x", (gpointer) event,
                         info);
  return FALSE;
}

static gboolean
check_context (GpuNativeContext  *context,
               cl_event           event,
               GError           **error)
{
  cl_context its_context = NULL;

  if (!get_info (event, CL_EVENT_CONTEXT, &its_context, sizeof its_context, error))
    return FALSE;

  if (its_context == _gpu_opencl_context_handle (context))
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "event %p is of context %p, not of context %p", (gpointer) event,
               (gpointer) its_context, (gpointer) _gpu_opencl_context_handle (context));
  return FALSE;
}

/* The event has no queue, because OpenCL does not keep the queue of a completed command alive. */
static GpuNativeEvent *
event_wrap (GpuNativeContext  *context,
            guint64            handle,
            GpuWrapMode        mode,
            GError           **error)
{
  cl_event event = (cl_event) (guintptr) handle;
  cl_command_type type = 0;
  GpuNativeEvent *native;
  cl_int code;

  if (!_gpu_backend_check_process (error) || !check_context (context, event, error)
      || !get_info (event, CL_EVENT_COMMAND_TYPE, &type, sizeof type, error))
    return NULL;

  if (mode == GPU_WRAP_MODE_BORROW)
    {
      code = clRetainEvent (event);
      if (code != CL_SUCCESS)
        {
          _gpu_opencl_set_error (error, "clRetainEvent", code, "event %p", (gpointer) event);
          return NULL;
        }
    }

  native = _gpu_opencl_event_new (NULL, event);
  native->is_user = type == CL_COMMAND_USER;

  return native;
}

/* After a user event fails, Intel's CPU runtime still runs the dependent work on in-order queues,
 * and crashes or hangs on out-of-order queues. On that runtime the driver's event therefore
 * completes, and only the timeline reports the failure. */
static cl_int
get_failed_status (GpuOpenclEvent *event)
{
  return event->cannot_fail ? CL_COMPLETE : CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
}

static gboolean
event_set_user (GpuNativeEvent  *native,
                gboolean         success,
                GError         **error)
{
  GpuOpenclEvent *event = (GpuOpenclEvent *) native;
  cl_int status = success ? CL_COMPLETE : get_failed_status (event);
  cl_int code;

  g_atomic_int_set (&event->failed, !success && event->cannot_fail);
  code = clSetUserEventStatus (event->event, status);
  if (code == CL_SUCCESS)
    code = complete_guard (event);
  if (code != CL_SUCCESS)
    {
      _gpu_opencl_set_error (error, "clSetUserEventStatus", code, "status %d", status);
      return FALSE;
    }

  g_atomic_int_set (&event->unset, FALSE);
  return TRUE;
}

static void
event_free (GpuNativeEvent *native)
{
  GpuOpenclEvent *event = (GpuOpenclEvent *) native;

  /* A user event may be freed before its status was set, and no later call can set the status. Fail
   * the event, because work that waits for the event would hang otherwise. */
  if (g_atomic_int_get (&event->unset))
    {
      clSetUserEventStatus (event->event, get_failed_status (event));
      complete_guard (event);
    }
  clReleaseEvent (event->event);
  g_clear_pointer (&event->queue, queue_unref);
  g_clear_pointer (&event->guards, g_ptr_array_unref);
  g_clear_pointer (&event->pieces, g_array_unref);
  g_free (event);
}

static guint64
event_get_handle (GpuNativeEvent *native)
{
  return (guint64) (guintptr) _gpu_opencl_event_handle (native);
}

/* The status of a command never refers to an argument of the caller, so codes such as
 * INVALID_ARGUMENT become FAILED. PoCL sets the status of a command whose wait list failed to -1,
 * which is also the code of CL_DEVICE_NOT_FOUND. The program may set any status of a user event,
 * which does not mean that memory or the device is missing. */
static void
set_status_error (GError   **error,
                  cl_int     status,
                  gboolean   is_user)
{
  GpuError meaning = is_user ? GPU_ERROR_FAILED : _gpu_opencl_error_map (status);

  switch (meaning)
    {
    case GPU_ERROR_OUT_OF_DEVICE_MEMORY:
    case GPU_ERROR_OUT_OF_HOST_MEMORY:
    case GPU_ERROR_DEVICE_LOST:
    case GPU_ERROR_LAUNCH_FAILED:
      break;
    default:
      meaning = GPU_ERROR_FAILED;
    }

  _gpu_opencl_set_error_as (error, meaning, "clGetEventInfo", status,
                            "the command, or a command that it waited for, failed with this "
                            "status");
}

/* Returns FALSE for a user event that failed but is complete in the driver. */
static gboolean
check_user (GpuNativeEvent  *native,
            GError         **error)
{
  if (!g_atomic_int_get (&((GpuOpenclEvent *) native)->failed))
    return TRUE;

  set_status_error (error, CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, FALSE);
  return FALSE;
}

static gboolean
get_status (cl_event   event,
            cl_int    *status,
            GError   **error)
{
  return get_info (event, CL_EVENT_COMMAND_EXECUTION_STATUS, status, sizeof *status, error);
}

/* Enqueues a marker behind all work of the queue, and returns the marker's status: pending if it
 * does not complete soon. */
static GpuEventStatus
try_marker (cl_command_queue queue)
{
  cl_event marker = NULL;
  cl_int status = CL_QUEUED;

  if (clEnqueueMarkerWithWaitList (queue, 0, NULL, &marker) != CL_SUCCESS)
    return GPU_EVENT_STATUS_FAILED;

  clFlush (queue);
  for (guint i = 0; i < N_POLLS && get_status (marker, &status, NULL) && status > CL_COMPLETE; i++)
    g_usleep (PAUSE);
  clReleaseEvent (marker);

  if (status > CL_COMPLETE)
    return GPU_EVENT_STATUS_PENDING;

  return status == CL_COMPLETE ? GPU_EVENT_STATUS_COMPLETE : GPU_EVENT_STATUS_FAILED;
}

/* After a command fails, a thread of NVIDIA's driver fails the work that depends on the command.
 * Until this thread is done, the driver also fails all newly enqueued work. Therefore delays the
 * report of the failure until a marker completes, or is pending behind other work. */
static void
delay_failure (GpuOpenclEvent *event)
{
  GpuOpenclQueue *queue = event->queue;
  cl_command_queue handle;

  if (queue == NULL || !queue->fails_late || g_atomic_int_get (&event->settled))
    return;

  handle = queue_ref_handle (queue);
  for (guint i = 0; handle != NULL && i < N_MARKERS; i++)
    {
      if (try_marker (handle) != GPU_EVENT_STATUS_FAILED)
        break;
      g_usleep (PAUSE);
    }
  g_clear_pointer (&handle, clReleaseCommandQueue);
  g_atomic_int_set (&event->settled, TRUE);
}

/* The driver failed to report the status of an event. The command may be running, so it counts as
 * pending: otherwise the timeline would free memory that the command uses. If every query fails,
 * the event is pending for every poll, but a wait for the event still returns. */
static GpuEventStatus
get_unreported (const GError *failure)
{
  return g_error_matches (failure, GPU_ERROR, GPU_ERROR_DEVICE_LOST) ? GPU_EVENT_STATUS_FAILED
                                                                     : GPU_EVENT_STATUS_PENDING;
}

static GpuEventStatus
event_query (GpuNativeEvent  *native,
             GError         **error)
{
  GError *failure = NULL;
  cl_int status = CL_COMPLETE;

  if (!check_user (native, error))
    return GPU_EVENT_STATUS_FAILED;

  if (!get_status (_gpu_opencl_event_handle (native), &status, &failure))
    {
      const GpuEventStatus result = get_unreported (failure);

      g_propagate_error (error, failure);
      return result;
    }

  if (status < 0)
    {
      delay_failure ((GpuOpenclEvent *) native);
      set_status_error (error, status, native->is_user);
      return GPU_EVENT_STATUS_FAILED;
    }

  return status == CL_COMPLETE ? GPU_EVENT_STATUS_COMPLETE : GPU_EVENT_STATUS_PENDING;
}

/* Waits for the whole queue, after all other ways to wait have failed. A closed queue has no work
 * in flight. */
static void
finish_queue (GpuOpenclQueue *queue)
{
  cl_command_queue handle = queue != NULL ? queue_ref_handle (queue) : NULL;

  if (handle == NULL)
    return;

  clFinish (handle);
  clReleaseCommandQueue (handle);
}

/* Called after the driver refused to wait for @event. The caller reports an error in any case, but
 * the command may still use memory that the caller is about to free. This function therefore blocks
 * until the command completes or, if the driver can neither wait nor report a status, until the
 * queue has completed. That includes later commands, because the driver cannot separate them. If
 * such a command depends on a user event that the calling thread would complete after the wait, the
 * thread blocks forever: the alternative is to free memory in use. */
static void
wait_after_refusal (GpuOpenclQueue *queue,
                    cl_event        event,
                    cl_int          code)
{
  cl_int status = CL_COMPLETE;

  for (guint i = 0; i < N_WAITS; i++)
    {
      const gboolean is_known = get_status (event, &status, NULL);

      if (_gpu_opencl_error_map (code) == GPU_ERROR_DEVICE_LOST
          || (is_known && status <= CL_COMPLETE))
        return;

      if (is_known && i + 1 < N_WAITS)
        {
          code = clWaitForEvents (1, &event);
          continue;
        }

      finish_queue (queue);
      return;
    }
}

/* @failed is the code that the driver's wait returned. */
static gboolean
wait_failed (GpuOpenclQueue  *queue,
             cl_event         event,
             gboolean         is_user,
             cl_int           failed,
             GError         **error)
{
  cl_int status = CL_COMPLETE;

  if (failed == CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST
      && get_status (event, &status, NULL) && status < CL_COMPLETE)
    {
      set_status_error (error, status, is_user);
      return FALSE;
    }

  _gpu_opencl_set_error (error, "clWaitForEvents", failed, "event %p", (gpointer) event);
  wait_after_refusal (queue, event, failed);

  return FALSE;
}

static gboolean
event_wait (GpuNativeEvent  *native,
            gboolean         urgent G_GNUC_UNUSED,
            GError         **error)
{
  cl_event event = _gpu_opencl_event_handle (native);
  cl_int status = CL_COMPLETE;
  cl_int code;

  if (!_gpu_backend_check_process (error))
    return FALSE;

  code = clWaitForEvents (1, &event);
  if (code != CL_SUCCESS)
    {
      delay_failure ((GpuOpenclEvent *) native);
      return wait_failed (((GpuOpenclEvent *) native)->queue, event, native->is_user, code, error);
    }

  /* Check the status, because some drivers return success from the wait although the command
   * failed. */
  if (!check_user (native, error) || !get_status (event, &status, error))
    return FALSE;
  if (status < CL_COMPLETE)
    {
      delay_failure ((GpuOpenclEvent *) native);
      set_status_error (error, status, native->is_user);
      return FALSE;
    }

  return TRUE;
}

/* The command does not depend on other events, so it cannot fail because of them. It is therefore
 * sufficient to check the result of clWaitForEvents(), without a query of the event's status. With
 * NVIDIA's driver, this saves 100 ns. Enqueuing the command as a blocking command would also cost
 * 100 ns more. */
gboolean
_gpu_opencl_wait_and_release (GpuNativeStream  *stream,
                              cl_event          event,
                              GError          **error)
{
  GpuOpenclQueue *queue = ((GpuOpenclStream *) stream)->shared_queue;
  cl_int code = clWaitForEvents (1, &event);
  gboolean success = G_LIKELY (code == CL_SUCCESS)
                     || wait_failed (queue, event, FALSE, code, error);

  clReleaseEvent (event);

  return success;
}

static gboolean
event_get_profiling_time (GpuNativeEvent     *native,
                          GpuProfilingPoint   point,
                          guint64            *nanoseconds,
                          GError            **error)
{
  static const cl_profiling_info infos[] =
  {
    [GPU_PROFILING_POINT_QUEUED]    = CL_PROFILING_COMMAND_QUEUED,
    [GPU_PROFILING_POINT_SUBMITTED] = CL_PROFILING_COMMAND_SUBMIT,
    [GPU_PROFILING_POINT_STARTED]   = CL_PROFILING_COMMAND_START,
    [GPU_PROFILING_POINT_ENDED]     = CL_PROFILING_COMMAND_END
  };
  cl_ulong time = 0;
  cl_int code = clGetEventProfilingInfo (_gpu_opencl_event_handle (native), infos[point],
                                         sizeof time, &time, NULL);

  if (code != CL_SUCCESS)
    {
      _gpu_opencl_set_error (error, "clGetEventProfilingInfo", code,
                             "only completed commands on streams with profiling have times");
      return FALSE;
    }

  *nanoseconds = time;
  return TRUE;
}

const GpuEventOps _gpu_opencl_event_ops =
{
  .create_user        = event_create_user,
  .set_user           = event_set_user,
  .wrap               = event_wrap,
  .free               = event_free,
  .get_handle         = event_get_handle,
  .query              = event_query,
  .wait               = event_wait,
  .get_profiling_time = event_get_profiling_time
};
