/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "gpumem/memory/gpu-image-private.h"

G_BEGIN_DECLS

/* gpu-image-argument.c: whether the flags of an image let kernels write it, or read it; the error
 * continues a sentence in which the caller names the object. And whether it can be sampled so. */
gboolean _gpu_image_check_access   (GpuImage                  *image,
                                    gboolean                   is_written,
                                    GError                   **error);
gboolean _gpu_image_check_texture  (GpuImage                  *image,
                                    const GpuSamplerDescription *sampler,
                                    GError                   **error);

G_END_DECLS
