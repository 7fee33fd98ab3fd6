/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a driver tells of one kernel, and lets set. */
#include "config.h"

#include "gpumem/device/gpu-context-private.h"
#include "gpumem/program/gpu-kernel-private.h"

/* (transfer none): NULL if @kernel was never initialised or its context is lost. */
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
 * Sets an attribute of the kernel for launches from now on, of all objects of this kernel of its
 * program (CUDA: cuFuncSetAttribute): `max-dynamic-shared-size` in bytes, beyond the 48 KiB that
 * a launch gets without asking, and `preferred-shared-carveout` in percent. Does not block.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_NOT_SUPPORTED for an attribute that cannot be set, as
 *   none can on OpenCL and the host, %GPU_ERROR_INVALID_ARGUMENT if there is none of that name or
 *   for a value that it cannot have, or the driver's error
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
                              "attributes of kernels that can be set", error);

  ops->set_attribute (core->context, core->kernel, nick, value, &failure);

  return _gpu_native_context_end (core->context, function, failure, error);
}

/**
 * gpu_kernel_set_cache_preference:
 * @kernel: a #GpuKernel
 * @preference: the preference; %GPU_CACHE_PREFERENCE_NONE for that of the context
 * @error: return location for an error
 *
 * Says how the memory on the chip is to be divided while the kernel runs (CUDA:
 * cuFuncSetCacheConfig). A device may do otherwise. Does not block.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_NOT_SUPPORTED where the back end has no such
 *   preference, as OpenCL and the host, %GPU_ERROR_INVALID_ARGUMENT if there is no such
 *   @preference, or the driver's error
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
 * @block_size: work-items of a work-group, not 0
 * @shared_size: bytes of shared memory of a work-group that no argument stands for
 * @n_blocks: (out): the number of work-groups
 * @error: return location for an error
 *
 * Tells how many work-groups run at the same time on one multiprocessor of the device (CUDA:
 * cuOccupancyMaxActiveBlocksPerMultiprocessor). Times the device's `multiprocessor-count`, it is
 * how many a launch that is %GPU_LAUNCH_FLAGS_COOPERATIVE can have. Does not block.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_NOT_SUPPORTED where the back end does not tell, as
 *   OpenCL and the host, %GPU_ERROR_INVALID_ARGUMENT for a @block_size of 0, or the driver's error
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
                   "%s: blocks of %" G_GSIZE_FORMAT " work-items", function, block_size);
      return FALSE;
    }

  if (ops->get_max_active_blocks == NULL)
    return _gpu_backend_fail (core->context->backend, function,
                              "number of blocks that run at the same time", error);

  ops->get_max_active_blocks (core->context, core->kernel, block_size, shared_size, n_blocks,
                              &failure);

  return _gpu_native_context_end (core->context, function, failure, error);
}
