/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#if !defined (__GPUMEM_INSIDE__) && !defined (GPUMEM_COMPILATION)
#error "Only <gpumem/gpumem.h> can be included directly."
#endif

#include <gpumem/allocator/gpu-basic-allocator.h>

G_BEGIN_DECLS

#define GPU_TYPE_DEFERRED_ALLOCATOR (gpu_deferred_allocator_get_type ())

GPU_AVAILABLE_IN_0_1
G_DECLARE_FINAL_TYPE (GpuDeferredAllocator, gpu_deferred_allocator, GPU, DEFERRED_ALLOCATOR,
                      GpuBasicAllocator)

GPU_AVAILABLE_IN_0_1
GpuDeferredAllocator *gpu_deferred_allocator_new (GpuContext      *context,
                                                  GpuMemoryFlags   flags,
                                                  GError         **error);

G_END_DECLS
