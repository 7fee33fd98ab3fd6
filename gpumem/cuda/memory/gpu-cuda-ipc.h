/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Memory and events of other processes. A handle of the driver stands for a whole allocation, so
 * ours tells beside it where in there the buffer lies.
 */
#pragma once

#include "gpumem/cuda/core/gpu-cuda.h"

G_BEGIN_DECLS

#define GPU_CUDA_HANDLE_MAGIC   0x4d555047u     /* "GPUM" */
#define GPU_CUDA_HANDLE_VERSION 2

typedef enum
{
  GPU_CUDA_HANDLE_MEMORY  = 1,      /* CUipcMemHandle */
  GPU_CUDA_HANDLE_VIRTUAL = 2,      /* with the file descriptor of the allocation */
  GPU_CUDA_HANDLE_POOLED  = 3,      /* CUmemPoolPtrExportData, and the pool's file descriptor */
  GPU_CUDA_HANDLE_EVENT   = 4,      /* CUipcEventHandle */
  GPU_CUDA_HANDLE_EXTERNAL = 5      /* within this process only: CUexternalMemoryHandleType, and its
                                     * file descriptor */
} GpuCudaHandleKind;

/* What the bytes hold that pass between processes of one machine. */
typedef struct
{
  guint32 magic;
  guint32 version;
  guint32 kind;
  guint32 reserved;
  guint64 process;                  /* a random number of the exporter; identifies nothing */
  guint64 size;                     /* bytes of the buffer */
  guint64 offset;                   /* of the buffer in the allocation */
  guint64 whole_size;               /* bytes of the allocation */
  guint8  native[CU_IPC_HANDLE_SIZE];
} GpuCudaHandle;

G_STATIC_ASSERT (sizeof (GpuCudaHandle) == 112);
G_STATIC_ASSERT (sizeof (CUmemPoolPtrExportData) == CU_IPC_HANDLE_SIZE);

/* All that fails with other processes is a matter of them, unless the device is lost. */
gboolean  _gpu_cuda_fail_ipc     (GError            **error);
gboolean  _gpu_cuda_check_ipc    (CUresult            code,
                                  const char         *function,
                                  GError            **error);
/* The rest of the structure is 0. */
void      _gpu_cuda_handle_init  (GpuCudaHandle      *handle,
                                  GpuCudaHandleKind   kind);
/* One of @kinds, which are bits, for at least @size bytes. */
gboolean  _gpu_cuda_handle_read  (GpuCudaHandle      *handle,
                                  GBytes             *bytes,
                                  guint               kinds,
                                  gsize               size,
                                  GError            **error);
/* A buffer of @size bytes of the memory behind @fd, in a mapping of its own. */
GpuNativeBuffer *
          _gpu_cuda_import_alone (GpuNativeContext     *context,
                                  const GpuCudaHandle  *handle,
                                  int                   fd,
                                  gsize                 size,
                                  GError              **error);
/* Whether @fd is the descriptor of a CUDA allocation. */
gboolean  _gpu_cuda_is_own_fd    (GpuNativeContext     *context,
                                  int                   fd);

G_END_DECLS
