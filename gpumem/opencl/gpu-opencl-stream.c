/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/opencl/driver/gpu-opencl.h"

/* Lists of up to this many events are on the stack; longer lists are rare. */
#define N_EVENTS_ON_STACK 16

/* Takes ownership of @queue. */
static GpuNativeStream *
new_stream (GpuNativeContext *context,
            GpuOpenclDevice  *device,
            cl_command_queue  queue,
            GpuStreamFlags    flags,
            gboolean          borrowed)
{
  GpuOpenclStream *stream = g_new0 (GpuOpenclStream, 1);

  stream->base.backend = &_gpu_opencl_backend;
  stream->base.context = context;
  stream->queue = queue;
  stream->shared_queue = _gpu_opencl_queue_new (queue, device);
  stream->device = device;
  stream->out_of_order = (flags & GPU_STREAM_FLAGS_OUT_OF_ORDER) != 0;
  stream->finish_on_free = stream->out_of_order && !borrowed
                           && _gpu_opencl_device_is_intel_cpu (device);

  return &stream->base;
}

/* As in CUDA, negative numbers have a higher priority and positive numbers a lower priority. */
static cl_queue_properties
get_priority_hint (int priority)
{
  if (priority < 0)
    return CL_QUEUE_PRIORITY_HIGH_KHR;

  return priority > 0 ? CL_QUEUE_PRIORITY_LOW_KHR : CL_QUEUE_PRIORITY_MED_KHR;
}

static cl_command_queue
create_with_properties (cl_context                   context,
                        GpuOpenclDevice             *device,
                        cl_command_queue_properties  bits,
                        int                          priority,
                        cl_int                      *code)
{
  cl_queue_properties properties[5] = { 0 };
  guint n = 0;

  if (bits != 0)
    {
      properties[n++] = CL_QUEUE_PROPERTIES;
      properties[n++] = bits;
    }
  if (priority != 0 && (device->base.capabilities & GPU_CAPABILITIES_PRIORITY))
    {
      properties[n++] = CL_QUEUE_PRIORITY_KHR;
      properties[n++] = get_priority_hint (priority);
    }

  return clCreateCommandQueueWithProperties (context, device->id, n > 0 ? properties : NULL, code);
}

static GpuNativeStream *
stream_create (GpuNativeContext  *context,
               GpuNativeDevice   *native_device,
               GpuStreamFlags     flags,
               int                priority,
               GError           **error)
{
  GpuOpenclDevice *device = (GpuOpenclDevice *) native_device;
  const char *function = "clCreateCommandQueueWithProperties";
  cl_command_queue_properties bits = 0;
  cl_command_queue queue;
  cl_int code;

  if (!_gpu_backend_check_process (error))
    return NULL;

  /* Never request an on-device queue: PoCL ends the process if a program requests one. */
  if (flags & GPU_STREAM_FLAGS_OUT_OF_ORDER)
    bits |= CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE;
  if (flags & GPU_STREAM_FLAGS_PROFILING)
    bits |= CL_QUEUE_PROFILING_ENABLE;

  if (device->api >= 20)
    {
      queue = create_with_properties (_gpu_opencl_context_handle (context), device, bits, priority,
                                      &code);
    }
  else
    {
      function = "clCreateCommandQueue";
      queue = clCreateCommandQueue (_gpu_opencl_context_handle (context), device->id, bits, &code);
    }

  if (code != CL_SUCCESS)
    {
      _gpu_opencl_set_error (error, function, code, "device %s, flags 0x%x, priority %d",
                             native_device->id, flags, priority);
      return NULL;
    }

  return new_stream (context, device, queue, flags, FALSE);
}

static gboolean
get_queue_info (cl_command_queue        queue,
                cl_command_queue_info   info,
                gpointer                value,
                gsize                   size,
                GError                **error)
{
  cl_int code = clGetCommandQueueInfo (queue, info, size, value, NULL);

  if (code == CL_SUCCESS)
    return TRUE;

  _gpu_opencl_set_error (error, "clGetCommandQueueInfo", code, "queue %p, info 0x%04x",
                         (gpointer) queue, info);
  return FALSE;
}

static GpuOpenclDevice *
find_device (GpuNativeContext  *context,
             cl_command_queue   queue,
             GError           **error)
{
  cl_context queue_context = NULL;
  cl_device_id id = NULL;

  if (!get_queue_info (queue, CL_QUEUE_CONTEXT, &queue_context, sizeof queue_context, error) ||
      !get_queue_info (queue, CL_QUEUE_DEVICE, &id, sizeof id, error))
    return NULL;

  if (queue_context != _gpu_opencl_context_handle (context))
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "queue %p is of context %p, not of context %p", (gpointer) queue,
                   (gpointer) queue_context, (gpointer) _gpu_opencl_context_handle (context));
      return NULL;
    }

  for (guint i = 0; i < context->n_devices; i++)
    {
      GpuOpenclDevice *device = (GpuOpenclDevice *) context->devices[i];

      if (device->id == id)
        return device;
    }

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "queue %p is of device %p, which is not a device of this context",
               (gpointer) queue, (gpointer) id);
  return NULL;
}

static gboolean
get_flags (GpuOpenclDevice   *device,
           cl_command_queue   queue,
           GpuStreamFlags    *flags,
           GError           **error)
{
  cl_command_queue_properties bits = 0;

  if (!get_queue_info (queue, CL_QUEUE_PROPERTIES, &bits, sizeof bits, error))
    return FALSE;

  if (device->api >= 20 && (bits & CL_QUEUE_ON_DEVICE))
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "queue %p is an on-device queue: the host cannot enqueue commands to it",
                   (gpointer) queue);
      return FALSE;
    }

  *flags = GPU_STREAM_FLAGS_NONE;
  if (bits & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE)
    *flags |= GPU_STREAM_FLAGS_OUT_OF_ORDER;
  if (bits & CL_QUEUE_PROFILING_ENABLE)
    *flags |= GPU_STREAM_FLAGS_PROFILING;
  return TRUE;
}

static GpuNativeStream *
stream_wrap (GpuNativeContext  *context,
             guint64            handle,
             GpuWrapMode        mode,
             GpuNativeDevice  **device,
             GpuStreamFlags    *flags,
             GError           **error)
{
  cl_command_queue queue = (cl_command_queue) (guintptr) handle;
  GpuOpenclDevice *found;

  if (!_gpu_backend_check_process (error))
    return NULL;

  found = find_device (context, queue, error);
  if (found == NULL || !get_flags (found, queue, flags, error))
    return NULL;

  if (mode == GPU_WRAP_MODE_BORROW)
    {
      cl_int code = clRetainCommandQueue (queue);

      if (code != CL_SUCCESS)
        {
          _gpu_opencl_set_error (error, "clRetainCommandQueue", code, "queue %p",
                                 (gpointer) queue);
          return NULL;
        }
    }

  *device = &found->base;
  return new_stream (context, found, queue, *flags, mode == GPU_WRAP_MODE_BORROW);
}

/* Although all work has completed, a thread of Intel's driver may still use an out-of-order queue.
 * If the queue is released meanwhile, this thread frees the queue, and waits for itself. */
static void
stream_free (GpuNativeStream *native)
{
  GpuOpenclStream *stream = (GpuOpenclStream *) native;

  _gpu_opencl_pass_held (native);
  if (stream->finish_on_free)
    clFinish (stream->queue);
  _gpu_opencl_queue_close (stream->shared_queue);
  clReleaseCommandQueue (_gpu_opencl_stream_handle (native));
  g_free (native);
}

static guint64
stream_get_handle (GpuNativeStream *native)
{
  return (guint64) (guintptr) _gpu_opencl_stream_handle (native);
}

static GpuNativeEvent *
stream_record (GpuNativeStream  *native,
               GpuEventFlags     flags,
               GError          **error)
{
  GpuNativeEvent *event = NULL;
  cl_event marker = NULL;
  cl_int code;

  if (flags & GPU_EVENT_FLAGS_INTERPROCESS)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                   "OpenCL events cannot be shared with other processes");
      return NULL;
    }
  if (!_gpu_backend_check_process (error))
    return NULL;

  code = clEnqueueMarkerWithWaitList (_gpu_opencl_stream_handle (native), 0, NULL, &marker);
  _gpu_opencl_enqueued (native, code, "clEnqueueMarkerWithWaitList", marker, &event, error,
                        "marker after all work of the stream");

  return event;
}

/* Enqueues a second barrier without a wait list, which waits for all previous work including
 * @first. Without the second barrier, PoCL drops the dependencies of @first at the next barrier
 * with a wait list. If a user event may fail @first, the second barrier also waits for a marker
 * that waits for @guards: see gpu-opencl-guard.c. @first and the event of the marker are retained,
 * even if the second barrier fails, because PoCL aborts if a command fails after its event was
 * released. */
static cl_int
repeat_barrier (GpuNativeStream  *native,
                cl_event          first,
                GPtrArray        *guards,
                GpuNativeEvent  **event)
{
  cl_command_queue queue = _gpu_opencl_stream_handle (native);
  GArray *pieces;
  cl_event marker = NULL;
  cl_event barrier = NULL;
  cl_int code = CL_SUCCESS;

  if (event == NULL)
    return clEnqueueBarrierWithWaitList (queue, 0, NULL, NULL);

  pieces = _gpu_opencl_pieces_new ();

  if (guards != NULL)
    code = clEnqueueMarkerWithWaitList (queue, guards->len, (const cl_event *) guards->pdata,
                                        &marker);

  if (marker != NULL)
    {
      _gpu_opencl_hold_event (native, first);
      _gpu_opencl_hold_event (native, marker);
      g_array_append_val (pieces, marker);
    }

  if (code == CL_SUCCESS)
    code = clEnqueueBarrierWithWaitList (queue, 0, NULL, &barrier);

  if (barrier != NULL)
    g_array_append_val (pieces, first);

  *event = _gpu_opencl_event_new (native, barrier != NULL ? barrier : first);
  ((GpuOpenclEvent *) *event)->pieces = pieces;

  return code;
}

static gboolean
stream_wait (GpuNativeStream        *native,
             GpuNativeEvent *const  *events,
             guint                   n_events,
             GpuNativeEvent        **event,
             GError                **error)
{
  g_autoptr (GPtrArray) guards = _gpu_opencl_list_guards (native, events, n_events);
  const guint n = n_events + (guards != NULL ? guards->len : 0);
  cl_event barrier = NULL;
  cl_event on_stack[N_EVENTS_ON_STACK];
  g_autofree cl_event *allocated = NULL;
  cl_event *list = on_stack;
  cl_int code = CL_SUCCESS;

  if (n > N_EVENTS_ON_STACK)
    list = allocated = g_new (cl_event, n);
  for (guint i = 0; i < n; i++)
    list[i] = i < n_events ? _gpu_opencl_event_handle (events[i])
                           : g_ptr_array_index (guards, i - n_events);

  if (guards != NULL)
    code = _gpu_opencl_hold_awaited (native, events, n_events, guards);
  if (code == CL_SUCCESS)
    code = clEnqueueBarrierWithWaitList (_gpu_opencl_stream_handle (native), n,
                                         n > 0 ? list : NULL, event != NULL ? &barrier : NULL);
  if (code == CL_SUCCESS)
    _gpu_opencl_set_guards (native, guards);
  if (code == CL_SUCCESS && ((GpuOpenclStream *) native)->out_of_order)
    {
      code = repeat_barrier (native, barrier, guards, event);
      event = NULL;
    }

  return _gpu_opencl_enqueued (native, code, "clEnqueueBarrierWithWaitList", barrier, event, error,
                               "waiting for %u events", n_events);
}

static gboolean
stream_barrier (GpuNativeStream  *native,
                GpuNativeEvent  **event,
                GError          **error)
{
  cl_event barrier = NULL;
  cl_int code = clEnqueueBarrierWithWaitList (_gpu_opencl_stream_handle (native), 0, NULL,
                                              event != NULL ? &barrier : NULL);

  return _gpu_opencl_enqueued (native, code, "clEnqueueBarrierWithWaitList", barrier, event, error,
                               "waiting for all work before it");
}

static gboolean
stream_flush (GpuNativeStream  *native,
              GError          **error)
{
  cl_int code = clFlush (_gpu_opencl_stream_handle (native));

  return _gpu_opencl_enqueued (native, code, "clFlush", NULL, NULL, error, "queue %p",
                               (gpointer) _gpu_opencl_stream_handle (native));
}

static gboolean
stream_finish (GpuNativeStream  *native,
               GError          **error)
{
  cl_int code;

  if (!_gpu_backend_check_process (error))
    return FALSE;

  code = clFinish (_gpu_opencl_stream_handle (native));

  return _gpu_opencl_enqueued (native, code, "clFinish", NULL, NULL, error, "queue %p",
                               (gpointer) _gpu_opencl_stream_handle (native));
}

const GpuStreamOps _gpu_opencl_stream_ops =
{
  .create     = stream_create,
  .wrap       = stream_wrap,
  .free       = stream_free,
  .get_handle = stream_get_handle,
  .record     = stream_record,
  .wait       = stream_wait,
  .barrier    = stream_barrier,
  .flush      = stream_flush,
  .finish     = stream_finish
};
