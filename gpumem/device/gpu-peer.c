/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Devices that reach each other's memory. */
#include "config.h"

#include "gpumem/device/gpu-context-private.h"
#include "gpumem/device/gpu-device-private.h"

/**
 * gpu_device_can_access_peer:
 * @device: a #GpuDevice
 * @peer: another device
 * @can_access: (out): whether it can
 * @error: return location for an error
 *
 * Tells whether kernels and copies of @device can reach the memory of @peer directly, once
 * gpu_context_enable_peer_access() lets them (CUDA: cuDeviceCanAccessPeer). A device is no peer of
 * its own, and only CUDA has peers. Copies between contexts, by gpu_stream_copy(), need none. Does
 * not block.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_INVALID_ARGUMENT for an object that was never
 *   initialised, or the driver's error
 *
 * Since: 0.1
 */
gboolean
gpu_device_can_access_peer (GpuDevice  *device,
                            GpuDevice  *peer,
                            gboolean   *can_access,
                            GError    **error)
{
  const char *function = "gpu_device_can_access_peer";
  GpuNativeDevice *native;
  GpuNativeDevice *other;

  g_return_val_if_fail (GPU_IS_DEVICE (device), FALSE);
  g_return_val_if_fail (GPU_IS_DEVICE (peer), FALSE);
  g_return_val_if_fail (can_access != NULL, FALSE);

  if (!_gpu_device_check_initialized (device, function, error)
      || !_gpu_device_check_initialized (peer, function, error))
    return FALSE;

  *can_access = FALSE;
  native = _gpu_device_get_native (device);
  other = _gpu_device_get_native (peer);

  if (native == other || native->backend != other->backend
      || native->backend->device->can_access_peer == NULL
      || native->unusable != NULL || other->unusable != NULL)
    return TRUE;

  if (native->backend->device->can_access_peer (native, other, can_access, error))
    return TRUE;

  g_prefix_error (error, "%s: ", function);

  return FALSE;
}

/**
 * gpu_device_get_peer_attributes:
 * @device: a #GpuDevice
 * @peer: another device of the same back end
 * @error: return location for an error
 *
 * Tells what the driver knows of the link from @device to @peer, by nick: `performance-rank`,
 * `access-supported`, `native-atomic-supported`, `array-access-supported` (CUDA:
 * cuDeviceGetP2PAttribute). Does not block.
 *
 * Returns: (transfer full): a dictionary of type `a{sv}`, or %NULL with %GPU_ERROR_NOT_SUPPORTED
 *   where devices have no peers, as on OpenCL and the host, %GPU_ERROR_INVALID_ARGUMENT if the two
 *   are the same or of different back ends, or the driver's error
 *
 * Since: 0.1
 */
GVariant *
gpu_device_get_peer_attributes (GpuDevice  *device,
                                GpuDevice  *peer,
                                GError    **error)
{
  const char *function = "gpu_device_get_peer_attributes";
  g_auto (GVariantDict) attributes = G_VARIANT_DICT_INIT (NULL);
  GpuNativeDevice *native;
  GpuNativeDevice *other;

  g_return_val_if_fail (GPU_IS_DEVICE (device), NULL);
  g_return_val_if_fail (GPU_IS_DEVICE (peer), NULL);

  if (!_gpu_device_check_initialized (device, function, error)
      || !_gpu_device_check_initialized (peer, function, error))
    return NULL;

  native = _gpu_device_get_native (device);
  other = _gpu_device_get_native (peer);

  if (native->backend->device->get_peer_attributes == NULL)
    {
      _gpu_backend_fail (native->backend, function, "peers", error);
      return NULL;
    }

  if (native == other || native->backend != other->backend)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT, "%s: %s and %s are no peers",
                   function, native->id, other->id);
      return NULL;
    }

  if (!native->backend->device->get_peer_attributes (native, other, &attributes, error))
    {
      g_prefix_error (error, "%s: ", function);
      return NULL;
    }

  return g_variant_ref_sink (g_variant_dict_end (&attributes));
}

/* The back end of two contexts whose peer access can be changed, or NULL. */
static const GpuBackend *
check_peers (GpuContext  *context,
             GpuContext  *peer,
             const char  *function,
             GError     **error)
{
  const GpuBackend *backend;

  if (!_gpu_context_check (context, function, error)
      || !_gpu_context_check (peer, function, error))
    return NULL;

  backend = _gpu_context_get_native (context)->backend;

  if (backend->context->enable_peer == NULL || backend->context->disable_peer == NULL)
    {
      _gpu_backend_fail (backend, function, "peers", error);
      return NULL;
    }

  if (context != peer && _gpu_context_get_native (peer)->backend == backend)
    return backend;

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s: contexts on %s and %s are no peers", function,
               gpu_device_get_id (gpu_context_get_device (context)),
               gpu_device_get_id (gpu_context_get_device (peer)));

  return NULL;
}

/**
 * gpu_context_enable_peer_access:
 * @context: a #GpuContext
 * @peer: a context of another device of the same back end
 * @error: return location for an error
 *
 * Lets kernels and copies of @context reach the memory of @peer; for the other way about, call it
 * once more (CUDA: cuCtxEnablePeerAccess). A kernel reaches it by its address, see
 * gpu_memory_get_native_handle(): memory of @peer is no argument of its own in @context. That
 * covers all memory of @peer but what was allocated before with %GPU_MEMORY_FLAGS_SHAREABLE. It
 * stays enabled until gpu_context_disable_peer_access(), or until one of the contexts is gone. Does
 * not block.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_NOT_SUPPORTED if the devices are no peers, as none are
 *   on OpenCL and the host, %GPU_ERROR_BUSY if it is enabled already, %GPU_ERROR_INVALID_ARGUMENT
 *   for one and the same context or contexts of different back ends, or the driver's error
 *
 * Since: 0.1
 */
gboolean
gpu_context_enable_peer_access (GpuContext  *context,
                                GpuContext  *peer,
                                GError     **error)
{
  const char *function = "gpu_context_enable_peer_access";
  const GpuBackend *backend;
  GpuNativeContext *native;
  GError *failure = NULL;

  g_return_val_if_fail (GPU_IS_CONTEXT (context), FALSE);
  g_return_val_if_fail (GPU_IS_CONTEXT (peer), FALSE);

  backend = check_peers (context, peer, function, error);

  if (backend == NULL)
    return FALSE;

  native = _gpu_context_get_native (context);
  backend->context->enable_peer (native, _gpu_context_get_native (peer), &failure);

  return _gpu_native_context_end (native, function, failure, error);
}

/**
 * gpu_context_disable_peer_access:
 * @context: a #GpuContext
 * @peer: a context of another device of the same back end
 * @error: return location for an error
 *
 * Undoes gpu_context_enable_peer_access() (CUDA: cuCtxDisablePeerAccess). Work that was submitted
 * before and reaches the memory of @peer should be complete. Does not block.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_INVALID_ARGUMENT if it is not enabled, or an error as
 *   of gpu_context_enable_peer_access()
 *
 * Since: 0.1
 */
gboolean
gpu_context_disable_peer_access (GpuContext  *context,
                                 GpuContext  *peer,
                                 GError     **error)
{
  const char *function = "gpu_context_disable_peer_access";
  const GpuBackend *backend;
  GpuNativeContext *native;
  GError *failure = NULL;

  g_return_val_if_fail (GPU_IS_CONTEXT (context), FALSE);
  g_return_val_if_fail (GPU_IS_CONTEXT (peer), FALSE);

  backend = check_peers (context, peer, function, error);

  if (backend == NULL)
    return FALSE;

  native = _gpu_context_get_native (context);
  backend->context->disable_peer (native, _gpu_context_get_native (peer), &failure);

  return _gpu_native_context_end (native, function, failure, error);
}
