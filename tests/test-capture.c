/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Streams that a program captures into CUDA graphs. The host cannot wait for captured work: events
 * and waits of such streams are refused with an error that names the capture. Waits for other
 * streams, on any thread, do not disturb a capture. The stand-in for the driver ends a program that
 * invalidates a capture. */
#include "config.h"

#ifdef HAVE_CUDA
#include "cuda-driver/cuda-driver.h"
#include "gpumem/cuda/driver/gpu-cuda-types.h"
#endif
#include "test-util.h"

#ifdef HAVE_CUDA

#define SIZE 65536
#define N_THREADS 3

typedef struct
{
  CUresult (*begin)         (CUstream stream, CUstreamCaptureMode mode);
  CUresult (*end)           (CUstream stream, CUgraph *graph);
  CUresult (*destroy_graph) (CUgraph graph);
} Driver;

static Driver driver;

static gboolean
find_driver (TestFixture *fixture)
{
  driver.begin = gpumem_cuda_driver_symbol ("cuStreamBeginCapture_v2");
  driver.end = gpumem_cuda_driver_symbol ("cuStreamEndCapture");
  driver.destroy_graph = gpumem_cuda_driver_symbol ("cuGraphDestroy");
  if (strcmp (gpu_device_get_backend (fixture->device), "cuda") == 0 && driver.begin != NULL)
    return TRUE;

  g_test_skip ("the driver does not capture streams");
  return FALSE;
}

static CUstream
begin (GpuStream *stream)
{
  CUstream handle = (CUstream) (gsize) gpu_stream_get_native_handle (stream);

  g_assert_cmpuint (driver.begin (handle, CU_STREAM_CAPTURE_MODE_GLOBAL), ==, 0);
  return handle;
}

static void
end (CUstream handle)
{
  CUgraph graph = NULL;

  g_assert_cmpuint (driver.end (handle, &graph), ==, 0);
  g_assert_cmpuint (driver.destroy_graph (graph), ==, 0);
}

static void
assert_complete (GpuEvent *event)
{
  g_autoptr (GError) error = NULL;

  test_assert_ok (gpu_event_wait (event, NULL, &error), error);
  g_assert_cmpint (gpu_event_query (event, &error), ==, GPU_EVENT_STATUS_COMPLETE);
  g_assert_no_error (error);
}

static void
check_records (GpuStream *stream)
{
  const GpuEventFlags flags[] = { GPU_EVENT_FLAGS_TIMING, GPU_EVENT_FLAGS_INTERPROCESS };

  for (guint i = 0; i < G_N_ELEMENTS (flags); i++)
    {
      g_autoptr (GError) error = NULL;

      g_assert_null (gpu_stream_record (stream, flags[i], &error));
      test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_stream_record");
    }
}

static void
check_waits (GpuEvent *event)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GAsyncResult) result = NULL;

  g_assert_false (gpu_event_wait (event, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_event_wait", "captured");
  g_assert_false (gpu_event_wait_timeout (event, 1000, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_event_wait_timeout", "captured");
  g_assert_cmpint (gpu_event_query (event, &error), ==, GPU_EVENT_STATUS_PENDING);
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_event_query", "captured");
  g_assert_cmpint (gpu_event_poll (event, 1000, NULL, &error), ==, GPU_EVENT_STATUS_PENDING);
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_event_poll", "captured");
  gpu_event_wait_async (event, NULL, test_take_result, &result);
  g_assert_false (gpu_event_wait_finish (event, test_await (&result), &error));
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "captured");
}

/* Each wait for a stream that is being captured fails, and the capture survives. Afterwards, the
 * stream and its events work as before. */
static void
refused (TestFixture *fixture)
{
  g_autoptr (GpuStream) stream = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuEvent) event = NULL;
  g_autoptr (GError) error = NULL;
  guint8 byte = 0;
  CUstream handle;

  if (!find_driver (fixture))
    return;

  stream = test_stream (fixture, GPU_STREAM_FLAGS_NON_BLOCKING);
  buffer = test_buffer_filled (fixture, SIZE, 7);
  test_synchronize (fixture->stream);
  handle = begin (stream);
  event = test_record (stream);
  check_waits (event);
  check_records (stream);
  g_assert_false (gpu_stream_synchronize (stream, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_stream_synchronize", "captured");
  g_assert_false (gpu_context_synchronize (fixture->context, &error));
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_context_synchronize", "captured");
  g_assert_false (gpu_stream_is_idle (stream, &error));
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_stream_is_idle", "captured");
  g_assert_false (gpu_buffer_read (buffer, stream, 0, &byte, 1, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_buffer_read", "captured");
  end (handle);

  assert_complete (event);
  test_synchronize (stream);
  test_assert_ok (gpu_buffer_read (buffer, stream, 0, &byte, 1, NULL, &error), error);
  g_assert_cmpuint (byte, ==, 7);
}

/* Streams join a capture through events. The events of the capture are not used for waits of the
 * host after it, for which the driver reports an error. */
static void
joined (TestFixture *fixture)
{
  g_autoptr (GpuStream) first = NULL;
  g_autoptr (GpuStream) second = NULL;
  g_autoptr (GpuEvent) fork = NULL;
  g_autoptr (GpuEvent) join = NULL;
  g_autoptr (GError) error = NULL;
  CUstream handle;

  if (!find_driver (fixture))
    return;

  first = test_stream (fixture, GPU_STREAM_FLAGS_NON_BLOCKING);
  second = test_stream (fixture, GPU_STREAM_FLAGS_NON_BLOCKING);
  for (guint i = 0; i < 2; i++)
    {
      handle = begin (first);
      g_clear_object (&fork);
      g_clear_object (&join);
      fork = test_record (first);
      test_assert_ok (gpu_stream_wait_event (second, fork, &error), error);
      join = test_record (second);
      g_assert_cmpint (gpu_event_query (join, &error), ==, GPU_EVENT_STATUS_PENDING);
      test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_event_query", "captured");
      g_assert_false (gpu_stream_synchronize (second, NULL, &error));
      test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_stream_synchronize", "captured");
      test_assert_ok (gpu_stream_wait_event (first, join, &error), error);
      end (handle);

      assert_complete (fork);
      assert_complete (join);
      test_synchronize (first);
      test_synchronize (second);
    }
}

/* Waits with and without timeouts for @data, an event whose work is held until the waits with
 * timeouts have ended. */
static gpointer
run_waits (gpointer data)
{
  GpuEvent *event = data;
  g_autoptr (GError) error = NULL;

  for (guint i = 0; i < 5; i++)
    {
      g_assert_false (gpu_event_wait_timeout (event, 500, NULL, &error));
      test_assert_gpu_error (error, GPU_ERROR_TIMED_OUT, "gpu_event_wait_timeout");
      g_assert_cmpint (gpu_event_poll (event, 500, NULL, &error), ==, GPU_EVENT_STATUS_PENDING);
      g_assert_no_error (error);
    }

  return NULL;
}

static gpointer
run_wait (gpointer data)
{
  g_autoptr (GError) error = NULL;

  test_assert_ok (gpu_event_wait_timeout (data, -1, NULL, &error), error);
  assert_complete (data);

  return NULL;
}

static gpointer
run_synchronize (gpointer data)
{
  test_synchronize (data);
  return NULL;
}

static void
run_in_threads (GThreadFunc func, GpuEvent *event)
{
  GThread *threads[N_THREADS];

  for (guint i = 0; i < N_THREADS; i++)
    threads[i] = g_thread_new ("waiter", func, event);
  func (event);
  for (guint i = 0; i < N_THREADS; i++)
    g_thread_join (threads[i]);
}

/* While one stream is being captured, threads wait for another stream: those that do not capture,
 * and the one that does. */
static void
waits_elsewhere (TestFixture *fixture)
{
  g_autoptr (GpuStream) captured = NULL;
  g_autoptr (GpuStream) other = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuEvent) event = NULL;
  g_autoptr (GError) error = NULL;
  const guint8 value = 5;
  CUstream handle;
  TestHold *hold;
  GThread *thread;

  if (!find_driver (fixture) || !test_can_hold (fixture))
    return;

  captured = test_stream (fixture, GPU_STREAM_FLAGS_NON_BLOCKING);
  other = test_stream (fixture, GPU_STREAM_FLAGS_NON_BLOCKING);
  buffer = test_buffer (fixture, SIZE);
  hold = test_hold (other);
  test_assert_ok (gpu_stream_fill (other, GPU_MEMORY (buffer), 0, SIZE, &value, 1, &error), error);
  event = test_record (other);
  handle = begin (captured);
  run_in_threads (run_waits, event);
  /* With the handle of the program, gpu_stream_is_idle() asks the driver */
  g_assert_cmpuint (gpu_stream_get_native_handle (other), !=, 0);
  g_assert_false (gpu_stream_is_idle (other, &error));
  g_assert_no_error (error);
  thread = g_thread_new ("synchronize", run_synchronize, other);
  g_usleep (50000);                         /* longer than it polls */
  test_hold_release (hold);
  g_thread_join (thread);
  run_in_threads (run_wait, event);
  end (handle);
  test_hold_free (hold);
}

/* A stream is captured while earlier work of it is pending. Memory of that work that is dropped
 * during the capture is freed after it. */
static void
freed_afterwards (TestFixture *fixture)
{
  g_autoptr (GpuStream) stream = NULL;
  g_autoptr (GError) error = NULL;
  const guint8 value = 5;
  GpuBuffer *buffer;
  CUstream handle;
  TestHold *hold;
  guint64 size;

  if (!find_driver (fixture) || !test_can_hold (fixture))
    return;

  stream = test_stream (fixture, GPU_STREAM_FLAGS_NON_BLOCKING);
  buffer = test_buffer (fixture, SIZE);
  size = gpu_context_get_allocated_size (fixture->context);
  hold = test_hold (stream);
  test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (buffer), 0, SIZE, &value, 1, &error), error);
  handle = begin (stream);
  g_object_unref (buffer);
  test_hold_release (hold);
  end (handle);
  test_synchronize (stream);
  test_hold_free (hold);
  while (gpu_context_get_allocated_size (fixture->context) > size - SIZE)
    g_thread_yield ();
}

/* The last reference to a borrowed stream may be dropped while the stream is being captured. */
static void
borrowed (TestFixture *fixture)
{
  g_autoptr (GpuStream) stream = NULL;
  g_autoptr (GpuStream) wrapped = NULL;
  g_autoptr (GpuEvent) event = NULL;
  g_autoptr (GError) error = NULL;
  CUstream handle;

  if (!find_driver (fixture))
    return;

  stream = test_stream (fixture, GPU_STREAM_FLAGS_NON_BLOCKING);
  wrapped = gpu_stream_new_wrapped (fixture->context, gpu_stream_get_native_handle (stream),
                                    GPU_WRAP_MODE_BORROW, &error);
  g_assert_no_error (error);
  handle = begin (stream);
  event = test_record (wrapped);
  g_clear_object (&wrapped);
  assert_complete (event);
  end (handle);
  test_synchronize (stream);
}

static void
check_calls (TestFixture *fixture)
{
  g_autoptr (GpuStream) other = test_stream (fixture, GPU_STREAM_FLAGS_NON_BLOCKING);
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE, 7);
  g_autoptr (GpuEvent) event = NULL;
  g_autoptr (GError) error = NULL;
  guint64 before = GPUMEM_CUDA_DRIVER (get_count) ("cuStreamGetCaptureInfo*");
  guint8 byte = 0;

  test_assert_ok (gpu_buffer_fill (buffer, other, 0, SIZE, &byte, 1, NULL, &error), error);
  test_assert_ok (gpu_buffer_read (buffer, fixture->stream, 0, &byte, 1, NULL, &error), error);
  event = test_record (other);
  assert_complete (event);
  test_synchronize (other);
  g_assert_cmpuint (GPUMEM_CUDA_DRIVER (get_count) ("cuStreamGetCaptureInfo*"), ==, before);
}

/* As long as the program has no handle of a stream, nothing can be captured, so waits do not ask
 * the driver. */
static void
without_handles (TestFixture *fixture)
{
  if (!find_driver (fixture))
    return;
  if (gpumem_cuda_driver_symbol ("gpumem_cuda_driver_get_count") == NULL)
    {
      g_test_skip ("the driver counts no calls");
      return;
    }
  if (g_test_subprocess ())
    {
      check_calls (fixture);
      return;
    }

  g_test_trap_subprocess (NULL, TEST_DEADLINE * G_USEC_PER_SEC, G_TEST_SUBPROCESS_INHERIT_STDERR);
  g_test_trap_assert_passed ();
}

#endif

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
#ifdef HAVE_CUDA
  test_add ("refused", refused);
  test_add ("joined", joined);
  test_add ("waits-elsewhere", waits_elsewhere);
  test_add ("freed-afterwards", freed_afterwards);
  test_add ("borrowed", borrowed);
  test_add ("without-handles", without_handles);
#endif

  return test_run ();
}
