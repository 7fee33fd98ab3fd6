/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the types of images have for dimensions, and images for levels: no class is in between, so
 * back ends may use it. */
#pragma once

#include "gpumem/backend/gpu-backend.h"

G_BEGIN_DECLS

gboolean    _gpu_image_type_is_known         (GpuImageType                type);
const char *_gpu_image_type_get_name         (GpuImageType                type);
/* FALSE for what is no type of OpenCL C: "image2d_t". @name is nullable. */
gboolean    _gpu_image_type_from_name        (const char                 *name,
                                              GpuImageType               *type);
/* 1, 2 or 3, those of a layer; and whether there are layers. */
guint       _gpu_image_type_get_n_dimensions (GpuImageType                type);
gboolean    _gpu_image_type_has_layers       (GpuImageType                type);
GpuExtent   _gpu_image_get_level_extent      (const GpuImageDescription  *description,
                                              guint                       level);
/* Down to one texel. */
guint       _gpu_image_get_max_levels        (const GpuImageDescription  *description);
/* Bytes of the first @n_levels levels without gaps. FALSE if there are not so many. */
gboolean    _gpu_image_get_size              (const GpuImageDescription  *description,
                                              guint                       n_levels,
                                              gsize                      *size);

/* gpu-image-format.c */
gboolean    _gpu_image_format_is_known       (const GpuImageFormat       *format);

G_END_DECLS
