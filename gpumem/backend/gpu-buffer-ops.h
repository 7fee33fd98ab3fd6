/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Buffers. gpu-backend.h has the rules for every op. */
#pragma once

#include "gpumem/backend/gpu-memory-ops.h"

G_BEGIN_DECLS

typedef GpuNativeBuffer *GpuBufferAllocOp (GpuNativeContext *context,
                                           GpuMemoryFlags    flags,
                                           gsize             size,
                                           gconstpointer     data,
                                           GError          **error);
typedef GpuNativeBuffer *GpuBufferAllocForHostOp (GpuNativeContext *context,
                                                  GpuMemoryFlags    flags,
                                                  gpointer          data,
                                                  gsize             size,
                                                  GError          **error);
typedef GpuNativeBuffer *GpuBufferAllocHostOp (GpuNativeContext   *context,
                                               GpuHostMemoryFlags *flags,
                                               gsize               size,
                                               GError            **error);
typedef GpuNativeBuffer *GpuBufferRegisterHostOp (GpuNativeContext   *context,
                                                  GpuHostMemoryFlags *flags,
                                                  gpointer            data,
                                                  gsize               size,
                                                  GError            **error);
typedef GpuNativeBuffer *GpuBufferUseHostOp (GpuNativeContext *context,
                                             gpointer          data,
                                             gsize             size,
                                             GError          **error);
typedef GBytes *GpuBufferExportHandleOp (GpuNativeContext *context,
                                         GpuNativeBuffer  *buffer,
                                         GError          **error);
typedef GpuNativeBuffer *GpuBufferImportHandleOp (GpuNativeContext *context,
                                                  GBytes           *handle,
                                                  gsize             size,
                                                  GError          **error);
typedef GBytes *GpuBufferExportFdOp (GpuNativeContext *context,
                                     GpuNativeBuffer  *buffer,
                                     int              *fd,
                                     GError          **error);
typedef GpuNativeBuffer *GpuBufferImportFdOp (GpuNativeContext *context,
                                              GBytes           *handle,
                                              int               fd,
                                              gsize             size,
                                              GError          **error);
typedef GpuFdKinds GpuBufferGetFdKindsOp (GpuNativeContext *context,
                                          gboolean          import);
typedef gboolean GpuBufferShareFdOp (GpuNativeContext *context,
                                     GpuNativeBuffer  *buffer,
                                     GpuFdKinds        kind,
                                     int              *fd,
                                     gsize            *whole_size,
                                     gsize            *offset,
                                     GError          **error);
typedef GpuNativeBuffer *GpuBufferOpenFdOp (GpuNativeContext *context,
                                            GpuFdKinds        kind,
                                            int               fd,
                                            gsize             whole_size,
                                            gsize             offset,
                                            gsize             size,
                                            GError          **error);
typedef GpuNativeBuffer *GpuBufferAllocOrderedOp (GpuNativeStream *stream,
                                                  GpuMemoryFlags   flags,
                                                  gsize            size,
                                                  GpuNativeEvent **event,
                                                  GError         **error);
typedef gboolean GpuBufferFreeOrderedOp (GpuNativeStream *stream,
                                         GpuNativeBuffer *buffer,
                                         GError         **error);
typedef gboolean GpuBufferCopyOp (GpuNativeStream *stream,
                                  GpuNativeBuffer *destination,
                                  gsize            destination_offset,
                                  GpuNativeBuffer *source,
                                  gsize            source_offset,
                                  gsize            size,
                                  GpuNativeEvent **event,
                                  GError         **error);
typedef gboolean GpuBufferCopyPeerOp (GpuNativeStream  *stream,
                                      GpuNativeContext *destination_context,
                                      GpuNativeBuffer  *destination,
                                      gsize             destination_offset,
                                      GpuNativeContext *source_context,
                                      GpuNativeBuffer  *source,
                                      gsize             source_offset,
                                      gsize             size,
                                      GpuNativeEvent  **event,
                                      GError          **error);
typedef gboolean GpuBufferWriteOp (GpuNativeStream *stream,
                                   GpuNativeBuffer *destination,
                                   gsize            offset,
                                   gconstpointer    data,
                                   gsize            size,
                                   GpuNativeEvent **event,
                                   GError         **error);
typedef gboolean GpuBufferReadOp (GpuNativeStream *stream,
                                  GpuNativeBuffer *source,
                                  gsize            offset,
                                  gpointer         data,
                                  gsize            size,
                                  GpuNativeEvent **event,
                                  GError         **error);
typedef gboolean GpuBufferWriteNowOp (GpuNativeStream *stream,
                                      GpuNativeBuffer *destination,
                                      gsize            offset,
                                      gconstpointer    data,
                                      gsize            size,
                                      GError         **error);
typedef gboolean GpuBufferReadNowOp (GpuNativeStream *stream,
                                     GpuNativeBuffer *source,
                                     gsize            offset,
                                     gpointer         data,
                                     gsize            size,
                                     GError         **error);
typedef gboolean GpuBufferFillOp (GpuNativeStream *stream,
                                  GpuNativeBuffer *destination,
                                  gsize            offset,
                                  gsize            size,
                                  gconstpointer    pattern,
                                  gsize            pattern_size,
                                  GpuNativeEvent **event,
                                  GError         **error);
typedef gboolean GpuBufferFillRegionOp (GpuNativeStream     *stream,
                                        GpuNativeBuffer     *destination,
                                        const GpuRegionSide *side,
                                        const GpuExtent     *extent,
                                        gconstpointer        pattern,
                                        gsize                pattern_size,
                                        GpuNativeEvent     **event,
                                        GError             **error);
typedef gboolean GpuBufferCommitOp (GpuNativeContext *context,
                                    GpuNativeBuffer  *buffer,
                                    GError          **error);
typedef gboolean GpuBufferAcquireOp (GpuNativeStream        *stream,
                                     GpuNativeBuffer *const *buffers,
                                     guint                   n_buffers,
                                     GpuNativeEvent        **event,
                                     GError                **error);
typedef gboolean GpuBufferReleaseOp (GpuNativeStream        *stream,
                                     GpuNativeBuffer *const *buffers,
                                     guint                   n_buffers,
                                     GpuNativeEvent        **event,
                                     GError                **error);
typedef gpointer GpuBufferMapOp (GpuNativeStream *stream,
                                 GpuNativeBuffer *buffer,
                                 GpuMapFlags      flags,
                                 gsize            offset,
                                 gsize            size,
                                 GpuNativeEvent **event,
                                 GError         **error);

typedef struct
{
  /* The largest pattern that fill() takes whatever its size, 0 if it does not. */
  gsize              max_fill_pattern;
  /* How many bytes write_now() and read_now() are called for at most: of so many the driver makes
   * little more than of none, or holds up the caller even if it is not asked to. 0 without them. */
  gsize              max_now_size;

  /* any thread. @size is not 0 and at most the device's max_allocation; @data, if not NULL, are
   * @size bytes to begin with, copied before the call returns. */
  GpuBufferAllocOp *alloc;
  /* any thread; NULL if alloc() allocates immediately, or if is_deferred. Has the system provide
   * all pages of memory from alloc(). The content is undefined afterwards. May take as long as
   * clearing the memory. */
  GpuBufferCommitOp *commit;
  /* any thread; may be NULL: rows are then aligned to the device's base_alignment
   * and, if possible, to its row_alignment. */
  GpuNativeBuffer * (*alloc_pitched)  (GpuNativeContext        *context,
                                       GpuMemoryFlags           flags,
                                       gsize                    row_size,
                                       gsize                    n_rows,
                                       gsize                    element_size,
                                       gsize                   *row_pitch,
                                       GError                 **error);
  /* any thread; may be NULL. Uses @data in place; it outlives the buffer. */
  GpuBufferAllocForHostOp *alloc_for_host;
  /* any thread; each may be NULL. Memory of the host that stays where it is, at
   * GpuNativeMemory.host: the host looks at it whenever no work does, without a command. What
   * kernels must reach has GPU_HOST_MEMORY_FLAGS_MAPPED in @flags, or it is
   * GPU_ERROR_NOT_SUPPORTED; the others ask for what may be done without. @flags become those that
   * it has. Where memory runs short it is GPU_ERROR_OUT_OF_HOST_MEMORY. */
  GpuBufferAllocHostOp *alloc_host;
  /* @data are of the program, and outlive the buffer. With GPU_HOST_MEMORY_FLAGS_READ_ONLY in
   * @flags nobody writes them: the pages may not let anybody. */
  GpuBufferRegisterHostOp *register_host;
  /* The same for memory that nothing is done to: kernels need not reach it. */
  GpuBufferUseHostOp *use_host;
  /* any thread; may be NULL. @size 0 asks the driver for the size. */
  GpuNativeBuffer * (*wrap)           (GpuNativeContext        *context,
                                       guint64                  handle,
                                       gsize                    size,
                                       GpuWrapMode              mode,
                                       GError                 **error);
  /* any thread. @parent is no slice itself and outlives the slice; @offset is a multiple of the
   * device's base_alignment where the device has sub-buffers, unless @parent is_host_only. */
  GpuNativeBuffer * (*slice)          (GpuNativeContext        *context,
                                       GpuNativeBuffer         *parent,
                                       GpuMemoryFlags           flags,
                                       gsize                    offset,
                                       gsize                    size,
                                       GError                 **error);
  /* any thread; may be NULL, both of a pair. What another process opens the memory of @buffer
   * with; @buffer may be a slice or lie inside a greater allocation of the driver: the bytes then
   * say where. The memory stays while the exporter holds it. */
  GpuBufferExportHandleOp *export_handle;
  /* @handle comes from outside: one that is none, or tells of less than @size bytes, is
   * GPU_ERROR_IPC. The memory of one handle is mapped once, however often it is imported. */
  GpuBufferImportHandleOp *import_handle;
  /* The same for memory with GPU_MEMORY_FLAGS_SHAREABLE, as a file descriptor that becomes the
   * caller's, and bytes for what it does not tell; importing leaves @fd the caller's. */
  GpuBufferExportFdOp *export_fd;
  GpuBufferImportFdOp *import_fd;

  /* Whether open_fd() takes no offset but 0: the front class then cuts the buffer out of one that
   * begins there. */
  gboolean           opens_from_start;
  /* The same for libraries other than this one, without bytes of ours: may be NULL, and then none
   * of this can be. What kinds pass, out of the context, or into it: where none do, what serves
   * them may be NULL. */
  GpuBufferGetFdKindsOp *get_fd_kinds;
  /* @kind is one of those, and @buffer has GPU_MEMORY_FLAGS_SHAREABLE. The descriptor, which is the
   * caller's, is of an allocation of @whole_size bytes, where the buffer begins at @offset. */
  GpuBufferShareFdOp *share_fd;
  /* The range lies within @whole_size bytes, which come from outside; @fd stays the caller's. Of
   * what can only be read it makes a buffer that is_constant. */
  GpuBufferOpenFdOp *open_fd;

  /* The driver may put allocations off until work uses the memory. */
  gboolean          is_deferred;

  /* The rest are stream ops; sizes are not 0. */

  /* May be NULL. Memory that work submitted to @stream later can use, as can work on other
   * streams that waits for @stream. */
  GpuBufferAllocOrderedOp *alloc_ordered;
  /* May be NULL. Frees the buffer, of alloc_ordered(), after the work submitted to @stream so far,
   * which all other work with the buffer comes before. Frees the structure itself at once, also
   * if it fails. */
  GpuBufferFreeOrderedOp *free_ordered;

  /* The ranges do not overlap. */
  GpuBufferCopyOp *copy;
  /* May be NULL. One of the contexts is that of the stream; the other is of the same back end. */
  GpuBufferCopyPeerOp *copy_peer;
  /* @data stays as it is until the operation is complete. */
  GpuBufferWriteOp *write;
  GpuBufferReadOp *read;
  /* Write and read that block until they are over, and fail if the operation does; may be NULL.
   * Only called for little data while all else that was submitted in the context is over, so that
   * they take about as long as an op that does not block. */
  GpuBufferWriteNowOp *write_now;
  GpuBufferReadNowOp *read_now;
  /* @pattern_size is a power of two up to 128, and @offset and @size are multiples of it; or it is
   * at most max_fill_pattern, and @size a multiple of it. Other patterns are composed of fills and
   * copies by the front class. @pattern may change once the call has returned. */
  GpuBufferFillOp *fill;
  /* May be NULL, and may fail with NOT_SUPPORTED having done nothing: the front class then fills
   * row by row. @pattern_size is as for fill(), and everything in @side and the width of @extent
   * are multiples of it. */
  GpuBufferFillRegionOp *fill_region;
  /* May be NULL where no memory is_external, both. From this point of the stream on the back end
   * has @n_buffers buffers, at least one, as the other API left them; and from that point on the
   * other API, as the back end left them. They are no slices, and commands that are enqueued
   * between the two, to this stream or another, use them and what was cut from them. None is
   * acquired or released twice in turn. Both are commands like any other: on a stream out of order
   * the front class puts barriers between them and what uses the memory. */
  GpuBufferAcquireOp *acquire;
  GpuBufferReleaseOp *release;
  /* May be NULL. The pointer comes at once, what it points to is right once the operation is
   * complete. */
  GpuBufferMapOp *map;
} GpuBufferOps;

G_END_DECLS
