/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Operations that must not block return without a wait, also if an out-of-order stream has so much
 * pending work that an ordinary submission waits for the device. The test detects a wait by the
 * number of completed operations. */
#include "config.h"

#include "test-util.h"

#define SIZE 4096
#define MAX_BEHIND 64
#define WRITE_SIZE 100000
#define N_WRITES 60
#define MAPPED_SIZE (64 * 1024 * 1024)

/* The sizes of a region with slices of WRITE_SIZE bytes, and of one with texels of 4 bytes */
#define REGION { 1000, 100, 2 }
#define TEXELS { 250, 100, 1 }
/* The number of writes to an image */
#define N_LAYERS 20

static void
fill (GpuStream *stream, GpuBuffer *buffer)
{
  g_autoptr (GError) error = NULL;

  test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (buffer), 0, SIZE, "b", 1,
                                   &error), error);
}

/* Submits work until the next ordinary submission would wait. */
static guint64
fall_behind (GpuStream *stream, GpuBuffer *buffer)
{
  guint64 n_completed;

  test_synchronize (stream);
  n_completed = test_get_number (stream, "n-completed");
  while (test_get_number (stream, "n-submitted") <= n_completed + MAX_BEHIND)
    fill (stream, buffer);
  g_assert_cmpuint (test_get_number (stream, "n-completed"), ==, n_completed);
  return n_completed;
}

static void
behind_submission_waits (TestFixture *fixture)
{
  g_autoptr (GpuStream) stream = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  guint64 n_completed;

  if (!test_has (fixture, GPU_CAPABILITIES_OUT_OF_ORDER))
    return;
  stream = test_stream (fixture, GPU_STREAM_FLAGS_OUT_OF_ORDER);
  buffer = test_buffer (fixture, SIZE);
  n_completed = fall_behind (stream, buffer);
  fill (stream, buffer);
  g_assert_cmpuint (test_get_number (stream, "n-completed"), >, n_completed);
}

static void
behind_unmap_does_not_wait (TestFixture *fixture)
{
  g_autoptr (GpuStream) stream = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuBuffer) mapped = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_OUT_OF_ORDER | GPU_CAPABILITIES_MAP))
    return;
  stream = test_stream (fixture, GPU_STREAM_FLAGS_OUT_OF_ORDER);
  buffer = test_buffer (fixture, SIZE);
  mapped = test_buffer_filled (fixture, SIZE, 1);
  for (guint i = 0; i < 3; i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GBytes) bytes = NULL;
      GpuMapping *mapping = gpu_stream_map (stream, GPU_MEMORY (mapped), GPU_MAP_FLAGS_READ, 0,
                                            SIZE, &error);
      guint64 n_completed;

      g_assert_no_error (error);
      n_completed = fall_behind (stream, buffer);
      if (i == 0)
        test_assert_ok (gpu_mapping_unmap (mapping, &error), error);
      else if (i == 1)
        bytes = gpu_mapping_get_bytes (mapping);
      g_object_unref (mapping);
      g_clear_pointer (&bytes, g_bytes_unref);
      g_assert_cmpuint (test_get_number (stream, "n-completed"), ==, n_completed);
    }
}

static void
try_behind (TestFixture *fixture, GpuStreamFlags flags)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = test_stream (fixture, flags);
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
  g_autoptr (TestHold) hold = NULL;
  guint8 data[SIZE] = { 0 };
  guint64 address = (guint64) (gsize) data;

  hold = test_hold (stream);
  for (guint i = 0; i < MAX_BEHIND; i++)
    fill (stream, buffer);
  g_assert_false (gpu_buffer_try_read_address (buffer, stream, 0, address, SIZE, &error));
  g_assert_no_error (error);
  g_assert_false (gpu_buffer_try_write_address (buffer, stream, 0, address, SIZE, &error));
  g_assert_no_error (error);
  g_assert_cmpuint (test_get_number (stream, "n-completed"), ==, 0);
  test_hold_release (hold);
  test_synchronize (stream);
}

static void
behind_try_does_not_wait (TestFixture *fixture)
{
  if (!test_can_hold (fixture))
    return;
  try_behind (fixture, GPU_STREAM_FLAGS_NONE);
  if (test_has (fixture, GPU_CAPABILITIES_OUT_OF_ORDER))
    try_behind (fixture, GPU_STREAM_FLAGS_OUT_OF_ORDER);
}

/* CUDA's driver would block the third of these writes until the kernel has ended. The page-locked
 * memory of an earlier mapping, as large as the limit of pending writes, does not count. */
static void
behind_write_does_not_wait (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuBuffer) large = NULL;
  g_autoptr (GpuMapping) mapping = NULL;
  g_autoptr (TestHold) hold = NULL;
  g_autofree guint8 *data = NULL;

  if (!test_can_hold (fixture))
    return;
  stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  buffer = test_buffer (fixture, N_WRITES * WRITE_SIZE);
  large = test_buffer (fixture, MAPPED_SIZE);
  mapping = gpu_buffer_map (large, fixture->stream, GPU_MAP_FLAGS_READ, 0, MAPPED_SIZE, NULL,
                            &error);
  g_assert_no_error (error);
  g_clear_object (&mapping);
  test_synchronize (fixture->stream);
  hold = test_hold (stream);
  for (gsize i = 0; i < N_WRITES; i++)
    {
      g_autofree guint8 *numbers = g_malloc (WRITE_SIZE);
      g_autoptr (GBytes) bytes = NULL;

      memset (numbers, (int) i + 1, WRITE_SIZE);
      bytes = g_bytes_new_take (g_steal_pointer (&numbers), WRITE_SIZE);
      test_assert_ok (gpu_stream_write (stream, GPU_MEMORY (buffer), i * WRITE_SIZE, bytes,
                                        &error), error);
    }
  g_assert_cmpuint (test_get_number (stream, "n-completed"), ==, 0);
  test_hold_release (hold);

  data = g_malloc (N_WRITES * WRITE_SIZE);
  test_assert_ok (gpu_buffer_read (buffer, stream, 0, data, N_WRITES * WRITE_SIZE, NULL, &error),
                  error);
  for (gsize i = 0; i < N_WRITES * WRITE_SIZE; i++)
    g_assert_cmpuint (data[i], ==, i / WRITE_SIZE + 1);
}

/* Returns bytes that differ between rows and between writes. */
static GBytes *
write_bytes (gsize index, gsize size)
{
  guint8 *bytes = g_malloc (size);

  for (gsize i = 0; i < size; i++)
    bytes[i] = (guint8) (index + i % 251);
  return g_bytes_new_take (bytes, size);
}

/* Both sides have gaps between the rows and the slices. CUDA's driver copies slice by slice. */
static void
behind_region_does_not_wait (TestFixture *fixture)
{
  const GpuExtent extent = REGION;
  const GpuLayout from = { 3, 0, 0, 1010, 1010 * 101 };
  GpuLayout to = { 0, 0, 0, 1100, 1100 * 100 + 8 };
  const gsize size = to.slice_pitch * extent.depth;
  const gsize from_size = 3 + from.slice_pitch * extent.depth;
  guint8 *expected = g_malloc (N_WRITES * size);
  g_autoptr (GBytes) all = g_bytes_new_take (expected, N_WRITES * size);
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (TestHold) hold = NULL;

  if (!test_can_hold (fixture))
    return;
  stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  buffer = test_buffer_filled (fixture, N_WRITES * size, 0xaa);
  memset (expected, 0xaa, N_WRITES * size);
  hold = test_hold (stream);
  for (gsize i = 0; i < N_WRITES; i++)
    {
      g_autoptr (GBytes) bytes = write_bytes (i, from_size);
      const guint8 *data = g_bytes_get_data (bytes, NULL);

      to.x = i * size;
      test_assert_ok (gpu_stream_write_region (stream, GPU_MEMORY (buffer), &to, bytes, &from,
                                               &extent, &error), error);
      for (gsize z = 0; z < extent.depth; z++)
        for (gsize y = 0; y < extent.height; y++)
          memcpy (expected + to.x + z * to.slice_pitch + y * to.row_pitch,
                  data + from.x + z * from.slice_pitch + y * from.row_pitch, extent.width);
    }
  g_assert_cmpuint (test_get_number (stream, "n-completed"), ==, 0);
  test_hold_release (hold);
  test_assert_content (buffer, all);
}

/* Writes the slices or the layers of an image. */
static void
write_image (TestFixture *fixture, GpuImageType type, const GpuExtent *extent)
{
  static const GpuImageFormat rgba8 = { GPU_CHANNEL_ORDER_RGBA, GPU_CHANNEL_TYPE_UINT8 };
  const GpuExtent texels = TEXELS;
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuImage) image = gpu_image_new (fixture->context, GPU_MEMORY_FLAGS_NONE, &rgba8, type,
                                              extent, &error);
  g_autoptr (GBytes) back = NULL;
  g_autoptr (TestHold) hold = NULL;

  g_assert_no_error (error);
  hold = test_hold (stream);
  for (gsize i = 0; i < N_LAYERS; i++)
    {
      const GpuLayout to = { .y = extent->depth == 1 ? i * texels.height : 0,
                             .z = extent->depth == 1 ? 0 : i };
      g_autoptr (GBytes) bytes = write_bytes (i, WRITE_SIZE);

      test_assert_ok (gpu_stream_write_region (stream, GPU_MEMORY (image), &to, bytes, NULL,
                                               &texels, &error), error);
    }
  g_assert_cmpuint (test_get_number (stream, "n-completed"), ==, 0);
  test_hold_release (hold);
  back = gpu_image_read_bytes (image, stream, NULL, NULL, NULL, &error);
  g_assert_no_error (error);
  for (gsize i = 0; i < N_LAYERS; i++)
    {
      g_autoptr (GBytes) bytes = write_bytes (i, WRITE_SIZE);
      g_autoptr (GBytes) layer = g_bytes_new_from_bytes (back, i * WRITE_SIZE, WRITE_SIZE);

      test_assert_bytes (layer, bytes);
    }
}

static void
behind_image_does_not_wait (TestFixture *fixture)
{
  const GpuExtent texels = TEXELS;

  if (!test_has (fixture, GPU_CAPABILITIES_IMAGES) || !test_can_hold (fixture))
    return;
  write_image (fixture, GPU_IMAGE_TYPE_IMAGE_3D, &(GpuExtent) { texels.width, texels.height,
                                                                N_LAYERS });
  write_image (fixture, GPU_IMAGE_TYPE_IMAGE_2D_ARRAY, &(GpuExtent) { texels.width, texels.height,
                                                                      N_LAYERS });
  write_image (fixture, GPU_IMAGE_TYPE_IMAGE_1D_ARRAY, &(GpuExtent) { texels.width, N_LAYERS *
                                                                      texels.height, 1 });
}

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
  test_add ("submission-waits", behind_submission_waits);
  test_add ("unmap-does-not-wait", behind_unmap_does_not_wait);
  test_add ("try-does-not-wait", behind_try_does_not_wait);
  test_add ("write-does-not-wait", behind_write_does_not_wait);
  test_add ("region-does-not-wait", behind_region_does_not_wait);
  test_add ("image-does-not-wait", behind_image_does_not_wait);
  return test_run ();
}
