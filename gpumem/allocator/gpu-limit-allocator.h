/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#if !defined (__GPUMEM_INSIDE__) && !defined (GPUMEM_COMPILATION)
#error "Only <gpumem/gpumem.h> can be included directly."
#endif

#include <gpumem/allocator/gpu-allocator-adaptor.h>

G_BEGIN_DECLS

#define GPU_TYPE_LIMIT_ALLOCATOR (gpu_limit_allocator_get_type ())

GPU_AVAILABLE_IN_0_1
G_DECLARE_FINAL_TYPE (GpuLimitAllocator, gpu_limit_allocator, GPU, LIMIT_ALLOCATOR,
                      GpuAllocatorAdaptor)

GPU_AVAILABLE_IN_0_1
GpuLimitAllocator *gpu_limit_allocator_new              (GpuAllocator *upstream,
                                                         guint64       limit);

G_END_DECLS
