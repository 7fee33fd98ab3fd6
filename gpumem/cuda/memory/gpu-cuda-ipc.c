/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Handles that are exchanged with other processes. */
#include "config.h"

#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "gpumem/cuda/memory/gpu-cuda-ipc.h"

/* Does not use g_random_int(): a forked process inherits the state of the generator, and would get
 * the same number as its parent. */
static guint64
get_process (void)
{
  static gsize process;

  if (g_once_init_enter (&process))
    {
      gsize bits = 0;

      if (getrandom (&bits, sizeof bits, 0) != sizeof bits)
        bits = (gsize) g_get_real_time () ^ ((gsize) getpid () << 32);

      g_once_init_leave (&process, bits | 1);
    }

  return process;
}

gboolean
_gpu_cuda_fail_ipc (GError **error)
{
  if (error != NULL && !g_error_matches (*error, GPU_ERROR, GPU_ERROR_DEVICE_LOST)
      && !g_error_matches (*error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED))
    (*error)->code = GPU_ERROR_IPC;

  return FALSE;
}

gboolean
_gpu_cuda_check_ipc (CUresult     code,
                     const char  *function,
                     GError     **error)
{
  return _gpu_cuda_check (code, function, error) || _gpu_cuda_fail_ipc (error);
}

void
_gpu_cuda_handle_init (GpuCudaHandle     *handle,
                       GpuCudaHandleKind  kind)
{
  memset (handle, 0, sizeof *handle);
  handle->magic = GPU_CUDA_HANDLE_MAGIC;
  handle->version = GPU_CUDA_HANDLE_VERSION;
  handle->kind = kind;
  handle->process = get_process ();
}

gboolean
_gpu_cuda_handle_read (GpuCudaHandle  *handle,
                       GBytes         *bytes,
                       guint           n_chunks,
                       guint           kinds,
                       gsize           size,
                       GError        **error)
{
  const gsize expected = sizeof *handle + (n_chunks > 1 ? n_chunks * sizeof (guint64) : 0);
  gsize n_bytes;
  gconstpointer data = g_bytes_get_data (bytes, &n_bytes);

  if (n_bytes == expected)
    memcpy (handle, data, sizeof *handle);

  if (n_bytes != expected || handle->magic != GPU_CUDA_HANDLE_MAGIC
      || (n_chunks > 1 && handle->kind != GPU_CUDA_HANDLE_VIRTUAL)
      || handle->version != GPU_CUDA_HANDLE_VERSION || handle->kind > GPU_CUDA_HANDLE_EVENT
      || (kinds & (1u << handle->kind)) == 0)
    g_set_error (error, GPU_ERROR, GPU_ERROR_IPC,
                 "the driver's part of the handle, %" G_GSIZE_FORMAT " bytes, has changed, or is "
                 "of another version of this library", n_bytes);
  else if (handle->size < size || handle->offset > handle->whole_size
           || handle->size > handle->whole_size - handle->offset)
    g_set_error (error, GPU_ERROR, GPU_ERROR_IPC,
                 "the handle has %" G_GUINT64_FORMAT " bytes at offset %" G_GUINT64_FORMAT
                 " of %" G_GUINT64_FORMAT ", %" G_GSIZE_FORMAT " bytes are requested", handle->size,
                 handle->offset, handle->whole_size, size);
  else if (handle->process == get_process ()
           && (handle->kind == GPU_CUDA_HANDLE_MEMORY || handle->kind == GPU_CUDA_HANDLE_EVENT))
    g_set_error (error, GPU_ERROR, GPU_ERROR_IPC,
                 "the driver cannot import a handle that this process exported");
  else
    return TRUE;

  return FALSE;
}

gboolean
_gpu_cuda_handle_check_device (const GpuCudaHandle  *handle,
                               GpuCudaContext       *context,
                               GError              **error)
{
  static const CUuuid unknown;
  CUuuid own;
  g_autofree char *theirs = NULL;
  g_autofree char *ours = NULL;

  if (memcmp (&handle->device, &unknown, sizeof unknown) == 0
      || !_gpu_cuda_get_uuid (context->device->device, &own)
      || memcmp (&handle->device, &own, sizeof own) == 0)
    return TRUE;

  theirs = _gpu_cuda_format_uuid (&handle->device);
  ours = _gpu_cuda_format_uuid (&own);
  g_set_error (error, GPU_ERROR, GPU_ERROR_IPC,
               "the memory is on the device with the UUID %s, and the context on %s with %s: "
               "import it for a context on the device of the exporter", theirs,
               context->base.devices[0]->id, ours);

  return FALSE;
}

gsize *
_gpu_cuda_handle_read_sizes (const GpuCudaHandle  *handle,
                             GBytes               *bytes,
                             guint                 n_chunks,
                             GError              **error)
{
  const guint8 *data = g_bytes_get_data (bytes, NULL);
  g_autofree gsize *sizes = g_new (gsize, n_chunks);
  guint64 left = handle->whole_size;

  sizes[0] = handle->whole_size;

  if (n_chunks == 1)
    return g_steal_pointer (&sizes);

  for (guint i = 0; i < n_chunks; i++)
    {
      guint64 size;

      memcpy (&size, data + sizeof *handle + i * sizeof size, sizeof size);

      if (size == 0 || size > left || (i == n_chunks - 1 && size != left))
        {
          g_set_error (error, GPU_ERROR, GPU_ERROR_IPC,
                       "chunk %u of %u has %" G_GUINT64_FORMAT " bytes, but the handle has %"
                       G_GUINT64_FORMAT " bytes for the rest", i, n_chunks, size, left);
          return NULL;
        }

      sizes[i] = size;
      left -= size;
    }

  return g_steal_pointer (&sizes);
}
