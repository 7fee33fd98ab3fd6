/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The linear operations of a stream: copy, write, read, migrate. */
#include "config.h"

#include "gpumem/base/gpu-nick-private.h"
#include "gpumem/command/gpu-command-private.h"
#include "gpumem/command/gpu-copy-cross-driver-private.h"
#include "gpumem/command/gpu-staging-private.h"
#include "gpumem/device/gpu-context-private.h"
#include "gpumem/memory/gpu-host-memory-private.h"
#include "gpumem/stream/gpu-submission-inline-private.h"

/* A copy between a memory object and host memory. */
typedef struct
{
  GpuMemory   *memory;
  gsize        offset;
  gsize        size;
  gpointer     data;
  GpuTransfer *staged;              /* NULL if the copy is not staged */
  GpuOperationFunc direct;          /* the function that copies without staging */
  GpuProgress *progress;            /* nullable */
} Transfer;

static inline GpuTransferCopy
get_transfer_copy (const Transfer *transfer,
                   gboolean        write,
                   GBytes         *bytes)
{
  gsize size = transfer->size;

  return (GpuTransferCopy) {
    .write = write,
    .device = { .offset = transfer->offset, .row_pitch = size, .slice_pitch = size },
    .host = { .data = transfer->data, .row_pitch = size, .slice_pitch = size },
    .extent = { size, 1, 1 }, .unit = 1, .bytes = bytes, .progress = transfer->progress
  };
}

/* @operation is an array of two accesses: the source and the destination. */
static inline gboolean
run_copy (gconstpointer     operation,
          GpuNativeStream  *stream,
          GpuNativeEvent  **event,
          GError          **error)
{
  const GpuAccess *from = operation;
  const GpuAccess *to = from + 1;

  return stream->backend->buffer->copy (stream, to->storage->buffer, to->offset,
                                        from->storage->buffer, from->offset, from->size, event,
                                        error);
}

/* A copy between device memory and GpuHostMemory that is not page-locked. The accesses must be the
 * first member: if staging fails, the struct is passed to run_copy(). */
typedef struct
{
  GpuAccess    accesses[2];
  GpuMemory   *device;
  GpuTransfer *staged;
} HostCopy;

static gboolean
run_host_copy (gconstpointer     operation,
               GpuNativeStream  *stream,
               GpuNativeEvent  **event,
               GError          **error)
{
  const HostCopy *copy = operation;
  g_autoptr (GError) failure = NULL;

  if (_gpu_transfer_submit (copy->staged, stream, copy->device->storage->buffer, event, &failure))
    return TRUE;

  if (!_gpu_transfer_has_begun (copy->staged))
    return run_copy (operation, stream, event, error);

  g_propagate_error (error, g_steal_pointer (&failure));

  return FALSE;
}

static gboolean
run_copy_peer (gconstpointer     operation,
               GpuNativeStream  *stream,
               GpuNativeEvent  **event,
               GError          **error)
{
  const GpuAccess *from = operation;
  const GpuAccess *to = from + 1;

  return stream->backend->buffer->copy_peer (stream, to->storage->context, to->storage->buffer,
                                             to->offset, from->storage->context,
                                             from->storage->buffer, from->offset, from->size,
                                             event, error);
}

static gboolean
run_write (gconstpointer     operation,
           GpuNativeStream  *stream,
           GpuNativeEvent  **event,
           GError          **error)
{
  const Transfer *transfer = operation;

  return stream->backend->buffer->write (stream, transfer->memory->storage->buffer,
                                         transfer->offset, transfer->data, transfer->size, event,
                                         error);
}

static gboolean
run_read (gconstpointer     operation,
          GpuNativeStream  *stream,
          GpuNativeEvent  **event,
          GError          **error)
{
  const Transfer *transfer = operation;

  return stream->backend->buffer->read (stream, transfer->memory->storage->buffer, transfer->offset,
                                        transfer->data, transfer->size, event, error);
}

GPU_HOT static gboolean
run_write_now (gconstpointer     operation,
               GpuNativeStream  *stream,
               GpuNativeEvent  **event G_GNUC_UNUSED,
               GError          **error)
{
  const Transfer *transfer = operation;

  return stream->backend->buffer->write_now (stream, transfer->memory->storage->buffer,
                                             transfer->offset, transfer->data, transfer->size,
                                             error);
}

GPU_HOT static gboolean
run_read_now (gconstpointer     operation,
              GpuNativeStream  *stream,
              GpuNativeEvent  **event G_GNUC_UNUSED,
              GError          **error)
{
  const Transfer *transfer = operation;

  return stream->backend->buffer->read_now (stream, transfer->memory->storage->buffer,
                                            transfer->offset, transfer->data, transfer->size,
                                            error);
}

static gboolean
run_staged (gconstpointer     operation,
            GpuNativeStream  *stream,
            GpuNativeEvent  **event,
            GError          **error)
{
  const Transfer *transfer = operation;
  g_autoptr (GError) failure = NULL;

  if (_gpu_transfer_submit (transfer->staged, stream, transfer->memory->storage->buffer, event,
                            &failure))
    return TRUE;

  if (!_gpu_transfer_has_begun (transfer->staged))
    return transfer->direct (operation, stream, event, error);

  g_propagate_error (error, g_steal_pointer (&failure));

  return FALSE;
}

/* Divides the copy for its progress. Does not divide a copy whose event the caller needs: on a
 * profiling stream, the event must cover the whole copy. */
static gboolean
run_parts (gconstpointer     operation,
           GpuNativeStream  *stream,
           GpuNativeEvent  **event,
           GError          **error)
{
  const Transfer *transfer = operation;
  GpuTransferCopy copy = get_transfer_copy (transfer, transfer->direct == run_write, NULL);

  copy.device.memory = transfer->memory->storage->buffer;

  return event == NULL ? _gpu_transfer_submit_parts (&copy, stream, error)
                       : transfer->direct (operation, stream, event, error);
}

/* Submits a write or a read. Stages the copy if staging is faster. */
static gboolean
submit_transfer (GpuTimeline    *timeline,
                 GpuSubmission  *submission,
                 Transfer       *transfer,
                 GBytes         *bytes,
                 GpuPending     *pending,
                 GError        **error)
{
  transfer->direct = submission->run;

  if (G_UNLIKELY (transfer->size > GPU_STAGING_SIZE_MIN))
    {
      const GpuTransferCopy copy = get_transfer_copy (transfer, submission->accesses->write, bytes);

      transfer->staged = _gpu_timeline_stage (timeline, transfer->memory, &copy, pending != NULL);
    }

  if (G_UNLIKELY (transfer->progress != NULL) && transfer->staged == NULL
      && (timeline->flags & GPU_STREAM_FLAGS_OUT_OF_ORDER) == 0
      && _gpu_transfer_has_parts (transfer->size))
    submission->run_infallible = run_parts;

  if (G_LIKELY (transfer->staged == NULL))
    return _gpu_submit (timeline, submission, pending, error);

  submission->run_infallible = run_staged;
  submission->run_now = NULL;

  return _gpu_submit_staged (timeline, submission, transfer->staged, pending, error);
}

/* Returns @run_now if the caller waits for a small operation that retains no bytes, otherwise
 * NULL. */
static inline GpuOperationFunc
get_run_now (const GpuPending *pending,
             GBytes           *bytes,
             gsize             size,
             gsize             max_size,
             GpuOperationFunc  run_now)
{
  return pending != NULL && bytes == NULL && size <= max_size ? run_now : NULL;
}

GPU_COLD static gboolean
fail_overlap (gsize        destination_offset,
              gsize        source_offset,
              gsize        size,
              const char  *function,
              GError     **error)
{
  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s: source offset %" G_GSIZE_FORMAT " and destination offset %" G_GSIZE_FORMAT
               " of the same memory overlap in %" G_GSIZE_FORMAT " bytes", function, source_offset,
               destination_offset, size);

  return FALSE;
}

/* Compares the ranges of two memory objects that may use the same host memory in place. If the
 * host may access one of them only after a command, that command is a copy of bytes to
 * themselves. */
GPU_COLD static gboolean
check_places (const GpuRangeCopy  *copy,
              gboolean            *does_nothing,
              const char          *function,
              GError             **error)
{
  const guint8 *to = _gpu_memory_get_place (copy->destination);
  const guint8 *from = _gpu_memory_get_place (copy->source);

  if (to == NULL || from == NULL)
    return TRUE;

  to += copy->destination_offset;
  from += copy->source_offset;
  *does_nothing = to == from && copy->destination->has_host_data && copy->source->has_host_data;

  return to == from || to >= from + copy->size || from >= to + copy->size
         || _gpu_fail_place_overlap (to, copy->destination_offset, from, copy->source_offset,
                                     function, error);
}

/* Sets @does_nothing to TRUE if the copy changes no byte, and no command needs to run for it. */
G_ALWAYS_INLINE static inline gboolean
check_overlap (const GpuRangeCopy  *copy,
               gboolean            *does_nothing,
               const char          *function,
               GError             **error)
{
  GpuStorage *to = copy->destination->storage;
  GpuStorage *from = copy->source->storage;
  gsize to_offset, from_offset;

  if (G_LIKELY (to->root != from->root))
    return G_LIKELY (g_atomic_pointer_get (&copy->destination->host_data) == NULL)
           || check_places (copy, does_nothing, function, error);

  to_offset = to->offset + copy->destination_offset;
  from_offset = from->offset + copy->source_offset;
  *does_nothing = to_offset == from_offset;

  return *does_nothing || to_offset >= from_offset + copy->size
         || from_offset >= to_offset + copy->size
         || fail_overlap (to_offset, from_offset, copy->size, function, error);
}

gboolean
_gpu_range_copy_check_overlap (const GpuRangeCopy  *copy,
                               const char          *function,
                               GError             **error)
{
  gboolean does_nothing;

  return check_overlap (copy, &does_nothing, function, error);
}

/* Sets up a copy from or to memory of another context. */
GPU_COLD static gboolean
set_peers (GpuTimeline         *timeline,
           const GpuRangeCopy  *copy,
           GpuSubmission       *submission,
           GError             **error)
{
  GpuNativeContext *to = copy->destination->storage->context;
  GpuNativeContext *from = copy->source->storage->context;
  const GpuBackend *backend = timeline->context->backend;

  /* If neither memory belongs to the stream's context, or one belongs to another back end,
   * _gpu_submit() rejects the copy. */
  if ((to != timeline->context && from != timeline->context) || to->backend != backend
      || from->backend != backend)
    return TRUE;

  if (!_gpu_native_context_check (to == timeline->context ? from : to, error))
    {
      g_prefix_error (error, "%s: ", submission->function);
      return FALSE;
    }

  submission->run = run_copy_peer;
  submission->peers = TRUE;

  return TRUE;
}

static gboolean
is_pageable (GpuMemory *memory)
{
  return GPU_IS_HOST_MEMORY (memory) && !((GpuHostMemory *) memory)->is_locked
         && ((GpuHostMemory *) memory)->data != NULL;
}

/* Submits a copy from or to memory that the host can access. */
GPU_COLD static gboolean
submit_host_copy (GpuTimeline    *timeline,
                  GpuSubmission  *submission,
                  GpuPending     *pending,
                  GError        **error)
{
  HostCopy copy = { .accesses = { submission->accesses[0], submission->accesses[1] } };
  gboolean write = copy.accesses[0].memory->has_host_data;
  const GpuAccess *host = &copy.accesses[write ? 0 : 1];
  const GpuAccess *device = &copy.accesses[write ? 1 : 0];
  gsize size = device->size;
  GpuTransferCopy staged = {
    .write = write, .in_order = TRUE, .extent = { size, 1, 1 }, .unit = 1,
    .device = { .offset = device->offset, .row_pitch = size, .slice_pitch = size },
    .host = { .offset = host->offset, .row_pitch = size, .slice_pitch = size }
  };

  if (is_pageable (host->memory))
    {
      staged.host.data = ((GpuHostMemory *) host->memory)->data;
      copy.device = device->memory;
      copy.staged = _gpu_timeline_stage (timeline, copy.device, &staged, FALSE);
    }

  if (copy.staged == NULL)
    return _gpu_submit (timeline, submission, pending, error);

  submission->accesses = copy.accesses;
  submission->operation = &copy;
  submission->run_infallible = run_host_copy;

  return _gpu_submit_staged (timeline, submission, copy.staged, pending, error);
}

static inline gboolean
is_local (const GpuTimeline  *timeline,
          const GpuRangeCopy *copy)
{
  return copy->destination->storage->context == timeline->context
         && copy->source->storage->context == timeline->context;
}

/* Returns whether the copy may be staged. */
static inline gboolean
is_host_copy (const GpuRangeCopy *copy)
{
  return copy->size > GPU_STAGING_SIZE_MIN
         && copy->source->has_host_data != copy->destination->has_host_data;
}

/* Submits a copy of bytes to themselves, a copy of another context, or a large copy from or to host
 * memory. */
GPU_COLD static gboolean
submit_other_copy (GpuTimeline         *timeline,
                   const char          *function,
                   const GpuRangeCopy  *copy,
                   GpuAccess           *accesses,
                   gboolean             does_nothing,
                   GpuPending          *pending,
                   GError             **error)
{
  GpuSubmission submission = { .function = function, .accesses = accesses, .n_accesses = 2,
                               .run = run_copy, .operation = accesses };

  if (!is_local (timeline, copy) && !set_peers (timeline, copy, &submission, error))
    return FALSE;

  if (does_nothing)
    submission.run = _gpu_run_nothing;

  if (is_host_copy (copy) && !submission.peers)
    return submit_host_copy (timeline, &submission, pending, error);

  return _gpu_submit (timeline, &submission, pending, error);
}

/* Inline in gpu_stream_copy(). */
G_ALWAYS_INLINE inline gboolean
_gpu_timeline_copy_direct (GpuTimeline         *timeline,
                           const char          *function,
                           const GpuRangeCopy  *copy,
                           GpuPending          *pending,
                           GError             **error)
{
  GpuAccess accesses[] = { { copy->source, FALSE, copy->source_offset, copy->size },
                           { copy->destination, TRUE, copy->destination_offset, copy->size } };
  gboolean does_nothing = FALSE;

  if (!check_overlap (copy, &does_nothing, function, error))
    return FALSE;

  if (G_UNLIKELY (does_nothing) || G_UNLIKELY (!is_local (timeline, copy))
      || G_UNLIKELY (is_host_copy (copy)))
    return submit_other_copy (timeline, function, copy, accesses, does_nothing, pending, error);

  return _gpu_submit_inline (timeline,
                             &(GpuSubmission) { .function = function, .accesses = accesses,
                                                .n_accesses = G_N_ELEMENTS (accesses),
                                                .run = run_copy, .operation = accesses },
                             pending, error);
}

G_ALWAYS_INLINE inline gboolean
_gpu_timeline_copy (GpuTimeline         *timeline,
                    const char          *function,
                    const GpuRangeCopy  *copy,
                    GpuPending          *pending,
                    GError             **error)
{
  if (!_gpu_memory_check_range (copy->destination, function, "destination",
                                copy->destination_offset, copy->size, error)
      || !_gpu_memory_check_range (copy->source, function, "source", copy->source_offset,
                                   copy->size, error))
    return FALSE;

  if (G_UNLIKELY (copy->size == 0))
    return TRUE;

  if (G_UNLIKELY (copy->destination->storage->context != copy->source->storage->context)
      && _gpu_timeline_copies_through_host (timeline, copy))
    return _gpu_timeline_copy_cross_driver (timeline, function, copy, pending, NULL, error);

  return _gpu_timeline_copy_direct (timeline, function, copy, pending, error);
}

gboolean
_gpu_run_nothing (gconstpointer     operation G_GNUC_UNUSED,
                  GpuNativeStream  *stream,
                  GpuNativeEvent  **event,
                  GError          **error)
{
  return stream->backend->stream->barrier (stream, event, error);
}

GPU_COLD gboolean
_gpu_fail_place_overlap (const guint8  *to,
                         gsize          to_offset,
                         const guint8  *from,
                         gsize          from_offset,
                         const char    *function,
                         GError       **error)
{
  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s: the ranges of source offset %" G_GSIZE_FORMAT " at address %p and of "
               "destination offset %" G_GSIZE_FORMAT " at address %p of the same memory overlap",
               function, from_offset, from, to_offset, to);

  return FALSE;
}

GPU_COLD gboolean
_gpu_fail_host_overlap (const guint8   *place,
                        gsize           offset,
                        gconstpointer   data,
                        const char     *function,
                        GError        **error)
{
  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s: the host bytes at address %p and the range at offset %" G_GSIZE_FORMAT
               ", address %p, of the same memory overlap", function, data, offset, place + offset);

  return FALSE;
}

/* Checks a copy between memory that is at @place and host memory that may be the same bytes. A copy
 * of bytes to themselves is valid, and only keeps its order in the stream. If the host may access
 * the memory only after a command, that command is the copy. */
static gboolean
check_host_overlap (const Transfer  *transfer,
                    const guint8    *place,
                    GpuSubmission   *submission,
                    GError         **error)
{
  gsize begin = (gsize) place + transfer->offset;
  gsize data = (gsize) transfer->data;

  if (G_LIKELY (begin >= data + transfer->size || data >= begin + transfer->size))
    return TRUE;

  if (begin != data)
    return _gpu_fail_host_overlap (place, transfer->offset, transfer->data, submission->function,
                                   error);

  if (transfer->memory->has_host_data)
    {
      submission->run = _gpu_run_nothing;
      submission->run_now = NULL;
    }

  return TRUE;
}

/* Inline, so that the compiler removes the other direction where @write is a constant. */
GPU_HOT static inline gboolean
transfer_memory (GpuTimeline  *timeline,
                 const char   *function,
                 gboolean      write,
                 Transfer     *transfer,
                 GBytes       *bytes,
                 GpuPending   *pending,
                 GError      **error)
{
  const GpuBufferOps *ops = timeline->context->backend->buffer;
  const guint8 *place = _gpu_memory_get_place (transfer->memory);
  gsize size = transfer->size;
  GpuAccess access = { transfer->memory, write, transfer->offset, size };
  const GpuRetain retain = { bytes, &_gpu_retain_bytes, size, NULL };
  GpuSubmission submission = { .function = function, .accesses = &access, .n_accesses = 1,
                               .run = write ? run_write : run_read,
                               .run_now = get_run_now (pending, bytes, size, ops->max_now_size,
                                                       write ? run_write_now : run_read_now),
                               .operation = transfer, .retain = bytes != NULL ? &retain : NULL };

  if (!_gpu_memory_check_range (transfer->memory, function, write ? "destination" : "source",
                                transfer->offset, size, error)
      || !_gpu_memory_check_host (transfer->memory, function, write, error)
      || (G_UNLIKELY (place != NULL) && !check_host_overlap (transfer, place, &submission, error)))
    return FALSE;

  if (G_UNLIKELY (submission.run == _gpu_run_nothing))
    return _gpu_submit (timeline, &submission, pending, error);

  return size == 0 || submit_transfer (timeline, &submission, transfer, bytes, pending, error);
}

GPU_HOT gboolean
_gpu_timeline_write (GpuTimeline   *timeline,
                     const char    *function,
                     GpuMemory     *destination,
                     gsize          offset,
                     gconstpointer  data,
                     gsize          size,
                     GBytes        *bytes,
                     GpuPending    *pending,
                     GError       **error)
{
  Transfer transfer = { destination, offset, size, (gpointer) data, NULL, NULL, NULL };

  return transfer_memory (timeline, function, TRUE, &transfer, bytes, pending, error);
}

GPU_HOT gboolean
_gpu_timeline_read (GpuTimeline  *timeline,
                    const char   *function,
                    GpuMemory    *source,
                    gsize         offset,
                    gpointer      data,
                    gsize         size,
                    GBytes       *bytes,
                    GpuPending   *pending,
                    GError      **error)
{
  Transfer transfer = { source, offset, size, data, NULL, NULL, NULL };

  return transfer_memory (timeline, function, FALSE, &transfer, bytes, pending, error);
}

gboolean
_gpu_timeline_transfer_bytes (GpuTimeline  *timeline,
                              const char   *function,
                              gboolean      write,
                              GpuMemory    *memory,
                              gsize         offset,
                              GBytes       *bytes,
                              GpuProgress  *progress,
                              GError      **error)
{
  gsize size;
  gpointer data = (gpointer) g_bytes_get_data (bytes, &size);
  Transfer transfer = { memory, offset, size, data, NULL, NULL, progress };

  return transfer_memory (timeline, function, write, &transfer, bytes, NULL, error);
}

typedef struct
{
  GpuMemory       **memories;
  gsize             n_memories;
  GpuMigrateFlags   flags;
} Migration;

static gboolean
run_migrate (gconstpointer     operation,
             GpuNativeStream  *stream,
             GpuNativeEvent  **event,
             GError          **error)
{
  const Migration *migration = operation;
  g_autofree GpuNativeBuffer **buffers = g_new (GpuNativeBuffer *, migration->n_memories);

  for (gsize i = 0; i < migration->n_memories; i++)
    buffers[i] = migration->memories[i]->storage->buffer;

  return stream->backend->memory->migrate (stream, buffers, migration->n_memories,
                                           migration->flags, event, error);
}

/**
 * gpu_stream_migrate:
 * @stream: a #GpuStream
 * @memories: (array length=n_memories): memory of the stream's context
 * @n_memories: number of elements in @memories, at least 1
 * @flags: the destination and its options
 * @error: return location for an error
 *
 * Moves memory to the device of @stream, or to the host, before it is used there (OpenCL:
 * clEnqueueMigrateMemObjects; CUDA: cuMemPrefetchAsync for a #GpuSvm, no operation for other
 * memory, which does not move). If a driver defers allocation to the first use, this call allocates
 * the memory. The host back end does nothing. With %GPU_MIGRATE_FLAGS_CONTENT_UNDEFINED the
 * contents are lost. The operation counts as a write of the memory, and holds a reference to the
 * memory until the operation completes. Does not block.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_INVALID_ARGUMENT for an empty array, a %NULL element,
 *   unknown flags or memory of another context, %GPU_ERROR_RELEASED, %GPU_ERROR_BUSY if any of the
 *   memory is mapped, %GPU_ERROR_OUT_OF_DEVICE_MEMORY, the error of the last write of the memory if
 *   that write failed and @flags keep the contents, or the driver's error
 *
 * Since: 0.1
 */
gboolean
gpu_stream_migrate (GpuStream        *stream,
                    GpuMemory       **memories,
                    gsize             n_memories,
                    GpuMigrateFlags   flags,
                    GError          **error)
{
  const char *function = "gpu_stream_migrate";
  const GpuMigrateFlags known = GPU_MIGRATE_FLAGS_HOST | GPU_MIGRATE_FLAGS_CONTENT_UNDEFINED;
  const Migration migration = { memories, n_memories, flags };
  g_autofree GpuAccess *accesses = NULL;
  GpuSubmission submission = { .function = function, .run = run_migrate,
                               .operation = &migration,
                               .reads = (flags & GPU_MIGRATE_FLAGS_CONTENT_UNDEFINED) == 0 };
  GpuTimeline *timeline;

  g_return_val_if_fail (GPU_IS_STREAM (stream), FALSE);
  g_return_val_if_fail (memories != NULL || n_memories == 0, FALSE);

  timeline = _gpu_stream_get_timeline (stream, function, error);

  if (timeline == NULL)
    return FALSE;

  if (n_memories == 0)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "%s: 0 objects to migrate; at least 1 is required", function);
      return FALSE;
    }

  if (n_memories > G_MAXINT || (flags & ~known) != 0)
    {
      g_autofree char *text = _gpu_flags_get_nicks (GPU_TYPE_MIGRATE_FLAGS, flags);

      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "%s: cannot migrate %" G_GSIZE_FORMAT " objects with flags %s", function,
                   n_memories, text);
      return FALSE;
    }

  accesses = g_new (GpuAccess, n_memories);

  for (gsize i = 0; i < n_memories; i++)
    {
      if (memories[i] == NULL)
        {
          g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                       "%s: memory %" G_GSIZE_FORMAT " of %" G_GSIZE_FORMAT " is NULL", function, i,
                       n_memories);
          return FALSE;
        }

      g_return_val_if_fail (GPU_IS_MEMORY (memories[i]), FALSE);
      accesses[i] = (GpuAccess) { memories[i], TRUE, 0, memories[i]->span };
    }

  submission.accesses = accesses;
  submission.n_accesses = n_memories;

  return _gpu_submit (timeline, &submission, NULL, error);
}

/**
 * gpu_stream_copy:
 * @stream: a #GpuStream
 * @destination: memory of the stream's context, or of another context
 * @destination_offset: offset of the range in @destination, in bytes
 * @source: memory of the stream's context, or of another context if @destination is of the stream's
 *   context
 * @source_offset: offset of the range in @source, in bytes
 * @size: the number of bytes; 0 does nothing
 * @error: return location for an error
 *
 * Copies from memory to memory on the device (OpenCL: clEnqueueCopyBuffer; CUDA:
 * cuMemcpyDtoDAsync), or from one device to another (CUDA: cuMemcpyPeerAsync). The two ranges must
 * not overlap, also if two memory objects use the same host memory in place. They may be the same
 * bytes: the operation then changes no byte. The operation holds references to both memory objects
 * until it completes. Does not block, except that a copy from or to #GpuHostMemory that is not
 * page-locked may block under the same conditions as gpu_stream_write() or gpu_stream_read(), and
 * on CUDA, if it has less than 2 MiB, until earlier work of @stream is complete.
 *
 * The first copy on streams of a CUDA context from or to memory of another device enables access to
 * that memory (cuCtxEnablePeerAccess), so that the devices copy directly.
 *
 * Between two back ends, two contexts of OpenCL, or two CUDA devices without access to each other's
 * memory, the data is copied through page-locked memory in chunks of at most 4 MiB. A copy has at
 * most 16 MiB in flight. Commands in @stream and in a second stream copy the chunks. The library
 * creates the second stream in the other context, for copies of @stream (CUDA: cuMemcpyDtoHAsync,
 * cuMemcpyHtoDAsync, cuStreamWaitValue32; OpenCL: clEnqueueReadBuffer, clEnqueueWriteBuffer,
 * clCreateUserEvent). The copy is ordered with other uses of both memory objects like any
 * operation, and completes in @stream when the commands in both streams have completed. @stream
 * keeps the context of the other memory alive. Between CUDA devices, the library leaves copies of
 * at most 64 KiB, and copies in streams that are being captured, to the driver.
 *
 * If no page-locked memory is left, or a driver cannot make streams wait for the host, the calling
 * thread performs such a copy itself, or the driver does between CUDA devices. If the calling
 * thread does, the call blocks until the copy has completed, and fails if earlier work in @stream
 * fails; `GPUMEM_DEBUG=transfer` logs such copies. The caller may also block while about 50 chunks
 * of the stream are pending. If these chunks are ordered after an event of gpu_event_new_user(),
 * the caller blocks until another thread completes that event.
 *
 * If a command in either stream fails, the contents of @destination are undefined, and the events
 * of @stream fail. Events of other streams fail if their work is ordered after the copy.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_INVALID_ARGUMENT if a range exceeds its memory, the
 *   ranges overlap but begin at different bytes, neither memory is of the stream's context, or the
 *   flags of a memory deny the host the access that a copy between back ends needs;
 *   %GPU_ERROR_RELEASED; %GPU_ERROR_BUSY if a range is mapped; %GPU_ERROR_OUT_OF_HOST_MEMORY; the
 *   error of the last write of the source if that write failed; or the driver's error
 *
 * Since: 0.1
 */
GPU_HOT gboolean
gpu_stream_copy (GpuStream  *stream,
                 GpuMemory  *destination,
                 gsize       destination_offset,
                 GpuMemory  *source,
                 gsize       source_offset,
                 gsize       size,
                 GError    **error)
{
  const GpuRangeCopy copy = { destination, destination_offset, source, source_offset, size };
  GpuTimeline *timeline;

  g_return_val_if_fail (GPU_IS_STREAM (stream), FALSE);
  g_return_val_if_fail (GPU_IS_MEMORY (destination), FALSE);
  g_return_val_if_fail (GPU_IS_MEMORY (source), FALSE);

  timeline = _gpu_stream_get_timeline (stream, "gpu_stream_copy", error);

  return timeline != NULL && _gpu_timeline_copy (timeline, "gpu_stream_copy", &copy, NULL, error);
}

/**
 * gpu_stream_write:
 * @stream: a #GpuStream
 * @destination: memory of the stream's context
 * @offset: offset of the range in @destination, in bytes
 * @bytes: the bytes to write
 * @error: return location for an error
 *
 * Copies @bytes to the device (OpenCL: clEnqueueWriteBuffer; CUDA: cuMemcpyHtoDAsync). The
 * operation holds references to @bytes and @destination until it completes. Does not block, except
 * on CUDA in one of these cases. Then it blocks the caller until most of the data is copied, and
 * also other threads that submit to @stream or use @destination:
 *
 * - there is no page-locked memory to stage pageable memory (see gpu_context_set_staging_limit())
 * - more than 32 MiB of writes from 64 KiB to 2 MiB are pending
 * - more than about 50 chunks of larger copies are pending (see [Staging][gpumem-Staging])
 *
 * If @destination uses host memory in place, @bytes may be the range itself: the operation then
 * changes no byte. @bytes must not overlap the range otherwise.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_INVALID_ARGUMENT if the range exceeds the memory,
 *   @bytes overlap the range but begin elsewhere, the flags deny the access or the memory belongs
 *   to another context, %GPU_ERROR_RELEASED, %GPU_ERROR_BUSY if the range is mapped, or the
 *   driver's error
 *
 * Since: 0.1
 */
gboolean
gpu_stream_write (GpuStream  *stream,
                  GpuMemory  *destination,
                  gsize       offset,
                  GBytes     *bytes,
                  GError    **error)
{
  GpuTimeline *timeline;
  gconstpointer data;
  gsize size;

  g_return_val_if_fail (GPU_IS_STREAM (stream), FALSE);
  g_return_val_if_fail (GPU_IS_MEMORY (destination), FALSE);
  g_return_val_if_fail (bytes != NULL, FALSE);

  timeline = _gpu_stream_get_timeline (stream, "gpu_stream_write", error);

  if (timeline == NULL)
    return FALSE;

  data = g_bytes_get_data (bytes, &size);

  return _gpu_timeline_write (timeline, "gpu_stream_write", destination, offset, data, size,
                              bytes, NULL, error);
}

/**
 * gpu_stream_read: (skip)
 * @stream: a #GpuStream
 * @source: memory of the stream's context
 * @offset: offset of the range in @source, in bytes
 * @data: (not nullable): memory of at least @size bytes for the result
 * @size: the number of bytes; 0 does nothing
 * @error: return location for an error
 *
 * Copies from the device into memory of the caller (OpenCL: clEnqueueReadBuffer; CUDA:
 * cuMemcpyDtoHAsync). The caller must keep @data valid and must not access it until the operation
 * completes; gpu_stream_read_bytes() has no such requirement. Does not block if @data is
 * page-locked. If @data is pageable, may block under the same conditions as gpu_stream_write(). In
 * addition, on CUDA a copy of less than 64 KiB to pageable memory completes before the call
 * returns.
 *
 * If @source uses host memory in place, @data may be the range itself: the operation then changes
 * no byte. @data must not overlap the range otherwise.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_INVALID_ARGUMENT if the range exceeds the memory, @data
 *   overlaps the range but begins elsewhere, the flags deny the access or the memory belongs to
 *   another context, %GPU_ERROR_RELEASED, %GPU_ERROR_BUSY if the range is mapped for writing, the
 *   error of the last write of the memory if that failed, or the driver's error
 *
 * Since: 0.1
 */
gboolean
gpu_stream_read (GpuStream  *stream,
                 GpuMemory  *source,
                 gsize       offset,
                 gpointer    data,
                 gsize       size,
                 GError    **error)
{
  GpuTimeline *timeline;

  g_return_val_if_fail (GPU_IS_STREAM (stream), FALSE);
  g_return_val_if_fail (GPU_IS_MEMORY (source), FALSE);
  g_return_val_if_fail (data != NULL || size == 0, FALSE);

  timeline = _gpu_stream_get_timeline (stream, "gpu_stream_read", error);

  if (timeline == NULL)
    return FALSE;

  return _gpu_timeline_read (timeline, "gpu_stream_read", source, offset, data, size, NULL, NULL,
                             error);
}

/**
 * gpu_stream_read_bytes:
 * @stream: a #GpuStream
 * @source: memory of the stream's context
 * @offset: offset of the range in @source, in bytes
 * @size: the number of bytes
 * @error: return location for an error
 *
 * Copies from the device into new host memory (OpenCL: clEnqueueReadBuffer; CUDA:
 * cuMemcpyDtoHAsync). May block under the same conditions as gpu_stream_read(). The bytes are valid
 * once the operation has completed, so wait with gpu_stream_synchronize() or an event before
 * reading them. gpu_stream_map() is an alternative that never blocks.
 *
 * Returns: (transfer full): the bytes, or %NULL with the errors of gpu_stream_read() or
 *   %GPU_ERROR_OUT_OF_HOST_MEMORY
 *
 * Since: 0.1
 */
GBytes *
gpu_stream_read_bytes (GpuStream  *stream,
                       GpuMemory  *source,
                       gsize       offset,
                       gsize       size,
                       GError    **error)
{
  const char *function = "gpu_stream_read_bytes";
  g_autoptr (GBytes) bytes = NULL;
  GpuTimeline *timeline;
  gpointer data;

  g_return_val_if_fail (GPU_IS_STREAM (stream), NULL);
  g_return_val_if_fail (GPU_IS_MEMORY (source), NULL);

  timeline = _gpu_stream_get_timeline (stream, function, error);

  if (timeline == NULL
      || !_gpu_memory_check_range (source, function, "source", offset, size, error))
    return NULL;

  bytes = _gpu_bytes_new (size, function, &data, error);

  if (bytes == NULL
      || !_gpu_timeline_read (timeline, function, source, offset, data, size, bytes, NULL, error))
    return NULL;

  return g_steal_pointer (&bytes);
}

/**
 * gpu_stream_read_into:
 * @stream: a #GpuStream
 * @source: memory of the stream's context
 * @offset: offset of the range in @source, in bytes
 * @bytes: writable memory; its size is the number of bytes to read
 * @error: return location for an error
 *
 * Copies from the device into the memory of @bytes (OpenCL: clEnqueueReadBuffer; CUDA:
 * cuMemcpyDtoHAsync). @bytes must wrap writable memory of the program, for example with
 * gpu_bytes_new_for_address() or g_bytes_new_with_free_func(), and must not be accessed until the
 * operation completes. The operation holds references to @bytes and @source until it completes. May
 * block under the same conditions as gpu_stream_read().
 *
 * Returns: %TRUE, or %FALSE with the errors of gpu_stream_read()
 *
 * Since: 0.1
 */
gboolean
gpu_stream_read_into (GpuStream  *stream,
                      GpuMemory  *source,
                      gsize       offset,
                      GBytes     *bytes,
                      GError    **error)
{
  GpuTimeline *timeline;
  gconstpointer data;
  gsize size;

  g_return_val_if_fail (GPU_IS_STREAM (stream), FALSE);
  g_return_val_if_fail (GPU_IS_MEMORY (source), FALSE);
  g_return_val_if_fail (bytes != NULL, FALSE);

  timeline = _gpu_stream_get_timeline (stream, "gpu_stream_read_into", error);

  if (timeline == NULL)
    return FALSE;

  data = g_bytes_get_data (bytes, &size);

  return _gpu_timeline_read (timeline, "gpu_stream_read_into", source, offset, (gpointer) data,
                             size, bytes, NULL, error);
}
