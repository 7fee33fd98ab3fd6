/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/cuda/core/gpu-cuda-call.h"
#include "gpumem/cuda/memory/gpu-cuda-block.h"

/* The size of a block is a multiple of this many bytes. */
#define GRANULE (64 * 1024)

/* The block of a write behind pending work has at least this many bytes, and a power of two. The
 * total size of the pending blocks limits these writes. */
#define WRITE_SIZE_MIN (128 * 1024)
#define WRITE_TOTAL_MAX (64 * 1024 * 1024)

/* When a new block is needed, idle blocks are freed until their total size is at most this many
 * bytes. */
#define IDLE_SIZE_MAX (64 * 1024 * 1024)

/* Caller has entered the context. Caller must not hold the lock of the context, because the driver
 * may wait for the device. */
static void
block_free (GpuCudaBlock *block)
{
  if (block->done != NULL)
    _gpu_cuda.cuEventDestroy (block->done);
  if (block->memory != NULL)
    _gpu_cuda_buffer_free (&block->context->base, &block->memory->base);
  g_free (block);
}

void
_gpu_cuda_blocks_clear (GpuCudaContext *context,
                        gboolean        can_free)
{
  for (guint i = 0; context->blocks != NULL && i < context->blocks->len; i++)
    {
      GpuCudaBlock *block = g_ptr_array_index (context->blocks, i);

      if (can_free)
        {
          block_free (block);
          continue;
        }

      g_free (block->memory);
      g_free (block);
    }

  g_clear_pointer (&context->blocks, g_ptr_array_unref);
}

static gboolean
is_idle (const GpuCudaBlock *block)
{
  return !block->used && _gpu_cuda.cuEventQuery (block->done) == CUDA_SUCCESS;
}

/* Caller holds `lock` of the context. Returns the smallest idle block of at least @size bytes, or
 * NULL if there is none. Ignores blocks that are more than four times as large as needed. */
static GpuCudaBlock *
find_idle_locked (GpuCudaContext *context,
                  gsize           size)
{
  GpuCudaBlock *best = NULL;

  for (guint i = 0; i < context->blocks->len; i++)
    {
      GpuCudaBlock *block = g_ptr_array_index (context->blocks, i);

      if (block->size >= size && block->size / 4 <= MAX (size, GRANULE)
          && (best == NULL || block->size < best->size) && is_idle (block))
        best = block;
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

  for (guint i = context->blocks->len; i > 0; i--)
    {
      GpuCudaBlock *block = g_ptr_array_index (context->blocks, i - 1);

      if (!is_idle (block))
        continue;

      idle_size += block->size;
      if (idle_size > IDLE_SIZE_MAX)
        g_ptr_array_add (trimmed, g_ptr_array_steal_index_fast (context->blocks, i - 1));
    }

  return trimmed;
}

/* Caller has entered the context, and must not hold the lock of the context. */
static GpuCudaBlock *
block_new (GpuCudaContext  *context,
           gsize            size,
           GError         **error)
{
  GpuCudaBlock *block = g_new0 (GpuCudaBlock, 1);
  int numa_node = GPU_NUMA_NODE_DEVICE;

  block->context = context;
  block->size = (size + GRANULE - 1) / GRANULE * GRANULE;

  if (!_gpu_cuda_check (_gpu_cuda.cuEventCreate (&block->done, CU_EVENT_DISABLE_TIMING),
                        "cuEventCreate", error))
    {
      block_free (block);
      return NULL;
    }

  block->memory = _gpu_cuda_alloc_locked (context, CU_MEMHOSTALLOC_PORTABLE, &numa_node,
                                          block->size, error);

  if (block->memory == NULL)
    {
      block_free (block);
      return NULL;
    }

  block->data = block->memory->base.host;

  return block;
}

static GpuCudaBlock *
take_idle (GpuCudaContext  *context,
           gsize            size,
           GPtrArray      **trimmed)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&context->lock);
  GpuCudaBlock *block;

  if (context->blocks == NULL)
    context->blocks = g_ptr_array_new ();

  block = find_idle_locked (context, size);

  if (block != NULL)
    block->used = TRUE;
  else
    *trimmed = trim_locked (context);

  return block;
}

/* Caller has entered the context and must not hold its lock, because an allocation may block. */
static GpuCudaBlock *
add (GpuCudaContext  *context,
     gsize            size,
     GError         **error)
{
  GpuCudaBlock *block = block_new (context, size, error);

  if (block == NULL)
    return NULL;

  block->used = TRUE;
  g_mutex_lock (&context->lock);
  g_ptr_array_add (context->blocks, block);
  g_mutex_unlock (&context->lock);

  return block;
}

GpuCudaBlock *
_gpu_cuda_block_take (GpuCudaContext  *context,
                      gsize            size,
                      GError         **error)
{
  GPtrArray *trimmed = NULL;
  GpuCudaBlock *block = take_idle (context, size, &trimmed);

  if (block != NULL)
    return block;

  g_ptr_array_set_free_func (trimmed, (GDestroyNotify) block_free);
  g_ptr_array_unref (trimmed);

  return add (context, size, error);
}

void
_gpu_cuda_block_give_back (GpuCudaContext *context,
                           GpuCudaBlock   *block)
{
  g_mutex_lock (&context->lock);
  block->used = FALSE;
  g_mutex_unlock (&context->lock);
}

GpuCudaBlock *
_gpu_cuda_block_find (GpuCudaContext *context,
                      gpointer        data)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&context->lock);

  for (guint i = 0; context->blocks != NULL && i < context->blocks->len; i++)
    {
      GpuCudaBlock *block = g_ptr_array_index (context->blocks, i);

      if (block->used && block->data == data)
        return block;
    }

  return NULL;
}

/* Caller holds `lock` of the context. Returns the total size of the blocks of this kind that are in
 * use or that the device still reads. */
static gsize
get_pending_size_locked (GpuCudaContext *context)
{
  gsize total = 0;

  for (guint i = 0; i < context->blocks->len; i++)
    {
      GpuCudaBlock *block = g_ptr_array_index (context->blocks, i);

      if (block->size <= GPU_TRANSFER_MIN_ASYNC_WRITE && !is_idle (block))
        total += block->size;
    }

  return total;
}

GpuCudaBlock *
_gpu_cuda_block_take_for_write (GpuCudaContext *context,
                                gsize           size)
{
  gsize block_size = WRITE_SIZE_MIN;
  GpuCudaBlock *taken = NULL;
  gboolean may_add;

  while (block_size < size)
    block_size *= 2;

  g_mutex_lock (&context->lock);

  if (context->blocks == NULL)
    context->blocks = g_ptr_array_new ();

  for (guint i = 0; i < context->blocks->len && taken == NULL; i++)
    {
      GpuCudaBlock *block = g_ptr_array_index (context->blocks, i);

      if (block->size == block_size && is_idle (block))
        taken = block;
    }

  if (taken != NULL)
    taken->used = TRUE;

  may_add = taken == NULL
            && get_pending_size_locked (context) + block_size <= WRITE_TOTAL_MAX;
  g_mutex_unlock (&context->lock);

  return may_add ? add (context, block_size, NULL) : taken;
}

CUresult
_gpu_cuda_block_record (CUstream             stream,
                        const GpuCudaBlock  *block,
                        CUresult             code,
                        const char         **function)
{
  if (code == CUDA_SUCCESS)
    {
      *function = "cuEventRecord";
      code = _gpu_cuda.cuEventRecord (block->done, stream);
    }

  if (code != CUDA_SUCCESS)
    _gpu_cuda.cuStreamSynchronize (stream);

  return code;
}
