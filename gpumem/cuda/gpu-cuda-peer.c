/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/cuda/gpu-cuda.h"

gboolean
_gpu_cuda_can_access_peer (GpuNativeDevice  *device,
                           GpuNativeDevice  *peer,
                           gboolean         *can_access,
                           GError          **error)
{
  int can = 0;
  CUresult code = _gpu_cuda.cuDeviceCanAccessPeer (&can, ((GpuCudaDevice *) device)->device,
                                                   ((GpuCudaDevice *) peer)->device);

  *can_access = can != 0;

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

static gboolean
finish (CUresult           code,
        const char        *function,
        GpuNativeContext  *context,
        GpuNativeContext  *peer,
        GError           **error)
{
  if (code == CUDA_SUCCESS)
    return TRUE;

  _gpu_cuda_set_error (error, function, code, "from %s to %s", context->devices[0]->id,
                       peer->devices[0]->id);

  return FALSE;
}

guint
_gpu_cuda_list_access (GpuCudaContext  *context,
                       CUmemAccessDesc  access[GPU_CUDA_MAX_PEERS + 1])
{
  guint64 peers = __atomic_load_n (&context->peers, __ATOMIC_RELAXED);
  guint n = 1;

  access[0].location.id = context->device->device;
  for (int i = 0; i < GPU_CUDA_MAX_PEERS; i++)
    {
      if (peers & (G_GUINT64_CONSTANT (1) << i))
        access[n++].location.id = i;
    }

  for (guint i = 0; i < n; i++)
    {
      access[i].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
      access[i].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    }

  return n;
}

/* The driver opens what cuMemAlloc() gave, to all of the context; pools it opens one by one. */
static gboolean
open_pool (GpuCudaContext     *peer,
           GpuCudaDevice      *device,
           CUmemAccess_flags   flags,
           GError            **error)
{
  const CUmemAccessDesc access =
  {
    .location = { CU_MEM_LOCATION_TYPE_DEVICE, device->device },
    .flags    = flags
  };
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&peer->lock);
  guint64 bit = G_GUINT64_CONSTANT (1) << MIN (device->device, GPU_CUDA_MAX_PEERS - 1);

  if (device->device >= GPU_CUDA_MAX_PEERS)
    return TRUE;
  if (peer->pool != NULL &&
      !_gpu_cuda_check (_gpu_cuda.cuMemPoolSetAccess (peer->pool, &access, 1),
                        "cuMemPoolSetAccess", error))
    return FALSE;

  __atomic_store_n (&peer->peers, flags != CU_MEM_ACCESS_FLAGS_PROT_NONE ? peer->peers | bit
                                                                        : peer->peers & ~bit,
                    __ATOMIC_RELAXED);

  return TRUE;
}

gboolean
_gpu_cuda_enable_peer (GpuNativeContext  *context,
                       GpuNativeContext  *peer,
                       GError           **error)
{
  gboolean entered;
  CUresult code;

  if (!_gpu_cuda_enter ((GpuCudaContext *) context, &entered, error))
    return FALSE;

  code = _gpu_cuda.cuCtxEnablePeerAccess (((GpuCudaContext *) peer)->context, 0);
  _gpu_cuda_leave (entered);

  /* Others in the process may have opened the context, but not the library's pool. */
  if ((code == CUDA_SUCCESS || code == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED) &&
      !open_pool ((GpuCudaContext *) peer, ((GpuCudaContext *) context)->device,
                  CU_MEM_ACCESS_FLAGS_PROT_READWRITE, error))
    return FALSE;

  return finish (code, "cuCtxEnablePeerAccess", context, peer, error);
}

gboolean
_gpu_cuda_disable_peer (GpuNativeContext  *context,
                        GpuNativeContext  *peer,
                        GError           **error)
{
  gboolean entered;
  CUresult code;

  if (!_gpu_cuda_enter ((GpuCudaContext *) context, &entered, error))
    return FALSE;

  code = _gpu_cuda.cuCtxDisablePeerAccess (((GpuCudaContext *) peer)->context);
  _gpu_cuda_leave (entered);

  if (code == CUDA_SUCCESS &&
      !open_pool ((GpuCudaContext *) peer, ((GpuCudaContext *) context)->device,
                  CU_MEM_ACCESS_FLAGS_PROT_NONE, error))
    return FALSE;

  return finish (code, "cuCtxDisablePeerAccess", context, peer, error);
}
