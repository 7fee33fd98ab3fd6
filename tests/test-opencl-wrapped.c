/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Objects over events and programs of OpenCL that the test creates with the driver's functions.
 * All tests also run in one process under the OpenCL layer, which finds leaks and released
 * handles. */
#include "config.h"

#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <gpumem/gpumem-opencl.h>

#include "test-util.h"

#define N         256
#define SIZE      (N * sizeof (gint32))
#define N_THREADS 4
#define N_ROUNDS  100

static const char source[] =
  "__kernel void add (__global int *to, __global const int *from, int n)\n"
  "{\n"
  "  int i = (int) get_global_id (0);\n"
  "  to[i] = from[i] + n;\n"
  "}\n";

static cl_context
get_context (TestFixture *fixture)
{
  return gpu_context_get_cl_context (fixture->context);
}

static cl_device_id
get_device (TestFixture *fixture)
{
  return gpu_device_get_cl_device (fixture->device);
}

static cl_event
user_event (TestFixture *fixture)
{
  cl_int code;
  cl_event event = clCreateUserEvent (get_context (fixture), &code);

  g_assert_cmpint (code, ==, CL_SUCCESS);

  return event;
}

/* Returns the number of references to a handle. @function is clGetEventInfo() or the function of
 * another kind of handle, and @name is the CL_..._REFERENCE_COUNT of this kind. */
#define n_references(function, handle, name) \
  ({ cl_uint n_ = 0; \
     g_assert_cmpint (function ((handle), (name), sizeof n_, &n_, NULL), ==, CL_SUCCESS); \
     n_; })

static guint
n_event_references (cl_event event)
{
  return n_references (clGetEventInfo, event, CL_EVENT_REFERENCE_COUNT);
}

static GpuEvent *
wrap_event (TestFixture *fixture, cl_event handle, GpuWrapMode mode)
{
  g_autoptr (GError) error = NULL;
  GpuEvent *event = gpu_event_new_for_cl_event (fixture->context, handle, mode, &error);

  g_assert_no_error (error);
  g_assert_true (gpu_event_get_cl_event (event) == handle);

  return event;
}

static void
set_status (cl_event event, cl_int status)
{
  g_assert_cmpint (clSetUserEventStatus (event, status), ==, CL_SUCCESS);
}

/* --- events ----------------------------------------------------------------------------------- */

/* A borrowed event takes a reference of its own. An adopted one takes that of the caller. */
static void
event_modes (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  cl_event handle = user_event (fixture);
  GpuEvent *event;

  set_status (handle, CL_COMPLETE);
  event = wrap_event (fixture, handle, GPU_WRAP_MODE_BORROW);
  g_assert_cmpuint (n_event_references (handle), ==, 2);
  g_assert_cmpint (gpu_event_query (event, NULL), ==, GPU_EVENT_STATUS_COMPLETE);
  /* The handle stays that of the caller, also after the event has completed. */
  g_assert_true (gpu_event_get_cl_event (event) == handle);
  g_object_unref (event);
  g_assert_cmpuint (n_event_references (handle), ==, 1);

  g_assert_cmpint (clRetainEvent (handle), ==, CL_SUCCESS);
  event = gpu_event_new_for_cl_event (fixture->context, handle, GPU_WRAP_MODE_ADOPT, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (n_event_references (handle), ==, 2);
  g_assert_cmpint (gpu_event_query (event, NULL), ==, GPU_EVENT_STATUS_COMPLETE);
  g_assert_true (gpu_event_get_cl_event (event) == handle);
  g_object_unref (event);
  g_assert_cmpuint (n_event_references (handle), ==, 1);
  clReleaseEvent (handle);
}

static void
event_user (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE, 1);
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuEvent) event = NULL;
  g_autoptr (GpuEvent) behind = NULL;
  const guint8 value = 2;
  cl_event handle = user_event (fixture);
  guint64 duration;

  event = wrap_event (fixture, handle, GPU_WRAP_MODE_ADOPT);
  g_assert_cmpint (gpu_event_query (event, &error), ==, GPU_EVENT_STATUS_PENDING);
  g_assert_no_error (error);
  g_assert_false (gpu_event_wait_timeout (event, 1000, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_TIMED_OUT);
  g_assert_false (gpu_event_complete (event, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_event_complete", "wrapped");

  test_assert_ok (gpu_stream_wait_event (stream, event, &error), error);
  test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (buffer), 0, SIZE, &value, 1, &error), error);
  behind = test_record (stream);
  g_usleep (20000);
  g_assert_cmpint (gpu_event_query (behind, &error), ==, GPU_EVENT_STATUS_PENDING);
  g_assert_no_error (error);

  set_status (handle, CL_COMPLETE);
  test_assert_ok (gpu_event_wait (event, NULL, &error), error);
  test_assert_ok (gpu_event_wait (behind, NULL, &error), error);
  {
    g_autoptr (GBytes) content = test_content (buffer);

    test_assert_value (g_bytes_get_data (content, NULL), 2, SIZE);
  }
  g_assert_false (gpu_event_get_duration (event, &duration, &error));
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_event_get_duration");
}

/* The wait for a user event of the program must not block a thread, even if the stream orders so
 * much work behind the event that it would otherwise wait for the device. */
static void
event_user_out_of_order (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE, 0);
  g_autoptr (GpuStream) stream = NULL;
  g_autoptr (GpuEvent) event = NULL;
  cl_event handle;

  if (!test_has (fixture, GPU_CAPABILITIES_OUT_OF_ORDER))
    return;

  stream = test_stream (fixture, GPU_STREAM_FLAGS_OUT_OF_ORDER);
  handle = user_event (fixture);
  event = wrap_event (fixture, handle, GPU_WRAP_MODE_ADOPT);
  test_assert_ok (gpu_stream_wait_event (stream, event, &error), error);
  for (guint8 i = 1; i <= 100; i++)
    test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (buffer), 0, SIZE, &i, 1, &error), error);
  set_status (handle, CL_COMPLETE);
  test_synchronize (stream);
  {
    g_autoptr (GBytes) content = test_content (buffer);

    test_assert_value (g_bytes_get_data (content, NULL), 100, SIZE);
  }
}

/* Waiters on a failed event get an error, and so do those on work that waits for the event. */
static void
event_user_fails (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE, 1);
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuStream) late = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuEvent) event = NULL;
  g_autoptr (GpuEvent) behind = NULL;
  const guint8 value = 2;
  cl_event handle = user_event (fixture);

  event = wrap_event (fixture, handle, GPU_WRAP_MODE_ADOPT);
  test_assert_ok (gpu_stream_wait_event (stream, event, &error), error);
  test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (buffer), 0, SIZE, &value, 1, &error), error);
  behind = test_record (stream);
  set_status (handle, -40);
  g_assert_false (gpu_event_wait (event, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_FAILED, "-40");
  g_assert_cmpint (gpu_event_query (event, &error), ==, GPU_EVENT_STATUS_FAILED);
  test_assert_gpu_error (error, GPU_ERROR_FAILED, "gpu_event_query", "-40");
  g_assert_false (gpu_event_wait (behind, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_FAILED, "-40");
  g_assert_false (gpu_stream_wait_event (late, event, &error));
  test_assert_gpu_error (error, GPU_ERROR_FAILED, "gpu_stream_wait_event", "-40");
}

/* The program may fail an event with any code. The codes of a missing device and of missing memory
 * say nothing about the context, which remains usable. */
static void
event_user_fails_like_device (TestFixture *fixture)
{
  static const cl_int statuses[] = { CL_DEVICE_NOT_AVAILABLE, CL_MEM_OBJECT_ALLOCATION_FAILURE };

  for (guint i = 0; i < G_N_ELEMENTS (statuses); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GpuBuffer) buffer = NULL;
      g_autoptr (GpuEvent) event = NULL;
      cl_event handle = user_event (fixture);

      event = wrap_event (fixture, handle, GPU_WRAP_MODE_ADOPT);
      set_status (handle, statuses[i]);
      g_assert_false (gpu_event_wait (event, NULL, &error));
      test_assert_gpu_error (error, GPU_ERROR_FAILED);
      g_assert_cmpint (gpu_event_query (event, &error), ==, GPU_EVENT_STATUS_FAILED);
      test_assert_gpu_error (error, GPU_ERROR_FAILED);
      buffer = gpu_buffer_new (fixture->context, GPU_MEMORY_FLAGS_NONE, SIZE, &error);
      g_assert_no_error (error);
    }
}

static cl_command_queue
get_queue (TestFixture *fixture, cl_command_queue_properties properties)
{
  cl_int code;
  cl_command_queue queue = clCreateCommandQueue (get_context (fixture), get_device (fixture),
                                                 properties, &code);

  g_assert_cmpint (code, ==, CL_SUCCESS);

  return queue;
}

static GpuEvent *
write_value (TestFixture *fixture, cl_command_queue queue, GpuBuffer *buffer, guint8 value)
{
  g_autofree guint8 *data = g_malloc (SIZE);
  cl_event event = NULL;

  memset (data, value, SIZE);
  g_assert_cmpint (clEnqueueWriteBuffer (queue, gpu_buffer_get_cl_mem (buffer), CL_TRUE, 0, SIZE,
                                         data, 0, NULL, &event), ==, CL_SUCCESS);

  return wrap_event (fixture, event, GPU_WRAP_MODE_ADOPT);
}

/* Commands of a queue of the program order work of the library, and have times. */
static void
event_commands (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE, 0);
  cl_command_queue queue = get_queue (fixture, CL_QUEUE_PROFILING_ENABLE);
  g_autoptr (GpuEvent) first = write_value (fixture, queue, buffer, 3);
  g_autoptr (GpuEvent) second = write_value (fixture, queue, buffer, 4);
  g_autoptr (GBytes) content = NULL;
  guint64 duration = G_MAXUINT64;
  guint64 ended = 0;
  gint64 elapsed = -1;

  test_assert_ok (gpu_stream_wait_event (fixture->stream, second, &error), error);
  test_synchronize (fixture->stream);
  content = test_content (buffer);
  test_assert_value (g_bytes_get_data (content, NULL), 4, SIZE);
  test_assert_ok (gpu_event_wait (first, NULL, &error), error);
  test_assert_ok (gpu_event_wait (second, NULL, &error), error);
  test_assert_ok (gpu_event_get_duration (first, &duration, &error), error);
  g_assert_cmpuint (duration, <, G_GUINT64_CONSTANT (30000000000));
  test_assert_ok (gpu_event_get_elapsed (second, first, &elapsed, &error), error);
  g_assert_cmpint (elapsed, >=, 0);
  test_assert_ok (gpu_event_get_profiling_time (second, GPU_PROFILING_POINT_ENDED, &ended, &error),
                  error);
  g_assert_cmpuint (ended, >, 0);
  clReleaseCommandQueue (queue);
}

static void
event_without_times (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE, 0);
  cl_command_queue queue = get_queue (fixture, 0);
  g_autoptr (GpuEvent) event = write_value (fixture, queue, buffer, 3);
  guint64 duration;

  clReleaseCommandQueue (queue);
  test_assert_ok (gpu_event_wait (event, NULL, &error), error);
  g_assert_false (gpu_event_get_duration (event, &duration, &error));
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "clGetEventProfilingInfo");
}

static void
on_completed (GpuEvent *event G_GNUC_UNUSED, const GError *error, gboolean *done)
{
  g_assert_no_error (error);
  *done = TRUE;
}

/* The watch keeps the event alive until the emission. */
static void
event_watched (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  cl_event handle = user_event (fixture);
  GpuEvent *event = wrap_event (fixture, handle, GPU_WRAP_MODE_BORROW);
  gboolean done = FALSE;

  g_signal_connect (event, "completed", G_CALLBACK (on_completed), &done);
  test_assert_ok (gpu_event_watch (event, &error), error);
  g_object_unref (event);
  set_status (handle, CL_COMPLETE);
  test_wait_until (&done);
  clReleaseEvent (handle);
}

typedef struct
{
  TestFixture *fixture;
  cl_event     handle;
} ThreadData;

static gpointer
wrap_and_wait (gpointer data)
{
  const ThreadData *thread = data;

  for (guint i = 0; i < N_ROUNDS; i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GpuStream) stream = test_stream (thread->fixture, GPU_STREAM_FLAGS_NONE);
      g_autoptr (GpuEvent) event = wrap_event (thread->fixture, thread->handle,
                                               GPU_WRAP_MODE_BORROW);

      test_assert_ok (gpu_stream_wait_event (stream, event, &error), error);
      test_assert_ok (gpu_event_wait (event, NULL, &error), error);
      test_synchronize (stream);
    }

  return NULL;
}

static void
event_threads (TestFixture *fixture)
{
  ThreadData data = { fixture, user_event (fixture) };
  GThread *threads[N_THREADS];

  for (guint i = 0; i < N_THREADS; i++)
    threads[i] = g_thread_new ("wrap", wrap_and_wait, &data);
  g_usleep (10000);
  set_status (data.handle, CL_COMPLETE);
  for (guint i = 0; i < N_THREADS; i++)
    g_thread_join (threads[i]);

  clReleaseEvent (data.handle);
}

/* The context of the event must be that of the object, but streams of every context can wait. */
static void
event_of_other_context (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuContext) other = gpu_context_new (fixture->device, GPU_CONTEXT_FLAGS_NONE, &error);
  g_autoptr (GpuStream) stream = NULL;
  g_autoptr (GpuEvent) event = NULL;
  cl_event handle = user_event (fixture);

  g_assert_no_error (error);
  g_assert_null (gpu_event_new_for_cl_event (other, handle, GPU_WRAP_MODE_ADOPT, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_event_new_wrapped", "context");
  g_assert_null (gpu_event_new_for_cl_event (other, NULL, GPU_WRAP_MODE_BORROW, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_event_new_wrapped", "handle is 0");

  event = wrap_event (fixture, handle, GPU_WRAP_MODE_ADOPT);
  stream = gpu_stream_new (other, GPU_STREAM_FLAGS_NONE, &error);
  g_assert_no_error (error);
  if (test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    test_assert_ok (gpu_stream_wait_event (stream, event, &error), error);
  set_status (handle, CL_COMPLETE);
  test_synchronize (stream);
}

/* --- programs --------------------------------------------------------------------------------- */

static cl_program
create_program (TestFixture *fixture, const char *text)
{
  cl_int code;
  cl_program program = clCreateProgramWithSource (get_context (fixture), 1, &text, NULL, &code);

  g_assert_cmpint (code, ==, CL_SUCCESS);

  return program;
}

static cl_program
build_program (TestFixture *fixture, const char *options)
{
  cl_program program = create_program (fixture, source);

  g_assert_cmpint (clBuildProgram (program, 0, NULL, options, NULL, NULL), ==, CL_SUCCESS);

  return program;
}

static guint
n_program_references (cl_program program)
{
  return n_references (clGetProgramInfo, program, CL_PROGRAM_REFERENCE_COUNT);
}

static void
launch_add (TestFixture *fixture, GpuKernel *kernel)
{
  const GpuExtent items = { N, 1, 1 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) from = test_buffer_filled (fixture, SIZE, 1);
  g_autoptr (GpuBuffer) to = test_buffer_filled (fixture, SIZE, 0);
  g_autoptr (GBytes) content = NULL;

  if (gpu_kernel_get_argument_kind (kernel, 0) == GPU_ARGUMENT_KIND_UNKNOWN)
    test_assert_ok (gpu_kernel_declare_arguments (kernel, "ppi", &error), error);
  test_assert_ok (gpu_stream_launch (fixture->stream, kernel, &items, NULL, &error, to, from, 0),
                  error);
  test_synchronize (fixture->stream);
  content = test_content (to);
  test_assert_value (g_bytes_get_data (content, NULL), 1, SIZE);
}

static GpuProgram *
wrap_program (TestFixture *fixture, cl_program handle, GpuWrapMode mode)
{
  g_autoptr (GError) error = NULL;
  GpuProgram *program = gpu_program_new_for_cl_program (fixture->context, handle, mode, &error);

  g_assert_no_error (error);
  g_assert_true (gpu_program_get_cl_program (program) == handle);
  g_assert_true (gpu_program_get_context (program) == fixture->context);

  return program;
}

/* A kernel keeps the program of the driver alive, after both the object and the caller have dropped
 * their references. */
static void
program_modes (TestFixture *fixture)
{
  cl_program handle = build_program (fixture, "");
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuProgram) program = wrap_program (fixture, handle, GPU_WRAP_MODE_BORROW);
  g_autoptr (GpuKernel) kernel = NULL;
  g_auto (GStrv) names = NULL;

  g_assert_cmpuint (n_program_references (handle), ==, 2);
  g_clear_object (&program);
  g_assert_cmpuint (n_program_references (handle), ==, 1);

  program = wrap_program (fixture, handle, GPU_WRAP_MODE_ADOPT);
  g_assert_cmpuint (n_program_references (handle), ==, 1);
  names = gpu_program_list_kernels (program, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (g_strv_length (names), ==, 1);
  g_assert_cmpstr (names[0], ==, "add");
  kernel = gpu_program_get_kernel (program, "add", &error);
  g_assert_no_error (error);
  g_assert_cmpuint (gpu_kernel_get_n_arguments (kernel), ==, 3);
  g_clear_object (&program);
  launch_add (fixture, kernel);
  g_clear_object (&kernel);
}

/* With -cl-kernel-arg-info the kernels are described, and the binary can be loaded again. */
static void
program_described (TestFixture *fixture)
{
  cl_program handle = build_program (fixture, "-cl-kernel-arg-info");
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuProgram) program = wrap_program (fixture, handle, GPU_WRAP_MODE_ADOPT);
  g_autoptr (GpuProgram) again = NULL;
  g_autoptr (GpuKernel) kernel = gpu_program_get_kernel (program, "add", &error);
  g_autoptr (GBytes) binary = NULL;

  g_assert_no_error (error);
  g_assert_cmpint (gpu_kernel_get_argument_kind (kernel, 0), ==, GPU_ARGUMENT_KIND_MEMORY);
  g_assert_cmpstr (gpu_kernel_get_argument_name (kernel, 1), ==, "from");
  launch_add (fixture, kernel);
  g_clear_object (&kernel);

  binary = gpu_program_get_binary (program, &error);
  g_assert_no_error (error);
  again = gpu_program_new_from_binary (fixture->context, binary, NULL, &error);
  g_assert_no_error (error);
  kernel = gpu_program_get_kernel (again, "add", &error);
  g_assert_no_error (error);
  launch_add (fixture, kernel);
}

/* A cl_kernel names its program. */
static void
program_of_kernel (TestFixture *fixture)
{
  cl_program handle = build_program (fixture, "-cl-kernel-arg-info");
  cl_program found = NULL;
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuProgram) program = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  cl_int code;
  cl_kernel native = clCreateKernel (handle, "add", &code);

  g_assert_cmpint (code, ==, CL_SUCCESS);
  g_assert_cmpint (clGetKernelInfo (native, CL_KERNEL_PROGRAM, sizeof found, &found, NULL), ==,
                   CL_SUCCESS);
  program = wrap_program (fixture, found, GPU_WRAP_MODE_BORROW);
  clReleaseKernel (native);
  clReleaseProgram (handle);
  kernel = gpu_program_get_kernel (program, "add", &error);
  g_assert_no_error (error);
  launch_add (fixture, kernel);
}

static void
assert_refused (TestFixture *fixture, GpuContext *context, cl_program handle, GpuError code,
                const char *word)
{
  g_autoptr (GError) error = NULL;

  g_assert_null (gpu_program_new_for_cl_program (context, handle, GPU_WRAP_MODE_ADOPT, &error));
  test_assert_gpu_error (error, code, "gpu_program_new_wrapped", word);
  /* The caller keeps its reference. */
  g_assert_cmpuint (n_program_references (handle), ==, 1);
  clReleaseProgram (handle);
}

static void
program_not_built (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuContext) other = gpu_context_new (fixture->device, GPU_CONTEXT_FLAGS_NONE, &error);
  cl_program handle;

  g_assert_no_error (error);
  assert_refused (fixture, fixture->context, create_program (fixture, source),
                  GPU_ERROR_INVALID_ARGUMENT, "not built");

  handle = create_program (fixture, "__kernel void broken (");
  g_assert_cmpint (clBuildProgram (handle, 0, NULL, "", NULL, NULL), !=, CL_SUCCESS);
  assert_refused (fixture, fixture->context, handle, GPU_ERROR_BUILD_FAILED, "has failed");

  handle = create_program (fixture, source);
  if (clCompileProgram (handle, 0, NULL, "", 0, NULL, NULL, NULL, NULL) == CL_SUCCESS)
    assert_refused (fixture, fixture->context, handle, GPU_ERROR_INVALID_ARGUMENT, "not built");
  else
    clReleaseProgram (handle);

  assert_refused (fixture, other, build_program (fixture, ""), GPU_ERROR_INVALID_ARGUMENT,
                  "context");
  g_assert_null (gpu_program_new_for_cl_program (fixture->context, NULL, GPU_WRAP_MODE_BORROW,
                                                 &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_program_new_wrapped",
                         "handle is 0");
}

static gpointer
wrap_and_launch (gpointer data)
{
  const ThreadData *thread = data;

  for (guint i = 0; i < N_ROUNDS / 10; i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GpuProgram) program =
        wrap_program (thread->fixture, (cl_program) (gpointer) thread->handle,
                      GPU_WRAP_MODE_BORROW);
      g_autoptr (GpuKernel) kernel = gpu_program_get_kernel (program, "add", &error);

      g_assert_no_error (error);
      launch_add (thread->fixture, kernel);
    }

  return NULL;
}

static void
program_threads (TestFixture *fixture)
{
  cl_program handle = build_program (fixture, "-cl-kernel-arg-info");
  ThreadData data = { fixture, (cl_event) (gpointer) handle };
  GThread *threads[N_THREADS];

  for (guint i = 0; i < N_THREADS; i++)
    threads[i] = g_thread_new ("wrap", wrap_and_launch, &data);
  for (guint i = 0; i < N_THREADS; i++)
    g_thread_join (threads[i]);

  g_assert_cmpuint (n_program_references (handle), ==, 1);
  clReleaseProgram (handle);
}

/* --- all tests -------------------------------------------------------------------------------- */

static const TestEntry tests[] =
{
  TEST_ENTRY (event_modes),
  TEST_ENTRY (event_user),
  TEST_ENTRY (event_user_out_of_order),
  TEST_ENTRY (event_user_fails),
  TEST_ENTRY (event_user_fails_like_device),
  TEST_ENTRY (event_commands),
  TEST_ENTRY (event_without_times),
  TEST_ENTRY (event_watched),
  TEST_ENTRY (event_threads),
  TEST_ENTRY (event_of_other_context),
  TEST_ENTRY (program_modes),
  TEST_ENTRY (program_described),
  TEST_ENTRY (program_of_kernel),
  TEST_ENTRY (program_not_built),
  TEST_ENTRY (program_threads)
};

static void
wrapped_layer (TestFixture *fixture)
{
  test_run_under_layer (fixture, "all");
}

static gboolean
is_opencl (TestFixture *fixture)
{
  if (test_is_opencl (fixture))
    return TRUE;
  g_test_skip ("the handles are those of OpenCL");
  return FALSE;
}

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
  test_add_list (tests, G_N_ELEMENTS (tests), is_opencl);
  test_add ("layer", wrapped_layer);
  return test_run ();
}
