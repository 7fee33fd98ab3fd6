/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/allocator/gpu-basic-allocator-private.h"

/**
 * SECTION:gpu-immediate-allocator
 * @title: GpuImmediateAllocator
 * @short_description: buffers that are sure to exist
 * @see_also: #GpuDeferredAllocator
 *
 * Each memory is a #GpuBuffer of its own, which the driver is made to allocate at once: where there
 * is no room gpu_allocator_alloc() says so, and not the work that uses the memory later. OpenCL has
 * no call for that, so each buffer is moved to the device (clEnqueueMigrateMemObjects), and waited
 * for. Drivers that allocate at once anyway are not asked twice.
 */

/**
 * GpuImmediateAllocator:
 *
 * An allocator of buffers that are sure to exist.
 *
 * Since: 0.1
 */
struct _GpuImmediateAllocator
{
  GpuBasicAllocator parent_instance;
};

G_DEFINE_FINAL_TYPE (GpuImmediateAllocator, gpu_immediate_allocator, GPU_TYPE_BASIC_ALLOCATOR)

static gboolean
prove (GpuStream  *stream,
       GpuMemory  *memory,
       GError    **error)
{
  g_autoptr (GpuEvent) event = NULL;

  if (!gpu_stream_migrate (stream, &memory, 1, GPU_MIGRATE_FLAGS_CONTENT_UNDEFINED, error))
    return FALSE;

  event = gpu_stream_record (stream, GPU_EVENT_FLAGS_NONE, error);

  return event != NULL && gpu_event_wait (event, NULL, error);
}

static GpuMemory *
try_alloc (GpuBasicAllocator  *allocator,
           gsize               size,
           GError            **error)
{
  g_autoptr (GpuMemory) memory = NULL;
  GpuNativeContext *context = _gpu_context_get_native (allocator->context);

  memory = (GpuMemory *) _gpu_buffer_new (allocator->context, "gpu_allocator_alloc",
                                          allocator->flags, size, error);

  if (memory != NULL && context->backend->buffer->is_deferred
      && !prove (allocator->stream, memory, error))
    return NULL;

  return g_steal_pointer (&memory);
}

/* Making the buffer tells of memory pressure itself, proving it does not. */
static GpuMemory *
immediate_alloc (GpuBasicAllocator  *allocator,
                 gsize               size,
                 GpuStream          *stream G_GNUC_UNUSED,
                 GError            **error)
{
  g_autoptr (GError) failure = NULL;
  GpuMemory *memory = try_alloc (allocator, size, &failure);

  if (memory == NULL && g_error_matches (failure, GPU_ERROR, GPU_ERROR_OUT_OF_DEVICE_MEMORY)
      && _gpu_context_get_native (allocator->context)->backend->buffer->is_deferred
      && _gpu_context_signal_pressure (allocator->context, size))
    {
      g_clear_error (&failure);
      memory = try_alloc (allocator, size, &failure);
    }

  if (memory == NULL)
    g_propagate_error (error, g_steal_pointer (&failure));

  return memory;
}

static const GpuBasicAllocatorOps immediate_ops =
{
  .function = "gpu_immediate_allocator_new",
  .needs_stream = TRUE,
  .alloc = immediate_alloc
};

static void
gpu_immediate_allocator_class_init (GpuImmediateAllocatorClass *klass G_GNUC_UNUSED)
{
}

static void
gpu_immediate_allocator_init (GpuImmediateAllocator *allocator)
{
  allocator->parent_instance.ops = &immediate_ops;
}

/**
 * gpu_immediate_allocator_new:
 * @stream: a #GpuStream, best one that has nothing else to do
 * @flags: how the buffers are used
 * @error: return location for an error
 *
 * Makes an allocator of buffers that exist when gpu_allocator_alloc() returns. On OpenCL that
 * waits for all that was submitted to @stream before, and tells everything that can be wrong with
 * gpu_buffer_new() and gpu_stream_migrate(). Which stream memory is asked for plays no part.
 *
 * Returns: (transfer full): the allocator, or %NULL with %GPU_ERROR_INVALID_ARGUMENT for flags that
 *   do not go together, %GPU_ERROR_NOT_SUPPORTED for such that the device lacks, or
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

  return g_initable_new (GPU_TYPE_IMMEDIATE_ALLOCATOR, NULL, error, "stream", stream,
                         "flags", flags, NULL);
}
