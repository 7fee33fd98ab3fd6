/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Host memory: every operation on every kind of host memory, access by the host, and lifetimes. */
#include "config.h"

#include "test-util.h"

#define SIZE 65536
#define N_ITEMS 256

typedef enum
{
  LOCKED,
  MAPPED,
  REGISTERED,
  ALIGNED,
  N_KINDS
} Kind;

static const char add_source[] =
  "__kernel void add (__global int *values, int n) { values[get_global_id (0)] += n; }\n";

static GBytes *
registrable (gsize size)
{
  return g_bytes_new_take (g_malloc0 (size), size);
}

/* Returns NULL if the device has no memory of this kind. */
static GpuHostMemory *
try_make (TestFixture *fixture, Kind kind, gsize size)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = registrable (size);
  GpuHostMemory *memory = NULL;

  switch (kind)
    {
    case LOCKED:
      memory = gpu_host_memory_new (fixture->context, GPU_HOST_MEMORY_FLAGS_NONE, size, &error);
      break;
    case MAPPED:
      memory = gpu_host_memory_new (fixture->context, GPU_HOST_MEMORY_FLAGS_MAPPED, size, &error);
      break;
    case REGISTERED:
      memory = gpu_host_memory_new_registered (fixture->context, GPU_HOST_MEMORY_FLAGS_NONE, bytes,
                                               &error);
      break;
    case ALIGNED:
    default:
      memory = gpu_host_memory_new_aligned (fixture->context, 0, size, &error);
    }

  if (memory == NULL && kind == MAPPED)
    test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_host_memory_new", "fine-grain");
  g_assert_no_error (error);
  return memory;
}

static GpuHostMemory *
make (TestFixture *fixture, Kind kind, gsize size)
{
  GpuHostMemory *memory = try_make (fixture, kind, size);

  g_assert_true (GPU_IS_HOST_MEMORY (memory));
  return memory;
}

/* Blocks a stream with a user event, or with a kernel if the device has no user events. */
typedef struct
{
  GpuEvent *gate;
  TestHold *hold;
} Stall;

static gboolean
can_stall (TestFixture *fixture)
{
  return (gpu_device_get_capabilities (fixture->device) & GPU_CAPABILITIES_USER_EVENTS) != 0
         || test_can_hold (fixture);
}

static Stall
stall (TestFixture *fixture, GpuStream *stream)
{
  Stall result = { NULL, NULL };

  if ((gpu_device_get_capabilities (fixture->device) & GPU_CAPABILITIES_USER_EVENTS) != 0)
    result.gate = test_gate (fixture, stream);
  else
    result.hold = test_hold (stream);
  return result;
}

static void
go_on (Stall *stall)
{
  if (stall->gate != NULL)
    test_open (stall->gate);
  else
    test_hold_release (stall->hold);
}

static void
stall_clear (Stall *stall)
{
  g_clear_object (&stall->gate);
  g_clear_pointer (&stall->hold, test_hold_free);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Stall, stall_clear)

static void
ready (GpuHostMemory *memory, GpuMapFlags flags)
{
  g_autoptr (GError) error = NULL;

  test_assert_ok (gpu_host_memory_synchronize (memory, flags, NULL, &error), error);
}

static void
assert_memory (GpuHostMemory *memory, GBytes *expected)
{
  ready (memory, GPU_MAP_FLAGS_READ);
  test_assert_mem (gpu_host_memory_get_data (memory), g_bytes_get_data (expected, NULL),
                   g_bytes_get_size (expected));
}

/* --- operations ----------------------------------------------------------------------- */

/* Copies to the device and back. The driver accesses the host memory directly. */
static void
check_copies (TestFixture *fixture, Kind kind)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  g_autoptr (GBytes) other = test_random_bytes (SIZE);
  g_autoptr (GpuHostMemory) from = try_make (fixture, kind, SIZE);
  g_autoptr (GpuHostMemory) to = from != NULL ? make (fixture, kind, SIZE) : NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
  g_autoptr (GBytes) read = NULL;

  if (from == NULL)
    return;
  memcpy (gpu_host_memory_get_data (from), g_bytes_get_data (bytes, NULL), SIZE);
  test_assert_ok (gpu_stream_copy (fixture->stream, GPU_MEMORY (buffer), 0, GPU_MEMORY (from), 0,
                                   SIZE, &error), error);
  test_assert_content (buffer, bytes);
  test_assert_ok (gpu_stream_copy (fixture->stream, GPU_MEMORY (to), 0, GPU_MEMORY (buffer), 0,
                                   SIZE, &error), error);
  assert_memory (to, bytes);

  test_assert_ok (gpu_stream_write (fixture->stream, GPU_MEMORY (from), 0, other, &error), error);
  test_assert_ok (gpu_stream_copy (fixture->stream, GPU_MEMORY (to), 0, GPU_MEMORY (from), 0,
                                   SIZE, &error), error);
  read = gpu_stream_read_bytes (fixture->stream, GPU_MEMORY (to), 0, SIZE, &error);
  g_assert_no_error (error);
  test_synchronize (fixture->stream);
  test_assert_mem (g_bytes_get_data (read, NULL), g_bytes_get_data (other, NULL), SIZE);
  assert_memory (to, other);
}

static void
memory_copies (TestFixture *fixture)
{
  for (Kind kind = 0; kind < N_KINDS; kind++)
    check_copies (fixture, kind);
}

static void
check_fill (TestFixture *fixture, GpuHostMemory *memory, gsize pattern_size)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) pattern = test_random_bytes (pattern_size);
  const guint8 *bytes = g_bytes_get_data (pattern, NULL);
  const guint8 *data = gpu_host_memory_get_data (memory);
  const gsize size = 100 * pattern_size;

  ready (memory, GPU_MAP_FLAGS_WRITE);
  memset (gpu_host_memory_get_data (memory), 0xee, SIZE);
  test_assert_ok (gpu_stream_fill (fixture->stream, GPU_MEMORY (memory), pattern_size, size, bytes,
                                   pattern_size, &error), error);
  ready (memory, GPU_MAP_FLAGS_READ);
  test_assert_value (data, 0xee, pattern_size);
  for (guint i = 1; i <= 100; i++)
    test_assert_mem (data + i * pattern_size, bytes, pattern_size);
  test_assert_value (data + pattern_size + size, 0xee, SIZE - pattern_size - size);
}

static void
memory_fill (TestFixture *fixture)
{
  const gsize pattern_sizes[] = { 1, 2, 3, 4, 8, 12, 16, 128, 200 };

  for (Kind kind = 0; kind < N_KINDS; kind++)
    {
      g_autoptr (GpuHostMemory) memory = try_make (fixture, kind, SIZE);

      for (guint i = 0; memory != NULL && i < G_N_ELEMENTS (pattern_sizes); i++)
        check_fill (fixture, memory, pattern_sizes[i]);
    }
}

/* Copies rows with different pitches between two host memories, or between a host memory and a
 * buffer. */
static void
check_regions (TestFixture *fixture, GpuMemory *to, GpuMemory *from)
{
  g_autoptr (GError) error = NULL;
  const GpuExtent extent = { 50, 7, 3 };
  const GpuLayout to_layout = { 5, 1, 0, 64, 640 };
  const GpuLayout from_layout = { 2, 0, 1, 100, 1000 };
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  const guint8 *data = g_bytes_get_data (bytes, NULL);
  g_autoptr (GBytes) read = NULL;
  const guint8 zero = 0;

  test_assert_ok (gpu_stream_write (fixture->stream, from, 0, bytes, &error), error);
  test_assert_ok (gpu_stream_fill (fixture->stream, to, 0, SIZE, &zero, 1, &error), error);
  test_assert_ok (gpu_stream_copy_region (fixture->stream, to, &to_layout, from, &from_layout,
                                          &extent, &error), error);
  read = gpu_stream_read_bytes (fixture->stream, to, 0, SIZE, &error);
  g_assert_no_error (error);
  test_synchronize (fixture->stream);

  for (guint z = 0; z < extent.depth; z++)
    {
      for (guint y = 0; y < extent.height; y++)
        {
          const guint8 *row = (const guint8 *) g_bytes_get_data (read, NULL) + z * 640
                              + (y + 1) * 64;

          test_assert_value (row, 0, 5);
          test_assert_mem (row + 5, data + (z + 1) * 1000 + y * 100 + 2, 50);
          test_assert_value (row + 55, 0, 9);
        }
    }
}

static void
memory_regions (TestFixture *fixture)
{
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);

  for (Kind kind = 0; kind < N_KINDS; kind++)
    {
      g_autoptr (GpuHostMemory) one = try_make (fixture, kind, SIZE);
      g_autoptr (GpuHostMemory) other = one != NULL ? make (fixture, kind, SIZE) : NULL;

      if (one == NULL)
        continue;
      check_regions (fixture, GPU_MEMORY (one), GPU_MEMORY (other));
      check_regions (fixture, GPU_MEMORY (one), GPU_MEMORY (buffer));
      check_regions (fixture, GPU_MEMORY (buffer), GPU_MEMORY (other));
    }
}

/* Copies more bytes than the staging buffer holds in one chunk, with rows longer and shorter than a
 * chunk. */
static void
memory_large (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  const gsize size = 40 * 1024 * 1024 + 12;
  const GpuExtent row = { size - 100, 1, 1 };
  const GpuExtent rows = { 1000000, 40, 1 };
  const GpuLayout layout = { 0, 0, 0, 1000001, 0 };
  g_autoptr (GBytes) bytes = test_random_bytes (size);
  g_autoptr (GpuHostMemory) from = make (fixture, ALIGNED, size);
  g_autoptr (GpuHostMemory) to = make (fixture, ALIGNED, size);
  guint8 *data = gpu_host_memory_get_data (to);
  const guint8 value[] = { 1, 2, 3, 4 };

  memcpy (gpu_host_memory_get_data (from), g_bytes_get_data (bytes, NULL), size);
  test_assert_ok (gpu_stream_copy_region (fixture->stream, GPU_MEMORY (to), NULL,
                                          GPU_MEMORY (from), NULL, &row, &error), error);
  ready (to, GPU_MAP_FLAGS_READ);
  test_assert_mem (data, gpu_host_memory_get_data (from), size - 100);

  test_assert_ok (gpu_stream_fill (fixture->stream, GPU_MEMORY (to), 0, size, value, 4, &error),
                  error);
  ready (to, GPU_MAP_FLAGS_READ);
  for (gsize i = 0; i < size; i += 4)
    g_assert_cmpmem (data + i, 4, value, 4);

  test_assert_ok (gpu_stream_copy_region (fixture->stream, GPU_MEMORY (to), &layout,
                                          GPU_MEMORY (from), &layout, &rows, &error), error);
  ready (to, GPU_MAP_FLAGS_READ);
  for (gsize i = 0; i < 40; i++)
    test_assert_mem (data + i * 1000001, (guint8 *) gpu_host_memory_get_data (from) + i * 1000001,
                     1000000);
}

static void
memory_slices (TestFixture *fixture)
{
  const gsize unit = MAX (gpu_device_get_base_alignment (fixture->device), 64);

  for (Kind kind = 0; kind < N_KINDS; kind++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GpuHostMemory) memory = try_make (fixture, kind, 8 * unit);
      g_autoptr (GBytes) bytes = test_random_bytes (2 * unit);
      g_autoptr (GpuBuffer) buffer = NULL;
      g_autoptr (GpuBuffer) inner = NULL;

      if (memory == NULL)
        continue;
      buffer = gpu_buffer_new_for_memory (GPU_MEMORY (memory), unit, 4 * unit, &error);
      g_assert_no_error (error);
      g_assert_true (gpu_buffer_get_memory (buffer) == GPU_MEMORY (memory));
      g_assert_null (gpu_buffer_get_parent (buffer));
      test_assert_ok (gpu_buffer_write_bytes (buffer, NULL, 0, bytes, NULL, &error), error);
      test_assert_ok (gpu_buffer_copy (buffer, NULL, 2 * unit, buffer, 0, 2 * unit, NULL, &error),
                      error);
      test_assert_mem ((guint8 *) gpu_host_memory_get_data (memory) + unit,
                       g_bytes_get_data (bytes, NULL), 2 * unit);
      inner = gpu_buffer_slice (buffer, 2 * unit, 2 * unit, &error);
      g_assert_no_error (error);
      g_clear_object (&memory);
      g_clear_object (&buffer);
      test_assert_content (inner, bytes);
    }
}

/* --- kernels -------------------------------------------------------------------------- */

static void
assert_ints (GpuHostMemory *memory, gint32 expected)
{
  const gint32 *data = gpu_host_memory_get_data (memory);

  ready (memory, GPU_MAP_FLAGS_READ);
  for (guint i = 0; i < N_ITEMS; i++)
    g_assert_cmpint (data[i], ==, expected);
}

static void
memory_kernel (TestFixture *fixture)
{
  const GpuExtent grid = { N_ITEMS, 1, 1 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuHostMemory) memory = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuKernel) kernel = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_SOURCE))
    return;
  memory = try_make (fixture, MAPPED, N_ITEMS * 4);
  if (memory == NULL)
    {
      g_test_skip ("the device has no fine-grain shared virtual memory");
      return;
    }
  kernel = test_kernel (fixture, add_source, "add");
  memset (gpu_host_memory_get_data (memory), 0, N_ITEMS * 4);
  test_assert_ok (gpu_stream_launch (fixture->stream, kernel, &grid, NULL, &error, memory, 3),
                  error);
  assert_ints (memory, 3);
  buffer = gpu_buffer_new_for_memory (GPU_MEMORY (memory), 0, N_ITEMS * 4, &error);
  g_assert_no_error (error);
  test_assert_ok (gpu_stream_launch (fixture->stream, kernel, &grid, NULL, &error, buffer, 4),
                  error);
  assert_ints (memory, 7);
  g_assert_cmpuint (gpu_memory_get_device_address (GPU_MEMORY (memory)), !=, 0);
}

/* If kernels cannot access the memory, both direct and prepared launches fail. */
static void
memory_kernel_refused (TestFixture *fixture)
{
  const GpuExtent grid = { N_ITEMS, 1, 1 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuHostMemory) memory = NULL;
  g_autoptr (GpuArguments) arguments = gpu_arguments_new ();
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuKernel) kernel = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_SOURCE))
    return;
  memory = make (fixture, ALIGNED, N_ITEMS * 4);
  if (gpu_memory_get_device_address (GPU_MEMORY (memory)) != 0)
    {
      g_test_skip ("kernels can access all host memory");
      return;
    }
  kernel = test_kernel (fixture, add_source, "add");
  g_assert_false (gpu_stream_launch (fixture->stream, kernel, &grid, NULL, &error, memory, 3));
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_stream_launch", "argument 0",
                         "GPU_HOST_MEMORY_FLAGS_MAPPED");
  buffer = gpu_buffer_new_for_memory (GPU_MEMORY (memory), 0, N_ITEMS * 4, &error);
  g_assert_no_error (error);
  gpu_arguments_add_memory (arguments, GPU_MEMORY (buffer));
  gpu_arguments_add_int (arguments, 3);
  g_assert_null (gpu_launch_new (kernel, &grid, NULL, NULL, 0, GPU_LAUNCH_FLAGS_NONE, arguments,
                                 &error));
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_launch_new", "argument 0");
}

/* --- lifetime ------------------------------------------------------------------------- */

/* A GBytes over host memory has the address of the memory, and keeps the memory allocated after the
 * GpuHostMemory is released. */
static void
memory_view (TestFixture *fixture)
{
  for (Kind kind = 0; kind < N_KINDS; kind++)
    {
      g_autoptr (GpuHostMemory) memory = try_make (fixture, kind, SIZE);
      g_autoptr (GBytes) view = NULL;

      if (memory == NULL)
        continue;
      memset (gpu_host_memory_get_data (memory), 17, SIZE);
      view = gpu_host_memory_get_bytes (memory);
      g_assert_true (g_bytes_get_data (view, NULL) == gpu_host_memory_get_data (memory));
      g_assert_cmpuint (g_bytes_get_size (view), ==, SIZE);
      gpu_memory_release (GPU_MEMORY (memory));
      g_assert_null (gpu_host_memory_get_data (memory));
      g_assert_cmpuint (gpu_host_memory_get_address (memory), ==, 0);
      g_assert_null (gpu_host_memory_get_bytes (memory));
      g_clear_object (&memory);
      test_assert_value (g_bytes_get_data (view, NULL), 17, SIZE);
    }
}

static void
set_done (gpointer data)
{
  g_atomic_int_set ((gint *) data, TRUE);
}

/* Pending work keeps released memory, and its registration with the driver, alive. */
static void
memory_released_in_use (TestFixture *fixture)
{
  for (Kind kind = 0; kind < N_KINDS; kind++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GBytes) expected = test_value_bytes (SIZE, 99);
      g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE, 0);
      g_autoptr (GpuHostMemory) memory = NULL;
      g_auto (Stall) stalled = { NULL, NULL };

      if (!can_stall (fixture))
        return;
      memory = try_make (fixture, kind, SIZE);
      if (memory == NULL)
        continue;
      memset (gpu_host_memory_get_data (memory), 99, SIZE);
      stalled = stall (fixture, fixture->stream);
      test_assert_ok (gpu_stream_copy (fixture->stream, GPU_MEMORY (buffer), 0,
                                       GPU_MEMORY (memory), 0, SIZE, &error), error);
      if (kind % 2 == 0)
        gpu_memory_release (GPU_MEMORY (memory));
      g_clear_object (&memory);
      go_on (&stalled);
      test_assert_content (buffer, expected);
    }
}

/* Pending work keeps the registration and the bytes alive. Both are freed when the work has
 * completed. */
static void
memory_unregisters (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE, 5);
  g_auto (Stall) stalled = { NULL, NULL };
  g_autofree guint8 *data = g_malloc0 (SIZE);
  g_autoptr (GpuHostMemory) memory = NULL;
  g_autoptr (GBytes) seen = NULL;
  gint done = FALSE;
  GBytes *bytes;

  if (!can_stall (fixture))
    return;
  bytes = g_bytes_new_with_free_func (data, SIZE, set_done, &done);
  memory = gpu_host_memory_new_registered (fixture->context, GPU_HOST_MEMORY_FLAGS_NONE, bytes,
                                           &error);
  g_assert_no_error (error);
  seen = gpu_memory_get_host_bytes (GPU_MEMORY (memory));
  g_assert_true (seen == bytes);
  g_clear_pointer (&seen, g_bytes_unref);
  g_assert_true (gpu_host_memory_get_data (memory) == data);
  g_bytes_unref (bytes);
  stalled = stall (fixture, fixture->stream);
  test_assert_ok (gpu_stream_copy (fixture->stream, GPU_MEMORY (memory), 0, GPU_MEMORY (buffer), 0,
                                   SIZE, &error), error);
  g_clear_object (&memory);
  g_assert_false (g_atomic_int_get (&done));
  go_on (&stalled);
  test_synchronize (fixture->stream);
  while (!g_atomic_int_get (&done))
    g_usleep (1000);
  test_assert_value (data, 5, SIZE);

  /* The bytes were not freed and may be registered again. */
  bytes = g_bytes_new_static (data, SIZE);
  memory = gpu_host_memory_new_registered (fixture->context, GPU_HOST_MEMORY_FLAGS_NONE, bytes,
                                           &error);
  g_assert_no_error (error);
  gpu_memory_release (GPU_MEMORY (memory));
  g_bytes_unref (bytes);
}

/* The context counts host memory in a separate total until the memory is freed. Registered memory
 * does not count. */
static void
memory_counted (TestFixture *fixture)
{
  g_autoptr (GpuHostMemory) locked = make (fixture, LOCKED, SIZE);
  g_autoptr (GpuHostMemory) aligned = make (fixture, ALIGNED, SIZE);
  g_autoptr (GpuHostMemory) registered = make (fixture, REGISTERED, SIZE);

  g_assert_cmpuint (gpu_context_get_host_allocated_size (fixture->context), ==, 2 * SIZE);
  g_assert_cmpuint (gpu_context_get_allocated_size (fixture->context), ==, 0);
  gpu_memory_release (GPU_MEMORY (locked));
  gpu_memory_release (GPU_MEMORY (registered));
  g_assert_cmpuint (gpu_context_get_host_allocated_size (fixture->context), ==, SIZE);
  g_clear_object (&aligned);
  g_assert_cmpuint (gpu_context_get_host_allocated_size (fixture->context), ==, 0);
}

/* --- host access ---------------------------------------------------------------------- */

static gpointer
open_soon (gpointer stalled)
{
  g_usleep (20000);
  go_on (stalled);
  return NULL;
}

/* A read waits for writes; a write also waits for reads. */
static void
memory_synchronize (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuHostMemory) memory = make (fixture, LOCKED, SIZE);
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
  g_autoptr (GCancellable) cancellable = g_cancellable_new ();
  g_auto (Stall) stalled = { NULL, NULL };
  GThread *thread;

  if (!can_stall (fixture))
    return;
  memset (gpu_host_memory_get_data (memory), 1, SIZE);
  stalled = stall (fixture, fixture->stream);
  test_assert_ok (gpu_stream_copy (fixture->stream, GPU_MEMORY (buffer), 0, GPU_MEMORY (memory),
                                   0, SIZE, &error), error);
  ready (memory, GPU_MAP_FLAGS_READ);
  thread = g_thread_new ("open", open_soon, &stalled);
  ready (memory, GPU_MAP_FLAGS_WRITE);
  memset (gpu_host_memory_get_data (memory), 2, SIZE);
  g_thread_join (thread);
  {
    g_autoptr (GBytes) ones = test_value_bytes (SIZE, 1);

    test_assert_content (buffer, ones);
  }

  g_cancellable_cancel (cancellable);
  g_assert_false (gpu_host_memory_synchronize (memory, GPU_MAP_FLAGS_READ, cancellable, &error));
  g_assert_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
  g_clear_error (&error);
  g_assert_false (gpu_host_memory_synchronize (memory, 1 << 10, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_host_memory_synchronize");
  gpu_memory_release (GPU_MEMORY (memory));
  g_assert_false (gpu_host_memory_synchronize (memory, GPU_MAP_FLAGS_READ, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_RELEASED, "gpu_host_memory_synchronize");
}

static void
memory_synchronize_async (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuHostMemory) memory = make (fixture, LOCKED, SIZE);
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE, 8);
  g_autoptr (GCancellable) cancellable = g_cancellable_new ();
  g_auto (Stall) stalled = { NULL, NULL };
  g_autoptr (GAsyncResult) result = NULL;
  g_autoptr (GAsyncResult) cancelled = NULL;

  if (!can_stall (fixture))
    return;
  stalled = stall (fixture, fixture->stream);
  test_assert_ok (gpu_stream_copy (fixture->stream, GPU_MEMORY (memory), 0, GPU_MEMORY (buffer),
                                   0, SIZE, &error), error);
  test_assert_ok (gpu_stream_copy (fixture->stream, GPU_MEMORY (buffer), 0, GPU_MEMORY (memory),
                                   0, SIZE, &error), error);
  gpu_host_memory_synchronize_async (memory, GPU_MAP_FLAGS_NONE, cancellable, test_take_result,
                                     &cancelled);
  g_cancellable_cancel (cancellable);
  test_await (&cancelled);
  g_assert_false (gpu_host_memory_synchronize_finish (memory, cancelled, &error));
  g_assert_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
  g_clear_error (&error);

  gpu_host_memory_synchronize_async (memory, GPU_MAP_FLAGS_NONE, NULL, test_take_result, &result);
  g_assert_null (result);
  go_on (&stalled);
  test_await (&result);
  test_assert_ok (gpu_host_memory_synchronize_finish (memory, result, &error), error);
  test_assert_value (gpu_host_memory_get_data (memory), 8, SIZE);
}

static void
finish_at_once (GObject      *source,
                GAsyncResult *result,
                gpointer      user_data)
{
  gboolean *done = user_data;
  g_autoptr (GError) error = NULL;

  test_assert_ok (gpu_host_memory_synchronize_finish (GPU_HOST_MEMORY (source), result, &error),
                  error);
  *done = TRUE;
}

/* Synchronizes asynchronously in a thread-default main context. The result is freed after the
 * callback. */
static void
memory_synchronize_main_context (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuHostMemory) memory = make (fixture, LOCKED, SIZE);
  g_autoptr (GMainContext) main_context = g_main_context_new ();
  const guint8 value = 3;
  gboolean done = FALSE;

  test_assert_ok (gpu_stream_fill (fixture->stream, GPU_MEMORY (memory), 0, SIZE, &value, 1,
                                   &error), error);
  g_main_context_push_thread_default (main_context);
  gpu_host_memory_synchronize_async (memory, GPU_MAP_FLAGS_NONE, NULL, finish_at_once, &done);
  while (!done)
    g_main_context_iteration (main_context, TRUE);
  g_assert_true (g_main_context_get_thread_default () == main_context);
  g_main_context_pop_thread_default (main_context);
  test_assert_value (gpu_host_memory_get_data (memory), 3, SIZE);
}

static void
memory_bytes (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuHostMemory) memory = make (fixture, LOCKED, SIZE);
  g_autoptr (GBytes) bytes = test_random_bytes (1000);
  g_autoptr (GBytes) read = NULL;

  test_assert_ok (gpu_host_memory_write_bytes (memory, 24, bytes, NULL, &error), error);
  read = gpu_host_memory_read_bytes (memory, 24, 1000, NULL, &error);
  g_assert_no_error (error);
  g_assert_true (g_bytes_equal (read, bytes));
  g_assert_false (gpu_host_memory_write_bytes (memory, SIZE - 999, bytes, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_host_memory_write_bytes", "1000");
  g_assert_null (gpu_host_memory_read_bytes (memory, 1, SIZE, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_host_memory_read_bytes");
}

/* A mapping has the address of the memory, and blocks conflicting work. */
static void
memory_mapping (TestFixture *fixture)
{
  if (!test_has (fixture, GPU_CAPABILITIES_MAP))
    return;
  for (Kind kind = 0; kind < N_KINDS; kind++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GpuHostMemory) memory = try_make (fixture, kind, SIZE);
      g_autoptr (GpuMapping) mapping = NULL;
      guint8 value = 3;

      if (memory == NULL)
        continue;
      test_assert_ok (gpu_stream_fill (fixture->stream, GPU_MEMORY (memory), 0, SIZE, &value, 1,
                                       &error), error);
      mapping = gpu_stream_map (fixture->stream, GPU_MEMORY (memory), GPU_MAP_FLAGS_NONE, 128, 512,
                                &error);
      g_assert_no_error (error);
      test_synchronize (fixture->stream);
      g_assert_true (gpu_mapping_get_data (mapping)
                     == (guint8 *) gpu_host_memory_get_data (memory) + 128);
      test_assert_value (gpu_mapping_get_data (mapping), 3, 512);
      g_assert_false (gpu_stream_fill (fixture->stream, GPU_MEMORY (memory), 0, SIZE, &value, 1,
                                       &error));
      test_assert_gpu_error (error, GPU_ERROR_BUSY, "gpu_stream_fill");
      test_assert_ok (gpu_mapping_unmap (mapping, &error), error);
      test_assert_ok (gpu_stream_fill (fixture->stream, GPU_MEMORY (memory), 0, SIZE, &value, 1,
                                       &error), error);
    }
}

/* --- attributes ----------------------------------------------------------------------- */

static void
memory_flags (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuHostMemory) locked = make (fixture, LOCKED, SIZE);
  g_autoptr (GpuHostMemory) mapped = try_make (fixture, MAPPED, SIZE);
  g_autoptr (GpuHostMemory) aligned = gpu_host_memory_new_aligned (fixture->context, 1 << 16, 100,
                                                                   &error);
  gboolean is_host = gpu_device_get_device_type (fixture->device) == GPU_DEVICE_TYPE_HOST;
  g_autoptr (GVariant) attributes = NULL;

  g_assert_no_error (error);
  g_assert_true (test_get_number (locked, "page-locked") == !is_host);
  g_assert_false (test_get_number (aligned, "page-locked"));
  g_assert_cmpuint (gpu_host_memory_get_address (aligned) % (1 << 16), ==, 0);
  g_assert_cmpuint (gpu_memory_get_size (GPU_MEMORY (aligned)), ==, 100);
  g_assert_cmpuint (test_get_number (aligned, "host-flags"), ==, GPU_HOST_MEMORY_FLAGS_NONE);
  g_assert_cmpuint (gpu_host_memory_get_address (locked) % 64, ==, 0);
  g_assert_true (gpu_memory_equal (GPU_MEMORY (locked), GPU_MEMORY (locked)));
  g_assert_false (gpu_memory_equal (GPU_MEMORY (locked), GPU_MEMORY (aligned)));
  if (mapped != NULL)
    g_assert_true ((test_get_number (mapped, "host-flags") & GPU_HOST_MEMORY_FLAGS_MAPPED) != 0);
  for (guint i = 0; i < 2; i++)
    {
      GpuMemory *memory = GPU_MEMORY (i == 0 ? locked : aligned);
      guint64 size = 0;

      g_clear_pointer (&attributes, g_variant_unref);
      attributes = gpu_memory_get_attributes (memory, &error);
      g_assert_no_error (error);
      g_assert_true (g_variant_lookup (attributes, "size", "t", &size));
      g_assert_cmpuint (size, ==, gpu_memory_get_size (memory));
    }
}

static void
memory_refused (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) empty = g_bytes_new (NULL, 0);
  g_autoptr (GBytes) bytes = registrable (SIZE);

  g_assert_null (gpu_host_memory_new (fixture->context, GPU_HOST_MEMORY_FLAGS_NONE, 0, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_host_memory_new", "0 bytes");
  g_assert_null (gpu_host_memory_new (fixture->context, GPU_HOST_MEMORY_FLAGS_READ_ONLY, SIZE,
                                      &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_host_memory_new", "read-only");
  g_assert_null (gpu_host_memory_new (fixture->context, GPU_HOST_MEMORY_FLAGS_NONE, G_MAXSIZE / 2,
                                      &error));
  test_assert_gpu_error (error, GPU_ERROR_OUT_OF_HOST_MEMORY, "gpu_host_memory_new");
  g_assert_null (gpu_host_memory_new_aligned (fixture->context, 48, SIZE, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_host_memory_new_aligned", "48");
  g_assert_null (gpu_host_memory_new_aligned (fixture->context, 0, G_MAXSIZE / 2, &error));
  test_assert_gpu_error (error, GPU_ERROR_OUT_OF_HOST_MEMORY, "gpu_host_memory_new_aligned");
  g_assert_null (gpu_host_memory_new_registered (fixture->context, GPU_HOST_MEMORY_FLAGS_NONE,
                                                 empty,
                                                 &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_host_memory_new_registered");
  g_assert_null (gpu_host_memory_new_registered (fixture->context,
                                                 GPU_HOST_MEMORY_FLAGS_WRITE_COMBINED,
                                                 bytes, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_host_memory_new_registered",
                         "write-combined");
}

static void
assert_constant (GError **error)
{
  test_assert_gpu_error (*error, GPU_ERROR_INVALID_ARGUMENT, "read only");
}

/* The library refuses to write memory that is registered as read-only. */
static void
memory_read_only (TestFixture *fixture)
{
  static const guint8 constant[SIZE] = { 1, 2, 3 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = g_bytes_new_static (constant, SIZE);
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE, 9);
  g_autoptr (GpuHostMemory) memory = NULL;
  g_autoptr (GpuBuffer) view = NULL;
  guint8 value = 5;

  memory = gpu_host_memory_new_registered (fixture->context, GPU_HOST_MEMORY_FLAGS_READ_ONLY, bytes,
                                           &error);
  g_assert_no_error (error);
  test_assert_ok (gpu_stream_copy (fixture->stream, GPU_MEMORY (buffer), 0, GPU_MEMORY (memory), 0,
                                   SIZE, &error), error);
  test_assert_content (buffer, bytes);
  g_assert_false (gpu_stream_copy (fixture->stream, GPU_MEMORY (memory), 0, GPU_MEMORY (buffer),
                                   0, SIZE, &error));
  assert_constant (&error);
  view = gpu_buffer_new_for_memory (GPU_MEMORY (memory), 0, SIZE, &error);
  g_assert_no_error (error);
  g_assert_false (gpu_stream_fill (fixture->stream, GPU_MEMORY (view), 0, SIZE, &value, 1,
                                   &error));
  g_assert_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT);
  g_clear_error (&error);
  g_assert_false (gpu_host_memory_write_bytes (memory, 0, bytes, NULL, &error));
  g_assert_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT);
  g_clear_error (&error);
}

static GpuHostMemory *
make_registered (TestFixture *fixture, GpuHostMemoryFlags flags, GBytes *bytes)
{
  g_autoptr (GError) error = NULL;
  GpuHostMemory *memory = gpu_host_memory_new_registered (fixture->context, flags, bytes, &error);

  /* CUDA registers each byte once per process. */
  if (memory == NULL && flags == GPU_HOST_MEMORY_FLAGS_NONE
      && g_str_equal (gpu_device_get_backend (fixture->device), "cuda"))
    test_assert_gpu_error (error, GPU_ERROR_BUSY, "read-only");
  else
    g_assert_no_error (error);
  return memory;
}

/* @constant and @writable register the same bytes. The library orders the work that uses either of
 * them. Only @constant refuses writes. */
static void
check_beside (TestFixture *fixture, GpuHostMemory *constant, GpuHostMemory *writable)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE, 9);
  g_autoptr (GpuStream) writes = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GBytes) fives = test_value_bytes (SIZE, 5);
  g_auto (Stall) stalled = stall (fixture, writes);
  guint8 value = 5;

  test_assert_ok (gpu_stream_fill (writes, GPU_MEMORY (writable), 0, SIZE, &value, 1, &error),
                  error);
  test_assert_ok (gpu_stream_copy (fixture->stream, GPU_MEMORY (buffer), 0, GPU_MEMORY (constant),
                                   0, SIZE, &error), error);
  g_usleep (20000);
  go_on (&stalled);
  test_assert_content (buffer, fives);
  value = 6;
  g_assert_false (gpu_stream_fill (writes, GPU_MEMORY (constant), 0, SIZE, &value, 1, &error));
  assert_constant (&error);
  assert_memory (writable, fives);
}

/* A writable and a read-only registration of the same bytes exist at the same time. */
static void
memory_read_only_beside (TestFixture *fixture)
{
  if (!can_stall (fixture))
    return;
  for (guint i = 0; i < 2; i++)
    {
      const GpuHostMemoryFlags first = i == 0 ? GPU_HOST_MEMORY_FLAGS_NONE
                                       : GPU_HOST_MEMORY_FLAGS_READ_ONLY;
      g_autoptr (GError) error = NULL;
      g_autoptr (GBytes) bytes = registrable (SIZE);
      g_autoptr (GpuHostMemory) one = make_registered (fixture, first, bytes);
      g_autoptr (GpuHostMemory) other =
        make_registered (fixture, first ^ GPU_HOST_MEMORY_FLAGS_READ_ONLY, bytes);
      GpuHostMemory *writable = i == 0 ? one : other;
      guint8 value = 7;

      if (writable == NULL)
        continue;
      check_beside (fixture, i == 0 ? other : one, writable);
      gpu_memory_release (GPU_MEMORY (i == 0 ? other : one));
      test_assert_ok (gpu_stream_fill (fixture->stream, GPU_MEMORY (writable), 0, SIZE, &value, 1,
                                       &error), error);
      ready (writable, GPU_MAP_FLAGS_READ);
      test_assert_value (gpu_host_memory_get_data (writable), 7, SIZE);
    }
}

/* --- threads -------------------------------------------------------------------------- */

typedef struct
{
  TestFixture *fixture;
  guint8       value;
} Worker;

static gpointer
work (gpointer data)
{
  Worker *worker = data;

  for (guint i = 0; i < 20; i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GpuStream) stream = test_stream (worker->fixture, GPU_STREAM_FLAGS_NONE);
      g_autoptr (GpuHostMemory) memory = make (worker->fixture, i % 2 == 0 ? LOCKED : REGISTERED,
                                               SIZE);
      g_autoptr (GpuHostMemory) copy = make (worker->fixture, ALIGNED, SIZE);

      test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (memory), 0, SIZE, &worker->value, 1,
                                       &error), error);
      test_assert_ok (gpu_stream_copy (stream, GPU_MEMORY (copy), 0, GPU_MEMORY (memory), 0, SIZE,
                                       &error), error);
      g_clear_object (&memory);
      ready (copy, GPU_MAP_FLAGS_READ);
      test_assert_value (gpu_host_memory_get_data (copy), worker->value, SIZE);
    }

  return NULL;
}

static void
memory_threads (TestFixture *fixture)
{
  Worker workers[4];
  GThread *threads[4];

  for (guint i = 0; i < 4; i++)
    {
      workers[i] = (Worker) { fixture, (guint8) (i + 1) };
      threads[i] = g_thread_new ("work", work, &workers[i]);
    }
  for (guint i = 0; i < 4; i++)
    g_thread_join (threads[i]);
}

static GpuHostMemory *
new_on_node (TestFixture *fixture, int node, GError **error)
{
  return g_initable_new (GPU_TYPE_HOST_MEMORY, NULL, error, "context", fixture->context, "size",
                         (guint64) 4 * 1024 * 1024, "numa-node", node, NULL);
}

/* The pages may be on any node that the host has. A host with one node ignores the number. */
static void
memory_numa_node (TestFixture *fixture)
{
  static const int nodes[] = { 0, GPU_NUMA_NODE_NONE, GPU_NUMA_NODE_DEVICE };
  g_autoptr (GError) error = NULL;
  guint8 value = 5;

  for (guint i = 0; i < G_N_ELEMENTS (nodes); i++)
    {
      g_autoptr (GpuHostMemory) memory = new_on_node (fixture, nodes[i], &error);
      int node = 0;

      g_assert_no_error (error);
      g_object_get (memory, "numa-node", &node, NULL);
      g_assert_cmpint (node, >=, GPU_NUMA_NODE_NONE);
      if (nodes[i] != GPU_NUMA_NODE_DEVICE)
        g_assert_cmpint (node, <=, nodes[i]);
      test_assert_ok (gpu_stream_fill (fixture->stream, GPU_MEMORY (memory), 0, SIZE, &value, 1,
                                       &error), error);
      test_synchronize (fixture->stream);
      test_assert_value (gpu_host_memory_get_data (memory), 5, SIZE);
    }

  g_assert_null (new_on_node (fixture, -3, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_host_memory_new", "NUMA node -3");
}

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
  test_add ("copies", memory_copies);
  test_add ("fill", memory_fill);
  test_add ("regions", memory_regions);
  test_add ("large", memory_large);
  test_add ("slices", memory_slices);
  test_add ("kernel", memory_kernel);
  test_add ("kernel-refused", memory_kernel_refused);
  test_add ("view", memory_view);
  test_add ("released-in-use", memory_released_in_use);
  test_add ("unregisters", memory_unregisters);
  test_add ("counted", memory_counted);
  test_add ("synchronize", memory_synchronize);
  test_add ("synchronize-async", memory_synchronize_async);
  test_add ("synchronize-main-context", memory_synchronize_main_context);
  test_add ("bytes", memory_bytes);
  test_add ("mapping", memory_mapping);
  test_add ("flags", memory_flags);
  test_add ("refused", memory_refused);
  test_add ("read-only", memory_read_only);
  test_add ("read-only-beside", memory_read_only_beside);
  test_add ("threads", memory_threads);
  test_add ("numa-node", memory_numa_node);
  return test_run ();
}
