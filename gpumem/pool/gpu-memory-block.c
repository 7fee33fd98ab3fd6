/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/allocator/gpu-basic-allocator.h"
#include "gpumem/base/gpu-attributes-private.h"
#include "gpumem/base/gpu-error-private.h"
#include "gpumem/pool/core/gpu-pool-cache.h"
#include "gpumem/pool/gpu-memory-pool-private.h"
#include "gpumem/stream/gpu-stream-private.h"

/**
 * SECTION:gpu-memory-block
 * @title: GpuMemoryBlock
 * @short_description: memory of a pool, as an address and a size
 * @see_also: #GpuMemoryPool
 */

/**
 * GpuMemoryBlock:
 *
 * An allocation of a #GpuMemoryPool, as an address and a size.
 *
 * |[<!-- language="C" -->
 * GpuMemoryBlock *block = gpu_memory_pool_alloc_block (pool, size, stream, &error);
 *
 * if (block != NULL)
 *   {
 *     g_print ("%" G_GSIZE_FORMAT " bytes at 0x%" G_GINT64_MODIFIER "x\n",
 *              gpu_memory_block_get_size (block), gpu_memory_block_get_address (block));
 *     gpu_memory_pool_free_block (pool, block, stream, NULL);
 *   }
 * ]|
 *
 * Blocks are the fastest way to allocate memory from a pool, because the pool creates no object for
 * a block. Pass the address of a block to a kernel as a 64-bit integer, or to the functions of the
 * driver.
 *
 * The library does not track the work that uses a block. Use a block only on the stream that it was
 * allocated on, on streams that wait for that stream, and on streams registered with
 * gpu_memory_block_add_stream().
 *
 * The memory of a block remains valid when the pool is finalized.
 *
 * Since: 0.1
 */

G_DEFINE_BOXED_TYPE (GpuMemoryBlock, gpu_memory_block, gpu_memory_block_ref,
                     gpu_memory_block_unref)

/* Additional state of a block with several references, or with several streams. Most blocks need no
 * such state. The owner's flag of a block is TRUE if the block has this state. */
typedef struct
{
  guint      refs;                  /* references beyond the first */
  GPtrArray *timelines;             /* other streams that use the block, or NULL */
  gboolean   used_on_alloc_stream;  /* whether a reference was dropped with the allocation stream as
                                     * the stream that used the block */
} Extra;

static void
extra_free (gpointer data)
{
  Extra *extra = data;

  g_clear_pointer (&extra->timelines, g_ptr_array_unref);
  g_free (extra);
}

static Extra *
get_extra_locked (GpuPoolCore    *core,
                  GpuMemoryBlock *block)
{
  Extra *extra;

  if (core->extras == NULL)
    core->extras = g_hash_table_new_full (NULL, NULL, NULL, extra_free);

  extra = g_hash_table_lookup (core->extras, block);

  if (extra == NULL)
    {
      extra = g_new0 (Extra, 1);
      g_hash_table_insert (core->extras, block, extra);
      _gpu_pool_block_set_owner_flag (block, TRUE);
    }

  return extra;
}

static void
add_timeline (Extra       *extra,
              GpuTimeline *timeline)
{
  if (extra->timelines == NULL)
    extra->timelines = g_ptr_array_new_with_free_func ((GDestroyNotify) _gpu_timeline_unref);

  g_atomic_int_set (&timeline->is_pooled, TRUE);

  if (!g_ptr_array_find (extra->timelines, timeline, NULL))
    g_ptr_array_add (extra->timelines, _gpu_timeline_ref (timeline));
}

/* Drops a reference to @block. @timeline is the last user of the block, or NULL for the allocation
 * stream. If references remain, registers that user and returns NULL. If this was the last
 * reference, returns (transfer full) all users except the allocation stream, and sets
 * @used_on_alloc_stream to whether the allocation stream is a user. */
static GPtrArray *
drop_reference (GpuPoolCore    *core,
                GpuMemoryBlock *block,
                GpuTimeline    *timeline,
                gboolean       *used_on_alloc_stream)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&core->lock);
  Extra *extra = get_extra_locked (core, block);
  GPtrArray *timelines;

  if (extra->refs > 0)
    {
      extra->refs--;

      if (timeline != NULL)
        add_timeline (extra, timeline);
      else
        extra->used_on_alloc_stream = TRUE;

      return NULL;
    }

  *used_on_alloc_stream = extra->used_on_alloc_stream || timeline == NULL;
  timelines = extra->timelines != NULL
                ? g_steal_pointer (&extra->timelines)
                : g_ptr_array_new_with_free_func ((GDestroyNotify) _gpu_timeline_unref);
  _gpu_pool_block_set_owner_flag (block, FALSE);
  g_hash_table_remove (core->extras, block);

  if (timeline != NULL)
    g_ptr_array_add (timelines, _gpu_timeline_ref (timeline));

  return timelines;
}

/* Call this before the release: after the release another thread may own the block. */
static GPU_COLD void
record_release (GpuPoolCore    *core,
                GpuMemoryBlock *block,
                gpointer        key)
{
  g_autoptr (GpuTimeline) alloc_timeline = NULL;

  if (key == NULL)
    key = alloc_timeline = _gpu_pool_block_ref_alloc_stream (block);

  _gpu_pool_core_record (core, GPU_POOL_RELEASE, _gpu_pool_block_get_address (block),
                         _gpu_pool_block_get_size (block), key);
}

/* Drops a reference to a block that has an Extra structure. @key is the stream that used the block
 * last, or NULL for the allocation stream. */
static GPU_COLD void
release_with_extra (GpuPoolCore    *core,
                    GpuMemoryBlock *block,
                    gpointer        key)
{
  gboolean used_on_alloc_stream;
  g_autoptr (GPtrArray) timelines = drop_reference (core, block, key, &used_on_alloc_stream);
  gpointer alloc_timeline = NULL;

  if (timelines == NULL)
    return;

  if (gpu_pool_core_records (core))
    record_release (core, block, key);

  if (used_on_alloc_stream)
    alloc_timeline = _gpu_pool_block_ref_alloc_stream (block);

  if (alloc_timeline != NULL)
    g_ptr_array_add (timelines, alloc_timeline);

  if (timelines->len > 0)
    _gpu_pool_release_all (block, timelines->pdata, timelines->len);
  else
    _gpu_pool_release_on_alloc_stream (block);
}

static void
release_held (GpuPoolCore    *core,
              GpuMemoryBlock *block,
              gpointer        key)
{
  if (_gpu_pool_block_get_owner_flag (block))
    {
      release_with_extra (core, block, key);
      return;
    }

  if (gpu_pool_core_records (core))
    record_release (core, block, key);

  if (key != NULL)
    _gpu_pool_release (block, key);
  else
    _gpu_pool_release_on_alloc_stream (block);
}

/* Releases a block of a pool that keeps no freed memory. The memory is freed when the pending work
 * on the block has completed. */
static void
release_stopped (GpuPoolCore    *core,
                 GpuMemoryBlock *block,
                 gpointer        key)
{
  g_autoptr (GpuTimeline) timeline = NULL;

  timeline = key != NULL ? _gpu_timeline_ref (key) : _gpu_pool_block_ref_alloc_stream (block);
  _gpu_pool_core_ref (core);
  release_held (core, block, key);

  if (timeline != NULL)
    _gpu_pool_core_release_excess_after (core, timeline);
  else
    _gpu_pool_core_unref (core);
}

GPU_APART void
_gpu_memory_block_release (GpuMemoryBlock *block,
                           GpuTimeline    *timeline)
{
  GpuPoolCore *core = _gpu_pool_get_owner (_gpu_pool_block_get_pool (block));

  if (((guint) g_atomic_int_get (&core->modes) & GPU_POOL_STOPPED) != 0)
    release_stopped (core, block, timeline);
  else
    release_held (core, block, timeline);
}

/**
 * gpu_memory_block_ref:
 * @block: a #GpuMemoryBlock
 *
 * Adds a reference to the block.
 *
 * Returns: (transfer full): @block
 *
 * Since: 0.1
 */
GpuMemoryBlock *
gpu_memory_block_ref (GpuMemoryBlock *block)
{
  GpuPoolCore *core;

  g_return_val_if_fail (block != NULL, NULL);

  core = _gpu_pool_get_owner (_gpu_pool_block_get_pool (block));
  g_mutex_lock (&core->lock);
  get_extra_locked (core, block)->refs++;
  g_mutex_unlock (&core->lock);

  return block;
}

/**
 * gpu_memory_block_unref:
 * @block: (transfer full): a #GpuMemoryBlock
 *
 * Drops a reference. Dropping the last reference frees the block on the stream that it was
 * allocated on, like gpu_memory_pool_free_block() with that stream. May be called from any thread.
 * Does not block.
 *
 * Since: 0.1
 */
void
gpu_memory_block_unref (GpuMemoryBlock *block)
{
  g_return_if_fail (block != NULL);

  _gpu_memory_block_release (block, NULL);
}

/**
 * gpu_memory_block_get_address:
 * @block: a #GpuMemoryBlock
 *
 * Gets the device address of the block. If gpu_memory_get_device_address() returns 0 for buffers of
 * the pool, the result is not an address for kernels, but a number that identifies the block.
 *
 * Returns: the device address
 *
 * Since: 0.1
 */
guint64
gpu_memory_block_get_address (const GpuMemoryBlock *block)
{
  g_return_val_if_fail (block != NULL, 0);

  return _gpu_pool_block_get_address (block);
}

/**
 * gpu_memory_block_get_size:
 * @block: a #GpuMemoryBlock
 *
 * Gets the requested size of the block.
 *
 * Returns: the size in bytes
 *
 * Since: 0.1
 */
gsize
gpu_memory_block_get_size (const GpuMemoryBlock *block)
{
  g_return_val_if_fail (block != NULL, 0);

  return _gpu_pool_block_get_size (block);
}

/**
 * gpu_memory_block_add_stream:
 * @block: a #GpuMemoryBlock
 * @stream: a #GpuStream of the context of the pool
 * @error: return location for an error
 *
 * Registers @stream as a user of the block. The block may be freed while work on @stream is
 * pending. Its memory is then reused only by requests that are ordered after that work. Does not
 * block; may be called from any thread.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_INVALID_ARGUMENT if @stream is of another context or
 *   was never initialised
 *
 * Since: 0.1
 */
gboolean
gpu_memory_block_add_stream (GpuMemoryBlock  *block,
                             GpuStream       *stream,
                             GError         **error)
{
  GpuTimeline *timeline;
  GpuPoolCore *core;
  Extra *extra;

  g_return_val_if_fail (block != NULL, FALSE);
  g_return_val_if_fail (GPU_IS_STREAM (stream), FALSE);
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);

  timeline = stream->timeline;
  core = _gpu_pool_get_owner (_gpu_pool_block_get_pool (block));

  if (timeline == NULL)
    {
      g_set_error_literal (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                           "gpu_memory_block_add_stream: the stream was never initialised");
      return FALSE;
    }

  if (timeline->context != core->context)
    return _gpu_native_context_set_mismatch ("gpu_memory_block_add_stream", "the block",
                                             core->context, timeline->context, error);

  g_mutex_lock (&core->lock);
  extra = get_extra_locked (core, block);

  add_timeline (extra, timeline);
  g_mutex_unlock (&core->lock);

  return TRUE;
}

/* Fast path: returns the timeline of @stream, or NULL if the request needs the checks of
 * _gpu_memory_pool_get_timeline(). The pool must be initialised. */
static inline GpuTimeline *
get_usual_timeline (GpuMemoryPool *pool,
                    GpuStream     *stream)
{
  GpuTimeline *timeline;

  if (G_UNLIKELY (!_gpu_has_class (stream, _gpu_stream_class)))
    return NULL;

  timeline = stream->timeline;

  return G_LIKELY (timeline != NULL) && G_LIKELY (timeline->context == pool->core->context)
         ? timeline : NULL;
}

/* Fast path: returns the timeline of @stream, or NULL if the request needs the checks of
 * get_key(). */
static inline GpuTimeline *
get_usual_key (GpuMemoryPool *pool,
               GpuStream     *stream)
{
  GpuTimeline *timeline;

  if (G_UNLIKELY (pool->blocks == NULL))
    return NULL;

  timeline = get_usual_timeline (pool, stream);

  return G_LIKELY (timeline != NULL)
         && G_LIKELY ((timeline->flags & GPU_STREAM_FLAGS_OUT_OF_ORDER) == 0) ? timeline : NULL;
}

/* On an out-of-order stream, submits a barrier before the block is allocated. Without the barrier,
 * work that uses the block could run before earlier work that used the same memory. */
static GPU_COLD gboolean
get_key (GpuMemoryPool  *pool,
         GpuStream      *stream,
         const char     *function,
         GpuTimeline   **timeline,
         GError        **error)
{
  if (!_gpu_memory_pool_check (pool, function, error))
    return FALSE;

  if (G_UNLIKELY (pool->blocks == NULL))
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                   "%s: memory of this pool has no device addresses; use "
                   "gpu_memory_pool_alloc_buffer()", function);
      return FALSE;
    }

  *timeline = _gpu_memory_pool_get_timeline (pool, stream, function, error);

  if (*timeline == NULL)
    return FALSE;

  return G_LIKELY (((*timeline)->flags & GPU_STREAM_FLAGS_OUT_OF_ORDER) == 0)
         || _gpu_pool_timeline_add_barrier (*timeline, function, error);
}

/* Allocates a block that is not in the cache of this thread. @timeline is NULL if alloc_block() has
 * not searched the cache. */
static GPU_APART GpuMemoryBlock *
alloc_block_slowly (GpuMemoryPool  *pool,
                    gsize           size,
                    GpuStream      *stream,
                    GpuTimeline    *timeline,
                    const char     *function,
                    GError        **error)
{
  GpuMemoryBlock *block;

  if (G_LIKELY (timeline != NULL) && G_LIKELY (size > 0))
    block = _gpu_pool_alloc_uncached (pool->blocks, size, 0, timeline, error);
  else
    {
      if (G_UNLIKELY (!_gpu_is_memory_pool (pool)))
        {
          g_return_if_fail_warning (G_LOG_DOMAIN, function, "GPU_IS_MEMORY_POOL (pool)");
          return NULL;
        }

      if (!get_key (pool, stream, function, &timeline, error) || size == 0)
        return NULL;

      block = _gpu_pool_core_alloc (pool->core, size, 0, timeline, error);
    }

  if (G_UNLIKELY (block == NULL))
    g_prefix_error (error, "%s: ", function);

  return block;
}

/* The part that is inlined calls no function, so it saves few registers. */
G_ALWAYS_INLINE static inline GpuMemoryBlock *
alloc_block (GpuMemoryPool  *pool,
             gsize           size,
             GpuStream      *stream,
             const char     *function,
             GError        **error)
{
  GpuTimeline *timeline = NULL;

  if (G_LIKELY (_gpu_has_class (pool, _gpu_memory_pool_class))
      && G_LIKELY ((timeline = get_usual_key (pool, stream)) != NULL))
    {
      GpuMemoryBlock *block;

      if (G_UNLIKELY (gpu_pool_core_records (pool->core)))
        timeline = NULL;
      else if (G_LIKELY ((block = gpu_pool_alloc_cached (pool->blocks, size, timeline)) != NULL))
        return block;
    }

  return alloc_block_slowly (pool, size, stream, timeline, function, error);
}

GPU_HOT GpuMemoryBlock *
_gpu_memory_pool_alloc_block (GpuMemoryPool  *pool,
                              gsize           size,
                              GpuStream      *stream,
                              const char     *function,
                              GError        **error)
{
  return alloc_block (pool, size, stream, function, error);
}

/**
 * gpu_memory_pool_alloc_block:
 * @pool: a #GpuMemoryPool
 * @size: size in bytes
 * @stream: (nullable): the stream that uses the block first, %NULL for the default stream
 * @error: return location for an error
 *
 * Allocates a block with undefined content. Work submitted to @stream from now on may use it.
 *
 * If a suitable block was freed on @stream before, the function calls no driver function. If the
 * pool takes memory that was freed on another stream, @stream may have to wait for that stream
 * (CUDA: cuEventRecord and cuStreamWaitEvent). The function blocks only if all free memory has
 * pending uses, or while the driver allocates more memory.
 *
 * If memory runs out, the pool frees all its unused memory and emits #GpuMemoryPool::out-of-memory
 * and #GpuContext::memory-pressure.
 *
 * Returns: (transfer full) (nullable): the block; %NULL with no error for a @size of 0; or %NULL
 *   with %GPU_ERROR_OUT_OF_DEVICE_MEMORY, also at the limit of a pool of page-locked memory,
 *   %GPU_ERROR_OUT_OF_HOST_MEMORY if the host has too little memory, %GPU_ERROR_NOT_SUPPORTED if
 *   memory of the pool has no addresses, or if more than 65,535 streams use the pool,
 *   %GPU_ERROR_INVALID_ARGUMENT if @stream belongs to another context, or the driver's error
 *
 * Since: 0.1
 */
GPU_HOT GpuMemoryBlock *
gpu_memory_pool_alloc_block (GpuMemoryPool  *pool,
                             gsize           size,
                             GpuStream      *stream,
                             GError        **error)
{
  return alloc_block (pool, size, stream, "gpu_memory_pool_alloc_block", error);
}

/**
 * gpu_memory_pool_alloc_block_aligned:
 * @pool: a #GpuMemoryPool
 * @size: size in bytes
 * @alignment: the alignment of the address in bytes, a power of two; 0 for the default alignment,
 *   which is at least 512
 * @stream: (nullable): the stream that uses the block first, %NULL for the default stream
 * @error: return location for an error
 *
 * Like gpu_memory_pool_alloc_block(), but allocates a block whose address is a multiple of
 * @alignment.
 *
 * Returns: (transfer full) (nullable): the block, %NULL with no error for a @size of 0, or %NULL
 *   with %GPU_ERROR_INVALID_ARGUMENT if @alignment is not a power of two, or with an error of
 *   gpu_memory_pool_alloc_block()
 *
 * Since: 0.1
 */
GpuMemoryBlock *
gpu_memory_pool_alloc_block_aligned (GpuMemoryPool  *pool,
                                     gsize           size,
                                     gsize           alignment,
                                     GpuStream      *stream,
                                     GError        **error)
{
  const char *function = "gpu_memory_pool_alloc_block_aligned";
  GpuMemoryBlock *block;
  GpuTimeline *timeline;

  g_return_val_if_fail (GPU_IS_MEMORY_POOL (pool), NULL);

  if ((alignment & (alignment - 1)) != 0)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "%s: the alignment %" G_GSIZE_FORMAT " is not a power of two", function,
                   alignment);
      return NULL;
    }

  if (!get_key (pool, stream, function, &timeline, error) || size == 0)
    return NULL;

  block = _gpu_pool_core_alloc (pool->core, size, alignment, timeline, error);

  if (block == NULL)
    g_prefix_error (error, "%s: alignment of %" G_GSIZE_FORMAT " bytes: ", function, alignment);

  return block;
}

/* Records the allocated blocks in the history. If the request failed, records one event with the
 * sum of its sizes. */
static GPU_COLD void
record_blocks (GpuPoolCore            *core,
               const gsize            *sizes,
               guint                   n_blocks,
               GpuTimeline            *timeline,
               GpuMemoryBlock *const  *blocks,
               const GError           *failure)
{
  gsize total = 0;

  for (guint i = 0; i < n_blocks; i++)
    {
      total = sizes[i] <= G_MAXSIZE - total ? total + sizes[i] : G_MAXSIZE;

      if (blocks[i] != NULL)
        _gpu_pool_core_record (core, GPU_POOL_ALLOC, gpu_memory_block_get_address (blocks[i]),
                               sizes[i], timeline);
    }

  if (_gpu_error_is_out_of_memory (failure))
    _gpu_pool_core_record (core, GPU_POOL_OUT_OF_MEMORY, 0, total, timeline);
}

static gboolean
alloc_blocks (GpuMemoryPool   *pool,
              const gsize     *sizes,
              guint            n_blocks,
              GpuStream       *stream,
              GpuMemoryBlock **blocks,
              GError         **error)
{
  const char *function = "gpu_memory_pool_alloc_blocks";
  GError *failure = NULL;
  GpuTimeline *timeline;

  if (!get_key (pool, stream, function, &timeline, error))
    return FALSE;

  _gpu_pool_alloc_n (pool->blocks, sizes, n_blocks, timeline, blocks, &failure);

  if (gpu_pool_core_records (pool->core))
    record_blocks (pool->core, sizes, n_blocks, timeline, blocks, failure);

  if (failure == NULL)
    return TRUE;

  g_propagate_prefixed_error (error, failure, "%s: ", function);

  return FALSE;
}

/**
 * gpu_memory_pool_alloc_blocks:
 * @pool: a #GpuMemoryPool
 * @sizes: (array length=n_blocks): sizes in bytes, none of them 0
 * @n_blocks: the number of blocks
 * @stream: (nullable): the stream that uses the blocks first, %NULL for the default stream
 * @error: return location for an error
 *
 * Allocates several blocks in one call, which is faster than one call for each block. On failure,
 * no block is allocated.
 *
 * Returns: (transfer container) (element-type GpuMemoryBlock): the blocks, which the array unrefs
 *   when it is freed, or %NULL with %GPU_ERROR_INVALID_ARGUMENT for a size of 0 and for more than
 *   %G_MAXINT blocks, or with an error of gpu_memory_pool_alloc_block()
 *
 * Since: 0.1
 */
GPtrArray *
gpu_memory_pool_alloc_blocks (GpuMemoryPool  *pool,
                              const gsize    *sizes,
                              guint           n_blocks,
                              GpuStream      *stream,
                              GError        **error)
{
  g_autoptr (GPtrArray) blocks = NULL;

  g_return_val_if_fail (GPU_IS_MEMORY_POOL (pool), NULL);
  g_return_val_if_fail (n_blocks == 0 || sizes != NULL, NULL);

  /* g_ptr_array_set_size() takes an int. */
  if (n_blocks > G_MAXINT)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "gpu_memory_pool_alloc_blocks: %u blocks exceed the limit of %d for one call; "
                   "allocate them with several calls", n_blocks, G_MAXINT);
      return NULL;
    }

  for (guint i = 0; i < n_blocks; i++)
    {
      if (sizes[i] != 0)
        continue;

      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "gpu_memory_pool_alloc_blocks: size %u of %u is 0", i, n_blocks);
      return NULL;
    }

  blocks = g_ptr_array_new_with_free_func ((GDestroyNotify) gpu_memory_block_unref);
  g_ptr_array_set_size (blocks, (int) n_blocks);

  if (alloc_blocks (pool, sizes, n_blocks, stream, (GpuMemoryBlock **) blocks->pdata, error))
    return g_steal_pointer (&blocks);

  g_ptr_array_set_free_func (blocks, NULL);

  return NULL;
}

/* Returns whether @block can be freed in @pool, for free_blocks(), which reports no error. */
static GPU_APART gboolean
check_free (GpuMemoryPool        *pool,
            const GpuMemoryBlock *block,
            GpuStream            *stream)
{
  g_return_val_if_fail (pool->core != NULL
                        && _gpu_pool_block_get_pool (block) == pool->blocks, FALSE);
  g_return_val_if_fail (stream == NULL || (GPU_IS_STREAM (stream) && stream->timeline != NULL
                                           && stream->timeline->context == pool->core->context),
                        FALSE);

  return TRUE;
}

/* Like check_free(), but reports an error. */
static GPU_APART gboolean
check_free_block (GpuMemoryPool         *pool,
                  const GpuMemoryBlock  *block,
                  GpuStream             *stream,
                  GError               **error)
{
  GpuPoolCore *core = _gpu_pool_get_owner (_gpu_pool_block_get_pool (block));

  if (core != pool->core)
    {
      g_autoptr (GpuMemoryPool) owner = g_weak_ref_get (core->owner);

      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "gpu_memory_pool_free_block: the block of %" G_GSIZE_FORMAT " bytes at 0x%"
                   G_GINT64_MODIFIER "x is of %s (%p), not of the pool at %p",
                   gpu_memory_block_get_size (block), gpu_memory_block_get_address (block),
                   owner != NULL ? "another pool" : "a pool that is disposed of",
                   (gpointer) owner, (gpointer) pool);
      return FALSE;
    }

  if (stream != NULL && stream->timeline == NULL)
    {
      g_set_error_literal (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                           "gpu_memory_pool_free_block: the stream was never initialised");
      return FALSE;
    }

  if (stream != NULL && stream->timeline->context != core->context)
    return _gpu_native_context_set_mismatch ("gpu_memory_pool_free_block", "the block",
                                             core->context, stream->timeline->context, error);

  return TRUE;
}

/* Frees a block that does not go to the cache of this thread. @timeline is NULL unless the cache
 * has no room for the block. */
static GPU_APART gboolean
free_block_slowly (GpuMemoryPool   *pool,
                   GpuMemoryBlock  *block,
                   GpuStream       *stream,
                   GpuTimeline     *timeline,
                   GError         **error)
{
  if (G_LIKELY (timeline != NULL))
    {
      _gpu_pool_release_uncached (pool->blocks, block, timeline);
      return TRUE;
    }

  if (G_UNLIKELY (!_gpu_is_memory_pool (pool)))
    {
      g_return_if_fail_warning (G_LOG_DOMAIN, "gpu_memory_pool_free_block",
                                "GPU_IS_MEMORY_POOL (pool)");
      return FALSE;
    }

  if (block == NULL)
    return TRUE;

  if (G_LIKELY (check_free_block (pool, block, stream, error)))
    {
      _gpu_memory_block_release (block, stream != NULL ? stream->timeline : NULL);
      return TRUE;
    }

  _gpu_memory_block_release (block, NULL);

  return FALSE;
}

/**
 * gpu_memory_pool_free_block:
 * @pool: a #GpuMemoryPool
 * @block: (transfer full) (nullable): a block of @pool, or %NULL
 * @stream: (nullable): the stream that used the block last; %NULL for the stream on which the block
 *   was allocated
 * @error: return location for an error
 *
 * Drops a reference to @block, like gpu_memory_block_unref(). Dropping the last reference frees the
 * block. Its memory is then reused only by requests that are ordered after all work submitted to
 * @stream so far. If references remain, the call registers @stream as a user of the block, as
 * gpu_memory_block_add_stream() does. If the call fails, it drops the reference like
 * gpu_memory_block_unref(). The call does not block.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_INVALID_ARGUMENT if @block is of another pool, or if
 *   @stream is of another context or was never initialised
 *
 * Since: 0.1
 */
GPU_HOT gboolean
gpu_memory_pool_free_block (GpuMemoryPool   *pool,
                            GpuMemoryBlock  *block,
                            GpuStream       *stream,
                            GError         **error)
{
  GpuTimeline *timeline = NULL;

  if (G_LIKELY (_gpu_has_class (pool, _gpu_memory_pool_class)) && G_LIKELY (block != NULL)
      && G_LIKELY ((timeline = get_usual_key (pool, stream)) != NULL))
    {
      if (G_UNLIKELY (gpu_pool_node_pool (block) != pool->blocks)
          || G_UNLIKELY (gpu_pool_node_flag (block))
          || G_UNLIKELY (g_atomic_int_get (&pool->core->modes) != 0))
        timeline = NULL;
      else if (G_LIKELY (gpu_pool_release_cached (pool->blocks, block, timeline)))
        return TRUE;
    }

  return free_block_slowly (pool, block, stream, timeline, error);
}

/**
 * gpu_memory_pool_free_blocks: (skip)
 * @pool: a #GpuMemoryPool
 * @blocks: (array length=n_blocks) (transfer full): blocks of @pool, or %NULL
 * @n_blocks: the number of blocks
 * @stream: (nullable): the stream that used the blocks last; %NULL to free each block on the stream
 *   that it was allocated on
 *
 * Frees several blocks. Faster than one call of gpu_memory_pool_free_block() for each block.
 *
 * Since: 0.1
 */
void
gpu_memory_pool_free_blocks (GpuMemoryPool   *pool,
                             GpuMemoryBlock **blocks,
                             guint            n_blocks,
                             GpuStream       *stream)
{
  gboolean is_quick;
  guint begin = 0;

  g_return_if_fail (GPU_IS_MEMORY_POOL (pool));
  g_return_if_fail (n_blocks == 0 || blocks != NULL);

  is_quick = stream != NULL && pool->core != NULL && g_atomic_int_get (&pool->core->modes) == 0;

  for (guint i = 0; i <= n_blocks; i++)
    {
      if (i < n_blocks && is_quick && blocks[i] != NULL
          && !_gpu_pool_block_get_owner_flag (blocks[i]) && check_free (pool, blocks[i], stream))
        continue;

      if (i > begin)
        _gpu_pool_release_n (blocks + begin, i - begin, stream->timeline);

      if (i < n_blocks)
        {
          if (blocks[i] == NULL || check_free (pool, blocks[i], stream))
            gpu_memory_pool_free_block (pool, blocks[i], stream, NULL);
        }

      begin = i + 1;
    }
}

/* With @is_svm, allocates a GpuSvm. Buffers, too, have the alignment of the pool's GpuSvmAllocator,
 * because another pool may allocate a GpuSvm from a buffer. */
static GpuMemory *
alloc_memory (GpuMemoryPool  *pool,
              gsize           size,
              GpuStream      *stream,
              gboolean        is_svm,
              const char     *function,
              GError        **error)
{
  GpuPoolCore *core = pool->core;
  GpuTimeline *timeline = get_usual_timeline (pool, stream);
  gsize alignment = core->svm != NULL ? _gpu_svm_allocator_get_alignment (core->svm) : 0;
  GpuPoolSuballocation suballocation;
  GpuMemory *memory;

  if (G_UNLIKELY (timeline == NULL))
    timeline = _gpu_memory_pool_get_timeline (pool, stream, function, error);
  if (G_UNLIKELY (timeline == NULL) || G_UNLIKELY (size == 0))
    return NULL;

  suballocation = _gpu_pool_core_alloc (core, size, alignment, timeline, error);

  memory = suballocation != NULL
           ? _gpu_pool_core_new_memory (core, pool->context, is_svm, suballocation, timeline, error)
           : NULL;

  if (G_UNLIKELY (memory == NULL))
    g_prefix_error (error, "%s: ", function);

  return memory;
}

/**
 * gpu_memory_pool_alloc_buffer:
 * @pool: a #GpuMemoryPool
 * @size: size in bytes
 * @stream: (nullable): the stream that uses the buffer first, %NULL for the default stream
 * @error: return location for an error
 *
 * Allocates a buffer with undefined content. All streams of the context may use the buffer. The
 * library orders uses of the buffer on different streams, as for any other memory. The memory
 * returns to the pool when the last reference to the buffer is dropped, or when the buffer is
 * released. The stream that used the memory last may reuse it at once. Before any other stream
 * reuses the memory, the last use must have completed, or the pool makes the other stream wait for
 * it.
 *
 * If memory runs out, the pool frees all its unused memory and emits #GpuMemoryPool::out-of-memory
 * and #GpuContext::memory-pressure. Blocks in the same cases as gpu_memory_pool_alloc_block().
 *
 * Returns: (transfer full) (nullable): the buffer; %NULL with no error for a @size of 0; or %NULL
 *   with %GPU_ERROR_OUT_OF_DEVICE_MEMORY, also at the limit of a pool of page-locked memory,
 *   %GPU_ERROR_OUT_OF_HOST_MEMORY if the host has too little memory, %GPU_ERROR_INVALID_ARGUMENT if
 *   @stream belongs to another context, or the driver's error
 *
 * Since: 0.1
 */
GpuBuffer *
gpu_memory_pool_alloc_buffer (GpuMemoryPool  *pool,
                              gsize           size,
                              GpuStream      *stream,
                              GError        **error)
{
  const char *function = "gpu_memory_pool_alloc_buffer";

  g_return_val_if_fail (GPU_IS_MEMORY_POOL (pool), NULL);

  if (G_UNLIKELY (!_gpu_memory_pool_check (pool, function, error)))
    return NULL;

  return (GpuBuffer *) alloc_memory (pool, size, stream, FALSE, function, error);
}

/**
 * gpu_memory_pool_alloc_svm:
 * @pool: a #GpuMemoryPool whose memory comes from a #GpuSvmAllocator
 * @size: size in bytes
 * @stream: (nullable): the stream that uses the memory first, %NULL for the default stream
 * @error: return location for an error
 *
 * Allocates shared virtual memory with undefined content. The rules of
 * gpu_memory_pool_alloc_buffer() for streams apply. Host and device use the same address. The
 * #GpuSvmAllocator of the pool determines the alignment and the granularity. Blocks in the same
 * cases as gpu_memory_pool_alloc_block().
 *
 * The host may access coarse-grain memory only while the memory is mapped. The host may access
 * fine-grain memory once earlier work that used the same memory has completed:
 * gpu_stream_synchronize() with @stream waits for such work.
 *
 * Advice of gpu_svm_advise() remains in effect when the memory is freed and reused.
 *
 * Returns: (transfer full) (nullable): the memory; %NULL with no error for a @size of 0; or %NULL
 *   with %GPU_ERROR_NOT_SUPPORTED if the memory of the pool does not come from a #GpuSvmAllocator,
 *   or if the memory cannot be divided as #GpuMemoryPool:kind requires; or %NULL with an error of
 *   gpu_memory_pool_alloc_buffer()
 *
 * Since: 0.1
 */
GpuSvm *
gpu_memory_pool_alloc_svm (GpuMemoryPool  *pool,
                           gsize           size,
                           GpuStream      *stream,
                           GError        **error)
{
  const char *function = "gpu_memory_pool_alloc_svm";

  g_return_val_if_fail (GPU_IS_MEMORY_POOL (pool), NULL);

  if (!_gpu_memory_pool_check (pool, function, error))
    return NULL;

  if (pool->core->svm != NULL)
    return (GpuSvm *) alloc_memory (pool, size, stream, TRUE, function, error);

  g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
               "%s: the memory of the pool comes from %s, not from a GpuSvmAllocator", function,
               pool->allocator != NULL ? G_OBJECT_TYPE_NAME (pool->allocator) : "the driver");

  return NULL;
}
