/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#if !defined (__GPUMEM_INSIDE__) && !defined (GPUMEM_COMPILATION)
#error "Only <gpumem/gpumem.h> can be included directly."
#endif

#include <gpumem/allocator/gpu-allocator-adaptor.h>

G_BEGIN_DECLS

#define GPU_TYPE_STATISTICS_ALLOCATOR (gpu_statistics_allocator_get_type ())

GPU_AVAILABLE_IN_0_1
G_DECLARE_FINAL_TYPE (GpuStatisticsAllocator, gpu_statistics_allocator, GPU, STATISTICS_ALLOCATOR,
                      GpuAllocatorAdaptor)

GPU_AVAILABLE_IN_0_1
GpuStatisticsAllocator *gpu_statistics_allocator_new          (GpuAllocator *upstream);
GPU_AVAILABLE_IN_0_1
GVariant               *gpu_statistics_allocator_get_counters (GpuStatisticsAllocator *allocator);
GPU_AVAILABLE_IN_0_1
void                    gpu_statistics_allocator_push         (GpuStatisticsAllocator *allocator);
GPU_AVAILABLE_IN_0_1
GVariant               *gpu_statistics_allocator_pop          (GpuStatisticsAllocator  *allocator,
                                                               GError                 **error);

G_END_DECLS
