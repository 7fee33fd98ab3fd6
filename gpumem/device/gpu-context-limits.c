/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Limits and preferences of contexts, and other calls that only some drivers support. */
#include "config.h"

#include "gpumem/base/gpu-nick-private.h"
#include "gpumem/device/gpu-context-private.h"

#define OPS(context) (_gpu_context_get_native (context)->backend->context)

/* Returns @has_op. If it is FALSE, sets an error: the back end does not support @what. */
static gboolean
check_op (GpuContext  *context,
          gboolean     has_op,
          const char  *function,
          const char  *what,
          GError     **error)
{
  return has_op || _gpu_backend_fail (_gpu_context_get_native (context)->backend, function, what,
                                      error);
}

static gboolean
fail_limit (const char  *function,
            const char  *what,
            GpuContext  *context,
            GpuLimit     limit,
            GError     **error)
{
  g_autofree char *name = _gpu_enum_get_nick (GPU_TYPE_LIMIT, limit);

  g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED, "%s: the back end %s cannot %s limit %s",
               function, _gpu_context_get_native (context)->backend->name, what, name);

  return FALSE;
}

static void
prefix_limit (const char  *function,
              GpuLimit     limit,
              GError     **error)
{
  g_autofree char *name = _gpu_enum_get_nick (GPU_TYPE_LIMIT, limit);

  g_prefix_error (error, "%s: limit %s: ", function, name);
}

/**
 * gpu_context_get_limit:
 * @context: a #GpuContext
 * @limit: the limit
 * @value: (out): the value, in bytes
 * @error: return location for an error
 *
 * Gets a limit of @context (CUDA: cuCtxGetLimit; OpenCL: CL_DEVICE_PRINTF_BUFFER_SIZE for
 * %GPU_LIMIT_PRINTF_FIFO_SIZE only). The host back end has %GPU_LIMIT_STACK_SIZE only. This limit
 * applies to kernels with barriers.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_NOT_SUPPORTED if the back end lacks the limit
 *
 * Since: 0.1
 */
gboolean
gpu_context_get_limit (GpuContext  *context,
                       GpuLimit     limit,
                       guint64     *value,
                       GError     **error)
{
  const GpuContextOps *ops;

  g_return_val_if_fail (GPU_IS_CONTEXT (context), FALSE);
  g_return_val_if_fail (value != NULL, FALSE);

  if (!_gpu_context_check (context, "gpu_context_get_limit", error))
    return FALSE;

  ops = OPS (context);

  if (ops->get_limit == NULL)
    return fail_limit ("gpu_context_get_limit", "get", context, limit, error);

  if (ops->get_limit (_gpu_context_get_native (context), limit, value, error))
    return TRUE;

  prefix_limit ("gpu_context_get_limit", limit, error);

  return FALSE;
}

/**
 * gpu_context_set_limit:
 * @context: a #GpuContext
 * @limit: the limit
 * @value: the value, in bytes
 * @error: return location for an error
 *
 * Sets a limit of @context for later launches (CUDA: cuCtxSetLimit). OpenCL has no limits that can
 * be set. On the host, %GPU_LIMIT_STACK_SIZE can be set to a value from 32 KiB to 64 MiB.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_NOT_SUPPORTED if the limit cannot be set, or with
 *   %GPU_ERROR_INVALID_ARGUMENT if @value is out of range
 *
 * Since: 0.1
 */
gboolean
gpu_context_set_limit (GpuContext  *context,
                       GpuLimit     limit,
                       guint64      value,
                       GError     **error)
{
  const GpuContextOps *ops;

  g_return_val_if_fail (GPU_IS_CONTEXT (context), FALSE);

  if (!_gpu_context_check (context, "gpu_context_set_limit", error))
    return FALSE;

  ops = OPS (context);

  if (ops->set_limit == NULL)
    return fail_limit ("gpu_context_set_limit", "set", context, limit, error);

  if (ops->set_limit (_gpu_context_get_native (context), limit, value, error))
    return TRUE;

  prefix_limit ("gpu_context_set_limit", limit, error);

  return FALSE;
}

/**
 * gpu_context_get_cache_preference:
 * @context: a #GpuContext
 * @preference: (out): the preference
 * @error: return location for an error
 *
 * Gets the division of the on-chip memory between cache and shared memory for kernels without a
 * preference of their own (CUDA: cuCtxGetCacheConfig). Devices with a fixed division report
 * %GPU_CACHE_PREFERENCE_NONE. Does not block.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_NOT_SUPPORTED on OpenCL and the host, which have no
 *   such preference, or the driver's error
 *
 * Since: 0.1
 */
gboolean
gpu_context_get_cache_preference (GpuContext          *context,
                                  GpuCachePreference  *preference,
                                  GError             **error)
{
  const char *function = "gpu_context_get_cache_preference";
  GpuNativeContext *native;
  GError *failure = NULL;

  g_return_val_if_fail (GPU_IS_CONTEXT (context), FALSE);
  g_return_val_if_fail (preference != NULL, FALSE);

  if (!_gpu_context_check (context, function, error)
      || !check_op (context, OPS (context)->get_cache_preference != NULL, function,
                    "cache preference", error))
    return FALSE;

  native = _gpu_context_get_native (context);
  OPS (context)->get_cache_preference (native, preference, &failure);

  return _gpu_native_context_end (native, function, failure, error);
}

/**
 * gpu_context_set_cache_preference:
 * @context: a #GpuContext
 * @preference: the preference
 * @error: return location for an error
 *
 * Sets the division of the on-chip memory between cache and shared memory for kernels without a
 * preference of their own, see gpu_kernel_set_cache_preference() (CUDA: cuCtxSetCacheConfig). The
 * preference is a hint to the device. Does not block.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_NOT_SUPPORTED on OpenCL and the host, which have no
 *   such preference, %GPU_ERROR_INVALID_ARGUMENT if @preference is unknown, or the driver's error
 *
 * Since: 0.1
 */
gboolean
gpu_context_set_cache_preference (GpuContext          *context,
                                  GpuCachePreference   preference,
                                  GError             **error)
{
  const char *function = "gpu_context_set_cache_preference";
  GpuNativeContext *native;
  GError *failure = NULL;

  g_return_val_if_fail (GPU_IS_CONTEXT (context), FALSE);

  if (!_gpu_context_check (context, function, error)
      || !_gpu_cache_preference_check (preference, function, error)
      || !check_op (context, OPS (context)->set_cache_preference != NULL, function,
                    "cache preference", error))
    return FALSE;

  native = _gpu_context_get_native (context);
  OPS (context)->set_cache_preference (native, preference, &failure);

  return _gpu_native_context_end (native, function, failure, error);
}

gboolean
_gpu_cache_preference_check (GpuCachePreference   preference,
                             const char          *function,
                             GError             **error)
{
  if (preference <= GPU_CACHE_PREFERENCE_EQUAL)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s: unknown cache preference %d", function, (int) preference);

  return FALSE;
}

/**
 * gpu_context_get_priority_range:
 * @context: a #GpuContext
 * @least: (out): the lowest priority
 * @greatest: (out): the highest priority, which is the smaller number
 * @error: return location for an error
 *
 * Gets the range of stream priorities (CUDA: cuCtxGetStreamPriorityRange; OpenCL: from 1 to -1 with
 * cl_khr_priority_hints). gpu_stream_new_full() clamps numbers outside the range to the range. If
 * streams have no priorities, @least and @greatest are 0. Does not block.
 *
 * Returns: %TRUE, or %FALSE with the driver's error
 *
 * Since: 0.1
 */
gboolean
gpu_context_get_priority_range (GpuContext  *context,
                                int         *least,
                                int         *greatest,
                                GError     **error)
{
  const char *function = "gpu_context_get_priority_range";
  GpuNativeContext *native;
  GError *failure = NULL;

  g_return_val_if_fail (GPU_IS_CONTEXT (context), FALSE);
  g_return_val_if_fail (least != NULL && greatest != NULL, FALSE);

  if (!_gpu_context_check (context, function, error))
    return FALSE;

  *least = 0;
  *greatest = 0;
  native = _gpu_context_get_native (context);

  if (OPS (context)->get_priority_range == NULL
      || (native->devices[0]->capabilities & GPU_CAPABILITIES_PRIORITY) == 0)
    return TRUE;

  OPS (context)->get_priority_range (native, least, greatest, &failure);

  return _gpu_native_context_end (native, function, failure, error);
}

/**
 * gpu_context_push_current:
 * @context: a #GpuContext
 * @error: return location for an error
 *
 * Makes @context current for the calling thread, for code that calls the driver directly or through
 * another library (CUDA: cuCtxPushCurrent). Afterwards, call gpu_context_pop_current() on the
 * calling thread. No other function of this library needs a current context or changes the current
 * context of the calling thread. Does not block.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_NOT_SUPPORTED on OpenCL and the host, which have no
 *   current contexts, or the driver's error
 *
 * Since: 0.1
 */
gboolean
gpu_context_push_current (GpuContext  *context,
                          GError     **error)
{
  const char *function = "gpu_context_push_current";
  GpuNativeContext *native;
  GError *failure = NULL;

  g_return_val_if_fail (GPU_IS_CONTEXT (context), FALSE);

  if (!_gpu_context_check (context, function, error)
      || !check_op (context, OPS (context)->push_current != NULL, function, "current context",
                    error))
    return FALSE;

  native = _gpu_context_get_native (context);
  OPS (context)->push_current (native, &failure);

  return _gpu_native_context_end (native, function, failure, error);
}

/**
 * gpu_context_pop_current:
 * @context: the context of this thread's last gpu_context_push_current()
 * @error: return location for an error
 *
 * Restores the context that was current before gpu_context_push_current() (CUDA: cuCtxPopCurrent).
 * Does not block.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_NOT_SUPPORTED on OpenCL and the host,
 *   %GPU_ERROR_INVALID_ARGUMENT if @context is not the current context, or the driver's error
 *
 * Since: 0.1
 */
gboolean
gpu_context_pop_current (GpuContext  *context,
                         GError     **error)
{
  const char *function = "gpu_context_pop_current";
  GpuNativeContext *native;
  GError *failure = NULL;

  g_return_val_if_fail (GPU_IS_CONTEXT (context), FALSE);

  if (!_gpu_context_check (context, function, error)
      || !check_op (context, OPS (context)->pop_current != NULL, function, "current context",
                    error))
    return FALSE;

  native = _gpu_context_get_native (context);
  OPS (context)->pop_current (native, &failure);

  return _gpu_native_context_end (native, function, failure, error);
}

/**
 * gpu_context_get_address_attributes:
 * @context: a #GpuContext
 * @address: an address of the device or of the host
 * @error: return location for an error
 *
 * Gets a dictionary of the attributes that the driver reports for @address, such as `context`,
 * `range-start`, `range-size`, `host-pointer` and `device-pointer` (CUDA: cuPointerGetAttributes).
 * For memory of this library, gpu_memory_get_attributes() reports more. Does not block.
 *
 * Returns: (transfer full): a dictionary of type `a{sv}`, or %NULL with %GPU_ERROR_NOT_SUPPORTED
 *   on OpenCL and the host, %GPU_ERROR_INVALID_ARGUMENT if the driver does not know @address, or
 *   the driver's error
 *
 * Since: 0.1
 */
GVariant *
gpu_context_get_address_attributes (GpuContext  *context,
                                    guint64      address,
                                    GError     **error)
{
  const char *function = "gpu_context_get_address_attributes";
  g_auto (GVariantDict) attributes = G_VARIANT_DICT_INIT (NULL);
  GpuNativeContext *native;
  GError *failure = NULL;

  g_return_val_if_fail (GPU_IS_CONTEXT (context), NULL);

  if (!_gpu_context_check (context, function, error)
      || !check_op (context, OPS (context)->get_address_attributes != NULL, function,
                    "attributes of addresses", error))
    return NULL;

  native = _gpu_context_get_native (context);
  OPS (context)->get_address_attributes (native, address, &attributes, &failure);

  if (!_gpu_native_context_end (native, function, failure, error))
    return NULL;

  return g_variant_ref_sink (g_variant_dict_end (&attributes));
}

/**
 * gpu_context_start_profiler:
 * @context: a #GpuContext
 * @error: return location for an error
 *
 * Makes an external profiler start to record, if the profiler waits for this call (CUDA:
 * cuProfilerStart, with Nsight's `--capture-range=cudaProfilerApi`). Without a profiler the call
 * has no effect. To time single operations, use %GPU_STREAM_FLAGS_PROFILING instead. Does not
 * block.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_NOT_SUPPORTED on OpenCL and the host, or the driver's
 *   error
 *
 * Since: 0.1
 */
gboolean
gpu_context_start_profiler (GpuContext  *context,
                            GError     **error)
{
  const char *function = "gpu_context_start_profiler";
  GpuNativeContext *native;
  GError *failure = NULL;

  g_return_val_if_fail (GPU_IS_CONTEXT (context), FALSE);

  if (!_gpu_context_check (context, function, error)
      || !check_op (context, OPS (context)->start_profiler != NULL, function, "profiler", error))
    return FALSE;

  native = _gpu_context_get_native (context);
  OPS (context)->start_profiler (native, &failure);

  return _gpu_native_context_end (native, function, failure, error);
}

/**
 * gpu_context_stop_profiler:
 * @context: a #GpuContext
 * @error: return location for an error
 *
 * Stops the recording that gpu_context_start_profiler() started (CUDA: cuProfilerStop). The
 * recording may lack work that is still pending, so call gpu_context_synchronize() first. Does not
 * block.
 *
 * Returns: %TRUE, or %FALSE with an error of gpu_context_start_profiler()
 *
 * Since: 0.1
 */
gboolean
gpu_context_stop_profiler (GpuContext  *context,
                           GError     **error)
{
  const char *function = "gpu_context_stop_profiler";
  GpuNativeContext *native;
  GError *failure = NULL;

  g_return_val_if_fail (GPU_IS_CONTEXT (context), FALSE);

  if (!_gpu_context_check (context, function, error)
      || !check_op (context, OPS (context)->stop_profiler != NULL, function, "profiler", error))
    return FALSE;

  native = _gpu_context_get_native (context);
  OPS (context)->stop_profiler (native, &failure);

  return _gpu_native_context_end (native, function, failure, error);
}
