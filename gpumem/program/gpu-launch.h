/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#if !defined (__GPUMEM_INSIDE__) && !defined (GPUMEM_COMPILATION)
#error "Only <gpumem/gpumem.h> can be included directly."
#endif

#include <gpumem/base/gpu-types.h>

G_BEGIN_DECLS

#define GPU_TYPE_LAUNCH (gpu_launch_get_type ())

GPU_AVAILABLE_IN_0_1
GType           gpu_launch_get_type        (void) G_GNUC_CONST;
GPU_AVAILABLE_IN_0_1
GpuLaunch      *gpu_launch_new             (GpuKernel        *kernel,
                                            const GpuExtent  *grid,
                                            const GpuExtent  *block,
                                            const GpuExtent  *global_offset,
                                            gsize             shared_size,
                                            GpuLaunchFlags    flags,
                                            GpuArguments     *arguments,
                                            GError          **error);
GPU_AVAILABLE_IN_0_1
GpuLaunch      *gpu_launch_ref             (GpuLaunch        *launch);
GPU_AVAILABLE_IN_0_1
void            gpu_launch_unref           (GpuLaunch        *launch);
GPU_AVAILABLE_IN_0_1
GpuKernel      *gpu_launch_get_kernel      (GpuLaunch        *launch);
GPU_AVAILABLE_IN_0_1
void            gpu_launch_get_grid        (GpuLaunch        *launch,
                                            GpuExtent        *grid);
GPU_AVAILABLE_IN_0_1
gboolean        gpu_launch_get_block       (GpuLaunch        *launch,
                                            GpuExtent        *block);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (GpuLaunch, gpu_launch_unref)

G_END_DECLS
