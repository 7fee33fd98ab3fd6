/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Fills of pageable memory, and writes behind pending work, through page-locked blocks */
#include "config.h"

#include <string.h>

#include "gpumem/cuda/core/gpu-cuda-call.h"
#include "gpumem/cuda/memory/gpu-cuda-block.h"
#include "gpumem/format/gpu-region-private.h"

/* A fill of pageable memory fills a page-locked block with the pattern and copies the block
 * repeatedly. This is the maximum size of the block in bytes. */
#define FILL_SIZE (1024 * 1024)

/* The driver copies pageable memory of at most this many bytes during the call that writes it, also
 * behind pending work. For larger writes, each stream has two buffers of the driver (seen with
 * driver 580 on an H200). */
#define DRIVER_SIZE_MAX (64 * 1024)

/* --- fills ------------------------------------------------------------------------------------ */

static CUresult
copy_pieces (CUstream       stream,
             CUdeviceptr    address,
             gsize          size,
             GpuCudaBlock  *block,
             gsize          piece,
             const char   **function)
{
  CUresult code = CUDA_SUCCESS;

  *function = "cuMemcpyAsync";

  for (gsize done = 0; done < size && code == CUDA_SUCCESS; done += MIN (piece, size - done))
    code = _gpu_cuda.cuMemcpyAsync (address + done, (guintptr) block->data,
                                    MIN (piece, size - done), stream);

  return _gpu_cuda_block_record (stream, block, code, function);
}

gboolean
_gpu_cuda_fill_ordinary (GpuNativeStream      *stream,
                         GpuNativeBuffer      *destination,
                         const GpuNativeFill  *fill,
                         GpuNativeEvent      **event,
                         GError              **error)
{
  const gsize piece = MIN (fill->size, FILL_SIZE / fill->pattern_size * fill->pattern_size);
  GpuCudaContext *context = (GpuCudaContext *) stream->context;
  CUstream handle = ((GpuCudaStream *) stream)->stream;
  const char *function = "cuStreamSynchronize";
  GError *failure = NULL;
  GpuCudaBlock *block;
  GpuCudaCall call;
  CUresult code;

  if (!_gpu_cuda_begin (stream, event, &call, error))
    return FALSE;

  block = _gpu_cuda_block_take (context, piece, &failure);

  if (block == NULL)
    {
      _gpu_cuda_cancel (&call);
      g_propagate_error (error, failure);
      return FALSE;
    }

  for (gsize done = 0; done < piece; done += fill->pattern_size)
    memcpy (block->data + done, fill->pattern, fill->pattern_size);

  /* The block has other contents when a graph runs. */
  code = _gpu_cuda_check_capture (handle);

  if (code == CUDA_SUCCESS)
    code = _gpu_cuda_finish_for_host (stream, destination, NULL);

  if (code == CUDA_SUCCESS)
    code = copy_pieces (handle, ((GpuCudaBuffer *) destination)->address + fill->offset,
                        fill->size, block, piece, &function);

  _gpu_cuda_block_give_back (context, block);

  return _gpu_cuda_end (stream, event, &call, code, error, function,
                        "%" G_GSIZE_FORMAT " bytes from offset %" G_GSIZE_FORMAT " of %"
                        G_GSIZE_FORMAT " bytes of pageable memory, with a pattern of %"
                        G_GSIZE_FORMAT " bytes", fill->size, fill->offset, destination->size,
                        fill->pattern_size);
}

/* --- writes behind pending work --------------------------------------------------------------- */

/* Returns FALSE if the driver reports another error: the memory may be page-locked, and get its
 * contents later. */
static gboolean
is_pageable (gconstpointer data)
{
  unsigned int type = 0;

  return _gpu_cuda.cuPointerGetAttribute (&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                          (guintptr) data) == CUDA_ERROR_INVALID_VALUE;
}

/* Returns whether the driver may block a write until earlier work is complete. Neither queries a
 * stream that is being captured, nor uses a block for it: a graph would read the block later. */
static gboolean
may_block (CUstream      stream,
           gconstpointer data,
           gsize         size)
{
  return size > DRIVER_SIZE_MAX && size < GPU_TRANSFER_MIN_ASYNC_WRITE
         && _gpu_cuda_check_capture (stream) == CUDA_SUCCESS
         && _gpu_cuda.cuStreamQuery (stream) == CUDA_ERROR_NOT_READY
         && is_pageable (data);
}

GpuCudaBlock *
_gpu_cuda_block_pack (GpuCudaContext       *context,
                      CUstream              stream,
                      const GpuRegionSide  *source,
                      const GpuExtent      *extent)
{
  gsize size = extent->width * extent->height * extent->depth;
  GpuCudaBlock *block = NULL;

  if (may_block (stream, (const guint8 *) source->data + source->offset, size))
    block = _gpu_cuda_block_take_for_write (context, size);

  if (block != NULL)
    _gpu_region_pack (source, extent, block->data);

  return block;
}

CUresult
_gpu_cuda_write_behind (GpuCudaContext  *context,
                        CUstream         stream,
                        CUdeviceptr      address,
                        gconstpointer    data,
                        gsize            size,
                        const char     **function)
{
  const GpuRegionSide source = { .data = (gpointer) data };
  GpuCudaBlock *block = _gpu_cuda_block_pack (context, stream, &source,
                                              &(GpuExtent) { size, 1, 1 });
  CUresult code;

  *function = "cuMemcpyHtoDAsync";

  if (block == NULL)
    return _gpu_cuda.cuMemcpyHtoDAsync (address, data, size, stream);

  code = _gpu_cuda_block_record (stream, block,
                      _gpu_cuda.cuMemcpyHtoDAsync (address, block->data, size, stream),
                      function);
  _gpu_cuda_block_give_back (context, block);

  return code;
}
