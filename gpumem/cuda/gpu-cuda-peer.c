/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/cuda/core/gpu-cuda-current.h"

gboolean
_gpu_cuda_can_access_peer (GpuNativeDevice  *device,
                           GpuNativeDevice  *peer,
                           gboolean         *can_access,
                           GError          **error)
{
  int can = 0;
  CUresult code = _gpu_cuda.cuDeviceCanAccessPeer (&can, ((GpuCudaDevice *) device)->device,
                                                   ((GpuCudaDevice *) peer)->device);

  /* set_access() refuses devices whose number is GPU_CUDA_MAX_PEERS or greater. */
  *can_access = can != 0 && ((GpuCudaDevice *) device)->device < GPU_CUDA_MAX_PEERS;

  return _gpu_cuda_check (code, "cuDeviceCanAccessPeer", error);
}

gboolean
_gpu_cuda_get_peer_attributes (GpuNativeDevice  *device,
                               GpuNativeDevice  *peer,
                               GVariantDict     *attributes,
                               GError          **error)
{
  static const struct
  {
    const char            *nick;
    CUdevice_P2PAttribute  attribute;
    gboolean               is_number;
  }
  entries[] =
  {
    { "performance-rank", CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK, TRUE },
    { "access-supported", CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, FALSE },
    { "native-atomic-supported", CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, FALSE },
    { "array-access-supported", CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED, FALSE }
  };

  for (gsize i = 0; i < G_N_ELEMENTS (entries); i++)
    {
      int value = 0;
      CUresult code = _gpu_cuda.cuDeviceGetP2PAttribute (&value, entries[i].attribute,
                                                         ((GpuCudaDevice *) device)->device,
                                                         ((GpuCudaDevice *) peer)->device);

      if (code != CUDA_SUCCESS)
        {
          _gpu_cuda_set_error (error, "cuDeviceGetP2PAttribute", code, "%s from %s to %s",
                               entries[i].nick, device->id, peer->id);
          return FALSE;
        }

      if (entries[i].is_number)
        g_variant_dict_insert (attributes, entries[i].nick, "i", (gint32) value);
      else
        g_variant_dict_insert (attributes, entries[i].nick, "b", value != 0);
    }

  return TRUE;
}

/* Caller holds `lock` of @peer. Returns whether a context of @device other than @context has access
 * to @peer. */
static gboolean
has_other_locked (GpuCudaContext *peer,
                  CUdevice        device,
                  CUcontext       context)
{
  GHashTableIter iter;
  gpointer accessor;
  gpointer its_device;

  g_hash_table_iter_init (&iter, peer->accessors);

  while (g_hash_table_iter_next (&iter, &accessor, &its_device))
    {
      if (GPOINTER_TO_INT (its_device) == device && accessor != context)
        return TRUE;
    }

  return FALSE;
}

static CUmemAccessDesc
get_access (CUdevice device,
            gboolean is_open)
{
  return (CUmemAccessDesc)
    {
      .location = { CU_MEM_LOCATION_TYPE_DEVICE, device },
      .flags    = is_open ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE
    };
}

/* Caller holds `lock` of @peer. Enables or disables the access of @device to the mapped memory and
 * the pool of @peer. The field `peers` records the access for later mappings. */
static gboolean
open_all_locked (GpuCudaContext  *peer,
                 CUdevice         device,
                 gboolean         is_open,
                 GError         **error)
{
  const CUmemAccessDesc access = get_access (device, is_open);
  const CUmemAccessDesc before = get_access (device, !is_open);
  const guint64 bit = G_GUINT64_CONSTANT (1) << device;
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&peer->ranges_lock);

  if (!_gpu_cuda_ranges_set_access_locked (peer, &access, error))
    return FALSE;

  if (peer->pool != NULL
      && !_gpu_cuda_check (_gpu_cuda.cuMemPoolSetAccess (peer->pool, &access, 1),
                           "cuMemPoolSetAccess", error))
    {
      _gpu_cuda_ranges_set_access_locked (peer, &before, NULL);
      return FALSE;
    }

  __atomic_store_n (&peer->peers, is_open ? peer->peers | bit : peer->peers & ~bit,
                    __ATOMIC_RELAXED);

  return TRUE;
}

/* The driver grants access to memory of cuMemAlloc() per context, but access to pools and mapped
 * memory per device. Therefore the access of a device stays enabled while another of its contexts
 * needs the access. If a context is freed before its access is disabled, the access stays enabled,
 * which is harmless. */
static gboolean
open_memory (GpuCudaContext  *peer,
             GpuCudaContext  *context,
             gboolean         is_open,
             GError         **error)
{
  CUdevice device = context->device->device;
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&peer->lock);
  gpointer known = NULL;

  /* `peers` only has bits for the first GPU_CUDA_MAX_PEERS devices. The library never makes the
   * pool and the mappings accessible to other devices, so there is nothing to disable. */
  if (device >= GPU_CUDA_MAX_PEERS)
    {
      if (is_open)
        g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                     "%s is device %d of the driver, but only the first %d devices can have "
                     "peer access",
                     context->base.devices[0]->id, device, GPU_CUDA_MAX_PEERS);
      return !is_open;
    }

  if (peer->accessors == NULL)
    peer->accessors = g_hash_table_new (NULL, NULL);

  /* Also compare the device. The entry may belong to a context that was freed before its access was
   * disabled. A context of another device may now have the same handle as that context. */
  if ((g_hash_table_lookup_extended (peer->accessors, context->context, NULL, &known)
       && GPOINTER_TO_INT (known) == device) == is_open)
    return TRUE;

  if (!has_other_locked (peer, device, context->context)
      && !open_all_locked (peer, device, is_open, error))
    return FALSE;

  if (is_open)
    g_hash_table_insert (peer->accessors, context->context, GINT_TO_POINTER (device));
  else
    g_hash_table_remove (peer->accessors, context->context);

  return TRUE;
}

/* Enables or disables the access of @context to @peer: in the driver, which covers memory of
 * cuMemAlloc(), and for the pool and the mapped memory of @peer. Code outside the library may
 * already have enabled or disabled the access in the driver; the pool and the mapped memory still
 * need the change. If their change fails, undoes the change in the driver. */
static gboolean
set_access (GpuNativeContext  *context,
            GpuNativeContext  *peer,
            gboolean           is_open,
            GError           **error)
{
  CUcontext native = ((GpuCudaContext *) peer)->context;
  CUresult done = is_open ? CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED
                          : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
  GError *failure = NULL;
  gboolean entered;
  CUresult code;

  if (!_gpu_cuda_enter ((GpuCudaContext *) context, &entered, error))
    return FALSE;

  code = is_open ? _gpu_cuda.cuCtxEnablePeerAccess (native, 0)
                 : _gpu_cuda.cuCtxDisablePeerAccess (native);

  if ((code == CUDA_SUCCESS || code == done) &&
      !open_memory ((GpuCudaContext *) peer, (GpuCudaContext *) context, is_open, &failure) &&
      code == CUDA_SUCCESS)
    {
      if (is_open)
        _gpu_cuda.cuCtxDisablePeerAccess (native);
      else
        _gpu_cuda.cuCtxEnablePeerAccess (native, 0);
    }

  _gpu_cuda_leave (entered);

  if (failure != NULL)
    {
      g_propagate_error (error, failure);
      return FALSE;
    }

  if (code == CUDA_SUCCESS)
    return TRUE;

  _gpu_cuda_set_error (error, is_open ? "cuCtxEnablePeerAccess" : "cuCtxDisablePeerAccess", code,
                       "from %s to %s", context->devices[0]->id, peer->devices[0]->id);

  return FALSE;
}

gboolean
_gpu_cuda_enable_peer (GpuNativeContext  *context,
                       GpuNativeContext  *peer,
                       GError           **error)
{
  return set_access (context, peer, TRUE, error);
}

gboolean
_gpu_cuda_disable_peer (GpuNativeContext  *context,
                        GpuNativeContext  *peer,
                        GError           **error)
{
  return set_access (context, peer, FALSE, error);
}
