/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Copies of regions. OpenCL has functions for them, but these want a slice pitch that is a
 * multiple of the row pitch, within one buffer the same pitches on both sides, buffers without
 * gaps beside images, and images of one format. What does not fit is enqueued in pieces that do,
 * slices, or else rows; or it goes through a buffer of its own.
 */
#include "config.h"

#include "gpumem/opencl/gpu-opencl-region-private.h"

/* More commands than this take longer than a buffer in between: on an H100 each takes 9 us, and to
 * make and release a buffer another 10. */
#define N_PIECES 4

/* Takes @piece over. */
static void
keep_piece (GpuOpenclRegion *region,
            cl_event         piece)
{
  if (region->pieces == NULL)
    region->pieces = _gpu_opencl_pieces_new ();

  g_array_append_val (region->pieces, piece);
}

static gboolean
enqueue_piece (GpuOpenclRegion     *region,
               const GpuRegionSide *to,
               const GpuRegionSide *from,
               const GpuExtent     *extent)
{
  cl_event piece = NULL;

  if (!_gpu_opencl_region_enqueue (region, to, from, extent, &piece))
    return FALSE;

  keep_piece (region, piece);

  return TRUE;
}

static gboolean
enqueue_split (GpuOpenclRegion     *region,
               const GpuRegionSide *to,
               const GpuRegionSide *from,
               const GpuExtent     *extent);

/* The driver of NVIDIA counts whole slices, so it refuses regions that end within the last bytes
 * of a buffer; PoCL takes regions of one buffer that lie between each other for overlaps. What was
 * refused is tried in smaller pieces. */
static gboolean
is_refused (const GpuOpenclRegion *region)
{
  return region->code == CL_INVALID_VALUE || region->code == CL_MEM_COPY_OVERLAP;
}

static gboolean
enqueue_or_split (GpuOpenclRegion     *region,
                  const GpuRegionSide *to,
                  const GpuRegionSide *from,
                  const GpuExtent     *extent)
{
  const gboolean whole = _gpu_opencl_region_fits (region, to, from, extent);

  if (whole && enqueue_piece (region, to, from, extent))
    return TRUE;
  if ((extent->height == 1 && extent->depth == 1) || (whole && !is_refused (region)))
    return FALSE;

  return enqueue_split (region, to, from, extent);
}

static void
advance (GpuRegionSide *side,
         gboolean       by_slices)
{
  side->offset += by_slices ? side->slice_pitch : side->row_pitch;
  if (by_slices)
    side->z++;
  else
    side->y++;
}

/* Slice by slice, or a slice row by row. */
static gboolean
enqueue_split (GpuOpenclRegion     *region,
               const GpuRegionSide *to,
               const GpuRegionSide *from,
               const GpuExtent     *extent)
{
  const gboolean by_slices = extent->depth > 1;
  const gsize n = by_slices ? extent->depth : extent->height;
  const GpuExtent piece = { extent->width, by_slices ? extent->height : 1, 1 };
  GpuRegionSide to_piece = *to;
  GpuRegionSide from_piece = *from;

  for (gsize i = 0; i < n; i++)
    {
      if (!enqueue_or_split (region, &to_piece, &from_piece, &piece))
        return FALSE;
      advance (&to_piece, by_slices);
      advance (&from_piece, by_slices);
    }

  return TRUE;
}

static gboolean
enqueue_pieces (GpuOpenclRegion     *region,
                const GpuRegionSide *to,
                const GpuRegionSide *from,
                const GpuExtent     *extent,
                cl_event            *event)
{
  const guint first = region->pieces != NULL ? region->pieces->len : 0;

  if (enqueue_split (region, to, from, extent) && event != NULL)
    {
      region->function = "clEnqueueMarkerWithWaitList";
      region->code = clEnqueueMarkerWithWaitList (region->stream->queue,
                                                  region->pieces->len - first,
                                                  &g_array_index (region->pieces, cl_event, first),
                                                  event);
    }

  return region->code == CL_SUCCESS;
}

static gboolean
enqueue_any (GpuOpenclRegion     *region,
             const GpuRegionSide *to,
             const GpuRegionSide *from,
             const GpuExtent     *extent,
             cl_event            *event)
{
  if (_gpu_opencl_region_fits (region, to, from, extent))
    {
      if (_gpu_opencl_region_enqueue (region, to, from, extent, event)
          || !is_refused (region) || (extent->height == 1 && extent->depth == 1))
        return region->code == CL_SUCCESS;
    }

  return enqueue_pieces (region, to, from, extent, event);
}

/* --- through other memory --------------------------------------------------------------------- */

static gboolean
enqueue_halves (GpuOpenclRegion             *region,
                const GpuOpenclRegionMemory *between,
                const GpuRegionSide         *to,
                const GpuRegionSide         *from,
                const GpuExtent             *extent,
                cl_event                    *event);

/* The driver of NVIDIA copies between buffers and arrays of one dimension the first layer alone,
 * and any of them between images: the layers become the rows of an image of two dimensions. */
static gboolean
enqueue_layers (GpuOpenclRegion     *region,
                const GpuRegionSide *to,
                const GpuRegionSide *from,
                const GpuExtent     *extent,
                cl_event            *event)
{
  const GpuOpenclImage *image = region->destination.image != NULL ? region->destination.image
                                                                  : region->source.image;
  GpuOpenclImage rows = { .base.description = image->base.description };
  GpuOpenclRegionMemory between = { NULL, &rows };
  cl_image_desc descriptor;

  rows.base.description.type = GPU_IMAGE_TYPE_IMAGE_2D;
  rows.base.description.extent = *extent;
  rows.base.description.n_levels = 1;
  descriptor = _gpu_opencl_image_get_descriptor (&rows.base.description);
  region->function = "clCreateImage";
  rows.mem = between.mem = _gpu_opencl_image_create_mem (region->stream->base.context,
                                                         CL_MEM_READ_WRITE,
                                                         &rows.base.description, &descriptor,
                                                         NULL, &region->code);
  if (region->code != CL_SUCCESS)
    return FALSE;

  enqueue_halves (region, &between, to, from, extent, event);
  clReleaseMemObject (between.mem);

  return region->code == CL_SUCCESS;
}

static gboolean
is_row_array (const GpuOpenclImage *image)
{
  return image != NULL && image->base.description.type == GPU_IMAGE_TYPE_IMAGE_1D_ARRAY;
}

static gboolean
enqueue_or_layers (GpuOpenclRegion     *region,
                   const GpuRegionSide *to,
                   const GpuRegionSide *from,
                   const GpuExtent     *extent,
                   cl_event            *event)
{
  const gboolean both = region->destination.image != NULL && region->source.image != NULL;

  if (enqueue_any (region, to, from, extent, event))
    return TRUE;

  return region->code == CL_INVALID_VALUE && region->data == NULL && !both
         && (is_row_array (region->destination.image) || is_row_array (region->source.image))
         && enqueue_layers (region, to, from, extent, event);
}

/* One of the two, from or to @between; without an image extents count bytes. */
static gboolean
enqueue_half (GpuOpenclRegion             *whole,
              gboolean                     is_first,
              const GpuOpenclRegionMemory *between,
              const GpuRegionSide         *side,
              GpuExtent                    extent,
              cl_event                    *event)
{
  GpuOpenclRegion half = *whole;
  GpuRegionSide other = { .offset = 0 };
  gboolean success;

  if (is_first)
    half.destination = *between;
  else
    half.source = *between;

  other.row_pitch = extent.width * whole->unit;
  other.slice_pitch = other.row_pitch * extent.height;
  if (half.destination.image == NULL && half.source.image == NULL)
    {
      extent.width *= whole->unit;
      half.unit = 1;
    }

  success = enqueue_or_layers (&half, is_first ? &other : side, is_first ? side : &other, &extent,
                               event);
  whole->function = half.function;
  whole->code = half.code;
  whole->pieces = half.pieces;

  return success;
}

/* On a stream in order there is nothing to do between the two. */
static gboolean
enqueue_barrier (GpuOpenclRegion *region)
{
  cl_event barrier = NULL;

  if (!region->stream->out_of_order)
    return TRUE;

  region->function = "clEnqueueBarrierWithWaitList";
  region->code = clEnqueueBarrierWithWaitList (region->stream->queue, 0, NULL, &barrier);
  if (region->code == CL_SUCCESS)
    keep_piece (region, barrier);

  return region->code == CL_SUCCESS;
}

/* The driver keeps what is in between until the commands are done. */
static gboolean
enqueue_halves (GpuOpenclRegion             *region,
                const GpuOpenclRegionMemory *between,
                const GpuRegionSide         *to,
                const GpuRegionSide         *from,
                const GpuExtent             *extent,
                cl_event                    *event)
{
  cl_event first = NULL;

  if (!enqueue_half (region, TRUE, between, from, *extent, &first))
    return FALSE;

  keep_piece (region, first);

  return enqueue_barrier (region) && enqueue_half (region, FALSE, between, to, *extent, event);
}

/* FALSE with @has_buffer unset if there was no memory for it, and nothing done. */
static gboolean
enqueue_through_buffer (GpuOpenclRegion     *region,
                        const GpuRegionSide *to,
                        const GpuRegionSide *from,
                        const GpuExtent     *extent,
                        cl_event            *event,
                        gboolean            *has_buffer)
{
  const gsize size = extent->width * extent->height * extent->depth * region->unit;
  GpuOpenclRegionMemory between = { NULL, NULL };

  region->function = "clCreateBuffer";
  between.mem = clCreateBuffer (_gpu_opencl_context_handle (region->stream->base.context),
                                CL_MEM_READ_WRITE, size, NULL, &region->code);
  *has_buffer = region->code == CL_SUCCESS;
  if (!*has_buffer)
    return FALSE;

  enqueue_halves (region, &between, to, from, extent, event);
  clReleaseMemObject (between.mem);

  return region->code == CL_SUCCESS;
}

/* In how many commands a copy between an image and a buffer with gaps would go. */
static gsize
count_pieces (const GpuOpenclRegion *region,
              const GpuRegionSide   *to,
              const GpuRegionSide   *from,
              const GpuExtent       *extent)
{
  const GpuRegionSide *linear = region->destination.image != NULL ? from : to;
  const GpuExtent slice = { extent->width, extent->height, 1 };

  if (_gpu_opencl_region_is_tight (linear, &slice, region->unit))
    return extent->depth;

  return extent->height * extent->depth;
}

static gboolean
enqueue_whole (GpuOpenclRegion     *region,
               const GpuRegionSide *to,
               const GpuRegionSide *from,
               const GpuExtent     *extent,
               cl_event            *event)
{
  const gboolean both = region->destination.image != NULL && region->source.image != NULL;
  const gboolean one = region->destination.image != NULL || region->source.image != NULL;
  gboolean has_buffer;

  if (region->data != NULL || !one || _gpu_opencl_region_fits (region, to, from, extent)
      || (!both && count_pieces (region, to, from, extent) <= N_PIECES))
    return enqueue_or_layers (region, to, from, extent, event);

  if (enqueue_through_buffer (region, to, from, extent, event, &has_buffer))
    return TRUE;

  return !has_buffer && !both && enqueue_or_layers (region, to, from, extent, event);
}

/* --- all of it -------------------------------------------------------------------------------- */

static char *
describe_side (const GpuOpenclRegionMemory *memory,
               const GpuRegionSide         *side)
{
#define SIZE "%" G_GSIZE_FORMAT
  if (memory->image != NULL)
    return g_strdup_printf ("texel " SIZE ", " SIZE ", " SIZE " of an image", side->x, side->y,
                            side->z);

  return g_strdup_printf ("offset " SIZE ", row pitch " SIZE ", slice pitch " SIZE, side->offset,
                          side->row_pitch, side->slice_pitch);
}

static void
set_region_error (GError                **error,
                  const GpuOpenclRegion  *region,
                  const GpuRegionSide    *to,
                  const GpuRegionSide    *from,
                  const GpuExtent        *extent)
{
  g_autofree char *source = describe_side (&region->source, from);
  g_autofree char *destination = describe_side (&region->destination, to);

  _gpu_opencl_set_error (error, region->function, region->code, "region of " SIZE " x " SIZE " x "
                         SIZE " %s from %s to %s", extent->width, extent->height, extent->depth,
                         region->unit > 1 ? "texels" : "bytes", source, destination);
#undef SIZE
}

/* An image over a buffer becomes its buffer. */
static void
set_memory (GpuOpenclRegionMemory *memory,
            const GpuRegionSide   *side,
            gsize                 *unit)
{
  const GpuOpenclImage *image;

  if (side->memory == NULL)
    return;

  memory->mem = _gpu_opencl_memory_target (side->memory);
  if (!side->memory->is_image)
    return;

  image = (GpuOpenclImage *) side->memory;
  *unit = image->base.description.texel_size;
  if (image->buffer == NULL)
    memory->image = image;
}

/* Of a slice, or another part of a buffer: PoCL crashes when it copies rows, or between images and
 * buffers, and the buffer is such a part. */
static void
use_parent (GpuOpenclRegionMemory *memory,
            GpuRegionSide         *side)
{
  const GpuOpenclBuffer *buffer = (const GpuOpenclBuffer *) side->memory;

  if (side->memory->is_image || buffer->parent == NULL)
    return;

  memory->mem = buffer->parent;
  side->offset += buffer->parent_offset;
}

/* After a failure: whoever called keeps what the pieces use, and their events if it asked for
 * one. Takes @pieces over. */
static void
leave_pieces (GpuOpenclStream  *stream,
              GArray           *pieces,
              GpuNativeEvent  **event)
{
  cl_event last = g_array_index (pieces, cl_event, pieces->len - 1);

  stream->base.partial = TRUE;

  if (event == NULL)
    {
      g_array_unref (pieces);
      return;
    }

  clRetainEvent (last);
  *event = _gpu_opencl_event_new (last);
  ((GpuOpenclEvent *) *event)->pieces = pieces;
}

/* What @region has come to: @native is the event of the last command. */
static gboolean
end_region (GpuOpenclRegion      *region,
            gboolean              enqueued,
            const GpuRegionSide  *to,
            const GpuRegionSide  *from,
            const GpuExtent      *extent,
            cl_event              native,
            GpuNativeEvent      **event,
            GError              **error)
{
  if (enqueued && event != NULL)
    {
      *event = _gpu_opencl_event_new (native);
      ((GpuOpenclEvent *) *event)->pieces = g_steal_pointer (&region->pieces);
    }
  else if (!enqueued)
    {
      set_region_error (error, region, to, from, extent);
      if (region->pieces != NULL)
        leave_pieces (region->stream, g_steal_pointer (&region->pieces), event);
    }
  g_clear_pointer (&region->pieces, g_array_unref);

  return enqueued;
}

gboolean
_gpu_opencl_copy_region (GpuNativeStream      *stream,
                         const GpuRegionSide  *destination,
                         const GpuRegionSide  *source,
                         const GpuExtent      *extent,
                         GpuNativeEvent      **event,
                         GError              **error)
{
  GpuOpenclRegion region =
  {
    .stream = (GpuOpenclStream *) stream,
    .data   = destination->memory == NULL ? destination->data : source->data,
    .unit   = 1
  };
  GpuRegionSide to = *destination;
  GpuRegionSide from = *source;
  GpuExtent size = *extent;
  cl_event native = NULL;
  gboolean enqueued;

  set_memory (&region.destination, destination, &region.unit);
  set_memory (&region.source, source, &region.unit);
  if (region.data == NULL)
    {
      use_parent (&region.destination, &to);
      use_parent (&region.source, &from);
    }
  if (region.destination.image == NULL && region.source.image == NULL)
    {
      size.width *= region.unit;
      region.unit = 1;
    }

  enqueued = enqueue_whole (&region, &to, &from, &size, event != NULL ? &native : NULL);

  return end_region (&region, enqueued, destination, source, &size, native, event, error);
}

/* --- fills ------------------------------------------------------------------------------------ */

static gboolean
enqueue_texels (GpuOpenclRegion     *region,
                gconstpointer        texel,
                const GpuRegionSide *to,
                const GpuRegionSide *from,
                const GpuExtent     *extent,
                cl_event            *event)
{
  const gsize size = extent->width * extent->height * extent->depth * region->unit;
  const cl_mem buffer = region->source.mem;
  cl_event first = NULL;

  region->function = "clEnqueueFillBuffer";
  region->code = clEnqueueFillBuffer (region->stream->queue, buffer, texel, region->unit, 0, size,
                                      0, NULL, &first);
  if (region->code != CL_SUCCESS)
    return FALSE;

  keep_piece (region, first);

  return enqueue_barrier (region) && enqueue_or_layers (region, to, from, extent, event);
}

gboolean
_gpu_opencl_fill_through_buffer (GpuNativeStream      *stream,
                                 GpuNativeImage       *image,
                                 const GpuRegionSide  *side,
                                 const GpuExtent      *extent,
                                 gconstpointer         texel,
                                 GpuNativeEvent      **event,
                                 GError              **error)
{
  const gsize unit = image->description.texel_size;
  const GpuRegionSide from = { .row_pitch = extent->width * unit,
                               .slice_pitch = extent->width * extent->height * unit };
  GpuOpenclRegion region =
  {
    .stream      = (GpuOpenclStream *) stream,
    .destination = { ((GpuOpenclImage *) image)->mem, (GpuOpenclImage *) image },
    .function    = "clCreateBuffer",
    .unit        = unit
  };
  cl_event native = NULL;
  gboolean enqueued = FALSE;

  region.source.mem = clCreateBuffer (_gpu_opencl_context_handle (stream->context),
                                      CL_MEM_READ_WRITE, from.slice_pitch * extent->depth, NULL,
                                      &region.code);
  if (region.code == CL_SUCCESS)
    {
      enqueued = enqueue_texels (&region, texel, side, &from, extent,
                                 event != NULL ? &native : NULL);
      clReleaseMemObject (region.source.mem);
    }

  return end_region (&region, enqueued, side, &from, extent, native, event, error);
}
