/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Texels of every format: the position of each component, rounding, clamping and NaN. Every texel
 * that is read and written again must be unchanged. */
#include "config.h"

#include <math.h>

#include "gpumem/format/gpu-texel-private.h"

#include "test-util.h"

#define N_ORDERS (GPU_CHANNEL_ORDER_SBGRA + 1)
#define N_TYPES  (GPU_CHANNEL_TYPE_UNORM_101010 + 1)

static gboolean
is_packed (GpuChannelType type)
{
  return type >= GPU_CHANNEL_TYPE_UNORM_565;
}

/* Returns whether the format exists. The channel order RGB exists only with packed channel types,
 * and packed types exist only with this order. sRGB orders exist only with 8-bit channels. */
static gboolean
is_format (const GpuImageFormat *format)
{
  if (format->channel_order >= GPU_CHANNEL_ORDER_SRGBA)
    return format->channel_type == GPU_CHANNEL_TYPE_UNORM8;

  return is_packed (format->channel_type) == (format->channel_order == GPU_CHANNEL_ORDER_RGB);
}

static GpuTexel
read_texel (GpuChannelOrder order,
            GpuChannelType  type,
            gconstpointer   data)
{
  const GpuImageFormat format = { order, type };
  GpuTexel texel;

  _gpu_texel_read (&format, data, &texel);

  return texel;
}

/* Returns the first channel of a texel with @value in all components. */
static gint32
write_real (GpuChannelType type,
            double         value)
{
  const GpuImageFormat format = { GPU_CHANNEL_ORDER_R, type };
  const GpuTexel texel = { .real = { (float) value, (float) value, (float) value,
                                     (float) value } };
  gint8 byte;
  gint16 half;
  guint8 data[GPU_TEXEL_SIZE_MAX] = { 0 };

  _gpu_texel_write (&format, &texel, data);
  memcpy (&byte, data, sizeof byte);
  memcpy (&half, data, sizeof half);

  switch (type)
    {
    case GPU_CHANNEL_TYPE_UNORM8:
      return data[0];
    case GPU_CHANNEL_TYPE_SNORM8:
      return byte;
    case GPU_CHANNEL_TYPE_SNORM16:
      return half;
    default:
      return (guint16) half;
    }
}

static gint64
write_integer (GpuChannelType type,
               gint64         value)
{
  const GpuImageFormat format = { GPU_CHANNEL_ORDER_R, type };
  GpuTexel texel;
  guint8 data[GPU_TEXEL_SIZE_MAX];

  texel.natural[0] = (guint32) value;
  _gpu_texel_write (&format, &texel, data);
  texel = read_texel (GPU_CHANNEL_ORDER_R, type, data);

  return _gpu_texel_get_kind (&format) == GPU_TEXEL_NATURAL ? (gint64) texel.natural[0]
                                                            : (gint64) texel.integer[0];
}

/* --- halves ----------------------------------------------------------------------------------- */

static void
texel_halves (void)
{
  static const struct
  {
    guint16 half;
    float   value;
  }
  known[] =
  {
    { 0x0000, 0 }, { 0x0001, 0x1p-24f }, { 0x03ff, 0x1.ff8p-15f }, { 0x0400, 0x1p-14f },
    { 0x3555, 0x1.554p-2f }, { 0x3c00, 1 }, { 0x3c01, 0x1.004p0f }, { 0x4248, 3.140625f },
    { 0x7bff, 65504 }, { 0x7c00, INFINITY }, { 0xbc00, -1 }, { 0xc000, -2 }, { 0xfbff, -65504 },
    { 0xfc00, -INFINITY }
  };

  for (guint i = 0; i < G_N_ELEMENTS (known); i++)
    {
      guint16 half = known[i].half;
      GpuTexel texel = read_texel (GPU_CHANNEL_ORDER_R, GPU_CHANNEL_TYPE_FLOAT16, &half);

      g_assert_cmpfloat (texel.real[0], ==, known[i].value);
      g_assert_cmphex (write_real (GPU_CHANNEL_TYPE_FLOAT16, (double) known[i].value), ==, half);
    }

  /* Rounding to nearest, ties to even, and values beyond the maximum */
  g_assert_cmphex (write_real (GPU_CHANNEL_TYPE_FLOAT16, 1 + 0x1p-11), ==, 0x3c00);
  g_assert_cmphex (write_real (GPU_CHANNEL_TYPE_FLOAT16, 1 + 0x1.8p-10), ==, 0x3c02);
  g_assert_cmphex (write_real (GPU_CHANNEL_TYPE_FLOAT16, 65519), ==, 0x7bff);
  g_assert_cmphex (write_real (GPU_CHANNEL_TYPE_FLOAT16, 65520), ==, 0x7c00);
  g_assert_cmphex (write_real (GPU_CHANNEL_TYPE_FLOAT16, 0x1p-25), ==, 0);
  g_assert_cmphex (write_real (GPU_CHANNEL_TYPE_FLOAT16, -0.0), ==, 0x8000);
  g_assert_cmphex (write_real (GPU_CHANNEL_TYPE_FLOAT16, NAN) & 0x7c00, ==, 0x7c00);
  g_assert_cmphex (write_real (GPU_CHANNEL_TYPE_FLOAT16, NAN) & 0x03ff, !=, 0);
}

/* --- rounding and clamping -------------------------------------------------------------------- */

static void
texel_normalized (void)
{
  static const struct
  {
    GpuChannelType type;
    gint32         least;
    gint32         one;
  }
  cases[] =
  {
    { GPU_CHANNEL_TYPE_UNORM8, 0, 255 },
    { GPU_CHANNEL_TYPE_UNORM16, 0, 65535 },
    { GPU_CHANNEL_TYPE_SNORM8, -128, 127 },
    { GPU_CHANNEL_TYPE_SNORM16, -32768, 32767 }
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      GpuChannelType type = cases[i].type;
      gint32 one = cases[i].one;

      g_assert_cmpint (write_real (type, 0), ==, 0);
      g_assert_cmpint (write_real (type, -0.0), ==, 0);
      g_assert_cmpint (write_real (type, 1), ==, one);
      g_assert_cmpint (write_real (type, 1.5), ==, one);
      g_assert_cmpint (write_real (type, INFINITY), ==, one);
      g_assert_cmpint (write_real (type, 1e38), ==, one);
      g_assert_cmpint (write_real (type, -1), ==, MAX (-one, cases[i].least));
      g_assert_cmpint (write_real (type, -7), ==, cases[i].least);
      g_assert_cmpint (write_real (type, -INFINITY), ==, cases[i].least);
      g_assert_cmpint (write_real (type, NAN), ==, 0);
      /* `one` is odd, so 0.5 is a tie, which rounds to even */
      g_assert_cmpint (write_real (type, 0.5), ==, (one + 1) / 2);
      g_assert_cmpint (write_real (type, (3 + 0.25) / one), ==, 3);
      g_assert_cmpint (write_real (type, (3 + 0.75) / one), ==, 4);
    }

  /* 0.7f * 255 is 178.5 if rounded to float, but less in exact arithmetic */
  g_assert_cmpint (write_real (GPU_CHANNEL_TYPE_UNORM8, 0.7f), ==, 178);
  g_assert_cmpint (write_real (GPU_CHANNEL_TYPE_SNORM8, -0.5), ==, -64);
  g_assert_cmpint (write_real (GPU_CHANNEL_TYPE_SNORM16, -0.5), ==, -16384);
}

static void
texel_integers (void)
{
  g_assert_cmpint (write_integer (GPU_CHANNEL_TYPE_INT8, 100), ==, 100);
  g_assert_cmpint (write_integer (GPU_CHANNEL_TYPE_INT8, 128), ==, 127);
  g_assert_cmpint (write_integer (GPU_CHANNEL_TYPE_INT8, -129), ==, -128);
  g_assert_cmpint (write_integer (GPU_CHANNEL_TYPE_INT16, 40000), ==, 32767);
  g_assert_cmpint (write_integer (GPU_CHANNEL_TYPE_INT16, G_MININT32), ==, -32768);
  g_assert_cmpint (write_integer (GPU_CHANNEL_TYPE_INT32, G_MININT32), ==, G_MININT32);
  g_assert_cmpint (write_integer (GPU_CHANNEL_TYPE_UINT8, 255), ==, 255);
  g_assert_cmpint (write_integer (GPU_CHANNEL_TYPE_UINT8, 256), ==, 255);
  g_assert_cmpint (write_integer (GPU_CHANNEL_TYPE_UINT16, G_MAXUINT32), ==, 65535);
  g_assert_cmpint (write_integer (GPU_CHANNEL_TYPE_UINT32, G_MAXUINT32), ==, G_MAXUINT32);
}

static void
texel_reads (void)
{
  static const guint8 bytes[] = { 0, 51, 255, 1 };
  static const gint8 signs[] = { -128, -127, 127, -64 };
  static const guint16 words[] = { 0, 65535, 32768, 1 };
  GpuTexel texel = read_texel (GPU_CHANNEL_ORDER_RGBA, GPU_CHANNEL_TYPE_UNORM8, bytes);

  g_assert_cmpfloat (texel.real[0], ==, 0);
  g_assert_cmpfloat (texel.real[1], ==, 0.2f);
  g_assert_cmpfloat (texel.real[2], ==, 1);
  g_assert_cmpfloat (texel.real[3], ==, (float) (1.0 / 255));
  texel = read_texel (GPU_CHANNEL_ORDER_RGBA, GPU_CHANNEL_TYPE_SNORM8, signs);
  g_assert_cmpfloat (texel.real[0], ==, -1);
  g_assert_cmpfloat (texel.real[1], ==, -1);
  g_assert_cmpfloat (texel.real[2], ==, 1);
  g_assert_cmpfloat (texel.real[3], ==, (float) (-64 / 127.0));
  texel = read_texel (GPU_CHANNEL_ORDER_RGBA, GPU_CHANNEL_TYPE_UNORM16, words);
  g_assert_cmpfloat (texel.real[1], ==, 1);
  g_assert_cmpfloat (texel.real[2], ==, (float) (32768 / 65535.0));
  texel = read_texel (GPU_CHANNEL_ORDER_RGBA, GPU_CHANNEL_TYPE_SNORM16, words);
  g_assert_cmpfloat (texel.real[1], ==, (float) (-1 / 32767.0));
  g_assert_cmpfloat (texel.real[2], ==, -1);
}

static void
texel_packed (void)
{
  static const struct
  {
    GpuChannelType type;
    guint32        bits;
    float          red;
    float          green;
    float          blue;
  }
  known[] =
  {
    { GPU_CHANNEL_TYPE_UNORM_565, 0xf800, 1, 0, 0 },
    { GPU_CHANNEL_TYPE_UNORM_565, 0x07e0, 0, 1, 0 },
    { GPU_CHANNEL_TYPE_UNORM_565, 0x001f, 0, 0, 1 },
    { GPU_CHANNEL_TYPE_UNORM_565, 0x0841, 1 / 31.0f, 2 / 63.0f, 1 / 31.0f },
    { GPU_CHANNEL_TYPE_UNORM_555, 0x7c00, 1, 0, 0 },
    { GPU_CHANNEL_TYPE_UNORM_555, 0x03e0, 0, 1, 0 },
    { GPU_CHANNEL_TYPE_UNORM_555, 0x001f, 0, 0, 1 },
    { GPU_CHANNEL_TYPE_UNORM_101010, 0x3ff00000, 1, 0, 0 },
    { GPU_CHANNEL_TYPE_UNORM_101010, 0x000ffc00, 0, 1, 0 },
    { GPU_CHANNEL_TYPE_UNORM_101010, 0x00000003, 0, 0, 3 / 1023.0f }
  };

  for (guint i = 0; i < G_N_ELEMENTS (known); i++)
    {
      const GpuImageFormat format = { GPU_CHANNEL_ORDER_RGB, known[i].type };
      const GpuTexel texel = { .real = { known[i].red, known[i].green, known[i].blue, 1 } };
      gsize size = gpu_image_format_get_texel_size (&format);
      guint16 bits16 = (guint16) known[i].bits;
      gconstpointer data = size == 2 ? (gconstpointer) &bits16 : (gconstpointer) &known[i].bits;
      guint8 written[GPU_TEXEL_SIZE_MAX];
      GpuTexel got = read_texel (GPU_CHANNEL_ORDER_RGB, known[i].type, data);

      test_assert_mem (&got, &texel, sizeof got);
      _gpu_texel_write (&format, &texel, written);
      test_assert_mem (written, data, size);
    }
}

/* --- channel orders --------------------------------------------------------------------------- */

static void
texel_orders (void)
{
  static const guint8 data[] = { 11, 22, 33, 44 };
  static const struct
  {
    GpuChannelOrder order;
    guint32         expected[4];
  }
  cases[] =
  {
    { GPU_CHANNEL_ORDER_R, { 11, 0, 0, 1 } },
    { GPU_CHANNEL_ORDER_A, { 0, 0, 0, 11 } },
    { GPU_CHANNEL_ORDER_RG, { 11, 22, 0, 1 } },
    { GPU_CHANNEL_ORDER_RA, { 11, 0, 0, 22 } },
    { GPU_CHANNEL_ORDER_RGBA, { 11, 22, 33, 44 } },
    { GPU_CHANNEL_ORDER_BGRA, { 33, 22, 11, 44 } },
    { GPU_CHANNEL_ORDER_ARGB, { 22, 33, 44, 11 } },
    { GPU_CHANNEL_ORDER_ABGR, { 44, 33, 22, 11 } },
    { GPU_CHANNEL_ORDER_INTENSITY, { 11, 11, 11, 11 } },
    { GPU_CHANNEL_ORDER_LUMINANCE, { 11, 11, 11, 1 } },
    { GPU_CHANNEL_ORDER_DEPTH, { 11, 0, 0, 1 } }
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      const GpuImageFormat format = { cases[i].order, GPU_CHANNEL_TYPE_UINT8 };
      GpuTexel texel = read_texel (cases[i].order, GPU_CHANNEL_TYPE_UINT8, data);
      GpuTexel whole = { .natural = { 1, 2, 3, 4 } };
      guint8 written[GPU_TEXEL_SIZE_MAX];

      test_assert_mem (&texel, cases[i].expected, sizeof texel);
      _gpu_texel_write (&format, &texel, written);
      test_assert_mem (written, data, gpu_image_format_get_texel_size (&format));

      /* Restricting a texel has the same result as writing and reading it */
      _gpu_texel_write (&format, &whole, written);
      texel = read_texel (cases[i].order, GPU_CHANNEL_TYPE_UINT8, written);
      _gpu_texel_restrict (&format, &whole);
      test_assert_mem (&whole, &texel, sizeof texel);
    }
}

static void
texel_srgb (void)
{
  const GpuImageFormat srgba = { GPU_CHANNEL_ORDER_SRGBA, GPU_CHANNEL_TYPE_UNORM8 };
  const GpuTexel wild = { .real = { NAN, -1, 2, 0.5f } };
  guint8 written[4];

  for (guint i = 0; i < 256; i++)
    {
      const guint8 data[] = { (guint8) i, (guint8) (255 - i), 0, (guint8) i };
      GpuTexel texel = read_texel (GPU_CHANNEL_ORDER_SBGRA, GPU_CHANNEL_TYPE_UNORM8, data);
      double r = i / 255.0;
      double linear = r <= 0.04045 ? r / 12.92 : pow ((r + 0.055) / 1.055, 2.4);

      g_assert_cmpfloat_with_epsilon ((double) texel.real[2], linear, 1e-6);
      g_assert_cmpfloat (texel.real[0], ==, 0);
      g_assert_cmpfloat (texel.real[3], ==, (float) r);
      texel = read_texel (GPU_CHANNEL_ORDER_SRGBA, GPU_CHANNEL_TYPE_UNORM8, data);
      _gpu_texel_write (&srgba, &texel, written);
      test_assert_mem (written, data, sizeof data);
    }

  _gpu_texel_write (&srgba, &wild, written);
  g_assert_cmpuint (written[0], ==, 0);
  g_assert_cmpuint (written[1], ==, 0);
  g_assert_cmpuint (written[2], ==, 255);
  g_assert_cmpuint (written[3], ==, 128);
}

/* --- all formats ------------------------------------------------------------------------------ */

/* Makes the encoding unique: uses only one code for the minimum, and clears unused bits and NaN
 * payloads. */
static void
make_canonical (const GpuImageFormat *format,
                guint8               *data)
{
  GpuTexel texel;

  _gpu_texel_read (format, data, &texel);
  _gpu_texel_write (format, &texel, data);
}

/* Reads and writes texels at any byte offset, aligned or not. */
static void
texel_round_trip (void)
{
  guint n_formats = 0;

  for (guint i = 0; i < N_ORDERS * N_TYPES; i++)
    {
      const GpuImageFormat format = { i / N_TYPES, i % N_TYPES };
      gsize size = gpu_image_format_get_texel_size (&format);

      if (!is_format (&format))
        continue;

      n_formats++;

      for (guint j = 0; j < 200; j++)
        {
          g_autoptr (GBytes) random = test_random_bytes (GPU_TEXEL_SIZE_MAX + 1);
          g_autofree guint8 *data = g_memdup2 (g_bytes_get_data (random, NULL),
                                               GPU_TEXEL_SIZE_MAX + 1);
          guint8 written[GPU_TEXEL_SIZE_MAX + 1];
          GpuTexel texel;

          memset (written, 0xa5, sizeof written);
          make_canonical (&format, data + 1);
          _gpu_texel_read (&format, data + 1, &texel);
          _gpu_texel_write (&format, &texel, written + 1);
          test_assert_mem (written + 1, data + 1, size);
          test_assert_value (written + 1 + size, 0xa5, sizeof written - 1 - size);
          g_assert_cmphex (written[0], ==, 0xa5);
        }
    }

  g_assert_cmpuint (n_formats, ==, (N_ORDERS - 3) * 12 + 3 + 2);
}

static void
texel_colors (void)
{
  const GpuColor color = { 3e9, -1000.5, NAN, 2.5 };
  guint32 naturals[4];
  gint32 integers[4];
  float reals[4];
  const GpuImageFormat natural = { GPU_CHANNEL_ORDER_RGBA, GPU_CHANNEL_TYPE_UINT32 };
  const GpuImageFormat integer = { GPU_CHANNEL_ORDER_RGBA, GPU_CHANNEL_TYPE_INT32 };
  const GpuImageFormat real = { GPU_CHANNEL_ORDER_RGBA, GPU_CHANNEL_TYPE_FLOAT32 };

  _gpu_texel_from_color (&natural, &color, (guint8 *) naturals);
  g_assert_cmpuint (naturals[0], ==, 3000000000u);
  g_assert_cmpuint (naturals[1], ==, 0);
  g_assert_cmpuint (naturals[2], ==, 0);
  g_assert_cmpuint (naturals[3], ==, 2);
  _gpu_texel_from_color (&integer, &color, (guint8 *) integers);
  g_assert_cmpint (integers[0], ==, G_MAXINT32);
  g_assert_cmpint (integers[1], ==, -1000);
  g_assert_cmpint (integers[2], ==, 0);
  g_assert_cmpint (integers[3], ==, 2);
  _gpu_texel_from_color (&real, &color, (guint8 *) reals);
  g_assert_cmpfloat (reals[0], ==, 3e9f);
  g_assert_cmpfloat (reals[1], ==, -1000.5f);
  g_assert_true (isnan (reals[2]));
}

int
main (int    argc,
      char **argv)
{
  test_init (&argc, &argv);
  test_add_plain ("halves", texel_halves);
  test_add_plain ("normalized", texel_normalized);
  test_add_plain ("integers", texel_integers);
  test_add_plain ("reads", texel_reads);
  test_add_plain ("packed", texel_packed);
  test_add_plain ("orders", texel_orders);
  test_add_plain ("srgb", texel_srgb);
  test_add_plain ("round-trip", texel_round_trip);
  test_add_plain ("colors", texel_colors);

  return test_run ();
}
