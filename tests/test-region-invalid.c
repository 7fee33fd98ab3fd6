/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Invalid copies of regions fail with an error that quotes the wrong values. */
#include "config.h"

#include "test-util.h"

#define BUFFER_SIZE 4096

static void
refused_overlaps (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, 1024, 0);
  const GpuExtent extent = { 16, 4, 2 };
  const GpuLayout first = { 0, 0, 0, 32, 128 };
  const GpuLayout inside = { 8, 1, 0, 32, 128 };
  const GpuLayout beside = { 16, 0, 0, 32, 128 };

  g_assert_false (gpu_stream_copy_region (fixture->stream, GPU_MEMORY (buffer), &inside,
                                          GPU_MEMORY (buffer), &first, &extent, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_stream_copy_region", "overlap",
                         "40");
  test_assert_ok (gpu_stream_copy_region (fixture->stream, GPU_MEMORY (buffer), &beside,
                                          GPU_MEMORY (buffer), &first, &extent, &error), error);
}

/* The depth 0 is refused, because an initializer with too few numbers sets it. The width 0 and the
 * height 0 do nothing. */
static void
refused_depth (TestFixture *fixture)
{
  const GpuExtent flat[] = { { 16, 4 }, { 16 }, { 0 } };
  const GpuExtent empty[] = { { 0, 4, 2 }, { 16, 0, 1 }, { 0, 0, 1 } };
  GpuStream *stream = fixture->stream;
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, 1024, 3);
  g_autoptr (GpuBuffer) other = test_buffer_filled (fixture, 1024, 4);
  g_autoptr (GBytes) bytes = test_random_bytes (1024);
  g_autoptr (GBytes) content = NULL;
  GpuMemory *memory = GPU_MEMORY (buffer);

  for (guint i = 0; i < 2 * G_N_ELEMENTS (flat); i++)
    {
      const gboolean is_flat = i < G_N_ELEMENTS (flat);
      const GpuExtent *extent = is_flat ? flat + i : empty + i - G_N_ELEMENTS (flat);
      const char *functions[] = { "copy_region", "write_region", "read_region_into",
                                  "fill_region" };

      for (guint k = 0; k < G_N_ELEMENTS (functions); k++)
        {
          gboolean success =
            k == 0 ? gpu_stream_copy_region (stream, memory, NULL, GPU_MEMORY (other), NULL, extent,
                                             &error) :
            k == 1 ? gpu_stream_write_region (stream, memory, NULL, bytes, NULL, extent, &error) :
            k == 2 ? gpu_stream_read_region_into (stream, memory, NULL, bytes, NULL, extent,
                                                  &error) :
                     gpu_stream_fill_region (stream, memory, NULL, extent, "a", 1, &error);

          g_assert_cmpint (success, ==, !is_flat);
          if (is_flat)
            test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, functions[k],
                                   i == 0 ? "16 x 4 x 0" : " x 0 x 0", "pass 1");
          g_assert_no_error (error);
          g_clear_error (&error);
        }
    }
  content = test_content (buffer);
  test_assert_value (g_bytes_get_data (content, NULL), 3, 1024);
}

/* An image refuses the depth 0, too. */
static void
refused_depth_of_image (TestFixture *fixture)
{
  static const GpuImageFormat rgba8 = { GPU_CHANNEL_ORDER_RGBA, GPU_CHANNEL_TYPE_UNORM8 };
  const GpuExtent whole = { 8, 8, 1 };
  const GpuExtent flat = { 8, 8 };
  const GpuColor color = { 1.0, 0.0, 0.0, 1.0 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuImage) image = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (256);

  if (!test_has (fixture, GPU_CAPABILITIES_IMAGES))
    return;

  image = gpu_image_new_from_bytes (fixture->context, GPU_MEMORY_FLAGS_NONE, &rgba8,
                                    GPU_IMAGE_TYPE_IMAGE_2D, &whole, bytes, 0, 0, &error);
  g_assert_no_error (error);
  g_assert_false (gpu_stream_fill_image (fixture->stream, image, &color, NULL, &flat, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_stream_fill_image", "8 x 8 x 0");
  g_assert_false (gpu_image_write_bytes (image, NULL, NULL, &flat, bytes, 0, 0, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_image_write_bytes", "8 x 8 x 0");
  g_assert_null (gpu_image_read_bytes (image, NULL, NULL, &flat, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_image_read_bytes", "8 x 8 x 0");
}

/* Rows must not overlap each other, and slices must not overlap other slices. A single slice may
 * have any slice pitch. */
static void
refused_pitches (TestFixture *fixture)
{
  const GpuExtent extent = { 16, 4, 2 };
  const GpuExtent flat = { 16, 4, 1 };
  const GpuExtent huge = { G_MAXSIZE / 2, 4, 1 };
  const GpuLayout rows = { 0, 0, 0, 15, 64 };
  const GpuLayout slices = { 0, 0, 0, 16, 63 };
  const GpuLayout wide = { 0, 0, 0, 32, 127 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) from = test_buffer_filled (fixture, 1024, 1);
  g_autoptr (GpuBuffer) to = test_buffer_filled (fixture, 1024, 0);
  GpuMemory *source = GPU_MEMORY (from);
  GpuMemory *destination = GPU_MEMORY (to);

  g_assert_false (gpu_stream_copy_region (fixture->stream, destination, &rows, source, NULL,
                                          &extent, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "row pitch 15", "destination",
                         "16 bytes x 4 rows");
  g_assert_false (gpu_stream_copy_region (fixture->stream, destination, NULL, source, &slices,
                                          &extent, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "slice pitch 63", "source",
                         "4 rows x 2 slices");
  g_assert_false (gpu_stream_copy_region (fixture->stream, destination, &wide, source, NULL,
                                          &extent, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "slice pitch 127");
  g_assert_false (gpu_stream_copy_region (fixture->stream, destination, NULL, source, NULL,
                                          &huge, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "destination", "x 4 rows",
                         "exceeds the address space");
  g_assert_false (gpu_stream_fill (fixture->stream, destination, 0, 16, "", 0,
                                   &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_stream_fill", "empty");
  test_assert_ok (gpu_stream_copy_region (fixture->stream, destination, &slices, source, NULL,
                                          &flat, &error), error);
}

static void
refused_overlaps_image (TestFixture *fixture)
{
  const GpuImageFormat format = { GPU_CHANNEL_ORDER_R, GPU_CHANNEL_TYPE_UINT8 };
  const GpuExtent whole = { 16, 16, 1 };
  const GpuExtent extent = { 8, 8, 1 };
  const GpuLayout inside = { 7, 7, 0, 0, 0 };
  const GpuLayout beside = { 8, 7, 0, 0, 0 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (256);
  g_autoptr (GBytes) content = NULL;
  g_autoptr (GpuImage) image = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_IMAGES))
    return;

  image = gpu_image_new_from_bytes (fixture->context, GPU_MEMORY_FLAGS_NONE, &format,
                                    GPU_IMAGE_TYPE_IMAGE_2D, &whole, bytes, 0, 0, &error);
  g_assert_no_error (error);
  g_assert_false (gpu_stream_copy_region (fixture->stream, GPU_MEMORY (image), &inside,
                                          GPU_MEMORY (image), NULL, &extent, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "overlap", "119");
  test_assert_ok (gpu_stream_copy_region (fixture->stream, GPU_MEMORY (image), &beside,
                                          GPU_MEMORY (image), NULL, &extent, &error), error);
  content = gpu_image_read_bytes (image, NULL, &beside, &extent, NULL, &error);
  g_assert_no_error (error);

  for (guint y = 0; y < 8; y++)
    test_assert_mem ((const guint8 *) g_bytes_get_data (content, NULL) + 8 * y,
                     (const guint8 *) g_bytes_get_data (bytes, NULL) + 16 * y, 8);
}

static void
refused_bounds (TestFixture *fixture)
{
  const GpuImageFormat wide = { GPU_CHANNEL_ORDER_RGBA, GPU_CHANNEL_TYPE_UINT8 };
  const GpuImageFormat narrow = { GPU_CHANNEL_ORDER_R, GPU_CHANNEL_TYPE_UINT8 };
  const GpuExtent whole = { 10, 6, 1 };
  const GpuExtent huge = { G_MAXSIZE / 2, 2, 1 };
  const GpuLayout at = { 3, 2, 0, 0, 0 };
  const GpuLayout pitched = { 0, 0, 0, 64, 0 };
  const GpuLayout tight = { 0, 0, 0, 39, 0 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, 239, 0);
  g_autoptr (GpuImage) image = NULL;
  g_autoptr (GpuImage) other = NULL;
  GpuMemory *memory;

  if (!test_has (fixture, GPU_CAPABILITIES_IMAGES))
    return;

  image = gpu_image_new (fixture->context, GPU_MEMORY_FLAGS_NONE, &wide, GPU_IMAGE_TYPE_IMAGE_2D,
                         &whole,
                         &error);
  g_assert_no_error (error);
  other = gpu_image_new (fixture->context, GPU_MEMORY_FLAGS_NONE, &narrow, GPU_IMAGE_TYPE_IMAGE_2D,
                         &whole, &error);
  g_assert_no_error (error);
  memory = GPU_MEMORY (image);

  g_assert_false (gpu_stream_copy_region (fixture->stream, memory, &at, GPU_MEMORY (buffer), NULL,
                                          &whole, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "10 x 6 x 1", "3, 2, 0",
                         "destination");
  g_assert_false (gpu_stream_copy_region (fixture->stream, memory, &pitched, GPU_MEMORY (buffer),
                                          NULL, &whole, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "row pitch 64", "image");
  g_assert_false (gpu_stream_copy_region (fixture->stream, memory, NULL, GPU_MEMORY (buffer),
                                          &tight, &whole, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "39", "40 bytes x 6 rows");
  g_assert_false (gpu_stream_copy_region (fixture->stream, memory, NULL, GPU_MEMORY (buffer),
                                          NULL, &whole, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "239 bytes of the source");
  g_assert_false (gpu_stream_copy_region (fixture->stream, memory, NULL, GPU_MEMORY (other), NULL,
                                          &whole, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "1 bytes", "4");
  g_assert_false (gpu_stream_copy_region (fixture->stream, memory, NULL, GPU_MEMORY (buffer),
                                          NULL, &huge, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT);
}

/* An origin is refused if its product with the pitch overflows to an offset within the buffer, here
 * to byte 0 or byte 16. */
static void
refused_origin_overflow (TestFixture *fixture)
{
  const gsize half = (gsize) 1 << (GLIB_SIZEOF_SIZE_T * 4);
  const gsize most = (gsize) 1 << (GLIB_SIZEOF_SIZE_T * 8 - 1);
  const GpuLayout bad[] = {
    { 0, half, 0, half, 0 },
    { 16, 1, 0, G_MAXSIZE - 15, 0 },
    { 0, 0, half, 16, half },
    { 0, 0, 2, 16, most },
    { G_MAXSIZE, 0, 0, 16, 64 },
    { G_MAXSIZE - 15, 1, 0, 32, 64 }
  };
  const GpuExtent extent = { 16, 1, 1 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, BUFFER_SIZE, 7);
  g_autoptr (GpuBuffer) other = test_buffer_filled (fixture, BUFFER_SIZE, 8);
  g_autoptr (GBytes) content = NULL;

  for (guint i = 0; i < G_N_ELEMENTS (bad); i++)
    {
      g_assert_false (gpu_stream_copy_region (fixture->stream, GPU_MEMORY (buffer), &bad[i],
                                              GPU_MEMORY (other), NULL, &extent, &error));
      test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_stream_copy_region",
                             "16 bytes x 1 rows x 1 slices", "destination",
                             "exceeds the address space");
      g_assert_false (gpu_stream_copy_region (fixture->stream, GPU_MEMORY (buffer), NULL,
                                              GPU_MEMORY (other), &bad[i], &extent, &error));
      test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "source",
                             "exceeds the address space");
    }

  content = test_content (buffer);
  test_assert_value (g_bytes_get_data (content, NULL), 7, BUFFER_SIZE);
}

/* The source or the destination must belong to the stream's context. */
static void
refused_foreign_context (TestFixture *fixture)
{
  const GpuExtent extent = { 3, 4, 5 };
  const GpuLayout behind = { 100, 0, 0, 0, 0 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuContext) context = gpu_context_new (fixture->device, GPU_CONTEXT_FLAGS_OWN, &error);
  g_autoptr (GpuBuffer) buffer = NULL;

  g_assert_no_error (error);
  buffer = gpu_buffer_new (context, GPU_MEMORY_FLAGS_NONE, BUFFER_SIZE, &error);
  g_assert_no_error (error);
  g_assert_false (gpu_stream_copy_region (fixture->stream, GPU_MEMORY (buffer), &behind,
                                          GPU_MEMORY (buffer), NULL, &extent, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_stream_copy_region", "contexts");
}

int
main (int    argc,
      char **argv)
{
  test_init (&argc, &argv);
  test_add ("overlaps", refused_overlaps);
  test_add ("depth", refused_depth);
  test_add ("depth-of-image", refused_depth_of_image);
  test_add ("pitches", refused_pitches);
  test_add ("overlaps-image", refused_overlaps_image);
  test_add ("bounds", refused_bounds);
  test_add ("foreign-context", refused_foreign_context);
  test_add ("origin-overflow", refused_origin_overflow);

  return test_run ();
}
