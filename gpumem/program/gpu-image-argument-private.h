/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "gpumem/memory/gpu-image-private.h"

G_BEGIN_DECLS

/* Returns whether the flags of the image allow kernels to write the image if @is_written is TRUE,
 * or to read the image if it is FALSE. The error message begins with a verb: the caller must put
 * the name of the image in front of it. */
gboolean _gpu_image_check_access   (GpuImage                  *image,
                                    gboolean                   is_written,
                                    GError                   **error);
/* Returns whether the format of the image can be read with the filter and read modes of
 * @sampler. */
gboolean _gpu_image_check_texture  (GpuImage                  *image,
                                    const GpuSamplerDescription *sampler,
                                    GError                   **error);

G_END_DECLS
