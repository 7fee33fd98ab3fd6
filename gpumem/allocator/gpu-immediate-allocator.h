/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#if !defined (__GPUMEM_INSIDE__) && !defined (GPUMEM_COMPILATION)
#error "Only <gpumem/gpumem.h> can be included directly."
#endif

#include <gpumem/allocator/gpu-basic-allocator.h>

G_BEGIN_DECLS

#define GPU_TYPE_IMMEDIATE_ALLOCATOR (gpu_immediate_allocator_get_type ())

GPU_AVAILABLE_IN_0_1
G_DECLARE_FINAL_TYPE (GpuImmediateAllocator, gpu_immediate_allocator, GPU, IMMEDIATE_ALLOCATOR,
                      GpuBasicAllocator)

GPU_AVAILABLE_IN_0_1
GpuImmediateAllocator *gpu_immediate_allocator_new (GpuStream       *stream,
                                                    GpuMemoryFlags   flags,
                                                    GError         **error);

G_END_DECLS
