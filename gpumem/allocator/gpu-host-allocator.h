/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#if !defined (__GPUMEM_INSIDE__) && !defined (GPUMEM_COMPILATION)
#error "Only <gpumem/gpumem.h> can be included directly."
#endif

#include <gpumem/base/gpu-types.h>

G_BEGIN_DECLS

#define GPU_TYPE_HOST_ALLOCATOR (gpu_host_allocator_get_type ())

GPU_AVAILABLE_IN_0_1
G_DECLARE_FINAL_TYPE (GpuHostAllocator, gpu_host_allocator, GPU, HOST_ALLOCATOR, GObject)

GPU_AVAILABLE_IN_0_1
GpuHostAllocator   *gpu_host_allocator_new              (GpuContext          *context,
                                                         GpuHostMemoryFlags   flags,
                                                         GError             **error);
GPU_AVAILABLE_IN_0_1
GpuHostMemory      *gpu_host_allocator_alloc            (GpuHostAllocator    *allocator,
                                                         gsize                size,
                                                         GError             **error);
GPU_AVAILABLE_IN_0_1
void                gpu_host_allocator_trim             (GpuHostAllocator    *allocator,
                                                         guint64              held_bytes);

G_END_DECLS
