/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Fills use the driver's memset functions for repeated units of 1, 2 or 4 bytes, and a kernel for
 * all other patterns. */
#include "config.h"

#include <string.h>

#include "gpumem/cuda/core/gpu-cuda-call.h"

/* Size in bytes of the kernel's table. The table contains the pattern, repeated until it fills a
 * whole number of units. */
#define TABLE_SIZE   3072
#define BLOCK_SIZE   256
#define N_BLOCKS_MAX 2048

G_STATIC_ASSERT (GPU_CUDA_PATTERN_MAX <= TABLE_SIZE);

/*
 * The kernel that fills memory:
 *
 *   for (i = thread; i < n_units; i += n_threads)
 *     the unit at destination + i * unit_size = the unit at table + i % n_table * unit_size
 *
 * with units of 1, 4 or 16 bytes. The kernel first copies the table to shared memory, from which
 * threads can read different entries at the same time.
 */
const char _gpu_cuda_fill_text[] =
  ".visible .entry gpu_fill (.param .u64 destination, .param .u64 n_units,\n"
  "                          .param .u32 unit_size, .param .u32 n_table,\n"
  "                          .param .align 16 .b8 table[3072])\n"
  "{\n"
  "  .reg .pred %p<4>;\n"
  "  .reg .b32 %r<20>;\n"
  "  .reg .b64 %d<20>;\n"
  "  .shared .align 16 .b8 cache[3072];\n"
  "  ld.param.u64 %d1, [destination];\n"
  "  ld.param.u64 %d2, [n_units];\n"
  "  ld.param.u32 %r1, [unit_size];\n"
  "  ld.param.u32 %r2, [n_table];\n"
  "  cvta.to.global.u64 %d1, %d1;\n"
  "  mov.u64 %d3, table;\n"
  "  mov.u64 %d4, cache;\n"
  "  mov.u32 %r3, %tid.x;\n"
  "  mov.u32 %r4, %ntid.x;\n"
  "  mov.u32 %r5, %ctaid.x;\n"
  "  mov.u32 %r6, %nctaid.x;\n"
  "  mul.lo.u32 %r7, %r1, %r2;\n"
  "  mov.u32 %r8, %r3;\n"
  "load:\n"
  "  shl.b32 %r9, %r8, 2;\n"
  "  setp.ge.u32 %p1, %r9, %r7;\n"
  "  @%p1 bra loaded;\n"
  "  cvt.u64.u32 %d5, %r9;\n"
  "  add.u64 %d6, %d3, %d5;\n"
  "  ld.param.u32 %r10, [%d6];\n"
  "  add.u64 %d7, %d4, %d5;\n"
  "  st.shared.u32 [%d7], %r10;\n"
  "  add.u32 %r8, %r8, %r4;\n"
  "  bra load;\n"
  "loaded:\n"
  "  bar.sync 0;\n"
  "  mad.lo.u32 %r11, %r5, %r4, %r3;\n"
  "  mul.lo.u32 %r12, %r6, %r4;\n"
  "  cvt.u64.u32 %d8, %r11;\n"
  "  cvt.u64.u32 %d9, %r12;\n"
  "  cvt.u64.u32 %d10, %r1;\n"
  "  mad.lo.u64 %d11, %d8, %d10, %d1;\n"
  "  mul.lo.u64 %d12, %d9, %d10;\n"
  "  rem.u32 %r13, %r11, %r2;\n"
  "  rem.u32 %r14, %r12, %r2;\n"
  "  setp.eq.u32 %p2, %r1, 16;\n"
  "  setp.eq.u32 %p3, %r1, 4;\n"
  "unit:\n"
  "  setp.ge.u64 %p1, %d8, %d2;\n"
  "  @%p1 bra done;\n"
  "  mul.lo.u32 %r15, %r13, %r1;\n"
  "  cvt.u64.u32 %d13, %r15;\n"
  "  add.u64 %d13, %d4, %d13;\n"
  "  @%p2 bra sixteen;\n"
  "  @%p3 bra four;\n"
  "  ld.shared.u8 %r16, [%d13];\n"
  "  st.global.u8 [%d11], %r16;\n"
  "  bra next;\n"
  "four:\n"
  "  ld.shared.u32 %r16, [%d13];\n"
  "  st.global.u32 [%d11], %r16;\n"
  "  bra next;\n"
  "sixteen:\n"
  "  ld.shared.v4.u32 {%r16, %r17, %r18, %r19}, [%d13];\n"
  "  st.global.v4.u32 [%d11], {%r16, %r17, %r18, %r19};\n"
  "next:\n"
  "  add.u64 %d8, %d8, %d9;\n"
  "  add.u64 %d11, %d11, %d12;\n"
  "  add.u32 %r13, %r13, %r14;\n"
  "  setp.ge.u32 %p1, %r13, %r2;\n"
  "  @%p1 sub.u32 %r13, %r13, %r2;\n"
  "  bra unit;\n"
  "done:\n"
  "  ret;\n"
  "}\n";

/* Returns whether @pattern consists of repetitions of its first @period bytes, which are a power of
 * two. Avoids divisions, and in most cases the call of memcmp(). */
static inline gboolean
is_periodic (const guint8 *pattern,
             gsize         pattern_size,
             gsize         period)
{
  return (pattern_size & (period - 1)) == 0
         && (pattern_size == period
             || (pattern[0] == pattern[period]
                 && memcmp (pattern, pattern + period, pattern_size - period) == 0));
}

/* Returns the unit size with which the driver's memset functions can write @pattern to a range
 * whose address and size are multiples of @alignment. Returns 0 if the kernel is needed. */
GPU_HOT static gsize
get_period (const guint8 *pattern,
            gsize         pattern_size,
            gsize         alignment)
{
  for (gsize period = 1; period <= 4; period *= 2)
    {
      if ((alignment & (period - 1)) == 0 && is_periodic (pattern, pattern_size, period))
        return period;
    }

  return 0;
}

/* Like get_period(), but always returns 0 for memory that the memset functions of the driver may
 * reject: system memory, and memory of the host in several chunks. */
static gsize
find_period (GpuNativeBuffer *destination,
             gconstpointer    pattern,
             gsize            pattern_size,
             gsize            alignment)
{
  const GpuCudaBuffer *buffer = (const GpuCudaBuffer *) destination;

  if (buffer->kind == GPU_CUDA_MEMORY_SYSTEM || buffer->is_chunked)
    return 0;

  return get_period (pattern, pattern_size, alignment);
}

static CUresult
set_linear (CUdeviceptr   address,
            gsize         size,
            const guint8 *pattern,
            gsize         period,
            CUstream      stream,
            const char  **function)
{
  guint16 two;
  guint32 four;

  switch (period)
    {
    case 1:
      *function = "cuMemsetD8Async";
      return _gpu_cuda.cuMemsetD8Async (address, *pattern, size, stream);
    case 2:
      *function = "cuMemsetD16Async";
      memcpy (&two, pattern, sizeof two);
      return _gpu_cuda.cuMemsetD16Async (address, two, size / 2, stream);
    default:
      *function = "cuMemsetD32Async";
      memcpy (&four, pattern, sizeof four);
      return _gpu_cuda.cuMemsetD32Async (address, four, size / 4, stream);
    }
}

static gsize
get_common_multiple (gsize a,
                     gsize b)
{
  gsize x = a;
  gsize y = b;

  while (y != 0)
    {
      gsize rest = x % y;

      x = y;
      y = rest;
    }

  return a / x * b;
}

/* Returns the largest unit size possible, because wide stores are faster. */
static guint32
get_unit_size (CUdeviceptr address,
               gsize       size,
               gsize       pattern_size)
{
  for (guint32 unit = 16; unit > 1; unit /= 4)
    {
      if ((address | size) % unit == 0 && get_common_multiple (pattern_size, unit) <= TABLE_SIZE)
        return unit;
    }

  return 1;
}

static CUresult
launch (CUfunction    function,
        CUdeviceptr   address,
        gsize         size,
        const guint8 *pattern,
        gsize         pattern_size,
        CUstream      stream)
{
  guint8 table[TABLE_SIZE];
  guint32 unit_size = get_unit_size (address, size, pattern_size);
  gsize table_size = get_common_multiple (pattern_size, unit_size);
  guint32 n_table = (guint32) (table_size / unit_size);
  guint64 n_units = size / unit_size;
  guint64 n_blocks = (n_units + BLOCK_SIZE - 1) / BLOCK_SIZE;
  void *arguments[] = { &address, &n_units, &unit_size, &n_table, table };

  for (gsize i = 0; i < table_size; i += pattern_size)
    memcpy (table + i, pattern, pattern_size);
  memset (table + table_size, 0, sizeof table - table_size);

  return _gpu_cuda.cuLaunchKernel (function, (unsigned int) MIN (n_blocks, N_BLOCKS_MAX), 1, 1,
                                   BLOCK_SIZE, 1, 1, 0, stream, arguments, NULL);
}

GPU_HOT gboolean
_gpu_cuda_fill (GpuNativeStream      *stream,
                GpuNativeBuffer      *destination,
                const GpuNativeFill  *fill,
                GpuNativeEvent      **event,
                GError              **error)
{
  CUdeviceptr address = ((GpuCudaBuffer *) destination)->address + fill->offset;
  gsize period = find_period (destination, fill->pattern, fill->pattern_size,
                              address | fill->size);
  CUstream handle = ((GpuCudaStream *) stream)->stream;
  const char *function = "cuLaunchKernel";
  GpuCudaContext *context = (GpuCudaContext *) stream->context;
  GError *failure = NULL;
  GpuCudaCall call;
  CUresult code;

  if (G_UNLIKELY (destination->is_host_only))
    return _gpu_cuda_fill_ordinary (stream, destination, fill, event, error);

  if (!(period != 0 && _gpu_cuda_begin_plain (stream, event, &call))
      && !_gpu_cuda_begin (stream, event, &call, error))
    return FALSE;

  if (period == 0 && !_gpu_cuda_load_builtins (context, &failure))
    {
      _gpu_cuda_cancel (&call);
      g_propagate_error (error, failure);
      return FALSE;
    }

  do
    code = period != 0
           ? set_linear (address, fill->size, fill->pattern, period, handle, &function)
           : launch (context->builtins[GPU_CUDA_BUILTIN_FILL], address, fill->size, fill->pattern,
                     fill->pattern_size, handle);
  while (G_UNLIKELY (code != CUDA_SUCCESS) && _gpu_cuda_enter_late (stream, &call, code));

  if (_gpu_cuda_end_plain (stream, &call, code))
    return TRUE;

  return _gpu_cuda_end (stream, event, &call, code, error, function,
                        "%" G_GSIZE_FORMAT " bytes from offset %" G_GSIZE_FORMAT " of %"
                        G_GSIZE_FORMAT " bytes, with a pattern of %" G_GSIZE_FORMAT " bytes",
                        fill->size, fill->offset, destination->size, fill->pattern_size);
}

static CUresult
set_rows (CUdeviceptr      address,
          gsize            pitch,
          const GpuExtent *extent,
          const guint8    *pattern,
          gsize            period,
          CUstream         stream,
          const char     **function)
{
  guint16 two;
  guint32 four;

  switch (period)
    {
    case 1:
      *function = "cuMemsetD2D8Async";
      return _gpu_cuda.cuMemsetD2D8Async (address, pitch, *pattern, extent->width, extent->height,
                                          stream);
    case 2:
      *function = "cuMemsetD2D16Async";
      memcpy (&two, pattern, sizeof two);
      return _gpu_cuda.cuMemsetD2D16Async (address, pitch, two, extent->width / 2, extent->height,
                                           stream);
    default:
      *function = "cuMemsetD2D32Async";
      memcpy (&four, pattern, sizeof four);
      return _gpu_cuda.cuMemsetD2D32Async (address, pitch, four, extent->width / 4,
                                           extent->height, stream);
    }
}

gboolean
_gpu_cuda_fill_region (GpuNativeStream      *stream,
                       GpuNativeBuffer      *destination,
                       const GpuRegionSide  *side,
                       const GpuExtent      *extent,
                       gconstpointer         pattern,
                       gsize                 pattern_size,
                       GpuNativeEvent      **event,
                       GError              **error)
{
  CUdeviceptr address = ((GpuCudaBuffer *) destination)->address + side->offset;
  gsize period = find_period (destination, pattern, pattern_size,
                              address | extent->width | side->row_pitch | side->slice_pitch);
  CUstream handle = ((GpuCudaStream *) stream)->stream;
  const char *function = NULL;
  CUresult code = CUDA_SUCCESS;
  GpuCudaCall call;

  if (period == 0 || side->row_pitch < extent->width || side->row_pitch > G_MAXINT32
      || destination->is_host_only)
    {
      g_set_error_literal (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                           "the driver fills rows with patterns of 1, 2 and 4 bytes only");
      return FALSE;
    }

  if (!_gpu_cuda_begin (stream, event, &call, error))
    return FALSE;

  for (gsize i = 0; i < extent->depth && code == CUDA_SUCCESS; i++)
    code = set_rows (address + i * side->slice_pitch, side->row_pitch, extent, pattern, period,
                     handle, &function);

  /* If a call failed, wait for the slices that are in flight: the caller treats a failed fill as
   * not submitted, and so does not track these slices. */
  if (code != CUDA_SUCCESS)
    _gpu_cuda.cuStreamSynchronize (handle);

  return _gpu_cuda_end (stream, event, &call, code, error, function,
                        "%" G_GSIZE_FORMAT " bytes x %" G_GSIZE_FORMAT " rows x %" G_GSIZE_FORMAT
                        " slices, row pitch %" G_GSIZE_FORMAT, extent->width, extent->height,
                        extent->depth, side->row_pitch);
}
