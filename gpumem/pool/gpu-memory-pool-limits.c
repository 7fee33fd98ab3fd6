/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Limits of a pool, and trimming. */
#include "config.h"

#include "gpumem/pool/gpu-memory-pool-private.h"

/* Reads @limit, a member of `pool->limits`, under the lock. */
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

/* Called with the lock of the pool after a change. Unlocks the pool before it applies the limits,
 * because the core may then free memory and call code of the program. Another thread may apply
 * newer limits first, so repeats this until it has applied the newest. */
static void
apply_and_unlock (GpuMemoryPool *pool)
{
  guint n_changes;

  pool->n_limit_changes++;

  do
    {
      const GpuPoolLimits limits = pool->limits;

      n_changes = pool->n_limit_changes;
      g_mutex_unlock (&pool->lock);

      if (pool->core != NULL)
        _gpu_pool_core_set_limits (pool->core, &limits);

      g_mutex_lock (&pool->lock);
    }
  while (n_changes != pool->n_limit_changes);

  g_mutex_unlock (&pool->lock);
}

static void
unlock_limits (GpuMemoryPool *pool,
               const char    *name,
               gboolean       changed)
{
  if (!changed)
    {
      g_mutex_unlock (&pool->lock);
      return;
    }

  apply_and_unlock (pool);
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
 * Sets #GpuMemoryPool:limit, the maximum number of bytes that the pool holds from the driver or its
 * allocator. If the pool already holds more, this call frees no memory, and a pool without bins
 * still serves requests from it. gpu_memory_pool_free_held() frees the memory without blocks.
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
 * @fraction: a fraction of the memory of the device, more than 0 and at most 1
 * @error: return location for an error
 *
 * Sets #GpuMemoryPool:limit to a fraction of the memory of the device.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_INVALID_ARGUMENT if @fraction is out of range or @pool
 *   was never initialised
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
               "%s: the fraction must be more than 0 and at most 1, not %g", function, fraction);

  return FALSE;
}

/**
 * gpu_memory_pool_set_fragmentation_target:
 * @pool: a #GpuMemoryPool
 * @target: a fraction, 0 or more
 * @error: return location for an error
 *
 * Sets the fragmentation target of an expandable pool: the memory that the pool may hold beyond its
 * peak use, as a fraction of that peak. If a request would exceed the target, the pool moves free
 * memory to other addresses, and does not allocate more from the driver. A lower target saves
 * memory and costs more driver calls. Does not block; may be called from any thread.
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
 * @managed_bytes: the number of bytes that the pool may keep, including memory in use
 *
 * Frees unused memory until the pool holds at most @managed_bytes. Keeps memory with pending uses.
 * May block in the driver.
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
 * Frees all unused memory. Blocks until the pending uses of that memory have completed.
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
 * Frees all unused memory, like gpu_memory_pool_free_held(). From now on the pool keeps no freed
 * memory: it returns memory when the last use of the memory has completed. The change is permanent.
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
 * gpu_memory_pool_reset_peaks:
 * @pool: a #GpuMemoryPool
 *
 * Sets #GpuMemoryPool:peak-active-bytes, #GpuMemoryPool:peak-used-bytes and
 * #GpuMemoryPool:peak-managed-bytes to the present values, so that a program can measure the peaks
 * of one phase. Decisions of the pool still depend on the earlier peaks. Does not block; may be
 * called from any thread.
 *
 * Since: 0.1
 */
void
gpu_memory_pool_reset_peaks (GpuMemoryPool *pool)
{
  g_return_if_fail (GPU_IS_MEMORY_POOL (pool));

  if (pool->core != NULL)
    _gpu_pool_core_reset_peaks (pool->core);
}

/**
 * gpu_memory_pool_bin_number:
 * @pool: a #GpuMemoryPool
 * @size: size in bytes
 *
 * Computes the number of the bin for @size bytes, according to #GpuMemoryPool:leading-bits.
 * PyOpenCL and PyCUDA number their bins in the same way.
 *
 * Returns: the number of the bin
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
 * @bin: the number of a bin, see gpu_memory_pool_bin_number()
 *
 * Computes the size of each allocation in @bin.
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
