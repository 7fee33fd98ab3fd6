/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#if !defined (__GPUMEM_INSIDE__) && !defined (GPUMEM_COMPILATION)
#error "Only <gpumem/gpumem.h> can be included directly."
#endif

#include <gpumem/base/gpu-types.h>

G_BEGIN_DECLS

#define GPU_TYPE_FILE (gpu_file_get_type ())

GPU_AVAILABLE_IN_0_1
G_DECLARE_FINAL_TYPE (GpuFile, gpu_file, GPU, FILE, GObject)

GPU_AVAILABLE_IN_0_1
GpuFile  *gpu_file_open                (GFile                 *file,
                                        GpuFileFlags           flags,
                                        GError               **error);
GPU_AVAILABLE_IN_0_1
GpuFile  *gpu_file_new_for_fd          (int                    fd,
                                        GpuFileFlags           flags,
                                        GError               **error);
GPU_AVAILABLE_IN_0_1
gint64    gpu_file_get_size            (GpuFile               *file,
                                        GError               **error);
GPU_AVAILABLE_IN_0_1
gboolean  gpu_stream_read_file         (GpuStream             *stream,
                                        GpuMemory             *memory,
                                        gsize                  offset,
                                        GpuFile               *file,
                                        guint64                position,
                                        gsize                  size,
                                        GCancellable          *cancellable,
                                        GError               **error);
GPU_AVAILABLE_IN_0_1
gboolean  gpu_stream_write_file        (GpuStream             *stream,
                                        GpuMemory             *memory,
                                        gsize                  offset,
                                        GpuFile               *file,
                                        guint64                position,
                                        gsize                  size,
                                        GCancellable          *cancellable,
                                        GError               **error);
GPU_AVAILABLE_IN_0_1
gboolean  gpu_memory_read_file         (GpuMemory             *memory,
                                        GpuStream             *stream,
                                        gsize                  offset,
                                        GpuFile               *file,
                                        guint64                position,
                                        gsize                  size,
                                        GCancellable          *cancellable,
                                        GError               **error);
GPU_AVAILABLE_IN_0_1
void      gpu_memory_read_file_async   (GpuMemory             *memory,
                                        GpuStream             *stream,
                                        gsize                  offset,
                                        GpuFile               *file,
                                        guint64                position,
                                        gsize                  size,
                                        GCancellable          *cancellable,
                                        GFileProgressCallback  progress_callback,
                                        gpointer               progress_data,
                                        GDestroyNotify         progress_notify,
                                        GAsyncReadyCallback    callback,
                                        gpointer               user_data);
GPU_AVAILABLE_IN_0_1
gboolean  gpu_memory_read_file_finish  (GpuMemory             *memory,
                                        GAsyncResult          *result,
                                        GError               **error);
GPU_AVAILABLE_IN_0_1
gboolean  gpu_memory_write_file        (GpuMemory             *memory,
                                        GpuStream             *stream,
                                        gsize                  offset,
                                        GpuFile               *file,
                                        guint64                position,
                                        gsize                  size,
                                        GCancellable          *cancellable,
                                        GError               **error);
GPU_AVAILABLE_IN_0_1
void      gpu_memory_write_file_async  (GpuMemory             *memory,
                                        GpuStream             *stream,
                                        gsize                  offset,
                                        GpuFile               *file,
                                        guint64                position,
                                        gsize                  size,
                                        GCancellable          *cancellable,
                                        GFileProgressCallback  progress_callback,
                                        gpointer               progress_data,
                                        GDestroyNotify         progress_notify,
                                        GAsyncReadyCallback    callback,
                                        gpointer               user_data);
GPU_AVAILABLE_IN_0_1
gboolean  gpu_memory_write_file_finish (GpuMemory             *memory,
                                        GAsyncResult          *result,
                                        GError               **error);

G_END_DECLS
