/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#if !defined (__GPUMEM_INSIDE__) && !defined (GPUMEM_COMPILATION)
#error "Only <gpumem/gpumem.h> can be included directly."
#endif

#include <gpumem/memory/gpu-memory.h>

G_BEGIN_DECLS

#define GPU_TYPE_HOST_MEMORY (gpu_host_memory_get_type ())

GPU_AVAILABLE_IN_0_1
G_DECLARE_FINAL_TYPE (GpuHostMemory, gpu_host_memory, GPU, HOST_MEMORY, GpuMemory)

GPU_AVAILABLE_IN_0_1
GpuHostMemory      *gpu_host_memory_new                (GpuContext           *context,
                                                        GpuHostMemoryFlags    flags,
                                                        gsize                 size,
                                                        GError              **error);
GPU_AVAILABLE_IN_0_1
GpuHostMemory      *gpu_host_memory_new_aligned        (GpuContext           *context,
                                                        gsize                 alignment,
                                                        gsize                 size,
                                                        GError              **error);
GPU_AVAILABLE_IN_0_1
GpuHostMemory      *gpu_host_memory_new_registered     (GpuContext           *context,
                                                        GpuHostMemoryFlags    flags,
                                                        GBytes               *bytes,
                                                        GError              **error);
GPU_AVAILABLE_IN_0_1
gpointer            gpu_host_memory_get_data           (GpuHostMemory        *memory);
GPU_AVAILABLE_IN_0_1
guint64             gpu_host_memory_get_address        (GpuHostMemory        *memory);
GPU_AVAILABLE_IN_0_1
GBytes             *gpu_host_memory_get_bytes          (GpuHostMemory        *memory);

GPU_AVAILABLE_IN_0_1
gboolean            gpu_host_memory_synchronize        (GpuHostMemory        *memory,
                                                        GpuMapFlags           flags,
                                                        GCancellable         *cancellable,
                                                        GError              **error);
GPU_AVAILABLE_IN_0_1
void                gpu_host_memory_synchronize_async  (GpuHostMemory        *memory,
                                                        GpuMapFlags           flags,
                                                        GCancellable         *cancellable,
                                                        GAsyncReadyCallback   callback,
                                                        gpointer              user_data);
GPU_AVAILABLE_IN_0_1
gboolean            gpu_host_memory_synchronize_finish (GpuHostMemory        *memory,
                                                        GAsyncResult         *result,
                                                        GError              **error);
GPU_AVAILABLE_IN_0_1
GBytes             *gpu_host_memory_read_bytes         (GpuHostMemory        *memory,
                                                        gsize                 offset,
                                                        gsize                 size,
                                                        GCancellable         *cancellable,
                                                        GError              **error);
GPU_AVAILABLE_IN_0_1
gboolean            gpu_host_memory_write_bytes        (GpuHostMemory        *memory,
                                                        gsize                 offset,
                                                        GBytes               *bytes,
                                                        GCancellable         *cancellable,
                                                        GError              **error);

G_END_DECLS
