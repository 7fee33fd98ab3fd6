/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "gpumem/format/gpu-image-type-private.h"
#include "gpumem/memory/gpu-memory-private.h"

G_BEGIN_DECLS

struct _GpuImage
{
  GpuMemory            parent_instance;

  GpuImageDescription  description;
  gsize                row_pitch;   /* bytes; the size of a row if the image is not linear */
  gsize                slice_pitch; /* bytes; the size of a slice if the image is not linear */
  GpuBuffer           *buffer;      /* (nullable): the buffer that contains the texels */
  GpuImage            *parent;      /* (nullable): the image that contains this mip level */
  guint                level;       /* index of this mip level within parent */
  gsize                n_layers;    /* the property "n-layers" as set at construction */
  gboolean             has_format;  /* the property "format" was set at construction */
};

/* Sets the origin in @side to the origin in @layout, or to the first texel if @layout is NULL. Sets
 * the offset in @side to the byte offset that this origin has in a linear image. Returns FALSE if
 * the region of @extent at that origin exceeds the image, or if @layout has pitches. */
gboolean _gpu_image_resolve        (GpuImage                  *image,
                                    const GpuLayout           *layout,
                                    const GpuExtent           *extent,
                                    const char                *function,
                                    const char                *what,
                                    GpuRegionSide             *side,
                                    GError                   **error);
/* Returns @extent if it is not NULL, and otherwise the extent from the origin of @layout to the end
 * of the image. */
GpuExtent
         _gpu_image_get_rest       (GpuImage                  *image,
                                    const GpuLayout           *layout,
                                    const GpuExtent           *extent);

/* The following three functions are in gpu-image-support.c. */

/* Returns FALSE with an error if the device does not support images. */
gboolean _gpu_image_check_support  (GpuNativeContext          *context,
                                    const char                *function,
                                    GError                   **error);
/* Returns FALSE with an error if the device does not support images with @flags. */
gboolean _gpu_image_check_flags    (GpuNativeContext          *context,
                                    GpuMemoryFlags             flags,
                                    const char                *function,
                                    GError                   **error);
/* Returns FALSE with an error if the device does not support images with @flags and @description.
 * Sets the texel size in @description. */
gboolean _gpu_image_check_description (GpuNativeContext       *context,
                                    GpuMemoryFlags             flags,
                                    GpuImageDescription       *description,
                                    const char                *function,
                                    GError                   **error);

/* gpu-image-new.c: creates the native image that was requested at construction. */
gboolean _gpu_image_initialize     (GpuImage                  *image,
                                    GError                   **error);

G_END_DECLS
