/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Two contexts with access to each other's memory and pools, and copies between the contexts, while
 * driver calls fail. Uses two devices if available. */
#include "config.h"

#include "fault-util.h"

/* Large enough for a copy through page-locked memory, if the devices have no peer access. */
#define SIZE (96 * 1024)

static gboolean
fill (GpuContext *context, GpuBuffer *buffer, guint8 value, GError **error)
{
  return gpu_buffer_fill (buffer, NULL, 0, SIZE, &value, 1, NULL, error);
}

static gboolean
check (GpuBuffer *buffer, guint8 value, const char *what, GError **error)
{
  g_autoptr (GBytes) content = gpu_buffer_read_bytes (buffer, NULL, 0, SIZE, NULL, error);

  if (content == NULL)
    return FALSE;
  fault_check (g_bytes_get_data (content, NULL), value, SIZE, what);
  return TRUE;
}

/* Allocates plain memory, or memory of the context's pool. */
static GpuBuffer *
allocate (GpuContext *context, gboolean pooled, GError **error)
{
  g_autoptr (GpuStream) stream = NULL;

  if (!pooled)
    return gpu_buffer_new (context, GPU_MEMORY_FLAGS_NONE, SIZE, error);
  stream = gpu_stream_new (context, GPU_STREAM_FLAGS_NONE, error);
  return stream != NULL ? gpu_buffer_new_on_stream (stream, GPU_MEMORY_FLAGS_NONE, SIZE,
                                                    error) : NULL;
}

/* Copies between memory of both contexts, in both directions. */
static gboolean
copy (GpuContext *context, GpuContext *peer, gboolean pooled, GError **error)
{
  const GpuExtent extent = { 60, 8, 3 };
  const GpuLayout at_once = { 0, 0, 0, 64, 64 * 16 };
  const GpuLayout in_pieces = { 0, 0, 0, 64, 64 * 16 + 1 };
  g_autoptr (GpuStream) stream = gpu_stream_new (context, GPU_STREAM_FLAGS_NONE, error);
  g_autoptr (GpuBuffer) here = NULL;
  g_autoptr (GpuBuffer) there = NULL;

  if (stream == NULL)
    return FALSE;
  here = allocate (context, pooled, error);
  if (here == NULL)
    return FALSE;
  there = allocate (peer, pooled, error);
  if (there == NULL || !fill (context, here, 1, error) || !fill (peer, there, 2, error)
      || !gpu_stream_copy (stream, GPU_MEMORY (there), 0, GPU_MEMORY (here), 0, SIZE, error)
      || !check (there, 1, "copy to a peer", error) || !fill (peer, there, 3, error)
      || !gpu_stream_copy (stream, GPU_MEMORY (here), 0, GPU_MEMORY (there), 0, SIZE, error)
      || !check (here, 3, "copy from a peer", error))
    return FALSE;
  return fill (peer, there, 4, error)
         && gpu_stream_copy_region (stream, GPU_MEMORY (there), &at_once, GPU_MEMORY (here),
                                    &at_once, &extent, error)
         && gpu_stream_copy_region (stream, GPU_MEMORY (here), &in_pieces, GPU_MEMORY (there),
                                    &at_once, &extent, error)
         && check (here, 3, "region from a peer", error);
}

/* Copies between contexts: between two images as a whole, and between an image and a buffer row by
 * row. */
static gboolean
copy_images (GpuContext *context, GpuContext *peer, GError **error)
{
  const GpuImageFormat format = { GPU_CHANNEL_ORDER_RGBA, GPU_CHANNEL_TYPE_UINT8 };
  const GpuExtent extent = { 8, 4, 3 };
  const GpuColor color = { 5, 5, 5, 5 };
  const GpuLayout in_pieces = { 0, 0, 0, 33, 133 };
  g_autoptr (GpuStream) stream = gpu_stream_new (context, GPU_STREAM_FLAGS_NONE, error);
  g_autoptr (GpuImage) here = NULL;
  g_autoptr (GpuImage) there = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GBytes) content = NULL;

  if (stream == NULL)
    return FALSE;
  here = gpu_image_new (context, GPU_MEMORY_FLAGS_NONE, &format, GPU_IMAGE_TYPE_IMAGE_3D, &extent,
                        error);
  if (here == NULL)
    return FALSE;
  there = gpu_image_new (peer, GPU_MEMORY_FLAGS_NONE, &format, GPU_IMAGE_TYPE_IMAGE_2D_ARRAY,
                         &extent,
                         error);
  if (there == NULL)
    return FALSE;
  buffer = gpu_buffer_new (peer, GPU_MEMORY_FLAGS_NONE, SIZE, error);
  if (buffer == NULL || !gpu_image_fill (there, NULL, &color, NULL, NULL, NULL, error)
      || !fill (peer, buffer, 6, error)
      || !gpu_stream_copy_region (stream, GPU_MEMORY (here), NULL, GPU_MEMORY (there), NULL,
                                  &extent, error)
      || !gpu_stream_copy_region (stream, GPU_MEMORY (buffer), &in_pieces, GPU_MEMORY (here), NULL,
                                  &extent, error))
    return FALSE;
  content = gpu_buffer_read_bytes (buffer, NULL, 0, 2 * 133 + 3 * 33 + 33, NULL, error);
  if (content == NULL)
    return FALSE;
  fault_check (g_bytes_get_data (content, NULL), 5, 32, "image from a peer, the first row");
  fault_check ((const guint8 *) g_bytes_get_data (content, NULL) + 2 * 133 + 3 * 33, 5, 32,
               "image from a peer, the last row");
  fault_check ((const guint8 *) g_bytes_get_data (content, NULL) + 32, 6, 1, "between rows");
  return TRUE;
}

static gboolean
all_copies (GpuContext *context, GpuContext *peer, GError **error)
{
  const GpuCapabilities ordered = GPU_CAPABILITIES_STREAM_ORDERED;
  GpuDevice *device = gpu_context_get_device (context);

  return copy (context, peer, FALSE, error)
         && ((gpu_device_get_capabilities (device) & ordered) == 0
             || copy (context, peer, TRUE, error))
         && ((gpu_device_get_capabilities (device) & GPU_CAPABILITIES_IMAGES) == 0
             || copy_images (context, peer, error));
}

static gboolean
with_access (GpuContext *context, GpuContext *peer, GError **error)
{
  g_autoptr (GVariant) attributes =
    gpu_device_get_peer_attributes (gpu_context_get_device (context),
                                    gpu_context_get_device (peer), error);

  /* Enable access in one direction before the pools are used, and in the other direction after
   * their use. */
  return attributes != NULL && gpu_context_enable_peer_access (context, peer, error)
         && all_copies (context, peer, error)
         && gpu_context_enable_peer_access (peer, context, error)
         && all_copies (peer, context, error)
         && gpu_context_disable_peer_access (context, peer, error)
         && all_copies (context, peer, error)
         && gpu_context_disable_peer_access (peer, context, error);
}

static gboolean
peer (GpuContext *context, GError **error)
{
  GpuDevice *device = gpu_context_get_device (context);
  const char *backend = gpu_device_get_backend (device);
  g_autofree char *id = g_strconcat (backend, ":1", NULL);
  g_autoptr (GpuDevice) second = gpu_device_find (id, NULL);
  g_autoptr (GpuContext) other = NULL;
  gboolean can_access = FALSE;

  other = gpu_context_new (second != NULL ? second : device, GPU_CONTEXT_FLAGS_NONE, error);
  if (other == NULL)
    return FALSE;
  if (second == NULL)
    return all_copies (context, other, error);
  return gpu_device_can_access_peer (device, second, &can_access, error)
         && (can_access ? with_access (context, other, error)
                        : all_copies (context, other, error));
}

int
main (void)
{
  return fault_run (peer);
}
