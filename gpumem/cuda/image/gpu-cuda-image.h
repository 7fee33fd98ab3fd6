/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Shared by the files of the CUDA back end that make images, and what kernels read and write them
 * by.
 */
#pragma once

#include "gpumem/cuda/core/gpu-cuda.h"

G_BEGIN_DECLS

/* gpu-cuda-format.c */
/* FALSE: arrays have no such format. */
gboolean    _gpu_cuda_format_to_native   (const GpuImageFormat  *format,
                                          CUarray_format        *native,
                                          guint                 *n_channels);
/* Integers are integers, whatever they stand for. FALSE: there is no name for it. */
gboolean    _gpu_cuda_format_from_native (CUarray_format         native,
                                          guint                  n_channels,
                                          GpuImageFormat        *format);
GpuImageListFormatsOp _gpu_cuda_list_formats;
GpuImageGetMaxExtentOp _gpu_cuda_get_max_extent;

/* gpu-cuda-image-info.c */
/* Takes nothing over. The front class has seen that the sizes can be multiplied. */
GpuCudaImage *
            _gpu_cuda_image_new          (const GpuImageDescription *description,
                                          CUarray_format         format,
                                          guint                  n_channels);
void        _gpu_cuda_image_free         (GpuNativeContext      *context,
                                          GpuNativeMemory       *memory);
/* An array, a mipmapped array, or the address of a linear image. */
guint64     _gpu_cuda_image_get_handle   (const GpuCudaImage    *image);
gboolean    _gpu_cuda_image_get_attributes (GpuNativeContext    *context,
                                          GpuCudaImage          *image,
                                          GVariantDict          *attributes,
                                          GError               **error);

/* gpu-cuda-texture.c: made when first needed, and kept by the image. With the context entered. */
/* @lenient: what cannot be filtered is not, where it would be an error of the driver. */
gboolean    _gpu_cuda_image_get_texture  (GpuCudaImage                 *image,
                                          const GpuSamplerDescription  *sampler,
                                          gboolean                      lenient,
                                          CUtexObject                  *texture,
                                          GError                      **error);
gboolean    _gpu_cuda_image_get_constant (GpuCudaImage          *image,
                                          guint                  number,
                                          CUtexObject           *texture,
                                          GError               **error);
gboolean    _gpu_cuda_image_get_surface  (GpuCudaImage          *image,
                                          CUsurfObject          *surface,
                                          GError               **error);
/* A texture for a sampler, a surface for NULL. */
gboolean    _gpu_cuda_image_find_object  (GpuCudaImage          *image,
                                          GpuNativeSampler      *sampler,
                                          guint64               *handle,
                                          GError               **error);
void        _gpu_cuda_image_clear_objects (GpuCudaImage         *image);
/* The same, as an op: the context need not be entered. */
GpuImageGetObjectOp _gpu_cuda_image_get_object;

extern const GpuImageOps   _gpu_cuda_image_ops;
extern const GpuSamplerOps _gpu_cuda_sampler_ops;

G_END_DECLS
