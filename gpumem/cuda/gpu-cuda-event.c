/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <string.h>

#include "gpumem/cuda/core/gpu-cuda-call.h"
#include "gpumem/cuda/memory/gpu-cuda-ipc.h"

static void
event_free (GpuNativeEvent *native)
{
  GpuCudaEvent *event = (GpuCudaEvent *) native;
  GpuCudaContext *context = event->context;
  gboolean entered;

  if (event->word != NULL)
    {
      _gpu_cuda_host_wait_free (event);
    }
  else if (!event->is_foreign)
    {
      _gpu_cuda_recycle_event (context, event->timing, event->event);
    }
  else if (!event->is_borrowed && _gpu_cuda_enter_again (context, &entered, NULL))
    {
      _gpu_cuda.cuEventDestroy (event->event);
      _gpu_cuda_leave (entered);
    }

  if (event->start != NULL)
    _gpu_cuda_recycle_event (context, TRUE, event->start);

  g_clear_pointer (&event->clock, _gpu_cuda_clock_unref);
  g_free (event);
  _gpu_native_context_unref (&context->base);
}

static guint64
event_get_handle (GpuNativeEvent *native)
{
  return (guint64) (guintptr) ((GpuCudaEvent *) native)->event;
}

static GpuEventStatus
event_query (GpuNativeEvent  *native,
             GError         **error)
{
  GpuCudaEvent *event = (GpuCudaEvent *) native;
  gboolean entered;
  CUresult code;

  if (!_gpu_cuda_enter_again (event->context, &entered, error))
    return GPU_EVENT_STATUS_FAILED;

  code = _gpu_cuda.cuEventQuery (event->event);

  /* Callers may free the memory of work that they know to have failed. Therefore wait until that
   * work has ended. */
  if (code != CUDA_SUCCESS && code != CUDA_ERROR_NOT_READY)
    _gpu_cuda.cuEventSynchronize (event->event);

  _gpu_cuda_leave (entered);

  if (code == CUDA_ERROR_NOT_READY)
    return GPU_EVENT_STATUS_PENDING;

  return _gpu_cuda_check (code, "cuEventQuery", error) ? GPU_EVENT_STATUS_COMPLETE
                                                       : GPU_EVENT_STATUS_FAILED;
}

static gboolean
event_wait (GpuNativeEvent  *native,
            gboolean         urgent,
            GError         **error)
{
  GpuCudaEvent *event = (GpuCudaEvent *) native;
  const char *function = "cuEventQuery";
  CUresult code = CUDA_ERROR_NOT_READY;
  gboolean entered;

  if (!_gpu_cuda_enter_again (event->context, &entered, error))
    return FALSE;

  if (urgent)
    code = _gpu_cuda_poll (event->context, event->event, NULL, G_MAXINT64);

  /* Also wait after a failed query, because the caller may then free memory that the work uses. */
  if (code != CUDA_SUCCESS)
    {
      function = "cuEventSynchronize";
      code = _gpu_cuda.cuEventSynchronize (event->event);
    }

  _gpu_cuda_leave (entered);

  return _gpu_cuda_check (code, function, error);
}

static gboolean
event_poll (GpuNativeEvent *native,
            gint64          deadline)
{
  GpuCudaEvent *event = (GpuCudaEvent *) native;
  gboolean entered;
  CUresult code;

  if (!_gpu_cuda_enter_again (event->context, &entered, NULL))
    return FALSE;

  code = _gpu_cuda_poll (event->context, event->event, NULL, deadline);
  _gpu_cuda_leave (entered);

  return code == CUDA_SUCCESS;
}

static gboolean
is_wrapped (const GpuCudaEvent *event)
{
  return event->is_foreign && event->timing;
}

/* The driver does not report the flags of an event, but refuses to measure from an event that
 * records no times. */
static gboolean
wrapped_has_times (GpuCudaEvent  *event,
                   gboolean      *has_times,
                   GError       **error)
{
  float milliseconds = 0;
  gboolean entered;
  CUresult code;

  if (!_gpu_cuda_enter (event->context, &entered, error))
    return FALSE;

  code = _gpu_cuda.cuEventElapsedTime (&milliseconds, event->event, event->event);
  _gpu_cuda_leave (entered);
  *has_times = code != CUDA_ERROR_INVALID_HANDLE;

  return !*has_times || _gpu_cuda_check (code, "cuEventElapsedTime", error);
}

static gboolean
check_timing (GpuCudaEvent  *event,
              GError       **error)
{
  gboolean has_times = event->timing;

  if (is_wrapped (event) && !wrapped_has_times (event, &has_times, error))
    return FALSE;

  if (!has_times)
    g_set_error_literal (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                         "the event records no times, or was never recorded");

  return has_times;
}

static gboolean
read_clock (GpuCudaEvent  *event,
            CUevent        moment,
            guint64       *nanoseconds,
            GError       **error)
{
  GpuCudaClock *clock;
  gboolean success;
  gboolean entered;

  if (event->clock != NULL)
    return _gpu_cuda_clock_read (event->clock, moment, nanoseconds, error);

  /* A wrapped event has no clock. The clock may be younger than the event. */
  if (!_gpu_cuda_enter (event->context, &entered, error))
    return FALSE;

  clock = _gpu_cuda_clock_get (event->context, error);
  _gpu_cuda_leave (entered);

  if (clock == NULL)
    return FALSE;

  success = _gpu_cuda_clock_read (clock, moment, nanoseconds, error);
  _gpu_cuda_clock_unref (clock);

  return success;
}

/* The driver does not record the times when a command was queued or submitted. For both, return the
 * start time. */
static gboolean
event_get_profiling_time (GpuNativeEvent     *native,
                          GpuProfilingPoint   point,
                          guint64            *nanoseconds,
                          GError            **error)
{
  GpuCudaEvent *event = (GpuCudaEvent *) native;
  CUevent moment = event->event;

  if (!check_timing (event, error))
    return FALSE;

  if (point != GPU_PROFILING_POINT_ENDED && event->start != NULL)
    moment = event->start;

  return read_clock (event, moment, nanoseconds, error);
}

static gboolean
measure (GpuCudaEvent  *event,
         CUevent        from,
         gint64        *nanoseconds,
         GError       **error)
{
  float milliseconds = 0;
  gboolean entered;
  CUresult code;

  if (!_gpu_cuda_enter (event->context, &entered, error))
    return FALSE;

  code = _gpu_cuda.cuEventElapsedTime (&milliseconds, from, event->event);
  _gpu_cuda_leave (entered);
  *nanoseconds = (gint64) ((double) milliseconds * 1e6);

  return _gpu_cuda_check (code, "cuEventElapsedTime", error);
}

static gboolean
event_get_elapsed (GpuNativeEvent  *native,
                   GpuNativeEvent  *since,
                   gint64          *nanoseconds,
                   GError         **error)
{
  GpuCudaEvent *to = (GpuCudaEvent *) native;
  GpuCudaEvent *from = (GpuCudaEvent *) since;

  return check_timing (to, error) && check_timing (from, error)
         && measure (to, from->event, nanoseconds, error);
}

static gboolean
event_get_duration (GpuNativeEvent  *native,
                    guint64         *nanoseconds,
                    GError         **error)
{
  GpuCudaEvent *event = (GpuCudaEvent *) native;
  gint64 duration = 0;

  if (is_wrapped (event))
    {
      g_set_error_literal (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                           "the event is wrapped and marks the end of an operation only; "
                           "measure from an event that the program recorded before the operation");
      return FALSE;
    }

  if (!check_timing (event, error)
      || (event->start != NULL && !measure (event, event->start, &duration, error)))
    return FALSE;

  *nanoseconds = duration;

  return TRUE;
}

/* The driver does not report the context of an event, but fails for an invalid event. */
static GpuNativeEvent *
event_wrap (GpuNativeContext  *native,
            guint64            handle,
            GpuWrapMode        mode,
            GError           **error)
{
  GpuCudaContext *context = (GpuCudaContext *) native;
  CUevent cu_event = (CUevent) (guintptr) handle;
  GpuCudaEvent *event;
  gboolean entered;
  CUresult code;

  if (!_gpu_cuda_enter (context, &entered, error))
    return NULL;

  code = _gpu_cuda.cuEventQuery (cu_event);
  _gpu_cuda_leave (entered);

  if (code != CUDA_SUCCESS && code != CUDA_ERROR_NOT_READY)
    {
      _gpu_cuda_set_error (error, "cuEventQuery", code, "event %p", (gpointer) cu_event);
      return NULL;
    }

  event = _gpu_cuda_event_new_for (context, cu_event);
  event->timing = TRUE;
  event->is_borrowed = mode == GPU_WRAP_MODE_BORROW;

  return &event->base;
}

static GBytes *
event_export (GpuNativeEvent  *native,
              GError         **error)
{
  GpuCudaEvent *event = (GpuCudaEvent *) native;
  CUipcEventHandle ipc;
  gboolean entered;
  gboolean exported;
  GpuCudaHandle handle;

  if (!_gpu_cuda_has_group (GPU_CUDA_GROUP_IPC, error)
      || !_gpu_cuda_enter (event->context, &entered, error))
    return NULL;

  _gpu_cuda_handle_init (&handle, GPU_CUDA_HANDLE_EVENT);
  exported = _gpu_cuda_check_ipc (_gpu_cuda.cuIpcGetEventHandle (&ipc, event->event),
                                  "cuIpcGetEventHandle", error);
  _gpu_cuda_leave (entered);

  if (!exported)
    return NULL;

  memcpy (handle.native, &ipc, sizeof ipc);

  return g_bytes_new (&handle, sizeof handle);
}

static GpuNativeEvent *
event_import (GpuNativeContext  *native,
              GBytes            *bytes,
              GError           **error)
{
  GpuCudaContext *context = (GpuCudaContext *) native;
  CUipcEventHandle ipc;
  CUevent event = NULL;
  gboolean entered;
  gboolean opened;
  GpuCudaHandle handle;

  if (!_gpu_cuda_has_group (GPU_CUDA_GROUP_IPC, error)
      || !_gpu_cuda_handle_read (&handle, bytes, 0, 1u << GPU_CUDA_HANDLE_EVENT, 0, error)
      || !_gpu_cuda_enter (context, &entered, error))
    return NULL;

  memcpy (&ipc, handle.native, sizeof ipc);
  opened = _gpu_cuda_check_ipc (_gpu_cuda.cuIpcOpenEventHandle (&event, ipc),
                                "cuIpcOpenEventHandle", error);
  _gpu_cuda_leave (entered);

  return opened ? &_gpu_cuda_event_new_for (context, event)->base : NULL;
}

const GpuEventOps _gpu_cuda_event_ops =
{
  .wrap               = event_wrap,
  .free               = event_free,
  .get_handle         = event_get_handle,
  .query              = event_query,
  .wait               = event_wait,
  .poll               = event_poll,
  .get_profiling_time = event_get_profiling_time,
  .get_elapsed        = event_get_elapsed,
  .get_duration       = event_get_duration,
  .export_handle      = event_export,
  .import_handle      = event_import
};
