/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "gpumem/format/gpu-image-type-private.h"
#include "gpumem/memory/gpu-memory-private.h"

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
  gboolean             has_format;  /* that construction gave */
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
