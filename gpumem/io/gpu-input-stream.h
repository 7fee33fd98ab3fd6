/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#if !defined (__GPUMEM_INSIDE__) && !defined (GPUMEM_COMPILATION)
#error "Only <gpumem/gpumem.h> can be included directly."
#endif

#include <gpumem/base/gpu-types.h>

G_BEGIN_DECLS

#define GPU_TYPE_INPUT_STREAM (gpu_input_stream_get_type ())

GPU_AVAILABLE_IN_0_1
G_DECLARE_FINAL_TYPE (GpuInputStream, gpu_input_stream, GPU, INPUT_STREAM, GInputStream)

GPU_AVAILABLE_IN_0_1
GInputStream *gpu_input_stream_new (GpuMemory  *memory,
                                   GpuStream  *stream,
                                   gsize       offset,
                                   gsize       size,
                                   GError    **error);

G_END_DECLS
