/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Operations of a stream on regions of rows and slices, between memory of any kind. */
#include "config.h"

#include "gpumem/command/gpu-command-private.h"
#include "gpumem/command/gpu-staging-private.h"
#include "gpumem/device/gpu-context-private.h"
#include "gpumem/format/gpu-region-private.h"
#include "gpumem/memory/gpu-image-private.h"

/* The source or the destination. Hazards and mappings are checked for the linear range from the
 * first to the last byte of the region. */
typedef struct
{
  const char    *name;              /* for errors */
  GpuMemory     *memory;            /* NULL for host memory */
  gsize          size;              /* of the memory, in bytes */
  GpuRegionSide  native;
  gsize          base;              /* the position of offset 0, to compare two sides */
  gsize          offset;
  gsize          end;
  gsize          row_pitch;
  gsize          slice_pitch;
} Side;

typedef struct
{
  const char *function;
  Side        destination;
  Side        source;
  GpuExtent    extent;              /* in the units of the back ends */
  GpuExtent    bytes;               /* the same with the width in bytes */
  gboolean     does_nothing;        /* the source and the destination are the same bytes, and no
                                     * command needs to run */
  GpuTransfer *transfer;            /* NULL unless staged */
} RegionCopy;

#define BYTES_FORMAT "%" G_GSIZE_FORMAT " bytes x %" G_GSIZE_FORMAT " rows x %" G_GSIZE_FORMAT \
                     " slices"
#define TEXELS_FORMAT "%" G_GSIZE_FORMAT " x %" G_GSIZE_FORMAT " x %" G_GSIZE_FORMAT " texels"
#define EXTENT_ARGS(extent) (extent)->width, (extent)->height, (extent)->depth

/* Sets the native memory. Another thread that spills or restores the memory may replace it before
 * the locks are taken. Caller holds the locks. */
static const RegionCopy *
set_native_memory (gconstpointer operation)
{
  RegionCopy *copy = (RegionCopy *) operation;

  if (copy->destination.memory != NULL)
    copy->destination.native.memory = copy->destination.memory->storage->buffer;

  if (copy->source.memory != NULL)
    copy->source.native.memory = copy->source.memory->storage->buffer;

  return copy;
}

static gboolean
run_region (gconstpointer     operation,
            GpuNativeStream  *stream,
            GpuNativeEvent  **event,
            GError          **error)
{
  const RegionCopy *copy = set_native_memory (operation);

  return stream->backend->memory->copy_region (stream, &copy->destination.native,
                                               &copy->source.native, &copy->extent, event, error);
}

static gboolean
run_staged (gconstpointer     operation,
            GpuNativeStream  *stream,
            GpuNativeEvent  **event,
            GError          **error)
{
  const RegionCopy *copy = set_native_memory (operation);
  const Side *device = copy->destination.memory != NULL ? &copy->destination : &copy->source;
  g_autoptr (GError) failure = NULL;

  if (_gpu_transfer_submit (copy->transfer, stream, device->native.memory, event, &failure))
    return TRUE;

  if (!_gpu_transfer_has_begun (copy->transfer))
    return run_region (operation, stream, event, error);

  g_propagate_error (error, g_steal_pointer (&failure));

  return FALSE;
}

static gboolean
is_image (const Side *side)
{
  return side->memory != NULL && GPU_IS_IMAGE (side->memory);
}

/* Checks that the memory is usable, then sets the context and the size of @side. */
static gboolean
check_side (const char  *function,
            Side        *side,
            gboolean     write,
            GError     **error)
{
  if (side->memory == NULL)
    return TRUE;

  if (!_gpu_memory_check_access (side->memory, write, function, error))
    return FALSE;

  side->native.context = side->memory->storage->context;
  side->size = side->memory->size;

  return TRUE;
}

/* Sets the width of the extent in bytes. */
static gboolean
resolve_extent (RegionCopy  *copy,
                GError     **error)
{
  gsize to = is_image (&copy->destination)
             ? GPU_IMAGE (copy->destination.memory)->description.texel_size : 0;
  gsize from = is_image (&copy->source)
               ? GPU_IMAGE (copy->source.memory)->description.texel_size : 0;

  copy->bytes = copy->extent;

  if (to != 0 && from != 0 && to != from)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "%s: texels of %" G_GSIZE_FORMAT " bytes cannot be copied to an image with "
                   "texels of %" G_GSIZE_FORMAT, copy->function, from, to);
      return FALSE;
    }

  if (to == 0 && from == 0)
    return TRUE;

  if (g_size_checked_mul (&copy->bytes.width, copy->extent.width, MAX (to, from)))
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s: the size of " TEXELS_FORMAT " overflows", copy->function,
               EXTENT_ARGS (&copy->extent));

  return FALSE;
}

static gboolean
resolve_linear (const RegionCopy  *copy,
                Side              *side,
                const GpuLayout   *layout,
                GError           **error)
{
  if (!_gpu_region_resolve (layout, &copy->bytes, copy->function, side->name, &side->native,
                            &side->end, error))
    return FALSE;

  side->offset = side->native.offset;
  side->row_pitch = side->native.row_pitch;
  side->slice_pitch = side->native.slice_pitch;

  if (side->end <= side->size)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s: a region of " BYTES_FORMAT " from offset %" G_GSIZE_FORMAT ", row pitch %"
               G_GSIZE_FORMAT ", slice pitch %" G_GSIZE_FORMAT ", exceeds the %" G_GSIZE_FORMAT
               " bytes of the %s", copy->function, EXTENT_ARGS (&copy->bytes), side->offset,
               side->row_pitch, side->slice_pitch, side->size, side->name);

  return FALSE;
}

static gboolean
resolve_image (const RegionCopy  *copy,
               Side              *side,
               const GpuLayout   *layout,
               GError           **error)
{
  if (!_gpu_image_resolve (GPU_IMAGE (side->memory), layout, &copy->extent, copy->function,
                           side->name, &side->native, error))
    return FALSE;

  side->offset = side->native.offset;
  side->row_pitch = side->native.row_pitch;
  side->slice_pitch = side->native.slice_pitch;
  side->end = _gpu_region_get_end (&side->native, &copy->bytes);

  return TRUE;
}

static gboolean
resolve (RegionCopy       *copy,
         const GpuLayout  *destination_layout,
         const GpuLayout  *source_layout,
         GError          **error)
{
  const GpuLayout *layouts[] = { destination_layout, source_layout };
  Side *sides[] = { &copy->destination, &copy->source };

  if (!check_side (copy->function, sides[0], TRUE, error)
      || !check_side (copy->function, sides[1], FALSE, error) || !resolve_extent (copy, error))
    return FALSE;

  for (guint i = 0; i < G_N_ELEMENTS (sides); i++)
    {
      if (!(is_image (sides[i]) ? resolve_image : resolve_linear) (copy, sides[i], layouts[i],
                                                                   error))
        return FALSE;
    }

  return _gpu_region_check_depth (&copy->extent, copy->function, error);
}

/* Returns whether a row of one region shares a byte with a row of the other region. Both regions
 * have the same pitches, and within a slice the later region begins @distance bytes after the
 * earlier region. A row of the later region may also extend into the next row of the earlier
 * region. */
static gboolean
rows_overlap (const RegionCopy *copy,
              gsize             distance)
{
  const GpuExtent *extent = &copy->bytes;
  gsize row_pitch = copy->source.row_pitch;
  gsize rows = extent->height > 1 ? distance / row_pitch : 0;

  distance -= rows * row_pitch;

  return (rows < extent->height && distance < extent->width)
         || (rows + 1 < extent->height && row_pitch - distance < extent->width);
}

static gboolean
has_same_pitches (const RegionCopy *copy)
{
  return (copy->bytes.height == 1 || copy->destination.row_pitch == copy->source.row_pitch)
         && (copy->bytes.depth == 1 || copy->destination.slice_pitch == copy->source.slice_pitch);
}

static gboolean
is_same_region (const RegionCopy *copy)
{
  const Side *to = &copy->destination;
  const Side *from = &copy->source;

  return has_same_pitches (copy) && to->base + to->offset == from->base + from->offset;
}

/* Returns whether a row of @side shares a byte with the range from @begin to @end. The rows do not
 * overlap and are in the order of their positions, so only the last row that begins before @end
 * matters. */
static gboolean
range_overlaps (const Side      *side,
                const GpuExtent *extent,
                gsize            begin,
                gsize            end)
{
  gsize position = side->base + side->offset;
  gsize slices = 0;
  gsize rows = 0;

  if (end <= position)
    return FALSE;

  if (extent->depth > 1)
    slices = MIN ((end - 1 - position) / side->slice_pitch, extent->depth - 1);

  position += slices * side->slice_pitch;

  if (extent->height > 1)
    rows = MIN ((end - 1 - position) / side->row_pitch, extent->height - 1);

  return begin < position + rows * side->row_pitch + extent->width;
}

static gboolean
any_row_overlaps (const RegionCopy *copy)
{
  const Side *to = &copy->destination;
  const GpuExtent *extent = &copy->bytes;

  for (gsize z = 0; z < extent->depth; z++)
    for (gsize y = 0; y < extent->height; y++)
      {
        gsize begin = to->base + to->offset + z * to->slice_pitch + y * to->row_pitch;

        if (range_overlaps (&copy->source, extent, begin, begin + extent->width))
          return TRUE;
      }

  return FALSE;
}

/* The bases of both sides count from the same origin. */
static gboolean
regions_overlap (const RegionCopy *copy)
{
  const Side *to = &copy->destination;
  const Side *from = &copy->source;
  gsize to_begin = to->base + to->offset;
  gsize from_begin = from->base + from->offset;
  gsize distance;
  gsize slices;

  if (to_begin >= from->base + from->end || from_begin >= to->base + to->end)
    return FALSE;

  if (!has_same_pitches (copy))
    return any_row_overlaps (copy);

  distance = MAX (to_begin, from_begin) - MIN (to_begin, from_begin);
  slices = copy->bytes.depth > 1 ? distance / to->slice_pitch : 0;
  distance -= slices * to->slice_pitch;

  return (slices < copy->bytes.depth && rows_overlap (copy, distance))
         || (slices + 1 < copy->bytes.depth && rows_overlap (copy, to->slice_pitch - distance));
}

static gboolean
fail_overlap (const RegionCopy  *copy,
              GError           **error)
{
  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s: the regions from offset %" G_GSIZE_FORMAT " and from offset %" G_GSIZE_FORMAT
               " of the same memory overlap", copy->function, copy->source.offset,
               copy->destination.offset);

  return FALSE;
}

/* Compares the regions of two memory objects that may use the same host memory in place. If the
 * host may access one of them only after a command, that command is a copy of bytes to
 * themselves. */
static gboolean
check_places (RegionCopy  *copy,
              GError     **error)
{
  Side *to = &copy->destination;
  Side *from = &copy->source;
  const guint8 *to_place = _gpu_memory_get_place (to->memory);
  const guint8 *from_place = _gpu_memory_get_place (from->memory);

  if (to_place == NULL || from_place == NULL)
    return TRUE;

  to->base = (gsize) to_place;
  from->base = (gsize) from_place;

  if (!regions_overlap (copy))
    return TRUE;

  copy->does_nothing = is_same_region (copy) && to->memory->has_host_data
                       && from->memory->has_host_data;

  return is_same_region (copy)
         || _gpu_fail_place_overlap (to_place + to->offset, to->offset, from_place + from->offset,
                                     from->offset, copy->function, error);
}

static gboolean
check_region_overlap (RegionCopy  *copy,
                      GError     **error)
{
  GpuStorage *to = copy->destination.memory->storage;
  GpuStorage *from = copy->source.memory->storage;

  if (_gpu_region_is_empty (&copy->extent))
    return TRUE;

  if (to->root != from->root)
    return check_places (copy, error);

  copy->destination.base = to->offset;
  copy->source.base = from->offset;
  copy->does_nothing = is_same_region (copy);

  return copy->does_nothing || !regions_overlap (copy) || fail_overlap (copy, error);
}

/* Checks a copy between memory and host bytes that may be the same bytes, as check_host_overlap()
 * of gpu-stream-copy.c does for a range. */
static gboolean
check_host_overlap (RegionCopy  *copy,
                    GError     **error)
{
  gboolean write = copy->source.memory == NULL;
  Side *device = write ? &copy->destination : &copy->source;
  Side *host = write ? &copy->source : &copy->destination;
  const guint8 *place = _gpu_memory_get_place (device->memory);

  if (place == NULL || _gpu_region_is_empty (&copy->extent))
    return TRUE;

  device->base = (gsize) place;
  host->base = (gsize) host->native.data;

  if (!regions_overlap (copy))
    return TRUE;

  copy->does_nothing = is_same_region (copy) && device->memory->has_host_data;

  return is_same_region (copy)
         || _gpu_fail_host_overlap (place, device->offset,
                                    (guint8 *) host->native.data + host->offset, copy->function,
                                    error);
}

/* Checks a copy whose source or destination is memory of another context. */
static gboolean
check_peers (GpuTimeline       *timeline,
             const RegionCopy  *copy,
             gboolean          *peers,
             GError           **error)
{
  GpuNativeContext *to = copy->destination.native.context;
  GpuNativeContext *from = copy->source.native.context;
  GpuNativeContext *other = to == timeline->context ? from : to;

  *peers = FALSE;

  /* If neither context is that of the stream, _gpu_submit() rejects the copy. */
  if (to == from || (to != timeline->context && from != timeline->context))
    return TRUE;

  *peers = TRUE;

  if (to->backend != from->backend || !to->backend->memory->copies_peers)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                   "%s: no driver copies regions from a context of %s to a context of %s; "
                   "copy the region to linear memory, and that with gpu_stream_copy()",
                   copy->function, from->devices[0]->id, to->devices[0]->id);
      return FALSE;
    }

  if (!_gpu_native_context_check (other, error))
    {
      g_prefix_error (error, "%s: ", copy->function);
      return FALSE;
    }

  /* Without access to each other's memory, the driver copies through memory of its own. */
  if (timeline->context->backend->context->reach_peer != NULL)
    timeline->context->backend->context->reach_peer (timeline->context, other);

  return TRUE;
}

static void
add_access (GpuSubmission *submission,
            const Side    *side,
            gboolean       write)
{
  if (side->memory != NULL)
    submission->accesses[submission->n_accesses++] =
      (GpuAccess) { side->memory, write, side->offset, side->end - side->offset };
}

/* Returns NULL if neither the source nor the destination is host memory, or if the copy should not
 * be staged. */
static GpuTransfer *
stage_region (GpuTimeline      *timeline,
              const RegionCopy *copy,
              GBytes           *bytes,
              gboolean          blocking)
{
  gboolean write = copy->source.memory == NULL;
  const Side *device = write ? &copy->destination : &copy->source;
  const Side *host = write ? &copy->source : &copy->destination;
  const GpuTransferCopy staged = {
    .write = write, .is_image = is_image (device), .device = device->native,
    .host = host->native, .extent = copy->extent, .bytes = bytes,
    .unit = copy->bytes.width / copy->extent.width
  };

  if (host->memory != NULL
      || copy->bytes.width * copy->bytes.height * copy->bytes.depth <= GPU_STAGING_SIZE_MIN)
    return NULL;

  return _gpu_timeline_stage (timeline, device->memory, &staged, blocking);
}

static gboolean
submit_region (GpuTimeline  *timeline,
               RegionCopy   *copy,
               gboolean      peers,
               GBytes       *bytes,
               GpuPending   *pending,
               GError      **error)
{
  GpuAccess accesses[2];
  GpuRetain retain = { bytes, &_gpu_retain_bytes, 0, NULL };
  GpuSubmission submission = { .function = copy->function, .accesses = accesses, .peers = peers,
                               .run = run_region, .operation = copy };

  if (_gpu_region_is_empty (&copy->extent))
    return TRUE;

  add_access (&submission, &copy->source, FALSE);
  add_access (&submission, &copy->destination, TRUE);

  if (bytes != NULL)
    {
      retain.size = g_bytes_get_size (bytes);
      submission.retain = &retain;
    }

  if (copy->does_nothing)
    submission.run = _gpu_run_nothing;
  else
    copy->transfer = stage_region (timeline, copy, bytes, pending != NULL);

  if (copy->transfer != NULL)
    {
      submission.run_infallible = run_staged;
      return _gpu_submit_staged (timeline, &submission, copy->transfer, pending, error);
    }

  if (_gpu_submit (timeline, &submission, pending, error))
    return TRUE;

  /* The operation holds no reference to the caller's memory: before returning, wait for the
   * commands that the driver has accepted. */
  if (pending != NULL && pending->covers != 0)
    _gpu_timeline_wait (timeline, pending->covers, NULL);

  return FALSE;
}

gboolean
_gpu_timeline_copy_region (GpuTimeline      *timeline,
                           const char       *function,
                           GpuMemory        *destination,
                           const GpuLayout  *destination_layout,
                           GpuMemory        *source,
                           const GpuLayout  *source_layout,
                           const GpuExtent  *extent,
                           GError          **error)
{
  RegionCopy copy = { .function = function, .extent = *extent,
                      .destination = { .name = "destination", .memory = destination },
                      .source = { .name = "source", .memory = source } };
  gboolean peers;

  return resolve (&copy, destination_layout, source_layout, error)
         && check_region_overlap (&copy, error)
         && check_peers (timeline, &copy, &peers, error)
         && submit_region (timeline, &copy, peers, NULL, NULL, error);
}

gboolean
_gpu_timeline_write_region (GpuTimeline         *timeline,
                            const char          *function,
                            GpuMemory           *destination,
                            const GpuLayout     *destination_layout,
                            const GpuHostBytes  *host,
                            const GpuExtent     *extent,
                            GpuPending          *pending,
                            GError             **error)
{
  RegionCopy copy = { .function = function, .extent = *extent,
                      .destination = { .name = "destination", .memory = destination },
                      .source = { .name = "host bytes", .size = host->size,
                                  .native = { .data = host->data } } };

  return resolve (&copy, destination_layout, host->layout, error)
         && _gpu_memory_check_host (destination, function, TRUE, error)
         && check_host_overlap (&copy, error)
         && submit_region (timeline, &copy, FALSE, host->bytes, pending, error);
}

gboolean
_gpu_timeline_read_region (GpuTimeline         *timeline,
                           const char          *function,
                           GpuMemory           *source,
                           const GpuLayout     *source_layout,
                           const GpuHostBytes  *host,
                           const GpuExtent     *extent,
                           GpuPending          *pending,
                           GError             **error)
{
  RegionCopy copy = { .function = function, .extent = *extent,
                      .destination = { .name = "host bytes", .size = host->size,
                                       .native = { .data = host->data } },
                      .source = { .name = "source", .memory = source } };

  return resolve (&copy, host->layout, source_layout, error)
         && _gpu_memory_check_host (source, function, FALSE, error)
         && check_host_overlap (&copy, error)
         && submit_region (timeline, &copy, FALSE, host->bytes, pending, error);
}

gboolean
_gpu_region_check (GpuMemory        *memory,
                   const GpuLayout  *layout,
                   const GpuExtent  *extent,
                   const char       *function,
                   const char       *name,
                   GError          **error)
{
  RegionCopy copy = { .function = function, .extent = *extent,
                      .source = { .name = name, .memory = memory } };

  return check_side (function, &copy.source, TRUE, error) && resolve_extent (&copy, error)
         && (is_image (&copy.source) ? resolve_image : resolve_linear) (&copy, &copy.source,
                                                                        layout, error)
         && _gpu_region_check_depth (extent, function, error);
}

GBytes *
_gpu_region_bytes_new (GpuMemory        *memory,
                       const GpuExtent  *extent,
                       const char       *function,
                       GpuHostBytes     *host,
                       GError          **error)
{
  gsize texel_size = GPU_IS_IMAGE (memory) ? GPU_IMAGE (memory)->description.texel_size : 1;

  if (!g_size_checked_mul (&host->size, extent->width, texel_size)
      || !g_size_checked_mul (&host->size, host->size, extent->height)
      || !g_size_checked_mul (&host->size, host->size, extent->depth))
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "%s: the size of " TEXELS_FORMAT " overflows", function, EXTENT_ARGS (extent));
      return NULL;
    }

  host->layout = NULL;
  host->bytes = _gpu_bytes_new (host->size, function, &host->data, error);

  return host->bytes;
}

/**
 * gpu_stream_copy_region:
 * @stream: a #GpuStream
 * @destination: memory of the stream's context, or of another context of the back end
 * @destination_layout: (nullable): origin and pitches of the region in @destination; %NULL for
 *   offset 0 and tightly packed rows
 * @source: memory of the stream's context, or of another context if @destination is of the stream's
 *   context
 * @source_layout: (nullable): origin and pitches of the region in @source; %NULL for offset 0 and
 *   tightly packed rows
 * @extent: size of the region: the width (in texels if @destination or @source is an image,
 *   otherwise in bytes), the number of rows and the number of slices
 * @error: return location for an error
 *
 * Copies a region of rows and slices on the device, between buffers, between images, or between a
 * buffer and an image (OpenCL: clEnqueueCopyBufferRect, clEnqueueCopyImage,
 * clEnqueueCopyBufferToImage, clEnqueueCopyImageToBuffer; CUDA: cuMemcpy2DAsync, cuMemcpy3DAsync,
 * cuMemcpy3DPeerAsync). If an OpenCL driver rejects the pitches of two buffers, the library calls
 * clEnqueueCopyBufferRect several times, or calls clEnqueueCopyBuffer instead.
 *
 * The layout of an image counts texels, rows and slices, and its pitches are 0. The rows of a 1D
 * array are its layers; the slices of a 2D array are its layers, and the slices of a cube map are
 * its faces. The layout of a buffer counts bytes, even if the other memory is an image.
 *
 * The two regions must not overlap, also if two memory objects use the same host memory in place.
 * They may be the same bytes: the operation then changes no byte. Two images must have texels of
 * the same size. A width or a height of 0 does nothing. The operation holds references to both
 * memory objects until it completes. Does not block, except that on CUDA, a copy from or to
 * #GpuHostMemory that is not page-locked may block until earlier work of @stream and the copy are
 * complete.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_INVALID_ARGUMENT if a region exceeds its memory, the
 *   depth is 0, the pitches are too small, the regions overlap but are not the same bytes, or
 *   neither memory is of the stream's context, %GPU_ERROR_NOT_SUPPORTED between two back ends or
 *   two contexts of OpenCL, %GPU_ERROR_RELEASED, %GPU_ERROR_BUSY if a range is mapped, or the
 *   driver's error
 *
 * Since: 0.1
 */
gboolean
gpu_stream_copy_region (GpuStream        *stream,
                        GpuMemory        *destination,
                        const GpuLayout  *destination_layout,
                        GpuMemory        *source,
                        const GpuLayout  *source_layout,
                        const GpuExtent  *extent,
                        GError          **error)
{
  const char *function = "gpu_stream_copy_region";
  GpuTimeline *timeline;

  g_return_val_if_fail (GPU_IS_STREAM (stream), FALSE);
  g_return_val_if_fail (GPU_IS_MEMORY (destination), FALSE);
  g_return_val_if_fail (GPU_IS_MEMORY (source), FALSE);
  g_return_val_if_fail (extent != NULL, FALSE);

  timeline = _gpu_stream_get_timeline (stream, function, error);

  return timeline != NULL
         && _gpu_timeline_copy_region (timeline, function, destination, destination_layout, source,
                                       source_layout, extent, error);
}

/**
 * gpu_stream_write_region:
 * @stream: a #GpuStream
 * @destination: memory of the stream's context
 * @destination_layout: (nullable): origin and pitches of the region in @destination; %NULL for
 *   offset 0 and tightly packed rows
 * @bytes: the bytes to write
 * @bytes_layout: (nullable): origin and pitches of the region in @bytes; %NULL for offset 0 and
 *   tightly packed rows
 * @extent: size of the region: the width (in texels if @destination is an image, otherwise in
 *   bytes), the number of rows and the number of slices
 * @error: return location for an error
 *
 * Copies a region of rows and slices from the host to the device (OpenCL: clEnqueueWriteBufferRect,
 * or clEnqueueWriteImage for an image; CUDA: cuMemcpy2DAsync, cuMemcpy3DAsync). If an OpenCL driver
 * rejects the pitches of a buffer, the library calls clEnqueueWriteBufferRect several times, or
 * calls clEnqueueWriteBuffer instead. Layouts have the same units as in
 * gpu_stream_copy_region(). A width or a height of 0 does nothing. The operation holds references
 * to @bytes and @destination until it completes. May block under the same conditions as
 * gpu_stream_write().
 *
 * If @destination uses host memory in place, @bytes may be the region itself. They must not overlap
 * it otherwise.
 *
 * Returns: %TRUE, or %FALSE with the errors of gpu_stream_copy_region(), or with
 *   %GPU_ERROR_INVALID_ARGUMENT if the flags of the memory do not let the host write it
 *
 * Since: 0.1
 */
gboolean
gpu_stream_write_region (GpuStream        *stream,
                         GpuMemory        *destination,
                         const GpuLayout  *destination_layout,
                         GBytes           *bytes,
                         const GpuLayout  *bytes_layout,
                         const GpuExtent  *extent,
                         GError          **error)
{
  const char *function = "gpu_stream_write_region";
  GpuHostBytes host = { .bytes = bytes, .layout = bytes_layout };
  GpuTimeline *timeline;

  g_return_val_if_fail (GPU_IS_STREAM (stream), FALSE);
  g_return_val_if_fail (GPU_IS_MEMORY (destination), FALSE);
  g_return_val_if_fail (bytes != NULL, FALSE);
  g_return_val_if_fail (extent != NULL, FALSE);

  timeline = _gpu_stream_get_timeline (stream, function, error);
  host.data = (gpointer) g_bytes_get_data (bytes, &host.size);

  return timeline != NULL
         && _gpu_timeline_write_region (timeline, function, destination, destination_layout, &host,
                                        extent, NULL, error);
}

/**
 * gpu_stream_read_region:
 * @stream: a #GpuStream
 * @source: memory of the stream's context
 * @source_layout: (nullable): origin and pitches of the region in @source; %NULL for offset 0 and
 *   tightly packed rows
 * @extent: size of the region: the width (in texels if @source is an image, otherwise in bytes),
 *   the number of rows and the number of slices
 * @error: return location for an error
 *
 * Copies a region of rows and slices from the device into new host memory with tightly packed rows
 * (OpenCL: clEnqueueReadBufferRect, clEnqueueReadImage; CUDA: cuMemcpy2DAsync, cuMemcpy3DAsync).
 * Layouts have the same units as in gpu_stream_copy_region(). An empty region results in empty
 * bytes. May block under the same conditions as gpu_stream_read(). The bytes are valid once the
 * operation has completed.
 *
 * Returns: (transfer full): the bytes, or %NULL with the errors of gpu_stream_copy_region(), with
 *   %GPU_ERROR_INVALID_ARGUMENT if the flags of the memory do not let the host read it, or with
 *   %GPU_ERROR_OUT_OF_HOST_MEMORY
 *
 * Since: 0.1
 */
GBytes *
gpu_stream_read_region (GpuStream        *stream,
                        GpuMemory        *source,
                        const GpuLayout  *source_layout,
                        const GpuExtent  *extent,
                        GError          **error)
{
  const char *function = "gpu_stream_read_region";
  g_autoptr (GBytes) bytes = NULL;
  GpuTimeline *timeline;
  GpuHostBytes host;

  g_return_val_if_fail (GPU_IS_STREAM (stream), NULL);
  g_return_val_if_fail (GPU_IS_MEMORY (source), NULL);
  g_return_val_if_fail (extent != NULL, NULL);

  timeline = _gpu_stream_get_timeline (stream, function, error);

  if (timeline == NULL
      || !_gpu_region_check (source, source_layout, extent, function, "source", error))
    return NULL;

  bytes = _gpu_region_bytes_new (source, extent, function, &host, error);

  if (bytes == NULL
      || !_gpu_timeline_read_region (timeline, function, source, source_layout, &host, extent,
                                     NULL, error))
    return NULL;

  return g_steal_pointer (&bytes);
}

/**
 * gpu_stream_read_region_into:
 * @stream: a #GpuStream
 * @source: memory of the stream's context
 * @source_layout: (nullable): origin and pitches of the region in @source; %NULL for offset 0 and
 *   tightly packed rows
 * @bytes: writable memory, large enough for the region with the pitches of @bytes_layout
 * @bytes_layout: (nullable): origin and pitches of the region in @bytes; %NULL for offset 0 and
 *   tightly packed rows
 * @extent: size of the region: the width (in texels if @source is an image, otherwise in bytes),
 *   the number of rows and the number of slices
 * @error: return location for an error
 *
 * Copies a region of rows and slices from the device into the memory of @bytes, like
 * gpu_stream_read_into() (OpenCL: clEnqueueReadBufferRect, clEnqueueReadImage; CUDA:
 * cuMemcpy2DAsync, cuMemcpy3DAsync). The padding between rows is not changed. Layouts have the same
 * units as in gpu_stream_copy_region(). A width or a height of 0 does nothing. The operation holds
 * references to @bytes and @source until it completes. After that, @bytes contains the region. May
 * block under the same conditions as gpu_stream_read(). If @source uses host memory in place,
 * @bytes may be the region itself. They must not overlap it otherwise.
 *
 * Returns: %TRUE, or %FALSE with the errors of gpu_stream_read_region()
 *
 * Since: 0.1
 */
gboolean
gpu_stream_read_region_into (GpuStream        *stream,
                             GpuMemory        *source,
                             const GpuLayout  *source_layout,
                             GBytes           *bytes,
                             const GpuLayout  *bytes_layout,
                             const GpuExtent  *extent,
                             GError          **error)
{
  const char *function = "gpu_stream_read_region_into";
  GpuHostBytes host = { .bytes = bytes, .layout = bytes_layout };
  GpuTimeline *timeline;

  g_return_val_if_fail (GPU_IS_STREAM (stream), FALSE);
  g_return_val_if_fail (GPU_IS_MEMORY (source), FALSE);
  g_return_val_if_fail (bytes != NULL, FALSE);
  g_return_val_if_fail (extent != NULL, FALSE);

  timeline = _gpu_stream_get_timeline (stream, function, error);
  host.data = (gpointer) g_bytes_get_data (bytes, &host.size);

  return timeline != NULL
         && _gpu_timeline_read_region (timeline, function, source, source_layout, &host, extent,
                                       NULL, error);
}
