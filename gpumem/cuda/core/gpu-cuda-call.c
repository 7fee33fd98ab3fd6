/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The begin and end functions that every op calls if it enqueues work.
 *
 * The library registers no callbacks with the driver: a waiting thread polls for a while, then
 * sleeps in cuEventSynchronize().
 */
#include "config.h"

#include "gpumem/base/gpu-thread-private.h"
#include "gpumem/cuda/core/gpu-cuda-call.h"

GpuCudaEvent *
_gpu_cuda_event_new (GpuCudaContext  *context,
                     GpuEventFlags    flags,
                     GError         **error)
{
  GpuCudaEvent *event = g_new0 (GpuCudaEvent, 1);
  gboolean made;

  event->timing = (flags & GPU_EVENT_FLAGS_TIMING) != 0;
  event->is_foreign = (flags & GPU_EVENT_FLAGS_INTERPROCESS) != 0;

  if (event->is_foreign)
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
        _gpu_cuda_recycle_event (context, event->timing, event->event);
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
  event->is_foreign = TRUE;
  event->context = context;
  _gpu_native_context_ref (&context->base);

  return event;
}

/* The handle of the per-thread stream denotes a different queue in each thread. Order the queue of
 * this thread after the work of the thread that used the stream last. */
static gboolean
follow_thread (GpuCudaStream  *stream,
               GError        **error)
{
  const guint64 thread = _gpu_thread_get_number ();

  if (stream->thread == thread)
    return TRUE;

  if (!_gpu_cuda_check (_gpu_cuda.cuStreamWaitEvent (stream->stream, stream->last, 0),
                        "cuStreamWaitEvent", error))
    return FALSE;

  stream->thread = thread;

  return TRUE;
}

/* Caller has entered the context. */
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

/* The codes include CUDA_ERROR_INVALID_VALUE: if no context is current and the memory consists of
 * several mapped chunks, the driver returns this code. */
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

  /* The operation is already submitted, but the caller gets an error and may free the memory that
   * the operation uses. Therefore wait for the operation. */
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

/* The time that a thread polls before it begins to yield, in microseconds. Yielding makes short
 * waits slower. */
#define SPIN_TIME 20

/* Gets the time that a thread polls before it sleeps, in microseconds. Polling makes short waits
 * faster, because drivers need up to 0.5 ms to wake a thread. */
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

GPU_HOT CUresult
_gpu_cuda_poll (const GpuCudaContext *context,
                CUevent               event,
                CUstream              stream,
                gint64                deadline)
{
  gboolean spin = (context->base.flags & GPU_CONTEXT_FLAGS_SCHED_SPIN) != 0;
  gboolean yield = (context->base.flags & GPU_CONTEXT_FLAGS_SCHED_YIELD) != 0;
  gint64 start = g_get_monotonic_time ();
  gint64 end = MIN (deadline, start + get_poll_time (context));
  gint64 now;
  CUstreamCaptureMode mode;
  gboolean is_relaxed = _gpu_cuda_relax (&mode);
  CUresult code;

  while ((code = event != NULL ? _gpu_cuda_raw.cuEventQuery (event)
                               : _gpu_cuda_raw.cuStreamQuery (stream)) == CUDA_ERROR_NOT_READY
         && (now = g_get_monotonic_time ()) < end)
    {
      if (yield || (!spin && now - start > SPIN_TIME))
        g_thread_yield ();
    }

  if (is_relaxed)
    _gpu_cuda.cuThreadExchangeStreamCaptureMode (&mode);

  return code;
}
