/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Kernels with image arguments: writes, queries, lifetimes, and images over other memory. */
#include "config.h"

#include <stdlib.h>

#include "test-image-util.h"

#define WIDTH  12
#define HEIGHT 5
#define DEPTH  3

static const GpuImageFormat r_float = { GPU_CHANNEL_ORDER_R, GPU_CHANNEL_TYPE_FLOAT32 };
static const GpuImageFormat r_int = { GPU_CHANNEL_ORDER_R, GPU_CHANNEL_TYPE_INT32 };
static const GpuExtent flat = { WIDTH, HEIGHT, 1 };

/* --- shared helpers --------------------------------------------------------------------------- */

static gboolean
can_run (TestFixture *fixture)
{
  return test_has (fixture, GPU_CAPABILITIES_IMAGES | GPU_CAPABILITIES_SOURCE
                            | GPU_CAPABILITIES_ARGUMENT_INFO);
}

static void
fill (TestFixture *fixture,
      GpuImage    *image,
      double       value)
{
  const GpuColor color = { value, value, value, value };
  g_autoptr (GError) error = NULL;

  test_assert_ok (gpu_stream_fill_image (fixture->stream, image, &color, NULL, NULL, &error),
                  error);
}

static GBytes *
content (GpuImage *image)
{
  g_autoptr (GError) error = NULL;
  GBytes *bytes = gpu_image_read_bytes (image, NULL, NULL, NULL, NULL, &error);

  g_assert_no_error (error);

  return bytes;
}

/* --- writes ----------------------------------------------------------------------------------- */

/* Writes a number to each texel; the grid exceeds the image, and writes outside of the image are
 * ignored. */
static const char writes[] =
  "int number (int x, int y, int z) { return 1 + x + 100 * y + 10000 * z; }\n"
  "void put (__write_only image2d_t image, int2 at, int value)\n"
  "{ write_imagei (image, at, (int4) (value, 0, 0, 0)); }\n"
  "__kernel void write_1d (__write_only image1d_t image)\n"
  "{\n"
  "  int x = (int) get_global_id (0) - 2;\n"
  "  write_imagei (image, x, (int4) (number (x, 0, 0), 0, 0, 0));\n"
  "}\n"
  "__kernel void write_1db (__write_only image1d_buffer_t image, __global int *widths)\n"
  "{\n"
  "  int x = (int) get_global_id (0) - 2;\n"
  "  if (x >= 0 && x < widths[0])\n"
  "    write_imagei (image, x, (int4) (number (x, 0, 0)));\n"
  "}\n"
  "__kernel void write_1da (__write_only image1d_array_t image)\n"
  "{\n"
  "  int x = (int) get_global_id (0) - 2, y = (int) get_global_id (1);\n"
  "  if (y < (int) get_image_array_size (image))\n"
  "    write_imagei (image, (int2) (x, y), (int4) (number (x, y, 0)));\n"
  "}\n"
  "__kernel void write_2d (__write_only image2d_t image)\n"
  "{\n"
  "  int x = (int) get_global_id (0) - 2, y = (int) get_global_id (1) - 2;\n"
  "  put (image, (int2) (x, y), number (x, y, 0));\n"
  "}\n"
  "__kernel void write_2da (__write_only image2d_array_t image)\n"
  "{\n"
  "  int x = (int) get_global_id (0) - 2, y = (int) get_global_id (1) - 2;\n"
  "  int z = (int) get_global_id (2);\n"
  "  if (z < (int) get_image_array_size (image))\n"
  "    write_imagei (image, (int4) (x, y, z, 0), (int4) (number (x, y, z)));\n"
  "}\n";

static const char writes_3d[] =
  "#ifndef __GPUMEM_CUDA__\n"
  "#pragma OPENCL EXTENSION cl_khr_3d_image_writes : enable\n"
  "#endif\n"
  "__kernel void write_3d (__write_only image3d_t image)\n"
  "{\n"
  "  int x = (int) get_global_id (0) - 2, y = (int) get_global_id (1) - 2;\n"
  "  int z = (int) get_global_id (2) - 2;\n"
  "  write_imagei (image, (int4) (x, y, z, 0), (int4) (1 + x + 100 * y + 10000 * z));\n"
  "}\n";

/* @widths is nullable. */
static void
assert_written (TestFixture  *fixture,
                const char   *source,
                const char   *name,
                GpuImage     *image,
                GpuBuffer    *widths)
{
  const GpuExtent grid = { WIDTH + 4, HEIGHT + 4, DEPTH + 4 };
  g_autoptr (GpuKernel) kernel = test_kernel (fixture, source, name);
  g_autoptr (GpuArguments) arguments = gpu_arguments_new ();
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = NULL;
  const gint32 *texels;
  GpuExtent extent;

  fill (fixture, image, -7);
  gpu_arguments_add_memory (arguments, GPU_MEMORY (image));
  if (widths != NULL)
    gpu_arguments_add_memory (arguments, GPU_MEMORY (widths));
  test_assert_ok (gpu_stream_launch_arguments (fixture->stream, kernel, &grid, NULL, arguments,
                                               &error), error);
  bytes = content (image);
  texels = g_bytes_get_data (bytes, NULL);
  gpu_image_get_extent (image, &extent);

  for (gsize z = 0; z < extent.depth; z++)
    {
      for (gsize y = 0; y < extent.height; y++)
        {
          for (gsize x = 0; x < extent.width; x++)
            g_assert_cmpint (*texels++, ==, (gint32) (1 + x + 100 * y + 10000 * z));
        }
    }
}

static void
image_writes (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuImage) row = NULL;
  g_autoptr (GpuImage) rows = NULL;
  g_autoptr (GpuImage) sheet = NULL;
  g_autoptr (GpuImage) sheets = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuImage) linear = NULL;
  g_autoptr (GpuBuffer) widths = NULL;
  const gint32 width = WIDTH;
  g_autoptr (GBytes) numbers = g_bytes_new (&width, sizeof width);

  if (!can_run (fixture) || !test_drops_writes (fixture))
    return;

  row = test_image (fixture, 0, &r_int, GPU_IMAGE_TYPE_IMAGE_1D, (GpuExtent) { WIDTH, 1, 1 });
  rows = test_image (fixture, 0, &r_int, GPU_IMAGE_TYPE_IMAGE_1D_ARRAY, flat);
  sheet = test_image (fixture, 0, &r_int, GPU_IMAGE_TYPE_IMAGE_2D, flat);
  sheets = test_image (fixture, 0, &r_int, GPU_IMAGE_TYPE_IMAGE_2D_ARRAY,
                       (GpuExtent) { WIDTH, HEIGHT, DEPTH });
  buffer = test_buffer_filled (fixture, WIDTH * 4, 0);
  linear = gpu_image_new_for_buffer (buffer, 0, &r_int, GPU_IMAGE_TYPE_IMAGE_1D_BUFFER, WIDTH, 1, 0,
                                     &error);
  g_assert_no_error (error);
  widths = test_buffer_from (fixture, numbers);
  assert_written (fixture, writes, "write_1d", row, NULL);
  assert_written (fixture, writes, "write_1da", rows, NULL);
  assert_written (fixture, writes, "write_2d", sheet, NULL);
  assert_written (fixture, writes, "write_2da", sheets, NULL);
  assert_written (fixture, writes, "write_1db", linear, widths);
}

static void
image_writes_3d (TestFixture *fixture)
{
  g_autoptr (GpuImage) image = NULL;

  if (!can_run (fixture) || !test_has (fixture, GPU_CAPABILITIES_IMAGE_3D_WRITES)
      || !test_drops_writes (fixture))
    return;

  image = test_image (fixture, 0, &r_int, GPU_IMAGE_TYPE_IMAGE_3D,
                      (GpuExtent) { WIDTH, HEIGHT, DEPTH });
  assert_written (fixture, writes_3d, "write_3d", image, NULL);
}

/* --- conversions ------------------------------------------------------------------------------ */

static const char conversions[] =
  "__kernel void write_f (__write_only image2d_t image, float r, float g, float b, float a)\n"
  "{\n"
  "  int2 at = (int2) ((int) get_global_id (0), (int) get_global_id (1));\n"
  "  write_imagef (image, at, (float4) (r, g, b, a));\n"
  "}\n"
  "__kernel void write_i (__write_only image2d_t image, int r, int g, int b, int a)\n"
  "{\n"
  "  int2 at = (int2) ((int) get_global_id (0), (int) get_global_id (1));\n"
  "  write_imagei (image, at, (int4) (r, g, b, a));\n"
  "}\n"
  "__kernel void write_ui (__write_only image2d_t image, uint r, uint g, uint b, uint a)\n"
  "{\n"
  "  int2 at = (int2) ((int) get_global_id (0), (int) get_global_id (1));\n"
  "  write_imageui (image, at, (uint4) (r, g, b, a));\n"
  "}\n";

/* Returns the distance of two channels in units of the last place. Channels that are neither
 * normalized nor half floats must be equal: returns G_MAXUINT if they differ. */
static guint
get_distance (const GpuImageFormat *format,
              const guint8         *got,
              const guint8         *expected,
              gsize                 i)
{
  guint16 left;
  guint16 right;

  switch (format->channel_type)
    {
    case GPU_CHANNEL_TYPE_UNORM8:
      return (guint) abs (got[i] - expected[i]);
    case GPU_CHANNEL_TYPE_SNORM8:
      return (guint) abs ((gint8) got[i] - (gint8) expected[i]);
    case GPU_CHANNEL_TYPE_UNORM16:
    case GPU_CHANNEL_TYPE_SNORM16:
    case GPU_CHANNEL_TYPE_FLOAT16:
      memcpy (&left, got + (i & ~(gsize) 1), sizeof left);
      memcpy (&right, expected + (i & ~(gsize) 1), sizeof right);
      return (guint) abs ((gint16) (left - right));
    default:
      return got[i] == expected[i] ? 0 : G_MAXUINT;
    }
}

static void
write_color (TestFixture          *fixture,
             GpuProgram           *program,
             const GpuImageFormat *format,
             const GpuColor       *color)
{
  gboolean is_signed = format->channel_type >= GPU_CHANNEL_TYPE_INT8
                       && format->channel_type <= GPU_CHANNEL_TYPE_INT32;
  gboolean is_unsigned = format->channel_type >= GPU_CHANNEL_TYPE_UINT8
                         && format->channel_type <= GPU_CHANNEL_TYPE_UINT32;
  const char *name = is_signed ? "write_i" : is_unsigned ? "write_ui" : "write_f";
  g_autofree char *text = gpu_image_format_to_string (format);
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuKernel) kernel = gpu_program_get_kernel (program, name, &error);
  g_autoptr (GpuImage) written = test_image (fixture, 0, format, GPU_IMAGE_TYPE_IMAGE_2D, flat);
  g_autoptr (GpuImage) filled = test_image (fixture, 0, format, GPU_IMAGE_TYPE_IMAGE_2D, flat);
  g_autoptr (GpuArguments) arguments = gpu_arguments_new ();
  g_autoptr (GBytes) got = NULL;
  g_autoptr (GBytes) expected = NULL;

  g_assert_no_error (error);
  gpu_arguments_add_memory (arguments, GPU_MEMORY (written));
  gpu_arguments_add_double (arguments, color->red);
  gpu_arguments_add_double (arguments, color->green);
  gpu_arguments_add_double (arguments, color->blue);
  gpu_arguments_add_double (arguments, color->alpha);
  test_assert_ok (gpu_stream_launch_arguments (fixture->stream, kernel, &flat, NULL, arguments,
                                               &error), error);
  test_assert_ok (gpu_stream_fill_image (fixture->stream, filled, color, NULL, NULL, &error),
                  error);
  got = content (written);
  expected = content (filled);

  for (gsize i = 0; i < g_bytes_get_size (expected); i++)
    {
      const guint8 *left = g_bytes_get_data (got, NULL);
      const guint8 *right = g_bytes_get_data (expected, NULL);

      if (get_distance (format, left, right, i) > 1)
        g_error ("%s: byte %" G_GSIZE_FORMAT " is 0x%02x, not 0x%02x", text, i, left[i],
                 right[i]);
    }
}

/* A kernel converts a color to the same texel as a fill, within one unit in the last place. Other
 * tests check fills in every format. */
static void
image_conversions (TestFixture *fixture)
{
  static const GpuColor reals[] = { { 0.2, 0.5, -0.75, 1 }, { 1.5, -2, 0.001, 0.998 } };
  static const GpuColor integers[] = { { 1, 100, 250, 3 }, { 40000, 70000, 127, 65535 } };
  g_autoptr (GError) error = NULL;
  g_autolist (GpuImageFormat) formats = NULL;
  g_autoptr (GpuProgram) program = NULL;

  if (!can_run (fixture))
    return;

  program = test_program (fixture, conversions);
  formats = gpu_context_list_image_formats (fixture->context, GPU_MEMORY_FLAGS_WRITE_ONLY,
                                            GPU_IMAGE_TYPE_IMAGE_2D, &error);
  g_assert_no_error (error);

  for (GList *link = formats; link != NULL; link = link->next)
    {
      const GpuImageFormat *format = link->data;
      gboolean is_integer = format->channel_type >= GPU_CHANNEL_TYPE_UINT8
                            && format->channel_type <= GPU_CHANNEL_TYPE_INT32;

      /* Depth formats need separate kernel argument types */
      if (format->channel_order == GPU_CHANNEL_ORDER_DEPTH
          && !g_str_equal (gpu_device_get_backend (fixture->device), "host"))
        continue;

      for (guint j = 0; j < G_N_ELEMENTS (reals); j++)
        write_color (fixture, program, format, is_integer ? &integers[j] : &reals[j]);
    }

  g_test_message ("%u formats", g_list_length (formats));
}

/* --- queries ---------------------------------------------------------------------------------- */

static const char queries[] =
  "__kernel void ask_2d (__read_only image2d_t image, __global int *out)\n"
  "{\n"
  "  int2 dim = get_image_dim (image);\n"
  "  out[0] = get_image_width (image);\n"
  "  out[1] = get_image_height (image);\n"
  "  out[2] = dim.x;\n"
  "  out[3] = dim.y;\n"
  "  out[4] = get_image_channel_order (image) == CLK_R;\n"
  "  out[5] = get_image_channel_data_type (image) == CLK_FLOAT;\n"
  "  out[6] = get_image_channel_order (image) == CLK_RGBA;\n"
  "  out[7] = get_image_channel_data_type (image) == CLK_UNORM_INT8;\n"
  "}\n"
  "__kernel void ask_3d (__read_only image3d_t image, __write_only image2d_array_t sheets,\n"
  "                      __read_only image1d_array_t rows, __global int *out)\n"
  "{\n"
  "  int4 dim = get_image_dim (image);\n"
  "  out[0] = get_image_width (image);\n"
  "  out[1] = get_image_height (image);\n"
  "  out[2] = get_image_depth (image);\n"
  "  out[3] = dim.x + 1000 * dim.y + 1000000 * dim.z + dim.w;\n"
  "  out[4] = get_image_width (sheets);\n"
  "  out[5] = get_image_height (sheets);\n"
  "  out[6] = (int) get_image_array_size (sheets);\n"
  "  out[7] = get_image_width (rows) + 1000 * (int) get_image_array_size (rows);\n"
  "}\n";

static void
assert_answers (GpuBuffer    *out,
                const gint32 *expected)
{
  g_autoptr (GBytes) got = test_content (out);

  test_assert_mem (g_bytes_get_data (got, NULL), expected, 8 * sizeof *expected);
}

static void
image_queries (TestFixture *fixture)
{
  static const gint32 about_2d[] = { WIDTH, HEIGHT, WIDTH, HEIGHT, 1, 1, 0, 0 };
  static const gint32 about_3d[] = { WIDTH, HEIGHT, DEPTH,
                                     WIDTH + 1000 * HEIGHT + 1000000 * DEPTH, WIDTH, HEIGHT,
                                     DEPTH, WIDTH + 1000 * HEIGHT };
  const GpuExtent one = { 1, 1, 1 };
  const GpuExtent deep = { WIDTH, HEIGHT, DEPTH };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) out = NULL;
  g_autoptr (GpuKernel) ask_2d = NULL;
  g_autoptr (GpuKernel) ask_3d = NULL;
  g_autoptr (GpuImage) image = NULL;
  g_autoptr (GpuImage) cube = NULL;
  g_autoptr (GpuImage) sheets = NULL;
  g_autoptr (GpuImage) rows = NULL;

  if (!can_run (fixture))
    return;

  out = test_buffer (fixture, 8 * sizeof (gint32));
  ask_2d = test_kernel (fixture, queries, "ask_2d");
  ask_3d = test_kernel (fixture, queries, "ask_3d");
  image = test_image (fixture, 0, &r_float, GPU_IMAGE_TYPE_IMAGE_2D, flat);
  cube = test_image (fixture, 0, &r_float, GPU_IMAGE_TYPE_IMAGE_3D, deep);
  sheets = test_image (fixture, 0, &r_float, GPU_IMAGE_TYPE_IMAGE_2D_ARRAY, deep);
  rows = test_image (fixture, 0, &r_float, GPU_IMAGE_TYPE_IMAGE_1D_ARRAY, flat);
  test_assert_ok (gpu_stream_launch (fixture->stream, ask_2d, &one, NULL, &error, image, out),
                  error);
  assert_answers (out, about_2d);
  test_assert_ok (gpu_stream_launch (fixture->stream, ask_3d, &one, NULL, &error, cube, sheets,
                                     rows, out), error);
  assert_answers (out, about_3d);
}

/* --- lifetimes -------------------------------------------------------------------------------- */

static const char reads[] =
  "float4 look (__read_only image2d_t image, sampler_t by, float2 at)\n"
  "{ return read_imagef (image, by, at); }\n"
  "__kernel void read (__read_only image2d_t image, sampler_t by, __global float *out)\n"
  "{\n"
  "  int x = (int) get_global_id (0), y = (int) get_global_id (1);\n"
  "  int n = (int) get_global_size (0);\n"
  "  out[n * y + x] = look (image, by, (float2) ((float) x + 0.5f, (float) y + 0.5f)).x;\n"
  "}\n"
  "__kernel void write (__write_only image2d_t image, float value)\n"
  "{\n"
  "  int2 at = (int2) ((int) get_global_id (0), (int) get_global_id (1));\n"
  "  write_imagef (image, at, (float4) (value));\n"
  "}\n";

/* Drops all objects but the result while the launch is still pending. */
static void
launch_and_drop (TestFixture *fixture,
                 GpuKernel   *write,
                 GpuKernel   *read,
                 GpuBuffer   *out,
                 double       value)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuImage) image = test_image (fixture, 0, &r_float, GPU_IMAGE_TYPE_IMAGE_2D, flat);
  g_autoptr (GpuSampler) sampler = test_sampler (fixture, FALSE, GPU_ADDRESS_MODE_CLAMP_TO_EDGE,
                                                 GPU_FILTER_MODE_NEAREST);
  g_autoptr (GpuArguments) arguments = gpu_arguments_new ();

  test_assert_ok (gpu_stream_launch (fixture->stream, write, &flat, NULL, &error, image, value),
                  error);
  gpu_arguments_add_memory (arguments, GPU_MEMORY (image));
  gpu_arguments_add_sampler (arguments, sampler);
  gpu_arguments_add_memory (arguments, GPU_MEMORY (out));
  test_assert_ok (gpu_stream_launch_arguments (fixture->stream, read, &flat, NULL, arguments,
                                               &error), error);
}

static void
image_kernel_dropped (TestFixture *fixture)
{
  g_autoptr (GpuKernel) write = NULL;
  g_autoptr (GpuKernel) read = NULL;

  if (!can_run (fixture))
    return;

  write = test_kernel (fixture, reads, "write");
  read = test_kernel (fixture, reads, "read");

  for (guint i = 0; i < 200; i++)
    {
      g_autoptr (GpuBuffer) out = test_buffer (fixture, WIDTH * HEIGHT * 4);
      g_autoptr (GBytes) got = NULL;
      const float *texels;

      launch_and_drop (fixture, write, read, out, i);
      got = test_content (out);
      texels = g_bytes_get_data (got, NULL);

      for (guint j = 0; j < WIDTH * HEIGHT; j++)
        g_assert_cmpfloat (texels[j], ==, i);
    }
}

/* --- over other memory ------------------------------------------------------------------------ */

static void
launch_write (TestFixture *fixture,
              GpuImage    *image,
              double       value)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuKernel) write = test_kernel (fixture, reads, "write");

  test_assert_ok (gpu_stream_launch (fixture->stream, write, &flat, NULL, &error, image, value),
                  error);
}

static void
assert_busy (TestFixture *fixture,
             GpuImage    *image)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuKernel) write = test_kernel (fixture, reads, "write");

  g_assert_false (gpu_stream_launch (fixture->stream, write, &flat, NULL, &error, image, 1.0));
  test_assert_gpu_error (error, GPU_ERROR_BUSY, "mapped");
}

static void
assert_rows (gconstpointer data,
             gsize         pitch,
             gsize         n_rows,
             float         value)
{
  for (gsize y = 0; y < n_rows; y++)
    {
      const float *row = (const float *) ((const guint8 *) data + y * pitch);

      for (gsize x = 0; x < WIDTH; x++)
        g_assert_cmpfloat (row[x], ==, value);
    }
}

/* A kernel writes an image over host memory. The gaps between the rows stay unchanged. */
static void
image_over_host (TestFixture *fixture)
{
  const gsize pitch = (WIDTH + 4) * sizeof (float);
  const GpuLayout last = { 0, HEIGHT - 1, 0, 0, 0 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_value_bytes (pitch * HEIGHT, 0xa5);
  const guint8 *data = g_bytes_get_data (bytes, NULL);
  g_autoptr (GpuImage) image = NULL;
  g_autoptr (GpuMapping) mapping = NULL;

  if (!can_run (fixture) || !test_has (fixture, GPU_CAPABILITIES_MAP))
    return;

  image = gpu_image_new_for_host_bytes (fixture->context, 0, &r_float, GPU_IMAGE_TYPE_IMAGE_2D,
                                        &flat, bytes, pitch, 0, &error);

  if (g_error_matches (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED))
    {
      g_test_skip (error->message);
      return;
    }

  g_assert_no_error (error);
  launch_write (fixture, image, 3);
  mapping = gpu_image_map (image, NULL, GPU_MAP_FLAGS_NONE, NULL, NULL, NULL, &error);
  g_assert_no_error (error);
  assert_rows (gpu_mapping_get_data (mapping), gpu_mapping_get_row_pitch (mapping), HEIGHT, 3);
  test_assert_ok (gpu_mapping_unmap (mapping, &error), error);
  g_clear_object (&mapping);

  mapping = gpu_image_map (image, NULL, GPU_MAP_FLAGS_WRITE, &last, NULL, NULL, &error);
  g_assert_no_error (error);
  assert_busy (fixture, image);
  test_assert_ok (gpu_mapping_unmap (mapping, &error), error);
  g_clear_object (&mapping);

  fill (fixture, image, 5);
  test_synchronize (fixture->stream);
  mapping = gpu_image_map (image, NULL, GPU_MAP_FLAGS_READ, &last, NULL, NULL, &error);
  g_assert_no_error (error);
  assert_rows (gpu_mapping_get_data (mapping), 0, 1, 5);

  for (gsize y = 0; y + 1 < HEIGHT; y++)
    test_assert_value (data + y * pitch + WIDTH * sizeof (float), 0xa5, 4 * sizeof (float));
}

static void
image_over_rows (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuImage) image = NULL;
  g_autoptr (GpuMapping) mapping = NULL;
  g_autoptr (GBytes) got = NULL;
  gsize pitch;

  if (!can_run (fixture) || !test_has (fixture, GPU_CAPABILITIES_IMAGE_FROM_BUFFER))
    return;

  buffer = gpu_buffer_new_pitched (fixture->context, 0, WIDTH * sizeof (float), HEIGHT,
                                   sizeof (float), &error);
  g_assert_no_error (error);
  pitch = gpu_buffer_get_row_pitch (buffer);
  image = gpu_image_new_for_buffer (buffer, 0, &r_float, GPU_IMAGE_TYPE_IMAGE_2D, WIDTH, HEIGHT, 0,
                                    &error);
  g_assert_no_error (error);
  launch_write (fixture, image, 9);
  got = test_content (buffer);
  assert_rows (g_bytes_get_data (got, NULL), pitch, HEIGHT, 9);

  if ((gpu_device_get_capabilities (fixture->device) & GPU_CAPABILITIES_MAP) == 0)
    return;

  mapping = gpu_buffer_map (buffer, NULL, GPU_MAP_FLAGS_WRITE,
                            (HEIGHT - 1) * pitch + (WIDTH - 1) * sizeof (float), sizeof (float),
                            NULL, &error);
  g_assert_no_error (error);
  assert_busy (fixture, image);
}

/* A mip level can be an image argument of a kernel. Writes to the level do not change other
 * levels. */
static void
image_level_arguments (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuImage) image = NULL;
  g_autoptr (GpuImage) second = NULL;
  g_autoptr (GpuImage) third = NULL;
  g_autoptr (GBytes) whole = NULL;
  g_autoptr (GBytes) small = NULL;

  if (!can_run (fixture) || !test_has (fixture, GPU_CAPABILITIES_MIPMAPS))
    return;

  if (test_is_opencl (fixture))
    {
      g_test_skip ("OpenCL kernels select the level themselves");
      return;
    }

  image = gpu_image_new_mipmapped (fixture->context, 0, &r_float, GPU_IMAGE_TYPE_IMAGE_2D,
                                   &(GpuExtent) { 2 * WIDTH, 2 * HEIGHT, 1 }, 3, &error);
  g_assert_no_error (error);
  second = gpu_image_get_level (image, 1, &error);
  g_assert_no_error (error);
  third = gpu_image_get_level (image, 2, &error);
  g_assert_no_error (error);
  fill (fixture, image, 1);
  fill (fixture, third, 3);
  launch_write (fixture, second, 2);
  whole = content (second);
  assert_rows (g_bytes_get_data (whole, NULL), WIDTH * sizeof (float), HEIGHT, 2);
  small = content (third);
  g_assert_cmpfloat (*(const float *) g_bytes_get_data (small, NULL), ==, 3);
}

int
main (int    argc,
      char **argv)
{
  test_init (&argc, &argv);
  test_add ("writes", image_writes);
  test_add ("writes-3d", image_writes_3d);
  test_add ("conversions", image_conversions);
  test_add ("queries", image_queries);
  test_add ("dropped", image_kernel_dropped);
  test_add ("over-host", image_over_host);
  test_add ("over-rows", image_over_rows);
  test_add ("level-arguments", image_level_arguments);

  return test_run ();
}
