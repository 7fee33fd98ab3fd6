/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Staged copies during which a driver call fails, the wait for a chunk fails, no thread can be
 * started, or no page-locked memory can be allocated. No call hangs, each waiter gets the error,
 * and the next copy is correct. */
#include "config.h"

#include <dlfcn.h>

#include "cuda-driver/cuda-driver.h"
#include "opencl-layer/gpumem-layer.h"
#include "test-util.h"

#define MIB (1024 * 1024)

/* Names of threads that cannot be started; nullable, atomic */
static const char *refused;
static gint n_refused;

/* Overrides GLib's function for the library */
GThread *
g_thread_try_new (const char   *name,
                  GThreadFunc   func,
                  gpointer      data,
                  GError      **error)
{
  static gpointer real;
  const char *names = g_atomic_pointer_get (&refused);

  if (names != NULL && name != NULL && strstr (names, name) != NULL)
    {
      g_atomic_int_inc (&n_refused);
      g_set_error_literal (error, G_THREAD_ERROR, G_THREAD_ERROR_AGAIN, "refused by the test");
      return NULL;
    }

  if (g_atomic_pointer_get (&real) == NULL)
    g_atomic_pointer_set (&real, dlsym (RTLD_NEXT, "g_thread_try_new"));

  return ((__typeof__ (&g_thread_try_new)) g_atomic_pointer_get (&real)) (name, func, data, error);
}

static void
write_and_read (TestFixture *fixture,
                GpuBuffer   *buffer,
                gsize        size)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) in = test_random_bytes (size);
  g_autofree guint8 *out = g_malloc0 (size);

  test_assert_ok (gpu_buffer_write (buffer, fixture->stream, 0, g_bytes_get_data (in, NULL), size,
                                    NULL, &error), error);
  test_assert_ok (gpu_buffer_read (buffer, fixture->stream, 0, out, size, NULL, &error), error);
  g_assert_cmpmem (out, size, g_bytes_get_data (in, NULL), size);
}

static void
write_and_read_async (TestFixture *fixture,
                      GpuBuffer   *buffer,
                      gsize        size)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) in = test_random_bytes (size);
  g_autoptr (GBytes) out = NULL;

  test_assert_ok (gpu_stream_write (fixture->stream, GPU_MEMORY (buffer), 0, in, &error), error);
  out = gpu_stream_read_bytes (fixture->stream, GPU_MEMORY (buffer), 0, size, &error);
  g_assert_no_error (error);
  test_synchronize (fixture->stream);
  g_assert_true (g_bytes_equal (in, out));
}

/* --- calls of the driver ---------------------------------------------------------------------- */

static gboolean
set_fail (TestFixture *fixture,
          const char  *spec)
{
  if (strcmp (gpu_device_get_backend (fixture->device), "cuda") != 0
      || gpumem_cuda_driver_symbol ("gpumem_cuda_driver_set_fail") == NULL)
    {
      g_test_skip ("only the stand-in driver fails on demand");
      return FALSE;
    }

  return GPUMEM_CUDA_DRIVER (set_fail) (spec);
}

static void
failure_no_page_locked (TestFixture *fixture)
{
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, 3 * MIB);

  if (!set_fail (fixture, "cuMemHostAlloc:1:2:0"))
    return;

  g_test_expect_message (G_LOG_DOMAIN, G_LOG_LEVEL_MESSAGE, "*no page-locked memory*");
  write_and_read (fixture, buffer, 2 * MIB);
  g_test_assert_expected_messages ();
  write_and_read (fixture, buffer, 2 * MIB);
  g_assert_cmpuint (gpu_context_get_staging_size (fixture->context), ==, 0);

  set_fail (fixture, "");
  write_and_read (fixture, buffer, 2 * MIB);
  g_assert_cmpuint (gpu_context_get_staging_size (fixture->context), >, 0);
}

/* A call in the middle of a copy fails: the copy returns an error and does not hang, and the next
 * copy is correct. */
static void
failure_of_driver_calls (TestFixture *fixture)
{
  static const char *const calls[] = { "cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync",
                                       "cuStreamWaitValue32", "cuEventRecord" };
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, 2 * MIB);
  g_autofree guint8 *data = g_malloc0 (2 * MIB);

  for (guint call = 0; call < G_N_ELEMENTS (calls); call++)
    for (guint n = 1; n < 40; n += 3)
      for (guint write = 0; write < 2; write++)
        {
          g_autofree char *spec = g_strdup_printf ("%s:%u:1", calls[call], n);
          g_autoptr (GError) error = NULL;
          gboolean success;

          if (!set_fail (fixture, spec))
            return;

          success = write ? gpu_buffer_write (buffer, fixture->stream, 0, data, 2 * MIB, NULL,
                                              &error)
                          : gpu_buffer_read (buffer, fixture->stream, 0, data, 2 * MIB, NULL,
                                             &error);
          g_assert_true (success == (error == NULL));
          set_fail (fixture, "");
          write_and_read (fixture, buffer, 100000);
        }
}

/* If the driver refuses the first command of a staged copy, the library copies without staging,
 * also from managed memory without concurrent access, which the stream attaches before. In a new
 * context, a read is not preceded by a wait: the staging memory has no pending uses. */
static void
failure_of_first_command (TestFixture *fixture)
{
  g_autoptr (GpuContext) context = NULL;
  g_autoptr (GpuStream) stream = NULL;
  g_autoptr (GpuSvm) svm = NULL;
  g_autoptr (GBytes) read = NULL;
  g_autoptr (GError) error = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_SVM_COARSE))
    return;

  context = gpu_context_new (fixture->device, GPU_CONTEXT_FLAGS_NONE, &error);
  g_assert_no_error (error);
  stream = gpu_stream_new (context, GPU_STREAM_FLAGS_NONE, &error);
  g_assert_no_error (error);
  svm = gpu_svm_new (context, GPU_MEMORY_FLAGS_NONE, GPU_SVM_FLAGS_NONE, 2 * MIB, 0, &error);
  g_assert_no_error (error);
  test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (svm), 0, 2 * MIB, "f", 1, &error), error);

  if (!set_fail (fixture, "cuMemcpyDtoHAsync:1:2"))
    return;

  read = gpu_stream_read_bytes (stream, GPU_MEMORY (svm), 0, 2 * MIB, &error);
  set_fail (fixture, "");
  g_assert_no_error (error);
  test_synchronize (stream);
  test_assert_value (g_bytes_get_data (read, NULL), 'f', 2 * MIB);
}

/* If streams cannot wait for values, the library detects this at the first such wait, and stages no
 * further copies. */
static void
failure_of_host_waits (TestFixture *fixture)
{
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, 2 * MIB);
  guint64 before;

  if (!set_fail (fixture, "cuStreamWaitValue32:1:801:0"))
    return;

  before = GPUMEM_CUDA_DRIVER (get_count) ("cuStreamWaitValue32");
  write_and_read (fixture, buffer, 2 * MIB);
  write_and_read_async (fixture, buffer, 2 * MIB);
  set_fail (fixture, "");
  write_and_read (fixture, buffer, 2 * MIB);
  g_assert_cmpuint (gpu_context_get_staging_size (fixture->context), ==, 0);
  g_assert_cmpuint (GPUMEM_CUDA_DRIVER (get_count) ("cuStreamWaitValue32"), ==, before + 1);
}

/* --- the wait for a chunk --------------------------------------------------------------------- */

static void
arm (TestFixture *fixture,
     const char  *spec)
{
  if (test_is_opencl (fixture))
    g_assert_true (GPUMEM_LAYER (set_fail) (spec));
  else
    g_assert_true (GPUMEM_CUDA_DRIVER (set_fail) (spec));
}

static gboolean
read_blocking (TestFixture  *fixture,
               GpuBuffer    *buffer,
               guint8       *data,
               GError      **error)
{
  return gpu_buffer_read (buffer, fixture->stream, 0, data, 2 * MIB, NULL, error);
}

static gboolean
read_async (TestFixture  *fixture,
            GpuBuffer    *buffer,
            guint8       *data,
            GError      **error)
{
  g_autoptr (GpuEvent) event = NULL;
  g_autoptr (GError) failure = NULL;

  if (!gpu_stream_read (fixture->stream, GPU_MEMORY (buffer), 0, data, 2 * MIB, error))
    return FALSE;

  event = test_record (fixture->stream);

  if (gpu_stream_synchronize (fixture->stream, NULL, error))
    return TRUE;

  g_assert_false (gpu_event_wait (event, NULL, &failure));
  g_assert_cmpint (failure->code, ==, GPU_ERROR_OUT_OF_DEVICE_MEMORY);

  return FALSE;
}

/* Reads the buffer through a small place in page-locked memory, in many chunks, and makes the @n-th
 * wait of the driver fail. The fault may hit the thread of a previous copy that has not ended yet.
 * In that case the read succeeds, and the test repeats it. */
static void
fail_chunk (TestFixture *fixture,
            GpuBuffer   *buffer,
            guint        n,
            gboolean     blocking)
{
  g_autofree char *spec = test_is_opencl (fixture)
                          ? g_strdup_printf ("fn=clWaitForEvents,n=%u,code=-5", n)
                          : g_strdup_printf ("cuEventSynchronize:%u:2", n);
  g_autoptr (GBytes) written = test_random_bytes (2 * MIB);
  g_autofree guint8 *data = g_malloc (2 * MIB);
  g_autoptr (GError) error = NULL;
  guint n_tries = 0;

  test_assert_ok (gpu_buffer_write_bytes (buffer, fixture->stream, 0, written, NULL, &error),
                  error);
  memset (data, 0, 2 * MIB);
  arm (fixture, spec);

  while ((blocking ? read_blocking : read_async) (fixture, buffer, data, &error))
    {
      g_assert_cmpmem (data, 2 * MIB, g_bytes_get_data (written, NULL), 2 * MIB);
      g_assert_cmpuint (n_tries++, <, 20);
      memset (data, 0, 2 * MIB);
      arm (fixture, spec);
    }

  arm (fixture, "");
  test_assert_gpu_error (error, GPU_ERROR_OUT_OF_DEVICE_MEMORY,
                         test_is_opencl (fixture) ? "clWaitForEvents" : "cuEventSynchronize");
  write_and_read (fixture, buffer, 2 * MIB);
  write_and_read_async (fixture, buffer, 2 * MIB);
}

static void
fail_chunks (TestFixture *fixture)
{
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, 2 * MIB, 7);

  gpu_context_set_staging_limit (fixture->context, 128 * 1024);
  write_and_read (fixture, buffer, 2 * MIB);
  g_assert_cmpuint (gpu_context_get_staging_size (fixture->context), >, 0);

  for (guint n = 1; n < 6; n++)
    {
      fail_chunk (fixture, buffer, n, TRUE);
      fail_chunk (fixture, buffer, n, FALSE);
    }
}

static void
failure_of_chunks (TestFixture *fixture)
{
  if (test_is_opencl (fixture))
    test_run_under_layer (fixture, "chunks");
  else if (set_fail (fixture, ""))
    fail_chunks (fixture);
}

/* --- failures of OpenCL calls, made by the test layer ----------------------------------------- */

static gboolean
is_under_layer (TestFixture *fixture)
{
  if (test_is_opencl (fixture) && gpumem_layer_symbol ("gpumem_layer_set_fail") != NULL)
    return TRUE;

  g_test_skip ("runs as a part of another test, on OpenCL under the layer");

  return FALSE;
}

static void
failure_of_chunks_opencl (TestFixture *fixture)
{
  if (is_under_layer (fixture))
    fail_chunks (fixture);
}

/* The first chunk is queued, and may be running, when the flush of the queue fails. */
static void
failure_of_flush_opencl (TestFixture *fixture)
{
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (MIB);
  g_autofree guint8 *data = g_malloc0 (MIB);

  if (!is_under_layer (fixture))
    return;

  buffer = test_buffer (fixture, MIB);

  for (guint i = 0; i < 4; i++)
    {
      g_autoptr (GError) error = NULL;
      gboolean success;

      write_and_read (fixture, buffer, MIB);
      arm (fixture, "fn=clFlush,n=1,code=-5");

      if (i == 0)
        success = gpu_buffer_read (buffer, fixture->stream, 0, data, MIB, NULL, &error);
      else if (i == 1)
        success = gpu_stream_read (fixture->stream, GPU_MEMORY (buffer), 0, data, MIB, &error);
      else if (i == 2)
        success = gpu_buffer_write_bytes (buffer, fixture->stream, 0, bytes, NULL, &error);
      else
        success = gpu_stream_write (fixture->stream, GPU_MEMORY (buffer), 0, bytes, &error);

      arm (fixture, "");
      g_assert_false (success);
      test_assert_gpu_error (error, GPU_ERROR_OUT_OF_DEVICE_MEMORY, "clFlush");
      write_and_read_async (fixture, buffer, MIB);
    }
}

static void
failure_of_flush (TestFixture *fixture)
{
  test_run_under_layer (fixture, "flush");
}

/* --- threads ---------------------------------------------------------------------------------- */

static gint n_messages;

static void
count_message (const char     *domain G_GNUC_UNUSED,
               GLogLevelFlags  level G_GNUC_UNUSED,
               const char     *text,
               gpointer        unused G_GNUC_UNUSED)
{
  if (strstr (text, "no thread for copies") != NULL)
    g_atomic_int_inc (&n_messages);
}

static void
copy_without (TestFixture *fixture,
              GpuBuffer   *buffer,
              const char  *names)
{
  g_atomic_int_set (&n_refused, 0);
  g_atomic_pointer_set (&refused, names);

  for (guint i = 0; i < 3; i++)
    {
      write_and_read (fixture, buffer, 2 * MIB);
      write_and_read_async (fixture, buffer, 2 * MIB);
    }

  g_atomic_pointer_set (&refused, NULL);
  g_assert_cmpint (g_atomic_int_get (&n_refused), >, 0);
}

/* Runs in a separate process, in which the library has started no threads yet. At first no thread
 * can be started; later all threads except the copying threads can be started. The copies have more
 * chunks than the staging memory can hold. */
static void
failure_of_threads_alone (TestFixture *fixture)
{
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, 2 * MIB);

  if (!g_test_subprocess ())
    {
      g_test_skip ("runs as a part of threads");
      return;
    }

  g_log_set_handler (G_LOG_DOMAIN, G_LOG_LEVEL_MESSAGE, count_message, NULL);
  copy_without (fixture, buffer, "gpumem-copy gpumem-drive");
  g_assert_cmpint (g_atomic_int_get (&n_messages), ==, 1);

  gpu_context_set_staging_limit (fixture->context, 128 * 1024);
  copy_without (fixture, buffer, "gpumem-copy");
  g_assert_cmpuint (gpu_context_get_staging_size (fixture->context), >, 0);
  copy_without (fixture, buffer, "gpumem-copy");

  write_and_read (fixture, buffer, 2 * MIB);
  write_and_read_async (fixture, buffer, 2 * MIB);
  g_assert_cmpint (g_atomic_int_get (&n_messages), ==, 1);
}

static void
failure_of_threads (TestFixture *fixture)
{
  g_autofree char *folder = g_path_get_dirname (g_test_get_path ());
  g_autofree char *path = g_strconcat (folder, "/subprocess/threads", NULL);

  test_drop_context (fixture);
  g_test_trap_subprocess (path, TEST_CHILD_TIMEOUT, G_TEST_SUBPROCESS_INHERIT_STDERR);
  g_test_trap_assert_passed ();
  g_test_trap_assert_stdout_unmatched ("*SKIP*");
}

int
main (int    argc,
      char **argv)
{
  g_setenv ("GPUMEM_DEBUG", "stage", TRUE);
  test_init (&argc, &argv);

  test_add ("no-page-locked", failure_no_page_locked);
  test_add ("driver-calls", failure_of_driver_calls);
  test_add ("first-command", failure_of_first_command);
  test_add ("host-waits", failure_of_host_waits);
  test_add ("chunks", failure_of_chunks);
  test_add ("subprocess/chunks", failure_of_chunks_opencl);
  test_add ("flush", failure_of_flush);
  test_add ("subprocess/flush", failure_of_flush_opencl);
  test_add ("threads", failure_of_threads);
  test_add ("subprocess/threads", failure_of_threads_alone);

  return test_run ();
}
