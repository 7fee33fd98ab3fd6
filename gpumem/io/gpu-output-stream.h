/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#if !defined (__GPUMEM_INSIDE__) && !defined (GPUMEM_COMPILATION)
#error "Only <gpumem/gpumem.h> can be included directly."
#endif

#include <gpumem/base/gpu-types.h>

G_BEGIN_DECLS

#define GPU_TYPE_OUTPUT_STREAM (gpu_output_stream_get_type ())

GPU_AVAILABLE_IN_0_1
G_DECLARE_FINAL_TYPE (GpuOutputStream, gpu_output_stream, GPU, OUTPUT_STREAM, GOutputStream)

GPU_AVAILABLE_IN_0_1
GOutputStream *gpu_output_stream_new (GpuMemory  *memory,
                                   GpuStream  *stream,
                                   gsize       offset,
                                   gsize       size,
                                   GError    **error);
GPU_AVAILABLE_IN_0_1
void           gpu_memory_splice_async  (GpuMemory           *memory,
                                         GpuStream           *stream,
                                         gsize                offset,
                                         gsize                size,
                                         gboolean             send,
                                         GIOStream          **connections,
                                         guint                n_connections,
                                         GCancellable        *cancellable,
                                         GAsyncReadyCallback  callback,
                                         gpointer             user_data);
GPU_AVAILABLE_IN_0_1
gboolean       gpu_memory_splice_finish (GpuMemory           *memory,
                                         GAsyncResult        *result,
                                         GError             **error);

G_END_DECLS
