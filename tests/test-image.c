/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The image class: properties, errors, lifetimes, order between streams, and asynchronous calls. */
#include "config.h"

#include <gpumem/gpumem-bindings.h>

#include "test-util.h"

#define WIDTH  24
#define HEIGHT 10
#define SIZE   (4 * WIDTH * HEIGHT)

static const GpuImageFormat rgba8 = { GPU_CHANNEL_ORDER_RGBA, GPU_CHANNEL_TYPE_UINT8 };
static const GpuExtent extent_2d = { WIDTH, HEIGHT, 1 };

static GpuImage *
image_new (TestFixture    *fixture,
           GpuMemoryFlags  flags,
           GBytes         *bytes)
{
  g_autoptr (GError) error = NULL;
  GpuImage *image;

  if (bytes != NULL)
    image = gpu_image_new_from_bytes (fixture->context, flags, &rgba8, GPU_IMAGE_TYPE_IMAGE_2D,
                                      &extent_2d, bytes, 0, 0, &error);
  else
    image = gpu_image_new (fixture->context, flags, &rgba8, GPU_IMAGE_TYPE_IMAGE_2D, &extent_2d,
                           &error);

  g_assert_no_error (error);
  g_assert_true (GPU_IS_IMAGE (image));

  return image;
}

static void
assert_content (GpuImage *image,
                GBytes   *expected)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = gpu_image_read_bytes (image, NULL, NULL, NULL, NULL, &error);

  g_assert_no_error (error);
  test_assert_bytes (bytes, expected);
}

/* --- properties ------------------------------------------------------------------------------- */

static void
image_properties (TestFixture *fixture)
{
  g_autoptr (GpuImageFormat) format = NULL;
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuImage) image = NULL;
  g_autoptr (GVariant) attributes = NULL;
  guint64 before = gpu_context_get_allocated_size (fixture->context);
  guint64 width;
  guint64 height;
  GpuImageType type;
  GpuExtent extent;

  if (!test_has (fixture, GPU_CAPABILITIES_IMAGES))
    return;

  image = g_initable_new (GPU_TYPE_IMAGE, NULL, &error, "context", fixture->context, "format",
                          &rgba8, "image-type", GPU_IMAGE_TYPE_IMAGE_2D_ARRAY, "width",
                          (guint64) WIDTH, "height", (guint64) HEIGHT, "n-layers", (guint64) 3,
                          NULL);
  g_assert_no_error (error);
  g_object_get (image, "format", &format, "image-type", &type, "width", &width, "height", &height,
                NULL);
  g_assert_true (gpu_image_format_equal (format, &rgba8));
  g_assert_true (gpu_image_format_equal (gpu_image_get_format (image), &rgba8));
  g_assert_cmpint (type, ==, GPU_IMAGE_TYPE_IMAGE_2D_ARRAY);
  g_assert_cmpint (gpu_image_get_image_type (image), ==, type);
  g_assert_cmpuint (width, ==, WIDTH);
  g_assert_cmpuint (height, ==, HEIGHT);
  g_assert_cmpuint (test_get_number (image, "depth"), ==, 1);
  g_assert_cmpuint (test_get_number (image, "n-layers"), ==, 3);
  g_assert_cmpuint (gpu_image_get_n_levels (image), ==, 1);
  g_assert_cmpuint (test_get_number (image, "texel-size"), ==, 4);
  g_assert_cmpuint (gpu_image_get_row_pitch (image), >=, 4 * WIDTH);
  g_assert_cmpuint (gpu_image_get_slice_pitch (image), >=,
                    gpu_image_get_row_pitch (image) * HEIGHT);
  g_assert_null (gpu_image_get_buffer (image));
  g_assert_null (gpu_image_get_parent (image));
  gpu_image_get_extent (image, &extent);
  g_assert_cmpuint (extent.depth, ==, 3);
  g_assert_cmpuint (gpu_memory_get_size (GPU_MEMORY (image)), >=, 3 * SIZE);
  g_assert_cmpuint (gpu_context_get_allocated_size (fixture->context), ==,
                    before + gpu_memory_get_size (GPU_MEMORY (image)));
  attributes = gpu_memory_get_attributes (GPU_MEMORY (image), &error);
  g_assert_no_error (error);
  g_assert_true (g_variant_is_of_type (attributes, G_VARIANT_TYPE_VARDICT));
  g_clear_object (&image);
  g_assert_cmpuint (gpu_context_get_allocated_size (fixture->context), ==, before);
}

static void
image_wrong_properties (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_IMAGES))
    return;

  g_assert_null (g_initable_new (GPU_TYPE_IMAGE, NULL, &error, "context", fixture->context,
                                 "width", (guint64) WIDTH, "height", (guint64) HEIGHT, NULL));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "no format was given");
  g_assert_null (g_initable_new (GPU_TYPE_IMAGE, NULL, &error, "context", fixture->context,
                                 "format", &rgba8, "width", (guint64) WIDTH, "n-layers",
                                 (guint64) 3, NULL));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "height 1, depth 1 and n-layers 3",
                         "type 2d");
  g_assert_null (g_initable_new (GPU_TYPE_IMAGE, NULL, &error, "context", fixture->context,
                                 "format", &rgba8, "image-type", GPU_IMAGE_TYPE_IMAGE_1D_ARRAY,
                                 "width", (guint64) WIDTH, "height", (guint64) 5, NULL));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "height 5, depth 1 and n-layers 1",
                         "type 1d-array");
}

static void
image_limits (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  GpuExtent most;

  if (!test_has (fixture, GPU_CAPABILITIES_IMAGES))
    {
      g_assert_null (gpu_context_list_image_formats (fixture->context, GPU_MEMORY_FLAGS_NONE,
                                                     GPU_IMAGE_TYPE_IMAGE_2D, &error));
      test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "images");
      g_assert_null (gpu_image_new (fixture->context, GPU_MEMORY_FLAGS_NONE, &rgba8,
                                    GPU_IMAGE_TYPE_IMAGE_2D, &extent_2d, &error));
      test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_image_new", "images");
      return;
    }

  test_assert_ok (gpu_context_get_max_image_extent (fixture->context, GPU_IMAGE_TYPE_IMAGE_2D,
                                                    &most, &error), error);
  g_assert_cmpuint (most.width, >=, 2048);
  g_assert_cmpuint (most.height, >=, 2048);
  g_assert_cmpuint (most.depth, ==, 1);
  most.width++;
  g_assert_null (gpu_image_new (fixture->context, GPU_MEMORY_FLAGS_NONE, &rgba8,
                                GPU_IMAGE_TYPE_IMAGE_2D,
                                &most, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "exceeds the maximum", "type 2d");
  g_assert_false (gpu_context_get_max_image_extent (fixture->context, 99, &most, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "99");
}

/* --- errors ----------------------------------------------------------------------------------- */

static void
assert_refused (TestFixture          *fixture,
                GpuMemoryFlags        flags,
                const GpuImageFormat *format,
                GpuImageType          type,
                GpuExtent             extent,
                GpuError              code,
                const char           *words)
{
  g_autoptr (GError) error = NULL;

  g_assert_null (gpu_image_new (fixture->context, flags, format, type, &extent, &error));
  test_assert_gpu_error (error, code, "gpu_image_new", words);
}

static void
image_refuses (TestFixture *fixture)
{
  const GpuImageFormat none = { 77, GPU_CHANNEL_TYPE_UINT8 };
  const GpuImageFormat odd = { GPU_CHANNEL_ORDER_INTENSITY, GPU_CHANNEL_TYPE_INT32 };
  const GpuMemoryFlags both = GPU_MEMORY_FLAGS_READ_ONLY | GPU_MEMORY_FLAGS_WRITE_ONLY;

  if (!test_has (fixture, GPU_CAPABILITIES_IMAGES))
    return;

  assert_refused (fixture, 0, &none, GPU_IMAGE_TYPE_IMAGE_2D, extent_2d, GPU_ERROR_INVALID_ARGUMENT,
                  "channel order 77");
  assert_refused (fixture, 0, &odd, GPU_IMAGE_TYPE_IMAGE_2D, extent_2d, GPU_ERROR_NOT_SUPPORTED,
                  "intensity-int32");
  assert_refused (fixture, 0, &rgba8, 42, extent_2d, GPU_ERROR_INVALID_ARGUMENT, "42");
  assert_refused (fixture, 0, &rgba8, GPU_IMAGE_TYPE_IMAGE_2D, (GpuExtent) { 0, 10, 1 },
                  GPU_ERROR_INVALID_ARGUMENT, "0 x 10 x 1");
  assert_refused (fixture, 0, &rgba8, GPU_IMAGE_TYPE_IMAGE_2D, (GpuExtent) { 10, 10, 2 },
                  GPU_ERROR_INVALID_ARGUMENT, "10 x 10 x 2");
  assert_refused (fixture, 0, &rgba8, GPU_IMAGE_TYPE_IMAGE_1D, (GpuExtent) { 10, 2, 1 },
                  GPU_ERROR_INVALID_ARGUMENT, "10 x 2 x 1");
  assert_refused (fixture, 0, &rgba8, GPU_IMAGE_TYPE_IMAGE_1D_ARRAY, (GpuExtent) { 10, 1, 2 },
                  GPU_ERROR_INVALID_ARGUMENT,
                  "one slice, whose rows are the layers, not 10 x 1 x 2 texels");
  assert_refused (fixture, 0, &rgba8, GPU_IMAGE_TYPE_IMAGE_2D,
                  (GpuExtent) { G_MAXSIZE, G_MAXSIZE, 1 }, GPU_ERROR_INVALID_ARGUMENT,
                  "exceeds the maximum");
  assert_refused (fixture, both, &rgba8, GPU_IMAGE_TYPE_IMAGE_2D, extent_2d,
                  GPU_ERROR_INVALID_ARGUMENT, "flags");
  assert_refused (fixture, GPU_MEMORY_FLAGS_SHAREABLE, &rgba8, GPU_IMAGE_TYPE_IMAGE_2D, extent_2d,
                  GPU_ERROR_NOT_SUPPORTED, "file descriptors");
}

static void
image_refuses_cubes (TestFixture *fixture)
{
  if (!test_has (fixture, GPU_CAPABILITIES_CUBEMAPS))
    return;

  assert_refused (fixture, 0, &rgba8, GPU_IMAGE_TYPE_CUBEMAP, (GpuExtent) { 8, 9, 6 },
                  GPU_ERROR_INVALID_ARGUMENT, "8 x 9 x 6");
  assert_refused (fixture, 0, &rgba8, GPU_IMAGE_TYPE_CUBEMAP, (GpuExtent) { 8, 8, 5 },
                  GPU_ERROR_INVALID_ARGUMENT, "8 x 8 x 5");
  assert_refused (fixture, 0, &rgba8, GPU_IMAGE_TYPE_CUBEMAP_ARRAY, (GpuExtent) { 8, 8, 11 },
                  GPU_ERROR_INVALID_ARGUMENT, "8 x 8 x 11");
}

static void
image_refuses_data (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE - 1);

  if (!test_has (fixture, GPU_CAPABILITIES_IMAGES))
    return;

  g_assert_null (gpu_image_new_from_bytes (fixture->context, 0, &rgba8, GPU_IMAGE_TYPE_IMAGE_2D,
                                           &extent_2d, bytes, 0, 0, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_image_new_from_bytes", "959",
                         "960");
  g_assert_null (gpu_image_new_from_bytes (fixture->context, 0, &rgba8, GPU_IMAGE_TYPE_IMAGE_2D,
                                           &extent_2d, bytes, 95, 0, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "row pitch 95");
  g_assert_null (gpu_image_new_from_bytes (fixture->context, 0, &rgba8, GPU_IMAGE_TYPE_IMAGE_2D,
                                           &(GpuExtent) { 0, 0, 0 }, bytes, 0, 0, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT);
  g_assert_null (gpu_image_new_mipmapped (fixture->context, 0, &rgba8, GPU_IMAGE_TYPE_IMAGE_2D,
                                          &extent_2d, 6, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "6 mip levels", "5");
  g_assert_null (gpu_image_new_wrapped (fixture->context, 0, NULL, GPU_WRAP_MODE_BORROW, NULL,
                                        &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "handle is 0");
}

/* Every function refuses uninitialized images and released images. */
static void
image_unusable (TestFixture *fixture)
{
  const GpuColor color = { 1, 2, 3, 4 };
  g_autoptr (GpuImage) never = g_object_new (GPU_TYPE_IMAGE, NULL);
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuImage) image = NULL;

  g_assert_null (gpu_image_read_bytes (never, NULL, NULL, NULL, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "never initialised");
  g_assert_false (gpu_stream_fill_image (fixture->stream, never, &color, NULL, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "never initialised");
  g_assert_null (gpu_image_get_level (never, 0, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "never initialised");
  g_assert_false (g_initable_init (G_INITABLE (never), NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "no context");

  if (!test_has (fixture, GPU_CAPABILITIES_IMAGES))
    return;

  image = image_new (fixture, GPU_MEMORY_FLAGS_NONE, NULL);
  gpu_memory_release (GPU_MEMORY (image));
  g_assert_false (gpu_stream_fill_image (fixture->stream, image, &color, NULL, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_RELEASED, "gpu_stream_fill_image");
  g_assert_null (gpu_image_map (image, NULL, GPU_MAP_FLAGS_READ, NULL, NULL, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_RELEASED);
}

static void
image_host_access (TestFixture *fixture)
{
  const GpuColor color = { 9, 9, 9, 9 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  g_autoptr (GpuImage) closed = NULL;
  g_autoptr (GpuImage) open = NULL;
  g_autoptr (GBytes) nines = test_value_bytes (SIZE, 9);

  if (!test_has (fixture, GPU_CAPABILITIES_IMAGES))
    return;

  closed = image_new (fixture, GPU_MEMORY_FLAGS_HOST_NO_ACCESS, NULL);
  open = image_new (fixture, GPU_MEMORY_FLAGS_NONE, NULL);
  g_assert_false (gpu_image_write_bytes (closed, NULL, NULL, NULL, bytes, 0, 0, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "flags", "write");
  g_assert_null (gpu_image_read_bytes (closed, NULL, NULL, NULL, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "flags", "read");
  test_assert_ok (gpu_image_fill (closed, NULL, &color, NULL, NULL, NULL, &error), error);
  test_assert_ok (gpu_stream_copy_region (fixture->stream, GPU_MEMORY (open), NULL,
                                          GPU_MEMORY (closed), NULL, &extent_2d, &error), error);
  assert_content (open, nines);
}

/* --- lifetimes -------------------------------------------------------------------------------- */

/* Work on images completes even if the program drops all objects right after the submission. */
static void
image_dropped (TestFixture *fixture)
{
  g_autoptr (GpuBuffer) result = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_IMAGES))
    return;

  result = test_buffer_filled (fixture, SIZE, 0);

  for (guint i = 0; i < 200; i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GBytes) bytes = test_value_bytes (SIZE, (guint8) i);
      g_autoptr (GpuImage) first = image_new (fixture, GPU_MEMORY_FLAGS_NONE, NULL);
      g_autoptr (GpuImage) second = image_new (fixture, GPU_MEMORY_FLAGS_NONE, NULL);

      test_assert_ok (gpu_stream_write_region (fixture->stream, GPU_MEMORY (first), NULL, bytes,
                                               NULL, &extent_2d, &error), error);
      test_assert_ok (gpu_stream_copy_region (fixture->stream, GPU_MEMORY (second), NULL,
                                              GPU_MEMORY (first), NULL, &extent_2d, &error),
                      error);
      test_assert_ok (gpu_stream_copy_region (fixture->stream, GPU_MEMORY (result), NULL,
                                              GPU_MEMORY (second), NULL, &extent_2d, &error),
                      error);
    }

  {
    g_autoptr (GBytes) content = test_content (result);

    test_assert_value (g_bytes_get_data (content, NULL), 199, SIZE);
  }
}

/* Two streams use one image; the test itself does not wait. */
static void
image_streams (TestFixture *fixture)
{
  g_autoptr (GpuStream) other = NULL;
  g_autoptr (GpuImage) image = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_IMAGES))
    return;

  other = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  image = image_new (fixture, GPU_MEMORY_FLAGS_NONE, NULL);

  for (guint i = 0; i < 200; i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GBytes) bytes = test_value_bytes (SIZE, (guint8) (i + 1));
      g_autoptr (GBytes) got = NULL;

      test_assert_ok (gpu_stream_write_region (fixture->stream, GPU_MEMORY (image), NULL, bytes,
                                               NULL, &extent_2d, &error), error);
      got = gpu_stream_read_region (other, GPU_MEMORY (image), NULL, &extent_2d, &error);
      g_assert_no_error (error);
      test_synchronize (other);
      test_assert_bytes (got, bytes);
    }
}

/* Reads of an image over a buffer return data written through the buffer, and reads of the buffer
 * return data written through the image, even on different streams. */
static void
image_over_buffer (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) other = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (256);
  g_autoptr (GBytes) more = test_random_bytes (256);
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuImage) image = NULL;
  g_autoptr (GpuImage) level = NULL;
  g_autoptr (GBytes) got = NULL;
  const GpuExtent row = { 64, 1, 1 };

  if (!test_has (fixture, GPU_CAPABILITIES_IMAGES))
    return;

  buffer = test_buffer_filled (fixture, 256, 0);
  image = gpu_image_new_for_buffer (buffer, GPU_MEMORY_FLAGS_NONE, &rgba8,
                                    GPU_IMAGE_TYPE_IMAGE_1D_BUFFER, 64, 1, 0, &error);
  g_assert_no_error (error);
  g_assert_true (gpu_image_get_buffer (image) == buffer);
  level = gpu_image_get_level (image, 0, &error);
  g_assert_no_error (error);
  g_assert_true (gpu_image_get_buffer (level) == buffer);
  other = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  test_assert_ok (gpu_stream_write (fixture->stream, GPU_MEMORY (buffer), 0, bytes, &error),
                  error);
  got = gpu_stream_read_region (other, GPU_MEMORY (image), NULL, &row, &error);
  g_assert_no_error (error);
  test_synchronize (other);
  test_assert_bytes (got, bytes);

  test_assert_ok (gpu_stream_write_region (other, GPU_MEMORY (image), NULL, more, NULL, &row,
                                           &error), error);
  g_clear_object (&image);
  test_assert_content (buffer, more);
  g_assert_null (gpu_image_new_for_buffer (buffer, GPU_MEMORY_FLAGS_NONE, &rgba8,
                                           GPU_IMAGE_TYPE_IMAGE_1D_BUFFER, 65, 1, 0, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "65 x 1", "256");
}

/* The image keeps the buffer alive. */
static void
image_keeps_buffer (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (256);
  GpuBuffer *buffer;
  g_autoptr (GpuImage) image = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_IMAGES))
    return;

  buffer = test_buffer_from (fixture, bytes);
  image = gpu_image_new_for_buffer (buffer, GPU_MEMORY_FLAGS_NONE, &rgba8,
                                    GPU_IMAGE_TYPE_IMAGE_1D_BUFFER, 64, 1, 0, &error);
  g_assert_no_error (error);
  gpu_memory_release (GPU_MEMORY (buffer));
  g_object_unref (buffer);
  assert_content (image, bytes);
}

static void
image_rows_over_buffer (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuImage) image = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  g_autoptr (GBytes) got = NULL;
  GpuLayout layout = { 0, 0, 0, 0, 0 };

  if (!test_has (fixture, GPU_CAPABILITIES_IMAGE_FROM_BUFFER))
    return;

  buffer = gpu_buffer_new_pitched (fixture->context, GPU_MEMORY_FLAGS_NONE, 4 * WIDTH, HEIGHT, 4,
                                   &error);
  g_assert_no_error (error);
  image = gpu_image_new_for_buffer (buffer, GPU_MEMORY_FLAGS_NONE, &rgba8, GPU_IMAGE_TYPE_IMAGE_2D,
                                    WIDTH,
                                    HEIGHT, 0, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (gpu_image_get_row_pitch (image), ==, gpu_buffer_get_row_pitch (buffer));
  test_assert_ok (gpu_image_write_bytes (image, NULL, NULL, NULL, bytes, 0, 0, NULL, &error),
                  error);
  layout.row_pitch = gpu_buffer_get_row_pitch (buffer);
  got = gpu_stream_read_region (fixture->stream, GPU_MEMORY (buffer), &layout,
                                &(GpuExtent) { 4 * WIDTH, HEIGHT, 1 }, &error);
  g_assert_no_error (error);
  test_synchronize (fixture->stream);
  test_assert_bytes (got, bytes);
}

/* --- levels ----------------------------------------------------------------------------------- */

static void
image_levels (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuImage) image = NULL;
  g_autoptr (GpuImage) second = NULL;
  g_autoptr (GpuImage) third = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (4 * 8 * 4);
  g_autoptr (GBytes) small = test_random_bytes (4 * 4 * 2);

  if (!test_has (fixture, GPU_CAPABILITIES_MIPMAPS))
    return;

  image = gpu_image_new_mipmapped (fixture->context, GPU_MEMORY_FLAGS_NONE, &rgba8,
                                   GPU_IMAGE_TYPE_IMAGE_2D, &(GpuExtent) { 16, 9, 1 }, 5, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (gpu_image_get_n_levels (image), ==, 5);
  second = gpu_image_get_level (image, 1, &error);
  g_assert_no_error (error);
  third = gpu_image_get_level (image, 2, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (test_get_number (second, "width"), ==, 8);
  g_assert_cmpuint (test_get_number (second, "height"), ==, 4);
  g_assert_cmpuint (test_get_number (third, "width"), ==, 4);
  g_assert_cmpuint (test_get_number (third, "height"), ==, 2);
  g_assert_true (gpu_image_get_parent (second) == image);
  g_assert_cmpuint (test_get_number (third, "parent-level"), ==, 2);
  g_assert_null (gpu_image_get_level (image, 5, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "level 5", "5");
  test_assert_ok (gpu_image_write_bytes (second, NULL, NULL, NULL, bytes, 0, 0, NULL, &error),
                  error);
  test_assert_ok (gpu_image_write_bytes (third, NULL, NULL, NULL, small, 0, 0, NULL, &error),
                  error);
  g_clear_object (&image);
  assert_content (second, bytes);
  assert_content (third, small);
}

/* --- mappings --------------------------------------------------------------------------------- */

/* Work on mapped texels is refused with GPU_ERROR_BUSY; other rows of the image stay usable. */
static void
image_map_excludes (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuImage) image = NULL;
  g_autoptr (GpuMapping) mapping = NULL;
  g_autoptr (GBytes) row = test_random_bytes (4 * WIDTH);
  const GpuLayout third = { 0, 3, 0, 0, 0 };
  const GpuLayout fourth = { 0, 4, 0, 0, 0 };
  const GpuExtent one_row = { WIDTH, 1, 1 };
  const GpuExtent none = { 0, 1, 1 };

  if (!test_has (fixture, GPU_CAPABILITIES_IMAGES)
      || !test_has (fixture, GPU_CAPABILITIES_MAP))
    return;

  image = image_new (fixture, GPU_MEMORY_FLAGS_NONE, NULL);
  mapping = gpu_image_map (image, NULL, GPU_MAP_FLAGS_WRITE, &third, &one_row, NULL, &error);
  g_assert_no_error (error);
  g_assert_false (gpu_stream_write_region (fixture->stream, GPU_MEMORY (image), &third, row, NULL,
                                           &one_row, &error));
  test_assert_gpu_error (error, GPU_ERROR_BUSY, "mapped");
  test_assert_ok (gpu_stream_write_region (fixture->stream, GPU_MEMORY (image), &fourth, row,
                                           NULL, &one_row, &error), error);
  g_assert_null (gpu_image_map (image, NULL, GPU_MAP_FLAGS_READ, NULL, NULL, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_BUSY);
  g_assert_null (gpu_image_map (image, NULL, GPU_MAP_FLAGS_READ, NULL, &none, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "0 x 1 x 1 texels");
  g_assert_null (gpu_stream_map (fixture->stream, GPU_MEMORY (image), GPU_MAP_FLAGS_READ, 0, 4,
                                 &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "region");
}

/* A fill that is refused because the last row is mapped changes no other row. */
static void
image_refused_fill (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) before = test_random_bytes (SIZE);
  g_autoptr (GpuImage) image = NULL;
  GpuMapping *mapping;
  const GpuColor color = { 1, 0, 1, 0 };
  const GpuLayout last = { 0, HEIGHT - 1, 0, 0, 0 };

  if (!test_has (fixture, GPU_CAPABILITIES_IMAGES)
      || !test_has (fixture, GPU_CAPABILITIES_MAP))
    return;

  image = image_new (fixture, GPU_MEMORY_FLAGS_NONE, before);
  mapping = gpu_image_map (image, NULL, GPU_MAP_FLAGS_READ, &last, NULL, NULL, &error);
  g_assert_no_error (error);
  g_assert_false (gpu_stream_fill_image (fixture->stream, image, &color, NULL, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_BUSY, "gpu_stream_fill_image", "mapped");
  g_object_unref (mapping);
  assert_content (image, before);
}

/* A mapping, and bytes created from it, outlive the image. */
static void
image_map_outlives (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  GpuImage *image;
  GpuMapping *mapping;
  GBytes *view;
  gsize pitch;

  if (!test_has (fixture, GPU_CAPABILITIES_IMAGES)
      || !test_has (fixture, GPU_CAPABILITIES_MAP))
    return;

  image = image_new (fixture, GPU_MEMORY_FLAGS_NONE, bytes);
  mapping = gpu_image_map (image, NULL, GPU_MAP_FLAGS_READ, NULL, NULL, NULL, &error);
  g_assert_no_error (error);
  pitch = gpu_mapping_get_row_pitch (mapping);
  view = gpu_mapping_get_bytes (mapping);
  g_object_unref (image);
  g_object_unref (mapping);

  for (gsize y = 0; y < HEIGHT; y++)
    test_assert_mem ((const guint8 *) g_bytes_get_data (view, NULL) + y * pitch,
                     (const guint8 *) g_bytes_get_data (bytes, NULL) + y * 4 * WIDTH, 4 * WIDTH);

  g_bytes_unref (view);
}

/* --- asynchronous calls ----------------------------------------------------------------------- */

static void
image_async (TestFixture *fixture)
{
  const GpuColor color = { 7, 7, 7, 7 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  g_autoptr (GBytes) sevens = test_value_bytes (SIZE, 7);
  g_autoptr (GBytes) got = NULL;
  g_autoptr (GpuImage) image = NULL;
  GAsyncResult *result = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_IMAGES))
    return;

  image = image_new (fixture, GPU_MEMORY_FLAGS_NONE, NULL);
  gpu_image_write_bytes_async (image, NULL, NULL, NULL, bytes, 0, 0, NULL, test_take_result,
                               &result);
  test_assert_ok (gpu_image_write_bytes_finish (image, test_await (&result), &error), error);
  g_clear_object (&result);
  gpu_image_read_bytes_async (image, NULL, NULL, NULL, NULL, test_take_result, &result);
  got = gpu_image_read_bytes_finish (image, test_await (&result), &error);
  g_assert_no_error (error);
  test_assert_bytes (got, bytes);
  g_clear_object (&result);
  test_assert_ok (gpu_stream_fill_image (fixture->stream, image, &color, NULL, NULL,
                                         &error), error);
  gpu_memory_wait_async (GPU_MEMORY (image), NULL, test_take_result, &result);
  test_assert_ok (gpu_memory_wait_finish (GPU_MEMORY (image), test_await (&result), &error), error);
  g_clear_object (&result);
  assert_content (image, sevens);
}

static void
image_async_errors (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuImage) image = NULL;
  g_autoptr (GCancellable) cancelled = g_cancellable_new ();
  const GpuLayout outside = { WIDTH, 0, 0, 0, 0 };
  const GpuExtent one = { 1, 1, 1 };
  GAsyncResult *result = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_IMAGES))
    return;

  image = image_new (fixture, GPU_MEMORY_FLAGS_NONE, NULL);
  gpu_image_read_bytes_async (image, NULL, &outside, &one, NULL, test_take_result, &result);
  g_assert_null (gpu_image_read_bytes_finish (image, test_await (&result), &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "24, 0, 0", "24 x 10 x 1");
  g_clear_object (&result);
  g_cancellable_cancel (cancelled);
  gpu_image_map_async (image, NULL, GPU_MAP_FLAGS_READ, NULL, NULL, cancelled, test_take_result,
                       &result);
  g_assert_null (gpu_image_map_finish (image, test_await (&result), &error));
  test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED, NULL);
  g_clear_object (&result);
}

/* --- formats, without a device ---------------------------------------------------------------- */

static void
image_format (void)
{
  g_autoptr (GError) error = NULL;

  for (gint order = 0; order <= GPU_CHANNEL_ORDER_SBGRA; order++)
    {
      for (gint type = 0; type <= GPU_CHANNEL_TYPE_UNORM_101010; type++)
        {
          g_autoptr (GpuImageFormat) format = gpu_image_format_new (order, type);
          g_autofree char *text = gpu_image_format_to_string (format);
          g_autoptr (GpuImageFormat) read = gpu_image_format_new_from_string (text, &error);

          g_assert_no_error (error);
          g_assert_true (gpu_image_format_equal (format, read));
          g_assert_cmpuint (gpu_image_format_hash (format), ==, gpu_image_format_hash (read));
          g_assert_cmpuint (gpu_image_format_get_texel_size (format), >=, 1);
          g_assert_cmpuint (gpu_image_format_get_texel_size (format), <=, 16);
        }
    }

  g_assert_null (gpu_image_format_new_from_string ("rgba", &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "'rgba'");
  g_assert_null (gpu_image_format_new_from_string ("rgba-unorm9", &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "'rgba-unorm9'");
}

/* Functions that take byte ranges refuse images, because the layout of texels is unspecified. */
static void
image_linear_verbs (TestFixture *fixture)
{
  const GpuExtent extent = { 4, 1, 1 };
  const guint8 bytes[4] = { 1, 2, 3, 4 };
  g_autoptr (GBytes) data = g_bytes_new (bytes, sizeof bytes);
  g_autoptr (GBytes) before = NULL;
  g_autoptr (GBytes) after = NULL;
  g_autoptr (GpuImage) image = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  GpuMemory *memory;
  GError *error = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_IMAGES))
    return;

  image = gpu_image_new (fixture->context, GPU_MEMORY_FLAGS_NONE, &rgba8, GPU_IMAGE_TYPE_IMAGE_2D,
                         &extent_2d, &error);
  g_assert_no_error (error);
  buffer = test_buffer_filled (fixture, 64, 0);
  memory = GPU_MEMORY (image);
  test_assert_ok (gpu_stream_fill_image (fixture->stream, image, &(GpuColor) { 0, 0, 0, 0 }, NULL,
                                         NULL, &error), error);
  before = gpu_image_read_bytes (image, NULL, NULL, NULL, NULL, &error);
  g_assert_no_error (error);

#define ASSERT_REFUSED(call) \
  g_assert_false (call); \
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "is an image")

  ASSERT_REFUSED (gpu_stream_fill (fixture->stream, memory, 0, 4, bytes, 4, &error));
  ASSERT_REFUSED (gpu_stream_fill_region (fixture->stream, memory, NULL, &extent, bytes, 4,
                                          &error));
  ASSERT_REFUSED (gpu_stream_write (fixture->stream, memory, 0, data, &error));
  ASSERT_REFUSED (gpu_stream_read_bytes (fixture->stream, memory, 0, 4, &error) != NULL);
  ASSERT_REFUSED (gpu_stream_copy (fixture->stream, memory, 0, GPU_MEMORY (buffer), 0, 4, &error));
  ASSERT_REFUSED (gpu_stream_copy (fixture->stream, GPU_MEMORY (buffer), 0, memory, 0, 4, &error));
  ASSERT_REFUSED (gpu_stream_map (fixture->stream, memory, GPU_MAP_FLAGS_READ, 0, 4, &error)
                  != NULL);
#undef ASSERT_REFUSED

  after = gpu_image_read_bytes (image, NULL, NULL, NULL, NULL, &error);
  g_assert_no_error (error);
  g_assert_true (g_bytes_equal (before, after));
}

/* The stream of the transfer is idle, but the image is in use on another stream. */
static void
try_behind_other_stream (TestFixture *fixture, GpuImage *image)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) other = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuEvent) gate = test_gate (fixture, other);
  g_autofree guint8 *data = g_malloc0 (SIZE);
  const GpuColor color = { 1, 1, 1, 1 };

  test_assert_ok (gpu_stream_fill_image (other, image, &color, NULL, NULL, &error), error);
  g_assert_false (_gpu_binding_try_read_image (image, fixture->stream, data, SIZE, &error));
  g_assert_no_error (error);
  g_assert_false (_gpu_binding_try_write_image (image, fixture->stream, data, SIZE, &error));
  g_assert_no_error (error);
  test_open (gate);
  test_synchronize (other);
  test_assert_ok (_gpu_binding_try_read_image (image, fixture->stream, data, SIZE, &error), error);
  test_assert_value (data, 1, SIZE);
}

/* The functions for language bindings transfer all texels and wait, unless work is pending. */
static void
image_try (TestFixture *fixture)
{
  g_autoptr (GpuStream) stream = gpu_context_get_default_stream (fixture->context);
  g_autofree guint8 *data = g_malloc0 (SIZE);
  g_autofree guint8 *expected = g_malloc (SIZE);
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuImage) image = NULL;
  g_autoptr (GpuEvent) gate = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_IMAGES))
    return;

  for (guint i = 0; i < SIZE; i++)
    expected[i] = i % 251;

  image = image_new (fixture, GPU_MEMORY_FLAGS_NONE, NULL);
  g_assert_true (_gpu_binding_try_write_image (image, NULL, expected, SIZE, &error));
  g_assert_no_error (error);
  g_assert_true (_gpu_binding_try_read_image (image, stream, data, SIZE, &error));
  g_assert_no_error (error);
  g_assert_cmpmem (data, SIZE, expected, SIZE);

  g_assert_false (_gpu_binding_try_write_image (image, NULL, expected, SIZE - 1, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "host bytes");

  if ((gpu_device_get_capabilities (fixture->device) & GPU_CAPABILITIES_USER_EVENTS) != 0)
    {
      gate = test_gate (fixture, stream);
      g_assert_false (_gpu_binding_try_write_image (image, NULL, data + 1, SIZE - 1, &error));
      g_assert_no_error (error);
      g_assert_false (_gpu_binding_try_read_image (image, stream, data, SIZE, &error));
      g_assert_no_error (error);
      test_open (gate);
      test_synchronize (stream);
      try_behind_other_stream (fixture, image);
    }

  gpu_memory_release (GPU_MEMORY (image));
  g_assert_false (_gpu_binding_try_read_image (image, stream, data, SIZE, &error));
  test_assert_gpu_error (error, GPU_ERROR_RELEASED, "gpu_image_read");
}

int
main (int    argc,
      char **argv)
{
  test_init (&argc, &argv);
  test_add ("properties", image_properties);
  test_add ("wrong-properties", image_wrong_properties);
  test_add ("limits", image_limits);
  test_add ("refuses", image_refuses);
  test_add ("refuses-cubes", image_refuses_cubes);
  test_add ("refuses-data", image_refuses_data);
  test_add ("unusable", image_unusable);
  test_add ("host-access", image_host_access);
  test_add ("dropped", image_dropped);
  test_add ("streams", image_streams);
  test_add ("linear-verbs", image_linear_verbs);
  test_add ("over-buffer", image_over_buffer);
  test_add ("keeps-buffer", image_keeps_buffer);
  test_add ("rows-over-buffer", image_rows_over_buffer);
  test_add ("levels", image_levels);
  test_add ("map-excludes", image_map_excludes);
  test_add ("refused-fill", image_refused_fill);
  test_add ("map-outlives", image_map_outlives);
  test_add ("try", image_try);
  test_add ("async", image_async);
  test_add ("async-errors", image_async_errors);
  test_add_plain ("format", image_format);

  return test_run ();
}
