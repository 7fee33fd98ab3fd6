/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#if !defined (__GPUMEM_INSIDE__) && !defined (GPUMEM_COMPILATION)
#error "Only <gpumem/gpumem.h> can be included directly."
#endif

#include <gpumem/base/gpu-types.h>

G_BEGIN_DECLS

#define GPU_TYPE_ARGUMENTS (gpu_arguments_get_type ())

GPU_AVAILABLE_IN_0_1
GType         gpu_arguments_get_type   (void) G_GNUC_CONST;
GPU_AVAILABLE_IN_0_1
GpuArguments *gpu_arguments_new        (void);
GPU_AVAILABLE_IN_0_1
GpuArguments *gpu_arguments_ref        (GpuArguments *arguments);
GPU_AVAILABLE_IN_0_1
void          gpu_arguments_unref      (GpuArguments *arguments);
GPU_AVAILABLE_IN_0_1
guint         gpu_arguments_get_length (GpuArguments *arguments);
GPU_AVAILABLE_IN_0_1
void          gpu_arguments_clear      (GpuArguments *arguments);
GPU_AVAILABLE_IN_0_1
void          gpu_arguments_add_memory (GpuArguments *arguments,
                                        GpuMemory    *memory);
GPU_AVAILABLE_IN_0_1
gboolean      gpu_arguments_add_array  (GpuArguments *arguments,
                                        GpuArray     *array,
                                        GError      **error);
GPU_AVAILABLE_IN_0_1
void          gpu_arguments_add_indirect
                                       (GpuArguments *arguments,
                                        GpuMemory    *memory);
GPU_AVAILABLE_IN_0_1
void          gpu_arguments_add_sampler (GpuArguments *arguments,
                                        GpuSampler   *sampler);
GPU_AVAILABLE_IN_0_1
void          gpu_arguments_add_texture (GpuArguments *arguments,
                                        GpuImage     *image,
                                        GpuSampler   *sampler);
GPU_AVAILABLE_IN_0_1
void          gpu_arguments_add_local  (GpuArguments *arguments,
                                        gsize         size);
GPU_AVAILABLE_IN_0_1
void          gpu_arguments_add_value  (GpuArguments  *arguments,
                                        gconstpointer  data,
                                        gsize          size);
GPU_AVAILABLE_IN_0_1
void          gpu_arguments_add_address (GpuArguments *arguments,
                                        guint64       address);
GPU_AVAILABLE_IN_0_1
void          gpu_arguments_add_int    (GpuArguments *arguments,
                                        gint64        value);
GPU_AVAILABLE_IN_0_1
void          gpu_arguments_add_uint   (GpuArguments *arguments,
                                        guint64       value);
GPU_AVAILABLE_IN_0_1
void          gpu_arguments_add_double (GpuArguments *arguments,
                                        gdouble       value);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (GpuArguments, gpu_arguments_unref)

G_END_DECLS
