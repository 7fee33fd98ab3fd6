/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What becomes of a driver's error: the text begins with our function, and the context hears of a
 * device that is lost, also if the program does not ask. The back end is one that makes no
 * streams. */
#include "config.h"

#include "gpumem/gpu-context-private.h"
#include "test-util.h"

static GpuBackend lost;
static GpuStreamOps lost_stream;

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

/* A context whose device will be found to be lost. */
static GpuContext *
lost_context (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  GpuContext *context = gpu_context_new (fixture->device, &error);
  GpuNativeContext *native;

  g_assert_no_error (error);
  native = _gpu_context_get_native (context);
  lost_stream = *native->backend->stream;
  lost_stream.create = lose;
  lost_stream.wrap = lose_wrapped;
  lost = *native->backend;
  lost.stream = &lost_stream;
  native->backend = &lost;
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

  g_assert_null (gpu_stream_new_wrapped (context, 1, GPU_WRAP_MODE_BORROW, &error));
  assert_told (context, &error, "gpu_stream_new_wrapped: ");
}

static void
report_default_stream (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  GpuContext *context = lost_context (fixture);
  g_autoptr (GpuBuffer) buffer = gpu_buffer_new (context, GPU_MEMORY_NONE, 64, &error);
  guint8 data[64];

  g_assert_no_error (error);
  g_assert_false (gpu_buffer_read (buffer, NULL, 0, data, sizeof data, NULL, &error));
  g_clear_object (&buffer);
  assert_told (context, &error, "gpu_buffer_read: ");
  context = lost_context (fixture);
  g_assert_null (gpu_context_get_default_stream (context));
  assert_told (context, NULL, NULL);
}

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
  test_add ("new", report_new);
  test_add ("wrapped", report_wrapped);
  test_add ("default-stream", report_default_stream);
  return test_run ();
}
