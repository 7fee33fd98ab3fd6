/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Many copies in one operation. */
#include "config.h"

#include "gpumem/base/gpu-error-private.h"
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

/* The use of one memory */
typedef struct
{
  gsize     base;                   /* in a space of addresses in which all memory of the batch lies
                                     * one after the other */
  gboolean  is_written;             /* whether the batch writes any part of the same allocation */
  gboolean  is_batched;             /* whether one command can do several copies of this memory */
} Use;

typedef struct
{
  const char     *function;
  GpuMemory     **memories;
  Use            *uses;             /* one for each of memories */
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
  gsize begin;                      /* in the space of Use.base */
  gsize end;
  gsize copy;                       /* twice the index of the copy, plus 1 for a write */
} Part;

/* An allocation that the batch uses */
typedef struct
{
  gsize     size;                   /* up to the end of the last memory of the batch */
  gsize     base;
  gboolean  is_written;
} Root;

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

/* Returns whether the copy is of bytes to themselves, like one that gpu_stream_copy() accepts. */
static gboolean
is_of_itself (const Batch   *batch,
              const guint64 *range)
{
  return batch->uses[range[DESTINATION]].base + range[DESTINATION_OFFSET]
         == batch->uses[range[SOURCE]].base + range[SOURCE_OFFSET];
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

static gboolean
fail_overlap (const Batch  *batch,
              const Part   *one,
              const Part   *other,
              GError      **error)
{
  const Part *parts[] = { one, other };
  gsize begins[2], ends[2];
  const char *verbs[2];

  for (guint i = 0; i < 2; i++)
    {
      guint which = parts[i]->copy % 2 != 0 ? DESTINATION : SOURCE;
      const guint64 *range = get_range (batch, parts[i]->copy / 2);

      begins[i] = get_memory (batch, range, which)->storage->offset + range[which + 1];
      ends[i] = begins[i] + range[SIZE];
      verbs[i] = which == DESTINATION ? "writes" : "reads";
    }

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s: copy %" G_GSIZE_FORMAT " %s bytes %" G_GSIZE_FORMAT " to %" G_GSIZE_FORMAT
               ", and copy %" G_GSIZE_FORMAT " %s bytes %" G_GSIZE_FORMAT " to %" G_GSIZE_FORMAT
               " of the same memory: copies of a batch run in any order", batch->function,
               one->copy / 2, verbs[0], begins[0], ends[0], other->copy / 2, verbs[1], begins[1],
               ends[1]);

  return FALSE;
}

/* Returns whether one command can do several copies of this memory: not if they are staged or
 * between contexts, or if the stream needs the event of each command. */
static gboolean
is_batched (GpuMemory         *memory,
            const GpuTimeline *timeline)
{
  const GpuStreamFlags flags = GPU_STREAM_FLAGS_OUT_OF_ORDER | GPU_STREAM_FLAGS_PROFILING;

  return (timeline->flags & flags) == 0 && memory->storage->context == timeline->context
         && (!GPU_IS_HOST_MEMORY (memory) || ((GpuHostMemory *) memory)->is_locked);
}

/* Sets the base of memory that uses host memory in place by its address, because several memory
 * objects may use the same host memory. Returns a base behind all of them. */
static gsize
find_places (Batch *batch)
{
  gboolean is_written = FALSE;
  gsize first = G_MAXSIZE;
  gsize end = 0;

  for (gsize i = 0; i < batch->n_memories; i++)
    {
      Use *use = &batch->uses[i];

      if (batch->memories[i]->storage != NULL)
        use->base = (gsize) _gpu_memory_get_place (batch->memories[i]);

      if (use->base != 0)
        {
          is_written |= use->is_written;
          first = MIN (first, use->base);
        }
    }

  for (gsize i = 0; i < batch->n_memories; i++)
    {
      Use *use = &batch->uses[i];

      if (use->base != 0)
        {
          use->base -= first - 1;
          use->is_written = is_written;
          end = MAX (end, use->base + batch->memories[i]->size);
        }
    }

  return end;
}

/* Finds the allocation of each memory. */
static void
find_uses (Batch             *batch,
           const GpuTimeline *timeline)
{
  g_autoptr (GHashTable) roots = g_hash_table_new_full (NULL, NULL, NULL, g_free);
  GHashTableIter iter;
  gsize base;
  gpointer value;

  for (gsize i = 0; i < batch->n_copies; i++)
    batch->uses[get_range (batch, i)[DESTINATION]].is_written = TRUE;

  base = find_places (batch);

  for (gsize i = 0; i < batch->n_memories; i++)
    {
      const GpuMemory *memory = batch->memories[i];
      Root *root;

      if (memory->storage == NULL)              /* no copy uses this memory */
        continue;

      root = g_hash_table_lookup (roots, memory->storage->root);
      if (root == NULL)
        g_hash_table_insert (roots, memory->storage->root, root = g_new0 (Root, 1));
      root->size = MAX (root->size, memory->storage->offset + memory->size);
      root->is_written |= batch->uses[i].is_written;
      batch->uses[i].is_batched = is_batched (batch->memories[i], timeline);
    }

  for (g_hash_table_iter_init (&iter, roots); g_hash_table_iter_next (&iter, NULL, &value);)
    {
      ((Root *) value)->base = base;
      base += ((Root *) value)->size;
    }

  for (gsize i = 0; i < batch->n_memories; i++)
    if (batch->memories[i]->storage != NULL && batch->uses[i].base == 0)
      {
        const GpuStorage *storage = batch->memories[i]->storage;
        const Root *root = g_hash_table_lookup (roots, storage->root);

        batch->uses[i].base = root->base + storage->offset;
        batch->uses[i].is_written = root->is_written;
      }
}

/* Sorts by the begin of the parts, one byte after the other. Returns @parts or @spare. */
static Part *
sort_parts (Part  *parts,
            Part  *spare,
            gsize  n_parts,
            gsize  greatest)
{
  for (guint shift = 0; shift < 64 && greatest >> shift > 0; shift += 8)
    {
      gsize places[256] = { 0, }, sum = 0;
      Part *sorted = spare;

      for (gsize i = 0; i < n_parts; i++)
        places[parts[i].begin >> shift & 255]++;

      for (guint i = 0; i < 256; i++)
        {
          gsize n = places[i];

          places[i] = sum;
          sum += n;
        }

      for (gsize i = 0; i < n_parts; i++)
        sorted[places[parts[i].begin >> shift & 255]++] = parts[i];

      spare = parts;
      parts = sorted;
    }

  return parts;
}

/* Lists the destinations, and the sources in memory that the batch writes. Sets @greatest to the
 * greatest begin of a part. Returns the number of parts. */
static gsize
list_parts (const Batch *batch,
            Part        *parts,
            gsize       *greatest,
            gboolean    *is_sorted)
{
  gsize n = 0;
  gsize last = 0;

  *greatest = 0;
  *is_sorted = TRUE;

  for (guint which = DESTINATION; which <= SOURCE; which += SOURCE - DESTINATION)
    for (gsize i = 0; i < batch->n_copies; i++)
      {
        const guint64 *range = get_range (batch, i);
        const Use *use = &batch->uses[range[which]];
        gsize begin = use->base + range[which + 1];

        if (range[SIZE] == 0 || !use->is_written
            || (which == SOURCE && is_of_itself (batch, range)))
          continue;

        parts[n++] = (Part) { begin, begin + range[SIZE], 2 * i + (which == DESTINATION) };
        *greatest = MAX (*greatest, begin);
        *is_sorted &= begin >= last;
        last = begin;
      }

  return n;
}

/* Fails if a destination overlaps another destination or a source. */
static gboolean
check_overlaps (const Batch  *batch,
                GError      **error)
{
  g_autofree Part *room = _gpu_try_alloc (batch->function, 4 * batch->n_copies, sizeof (Part),
                                          error);
  const Part *last = NULL, *last_write = NULL;      /* the parts that end last */
  const Part *parts;
  gboolean is_sorted;
  gsize n_parts, greatest;

  if (room == NULL)
    return FALSE;

  n_parts = list_parts (batch, room, &greatest, &is_sorted);
  parts = is_sorted ? room : sort_parts (room, room + 2 * batch->n_copies, n_parts, greatest);

  for (const Part *part = parts; part < parts + n_parts; part++)
    {
      gboolean write = part->copy % 2 != 0;
      const Part *clash = write ? last : last_write;

      if (clash != NULL && clash->end > part->begin)
        return fail_overlap (batch, clash, part, error);

      if (last == NULL || part->end > last->end)
        last = part;
      if (write && (last_write == NULL || part->end > last_write->end))
        last_write = part;
    }

  return TRUE;
}

/* Checks a copy of an operation against the mappings. @access is the merged access, which
 * conflicts with a mapping. Caller holds the lock of the root. */
static gboolean
check_part_locked (const char       *function,
                   gsize             copy,
                   const GpuAccess  *access,
                   gsize             offset,
                   gsize             size,
                   GError          **error)
{
  GpuAccess part = *access;
  GpuSubmission submission = { .function = function, .accesses = &part, .n_accesses = 1 };
  g_autofree char *name = NULL;

  part.offset = offset;
  part.size = size;
  if (_gpu_submission_check_locked (&submission, NULL))
    return TRUE;

  submission.function = name = g_strdup_printf ("%s: copy %" G_GSIZE_FORMAT, function, copy);

  return _gpu_submission_check_locked (&submission, error);
}

static gboolean
check_copies_locked (gconstpointer     operation,
                     const GpuAccess  *access,
                     GError          **error)
{
  const Batch *batch = operation;
  guint which = access->write ? DESTINATION : SOURCE;

  for (gsize i = 0; i < batch->n_batched; i++)
    {
      const guint64 *range = get_range (batch, batch->batched[i]);

      if (get_memory (batch, range, which) == access->memory
          && !check_part_locked (batch->function, batch->batched[i], access, range[which + 1],
                                 range[SIZE], error))
        return FALSE;
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
  g_autofree GpuBufferCopy *copies = _gpu_try_alloc (batch->function, batch->n_batched,
                                                     sizeof (GpuBufferCopy), error);

  if (copies == NULL)
    return FALSE;

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
  GpuAccess *accesses = batch->accesses;

  for (gsize i = 0; i < batch->n_batched; i++)
    {
      const guint64 *range = get_range (batch, batch->batched[i]);

      add_access (&accesses[2 * range[DESTINATION]], get_memory (batch, range, DESTINATION), TRUE,
                  range[DESTINATION_OFFSET], range[SIZE]);
      add_access (&accesses[2 * range[SOURCE] + 1], get_memory (batch, range, SOURCE), FALSE,
                  range[SOURCE_OFFSET], range[SIZE]);
    }

  for (gsize i = 0; i < 2 * batch->n_memories; i++)
    if (accesses[i].memory != NULL)
      accesses[batch->n_accesses++] = accesses[i];
}

/* Returns whether the copy is a part of the command that does several copies. */
static gboolean
is_in_command (const Batch   *batch,
               const guint64 *range)
{
  return range[SIZE] > 0 && batch->uses[range[DESTINATION]].is_batched
         && batch->uses[range[SOURCE]].is_batched && !is_of_itself (batch, range);
}

static gboolean
check_other (const Batch  *batch,
             gsize         i,
             GError      **error)
{
  const guint64 *range = get_range (batch, i);
  GpuAccess accesses[] = {
    { get_memory (batch, range, DESTINATION), TRUE, range[DESTINATION_OFFSET], range[SIZE] },
    { get_memory (batch, range, SOURCE), FALSE, range[SOURCE_OFFSET], range[SIZE] }
  };
  g_autofree char *function = NULL;

  if (_gpu_submission_check_mappings (batch->function, accesses, G_N_ELEMENTS (accesses), NULL))
    return TRUE;

  function = g_strdup_printf ("%s: copy %" G_GSIZE_FORMAT, batch->function, i);

  return _gpu_submission_check_mappings (function, accesses, G_N_ELEMENTS (accesses), error);
}

/* Checks the copies that are separate operations before the first operation, so that a refused
 * batch changes nothing. */
static gboolean
check_others (const Batch  *batch,
              GError      **error)
{
  for (gsize i = 0; i < batch->n_copies; i++)
    {
      const guint64 *range = get_range (batch, i);

      if (range[SIZE] > 0 && !is_in_command (batch, range) && !check_other (batch, i, error))
        return FALSE;
    }

  return TRUE;
}

static gboolean
submit_others (const Batch  *batch,
               GpuTimeline  *timeline,
               GError      **error)
{
  for (gsize i = 0; i < batch->n_copies; i++)
    {
      const guint64 *range = get_range (batch, i);

      if (!is_in_command (batch, range)
          && !_gpu_timeline_copy (timeline, batch->function,
                                  &(GpuRangeCopy) { get_memory (batch, range, DESTINATION),
                                                    range[DESTINATION_OFFSET],
                                                    get_memory (batch, range, SOURCE),
                                                    range[SOURCE_OFFSET], range[SIZE] },
                                  NULL, error))
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
                               .check_parts = check_copies_locked, .operation = batch };

  for (gsize i = 0; i < batch->n_copies; i++)
    {
      if (is_in_command (batch, get_range (batch, i)))
        batch->batched[batch->n_batched++] = i;
    }

  if (batch->n_batched < batch->n_copies && !check_others (batch, error))
    return FALSE;

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

/* --- rows ------------------------------------------------------------------------------- */

typedef struct
{
  const char             *function;
  const GpuBufferRowCopy *copy;         /* without the buffers */
  GpuMemory              *destination;
  GpuMemory              *source;
} Rows;

gboolean
_gpu_timeline_can_copy_rows (GpuTimeline *timeline,
                             GpuMemory   *destination,
                             GpuMemory   *source)
{
  return is_batched (destination, timeline) && is_batched (source, timeline);
}

static GpuBufferCopy
get_row_copy (const GpuBufferRowCopy *rows,
              gsize                   i)
{
  gssize to = rows->is_put ? rows->rows[i] : i;
  gssize from = rows->is_put ? i : rows->rows[i];

  return (GpuBufferCopy) {
    .destination = rows->destination,
    .destination_offset = rows->destination_offset + to * rows->destination_step,
    .source = rows->source,
    .source_offset = rows->source_offset + from * rows->source_step,
    .size = rows->size
  };
}

static gboolean
check_each_row_locked (gconstpointer     operation,
                       const GpuAccess  *access,
                       GError          **error)
{
  const Rows *rows = operation;

  for (gsize i = 0; i < rows->copy->n_rows; i++)
    {
      GpuBufferCopy copy = get_row_copy (rows->copy, i);

      if (!check_part_locked (rows->function, i, access,
                              access->write ? copy.destination_offset : copy.source_offset,
                              copy.size, error))
        return FALSE;
    }

  return TRUE;
}

static gboolean
run_each_row (const char              *function,
              const GpuBufferRowCopy  *rows,
              GpuNativeStream         *stream,
              GpuNativeEvent         **event,
              GError                 **error)
{
  g_autofree GpuBufferCopy *copies = _gpu_try_alloc (function, rows->n_rows,
                                                     sizeof (GpuBufferCopy), error);

  if (copies == NULL)
    return FALSE;

  for (gsize i = 0; i < rows->n_rows; i++)
    copies[i] = get_row_copy (rows, i);

  return stream->backend->buffer->copy_batch (stream, copies, rows->n_rows, event, error);
}

static gboolean
run_rows (gconstpointer     operation,
          GpuNativeStream  *stream,
          GpuNativeEvent  **event,
          GError          **error)
{
  const Rows *operands = operation;
  GpuBufferRowCopy rows = *operands->copy;
  GpuBufferCopyRowsOp *copy_rows = stream->backend->buffer->copy_rows;
  GError *failure = NULL;

  /* Only here do the locks keep other threads from moving the memory to the host and back. */
  rows.destination = operands->destination->storage->buffer;
  rows.source = operands->source->storage->buffer;

  if (copy_rows != NULL && copy_rows (stream, &rows, event, &failure))
    return TRUE;

  if (failure != NULL
      && (stream->partial || !g_error_matches (failure, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED)))
    {
      g_propagate_error (error, failure);
      return FALSE;
    }

  g_clear_error (&failure);

  return run_each_row (operands->function, &rows, stream, event, error);
}

/* Returns the use of the rows @first to @last, from their first to their last byte. */
static GpuAccess
get_row_access (GpuMemory *memory,
                gboolean   write,
                gsize      offset,
                gssize     step,
                gsize      size,
                gssize     first,
                gssize     last)
{
  gsize begin = offset + step * (step < 0 ? last : first);
  gsize end = offset + step * (step < 0 ? first : last) + size;

  return (GpuAccess) { .memory = memory, .write = write, .offset = begin, .size = end - begin };
}

gboolean
_gpu_timeline_copy_rows (GpuTimeline             *timeline,
                         const char              *function,
                         GpuMemory               *destination,
                         GpuMemory               *source,
                         const GpuBufferRowCopy  *copy,
                         guint32                  first,
                         guint32                  last,
                         GError                 **error)
{
  const Rows rows = { function, copy, destination, source };
  gssize others = copy->n_rows - 1;
  GpuAccess accesses[] = {
    get_row_access (destination, TRUE, copy->destination_offset, copy->destination_step,
                    copy->size, copy->is_put ? first : 0, copy->is_put ? last : others),
    get_row_access (source, FALSE, copy->source_offset, copy->source_step, copy->size,
                    copy->is_put ? 0 : first, copy->is_put ? others : last)
  };
  GpuSubmission submission = { .function = function, .accesses = accesses,
                               .n_accesses = G_N_ELEMENTS (accesses), .run = run_rows,
                               .check_parts = check_each_row_locked, .operation = &rows };

  prepare (timeline->context, copy->n_rows);

  return _gpu_submit (timeline, &submission, NULL, error);
}

/* --- public functions -------------------------------------------------------------------- */

gboolean
_gpu_timeline_copy_batch (GpuTimeline    *timeline,
                          const char     *function,
                          GpuMemory     **memories,
                          gsize           n_memories,
                          const guint64  *ranges,
                          gsize           n_ranges,
                          GError        **error)
{
  Batch batch = { .function = function, .memories = memories, .n_memories = n_memories,
                  .ranges = ranges, .n_copies = n_ranges / N_NUMBERS };
  g_autofree gsize *batched = NULL;
  g_autofree Use *uses = NULL;
  g_autofree GpuAccess *accesses = NULL;

  if (!check_memories (&batch, n_ranges, error))
    return FALSE;

  for (gsize i = 0; i < batch.n_copies; i++)
    if (!check_copy (&batch, i, error))
      return FALSE;

  if ((batched = _gpu_try_alloc (function, batch.n_copies, sizeof *batched, error)) == NULL
      || (uses = _gpu_try_alloc0 (function, n_memories, sizeof *uses, error)) == NULL
      || (accesses = _gpu_try_alloc0 (function, n_memories, 2 * sizeof *accesses, error)) == NULL)
    return FALSE;

  batch.batched = batched;
  batch.uses = uses;
  batch.accesses = accesses;
  find_uses (&batch, timeline);

  return check_overlaps (&batch, error) && submit_batch (&batch, timeline, error);
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
 * determines this order once for each memory, and a kernel does the small copies, instead of a call
 * of the driver for each copy (CUDA: cuLaunchKernel if at least 4 copies have at most 4 MiB,
 * or 256 KiB from or to page-locked memory, otherwise cuMemcpyAsync; OpenCL: clEnqueueNDRangeKernel
 * if at least 16 copies have at most 4 MiB and are between the same two buffers, otherwise
 * clEnqueueCopyBuffer). OpenCL compiles the kernel before the first such batch of a context.
 *
 * These copies are single copies, and may block, as with gpu_stream_copy(): copies from or to
 * pageable #GpuHostMemory, copies between contexts, and all copies of streams with
 * %GPU_STREAM_FLAGS_OUT_OF_ORDER or %GPU_STREAM_FLAGS_PROFILING.
 *
 * The destination of a copy must not overlap the source or the destination of any copy; sources may
 * overlap. A copy of bytes to themselves is valid, and changes no byte. The operation holds
 * references to the memory until it completes. All ranges and mappings are checked before the first
 * copy. If the library or a driver refuses a copy after that, other copies may still take place.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_INVALID_ARGUMENT if an element of @memories is %NULL,
 *   @n_ranges is no multiple of five, an index is not less than @n_memories, a range exceeds its
 *   memory, ranges overlap, or memory belongs to another context; %GPU_ERROR_RELEASED;
 *   %GPU_ERROR_BUSY if a copy conflicts with a mapping; the error of the last write of a source if
 *   that write failed; %GPU_ERROR_OUT_OF_HOST_MEMORY; or the driver's error
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
  const char *function = "gpu_stream_copy_batch";
  GpuTimeline *timeline;

  g_return_val_if_fail (GPU_IS_STREAM (stream), FALSE);
  g_return_val_if_fail (memories != NULL || n_memories == 0, FALSE);
  g_return_val_if_fail (ranges != NULL || n_ranges == 0, FALSE);

  timeline = _gpu_stream_get_timeline (stream, function, error);

  return timeline != NULL
         && _gpu_timeline_copy_batch (timeline, function, memories, n_memories, ranges, n_ranges,
                                      error);
}
