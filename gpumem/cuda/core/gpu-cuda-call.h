/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The begin and end functions that every op calls if it enqueues work. Frequent operations enter
 * the context only if the driver requires a current context: see _gpu_cuda_begin_plain().
 */
#pragma once

#include "gpumem/cuda/core/gpu-cuda-current.h"

G_BEGIN_DECLS

/* _begin() enters the context of the stream, and _end() leaves it. @event is the event parameter of
 * the op; on streams with profiling, the event also records the time before the operation. After
 * each _begin() that returned TRUE, the op must call _end() with the result of the driver. _end()
 * sets @error unless the result is CUDA_SUCCESS. */
GPU_COLD gboolean
            _gpu_cuda_begin_event  (GpuNativeStream *stream,
                                    GpuNativeEvent **event,
                                    GpuCudaCall     *call,
                                    GError         **error);
/* Called between _gpu_cuda_begin() and _gpu_cuda_end() after a driver call failed with @code. If
 * the call may have failed because no context was current, enters the context and returns TRUE; the
 * caller must then repeat the call. */
GPU_COLD gboolean
            _gpu_cuda_enter_late   (GpuNativeStream *stream,
                                    GpuCudaCall     *call,
                                    CUresult         code);
gboolean    _gpu_cuda_end          (GpuNativeStream *stream,
                                    GpuNativeEvent **event,
                                    GpuCudaCall     *call,
                                    CUresult         code,
                                    GError         **error,
                                    const char      *function,
                                    const char      *format,
                                    ...) G_GNUC_PRINTF (7, 8);

static inline gboolean
_gpu_cuda_begin (GpuNativeStream  *stream,
                 GpuNativeEvent  **event,
                 GpuCudaCall      *call,
                 GError          **error)
{
  call->event = NULL;

  return _gpu_cuda_enter ((GpuCudaContext *) stream->context, &call->entered, error)
         && ((G_LIKELY (event == NULL) && G_LIKELY (((GpuCudaStream *) stream)->last == NULL))
             || _gpu_cuda_begin_event (stream, event, call, error));
}

/* Begins an operation without entering the context, which saves a query of the current context.
 * Returns FALSE if the caller must call _begin() instead. If the stream has a handle of its own,
 * the driver uses the context of the stream. If a driver does need a current context, the driver
 * call fails without effect. The op then calls _gpu_cuda_enter_late(). */
static inline gboolean
_gpu_cuda_begin_plain (GpuNativeStream  *stream,
                       GpuNativeEvent  **event,
                       GpuCudaCall      *call)
{
  guintptr handle = (guintptr) ((GpuCudaStream *) stream)->stream;

  call->entered = FALSE;
  call->event = NULL;

  return G_LIKELY (event == NULL) && G_LIKELY (handle > (guintptr) CU_STREAM_PER_THREAD)
         && G_LIKELY (!g_atomic_int_get (&_gpu_forked));
}

/* Ends an operation that succeeded and needs no event. Returns FALSE if the caller must call _end()
 * instead, to record an event or to set an error. */
static inline gboolean
_gpu_cuda_end_plain (GpuNativeStream *stream,
                     GpuCudaCall     *call,
                     CUresult         code)
{
  if (G_UNLIKELY (code != CUDA_SUCCESS) || G_UNLIKELY (call->event != NULL)
      || G_UNLIKELY (((GpuCudaStream *) stream)->last != NULL))
    return FALSE;

  _gpu_cuda_leave (call->entered);

  return TRUE;
}

/* Called instead of _end() if the op failed before its first driver call. */
void        _gpu_cuda_cancel       (GpuCudaCall     *call);
/* Caller has entered the context. Creates the event that an op returns. _gpu_cuda_begin() calls
 * this function if the caller of the op requests an event. */
GpuCudaEvent *
            _gpu_cuda_event_new    (GpuCudaContext  *context,
                                    GpuEventFlags    flags,
                                    GError         **error);
/* Takes ownership of an event that another process or the program records. */
GpuCudaEvent *
            _gpu_cuda_event_new_for (GpuCudaContext *context,
                                    CUevent          event);
/* Caller has entered the context. Polls @event, or @stream if @event is NULL, until it completes,
 * @deadline has passed or the polling time of the context has passed. For application threads that
 * wait. Does not invalidate captures of the program. */
CUresult    _gpu_cuda_poll         (const GpuCudaContext *context,
                                    CUevent          event,
                                    CUstream         stream,
                                    gint64           deadline);

G_END_DECLS
