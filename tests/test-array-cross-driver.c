/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Copies of arrays with all kinds of strides between memory of different drivers: every pair of the
 * chosen devices, in both directions, on streams of either device. */
#include "config.h"

#include "test-util.h"

#define N_DIMS 3

static const gssize shape[N_DIMS] = { 4, 6, 10 };

/* Layouts of the elements. */
typedef enum
{
  DENSE,
  TURNED,                           /* dense, with permuted dimensions */
  SLICED,
  BACKWARDS,
  REPEATED,                         /* only as a source */
  N_FORMS
} Form;

static GpuArray *
make (GpuContext *context, Form form, GpuMemoryFlags flags)
{
  const gsize size = 4 * 4 * 6 * 20;
  const gssize strides[N_FORMS][N_DIMS] = { { 240, 40, 4 }, { 4, 16, 96 }, { 480, 80, 8 },
                                            { 240, -40, 4 }, { 0, 40, 4 } };
  const gsize offsets[N_FORMS] = { 0, 0, 4, 200, 0 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = gpu_buffer_new (context, flags, size, &error);
  GpuArray *array;

  g_assert_no_error (error);
  array = gpu_array_new_for_memory (GPU_MEMORY (buffer), offsets[form], GPU_DTYPE_UINT32, shape,
                                    N_DIMS, strides[form], N_DIMS, &error);
  g_assert_no_error (error);
  return array;
}

static GBytes *
fetch (GpuArray *array)
{
  g_autoptr (GError) error = NULL;
  GBytes *bytes = gpu_array_read_bytes (array, NULL, GPU_ARRAY_ORDER_C, NULL, &error);

  g_assert_no_error (error);
  return bytes;
}

static GBytes *
randomize (GpuArray *array)
{
  g_autoptr (GError) error = NULL;
  GpuMemory *memory = gpu_array_get_memory (array);
  g_autoptr (GBytes) bytes = test_random_bytes (gpu_memory_get_size (memory));

  test_assert_ok (gpu_buffer_write_bytes (GPU_BUFFER (memory), NULL, 0, bytes, NULL, &error),
                  error);
  return fetch (array);
}

static void
copy (GpuStream *stream, GpuArray *to, GpuArray *from)
{
  g_autoptr (GError) error = NULL;

  test_assert_ok (gpu_stream_copy_array (stream, to, from, &error), error);
}

/* Reads all bytes of the memory, with the gaps between the elements. */
static GBytes *
fetch_around (GpuArray *array)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuArray) whole = NULL;
  const gssize n = 480;

  whole = gpu_array_new_for_memory (gpu_array_get_memory (array), 0, GPU_DTYPE_UINT32, &n, 1, NULL,
                                    0, &error);
  g_assert_no_error (error);
  return fetch (whole);
}

static void
check_form (GpuContext *to_context, Form to_form, GpuContext *from_context, Form from_form,
            GpuStream *stream)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuArray) to = make (to_context, to_form, GPU_MEMORY_FLAGS_NONE);
  g_autoptr (GpuArray) from = make (from_context, from_form, GPU_MEMORY_FLAGS_NONE);
  g_autoptr (GpuArray) model = make (to_context, to_form, GPU_MEMORY_FLAGS_NONE);
  g_autoptr (GBytes) expected = randomize (from);
  g_autoptr (GBytes) before = randomize (to);
  g_autoptr (GBytes) got = NULL;
  g_autoptr (GBytes) around = fetch_around (to);
  g_autoptr (GBytes) around_expected = NULL;

  g_assert_false (g_bytes_equal (before, expected));
  test_assert_ok (gpu_buffer_write_bytes (GPU_BUFFER (gpu_array_get_memory (model)), NULL, 0,
                                          around, NULL, &error), error);
  test_assert_ok (gpu_array_write_bytes (model, NULL, GPU_ARRAY_ORDER_C, expected, NULL, &error),
                  error);
  copy (stream, to, from);
  g_clear_object (&from);
  got = fetch (to);
  test_assert_bytes (got, expected);
  g_clear_pointer (&around, g_bytes_unref);
  around = fetch_around (to);
  around_expected = fetch_around (model);
  test_assert_bytes (around, around_expected);
}

/* --- pairs of contexts ------------------------------------------------------------------------ */

/* Runs @func with a new context on every device. */
static void
for_others (TestFixture *fixture, void (*func) (TestFixture *, GpuContext *))
{
  GPtrArray *devices = test_devices ();

  for (guint i = 0; i < devices->len; i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GpuContext) other = NULL;

      other = gpu_context_new (g_ptr_array_index (devices, i), GPU_CONTEXT_FLAGS_OWN, &error);
      g_assert_no_error (error);
      g_test_message ("with %s", gpu_device_get_id (g_ptr_array_index (devices, i)));
      func (fixture, other);
    }
}

static void
data (TestFixture *fixture, GpuContext *other)
{
  for (Form to = DENSE; to < REPEATED; to++)
    for (Form from = DENSE; from < N_FORMS; from++)
      {
        check_form (fixture->context, to, other, from, fixture->stream);
        check_form (other, to, fixture->context, from, fixture->stream);
      }
}

static void
cross_driver_data (TestFixture *fixture)
{
  for_others (fixture, data);
}

static void
out_of_order (TestFixture *fixture, GpuContext *other)
{
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_OUT_OF_ORDER);

  check_form (fixture->context, SLICED, other, TURNED, stream);
  check_form (other, SLICED, fixture->context, TURNED, stream);
}

static void
cross_driver_out_of_order (TestFixture *fixture)
{
  if (test_has (fixture, GPU_CAPABILITIES_OUT_OF_ORDER))
    for_others (fixture, out_of_order);
}

/* Copies from a source with fewer dimensions. The copy repeats the source along the missing
 * dimensions. */
static void
repeat (GpuContext *to_context, GpuContext *from_context, GpuStream *stream)
{
  const gssize length = shape[N_DIMS - 1];
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuArray) to = make (to_context, SLICED, GPU_MEMORY_FLAGS_NONE);
  g_autoptr (GBytes) bytes = test_random_bytes ((gsize) length * 4);
  g_autoptr (GpuArray) from = gpu_array_new_from_bytes (from_context, NULL, NULL, GPU_DTYPE_UINT32,
                                                        &length, 1, GPU_ARRAY_ORDER_C, bytes,
                                                        &error);
  g_autoptr (GBytes) got = NULL;

  g_assert_no_error (error);
  copy (stream, to, from);
  got = fetch (to);
  for (gssize i = 0; i < shape[0] * shape[1]; i++)
    test_assert_mem ((const guint8 *) g_bytes_get_data (got, NULL) + i * length * 4,
                     g_bytes_get_data (bytes, NULL), (gsize) length * 4);
}

static void
repeats (TestFixture *fixture, GpuContext *other)
{
  repeat (fixture->context, other, fixture->stream);
  repeat (other, fixture->context, fixture->stream);
}

static void
cross_driver_repeats (TestFixture *fixture)
{
  for_others (fixture, repeats);
}

/* --- order ------------------------------------------------------------------------------------ */

/* Copies untracked memory to the other device and back, with other strides. Only the order of the
 * stream prevents hazards. */
static void
order (TestFixture *fixture, GpuContext *other)
{
  const GpuMemoryFlags flags = GPU_MEMORY_FLAGS_UNTRACKED;
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuArray) from = make (fixture->context, SLICED, GPU_MEMORY_FLAGS_NONE);
  g_autoptr (GpuArray) there = make (other, SLICED, flags);
  g_autoptr (GpuArray) back = make (fixture->context, BACKWARDS, GPU_MEMORY_FLAGS_NONE);
  g_autoptr (GpuArray) turned = make (fixture->context, TURNED, flags);
  g_autoptr (GBytes) expected = randomize (from);
  g_autoptr (GBytes) got = NULL;

  got = randomize (there);
  copy (stream, turned, from);
  copy (stream, there, turned);
  copy (stream, back, there);
  test_assert_ok (gpu_stream_synchronize (stream, NULL, &error), error);
  g_clear_pointer (&got, g_bytes_unref);
  got = fetch (back);
  test_assert_bytes (got, expected);
}

static void
cross_driver_order (TestFixture *fixture)
{
  for_others (fixture, order);
}

/* A copy that the host performs keeps the order of the stream: it reads the source after earlier
 * work of the stream, and a synchronization of the stream waits until it has written the
 * destination. */
static void
turns (TestFixture *fixture, GpuContext *other)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuEvent) gate = gpu_event_new_user (fixture->context, &error);
  g_autoptr (GpuArray) here = make (fixture->context, DENSE, GPU_MEMORY_FLAGS_NONE);
  g_autoptr (GpuArray) sliced = make (other, SLICED, GPU_MEMORY_FLAGS_UNTRACKED);
  g_autoptr (GBytes) host = gpu_array_get_host_bytes (sliced);
  g_autoptr (GBytes) bytes = NULL;
  g_autoptr (GBytes) expected = NULL;
  g_autoptr (GBytes) got = NULL;

  g_assert_no_error (error);
  bytes = randomize (sliced);
  g_assert_nonnull (host);
  test_assert_ok (gpu_stream_wait_event (stream, gate, &error), error);
  copy (stream, here, sliced);
  /* The gate still blocks the copy: change the source of the copy, then open the gate. */
  for (gsize i = 0; i < g_bytes_get_size (host); i++)
    ((guint8 *) g_bytes_get_data (host, NULL))[i] ^= 0x5a;
  test_assert_ok (gpu_event_complete (gate, &error), error);
  test_assert_ok (gpu_stream_synchronize (stream, NULL, &error), error);
  expected = fetch (sliced);
  got = fetch (here);
  test_assert_bytes (got, expected);

  /* The host memory has the result as soon as the stream is synchronized. */
  g_clear_pointer (&expected, g_bytes_unref);
  expected = randomize (here);
  copy (stream, sliced, here);
  test_assert_ok (gpu_stream_synchronize (stream, NULL, &error), error);
  for (gsize i = 0; i < (gsize) (shape[0] * shape[1] * shape[2]); i++)
    test_assert_mem ((const guint8 *) g_bytes_get_data (host, NULL) + 8 * i,
                     (const guint8 *) g_bytes_get_data (expected, NULL) + 4 * i, 4);
}

static void
cross_driver_host_access_order (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuDevice) device = NULL;
  g_autoptr (GpuContext) host = NULL;

  if (g_str_equal (gpu_device_get_backend (fixture->device), "host"))
    {
      g_test_skip ("only one driver is installed");
      return;
    }
  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    return;
  device = gpu_device_find ("host", &error);
  g_assert_no_error (error);
  host = gpu_context_new (device, GPU_CONTEXT_FLAGS_NONE, &error);
  g_assert_no_error (error);
  turns (fixture, host);
}

/* --- errors ----------------------------------------------------------------------------------- */

static void
refused (TestFixture *fixture, GpuContext *other)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuContext) third = gpu_context_new (fixture->device, GPU_CONTEXT_FLAGS_OWN, &error);
  g_autoptr (GpuArray) to = make (fixture->context, SLICED, GPU_MEMORY_FLAGS_NONE);
  g_autoptr (GpuArray) from = make (other, TURNED, GPU_MEMORY_FLAGS_NONE);
  g_autoptr (GpuStream) stream = NULL;
  g_autoptr (GBytes) before = randomize (to);
  g_autoptr (GBytes) after = NULL;

  g_assert_no_error (error);
  stream = gpu_stream_new (third, GPU_STREAM_FLAGS_NONE, &error);
  g_assert_no_error (error);
  g_assert_false (gpu_stream_copy_array (stream, to, from, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_stream_copy_array");
  g_clear_error (&error);
  gpu_memory_release (gpu_array_get_memory (from));
  g_assert_false (gpu_stream_copy_array (fixture->stream, to, from, &error));
  test_assert_gpu_error (error, GPU_ERROR_RELEASED, "gpu_stream_copy_array");
  after = fetch (to);
  test_assert_bytes (after, before);
}

/* The library packs the elements of @from. To order this, it first copies one byte to the memory of
 * @to. A copy that is refused because the last element is mapped must not change this byte. */
static void
refused_mapped (TestFixture *fixture, GpuContext *other)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuArray) to = make (fixture->context, DENSE, GPU_MEMORY_FLAGS_NONE);
  g_autoptr (GpuArray) from = make (other, SLICED, GPU_MEMORY_FLAGS_NONE);
  g_autoptr (GBytes) source = randomize (from);
  g_autoptr (GBytes) before = randomize (to);
  g_autoptr (GBytes) after = NULL;
  g_autoptr (GpuMapping) mapping = NULL;
  const gsize last = 4 + 3 * 480 + 5 * 80 + 9 * 8;

  mapping = gpu_buffer_map (GPU_BUFFER (gpu_array_get_memory (from)), NULL, GPU_MAP_FLAGS_WRITE,
                            last, 4, NULL, &error);
  g_assert_no_error (error);
  g_assert_false (gpu_stream_copy_array (fixture->stream, to, from, &error));
  test_assert_gpu_error (error, GPU_ERROR_BUSY, "gpu_stream_copy_array", "mapped for writing");
  after = fetch (to);
  test_assert_bytes (after, before);
}

static void
cross_driver_refused_mapped (TestFixture *fixture)
{
  if (test_has (fixture, GPU_CAPABILITIES_MAP))
    for_others (fixture, refused_mapped);
}

static void
cross_driver_refused (TestFixture *fixture)
{
  for_others (fixture, refused);
}

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
  test_add ("data", cross_driver_data);
  test_add ("out-of-order", cross_driver_out_of_order);
  test_add ("repeats", cross_driver_repeats);
  test_add ("order", cross_driver_order);
  test_add ("host-access-order", cross_driver_host_access_order);
  test_add ("refused", cross_driver_refused);
  test_add ("refused-mapped", cross_driver_refused_mapped);

  return test_run ();
}
