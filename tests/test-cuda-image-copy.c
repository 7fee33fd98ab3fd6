/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Copies to, from and between images of the CUDA back end, compared with the same copies in plain
 * memory. The images have every type, or use the memory of a buffer. */
#include "config.h"

#include "test-image-util.h"

#define TEXEL 4

/* For each image type: a format and a small extent with different sides. */
static const struct
{
  GpuImageType type;
  GpuExtent    extent;
}
shapes[] = {
  { GPU_IMAGE_TYPE_IMAGE_1D, { 37, 1, 1 } },
  { GPU_IMAGE_TYPE_IMAGE_1D_ARRAY, { 37, 9, 1 } },
  { GPU_IMAGE_TYPE_IMAGE_2D, { 37, 21, 1 } },
  { GPU_IMAGE_TYPE_IMAGE_2D_ARRAY, { 37, 21, 5 } },
  { GPU_IMAGE_TYPE_IMAGE_3D, { 37, 21, 7 } },
  { GPU_IMAGE_TYPE_CUBEMAP, { 16, 16, 6 } },
  { GPU_IMAGE_TYPE_CUBEMAP_ARRAY, { 16, 16, 12 } }
};

static const GpuImageFormat rgba8 = { GPU_CHANNEL_ORDER_RGBA, GPU_CHANNEL_TYPE_UNORM8 };
static const GpuImageFormat r32 = { GPU_CHANNEL_ORDER_R, GPU_CHANNEL_TYPE_UINT32 };

/* --- copies ----------------------------------------------------------------------------------- */

/* A region of rows and slices in memory, in bytes. */
typedef struct
{
  guint8 *data;
  gsize   offset;
  gsize   row;
  gsize   slice;
} Model;

static Model
model_of (gpointer data, const GpuExtent *extent, const GpuLayout *at)
{
  gsize row = extent->width * TEXEL;
  gsize slice = row * extent->height;

  return (Model) { data, at->x * TEXEL + at->y * row + at->z * slice, row, slice };
}

static void
model_copy (const Model *to, const Model *from, const GpuExtent *extent)
{
  for (gsize z = 0; z < extent->depth; z++)
    for (gsize y = 0; y < extent->height; y++)
      memcpy (to->data + to->offset + z * to->slice + y * to->row,
              from->data + from->offset + z * from->slice + y * from->row, extent->width * TEXEL);
}

/* Copies through a buffer and from the host, with aligned and unaligned pitches. */
static void
check_pitches (TestFixture *fixture, GpuImage *image, const GpuExtent *whole, gsize row,
               gsize slice)
{
  const GpuLayout at = { whole->width / 3, whole->height / 3, whole->depth / 3, 0, 0 };
  const GpuExtent part = { whole->width / 2, (whole->height + 1) / 2, (whole->depth + 1) / 2 };
  const GpuLayout linear = { 12, 0, 0, row, slice };
  gsize size = 12 + part.depth * slice + part.height * row;
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) texels = test_random_bytes (test_count_texels (whole) * TEXEL);
  g_autoptr (GBytes) noise = test_random_bytes (size);
  g_autoptr (GpuBuffer) buffer = test_buffer_from (fixture, noise);
  g_autofree guint8 *expected = g_memdup2 (g_bytes_get_data (noise, NULL), size);
  g_autofree guint8 *image_model = g_memdup2 (g_bytes_get_data (texels, NULL),
                                              test_count_texels (whole) * TEXEL);
  g_autoptr (GBytes) wanted = NULL;
  g_autoptr (GBytes) image_wanted = NULL;
  Model in_image = model_of (image_model, whole, &at);
  Model in_buffer = { expected, 12, row, slice };

  test_assert_ok (gpu_image_write_bytes (image, fixture->stream, NULL, whole, texels, 0, 0, NULL,
                                         &error), error);
  test_assert_ok (gpu_stream_copy_region (fixture->stream, GPU_MEMORY (buffer), &linear,
                                          GPU_MEMORY (image), &at, &part, &error), error);
  model_copy (&in_buffer, &in_image, &part);
  test_synchronize (fixture->stream);
  wanted = g_bytes_new (expected, size);
  test_assert_content (buffer, wanted);

  in_buffer.data = (guint8 *) g_bytes_get_data (noise, NULL);
  test_assert_ok (gpu_stream_write_region (fixture->stream, GPU_MEMORY (image), &at, noise,
                                           &linear, &part, &error), error);
  model_copy (&in_image, &in_buffer, &part);
  image_wanted = g_bytes_new (image_model, test_count_texels (whole) * TEXEL);
  test_assert_texels (image, image_wanted);

  /* Restore the whole image, then copy a part from the buffer, which has the same texels. */
  test_assert_ok (gpu_image_write_bytes (image, fixture->stream, NULL, whole, texels, 0, 0, NULL,
                                         &error), error);
  test_assert_ok (gpu_stream_copy_region (fixture->stream, GPU_MEMORY (image), &at,
                                          GPU_MEMORY (buffer), &linear, &part, &error), error);
  test_synchronize (fixture->stream);
  test_assert_texels (image, texels);
}

static void
image_pitches (TestFixture *fixture)
{
  if (!test_is_cuda (fixture, GPU_CAPABILITIES_IMAGES))
    return;
  for (guint i = 0; i < G_N_ELEMENTS (shapes); i++)
    {
      const GpuExtent *whole = &shapes[i].extent;
      gsize row = whole->width / 2 * TEXEL;
      gsize rows = (whole->height + 1) / 2;
      g_autoptr (GpuImage) image = test_image (fixture, GPU_MEMORY_FLAGS_NONE, &rgba8,
                                               shapes[i].type,
                                               *whole);

      check_pitches (fixture, image, whole, row, row * rows);
      check_pitches (fixture, image, whole, row + 4, (row + 4) * (rows + 2));
      check_pitches (fixture, image, whole, row + 5, (row + 5) * rows + 3);
      check_pitches (fixture, image, whole, 1000, 1000 * rows + 300);
    }
}

/* Copies between images of two types. The regions of both images are in texels, rows and slices. */
static void
check_pair (TestFixture *to_fixture, TestFixture *from_fixture, GpuStream *stream, guint to,
            guint from)
{
  const GpuExtent *to_extent = &shapes[to].extent;
  const GpuExtent *from_extent = &shapes[from].extent;
  const GpuExtent part = { 11, MIN (3, MIN (to_extent->height, from_extent->height)),
                           MIN (3, MIN (to_extent->depth, from_extent->depth)) };
  const GpuLayout to_at = { 4, to_extent->height - part.height, to_extent->depth - part.depth,
                            0, 0 };
  const GpuLayout from_at = { 1, 0, 0, 0, 0 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) to_texels = test_random_bytes (test_count_texels (to_extent) * TEXEL);
  g_autoptr (GBytes) from_texels = test_random_bytes (test_count_texels (from_extent) * TEXEL);
  g_autoptr (GpuImage) to_image = test_image_from (to_fixture, &rgba8, shapes[to].type, *to_extent,
                                                   to_texels);
  g_autoptr (GpuImage) from_image = test_image_from (from_fixture, &r32, shapes[from].type,
                                                     *from_extent, from_texels);
  g_autofree guint8 *data = g_memdup2 (g_bytes_get_data (to_texels, NULL),
                                       test_count_texels (to_extent) * TEXEL);
  Model to_model = model_of (data, to_extent, &to_at);
  Model from_model = model_of ((gpointer) g_bytes_get_data (from_texels, NULL), from_extent,
                               &from_at);
  g_autoptr (GBytes) wanted = NULL;

  test_assert_ok (gpu_stream_copy_region (stream, GPU_MEMORY (to_image), &to_at,
                                          GPU_MEMORY (from_image), &from_at, &part, &error), error);
  test_synchronize (stream);
  model_copy (&to_model, &from_model, &part);
  wanted = g_bytes_new (data, test_count_texels (to_extent) * TEXEL);
  test_assert_texels (to_image, wanted);
}

static void
image_pairs (TestFixture *fixture)
{
  if (!test_is_cuda (fixture, GPU_CAPABILITIES_IMAGES))
    return;
  for (guint i = 0; i < G_N_ELEMENTS (shapes); i++)
    for (guint j = 0; j < G_N_ELEMENTS (shapes); j++)
      check_pair (fixture, fixture, fixture->stream, i, j);
}

/* Copies from a buffer of another context into an image, and from the image back to a buffer of
 * that context. */
static void
check_peer_buffer (TestFixture *fixture, TestFixture *other, guint shape, gsize gap)
{
  const GpuExtent *whole = &shapes[shape].extent;
  gsize row = whole->width * TEXEL + gap;
  gsize slice = row * whole->height + gap;
  gsize size = slice * whole->depth;
  const GpuLayout linear = { 0, 0, 0, row, slice };
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) noise = test_random_bytes (size);
  g_autoptr (GBytes) texels = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer_from (other, noise);
  g_autoptr (GpuBuffer) back = test_buffer_filled (other, size, 7);
  g_autoptr (GpuImage) image = test_image (fixture, GPU_MEMORY_FLAGS_NONE, &rgba8,
                                           shapes[shape].type,
                                           *whole);
  g_autofree guint8 *data = g_malloc (test_count_texels (whole) * TEXEL);
  g_autofree guint8 *expected = g_malloc (size);
  g_autoptr (GBytes) wanted = NULL;
  Model in_image = model_of (data, whole, &(GpuLayout) { 0, 0, 0, 0, 0 });
  Model in_buffer = { (guint8 *) g_bytes_get_data (noise, NULL), 0, row, slice };
  Model in_back = { expected, 0, row, slice };

  model_copy (&in_image, &in_buffer, whole);
  memset (expected, 7, size);
  model_copy (&in_back, &in_image, whole);
  test_assert_ok (gpu_stream_copy_region (fixture->stream, GPU_MEMORY (image), NULL,
                                          GPU_MEMORY (buffer), &linear, whole, &error), error);
  test_assert_ok (gpu_stream_copy_region (other->stream, GPU_MEMORY (back), &linear,
                                          GPU_MEMORY (image), NULL, whole, &error), error);
  test_synchronize (other->stream);
  texels = g_bytes_new (data, test_count_texels (whole) * TEXEL);
  test_assert_texels (image, texels);
  wanted = g_bytes_new (expected, size);
  test_assert_content (back, wanted);
}

static void
check_peer (TestFixture *fixture, GpuDevice *device)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuContext) context = gpu_context_new (device, GPU_CONTEXT_FLAGS_OWN, &error);
  g_autoptr (GpuStream) stream = NULL;
  TestFixture other;

  g_assert_no_error (error);
  stream = gpu_context_get_default_stream (context);
  other = (TestFixture) { device, context, stream };
  for (guint i = 0; i < G_N_ELEMENTS (shapes); i++)
    {
      for (guint j = 0; j < G_N_ELEMENTS (shapes); j++)
        {
          check_pair (fixture, &other, fixture->stream, i, j);
          check_pair (&other, fixture, fixture->stream, i, j);
        }
      check_peer_buffer (fixture, &other, i, 0);
      check_peer_buffer (fixture, &other, i, 5);
    }
}

static void
image_peers (TestFixture *fixture)
{
  GPtrArray *devices = test_devices ();

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_IMAGES))
    return;
  for (guint i = 0; i < devices->len; i++)
    if (g_str_equal (gpu_device_get_backend (devices->pdata[i]), "cuda"))
      check_peer (fixture, devices->pdata[i]);
}

/* Fills a row and copies it within the image. */
static void
image_fill (TestFixture *fixture)
{
  const GpuColor color = { 0.25, 0.5, 0.75, 1 };
  const guint8 texel[] = { 64, 128, 191, 255 };
  g_autoptr (GError) error = NULL;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_IMAGES))
    return;
  for (guint i = 0; i < G_N_ELEMENTS (shapes); i++)
    {
      const GpuExtent *whole = &shapes[i].extent;
      const GpuLayout at = { 3, whole->height > 1 ? 2 : 0, whole->depth > 1 ? 1 : 0, 0, 0 };
      const GpuExtent part = { whole->width - 5, whole->height - at.y, whole->depth - at.z };
      g_autoptr (GBytes) texels = test_random_bytes (test_count_texels (whole) * TEXEL);
      g_autoptr (GpuImage) image = test_image_from (fixture, &rgba8, shapes[i].type, *whole,
                                                    texels);
      g_autofree guint8 *data = g_memdup2 (g_bytes_get_data (texels, NULL),
                                           g_bytes_get_size (texels));
      g_autofree guint8 *colors = g_malloc (part.width * TEXEL);
      Model to = model_of (data, whole, &at);
      Model from = { colors, 0, 0, 0 };
      g_autoptr (GBytes) wanted = NULL;

      for (gsize j = 0; j < part.width; j++)
        memcpy (colors + j * TEXEL, texel, TEXEL);
      model_copy (&to, &from, &part);
      test_assert_ok (gpu_image_fill (image, fixture->stream, &color, &at, &part, NULL, &error),
                      error);
      wanted = g_bytes_new (data, test_count_texels (whole) * TEXEL);
      test_assert_texels (image, wanted);
    }
}

/* --- mappings --------------------------------------------------------------------------------- */

static void
check_mapping (TestFixture *fixture, GpuImage *image, const GpuExtent *whole, GpuMapFlags flags)
{
  const GpuLayout at = { 2, whole->height / 2, whole->depth / 2, 0, 0 };
  const GpuExtent part = { 9, (whole->height + 1) / 2, (whole->depth + 1) / 2 };
  gsize size = test_count_texels (whole) * TEXEL;
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) texels = test_random_bytes (size);
  g_autoptr (GBytes) noise = test_random_bytes (test_count_texels (&part) * TEXEL);
  g_autofree guint8 *data = g_memdup2 (g_bytes_get_data (texels, NULL), size);
  g_autofree guint8 *seen = g_malloc (test_count_texels (&part) * TEXEL);
  g_autoptr (GpuMapping) mapping = NULL;
  g_autoptr (GBytes) wanted = NULL;
  Model in_image = model_of (data, whole, &at);
  Model tight = { seen, 0, part.width * TEXEL, part.width * TEXEL * part.height };
  Model mapped = { .offset = 0 };

  test_assert_ok (gpu_image_write_bytes (image, fixture->stream, NULL, whole, texels, 0, 0, NULL,
                                         &error), error);
  mapping = gpu_image_map (image, fixture->stream, flags, &at, &part, NULL, &error);
  g_assert_no_error (error);
  mapped.data = gpu_mapping_get_data (mapping);
  mapped.row = gpu_mapping_get_row_pitch (mapping);
  mapped.slice = gpu_mapping_get_slice_pitch (mapping);
  g_assert_cmpuint (mapped.row, ==, part.width * TEXEL);
  if ((flags & GPU_MAP_FLAGS_READ) != 0)
    {
      g_autofree guint8 *expected = g_malloc (test_count_texels (&part) * TEXEL);
      Model copy = { expected, 0, tight.row, tight.slice };

      model_copy (&tight, &mapped, &part);
      model_copy (&copy, &in_image, &part);
      test_assert_mem (seen, expected, test_count_texels (&part) * TEXEL);
    }
  if (flags != GPU_MAP_FLAGS_READ)
    {
      tight.data = (guint8 *) g_bytes_get_data (noise, NULL);
      model_copy (&mapped, &tight, &part);
      model_copy (&in_image, &tight, &part);
    }
  test_assert_ok (gpu_mapping_unmap (mapping, &error), error);
  wanted = g_bytes_new (data, size);
  test_assert_texels (image, wanted);
}

static void
image_mappings (TestFixture *fixture)
{
  if (!test_is_cuda (fixture, GPU_CAPABILITIES_IMAGES))
    return;
  for (guint i = 0; i < G_N_ELEMENTS (shapes); i++)
    {
      g_autoptr (GpuImage) image = test_image (fixture, GPU_MEMORY_FLAGS_NONE, &rgba8,
                                               shapes[i].type,
                                               shapes[i].extent);

      check_mapping (fixture, image, &shapes[i].extent, GPU_MAP_FLAGS_READ);
      check_mapping (fixture, image, &shapes[i].extent,
                     GPU_MAP_FLAGS_READ | GPU_MAP_FLAGS_WRITE);
      check_mapping (fixture, image, &shapes[i].extent, GPU_MAP_FLAGS_WRITE_INVALIDATE);
    }
}

/* --- images over buffers ---------------------------------------------------------------------- */

static void
image_linear (TestFixture *fixture)
{
  const GpuExtent extent = { 24, 6, 1 };
  const guint8 value = 0x5a;
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) texels = test_random_bytes (24 * 6 * TEXEL);
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuImage) image = NULL;
  g_autoptr (GpuImage) row = NULL;
  g_autoptr (GBytes) content = NULL;
  g_autoptr (GBytes) part = NULL;
  gsize pitch;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_IMAGES))
    return;
  buffer = gpu_buffer_new_pitched (fixture->context, GPU_MEMORY_FLAGS_NONE, 24 * TEXEL, 6, TEXEL,
                                   &error);
  g_assert_no_error (error);
  pitch = gpu_buffer_get_row_pitch (buffer);
  image = gpu_image_new_for_buffer (buffer, GPU_MEMORY_FLAGS_NONE, &rgba8, GPU_IMAGE_TYPE_IMAGE_2D,
                                    24, 6,
                                    0, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (gpu_image_get_row_pitch (image), ==, pitch);
  g_assert_cmpuint (gpu_memory_get_device_address (GPU_MEMORY (image)), ==,
                    gpu_memory_get_device_address (GPU_MEMORY (buffer)));
  g_assert_cmpuint (gpu_memory_get_size (GPU_MEMORY (image)), ==, 24 * 6 * TEXEL);
  test_assert_ok (gpu_image_write_bytes (image, NULL, NULL, &extent, texels, 0, 0, NULL, &error),
                  error);
  content = test_content (buffer);
  for (gsize y = 0; y < 6; y++)
    test_assert_mem ((const guint8 *) g_bytes_get_data (content, NULL) + y * pitch,
                     (const guint8 *) g_bytes_get_data (texels, NULL) + y * 24 * TEXEL, 24 * TEXEL);
  check_mapping (fixture, image, &extent, GPU_MAP_FLAGS_READ | GPU_MAP_FLAGS_WRITE);

  row = gpu_image_new_for_buffer (buffer, GPU_MEMORY_FLAGS_NONE, &r32,
                                  GPU_IMAGE_TYPE_IMAGE_1D_BUFFER, 70,
                                  1, 0, &error);
  g_assert_no_error (error);
  test_assert_ok (gpu_stream_fill (fixture->stream, GPU_MEMORY (buffer), 0, 6 * pitch, &value, 1,
                                   &error), error);
  part = gpu_image_read_bytes (row, fixture->stream, &(GpuLayout) { 60, 0, 0, 0, 0 },
                               &(GpuExtent) { 10, 1, 1 }, NULL, &error);
  g_assert_no_error (error);
  test_assert_value (g_bytes_get_data (part, NULL), 0x5a, 40);
}

/* Host memory that the device can access is mapped in place. */
static void
image_of_host (TestFixture *fixture)
{
  const GpuExtent extent = { 24, 6, 1 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) texels = test_random_bytes (24 * 6 * TEXEL);
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuImage) image = NULL;
  g_autoptr (GpuMapping) mapping = NULL;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_IMAGES))
    return;
  buffer = gpu_buffer_new (fixture->context, GPU_MEMORY_FLAGS_ALLOC_HOST, 128 * 6, &error);
  g_assert_no_error (error);
  image = gpu_image_new_for_buffer (buffer, GPU_MEMORY_FLAGS_NONE, &rgba8, GPU_IMAGE_TYPE_IMAGE_2D,
                                    24, 6,
                                    128, &error);
  g_assert_no_error (error);
  test_assert_ok (gpu_image_write_bytes (image, NULL, NULL, &extent, texels, 0, 0, NULL, &error),
                  error);
  mapping = gpu_image_map (image, NULL, GPU_MAP_FLAGS_READ, &(GpuLayout) { 3, 2, 0, 0, 0 },
                           &(GpuExtent) { 5, 2, 1 }, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (gpu_mapping_get_row_pitch (mapping), ==, 128);
  test_assert_mem ((const guint8 *) gpu_mapping_get_data (mapping) + 128,
                   (const guint8 *) g_bytes_get_data (texels, NULL) + (3 * 24 + 3) * TEXEL,
                   5 * TEXEL);
}

static void
image_alignment (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuBuffer) slice = NULL;
  g_autoptr (GpuBuffer) aligned = NULL;
  g_autoptr (GpuImage) image = NULL;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_IMAGES))
    return;
  buffer = test_buffer (fixture, 65536);
  g_assert_null (gpu_image_new_for_buffer (buffer, GPU_MEMORY_FLAGS_NONE, &rgba8,
                                           GPU_IMAGE_TYPE_IMAGE_2D,
                                           4, 4, 36, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "row pitch, 36,", "multiple of 32");
  slice = gpu_buffer_slice (buffer, 256, 4096, &error);
  g_assert_no_error (error);
  g_assert_null (gpu_image_new_for_buffer (slice, GPU_MEMORY_FLAGS_NONE, &rgba8,
                                           GPU_IMAGE_TYPE_IMAGE_1D_BUFFER, 16, 1, 0, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "where the buffer begins",
                         "multiple of 512");
  aligned = gpu_buffer_slice (buffer, 512, 4096, &error);
  g_assert_no_error (error);
  image = gpu_image_new_for_buffer (aligned, GPU_MEMORY_FLAGS_NONE, &rgba8, GPU_IMAGE_TYPE_IMAGE_2D,
                                    13,
                                    1, 0, &error);
  g_assert_no_error (error);
  check_mapping (fixture, image, &(GpuExtent) { 13, 1, 1 }, GPU_MAP_FLAGS_READ);
}

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
  test_add ("pitches", image_pitches);
  test_add ("pairs", image_pairs);
  test_add ("peers", image_peers);
  test_add ("fill", image_fill);
  test_add ("mappings", image_mappings);
  test_add ("linear", image_linear);
  test_add ("of-host", image_of_host);
  test_add ("alignment", image_alignment);
  return test_run ();
}
