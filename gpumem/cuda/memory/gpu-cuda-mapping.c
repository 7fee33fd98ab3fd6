/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Mappings. Memory that the host can access is mapped in place. Other memory is mapped through a
 * page-locked block: mapping copies the memory to the block, and unmapping copies the block back,
 * both in stream order.
 */
#include "config.h"

#include "gpumem/cuda/core/gpu-cuda-call.h"
#include "gpumem/cuda/memory/gpu-cuda-block.h"

/* _gpu_cuda_begin() has entered the context. */
static gpointer
map_block (GpuNativeStream  *stream,
           GpuCudaBuffer    *buffer,
           GpuMapFlags       flags,
           gsize             offset,
           gsize             size,
           GpuNativeEvent  **event,
           GpuCudaCall      *call,
           GError          **error)
{
  GpuCudaContext *context = (GpuCudaContext *) stream->context;
  GError *failure = NULL;
  CUresult code = CUDA_SUCCESS;
  GpuCudaBlock *block = _gpu_cuda_block_take (context, size, &failure);

  if (block == NULL)
    {
      _gpu_cuda_cancel (call);
      g_propagate_error (error, failure);
      return NULL;
    }

  block->mapped_size = size;
  block->offset = offset;
  block->write = flags != GPU_MAP_FLAGS_READ;

  if ((flags & GPU_MAP_FLAGS_WRITE_INVALIDATE) == 0)
    code = _gpu_cuda.cuMemcpyDtoHAsync (block->data, buffer->address + offset, size,
                                        ((GpuCudaStream *) stream)->stream);

  if (_gpu_cuda_end (stream, event, call, code, error, "cuMemcpyDtoHAsync",
                     "%" G_GSIZE_FORMAT " bytes from offset %" G_GSIZE_FORMAT " of %"
                     G_GSIZE_FORMAT " bytes, flags 0x%x", size, offset, buffer->base.size, flags))
    return block->data;

  _gpu_cuda_block_give_back (context, block);

  return NULL;
}

gpointer
_gpu_cuda_map (GpuNativeStream  *stream,
               GpuNativeBuffer  *native,
               GpuMapFlags       flags,
               gsize             offset,
               gsize             size,
               GpuNativeEvent  **event,
               GError          **error)
{
  GpuCudaBuffer *buffer = (GpuCudaBuffer *) native;
  GpuCudaCall call;

  if (!_gpu_cuda_begin (stream, event, &call, error))
    return NULL;

  if (buffer->base.host == NULL && !buffer->is_managed)
    return map_block (stream, buffer, flags, offset, size, event, &call, error);

  if (!_gpu_cuda_end (stream, event, &call, CUDA_SUCCESS, error, "cuEventRecord", "mapping"))
    return NULL;

  return buffer->base.host != NULL ? (guint8 *) buffer->base.host + offset
                                   : (guint8 *) (guintptr) buffer->address + offset;
}

/* --- images ----------------------------------------------------------------------------------- */

/* Describes the block memory at @block->data as the source or destination of a copy. */
static GpuRegionSide
get_block_side (const GpuCudaBlock *block)
{
  const GpuCudaImage *image = (GpuCudaImage *) block->side.memory;
  gsize row_pitch = block->extent.width * image->base.description.texel_size;

  return (GpuRegionSide) { .data = block->data, .row_pitch = row_pitch,
                           .slice_pitch = row_pitch * block->extent.height };
}

/* _gpu_cuda_begin() has entered the context. */
static gpointer
map_image_block (GpuNativeStream      *stream,
                 GpuMapFlags           flags,
                 const GpuRegionSide  *side,
                 const GpuExtent      *extent,
                 gsize                 size,
                 GpuNativeEvent      **event,
                 GpuCudaCall          *call,
                 GError              **error)
{
  GpuCudaContext *context = (GpuCudaContext *) stream->context;
  const char *function = "cuEventRecord";
  GError *failure = NULL;
  CUresult code = CUDA_SUCCESS;
  GpuCudaBlock *block = _gpu_cuda_block_take (context, size, &failure);

  if (block == NULL)
    {
      _gpu_cuda_cancel (call);
      g_propagate_error (error, failure);
      return NULL;
    }

  block->side = *side;
  block->extent = *extent;
  block->write = flags != GPU_MAP_FLAGS_READ;

  if ((flags & GPU_MAP_FLAGS_WRITE_INVALIDATE) == 0)
    {
      const GpuRegionSide host = get_block_side (block);

      code = _gpu_cuda_enqueue_region (((GpuCudaStream *) stream)->stream, &host, side, extent,
                                       &function);
    }

  if (_gpu_cuda_end (stream, event, call, code, error, function,
                     "%" G_GSIZE_FORMAT " x %" G_GSIZE_FORMAT " x %" G_GSIZE_FORMAT
                     " texels to be mapped, flags 0x%x", extent->width, extent->height,
                     extent->depth, flags))
    return block->data;

  _gpu_cuda_block_give_back (context, block);

  return NULL;
}

gpointer
_gpu_cuda_map_image (GpuNativeStream      *stream,
                     GpuNativeImage       *native,
                     GpuMapFlags           flags,
                     const GpuRegionSide  *side,
                     const GpuExtent      *extent,
                     gsize                *row_pitch,
                     gsize                *slice_pitch,
                     GpuNativeEvent      **event,
                     GError              **error)
{
  GpuCudaCall call;

  *row_pitch = native->base.host != NULL ? native->row_pitch
                                         : extent->width * native->description.texel_size;
  *slice_pitch = native->base.host != NULL ? native->slice_pitch : *row_pitch * extent->height;

  if (!_gpu_cuda_begin (stream, event, &call, error))
    return NULL;

  if (native->base.host == NULL)
    return map_image_block (stream, flags, side, extent, *slice_pitch * extent->depth, event,
                             &call, error);

  if (!_gpu_cuda_end (stream, event, &call, CUDA_SUCCESS, error, "cuEventRecord", "mapping"))
    return NULL;

  return (guint8 *) native->base.host + side->offset;
}

/* --- unmapping -------------------------------------------------------------------------------- */

static CUresult
write_back (CUstream             stream,
            GpuNativeMemory     *memory,
            const GpuCudaBlock  *block,
            const char         **function)
{
  GpuCudaBuffer *buffer = (GpuCudaBuffer *) memory;

  if (memory->is_image)
    {
      const GpuRegionSide host = get_block_side (block);

      return _gpu_cuda_enqueue_region (stream, &block->side, &host, &block->extent, function);
    }

  *function = "cuMemcpyHtoDAsync";

  return _gpu_cuda.cuMemcpyHtoDAsync (buffer->address + block->offset, block->data,
                                      block->mapped_size, stream);
}

/* Copies the block back to @memory if it was mapped for writing. */
static CUresult
copy_back (CUstream          stream,
           GpuNativeMemory  *memory,
           GpuCudaBlock     *block,
           const char      **function)
{
  CUresult code = CUDA_SUCCESS;

  if (block->write)
    code = write_back (stream, memory, block, function);

  return _gpu_cuda_block_record (stream, block, code, function);
}

/* Copies the block back while the stream may be capturing a graph. The graph must not contain the
 * copy: it would read the block again after other users of the block have changed it. No work uses
 * the mapped range, so the copy needs no order. */
static CUresult
copy_back_beside (GpuCudaContext   *context,
                  GpuNativeMemory  *memory,
                  GpuCudaBlock     *block,
                  const char      **function)
{
  CUresult code = CUDA_ERROR_INVALID_HANDLE;
  CUstream internal;

  *function = "cuStreamCreateWithPriority";

  if (_gpu_cuda_get_internal_stream (context, &internal, NULL))
    code = copy_back (internal, memory, block, function);

  if (code == CUDA_SUCCESS)
    {
      *function = "cuStreamSynchronize";
      code = _gpu_cuda.cuStreamSynchronize (internal);
    }

  return code;
}

gboolean
_gpu_cuda_unmap (GpuNativeStream  *stream,
                 GpuNativeMemory  *memory,
                 gpointer          data,
                 GpuNativeEvent  **event,
                 GError          **error)
{
  GpuCudaContext *context = (GpuCudaContext *) stream->context;
  CUstream handle = ((GpuCudaStream *) stream)->stream;
  const char *function = "cuEventRecord";
  GpuCudaBlock *block = NULL;
  CUresult code = CUDA_SUCCESS;
  GpuCudaCall call;
  gboolean begun;

  if (memory->host == NULL)
    block = _gpu_cuda_block_find (context, data);

  begun = _gpu_cuda_begin (stream, event, &call, error);

  if (begun && block != NULL)
    code = _gpu_cuda_check_capture (handle) == CUDA_SUCCESS
           ? copy_back (handle, memory, block, &function)
           : copy_back_beside (context, memory, block, &function);

  if (block != NULL)
    _gpu_cuda_block_give_back (context, block);

  return begun && _gpu_cuda_end (stream, event, &call, code, error, function,
                                 "address %p of memory of %" G_GSIZE_FORMAT " bytes", data,
                                 memory->size);
}
