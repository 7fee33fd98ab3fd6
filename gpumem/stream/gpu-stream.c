/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/base/gpu-debug-private.h"
#include "gpumem/base/gpu-error-private.h"
#include "gpumem/base/gpu-nick-private.h"
#include "gpumem/device/gpu-context-private.h"
#include "gpumem/device/gpu-device-private.h"
#include "gpumem/stream/gpu-event-private.h"
#include "gpumem/stream/gpu-stream-private.h"

/**
 * SECTION:gpu-stream
 * @title: GpuStream
 * @short_description: an ordered queue of work
 * @see_also: #GpuEvent, #GpuMemory
 */

/**
 * GpuStream:
 *
 * An ordered queue of work on a device.
 *
 * |[<!-- language="C" -->
 * g_autoptr (GpuStream) queue = gpu_stream_new (context, GPU_STREAM_FLAGS_NONE, &error);
 * GpuExtent grid = { 1024, 1, 1 };
 *
 * gpu_stream_write (queue, GPU_MEMORY (buffer), 0, bytes, &error);
 * gpu_stream_launch (queue, kernel, &grid, NULL, &error, buffer);
 * if (!gpu_stream_synchronize (queue, NULL, &error))
 *   g_warning ("the work failed: %s", error->message);
 * ]|
 *
 * A stream executes its operations in submission order. The functions that submit operations do not
 * wait for these operations. The documentation of each function lists the few cases in which it may
 * block. The library keeps the memory and the objects that an operation uses until the operation
 * completes, so callers may drop all references right after a call.
 *
 * Drivers limit the number of pending commands. CUDA accepts about 1,000 in a stream: the next call
 * blocks until earlier commands have completed, and meanwhile so may calls of other threads that
 * allocate page-locked memory.
 *
 * The library orders conflicting uses of the same memory on several streams: it makes a stream wait
 * for the earlier use on the other stream. Uses of memory with %GPU_MEMORY_FLAGS_UNTRACKED are not
 * ordered.
 *
 * A stream with %GPU_STREAM_FLAGS_OUT_OF_ORDER orders only operations on the same memory, and
 * operations before and after gpu_stream_barrier() and gpu_stream_wait_event(). If 64 of its
 * operations are pending, the next submission blocks until they have completed, because drivers
 * examine all pending commands for each barrier. The limit does not apply if pending work waits for
 * a user event, or if the submission unmaps memory.
 *
 * The program may capture a stream into a CUDA graph with the driver's functions. Methods of the
 * stream are then captured. If a method of another stream uses memory in conflict with captured
 * work, that stream joins the capture, as after gpu_stream_wait_event(), and the program must join
 * it to the captured stream again. Operations that the host waits for, such as gpu_buffer_read(),
 * asynchronous methods of memory, mappings, copies of files and gpu_buffer_spill(), fail with
 * %GPU_ERROR_NOT_SUPPORTED in both cases, and leave the capture intact. So do fills for which the
 * driver has no operation. The graph keeps the #GBytes of captured operations, such as
 * gpu_stream_write(). The program must keep the memory that captured work uses, and the programs of
 * kernels, as long as it launches the graph.
 *
 * A graph cannot wait for work outside of it. So captured operations, and gpu_stream_wait_event(),
 * fail with %GPU_ERROR_NOT_SUPPORTED if they would follow pending work of another stream that does
 * not take part in the capture. The capture stays intact. The same is true of work that a stream
 * submitted before one of its methods made it join the capture. Wait for such work on the host
 * before the capture begins: gpu_stream_wait_event() does not suffice. If the driver's functions
 * begin the capture or make the stream join, earlier work of the stream may instead count as
 * captured: the operations succeed, but the graph does not wait for that work.
 *
 * If gpu_buffer_new_on_stream() is called during a capture, the graph allocates the memory, which
 * exists only after a launch of the graph. The graph frees the memory if the last reference is
 * dropped during the capture.
 *
 * All methods may be called from any thread. Each call is one submission; submissions of different
 * threads are executed in the order in which the library accepts them.
 *
 * Since: 0.1
 */
enum
{
  PROP_0,
  PROP_CONTEXT,
  PROP_DEVICE,
  PROP_FLAGS,
  PROP_PRIORITY,
  PROP_NATIVE_HANDLE,
  PROP_N_SUBMITTED,
  PROP_N_COMPLETED,
  PROP_N_HAZARD_WAITS,
  N_PROPS
};

static GParamSpec *props[N_PROPS];

/* Microseconds that gpu_stream_is_idle() waits for a marker to complete. */
#define MARKER_TIME G_TIME_SPAN_MILLISECOND

static void initable_iface_init (GInitableIface *iface);

gpointer _gpu_stream_class;

G_DEFINE_FINAL_TYPE_WITH_CODE (GpuStream, gpu_stream, G_TYPE_OBJECT,
                               G_IMPLEMENT_INTERFACE (G_TYPE_INITABLE, initable_iface_init))

static void
gpu_stream_get_property (GObject    *object,
                         guint       id,
                         GValue     *value,
                         GParamSpec *pspec)
{
  GpuStream *stream = GPU_STREAM (object);
  GpuTimeline *timeline = stream->timeline;

  switch (id)
    {
    case PROP_CONTEXT:
      g_value_set_object (value, stream->context);
      break;
    case PROP_DEVICE:
      g_value_set_object (value, stream->device);
      break;
    case PROP_FLAGS:
      g_value_set_flags (value, stream->flags);
      break;
    case PROP_PRIORITY:
      g_value_set_int (value, stream->priority);
      break;
    case PROP_NATIVE_HANDLE:
      g_value_set_uint64 (value, gpu_stream_get_native_handle (stream));
      break;
    case PROP_N_SUBMITTED:
      g_value_set_uint64 (value, timeline != NULL ? _gpu_timeline_get_submitted (timeline) : 0);
      break;
    case PROP_N_COMPLETED:
      g_value_set_uint64 (value, timeline != NULL ? __atomic_load_n (&timeline->completed,
                                                                     __ATOMIC_ACQUIRE) : 0);
      break;
    case PROP_N_HAZARD_WAITS:
      g_value_set_uint64 (value, timeline != NULL ? __atomic_load_n (&timeline->n_hazard_waits,
                                                                     __ATOMIC_RELAXED) : 0);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
gpu_stream_set_property (GObject      *object,
                         guint         id,
                         const GValue *value,
                         GParamSpec   *pspec)
{
  GpuStream *stream = GPU_STREAM (object);

  switch (id)
    {
    case PROP_CONTEXT:
      stream->context = g_value_dup_object (value);
      break;
    case PROP_DEVICE:
      stream->device = g_value_dup_object (value);
      break;
    case PROP_FLAGS:
      stream->flags = g_value_get_flags (value);
      break;
    case PROP_PRIORITY:
      stream->priority = g_value_get_int (value);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
gpu_stream_finalize (GObject *object)
{
  GpuStream *stream = GPU_STREAM (object);

  if (stream->timeline != NULL)
    {
      _gpu_timeline_unuse (stream->timeline);
      _gpu_timeline_unref (stream->timeline);
    }

  g_clear_object (&stream->context);
  g_clear_object (&stream->device);
  _gpu_live_add (GPU_LIVE_STREAM, -1);

  G_OBJECT_CLASS (gpu_stream_parent_class)->finalize (object);
}

static void
install_construct_properties (void)
{
  const GParamFlags flags = G_PARAM_READWRITE | G_PARAM_CONSTRUCT_ONLY | G_PARAM_STATIC_STRINGS;

  /**
   * GpuStream:context:
   *
   * The context of the stream.
   *
   * Since: 0.1
   */
  props[PROP_CONTEXT] = g_param_spec_object ("context", NULL, NULL, GPU_TYPE_CONTEXT, flags);
  /**
   * GpuStream:device:
   *
   * The device that executes the work; by default the first device of the context.
   *
   * Since: 0.1
   */
  props[PROP_DEVICE] = g_param_spec_object ("device", NULL, NULL, GPU_TYPE_DEVICE, flags);
  /**
   * GpuStream:flags:
   *
   * The behavior of the stream.
   *
   * Since: 0.1
   */
  props[PROP_FLAGS] = g_param_spec_flags ("flags", NULL, NULL, GPU_TYPE_STREAM_FLAGS,
                                          GPU_STREAM_FLAGS_NONE, flags);
  /**
   * GpuStream:priority:
   *
   * The priority of the stream. Streams with smaller numbers are preferred; 0 is the default.
   *
   * Since: 0.1
   */
  props[PROP_PRIORITY] = g_param_spec_int ("priority", NULL, NULL, G_MININT, G_MAXINT, 0, flags);
}

static void
gpu_stream_class_init (GpuStreamClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  const GParamFlags flags = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS;

  _gpu_stream_class = klass;
  object_class->get_property = gpu_stream_get_property;
  object_class->set_property = gpu_stream_set_property;
  object_class->finalize = gpu_stream_finalize;

  install_construct_properties ();
  /**
   * GpuStream:native-handle:
   *
   * The driver's handle, see gpu_stream_get_native_handle().
   *
   * Since: 0.1
   */
  props[PROP_NATIVE_HANDLE] = g_param_spec_uint64 ("native-handle", NULL, NULL, 0, G_MAXUINT64, 0,
                                                   flags);
  /**
   * GpuStream:n-submitted:
   *
   * The number of submitted operations.
   *
   * Since: 0.1
   */
  props[PROP_N_SUBMITTED] = g_param_spec_uint64 ("n-submitted", NULL, NULL, 0, G_MAXUINT64, 0,
                                                 flags);
  /**
   * GpuStream:n-completed:
   *
   * The number of operations that are known to be complete.
   *
   * Since: 0.1
   */
  props[PROP_N_COMPLETED] = g_param_spec_uint64 ("n-completed", NULL, NULL, 0, G_MAXUINT64, 0,
                                                 flags);
  /**
   * GpuStream:n-hazard-waits:
   *
   * The number of waits for other streams that the library inserted, because of earlier uses of
   * memory on those streams.
   *
   * Since: 0.1
   */
  props[PROP_N_HAZARD_WAITS] = g_param_spec_uint64 ("n-hazard-waits", NULL, NULL, 0, G_MAXUINT64,
                                                    0, flags);

  g_object_class_install_properties (object_class, N_PROPS, props);
}

static void
gpu_stream_init (GpuStream *stream)
{
  _gpu_live_add (GPU_LIVE_STREAM, 1);
}

static gboolean
check_capability (GpuNativeDevice  *device,
                  gboolean          wanted,
                  GpuCapabilities   capability,
                  const char       *what,
                  GError          **error)
{
  if (!wanted || (device->capabilities & capability) != 0)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
               "gpu_stream_new: the device %s does not support %s", device->id, what);

  return FALSE;
}

static GpuNativeDevice *
choose_device (GpuStream         *stream,
               GpuNativeContext  *context,
               GError           **error)
{
  GpuNativeDevice *device;

  if (stream->device == NULL)
    return context->devices[0];

  device = _gpu_device_get_native (stream->device);

  for (guint i = 0; i < context->n_devices; i++)
    {
      if (context->devices[i] == device)
        return device;
    }

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "gpu_stream_new: the device %s does not belong to the context",
               gpu_device_get_id (stream->device));

  return NULL;
}

/* Clamps the priority as the driver does, so that the property has the priority in effect. Uses the
 * range of the first device: if the range of the stream's device differs, the driver clamps the
 * priority again. */
static void
clamp_priority (GpuStream        *stream,
                GpuNativeContext *context)
{
  const GpuContextOps *ops = context->backend->context;
  int least;
  int greatest;

  if (stream->priority != 0 && ops->get_priority_range != NULL
      && ops->get_priority_range (context, &least, &greatest, NULL))
    stream->priority = CLAMP (stream->priority, greatest, least);
}

/* Prefixes errors of the back end with the name of the function. Errors that this file sets already
 * have that prefix. */
static GpuNativeStream *
create_native (GpuStream         *stream,
               GpuNativeContext  *context,
               GpuNativeDevice  **device,
               GError           **error)
{
  const GpuStreamOps *ops = context->backend->stream;
  GpuNativeStream *native;

  *device = choose_device (stream, context, error);

  if (*device == NULL
      || !check_capability (*device, (stream->flags & GPU_STREAM_FLAGS_OUT_OF_ORDER) != 0,
                            GPU_CAPABILITIES_OUT_OF_ORDER, "out-of-order streams", error)
      || !check_capability (*device, (stream->flags & GPU_STREAM_FLAGS_PROFILING) != 0,
                            GPU_CAPABILITIES_PROFILING, "profiling streams", error)
      || !check_capability (*device, stream->priority != 0, GPU_CAPABILITIES_PRIORITY,
                            "priorities", error))
    return NULL;

  clamp_priority (stream, context);
  native = ops->create (context, *device, stream->flags, stream->priority, error);

  if (native == NULL)
    g_prefix_error (error, "gpu_stream_new: ");

  return native;
}

static GpuNativeStream *
wrap_native (GpuStream         *stream,
             GpuNativeContext  *context,
             GpuNativeDevice  **device,
             GError           **error)
{
  const GpuStreamOps *ops = context->backend->stream;
  GpuNativeStream *native = NULL;

  if (ops->wrap == NULL)
    {
      _gpu_backend_fail (context->backend, "gpu_stream_new_wrapped", "streams to wrap", error);
      return NULL;
    }

  _gpu_timeline_allow_captures ();
  native = ops->wrap (context, stream->handle, stream->mode, device, &stream->flags, error);

  if (native == NULL)
    g_prefix_error (error, "gpu_stream_new_wrapped: ");

  return native;
}

static gboolean
gpu_stream_initable_init (GInitable     *initable,
                          GCancellable  *cancellable,
                          GError       **error)
{
  GpuStream *stream = GPU_STREAM (initable);
  GpuNativeContext *context;
  GpuNativeDevice *device;
  GpuNativeStream *native;
  GError *failure = NULL;

  if (stream->timeline != NULL)
    return TRUE;

  if (stream->context == NULL)
    {
      g_set_error_literal (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                           "gpu_stream_new: no context was given");
      return FALSE;
    }

  if (!_gpu_context_check (stream->context, "gpu_stream_new", error))
    return FALSE;

  context = _gpu_context_get_native (stream->context);
  native = stream->is_foreign ? wrap_native (stream, context, &device, &failure)
                              : create_native (stream, context, &device, &failure);

  if (native == NULL)
    {
      _gpu_native_context_report (context, failure);
      g_propagate_error (error, failure);

      return FALSE;
    }

  stream->timeline = _gpu_timeline_new (context, device, native, stream->flags, stream->priority);

  /* Other threads may already find the timeline in the list of the context. */
  if (stream->is_foreign)
    {
      stream->timeline->is_borrowed = stream->mode == GPU_WRAP_MODE_BORROW;
      g_atomic_int_set (&stream->timeline->is_open, TRUE);
    }

  if (stream->device == NULL)
    stream->device = _gpu_device_new_for_native (device);

  return TRUE;
}

static void
initable_iface_init (GInitableIface *iface)
{
  iface->init = gpu_stream_initable_init;
}

GpuTimeline *
_gpu_stream_fail (const char  *function,
                  GError     **error)
{
  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT, "%s: the stream was never initialised",
               function);

  return NULL;
}

GpuStream *
_gpu_stream_new_for_timeline (GpuContext  *context,
                              GpuTimeline *timeline)
{
  g_autoptr (GpuDevice) device = _gpu_device_new_for_native (timeline->device);
  GpuStream *stream = g_object_new (GPU_TYPE_STREAM, "context", context, "device", device,
                                    "flags", timeline->flags & ~GPU_TIMELINE_MARKS,
                                    "priority", timeline->priority, NULL);

  stream->timeline = _gpu_timeline_ref (timeline);
  _gpu_timeline_use (timeline);

  return stream;
}

/**
 * gpu_stream_new:
 * @context: a #GpuContext
 * @flags: the behavior of the stream
 * @error: return location for an error
 *
 * Creates a stream on the first device of @context (OpenCL: clCreateCommandQueueWithProperties,
 * clCreateCommandQueue before 2.0; CUDA: cuStreamCreateWithPriority).
 * %GPU_STREAM_FLAGS_NON_BLOCKING only has an effect on CUDA.
 *
 * Returns: (transfer full): the stream, or %NULL with %GPU_ERROR_NOT_SUPPORTED if the device does
 *   not support @flags, %GPU_ERROR_INVALID_ARGUMENT for unknown flags, %GPU_ERROR_DEVICE_LOST, or
 *   the driver's error
 *
 * Since: 0.1
 */
GpuStream *
gpu_stream_new (GpuContext      *context,
                GpuStreamFlags   flags,
                GError         **error)
{
  g_return_val_if_fail (GPU_IS_CONTEXT (context), NULL);

  return gpu_stream_new_full (context, NULL, flags, 0, error);
}

/**
 * gpu_stream_new_full:
 * @context: a #GpuContext
 * @device: (nullable): a device of @context, %NULL for the first device
 * @flags: the behavior of the stream
 * @priority: the priority: smaller numbers are preferred, 0 is the default
 * @error: return location for an error
 *
 * Creates a stream (OpenCL: clCreateCommandQueueWithProperties; CUDA: cuStreamCreateWithPriority).
 * OpenCL has three priorities: negative numbers, 0, and positive numbers. For CUDA,
 * gpu_context_get_priority_range() gets the range of priorities. A number beyond the range is
 * clamped to the range, and gpu_stream_get_priority() returns the clamped number.
 *
 * Returns: (transfer full): the stream, or %NULL with %GPU_ERROR_NOT_SUPPORTED if the device does
 *   not support @flags or @priority, with %GPU_ERROR_INVALID_ARGUMENT if @device does not belong to
 *   @context, or with the driver's error
 *
 * Since: 0.1
 */
GpuStream *
gpu_stream_new_full (GpuContext      *context,
                     GpuDevice       *device,
                     GpuStreamFlags   flags,
                     int              priority,
                     GError         **error)
{
  const GpuStreamFlags known = GPU_STREAM_FLAGS_OUT_OF_ORDER | GPU_STREAM_FLAGS_PROFILING
                               | GPU_STREAM_FLAGS_NON_BLOCKING;

  g_return_val_if_fail (GPU_IS_CONTEXT (context), NULL);
  g_return_val_if_fail (device == NULL || GPU_IS_DEVICE (device), NULL);

  /* The flags property would drop unknown flags silently. */
  if ((flags & ~known) != 0)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "gpu_stream_new: unknown stream flags 0x%x", flags & ~known);
      return NULL;
    }

  return g_initable_new (GPU_TYPE_STREAM, NULL, error, "context", context, "device", device,
                         "flags", flags, "priority", priority, NULL);
}

/**
 * gpu_stream_new_wrapped:
 * @context: a #GpuContext
 * @handle: the driver's handle: a cl_command_queue on OpenCL, a CUstream on CUDA or one of
 *   %GPU_STREAM_HANDLE_DEFAULT, %GPU_STREAM_HANDLE_LEGACY and %GPU_STREAM_HANDLE_PER_THREAD
 * @mode: the owner of @handle
 * @error: return location for an error
 *
 * Creates a stream that wraps a driver stream of another library, with the device and the flags of
 * that stream (OpenCL: clGetCommandQueueInfo, clRetainCommandQueue if @mode is
 * %GPU_WRAP_MODE_BORROW; CUDA: cuStreamGetFlags, cuStreamGetPriority). On CUDA, a borrowed driver
 * stream must outlive the new #GpuStream. On failure the caller keeps the ownership of @handle.
 *
 * If the last reference to a stream with %GPU_WRAP_MODE_BORROW is dropped while the driver's stream
 * is being captured into a CUDA graph, its work counts as complete. So wait for the work from
 * before the capture first.
 *
 * The library does not track work that other code submits to @handle directly. The driver executes
 * such work and the operations of the new stream in submission order.
 *
 * Returns: (transfer full): the stream, or %NULL with %GPU_ERROR_NOT_SUPPORTED on the host, which
 *   has no driver streams; with %GPU_ERROR_INVALID_ARGUMENT if @handle belongs to another context,
 *   is an on-device queue of OpenCL (CL_QUEUE_ON_DEVICE), or is one of these constants on another
 *   back end than CUDA; or with the driver's error
 *
 * Since: 0.1
 */
GpuStream *
gpu_stream_new_wrapped (GpuContext   *context,
                        guint64       handle,
                        GpuWrapMode   mode,
                        GError      **error)
{
  g_autoptr (GpuStream) stream = NULL;

  g_return_val_if_fail (GPU_IS_CONTEXT (context), NULL);

  if (!_gpu_context_check (context, "gpu_stream_new_wrapped", error))
    return NULL;

  if (handle <= GPU_STREAM_HANDLE_PER_THREAD
      && !_gpu_context_get_native (context)->backend->stream->has_default_handles)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "gpu_stream_new_wrapped: the handle is %" G_GUINT64_FORMAT, handle);
      return NULL;
    }

  stream = g_object_new (GPU_TYPE_STREAM, "context", context, NULL);
  stream->is_foreign = TRUE;
  stream->handle = handle;
  stream->mode = mode;

  if (!g_initable_init (G_INITABLE (stream), NULL, error))
    return NULL;

  return g_steal_pointer (&stream);
}

/**
 * gpu_stream_get_context:
 * @stream: a #GpuStream
 *
 * Gets the context of @stream.
 *
 * Returns: (transfer none): the context
 *
 * Since: 0.1
 */
GpuContext *
gpu_stream_get_context (GpuStream *stream)
{
  g_return_val_if_fail (GPU_IS_STREAM (stream), NULL);

  return stream->context;
}

/**
 * gpu_stream_get_priority:
 * @stream: a #GpuStream
 *
 * Gets the priority of @stream.
 *
 * Returns: the priority; smaller numbers are preferred
 *
 * Since: 0.1
 */
int
gpu_stream_get_priority (GpuStream *stream)
{
  g_return_val_if_fail (GPU_IS_STREAM (stream), 0);

  return stream->priority;
}

static guint64
peek_handle (GpuStream *stream)
{
  return stream->timeline->context->backend->stream->get_handle (stream->timeline->stream);
}

/**
 * gpu_stream_get_native_handle:
 * @stream: a #GpuStream
 *
 * Gets the driver's handle: a cl_command_queue on OpenCL, a CUstream on CUDA, an opaque number on
 * the host. @stream owns the handle: do not release it. May be called from any thread.
 *
 * After the first call the program may submit work to the driver's stream directly. From then on
 * gpu_stream_synchronize(), gpu_stream_is_idle(), gpu_stream_record() and gpu_context_synchronize()
 * include that work, which costs a driver call each time. To compare streams, use
 * gpu_stream_equal() and gpu_stream_hash(), which do not have this effect.
 *
 * Returns: the handle, 0 if @stream was never initialised
 *
 * Since: 0.1
 */
guint64
gpu_stream_get_native_handle (GpuStream *stream)
{
  g_return_val_if_fail (GPU_IS_STREAM (stream), 0);

  if (stream->timeline == NULL)
    return 0;

  /* The caller may submit work to the driver's stream with the handle. Without wrap(), the back end
   * has no driver streams, so the handle cannot be used for that. */
  if (stream->timeline->context->backend->stream->wrap != NULL)
    {
      g_atomic_int_set (&stream->timeline->is_open, TRUE);
      _gpu_timeline_allow_captures ();
    }

  return peek_handle (stream);
}

/**
 * gpu_stream_equal:
 * @a: a #GpuStream
 * @b: a #GpuStream
 *
 * Compares two streams by the driver's handles of the streams and of their contexts. The contexts
 * are compared because the default streams of all CUDA contexts have the same handle. A stream that
 * was never initialised is only equal to itself. Does not block; may be called from any thread.
 *
 * Returns: %TRUE if both objects represent the same stream of the driver
 *
 * Since: 0.1
 */
gboolean
gpu_stream_equal (GpuStream *a,
                  GpuStream *b)
{
  GpuNativeContext *one;
  GpuNativeContext *other;

  g_return_val_if_fail (GPU_IS_STREAM (a), FALSE);
  g_return_val_if_fail (GPU_IS_STREAM (b), FALSE);

  if (a == b || a->timeline == NULL || b->timeline == NULL)
    return a == b;

  one = a->timeline->context;
  other = b->timeline->context;

  return one->backend == other->backend && peek_handle (a) == peek_handle (b)
         && (one == other || one->backend->context->get_handle (one)
                             == other->backend->context->get_handle (other));
}

/**
 * gpu_stream_hash:
 * @stream: a #GpuStream
 *
 * Computes the hash of a stream, for a #GHashTable with gpu_stream_equal(). Does not block; may be
 * called from any thread.
 *
 * Returns: the hash value
 *
 * Since: 0.1
 */
guint
gpu_stream_hash (GpuStream *stream)
{
  gint64 handle;

  g_return_val_if_fail (GPU_IS_STREAM (stream), 0);

  handle = stream->timeline != NULL ? (gint64) peek_handle (stream) : 0;

  return g_int64_hash (&handle);
}

/* Returns the timeline for driver calls that are not operations, or NULL if the device is lost. */
static GpuTimeline *
begin_call (GpuStream   *stream,
            const char  *function,
            GError     **error)
{
  GpuTimeline *timeline = _gpu_stream_get_timeline (stream, function, error);

  if (timeline == NULL || _gpu_native_context_check (timeline->context, error))
    return timeline;

  g_prefix_error (error, "%s: ", function);

  return NULL;
}

/* Takes ownership of @failure. Returns TRUE if @failure is NULL. */
static gboolean
end_call (GpuTimeline  *timeline,
          const char   *function,
          GError       *failure,
          GError      **error)
{
  if (failure == NULL)
    return TRUE;

  _gpu_native_context_report (timeline->context, failure);
  g_propagate_prefixed_error (error, failure, "%s: ", function);

  return FALSE;
}

/* Waits for an event that the driver of the stream cannot wait for. */
static gboolean
wait_mirror (GpuTimeline  *timeline,
             GpuEvent     *event,
             GError      **error)
{
  g_autoptr (GpuUserEvent) mirror = NULL;
  g_autoptr (GError) failure = NULL;
  GpuSubmission submission = { .function = "gpu_stream_wait_event" };

  if (!_gpu_native_context_check (timeline->context, &failure))
    {
      g_propagate_prefixed_error (error, g_steal_pointer (&failure), "gpu_stream_wait_event: ");
      return FALSE;
    }

  if (gpu_event_query (event, &failure) == GPU_EVENT_STATUS_COMPLETE)
    return TRUE;

  if (failure == NULL)
    mirror = _gpu_event_mirror (event, timeline->context, &failure);

  if (mirror == NULL)
    {
      g_propagate_prefixed_error (error, g_steal_pointer (&failure), "gpu_stream_wait_event: ");
      return FALSE;
    }

  submission.user_event = mirror;

  return _gpu_submit (timeline, &submission, NULL, error);
}

/**
 * gpu_stream_wait_event:
 * @stream: a #GpuStream
 * @event: a #GpuEvent of any context
 * @error: return location for an error
 *
 * Makes later operations of @stream wait for @event (OpenCL: clEnqueueBarrierWithWaitList; CUDA:
 * cuStreamWaitEvent). Does not block. If @event fails later, the operations that wait for @event do
 * not run (see gpu_event_fail() for an exception), and fail with the error of @event. @event may be
 * from another process.
 *
 * @event may also belong to another context: of CUDA if @stream is of CUDA, and of any back end if
 * the device of @stream has %GPU_CAPABILITIES_USER_EVENTS, such as the host and most devices of
 * OpenCL. If the driver of @stream does not know @event, or @event wraps a user event of the
 * program, a thread of the library waits for @event, and then lets @stream continue (OpenCL:
 * clCreateUserEvent, clSetUserEventStatus). That takes longer than the wait of a driver.
 *
 * Returns: %TRUE, or %FALSE with the error of @event if it has already failed
 *   (%GPU_ERROR_DEVICE_LOST if the device of @event is lost), with %GPU_ERROR_NOT_SUPPORTED for an
 *   event that the driver does not know if the device of @stream lacks
 *   %GPU_CAPABILITIES_USER_EVENTS, or for pending work outside of the graph into which @stream is
 *   being captured, with %GPU_ERROR_OUT_OF_HOST_MEMORY if no thread can be started,
 *   or with the driver's error
 *
 * Since: 0.1
 */
gboolean
gpu_stream_wait_event (GpuStream  *stream,
                       GpuEvent   *event,
                       GError    **error)
{
  GpuSubmission submission = { .function = "gpu_stream_wait_event" };
  GpuTimeline *timeline;

  g_return_val_if_fail (GPU_IS_STREAM (stream), FALSE);
  g_return_val_if_fail (GPU_IS_EVENT (event), FALSE);

  timeline = _gpu_stream_get_timeline (stream, "gpu_stream_wait_event", error);

  if (timeline == NULL || !_gpu_event_check (event, "gpu_stream_wait_event", error))
    return FALSE;

  if (!_gpu_event_can_wait (event, timeline->context))
    return wait_mirror (timeline, event, error);

  submission.user_event = _gpu_event_get_user (event);
  if (submission.user_event == NULL)
    submission.after = _gpu_event_get_point (event);

  return _gpu_submit (timeline, &submission, NULL, error);
}

/**
 * gpu_stream_barrier:
 * @stream: a #GpuStream
 * @error: return location for an error
 *
 * Orders later operations of @stream after all earlier ones (OpenCL: clEnqueueBarrierWithWaitList).
 * Only streams with %GPU_STREAM_FLAGS_OUT_OF_ORDER need barriers. Does not block.
 *
 * Returns: %TRUE, or %FALSE with the driver's error
 *
 * Since: 0.1
 */
gboolean
gpu_stream_barrier (GpuStream  *stream,
                    GError    **error)
{
  GpuTimeline *timeline;
  GError *failure = NULL;
  gboolean has_failure_lock;

  g_return_val_if_fail (GPU_IS_STREAM (stream), FALSE);

  timeline = begin_call (stream, "gpu_stream_barrier", error);

  if (timeline == NULL)
    return FALSE;

  has_failure_lock = _gpu_timeline_lock_against_failure (timeline);
  _gpu_timeline_barrier_locked (timeline, &failure);
  _gpu_timeline_unlock_against_failure (timeline, has_failure_lock);

  return end_call (timeline, "gpu_stream_barrier", failure, error);
}

/* The native events of a GpuEvent; all nullable. */
typedef struct
{
  GpuNativeEvent *timed;            /* records the time of the event */
  GpuNativeEvent *operation;        /* records the times of the last operation, if `timed` does
                                     * not */
  GpuNativeEvent *shared;           /* for other processes */
} Recorded;

static void
recorded_clear (Recorded *recorded)
{
  g_clear_pointer (&recorded->timed, _gpu_native_event_unref);
  g_clear_pointer (&recorded->operation, _gpu_native_event_unref);
  g_clear_pointer (&recorded->shared, _gpu_native_event_unref);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Recorded, recorded_clear)

/* With GPU_EVENT_FLAGS_TIMING, records an event with a time of its own, which counts as a
 * submission. Otherwise the time is that of the last operation, if that has times. Caller holds the
 * timeline's lock. */
static void
record_timed_locked (GpuTimeline    *timeline,
                     GpuEventFlags   flags,
                     Recorded       *recorded,
                     GError        **error)
{
  gboolean has_operation = timeline->timed_event != NULL
                           && timeline->timed_seq == timeline->submitted;
  GpuNativeEvent **last = (flags & GPU_EVENT_FLAGS_TIMING) != 0 ? &recorded->operation
                                                                : &recorded->timed;

  if (has_operation)
    *last = _gpu_native_event_ref (timeline->timed_event);

  if ((flags & GPU_EVENT_FLAGS_TIMING) != 0 && _gpu_timeline_check_fence_locked (timeline, error))
    recorded->timed = timeline->context->backend->stream->record (timeline->stream, flags, error);

  if (recorded->timed != NULL
      && (recorded->timed != timeline->timed_event || _gpu_timeline_may_fail_locked (timeline)))
    _gpu_timeline_retain_event_locked (timeline, _gpu_native_event_ref (recorded->timed));

  /* If the program may have submitted work through the native handle, this counts that work as a
   * submission. */
  _gpu_timeline_append_point_locked (timeline);
}

static gboolean
check_record_flags (GpuTimeline    *timeline,
                    GpuEventFlags   flags,
                    GError        **error)
{
  const GpuEventFlags known = GPU_EVENT_FLAGS_TIMING | GPU_EVENT_FLAGS_BLOCKING_SYNC
                              | GPU_EVENT_FLAGS_INTERPROCESS;
  const GpuEventFlags either = GPU_EVENT_FLAGS_TIMING | GPU_EVENT_FLAGS_INTERPROCESS;
  const GpuBackend *backend = timeline->context->backend;
  gboolean can_time = (timeline->flags & GPU_STREAM_FLAGS_PROFILING) != 0
                      || backend->stream->times_any;
  gboolean can_share = backend->event->export_handle != NULL
                       && (timeline->device->capabilities & GPU_CAPABILITIES_IPC_HANDLES) != 0;

  gboolean cannot = ((flags & GPU_EVENT_FLAGS_TIMING) != 0 && !can_time)
                    || ((flags & GPU_EVENT_FLAGS_INTERPROCESS) != 0 && !can_share);
  g_autofree char *text = NULL;

  if ((flags & ~known) == 0 && (flags & either) != either && !cannot)
    return TRUE;

  text = _gpu_flags_get_nicks (GPU_TYPE_EVENT_FLAGS, flags);

  if ((flags & ~known) != 0)
    g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                 "gpu_stream_record: unknown event flags 0x%x", flags & ~known);
  else if ((flags & either) == either)
    g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                 "gpu_stream_record: the event flags %s cannot be combined", text);
  else if ((flags & GPU_EVENT_FLAGS_TIMING) != 0)
    g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                 "gpu_stream_record: events with flags %s on %s require a stream with "
                 "GPU_STREAM_FLAGS_PROFILING", text, timeline->device->id);
  else
    g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                 "gpu_stream_record: the stream on %s cannot record events with flags %s",
                 timeline->device->id, text);

  return FALSE;
}

/* Records an event for other processes, which counts as an operation. Caller holds the timeline's
 * lock. */
static GpuNativeEvent *
record_shared_locked (GpuTimeline    *timeline,
                      GpuEventFlags   flags,
                      GError        **error)
{
  const GpuStreamOps *ops = timeline->context->backend->stream;
  GpuNativeEvent *event = NULL;

  if (_gpu_timeline_check_fence_locked (timeline, error))
    event = ops->record (timeline->stream, flags, error);

  if (event == NULL)
    return NULL;

  _gpu_timeline_retain_event_locked (timeline, _gpu_native_event_ref (event));
  ops->flush (timeline->stream, error);

  return event;
}

/**
 * gpu_stream_record:
 * @stream: a #GpuStream
 * @flags: the uses of the event
 * @error: return location for an error
 *
 * Creates an event that completes when all earlier work of @stream has completed. Does not block.
 *
 * Without flags, the event only stores a position in the work of @stream. It needs no driver call
 * until a thread, a stream or a main loop waits for it or queries it. If the program wrapped
 * @stream or got its native handle, the event also waits for the work that the program submitted
 * through the handle.
 *
 * With %GPU_EVENT_FLAGS_TIMING, the device records the time at which it reaches the event, for
 * gpu_event_get_elapsed() (OpenCL: clEnqueueMarkerWithWaitList; CUDA: cuEventRecord). OpenCL needs
 * a %GPU_STREAM_FLAGS_PROFILING stream for that. On a %GPU_STREAM_FLAGS_PROFILING stream, each
 * event also has the times of the last operation, if there is one. Waits and work that the program
 * submitted through the native handle do not count as operations. Without %GPU_EVENT_FLAGS_TIMING,
 * gpu_event_get_elapsed() uses the end of that operation, which is earlier if the stream was idle
 * or waited afterwards.
 *
 * With %GPU_EVENT_FLAGS_INTERPROCESS (CUDA: cuEventCreate, cuEventRecord),
 * gpu_event_export_handle() can share the event with another process.
 *
 * While @stream is being captured into a CUDA graph, only streams can wait for the event, and then
 * take part in the capture. The host must wait until the capture has ended: before that, waits and
 * queries fail with %GPU_ERROR_NOT_SUPPORTED, and so do all other waits for @stream.
 *
 * Returns: (transfer full): the event, or %NULL with %GPU_ERROR_NOT_SUPPORTED for
 *   %GPU_EVENT_FLAGS_INTERPROCESS without %GPU_CAPABILITIES_IPC_HANDLES, or for
 *   %GPU_EVENT_FLAGS_TIMING on OpenCL without %GPU_STREAM_FLAGS_PROFILING, or for either flag in a
 *   stream that is being captured into a graph; with
 *   %GPU_ERROR_INVALID_ARGUMENT for unknown flags, or for %GPU_EVENT_FLAGS_INTERPROCESS together
 *   with %GPU_EVENT_FLAGS_TIMING; or with the driver's error
 *
 * Since: 0.1
 */
GpuEvent *
gpu_stream_record (GpuStream      *stream,
                   GpuEventFlags   flags,
                   GError        **error)
{
  g_auto (Recorded) recorded = { NULL, };
  GpuTimeline *timeline;
  GpuEvent *event;
  GError *failure = NULL;
  gboolean has_failure_lock;
  guint64 seq;

  g_return_val_if_fail (GPU_IS_STREAM (stream), NULL);

  timeline = begin_call (stream, "gpu_stream_record", error);

  if (timeline == NULL || !check_record_flags (timeline, flags, error))
    return NULL;

  has_failure_lock = _gpu_timeline_lock_against_failure (timeline);

  if ((flags & GPU_EVENT_FLAGS_INTERPROCESS) != 0)
    recorded.shared = record_shared_locked (timeline, flags, &failure);
  else
    record_timed_locked (timeline, flags, &recorded, &failure);

  seq = timeline->submitted;
  _gpu_timeline_unlock_against_failure (timeline, has_failure_lock);

  if (!end_call (timeline, "gpu_stream_record", failure, error))
    return NULL;

  event = _gpu_event_new_for_point (stream->context, timeline, seq, recorded.timed);
  _gpu_event_set_operation (event, recorded.operation);
  _gpu_event_set_shared (event, recorded.shared);

  return event;
}

/**
 * gpu_stream_flush:
 * @stream: a #GpuStream
 * @error: return location for an error
 *
 * Makes the device start the submitted work of @stream, even if no thread waits for this work
 * (OpenCL: clFlush; CUDA: no call, because the driver starts work at once). Does not block.
 *
 * Returns: %TRUE, or %FALSE with the driver's error
 *
 * Since: 0.1
 */
gboolean
gpu_stream_flush (GpuStream  *stream,
                  GError    **error)
{
  GpuTimeline *timeline;
  GError *failure = NULL;

  g_return_val_if_fail (GPU_IS_STREAM (stream), FALSE);

  timeline = begin_call (stream, "gpu_stream_flush", error);

  if (timeline == NULL)
    return FALSE;

  _gpu_timeline_lock (timeline);
  timeline->context->backend->stream->flush (timeline->stream, &failure);
  _gpu_timeline_unlock (timeline);

  return end_call (timeline, "gpu_stream_flush", failure, error);
}

static gboolean
is_idle_by_marker (GpuTimeline  *timeline,
                   GError      **error)
{
  g_autoptr (GError) failure = NULL;
  guint64 seq = _gpu_timeline_append_point (timeline);

  if (_gpu_timeline_wait_until (timeline, seq, g_get_monotonic_time () + MARKER_TIME, NULL,
                                &failure))
    return TRUE;

  if (!g_error_matches (failure, GPU_ERROR, GPU_ERROR_TIMED_OUT))
    g_propagate_error (error, g_steal_pointer (&failure));

  return FALSE;
}

/* Asks the driver whether the work that the program itself submitted is complete. All work that the
 * library submitted must already be complete. */
static gboolean
is_idle_for_driver (GpuTimeline  *timeline,
                    GError      **error)
{
  const GpuStreamOps *ops = timeline->context->backend->stream;
  GError *failure = NULL;
  gboolean is_allowed;
  GpuEventStatus status;

  if (ops->query == NULL || g_atomic_int_get (&timeline->context->lost))
    return is_idle_by_marker (timeline, error);

  _gpu_timeline_lock (timeline);
  is_allowed = _gpu_timeline_check_fence_locked (timeline, error);
  _gpu_timeline_unlock (timeline);

  if (!is_allowed)
    return FALSE;

  status = ops->query (timeline->stream, &failure);

  if (failure != NULL)
    {
      _gpu_native_context_report (timeline->context, failure);
      g_propagate_error (error, failure);
    }

  return status == GPU_EVENT_STATUS_COMPLETE;
}

/**
 * gpu_stream_is_idle:
 * @stream: a #GpuStream
 * @error: return location for an error
 *
 * Checks whether all work of @stream is complete (OpenCL: clEnqueueMarkerWithWaitList and clFlush
 * in the first call, clGetEventInfo; CUDA: cuEventRecord in the first call, cuEventQuery). If the
 * program wrapped @stream or got its native handle, also checks the work that the program submitted
 * through the handle (OpenCL: clEnqueueMarkerWithWaitList, and clWaitForEvents on a thread of the
 * library; CUDA: cuStreamQuery). OpenCL has no call to query a queue, so gpu_stream_is_idle() waits
 * up to a millisecond for that thread. In all other cases gpu_stream_is_idle() does not block.
 *
 * Returns: %TRUE if all work is complete; %FALSE without an error if work is pending; %FALSE with
 *   an error if work failed or the driver could not report its status
 *
 * Since: 0.1
 */
gboolean
gpu_stream_is_idle (GpuStream  *stream,
                    GError    **error)
{
  GpuTimeline *timeline;
  GpuEventStatus status;
  GError *failure = NULL;
  gboolean is_idle;

  g_return_val_if_fail (GPU_IS_STREAM (stream), FALSE);

  timeline = _gpu_stream_get_timeline (stream, "gpu_stream_is_idle", error);

  if (timeline == NULL)
    return FALSE;

  status = _gpu_backend_check_process (&failure)
           ? _gpu_timeline_query (timeline, _gpu_timeline_get_submitted (timeline), &failure)
           : GPU_EVENT_STATUS_FAILED;
  is_idle = status == GPU_EVENT_STATUS_COMPLETE
            && (!g_atomic_int_get (&timeline->is_open) || is_idle_for_driver (timeline, &failure));

  if (failure != NULL)
    g_propagate_prefixed_error (error, failure, "gpu_stream_is_idle: ");

  return is_idle;
}

/**
 * gpu_stream_synchronize:
 * @stream: a #GpuStream
 * @cancellable: (nullable): a #GCancellable, or %NULL
 * @error: return location for an error
 *
 * Blocks until all earlier work of @stream is complete, including the work that the program
 * submitted through the native handle (OpenCL: clEnqueueMarkerWithWaitList, clFlush,
 * clWaitForEvents; CUDA: cuEventRecord, cuEventSynchronize; no call if the work is known to be
 * complete). @cancellable cancels the wait, but the work continues.
 *
 * Returns: %TRUE, or %FALSE with the error of the failed work or with %G_IO_ERROR_CANCELLED
 *
 * Since: 0.1
 */
GPU_HOT gboolean
gpu_stream_synchronize (GpuStream     *stream,
                        GCancellable  *cancellable,
                        GError       **error)
{
  GpuTimeline *timeline;

  g_return_val_if_fail (GPU_IS_STREAM (stream), FALSE);
  g_return_val_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable), FALSE);

  timeline = begin_call (stream, "gpu_stream_synchronize", error);

  if (timeline == NULL)
    return FALSE;

  if (_gpu_timeline_wait_until (timeline, _gpu_timeline_get_last_point (timeline), -1, cancellable,
                                error))
    return TRUE;

  g_prefix_error (error, "gpu_stream_synchronize: ");

  return FALSE;
}

/**
 * gpu_stream_synchronize_async:
 * @stream: a #GpuStream
 * @cancellable: (nullable): a #GCancellable, or %NULL
 * @callback: (scope async) (nullable): called when the work is complete
 * @user_data: for @callback
 *
 * Waits like gpu_stream_synchronize() without blocking. @callback is called in the thread-default
 * main context of the calling thread.
 *
 * Since: 0.1
 */
void
gpu_stream_synchronize_async (GpuStream           *stream,
                              GCancellable        *cancellable,
                              GAsyncReadyCallback  callback,
                              gpointer             user_data)
{
  g_autoptr (GTask) task = NULL;
  GpuTimeline *timeline;
  GError *error = NULL;

  g_return_if_fail (GPU_IS_STREAM (stream));
  g_return_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable));

  task = g_task_new (stream, cancellable, callback, user_data);
  g_task_set_source_tag (task, gpu_stream_synchronize_async);
  timeline = begin_call (stream, g_task_get_name (task), &error);

  if (timeline == NULL)
    g_task_return_error (task, error);
  else
    {
      guint64 seq = _gpu_timeline_get_last_point (timeline);

      _gpu_timeline_return_task (timeline, seq, seq, task);
    }
}

/**
 * gpu_stream_synchronize_finish:
 * @stream: a #GpuStream
 * @result: the #GAsyncResult of the callback
 * @error: return location for an error
 *
 * Finishes gpu_stream_synchronize_async().
 *
 * Returns: like gpu_stream_synchronize()
 *
 * Since: 0.1
 */
gboolean
gpu_stream_synchronize_finish (GpuStream     *stream,
                               GAsyncResult  *result,
                               GError       **error)
{
  g_return_val_if_fail (g_task_is_valid (result, stream), FALSE);

  return _gpu_error_propagate_boolean (result, "gpu_stream_synchronize_async", error);
}

/**
 * gpu_context_get_default_stream:
 * @context: a #GpuContext
 *
 * Gets the stream that blocking calls use if their @stream argument is %NULL: an in-order stream
 * without profiling on the first device. All calls return the same stream. While the program holds
 * a reference to it, they also return the same object.
 *
 * Returns: (transfer full) (nullable): the stream, or %NULL if @context was never initialised or
 *   the driver could not create the stream. To get the error, call gpu_stream_new()
 *
 * Since: 0.1
 */
GpuStream *
gpu_context_get_default_stream (GpuContext *context)
{
  g_return_val_if_fail (GPU_IS_CONTEXT (context), NULL);

  return _gpu_context_ref_default_stream (context, _gpu_stream_new_for_timeline);
}

GPU_HOT GpuTimeline *
_gpu_context_peek_timeline (GpuContext  *context,
                            GpuStream   *stream,
                            const char  *function,
                            GError     **error)
{
  return stream != NULL ? _gpu_stream_get_timeline (stream, function, error)
                        : _gpu_context_peek_default_timeline (context, function, error);
}

GpuTimeline *
_gpu_context_get_timeline (GpuContext  *context,
                           GpuStream   *stream,
                           const char  *function,
                           GError     **error)
{
  GpuTimeline *timeline = _gpu_context_peek_timeline (context, stream, function, error);

  return timeline != NULL ? _gpu_timeline_ref (timeline) : NULL;
}
