/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Devices, contexts, all kinds of buffers and blocking operations, while driver calls fail. */
#include "config.h"

#include "fault-util.h"

#define SIZE 8192

static GBytes *
value_bytes (gsize size, guint8 value)
{
  guint8 *data = g_malloc (size);

  memset (data, value, size);
  return g_bytes_new_take (data, size);
}

static gboolean
tell (GpuContext *context, GError **error)
{
  GpuDevice *device = gpu_context_get_device (context);
  g_autoptr (GVariant) attributes = gpu_device_get_attributes (device, error);
  g_autoptr (GVariant) traits = NULL;
  guint64 free_size;
  guint64 total_size;
  GpuMemoryInfoSource source;

  if (attributes == NULL)
    return FALSE;
  traits = gpu_device_characterize (device, error);
  return traits != NULL &&
         gpu_context_get_memory_info (context, &free_size, &total_size, &source, error);
}

static gboolean
read_and_write (GpuContext *context, GError **error)
{
  g_autoptr (GBytes) bytes = value_bytes (SIZE, 7);
  g_autoptr (GpuBuffer) from = gpu_buffer_new_from_bytes (context, GPU_MEMORY_FLAGS_NONE, bytes,
                                                          error);
  g_autoptr (GpuBuffer) to = NULL;
  g_autoptr (GBytes) back = NULL;
  g_autoptr (GVariant) attributes = NULL;
  const guint8 pattern[3] = { 9, 9, 9 };
  guint8 data[SIZE];

  if (from == NULL)
    return FALSE;
  to = gpu_buffer_new (context, GPU_MEMORY_FLAGS_NONE, SIZE, error);
  if (to == NULL || !gpu_buffer_copy (to, NULL, 0, from, 0, SIZE, NULL, error))
    return FALSE;
  back = gpu_buffer_read_bytes (to, NULL, 0, SIZE, NULL, error);
  if (back == NULL)
    return FALSE;
  fault_check (g_bytes_get_data (back, NULL), 7, SIZE, "copy");

  memset (data, 8, SIZE);
  if (!gpu_buffer_write (to, NULL, 0, data, SIZE, NULL, error) ||
      !gpu_buffer_fill (to, NULL, 30, 3000, pattern, 3, NULL, error))
    return FALSE;
  memset (data, 0, SIZE);
  if (!gpu_buffer_read (to, NULL, 0, data, SIZE, NULL, error))
    return FALSE;
  fault_check (data, 8, 30, "write");
  fault_check (data + 30, 9, 3000, "fill");
  fault_check (data + 3030, 8, SIZE - 3030, "write");
  attributes = gpu_memory_get_attributes (GPU_MEMORY (to), error);
  return attributes != NULL;
}

static gboolean
slice_and_map (GpuContext *context, GError **error)
{
  gsize unit = gpu_device_get_base_alignment (gpu_context_get_device (context));
  g_autoptr (GBytes) bytes = value_bytes (unit * 4, 5);
  g_autoptr (GpuBuffer) buffer = gpu_buffer_new_from_bytes (context, GPU_MEMORY_FLAGS_NONE, bytes,
                                                            error);
  g_autoptr (GpuBuffer) slice = NULL;
  g_autoptr (GpuBuffer) inner = NULL;
  g_autoptr (GpuMapping) mapping = NULL;
  g_autoptr (GBytes) back = NULL;

  if (buffer == NULL)
    return FALSE;
  slice = gpu_buffer_slice (buffer, unit, unit * 2, error);
  if (slice == NULL)
    return FALSE;
  inner = gpu_buffer_slice (slice, unit, unit, error);
  if (inner == NULL)
    return FALSE;
  mapping = gpu_buffer_map (slice, NULL, GPU_MAP_FLAGS_WRITE, 0, unit, NULL, error);
  if (mapping == NULL)
    return FALSE;
  fault_check (gpu_mapping_get_data (mapping), 5, unit, "map");
  memset (gpu_mapping_get_data (mapping), 6, unit);
  if (!gpu_mapping_unmap (mapping, error))
    return FALSE;
  gpu_memory_release (GPU_MEMORY (slice));
  back = gpu_buffer_read_bytes (buffer, NULL, 0, unit * 4, NULL, error);
  if (back == NULL)
    return FALSE;
  fault_check ((const guint8 *) g_bytes_get_data (back, NULL) + unit, 6, unit, "unmap");
  fault_check ((const guint8 *) g_bytes_get_data (back, NULL) + 2 * unit, 5, unit, "unmap");
  return TRUE;
}

static gboolean
other_kinds (GpuContext *context, GError **error)
{
  g_autoptr (GBytes) bytes = value_bytes (SIZE, 5);
  g_autoptr (GpuBuffer) pitched = gpu_buffer_new_pitched (context, GPU_MEMORY_FLAGS_NONE, 100, 8, 4,
                                                          error);
  g_autoptr (GpuBuffer) host = NULL;
  g_autoptr (GpuBuffer) wrapped = NULL;
  g_autoptr (GpuContext) same = NULL;
  g_autoptr (GBytes) back = NULL;

  if (pitched == NULL)
    return FALSE;
  host = gpu_buffer_new_for_host_bytes (context, GPU_MEMORY_FLAGS_READ_ONLY, bytes, error);
  if (host == NULL)
    return FALSE;
  wrapped = gpu_buffer_new_wrapped (context, gpu_memory_get_native_handle (GPU_MEMORY (host)), 0,
                                    GPU_WRAP_MODE_BORROW, NULL, error);
  if (wrapped == NULL)
    return FALSE;
  g_clear_object (&host);
  back = gpu_buffer_read_bytes (wrapped, NULL, 0, SIZE, NULL, error);
  if (back == NULL)
    return FALSE;
  fault_check (g_bytes_get_data (back, NULL), 5, SIZE, "host bytes");
  same = gpu_context_new_wrapped (gpu_context_get_device (context),
                                  gpu_context_get_native_handle (context), GPU_WRAP_MODE_BORROW,
                                  error);
  return same != NULL;
}

static gboolean
wrap_event (GpuContext *context, GError **error)
{
  g_autoptr (GpuStream) stream = gpu_stream_new (context, GPU_STREAM_FLAGS_NONE, error);
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuEvent) event = NULL;
  g_autoptr (GpuEvent) wrapped = NULL;
  const guint8 value = 5;
  guint64 handle = 0;

  if (stream == NULL)
    return FALSE;
  buffer = gpu_buffer_new (context, GPU_MEMORY_FLAGS_NONE, SIZE, error);
  if (buffer == NULL
      || !gpu_stream_fill (stream, GPU_MEMORY (buffer), 0, SIZE, &value, 1, error))
    return FALSE;
  event = gpu_stream_record (stream, GPU_EVENT_FLAGS_NONE, error);
  if (event == NULL)
    return FALSE;
  g_object_get (event, "native-handle", &handle, NULL);
  if (handle == 0 || g_str_equal (gpu_device_get_backend (gpu_context_get_device (context)),
                                  "host"))
    return TRUE;
  wrapped = gpu_event_new_wrapped (context, handle, GPU_WRAP_MODE_BORROW, error);
  return wrapped != NULL && gpu_stream_wait_event (stream, wrapped, error)
         && gpu_event_wait (wrapped, NULL, error) && gpu_event_wait (event, NULL, error);
}

static gboolean
has (GpuContext *context, GpuCapabilities capability)
{
  return (gpu_device_get_capabilities (gpu_context_get_device (context)) & capability) != 0;
}

static gboolean
check_fill (GpuBuffer *buffer, GpuStream *stream, GError **error)
{
  static const guint8 pattern[5] = { 1, 2, 3, 4, 5 };
  g_autoptr (GBytes) back = NULL;
  const guint8 *data;

  if (!gpu_stream_fill (stream, GPU_MEMORY (buffer), 3, SIZE / 2 / 5 * 5, pattern, 5, error))
    return FALSE;
  back = gpu_buffer_read_bytes (buffer, stream, 0, SIZE, NULL, error);
  if (back == NULL)
    return FALSE;
  data = g_bytes_get_data (back, NULL);
  for (gsize i = 0; i < SIZE / 2 / 5 * 5; i++)
    fault_check (data + 3 + i, pattern[i % 5], 1, "pattern");
  return TRUE;
}

static gboolean
ordered (GpuContext *context, GError **error)
{
  g_autoptr (GpuStream) stream = gpu_stream_new (context, GPU_STREAM_FLAGS_NONE, error);
  g_autoptr (GpuBuffer) buffer = NULL;

  if (stream == NULL)
    return FALSE;
  buffer = gpu_buffer_new_on_stream (stream, GPU_MEMORY_FLAGS_NONE, SIZE, error);
  return buffer != NULL && check_fill (buffer, stream, error);
}

static gboolean
near_host (GpuContext *context, GError **error)
{
  g_autoptr (GpuStream) stream = gpu_context_get_default_stream (context);
  g_autoptr (GpuBuffer) buffer = gpu_buffer_new (context, GPU_MEMORY_FLAGS_ALLOC_HOST, SIZE, error);
  g_autoptr (GpuMapping) mapping = NULL;

  if (buffer == NULL || stream == NULL || !check_fill (buffer, stream, error))
    return FALSE;
  mapping = gpu_buffer_map (buffer, NULL, GPU_MAP_FLAGS_NONE, 0, SIZE, NULL, error);
  return mapping != NULL;
}

static gboolean
basic (GpuContext *context, GError **error)
{
  return tell (context, error) && read_and_write (context, error) &&
         slice_and_map (context, error) && other_kinds (context, error) &&
         wrap_event (context, error) && near_host (context, error) &&
         (!has (context, GPU_CAPABILITIES_STREAM_ORDERED) || ordered (context, error));
}

int
main (void)
{
  return fault_run (basic);
}
