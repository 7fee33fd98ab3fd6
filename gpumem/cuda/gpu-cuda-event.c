/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Events, and what every op that enqueues begins and ends with.
 *
 * Nothing here calls back: whoever waits polls for a while, or sleeps in cuEventSynchronize().
 */
#include "config.h"

#include "gpumem/cuda/gpu-cuda.h"

GpuCudaEvent *
_gpu_cuda_event_new (GpuCudaContext  *context,
                     GpuEventFlags    flags,
                     GError         **error)
{
  GpuCudaEvent *event = g_new0 (GpuCudaEvent, 1);
  gboolean made;

  event->timing = (flags & GPU_EVENT_FLAGS_TIMING) != 0;
  event->interprocess = (flags & GPU_EVENT_FLAGS_INTERPROCESS) != 0;

  if (event->interprocess)
    made = _gpu_cuda_check (_gpu_cuda.cuEventCreate (&event->event, CU_EVENT_INTERPROCESS
                                                                    | CU_EVENT_DISABLE_TIMING
                                                                    | CU_EVENT_BLOCKING_SYNC),
                            "cuEventCreate", error);
  else
    made = _gpu_cuda_take_event (context, event->timing, &event->event, error);

  if (made && event->timing)
    {
      event->clock = _gpu_cuda_clock_get (context, error);
      made = event->clock != NULL;
    }

  if (!made)
    {
      if (event->event != NULL)
        _gpu_cuda_give_event (context, event->timing, event->event);
      g_free (event);
      return NULL;
    }

  _gpu_native_event_init (&event->base, &_gpu_cuda_backend);
  event->context = context;
  _gpu_native_context_ref (&context->base);

  return event;
}

GpuCudaEvent *
_gpu_cuda_event_new_for (GpuCudaContext *context,
                         CUevent         handle)
{
  GpuCudaEvent *event = g_new0 (GpuCudaEvent, 1);

  _gpu_native_event_init (&event->base, &_gpu_cuda_backend);
  event->event = handle;
  event->interprocess = TRUE;
  event->context = context;
  _gpu_native_context_ref (&context->base);

  return event;
}

/* A number of the calling thread, unlike that of any other there ever was. */
guint
_gpu_cuda_get_thread (void)
{
  static gint n_threads;
  static _Thread_local guint thread;

  if (thread == 0)
    thread = g_atomic_int_add (&n_threads, 1) + 1;

  return thread;
}

/* The handle of the per-thread stream means another queue in every thread: what other threads put
 * into theirs comes first. */
static gboolean
follow_thread (GpuCudaStream  *stream,
               GError        **error)
{
  guint thread = _gpu_cuda_get_thread ();

  if (stream->thread == thread)
    return TRUE;

  if (!_gpu_cuda_check (_gpu_cuda.cuStreamWaitEvent (stream->stream, stream->last, 0),
                        "cuStreamWaitEvent", error))
    return FALSE;

  stream->thread = thread;

  return TRUE;
}

/* With the context entered. */
static gboolean
begin_timed (GpuCudaStream  *stream,
             GpuCudaEvent   *event,
             GError        **error)
{
  return _gpu_cuda_take_event (event->context, TRUE, &event->start, error)
         && _gpu_cuda_check (_gpu_cuda.cuEventRecord (event->start, stream->stream),
                             "cuEventRecord", error);
}

static gboolean
begin_event (GpuCudaStream    *stream,
             GpuNativeEvent  **event,
             GpuCudaCall      *call,
             GError          **error)
{
  if (stream->last != NULL && !follow_thread (stream, error))
    return FALSE;

  if (event == NULL)
    return TRUE;

  call->event = _gpu_cuda_event_new ((GpuCudaContext *) stream->base.context,
                                     stream->profiling ? GPU_EVENT_FLAGS_TIMING
                                                       : GPU_EVENT_FLAGS_NONE, error);

  if (call->event == NULL)
    return FALSE;

  if (!stream->profiling || begin_timed (stream, call->event, error))
    return TRUE;

  _gpu_native_event_unref (&call->event->base);

  return FALSE;
}

gboolean
_gpu_cuda_begin_event (GpuNativeStream  *stream,
                       GpuNativeEvent  **event,
                       GpuCudaCall      *call,
                       GError          **error)
{
  if (begin_event ((GpuCudaStream *) stream, event, call, error))
    return TRUE;

  _gpu_cuda_leave (call->entered);

  return FALSE;
}

/* The driver says that a value is invalid where memory consists of several mapped pieces. */
gboolean
_gpu_cuda_enter_late (GpuNativeStream *stream,
                      GpuCudaCall     *call,
                      CUresult         code)
{
  return (code == CUDA_ERROR_INVALID_CONTEXT || code == CUDA_ERROR_INVALID_HANDLE
          || code == CUDA_ERROR_INVALID_VALUE)
         && !call->entered
         && _gpu_cuda_enter ((GpuCudaContext *) stream->context, &call->entered, NULL)
         && call->entered;
}

static CUresult
record (GpuCudaStream *stream,
        GpuCudaCall   *call)
{
  CUresult code = CUDA_SUCCESS;

  if (call->event != NULL)
    code = _gpu_cuda.cuEventRecord (call->event->event, stream->stream);

  if (code == CUDA_SUCCESS && stream->last != NULL)
    code = _gpu_cuda.cuEventRecord (stream->last, stream->stream);

  /* The operation is submitted, but the caller will take it for one that is not and may free what
   * it uses. */
  if (code != CUDA_SUCCESS)
    _gpu_cuda.cuStreamSynchronize (stream->stream);

  return code;
}

gboolean
_gpu_cuda_end (GpuNativeStream  *native,
               GpuNativeEvent  **event,
               GpuCudaCall      *call,
               CUresult          code,
               GError          **error,
               const char       *function,
               const char       *format,
               ...)
{
  GpuCudaStream *stream = (GpuCudaStream *) native;
  g_autofree char *details = NULL;
  va_list arguments;

  if (G_LIKELY (code == CUDA_SUCCESS) && (call->event != NULL || stream->last != NULL))
    {
      code = record (stream, call);

      if (code != CUDA_SUCCESS)
        function = "cuEventRecord";
    }

  _gpu_cuda_leave (call->entered);

  if (G_LIKELY (code == CUDA_SUCCESS))
    {
      if (call->event != NULL)
        *event = &call->event->base;
      return TRUE;
    }

  if (call->event != NULL)
    _gpu_native_event_unref (&call->event->base);

  va_start (arguments, format);
  details = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  _gpu_cuda_set_error (error, function, code, "%s", details);

  return FALSE;
}

void
_gpu_cuda_cancel (GpuCudaCall *call)
{
  if (call->event != NULL)
    _gpu_native_event_unref (&call->event->base);

  _gpu_cuda_leave (call->entered);
}

static void
event_free (GpuNativeEvent *native)
{
  GpuCudaEvent *event = (GpuCudaEvent *) native;
  GpuCudaContext *context = event->context;
  gboolean entered;

  if (event->word != NULL)
    {
      _gpu_cuda_gate_free (event);
    }
  else if (!event->interprocess)
    {
      _gpu_cuda_give_event (context, event->timing, event->event);
    }
  else if (_gpu_cuda_enter_again (context, &entered, NULL))
    {
      _gpu_cuda.cuEventDestroy (event->event);
      _gpu_cuda_leave (entered);
    }

  if (event->start != NULL)
    _gpu_cuda_give_event (context, TRUE, event->start);

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

  /* What failed is over for who asked: so it must be. */
  if (code != CUDA_SUCCESS && code != CUDA_ERROR_NOT_READY)
    _gpu_cuda.cuEventSynchronize (event->event);

  _gpu_cuda_leave (entered);

  if (code == CUDA_ERROR_NOT_READY)
    return GPU_EVENT_STATUS_PENDING;

  return _gpu_cuda_check (code, "cuEventQuery", error) ? GPU_EVENT_STATUS_COMPLETE
                                                       : GPU_EVENT_STATUS_FAILED;
}

/* How long to poll before the thread sleeps: drivers need up to half a millisecond to wake it. */
static gint64
get_poll_time (const GpuCudaContext *context)
{
  GpuContextFlags flags = context->base.flags;

  if ((flags & GPU_CONTEXT_FLAGS_SCHED_BLOCKING) != 0)
    return 0;

  if ((flags & (GPU_CONTEXT_FLAGS_SCHED_SPIN | GPU_CONTEXT_FLAGS_SCHED_YIELD)) != 0)
    return G_MAXINT64 / 2;

  return 20 * G_TIME_SPAN_MILLISECOND;
}

CUresult
_gpu_cuda_poll (const GpuCudaContext *context,
                CUevent               event,
                CUstream              stream)
{
  gboolean yield = (context->base.flags & GPU_CONTEXT_FLAGS_SCHED_SPIN) == 0;
  gint64 end = g_get_monotonic_time () + get_poll_time (context);
  CUresult code;

  while ((code = event != NULL ? _gpu_cuda.cuEventQuery (event)
                               : _gpu_cuda.cuStreamQuery (stream)) == CUDA_ERROR_NOT_READY
         && g_get_monotonic_time () < end)
    {
      if (yield)
        g_thread_yield ();
    }

  return code;
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
    code = _gpu_cuda_poll (event->context, event->event, NULL);

  /* Also after a query that failed: whoever waited goes on to free what the event is about. */
  if (code != CUDA_SUCCESS)
    {
      function = "cuEventSynchronize";
      code = _gpu_cuda.cuEventSynchronize (event->event);
    }

  _gpu_cuda_leave (entered);

  return _gpu_cuda_check (code, function, error);
}

static gboolean
check_timing (GpuCudaEvent  *event,
              GError       **error)
{
  if (event->timing)
    return TRUE;

  g_set_error_literal (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED, "the event tells no times");

  return FALSE;
}

/* The driver takes no note of when it was given a command: that counts as its start. */
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

  return _gpu_cuda_clock_read (event->clock, moment, nanoseconds, error);
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

  if (!check_timing (event, error)
      || (event->start != NULL && !measure (event, event->start, &duration, error)))
    return FALSE;

  *nanoseconds = duration;

  return TRUE;
}

const GpuEventOps _gpu_cuda_event_ops =
{
  .free               = event_free,
  .get_handle         = event_get_handle,
  .query              = event_query,
  .wait               = event_wait,
  .get_profiling_time = event_get_profiling_time,
  .get_elapsed        = event_get_elapsed,
  .get_duration       = event_get_duration,
  .export_handle      = _gpu_cuda_event_export,
  .import_handle      = _gpu_cuda_event_import
};
