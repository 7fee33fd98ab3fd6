/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "gpumem/memory/gpu-image-private.h"

G_BEGIN_DECLS

/* gpu-image-argument.c: whether its flags let kernels write an image, or read it; what is wrong goes
 * on where the caller names the object. And whether what is read of it can be read in this way. */
gboolean _gpu_image_check_access   (GpuImage                  *image,
                                    gboolean                   is_written,
                                    GError                   **error);
gboolean _gpu_image_check_texture  (GpuImage                  *image,
                                    const GpuSamplerDescription *sampler,
                                    GError                   **error);

G_END_DECLS
