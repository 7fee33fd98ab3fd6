/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Copies of regions. OpenCL has functions for them, but these want a slice pitch that is a
 * multiple of the row pitch, within one buffer the same pitches on both sides, buffers without
 * gaps beside images, and images of one format. What does not fit is enqueued in pieces that do,
 * slices, or else rows; or it goes through a buffer of its own.
 */
#include "config.h"

#include "gpumem/opencl/gpu-opencl-region-private.h"

/* More commands than this take longer than a buffer in between. */
#define N_PIECES 16

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
 * of a buffer: what was refused is tried in smaller pieces. */
static gboolean
enqueue_or_split (GpuOpenclRegion     *region,
                  const GpuRegionSide *to,
                  const GpuRegionSide *from,
                  const GpuExtent     *extent)
{
  const gboolean whole = _gpu_opencl_region_fits (region, to, from, extent);

  if (whole && enqueue_piece (region, to, from, extent))
    return TRUE;
  if ((extent->height == 1 && extent->depth == 1) || (whole && region->code != CL_INVALID_VALUE))
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
          || region->code != CL_INVALID_VALUE || (extent->height == 1 && extent->depth == 1))
        return region->code == CL_SUCCESS;
    }

  return enqueue_pieces (region, to, from, extent, event);
}

/* --- through a buffer ------------------------------------------------------------------------- */

/* Between the two halves of a copy: on a stream in order there is nothing to do. */
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

/* One of the two, from or to @buffer; without an image extents count bytes. */
static gboolean
enqueue_half (GpuOpenclRegion     *whole,
              gboolean             is_first,
              cl_mem               buffer,
              const GpuRegionSide *side,
              GpuExtent            extent,
              cl_event            *event)
{
  GpuOpenclRegion half = *whole;
  GpuRegionSide between = { .offset = 0 };
  gboolean success;

  if (is_first)
    half.destination = (GpuOpenclRegionMemory) { buffer, NULL };
  else
    half.source = (GpuOpenclRegionMemory) { buffer, NULL };

  between.row_pitch = extent.width * whole->unit;
  between.slice_pitch = between.row_pitch * extent.height;
  if (half.destination.image == NULL && half.source.image == NULL)
    {
      extent.width *= whole->unit;
      half.unit = 1;
    }

  success = enqueue_any (&half, is_first ? &between : side, is_first ? side : &between, &extent,
                         event);
  whole->function = half.function;
  whole->code = half.code;
  whole->pieces = half.pieces;

  return success;
}

/* FALSE with @buffer NULL if there was no memory for it, and nothing done. The driver keeps the
 * buffer until the commands are done. */
static gboolean
enqueue_through_buffer (GpuOpenclRegion     *region,
                        cl_context           context,
                        const GpuRegionSide *to,
                        const GpuRegionSide *from,
                        const GpuExtent     *extent,
                        cl_event            *event,
                        cl_mem              *buffer)
{
  const gsize size = extent->width * extent->height * extent->depth * region->unit;
  cl_event first = NULL;

  region->function = "clCreateBuffer";
  *buffer = clCreateBuffer (context, CL_MEM_READ_WRITE, size, NULL, &region->code);
  if (region->code != CL_SUCCESS)
    {
      *buffer = NULL;
      return FALSE;
    }

  if (enqueue_half (region, TRUE, *buffer, from, *extent, &first))
    {
      keep_piece (region, first);
      if (enqueue_barrier (region))
        enqueue_half (region, FALSE, *buffer, to, *extent, event);
    }
  clReleaseMemObject (*buffer);

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
               cl_context           context,
               const GpuRegionSide *to,
               const GpuRegionSide *from,
               const GpuExtent     *extent,
               cl_event            *event)
{
  const gboolean both = region->destination.image != NULL && region->source.image != NULL;
  const gboolean one = region->destination.image != NULL || region->source.image != NULL;
  cl_mem buffer;

  if (region->data != NULL || !one || _gpu_opencl_region_fits (region, to, from, extent)
      || (!both && count_pieces (region, to, from, extent) <= N_PIECES))
    return enqueue_any (region, to, from, extent, event);

  if (enqueue_through_buffer (region, context, to, from, extent, event, &buffer))
    return TRUE;

  return buffer == NULL && !both && enqueue_any (region, to, from, extent, event);
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
  GpuExtent size = *extent;
  cl_event native = NULL;
  gboolean enqueued;

  set_memory (&region.destination, destination, &region.unit);
  set_memory (&region.source, source, &region.unit);
  if (region.destination.image == NULL && region.source.image == NULL)
    {
      size.width *= region.unit;
      region.unit = 1;
    }

  enqueued = enqueue_whole (&region, _gpu_opencl_context_handle (stream->context), destination,
                            source, &size, event != NULL ? &native : NULL);

  if (enqueued && event != NULL)
    {
      *event = _gpu_opencl_event_new (native);
      ((GpuOpenclEvent *) *event)->pieces = g_steal_pointer (&region.pieces);
    }
  else if (!enqueued)
    {
      set_region_error (error, &region, destination, source, &size);
      if (region.pieces != NULL)
        leave_pieces (region.stream, g_steal_pointer (&region.pieces), event);
    }
  g_clear_pointer (&region.pieces, g_array_unref);

  return enqueued;
}
