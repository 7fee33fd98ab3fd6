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
                                               int                *numa_node,
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
                                     gsize             size,
                                     GArray           *fds,
                                     GError          **error);
typedef GpuNativeBuffer *GpuBufferImportFdOp (GpuNativeContext *context,
                                              GBytes           *handle,
                                              const int        *fds,
                                              guint             n_fds,
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
/* One copy of a batch. */
typedef struct
{
  GpuNativeBuffer *destination;
  gsize            destination_offset;
  GpuNativeBuffer *source;
  gsize            source_offset;
  gsize            size;
} GpuBufferCopy;

typedef void GpuBufferPrepareBatchOp (GpuNativeContext *context,
                                      gsize             n_copies);
/* Copies of rows: a *numbered* row of one buffer and row i of the other buffer, for each number
 * rows[i]. The offsets are those of the rows 0, and the steps are the bytes from a row to the next,
 * which may be negative. */
typedef struct
{
  GpuNativeBuffer *destination;
  gsize            destination_offset;
  gssize           destination_step;
  GpuNativeBuffer *source;
  gsize            source_offset;
  gssize           source_step;
  gsize            size;            /* bytes of a row */
  const guint32   *rows;
  gsize            n_rows;
  gboolean         is_put;          /* whether the rows of the destination are numbered */
} GpuBufferRowCopy;

typedef gboolean GpuBufferCopyBatchOp (GpuNativeStream     *stream,
                                       const GpuBufferCopy *copies,
                                       gsize                n_copies,
                                       GpuNativeEvent     **event,
                                       GError             **error);
typedef gboolean GpuBufferCopyRowsOp (GpuNativeStream         *stream,
                                      const GpuBufferRowCopy  *copy,
                                      GpuNativeEvent         **event,
                                      GError                 **error);
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

typedef struct
{
  gsize         offset;             /* of the range */
  gsize         size;
  const guint8 *pattern;
  gsize         pattern_size;
} GpuNativeFill;

typedef gboolean GpuBufferFillOp (GpuNativeStream     *stream,
                                  GpuNativeBuffer     *destination,
                                  const GpuNativeFill *fill,
                                  GpuNativeEvent     **event,
                                  GError             **error);
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
  /* Up to this size in bytes, fill() accepts patterns whose size is not a power of two. 0 if it
   * accepts none of them. */
  gsize              max_fill_pattern;
  /* The maximum number of bytes for write_now() and read_now(), or 0 if these ops are NULL. Up to
   * this size, either a copy takes little longer than a copy of 0 bytes, or write() and read()
   * would block just as long. */
  gsize              max_now_size;

  /* any thread. @size is not 0 and at most the device's max_allocation; @data, if not NULL, is the
   * initial contents of @size bytes, copied before the call returns. */
  GpuBufferAllocOp *alloc;
  /* any thread; may be NULL. Makes the operating system provide all pages of memory from alloc().
   * Required if alloc() only reserves addresses and is_deferred is FALSE. The contents are
   * undefined afterwards. May take as long as clearing the memory. */
  GpuBufferCommitOp *commit;
  /* any thread; may be NULL: the public class then aligns rows to the device's base_alignment and,
   * if possible, to its row_alignment. */
  GpuNativeBuffer * (*alloc_pitched)  (GpuNativeContext        *context,
                                       GpuMemoryFlags           flags,
                                       gsize                    row_size,
                                       gsize                    n_rows,
                                       gsize                    element_size,
                                       gsize                   *row_pitch,
                                       GError                 **error);
  /* any thread; may be NULL. Uses @data in place. @data outlives the buffer. */
  GpuBufferAllocForHostOp *alloc_for_host;
  /* any thread; this op and the next two may be NULL. Allocates host memory at a fixed address,
   * GpuNativeMemory.host. While no work uses the memory, the host accesses it directly, without a
   * command. With GPU_HOST_MEMORY_FLAGS_MAPPED in @flags, kernels must be able to access the
   * memory; if they cannot, the op fails with GPU_ERROR_NOT_SUPPORTED. The op may ignore all other
   * flags. Sets @flags to the flags in effect. The pages should be on the NUMA node @numa_node, a
   * node of the host, GPU_NUMA_NODE_DEVICE or GPU_NUMA_NODE_NONE; sets it to the node in effect, or
   * to GPU_NUMA_NODE_NONE. Fails with GPU_ERROR_OUT_OF_HOST_MEMORY if the host is out of memory. */
  GpuBufferAllocHostOp *alloc_host;
  /* Uses @data in place, and page-locks it if possible. @data belongs to the program and outlives
   * the buffer. With GPU_HOST_MEMORY_FLAGS_READ_ONLY in @flags, the memory must not be written: its
   * pages may be write-protected. */
  GpuBufferRegisterHostOp *register_host;
  /* Like register_host(), but leaves pageable memory pageable. Kernels need not be able to access
   * the memory. */
  GpuBufferUseHostOp *use_host;
  /* any thread; may be NULL. With @size 0 the driver determines the size. */
  GpuNativeBuffer * (*wrap)           (GpuNativeContext        *context,
                                       guint64                  handle,
                                       gsize                    size,
                                       GpuWrapMode              mode,
                                       GError                 **error);
  /* any thread. @parent is not a slice itself, and outlives the slice. If the device has
   * sub-buffers and is_host_only of @parent is FALSE, @offset is a multiple of the device's
   * base_alignment. */
  GpuNativeBuffer * (*slice)          (GpuNativeContext        *context,
                                       GpuNativeBuffer         *parent,
                                       GpuMemoryFlags           flags,
                                       gsize                    offset,
                                       gsize                    size,
                                       GError                 **error);
  /* any thread; not NULL if the back end has virtual memory. Moves @slice, which slice() created,
   * to another range of @parent. No other thread uses @slice. */
  void              (*move_slice)     (GpuNativeBuffer         *slice,
                                       GpuNativeBuffer         *parent,
                                       gsize                    offset,
                                       gsize                    size);
  /* any thread; NULL if import_handle is NULL. Creates a handle for the memory of @buffer that
   * another process can open. @buffer may be a slice or a part of a larger allocation of the
   * driver; the handle then contains the offset. The memory remains valid while the exporting
   * process holds it. */
  GpuBufferExportHandleOp *export_handle;
  /* @handle comes from another process: fails with GPU_ERROR_IPC if @handle is invalid, or if its
   * memory has less than @size bytes. If a handle is imported several times, its memory is mapped
   * only once. */
  GpuBufferImportHandleOp *import_handle;
  /* Like export_handle() and import_handle(), for memory with GPU_MEMORY_FLAGS_SHAREABLE.
   * export_fd() exports the first @size bytes of @buffer: it adds file descriptors to @fds, an
   * empty array of _gpu_descriptors_new(), and returns bytes of further information. Memory over
   * several chunks (see GpuVirtualOps) has several descriptors. import_fd() needs the bytes and all
   * descriptors, at least one, in the same order. The caller of import_fd() keeps ownership of
   * @fds. */
  GpuBufferExportFdOp *export_fd;
  GpuBufferImportFdOp *import_fd;

  /* Whether open_fd() accepts only the offset 0. For other offsets, the public class then opens the
   * memory from its start and creates a slice. */
  gboolean           opens_from_start;
  /* get_fd_kinds(), share_fd() and open_fd() share memory with other libraries, which do not know
   * the handles of this library. All three are NULL if the back end cannot share memory in this
   * way. get_fd_kinds() gets the kinds of file descriptors that the context can import if @import
   * is TRUE, or else the kinds that the context can export. If there are no kinds to export,
   * share_fd may be NULL; if there are no kinds to import, open_fd may be NULL. */
  GpuBufferGetFdKindsOp *get_fd_kinds;
  /* @kind is a kind that the context can export, and @buffer has GPU_MEMORY_FLAGS_SHAREABLE. The
   * caller owns the descriptor, which refers to an allocation of @whole_size bytes; the buffer
   * begins at @offset. Fails with GPU_ERROR_NOT_SUPPORTED if the memory needs several
   * descriptors. */
  GpuBufferShareFdOp *share_fd;
  /* @whole_size comes from the program, so the value may be wrong. The @size bytes at @offset lie
   * within @whole_size. The caller keeps ownership of @fd. If the memory cannot be written, sets
   * is_constant of the buffer. */
  GpuBufferOpenFdOp *open_fd;

  /* Whether the driver may defer allocations until work uses the memory. */
  gboolean          is_deferred;

  /* The remaining entries are stream ops; sizes are not 0. */

  /* May be NULL. Allocates memory for work submitted to @stream later, and for work on other
   * streams that waits for @stream. */
  GpuBufferAllocOrderedOp *alloc_ordered;
  /* May be NULL. Frees the memory of a buffer from alloc_ordered() once the work submitted to
   * @stream so far has completed. The public class has already made @stream wait for all other work
   * that uses the buffer. Frees the structure itself at once, even on failure. */
  GpuBufferFreeOrderedOp *free_ordered;

  /* The ranges do not overlap. */
  GpuBufferCopyOp *copy;
  /* May be NULL. One of the two contexts is the context of the stream; the other context belongs to
   * the same back end. */
  GpuBufferCopyPeerOp *copy_peer;
  /* any thread; may be NULL. Called before copy_batch(), without locks, because drivers wait for
   * pending work while they load a kernel. */
  GpuBufferPrepareBatchOp *prepare_batch;
  /* Called for streams without GPU_STREAM_FLAGS_OUT_OF_ORDER and GPU_STREAM_FLAGS_PROFILING. The
   * copies may run in any order: no destination overlaps another range of the batch. */
  GpuBufferCopyBatchOp *copy_batch;
  /* May be NULL, and may fail with GPU_ERROR_NOT_SUPPORTED before it has enqueued any command: the
   * public class then calls copy_batch(). Under the same conditions as copy_batch(). */
  GpuBufferCopyRowsOp *copy_rows;
  /* @data must not change until the operation completes. */
  GpuBufferWriteOp *write;
  GpuBufferReadOp *read;
  /* May be NULL. Like write() and read(), but block until the copy has completed, and fail if the
   * copy fails. Called only for sizes up to max_now_size, and only if all other work submitted in
   * the context has completed. Under these conditions the ops take about as long as ops that do not
   * block. */
  GpuBufferWriteNowOp *write_now;
  GpuBufferReadNowOp *read_now;
  /* `pattern_size` is a power of two up to 128, and `offset` and `size` are multiples of
   * `pattern_size`; or `pattern_size` is at most max_fill_pattern, and `size` is a multiple of
   * `pattern_size`. The public class composes other patterns from fills and copies. @fill and the
   * pattern may change once the call has returned. */
  GpuBufferFillOp *fill;
  /* May be NULL, and may fail with GPU_ERROR_NOT_SUPPORTED before it has enqueued any command: the
   * public class then fills row by row. @pattern_size is as for fill(), and all members of @side
   * and the width of @extent are multiples of @pattern_size. */
  GpuBufferFillRegionOp *fill_region;
  /* Both may be NULL if is_external is FALSE for all memory. The memory of @n_buffers buffers, at
   * least one, is shared with another API. acquire() makes the writes of the other API visible to
   * later commands; release() makes the writes of the back end visible to the other API. The
   * buffers are not slices. Commands that use the buffers or their slices are enqueued between the
   * two calls, to this stream or to other streams. No buffer is acquired or released twice in a
   * row. Both ops are ordinary commands: on an out-of-order stream, GpuStream puts barriers between
   * them and the work that uses the memory. */
  GpuBufferAcquireOp *acquire;
  GpuBufferReleaseOp *release;
  /* May be NULL. Returns the pointer immediately; its contents are valid once the operation
   * completes. */
  GpuBufferMapOp *map;
} GpuBufferOps;

G_END_DECLS
