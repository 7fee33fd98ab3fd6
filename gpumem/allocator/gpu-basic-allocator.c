/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/allocator/gpu-basic-allocator-private.h"
#include "gpumem/base/gpu-debug-private.h"
#include "gpumem/base/gpu-error-private.h"
#include "gpumem/base/gpu-nick-private.h"
#include "gpumem/base/gpu-signal-private.h"

/**
 * SECTION:gpu-basic-allocator
 * @title: GpuBasicAllocator
 * @short_description: the base class of allocators that call the driver
 * @see_also: #GpuDeferredAllocator, #GpuImmediateAllocator, #GpuStreamAllocator, #GpuSvmAllocator,
 *   #GpuExternalAllocator
 */

/**
 * SECTION:gpu-deferred-allocator
 * @title: GpuDeferredAllocator
 * @short_description: an allocator of buffers
 * @see_also: #GpuImmediateAllocator
 */

/**
 * SECTION:gpu-immediate-allocator
 * @title: GpuImmediateAllocator
 * @short_description: an allocator of buffers without deferred allocation
 * @see_also: #GpuDeferredAllocator
 */

/**
 * SECTION:gpu-stream-allocator
 * @title: GpuStreamAllocator
 * @short_description: an allocator of stream-ordered memory
 * @see_also: gpu_buffer_new_on_stream()
 */

/**
 * SECTION:gpu-svm-allocator
 * @title: GpuSvmAllocator
 * @short_description: an allocator of shared virtual memory
 * @see_also: #GpuSvm
 */

/**
 * GpuBasicAllocator:
 *
 * The base class of allocators that call the driver for each request.
 *
 * |[<!-- language="C" -->
 * g_autoptr (GpuDeferredAllocator) allocator =
 *   gpu_deferred_allocator_new (context, GPU_MEMORY_FLAGS_NONE, &error);
 * g_autoptr (GpuMemory) memory =
 *   gpu_allocator_alloc (GPU_ALLOCATOR (allocator), size, stream, &error);
 * GpuMemoryFlags flags;
 *
 * g_object_get (allocator, "flags", &flags, NULL);
 * ]|
 *
 * The derived classes are #GpuDeferredAllocator, #GpuImmediateAllocator, #GpuStreamAllocator,
 * #GpuSvmAllocator and #GpuExternalAllocator. They do not cache memory.
 *
 * Since: 0.1
 */

/**
 * GpuDeferredAllocator:
 *
 * An allocator of buffers. The driver may provide the memory of a buffer at its first use.
 *
 * |[<!-- language="C" -->
 * g_autoptr (GpuDeferredAllocator) allocator =
 *   gpu_deferred_allocator_new (context, GPU_MEMORY_FLAGS_NONE, &error);
 * g_autoptr (GpuMemory) memory =
 *   gpu_allocator_alloc (GPU_ALLOCATOR (allocator), size, stream, &error);
 *
 * if (memory != NULL)
 *   gpu_stream_write (stream, memory, 0, bytes, &error);
 * ]|
 *
 * Each request returns a #GpuBuffer of its own. An OpenCL driver may defer the allocation until
 * work uses the memory. If the device is full, gpu_allocator_alloc() then succeeds, and that work
 * fails. On the host back end the system provides each page at the first write to that page. Use a
 * #GpuImmediateAllocator if gpu_allocator_alloc() must report a lack of memory. CUDA allocates
 * immediately.
 *
 * Since: 0.1
 */

/**
 * GpuImmediateAllocator:
 *
 * An allocator of buffers. The driver provides the memory of a buffer before the request returns.
 *
 * |[<!-- language="C" -->
 * g_autoptr (GpuImmediateAllocator) allocator =
 *   gpu_immediate_allocator_new (stream, GPU_MEMORY_FLAGS_NONE, &error);
 * g_autoptr (GpuMemory) memory =
 *   gpu_allocator_alloc (GPU_ALLOCATOR (allocator), size, stream, &error);
 *
 * if (g_error_matches (error, GPU_ERROR, GPU_ERROR_OUT_OF_DEVICE_MEMORY))
 *   g_message ("%s", error->message);
 * ]|
 *
 * Each request returns a #GpuBuffer of its own. Lack of memory is an error of
 * gpu_allocator_alloc(), not of the work that uses the memory later. OpenCL has no function that
 * allocates immediately, so the allocator migrates each buffer to the device
 * (clEnqueueMigrateMemObjects) and waits. On the host back end the allocator makes the system
 * provide all pages (madvise with MADV_POPULATE_WRITE), unless they exceed the free memory of the
 * machine or of a cgroup. Other drivers allocate immediately and need no such step.
 *
 * Since: 0.1
 */

/**
 * GpuStreamAllocator:
 *
 * An allocator of stream-ordered memory.
 *
 * |[<!-- language="C" -->
 * g_autoptr (GpuStreamAllocator) allocator =
 *   gpu_stream_allocator_new (stream, GPU_MEMORY_FLAGS_NONE, &error);
 * g_autoptr (GpuMemory) memory =
 *   gpu_allocator_alloc (GPU_ALLOCATOR (allocator), size, stream, &error);
 *
 * if (memory != NULL)
 *   gpu_stream_write (stream, memory, 0, bytes, &error);
 * ]|
 *
 * The memory comes from the driver's own pool. It is allocated and freed in stream order, without
 * blocking (CUDA: cuMemAllocAsync, cuMemFreeAsync). The stream is the argument of
 * gpu_allocator_alloc(), or the stream of the allocator if that argument is %NULL. Each request
 * returns a #GpuBuffer as gpu_buffer_new_on_stream() does. Other streams may use the buffer as
 * well.
 *
 * Since: 0.1
 */

/**
 * GpuSvmAllocator:
 *
 * An allocator of shared virtual memory.
 *
 * |[<!-- language="C" -->
 * g_autoptr (GpuSvmAllocator) allocator =
 *   gpu_svm_allocator_new (context, GPU_MEMORY_FLAGS_NONE, GPU_SVM_FLAGS_NONE, 0, stream, &error);
 * g_autoptr (GpuMemory) memory =
 *   gpu_allocator_alloc (GPU_ALLOCATOR (allocator), size, stream, &error);
 * g_autoptr (GpuMapping) mapping =
 *   gpu_svm_map (GPU_SVM (memory), stream, GPU_MAP_FLAGS_WRITE, 0, size, NULL, &error);
 *
 * memcpy (gpu_mapping_get_data (mapping), data, size);
 * ]|
 *
 * Each request returns a #GpuSvm of its own. The library frees the memory when all work that it
 * tracks as a use of the memory has completed. If a kernel accesses the memory only through
 * pointers, declare that use with gpu_arguments_add_indirect().
 *
 * If the allocator has a stream, released memory is only freed after all work that is on that
 * stream at the release has completed. This includes work that the library does not track as a use.
 * Without a stream and without gpu_arguments_add_indirect(), the memory may be freed while a kernel
 * still accesses it through pointers, and the kernel then crashes.
 *
 * Since: 0.1
 */

/* A hook of shared virtual memory that runs when the memory is released. It delays freeing the
 * memory until all work that was submitted to the stream of the allocator before the release has
 * completed. */
typedef struct
{
  GpuStorageHook  parent;

  GpuTimeline    *timeline;
} WaitHook;

enum
{
  PROP_0,
  PROP_CONTEXT,
  PROP_STREAM,
  PROP_FLAGS,
  N_PROPS,
  PROP_SVM_FLAGS = N_PROPS,         /* of GpuSvmAllocator */
  PROP_ALIGNMENT
};

static GParamSpec *props[N_PROPS];

static void initable_iface_init (GInitableIface *iface);
static void allocator_iface_init (GpuAllocatorInterface *iface);

G_DEFINE_ABSTRACT_TYPE_WITH_CODE (GpuBasicAllocator, gpu_basic_allocator, G_TYPE_OBJECT,
                                  G_IMPLEMENT_INTERFACE (G_TYPE_INITABLE, initable_iface_init)
                                  G_IMPLEMENT_INTERFACE (GPU_TYPE_ALLOCATOR,
                                                         allocator_iface_init))

/* Defines a class that differs from its parent only in the class structure. */
#define DEFINE_PLAIN_CLASS(Name, name)                          \
  struct _##Name                                                \
  {                                                             \
    GpuBasicAllocator parent_instance;                          \
  };                                                            \
                                                                \
  G_DEFINE_FINAL_TYPE (Name, name, GPU_TYPE_BASIC_ALLOCATOR)    \
                                                                \
  static void                                                   \
  name##_init (Name *allocator G_GNUC_UNUSED)                   \
  {                                                             \
  }

DEFINE_PLAIN_CLASS (GpuDeferredAllocator, gpu_deferred_allocator)
DEFINE_PLAIN_CLASS (GpuImmediateAllocator, gpu_immediate_allocator)
DEFINE_PLAIN_CLASS (GpuStreamAllocator, gpu_stream_allocator)
DEFINE_PLAIN_CLASS (GpuSvmAllocator, gpu_svm_allocator)

static void
gpu_basic_allocator_get_property (GObject    *object,
                                  guint       id,
                                  GValue     *value,
                                  GParamSpec *pspec)
{
  GpuBasicAllocator *allocator = GPU_BASIC_ALLOCATOR (object);

  switch (id)
    {
    case PROP_CONTEXT:
      g_value_set_object (value, allocator->context);
      break;
    case PROP_STREAM:
      g_value_set_object (value, allocator->stream);
      break;
    case PROP_FLAGS:
      g_value_set_flags (value, allocator->flags);
      break;
    case PROP_SVM_FLAGS:
      g_value_set_flags (value, allocator->svm_flags);
      break;
    case PROP_ALIGNMENT:
      g_value_set_uint64 (value, allocator->alignment);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
gpu_basic_allocator_set_property (GObject      *object,
                                  guint         id,
                                  const GValue *value,
                                  GParamSpec   *pspec)
{
  GpuBasicAllocator *allocator = GPU_BASIC_ALLOCATOR (object);

  switch (id)
    {
    case PROP_CONTEXT:
      allocator->context = g_value_dup_object (value);
      break;
    case PROP_STREAM:
      allocator->stream = g_value_dup_object (value);
      break;
    case PROP_FLAGS:
      allocator->flags = g_value_get_flags (value);
      break;
    case PROP_SVM_FLAGS:
      allocator->svm_flags = g_value_get_flags (value);
      break;
    case PROP_ALIGNMENT:
      allocator->alignment = g_value_get_uint64 (value);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
gpu_basic_allocator_finalize (GObject *object)
{
  GpuBasicAllocator *allocator = GPU_BASIC_ALLOCATOR (object);

  g_clear_object (&allocator->stream);
  g_clear_object (&allocator->context);
  _gpu_live_add (GPU_LIVE_ALLOCATOR, -1);

  G_OBJECT_CLASS (gpu_basic_allocator_parent_class)->finalize (object);
}

static void
gpu_basic_allocator_class_init (GpuBasicAllocatorClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  const GParamFlags flags = G_PARAM_READWRITE | G_PARAM_CONSTRUCT_ONLY | G_PARAM_STATIC_STRINGS;

  object_class->get_property = gpu_basic_allocator_get_property;
  object_class->set_property = gpu_basic_allocator_set_property;
  object_class->finalize = gpu_basic_allocator_finalize;

  /**
   * GpuBasicAllocator:context:
   *
   * The context of the memory; by default the context of the stream.
   *
   * Since: 0.1
   */
  props[PROP_CONTEXT] = g_param_spec_object ("context", NULL, NULL, GPU_TYPE_CONTEXT, flags);
  /**
   * GpuBasicAllocator:stream:
   *
   * The stream of the allocator, for the classes that use one.
   *
   * Since: 0.1
   */
  props[PROP_STREAM] = g_param_spec_object ("stream", NULL, NULL, GPU_TYPE_STREAM, flags);
  /**
   * GpuBasicAllocator:flags:
   *
   * The flags of the memory.
   *
   * Since: 0.1
   */
  props[PROP_FLAGS] = g_param_spec_flags ("flags", NULL, NULL, GPU_TYPE_MEMORY_FLAGS,
                                          GPU_MEMORY_FLAGS_NONE, flags);

  g_object_class_install_properties (object_class, N_PROPS, props);
}

static void
gpu_basic_allocator_init (GpuBasicAllocator *allocator G_GNUC_UNUSED)
{
  _gpu_live_add (GPU_LIVE_ALLOCATOR, 1);
}

static gboolean
check_context (GpuBasicAllocator  *allocator,
               GpuStream          *stream,
               const char         *function,
               GError            **error)
{
  if (_gpu_stream_get_timeline (stream, function, error) == NULL)
    return FALSE;

  if (gpu_stream_get_context (stream) == allocator->context)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s: the stream belongs to another context, on %s, than the allocator, on %s",
               function, _gpu_context_get_native (gpu_stream_get_context (stream))->devices[0]->id,
               _gpu_context_get_native (allocator->context)->devices[0]->id);

  return FALSE;
}

static gboolean
check_stream (GpuBasicAllocator  *allocator,
              GError            **error)
{
  GpuBasicAllocatorClass *klass = GPU_BASIC_ALLOCATOR_GET_CLASS (allocator);
  const char *function = klass->function;

  if (allocator->stream == NULL)
    {
      if (!klass->needs_stream)
        return TRUE;

      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT, "%s: no stream was given; "
                   "the allocator needs one", function);
      return FALSE;
    }

  return check_context (allocator, allocator->stream, function, error);
}

static gboolean
gpu_basic_allocator_initable_init (GInitable     *initable,
                                   GCancellable  *cancellable G_GNUC_UNUSED,
                                   GError       **error)
{
  GpuBasicAllocator *allocator = GPU_BASIC_ALLOCATOR (initable);
  GpuBasicAllocatorClass *klass = GPU_BASIC_ALLOCATOR_GET_CLASS (allocator);

  if (allocator->is_ready)
    return TRUE;

  if (allocator->context == NULL && allocator->stream != NULL)
    g_set_object (&allocator->context, gpu_stream_get_context (allocator->stream));

  if (allocator->context == NULL)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT, "%s: no context was given",
                   klass->function);
      return FALSE;
    }

  if (!_gpu_context_check (allocator->context, klass->function, error)
      || !check_stream (allocator, error)
      || !_gpu_buffer_check_flags (klass->function,
                                   _gpu_context_get_native (allocator->context),
                                   allocator->flags, error))
    return FALSE;

  allocator->is_ready = klass->check == NULL || klass->check (allocator, error);

  return allocator->is_ready;
}

static void
initable_iface_init (GInitableIface *iface)
{
  iface->init = gpu_basic_allocator_initable_init;
}

static GpuMemory *
gpu_basic_allocator_alloc (GpuAllocator  *object,
                           gsize          size,
                           GpuStream     *stream,
                           GError       **error)
{
  GpuBasicAllocator *allocator = GPU_BASIC_ALLOCATOR (object);

  if (!allocator->is_ready)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "gpu_allocator_alloc: the allocator was never initialised");
      return NULL;
    }

  return GPU_BASIC_ALLOCATOR_GET_CLASS (allocator)->alloc (allocator, size,
                                                           stream != NULL ? stream
                                                                          : allocator->stream,
                                                           error);
}

static GpuContext *
gpu_basic_allocator_get_context (GpuAllocator *allocator)
{
  return GPU_BASIC_ALLOCATOR (allocator)->context;
}

static void
allocator_iface_init (GpuAllocatorInterface *iface)
{
  iface->alloc = gpu_basic_allocator_alloc;
  iface->get_context = gpu_basic_allocator_get_context;
}

static GpuMemory *
deferred_alloc (GpuBasicAllocator  *allocator,
                gsize               size,
                GpuStream          *stream G_GNUC_UNUSED,
                GError            **error)
{
  return (GpuMemory *) _gpu_buffer_new (allocator->context, "gpu_allocator_alloc",
                                        allocator->flags, size, error);
}

static void
gpu_deferred_allocator_class_init (GpuDeferredAllocatorClass *klass)
{
  klass->parent_class.function = "gpu_deferred_allocator_new";
  klass->parent_class.alloc = deferred_alloc;
}

/**
 * gpu_deferred_allocator_new:
 * @context: a #GpuContext
 * @flags: the flags of the buffers
 * @error: return location for an error
 *
 * Creates an allocator of buffers. gpu_allocator_alloc() fails with the errors of gpu_buffer_new().
 * Neither this function nor gpu_allocator_alloc() blocks. May be called from any thread.
 *
 * Returns: (transfer full): the allocator, or %NULL with %GPU_ERROR_INVALID_ARGUMENT for
 *   contradictory flags, %GPU_ERROR_NOT_SUPPORTED for flags that the device does not support, or
 *   %GPU_ERROR_DEVICE_LOST
 *
 * Since: 0.1
 */
GpuDeferredAllocator *
gpu_deferred_allocator_new (GpuContext      *context,
                            GpuMemoryFlags   flags,
                            GError         **error)
{
  g_return_val_if_fail (GPU_IS_CONTEXT (context), NULL);

  if (!_gpu_flags_check (GPU_TYPE_MEMORY_FLAGS, flags, "memory flags",
                         "gpu_deferred_allocator_new", error))
    return NULL;

  return g_initable_new (GPU_TYPE_DEFERRED_ALLOCATOR, NULL, error, "context", context,
                         "flags", flags, NULL);
}

static gboolean
migrate (GpuStream  *stream,
         GpuMemory  *memory,
         GError    **error)
{
  g_autoptr (GpuEvent) event = NULL;

  if (!gpu_stream_migrate (stream, &memory, 1, GPU_MIGRATE_FLAGS_CONTENT_UNDEFINED, error))
    return FALSE;

  event = gpu_stream_record (stream, GPU_EVENT_FLAGS_NONE, error);

  return event != NULL && gpu_event_wait (event, NULL, error);
}

/* Makes the operating system provide all pages of the memory. */
static gboolean
commit (GpuBasicAllocator  *allocator,
        GpuMemory          *memory,
        GError            **error)
{
  GpuNativeContext *context = _gpu_context_get_native (allocator->context);
  GError *failure = NULL;

  context->backend->buffer->commit (context, memory->storage->buffer, &failure);

  return _gpu_native_context_end (context, "gpu_allocator_alloc", failure, error);
}

static const GpuBufferOps *
get_ops (GpuBasicAllocator *allocator)
{
  return _gpu_context_get_native (allocator->context)->backend->buffer;
}

static GpuMemory *
alloc_and_migrate (GpuBasicAllocator  *allocator,
                   gsize               size,
                   GError            **error)
{
  g_autoptr (GpuMemory) memory = deferred_alloc (allocator, size, NULL, error);

  if (memory != NULL && get_ops (allocator)->is_deferred
      && !migrate (allocator->stream, memory, error))
    return NULL;

  if (memory != NULL && get_ops (allocator)->commit != NULL && !commit (allocator, memory, error))
    return NULL;

  return g_steal_pointer (&memory);
}

/* Emits no GpuContext::memory-pressure. _gpu_buffer_new() would emit it for the first attempt and
 * for the second one. */
static GpuMemory *
alloc_quietly (GpuBasicAllocator  *allocator,
               gsize               size,
               GError            **error)
{
  GpuEmission emission;
  GpuMemory *memory;

  _gpu_emission_begin (&emission, _gpu_context_get_native (allocator->context));
  memory = alloc_and_migrate (allocator, size, error);
  _gpu_emission_end (&emission);

  return memory;
}

/* If there is no memory, emits GpuContext::memory-pressure once, and tries again. */
static GpuMemory *
immediate_alloc (GpuBasicAllocator  *allocator,
                 gsize               size,
                 GpuStream          *stream G_GNUC_UNUSED,
                 GError            **error)
{
  g_autoptr (GError) failure = NULL;
  GpuMemory *memory = alloc_quietly (allocator, size, &failure);

  if (memory == NULL && _gpu_error_is_out_of_memory (failure)
      && _gpu_context_signal_pressure (allocator->context, size))
    {
      g_clear_error (&failure);
      memory = alloc_quietly (allocator, size, &failure);
    }

  if (memory == NULL)
    g_propagate_error (error, g_steal_pointer (&failure));

  return memory;
}

static void
gpu_immediate_allocator_class_init (GpuImmediateAllocatorClass *klass)
{
  klass->parent_class.function = "gpu_immediate_allocator_new";
  klass->parent_class.needs_stream = TRUE;
  klass->parent_class.alloc = immediate_alloc;
}

/**
 * gpu_immediate_allocator_new:
 * @stream: a #GpuStream, preferably an idle one
 * @flags: the flags of the buffers
 * @error: return location for an error
 *
 * Creates an allocator of buffers whose memory the driver provides before gpu_allocator_alloc()
 * returns. On OpenCL gpu_allocator_alloc() waits for all earlier work of @stream. It fails with the
 * errors of gpu_buffer_new() and gpu_stream_migrate(), and ignores its own stream argument. May be
 * called from any thread.
 *
 * Returns: (transfer full): the allocator, or %NULL with %GPU_ERROR_INVALID_ARGUMENT for
 *   contradictory flags, %GPU_ERROR_NOT_SUPPORTED for flags that the device does not support, or
 *   %GPU_ERROR_DEVICE_LOST
 *
 * Since: 0.1
 */
GpuImmediateAllocator *
gpu_immediate_allocator_new (GpuStream       *stream,
                             GpuMemoryFlags   flags,
                             GError         **error)
{
  g_return_val_if_fail (GPU_IS_STREAM (stream), NULL);

  if (!_gpu_flags_check (GPU_TYPE_MEMORY_FLAGS, flags, "memory flags",
                         "gpu_immediate_allocator_new", error))
    return NULL;

  return g_initable_new (GPU_TYPE_IMMEDIATE_ALLOCATOR, NULL, error, "stream", stream,
                         "flags", flags, NULL);
}

static gboolean
stream_check (GpuBasicAllocator  *allocator,
              GError            **error)
{
  g_autoptr (GpuDevice) device = NULL;

  g_object_get (allocator->stream, "device", &device, NULL);

  if ((gpu_device_get_capabilities (device) & GPU_CAPABILITIES_STREAM_ORDERED) != 0)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
               "gpu_stream_allocator_new: %s has no stream-ordered memory",
               gpu_device_get_id (device));

  return FALSE;
}

static GpuMemory *
stream_alloc (GpuBasicAllocator  *allocator,
              gsize               size,
              GpuStream          *stream,
              GError            **error)
{
  if (!check_context (allocator, stream, "gpu_allocator_alloc", error))
    return NULL;

  return (GpuMemory *) gpu_buffer_new_on_stream (stream, allocator->flags, size, error);
}

static void
gpu_stream_allocator_class_init (GpuStreamAllocatorClass *klass)
{
  klass->parent_class.function = "gpu_stream_allocator_new";
  klass->parent_class.needs_stream = TRUE;
  klass->parent_class.check = stream_check;
  klass->parent_class.alloc = stream_alloc;
}

/**
 * gpu_stream_allocator_new:
 * @stream: the stream for requests without a stream
 * @flags: the flags of the buffers; without %GPU_MEMORY_FLAGS_ALLOC_HOST
 * @error: return location for an error
 *
 * Creates an allocator of stream-ordered memory. gpu_allocator_alloc() does not block. It fails
 * with the errors of gpu_buffer_new_on_stream(), or with %GPU_ERROR_INVALID_ARGUMENT for a stream
 * of another context. May be called from any thread.
 *
 * Returns: (transfer full): the allocator, or %NULL with %GPU_ERROR_NOT_SUPPORTED on devices
 *   without %GPU_CAPABILITIES_STREAM_ORDERED, %GPU_ERROR_INVALID_ARGUMENT for contradictory flags,
 *   or %GPU_ERROR_DEVICE_LOST
 *
 * Since: 0.1
 */
GpuStreamAllocator *
gpu_stream_allocator_new (GpuStream       *stream,
                          GpuMemoryFlags   flags,
                          GError         **error)
{
  g_return_val_if_fail (GPU_IS_STREAM (stream), NULL);

  if (!_gpu_flags_check (GPU_TYPE_MEMORY_FLAGS, flags, "memory flags",
                         "gpu_stream_allocator_new", error))
    return NULL;

  return g_initable_new (GPU_TYPE_STREAM_ALLOCATOR, NULL, error, "stream", stream,
                         "flags", flags, NULL);
}

static gboolean
svm_check (GpuBasicAllocator  *allocator,
           GError            **error)
{
  GpuStreamFlags flags = GPU_STREAM_FLAGS_NONE;

  if (allocator->stream != NULL)
    g_object_get (allocator->stream, "flags", &flags, NULL);

  if ((flags & GPU_STREAM_FLAGS_OUT_OF_ORDER) == 0)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "gpu_svm_allocator_new: the stream is out of order, so that memory cannot be freed "
               "after the work submitted before; use an in-order stream");

  return FALSE;
}

static gboolean
wait_for_stream (GpuStorageHook *parent,
                 GpuStorage     *storage)
{
  WaitHook *hook = (WaitHook *) parent;

  _gpu_storage_wait_for (storage, hook->timeline);
  _gpu_timeline_unref (hook->timeline);
  g_free (hook);

  return TRUE;
}

static GpuMemory *
svm_alloc (GpuBasicAllocator  *allocator,
           gsize               size,
           GpuStream          *stream G_GNUC_UNUSED,
           GError            **error)
{
  GpuMemory *memory = (GpuMemory *) gpu_svm_new (allocator->context, allocator->flags,
                                                 allocator->svm_flags, size,
                                                 allocator->alignment, error);

  if (memory != NULL && allocator->stream != NULL)
    {
      WaitHook *hook = g_new0 (WaitHook, 1);

      hook->parent.owner = allocator;
      hook->parent.func = wait_for_stream;
      hook->timeline = _gpu_timeline_ref (allocator->stream->timeline);
      _gpu_storage_add_hook (memory->storage, &hook->parent);
    }

  return memory;
}

static void
gpu_svm_allocator_class_init (GpuSvmAllocatorClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  const GParamFlags flags = G_PARAM_READWRITE | G_PARAM_CONSTRUCT_ONLY | G_PARAM_STATIC_STRINGS;

  object_class->get_property = gpu_basic_allocator_get_property;
  object_class->set_property = gpu_basic_allocator_set_property;
  klass->parent_class.function = "gpu_svm_allocator_new";
  klass->parent_class.check = svm_check;
  klass->parent_class.alloc = svm_alloc;

  /**
   * GpuSvmAllocator:svm-flags:
   *
   * How the host and devices can access the memory, or a single kind of unified shared memory: see
   * #GpuSvmFlags.
   *
   * Since: 0.1
   */
  g_object_class_install_property (object_class, PROP_SVM_FLAGS,
                                   g_param_spec_flags ("svm-flags", NULL, NULL, GPU_TYPE_SVM_FLAGS,
                                                       GPU_SVM_FLAGS_NONE, flags));
  /**
   * GpuSvmAllocator:alignment:
   *
   * The alignment of addresses in bytes; 0 for the driver's default.
   *
   * Since: 0.1
   */
  g_object_class_install_property (object_class, PROP_ALIGNMENT,
                                   g_param_spec_uint64 ("alignment", NULL, NULL, 0, G_MAXSIZE, 0,
                                                        flags));
}

/**
 * gpu_svm_allocator_new:
 * @context: a #GpuContext
 * @flags: the flags of the memory; without %GPU_MEMORY_FLAGS_ALLOC_HOST and
 *   %GPU_MEMORY_FLAGS_SHAREABLE
 * @svm_flags: how the host and devices can access the memory, or a single kind of unified shared
 *   memory: see #GpuSvmFlags
 * @alignment: the alignment of addresses in bytes, a power of two; 0 for the driver's default
 * @stream: (nullable): an in-order stream of @context, or %NULL. Released memory is only freed
 *   after all work that is on this stream at the release has completed
 * @error: return location for an error
 *
 * Creates an allocator of shared virtual memory. gpu_allocator_alloc() fails with the errors of
 * gpu_svm_new(), and ignores its stream argument. May be called from any thread.
 *
 * Returns: (transfer full): the allocator, or %NULL with %GPU_ERROR_INVALID_ARGUMENT for
 *   contradictory flags, or for a @stream that is out of order or belongs to another context,
 *   %GPU_ERROR_NOT_SUPPORTED for flags that the device does not support, or %GPU_ERROR_DEVICE_LOST
 *
 * Since: 0.1
 */
GpuSvmAllocator *
gpu_svm_allocator_new (GpuContext      *context,
                       GpuMemoryFlags   flags,
                       GpuSvmFlags      svm_flags,
                       gsize            alignment,
                       GpuStream       *stream,
                       GError         **error)
{
  const char *function = "gpu_svm_allocator_new";

  g_return_val_if_fail (GPU_IS_CONTEXT (context), NULL);
  g_return_val_if_fail (stream == NULL || GPU_IS_STREAM (stream), NULL);

  if (!_gpu_flags_check (GPU_TYPE_MEMORY_FLAGS, flags, "memory flags", function, error)
      || !_gpu_flags_check (GPU_TYPE_SVM_FLAGS, svm_flags, "SVM flags", function, error))
    return NULL;

  return g_initable_new (GPU_TYPE_SVM_ALLOCATOR, NULL, error, "context", context, "flags", flags,
                         "svm-flags", svm_flags, "alignment", (guint64) alignment,
                         "stream", stream, NULL);
}
