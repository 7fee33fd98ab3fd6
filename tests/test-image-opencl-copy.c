/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* OpenCL images with row and slice pitches, with and without host memory, and copies that the
 * driver does not support. */
#include "config.h"

#include "opencl-layer/gpumem-layer.h"
#include "test-image-util.h"

#define WIDTH  24
#define HEIGHT 20

static const GpuImageFormat rgba8 = { GPU_CHANNEL_ORDER_RGBA, GPU_CHANNEL_TYPE_UINT8 };

/* Three texels of four bytes per row, a gap between rows, and an empty row between slices. */
static const struct
{
  GpuImageType type;
  GpuExtent    extent;
  gsize        row_pitch;
  gsize        slice_pitch;
}
pitched[] =
{
  { GPU_IMAGE_TYPE_IMAGE_1D, { 30, 1, 1 }, 120, 120 },
  { GPU_IMAGE_TYPE_IMAGE_1D_ARRAY, { 30, 5, 1 }, 132, 660 },
  { GPU_IMAGE_TYPE_IMAGE_2D, { 30, 5, 1 }, 132, 660 },
  { GPU_IMAGE_TYPE_IMAGE_2D_ARRAY, { 10, 5, 3 }, 52, 312 },
  { GPU_IMAGE_TYPE_IMAGE_3D, { 10, 5, 3 }, 52, 312 },
  { GPU_IMAGE_TYPE_IMAGE_3D, { 10, 1, 3 }, 52, 104 }
};

/* Removes the gaps between rows. */
static guint8 *
pack (gconstpointer data,
      gsize         row,
      GpuExtent     extent,
      gsize         row_pitch,
      gsize         slice_pitch)
{
  guint8 *packed = g_malloc (row * extent.height * extent.depth);

  for (gsize z = 0; z < extent.depth; z++)
    {
      for (gsize y = 0; y < extent.height; y++)
        memcpy (packed + (z * extent.height + y) * row,
                (const guint8 *) data + z * slice_pitch + y * row_pitch, row);
    }

  return packed;
}

/* --- pitches as kernels use them -------------------------------------------------------------- */

static const char pitched_source[] =
  "__constant sampler_t s = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP_TO_EDGE\n"
  "                         | CLK_FILTER_NEAREST;\n"
  "#define READ(name, type, at) \\\n"
  "  __kernel void name (__read_only type image, __global uchar4 *out) \\\n"
  "  { \\\n"
  "    int x = get_global_id (0), y = get_global_id (1), z = get_global_id (2); \\\n"
  "    int w = get_global_size (0), h = get_global_size (1); \\\n"
  "    out[(z * h + y) * w + x] = convert_uchar4 (read_imageui (image, s, at)); \\\n"
  "  }\n"
  "READ (read_1d, image1d_t, x)\n"
  "READ (read_1d_array, image1d_array_t, (int2) (x, y))\n"
  "READ (read_2d, image2d_t, (int2) (x, y))\n"
  "READ (read_2d_array, image2d_array_t, (int4) (x, y, z, 0))\n"
  "READ (read_3d, image3d_t, (int4) (x, y, z, 0))\n";

static const char *
get_reader (GpuImageType type)
{
  switch (type)
    {
    case GPU_IMAGE_TYPE_IMAGE_1D:
      return "read_1d";
    case GPU_IMAGE_TYPE_IMAGE_1D_ARRAY:
      return "read_1d_array";
    case GPU_IMAGE_TYPE_IMAGE_2D:
      return "read_2d";
    case GPU_IMAGE_TYPE_IMAGE_2D_ARRAY:
      return "read_2d_array";
    default:
      return "read_3d";
    }
}

/* Asserts that a read to the host, a copy to a buffer and a kernel all return the same rows and
 * layers. */
static void
assert_everywhere (TestFixture  *fixture,
                   GpuProgram   *program,
                   GpuImage     *image,
                   const guint8 *expected)
{
  const guint8 zero = 0;
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GBytes) content = NULL;
  GpuExtent extent;
  gsize size;

  gpu_image_get_extent (image, &extent);
  size = 4 * extent.width * extent.height * extent.depth;
  test_assert_image (image, expected, size);
  buffer = test_buffer_filled (fixture, size, 0);
  test_copy_region (fixture->stream, buffer, NULL, image, NULL, extent);
  content = test_content (buffer);
  test_assert_mem (g_bytes_get_data (content, NULL), expected, size);

  test_assert_ok (gpu_buffer_fill (buffer, NULL, 0, size, &zero, 1, NULL, &error), error);
  kernel = gpu_program_get_kernel (program, get_reader (gpu_image_get_image_type (image)),
                                   &error);
  g_assert_no_error (error);
  test_assert_ok (gpu_stream_launch (fixture->stream, kernel, &extent, NULL, &error, image,
                                     buffer), error);
  g_clear_pointer (&content, g_bytes_unref);
  content = test_content (buffer);
  test_assert_mem (g_bytes_get_data (content, NULL), expected, size);
}

static void
from_bytes (TestFixture *fixture)
{
  g_autoptr (GpuProgram) program = NULL;

  if (!test_has_opencl_images (fixture) || !test_has (fixture, GPU_CAPABILITIES_SOURCE))
    return;

  program = test_program (fixture, pitched_source);

  for (guint i = 0; i < G_N_ELEMENTS (pitched); i++)
    {
      const GpuExtent extent = pitched[i].extent;
      /* The memory ends with the last texel, without a gap. */
      const gsize size = (extent.depth - 1) * pitched[i].slice_pitch
                         + (extent.height - 1) * pitched[i].row_pitch + 4 * extent.width;
      g_autoptr (GError) error = NULL;
      g_autoptr (GBytes) bytes = test_random_bytes (size);
      g_autofree guint8 *expected = pack (g_bytes_get_data (bytes, NULL), 4 * extent.width,
                                          extent, pitched[i].row_pitch, pitched[i].slice_pitch);
      g_autoptr (GpuImage) image = NULL;

      image = gpu_image_new_from_bytes (fixture->context, GPU_MEMORY_FLAGS_NONE, &rgba8,
                                        pitched[i].type, &extent, bytes, pitched[i].row_pitch,
                                        pitched[i].slice_pitch, &error);
      g_assert_no_error (error);
      assert_everywhere (fixture, program, image, expected);
    }
}

/* Host memory that an image uses in place has the device's results while the image is mapped. */
static void
for_host_bytes (TestFixture *fixture)
{
  const GpuColor color = { 9, 8, 7, 6 };
  const guint8 texel[] = { 9, 8, 7, 6 };
  g_autoptr (GpuProgram) program = NULL;

  if (!test_has_opencl_images (fixture) || !test_has (fixture, GPU_CAPABILITIES_SOURCE))
    return;

  program = test_program (fixture, pitched_source);

  for (guint i = 0; i < G_N_ELEMENTS (pitched); i++)
    {
      const GpuExtent extent = pitched[i].extent;
      const GpuLayout last = { extent.width - 1, extent.height - 1, extent.depth - 1, 0, 0 };
      const gsize row = 4 * extent.width;
      g_autoptr (GError) error = NULL;
      g_autoptr (GBytes) bytes = test_random_bytes (extent.depth * pitched[i].slice_pitch);
      g_autofree guint8 *expected = pack (g_bytes_get_data (bytes, NULL), row, extent,
                                          pitched[i].row_pitch, pitched[i].slice_pitch);
      g_autofree guint8 *after = NULL;
      g_autoptr (GpuImage) image = NULL;
      g_autoptr (GpuMapping) mapping = NULL;

      image = gpu_image_new_for_host_bytes (fixture->context, GPU_MEMORY_FLAGS_NONE, &rgba8,
                                            pitched[i].type, &extent, bytes,
                                            pitched[i].row_pitch, pitched[i].slice_pitch,
                                            &error);
      if (image == NULL && test_is_nvidia_opencl (fixture))
        {
          test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gaps between slices", "312");
          continue;
        }

      g_assert_no_error (error);
      assert_everywhere (fixture, program, image, expected);

      test_assert_ok (gpu_image_fill (image, NULL, &color, &last, NULL, NULL, &error), error);
      memcpy (expected + row * extent.height * extent.depth - 4, texel, 4);
      mapping = gpu_image_map (image, NULL, GPU_MAP_FLAGS_READ, NULL, NULL, NULL, &error);
      g_assert_no_error (error);
      after = pack (g_bytes_get_data (bytes, NULL), row, extent, pitched[i].row_pitch,
                    pitched[i].slice_pitch);
      test_assert_mem (after, expected, row * extent.height * extent.depth);
      g_clear_pointer (&after, g_free);
      after = pack (gpu_mapping_get_data (mapping), row, extent,
                    gpu_mapping_get_row_pitch (mapping), gpu_mapping_get_slice_pitch (mapping));
      test_assert_mem (after, expected, row * extent.height * extent.depth);
    }
}

static void
for_host_bytes_refuses (TestFixture *fixture)
{
  const GpuExtent extent = { 10, 5, 1 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (5 * 52 - 1);

  if (!test_has_opencl_images (fixture))
    return;

  g_assert_null (gpu_image_new_for_host_bytes (fixture->context, GPU_MEMORY_FLAGS_NONE, &rgba8,
                                               GPU_IMAGE_TYPE_IMAGE_2D, &extent, bytes, 52, 0,
                                               &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "52", "259");
  g_assert_null (gpu_image_new_for_host_bytes (fixture->context, GPU_MEMORY_FLAGS_NONE, &rgba8,
                                               GPU_IMAGE_TYPE_IMAGE_2D, &extent, bytes, 41, 0,
                                               &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "41");
}

/* --- copies without a function of the driver -------------------------------------------------- */

static GBytes *
read_region (GpuStream *stream,
             gpointer   memory,
             GpuExtent  extent)
{
  g_autoptr (GError) error = NULL;
  GBytes *bytes = gpu_stream_read_region (stream, memory, NULL, &extent, &error);

  g_assert_no_error (error);
  test_synchronize (stream);

  return bytes;
}

/* Copies to an offset in a buffer, with gaps between the rows, and back. The library copies a few
 * rows one by one, and many rows through another buffer. The gaps must stay unchanged. */
static void
through_buffer (TestFixture *fixture,
                GpuStream   *stream,
                GpuExtent    extent,
                gsize        row_pitch,
                gsize        slice_pitch)
{
  const GpuImageType type = extent.depth > 1 ? GPU_IMAGE_TYPE_IMAGE_3D : GPU_IMAGE_TYPE_IMAGE_2D;
  const GpuLayout layout = { 12, 0, 0, row_pitch, slice_pitch };
  const gsize row = 4 * extent.width;
  const gsize size = 12 + extent.depth * slice_pitch;
  g_autoptr (GpuImage) from = test_image (fixture, GPU_MEMORY_FLAGS_NONE, &rgba8, type, extent);
  g_autoptr (GpuImage) to = test_image (fixture, GPU_MEMORY_FLAGS_NONE, &rgba8, type, extent);
  g_autoptr (GBytes) bytes = test_random_bytes (row * extent.height * extent.depth);
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, size, 0x5a);
  g_autofree guint8 *expected = g_malloc (size);
  g_autoptr (GBytes) got = NULL;

  test_write_image (from, bytes);
  memset (expected, 0x5a, size);
  for (gsize i = 0; i < extent.height * extent.depth; i++)
    memcpy (expected + 12 + i / extent.height * slice_pitch + i % extent.height * row_pitch,
            (const guint8 *) g_bytes_get_data (bytes, NULL) + i * row, row);

  test_copy_region (stream, buffer, &layout, from, NULL, extent);
  test_copy_region (stream, to, NULL, buffer, &layout, extent);
  got = read_region (stream, to, extent);
  test_assert_bytes (got, bytes);
  g_clear_pointer (&got, g_bytes_unref);
  got = test_content (buffer);
  test_assert_mem (g_bytes_get_data (got, NULL), expected, size);
}

static void
through_buffers (TestFixture *fixture,
                 GpuStream   *stream)
{
  through_buffer (fixture, stream, (GpuExtent) { WIDTH, 3, 1 }, 4 * WIDTH + 20, 400);
  through_buffer (fixture, stream, (GpuExtent) { WIDTH, HEIGHT, 1 }, 4 * WIDTH + 20,
                  (4 * WIDTH + 20) * HEIGHT);
  /* Slices without gaps and with gaps between the slices */
  through_buffer (fixture, stream, (GpuExtent) { 8, 5, 4 }, 32, 164);
  through_buffer (fixture, stream, (GpuExtent) { 8, 5, 17 }, 32, 164);
  /* A slice pitch that is not a multiple of the row pitch, and rows that are not a multiple of a
   * texel */
  through_buffer (fixture, stream, (GpuExtent) { 8, 9, 5 }, 36, 333);
  through_buffer (fixture, stream, (GpuExtent) { 8, 3, 3 }, 35, 107);
}

static void
gaps (TestFixture *fixture)
{
  if (test_has_opencl_images (fixture))
    through_buffers (fixture, fixture->stream);
}

static void
gaps_out_of_order (TestFixture *fixture)
{
  g_autoptr (GpuStream) stream = NULL;

  if (!test_has_opencl_images (fixture) || !test_has (fixture, GPU_CAPABILITIES_OUT_OF_ORDER))
    return;

  stream = test_stream (fixture, GPU_STREAM_FLAGS_OUT_OF_ORDER | GPU_STREAM_FLAGS_PROFILING);
  through_buffers (fixture, stream);
}

/* Copies from and to host memory with pitches that are not multiples of the texel size or of each
 * other. */
static void
host_gaps (TestFixture *fixture)
{
  static const struct
  {
    GpuImageType type;
    GpuExtent    extent;
    gsize        row_pitch;
    gsize        slice_pitch;
  }
  cases[] =
  {
    { GPU_IMAGE_TYPE_IMAGE_2D, { 8, 7, 1 }, 33, 300 },
    { GPU_IMAGE_TYPE_IMAGE_1D_ARRAY, { 8, 7, 1 }, 37, 300 },
    { GPU_IMAGE_TYPE_IMAGE_3D, { 8, 7, 3 }, 36, 301 },
    { GPU_IMAGE_TYPE_IMAGE_2D_ARRAY, { 8, 7, 3 }, 35, 247 },
    { GPU_IMAGE_TYPE_IMAGE_3D, { 8, 1, 3 }, 32, 41 }
  };

  if (!test_has_opencl_images (fixture))
    return;

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      const GpuExtent extent = cases[i].extent;
      const gsize size = 1 + cases[i].slice_pitch * extent.depth;
      const GpuLayout layout = { 1, 0, 0, cases[i].row_pitch, cases[i].slice_pitch };
      g_autoptr (GError) error = NULL;
      g_autoptr (GpuImage) image = test_image (fixture, GPU_MEMORY_FLAGS_NONE, &rgba8,
                                               cases[i].type,
                                               extent);
      g_autoptr (GBytes) bytes = test_random_bytes (size);
      g_autofree guint8 *expected = pack ((const guint8 *) g_bytes_get_data (bytes, NULL) + 1,
                                          4 * extent.width, extent, cases[i].row_pitch,
                                          cases[i].slice_pitch);
      g_autofree guint8 *got = NULL;
      g_autoptr (GBytes) back = test_value_bytes (size, 0xa5);

      test_assert_ok (gpu_stream_write_region (fixture->stream, GPU_MEMORY (image), NULL, bytes,
                                               &layout, &extent, &error), error);
      test_assert_image (image, expected, 4 * extent.width * extent.height * extent.depth);
      test_assert_ok (gpu_stream_read_region_into (fixture->stream, GPU_MEMORY (image), NULL,
                                                   back, &layout, &extent, &error), error);
      test_synchronize (fixture->stream);
      got = pack ((const guint8 *) g_bytes_get_data (back, NULL) + 1, 4 * extent.width, extent,
                  cases[i].row_pitch, cases[i].slice_pitch);
      test_assert_mem (got, expected, 4 * extent.width * extent.height * extent.depth);
    }
}

/* Copies between two formats of the same texel size copy the bits unchanged. */
static void
other_formats (TestFixture *fixture)
{
  const GpuImageFormat r32 = { GPU_CHANNEL_ORDER_R, GPU_CHANNEL_TYPE_UINT32 };
  const GpuExtent extent = { WIDTH, HEIGHT, 1 };
  const GpuExtent part = { WIDTH - 3, HEIGHT - 2, 1 };
  const GpuLayout at = { 3, 2, 0, 0, 0 };
  g_autoptr (GBytes) bytes = test_random_bytes (4 * WIDTH * HEIGHT);
  GpuStreamFlags flags[] = { GPU_STREAM_FLAGS_NONE, GPU_STREAM_FLAGS_OUT_OF_ORDER };

  if (!test_has_opencl_images (fixture))
    return;

  for (guint i = 0; i < G_N_ELEMENTS (flags); i++)
    {
      g_autoptr (GpuStream) stream = NULL;
      g_autoptr (GpuImage) from = test_image (fixture, GPU_MEMORY_FLAGS_NONE, &rgba8,
                                              GPU_IMAGE_TYPE_IMAGE_2D, extent);
      g_autoptr (GpuImage) to = test_image (fixture, GPU_MEMORY_FLAGS_NONE, &r32,
                                            GPU_IMAGE_TYPE_IMAGE_2D,
                                            extent);
      g_autoptr (GpuImage) layers = test_image (fixture, GPU_MEMORY_FLAGS_NONE, &r32,
                                                GPU_IMAGE_TYPE_IMAGE_1D_ARRAY, extent);
      g_autoptr (GBytes) got = NULL;

      if (flags[i] != 0 && !test_has (fixture, GPU_CAPABILITIES_OUT_OF_ORDER))
        return;

      stream = test_stream (fixture, flags[i]);
      test_write_image (from, bytes);
      test_copy_region (stream, to, NULL, from, NULL, extent);
      got = read_region (stream, to, extent);
      test_assert_bytes (got, bytes);
      g_clear_pointer (&got, g_bytes_unref);
      /* Copy within an image type, and back to the original position */
      test_copy_region (stream, layers, &at, to, &at, part);
      test_copy_region (stream, from, &at, layers, &at, part);
      got = read_region (stream, from, extent);
      test_assert_bytes (got, bytes);
    }
}

/* Copies behind a failed event do not run, except with Intel's driver. The stream stays usable. */
static void
failed (TestFixture *fixture)
{
  const GpuImageFormat r32 = { GPU_CHANNEL_ORDER_R, GPU_CHANNEL_TYPE_UINT32 };
  const GpuExtent extent = { WIDTH, HEIGHT, 1 };
  const GpuLayout layout = { 0, 0, 0, 4 * WIDTH + 4, 0 };
  g_autoptr (GBytes) bytes = test_value_bytes (4 * WIDTH * HEIGHT, 9);
  g_autoptr (GBytes) odd = test_value_bytes ((4 * WIDTH + 1) * HEIGHT, 1);

  if (!test_has_opencl_images (fixture) || !test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    return;

  for (guint i = 0; i < 20; i++)
    {
      const GpuLayout odd_layout = { 0, 0, 0, 4 * WIDTH + 1, 0 };
      g_autoptr (GError) error = NULL;
      g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
      g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, 200 * HEIGHT, 1);
      g_autoptr (GpuImage) image = test_image (fixture, GPU_MEMORY_FLAGS_NONE, &rgba8,
                                               GPU_IMAGE_TYPE_IMAGE_2D, extent);
      g_autoptr (GpuImage) other = test_image (fixture, GPU_MEMORY_FLAGS_NONE, &r32,
                                               GPU_IMAGE_TYPE_IMAGE_2D, extent);
      g_autoptr (GpuEvent) gate = NULL;

      test_write_image (image, bytes);
      gate = test_gate (fixture, stream);
      test_copy_region (stream, image, NULL, buffer, &layout, (GpuExtent) { WIDTH, 3, 1 });
      test_copy_region (stream, image, NULL, buffer, &layout, extent);
      test_copy_region (stream, other, NULL, image, NULL, extent);
      test_copy_region (stream, image, NULL, other, NULL, extent);
      test_assert_ok (gpu_stream_write_region (stream, GPU_MEMORY (image), NULL, odd, &odd_layout,
                                               &extent, &error), error);
      test_assert_ok (gpu_event_fail (gate, "on purpose", &error), error);
      g_assert_false (gpu_stream_synchronize (stream, NULL, &error));
      test_assert_gpu_error (error, GPU_ERROR_FAILED, "on purpose");
      g_assert_null (gpu_image_read_bytes (image, NULL, NULL, NULL, NULL, &error));
      test_assert_gpu_error (error, GPU_ERROR_FAILED, "last write", "on purpose");
      test_copy_region (stream, image, NULL, buffer, &layout, extent);
      test_synchronize (stream);
    }
}

/* --- copies that drivers reject --------------------------------------------------------------- */

/* Makes @function fail @times times, or always if @times is 0. Simulates NVIDIA's driver, which
 * rejects copies of layers other than the first, both as a whole and row by row. */
static void
refuse (const char *function,
        guint       times)
{
  g_autofree char *spec = g_strdup_printf ("fn=%s,n=1,times=%u,code=-30", function, times);

  g_assert_true (GPUMEM_LAYER (set_fail) (spec));
}

static void
assert_met (guint times)
{
  g_assert_cmpuint (GPUMEM_LAYER (get_failed) (), ==, times);
  g_assert_true (GPUMEM_LAYER (set_fail) (NULL));
}

static void
refused_layers (TestFixture *fixture,
                GpuStream   *stream,
                gsize        n_layers,
                gsize        row_pitch,
                guint        times)
{
  const GpuExtent extent = { WIDTH, n_layers, 1 };
  const GpuLayout layout = { 8, 0, 0, row_pitch, 0 };
  g_autoptr (GpuImage) from = test_image (fixture, GPU_MEMORY_FLAGS_NONE, &rgba8,
                                          GPU_IMAGE_TYPE_IMAGE_1D_ARRAY, extent);
  g_autoptr (GpuImage) to = test_image (fixture, GPU_MEMORY_FLAGS_NONE, &rgba8,
                                        GPU_IMAGE_TYPE_IMAGE_1D_ARRAY, extent);
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, 8 + row_pitch * n_layers, 0);
  g_autoptr (GBytes) bytes = test_random_bytes (4 * WIDTH * n_layers);
  g_autoptr (GBytes) got = NULL;

  test_write_image (from, bytes);
  test_synchronize (stream);
  refuse ("clEnqueueCopyImageToBuffer", times);
  test_copy_region (stream, buffer, &layout, from, NULL, extent);
  assert_met (times);
  refuse ("clEnqueueCopyBufferToImage", times);
  test_copy_region (stream, to, NULL, buffer, &layout, extent);
  assert_met (times);
  got = read_region (stream, to, extent);
  test_assert_bytes (got, bytes);
}

/* If the driver rejects the copy in every form, the copy fails. */
static void
refused_for_ever (TestFixture *fixture)
{
  const GpuExtent extent = { WIDTH, 5, 1 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuImage) image = test_image (fixture, GPU_MEMORY_FLAGS_NONE, &rgba8,
                                           GPU_IMAGE_TYPE_IMAGE_1D_ARRAY, extent);
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, 4 * WIDTH * 5);

  refuse ("clEnqueueCopyImageToBuffer", 0);
  g_assert_false (gpu_stream_copy_region (fixture->stream, GPU_MEMORY (buffer), NULL,
                                          GPU_MEMORY (image), NULL, &extent, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "clEnqueueCopyImageToBuffer",
                         "24 x 5 x 1 texels");
  g_assert_true (GPUMEM_LAYER (set_fail) (NULL));
  test_synchronize (fixture->stream);
}

/* The library splits a copy that the driver rejects as a whole. */
static void
refused_host (TestFixture *fixture)
{
  const GpuExtent extent = { WIDTH, HEIGHT, 1 };
  g_autoptr (GpuImage) image = test_image (fixture, GPU_MEMORY_FLAGS_NONE, &rgba8,
                                           GPU_IMAGE_TYPE_IMAGE_2D, extent);
  g_autoptr (GBytes) bytes = test_random_bytes (4 * WIDTH * HEIGHT);

  refuse ("clEnqueueWriteImage", 1);
  test_write_image (image, bytes);
  assert_met (1);
  refuse ("clEnqueueReadImage", 1);
  test_assert_image (image, g_bytes_get_data (bytes, NULL), 4 * WIDTH * HEIGHT);
  assert_met (1);
}

static void
refused (TestFixture *fixture)
{
  const GpuStreamFlags flags[] = { GPU_STREAM_FLAGS_NONE, GPU_STREAM_FLAGS_PROFILING,
                                   GPU_STREAM_FLAGS_OUT_OF_ORDER };

  if (!test_is_opencl (fixture) || gpumem_layer_symbol ("gpumem_layer_set_fail") == NULL)
    {
      g_test_skip ("runs as a part of refused, on OpenCL under the layer");
      return;
    }

  if (!test_has_opencl_images (fixture))
    return;

  refused_host (fixture);
  refused_for_ever (fixture);

  for (guint i = 0; i < G_N_ELEMENTS (flags); i++)
    {
      g_autoptr (GpuStream) stream = test_stream (fixture, flags[i]);

      refused_layers (fixture, stream, 5, 4 * WIDTH, 2);
      refused_layers (fixture, stream, 3, 4 * WIDTH + 12, 1);
      refused_layers (fixture, stream, 9, 4 * WIDTH + 12, 2);
    }
}

static void
run_refused (TestFixture *fixture)
{
  if (test_has_opencl_images (fixture))
    test_run_under_layer (fixture, "refused");
}

int
main (int    argc,
      char **argv)
{
  test_init (&argc, &argv);
  test_add ("from-bytes", from_bytes);
  test_add ("for-host-bytes", for_host_bytes);
  test_add ("for-host-bytes-refuses", for_host_bytes_refuses);
  test_add ("gaps", gaps);
  test_add ("gaps-out-of-order", gaps_out_of_order);
  test_add ("host-gaps", host_gaps);
  test_add ("other-formats", other_formats);
  test_add ("failed", failed);
  test_add ("refused", run_refused);
  test_add ("subprocess/refused", refused);

  return test_run ();
}
