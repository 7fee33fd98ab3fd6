/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The library adds barriers to out-of-order streams only where they are needed. A wrapper around
 * the real back end counts the barriers. */
#include "config.h"

#include "gpumem/device/gpu-context-private.h"
#include "test-util.h"

#define SIZE 4096

static GpuBackend counting;
static GpuStreamOps counting_stream;
static const GpuBackend *real;
static guint n_barriers;

static gboolean
count_barrier (GpuNativeStream *stream, GpuNativeEvent **event, GError **error)
{
  n_barriers++;
  return real->stream->barrier (stream, event, error);
}

static gboolean
refuse_wait (GpuNativeStream *stream, GpuNativeEvent *const *events, guint n_events,
             GpuNativeEvent **event, GError **error)
{
  g_set_error_literal (error, GPU_ERROR, GPU_ERROR_OUT_OF_HOST_MEMORY, "no wait");
  return FALSE;
}

/* Creates an out-of-order stream in a context that counts barriers. */
static GpuStream *
begin (TestFixture *fixture)
{
  GpuNativeContext *context = _gpu_context_get_native (fixture->context);

  real = context->backend;
  counting_stream = *real->stream;
  counting_stream.barrier = count_barrier;
  counting = *real;
  counting.stream = &counting_stream;
  context->backend = &counting;
  n_barriers = 0;
  return test_stream (fixture, GPU_STREAM_FLAGS_OUT_OF_ORDER);
}

/* Ends a test: restores the real back end of the context. Synchronizes the stream before, so that
 * no other thread uses the back end meanwhile. */
static void
end (TestFixture *fixture, GpuStream *stream)
{
  test_synchronize (stream);
  g_object_unref (stream);
  _gpu_context_get_native (fixture->context)->backend = real;
}

/* Maps memory and drops the mapping, without a wait for the unmap. */
static void
unmap (TestFixture *fixture, GpuMemoryFlags flags)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = gpu_buffer_new (fixture->context, flags, SIZE, &error);
  GpuStream *stream = begin (fixture);
  GpuMapping *mapping;

  g_assert_no_error (error);
  mapping = gpu_stream_map (stream, GPU_MEMORY (buffer), GPU_MAP_FLAGS_READ, 0, SIZE, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (n_barriers, ==, 0);
  g_object_unref (mapping);
  g_assert_cmpuint (n_barriers, ==, 1);
  end (fixture, stream);
}

static void
barrier_unmap (TestFixture *fixture)
{
  if (!test_has (fixture, GPU_CAPABILITIES_OUT_OF_ORDER | GPU_CAPABILITIES_MAP))
    return;
  unmap (fixture, GPU_MEMORY_FLAGS_NONE);
  unmap (fixture, GPU_MEMORY_FLAGS_UNTRACKED);
}

static void
fill (GpuStream *stream, GpuBuffer *buffer)
{
  g_autoptr (GError) error = NULL;

  test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (buffer), 0, SIZE, "b", 1,
                                   &error), error);
}

/* If a wait for events fails, the driver may have enqueued a part of the wait. The last barrier
 * then no longer orders later work, so the next dependent work needs a new barrier. */
static void
barrier_failed_wait (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuStream) other = NULL;
  g_autoptr (GpuEvent) gate = NULL;
  g_autoptr (GpuEvent) behind = NULL;
  GpuStream *stream;

  if (!test_has (fixture, GPU_CAPABILITIES_OUT_OF_ORDER | GPU_CAPABILITIES_USER_EVENTS))
    return;
  buffer = test_buffer (fixture, SIZE);
  other = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  gate = test_gate (fixture, other);
  behind = test_record (other);
  stream = begin (fixture);
  fill (stream, buffer);
  fill (stream, buffer);
  test_assert_ok (gpu_stream_barrier (stream, &error), error);
  g_assert_cmpuint (n_barriers, ==, 2);

  counting_stream.wait = refuse_wait;
  g_assert_false (gpu_stream_wait_event (stream, behind, &error));
  test_assert_gpu_error (error, GPU_ERROR_OUT_OF_HOST_MEMORY, "no wait");
  fill (stream, buffer);
  g_assert_cmpuint (n_barriers, ==, 3);
  test_open (gate);
  test_synchronize (other);
  end (fixture, stream);
}

static void
assert_pending (GpuEvent *event)
{
  g_autoptr (GError) error = NULL;

  g_assert_false (gpu_event_wait_timeout (event, 20000, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_TIMED_OUT);
}

/* Reads memory that a stream writes later. A kernel blocks the stream until this read is done.
 * ThreadSanitizer does not know the kernel, and would report a race. */
__attribute__ ((no_sanitize ("thread"))) static guint8
peek (const volatile guint8 *data)
{
  return data[0];
}

/* An event completes only after all earlier work has completed. Work behind a barrier runs only
 * after all work before the barrier has completed. */
static void
barrier_orders_work (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuEvent) held = NULL;
  g_autoptr (GpuEvent) filled = NULL;
  g_autoptr (GBytes) bytes = NULL;
  volatile guint8 *data;
  TestHold *hold;

  if (!test_has (fixture, GPU_CAPABILITIES_OUT_OF_ORDER) || !test_can_hold (fixture))
    return;
  data = g_aligned_alloc0 (1, SIZE, SIZE);
  bytes = g_bytes_new_with_free_func ((gpointer) data, SIZE, g_aligned_free, (gpointer) data);
  buffer = gpu_buffer_new_for_host_bytes (fixture->context, GPU_MEMORY_FLAGS_NONE, bytes, &error);
  g_assert_no_error (error);
  stream = test_stream (fixture, GPU_STREAM_FLAGS_OUT_OF_ORDER);
  hold = test_hold (stream);
  held = test_record (stream);
  assert_pending (held);
  test_assert_ok (gpu_stream_barrier (stream, &error), error);
  fill (stream, buffer);
  filled = test_record (stream);
  assert_pending (filled);
  g_assert_cmpuint (peek (data), ==, 0);
  test_hold_release (hold);
  test_synchronize (stream);
  test_hold_free (hold);
}

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
  test_add ("unmap", barrier_unmap);
  test_add ("failed-wait", barrier_failed_wait);
  test_add ("orders-work", barrier_orders_work);
  return test_run ();
}
