/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#if !defined (__GPUMEM_INSIDE__) && !defined (GPUMEM_COMPILATION)
#error "Only <gpumem/gpumem.h> can be included directly."
#endif

#include <gpumem/allocator/gpu-allocator-adaptor.h>

G_BEGIN_DECLS

#define GPU_TYPE_TRACKING_ALLOCATOR (gpu_tracking_allocator_get_type ())

GPU_AVAILABLE_IN_0_1
G_DECLARE_FINAL_TYPE (GpuTrackingAllocator, gpu_tracking_allocator, GPU, TRACKING_ALLOCATOR,
                      GpuAllocatorAdaptor)

GPU_AVAILABLE_IN_0_1
GpuTrackingAllocator *gpu_tracking_allocator_new                 (GpuAllocator *upstream,
                                                                  guint         backtrace_depth);
GPU_AVAILABLE_IN_0_1
GVariant             *gpu_tracking_allocator_list_blocks         (GpuTrackingAllocator *allocator);
GPU_AVAILABLE_IN_0_1
char                 *gpu_tracking_allocator_report              (GpuTrackingAllocator *allocator);

G_END_DECLS
