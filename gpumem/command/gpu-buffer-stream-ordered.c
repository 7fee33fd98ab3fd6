/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Memory that is allocated and freed in stream order. */
#include "config.h"

#include "gpumem/base/gpu-nick-private.h"
#include "gpumem/device/gpu-context-private.h"
#include "gpumem/stream/gpu-stream-private.h"

typedef struct
{
  GpuMemoryFlags    flags;
  gsize             size;
  GpuNativeBuffer **buffer;
} OrderedAllocation;

static gboolean
run_allocate (gconstpointer     operation,
              GpuNativeStream  *stream,
              GpuNativeEvent  **event,
              GError          **error)
{
  const OrderedAllocation *allocation = operation;

  *allocation->buffer = stream->backend->buffer->alloc_ordered (stream, allocation->flags,
                                                                allocation->size, event, error);

  return *allocation->buffer != NULL;
}

/* If the device is out of memory, emits GpuContext::memory-pressure and tries again. */
static GpuNativeBuffer *
allocate (GpuContext      *context,
          GpuTimeline     *timeline,
          GpuMemoryFlags   flags,
          gsize            size,
          GError         **error)
{
  GpuNativeBuffer *buffer = NULL;
  const OrderedAllocation allocation = { flags, size, &buffer };
  const GpuSubmission submission = { .function = "gpu_buffer_new_on_stream",
                                     .run = run_allocate, .operation = &allocation };
  g_autoptr (GError) failure = NULL;

  if (!_gpu_submit (timeline, &submission, NULL, &failure)
      && g_error_matches (failure, GPU_ERROR, GPU_ERROR_OUT_OF_DEVICE_MEMORY)
      && _gpu_context_signal_pressure (context, size))
    {
      g_clear_error (&failure);
      _gpu_submit (timeline, &submission, NULL, &failure);
    }

  if (failure != NULL)
    g_propagate_error (error, g_steal_pointer (&failure));

  return buffer;
}

/**
 * gpu_buffer_new_on_stream:
 * @stream: a #GpuStream
 * @flags: the intended use of the buffer, without %GPU_MEMORY_FLAGS_ALLOC_HOST
 * @size: size in bytes, not 0
 * @error: return location for an error
 *
 * Allocates device memory in the order of @stream (CUDA: cuMemAllocAsync): work submitted to
 * @stream later can use the buffer, and work on other streams waits for the allocation
 * automatically, as for any use of memory. The contents are undefined. When the last reference to
 * the buffer is dropped, its memory is also freed in the order of @stream, without waiting for the
 * device (CUDA: cuMemFreeAsync), unless work on other streams still uses the memory or @stream has
 * %GPU_STREAM_FLAGS_OUT_OF_ORDER. If the driver is out of memory, #GpuContext::memory-pressure is
 * emitted. Does not block.
 *
 * Returns: (transfer full): the buffer, or %NULL with %GPU_ERROR_NOT_SUPPORTED on devices without
 *   %GPU_CAPABILITIES_STREAM_ORDERED, or the errors of gpu_buffer_new()
 *
 * Since: 0.1
 */
GpuBuffer *
gpu_buffer_new_on_stream (GpuStream       *stream,
                          GpuMemoryFlags   flags,
                          gsize            size,
                          GError         **error)
{
  const char *function = "gpu_buffer_new_on_stream";
  GpuNativeContext *native;
  GpuNativeBuffer *allocated;
  GpuTimeline *timeline;
  GpuStorage *storage;
  GpuContext *context;
  GpuBuffer *buffer;

  g_return_val_if_fail (GPU_IS_STREAM (stream), NULL);

  timeline = _gpu_stream_get_timeline (stream, function, error);

  if (timeline == NULL)
    return NULL;

  native = timeline->context;
  context = gpu_stream_get_context (stream);

  if (native->backend->buffer->alloc_ordered == NULL
      || (timeline->device->capabilities & GPU_CAPABILITIES_STREAM_ORDERED) == 0)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                   "%s: %s does not support stream-ordered allocation", function,
                   timeline->device->id);
      return NULL;
    }

  if (!_gpu_buffer_check_flags (function, native, flags, error)
      || !_gpu_buffer_check_size (function, native, size, error))
    return NULL;

  if ((flags & GPU_MEMORY_FLAGS_ALLOC_HOST) != 0)
    {
      g_autofree char *text = _gpu_flags_get_nicks (GPU_TYPE_MEMORY_FLAGS, flags);

      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "%s: the memory flags %s request host memory", function, text);
      return NULL;
    }

  allocated = allocate (context, timeline, flags, size, error);

  if (allocated == NULL)
    return NULL;

  storage = _gpu_storage_new (native, allocated, flags, GPU_STORAGE_DEVICE, NULL, NULL);
  _gpu_storage_set_allocation_stream (storage, timeline);
  buffer = g_object_new (GPU_TYPE_BUFFER, "context", context, NULL);
  _gpu_memory_set_storage (GPU_MEMORY (buffer), storage);

  return buffer;
}
