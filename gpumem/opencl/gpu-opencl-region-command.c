/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/opencl/gpu-opencl-region-private.h"

/* --- linear memory ---------------------------------------------------------------------------- */

/* A region as the clEnqueue...BufferRect() functions describe it. */
typedef struct
{
  gsize origin[3];
  gsize row_pitch;
  gsize slice_pitch;
} Rectangle;

/* Unused pitches of a GpuRegionSide may have any value, but drivers validate all pitches. A single
 * slice therefore gets slice pitch 0, and slices of one row each become the rows of one slice. */
static Rectangle
get_rectangle (const GpuRegionSide *side,
               const GpuExtent     *extent)
{
  Rectangle rectangle = { .row_pitch = side->row_pitch };
  gsize offset = side->offset;

  if (extent->height == 1)
    rectangle.row_pitch = side->slice_pitch;
  else if (extent->depth > 1)
    rectangle.slice_pitch = side->slice_pitch;

  if (rectangle.slice_pitch > 0)
    {
      rectangle.origin[2] = offset / rectangle.slice_pitch;
      offset %= rectangle.slice_pitch;
    }
  rectangle.origin[1] = offset / rectangle.row_pitch;
  rectangle.origin[0] = offset % rectangle.row_pitch;

  return rectangle;
}

static void
enqueue_row (GpuOpenclRegion *region,
             gsize            to,
             gsize            from,
             gsize            size,
             cl_event        *event)
{
  const cl_command_queue queue = region->stream->queue;
  const cl_mem destination = region->destination.mem;
  const cl_mem source = region->source.mem;

  if (destination == NULL && source == NULL)
    {
      const GpuOpenclUsm *usm = region->destination.usm != NULL ? region->destination.usm
                                                                : region->source.usm;

      region->function = "clEnqueueMemcpyINTEL";
      region->code = usm->copy (queue, CL_FALSE, (guint8 *) region->destination.data + to,
                                (guint8 *) region->source.data + from, size, 0, NULL, event);
    }
  else if (destination == NULL)
    {
      region->code = _gpu_opencl_enqueue_read (&region->stream->base, source, from,
                                               (guint8 *) region->destination.data + to, size,
                                               event, &region->function);
    }
  else if (source == NULL)
    {
      region->code = _gpu_opencl_enqueue_write (&region->stream->base, destination, to,
                                                (guint8 *) region->source.data + from, size, event,
                                                &region->function);
    }
  else
    {
      region->function = "clEnqueueCopyBuffer";
      region->code = clEnqueueCopyBuffer (queue, source, destination, from, to, size, 0, NULL,
                                          event);
    }
}

static void
enqueue_rectangle (GpuOpenclRegion *region,
                   const Rectangle *to,
                   const Rectangle *from,
                   const gsize     *size,
                   cl_event        *event)
{
  const cl_command_queue queue = region->stream->queue;
  const cl_mem destination = region->destination.mem;
  const cl_mem source = region->source.mem;

  if (destination == NULL)
    {
      region->function = "clEnqueueReadBufferRect";
      region->code = clEnqueueReadBufferRect (queue, source, CL_FALSE, from->origin, to->origin,
                                              size, from->row_pitch, from->slice_pitch,
                                              to->row_pitch, to->slice_pitch,
                                              region->destination.data, 0, NULL, event);
    }
  else if (source == NULL)
    {
      region->function = "clEnqueueWriteBufferRect";
      region->code = clEnqueueWriteBufferRect (queue, destination, CL_FALSE, to->origin,
                                               from->origin, size, to->row_pitch,
                                               to->slice_pitch, from->row_pitch,
                                               from->slice_pitch, region->source.data, 0, NULL,
                                               event);
    }
  else
    {
      region->function = "clEnqueueCopyBufferRect";
      region->code = clEnqueueCopyBufferRect (queue, source, destination, from->origin,
                                              to->origin, size, from->row_pitch,
                                              from->slice_pitch, to->row_pitch, to->slice_pitch,
                                              0, NULL, event);
    }
}

static void
enqueue_linear (GpuOpenclRegion     *region,
                const GpuRegionSide *to,
                const GpuRegionSide *from,
                const GpuExtent     *extent,
                cl_event            *event)
{
  const gsize size[] =
  {
    extent->width,
    extent->height == 1 ? extent->depth : extent->height,
    extent->height == 1 ? 1 : extent->depth
  };
  Rectangle to_rectangle;
  Rectangle from_rectangle;

  if (size[1] == 1 && size[2] == 1)
    {
      enqueue_row (region, to->offset, from->offset, extent->width, event);
      return;
    }

  to_rectangle = get_rectangle (to, extent);
  from_rectangle = get_rectangle (from, extent);
  enqueue_rectangle (region, &to_rectangle, &from_rectangle, size, event);
}

static gboolean
linear_fits (const GpuOpenclRegion *region,
             const GpuRegionSide   *to,
             const GpuRegionSide   *from,
             const GpuExtent       *extent)
{
  if (region->destination.mem == NULL && region->source.mem == NULL)
    return extent->height == 1 && extent->depth == 1;

  if (region->destination.mem == region->source.mem &&
      ((extent->height > 1 && to->row_pitch != from->row_pitch) ||
       (extent->depth > 1 && to->slice_pitch != from->slice_pitch)))
    return extent->height == 1 && extent->depth == 1;

  return extent->height == 1 || extent->depth == 1 ||
         (to->slice_pitch % to->row_pitch == 0 && from->slice_pitch % from->row_pitch == 0);
}

/* --- images ----------------------------------------------------------------------------------- */

/* Sets the pitches of host memory. Drivers require unused pitches to be 0. If each slice is one
 * row, both pitches are the distance between slices. For 1D arrays, some drivers use the row pitch
 * as the distance between layers and others use the slice pitch, so both get the same value. */
static void
get_host_pitches (const GpuOpenclImage *image,
                  const GpuRegionSide  *side,
                  const GpuExtent      *extent,
                  gsize                *row_pitch,
                  gsize                *slice_pitch)
{
  *row_pitch = extent->height > 1 ? side->row_pitch : 0;
  *slice_pitch = extent->depth > 1 ? side->slice_pitch : 0;

  if (extent->height == 1 && extent->depth > 1)
    *row_pitch = *slice_pitch;
  if (image->base.description.type == GPU_IMAGE_TYPE_IMAGE_1D_ARRAY)
    *slice_pitch = *row_pitch;
}

static void
enqueue_host (GpuOpenclRegion     *region,
              const GpuRegionSide *to,
              const GpuRegionSide *from,
              const GpuExtent     *extent,
              cl_event            *event)
{
  const gboolean writes = region->source.mem == NULL;
  const GpuOpenclImage *image = writes ? region->destination.image : region->source.image;
  const GpuRegionSide *host = writes ? from : to;
  const gsize size[] = { extent->width, extent->height, extent->depth };
  guint8 *data = (guint8 *) (writes ? region->source.data : region->destination.data)
                 + host->offset;
  gsize origin[4];
  gsize row_pitch;
  gsize slice_pitch;

  _gpu_opencl_image_get_origin (image, writes ? to : from, origin);
  get_host_pitches (image, host, extent, &row_pitch, &slice_pitch);

  if (writes)
    {
      region->function = "clEnqueueWriteImage";
      region->code = clEnqueueWriteImage (region->stream->queue, image->mem, CL_FALSE, origin,
                                          size, row_pitch, slice_pitch, data, 0, NULL, event);
    }
  else
    {
      region->function = "clEnqueueReadImage";
      region->code = clEnqueueReadImage (region->stream->queue, image->mem, CL_FALSE, origin,
                                         size, row_pitch, slice_pitch, data, 0, NULL, event);
    }
}

static void
enqueue_image (GpuOpenclRegion     *region,
               const GpuRegionSide *to,
               const GpuRegionSide *from,
               const GpuExtent     *extent,
               cl_event            *event)
{
  const gsize size[] = { extent->width, extent->height, extent->depth };
  const cl_command_queue queue = region->stream->queue;
  const GpuOpenclRegionMemory *destination = &region->destination;
  const GpuOpenclRegionMemory *source = &region->source;
  gsize to_origin[4];
  gsize from_origin[4];

  if (destination->image != NULL)
    _gpu_opencl_image_get_origin (destination->image, to, to_origin);
  if (source->image != NULL)
    _gpu_opencl_image_get_origin (source->image, from, from_origin);

  if (destination->image == NULL)
    {
      region->function = "clEnqueueCopyImageToBuffer";
      region->code = clEnqueueCopyImageToBuffer (queue, source->mem, destination->mem,
                                                 from_origin, size, to->offset, 0, NULL, event);
    }
  else if (source->image == NULL)
    {
      region->function = "clEnqueueCopyBufferToImage";
      region->code = clEnqueueCopyBufferToImage (queue, source->mem, destination->mem,
                                                 from->offset, to_origin, size, 0, NULL, event);
    }
  else
    {
      region->function = "clEnqueueCopyImage";
      region->code = clEnqueueCopyImage (queue, source->mem, destination->mem, from_origin,
                                         to_origin, size, 0, NULL, event);
    }
}

static gboolean
host_fits (const GpuRegionSide *side,
           const GpuExtent     *extent,
           gsize                unit)
{
  return (extent->height == 1 || side->row_pitch % unit == 0)
         && (extent->depth == 1
             || side->slice_pitch % (extent->height > 1 ? side->row_pitch : unit) == 0);
}

/* Returns FALSE for copies that NVIDIA's driver executes wrongly: it confuses rows of 3D images and
 * layers of 2D arrays with the layers of a 1D array, and copies the wrong layers within one 2D
 * array. */
static gboolean
images_fit (const GpuOpenclImage *destination,
            const GpuOpenclImage *source,
            const GpuExtent      *extent)
{
  const GpuImageType to = destination->base.description.type;
  const GpuImageType from = source->base.description.type;
  const gboolean one_has_rows = (to == GPU_IMAGE_TYPE_IMAGE_1D_ARRAY)
                                != (from == GPU_IMAGE_TYPE_IMAGE_1D_ARRAY);

  return gpu_image_format_equal (&destination->base.description.format,
                                 &source->base.description.format)
         && (extent->height == 1 || !one_has_rows)
         && (destination->mem != source->mem || to != GPU_IMAGE_TYPE_IMAGE_2D_ARRAY);
}

static gboolean
image_fits (const GpuOpenclRegion *region,
            const GpuRegionSide   *to,
            const GpuRegionSide   *from,
            const GpuExtent       *extent)
{
  const GpuOpenclImage *destination = region->destination.image;
  const GpuOpenclImage *source = region->source.image;

  if (destination != NULL && source != NULL)
    return images_fit (destination, source, extent);
  if (_gpu_opencl_region_has_host (region))
    return host_fits (destination != NULL ? from : to, extent, region->unit);

  return _gpu_opencl_region_is_tight (destination != NULL ? from : to, extent, region->unit);
}

gboolean
_gpu_opencl_region_fits (const GpuOpenclRegion *region,
                         const GpuRegionSide   *to,
                         const GpuRegionSide   *from,
                         const GpuExtent       *extent)
{
  if (region->destination.image == NULL && region->source.image == NULL)
    return linear_fits (region, to, from, extent);

  return image_fits (region, to, from, extent);
}

gboolean
_gpu_opencl_region_enqueue (GpuOpenclRegion     *region,
                            const GpuRegionSide *to,
                            const GpuRegionSide *from,
                            const GpuExtent     *extent,
                            cl_event            *event)
{
  if (region->destination.image == NULL && region->source.image == NULL)
    enqueue_linear (region, to, from, extent, event);
  else if (_gpu_opencl_region_has_host (region))
    enqueue_host (region, to, from, extent, event);
  else
    enqueue_image (region, to, from, extent, event);

  return region->code == CL_SUCCESS;
}
