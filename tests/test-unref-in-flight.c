/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* References may be dropped at any moment: right after submission, in any order, on any thread. */
#include "config.h"

#include "test-allocator-util.h"

#define SIZE 16384
#define N_WORK 1000

/* CUDA copies writes of this size behind pending work to page-locked blocks of the context. */
#define WRITE_SIZE 100000
#define N_WRITES 20

static void
fill (GpuStream *stream, GpuBuffer *buffer, guint8 value)
{
  g_autoptr (GError) error = NULL;

  test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (buffer), 0, SIZE, &value, 1, &error),
                  error);
}

static void
copy (GpuStream *stream, GpuBuffer *to, GpuBuffer *from)
{
  g_autoptr (GError) error = NULL;

  test_assert_ok (gpu_stream_copy (stream, GPU_MEMORY (to), 0, GPU_MEMORY (from), 0, SIZE,
                                   &error), error);
}

/* Copies a buffer again and again, each time to a new buffer, and drops each source directly after
 * the submission. */
static void
lifetime_chain (TestFixture *fixture)
{
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  g_autoptr (GpuBuffer) last = NULL;
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  GpuBuffer *link = test_buffer_from (fixture, bytes);

  for (guint i = 0; i < N_WORK; i++)
    {
      GpuBuffer *next = test_buffer (fixture, SIZE);

      copy (stream, next, link);
      g_object_unref (link);
      link = next;
    }
  last = link;
  g_clear_object (&stream);
  test_drop_context (fixture);
  test_assert_content (last, bytes);
}

/* Like lifetime_chain(), but a user event blocks the stream, so that no copy has run when the
 * references are dropped. */
static void
lifetime_chain_behind_gate (TestFixture *fixture)
{
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  g_autoptr (GpuBuffer) last = NULL;
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuEvent) gate = NULL;
  GpuBuffer *link;

  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    return;
  gate = test_gate (fixture, stream);
  link = test_buffer_from (fixture, bytes);
  for (guint i = 0; i < N_WORK; i++)
    {
      GpuBuffer *next = test_buffer (fixture, SIZE);

      copy (stream, next, link);
      g_object_unref (link);
      link = next;
    }
  last = link;
  g_clear_object (&stream);
  test_drop_context (fixture);
  test_open (gate);
  g_clear_object (&gate);
  test_assert_content (last, bytes);
}

static GpuBuffer *
host_buffer (TestFixture *fixture, gsize size, guint8 **data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = NULL;
  GpuBuffer *buffer;

  *data = g_aligned_alloc0 (1, size, 4096);
  bytes = g_bytes_new_static (*data, size);
  buffer = gpu_buffer_new_for_host_bytes (fixture->context, GPU_MEMORY_FLAGS_NONE, bytes, &error);
  g_assert_no_error (error);
  return buffer;
}

/* Skips the test if block() cannot block a stream of the device. */
static gboolean
can_block (TestFixture *fixture)
{
  if (!test_can_hold (fixture))
    return FALSE;

  if (!test_is_opencl (fixture) || test_is_pocl (fixture))
    return TRUE;

  g_test_skip ("a kernel may not see what the host writes meanwhile");

  return FALSE;
}

/* Blocks @stream until @go is not 0. */
static void
block (TestFixture *fixture, GpuStream *stream, guint8 **go)
{
  static const char source[] =
    "__kernel void hold (__global volatile int *go) { while (go[0] == 0) ; }\n";
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuKernel) kernel = test_kernel (fixture, source, "hold");
  g_autoptr (GpuBuffer) gate = host_buffer (fixture, 4096, go);
  const GpuExtent one = { 1, 1, 1 };

  test_assert_ok (gpu_stream_launch (stream, kernel, &one, &one, &error, gate), error);
  test_assert_ok (gpu_stream_flush (stream, &error), error);
}

/* Drops the context, which @context must not survive, and lets the stream of block() continue. */
static void
drop_and_continue (TestFixture *fixture, guint8 *go)
{
  GpuContext *context = fixture->context;

  g_object_add_weak_pointer (G_OBJECT (context), (gpointer *) &context);
  test_drop_context (fixture);
  g_assert_null (context);

  g_atomic_int_set ((gint *) (gpointer) go, 1);
  test_check_no_objects ();
  g_aligned_free (go);
}

/* Writes a buffer behind a blocked stream, with ranges and regions in turn, and copies it to
 * @result. Returns with no reference to an object. */
static void
write_and_drop (TestFixture *fixture, guint8 **go, guint8 **result)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) to = host_buffer (fixture, N_WRITES * WRITE_SIZE, result);
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, N_WRITES * WRITE_SIZE);
  const GpuExtent rows = { WRITE_SIZE / 10, 10, 1 };

  block (fixture, stream, go);
  for (guint i = 0; i < N_WRITES; i++)
    {
      const GpuLayout layout = { .x = i * WRITE_SIZE };
      g_autoptr (GBytes) bytes = test_value_bytes (WRITE_SIZE, (guint8) (i + 1));

      test_assert_ok (i % 2 == 0 ? gpu_stream_write (stream, GPU_MEMORY (buffer), layout.x, bytes,
                                                     &error)
                                 : gpu_stream_write_region (stream, GPU_MEMORY (buffer), &layout,
                                                            bytes, NULL, &rows, &error), error);
    }
  test_assert_ok (gpu_stream_copy (stream, GPU_MEMORY (to), 0, GPU_MEMORY (buffer), 0,
                                   N_WRITES * WRITE_SIZE, &error), error);
  test_assert_ok (gpu_stream_flush (stream, &error), error);
  g_assert_cmpuint (test_get_number (stream, "n-completed"), ==, 0);
}

static void
lifetime_write (TestFixture *fixture)
{
  guint8 *go, *result;

  if (!can_block (fixture))
    return;

  write_and_drop (fixture, &go, &result);
  drop_and_continue (fixture, go);
  for (guint i = 0; i < N_WRITES; i++)
    test_assert_value (result + i * WRITE_SIZE, (guint8) (i + 1), WRITE_SIZE);
  g_aligned_free (result);
}

static gint n_freed;

static void
count_freed (gpointer data G_GNUC_UNUSED)
{
  g_atomic_int_inc (&n_freed);
}

/* Behind a blocked stream, fills host memory, writes and copies its bytes to themselves, and fills
 * a part of it again. Returns with no reference to an object. */
static void
write_itself_and_drop (TestFixture *fixture, guint8 **go, guint8 *data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = g_bytes_new_static (data, SIZE);
  g_autoptr (GBytes) counted = g_bytes_new_with_free_func (data, SIZE, count_freed, NULL);
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuHostMemory) memory = gpu_host_memory_new_registered (fixture->context,
                                                                     GPU_HOST_MEMORY_FLAGS_NONE,
                                                                     bytes, &error);
  const guint8 values[] = { 1, 2 };

  g_assert_no_error (error);
  block (fixture, stream, go);
  test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (memory), 0, SIZE, &values[0], 1, &error),
                  error);
  test_assert_ok (gpu_stream_write (stream, GPU_MEMORY (memory), 0, counted, &error), error);
  test_assert_ok (gpu_stream_copy (stream, GPU_MEMORY (memory), 0, GPU_MEMORY (memory), 0, SIZE,
                                   &error), error);
  test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (memory), 0, SIZE / 2, &values[1], 1,
                                   &error), error);
  test_assert_ok (gpu_stream_flush (stream, &error), error);
}

/* Work that copies bytes to themselves runs no command, but holds its references like other
 * work. */
static void
lifetime_write_itself (TestFixture *fixture)
{
  guint8 *data, *go;

  if (!can_block (fixture))
    return;

  data = g_aligned_alloc0 (1, SIZE, 4096);
  g_atomic_int_set (&n_freed, 0);
  write_itself_and_drop (fixture, &go, data);
  g_assert_cmpint (g_atomic_int_get (&n_freed), ==, 0);
  drop_and_continue (fixture, go);
  g_assert_cmpint (g_atomic_int_get (&n_freed), ==, 1);
  test_assert_value (data, 2, SIZE / 2);
  test_assert_value (data + SIZE / 2, 1, SIZE / 2);
  g_aligned_free (data);
}

/* After all references are dropped, the pending work must still complete. */
static void
lifetime_drop_all (TestFixture *fixture)
{
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);

  for (guint i = 0; i < N_WORK; i++)
    {
      g_autoptr (GpuBuffer) a = test_buffer (fixture, SIZE);
      g_autoptr (GpuBuffer) b = test_buffer (fixture, SIZE);

      fill (stream, a, (guint8) i);
      copy (stream, b, a);
    }
  if (g_test_rand_bit ())
    g_clear_object (&stream);
  test_drop_context (fixture);
  g_clear_object (&stream);
  test_check_no_objects ();
}

static const char add_source[] =
  "__kernel void add (__global uint *to, __global const uint *from, const uint value)\n"
  "{\n"
  "  uint i = (uint) get_global_id (0);\n"
  "  to[i] = from[i] + value;\n"
  "}\n";

static void
lifetime_launches (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuBuffer) last = NULL;
  g_autoptr (GBytes) content = NULL;
  GpuExtent grid = { 64, 1, 1 };
  GpuBuffer *link;

  if (!test_has (fixture, GPU_CAPABILITIES_SOURCE))
    return;
  stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  kernel = test_kernel (fixture, add_source, "add");
  link = test_buffer_filled (fixture, 256, 0);
  for (guint32 i = 0; i < N_WORK; i++)
    {
      GpuBuffer *next = test_buffer (fixture, 256);

      test_assert_ok (gpu_stream_launch (stream, kernel, &grid, NULL, &error, next, link, i),
                      error);
      g_object_unref (link);
      link = next;
    }
  last = link;
  g_clear_object (&kernel);
  g_clear_object (&stream);
  test_drop_context (fixture);
  content = test_content (last);
  for (guint i = 0; i < 64; i++)
    g_assert_cmpuint (((const guint32 *) g_bytes_get_data (content, NULL))[i], ==,
                      N_WORK * (N_WORK - 1) / 2);
}

/* A launch copies its arguments during the call: later changes have no effect. */
static void
lifetime_arguments (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuBuffer) from = NULL;
  g_autoptr (GpuBuffer) to = NULL;
  g_autoptr (GpuArguments) arguments = NULL;
  g_autoptr (GpuEvent) gate = NULL;
  g_autoptr (GBytes) content = NULL;
  GpuExtent grid = { 64, 1, 1 };
  guint8 data[4] = { 5, 0, 0, 0 };

  if (!test_has (fixture, GPU_CAPABILITIES_SOURCE | GPU_CAPABILITIES_USER_EVENTS))
    return;
  kernel = test_kernel (fixture, add_source, "add");
  from = test_buffer_filled (fixture, 256, 1);
  to = test_buffer_filled (fixture, 256, 0);
  arguments = gpu_arguments_new ();
  gpu_arguments_add_memory (arguments, GPU_MEMORY (to));
  gpu_arguments_add_memory (arguments, GPU_MEMORY (from));
  gpu_arguments_add_value (arguments, data, 4);
  data[0] = 99;
  gate = test_gate (fixture, fixture->stream);
  test_assert_ok (gpu_stream_launch_arguments (fixture->stream, kernel, &grid, NULL, arguments,
                                               &error), error);
  gpu_arguments_clear (arguments);
  g_clear_pointer (&arguments, gpu_arguments_unref);
  g_clear_object (&from);
  g_clear_object (&kernel);
  test_open (gate);
  content = test_content (to);
  for (guint i = 0; i < 64; i++)
    g_assert_cmphex (((const guint32 *) g_bytes_get_data (content, NULL))[i], ==, 0x01010106);
}

static void
lifetime_release_in_flight (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) to = test_buffer_filled (fixture, SIZE, 0);
  g_autoptr (GpuBuffer) from = test_buffer_filled (fixture, SIZE, 7);
  g_autoptr (GBytes) expected = test_value_bytes (SIZE, 7);
  g_autoptr (GpuEvent) gate = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    return;
  gate = test_gate (fixture, stream);
  copy (stream, to, from);
  gpu_memory_release (GPU_MEMORY (from));
  g_assert_true (gpu_memory_is_released (GPU_MEMORY (from)));
  g_assert_false (gpu_stream_copy (stream, GPU_MEMORY (to), 0, GPU_MEMORY (from), 0, SIZE, &error));
  test_assert_gpu_error (error, GPU_ERROR_RELEASED);
  test_open (gate);
  test_assert_content (to, expected);
}

/* Drops a stream, a buffer, a slice and an event in every order. */
static void
lifetime_every_order (TestFixture *fixture)
{
  for (guint order = 0; order < 24; order++)
    {
      g_autoptr (GError) error = NULL;
      GObject *objects[4];
      guint rest = order;
      guint n = 4;

      objects[0] = G_OBJECT (test_stream (fixture, GPU_STREAM_FLAGS_NONE));
      objects[1] = G_OBJECT (test_buffer (fixture, SIZE));
      objects[2] = G_OBJECT (gpu_buffer_slice (GPU_BUFFER (objects[1]), 0, SIZE / 2, &error));
      g_assert_no_error (error);
      fill (GPU_STREAM (objects[0]), GPU_BUFFER (objects[1]), 3);
      objects[3] = G_OBJECT (test_record (GPU_STREAM (objects[0])));
      while (n > 0)
        {
          guint i = rest % n;

          rest /= n;
          g_object_unref (objects[i]);
          objects[i] = objects[--n];
        }
    }
}

static void
lifetime_mapping (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE, 4);
  g_autoptr (GpuBuffer) slice = gpu_buffer_slice (buffer, 0, SIZE / 2, &error);
  g_autoptr (GpuMapping) mapping = NULL;

  g_assert_no_error (error);
  if (!test_has (fixture, GPU_CAPABILITIES_MAP))
    return;
  mapping = gpu_buffer_map (slice, NULL, GPU_MAP_FLAGS_READ, 0, SIZE / 2, NULL, &error);
  g_assert_no_error (error);
  g_clear_object (&slice);
  g_clear_object (&buffer);
  test_drop_context (fixture);
  test_assert_value (gpu_mapping_get_data (mapping), 4, SIZE / 2);
}

static guint
count_storages (void)
{
  g_autoptr (GVariant) alive = gpu_debug_list_live_objects ();
  guint32 n = 0;

  g_variant_lookup (alive, "storage", "u", &n);
  return n;
}

/* A slice is freed when its own uses have completed, even if other uses of its buffer are
 * pending. */
static void
lifetime_slice_of_busy_buffer (TestFixture *fixture)
{
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuStream) other = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
  g_autoptr (GpuEvent) gate = NULL;
  gint64 deadline = g_get_monotonic_time () + TEST_DEADLINE * G_USEC_PER_SEC;
  guint before = count_storages ();

  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    return;
  for (guint i = 0; i < 100; i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GpuBuffer) slice = gpu_buffer_slice (buffer, 0, SIZE / 2, &error);

      g_assert_no_error (error);
      test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (slice), 0, SIZE / 2,
                                       (const guint8 *) "s", 1, &error), error);
    }
  gate = test_gate (fixture, other);
  fill (other, buffer, 1);
  test_synchronize (stream);
  while (count_storages () > before)
    {
      g_assert_cmpint (g_get_monotonic_time (), <, deadline);
      g_usleep (500);
    }
  test_open (gate);
}

typedef struct
{
  GAsyncQueue *queue;
} Sink;

static gpointer
drop_all (gpointer data)
{
  Sink *sink = data;
  gpointer object;

  while ((object = g_async_queue_pop (sink->queue)) != data)
    g_object_unref (object);
  return NULL;
}

/* Another thread drops the last reference while the work is in flight. */
static void
lifetime_other_thread (TestFixture *fixture)
{
  Sink sink = { g_async_queue_new () };
  GThread *threads[2];
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  g_autoptr (GpuBuffer) last = NULL;
  GpuBuffer *link = test_buffer_from (fixture, bytes);

  for (guint i = 0; i < 2; i++)
    threads[i] = g_thread_new ("drop", drop_all, &sink);
  for (guint i = 0; i < 300; i++)
    {
      GpuBuffer *next = test_buffer (fixture, SIZE);
      GpuStream *stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);

      copy (stream, next, link);
      g_async_queue_push (sink.queue, test_record (stream));
      g_async_queue_push (sink.queue, stream);
      g_async_queue_push (sink.queue, link);
      link = next;
    }
  last = link;
  for (guint i = 0; i < 2; i++)
    g_async_queue_push (sink.queue, &sink);
  for (guint i = 0; i < 2; i++)
    g_thread_join (threads[i]);
  g_async_queue_unref (sink.queue);
  test_assert_content (last, bytes);
}

/* Drops the buffers, so that only the pending reads keep them alive. */
static void
lifetime_async_read (TestFixture *fixture)
{
  GAsyncResult *results[20] = { NULL };
  g_autoptr (GError) error = NULL;

  for (guint i = 0; i < 20; i++)
    {
      g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE, (guint8) i);

      gpu_buffer_read_bytes_async (buffer, NULL, 0, SIZE, NULL, NULL, NULL, NULL, test_take_result,
                                   &results[i]);
    }
  test_drop_context (fixture);
  for (guint i = 0; i < 20; i++)
    {
      g_autoptr (GAsyncResult) result = test_await (&results[i]);
      g_autoptr (GObject) source = g_async_result_get_source_object (result);
      g_autoptr (GBytes) bytes = gpu_buffer_read_bytes_finish (GPU_BUFFER (source), result,
                                                               &error);

      g_assert_no_error (error);
      test_assert_value (g_bytes_get_data (bytes, NULL), (guint8) i, SIZE);
    }
}

/* Memory that several streams read is freed when the last read has completed. */
static void
lifetime_readers (TestFixture *fixture)
{
  g_autoptr (GpuStream) first = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuStream) second = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) to = test_buffer (fixture, SIZE);
  g_autoptr (GpuBuffer) also = test_buffer (fixture, SIZE);
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  g_autoptr (GpuBuffer) shared = test_buffer_from (fixture, bytes);
  g_autoptr (GpuEvent) first_gate = NULL;
  g_autoptr (GpuEvent) second_gate = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    return;
  first_gate = test_gate (fixture, first);
  second_gate = test_gate (fixture, second);
  copy (first, to, shared);
  copy (second, also, shared);
  test_open (first_gate);
  test_synchronize (first);

  g_clear_object (&shared);
  g_assert_cmpuint (gpu_context_get_allocated_size (fixture->context), ==, 3 * SIZE);
  test_open (second_gate);
  test_assert_content (to, bytes);
  test_assert_content (also, bytes);
  test_poll (gpu_context_get_allocated_size (fixture->context) == 2 * SIZE);
}

/* Stream-ordered memory is freed in its stream only after other streams have completed their
 * uses. */
static void
lifetime_ordered (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) first = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuStream) second = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) to = test_buffer (fixture, SIZE);
  g_autoptr (GBytes) expected = test_value_bytes (SIZE, 7);
  g_autoptr (GpuBuffer) ordered = NULL;
  g_autoptr (GpuEvent) gate = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS | GPU_CAPABILITIES_STREAM_ORDERED))
    return;
  ordered = gpu_buffer_new_on_stream (first, GPU_MEMORY_FLAGS_NONE, SIZE, &error);
  g_assert_no_error (error);
  fill (first, ordered, 7);
  gate = test_gate (fixture, second);
  copy (second, to, ordered);
  test_synchronize (first);

  g_clear_object (&ordered);
  g_assert_cmpuint (gpu_context_get_allocated_size (fixture->context), ==, 2 * SIZE);
  test_open (gate);
  test_assert_content (to, expected);
  test_poll (gpu_context_get_allocated_size (fixture->context) == SIZE);
}

/* An out-of-order stream does not order the free after earlier uses, so the memory is freed when
 * these have completed. */
static void
lifetime_ordered_out_of_order (TestFixture *fixture)
{
  const GpuCapabilities needed = GPU_CAPABILITIES_USER_EVENTS | GPU_CAPABILITIES_STREAM_ORDERED
                                 | GPU_CAPABILITIES_OUT_OF_ORDER;
  g_autoptr (GpuStream) stream = NULL;
  g_autoptr (GpuBuffer) ordered = NULL;
  g_autoptr (GpuEvent) gate = NULL;
  g_autoptr (GError) error = NULL;

  if (!test_has (fixture, needed))
    return;
  stream = test_stream (fixture, GPU_STREAM_FLAGS_OUT_OF_ORDER);
  ordered = gpu_buffer_new_on_stream (stream, GPU_MEMORY_FLAGS_NONE, SIZE, &error);
  g_assert_no_error (error);
  gate = test_gate (fixture, stream);
  fill (stream, ordered, 7);

  g_clear_object (&ordered);
  g_assert_cmpuint (gpu_context_get_allocated_size (fixture->context), ==, SIZE);
  test_open (gate);
  test_poll (gpu_context_get_allocated_size (fixture->context) == 0);
}

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
  test_add ("chain", lifetime_chain);
  test_add ("chain-behind-gate", lifetime_chain_behind_gate);
  test_add ("write", lifetime_write);
  test_add ("write-itself", lifetime_write_itself);
  test_add ("drop-all", lifetime_drop_all);
  test_add ("launches", lifetime_launches);
  test_add ("arguments", lifetime_arguments);
  test_add ("release-in-flight", lifetime_release_in_flight);
  test_add ("every-order", lifetime_every_order);
  test_add ("mapping", lifetime_mapping);
  test_add ("slice-of-busy-buffer", lifetime_slice_of_busy_buffer);
  test_add ("other-thread", lifetime_other_thread);
  test_add ("async-read", lifetime_async_read);
  test_add ("readers", lifetime_readers);
  test_add ("ordered", lifetime_ordered);
  test_add ("ordered-out-of-order", lifetime_ordered_out_of_order);
  return test_run ();
}
