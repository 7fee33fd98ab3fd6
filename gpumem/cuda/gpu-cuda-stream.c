/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/base/gpu-thread-private.h"
#include "gpumem/cuda/core/gpu-cuda-call.h"

#define KEEP_RULE G_MAXUINT

/* Takes ownership of @handle if @mode is GPU_WRAP_MODE_ADOPT. */
static GpuNativeStream *
new_stream (GpuNativeContext *context,
            CUstream          handle,
            GpuWrapMode       mode,
            GpuStreamFlags    flags)
{
  static gint last_serial;
  GpuCudaStream *stream = g_aligned_alloc0 (1, sizeof (GpuCudaStream), GPU_LINE);

  stream->serial = (guint) g_atomic_int_add (&last_serial, 1) + 1;
  stream->base.backend = &_gpu_cuda_backend;
  stream->base.context = context;
  stream->stream = handle;
  stream->mode = mode;
  stream->profiling = (flags & GPU_STREAM_FLAGS_PROFILING) != 0;

  return &stream->base;
}

static GpuNativeStream *
stream_create (GpuNativeContext  *native,
               GpuNativeDevice   *device,
               GpuStreamFlags     flags,
               int                priority,
               GError           **error)
{
  GpuCudaContext *context = (GpuCudaContext *) native;
  unsigned int cuda_flags = (flags & GPU_STREAM_FLAGS_NON_BLOCKING) != 0 ? CU_STREAM_NON_BLOCKING
                                                                        : CU_STREAM_DEFAULT;
  CUstream handle = NULL;
  gboolean entered;
  CUresult code;

  if (!_gpu_cuda_enter (context, &entered, error))
    return NULL;

  code = _gpu_cuda.cuStreamCreateWithPriority (&handle, cuda_flags, priority);
  if (_gpu_cuda_trim_pools (context, code))
    code = _gpu_cuda.cuStreamCreateWithPriority (&handle, cuda_flags, priority);
  _gpu_cuda_leave (entered);

  if (code != CUDA_SUCCESS)
    {
      _gpu_cuda_set_error (error, "cuStreamCreateWithPriority", code,
                           "device %s, flags 0x%x, priority %d", device->id, cuda_flags,
                           priority);
      return NULL;
    }

  return new_stream (native, handle, GPU_WRAP_MODE_ADOPT, flags);
}

/* Caller has entered the context. */
static gboolean
check_foreign (GpuCudaContext  *context,
               CUstream         handle,
               GpuStreamFlags  *flags,
               GError         **error)
{
  CUcontext owner = NULL;
  unsigned int cuda_flags = CU_STREAM_NON_BLOCKING;

  if (!_gpu_cuda_check (_gpu_cuda.cuStreamGetCtx (handle, &owner), "cuStreamGetCtx", error))
    return FALSE;

  /* The driver refuses to return the flags of a stream that is capturing, and invalidates the
   * capture. So assume that such a stream does not wait for the legacy default stream. */
  if (_gpu_cuda_check_capture (handle) == CUDA_SUCCESS
      && !_gpu_cuda_check (_gpu_cuda.cuStreamGetFlags (handle, &cuda_flags), "cuStreamGetFlags",
                           error))
    return FALSE;

  if (owner != context->context)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "stream %p belongs to context %p, which is not the context on %s",
                   (gpointer) handle, (gpointer) owner, context->device->base.id);
      return FALSE;
    }

  *flags = (cuda_flags & CU_STREAM_NON_BLOCKING) != 0 ? GPU_STREAM_FLAGS_NON_BLOCKING
                                                      : GPU_STREAM_FLAGS_NONE;

  return TRUE;
}

/* The handle of the per-thread stream denotes a different stream in each thread. The event `last`
 * orders these streams; see follow_thread() in gpu-cuda-call.c. */
static gboolean
start_per_thread (GpuCudaStream  *stream,
                  GError        **error)
{
  const unsigned int flags = CU_EVENT_DISABLE_TIMING;
  CUevent last = NULL;

  if (!_gpu_cuda_check (_gpu_cuda.cuEventCreate (&last, flags), "cuEventCreate", error))
    return FALSE;

  if (!_gpu_cuda_check (_gpu_cuda.cuEventRecord (last, stream->stream), "cuEventRecord", error))
    {
      _gpu_cuda.cuEventDestroy (last);
      return FALSE;
    }

  stream->last = last;
  stream->thread = _gpu_thread_get_number ();

  return TRUE;
}

/* Caller has entered the context. */
static GpuNativeStream *
wrap_entered (GpuNativeContext  *context,
              CUstream           handle,
              GpuWrapMode        mode,
              GpuStreamFlags    *flags,
              GError           **error)
{
  GpuNativeStream *native;

  *flags = GPU_STREAM_FLAGS_NONE;

  if (handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD)
    mode = GPU_WRAP_MODE_BORROW;
  else if (!check_foreign ((GpuCudaContext *) context, handle, flags, error))
    return NULL;

  native = new_stream (context, handle, mode, *flags);

  if (handle == CU_STREAM_PER_THREAD && !start_per_thread ((GpuCudaStream *) native, error))
    g_clear_pointer (&native, g_aligned_free);

  return native;
}

static GpuNativeStream *
stream_wrap (GpuNativeContext  *context,
             guint64            handle,
             GpuWrapMode        mode,
             GpuNativeDevice  **device,
             GpuStreamFlags    *flags,
             GError           **error)
{
  CUstream stream = handle == 0 ? CU_STREAM_LEGACY : (CUstream) (guintptr) handle;
  GpuNativeStream *native;
  gboolean entered;

  if (!_gpu_cuda_enter ((GpuCudaContext *) context, &entered, error))
    return NULL;

  native = wrap_entered (context, stream, mode, flags, error);
  _gpu_cuda_leave (entered);
  *device = context->devices[0];

  return native;
}

static void
stream_end_use (GpuNativeStream *native)
{
  _gpu_cuda_pool_remove_stream ((GpuCudaStream *) native);
}

static void
stream_free (GpuNativeStream *native)
{
  GpuCudaStream *stream = (GpuCudaStream *) native;
  gboolean entered;

  stream_end_use (native);

  if ((stream->mode == GPU_WRAP_MODE_ADOPT || stream->last != NULL)
      && _gpu_cuda_enter_again ((GpuCudaContext *) native->context, &entered, NULL))
    {
      if (stream->last != NULL)
        _gpu_cuda.cuEventDestroy (stream->last);
      if (stream->mode == GPU_WRAP_MODE_ADOPT)
        _gpu_cuda.cuStreamDestroy (stream->stream);
      _gpu_cuda_leave (entered);
    }

  g_aligned_free (stream);
}

static guint64
stream_get_handle (GpuNativeStream *native)
{
  return (guint64) (guintptr) ((GpuCudaStream *) native)->stream;
}

/* Any work of the legacy default stream, and a query of it, invalidates captures of streams that
 * wait for it. Caller has entered the context. */
static gboolean
check_legacy (CUstream   handle,
              GError   **error)
{
  CUresult code = handle == CU_STREAM_LEGACY ? _gpu_cuda_check_capture (handle) : CUDA_SUCCESS;

  if (code != CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)
    return _gpu_cuda_check (code, "cuStreamGetCaptureInfo", error);

  g_set_error_literal (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                       "a stream that waits for the legacy default stream is being captured into a "
                       "graph, so the legacy default stream cannot be queried; end the capture "
                       "first");

  return FALSE;
}

static GpuEventStatus
stream_query (GpuNativeStream  *native,
              GError          **error)
{
  GpuCudaStream *stream = (GpuCudaStream *) native;
  CUresult code = CUDA_SUCCESS;
  gboolean is_allowed;
  gboolean entered;

  if (!_gpu_cuda_enter_again ((GpuCudaContext *) native->context, &entered, error))
    return GPU_EVENT_STATUS_FAILED;

  is_allowed = check_legacy (stream->stream, error);

  if (is_allowed && stream->last != NULL)
    code = _gpu_cuda.cuEventQuery (stream->last);

  if (is_allowed && code == CUDA_SUCCESS)
    code = _gpu_cuda.cuStreamQuery (stream->stream);

  _gpu_cuda_leave (entered);

  if (!is_allowed)
    return GPU_EVENT_STATUS_FAILED;

  if (code == CUDA_ERROR_NOT_READY)
    return GPU_EVENT_STATUS_PENDING;

  return _gpu_cuda_check (code, "cuStreamQuery", error) ? GPU_EVENT_STATUS_COMPLETE
                                                        : GPU_EVENT_STATUS_FAILED;
}

static GpuNativeEvent *
stream_record (GpuNativeStream  *native,
               GpuEventFlags     flags,
               GError          **error)
{
  GpuNativeEvent *event = NULL;
  GpuCudaCall call;

  if (!_gpu_cuda_begin (native, NULL, &call, error))
    return NULL;

  call.event = _gpu_cuda_event_new ((GpuCudaContext *) native->context, flags, error);

  if (call.event == NULL)
    _gpu_cuda_leave (call.entered);
  else
    _gpu_cuda_end (native, &event, &call, CUDA_SUCCESS, error, "cuEventRecord",
                   "flags 0x%x", flags);

  return event;
}

static gboolean
stream_wait (GpuNativeStream        *native,
             GpuNativeEvent *const  *events,
             guint                   n_events,
             GpuNativeEvent        **event,
             GError                **error)
{
  CUstream stream = ((GpuCudaStream *) native)->stream;
  const char *function = "cuStreamWaitEvent";
  CUresult code = CUDA_SUCCESS;
  GpuCudaCall call;

  if (!_gpu_cuda_begin (native, event, &call, error))
    return FALSE;

  for (guint i = 0; i < n_events && code == CUDA_SUCCESS; i++)
    {
      GpuCudaEvent *one = (GpuCudaEvent *) events[i];

      if (one->word != NULL)
        {
          function = "cuStreamWaitValue32";
          code = _gpu_cuda_enqueue_host_wait (stream, one);
        }
      else
        {
          code = _gpu_cuda.cuStreamWaitEvent (stream, one->event, 0);
        }
    }

  return _gpu_cuda_end (native, event, &call, code, error, function,
                        "waiting for %u events", n_events);
}

/* A stream runs its operations in order, so a barrier only needs to record the event. */
static gboolean
stream_barrier (GpuNativeStream  *native,
                GpuNativeEvent  **event,
                GError          **error)
{
  GpuCudaCall call;

  if (event == NULL)
    return TRUE;

  return _gpu_cuda_begin (native, event, &call, error)
         && _gpu_cuda_end (native, event, &call, CUDA_SUCCESS, error, "cuEventRecord",
                           "barrier");
}

/* Nothing to do: the driver submits work immediately. */
static gboolean
stream_flush (GpuNativeStream  *native G_GNUC_UNUSED,
              GError          **error G_GNUC_UNUSED)
{
  return TRUE;
}

/* Sleeps in cuEventSynchronize(), because cuStreamSynchronize() spins in contexts without a
 * scheduling flag. Sets @code to the result. Returns FALSE if no event could be recorded. */
static gboolean
sleep_for_stream (GpuCudaContext *context,
                  CUstream        stream,
                  CUresult       *code)
{
  CUevent event;
  gboolean recorded;

  if (!_gpu_cuda_take_event (context, FALSE, &event, NULL))
    return FALSE;

  recorded = _gpu_cuda.cuEventRecord (event, stream) == CUDA_SUCCESS;

  if (recorded)
    *code = _gpu_cuda.cuEventSynchronize (event);

  _gpu_cuda_recycle_event (context, FALSE, event);

  return recorded;
}

/* Caller has entered the context. Blocks until all work of the stream has completed. Sets @function
 * to the function of the driver that returned the result. */
static CUresult
block (GpuCudaContext  *context,
       GpuCudaStream   *stream,
       CUresult         code,
       const char     **function)
{
  *function = "cuEventSynchronize";

  if (stream->last != NULL)
    return _gpu_cuda.cuEventSynchronize (stream->last);

  if (code == CUDA_ERROR_NOT_READY && sleep_for_stream (context, stream->stream, &code))
    return code;

  *function = "cuStreamSynchronize";

  return _gpu_cuda.cuStreamSynchronize (stream->stream);
}

/* Caller has entered the context. Blocks even if a query of the status failed, because the caller
 * may then free memory that the work uses. @code is the result of earlier queries. */
static gboolean
finish_entered (GpuCudaContext  *context,
                GpuCudaStream   *stream,
                CUresult         code,
                GError         **error)
{
  const char *function;

  if (code != CUDA_ERROR_NOT_READY)
    code = _gpu_cuda_poll (context, stream->last, stream->stream, G_MAXINT64);

  if (code == CUDA_SUCCESS)
    return TRUE;

  code = block (context, stream, code, &function);

  return _gpu_cuda_check (code, function, error);
}

/* Most waits end while the thread polls, which needs no current context. */
GPU_HOT static gboolean
stream_finish (GpuNativeStream  *native,
               GError          **error)
{
  GpuCudaContext *context = (GpuCudaContext *) native->context;
  GpuCudaStream *stream = (GpuCudaStream *) native;
  CUresult code = CUDA_ERROR_INVALID_CONTEXT;
  GpuCudaCall call;
  gboolean entered;
  gboolean success;

  if (_gpu_cuda_begin_plain (native, NULL, &call))
    code = _gpu_cuda_poll (context, NULL, stream->stream, G_MAXINT64);

  if (G_LIKELY (code == CUDA_SUCCESS))
    return TRUE;

  if (!_gpu_cuda_enter_again (context, &entered, error))
    return FALSE;

  success = finish_entered (context, stream, code, error);
  _gpu_cuda_leave (entered);

  return success;
}

/* Work of the default streams is never captured, and their handles are never reused. Ignores errors
 * of the driver: it fails these calls if the context is lost, and the next call of the caller then
 * reports that. */
static void
stream_get_state (GpuNativeStream *native,
                  guint64         *id,
                  guint64         *capture)
{
  CUstream handle = ((GpuCudaStream *) native)->stream;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  unsigned long long number = 0;
  cuuint64_t sequence = 0;
  gboolean entered;

  *capture = 0;
  if (id != NULL)
    *id = 0;

  if (handle == CU_STREAM_LEGACY || !_gpu_cuda_enter ((GpuCudaContext *) native->context,
                                                      &entered, NULL))
    return;

  if (_gpu_cuda_has_group (GPU_CUDA_GROUP_CAPTURE, NULL)
      && _gpu_cuda.cuStreamGetCaptureInfo_v2 (handle, &status, &sequence, NULL, NULL, NULL)
         == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE)
    *capture = sequence;

  /* This call would invalidate a capture of the stream. */
  if (id != NULL && status == CU_STREAM_CAPTURE_STATUS_NONE && handle != CU_STREAM_PER_THREAD
      && _gpu_cuda.cuStreamGetId != NULL
      && _gpu_cuda.cuStreamGetId (handle, &number) == CUDA_SUCCESS)
    *id = number;

  _gpu_cuda_leave (entered);
}

/* The data of a user object of the driver. */
typedef struct
{
  GDestroyNotify release;           /* NULL if no graph retains the object */
  gpointer       data;
} UserData;

/* Called by the driver, on any thread. */
static void
user_data_free (gpointer pointer)
{
  UserData *user = pointer;

  if (user->release != NULL)
    user->release (user->data);
  g_free (user);
}

/* Caller has entered the context. Takes ownership of @user. */
static gboolean
retain_user (CUgraph    graph,
             UserData  *user,
             GError   **error)
{
  CUuserObject object = NULL;

  if (!_gpu_cuda_check (_gpu_cuda.cuUserObjectCreate (&object, user, user_data_free, 1,
                                                      CU_USER_OBJECT_NO_DESTRUCTOR_SYNC),
                        "cuUserObjectCreate", error))
    {
      g_free (user);
      return FALSE;
    }

  if (_gpu_cuda_check (_gpu_cuda.cuGraphRetainUserObject (graph, object, 1,
                                                          CU_GRAPH_USER_OBJECT_MOVE),
                       "cuGraphRetainUserObject", error))
    return TRUE;

  user->release = NULL;             /* it would report that the graph was destroyed */
  _gpu_cuda.cuUserObjectRelease (object, 1);

  return FALSE;
}

/* Caller has entered the context. */
static gboolean
retain_entered (CUstream         stream,
                GDestroyNotify   release,
                gpointer         data,
                GError         **error)
{
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  cuuint64_t sequence = 0;
  CUgraph graph = NULL;
  UserData *user;

  if (!_gpu_cuda_check (_gpu_cuda.cuStreamGetCaptureInfo_v2 (stream, &status, &sequence, &graph,
                                                             NULL, NULL),
                        "cuStreamGetCaptureInfo", error))
    return FALSE;

  user = g_new (UserData, 1);
  *user = (UserData) { release, data };

  return retain_user (graph, user, error);
}

static gboolean
stream_retain_in_capture (GpuNativeStream  *native,
                          GDestroyNotify    release,
                          gpointer          data,
                          GError          **error)
{
  gboolean entered;
  gboolean success;

  if (!_gpu_cuda_has_group (GPU_CUDA_GROUP_CAPTURE, error)
      || !_gpu_cuda_enter ((GpuCudaContext *) native->context, &entered, error))
    return FALSE;

  success = retain_entered (((GpuCudaStream *) native)->stream, release, data, error);
  _gpu_cuda_leave (entered);

  return success;
}

/* If the driver fails, nothing changes, and the function returns KEEP_RULE, which sets no rule: the
 * caller must not set the thread of the program to the rule that it requested. The error is not
 * reported: the driver fails this call only if its other calls fail, too. */
static guint
stream_set_capture_rule (guint rule)
{
  CUstreamCaptureMode mode = (CUstreamCaptureMode) rule;

  if (rule == KEEP_RULE || !_gpu_cuda_has_group (GPU_CUDA_GROUP_CAPTURE, NULL)
      || _gpu_cuda.cuThreadExchangeStreamCaptureMode (&mode) != CUDA_SUCCESS)
    return KEEP_RULE;

  return mode;
}

const GpuStreamOps _gpu_cuda_stream_ops =
{
  .foreign_events      = TRUE,
  .has_default_handles = TRUE,
  .times_any           = TRUE,
  .finish_reports_failure = TRUE,
  .create              = stream_create,
  .wrap                = stream_wrap,
  .free                = stream_free,
  .get_handle          = stream_get_handle,
  .query               = stream_query,
  .record              = stream_record,
  .wait                = stream_wait,
  .barrier             = stream_barrier,
  .flush               = stream_flush,
  .finish              = stream_finish,
  .get_state           = stream_get_state,
  .retain_in_capture   = stream_retain_in_capture,
  .set_capture_rule    = stream_set_capture_rule,
  .end_use             = stream_end_use
};
