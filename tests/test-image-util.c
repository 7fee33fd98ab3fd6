/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "test-image-util.h"

GpuImage *
test_image (TestFixture          *fixture,
            GpuMemoryFlags        flags,
            const GpuImageFormat *format,
            GpuImageType          type,
            GpuExtent             extent)
{
  g_autoptr (GError) error = NULL;
  GpuImage *image = gpu_image_new (fixture->context, flags, format, type, &extent, &error);

  g_assert_no_error (error);
  g_assert_true (GPU_IS_IMAGE (image));

  return image;
}

GpuImage *
test_image_from (TestFixture          *fixture,
                 const GpuImageFormat *format,
                 GpuImageType          type,
                 GpuExtent             extent,
                 GBytes               *bytes)
{
  g_autoptr (GError) error = NULL;
  GpuImage *image = gpu_image_new_from_bytes (fixture->context, GPU_MEMORY_FLAGS_NONE, format, type,
                                              &extent, bytes, 0, 0, &error);

  g_assert_no_error (error);
  g_assert_true (GPU_IS_IMAGE (image));

  return image;
}

GpuImage *
test_image_numbers (TestFixture          *fixture,
                    const GpuImageFormat *format,
                    GpuImageType          type,
                    GpuExtent             extent,
                    guint                 first)
{
  const gsize n = test_count_texels (&extent);
  g_autofree guint32 *texels = g_new (guint32, n);
  g_autoptr (GBytes) bytes = NULL;

  for (gsize i = 0; i < n; i++)
    {
      const float real = (float) (first + i);

      texels[i] = (guint32) (first + i);
      if (format->channel_type == GPU_CHANNEL_TYPE_FLOAT32)
        memcpy (&texels[i], &real, sizeof real);
    }

  bytes = g_bytes_new (texels, n * sizeof *texels);

  return test_image_from (fixture, format, type, extent, bytes);
}

GpuSampler *
test_sampler (TestFixture    *fixture,
              gboolean        normalized,
              GpuAddressMode  mode,
              GpuFilterMode   filter)
{
  g_autoptr (GError) error = NULL;
  GpuSampler *sampler = gpu_sampler_new (fixture->context, normalized, mode, filter, &error);

  g_assert_no_error (error);
  g_assert_true (GPU_IS_SAMPLER (sampler));

  return sampler;
}

void
test_assert_texels (GpuImage *image,
                    GBytes   *expected)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = gpu_image_read_bytes (image, NULL, NULL, NULL, NULL, &error);

  g_assert_no_error (error);
  test_assert_bytes (bytes, expected);
}

gsize
test_count_texels (const GpuExtent *extent)
{
  return extent->width * extent->height * extent->depth;
}

void
test_assert_image (GpuImage *image, gconstpointer expected, gsize size)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = gpu_image_read_bytes (image, NULL, NULL, NULL, NULL, &error);

  g_assert_no_error (error);
  g_assert_cmpuint (g_bytes_get_size (bytes), ==, size);
  test_assert_mem (g_bytes_get_data (bytes, NULL), expected, size);
}

void
test_write_image (GpuImage *image, GBytes *bytes)
{
  g_autoptr (GError) error = NULL;

  test_assert_ok (gpu_image_write_bytes (image, NULL, NULL, NULL, bytes, 0, 0, NULL, &error),
                  error);
}

void
test_copy_region (GpuStream *stream, gpointer to, const GpuLayout *to_layout, gpointer from,
                  const GpuLayout *from_layout, GpuExtent extent)
{
  g_autoptr (GError) error = NULL;

  test_assert_ok (gpu_stream_copy_region (stream, to, to_layout, from, from_layout, &extent,
                                          &error), error);
}

GpuImage *
test_image_over (GpuBuffer *buffer, gsize width)
{
  static const GpuImageFormat rgba8 = { GPU_CHANNEL_ORDER_RGBA, GPU_CHANNEL_TYPE_UINT8 };
  g_autoptr (GError) error = NULL;
  GpuImage *image = gpu_image_new_for_buffer (buffer, GPU_MEMORY_FLAGS_NONE, &rgba8,
                                              GPU_IMAGE_TYPE_IMAGE_1D_BUFFER, width, 1, 0, &error);

  g_assert_no_error (error);
  return image;
}

gboolean
test_has_opencl_images (TestFixture *fixture)
{
  if (!test_is_opencl (fixture))
    {
      g_test_skip ("there is no OpenCL device");
      return FALSE;
    }
  return test_has (fixture, GPU_CAPABILITIES_IMAGES);
}
