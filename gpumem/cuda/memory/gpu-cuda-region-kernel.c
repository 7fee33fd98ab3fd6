/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A kernel for copies of regions within the memory of a device. The driver copies large regions of
 * short rows at less than the rate of the memory. */
#include "config.h"

#include "gpumem/cuda/core/gpu-cuda-call.h"

/* The size of a region in bytes from which on the kernel is used. Not measured. */
#define MIN_SIZE ((gsize) 1024 * 1024)

#define UNIT_SIZE  16
#define BLOCK_SIZE 256

/*
 * The kernel:
 *
 *   i = thread, for i < n_units
 *   column = i % width, row = i / width % height, slice = i / width / height
 *   copy 16 bytes from source + column * 16 + row * from_row + slice * from_slice
 *   to destination + column * 16 + row * to_row + slice * to_slice
 */
const char _gpu_cuda_region_text[] =
  ".visible .entry gpu_copy_region (.param .u64 destination, .param .u64 source,\n"
  "                                 .param .u64 to_row, .param .u64 from_row,\n"
  "                                 .param .u64 to_slice, .param .u64 from_slice,\n"
  "                                 .param .u32 n_units, .param .u32 width,\n"
  "                                 .param .u32 height)\n"
  "{\n"
  "  .reg .pred %p<2>;\n"
  "  .reg .b32 %r<20>;\n"
  "  .reg .b64 %d<20>;\n"
  "  ld.param.u32 %r1, [n_units];\n"
  "  mov.u32 %r2, %tid.x;\n"
  "  mov.u32 %r3, %ntid.x;\n"
  "  mov.u32 %r4, %ctaid.x;\n"
  "  mad.lo.u32 %r5, %r4, %r3, %r2;\n"
  "  setp.ge.u32 %p1, %r5, %r1;\n"
  "  @%p1 bra done;\n"
  "  ld.param.u32 %r6, [width];\n"
  "  ld.param.u32 %r7, [height];\n"
  "  div.u32 %r8, %r5, %r6;\n"
  "  mul.lo.u32 %r9, %r8, %r6;\n"
  "  sub.u32 %r9, %r5, %r9;\n"
  "  div.u32 %r10, %r8, %r7;\n"
  "  mul.lo.u32 %r11, %r10, %r7;\n"
  "  sub.u32 %r11, %r8, %r11;\n"
  "  cvt.u64.u32 %d1, %r9;\n"
  "  shl.b64 %d1, %d1, 4;\n"
  "  cvt.u64.u32 %d2, %r11;\n"
  "  cvt.u64.u32 %d3, %r10;\n"
  "  ld.param.u64 %d4, [source];\n"
  "  ld.param.u64 %d5, [from_row];\n"
  "  ld.param.u64 %d6, [from_slice];\n"
  "  cvta.to.global.u64 %d4, %d4;\n"
  "  add.u64 %d4, %d4, %d1;\n"
  "  mad.lo.u64 %d4, %d2, %d5, %d4;\n"
  "  mad.lo.u64 %d4, %d3, %d6, %d4;\n"
  "  ld.param.u64 %d7, [destination];\n"
  "  ld.param.u64 %d8, [to_row];\n"
  "  ld.param.u64 %d9, [to_slice];\n"
  "  cvta.to.global.u64 %d7, %d7;\n"
  "  add.u64 %d7, %d7, %d1;\n"
  "  mad.lo.u64 %d7, %d2, %d8, %d7;\n"
  "  mad.lo.u64 %d7, %d3, %d9, %d7;\n"
  "  ld.global.v4.u32 {%r12, %r13, %r14, %r15}, [%d4];\n"
  "  st.global.v4.u32 [%d7], {%r12, %r13, %r14, %r15};\n"
  "done:\n"
  "  ret;\n"
  "}\n";

gboolean
_gpu_cuda_region_fits_kernel (GpuCudaStream             *stream,
                              const GpuCudaRegionLaunch *region)
{
  gsize size = region->width * region->height * region->depth;

  return _gpu_cuda_has_builtins ((GpuCudaContext *) stream->base.context)
         && region->height * region->depth > 1
         && size >= MIN_SIZE && size / UNIT_SIZE <= G_MAXINT32
         && (region->destination | region->source | region->width | region->to_row
             | region->from_row | region->to_slice | region->from_slice) % UNIT_SIZE == 0;
}

CUresult
_gpu_cuda_launch_region (GpuCudaStream             *stream,
                         const GpuCudaRegionLaunch *region)
{
  GpuCudaContext *context = (GpuCudaContext *) stream->base.context;
  CUdeviceptr destination = region->destination, source = region->source;
  guint64 to_row = region->to_row, from_row = region->from_row;
  guint64 to_slice = region->to_slice, from_slice = region->from_slice;
  guint32 width = (guint32) (region->width / UNIT_SIZE);
  guint32 height = (guint32) region->height;
  guint32 n_units = (guint32) (width * region->height * region->depth);
  void *arguments[] = { &destination, &source, &to_row, &from_row, &to_slice, &from_slice,
                        &n_units, &width, &height };

  return _gpu_cuda.cuLaunchKernel (context->builtins[GPU_CUDA_BUILTIN_COPY_REGION],
                                   (n_units + BLOCK_SIZE - 1) / BLOCK_SIZE, 1, 1, BLOCK_SIZE, 1, 1,
                                   0, stream->stream, arguments, NULL);
}
