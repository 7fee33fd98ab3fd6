/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Limits of a pool, and trimming. */
#include "config.h"

#include "gpumem/pool/gpu-memory-pool-private.h"

/* @limit is a member of @pool->limits. */
guint64
_gpu_memory_pool_get_limit (GpuMemoryPool *pool,
                            guint64       *limit)
{
  guint64 value;

  g_mutex_lock (&pool->lock);
  value = *limit;
  g_mutex_unlock (&pool->lock);

  return value;
}

/* Applies the limits after unlocking: the core may call the program when it frees memory. */
static void
unlock_limits (GpuMemoryPool *pool,
               const char    *name,
               gboolean       changed)
{
  const GpuPoolLimits limits = pool->limits;

  g_mutex_unlock (&pool->lock);

  if (pool->core != NULL && changed)
    _gpu_pool_core_set_limits (pool->core, &limits);

  if (changed)
    g_object_notify (G_OBJECT (pool), name);
}

void
_gpu_memory_pool_set_limit (GpuMemoryPool *pool,
                            const char    *name,
                            guint64       *limit,
                            guint64        value)
{
  gboolean changed;

  g_mutex_lock (&pool->lock);
  changed = *limit != value;
  *limit = value;
  unlock_limits (pool, name, changed);
}

/**
 * gpu_memory_pool_set_limit:
 * @pool: a #GpuMemoryPool
 * @limit: size in bytes, 0 for no limit
 *
 * Sets how much memory the pool has from the driver at most. What it has already stays until it is
 * given back.
 *
 * Since: 0.1
 */
void
gpu_memory_pool_set_limit (GpuMemoryPool *pool,
                           guint64        limit)
{
  g_return_if_fail (GPU_IS_MEMORY_POOL (pool));

  _gpu_memory_pool_set_limit (pool, "limit", &pool->limits.limit, limit);
}

/**
 * gpu_memory_pool_set_fraction:
 * @pool: a #GpuMemoryPool
 * @fraction: a part of all memory of the device, more than 0 and at most 1
 * @error: return location for an error
 *
 * Sets #GpuMemoryPool:limit to a part of the memory of the device.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_INVALID_ARGUMENT for another @fraction
 *
 * Since: 0.1
 */
gboolean
gpu_memory_pool_set_fraction (GpuMemoryPool  *pool,
                              double          fraction,
                              GError        **error)
{
  const char *function = "gpu_memory_pool_set_fraction";

  g_return_val_if_fail (GPU_IS_MEMORY_POOL (pool), FALSE);

  if (!_gpu_memory_pool_check (pool, function, error))
    return FALSE;

  if (fraction > 0.0 && fraction <= 1.0)
    {
      guint64 total = pool->core->context->devices[0]->memory_size;

      gpu_memory_pool_set_limit (pool, MAX ((guint64) ((double) total * fraction), 1));
      return TRUE;
    }

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s: %g is no part of the memory of the device", function, fraction);

  return FALSE;
}

/**
 * gpu_memory_pool_set_fragmentation_target:
 * @pool: a #GpuMemoryPool
 * @target: a part, not less than 0
 * @error: return location for an error
 *
 * Sets the fragmentation target of an expandable pool: the memory that the pool may have beyond its
 * peak use, as a fraction of that peak. Beyond the target the pool moves free memory to where it is
 * needed instead of allocating more from the driver. A lower target saves memory and costs more
 * calls of the driver. Does not block; may be called from any thread.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_INVALID_ARGUMENT if @target is negative or not a
 *   number
 *
 * Since: 0.1
 */
gboolean
gpu_memory_pool_set_fragmentation_target (GpuMemoryPool  *pool,
                                          double          target,
                                          GError        **error)
{
  gboolean changed;

  g_return_val_if_fail (GPU_IS_MEMORY_POOL (pool), FALSE);
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);

  if (!(target >= 0.0))
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "gpu_memory_pool_set_fragmentation_target: the target must be 0 or more, not %g",
                   target);
      return FALSE;
    }

  g_mutex_lock (&pool->lock);
  changed = pool->limits.waste != target;
  pool->limits.waste = target;
  unlock_limits (pool, "fragmentation-target", changed);

  return TRUE;
}

/**
 * gpu_memory_pool_trim:
 * @pool: a #GpuMemoryPool
 * @managed_bytes: how much the pool may go on having, in use or not
 *
 * Gives memory that nobody uses, and whose last use is over, back to the driver, which may block,
 * until the pool has no more than @managed_bytes.
 *
 * Since: 0.1
 */
void
gpu_memory_pool_trim (GpuMemoryPool *pool,
                      guint64        managed_bytes)
{
  g_return_if_fail (GPU_IS_MEMORY_POOL (pool));

  if (pool->core != NULL)
    _gpu_pool_core_trim (pool->core, managed_bytes, FALSE);
}

/**
 * gpu_memory_pool_free_held:
 * @pool: a #GpuMemoryPool
 *
 * Gives all memory that nobody uses back to the driver. Blocks until the work that was submitted
 * before it was given back is over.
 *
 * Since: 0.1
 */
void
gpu_memory_pool_free_held (GpuMemoryPool *pool)
{
  g_return_if_fail (GPU_IS_MEMORY_POOL (pool));

  if (pool->core != NULL)
    _gpu_pool_core_trim (pool->core, 0, TRUE);
}

/**
 * gpu_memory_pool_stop_holding:
 * @pool: a #GpuMemoryPool
 *
 * Gives all memory that nobody uses back to the driver, as gpu_memory_pool_free_held() does, and
 * from now on whatever is given back as soon as no work uses it any more. There is no way back.
 *
 * Since: 0.1
 */
void
gpu_memory_pool_stop_holding (GpuMemoryPool *pool)
{
  g_return_if_fail (GPU_IS_MEMORY_POOL (pool));

  if (pool->core == NULL)
    return;

  _gpu_pool_core_stop_holding (pool->core);
  _gpu_pool_core_trim (pool->core, 0, TRUE);
}

/**
 * gpu_memory_pool_bin_number:
 * @pool: a #GpuMemoryPool
 * @size: size in bytes
 *
 * Computes in which bin memory of @size bytes is, by the leading bits of the pool. The numbers are
 * those of PyOpenCL and PyCUDA.
 *
 * Returns: the bin
 *
 * Since: 0.1
 */
guint
gpu_memory_pool_bin_number (GpuMemoryPool *pool,
                            gsize          size)
{
  g_return_val_if_fail (GPU_IS_MEMORY_POOL (pool), 0);

  return gpu_pool_bin_number (pool->leading_bits, size);
}

/**
 * gpu_memory_pool_alloc_size:
 * @pool: a #GpuMemoryPool
 * @bin: a bin, as of gpu_memory_pool_bin_number()
 *
 * Computes the size that memory in @bin has.
 *
 * Returns: the size in bytes; 0 if there is no such bin
 *
 * Since: 0.1
 */
gsize
gpu_memory_pool_alloc_size (GpuMemoryPool *pool,
                            guint          bin)
{
  g_return_val_if_fail (GPU_IS_MEMORY_POOL (pool), 0);

  return bin < (64u << pool->leading_bits) ? gpu_pool_bin_size (pool->leading_bits, bin) : 0;
}
