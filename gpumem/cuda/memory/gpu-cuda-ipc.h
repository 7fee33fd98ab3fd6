/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Sharing of memory and events with other processes. A handle of the driver represents a whole
 * allocation, so the library's handle adds the offset and the size of the buffer.
 */
#pragma once

#include "gpumem/cuda/core/gpu-cuda.h"

G_BEGIN_DECLS

#define GPU_CUDA_HANDLE_MAGIC   0x4d555047u     /* "GPUM" */
#define GPU_CUDA_HANDLE_VERSION 3

typedef enum
{
  GPU_CUDA_HANDLE_MEMORY  = 1,      /* CUipcMemHandle */
  GPU_CUDA_HANDLE_VIRTUAL = 2,      /* sent with the file descriptors of the chunks, at least one */
  GPU_CUDA_HANDLE_POOLED  = 3,      /* CUmemPoolPtrExportData; sent with the pool's descriptor */
  GPU_CUDA_HANDLE_EVENT   = 4,      /* CUipcEventHandle */
  GPU_CUDA_HANDLE_EXTERNAL = 5      /* CUexternalMemoryHandleType with a file descriptor; never
                                     * exported */
} GpuCudaHandleKind;

/* The exported bytes, which are only valid between processes of one machine. If a buffer of the
 * kind VIRTUAL lies in several chunks, the size of each chunk follows, as a guint64. */
typedef struct
{
  guint32 magic;
  guint32 version;
  guint32 kind;
  guint32 reserved;
  guint64 process;                  /* random number of the exporting process; untrusted */
  guint64 size;                     /* bytes of the buffer */
  guint64 offset;                   /* of the buffer in the allocation or the first chunk, in
                                     * bytes */
  guint64 whole_size;               /* bytes of the allocation, or of all chunks */
  CUuuid  device;                   /* of memory: zeros if the driver does not report it */
  guint8  native[CU_IPC_HANDLE_SIZE];
} GpuCudaHandle;

G_STATIC_ASSERT (sizeof (GpuCudaHandle) == 128);
G_STATIC_ASSERT (sizeof (CUmemPoolPtrExportData) == CU_IPC_HANDLE_SIZE);

/* Changes the code of @error to GPU_ERROR_IPC, except DEVICE_LOST and NOT_SUPPORTED. Returns
 * FALSE. */
gboolean  _gpu_cuda_fail_ipc     (GError            **error);
gboolean  _gpu_cuda_check_ipc    (CUresult            code,
                                  const char         *function,
                                  GError            **error);
/* Sets the fields up to `process`, and clears all other fields. */
void      _gpu_cuda_handle_init  (GpuCudaHandle      *handle,
                                  GpuCudaHandleKind   kind);
/* Parses @bytes, the handle of memory with @n_chunks file descriptors. Fails unless the kind of the
 * handle is in the bitmap @kinds, and the buffer has at least @size bytes. */
gboolean  _gpu_cuda_handle_read  (GpuCudaHandle      *handle,
                                  GBytes             *bytes,
                                  guint               n_chunks,
                                  guint               kinds,
                                  gsize               size,
                                  GError            **error);
/* Fails if the memory is on another device than @context. */
gboolean  _gpu_cuda_handle_check_device (const GpuCudaHandle *handle,
                                  GpuCudaContext     *context,
                                  GError            **error);
/* (transfer full): gets the sizes of @n_chunks chunks, at least one, from @bytes, which
 * _gpu_cuda_handle_read() has parsed as @handle. Fails unless their sum is the whole size that
 * @handle states. */
gsize    *_gpu_cuda_handle_read_sizes (const GpuCudaHandle *handle,
                                  GBytes             *bytes,
                                  guint               n_chunks,
                                  GError            **error);
/* Creates a buffer of @size bytes from the memory behind @fd. Always maps the memory anew, even if
 * another import has mapped the same memory. */
GpuNativeBuffer *
          _gpu_cuda_import_alone (GpuNativeContext     *context,
                                  const GpuCudaHandle  *handle,
                                  int                   fd,
                                  gsize                 size,
                                  GError              **error);
/* Returns whether @fd is the descriptor of a CUDA allocation. */
gboolean  _gpu_cuda_is_own_fd    (GpuNativeContext     *context,
                                  int                   fd);

G_END_DECLS
