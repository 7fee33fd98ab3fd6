/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The conversion of colors to texels: rounding to the nearest value of the format, and ties to
 * even. */
#include "config.h"

#include "test-util.h"

#define N_TEXELS 6

#define TIE 0x1p-11                 /* half of the step from 1 to the next half */

typedef struct
{
  const char *format;
  GpuColor    color;
  guint8      texel[16];            /* in memory order, little-endian */
} Case;

static const Case cases[] =
{
  { "rgba-uint8", { 0.5, 1.5, 2.5, 254.6 }, { 0, 2, 2, 255 } },
  { "rgba-uint8", { -3, 300, 254.4, 3.5 }, { 0, 255, 254, 4 } },
  { "rgba-int8", { -0.5, -1.5, -2.5, 126.7 }, { 0, 0xfe, 0xfe, 127 } },
  { "rgba-int8", { -128.4, -129, 128, 0.6 }, { 0x80, 0x80, 127, 1 } },
  { "rgba-uint16", { 65534.5, 65536, 0.5, 1000.7 },
    { 0xfe, 0xff, 0xff, 0xff, 0, 0, 0xe9, 0x03 } },
  { "rgba-int16", { -32768.9, 32766.5, -1.5, 0.49 },
    { 0x00, 0x80, 0xfe, 0x7f, 0xfe, 0xff, 0, 0 } },
  { "rgba-uint32", { 4294967294.5, 0.5, 1.5, 16777217 },
    { 0xfe, 0xff, 0xff, 0xff, 0, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 1 } },
  { "rgba-int32", { -2147483646.5, 2147483646.5, -0.6, 16777217.4 },
    { 2, 0, 0, 0x80, 0xfe, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff, 1, 0, 0, 1 } },

  /* 0.5 is a tie, 127.5 of 255. 0.7 is slightly less than a tie, but 0.7 * 255 is rounded to the
   * tie 178.5. The second row is 254.49, 254.52, 0.51 and 0.48 of 255. */
  { "rgba-unorm8", { 0.5, -0.1, 1.2, 0.7 }, { 128, 0, 255, 178 } },
  { "rgba-unorm8", { 0.998, 0.9981, 0.002, 0.0019 }, { 254, 255, 1, 0 } },
  { "rgba-snorm8", { 0.5, -0.5, -1, 0.3 }, { 64, 0xc0, 0x81, 38 } },
  { "rgba-unorm16", { 0.5, 40000.5001 / 65535, 40001.4999 / 65535, 1 },
    { 0x00, 0x80, 0x41, 0x9c, 0x41, 0x9c, 0xff, 0xff } },
  { "rgba-snorm16", { 0.5, 20000.5001 / 32767, -20001.4999 / 32767, -1 },
    { 0x00, 0x40, 0x21, 0x4e, 0xdf, 0xb1, 0x01, 0x80 } },
  { "rgba-float16", { 1 + TIE, 1 + 3 * TIE, 1 + TIE + 0x1p-30, 1 + 3 * TIE - 0x1p-30 },
    { 0x00, 0x3c, 0x02, 0x3c, 0x01, 0x3c, 0x01, 0x3c } },
  { "rgba-float16", { 65504, 65519.999, -0.1, 0x1p-25 },
    { 0xff, 0x7b, 0xff, 0x7b, 0x66, 0xae, 0, 0 } },
  { "rgba-float32", { 1 + 0x1p-24, 1 + 3 * 0x1p-24, 0.1, -0.1 },
    { 0, 0, 0x80, 0x3f, 2, 0, 0x80, 0x3f, 0xcd, 0xcc, 0xcc, 0x3d, 0xcd, 0xcc, 0xcc, 0xbd } },

  /* Ties in all channels: 15.5 and 31.5, 511.5 */
  { "rgb-unorm-565", { 0.5, 0.5, 0.5, 1 }, { 0x10, 0x84 } },
  { "rgb-unorm-555", { 0.5, 0.5, 0.5, 1 }, { 0x10, 0x42 } },
  { "rgb-unorm-101010", { 0.5, 0.5, 0.5, 1 }, { 0x00, 0x02, 0x08, 0x20 } }
};

/* Returns FALSE if the device does not support the format. */
static gboolean
check (TestFixture *fixture,
       const Case  *c)
{
  const GpuExtent extent = { N_TEXELS, 1, 1 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuImageFormat) format = gpu_image_format_new_from_string (c->format, &error);
  g_autoptr (GpuImage) image = NULL;
  g_autoptr (GBytes) content = NULL;
  gsize size;

  g_assert_no_error (error);
  image = gpu_image_new (fixture->context, GPU_MEMORY_FLAGS_NONE, format, GPU_IMAGE_TYPE_IMAGE_2D,
                         &extent, &error);

  if (g_error_matches (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED))
    return FALSE;

  g_assert_no_error (error);
  test_assert_ok (gpu_image_fill (image, NULL, &c->color, NULL, NULL, NULL, &error), error);
  content = gpu_image_read_bytes (image, NULL, NULL, NULL, NULL, &error);
  g_assert_no_error (error);
  size = gpu_image_format_get_texel_size (format);

  for (guint i = 0; i < N_TEXELS; i++)
    {
      const guint8 *texel = (const guint8 *) g_bytes_get_data (content, NULL) + i * size;

      if (memcmp (texel, c->texel, size) != 0)
        g_test_message ("case %d, %s", (int) (c - cases), c->format);

      test_assert_mem (texel, c->texel, size);
    }

  return TRUE;
}

static void
colors_filled (TestFixture *fixture)
{
  gboolean is_host = g_str_equal (gpu_device_get_backend (fixture->device), "host");
  guint n = 0;

  if (!test_has (fixture, GPU_CAPABILITIES_IMAGES))
    return;

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    n += check (fixture, &cases[i]);

  /* Every device supports integer formats, and most other formats of 8 and 16 bits */
  g_assert_cmpuint (n, >=, is_host ? G_N_ELEMENTS (cases) : 12);
}

int
main (int    argc,
      char **argv)
{
  test_init (&argc, &argv);
  test_add ("filled", colors_filled);

  return test_run ();
}
