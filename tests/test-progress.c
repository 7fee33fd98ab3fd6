/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Progress of asynchronous copies, both direct and staged. The reported numbers increase. The last
 * report is the total, and comes before the callback. The copy is in the stream when the call
 * returns, and the call does not block. Also tests failures and cancellation. */
#include "config.h"

#include "cuda-driver/cuda-driver.h"
#include "opencl-layer/gpumem-layer.h"
#include "test-util.h"

#define MIB (1024 * 1024)
/* CUDA blocks the caller while about 50 chunks wait for earlier work, also the chunks of 64 KiB of
 * GPUMEM_DEBUG=stage. */
#define HELD_SIZE (2 * MIB)
#define N_FAILED 200
/* In microseconds; longer than the shortest time between two reports */
#define ITERATION_TIME (60 * 1000)

/* Bytes of a long copy */
static gsize n_long = 72 * MIB + 3;

typedef struct
{
  GThread      *thread;
  gint64        start;
  GAsyncResult *result;
  GCancellable *cancel;             /* nullable; cancelled by the first call */
  gsize         total;
  gsize         last;
  guint         n_calls;
  gboolean      iterates;           /* the last call iterates the main context */
  gboolean      destroyed;
} Reports;

static void
on_progress (goffset  current,
             goffset  total,
             gpointer data)
{
  Reports *reports = data;

  g_assert_true (g_thread_self () == reports->thread);
  g_assert_true (!reports->destroyed && reports->result == NULL);
  g_assert_cmpuint (total, ==, reports->total);
  g_assert_cmpuint (current, <=, total);
  g_assert_cmpuint (reports->n_calls, <=, 1 + (g_get_monotonic_time () - reports->start) / 40000);
  if (reports->n_calls++ > 0)
    g_assert_cmpuint (current, >, reports->last);
  reports->last = current;
  g_cancellable_cancel (reports->cancel);
  if (reports->iterates && current == total)
    for (gint64 end = g_get_monotonic_time () + ITERATION_TIME; g_get_monotonic_time () < end; )
      g_main_context_iteration (NULL, FALSE);
}

static void
on_destroyed (gpointer data)
{
  Reports *reports = data;

  g_assert_false (reports->destroyed);
  reports->destroyed = TRUE;
}

static void
on_result (GObject      *source,
           GAsyncResult *result,
           gpointer      data)
{
  Reports *reports = data;

  g_assert_true (reports->destroyed);
  reports->result = g_object_ref (result);
}

static void
start (Reports *reports,
       gsize    total)
{
  g_clear_object (&reports->result);
  *reports = (Reports) { .thread = g_thread_self (), .start = g_get_monotonic_time (),
                         .total = total, .cancel = reports->cancel,
                         .iterates = reports->iterates };
}

static gboolean
finish_write (GpuBuffer  *buffer,
              Reports    *reports,
              GError    **error)
{
  gboolean success = gpu_buffer_write_bytes_finish (buffer, test_await (&reports->result), error);

  g_clear_object (&reports->result);
  while (g_main_context_iteration (g_main_context_get_thread_default (), FALSE))
    ;

  return success;
}

static gboolean
write_bytes (GpuBuffer  *buffer,
             GpuStream  *stream,
             GBytes     *bytes,
             Reports    *reports,
             GError    **error)
{
  start (reports, g_bytes_get_size (bytes));
  gpu_buffer_write_bytes_async (buffer, stream, 0, bytes, reports->cancel, on_progress, reports,
                                on_destroyed, on_result, reports);

  return finish_write (buffer, reports, error);
}

/* --- reports ---------------------------------------------------------------------------------- */

static void
check_copy (TestFixture *fixture,
            GpuBuffer   *buffer,
            gsize        size,
            guint       *n_calls)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (size);
  g_autoptr (GBytes) content = NULL;
  Reports reports = { NULL };

  test_assert_ok (write_bytes (buffer, fixture->stream, bytes, &reports, &error), error);
  g_assert_cmpuint (reports.last, ==, size);
  n_calls[0] = reports.n_calls;

  start (&reports, size);
  gpu_buffer_read_bytes_async (buffer, fixture->stream, 0, size, NULL, on_progress, &reports,
                               on_destroyed, on_result, &reports);
  content = gpu_buffer_read_bytes_finish (buffer, test_await (&reports.result), &error);
  g_assert_no_error (error);
  g_assert_true (g_bytes_equal (content, bytes));
  g_assert_cmpuint (reports.last, ==, size);
  n_calls[1] = reports.n_calls;
  g_clear_object (&reports.result);
}

static void
progress_long (TestFixture *fixture)
{
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, n_long);
  gboolean reported[2] = { FALSE, FALSE };

  /* A slow thread of the main context may miss all calls but the last one. */
  for (guint i = 0; i < 50 && (!reported[0] || !reported[1]); i++)
    {
      guint n_calls[2];

      check_copy (fixture, buffer, n_long, n_calls);
      reported[0] |= n_calls[0] > 1;
      reported[1] |= n_calls[1] > 1;
    }

  g_assert_true (reported[0] && reported[1]);
}

/* A function may iterate the main context, as a modal dialog does. The total remains the last
 * report. */
static void
progress_iterates (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, n_long);
  g_autoptr (GBytes) bytes = test_random_bytes (n_long);

  /* Only a report that was due before the last part was copied could come late. */
  for (guint i = 0; i < 20; i++)
    {
      Reports reports = { .iterates = TRUE };

      test_assert_ok (write_bytes (buffer, fixture->stream, bytes, &reports, &error), error);
      g_assert_cmpuint (reports.last, ==, n_long);
    }
}

static void
progress_short (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, 100);
  g_autoptr (GBytes) nothing = g_bytes_new (NULL, 0);
  Reports reports = { NULL };
  guint n_calls[2];

  check_copy (fixture, buffer, 100, n_calls);
  g_assert_cmpuint (n_calls[0], ==, 1);
  g_assert_cmpuint (n_calls[1], ==, 1);

  test_assert_ok (write_bytes (buffer, NULL, nothing, &reports, &error), error);
  g_assert_cmpuint (reports.n_calls, ==, 1);

  /* Without a progress function, the library still frees the user data. */
  start (&reports, 0);
  gpu_buffer_write_bytes_async (buffer, NULL, 0, nothing, NULL, NULL, &reports, on_destroyed,
                                on_result, &reports);
  test_assert_ok (finish_write (buffer, &reports, &error), error);
  g_assert_true (reports.destroyed && reports.n_calls == 0);
}

static gpointer
copy_in_thread (gpointer data)
{
  TestFixture *fixture = data;
  g_autoptr (GMainContext) context = g_main_context_new ();
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, n_long);
  g_autoptr (GBytes) bytes = test_random_bytes (n_long);
  Reports reports = { NULL };

  g_main_context_push_thread_default (context);
  start (&reports, n_long);
  gpu_buffer_write_bytes_async (buffer, NULL, 0, bytes, NULL, on_progress, &reports, on_destroyed,
                                on_result, &reports);
  while (reports.result == NULL)
    g_main_context_iteration (context, TRUE);
  g_main_context_pop_thread_default (context);
  g_assert_cmpuint (reports.last, ==, n_long);
  g_object_unref (reports.result);

  return NULL;
}

static void
progress_thread_default (TestFixture *fixture)
{
  g_thread_join (g_thread_new ("copy", copy_in_thread, fixture));
}

/* Later work in the stream sees the whole copy. */
static void
progress_in_order (TestFixture *fixture)
{
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, n_long);
  g_autoptr (GpuBuffer) end = test_buffer (fixture, 16);

  for (guint8 i = 1; i < 6; i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GBytes) bytes = test_value_bytes (n_long, i);
      g_autoptr (GBytes) content = NULL;
      Reports reports = { NULL };

      start (&reports, n_long);
      gpu_buffer_write_bytes_async (buffer, fixture->stream, 0, bytes, NULL, on_progress, &reports,
                                    on_destroyed, on_result, &reports);
      test_assert_ok (gpu_stream_copy (fixture->stream, GPU_MEMORY (end), 0, GPU_MEMORY (buffer),
                                       n_long - 16, 16, &error), error);
      test_assert_ok (finish_write (buffer, &reports, &error), error);
      content = test_content (end);
      test_assert_value (g_bytes_get_data (content, NULL), i, 16);
    }
}

/* A wait directly after the call waits for all bytes. The memory is untracked, so that the read in
 * the other stream waits for nothing. */
static void
progress_waited (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) other = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) buffer = gpu_buffer_new (fixture->context, GPU_MEMORY_FLAGS_UNTRACKED,
                                                 n_long, &error);

  g_assert_no_error (error);

  for (guint i = 1; i < 7; i++)
    {
      g_autoptr (GBytes) bytes = test_value_bytes (n_long, (guint8) i);
      g_autoptr (GBytes) content = NULL;
      Reports reports = { NULL };

      /* The wait then also includes work of the program. */
      if (i == 4)
        gpu_stream_get_native_handle (fixture->stream);

      start (&reports, n_long);
      gpu_buffer_write_bytes_async (buffer, fixture->stream, 0, bytes, NULL, on_progress, &reports,
                                    on_destroyed, on_result, &reports);
      if (i % 2 == 0)
        test_synchronize (fixture->stream);
      else
        {
          g_autoptr (GpuEvent) event = test_record (fixture->stream);

          test_assert_ok (gpu_event_wait (event, NULL, &error), error);
        }
      content = gpu_buffer_read_bytes (buffer, other, 0, n_long, NULL, &error);
      g_assert_no_error (error);
      g_assert_true (g_bytes_equal (content, bytes));
      test_assert_ok (finish_write (buffer, &reports, &error), error);
    }
}

static void
progress_many (TestFixture *fixture)
{
  enum { N = 1000, BYTES = 64 };
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, N * BYTES);
  g_autofree Reports *reports = g_new0 (Reports, N);
  g_autoptr (GBytes) content = NULL;

  for (guint i = 0; i < N; i++)
    {
      g_autoptr (GBytes) bytes = test_value_bytes (BYTES, (guint8) i);

      start (&reports[i], BYTES);
      gpu_buffer_write_bytes_async (buffer, fixture->stream, i * BYTES, bytes, NULL, on_progress,
                                    &reports[i], on_destroyed, on_result, &reports[i]);
    }

  for (guint i = 0; i < N; i++)
    {
      g_autoptr (GError) error = NULL;

      test_assert_ok (finish_write (buffer, &reports[i], &error), error);
      g_assert_cmpuint (reports[i].n_calls, ==, 1);
    }

  content = test_content (buffer);
  for (guint i = 0; i < N; i++)
    test_assert_value ((const guint8 *) g_bytes_get_data (content, NULL) + i * BYTES, (guint8) i,
                       BYTES);
}

static gboolean
on_tick (gpointer data)
{
  guint *n_ticks = data;

  (*n_ticks)++;

  return G_SOURCE_CONTINUE;
}

/* Returns the number of times that the main loop runs a timer while the stream copies. The call
 * returns, and the main loop runs, before the stream reaches the copy. */
static guint
count_ticks (TestFixture *fixture, GpuBuffer *buffer, GBytes *bytes)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TestHold) hold = test_hold (fixture->stream);
  Reports reports = { NULL };
  guint n_ticks = 0;
  guint timer = g_timeout_add (1, on_tick, &n_ticks);

  start (&reports, g_bytes_get_size (bytes));
  gpu_buffer_write_bytes_async (buffer, fixture->stream, 0, bytes, NULL, on_progress, &reports,
                                on_destroyed, on_result, &reports);
  while (n_ticks < 10)
    g_main_context_iteration (NULL, TRUE);
  g_assert_cmpuint (reports.n_calls, ==, 0);

  n_ticks = 0;
  test_hold_release (hold);
  test_assert_ok (finish_write (buffer, &reports, &error), error);
  g_assert_cmpuint (reports.last, ==, g_bytes_get_size (bytes));
  g_source_remove (timer);

  return n_ticks;
}

/* The main loop runs while the stream copies. CUDA blocks the caller for pageable memory of this
 * size. */
static void
progress_main_loop (TestFixture *fixture)
{
  gsize size = g_test_slow () ? 1024 * MIB : 256 * MIB;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GBytes) bytes = NULL;
  guint n_ticks = 0;

  if (strcmp (gpu_device_get_backend (fixture->device), "cuda") == 0)
    {
      g_test_skip ("the driver blocks the caller");
      return;
    }

  if (!test_can_hold (fixture))
    return;

  buffer = test_buffer (fixture, size);
  bytes = test_value_bytes (size, 5);
  /* On a busy machine, the thread of the main context may not run while other threads copy. */
  for (guint i = 0; i < 20 && n_ticks <= 5; i++)
    n_ticks = count_ticks (fixture, buffer, bytes);
  g_assert_cmpuint (n_ticks, >, 5);
}

/* A staged copy is counted before the device has it, but the total is only reported after it. */
static void
progress_held (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, HELD_SIZE);
  g_autoptr (GBytes) bytes = test_random_bytes (HELD_SIZE);
  Reports reports = { NULL };
  TestHold *hold;
  guint n_ticks = 0;
  guint timer;

  if (!test_can_hold (fixture))
    return;

  hold = test_hold (fixture->stream);
  start (&reports, HELD_SIZE);
  gpu_buffer_write_bytes_async (buffer, fixture->stream, 0, bytes, NULL, on_progress, &reports,
                                on_destroyed, on_result, &reports);
  timer = g_timeout_add (20, on_tick, &n_ticks);
  while (n_ticks < 10)
    g_main_context_iteration (NULL, TRUE);
  g_assert_cmpuint (reports.last, <, HELD_SIZE);
  g_source_remove (timer);
  test_hold_release (hold);
  test_assert_ok (finish_write (buffer, &reports, &error), error);
  g_assert_cmpuint (reports.last, ==, HELD_SIZE);
  test_hold_free (hold);
}

/* The copy holds what it uses, and progress.data is freed once, before the callback. */
static void
progress_dropped (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, HELD_SIZE);
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GBytes) bytes = test_random_bytes (HELD_SIZE);
  g_autoptr (GBytes) read = NULL;
  g_autoptr (GObject) source = NULL;
  Reports reports[2] = { { NULL }, { NULL } };
  gpointer watched = buffer;
  TestHold *hold;

  if (!test_can_hold (fixture))
    return;

  hold = test_hold (stream);
  g_object_add_weak_pointer (watched, &watched);
  for (guint i = 0; i < G_N_ELEMENTS (reports); i++)
    start (&reports[i], HELD_SIZE);
  gpu_buffer_write_bytes_async (buffer, stream, 0, bytes, NULL, on_progress, &reports[0],
                                on_destroyed, on_result, &reports[0]);
  gpu_buffer_read_bytes_async (buffer, stream, 0, HELD_SIZE, NULL, on_progress, &reports[1],
                               on_destroyed, on_result, &reports[1]);
  g_clear_object (&buffer);
  g_clear_object (&stream);
  g_assert_nonnull (watched);
  test_hold_release (hold);

  test_await (&reports[0].result);
  source = g_async_result_get_source_object (test_await (&reports[1].result));
  read = gpu_buffer_read_bytes_finish (GPU_BUFFER (source), reports[1].result, &error);
  g_assert_no_error (error);
  g_assert_true (g_bytes_equal (read, bytes));
  g_clear_object (&source);
  for (guint i = 0; i < G_N_ELEMENTS (reports); i++)
    {
      g_assert_cmpuint (reports[i].last, ==, HELD_SIZE);
      g_clear_object (&reports[i].result);
    }
  test_hold_free (hold);
  g_assert_null (watched);
}

/* --- errors ----------------------------------------------------------------------------------- */

typedef struct
{
  GpuBuffer *buffer;
  GBytes    *bytes;                 /* longer than the buffer */
  Reports    reports[N_FAILED];
} Failing;

static gpointer
fail_in_thread (gpointer data)
{
  Failing *failing = data;

  for (guint i = 0; i < N_FAILED; i++)
    gpu_buffer_write_bytes_async (failing->buffer, NULL, 0, failing->bytes, NULL, on_progress,
                                  &failing->reports[i], on_destroyed, on_result,
                                  &failing->reports[i]);

  return NULL;
}

/* The calling thread ends the reports while another thread runs their main context. */
static void
progress_errors_in_thread (TestFixture *fixture)
{
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, 100);
  g_autoptr (GBytes) bytes = test_random_bytes (101);
  g_autofree Failing *failing = g_new0 (Failing, 1);
  GThread *thread;

  failing->buffer = buffer;
  failing->bytes = bytes;
  for (guint i = 0; i < N_FAILED; i++)
    start (&failing->reports[i], 101);
  thread = g_thread_new ("fail", fail_in_thread, failing);

  for (guint i = 0; i < N_FAILED; i++)
    {
      g_autoptr (GError) error = NULL;

      g_assert_false (finish_write (buffer, &failing->reports[i], &error));
      test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "101");
      g_assert_cmpuint (failing->reports[i].n_calls, ==, 0);
    }
  g_thread_join (thread);
}

static void
progress_errors (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, 100);
  g_autoptr (GBytes) bytes = test_random_bytes (101);
  Reports reports = { NULL };

  g_assert_false (write_bytes (buffer, NULL, bytes, &reports, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "101");
  g_assert_cmpuint (reports.n_calls, ==, 0);

  start (&reports, 101);
  gpu_buffer_read_bytes_async (buffer, NULL, 0, 101, NULL, on_progress, &reports, on_destroyed,
                               on_result, &reports);
  g_assert_null (gpu_buffer_read_bytes_finish (buffer, test_await (&reports.result), &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "101");
  g_assert_cmpuint (reports.n_calls, ==, 0);
  g_clear_object (&reports.result);
}

/* The copy has completed before the cancellation, but the main context has not run since. */
static void
check_cancelled_at_end (TestFixture *fixture, GpuBuffer *buffer)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCancellable) cancellable = g_cancellable_new ();
  g_autoptr (GBytes) bytes = test_random_bytes (100);
  Reports reports = { NULL };

  start (&reports, 100);
  gpu_buffer_write_bytes_async (buffer, fixture->stream, 0, bytes, cancellable, on_progress,
                                &reports, on_destroyed, on_result, &reports);
  test_synchronize (fixture->stream);
  g_cancellable_cancel (cancellable);
  g_assert_false (finish_write (buffer, &reports, &error));
  test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
  g_assert_cmpuint (reports.n_calls, ==, 0);
}

static void
progress_cancelled (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCancellable) cancellable = g_cancellable_new ();
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, n_long);
  g_autoptr (GBytes) bytes = test_random_bytes (n_long);
  g_autoptr (GBytes) held = test_random_bytes (HELD_SIZE);
  Reports reports = { .cancel = cancellable };
  TestHold *hold;

  /* A cancellation by the last report is too late. */
  if (!write_bytes (buffer, fixture->stream, bytes, &reports, &error))
    {
      test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
      g_assert_cmpuint (reports.last, <, n_long);
    }
  g_assert_cmpuint (reports.n_calls, ==, 1);
  check_cancelled_at_end (fixture, buffer);

  if (!test_can_hold (fixture))
    return;

  hold = test_hold (fixture->stream);
  g_cancellable_reset (cancellable);
  start (&reports, HELD_SIZE);
  gpu_buffer_write_bytes_async (buffer, fixture->stream, 0, held, cancellable, on_progress,
                                &reports, on_destroyed, on_result, &reports);
  g_cancellable_cancel (cancellable);
  g_assert_false (finish_write (buffer, &reports, &error));
  test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
  g_assert_cmpuint (reports.last, <, HELD_SIZE);
  test_hold_release (hold);
  test_hold_free (hold);
  test_synchronize (fixture->stream);
}

typedef struct
{
  gpointer data;
  gint     is_freed;                /* atomic */
} Source;

static void
free_source (gpointer data)
{
  Source *source = data;

  g_free (source->data);
  g_atomic_int_set (&source->is_freed, TRUE);
}

/* The commands before the failure retain the bytes until they have completed. */
static void
fail_in_the_middle (TestFixture *fixture,
                    gboolean   (*arm) (const char *),
                    const char  *spec)
{
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, n_long);
  Source source = { g_malloc0 (n_long), FALSE };
  g_autoptr (GBytes) bytes = g_bytes_new_with_free_func (source.data, n_long, free_source, &source);
  g_autoptr (GError) error = NULL;
  g_autoptr (TestHold) hold = NULL;
  Reports reports = { NULL };
  guint n_calls[2];

  /* The CUDA stand-in stages the copy, which waits for these commands. Other OpenCL drivers hold
   * streams with user events, behind which copies are not divided. */
  if (test_is_pocl (fixture))
    hold = test_hold (fixture->stream);
  g_assert_true (arm (spec));
  g_assert_false (write_bytes (buffer, fixture->stream, bytes, &reports, &error));
  g_assert_true (arm (""));
  g_assert_true (error->domain == GPU_ERROR);
  g_assert_cmpuint (reports.last, <, n_long);

  g_clear_pointer (&bytes, g_bytes_unref);
  if (hold != NULL)
    {
      g_assert_false (g_atomic_int_get (&source.is_freed));
      test_hold_release (hold);
    }
  test_synchronize (fixture->stream);
  while (!g_atomic_int_get (&source.is_freed))
    g_thread_yield ();
  check_copy (fixture, buffer, n_long, n_calls);
}

/* The wait for a chunk of a staged read fails while the device continues. The fault may hit another
 * wait: in that case the read succeeds, and the test repeats it. */
static void
fail_chunk (TestFixture *fixture)
{
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, n_long, 1);
  gboolean failed = FALSE;

  for (guint i = 0; i < 50 && !failed; i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GBytes) content = NULL;
      Reports reports = { NULL };

      g_assert_true (GPUMEM_CUDA_DRIVER (set_fail) ("cuEventSynchronize:6:2"));
      start (&reports, n_long);
      gpu_buffer_read_bytes_async (buffer, fixture->stream, 0, n_long, NULL, on_progress, &reports,
                                   on_destroyed, on_result, &reports);
      content = gpu_buffer_read_bytes_finish (buffer, test_await (&reports.result), &error);
      g_assert_true (GPUMEM_CUDA_DRIVER (set_fail) (""));
      g_clear_object (&reports.result);
      failed = content == NULL;
      g_assert_true (failed ? reports.last < n_long : reports.last == n_long);
    }

  g_assert_true (failed);
}

static void
progress_failure_opencl (TestFixture *fixture)
{
  if (test_is_opencl (fixture) && gpumem_layer_symbol ("gpumem_layer_set_fail") != NULL)
    fail_in_the_middle (fixture, GPUMEM_LAYER (set_fail), "fn=clEnqueueWriteBuffer,n=3,code=-5");
  else
    g_test_skip ("runs as a part of another test, on OpenCL under the layer");
}

static void
progress_failure (TestFixture *fixture)
{
  if (test_is_opencl (fixture))
    test_run_under_layer (fixture, "failure");
  else if (gpumem_cuda_driver_symbol ("gpumem_cuda_driver_set_fail") != NULL
           && strcmp (gpu_device_get_backend (fixture->device), "cuda") == 0)
    {
      fail_in_the_middle (fixture, GPUMEM_CUDA_DRIVER (set_fail), "cuMemcpyHtoDAsync:3:1");
      fail_chunk (fixture);
    }
  else
    g_test_skip ("only the OpenCL layer and the stand-in driver fail on demand");
}

/* The copy is submitted, and fails later. */
static void
progress_failure_later (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, HELD_SIZE);
  g_autoptr (GpuEvent) gate = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (HELD_SIZE);
  Reports reports = { NULL };

  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    return;

  gate = test_gate (fixture, fixture->stream);
  start (&reports, HELD_SIZE);
  gpu_buffer_write_bytes_async (buffer, fixture->stream, 0, bytes, NULL, on_progress, &reports,
                                on_destroyed, on_result, &reports);
  test_assert_ok (gpu_event_fail (gate, "not today", &error), error);
  g_assert_false (finish_write (buffer, &reports, &error));
  g_assert_nonnull (error);
  g_assert_cmpuint (reports.n_calls, ==, 0);
}

/* --- staging ---------------------------------------------------------------------------------- */

static void
progress_all (TestFixture *fixture)
{
  if (!g_test_subprocess ())
    {
      g_test_skip ("runs as a part of another test");
      return;
    }

  /* There are many small chunks. */
  n_long = 8 * MIB + 3;
  progress_long (fixture);
  progress_in_order (fixture);
  progress_waited (fixture);
  progress_cancelled (fixture);
}

static void
progress_staged (TestFixture *fixture)
{
  g_autofree char *path = g_strdup_printf ("/progress/%s/subprocess/all",
                                           gpu_device_get_id (fixture->device));
  g_autofree char *debug = g_strdup (g_getenv ("GPUMEM_DEBUG"));

  g_setenv ("GPUMEM_DEBUG", "stage", TRUE);
  g_test_trap_subprocess (path, TEST_CHILD_TIMEOUT, G_TEST_SUBPROCESS_INHERIT_STDERR);
  if (debug != NULL)
    g_setenv ("GPUMEM_DEBUG", debug, TRUE);
  else
    g_unsetenv ("GPUMEM_DEBUG");
  g_test_trap_assert_passed ();
}

int
main (int    argc,
      char **argv)
{
  test_init (&argc, &argv);

  test_add ("long", progress_long);
  test_add ("short", progress_short);
  test_add ("iterates", progress_iterates);
  test_add ("thread-default", progress_thread_default);
  test_add ("in-order", progress_in_order);
  test_add ("waited", progress_waited);
  test_add ("many", progress_many);
  test_add ("main-loop", progress_main_loop);
  test_add ("held", progress_held);
  test_add ("dropped", progress_dropped);
  test_add ("errors", progress_errors);
  test_add ("errors-in-thread", progress_errors_in_thread);
  test_add ("cancelled", progress_cancelled);
  test_add ("failure", progress_failure);
  test_add ("subprocess/failure", progress_failure_opencl);
  test_add ("failure-later", progress_failure_later);
  test_add ("staged", progress_staged);
  test_add ("subprocess/all", progress_all);

  return test_run ();
}
