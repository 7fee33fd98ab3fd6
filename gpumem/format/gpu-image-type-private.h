/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The dimensions of image types and the levels of images. Independent of the classes, so that back
 * ends may use it. */
#pragma once

#include "gpumem/backend/gpu-backend.h"

G_BEGIN_DECLS

gboolean    _gpu_image_type_is_known         (GpuImageType                type);
const char *_gpu_image_type_get_name         (GpuImageType                type);
/* Returns FALSE if @name (nullable) is not an image type of OpenCL C, such as "image2d_t". */
gboolean    _gpu_image_type_from_name        (const char                 *name,
                                              GpuImageType               *type);
/* Returns the number of dimensions of one layer, 1 to 3. */
guint       _gpu_image_type_get_n_dimensions (GpuImageType                type);
/* Returns whether images of @type have layers, as arrays and cubes do. */
gboolean    _gpu_image_type_has_layers       (GpuImageType                type);
GpuExtent   _gpu_image_get_level_extent      (const GpuImageDescription  *description,
                                              guint                       level);
/* Returns the number of mip levels from the full size down to a single texel. */
guint       _gpu_image_get_max_levels        (const GpuImageDescription  *description);
/* Sets @size to the number of bytes in the first @n_levels mip levels, stored without gaps. Returns
 * FALSE if that number exceeds a gsize. */
gboolean    _gpu_image_get_size              (const GpuImageDescription  *description,
                                              guint                       n_levels,
                                              gsize                      *size);

/* Returns whether @format is a combination of known values. Implemented in gpu-image-format.c. */
gboolean    _gpu_image_format_is_known       (const GpuImageFormat       *format);

G_END_DECLS
