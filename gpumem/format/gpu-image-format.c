/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <string.h>

#include "gpumem/format/gpu-image-type-private.h"

/**
 * SECTION:gpu-image-format
 * @title: GpuImageFormat
 * @short_description: formats of the texels of images
 * @see_also: #GpuImage, gpu_context_list_image_formats()
 */

G_DEFINE_BOXED_TYPE (GpuImageFormat, gpu_image_format, gpu_image_format_copy,
                     gpu_image_format_free)
static GpuColor *
copy_color (GpuColor *color)
{
  return g_memdup2 (color, sizeof *color);
}

G_DEFINE_BOXED_TYPE (GpuColor, gpu_color, copy_color, g_free)

typedef struct
{
  const char *nick;
  guint       n_channels;
} OrderInfo;

static const OrderInfo orders[] =
{
  [GPU_CHANNEL_ORDER_R]         = { "r", 1 },
  [GPU_CHANNEL_ORDER_A]         = { "a", 1 },
  [GPU_CHANNEL_ORDER_RG]        = { "rg", 2 },
  [GPU_CHANNEL_ORDER_RA]        = { "ra", 2 },
  [GPU_CHANNEL_ORDER_RGB]       = { "rgb", 3 },
  [GPU_CHANNEL_ORDER_RGBA]      = { "rgba", 4 },
  [GPU_CHANNEL_ORDER_BGRA]      = { "bgra", 4 },
  [GPU_CHANNEL_ORDER_ARGB]      = { "argb", 4 },
  [GPU_CHANNEL_ORDER_ABGR]      = { "abgr", 4 },
  [GPU_CHANNEL_ORDER_INTENSITY] = { "intensity", 1 },
  [GPU_CHANNEL_ORDER_LUMINANCE] = { "luminance", 1 },
  [GPU_CHANNEL_ORDER_DEPTH]     = { "depth", 1 },
  [GPU_CHANNEL_ORDER_SRGBA]     = { "srgba", 4 },
  [GPU_CHANNEL_ORDER_SBGRA]     = { "sbgra", 4 }
};

typedef struct
{
  const char *nick;
  guint       size;                 /* bytes of a channel, or of all channels if packed */
  gboolean    packed;
  gboolean    normalized;
} TypeInfo;

static const TypeInfo types[] =
{
  [GPU_CHANNEL_TYPE_UNORM8]       = { "unorm8", 1, FALSE, TRUE },
  [GPU_CHANNEL_TYPE_UNORM16]      = { "unorm16", 2, FALSE, TRUE },
  [GPU_CHANNEL_TYPE_SNORM8]       = { "snorm8", 1, FALSE, TRUE },
  [GPU_CHANNEL_TYPE_SNORM16]      = { "snorm16", 2, FALSE, TRUE },
  [GPU_CHANNEL_TYPE_UINT8]        = { "uint8", 1, FALSE, FALSE },
  [GPU_CHANNEL_TYPE_UINT16]       = { "uint16", 2, FALSE, FALSE },
  [GPU_CHANNEL_TYPE_UINT32]       = { "uint32", 4, FALSE, FALSE },
  [GPU_CHANNEL_TYPE_INT8]         = { "int8", 1, FALSE, FALSE },
  [GPU_CHANNEL_TYPE_INT16]        = { "int16", 2, FALSE, FALSE },
  [GPU_CHANNEL_TYPE_INT32]        = { "int32", 4, FALSE, FALSE },
  [GPU_CHANNEL_TYPE_FLOAT16]      = { "float16", 2, FALSE, FALSE },
  [GPU_CHANNEL_TYPE_FLOAT32]      = { "float32", 4, FALSE, FALSE },
  [GPU_CHANNEL_TYPE_UNORM_565]    = { "unorm-565", 2, TRUE, TRUE },
  [GPU_CHANNEL_TYPE_UNORM_555]    = { "unorm-555", 2, TRUE, TRUE },
  [GPU_CHANNEL_TYPE_UNORM_101010] = { "unorm-101010", 4, TRUE, TRUE }
};

gboolean
_gpu_image_format_is_known (const GpuImageFormat *format)
{
  return (guint) format->channel_order < G_N_ELEMENTS (orders)
         && (guint) format->channel_type < G_N_ELEMENTS (types);
}

/**
 * gpu_image_format_new:
 * @channel_order: the channels of a texel
 * @channel_type: the type of each channel
 *
 * Creates a format. A device supports images of some formats only, see
 * gpu_context_list_image_formats().
 *
 * Returns: (transfer full): a new #GpuImageFormat
 *
 * Since: 0.1
 */
GpuImageFormat *
gpu_image_format_new (GpuChannelOrder channel_order,
                      GpuChannelType  channel_type)
{
  GpuImageFormat *format = g_new (GpuImageFormat, 1);

  format->channel_order = channel_order;
  format->channel_type = channel_type;

  return format;
}

static int
find_order (const char *text,
            gsize       length)
{
  for (guint i = 0; i < G_N_ELEMENTS (orders); i++)
    {
      if (strlen (orders[i].nick) == length && memcmp (orders[i].nick, text, length) == 0)
        return i;
    }

  return -1;
}

static int
find_type (const char *text)
{
  for (guint i = 0; i < G_N_ELEMENTS (types); i++)
    {
      if (strcmp (types[i].nick, text) == 0)
        return i;
    }

  return -1;
}

/* Sets an error that lists the valid names for the beginning or the end of @text. */
static void
set_unknown (const char  *text,
             gboolean     has_order,
             GError     **error)
{
  g_autofree char *shown = g_utf8_make_valid (text, MIN (strlen (text), 64));
  g_autoptr (GString) known = g_string_new (NULL);
  guint n_known = has_order ? G_N_ELEMENTS (types) : G_N_ELEMENTS (orders);

  for (guint i = 0; i < n_known; i++)
    g_string_append_printf (known, "%s%s", i > 0 ? ", " : "",
                            has_order ? types[i].nick : orders[i].nick);

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "gpu_image_format_new_from_string: '%s' is not a format such as rgba-unorm8, which "
               "%s one of %s", shown, has_order ? "ends with" : "begins with", known->str);
}

/**
 * gpu_image_format_new_from_string:
 * @text: a format as gpu_image_format_to_string() writes it: `rgba-unorm8`
 * @error: return location for an error
 *
 * Parses a format. #GpuImageFormat lists the names.
 *
 * Returns: (transfer full): a new #GpuImageFormat, or %NULL with %GPU_ERROR_INVALID_ARGUMENT if
 *   @text is not a format
 *
 * Since: 0.1
 */
GpuImageFormat *
gpu_image_format_new_from_string (const char  *text,
                                  GError     **error)
{
  const char *dash;
  int order = -1;
  int type = -1;

  g_return_val_if_fail (text != NULL, NULL);

  dash = strchr (text, '-');

  if (dash != NULL)
    {
      order = find_order (text, dash - text);
      type = find_type (dash + 1);
    }

  if (order >= 0 && type >= 0)
    return gpu_image_format_new (order, type);

  set_unknown (text, order >= 0, error);

  return NULL;
}

/**
 * gpu_image_format_copy:
 * @format: a #GpuImageFormat
 *
 * Copies a format.
 *
 * Returns: (transfer full): the copy; free it with gpu_image_format_free()
 *
 * Since: 0.1
 */
GpuImageFormat *
gpu_image_format_copy (const GpuImageFormat *format)
{
  return g_memdup2 (format, sizeof *format);
}

/**
 * gpu_image_format_free:
 * @format: (transfer full): an allocated #GpuImageFormat
 *
 * Frees a format.
 *
 * Since: 0.1
 */
void
gpu_image_format_free (GpuImageFormat *format)
{
  g_free (format);
}

/**
 * gpu_image_format_equal:
 * @a: a #GpuImageFormat
 * @b: a #GpuImageFormat
 *
 * Compares two formats.
 *
 * Returns: %TRUE if @a and @b are equal
 *
 * Since: 0.1
 */
gboolean
gpu_image_format_equal (const GpuImageFormat *a,
                        const GpuImageFormat *b)
{
  g_return_val_if_fail (a != NULL, FALSE);
  g_return_val_if_fail (b != NULL, FALSE);

  return a->channel_order == b->channel_order && a->channel_type == b->channel_type;
}

/**
 * gpu_image_format_hash:
 * @format: a #GpuImageFormat
 *
 * Computes a hash that is consistent with gpu_image_format_equal().
 *
 * Returns: the hash
 *
 * Since: 0.1
 */
guint
gpu_image_format_hash (const GpuImageFormat *format)
{
  g_return_val_if_fail (format != NULL, 0);

  return (guint) format->channel_order * G_N_ELEMENTS (types) + (guint) format->channel_type;
}

/**
 * gpu_image_format_to_string:
 * @format: a #GpuImageFormat
 *
 * Formats the names of the channels and of their type: `rgba-unorm8`.
 *
 * Returns: (transfer full): the text, `unknown` for an invalid format
 *
 * Since: 0.1
 */
char *
gpu_image_format_to_string (const GpuImageFormat *format)
{
  g_return_val_if_fail (format != NULL, NULL);

  if (!_gpu_image_format_is_known (format))
    return g_strdup ("unknown");

  return g_strdup_printf ("%s-%s", orders[format->channel_order].nick,
                          types[format->channel_type].nick);
}

/**
 * gpu_image_format_get_n_channels:
 * @format: a #GpuImageFormat
 *
 * Gets the number of channels of a texel.
 *
 * Returns: the number of channels, 1 to 4; 0 for an invalid format
 *
 * Since: 0.1
 */
guint
gpu_image_format_get_n_channels (const GpuImageFormat *format)
{
  g_return_val_if_fail (format != NULL, 0);

  return _gpu_image_format_is_known (format) ? orders[format->channel_order].n_channels : 0;
}

/**
 * gpu_image_format_get_channel_size:
 * @format: a #GpuImageFormat
 *
 * Gets the size of a channel.
 *
 * Returns: the size in bytes; 0 if the channels of a texel share bytes
 *
 * Since: 0.1
 */
gsize
gpu_image_format_get_channel_size (const GpuImageFormat *format)
{
  g_return_val_if_fail (format != NULL, 0);

  if (!_gpu_image_format_is_known (format) || types[format->channel_type].packed)
    return 0;

  return types[format->channel_type].size;
}

/**
 * gpu_image_format_get_texel_size:
 * @format: a #GpuImageFormat
 *
 * Gets the size of a texel.
 *
 * Returns: the size in bytes, 1 to 16; 0 for an invalid format
 *
 * Since: 0.1
 */
gsize
gpu_image_format_get_texel_size (const GpuImageFormat *format)
{
  const TypeInfo *type;

  g_return_val_if_fail (format != NULL, 0);

  if (!_gpu_image_format_is_known (format))
    return 0;

  type = &types[format->channel_type];

  return type->packed ? type->size : type->size * orders[format->channel_order].n_channels;
}

/**
 * gpu_color_new:
 * @red: the red component
 * @green: the green component
 * @blue: the blue component
 * @alpha: the alpha component
 *
 * Creates a color.
 *
 * Returns: (transfer full): a new #GpuColor
 *
 * Since: 0.1
 */
GpuColor *
gpu_color_new (gdouble red,
               gdouble green,
               gdouble blue,
               gdouble alpha)
{
  GpuColor *color = g_new (GpuColor, 1);

  color->red = red;
  color->green = green;
  color->blue = blue;
  color->alpha = alpha;

  return color;
}
