/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#if !defined (__GPUMEM_INSIDE__) && !defined (GPUMEM_COMPILATION)
#error "Only <gpumem/gpumem.h> can be included directly."
#endif

#include <gpumem/allocator/gpu-allocator-adaptor.h>

G_BEGIN_DECLS

#define GPU_TYPE_LOGGING_ALLOCATOR (gpu_logging_allocator_get_type ())

GPU_AVAILABLE_IN_0_1
G_DECLARE_FINAL_TYPE (GpuLoggingAllocator, gpu_logging_allocator, GPU, LOGGING_ALLOCATOR,
                      GpuAllocatorAdaptor)

GPU_AVAILABLE_IN_0_1
GpuLoggingAllocator *gpu_logging_allocator_new          (GpuAllocator  *upstream,
                                                         GOutputStream *output);
GPU_AVAILABLE_IN_0_1
GpuLoggingAllocator *gpu_logging_allocator_new_for_path (GpuAllocator  *upstream,
                                                         const char    *path,
                                                         GError       **error);
GPU_AVAILABLE_IN_0_1
gboolean             gpu_logging_allocator_flush        (GpuLoggingAllocator  *allocator,
                                                         GError              **error);

G_END_DECLS
