/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Copies of regions. OpenCL has functions for them, but these want a slice pitch that is a
 * multiple of the row pitch, and within one buffer the same pitches on both sides. What does not
 * fit is enqueued in pieces that do: slices, or else rows.
 */
#include "config.h"

#include "gpumem/opencl/gpu-opencl.h"

typedef struct
{
  GpuNativeStream  *stream;
  cl_command_queue  queue;
  cl_mem            destination;    /* NULL for a read */
  cl_mem            source;         /* NULL for a write */
  gpointer          data;           /* of the host, NULL for a copy */
  const char       *function;       /* the last one called */
  cl_int            code;           /* what it answered */
  GArray           *pieces;         /* of cl_event; NULL if there is only one piece */
} RegionOp;

/* A region as the functions for rectangles take it. */
typedef struct
{
  gsize origin[3];
  gsize row_pitch;
  gsize slice_pitch;
} Rectangle;

/* A pitch that leads nowhere may be anything here, but drivers check it: a single slice gets
 * pitch 0, and single rows in several slices become the rows of one slice. */
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
enqueue_row (RegionOp *op,
             gsize     to,
             gsize     from,
             gsize     size,
             cl_event *event)
{
  if (op->destination == NULL)
    {
      op->function = "clEnqueueReadBuffer";
      op->code = clEnqueueReadBuffer (op->queue, op->source, CL_FALSE, from, size,
                                      (guint8 *) op->data + to, 0, NULL, event);
    }
  else if (op->source == NULL)
    {
      op->function = "clEnqueueWriteBuffer";
      op->code = clEnqueueWriteBuffer (op->queue, op->destination, CL_FALSE, to, size,
                                       (guint8 *) op->data + from, 0, NULL, event);
    }
  else
    {
      op->function = "clEnqueueCopyBuffer";
      op->code = clEnqueueCopyBuffer (op->queue, op->source, op->destination, from, to, size, 0,
                                      NULL, event);
    }
}

static void
enqueue_rectangle (RegionOp        *op,
                   const Rectangle *to,
                   const Rectangle *from,
                   const gsize     *region,
                   cl_event        *event)
{
  if (op->destination == NULL)
    {
      op->function = "clEnqueueReadBufferRect";
      op->code = clEnqueueReadBufferRect (op->queue, op->source, CL_FALSE, from->origin,
                                          to->origin, region, from->row_pitch, from->slice_pitch,
                                          to->row_pitch, to->slice_pitch, op->data, 0, NULL,
                                          event);
    }
  else if (op->source == NULL)
    {
      op->function = "clEnqueueWriteBufferRect";
      op->code = clEnqueueWriteBufferRect (op->queue, op->destination, CL_FALSE, to->origin,
                                           from->origin, region, to->row_pitch, to->slice_pitch,
                                           from->row_pitch, from->slice_pitch, op->data, 0, NULL,
                                           event);
    }
  else
    {
      op->function = "clEnqueueCopyBufferRect";
      op->code = clEnqueueCopyBufferRect (op->queue, op->source, op->destination, from->origin,
                                          to->origin, region, from->row_pitch, from->slice_pitch,
                                          to->row_pitch, to->slice_pitch, 0, NULL, event);
    }
}

/* FALSE if the driver would not take it in one piece. */
static gboolean
fits (const RegionOp      *op,
      const GpuRegionSide *to,
      const GpuRegionSide *from,
      const GpuExtent     *extent)
{
  if (op->destination == op->source &&
      ((extent->height > 1 && to->row_pitch != from->row_pitch) ||
       (extent->depth > 1 && to->slice_pitch != from->slice_pitch)))
    return extent->height == 1 && extent->depth == 1;

  return extent->height == 1 || extent->depth == 1 ||
         (to->slice_pitch % to->row_pitch == 0 && from->slice_pitch % from->row_pitch == 0);
}

static gboolean
enqueue_piece (RegionOp            *op,
               const GpuRegionSide *to,
               const GpuRegionSide *from,
               const GpuExtent     *extent,
               cl_event            *event)
{
  const gsize region[3] =
  {
    extent->width,
    extent->height == 1 ? extent->depth : extent->height,
    extent->height == 1 ? 1 : extent->depth
  };
  cl_event piece = NULL;

  if (op->pieces != NULL)
    event = &piece;

  if (region[1] == 1 && region[2] == 1)
    {
      enqueue_row (op, to->offset, from->offset, extent->width, event);
    }
  else
    {
      Rectangle to_rectangle = get_rectangle (to, extent);
      Rectangle from_rectangle = get_rectangle (from, extent);

      enqueue_rectangle (op, &to_rectangle, &from_rectangle, region, event);
    }

  if (op->code == CL_SUCCESS && op->pieces != NULL)
    g_array_append_val (op->pieces, piece);

  return op->code == CL_SUCCESS;
}

static gboolean
enqueue_split (RegionOp            *op,
               const GpuRegionSide *to,
               const GpuRegionSide *from,
               const GpuExtent     *extent);

/* The driver of NVIDIA counts whole slices, so it refuses regions that end within the last bytes
 * of a buffer: what was refused is tried in smaller pieces. */
static gboolean
enqueue_or_split (RegionOp            *op,
                  const GpuRegionSide *to,
                  const GpuRegionSide *from,
                  const GpuExtent     *extent)
{
  const gboolean whole = fits (op, to, from, extent);

  if (whole && enqueue_piece (op, to, from, extent, NULL))
    return TRUE;
  if ((extent->height == 1 && extent->depth == 1) || (whole && op->code != CL_INVALID_VALUE))
    return FALSE;

  return enqueue_split (op, to, from, extent);
}

/* Slice by slice, or a slice row by row. */
static gboolean
enqueue_split (RegionOp            *op,
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
      if (!enqueue_or_split (op, &to_piece, &from_piece, &piece))
        return FALSE;
      to_piece.offset += by_slices ? to->slice_pitch : to->row_pitch;
      from_piece.offset += by_slices ? from->slice_pitch : from->row_pitch;
    }

  return TRUE;
}

static void
enqueue_pieces (RegionOp            *op,
                const GpuRegionSide *to,
                const GpuRegionSide *from,
                const GpuExtent     *extent,
                cl_event            *event)
{
  op->pieces = _gpu_opencl_pieces_new ();

  if (enqueue_split (op, to, from, extent) && event != NULL)
    {
      op->function = "clEnqueueMarkerWithWaitList";
      op->code = clEnqueueMarkerWithWaitList (op->queue, op->pieces->len,
                                              (cl_event *) (gpointer) op->pieces->data, event);
    }
}

/* After a failure: whoever called keeps what the pieces use, and their events if it asked for
 * one. */
static void
leave_pieces (RegionOp        *op,
              GpuNativeEvent **event)
{
  cl_event last = g_array_index (op->pieces, cl_event, op->pieces->len - 1);

  op->stream->partial = TRUE;

  if (event == NULL)
    return;

  clRetainEvent (last);
  *event = _gpu_opencl_event_new (last);
  ((GpuOpenclEvent *) *event)->pieces = g_steal_pointer (&op->pieces);
}

static gboolean
enqueue (RegionOp             *op,
         const GpuRegionSide  *to,
         const GpuRegionSide  *from,
         const GpuExtent      *extent,
         GpuNativeEvent      **event,
         GError              **error)
{
  cl_event native = NULL;
  cl_event *wanted = event != NULL ? &native : NULL;
  gboolean enqueued;

  if (!fits (op, to, from, extent) || (!enqueue_piece (op, to, from, extent, wanted)
                                       && op->code == CL_INVALID_VALUE))
    enqueue_pieces (op, to, from, extent, wanted);

#define SIZE "%" G_GSIZE_FORMAT
#define SIDE "offset " SIZE ", row pitch " SIZE ", slice pitch " SIZE
  enqueued = _gpu_opencl_enqueued (op->code, op->function, native, event, error,
                                   "region of " SIZE " x " SIZE " x " SIZE " bytes from " SIDE
                                   " to " SIDE, extent->width, extent->height, extent->depth,
                                   from->offset, from->row_pitch, from->slice_pitch, to->offset,
                                   to->row_pitch, to->slice_pitch);
#undef SIDE
#undef SIZE

  if (enqueued && event != NULL)
    ((GpuOpenclEvent *) *event)->pieces = g_steal_pointer (&op->pieces);
  else if (!enqueued && op->pieces != NULL && op->pieces->len > 0)
    leave_pieces (op, event);
  g_clear_pointer (&op->pieces, g_array_unref);

  return enqueued;
}

static cl_mem
get_buffer (const GpuRegionSide *side)
{
  return side->memory != NULL ? _gpu_opencl_buffer_handle (side->memory) : NULL;
}

gboolean
_gpu_opencl_copy_region (GpuNativeStream      *stream,
                         const GpuRegionSide  *destination,
                         const GpuRegionSide  *source,
                         const GpuExtent      *extent,
                         GpuNativeEvent      **event,
                         GError              **error)
{
  RegionOp op =
  {
    .stream      = stream,
    .queue       = _gpu_opencl_stream_handle (stream),
    .destination = get_buffer (destination),
    .source      = get_buffer (source),
    .data        = destination->memory == NULL ? destination->data : source->data
  };

  return enqueue (&op, destination, source, extent, event, error);
}
