/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#if !defined (__GPUMEM_INSIDE__) && !defined (GPUMEM_COMPILATION)
#error "Only <gpumem/gpumem.h> can be included directly."
#endif

#include <gpumem/base/gpu-types.h>

G_BEGIN_DECLS

GPU_AVAILABLE_IN_0_1
guint    gpu_staging_get_n_threads     (void);
GPU_AVAILABLE_IN_0_1
void     gpu_staging_set_n_threads     (guint        n_threads);
GPU_AVAILABLE_IN_0_1
gsize    gpu_context_get_staging_limit (GpuContext  *context);
GPU_AVAILABLE_IN_0_1
void     gpu_context_set_staging_limit (GpuContext  *context,
                                        gsize        limit);
GPU_AVAILABLE_IN_0_1
gsize    gpu_context_get_staging_size  (GpuContext  *context);
GPU_AVAILABLE_IN_0_1
void     gpu_context_trim_staging      (GpuContext  *context);

G_END_DECLS
