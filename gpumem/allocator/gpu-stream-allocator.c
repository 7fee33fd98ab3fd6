/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/allocator/gpu-basic-allocator-private.h"

/**
 * SECTION:gpu-stream-allocator
 * @title: GpuStreamAllocator
 * @short_description: memory in the order of a stream
 * @see_also: gpu_buffer_new_on_stream()
 *
 * Memory from the driver's own pool, which is given and comes back in the order of a stream, so
 * that nobody waits (CUDA: cuMemAllocAsync, cuMemFreeAsync): in that of the stream that memory is
 * asked for, or else of the allocator's. Each memory is a #GpuBuffer as of
 * gpu_buffer_new_on_stream(), which other streams may use as well.
 */

/**
 * GpuStreamAllocator:
 *
 * An allocator in the order of a stream.
 *
 * Since: 0.1
 */
struct _GpuStreamAllocator
{
  GpuBasicAllocator parent_instance;
};

G_DEFINE_FINAL_TYPE (GpuStreamAllocator, gpu_stream_allocator, GPU_TYPE_BASIC_ALLOCATOR)

static gboolean
stream_check (GpuBasicAllocator  *allocator,
              GError            **error)
{
  GpuDevice *device = gpu_stream_get_device (allocator->stream);

  if ((gpu_device_get_capabilities (device) & GPU_CAPABILITIES_STREAM_ORDERED) != 0)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
               "%s: %s has no memory in the order of a stream", allocator->ops->function,
               gpu_device_get_id (device));

  return FALSE;
}

static GpuMemory *
stream_alloc (GpuBasicAllocator  *allocator,
              gsize               size,
              GpuStream          *stream,
              GError            **error)
{
  if (gpu_stream_get_context (stream) == allocator->context)
    return (GpuMemory *) gpu_buffer_new_on_stream (stream, allocator->flags, size, error);

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "gpu_allocator_alloc: the stream belongs to another context");

  return NULL;
}

static const GpuBasicAllocatorOps stream_ops =
{
  .function = "gpu_stream_allocator_new",
  .needs_stream = TRUE,
  .check = stream_check,
  .alloc = stream_alloc
};

static void
gpu_stream_allocator_class_init (GpuStreamAllocatorClass *klass G_GNUC_UNUSED)
{
}

static void
gpu_stream_allocator_init (GpuStreamAllocator *allocator)
{
  allocator->parent_instance.ops = &stream_ops;
}

/**
 * gpu_stream_allocator_new:
 * @stream: the stream in whose order memory is given that is asked for without one
 * @flags: how the buffers are used; without %GPU_MEMORY_ALLOC_HOST
 * @error: return location for an error
 *
 * Makes an allocator in the order of a stream. gpu_allocator_alloc() does not block, and fails as
 * gpu_buffer_new_on_stream() does, or with %GPU_ERROR_INVALID_ARGUMENT for a stream of another
 * context.
 *
 * Returns: (transfer full): the allocator, or %NULL with %GPU_ERROR_NOT_SUPPORTED on devices
 *   without %GPU_CAPABILITIES_STREAM_ORDERED, %GPU_ERROR_INVALID_ARGUMENT for flags that do not go
 *   together, or %GPU_ERROR_DEVICE_LOST
 *
 * Since: 0.1
 */
GpuStreamAllocator *
gpu_stream_allocator_new (GpuStream       *stream,
                          GpuMemoryFlags   flags,
                          GError         **error)
{
  g_return_val_if_fail (GPU_IS_STREAM (stream), NULL);

  return g_initable_new (GPU_TYPE_STREAM_ALLOCATOR, NULL, error, "stream", stream,
                         "flags", flags, NULL);
}
