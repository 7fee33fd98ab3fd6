/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Mappings, and other operations through page-locked blocks. Memory that the host can access is
 * mapped in place. Other memory is mapped through a block: mapping copies the memory to the block,
 * and unmapping copies the block back, both in stream order. A block is reused after its last copy
 * has completed, because allocating a block is slow and may make the driver wait for the device.
 */
#include "config.h"

#include <string.h>

#include "gpumem/cuda/core/gpu-cuda-call.h"

/* The size of a block is a multiple of this many bytes. */
#define GRANULE (64 * 1024)

/* A fill of pageable memory fills a page-locked block with the pattern and copies the block
 * repeatedly. This is the maximum size of the block in bytes. */
#define FILL_SIZE (1024 * 1024)

/* The driver copies pageable memory of at most this many bytes during the call that writes it, also
 * behind pending work. For larger writes, each stream has two buffers of the driver (seen with
 * driver 580 on an H200). */
#define DRIVER_SIZE_MAX (64 * 1024)

/* The block of a write behind pending work has at least this many bytes, and a power of two. The
 * total size of the pending blocks limits these writes. */
#define WRITE_SIZE_MIN (128 * 1024)
#define WRITE_TOTAL_MAX (64 * 1024 * 1024)

/* When a new block is needed, idle blocks are freed until their total size is at most this many
 * bytes. */
#define IDLE_SIZE_MAX (64 * 1024 * 1024)

typedef struct
{
  GpuCudaContext *context;
  GpuCudaBuffer  *block;
  guint8         *data;             /* the memory of the block */
  gsize           size;
  CUevent         done;             /* after the last copy */
  gboolean        used;             /* by a mapping, a fill or a write */
  gboolean        write;            /* unmapping copies the block back */
  gsize           mapped_size;      /* for buffers: size of the mapping in bytes */
  gsize           offset;           /* for buffers: offset of the mapping in the buffer */
  GpuRegionSide   side;             /* for images: the mapped region; the block contains its rows
                                     * without gaps */
  GpuExtent       extent;           /* for images: extent of the region in texels */
} GpuCudaStaging;

/* Caller has entered the context. Caller must not hold the lock of the context, because the driver
 * may wait for the device. */
static void
staging_free (GpuCudaStaging *staging)
{
  if (staging->done != NULL)
    _gpu_cuda.cuEventDestroy (staging->done);
  if (staging->block != NULL)
    _gpu_cuda_buffer_free (&staging->context->base, &staging->block->base);
  g_free (staging);
}

void
_gpu_cuda_staging_clear (GpuCudaContext *context,
                         gboolean        can_free)
{
  for (guint i = 0; context->staging != NULL && i < context->staging->len; i++)
    {
      GpuCudaStaging *staging = g_ptr_array_index (context->staging, i);

      if (can_free)
        {
          staging_free (staging);
          continue;
        }

      g_free (staging->block);
      g_free (staging);
    }

  g_clear_pointer (&context->staging, g_ptr_array_unref);
}

static gboolean
is_idle (const GpuCudaStaging *staging)
{
  return !staging->used && _gpu_cuda.cuEventQuery (staging->done) == CUDA_SUCCESS;
}

/* Caller holds `lock` of the context. Returns the smallest idle block of at least @size bytes, or
 * NULL if there is none. Ignores blocks that are more than four times as large as needed. */
static GpuCudaStaging *
find_idle_locked (GpuCudaContext *context,
                  gsize           size)
{
  GpuCudaStaging *best = NULL;

  for (guint i = 0; i < context->staging->len; i++)
    {
      GpuCudaStaging *staging = g_ptr_array_index (context->staging, i);

      if (staging->size >= size && staging->size / 4 <= MAX (size, GRANULE)
          && (best == NULL || staging->size < best->size) && is_idle (staging))
        best = staging;
    }

  return best;
}

/* Caller holds `lock` of the context. Removes idle blocks until the total size of the remaining
 * idle blocks is at most IDLE_SIZE_MAX. Returns the removed blocks; the caller must free them
 * without holding the lock. */
static GPtrArray *
trim_locked (GpuCudaContext *context)
{
  GPtrArray *trimmed = g_ptr_array_new ();
  gsize idle_size = 0;

  for (guint i = context->staging->len; i > 0; i--)
    {
      GpuCudaStaging *staging = g_ptr_array_index (context->staging, i - 1);

      if (!is_idle (staging))
        continue;

      idle_size += staging->size;
      if (idle_size > IDLE_SIZE_MAX)
        g_ptr_array_add (trimmed, g_ptr_array_steal_index_fast (context->staging, i - 1));
    }

  return trimmed;
}

/* Caller has entered the context, and must not hold the lock of the context. */
static GpuCudaStaging *
staging_new (GpuCudaContext  *context,
             gsize            size,
             GError         **error)
{
  GpuCudaStaging *staging = g_new0 (GpuCudaStaging, 1);
  int numa_node = GPU_NUMA_NODE_DEVICE;

  staging->context = context;
  staging->size = (size + GRANULE - 1) / GRANULE * GRANULE;

  if (!_gpu_cuda_check (_gpu_cuda.cuEventCreate (&staging->done, CU_EVENT_DISABLE_TIMING),
                        "cuEventCreate", error))
    {
      staging_free (staging);
      return NULL;
    }

  staging->block = _gpu_cuda_alloc_locked (context, CU_MEMHOSTALLOC_PORTABLE, &numa_node,
                                           staging->size, error);

  if (staging->block == NULL)
    {
      staging_free (staging);
      return NULL;
    }

  staging->data = staging->block->base.host;

  return staging;
}

static GpuCudaStaging *
take_idle (GpuCudaContext  *context,
           gsize            size,
           GPtrArray      **trimmed)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&context->lock);
  GpuCudaStaging *staging;

  if (context->staging == NULL)
    context->staging = g_ptr_array_new ();

  staging = find_idle_locked (context, size);

  if (staging != NULL)
    staging->used = TRUE;
  else
    *trimmed = trim_locked (context);

  return staging;
}

/* Caller has entered the context and must not hold its lock, because an allocation may block. */
static GpuCudaStaging *
add (GpuCudaContext  *context,
     gsize            size,
     GError         **error)
{
  GpuCudaStaging *staging = staging_new (context, size, error);

  if (staging == NULL)
    return NULL;

  staging->used = TRUE;
  g_mutex_lock (&context->lock);
  g_ptr_array_add (context->staging, staging);
  g_mutex_unlock (&context->lock);

  return staging;
}

/* Caller has entered the context and must not hold its lock. */
static GpuCudaStaging *
take (GpuCudaContext  *context,
      gsize            size,
      GError         **error)
{
  GPtrArray *trimmed = NULL;
  GpuCudaStaging *staging = take_idle (context, size, &trimmed);

  if (staging != NULL)
    return staging;

  g_ptr_array_set_free_func (trimmed, (GDestroyNotify) staging_free);
  g_ptr_array_unref (trimmed);

  return add (context, size, error);
}

static void
give (GpuCudaContext *context,
      GpuCudaStaging *staging)
{
  g_mutex_lock (&context->lock);
  staging->used = FALSE;
  g_mutex_unlock (&context->lock);
}

static GpuCudaStaging *
find_mapped (GpuCudaContext *context,
             gpointer        data)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&context->lock);

  for (guint i = 0; context->staging != NULL && i < context->staging->len; i++)
    {
      GpuCudaStaging *staging = g_ptr_array_index (context->staging, i);

      if (staging->used && staging->data == data)
        return staging;
    }

  return NULL;
}

/* _gpu_cuda_begin() has entered the context. */
static gpointer
map_staged (GpuNativeStream  *stream,
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
  GpuCudaStaging *staging = take (context, size, &failure);

  if (staging == NULL)
    {
      _gpu_cuda_cancel (call);
      g_propagate_error (error, failure);
      return NULL;
    }

  staging->mapped_size = size;
  staging->offset = offset;
  staging->write = flags != GPU_MAP_FLAGS_READ;

  if ((flags & GPU_MAP_FLAGS_WRITE_INVALIDATE) == 0)
    code = _gpu_cuda.cuMemcpyDtoHAsync (staging->data, buffer->address + offset, size,
                                        ((GpuCudaStream *) stream)->stream);

  if (_gpu_cuda_end (stream, event, call, code, error, "cuMemcpyDtoHAsync",
                     "%" G_GSIZE_FORMAT " bytes from offset %" G_GSIZE_FORMAT " of %"
                     G_GSIZE_FORMAT " bytes, flags 0x%x", size, offset, buffer->base.size, flags))
    return staging->data;

  give (context, staging);

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
    return map_staged (stream, buffer, flags, offset, size, event, &call, error);

  if (!_gpu_cuda_end (stream, event, &call, CUDA_SUCCESS, error, "cuEventRecord", "mapping"))
    return NULL;

  return buffer->base.host != NULL ? (guint8 *) buffer->base.host + offset
                                   : (guint8 *) (guintptr) buffer->address + offset;
}

/* --- images ----------------------------------------------------------------------------------- */

/* Describes the staging memory at @staging->data as the source or destination of a copy. */
static GpuRegionSide
get_block_side (const GpuCudaStaging *staging)
{
  const GpuCudaImage *image = (GpuCudaImage *) staging->side.memory;
  gsize row_pitch = staging->extent.width * image->base.description.texel_size;

  return (GpuRegionSide) { .data = staging->data, .row_pitch = row_pitch,
                           .slice_pitch = row_pitch * staging->extent.height };
}

/* _gpu_cuda_begin() has entered the context. */
static gpointer
map_image_staged (GpuNativeStream      *stream,
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
  GpuCudaStaging *staging = take (context, size, &failure);

  if (staging == NULL)
    {
      _gpu_cuda_cancel (call);
      g_propagate_error (error, failure);
      return NULL;
    }

  staging->side = *side;
  staging->extent = *extent;
  staging->write = flags != GPU_MAP_FLAGS_READ;

  if ((flags & GPU_MAP_FLAGS_WRITE_INVALIDATE) == 0)
    {
      const GpuRegionSide block = get_block_side (staging);

      code = _gpu_cuda_enqueue_region (((GpuCudaStream *) stream)->stream, &block, side, extent,
                                       &function);
    }

  if (_gpu_cuda_end (stream, event, call, code, error, function,
                     "%" G_GSIZE_FORMAT " x %" G_GSIZE_FORMAT " x %" G_GSIZE_FORMAT
                     " texels to be mapped, flags 0x%x", extent->width, extent->height,
                     extent->depth, flags))
    return staging->data;

  give (context, staging);

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
    return map_image_staged (stream, flags, side, extent, *slice_pitch * extent->depth, event,
                             &call, error);

  if (!_gpu_cuda_end (stream, event, &call, CUDA_SUCCESS, error, "cuEventRecord", "mapping"))
    return NULL;

  return (guint8 *) native->base.host + side->offset;
}

/* --- unmapping -------------------------------------------------------------------------------- */

/* @code is the result of the commands that use the block. On success, records the event that shows
 * when the block can be reused. After a failure there is no such event, and the caller tracks none
 * of the commands, so the function waits for those that the stream has. */
static CUresult
record_done (CUstream               stream,
             const GpuCudaStaging  *staging,
             CUresult               code,
             const char           **function)
{
  if (code == CUDA_SUCCESS)
    {
      *function = "cuEventRecord";
      code = _gpu_cuda.cuEventRecord (staging->done, stream);
    }

  if (code != CUDA_SUCCESS)
    _gpu_cuda.cuStreamSynchronize (stream);

  return code;
}

static CUresult
write_back (CUstream               stream,
            GpuNativeMemory       *memory,
            const GpuCudaStaging  *staging,
            const char           **function)
{
  GpuCudaBuffer *buffer = (GpuCudaBuffer *) memory;

  if (memory->is_image)
    {
      const GpuRegionSide block = get_block_side (staging);

      return _gpu_cuda_enqueue_region (stream, &staging->side, &block, &staging->extent, function);
    }

  *function = "cuMemcpyHtoDAsync";

  return _gpu_cuda.cuMemcpyHtoDAsync (buffer->address + staging->offset, staging->data,
                                      staging->mapped_size, stream);
}

/* Copies the block back to @memory if it was mapped for writing. */
static CUresult
copy_back (CUstream          stream,
           GpuNativeMemory  *memory,
           GpuCudaStaging   *staging,
           const char      **function)
{
  CUresult code = CUDA_SUCCESS;

  if (staging->write)
    code = write_back (stream, memory, staging, function);

  return record_done (stream, staging, code, function);
}

/* Copies the block back while the stream may be capturing a graph. The graph must not contain the
 * copy: it would read the block again after other users of the block have changed it. No work uses
 * the mapped range, so the copy needs no order. */
static CUresult
copy_back_beside (GpuCudaContext   *context,
                  GpuNativeMemory  *memory,
                  GpuCudaStaging   *staging,
                  const char      **function)
{
  CUresult code = CUDA_ERROR_INVALID_HANDLE;
  CUstream internal;

  *function = "cuStreamCreateWithPriority";

  if (_gpu_cuda_get_internal_stream (context, &internal, NULL))
    code = copy_back (internal, memory, staging, function);

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
  GpuCudaStaging *staging = NULL;
  CUresult code = CUDA_SUCCESS;
  GpuCudaCall call;
  gboolean begun;

  if (memory->host == NULL)
    staging = find_mapped (context, data);

  begun = _gpu_cuda_begin (stream, event, &call, error);

  if (begun && staging != NULL)
    code = _gpu_cuda_check_capture (handle) == CUDA_SUCCESS
           ? copy_back (handle, memory, staging, &function)
           : copy_back_beside (context, memory, staging, &function);

  if (staging != NULL)
    give (context, staging);

  return begun && _gpu_cuda_end (stream, event, &call, code, error, function,
                                 "address %p of memory of %" G_GSIZE_FORMAT " bytes", data,
                                 memory->size);
}

/* --- fills ------------------------------------------------------------------------------------ */

static CUresult
copy_pieces (CUstream         stream,
             CUdeviceptr      address,
             gsize            size,
             GpuCudaStaging  *staging,
             gsize            piece,
             const char     **function)
{
  CUresult code = CUDA_SUCCESS;

  *function = "cuMemcpyAsync";

  for (gsize done = 0; done < size && code == CUDA_SUCCESS; done += MIN (piece, size - done))
    code = _gpu_cuda.cuMemcpyAsync (address + done, (guintptr) staging->data,
                                    MIN (piece, size - done), stream);

  return record_done (stream, staging, code, function);
}

gboolean
_gpu_cuda_fill_ordinary (GpuNativeStream  *stream,
                         GpuNativeBuffer  *destination,
                         gsize             offset,
                         gsize             size,
                         gconstpointer     pattern,
                         gsize             pattern_size,
                         GpuNativeEvent  **event,
                         GError          **error)
{
  const gsize piece = MIN (size, FILL_SIZE / pattern_size * pattern_size);
  GpuCudaContext *context = (GpuCudaContext *) stream->context;
  CUstream handle = ((GpuCudaStream *) stream)->stream;
  const char *function = "cuStreamSynchronize";
  GError *failure = NULL;
  GpuCudaStaging *staging;
  GpuCudaCall call;
  CUresult code;

  if (!_gpu_cuda_begin (stream, event, &call, error))
    return FALSE;

  staging = take (context, piece, &failure);

  if (staging == NULL)
    {
      _gpu_cuda_cancel (&call);
      g_propagate_error (error, failure);
      return FALSE;
    }

  for (gsize done = 0; done < piece; done += pattern_size)
    memcpy (staging->data + done, pattern, pattern_size);

  /* The block has other contents when a graph runs. */
  code = _gpu_cuda_check_capture (handle);

  if (code == CUDA_SUCCESS)
    code = _gpu_cuda_finish_for_host (stream, destination, NULL);

  if (code == CUDA_SUCCESS)
    code = copy_pieces (handle, ((GpuCudaBuffer *) destination)->address + offset, size, staging,
                        piece, &function);

  give (context, staging);

  return _gpu_cuda_end (stream, event, &call, code, error, function,
                        "%" G_GSIZE_FORMAT " bytes from offset %" G_GSIZE_FORMAT " of %"
                        G_GSIZE_FORMAT " bytes of pageable memory, with a pattern of %"
                        G_GSIZE_FORMAT " bytes", size, offset, destination->size, pattern_size);
}

/* --- writes behind pending work --------------------------------------------------------------- */

/* Caller holds `lock` of the context. Returns the total size of the blocks of this kind that are in
 * use or that the device still reads. */
static gsize
get_pending_size_locked (GpuCudaContext *context)
{
  gsize total = 0;

  for (guint i = 0; i < context->staging->len; i++)
    {
      GpuCudaStaging *staging = g_ptr_array_index (context->staging, i);

      if (staging->size <= GPU_TRANSFER_MIN_ASYNC_WRITE && !is_idle (staging))
        total += staging->size;
    }

  return total;
}

/* Returns an idle or a new block, or NULL if about WRITE_TOTAL_MAX bytes of blocks are pending.
 * Leaves blocks of other sizes to other writes and to mappings. Frees no block, because the driver
 * may wait for the device then; it does not wait for an allocation (seen with driver 580 on an
 * H200). Caller has entered the context and must not hold its lock. */
static GpuCudaStaging *
take_for_write (GpuCudaContext *context,
                gsize           size)
{
  gsize block_size = WRITE_SIZE_MIN;
  GpuCudaStaging *taken = NULL;
  gboolean may_add;

  while (block_size < size)
    block_size *= 2;

  g_mutex_lock (&context->lock);

  if (context->staging == NULL)
    context->staging = g_ptr_array_new ();

  for (guint i = 0; i < context->staging->len && taken == NULL; i++)
    {
      GpuCudaStaging *staging = g_ptr_array_index (context->staging, i);

      if (staging->size == block_size && is_idle (staging))
        taken = staging;
    }

  if (taken != NULL)
    taken->used = TRUE;

  may_add = taken == NULL
            && get_pending_size_locked (context) + block_size <= WRITE_TOTAL_MAX;
  g_mutex_unlock (&context->lock);

  return may_add ? add (context, block_size, NULL) : taken;
}

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

CUresult
_gpu_cuda_write_behind (GpuCudaContext  *context,
                        CUstream         stream,
                        CUdeviceptr      address,
                        gconstpointer    data,
                        gsize            size,
                        const char     **function)
{
  GpuCudaStaging *staging = may_block (stream, data, size) ? take_for_write (context, size) : NULL;
  CUresult code;

  *function = "cuMemcpyHtoDAsync";

  if (staging == NULL)
    return _gpu_cuda.cuMemcpyHtoDAsync (address, data, size, stream);

  memcpy (staging->data, data, size);
  code = record_done (stream, staging,
                      _gpu_cuda.cuMemcpyHtoDAsync (address, staging->data, size, stream),
                      function);
  give (context, staging);

  return code;
}
