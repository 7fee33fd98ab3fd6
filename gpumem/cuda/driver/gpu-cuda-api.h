/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Pointers to the functions of the driver. _gpu_cuda_load() sets the pointers once per process: the
 * driver is loaded at run time, and not needed at build time.
 */
#pragma once

#include "gpumem/cuda/driver/gpu-cuda-types.h"

G_BEGIN_DECLS

typedef enum
{
  GPU_CUDA_GROUP_CORE,
  GPU_CUDA_GROUP_HOST_FUNCTION,
  GPU_CUDA_GROUP_STREAM_WAIT,
  GPU_CUDA_GROUP_STREAM_ID,
  GPU_CUDA_GROUP_CAPTURE,
  GPU_CUDA_GROUP_KERNEL_INFO,
  GPU_CUDA_GROUP_PROFILER,
  GPU_CUDA_GROUP_IPC,
  GPU_CUDA_GROUP_STREAM_ORDERED,
  GPU_CUDA_GROUP_VIRTUAL_MEMORY,
  GPU_CUDA_GROUP_EXTERNAL_MEMORY,
  GPU_CUDA_GROUP_DMA_BUF,
  GPU_CUDA_GROUP_IMAGE,
  GPU_CUDA_GROUP_MANAGED,
  GPU_CUDA_GROUP_MEMORY_LOCATION,
  GPU_CUDA_N_GROUPS
} GpuCudaGroup;

typedef struct
{
#define GPU_CUDA_SYMBOL(group, name, version, parameters) CUresult (CUDAAPI *name) parameters;
#include "gpumem/cuda/driver/gpu-cuda-symbols.h"
#undef GPU_CUDA_SYMBOL

  int      version;                     /* of the driver: 12040 for CUDA 12.4 */
  gboolean has[GPU_CUDA_N_GROUPS];
} GpuCudaApi;

/* No function may be called before _gpu_cuda_load() has returned TRUE. */
extern GpuCudaApi _gpu_cuda;
/* The functions of the driver itself, without those of gpu-cuda-relaxed.c. Only for that file, for
 * threads in relaxed mode and for benchmarks: a call may invalidate a capture of the program. */
extern GpuCudaApi _gpu_cuda_raw;

/* Loads the driver and calls cuInit(). Returns FALSE with the reason if the driver is missing or
 * unusable. Not thread-safe: the caller holds the lock of the registry of devices. */
gboolean _gpu_cuda_load           (GError        **error);
/* Returns TRUE if the driver has every function of @group. Otherwise, returns FALSE with the
 * reason. */
gboolean _gpu_cuda_has_group      (GpuCudaGroup    group,
                                   GError        **error);
/* Sets the calling thread to the relaxed mode, for several calls of `_gpu_cuda_raw`. Returns TRUE
 * if the caller must set the thread back with cuThreadExchangeStreamCaptureMode() and @mode. */
gboolean _gpu_cuda_relax          (CUstreamCaptureMode *mode);
/* Replaces the functions of the table that may invalidate captures. For _gpu_cuda_load() only. */
void     _gpu_cuda_relax_captures (void);

G_END_DECLS
