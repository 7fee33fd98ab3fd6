/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* All kinds of host memory, and the allocator of host memory, while driver calls fail. */
#include "config.h"

#include "fault-util.h"

#define SIZE 8192
#define LARGE ((gsize) 2 * 1024 * 1024)

static gboolean
use (GpuHostMemory *memory, GpuStream *stream, GError **error)
{
  static const guint8 pattern[3] = { 1, 2, 3 };
  const GpuExtent extent = { 20, 3, 1 };
  const GpuLayout layout = { 0, 0, 0, 100, 0 };
  g_autoptr (GpuHostMemory) copy = NULL;
  g_autoptr (GpuMapping) mapping = NULL;
  guint8 *data;

  copy = gpu_host_memory_new_aligned (gpu_stream_get_context (stream), 0, SIZE, error);
  if (copy == NULL
      || !gpu_stream_fill (stream, GPU_MEMORY (memory), 0, SIZE / 3 * 3, pattern, 3, error)
      || !gpu_stream_fill (stream, GPU_MEMORY (copy), 0, SIZE, pattern, 1, error)
      || !gpu_stream_copy (stream, GPU_MEMORY (copy), 0, GPU_MEMORY (memory), 0, 300, error)
      || !gpu_stream_copy_region (stream, GPU_MEMORY (copy), &layout, GPU_MEMORY (memory), &layout,
                                  &extent, error)
      || !gpu_host_memory_synchronize (copy, GPU_MAP_FLAGS_READ, NULL, error))
    return FALSE;
  data = gpu_host_memory_get_data (copy);
  for (guint i = 0; i < 300; i++)
    fault_check (data + i, pattern[i % 3], 1, "copy");
  fault_check (data + 300, 1, SIZE - 300, "fill");
  mapping = gpu_stream_map (stream, GPU_MEMORY (memory), GPU_MAP_FLAGS_READ, 0, SIZE, error);
  return mapping != NULL;
}

/* Copies bytes to themselves, for which the library enqueues a barrier if an event is needed. */
static gboolean
use_itself (GpuHostMemory *memory, GpuStream *stream, GError **error)
{
  const gsize size = gpu_memory_get_size (GPU_MEMORY (memory));
  g_autoptr (GBytes) bytes = g_bytes_new_static (gpu_host_memory_get_data (memory), size);
  g_autoptr (GpuEvent) event = NULL;

  if (!gpu_stream_write (stream, GPU_MEMORY (memory), 0, bytes, error)
      || !gpu_stream_read_into (stream, GPU_MEMORY (memory), 0, bytes, error)
      || !gpu_stream_copy (stream, GPU_MEMORY (memory), 0, GPU_MEMORY (memory), 0, size, error))
    return FALSE;
  event = gpu_stream_record (stream, GPU_EVENT_FLAGS_NONE, error);
  return event != NULL && gpu_event_wait (event, NULL, error);
}

/* Copies the first host bytes of a buffer to its other bytes, and back. PoCL ignores the usual
 * calls for this. */
static gboolean
use_first_bytes (GpuContext *context, GpuStream *stream, GBytes *bytes, GError **error)
{
  guint8 *data = (guint8 *) g_bytes_get_data (bytes, NULL);
  g_autoptr (GBytes) first = g_bytes_new_from_bytes (bytes, 0, 100);
  g_autoptr (GpuBuffer) buffer = NULL;
  GpuCapabilities capabilities = gpu_device_get_capabilities (gpu_context_get_device (context));

  if ((capabilities & GPU_CAPABILITIES_HOST_POINTER) == 0)
    return TRUE;
  memset (data, 7, 100);
  memset (data + 200, 9, 200);
  buffer = gpu_buffer_new_for_host_bytes (context, GPU_MEMORY_FLAGS_NONE, bytes, error);
  if (buffer == NULL || !gpu_stream_write (stream, GPU_MEMORY (buffer), 200, first, error)
      || !gpu_stream_synchronize (stream, NULL, error))
    return FALSE;
  fault_check (data + 200, 7, 100, "copy of the first bytes");
  if (!gpu_stream_read_into (stream, GPU_MEMORY (buffer), 300, first, error)
      || !gpu_stream_synchronize (stream, NULL, error))
    return FALSE;
  fault_check (data, 9, 100, "copy to the first bytes");
  return TRUE;
}

/* Also on a profiling stream, where each operation has an event. */
static gboolean
itself (GpuContext *context, GError **error)
{
  g_autoptr (GpuHostMemory) memory = gpu_host_memory_new (context, GPU_HOST_MEMORY_FLAGS_NONE, SIZE,
                                                          error);
  const GpuStreamFlags flags[] = { GPU_STREAM_FLAGS_NONE, GPU_STREAM_FLAGS_PROFILING };

  for (guint i = 0; memory != NULL && i < G_N_ELEMENTS (flags); i++)
    {
      g_autoptr (GpuStream) stream = gpu_stream_new (context, flags[i], error);

      if (stream == NULL || !use_itself (memory, stream, error))
        return FALSE;
    }
  return memory != NULL;
}

static gboolean
kinds (GpuContext *context, GpuStream *stream, GError **error)
{
  g_autoptr (GBytes) bytes = g_bytes_new_take (g_malloc0 (SIZE), SIZE);
  g_autoptr (GpuHostMemory) locked = gpu_host_memory_new (context, GPU_HOST_MEMORY_FLAGS_PORTABLE,
                                                          SIZE,
                                                          error);
  g_autoptr (GpuHostMemory) registered = NULL;
  g_autoptr (GpuHostMemory) large = NULL;
  g_autoptr (GpuHostMemory) mapped = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;

  if (locked == NULL || !use (locked, stream, error))
    return FALSE;
  large = gpu_host_memory_new (context, GPU_HOST_MEMORY_FLAGS_NONE, LARGE, error);
  if (large == NULL || !use (large, stream, error))
    return FALSE;
  registered = gpu_host_memory_new_registered (context, GPU_HOST_MEMORY_FLAGS_NONE, bytes, error);
  if (registered == NULL || !use (registered, stream, error)
      || !use_first_bytes (context, stream, bytes, error))
    return FALSE;
  mapped = gpu_host_memory_new (context, GPU_HOST_MEMORY_FLAGS_MAPPED, SIZE, error);
  if (mapped == NULL || !use (mapped, stream, error))
    return FALSE;
  buffer = gpu_buffer_new_for_memory (GPU_MEMORY (mapped), 0, SIZE / 2, error);
  return buffer != NULL;
}

static gboolean
pooled (GpuContext *context, GpuStream *stream, GError **error)
{
  g_autoptr (GpuHostAllocator) allocator = gpu_host_allocator_new (context,
                                                                   GPU_HOST_MEMORY_FLAGS_NONE,
                                                                   error);

  for (guint i = 0; allocator != NULL && i < 3; i++)
    {
      g_autoptr (GpuHostMemory) memory = gpu_host_allocator_alloc (allocator, SIZE, error);

      if (memory == NULL || !use (memory, stream, error))
        return FALSE;
    }
  return allocator != NULL;
}

static gboolean
host_memory (GpuContext *context, GError **error)
{
  g_autoptr (GpuStream) stream = gpu_stream_new (context, GPU_STREAM_FLAGS_NONE, error);

  return stream != NULL && itself (context, error) && kinds (context, stream, error)
         && pooled (context, stream, error);
}

int
main (void)
{
  return fault_run (host_memory);
}
