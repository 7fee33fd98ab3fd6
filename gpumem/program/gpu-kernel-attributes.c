/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Attributes of kernels. The driver reports all of them, and lets a program set some. */
#include "config.h"

#include "gpumem/device/gpu-context-private.h"
#include "gpumem/program/gpu-kernel-private.h"

/* Returns (transfer none) the GpuKernelCore of @kernel, or NULL with an error if @kernel was never
 * initialised or its context is lost. */
static GpuKernelCore *
begin_call (GpuKernel   *kernel,
            const char  *function,
            GError     **error)
{
  GpuKernelCore *core = _gpu_kernel_get_core (kernel);

  if (core == NULL)
    g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                 "%s: the kernel was never initialised", function);
  else if (_gpu_context_check (_gpu_kernel_get_context (kernel), function, error))
    return core;

  return NULL;
}

/**
 * gpu_kernel_set_attribute:
 * @kernel: a #GpuKernel
 * @nick: the nick of an attribute, such as `max-dynamic-shared-size`
 * @value: the value
 * @error: return location for an error
 *
 * Sets an attribute of the kernel (CUDA: cuFuncSetAttribute). The value applies to all later
 * launches of this kernel of the program, even through other #GpuKernel objects. Does not block.
 *
 * - `max-dynamic-shared-size`: the limit of dynamic shared memory in bytes; the default is 48 KiB
 * - `preferred-shared-carveout`: the preferred percentage of the on-chip memory that is used as
 *   shared memory
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_NOT_SUPPORTED for an attribute that cannot be set (on
 *   OpenCL and the host, no attribute can be set), %GPU_ERROR_INVALID_ARGUMENT for an unknown @nick
 *   or a @value out of range, or the driver's error
 *
 * Since: 0.1
 */
gboolean
gpu_kernel_set_attribute (GpuKernel   *kernel,
                          const char  *nick,
                          gint64       value,
                          GError     **error)
{
  const char *function = "gpu_kernel_set_attribute";
  const GpuKernelOps *ops;
  GpuKernelCore *core;
  GError *failure = NULL;

  g_return_val_if_fail (GPU_IS_KERNEL (kernel), FALSE);
  g_return_val_if_fail (nick != NULL, FALSE);

  core = begin_call (kernel, function, error);

  if (core == NULL)
    return FALSE;

  ops = core->context->backend->kernel;

  if (ops->set_attribute == NULL)
    return _gpu_backend_fail (core->context->backend, function,
                              "kernel attributes that can be set", error);

  ops->set_attribute (core->context, core->kernel, nick, value, &failure);

  return _gpu_native_context_end (core->context, function, failure, error);
}

/**
 * gpu_kernel_set_cache_preference:
 * @kernel: a #GpuKernel
 * @preference: the preference; %GPU_CACHE_PREFERENCE_NONE for the preference of the context
 * @error: return location for an error
 *
 * Sets the preferred division of on-chip memory between L1 cache and shared memory while the kernel
 * runs (CUDA: cuFuncSetCacheConfig). The device may ignore the preference. Does not block.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_NOT_SUPPORTED on OpenCL and the host,
 *   %GPU_ERROR_INVALID_ARGUMENT for an unknown @preference, or the driver's error
 *
 * Since: 0.1
 */
gboolean
gpu_kernel_set_cache_preference (GpuKernel           *kernel,
                                 GpuCachePreference   preference,
                                 GError             **error)
{
  const char *function = "gpu_kernel_set_cache_preference";
  const GpuKernelOps *ops;
  GpuKernelCore *core;
  GError *failure = NULL;

  g_return_val_if_fail (GPU_IS_KERNEL (kernel), FALSE);

  core = begin_call (kernel, function, error);

  if (core == NULL || !_gpu_cache_preference_check (preference, function, error))
    return FALSE;

  ops = core->context->backend->kernel;

  if (ops->set_cache_preference == NULL)
    return _gpu_backend_fail (core->context->backend, function, "cache preference", error);

  ops->set_cache_preference (core->context, core->kernel, preference, &failure);

  return _gpu_native_context_end (core->context, function, failure, error);
}

/**
 * gpu_kernel_get_max_active_blocks:
 * @kernel: a #GpuKernel
 * @block_size: number of work-items in a work-group, at least 1
 * @shared_size: bytes of shared memory per work-group, besides the memory of local memory arguments
 * @n_blocks: (out): the number of work-groups
 * @error: return location for an error
 *
 * Gets the number of work-groups that can run at the same time on one multiprocessor of the device
 * (CUDA: cuOccupancyMaxActiveBlocksPerMultiprocessor). This number times the device's
 * `multiprocessor-count` is the maximum number of work-groups of a %GPU_LAUNCH_FLAGS_COOPERATIVE
 * launch. Does not block.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_NOT_SUPPORTED on OpenCL and the host,
 *   %GPU_ERROR_INVALID_ARGUMENT for a @block_size of 0 or above %G_MAXINT, or the driver's error
 *
 * Since: 0.1
 */
gboolean
gpu_kernel_get_max_active_blocks (GpuKernel  *kernel,
                                  gsize       block_size,
                                  gsize       shared_size,
                                  guint      *n_blocks,
                                  GError    **error)
{
  const char *function = "gpu_kernel_get_max_active_blocks";
  const GpuKernelOps *ops;
  GpuKernelCore *core;
  GError *failure = NULL;

  g_return_val_if_fail (GPU_IS_KERNEL (kernel), FALSE);
  g_return_val_if_fail (n_blocks != NULL, FALSE);

  core = begin_call (kernel, function, error);

  if (core == NULL)
    return FALSE;

  ops = core->context->backend->kernel;

  if (block_size == 0 || block_size > G_MAXINT)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "%s: a block size of %" G_GSIZE_FORMAT " is not between 1 and %d", function,
                   block_size, G_MAXINT);
      return FALSE;
    }

  if (ops->get_max_active_blocks == NULL)
    return _gpu_backend_fail (core->context->backend, function,
                              "query for the number of active blocks", error);

  ops->get_max_active_blocks (core->context, core->kernel, block_size, shared_size, n_blocks,
                              &failure);

  return _gpu_native_context_end (core->context, function, failure, error);
}
