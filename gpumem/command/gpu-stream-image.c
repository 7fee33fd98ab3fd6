/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Operations of a stream on images: fill and map. */
#include "config.h"

#include <string.h>

#include "gpumem/command/gpu-command-private.h"
#include "gpumem/format/gpu-region-private.h"
#include "gpumem/format/gpu-texel-private.h"
#include "gpumem/memory/gpu-image-private.h"

typedef struct
{
  GpuImage        *image;
  GpuRegionSide    side;
  const GpuExtent *extent;
  guint8           texel[GPU_TEXEL_SIZE_MAX];
} ImageFill;

static gboolean
run_fill (gconstpointer     operation,
          GpuNativeStream  *stream,
          GpuNativeEvent  **event,
          GError          **error)
{
  const ImageFill *fill = operation;
  GpuNativeMemory *memory = GPU_MEMORY (fill->image)->storage->buffer;

  return stream->backend->image->fill (stream, (GpuNativeImage *) memory, &fill->side,
                                       fill->extent, fill->texel, event, error);
}

static GpuAccess
get_access (const ImageFill *fill)
{
  GpuExtent bytes = *fill->extent;
  gsize end;

  bytes.width *= fill->image->description.texel_size;
  end = _gpu_region_get_end (&fill->side, &bytes);

  return (GpuAccess) { GPU_MEMORY (fill->image), TRUE, fill->side.offset,
                       end - fill->side.offset };
}

static gboolean
submit_fill (GpuTimeline      *timeline,
             const char       *function,
             const ImageFill  *fill,
             GError          **error)
{
  GpuAccess access = get_access (fill);
  const GpuSubmission submission = { .function = function, .accesses = &access, .n_accesses = 1,
                                     .run = run_fill, .operation = fill };

  return _gpu_submit (timeline, &submission, NULL, error);
}

static GBytes *
row_new (const ImageFill  *fill,
         const char       *function,
         GpuHostBytes     *host,
         GError          **error)
{
  const gsize texel_size = fill->image->description.texel_size;

  host->layout = NULL;
  host->size = fill->extent->width * texel_size;
  host->bytes = _gpu_bytes_new (host->size, function, &host->data, error);

  for (gsize i = 0; host->bytes != NULL && i < fill->extent->width; i++)
    memcpy ((guint8 *) host->data + i * texel_size, fill->texel, texel_size);

  return host->bytes;
}

/* If the flags of the image deny the host access, writes the row to a temporary buffer and copies
 * it from there. */
static gboolean
write_row (GpuTimeline      *timeline,
           const char       *function,
           const ImageFill  *fill,
           const GpuLayout  *layout,
           GError          **error)
{
  const GpuMemoryFlags denied = GPU_MEMORY_FLAGS_HOST_READ_ONLY | GPU_MEMORY_FLAGS_HOST_NO_ACCESS;
  const GpuExtent row = { fill->extent->width, 1, 1 };
  GpuMemory *memory = GPU_MEMORY (fill->image);
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GBytes) bytes = NULL;
  GpuHostBytes host;

  bytes = row_new (fill, function, &host, error);

  if (bytes == NULL)
    return FALSE;

  if ((memory->flags & denied) == 0)
    return _gpu_timeline_write_region (timeline, function, memory, layout, &host, &row, NULL,
                                       error);

  buffer = gpu_buffer_new_from_bytes (memory->context, GPU_MEMORY_FLAGS_NONE, bytes, error);

  return buffer != NULL
         && _gpu_timeline_copy_region (timeline, function, memory, layout, GPU_MEMORY (buffer),
                                       NULL, &row, error);
}

/* Writes the first row, then doubles the filled part with copies of rows, then of slices. First
 * checks the whole region, so that a refused fill changes nothing. */
static gboolean
compose_fill (GpuTimeline      *timeline,
              const char       *function,
              const ImageFill  *fill,
              GError          **error)
{
  GpuMemory *memory = GPU_MEMORY (fill->image);
  const GpuExtent *extent = fill->extent;
  const GpuLayout from = { fill->side.x, fill->side.y, fill->side.z, 0, 0 };
  GpuAccess access = get_access (fill);

  if (!_gpu_submission_check_mappings (function, &access, 1, error)
      || !write_row (timeline, function, fill, &from, error))
    return FALSE;

  for (gsize rows = 1; rows < extent->height; rows *= 2)
    {
      const GpuExtent part = { extent->width, MIN (rows, extent->height - rows), 1 };
      const GpuLayout to = { from.x, from.y + rows, from.z, 0, 0 };

      if (!_gpu_timeline_copy_region (timeline, function, memory, &to, memory, &from, &part,
                                      error))
        return FALSE;
    }

  for (gsize slices = 1; slices < extent->depth; slices *= 2)
    {
      const GpuExtent part = { extent->width, extent->height,
                               MIN (slices, extent->depth - slices) };
      const GpuLayout to = { from.x, from.y, from.z + slices, 0, 0 };

      if (!_gpu_timeline_copy_region (timeline, function, memory, &to, memory, &from, &part,
                                      error))
        return FALSE;
    }

  return TRUE;
}

gboolean
_gpu_timeline_fill_image (GpuTimeline      *timeline,
                          const char       *function,
                          GpuImage         *image,
                          const GpuColor   *color,
                          const GpuLayout  *layout,
                          const GpuExtent  *extent,
                          GError          **error)
{
  GpuMemory *memory = GPU_MEMORY (image);
  GpuExtent rest = _gpu_image_get_rest (image, layout, extent);
  ImageFill fill = { .image = image, .extent = &rest };

  if (!_gpu_memory_check (memory, function, error)
      || !_gpu_image_resolve (image, layout, &rest, function, "image", &fill.side, error)
      || !_gpu_region_check_depth (&rest, function, error))
    return FALSE;

  if (_gpu_region_is_empty (&rest))
    return TRUE;

  fill.side.context = memory->storage->context;
  fill.side.memory = memory->storage->buffer;
  _gpu_texel_from_color (&image->description.format, color, fill.texel);

  if (timeline->context->backend->image != NULL && timeline->context->backend->image->fill != NULL)
    return submit_fill (timeline, function, &fill, error);

  return compose_fill (timeline, function, &fill, error);
}

/**
 * gpu_stream_fill_image:
 * @stream: a #GpuStream
 * @image: an image of the stream's context
 * @color: the value of every texel
 * @layout: (nullable): origin of the region in @image, in texels; %NULL for the first texel
 * @extent: (nullable): size of the region in texels; %NULL for the rest of @image
 * @error: return location for an error
 *
 * Fills a region of an image with one color (OpenCL: clEnqueueFillImage; CUDA, which has no such
 * function: copies of the first row with cuMemcpy2DAsync and cuMemcpy3DAsync). Values are rounded
 * to the nearest value of the format, ties to even, and clamped to its range; NaN becomes 0 in
 * integer formats. Components that the format lacks are ignored. A width or a height of 0 does
 * nothing. The operation holds a reference to the image until it completes. Does not block.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_INVALID_ARGUMENT if the region exceeds the image, the
 *   depth is 0, or the image belongs to another context, %GPU_ERROR_RELEASED, %GPU_ERROR_BUSY if
 *   the image is mapped, or the driver's error
 *
 * Since: 0.1
 */
gboolean
gpu_stream_fill_image (GpuStream        *stream,
                       GpuImage         *image,
                       const GpuColor   *color,
                       const GpuLayout  *layout,
                       const GpuExtent  *extent,
                       GError          **error)
{
  const char *function = "gpu_stream_fill_image";
  GpuTimeline *timeline;

  g_return_val_if_fail (GPU_IS_STREAM (stream), FALSE);
  g_return_val_if_fail (GPU_IS_IMAGE (image), FALSE);
  g_return_val_if_fail (color != NULL, FALSE);

  timeline = _gpu_stream_get_timeline (stream, function, error);

  return timeline != NULL
         && _gpu_timeline_fill_image (timeline, function, image, color, layout, extent, error);
}

/**
 * gpu_stream_map_image:
 * @stream: a #GpuStream
 * @image: an image of the stream's context
 * @flags: the intended access of the host
 * @layout: (nullable): origin of the region in @image, in texels; %NULL for the first texel
 * @extent: (nullable): size of the region in texels, not empty; %NULL for the rest of @image
 * @error: return location for an error
 *
 * Maps a region of an image into the address space of the host (OpenCL: clEnqueueMapImage; CUDA:
 * page-locked memory, cuMemcpy3DAsync). gpu_mapping_get_row_pitch() and
 * gpu_mapping_get_slice_pitch() return the distances of the mapped rows and slices.
 * %GPU_MAP_FLAGS_WRITE_INVALIDATE cannot be combined with other flags. Does not block: the host may
 * access the mapping only after the operation has completed, so wait with gpu_stream_synchronize()
 * or an event first. gpu_image_map() maps and waits in one call.
 *
 * The mapping covers all bytes of the image from the first to the last texel of the region, with
 * the texels between its rows. Until it is unmapped, uses of all these bytes fail like uses of the
 * region: for example, two regions of the same rows cannot both be mapped for writing.
 *
 * Returns: (transfer full): the mapping, or %NULL with %GPU_ERROR_INVALID_ARGUMENT if the region is
 *   empty or exceeds the image, @flags are invalid or the flags of the image forbid the access,
 *   %GPU_ERROR_BUSY if the region conflicts with another mapping, %GPU_ERROR_RELEASED,
 *   %GPU_ERROR_NOT_SUPPORTED, or the driver's error
 *
 * Since: 0.1
 */
GpuMapping *
gpu_stream_map_image (GpuStream        *stream,
                      GpuImage         *image,
                      GpuMapFlags       flags,
                      const GpuLayout  *layout,
                      const GpuExtent  *extent,
                      GError          **error)
{
  const char *function = "gpu_stream_map_image";
  GpuTimeline *timeline;
  GpuExtent rest;

  g_return_val_if_fail (GPU_IS_STREAM (stream), NULL);
  g_return_val_if_fail (GPU_IS_IMAGE (image), NULL);

  timeline = _gpu_stream_get_timeline (stream, function, error);
  rest = _gpu_image_get_rest (image, layout, extent);

  if (timeline == NULL)
    return NULL;

  return _gpu_timeline_map_image (timeline, function, image, flags, layout, &rest, error);
}
