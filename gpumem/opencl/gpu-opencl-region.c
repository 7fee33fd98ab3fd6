/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Copies of regions. OpenCL has functions for such copies, with restrictions: the slice pitch must
 * be a multiple of the row pitch. A copy within one buffer needs the same pitches for the source
 * and the destination. In a copy between a buffer and an image, the buffer must not have gaps
 * between rows or slices. Two images must have the same format. A region that does not meet the
 * restrictions is split into slices or rows, or copied through an intermediate buffer.
 */
#include "config.h"

#include "gpumem/opencl/gpu-opencl-region-private.h"

/* If a copy needs more commands than this, an intermediate buffer is faster: on an H100 a command
 * takes 9 us, and creating and releasing a buffer takes 10 us. */
#define N_PIECES 4

/* Takes ownership of @piece. */
static void
retain_part (GpuOpenclRegion *region,
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

  retain_part (region, piece);

  return TRUE;
}

static gboolean
enqueue_split (GpuOpenclRegion     *region,
               const GpuRegionSide *to,
               const GpuRegionSide *from,
               const GpuExtent     *extent);

/* Returns whether to retry in smaller pieces. NVIDIA's driver counts the last slice of a region as
 * a whole slice, and therefore refuses regions that end near the end of a buffer. PoCL reports an
 * overlap for interleaved regions of one buffer. */
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

/* Enqueues one copy for each slice or, if there is a single slice, one copy for each row. */
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

/* Copies through a 2D image whose rows are the layers of the 1D array. Between a buffer and a 1D
 * array, NVIDIA's driver copies only the first layer; between two images it copies all layers. */
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
  GpuOpenclRegionMemory between = { .image = &rows };
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

  return region->code == CL_INVALID_VALUE && !_gpu_opencl_region_has_host (region) && !both
         && (is_row_array (region->destination.image) || is_row_array (region->source.image))
         && enqueue_layers (region, to, from, extent, event);
}

/* Enqueues the first of two copies, from the source to @between, or the second, from @between to
 * the destination. If neither memory is an image, extents are in bytes. */
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

/* Called between two commands of a region operation. Orders the later command after the earlier
 * one. In-order streams need no barrier for this order. */
static gboolean
enqueue_barrier (GpuOpenclRegion *region)
{
  cl_event barrier = NULL;

  if (!region->stream->out_of_order)
    return TRUE;

  region->function = "clEnqueueBarrierWithWaitList";
  region->code = clEnqueueBarrierWithWaitList (region->stream->queue, 0, NULL, &barrier);
  if (region->code == CL_SUCCESS)
    retain_part (region, barrier);

  return region->code == CL_SUCCESS;
}

/* Copies from @from to @between, and then from @between to @to. On return, the caller may release
 * @between, because the driver retains it until both commands complete. */
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

  retain_part (region, first);

  return enqueue_barrier (region) && enqueue_half (region, FALSE, between, to, *extent, event);
}

/* If the buffer cannot be created, enqueues nothing, sets @has_buffer to FALSE and returns
 * FALSE. */
static gboolean
enqueue_through_buffer (GpuOpenclRegion     *region,
                        const GpuRegionSide *to,
                        const GpuRegionSide *from,
                        const GpuExtent     *extent,
                        cl_event            *event,
                        gboolean            *has_buffer)
{
  const gsize size = extent->width * extent->height * extent->depth * region->unit;
  GpuOpenclRegionMemory between = { .mem = NULL };

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

/* Counts the commands of a copy between an image and a buffer with gaps: one command for each slice
 * if the rows of a slice have no gaps, otherwise one for each row. */
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

  if (_gpu_opencl_region_has_host (region) || !one
      || _gpu_opencl_region_fits (region, to, from, extent)
      || (!both && count_pieces (region, to, from, extent) <= N_PIECES))
    {
      /* For two layers of one array, Intel's runtime reports an overlap: use a buffer in this
       * case. */
      if (enqueue_or_layers (region, to, from, extent, event)
          || !both || region->code != CL_MEM_COPY_OVERLAP)
        return region->code == CL_SUCCESS;
    }

  if (enqueue_through_buffer (region, to, from, extent, event, &has_buffer))
    return TRUE;

  return !has_buffer && !both && enqueue_or_layers (region, to, from, extent, event);
}

/* --- within host memory ----------------------------------------------------------------------- */

/* Returns the largest portion of a region that fits into @size bytes: slices, rows of one slice, or
 * a part of a row. */
static GpuExtent
get_portion (const GpuExtent *extent,
             gsize            size)
{
  if (extent->width > size)
    return (GpuExtent) { size, 1, 1 };
  if (extent->height > size / extent->width)
    return (GpuExtent) { extent->width, size / extent->width, 1 };

  return (GpuExtent) { extent->width, extent->height,
                       MIN (extent->depth, size / (extent->width * extent->height)) };
}

static GpuRegionSide
get_side_at (const GpuRegionSide *side,
             const GpuExtent     *at)
{
  GpuRegionSide moved = *side;

  moved.offset += at->width + at->height * side->row_pitch + at->depth * side->slice_pitch;

  return moved;
}

/* Moves @at from the current portion to the next. Returns FALSE if @portion was the last. */
static gboolean
move_to_next (GpuExtent       *at,
              const GpuExtent *portion,
              const GpuExtent *extent)
{
  at->width += portion->width;
  if (at->width < extent->width)
    return TRUE;

  at->width = 0;
  at->height += portion->height;
  if (at->height < extent->height)
    return TRUE;

  at->height = 0;
  at->depth += portion->depth;

  return at->depth < extent->depth;
}

/* OpenCL has no command for copies within host memory. Therefore each portion is copied to a small
 * device buffer, and from this buffer to the destination. */
static gboolean
enqueue_portions (GpuOpenclRegion             *region,
                  const GpuOpenclRegionMemory *between,
                  const GpuExtent             *largest,
                  const GpuRegionSide         *to,
                  const GpuRegionSide         *from,
                  const GpuExtent             *extent,
                  cl_event                    *event)
{
  GpuExtent at = { 0, 0, 0 };
  gboolean is_last;

  do
    {
      const GpuExtent portion = { MIN (largest->width, extent->width - at.width),
                                  MIN (largest->height, extent->height - at.height),
                                  MIN (largest->depth, extent->depth - at.depth) };
      const GpuRegionSide to_portion = get_side_at (to, &at);
      const GpuRegionSide from_portion = get_side_at (from, &at);
      cl_event piece = NULL;

      is_last = !move_to_next (&at, &portion, extent);
      if (!enqueue_halves (region, between, &to_portion, &from_portion, &portion,
                           is_last ? event : &piece))
        return FALSE;
      if (!is_last)
        retain_part (region, piece);
    }
  while (!is_last && enqueue_barrier (region));

  return region->code == CL_SUCCESS;
}

static gboolean
enqueue_host_to_host (GpuOpenclRegion     *region,
                      const GpuRegionSide *to,
                      const GpuRegionSide *from,
                      const GpuExtent     *extent,
                      cl_event            *event)
{
  const GpuExtent largest = get_portion (extent, GPU_OPENCL_SCRATCH_SIZE);
  const gsize size = largest.width * largest.height * largest.depth;
  GpuOpenclRegionMemory between = { .mem = NULL };

  region->function = "clCreateBuffer";
  between.mem = clCreateBuffer (_gpu_opencl_context_handle (region->stream->base.context),
                                CL_MEM_READ_WRITE, size, NULL, &region->code);
  if (region->code != CL_SUCCESS)
    return FALSE;

  enqueue_portions (region, &between, &largest, to, from, extent, event);
  clReleaseMemObject (between.mem);

  return region->code == CL_SUCCESS;
}

/* --- complete copies -------------------------------------------------------------------------- */

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

/* Sets the fields of @memory for the memory of @side. A 1D_BUFFER image is treated as linear
 * memory: the commands use the buffer that is its storage. For every image, also sets @unit to the
 * size of a texel. */
static void
set_memory (GpuOpenclRegionMemory *memory,
            const GpuRegionSide   *side,
            gsize                 *unit)
{
  const GpuOpenclImage *image;
  const GpuOpenclBuffer *usm;

  if (side->memory == NULL || side->memory->is_host_only)
    {
      memory->data = side->memory == NULL ? side->data : side->memory->host;
      return;
    }

  usm = _gpu_opencl_memory_get_usm (side->memory);

  if (usm != NULL)
    {
      memory->data = usm->svm;
      memory->usm = usm->usm;
      return;
    }

  memory->mem = _gpu_opencl_memory_target (side->memory);
  if (!side->memory->is_image)
    return;

  image = (GpuOpenclImage *) side->memory;
  *unit = image->base.description.texel_size;
  if (image->buffer == NULL)
    memory->image = image;
}

/* Replaces a sub-buffer with its parent: PoCL crashes on sub-buffers when it copies rows, and
 * when it copies between images and buffers. */
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

/* Called if a command of a copy failed after other commands were enqueued. @pieces has the events
 * of the enqueued commands. Sets base.partial, so that the caller retains the memory that these
 * commands use. Takes ownership of @pieces. If @event is not NULL, sets it to the event of the last
 * enqueued command, which then owns @pieces. */
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
  *event = _gpu_opencl_event_new (&stream->base, last);
  ((GpuOpenclEvent *) *event)->pieces = pieces;
}

/* Returns the event or sets the error of @region. @native is the event of the last command. */
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
      *event = _gpu_opencl_event_new (&region->stream->base, native);
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
    .unit   = 1
  };
  GpuRegionSide to = *destination;
  GpuRegionSide from = *source;
  GpuExtent size = *extent;
  cl_event native = NULL;
  gboolean enqueued;
  gboolean held;

  set_memory (&region.destination, destination, &region.unit);
  set_memory (&region.source, source, &region.unit);
  if (!_gpu_opencl_region_has_host (&region))
    {
      use_parent (&region.destination, &to);
      use_parent (&region.source, &from);
    }
  if (region.destination.image == NULL && region.source.image == NULL)
    {
      size.width *= region.unit;
      region.unit = 1;
    }

  held = _gpu_opencl_hold_slices (stream);

  if (region.destination.data != NULL && region.source.data != NULL
      && region.destination.usm == NULL && region.source.usm == NULL)
    enqueued = enqueue_host_to_host (&region, &to, &from, &size, event != NULL ? &native : NULL);
  else
    enqueued = enqueue_whole (&region, &to, &from, &size, event != NULL ? &native : NULL);

  _gpu_opencl_release_slices (stream, held);

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

  retain_part (region, first);

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
    .destination = { .mem = ((GpuOpenclImage *) image)->mem, .image = (GpuOpenclImage *) image },
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

/* Fills the source of @region, a small buffer of @piece_size bytes, with the pattern, and copies it
 * repeatedly to the destination. */
static gboolean
enqueue_repeated (GpuOpenclRegion *region,
                  gconstpointer    pattern,
                  gsize            offset,
                  gsize            size,
                  gsize            piece_size,
                  cl_event        *event)
{
  const GpuRegionSide from = { .row_pitch = piece_size, .slice_pitch = piece_size };
  cl_event piece = NULL;

  region->function = "clEnqueueFillBuffer";
  region->code = clEnqueueFillBuffer (region->stream->queue, region->source.mem, pattern,
                                      region->unit, 0, piece_size, 0, NULL, &piece);

  for (gsize done = 0; done < size && region->code == CL_SUCCESS; done += piece_size)
    {
      const GpuExtent extent = { MIN (piece_size, size - done), 1, 1 };
      const GpuRegionSide to = { .offset = offset + done, .row_pitch = extent.width,
                                 .slice_pitch = extent.width };
      gboolean is_last = extent.width == size - done;

      retain_part (region, piece);
      if (enqueue_barrier (region))
        _gpu_opencl_region_enqueue (region, &to, &from, &extent, is_last ? event : &piece);
    }

  return region->code == CL_SUCCESS;
}

gboolean
_gpu_opencl_fill_host (GpuNativeStream      *stream,
                       GpuNativeBuffer      *destination,
                       const GpuNativeFill  *fill,
                       GpuNativeEvent      **event,
                       GError              **error)
{
  const gsize size = fill->size;
  const gsize piece_size = MIN (size, GPU_OPENCL_SCRATCH_SIZE);
  const GpuExtent extent = { size, 1, 1 };
  const GpuRegionSide to = { .offset = fill->offset, .row_pitch = size, .slice_pitch = size };
  GpuOpenclRegion region =
  {
    .stream      = (GpuOpenclStream *) stream,
    .destination = { .data = destination->host },
    .function    = "clCreateBuffer",
    .unit        = fill->pattern_size
  };
  cl_event native = NULL;
  gboolean enqueued = FALSE;

  region.source.mem = clCreateBuffer (_gpu_opencl_context_handle (stream->context),
                                      CL_MEM_READ_WRITE, piece_size, NULL, &region.code);
  if (region.code == CL_SUCCESS)
    {
      enqueued = enqueue_repeated (&region, fill->pattern, fill->offset, size, piece_size,
                                   event != NULL ? &native : NULL);
      clReleaseMemObject (region.source.mem);
    }

  return end_region (&region, enqueued, &to, &to, &extent, native, event, error);
}
