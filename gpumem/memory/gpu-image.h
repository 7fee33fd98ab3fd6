/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#if !defined (__GPUMEM_INSIDE__) && !defined (GPUMEM_COMPILATION)
#error "Only <gpumem/gpumem.h> can be included directly."
#endif

#include <gpumem/memory/gpu-memory.h>

G_BEGIN_DECLS

#define GPU_TYPE_IMAGE (gpu_image_get_type ())

GPU_AVAILABLE_IN_0_1
G_DECLARE_FINAL_TYPE (GpuImage, gpu_image, GPU, IMAGE, GpuMemory)

GPU_AVAILABLE_IN_0_1
GpuImage       *gpu_image_new                (GpuContext            *context,
                                              GpuMemoryFlags         flags,
                                              const GpuImageFormat  *format,
                                              GpuImageType           type,
                                              const GpuExtent       *extent,
                                              GError               **error);
GPU_AVAILABLE_IN_0_1
GpuImage       *gpu_image_new_mipmapped      (GpuContext            *context,
                                              GpuMemoryFlags         flags,
                                              const GpuImageFormat  *format,
                                              GpuImageType           type,
                                              const GpuExtent       *extent,
                                              guint                  n_levels,
                                              GError               **error);
GPU_AVAILABLE_IN_0_1
GpuImage       *gpu_image_new_from_bytes     (GpuContext            *context,
                                              GpuMemoryFlags         flags,
                                              const GpuImageFormat  *format,
                                              GpuImageType           type,
                                              const GpuExtent       *extent,
                                              GBytes                *bytes,
                                              gsize                  row_pitch,
                                              gsize                  slice_pitch,
                                              GError               **error);
GPU_AVAILABLE_IN_0_1
GpuImage       *gpu_image_new_for_host_bytes (GpuContext            *context,
                                              GpuMemoryFlags         flags,
                                              const GpuImageFormat  *format,
                                              GpuImageType           type,
                                              const GpuExtent       *extent,
                                              GBytes                *bytes,
                                              gsize                  row_pitch,
                                              gsize                  slice_pitch,
                                              GError               **error);
GPU_AVAILABLE_IN_0_1
GpuImage       *gpu_image_new_for_buffer     (GpuBuffer             *buffer,
                                              GpuMemoryFlags         flags,
                                              const GpuImageFormat  *format,
                                              GpuImageType           type,
                                              gsize                  width,
                                              gsize                  height,
                                              gsize                  row_pitch,
                                              GError               **error);
GPU_AVAILABLE_IN_0_1
GpuImage       *gpu_image_new_wrapped        (GpuContext            *context,
                                              guint64                handle,
                                              const GpuImageFormat  *format,
                                              GpuWrapMode            mode,
                                              GBytes                *owner,
                                              GError               **error);
GPU_AVAILABLE_IN_0_1
GpuImage       *gpu_image_get_level          (GpuImage              *image,
                                              guint                  level,
                                              GError               **error);

GPU_AVAILABLE_IN_0_1
const GpuImageFormat *
                gpu_image_get_format         (GpuImage              *image);
GPU_AVAILABLE_IN_0_1
GpuImageType    gpu_image_get_image_type     (GpuImage              *image);
GPU_AVAILABLE_IN_0_1
void            gpu_image_get_extent         (GpuImage              *image,
                                              GpuExtent             *extent);
GPU_AVAILABLE_IN_0_1
guint           gpu_image_get_n_levels       (GpuImage              *image);
GPU_AVAILABLE_IN_0_1
gsize           gpu_image_get_row_pitch      (GpuImage              *image);
GPU_AVAILABLE_IN_0_1
gsize           gpu_image_get_slice_pitch    (GpuImage              *image);
GPU_AVAILABLE_IN_0_1
GpuBuffer      *gpu_image_get_buffer         (GpuImage              *image);
GPU_AVAILABLE_IN_0_1
GpuImage       *gpu_image_get_parent         (GpuImage              *image);

GPU_AVAILABLE_IN_0_1
guint64         gpu_image_get_native_object  (GpuImage              *image,
                                              GpuSampler            *sampler,
                                              GError               **error);

GPU_AVAILABLE_IN_0_1
gboolean        gpu_image_read               (GpuImage              *image,
                                              GpuStream             *stream,
                                              const GpuLayout       *layout,
                                              const GpuExtent       *extent,
                                              gpointer               data,
                                              gsize                  row_pitch,
                                              gsize                  slice_pitch,
                                              GCancellable          *cancellable,
                                              GError               **error);
GPU_AVAILABLE_IN_0_1
gboolean        gpu_image_write              (GpuImage              *image,
                                              GpuStream             *stream,
                                              const GpuLayout       *layout,
                                              const GpuExtent       *extent,
                                              gconstpointer          data,
                                              gsize                  row_pitch,
                                              gsize                  slice_pitch,
                                              GCancellable          *cancellable,
                                              GError               **error);
GPU_AVAILABLE_IN_0_1
GBytes         *gpu_image_read_bytes         (GpuImage              *image,
                                              GpuStream             *stream,
                                              const GpuLayout       *layout,
                                              const GpuExtent       *extent,
                                              GCancellable          *cancellable,
                                              GError               **error);
GPU_AVAILABLE_IN_0_1
void            gpu_image_read_bytes_async   (GpuImage              *image,
                                              GpuStream             *stream,
                                              const GpuLayout       *layout,
                                              const GpuExtent       *extent,
                                              GCancellable          *cancellable,
                                              GAsyncReadyCallback    callback,
                                              gpointer               user_data);
GPU_AVAILABLE_IN_0_1
GBytes         *gpu_image_read_bytes_finish  (GpuImage              *image,
                                              GAsyncResult          *result,
                                              GError               **error);
GPU_AVAILABLE_IN_0_1
gboolean        gpu_image_write_bytes        (GpuImage              *image,
                                              GpuStream             *stream,
                                              const GpuLayout       *layout,
                                              const GpuExtent       *extent,
                                              GBytes                *bytes,
                                              gsize                  row_pitch,
                                              gsize                  slice_pitch,
                                              GCancellable          *cancellable,
                                              GError               **error);
GPU_AVAILABLE_IN_0_1
void            gpu_image_write_bytes_async  (GpuImage              *image,
                                              GpuStream             *stream,
                                              const GpuLayout       *layout,
                                              const GpuExtent       *extent,
                                              GBytes                *bytes,
                                              gsize                  row_pitch,
                                              gsize                  slice_pitch,
                                              GCancellable          *cancellable,
                                              GAsyncReadyCallback    callback,
                                              gpointer               user_data);
GPU_AVAILABLE_IN_0_1
gboolean        gpu_image_write_bytes_finish (GpuImage              *image,
                                              GAsyncResult          *result,
                                              GError               **error);
GPU_AVAILABLE_IN_0_1
gboolean        gpu_image_fill               (GpuImage              *image,
                                              GpuStream             *stream,
                                              const GpuColor        *color,
                                              const GpuLayout       *layout,
                                              const GpuExtent       *extent,
                                              GCancellable          *cancellable,
                                              GError               **error);
GPU_AVAILABLE_IN_0_1
GpuMapping     *gpu_image_map                (GpuImage              *image,
                                              GpuStream             *stream,
                                              GpuMapFlags            flags,
                                              const GpuLayout       *layout,
                                              const GpuExtent       *extent,
                                              GCancellable          *cancellable,
                                              GError               **error);
GPU_AVAILABLE_IN_0_1
void            gpu_image_map_async          (GpuImage              *image,
                                              GpuStream             *stream,
                                              GpuMapFlags            flags,
                                              const GpuLayout       *layout,
                                              const GpuExtent       *extent,
                                              GCancellable          *cancellable,
                                              GAsyncReadyCallback    callback,
                                              gpointer               user_data);
GPU_AVAILABLE_IN_0_1
GpuMapping     *gpu_image_map_finish         (GpuImage              *image,
                                              GAsyncResult          *result,
                                              GError               **error);

G_END_DECLS
