/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/allocator/gpu-basic-allocator-private.h"
#include "gpumem/base/gpu-debug-private.h"

/**
 * SECTION:gpu-basic-allocator
 * @title: GpuBasicAllocator
 * @short_description: what allocators that ask the driver have in common
 *
 * The base of those allocators that hold nothing, and get each memory from the driver:
 * #GpuDeferredAllocator, #GpuImmediateAllocator, #GpuSvmAllocator, #GpuStreamAllocator and
 * #GpuExternalAllocator.
 */

/**
 * GpuBasicAllocator:
 *
 * An allocator that asks the driver.
 *
 * Since: 0.1
 */

enum
{
  PROP_0,
  PROP_CONTEXT,
  PROP_STREAM,
  PROP_FLAGS,
  N_PROPS
};

static GParamSpec *props[N_PROPS];

static void initable_iface_init (GInitableIface *iface);
static void allocator_iface_init (GpuAllocatorInterface *iface);

G_DEFINE_ABSTRACT_TYPE_WITH_CODE (GpuBasicAllocator, gpu_basic_allocator, G_TYPE_OBJECT,
                                  G_IMPLEMENT_INTERFACE (G_TYPE_INITABLE, initable_iface_init)
                                  G_IMPLEMENT_INTERFACE (GPU_TYPE_ALLOCATOR,
                                                         allocator_iface_init))

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
   * The context that memory belongs to; that of the stream if none is given.
   *
   * Since: 0.1
   */
  props[PROP_CONTEXT] = g_param_spec_object ("context", NULL, NULL, GPU_TYPE_CONTEXT, flags);
  /**
   * GpuBasicAllocator:stream:
   *
   * The stream that the allocator works on, if it needs one.
   *
   * Since: 0.1
   */
  props[PROP_STREAM] = g_param_spec_object ("stream", NULL, NULL, GPU_TYPE_STREAM, flags);
  /**
   * GpuBasicAllocator:flags:
   *
   * How memory is used.
   *
   * Since: 0.1
   */
  props[PROP_FLAGS] = g_param_spec_flags ("flags", NULL, NULL, GPU_TYPE_MEMORY_FLAGS,
                                          GPU_MEMORY_NONE, flags);

  g_object_class_install_properties (object_class, N_PROPS, props);
}

static void
gpu_basic_allocator_init (GpuBasicAllocator *allocator G_GNUC_UNUSED)
{
  _gpu_live_add (GPU_LIVE_ALLOCATOR, 1);
}

static gboolean
check_stream (GpuBasicAllocator  *allocator,
              const char         *function,
              GError            **error)
{
  if (allocator->stream == NULL)
    {
      if (!allocator->ops->needs_stream)
        return TRUE;

      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT, "%s: no stream was given",
                   function);
      return FALSE;
    }

  if (_gpu_stream_get_timeline (allocator->stream, function, error) == NULL)
    return FALSE;

  if (gpu_stream_get_context (allocator->stream) == allocator->context)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s: the stream belongs to another context", function);

  return FALSE;
}

static gboolean
gpu_basic_allocator_initable_init (GInitable     *initable,
                                   GCancellable  *cancellable G_GNUC_UNUSED,
                                   GError       **error)
{
  GpuBasicAllocator *allocator = GPU_BASIC_ALLOCATOR (initable);
  const GpuBasicAllocatorOps *ops = allocator->ops;

  if (allocator->is_ready)
    return TRUE;

  if (allocator->context == NULL && allocator->stream != NULL)
    g_set_object (&allocator->context, gpu_stream_get_context (allocator->stream));

  if (allocator->context == NULL)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT, "%s: no context was given",
                   ops->function);
      return FALSE;
    }

  if (!_gpu_context_check (allocator->context, ops->function, error)
      || !check_stream (allocator, ops->function, error)
      || !_gpu_buffer_check_flags (ops->function, _gpu_context_get_native (allocator->context),
                                   allocator->flags, error))
    return FALSE;

  allocator->is_ready = ops->check == NULL || ops->check (allocator, error);

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

  return allocator->ops->alloc (allocator, size, stream != NULL ? stream : allocator->stream,
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

/**
 * gpu_basic_allocator_get_stream:
 * @allocator: a #GpuBasicAllocator
 *
 * Gets the stream that @allocator works on. Any thread.
 *
 * Returns: (transfer none) (nullable): the stream, %NULL if it was given none
 *
 * Since: 0.1
 */
GpuStream *
gpu_basic_allocator_get_stream (GpuBasicAllocator *allocator)
{
  g_return_val_if_fail (GPU_IS_BASIC_ALLOCATOR (allocator), NULL);

  return allocator->stream;
}

/**
 * gpu_basic_allocator_get_flags:
 * @allocator: a #GpuBasicAllocator
 *
 * Gets how memory of @allocator is used. Any thread.
 *
 * Returns: the flags
 *
 * Since: 0.1
 */
GpuMemoryFlags
gpu_basic_allocator_get_flags (GpuBasicAllocator *allocator)
{
  g_return_val_if_fail (GPU_IS_BASIC_ALLOCATOR (allocator), GPU_MEMORY_NONE);

  return allocator->flags;
}
