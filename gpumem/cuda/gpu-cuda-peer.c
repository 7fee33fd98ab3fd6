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

/* --- pairs of contexts ------------------------------------------------------------------------ */

typedef enum
{
  PAIR_OPEN       = 1 << 0,         /* the access is enabled */
  PAIR_BY_PROGRAM = 1 << 1,         /* the program has enabled it; otherwise copies have */
  PAIR_APART      = 1 << 2          /* the driver refuses the access: copies must do without it */
} PairFlags;

typedef struct
{
  const GpuCudaContext *context;    /* the context that accesses memory of `peer` */
  const GpuCudaContext *peer;
  PairFlags             flags;
} Pair;

/* `change_lock` serializes changes of access, and is held during calls of the driver.
 * `pairs_lock` guards `pairs`, and is never held during a call of the driver: every copy between
 * contexts takes it. */
static GMutex change_lock;
static GMutex pairs_lock;
static GArray *pairs;               /* of Pair; NULL if there are none */

/* Caller holds `pairs_lock`. */
static Pair *
find_pair_locked (const GpuCudaContext *context,
                  const GpuCudaContext *peer)
{
  for (guint i = 0; pairs != NULL && i < pairs->len; i++)
    {
      Pair *pair = &g_array_index (pairs, Pair, i);

      if (pair->context == context && pair->peer == peer)
        return pair;
    }

  return NULL;
}

static PairFlags
get_flags (const GpuCudaContext *context,
           const GpuCudaContext *peer)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&pairs_lock);
  const Pair *pair = find_pair_locked (context, peer);

  return pair != NULL ? pair->flags : 0;
}

static void
set_flags (const GpuCudaContext *context,
           const GpuCudaContext *peer,
           PairFlags             flags)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&pairs_lock);
  const Pair added = { context, peer, flags };
  Pair *pair = find_pair_locked (context, peer);

  if (pair != NULL)
    {
      pair->flags = flags;
      return;
    }

  if (pairs == NULL)
    pairs = g_array_new (FALSE, FALSE, sizeof (Pair));

  g_array_append_val (pairs, added);
}

/* Returns whether another context on the device of @context has access to @peer. */
static gboolean
has_other (const GpuCudaContext *context,
           const GpuCudaContext *peer)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&pairs_lock);

  for (guint i = 0; pairs != NULL && i < pairs->len; i++)
    {
      const Pair *pair = &g_array_index (pairs, Pair, i);

      if (pair->peer == peer && pair->context != context
          && pair->context->device == context->device && (pair->flags & PAIR_OPEN) != 0)
        return TRUE;
    }

  return FALSE;
}

void
_gpu_cuda_forget_peers (GpuCudaContext *context)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&pairs_lock);

  for (guint i = pairs != NULL ? pairs->len : 0; i > 0; i--)
    {
      const Pair *pair = &g_array_index (pairs, Pair, i - 1);

      if (pair->context == context || pair->peer == context)
        g_array_remove_index_fast (pairs, i - 1);
    }

  if (pairs != NULL && pairs->len == 0)
    g_clear_pointer (&pairs, g_array_unref);
}

/* --- access ----------------------------------------------------------------------------------- */

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
 * which is harmless. Caller holds `change_lock`. */
static gboolean
open_memory_locked (GpuCudaContext  *peer,
                    GpuCudaContext  *context,
                    gboolean         is_open,
                    GError         **error)
{
  CUdevice device = context->device->device;
  g_autoptr (GMutexLocker) locker = NULL;

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

  if (((get_flags (context, peer) & PAIR_OPEN) != 0) == is_open || has_other (context, peer))
    return TRUE;

  locker = g_mutex_locker_new (&peer->lock);

  return open_all_locked (peer, device, is_open, error);
}

/* Enables or disables the access of @context to @peer: in the driver, which covers memory of
 * cuMemAlloc(), and for the pool and the mapped memory of @peer. Code outside the library may
 * already have enabled or disabled the access in the driver; the pool and the mapped memory still
 * need the change. If their change fails, undoes the change in the driver. Returns the code of the
 * driver, or CUDA_ERROR_UNKNOWN with @error set if the access to the pool and the mapped memory
 * could not be changed. Caller holds `change_lock` and has entered @context. */
static CUresult
change_access_locked (GpuCudaContext  *context,
                      GpuCudaContext  *peer,
                      gboolean         is_open,
                      PairFlags        flags,
                      GError         **error)
{
  CUresult done = is_open ? CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED
                          : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
  CUresult code = is_open ? _gpu_cuda.cuCtxEnablePeerAccess (peer->context, 0)
                          : _gpu_cuda.cuCtxDisablePeerAccess (peer->context);

  if (code != CUDA_SUCCESS && code != done)
    return code;

  if (open_memory_locked (peer, context, is_open, error))
    {
      set_flags (context, peer, flags);
      return code;
    }

  if (code == CUDA_SUCCESS && is_open)
    _gpu_cuda.cuCtxDisablePeerAccess (peer->context);
  else if (code == CUDA_SUCCESS)
    _gpu_cuda.cuCtxEnablePeerAccess (peer->context, 0);

  return CUDA_ERROR_UNKNOWN;
}

/* Returns TRUE for a change that the program requested and has got. */
static gboolean
end_change (GpuNativeContext  *context,
            GpuNativeContext  *peer,
            gboolean           is_open,
            CUresult           code,
            GError            *failure,
            GError           **error)
{
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
_gpu_cuda_enable_peer (GpuNativeContext  *native,
                       GpuNativeContext  *native_peer,
                       GError           **error)
{
  GpuCudaContext *context = (GpuCudaContext *) native;
  GpuCudaContext *peer = (GpuCudaContext *) native_peer;
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&change_lock);
  PairFlags flags = get_flags (context, peer);
  GError *failure = NULL;
  gboolean entered;
  CUresult code;

  if (!_gpu_cuda_enter (context, &entered, error))
    return FALSE;

  code = change_access_locked (context, peer, TRUE, PAIR_OPEN | PAIR_BY_PROGRAM, &failure);
  _gpu_cuda_leave (entered);

  /* A copy, or code outside the library, has enabled the access before. */
  if (code == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED && (flags & PAIR_BY_PROGRAM) == 0)
    code = CUDA_SUCCESS;

  return end_change (native, native_peer, TRUE, code, failure, error);
}

gboolean
_gpu_cuda_disable_peer (GpuNativeContext  *native,
                        GpuNativeContext  *native_peer,
                        GError           **error)
{
  GpuCudaContext *context = (GpuCudaContext *) native;
  GpuCudaContext *peer = (GpuCudaContext *) native_peer;
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&change_lock);
  CUresult code = CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
  GError *failure = NULL;
  gboolean entered;

  /* Access that copies enabled is not the program's. */
  if ((get_flags (context, peer) & (PAIR_OPEN | PAIR_BY_PROGRAM)) != PAIR_OPEN)
    {
      if (!_gpu_cuda_enter (context, &entered, error))
        return FALSE;

      code = change_access_locked (context, peer, FALSE, 0, &failure);
      _gpu_cuda_leave (entered);
    }

  return end_change (native, native_peer, FALSE, code, failure, error);
}

gboolean
_gpu_cuda_has_peer (GpuNativeContext *context,
                    GpuNativeContext *peer)
{
  const PairFlags flags = PAIR_OPEN | PAIR_BY_PROGRAM;

  return (get_flags ((GpuCudaContext *) context, (GpuCudaContext *) peer) & flags) == flags;
}

/* --- copies ----------------------------------------------------------------------------------- */

/* Enables the access of @context to @peer for copies. */
static PairFlags
enable_copies_locked (GpuCudaContext *context,
                      GpuCudaContext *peer)
{
  g_autoptr (GError) error = NULL;
  CUresult code = change_access_locked (context, peer, TRUE, PAIR_OPEN, &error);

  _gpu_debug_print (GPU_DEBUG_TRANSFER, "access of %s to memory of %s for copies: %s",
                    context->base.devices[0]->id, peer->base.devices[0]->id,
                    error != NULL ? error->message : _gpu_cuda_error_name (code));

  /* After other errors, such as a lack of memory, the next copy tries again. */
  if (code == CUDA_ERROR_PEER_ACCESS_UNSUPPORTED || code == CUDA_ERROR_TOO_MANY_PEERS
      || g_error_matches (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED))
    set_flags (context, peer, PAIR_APART);

  return get_flags (context, peer);
}

gboolean
_gpu_cuda_reach_peer (GpuNativeContext *native,
                      GpuNativeContext *native_peer)
{
  GpuCudaContext *context = (GpuCudaContext *) native;
  GpuCudaContext *peer = (GpuCudaContext *) native_peer;
  PairFlags flags;
  gboolean entered;

  /* In a forked process, another thread of the parent may have held a lock during the fork. The
   * copy reports the error. */
  if (context->device == peer->device || !_gpu_backend_check_process (NULL))
    return TRUE;

  flags = get_flags (context, peer);

  if (G_LIKELY (flags != 0))
    return (flags & PAIR_OPEN) != 0;

  /* The copy reports the reason for which the context cannot be entered. */
  if (!_gpu_cuda_enter (context, &entered, NULL))
    return TRUE;

  g_mutex_lock (&change_lock);
  flags = get_flags (context, peer);
  if (flags == 0)
    flags = enable_copies_locked (context, peer);
  g_mutex_unlock (&change_lock);

  _gpu_cuda_leave (entered);

  return (flags & PAIR_OPEN) != 0;
}
