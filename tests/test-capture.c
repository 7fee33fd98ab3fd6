/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Streams that a program captures into CUDA graphs. The host cannot wait for captured work: events
 * and waits of such streams, and operations that the host waits for and that would follow captured
 * work, are refused with an error that names the stream. Waits for other streams, on any thread, do
 * not disturb a capture. Memory that captured work uses is not freed before the capture ends. The
 * stand-in for the driver ends a program that invalidates a capture. */
#include "config.h"

#ifdef HAVE_CUDA
#include "test-capture-util.h"
#endif
#include "test-image-util.h"
#include "test-pool-util.h"

#ifdef HAVE_CUDA

#include <gpumem/gpumem-bindings.h>

#define SIZE 65536
#define LARGE ((gsize) 4 << 20)     /* staged */
#define WRITTEN 100000
#define N_THREADS 3

static CUstream
begin_in_mode (GpuStream *stream, CUstreamCaptureMode mode)
{
  CUstream handle = test_get_cuda_stream (stream);

  test_capture_begin (handle, mode);
  return handle;
}

static CUstream
begin (GpuStream *stream)
{
  return begin_in_mode (stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

static void
end (CUstream handle)
{
  test_graph_destroy (test_capture_end (handle));
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

  if (!test_can_capture (fixture))
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

  if (!test_can_capture (fixture))
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

  if (!test_can_capture (fixture) || !test_can_hold (fixture))
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

static void
wait_for_size (TestFixture *fixture, guint64 size)
{
  while (gpu_context_get_allocated_size (fixture->context) > size)
    g_thread_yield ();
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

  if (!test_can_capture (fixture) || !test_can_hold (fixture))
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
  wait_for_size (fixture, size - SIZE);
}

/* An allocation that finds no memory trims the pool of the driver, also if memory was freed on a
 * stream that is being captured. */
static void
trimmed (TestFixture *fixture)
{
  g_autoptr (GpuStream) stream = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GError) error = NULL;
  CUstream handle;

  if (!test_can_capture (fixture))
    return;
  if (gpumem_cuda_driver_symbol ("gpumem_cuda_driver_set_fail") == NULL)
    {
      g_test_skip ("the driver has memory left");
      return;
    }

  stream = test_stream (fixture, GPU_STREAM_FLAGS_NON_BLOCKING);
  buffer = gpu_buffer_new_on_stream (stream, GPU_MEMORY_FLAGS_NONE, SIZE, &error);
  g_assert_no_error (error);
  g_clear_object (&buffer);
  test_synchronize (stream);
  handle = begin_in_mode (stream, CU_STREAM_CAPTURE_MODE_RELAXED);
  g_assert_true (GPUMEM_CUDA_DRIVER (set_fail) ("cuMemAlloc:1"));
  buffer = gpu_buffer_new (fixture->context, GPU_MEMORY_FLAGS_NONE, SIZE, &error);
  g_assert_true (GPUMEM_CUDA_DRIVER (set_fail) (""));
  g_assert_no_error (error);
  end (handle);
}

static void
check_wrapped (TestFixture *fixture)
{
  CUresult (*push) (CUcontext context) = gpumem_cuda_driver_symbol ("cuCtxPushCurrent_v2");
  CUresult (*pop) (CUcontext *context) = gpumem_cuda_driver_symbol ("cuCtxPopCurrent_v2");
  CUresult (*create) (CUstream *stream, unsigned int flags, int priority)
    = gpumem_cuda_driver_symbol ("cuStreamCreateWithPriority");
  CUresult (*destroy) (CUstream stream) = gpumem_cuda_driver_symbol ("cuStreamDestroy_v2");
  g_autoptr (GpuStream) wrapped = NULL;
  g_autoptr (GError) error = NULL;
  CUcontext context = (CUcontext) (gsize) gpu_context_get_native_handle (fixture->context);
  CUstream handle;

  g_assert_cmpuint (push (context), ==, 0);
  g_assert_cmpuint (create (&handle, CU_STREAM_NON_BLOCKING, 0), ==, 0);
  test_capture_begin (handle, CU_STREAM_CAPTURE_MODE_GLOBAL);
  wrapped = gpu_stream_new_wrapped (fixture->context, (gsize) handle, GPU_WRAP_MODE_BORROW, &error);
  g_assert_no_error (error);
  g_clear_object (&wrapped);
  end (handle);
  g_assert_cmpuint (destroy (handle), ==, 0);
  g_assert_cmpuint (pop (&context), ==, 0);
}

/* The first stream of the program that a process wraps may be capturing. */
static void
wrapped (TestFixture *fixture)
{
  if (!test_can_capture (fixture))
    return;
  if (g_test_subprocess ())
    {
      check_wrapped (fixture);
      return;
    }

  g_test_trap_subprocess (NULL, TEST_CHILD_TIMEOUT, G_TEST_SUBPROCESS_INHERIT_STDERR);
  g_test_trap_assert_passed ();
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

  if (!test_can_capture (fixture))
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

/* --- operations that the host waits for ------------------------------------------------------- */

typedef struct
{
  GpuStream *captured;
  GpuStream *other;                 /* the stream of the operations */
  GpuBuffer *buffer;                /* captured work uses it */
  GpuBuffer *unused;
  GBytes    *bytes;
  CUstream   handle;                /* of `captured` */
  guint64    n_copies;              /* that the driver was asked for */
} Join;

/* 0 unless the driver is the stand-in */
static guint64
count (const char *function)
{
  __typeof__ (&gpumem_cuda_driver_get_count) get_count = GPUMEM_CUDA_DRIVER (get_count);

  return get_count != NULL ? get_count (function) : 0;
}

/* Begins a capture with work that writes the buffer, or reads it if @reads is set. */
static void
join_init (Join *join, TestFixture *fixture, gboolean reads)
{
  g_autoptr (GError) error = NULL;
  const guint8 value = 9;

  join->captured = test_stream (fixture, GPU_STREAM_FLAGS_NON_BLOCKING);
  join->other = test_stream (fixture, GPU_STREAM_FLAGS_NON_BLOCKING);
  join->buffer = test_buffer_filled (fixture, LARGE, 7);
  join->unused = test_buffer_filled (fixture, LARGE, 8);
  join->bytes = test_random_bytes (LARGE);
  test_assert_ok (gpu_context_synchronize (fixture->context, &error), error);
  join->handle = begin (join->captured);
  if (reads)
    test_assert_ok (gpu_stream_copy (join->captured, GPU_MEMORY (join->unused), 0,
                                     GPU_MEMORY (join->buffer), 0, LARGE, &error), error);
  else
    test_assert_ok (gpu_stream_fill (join->captured, GPU_MEMORY (join->buffer), 0, LARGE, &value,
                                     1, &error), error);
  join->n_copies = count ("cuMem[cs]*");
}

static void
join_clear (Join *join)
{
  g_clear_object (&join->captured);
  g_clear_object (&join->other);
  g_clear_object (&join->buffer);
  g_clear_object (&join->unused);
  g_clear_pointer (&join->bytes, g_bytes_unref);
}

/* The error names the captured stream. The other stream has not joined the capture, and the graph
 * does not contain the operation. */
static void
check_refused (Join *join, const char *function, GError **error)
{
  g_autofree char *name = g_strdup_printf ("stream %p is being captured",
                                           (gpointer) join->handle);

  test_assert_gpu_error (*error, GPU_ERROR_NOT_SUPPORTED, function, name);
  g_clear_error (error);
  if (join->other != join->captured)
    g_assert_false (test_is_capturing (test_get_cuda_stream (join->other)));
  g_assert_cmpuint (count ("cuMem[cs]*"), ==, join->n_copies);
}

static void
assert_filled (GBytes *bytes, guint8 value)
{
  gsize size;
  const guint8 *data = g_bytes_get_data (bytes, &size);

  for (gsize i = 0; i < size; i++)
    g_assert_cmpuint (data[i], ==, value);
}

static gboolean
submit_fill (gpointer data, GError **error)
{
  const Join *join = data;
  const guint8 byte = 1;

  return gpu_stream_fill (join->other, GPU_MEMORY (join->buffer), 0, LARGE, &byte, 1, error);
}

static void
check_blocking (Join *join)
{
  g_autoptr (GCancellable) cancellable = g_cancellable_new ();
  g_autoptr (GpuEvent) event = NULL;
  g_autoptr (GError) error = NULL;
  const guint8 pattern[2048] = { 1 };           /* longer than those of the driver's fills */
  guint8 byte = 1;

  g_assert_false (gpu_buffer_read (join->buffer, join->other, 0, &byte, 1, NULL, &error));
  check_refused (join, "gpu_buffer_read", &error);
  g_assert_false (gpu_buffer_write (join->buffer, join->other, 0, &byte, 1, NULL, &error));
  check_refused (join, "gpu_buffer_write", &error);
  g_assert_null (gpu_buffer_read_bytes (join->buffer, join->other, 0, LARGE, cancellable,
                                        &error));
  check_refused (join, "gpu_buffer_read_bytes", &error);
  g_assert_false (gpu_buffer_write_bytes (join->buffer, join->other, 0, join->bytes, cancellable,
                                          &error));
  check_refused (join, "gpu_buffer_write_bytes", &error);
  g_assert_false (gpu_buffer_fill (join->buffer, join->other, 0, LARGE, &byte, 1, NULL, &error));
  check_refused (join, "gpu_buffer_fill", &error);
  g_assert_false (gpu_buffer_copy (join->unused, join->other, 0, join->buffer, 0, LARGE, NULL,
                                   &error));
  check_refused (join, "gpu_buffer_copy", &error);
  g_assert_false (gpu_stream_fill (join->other, GPU_MEMORY (join->buffer), 0, LARGE, pattern,
                                   sizeof pattern, &error));
  check_refused (join, "gpu_stream_fill", &error);
  g_assert_false (_gpu_binding_submit (join->other, submit_fill, join, &event, &error));
  check_refused (join, join->other == join->captured ? "gpu_stream_record" : "gpu_stream_fill",
                 &error);
  g_assert_null (event);
}

static void
check_async (Join *join)
{
  const gsize sizes[] = { 1, SIZE, LARGE };
  g_autoptr (GAsyncResult) result = NULL;
  g_autoptr (GError) error = NULL;

  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    {
      gpu_buffer_read_bytes_async (join->buffer, join->other, 0, sizes[i], NULL, NULL, NULL, NULL,
                                   test_take_result, &result);
      g_assert_null (gpu_buffer_read_bytes_finish (join->buffer, test_await (&result), &error));
      g_clear_object (&result);
      check_refused (join, "gpu_buffer_read_bytes_async", &error);
    }

  gpu_buffer_write_bytes_async (join->buffer, join->other, 0, join->bytes, NULL, NULL, NULL, NULL,
                                test_take_result, &result);
  g_assert_false (gpu_buffer_write_bytes_finish (join->buffer, test_await (&result), &error));
  g_clear_object (&result);
  check_refused (join, "gpu_buffer_write_bytes_async", &error);
  gpu_buffer_copy_async (join->unused, join->other, 0, join->buffer, 0, LARGE, NULL,
                         test_take_result, &result);
  g_assert_false (gpu_buffer_copy_finish (join->unused, test_await (&result), &error));
  g_clear_object (&result);
  check_refused (join, "gpu_buffer_copy_async", &error);
}

static void
check_array (Join *join)
{
  g_autoptr (GCancellable) cancellable = g_cancellable_new ();
  g_autoptr (GpuArray) array = NULL;
  g_autoptr (GAsyncResult) result = NULL;
  g_autoptr (GError) error = NULL;
  const gssize shape = LARGE;

  array = gpu_array_new_for_memory (GPU_MEMORY (join->buffer), 0, GPU_DTYPE_UINT8, &shape, 1, NULL,
                                    0, &error);
  g_assert_no_error (error);
  g_assert_null (gpu_array_read_bytes (array, join->other, GPU_ARRAY_ORDER_C, cancellable,
                                       &error));
  check_refused (join, "gpu_array_read_bytes", &error);
  gpu_array_read_bytes_async (array, join->other, GPU_ARRAY_ORDER_C, NULL, test_take_result,
                              &result);
  g_assert_null (gpu_array_read_bytes_finish (array, test_await (&result), &error));
  g_clear_object (&result);
  check_refused (join, "gpu_array_read_bytes_async", &error);
  gpu_array_write_bytes_async (array, join->other, GPU_ARRAY_ORDER_C, join->bytes, NULL,
                               test_take_result, &result);
  g_assert_false (gpu_array_write_bytes_finish (array, test_await (&result), &error));
  g_clear_object (&result);
  check_refused (join, "gpu_array_write_bytes_async", &error);
}

static void
check_io (Join *join)
{
  g_autoptr (GInputStream) input = NULL;
  g_autoptr (GFile) zeros = g_file_new_for_path ("/dev/zero");
  g_autoptr (GpuFile) file = NULL;
  g_autoptr (GAsyncResult) result = NULL;
  g_autoptr (GError) error = NULL;
  guint8 byte;

  input = gpu_input_stream_new (GPU_MEMORY (join->buffer), join->other, 0, LARGE, &error);
  g_assert_no_error (error);
  g_assert_cmpint (g_input_stream_read (input, &byte, 1, NULL, &error), ==, -1);
  check_refused (join, "gpu_input_stream", &error);

  file = gpu_file_open (zeros, GPU_FILE_FLAGS_READ, &error);
  g_assert_no_error (error);
  g_assert_false (gpu_stream_read_file (join->other, GPU_MEMORY (join->buffer), 0, file, 0, LARGE,
                                        NULL, &error));
  check_refused (join, "gpu_stream_read_file", &error);
  gpu_memory_read_file_async (GPU_MEMORY (join->buffer), join->other, 0, file, 0, LARGE, NULL,
                              NULL, NULL, NULL, test_take_result, &result);
  g_assert_false (gpu_memory_read_file_finish (GPU_MEMORY (join->buffer), test_await (&result),
                                               &error));
  g_clear_object (&result);
  check_refused (join, "gpu_memory_read_file_async", &error);
}

/* The host waits for these operations, on other streams and on the captured one. It would never see
 * their results. Work with other memory, and the same operations after the capture, succeed. */
static void
waits_refused (TestFixture *fixture)
{
  if (!test_can_capture (fixture))
    return;

  for (guint i = 0; i < 2; i++)
    {
      Join join = { NULL };
      g_autoptr (GpuStream) idle = test_stream (fixture, GPU_STREAM_FLAGS_NON_BLOCKING);
      g_autoptr (GBytes) read = NULL;
      g_autoptr (GError) error = NULL;

      join_init (&join, fixture, FALSE);
      if (i == 1)
        g_set_object (&join.other, join.captured);
      check_blocking (&join);
      check_async (&join);
      check_array (&join);
      check_io (&join);
      read = gpu_buffer_read_bytes (join.unused, idle, 0, LARGE, NULL, &error);
      g_assert_no_error (error);
      assert_filled (read, 8);
      end (join.handle);

      test_assert_ok (gpu_buffer_write_bytes (join.buffer, join.other, 0, join.bytes, NULL,
                                              &error), error);
      test_assert_content (join.buffer, join.bytes);
      join_clear (&join);
    }
}

/* A read does not wait for captured reads, so it succeeds. A write would wait for them. */
static void
reads_beside_reads (TestFixture *fixture)
{
  Join join = { NULL };
  g_autoptr (GBytes) read = NULL;
  g_autoptr (GAsyncResult) result = NULL;
  g_autoptr (GError) error = NULL;

  if (!test_can_capture (fixture))
    return;

  join_init (&join, fixture, TRUE);
  gpu_buffer_write_bytes_async (join.buffer, join.other, 0, join.bytes, NULL, NULL, NULL, NULL,
                                test_take_result, &result);
  g_assert_false (gpu_buffer_write_bytes_finish (join.buffer, test_await (&result), &error));
  g_clear_object (&result);
  check_refused (&join, "gpu_buffer_write_bytes_async", &error);
  gpu_buffer_read_bytes_async (join.buffer, join.other, 0, LARGE, NULL, NULL, NULL, NULL,
                               test_take_result, &result);
  read = gpu_buffer_read_bytes_finish (join.buffer, test_await (&result), &error);
  g_assert_no_error (error);
  assert_filled (read, 7);
  end (join.handle);
  join_clear (&join);
}

/* Memory that the host maps on another stream */
static void
maps_refused (TestFixture *fixture)
{
  Join join = { NULL };
  g_autoptr (GpuHostMemory) memory = NULL;
  g_autoptr (GError) error = NULL;
  const guint8 value = 9;

  if (!test_can_capture (fixture))
    return;

  memory = gpu_host_memory_new (fixture->context, GPU_HOST_MEMORY_FLAGS_NONE, SIZE, &error);
  g_assert_no_error (error);
  join_init (&join, fixture, FALSE);
  test_assert_ok (gpu_stream_fill (join.captured, GPU_MEMORY (memory), 0, SIZE, &value, 1, &error),
                  error);
  join.n_copies = count ("cuMem[cs]*");
  for (guint i = 0; i < 2; i++)
    {
      g_assert_null (gpu_stream_map (join.other, GPU_MEMORY (memory), GPU_MAP_FLAGS_READ, 0, SIZE,
                                     &error));
      check_refused (&join, "gpu_stream_map", &error);
      g_set_object (&join.other, join.captured);
    }
  end (join.handle);
  join_clear (&join);
}

static void
check_image_maps (Join *join, GpuImage *image)
{
  g_autoptr (GAsyncResult) result = NULL;
  g_autoptr (GError) error = NULL;

  g_assert_null (gpu_image_map (image, join->other, GPU_MAP_FLAGS_READ, NULL, NULL, NULL, &error));
  check_refused (join, "gpu_image_map", &error);
  gpu_image_map_async (image, join->other, GPU_MAP_FLAGS_WRITE, NULL, NULL, NULL, test_take_result,
                       &result);
  g_assert_null (gpu_image_map_finish (image, test_await (&result), &error));
  check_refused (join, "gpu_image_map_async", &error);
  g_assert_null (gpu_stream_map_image (join->other, image, GPU_MAP_FLAGS_READ, NULL, NULL,
                                       &error));
  check_refused (join, "gpu_stream_map_image", &error);
}

static void
check_image (Join *join, GpuImage *image)
{
  const GpuColor color = { 1, 1, 1, 1 };
  g_autofree guint8 *data = g_malloc0 (LARGE);
  g_autoptr (GAsyncResult) result = NULL;
  g_autoptr (GError) error = NULL;

  g_assert_false (gpu_image_read (image, join->other, NULL, NULL, data, 0, 0, NULL, &error));
  check_refused (join, "gpu_image_read", &error);
  g_assert_false (gpu_image_write (image, join->other, NULL, NULL, data, 0, 0, NULL, &error));
  check_refused (join, "gpu_image_write", &error);
  g_assert_false (gpu_image_fill (image, join->other, &color, NULL, NULL, NULL, &error));
  check_refused (join, "gpu_image_fill", &error);
  g_assert_null (gpu_image_read_bytes (image, join->other, NULL, NULL, NULL, &error));
  check_refused (join, "gpu_image_read_bytes", &error);
  g_assert_false (gpu_image_write_bytes (image, join->other, NULL, NULL, join->bytes, 0, 0, NULL,
                                         &error));
  check_refused (join, "gpu_image_write_bytes", &error);

  gpu_image_read_bytes_async (image, join->other, NULL, NULL, NULL, test_take_result, &result);
  g_assert_null (gpu_image_read_bytes_finish (image, test_await (&result), &error));
  g_clear_object (&result);
  check_refused (join, "gpu_image_read_bytes_async", &error);
  gpu_image_write_bytes_async (image, join->other, NULL, NULL, join->bytes, 0, 0, NULL,
                               test_take_result, &result);
  g_assert_false (gpu_image_write_bytes_finish (image, test_await (&result), &error));
  check_refused (join, "gpu_image_write_bytes_async", &error);
  check_image_maps (join, image);
}

/* Images that captured work writes, on other streams and on the captured one. */
static void
images_refused (TestFixture *fixture)
{
  const GpuImageFormat format = { GPU_CHANNEL_ORDER_R, GPU_CHANNEL_TYPE_UINT32 };
  const GpuExtent extent = { 1024, LARGE / 4096, 1 };
  const GpuLayout packed = { 0, 0, 0, 4096, 0 };

  if (!test_can_capture (fixture) || !test_has (fixture, GPU_CAPABILITIES_IMAGES))
    return;

  for (guint i = 0; i < 2; i++)
    {
      Join join = { NULL };
      g_autoptr (GpuImage) image = NULL;
      g_autoptr (GBytes) bytes = test_random_bytes (LARGE);
      g_autoptr (GError) error = NULL;

      image = test_image_from (fixture, &format, GPU_IMAGE_TYPE_IMAGE_2D, extent, bytes);
      join_init (&join, fixture, FALSE);
      test_copy_region (join.captured, image, NULL, join.buffer, &packed, extent);
      join.n_copies = count ("cuMem[cs]*");
      if (i == 1)
        g_set_object (&join.other, join.captured);
      check_image (&join, image);
      end (join.handle);

      test_assert_texels (image, bytes);
      test_assert_ok (gpu_image_write_bytes (image, join.other, NULL, NULL, join.bytes, 0, 0, NULL,
                                             &error), error);
      test_assert_texels (image, join.bytes);
      join_clear (&join);
    }
}

/* Threads of the library take part in copies between drivers, with either stream. */
static void
drivers_refused (TestFixture *fixture)
{
  Join join = { NULL };
  g_autoptr (GpuDevice) device = NULL;
  g_autoptr (GpuContext) context = NULL;
  g_autoptr (GpuStream) stream = NULL;
  g_autoptr (GpuBuffer) far = NULL;
  g_autoptr (GError) error = NULL;

  if (!test_can_capture (fixture))
    return;

  device = gpu_device_find ("host", &error);
  g_assert_no_error (error);
  context = gpu_context_new (device, GPU_CONTEXT_FLAGS_NONE, &error);
  g_assert_no_error (error);
  stream = gpu_stream_new (context, GPU_STREAM_FLAGS_NONE, &error);
  g_assert_no_error (error);
  far = gpu_buffer_new (context, GPU_MEMORY_FLAGS_NONE, LARGE, &error);
  g_assert_no_error (error);
  join_init (&join, fixture, FALSE);

  g_assert_false (gpu_stream_copy (join.other, GPU_MEMORY (far), 0, GPU_MEMORY (join.buffer), 0,
                                   LARGE, &error));
  check_refused (&join, "gpu_stream_copy", &error);
  g_assert_false (gpu_stream_copy (stream, GPU_MEMORY (join.buffer), 0, GPU_MEMORY (far), 0, LARGE,
                                   &error));
  check_refused (&join, "gpu_stream_copy", &error);
  g_assert_false (gpu_buffer_copy (far, stream, 0, join.buffer, 0, LARGE, NULL, &error));
  check_refused (&join, "gpu_buffer_copy", &error);
  g_set_object (&join.other, join.captured);
  g_assert_false (gpu_stream_copy (join.captured, GPU_MEMORY (far), 0, GPU_MEMORY (join.unused), 0,
                                   LARGE, &error));
  check_refused (&join, "gpu_stream_copy", &error);
  end (join.handle);

  test_assert_ok (gpu_buffer_copy (far, stream, 0, join.buffer, 0, LARGE, NULL, &error), error);
  join_clear (&join);
}

/* Methods of streams are work of the device, so they join a capture. A copy of pageable memory is
 * not staged then, because a graph cannot repeat the work of threads. */
static void
joined_by_memory (TestFixture *fixture)
{
  Join join = { NULL };
  g_autofree guint8 *data = g_malloc (LARGE);
  g_autoptr (GpuEvent) event = NULL;
  g_autoptr (GError) error = NULL;

  if (!test_can_capture (fixture))
    return;

  join_init (&join, fixture, FALSE);
  test_assert_ok (gpu_stream_read (join.other, GPU_MEMORY (join.buffer), 0, data, LARGE, &error),
                  error);
  g_assert_true (test_is_capturing (test_get_cuda_stream (join.other)));
  event = test_record (join.other);
  test_assert_ok (gpu_stream_wait_event (join.captured, event, &error), error);
  end (join.handle);

  test_assert_ok (gpu_stream_read (join.other, GPU_MEMORY (join.buffer), 0, data, LARGE, &error),
                  error);
  test_synchronize (join.other);
  for (gsize i = 0; i < LARGE; i++)
    g_assert_cmpuint (data[i], ==, 7);
  join_clear (&join);
}

/* Copies into pageable memory, on the captured stream and on a stream that joins the capture. An
 * earlier copy has been staged, so the back end waits for streams before it copies such memory. A
 * graph cannot fill such memory. */
static void
pageable (TestFixture *fixture)
{
  Join join = { NULL };
  const guint8 byte = 3;
  g_autoptr (GpuHostMemory) memory = NULL;
  g_autoptr (GpuBuffer) staged = NULL;
  g_autoptr (GpuEvent) event = NULL;
  g_autoptr (GError) error = NULL;

  if (!test_can_capture (fixture))
    return;

  memory = gpu_host_memory_new_aligned (fixture->context, 64, LARGE, &error);
  g_assert_no_error (error);
  memset (gpu_host_memory_get_data (memory), 9, LARGE);
  staged = test_buffer (fixture, LARGE);
  test_assert_ok (gpu_stream_copy (fixture->stream, GPU_MEMORY (staged), 0, GPU_MEMORY (memory), 0,
                                   LARGE, &error), error);
  join_init (&join, fixture, FALSE);
  for (guint i = 0; i < 2; i++)
    {
      GpuStream *stream = i == 0 ? join.captured : join.other;

      test_assert_ok (gpu_stream_copy (stream, GPU_MEMORY (memory), 0, GPU_MEMORY (join.buffer), 0,
                                       LARGE, &error), error);
      g_assert_true (test_is_capturing (test_get_cuda_stream (stream)));
      g_assert_false (gpu_stream_fill (stream, GPU_MEMORY (memory), 0, LARGE, &byte, 1, &error));
      test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_stream_fill", "pageable");
      g_clear_error (&error);
    }
  event = test_record (join.other);
  test_assert_ok (gpu_stream_wait_event (join.captured, event, &error), error);
  end (join.handle);

  test_assert_ok (gpu_stream_copy (join.other, GPU_MEMORY (memory), 0, GPU_MEMORY (join.buffer), 0,
                                   LARGE, &error), error);
  test_synchronize (join.other);
  for (gsize i = 0; i < LARGE; i++)
    g_assert_cmpuint (((guint8 *) gpu_host_memory_get_data (memory))[i], ==, 7);
  join_clear (&join);
}

/* The library copies such a write to page-locked memory if the stream has pending work, but neither
 * queries a captured stream nor gives a graph memory that later writes change. */
static void
written (TestFixture *fixture)
{
  g_autoptr (GpuStream) stream = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GBytes) bytes = NULL;
  g_autoptr (GError) error = NULL;
  CUstream handle;

  if (!test_can_capture (fixture))
    return;

  stream = test_stream (fixture, GPU_STREAM_FLAGS_NON_BLOCKING);
  buffer = test_buffer_filled (fixture, WRITTEN, 1);
  bytes = g_bytes_new_take (g_malloc0 (WRITTEN), WRITTEN);
  handle = begin (stream);
  for (guint i = 0; i < 2; i++)
    {
      test_assert_ok (gpu_stream_write (stream, GPU_MEMORY (buffer), 0, bytes, &error), error);
      test_assert_ok (gpu_stream_write_region (stream, GPU_MEMORY (buffer), NULL, bytes, NULL,
                                               &(GpuExtent) { WRITTEN / 10, 10, 1 }, &error),
                      error);
      g_assert_true (test_is_capturing (handle));
    }
  end (handle);
}

static void
fill_again (gpointer buffer)
{
  g_autoptr (GError) error = NULL;

  test_assert_ok (gpu_buffer_fill (buffer, NULL, 0, SIZE, "\4", 1, NULL, &error), error);
  g_object_unref (buffer);
}

/* The data of a stream that was dropped during its capture are freed when another stream uses the
 * same memory. Their free function may use the memory as well. */
static void
dropped (TestFixture *fixture)
{
  g_autoptr (GpuStream) other = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GBytes) content = test_value_bytes (SIZE, 4);
  g_autoptr (GError) error = NULL;
  GpuStream *stream;
  GBytes *bytes;
  CUstream handle;
  guint64 n_queries;

  if (!test_can_capture (fixture))
    return;

  stream = test_stream (fixture, GPU_STREAM_FLAGS_NON_BLOCKING);
  other = test_stream (fixture, GPU_STREAM_FLAGS_NON_BLOCKING);
  buffer = test_buffer_filled (fixture, SIZE, 1);
  bytes = g_bytes_new_with_free_func (g_bytes_get_data (content, NULL), SIZE, fill_again,
                                      g_object_ref (buffer));
  handle = begin (stream);
  test_assert_ok (gpu_stream_write (stream, GPU_MEMORY (buffer), 0, bytes, &error), error);
  g_bytes_unref (bytes);
  n_queries = count ("cuStreamGetCaptureInfo*");
  g_object_unref (stream);
  while (n_queries > 0 && count ("cuStreamGetCaptureInfo*") == n_queries)
    g_thread_yield ();              /* until the collection sees the capture */
  end (handle);
  test_assert_ok (gpu_stream_fill (other, GPU_MEMORY (buffer), 0, SIZE, "\3", 1, &error), error);
  test_synchronize (other);
  while (g_atomic_int_get ((gint *) &((GObject *) buffer)->ref_count) > 1)
    g_thread_yield ();
  test_assert_ok (gpu_buffer_fill (buffer, NULL, 0, SIZE, "\4", 1, NULL, &error), error);
  test_assert_content (buffer, content);
}

/* Unmaps memory while its stream is being captured. The device gets the bytes of the host at once,
 * not when the graph runs. Later mappings do not disturb the capture. */
static void
unmapped (TestFixture *fixture)
{
  g_autoptr (GpuStream) stream = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuBuffer) second = NULL;
  g_autoptr (GpuMapping) mapping = NULL;
  g_autoptr (GpuMapping) other = NULL;
  g_autoptr (GBytes) content = NULL;
  g_autoptr (GError) error = NULL;
  CUstream handle;

  if (!test_can_capture (fixture))
    return;

  stream = test_stream (fixture, GPU_STREAM_FLAGS_NON_BLOCKING);
  buffer = test_buffer_filled (fixture, SIZE, 1);
  second = test_buffer_filled (fixture, SIZE, 2);
  mapping = gpu_buffer_map (buffer, stream, GPU_MAP_FLAGS_WRITE, 0, SIZE, NULL, &error);
  g_assert_no_error (error);
  memset (gpu_mapping_get_data (mapping), 7, SIZE);

  handle = begin (stream);
  g_clear_object (&mapping);
  other = gpu_buffer_map (second, NULL, GPU_MAP_FLAGS_WRITE, 0, SIZE, NULL, &error);
  g_assert_no_error (error);
  memset (gpu_mapping_get_data (other), 8, SIZE);
  end (handle);

  content = gpu_buffer_read_bytes (buffer, NULL, 0, SIZE, NULL, &error);
  g_assert_no_error (error);
  assert_filled (content, 7);
}

/* The driver does not report whether the stream is being captured. The bytes are then not copied in
 * the stream, because the graph might contain the copy. */
static void
unmapped_unknown (TestFixture *fixture)
{
  g_autoptr (GpuStream) stream = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuMapping) mapping = NULL;
  g_autoptr (GBytes) content = NULL;
  g_autoptr (GError) error = NULL;
  CUstream handle;
  guint64 n_asked;

  if (!test_can_capture (fixture))
    return;
  if (gpumem_cuda_driver_symbol ("gpumem_cuda_driver_set_fail") == NULL)
    {
      g_test_skip ("the driver has no faults");
      return;
    }

  stream = test_stream (fixture, GPU_STREAM_FLAGS_NON_BLOCKING);
  buffer = test_buffer_filled (fixture, SIZE, 1);
  mapping = gpu_buffer_map (buffer, stream, GPU_MAP_FLAGS_WRITE, 0, SIZE, NULL, &error);
  g_assert_no_error (error);
  memset (gpu_mapping_get_data (mapping), 7, SIZE);

  handle = begin (stream);
  n_asked = count ("cuStreamGetCaptureInfo*");
  g_assert_true (GPUMEM_CUDA_DRIVER (set_fail) ("cuStreamGetCaptureInfo*:1"));
  g_clear_object (&mapping);
  g_assert_true (GPUMEM_CUDA_DRIVER (set_fail) (""));
  g_assert_cmpuint (count ("cuStreamGetCaptureInfo*"), ==, n_asked + 1);
  end (handle);

  content = gpu_buffer_read_bytes (buffer, NULL, 0, SIZE, NULL, &error);
  g_assert_no_error (error);
  assert_filled (content, 7);
}

/* --- memory that captured work uses ----------------------------------------------------------- */

static void
check_spill (TestFixture *fixture, GpuMemoryPool *pool)
{
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NON_BLOCKING);
  g_autoptr (GpuBuffer) copy = test_buffer (fixture, SIZE);
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  g_autoptr (GError) error = NULL;
  CUstream handle;

  buffer = pool != NULL ? test_pool_take (pool, SIZE, stream) : test_buffer (fixture, SIZE);
  test_assert_ok (gpu_buffer_write_bytes (buffer, stream, 0, bytes, NULL, &error), error);
  test_assert_ok (gpu_context_synchronize (fixture->context, &error), error);
  handle = begin (stream);
  test_assert_ok (gpu_stream_copy (stream, GPU_MEMORY (copy), 0, GPU_MEMORY (buffer), 0, SIZE,
                                   &error), error);
  g_assert_false (gpu_buffer_spill (buffer, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_buffer_spill", "captured");
  g_assert_cmpuint (test_get_number (buffer, "spilled"), ==, FALSE);
  test_assert_content (buffer, bytes);
  end (handle);

  test_assert_ok (gpu_buffer_spill (buffer, NULL, &error), error);
  g_assert_cmpuint (test_get_number (buffer, "spilled"), ==, TRUE);
  test_assert_content (buffer, bytes);
}

/* A thread of the library may free the chunks of the previous pool. Waits for that: the stand-in
 * refuses to unmap memory during a capture. */
static void
wait_until_unmapped (void)
{
  while (gpumem_cuda_driver_symbol ("gpumem_cuda_driver_get_live") != NULL
         && GPUMEM_CUDA_DRIVER (get_live) ("mapped memory") > 0)
    g_thread_yield ();
}

static void
check_spill_alone (TestFixture *fixture, GpuMemoryPool *pool)
{
  wait_until_unmapped ();
  check_spill (fixture, pool);
}

static void
spill_refused (TestFixture *fixture)
{
  if (!test_can_capture (fixture))
    return;

  test_pool_each_kind (fixture, check_spill_alone);
}

/* The last reference to memory is dropped while work that uses it is captured. */
static void
released (TestFixture *fixture)
{
  Join join = { NULL };
  guint64 size;

  if (!test_can_capture (fixture))
    return;

  join_init (&join, fixture, TRUE);
  size = gpu_context_get_allocated_size (fixture->context);
  g_clear_object (&join.buffer);
  g_usleep (20000);
  g_assert_cmpuint (gpu_context_get_allocated_size (fixture->context), ==, size);
  end (join.handle);
  test_synchronize (join.captured);
  wait_for_size (fixture, size - LARGE);
  join_clear (&join);
}

/* A graph does not free memory that it has not allocated. */
static void
released_in_order (TestFixture *fixture)
{
  g_autoptr (GpuStream) stream = NULL;
  g_autoptr (GError) error = NULL;
  GpuBuffer *buffer;
  CUstream handle;
  guint64 size;

  if (!test_can_capture (fixture) || !test_has (fixture, GPU_CAPABILITIES_STREAM_ORDERED))
    return;

  stream = test_stream (fixture, GPU_STREAM_FLAGS_NON_BLOCKING);
  size = gpu_context_get_allocated_size (fixture->context);
  buffer = gpu_buffer_new_on_stream (stream, GPU_MEMORY_FLAGS_NONE, SIZE, &error);
  g_assert_no_error (error);
  handle = begin (stream);
  g_object_unref (buffer);
  end (handle);
  test_synchronize (stream);
  wait_for_size (fixture, size);
}

/* --- the driver ------------------------------------------------------------------------------- */

/* The driver fails to change the capture mode of the thread. The library does not restore a mode
 * that the thread did not have. */
static void
mode_kept (TestFixture *fixture)
{
  CUresult (*exchange) (CUstreamCaptureMode *mode)
    = gpumem_cuda_driver_symbol ("cuThreadExchangeStreamCaptureMode");
  __typeof__ (&gpumem_cuda_driver_set_fail) set_fail = GPUMEM_CUDA_DRIVER (set_fail);
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  g_autoptr (GpuStream) stream = NULL;
  g_autoptr (GError) error = NULL;
  guint64 n_exchanges;

  if (!test_can_capture (fixture))
    return;
  if (set_fail == NULL)
    {
      g_test_skip ("the driver has no faults");
      return;
    }

  stream = test_stream (fixture, GPU_STREAM_FLAGS_NON_BLOCKING);
  g_assert_nonnull (test_get_cuda_stream (stream));
  n_exchanges = count ("cuThreadExchangeStreamCaptureMode");
  g_assert_true (set_fail ("cuThreadExchangeStreamCaptureMode:1"));
  g_assert_true (gpu_stream_is_idle (stream, &error));
  g_assert_no_error (error);
  set_fail ("");
  g_assert_cmpuint (count ("cuThreadExchangeStreamCaptureMode"), ==, n_exchanges + 1);
  g_assert_cmpuint (exchange (&mode), ==, 0);
  g_assert_cmpuint (mode, ==, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

/* --- pools that grow during a capture --------------------------------------------------------- */

/* Memory that was freed in the captured stream is neither used nor awaited before the capture has
 * ended. Memory that was freed in another stream does not become a part of the graph. */
static void
grow_during_capture (TestFixture *fixture, GpuMemoryPool *pool)
{
  g_autoptr (GpuStream) captured = test_stream (fixture, GPU_STREAM_FLAGS_NON_BLOCKING);
  g_autoptr (GpuStream) other = test_stream (fixture, GPU_STREAM_FLAGS_NON_BLOCKING);
  g_autoptr (GPtrArray) taken = g_ptr_array_new_with_free_func (g_object_unref);
  GpuStream *const streams[] = { NULL, other, NULL, other };
  GpuBuffer *buffer;
  CUstream handle;
  guint64 freed;

  wait_until_unmapped ();
  handle = begin (captured);
  buffer = test_pool_take (pool, SIZE, captured);
  freed = gpu_memory_get_native_handle (GPU_MEMORY (buffer));
  g_object_unref (buffer);

  for (guint i = 0; i < G_N_ELEMENTS (streams); i++)
    {
      guint64 address;

      buffer = test_pool_take (pool, SIZE, streams[i]);
      address = gpu_memory_get_native_handle (GPU_MEMORY (buffer));
      g_assert_true (address >= freed + SIZE || freed >= address + SIZE);
      g_ptr_array_add (taken, buffer);
    }

  g_ptr_array_set_size (taken, 0);

  for (guint i = 0; i < G_N_ELEMENTS (streams); i++)
    g_ptr_array_add (taken, test_pool_take (pool, SIZE, captured));

  g_assert_true (test_is_capturing (handle));
  end (handle);
}

static void
pool_grows (TestFixture *fixture)
{
  if (!test_can_capture (fixture))
    return;

  for (guint kind = GPU_MEMORY_POOL_EXPANDABLE; kind <= GPU_MEMORY_POOL_BINS; kind++)
    {
      g_autoptr (GpuMemoryPool) pool = test_pool (fixture, kind);

      if (pool != NULL)
        grow_during_capture (fixture, pool);
    }
}

/* --- calls that the driver refuses ------------------------------------------------------------ */

/* Memory of expandable pools is unmapped, which the stand-in refuses during captures. */
static void
use_pool (TestFixture *fixture)
{
  g_autoptr (GpuMemoryPool) pool = test_pool (fixture, GPU_MEMORY_POOL_SEGMENTS);
  g_autoptr (GpuBuffer) first = test_pool_take (pool, SIZE, NULL);
  g_autoptr (GpuBuffer) second = test_pool_take (pool, SIZE, fixture->stream);

  g_clear_object (&first);
  g_clear_object (&second);
  test_synchronize (fixture->stream);
  gpu_memory_pool_trim (pool, 0);
}

static void
use_memory (TestFixture *fixture, GpuMemory *memory)
{
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  g_autoptr (GError) error = NULL;
  guint8 *data = g_malloc (SIZE);

  test_assert_ok (gpu_stream_write (fixture->stream, memory, 0, bytes, &error), error);
  test_assert_ok (gpu_stream_read (fixture->stream, memory, 0, data, SIZE, &error), error);
  test_synchronize (fixture->stream);
  g_assert_cmpmem (data, SIZE, g_bytes_get_data (bytes, NULL), SIZE);
  g_free (data);
}

/* Creates memory, uses and frees it. */
static void
use_memories (TestFixture *fixture)
{
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
  g_autoptr (GpuBuffer) ordered = NULL;
  g_autoptr (GpuHostMemory) locked = NULL;
  g_autoptr (GpuSvm) svm = NULL;
  g_autoptr (GError) error = NULL;

  ordered = gpu_buffer_new_on_stream (fixture->stream, GPU_MEMORY_FLAGS_NONE, SIZE, &error);
  g_assert_no_error (error);
  locked = gpu_host_memory_new (fixture->context, GPU_HOST_MEMORY_FLAGS_NONE, SIZE, &error);
  g_assert_no_error (error);
  svm = gpu_svm_new (fixture->context, GPU_MEMORY_FLAGS_NONE, GPU_SVM_FLAGS_NONE, SIZE, 0, &error);
  g_assert_no_error (error);
  use_memory (fixture, GPU_MEMORY (buffer));
  use_memory (fixture, GPU_MEMORY (ordered));
  use_memory (fixture, GPU_MEMORY (locked));
  use_memory (fixture, GPU_MEMORY (svm));
}

static void
use_image (TestFixture *fixture)
{
  const GpuImageFormat format = { GPU_CHANNEL_ORDER_RGBA, GPU_CHANNEL_TYPE_UINT8 };
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  g_autoptr (GpuImage) image = test_image_from (fixture, &format, GPU_IMAGE_TYPE_IMAGE_2D,
                                                (GpuExtent) { SIZE / 4 / 64, 64, 1 }, bytes);

  test_assert_texels (image, bytes);
}

/* Compiles and loads a program, and unloads it. */
static void
use_program (TestFixture *fixture)
{
  static const char source[] = "__kernel void one (__global int *a) { a[0] = 1; }\n";
  g_autoptr (GpuKernel) kernel = test_kernel (fixture, source, "one");
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, sizeof (gint32));
  g_autoptr (GError) error = NULL;
  const GpuExtent one = { 1, 1, 1 };
  gint32 number = 0;

  test_assert_ok (gpu_stream_launch (fixture->stream, kernel, &one, &one, &error, buffer), error);
  test_assert_ok (gpu_stream_read (fixture->stream, GPU_MEMORY (buffer), 0, &number, sizeof number,
                                   &error), error);
  test_synchronize (fixture->stream);
  g_assert_cmpint (number, ==, 1);
}

/* The driver refuses some calls of every thread while it captures in the global mode, and
 * invalidates the capture. The library makes them in the relaxed mode. */
static void
other_work (TestFixture *fixture)
{
  g_autoptr (GpuStream) captured = NULL;
  g_autoptr (GpuStream) other = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GError) error = NULL;
  const guint8 value = 5;
  CUstream handle;

  if (!test_can_capture (fixture))
    return;

  captured = test_stream (fixture, GPU_STREAM_FLAGS_NON_BLOCKING);
  buffer = test_buffer (fixture, SIZE);
  handle = begin (captured);
  test_assert_ok (gpu_stream_fill (captured, GPU_MEMORY (buffer), 0, SIZE, &value, 1, &error),
                  error);
  other = test_stream (fixture, GPU_STREAM_FLAGS_NON_BLOCKING);
  use_memories (fixture);
  use_image (fixture);
  use_program (fixture);
  use_pool (fixture);
  g_clear_object (&other);
  g_assert_true (test_is_capturing (handle));
  end (handle);
}

/* --- the cost --------------------------------------------------------------------------------- */

/* Once the program has a handle, a wait asks the driver once. */
static void
asked_once (TestFixture *fixture)
{
  g_autoptr (GpuStream) stream = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuEvent) event = NULL;
  g_autoptr (GError) error = NULL;
  const guint8 value = 5;
  guint64 n_infos, n_ids;

  if (!test_can_capture (fixture))
    return;
  if (gpumem_cuda_driver_symbol ("gpumem_cuda_driver_get_count") == NULL)
    {
      g_test_skip ("the driver counts no calls");
      return;
    }

  stream = test_stream (fixture, GPU_STREAM_FLAGS_NON_BLOCKING);
  buffer = test_buffer (fixture, SIZE);
  g_assert_nonnull (test_get_cuda_stream (stream));
  test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (buffer), 0, SIZE, &value, 1, &error), error);
  event = test_record (stream);
  n_infos = count ("cuStreamGetCaptureInfo*");
  n_ids = count ("cuStreamGetId");
  assert_complete (event);
  g_assert_cmpuint (count ("cuStreamGetCaptureInfo*"), ==, n_infos + 1);
  g_assert_cmpuint (count ("cuStreamGetId"), ==, n_ids);
}

static void
check_calls (TestFixture *fixture)
{
  g_autoptr (GpuStream) other = test_stream (fixture, GPU_STREAM_FLAGS_NON_BLOCKING);
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, LARGE, 7);
  g_autoptr (GpuEvent) event = NULL;
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuHostMemory) pageable = NULL;
  g_autoptr (GpuMapping) mapping = NULL;
  guint64 before = GPUMEM_CUDA_DRIVER (get_count) ("cuStreamGetCaptureInfo*");
  guint8 byte = 0;

  test_assert_ok (gpu_buffer_fill (buffer, other, 0, SIZE, &byte, 1, NULL, &error), error);
  test_assert_ok (gpu_buffer_read (buffer, fixture->stream, 0, &byte, 1, NULL, &error), error);
  event = test_record (other);
  assert_complete (event);
  test_synchronize (other);

  /* The staged copy makes the back end wait for streams before it copies pageable memory. */
  pageable = gpu_host_memory_new_aligned (fixture->context, 64, LARGE, &error);
  g_assert_no_error (error);
  for (guint i = 0; i < 2; i++)
    test_assert_ok (gpu_stream_copy (other, GPU_MEMORY (buffer), 0, GPU_MEMORY (pageable), 0,
                                     i == 0 ? LARGE : SIZE, &error), error);
  test_assert_ok (gpu_stream_fill (other, GPU_MEMORY (pageable), 0, SIZE, &byte, 1, &error), error);
  mapping = gpu_buffer_map (buffer, other, GPU_MAP_FLAGS_WRITE, 0, SIZE, NULL, &error);
  g_assert_no_error (error);
  g_clear_object (&mapping);
  test_synchronize (other);
  g_assert_cmpuint (GPUMEM_CUDA_DRIVER (get_count) ("cuStreamGetCaptureInfo*"), ==, before);
}

/* As long as the program has no handle of a stream, nothing can be captured, so waits do not ask
 * the driver. */
static void
without_handles (TestFixture *fixture)
{
  if (!test_can_capture (fixture))
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

  g_test_trap_subprocess (NULL, TEST_CHILD_TIMEOUT, G_TEST_SUBPROCESS_INHERIT_STDERR);
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
  test_add ("trimmed", trimmed);
  test_add ("wrapped", wrapped);
  test_add ("borrowed", borrowed);
  test_add ("waits-refused", waits_refused);
  test_add ("reads-beside-reads", reads_beside_reads);
  test_add ("maps-refused", maps_refused);
  test_add ("images-refused", images_refused);
  test_add ("drivers-refused", drivers_refused);
  test_add ("joined-by-memory", joined_by_memory);
  test_add ("pageable", pageable);
  test_add ("written", written);
  test_add ("dropped", dropped);
  test_add ("unmapped", unmapped);
  test_add ("unmapped-unknown", unmapped_unknown);
  test_add ("spill-refused", spill_refused);
  test_add ("released", released);
  test_add ("released-in-order", released_in_order);
  test_add ("pool-grows", pool_grows);
  test_add ("other-work", other_work);
  test_add ("mode-kept", mode_kept);
  test_add ("asked-once", asked_once);
  test_add ("without-handles", without_handles);
#endif

  return test_run ();
}
