/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#if !defined (__GPUMEM_INSIDE__) && !defined (GPUMEM_COMPILATION)
#error "Only <gpumem/gpumem.h> can be included directly."
#endif

#include <gpumem/allocator/gpu-allocator-adaptor.h>

G_BEGIN_DECLS

#define GPU_TYPE_OOM_ALLOCATOR (gpu_oom_allocator_get_type ())

GPU_AVAILABLE_IN_0_1
G_DECLARE_FINAL_TYPE (GpuOomAllocator, gpu_oom_allocator, GPU, OOM_ALLOCATOR,
                      GpuAllocatorAdaptor)

GPU_AVAILABLE_IN_0_1
GpuOomAllocator *gpu_oom_allocator_new (GpuAllocator *upstream);

G_END_DECLS
