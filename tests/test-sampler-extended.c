/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Samplers beyond those of OpenCL: border colours, an address mode per dimension, mip levels,
 * integer read modes, and invalid coordinates. */
#include "config.h"

#include <math.h>

#include "test-util.h"

#define SIDE 4
#define N_READS 16

static const GpuImageFormat r_float = { GPU_CHANNEL_ORDER_R, GPU_CHANNEL_TYPE_FLOAT32 };
static const GpuImageFormat rgba8 = { GPU_CHANNEL_ORDER_RGBA, GPU_CHANNEL_TYPE_UNORM8 };
static const GpuExtent square = { SIDE, SIDE, 1 };

/* Reads at N_READS positions of four numbers each. The first two numbers are the coordinates. */
static const char source[] =
  "__kernel void\n"
  "read_f (__read_only image2d_t image, sampler_t by, __global const float *at,\n"
  "        __global float4 *out)\n"
  "{\n"
  "  int i = (int) get_global_id (0);\n"
  "  out[i] = read_imagef (image, by, (float2) (at[4 * i], at[4 * i + 1]));\n"
  "}\n"
  "__kernel void\n"
  "read_i (__read_only image2d_t image, sampler_t by, __global const float *at,\n"
  "        __global int4 *out)\n"
  "{\n"
  "  int i = (int) get_global_id (0);\n"
  "  out[i] = read_imagei (image, by, (float2) (at[4 * i], at[4 * i + 1]));\n"
  "}\n"
  "__kernel void\n"
  "read_ui (__read_only image2d_t image, sampler_t by, __global const float *at,\n"
  "         __global uint4 *out)\n"
  "{\n"
  "  int i = (int) get_global_id (0);\n"
  "  out[i] = read_imageui (image, by, (float2) (at[4 * i], at[4 * i + 1]));\n"
  "}\n";

/* The third of the four numbers of a position is the level of detail. */
static const char levels_source[] =
  "__kernel void\n"
  "read_lod (__read_only image2d_t image, sampler_t by, __global const float *at,\n"
  "          __global float4 *out)\n"
  "{\n"
  "  int i = (int) get_global_id (0);\n"
  "  out[i] = read_imagef (image, by, (float2) (at[4 * i], at[4 * i + 1]), at[4 * i + 2]);\n"
  "}\n"
  "__kernel void\n"
  "read_constant (__read_only image2d_t image, sampler_t by, __global const float *at,\n"
  "               __global float4 *out)\n"
  "{\n"
  "  const sampler_t mine = CLK_NORMALIZED_COORDS_TRUE | CLK_ADDRESS_REPEAT | CLK_FILTER_NEAREST;\n"
  "  int i = (int) get_global_id (0);\n"
  "  out[i] = read_imagef (image, mine, (float2) (at[4 * i], at[4 * i + 1]), at[4 * i + 2]);\n"
  "}\n"
  "__kernel void\n"
  "read_first (__read_only image2d_t image, sampler_t by, __global const float *at,\n"
  "            __global float4 *out)\n"
  "{\n"
  "  int i = (int) get_global_id (0);\n"
  "  out[i] = read_imagef (image, by, (float2) (at[4 * i], at[4 * i + 1]));\n"
  "}\n";

static const char texels_source[] =
  "__kernel void\n"
  "read_texels_1d (__read_only image1d_t image, sampler_t by, __global const int *at,\n"
  "                __global float4 *out)\n"
  "{\n"
  "  int i = (int) get_global_id (0);\n"
  "  out[i] = read_imagef (image, by, at[i]);\n"
  "}\n";

/* Reads texels at positions whose three coordinates are the same number. */
static const char wild_source[] =
  "__kernel void\n"
  "read_1d (__read_only image1d_t image, sampler_t by, __global const float *at,\n"
  "         __global float4 *out)\n"
  "{\n"
  "  int i = (int) get_global_id (0);\n"
  "  out[i] = read_imagef (image, by, at[i]);\n"
  "}\n"
  "__kernel void\n"
  "read_1da (__read_only image1d_array_t image, sampler_t by, __global const float *at,\n"
  "          __global float4 *out)\n"
  "{\n"
  "  int i = (int) get_global_id (0), n = (int) get_global_size (0);\n"
  "  out[i] = read_imagef (image, by, (float2) (at[i], at[(i + 1) % n]));\n"
  "}\n"
  "__kernel void\n"
  "read_3d (__read_only image3d_t image, sampler_t by, __global const float *at,\n"
  "         __global float4 *out)\n"
  "{\n"
  "  int i = (int) get_global_id (0), n = (int) get_global_size (0);\n"
  "  out[i] = read_imagef (image, by, (float4) (at[i], at[(i + 1) % n], at[(i + 2) % n], 0));\n"
  "}\n"
  "__kernel void\n"
  "read_texels (__read_only image3d_t image, sampler_t by, __global const int *at,\n"
  "             __global float4 *out)\n"
  "{\n"
  "  int i = (int) get_global_id (0), n = (int) get_global_size (0);\n"
  "  int4 where = (int4) (at[i], at[(i + 1) % n], at[(i + 2) % n], 0);\n"
  "  out[i] = read_imagef (image, by, where);\n"
  "  out[i].x += read_imagef (image, where).x;\n"
  "}\n"
  "__kernel void\n"
  "write_texels (__write_only image3d_t image, __global const int *at)\n"
  "{\n"
  "  int i = (int) get_global_id (0), n = (int) get_global_size (0);\n"
  "  int4 where = (int4) (at[i], at[(i + 1) % n], at[(i + 2) % n], 0);\n"
  "  write_imagef (image, where, (float4) (1));\n"
  "}\n";

/* --- shared functions ------------------------------------------------------------------------- */

static GpuImage *
image_from (TestFixture          *fixture,
            const GpuImageFormat *format,
            gconstpointer         data,
            gsize                 size)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = g_bytes_new (data, size);
  GpuImage *image = gpu_image_new_from_bytes (fixture->context, GPU_MEMORY_FLAGS_NONE, format,
                                              GPU_IMAGE_TYPE_IMAGE_2D, &square, bytes, 0, 0,
                                              &error);

  g_assert_no_error (error);

  return image;
}

/* Creates a sampler with the properties in the variable arguments. Returns NULL and skips the test
 * if the driver does not support them. */
static GpuSampler *
sampler_new (TestFixture *fixture,
             const char  *property,
             ...) G_GNUC_NULL_TERMINATED;

static GpuSampler *
sampler_new (TestFixture *fixture,
             const char  *property,
             ...)
{
  g_autoptr (GError) error = NULL;
  GpuSampler *sampler;
  va_list ap;

  va_start (ap, property);
  sampler = GPU_SAMPLER (g_object_new_valist (GPU_TYPE_SAMPLER, property, ap));
  va_end (ap);

  if (g_initable_init (G_INITABLE (sampler), NULL, &error))
    return sampler;

  g_object_unref (sampler);
  g_assert_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED);
  g_test_skip (error->message);

  return NULL;
}

/* Returns the results of the kernel for @n inputs: single numbers, or positions of four numbers. */
static GBytes *
read_at (TestFixture   *fixture,
         const char    *program,
         const char    *name,
         GpuImage      *image,
         GpuSampler    *sampler,
         gconstpointer  at,
         gsize          size,
         guint          n)
{
  const GpuExtent grid = { n, 1, 1 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuKernel) kernel = test_kernel (fixture, program, name);
  g_autoptr (GBytes) bytes = g_bytes_new (at, size);
  g_autoptr (GpuBuffer) in = test_buffer_from (fixture, bytes);
  g_autoptr (GpuBuffer) out = test_buffer_filled (fixture, n * 16, 0x7f);
  g_autoptr (GpuArguments) arguments = gpu_arguments_new ();

  gpu_arguments_add_memory (arguments, GPU_MEMORY (image));
  gpu_arguments_add_sampler (arguments, sampler);
  gpu_arguments_add_memory (arguments, GPU_MEMORY (in));
  gpu_arguments_add_memory (arguments, GPU_MEMORY (out));
  test_assert_ok (gpu_stream_launch_arguments (fixture->stream, kernel, &grid, NULL, arguments,
                                               &error), error);

  return test_content (out);
}

static void
assert_color (GBytes *got,
              guint   i,
              double  red,
              double  green,
              double  blue,
              double  alpha)
{
  const float *texel = (const float *) g_bytes_get_data (got, NULL) + 4 * i;

  g_assert_cmpfloat_with_epsilon ((double) texel[0], red, 0.003);
  g_assert_cmpfloat_with_epsilon ((double) texel[1], green, 0.003);
  g_assert_cmpfloat_with_epsilon ((double) texel[2], blue, 0.003);
  g_assert_cmpfloat_with_epsilon ((double) texel[3], alpha, 0.003);
}

static gboolean
can_sample (TestFixture *fixture)
{
  return test_has (fixture, GPU_CAPABILITIES_IMAGES | GPU_CAPABILITIES_SOURCE);
}

/* Returns whether the device is the host, the only back end that supports the extended samplers in
 * kernels of the portable dialect. */
static gboolean
is_host (TestFixture *fixture)
{
  if (g_str_equal (gpu_device_get_backend (fixture->device), "host"))
    return can_sample (fixture);

  g_test_skip ("only the host back end supports this");

  return FALSE;
}

/* --- borders and modes ------------------------------------------------------------------------ */

static void
extras_border (TestFixture *fixture)
{
  static const float at[][4] = { { -5, 1.5f }, { 1.5f, 99 }, { 0, 1.5f }, { 1.5f, 1.5f } };
  static const GpuColor color = { 0.25, 0.5, 0.75, 0.125 };
  float reals[SIDE * SIDE];
  guint8 bytes[SIDE * SIDE * 4];
  g_autoptr (GpuSampler) nearest = NULL;
  g_autoptr (GpuSampler) linear = NULL;
  g_autoptr (GpuColor) border = NULL;
  g_autoptr (GpuImage) single = NULL;
  g_autoptr (GpuImage) full = NULL;
  g_autoptr (GBytes) one = NULL;
  g_autoptr (GBytes) four = NULL;

  if (!can_sample (fixture))
    return;

  nearest = sampler_new (fixture, "context", fixture->context, "border-color", &color,
                         "address-mode-x", GPU_ADDRESS_MODE_CLAMP_TO_BORDER, "address-mode-y",
                         GPU_ADDRESS_MODE_CLAMP_TO_BORDER, NULL);
  linear = nearest == NULL
           ? NULL : sampler_new (fixture, "context", fixture->context, "border-color", &color,
                                 "address-mode-x", GPU_ADDRESS_MODE_CLAMP_TO_BORDER,
                                 "address-mode-y", GPU_ADDRESS_MODE_CLAMP_TO_BORDER,
                                 "filter-mode", GPU_FILTER_MODE_LINEAR, NULL);

  if (linear == NULL)
    return;

  g_object_get (nearest, "border-color", &border, NULL);
  g_assert_cmpmem (border, sizeof *border, &color, sizeof color);

  for (guint i = 0; i < SIDE * SIDE; i++)
    reals[i] = 1;

  memset (bytes, 255, sizeof bytes);
  single = image_from (fixture, &r_float, reals, sizeof reals);
  full = image_from (fixture, &rgba8, bytes, sizeof bytes);
  one = read_at (fixture, source, "read_f", single, nearest, at, sizeof at, 4);
  assert_color (one, 0, 0.25, 0, 0, 1);
  assert_color (one, 1, 0.25, 0, 0, 1);
  assert_color (one, 2, 1, 0, 0, 1);
  four = read_at (fixture, source, "read_f", full, linear, at, sizeof at, 4);
  assert_color (four, 0, 0.25, 0.5, 0.75, 0.125);
  assert_color (four, 1, 0.25, 0.5, 0.75, 0.125);
  assert_color (four, 2, 0.625, 0.75, 0.875, 0.5625);
  assert_color (four, 3, 1, 1, 1, 1);
}

static void
extras_modes_per_dimension (TestFixture *fixture)
{
  static const float at[][4] = { { 1.375f, 0.625f }, { 1.375f, 1.625f }, { -0.125f, 0.125f },
                                 { 0.375f, -0.125f } };
  float reals[SIDE * SIDE];
  g_autoptr (GpuSampler) sampler = NULL;
  g_autoptr (GpuImage) image = NULL;
  g_autoptr (GBytes) got = NULL;

  if (!can_sample (fixture))
    return;

  sampler = sampler_new (fixture, "context", fixture->context, "normalized-coordinates", TRUE,
                         "address-mode-x", GPU_ADDRESS_MODE_REPEAT, "address-mode-y",
                         GPU_ADDRESS_MODE_CLAMP_TO_BORDER, NULL);

  if (sampler == NULL)
    return;

  for (guint i = 0; i < SIDE * SIDE; i++)
    reals[i] = (float) (i + 1);

  image = image_from (fixture, &r_float, reals, sizeof reals);
  got = read_at (fixture, source, "read_f", image, sampler, at, sizeof at, 4);
  assert_color (got, 0, 2 * SIDE + 2, 0, 0, 1);
  assert_color (got, 1, 0, 0, 0, 1);
  assert_color (got, 2, SIDE, 0, 0, 1);
  assert_color (got, 3, 0, 0, 0, 1);
}

/* Integer coordinates address texels in every filter mode; coordinates outside of the image wrap
 * around. */
static void
extras_repeated_texels (TestFixture *fixture)
{
  static const gint32 at[] = { 0, 1, SIDE - 1, SIDE, 2 * SIDE + 2, -1, -SIDE, -2 * SIDE - 1 };
  static const guint repeated[] = { 0, 1, 3, 0, 2, 3, 0, 3 };
  static const guint mirrored[] = { 0, 1, 3, 3, 2, 0, 3, 0 };
  float reals[SIDE];
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = NULL;
  g_autoptr (GpuImage) image = NULL;

  if (!is_host (fixture))
    return;

  for (guint i = 0; i < SIDE; i++)
    reals[i] = (float) i;

  bytes = g_bytes_new (reals, sizeof reals);
  image = gpu_image_new_from_bytes (fixture->context, GPU_MEMORY_FLAGS_NONE, &r_float,
                                    GPU_IMAGE_TYPE_IMAGE_1D, &(GpuExtent) { SIDE, 1, 1 }, bytes, 0,
                                    0, &error);
  g_assert_no_error (error);

  for (guint i = 0; i < 2; i++)
    {
      g_autoptr (GpuSampler) sampler = gpu_sampler_new (fixture->context, TRUE,
                                                        i == 0 ? GPU_ADDRESS_MODE_REPEAT
                                                               : GPU_ADDRESS_MODE_MIRRORED_REPEAT,
                                                        GPU_FILTER_MODE_LINEAR, &error);
      g_autoptr (GBytes) got = NULL;

      g_assert_no_error (error);
      got = read_at (fixture, texels_source, "read_texels_1d", image, sampler, at, sizeof at,
                     G_N_ELEMENTS (at));

      for (guint j = 0; j < G_N_ELEMENTS (at); j++)
        assert_color (got, j, i == 0 ? repeated[j] : mirrored[j], 0, 0, 1);
    }
}

/* --- levels ----------------------------------------------------------------------------------- */

/* Creates an image of four levels, each filled with its level number. */
static GpuImage *
make_levels (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  GpuImage *image = gpu_image_new_mipmapped (fixture->context, GPU_MEMORY_FLAGS_NONE, &r_float,
                                             GPU_IMAGE_TYPE_IMAGE_2D, &(GpuExtent) { 8, 5, 1 }, 4,
                                             &error);

  g_assert_no_error (error);

  for (guint i = 0; i < 4; i++)
    {
      const GpuColor color = { i, 0, 0, 0 };
      g_autoptr (GpuImage) level = gpu_image_get_level (image, i, &error);

      g_assert_no_error (error);
      test_assert_ok (gpu_stream_fill_image (fixture->stream, level, &color, NULL, NULL, &error),
                      error);
    }

  return image;
}

static void
assert_levels (TestFixture  *fixture,
               GpuImage     *image,
               GpuSampler   *sampler,
               const char   *name,
               const double *expected)
{
  static const float at[][4] =
  {
    { 0.5f, 0.5f, 0 }, { 0.1f, 0.9f, 0.4f }, { 0.5f, 0.5f, 0.5f }, { 0.5f, 0.5f, 0.625f },
    { 0.5f, 0.5f, 1 }, { 0.3f, 0.2f, 1.75f }, { 0.5f, 0.5f, 3 }, { 0.5f, 0.5f, 1e30f },
    { 0.5f, 0.5f, -2 }, { 0.5f, 0.5f, NAN }, { 0.5f, 0.5f, -INFINITY }, { 0.5f, 0.5f, 2.5f },
    { 0.5f, 0.5f, 1.5f }
  };
  g_autoptr (GBytes) got = read_at (fixture, levels_source, name, image, sampler, at,
                                    sizeof at, G_N_ELEMENTS (at));
  g_autoptr (GBytes) first = read_at (fixture, levels_source, "read_first", image, sampler, at,
                                      sizeof at, G_N_ELEMENTS (at));

  for (guint i = 0; i < G_N_ELEMENTS (at); i++)
    {
      assert_color (got, i, expected[i], 0, 0, 1);
      assert_color (first, i, 0, 0, 0, 1);
    }
}

static void
extras_levels (TestFixture *fixture)
{
  static const double nearest[] = { 0, 0, 0, 1, 1, 2, 3, 3, 0, 0, 0, 2, 1 };
  static const double between[] = { 0, 0.4, 0.5, 0.625, 1, 1.75, 3, 3, 0, 0, 0, 2.5, 1.5 };
  static const double limited[] = { 1, 1.4, 1.5, 1.625, 2, 2.5, 2.5, 2.5, 0.5, 0.5, 0.5, 2.5,
                                    2.5 };
  static const float middle[][4] = { { 0.5f, 0.5f } };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuSampler) plain = NULL;
  g_autoptr (GpuSampler) linear = NULL;
  g_autoptr (GpuSampler) narrow = NULL;
  g_autoptr (GpuImage) image = NULL;
  g_autoptr (GpuImage) third = NULL;
  g_autoptr (GBytes) got = NULL;

  if (!is_host (fixture))
    return;

  image = make_levels (fixture);
  plain = sampler_new (fixture, "context", fixture->context, "normalized-coordinates", TRUE, NULL);
  linear = sampler_new (fixture, "context", fixture->context, "normalized-coordinates", TRUE,
                        "mip-filter-mode", GPU_FILTER_MODE_LINEAR, "filter-mode",
                        GPU_FILTER_MODE_LINEAR, NULL);
  narrow = sampler_new (fixture, "context", fixture->context, "normalized-coordinates", TRUE,
                        "mip-filter-mode", GPU_FILTER_MODE_LINEAR, "lod-bias", 1.0, "min-lod", 0.5,
                        "max-lod", 2.5, NULL);
  assert_levels (fixture, image, plain, "read_lod", nearest);
  assert_levels (fixture, image, linear, "read_lod", between);
  assert_levels (fixture, image, narrow, "read_lod", limited);
  assert_levels (fixture, image, narrow, "read_constant", nearest);

  third = gpu_image_get_level (image, 2, &error);
  g_assert_no_error (error);
  got = read_at (fixture, levels_source, "read_lod", third, plain, middle, sizeof middle, 1);
  assert_color (got, 0, 2, 0, 0, 1);
}

/* --- read modes ------------------------------------------------------------------------------- */

static void
extras_integer_elements (TestFixture *fixture)
{
  static const GpuImageFormat unsigned_formats[] =
  {
    { GPU_CHANNEL_ORDER_RGBA, GPU_CHANNEL_TYPE_UNORM8 },
    { GPU_CHANNEL_ORDER_RGBA, GPU_CHANNEL_TYPE_UINT8 },
    { GPU_CHANNEL_ORDER_SRGBA, GPU_CHANNEL_TYPE_UNORM8 }
  };
  static const GpuImageFormat snorm8 = { GPU_CHANNEL_ORDER_RGBA, GPU_CHANNEL_TYPE_SNORM8 };
  static const float at[][4] = { { 0.5f, 0.5f }, { 3.5f, 3.5f } };
  g_autoptr (GpuSampler) sampler = NULL;
  g_autoptr (GpuImage) image = NULL;
  g_autoptr (GBytes) got = NULL;
  guint8 bytes[SIDE * SIDE * 4];

  if (!is_host (fixture))
    return;

  for (guint i = 0; i < sizeof bytes; i++)
    bytes[i] = (guint8) (200 + i);

  sampler = sampler_new (fixture, "context", fixture->context, "read-mode", GPU_READ_MODE_ELEMENT,
                         NULL);

  for (guint i = 0; i < G_N_ELEMENTS (unsigned_formats); i++)
    {
      g_autoptr (GpuImage) natural = image_from (fixture, &unsigned_formats[i], bytes,
                                                 sizeof bytes);
      g_autoptr (GBytes) raw = read_at (fixture, source, "read_ui", natural, sampler, at,
                                        sizeof at, 2);
      const guint32 *texels = g_bytes_get_data (raw, NULL);

      for (guint j = 0; j < 4; j++)
        {
          g_assert_cmpuint (texels[j], ==, bytes[j]);
          g_assert_cmpuint (texels[4 + j], ==, bytes[sizeof bytes - 4 + j]);
        }
    }

  image = image_from (fixture, &snorm8, bytes, sizeof bytes);
  got = read_at (fixture, source, "read_i", image, sampler, at, sizeof at, 2);
  g_assert_cmpint (((const gint32 *) g_bytes_get_data (got, NULL))[1], ==, (gint8) bytes[1]);
}

static void
extras_normalized (TestFixture *fixture)
{
  static const struct
  {
    GpuChannelType type;
    double         one;
    double         first;
    double         second;
  }
  cases[] =
  {
    { GPU_CHANNEL_TYPE_UINT8, 255, 10, 20 },
    { GPU_CHANNEL_TYPE_INT8, 127, -10, 20 },
    { GPU_CHANNEL_TYPE_UINT16, 65535, 1000, 50000 },
    { GPU_CHANNEL_TYPE_INT16, 32767, -1000, 20000 }
  };
  static const float at[][4] = { { 0.5f, 0.5f }, { 1, 0.5f } };
  g_autoptr (GpuSampler) sampler = NULL;

  if (!is_host (fixture))
    return;

  sampler = sampler_new (fixture, "context", fixture->context, "read-mode",
                         GPU_READ_MODE_NORMALIZED, "filter-mode", GPU_FILTER_MODE_LINEAR, NULL);

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      const GpuImageFormat format = { GPU_CHANNEL_ORDER_R, cases[i].type };
      const gint32 values[] = { (gint32) cases[i].first, (gint32) cases[i].second };
      gsize size = gpu_image_format_get_texel_size (&format);
      guint8 bytes[SIDE * SIDE * 2] = { 0 };
      g_autoptr (GpuImage) image = NULL;
      g_autoptr (GBytes) got = NULL;

      memcpy (bytes, &values[0], size);
      memcpy (bytes + size, &values[1], size);
      image = image_from (fixture, &format, bytes, SIDE * SIDE * size);
      got = read_at (fixture, source, "read_f", image, sampler, at, sizeof at, 2);
      assert_color (got, 0, cases[i].first / cases[i].one, 0, 0, 1);
      assert_color (got, 1, (cases[i].first + cases[i].second) / 2 / cases[i].one, 0, 0, 1);
    }
}

/* --- invalid coordinates ---------------------------------------------------------------------- */

static const float wild[N_READS] =
{
  NAN, INFINITY, -INFINITY, 1e30f, -1e30f, G_MAXFLOAT, -G_MAXFLOAT, 0x1p31f, -0x1p31f, 0x1p63f,
  -0x1p64f, 1e-45f, -1e-45f, -0.0f, 16777217.0f, -0.5f
};

static const gint32 outside[N_READS] =
{
  G_MININT32, G_MAXINT32, -1, SIDE, G_MININT32 + 1, G_MAXINT32 - 1, -SIDE, 2 * SIDE, 1 << 16,
  -(1 << 16), 1 << 30, -(1 << 30), 65535, 255, -255, 1 << 24
};

static GpuImage *
image_of (TestFixture  *fixture,
          GpuImageType  type,
          GpuExtent     extent)
{
  const GpuColor half = { 0.5, 0.5, 0.5, 0.5 };
  g_autoptr (GError) error = NULL;
  GpuImage *image = gpu_image_new (fixture->context, GPU_MEMORY_FLAGS_NONE, &r_float, type, &extent,
                                   &error);

  g_assert_no_error (error);
  test_assert_ok (gpu_stream_fill_image (fixture->stream, image, &half, NULL, NULL, &error),
                  error);

  return image;
}

/* Asserts that the first channel of every result is between the border (0) and 1, and that alpha
 * is 1. */
static void
assert_tame (GBytes *got)
{
  const float *texels = g_bytes_get_data (got, NULL);

  for (guint i = 0; i < N_READS; i++)
    {
      g_assert_cmpfloat (texels[4 * i], >=, 0);
      g_assert_cmpfloat (texels[4 * i], <=, 1);
      g_assert_cmpfloat (texels[4 * i + 3], ==, 1);
    }
}

static void
extras_invalid_coordinates (TestFixture *fixture)
{
  g_autoptr (GpuImage) row = NULL;
  g_autoptr (GpuImage) rows = NULL;
  g_autoptr (GpuImage) cube = NULL;

  if (!is_host (fixture))
    return;

  row = image_of (fixture, GPU_IMAGE_TYPE_IMAGE_1D, (GpuExtent) { SIDE, 1, 1 });
  rows = image_of (fixture, GPU_IMAGE_TYPE_IMAGE_1D_ARRAY, (GpuExtent) { SIDE, SIDE, 1 });
  cube = image_of (fixture, GPU_IMAGE_TYPE_IMAGE_3D, (GpuExtent) { SIDE, SIDE, SIDE });

  for (guint i = 0; i < 20; i++)
    {
      gboolean normalized = (i & 1) != 0 || i / 4 >= GPU_ADDRESS_MODE_REPEAT;
      g_autoptr (GError) error = NULL;
      g_autoptr (GpuSampler) sampler = gpu_sampler_new (fixture->context, normalized, i / 4,
                                                        (i & 2) != 0, &error);
      g_autoptr (GBytes) one = NULL;
      g_autoptr (GBytes) two = NULL;
      g_autoptr (GBytes) three = NULL;
      g_autoptr (GBytes) texels = NULL;

      g_assert_no_error (error);
      one = read_at (fixture, wild_source, "read_1d", row, sampler, wild, sizeof wild, N_READS);
      assert_tame (one);
      two = read_at (fixture, wild_source, "read_1da", rows, sampler, wild, sizeof wild, N_READS);
      assert_tame (two);
      three = read_at (fixture, wild_source, "read_3d", cube, sampler, wild, sizeof wild, N_READS);
      assert_tame (three);
      texels = read_at (fixture, wild_source, "read_texels", cube, sampler, outside,
                        sizeof outside, N_READS);
      assert_tame (texels);
    }
}

/* Writes outside the image have no effect. */
static void
extras_invalid_coordinate_writes (TestFixture *fixture)
{
  const GpuExtent grid = { N_READS, 1, 1 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuImage) cube = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GBytes) bytes = g_bytes_new_static (outside, sizeof outside);
  g_autoptr (GpuBuffer) at = NULL;
  g_autoptr (GBytes) got = NULL;
  const float *texels;

  if (!can_sample (fixture) || !test_has (fixture, GPU_CAPABILITIES_IMAGE_3D_WRITES)
      || !test_drops_writes (fixture))
    return;

  cube = image_of (fixture, GPU_IMAGE_TYPE_IMAGE_3D, (GpuExtent) { SIDE, SIDE, SIDE });
  kernel = test_kernel (fixture, wild_source, "write_texels");
  at = test_buffer_from (fixture, bytes);
  test_assert_ok (gpu_stream_launch (fixture->stream, kernel, &grid, NULL, &error, cube, at),
                  error);
  got = gpu_image_read_bytes (cube, NULL, NULL, NULL, NULL, &error);
  g_assert_no_error (error);
  texels = g_bytes_get_data (got, NULL);

  for (guint i = 0; i < SIDE * SIDE * SIDE; i++)
    g_assert_cmpfloat (texels[i], ==, 0.5f);
}

int
main (int    argc,
      char **argv)
{
  test_init (&argc, &argv);
  test_add ("border", extras_border);
  test_add ("modes-per-dimension", extras_modes_per_dimension);
  test_add ("repeated-texels", extras_repeated_texels);
  test_add ("levels", extras_levels);
  test_add ("integer-elements", extras_integer_elements);
  test_add ("normalized", extras_normalized);
  test_add ("invalid-coordinates", extras_invalid_coordinates);
  test_add ("invalid-coordinate-writes", extras_invalid_coordinate_writes);

  return test_run ();
}
