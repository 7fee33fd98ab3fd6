/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Direct access of devices to the memory of other devices. */
#include "config.h"

#include "gpumem/device/gpu-context-private.h"
#include "gpumem/device/gpu-device-private.h"

/**
 * gpu_device_can_access_peer:
 * @device: a #GpuDevice
 * @peer: another device
 * @can_access: (out): %TRUE if @device can access the memory of @peer
 * @error: return location for an error
 *
 * Checks whether the kernels and the copies that run on @device can access the memory of @peer
 * directly, after gpu_context_enable_peer_access() (CUDA: cuDeviceCanAccessPeer). A device is not
 * its own peer, and only CUDA has peers. gpu_stream_copy() does not need peer access to copy
 * between contexts: it enables the access itself, or copies through page-locked memory. Does not
 * block.
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
 * Gets the attributes of the link from @device to @peer, as a dictionary with the keys
 * `performance-rank`, `access-supported`, `native-atomic-supported` and `array-access-supported`
 * (CUDA: cuDeviceGetP2PAttribute). Does not block.
 *
 * Returns: (transfer full): a dictionary of type `a{sv}`, or %NULL with %GPU_ERROR_NOT_SUPPORTED
 *   on OpenCL and the host, which have no peers, %GPU_ERROR_INVALID_ARGUMENT if @device and @peer
 *   are the same device or belong to different back ends, or the driver's error
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
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT, "%s: %s and %s are not peers",
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

/* Returns the back end of both contexts. Returns NULL with an error if the back end cannot enable
 * or disable access between the two contexts. */
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
               "%s: the contexts on %s and %s are not peers", function,
               gpu_device_get_id (gpu_context_get_device (context)),
               gpu_device_get_id (gpu_context_get_device (peer)));

  return NULL;
}

static gboolean
set_peer_access (GpuContext  *context,
                 GpuContext  *peer,
                 gboolean     enable,
                 const char  *function,
                 GError     **error)
{
  const GpuBackend *backend = check_peers (context, peer, function, error);
  GpuNativeContext *native;
  GError *failure = NULL;

  if (backend == NULL)
    return FALSE;

  native = _gpu_context_get_native (context);
  if (enable && backend->context->enable_peer (native, _gpu_context_get_native (peer), &failure))
    g_atomic_int_set (&_gpu_may_access_peers, TRUE);
  else if (!enable)
    backend->context->disable_peer (native, _gpu_context_get_native (peer), &failure);

  return _gpu_native_context_end (native, function, failure, error);
}

/**
 * gpu_context_enable_peer_access:
 * @context: a #GpuContext
 * @peer: a context of another device of the same back end
 * @error: return location for an error
 *
 * Lets the kernels and the copies that run in @context access the memory of @peer (CUDA:
 * cuCtxEnablePeerAccess). Access in the other direction, of @peer to the memory of @context, needs
 * a separate call. Does not block.
 *
 * Kernels of @context can then take a #GpuBuffer of @peer as an argument. The library orders such
 * uses like those of other memory. All memory that @peer allocates is accessible, including memory
 * that was allocated before this call. Memory that @peer imports from another process may be
 * inaccessible. Access stays enabled until gpu_context_disable_peer_access(), or until either
 * context is finalized.
 *
 * Copies between the two contexts may have enabled the access before; this function then succeeds.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_NOT_SUPPORTED if the devices are not peers (always on
 *   OpenCL and the host), %GPU_ERROR_BUSY if an earlier call has enabled the access,
 *   %GPU_ERROR_INVALID_ARGUMENT if @context and @peer are the same context or belong to different
 *   back ends, or the driver's error
 *
 * Since: 0.1
 */
gboolean
gpu_context_enable_peer_access (GpuContext  *context,
                                GpuContext  *peer,
                                GError     **error)
{
  g_return_val_if_fail (GPU_IS_CONTEXT (context), FALSE);
  g_return_val_if_fail (GPU_IS_CONTEXT (peer), FALSE);

  return set_peer_access (context, peer, TRUE, "gpu_context_enable_peer_access", error);
}

/**
 * gpu_context_disable_peer_access:
 * @context: a #GpuContext
 * @peer: a context of another device of the same back end
 * @error: return location for an error
 *
 * Disables the access that gpu_context_enable_peer_access() enabled (CUDA: cuCtxDisablePeerAccess).
 * Before this call, wait until all work that accesses the memory of @peer has completed. The next
 * gpu_stream_copy() between the two contexts enables the access again. Does not block.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_INVALID_ARGUMENT if the program has not enabled the
 *   access, or an error of gpu_context_enable_peer_access()
 *
 * Since: 0.1
 */
gboolean
gpu_context_disable_peer_access (GpuContext  *context,
                                 GpuContext  *peer,
                                 GError     **error)
{
  g_return_val_if_fail (GPU_IS_CONTEXT (context), FALSE);
  g_return_val_if_fail (GPU_IS_CONTEXT (peer), FALSE);

  return set_peer_access (context, peer, FALSE, "gpu_context_disable_peer_access", error);
}
