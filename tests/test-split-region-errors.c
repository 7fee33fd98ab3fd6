/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Region operations that the library splits into several driver operations, one of which fails. The
 * call fails at once, and the memory of the other operations stays allocated until they
 * complete. */
#include "config.h"

#include "cuda-driver/cuda-driver.h"
#include "opencl-layer/gpumem-layer.h"
#include "test-util.h"

#define SIZE 4096

typedef enum { WRITE, COPY, READ } Kind;

typedef struct
{
  TestFixture *fixture;
  GpuStream   *stream;
  Kind         kind;
  int          n_freed;             /* number of freed GBytes */
  GError      *error;
  int          done;                /* atomic */
} Call;

static void
count (gpointer data)
{
  g_atomic_int_inc ((int *) data);
}

/* The slice pitch is not a multiple of the row pitch, so each slice is a separate operation. Only
 * the pending operations hold references on the memory. */
static void
call_region (Call *call)
{
  static const guint8 data[SIZE] = { 5 };
  static const GpuLayout layout = { .row_pitch = 32, .slice_pitch = 200 };
  static const GpuExtent extent = { 16, 4, 4 };
  g_autoptr (GpuBuffer) a = test_buffer (call->fixture, SIZE);
  g_autoptr (GpuBuffer) b = test_buffer (call->fixture, SIZE);
  g_autoptr (GBytes) bytes = NULL;

  switch (call->kind)
    {
    case WRITE:
      bytes = g_bytes_new_with_free_func (data, SIZE, count, &call->n_freed);
      g_assert_false (gpu_stream_write_region (call->stream, GPU_MEMORY (a), &layout, bytes, NULL,
                                               &extent, &call->error));
      break;

    case COPY:
      g_assert_false (gpu_stream_copy_region (call->stream, GPU_MEMORY (b), NULL, GPU_MEMORY (a),
                                              &layout, &extent, &call->error));
      break;

    case READ:
    default:
      g_assert_null (gpu_stream_read_region (call->stream, GPU_MEMORY (a), &layout, &extent,
                                             &call->error));
      break;
    }
}

static gpointer
run_call (gpointer data)
{
  Call *call = data;

  call_region (call);
  g_atomic_int_set (&call->done, TRUE);
  return NULL;
}

/* Makes the driver fail as @spec describes. NULL disables the fault. */
static void
arm (TestFixture *fixture, const char *spec)
{
  if (test_is_opencl (fixture))
    g_assert_true (GPUMEM_LAYER (set_fail) (spec));
  else
    g_assert_true (GPUMEM_CUDA_DRIVER (set_fail) (spec != NULL ? spec : ""));
}

static const char *
get_spec (TestFixture *fixture, Kind kind)
{
  static const char *const opencl[] =
  {
    [WRITE] = "fn=clEnqueueWriteBufferRect,n=2,code=-5",
    [COPY] = "fn=clEnqueueCopyBufferRect,n=2,code=-5",
    [READ] = "fn=clEnqueueReadBufferRect,n=2,code=-5",
  };

  return test_is_opencl (fixture) ? opencl[kind] : "cuMemcpy2DAsync:2";
}

/* Makes a call with a region fail while a user event or a kernel blocks the stream of the call. A
 * user event then completes, or fails if @fails is TRUE. */
static void
refuse (TestFixture *fixture, Kind kind, gboolean fails)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (TestHold) hold = NULL;
  g_autoptr (GpuEvent) gate = NULL;
  guint64 before = gpu_context_get_allocated_size (fixture->context);
  gint64 deadline = g_get_monotonic_time () + TEST_DEADLINE * G_USEC_PER_SEC;
  Call call = { .fixture = fixture, .stream = stream, .kind = kind };
  GThread *thread;

  if (test_is_opencl (fixture))
    gate = test_gate (fixture, stream);
  else
    hold = test_hold (stream);

  arm (fixture, get_spec (fixture, kind));
  thread = g_thread_new ("call", run_call, &call);
  while (!g_atomic_int_get (&call.done))
    {
      g_assert_cmpint (g_get_monotonic_time (), <, deadline);
      g_thread_yield ();
    }
  g_thread_join (thread);
  arm (fixture, NULL);
  g_assert_error (call.error, GPU_ERROR, (int) call.error->code);
  g_assert_true (g_str_has_prefix (call.error->message, "gpu_stream_"));
  g_clear_error (&call.error);
  g_assert_cmpint (g_atomic_int_get (&call.n_freed), ==, 0);
  g_assert_cmpuint (gpu_context_get_allocated_size (fixture->context), >, before);

  if (hold != NULL)
    test_hold_release (hold);
  else if (fails)
    test_assert_ok (gpu_event_fail (gate, "on purpose", &error), error);
  else
    test_open (gate);

  if (!gpu_stream_synchronize (stream, NULL, &error))
    {
      g_assert_true (fails);
      test_assert_gpu_error (error, GPU_ERROR_FAILED, "on purpose");
    }
  while (gpu_context_get_allocated_size (fixture->context) > before
         || (kind == WRITE && g_atomic_int_get (&call.n_freed) == 0))
    {
      g_assert_cmpint (g_get_monotonic_time (), <, deadline);
      g_thread_yield ();
    }
}

static void
region_failed_operation_opencl (TestFixture *fixture)
{
  if (!test_is_opencl (fixture) || gpumem_layer_symbol ("gpumem_layer_set_fail") == NULL)
    {
      g_test_skip ("runs as a part of failed-operation, on OpenCL under the layer");
      return;
    }
  for (guint i = 0; i < 6; i++)
    refuse (fixture, i % 3, i >= 3);
}

static void
region_failed_operation (TestFixture *fixture)
{
  if (test_is_opencl (fixture))
    {
      if (test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
        test_run_under_layer (fixture, "failed-operation");
      return;
    }
  if (gpumem_cuda_driver_symbol ("gpumem_cuda_driver_set_fail") == NULL
      || !g_str_equal (gpu_device_get_backend (fixture->device), "cuda"))
    {
      g_test_skip ("no call of the driver can be made to fail");
      return;
    }
  /* Reads into pageable memory block in the driver. */
  if (test_can_hold (fixture))
    {
      refuse (fixture, WRITE, FALSE);
      refuse (fixture, COPY, FALSE);
    }
}

/* --- memory of the caller --------------------------------------------------------------------- */

#define ROWS      4
#define ROW_SIZE  32
#define ROW_PITCH 33                /* not a multiple of the texel size: one copy per row */

typedef struct
{
  GpuStream *stream;
  GpuImage  *image;
  gboolean   writes;
  guint8     first;                 /* first byte after the call */
  GError    *error;
  int        done;                  /* atomic */
} Blocking;

/* Overwrites the memory as soon as the call returns. */
static gpointer
run_blocking (gpointer data)
{
  Blocking *call = data;
  guint8 memory[ROWS * ROW_PITCH];

  memset (memory, 7, sizeof memory);
  if (call->writes)
    g_assert_false (gpu_image_write (call->image, call->stream, NULL, NULL, memory, ROW_PITCH, 0,
                                     NULL, &call->error));
  else
    g_assert_false (gpu_image_read (call->image, call->stream, NULL, NULL, memory, ROW_PITCH, 0,
                                    NULL, &call->error));
  call->first = memory[0];
  memset (memory, 9, sizeof memory);
  g_atomic_int_set (&call->done, TRUE);
  return NULL;
}

static GpuImage *
image_filled (TestFixture *fixture, guint8 value)
{
  const GpuImageFormat format = { GPU_CHANNEL_ORDER_RGBA, GPU_CHANNEL_TYPE_UINT8 };
  const GpuExtent extent = { ROW_SIZE / 4, ROWS, 1 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_value_bytes (ROW_SIZE * ROWS, value);
  GpuImage *image = gpu_image_new_from_bytes (fixture->context, GPU_MEMORY_FLAGS_NONE, &format,
                                              GPU_IMAGE_TYPE_IMAGE_2D, &extent, bytes, 0, 0,
                                              &error);

  g_assert_no_error (error);
  return image;
}

/* Checks the first two rows, which the driver has accepted. If the work on these rows fails as
 * well, reads of the image must fail. */
static void
check_rows (const Blocking *call, gboolean fails, gboolean run)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) content = NULL;
  const guint8 *data;

  g_assert_cmpuint (call->first, ==, run && !call->writes ? 5 : 7);
  content = gpu_image_read_bytes (call->image, NULL, NULL, NULL, NULL, &error);
  if (fails && call->writes)
    {
      g_assert_null (content);
      test_assert_gpu_error (error, GPU_ERROR_FAILED, "last write", "in rows");
      return;
    }
  g_assert_no_error (error);
  data = g_bytes_get_data (content, NULL);
  test_assert_value (data, run && call->writes ? 7 : 5, 2 * ROW_SIZE);
  test_assert_value (data + 2 * ROW_SIZE, 5, 2 * ROW_SIZE);
}

/* The third row fails while the other rows are pending. The call keeps no reference on the caller's
 * memory, so it must not return before the other rows complete. */
static void
refuse_blocking (TestFixture *fixture, gboolean writes, GpuStreamFlags flags, gboolean fails)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = test_stream (fixture, flags);
  g_autoptr (GpuImage) image = image_filled (fixture, 5);
  g_autoptr (GpuEvent) gate = test_gate (fixture, stream);
  gint64 deadline = g_get_monotonic_time () + TEST_DEADLINE * G_USEC_PER_SEC;
  Blocking call = { .stream = stream, .image = image, .writes = writes };
  GThread *thread;

  arm (fixture, writes ? "fn=clEnqueueWriteImage,n=3,code=-5"
                       : "fn=clEnqueueReadImage,n=3,code=-5");
  thread = g_thread_new ("call", run_blocking, &call);
  while (GPUMEM_LAYER (get_failed) () == 0)
    {
      g_assert_cmpint (g_get_monotonic_time (), <, deadline);
      g_thread_yield ();
    }
  g_usleep (20000);
  g_assert_false (g_atomic_int_get (&call.done));
  arm (fixture, NULL);

  if (fails)
    test_assert_ok (gpu_event_fail (gate, "in rows", &error), error);
  else
    test_open (gate);
  g_thread_join (thread);
  test_assert_gpu_error (call.error, GPU_ERROR_OUT_OF_DEVICE_MEMORY,
                         writes ? "gpu_image_write: " : "gpu_image_read: ");
  check_rows (&call, fails, !fails || test_is_intel_cpu (fixture));
}

static void
region_failed_blocking_call_opencl (TestFixture *fixture)
{
  const GpuStreamFlags flags[] = { GPU_STREAM_FLAGS_NONE, GPU_STREAM_FLAGS_OUT_OF_ORDER };
  GpuCapabilities capabilities = gpu_device_get_capabilities (fixture->device);
  guint n = (capabilities & GPU_CAPABILITIES_OUT_OF_ORDER) != 0 ? 2 : 1;

  if (!test_is_opencl (fixture) || gpumem_layer_symbol ("gpumem_layer_set_fail") == NULL)
    {
      g_test_skip ("runs as a part of failed-blocking-call, on OpenCL under the layer");
      return;
    }
  for (guint i = 0; i < n; i++)
    {
      refuse_blocking (fixture, FALSE, flags[i], FALSE);
      refuse_blocking (fixture, TRUE, flags[i], FALSE);
      refuse_blocking (fixture, FALSE, flags[i], TRUE);
      refuse_blocking (fixture, TRUE, flags[i], TRUE);
    }
}

static void
region_failed_blocking_call (TestFixture *fixture)
{
  if (!test_is_opencl (fixture))
    g_test_skip ("no call of the driver can be made to fail behind a user event");
  else if (test_has (fixture, GPU_CAPABILITIES_IMAGES | GPU_CAPABILITIES_USER_EVENTS))
    test_run_under_layer (fixture, "failed-blocking-call");
}

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
  test_add ("failed-operation", region_failed_operation);
  test_add ("subprocess/failed-operation", region_failed_operation_opencl);
  test_add ("failed-blocking-call", region_failed_blocking_call);
  test_add ("subprocess/failed-blocking-call", region_failed_blocking_call_opencl);
  return test_run ();
}
