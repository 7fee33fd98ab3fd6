/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#if !defined (__GPUMEM_INSIDE__) && !defined (GPUMEM_COMPILATION)
#error "Only <gpumem/gpumem.h> can be included directly."
#endif

#include <gpumem/allocator/gpu-allocator-adaptor.h>

G_BEGIN_DECLS

#define GPU_TYPE_FAILURE_ALLOCATOR (gpu_failure_allocator_get_type ())

GPU_AVAILABLE_IN_0_1
G_DECLARE_FINAL_TYPE (GpuFailureAllocator, gpu_failure_allocator, GPU, FAILURE_ALLOCATOR,
                      GpuAllocatorAdaptor)

GPU_AVAILABLE_IN_0_1
GpuFailureAllocator *gpu_failure_allocator_new (GpuAllocator *upstream);

G_END_DECLS
