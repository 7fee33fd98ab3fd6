/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Functions shared by the files that create images and their texture and surface objects.
 */
#pragma once

#include "gpumem/cuda/core/gpu-cuda.h"

G_BEGIN_DECLS

/* gpu-cuda-format.c */
/* Returns FALSE if arrays do not support @format. */
gboolean    _gpu_cuda_format_to_native   (const GpuImageFormat  *format,
                                          CUarray_format        *native,
                                          guint                 *n_channels);
/* If @native is an integer format, sets @format to integer channels, never to normalized channels.
 * Returns FALSE for an unknown format. */
gboolean    _gpu_cuda_format_from_native (CUarray_format         native,
                                          guint                  n_channels,
                                          GpuImageFormat        *format);
GpuImageListFormatsOp _gpu_cuda_list_formats;
GpuImageGetMaxExtentOp _gpu_cuda_get_max_extent;

/* gpu-cuda-image-info.c */
/* Creates the structure of an image. The caller has checked the sizes for overflow. */
GpuCudaImage *
            _gpu_cuda_image_new          (const GpuImageDescription *description,
                                          CUarray_format         format,
                                          guint                  n_channels);
void        _gpu_cuda_image_free         (GpuNativeContext      *context,
                                          GpuNativeMemory       *memory);
/* Returns the array, the mipmapped array, or the address of a linear image. */
guint64     _gpu_cuda_image_get_handle   (const GpuCudaImage    *image);
gboolean    _gpu_cuda_image_get_attributes (GpuNativeContext    *context,
                                          GpuCudaImage          *image,
                                          GVariantDict          *attributes,
                                          GError               **error);

/* gpu-cuda-texture.c. Caller has entered the context. Each function creates the texture or surface
 * object on first use; the image owns the object. */
/* If @lenient is TRUE, the function accepts two kinds of unsupported samplers: for integer texels,
 * it replaces linear by nearest filtering, and for normalized formats, it ignores the read mode. */
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
/* Returns a texture object, or a surface object if @sampler is NULL. */
gboolean    _gpu_cuda_image_find_object  (GpuCudaImage          *image,
                                          GpuNativeSampler      *sampler,
                                          guint64               *handle,
                                          GError               **error);
void        _gpu_cuda_image_clear_objects (GpuCudaImage         *image);
/* The op with the same effect as _gpu_cuda_image_find_object(). The caller need not have entered
 * the context. */
GpuImageGetObjectOp _gpu_cuda_image_get_object;

extern const GpuImageOps   _gpu_cuda_image_ops;
extern const GpuSamplerOps _gpu_cuda_sampler_ops;

G_END_DECLS
