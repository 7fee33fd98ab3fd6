/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Fills and mappings of images. For 1D_BUFFER images the commands use the underlying buffer,
 * because drivers refuse some commands on such images, and PoCL crashes in others. */
#include "config.h"

#include "gpumem/opencl/driver/gpu-opencl.h"

#define SIZE "%" G_GSIZE_FORMAT
#define TEXELS SIZE " x " SIZE " x " SIZE " texels"
#define EXTENT_ARGS(extent) (extent)->width, (extent)->height, (extent)->depth

gboolean
_gpu_opencl_image_fill (GpuNativeStream      *stream,
                        GpuNativeImage       *native,
                        const GpuRegionSide  *side,
                        const GpuExtent      *extent,
                        gconstpointer         texel,
                        GpuNativeEvent      **event,
                        GError              **error)
{
  GpuOpenclImage *image = (GpuOpenclImage *) native;
  const gsize region[] = { extent->width, extent->height, extent->depth };
  const gsize texel_size = native->description.texel_size;
  const char *function;
  cl_event handle = NULL;
  cl_event *wanted = event != NULL ? &handle : NULL;
  gsize origin[4];
  guint32 color[4];
  cl_int code;

  if (image->buffer != NULL)
    {
      gboolean held = _gpu_opencl_hold_slices (stream);

      function = "clEnqueueFillBuffer";
      code = clEnqueueFillBuffer (_gpu_opencl_stream_handle (stream), image->buffer, texel,
                                  texel_size, side->offset, extent->width * texel_size, 0, NULL,
                                  wanted);
      _gpu_opencl_release_slices (stream, held);
    }
  else
    {
      if (!_gpu_opencl_format_get_color (&native->description.format, texel, color))
        return _gpu_opencl_fill_through_buffer (stream, native, side, extent, texel, event, error);

      function = "clEnqueueFillImage";
      _gpu_opencl_image_get_origin (image, side, origin);
      code = clEnqueueFillImage (_gpu_opencl_stream_handle (stream), image->mem, color, origin,
                                 region, 0, NULL, wanted);
    }

  return _gpu_opencl_enqueued (stream, code, function, handle, event, error, TEXELS " at " SIZE
                               ", " SIZE ", " SIZE " of an image of " TEXELS, EXTENT_ARGS (extent),
                               side->x, side->y, side->z,
                               EXTENT_ARGS (&native->description.extent));
}

/* Passes both pitches for every image, because drivers require them. Drivers set an unused slice
 * pitch to 0. */
static gpointer
map_image (GpuOpenclImage       *image,
           cl_command_queue      queue,
           GpuMapFlags           flags,
           const GpuRegionSide  *side,
           const GpuExtent      *extent,
           gsize                *row_pitch,
           gsize                *slice_pitch,
           cl_event             *event,
           cl_int               *code)
{
  const gsize region[] = { extent->width, extent->height, extent->depth };
  gsize origin[4];
  gpointer data;

  _gpu_opencl_image_get_origin (image, side, origin);
  data = clEnqueueMapImage (queue, image->mem, CL_FALSE, _gpu_opencl_get_map_flags (flags),
                            origin, region, row_pitch, slice_pitch, 0, NULL, event, code);

  if (image->base.description.type == GPU_IMAGE_TYPE_IMAGE_1D_ARRAY && *slice_pitch != 0)
    *row_pitch = *slice_pitch;
  if (_gpu_opencl_image_get_n_dimensions (image->base.description.type) < 3)
    *slice_pitch = *row_pitch * extent->height;

  return data;
}

gpointer
_gpu_opencl_image_map (GpuNativeStream      *stream,
                       GpuNativeImage       *native,
                       GpuMapFlags           flags,
                       const GpuRegionSide  *side,
                       const GpuExtent      *extent,
                       gsize                *row_pitch,
                       gsize                *slice_pitch,
                       GpuNativeEvent      **event,
                       GError              **error)
{
  GpuOpenclImage *image = (GpuOpenclImage *) native;
  const cl_command_queue queue = _gpu_opencl_stream_handle (stream);
  const char *function = "clEnqueueMapImage";
  cl_event handle = NULL;
  cl_event *wanted = event != NULL ? &handle : NULL;
  gpointer data;
  cl_int code;

  *row_pitch = extent->width * native->description.texel_size;
  *slice_pitch = 0;

  if (image->buffer != NULL)
    {
      gboolean held = _gpu_opencl_hold_slices (stream);

      function = "clEnqueueMapBuffer";
      data = clEnqueueMapBuffer (queue, image->buffer, CL_FALSE,
                                 _gpu_opencl_get_map_flags (flags), side->offset, *row_pitch, 0,
                                 NULL, wanted, &code);
      _gpu_opencl_release_slices (stream, held);
      *slice_pitch = *row_pitch;
    }
  else
    {
      data = map_image (image, queue, flags, side, extent, row_pitch, slice_pitch, wanted, &code);
    }

  if (!_gpu_opencl_enqueued (stream, code, function, handle, event, error, TEXELS " at " SIZE ", "
                             SIZE ", " SIZE ", flags 0x%x", EXTENT_ARGS (extent), side->x, side->y,
                             side->z, flags))
    return NULL;

  return data;
}
