/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Fills of images with every value of a channel: some drivers truncate instead of rounding, but the
 * texel must have the given value on every driver. */
#include "config.h"

#include <math.h>

#include "test-image-util.h"

/* Converts a half to a double. Callers exclude NaNs. */
static gdouble
half_to_double (guint16 half)
{
  const gint exponent = (half >> 10) & 0x1f;
  const gdouble fraction = (half & 0x3ff) / 1024.0;
  gdouble value;

  if (exponent == 0x1f)
    value = INFINITY;
  else if (exponent == 0)
    value = ldexp (fraction, -14);
  else
    value = ldexp (1 + fraction, exponent - 15);

  return (half & 0x8000) != 0 ? -value : value;
}

static gdouble
get_value (GpuChannelType type,
           guint          bits)
{
  switch (type)
    {
    case GPU_CHANNEL_TYPE_UNORM8:
      return bits / 255.0;
    case GPU_CHANNEL_TYPE_SNORM8:
      return (gint8) bits / 127.0;
    case GPU_CHANNEL_TYPE_UNORM16:
      return bits / 65535.0;
    case GPU_CHANNEL_TYPE_SNORM16:
      return (gint16) bits / 32767.0;
    case GPU_CHANNEL_TYPE_FLOAT16:
      return half_to_double ((guint16) bits);
    case GPU_CHANNEL_TYPE_INT8:
      return (gint8) bits;
    case GPU_CHANNEL_TYPE_INT16:
      return (gint16) bits;
    default:
      return bits;
    }
}

/* Returns whether drivers may store other bits than @bits. They may replace the lowest code of a
 * signed normalized channel, which is below -1.0, by the code of -1.0, and a NaN by another NaN. */
static gboolean
is_ambiguous (GpuChannelType type,
              guint          bits)
{
  return (type == GPU_CHANNEL_TYPE_SNORM8 && bits == 0x80)
         || (type == GPU_CHANNEL_TYPE_SNORM16 && bits == 0x8000)
         || (type == GPU_CHANNEL_TYPE_FLOAT16 && (bits & 0x7c00) == 0x7c00
             && (bits & 0x3ff) != 0);
}

/* Extremes and infinities are always among the tested values. */
static gboolean
is_chosen (GpuChannelType type,
           guint          bits,
           guint          n_values,
           guint          step)
{
  return bits % step == 0 || bits < 4 || n_values - bits < 4
         || (bits > n_values / 2 - 4 && bits < n_values / 2 + 4)
         || (type == GPU_CHANNEL_TYPE_FLOAT16 && (bits & 0x7fff) == 0x7c00);
}

static GpuExtent
get_extent (GpuImageType type,
            guint        n_values)
{
  const gsize side = n_values > 0x100 ? 32 : 8;

  if (type == GPU_IMAGE_TYPE_IMAGE_3D)
    return (GpuExtent) { n_values / side / 4, 4, side };

  return (GpuExtent) { n_values / side, side, 1 };
}

/* Fills one texel per value, in all channels; the texel must have that value, even if the driver
 * converts colors incorrectly. */
static void
fill_values (TestFixture          *fixture,
             GpuImageType          image_type,
             const GpuImageFormat *format,
             guint                 n_values,
             guint                 step)
{
  const GpuChannelType type = format->channel_type;
  const GpuExtent extent = get_extent (image_type, n_values);
  const gsize channel_size = gpu_image_format_get_channel_size (format);
  const guint n_channels = gpu_image_format_get_n_channels (format);
  const gsize texel_size = channel_size * n_channels;
  g_autoptr (GpuImage) image = test_image (fixture, GPU_MEMORY_FLAGS_NONE, format, image_type,
                                           extent);
  g_autofree guint8 *expected = g_malloc0 (n_values * texel_size);
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) got = NULL;

  test_assert_ok (gpu_image_fill (image, NULL, &(GpuColor) { 0, 0, 0, 0 }, NULL, NULL, NULL,
                                  &error), error);

  for (guint i = 0; i < n_values; i++)
    {
      const gdouble value = get_value (type, i);
      const GpuLayout at = { i % extent.width, i / extent.width % extent.height,
                             i / extent.width / extent.height, 0, 0 };
      const guint16 bits = (guint16) i;

      if (!is_chosen (type, i, n_values, step) || is_ambiguous (type, i))
        continue;

      test_assert_ok (gpu_stream_fill_image (fixture->stream, image,
                                             &(GpuColor) { value, value, value, value }, &at,
                                             &(GpuExtent) { 1, 1, 1 }, &error), error);
      for (guint c = 0; c < n_channels; c++)
        memcpy (expected + i * texel_size + c * channel_size, &bits, channel_size);
    }

  got = gpu_image_read_bytes (image, NULL, NULL, NULL, NULL, &error);
  g_assert_no_error (error);
  test_assert_mem (g_bytes_get_data (got, NULL), expected, n_values * texel_size);
}

static gboolean
has_format (TestFixture    *fixture,
            GpuChannelOrder order,
            GpuChannelType  type)
{
  const GpuImageFormat format = { order, type };
  g_autoptr (GError) error = NULL;
  g_autolist (GpuImageFormat) formats = NULL;

  formats = gpu_context_list_image_formats (fixture->context, GPU_MEMORY_FLAGS_NONE,
                                            GPU_IMAGE_TYPE_IMAGE_2D, &error);
  g_assert_no_error (error);

  for (GList *link = formats; link != NULL; link = link->next)
    {
      if (gpu_image_format_equal (link->data, &format))
        return TRUE;
    }

  return FALSE;
}

static void
run_values (TestFixture  *fixture,
            GpuImageType  image_type)
{
  static const struct
  {
    GpuChannelType type;
    guint          n_values;
    guint          step;
  }
  types[] =
  {
    { GPU_CHANNEL_TYPE_UNORM8, 0x100, 1 },
    { GPU_CHANNEL_TYPE_SNORM8, 0x100, 1 },
    { GPU_CHANNEL_TYPE_UINT8, 0x100, 1 },
    { GPU_CHANNEL_TYPE_INT8, 0x100, 1 },
    { GPU_CHANNEL_TYPE_UNORM16, 0x10000, 23 },
    { GPU_CHANNEL_TYPE_SNORM16, 0x10000, 23 },
    { GPU_CHANNEL_TYPE_UINT16, 0x10000, 257 },
    { GPU_CHANNEL_TYPE_INT16, 0x10000, 257 },
    { GPU_CHANNEL_TYPE_FLOAT16, 0x10000, 23 }
  };
  static const GpuChannelOrder two[] = { GPU_CHANNEL_ORDER_RGBA, GPU_CHANNEL_ORDER_R };

  if (!test_has_opencl_images (fixture))
    return;

  for (guint o = 0; o < G_N_ELEMENTS (two); o++)
    {
      for (guint t = 0; t < G_N_ELEMENTS (types); t++)
        {
          const GpuImageFormat format = { two[o], types[t].type };

          if (has_format (fixture, format.channel_order, format.channel_type))
            fill_values (fixture, image_type, &format, types[t].n_values, types[t].step);
        }
    }
}

static void
values (TestFixture *fixture)
{
  run_values (fixture, GPU_IMAGE_TYPE_IMAGE_2D);
}

static void
values_layers (TestFixture *fixture)
{
  run_values (fixture, GPU_IMAGE_TYPE_IMAGE_1D_ARRAY);
}

static void
values_3d (TestFixture *fixture)
{
  run_values (fixture, GPU_IMAGE_TYPE_IMAGE_3D);
}

/* Some drivers convert infinity to the greatest finite half. Fill a whole region with infinity. */
static void
infinite (TestFixture *fixture)
{
  const GpuImageFormat format = { GPU_CHANNEL_ORDER_RGBA, GPU_CHANNEL_TYPE_FLOAT16 };
  const GpuColor color = { INFINITY, 1, -INFINITY, 70000 };
  const guint16 texel[] = { 0x7c00, 0x3c00, 0xfc00, 0x7c00 };
  const GpuLayout at = { 2, 1, 1, 0, 0 };
  const GpuExtent part = { 5, 2, 3 };
  const GpuStreamFlags flags[] = { GPU_STREAM_FLAGS_NONE, GPU_STREAM_FLAGS_OUT_OF_ORDER };

  if (!test_has_opencl_images (fixture))
    return;

  for (guint i = 0; i < G_N_ELEMENTS (flags); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GpuStream) stream = NULL;
      g_autoptr (GpuImage) image = NULL;
      guint16 expected[8 * 4 * 5][4] = { 0 };

      if (flags[i] != 0 && !test_has (fixture, GPU_CAPABILITIES_OUT_OF_ORDER))
        return;

      stream = test_stream (fixture, flags[i]);
      image = test_image (fixture, GPU_MEMORY_FLAGS_NONE, &format, GPU_IMAGE_TYPE_IMAGE_3D,
                          (GpuExtent) { 8, 4, 5 });
      test_assert_ok (gpu_image_fill (image, NULL, &(GpuColor) { 0, 0, 0, 0 }, NULL, NULL, NULL,
                                      &error), error);
      test_assert_ok (gpu_stream_fill_image (stream, image, &color, &at, &part, &error), error);

      for (gsize t = 0; t < part.width * part.height * part.depth; t++)
        memcpy (expected[((1 + t / 10) * 4 + 1 + t / 5 % 2) * 8 + 2 + t % 5], texel,
                sizeof texel);
      test_assert_image (image, expected, sizeof expected);
    }
}

/* Each component is stored in its own channel, and intermediate values are rounded. */
static void
orders (TestFixture *fixture)
{
  static const struct
  {
    GpuChannelOrder order;
    guint8          texel[4];
  }
  cases[] =
  {
    { GPU_CHANNEL_ORDER_R, { 64 } },
    { GPU_CHANNEL_ORDER_A, { 26 } },
    { GPU_CHANNEL_ORDER_RG, { 64, 128 } },
    { GPU_CHANNEL_ORDER_RA, { 64, 26 } },
    { GPU_CHANNEL_ORDER_RGBA, { 64, 128, 191, 26 } },
    { GPU_CHANNEL_ORDER_BGRA, { 191, 128, 64, 26 } },
    { GPU_CHANNEL_ORDER_ARGB, { 26, 64, 128, 191 } },
    { GPU_CHANNEL_ORDER_ABGR, { 26, 191, 128, 64 } },
    { GPU_CHANNEL_ORDER_INTENSITY, { 64 } },
    { GPU_CHANNEL_ORDER_LUMINANCE, { 64 } }
  };
  const GpuColor color = { 0.25, 0.5, 0.75, 0.1 };

  if (!test_has_opencl_images (fixture))
    return;

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      const GpuImageFormat format = { cases[i].order, GPU_CHANNEL_TYPE_UNORM8 };
      g_autoptr (GError) error = NULL;
      g_autoptr (GpuImage) image = NULL;

      if (!has_format (fixture, cases[i].order, GPU_CHANNEL_TYPE_UNORM8))
        continue;

      image = test_image (fixture, GPU_MEMORY_FLAGS_NONE, &format, GPU_IMAGE_TYPE_IMAGE_2D,
                          (GpuExtent) { 1, 1, 1 });
      test_assert_ok (gpu_image_fill (image, NULL, &color, NULL, NULL, NULL, &error), error);
      test_assert_image (image, cases[i].texel, gpu_image_format_get_texel_size (&format));
    }
}

int
main (int    argc,
      char **argv)
{
  test_init (&argc, &argv);
  test_add ("values", values);
  test_add ("values-layers", values_layers);
  test_add ("values-3d", values_3d);
  test_add ("infinite", infinite);
  test_add ("orders", orders);

  return test_run ();
}
