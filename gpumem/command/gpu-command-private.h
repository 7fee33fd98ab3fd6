/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "gpumem/base/gpu-progress-private.h"
#include "gpumem/stream/gpu-stream-private.h"

G_BEGIN_DECLS

/* A copy between two ranges of memory. The offsets and the size are in bytes. */
typedef struct
{
  GpuMemory *destination;
  gsize      destination_offset;
  GpuMemory *source;
  gsize      source_offset;
  gsize      size;
} GpuRangeCopy;

/* The operations shared by the methods of GpuStream and the blocking methods of GpuBuffer. If
 * @pending is not NULL, the functions set it to the operation to wait for, with a NULL event if
 * there is nothing to wait for. */
gboolean     _gpu_timeline_copy           (GpuTimeline         *timeline,
                                           const char          *function,
                                           const GpuRangeCopy  *copy,
                                           GpuPending          *pending,
                                           GError             **error);
/* Like _gpu_timeline_copy(), but with the driver's operation for copies between contexts, if the
 * contexts differ. Caller has checked the ranges, which are not empty. */
gboolean     _gpu_timeline_copy_direct    (GpuTimeline         *timeline,
                                           const char          *function,
                                           const GpuRangeCopy  *copy,
                                           GpuPending          *pending,
                                           GError             **error);
/* Returns FALSE with an error if the ranges overlap but are not the same bytes. Ranges of two
 * memory objects may also overlap in host memory that both objects use in place. */
gboolean     _gpu_range_copy_check_overlap (const GpuRangeCopy *copy,
                                           const char          *function,
                                           GError             **error);
/* A GpuOperationFunc for a copy of bytes to themselves. */
gboolean     _gpu_run_nothing             (gconstpointer        operation,
                                           GpuNativeStream     *stream,
                                           GpuNativeEvent     **event,
                                           GError             **error);
/* Sets the error for a copy between two memory objects that use the same host memory in place, if
 * the ranges overlap and begin at different addresses. The offsets are those of the ranges in the
 * objects. */
GPU_COLD gboolean
             _gpu_fail_place_overlap      (const guint8        *to,
                                           gsize                to_offset,
                                           const guint8        *from,
                                           gsize                from_offset,
                                           const char          *function,
                                           GError             **error);
/* Sets the error for a copy between @data and a range at @offset of memory at @place, if the two
 * ranges overlap and begin at different addresses. */
GPU_COLD gboolean
             _gpu_fail_host_overlap       (const guint8        *place,
                                           gsize                offset,
                                           gconstpointer        data,
                                           const char          *function,
                                           GError             **error);
/* See gpu_stream_copy_batch(). */
gboolean     _gpu_timeline_copy_batch     (GpuTimeline    *timeline,
                                           const char     *function,
                                           GpuMemory     **memories,
                                           gsize           n_memories,
                                           const guint64  *ranges,
                                           gsize           n_ranges,
                                           GError        **error);
/* Returns whether one command can copy between the memory objects. */
gboolean     _gpu_timeline_can_copy_rows  (GpuTimeline  *timeline,
                                           GpuMemory    *destination,
                                           GpuMemory    *source);
/* Copies rows in one operation, under the condition of _gpu_timeline_can_copy_rows(). @copy has all
 * but the buffers. No row of the destination occurs twice, and the rows do not overlap. The numbers
 * of @copy are @first to @last. */
gboolean     _gpu_timeline_copy_rows      (GpuTimeline            *timeline,
                                           const char             *function,
                                           GpuMemory              *destination,
                                           GpuMemory              *source,
                                           const GpuBufferRowCopy *copy,
                                           guint32                 first,
                                           guint32                 last,
                                           GError                **error);
/* Implements gpu_buffer_read_bytes() for memory that is not spilled. */
GBytes      *_gpu_memory_read_bytes       (GpuMemory     *memory,
                                           GpuStream     *stream,
                                           gsize          offset,
                                           gsize          size,
                                           const char    *function,
                                           GCancellable  *cancellable,
                                           GError       **error);
/* If @bytes is not NULL, @bytes owns @data, and the operation holds a reference to @bytes. */
gboolean     _gpu_timeline_write          (GpuTimeline  *timeline,
                                           const char   *function,
                                           GpuMemory    *destination,
                                           gsize         offset,
                                           gconstpointer data,
                                           gsize         size,
                                           GBytes       *bytes,
                                           GpuPending   *pending,
                                           GError      **error);
gboolean     _gpu_timeline_read           (GpuTimeline  *timeline,
                                           const char   *function,
                                           GpuMemory    *source,
                                           gsize         offset,
                                           gpointer      data,
                                           gsize         size,
                                           GBytes       *bytes,
                                           GpuPending   *pending,
                                           GError      **error);
/* Writes or reads the whole of @bytes, and counts the copied bytes in @progress, which is
 * nullable. */
gboolean     _gpu_timeline_transfer_bytes (GpuTimeline  *timeline,
                                           const char   *function,
                                           gboolean      write,
                                           GpuMemory    *memory,
                                           gsize         offset,
                                           GBytes       *bytes,
                                           GpuProgress  *progress,
                                           GError      **error);
gboolean     _gpu_timeline_fill           (GpuTimeline  *timeline,
                                           const char   *function,
                                           GpuMemory    *destination,
                                           gsize         offset,
                                           gsize         size,
                                           const guint8 *pattern,
                                           gsize         pattern_size,
                                           GError      **error);
gboolean     _gpu_timeline_fill_region    (GpuTimeline      *timeline,
                                           const char       *function,
                                           GpuMemory        *destination,
                                           const GpuLayout  *layout,
                                           const GpuExtent  *extent,
                                           const guint8     *pattern,
                                           gsize             pattern_size,
                                           GError          **error);
gboolean     _gpu_timeline_copy_region    (GpuTimeline      *timeline,
                                           const char       *function,
                                           GpuMemory        *destination,
                                           const GpuLayout  *destination_layout,
                                           GpuMemory        *source,
                                           const GpuLayout  *source_layout,
                                           const GpuExtent  *extent,
                                           GError          **error);
/* Host memory that a region is copied from or to. */
typedef struct
{
  gpointer         data;
  gsize            size;            /* bytes */
  const GpuLayout *layout;          /* NULL for offset 0 and tightly packed rows */
  GBytes          *bytes;           /* nullable: the owner of `data`; the operation holds a
                                     * reference to it */
} GpuHostBytes;

gboolean     _gpu_timeline_write_region   (GpuTimeline         *timeline,
                                           const char          *function,
                                           GpuMemory           *destination,
                                           const GpuLayout     *destination_layout,
                                           const GpuHostBytes  *host,
                                           const GpuExtent     *extent,
                                           GpuPending          *pending,
                                           GError             **error);
gboolean     _gpu_timeline_read_region    (GpuTimeline         *timeline,
                                           const char          *function,
                                           GpuMemory           *source,
                                           const GpuLayout     *source_layout,
                                           const GpuHostBytes  *host,
                                           const GpuExtent     *extent,
                                           GpuPending          *pending,
                                           GError             **error);
/* Returns FALSE with an error if the region exceeds @memory. @name is the name of @memory in the
 * error message, such as "destination". */
gboolean     _gpu_region_check            (GpuMemory           *memory,
                                           const GpuLayout     *layout,
                                           const GpuExtent     *extent,
                                           const char          *function,
                                           const char          *name,
                                           GError             **error);
/* (transfer full): allocates host memory for a read of a tightly packed region. */
GBytes      *_gpu_region_bytes_new        (GpuMemory           *memory,
                                           const GpuExtent     *extent,
                                           const char          *function,
                                           GpuHostBytes        *host,
                                           GError             **error);
/* (transfer full): allocates uninitialized host memory and returns its address in @data. Returns
 * NULL with an error if out of host memory. */
GBytes      *_gpu_bytes_new               (gsize         size,
                                           const char   *function,
                                           gpointer     *data,
                                           GError      **error);
GpuMapping  *_gpu_timeline_map            (GpuTimeline  *timeline,
                                           const char   *function,
                                           GpuMemory    *memory,
                                           GpuMapFlags   flags,
                                           gsize         offset,
                                           gsize         size,
                                           GError      **error);
/* @extent must not be empty. */
GpuMapping  *_gpu_timeline_map_image      (GpuTimeline      *timeline,
                                           const char       *function,
                                           GpuImage         *image,
                                           GpuMapFlags       flags,
                                           const GpuLayout  *layout,
                                           const GpuExtent  *extent,
                                           GError          **error);
/* Like gpu_mapping_unmap(). Sets @pending, which is nullable, for _gpu_pending_wait(). */
gboolean     _gpu_mapping_unmap           (GpuMapping   *mapping,
                                           GpuPending   *pending,
                                           GError      **error);
gboolean     _gpu_timeline_fill_image     (GpuTimeline      *timeline,
                                           const char       *function,
                                           GpuImage         *image,
                                           const GpuColor   *color,
                                           const GpuLayout  *layout,
                                           const GpuExtent  *extent,
                                           GError          **error);

G_END_DECLS
