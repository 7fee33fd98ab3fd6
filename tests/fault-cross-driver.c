/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Copies between a driver and the host back end, in both directions and on streams of each of them,
 * while driver calls fail. */
#include "config.h"

#include "fault-util.h"

#define SIZE ((gsize) 3 * 1024 * 1024)

static gboolean
round_trip (GpuStream *stream, GpuBuffer *near, GpuBuffer *far, GpuBuffer *back, guint8 value,
            GError **error)
{
  g_autoptr (GBytes) content = NULL;

  if (!gpu_buffer_fill (far, NULL, 0, SIZE, &value, 1, NULL, error)
      || !gpu_stream_copy (stream, GPU_MEMORY (near), 0, GPU_MEMORY (far), 0, SIZE, error)
      || !gpu_stream_copy (stream, GPU_MEMORY (back), 0, GPU_MEMORY (near), 0, SIZE, error)
      || !gpu_stream_synchronize (stream, NULL, error))
    return FALSE;
  content = gpu_buffer_read_bytes (back, NULL, 0, SIZE, NULL, error);
  if (content == NULL)
    return FALSE;
  fault_check (g_bytes_get_data (content, NULL), value, SIZE, "copied there and back");
  return TRUE;
}

static gboolean
across (GpuContext *context, GError **error)
{
  g_autoptr (GpuDevice) device = gpu_device_find ("host", error);
  g_autoptr (GpuContext) host = device != NULL ? gpu_context_new (device, GPU_CONTEXT_FLAGS_NONE,
                                                                  error) : NULL;
  g_autoptr (GpuStream) stream = gpu_stream_new (context, GPU_STREAM_FLAGS_NONE, error);
  g_autoptr (GpuStream) host_stream = NULL;
  g_autoptr (GpuBuffer) near = NULL;
  g_autoptr (GpuBuffer) far = NULL;
  g_autoptr (GpuBuffer) back = NULL;

  if (stream == NULL)
    return FALSE;
  near = gpu_buffer_new (context, GPU_MEMORY_FLAGS_NONE, SIZE, error);
  if (near == NULL)
    return FALSE;
  far = gpu_buffer_new (host, GPU_MEMORY_FLAGS_NONE, SIZE, error);
  back = gpu_buffer_new (host, GPU_MEMORY_FLAGS_NONE, SIZE, error);
  host_stream = gpu_stream_new (host, GPU_STREAM_FLAGS_NONE, error);
  return round_trip (stream, near, far, back, 3, error)
         && round_trip (host_stream, near, far, back, 4, error);
}

int
main (void)
{
  return fault_run (across);
}
