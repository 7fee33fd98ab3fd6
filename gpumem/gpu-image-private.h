/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "gpumem/gpu-memory-private.h"

G_BEGIN_DECLS

struct _GpuImage
{
  GpuMemory            parent_instance;

  GpuImageDescription  description;
  gsize                row_pitch;   /* bytes, of an image without gaps if it is not linear */
  gsize                slice_pitch;
  GpuBuffer           *buffer;      /* that it is made over, nullable */
  GpuImage            *parent;      /* of a level, nullable */
  guint                level;       /* within parent */
  gsize                n_layers;    /* that construction asked for */
};

/* Resolves @layout, NULL for the first texel, for a region of @extent in @image into @side: its
 * origin in texels, and in bytes as if the image were linear. FALSE if it reaches past the end, or
 * the layout has pitches. */
gboolean _gpu_image_resolve        (GpuImage                  *image,
                                    const GpuLayout           *layout,
                                    const GpuExtent           *extent,
                                    const char                *function,
                                    const char                *what,
                                    GpuRegionSide             *side,
                                    GError                   **error);
/* @extent, or for NULL all from @layout on. */
GpuExtent
         _gpu_image_get_rest       (GpuImage                  *image,
                                    const GpuLayout           *layout,
                                    const GpuExtent           *extent);

/* gpu-image-format.c */
gboolean _gpu_image_format_is_known (const GpuImageFormat     *format);

/* gpu-image-type.c: what the types of images have for dimensions, and images for levels. */
gboolean _gpu_image_type_is_known  (GpuImageType               type);
const char *
         _gpu_image_type_get_name  (GpuImageType               type);
/* FALSE for what is no type of OpenCL C: "image2d_t". @name is nullable. */
gboolean _gpu_image_type_from_name (const char                *name,
                                    GpuImageType              *type);
/* 1, 2 or 3, those of a layer; and whether there are layers. */
guint    _gpu_image_type_get_n_dimensions (GpuImageType        type);
gboolean _gpu_image_type_has_layers (GpuImageType              type);
GpuExtent
         _gpu_image_get_level_extent (const GpuImageDescription *description,
                                    guint                      level);
/* Down to one texel. */
guint    _gpu_image_get_max_levels (const GpuImageDescription *description);
/* Bytes of the first @n_levels levels without gaps. FALSE if there are not so many. */
gboolean _gpu_image_get_size       (const GpuImageDescription *description,
                                    guint                      n_levels,
                                    gsize                     *size);

/* gpu-image-support.c: FALSE if there are no images, none with these flags, or not this one. Sets
 * the size of texels. */
gboolean _gpu_image_check_support  (GpuNativeContext          *context,
                                    const char                *function,
                                    GError                   **error);
gboolean _gpu_image_check_flags    (GpuNativeContext          *context,
                                    GpuMemoryFlags             flags,
                                    const char                *function,
                                    GError                   **error);
gboolean _gpu_image_check_description (GpuNativeContext       *context,
                                    GpuMemoryFlags             flags,
                                    GpuImageDescription       *description,
                                    const char                *function,
                                    GError                   **error);

/* gpu-image-new.c: makes the native image that construction asked for. */
gboolean _gpu_image_initialize     (GpuImage                  *image,
                                    GError                   **error);

G_END_DECLS
