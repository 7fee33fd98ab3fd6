/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Formats and maximum sizes of images. The driver cannot list its formats; this list is from the
 * manual of the driver. */
#include "config.h"

#include "gpumem/cuda/image/gpu-cuda-image.h"

/* For a normalized format, the library creates an integer array, which textures read as normalized
 * numbers. The driver's own normalized formats only occur in arrays that the program wraps. */
static const struct
{
  GpuChannelType  type;
  CUarray_format  format;
}
formats[] =
{
  { GPU_CHANNEL_TYPE_UINT8, CU_AD_FORMAT_UNSIGNED_INT8 },
  { GPU_CHANNEL_TYPE_UINT16, CU_AD_FORMAT_UNSIGNED_INT16 },
  { GPU_CHANNEL_TYPE_UINT32, CU_AD_FORMAT_UNSIGNED_INT32 },
  { GPU_CHANNEL_TYPE_INT8, CU_AD_FORMAT_SIGNED_INT8 },
  { GPU_CHANNEL_TYPE_INT16, CU_AD_FORMAT_SIGNED_INT16 },
  { GPU_CHANNEL_TYPE_INT32, CU_AD_FORMAT_SIGNED_INT32 },
  { GPU_CHANNEL_TYPE_FLOAT16, CU_AD_FORMAT_HALF },
  { GPU_CHANNEL_TYPE_FLOAT32, CU_AD_FORMAT_FLOAT },
  { GPU_CHANNEL_TYPE_UNORM8, CU_AD_FORMAT_UNSIGNED_INT8 },
  { GPU_CHANNEL_TYPE_UNORM16, CU_AD_FORMAT_UNSIGNED_INT16 },
  { GPU_CHANNEL_TYPE_SNORM8, CU_AD_FORMAT_SIGNED_INT8 },
  { GPU_CHANNEL_TYPE_SNORM16, CU_AD_FORMAT_SIGNED_INT16 },
  { GPU_CHANNEL_TYPE_UNORM8, CU_AD_FORMAT_UNORM_INT8X1 },
  { GPU_CHANNEL_TYPE_UNORM8, CU_AD_FORMAT_UNORM_INT8X2 },
  { GPU_CHANNEL_TYPE_UNORM8, CU_AD_FORMAT_UNORM_INT8X4 },
  { GPU_CHANNEL_TYPE_UNORM16, CU_AD_FORMAT_UNORM_INT16X1 },
  { GPU_CHANNEL_TYPE_UNORM16, CU_AD_FORMAT_UNORM_INT16X2 },
  { GPU_CHANNEL_TYPE_UNORM16, CU_AD_FORMAT_UNORM_INT16X4 },
  { GPU_CHANNEL_TYPE_SNORM8, CU_AD_FORMAT_SNORM_INT8X1 },
  { GPU_CHANNEL_TYPE_SNORM8, CU_AD_FORMAT_SNORM_INT8X2 },
  { GPU_CHANNEL_TYPE_SNORM8, CU_AD_FORMAT_SNORM_INT8X4 },
  { GPU_CHANNEL_TYPE_SNORM16, CU_AD_FORMAT_SNORM_INT16X1 },
  { GPU_CHANNEL_TYPE_SNORM16, CU_AD_FORMAT_SNORM_INT16X2 },
  { GPU_CHANNEL_TYPE_SNORM16, CU_AD_FORMAT_SNORM_INT16X4 }
};

/* The library creates arrays only with the first N_OWN formats. The other formats only occur in
 * arrays that the program wraps. */
#define N_OWN 12

static const struct
{
  GpuChannelOrder order;
  guint           n_channels;
}
orders[] =
{
  { GPU_CHANNEL_ORDER_R, 1 },
  { GPU_CHANNEL_ORDER_RG, 2 },
  { GPU_CHANNEL_ORDER_RGBA, 4 }
};

gboolean
_gpu_cuda_format_to_native (const GpuImageFormat *format,
                            CUarray_format       *native,
                            guint                *n_channels)
{
  for (gsize i = 0; i < N_OWN; i++)
    {
      for (gsize j = 0; j < G_N_ELEMENTS (orders); j++)
        {
          if (formats[i].type != format->channel_type || orders[j].order != format->channel_order)
            continue;

          *native = formats[i].format;
          *n_channels = orders[j].n_channels;
          return TRUE;
        }
    }

  return FALSE;
}

gboolean
_gpu_cuda_format_from_native (CUarray_format  native,
                              guint           n_channels,
                              GpuImageFormat *format)
{
  for (gsize i = 0; i < G_N_ELEMENTS (formats); i++)
    {
      for (gsize j = 0; j < G_N_ELEMENTS (orders); j++)
        {
          if (formats[i].format != native || orders[j].n_channels != n_channels)
            continue;

          *format = (GpuImageFormat) { orders[j].order, formats[i].type };
          return TRUE;
        }
    }

  return FALSE;
}

/* Lists the same formats for every image type, because all devices with texture objects support
 * these formats. CUDA arrays are always in device memory, so only images over buffers support
 * GPU_MEMORY_FLAGS_ALLOC_HOST. */
gboolean
_gpu_cuda_list_formats (GpuNativeContext  *context G_GNUC_UNUSED,
                        GpuMemoryFlags     flags,
                        GpuImageType       type,
                        GArray            *list,
                        GError           **error G_GNUC_UNUSED)
{
  if ((flags & GPU_MEMORY_FLAGS_ALLOC_HOST) != 0 && type != GPU_IMAGE_TYPE_IMAGE_1D_BUFFER)
    return TRUE;

  for (gsize i = 0; i < G_N_ELEMENTS (orders); i++)
    {
      for (gsize j = 0; j < N_OWN; j++)
        {
          const GpuImageFormat format = { orders[i].order, formats[j].type };

          g_array_append_val (list, format);
        }
    }

  return TRUE;
}

/* --- sizes ------------------------------------------------------------------------------------ */

#define MOST(name) CU_DEVICE_ATTRIBUTE_MAXIMUM_##name

/* For each image type, the device attributes for the maximum extent of textures, and then those for
 * the maximum extent of surfaces. The attribute is 0 for a dimension that the type does not use.
 * The smaller limit applies, because kernels may both read and write an image. */
static const CUdevice_attribute limits[][2][3] =
{
  [GPU_IMAGE_TYPE_IMAGE_1D] = { { MOST (TEXTURE1D_WIDTH) }, { MOST (SURFACE1D_WIDTH) } },
  [GPU_IMAGE_TYPE_IMAGE_1D_ARRAY] =
    { { MOST (TEXTURE1D_LAYERED_WIDTH), MOST (TEXTURE1D_LAYERED_LAYERS) },
      { MOST (SURFACE1D_LAYERED_WIDTH), MOST (SURFACE1D_LAYERED_LAYERS) } },
  [GPU_IMAGE_TYPE_IMAGE_1D_BUFFER] =
    { { MOST (TEXTURE1D_LINEAR_WIDTH) }, { MOST (TEXTURE1D_LINEAR_WIDTH) } },
  [GPU_IMAGE_TYPE_IMAGE_2D] =
    { { MOST (TEXTURE2D_WIDTH), MOST (TEXTURE2D_HEIGHT) },
      { MOST (SURFACE2D_WIDTH), MOST (SURFACE2D_HEIGHT) } },
  [GPU_IMAGE_TYPE_IMAGE_2D_ARRAY] =
    { { MOST (TEXTURE2D_LAYERED_WIDTH), MOST (TEXTURE2D_LAYERED_HEIGHT),
        MOST (TEXTURE2D_LAYERED_LAYERS) },
      { MOST (SURFACE2D_LAYERED_WIDTH), MOST (SURFACE2D_LAYERED_HEIGHT),
        MOST (SURFACE2D_LAYERED_LAYERS) } },
  [GPU_IMAGE_TYPE_IMAGE_3D] =
    { { MOST (TEXTURE3D_WIDTH), MOST (TEXTURE3D_HEIGHT), MOST (TEXTURE3D_DEPTH) },
      { MOST (SURFACE3D_WIDTH), MOST (SURFACE3D_HEIGHT), MOST (SURFACE3D_DEPTH) } },
  [GPU_IMAGE_TYPE_CUBEMAP] =
    { { MOST (TEXTURECUBEMAP_WIDTH), MOST (TEXTURECUBEMAP_WIDTH) },
      { MOST (SURFACECUBEMAP_WIDTH), MOST (SURFACECUBEMAP_WIDTH) } },
  [GPU_IMAGE_TYPE_CUBEMAP_ARRAY] =
    { { MOST (TEXTURECUBEMAP_LAYERED_WIDTH), MOST (TEXTURECUBEMAP_LAYERED_WIDTH),
        MOST (TEXTURECUBEMAP_LAYERED_LAYERS) },
      { MOST (SURFACECUBEMAP_LAYERED_WIDTH), MOST (SURFACECUBEMAP_LAYERED_WIDTH),
        MOST (SURFACECUBEMAP_LAYERED_LAYERS) } }
};

void
_gpu_cuda_get_max_extent (GpuNativeContext *context,
                          GpuImageType      type,
                          GpuExtent        *extent)
{
  GpuCudaDevice *device = ((GpuCudaContext *) context)->device;
  gsize sizes[3] = { 1, 1, 1 };

  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    {
      if (limits[type][0][i] != 0)
        sizes[i] = (gsize) MIN (_gpu_cuda_get_optional (device, limits[type][0][i]),
                                _gpu_cuda_get_optional (device, limits[type][1][i]));
    }

  if (type == GPU_IMAGE_TYPE_CUBEMAP)
    sizes[2] = 6;

  if (sizes[0] == 0 || sizes[1] == 0 || sizes[2] == 0)
    *extent = (GpuExtent) { 0, 0, 0 };
  else
    *extent = (GpuExtent) { sizes[0], sizes[1], sizes[2] };
}
