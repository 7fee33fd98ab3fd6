/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The verbs of a stream that move regions of rows and slices. */
#include "config.h"

#include <string.h>

#include "gpumem/gpu-region-private.h"
#include "gpumem/gpu-stream-private.h"

typedef struct
{
  const char      *function;
  GpuMemory       *destination;     /* NULL for a read */
  GpuMemory       *source;          /* NULL for a write */
  gpointer         data;            /* of the host, for a read or a write */
  GpuRegionSide    destination_side;
  GpuRegionSide    source_side;
  gsize            destination_end;
  gsize            source_end;
  const GpuExtent *extent;
} RegionCopy;

static gboolean
run_region (gconstpointer     operation,
            GpuNativeStream  *stream,
            GpuNativeEvent  **event,
            GError          **error)
{
  const RegionCopy *copy = operation;
  const GpuBufferOps *ops = stream->backend->buffer;

  if (copy->source == NULL)
    return ops->write_region (stream, copy->destination->storage->buffer,
                              &copy->destination_side, copy->data, &copy->source_side,
                              copy->extent, event, error);

  if (copy->destination == NULL)
    return ops->read_region (stream, copy->source->storage->buffer, &copy->source_side,
                             copy->data, &copy->destination_side, copy->extent, event, error);

  return ops->copy_region (stream, copy->destination->storage->buffer, &copy->destination_side,
                           copy->source->storage->buffer, &copy->source_side, copy->extent,
                           event, error);
}

static gboolean
check_end (const RegionCopy     *copy,
           const char           *what,
           const GpuRegionSide  *side,
           gsize                 end,
           gsize                 size,
           GError              **error)
{
  if (end <= size)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s: a region of %" G_GSIZE_FORMAT " bytes x %" G_GSIZE_FORMAT " rows x %"
               G_GSIZE_FORMAT " slices from offset %" G_GSIZE_FORMAT ", row pitch %"
               G_GSIZE_FORMAT ", slice pitch %" G_GSIZE_FORMAT ", exceeds the %" G_GSIZE_FORMAT
               " bytes of the %s", copy->function, copy->extent->width, copy->extent->height,
               copy->extent->depth, side->offset, side->row_pitch, side->slice_pitch, size, what);

  return FALSE;
}

/* Whether rows share a byte of two boxes in a slice that begin @distance bytes apart. A row may
 * meet one of the row after it, for what begins later in memory may begin earlier in its row. */
static gboolean
rows_overlap (const RegionCopy *copy,
              gsize             distance)
{
  const GpuExtent *extent = copy->extent;
  gsize row_pitch = copy->source_side.row_pitch;
  gsize rows = extent->height > 1 ? distance / row_pitch : 0;

  distance -= rows * row_pitch;

  return (rows < extent->height && distance < extent->width)
         || (rows + 1 < extent->height && row_pitch - distance < extent->width);
}

/* Two regions of the same pitches overlap where their boxes do; of others we only know where they
 * begin and end. */
static gboolean
regions_overlap (const RegionCopy *copy)
{
  const GpuRegionSide *to = &copy->destination_side;
  const GpuRegionSide *from = &copy->source_side;
  gsize to_offset = to->offset + copy->destination->storage->offset;
  gsize from_offset = from->offset + copy->source->storage->offset;
  gsize to_end = copy->destination_end + copy->destination->storage->offset;
  gsize from_end = copy->source_end + copy->source->storage->offset;
  gsize distance;
  gsize slices;

  if (to_offset >= from_end || from_offset >= to_end)
    return FALSE;

  if (to->row_pitch != from->row_pitch
      || (copy->extent->depth > 1 && to->slice_pitch != from->slice_pitch))
    return TRUE;

  distance = MAX (to_offset, from_offset) - MIN (to_offset, from_offset);
  slices = copy->extent->depth > 1 ? distance / to->slice_pitch : 0;
  distance -= slices * to->slice_pitch;

  return (slices < copy->extent->depth && rows_overlap (copy, distance))
         || (slices + 1 < copy->extent->depth && rows_overlap (copy, to->slice_pitch - distance));
}

static gboolean
check_region_overlap (const RegionCopy  *copy,
                      GError           **error)
{
  if (copy->destination->storage->root != copy->source->storage->root || !regions_overlap (copy))
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s: the regions from offset %" G_GSIZE_FORMAT " and from offset %" G_GSIZE_FORMAT
               " of the same memory overlap", copy->function, copy->source_side.offset,
               copy->destination_side.offset);

  return FALSE;
}

static gboolean
check_memory (RegionCopy           *copy,
              GpuMemory            *memory,
              const char           *what,
              const GpuRegionSide  *side,
              gsize                 end,
              GError              **error)
{
  return _gpu_memory_check (memory, copy->function, error)
         && check_end (copy, what, side, end, memory->size, error);
}

static gboolean
resolve (RegionCopy       *copy,
         const GpuLayout  *destination_layout,
         const GpuLayout  *source_layout,
         GError          **error)
{
  return _gpu_region_resolve (destination_layout, copy->extent, copy->function, "destination",
                              &copy->destination_side, &copy->destination_end, error)
         && _gpu_region_resolve (source_layout, copy->extent, copy->function, "source",
                                 &copy->source_side, &copy->source_end, error);
}

static gboolean
submit_region (GpuTimeline  *timeline,
               RegionCopy   *copy,
               GBytes       *bytes,
               GError      **error)
{
  GpuAccess accesses[2];
  GpuKeep keep = { bytes, (GBoxedCopyFunc) g_bytes_ref, (GDestroyNotify) g_bytes_unref, 0 };
  GpuSubmission submission = { .function = copy->function, .accesses = accesses,
                               .run = run_region, .operation = copy };

  if (_gpu_region_is_empty (copy->extent))
    return TRUE;

  if (copy->source != NULL)
    accesses[submission.n_accesses++] = (GpuAccess) { copy->source, FALSE,
                                                      copy->source_side.offset,
                                                      copy->source_end
                                                      - copy->source_side.offset };

  if (copy->destination != NULL)
    accesses[submission.n_accesses++] = (GpuAccess) { copy->destination, TRUE,
                                                      copy->destination_side.offset,
                                                      copy->destination_end
                                                      - copy->destination_side.offset };

  if (bytes != NULL)
    {
      keep.size = g_bytes_get_size (bytes);
      submission.keep = &keep;
    }

  return _gpu_submit (timeline, &submission, NULL, error);
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
  RegionCopy copy = { .function = function, .destination = destination, .source = source,
                      .extent = extent };

  if (!resolve (&copy, destination_layout, source_layout, error)
      || !check_memory (&copy, destination, "destination", &copy.destination_side,
                        copy.destination_end, error)
      || !check_memory (&copy, source, "source", &copy.source_side, copy.source_end, error)
      || !check_region_overlap (&copy, error))
    return FALSE;

  return submit_region (timeline, &copy, NULL, error);
}

/**
 * gpu_stream_copy_region:
 * @stream: a #GpuStream
 * @destination: memory of the stream's context
 * @destination_layout: (nullable): where in @destination; %NULL for its beginning and tight rows
 * @source: memory of the stream's context
 * @source_layout: (nullable): where in @source; %NULL for its beginning and tight rows
 * @extent: size of the region: bytes, rows, slices
 * @error: return location for an error
 *
 * Copies a region of rows and slices on the device (OpenCL: clEnqueueCopyBufferRect; several of
 * them, or clEnqueueCopyBuffer, where it does not take the pitches; CUDA: cuMemcpy2DAsync,
 * cuMemcpy3DAsync). The two regions must not overlap. Does not block; both memories are kept until
 * the copy is done. An empty region does nothing.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_INVALID_ARGUMENT if a region reaches past the end,
 *   the pitches are too small, the regions overlap or a context is foreign, %GPU_ERROR_RELEASED,
 *   %GPU_ERROR_BUSY if a range is mapped, or the driver's error
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
 * @destination_layout: (nullable): where in @destination; %NULL for its beginning and tight rows
 * @bytes: what to write
 * @bytes_layout: (nullable): where in @bytes; %NULL for the beginning and tight rows
 * @extent: size of the region: bytes, rows, slices
 * @error: return location for an error
 *
 * Copies a region of rows and slices from the host to the device (OpenCL:
 * clEnqueueWriteBufferRect; several, or clEnqueueWriteBuffer, where it does not take the pitches;
 * CUDA: cuMemcpy2DAsync, cuMemcpy3DAsync). Does not block; @bytes and @destination are kept until
 * the copy is done. An empty region does nothing.
 *
 * Returns: %TRUE, or %FALSE with an error as of gpu_stream_copy_region(), also if the flags bar the
 *   host from writing
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
  RegionCopy copy = { .function = "gpu_stream_write_region", .destination = destination,
                      .extent = extent };
  GpuTimeline *timeline;
  gsize size;

  g_return_val_if_fail (GPU_IS_STREAM (stream), FALSE);
  g_return_val_if_fail (GPU_IS_MEMORY (destination), FALSE);
  g_return_val_if_fail (bytes != NULL, FALSE);
  g_return_val_if_fail (extent != NULL, FALSE);

  timeline = _gpu_stream_get_timeline (stream, copy.function, error);
  copy.data = (gpointer) g_bytes_get_data (bytes, &size);

  if (timeline == NULL
      || !resolve (&copy, destination_layout, bytes_layout, error)
      || !check_memory (&copy, destination, "destination", &copy.destination_side,
                        copy.destination_end, error)
      || !check_end (&copy, "host bytes", &copy.source_side, copy.source_end, size, error)
      || !_gpu_memory_check_host (destination, copy.function, TRUE, error))
    return FALSE;

  return submit_region (timeline, &copy, bytes, error);
}

/**
 * gpu_stream_read_region:
 * @stream: a #GpuStream
 * @source: memory of the stream's context
 * @source_layout: (nullable): where in @source; %NULL for its beginning and tight rows
 * @extent: size of the region: bytes, rows, slices
 * @error: return location for an error
 *
 * Copies a region of rows and slices from the device into new memory of the host, where the rows
 * follow each other tightly (OpenCL: clEnqueueReadBufferRect; CUDA: cuMemcpy2DAsync,
 * cuMemcpy3DAsync). Does not block: what the bytes hold is right once the point of this operation
 * is reached. An empty region gives no bytes.
 *
 * Returns: (transfer full): the bytes, or %NULL with an error as of gpu_stream_copy_region(), also
 *   if the flags bar the host from reading, or with %GPU_ERROR_OUT_OF_HOST_MEMORY
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
  RegionCopy copy = { .function = "gpu_stream_read_region", .source = source, .extent = extent };
  g_autoptr (GBytes) bytes = NULL;
  GpuTimeline *timeline;

  g_return_val_if_fail (GPU_IS_STREAM (stream), NULL);
  g_return_val_if_fail (GPU_IS_MEMORY (source), NULL);
  g_return_val_if_fail (extent != NULL, NULL);

  timeline = _gpu_stream_get_timeline (stream, copy.function, error);

  if (timeline == NULL
      || !resolve (&copy, NULL, source_layout, error)
      || !check_memory (&copy, source, "source", &copy.source_side, copy.source_end, error)
      || !_gpu_memory_check_host (source, copy.function, FALSE, error))
    return NULL;

  bytes = _gpu_bytes_new (copy.destination_end, copy.function, &copy.data, error);

  if (bytes == NULL || !submit_region (timeline, &copy, bytes, error))
    return NULL;

  return g_steal_pointer (&bytes);
}
