/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Batches of copies. A call of the driver for each copy takes longer than most copies, so a kernel
 * does many small copies at once. The launch passes the table of the copies as an argument: the
 * table needs no memory, and a captured graph contains it.
 */
#include "config.h"

#include "gpumem/cuda/core/gpu-cuda-call.h"

/* The number of copies from which on the kernel is used. */
#define MIN_COPIES 4

/* The largest copies that the kernel does. The driver copies larger ranges at the full rate of the
 * memory or of the link, and with copy engines instead of multiprocessors. */
#define MAX_DEVICE_SIZE ((gsize) 4 * 1024 * 1024)
#define MAX_HOST_SIZE   ((gsize) 256 * 1024)

/* Each block copies one chunk. The kernel contains both numbers. */
#define CHUNK_SIZE 16384
#define BLOCK_SIZE 256

/* Launches have 4 KiB of arguments, and the kernel of more rows has 16 KiB. */
#define N_COPIES    170
#define TABLE_SIZE  4088
#define N_ROWS      1010
#define N_MORE_ROWS 4096

typedef struct
{
  struct
  {
    guint32      n_copies;
    guint32      unused;
    struct
    {
      guint64    destination;
      guint64    source;
      guint32    size;
      guint32    first;             /* the block that copies the first chunk */
    }            copies[N_COPIES];
  }              table;
  guint32        n_blocks;
} Launch;

G_STATIC_ASSERT (sizeof ((Launch *) NULL)->table == TABLE_SIZE);

typedef struct
{
  guint64 destination;              /* row 0, or the row of the first of `rows` */
  guint64 source;
  gint64  numbered_step;
  gint64  other_step;
  guint32 size;
  guint32 n_chunks;                 /* of each row */
  guint32 is_put;
  guint32 n_rows;
  guint32 rows[N_MORE_ROWS];
} RowTable;

G_STATIC_ASSERT (G_STRUCT_OFFSET (RowTable, rows) + N_ROWS * 4 == TABLE_SIZE);
G_STATIC_ASSERT (sizeof (RowTable) == 16432);

/*
 * The end of both kernels copies the bytes of a chunk:
 *
 *   offset = chunk * 16384
 *   copy min (size - offset, 16384) bytes from source + offset to destination + offset
 *
 * in units of 16 bytes, or else 4 bytes or 1 byte, so that source and destination have the same
 * offset to a multiple of the unit. The bytes before the first and after the last whole unit, fewer
 * than 16 each, are copied one by one. A thread loads up to four units of 16 bytes before it stores
 * the first. %d3 is the destination, %d4 the source, %r8 the size, %r9 the chunk and %r2 the
 * thread.
 */
#define COPY_CHUNK \
  "  shl.b32 %r9, %r9, 14;\n" \
  "  cvt.u64.u32 %d5, %r9;\n" \
  "  add.u64 %d3, %d3, %d5;\n" \
  "  add.u64 %d4, %d4, %d5;\n" \
  "  sub.u32 %r8, %r8, %r9;\n" \
  "  min.u32 %r8, %r8, 16384;\n" \
  "  xor.b64 %d6, %d3, %d4;\n"               /* %r11: the unit minus 1 */ \
  "  cvt.u32.u64 %r10, %d6;\n" \
  "  mov.u32 %r11, 0;\n" \
  "  and.b32 %r12, %r10, 3;\n" \
  "  setp.eq.u32 %p1, %r12, 0;\n" \
  "  @%p1 mov.u32 %r11, 3;\n" \
  "  and.b32 %r12, %r10, 15;\n" \
  "  setp.eq.u32 %p1, %r12, 0;\n" \
  "  @%p1 mov.u32 %r11, 15;\n" \
  "  cvt.u32.u64 %r12, %d3;\n"               /* %r13: bytes before the first whole unit */ \
  "  neg.s32 %r13, %r12;\n" \
  "  and.b32 %r13, %r13, %r11;\n" \
  "  min.u32 %r13, %r13, %r8;\n" \
  "  sub.u32 %r14, %r8, %r13;\n"             /* %r15: bytes after the last */ \
  "  and.b32 %r15, %r14, %r11;\n" \
  "  sub.u32 %r14, %r14, %r15;\n"            /* %r14: bytes of whole units */ \
  "  add.u32 %r16, %r13, %r15;\n" \
  "  setp.ge.u32 %p1, %r2, %r16;\n" \
  "  @%p1 bra units;\n" \
  "  setp.lt.u32 %p1, %r2, %r13;\n" \
  "  add.u32 %r17, %r2, %r14;\n" \
  "  @%p1 mov.u32 %r17, %r2;\n" \
  "  cvt.u64.u32 %d7, %r17;\n" \
  "  add.u64 %d8, %d4, %d7;\n" \
  "  add.u64 %d9, %d3, %d7;\n" \
  "  ld.global.u8 %r18, [%d8];\n" \
  "  st.global.u8 [%d9], %r18;\n" \
  "units:\n" \
  "  cvt.u64.u32 %d7, %r13;\n" \
  "  add.u64 %d3, %d3, %d7;\n" \
  "  add.u64 %d4, %d4, %d7;\n" \
  "  setp.eq.u32 %p1, %r11, 3;\n" \
  "  @%p1 bra four;\n" \
  "  setp.eq.u32 %p1, %r11, 0;\n" \
  "  @%p1 bra one;\n" \
  "  shl.b32 %r19, %r2, 4;\n" \
  "  cvt.u64.u32 %d7, %r19;\n" \
  "  add.u64 %d3, %d3, %d7;\n" \
  "  add.u64 %d4, %d4, %d7;\n" \
  "  add.u32 %r20, %r19, 4096;\n" \
  "  add.u32 %r21, %r19, 8192;\n" \
  "  add.u32 %r22, %r19, 12288;\n" \
  "  setp.lt.u32 %p1, %r19, %r14;\n" \
  "  setp.lt.u32 %p2, %r20, %r14;\n" \
  "  setp.lt.u32 %p3, %r21, %r14;\n" \
  "  setp.lt.u32 %p4, %r22, %r14;\n" \
  "  @%p1 ld.global.v4.u32 {%r23, %r24, %r25, %r26}, [%d4];\n" \
  "  @%p2 ld.global.v4.u32 {%r27, %r28, %r29, %r30}, [%d4+4096];\n" \
  "  @%p3 ld.global.v4.u32 {%r31, %r32, %r33, %r34}, [%d4+8192];\n" \
  "  @%p4 ld.global.v4.u32 {%r35, %r36, %r37, %r38}, [%d4+12288];\n" \
  "  @%p1 st.global.v4.u32 [%d3], {%r23, %r24, %r25, %r26};\n" \
  "  @%p2 st.global.v4.u32 [%d3+4096], {%r27, %r28, %r29, %r30};\n" \
  "  @%p3 st.global.v4.u32 [%d3+8192], {%r31, %r32, %r33, %r34};\n" \
  "  @%p4 st.global.v4.u32 [%d3+12288], {%r35, %r36, %r37, %r38};\n" \
  "  ret;\n" \
  "four:\n" \
  "  shl.b32 %r19, %r2, 2;\n" \
  "  cvt.u64.u32 %d7, %r19;\n" \
  "  add.u64 %d3, %d3, %d7;\n" \
  "  add.u64 %d4, %d4, %d7;\n" \
  "next_four:\n" \
  "  setp.ge.u32 %p1, %r19, %r14;\n" \
  "  @%p1 bra done;\n" \
  "  ld.global.u32 %r23, [%d4];\n" \
  "  st.global.u32 [%d3], %r23;\n" \
  "  add.u64 %d3, %d3, 1024;\n" \
  "  add.u64 %d4, %d4, 1024;\n" \
  "  add.u32 %r19, %r19, 1024;\n" \
  "  bra next_four;\n" \
  "one:\n" \
  "  mov.u32 %r19, %r2;\n" \
  "  cvt.u64.u32 %d7, %r19;\n" \
  "  add.u64 %d3, %d3, %d7;\n" \
  "  add.u64 %d4, %d4, %d7;\n" \
  "next_one:\n" \
  "  setp.ge.u32 %p1, %r19, %r14;\n" \
  "  @%p1 bra done;\n" \
  "  ld.global.u8 %r23, [%d4];\n" \
  "  st.global.u8 [%d3], %r23;\n" \
  "  add.u64 %d3, %d3, 256;\n" \
  "  add.u64 %d4, %d4, 256;\n" \
  "  add.u32 %r19, %r19, 256;\n" \
  "  bra next_one;\n" \
  "done:\n" \
  "  ret;\n" \
  "}\n"

#define REGISTERS \
  "{\n" \
  "  .reg .pred %p<8>;\n" \
  "  .reg .b32 %r<40>;\n" \
  "  .reg .b64 %d<20>;\n" \
  "  mov.u64 %d1, table;\n" \
  "  mov.u32 %r2, %tid.x;\n" \
  "  mov.u32 %r3, %ctaid.x;\n"

/*
 * The kernel of a batch:
 *
 *   copy = the last copy of the table with copy.first <= block
 *   chunk = block - copy.first
 */
const char _gpu_cuda_copy_batch_text[] =
  ".visible .entry gpu_copy_batch (.param .align 8 .b8 table[4088])\n"
  REGISTERS
  "  ld.param.u32 %r1, [%d1];\n"
  "  mov.u32 %r4, 0;\n"
  "search:\n"                                 /* the copy is one of those from %r4 to %r1 - 1 */
  "  sub.u32 %r5, %r1, %r4;\n"
  "  setp.le.u32 %p1, %r5, 1;\n"
  "  @%p1 bra found;\n"
  "  add.u32 %r6, %r1, %r4;\n"
  "  shr.u32 %r6, %r6, 1;\n"
  "  mad.wide.u32 %d2, %r6, 24, %d1;\n"
  "  ld.param.u32 %r7, [%d2+28];\n"
  "  setp.le.u32 %p1, %r7, %r3;\n"
  "  @%p1 mov.u32 %r4, %r6;\n"
  "  @!%p1 mov.u32 %r1, %r6;\n"
  "  bra search;\n"
  "found:\n"
  "  mad.wide.u32 %d2, %r4, 24, %d1;\n"
  "  ld.param.u64 %d3, [%d2+8];\n"
  "  ld.param.u64 %d4, [%d2+16];\n"
  "  ld.param.u32 %r8, [%d2+24];\n"
  "  ld.param.u32 %r7, [%d2+28];\n"
  "  cvta.to.global.u64 %d3, %d3;\n"
  "  cvta.to.global.u64 %d4, %d4;\n"
  "  sub.u32 %r9, %r3, %r7;\n"
  COPY_CHUNK;

/*
 * The kernel of rows:
 *
 *   i = block / table.n_chunks
 *   chunk = block % table.n_chunks
 *   numbered = table.rows[i] * table.numbered_step
 *   other = i * table.other_step
 *   destination = table.destination + (table.is_put ? numbered : other)
 *   source = table.source + (table.is_put ? other : numbered)
 */
const char _gpu_cuda_copy_rows_text[] =
  REGISTERS
  "  ld.param.u32 %r4, [%d1+36];\n"
  "  div.u32 %r5, %r3, %r4;\n"
  "  mul.lo.u32 %r6, %r5, %r4;\n"
  "  sub.u32 %r9, %r3, %r6;\n"
  "  mad.wide.u32 %d2, %r5, 4, %d1;\n"
  "  ld.param.u32 %r7, [%d2+48];\n"
  "  ld.param.u64 %d5, [%d1+16];\n"
  "  ld.param.u64 %d6, [%d1+24];\n"
  "  cvt.u64.u32 %d7, %r7;\n"
  "  mul.lo.u64 %d5, %d7, %d5;\n"
  "  cvt.u64.u32 %d8, %r5;\n"
  "  mul.lo.u64 %d6, %d8, %d6;\n"
  "  ld.param.u32 %r8, [%d1+40];\n"
  "  setp.eq.u32 %p1, %r8, 0;\n"
  "  mov.u64 %d9, %d5;\n"
  "  mov.u64 %d10, %d6;\n"
  "  @%p1 mov.u64 %d9, %d6;\n"
  "  @%p1 mov.u64 %d10, %d5;\n"
  "  ld.param.u64 %d3, [%d1];\n"
  "  ld.param.u64 %d4, [%d1+8];\n"
  "  add.u64 %d3, %d3, %d9;\n"
  "  add.u64 %d4, %d4, %d10;\n"
  "  cvta.to.global.u64 %d3, %d3;\n"
  "  cvta.to.global.u64 %d4, %d4;\n"
  "  ld.param.u32 %r8, [%d1+32];\n"
  COPY_CHUNK;

/* Excludes pageable memory, which the driver may copy at once, and managed memory, which may be
 * attached to another stream. */
static gboolean
is_for_kernel (const GpuNativeBuffer *native)
{
  const GpuCudaBuffer *buffer = (const GpuCudaBuffer *) native;

  return !buffer->is_managed && buffer->kind != GPU_CUDA_MEMORY_SYSTEM
         && (!native->is_host_only || native->is_locked);
}

static gboolean
can_copy (const GpuNativeBuffer *destination,
          const GpuNativeBuffer *source,
          gsize                  size)
{
  gboolean on_device = destination->host == NULL && source->host == NULL;

  return size <= (on_device ? MAX_DEVICE_SIZE : MAX_HOST_SIZE) && is_for_kernel (destination)
         && is_for_kernel (source);
}

static gboolean
is_kernel_copy (const GpuBufferCopy *copy)
{
  return can_copy (copy->destination, copy->source, copy->size);
}

static gboolean
use_kernel (GpuCudaContext      *context,
            const GpuBufferCopy *copies,
            gsize                n_copies)
{
  guint n = 0;

  if (n_copies < MIN_COPIES || !_gpu_cuda_has_builtins (context))
    return FALSE;

  for (gsize i = 0; i < n_copies && n < MIN_COPIES; i++)
    n += is_kernel_copy (&copies[i]);

  return n == MIN_COPIES;
}

/* The state of a batch while it is enqueued */
typedef struct
{
  GpuCudaStream *stream;
  const char    *function;          /* the last driver function called */
  gsize          n_commands;        /* enqueued so far */
  Launch         launch;
} BatchOp;

static CUresult
launch (BatchOp *op)
{
  GpuCudaContext *context = (GpuCudaContext *) op->stream->base.context;
  void *arguments[] = { &op->launch.table };
  CUresult code;

  if (op->launch.table.n_copies == 0)
    return CUDA_SUCCESS;

  op->function = "cuLaunchKernel";
  code = _gpu_cuda.cuLaunchKernel (context->builtins[GPU_CUDA_BUILTIN_COPY_BATCH],
                                   op->launch.n_blocks, 1, 1, BLOCK_SIZE, 1, 1, 0,
                                   op->stream->stream, arguments, NULL);
  op->n_commands += code == CUDA_SUCCESS;
  op->launch.table.n_copies = 0;
  op->launch.n_blocks = 0;

  return code;
}

static CUresult
add_to_launch (BatchOp     *op,
               CUdeviceptr  destination,
               CUdeviceptr  source,
               gsize        size)
{
  Launch *next = &op->launch;
  guint i = next->table.n_copies++;

  next->table.copies[i].destination = destination;
  next->table.copies[i].source = source;
  next->table.copies[i].size = (guint32) size;
  next->table.copies[i].first = next->n_blocks;
  next->n_blocks += (guint32) ((size + CHUNK_SIZE - 1) / CHUNK_SIZE);

  return next->table.n_copies == N_COPIES ? launch (op) : CUDA_SUCCESS;
}

static CUresult
copy_alone (BatchOp             *op,
            const GpuBufferCopy *copy,
            CUdeviceptr          destination,
            CUdeviceptr          source)
{
  CUresult code;

  op->function = "cuStreamSynchronize";
  code = _gpu_cuda_finish_for_host (&op->stream->base, copy->destination, copy->source);

  if (code != CUDA_SUCCESS)
    return code;

  op->function = "cuMemcpyAsync";
  code = _gpu_cuda.cuMemcpyAsync (destination, source, copy->size, op->stream->stream);
  op->n_commands += code == CUDA_SUCCESS;

  return code;
}

static CUresult
enqueue (BatchOp             *op,
         const GpuBufferCopy *copies,
         gsize                n_copies)
{
  GpuCudaContext *context = (GpuCudaContext *) op->stream->base.context;
  gboolean with_kernel = use_kernel (context, copies, n_copies);
  CUresult code = CUDA_SUCCESS;

  for (gsize i = 0; i < n_copies && code == CUDA_SUCCESS; i++)
    {
      const GpuBufferCopy *copy = &copies[i];
      CUdeviceptr to = ((GpuCudaBuffer *) copy->destination)->address + copy->destination_offset;
      CUdeviceptr from = ((GpuCudaBuffer *) copy->source)->address + copy->source_offset;

      code = with_kernel && is_kernel_copy (copy) ? add_to_launch (op, to, from, copy->size)
                                                  : copy_alone (op, copy, to, from);
    }

  return code == CUDA_SUCCESS ? launch (op) : code;
}

/* If the kernel cannot be loaded, the batch is a loop of copies. */
void
_gpu_cuda_prepare_batch (GpuNativeContext *native,
                         gsize             n_copies)
{
  GpuCudaContext *context = (GpuCudaContext *) native;
  gboolean entered;

  if (n_copies < MIN_COPIES || G_LIKELY (_gpu_cuda_has_builtins (context))
      || !_gpu_cuda_enter (context, &entered, NULL))
    return;

  _gpu_cuda_load_builtins (context, NULL);
  _gpu_cuda_leave (entered);
}

gboolean
_gpu_cuda_copy_batch (GpuNativeStream     *native,
                      const GpuBufferCopy *copies,
                      gsize                n_copies,
                      GpuNativeEvent     **event,
                      GError             **error)
{
  BatchOp op;
  GpuCudaCall call;
  CUresult code;

  if (!_gpu_cuda_begin (native, event, &call, error))
    return FALSE;

  op.stream = (GpuCudaStream *) native;
  op.n_commands = 0;
  op.launch.table.n_copies = 0;
  op.launch.table.unused = 0;
  op.launch.n_blocks = 0;
  code = enqueue (&op, copies, n_copies);

  if (code != CUDA_SUCCESS && op.n_commands > 0)
    _gpu_cuda_leave_pieces (op.stream);

  return _gpu_cuda_end (native, event, &call, code, error, op.function,
                        "%" G_GSIZE_FORMAT " copies", n_copies);
}

/* Launches the kernel for the rows from @first on. Returns their number in @n. */
static CUresult
launch_rows (GpuCudaStream           *stream,
             const GpuBufferRowCopy  *copy,
             RowTable                *table,
             gsize                    first,
             gsize                   *n)
{
  CUfunction *builtins = ((GpuCudaContext *) stream->base.context)->builtins;
  gsize left = copy->n_rows - first;
  CUfunction more = left > N_ROWS ? builtins[GPU_CUDA_BUILTIN_COPY_MORE_ROWS] : NULL;
  CUdeviceptr to = ((GpuCudaBuffer *) copy->destination)->address + copy->destination_offset;
  CUdeviceptr from = ((GpuCudaBuffer *) copy->source)->address + copy->source_offset;
  void *arguments[] = { table };

  *n = MIN (left, more != NULL ? N_MORE_ROWS : N_ROWS);
  table->destination = to + (copy->is_put ? 0 : (gssize) first * copy->destination_step);
  table->source = from + (copy->is_put ? (gssize) first * copy->source_step : 0);
  table->n_rows = (guint32) *n;
  memcpy (table->rows, copy->rows + first, *n * sizeof *table->rows);

  return _gpu_cuda.cuLaunchKernel (more != NULL ? more : builtins[GPU_CUDA_BUILTIN_COPY_ROWS],
                                   (guint) *n * table->n_chunks, 1, 1, BLOCK_SIZE, 1, 1, 0,
                                   stream->stream, arguments, NULL);
}

gboolean
_gpu_cuda_copy_rows (GpuNativeStream         *native,
                     const GpuBufferRowCopy  *copy,
                     GpuNativeEvent         **event,
                     GError                 **error)
{
  GpuCudaStream *stream = (GpuCudaStream *) native;
  RowTable table;
  GpuCudaCall call;
  CUresult code = CUDA_SUCCESS;
  gsize n = 0;

  if (copy->n_rows < MIN_COPIES || !can_copy (copy->destination, copy->source, copy->size)
      || !_gpu_cuda_has_builtins ((GpuCudaContext *) native->context))
    {
      g_set_error_literal (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED, "no kernel for these rows");
      return FALSE;
    }

  if (!_gpu_cuda_begin (native, event, &call, error))
    return FALSE;

  table.numbered_step = copy->is_put ? copy->destination_step : copy->source_step;
  table.other_step = copy->is_put ? copy->source_step : copy->destination_step;
  table.size = (guint32) copy->size;
  table.n_chunks = (guint32) ((copy->size + CHUNK_SIZE - 1) / CHUNK_SIZE);
  table.is_put = copy->is_put;

  for (gsize first = 0; first < copy->n_rows && code == CUDA_SUCCESS; first += n)
    {
      code = launch_rows (stream, copy, &table, first, &n);

      if (code != CUDA_SUCCESS && first > 0)
        _gpu_cuda_leave_pieces (stream);
    }

  return _gpu_cuda_end (native, event, &call, code, error, "cuLaunchKernel",
                        "%" G_GSIZE_FORMAT " rows of %" G_GSIZE_FORMAT " bytes", copy->n_rows,
                        copy->size);
}
