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

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
  test_add ("submission-waits", behind_submission_waits);
  test_add ("unmap-does-not-wait", behind_unmap_does_not_wait);
  test_add ("try-does-not-wait", behind_try_does_not_wait);
  test_add ("write-does-not-wait", behind_write_does_not_wait);
  return test_run ();
}
