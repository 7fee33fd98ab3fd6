/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Stream-ordered memory, allocated from one driver pool per context. */
#include "config.h"

#include <unistd.h>

#include "gpumem/cuda/core/gpu-cuda-call.h"

/* The maximum time in microseconds that an event on an idle stream takes to complete on a busy
 * machine. */
#define IDLE_TIME (100 * 1000)

/* All contexts with a pool. If a context is out of memory, it trims the pools of all contexts of
 * its device, because each pool retains unused memory. */
static GMutex pools_lock;
static GPtrArray *pooled;           /* of GpuCudaContext; NULL: none */

guint
_gpu_cuda_get_pool_handle_types (GpuCudaContext *context)
{
  int types = 0;

  _gpu_cuda.cuDeviceGetAttribute (&types, CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES,
                                  context->device->device);

  return (guint) types;
}

static gboolean
has_fds (GpuCudaContext *context)
{
  return (_gpu_cuda_get_pool_handle_types (context) & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
         != 0;
}

/* Caller has entered the context. The release threshold makes the pool retain freed memory; by
 * default, the driver would release that memory at each synchronization. */
static CUmemoryPool
pool_new (GpuCudaContext  *context,
          GError         **error)
{
  CUmemPoolProps properties = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED };
  cuuint64_t threshold = G_MAXUINT64;
  CUmemAccessDesc access[GPU_CUDA_MAX_PEERS + 1];
  guint n_access = _gpu_cuda_list_access (context, access);
  CUmemoryPool pool = NULL;

  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = context->device->device;
  properties.handleTypes = has_fds (context) ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
                                             : CU_MEM_HANDLE_TYPE_NONE;

  if (!_gpu_cuda_check (_gpu_cuda.cuMemPoolCreate (&pool, &properties), "cuMemPoolCreate", error))
    return NULL;

  if (_gpu_cuda_check (_gpu_cuda.cuMemPoolSetAttribute
                         (pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold),
                       "cuMemPoolSetAttribute", error)
      && (n_access == 1
          || _gpu_cuda_check (_gpu_cuda.cuMemPoolSetAccess (pool, &access[1], n_access - 1),
                              "cuMemPoolSetAccess", error)))
    return pool;

  _gpu_cuda.cuMemPoolDestroy (pool);

  return NULL;
}

static void
list_pool (GpuCudaContext *context)
{
  g_mutex_lock (&pools_lock);
  if (pooled == NULL)
    pooled = g_ptr_array_new ();
  g_ptr_array_add (pooled, context);
  g_mutex_unlock (&pools_lock);
}

static void
unlist_pool (GpuCudaContext *context)
{
  g_mutex_lock (&pools_lock);
  g_ptr_array_remove_fast (pooled, context);
  if (pooled->len == 0)
    g_clear_pointer (&pooled, g_ptr_array_unref);
  g_mutex_unlock (&pools_lock);
}

void
_gpu_cuda_pool_clear (GpuCudaContext *context,
                      gboolean        can_free)
{
  /* After a fork, a thread that does not exist in this process may hold pools_lock. */
  if (context->pool == NULL || g_atomic_int_get (&_gpu_forked))
    return;

  unlist_pool (context);

  if (context->pool_fd >= 0)
    close (context->pool_fd);
  context->pool_fd = -1;

  if (can_free)
    _gpu_cuda.cuMemPoolDestroy (context->pool);
  context->pool = NULL;
}

/* Caller has entered the context. */
static CUmemoryPool
get_pool (GpuCudaContext  *context,
          GError         **error)
{
  g_autoptr (GMutexLocker) locker = NULL;

  if (!_gpu_cuda_has_group (GPU_CUDA_GROUP_STREAM_ORDERED, error))
    return NULL;

  locker = g_mutex_locker_new (&context->lock);

  if (context->pool == NULL)
    {
      context->pool = pool_new (context, error);
      if (context->pool != NULL)
        list_pool (context);
    }

  return context->pool;
}

/* The driver does not release memory that was freed in a stream until a thread has waited for the
 * operation that freed it; a query that reports completion is not enough. Skips streams with
 * pending work and streams that are being captured. On an idle stream, records an event and waits
 * for it, but only up to IDLE_TIME: if another thread has enqueued work before the event, the event
 * may take long to complete. */
static void
synchronize_frees (GpuCudaStream *stream)
{
  const gint64 deadline = g_get_monotonic_time () + IDLE_TIME;
  CUevent event = NULL;
  CUresult code;

  if (_gpu_cuda_check_capture (stream->stream) != CUDA_SUCCESS)
    return;

  if (stream->last != NULL)
    {
      if (_gpu_cuda.cuEventQuery (stream->last) == CUDA_SUCCESS)
        _gpu_cuda.cuEventSynchronize (stream->last);
      return;
    }

  if (_gpu_cuda.cuStreamQuery (stream->stream) != CUDA_SUCCESS
      || _gpu_cuda.cuEventCreate (&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
    return;

  _gpu_cuda.cuEventRecord (event, stream->stream);

  while ((code = _gpu_cuda.cuEventQuery (event)) == CUDA_ERROR_NOT_READY
         && g_get_monotonic_time () < deadline)
    g_usleep (10);

  if (code == CUDA_SUCCESS)
    _gpu_cuda.cuEventSynchronize (event);

  _gpu_cuda.cuEventDestroy (event);
}

static gboolean
trim_entered (GpuCudaContext *context)
{
  g_mutex_lock (&context->freeing_lock);
  for (guint i = 0; i < context->freeing->len; i++)
    synchronize_frees (context->freeing->pdata[i]);
  g_mutex_unlock (&context->freeing_lock);

  return _gpu_cuda.cuMemPoolTrimTo (context->pool, 0) == CUDA_SUCCESS;
}

gboolean
_gpu_cuda_trim_pools (GpuCudaContext *context,
                      CUresult        code)
{
  gboolean is_trimmed = FALSE;

  if (G_LIKELY (code != CUDA_ERROR_OUT_OF_MEMORY))
    return FALSE;

  g_mutex_lock (&pools_lock);
  for (guint i = 0; pooled != NULL && i < pooled->len; i++)
    {
      GpuCudaContext *other = pooled->pdata[i];
      gboolean entered;

      if (other->device == context->device && _gpu_cuda_enter_again (other, &entered, NULL))
        {
          is_trimmed = trim_entered (other) || is_trimmed;
          _gpu_cuda_leave (entered);
        }
    }
  g_mutex_unlock (&pools_lock);

  return is_trimmed;
}

/* Adds @stream to the list of streams that have freed memory. The pool of the driver can release
 * such memory only after a wait for the stream. */
static void
list_stream (GpuCudaStream *stream)
{
  GpuCudaContext *context = (GpuCudaContext *) stream->base.context;

  if (!g_atomic_int_compare_and_exchange (&stream->frees, FALSE, TRUE))
    return;

  g_mutex_lock (&context->freeing_lock);
  g_ptr_array_add (context->freeing, stream);
  g_mutex_unlock (&context->freeing_lock);
}

void
_gpu_cuda_pool_remove_stream (GpuCudaStream *stream)
{
  GpuCudaContext *context = (GpuCudaContext *) stream->base.context;

  if (g_atomic_int_get (&_gpu_forked)
      || !g_atomic_int_compare_and_exchange (&stream->frees, TRUE, FALSE))
    return;

  g_mutex_lock (&context->freeing_lock);
  g_ptr_array_remove_fast (context->freeing, stream);
  g_mutex_unlock (&context->freeing_lock);
}

/* A graph cannot allocate memory of a pool that can export file descriptors (seen with driver 580
 * on an H200), so it allocates memory of the driver's default pool. */
static CUmemoryPool
get_pool_for (GpuCudaContext  *context,
              CUstream         stream,
              GError         **error)
{
  CUmemoryPool pool = NULL;

  if (_gpu_cuda_check_capture (stream) == CUDA_SUCCESS)
    return get_pool (context, error);

  return _gpu_cuda_check (_gpu_cuda.cuDeviceGetDefaultMemPool (&pool, context->device->device),
                          "cuDeviceGetDefaultMemPool", error) ? pool : NULL;
}

GpuNativeBuffer *
_gpu_cuda_alloc_ordered (GpuNativeStream  *native,
                         GpuMemoryFlags    flags G_GNUC_UNUSED,
                         gsize             size,
                         GpuNativeEvent  **event,
                         GError          **error)
{
  GpuCudaContext *context = (GpuCudaContext *) native->context;
  CUstream stream = ((GpuCudaStream *) native)->stream;
  CUdeviceptr address = 0;
  GError *failure = NULL;
  CUmemoryPool pool;
  GpuCudaCall call;
  CUresult code;

  if (!_gpu_cuda_begin (native, event, &call, error))
    return NULL;

  pool = get_pool_for (context, stream, &failure);

  if (pool == NULL)
    {
      _gpu_cuda_cancel (&call);
      g_propagate_error (error, failure);
      return NULL;
    }

  code = _gpu_cuda.cuMemAllocFromPoolAsync (&address, size, pool, stream);
  if (_gpu_cuda_trim_pools (context, code))
    code = _gpu_cuda.cuMemAllocFromPoolAsync (&address, size, pool, stream);

  if (_gpu_cuda_end (native, event, &call, code, error, "cuMemAllocFromPoolAsync",
                     "%" G_GSIZE_FORMAT " bytes requested, %" G_GSIZE_FORMAT " bytes held by the "
                     "context on device %s", size,
                     (gsize) g_atomic_pointer_get (&context->base.allocated),
                     context->base.devices[0]->id))
    {
      GpuCudaBuffer *buffer = _gpu_cuda_buffer_new (address, size,
                                                    GPU_CUDA_MEMORY_STREAM_ORDERED);

      buffer->whole = address;
      buffer->whole_size = size;

      return &buffer->base;
    }

  if (code == CUDA_SUCCESS && _gpu_cuda_enter_again (context, &call.entered, NULL))
    {
      _gpu_cuda.cuMemFreeAsync (address, stream);
      _gpu_cuda_leave (call.entered);
    }

  return NULL;
}

gboolean
_gpu_cuda_free_ordered (GpuNativeStream  *native,
                        GpuNativeBuffer  *native_buffer,
                        GError          **error)
{
  g_autofree GpuCudaBuffer *buffer = (GpuCudaBuffer *) native_buffer;
  CUstream stream = ((GpuCudaStream *) native)->stream;
  gboolean entered;
  GpuCudaCall call;
  CUresult code;

  if (!_gpu_cuda_begin (native, NULL, &call, error))
    {
      if (_gpu_cuda_enter_again ((GpuCudaContext *) native->context, &entered, NULL))
        {
          _gpu_cuda.cuMemFreeAsync (buffer->address, stream);
          _gpu_cuda_leave (entered);
        }
      return FALSE;
    }

  code = _gpu_cuda.cuMemFreeAsync (buffer->address, stream);
  list_stream ((GpuCudaStream *) native);

  return _gpu_cuda_end (native, NULL, &call, code, error, "cuMemFreeAsync",
                        "%" G_GSIZE_FORMAT " bytes at 0x%" G_GINT64_MODIFIER "x",
                        buffer->base.size, (guint64) buffer->address);
}

/* --- scratch memory --------------------------------------------------------------------------- */

static CUresult
alloc_scratch (GpuCudaStream  *stream,
               GpuCudaScratch *scratch,
               gsize           size)
{
  return scratch->is_ordered
         ? _gpu_cuda.cuMemAllocFromPoolAsync (&scratch->address, size,
                                              get_pool_for ((GpuCudaContext *) stream->base.context,
                                                            stream->stream, NULL), stream->stream)
         : _gpu_cuda.cuMemAlloc (&scratch->address, size);
}

CUresult
_gpu_cuda_alloc_scratch (GpuCudaStream   *stream,
                         GpuCudaScratch  *scratch,
                         gsize            size,
                         const char     **function)
{
  GpuCudaContext *context = (GpuCudaContext *) stream->base.context;
  CUresult code;

  scratch->is_ordered = get_pool (context, NULL) != NULL;
  *function = scratch->is_ordered ? "cuMemAllocFromPoolAsync" : "cuMemAlloc";
  code = alloc_scratch (stream, scratch, size);

  return _gpu_cuda_trim_pools (context, code) ? alloc_scratch (stream, scratch, size) : code;
}

void
_gpu_cuda_free_scratch (GpuCudaStream  *stream,
                        GpuCudaScratch *scratch)
{
  if (scratch->is_ordered)
    {
      _gpu_cuda.cuMemFreeAsync (scratch->address, stream->stream);
      list_stream (stream);
      return;
    }

  _gpu_cuda.cuStreamSynchronize (stream->stream);
  _gpu_cuda.cuMemFree (scratch->address);
}
