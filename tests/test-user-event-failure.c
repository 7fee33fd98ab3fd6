/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* User events that fail, and streams that wait for work behind such events. The tests check which
 * waiters get the error, and the order of all other work. */
#include "config.h"

#include "test-allocator-util.h"

#include <gpumem/gpumem-bindings.h>

#define SIZE 4096
/* PoCL locks events in pairs. ThreadSanitizer loses the stacks of 200 locks, and then reports the
 * order that tests/tsan.supp permits. */
#ifdef __SANITIZE_THREAD__
#define MANY 20
#else
#define MANY 200
#endif

static void
fill (GpuStream *stream, GpuBuffer *buffer, guint8 value)
{
  g_autoptr (GError) error = NULL;

  test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (buffer), 0, SIZE, &value, 1, &error),
                  error);
}

static void
fail (GpuEvent *event, const char *message)
{
  g_autoptr (GError) error = NULL;

  test_assert_ok (gpu_event_fail (event, message, &error), error);
}

/* Checks that the work submitted to @stream is pending. */
static void
assert_waits (GpuStream *stream)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuEvent) event = test_record (stream);

  g_assert_false (gpu_event_wait_timeout (event, 20000, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_TIMED_OUT);
}

/* Stream A writes, waits for an event and writes again. The event fails while the first write is
 * blocked. A read on stream B then fails. A write on stream B always runs after the first write of
 * A. The write succeeds or fails, because drivers detect the failure of the event at different
 * times. If it fails, stream B and stream C, which waits for B, report the reason. */
static void
overtaken (TestFixture *fixture, GpuStreamFlags flags)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) a = test_stream (fixture, flags);
  g_autoptr (GpuStream) b = test_stream (fixture, flags);
  g_autoptr (GpuStream) c = test_stream (fixture, flags);
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE, 1);
  g_autoptr (GpuEvent) gate = test_gate (fixture, a);
  g_autoptr (GpuEvent) event = NULL;
  g_autoptr (GpuEvent) written = NULL;
  guint8 data[SIZE] = { 0 };

  fill (a, buffer, 2);
  event = test_gate (fixture, a);
  fill (a, buffer, 3);
  fail (event, "overtaken");

  g_assert_null (gpu_stream_read_bytes (b, GPU_MEMORY (buffer), 0, SIZE, &error));
  test_assert_gpu_error (error, GPU_ERROR_FAILED, "last write", "overtaken");
  fill (b, buffer, 5);
  assert_waits (b);
  written = test_record (b);
  test_assert_ok (gpu_stream_wait_event (c, written, &error), error);
  test_open (gate);

  if (gpu_stream_synchronize (b, NULL, &error))
    {
      test_assert_ok (gpu_buffer_read (buffer, b, 0, data, SIZE, NULL, &error), error);
      test_assert_value (data, 5, SIZE);
      test_synchronize (c);
    }
  else
    {
      test_assert_gpu_error (error, GPU_ERROR_FAILED, "overtaken");
      g_assert_false (gpu_stream_synchronize (c, NULL, &error));
      test_assert_gpu_error (error, GPU_ERROR_FAILED, "overtaken");
    }

  g_assert_false (gpu_stream_synchronize (a, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_FAILED, "overtaken");
}

/* A failure of a stream that has been finalized must not fail the context until its memory is
 * freed: no new work can end that failure. */
static void
failure_of_context (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE, 1);
  GpuStream *stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  guint8 data[SIZE];

  if (test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    {
      g_autoptr (GpuEvent) gate = test_gate (fixture, stream);

      fill (stream, buffer, 2);
      fail (gate, "left behind");

      for (guint i = 0; i < 3; i++)
        {
          g_assert_false (gpu_context_synchronize (fixture->context, &error));
          test_assert_gpu_error (error, GPU_ERROR_FAILED, "gpu_context_synchronize",
                                 "last work of a stream", "left behind");
          if (i == 1)
            g_clear_object (&stream);
        }

      for (guint i = 0; i < 2; i++)
        test_assert_ok (gpu_context_synchronize (fixture->context, &error), error);
      g_assert_false (gpu_buffer_read (buffer, NULL, 0, data, SIZE, NULL, &error));
      test_assert_gpu_error (error, GPU_ERROR_FAILED, "left behind");
    }
  g_clear_object (&stream);
}

static void
failure_later_writer (TestFixture *fixture)
{
  if (test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    overtaken (fixture, GPU_STREAM_FLAGS_NONE);
}

static void
failure_later_writer_out_of_order (TestFixture *fixture)
{
  if (test_has (fixture, GPU_CAPABILITIES_USER_EVENTS | GPU_CAPABILITIES_OUT_OF_ORDER))
    overtaken (fixture, GPU_STREAM_FLAGS_OUT_OF_ORDER);
}

/* Returns whether the work before @event ends within two seconds. */
static gboolean
ends_soon (GpuEvent *event)
{
  g_autoptr (GError) error = NULL;

  return gpu_event_wait_timeout (event, 2 * G_USEC_PER_SEC, NULL, &error)
         || !g_error_matches (error, GPU_ERROR, GPU_ERROR_TIMED_OUT);
}

/* Ends the test of a driver that fails a write only after the earlier work: its streams run to the
 * end once the gates are open. */
static void
end_late_failure (GpuStream *a, GpuStream *b, GpuEvent *gate, GpuEvent *later)
{
  g_autoptr (GError) error = NULL;

  test_open (gate);
  test_open (later);
  test_synchronize (a);
  g_assert_false (gpu_stream_synchronize (b, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_FAILED, "earlier use");
  g_test_skip ("the driver fails work only after the work for which it waits");
}

/* A write that fails ends before an earlier write and an earlier read of another stream, for which
 * it should have waited. The memory still counts as in use: the next write waits for both, and the
 * release waits for the write. */
static void
failure_earlier_use (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) a = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuStream) b = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuStream) c = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE, 1);
  GpuBuffer *dropped = test_buffer_filled (fixture, SIZE, 1);
  g_autoptr (GpuBuffer) copied = test_buffer_filled (fixture, SIZE, 1);
  g_autoptr (GpuEvent) gate = NULL, later = NULL, event = NULL, ended = NULL;
  g_autoptr (GBytes) content = NULL, copy = NULL;
  guint64 size = gpu_context_get_allocated_size (fixture->context);

  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    {
      g_object_unref (dropped);
      return;
    }

  gate = test_gate (fixture, a);
  fill (a, buffer, 2);
  fill (a, dropped, 2);
  later = test_gate (fixture, a);
  test_assert_ok (gpu_stream_copy (a, GPU_MEMORY (copied), 0, GPU_MEMORY (buffer), 0, SIZE, &error),
                  error);
  event = test_gate (fixture, b);
  fill (b, buffer, 3);
  fill (b, dropped, 3);
  ended = test_record (b);
  fail (event, "earlier use");

  if (!ends_soon (ended))
    {
      g_object_unref (dropped);
      end_late_failure (a, b, gate, later);
      return;
    }

  g_assert_false (gpu_stream_synchronize (b, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_FAILED, "earlier use");

  g_object_unref (dropped);
  fill (c, buffer, 4);
  assert_waits (c);
  g_assert_cmpuint (gpu_context_get_allocated_size (fixture->context), ==, size);

  test_open (gate);
  assert_waits (c);
  test_open (later);
  test_synchronize (a);
  test_synchronize (c);
  content = test_content (buffer);
  test_assert_value (g_bytes_get_data (content, NULL), 4, SIZE);
  copy = test_content (copied);
  test_assert_value (g_bytes_get_data (copy, NULL), 2, SIZE);
}

/* Two streams write the same buffer by turns behind many pending user events. The writes are
 * submitted within seconds, and executed in order. The last event fails: the writes behind the
 * other events are executed, and both streams report the failure. */
static void
failure_many_events (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) a = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuStream) b = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE, 1);
  g_autoptr (GPtrArray) events = g_ptr_array_new_with_free_func (g_object_unref);
  g_autoptr (GpuBuffer) last = test_buffer_filled (fixture, SIZE, 1);
  gint64 start = g_get_monotonic_time ();
  g_autoptr (GBytes) content = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    return;

  for (guint i = 0; i < MANY; i++)
    {
      g_ptr_array_add (events, test_gate (fixture, a));
      fill (a, i < MANY - 1 ? buffer : last, i);
      fill (b, i < MANY - 1 ? buffer : last, i + 1);
    }

  for (guint i = 0; i < MANY - 1; i++)
    test_open (events->pdata[i]);

  content = test_content (buffer);
  test_assert_value (g_bytes_get_data (content, NULL), MANY - 1, SIZE);

  fail (events->pdata[MANY - 1], "the last event");
  g_assert_false (gpu_stream_synchronize (a, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_FAILED, "the last event");
  g_clear_error (&error);
  g_assert_false (gpu_stream_synchronize (b, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_FAILED, "the last event");
  g_assert_cmpint (g_get_monotonic_time () - start, <, TEST_DEADLINE * G_USEC_PER_SEC);
}

/* Waits for @event, which fails because of E1 or E2. */
static void
assert_named (GpuEvent *event)
{
  g_autoptr (GError) error = NULL;

  g_assert_false (gpu_event_wait (event, NULL, &error));
  g_assert_true (g_error_matches (error, GPU_ERROR, GPU_ERROR_FAILED));
  g_assert_true (strstr (error->message, "E1") != NULL || strstr (error->message, "E2") != NULL);
}

/* Stream A waits for two events. The first event fails, so with most drivers the work behind both
 * ends while the second event is pending. Before that, stream A waits for the second event again.
 * The work behind this wait, and that of a stream that waits for it, fails with the second event at
 * the latest, and the error names the event. */
static void
failure_waited_again (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) a = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuStream) b = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE, 1);
  g_autoptr (GpuBuffer) other = test_buffer_filled (fixture, SIZE, 1);
  g_autoptr (GpuEvent) first = NULL, second = NULL, early = NULL, late = NULL, last = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    return;

  first = test_gate (fixture, a);
  fill (a, buffer, 2);
  second = test_gate (fixture, a);
  fill (a, buffer, 3);
  early = test_record (a);
  g_assert_cmpint (gpu_event_query (early, NULL), ==, GPU_EVENT_STATUS_PENDING);

  fail (first, "E1");
  test_assert_ok (gpu_stream_wait_event (a, second, &error), error);
  fill (a, other, 4);
  late = test_record (a);
  ends_soon (early);

  if (gpu_stream_wait_event (b, late, NULL))
    {
      fill (b, buffer, 5);
      last = test_record (b);
    }

  fail (second, "E2");
  assert_named (early);
  assert_named (late);
  if (last != NULL)
    assert_named (last);
}

/* Stream A writes behind one event, and again behind a second one, which fails first. Stream B must
 * wait for both writes. Then the first event fails: stream B reports an event that has failed. On
 * drivers that still know that the second write had ended, it reports the first event. */
static void
failure_earlier_cause (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) a = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuStream) b = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE, 1);
  g_autoptr (GpuBuffer) other = test_buffer_filled (fixture, SIZE, 1);
  g_autoptr (GpuEvent) first = NULL, second = NULL, one = NULL, two = NULL, done = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    return;

  first = test_gate (fixture, a);
  fill (a, other, 2);
  one = test_record (a);
  g_assert_cmpint (gpu_event_query (one, NULL), ==, GPU_EVENT_STATUS_PENDING);
  second = test_gate (fixture, a);
  fill (a, buffer, 3);
  two = test_record (a);
  g_assert_cmpint (gpu_event_query (two, NULL), ==, GPU_EVENT_STATUS_PENDING);

  fail (second, "E2");
  g_usleep (50000);                     /* PoCL fails the work on another thread */
  fill (b, buffer, 4);
  done = test_record (b);
  g_assert_false (gpu_event_wait_timeout (done, 20000, NULL, &error));
  g_clear_error (&error);
  fail (first, "E1");

  if (test_is_pocl (fixture))
    {
      g_assert_false (gpu_event_wait (done, NULL, &error));
      test_assert_gpu_error (error, GPU_ERROR_FAILED, "E1");
    }
  else
    assert_named (done);
}

/* Work submitted after the failure also counts as failed until a wait has reported the failure,
 * because a wait reports one result for all work that it covers. */
static void
fail_and_go_on (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) a = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuStream) b = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE, 1);
  g_autoptr (GpuEvent) event = test_gate (fixture, a);
  guint8 data[SIZE] = { 0 };

  fill (a, buffer, 2);
  fail (event, "go on");
  fill (a, buffer, 3);
  g_assert_false (gpu_buffer_read (buffer, b, 0, data, SIZE, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_FAILED, "last write", "go on");
  g_assert_false (gpu_stream_synchronize (a, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_FAILED, "go on");

  /* The stream reported the last write as failed, so a read of the memory must fail. */
  g_assert_false (gpu_buffer_read (buffer, b, 0, data, SIZE, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_FAILED, "last write", "go on");
  fill (a, buffer, 4);
  test_assert_ok (gpu_buffer_read (buffer, b, 0, data, SIZE, NULL, &error), error);
  test_assert_value (data, 4, SIZE);
}

static void
failure_work_after_failure (TestFixture *fixture)
{
  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    return;
  for (guint i = 0; i < 100; i++)
    fail_and_go_on (fixture);
}

/* --- every waiter, with any result of the driver ---------------------------------------------- */

/* Checks the results of four operations behind a failed event. The first three are queried before
 * the failure, so each of them has a fence. The last operation gets its fence after the failure. */
static void
every_point (TestFixture *fixture, GpuStreamFlags flags)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = test_stream (fixture, flags);
  g_autoptr (GpuStream) other = test_stream (fixture, flags);
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE, 1);
  g_autoptr (GpuEvent) before = NULL;
  g_autoptr (GpuEvent) gate = NULL;
  GpuEvent *events[4];

  fill (stream, buffer, 2);
  before = test_record (stream);
  gate = test_gate (fixture, stream);
  for (guint i = 0; i < G_N_ELEMENTS (events); i++)
    {
      fill (stream, buffer, 3 + i);
      events[i] = test_record (stream);
      if (i < 3)
        g_assert_cmpint (gpu_event_query (events[i], NULL), ==, GPU_EVENT_STATUS_PENDING);
    }
  fail (gate, "all of it");

  test_assert_ok (gpu_event_wait (before, NULL, &error), error);
  g_assert_false (gpu_stream_wait_event (other, events[1], &error));
  test_assert_gpu_error (error, GPU_ERROR_FAILED, "all of it");
  for (guint i = 0; i < G_N_ELEMENTS (events); i++)
    {
      g_assert_false (gpu_event_wait (events[i], NULL, &error));
      test_assert_gpu_error (error, GPU_ERROR_FAILED, "all of it");
      g_object_unref (events[i]);
    }
  fill (stream, buffer, 8);
  test_synchronize (stream);
}

static void
failure_every_point (TestFixture *fixture)
{
  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    return;
  every_point (fixture, GPU_STREAM_FLAGS_NONE);
  if ((gpu_device_get_capabilities (fixture->device) & GPU_CAPABILITIES_OUT_OF_ORDER) != 0)
    every_point (fixture, GPU_STREAM_FLAGS_OUT_OF_ORDER);
}

typedef struct
{
  GpuBuffer *buffer;
  GpuStream *stream;
} Reader;

static gpointer
read_and_fail (gpointer data)
{
  Reader *reader = data;
  g_autoptr (GError) error = NULL;
  guint8 content[SIZE];

  g_assert_false (gpu_buffer_read (reader->buffer, reader->stream, 0, content, SIZE, NULL,
                                   &error));
  test_assert_gpu_error (error, GPU_ERROR_FAILED, "blocked");
  return NULL;
}

/* Makes a blocking call that waits for the event. */
static void
blocked (TestFixture *fixture, GpuStreamFlags flags)
{
  g_autoptr (GpuStream) stream = test_stream (fixture, flags);
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE, 1);
  g_autoptr (GpuEvent) gate = test_gate (fixture, stream);
  guint64 n_submitted = test_get_number (stream, "n-submitted");
  Reader reader = { buffer, stream };
  GThread *thread = g_thread_new ("read", read_and_fail, &reader);

  while (test_get_number (stream, "n-submitted") == n_submitted)
    g_thread_yield ();
  fail (gate, "blocked");
  g_thread_join (thread);
}

static void
failure_blocked_call (TestFixture *fixture)
{
  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    return;
  blocked (fixture, GPU_STREAM_FLAGS_NONE);
  if ((gpu_device_get_capabilities (fixture->device) & GPU_CAPABILITIES_OUT_OF_ORDER) != 0)
    blocked (fixture, GPU_STREAM_FLAGS_OUT_OF_ORDER);
}

/* --- failures recorded with memory ---------------------------------------------------------- */

static void
assert_remembered (GError **error, const char *function)
{
  g_assert_nonnull (*error);
  g_assert_true (g_str_has_prefix ((*error)->message, function));
  test_assert_gpu_error (*error, GPU_ERROR_FAILED, "last write", "lost bytes");
}

/* Submits a fill of @buffer that waits for a user event, and then fails the event with @message.
 * Queries the result of the fill only if @asks is TRUE. */
static void
lose (TestFixture *fixture, GpuStream *stream, GpuBuffer *buffer, const char *message,
      gboolean asks)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuEvent) gate = test_gate (fixture, stream);

  fill (stream, buffer, 2);
  fail (gate, message);
  if (!asks)
    return;
  g_assert_false (gpu_stream_synchronize (stream, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_FAILED, message);
}

/* Asserts that operations fail if they are ordered like writes but do not change the content. If
 * such an operation succeeded, the library would treat the content as defined again. */
static void
assert_order_alone_refused (GpuStream *stream, GpuBuffer *buffer)
{
  g_autoptr (GError) error = NULL;
  const gssize shape[] = { SIZE };
  GpuDType *bytes = gpu_dtype_get_number (GPU_DTYPE_KIND_UINT, 1);
  g_autoptr (GpuArray) array = gpu_array_new_for_memory (GPU_MEMORY (buffer), 0, bytes, shape, 1,
                                                         NULL, 0, &error);
  GpuMemory *memory = GPU_MEMORY (buffer);

  g_assert_no_error (error);
  g_assert_false (gpu_stream_wait_array (stream, array, &error));
  assert_remembered (&error, "gpu_stream_wait_array");
  g_assert_false (gpu_stream_migrate (stream, &memory, 1, GPU_MIGRATE_FLAGS_HOST, &error));
  assert_remembered (&error, "gpu_stream_migrate");
}

/* Asserts that every read of the memory fails with the reason of the failed write. */
static void
assert_lost (TestFixture *fixture, GpuBuffer *buffer)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) other = test_buffer_filled (fixture, SIZE, 7);
  g_autoptr (GpuMapping) mapping = NULL;
  g_autoptr (GBytes) bytes = NULL;
  guint8 data[SIZE] = { 0 };

  g_assert_false (gpu_buffer_read (buffer, stream, 0, data, SIZE, NULL, &error));
  assert_remembered (&error, "gpu_buffer_read");
  bytes = gpu_stream_read_bytes (stream, GPU_MEMORY (buffer), 0, 16, &error);
  g_assert_null (bytes);
  assert_remembered (&error, "gpu_stream_read");
  g_assert_false (gpu_stream_copy (stream, GPU_MEMORY (other), 0, GPU_MEMORY (buffer), 0, SIZE,
                                   &error));
  assert_remembered (&error, "gpu_stream_copy");
  g_assert_null (gpu_buffer_map (buffer, stream, GPU_MAP_FLAGS_READ, 0, SIZE, NULL, &error));
  assert_remembered (&error, "gpu_buffer_map");
  g_assert_null (gpu_buffer_map (buffer, NULL, GPU_MAP_FLAGS_READ | GPU_MAP_FLAGS_WRITE, 0, SIZE,
                                 NULL, &error));
  assert_remembered (&error, "gpu_buffer_map");
  g_assert_null (gpu_buffer_map (buffer, NULL, GPU_MAP_FLAGS_NONE, 0, SIZE, NULL, &error));
  assert_remembered (&error, "gpu_buffer_map");
  assert_order_alone_refused (stream, buffer);
  test_assert_ok (gpu_buffer_read (other, stream, 0, data, SIZE, NULL, &error), error);
  test_assert_value (data, 7, SIZE);

  /* gpu_memory_wait() makes the library record the failure of the write. Until then, a new write
   * that is ordered after the failed write also fails. */
  gpu_memory_wait (GPU_MEMORY (buffer), NULL, NULL);
  test_assert_ok (gpu_stream_copy (stream, GPU_MEMORY (buffer), 0, GPU_MEMORY (other), 0, SIZE,
                                   &error), error);
  test_assert_ok (gpu_buffer_read (buffer, NULL, 0, data, SIZE, NULL, &error), error);
  test_assert_value (data, 7, SIZE);
}

/* A wait for new memory of a pool also waits for the last use by the previous owner of that memory.
 * If that use fails, the wait still succeeds. */
static void
failure_pooled_unused (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuMemoryPool) pool = NULL;
  g_autoptr (GpuStream) stream = NULL;
  g_autoptr (GpuStream) other = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuBuffer) lost = NULL;
  g_autoptr (GpuEvent) gate = NULL;
  g_autoptr (GAsyncResult) result = NULL;
  guint8 data[SIZE] = { 0 };

  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    return;

  pool = gpu_memory_pool_new (fixture->context, GPU_MEMORY_POOL_AUTOMATIC, GPU_MEMORY_FLAGS_NONE,
                              &error);
  g_assert_no_error (error);
  stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  other = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  lost = test_buffer_filled (fixture, SIZE, 1);
  gate = test_gate (fixture, stream);
  fill (stream, lost, 2);
  buffer = gpu_memory_pool_alloc_buffer (pool, SIZE, stream, &error);
  g_assert_no_error (error);
  fail (gate, "lost bytes");

  test_assert_ok (gpu_memory_wait (GPU_MEMORY (buffer), NULL, &error), error);
  gpu_memory_wait_async (GPU_MEMORY (buffer), NULL, test_take_result, &result);
  test_assert_ok (gpu_memory_wait_finish (GPU_MEMORY (buffer), test_await (&result), &error),
                  error);
  g_assert_false (gpu_memory_wait (GPU_MEMORY (lost), NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_FAILED, "lost bytes");
  g_clear_error (&error);

  /* Once the buffer has been used, a wait for the buffer reports failures of these uses. */
  gpu_stream_synchronize (stream, NULL, NULL);
  fill (other, buffer, 7);
  test_assert_ok (gpu_buffer_read (buffer, other, 0, data, SIZE, NULL, &error), error);
  test_assert_value (data, 7, SIZE);
  lose (fixture, stream, buffer, "own bytes", FALSE);
  g_assert_false (gpu_memory_wait (GPU_MEMORY (buffer), NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_FAILED, "own bytes");
}

static void
failure_remembered (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE, 1);
  g_autoptr (GpuBuffer) other = test_buffer_filled (fixture, SIZE, 1);
  guint8 byte = 3;
  guint8 first = 0;

  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    return;

  stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  lose (fixture, stream, buffer, "lost bytes", FALSE);
  assert_lost (fixture, buffer);

  lose (fixture, stream, buffer, "lost bytes", TRUE);
  assert_lost (fixture, buffer);

  /* Reads still fail after many other failures, and after the stream was finalized. */
  lose (fixture, stream, buffer, "lost bytes", TRUE);
  for (guint i = 0; i < 200; i++)
    lose (fixture, stream, other, "other bytes", TRUE);
  g_clear_object (&stream);
  assert_lost (fixture, buffer);
  g_assert_false (gpu_buffer_read (other, NULL, 0, &first, 1, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_FAILED, "other bytes");

  /* A write of any part makes the whole memory readable again, because the library does not record
   * failures by range. */
  test_assert_ok (gpu_buffer_write (other, NULL, SIZE - 1, &byte, 1, NULL, &error), error);
  test_assert_ok (gpu_buffer_read (other, NULL, 0, &first, 1, NULL, &error), error);
  if (!test_is_intel_cpu (fixture))
    g_assert_cmpuint (first, ==, 1);
}

/* A slice is the same memory. */
static void
failure_remembered_by_slices (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE, 1);
  g_autoptr (GpuBuffer) slice = gpu_buffer_slice (buffer, 0, SIZE / 2, &error);
  guint8 data[SIZE / 2] = { 0 };

  g_assert_no_error (error);
  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    return;
  stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  lose (fixture, stream, buffer, "lost bytes", TRUE);
  g_assert_false (gpu_buffer_read (slice, NULL, 0, data, sizeof data, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_FAILED, "gpu_buffer_read: the last write of the memory "
                         "that contains the buffer of 2048 bytes failed: ", "lost bytes");
  g_assert_false (gpu_buffer_read (buffer, NULL, 0, data, sizeof data, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_FAILED, "gpu_buffer_read: the last write of the buffer "
                         "of 4096 bytes failed: ", "lost bytes");
  fill (stream, buffer, 4);
  test_assert_ok (gpu_buffer_read (slice, NULL, 0, data, sizeof data, NULL, &error), error);
  test_assert_value (data, 4, sizeof data);
}

/* --- function names in errors -------------------------------------------------------------- */

static void
assert_reported_by (GError **error, const char *function)
{
  g_autofree char *prefix = g_strconcat (function, ": ", NULL);

  g_assert_nonnull (*error);
  g_assert_true (g_str_has_prefix ((*error)->message, prefix));
  test_assert_gpu_error (*error, GPU_ERROR_FAILED, "said");
}

static gpointer
fail_soon (gpointer data)
{
  g_usleep (50 * 1000);
  fail (data, "said");
  return NULL;
}

/* The message names the function that waited, also if the work failed during the wait. It does not
 * name the operation that failed, which drivers do not report. */
static void
failure_names_wait (TestFixture *fixture)
{
  for (guint i = 0; i < 3; i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GpuStream) stream = NULL;
      g_autoptr (GpuBuffer) buffer = NULL;
      g_autoptr (GpuEvent) gate = NULL;
      g_autoptr (GpuEvent) event = NULL;
      GThread *thread;

      if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
        return;
      stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
      buffer = test_buffer (fixture, SIZE);
      gate = test_gate (fixture, stream);
      fill (stream, buffer, 1);
      event = test_record (stream);
      thread = g_thread_new ("fail", fail_soon, gate);
      if (i == 0)
        g_assert_false (gpu_stream_synchronize (stream, NULL, &error));
      else if (i == 1)
        g_assert_false (gpu_event_wait (event, NULL, &error));
      else
        g_assert_cmpint (gpu_event_poll (event, -1, NULL, &error), ==, GPU_EVENT_STATUS_FAILED);
      g_thread_join (thread);
      g_assert_nonnull (error);
      g_assert_cmpstr (error->message, ==, i == 0 ? "gpu_stream_synchronize: said"
                                           : i == 1 ? "gpu_event_wait: said"
                                                    : "gpu_event_poll: said");
    }
}

/* Each function that reports the failure puts its own name before the message. */
static void
failure_function_names (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
  g_autoptr (GpuEvent) good = NULL;
  g_autoptr (GpuEvent) gate = NULL;
  g_autoptr (GpuEvent) bad = NULL;
  guint64 time;
  gint64 elapsed;

  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS | GPU_CAPABILITIES_PROFILING))
    return;
  stream = test_stream (fixture, GPU_STREAM_FLAGS_PROFILING);
  fill (stream, buffer, 1);
  good = test_record (stream);
  test_synchronize (stream);
  gate = test_gate (fixture, stream);
  fill (stream, buffer, 2);
  bad = test_record (stream);
  fail (gate, "said");

  g_assert_false (gpu_stream_is_idle (stream, &error));
  while (error == NULL)
    g_assert_false (gpu_stream_is_idle (stream, &error));
  assert_reported_by (&error, "gpu_stream_is_idle");
  g_assert_cmpint (gpu_event_query (bad, &error), ==, GPU_EVENT_STATUS_FAILED);
  assert_reported_by (&error, "gpu_event_query");
  g_assert_cmpint (gpu_event_poll (bad, 0, NULL, &error), ==, GPU_EVENT_STATUS_FAILED);
  assert_reported_by (&error, "gpu_event_poll");
  g_assert_false (gpu_event_wait (bad, NULL, &error));
  assert_reported_by (&error, "gpu_event_wait");
  g_assert_false (gpu_event_get_duration (bad, &time, &error));
  assert_reported_by (&error, "gpu_event_get_duration");
  g_assert_false (gpu_event_get_profiling_time (bad, GPU_PROFILING_POINT_ENDED, &time, &error));
  assert_reported_by (&error, "gpu_event_get_profiling_time");
  g_assert_false (gpu_event_get_elapsed (bad, good, &elapsed, &error));
  assert_reported_by (&error, "gpu_event_get_elapsed");
  g_assert_false (gpu_stream_wait_event (stream, bad, &error));
  assert_reported_by (&error, "gpu_stream_wait_event");
}

/* --- a failure that another thread detects first ----------------------------------------- */

#define N_RACES 10000

typedef struct
{
  GpuStream *stream;
  GpuEvent  *event;
  gint       round;                 /* atomic; the other threads follow */
  gint       n_followed;            /* atomic */
} Race;

static gpointer
keep_asking (gpointer data)
{
  Race *race = data;

  for (gint round = 1; round <= N_RACES; round++)
    {
      while (g_atomic_int_get (&race->round) < round)
        g_thread_yield ();
      while (gpu_event_query (race->event, NULL) == GPU_EVENT_STATUS_PENDING)
        ;
      g_atomic_int_inc (&race->n_followed);
    }
  return NULL;
}

/* If a stream waits for an event that fails at the same time, either the call fails or its work
 * fails. */
static void
wait_and_fail (TestFixture *fixture, Race *race, gint round)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) other = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuEvent) gate = test_gate (fixture, race->stream);
  g_autoptr (GpuEvent) behind = NULL;

  race->event = test_record (race->stream);
  g_assert_cmpint (gpu_event_query (race->event, NULL), ==, GPU_EVENT_STATUS_PENDING);
  fail (gate, "at the same time");
  g_atomic_int_set (&race->round, round);
  for (gint i = round % 64; i > 0; i--)
    g_atomic_int_get (&race->n_followed);
  if (gpu_stream_wait_event (other, race->event, &error))
    {
      behind = test_record (other);
      g_assert_false (gpu_event_wait (behind, NULL, &error));
    }
  test_assert_gpu_error (error, GPU_ERROR_FAILED, "at the same time");
  while (g_atomic_int_get (&race->n_followed) < round)
    g_thread_yield ();
  g_clear_object (&race->event);
}

static void
failure_race (TestFixture *fixture)
{
  Race race = { NULL };
  GThread *thread;

  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    return;
  race.stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  thread = g_thread_new ("ask", keep_asking, &race);
  for (gint round = 1; round <= N_RACES; round++)
    wait_and_fail (fixture, &race, round);
  g_thread_join (thread);
  g_object_unref (race.stream);
}

static void
assert_failed (GpuEvent *event, const char *message)
{
  g_autoptr (GError) error = NULL;

  g_assert_false (gpu_event_wait_timeout (event, TEST_DEADLINE * G_USEC_PER_SEC, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_FAILED, message);
}

/* The failure of a user event reaches events that are recorded directly behind the wait for the
 * user event, without work in between, both on the waiting stream and on a stream that waits for
 * this stream. It does not reach events before the wait. */
static void
failure_right_behind (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) a = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuStream) b = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE, 1);
  g_autoptr (GpuEvent) before = NULL;
  g_autoptr (GpuEvent) gate = NULL;
  g_autoptr (GpuEvent) behind = NULL;
  g_autoptr (GpuEvent) there = NULL;
  GpuEventStatus status;

  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    return;
  fill (a, buffer, 2);
  before = test_record (a);
  gate = test_gate (fixture, a);
  behind = test_record (a);
  test_assert_ok (gpu_stream_wait_event (b, behind, &error), error);
  there = test_record (b);

  fail (gate, "the ink is dry");
  test_poll ((status = gpu_event_query (there, NULL)) != GPU_EVENT_STATUS_PENDING);
  g_assert_cmpint (status, ==, GPU_EVENT_STATUS_FAILED);
  assert_failed (behind, "the ink is dry");
  assert_failed (there, "the ink is dry");
  test_assert_ok (gpu_event_wait (before, NULL, &error), error);
  g_assert_false (gpu_stream_wait_event (b, gate, &error));
  test_assert_gpu_error (error, GPU_ERROR_FAILED, "the ink is dry");
}

/* The user event fails at about the time when the work before the wait and the work of the other
 * stream complete. The work behind the wait fails and does not run. */
static void
fail_while_work_completes (TestFixture *fixture, GpuStreamFlags flags, guint round)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) a = test_stream (fixture, flags);
  g_autoptr (GpuStream) b = test_stream (fixture, flags);
  g_autoptr (GpuBuffer) first = test_buffer_filled (fixture, SIZE, 1);
  g_autoptr (GpuBuffer) second = test_buffer_filled (fixture, SIZE, 1);
  g_autoptr (GpuEvent) gate = NULL;
  g_autoptr (GpuEvent) behind = NULL;
  g_autoptr (GpuEvent) there = NULL;
  guint8 data[SIZE] = { 0 };

  for (guint i = 0; i < 4; i++)
    fill (a, first, 2 + i);
  fill (b, second, 2);
  gate = test_gate (fixture, a);
  behind = test_record (a);
  test_assert_ok (gpu_stream_wait_event (b, behind, &error), error);
  fill (b, second, 3);
  there = test_record (b);

  for (gint64 start = g_get_monotonic_time (); g_get_monotonic_time () < start + 4 * round;)
    ;
  fail (gate, "in the middle");
  assert_failed (behind, "in the middle");
  assert_failed (there, "in the middle");
  test_assert_ok (gpu_buffer_read (first, a, 0, data, SIZE, NULL, &error), error);
  test_assert_value (data, 5, SIZE);
  g_assert_false (gpu_buffer_read (second, b, 0, data, SIZE, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_FAILED, "in the middle");
  fill (b, second, 4);
  test_assert_ok (gpu_buffer_read (second, b, 0, data, SIZE, NULL, &error), error);
  test_assert_value (data, 4, SIZE);
}

static void
failure_while_work_completes (TestFixture *fixture)
{
  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    return;
  for (guint i = 0; i < 1000; i++)
    fail_while_work_completes (fixture, GPU_STREAM_FLAGS_NONE, i % 64);
}

static void
failure_while_work_completes_out_of_order (TestFixture *fixture)
{
  const char *version = test_get_string (fixture->device, "driver-version");

  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS | GPU_CAPABILITIES_OUT_OF_ORDER))
    return;
  if (test_is_pocl (fixture) && g_ascii_strtoull (version, NULL, 10) >= 5)
    {
      g_test_skip ("PoCL uses events of out-of-order queues after it released them");
      return;
    }
  for (guint i = 0; i < 1000; i++)
    fail_while_work_completes (fixture, GPU_STREAM_FLAGS_OUT_OF_ORDER, i % 64);
}

/* The memory of a blocking map, and the work that another thread does on the same stream before the
 * call waits. */
typedef struct
{
  GpuStream *stream;
  GpuBuffer *other;
  GpuEvent  *gate;
  gboolean   is_done;
} Between;

/* Fails the event, takes the failure of the stream, and submits work that succeeds. */
static gpointer
take_failure (gpointer data)
{
  Between *between = data;
  g_autoptr (GError) error = NULL;

  fail (between->gate, "taken");
  g_assert_false (gpu_stream_synchronize (between->stream, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_FAILED, "taken");
  fill (between->stream, between->other, 3);
  return NULL;
}

/* A GToggleNotify. A map takes its reference to the memory after it was submitted, and before the
 * call waits for it. */
static void
on_referenced (gpointer data, GObject *object G_GNUC_UNUSED, gboolean is_last)
{
  Between *between = data;

  if (is_last || between->is_done)
    return;

  between->is_done = TRUE;
  g_thread_join (g_thread_new ("taken", take_failure, between));
}

/* A thread maps memory behind a pending event. Before the thread waits for the map, another thread
 * fails the event, gets the error of the stream, and submits work that succeeds. The map fails,
 * although later work of the stream succeeds. */
static void
failure_taken (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = NULL;
  g_autoptr (GpuBuffer) other = NULL;
  g_autoptr (GpuEvent) gate = NULL;
  g_autoptr (GBytes) content = NULL;
  GpuBuffer *buffer;
  Between between;

  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    return;

  stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  other = test_buffer_filled (fixture, SIZE, 1);
  buffer = test_buffer_filled (fixture, SIZE, 1);
  gate = test_gate (fixture, stream);
  fill (stream, buffer, 2);
  between = (Between) { stream, other, gate, FALSE };
  g_object_add_toggle_ref (G_OBJECT (buffer), on_referenced, &between);
  g_object_unref (buffer);

  g_assert_null (gpu_buffer_map (buffer, stream, GPU_MAP_FLAGS_READ, 0, SIZE, NULL, &error));
  g_assert_true (between.is_done);
  test_assert_gpu_error (error, GPU_ERROR_FAILED, "gpu_buffer_map", "taken");
  content = test_content (other);
  test_assert_value (g_bytes_get_data (content, NULL), 3, SIZE);
  g_object_remove_toggle_ref (G_OBJECT (buffer), on_referenced, &between);
}

/* --- events for the work of one call ------------------------------------------------------ */

/* A call of a language binding that fills memory twice. */
typedef struct
{
  Between     *between;
  TestFixture *fixture;
  GpuBuffer   *buffer;
  GpuEvent    *late;                /* the event that the second fill waits for */
  gboolean     is_delayed;
} Call;

/* The first fill fails, and another thread takes its failure. The second fill succeeds, and may
 * wait for an event. */
static gboolean
submit_twice (gpointer data, GError **error G_GNUC_UNUSED)
{
  Call *call = data;

  fill (call->between->stream, call->buffer, 2);
  g_thread_join (g_thread_new ("taken", take_failure, call->between));
  if (call->is_delayed)
    call->late = test_gate (call->fixture, call->between->stream);
  fill (call->between->stream, call->buffer, 4);
  return TRUE;
}

static void
check_wait (GpuEvent *event, GpuEvent *late)
{
  g_autoptr (GError) error = NULL;

  g_assert_null (late);
  g_assert_false (gpu_event_wait (event, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_FAILED, "gpu_event_wait", "taken");
}

static void
check_timeout (GpuEvent *event, GpuEvent *late)
{
  g_autoptr (GError) error = NULL;

  g_assert_cmpint (gpu_event_poll (event, 1000, NULL, &error), ==, GPU_EVENT_STATUS_PENDING);
  g_assert_no_error (error);
  test_open (late);
  assert_failed (event, "taken");
}

static void
check_query (GpuEvent *event, GpuEvent *late)
{
  GpuEventStatus status;

  g_assert_cmpint (gpu_event_query (event, NULL), ==, GPU_EVENT_STATUS_PENDING);
  test_open (late);
  test_poll ((status = gpu_event_query (event, NULL)) != GPU_EVENT_STATUS_PENDING);
  g_assert_cmpint (status, ==, GPU_EVENT_STATUS_FAILED);
}

static void
check_async (GpuEvent *event, GpuEvent *late)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GAsyncResult) result = NULL;

  gpu_event_wait_async (event, NULL, test_take_result, &result);
  test_open (late);
  g_assert_false (gpu_event_wait_finish (event, test_await (&result), &error));
  test_assert_gpu_error (error, GPU_ERROR_FAILED, "taken");
}

static void
take_error (GError **taken, const GError *error)
{
  g_assert_nonnull (error);
  *taken = g_error_copy (error);
}

static void
check_watch (GpuEvent *event, GpuEvent *late)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GError) taken = NULL;

  g_signal_connect_swapped (event, "completed", G_CALLBACK (take_error), &taken);
  test_assert_ok (gpu_event_watch (event, &error), error);
  test_open (late);
  while (taken == NULL)
    g_main_context_iteration (NULL, TRUE);
  test_assert_gpu_error (taken, GPU_ERROR_FAILED, "taken");
}

/* Checks an event of a call whose first work fails and whose last work succeeds. */
static void
check_call (TestFixture *fixture, void (*check) (GpuEvent *event, GpuEvent *late))
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE, 1);
  g_autoptr (GpuBuffer) other = test_buffer_filled (fixture, SIZE, 1);
  g_autoptr (GpuEvent) gate = test_gate (fixture, stream);
  g_autoptr (GpuEvent) event = NULL;
  g_autoptr (GBytes) content = NULL;
  Between between = { stream, other, gate, FALSE };
  Call call = { &between, fixture, buffer, NULL, check != check_wait };

  test_assert_ok (_gpu_binding_submit (stream, submit_twice, &call, &event, &error), error);
  g_assert_nonnull (event);
  check (event, call.late);
  test_synchronize (stream);
  content = test_content (buffer);
  test_assert_value (g_bytes_get_data (content, NULL), 4, SIZE);
  g_clear_object (&call.late);
}

/* An event for the work of a call fails if any of this work failed, although the last work
 * succeeds. */
static void
failure_taken_from_call (TestFixture *fixture)
{
  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    return;

  check_call (fixture, check_wait);
  check_call (fixture, check_timeout);
  check_call (fixture, check_query);
  check_call (fixture, check_async);
  check_call (fixture, check_watch);
}

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
  test_add ("of-context", failure_of_context);
  test_add ("later-writer", failure_later_writer);
  test_add ("later-writer-out-of-order", failure_later_writer_out_of_order);
  test_add ("earlier-use", failure_earlier_use);
  test_add ("many-events", failure_many_events);
  test_add ("waited-again", failure_waited_again);
  test_add ("earlier-cause", failure_earlier_cause);
  test_add ("work-after-failure", failure_work_after_failure);
  test_add ("every-point", failure_every_point);
  test_add ("blocked-call", failure_blocked_call);
  test_add ("remembered", failure_remembered);
  test_add ("pooled-unused", failure_pooled_unused);
  test_add ("remembered-by-slices", failure_remembered_by_slices);
  test_add ("function-names", failure_function_names);
  test_add ("names-wait", failure_names_wait);
  test_add ("right-behind", failure_right_behind);
  test_add ("while-work-completes", failure_while_work_completes);
  test_add ("while-work-completes-out-of-order", failure_while_work_completes_out_of_order);
  test_add ("race", failure_race);
  test_add ("taken", failure_taken);
  test_add ("taken-from-call", failure_taken_from_call);
  return test_run ();
}
