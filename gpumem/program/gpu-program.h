/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#if !defined (__GPUMEM_INSIDE__) && !defined (GPUMEM_COMPILATION)
#error "Only <gpumem/gpumem.h> can be included directly."
#endif

#include <gpumem/base/gpu-types.h>

G_BEGIN_DECLS

#define GPU_TYPE_PROGRAM (gpu_program_get_type ())

GPU_AVAILABLE_IN_0_1
G_DECLARE_FINAL_TYPE (GpuProgram, gpu_program, GPU, PROGRAM, GObject)

GPU_AVAILABLE_IN_0_1
GpuProgram  *gpu_program_new_from_source        (GpuContext           *context,
                                                 const char           *source,
                                                 const char           *options,
                                                 GError              **error);
GPU_AVAILABLE_IN_0_1
GpuProgram  *gpu_program_new_from_source_full   (GpuContext           *context,
                                                 const char           *source,
                                                 const char           *options,
                                                 GpuProgramFlags       flags,
                                                 const char *const    *names,
                                                 GHashTable           *headers,
                                                 GError              **error);
GPU_AVAILABLE_IN_0_1
void         gpu_program_new_from_source_async  (GpuContext           *context,
                                                 const char           *source,
                                                 const char           *options,
                                                 GCancellable         *cancellable,
                                                 GAsyncReadyCallback   callback,
                                                 gpointer              user_data);
GPU_AVAILABLE_IN_0_1
GpuProgram  *gpu_program_new_from_source_finish (GAsyncResult         *result,
                                                 GError              **error);
GPU_AVAILABLE_IN_0_1
GpuProgram  *gpu_program_new_from_binary        (GpuContext           *context,
                                                 GBytes               *binary,
                                                 const char           *options,
                                                 GError              **error);
GPU_AVAILABLE_IN_0_1
GpuProgram  *gpu_program_new_from_il            (GpuContext           *context,
                                                 GBytes               *il,
                                                 const char           *options,
                                                 GError              **error);
GPU_AVAILABLE_IN_0_1
GpuProgram  *gpu_program_new_from_file          (GpuContext           *context,
                                                 GFile                *file,
                                                 const char           *options,
                                                 GError              **error);
GPU_AVAILABLE_IN_0_1
GpuProgram  *gpu_program_new_wrapped            (GpuContext           *context,
                                                 guint64               handle,
                                                 GpuWrapMode           mode,
                                                 GError              **error);
GPU_AVAILABLE_IN_0_1
GBytes      *gpu_program_compile                (GpuContext           *context,
                                                 const char           *source,
                                                 const char           *options,
                                                 GHashTable           *headers,
                                                 GError              **error);
GPU_AVAILABLE_IN_0_1
GpuProgram  *gpu_program_new_linked             (GpuContext           *context,
                                                 GBytes              **images,
                                                 gsize                 n_images,
                                                 const char           *options,
                                                 GError              **error);
GPU_AVAILABLE_IN_0_1
GpuContext  *gpu_program_get_context            (GpuProgram           *program);
GPU_AVAILABLE_IN_0_1
const char  *gpu_program_get_build_log          (GpuProgram           *program);
GPU_AVAILABLE_IN_0_1
gboolean     gpu_program_is_from_cache          (GpuProgram           *program);
GPU_AVAILABLE_IN_0_1
GBytes      *gpu_program_get_binary             (GpuProgram           *program,
                                                 GError              **error);
GPU_AVAILABLE_IN_0_1
char       **gpu_program_list_kernels           (GpuProgram           *program,
                                                 GError              **error);
GPU_AVAILABLE_IN_0_1
GpuKernel   *gpu_program_get_kernel             (GpuProgram           *program,
                                                 const char           *name,
                                                 GError              **error);
GPU_AVAILABLE_IN_0_1
const char  *gpu_program_get_lowered_name       (GpuProgram           *program,
                                                 const char           *name);
GPU_AVAILABLE_IN_0_1
GpuBuffer   *gpu_program_get_global             (GpuProgram           *program,
                                                 const char           *name,
                                                 GError              **error);

G_END_DECLS
