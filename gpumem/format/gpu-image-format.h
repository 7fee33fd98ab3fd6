/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#if !defined (__GPUMEM_INSIDE__) && !defined (GPUMEM_COMPILATION)
#error "Only <gpumem/gpumem.h> can be included directly."
#endif

#include <gpumem/base/gpu-types.h>

G_BEGIN_DECLS

/**
 * GpuImageFormat:
 * @channel_order: the channels of a texel
 * @channel_type: the type of each channel
 *
 * The format of the texels of an image.
 *
 * |[<!-- language="C" -->
 * const GpuExtent extent = { 640, 480, 1 };
 * g_autoptr (GpuImageFormat) format = gpu_image_format_new_from_string ("rgba-unorm8", &error);
 * g_autoptr (GpuImage) picture = gpu_image_new (context, GPU_MEMORY_FLAGS_NONE, format,
 *                                               GPU_IMAGE_TYPE_IMAGE_2D, &extent, &error);
 *
 * g_assert (gpu_image_format_get_texel_size (format) == 4);
 * ]|
 *
 * A format is a plain structure of two numbers. The text of a format consists of the names of the
 * channel order and of the channel type, such as `rgba-unorm8` or `r-float32`. The names of
 * #GpuChannelOrder are `r`, `a`, `rg`, `ra`, `rgb`, `rgba`, `bgra`, `argb`, `abgr`, `intensity`,
 * `luminance`, `depth`, `srgba` and `sbgra`. The names of #GpuChannelType are `unorm8`, `unorm16`,
 * `snorm8`, `snorm16`, `uint8`, `uint16`, `uint32`, `int8`, `int16`, `int32`, `float16`, `float32`,
 * `unorm-565`, `unorm-555` and `unorm-101010`.
 *
 * Only some combinations are supported. The types `unorm-565`, `unorm-555` and `unorm-101010`
 * require three channels, as in `rgb-unorm-565`. Few devices support three channels of other types.
 * gpu_context_list_image_formats() lists the formats that a device supports.
 *
 * A #GpuColor is the value of a texel, independent of the format.
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
 * A color, independent of the format. For normalized channels, components range from 0.0 to 1.0, or
 * from -1.0 to 1.0 if the channels are signed. For integer and floating-point channels, components
 * are the values of the channels.
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
