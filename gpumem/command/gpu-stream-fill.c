/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Fill operations of a stream. Drivers support only patterns of certain sizes. For other patterns,
 * the library writes the first repetitions from the host, then doubles the filled part with
 * copies. */
#include "config.h"

#include <string.h>

#include "gpumem/command/gpu-command-private.h"
#include "gpumem/command/gpu-staging-private.h"
#include "gpumem/device/gpu-context-private.h"
#include "gpumem/format/gpu-region-private.h"
#include "gpumem/stream/gpu-submission-inline-private.h"

/* The largest pattern that every driver supports, in bytes. */
#define MAX_NATIVE_PATTERN 128

/* The maximum number of bytes that compose_fill() writes from the host, unless one pattern is
 * larger. */
#define SEED_SIZE (64 * 1024)

typedef struct
{
  GpuMemory     *destination;
  GpuNativeFill  call;
} Fill;

static inline gboolean
run_fill (gconstpointer     operation,
          GpuNativeStream  *stream,
          GpuNativeEvent  **event,
          GError          **error)
{
  const Fill *fill = operation;

  return stream->backend->buffer->fill (stream, fill->destination->storage->buffer, &fill->call,
                                        event, error);
}

G_ALWAYS_INLINE static inline gboolean
submit_fill (GpuTimeline  *timeline,
             const char   *function,
             const Fill   *fill,
             GError      **error)
{
  GpuAccess access = { fill->destination, TRUE, fill->call.offset, fill->call.size };
  const GpuSubmission submission = { .function = function, .accesses = &access, .n_accesses = 1,
                                     .run = run_fill, .operation = fill };

  return _gpu_submit_inline (timeline, &submission, NULL, error);
}

/* Returns whether every driver supports the pattern. Avoids a division, which would cost as much as
 * a lock. */
static inline gboolean
is_native (const Fill *fill)
{
  gsize n = fill->call.pattern_size;

  return n <= MAX_NATIVE_PATTERN && n != 0 && (n & (n - 1)) == 0
         && ((fill->call.offset | fill->call.size) & (n - 1)) == 0;
}

/* Checks the whole range before the first of several commands, so that a refused fill changes
 * nothing. */
static gboolean
check_unmapped (const char  *function,
                GpuMemory   *destination,
                gsize        offset,
                gsize        size,
                GError     **error)
{
  GpuAccess access = { destination, TRUE, offset, size };

  return _gpu_submission_check_mappings (function, &access, 1, error);
}

/* If the flags of the memory do not allow writes by the host, writes the bytes to a temporary
 * buffer and copies them from that buffer to the memory. */
static gboolean
write_seed (GpuTimeline  *timeline,
            const char   *function,
            const Fill   *fill,
            GBytes       *seed,
            GError      **error)
{
  const GpuMemoryFlags denied = GPU_MEMORY_FLAGS_HOST_READ_ONLY | GPU_MEMORY_FLAGS_HOST_NO_ACCESS;
  g_autoptr (GpuBuffer) buffer = NULL;
  gsize size;
  gconstpointer data = g_bytes_get_data (seed, &size);

  if ((fill->destination->flags & denied) == 0)
    return _gpu_timeline_write (timeline, function, fill->destination, fill->call.offset, data,
                                size, seed, NULL, error);

  buffer = _gpu_buffer_new (fill->destination->context, function, GPU_MEMORY_FLAGS_NONE, size,
                            error);

  return buffer != NULL
         && _gpu_timeline_write (timeline, function, GPU_MEMORY (buffer), 0, data, size, seed, NULL,
                                 error)
         && _gpu_timeline_copy (timeline, function,
                                &(GpuRangeCopy) { fill->destination, fill->call.offset,
                                                  GPU_MEMORY (buffer), 0, size },
                                NULL, error);
}

static gboolean
compose_fill (GpuTimeline  *timeline,
              const char   *function,
              const Fill   *fill,
              GError      **error)
{
  gsize n_patterns = MIN (fill->call.size / fill->call.pattern_size,
                          MAX (SEED_SIZE / fill->call.pattern_size, 1));
  gsize done = n_patterns * fill->call.pattern_size;
  g_auto (GpuHostWait) wait = { NULL };
  g_autoptr (GBytes) seed = NULL;
  gpointer data;

  /* A graph would read the seed again, which is freed after the fill. So the fill must neither be
   * captured nor join a capture. */
  _gpu_host_wait_begin (&wait, timeline);

  if (!_gpu_timeline_check_capture (timeline, function, error)
      || !check_unmapped (function, fill->destination, fill->call.offset, fill->call.size, error))
    return FALSE;

  seed = _gpu_bytes_new (done, function, &data, error);

  if (seed == NULL)
    return FALSE;

  for (gsize i = 0; i < n_patterns; i++)
    memcpy ((guint8 *) data + i * fill->call.pattern_size, fill->call.pattern,
            fill->call.pattern_size);

  if (!write_seed (timeline, function, fill, seed, error))
    return FALSE;

  while (done < fill->call.size)
    {
      const GpuRangeCopy copy = { fill->destination, fill->call.offset + done, fill->destination,
                                  fill->call.offset, MIN (done, fill->call.size - done) };

      if (!_gpu_timeline_copy (timeline, function, &copy, NULL, error))
        return FALSE;

      done += copy.size;
    }

  return TRUE;
}

static gboolean
check_pattern (const char    *function,
               gsize          size,
               const guint8  *pattern,
               gsize          pattern_size,
               GError       **error)
{
  if (pattern != NULL && pattern_size != 0 && size % pattern_size == 0)
    return TRUE;

  if (pattern == NULL || pattern_size == 0)
    g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                 "%s: the pattern is empty; pass at least one byte", function);
  else
    g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                 "%s: size %" G_GSIZE_FORMAT " is not a multiple of the pattern of %"
                 G_GSIZE_FORMAT " bytes", function, size, pattern_size);

  return FALSE;
}

GPU_APART static gboolean
fill_other (GpuTimeline  *timeline,
            const char   *function,
            const Fill   *fill,
            GError      **error)
{
  const GpuNativeFill *call = &fill->call;

  if (!check_pattern (function, call->size, call->pattern, call->pattern_size, error))
    return FALSE;

  if (call->size == 0)
    return TRUE;

  if (call->pattern_size <= timeline->context->backend->buffer->max_fill_pattern)
    return submit_fill (timeline, function, fill, error);

  return compose_fill (timeline, function, fill, error);
}

G_ALWAYS_INLINE static inline gboolean
fill_range (GpuTimeline  *timeline,
            const char   *function,
            const Fill   *fill,
            GError      **error)
{
  const GpuNativeFill *call = &fill->call;

  if (!_gpu_memory_check_range (fill->destination, function, "destination", call->offset,
                                call->size, error))
    return FALSE;

  if (G_LIKELY (call->size != 0 && call->pattern != NULL && is_native (fill)))
    return submit_fill (timeline, function, fill, error);

  return fill_other (timeline, function, fill, error);
}

gboolean
_gpu_timeline_fill (GpuTimeline   *timeline,
                    const char    *function,
                    GpuMemory     *destination,
                    gsize          offset,
                    gsize          size,
                    const guint8  *pattern,
                    gsize          pattern_size,
                    GError       **error)
{
  const Fill fill = { destination, { offset, size, pattern, pattern_size } };

  return fill_range (timeline, function, &fill, error);
}

/**
 * gpu_stream_fill:
 * @stream: a #GpuStream
 * @destination: memory of the stream's context
 * @offset: offset of the range in @destination, in bytes
 * @size: the number of bytes, a multiple of @pattern_size; 0 does nothing
 * @pattern: (array length=pattern_size) (element-type guint8): the bytes to repeat; not used after
 *   the call returns
 * @pattern_size: size of @pattern in bytes, not 0
 * @error: return location for an error
 *
 * Fills memory on the device with a pattern. OpenCL: clEnqueueFillBuffer if @pattern_size is a
 * power of two up to 128 and @offset is a multiple of @pattern_size; otherwise clEnqueueWriteBuffer
 * and clEnqueueCopyBuffer, even if the flags of the memory deny the host access. CUDA:
 * cuMemsetD8Async, cuMemsetD16Async or cuMemsetD32Async if the pattern repeats 1, 2 or 4 bytes, and
 * a kernel of the library for other patterns up to 1024 bytes. The operation holds a reference to
 * @destination until it completes. Does not block.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_INVALID_ARGUMENT if the range exceeds the memory, @size
 *   is not a multiple of @pattern_size, the pattern is empty, or the memory belongs to another
 *   context, %GPU_ERROR_RELEASED, %GPU_ERROR_BUSY if the range is mapped,
 *   %GPU_ERROR_OUT_OF_HOST_MEMORY if a large pattern cannot be copied, or the driver's error. A
 *   fill that consists of several operations first checks the whole range for mappings. If the
 *   driver rejects one of these operations, earlier ones are already submitted.
 *
 * Since: 0.1
 */
GPU_HOT gboolean
gpu_stream_fill (GpuStream     *stream,
                 GpuMemory     *destination,
                 gsize          offset,
                 gsize          size,
                 gconstpointer  pattern,
                 gsize          pattern_size,
                 GError       **error)
{
  const Fill fill = { destination, { offset, size, pattern, pattern_size } };
  GpuTimeline *timeline;

  g_return_val_if_fail (GPU_IS_STREAM (stream), FALSE);
  g_return_val_if_fail (GPU_IS_MEMORY (destination), FALSE);

  timeline = _gpu_stream_get_timeline (stream, "gpu_stream_fill", error);

  return timeline != NULL && fill_range (timeline, "gpu_stream_fill", &fill, error);
}

typedef struct
{
  const char          *function;
  GpuMemory           *destination;
  const GpuRegionSide *side;
  const GpuExtent     *extent;
  const guint8        *pattern;
  gsize                pattern_size;
} RegionFill;

static gboolean
run_fill_region (gconstpointer     operation,
                 GpuNativeStream  *stream,
                 GpuNativeEvent  **event,
                 GError          **error)
{
  const RegionFill *fill = operation;

  return stream->backend->buffer->fill_region (stream, fill->destination->storage->buffer,
                                               fill->side, fill->extent, fill->pattern,
                                               fill->pattern_size, event, error);
}

/* Submits the fill as one operation of the driver. Returns FALSE without an error if the driver
 * does not support the pattern or the pitches. */
static gboolean
fill_region_at_once (GpuTimeline       *timeline,
                     const RegionFill  *fill,
                     gsize              size,
                     GError           **error)
{
  const GpuRegionSide *side = fill->side;
  gsize n = fill->pattern_size;
  GpuAccess access = { fill->destination, TRUE, side->offset, size };
  const GpuSubmission submission = { .function = fill->function, .accesses = &access,
                                     .n_accesses = 1, .run = run_fill_region,
                                     .operation = fill };
  g_autoptr (GError) failure = NULL;

  if (timeline->context->backend->buffer->fill_region == NULL || n > MAX_NATIVE_PATTERN
      || (n & (n - 1)) != 0
      || ((side->offset | side->row_pitch | side->slice_pitch | fill->extent->width)
          & (n - 1)) != 0)
    return FALSE;

  if (_gpu_submit (timeline, &submission, NULL, &failure))
    return TRUE;

  if (!g_error_matches (failure, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED))
    g_propagate_error (error, g_steal_pointer (&failure));

  return FALSE;
}

/* Fills the first row, then doubles the filled part with copies of rows, then of slices. */
static gboolean
fill_region (GpuTimeline       *timeline,
             const RegionFill  *fill,
             gsize              size,
             GError           **error)
{
  const char *function = fill->function;
  const GpuRegionSide *side = fill->side;
  const GpuExtent *extent = fill->extent;
  GpuMemory *destination = fill->destination;

  if (!check_unmapped (function, destination, side->offset, size, error)
      || !_gpu_timeline_fill (timeline, function, destination, side->offset, extent->width,
                              fill->pattern, fill->pattern_size, error))
    return FALSE;

  for (gsize rows = 1; rows < extent->height; rows *= 2)
    {
      GpuExtent part = { extent->width, MIN (rows, extent->height - rows), 1 };
      GpuLayout from = { side->offset, 0, 0, side->row_pitch, 0 };
      GpuLayout to = { side->offset + rows * side->row_pitch, 0, 0, side->row_pitch, 0 };

      if (!_gpu_timeline_copy_region (timeline, function, destination, &to, destination, &from,
                                      &part, error))
        return FALSE;
    }

  for (gsize slices = 1; slices < extent->depth; slices *= 2)
    {
      GpuExtent part = { extent->width, extent->height, MIN (slices, extent->depth - slices) };
      GpuLayout from = { side->offset, 0, 0, side->row_pitch, side->slice_pitch };
      GpuLayout to = { side->offset + slices * side->slice_pitch, 0, 0, side->row_pitch,
                       side->slice_pitch };

      if (!_gpu_timeline_copy_region (timeline, function, destination, &to, destination, &from,
                                      &part, error))
        return FALSE;
    }

  return TRUE;
}

gboolean
_gpu_timeline_fill_region (GpuTimeline      *timeline,
                           const char       *function,
                           GpuMemory        *destination,
                           const GpuLayout  *layout,
                           const GpuExtent  *extent,
                           const guint8     *pattern,
                           gsize             pattern_size,
                           GError          **error)
{
  GpuRegionSide side;
  const RegionFill fill = { function, destination, &side, extent, pattern, pattern_size };
  g_autoptr (GError) failure = NULL;
  gsize end;

  if (!_gpu_region_resolve (layout, extent, function, "destination", &side, &end, error)
      || !_gpu_region_check_depth (extent, function, error)
      || !check_pattern (function, extent->width, pattern, pattern_size, error))
    return FALSE;

  if (end < side.offset || !_gpu_memory_check_range (destination, function, "destination",
                                                     side.offset, end - side.offset, error))
    return FALSE;

  if (_gpu_region_is_empty (extent))
    return TRUE;

  if (fill_region_at_once (timeline, &fill, end - side.offset, &failure))
    return TRUE;

  if (failure == NULL)
    return fill_region (timeline, &fill, end - side.offset, error);

  g_propagate_error (error, g_steal_pointer (&failure));

  return FALSE;
}

/**
 * gpu_stream_fill_region:
 * @stream: a #GpuStream
 * @destination: memory of the stream's context
 * @layout: (nullable): origin and pitches of the region in @destination; %NULL for offset 0 and
 *   tightly packed rows
 * @extent: size of the region: the width in bytes (a multiple of @pattern_size), the number of rows
 *   and the number of slices
 * @pattern: (array length=pattern_size) (element-type guint8): the bytes to repeat; not used after
 *   the call returns
 * @pattern_size: size of @pattern in bytes, not 0
 * @error: return location for an error
 *
 * Fills a region of rows and slices on the device. The pattern restarts in each row (CUDA:
 * cuMemsetD2D8Async, cuMemsetD2D16Async and cuMemsetD2D32Async; OpenCL has no such function, so the
 * library fills the first row and copies it to the other rows). A width or a height of 0 does
 * nothing. The operation holds a reference to @destination until it completes. Does not block.
 *
 * Returns: %TRUE, or %FALSE with the errors of gpu_stream_fill() and gpu_stream_copy_region()
 *
 * Since: 0.1
 */
gboolean
gpu_stream_fill_region (GpuStream        *stream,
                        GpuMemory        *destination,
                        const GpuLayout  *layout,
                        const GpuExtent  *extent,
                        gconstpointer     pattern,
                        gsize             pattern_size,
                        GError          **error)
{
  const char *function = "gpu_stream_fill_region";
  GpuTimeline *timeline;

  g_return_val_if_fail (GPU_IS_STREAM (stream), FALSE);
  g_return_val_if_fail (GPU_IS_MEMORY (destination), FALSE);
  g_return_val_if_fail (extent != NULL, FALSE);

  timeline = _gpu_stream_get_timeline (stream, function, error);

  return timeline != NULL
         && _gpu_timeline_fill_region (timeline, function, destination, layout, extent, pattern,
                                       pattern_size, error);
}
