/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Prepared launches, timed launches and launch options (parity rows D50, D51, D52). */
#include "config.h"

#include "cuda-driver/cuda-driver.h"
#include "test-util.h"

#define N_ITEMS 256
#define N_TIMES 20
#define N_THREADS 4
#define MANY_ARGUMENTS 20

static const char add_source[] =
  "__kernel void add (__global int *p, const int n)\n"
  "{\n"
  "  p[get_global_id (0)] += n;\n"
  "}\n";

/* Sets @kernel to the kernel of add_source, and @buffer to a buffer of zeros. Skips the test, with
 * a reason, if the device lacks a compiler or one of @capabilities. */
static gboolean
set_up (TestFixture *fixture, GpuCapabilities capabilities, GpuKernel **kernel,
        GpuBuffer **buffer)
{
  if (!test_has (fixture, GPU_CAPABILITIES_SOURCE | capabilities))
    return FALSE;
  *kernel = test_kernel (fixture, add_source, "add");
  *buffer = test_buffer_filled (fixture, N_ITEMS * 4, 0);
  return TRUE;
}

static GpuArguments *
add_arguments (GpuBuffer *buffer, gint64 n)
{
  GpuArguments *arguments = gpu_arguments_new ();

  gpu_arguments_add_memory (arguments, buffer != NULL ? GPU_MEMORY (buffer) : NULL);
  gpu_arguments_add_int (arguments, n);
  return arguments;
}

static GpuLaunch *
prepare (GpuKernel *kernel, GpuBuffer *buffer, gint64 n)
{
  const GpuExtent grid = { N_ITEMS, 1, 1 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuArguments) arguments = add_arguments (buffer, n);
  GpuLaunch *launch = gpu_launch_new (kernel, &grid, NULL, NULL, 0, GPU_LAUNCH_FLAGS_NONE,
                                      arguments, &error);

  g_assert_no_error (error);
  g_assert_nonnull (launch);
  return launch;
}

static void
assert_ints (GpuBuffer *buffer, gint32 expected)
{
  g_autoptr (GBytes) content = test_content (buffer);
  const gint32 *data = g_bytes_get_data (content, NULL);

  for (guint i = 0; i < N_ITEMS; i++)
    g_assert_cmpint (data[i], ==, expected);
}

/* --- prepared launches ------------------------------------------------------------------ */

static void
launch_prepared (TestFixture *fixture)
{
  const GpuExtent grid = { N_ITEMS, 1, 1 };
  const GpuExtent block = { 16, 1, 1 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuArguments) arguments = NULL;
  g_autoptr (GpuLaunch) launch = NULL;
  GpuExtent extent;

  if (!set_up (fixture, GPU_CAPABILITIES_NONE, &kernel, &buffer))
    return;
  test_assert_ok (gpu_kernel_declare_arguments (kernel, "pi", &error), error);
  arguments = add_arguments (buffer, 3);
  launch = gpu_launch_new (kernel, &grid, &block, NULL, 0, GPU_LAUNCH_FLAGS_NONE, arguments,
                           &error);
  g_assert_no_error (error);

  /* The launch has its own copy of the arguments and its own reference on the kernel. */
  gpu_arguments_clear (arguments);
  for (guint i = 0; i < N_TIMES; i++)
    test_assert_ok (gpu_stream_launch_prepared (fixture->stream, launch, &error), error);
  assert_ints (buffer, 3 * N_TIMES);

  g_assert_true (gpu_launch_get_kernel (launch) == kernel);
  gpu_launch_get_grid (launch, &extent);
  g_assert_cmpuint (extent.width, ==, N_ITEMS);
  g_assert_true (gpu_launch_get_block (launch, &extent));
  g_assert_cmpuint (extent.width, ==, 16);
}

static void
launch_keeps_kernel (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuLaunch) launch = NULL;
  g_autoptr (GpuLaunch) same = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  GpuKernel *kernel;
  GpuExtent extent;

  if (!test_has (fixture, GPU_CAPABILITIES_SOURCE))
    return;
  kernel = test_kernel (fixture, add_source, "add");
  buffer = test_buffer_filled (fixture, N_ITEMS * 4, 1);
  launch = prepare (kernel, buffer, 0);
  g_object_unref (kernel);
  same = gpu_launch_ref (launch);
  g_clear_pointer (&launch, gpu_launch_unref);
  g_assert_false (gpu_launch_get_block (same, &extent));
  g_assert_cmpuint (extent.width, ==, 0);
  test_assert_ok (gpu_stream_launch_prepared (fixture->stream, same, &error), error);
  assert_ints (buffer, 0x01010101);
}

/* A launch that uses released memory fails; work submitted before the release still completes. */
static void
launch_released_memory (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuLaunch) launch = NULL;
  g_autoptr (GpuArguments) arguments = NULL;
  const GpuExtent grid = { N_ITEMS, 1, 1 };

  if (!set_up (fixture, GPU_CAPABILITIES_NONE, &kernel, &buffer))
    return;
  launch = prepare (kernel, buffer, 1);
  test_assert_ok (gpu_stream_launch_prepared (fixture->stream, launch, &error), error);
  gpu_memory_release (GPU_MEMORY (buffer));
  g_assert_false (gpu_stream_launch_prepared (fixture->stream, launch, &error));
  test_assert_gpu_error (error, GPU_ERROR_RELEASED, "gpu_stream_launch");

  arguments = add_arguments (buffer, 1);
  g_assert_null (gpu_launch_new (kernel, &grid, NULL, NULL, 0, GPU_LAUNCH_FLAGS_NONE, arguments,
                                 &error));
  test_assert_gpu_error (error, GPU_ERROR_RELEASED, "gpu_launch_new");
}

/* Prepared launches are ordered by hazards across streams, like other launches. */
static void
launch_hazards (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuLaunch) launch = NULL;
  g_autoptr (GpuStream) other = NULL;

  if (!set_up (fixture, GPU_CAPABILITIES_NONE, &kernel, &buffer))
    return;
  launch = prepare (kernel, buffer, 1);
  other = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  for (guint i = 0; i < N_TIMES; i++)
    test_assert_ok (gpu_stream_launch_prepared (i % 2 == 0 ? fixture->stream : other, launch,
                                                &error), error);
  assert_ints (buffer, N_TIMES);
}

typedef struct
{
  GpuStream *stream;
  GpuLaunch *launch;
} Launcher;

static gpointer
launch_often (gpointer data)
{
  const Launcher *launcher = data;
  g_autoptr (GError) error = NULL;

  for (guint i = 0; i < N_TIMES; i++)
    test_assert_ok (gpu_stream_launch_prepared (launcher->stream, launcher->launch, &error), error);
  return NULL;
}

static void
launch_threads (TestFixture *fixture)
{
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuLaunch) launch = NULL;
  GThread *threads[N_THREADS];
  Launcher launchers[N_THREADS];

  if (!set_up (fixture, GPU_CAPABILITIES_NONE, &kernel, &buffer))
    return;
  launch = prepare (kernel, buffer, 1);
  for (guint i = 0; i < N_THREADS; i++)
    {
      launchers[i] = (Launcher) { test_stream (fixture, GPU_STREAM_FLAGS_NONE), launch };
      threads[i] = g_thread_new ("launch", launch_often, &launchers[i]);
    }
  for (guint i = 0; i < N_THREADS; i++)
    {
      g_thread_join (threads[i]);
      g_object_unref (launchers[i].stream);
    }
  assert_ints (buffer, N_THREADS * N_TIMES);
}

/* Prepares a launch with so many arguments that the launch must allocate memory for them. */
static void
launch_many_arguments (TestFixture *fixture)
{
  const GpuExtent grid = { 1, 1, 1 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GString) source = g_string_new ("__kernel void sum (__global int *p");
  g_autoptr (GpuArguments) arguments = gpu_arguments_new ();
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuLaunch) launch = NULL;
  g_autoptr (GBytes) content = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_SOURCE))
    return;
  buffer = test_buffer_filled (fixture, 4, 0);
  gpu_arguments_add_memory (arguments, GPU_MEMORY (buffer));
  for (guint i = 0; i < MANY_ARGUMENTS; i++)
    {
      g_string_append_printf (source, ", __global const int *a%u", i);
      gpu_arguments_add_memory (arguments, GPU_MEMORY (buffer));
    }
  g_string_append (source, ")\n{\n  p[0] = 7;\n}\n");
  kernel = test_kernel (fixture, source->str, "sum");
  launch = gpu_launch_new (kernel, &grid, NULL, NULL, 0, GPU_LAUNCH_FLAGS_NONE, arguments, &error);
  g_assert_no_error (error);
  test_assert_ok (gpu_stream_launch_prepared (fixture->stream, launch, &error), error);
  content = test_content (buffer);
  g_assert_cmpint (*(const gint32 *) g_bytes_get_data (content, NULL), ==, 7);
}

/* Checks launches with reversed and with released arrays. */
static void
check_unusual (GpuArguments *arguments, GpuArray *array)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuArray) back = NULL;

  back = gpu_array_slice (array, 0, G_MAXSSIZE, G_MINSSIZE, -1, &error);
  g_assert_no_error (error);
  if (gpu_array_get_device_address (array) == 0)
    {
      g_assert_false (gpu_arguments_add_array (arguments, back, &error));
      test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_arguments_add_array", "5120",
                             "shape (6, 256)", "strides (-1024, 4)");
    }
  else
    test_assert_ok (gpu_arguments_add_array (arguments, back, &error), error);
  gpu_memory_release (gpu_array_get_memory (array));
  g_assert_false (gpu_arguments_add_array (arguments, array, &error));
  test_assert_gpu_error (error, GPU_ERROR_RELEASED, "gpu_arguments_add_array");
}

static guint
count_buffers (void)
{
  g_autoptr (GVariant) live = gpu_debug_list_live_objects ();
  guint n = 0;

  g_variant_lookup (live, "buffer", "u", &n);
  return n;
}

/* Caller maps the fifth row. A launch accepts an array of the first two rows. The address of a
 * reversed array is that of its last row, but its elements include the mapped row, so a launch
 * refuses it. */
static void
check_ends (TestFixture *fixture, GpuKernel *kernel, GpuArray *array)
{
  const GpuExtent grid = { 2 * N_ITEMS, 1, 1 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuArguments) arguments = gpu_arguments_new ();
  g_autoptr (GpuArray) front = gpu_array_slice (array, 0, 0, 2, 1, &error);
  g_autoptr (GpuArray) back = NULL;
  guint before = count_buffers ();

  g_assert_no_error (error);
  test_assert_ok (gpu_arguments_add_array (arguments, front, &error), error);
  g_assert_cmpuint (count_buffers (), ==, before);
  gpu_arguments_add_int (arguments, 5);
  test_assert_ok (gpu_stream_launch_arguments (fixture->stream, kernel, &grid, NULL, arguments,
                                               &error), error);
  if (gpu_array_get_device_address (array) == 0)
    return;

  back = gpu_array_slice (array, 0, G_MAXSSIZE, G_MINSSIZE, -1, &error);
  g_assert_no_error (error);
  gpu_arguments_clear (arguments);
  test_assert_ok (gpu_arguments_add_array (arguments, back, &error), error);
  gpu_arguments_add_int (arguments, 5);
  g_assert_false (gpu_stream_launch_arguments (fixture->stream, kernel, &grid, NULL, arguments,
                                               &error));
  test_assert_gpu_error (error, GPU_ERROR_BUSY, "bytes 0");
}

/* Launches on rows in the middle of an array, next to mapped rows. A launch on the whole array
 * would be refused. */
static void
launch_arrays (TestFixture *fixture)
{
  const gssize shape[] = { 6, N_ITEMS };
  const gssize none[] = { 0 };
  const GpuExtent grid = { 2 * N_ITEMS, 1, 1 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuArguments) arguments = gpu_arguments_new ();
  g_autoptr (GpuArray) array = NULL;
  g_autoptr (GpuArray) rows = NULL;
  g_autoptr (GpuArray) empty = NULL;
  g_autoptr (GpuMapping) mapping = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GBytes) content = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_SOURCE))
    return;
  kernel = test_kernel (fixture, add_source, "add");
  array = gpu_array_new_filled (fixture->context, NULL, NULL, GPU_DTYPE_INT32, shape, 2,
                                GPU_ARRAY_ORDER_C, NULL, &error);
  g_assert_no_error (error);
  rows = gpu_array_slice (array, 0, 2, 4, 1, &error);
  g_assert_no_error (error);
  empty = gpu_array_new (fixture->context, GPU_DTYPE_INT32, none, 1, &error);
  g_assert_no_error (error);
  mapping = gpu_buffer_map (GPU_BUFFER (gpu_array_get_memory (array)), NULL, GPU_MAP_FLAGS_WRITE,
                            4 * N_ITEMS * sizeof (gint32), sizeof (gint32), NULL, &error);
  g_assert_no_error (error);
  test_assert_ok (gpu_arguments_add_array (arguments, rows, &error), error);
  gpu_arguments_add_int (arguments, 5);
  g_clear_object (&rows);
  test_assert_ok (gpu_stream_launch_arguments (fixture->stream, kernel, &grid, NULL, arguments,
                                               &error), error);
  gpu_arguments_clear (arguments);
  test_assert_ok (gpu_arguments_add_array (arguments, array, &error), error);
  gpu_arguments_add_int (arguments, 5);
  g_assert_false (gpu_stream_launch_arguments (fixture->stream, kernel, &grid, NULL, arguments,
                                               &error));
  test_assert_gpu_error (error, GPU_ERROR_BUSY);
  check_ends (fixture, kernel, array);
  test_assert_ok (gpu_mapping_unmap (mapping, &error), error);
  content = gpu_array_read_bytes (array, NULL, GPU_ARRAY_ORDER_C, NULL, &error);
  g_assert_no_error (error);
  for (gsize i = 0; i < 6 * N_ITEMS; i++)
    g_assert_cmpint (((const gint32 *) g_bytes_get_data (content, NULL))[i], ==,
                     i / N_ITEMS < 4 ? 5 : 0);

  gpu_arguments_clear (arguments);
  test_assert_ok (gpu_arguments_add_array (arguments, empty, &error), error);
  g_assert_cmpuint (gpu_arguments_get_length (arguments), ==, 1);
  check_unusual (arguments, array);
}

static void
launch_invalid_launches (TestFixture *fixture)
{
  const GpuExtent grid = { N_ITEMS, 1, 1 };
  const GpuExtent nothing = { 0, 1, 1 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuKernel) empty = g_object_new (GPU_TYPE_KERNEL, NULL);
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuLaunch) launch = NULL;
  g_autoptr (GpuArguments) arguments = NULL;
  g_autoptr (GpuArguments) none = gpu_arguments_new ();
  g_autoptr (GpuContext) context = NULL;
  g_autoptr (GpuStream) stream = NULL;

  if (!set_up (fixture, GPU_CAPABILITIES_NONE, &kernel, &buffer))
    return;
  arguments = add_arguments (buffer, 1);
  g_assert_null (gpu_launch_new (kernel, &nothing, NULL, NULL, 0, GPU_LAUNCH_FLAGS_NONE, arguments,
                                 &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_launch_new: grid 0");
  g_assert_null (gpu_launch_new (kernel, &grid, NULL, NULL, 0, GPU_LAUNCH_FLAGS_NONE, none,
                                 &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_launch_new: kernel add takes");
  g_assert_null (gpu_launch_new (empty, &grid, NULL, NULL, 0, GPU_LAUNCH_FLAGS_NONE, arguments,
                                 &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_launch_new", "never initialised");
  g_assert_null (gpu_launch_new (kernel, &grid, NULL, NULL, 0, 1 << 10, arguments, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_launch_new: ",
                         "launch flags 0x400");
  g_assert_false (gpu_stream_launch_arguments (fixture->stream, kernel, &nothing, NULL, arguments,
                                               &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_stream_launch_arguments: grid 0");
  g_assert_false (gpu_stream_launch_arguments (fixture->stream, kernel, &nothing, NULL, arguments,
                                               NULL));

  launch = prepare (kernel, buffer, 1);
  context = gpu_context_new (fixture->device, GPU_CONTEXT_FLAGS_NONE, &error);
  g_assert_no_error (error);
  stream = gpu_context_get_default_stream (context);
  g_assert_false (gpu_stream_launch_prepared (stream, launch, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_stream_launch_prepared: ",
                         "different contexts");
  g_assert_null (gpu_stream_launch_timed (stream, launch, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_stream_launch_timed: ",
                         "different contexts");
}

/* --- offsets ------------------------------------------------------------------------------- */

static const char ids_source[] =
  "size_t helper (void) { return get_global_id (0); }\n"
  "__kernel void ids (__global ulong *out)\n"
  "{\n"
  "  size_t x = get_global_id (0) - get_global_offset (0);\n"
  "  size_t y = get_global_id (1) - get_global_offset (1);\n"
  "  size_t z = get_global_id (2) - get_global_offset (2);\n"
  "  __global ulong *p = out + 10 * (x + 4 * (y + 2 * z));\n"
  "  p[0] = get_global_id (0);\n"
  "  p[1] = get_global_id (1);\n"
  "  p[2] = get_global_id (2);\n"
  "  p[3] = get_global_offset (0);\n"
  "  p[4] = get_global_offset (1);\n"
  "  p[5] = get_global_offset (2);\n"
  "  p[6] = get_global_size (0);\n"
  "  p[7] = get_group_id (0);\n"
  "  p[8] = get_local_id (0);\n"
  "  p[9] = helper ();\n"
  "}\n";

#define N_IDS 10

/* Asserts the ids of all work-items of a grid of 4 x 2 x 2 in blocks of 2 x 1 x 1. */
static void
assert_ids (GpuBuffer *buffer, const GpuExtent *offset)
{
  g_autoptr (GBytes) content = test_content (buffer);
  const guint64 *ids = g_bytes_get_data (content, NULL);

  for (guint i = 0; i < 16; i++, ids += N_IDS)
    {
      const guint x = i % 4;

      g_assert_cmpuint (ids[0], ==, offset->width + x);
      g_assert_cmpuint (ids[1], ==, offset->height + i / 4 % 2);
      g_assert_cmpuint (ids[2], ==, offset->depth + i / 8);
      g_assert_cmpuint (ids[3], ==, offset->width);
      g_assert_cmpuint (ids[4], ==, offset->height);
      g_assert_cmpuint (ids[5], ==, offset->depth);
      g_assert_cmpuint (ids[6], ==, 4);
      g_assert_cmpuint (ids[7], ==, x / 2);
      g_assert_cmpuint (ids[8], ==, x % 2);
      g_assert_cmpuint (ids[9], ==, ids[0]);
    }
}

static GpuLaunch *
prepare_ids (GpuKernel *kernel, GpuBuffer *buffer, const GpuExtent *offset)
{
  const GpuExtent grid = { 4, 2, 2 };
  const GpuExtent block = { 2, 1, 1 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuArguments) arguments = gpu_arguments_new ();
  GpuLaunch *launch;

  gpu_arguments_add_memory (arguments, GPU_MEMORY (buffer));
  launch = gpu_launch_new (kernel, &grid, &block, offset, 0, GPU_LAUNCH_FLAGS_NONE, arguments,
                           &error);
  g_assert_no_error (error);
  return launch;
}

/* The offset is added to the global ids, and to nothing else. NVIDIA's OpenCL has no offsets beyond
 * 32 bits, the last of the list. It applies to each launch, prepared
 * or timed, and to no other launch of the same kernel. */
static void
launch_offset (TestFixture *fixture)
{
  static const GpuExtent offsets[] = { { 5, 0, 0 }, { 0, 7, 0 }, { 0, 0, 9 }, { 1, 2, 3 },
                                       { G_MAXUINT32 + G_GUINT64_CONSTANT (10), 0, 0 } };
  static const GpuExtent none;
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuLaunch) plain = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_SOURCE))
    return;
  kernel = test_kernel (fixture, ids_source, "ids");
  buffer = test_buffer_filled (fixture, 16 * N_IDS * 8, 0);
  plain = prepare_ids (kernel, buffer, &none);

  for (guint i = 0; i < G_N_ELEMENTS (offsets) - test_is_nvidia_opencl (fixture); i++)
    {
      g_autoptr (GpuLaunch) launch = prepare_ids (kernel, buffer, &offsets[i]);

      for (guint j = 0; j < 2; j++)
        {
          test_assert_ok (gpu_stream_launch_prepared (fixture->stream, launch, &error), error);
          assert_ids (buffer, &offsets[i]);
        }

      test_assert_ok (gpu_stream_launch_prepared (fixture->stream, plain, &error), error);
      assert_ids (buffer, &none);
    }
}

/* Launches with different offsets on several streams, which nothing orders, do not change one
 * another. */
static void
launch_offset_streams (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  GpuStream *streams[4];
  GpuBuffer *buffers[4];

  if (!test_has (fixture, GPU_CAPABILITIES_SOURCE))
    return;
  kernel = test_kernel (fixture, ids_source, "ids");

  for (guint i = 0; i < 4; i++)
    {
      streams[i] = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
      buffers[i] = test_buffer_filled (fixture, 16 * N_IDS * 8, 0);
    }

  for (guint i = 0; i < 4 * N_TIMES; i++)
    {
      /* Every fourth launch has no offset. */
      const GpuExtent offset = { i % 4, 0, 10 * (i % 4) };
      g_autoptr (GpuLaunch) launch = prepare_ids (kernel, buffers[i % 4], &offset);

      test_assert_ok (gpu_stream_launch_prepared (streams[i % 4], launch, &error), error);
    }

  for (guint i = 0; i < 4; i++)
    {
      test_assert_ok (gpu_stream_synchronize (streams[i], NULL, &error), error);
      assert_ids (buffers[i], &(GpuExtent) { i, 0, 10 * i });
      g_object_unref (streams[i]);
      g_object_unref (buffers[i]);
    }
}

static void
launch_offset_invalid (TestFixture *fixture)
{
  static const GpuExtent grid = { 4, 2, 2 };
  static const GpuExtent offsets[] = { { G_MAXSIZE - 3, 0, 0 }, { 0, G_MAXSIZE - 1, 0 },
                                       { 0, 0, G_MAXSIZE }, { G_MAXUINT32 - 3, 0, 0 } };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuArguments) arguments = NULL;

  if (!set_up (fixture, GPU_CAPABILITIES_NONE, &kernel, &buffer))
    return;
  arguments = add_arguments (buffer, 1);

  for (guint i = 0; i < G_N_ELEMENTS (offsets) - !test_is_nvidia_opencl (fixture); i++)
    {
      g_assert_null (gpu_launch_new (kernel, &grid, NULL, &offsets[i], 0, GPU_LAUNCH_FLAGS_NONE,
                                     arguments, &error));
      test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "global offset",
                             "the sum exceeds");
    }
}

/* CUDA has no offset: kernels in CUDA C++ take none but 0. */
static void
launch_offset_native (TestFixture *fixture)
{
  static const GpuExtent grid = { N_ITEMS, 1, 1 };
  static const GpuExtent none;
  static const GpuExtent offset = { 1, 0, 0 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuArguments) arguments = NULL;
  g_autoptr (GpuLaunch) launch = NULL;

  if (g_strcmp0 (gpu_device_get_backend (fixture->device), "cuda") != 0)
    {
      g_test_skip ("not a CUDA device");
      return;
    }
  if (!test_has (fixture, GPU_CAPABILITIES_SOURCE))
    return;
  kernel = test_kernel (fixture, "extern \"C\" __global__ void add (int *p, int n)\n"
                        "{ p[threadIdx.x + blockIdx.x * blockDim.x] += n; }\n", "add");
  buffer = test_buffer_filled (fixture, N_ITEMS * 4, 0);
  arguments = add_arguments (buffer, 1);
  g_assert_null (gpu_launch_new (kernel, &grid, NULL, &offset, 0, GPU_LAUNCH_FLAGS_NONE, arguments,
                                 &error));
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "global offset", "portable");
  launch = gpu_launch_new (kernel, &grid, NULL, &none, 0, GPU_LAUNCH_FLAGS_NONE, arguments, &error);
  g_assert_no_error (error);
}

/* On CUDA, launches with an offset use a copy of the module, which would have variables of its
 * own. */
static void
launch_offset_variables (TestFixture *fixture)
{
  static const GpuExtent grid = { N_ITEMS, 1, 1 };
  static const GpuExtent offset = { 1, 0, 0 };
  static const char source[] =
    "__constant int table[2] = { 3, 4 };\n"
    "__kernel void add (__global int *p, const int n)\n"
    "{ p[get_global_id (0) - 1] = n + table[get_global_id (0) % 2]; }\n";
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuArguments) arguments = NULL;
  g_autoptr (GpuLaunch) launch = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_SOURCE))
    return;
  kernel = test_kernel (fixture, source, "add");
  buffer = test_buffer_filled (fixture, N_ITEMS * 4, 0);
  arguments = add_arguments (buffer, 1);
  launch = gpu_launch_new (kernel, &grid, NULL, &offset, 0, GPU_LAUNCH_FLAGS_NONE, arguments,
                           &error);

  if (g_strcmp0 (gpu_device_get_backend (fixture->device), "cuda") == 0)
    {
      g_assert_null (launch);
      test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "kernel \"add\"", "\"table\"");
      launch = prepare (kernel, buffer, 1);
      return;
    }

  g_assert_no_error (error);
  g_assert_nonnull (launch);
}

static gboolean
set_fail (TestFixture *fixture, const char *spec)
{
  if (strcmp (gpu_device_get_backend (fixture->device), "cuda") != 0
      || gpumem_cuda_driver_symbol ("gpumem_cuda_driver_set_fail") == NULL)
    {
      g_test_skip ("only the stand-in driver fails on demand");
      return FALSE;
    }

  return GPUMEM_CUDA_DRIVER (set_fail) (spec);
}

/* A launch fails on a stream that has not written the offset yet. The next launch with this offset,
 * on another stream, waits for the offset. If the library cannot make it wait, it writes the offset
 * again. */
static void
launch_offset_failure (TestFixture *fixture)
{
  static const GpuExtent offset = { 5, 6, 7 };
  static const char *const specs[] = { "cuLaunchKernel:1", "cuEventRecord:1" };

  if (!set_fail (fixture, "") || !test_has (fixture, GPU_CAPABILITIES_SOURCE))
    return;

  for (guint i = 0; i < G_N_ELEMENTS (specs); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GpuStream) blocked = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
      g_autoptr (GpuKernel) kernel = test_kernel (fixture, ids_source, "ids");
      g_autoptr (GpuBuffer) unused = test_buffer_filled (fixture, 16 * N_IDS * 8, 0);
      g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, 16 * N_IDS * 8, 0);
      g_autoptr (GpuLaunch) failing = prepare_ids (kernel, unused, &offset);
      g_autoptr (GpuLaunch) launch = prepare_ids (kernel, buffer, &offset);
      g_autoptr (TestHold) hold = test_hold (blocked);

      test_synchronize (fixture->stream);
      g_assert_true (set_fail (fixture, specs[i]));
      g_assert_false (gpu_stream_launch_prepared (blocked, failing, &error));
      g_assert_nonnull (strstr (error->message, i == 0 ? "cuLaunchKernel" : "cuEventRecord"));
      g_clear_error (&error);
      set_fail (fixture, "");
      test_assert_ok (gpu_stream_launch_prepared (fixture->stream, launch, &error), error);
      g_usleep (50000);
      test_hold_release (hold);
      test_synchronize (fixture->stream);
      assert_ids (buffer, &offset);
      test_synchronize (blocked);
    }
}

static void
assert_sets_two (TestFixture *fixture, GpuKernel *kernel)
{
  g_autoptr (GError) error = NULL;

  g_assert_true (set_fail (fixture, "cuFuncSetAttribute:2"));
  g_assert_false (gpu_kernel_set_attribute (kernel, "preferred-shared-carveout", 25, &error));
  g_assert_nonnull (strstr (error->message, "preferred-shared-carveout"));
  g_clear_error (&error);
  g_assert_true (set_fail (fixture, "cuFuncSetCacheConfig:2"));
  g_assert_false (gpu_kernel_set_cache_preference (kernel, GPU_CACHE_PREFERENCE_L1, &error));
  g_assert_nonnull (strstr (error->message, "cuFuncSetCacheConfig"));
  set_fail (fixture, "");
}

/* Attributes and the cache preference also apply to launches with an offset: the library sets them
 * for a second function of the driver. */
static void
launch_offset_attributes (TestFixture *fixture)
{
  static const GpuExtent grid = { 4, 2, 2 };
  static const GpuExtent offset = { 1, 0, 0 };
  static const char *const specs[] = { "cuFuncSetAttribute:1", "cuFuncSetCacheConfig:1" };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuArguments) arguments = gpu_arguments_new ();
  g_autoptr (GpuLaunch) launch = NULL;

  if (!set_fail (fixture, "") || !test_has (fixture, GPU_CAPABILITIES_SOURCE))
    return;
  kernel = test_kernel (fixture, ids_source, "ids");
  buffer = test_buffer_filled (fixture, 16 * N_IDS * 8, 0);
  gpu_arguments_add_memory (arguments, GPU_MEMORY (buffer));
  test_assert_ok (gpu_kernel_set_attribute (kernel, "preferred-shared-carveout", 50, &error),
                  error);
  test_assert_ok (gpu_kernel_set_cache_preference (kernel, GPU_CACHE_PREFERENCE_EQUAL, &error),
                  error);

  for (guint i = 0; i < G_N_ELEMENTS (specs); i++)
    {
      g_assert_true (set_fail (fixture, specs[i]));
      g_assert_null (gpu_launch_new (kernel, &grid, NULL, &offset, 0, GPU_LAUNCH_FLAGS_NONE,
                                     arguments, &error));
      g_assert_nonnull (strstr (error->message, i == 0 ? "carveout" : "cuFuncSetCacheConfig"));
      g_clear_error (&error);
      set_fail (fixture, "");
    }

  launch = prepare_ids (kernel, buffer, &offset);
  assert_sets_two (fixture, kernel);
  test_assert_ok (gpu_stream_launch_prepared (fixture->stream, launch, &error), error);
  assert_ids (buffer, &offset);
}

/* --- empty launches ------------------------------------------------------------------------ */

static GpuLaunch *
prepare_empty (GpuKernel *kernel, GpuBuffer *buffer, const GpuExtent *grid)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuArguments) arguments = add_arguments (buffer, 1);
  g_autofree char *text = g_strdup_printf ("gpu_launch_new: grid %zu x %zu x %zu: the grid has no "
                                           "work-items", grid->width, grid->height, grid->depth);
  GpuLaunch *launch;

  g_assert_null (gpu_launch_new (kernel, grid, NULL, NULL, 0, GPU_LAUNCH_FLAGS_NONE, arguments,
                                 &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, text, "ALLOW_EMPTY");
  launch = gpu_launch_new (kernel, grid, NULL, NULL, 0, GPU_LAUNCH_FLAGS_ALLOW_EMPTY, arguments,
                           &error);
  g_assert_no_error (error);
  return launch;
}

/* A grid without work-items is an error by default. With the flag, the launch succeeds and changes
 * no memory, for each dimension that may be 0. */
static void
launch_empty (TestFixture *fixture)
{
  static const GpuExtent grids[] = { { 0, 1, 1 }, { N_ITEMS, 0, 1 }, { 4, 4, 0 },
                                     { G_MAXSIZE, G_MAXSIZE, 0 } };
  static const GpuExtent one = { N_ITEMS, 1, 1 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuArguments) arguments = NULL;

  if (!set_up (fixture, GPU_CAPABILITIES_NONE, &kernel, &buffer))
    return;

  for (guint i = 0; i < G_N_ELEMENTS (grids); i++)
    {
      g_autoptr (GpuLaunch) launch = prepare_empty (kernel, buffer, &grids[i]);

      test_assert_ok (gpu_stream_launch_prepared (fixture->stream, launch, &error), error);
    }

  g_assert_true (gpu_stream_is_idle (fixture->stream, &error));
  g_assert_no_error (error);
  assert_ints (buffer, 0);

  /* The flag does not change a launch with work-items. */
  arguments = add_arguments (buffer, 5);
  test_assert_ok (test_launch (fixture->stream, kernel, &one, NULL, 0,
                               GPU_LAUNCH_FLAGS_ALLOW_EMPTY, arguments, &error), error);
  assert_ints (buffer, 5);
}

/* A launch with another block size than the source requires reports both sizes. */
static void
launch_required_block (TestFixture *fixture)
{
  static const char source[] =
    "__kernel __attribute__ ((reqd_work_group_size (4, 2, 1))) void f (__global int *x)\n"
    "{ x[0] = (int) (get_local_size (0) + 10 * get_local_size (1)); }\n";
  const GpuExtent grid = { 8, 4, 1 };
  const GpuExtent wrong = { 8, 1, 1 };
  const GpuExtent right = { 4, 2, 1 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuBuffer) out = NULL;
  gint32 value = 0;

  if (!test_has (fixture, GPU_CAPABILITIES_SOURCE))
    return;
  kernel = test_kernel (fixture, source, "f");
  out = test_buffer (fixture, sizeof value);
  g_assert_false (gpu_stream_launch (fixture->stream, kernel, &grid, &wrong, &error, out));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_stream_launch", "\"f\"",
                         "blocks of 4 x 2 x 1, not 8 x 1 x 1");
  test_assert_ok (gpu_stream_launch (fixture->stream, kernel, &grid, &right, &error, out), error);
  test_assert_ok (gpu_buffer_read (out, fixture->stream, 0, &value, sizeof value, NULL, &error),
                  error);
  g_assert_cmpint (value, ==, 24);
}

/* An empty launch makes the checks of other launches. */
static void
launch_empty_invalid (TestFixture *fixture)
{
  const GpuExtent grid = { 0, 1, 1 };
  const GpuExtent block = { 0, 1, 1 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuArguments) arguments = NULL;
  g_autoptr (GpuArguments) none = gpu_arguments_new ();
  g_autoptr (GpuLaunch) launch = NULL;

  if (!set_up (fixture, GPU_CAPABILITIES_NONE, &kernel, &buffer))
    return;
  arguments = add_arguments (buffer, 1);
  g_assert_null (gpu_launch_new (kernel, &grid, &block, NULL, 0, GPU_LAUNCH_FLAGS_ALLOW_EMPTY,
                                 arguments, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "the block has no work-items");
  g_assert_null (gpu_launch_new (kernel, &grid, NULL, NULL, 0, GPU_LAUNCH_FLAGS_ALLOW_EMPTY, none,
                                 &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT,
                         "takes 2 arguments, not 0; the first that is missing is ");
  g_assert_null (gpu_launch_new (kernel, &grid, NULL, NULL, 0,
                                 GPU_LAUNCH_FLAGS_ALLOW_EMPTY | 1 << 10, arguments, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "launch flags 0x400");

  launch = prepare_empty (kernel, buffer, &grid);
  gpu_memory_release (GPU_MEMORY (buffer));
  g_assert_false (gpu_stream_launch_prepared (fixture->stream, launch, &error));
  test_assert_gpu_error (error, GPU_ERROR_RELEASED, "gpu_stream_launch");
}

/* --- launches with a measured duration ---------------------------------------------------- */

static void
assert_timed (GpuStream *stream, GpuLaunch *launch)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuEvent) event = gpu_stream_launch_timed (stream, launch, &error);
  guint64 nanoseconds = G_MAXUINT64;

  g_assert_no_error (error);
  g_assert_nonnull (event);
  test_assert_ok (gpu_event_wait (event, NULL, &error), error);
  test_assert_ok (gpu_event_get_duration (event, &nanoseconds, &error), error);
  g_assert_cmpuint (nanoseconds, <, TEST_DEADLINE * G_GUINT64_CONSTANT (1000000000));
}

static void
launch_timed (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuLaunch) launch = NULL;
  g_autoptr (GpuStream) stream = NULL;
  g_autoptr (GpuEvent) event = NULL;
  g_autoptr (GpuEvent) untimed = NULL;
  g_autoptr (GpuLaunch) nothing = NULL;
  guint64 nanoseconds;

  if (!set_up (fixture, GPU_CAPABILITIES_PROFILING, &kernel, &buffer))
    return;
  launch = prepare (kernel, buffer, 1);
  nothing = prepare_empty (kernel, buffer, &(GpuExtent) { 0, 1, 1 });
  stream = test_stream (fixture, GPU_STREAM_FLAGS_PROFILING);
  assert_timed (stream, nothing);
  assert_timed (stream, launch);
  assert_timed (stream, launch);
  assert_timed (stream, nothing);
  assert_ints (buffer, 2);

  /* On a stream without profiling, a timed launch works only with drivers whose streams can all
   * record times. */
  event = gpu_stream_launch_timed (fixture->stream, launch, &error);
  if (event == NULL)
    test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_stream_record", "flags timing");
  else
    assert_timed (fixture->stream, launch);

  untimed = test_record (fixture->stream);
  g_assert_false (gpu_event_get_duration (untimed, &nanoseconds, &error));
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_event_get_duration");
}

static void
launch_timed_out_of_order (TestFixture *fixture)
{
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuLaunch) launch = NULL;
  g_autoptr (GpuStream) stream = NULL;

  if (!set_up (fixture, GPU_CAPABILITIES_PROFILING | GPU_CAPABILITIES_OUT_OF_ORDER, &kernel,
               &buffer))
    return;
  launch = prepare (kernel, buffer, 1);
  stream = test_stream (fixture, GPU_STREAM_FLAGS_PROFILING | GPU_STREAM_FLAGS_OUT_OF_ORDER);
  assert_timed (stream, launch);
  assert_timed (stream, launch);
  assert_ints (buffer, 2);
}

/* --- options ------------------------------------------------------------------------------- */

static void
launch_shared_memory_and_flags (TestFixture *fixture)
{
  const GpuExtent grid = { N_ITEMS, 1, 1 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuArguments) arguments = NULL;

  if (!set_up (fixture, GPU_CAPABILITIES_NONE, &kernel, &buffer))
    return;
  arguments = add_arguments (buffer, 1);
  test_assert_ok (test_launch (fixture->stream, kernel, &grid, NULL, 0, GPU_LAUNCH_FLAGS_NONE,
                               arguments, &error), error);
  assert_ints (buffer, 1);
  if (test_launch (fixture->stream, kernel, &grid, NULL, 256, GPU_LAUNCH_FLAGS_NONE, arguments,
                   &error))
    assert_ints (buffer, 2);
  else
    test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_launch_new: ");
  if ((gpu_device_get_capabilities (fixture->device) & GPU_CAPABILITIES_COOPERATIVE) != 0)
    return;
  g_assert_false (test_launch (fixture->stream, kernel, &grid, NULL, 0,
                               GPU_LAUNCH_FLAGS_COOPERATIVE, arguments, &error));
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_launch_new: ");
}

static void
launch_attributes (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuKernel) empty = g_object_new (GPU_TYPE_KERNEL, NULL);
  g_autoptr (GVariant) value = NULL;
  guint n_blocks = 0;

  if (!test_has (fixture, GPU_CAPABILITIES_SOURCE))
    return;
  kernel = test_kernel (fixture, add_source, "add");
  value = test_take_attribute (gpu_kernel_get_attributes (kernel, &error), "name");
  g_assert_no_error (error);
  g_assert_cmpstr (g_variant_get_string (value, NULL), ==, "add");

  g_assert_false (g_initable_init (G_INITABLE (empty), NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "no program was given");

  if (!gpu_kernel_set_attribute (kernel, "max-dynamic-shared-size", 4096, &error))
    test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_kernel_set_attribute");
  g_assert_false (gpu_kernel_set_attribute (kernel, "colour", 1, &error));
  g_clear_error (&error);
  if (!gpu_kernel_set_cache_preference (kernel, GPU_CACHE_PREFERENCE_L1, &error))
    test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_kernel_set_cache_preference");
  g_assert_false (gpu_kernel_set_cache_preference (kernel, 17, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "17");
  if (gpu_kernel_get_max_active_blocks (kernel, 128, 0, &n_blocks, &error))
    g_assert_cmpuint (n_blocks, >, 0);
  else
    test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_kernel_get_max_active_blocks");
  g_assert_false (gpu_kernel_get_max_active_blocks (kernel, 0, 0, &n_blocks, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "block size of 0");
  g_assert_false (gpu_kernel_set_attribute (empty, "colour", 1, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "never initialised");
}

/* gpu_stream_launch() refuses a wrong number of variable arguments, and NULL for an object. On
 * machines that pass integers and real numbers in different registers, it also refuses an integer
 * for a real number. */
static void
launch_variable_arguments (TestFixture *fixture)
{
  static const char source[] =
    "__kernel void mul (__global int *p, const float f, const int n, __global int *q)\n"
    "{\n"
    "  p[get_global_id (0)] += (int) f * n + q[0];\n"
    "}\n";
  const GpuExtent grid = { N_ITEMS, 1, 1 };
  GpuStream *stream = fixture->stream;
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuKernel) kernel = test_kernel (fixture, source, "mul");
  g_autoptr (GpuBuffer) p = test_buffer_filled (fixture, N_ITEMS * 4, 0);
  g_autoptr (GpuBuffer) q = test_buffer_filled (fixture, 4, 0);

  test_assert_ok (gpu_stream_launch (stream, kernel, &(GpuExtent) { N_ITEMS, 1, 1 }, NULL, &error,
                                     p, 2.5, 3, q), error);
  assert_ints (p, 6);
  g_assert_false (gpu_stream_launch (stream, kernel, &grid, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "mul", "takes 4: memory, float, int");
  g_assert_false (gpu_stream_launch (stream, kernel, &grid, NULL, &error, p));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "takes 4");
  g_assert_false (gpu_stream_launch (stream, kernel, &grid, NULL, &error, p, 2.5));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "takes 4");
  g_assert_false (gpu_stream_launch (stream, kernel, &grid, NULL, &error, p, 2.5, 3));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "takes 4");
  g_assert_false (gpu_stream_launch (stream, kernel, &grid, NULL, &error, p, 3, q));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "takes 4");
  g_assert_false (gpu_stream_launch (stream, kernel, &grid, NULL, &error, p, 2.5, 3, q, 1));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "takes 4");
  g_assert_false (gpu_stream_launch (stream, kernel, &grid, NULL, &error, p, 2.5, 3, q, 1.0));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "takes 4");
#ifdef __x86_64__
  g_assert_false (gpu_stream_launch (stream, kernel, &grid, NULL, &error, p, 2, 3, q));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "takes 4");
  g_assert_false (gpu_stream_launch (stream, kernel, &grid, NULL, &error, p, 2.5, 3.0, q));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "takes 4");
#endif
  g_assert_false (gpu_stream_launch (stream, kernel, &grid, NULL, &error, p, 2.5, 3, NULL));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "argument 3 (q) of kernel mul is NULL");
  assert_ints (p, 6);
}

static void
launch_bool (TestFixture *fixture)
{
  static const char source[] =
    "__kernel void choose (bool first, __global int *p, bool last)\n"
    "{\n"
    "  p[get_global_id (0)] = (first ? 1 : 2) + (last ? 10 : 20);\n"
    "}\n";
  const GpuExtent grid = { N_ITEMS, 1, 1 };
  GpuStream *stream = fixture->stream;
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuBuffer) p = NULL;

  if (strcmp (gpu_device_get_backend (fixture->device), "opencl") == 0)
    {
      g_test_skip ("kernels of OpenCL C have no parameters of the type bool");
      return;
    }
  kernel = test_kernel (fixture, source, "choose");
  p = test_buffer_filled (fixture, N_ITEMS * 4, 0);

  test_assert_ok (gpu_stream_launch (stream, kernel, &grid, NULL, &error, TRUE, p, FALSE), error);
  assert_ints (p, 21);
  test_assert_ok (gpu_stream_launch (stream, kernel, &grid, NULL, &error, FALSE, p, TRUE), error);
  assert_ints (p, 12);
  for (int i = -1; i <= 2; i += 3)
    {
      g_autofree char *number = g_strdup_printf ("which cannot hold %d", i);

      g_assert_false (gpu_stream_launch (stream, kernel, &grid, NULL, &error, TRUE, p, i));
      test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "2 (last)", "bool", number);
    }
  g_assert_false (gpu_stream_launch (stream, kernel, &grid, NULL, &error, TRUE, p));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "takes 3: bool, memory, bool");
  assert_ints (p, 12);
}

/* A correct call leaves the values of its last arguments on the stack. A later call that lacks an
 * argument must fail, although it finds a valid value on the stack. */
static void
launch_missing_arguments (TestFixture *fixture)
{
  static const char source[] =
    "__kernel void weigh (__global int *p, __global int *q, int a, int b, float f, float g)\n"
    "{\n"
    "  p[get_global_id (0)] = q[0] * a + b + (int) (f * g);\n"
    "}\n";
  const GpuExtent grid = { N_ITEMS, 1, 1 };
  GpuStream *stream = fixture->stream;
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuKernel) kernel = test_kernel (fixture, source, "weigh");
  g_autoptr (GpuBuffer) p = test_buffer_filled (fixture, N_ITEMS * 4, 0);
  g_autoptr (GpuBuffer) q = test_buffer_filled (fixture, 4, 0);

  for (guint i = 0; i < 5; i++)
    {
      test_assert_ok (gpu_stream_launch (stream, kernel, &grid, NULL, &error, p, q, 3, 4, 2.0, 1.5),
                      error);
      switch (i)
        {
        case 0:
          gpu_stream_launch (stream, kernel, &grid, NULL, &error, p, q, 3, 2.0, 1.5);
          break;
        case 1:
          gpu_stream_launch (stream, kernel, &grid, NULL, &error, p, 3, 2.0, 1.5);
          break;
        case 2:
          gpu_stream_launch (stream, kernel, &grid, NULL, &error, p, q, 3, 4, 2.0);
          break;
        case 3:
          gpu_stream_launch (stream, kernel, &grid, NULL, &error, p, q, 3, 4);
          break;
        default:
          gpu_stream_launch (stream, kernel, &grid, NULL, &error, p);
        }
      test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "weigh", "takes 6");
    }
  assert_ints (p, 7);
}

static void
launch_without_arguments (TestFixture *fixture)
{
  const GpuExtent grid = { N_ITEMS, 1, 1 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, 4, 0);

  if (test_is_nvidia_opencl (fixture))
    {
      g_test_skip ("NVIDIA's OpenCL does not build an empty kernel");
      return;
    }
  kernel = test_kernel (fixture, "__kernel void none (void) { }\n", "none");
  test_assert_ok (gpu_stream_launch (fixture->stream, kernel, &grid, NULL, &error), error);
  test_synchronize (fixture->stream);
  g_assert_false (gpu_stream_launch (fixture->stream, kernel, &grid, NULL, &error, buffer));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "none", "takes 0");
}

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
  test_add ("prepared", launch_prepared);
  test_add ("keeps-kernel", launch_keeps_kernel);
  test_add ("released-memory", launch_released_memory);
  test_add ("hazards", launch_hazards);
  test_add ("threads", launch_threads);
  test_add ("many-arguments", launch_many_arguments);
  test_add ("arrays", launch_arrays);
  test_add ("variable-arguments", launch_variable_arguments);
  test_add ("bool", launch_bool);
  test_add ("missing-arguments", launch_missing_arguments);
  test_add ("without-arguments", launch_without_arguments);
  test_add ("invalid-launches", launch_invalid_launches);
  test_add ("offset", launch_offset);
  test_add ("offset-streams", launch_offset_streams);
  test_add ("offset-invalid", launch_offset_invalid);
  test_add ("offset-native", launch_offset_native);
  test_add ("offset-variables", launch_offset_variables);
  test_add ("offset-failure", launch_offset_failure);
  test_add ("offset-attributes", launch_offset_attributes);
  test_add ("required-block", launch_required_block);
  test_add ("empty", launch_empty);
  test_add ("empty-invalid", launch_empty_invalid);
  test_add ("timed", launch_timed);
  test_add ("timed-out-of-order", launch_timed_out_of_order);
  test_add ("shared-memory-and-flags", launch_shared_memory_and_flags);
  test_add ("attributes", launch_attributes);
  return test_run ();
}
