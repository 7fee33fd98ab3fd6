/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Batches of copies. A command for each copy takes longer than most copies, so a kernel does many
 * small copies at once. Each launch copies between two memory objects, because OpenCL has
 * no addresses. The table of the copies is an argument of the launch, and needs no memory.
 *
 * In a batch whose event is requested, each command has an event. The event of the last command
 * retains the others: PoCL ends the process if a user event fails a command that has no event.
 */
#include "config.h"

#include "gpumem/opencl/driver/gpu-opencl.h"

/* The kernel does the copies between two memory objects if a batch has at least MIN_COPIES of them.
 * It serves at most MAX_PAIRS pairs of memory objects in a batch; commands do all other copies. The
 * driver compiles the kernel before the first batch of MIN_COPIES copies. */
#define MIN_COPIES 16
#define MAX_PAIRS  16

/* The largest copies that the kernel does. Commands copy larger ranges at the full rate. */
#define MAX_SIZE ((gsize) 4 * 1024 * 1024)

/* Each work-group copies one chunk. The kernel contains the same number. */
#define CHUNK_SIZE 16384
#define GROUP_SIZE ((gsize) 256)

/* The largest table. Devices of the full profile have arguments of 1 KiB or more. */
#define MAX_TABLE_SIZE 4088
#define HEADER_SIZE    8
#define MAX_COPIES     170

typedef struct
{
  guint64 to;
  guint64 from;
  guint32 size;
  guint32 first;                    /* the work-group that copies the first chunk */
} Entry;

typedef struct
{
  guint32 n_copies;
  guint32 unused;
  Entry   copies[MAX_COPIES];
} Table;

G_STATIC_ASSERT (sizeof (Table) == MAX_TABLE_SIZE);

/* Source and destination have the same offset to a multiple of the unit: 16, 4 or 1 bytes. The
 * bytes before the first and after the last whole unit are copied one by one. */
static const char kernel_source[] =
  "typedef struct { ulong to; ulong from; uint size; uint first; } Copy;\n"
  "typedef struct { uint n_copies; uint unused; Copy copies[N_COPIES]; } Table;\n"
  "\n"
  "#define COPY(type) \\\n"
  "  for (uint i = id; i < n_bytes / sizeof (type); i += n_ids) \\\n"
  "    ((__global type *) (to + n_head))[i] = ((__global const type *) (from + n_head))[i]\n"
  "\n"
  "__kernel void\n"
  "gpu_copy_batch (__global uchar *to, __global const uchar *from, const Table table)\n"
  "{\n"
  "  const uint group = get_group_id (0), id = get_local_id (0), n_ids = get_local_size (0);\n"
  "  uint low = 0, high = table.n_copies;\n"
  "  uint offset, size, mask, n_head, n_tail, n_bytes;\n"
  "\n"
  "  while (high - low > 1)\n"
  "    {\n"
  "      const uint middle = (low + high) / 2;\n"
  "\n"
  "      if (table.copies[middle].first <= group)\n"
  "        low = middle;\n"
  "      else\n"
  "        high = middle;\n"
  "    }\n"
  "\n"
  "  offset = (group - table.copies[low].first) * 16384;\n"
  "  size = min (table.copies[low].size - offset, 16384u);\n"
  "  to += table.copies[low].to + offset;\n"
  "  from += table.copies[low].from + offset;\n"
  "  mask = ((uint) (size_t) to ^ (uint) (size_t) from) & 15;\n"
  "  mask = mask == 0 ? 15 : (mask & 3) == 0 ? 3 : 0;\n"
  "  n_head = min (-(uint) (size_t) to & mask, size);\n"
  "  n_tail = (size - n_head) & mask;\n"
  "  n_bytes = size - n_head - n_tail;\n"
  "\n"
  "  for (uint i = id; i < n_head + n_tail; i += n_ids)\n"
  "    {\n"
  "      const uint at = i < n_head ? i : i + n_bytes;\n"
  "\n"
  "      to[at] = from[at];\n"
  "    }\n"
  "  if (mask == 15)\n"
  "    COPY (uint4);\n"
  "  else if (mask == 3)\n"
  "    COPY (uint);\n"
  "  else\n"
  "    COPY (uchar);\n"
  "}\n";

/* --- the kernel ------------------------------------------------------------------------------- */

/* Returns the number of copies for which all devices have room among their arguments. */
static gsize
get_table_length (GpuOpenclContext *context)
{
  gsize room = MAX_TABLE_SIZE;

  for (guint i = 0; i < context->base.n_devices; i++)
    {
      gsize size = 0;

      if (!_gpu_opencl_device_get (context->ids[i], CL_DEVICE_MAX_PARAMETER_SIZE, &size,
                                   sizeof size, NULL))
        return 0;

      room = MIN (room, size - MIN (size, 2 * sizeof (gpointer)));
    }

  return room < HEADER_SIZE ? 0 : (room - HEADER_SIZE) / sizeof (Entry);
}

static cl_kernel
build_kernel (GpuOpenclContext *context,
              gsize             n_copies,
              const char      **function,
              cl_int           *code)
{
  g_autofree char *options = g_strdup_printf ("-DN_COPIES=%u", (guint) n_copies);
  const char *text = kernel_source;
  cl_kernel kernel = NULL;
  cl_program program;

  *function = "clCreateProgramWithSource";
  program = clCreateProgramWithSource (context->context, 1, &text, NULL, code);

  if (*code != CL_SUCCESS)
    return NULL;

  *function = "clBuildProgram";
  *code = clBuildProgram (program, 0, NULL, options, NULL, NULL);

  if (*code == CL_SUCCESS)
    {
      *function = "clCreateKernel";
      kernel = clCreateKernel (program, "gpu_copy_batch", code);
    }

  clReleaseProgram (program);

  return *code == CL_SUCCESS ? kernel : NULL;
}

/* Holds no lock while the driver builds the kernel. If two threads build the kernel at the same
 * time, one of the kernels is released. */
void
_gpu_opencl_prepare_batch (GpuNativeContext *native,
                           gsize             n_copies)
{
  GpuOpenclContext *context = (GpuOpenclContext *) native;
  const char *function = NULL;
  cl_int code = CL_SUCCESS;
  cl_kernel kernel;
  gsize length;

  if (n_copies < MIN_COPIES || g_atomic_int_get (&context->batch_state) != 0)
    return;

  length = get_table_length (context);
  kernel = length > 0 ? build_kernel (context, length, &function, &code) : NULL;

  if (code != CL_SUCCESS)
    _gpu_opencl_set_error (NULL, function, code, "the kernel for batches of copies");

  g_mutex_lock (&context->batch_lock);
  if (g_atomic_int_get (&context->batch_state) == 0)
    {
      context->batch_kernel = g_steal_pointer (&kernel);
      context->batch_length = length;
      g_atomic_int_set (&context->batch_state, context->batch_kernel != NULL ? 1 : -1);
    }
  g_mutex_unlock (&context->batch_lock);

  if (kernel != NULL)
    clReleaseKernel (kernel);
}

/* --- commands --------------------------------------------------------------------------------- */

typedef struct
{
  GpuNativeStream  *stream;
  GpuNativeEvent  **event;          /* nullable; where the op returns its event */
  GpuNativeEvent   *last;           /* nullable; the event of the last command */
  GArray           *pieces;         /* nullable; cl_events of the earlier commands */
  gsize             n_commands;
  GError          **error;
} BatchOp;

/* Moves the events of the last command to the list of pieces. */
static void
retire_last (BatchOp *op)
{
  GpuOpenclEvent *event = (GpuOpenclEvent *) op->last;

  if (event == NULL)
    return;

  if (op->pieces == NULL)
    op->pieces = _gpu_opencl_pieces_new ();

  for (guint i = 0; event->pieces != NULL && i < event->pieces->len; i++)
    {
      cl_event piece = g_array_index (event->pieces, cl_event, i);

      clRetainEvent (piece);
      g_array_append_val (op->pieces, piece);
    }
  clRetainEvent (event->event);
  g_array_append_val (op->pieces, event->event);
  g_clear_pointer (&op->last, _gpu_native_event_unref);
}

/* Called after each command. @event is its event, which is NULL unless op->event is not NULL. */
static gboolean
end_command (BatchOp        *op,
             GpuNativeEvent *event,
             gboolean        success)
{
  if (event != NULL)
    {
      retire_last (op);
      op->last = event;
    }
  op->n_commands += success || op->stream->partial;

  return success;
}

static gboolean
copy_alone (BatchOp             *op,
            const GpuBufferCopy *copy)
{
  GpuNativeEvent *event = NULL;
  gboolean success = op->stream->backend->buffer->copy (op->stream, copy->destination,
                                                        copy->destination_offset, copy->source,
                                                        copy->source_offset, copy->size,
                                                        op->event != NULL ? &event : NULL,
                                                        op->error);

  return end_command (op, event, success);
}

/* Returns the event of the last command, which retains the others. After a failure, the caller
 * retains the memory of the commands that were enqueued. */
static gboolean
end_batch (BatchOp  *op,
           gboolean  success)
{
  GpuOpenclEvent *event = (GpuOpenclEvent *) op->last;

  if (!success)
    op->stream->partial = op->n_commands > 0;

  if (event != NULL && op->pieces != NULL)
    {
      if (event->pieces != NULL)
        {
          for (guint i = 0; i < event->pieces->len; i++)
            clRetainEvent (g_array_index (event->pieces, cl_event, i));
          g_array_append_vals (op->pieces, event->pieces->data, event->pieces->len);
          g_array_unref (event->pieces);
        }
      event->pieces = g_steal_pointer (&op->pieces);
    }
  g_clear_pointer (&op->pieces, g_array_unref);

  if (op->event != NULL)
    *op->event = op->last;

  return success;
}

/* --- launches --------------------------------------------------------------------------------- */

/* The copies between two memory objects */
typedef struct
{
  cl_mem to;
  cl_mem from;
  gsize  n_copies;
} Pair;

/* A kernel must not use a buffer and its sub-buffer at the same time, so it gets the parent. */
static cl_mem
get_whole (GpuNativeBuffer *native,
           gsize           *offset)
{
  const GpuOpenclBuffer *buffer = (const GpuOpenclBuffer *) native;

  if (buffer->parent == NULL)
    return buffer->mem;

  *offset += buffer->parent_offset;

  return buffer->parent;
}

/* Host memory is mapped, and commands must not use mapped buffers. */
static gboolean
is_for_kernel (const GpuNativeBuffer *native)
{
  const GpuOpenclBuffer *buffer = (const GpuOpenclBuffer *) native;

  return buffer->mem != NULL && buffer->usm == NULL && !native->is_host_only;
}

/* Kernels may not write memory for reading only, or read memory for writing only. */
static gboolean
permits_kernel (const Pair *pair)
{
  cl_mem_flags to = 0;
  cl_mem_flags from = 0;

  return _gpu_opencl_mem_get (pair->to, CL_MEM_FLAGS, &to, sizeof to, NULL)
         && _gpu_opencl_mem_get (pair->from, CL_MEM_FLAGS, &from, sizeof from, NULL)
         && (to & CL_MEM_READ_ONLY) == 0 && (from & CL_MEM_WRITE_ONLY) == 0;
}

/* Returns the index of the pair of @copy, which is added if it is new. Returns MAX_PAIRS if no
 * kernel can do the copy. */
static guint
find_pair (const GpuBufferCopy *copy,
           Pair                *pairs,
           guint               *n_pairs)
{
  gsize offset = 0;
  cl_mem to = get_whole (copy->destination, &offset);
  cl_mem from = get_whole (copy->source, &offset);
  guint i = 0;

  if (copy->size > MAX_SIZE || !is_for_kernel (copy->destination) || !is_for_kernel (copy->source))
    return MAX_PAIRS;

  while (i < *n_pairs && (pairs[i].to != to || pairs[i].from != from))
    i++;

  if (i == *n_pairs && i < MAX_PAIRS)
    pairs[(*n_pairs)++] = (Pair) { to, from, 0 };

  return i;
}

/* Chooses how to do each copy: sets @chosen to the index of its pair if the kernel does the copy,
 * and to MAX_PAIRS if a command does. */
static void
choose (const GpuBufferCopy *copies,
        gsize                n_copies,
        Pair                *pairs,
        guint8              *chosen)
{
  gboolean is_permitted[MAX_PAIRS + 1] = { FALSE, };
  guint n_pairs = 0;

  for (gsize i = 0; i < n_copies; i++)
    {
      chosen[i] = find_pair (&copies[i], pairs, &n_pairs);
      if (chosen[i] < MAX_PAIRS)
        pairs[chosen[i]].n_copies++;
    }

  for (guint i = 0; i < n_pairs; i++)
    is_permitted[i] = pairs[i].n_copies >= MIN_COPIES && permits_kernel (&pairs[i]);

  for (gsize i = 0; i < n_copies; i++)
    if (!is_permitted[chosen[i]])
      chosen[i] = MAX_PAIRS;
}

/* Returns the number of work-items of each group. On a CPU a thread runs the whole group. */
static gsize
get_group_size (GpuOpenclContext *context,
                GpuOpenclDevice  *device)
{
  gsize size = 1;

  if (device->base.type == GPU_DEVICE_TYPE_CPU
      || clGetKernelWorkGroupInfo (context->batch_kernel, device->id, CL_KERNEL_WORK_GROUP_SIZE,
                                   sizeof size, &size, NULL) != CL_SUCCESS)
    return 1;

  return CLAMP (size, 1, GROUP_SIZE);
}

/* Caller holds batch_lock, because the arguments belong to the kernel. */
static cl_int
launch_locked (BatchOp      *op,
               const Pair   *pair,
               const Table  *table,
               gsize         n_groups,
               const char  **function,
               cl_event     *event)
{
  GpuOpenclContext *context = (GpuOpenclContext *) op->stream->context;
  GpuOpenclStream *stream = (GpuOpenclStream *) op->stream;
  gsize group_size = get_group_size (context, stream->device);
  gsize size = n_groups * group_size;
  cl_int code;

  *function = "clSetKernelArg";
  code = clSetKernelArg (context->batch_kernel, 0, sizeof pair->to, &pair->to);
  if (code == CL_SUCCESS)
    code = clSetKernelArg (context->batch_kernel, 1, sizeof pair->from, &pair->from);
  if (code == CL_SUCCESS)
    code = clSetKernelArg (context->batch_kernel, 2,
                           HEADER_SIZE + context->batch_length * sizeof (Entry), table);
  if (code != CL_SUCCESS)
    return code;

  *function = "clEnqueueNDRangeKernel";

  return clEnqueueNDRangeKernel (stream->queue, context->batch_kernel, 1, NULL, &size,
                                 &group_size, 0, NULL, event);
}

static gboolean
launch (BatchOp    *op,
        const Pair *pair,
        Table      *table,
        gsize       n_groups)
{
  GpuOpenclContext *context = (GpuOpenclContext *) op->stream->context;
  GpuNativeEvent *event = NULL;
  const char *function;
  cl_event native = NULL;
  gboolean held = _gpu_opencl_hold_slices (op->stream);
  gboolean success;
  cl_int code;

  g_mutex_lock (&context->batch_lock);
  code = launch_locked (op, pair, table, n_groups, &function, op->event != NULL ? &native : NULL);
  g_mutex_unlock (&context->batch_lock);
  _gpu_opencl_release_slices (op->stream, held);
  success = _gpu_opencl_enqueued (op->stream, code, function, native,
                                  op->event != NULL ? &event : NULL, op->error,
                                  "%u copies between two buffers", table->n_copies);
  table->n_copies = 0;

  return end_command (op, event, success);
}

/* Launches the kernel for all copies for which @chosen is @number. */
static gboolean
launch_pair (BatchOp             *op,
             const Pair          *pair,
             guint                number,
             const guint8        *chosen,
             const GpuBufferCopy *copies,
             gsize                n_copies)
{
  const guint length = ((GpuOpenclContext *) op->stream->context)->batch_length;
  Table table = { 0, };
  gsize n_groups = 0;

  for (gsize i = 0; i < n_copies; i++)
    {
      const GpuBufferCopy *copy = &copies[i];
      Entry *entry = &table.copies[table.n_copies];

      if (chosen[i] != number)
        continue;

      entry->to = copy->destination_offset
                  + ((GpuOpenclBuffer *) copy->destination)->parent_offset;
      entry->from = copy->source_offset + ((GpuOpenclBuffer *) copy->source)->parent_offset;
      entry->size = copy->size;
      entry->first = n_groups;
      n_groups += (copy->size + CHUNK_SIZE - 1) / CHUNK_SIZE;

      if (++table.n_copies < length)
        continue;

      if (!launch (op, pair, &table, n_groups))
        return FALSE;
      n_groups = 0;
    }

  return table.n_copies == 0 || launch (op, pair, &table, n_groups);
}

static gboolean
run_kernels (BatchOp             *op,
             const GpuBufferCopy *copies,
             gsize                n_copies,
             guint8              *chosen)
{
  Pair pairs[MAX_PAIRS] = { { NULL, }, };

  choose (copies, n_copies, pairs, chosen);

  for (guint i = 0; i < MAX_PAIRS; i++)
    if (pairs[i].n_copies >= MIN_COPIES
        && !launch_pair (op, &pairs[i], i, chosen, copies, n_copies))
      return FALSE;

  return TRUE;
}

gboolean
_gpu_opencl_copy_batch (GpuNativeStream     *stream,
                        const GpuBufferCopy *copies,
                        gsize                n_copies,
                        GpuNativeEvent     **event,
                        GError             **error)
{
  BatchOp op = { .stream = stream, .event = event, .error = error };
  g_autofree guint8 *chosen = NULL;
  gboolean success = TRUE;

  if (g_atomic_int_get (&((GpuOpenclContext *) stream->context)->batch_state) > 0)
    {
      chosen = g_try_new (guint8, n_copies);
      success = chosen == NULL || run_kernels (&op, copies, n_copies, chosen);
    }

  for (gsize i = 0; i < n_copies && success; i++)
    if (chosen == NULL || chosen[i] == MAX_PAIRS)
      success = copy_alone (&op, &copies[i]);

  return end_batch (&op, success);
}
