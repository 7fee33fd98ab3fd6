/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#if !defined (__GPUMEM_INSIDE__) && !defined (GPUMEM_COMPILATION)
#error "Only <gpumem/gpumem.h> can be included directly."
#endif

#include <gpumem/base/gpu-types.h>

G_BEGIN_DECLS

#define GPU_TYPE_KERNEL (gpu_kernel_get_type ())

GPU_AVAILABLE_IN_0_1
G_DECLARE_FINAL_TYPE (GpuKernel, gpu_kernel, GPU, KERNEL, GObject)

GPU_AVAILABLE_IN_0_1
GpuProgram      *gpu_kernel_get_program            (GpuKernel  *kernel);
GPU_AVAILABLE_IN_0_1
const char      *gpu_kernel_get_name               (GpuKernel  *kernel);
GPU_AVAILABLE_IN_0_1
guint            gpu_kernel_get_n_arguments        (GpuKernel  *kernel);
GPU_AVAILABLE_IN_0_1
GpuArgumentKind  gpu_kernel_get_argument_kind      (GpuKernel  *kernel,
                                                    guint       index);
GPU_AVAILABLE_IN_0_1
const char      *gpu_kernel_get_argument_name      (GpuKernel  *kernel,
                                                    guint       index);
GPU_AVAILABLE_IN_0_1
const char      *gpu_kernel_get_argument_type_name (GpuKernel  *kernel,
                                                    guint       index);
GPU_AVAILABLE_IN_0_1
gboolean         gpu_kernel_declare_arguments      (GpuKernel  *kernel,
                                                    const char *types,
                                                    GError    **error);
GPU_AVAILABLE_IN_0_1
GVariant        *gpu_kernel_get_attributes         (GpuKernel  *kernel,
                                                    GError    **error);
GPU_AVAILABLE_IN_0_1
gboolean         gpu_kernel_set_attribute          (GpuKernel  *kernel,
                                                    const char *nick,
                                                    gint64      value,
                                                    GError    **error);
GPU_AVAILABLE_IN_0_1
gboolean         gpu_kernel_set_cache_preference   (GpuKernel  *kernel,
                                                    GpuCachePreference preference,
                                                    GError    **error);
GPU_AVAILABLE_IN_0_1
gboolean         gpu_kernel_get_max_active_blocks  (GpuKernel  *kernel,
                                                    gsize       block_size,
                                                    gsize       shared_size,
                                                    guint      *n_blocks,
                                                    GError    **error);
GPU_AVAILABLE_IN_0_1
guint64          gpu_kernel_get_native_handle      (GpuKernel  *kernel);

G_END_DECLS
