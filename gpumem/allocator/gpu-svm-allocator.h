/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#if !defined (__GPUMEM_INSIDE__) && !defined (GPUMEM_COMPILATION)
#error "Only <gpumem/gpumem.h> can be included directly."
#endif

#include <gpumem/allocator/gpu-basic-allocator.h>

G_BEGIN_DECLS

#define GPU_TYPE_SVM_ALLOCATOR (gpu_svm_allocator_get_type ())

GPU_AVAILABLE_IN_0_1
G_DECLARE_FINAL_TYPE (GpuSvmAllocator, gpu_svm_allocator, GPU, SVM_ALLOCATOR,
                      GpuBasicAllocator)

GPU_AVAILABLE_IN_0_1
GpuSvmAllocator *gpu_svm_allocator_new           (GpuContext      *context,
                                                  GpuMemoryFlags   flags,
                                                  GpuSvmFlags      svm_flags,
                                                  gsize            alignment,
                                                  GpuStream       *stream,
                                                  GError         **error);
GPU_AVAILABLE_IN_0_1
GpuSvmFlags      gpu_svm_allocator_get_svm_flags (GpuSvmAllocator *allocator);
GPU_AVAILABLE_IN_0_1
gsize            gpu_svm_allocator_get_alignment (GpuSvmAllocator *allocator);

G_END_DECLS
