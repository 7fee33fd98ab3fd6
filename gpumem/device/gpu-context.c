/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/base/gpu-debug-private.h"
#include "gpumem/base/gpu-nick-private.h"
#include "gpumem/base/gpu-signal-private.h"
#include "gpumem/device/gpu-context-private.h"
#include "gpumem/device/gpu-device-private.h"

/**
 * SECTION:gpu-context
 * @title: GpuContext
 * @short_description: the scope of the objects of a device
 * @see_also: #GpuDevice, #GpuStream, #GpuMemory
 */

/* Lets threads post emissions without references to the context: a second reference calls the
 * toggle notify of a program, and the context may be finalized before its main context runs. */
typedef struct
{
  GWeakRef      context;
  GMainContext *main_context;       /* that of the GpuContext. Borrowed: the main context owns
                                     * pending emissions, which own this structure */
} Owner;

/**
 * GpuContext:
 *
 * The scope in which the memory, streams and programs of a device exist.
 *
 * |[<!-- language="C" -->
 * g_autoptr (GpuContext) own = gpu_context_new (device, GPU_CONTEXT_FLAGS_NONE, &error);
 * g_autoptr (GpuStream) queue = gpu_stream_new (own, GPU_STREAM_FLAGS_NONE, &error);
 * g_autoptr (GpuBuffer) zeros = gpu_buffer_new (own, GPU_MEMORY_FLAGS_NONE, 4096, &error);
 * const guint8 zero = 0;
 *
 * gpu_stream_fill (queue, GPU_MEMORY (zeros), 0, 4096, &zero, 1, &error);
 * if (!gpu_context_synchronize (own, &error))
 *   g_warning ("the fill failed: %s", error->message);
 * ]|
 *
 * A context is for one device, or on OpenCL for several devices of one platform. Each object holds
 * a reference to its context; a context holds no references to its objects. Kernels can only use
 * memory of their own context, but copies also work between contexts.
 *
 * All methods may be called from any thread. Signals are emitted in the thread-default
 * #GMainContext of the thread that created the context.
 *
 * Since: 0.1
 */
struct _GpuContext
{
  GObject           parent_instance;

  GPtrArray        *devices;          /* of GpuDevice, construct only */
  GpuContextFlags   flags;            /* as requested, construct only */
  guint64           handle;           /* of a driver context to wrap; construct only */
  GpuWrapMode       mode;
  GpuNativeContext *native;           /* NULL until initialised */
  GMainContext     *main_context;     /* where signals are emitted */
  Owner            *owner;            /* an atomic reference-counted box */
  GThread          *thread;           /* the thread that created the context */

  GMutex            lock;             /* guards the members below */
  GpuTimeline      *default_timeline; /* set once, and atomic */
  GWeakRef          default_stream;
  gint              n_default_streams; /* counts its changes; also read without the lock */
  char             *build_options;
  GObject          *allocator;        /* a GpuAllocator; written under the lock, and atomic */
  gboolean          has_pressure;     /* an emission of ::memory-pressure is pending */
  guint64           pressure;         /* its argument */
};

enum
{
  PROP_0,
  PROP_DEVICE,
  PROP_DEVICES,
  PROP_FLAGS,
  PROP_NATIVE_HANDLE,
  PROP_BUILD_OPTIONS,
  PROP_ALLOCATOR,
  PROP_ALLOCATED_SIZE,
  PROP_LOST,
  N_PROPS
};

enum
{
  LOST,
  MEMORY_PRESSURE,
  N_SIGNALS
};

static GParamSpec *props[N_PROPS];
static guint signals[N_SIGNALS];

static void initable_iface_init (GInitableIface *iface);

G_DEFINE_FINAL_TYPE_WITH_CODE (GpuContext, gpu_context, G_TYPE_OBJECT,
                               G_IMPLEMENT_INTERFACE (G_TYPE_INITABLE, initable_iface_init)
                               G_IMPLEMENT_INTERFACE (G_TYPE_ASYNC_INITABLE, NULL))

static void
gpu_context_get_property (GObject    *object,
                          guint       id,
                          GValue     *value,
                          GParamSpec *pspec)
{
  GpuContext *context = GPU_CONTEXT (object);

  switch (id)
    {
    case PROP_DEVICE:
      g_value_set_object (value, gpu_context_get_device (context));
      break;
    case PROP_DEVICES:
      g_value_set_boxed (value, context->devices);
      break;
    case PROP_FLAGS:
      g_value_set_flags (value, context->native != NULL ? context->native->flags
                                                        : GPU_CONTEXT_FLAGS_NONE);
      break;
    case PROP_NATIVE_HANDLE:
      g_value_set_uint64 (value, gpu_context_get_native_handle (context));
      break;
    case PROP_BUILD_OPTIONS:
      g_mutex_lock (&context->lock);
      g_value_set_string (value, context->build_options);
      g_mutex_unlock (&context->lock);
      break;
    case PROP_ALLOCATOR:
      g_value_take_object (value, _gpu_context_ref_allocator (context));
      break;
    case PROP_ALLOCATED_SIZE:
      g_value_set_uint64 (value, gpu_context_get_allocated_size (context));
      break;
    case PROP_LOST:
      g_value_set_boolean (value, gpu_context_is_lost (context));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

GObject *
_gpu_context_ref_allocator (GpuContext *context)
{
  GObject *allocator;

  if (g_atomic_pointer_get (&context->allocator) == NULL)
    return NULL;

  g_mutex_lock (&context->lock);
  allocator = context->allocator != NULL ? g_object_ref (context->allocator) : NULL;
  g_mutex_unlock (&context->lock);

  return allocator;
}

/* Takes ownership of @allocator. */
static void
set_allocator (GpuContext *context,
               GObject    *allocator)
{
  g_autoptr (GObject) old = NULL;

  g_mutex_lock (&context->lock);
  old = context->allocator;
  g_atomic_pointer_set (&context->allocator, allocator);
  g_mutex_unlock (&context->lock);

  if (old != allocator)
    g_object_notify_by_pspec (G_OBJECT (context), props[PROP_ALLOCATOR]);
}

static void
gpu_context_set_property (GObject      *object,
                          guint         id,
                          const GValue *value,
                          GParamSpec   *pspec)
{
  GpuContext *context = GPU_CONTEXT (object);

  switch (id)
    {
    case PROP_DEVICE:
      if (g_value_get_object (value) != NULL)
        g_ptr_array_add (context->devices, g_value_dup_object (value));
      break;
    case PROP_FLAGS:
      context->flags = g_value_get_flags (value);
      break;
    case PROP_BUILD_OPTIONS:
      gpu_context_set_build_options (context, g_value_get_string (value));
      break;
    case PROP_ALLOCATOR:
      set_allocator (context, g_value_dup_object (value));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
owner_clear (gpointer data)
{
  g_weak_ref_clear (&((Owner *) data)->context);
}

static void
forget_owner (GpuNativeContext *native)
{
  g_mutex_lock (&native->lock);
  native->owner = NULL;
  g_mutex_unlock (&native->lock);
}

static void
gpu_context_finalize (GObject *object)
{
  GpuContext *context = GPU_CONTEXT (object);

  if (context->default_timeline != NULL)
    {
      _gpu_timeline_unuse (context->default_timeline);
      _gpu_timeline_unref (context->default_timeline);
    }

  if (context->native != NULL)
    {
      forget_owner (context->native);
      _gpu_native_context_unref (context->native);
    }

  g_clear_object (&context->allocator);
  g_weak_ref_clear (&context->default_stream);
  g_ptr_array_unref (context->devices);
  g_atomic_rc_box_release_full (context->owner, owner_clear);
  g_main_context_unref (context->main_context);
  g_mutex_clear (&context->lock);
  g_free (context->build_options);
  _gpu_live_add (GPU_LIVE_CONTEXT, -1);

  G_OBJECT_CLASS (gpu_context_parent_class)->finalize (object);
}

static void
install_writable_properties (void)
{
  /**
   * GpuContext:device:
   *
   * The device, or the first of several devices.
   *
   * Since: 0.1
   */
  props[PROP_DEVICE] =
    g_param_spec_object ("device", NULL, NULL, GPU_TYPE_DEVICE,
                         G_PARAM_READWRITE | G_PARAM_CONSTRUCT_ONLY | G_PARAM_STATIC_STRINGS);
  /**
   * GpuContext:flags:
   *
   * The behavior of the context (CUDA: cuCtxGetFlags).
   *
   * Since: 0.1
   */
  props[PROP_FLAGS] =
    g_param_spec_flags ("flags", NULL, NULL, GPU_TYPE_CONTEXT_FLAGS, GPU_CONTEXT_FLAGS_NONE,
                        G_PARAM_READWRITE | G_PARAM_CONSTRUCT_ONLY | G_PARAM_STATIC_STRINGS);
  /**
   * GpuContext:build-options:
   *
   * The compiler options of the context, which precede the options of each program built in the
   * context.
   *
   * Since: 0.1
   */
  props[PROP_BUILD_OPTIONS] =
    g_param_spec_string ("build-options", NULL, NULL, NULL,
                         G_PARAM_READWRITE | G_PARAM_EXPLICIT_NOTIFY | G_PARAM_STATIC_STRINGS);
  /**
   * GpuContext:allocator: (type GpuAllocator)
   *
   * The #GpuAllocator that allocates the memory of new arrays of the context, unless the program
   * passes another allocator, or %NULL for new buffers of the driver. The allocator must allocate
   * memory of this context. Functions that return memory itself, such as gpu_buffer_new(), do not
   * use the allocator. May be read and set on any thread.
   *
   * The context and an allocator of the context hold references to each other: set %NULL before
   * the last references to them are dropped.
   *
   * Since: 0.1
   */
  props[PROP_ALLOCATOR] =
    g_param_spec_object ("allocator", NULL, NULL, G_TYPE_OBJECT,
                         G_PARAM_READWRITE | G_PARAM_EXPLICIT_NOTIFY | G_PARAM_STATIC_STRINGS);
}

static void
install_properties (GObjectClass *object_class)
{
  install_writable_properties ();
  /**
   * GpuContext:devices: (type GPtrArray(GpuDevice))
   *
   * All devices of the context.
   *
   * Since: 0.1
   */
  props[PROP_DEVICES] =
    g_param_spec_boxed ("devices", NULL, NULL, G_TYPE_PTR_ARRAY,
                        G_PARAM_READABLE | G_PARAM_STATIC_STRINGS);
  /**
   * GpuContext:native-handle:
   *
   * The driver's handle, see gpu_context_get_native_handle().
   *
   * Since: 0.1
   */
  props[PROP_NATIVE_HANDLE] =
    g_param_spec_uint64 ("native-handle", NULL, NULL, 0, G_MAXUINT64, 0,
                         G_PARAM_READABLE | G_PARAM_STATIC_STRINGS);
  /**
   * GpuContext:allocated-size:
   *
   * The size of the memory allocated in the context in bytes, see gpu_context_get_allocated_size().
   *
   * Since: 0.1
   */
  props[PROP_ALLOCATED_SIZE] =
    g_param_spec_uint64 ("allocated-size", NULL, NULL, 0, G_MAXUINT64, 0,
                         G_PARAM_READABLE | G_PARAM_STATIC_STRINGS);
  /**
   * GpuContext:lost:
   *
   * Whether the device was lost.
   *
   * Since: 0.1
   */
  props[PROP_LOST] =
    g_param_spec_boolean ("lost", NULL, NULL, FALSE,
                          G_PARAM_READABLE | G_PARAM_STATIC_STRINGS);

  g_object_class_install_properties (object_class, N_PROPS, props);
}

/* Logs a message for a context without a device. Python creates such a context if the Python
 * override of GpuContext is missing. Without the message, the program fails only later, with an
 * error about a missing attribute. */
static void
gpu_context_constructed (GObject *object)
{
  GpuContext *context = GPU_CONTEXT (object);

  G_OBJECT_CLASS (gpu_context_parent_class)->constructed (object);

  if (context->devices->len == 0)
    g_message ("This GpuContext has no device and cannot be used: create it with "
               "gpu_context_new(). In Python, Gpu.Context() needs the override "
               "gi/overrides/Gpu.py, which was not found: the folder that contains it must be in "
               "sys.path");
}

static void
gpu_context_class_init (GpuContextClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);

  object_class->constructed = gpu_context_constructed;
  object_class->get_property = gpu_context_get_property;
  object_class->set_property = gpu_context_set_property;
  object_class->finalize = gpu_context_finalize;

  install_properties (object_class);

  /**
   * GpuContext::lost:
   * @context: the context
   * @error: the driver's error
   *
   * Emitted once, after the driver reported that the device or the driver's context is permanently
   * lost. Every later call in the context fails with %GPU_ERROR_DEVICE_LOST, but objects can still
   * be released. The signal is emitted in the main context of the thread that created @context.
   *
   * Since: 0.1
   */
  signals[LOST] =
    g_signal_new ("lost", GPU_TYPE_CONTEXT, G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL,
                  G_TYPE_NONE, 1, G_TYPE_ERROR);

  /**
   * GpuContext::memory-pressure:
   * @context: the context
   * @requested: the size of the allocation that failed, in bytes; the largest one if several
   *   requests of other threads failed
   *
   * Emitted when the device, or the host for page-locked memory, is out of memory. A request of a
   * #GpuMemoryPool that fails for lack of memory, or because of the limit of the pool, emits the
   * signal once, after GpuMemoryPool::out-of-memory.
   *
   * If the thread that created @context requested the memory, the signal is emitted at once, and
   * the allocation is tried again after the handlers have returned. If another thread requested the
   * memory, the allocation fails, and the signal is emitted later, in the main context of the
   * thread that created @context. Requests that fail before this emission need no other one. Memory
   * that the handlers free is then available to later allocations. If a handler itself requests
   * memory and there is none, that request fails without another emission.
   *
   * Since: 0.1
   */
  signals[MEMORY_PRESSURE] =
    g_signal_new ("memory-pressure", GPU_TYPE_CONTEXT, G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL,
                  G_TYPE_NONE, 1, G_TYPE_UINT64);
}

static void
gpu_context_init (GpuContext *context)
{
  context->devices = g_ptr_array_new_with_free_func (g_object_unref);
  context->main_context = g_main_context_ref_thread_default ();
  context->owner = g_atomic_rc_box_new0 (Owner);
  g_weak_ref_init (&context->owner->context, context);
  context->owner->main_context = context->main_context;
  context->thread = g_thread_self ();
  g_mutex_init (&context->lock);
  g_weak_ref_init (&context->default_stream, NULL);
  _gpu_live_add (GPU_LIVE_CONTEXT, 1);
}

/* Returns the native devices, or NULL with an error if they belong to different back ends or a
 * device is unusable. */
static GpuNativeDevice **
get_native_devices (GpuContext  *context,
                    GError     **error)
{
  g_autofree GpuNativeDevice **natives = g_new (GpuNativeDevice *, context->devices->len + 1);

  if (context->devices->len == 0)
    {
      g_set_error_literal (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                           "gpu_context_new: no device was given");
      return NULL;
    }

  for (guint i = 0; i < context->devices->len; i++)
    {
      GpuDevice *device = g_ptr_array_index (context->devices, i);

      if (!gpu_device_check (device, error))
        return NULL;

      natives[i] = _gpu_device_get_native (device);

      if (natives[i]->backend != natives[0]->backend)
        {
          g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                       "gpu_context_new: the devices %s and %s belong to different back ends",
                       natives[0]->id, natives[i]->id);
          return NULL;
        }
    }

  return g_steal_pointer (&natives);
}

static gboolean
check_flags (GpuContext           *context,
             const GpuContextOps  *ops,
             GError              **error)
{
  const GpuContextFlags sched = GPU_CONTEXT_FLAGS_SCHED_SPIN | GPU_CONTEXT_FLAGS_SCHED_YIELD
                                | GPU_CONTEXT_FLAGS_SCHED_BLOCKING;
  GpuContextFlags chosen = context->flags & sched;
  GpuContextFlags missing = context->flags & ~ops->flags;
  g_autofree char *text = NULL;

  if ((chosen & (chosen - 1)) == 0 && missing == 0)
    return TRUE;

  if ((chosen & (chosen - 1)) != 0)
    {
      text = _gpu_flags_get_nicks (GPU_TYPE_CONTEXT_FLAGS, context->flags);
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "gpu_context_new: the context flags %s cannot be combined", text);
    }
  else
    {
      text = _gpu_flags_get_nicks (GPU_TYPE_CONTEXT_FLAGS, missing);
      g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                   "gpu_context_new: %s does not support contexts with the flags %s",
                   gpu_device_get_id (context->devices->pdata[0]), text);
    }

  return FALSE;
}

static void notify_lost (GpuNativeContext *native,
                         const GError     *error);

static gboolean
gpu_context_initable_init (GInitable     *initable,
                           GCancellable  *cancellable,
                           GError       **error)
{
  GpuContext *context = GPU_CONTEXT (initable);
  g_autofree GpuNativeDevice **natives = NULL;
  const GpuContextOps *ops;

  if (context->native != NULL)
    return TRUE;

  natives = get_native_devices (context, error);

  if (natives == NULL)
    return FALSE;

  ops = natives[0]->backend->context;

  if (!check_flags (context, ops, error))
    return FALSE;

  if (context->handle == 0)
    context->native = ops->create (natives, context->devices->len, context->flags, error);
  else if (ops->wrap != NULL)
    context->native = ops->wrap (natives[0], context->handle, context->mode, error);
  else
    g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                 "the back end %s has no contexts to wrap", natives[0]->backend->name);

  if (context->native == NULL)
    {
      g_prefix_error (error, "gpu_context_new: %s: ", natives[0]->id);
      return FALSE;
    }

  context->native->owner = context->owner;
  context->native->notify_lost = notify_lost;

  return TRUE;
}

static void
initable_iface_init (GInitableIface *iface)
{
  iface->init = gpu_context_initable_init;
}

GpuNativeContext *
_gpu_context_get_native (GpuContext *context)
{
  return context->native;
}

gboolean
_gpu_context_check (GpuContext  *context,
                    const char  *function,
                    GError     **error)
{
  if (context->native == NULL)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "%s: the context was never initialised", function);
      return FALSE;
    }

  if (_gpu_native_context_check (context->native, error))
    return TRUE;

  g_prefix_error (error, "%s: ", function);

  return FALSE;
}

typedef struct
{
  Owner    *owner;
  GError   *error;                  /* argument of ::lost, or NULL for ::memory-pressure */
} PostedEmission;

static void
emission_free (gpointer data)
{
  PostedEmission *emission = data;

  g_atomic_rc_box_release_full (emission->owner, owner_clear);
  g_clear_error (&emission->error);
  g_free (emission);
}

/* Registers a request of another thread that failed. Returns FALSE if the pending emission is for
 * this request, too: a program may take long to iterate its main context. */
static gboolean
add_pressure (GpuContext *context,
              guint64     requested)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&context->lock);
  gboolean is_first = !context->has_pressure;

  context->pressure = is_first ? requested : MAX (context->pressure, requested);
  context->has_pressure = TRUE;

  return is_first;
}

/* Requests that fail from now on need another emission. */
static guint64
take_pressure (GpuContext *context)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&context->lock);

  context->has_pressure = FALSE;

  return context->pressure;
}

/* Requests of the handlers emit nothing: each emission could otherwise lead to another one. */
static void
emit_pressure (GpuContext *context,
               guint64     requested)
{
  GpuEmission emission;

  _gpu_emission_begin (&emission, context->native);
  g_signal_emit (context, signals[MEMORY_PRESSURE], 0, requested);
  _gpu_emission_end (&emission);
}

static gboolean
emit (gpointer data)
{
  PostedEmission *emission = data;
  g_autoptr (GpuContext) context = g_weak_ref_get (&emission->owner->context);

  if (context == NULL)
    return G_SOURCE_REMOVE;

  if (emission->error != NULL)
    {
      g_signal_emit (context, signals[LOST], 0, emission->error);
      g_object_notify_by_pspec (G_OBJECT (context), props[PROP_LOST]);
    }
  else
    {
      emit_pressure (context, take_pressure (context));
    }

  return G_SOURCE_REMOVE;
}

/* Emits the signal from an idle source. Does not use g_main_context_invoke(), because that function
 * may emit the signal immediately, on the calling thread. Takes ownership of @owner. The caller has
 * a reference to @main_context, because the emission may run, and drop others, during this call. */
static void
post_emission (Owner        *owner,
               GMainContext *main_context,
               const GError *error)
{
  g_autoptr (GSource) source = g_idle_source_new ();
  PostedEmission *emission = g_new0 (PostedEmission, 1);

  emission->owner = owner;
  emission->error = error != NULL ? g_error_copy (error) : NULL;
  g_source_set_priority (source, G_PRIORITY_DEFAULT);
  g_source_set_callback (source, emit, emission, emission_free);
  g_source_attach (source, main_context);
}

static void
notify_lost (GpuNativeContext *native,
             const GError     *error)
{
  g_autoptr (GMainContext) main_context = NULL;
  Owner *owner;

  g_mutex_lock (&native->lock);
  owner = native->owner;

  if (owner != NULL)
    {
      g_atomic_rc_box_acquire (owner);
      main_context = g_main_context_ref (owner->main_context);
    }

  g_mutex_unlock (&native->lock);

  if (owner != NULL)
    post_emission (owner, main_context, error);
}

gboolean
_gpu_context_signal_pressure (GpuContext *context,
                              guint64     requested)
{
  GpuEmission *outer = _gpu_emission_find (context->native);

  if (!g_signal_has_handler_pending (context, signals[MEMORY_PRESSURE], 0, FALSE))
    return FALSE;

  if (outer != NULL)
    {
      outer->is_requested = TRUE;
      return FALSE;
    }

  if (context->thread != g_thread_self ())
    {
      if (add_pressure (context, requested))
        post_emission (g_atomic_rc_box_acquire (context->owner), context->main_context, NULL);

      return FALSE;
    }

  emit_pressure (context, requested);

  return TRUE;
}

static GpuTimeline *
get_default_timeline_locked (GpuContext  *context,
                             GError     **error)
{
  GpuNativeContext *native = context->native;
  GpuNativeStream *stream;
  GpuTimeline *timeline;

  if (context->default_timeline != NULL)
    return context->default_timeline;

  stream = native->backend->stream->create (native, native->devices[0], GPU_STREAM_FLAGS_NONE, 0,
                                            error);

  if (stream == NULL)
    return NULL;

  timeline = _gpu_timeline_new (native, native->devices[0], stream, GPU_STREAM_FLAGS_NONE, 0);
  g_atomic_pointer_set (&context->default_timeline, timeline);

  return timeline;
}

static GpuTimeline *
get_default_timeline (GpuContext  *context,
                      GError     **error)
{
  GError *failure = NULL;
  GpuTimeline *timeline;

  g_mutex_lock (&context->lock);
  timeline = get_default_timeline_locked (context, &failure);
  g_mutex_unlock (&context->lock);

  /* Without the lock, because a report may call functions of the program. */
  if (failure != NULL)
    {
      _gpu_native_context_report (context->native, failure);
      g_propagate_error (error, failure);
    }

  return timeline;
}

GpuTimeline *
_gpu_context_peek_default_timeline (GpuContext  *context,
                                    const char  *function,
                                    GError     **error)
{
  GpuTimeline *timeline = g_atomic_pointer_get (&context->default_timeline);

  /* _gpu_submit() checks whether the context is lost. */
  if (G_LIKELY (timeline != NULL))
    return timeline;

  if (!_gpu_context_check (context, function, error))
    return NULL;

  timeline = get_default_timeline (context, error);

  if (timeline == NULL)
    g_prefix_error (error, "%s: ", function);

  return timeline;
}

/* References to objects may call toggle notifies of the program, so this function takes them
 * without the lock. If another thread, or a notify, sets the stream meanwhile, the caller gets that
 * one. */
GpuStream *
_gpu_context_ref_default_stream (GpuContext     *context,
                                 GpuStreamFunc   create)
{
  GpuTimeline *timeline = context->native != NULL ? get_default_timeline (context, NULL) : NULL;
  gboolean is_set = FALSE;
  GpuStream *stream = NULL;

  if (timeline == NULL)
    return NULL;

  while (!is_set)
    {
      gint n_streams = g_atomic_int_get (&context->n_default_streams);

      g_clear_object (&stream);
      stream = g_weak_ref_get (&context->default_stream);

      if (stream != NULL)
        return stream;

      stream = create (context, timeline);
      g_mutex_lock (&context->lock);
      is_set = context->n_default_streams == n_streams;

      if (is_set)
        {
          g_weak_ref_set (&context->default_stream, stream);
          g_atomic_int_inc (&context->n_default_streams);
        }

      g_mutex_unlock (&context->lock);
    }

  return stream;
}

/**
 * gpu_context_new:
 * @device: a #GpuDevice
 * @flags: the behavior of the context
 * @error: return location for an error
 *
 * Creates a context on @device (OpenCL: clCreateContext; CUDA: cuDevicePrimaryCtxRetain). May block
 * for some milliseconds, but does not wait for work of the device.
 *
 * CUDA has one primary context for each device, with one set of flags, which all libraries of a
 * process share. While the primary context is in use, a call with other @flags fails.
 * %GPU_CONTEXT_FLAGS_OWN creates a separate context (CUDA: cuCtxCreate), whose memory other
 * libraries cannot use. On OpenCL and the host, each context is separate, and waiting threads
 * always sleep. Kernels can access host memory if the device supports such access.
 *
 * Returns: (transfer full): the context, or %NULL with %GPU_ERROR_NO_DEVICE if the device cannot be
 *   used, %GPU_ERROR_INVALID_ARGUMENT for unknown flags or flags that exclude each other,
 *   %GPU_ERROR_NOT_SUPPORTED for flags that the back end does not support, %GPU_ERROR_BUSY if the
 *   primary context is in use with other flags, %GPU_ERROR_DEVICE_LOST in a forked process whose
 *   parent had used the driver, or the driver's error
 *
 * Since: 0.1
 */
GpuContext *
gpu_context_new (GpuDevice        *device,
                 GpuContextFlags   flags,
                 GError          **error)
{
  const GpuContextFlags known = GPU_CONTEXT_FLAGS_SCHED_SPIN | GPU_CONTEXT_FLAGS_SCHED_YIELD
                                | GPU_CONTEXT_FLAGS_SCHED_BLOCKING | GPU_CONTEXT_FLAGS_MAP_HOST
                                | GPU_CONTEXT_FLAGS_LOCAL_MEMORY_RESIZE | GPU_CONTEXT_FLAGS_OWN;

  g_return_val_if_fail (GPU_IS_DEVICE (device), NULL);

  /* The flags property would drop unknown flags silently. */
  if ((flags & ~known) != 0)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "gpu_context_new: unknown context flags 0x%x", flags & ~known);
      return NULL;
    }

  return g_initable_new (GPU_TYPE_CONTEXT, NULL, error, "device", device, "flags", flags, NULL);
}

/**
 * gpu_context_new_for_devices:
 * @devices: (array length=n_devices): devices of one back end; on OpenCL, of one platform
 * @n_devices: the number of devices
 * @error: return location for an error
 *
 * Creates a context on several devices, which share its memory (OpenCL: clCreateContext).
 * gpu_stream_new_full() selects the device of a stream.
 *
 * Returns: (transfer full): the context, or %NULL with %GPU_ERROR_NOT_SUPPORTED if the back end
 *   supports only one device per context, or if the devices belong to several OpenCL platforms;
 *   %GPU_ERROR_INVALID_ARGUMENT if @n_devices is 0, or if the devices belong to several back ends;
 *   %GPU_ERROR_NO_DEVICE if a device cannot be used; or the driver's error
 *
 * Since: 0.1
 */
GpuContext *
gpu_context_new_for_devices (GpuDevice **devices,
                             gsize       n_devices,
                             GError    **error)
{
  g_autoptr (GpuContext) context = NULL;

  g_return_val_if_fail (devices != NULL || n_devices == 0, NULL);

  for (gsize i = 0; i < n_devices; i++)
    g_return_val_if_fail (GPU_IS_DEVICE (devices[i]), NULL);

  context = g_object_new (GPU_TYPE_CONTEXT, "device", n_devices > 0 ? devices[0] : NULL, NULL);

  for (gsize i = 1; i < n_devices; i++)
    g_ptr_array_add (context->devices, g_object_ref (devices[i]));

  if (!g_initable_init (G_INITABLE (context), NULL, error))
    return NULL;

  return g_steal_pointer (&context);
}

/**
 * gpu_context_new_default:
 * @error: return location for an error
 *
 * Creates a context on gpu_device_get_default(). The first call in a process starts the drivers,
 * like gpu_device_list().
 *
 * Returns: (transfer full): the context, or %NULL with an error of gpu_device_get_default() or
 *   gpu_context_new()
 *
 * Since: 0.1
 */
GpuContext *
gpu_context_new_default (GError **error)
{
  g_autoptr (GpuDevice) device = gpu_device_get_default (error);

  if (device == NULL)
    return NULL;

  return gpu_context_new (device, GPU_CONTEXT_FLAGS_NONE, error);
}

/**
 * gpu_context_new_wrapped:
 * @device: the device of the driver context @handle
 * @handle: the driver's handle: a cl_context on OpenCL, a CUcontext on CUDA
 * @mode: the owner of @handle
 * @error: return location for an error
 *
 * Creates a context that wraps a driver context of another library, so that the other library and
 * this library can use the same memory (OpenCL: clGetContextInfo, clRetainContext if @mode is
 * %GPU_WRAP_MODE_BORROW; CUDA: cuCtxGetDevice). On CUDA, a borrowed driver context must outlive the
 * new #GpuContext. On failure the caller keeps the ownership of @handle.
 *
 * Returns: (transfer full): the context, or %NULL with %GPU_ERROR_NOT_SUPPORTED on the host, which
 *   has no driver contexts, %GPU_ERROR_INVALID_ARGUMENT if @handle is 0 or belongs to another
 *   device, or the driver's error
 *
 * Since: 0.1
 */
GpuContext *
gpu_context_new_wrapped (GpuDevice    *device,
                         guint64       handle,
                         GpuWrapMode   mode,
                         GError      **error)
{
  g_autoptr (GpuContext) context = NULL;

  g_return_val_if_fail (GPU_IS_DEVICE (device), NULL);

  if (handle == 0)
    {
      g_set_error_literal (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                           "gpu_context_new_wrapped: the handle is 0");
      return NULL;
    }

  context = g_object_new (GPU_TYPE_CONTEXT, "device", device, NULL);
  context->handle = handle;
  context->mode = mode;

  if (!g_initable_init (G_INITABLE (context), NULL, error))
    return NULL;

  return g_steal_pointer (&context);
}

/**
 * gpu_context_get_device:
 * @context: a #GpuContext
 *
 * Gets the device, or the first of several devices.
 *
 * Returns: (transfer none) (nullable): the device, or %NULL if @context was never initialised
 *
 * Since: 0.1
 */
GpuDevice *
gpu_context_get_device (GpuContext *context)
{
  g_return_val_if_fail (GPU_IS_CONTEXT (context), NULL);

  return context->devices->len > 0 ? g_ptr_array_index (context->devices, 0) : NULL;
}

/**
 * gpu_context_list_devices:
 * @context: a #GpuContext
 *
 * Lists the devices of @context, in the order in which they were given to the constructor.
 *
 * Returns: (transfer full) (element-type GpuDevice): the devices
 *
 * Since: 0.1
 */
GList *
gpu_context_list_devices (GpuContext *context)
{
  GList *devices = NULL;

  g_return_val_if_fail (GPU_IS_CONTEXT (context), NULL);

  for (guint i = context->devices->len; i > 0; i--)
    devices = g_list_prepend (devices, g_object_ref (context->devices->pdata[i - 1]));

  return devices;
}

/**
 * gpu_context_get_native_handle:
 * @context: a #GpuContext
 *
 * Gets the driver's handle: a cl_context on OpenCL, a CUcontext on CUDA, an opaque number on the
 * host. The context owns the handle: do not release it.
 *
 * Returns: the handle, 0 if @context was never initialised
 *
 * Since: 0.1
 */
guint64
gpu_context_get_native_handle (GpuContext *context)
{
  g_return_val_if_fail (GPU_IS_CONTEXT (context), 0);

  if (context->native == NULL)
    return 0;

  return context->native->backend->context->get_handle (context->native);
}

/**
 * gpu_context_get_api_version:
 * @context: a #GpuContext
 * @version: (out): the version: 1000 times the major number plus 10 times the minor number, so
 *   3020 is version 3.2
 * @error: return location for an error
 *
 * Gets the version of the driver API that @context uses (CUDA: cuCtxGetApiVersion; OpenCL:
 * CL_DEVICE_VERSION). #GpuDevice:version is the version that the driver supports. Does not block.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_NOT_SUPPORTED on the host, which has no such version,
 *   or the driver's error
 *
 * Since: 0.1
 */
gboolean
gpu_context_get_api_version (GpuContext  *context,
                             guint       *version,
                             GError     **error)
{
  const char *function = "gpu_context_get_api_version";
  const GpuContextOps *ops;
  GError *failure = NULL;

  g_return_val_if_fail (GPU_IS_CONTEXT (context), FALSE);
  g_return_val_if_fail (version != NULL, FALSE);

  if (!_gpu_context_check (context, function, error))
    return FALSE;

  ops = context->native->backend->context;

  if (ops->get_api_version == NULL)
    return _gpu_backend_fail (context->native->backend, function, "version of its interface",
                              error);

  ops->get_api_version (context->native, version, &failure);

  return _gpu_native_context_end (context->native, function, failure, error);
}

/**
 * gpu_context_get_build_options:
 * @context: a #GpuContext
 *
 * Gets the compiler options of @context, which precede the options of each program built in
 * @context.
 *
 * Returns: (transfer none) (nullable): the options; the string stays valid after other options are
 *   set
 *
 * Since: 0.1
 */
const char *
gpu_context_get_build_options (GpuContext *context)
{
  g_autoptr (GMutexLocker) locker = NULL;

  g_return_val_if_fail (GPU_IS_CONTEXT (context), NULL);

  locker = g_mutex_locker_new (&context->lock);

  return g_intern_string (context->build_options);
}

/**
 * gpu_context_set_build_options:
 * @context: a #GpuContext
 * @options: (nullable): compiler options, such as "-cl-fast-relaxed-math"
 *
 * Sets the compiler options of @context, which precede the options of each program built in
 * @context from now on. Existing programs keep their options. This function does not check the
 * options: an option that the compiler does not know makes later builds fail.
 *
 * Since: 0.1
 */
void
gpu_context_set_build_options (GpuContext *context,
                               const char *options)
{
  gboolean changed;

  g_return_if_fail (GPU_IS_CONTEXT (context));

  g_mutex_lock (&context->lock);
  changed = g_strcmp0 (context->build_options, options) != 0;
  g_free (context->build_options);
  context->build_options = g_strdup (options);
  g_mutex_unlock (&context->lock);

  if (changed)
    g_object_notify_by_pspec (G_OBJECT (context), props[PROP_BUILD_OPTIONS]);
}

/**
 * gpu_context_get_memory_info:
 * @context: a #GpuContext
 * @free_size: (out): the free memory of all devices of @context, in bytes
 * @total_size: (out): the total memory of all devices of @context, in bytes
 * @source: (out): the source of @free_size
 * @error: return location for an error
 *
 * Gets the free and the total memory of the devices of @context (CUDA: cuMemGetInfo). Does not wait
 * for work.
 *
 * OpenCL has no call for the free memory. AMD's devices report the free memory through
 * CL_DEVICE_GLOBAL_FREE_MEMORY_AMD, NVIDIA's through NVML if it is installed. If neither source
 * exists, @source is %GPU_MEMORY_INFO_SOURCE_ACCOUNTING, and @free_size is the total less the
 * memory of all contexts of this process, so memory that other processes use counts as free. On the
 * host, the operating system reports the free memory, and the memory cgroups of the process limit
 * the reported size.
 *
 * Returns: %TRUE, or %FALSE with the driver's error
 *
 * Since: 0.1
 */
gboolean
gpu_context_get_memory_info (GpuContext           *context,
                             guint64              *free_size,
                             guint64              *total_size,
                             GpuMemoryInfoSource  *source,
                             GError              **error)
{
  g_autoptr (GError) failure = NULL;
  const GpuContextOps *ops;
  guint64 held;

  g_return_val_if_fail (GPU_IS_CONTEXT (context), FALSE);
  g_return_val_if_fail (free_size != NULL && total_size != NULL && source != NULL, FALSE);

  if (!_gpu_context_check (context, "gpu_context_get_memory_info", error))
    return FALSE;

  ops = context->native->backend->context;

  if (ops->get_memory_info != NULL)
    {
      if (ops->get_memory_info (context->native, free_size, total_size, source, &failure))
        return TRUE;

      if (!g_error_matches (failure, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED))
        {
          _gpu_native_context_report (context->native, failure);
          g_propagate_prefixed_error (error, g_steal_pointer (&failure),
                                      "gpu_context_get_memory_info: ");
          return FALSE;
        }
    }

  held = _gpu_native_context_get_held (context->native, FALSE);
  *total_size = 0;

  for (guint i = 0; i < context->native->n_devices; i++)
    *total_size += context->native->devices[i]->memory_size;

  *free_size = *total_size - MIN (held, *total_size);
  *source = GPU_MEMORY_INFO_SOURCE_ACCOUNTING;

  return TRUE;
}

/**
 * gpu_context_get_host_allocated_size:
 * @context: a #GpuContext
 *
 * Gets the size of the host memory allocated in @context: live #GpuHostMemory, released memory that
 * pending work still uses, and the memory that each #GpuHostAllocator holds. The size does not
 * include registered memory, nor buffers with %GPU_MEMORY_FLAGS_ALLOC_HOST, which
 * gpu_context_get_allocated_size() includes.
 *
 * Returns: the size in bytes
 *
 * Since: 0.1
 */
guint64
gpu_context_get_host_allocated_size (GpuContext *context)
{
  g_return_val_if_fail (GPU_IS_CONTEXT (context), 0);

  if (context->native == NULL)
    return 0;

  return (gsize) g_atomic_pointer_get (&context->native->allocated_host);
}

/**
 * gpu_context_get_allocated_size:
 * @context: a #GpuContext
 *
 * Gets the size of the memory allocated in @context: live memory, and released memory that pending
 * work still uses. The size does not include slices and wrapped handles, nor #GpuHostMemory, which
 * gpu_context_get_host_allocated_size() includes.
 *
 * Returns: the size in bytes
 *
 * Since: 0.1
 */
guint64
gpu_context_get_allocated_size (GpuContext *context)
{
  g_return_val_if_fail (GPU_IS_CONTEXT (context), 0);

  if (context->native == NULL)
    return 0;

  return (gsize) g_atomic_pointer_get (&context->native->allocated);
}

/* Waits for work that other libraries submitted to streams of their own. */
static void
synchronize_others (GpuNativeContext  *context,
                    GError           **error)
{
  GError *failure = NULL;

  if (context->backend->context->synchronize == NULL || g_atomic_int_get (&context->lost)
      || context->backend->context->synchronize (context, &failure))
    return;

  _gpu_native_context_report (context, failure);
  g_propagate_error (error, failure);
}

/**
 * gpu_context_synchronize:
 * @context: a #GpuContext
 * @error: return location for an error
 *
 * Blocks until all work of @context is complete: all earlier submissions to each #GpuStream, and
 * the work that the program submitted to these streams through their native handles. On CUDA the
 * call also waits for work that other libraries submitted to any stream of the same driver context.
 * On OpenCL it also waits for the work in each command queue of another library that a #GpuStream
 * wraps. May be called from any thread. (OpenCL: clEnqueueMarkerWithWaitList, clWaitForEvents for
 * each stream; CUDA: cuEventRecord, cuEventSynchronize for each stream, then cuCtxSynchronize.)
 *
 * On CUDA, the call blocks forever if a kernel in the driver context never ends. The call fails if
 * a stream of the driver context is capturing a graph, and the capture may become invalid.
 *
 * If the last work of a stream failed, the call fails until new work is submitted to that stream.
 * After the stream was finalized, the call reports the failure at most once.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_DEVICE_LOST or, after all streams have completed, with
 *   the error of the first stream whose last work failed
 *
 * Since: 0.1
 */
gboolean
gpu_context_synchronize (GpuContext  *context,
                         GError     **error)
{
  g_autoptr (GPtrArray) timelines = NULL;
  g_autoptr (GError) failure = NULL;

  g_return_val_if_fail (GPU_IS_CONTEXT (context), FALSE);

  if (!_gpu_context_check (context, "gpu_context_synchronize", error))
    return FALSE;

  timelines = _gpu_timeline_list (context->native);

  for (guint i = 0; i < timelines->len; i++)
    {
      GpuTimeline *timeline = g_ptr_array_index (timelines, i);

      if (failure == NULL)
        _gpu_timeline_synchronize (timeline, &failure);
      else
        _gpu_timeline_wait (timeline, _gpu_timeline_get_last_point (timeline), NULL);
    }

  /* The driver's wait for the context would invalidate the capture of a stream. */
  if (!g_error_matches (failure, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED))
    synchronize_others (context->native, failure == NULL ? &failure : NULL);

  if (failure == NULL)
    return TRUE;

  g_propagate_prefixed_error (error, g_steal_pointer (&failure), "gpu_context_synchronize: ");

  return FALSE;
}

/**
 * gpu_context_is_lost:
 * @context: a #GpuContext
 *
 * Returns whether the device was lost, see #GpuContext::lost.
 *
 * Returns: %TRUE if the device was lost
 *
 * Since: 0.1
 */
gboolean
gpu_context_is_lost (GpuContext *context)
{
  g_return_val_if_fail (GPU_IS_CONTEXT (context), FALSE);

  return context->native != NULL && g_atomic_int_get (&context->native->lost);
}
