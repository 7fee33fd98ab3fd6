/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Driver errors. The message of an error begins with the name of the public function. A device-lost
 * error marks the context as lost, even if the program ignores the error. The test replaces ops of
 * a back end by functions that fail to create streams or memory. */
#include "config.h"

#include <sys/resource.h>
#include <unistd.h>

#include "gpumem/device/gpu-context-private.h"
#include "test-util.h"

/* The back ends of this test and their tables of functions. They are never freed, because threads
 * of a context may use them until exit. */
static GPtrArray *made;

static gpointer
copy_table (gconstpointer table,
            gsize         size)
{
  gpointer copy = g_memdup2 (table, size);

  g_ptr_array_add (made, copy);

  return copy;
}

static GpuNativeStream *
lose (GpuNativeContext *context, GpuNativeDevice *device, GpuStreamFlags flags, int priority,
      GError **error)
{
  g_set_error_literal (error, GPU_ERROR, GPU_ERROR_DEVICE_LOST, "the driver's words");
  return NULL;
}

static GpuNativeStream *
lose_wrapped (GpuNativeContext *context, guint64 handle, GpuWrapMode mode,
              GpuNativeDevice **device, GpuStreamFlags *flags, GError **error)
{
  return lose (context, NULL, GPU_STREAM_FLAGS_NONE, 0, error);
}

/* Creates a context on which later operations fail with a lost device. */
static GpuContext *
lost_context (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  GpuContext *context = gpu_context_new (fixture->device, GPU_CONTEXT_FLAGS_NONE, &error);
  GpuNativeContext *native;
  GpuStreamOps *stream;
  GpuBackend *lost;

  g_assert_no_error (error);
  native = _gpu_context_get_native (context);
  stream = copy_table (native->backend->stream, sizeof *stream);
  stream->create = lose;
  stream->wrap = lose_wrapped;
  lost = copy_table (native->backend, sizeof *lost);
  lost->stream = stream;
  native->backend = lost;
  return context;
}

static void
assert_told (GpuContext *context, GError **error, const char *prefix)
{
  g_assert_true (gpu_context_is_lost (context));
  if (prefix != NULL)
    {
      g_assert_true (g_str_has_prefix ((*error)->message, prefix));
      test_assert_gpu_error (*error, GPU_ERROR_DEVICE_LOST, "the driver's words");
    }
  g_object_unref (context);
}

static void
report_new (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  GpuContext *context = lost_context (fixture);

  g_assert_null (gpu_stream_new (context, GPU_STREAM_FLAGS_NONE, &error));
  assert_told (context, &error, "gpu_stream_new: ");
  context = lost_context (fixture);
  g_assert_null (gpu_stream_new (context, GPU_STREAM_FLAGS_NONE, NULL));
  assert_told (context, NULL, NULL);
}

static void
report_wrapped (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  GpuContext *context = lost_context (fixture);

  g_assert_null (gpu_stream_new_wrapped (context, 4096, GPU_WRAP_MODE_BORROW, &error));
  assert_told (context, &error, "gpu_stream_new_wrapped: ");
}

static void
report_default_stream (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  GpuContext *context = lost_context (fixture);
  g_autoptr (GpuBuffer) buffer = gpu_buffer_new (context, GPU_MEMORY_FLAGS_NONE, 64, &error);
  guint8 data[64];

  g_assert_no_error (error);
  g_assert_false (gpu_buffer_read (buffer, NULL, 0, data, sizeof data, NULL, &error));
  g_clear_object (&buffer);
  assert_told (context, &error, "gpu_buffer_read: ");
  context = lost_context (fixture);
  g_assert_null (gpu_context_get_default_stream (context));
  assert_told (context, NULL, NULL);
}

/* --- fills in several operations ----------------------------------------------------------- */

/* A pattern larger than drivers accept. */
#define PATTERN_SIZE 1500
#define LARGE (256 << 20)

static GpuBufferAllocOp *real_alloc;
static gboolean is_full;
static guint n_asked;

static GpuNativeBuffer *
alloc_unless_full (GpuNativeContext *context, GpuMemoryFlags flags, gsize size,
                   gconstpointer data, GError **error)
{
  if (!is_full)
    return real_alloc (context, flags, size, data, error);

  /* The library must not pass initial data, because the call would block. */
  g_assert_null (data);
  n_asked++;
  g_set_error_literal (error, GPU_ERROR, GPU_ERROR_OUT_OF_DEVICE_MEMORY, "the driver's words");
  return NULL;
}

/* Replaces the back end. Called before any work, because the threads that complete work read the
 * back end without a lock. */
static void
use_full_backend (GpuNativeContext *context)
{
  GpuBufferOps *buffer = copy_table (context->backend->buffer, sizeof *buffer);
  GpuBackend *full = copy_table (context->backend, sizeof *full);

  real_alloc = buffer->alloc;
  buffer->alloc = alloc_unless_full;
  full->buffer = buffer;
  context->backend = full;
}

/* The library fills memory without host access through temporary memory. An error must still name
 * the fill. */
static void
report_fill (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  guint8 pattern[PATTERN_SIZE] = { 1 };

  use_full_backend (_gpu_context_get_native (fixture->context));
  buffer = gpu_buffer_new (fixture->context, GPU_MEMORY_FLAGS_HOST_NO_ACCESS, 4 * PATTERN_SIZE,
                           &error);
  g_assert_no_error (error);
  test_assert_ok (gpu_stream_fill (fixture->stream, GPU_MEMORY (buffer), 0, 4 * PATTERN_SIZE,
                                   pattern, PATTERN_SIZE, &error), error);
  test_synchronize (fixture->stream);
  is_full = TRUE;
  n_asked = 0;
  g_assert_false (gpu_stream_fill (fixture->stream, GPU_MEMORY (buffer), 0, 4 * PATTERN_SIZE,
                                   pattern, PATTERN_SIZE, &error));
  is_full = FALSE;
  g_assert_cmpuint (n_asked, ==, 1);
  g_assert_true (g_str_has_prefix (error->message, "gpu_stream_fill: the driver's words"));
  test_assert_gpu_error (error, GPU_ERROR_OUT_OF_DEVICE_MEMORY);
}

/* A pattern too large for host memory causes a GError instead of ending the process. */
static void
report_large_pattern (TestFixture *fixture)
{
  const gsize room = LARGE / 8 * 5;     /* another thread may take 64 MiB for its heap */
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autofree guint8 *pattern = NULL;
  g_autofree char *used = NULL;
  struct rlimit limit;

  if (!g_test_subprocess ())
    {
      g_test_skip ("runs as a part of large-pattern");
      return;
    }
  buffer = test_buffer (fixture, LARGE);
  pattern = g_malloc0 (LARGE);
  test_assert_ok (g_file_get_contents ("/proc/self/statm", &used, NULL, &error), error);
  getrlimit (RLIMIT_AS, &limit);
  limit.rlim_cur = g_ascii_strtoull (used, NULL, 10) * (guint64) getpagesize () + room;
  g_assert_cmpint (setrlimit (RLIMIT_AS, &limit), ==, 0);
  g_assert_false (gpu_stream_fill (fixture->stream, GPU_MEMORY (buffer), 0, LARGE, pattern, LARGE,
                                   &error));
  limit.rlim_cur = limit.rlim_max;
  setrlimit (RLIMIT_AS, &limit);
  test_assert_gpu_error (error, GPU_ERROR_OUT_OF_HOST_MEMORY, "gpu_stream_fill", "268435456");
}

static void
report_run_large_pattern (TestFixture *fixture)
{
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
  g_test_skip ("sanitizers need all of the address space");
#else
  g_autofree char *path = g_strdup_printf ("/driver-error-report/%s/subprocess/large-pattern",
                                           gpu_device_get_id (fixture->device));

  g_test_trap_subprocess (path, TEST_CHILD_TIMEOUT, G_TEST_SUBPROCESS_INHERIT_STDERR);
  g_test_trap_assert_passed ();
#endif
}

int
main (int argc, char **argv)
{
  made = g_ptr_array_new_with_free_func (g_free);
  test_init (&argc, &argv);
  test_add ("new", report_new);
  test_add ("wrapped", report_wrapped);
  test_add ("default-stream", report_default_stream);
  test_add ("fill", report_fill);
  test_add ("large-pattern", report_run_large_pattern);
  test_add ("subprocess/large-pattern", report_large_pattern);
  return test_run ();
}
