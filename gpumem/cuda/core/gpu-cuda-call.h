/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The beginning and end of every op that enqueues. Copies on the device and launches enter the
 * context only where the driver asks for it: _gpu_cuda_begin_plain().
 */
#pragma once

#include "gpumem/cuda/core/gpu-cuda-current.h"

G_BEGIN_DECLS

/* They enter and leave the context of the stream. @event is that of the op; streams that profile
 * have the time before the operation taken, too. After a _begin() that returned TRUE there must be
 * an _end(), with the code of the driver: it sets @error unless that is CUDA_SUCCESS. */
GPU_COLD gboolean
            _gpu_cuda_begin_event  (GpuNativeStream *stream,
                                    GpuNativeEvent **event,
                                    GpuCudaCall     *call,
                                    GError         **error);
/* Between the two, after a call that was not a success: TRUE if it answered @code for want of a
 * current context, which it has now, and is to be made again. */
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

/* TRUE in place of a _begin(), for a copy on the device or a launch that needs no current context:
 * where the stream has a handle of its own the driver takes them to belong to the context of the
 * stream, whatever is current. One that does not says so and has done nothing, and then there is
 * _gpu_cuda_enter_late(). So nobody has to ask first what is current. */
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

/* TRUE in place of an _end() that has nothing to do but to leave. */
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

/* In place of an _end(), for an op that could not even ask the driver. */
void        _gpu_cuda_cancel       (GpuCudaCall     *call);
/* With the context entered. What _gpu_cuda_begin() does for ops that are asked for an event. */
GpuCudaEvent *
            _gpu_cuda_event_new    (GpuCudaContext  *context,
                                    GpuEventFlags    flags,
                                    GError         **error);
/* Takes over an event that is recorded in another process. */
GpuCudaEvent *
            _gpu_cuda_event_new_for (GpuCudaContext *context,
                                    CUevent          event);
guint       _gpu_cuda_get_thread   (void);
/* With the context entered. The state of @event, or of @stream if that is NULL, when it is no
 * longer pending, or a while has passed: for a thread of the user's that waits. */
CUresult    _gpu_cuda_poll         (const GpuCudaContext *context,
                                    CUevent          event,
                                    CUstream         stream);

G_END_DECLS
