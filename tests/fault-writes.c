/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Writes of pageable memory behind a fill, which is pending if the device is slow, while driver
 * calls fail. */
#include "config.h"

#include "fault-util.h"

/* More than a driver of CUDA keeps pending itself */
#define N_WRITES 4
#define WRITE_SIZE (160 * 1024)

typedef enum
{
  KIND_RANGE,
  KIND_REGION,
  KIND_IMAGE
} Kind;

static GpuMemory *
memory_new (GpuContext *context, Kind kind, const GpuExtent *extent, GError **error)
{
  static const GpuImageFormat rgba8 = { GPU_CHANNEL_ORDER_RGBA, GPU_CHANNEL_TYPE_UINT8 };

  if (kind == KIND_IMAGE)
    return (GpuMemory *) gpu_image_new (context, GPU_MEMORY_FLAGS_NONE, &rgba8,
                                        GPU_IMAGE_TYPE_IMAGE_2D, extent, error);
  return (GpuMemory *) gpu_buffer_new (context, GPU_MEMORY_FLAGS_NONE, WRITE_SIZE, error);
}

static gboolean
read_and_check (GpuStream *stream, GpuMemory *memory, GError **error)
{
  g_autoptr (GBytes) back = NULL;

  if (GPU_IS_IMAGE (memory))
    back = gpu_image_read_bytes (GPU_IMAGE (memory), stream, NULL, NULL, NULL, error);
  else
    back = gpu_buffer_read_bytes (GPU_BUFFER (memory), stream, 0, WRITE_SIZE, NULL, error);
  if (back == NULL)
    return FALSE;
  fault_check (g_bytes_get_data (back, NULL), 1, WRITE_SIZE, "writes behind a fill");
  return TRUE;
}

/* Drops the memory of the later writes before their data arrive. */
static gboolean
write_behind (GpuContext *context, Kind kind, GError **error)
{
  const GpuExtent extent = { WRITE_SIZE / 160 / (kind == KIND_IMAGE ? 4 : 1), 160, 1 };
  g_autoptr (GpuStream) stream = gpu_stream_new (context, GPU_STREAM_FLAGS_NONE, error);
  g_autoptr (GpuBuffer) filled = NULL;
  g_autoptr (GpuMemory) first = NULL;

  if (stream == NULL)
    return FALSE;
  filled = gpu_buffer_new (context, GPU_MEMORY_FLAGS_NONE, WRITE_SIZE, error);
  if (filled == NULL || !gpu_stream_fill (stream, GPU_MEMORY (filled), 0, WRITE_SIZE,
                                          (const guint8 *) "", 1, error))
    return FALSE;
  for (guint8 value = 1; value <= N_WRITES; value++)
    {
      g_autoptr (GBytes) bytes = g_bytes_new_take (g_malloc (WRITE_SIZE), WRITE_SIZE);
      g_autoptr (GpuMemory) memory = memory_new (context, kind, &extent, error);

      if (memory == NULL)
        return FALSE;
      memset ((guint8 *) g_bytes_get_data (bytes, NULL), value, WRITE_SIZE);
      if (!(kind == KIND_RANGE
            ? gpu_stream_write (stream, memory, 0, bytes, error)
            : gpu_stream_write_region (stream, memory, NULL, bytes, NULL, &extent, error)))
        return FALSE;
      if (value == 1)
        first = g_object_ref (memory);
    }
  return read_and_check (stream, first, error);
}

static gboolean
writes (GpuContext *context, GError **error)
{
  return write_behind (context, KIND_RANGE, error) && write_behind (context, KIND_REGION, error) &&
         write_behind (context, KIND_IMAGE, error);
}

int
main (void)
{
  return fault_run (writes);
}
