/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The structure of an image, its handle and its attributes. */
#include "config.h"

#include "gpumem/cuda/core/gpu-cuda-current.h"
#include "gpumem/cuda/image/gpu-cuda-image.h"
#include "gpumem/format/gpu-image-type-private.h"

GpuCudaImage *
_gpu_cuda_image_new (const GpuImageDescription *description,
                     CUarray_format             format,
                     guint                      n_channels)
{
  GpuCudaImage *image = g_new0 (GpuCudaImage, 1);
  GpuNativeImage *base = &image->base;

  base->base.backend = &_gpu_cuda_backend;
  base->base.is_image = TRUE;
  base->description = *description;
  base->row_pitch = description->extent.width * description->texel_size;
  base->slice_pitch = base->row_pitch * description->extent.height;

  _gpu_image_get_size (description, description->n_levels, &base->base.size);
  image->format = format;
  image->n_channels = n_channels;
  g_mutex_init (&image->lock);

  return image;
}

/* Caller has entered the context. */
static void
free_objects (GpuCudaImage *image)
{
  _gpu_cuda_image_clear_objects (image);

  if (!image->owned)
    return;

  if (image->mipmapped != NULL)
    _gpu_cuda.cuMipmappedArrayDestroy (image->mipmapped);
  else if (image->array != NULL)
    _gpu_cuda.cuArrayDestroy (image->array);
}

void
_gpu_cuda_image_free (GpuNativeContext *context,
                      GpuNativeMemory  *memory)
{
  GpuCudaImage *image = (GpuCudaImage *) memory;
  gboolean entered;

  if (_gpu_cuda_enter_again ((GpuCudaContext *) context, &entered, NULL))
    {
      free_objects (image);
      _gpu_cuda_leave (entered);
    }

  g_clear_pointer (&image->textures, g_hash_table_unref);
  g_mutex_clear (&image->lock);
  g_free (image);
}

guint64
_gpu_cuda_image_get_handle (const GpuCudaImage *image)
{
  if (image->mipmapped != NULL)
    return (guintptr) image->mipmapped;

  return image->array != NULL ? (guintptr) image->array : image->address;
}

static GVariant *
list_flags (guint bits)
{
  static const char *const names[] = { "layered", "surface-ldst", "cubemap", "texture-gather",
                                       "depth-texture", "color-attachment", "sparse",
                                       "deferred-mapping" };
  GVariantBuilder builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE_STRING_ARRAY);
  for (gsize i = 0; i < G_N_ELEMENTS (names); i++)
    {
      if ((bits & (1u << i)) != 0)
        g_variant_builder_add (&builder, "s", names[i]);
    }

  return g_variant_builder_end (&builder);
}

gboolean
_gpu_cuda_image_get_attributes (GpuNativeContext  *context,
                                GpuCudaImage      *image,
                                GVariantDict      *attributes,
                                GError           **error)
{
  CUDA_ARRAY3D_DESCRIPTOR descriptor = { 0 };
  gboolean entered;
  CUresult code;

  if (image->array == NULL)
    return _gpu_cuda_get_address_attributes (context, image->address, attributes, error);

  if (!_gpu_cuda_enter ((GpuCudaContext *) context, &entered, error))
    return FALSE;

  code = _gpu_cuda.cuArray3DGetDescriptor (&descriptor, image->array);
  _gpu_cuda_leave (entered);

  if (!_gpu_cuda_check (code, "cuArray3DGetDescriptor", error))
    return FALSE;

  g_variant_dict_insert (attributes, "memory-type", "s", "array");
  g_variant_dict_insert (attributes, "array-width", "t", (guint64) descriptor.Width);
  g_variant_dict_insert (attributes, "array-height", "t", (guint64) descriptor.Height);
  g_variant_dict_insert (attributes, "array-depth", "t", (guint64) descriptor.Depth);
  g_variant_dict_insert (attributes, "array-format", "u", (guint32) descriptor.Format);
  g_variant_dict_insert (attributes, "array-num-channels", "u", (guint32) descriptor.NumChannels);
  g_variant_dict_insert_value (attributes, "array-flags", list_flags (descriptor.Flags));

  return TRUE;
}
