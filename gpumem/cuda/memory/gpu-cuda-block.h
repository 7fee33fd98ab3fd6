/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Page-locked blocks, through which the host and the device exchange bytes. A block is reused after
 * its last copy has completed, because allocating a block is slow and may make the driver wait for
 * the device. */
#pragma once

#include "gpumem/cuda/core/gpu-cuda.h"

G_BEGIN_DECLS

typedef struct _GpuCudaBlock GpuCudaBlock;

struct _GpuCudaBlock
{
  GpuCudaContext *context;
  GpuCudaBuffer  *memory;
  guint8         *data;             /* the address of the memory */
  gsize           size;
  CUevent         done;             /* after the last copy */
  gboolean        used;             /* by a mapping, a fill or a write */
  gboolean        write;            /* unmapping copies the block back */
  gsize           mapped_size;      /* for buffers: size of the mapping in bytes */
  gsize           offset;           /* for buffers: offset of the mapping in the buffer */
  GpuRegionSide   side;             /* for images: the mapped region; the block contains its rows
                                     * without gaps */
  GpuExtent       extent;           /* for images: extent of the region in texels */
};

/* Takes an idle block of at least @size bytes, or a new one. Caller has entered the context and
 * must not hold its lock. */
GpuCudaBlock *_gpu_cuda_block_take      (GpuCudaContext      *context,
                                         gsize                size,
                                         GError             **error);
/* Takes an idle or a new block for a write behind pending work. Returns NULL if too many bytes of
 * blocks are pending. Leaves blocks of other sizes to other writes and to mappings. Frees no block,
 * because the driver may wait for the device then; it does not wait for an allocation (seen with
 * driver 580 on an H200). Caller has entered the context and must not hold its lock. */
GpuCudaBlock *_gpu_cuda_block_take_for_write (GpuCudaContext *context,
                                         gsize                size);
/* Takes a block for a write of host memory, and copies the region of @source to it without the gaps
 * between rows. The width of @extent is in bytes. Returns NULL if the driver must copy: it does not
 * block, the stream is being captured, the memory may be page-locked, or there is no block. Caller
 * has entered the context and must not hold its lock. */
GpuCudaBlock *_gpu_cuda_block_pack      (GpuCudaContext      *context,
                                         CUstream             stream,
                                         const GpuRegionSide *source,
                                         const GpuExtent     *extent);
/* Allows other operations to take the block, once the device does not use it any more. */
void          _gpu_cuda_block_give_back (GpuCudaContext      *context,
                                         GpuCudaBlock        *block);
/* Returns the taken block with the memory @data, or NULL if there is none. */
GpuCudaBlock *_gpu_cuda_block_find      (GpuCudaContext      *context,
                                         gpointer             data);
/* Ends the use of the block by commands with the result @code. On success, records the event that
 * shows when the block can be reused. After a failure there is no such event, and the caller tracks
 * none of the commands, so the function waits for those that the stream has. */
CUresult      _gpu_cuda_block_record    (CUstream             stream,
                                         const GpuCudaBlock  *block,
                                         CUresult             code,
                                         const char         **function);

G_END_DECLS
