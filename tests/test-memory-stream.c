/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* gpu_memory_add_stream(): memory that the program uses on a stream without the library stays
 * allocated until that use completes. The tests simulate the use by a kernel that blocks the stream
 * and does not access the memory. */
#include "config.h"

#include "test-pool-util.h"

#define SIZE (3 << 20)

static void
add (GpuBuffer *buffer, GpuStream *stream)
{
  g_autoptr (GError) error = NULL;

  test_assert_ok (gpu_memory_add_stream (GPU_MEMORY (buffer), stream, &error), error);
}

static guint64
allocated (TestFixture *fixture)
{
  return gpu_context_get_allocated_size (fixture->context);
}

/* Waits until @count returns at most @expected. */
static void
await_count (guint64 (*count) (TestFixture *), TestFixture *fixture, guint64 expected)
{
  gint64 deadline = g_get_monotonic_time () + TEST_DEADLINE * G_USEC_PER_SEC;

  while (count (fixture) > expected && g_get_monotonic_time () < deadline)
    g_usleep (200);
  g_assert_cmpuint (count (fixture), ==, expected);
}

/* Fails unless a dropped buffer stays allocated until @hold ends. Frees @hold. */
static void
assert_freed_after (TestFixture *fixture, TestHold *hold, guint64 before)
{
  g_usleep (2000);
  g_assert_cmpuint (allocated (fixture), ==, before + SIZE);
  test_hold_release (hold);
  await_count (allocated, fixture, before);
  test_hold_free (hold);
}

/* Three cases: the stream is added to a buffer, whose last reference is dropped; the same, but the
 * buffer is released first; the stream is added to a slice, which is dropped before the buffer. In
 * each case, the memory stays allocated until the earlier work of the stream has completed. */
static void
stream_freed_after_work (TestFixture *fixture)
{
  g_autoptr (GpuStream) stream = NULL;

  if (!test_can_hold (fixture))
    return;

  stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);

  for (guint i = 0; i < 3; i++)
    {
      g_autoptr (GError) error = NULL;
      TestHold *hold = test_hold (stream);
      guint64 before = allocated (fixture);
      GpuBuffer *buffer = test_buffer (fixture, SIZE);
      g_autoptr (GpuBuffer) slice = gpu_buffer_slice (buffer, 4096, 4096, &error);

      g_assert_no_error (error);
      add (i == 2 ? slice : buffer, stream);
      g_clear_object (&slice);
      if (i == 1)
        gpu_memory_release (GPU_MEMORY (buffer));
      g_object_unref (buffer);
      assert_freed_after (fixture, hold, before);
    }
}

/* An idle stream does not delay the free. */
static void
stream_idle (TestFixture *fixture)
{
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  guint64 before = allocated (fixture);
  GpuBuffer *buffer = test_buffer (fixture, SIZE);

  add (buffer, stream);
  add (buffer, stream);
  g_object_unref (buffer);
  g_assert_cmpuint (allocated (fixture), ==, before);
}

/* A stream was added to a buffer with gpu_memory_add_stream(). Another stream reuses the memory of
 * the buffer only after the work of the added stream. If the pool reuses the GpuBuffer object, the
 * object has no added streams any more. */
static void
check_pooled_memory (TestFixture *fixture, GpuMemoryPool *pool)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) first = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuStream) second = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuStream) third = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  TestHold *hold = test_hold (second);
  GpuBuffer *buffer;
  guint64 handle;

  gpu_memory_pool_set_limit (pool, 4 << 20);
  buffer = test_pool_take (pool, SIZE, first);
  handle = gpu_memory_get_native_handle (GPU_MEMORY (buffer));
  add (buffer, second);
  g_object_unref (buffer);
  buffer = test_pool_take (pool, SIZE, third);
  g_assert_cmpuint (gpu_memory_get_native_handle (GPU_MEMORY (buffer)), ==, handle);
  g_assert_false (gpu_stream_is_idle (third, &error));
  g_assert_no_error (error);
  test_hold_release (hold);
  test_synchronize (third);
  test_hold_free (hold);

  hold = test_hold (second);
  g_object_unref (buffer);
  buffer = test_pool_take (pool, SIZE, first);
  g_assert_cmpuint (gpu_memory_get_native_handle (GPU_MEMORY (buffer)), ==, handle);
  test_synchronize (first);
  g_object_unref (buffer);
  test_hold_free (hold);
}

static void
stream_pooled_memory (TestFixture *fixture)
{
  if (!test_can_hold (fixture))
    return;

  test_pool_each_kind (fixture, check_pooled_memory);
}

/* Work that the program submits to the native stream counts as a use, even if the GpuStream only
 * borrows the native stream and is dropped before the memory. */
static void
stream_borrowed_stream (TestFixture *fixture)
{
  if (!test_can_hold (fixture))
    return;

  if (g_str_equal (gpu_device_get_backend (fixture->device), "host"))
    {
      g_test_skip ("the host back end has no native streams");
      return;
    }

  for (guint i = 0; i < 2; i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GpuStream) owner = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
      g_autoptr (GpuStream) borrowed =
        gpu_stream_new_wrapped (fixture->context, gpu_stream_get_native_handle (owner),
                                GPU_WRAP_MODE_BORROW, &error);
      TestHold *hold = test_hold (owner);
      guint64 before = allocated (fixture);
      GpuBuffer *buffer = test_buffer (fixture, SIZE);

      g_assert_no_error (error);
      add (buffer, borrowed);
      if (i == 1)
        g_clear_object (&borrowed);
      g_object_unref (buffer);
      assert_freed_after (fixture, hold, before);
    }
}

static guint64
count_timelines (TestFixture *fixture G_GNUC_UNUSED)
{
  g_autoptr (GVariant) live = gpu_debug_list_live_objects ();
  guint n = 0;

  g_variant_lookup (live, "timeline", "u", &n);
  return n;
}

/* After a pool has recycled the memory, or the buffer was spilled, the memory no longer keeps the
 * added stream alive. */
static void
check_does_not_keep_stream (TestFixture *fixture, GpuMemoryPool *pool)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) spilled = test_buffer (fixture, SIZE);
  guint64 before;

  g_object_unref (test_pool_take (pool, SIZE, NULL));
  /* The first restore creates an internal stream. */
  test_assert_ok (gpu_buffer_spill (spilled, NULL, &error), error);
  test_assert_ok (gpu_buffer_unspill (spilled, NULL, &error), error);
  before = count_timelines (fixture);

  for (guint i = 0; i < 10; i++)
    {
      g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
      GpuBuffer *pooled = test_pool_take (pool, SIZE, NULL);

      add (pooled, stream);
      g_object_unref (pooled);
      add (spilled, stream);
      test_assert_ok (gpu_buffer_spill (spilled, NULL, &error), error);
      g_clear_object (&stream);

      await_count (count_timelines, fixture, before);
      test_assert_ok (gpu_buffer_unspill (spilled, NULL, &error), error);
      test_synchronize (fixture->stream);
    }
}

static void
stream_does_not_keep_stream (TestFixture *fixture)
{
  test_pool_each_kind (fixture, check_does_not_keep_stream);
}

static void
stream_errors (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuContext) context = gpu_context_new (fixture->device, GPU_CONTEXT_FLAGS_NONE,
                                                    &error);
  g_autoptr (GpuStream) foreign = gpu_context_get_default_stream (context);
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, 64);

  g_assert_no_error (error);
  g_assert_false (gpu_memory_add_stream (GPU_MEMORY (buffer), foreign, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_memory_add_stream", "contexts");
  gpu_memory_release (GPU_MEMORY (buffer));
  g_assert_false (gpu_memory_add_stream (GPU_MEMORY (buffer), fixture->stream, &error));
  test_assert_gpu_error (error, GPU_ERROR_RELEASED, "gpu_memory_add_stream");
}

static void
assert_wait_fails (GpuBuffer *buffer)
{
  g_autoptr (GError) error = NULL;

  g_assert_false (gpu_memory_wait (GPU_MEMORY (buffer), NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_FAILED, "gpu_memory_wait", "on purpose");
}

/* A wait for the memory fails with the error of the last use, even if the library had already
 * detected that the use has ended. */
static void
stream_wait_fails (TestFixture *fixture)
{
  const guint8 value = 7;

  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    return;

  for (guint i = 0; i < 2; i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
      g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
      g_autoptr (GpuEvent) gate = test_gate (fixture, stream);

      test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (buffer), 0, SIZE, &value, 1, &error),
                      error);
      test_assert_ok (gpu_event_fail (gate, "on purpose", &error), error);

      if (i == 1)
        {
          g_assert_false (gpu_stream_synchronize (stream, NULL, &error));
          test_assert_gpu_error (error, GPU_ERROR_FAILED, "on purpose");
        }

      assert_wait_fails (buffer);
      assert_wait_fails (buffer);
      test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (buffer), 0, SIZE, &value, 1, &error),
                      error);
      test_assert_ok (gpu_memory_wait (GPU_MEMORY (buffer), NULL, &error), error);
    }
}

/* A wait for the memory completes after the work of both streams, and reports the error of the
 * stream that failed. A cancelled wait ends at once. */
static void
stream_wait_async (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  GpuStream *streams[2];
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
  g_autoptr (GpuEvent) gate = NULL;
  g_autoptr (GCancellable) cancellable = g_cancellable_new ();
  g_autoptr (GAsyncResult) waited = NULL;
  g_autoptr (GAsyncResult) cancelled = NULL;
  g_autoptr (GAsyncResult) again = NULL;

  gpu_memory_wait_async (GPU_MEMORY (buffer), NULL, test_take_result, &again);
  test_assert_ok (gpu_memory_wait_finish (GPU_MEMORY (buffer), test_await (&again), &error), error);
  g_clear_object (&again);

  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    return;

  gate = gpu_event_new_user (fixture->context, &error);
  g_assert_no_error (error);

  for (guint i = 0; i < 2; i++)
    {
      streams[i] = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
      test_assert_ok (gpu_stream_wait_event (streams[i], gate, &error), error);
      add (buffer, streams[i]);
    }

  gpu_memory_wait_async (GPU_MEMORY (buffer), NULL, test_take_result, &waited);
  gpu_memory_wait_async (GPU_MEMORY (buffer), cancellable, test_take_result, &cancelled);
  g_cancellable_cancel (cancellable);
  g_assert_false (gpu_memory_wait_finish (GPU_MEMORY (buffer), test_await (&cancelled), &error));
  g_assert_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
  g_clear_error (&error);
  g_assert_null (waited);

  test_assert_ok (gpu_event_fail (gate, "on purpose", &error), error);
  g_assert_false (gpu_memory_wait_finish (GPU_MEMORY (buffer), test_await (&waited), &error));
  test_assert_gpu_error (error, GPU_ERROR_FAILED, "gpu_memory_wait_async", "on purpose");
  g_clear_object (&streams[0]);
  g_clear_object (&streams[1]);

  gpu_memory_release (GPU_MEMORY (buffer));
  gpu_memory_wait_async (GPU_MEMORY (buffer), NULL, test_take_result, &again);
  g_assert_false (gpu_memory_wait_finish (GPU_MEMORY (buffer), test_await (&again), &error));
  test_assert_gpu_error (error, GPU_ERROR_RELEASED, "gpu_memory_wait_async");
}

/* The error names the devices of both contexts and the size of the memory, and no addresses. */
static void
assert_mismatch (TestFixture *fixture, GError **place, const char *what)
{
  g_autoptr (GError) error = g_steal_pointer (place);
  const char *id = gpu_device_get_id (fixture->device);
  g_autofree char *devices = g_strdup_printf ("different contexts, on %s and on %s", id, id);

  g_assert_nonnull (error);
  g_assert_null (strstr (error->message, "0x"));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, what, devices);
}

static void
stream_mismatch (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuContext) context = gpu_context_new (fixture->device, GPU_CONTEXT_FLAGS_NONE,
                                                    &error);
  g_autoptr (GpuStream) stream = gpu_context_get_default_stream (context);
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, 1000);
  g_autoptr (GpuMemoryPool) pool = gpu_memory_pool_new (fixture->context, GPU_MEMORY_POOL_AUTOMATIC,
                                                        GPU_MEMORY_FLAGS_NONE, &error);
  GpuMemoryBlock *block;
  const guint8 pattern = 1;

  g_assert_no_error (error);
  g_assert_false (gpu_stream_fill (stream, GPU_MEMORY (buffer), 0, 1000, &pattern, 1, &error));
  assert_mismatch (fixture, &error, "gpu_stream_fill: the memory of 1000 bytes");
  g_assert_false (gpu_memory_add_stream (GPU_MEMORY (buffer), stream, &error));
  assert_mismatch (fixture, &error, "gpu_memory_add_stream: the memory of 1000 bytes");
  block = gpu_memory_pool_alloc_block (pool, 100, NULL, NULL);
  if (block == NULL)
    return;
  g_assert_false (gpu_memory_block_add_stream (block, stream, &error));
  assert_mismatch (fixture, &error, "gpu_memory_block_add_stream: the block");
  gpu_memory_block_unref (block);
}

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
  test_add ("freed-after-work", stream_freed_after_work);
  test_add ("idle", stream_idle);
  test_add ("pooled-memory", stream_pooled_memory);
  test_add ("borrowed-stream", stream_borrowed_stream);
  test_add ("does-not-keep-stream", stream_does_not_keep_stream);
  test_add ("errors", stream_errors);
  test_add ("wait-fails", stream_wait_fails);
  test_add ("wait-async", stream_wait_async);
  test_add ("mismatch", stream_mismatch);
  return test_run ();
}
