/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#if !defined (__GPUMEM_INSIDE__) && !defined (GPUMEM_COMPILATION)
#error "Only <gpumem/gpumem.h> can be included directly."
#endif

#include <gpumem/base/gpu-types.h>

G_BEGIN_DECLS

/**
 * GpuImageFormat:
 * @channel_order: which channels a texel has
 * @channel_type: what each of them holds
 *
 * The format of the texels of an image.
 *
 * Since: 0.1
 */
struct _GpuImageFormat
{
  GpuChannelOrder channel_order;
  GpuChannelType  channel_type;
};

/**
 * GpuColor:
 * @red: the red component
 * @green: the green component
 * @blue: the blue component
 * @alpha: the alpha component
 *
 * A color, as numbers: from 0.0 or -1.0 to 1.0 for normalized channels, and as they are for
 * integers and floating-point numbers.
 *
 * Since: 0.1
 */
struct _GpuColor
{
  gdouble red;
  gdouble green;
  gdouble blue;
  gdouble alpha;
};

#define GPU_TYPE_IMAGE_FORMAT (gpu_image_format_get_type ())
#define GPU_TYPE_COLOR (gpu_color_get_type ())

GPU_AVAILABLE_IN_0_1
GType           gpu_image_format_get_type         (void) G_GNUC_CONST;
GPU_AVAILABLE_IN_0_1
GpuImageFormat *gpu_image_format_new              (GpuChannelOrder        channel_order,
                                                   GpuChannelType         channel_type);
GPU_AVAILABLE_IN_0_1
GpuImageFormat *gpu_image_format_new_from_string  (const char            *text,
                                                   GError               **error);
GPU_AVAILABLE_IN_0_1
GpuImageFormat *gpu_image_format_copy             (const GpuImageFormat  *format);
GPU_AVAILABLE_IN_0_1
void            gpu_image_format_free             (GpuImageFormat        *format);
GPU_AVAILABLE_IN_0_1
gboolean        gpu_image_format_equal            (const GpuImageFormat  *a,
                                                   const GpuImageFormat  *b);
GPU_AVAILABLE_IN_0_1
guint           gpu_image_format_hash             (const GpuImageFormat  *format);
GPU_AVAILABLE_IN_0_1
char           *gpu_image_format_to_string        (const GpuImageFormat  *format);
GPU_AVAILABLE_IN_0_1
guint           gpu_image_format_get_n_channels   (const GpuImageFormat  *format);
GPU_AVAILABLE_IN_0_1
gsize           gpu_image_format_get_channel_size (const GpuImageFormat  *format);
GPU_AVAILABLE_IN_0_1
gsize           gpu_image_format_get_texel_size   (const GpuImageFormat  *format);

GPU_AVAILABLE_IN_0_1
GType           gpu_color_get_type                (void) G_GNUC_CONST;
GPU_AVAILABLE_IN_0_1
GpuColor       *gpu_color_new                     (gdouble                red,
                                                   gdouble                green,
                                                   gdouble                blue,
                                                   gdouble                alpha);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (GpuImageFormat, gpu_image_format_free)
G_DEFINE_AUTOPTR_CLEANUP_FUNC (GpuColor, g_free)

G_END_DECLS
