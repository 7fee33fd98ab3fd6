/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* File descriptors that are shared with other libraries. */
#include "config.h"

#include <string.h>
#include <unistd.h>

#include "gpumem/base/gpu-descriptor-private.h"
#include "gpumem/cuda/core/gpu-cuda-current.h"
#include "gpumem/cuda/memory/gpu-cuda-ipc.h"

/* Returns whether the device may import dma-bufs. Their handle type was added in CUDA 12.9. */
static gboolean
takes_dma_bufs (GpuCudaContext *context)
{
  return _gpu_cuda.has[GPU_CUDA_GROUP_EXTERNAL_MEMORY] && _gpu_cuda.version >= 12090
         && !g_atomic_int_get (&context->device->refuses_dma_bufs);
}

static gboolean
gives_dma_bufs (GpuCudaContext *context)
{
  return _gpu_cuda.has[GPU_CUDA_GROUP_DMA_BUF]
         && _gpu_cuda_get_optional (context->device, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED) != 0;
}

GpuFdKinds
_gpu_cuda_get_fd_kinds (GpuNativeContext *context,
                        gboolean          import)
{
  GpuFdKinds kinds = GPU_FD_KINDS_NONE;

  if ((context->devices[0]->capabilities & GPU_CAPABILITIES_IPC_FDS) == 0)
    return kinds;

  kinds = GPU_FD_KINDS_OPAQUE;

  if (import ? takes_dma_bufs ((GpuCudaContext *) context)
             : gives_dma_bufs ((GpuCudaContext *) context))
    kinds |= GPU_FD_KINDS_DMA_BUF;

  return kinds;
}

/* Sets @fd to a dma-buf of the whole allocation. */
static gboolean
make_dma_buf (GpuCudaContext  *context,
              CUdeviceptr      start,
              gsize            size,
              int             *fd,
              GError         **error)
{
  gboolean entered;
  CUresult code;

  if (!_gpu_cuda_enter (context, &entered, error))
    return FALSE;

  code = _gpu_cuda.cuMemGetHandleForAddressRange (fd, start, size,
                                                  CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);

  if (code != CUDA_SUCCESS)
    _gpu_cuda_set_error (error, "cuMemGetHandleForAddressRange", code,
                         "%" G_GSIZE_FORMAT " bytes at 0x%" G_GINT64_MODIFIER "x", size,
                         (guint64) start);

  _gpu_cuda_leave (entered);

  return code == CUDA_SUCCESS;
}

gboolean
_gpu_cuda_share_fd (GpuNativeContext  *context,
                    GpuNativeBuffer   *buffer,
                    GpuFdKinds         kind,
                    int               *fd,
                    gsize             *whole_size,
                    gsize             *offset,
                    GError           **error)
{
  g_autoptr (GArray) fds = _gpu_descriptors_new ();
  g_autoptr (GBytes) bytes = _gpu_cuda_export_fd (context, buffer, buffer->size, fds, error);
  GpuCudaHandle handle;

  if (bytes == NULL)
    return FALSE;

  memcpy (&handle, g_bytes_get_data (bytes, NULL), sizeof handle);

  if (handle.kind != GPU_CUDA_HANDLE_VIRTUAL)
    {
      g_set_error_literal (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                           "stream-ordered memory only has the file "
                           "descriptor of its pool, which other libraries cannot import");
      return FALSE;
    }

  *fd = _gpu_descriptors_take_only (fds, buffer->size, error);

  if (*fd < 0)
    return FALSE;

  *whole_size = handle.whole_size;
  *offset = handle.offset;

  if (kind == GPU_FD_KINDS_OPAQUE)
    return TRUE;

  close (*fd);
  *fd = -1;

  return make_dma_buf ((GpuCudaContext *) context,
                       ((GpuCudaBuffer *) buffer)->address - handle.offset, handle.whole_size, fd,
                       error);
}

/* Imports the memory behind @fd into a new mapping, even if this process has imported the same
 * memory before. The program must order the operations of the libraries that share the memory. */
GpuNativeBuffer *
_gpu_cuda_open_fd (GpuNativeContext  *context,
                   GpuFdKinds         kind,
                   int                fd,
                   gsize              whole_size,
                   gsize              offset,
                   gsize              size,
                   GError           **error)
{
  CUexternalMemoryHandleType type = kind == GPU_FD_KINDS_OPAQUE
                                    ? CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD
                                    : GPU_CUDA_EXTERNAL_MEMORY_DMA_BUF_FD;
  g_autoptr (GError) failure = NULL;
  GpuNativeBuffer *buffer = NULL;
  GpuCudaHandle handle;

  _gpu_cuda_handle_init (&handle, GPU_CUDA_HANDLE_VIRTUAL);
  handle.size = size;
  handle.offset = offset;
  handle.whole_size = whole_size;

  /* An opaque descriptor may come from CUDA itself or from another library. First try to import it
   * as memory of CUDA. */
  if (kind == GPU_FD_KINDS_OPAQUE)
    {
      buffer = _gpu_cuda_import_alone (context, &handle, fd, size, &failure);

      if (buffer != NULL)
        return buffer;

      /* Only try cuImportExternalMemory() for descriptors of other libraries: that function accepts
       * any size, but the driver has just rejected this size for CUDA's own memory. */
      if (!_gpu_cuda.has[GPU_CUDA_GROUP_EXTERNAL_MEMORY]
          || g_error_matches (failure, GPU_ERROR, GPU_ERROR_DEVICE_LOST)
          || _gpu_cuda_is_own_fd (context, fd))
        {
          g_propagate_error (error, g_steal_pointer (&failure));
          return NULL;
        }
    }

  handle.kind = GPU_CUDA_HANDLE_EXTERNAL;
  memcpy (handle.native, &type, sizeof type);
  buffer = _gpu_cuda_import_alone (context, &handle, fd, size, error);

  if (buffer == NULL && failure != NULL)
    g_prefix_error (error, "%s; ", failure->message);

  return buffer;
}
