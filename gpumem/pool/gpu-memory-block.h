/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#if !defined (__GPUMEM_INSIDE__) && !defined (GPUMEM_COMPILATION)
#error "Only <gpumem/gpumem.h> can be included directly."
#endif

#include <gpumem/base/gpu-types.h>

G_BEGIN_DECLS

#define GPU_TYPE_MEMORY_BLOCK (gpu_memory_block_get_type ())

GPU_AVAILABLE_IN_0_1
GType           gpu_memory_block_get_type       (void) G_GNUC_CONST;
GPU_AVAILABLE_IN_0_1
GpuMemoryBlock *gpu_memory_block_ref            (GpuMemoryBlock        *block);
GPU_AVAILABLE_IN_0_1
void            gpu_memory_block_unref          (GpuMemoryBlock        *block);
GPU_AVAILABLE_IN_0_1
guint64         gpu_memory_block_get_address    (const GpuMemoryBlock  *block);
GPU_AVAILABLE_IN_0_1
gsize           gpu_memory_block_get_size       (const GpuMemoryBlock  *block);
GPU_AVAILABLE_IN_0_1
gboolean        gpu_memory_block_add_stream     (GpuMemoryBlock        *block,
                                                 GpuStream             *stream,
                                                 GError               **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (GpuMemoryBlock, gpu_memory_block_unref)

G_END_DECLS
