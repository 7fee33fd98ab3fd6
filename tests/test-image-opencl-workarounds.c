/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Images over buffers on OpenCL, and other workarounds for PoCL 3.1: the library never calls a
 * function of the driver that crashes, ends the process or returns a wrong result. */
#include "config.h"

#include "opencl-layer/gpumem-layer.h"
#include "test-image-util.h"

#define WIDTH  24
#define HEIGHT 20

static const GpuImageFormat rgba8 = { GPU_CHANNEL_ORDER_RGBA, GPU_CHANNEL_TYPE_UINT8 };

static gboolean
is_pocl (TestFixture *fixture)
{
  return test_is_pocl (fixture);
}

/* --- images over buffers ---------------------------------------------------------------------- */

/* PoCL crashes when an image over a buffer is filled or copied to a buffer, and cannot copy such an
 * image to another image. */
static void
over_buffer (TestFixture *fixture)
{
  const GpuColor color = { 200, 100, 50, 25 };
  const GpuLayout at = { 5, 0, 0, 0, 0 };
  const GpuExtent seven = { 7, 1, 1 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (4 * WIDTH);
  g_autofree guint8 *expected = g_memdup2 (g_bytes_get_data (bytes, NULL), 4 * WIDTH);
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuBuffer) other = NULL;
  g_autoptr (GpuImage) image = NULL;
  g_autoptr (GpuImage) second = NULL;
  g_autoptr (GpuImage) row = NULL;
  g_autoptr (GpuMapping) mapping = NULL;

  if (!test_has_opencl_images (fixture))
    return;

  buffer = test_buffer_from (fixture, bytes);
  other = test_buffer_filled (fixture, 4 * WIDTH, 0);
  image = test_image_over (buffer, WIDTH);
  second = test_image_over (other, WIDTH);
  row = test_image (fixture, GPU_MEMORY_FLAGS_NONE, &rgba8, GPU_IMAGE_TYPE_IMAGE_1D,
                    (GpuExtent) { WIDTH, 1, 1 });

  test_assert_ok (gpu_image_fill (image, NULL, &color, &at, &seven, NULL, &error), error);
  for (guint i = 5; i < 12; i++)
    memcpy (expected + 4 * i, (const guint8[]) { 200, 100, 50, 25 }, 4);
  test_assert_image (image, expected, 4 * WIDTH);

  test_copy_region (fixture->stream, second, NULL, image, NULL, (GpuExtent) { WIDTH, 1, 1 });
  test_assert_image (second, expected, 4 * WIDTH);
  test_copy_region (fixture->stream, row, NULL, second, NULL, (GpuExtent) { WIDTH, 1, 1 });
  test_assert_image (row, expected, 4 * WIDTH);
  test_copy_region (fixture->stream, image, NULL, row, &at, seven);
  memmove (expected, expected + 20, 28);
  test_assert_image (image, expected, 4 * WIDTH);
  test_copy_region (fixture->stream, other, NULL, image, NULL, (GpuExtent) { WIDTH, 1, 1 });
  test_assert_image (second, expected, 4 * WIDTH);

  mapping = gpu_image_map (image, NULL, GPU_MAP_FLAGS_NONE, &at, &seven, NULL, &error);
  g_assert_no_error (error);
  test_assert_mem (gpu_mapping_get_data (mapping), expected + 20, 28);
  memset (gpu_mapping_get_data (mapping), 3, 28);
  test_assert_ok (gpu_mapping_unmap (mapping, &error), error);
  memset (expected + 20, 3, 28);
  test_assert_image (image, expected, 4 * WIDTH);
  test_assert_ok (gpu_stream_migrate (fixture->stream, (GpuMemory *[]) { (GpuMemory *) image }, 1,
                                      GPU_MIGRATE_FLAGS_NONE, &error), error);
  test_synchronize (fixture->stream);
}

/* If the host cannot access a buffer, the host cannot access an image over that buffer either. */
static void
over_closed_buffer (TestFixture *fixture)
{
  const GpuColor color = { 5, 5, 5, 5 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuBuffer) open = NULL;
  g_autoptr (GpuImage) image = NULL;
  g_autoptr (GBytes) bytes = test_value_bytes (4 * WIDTH, 5);

  if (!test_has_opencl_images (fixture))
    return;

  buffer = gpu_buffer_new (fixture->context, GPU_MEMORY_FLAGS_HOST_NO_ACCESS, 4 * WIDTH, &error);
  g_assert_no_error (error);
  open = test_buffer_filled (fixture, 4 * WIDTH, 0);
  image = test_image_over (buffer, WIDTH);
  g_assert_cmpint (gpu_memory_get_flags (GPU_MEMORY (image)), ==, GPU_MEMORY_FLAGS_HOST_NO_ACCESS);
  g_assert_false (gpu_image_write_bytes (image, NULL, NULL, NULL, bytes, 0, 0, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "flags");
  test_assert_ok (gpu_image_fill (image, NULL, &color, NULL, NULL, NULL, &error), error);
  test_copy_region (fixture->stream, open, NULL, image, NULL, (GpuExtent) { WIDTH, 1, 1 });
  test_assert_content (open, bytes);
}

static const char over_source[] =
  "__kernel void write (__write_only image1d_buffer_t image)\n"
  "{\n"
  "  int i = get_global_id (0);\n"
  "  write_imageui (image, i, (uint4) (i, i + 1, i + 2, i + 3));\n"
  "}\n"
  "__kernel void write_with (__write_only image1d_buffer_t image, __global int *count)\n"
  "{\n"
  "  int i = get_global_id (0);\n"
  "  write_imageui (image, i, (uint4) (i, i + 1, i + 2, i + 3));\n"
  "  count[i] = i;\n"
  "}\n"
  "__kernel void both (__read_only image1d_buffer_t from, __write_only image1d_buffer_t to)\n"
  "{\n"
  "  int i = get_global_id (0);\n"
  "  write_imageui (to, i, read_imageui (from, i) + (uint4) (1));\n"
  "}\n";

/* PoCL crashes in launches whose only memory argument is an image over a buffer. */
static void
over_buffer_kernels (TestFixture *fixture)
{
  const GpuExtent grid = { WIDTH, 1, 1 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuProgram) program = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuBuffer) count = NULL;
  g_autoptr (GpuImage) image = NULL;
  g_autoptr (GpuKernel) write = NULL;
  g_autoptr (GpuKernel) write_with = NULL;
  g_autoptr (GpuKernel) both = NULL;
  guint8 expected[4 * WIDTH];

  if (!test_has_opencl_images (fixture) || !test_has (fixture, GPU_CAPABILITIES_SOURCE))
    return;

  program = test_program (fixture, over_source);
  buffer = test_buffer_filled (fixture, 4 * WIDTH, 0);
  count = test_buffer_filled (fixture, 4 * WIDTH, 0);
  image = test_image_over (buffer, WIDTH);
  write = gpu_program_get_kernel (program, "write", &error);
  write_with = gpu_program_get_kernel (program, "write_with", &error);
  both = gpu_program_get_kernel (program, "both", &error);
  g_assert_no_error (error);

  for (guint i = 0; i < sizeof expected; i++)
    expected[i] = (guint8) (i / 4 + i % 4);
  test_assert_ok (gpu_stream_launch (fixture->stream, write_with, &grid, NULL, &error, image,
                                     count), error);
  test_assert_image (image, expected, sizeof expected);

  for (guint i = 0; i < sizeof expected; i++)
    expected[i]++;
  test_assert_ok (gpu_stream_launch (fixture->stream, both, &grid, NULL, &error, image, image),
                  error);
  test_assert_image (image, expected, sizeof expected);

  if (gpu_stream_launch (fixture->stream, write, &grid, NULL, &error, image))
    {
      for (guint i = 0; i < sizeof expected; i++)
        expected[i] = (guint8) (i / 4 + i % 4);
    }
  else
    {
      g_assert_true (is_pocl (fixture));
      test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_stream_launch", "write", "PoCL");
    }

  test_assert_image (image, expected, sizeof expected);
}

/* PoCL creates images only at the start of a buffer, so an image over a slice is only supported if
 * the slice begins at the start of its buffer. */
static void
over_slice (TestFixture *fixture)
{
  const gsize unit = MAX (gpu_device_get_base_alignment (fixture->device), 128);
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (4 * unit);
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuBuffer) first = NULL;
  g_autoptr (GpuBuffer) second = NULL;
  g_autoptr (GpuImage) image = NULL;
  g_autoptr (GpuImage) other = NULL;
  const guint8 *data = g_bytes_get_data (bytes, NULL);

  if (!test_has_opencl_images (fixture) || !test_has (fixture, GPU_CAPABILITIES_SUB_BUFFERS))
    return;

  buffer = test_buffer_from (fixture, bytes);
  first = gpu_buffer_slice (buffer, 0, 2 * unit, &error);
  g_assert_no_error (error);
  second = gpu_buffer_slice (buffer, unit, 2 * unit, &error);
  g_assert_no_error (error);
  image = test_image_over (first, unit / 4);
  test_assert_image (image, data, unit);
  other = gpu_image_new_for_buffer (second, GPU_MEMORY_FLAGS_NONE, &rgba8,
                                    GPU_IMAGE_TYPE_IMAGE_1D_BUFFER,
                                    unit / 4, 1, 0, &error);

  if (other != NULL)
    {
      g_assert_no_error (error);
      test_assert_image (other, data + unit, unit);
    }
  else
    {
      g_assert_true (is_pocl (fixture));
      test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_image_new_for_buffer",
                             "clCreateImage", "slice");
    }
}

/* --- rows of texels over buffers -------------------------------------------------------------- */

/* PoCL lacks two-dimensional images over buffers. The OpenCL layer emulates them, with a row
 * alignment of 16 texels and a base alignment of 64. */
#define VIEWS "16:64"

static GpuImage *
rows_over (GpuBuffer  *buffer,
           gsize       row_pitch,
           GError    **error)
{
  return gpu_image_new_for_buffer (buffer, GPU_MEMORY_FLAGS_NONE, &rgba8, GPU_IMAGE_TYPE_IMAGE_2D,
                                   WIDTH,
                                   HEIGHT, row_pitch, error);
}

static void
assert_rows (GpuImage     *image,
             const guint8 *expected,
             gsize         row_pitch)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = gpu_image_read_bytes (image, NULL, NULL, NULL, NULL, &error);
  const guint8 *got;

  g_assert_no_error (error);
  got = g_bytes_get_data (bytes, NULL);
  for (gsize y = 0; y < HEIGHT; y++)
    test_assert_mem (got + y * 4 * WIDTH, expected + y * row_pitch, 4 * WIDTH);
}

/* Tests an image over the memory of @buffer: a read of either object returns data that were written
 * through the other object. Also maps the buffer, including the gaps between the rows of the
 * image. */
static void
rows_alias (TestFixture *fixture,
            GpuBuffer   *buffer)
{
  const GpuColor color = { 1, 2, 3, 4 };
  const GpuLayout at = { 3, 2, 0, 0, 0 };
  const gsize pitch = gpu_buffer_get_row_pitch (buffer);
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (pitch * HEIGHT);
  g_autofree guint8 *expected = g_memdup2 (g_bytes_get_data (bytes, NULL), pitch * HEIGHT);
  g_autoptr (GpuImage) image = rows_over (buffer, 0, &error);
  g_autoptr (GpuMapping) mapping = NULL;
  g_autoptr (GBytes) content = NULL;

  g_assert_no_error (error);
  g_assert_cmpuint (gpu_image_get_row_pitch (image), ==, pitch);
  g_assert_true (gpu_image_get_buffer (image) == buffer);
  test_assert_ok (gpu_buffer_write_bytes (buffer, NULL, 0, bytes, NULL, &error), error);
  assert_rows (image, expected, pitch);

  test_assert_ok (gpu_image_fill (image, NULL, &color, &at, &(GpuExtent) { 2, 1, 1 }, NULL,
                                  &error), error);
  memcpy (expected + 2 * pitch + 12, (const guint8[]) { 1, 2, 3, 4, 1, 2, 3, 4 }, 8);
  content = test_content (buffer);
  test_assert_mem (g_bytes_get_data (content, NULL), expected, pitch * HEIGHT);

  mapping = gpu_image_map (image, NULL, GPU_MAP_FLAGS_READ, NULL, NULL, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (gpu_mapping_get_row_pitch (mapping), ==, pitch);
  test_assert_mem (gpu_mapping_get_data (mapping), expected, pitch * (HEIGHT - 1) + 4 * WIDTH);
}

static void
rows_over_buffer (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuBuffer) slice = NULL;

  if (!test_is_opencl (fixture) || gpumem_layer_symbol ("gpumem_layer_get_live") == NULL)
    {
      g_test_skip ("runs as a part of rows-over-buffer, on OpenCL under the layer");
      return;
    }

  if (!test_has (fixture, GPU_CAPABILITIES_IMAGE_FROM_BUFFER))
    return;

  buffer = gpu_buffer_new_pitched (fixture->context, GPU_MEMORY_FLAGS_NONE, 4 * WIDTH, HEIGHT, 4,
                                   &error);
  g_assert_no_error (error);
  rows_alias (fixture, buffer);

  g_assert_null (rows_over (buffer, 4 * WIDTH + 4, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_image_new_for_buffer",
                         "row pitch", "16 texels", "100");
  slice = gpu_buffer_slice (buffer, 128, 128 * HEIGHT - 128, &error);
  g_assert_no_error (error);
  g_assert_null (gpu_image_new_for_buffer (slice, GPU_MEMORY_FLAGS_NONE, &rgba8,
                                           GPU_IMAGE_TYPE_IMAGE_2D, WIDTH, 3, 128, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "address", "64 texels", "128");
}

static void
run_rows_over_buffer (TestFixture *fixture)
{
  if (!test_has_opencl_images (fixture))
    return;
  if (!is_pocl (fixture))
    {
      g_test_skip ("no PoCL");
      return;
    }
  g_setenv ("GPUMEM_LAYER_VIEWS", VIEWS, TRUE);
  test_run_under_layer (fixture, "rows-over-buffer");
  g_unsetenv ("GPUMEM_LAYER_VIEWS");
}

/* --- other faults of PoCL --------------------------------------------------------------------- */

/* PoCL ends the process if mip levels are requested, and returns wrong error codes. */
static void
mip_levels_refused (TestFixture *fixture)
{
  const GpuImageFormat unknown = { GPU_CHANNEL_ORDER_RGB, GPU_CHANNEL_TYPE_FLOAT32 };
  const GpuExtent extent = { 16, 16, 1 };
  const GpuExtent none = { 0, 16, 1 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  GpuExtent most;

  if (!test_has_opencl_images (fixture))
    return;

  if ((gpu_device_get_capabilities (fixture->device) & GPU_CAPABILITIES_MIPMAPS) == 0)
    {
      g_assert_null (gpu_image_new_mipmapped (fixture->context, GPU_MEMORY_FLAGS_NONE, &rgba8,
                                              GPU_IMAGE_TYPE_IMAGE_2D, &extent, 3, &error));
      test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_image_new_mipmapped",
                             "mip levels");
    }

  if ((gpu_device_get_capabilities (fixture->device) & GPU_CAPABILITIES_IMAGE_FROM_BUFFER) == 0)
    {
      buffer = test_buffer (fixture, 1024);
      g_assert_null (gpu_image_new_for_buffer (buffer, GPU_MEMORY_FLAGS_NONE, &rgba8,
                                               GPU_IMAGE_TYPE_IMAGE_2D, 16, 16, 64, &error));
      test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_image_new_for_buffer", "2d");
    }

  g_assert_null (gpu_image_new (fixture->context, GPU_MEMORY_FLAGS_NONE, &unknown,
                                GPU_IMAGE_TYPE_IMAGE_2D, &extent, &error));
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "rgb-float32");
  g_assert_null (gpu_image_new (fixture->context, GPU_MEMORY_FLAGS_NONE, &rgba8,
                                GPU_IMAGE_TYPE_IMAGE_2D,
                                &none, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "0 x 16");
  g_assert_null (gpu_image_new (fixture->context, GPU_MEMORY_FLAGS_NONE, &rgba8,
                                GPU_IMAGE_TYPE_CUBEMAP,
                                &(GpuExtent) { 16, 16, 6 }, &error));
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "cubemap");

  for (GpuImageType type = GPU_IMAGE_TYPE_IMAGE_1D; type <= GPU_IMAGE_TYPE_IMAGE_3D; type++)
    {
      test_assert_ok (gpu_context_get_max_image_extent (fixture->context, type, &most, &error),
                      error);
      g_assert_cmpuint (most.width, >=, 2048);
      g_assert_cmpuint (most.depth, >=, 1);
      most.width++;
      if (type == GPU_IMAGE_TYPE_IMAGE_1D_BUFFER)
        continue;
      g_assert_null (gpu_image_new (fixture->context, GPU_MEMORY_FLAGS_NONE, &rgba8, type,
                                    &(GpuExtent) { most.width, 1, 1 }, &error));
      test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "exceeds the maximum");
    }
}

/* Level 0 of a single-level image is the whole image. */
static void
only_level (TestFixture *fixture)
{
  const GpuExtent extent = { WIDTH, HEIGHT, 1 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (4 * WIDTH * HEIGHT);
  g_autoptr (GpuImage) image = NULL;
  g_autoptr (GpuImage) level = NULL;

  if (!test_has_opencl_images (fixture))
    return;

  image = test_image (fixture, GPU_MEMORY_FLAGS_NONE, &rgba8, GPU_IMAGE_TYPE_IMAGE_2D, extent);
  level = gpu_image_get_level (image, 0, &error);
  g_assert_no_error (error);
  g_assert_true (gpu_image_get_parent (level) == image);
  test_write_image (level, bytes);
  test_assert_image (image, g_bytes_get_data (bytes, NULL), 4 * WIDTH * HEIGHT);
  g_clear_object (&image);
  test_assert_image (level, g_bytes_get_data (bytes, NULL), 4 * WIDTH * HEIGHT);
}

/* PoCL's compiler supports read-write images only if the options name the language standard. */
static void
read_write (TestFixture *fixture)
{
  static const char source[] =
    "__kernel void add (read_write image2d_t image)\n"
    "{\n"
    "  int2 at = (int2) (get_global_id (0), get_global_id (1));\n"
    "  write_imageui (image, at, read_imageui (image, at) + (uint4) (1));\n"
    "}\n";
  const GpuExtent extent = { WIDTH, HEIGHT, 1 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuProgram) program = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuImage) image = NULL;
  g_autoptr (GBytes) bytes = test_value_bytes (4 * WIDTH * HEIGHT, 7);
  g_autoptr (GBytes) expected = test_value_bytes (4 * WIDTH * HEIGHT, 8);

  if (!test_has_opencl_images (fixture) || !test_has (fixture, GPU_CAPABILITIES_SOURCE))
    return;

  program = gpu_program_new_from_source (fixture->context, source, "-cl-std=CL2.0", &error);
  if (program == NULL)
    {
      g_test_skip (error->message);
      return;
    }

  kernel = gpu_program_get_kernel (program, "add", &error);
  g_assert_no_error (error);
  g_assert_cmpint (gpu_kernel_get_argument_kind (kernel, 0), ==, GPU_ARGUMENT_KIND_IMAGE);
  g_assert_cmpstr (gpu_kernel_get_argument_type_name (kernel, 0), ==, "image2d_t");
  image = test_image (fixture, GPU_MEMORY_FLAGS_NONE, &rgba8, GPU_IMAGE_TYPE_IMAGE_2D, extent);
  test_write_image (image, bytes);
  test_assert_ok (gpu_stream_launch (fixture->stream, kernel, &extent, NULL, &error, image),
                  error);
  test_assert_image (image, g_bytes_get_data (expected, NULL), 4 * WIDTH * HEIGHT);
}

int
main (int    argc,
      char **argv)
{
  test_init (&argc, &argv);
  test_add ("over-buffer", over_buffer);
  test_add ("over-closed-buffer", over_closed_buffer);
  test_add ("over-buffer-kernels", over_buffer_kernels);
  test_add ("over-slice", over_slice);
  test_add ("rows-over-buffer", run_rows_over_buffer);
  test_add ("subprocess/rows-over-buffer", rows_over_buffer);
  test_add ("mip-levels-refused", mip_levels_refused);
  test_add ("only-level", only_level);
  test_add ("read-write", read_write);

  return test_run ();
}
