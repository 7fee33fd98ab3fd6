/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Copies between memory of different drivers: every pair of the chosen devices, in both directions,
 * and two contexts of one device. */
#include "config.h"

#include "test-util.h"

#define SIZE ((gsize) 1024 * 1024 + 3)

/* More chunks than there are staging buffers. */
#define LARGE ((gsize) 40 * 1024 * 1024 + 5)

/* The device and the context of the other memory of a copy. */
typedef struct
{
  TestFixture fixture;
} Other;

static void
other_init (Other *other, GpuDevice *device)
{
  g_autoptr (GError) error = NULL;

  other->fixture.device = device;
  other->fixture.context = gpu_context_new (device, GPU_CONTEXT_FLAGS_OWN, &error);
  g_assert_no_error (error);
  other->fixture.stream = gpu_context_get_default_stream (other->fixture.context);
}

static void
other_clear (Other *other)
{
  g_clear_object (&other->fixture.stream);
  g_clear_object (&other->fixture.context);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Other, other_clear)

/* Runs @func with a context on every device. */
static void
for_others (TestFixture *fixture, void (*func) (TestFixture *, TestFixture *))
{
  GPtrArray *devices = test_devices ();

  for (guint i = 0; i < devices->len; i++)
    {
      g_auto (Other) other = { 0 };

      other_init (&other, g_ptr_array_index (devices, i));
      g_test_message ("with %s", gpu_device_get_id (other.fixture.device));
      func (fixture, &other.fixture);
    }
}

static void
copy (GpuStream *stream, GpuBuffer *to, gsize to_offset, GpuBuffer *from, gsize from_offset,
      gsize size)
{
  g_autoptr (GError) error = NULL;

  test_assert_ok (gpu_stream_copy (stream, GPU_MEMORY (to), to_offset, GPU_MEMORY (from),
                                   from_offset, size, &error), error);
}

static void
fill (GpuStream *stream, GpuBuffer *buffer, guint8 value)
{
  g_autoptr (GError) error = NULL;

  test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (buffer), 0,
                                   gpu_memory_get_size (GPU_MEMORY (buffer)), &value, 1, &error),
                  error);
}

/* --- data ----------------------------------------------------------------------------------- */

static void
check_data (TestFixture *here, TestFixture *there, GpuStream *stream, gsize size)
{
  g_autoptr (GBytes) bytes = test_random_bytes (size);
  g_autoptr (GBytes) whole = NULL;
  g_autoptr (GpuBuffer) from = test_buffer_from (here, bytes);
  g_autoptr (GpuBuffer) to = test_buffer_filled (there, size + 7, 9);

  copy (stream, to, 5, from, 0, size);
  whole = test_content (to);
  test_assert_value (g_bytes_get_data (whole, NULL), 9, 5);
  test_assert_mem ((const guint8 *) g_bytes_get_data (whole, NULL) + 5,
                   g_bytes_get_data (bytes, NULL), size);
  test_assert_value ((const guint8 *) g_bytes_get_data (whole, NULL) + 5 + size, 9, 2);
}

static void
data (TestFixture *fixture, TestFixture *other)
{
  const gsize sizes[] = { 1, 4096, SIZE, LARGE };

  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    {
      check_data (fixture, other, fixture->stream, sizes[i]);
      check_data (other, fixture, fixture->stream, sizes[i]);
    }
}

static void
cross_driver_data (TestFixture *fixture)
{
  for_others (fixture, data);
}

static void
stream_kind (TestFixture *fixture, TestFixture *other, GpuStreamFlags flags)
{
  g_autoptr (GpuStream) stream = test_stream (fixture, flags);

  check_data (fixture, other, stream, SIZE);
  check_data (other, fixture, stream, SIZE);
}

static void
out_of_order (TestFixture *fixture, TestFixture *other)
{
  stream_kind (fixture, other, GPU_STREAM_FLAGS_OUT_OF_ORDER);
}

static void
cross_driver_out_of_order (TestFixture *fixture)
{
  if (test_has (fixture, GPU_CAPABILITIES_OUT_OF_ORDER))
    for_others (fixture, out_of_order);
}

static void
profiling (TestFixture *fixture, TestFixture *other)
{
  stream_kind (fixture, other, GPU_STREAM_FLAGS_PROFILING);
}

static void
cross_driver_profiling (TestFixture *fixture)
{
  if (test_has (fixture, GPU_CAPABILITIES_PROFILING))
    for_others (fixture, profiling);
}

/* Copies between slices, and a part in the middle of the memory. */
static void
slices (TestFixture *fixture, TestFixture *other)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (8192);
  g_autoptr (GpuBuffer) from = test_buffer_from (other, bytes);
  g_autoptr (GpuBuffer) to = test_buffer_filled (fixture, 8192, 0);
  g_autoptr (GpuBuffer) part = gpu_buffer_slice (from, 4096, 4096, &error);
  g_autoptr (GpuBuffer) target = NULL;
  g_autoptr (GBytes) got = NULL;

  g_assert_no_error (error);
  target = gpu_buffer_slice (to, 4096, 2048, &error);
  g_assert_no_error (error);
  copy (fixture->stream, target, 10, part, 100, 1000);
  got = test_content (to);
  test_assert_mem ((const guint8 *) g_bytes_get_data (got, NULL) + 4106,
                   (const guint8 *) g_bytes_get_data (bytes, NULL) + 4196, 1000);
}

static void
cross_driver_slices (TestFixture *fixture)
{
  for_others (fixture, slices);
}

/* Host memory of the library. */
static void
host_memory (TestFixture *fixture, TestFixture *other)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  g_autoptr (GpuBuffer) from = test_buffer_from (other, bytes);
  g_autoptr (GpuHostMemory) memory = gpu_host_memory_new (fixture->context,
                                                          GPU_HOST_MEMORY_FLAGS_NONE,
                                                          SIZE, &error);
  g_autoptr (GpuBuffer) back = test_buffer (other, SIZE);

  g_assert_no_error (error);
  test_assert_ok (gpu_stream_copy (fixture->stream, GPU_MEMORY (memory), 0, GPU_MEMORY (from), 0,
                                   SIZE, &error), error);
  test_assert_ok (gpu_stream_copy (fixture->stream, GPU_MEMORY (back), 0, GPU_MEMORY (memory), 0,
                                   SIZE, &error), error);
  test_assert_content (back, bytes);
}

static void
cross_driver_host_memory (TestFixture *fixture)
{
  for_others (fixture, host_memory);
}

/* --- order ---------------------------------------------------------------------------------- */

/* The library orders writes to the memory of @other before or after the copy; the test itself does
 * not wait. */
static void
order (TestFixture *fixture, TestFixture *other)
{
  g_autoptr (GpuBuffer) far = test_buffer (other, SIZE);
  g_autoptr (GpuBuffer) near = test_buffer (fixture, SIZE);
  g_autoptr (GpuBuffer) back = test_buffer (other, SIZE);
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);

  for (guint i = 0; i < 20; i++)
    {
      g_autoptr (GBytes) expected = test_value_bytes (SIZE, i + 1);

      fill (other->stream, far, i + 1);
      copy (stream, near, 0, far, 0, SIZE);
      fill (other->stream, far, 200);
      copy (stream, back, 0, near, 0, SIZE);
      fill (fixture->stream, near, 201);
      test_assert_content (back, expected);
    }

  test_synchronize (fixture->stream);
  test_synchronize (other->stream);
}

static void
cross_driver_order (TestFixture *fixture)
{
  for_others (fixture, order);
}

/* An event behind the copy completes when the bytes have arrived. */
static void
event (TestFixture *fixture, TestFixture *other)
{
  for (guint i = 0; i < 20; i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GpuBuffer) near = test_buffer_filled (fixture, SIZE, i);
      g_autoptr (GpuBuffer) far = gpu_buffer_new (other->context, GPU_MEMORY_FLAGS_UNTRACKED, SIZE,
                                                  &error);
      g_autoptr (GBytes) expected = test_value_bytes (SIZE, i);
      g_autoptr (GpuEvent) done = NULL;

      g_assert_no_error (error);
      copy (fixture->stream, far, 0, near, 0, SIZE);
      done = test_record (fixture->stream);
      test_assert_ok (gpu_event_wait (done, NULL, &error), error);
      test_assert_content (far, expected);
    }
}

static void
cross_driver_event (TestFixture *fixture)
{
  for_others (fixture, event);
}

static gboolean
is_cuda (TestFixture *fixture)
{
  return g_str_equal (gpu_device_get_backend (fixture->device), "cuda");
}

/* A copy blocks its own stream only; other streams and other copies proceed. */
static void
overlap (TestFixture *fixture, TestFixture *other)
{
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  g_autoptr (GpuStream) held = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuStream) free_stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) from = test_buffer_from (other, bytes);
  g_autoptr (GpuBuffer) late = test_buffer (fixture, SIZE);
  g_autoptr (GpuBuffer) early = test_buffer (fixture, SIZE);
  g_autoptr (GpuBuffer) back = test_buffer (other, SIZE);
  g_autoptr (GpuEvent) event = NULL;
  g_autoptr (TestHold) hold = NULL;
  g_autoptr (GError) error = NULL;

  /* CUDA's copies between two contexts may wait for all work in both contexts. */
  if (is_cuda (fixture) && is_cuda (other))
    return;

  hold = test_hold (held);
  copy (held, late, 0, from, 0, SIZE);
  copy (held, back, 0, late, 0, SIZE);
  event = test_record (held);
  copy (free_stream, early, 0, from, 0, SIZE);
  test_assert_content (early, bytes);
  g_assert_cmpint (gpu_event_query (event, &error), ==, GPU_EVENT_STATUS_PENDING);
  test_hold_release (hold);
  test_assert_content (late, bytes);
  test_assert_content (back, bytes);
}

static void
cross_driver_overlap (TestFixture *fixture)
{
  if (test_can_hold (fixture))
    for_others (fixture, overlap);
}

/* --- lifetimes ------------------------------------------------------------------------------ */

static void
cross_driver_dropped (TestFixture *fixture)
{
  GPtrArray *devices = test_devices ();

  for (guint i = 0; i < 3 * devices->len; i++)
    {
      g_auto (Other) other = { 0 };
      g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
      g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
      g_autoptr (GpuBuffer) near = test_buffer (fixture, SIZE);
      g_autoptr (GpuBuffer) far = NULL;

      other_init (&other, g_ptr_array_index (devices, i % devices->len));
      far = test_buffer_from (&other.fixture, bytes);
      copy (stream, near, 0, far, 0, SIZE);
      g_clear_object (&far);
      far = test_buffer (&other.fixture, SIZE);
      copy (stream, far, 0, near, 0, SIZE);
      g_clear_object (&far);
      other_clear (&other);
      g_clear_object (&stream);
      test_assert_content (near, bytes);
    }
}

static guint
count_contexts (void)
{
  g_autoptr (GVariant) live = gpu_debug_list_live_objects ();
  guint n = 0;

  g_variant_lookup (live, "native-context", "u", &n);

  return n;
}

/* A stream that copies from one context after another does not keep the released contexts alive,
 * except the last one. */
static void
cross_driver_contexts_dropped (TestFixture *fixture)
{
  GPtrArray *devices = test_devices ();
  g_autoptr (GpuBuffer) near = test_buffer (fixture, 4096);
  guint before = count_contexts ();
  gint64 deadline;

  for (guint i = 0; i < 5 * devices->len; i++)
    {
      g_auto (Other) other = { 0 };
      g_autoptr (GpuBuffer) far = NULL;

      other_init (&other, g_ptr_array_index (devices, i % devices->len));
      far = test_buffer_filled (&other.fixture, 4096, (guint8) i);
      copy (fixture->stream, near, 0, far, 0, 4096);
      test_synchronize (fixture->stream);
    }

  deadline = g_get_monotonic_time () + TEST_DEADLINE * G_USEC_PER_SEC;
  while (count_contexts () > before + 1 && g_get_monotonic_time () < deadline)
    g_usleep (1000);
  g_assert_cmpuint (count_contexts (), <=, before + 1);
}

/* Drops the source and the stream of a copy, both of @fixture, directly after the submission. */
static void
dropped_near (TestFixture *fixture, TestFixture *other)
{
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  g_autoptr (GpuBuffer) far = test_buffer (other, SIZE);
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) near = test_buffer_from (fixture, bytes);

  copy (stream, far, 0, near, 0, SIZE);
  g_clear_object (&near);
  g_clear_object (&stream);
  test_assert_content (far, bytes);
}

static void
cross_driver_dropped_near (TestFixture *fixture)
{
  for_others (fixture, dropped_near);
}

/* --- failure -------------------------------------------------------------------------------- */

static void
fail (GpuEvent *gate)
{
  g_autoptr (GError) error = NULL;

  test_assert_ok (gpu_event_fail (gate, "not today", &error), error);
}

static void
assert_stream_fails (GpuStream *stream)
{
  g_autoptr (GError) error = NULL;

  g_assert_false (gpu_stream_synchronize (stream, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_FAILED, "not today");
}

/* A user event that fails cancels the copy behind it; a later copy succeeds. */
static void
failed (TestFixture *fixture, TestFixture *other)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) far = test_buffer_from (other, bytes);
  g_autoptr (GpuBuffer) near = test_buffer (fixture, SIZE);
  g_autoptr (GpuEvent) gate = test_gate (fixture, stream);
  g_autoptr (GpuEvent) done = NULL;

  copy (stream, near, 0, far, 0, SIZE);
  done = test_record (stream);
  fail (gate);
  g_assert_false (gpu_event_wait (done, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_FAILED, "not today");
  copy (stream, near, 0, far, 0, SIZE);
  test_assert_content (near, bytes);
}

static void
cross_driver_failed (TestFixture *fixture)
{
  if (test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    for_others (fixture, failed);
}

/* If a copy to @other fails, work of @other that uses the destination of the copy also fails. Work
 * that depends on the failed work also fails, and so does a copy back to @fixture. Work submitted
 * after the failure was reported succeeds. */
static void
failed_there (TestFixture *fixture, TestFixture *other)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuStream) back = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuStream) there = test_stream (other, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuStream) next = test_stream (other, GPU_STREAM_FLAGS_NONE);
  GpuStream *streams[] = { there, next, back };
  g_autoptr (GpuBuffer) near = test_buffer_from (fixture, bytes);
  g_autoptr (GpuBuffer) far = test_buffer (other, SIZE);
  g_autoptr (GpuBuffer) farther = test_buffer (other, SIZE);
  g_autoptr (GpuBuffer) farthest = test_buffer (other, SIZE);
  g_autoptr (GpuBuffer) home = test_buffer (fixture, SIZE);
  g_autoptr (GpuEvent) gate = NULL;

  if (g_str_equal (gpu_device_get_id (fixture->device), gpu_device_get_id (other->device))
      && !test_is_opencl (fixture))
    return;
  gate = test_gate (fixture, stream);
  copy (stream, far, 0, near, 0, SIZE);
  copy (there, farther, 0, far, 0, SIZE);
  fill (there, far, 1);
  copy (next, farthest, 0, farther, 0, SIZE);
  copy (back, home, 0, farthest, 0, SIZE);
  fail (gate);
  for (guint i = 0; i < G_N_ELEMENTS (streams); i++)
    {
      assert_stream_fails (streams[i]);
    }
  assert_stream_fails (stream);
  copy (stream, far, 0, near, 0, SIZE);
  copy (there, farther, 0, far, 0, SIZE);
  test_synchronize (there);
  test_assert_content (farther, bytes);
}

static void
cross_driver_failure_propagates (TestFixture *fixture)
{
  if (test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    for_others (fixture, failed_there);
}

static void
check_value (GpuBuffer *buffer, guint8 value)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = gpu_buffer_read_bytes (buffer, NULL, 0, SIZE, NULL, &error);

  g_assert_no_error (error);
  test_assert_value (g_bytes_get_data (bytes, NULL), value, SIZE);
}

/* Checks that @buffer cannot be read, and not be copied to @home on @back, because its last write
 * failed. */
static void
assert_write_failed (GpuBuffer *buffer, GpuStream *back, GpuBuffer *home)
{
  g_autoptr (GError) error = NULL;

  g_assert_null (gpu_buffer_read_bytes (buffer, NULL, 0, 100, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_FAILED, "not today");
  g_assert_false (gpu_stream_copy (back, GPU_MEMORY (home), 0, GPU_MEMORY (buffer), 0, SIZE,
                                   &error));
  test_assert_gpu_error (error, GPU_ERROR_FAILED, "not today");
}

/* A read of the destination of a copy returns the error at once when a user event before the copy
 * has failed, also before a thread has noticed that the copy fails. Every second event fails before
 * the copy is submitted. Once the stream has reported the failure, the memory can be written. */
static void
failed_read (TestFixture *fixture, TestFixture *other)
{
  g_autoptr (GpuStream) back = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) home = test_buffer (fixture, SIZE);
  g_autoptr (GError) error = NULL;

  for (guint i = 0; i < 20; i++)
    {
      g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
      g_autoptr (GpuBuffer) near = test_buffer_filled (fixture, SIZE, 1);
      g_autoptr (GpuBuffer) far = test_buffer_filled (other, SIZE, 9);
      g_autoptr (GpuEvent) gate = test_gate (fixture, stream);

      if (i % 2 == 1)
        fail (gate);
      copy (stream, far, 0, near, 0, SIZE);
      if (i % 2 == 0)
        fail (gate);
      assert_write_failed (far, back, home);

      assert_stream_fails (stream);
      assert_write_failed (far, back, home);
      copy (stream, far, 0, near, 0, SIZE);
      check_value (far, 1);
    }
}

static void
cross_driver_failed_read (TestFixture *fixture)
{
  if (test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    for_others (fixture, failed_read);
}

/* A user event of the other context fails a copy in one of the two directions. Once the stream has
 * reported the failure, copies of other memory on the stream succeed. */
static void
failed_other (TestFixture *fixture, TestFixture *other)
{
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GError) error = NULL;

  if (!test_has (other, GPU_CAPABILITIES_USER_EVENTS))
    return;
  for (guint i = 0; i < 20; i++)
    {
      g_autoptr (GpuStream) there = test_stream (other, GPU_STREAM_FLAGS_NONE);
      g_autoptr (GpuBuffer) near = test_buffer_filled (fixture, SIZE, 1);
      g_autoptr (GpuBuffer) far = test_buffer_filled (other, SIZE, 9);
      g_autoptr (GpuBuffer) near2 = test_buffer_filled (fixture, SIZE, 3);
      g_autoptr (GpuBuffer) far2 = test_buffer_filled (other, SIZE, 5);
      g_autoptr (GpuEvent) gate = test_gate (other, there);

      fill (there, far, 7);
      copy (stream, i % 2 == 0 ? far : near, 0, i % 2 == 0 ? near : far, 0, SIZE);
      fail (gate);
      assert_stream_fails (stream);
      copy (stream, i % 2 == 0 ? far2 : near2, 0, i % 2 == 0 ? near2 : far2, 0, SIZE);
      test_synchronize (stream);
      check_value (i % 2 == 0 ? far2 : near2, i % 2 == 0 ? 3 : 5);
    }
}

static void
cross_driver_failed_other (TestFixture *fixture)
{
  for_others (fixture, failed_other);
}

/* A wait for an event after a failed copy, and after a copy of its result, reports the failure. */
static void
failed_wait (TestFixture *fixture, TestFixture *other)
{
  g_autoptr (GpuStream) third = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuStream) waiting = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) home = test_buffer (fixture, SIZE);
  g_autoptr (GError) error = NULL;

  for (guint i = 0; i < 20; i++)
    {
      g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
      g_autoptr (GpuBuffer) near = test_buffer_filled (fixture, SIZE, 1);
      g_autoptr (GpuBuffer) far = test_buffer_filled (other, SIZE, 9);
      g_autoptr (GpuEvent) gate = test_gate (fixture, stream);
      g_autoptr (GpuEvent) done = NULL;

      copy (stream, far, 0, near, 0, SIZE);
      copy (third, home, 0, far, 0, SIZE);
      done = test_record (third);
      fail (gate);
      if (gpu_stream_wait_event (waiting, done, &error))
        gpu_stream_synchronize (waiting, NULL, &error);
      test_assert_gpu_error (error, GPU_ERROR_FAILED, "not today");
      assert_stream_fails (third);
      gpu_stream_synchronize (waiting, NULL, NULL);
    }
}

static void
cross_driver_failed_wait (TestFixture *fixture)
{
  if (test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    for_others (fixture, failed_wait);
}

/* The size of a copy that has more chunks than CUDA queues behind a pending event. The thread that
 * submits such a copy blocks until the event completes. */
#define CROWD ((gsize) 60 * 4 * 1024 * 1024)

typedef struct
{
  GpuStream *stream;
  GpuBuffer *to;
  GpuBuffer *from;
  gint       done;
} Submitter;

static gpointer
submit (gpointer data)
{
  Submitter *submitter = data;

  copy (submitter->stream, submitter->to, 0, submitter->from, 0,
        gpu_memory_get_size (GPU_MEMORY (submitter->from)));
  g_atomic_int_set (&submitter->done, TRUE);
  return NULL;
}

/* Gives the threads time to block. The driver decides which of them block, so the test cannot wait
 * for a state. */
static void
let_submit (Submitter *submitter)
{
  for (guint i = 0; i < 25 && !g_atomic_int_get (&submitter->done); i++)
    g_usleep (10 * 1000);
}

static void
check_last (Submitter *submitter, guint8 value)
{
  g_autoptr (GError) error = NULL;
  gsize size = gpu_memory_get_size (GPU_MEMORY (submitter->to));
  g_autoptr (GBytes) bytes = gpu_buffer_read_bytes (submitter->to, NULL, size - 100, 100, NULL,
                                                    &error);

  g_assert_no_error (error);
  test_assert_value (g_bytes_get_data (bytes, NULL), value, 100);
}

/* One thread submits a large copy. Another thread submits a small copy on the same stream. */
static void
crowd (TestFixture *holder, TestFixture *near, TestFixture *from, TestFixture *to)
{
  g_autoptr (GpuStream) held = test_stream (holder, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuStream) stream = near == holder ? g_object_ref (held)
                                                : test_stream (near, GPU_STREAM_FLAGS_NONE);
  GpuBuffer *sources[] = { test_buffer_filled (from, CROWD, 1),
                           test_buffer_filled (from, SIZE, 1) };
  GpuBuffer *targets[] = { test_buffer_filled (to, CROWD, 9), test_buffer_filled (to, SIZE, 9) };
  Submitter submitters[] = { { stream, targets[0], sources[0], FALSE },
                             { stream, targets[1], sources[1], FALSE } };
  g_autoptr (GpuEvent) gate = test_gate (holder, held);
  GThread *threads[2];

  fill (held, from == holder ? sources[0] : targets[0], 3);
  for (guint i = 0; i < 2; i++)
    {
      threads[i] = g_thread_new ("submitter", submit, &submitters[i]);
      let_submit (&submitters[i]);
    }
  test_open (gate);
  for (guint i = 0; i < 2; i++)
    g_thread_join (threads[i]);
  test_synchronize (stream);
  check_last (&submitters[0], from == holder ? 3 : 1);
  check_last (&submitters[1], 1);
  for (guint i = 0; i < 2; i++)
    {
      g_object_unref (sources[i]);
      g_object_unref (targets[i]);
    }
}

static gboolean
is_first_cuda (TestFixture *fixture)
{
  GPtrArray *devices = test_devices ();

  for (guint i = 0; i < devices->len; i++)
    {
      GpuDevice *device = g_ptr_array_index (devices, i);

      if (g_str_equal (gpu_device_get_backend (device), "cuda"))
        return device == fixture->device;
    }
  return FALSE;
}

/* Runs only if @other is the first CUDA device. The test still covers every device, because each
 * device is @fixture once, and the four cases copy in both directions. */
static void
crowded (TestFixture *fixture, TestFixture *other)
{
  if (!is_first_cuda (other))
    return;
  crowd (fixture, fixture, fixture, other);
  crowd (fixture, fixture, other, fixture);
  crowd (fixture, other, fixture, other);
  crowd (fixture, other, other, fixture);
}

static void
cross_driver_queue_full (TestFixture *fixture)
{
  if (test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    for_others (fixture, crowded);
}

#define STAGING_LIMIT (64 * 1024 * 1024)

/* If no staging memory is available, the calling thread copies. */
static void
blocking (TestFixture *fixture, TestFixture *other)
{
  gpu_context_set_staging_limit (fixture->context, 0);
  gpu_context_set_staging_limit (other->context, 0);
  check_data (fixture, other, fixture->stream, LARGE);
  check_data (other, fixture, fixture->stream, SIZE);
  gpu_context_set_staging_limit (fixture->context, STAGING_LIMIT);
}

/* The calling thread copies chunks. It refuses the copy before the first chunk if the last byte is
 * mapped. */
static void
blocking_refused (TestFixture *fixture, TestFixture *other)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) before = test_random_bytes (LARGE);
  g_autoptr (GpuBuffer) near = test_buffer_from (fixture, before);
  g_autoptr (GpuBuffer) far = test_buffer_filled (other, LARGE, 9);
  GpuMapping *mapping;

  gpu_context_set_staging_limit (fixture->context, 0);
  gpu_context_set_staging_limit (other->context, 0);
  mapping = gpu_buffer_map (near, NULL, GPU_MAP_FLAGS_READ, LARGE - 1, 1, NULL, &error);
  g_assert_no_error (error);
  g_assert_false (gpu_stream_copy (fixture->stream, GPU_MEMORY (near), 0, GPU_MEMORY (far), 0,
                                   LARGE, &error));
  test_assert_gpu_error (error, GPU_ERROR_BUSY, "gpu_stream_copy", "mapped for reading");
  g_object_unref (mapping);
  test_assert_content (near, before);
  gpu_context_set_staging_limit (fixture->context, STAGING_LIMIT);
}

static gpointer
fail_later (gpointer data)
{
  g_autoptr (GError) error = NULL;

  g_usleep (50 * 1000);
  test_assert_ok (gpu_event_fail (data, "not today", &error), error);
  return NULL;
}

/* Without staging memory, the calling thread copies. If the user event for which that thread waits
 * fails, the copy fails too. */
static void
blocking_failed (TestFixture *fixture, TestFixture *other)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) nines = test_value_bytes (SIZE, 9);
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) near = test_buffer_filled (fixture, SIZE, 1);
  g_autoptr (GpuBuffer) far = test_buffer_filled (other, SIZE, 9);
  g_autoptr (GpuEvent) gate = NULL;
  GThread *thread;

  /* The back ends for CUDA and the host copy between two contexts of one device themselves. Skip
   * such contexts, because this test is about copies that the library stages. */
  if (g_str_equal (gpu_device_get_id (fixture->device), gpu_device_get_id (other->device))
      && !test_is_opencl (fixture))
    return;
  gpu_context_set_staging_limit (fixture->context, 0);
  gpu_context_set_staging_limit (other->context, 0);
  gate = test_gate (fixture, stream);
  thread = g_thread_new ("fail", fail_later, gate);
  g_assert_false (gpu_stream_copy (stream, GPU_MEMORY (far), 0, GPU_MEMORY (near), 0, SIZE,
                                   &error));
  test_assert_gpu_error (error, GPU_ERROR_FAILED, "gpu_stream_copy", "not today");
  g_thread_join (thread);
  test_assert_content (far, nines);
  gpu_context_set_staging_limit (fixture->context, STAGING_LIMIT);
}

static void
cross_driver_blocking_failed (TestFixture *fixture)
{
  if (test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    for_others (fixture, blocking_failed);
}

static void
copied (GObject *source, GAsyncResult *result, gpointer data)
{
  g_autoptr (GError) error = NULL;

  test_assert_ok (gpu_buffer_copy_finish (GPU_BUFFER (source), result, &error), error);
  *(gboolean *) data = TRUE;
}

static void
cancelled (GObject *source, GAsyncResult *result, gpointer data)
{
  g_autoptr (GError) error = NULL;

  g_assert_false (gpu_buffer_copy_finish (GPU_BUFFER (source), result, &error));
  g_assert_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
  *(gboolean *) data = TRUE;
}

static void
wait_for (gboolean *done)
{
  while (!*done)
    g_main_context_iteration (NULL, TRUE);
}

/* An asynchronous copy waits on a separate thread, and the wait can be cancelled. */
static void
blocking_async (TestFixture *fixture, TestFixture *other)
{
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) near = test_buffer_from (fixture, bytes);
  g_autoptr (GpuBuffer) far = test_buffer_filled (other, SIZE, 9);
  g_autoptr (GpuEvent) gate = test_gate (fixture, stream);
  g_autoptr (GCancellable) cancellable = g_cancellable_new ();
  gboolean done = FALSE;
  gboolean given_up = FALSE;

  gpu_context_set_staging_limit (fixture->context, 0);
  gpu_context_set_staging_limit (other->context, 0);
  gpu_buffer_copy_async (far, stream, 0, near, 0, SIZE, cancellable, cancelled, &given_up);
  gpu_buffer_copy_async (far, stream, 0, near, 0, SIZE, NULL, copied, &done);
  g_cancellable_cancel (cancellable);
  wait_for (&given_up);
  g_assert_false (done);
  test_open (gate);
  wait_for (&done);
  test_assert_content (far, bytes);
  gpu_context_set_staging_limit (fixture->context, STAGING_LIMIT);
}

static void
cross_driver_blocking_async (TestFixture *fixture)
{
  if (test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    for_others (fixture, blocking_async);
}

static gpointer
cancel_later (gpointer data)
{
  g_usleep (50 * 1000);
  g_cancellable_cancel (data);
  return NULL;
}

static void
blocking_cancelled (TestFixture *fixture, TestFixture *other)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCancellable) cancellable = g_cancellable_new ();
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) near = test_buffer_filled (fixture, SIZE, 1);
  g_autoptr (GpuBuffer) far = test_buffer_filled (other, SIZE, 9);
  g_autoptr (GpuEvent) gate = test_gate (fixture, stream);
  GThread *thread = g_thread_new ("cancel", cancel_later, cancellable);

  gpu_context_set_staging_limit (fixture->context, 0);
  gpu_context_set_staging_limit (other->context, 0);
  g_assert_false (gpu_buffer_copy (far, stream, 0, near, 0, SIZE, cancellable, &error));
  g_assert_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
  g_thread_join (thread);
  test_open (gate);
  gpu_context_set_staging_limit (fixture->context, STAGING_LIMIT);
}

static void
cross_driver_blocking_cancelled (TestFixture *fixture)
{
  if (test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    for_others (fixture, blocking_cancelled);
}

static void
cross_driver_blocking (TestFixture *fixture)
{
  for_others (fixture, blocking);
}

static void
cross_driver_blocking_refused (TestFixture *fixture)
{
  if (test_has (fixture, GPU_CAPABILITIES_MAP))
    for_others (fixture, blocking_refused);
}

static void
refused (TestFixture *fixture, TestFixture *other)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) one = test_buffer (other, 100);
  g_autoptr (GpuBuffer) two = test_buffer (other, 100);
  g_autoptr (GpuBuffer) near = test_buffer (fixture, 100);
  g_autoptr (GpuMapping) mapping = NULL;

  g_assert_false (gpu_stream_copy (stream, GPU_MEMORY (one), 0, GPU_MEMORY (two), 0, 10, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_stream_copy", "contexts");
  g_assert_false (gpu_stream_copy (stream, GPU_MEMORY (near), 0, GPU_MEMORY (one), 95, 10,
                                   &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_stream_copy", "95", "10", "100");
  mapping = gpu_stream_map (other->stream, GPU_MEMORY (one), GPU_MAP_FLAGS_WRITE, 0, 100, &error);
  g_assert_no_error (error);
  g_assert_false (gpu_stream_copy (stream, GPU_MEMORY (near), 0, GPU_MEMORY (one), 0, 10, &error));
  test_assert_gpu_error (error, GPU_ERROR_BUSY, "gpu_stream_copy", "mapped");
  g_clear_object (&mapping);
  gpu_memory_release (GPU_MEMORY (one));
  g_assert_false (gpu_stream_copy (stream, GPU_MEMORY (near), 0, GPU_MEMORY (one), 0, 10, &error));
  test_assert_gpu_error (error, GPU_ERROR_RELEASED, "gpu_stream_copy");
}

static void
cross_driver_refused (TestFixture *fixture)
{
  for_others (fixture, refused);
}

/* A copy of regions between contexts succeeds, or fails with an error that names the reason. */
static void
regions (TestFixture *fixture, TestFixture *other)
{
  const GpuExtent extent = { 16, 4, 1 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (64);
  g_autoptr (GpuBuffer) from = test_buffer_from (fixture, bytes);
  g_autoptr (GpuBuffer) to = test_buffer_filled (other, 64, 0);

  if (gpu_stream_copy_region (fixture->stream, GPU_MEMORY (to), NULL, GPU_MEMORY (from), NULL,
                              &extent, &error))
    {
      g_assert_cmpstr (gpu_device_get_backend (fixture->device), ==,
                       gpu_device_get_backend (other->device));
      test_assert_content (to, bytes);
      return;
    }
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_stream_copy_region",
                         gpu_device_get_id (fixture->device), gpu_device_get_id (other->device),
                         "gpu_stream_copy()");
}

static void
cross_driver_regions (TestFixture *fixture)
{
  for_others (fixture, regions);
}

/* --- threads -------------------------------------------------------------------------------- */

typedef struct
{
  TestFixture *near;
  TestFixture *far;
  GpuBuffer   *shared[4];           /* two of each context */
  guint        seed;
} Mill;

/* Copies at random. At the end each buffer must contain a single value, which shows that no two
 * copies ran interleaved. */
static gpointer
mill (gpointer data)
{
  Mill *mill = data;
  g_autoptr (GRand) rand = g_rand_new_with_seed (mill->seed);
  gboolean near = mill->seed % 2 == 0;
  g_autoptr (GpuStream) stream = test_stream (near ? mill->near : mill->far,
                                              GPU_STREAM_FLAGS_NONE);

  for (guint i = 0; i < 40; i++)
    {
      guint a = g_rand_int_range (rand, 0, 2);
      guint b = g_rand_int_range (rand, 2, 4);

      if (g_rand_boolean (rand))
        copy (stream, mill->shared[a], 0, mill->shared[b], 0, SIZE);
      else
        copy (stream, mill->shared[b], 0, mill->shared[a], 0, SIZE);

      if (i % 10 == 0)
        fill (stream, mill->shared[near ? a : b], mill->seed + 1);
    }

  test_synchronize (stream);

  return NULL;
}

static void
threads (TestFixture *fixture, TestFixture *other)
{
  GpuBuffer *buffers[] = { test_buffer_filled (fixture, SIZE, 50),
                           test_buffer_filled (fixture, SIZE, 51),
                           test_buffer_filled (other, SIZE, 52),
                           test_buffer_filled (other, SIZE, 53) };
  GThread *running[4];
  Mill mills[4];

  for (guint i = 0; i < G_N_ELEMENTS (running); i++)
    {
      mills[i] = (Mill) { fixture, other, { buffers[0], buffers[1], buffers[2], buffers[3] }, i };
      running[i] = g_thread_new ("mill", mill, &mills[i]);
    }

  for (guint i = 0; i < G_N_ELEMENTS (running); i++)
    g_thread_join (running[i]);

  for (guint i = 0; i < G_N_ELEMENTS (buffers); i++)
    {
      g_autoptr (GBytes) bytes = test_content (buffers[i]);
      const guint8 *content = g_bytes_get_data (bytes, NULL);

      test_assert_value (content, content[0], SIZE);
      g_object_unref (buffers[i]);
    }
}

static void
cross_driver_threads (TestFixture *fixture)
{
  for_others (fixture, threads);
}

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
  test_add ("data", cross_driver_data);
  test_add ("out-of-order", cross_driver_out_of_order);
  test_add ("profiling", cross_driver_profiling);
  test_add ("slices", cross_driver_slices);
  test_add ("host-memory", cross_driver_host_memory);
  test_add ("order", cross_driver_order);
  test_add ("event", cross_driver_event);
  test_add ("overlap", cross_driver_overlap);
  test_add ("dropped", cross_driver_dropped);
  test_add ("dropped-near", cross_driver_dropped_near);
  test_add ("contexts-dropped", cross_driver_contexts_dropped);
  test_add ("failed", cross_driver_failed);
  test_add ("failure-propagates", cross_driver_failure_propagates);
  test_add ("failed-read", cross_driver_failed_read);
  test_add ("failed-other", cross_driver_failed_other);
  test_add ("failed-wait", cross_driver_failed_wait);
  test_add ("queue-full", cross_driver_queue_full);
  test_add ("blocking", cross_driver_blocking);
  test_add ("blocking-refused", cross_driver_blocking_refused);
  test_add ("blocking-failed", cross_driver_blocking_failed);
  test_add ("blocking-async", cross_driver_blocking_async);
  test_add ("blocking-cancelled", cross_driver_blocking_cancelled);
  test_add ("refused", cross_driver_refused);
  test_add ("regions", cross_driver_regions);
  test_add ("threads", cross_driver_threads);
  return test_run ();
}
