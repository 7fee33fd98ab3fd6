/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/allocator/gpu-basic-allocator-private.h"

/**
 * SECTION:gpu-deferred-allocator
 * @title: GpuDeferredAllocator
 * @short_description: buffers from the driver
 * @see_also: #GpuImmediateAllocator
 *
 * Each memory is a #GpuBuffer of its own. A driver of OpenCL may put the allocation off until work
 * uses the memory, and only then find that there is no room: where that is too late use a
 * #GpuImmediateAllocator. CUDA and the host allocate at once.
 */

/**
 * GpuDeferredAllocator:
 *
 * An allocator of buffers.
 *
 * Since: 0.1
 */
struct _GpuDeferredAllocator
{
  GpuBasicAllocator parent_instance;
};

G_DEFINE_FINAL_TYPE (GpuDeferredAllocator, gpu_deferred_allocator, GPU_TYPE_BASIC_ALLOCATOR)

static GpuMemory *
deferred_alloc (GpuBasicAllocator  *allocator,
                gsize               size,
                GpuStream          *stream G_GNUC_UNUSED,
                GError            **error)
{
  GpuBuffer *buffer = _gpu_buffer_new (allocator->context, "gpu_allocator_alloc", allocator->flags,
                                       size, error);

  return (GpuMemory *) buffer;
}

static const GpuBasicAllocatorOps deferred_ops =
{
  .function = "gpu_deferred_allocator_new",
  .alloc = deferred_alloc
};

static void
gpu_deferred_allocator_class_init (GpuDeferredAllocatorClass *klass G_GNUC_UNUSED)
{
}

static void
gpu_deferred_allocator_init (GpuDeferredAllocator *allocator)
{
  allocator->parent_instance.ops = &deferred_ops;
}

/**
 * gpu_deferred_allocator_new:
 * @context: a #GpuContext
 * @flags: how the buffers are used
 * @error: return location for an error
 *
 * Makes an allocator of buffers as of gpu_buffer_new(), with its errors. Does not block, and
 * neither does gpu_allocator_alloc() with it.
 *
 * Returns: (transfer full): the allocator, or %NULL with %GPU_ERROR_INVALID_ARGUMENT for flags that
 *   do not go together, %GPU_ERROR_NOT_SUPPORTED for such that the device lacks, or
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

  return g_initable_new (GPU_TYPE_DEFERRED_ALLOCATOR, NULL, error, "context", context,
                         "flags", flags, NULL);
}
