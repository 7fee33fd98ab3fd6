/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#if !defined (__GPUMEM_INSIDE__) && !defined (GPUMEM_COMPILATION)
#error "Only <gpumem/gpumem.h> can be included directly."
#endif

#include <gpumem/memory/gpu-memory.h>

G_BEGIN_DECLS

#define GPU_TYPE_SVM (gpu_svm_get_type ())

GPU_AVAILABLE_IN_0_1
G_DECLARE_FINAL_TYPE (GpuSvm, gpu_svm, GPU, SVM, GpuMemory)

GPU_AVAILABLE_IN_0_1
GpuSvm     *gpu_svm_new            (GpuContext           *context,
                                    GpuMemoryFlags        flags,
                                    GpuSvmFlags           svm_flags,
                                    gsize                 size,
                                    gsize                 alignment,
                                    GError              **error);
GPU_AVAILABLE_IN_0_1
GpuSvm     *gpu_svm_new_for_bytes  (GpuContext           *context,
                                    GpuMemoryFlags        flags,
                                    GBytes               *bytes,
                                    GError              **error);
GPU_AVAILABLE_IN_0_1
gpointer    gpu_svm_get_data       (GpuSvm               *svm);
GPU_AVAILABLE_IN_0_1
GBytes     *gpu_svm_get_bytes      (GpuSvm               *svm,
                                    GError              **error);
GPU_AVAILABLE_IN_0_1
GpuMapping *gpu_svm_map            (GpuSvm               *svm,
                                    GpuStream            *stream,
                                    GpuMapFlags           flags,
                                    gsize                 offset,
                                    gsize                 size,
                                    GCancellable         *cancellable,
                                    GError              **error);
GPU_AVAILABLE_IN_0_1
void        gpu_svm_map_async      (GpuSvm               *svm,
                                    GpuStream            *stream,
                                    GpuMapFlags           flags,
                                    gsize                 offset,
                                    gsize                 size,
                                    GCancellable         *cancellable,
                                    GAsyncReadyCallback   callback,
                                    gpointer              user_data);
GPU_AVAILABLE_IN_0_1
GpuMapping *gpu_svm_map_finish     (GpuSvm               *svm,
                                    GAsyncResult         *result,
                                    GError              **error);
GPU_AVAILABLE_IN_0_1
gboolean    gpu_svm_prefetch       (GpuSvm               *svm,
                                    GpuStream            *stream,
                                    GpuMigrateFlags       flags,
                                    gsize                 offset,
                                    gsize                 size,
                                    GError              **error);
GPU_AVAILABLE_IN_0_1
gboolean    gpu_svm_advise         (GpuSvm               *svm,
                                    GpuMemoryAdvice       advice,
                                    gsize                 offset,
                                    gsize                 size,
                                    GpuDevice            *device,
                                    GError              **error);
GPU_AVAILABLE_IN_0_1
gboolean    gpu_svm_attach         (GpuSvm               *svm,
                                    GpuStream            *stream,
                                    GpuSvmAttachment      attachment,
                                    GError              **error);

G_END_DECLS
