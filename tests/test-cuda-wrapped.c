/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Objects over events and modules of CUDA that the test creates with the driver's functions. All
 * tests also run in one process on the stand-in for the driver, which finds leaks and destroyed
 * handles. */
#include "config.h"

#include "test-cuda-util.h"

#define N         256
#define SIZE      (N * sizeof (gint32))
#define N_THREADS 4
#define N_ROUNDS  50

#define OK(call) g_assert_cmpuint (call, ==, CUDA_SUCCESS)

static const char source[] =
  "__device__ int table[4];\n"
  "extern \"C\" __global__ void add (int *to, const int *from, int n)\n"
  "{\n"
  "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
  "  to[i] = from[i] + n + table[0];\n"
  "}\n";

static const char portable_source[] =
  "__kernel void add (__global int *to, __global const int *from, int n)\n"
  "{\n"
  "  int i = get_global_id (0);\n"
  "  to[i] = from[i] + n;\n"
  "}\n";

static gboolean
is_stand_in (TestFixture *fixture)
{
  return g_str_has_prefix (gpu_device_get_name (fixture->device), "Stand-in");
}

/* Records an event of the driver on @stream. */
static CUevent
record (TestFixture *fixture, GpuStream *stream, unsigned int flags)
{
  CUevent event = NULL;

  test_cuda_push (fixture);
  OK (_gpu_cuda.cuEventCreate (&event, flags));
  OK (_gpu_cuda.cuEventRecord (event, (CUstream) (guintptr)
                               gpu_stream_get_native_handle (stream)));
  test_cuda_pop (fixture);

  return event;
}

static void
destroy (TestFixture *fixture, CUevent event)
{
  test_cuda_push (fixture);
  OK (_gpu_cuda.cuEventDestroy (event));
  test_cuda_pop (fixture);
}

static GpuEvent *
wrap_event (TestFixture *fixture, CUevent handle, GpuWrapMode mode)
{
  g_autoptr (GError) error = NULL;
  GpuEvent *event = gpu_event_new_wrapped (fixture->context, (guintptr) handle, mode, &error);

  g_assert_no_error (error);
  g_assert_cmpuint (test_get_number (event, "native-handle"), ==, (guintptr) handle);

  return event;
}

/* --- events ----------------------------------------------------------------------------------- */

/* The caller destroys a borrowed event. The object destroys an adopted one: see the test for
 * leaks. */
static void
event_modes (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  CUevent handle = record (fixture, fixture->stream, CU_EVENT_DISABLE_TIMING);
  GpuEvent *event = wrap_event (fixture, handle, GPU_WRAP_MODE_BORROW);

  test_assert_ok (gpu_event_wait (event, NULL, &error), error);
  g_object_unref (event);
  OK (_gpu_cuda.cuEventQuery (handle));

  event = wrap_event (fixture, handle, GPU_WRAP_MODE_ADOPT);
  g_assert_cmpint (gpu_event_query (event, NULL), ==, GPU_EVENT_STATUS_COMPLETE);
  g_object_unref (event);
}

static void
event_never_recorded (TestFixture *fixture)
{
  g_autoptr (GpuEvent) event = NULL;
  CUevent handle = NULL;

  test_cuda_push (fixture);
  OK (_gpu_cuda.cuEventCreate (&handle, 0));
  test_cuda_pop (fixture);
  event = wrap_event (fixture, handle, GPU_WRAP_MODE_ADOPT);
  g_assert_cmpint (gpu_event_query (event, NULL), ==, GPU_EVENT_STATUS_COMPLETE);
}

static void
on_completed (GpuEvent *event G_GNUC_UNUSED, const GError *error, gboolean *done)
{
  g_assert_no_error (error);
  *done = TRUE;
}

/* A stream, a thread and a main loop wait for work that is pending. */
static void
event_pending (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) first = test_stream (fixture, GPU_STREAM_FLAGS_NON_BLOCKING);
  g_autoptr (GpuStream) second = test_stream (fixture, GPU_STREAM_FLAGS_NON_BLOCKING);
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE, 1);
  g_autoptr (GpuEvent) event = NULL;
  g_autoptr (GpuEvent) behind = NULL;
  g_autoptr (TestHold) hold = NULL;
  g_autoptr (GBytes) content = NULL;
  const guint8 value = 2;
  gboolean done = FALSE;

  hold = test_hold (first);
  event = wrap_event (fixture, record (fixture, first, CU_EVENT_DISABLE_TIMING),
                      GPU_WRAP_MODE_ADOPT);
  g_signal_connect (event, "completed", G_CALLBACK (on_completed), &done);
  test_assert_ok (gpu_event_watch (event, &error), error);
  g_assert_cmpint (gpu_event_query (event, &error), ==, GPU_EVENT_STATUS_PENDING);
  g_assert_no_error (error);
  g_assert_false (gpu_event_wait_timeout (event, 1000, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_TIMED_OUT);
  g_assert_false (gpu_event_complete (event, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_event_complete", "wrapped");
  test_assert_ok (gpu_stream_wait_event (second, event, &error), error);
  test_assert_ok (gpu_stream_fill (second, GPU_MEMORY (buffer), 0, SIZE, &value, 1, &error), error);
  behind = test_record (second);
  g_usleep (10000);
  g_assert_cmpint (gpu_event_query (behind, &error), ==, GPU_EVENT_STATUS_PENDING);
  g_assert_no_error (error);

  test_hold_release (hold);
  test_assert_ok (gpu_event_wait (event, NULL, &error), error);
  test_assert_ok (gpu_event_wait (behind, NULL, &error), error);
  test_wait_until (&done);
  content = test_content (buffer);
  test_assert_value (g_bytes_get_data (content, NULL), 2, SIZE);
}

static void
event_times (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuEvent) first = NULL;
  g_autoptr (GpuEvent) second = NULL;
  g_autoptr (GpuEvent) timeless = NULL;
  guint64 from = 0;
  guint64 to = 0;
  gint64 elapsed = -1;

  first = wrap_event (fixture, record (fixture, fixture->stream, 0), GPU_WRAP_MODE_ADOPT);
  second = wrap_event (fixture, record (fixture, fixture->stream, 0), GPU_WRAP_MODE_ADOPT);
  timeless = wrap_event (fixture, record (fixture, fixture->stream, CU_EVENT_DISABLE_TIMING),
                         GPU_WRAP_MODE_ADOPT);
  test_synchronize (fixture->stream);
  test_assert_ok (gpu_event_wait (timeless, NULL, &error), error);
  test_assert_ok (gpu_event_get_elapsed (second, first, &elapsed, &error), error);
  g_assert_cmpint (elapsed, >=, 0);
  test_assert_ok (gpu_event_get_profiling_time (first, GPU_PROFILING_POINT_ENDED, &from, &error),
                  error);
  test_assert_ok (gpu_event_get_profiling_time (second, GPU_PROFILING_POINT_ENDED, &to, &error),
                  error);
  g_assert_cmpuint (from, >, 0);
  g_assert_cmpint (ABS ((gint64) (to - from) - elapsed), <, 1000000);

  g_assert_false (gpu_event_get_elapsed (timeless, first, &elapsed, &error));
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_event_get_elapsed", "no times");
  g_assert_false (gpu_event_get_profiling_time (timeless, GPU_PROFILING_POINT_ENDED, &to, &error));
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "no times");
  g_assert_false (gpu_event_get_duration (first, &to, &error));
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_event_get_duration", "wrapped");
}

static CUcontext
create_context (TestFixture *fixture)
{
  CUcontext context = NULL;
  CUcontext popped = NULL;

  OK (_gpu_cuda.cuCtxCreate (&context, 0,
                             (CUdevice) gpu_device_get_native_handle (fixture->device)));
  OK (_gpu_cuda.cuCtxPopCurrent (&popped));

  return context;
}

/* CUDA streams wait for events of every context. */
static void
event_of_other_context (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuEvent) event = NULL;
  CUcontext other = create_context (fixture);
  CUcontext popped = NULL;
  CUevent handle = NULL;

  OK (_gpu_cuda.cuCtxPushCurrent (other));
  OK (_gpu_cuda.cuEventCreate (&handle, CU_EVENT_DISABLE_TIMING));
  OK (_gpu_cuda.cuEventRecord (handle, NULL));
  OK (_gpu_cuda.cuCtxPopCurrent (&popped));
  event = wrap_event (fixture, handle, GPU_WRAP_MODE_BORROW);
  test_assert_ok (gpu_stream_wait_event (fixture->stream, event, &error), error);
  test_synchronize (fixture->stream);
  test_assert_ok (gpu_event_wait (event, NULL, &error), error);
  g_clear_object (&event);
  OK (_gpu_cuda.cuCtxPushCurrent (other));
  OK (_gpu_cuda.cuEventDestroy (handle));
  OK (_gpu_cuda.cuCtxPopCurrent (&popped));
  OK (_gpu_cuda.cuCtxDestroy (other));
}

/* Other drivers than the stand-in may crash on invalid handles. */
static void
invalid_handles (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  guint64 none[16] = { 0 };

  g_assert_null (gpu_event_new_wrapped (fixture->context, 0, GPU_WRAP_MODE_ADOPT, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_event_new_wrapped",
                         "handle is 0");
  g_assert_null (gpu_program_new_wrapped (fixture->context, 0, GPU_WRAP_MODE_ADOPT, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_program_new_wrapped",
                         "handle is 0");
  if (!is_stand_in (fixture))
    return;

  g_assert_null (gpu_event_new_wrapped (fixture->context, (guintptr) none, GPU_WRAP_MODE_ADOPT,
                                        &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_event_new_wrapped",
                         "cuEventQuery");
  g_assert_null (gpu_program_new_wrapped (fixture->context, (guintptr) none, GPU_WRAP_MODE_ADOPT,
                                          &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_program_new_wrapped",
                         "cuModuleGetGlobal");
}

/* --- programs --------------------------------------------------------------------------------- */

/* Loads @text in the current context with the driver's function. */
static CUmodule
load (TestFixture *fixture, CUcontext context, const char *text)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuProgram) program = test_program (fixture, text);
  g_autoptr (GBytes) binary = gpu_program_get_binary (program, &error);
  CUmodule module = NULL;
  CUcontext popped = NULL;

  g_assert_no_error (error);
  OK (_gpu_cuda.cuCtxPushCurrent (context));
  OK (_gpu_cuda.cuModuleLoadDataEx (&module, g_bytes_get_data (binary, NULL), 0, NULL, NULL));
  OK (_gpu_cuda.cuCtxPopCurrent (&popped));

  return module;
}

static void
unload (CUcontext context, CUmodule module)
{
  CUcontext popped = NULL;

  OK (_gpu_cuda.cuCtxPushCurrent (context));
  OK (_gpu_cuda.cuModuleUnload (module));
  OK (_gpu_cuda.cuCtxPopCurrent (&popped));
}

static GpuProgram *
wrap_module (TestFixture *fixture, CUmodule handle, GpuWrapMode mode)
{
  g_autoptr (GError) error = NULL;
  GpuProgram *program = gpu_program_new_wrapped (fixture->context, (guintptr) handle, mode, &error);

  g_assert_no_error (error);
  g_assert_cmpuint (test_get_number (program, "native-handle"), ==, (guintptr) handle);
  g_assert_true (gpu_program_get_context (program) == fixture->context);

  return program;
}

static GpuKernel *
get_add (GpuProgram *program)
{
  g_autoptr (GError) error = NULL;
  GpuKernel *kernel = gpu_program_get_kernel (program, "add", &error);

  g_assert_no_error (error);
  if (gpu_kernel_get_argument_kind (kernel, 0) == GPU_ARGUMENT_KIND_UNKNOWN)
    test_assert_ok (gpu_kernel_declare_arguments (kernel, "ppi", &error), error);

  return kernel;
}

static void
launch_add (TestFixture *fixture, GpuKernel *kernel, guint8 result)
{
  const GpuExtent items = { N, 1, 1 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) from = test_buffer_filled (fixture, SIZE, 1);
  g_autoptr (GpuBuffer) to = test_buffer_filled (fixture, SIZE, 0);
  g_autoptr (GBytes) content = NULL;

  test_assert_ok (gpu_stream_launch (fixture->stream, kernel, &items, NULL, &error, to, from, 0),
                  error);
  test_synchronize (fixture->stream);
  content = test_content (to);
  test_assert_value (g_bytes_get_data (content, NULL), result, SIZE);
}

/* The kernel keeps an adopted module loaded. The caller unloads a borrowed one. */
static void
program_modes (TestFixture *fixture)
{
  CUmodule handle = load (fixture, test_cuda_context (fixture), source);
  GpuProgram *program = wrap_module (fixture, handle, GPU_WRAP_MODE_BORROW);
  GpuKernel *kernel = get_add (program);

  g_object_unref (program);
  launch_add (fixture, kernel, 1);
  g_object_unref (kernel);
  unload (test_cuda_context (fixture), handle);

  handle = load (fixture, test_cuda_context (fixture), source);
  program = wrap_module (fixture, handle, GPU_WRAP_MODE_ADOPT);
  kernel = get_add (program);
  g_object_unref (program);
  launch_add (fixture, kernel, 1);
  g_object_unref (kernel);
}

static void
assert_no_offset (TestFixture *fixture, GpuKernel *kernel, const char *word)
{
  const GpuExtent items = { N, 1, 1 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, 2 * SIZE, 1);
  g_autoptr (GpuArguments) arguments = gpu_arguments_new ();

  gpu_arguments_add_memory (arguments, GPU_MEMORY (buffer));
  gpu_arguments_add_memory (arguments, GPU_MEMORY (buffer));
  gpu_arguments_add_int (arguments, 0);
  g_assert_null (gpu_launch_new (kernel, &items, NULL, &items, 0, GPU_LAUNCH_FLAGS_NONE, arguments,
                                 &error));
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "add", word);
}

static void
program_contents (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  CUmodule handle = load (fixture, test_cuda_context (fixture), source);
  g_autoptr (GpuProgram) program = wrap_module (fixture, handle, GPU_WRAP_MODE_ADOPT);
  g_autoptr (GpuKernel) kernel = get_add (program);
  g_autoptr (GpuBuffer) table = NULL;
  g_auto (GStrv) names = gpu_program_list_kernels (program, &error);
  const guint8 value = 4;

  g_assert_no_error (error);
  g_assert_cmpuint (g_strv_length (names), ==, 1);
  g_assert_cmpstr (names[0], ==, "add");
  g_assert_cmpuint (gpu_kernel_get_n_arguments (kernel), ==, 3);
  g_assert_null (gpu_program_get_kernel (program, "nothing", &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "nothing", "add");
  g_assert_null (gpu_program_get_binary (program, &error));
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_program_get_binary", "wrapped");

  if (test_has (fixture, GPU_CAPABILITIES_GLOBALS))
    {
      table = gpu_program_get_global (program, "table", &error);
      g_assert_no_error (error);
      g_assert_cmpuint (gpu_memory_get_size (GPU_MEMORY (table)), ==, 16);
      test_assert_ok (gpu_stream_fill (fixture->stream, GPU_MEMORY (table), 0, 16, &value, 1,
                                       &error), error);
      test_synchronize (fixture->stream);
      launch_add (fixture, kernel, 5);
    }

  assert_no_offset (fixture, kernel, "no global offset");
}

/* A module in the portable dialect describes its kernels, but cannot be loaded a second time for
 * launches with an offset. */
static void
program_portable (TestFixture *fixture)
{
  CUmodule handle = load (fixture, test_cuda_context (fixture), portable_source);
  g_autoptr (GpuProgram) program = wrap_module (fixture, handle, GPU_WRAP_MODE_ADOPT);
  g_autoptr (GpuKernel) kernel = get_add (program);

  g_assert_cmpstr (gpu_kernel_get_argument_name (kernel, 1), ==, "from");
  g_assert_cmpint (gpu_kernel_get_argument_kind (kernel, 1), ==, GPU_ARGUMENT_KIND_MEMORY);
  launch_add (fixture, kernel, 1);
  assert_no_offset (fixture, kernel, "a wrapped program takes no global offset");
}

typedef struct
{
  TestFixture *fixture;
  CUmodule     module;
  CUevent      event;
} ThreadData;

static gpointer
wrap_in_thread (gpointer data)
{
  const ThreadData *thread = data;

  for (guint i = 0; i < N_ROUNDS; i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GpuEvent) event = wrap_event (thread->fixture, thread->event,
                                               GPU_WRAP_MODE_BORROW);
      g_autoptr (GpuProgram) program = wrap_module (thread->fixture, thread->module,
                                                    GPU_WRAP_MODE_BORROW);
      g_autoptr (GpuKernel) kernel = get_add (program);

      test_assert_ok (gpu_event_wait (event, NULL, &error), error);
      launch_add (thread->fixture, kernel, 1);
    }

  return NULL;
}

static void
threads (TestFixture *fixture)
{
  ThreadData data = { fixture, load (fixture, test_cuda_context (fixture), source),
                      record (fixture, fixture->stream, CU_EVENT_DISABLE_TIMING) };
  GThread *all[N_THREADS];

  for (guint i = 0; i < N_THREADS; i++)
    all[i] = g_thread_new ("wrap", wrap_in_thread, &data);
  for (guint i = 0; i < N_THREADS; i++)
    g_thread_join (all[i]);

  unload (test_cuda_context (fixture), data.module);
  destroy (fixture, data.event);
}

typedef struct
{
  GpuEvent *event;
  gint      is_started;             /* atomic */
} Waiter;

static gpointer
wait_in_thread (gpointer data)
{
  g_autoptr (GError) error = NULL;
  Waiter *waiter = data;

  g_atomic_int_set (&waiter->is_started, TRUE);
  if (!gpu_event_wait (waiter->event, NULL, &error))
    g_assert_true (error->domain == GPU_ERROR);

  return NULL;
}

/* A program must not destroy a borrowed event while the library uses it. If the driver
 * returns error codes, as the stand-in does, the library reports errors and does not crash. */
static void
destroyed_event (TestFixture *fixture)
{
  for (guint i = 0; i < N_THREADS; i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NON_BLOCKING);
      g_autoptr (TestHold) hold = test_hold (stream);
      CUevent handle = record (fixture, stream, CU_EVENT_DISABLE_TIMING);
      g_autoptr (GpuEvent) event = wrap_event (fixture, handle, GPU_WRAP_MODE_BORROW);
      Waiter waiter = { .event = event };
      GThread *thread = g_thread_new ("wait", wait_in_thread, &waiter);

      while (!g_atomic_int_get (&waiter.is_started))
        g_thread_yield ();
      destroy (fixture, handle);
      g_assert_cmpint (gpu_event_query (event, &error), ==, GPU_EVENT_STATUS_FAILED);
      g_assert_true (error->domain == GPU_ERROR);

      test_hold_release (hold);
      g_thread_join (thread);
      test_synchronize (stream);
    }

  g_printerr ("no round has crashed\n");
}

/* The driver refuses a launch of a kernel of another context. */
static void
other_context (TestFixture *fixture)
{
  const GpuExtent items = { N, 1, 1 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  CUcontext other = NULL;
  CUmodule handle;
  GpuProgram *program;
  GpuKernel *kernel;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_SOURCE))
    return;

  buffer = test_buffer_filled (fixture, SIZE, 1);
  other = create_context (fixture);
  handle = load (fixture, other, source);
  program = gpu_program_new_wrapped (fixture->context, (guintptr) handle, GPU_WRAP_MODE_BORROW,
                                     &error);
  g_assert_no_error (error);
  kernel = get_add (program);
  g_assert_false (gpu_stream_launch (fixture->stream, kernel, &items, NULL, &error, buffer, buffer,
                                     0));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "cuLaunchKernel");
  g_object_unref (kernel);
  g_object_unref (program);
  OK (_gpu_cuda.cuCtxDestroy (other));
}

/* --- all tests -------------------------------------------------------------------------------- */

static const TestEntry tests[] =
{
  TEST_ENTRY (event_modes),
  TEST_ENTRY (event_never_recorded),
  TEST_ENTRY (event_pending),
  TEST_ENTRY (event_times),
  TEST_ENTRY (event_of_other_context),
  TEST_ENTRY (invalid_handles),
  TEST_ENTRY (program_modes),
  TEST_ENTRY (program_contents),
  TEST_ENTRY (program_portable),
  TEST_ENTRY (threads)
};

/* Runs a test in a process with other settings of the stand-in. Returns FALSE on other
 * devices. */
static gboolean
run_on_stand_in (TestFixture *fixture, const char *name, const char *setting)
{
  g_autofree char *path = g_strdup_printf ("/cuda-wrapped/%s/subprocess/%s",
                                           gpu_device_get_id (fixture->device), name);
  const char *before = g_getenv ("GPUMEM_CUDA_DRIVER");
  g_autofree char *settings = g_strdup_printf ("%s%s%s", before != NULL ? before : "",
                                               before != NULL ? "," : "", setting);

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_SOURCE))
    return FALSE;
  if (!is_stand_in (fixture))
    {
      g_test_skip ("only the stand-in for the driver has this setting");
      return FALSE;
    }

  g_setenv ("GPUMEM_CUDA_DRIVER", settings, TRUE);
  g_test_trap_subprocess (path, TEST_CHILD_TIMEOUT, G_TEST_SUBPROCESS_DEFAULT);
  g_test_trap_assert_stdout_unmatched ("*SKIP*");
  g_test_trap_assert_stderr_unmatched ("*ERROR*");

  return TRUE;
}

static void
wrapped_leaks (TestFixture *fixture)
{
  if (run_on_stand_in (fixture, "all", "leaks=yes"))
    g_test_trap_assert_passed ();
}

/* The stand-in reports the launch as misuse at the end of the process. */
static void
wrapped_other_context (TestFixture *fixture)
{
  if (run_on_stand_in (fixture, "other-context", "strict=no"))
    g_test_trap_assert_stderr ("*cuLaunchKernel*kernel is of another context*");
}

/* The stand-in reports the use of the destroyed events, and therefore the process does not pass. */
static void
wrapped_destroyed_event (TestFixture *fixture)
{
  if (run_on_stand_in (fixture, "destroyed-event", "strict=no"))
    g_test_trap_assert_stderr ("*cuEvent*was destroyed*no round has crashed*");
}

static gboolean
has_sources (TestFixture *fixture)
{
  return test_is_cuda (fixture, GPU_CAPABILITIES_SOURCE);
}

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
  test_add_list (tests, G_N_ELEMENTS (tests), has_sources);
  test_add ("leaks", wrapped_leaks);
  test_add ("other-context", wrapped_other_context);
  test_add ("destroyed-event", wrapped_destroyed_event);
  test_add ("subprocess/other-context", other_context);
  test_add ("subprocess/destroyed-event", destroyed_event);
  return test_run ();
}
