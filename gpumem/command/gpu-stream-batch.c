/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Many copies in one operation. */
#include "config.h"

#include "gpumem/command/gpu-command-private.h"
#include "gpumem/device/gpu-context-private.h"
#include "gpumem/memory/gpu-host-memory-private.h"

/* The numbers that describe a copy, in `ranges`. */
enum
{
  DESTINATION,
  DESTINATION_OFFSET,
  SOURCE,
  SOURCE_OFFSET,
  SIZE,
  N_NUMBERS
};

typedef struct
{
  const char     *function;
  GpuMemory     **memories;
  gsize           n_memories;
  const guint64  *ranges;
  gsize           n_copies;
  GpuAccess      *accesses;         /* the reads and the writes of each memory */
  guint           n_accesses;
  gsize          *batched;          /* indices of the copies that one command copies */
  gsize           n_batched;
} Batch;

/* A range that a copy reads or writes. */
typedef struct
{
  GpuStorage *root;
  gsize       begin;
  gsize       end;
  gsize       copy;
  gboolean    write;
} Part;

static const guint64 *
get_range (const Batch *batch,
           gsize        i)
{
  return batch->ranges + i * N_NUMBERS;
}

static GpuMemory *
get_memory (const Batch   *batch,
            const guint64 *range,
            guint          which)
{
  return batch->memories[range[which]];
}

/* --- checks --------------------------------------------------------------------------- */

static gboolean
check_memories (const Batch  *batch,
                gsize         n_ranges,
                GError      **error)
{
  for (gsize i = 0; i < batch->n_memories; i++)
    {
      if (batch->memories[i] != NULL)
        continue;

      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "%s: memory %" G_GSIZE_FORMAT " of %" G_GSIZE_FORMAT " is NULL",
                   batch->function, i, batch->n_memories);
      return FALSE;
    }

  if (n_ranges % N_NUMBERS == 0)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s: %" G_GSIZE_FORMAT " numbers do not describe copies: each copy has %d",
               batch->function, n_ranges, N_NUMBERS);

  return FALSE;
}

static gboolean
check_copy (const Batch  *batch,
            gsize         i,
            GError      **error)
{
  const guint64 *range = get_range (batch, i);
  g_autofree char *function = NULL;

  if (range[DESTINATION] >= batch->n_memories || range[SOURCE] >= batch->n_memories)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "%s: copy %" G_GSIZE_FORMAT " is from memory %" G_GUINT64_FORMAT " to memory %"
                   G_GUINT64_FORMAT ", but there are %" G_GSIZE_FORMAT " memory objects",
                   batch->function, i, range[SOURCE], range[DESTINATION], batch->n_memories);
      return FALSE;
    }

  if (_gpu_memory_check_range (get_memory (batch, range, DESTINATION), batch->function,
                               "destination", range[DESTINATION_OFFSET], range[SIZE], NULL)
      && _gpu_memory_check_range (get_memory (batch, range, SOURCE), batch->function, "source",
                                  range[SOURCE_OFFSET], range[SIZE], NULL))
    return TRUE;

  function = g_strdup_printf ("%s: copy %" G_GSIZE_FORMAT, batch->function, i);
  if (_gpu_memory_check_range (get_memory (batch, range, DESTINATION), function, "destination",
                               range[DESTINATION_OFFSET], range[SIZE], error))
    _gpu_memory_check_range (get_memory (batch, range, SOURCE), function, "source",
                             range[SOURCE_OFFSET], range[SIZE], error);

  return FALSE;
}

static int
compare_parts (gconstpointer a,
               gconstpointer b)
{
  const Part *x = a, *y = b;

  if (x->root != y->root)
    return x->root < y->root ? -1 : 1;

  return (x->begin > y->begin) - (x->begin < y->begin);
}

static gboolean
fail_overlap (const Batch  *batch,
              const Part   *one,
              const Part   *other,
              GError      **error)
{
  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s: copy %" G_GSIZE_FORMAT " %s bytes %" G_GSIZE_FORMAT " to %" G_GSIZE_FORMAT
               ", and copy %" G_GSIZE_FORMAT " %s bytes %" G_GSIZE_FORMAT " to %" G_GSIZE_FORMAT
               " of the same memory: copies of a batch run in any order", batch->function,
               one->copy, one->write ? "writes" : "reads", one->begin, one->end, other->copy,
               other->write ? "writes" : "reads", other->begin, other->end);

  return FALSE;
}

/* Adds the range of a copy to @parts. Returns whether @parts is still sorted. */
static gboolean
add_part (const Batch *batch,
          gsize        copy,
          guint        which,
          GArray      *parts)
{
  const guint64 *range = get_range (batch, copy);
  const GpuStorage *storage = get_memory (batch, range, which)->storage;
  gsize begin = storage->offset + range[which + 1];
  const Part part = { storage->root, begin, begin + range[SIZE], copy, which == DESTINATION };

  if (range[SIZE] == 0)
    return TRUE;

  g_array_append_val (parts, part);

  return parts->len == 1
         || compare_parts (&g_array_index (parts, Part, parts->len - 2), &part) <= 0;
}

/* Returns, for each memory, whether the batch writes any part of the same allocation. */
static gboolean *
list_written (const Batch *batch)
{
  gboolean *is_written = g_new0 (gboolean, batch->n_memories);
  g_autoptr (GHashTable) roots = g_hash_table_new (NULL, NULL);

  for (gsize i = 0; i < batch->n_copies; i++)
    is_written[get_range (batch, i)[DESTINATION]] = TRUE;

  for (gsize i = 0; i < batch->n_memories; i++)
    if (is_written[i])
      g_hash_table_add (roots, batch->memories[i]->storage->root);

  for (gsize i = 0; i < batch->n_memories; i++)
    is_written[i] = batch->memories[i]->storage != NULL
                    && g_hash_table_contains (roots, batch->memories[i]->storage->root);

  return is_written;
}

/* Lists the destinations, and the sources in memory that the batch writes, by address. */
static GArray *
list_parts (const Batch *batch)
{
  GArray *parts = g_array_sized_new (FALSE, FALSE, sizeof (Part), batch->n_copies);
  g_autofree gboolean *is_written = list_written (batch);
  gboolean is_sorted = TRUE;

  for (gsize i = 0; i < batch->n_copies; i++)
    is_sorted &= add_part (batch, i, DESTINATION, parts);

  for (gsize i = 0; i < batch->n_copies; i++)
    if (is_written[get_range (batch, i)[SOURCE]])
      is_sorted &= add_part (batch, i, SOURCE, parts);

  if (!is_sorted)
    g_array_sort (parts, compare_parts);

  return parts;
}

/* Fails if a destination overlaps another destination or a source. */
static gboolean
check_overlaps (const Batch  *batch,
                GError      **error)
{
  g_autoptr (GArray) parts = list_parts (batch);
  const Part *last = NULL, *last_write = NULL;      /* that end last, of the same memory */

  for (guint i = 0; i < parts->len; i++)
    {
      const Part *part = &g_array_index (parts, Part, i);
      const Part *clash = part->write ? last : last_write;

      if (clash != NULL && clash->root == part->root && clash->end > part->begin)
        return fail_overlap (batch, clash, part, error);

      if (last == NULL || last->root != part->root || part->end > last->end)
        last = part;
      if (part->write && (last_write == NULL || last_write->root != part->root
                          || part->end > last_write->end))
        last_write = part;
    }

  return TRUE;
}

/* --- the command ------------------------------------------------------------------------ */

static gboolean
run_batch (gconstpointer     operation,
           GpuNativeStream  *stream,
           GpuNativeEvent  **event,
           GError          **error)
{
  const Batch *batch = operation;
  g_autofree GpuBufferCopy *copies = g_new (GpuBufferCopy, batch->n_batched);

  for (gsize i = 0; i < batch->n_batched; i++)
    {
      const guint64 *range = get_range (batch, batch->batched[i]);

      copies[i] = (GpuBufferCopy) {
        .destination = get_memory (batch, range, DESTINATION)->storage->buffer,
        .destination_offset = range[DESTINATION_OFFSET],
        .source = get_memory (batch, range, SOURCE)->storage->buffer,
        .source_offset = range[SOURCE_OFFSET],
        .size = range[SIZE]
      };
    }

  return stream->backend->buffer->copy_batch (stream, copies, batch->n_batched, event, error);
}

static void
add_access (GpuAccess     *access,
            GpuMemory     *memory,
            gboolean       write,
            gsize          offset,
            gsize          size)
{
  gsize end = MAX (access->offset + access->size, offset + size);

  if (access->memory == NULL)
    *access = (GpuAccess) { memory, write, offset, size };
  else
    {
      access->offset = MIN (access->offset, offset);
      access->size = end - access->offset;
    }
}

/* Lists one read and one write for each memory, from its first to its last byte that the batch
 * uses. */
static void
list_accesses (Batch *batch)
{
  GpuAccess *accesses = g_new0 (GpuAccess, 2 * batch->n_memories);

  for (gsize i = 0; i < batch->n_batched; i++)
    {
      const guint64 *range = get_range (batch, batch->batched[i]);

      add_access (&accesses[2 * range[DESTINATION]], get_memory (batch, range, DESTINATION), TRUE,
                  range[DESTINATION_OFFSET], range[SIZE]);
      add_access (&accesses[2 * range[SOURCE] + 1], get_memory (batch, range, SOURCE), FALSE,
                  range[SOURCE_OFFSET], range[SIZE]);
    }

  batch->accesses = accesses;
  for (gsize i = 0; i < 2 * batch->n_memories; i++)
    if (accesses[i].memory != NULL)
      accesses[batch->n_accesses++] = accesses[i];
}

/* Returns whether one command with other copies can do this copy: not if it is staged, if it is
 * between contexts, or if the stream needs the event of each command. */
static gboolean
is_batched (const Batch       *batch,
            const GpuTimeline *timeline,
            const guint64     *range)
{
  const GpuStreamFlags flags = GPU_STREAM_FLAGS_OUT_OF_ORDER | GPU_STREAM_FLAGS_PROFILING;

  if ((timeline->flags & flags) != 0)
    return FALSE;

  for (guint i = 0; i < 2; i++)
    {
      GpuMemory *memory = get_memory (batch, range, i == 0 ? DESTINATION : SOURCE);

      if (memory->storage == NULL || memory->storage->context != timeline->context
          || (GPU_IS_HOST_MEMORY (memory) && !((GpuHostMemory *) memory)->is_locked))
        return FALSE;
    }

  return TRUE;
}

static gboolean
submit_others (const Batch  *batch,
               GpuTimeline  *timeline,
               GError      **error)
{
  for (gsize i = 0, next = 0; i < batch->n_copies; i++)
    {
      const guint64 *range = get_range (batch, i);

      if (next < batch->n_batched && batch->batched[next] == i)
        next++;
      else if (!_gpu_timeline_copy (timeline, batch->function,
                                    get_memory (batch, range, DESTINATION),
                                    range[DESTINATION_OFFSET], get_memory (batch, range, SOURCE),
                                    range[SOURCE_OFFSET], range[SIZE], NULL, error))
        return FALSE;
    }

  return TRUE;
}

static void
prepare (GpuNativeContext *context,
         gsize             n_copies)
{
  GpuBufferPrepareBatchOp *prepare_batch = context->backend->buffer->prepare_batch;

  if (prepare_batch != NULL)
    prepare_batch (context, n_copies);
}

static gboolean
submit_batch (Batch        *batch,
              GpuTimeline  *timeline,
              GError      **error)
{
  GpuSubmission submission = { .function = batch->function, .run = run_batch,
                               .operation = batch };

  for (gsize i = 0; i < batch->n_copies; i++)
    {
      const guint64 *range = get_range (batch, i);

      if (range[SIZE] > 0 && is_batched (batch, timeline, range))
        batch->batched[batch->n_batched++] = i;
    }

  if (batch->n_batched > 0)
    {
      prepare (timeline->context, batch->n_batched);
      list_accesses (batch);
      submission.accesses = batch->accesses;
      submission.n_accesses = batch->n_accesses;
      if (!_gpu_submit (timeline, &submission, NULL, error))
        return FALSE;
    }

  return submit_others (batch, timeline, error);
}

/**
 * gpu_stream_copy_batch:
 * @stream: a #GpuStream
 * @memories: (array length=n_memories): the memory that the copies use
 * @n_memories: number of elements in @memories
 * @ranges: (array length=n_ranges): five numbers for each copy: the index of the destination in
 *   @memories, the offset in the destination in bytes, the index of the source in @memories, the
 *   offset in the source in bytes, and the number of bytes
 * @n_ranges: number of elements in @ranges, five times the number of copies; 0 does nothing
 * @error: return location for an error
 *
 * Does many copies, each of which may be from and to any memory that gpu_stream_copy() accepts. The
 * copies run in any order, and may run at the same time. Together they are one operation, which is
 * ordered after earlier uses of the memory and before later ones, like a single copy. The library
 * determines this order once for each memory, and a kernel does the small copies, which saves most
 * of the time of many small copies (CUDA: cuLaunchKernel if at least 4 copies have at most 4 MiB,
 * or 256 KiB from or to page-locked memory, otherwise cuMemcpyAsync; OpenCL: clEnqueueNDRangeKernel
 * if at least 16 copies have at most 4 MiB and are between the same two buffers, otherwise
 * clEnqueueCopyBuffer). OpenCL compiles the kernel before the first such batch of a context.
 *
 * Copies from or to pageable #GpuHostMemory and copies between contexts are done as by
 * gpu_stream_copy(), and may block like these. So are all copies of streams with
 * %GPU_STREAM_FLAGS_OUT_OF_ORDER or %GPU_STREAM_FLAGS_PROFILING.
 *
 * The destination of a copy must not overlap the source or the destination of any copy; sources may
 * overlap. The operation holds references to the memory until it completes. All ranges are checked
 * before the first copy; if the library or a driver refuses a copy afterwards, others may be done.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_INVALID_ARGUMENT if an element of @memories is %NULL,
 *   @n_ranges is no multiple of five, an index is not less than @n_memories, a range exceeds its
 *   memory, ranges overlap, or memory belongs to another context; %GPU_ERROR_RELEASED;
 *   %GPU_ERROR_BUSY if memory is mapped between the first and the last byte that the batch uses of
 *   it; the error of the last write of a source if that write failed; or the driver's error
 *
 * Since: 0.1
 */
gboolean
gpu_stream_copy_batch (GpuStream      *stream,
                       GpuMemory     **memories,
                       gsize           n_memories,
                       const guint64  *ranges,
                       gsize           n_ranges,
                       GError        **error)
{
  Batch batch = { .function = "gpu_stream_copy_batch", .memories = memories,
                  .n_memories = n_memories, .ranges = ranges, .n_copies = n_ranges / N_NUMBERS };
  GpuTimeline *timeline;
  gboolean success;

  g_return_val_if_fail (_gpu_is_stream (stream), FALSE);
  g_return_val_if_fail (memories != NULL || n_memories == 0, FALSE);
  g_return_val_if_fail (ranges != NULL || n_ranges == 0, FALSE);

  timeline = _gpu_stream_get_timeline (stream, batch.function, error);

  if (timeline == NULL || !check_memories (&batch, n_ranges, error))
    return FALSE;

  for (gsize i = 0; i < batch.n_copies; i++)
    if (!check_copy (&batch, i, error))
      return FALSE;

  if (!check_overlaps (&batch, error))
    return FALSE;

  batch.batched = g_new (gsize, batch.n_copies);
  success = submit_batch (&batch, timeline, error);
  g_free (batch.batched);
  g_free (batch.accesses);

  return success;
}
