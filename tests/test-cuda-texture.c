/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Kernels in CUDA C++ that read images through texture objects and write images through surface
 * objects. */
#include "config.h"

#include <math.h>

#include "test-image-util.h"

#define NEEDED (GPU_CAPABILITIES_IMAGES | GPU_CAPABILITIES_SOURCE)

#define WIDTH  8
#define HEIGHT 5
#define DEPTH  4

/* The tolerance for filtered values: weights have 8 bits. */
#define STEP (1.0 / 256)

static const GpuImageFormat r_float = { GPU_CHANNEL_ORDER_R, GPU_CHANNEL_TYPE_FLOAT32 };
static const GpuImageFormat r_int = { GPU_CHANNEL_ORDER_R, GPU_CHANNEL_TYPE_INT32 };
static const GpuImageFormat rgba8 = { GPU_CHANNEL_ORDER_RGBA, GPU_CHANNEL_TYPE_UNORM8 };
static const GpuImageFormat rgba_uint8 = { GPU_CHANNEL_ORDER_RGBA, GPU_CHANNEL_TYPE_UINT8 };

enum
{
  OF_1D,
  OF_1D_ARRAY,
  OF_2D,
  OF_2D_ARRAY,
  OF_3D,
  OF_CUBE,
  OF_CUBES,
  OF_LEVEL,
  OF_BUFFER
};

static const char source[] =
  "extern \"C\" __global__ void\n"
  "sample (unsigned long long t, int how, const float4 *at, float4 *to)\n"
  "{\n"
  "  float4 p = at[threadIdx.x];\n"
  "  float v = 0;\n"
  "  switch (how)\n"
  "    {\n"
  "    case 0: v = tex1D<float> (t, p.x); break;\n"
  "    case 1: v = tex1DLayered<float> (t, p.x, (int) p.w); break;\n"
  "    case 2: v = tex2D<float> (t, p.x, p.y); break;\n"
  "    case 3: v = tex2DLayered<float> (t, p.x, p.y, (int) p.w); break;\n"
  "    case 4: v = tex3D<float> (t, p.x, p.y, p.z); break;\n"
  "    case 5: v = texCubemap<float> (t, p.x, p.y, p.z); break;\n"
  "    case 6: v = texCubemapLayered<float> (t, p.x, p.y, p.z, (int) p.w); break;\n"
  "    case 7: v = tex2DLod<float> (t, p.x, p.y, p.w); break;\n"
  "    case 8: v = tex1Dfetch<float> (t, (int) p.x); break;\n"
  "    }\n"
  "  to[threadIdx.x].x = v;\n"
  "}\n"
  "extern \"C\" __global__ void\n"
  "sample_colors (unsigned long long t, int how, const float4 *at, float4 *to)\n"
  "{\n"
  "  float4 p = at[threadIdx.x];\n"
  "  to[threadIdx.x] = tex2D<float4> (t, p.x, p.y);\n"
  "}\n"
  "extern \"C\" __global__ void\n"
  "sample_integers (unsigned long long t, int how, const float4 *at, int4 *to)\n"
  "{\n"
  "  float4 p = at[threadIdx.x];\n"
  "  to[threadIdx.x] = tex2D<int4> (t, p.x, p.y);\n"
  "}\n"
  "extern \"C\" __global__ void sum (unsigned long long s, int how)\n"
  "{\n"
  "  int x = threadIdx.x, y = threadIdx.y, z = threadIdx.z;\n"
  "  int add = 1000 * z + 100 * y + x;\n"
  "  switch (how)\n"
  "    {\n"
  "    case 0: surf1Dwrite (surf1Dread<int> (s, 4 * x) + add, s, 4 * x); break;\n"
  "    case 1:\n"
  "      surf1DLayeredwrite (surf1DLayeredread<int> (s, 4 * x, y) + add, s, 4 * x, y);\n"
  "      break;\n"
  "    case 2: surf2Dwrite (surf2Dread<int> (s, 4 * x, y) + add, s, 4 * x, y); break;\n"
  "    case 3:\n"
  "      surf2DLayeredwrite (surf2DLayeredread<int> (s, 4 * x, y, z) + add, s, 4 * x, y, z);\n"
  "      break;\n"
  "    case 4: surf3Dwrite (surf3Dread<int> (s, 4 * x, y, z) + add, s, 4 * x, y, z); break;\n"
  "    }\n"
  "}\n";

static GpuSampler *sampler_new (TestFixture *fixture,
                                const char  *property,
                                ...) G_GNUC_NULL_TERMINATED;

static GpuSampler *
sampler_new (TestFixture *fixture,
             const char  *property,
             ...)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *name = g_strdup (property);
  GpuSampler *sampler;
  va_list ap;

  va_start (ap, property);
  sampler = GPU_SAMPLER (g_object_new_valist (GPU_TYPE_SAMPLER, name, ap));
  va_end (ap);
  g_assert_true (g_initable_init (G_INITABLE (sampler), NULL, &error));
  g_assert_no_error (error);
  g_assert_true (GPU_IS_CONTEXT (fixture->context));

  return sampler;
}

/* Runs the kernel @name at @n coordinates and returns four numbers for each. */
static GBytes *
sample (TestFixture *fixture,
        const char  *name,
        GpuImage    *image,
        GpuSampler  *sampler,
        int          how,
        const float  places[][4],
        guint        n)
{
  const GpuExtent grid = { n, 1, 1 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuKernel) kernel = test_kernel (fixture, source, name);
  g_autoptr (GBytes) bytes = g_bytes_new (places, n * 4 * sizeof (float));
  g_autoptr (GpuBuffer) at = test_buffer_from (fixture, bytes);
  g_autoptr (GpuBuffer) to = test_buffer_filled (fixture, n * 4 * sizeof (float), 0);
  g_autoptr (GpuArguments) arguments = gpu_arguments_new ();

  gpu_arguments_add_texture (arguments, image, sampler);
  gpu_arguments_add_int (arguments, how);
  gpu_arguments_add_memory (arguments, GPU_MEMORY (at));
  gpu_arguments_add_memory (arguments, GPU_MEMORY (to));
  test_assert_ok (gpu_stream_launch_arguments (fixture->stream, kernel, &grid, &grid, arguments,
                                               &error), error);

  return test_content (to);
}

static void
assert_samples (TestFixture  *fixture,
                GpuImage     *image,
                GpuSampler   *sampler,
                int           how,
                const float   places[][4],
                const double *expected,
                guint         n)
{
  g_autoptr (GBytes) got = sample (fixture, "sample", image, sampler, how, places, n);
  const float *values = g_bytes_get_data (got, NULL);

  for (guint i = 0; i < n; i++)
    g_assert_cmpfloat_with_epsilon ((double) values[4 * i], expected[i], STEP);
}

/* --- textures --------------------------------------------------------------------------------- */

static void
assert_texels (TestFixture  *fixture,
               GpuSampler   *sampler,
               GpuImageType  type,
               GpuExtent     extent,
               int           how)
{
  static const float places[][4] =
  {
    { 0.5f, 0.5f, 0.5f, 0 }, { 7.9f, 4.1f, 3.5f, 3 }, { 2.5f, 3.5f, 1.5f, 2 }
  };
  g_autoptr (GpuImage) image = test_image_numbers (fixture, &r_float, type, extent, 0);
  double expected[G_N_ELEMENTS (places)];

  for (guint i = 0; i < G_N_ELEMENTS (places); i++)
    {
      const gsize x = (gsize) places[i][0];
      const gsize y = how == OF_1D ? 0 : (gsize) places[i][how == OF_1D_ARRAY ? 3 : 1];
      const gsize z = how == OF_3D ? (gsize) places[i][2]
                                   : how == OF_2D_ARRAY ? (gsize) places[i][3] : 0;

      expected[i] = (double) (x + WIDTH * (y + HEIGHT * z));
    }

  assert_samples (fixture, image, sampler, how, places, expected, G_N_ELEMENTS (places));
}

static void
texture_texels (TestFixture *fixture)
{
  g_autoptr (GpuSampler) sampler = NULL;

  if (!test_is_cuda (fixture, NEEDED))
    return;

  sampler = test_sampler (fixture, FALSE, GPU_ADDRESS_MODE_CLAMP_TO_EDGE, GPU_FILTER_MODE_NEAREST);
  assert_texels (fixture, sampler, GPU_IMAGE_TYPE_IMAGE_1D, (GpuExtent) { WIDTH, 1, 1 }, OF_1D);
  assert_texels (fixture, sampler, GPU_IMAGE_TYPE_IMAGE_1D_ARRAY, (GpuExtent) { WIDTH, HEIGHT, 1 },
                 OF_1D_ARRAY);
  assert_texels (fixture, sampler, GPU_IMAGE_TYPE_IMAGE_2D, (GpuExtent) { WIDTH, HEIGHT, 1 },
                 OF_2D);
  assert_texels (fixture, sampler, GPU_IMAGE_TYPE_IMAGE_2D_ARRAY,
                 (GpuExtent) { WIDTH, HEIGHT, DEPTH }, OF_2D_ARRAY);
  assert_texels (fixture, sampler, GPU_IMAGE_TYPE_IMAGE_3D, (GpuExtent) { WIDTH, HEIGHT, DEPTH },
                 OF_3D);
}

/* The order of the faces of a cube is +x, -x, +y, -y, +z, -z. */
static void
texture_cubes (TestFixture *fixture)
{
  static const float places[][4] =
  {
    { 3, 0.1f, 0.1f, 0 }, { -1, 0, 0, 0 }, { 0, 2, 0, 0 }, { 0, -0.5f, 0, 0 }, { 0.1f, 0, 1, 0 },
    { 0, 0, -9, 0 }, { 0, -1, 0, 1 }
  };
  static const double sides[] = { 0, 1, 2, 3, 4, 5, 9 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuSampler) sampler = NULL;
  g_autoptr (GpuImage) cube = NULL;
  g_autoptr (GpuImage) cubes = NULL;

  if (!test_is_cuda (fixture, NEEDED) || !test_has (fixture, GPU_CAPABILITIES_CUBEMAPS))
    return;

  sampler = test_sampler (fixture, TRUE, GPU_ADDRESS_MODE_CLAMP_TO_EDGE, GPU_FILTER_MODE_NEAREST);
  cube = gpu_image_new (fixture->context, GPU_MEMORY_FLAGS_NONE, &r_float, GPU_IMAGE_TYPE_CUBEMAP,
                        &(GpuExtent) { WIDTH, WIDTH, 6 }, &error);
  g_assert_no_error (error);
  cubes = gpu_image_new (fixture->context, GPU_MEMORY_FLAGS_NONE, &r_float,
                         GPU_IMAGE_TYPE_CUBEMAP_ARRAY,
                         &(GpuExtent) { WIDTH, WIDTH, 12 }, &error);
  g_assert_no_error (error);

  for (guint i = 0; i < 12; i++)
    {
      const GpuColor color = { i, 0, 0, 0 };
      const GpuLayout side = { .z = i };
      const GpuExtent extent = { WIDTH, WIDTH, 1 };

      if (i < 6)
        test_assert_ok (gpu_stream_fill_image (fixture->stream, cube, &color, &side, &extent,
                                               &error), error);
      test_assert_ok (gpu_stream_fill_image (fixture->stream, cubes, &color, &side, &extent,
                                             &error), error);
    }

  assert_samples (fixture, cube, sampler, OF_CUBE, places, sides, 6);
  assert_samples (fixture, cubes, sampler, OF_CUBES, places, sides, 7);
}

static void
texture_modes (TestFixture *fixture)
{
  /* One coordinate inside of the image, and one outside on each side. */
  static const float places[][4] = { { 0.3125f, 0.5f }, { -0.0625f, 0.5f }, { 1.4375f, 0.5f },
                                     { 0.3125f, -0.3f }, { 0.3125f, 1.3f } };
  static const double first[] = { 18, 16, 23, -3, -3 };
  static const double second[] = { 18, 23, 19, 10, 26 };
  const GpuColor border = { -3, 0, 0, 0 };
  g_autoptr (GpuImage) image = NULL;
  g_autoptr (GpuSampler) edge_border = NULL;
  g_autoptr (GpuSampler) repeat_mirror = NULL;

  if (!test_is_cuda (fixture, NEEDED))
    return;

  image = test_image_numbers (fixture, &r_float, GPU_IMAGE_TYPE_IMAGE_2D,
                              (GpuExtent) { WIDTH, HEIGHT, 1 }, 0);
  edge_border = sampler_new (fixture, "context", fixture->context, "normalized-coordinates", TRUE,
                             "address-mode-x", GPU_ADDRESS_MODE_CLAMP_TO_EDGE, "address-mode-y",
                             GPU_ADDRESS_MODE_CLAMP_TO_BORDER, "border-color", &border, NULL);
  repeat_mirror = sampler_new (fixture, "context", fixture->context, "normalized-coordinates",
                               TRUE, "address-mode-x", GPU_ADDRESS_MODE_REPEAT, "address-mode-y",
                               GPU_ADDRESS_MODE_MIRRORED_REPEAT, NULL);
  assert_samples (fixture, image, edge_border, OF_2D, places, first, 5);
  assert_samples (fixture, image, repeat_mirror, OF_2D, places, second, 5);
}

/* At the tested positions, all weights of the linear filter are multiples of 1/256, so that the
 * results are exact. */
static void
texture_filters (TestFixture *fixture)
{
  static const float places[][4] = { { 2.5f, 1.5f }, { 2.75f, 1.5f }, { 2.5f, 1.75f },
                                     { 3.0f, 2.0f }, { 0.0f, 0.0f }, { 3.125f, 0.5f } };
  static const double expected[] = { 10, 10.25, 12, 14.5, 0, 2.625 };
  g_autoptr (GpuImage) image = NULL;
  g_autoptr (GpuSampler) sampler = NULL;

  if (!test_is_cuda (fixture, NEEDED))
    return;

  image = test_image_numbers (fixture, &r_float, GPU_IMAGE_TYPE_IMAGE_2D,
                              (GpuExtent) { WIDTH, HEIGHT, 1 }, 0);
  sampler = test_sampler (fixture, FALSE, GPU_ADDRESS_MODE_CLAMP_TO_EDGE, GPU_FILTER_MODE_LINEAR);
  assert_samples (fixture, image, sampler, OF_2D, places, expected, G_N_ELEMENTS (places));
}

static void
assert_colors (TestFixture *fixture,
               const char  *name,
               GpuImage    *image,
               GpuSampler  *sampler,
               const double expected[4])
{
  static const float middle[][4] = { { 0.5f, 0.5f } };
  g_autoptr (GBytes) got = sample (fixture, name, image, sampler, OF_2D, middle, 1);
  const float *reals = g_bytes_get_data (got, NULL);
  const gint32 *integers = g_bytes_get_data (got, NULL);

  for (guint i = 0; i < 4; i++)
    {
      if (g_str_equal (name, "sample_integers"))
        g_assert_cmpint (integers[i], ==, (gint32) expected[i]);
      else
        g_assert_cmpfloat_with_epsilon ((double) reals[i], expected[i], 1e-6);
    }
}

static GpuImage *
single_new (TestFixture          *fixture,
            const GpuImageFormat *format)
{
  static const guint8 texel[] = { 0, 51, 102, 255 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = g_bytes_new_static (texel, sizeof texel);
  GpuImage *image = gpu_image_new_from_bytes (fixture->context, GPU_MEMORY_FLAGS_NONE, format,
                                              GPU_IMAGE_TYPE_IMAGE_2D, &(GpuExtent) { 1, 1, 1 },
                                              bytes, 0, 0, &error);

  g_assert_no_error (error);

  return image;
}

static void
texture_read_modes (TestFixture *fixture)
{
  static const double elements[] = { 0, 51, 102, 255 };
  static const double parts[] = { 0, 0.2, 0.4, 1 };
  g_autoptr (GpuImage) normalized = NULL;
  g_autoptr (GpuImage) integers = NULL;
  g_autoptr (GpuSampler) by_format = NULL;
  g_autoptr (GpuSampler) by_element = NULL;
  g_autoptr (GpuSampler) by_part = NULL;

  if (!test_is_cuda (fixture, NEEDED))
    return;

  normalized = single_new (fixture, &rgba8);
  integers = single_new (fixture, &rgba_uint8);
  by_format = sampler_new (fixture, "context", fixture->context, NULL);
  by_element = sampler_new (fixture, "context", fixture->context, "read-mode",
                            GPU_READ_MODE_ELEMENT, NULL);
  by_part = sampler_new (fixture, "context", fixture->context, "read-mode",
                         GPU_READ_MODE_NORMALIZED, "filter-mode", GPU_FILTER_MODE_LINEAR, NULL);
  assert_colors (fixture, "sample_colors", normalized, by_format, parts);
  assert_colors (fixture, "sample_integers", normalized, by_element, elements);
  assert_colors (fixture, "sample_colors", normalized, by_part, parts);
  assert_colors (fixture, "sample_integers", integers, by_format, elements);
  assert_colors (fixture, "sample_integers", integers, by_element, elements);
  assert_colors (fixture, "sample_colors", integers, by_part, parts);
}

/* For integer textures the library passes the border color to the driver as integers, not as
 * floats. */
static void
texture_integer_border (TestFixture *fixture)
{
  static const float outside[][4] = { { -3, 0 } };
  const GpuColor border = { 1, 200, 70.4, 255 };
  g_autoptr (GpuImage) image = NULL;
  g_autoptr (GpuSampler) sampler = NULL;
  g_autoptr (GBytes) got = NULL;
  const gint32 *values;

  if (!test_is_cuda (fixture, NEEDED))
    return;

  image = single_new (fixture, &rgba_uint8);
  sampler = sampler_new (fixture, "context", fixture->context, "address-mode-x",
                         GPU_ADDRESS_MODE_CLAMP_TO_BORDER, "border-color", &border, NULL);
  got = sample (fixture, "sample_integers", image, sampler, OF_2D, outside, 1);
  values = g_bytes_get_data (got, NULL);
  g_assert_cmpint (values[0], ==, 1);
  g_assert_cmpint (values[1], ==, 200);
  g_assert_cmpint (values[2], ==, 70);
  g_assert_cmpint (values[3], ==, 255);
}

/* Reads an image whose levels are filled with their level numbers. */
static void
texture_levels (TestFixture *fixture)
{
  static const float places[][4] = { { 0.5f, 0.5f, 0, 0 }, { 0.1f, 0.9f, 0, 1 },
                                     { 0.5f, 0.5f, 0, 1.25f }, { 0.5f, 0.5f, 0, 2 },
                                     { 0.5f, 0.5f, 0, 9 } };
  static const double nearest[] = { 0, 1, 1, 2, 3 };
  static const double between[] = { 0, 1, 1.25, 2, 3 };
  static const double limited[] = { 1, 1, 1.25, 2, 2.5 };
  static const double biased[] = { 1, 2, 2.25, 3, 3 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuImage) image = NULL;
  g_autoptr (GpuSampler) by_nearest = NULL;
  g_autoptr (GpuSampler) by_linear = NULL;
  g_autoptr (GpuSampler) by_some = NULL;
  g_autoptr (GpuSampler) by_bias = NULL;

  if (!test_is_cuda (fixture, NEEDED) || !test_has (fixture, GPU_CAPABILITIES_MIPMAPS))
    return;

  image = gpu_image_new_mipmapped (fixture->context, GPU_MEMORY_FLAGS_NONE, &r_float,
                                   GPU_IMAGE_TYPE_IMAGE_2D, &(GpuExtent) { 16, 16, 1 }, 4, &error);
  g_assert_no_error (error);

  for (guint i = 0; i < 4; i++)
    {
      const GpuColor color = { i, 0, 0, 0 };
      g_autoptr (GpuImage) level = gpu_image_get_level (image, i, &error);

      g_assert_no_error (error);
      test_assert_ok (gpu_stream_fill_image (fixture->stream, level, &color, NULL, NULL, &error),
                      error);
    }

  by_nearest = sampler_new (fixture, "context", fixture->context, "normalized-coordinates", TRUE,
                            "max-anisotropy", 4, NULL);
  by_linear = sampler_new (fixture, "context", fixture->context, "normalized-coordinates", TRUE,
                           "mip-filter-mode", GPU_FILTER_MODE_LINEAR, NULL);
  by_some = sampler_new (fixture, "context", fixture->context, "normalized-coordinates", TRUE,
                         "mip-filter-mode", GPU_FILTER_MODE_LINEAR, "min-lod", 1.0, "max-lod", 2.5,
                         NULL);
  by_bias = sampler_new (fixture, "context", fixture->context, "normalized-coordinates", TRUE,
                         "mip-filter-mode", GPU_FILTER_MODE_LINEAR, "lod-bias", 1.0, NULL);
  assert_samples (fixture, image, by_nearest, OF_LEVEL, places, nearest, 5);
  assert_samples (fixture, image, by_linear, OF_LEVEL, places, between, 5);
  assert_samples (fixture, image, by_some, OF_LEVEL, places, limited, 5);
  assert_samples (fixture, image, by_bias, OF_LEVEL, places, biased, 5);
}

/* --- memory of buffers ------------------------------------------------------------------------ */

static void
texture_buffers (TestFixture *fixture)
{
  static const float places[][4] = { { 0.5f, 0.5f }, { 7.5f, 4.5f }, { 2.5f, 3.5f } };
  static const double of_row[] = { 0, 7, 2 };
  static const double of_rows[] = { 0, 39, 26 };
  static const double changed[] = { 5, 39, 26 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuImage) numbers = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuImage) row = NULL;
  g_autoptr (GpuImage) rows = NULL;
  g_autoptr (GpuSampler) sampler = NULL;
  g_autoptr (GBytes) five = NULL;
  const float value = 5;

  if (!test_is_cuda (fixture, NEEDED) || !test_has (fixture, GPU_CAPABILITIES_IMAGE_FROM_BUFFER))
    return;

  buffer = gpu_buffer_new_pitched (fixture->context, GPU_MEMORY_FLAGS_NONE, WIDTH * 4, HEIGHT, 4,
                                   &error);
  g_assert_no_error (error);
  numbers = test_image_numbers (fixture, &r_float, GPU_IMAGE_TYPE_IMAGE_2D,
                                (GpuExtent) { WIDTH, HEIGHT, 1 }, 0);
  row = gpu_image_new_for_buffer (buffer, GPU_MEMORY_FLAGS_NONE, &r_float,
                                  GPU_IMAGE_TYPE_IMAGE_1D_BUFFER,
                                  WIDTH, 1, 0, &error);
  g_assert_no_error (error);
  rows = gpu_image_new_for_buffer (buffer, GPU_MEMORY_FLAGS_NONE, &r_float, GPU_IMAGE_TYPE_IMAGE_2D,
                                   WIDTH, HEIGHT, 0, &error);
  g_assert_no_error (error);
  test_assert_ok (gpu_stream_copy_region (fixture->stream, GPU_MEMORY (rows), NULL,
                                          GPU_MEMORY (numbers), NULL,
                                          &(GpuExtent) { WIDTH, HEIGHT, 1 }, &error), error);
  sampler = test_sampler (fixture, FALSE, GPU_ADDRESS_MODE_CLAMP_TO_EDGE, GPU_FILTER_MODE_NEAREST);
  assert_samples (fixture, row, sampler, OF_BUFFER, places, of_row, 3);
  assert_samples (fixture, rows, sampler, OF_2D, places, of_rows, 3);

  /* The texture reads later writes to the buffer. */
  five = g_bytes_new (&value, sizeof value);
  test_assert_ok (gpu_stream_write (fixture->stream, GPU_MEMORY (buffer), 0, five, &error), error);
  assert_samples (fixture, rows, sampler, OF_2D, places, changed, 3);
}

/* --- surfaces --------------------------------------------------------------------------------- */

static void
assert_sums (TestFixture  *fixture,
             GpuImageType  type,
             GpuExtent     extent,
             int           how)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuKernel) kernel = test_kernel (fixture, source, "sum");
  g_autoptr (GpuImage) image = test_image_numbers (fixture, &r_int, type, extent, 0);
  g_autoptr (GpuArguments) arguments = gpu_arguments_new ();
  g_autoptr (GBytes) bytes = NULL;
  const gint32 *texels;

  gpu_arguments_add_memory (arguments, GPU_MEMORY (image));
  gpu_arguments_add_int (arguments, how);

  /* Launch twice with the same object. */
  for (guint i = 0; i < 2; i++)
    test_assert_ok (gpu_stream_launch_arguments (fixture->stream, kernel, &extent, &extent,
                                                 arguments, &error), error);

  bytes = gpu_image_read_bytes (image, NULL, NULL, NULL, NULL, &error);
  g_assert_no_error (error);
  texels = g_bytes_get_data (bytes, NULL);

  for (gsize z = 0; z < extent.depth; z++)
    {
      for (gsize y = 0; y < extent.height; y++)
        {
          for (gsize x = 0; x < extent.width; x++)
            g_assert_cmpint (*texels++, ==, (gint32) (x + extent.width * (y + extent.height * z)
                                                      + 2 * (1000 * z + 100 * y + x)));
        }
    }
}

static void
texture_surfaces (TestFixture *fixture)
{
  if (!test_is_cuda (fixture, NEEDED))
    return;

  assert_sums (fixture, GPU_IMAGE_TYPE_IMAGE_1D, (GpuExtent) { WIDTH, 1, 1 }, OF_1D);
  assert_sums (fixture, GPU_IMAGE_TYPE_IMAGE_1D_ARRAY, (GpuExtent) { WIDTH, HEIGHT, 1 },
               OF_1D_ARRAY);
  assert_sums (fixture, GPU_IMAGE_TYPE_IMAGE_2D, (GpuExtent) { WIDTH, HEIGHT, 1 }, OF_2D);
  assert_sums (fixture, GPU_IMAGE_TYPE_IMAGE_2D_ARRAY, (GpuExtent) { WIDTH, HEIGHT, DEPTH },
               OF_2D_ARRAY);
  assert_sums (fixture, GPU_IMAGE_TYPE_IMAGE_3D, (GpuExtent) { WIDTH, HEIGHT, DEPTH }, OF_3D);
}

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
  test_add ("texels", texture_texels);
  test_add ("cubes", texture_cubes);
  test_add ("modes", texture_modes);
  test_add ("filters", texture_filters);
  test_add ("read-modes", texture_read_modes);
  test_add ("integer-border", texture_integer_border);
  test_add ("levels", texture_levels);
  test_add ("buffers", texture_buffers);
  test_add ("surfaces", texture_surfaces);
  return test_run ();
}
