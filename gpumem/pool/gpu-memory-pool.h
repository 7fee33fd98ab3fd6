/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#if !defined (__GPUMEM_INSIDE__) && !defined (GPUMEM_COMPILATION)
#error "Only <gpumem/gpumem.h> can be included directly."
#endif

#include <gpumem/base/gpu-types.h>

G_BEGIN_DECLS

#define GPU_TYPE_MEMORY_POOL (gpu_memory_pool_get_type ())

/**
 * GPU_MEMORY_POOL_MAX_HISTORY:
 *
 * The maximum number of events in the history of a #GpuMemoryPool.
 *
 * Since: 0.1
 */
#define GPU_MEMORY_POOL_MAX_HISTORY 16777216

GPU_AVAILABLE_IN_0_1
G_DECLARE_FINAL_TYPE (GpuMemoryPool, gpu_memory_pool, GPU, MEMORY_POOL, GObject)

GPU_AVAILABLE_IN_0_1
GpuMemoryPool    *gpu_memory_pool_new                      (GpuContext       *context,
                                                            GpuMemoryPoolKind kind,
                                                            GpuMemoryFlags    flags,
                                                            GError          **error);
GPU_AVAILABLE_IN_0_1
GpuMemoryPool    *gpu_memory_pool_new_for_allocator        (GpuAllocator     *allocator,
                                                            GpuMemoryPoolKind kind,
                                                            guint             leading_bits,
                                                            GError          **error);

GPU_AVAILABLE_IN_0_1
GpuMemoryBlock   *gpu_memory_pool_alloc_block              (GpuMemoryPool    *pool,
                                                            gsize             size,
                                                            GpuStream        *stream,
                                                            GError          **error);
GPU_AVAILABLE_IN_0_1
GpuMemoryBlock   *gpu_memory_pool_alloc_block_aligned      (GpuMemoryPool    *pool,
                                                            gsize             size,
                                                            gsize             alignment,
                                                            GpuStream        *stream,
                                                            GError          **error);
GPU_AVAILABLE_IN_0_1
GPtrArray        *gpu_memory_pool_alloc_blocks             (GpuMemoryPool    *pool,
                                                            const gsize      *sizes,
                                                            guint             n_blocks,
                                                            GpuStream        *stream,
                                                            GError          **error);
GPU_AVAILABLE_IN_0_1
gboolean          gpu_memory_pool_free_block               (GpuMemoryPool    *pool,
                                                            GpuMemoryBlock   *block,
                                                            GpuStream        *stream,
                                                            GError          **error);
GPU_AVAILABLE_IN_0_1
void              gpu_memory_pool_free_blocks              (GpuMemoryPool    *pool,
                                                            GpuMemoryBlock  **blocks,
                                                            guint             n_blocks,
                                                            GpuStream        *stream);
GPU_AVAILABLE_IN_0_1
GpuBuffer        *gpu_memory_pool_alloc_buffer             (GpuMemoryPool    *pool,
                                                            gsize             size,
                                                            GpuStream        *stream,
                                                            GError          **error);
GPU_AVAILABLE_IN_0_1
GpuSvm           *gpu_memory_pool_alloc_svm                (GpuMemoryPool    *pool,
                                                            gsize             size,
                                                            GpuStream        *stream,
                                                            GError          **error);

GPU_AVAILABLE_IN_0_1
void              gpu_memory_pool_set_limit                (GpuMemoryPool    *pool,
                                                            guint64           limit);
GPU_AVAILABLE_IN_0_1
gboolean          gpu_memory_pool_set_fragmentation_target (GpuMemoryPool    *pool,
                                                            double            target,
                                                            GError          **error);
GPU_AVAILABLE_IN_0_1
gboolean          gpu_memory_pool_set_fraction             (GpuMemoryPool    *pool,
                                                            double            fraction,
                                                            GError          **error);
GPU_AVAILABLE_IN_0_1
void              gpu_memory_pool_trim                     (GpuMemoryPool    *pool,
                                                            guint64           managed_bytes);
GPU_AVAILABLE_IN_0_1
void              gpu_memory_pool_free_held                (GpuMemoryPool    *pool);
GPU_AVAILABLE_IN_0_1
void              gpu_memory_pool_stop_holding             (GpuMemoryPool    *pool);
GPU_AVAILABLE_IN_0_1
void              gpu_memory_pool_reset_peaks              (GpuMemoryPool    *pool);

GPU_AVAILABLE_IN_0_1
guint             gpu_memory_pool_bin_number               (GpuMemoryPool    *pool,
                                                            gsize             size);
GPU_AVAILABLE_IN_0_1
gsize             gpu_memory_pool_alloc_size               (GpuMemoryPool    *pool,
                                                            guint             bin);

GPU_AVAILABLE_IN_0_1
GVariant         *gpu_memory_pool_get_statistics           (GpuMemoryPool    *pool);
GPU_AVAILABLE_IN_0_1
GVariant         *gpu_memory_pool_snapshot                 (GpuMemoryPool    *pool);
GPU_AVAILABLE_IN_0_1
gboolean          gpu_memory_pool_set_history_size         (GpuMemoryPool    *pool,
                                                            guint             n_events,
                                                            GError          **error);
GPU_AVAILABLE_IN_0_1
GVariant         *gpu_memory_pool_get_history              (GpuMemoryPool    *pool);

G_END_DECLS
