/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/cuda/core/gpu-cuda-current.h"

static const struct
{
  GpuContextFlags flag;
  unsigned int    native;
}
flag_table[] =
{
  { GPU_CONTEXT_FLAGS_SCHED_SPIN, CU_CTX_SCHED_SPIN },
  { GPU_CONTEXT_FLAGS_SCHED_YIELD, CU_CTX_SCHED_YIELD },
  { GPU_CONTEXT_FLAGS_SCHED_BLOCKING, CU_CTX_SCHED_BLOCKING_SYNC },
  { GPU_CONTEXT_FLAGS_MAP_HOST, CU_CTX_MAP_HOST },
  { GPU_CONTEXT_FLAGS_LOCAL_MEMORY_RESIZE, CU_CTX_LMEM_RESIZE_TO_MAX }
};

static const struct
{
  GpuLimit limit;
  CUlimit  native;
}
limit_table[] =
{
  { GPU_LIMIT_STACK_SIZE, CU_LIMIT_STACK_SIZE },
  { GPU_LIMIT_PRINTF_FIFO_SIZE, CU_LIMIT_PRINTF_FIFO_SIZE },
  { GPU_LIMIT_MALLOC_HEAP_SIZE, CU_LIMIT_MALLOC_HEAP_SIZE },
  { GPU_LIMIT_L2_FETCH_GRANULARITY, CU_LIMIT_MAX_L2_FETCH_GRANULARITY },
  { GPU_LIMIT_PERSISTING_L2_SIZE, CU_LIMIT_PERSISTING_L2_CACHE_SIZE }
};

static unsigned int
flags_to_native (GpuContextFlags flags)
{
  unsigned int native = 0;

  for (gsize i = 0; i < G_N_ELEMENTS (flag_table); i++)
    {
      if (flags & flag_table[i].flag)
        native |= flag_table[i].native;
    }

  return native;
}

/* Always includes MAP_HOST and LOCAL_MEMORY_RESIZE, because current drivers treat every context as
 * if these flags were set. */
static GpuContextFlags
flags_from_native (unsigned int native)
{
  GpuContextFlags flags = GPU_CONTEXT_FLAGS_MAP_HOST | GPU_CONTEXT_FLAGS_LOCAL_MEMORY_RESIZE;

  for (gsize i = 0; i < G_N_ELEMENTS (flag_table); i++)
    {
      if (native & flag_table[i].native)
        flags |= flag_table[i].flag;
    }

  return flags;
}

/* Prints a failure with GPUMEM_DEBUG=errors. Prints nothing if the driver has shut down at the end
 * of the process, or if the context is lost, because everything has then been freed. */
static void
report_free (GpuCudaContext *context,
             CUresult        code,
             const char     *function)
{
  g_autoptr (GError) error = NULL;

  if (code == CUDA_ERROR_DEINITIALIZED || g_atomic_int_get (&context->base.lost))
    return;

  _gpu_cuda_check (code, function, &error);
}

/* Frees the objects that the context retains for streams, events and buffers. Ignores failures of
 * driver calls. */
static void
clear (GpuCudaContext *context)
{
  gboolean entered = FALSE;
  gboolean can_free = _gpu_cuda_enter_again (context, &entered, NULL);

  g_clear_pointer (&context->clock, _gpu_cuda_clock_unref);
  _gpu_cuda_blocks_clear (context, can_free);
  _gpu_cuda_host_waits_clear (context, can_free);
  _gpu_cuda_pool_clear (context, can_free);
  _gpu_cuda_cache_clear (context, can_free);
  _gpu_cuda_leave (entered);
  g_clear_pointer (&context->imported, g_hash_table_unref);
}

static void
context_free (GpuNativeContext *native)
{
  GpuCudaContext *context = (GpuCudaContext *) native;

  clear (context);

  /* In a forked process, the contexts belong to the parent, and a lock that another thread held
   * during the fork stays locked. */
  if (_gpu_backend_check_process (NULL))
    {
      _gpu_cuda_forget_peers (context);
      if (context->kind == GPU_CUDA_CONTEXT_PRIMARY)
        report_free (context, _gpu_cuda.cuDevicePrimaryCtxRelease (context->device->device),
                     "cuDevicePrimaryCtxRelease");
      else if (context->kind == GPU_CUDA_CONTEXT_OWN)
        report_free (context, _gpu_cuda.cuCtxDestroy (context->context), "cuCtxDestroy");
    }

  _gpu_native_context_clear (native);
  g_mutex_clear (&context->recycled_lock);
  g_mutex_clear (&context->lock);
  g_mutex_clear (&context->freeing_lock);
  g_ptr_array_unref (context->freeing);
  g_mutex_clear (&context->ranges_lock);
  g_ptr_array_unref (context->ranges);
  g_mutex_clear (&context->import_lock);
  g_free (context);
}

/* Takes ownership of @handle, also on failure, unless @kind is GPU_CUDA_CONTEXT_BORROWED. If
 * @is_unused is TRUE, no other code uses the context. */
static GpuCudaContext *
new_context (GpuCudaDevice  *device,
             CUcontext       handle,
             int             kind,
             gboolean        is_unused,
             GError        **error)
{
  GpuNativeDevice *const devices[] = { &device->base };
  GpuCudaContext *context = g_new0 (GpuCudaContext, 1);
  unsigned int flags = 0;
  gboolean entered;

  _gpu_native_context_init (&context->base, &_gpu_cuda_backend, devices, 1);
  g_mutex_init (&context->recycled_lock);
  g_mutex_init (&context->lock);
  g_mutex_init (&context->freeing_lock);
  context->freeing = g_ptr_array_new ();
  g_mutex_init (&context->ranges_lock);
  context->ranges = g_ptr_array_new ();
  g_mutex_init (&context->import_lock);
  context->pool_fd = -1;
  context->context = handle;
  context->device = device;
  context->kind = kind;

  if (_gpu_cuda_enter (context, &entered, error))
    {
      gboolean read = _gpu_cuda_check (_gpu_cuda.cuCtxGetFlags (&flags), "cuCtxGetFlags", error) &&
                      _gpu_cuda_check (_gpu_cuda.cuCtxGetStreamPriorityRange (
                                         &context->least_priority, &context->greatest_priority),
                                       "cuCtxGetStreamPriorityRange", error);

      /* If the kernels cannot be loaded, the first operation that needs them tries again. */
      if (read && is_unused)
        _gpu_cuda_load_builtins (context, NULL);

      _gpu_cuda_leave (entered);
      context->base.flags = flags_from_native (flags);
      if (read)
        return context;
    }

  _gpu_native_context_unref (&context->base);

  return NULL;
}

/* Sets @flags for the primary context and keeps its other flags. */
static gboolean
set_primary_flags (GpuCudaDevice    *device,
                   GpuContextFlags   flags,
                   GError          **error)
{
  unsigned int wanted = flags_to_native (flags & ~GPU_CONTEXT_FLAGS_MAP_HOST);
  unsigned int present = 0;
  int active = 0;
  CUresult code;

  if (wanted == 0)
    return TRUE;

  code = _gpu_cuda.cuDevicePrimaryCtxGetState (device->device, &present, &active);
  if (!_gpu_cuda_check (code, "cuDevicePrimaryCtxGetState", error))
    return FALSE;

  if ((wanted & CU_CTX_SCHED_MASK) != 0)
    wanted |= present & ~CU_CTX_SCHED_MASK;
  else
    wanted |= present;
  wanted &= ~CU_CTX_MAP_HOST;
  if (active && wanted == (present & ~CU_CTX_MAP_HOST))
    return TRUE;

  code = _gpu_cuda.cuDevicePrimaryCtxSetFlags (device->device, wanted);
  if (code == CUDA_SUCCESS)
    return TRUE;

  _gpu_cuda_set_error (error, "cuDevicePrimaryCtxSetFlags", code,
                       "flags 0x%x, but the primary context of %s has 0x%x", wanted,
                       device->base.id, present);

  return FALSE;
}

static GpuCudaContext *
new_primary (GpuCudaDevice    *device,
             GpuContextFlags   flags,
             GError          **error)
{
  GpuCudaContext *context;
  CUcontext handle = NULL;
  unsigned int present;
  gboolean is_unused;
  int active = 0;
  CUresult code;

  if (!set_primary_flags (device, flags, error))
    return NULL;

  code = _gpu_cuda.cuDevicePrimaryCtxGetState (device->device, &present, &active);
  is_unused = code == CUDA_SUCCESS && !active;
  code = _gpu_cuda.cuDevicePrimaryCtxRetain (&handle, device->device);
  if (!_gpu_cuda_check (code, "cuDevicePrimaryCtxRetain", error))
    return NULL;

  context = new_context (device, handle, GPU_CUDA_CONTEXT_PRIMARY, is_unused, error);
  if (context == NULL || (flags & ~context->base.flags) == 0)
    return context;

  g_set_error (error, GPU_ERROR, GPU_ERROR_BUSY,
               "the primary context of %s is in use with the flags 0x%x, not 0x%x: "
               "GPU_CONTEXT_FLAGS_OWN creates a separate context", device->base.id,
               context->base.flags, flags);
  _gpu_native_context_unref (&context->base);

  return NULL;
}

static GpuCudaContext *
new_own (GpuCudaDevice    *device,
         GpuContextFlags   flags,
         GError          **error)
{
  GpuCudaContext *context;
  CUcontext handle = NULL;
  CUcontext popped;
  CUresult code = _gpu_cuda.cuCtxCreate (&handle, flags_to_native (flags), device->device);

  if (!_gpu_cuda_check (code, "cuCtxCreate", error))
    return NULL;

  /* cuCtxCreate() makes the new context current. */
  _gpu_cuda.cuCtxPopCurrent (&popped);
  context = new_context (device, handle, GPU_CUDA_CONTEXT_OWN, TRUE, error);
  if (context != NULL)
    context->base.flags |= GPU_CONTEXT_FLAGS_OWN;

  return context;
}

static GpuNativeContext *
context_create (GpuNativeDevice *const  *devices,
                guint                    n_devices,
                GpuContextFlags          flags,
                GError                 **error)
{
  GpuCudaDevice *device = (GpuCudaDevice *) devices[0];

  if (n_devices != 1)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                   "a CUDA context has exactly one device, not %u", n_devices);
      return NULL;
    }

  if (!_gpu_backend_check_process (error))
    return NULL;
  if (flags & GPU_CONTEXT_FLAGS_OWN)
    return (GpuNativeContext *) new_own (device, flags, error);

  return (GpuNativeContext *) new_primary (device, flags, error);
}

/* Checks that the context @handle belongs to @device. */
static gboolean
check_foreign (GpuCudaDevice  *device,
               CUcontext       handle,
               GError        **error)
{
  CUcontext popped;
  CUdevice found = -1;
  GpuCudaDevice *owner;
  CUresult code = _gpu_cuda.cuCtxPushCurrent (handle);

  if (code != CUDA_SUCCESS)
    {
      _gpu_cuda_set_error (error, "cuCtxPushCurrent", code, "context %p", (gpointer) handle);
      return FALSE;
    }

  code = _gpu_cuda.cuCtxGetDevice (&found);
  _gpu_cuda.cuCtxPopCurrent (&popped);
  if (!_gpu_cuda_check (code, "cuCtxGetDevice", error))
    return FALSE;
  if (found == device->device)
    return TRUE;

  owner = _gpu_cuda_device_lookup (found);

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "context %p belongs to %s, not to %s", (gpointer) handle,
               owner != NULL ? owner->base.id : "another device", device->base.id);

  return FALSE;
}

/* Returns TRUE and retains the primary context if @handle is the primary context. */
static gboolean
retain_primary (GpuCudaDevice *device,
                CUcontext      handle)
{
  CUcontext primary = NULL;
  unsigned int flags = 0;
  int active = 0;

  if (_gpu_cuda.cuDevicePrimaryCtxGetState (device->device, &flags, &active) != CUDA_SUCCESS ||
      !active || _gpu_cuda.cuDevicePrimaryCtxRetain (&primary, device->device) != CUDA_SUCCESS)
    return FALSE;
  if (primary == handle)
    return TRUE;

  _gpu_cuda.cuDevicePrimaryCtxRelease (device->device);

  return FALSE;
}

static GpuNativeContext *
context_wrap (GpuNativeDevice  *native,
              guint64           handle,
              GpuWrapMode       mode,
              GError          **error)
{
  GpuCudaDevice *device = (GpuCudaDevice *) native;
  CUcontext foreign = (CUcontext) (guintptr) handle;
  GpuCudaContext *context;
  gboolean is_primary;

  if (!_gpu_backend_check_process (error) || !check_foreign (device, foreign, error))
    return NULL;

  is_primary = retain_primary (device, foreign);
  context = new_context (device, foreign,
                         is_primary ? GPU_CUDA_CONTEXT_PRIMARY : GPU_CUDA_CONTEXT_BORROWED, FALSE,
                         error);
  if (context == NULL)
    return NULL;

  if (!is_primary)
    context->base.flags |= GPU_CONTEXT_FLAGS_OWN;
  if (mode == GPU_WRAP_MODE_ADOPT && !is_primary)
    context->kind = GPU_CUDA_CONTEXT_OWN;
  /* Release the caller's reference to the primary context; the library has retained its own. */
  else if (mode == GPU_WRAP_MODE_ADOPT)
    _gpu_cuda.cuDevicePrimaryCtxRelease (device->device);

  return &context->base;
}

static guint64
context_get_handle (GpuNativeContext *native)
{
  return (guint64) (guintptr) ((GpuCudaContext *) native)->context;
}

static gboolean
context_get_memory_info (GpuNativeContext     *native,
                         guint64              *free_size,
                         guint64              *total_size,
                         GpuMemoryInfoSource  *source,
                         GError              **error)
{
  size_t available = 0;
  size_t total = 0;
  gboolean entered;
  CUresult code;

  if (!_gpu_cuda_enter ((GpuCudaContext *) native, &entered, error))
    return FALSE;

  code = _gpu_cuda.cuMemGetInfo (&available, &total);
  _gpu_cuda_leave (entered);

  *free_size = available;
  *total_size = total;
  *source = GPU_MEMORY_INFO_SOURCE_DRIVER;

  return _gpu_cuda_check (code, "cuMemGetInfo", error);
}

static gboolean
find_limit (GpuLimit   limit,
            CUlimit   *native,
            GError   **error)
{
  for (gsize i = 0; i < G_N_ELEMENTS (limit_table); i++)
    {
      if (limit_table[i].limit == limit)
        {
          *native = limit_table[i].native;
          return TRUE;
        }
    }

  g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED, "CUDA has no limit %d", limit);

  return FALSE;
}

static gboolean
context_synchronize (GpuNativeContext  *native,
                     GError           **error)
{
  gboolean entered;
  CUresult code;

  if (!_gpu_cuda_enter ((GpuCudaContext *) native, &entered, error))
    return FALSE;

  code = _gpu_cuda.cuCtxSynchronize ();
  _gpu_cuda_leave (entered);

  return _gpu_cuda_check (code, "cuCtxSynchronize", error);
}

static gboolean
context_get_limit (GpuNativeContext  *native,
                   GpuLimit           limit,
                   guint64           *value,
                   GError           **error)
{
  CUlimit native_limit;
  size_t size = 0;
  gboolean entered;
  CUresult code;

  if (!find_limit (limit, &native_limit, error) ||
      !_gpu_cuda_enter ((GpuCudaContext *) native, &entered, error))
    return FALSE;

  code = _gpu_cuda.cuCtxGetLimit (&size, native_limit);
  _gpu_cuda_leave (entered);
  *value = size;

  return _gpu_cuda_check (code, "cuCtxGetLimit", error);
}

static gboolean
context_set_limit (GpuNativeContext  *native,
                   GpuLimit           limit,
                   guint64            value,
                   GError           **error)
{
  CUlimit native_limit;
  gboolean entered;
  CUresult code;

  if (!find_limit (limit, &native_limit, error) ||
      !_gpu_cuda_enter ((GpuCudaContext *) native, &entered, error))
    return FALSE;

  code = _gpu_cuda.cuCtxSetLimit (native_limit, value);
  _gpu_cuda_leave (entered);
  if (code == CUDA_SUCCESS)
    return TRUE;

  _gpu_cuda_set_error (error, "cuCtxSetLimit", code, "%" G_GUINT64_FORMAT " bytes; the limits "
                       "of printf and malloc cannot change after a kernel has used them", value);

  return FALSE;
}

static gboolean
context_get_api_version (GpuNativeContext  *native,
                         guint             *version,
                         GError           **error)
{
  CUcontext handle = ((GpuCudaContext *) native)->context;

  return _gpu_cuda_check (_gpu_cuda.cuCtxGetApiVersion (handle, version), "cuCtxGetApiVersion",
                          error);
}

static gboolean
context_get_cache_preference (GpuNativeContext    *native,
                              GpuCachePreference  *preference,
                              GError             **error)
{
  CUfunc_cache config = CU_FUNC_CACHE_PREFER_NONE;
  gboolean entered;
  CUresult code;

  if (!_gpu_cuda_enter ((GpuCudaContext *) native, &entered, error))
    return FALSE;

  code = _gpu_cuda.cuCtxGetCacheConfig (&config);
  _gpu_cuda_leave (entered);
  *preference = _gpu_cuda_cache_from_native (config);

  return _gpu_cuda_check (code, "cuCtxGetCacheConfig", error);
}

static gboolean
context_set_cache_preference (GpuNativeContext    *native,
                              GpuCachePreference   preference,
                              GError             **error)
{
  gboolean entered;
  CUresult code;

  if (!_gpu_cuda_enter ((GpuCudaContext *) native, &entered, error))
    return FALSE;

  code = _gpu_cuda.cuCtxSetCacheConfig (_gpu_cuda_cache_to_native (preference));
  _gpu_cuda_leave (entered);

  return _gpu_cuda_check (code, "cuCtxSetCacheConfig", error);
}

static gboolean
context_get_priority_range (GpuNativeContext  *native,
                            int               *least,
                            int               *greatest,
                            GError           **error G_GNUC_UNUSED)
{
  *least = ((GpuCudaContext *) native)->least_priority;
  *greatest = ((GpuCudaContext *) native)->greatest_priority;

  return TRUE;
}

static gboolean
context_push_current (GpuNativeContext  *native,
                      GError           **error)
{
  CUcontext handle = ((GpuCudaContext *) native)->context;

  return _gpu_cuda_check (_gpu_cuda.cuCtxPushCurrent (handle), "cuCtxPushCurrent", error);
}

static gboolean
context_pop_current (GpuNativeContext  *native,
                     GError           **error)
{
  CUcontext handle = ((GpuCudaContext *) native)->context;
  CUcontext current = NULL;
  g_autofree char *found = NULL;

  if (!_gpu_cuda_check (_gpu_cuda.cuCtxGetCurrent (&current), "cuCtxGetCurrent", error))
    return FALSE;
  if (current == handle)
    return _gpu_cuda_check (_gpu_cuda.cuCtxPopCurrent (&current), "cuCtxPopCurrent", error);

  found = current != NULL ? g_strdup_printf ("context %p", (gpointer) current)
                          : g_strdup ("no context");
  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s is current on this thread, not context %p, on %s", found, (gpointer) handle,
               ((GpuCudaContext *) native)->device->base.id);

  return FALSE;
}

static gboolean
context_start_profiler (GpuNativeContext  *native,
                        GError           **error)
{
  gboolean entered;
  CUresult code;

  if (!_gpu_cuda_has_group (GPU_CUDA_GROUP_PROFILER, error) ||
      !_gpu_cuda_enter ((GpuCudaContext *) native, &entered, error))
    return FALSE;

  code = _gpu_cuda.cuProfilerStart ();
  _gpu_cuda_leave (entered);

  return _gpu_cuda_check (code, "cuProfilerStart", error);
}

static gboolean
context_stop_profiler (GpuNativeContext  *native,
                       GError           **error)
{
  gboolean entered;
  CUresult code;

  if (!_gpu_cuda_has_group (GPU_CUDA_GROUP_PROFILER, error) ||
      !_gpu_cuda_enter ((GpuCudaContext *) native, &entered, error))
    return FALSE;

  code = _gpu_cuda.cuProfilerStop ();
  _gpu_cuda_leave (entered);

  return _gpu_cuda_check (code, "cuProfilerStop", error);
}

const GpuContextOps _gpu_cuda_context_ops =
{
  .flags                  = GPU_CONTEXT_FLAGS_SCHED_SPIN | GPU_CONTEXT_FLAGS_SCHED_YIELD |
                            GPU_CONTEXT_FLAGS_SCHED_BLOCKING | GPU_CONTEXT_FLAGS_MAP_HOST |
                            GPU_CONTEXT_FLAGS_LOCAL_MEMORY_RESIZE | GPU_CONTEXT_FLAGS_OWN,
  .create                 = context_create,
  .wrap                   = context_wrap,
  .free                   = context_free,
  .get_handle             = context_get_handle,
  .get_memory_info        = context_get_memory_info,
  .synchronize            = context_synchronize,
  .get_limit              = context_get_limit,
  .set_limit              = context_set_limit,
  .get_api_version        = context_get_api_version,
  .get_cache_preference   = context_get_cache_preference,
  .set_cache_preference   = context_set_cache_preference,
  .get_priority_range     = context_get_priority_range,
  .push_current           = context_push_current,
  .pop_current            = context_pop_current,
  .get_address_attributes = _gpu_cuda_get_address_attributes,
  .enable_peer            = _gpu_cuda_enable_peer,
  .has_peer               = _gpu_cuda_has_peer,
  .disable_peer           = _gpu_cuda_disable_peer,
  .reach_peer             = _gpu_cuda_reach_peer,
  .start_profiler         = context_start_profiler,
  .stop_profiler          = context_stop_profiler
};
