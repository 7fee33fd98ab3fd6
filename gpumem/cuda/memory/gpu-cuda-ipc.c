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
                       guint           kinds,
                       gsize           size,
                       GError        **error)
{
  gsize n_bytes;
  gconstpointer data = g_bytes_get_data (bytes, &n_bytes);

  if (n_bytes == sizeof *handle)
    memcpy (handle, data, sizeof *handle);

  if (n_bytes != sizeof *handle || handle->magic != GPU_CUDA_HANDLE_MAGIC
      || handle->version != GPU_CUDA_HANDLE_VERSION || handle->kind > GPU_CUDA_HANDLE_EVENT
      || (kinds & (1u << handle->kind)) == 0)
    g_set_error (error, GPU_ERROR, GPU_ERROR_IPC,
                 "%" G_GSIZE_FORMAT " bytes are not a handle of this kind and version", n_bytes);
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
