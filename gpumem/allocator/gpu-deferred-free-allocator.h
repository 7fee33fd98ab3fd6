/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#if !defined (__GPUMEM_INSIDE__) && !defined (GPUMEM_COMPILATION)
#error "Only <gpumem/gpumem.h> can be included directly."
#endif

#include <gpumem/allocator/gpu-allocator-adaptor.h>

G_BEGIN_DECLS

#define GPU_TYPE_DEFERRED_FREE_ALLOCATOR (gpu_deferred_free_allocator_get_type ())

GPU_AVAILABLE_IN_0_1
G_DECLARE_FINAL_TYPE (GpuDeferredFreeAllocator, gpu_deferred_free_allocator,
                      GPU, DEFERRED_FREE_ALLOCATOR, GpuAllocatorAdaptor)

GPU_AVAILABLE_IN_0_1
GpuDeferredFreeAllocator *
         gpu_deferred_free_allocator_new               (GpuAllocator              *upstream);
GPU_AVAILABLE_IN_0_1
void     gpu_deferred_free_allocator_flush             (GpuDeferredFreeAllocator  *allocator);
GPU_AVAILABLE_IN_0_1
void     gpu_deferred_free_allocator_hold              (GpuDeferredFreeAllocator  *allocator);
GPU_AVAILABLE_IN_0_1
gboolean gpu_deferred_free_allocator_unhold            (GpuDeferredFreeAllocator  *allocator,
                                                        GError                   **error);

G_END_DECLS
