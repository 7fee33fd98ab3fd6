/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Contexts that the program creates, their settings, wrapped streams, and allocations that need the
 * free memory of a pool, while driver calls fail. */
#include "config.h"

#include "fault-util.h"

#define SIZE 4096
#define LARGEST (G_GUINT64_CONSTANT (1) << 30)

static gboolean
settings (GpuContext *context, GError **error)
{
  g_autoptr (GpuBuffer) buffer = gpu_buffer_new (context, GPU_MEMORY_FLAGS_NONE, SIZE, error);
  g_autoptr (GVariant) attributes = NULL;
  GpuCachePreference preference;
  guint64 limit;
  guint version;
  int least;
  int greatest;

  if (buffer == NULL)
    return FALSE;
  attributes = gpu_context_get_address_attributes
    (context, gpu_memory_get_device_address (GPU_MEMORY (buffer)), error);
  return attributes != NULL && gpu_context_get_api_version (context, &version, error)
         && gpu_context_get_priority_range (context, &least, &greatest, error)
         && gpu_context_get_limit (context, GPU_LIMIT_STACK_SIZE, &limit, error)
         && gpu_context_set_limit (context, GPU_LIMIT_STACK_SIZE, 2 * limit, error)
         && gpu_context_get_cache_preference (context, &preference, error)
         && gpu_context_set_cache_preference (context, GPU_CACHE_PREFERENCE_L1, error)
         && gpu_context_start_profiler (context, error)
         && gpu_context_stop_profiler (context, error);
}

/* Submits nothing to the borrowed stream, because after a fault the test could free the native
 * stream before its operations complete. */
static gboolean
wrapped_streams (GpuContext *context, GError **error)
{
  static const guint8 value = 7;
  g_autoptr (GpuStream) stream = gpu_stream_new (context, GPU_STREAM_FLAGS_NON_BLOCKING, error);
  g_autoptr (GpuStream) wrapped = NULL;
  g_autoptr (GpuStream) per_thread = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GBytes) content = NULL;

  if (stream == NULL)
    return FALSE;
  wrapped = gpu_stream_new_wrapped (context, gpu_stream_get_native_handle (stream),
                                    GPU_WRAP_MODE_BORROW, error);
  if (wrapped == NULL)
    return FALSE;
  per_thread = gpu_stream_new_wrapped (context, GPU_STREAM_HANDLE_PER_THREAD, GPU_WRAP_MODE_BORROW,
                                       error);
  if (per_thread == NULL)
    return FALSE;
  buffer = gpu_buffer_new (context, GPU_MEMORY_FLAGS_NONE, SIZE, error);
  if (buffer == NULL
      || !gpu_stream_fill (per_thread, GPU_MEMORY (buffer), 0, SIZE, &value, 1, error))
    return FALSE;
  content = gpu_buffer_read_bytes (buffer, stream, 0, SIZE, NULL, error);
  if (content == NULL)
    return FALSE;
  fault_check (g_bytes_get_data (content, NULL), 7, SIZE, "wrapped stream");
  return gpu_stream_synchronize (per_thread, NULL, error)
         && gpu_stream_synchronize (wrapped, NULL, error);
}

/* Allocates so much memory that the library must free the memory that a pool retains. */
static gboolean
shortage (GpuContext *context, GError **error)
{
  g_autoptr (GpuStream) stream = gpu_stream_new (context, GPU_STREAM_FLAGS_NONE, error);
  g_autoptr (GpuBuffer) buffer = NULL;
  GpuMemoryInfoSource source;
  guint64 available;
  guint64 total;

  if (stream == NULL
      || !gpu_context_get_memory_info (context, &available, &total, &source, error))
    return FALSE;
  if (total > LARGEST)
    return TRUE;
  buffer = gpu_buffer_new_on_stream (stream, GPU_MEMORY_FLAGS_NONE, available / 4 * 3, error);
  if (buffer == NULL)
    return FALSE;
  g_clear_object (&buffer);
  if (!gpu_stream_synchronize (stream, NULL, error))
    return FALSE;
  buffer = gpu_buffer_new (context, GPU_MEMORY_FLAGS_NONE, available / 4 * 3, error);
  return buffer != NULL;
}

static gboolean
own (GpuContext *context, GError **error)
{
  const GpuContextFlags flags = GPU_CONTEXT_FLAGS_OWN | GPU_CONTEXT_FLAGS_SCHED_BLOCKING;
  GpuDevice *device = gpu_context_get_device (context);
  g_autoptr (GpuContext) other = gpu_context_new (device, flags, error);
  g_autoptr (GpuContext) wrapped = NULL;

  if (other == NULL || !settings (other, error) || !wrapped_streams (other, error)
      || !shortage (other, error) || !gpu_context_push_current (other, error)
      || !gpu_context_pop_current (other, error))
    return FALSE;
  wrapped = gpu_context_new_wrapped (device, gpu_context_get_native_handle (other),
                                     GPU_WRAP_MODE_BORROW, error);
  return wrapped != NULL;
}

int
main (void)
{
  return fault_run (own);
}
