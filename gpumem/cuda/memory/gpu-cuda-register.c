/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Registration of host memory of the application. A registration is valid in all contexts of the
 * process. The driver rejects registrations that overlap, and copies that cross the end of a
 * registration. Therefore each registration covers exactly the bytes of one buffer. If it covered
 * whole pages, a second buffer in one of these pages could not be registered. Buffers over parts of
 * registered bytes share the registration.
 */
#include "config.h"

#include "gpumem/cuda/core/gpu-cuda-current.h"

typedef struct
{
  guint           refs;
  guintptr        start;
  guintptr        end;
  gboolean        read_only;
  GpuCudaContext *context;          /* in which it was registered; referenced */
} Registration;

static GMutex registrations_lock;
static GPtrArray *registrations;    /* of Registration */

/* Returns a registration that overlaps the range, or NULL. */
static Registration *
find_locked (guintptr start,
             guintptr end)
{
  for (guint i = 0; registrations != NULL && i < registrations->len; i++)
    {
      Registration *registration = g_ptr_array_index (registrations, i);

      if (registration->start < end && start < registration->end)
        return registration;
    }

  return NULL;
}

static Registration *
add_locked (GpuCudaContext *context,
            gboolean        read_only,
            guintptr        start,
            guintptr        end)
{
  Registration *registration = g_new0 (Registration, 1);

  registration->refs = 1;
  registration->start = start;
  registration->end = end;
  registration->read_only = read_only;
  registration->context = context;
  _gpu_native_context_ref (&context->base);

  if (registrations == NULL)
    registrations = g_ptr_array_new ();
  g_ptr_array_add (registrations, registration);

  return registration;
}

static Registration *
share_locked (Registration  *registration,
              gboolean       read_only,
              guintptr       start,
              guintptr       end,
              GError       **error)
{
  if (registration->read_only && !read_only)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_BUSY,
                   "%" G_GSIZE_FORMAT " bytes at %p overlap %" G_GSIZE_FORMAT
                   " bytes at %p that are registered as read-only", (gsize) (end - start),
                   (gpointer) start, (gsize) (registration->end - registration->start),
                   (gpointer) registration->start);
      return NULL;
    }

  if (registration->start <= start && end <= registration->end)
    {
      registration->refs++;
      return registration;
    }

  g_set_error (error, GPU_ERROR, GPU_ERROR_BUSY,
               "%" G_GSIZE_FORMAT " bytes at %p partially overlap %" G_GSIZE_FORMAT " bytes at %p "
               "of another buffer: create one buffer over all bytes and slices of it",
               (gsize) (end - start), (gpointer) start,
               (gsize) (registration->end - registration->start), (gpointer) registration->start);

  return NULL;
}

/* Caller has entered the context. Returns NULL without an error if code outside the library has
 * registered the memory. */
static Registration *
register_locked (GpuCudaContext  *context,
                 gboolean         read_only,
                 guintptr         start,
                 guintptr         end,
                 GError         **error)
{
  unsigned int flags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
  Registration *other = find_locked (start, end);
  unsigned int known;
  CUresult code;

  if (other != NULL)
    return share_locked (other, read_only, start, end, error);

  /* Without CU_MEMHOSTREGISTER_READ_ONLY, the driver requires writable pages. */
  if (read_only && _gpu_cuda_get_optional (context->device,
                                           CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED))
    flags |= CU_MEMHOSTREGISTER_READ_ONLY;

  code = _gpu_cuda.cuMemHostRegister ((void *) start, end - start, flags);

  if (code == CUDA_SUCCESS)
    return add_locked (context, (flags & CU_MEMHOSTREGISTER_READ_ONLY) != 0, start, end);

  /* Set no error if code outside the library has already page-locked the memory. For memory from
   * cuMemHostAlloc(), some drivers return CUDA_ERROR_INVALID_VALUE instead of the specific code. */
  if (code == CUDA_ERROR_OUT_OF_MEMORY)
    _gpu_cuda_fail_locked ("cuMemHostRegister", code, end - start, error);
  else if (code != CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED
           && (code != CUDA_ERROR_INVALID_VALUE
               || _gpu_cuda.cuMemHostGetFlags (&known, (void *) start) != CUDA_SUCCESS))
    _gpu_cuda_set_error (error, "cuMemHostRegister", code, "%" G_GSIZE_FORMAT " bytes at %p",
                         (gsize) (end - start), (gpointer) start);

  return NULL;
}

static gboolean
unref_locked (Registration *registration)
{
  if (--registration->refs > 0)
    return FALSE;

  g_ptr_array_remove_fast (registrations, registration);
  if (registrations->len == 0)
    g_clear_pointer (&registrations, g_ptr_array_unref);

  return TRUE;
}

void
_gpu_cuda_unregister (gpointer data)
{
  Registration *registration = data;
  GpuCudaContext *context = registration->context;
  gboolean entered;
  gboolean last;

  /* In a forked process, a thread that exists only in the parent may hold the lock, so this process
   * must not wait for the lock. */
  if (g_atomic_int_get (&_gpu_forked))
    return;

  /* Hold the lock until the driver has unregistered the pages, because another thread may register
   * the same pages again. */
  g_mutex_lock (&registrations_lock);
  last = unref_locked (registration);
  if (last && _gpu_cuda_enter_again (context, &entered, NULL))
    {
      _gpu_cuda.cuMemHostUnregister ((void *) registration->start);
      _gpu_cuda_leave (entered);
    }
  g_mutex_unlock (&registrations_lock);

  if (!last)
    return;

  g_free (registration);
  _gpu_native_context_unref (&context->base);
}

/* Caller has entered the context. Checks that one registration, by code outside the library, covers
 * the whole range. */
static gboolean
check_range (gconstpointer   data,
             gsize           size,
             CUdeviceptr     address,
             GError        **error)
{
  guint64 start = _gpu_cuda_get_pointer_attribute (address, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                                   address);
  guint64 range = _gpu_cuda_get_pointer_attribute (address, CU_POINTER_ATTRIBUTE_RANGE_SIZE, 0);

  range -= MIN (address - start, range);

  if (size <= range)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_BUSY,
               "%" G_GSIZE_FORMAT " bytes at %p overlap a registration by other code, which covers "
               "only %" G_GUINT64_FORMAT " of them", size, data, range);

  return FALSE;
}

/* Caller has entered the context. @registration is NULL if code outside the library has registered
 * the memory. */
static gboolean
get_address (const Registration  *registration,
             gpointer             data,
             gsize                size,
             CUdeviceptr         *address,
             GError             **error)
{
  CUresult code = _gpu_cuda.cuMemHostGetDevicePointer (address, data, 0);

  if (code == CUDA_SUCCESS)
    return registration != NULL || check_range (data, size, *address, error);

  if (registration == NULL && code == CUDA_ERROR_INVALID_VALUE)
    g_set_error (error, GPU_ERROR, GPU_ERROR_BUSY,
                 "%" G_GSIZE_FORMAT " bytes at %p overlap a registration by other code",
                 size, data);
  else
    _gpu_cuda_set_error (error, "cuMemHostGetDevicePointer", code, "%" G_GSIZE_FORMAT
                         " bytes at %p", size, data);

  return FALSE;
}

/* Caller has entered the context. */
static GpuCudaBuffer *
register_entered (GpuCudaContext  *context,
                  gboolean         read_only,
                  gpointer         data,
                  gsize            size,
                  GError         **error)
{
  guintptr start = (guintptr) data;
  GError *failure = NULL;
  CUdeviceptr address = 0;
  Registration *registration;
  GpuCudaBuffer *buffer;

  g_mutex_lock (&registrations_lock);
  registration = register_locked (context, read_only, start, start + size, &failure);
  g_mutex_unlock (&registrations_lock);

  if (failure != NULL || !get_address (registration, data, size, &address, &failure))
    {
      g_clear_pointer (&registration, _gpu_cuda_unregister);
      g_propagate_error (error, failure);
      return NULL;
    }

  buffer = _gpu_cuda_buffer_new (address, size, registration != NULL ? GPU_CUDA_MEMORY_REGISTERED
                                                                     : GPU_CUDA_MEMORY_BORROWED);
  buffer->base.host = data;
  buffer->base.is_locked = TRUE;
  buffer->shared = registration;

  return buffer;
}

GpuNativeBuffer *
_gpu_cuda_register (GpuNativeContext  *native,
                    gboolean           read_only,
                    gpointer           data,
                    gsize              size,
                    GError           **error)
{
  GpuCudaContext *context = (GpuCudaContext *) native;
  GpuCudaBuffer *buffer;
  gboolean entered;

  if (!_gpu_cuda_enter (context, &entered, error))
    return NULL;

  buffer = register_entered (context, read_only, data, size, error);
  _gpu_cuda_leave (entered);

  return buffer != NULL ? &buffer->base : NULL;
}

GpuNativeBuffer *
_gpu_cuda_alloc_for_host (GpuNativeContext  *context,
                          GpuMemoryFlags     flags G_GNUC_UNUSED,
                          gpointer           data,
                          gsize              size,
                          GError           **error)
{
  return _gpu_cuda_register (context, FALSE, data, size, error);
}
