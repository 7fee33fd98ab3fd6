/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Streams, hazards between them, events and asynchronous calls, while driver calls fail. */
#include "config.h"

#include "fault-util.h"

#define SIZE 4096
#define N_ROUNDS 6
/* Enough for the kernel, and for two launches of OpenCL devices */
#define N_COPIES 50

static gboolean
fill (GpuStream *stream, GpuBuffer *buffer, guint8 value, GError **error)
{
  return gpu_stream_fill (stream, GPU_MEMORY (buffer), 0, SIZE, &value, 1, error);
}

static gboolean
two_streams (GpuContext *context, GpuStreamFlags flags, GError **error)
{
  g_autoptr (GpuStream) fills = gpu_stream_new (context, flags, error);
  g_autoptr (GpuStream) copies = NULL;
  g_autoptr (GpuBuffer) shared = NULL;
  g_autoptr (GpuBuffer) slots = NULL;
  g_autoptr (GBytes) back = NULL;

  if (fills == NULL)
    return FALSE;
  copies = gpu_stream_new (context, flags, error);
  if (copies == NULL)
    return FALSE;
  shared = gpu_buffer_new (context, GPU_MEMORY_FLAGS_NONE, SIZE, error);
  if (shared == NULL)
    return FALSE;
  slots = gpu_buffer_new (context, GPU_MEMORY_FLAGS_NONE, N_ROUNDS * SIZE, error);
  if (slots == NULL)
    return FALSE;
  for (guint i = 0; i < N_ROUNDS; i++)
    if (!fill (fills, shared, (guint8) (i + 1), error) ||
        !gpu_stream_copy (copies, GPU_MEMORY (slots), i * SIZE, GPU_MEMORY (shared), 0, SIZE,
                          error) ||
        !gpu_stream_barrier (copies, error))
      return FALSE;
  back = gpu_buffer_read_bytes (slots, fills, 0, N_ROUNDS * SIZE, NULL, error);
  if (back == NULL)
    return FALSE;
  for (guint i = 0; i < N_ROUNDS; i++)
    fault_check ((const guint8 *) g_bytes_get_data (back, NULL) + i * SIZE, (guint8) (i + 1), SIZE,
                 "two streams");
  return gpu_stream_flush (fills, error) && gpu_stream_synchronize (copies, NULL, error) &&
         gpu_context_synchronize (context, error);
}

/* Unrefs the buffers at once, so that only pending operations keep them alive. */
static gboolean
drop (GpuContext *context, GError **error)
{
  g_autoptr (GpuStream) stream = gpu_stream_new (context, GPU_STREAM_FLAGS_NONE, error);
  g_autoptr (GBytes) bytes = NULL;

  for (guint i = 0; stream != NULL && i < N_ROUNDS; i++)
    {
      g_autoptr (GpuBuffer) a = gpu_buffer_new (context, GPU_MEMORY_FLAGS_NONE, SIZE, error);
      g_autoptr (GpuBuffer) b = NULL;
      GpuMemory *memory;

      if (a == NULL)
        return FALSE;
      b = gpu_buffer_new (context, GPU_MEMORY_FLAGS_NONE, SIZE, error);
      if (b == NULL)
        return FALSE;
      memory = GPU_MEMORY (b);
      g_clear_pointer (&bytes, g_bytes_unref);
      if (!fill (stream, a, 1, error) ||
          !gpu_stream_copy (stream, memory, 0, GPU_MEMORY (a), 0, SIZE, error) ||
          !gpu_stream_migrate (stream, &memory, 1, GPU_MIGRATE_FLAGS_HOST, error))
        return FALSE;
      bytes = gpu_stream_read_bytes (stream, memory, 0, SIZE, error);
      if (bytes == NULL)
        return FALSE;
    }
  return stream != NULL;
}

static gboolean
regions (GpuContext *context, GError **error)
{
  g_autoptr (GpuStream) stream = gpu_context_get_default_stream (context);
  g_autoptr (GpuBuffer) a = gpu_buffer_new (context, GPU_MEMORY_FLAGS_NONE, SIZE, error);
  g_autoptr (GpuBuffer) b = NULL;
  g_autoptr (GBytes) back = NULL;
  guint8 data[64 * 4];
  g_autoptr (GBytes) bytes = NULL;
  const GpuExtent extent = { 64, 4, 1 };
  const GpuLayout layout = { 0, 2, 0, 100, 0 };
  const guint8 pattern[3] = { 4, 4, 4 };

  if (a == NULL)
    return FALSE;
  b = gpu_buffer_new (context, GPU_MEMORY_FLAGS_NONE, SIZE, error);
  if (b == NULL)
    return FALSE;
  if (stream == NULL)
    return gpu_context_synchronize (context, error) &&
           gpu_buffer_read (a, NULL, 0, data, 1, NULL, error);
  memset (data, 3, sizeof data);
  bytes = g_bytes_new (data, sizeof data);
  if (!gpu_stream_write_region (stream, GPU_MEMORY (a), &layout, bytes, NULL, &extent, error) ||
      !gpu_stream_copy_region (stream, GPU_MEMORY (b), NULL, GPU_MEMORY (a), &layout, &extent,
                               error) ||
      !gpu_stream_fill (stream, GPU_MEMORY (b), 3, 48, pattern, 3, error))
    return FALSE;
  back = gpu_stream_read_region (stream, GPU_MEMORY (b), NULL, &extent, error);
  if (back == NULL || !gpu_stream_synchronize (stream, NULL, error))
    return FALSE;
  fault_check (g_bytes_get_data (back, NULL), 3, 3, "region");
  fault_check ((const guint8 *) g_bytes_get_data (back, NULL) + 3, 4, 48, "region");
  fault_check ((const guint8 *) g_bytes_get_data (back, NULL) + 51, 3, 256 - 51, "region");
  return TRUE;
}

static gboolean
has (GpuContext *context, GpuCapabilities capability)
{
  return (gpu_device_get_capabilities (gpu_context_get_device (context)) & capability) != 0;
}

static gboolean
times (GpuContext *context, GError **error)
{
  g_autoptr (GpuStream) stream = gpu_stream_new (context, GPU_STREAM_FLAGS_PROFILING, error);
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuEvent) event = NULL;
  guint64 time;

  if (stream == NULL)
    return FALSE;
  buffer = gpu_buffer_new (context, GPU_MEMORY_FLAGS_NONE, SIZE, error);
  if (buffer == NULL || !fill (stream, buffer, 1, error))
    return FALSE;
  event = gpu_stream_record (stream, GPU_EVENT_FLAGS_TIMING, error);
  return event != NULL && gpu_event_wait (event, NULL, error) &&
         gpu_event_get_profiling_time (event, GPU_PROFILING_POINT_ENDED, &time, error) &&
         gpu_event_get_duration (event, &time, error);
}

static gboolean
events (GpuContext *context, GError **error)
{
  g_autoptr (GpuStream) stream = gpu_stream_new (context, GPU_STREAM_FLAGS_PROFILING, error);
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuEvent) gate = NULL;
  g_autoptr (GpuEvent) behind = NULL;
  g_autoptr (GError) failure = NULL;
  guint64 time;

  if (stream == NULL)
    return FALSE;
  buffer = gpu_buffer_new (context, GPU_MEMORY_FLAGS_NONE, SIZE, error);
  if (buffer == NULL)
    return FALSE;
  for (guint i = 0; i < 2; i++)
    {
      g_clear_object (&gate);
      g_clear_object (&behind);
      gate = gpu_event_new_user (context, error);
      if (gate == NULL || !gpu_stream_wait_event (stream, gate, error) ||
          !fill (stream, buffer, 1, error))
        return FALSE;
      behind = gpu_stream_record (stream, GPU_EVENT_FLAGS_TIMING, error);
      if (behind == NULL || !gpu_event_watch (behind, error))
        return FALSE;
      if (i == 0 && (!gpu_event_complete (gate, error) || !gpu_event_wait (behind, NULL, error) ||
                     !gpu_event_get_profiling_time (behind, GPU_PROFILING_POINT_ENDED, &time,
                                                    error)))
        return FALSE;
    }
  if (!gpu_event_fail (gate, "on purpose", error))
    return FALSE;
  if (gpu_event_wait (behind, NULL, &failure))
    g_error ("work after a failed event succeeded");
  return TRUE;
}

/* Reverses the order of the rows, and drops the source at once. */
static gboolean
batch (GpuContext *context, GError **error)
{
  g_autoptr (GpuStream) stream = gpu_stream_new (context, GPU_STREAM_FLAGS_NONE, error);
  g_autoptr (GpuBuffer) target = NULL;
  g_autoptr (GpuBuffer) source = NULL;
  g_autoptr (GBytes) back = NULL;
  guint64 ranges[5 * N_COPIES];

  if (stream == NULL)
    return FALSE;
  target = gpu_buffer_new (context, GPU_MEMORY_FLAGS_NONE, N_COPIES * SIZE, error);
  if (target == NULL)
    return FALSE;
  source = gpu_buffer_new (context, GPU_MEMORY_FLAGS_NONE, N_COPIES * SIZE, error);
  if (source == NULL)
    return FALSE;
  for (guint64 i = 0; i < N_COPIES; i++)
    {
      const guint8 value = (guint8) (N_COPIES - i);

      memcpy (ranges + 5 * i, ((guint64[]) { 0, i * SIZE, 1, (N_COPIES - 1 - i) * SIZE, SIZE }),
              5 * sizeof *ranges);
      if (!gpu_stream_fill (stream, GPU_MEMORY (source), i * SIZE, SIZE, &value, 1, error))
        return FALSE;
    }
  if (!gpu_stream_copy_batch (stream, (GpuMemory *[]) { GPU_MEMORY (target), GPU_MEMORY (source) },
                              2, ranges, G_N_ELEMENTS (ranges), error))
    return FALSE;
  g_clear_object (&source);
  back = gpu_buffer_read_bytes (target, stream, 0, N_COPIES * SIZE, NULL, error);
  if (back == NULL)
    return FALSE;
  for (guint i = 0; i < N_COPIES; i++)
    fault_check ((const guint8 *) g_bytes_get_data (back, NULL) + i * SIZE, (guint8) (i + 1), SIZE,
                 "batch");
  return TRUE;
}

static gboolean
addresses (GpuContext *context, GError **error)
{
  g_autoptr (GpuStream) stream = gpu_stream_new (context, GPU_STREAM_FLAGS_NONE, error);
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuEvent) event = NULL;
  g_autoptr (GBytes) back = g_bytes_new_take (g_malloc0 (SIZE), SIZE);
  guint8 data[SIZE];
  const guint64 address = (guint64) (gsize) data;

  if (stream == NULL)
    return FALSE;
  buffer = gpu_buffer_new (context, GPU_MEMORY_FLAGS_NONE, SIZE, error);
  if (buffer == NULL)
    return FALSE;
  memset (data, 8, SIZE);
  if (!gpu_buffer_try_write_address (buffer, stream, 0, address, SIZE, error) &&
      (*error != NULL || !gpu_buffer_write (buffer, stream, 0, data, SIZE, NULL, error)))
    return FALSE;
  if (!gpu_stream_read_into (stream, GPU_MEMORY (buffer), 0, back, error))
    return FALSE;
  event = gpu_stream_record (stream, GPU_EVENT_FLAGS_NONE, error);
  if (event == NULL || gpu_event_poll (event, -1, NULL, error) != GPU_EVENT_STATUS_COMPLETE)
    return FALSE;
  fault_check (g_bytes_get_data (back, NULL), 8, SIZE, "read into");
  memset (data, 0, SIZE);
  if (!gpu_buffer_try_read_address (buffer, stream, 0, address, SIZE, error) &&
      (*error != NULL || !gpu_buffer_read (buffer, stream, 0, data, SIZE, NULL, error)))
    return FALSE;
  fault_check (data, 8, SIZE, "try");
  return TRUE;
}

static void
take_result (GObject *source, GAsyncResult *result, gpointer user_data)
{
  *(GAsyncResult **) user_data = g_object_ref (result);
}

static gboolean
asynchronous (GpuContext *context, GError **error)
{
  g_autoptr (GpuBuffer) buffer = gpu_buffer_new (context, GPU_MEMORY_FLAGS_NONE, SIZE, error);
  g_autoptr (GpuStream) stream = NULL;
  g_autoptr (GAsyncResult) filled = NULL;
  g_autoptr (GAsyncResult) read = NULL;
  g_autoptr (GAsyncResult) mapped = NULL;
  g_autoptr (GpuMapping) mapping = NULL;
  g_autoptr (GBytes) back = NULL;
  gboolean good;

  if (buffer == NULL)
    return FALSE;
  stream = gpu_context_get_default_stream (context);
  if (stream == NULL || !gpu_stream_fill (stream, GPU_MEMORY (buffer), 0, SIZE,
                                          (const guint8 *) "\6", 1, error))
    return FALSE;
  gpu_memory_wait_async (GPU_MEMORY (buffer), NULL, take_result, &filled);
  gpu_buffer_read_bytes_async (buffer, NULL, 0, SIZE, NULL, NULL, NULL, NULL, take_result, &read);
  gpu_buffer_map_async (buffer, NULL, GPU_MAP_FLAGS_READ, 0, SIZE, NULL, take_result, &mapped);
  while (filled == NULL || read == NULL || mapped == NULL)
    g_main_context_iteration (NULL, TRUE);

  good = gpu_memory_wait_finish (GPU_MEMORY (buffer), filled, error);
  back = gpu_buffer_read_bytes_finish (buffer, read, good ? error : NULL);
  mapping = gpu_buffer_map_finish (buffer, mapped, good && back != NULL ? error : NULL);
  if (good && back != NULL)
    fault_check (g_bytes_get_data (back, NULL), 6, SIZE, "read");
  if (good && mapping != NULL)
    fault_check (gpu_mapping_get_data (mapping), 6, SIZE, "map");
  return good && back != NULL && mapping != NULL;
}

static gboolean
stream (GpuContext *context, GError **error)
{
  return two_streams (context, GPU_STREAM_FLAGS_NONE, error) &&
         (!has (context, GPU_CAPABILITIES_OUT_OF_ORDER) ||
          two_streams (context, GPU_STREAM_FLAGS_OUT_OF_ORDER, error)) &&
         drop (context, error) && regions (context, error) &&
         (!has (context, GPU_CAPABILITIES_PROFILING) || times (context, error)) &&
         (!has (context, GPU_CAPABILITIES_USER_EVENTS) || events (context, error)) &&
         addresses (context, error) && batch (context, error) && asynchronous (context, error);
}

int
main (void)
{
  return fault_run (stream);
}
