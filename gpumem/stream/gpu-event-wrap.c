/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Events that were created outside this library. */
#include "config.h"

#include "gpumem/device/gpu-context-private.h"
#include "gpumem/stream/gpu-event-private.h"

/**
 * gpu_event_new_wrapped:
 * @context: a #GpuContext
 * @handle: the driver's handle: a cl_event on OpenCL, a CUevent on CUDA
 * @mode: whether the caller keeps the ownership of @handle, or the event takes it
 * @error: return location for an error
 *
 * Creates an object for an event that was created outside this library (OpenCL: clGetEventInfo,
 * clRetainEvent if @mode is %GPU_WRAP_MODE_BORROW; CUDA: cuEventQuery). Streams, threads and main
 * loops can wait for the object as for any event. gpu_context_synchronize() does not wait for it.
 * Does not block. If the call fails, the caller keeps ownership of @handle, even if @mode is
 * %GPU_WRAP_MODE_ADOPT.
 *
 * On OpenCL, @handle may be a user event. The program completes it with clSetUserEventStatus(),
 * because gpu_event_complete() only completes events of gpu_event_new_user(). A command starts
 * only after its queue was flushed, so the program must call clFlush() before it waits for the
 * event of a command. Each stream that waits for a user event of the program needs a thread until
 * the event is complete.
 *
 * On CUDA, the object stands for the last cuEventRecord() before this call. The program must not
 * record @handle again before the object is complete. An event that was never recorded is
 * complete. If @mode is %GPU_WRAP_MODE_BORROW, @handle must be valid until the object is finalized
 * and all waits for it have ended: until calls that wait for it have returned, GpuEvent::completed
 * was emitted if the object is watched, and streams that wait for it have started their next work.
 * The driver does not report the context of @handle, which may be any context of CUDA.
 *
 * On each back end, @handle must be an event of the driver: drivers may crash on other values.
 *
 * gpu_event_get_elapsed() and gpu_event_get_profiling_time() work if the program recorded the event
 * with timing (OpenCL: on a queue with CL_QUEUE_PROFILING_ENABLE; CUDA: without
 * CU_EVENT_DISABLE_TIMING). gpu_event_get_duration() needs OpenCL.
 *
 * Returns: (transfer full): the event, or %NULL with %GPU_ERROR_INVALID_ARGUMENT if @handle is 0,
 *   is not an event or belongs to another context of OpenCL, %GPU_ERROR_NOT_SUPPORTED if the back
 *   end has no events to wrap, or the driver's error
 *
 * Since: 0.1
 */
GpuEvent *
gpu_event_new_wrapped (GpuContext   *context,
                       guint64       handle,
                       GpuWrapMode   mode,
                       GError      **error)
{
  const char *function = "gpu_event_new_wrapped";
  g_autoptr (GpuNativeEvent) wrapped = NULL;
  g_autoptr (GpuTimeline) timeline = NULL;
  GError *failure = NULL;
  GpuNativeContext *native;
  GpuEvent *event;

  g_return_val_if_fail (GPU_IS_CONTEXT (context), NULL);
  g_return_val_if_fail (mode == GPU_WRAP_MODE_BORROW || mode == GPU_WRAP_MODE_ADOPT, NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  if (!_gpu_context_check (context, function, error))
    return NULL;

  native = _gpu_context_get_native (context);

  if (native->backend->event->wrap == NULL)
    {
      _gpu_backend_fail (native->backend, function, "events to wrap", error);
      return NULL;
    }

  if (handle == 0)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT, "%s: the handle is 0", function);
      return NULL;
    }

  wrapped = native->backend->event->wrap (native, handle, mode, &failure);

  if (!_gpu_native_context_end (native, function, failure, error))
    return NULL;

  timeline = _gpu_timeline_new_for_event (native, _gpu_native_event_ref (wrapped));
  event = _gpu_event_new_for_point (context, timeline, 1, wrapped->is_user ? NULL : wrapped);
  _gpu_event_set_wrapped (event, wrapped);

  return event;
}
