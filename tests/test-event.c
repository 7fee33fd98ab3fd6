/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Events: recorded events and user events, every kind of wait, errors, and the thread that runs the
 * callbacks. */
#include "config.h"

#include "cuda-driver/cuda-driver.h"
#include "opencl-layer/gpumem-layer.h"
#include <gpumem/gpumem-bindings.h>

#include "test-util.h"

#define SIZE (1024 * 1024)
#define N_WAITERS 8

static void
count (gpointer data)
{
  g_atomic_int_inc ((int *) data);
}

static void
fill (GpuStream *stream, GpuBuffer *buffer, guint8 value)
{
  g_autoptr (GError) error = NULL;

  test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (buffer), 0,
                                   gpu_memory_get_size (GPU_MEMORY (buffer)), &value, 1, &error),
                  error);
}

static GpuEvent *
user_event (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  GpuEvent *event = gpu_event_new_user (fixture->context, &error);

  g_assert_no_error (error);
  g_assert_true (test_get_number (event, "user"));
  return event;
}

static void
assert_status (GpuEvent *event, GpuEventStatus status)
{
  g_autoptr (GError) error = NULL;

  g_assert_cmpint (gpu_event_query (event, &error), ==, status);
  if (status == GPU_EVENT_STATUS_FAILED)
    g_assert_nonnull (error);
  else
    g_assert_no_error (error);
}

/* --- recorded ------------------------------------------------------------------- */

static void
event_record (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
  g_autoptr (GpuEvent) idle = test_record (fixture->stream);
  g_autoptr (GpuEvent) event = NULL;
  g_autoptr (GBytes) expected = test_value_bytes (SIZE, 42);

  assert_status (idle, GPU_EVENT_STATUS_COMPLETE);
  g_assert_false (test_get_number (idle, "user"));
  g_assert_true (test_get_object (idle, "context") == fixture->context);

  fill (fixture->stream, buffer, 42);
  event = test_record (fixture->stream);
  test_assert_ok (gpu_event_wait (event, NULL, &error), error);
  assert_status (event, GPU_EVENT_STATUS_COMPLETE);
  g_assert_true (gpu_stream_is_idle (fixture->stream, &error));
  test_assert_content (buffer, expected);

  g_assert_false (gpu_event_complete (event, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT);
  g_assert_false (gpu_event_fail (event, "no", &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT);
}

static void
event_outlives_stream (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
  g_autoptr (GpuEvent) event = NULL;

  fill (stream, buffer, 1);
  event = test_record (stream);
  g_clear_object (&stream);
  g_clear_object (&buffer);
  test_assert_ok (gpu_event_wait (event, NULL, &error), error);
}

/* --- user events ------------------------------------------------------------------ */

static void
event_user (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuEvent) event = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    return;
  event = user_event (fixture);
  assert_status (event, GPU_EVENT_STATUS_PENDING);
  test_assert_ok (gpu_event_complete (event, &error), error);
  assert_status (event, GPU_EVENT_STATUS_COMPLETE);
  test_assert_ok (gpu_event_wait (event, NULL, &error), error);
  g_assert_false (gpu_event_complete (event, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT);
  g_assert_false (gpu_event_fail (event, "too late", &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT);
  test_assert_ok (gpu_event_wait (event, NULL, &error), error);
}

/* Work behind a user event stays pending until the event completes. */
static void
event_user_blocks (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE, 1);
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GBytes) after = test_value_bytes (SIZE, 2);
  g_autoptr (GpuEvent) gate = NULL;
  g_autoptr (GpuEvent) event = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    return;
  gate = test_gate (fixture, stream);
  fill (stream, buffer, 2);
  event = test_record (stream);
  g_assert_false (gpu_event_wait_timeout (event, 20000, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_TIMED_OUT, "gpu_event_wait_timeout", "20000",
                         "work of the event", gpu_device_get_id (fixture->device));
  assert_status (event, GPU_EVENT_STATUS_PENDING);
  test_open (gate);
  test_assert_ok (gpu_event_wait (event, NULL, &error), error);
  test_assert_content (buffer, after);
}

/* If a user event fails, earlier work succeeds, work behind the event fails, and work submitted
 * after the error was reported succeeds. Intel's driver nevertheless executes the work that is
 * reported as failed. */
static void
event_user_failed (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE, 1);
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GBytes) two = test_value_bytes (SIZE, 2);
  g_autoptr (GBytes) four = test_value_bytes (SIZE, 4);
  g_autoptr (GpuEvent) gate = NULL;
  g_autoptr (GpuEvent) before = NULL;
  g_autoptr (GpuEvent) behind = NULL;
  const guint8 value = 2;
  gint64 start;

  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    return;
  fill (stream, buffer, 2);
  before = test_record (stream);
  gate = test_gate (fixture, stream);
  fill (stream, buffer, 3);
  behind = test_record (stream);

  start = g_get_monotonic_time ();
  test_assert_ok (gpu_event_fail (gate, "the moon is full", &error), error);
  assert_status (gate, GPU_EVENT_STATUS_FAILED);
  g_assert_false (gpu_event_wait (behind, NULL, &error));
  g_assert_cmpint (g_get_monotonic_time () - start, <, TEST_DEADLINE * G_USEC_PER_SEC);
  test_assert_gpu_error (error, GPU_ERROR_FAILED, "the moon is full");
  assert_status (behind, GPU_EVENT_STATUS_FAILED);
  g_assert_false (gpu_event_wait (gate, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_FAILED, "the moon is full");
  assert_status (before, GPU_EVENT_STATUS_COMPLETE);
  test_assert_ok (gpu_event_wait (before, NULL, &error), error);
  g_assert_null (gpu_buffer_read_bytes (buffer, NULL, 0, SIZE, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_FAILED, "last write", "the moon is full");
  test_assert_ok (gpu_buffer_write (buffer, NULL, 0, &value, 1, NULL, &error), error);
  if (!test_is_intel_cpu (fixture))
    test_assert_content (buffer, two);

  fill (stream, buffer, 4);
  test_synchronize (stream);
  test_assert_content (buffer, four);
}

/* Without a message, waiters get one that names the cause. */
static void
event_failed_without_message (TestFixture *fixture)
{
  const char *messages[] = { NULL, "" };

  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    return;
  for (guint i = 0; i < G_N_ELEMENTS (messages); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GpuEvent) event = gpu_event_new_user (fixture->context, &error);

      g_assert_no_error (error);
      test_assert_ok (gpu_event_fail (event, messages[i], &error), error);
      g_assert_false (gpu_event_wait (event, NULL, &error));
      test_assert_gpu_error (error, GPU_ERROR_FAILED, "the user event was failed");
    }
}

/* Work submitted directly after a failure either fails or runs after the earlier work. */
static void
event_failure_keeps_order (TestFixture *fixture)
{
  const gsize size = 16 * SIZE;
  const guint8 value = 0;

  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    return;
  for (guint i = 1; i <= 5; i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
      g_autoptr (GpuBuffer) from = test_buffer (fixture, size);
      g_autoptr (GpuBuffer) to = test_buffer_filled (fixture, size, 0xee);
      g_autoptr (GpuBuffer) other = test_buffer (fixture, SIZE);
      g_autoptr (GpuEvent) gate = NULL;
      g_autoptr (GBytes) bytes = NULL;
      const guint8 *data;

      fill (stream, from, (guint8) i);
      gate = test_gate (fixture, stream);
      fill (stream, other, 1);
      test_assert_ok (gpu_event_fail (gate, "in between", &error), error);
      test_assert_ok (gpu_stream_copy (stream, GPU_MEMORY (to), 0, GPU_MEMORY (from), 0, size,
                                       &error), error);
      if (!gpu_stream_synchronize (stream, NULL, &error))
        test_assert_gpu_error (error, GPU_ERROR_FAILED, "in between");
      /* After a failure, reads of the buffer fail until it is written. */
      test_assert_ok (gpu_buffer_write (to, NULL, size - 1, &value, 1, NULL, &error), error);
      bytes = test_content (to);
      data = g_bytes_get_data (bytes, NULL);
      test_assert_value (data, data[0] == 0xee ? 0xee : (guint8) i, size - 1);
    }
}

typedef struct
{
  GpuEvent *event;
  gint64    start;
  int      *n_right;
} Waiter;

static gpointer
wait_and_fail (gpointer data)
{
  Waiter *waiter = data;
  g_autoptr (GError) error = NULL;

  g_assert_false (gpu_event_wait (waiter->event, NULL, &error));
  g_assert_cmpint (g_get_monotonic_time () - waiter->start, <, TEST_DEADLINE * G_USEC_PER_SEC);
  test_assert_gpu_error (error, GPU_ERROR_FAILED, "enough");
  g_atomic_int_inc (waiter->n_right);
  return NULL;
}

/* The failure of an event reaches all waiting threads and all asynchronous waits. */
static void
event_failure_reaches_all (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
  g_autoptr (GpuEvent) gate = NULL;
  g_autoptr (GpuEvent) behind = NULL;
  g_autoptr (GAsyncResult) result = NULL;
  g_autoptr (GAsyncResult) user = NULL;
  g_autoptr (GAsyncResult) read = NULL;
  g_autoptr (GAsyncResult) synchronized = NULL;
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  GThread *threads[N_WAITERS];
  int n_right = 0;
  Waiter waiter = { NULL, g_get_monotonic_time (), &n_right };

  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    return;
  gate = test_gate (fixture, stream);
  fill (stream, buffer, 1);
  behind = test_record (stream);
  waiter.event = behind;
  for (guint i = 0; i < N_WAITERS; i++)
    threads[i] = g_thread_new ("waiter", wait_and_fail, &waiter);
  gpu_event_wait_async (behind, NULL, test_take_result, &result);
  gpu_event_wait_async (gate, NULL, test_take_result, &user);
  gpu_buffer_read_bytes_async (buffer, stream, 0, 16, NULL, NULL, NULL, NULL, test_take_result,
                               &read);
  gpu_stream_synchronize_async (stream, NULL, test_take_result, &synchronized);

  test_assert_ok (gpu_event_fail (gate, "enough", &error), error);
  for (guint i = 0; i < N_WAITERS; i++)
    g_thread_join (threads[i]);
  g_assert_cmpint (n_right, ==, N_WAITERS);
  g_assert_false (gpu_event_wait_finish (behind, test_await (&result), &error));
  test_assert_gpu_error (error, GPU_ERROR_FAILED, "gpu_event_wait_async: ", "enough");
  g_assert_false (gpu_event_wait_finish (gate, test_await (&user), &error));
  test_assert_gpu_error (error, GPU_ERROR_FAILED, "gpu_event_wait_async: ", "enough");
  g_assert_null (gpu_buffer_read_bytes_finish (buffer, test_await (&read), &error));
  test_assert_gpu_error (error, GPU_ERROR_FAILED, "gpu_buffer_read_bytes_async: ", "enough");
  g_assert_false (gpu_stream_synchronize_finish (stream, test_await (&synchronized), &error));
  test_assert_gpu_error (error, GPU_ERROR_FAILED, "gpu_stream_synchronize_async: ", "enough");
  g_assert_cmpint (g_get_monotonic_time () - waiter.start, <, TEST_DEADLINE * G_USEC_PER_SEC);
}

/* Dropping the last reference to a pending user event fails its waiters, because the program can no
 * longer complete the event. */
static void
event_user_dropped (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuEvent) gate = NULL;
  g_autoptr (GpuEvent) behind = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    return;
  gate = test_gate (fixture, stream);
  fill (stream, buffer, 1);
  behind = test_record (stream);
  g_clear_object (&gate);
  g_assert_false (gpu_event_wait_timeout (behind, TEST_DEADLINE * G_USEC_PER_SEC, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_FAILED);
}

/* If work of a stream fails, work of another stream that waits for it also fails. */
static void
event_failure_propagates (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuStream) other = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuEvent) gate = NULL;
  g_autoptr (GpuEvent) behind = NULL;
  g_autoptr (GpuEvent) far = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    return;
  gate = test_gate (fixture, stream);
  fill (stream, buffer, 1);
  behind = test_record (stream);
  test_assert_ok (gpu_stream_wait_event (other, behind, &error), error);
  fill (other, buffer, 2);
  far = test_record (other);
  test_assert_ok (gpu_event_fail (gate, "far away", &error), error);
  g_assert_false (gpu_event_wait_timeout (far, TEST_DEADLINE * G_USEC_PER_SEC, NULL, &error));
  g_assert_nonnull (error);
  g_assert_false (g_error_matches (error, GPU_ERROR, GPU_ERROR_TIMED_OUT));
}

/* An error of the driver with the code of a time limit is the error of the work, not the end of the
 * wait. Runs in a process of its own, because event_is_complete() must see the first failure. */
static void
event_driver_timeout (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuEvent) event = NULL;

  if (!test_is_cuda (fixture, 0))
    return;
  if (gpumem_cuda_driver_symbol ("gpumem_cuda_driver_set_fail") == NULL)
    {
      g_test_skip ("the driver injects no faults");
      return;
    }
  if (!g_test_subprocess ())
    {
      g_test_trap_subprocess (NULL, TEST_CHILD_TIMEOUT, G_TEST_SUBPROCESS_INHERIT_STDERR);
      g_test_trap_assert_passed ();
      return;
    }
  fill (stream, buffer, 1);
  event = test_record (stream);
  g_assert_true (GPUMEM_CUDA_DRIVER (set_fail) ("cuEvent[QS]*:1:909:0"));
  g_assert_false (gpu_event_wait_timeout (event, TEST_DEADLINE * G_USEC_PER_SEC, NULL, &error));
  g_assert_true (GPUMEM_CUDA_DRIVER (set_fail) (""));
  g_assert_null (strstr (error->message, "has not completed"));
  test_assert_gpu_error (error, GPU_ERROR_TIMED_OUT, "gpu_event_wait_timeout", "cuEvent", "909");
}

/* --- waits --------------------------------------------------------------------------- */

static gpointer
complete_later (gpointer data)
{
  g_usleep (30000);
  test_open (data);
  return NULL;
}

static gpointer
cancel_later (gpointer data)
{
  g_usleep (30000);
  g_cancellable_cancel (data);
  return NULL;
}

static void
event_timeout (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuEvent) gate = NULL;
  GThread *thread;
  gint64 start;

  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    return;
  gate = user_event (fixture);
  start = g_get_monotonic_time ();
  g_assert_false (gpu_event_wait_timeout (gate, 50000, NULL, &error));
  g_assert_cmpint (g_get_monotonic_time () - start, >=, 50000);
  test_assert_gpu_error (error, GPU_ERROR_TIMED_OUT, "gpu_event_wait_timeout", "50000",
                         "user event", gpu_device_get_id (fixture->device));
  g_assert_false (gpu_event_wait_timeout (gate, 0, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_TIMED_OUT);
  thread = g_thread_new ("complete", complete_later, gate);
  test_assert_ok (gpu_event_wait_timeout (gate, TEST_DEADLINE * G_USEC_PER_SEC, NULL, &error),
                  error);
  test_assert_ok (gpu_event_wait_timeout (gate, 0, NULL, &error), error);
  g_thread_join (thread);
}

/* A deadline in the past, computed as `deadline - now`, must not wait forever. */
static void
event_timeout_negative (TestFixture *fixture)
{
  static const gint64 timeouts[] = { -2, G_MININT64 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuEvent) event = test_record (fixture->stream);

  test_assert_ok (gpu_event_wait_timeout (event, -1, NULL, &error), error);
  for (guint i = 0; i < G_N_ELEMENTS (timeouts); i++)
    {
      g_autofree char *value = g_strdup_printf ("%" G_GINT64_FORMAT, timeouts[i]);

      g_assert_false (gpu_event_wait_timeout (event, timeouts[i], NULL, &error));
      test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_event_wait_timeout", value,
                             "only -1");
      g_assert_cmpint (gpu_event_poll (event, timeouts[i], NULL, &error), ==,
                       GPU_EVENT_STATUS_PENDING);
      test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_event_poll", value,
                             "only -1");
    }
}

static void
event_poll (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCancellable) cancellable = g_cancellable_new ();
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuEvent) gate = NULL;
  g_autoptr (GpuEvent) behind = NULL;
  GThread *thread;
  gint64 start;

  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    return;
  gate = test_gate (fixture, stream);
  behind = test_record (stream);
  start = g_get_monotonic_time ();
  g_assert_cmpint (gpu_event_poll (behind, 20000, NULL, &error), ==, GPU_EVENT_STATUS_PENDING);
  g_assert_no_error (error);
  g_assert_cmpint (gpu_event_poll (gate, 20000, cancellable, &error), ==,
                   GPU_EVENT_STATUS_PENDING);
  g_assert_no_error (error);
  g_assert_cmpint (g_get_monotonic_time () - start, >=, 40000);
  thread = g_thread_new ("cancel", cancel_later, cancellable);
  g_assert_cmpint (gpu_event_poll (behind, -1, cancellable, &error), ==,
                   GPU_EVENT_STATUS_PENDING);
  test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
  g_thread_join (thread);
  thread = g_thread_new ("complete", complete_later, gate);
  g_assert_cmpint (gpu_event_poll (behind, -1, NULL, &error), ==, GPU_EVENT_STATUS_COMPLETE);
  g_assert_cmpint (gpu_event_poll (behind, 0, NULL, &error), ==, GPU_EVENT_STATUS_COMPLETE);
  g_assert_no_error (error);
  g_thread_join (thread);

  g_clear_object (&gate);
  g_clear_object (&behind);
  gate = test_gate (fixture, stream);
  behind = test_record (stream);
  test_assert_ok (gpu_event_fail (gate, "no more", &error), error);
  g_assert_cmpint (gpu_event_poll (behind, -1, NULL, &error), ==, GPU_EVENT_STATUS_FAILED);
  test_assert_gpu_error (error, GPU_ERROR_FAILED, "no more");
  g_assert_cmpint (gpu_event_poll (gate, 0, NULL, &error), ==, GPU_EVENT_STATUS_FAILED);
  test_assert_gpu_error (error, GPU_ERROR_FAILED, "no more");
}

static void
event_cancel (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCancellable) cancellable = g_cancellable_new ();
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuEvent) gate = NULL;
  g_autoptr (GpuEvent) behind = NULL;
  g_autoptr (GpuEvent) done = NULL;
  g_autoptr (GAsyncResult) result = NULL;
  g_autoptr (GAsyncResult) synchronized = NULL;
  GThread *thread;

  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    return;
  gate = test_gate (fixture, stream);
  behind = test_record (stream);
  done = gpu_event_new_user (fixture->context, &error);
  g_assert_no_error (error);
  test_open (done);
  gpu_event_wait_async (behind, cancellable, test_take_result, &result);
  gpu_stream_synchronize_async (stream, cancellable, test_take_result, &synchronized);
  thread = g_thread_new ("cancel", cancel_later, cancellable);
  g_assert_false (gpu_event_wait (behind, cancellable, &error));
  test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
  g_assert_false (gpu_event_wait_finish (behind, test_await (&result), &error));
  test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
  g_assert_false (gpu_stream_synchronize_finish (stream, test_await (&synchronized), &error));
  test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
  g_thread_join (thread);
  g_assert_false (gpu_event_wait (gate, cancellable, &error));
  test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
  g_assert_false (gpu_event_wait (done, cancellable, &error));
  test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);

  /* Cancelling a wait does not affect the event */
  assert_status (behind, GPU_EVENT_STATUS_PENDING);
  test_open (gate);
  test_assert_ok (gpu_event_wait (behind, NULL, &error), error);
}

/* A wait that was cancelled before the call fails, even if the event is complete. */
static void
event_cancelled_before (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCancellable) cancellable = g_cancellable_new ();
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuEvent) event = test_record (stream);
  g_autoptr (GAsyncResult) result = NULL;
  g_autoptr (GAsyncResult) synchronized = NULL;

  test_synchronize (stream);
  g_cancellable_cancel (cancellable);
  g_assert_false (gpu_stream_synchronize (stream, cancellable, &error));
  test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
  g_assert_false (gpu_event_wait (event, cancellable, &error));
  test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
  g_assert_false (gpu_event_wait_timeout (event, 0, cancellable, &error));
  test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
  g_assert_cmpint (gpu_event_poll (event, 0, cancellable, &error), ==, GPU_EVENT_STATUS_PENDING);
  test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
  gpu_event_wait_async (event, cancellable, test_take_result, &result);
  g_assert_false (gpu_event_wait_finish (event, test_await (&result), &error));
  test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
  gpu_stream_synchronize_async (stream, cancellable, test_take_result, &synchronized);
  g_assert_false (gpu_stream_synchronize_finish (stream, test_await (&synchronized), &error));
  test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
  g_assert_cmpint (gpu_event_poll (event, 0, NULL, &error), ==, GPU_EVENT_STATUS_COMPLETE);
  g_assert_no_error (error);
}

/* --- the callbacks of tasks --------------------------------------------------------------- */

typedef struct
{
  GpuStream *stream;
  GpuEvent  *user;                  /* nullable */
  GpuEvent  *point;
  guint      n_awaited;
  gboolean   inside;                /* TRUE during a call of the library */
  gboolean   done;
} Delivery;

static void
delivered (GObject *source, GAsyncResult *result, gpointer data)
{
  Delivery *delivery = data;
  g_autoptr (GError) error = NULL;

  g_assert_false (delivery->inside);
  test_assert_ok (gpu_event_wait_finish (GPU_EVENT (source), result, &error), error);
  delivery->done = --delivery->n_awaited == 0;
}

static gboolean
ask_for_delivery (gpointer data)
{
  Delivery *delivery = data;

  if (delivery->user != NULL)
    gpu_event_wait_async (delivery->user, NULL, delivered, delivery);
  gpu_event_wait_async (delivery->point, NULL, delivered, delivery);
  return G_SOURCE_REMOVE;
}

/* Runs in a later iteration of the main loop than ask_for_delivery() */
static gboolean
reach (gpointer data)
{
  Delivery *delivery = data;
  g_autoptr (GError) error = NULL;

  delivery->inside = TRUE;
  if (delivery->user != NULL)
    test_assert_ok (gpu_event_complete (delivery->user, &error), error);
  while (gpu_event_query (delivery->point, &error) == GPU_EVENT_STATUS_PENDING)
    ;
  g_assert_no_error (error);
  test_synchronize (delivery->stream);
  delivery->inside = FALSE;
  return G_SOURCE_REMOVE;
}

/* The callback never runs inside a library call, even if that call detects the completion
 * of the work */
static void
event_callback_not_nested (TestFixture *fixture)
{
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, 1 << 20);

  for (guint i = 0; i < 50; i++)
    {
      g_autoptr (GError) error = NULL;
      Delivery delivery = { .stream = stream, .n_awaited = 1 };

      if ((gpu_device_get_capabilities (fixture->device) & GPU_CAPABILITIES_USER_EVENTS) != 0)
        {
          delivery.user = gpu_event_new_user (fixture->context, &error);
          g_assert_no_error (error);
          delivery.n_awaited++;
        }
      test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (buffer), 0, 1 << 20,
                                       (const guint8 *) "x", 1, &error), error);
      delivery.point = test_record (stream);
      g_idle_add_full (G_PRIORITY_HIGH, ask_for_delivery, &delivery, NULL);
      g_idle_add_full (G_PRIORITY_DEFAULT, reach, &delivery, NULL);
      test_wait_until (&delivery.done);
      g_clear_object (&delivery.user);
      g_clear_object (&delivery.point);
    }
}

static void
event_wait_all (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  GpuEvent *events[4];
  GpuBuffer *buffers[3];
  GpuStream *streams[3];
  GThread *thread;

  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    return;
  events[3] = user_event (fixture);
  for (guint i = 0; i < 3; i++)
    {
      buffers[i] = test_buffer (fixture, SIZE);
      streams[i] = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
      test_assert_ok (gpu_stream_wait_event (streams[i], events[3], &error), error);
      fill (streams[i], buffers[i], (guint8) i);
      events[i] = test_record (streams[i]);
    }
  thread = g_thread_new ("complete", complete_later, events[3]);
  test_assert_ok (gpu_event_wait_all (events, 4, NULL, &error), error);
  for (guint i = 0; i < 4; i++)
    assert_status (events[i], GPU_EVENT_STATUS_COMPLETE);
  g_thread_join (thread);
  for (guint i = 0; i < 4; i++)
    g_object_unref (events[i]);
  for (guint i = 0; i < 3; i++)
    {
      g_object_unref (buffers[i]);
      g_object_unref (streams[i]);
    }
}

/* --- callbacks in the caller's GMainContext --------------------------------------------- */

/* A thread with its own main context, which creates and watches an event. The test completes the
 * event. */
typedef struct
{
  TestFixture *fixture;
  GpuStream   *stream;              /* to record the event on; NULL for a user event */
  GpuEvent    *event;
  GThread     *thread;
  gboolean     told;
  gboolean     completed;
  gboolean     fails;
  GAsyncQueue *ready;
} Listener;

static void
on_waited (GObject *source, GAsyncResult *result, gpointer user_data)
{
  Listener *listener = user_data;
  g_autoptr (GError) error = NULL;

  g_assert_true (g_thread_self () == listener->thread);
  g_assert_true (source == G_OBJECT (listener->event));
  g_assert_cmpint (gpu_event_wait_finish (listener->event, result, &error), !=, listener->fails);
  g_assert_true ((error != NULL) == listener->fails);
  listener->told = TRUE;
}

static void
on_completed (GpuEvent *event, GError *error, gpointer user_data)
{
  Listener *listener = user_data;

  g_assert_true (g_thread_self () == listener->thread);
  if (listener->fails)
    g_assert_error (error, GPU_ERROR, GPU_ERROR_FAILED);
  else
    g_assert_no_error (error);
  assert_status (event, listener->fails ? GPU_EVENT_STATUS_FAILED : GPU_EVENT_STATUS_COMPLETE);
  g_assert_false (listener->completed);
  listener->completed = TRUE;
}

static gpointer
listen (gpointer data)
{
  Listener *listener = data;
  g_autoptr (GMainContext) context = g_main_context_new ();
  g_autoptr (GError) error = NULL;

  listener->thread = g_thread_self ();
  g_main_context_push_thread_default (context);
  if (listener->stream != NULL)
    listener->event = test_record (listener->stream);
  else
    listener->event = user_event (listener->fixture);
  g_signal_connect (listener->event, "completed", G_CALLBACK (on_completed), listener);
  test_assert_ok (gpu_event_watch (listener->event, &error), error);
  gpu_event_wait_async (listener->event, NULL, on_waited, listener);
  g_assert_false (listener->told);

  g_async_queue_push (listener->ready, listener);
  test_wait_until (&listener->told);
  test_wait_until (&listener->completed);
  g_clear_object (&listener->event);
  while (g_main_context_iteration (context, FALSE))
    ;
  g_main_context_pop_thread_default (context);
  return NULL;
}

/* Results and signals are delivered in the thread-default GMainContext of the thread that started
 * the operation or the watch. */
static void
event_contexts (TestFixture *fixture)
{
  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    return;
  for (guint i = 0; i < 4; i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
      g_autoptr (GpuEvent) gate = test_gate (fixture, stream);
      Listener listener = { fixture, i < 2 ? stream : NULL, .fails = i % 2 == 1 };
      GThread *thread;
      GpuEvent *key;

      listener.ready = g_async_queue_new ();
      thread = g_thread_new ("listen", listen, &listener);
      g_async_queue_pop (listener.ready);
      key = i < 2 ? gate : listener.event;
      if (listener.fails)
        test_assert_ok (gpu_event_fail (key, "told", &error), error);
      else
        test_open (key);
      g_thread_join (thread);
      g_async_queue_unref (listener.ready);
      if (i >= 2)
        test_open (gate);
    }
}

/* A watched event emits "completed" exactly once, in a main context. */
static void
event_watch (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
  g_autoptr (GpuEvent) event = NULL;
  g_autoptr (GAsyncResult) result = NULL;
  g_autoptr (GAsyncResult) again = NULL;
  int n_completed = 0;

  fill (fixture->stream, buffer, 1);
  event = test_record (fixture->stream);
  g_signal_connect_swapped (event, "completed", G_CALLBACK (count), &n_completed);
  test_assert_ok (gpu_event_watch (event, &error), error);
  g_assert_cmpint (n_completed, ==, 0);
  gpu_event_wait_async (event, NULL, test_take_result, &result);
  test_assert_ok (gpu_event_wait_finish (event, test_await (&result), &error), error);
  gpu_event_wait_async (event, NULL, test_take_result, &again);
  g_assert_null (again);
  test_assert_ok (gpu_event_wait_finish (event, test_await (&again), &error), error);
  while (n_completed == 0)
    g_main_context_iteration (NULL, TRUE);
  while (g_main_context_iteration (NULL, FALSE))
    ;
  g_assert_cmpint (n_completed, ==, 1);
}

/* --- timing ---------------------------------------------------------------------------- */

static void
event_profiling (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
  g_autoptr (GpuStream) stream = NULL;
  g_autoptr (GpuEvent) untimed = NULL;
  guint64 last = 0;

  fill (fixture->stream, buffer, 1);
  untimed = test_record (fixture->stream);
  test_synchronize (fixture->stream);
  g_assert_false (gpu_event_get_profiling_time (untimed, GPU_PROFILING_POINT_STARTED, &last,
                                                &error));
  g_assert_nonnull (error);
  g_assert_true (error->domain == GPU_ERROR);
  g_clear_error (&error);

  if (!test_has (fixture, GPU_CAPABILITIES_PROFILING))
    return;
  stream = test_stream (fixture, GPU_STREAM_FLAGS_PROFILING);
  for (guint i = 0; i < 5; i++)
    {
      g_autoptr (GpuEvent) event = NULL;

      fill (stream, buffer, (guint8) i);
      event = test_record (stream);
      test_assert_ok (gpu_event_wait (event, NULL, &error), error);
      for (guint point = GPU_PROFILING_POINT_QUEUED; point <= GPU_PROFILING_POINT_ENDED; point++)
        {
          guint64 time = 0;

          test_assert_ok (gpu_event_get_profiling_time (event, point, &time, &error), error);
          g_assert_cmpuint (time, >=, last);
          g_assert_cmpuint (time, !=, 0);
          last = time;
        }
    }
}

static void
event_elapsed (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
  g_autoptr (GpuEvent) first = NULL;
  g_autoptr (GpuEvent) last = NULL;
  g_autoptr (GpuStream) stream = NULL;
  gint64 forth = 0;
  gint64 back = 0;

  if (!test_has (fixture, GPU_CAPABILITIES_PROFILING))
    return;
  stream = test_stream (fixture, GPU_STREAM_FLAGS_PROFILING);
  fill (stream, buffer, 1);
  first = gpu_stream_record (stream, GPU_EVENT_FLAGS_TIMING, &error);
  g_assert_no_error (error);
  test_synchronize (stream);
  g_usleep (20000);
  for (guint i = 0; i < 10; i++)
    fill (stream, buffer, 2);
  last = gpu_stream_record (stream, GPU_EVENT_FLAGS_TIMING, &error);
  g_assert_no_error (error);
  test_assert_ok (gpu_event_wait (last, NULL, &error), error);
  test_assert_ok (gpu_event_get_elapsed (last, first, &forth, &error), error);
  test_assert_ok (gpu_event_get_elapsed (first, last, &back, &error), error);
  g_assert_cmpint (forth, >=, 19 * 1000 * 1000);
  g_assert_cmpint (forth, <, (gint64) TEST_DEADLINE * 1000 * 1000 * 1000);
  g_assert_cmpint (back, ==, -forth);
}

/* An event with GPU_EVENT_FLAGS_TIMING has a time of its own, which is after the idle time before
 * it. The event, and later ones without that flag, also have the times of the last operation. */
static void
event_elapsed_idle (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
  g_autoptr (GpuStream) stream = NULL;
  g_autoptr (GpuEvent) done = NULL;
  g_autoptr (GpuEvent) timed = NULL;
  g_autoptr (GpuEvent) later = NULL;
  GpuEvent *events[3];
  guint64 ends[3];
  guint64 durations[3];
  gint64 idle = 0;

  if (!test_has (fixture, GPU_CAPABILITIES_PROFILING))
    return;
  stream = test_stream (fixture, GPU_STREAM_FLAGS_PROFILING);
  fill (stream, buffer, 1);
  done = test_record (stream);
  test_synchronize (stream);
  g_usleep (20000);
  timed = gpu_stream_record (stream, GPU_EVENT_FLAGS_TIMING, &error);
  g_assert_no_error (error);
  later = test_record (stream);
  test_synchronize (stream);

  test_assert_ok (gpu_event_get_elapsed (timed, done, &idle, &error), error);
  g_assert_cmpint (idle, >=, 19 * 1000 * 1000);
  events[0] = done;
  events[1] = timed;
  events[2] = later;
  for (guint i = 0; i < 3; i++)
    {
      test_assert_ok (gpu_event_get_duration (events[i], &durations[i], &error), error);
      test_assert_ok (gpu_event_get_profiling_time (events[i], GPU_PROFILING_POINT_ENDED, &ends[i],
                                                    &error), error);
      g_assert_cmpuint (durations[i], ==, durations[0]);
      g_assert_cmpuint (ends[i], ==, ends[0]);
    }
}

/* The first event of a profiling stream has no times without GPU_EVENT_FLAGS_TIMING: there is no
 * operation before it. The error does not ask for a profiling stream. */
static void
event_elapsed_first (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = NULL;
  g_autoptr (GpuEvent) first = NULL;
  g_autoptr (GpuEvent) timed = NULL;
  g_autoptr (GpuEvent) untimed = test_record (fixture->stream);
  guint64 duration = 0;
  gint64 elapsed = 0;

  g_assert_false (gpu_event_get_duration (untimed, &duration, &error));
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_event_get_duration",
                         "GPU_STREAM_FLAGS_PROFILING");
  if (!test_has (fixture, GPU_CAPABILITIES_PROFILING))
    return;

  stream = test_stream (fixture, GPU_STREAM_FLAGS_PROFILING);
  first = test_record (stream);
  timed = gpu_stream_record (stream, GPU_EVENT_FLAGS_TIMING, &error);
  g_assert_no_error (error);
  test_synchronize (stream);

  g_assert_false (gpu_event_get_elapsed (timed, first, &elapsed, &error));
  g_assert_null (strstr (error->message, "GPU_STREAM_FLAGS_PROFILING"));
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_event_get_elapsed",
                         "no operation with times precedes it", "GPU_EVENT_FLAGS_TIMING");
  test_assert_ok (gpu_event_get_elapsed (timed, timed, &elapsed, &error), error);
  g_assert_cmpint (elapsed, ==, 0);
}

/* Adds a wait, an event or a point to @stream. Returns whether the device supports it. */
typedef gboolean (*AddMarker) (TestFixture *fixture, GpuStream *stream);

/* Like test_has(), but does not skip the rest of the test. */
static gboolean
has (TestFixture *fixture, GpuCapabilities capability)
{
  return (gpu_device_get_capabilities (fixture->device) & capability) != 0;
}

static gboolean
add_wait (TestFixture *fixture, GpuStream *stream)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
  g_autoptr (GpuEvent) event = NULL;

  fill (fixture->stream, buffer, 2);
  event = test_record (fixture->stream);
  test_assert_ok (gpu_stream_wait_event (stream, event, &error), error);

  return TRUE;
}

/* A wait for pending work of another stream */
static gboolean
add_pending_wait (TestFixture *fixture, GpuStream *stream)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuEvent) gate = NULL;

  if (!has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    return FALSE;
  gate = gpu_event_new_user (fixture->context, &error);
  g_assert_no_error (error);
  test_assert_ok (gpu_stream_wait_event (fixture->stream, gate, &error), error);
  add_wait (fixture, stream);
  test_assert_ok (gpu_event_complete (gate, &error), error);

  return TRUE;
}

/* An allocation of a pool, on a stream that the program may have submitted work to */
static gboolean
add_point (TestFixture *fixture, GpuStream *stream)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuMemoryPool) pool = gpu_memory_pool_new (fixture->context, GPU_MEMORY_POOL_SEGMENTS,
                                                        GPU_MEMORY_FLAGS_NONE, &error);

  g_assert_no_error (error);
  if (gpu_stream_get_native_handle (stream) == 0)
    return FALSE;
  buffer = gpu_memory_pool_alloc_buffer (pool, SIZE, stream, &error);
  g_assert_no_error (error);

  return TRUE;
}

static gboolean
add_interprocess_event (TestFixture *fixture, GpuStream *stream)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuEvent) event = NULL;

  guint64 duration = 0;

  if (!has (fixture, GPU_CAPABILITIES_IPC_HANDLES))
    return FALSE;
  event = gpu_stream_record (stream, GPU_EVENT_FLAGS_INTERPROCESS, &error);
  g_assert_no_error (error);
  g_assert_false (gpu_event_get_duration (event, &duration, &error));
  g_assert_null (strstr (error->message, "no operation with times"));
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_event_get_duration",
                         "an event with GPU_EVENT_FLAGS_INTERPROCESS has no times",
                         "record a second event with GPU_EVENT_FLAGS_TIMING");

  return TRUE;
}

static void
check_last_operation (TestFixture *fixture, GpuBuffer *buffer, AddMarker add_marker)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_PROFILING);
  g_autoptr (GpuEvent) done = NULL;
  g_autoptr (GpuEvent) later = NULL;
  g_autoptr (GpuEvent) timed = NULL;
  GpuEvent *events[3];
  guint64 ends[3];

  fill (stream, buffer, 1);
  done = test_record (stream);
  if (!add_marker (fixture, stream))
    return;
  later = test_record (stream);
  timed = gpu_stream_record (stream, GPU_EVENT_FLAGS_TIMING, &error);
  g_assert_no_error (error);
  test_synchronize (stream);

  events[0] = done;
  events[1] = later;
  events[2] = timed;
  for (guint i = 0; i < 3; i++)
    {
      test_assert_ok (gpu_event_get_profiling_time (events[i], GPU_PROFILING_POINT_ENDED, &ends[i],
                                                    &error), error);
      g_assert_cmpuint (ends[i], ==, ends[0]);
    }
}

/* Events of a profiling stream have the times of the last operation, also after waits, other events
 * and allocations. */
static void
event_last_operation (TestFixture *fixture)
{
  const AddMarker markers[] = { add_wait, add_pending_wait, add_point, add_interprocess_event };
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);

  if (!test_has (fixture, GPU_CAPABILITIES_PROFILING))
    return;
  for (guint i = 0; i < G_N_ELEMENTS (markers); i++)
    check_last_operation (fixture, buffer, markers[i]);
}

/* The callback of a wait runs when its event completes, even if a wait for a later event was
 * started before. */
static void
event_callback_after_later_wait (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuEvent) first_gate = NULL;
  g_autoptr (GpuEvent) first = NULL;
  g_autoptr (GpuEvent) second_gate = NULL;
  g_autoptr (GpuEvent) second = NULL;
  g_autoptr (GAsyncResult) first_result = NULL;
  g_autoptr (GAsyncResult) second_result = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    return;
  first_gate = test_gate (fixture, stream);
  fill (stream, buffer, 1);
  first = test_record (stream);
  second_gate = test_gate (fixture, stream);
  fill (stream, buffer, 2);
  second = test_record (stream);
  gpu_event_wait_async (second, NULL, test_take_result, &second_result);
  gpu_event_wait_async (first, NULL, test_take_result, &first_result);

  test_open (first_gate);
  test_assert_ok (gpu_event_wait_finish (first, test_await (&first_result), &error), error);
  g_assert_null (second_result);
  test_open (second_gate);
  test_assert_ok (gpu_event_wait_finish (second, test_await (&second_result), &error), error);
}

/* If the driver cannot report the status, the event stays pending, because its work may still use
 * memory. Each query returns the driver's error. A wait returns with the same error instead of
 * blocking forever. */
static void
event_unreported (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
  g_autoptr (GpuEvent) event = NULL;

  fill (fixture->stream, buffer, 1);
  event = test_record (fixture->stream);
  g_assert_true (GPUMEM_LAYER (set_fail) ("fn=clGetEventInfo,n=1,times=0,code=-58"));
  for (guint i = 0; i < 3; i++)
    {
      g_assert_cmpint (gpu_event_query (event, &error), ==, GPU_EVENT_STATUS_PENDING);
      test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_event_query",
                             "clGetEventInfo", "CL_INVALID_EVENT");
      g_clear_error (&error);
    }
  g_assert_false (gpu_event_wait (event, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "CL_INVALID_EVENT");
  g_assert_true (GPUMEM_LAYER (set_fail) (NULL));
  assert_status (event, GPU_EVENT_STATUS_FAILED);
}

/* test-opencl-wrapped.c and test-cuda-wrapped.c test events of the driver. */
static void
event_wrapped (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuEvent) event = test_record (fixture->stream);
  g_autoptr (GpuEvent) wrapped = NULL;
  guint64 handle = 0;

  if (g_str_equal (gpu_device_get_backend (fixture->device), "host"))
    {
      g_assert_null (gpu_event_new_wrapped (fixture->context, 1, GPU_WRAP_MODE_BORROW, &error));
      test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_event_new_wrapped", "host");
      return;
    }

  g_assert_null (gpu_event_new_wrapped (fixture->context, 0, GPU_WRAP_MODE_BORROW, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_event_new_wrapped", "0");
  handle = test_get_number (event, "native-handle");

  if (handle == 0)
    return;

  wrapped = gpu_event_new_wrapped (fixture->context, handle, GPU_WRAP_MODE_BORROW, &error);
  g_assert_no_error (error);
  g_assert_false (test_get_number (wrapped, "user"));
  test_assert_ok (gpu_event_wait (wrapped, NULL, &error), error);
  g_assert_cmpuint (test_get_number (wrapped, "native-handle"), ==, handle);
  assert_status (event, GPU_EVENT_STATUS_COMPLETE);
}

static void
event_run_unreported (TestFixture *fixture)
{
  test_run_under_layer (fixture, "unreported");
}

/* The function for language bindings only knows of events that the library has seen complete. After
 * the first failure in the process, it knows of none. */
static void
event_is_complete (TestFixture *fixture)
{
  static gboolean has_failed;
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuEvent) gate = NULL;
  g_autoptr (GpuEvent) event = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    return;

  gate = test_gate (fixture, fixture->stream);
  event = test_record (fixture->stream);
  g_assert_false (_gpu_binding_is_complete (gate));
  g_assert_false (_gpu_binding_is_complete (event));
  test_open (gate);
  g_assert_true (gpu_event_wait (event, NULL, &error));
  g_assert_no_error (error);
  g_assert_true (has_failed || _gpu_binding_is_complete (event));

  g_clear_object (&gate);
  g_clear_object (&event);
  gate = test_gate (fixture, fixture->stream);
  event = test_record (fixture->stream);
  gpu_event_fail (gate, "test", &error);
  g_assert_no_error (error);
  g_assert_false (gpu_event_wait (event, NULL, &error));
  g_assert_nonnull (error);
  g_assert_false (_gpu_binding_is_complete (event));
  has_failed = TRUE;
}

/* Data of a write whose free function runs in a thread that waits for the write. */
typedef struct
{
  GpuStream *stream;
  gint       n_free;                /* 1 once the function has been called, 2 at its end */
  gint       is_awaited;
} SlowData;

static void
free_slowly (gpointer data)
{
  SlowData *slow = data;

  /* Returns at once here, where the caller itself releases the data. */
  _gpu_binding_wait_for_releases ();
  g_atomic_int_set (&slow->n_free, 1);
  while (!g_atomic_int_get (&slow->is_awaited))
    g_thread_yield ();
  g_usleep (1000);
  g_atomic_int_set (&slow->n_free, 2);
}

static gpointer
synchronize (gpointer data)
{
  SlowData *slow = data;
  g_autoptr (GError) error = NULL;

  test_assert_ok (gpu_stream_synchronize (slow->stream, NULL, &error), error);

  return NULL;
}

/* The function for language bindings waits until another thread has released the data of work that
 * has completed. */
static void
event_wait_for_releases (TestFixture *fixture)
{
  static guint8 number = 5;
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, 1);
  SlowData slow = { .stream = fixture->stream };
  g_autoptr (GError) error = NULL;
  GBytes *bytes = g_bytes_new_with_free_func (&number, 1, free_slowly, &slow);
  GThread *thread;

  _gpu_binding_wait_for_releases ();
  g_assert_false (_gpu_binding_is_releasing ());
  test_assert_ok (gpu_stream_write (fixture->stream, (GpuMemory *) buffer, 0, bytes, &error),
                  error);
  g_bytes_unref (bytes);
  thread = g_thread_new ("synchronize", synchronize, &slow);
  while (g_atomic_int_get (&slow.n_free) == 0)
    g_thread_yield ();
  g_assert_true (_gpu_binding_is_releasing ());
  g_atomic_int_set (&slow.is_awaited, TRUE);
  _gpu_binding_wait_for_releases ();
  g_assert_cmpint (g_atomic_int_get (&slow.n_free), ==, 2);
  g_thread_join (thread);
  g_assert_false (_gpu_binding_is_releasing ());
}

/* Asserts that this thread has not counted a release. Another thread may release at the same time,
 * and ends soon. Sets @n_messages to 1. */
static GLogWriterOutput
check_release (GLogLevelFlags level, const GLogField *fields, gsize n_fields, gpointer n_messages)
{
  for (guint i = 0; i < TEST_DEADLINE * 1000 && _gpu_binding_is_releasing (); i++)
    g_usleep (1000);

  g_assert_false (_gpu_binding_is_releasing ());
  g_atomic_int_set ((gint *) n_messages, 1);

  return G_LOG_WRITER_HANDLED;
}

/* A function of the program that does not free data is not called during a counted release: it may
 * wait for a thread that waits for the releases. */
static void
event_log_outside_release (TestFixture *fixture)
{
  g_autofree char *before = g_strdup (g_getenv ("GPUMEM_DEBUG"));

  if (g_test_subprocess ())
    {
      static gint n_messages;
      g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
      g_autoptr (GBytes) bytes = test_value_bytes (SIZE, 1);
      g_autoptr (GError) error = NULL;

      g_log_set_writer_func (check_release, &n_messages, NULL);
      test_assert_ok (gpu_stream_write (fixture->stream, (GpuMemory *) buffer, 0, bytes, &error),
                      error);
      test_assert_ok (gpu_stream_synchronize (fixture->stream, NULL, &error), error);
      g_assert_cmpint (g_atomic_int_get (&n_messages), ==, 1);
      return;
    }

  g_setenv ("GPUMEM_DEBUG", "completion", TRUE);
  g_test_trap_subprocess (NULL, TEST_CHILD_TIMEOUT, G_TEST_SUBPROCESS_DEFAULT);
  if (before != NULL)
    g_setenv ("GPUMEM_DEBUG", before, TRUE);
  else
    g_unsetenv ("GPUMEM_DEBUG");
  g_test_trap_assert_passed ();
}

/* Work of a call: a fill of memory behind an offset, or nothing if there is no memory. */
typedef struct
{
  GpuStream *stream;
  GpuBuffer *buffer;
  gsize      offset;
} Call;

static gboolean
submit (gpointer data, GError **error)
{
  const Call *call = data;
  const guint8 pattern = 7;

  return call->buffer == NULL
         || gpu_stream_fill (call->stream, GPU_MEMORY (call->buffer), call->offset, SIZE, &pattern,
                             1, error);
}

/* A language binding gets an event for the work of its call, or none if the work has completed or
 * is refused. */
static void
event_of_call (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuStream) raw = g_object_new (GPU_TYPE_STREAM, NULL);
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE, 1);
  g_autoptr (GpuEvent) event = NULL;
  g_autoptr (GBytes) content = NULL;
  Call call = { stream, NULL, 0 };

  test_assert_ok (_gpu_binding_submit (stream, submit, &call, &event, &error), error);
  g_assert_null (event);
  g_assert_false (_gpu_binding_submit (raw, submit, &call, &event, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "never initialised");
  g_assert_null (event);

  call.buffer = buffer;
  call.offset = 1;
  g_assert_false (_gpu_binding_submit (stream, submit, &call, &event, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_stream_fill");
  g_assert_null (event);

  call.offset = 0;
  test_assert_ok (_gpu_binding_submit (stream, submit, &call, &event, &error), error);
  if (event != NULL)
    test_assert_ok (gpu_event_wait (event, NULL, &error), error);
  content = test_content (buffer);
  test_assert_value (g_bytes_get_data (content, NULL), 7, SIZE);
}

/* The event does not wait for later work, and needs neither the stream nor the memory. The event of
 * a call without work waits for all work of the stream. */
static void
event_of_call_pending (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuEvent) gate = NULL, later = NULL, event = NULL, all = NULL;
  Call call = { NULL };

  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    return;

  call.stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  call.buffer = test_buffer (fixture, SIZE);
  gate = test_gate (fixture, call.stream);
  test_assert_ok (_gpu_binding_submit (call.stream, submit, &call, &event, &error), error);
  later = test_gate (fixture, call.stream);
  g_clear_object (&call.buffer);
  test_assert_ok (_gpu_binding_submit (call.stream, submit, &call, &all, &error), error);
  g_clear_object (&call.stream);

  assert_status (event, GPU_EVENT_STATUS_PENDING);
  test_open (gate);
  test_assert_ok (gpu_event_wait_timeout (event, TEST_DEADLINE * G_USEC_PER_SEC, NULL, &error),
                  error);
  assert_status (all, GPU_EVENT_STATUS_PENDING);
  test_open (later);
  test_assert_ok (gpu_event_wait (all, NULL, &error), error);
}

/* Memory is idle for the bindings unless a wait would block. */
static void
event_is_idle (TestFixture *fixture)
{
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, 64);
  g_autoptr (GpuBuffer) other = test_buffer (fixture, 64);
  g_autoptr (GpuStream) stream = NULL;
  g_autoptr (GpuEvent) gate = NULL;
  gint64 end = g_get_monotonic_time () + TEST_DEADLINE * G_USEC_PER_SEC;

  g_assert_true (_gpu_binding_is_idle (GPU_MEMORY (buffer)));
  fill (fixture->stream, buffer, 1);
  /* The query finds out that the work has completed, without a wait. */
  while (!_gpu_binding_is_idle (GPU_MEMORY (buffer)) && g_get_monotonic_time () < end)
    g_thread_yield ();
  g_assert_cmpint (g_get_monotonic_time (), <, end);

  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    return;

  stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  gate = test_gate (fixture, stream);
  fill (stream, buffer, 2);
  g_assert_false (_gpu_binding_is_idle (GPU_MEMORY (buffer)));
  g_assert_true (_gpu_binding_is_idle (GPU_MEMORY (other)));
  test_open (gate);
  test_synchronize (stream);
  g_assert_true (_gpu_binding_is_idle (GPU_MEMORY (buffer)));
  gpu_memory_release (GPU_MEMORY (buffer));
  g_assert_true (_gpu_binding_is_idle (GPU_MEMORY (buffer)));
}

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
  test_add ("is-idle", event_is_idle);
  test_add ("is-complete", event_is_complete);
  test_add ("of-call", event_of_call);
  test_add ("of-call-pending", event_of_call_pending);
  test_add ("record", event_record);
  test_add ("outlives-stream", event_outlives_stream);
  test_add ("user", event_user);
  test_add ("user-blocks", event_user_blocks);
  test_add ("user-failed", event_user_failed);
  test_add ("failed-without-message", event_failed_without_message);
  test_add ("failure-keeps-order", event_failure_keeps_order);
  test_add ("failure-reaches-all", event_failure_reaches_all);
  test_add ("failure-propagates", event_failure_propagates);
  test_add ("user-dropped", event_user_dropped);
  test_add ("driver-timeout", event_driver_timeout);
  test_add ("timeout", event_timeout);
  test_add ("timeout-negative", event_timeout_negative);
  test_add ("poll", event_poll);
  test_add ("cancel", event_cancel);
  test_add ("cancelled-before", event_cancelled_before);
  test_add ("callback-not-nested", event_callback_not_nested);
  test_add ("callback-after-later-wait", event_callback_after_later_wait);
  test_add ("wait-all", event_wait_all);
  test_add ("contexts", event_contexts);
  test_add ("watch", event_watch);
  test_add ("profiling", event_profiling);
  test_add ("elapsed", event_elapsed);
  test_add ("elapsed-idle", event_elapsed_idle);
  test_add ("elapsed-first", event_elapsed_first);
  test_add ("last-operation", event_last_operation);
  test_add ("wrapped", event_wrapped);
  test_add ("wait-for-releases", event_wait_for_releases);
  test_add ("log-outside-release", event_log_outside_release);
  test_add ("unreported", event_run_unreported);
  test_add ("subprocess/unreported", event_unreported);
  return test_run ();
}
