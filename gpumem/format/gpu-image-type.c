/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/format/gpu-image-type-private.h"

static const struct
{
  const char *name;
  const char *kernel_name;          /* (nullable): the name of the type in OpenCL C */
  guint       n_dimensions;
  gboolean    has_layers;
}
types[] =
{
  [GPU_IMAGE_TYPE_IMAGE_1D]        = { "1d", "image1d_t", 1, FALSE },
  [GPU_IMAGE_TYPE_IMAGE_1D_ARRAY]  = { "1d-array", "image1d_array_t", 1, TRUE },
  [GPU_IMAGE_TYPE_IMAGE_1D_BUFFER] = { "1d-buffer", "image1d_buffer_t", 1, FALSE },
  [GPU_IMAGE_TYPE_IMAGE_2D]        = { "2d", "image2d_t", 2, FALSE },
  [GPU_IMAGE_TYPE_IMAGE_2D_ARRAY]  = { "2d-array", "image2d_array_t", 2, TRUE },
  [GPU_IMAGE_TYPE_IMAGE_3D]        = { "3d", "image3d_t", 3, FALSE },
  [GPU_IMAGE_TYPE_CUBEMAP]         = { "cubemap", NULL, 2, TRUE },
  [GPU_IMAGE_TYPE_CUBEMAP_ARRAY]   = { "cubemap-array", NULL, 2, TRUE }
};

gboolean
_gpu_image_type_is_known (GpuImageType type)
{
  return (guint) type < G_N_ELEMENTS (types);
}

const char *
_gpu_image_type_get_name (GpuImageType type)
{
  return types[type].name;
}

gboolean
_gpu_image_type_from_name (const char   *name,
                           GpuImageType *type)
{
  for (guint i = 0; name != NULL && i < G_N_ELEMENTS (types); i++)
    {
      if (g_strcmp0 (types[i].kernel_name, name) == 0)
        {
          *type = i;
          return TRUE;
        }
    }

  return FALSE;
}

guint
_gpu_image_type_get_n_dimensions (GpuImageType type)
{
  return types[type].n_dimensions;
}

gboolean
_gpu_image_type_has_layers (GpuImageType type)
{
  return types[type].has_layers;
}

static gsize
halve (gsize size,
       guint level)
{
  return MAX (size >> level, 1);
}

GpuExtent
_gpu_image_get_level_extent (const GpuImageDescription *description,
                             guint                      level)
{
  guint n_dimensions = types[description->type].n_dimensions;
  GpuExtent extent = description->extent;

  extent.width = halve (extent.width, level);

  if (n_dimensions > 1)
    extent.height = halve (extent.height, level);

  if (n_dimensions > 2)
    extent.depth = halve (extent.depth, level);

  return extent;
}

guint
_gpu_image_get_max_levels (const GpuImageDescription *description)
{
  guint n_dimensions = types[description->type].n_dimensions;
  gsize largest = description->extent.width;

  if (n_dimensions > 1)
    largest = MAX (largest, description->extent.height);

  if (n_dimensions > 2)
    largest = MAX (largest, description->extent.depth);

  return g_bit_storage (largest);
}

gboolean
_gpu_image_get_size (const GpuImageDescription *description,
                     guint                      n_levels,
                     gsize                     *size)
{
  *size = 0;

  for (guint i = 0; i < n_levels; i++)
    {
      GpuExtent extent = _gpu_image_get_level_extent (description, i);
      gsize level_size = description->texel_size;

      if (!g_size_checked_mul (&level_size, level_size, extent.width)
          || !g_size_checked_mul (&level_size, level_size, extent.height)
          || !g_size_checked_mul (&level_size, level_size, extent.depth)
          || !g_size_checked_add (size, *size, level_size))
        return FALSE;
    }

  return TRUE;
}
