/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/base/gpu-debug-private.h"
#include "gpumem/base/gpu-error-private.h"
#include "gpumem/device/gpu-context-private.h"
#include "gpumem/gpumem-bindings.h"
#include "gpumem/stream/gpu-event-private.h"

/**
 * SECTION:gpu-event
 * @title: GpuEvent
 * @short_description: a point in the work of a stream
 * @see_also: gpu_stream_record(), gpu_stream_wait_event()
 */

/**
 * GpuEvent:
 *
 * A point in the work of a stream, or an event that the program completes.
 *
 * |[<!-- language="C" -->
 * g_autoptr (GpuEvent) filled = NULL;
 * const guint8 zero = 0;
 *
 * gpu_stream_fill (stream, GPU_MEMORY (buffer), 0, size, &zero, 1, &error);
 * filled = gpu_stream_record (stream, GPU_EVENT_FLAGS_NONE, &error);
 *
 * if (gpu_event_query (filled, NULL) == GPU_EVENT_STATUS_PENDING)
 *   g_print ("the fill is still in flight\n");
 * if (!gpu_event_wait (filled, NULL, &error))
 *   g_warning ("the fill failed: %s", error->message);
 * ]|
 *
 * An event of gpu_stream_record() completes when all earlier work of the stream has completed. Such
 * an event needs no driver call until a thread, a stream or a main loop waits for it or queries it.
 * The program itself completes the events of gpu_event_new_user().
 *
 * All methods may be called from any thread.
 *
 * Since: 0.1
 */
struct _GpuEvent
{
  GObject         parent_instance;

  GpuContext     *context;
  GMainContext   *main_context;     /* where ::completed is emitted */
  GpuUserEvent   *user;             /* NULL for an event of a stream */
  GpuPoint        point;            /* the submission that completes the event; for a user event,
                                     * the timeline is NULL */
  GpuWatch        watch;            /* the points whose failure fails the event: `point`, and those
                                     * of earlier work of the same call; keeps their failures until
                                     * the event is finalized */
  GpuNativeEvent *timed;            /* nullable; records the times of the event */
  GpuNativeEvent *operation;        /* nullable; records the times of the last operation if `timed`
                                     * does not */
  GpuNativeEvent *start;            /* nullable; records the start time if `timed` does not */
  GpuNativeEvent *shared;           /* nullable; the event for gpu_event_export_handle() */
  GpuNativeEvent *wrapped;          /* nullable; the event of gpu_event_new_wrapped() */
  gpointer        handle_owner;     /* atomic; nullable; the GpuNativeEvent whose handle
                                     * GpuEvent:native-handle returned */
  gint            watched;          /* atomic; whether gpu_event_watch() was called */
};

enum
{
  PROP_0,
  PROP_CONTEXT,
  PROP_USER,
  PROP_NATIVE_HANDLE,
  N_PROPS
};

enum
{
  COMPLETED,
  N_SIGNALS
};

static GParamSpec *props[N_PROPS];
static guint signals[N_SIGNALS];

static void initable_iface_init (GInitableIface *iface);

G_DEFINE_FINAL_TYPE_WITH_CODE (GpuEvent, gpu_event, G_TYPE_OBJECT,
                               G_IMPLEMENT_INTERFACE (G_TYPE_INITABLE, initable_iface_init))

/* Returns (transfer full) the driver's event, or NULL if there is none. */
static GpuNativeEvent *
get_native (GpuEvent *event)
{
  GpuNativeEvent *native = NULL;
  GpuFence *fence = NULL;

  if (event->user != NULL)
    {
      _gpu_user_event_get_native (event->user, &native, NULL);
      return native;
    }

  native = event->wrapped != NULL ? event->wrapped : event->shared;
  if (native == NULL)
    native = event->timed;
  if (native != NULL)
    return _gpu_native_event_ref (native);

  if (event->point.timeline != NULL
      && _gpu_timeline_get_fence (event->point.timeline, event->point.seq, &fence, NULL)
      && fence != NULL)
    {
      native = _gpu_native_event_ref (fence->event);
      _gpu_fence_unref (fence);
    }

  return native;
}

/* Keeps the driver's event, so that the handle is valid as long as @event. */
static guint64
get_native_handle (GpuEvent *event)
{
  GpuNativeEvent *native = g_atomic_pointer_get (&event->handle_owner);

  if (native == NULL)
    {
      native = get_native (event);
      if (native != NULL
          && !g_atomic_pointer_compare_and_exchange (&event->handle_owner, NULL, native))
        {
          _gpu_native_event_unref (native);
          native = g_atomic_pointer_get (&event->handle_owner);
        }
    }

  return native != NULL ? native->backend->event->get_handle (native) : 0;
}

static void
gpu_event_get_property (GObject    *object,
                        guint       id,
                        GValue     *value,
                        GParamSpec *pspec)
{
  GpuEvent *event = GPU_EVENT (object);

  switch (id)
    {
    case PROP_CONTEXT:
      g_value_set_object (value, event->context);
      break;
    case PROP_USER:
      g_value_set_boolean (value, event->user != NULL);
      break;
    case PROP_NATIVE_HANDLE:
      g_value_set_uint64 (value, get_native_handle (event));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
gpu_event_set_property (GObject      *object,
                        guint         id,
                        const GValue *value,
                        GParamSpec   *pspec)
{
  GpuEvent *event = GPU_EVENT (object);

  switch (id)
    {
    case PROP_CONTEXT:
      g_return_if_fail (event->context == NULL);
      event->context = g_value_dup_object (value);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

/* Fails a pending user event that is finalized, so that its waiters do not wait forever. */
static void
abandon_user_event (GpuUserEvent *user)
{
  g_autoptr (GError) failure = NULL;

  if (_gpu_user_event_query (user, NULL) != GPU_EVENT_STATUS_PENDING)
    return;

  failure = g_error_new_literal (GPU_ERROR, GPU_ERROR_FAILED,
                                 "the user event was dropped before it was completed");
  _gpu_user_event_set (user, failure, NULL);
}

static void
gpu_event_finalize (GObject *object)
{
  GpuEvent *event = GPU_EVENT (object);

  if (event->user != NULL)
    {
      abandon_user_event (event->user);
      _gpu_user_event_unref (event->user);
    }

  g_clear_pointer (&event->timed, _gpu_native_event_unref);
  g_clear_pointer (&event->operation, _gpu_native_event_unref);
  g_clear_pointer (&event->start, _gpu_native_event_unref);
  g_clear_pointer (&event->shared, _gpu_native_event_unref);
  g_clear_pointer (&event->wrapped, _gpu_native_event_unref);
  g_clear_pointer (&event->handle_owner, _gpu_native_event_unref);

  if (event->point.timeline != NULL)
    _gpu_timeline_unwatch (event->point.timeline, &event->watch);

  _gpu_point_clear (&event->point);
  g_main_context_unref (event->main_context);
  g_clear_object (&event->context);
  _gpu_live_add (GPU_LIVE_EVENT, -1);

  G_OBJECT_CLASS (gpu_event_parent_class)->finalize (object);
}

static void
install_handle (void)
{
  /**
   * GpuEvent:native-handle:
   *
   * The driver's handle of the event: a `cl_event` on OpenCL, a `CUevent` on CUDA, for waits and
   * queries of other libraries. On the host back end, the handle is a number for use with this
   * library only. The event owns the handle, which is valid as long as the event.
   *
   * For an event of gpu_event_new_wrapped(), the value is the wrapped handle.
   *
   * The value is 0 if the event needs no driver's event, because it has already completed or
   * failed, or if the driver cannot create one. Otherwise the first read records a driver's event,
   * which may complete later than this event, but not before (OpenCL: clEnqueueMarkerWithWaitList,
   * clCreateUserEvent for a user event; CUDA: cuEventRecord). Does not block.
   *
   * Since: 0.1
   */
  props[PROP_NATIVE_HANDLE] = g_param_spec_uint64 ("native-handle", NULL, NULL, 0, G_MAXUINT64, 0,
                                                   G_PARAM_READABLE | G_PARAM_STATIC_STRINGS);
}

static void
gpu_event_class_init (GpuEventClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);

  object_class->get_property = gpu_event_get_property;
  object_class->set_property = gpu_event_set_property;
  object_class->finalize = gpu_event_finalize;

  /**
   * GpuEvent:context:
   *
   * The context of the event. May only be set once, to create an event like gpu_event_new_user().
   *
   * Since: 0.1
   */
  /* Not construct-only: GObject would set the property to NULL for each recorded event. */
  props[PROP_CONTEXT] =
    g_param_spec_object ("context", NULL, NULL, GPU_TYPE_CONTEXT,
                         G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS);
  /**
   * GpuEvent:user:
   *
   * Whether the event is an event of gpu_event_new_user(), which the program completes.
   *
   * Since: 0.1
   */
  props[PROP_USER] =
    g_param_spec_boolean ("user", NULL, NULL, FALSE, G_PARAM_READABLE | G_PARAM_STATIC_STRINGS);
  install_handle ();

  g_object_class_install_properties (object_class, N_PROPS, props);

  /**
   * GpuEvent::completed:
   * @event: the event
   * @error: (nullable): the error of the failed work, or %NULL if the event has completed
   *
   * Emitted once, when the event has completed or failed, in the thread-default main context of the
   * thread that created @event. The program must call gpu_event_watch() to request the emission,
   * because GObject does not notify an object of a new handler. In Python and JavaScript,
   * connecting a handler also requests the emission. A handler that is connected after the emission
   * is not called.
   *
   * Since: 0.1
   */
  signals[COMPLETED] =
    g_signal_new ("completed", GPU_TYPE_EVENT, G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL,
                  G_TYPE_NONE, 1, G_TYPE_ERROR);
}

static void
gpu_event_init (GpuEvent *event)
{
  event->main_context = g_main_context_ref_thread_default ();
  _gpu_live_add (GPU_LIVE_EVENT, 1);
}

static gboolean
gpu_event_initable_init (GInitable     *initable,
                         GCancellable  *cancellable,
                         GError       **error)
{
  GpuEvent *event = GPU_EVENT (initable);
  GpuNativeContext *native;

  if (event->user != NULL || event->point.timeline != NULL)
    return TRUE;

  if (event->context == NULL)
    {
      g_set_error_literal (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                           "gpu_event_new_user: no context was given");
      return FALSE;
    }

  if (!_gpu_context_check (event->context, "gpu_event_new_user", error))
    return FALSE;

  native = _gpu_context_get_native (event->context);

  if (native->backend->event->create_user == NULL)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                   "gpu_event_new_user: the back end %s has no user events",
                   native->backend->name);
      return FALSE;
    }

  event->user = _gpu_user_event_new (native);

  return TRUE;
}

static void
initable_iface_init (GInitableIface *iface)
{
  iface->init = gpu_event_initable_init;
}

GpuEvent *
_gpu_event_new_for_points (GpuContext  *context,
                           GpuTimeline *timeline,
                           guint64      first,
                           guint64      last)
{
  GpuEvent *event = (GpuEvent *) g_object_new_with_properties (GPU_TYPE_EVENT, 0, NULL, NULL);

  /* A construct property would double the time of this function. */
  event->context = g_object_ref (context);
  _gpu_point_set (&event->point, timeline, last);
  _gpu_timeline_watch (timeline, &event->watch, first);

  if (last != first)
    _gpu_timeline_watch (timeline, &event->watch, last);

  return event;
}

GpuEvent *
_gpu_event_new_for_point (GpuContext     *context,
                          GpuTimeline    *timeline,
                          guint64         seq,
                          GpuNativeEvent *timed)
{
  GpuEvent *event = _gpu_event_new_for_points (context, timeline, seq, seq);

  event->timed = timed != NULL ? _gpu_native_event_ref (timed) : NULL;

  return event;
}

void
_gpu_event_set_operation (GpuEvent       *event,
                          GpuNativeEvent *operation)
{
  event->operation = operation != NULL ? _gpu_native_event_ref (operation) : NULL;
}

void
_gpu_event_set_shared (GpuEvent       *event,
                       GpuNativeEvent *shared)
{
  event->shared = shared != NULL ? _gpu_native_event_ref (shared) : NULL;
}

void
_gpu_event_set_wrapped (GpuEvent       *event,
                        GpuNativeEvent *wrapped)
{
  event->wrapped = _gpu_native_event_ref (wrapped);
  _gpu_timeline_allow_captures ();
}

GpuNativeEvent *
_gpu_event_get_wrapped (GpuEvent *event)
{
  return event->wrapped;
}

void
_gpu_event_set_start (GpuEvent       *event,
                      GpuNativeEvent *start)
{
  event->start = start != NULL ? _gpu_native_event_ref (start) : NULL;
}

GpuNativeEvent *
_gpu_event_get_shared (GpuEvent *event)
{
  return event->shared;
}

GpuNativeEvent *
_gpu_event_get_timed (GpuEvent *event)
{
  return event->timed;
}

gboolean
_gpu_event_check (GpuEvent    *event,
                  const char  *function,
                  GError     **error)
{
  if (G_LIKELY (event->user != NULL || event->point.timeline != NULL))
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s: the event was never initialised", function);

  return FALSE;
}

GpuUserEvent *
_gpu_event_get_user (GpuEvent *event)
{
  return event->user;
}

const GpuPoint *
_gpu_event_get_point (GpuEvent *event)
{
  return &event->point;
}

/**
 * gpu_event_new_user:
 * @context: a #GpuContext
 * @error: return location for an error
 *
 * Creates an event that the program completes with gpu_event_complete() or gpu_event_fail().
 * gpu_stream_wait_event() makes a stream wait for the event (OpenCL: clCreateUserEvent, when the
 * first stream waits). CUDA has no user events. The event fails if it is finalized while pending.
 *
 * Returns: (transfer full): the event, or %NULL with %GPU_ERROR_NOT_SUPPORTED if the back end has
 *   no user events, or %GPU_ERROR_DEVICE_LOST
 *
 * Since: 0.1
 */
GpuEvent *
gpu_event_new_user (GpuContext  *context,
                    GError     **error)
{
  g_return_val_if_fail (GPU_IS_CONTEXT (context), NULL);

  return g_initable_new (GPU_TYPE_EVENT, NULL, error, "context", context, NULL);
}

static gboolean
set_user (GpuEvent      *event,
          const char    *function,
          const GError  *failure,
          GError       **error)
{
  if (!_gpu_event_check (event, function, error))
    return FALSE;

  if (event->user == NULL)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT, event->wrapped != NULL
                   ? "%s: the event is wrapped; set its status with the driver's function"
                   : "%s: the event belongs to a stream; the program can only complete user events",
                   function);
      return FALSE;
    }

  if (_gpu_user_event_set (event->user, failure, error))
    return TRUE;

  g_prefix_error (error, "%s: ", function);

  return FALSE;
}

/**
 * gpu_event_complete:
 * @event: a user event
 * @error: return location for an error
 *
 * Completes @event, so that work that waits for @event can run (OpenCL: clSetUserEventStatus if a
 * stream waits).
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_INVALID_ARGUMENT if @event is not a user event or has
 *   already completed or failed, or with the driver's error
 *
 * Since: 0.1
 */
gboolean
gpu_event_complete (GpuEvent  *event,
                    GError   **error)
{
  g_return_val_if_fail (GPU_IS_EVENT (event), FALSE);

  return set_user (event, "gpu_event_complete", NULL, error);
}

/**
 * gpu_event_fail:
 * @event: a user event
 * @message: (nullable): the error message for the waiters; if %NULL or empty, a default message
 * @error: return location for an error
 *
 * Fails @event (OpenCL: clSetUserEventStatus if a stream waits). Work that waits for @event does
 * not run, except on Intel's OpenCL runtime for CPUs. Every wait for @event or for such work fails
 * with %GPU_ERROR_FAILED and @message. Reads of memory that such work would have written fail with
 * the same error, until the memory or a part of it is written again.
 *
 * Later submissions to a stream that contains such work also count as failed, until a wait has
 * reported the failure.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_INVALID_ARGUMENT if @event is not a user event or has
 *   already completed or failed, or with the driver's error
 *
 * Since: 0.1
 */
gboolean
gpu_event_fail (GpuEvent    *event,
                const char  *message,
                GError     **error)
{
  g_autoptr (GError) failure = NULL;

  g_return_val_if_fail (GPU_IS_EVENT (event), FALSE);

  failure = g_error_new_literal (GPU_ERROR, GPU_ERROR_FAILED, message != NULL && *message != '\0'
                                                              ? message
                                                              : "the user event was failed");

  return set_user (event, "gpu_event_fail", failure, error);
}

static GpuEventStatus
query (GpuEvent    *event,
       const char  *function,
       GError     **error)
{
  GpuEventStatus status;

  if (!_gpu_event_check (event, function, error))
    return GPU_EVENT_STATUS_PENDING;

  if (event->user != NULL)
    status = _gpu_user_event_query (event->user, error);
  else
    status = _gpu_timeline_query_points (event->point.timeline, event->watch.first,
                                         event->point.seq, error);

  if (status != GPU_EVENT_STATUS_COMPLETE && error != NULL && *error != NULL)
    g_prefix_error (error, "%s: ", function);

  return status;
}

/**
 * gpu_event_query:
 * @event: a #GpuEvent
 * @error: return location for an error
 *
 * Gets the status of @event (OpenCL: clEnqueueMarkerWithWaitList and clFlush in the first call,
 * clGetEventInfo; CUDA: cuEventRecord in the first call, cuEventQuery). Does not block. The driver
 * may report the completion late: the status may still be %GPU_EVENT_STATUS_PENDING after the work
 * has completed, until later work has also completed.
 *
 * Returns: the status. If it is %GPU_EVENT_STATUS_FAILED, @error is set: languages with exceptions
 *   raise the error of the failed work instead of returning this status. If the status is
 *   %GPU_EVENT_STATUS_PENDING, @error is only set if the driver could not report the status
 *
 * Since: 0.1
 */
GpuEventStatus
gpu_event_query (GpuEvent  *event,
                 GError   **error)
{
  g_return_val_if_fail (GPU_IS_EVENT (event), GPU_EVENT_STATUS_PENDING);

  return query (event, "gpu_event_query", error);
}

static gboolean
wait_until (GpuEvent      *event,
            const char    *function,
            gint64         deadline,
            GCancellable  *cancellable,
            GError       **error)
{
  gboolean success;

  if (!_gpu_event_check (event, function, error))
    return FALSE;

  if (event->user != NULL)
    success = _gpu_user_event_wait_until (event->user, deadline, cancellable, error);
  else
    success = _gpu_timeline_wait_until (event->point.timeline, event->point.seq, deadline,
                                        cancellable, error)
              && _gpu_timeline_check_points (event->point.timeline, event->watch.first,
                                             event->point.seq, error);

  if (!success)
    g_prefix_error (error, "%s: ", function);

  return success;
}

/* Only -1 is no limit: a program that computes `deadline - now` must not block forever once the
 * deadline has passed. */
static gboolean
check_timeout (const char  *function,
               gint64       timeout_usec,
               GError     **error)
{
  if (timeout_usec >= -1)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s: the timeout of %" G_GINT64_FORMAT " microseconds is negative; only -1 is no "
               "limit", function, timeout_usec);

  return FALSE;
}

static gint64
get_deadline (gint64 timeout_usec)
{
  gint64 now = g_get_monotonic_time ();

  return timeout_usec >= 0 && timeout_usec < G_MAXINT64 - now ? now + timeout_usec : -1;
}

/* Returns FALSE if the work itself has failed, perhaps also with GPU_ERROR_TIMED_OUT. */
static gboolean
has_expired (GpuEvent     *event,
             const GError *failure)
{
  if (!g_error_matches (failure, GPU_ERROR, GPU_ERROR_TIMED_OUT))
    return FALSE;

  if (event->user != NULL)
    return _gpu_user_event_query (event->user, NULL) != GPU_EVENT_STATUS_FAILED;

  return _gpu_point_is_pending (&event->point)
         || _gpu_timeline_check_points (event->point.timeline, event->watch.first,
                                        event->point.seq, NULL);
}

/**
 * gpu_event_wait:
 * @event: a #GpuEvent
 * @cancellable: (nullable): a #GCancellable, or %NULL
 * @error: return location for an error
 *
 * Blocks until @event is complete (OpenCL: clEnqueueMarkerWithWaitList and clFlush in the first
 * wait, clWaitForEvents; CUDA: cuEventRecord, cuEventSynchronize). @cancellable cancels the wait,
 * but the work continues.
 *
 * Returns: %TRUE, or %FALSE with the error of the failed work or with %G_IO_ERROR_CANCELLED
 *
 * Since: 0.1
 */
gboolean
gpu_event_wait (GpuEvent      *event,
                GCancellable  *cancellable,
                GError       **error)
{
  g_return_val_if_fail (GPU_IS_EVENT (event), FALSE);
  g_return_val_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable), FALSE);

  return wait_until (event, "gpu_event_wait", -1, cancellable, error);
}

/**
 * gpu_event_wait_timeout:
 * @event: a #GpuEvent
 * @timeout_usec: the timeout in microseconds, or -1 for no limit
 * @cancellable: (nullable): a #GCancellable, or %NULL
 * @error: return location for an error
 *
 * Blocks until @event is complete or the timeout expires. If the timeout expires or @cancellable is
 * cancelled, only the wait ends: the work continues.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_TIMED_OUT, the error of the work that failed,
 *   %G_IO_ERROR_CANCELLED, or %GPU_ERROR_INVALID_ARGUMENT if @timeout_usec is below -1
 *
 * Since: 0.1
 */
gboolean
gpu_event_wait_timeout (GpuEvent      *event,
                        gint64         timeout_usec,
                        GCancellable  *cancellable,
                        GError       **error)
{
  GError *failure = NULL;

  g_return_val_if_fail (GPU_IS_EVENT (event), FALSE);
  g_return_val_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable), FALSE);

  if (!check_timeout ("gpu_event_wait_timeout", timeout_usec, error))
    return FALSE;

  if (wait_until (event, "gpu_event_wait_timeout", get_deadline (timeout_usec), cancellable,
                  &failure))
    return TRUE;

  if (!has_expired (event, failure))
    {
      g_propagate_error (error, failure);
      return FALSE;
    }

  g_error_free (failure);
  g_set_error (error, GPU_ERROR, GPU_ERROR_TIMED_OUT,
               "gpu_event_wait_timeout: %s on %s has not completed within %" G_GINT64_FORMAT
               " microseconds", event->user != NULL ? "the user event" : "the work of the event",
               event->user != NULL ? gpu_device_get_id (gpu_context_get_device (event->context))
                                   : event->point.timeline->device->id, timeout_usec);

  return FALSE;
}

/**
 * gpu_event_poll:
 * @event: a #GpuEvent
 * @timeout_usec: the timeout in microseconds, or -1 for no limit
 * @cancellable: (nullable): a #GCancellable, or %NULL
 * @error: return location for an error
 *
 * Waits like gpu_event_wait_timeout(), but does not treat an expired timeout as an error. The
 * caller can therefore do other work between two waits.
 *
 * Returns: the status at the end of the wait. If it is %GPU_EVENT_STATUS_FAILED, @error is set. If
 *   it is %GPU_EVENT_STATUS_PENDING, @error is only set if the wait was cancelled, the driver could
 *   not report the status, or @timeout_usec is below -1
 *
 * Since: 0.1
 */
GpuEventStatus
gpu_event_poll (GpuEvent      *event,
                gint64         timeout_usec,
                GCancellable  *cancellable,
                GError       **error)
{
  g_autoptr (GError) failure = NULL;
  g_autoptr (GError) late = NULL;
  GpuEventStatus status;

  g_return_val_if_fail (GPU_IS_EVENT (event), GPU_EVENT_STATUS_PENDING);
  g_return_val_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable),
                        GPU_EVENT_STATUS_PENDING);

  if (!check_timeout ("gpu_event_poll", timeout_usec, error))
    return GPU_EVENT_STATUS_PENDING;

  if (!_gpu_error_check_cancelled (cancellable, "gpu_event_poll", error))
    return GPU_EVENT_STATUS_PENDING;

  status = query (event, "gpu_event_poll", &failure);

  if (status == GPU_EVENT_STATUS_PENDING && failure == NULL)
    {
      if (wait_until (event, "gpu_event_poll", get_deadline (timeout_usec), cancellable, &failure))
        return GPU_EVENT_STATUS_COMPLETE;

      /* The event may have completed or failed between the end of the wait and this query. If the
       * status is FAILED, the work itself may have failed with GPU_ERROR_TIMED_OUT. */
      status = query (event, "gpu_event_poll", &late);

      if (status == GPU_EVENT_STATUS_COMPLETE
          || (status == GPU_EVENT_STATUS_PENDING
              && g_error_matches (failure, GPU_ERROR, GPU_ERROR_TIMED_OUT)))
        return status;

      if (status == GPU_EVENT_STATUS_FAILED)
        {
          g_clear_error (&failure);
          failure = g_steal_pointer (&late);
        }
    }

  if (failure != NULL)
    g_propagate_error (error, g_steal_pointer (&failure));

  return status;
}

/**
 * gpu_event_wait_all:
 * @events: (array length=n_events): events
 * @n_events: the number of events
 * @cancellable: (nullable): a #GCancellable, or %NULL
 * @error: return location for an error
 *
 * Blocks until all @events have completed or failed, or until @cancellable is cancelled. The events
 * may belong to different streams and contexts.
 *
 * Returns: %TRUE if all events have completed, otherwise %FALSE with the error of the failed event
 *   that is first in @events. If @cancellable is cancelled, events that are still pending count as
 *   failed with %G_IO_ERROR_CANCELLED
 *
 * Since: 0.1
 */
gboolean
gpu_event_wait_all (GpuEvent     **events,
                    gsize          n_events,
                    GCancellable  *cancellable,
                    GError       **error)
{
  g_autoptr (GError) first = NULL;

  g_return_val_if_fail (events != NULL || n_events == 0, FALSE);
  g_return_val_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable), FALSE);

  for (gsize i = 0; i < n_events; i++)
    {
      g_return_val_if_fail (GPU_IS_EVENT (events[i]), FALSE);

      wait_until (events[i], "gpu_event_wait_all", -1, cancellable,
                  first == NULL ? &first : NULL);
    }

  if (first == NULL)
    return TRUE;

  g_propagate_error (error, g_steal_pointer (&first));

  return FALSE;
}

/**
 * gpu_event_wait_async:
 * @event: a #GpuEvent
 * @cancellable: (nullable): a #GCancellable, or %NULL
 * @callback: (scope async) (nullable): called when @event is complete
 * @user_data: for @callback
 *
 * Waits like gpu_event_wait() without blocking. @callback is called in the thread-default main
 * context of the calling thread.
 *
 * Since: 0.1
 */
void
gpu_event_wait_async (GpuEvent            *event,
                      GCancellable        *cancellable,
                      GAsyncReadyCallback  callback,
                      gpointer             user_data)
{
  g_autoptr (GTask) task = NULL;
  GError *error = NULL;

  g_return_if_fail (GPU_IS_EVENT (event));
  g_return_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable));

  task = g_task_new (event, cancellable, callback, user_data);
  g_task_set_source_tag (task, gpu_event_wait_async);

  if (!_gpu_event_check (event, g_task_get_name (task), &error))
    g_task_return_error (task, error);
  else if (event->user != NULL)
    _gpu_user_event_return_task (event->user, task);
  else
    _gpu_timeline_return_task (event->point.timeline, event->watch.first, event->point.seq, task);
}

/**
 * gpu_event_wait_finish:
 * @event: a #GpuEvent
 * @result: the #GAsyncResult of the callback
 * @error: return location for an error
 *
 * Finishes gpu_event_wait_async().
 *
 * Returns: like gpu_event_wait()
 *
 * Since: 0.1
 */
gboolean
gpu_event_wait_finish (GpuEvent      *event,
                       GAsyncResult  *result,
                       GError       **error)
{
  g_return_val_if_fail (g_task_is_valid (result, event), FALSE);

  return _gpu_error_propagate_boolean (result, "gpu_event_wait_async", error);
}

/* The data of an idle source. Holds a reference to a watched event until GpuEvent::completed is
 * emitted. */
typedef struct
{
  GpuEvent *event;
  GError   *error;
} Completion;

static void
completion_free (gpointer data)
{
  Completion *completion = data;

  g_object_unref (completion->event);
  g_clear_error (&completion->error);
  g_free (completion);
}

static gboolean
emit_completed (gpointer data)
{
  Completion *completion = data;

  g_signal_emit (completion->event, signals[COMPLETED], 0, completion->error);

  return G_SOURCE_REMOVE;
}

static void
watched_completed (gpointer      data,
                   const GError *error)
{
  g_autoptr (GSource) source = g_idle_source_new ();
  Completion *completion = g_new0 (Completion, 1);
  GpuEvent *event = data;
  GMainContext *context = event->main_context;

  completion->event = event;
  completion->error = error != NULL ? g_error_copy (error) : NULL;
  g_source_set_priority (source, G_PRIORITY_DEFAULT);
  g_source_set_callback (source, emit_completed, completion, completion_free);
  g_source_attach (source, context);
}

/* @data is a weak reference. gpu_event_watch() takes no reference to a user event, because the
 * event must fail when the program drops the last reference. */
static void
user_completed (gpointer      data,
                const GError *error)
{
  GWeakRef *ref = data;
  GpuEvent *event = g_weak_ref_get (ref);

  if (event != NULL)
    watched_completed (event, error);

  g_weak_ref_clear (ref);
  g_free (ref);
}

/**
 * gpu_event_watch:
 * @event: a #GpuEvent
 * @error: return location for an error
 *
 * Requests the emission of #GpuEvent::completed when @event has completed or failed. The main loop
 * emits the signal, even if @event has already completed. The library holds a reference to @event
 * until the emission, unless @event is a user event. Further calls have no effect.
 *
 * Returns: %TRUE, or %FALSE with the driver's error if @event cannot be watched
 *
 * Since: 0.1
 */
gboolean
gpu_event_watch (GpuEvent  *event,
                 GError   **error)
{
  g_return_val_if_fail (GPU_IS_EVENT (event), FALSE);

  if (!_gpu_event_check (event, "gpu_event_watch", error))
    return FALSE;

  if (!g_atomic_int_compare_and_exchange (&event->watched, FALSE, TRUE))
    return TRUE;

  if (event->user != NULL)
    {
      GWeakRef *ref = g_new (GWeakRef, 1);

      g_weak_ref_init (ref, event);
      _gpu_user_event_notify (event->user, user_completed, ref);
      return TRUE;
    }

  if (_gpu_timeline_notify_points (event->point.timeline, event->watch.first, event->point.seq,
                                   watched_completed, g_object_ref (event), error))
    return TRUE;

  g_atomic_int_set (&event->watched, FALSE);
  g_object_unref (event);
  g_prefix_error (error, "gpu_event_watch: ");

  return FALSE;
}

static void
set_untimed (GpuEvent    *event,
             const char  *function,
             GError     **error)
{
  const GpuTimeline *timeline = event->point.timeline;
  const char *cause = "record it on a stream that is GPU_STREAM_FLAGS_PROFILING, or with "
                      "GPU_EVENT_FLAGS_TIMING";

  if (event->shared != NULL)
    cause = "an event with GPU_EVENT_FLAGS_INTERPROCESS has no times; record a second event with "
            "GPU_EVENT_FLAGS_TIMING";
  else if (timeline != NULL && (timeline->flags & GPU_STREAM_FLAGS_PROFILING) != 0)
    cause = "no operation with times precedes it in its stream; record an event with "
            "GPU_EVENT_FLAGS_TIMING";

  g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
               "%s: the event records no times: %s", function, cause);
}

/* Returns the native event with the times of @event, or NULL with an error if @event is not
 * complete or has no times. */
static GpuNativeEvent *
get_timed (GpuEvent    *event,
           const char  *function,
           GError     **error)
{
  if (!_gpu_event_check (event, function, error))
    return NULL;

  if (event->timed == NULL || event->timed->backend->event->get_profiling_time == NULL)
    {
      set_untimed (event, function, error);
      return NULL;
    }

  switch (query (event, function, error))
    {
    case GPU_EVENT_STATUS_COMPLETE:
      return event->timed;

    case GPU_EVENT_STATUS_PENDING:
      if (error == NULL || *error == NULL)
        g_set_error (error, GPU_ERROR, GPU_ERROR_BUSY,
                     "%s: the event is not complete; wait for it first", function);
      return NULL;

    case GPU_EVENT_STATUS_FAILED:
    default:
      return NULL;
    }
}

static gboolean
get_time (GpuEvent           *event,
          const char         *function,
          GpuProfilingPoint   point,
          guint64            *nanoseconds,
          GError            **error)
{
  GpuNativeEvent *timed = get_timed (event, function, error);

  if (timed == NULL)
    return FALSE;

  if (event->operation != NULL)
    timed = event->operation;

  if (timed->backend->event->get_profiling_time (timed, point, nanoseconds, error))
    return TRUE;

  g_prefix_error (error, "%s: ", function);

  return FALSE;
}

/* Gets the time from the end of @since to the end of @event. */
static gboolean
measure (GpuNativeEvent  *event,
         GpuNativeEvent  *since,
         gint64          *nanoseconds,
         GError         **error)
{
  const GpuEventOps *ops = event->backend->event;
  guint64 from;
  guint64 to;

  if (ops->get_elapsed != NULL)
    return ops->get_elapsed (event, since, nanoseconds, error);

  if (!ops->get_profiling_time (since, GPU_PROFILING_POINT_ENDED, &from, error)
      || !ops->get_profiling_time (event, GPU_PROFILING_POINT_ENDED, &to, error))
    return FALSE;

  *nanoseconds = (gint64) (to - from);

  return TRUE;
}

static gboolean
measure_operation (GpuNativeEvent  *event,
                   gint64          *nanoseconds,
                   GError         **error)
{
  const GpuEventOps *ops = event->backend->event;
  guint64 from;
  guint64 to;

  if (ops->get_duration != NULL)
    {
      if (!ops->get_duration (event, &to, error))
        return FALSE;

      *nanoseconds = (gint64) to;
      return TRUE;
    }

  if (!ops->get_profiling_time (event, GPU_PROFILING_POINT_STARTED, &from, error)
      || !ops->get_profiling_time (event, GPU_PROFILING_POINT_ENDED, &to, error))
    return FALSE;

  *nanoseconds = (gint64) (to - from);

  return TRUE;
}

/**
 * gpu_event_get_elapsed:
 * @event: a #GpuEvent of a %GPU_STREAM_FLAGS_PROFILING stream or with %GPU_EVENT_FLAGS_TIMING,
 *   complete
 * @since: an earlier event of the same kind, complete
 * @nanoseconds: (out): the time from @since to @event, in nanoseconds; negative if @since is later
 * @error: return location for an error
 *
 * Gets the time on the device between two events of one context (OpenCL: clGetEventProfilingInfo;
 * CUDA: cuEventElapsedTime). Does not block.
 *
 * The time of an event with %GPU_EVENT_FLAGS_TIMING is the time at which the device reached the
 * event. The time of any other event is the end of the last operation before it. So if the stream
 * is idle before @since is recorded, the result only excludes that idle time with
 * %GPU_EVENT_FLAGS_TIMING.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_BUSY if an event is not complete,
 *   %GPU_ERROR_NOT_SUPPORTED if an event records no times, %GPU_ERROR_INVALID_ARGUMENT if the
 *   contexts differ, the error of a failed event, or the driver's error
 *
 * Since: 0.1
 */
gboolean
gpu_event_get_elapsed (GpuEvent  *event,
                       GpuEvent  *since,
                       gint64    *nanoseconds,
                       GError   **error)
{
  const char *function = "gpu_event_get_elapsed";
  GpuNativeEvent *from;
  GpuNativeEvent *to;

  g_return_val_if_fail (GPU_IS_EVENT (event), FALSE);
  g_return_val_if_fail (GPU_IS_EVENT (since), FALSE);
  g_return_val_if_fail (nanoseconds != NULL, FALSE);

  from = get_timed (since, function, error);
  to = from != NULL ? get_timed (event, function, error) : NULL;

  if (to == NULL)
    return FALSE;

  if (event->point.timeline->context != since->point.timeline->context)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "%s: the events are of different contexts, on %s and %s", function,
                   event->point.timeline->device->id, since->point.timeline->device->id);
      return FALSE;
    }

  if (measure (to, from, nanoseconds, error))
    return TRUE;

  g_prefix_error (error, "%s: ", function);

  return FALSE;
}

/**
 * gpu_event_get_duration:
 * @event: a #GpuEvent, complete, of gpu_stream_launch_timed() or of a
 *   %GPU_STREAM_FLAGS_PROFILING stream
 * @nanoseconds: (out): the time in nanoseconds
 * @error: return location for an error
 *
 * Gets the execution time of the last operation before @event, with and without
 * %GPU_EVENT_FLAGS_TIMING (OpenCL: clGetEventProfilingInfo; CUDA: cuEventElapsedTime). If there is
 * no operation with times, the result for an event with %GPU_EVENT_FLAGS_TIMING is the time that
 * the device needed to record the event, about 0. Does not block.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_BUSY if @event is not complete,
 *   %GPU_ERROR_NOT_SUPPORTED if @event records no times, the error of @event if it failed, or the
 *   driver's error
 *
 * Since: 0.1
 */
gboolean
gpu_event_get_duration (GpuEvent  *event,
                        guint64   *nanoseconds,
                        GError   **error)
{
  const char *function = "gpu_event_get_duration";
  GpuNativeEvent *timed;
  gint64 elapsed = 0;
  gboolean success;

  g_return_val_if_fail (GPU_IS_EVENT (event), FALSE);
  g_return_val_if_fail (nanoseconds != NULL, FALSE);

  timed = get_timed (event, function, error);

  if (timed == NULL)
    return FALSE;

  if (event->start != NULL)
    success = measure (timed, event->start, &elapsed, error);
  else
    success = measure_operation (event->operation != NULL ? event->operation : timed, &elapsed,
                                 error);

  *nanoseconds = MAX (elapsed, 0);

  if (!success)
    g_prefix_error (error, "%s: ", function);

  return success;
}

/**
 * gpu_event_get_profiling_time:
 * @event: a #GpuEvent of a %GPU_STREAM_FLAGS_PROFILING stream, complete
 * @point: the point in the life of the operation
 * @nanoseconds: (out): the time on the device's clock, in nanoseconds
 * @error: return location for an error
 *
 * Gets the time at which the last operation before @event was queued, submitted, started or ended,
 * with and without %GPU_EVENT_FLAGS_TIMING (OpenCL: clGetEventProfilingInfo; CUDA:
 * cuEventElapsedTime). If there is no operation with times, the result for an event with
 * %GPU_EVENT_FLAGS_TIMING is a time of the event itself. Does not block.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_BUSY if @event is not complete,
 *   %GPU_ERROR_NOT_SUPPORTED if @event records no times, the error of @event if it failed,
 *   %GPU_ERROR_INVALID_ARGUMENT if @point is unknown, or the driver's error
 *
 * Since: 0.1
 */
gboolean
gpu_event_get_profiling_time (GpuEvent           *event,
                              GpuProfilingPoint   point,
                              guint64            *nanoseconds,
                              GError            **error)
{
  g_return_val_if_fail (GPU_IS_EVENT (event), FALSE);
  g_return_val_if_fail (nanoseconds != NULL, FALSE);

  if (point > GPU_PROFILING_POINT_ENDED)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "gpu_event_get_profiling_time: unknown profiling point %d", point);
      return FALSE;
    }

  return get_time (event, "gpu_event_get_profiling_time", point, nanoseconds, error);
}

GpuContext *
_gpu_event_get_context (GpuEvent *event)
{
  return event->context;
}

gboolean
_gpu_binding_is_complete (GpuEvent *event)
{
  return event->point.timeline != NULL && !g_atomic_int_get (&_gpu_timeline_any_failed)
         && _gpu_timeline_is_complete (event->point.timeline, event->point.seq);
}
