/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#if !defined (__GPUMEM_INSIDE__) && !defined (GPUMEM_COMPILATION)
#error "Only <gpumem/gpumem.h> can be included directly."
#endif

#include <gpumem/base/gpu-types.h>

G_BEGIN_DECLS

#define GPU_TYPE_SAMPLER (gpu_sampler_get_type ())

GPU_AVAILABLE_IN_0_1
G_DECLARE_FINAL_TYPE (GpuSampler, gpu_sampler, GPU, SAMPLER, GObject)

GPU_AVAILABLE_IN_0_1
GpuSampler     *gpu_sampler_new                        (GpuContext      *context,
                                                        gboolean         normalized_coordinates,
                                                        GpuAddressMode   address_mode,
                                                        GpuFilterMode    filter_mode,
                                                        GError         **error);
GPU_AVAILABLE_IN_0_1
GpuSampler     *gpu_sampler_new_wrapped                (GpuContext      *context,
                                                        guint64          handle,
                                                        GpuWrapMode      mode,
                                                        GError         **error);
GPU_AVAILABLE_IN_0_1
GpuContext     *gpu_sampler_get_context                (GpuSampler      *sampler);
GPU_AVAILABLE_IN_0_1
GpuColor       *gpu_sampler_get_border_color           (GpuSampler      *sampler);
GPU_AVAILABLE_IN_0_1
guint64         gpu_sampler_get_native_handle          (GpuSampler      *sampler);
GPU_AVAILABLE_IN_0_1
gboolean        gpu_sampler_equal                      (GpuSampler      *a,
                                                        GpuSampler      *b);
GPU_AVAILABLE_IN_0_1
guint           gpu_sampler_hash                       (GpuSampler      *sampler);

G_END_DECLS
