/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/allocator/gpu-basic-allocator-private.h"

/**
 * SECTION:gpu-svm-allocator
 * @title: GpuSvmAllocator
 * @short_description: shared virtual memory
 * @see_also: #GpuSvm
 *
 * Each memory is a #GpuSvm of its own. It is freed when the work that uses it is complete, as far
 * as the library knows of that: work that reaches it through pointers alone has to name it, with
 * gpu_arguments_add_indirect(). With a stream, memory is freed after all work that was submitted to
 * the stream before it came back, also work that the library does not know to use it. Without
 * either, freeing memory that a kernel still has pointers to crashes.
 */

/**
 * GpuSvmAllocator:
 *
 * An allocator of shared virtual memory.
 *
 * Since: 0.1
 */
struct _GpuSvmAllocator
{
  GpuBasicAllocator parent_instance;

  GpuSvmFlags       svm_flags;
  gsize             alignment;
};

/* Of memory that waits for a stream. */
typedef struct
{
  GpuStorageHook  parent;

  GpuTimeline    *timeline;
} Hook;

enum
{
  PROP_0,
  PROP_SVM_FLAGS,
  PROP_ALIGNMENT,
  N_PROPS
};

static GParamSpec *props[N_PROPS];

G_DEFINE_FINAL_TYPE (GpuSvmAllocator, gpu_svm_allocator, GPU_TYPE_BASIC_ALLOCATOR)

static gboolean
svm_check (GpuBasicAllocator  *allocator,
           GError            **error)
{
  if (allocator->stream == NULL
      || (gpu_stream_get_flags (allocator->stream) & GPU_STREAM_FLAGS_OUT_OF_ORDER) == 0)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s: the stream is out of order: nothing comes after what was submitted to it "
               "before", allocator->ops->function);

  return FALSE;
}

static gboolean
wait_for_stream (GpuStorageHook *parent,
                 GpuStorage     *storage)
{
  Hook *hook = (Hook *) parent;

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
  GpuSvmAllocator *svm = GPU_SVM_ALLOCATOR (allocator);
  GpuMemory *memory = (GpuMemory *) gpu_svm_new (allocator->context, allocator->flags,
                                                 svm->svm_flags, size, svm->alignment, error);

  if (memory != NULL && allocator->stream != NULL)
    {
      Hook *hook = g_new0 (Hook, 1);

      hook->parent.owner = allocator;
      hook->parent.func = wait_for_stream;
      hook->timeline = _gpu_timeline_ref (allocator->stream->timeline);
      _gpu_storage_add_hook (memory->storage, &hook->parent);
    }

  return memory;
}

static const GpuBasicAllocatorOps svm_ops =
{
  .function = "gpu_svm_allocator_new",
  .check = svm_check,
  .alloc = svm_alloc
};

static void
gpu_svm_allocator_get_property (GObject    *object,
                                guint       id,
                                GValue     *value,
                                GParamSpec *pspec)
{
  GpuSvmAllocator *allocator = GPU_SVM_ALLOCATOR (object);

  switch (id)
    {
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
gpu_svm_allocator_set_property (GObject      *object,
                                guint         id,
                                const GValue *value,
                                GParamSpec   *pspec)
{
  GpuSvmAllocator *allocator = GPU_SVM_ALLOCATOR (object);

  switch (id)
    {
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
gpu_svm_allocator_class_init (GpuSvmAllocatorClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  const GParamFlags flags = G_PARAM_READWRITE | G_PARAM_CONSTRUCT_ONLY | G_PARAM_STATIC_STRINGS;

  object_class->get_property = gpu_svm_allocator_get_property;
  object_class->set_property = gpu_svm_allocator_set_property;

  /**
   * GpuSvmAllocator:svm-flags:
   *
   * How closely host and device share memory, at least.
   *
   * Since: 0.1
   */
  props[PROP_SVM_FLAGS] = g_param_spec_flags ("svm-flags", NULL, NULL, GPU_TYPE_SVM_FLAGS,
                                              GPU_SVM_FLAGS_NONE, flags);
  /**
   * GpuSvmAllocator:alignment:
   *
   * What addresses are a multiple of, in bytes; 0 for what the driver finds right.
   *
   * Since: 0.1
   */
  props[PROP_ALIGNMENT] = g_param_spec_uint64 ("alignment", NULL, NULL, 0, G_MAXSIZE, 0, flags);

  g_object_class_install_properties (object_class, N_PROPS, props);
}

static void
gpu_svm_allocator_init (GpuSvmAllocator *allocator)
{
  allocator->parent_instance.ops = &svm_ops;
}

/**
 * gpu_svm_allocator_new:
 * @context: a #GpuContext
 * @flags: how memory is used; without %GPU_MEMORY_ALLOC_HOST and %GPU_MEMORY_SHAREABLE
 * @svm_flags: how closely host and device share it, at least
 * @alignment: what addresses shall be a multiple of, a power of two, in bytes; 0 for what the
 *   driver finds right
 * @stream: (nullable): a stream of @context, in order, whose work is waited for before memory is
 *   freed, or %NULL
 * @error: return location for an error
 *
 * Makes an allocator of shared virtual memory. gpu_allocator_alloc() fails as gpu_svm_new() does;
 * which stream memory is asked for plays no part.
 *
 * Returns: (transfer full): the allocator, or %NULL with %GPU_ERROR_INVALID_ARGUMENT for flags that
 *   do not go together, or a stream that is out of order or of another context,
 *   %GPU_ERROR_NOT_SUPPORTED for flags that the device lacks, or %GPU_ERROR_DEVICE_LOST
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
  g_return_val_if_fail (GPU_IS_CONTEXT (context), NULL);
  g_return_val_if_fail (stream == NULL || GPU_IS_STREAM (stream), NULL);

  return g_initable_new (GPU_TYPE_SVM_ALLOCATOR, NULL, error, "context", context, "flags", flags,
                         "svm-flags", svm_flags, "alignment", (guint64) alignment,
                         "stream", stream, NULL);
}

/**
 * gpu_svm_allocator_get_svm_flags:
 * @allocator: a #GpuSvmAllocator
 *
 * Gets how closely host and device share memory. Any thread.
 *
 * Returns: the flags
 *
 * Since: 0.1
 */
GpuSvmFlags
gpu_svm_allocator_get_svm_flags (GpuSvmAllocator *allocator)
{
  g_return_val_if_fail (GPU_IS_SVM_ALLOCATOR (allocator), GPU_SVM_FLAGS_NONE);

  return allocator->svm_flags;
}

/**
 * gpu_svm_allocator_get_alignment:
 * @allocator: a #GpuSvmAllocator
 *
 * Gets what addresses are a multiple of. Any thread.
 *
 * Returns: the alignment in bytes, 0 for what the driver finds right
 *
 * Since: 0.1
 */
gsize
gpu_svm_allocator_get_alignment (GpuSvmAllocator *allocator)
{
  g_return_val_if_fail (GPU_IS_SVM_ALLOCATOR (allocator), 0);

  return allocator->alignment;
}
