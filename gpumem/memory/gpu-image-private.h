/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "gpumem/format/gpu-image-type-private.h"
#include "gpumem/memory/gpu-memory-private.h"

G_BEGIN_DECLS

struct _GpuImage
{
  GpuMemory            parent_instance;

  GpuImageDescription  description;
  gsize                row_pitch;   /* bytes; without gaps if the image is not linear */
  gsize                slice_pitch;
  GpuBuffer           *buffer;      /* (nullable): that it views */
  GpuImage            *parent;      /* (nullable): of a mip level */
  guint                level;       /* within parent */
  gsize                n_layers;    /* requested at construction */
  gboolean             has_format;  /* given at construction */
};

/* Resolves @layout, or NULL for the first texel, for a region of @extent in @image. @side gets the
 * origin in texels, and in bytes as if the image were linear. FALSE if the region exceeds the image
 * or the layout has pitches. */
gboolean _gpu_image_resolve        (GpuImage                  *image,
                                    const GpuLayout           *layout,
                                    const GpuExtent           *extent,
                                    const char                *function,
                                    const char                *what,
                                    GpuRegionSide             *side,
                                    GError                   **error);
/* @extent or, if it is NULL, all texels from the origin of @layout. */
GpuExtent
         _gpu_image_get_rest       (GpuImage                  *image,
                                    const GpuLayout           *layout,
                                    const GpuExtent           *extent);

/* gpu-image-support.c: FALSE if the device lacks images, images with these flags, or this image.
 * The last one sets the size of texels. */
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

/* gpu-image-new.c: creates the native image that was requested at construction. */
gboolean _gpu_image_initialize     (GpuImage                  *image,
                                    GError                   **error);

G_END_DECLS
