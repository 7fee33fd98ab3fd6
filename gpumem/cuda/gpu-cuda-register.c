/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Memory of the program that devices reach. The driver locks whole pages, once in a process for
 * all contexts, and refuses those that are locked already: buffers over the same pages share one
 * registration.
 */
#include "config.h"

#include <unistd.h>

#include "gpumem/cuda/gpu-cuda.h"

typedef struct
{
  guint           refs;
  guintptr        start;
  guintptr        end;
  GpuCudaContext *context;          /* that it was made in, referenced */
} Registration;

static GMutex registrations_lock;
static GPtrArray *registrations;    /* of Registration */

static Registration *
find_locked (guintptr start,
             guintptr end)
{
  for (guint i = 0; registrations != NULL && i < registrations->len; i++)
    {
      Registration *registration = g_ptr_array_index (registrations, i);

      if (registration->start <= start && end <= registration->end)
        return registration;
    }

  return NULL;
}

/* With the context entered. NULL with no error for pages that somebody else registered. */
static Registration *
register_locked (GpuCudaContext  *context,
                 guintptr         start,
                 guintptr         end,
                 GError         **error)
{
  const unsigned int flags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
  Registration *registration = find_locked (start, end);
  unsigned int known;
  CUresult code;

  if (registration != NULL)
    {
      registration->refs++;
      return registration;
    }

  code = _gpu_cuda.cuMemHostRegister ((void *) start, end - start, flags);

  /* Of memory from cuMemHostAlloc() drivers say either. */
  if (code == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED
      || (code == CUDA_ERROR_INVALID_VALUE
          && _gpu_cuda.cuMemHostGetFlags (&known, (void *) start) == CUDA_SUCCESS))
    return NULL;

  if (code != CUDA_SUCCESS)
    {
      _gpu_cuda_set_error (error, "cuMemHostRegister", code, "%" G_GSIZE_FORMAT " bytes at %p",
                           (gsize) (end - start), (gpointer) start);
      return NULL;
    }

  registration = g_new0 (Registration, 1);
  registration->refs = 1;
  registration->start = start;
  registration->end = end;
  registration->context = context;
  _gpu_native_context_ref (&context->base);

  if (registrations == NULL)
    registrations = g_ptr_array_new ();
  g_ptr_array_add (registrations, registration);

  return registration;
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

  /* The lock is held until the driver has forgotten the pages: others may ask for them again. */
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

/* With the context entered. */
static GpuCudaBuffer *
register_entered (GpuCudaContext  *context,
                  gpointer         data,
                  gsize            size,
                  GError         **error)
{
  const guintptr mask = (guintptr) sysconf (_SC_PAGESIZE) - 1;
  guintptr start = (guintptr) data & ~mask;
  guintptr end = ((guintptr) data + size + mask) & ~mask;
  GError *failure = NULL;
  CUdeviceptr address = 0;
  Registration *registration;
  GpuCudaBuffer *buffer;
  CUresult code;

  g_mutex_lock (&registrations_lock);
  registration = register_locked (context, start, end, &failure);
  g_mutex_unlock (&registrations_lock);

  if (failure != NULL)
    {
      g_propagate_error (error, failure);
      return NULL;
    }

  code = _gpu_cuda.cuMemHostGetDevicePointer (&address, data, 0);

  if (code != CUDA_SUCCESS)
    {
      _gpu_cuda_set_error (error, "cuMemHostGetDevicePointer", code, "%" G_GSIZE_FORMAT
                           " bytes at %p%s", size, data, registration != NULL
                           ? "" : ", of which some are registered already");
      g_clear_pointer (&registration, _gpu_cuda_unregister);
      return NULL;
    }

  buffer = _gpu_cuda_buffer_new (address, size, registration != NULL ? GPU_CUDA_MEMORY_REGISTERED
                                                                     : GPU_CUDA_MEMORY_BORROWED);
  buffer->host = data;
  buffer->shared = registration;

  return buffer;
}

GpuNativeBuffer *
_gpu_cuda_alloc_for_host (GpuNativeContext  *native,
                          GpuMemoryFlags     flags G_GNUC_UNUSED,
                          gpointer           data,
                          gsize              size,
                          GError           **error)
{
  GpuCudaContext *context = (GpuCudaContext *) native;
  GpuCudaBuffer *buffer;
  gboolean entered;

  if (!_gpu_cuda_enter (context, &entered, error))
    return NULL;

  buffer = register_entered (context, data, size, error);
  _gpu_cuda_leave (entered);

  return buffer != NULL ? &buffer->base : NULL;
}
