/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Shared by the files of the CUDA back end that make images, and what kernels read and write them
 * by.
 */
#pragma once

#include "gpumem/cuda/gpu-cuda.h"

G_BEGIN_DECLS

/* What constant samplers of the portable dialect say. What follows goes into what is compiled, too,
 * as text. */
#define GPU_CUDA_SAMPLER_WORDS(_) \
  _ (CLK_ADDRESS_NONE, 0) \
  _ (CLK_ADDRESS_CLAMP_TO_EDGE, 2) \
  _ (CLK_ADDRESS_CLAMP, 4) \
  _ (CLK_ADDRESS_REPEAT, 6) \
  _ (CLK_ADDRESS_MIRRORED_REPEAT, 8) \
  _ (CLK_NORMALIZED_COORDS_FALSE, 0) \
  _ (CLK_NORMALIZED_COORDS_TRUE, 1) \
  _ (CLK_FILTER_NEAREST, 0x10) \
  _ (CLK_FILTER_LINEAR, 0x20)

/* Of those words together: what is outside, counted from the edge on. */
#define GPU_CUDA_SAMPLER_OUTSIDE(clk) (((clk) >> 1 & 7) < 2 ? 0 : ((clk) >> 1 & 7) - 1)
#define GPU_CUDA_SAMPLER_IS_LINEAR(clk) ((clk) >> 5 & 1)
#define GPU_CUDA_SAMPLER_IS_NORMALIZED(clk) ((clk) & 1)

/* The number of a constant sampler by what it says. Coordinates that count texels come first, as
 * they cannot repeat the image; then by what is outside, then by the filter. */
#define GPU_CUDA_SAMPLER_NUMBER(clk) \
  ((GPU_CUDA_SAMPLER_IS_NORMALIZED (clk) ? 4 + 2 * GPU_CUDA_SAMPLER_OUTSIDE (clk) \
    : GPU_CUDA_SAMPLER_OUTSIDE (clk) < 2 ? 2 * GPU_CUDA_SAMPLER_OUTSIDE (clk) : 0) \
   + GPU_CUDA_SAMPLER_IS_LINEAR (clk))
#define GPU_CUDA_N_CONSTANT_SAMPLERS 12

/* Samplers among the arguments of a kernel, which have the next numbers. */
#define GPU_CUDA_MAX_SAMPLERS 8
#define GPU_CUDA_N_SAMPLERS (GPU_CUDA_N_CONSTANT_SAMPLERS + GPU_CUDA_MAX_SAMPLERS)

/* Where a sampler says beside its number that coordinates are normalized. */
#define GPU_CUDA_SAMPLER_SHIFT 16

typedef struct
{
  GpuNativeImage    base;
  CUarray           array;              /* the first level; NULL if the image is linear */
  CUmipmappedArray  mipmapped;          /* NULL unless there are several levels */
  CUdeviceptr       address;            /* of a linear image */
  gsize             pitch;              /* of a linear image of rows, as the driver takes it */
  CUarray_format    format;
  guint             n_channels;
  gboolean          owned;              /* the array goes with the image */
  gboolean          has_surface;        /* the array was made for surfaces */
  GMutex            lock;               /* guards what follows */
  CUsurfObject      surface;            /* 0 until first needed */
  GHashTable       *textures;           /* of GpuCudaTexture, for each way to sample; nullable */
  CUtexObject       constants[GPU_CUDA_N_CONSTANT_SAMPLERS]; /* the same, by number, or 0 */
} GpuCudaImage;

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

/* gpu-cuda-image.c */
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

/* gpu-cuda-mapping.c */
GpuImageMapOp _gpu_cuda_map_image;

extern const GpuImageOps   _gpu_cuda_image_ops;
extern const GpuSamplerOps _gpu_cuda_sampler_ops;

G_END_DECLS
