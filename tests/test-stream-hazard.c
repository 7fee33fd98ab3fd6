/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Streams that use the same memory produce the same results as if all their work had run in the
 * order of submission. The program does not add any waits. */
#include "config.h"

#include "test-util.h"

#define SIZE 4096

static void
fill_word (GpuStream *stream, GpuBuffer *buffer, guint32 value)
{
  g_autoptr (GError) error = NULL;

  test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (buffer), 0,
                                   gpu_memory_get_size (GPU_MEMORY (buffer)),
                                   (const guint8 *) &value, sizeof value, &error), error);
}

static void
copy (GpuStream *stream, GpuBuffer *to, gsize to_offset, GpuBuffer *from, gsize from_offset,
      gsize size)
{
  g_autoptr (GError) error = NULL;

  test_assert_ok (gpu_stream_copy (stream, GPU_MEMORY (to), to_offset, GPU_MEMORY (from),
                                   from_offset, size, &error), error);
}

/* --- two streams, one buffer ---------------------------------------------------------- */

/* One stream fills a buffer, and another stream copies the value into the slot of the round.
 * Without correct order a slot would contain the value of another round. */
static void
two_streams (TestFixture *fixture, GpuStreamFlags flags, guint n_rounds)
{
  g_autoptr (GpuStream) fills = test_stream (fixture, flags);
  g_autoptr (GpuStream) copies = test_stream (fixture, flags);
  g_autoptr (GpuBuffer) shared = test_buffer (fixture, SIZE);
  g_autoptr (GpuBuffer) slots = test_buffer (fixture, n_rounds * 4);
  g_autoptr (GBytes) content = NULL;
  const guint32 *values;

  for (guint32 i = 0; i < n_rounds; i++)
    {
      fill_word (fills, shared, i);
      copy (copies, slots, i * 4, shared, (i * 4) % SIZE, 4);
    }
  content = test_content (slots);
  values = g_bytes_get_data (content, NULL);
  for (guint32 i = 0; i < n_rounds; i++)
    g_assert_cmpuint (values[i], ==, i);
  g_assert_cmpuint (test_get_number (fills, "n-hazard-waits"), >, 0);
  g_assert_cmpuint (test_get_number (copies, "n-hazard-waits"), >, 0);
}

static void
hazard_two_streams (TestFixture *fixture)
{
  two_streams (fixture, GPU_STREAM_FLAGS_NONE, 10000);
}

static void
hazard_two_out_of_order (TestFixture *fixture)
{
  if (test_has (fixture, GPU_CAPABILITIES_OUT_OF_ORDER))
    two_streams (fixture, GPU_STREAM_FLAGS_OUT_OF_ORDER, 100);
}

static gpointer
open_gate (gpointer gate)
{
  g_usleep (G_USEC_PER_SEC / 10);
  test_open (gate);
  return NULL;
}

/* A blocking call waits for work of another stream that another thread releases, also after a call
 * that was to submit nothing unless the streams are idle. */
static void
hazard_blocking (TestFixture *fixture)
{
  const guint32 value = 3;
  g_autoptr (GpuStream) fills = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) shared = test_buffer (fixture, SIZE);
  g_autoptr (GpuEvent) gate = NULL;
  g_autoptr (GError) error = NULL;
  guint32 word = 0;

  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    return;

  fill_word (fills, shared, 1);
  test_synchronize (fills);
  for (guint i = 0; i < 2; i++)
    {
      GThread *thread;

      gate = test_gate (fixture, fills);
      fill_word (fills, shared, 2);
      g_assert_false (gpu_buffer_try_read_address (shared, fixture->stream, 0,
                                                   GPOINTER_TO_SIZE (&word), sizeof word,
                                                   &error));
      g_clear_error (&error);
      thread = g_thread_new ("open", open_gate, gate);
      if (i == 0)
        test_assert_ok (gpu_buffer_write (shared, fixture->stream, 0, &value, sizeof value, NULL,
                                          &error), error);
      test_assert_ok (gpu_buffer_read (shared, fixture->stream, i * 4, &word, sizeof word, NULL,
                                       &error), error);
      g_assert_cmpuint (word, ==, i == 0 ? 3 : 2);
      g_thread_join (thread);
      g_clear_object (&gate);
    }
}

/* A stream that uses memory waits for the last use by another stream, not for the work that the
 * other stream has begun since then. */
static void
hazard_later_work (TestFixture *fixture)
{
  g_autoptr (GpuStream) fills = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuStream) copies = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) shared = test_buffer (fixture, SIZE);
  g_autoptr (GpuBuffer) slots = test_buffer (fixture, SIZE);
  g_autoptr (GpuEvent) gate = NULL;
  g_autoptr (GpuEvent) event = NULL;
  g_autoptr (GError) error = NULL;
  g_autoptr (TestHold) hold = NULL;
  g_autoptr (GBytes) slots_content = NULL;
  g_autoptr (GBytes) shared_content = NULL;

  if (!test_can_hold (fixture))
    return;

  /* Drivers load no second kernel while one is running, so the first stream is not held by one. */
  if ((gpu_device_get_capabilities (fixture->device) & GPU_CAPABILITIES_USER_EVENTS) != 0)
    gate = test_gate (fixture, fills);
  fill_word (fills, shared, 1);
  copy (copies, slots, 0, shared, 0, 4);
  hold = test_hold (copies);
  fill_word (fills, shared, 2);
  event = test_record (fills);
  if (gate != NULL)
    test_open (gate);
  test_assert_ok (gpu_event_wait_timeout (event, TEST_DEADLINE * G_USEC_PER_SEC, NULL, &error),
                  error);
  test_hold_release (hold);
  test_synchronize (copies);
  slots_content = test_content (slots);
  shared_content = test_content (shared);
  g_assert_cmpuint (*(const guint32 *) g_bytes_get_data (slots_content, NULL), ==, 1);
  g_assert_cmpuint (*(const guint32 *) g_bytes_get_data (shared_content, NULL), ==, 2);
}

static void
hazard_untracked (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) fills = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuStream) copies = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) shared = gpu_buffer_new (fixture->context, GPU_MEMORY_FLAGS_UNTRACKED, SIZE,
                                                 &error);
  g_autoptr (GpuBuffer) slots = gpu_buffer_new (fixture->context, GPU_MEMORY_FLAGS_UNTRACKED, SIZE,
                                                &error);
  g_autoptr (GpuBuffer) slice = gpu_buffer_slice (shared, 0, 64, &error);

  g_assert_no_error (error);
  /* The fills and the copies use different bytes, so there is no race. They are still ordered,
   * because hazards cover whole buffers. */
  for (guint32 i = 0; i < 1000; i++)
    {
      test_assert_ok (gpu_stream_fill (fills, GPU_MEMORY (shared), 64, SIZE - 64, &i,
                                       sizeof i, &error), error);
      copy (copies, slots, (i * 4) % SIZE, i % 2 == 0 ? shared : slice, (i * 4) % 64, 4);
    }
  g_assert_cmpuint (test_get_number (fills, "n-hazard-waits"), ==, 0);
  g_assert_cmpuint (test_get_number (copies, "n-hazard-waits"), ==, 0);
  test_synchronize (fills);
  test_synchronize (copies);
}

static const char increment_source[] =
  "__kernel void increment (__global uint *x, const uint n)\n"
  "{\n"
  "  uint i = (uint) get_global_id (0);\n"
  "  if (i < n)\n"
  "    x[i] = x[i] + 1;\n"
  "}\n";

static void
hazard_kernel_arguments (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  GpuStream *streams[2];
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GBytes) content = NULL;
  GpuExtent grid = { 64, 1, 1 };

  if (!test_has (fixture, GPU_CAPABILITIES_SOURCE))
    return;
  kernel = test_kernel (fixture, increment_source, "increment");
  buffer = test_buffer_filled (fixture, 64 * 4, 0);
  for (guint i = 0; i < 2; i++)
    streams[i] = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  for (guint i = 0; i < 2000; i++)
    test_assert_ok (gpu_stream_launch (streams[i % 2], kernel, &grid, NULL, &error, buffer,
                                       (guint32) 64), error);
  content = test_content (buffer);
  for (guint i = 0; i < 64; i++)
    g_assert_cmpuint (((const guint32 *) g_bytes_get_data (content, NULL))[i], ==, 2000);
  for (guint i = 0; i < 2; i++)
    g_object_unref (streams[i]);
}

/* --- order of reads and writes ------------------------------------------------------------ */

/* Readers do not wait for readers, writers wait for readers, and both wait for writers. A gate
 * blocks the work of the first stream, and therefore all work that waits for this work. */
static void
hazard_readers_and_writers (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) first = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuStream) second = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuStream) third = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) shared = test_buffer_filled (fixture, SIZE, 1);
  g_autoptr (GpuBuffer) a = test_buffer_filled (fixture, SIZE, 0);
  g_autoptr (GpuBuffer) b = test_buffer_filled (fixture, SIZE, 0);
  g_autoptr (GBytes) ones = test_value_bytes (SIZE, 1);
  g_autoptr (GBytes) twos = test_value_bytes (SIZE, 2);
  g_autoptr (GpuEvent) gate = NULL;
  g_autoptr (GpuEvent) written = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    return;
  gate = test_gate (fixture, first);
  copy (first, a, 0, shared, 0, SIZE);

  copy (second, b, 0, shared, 0, SIZE);
  test_synchronize (second);
  g_assert_cmpuint (test_get_number (second, "n-hazard-waits"), ==, 0);

  fill_word (third, shared, 0x02020202);
  g_assert_cmpuint (test_get_number (third, "n-hazard-waits"), ==, 1);
  written = test_record (third);
  g_assert_false (gpu_event_wait_timeout (written, 20000, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_TIMED_OUT);

  copy (second, b, 0, shared, 0, SIZE);
  g_assert_cmpuint (test_get_number (second, "n-hazard-waits"), ==, 1);
  /* The gate may fail the first write of `third`, so the second one also waits for the read of
   * `first`. */
  fill_word (third, shared, 0x03030303);
  g_assert_cmpuint (test_get_number (third, "n-hazard-waits"), ==, 3);

  test_open (gate);
  test_assert_content (a, ones);
  test_assert_content (b, twos);
}

#define N_READERS 4

/* A write waits for the pending reads of all other streams: it stays pending until the last read
 * has completed, in any order of completion. */
static void
hazard_readers (TestFixture *fixture)
{
  const guint order[N_READERS] = { 2, 0, 3, 1 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) writer = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) shared = test_buffer_filled (fixture, SIZE, 1);
  g_autoptr (GBytes) ones = test_value_bytes (SIZE, 1);
  g_autoptr (GBytes) twos = test_value_bytes (SIZE, 2);
  g_autoptr (GpuEvent) written = NULL;
  GpuStream *streams[N_READERS];
  GpuBuffer *copies[N_READERS];
  GpuEvent *gates[N_READERS];

  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    return;
  for (guint i = 0; i < N_READERS; i++)
    {
      streams[i] = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
      copies[i] = test_buffer_filled (fixture, SIZE, 0);
      gates[i] = test_gate (fixture, streams[i]);
      copy (streams[i], copies[i], 0, shared, 0, SIZE);
    }
  fill_word (writer, shared, 0x02020202);
  g_assert_cmpuint (test_get_number (writer, "n-hazard-waits"), ==, N_READERS);
  written = test_record (writer);
  for (guint i = 0; i < N_READERS; i++)
    {
      g_assert_false (gpu_event_wait_timeout (written, 5000, NULL, &error));
      test_assert_gpu_error (error, GPU_ERROR_TIMED_OUT);
      test_open (gates[order[i]]);
    }
  test_assert_content (shared, twos);
  for (guint i = 0; i < N_READERS; i++)
    {
      test_assert_content (copies[i], ones);
      g_object_unref (gates[i]);
      g_object_unref (copies[i]);
      g_object_unref (streams[i]);
    }
}

/* A stream that runs a kernel until the host sets `*go`, and then copies the tested memory to
 * `copy`. */
typedef struct
{
  GpuStream *stream;
  GpuBuffer *copy;
  GpuBuffer *flag;
  gint      *go;
} Reader;

static void
reader_init (Reader *reader, TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = NULL;

  reader->stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  reader->copy = test_buffer_filled (fixture, SIZE, 0);
  reader->go = g_aligned_alloc0 (1, SIZE, SIZE);
  bytes = g_bytes_new_with_free_func (reader->go, SIZE, g_aligned_free, reader->go);
  reader->flag = gpu_buffer_new_for_host_bytes (fixture->context, GPU_MEMORY_FLAGS_NONE, bytes,
                                                &error);
  g_assert_no_error (error);
}

static void
reader_clear (Reader *reader)
{
  g_autoptr (GBytes) ones = test_value_bytes (SIZE, 1);

  test_assert_content (reader->copy, ones);
  g_object_unref (reader->flag);
  g_object_unref (reader->copy);
  g_object_unref (reader->stream);
}

/* Like hazard_readers(), with streams that a kernel blocks: a write that waits for two reads runs
 * when both reads have completed. The test creates all objects before the first kernel runs,
 * because a driver may wait for the kernel when it creates an object. */
static void
hazard_held_readers (TestFixture *fixture)
{
  static const char source[] =
    "__kernel void hold (__global volatile int *go) { while (go[0] == 0) ; }\n";
  const GpuExtent one = { 1, 1, 1 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) writer = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) shared = test_buffer_filled (fixture, SIZE, 1);
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuEvent) written = NULL;
  Reader readers[2];

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_SOURCE))
    return;
  kernel = test_kernel (fixture, source, "hold");
  for (guint i = 0; i < 2; i++)
    reader_init (&readers[i], fixture);
  test_synchronize (fixture->stream);
  for (guint i = 0; i < 2; i++)
    {
      test_assert_ok (gpu_stream_launch (readers[i].stream, kernel, &one, &one, &error,
                                         readers[i].flag), error);
      copy (readers[i].stream, readers[i].copy, 0, shared, 0, SIZE);
    }
  fill_word (writer, shared, 0x02020202);
  g_assert_cmpuint (test_get_number (writer, "n-hazard-waits"), ==, 2);
  written = test_record (writer);
  for (guint i = 0; i < 2; i++)
    {
      g_assert_false (gpu_event_wait_timeout (written, 20000, NULL, &error));
      test_assert_gpu_error (error, GPU_ERROR_TIMED_OUT);
      g_atomic_int_set (readers[i].go, 1);
      test_synchronize (readers[i].stream);
    }
  test_assert_ok (gpu_event_wait (written, NULL, &error), error);
  for (guint i = 0; i < 2; i++)
    reader_clear (&readers[i]);
}

/* Two streams read the memory. Before one of them writes the memory, it waits for the read of the
 * other, although it has read the memory itself. If @is_first is TRUE, the library has recorded the
 * read of the writing stream before the read of the other stream. */
static void
write_after_own_read (TestFixture *fixture, gboolean is_first)
{
  g_autoptr (GpuStream) own = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuStream) other = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) shared = test_buffer_filled (fixture, SIZE, 1);
  g_autoptr (GpuBuffer) a = test_buffer_filled (fixture, SIZE, 0);
  g_autoptr (GpuBuffer) b = test_buffer_filled (fixture, SIZE, 0);
  g_autoptr (GBytes) ones = test_value_bytes (SIZE, 1);
  g_autoptr (GpuEvent) gate = NULL;
  g_autoptr (GpuEvent) own_gate = NULL;

  if (is_first)
    {
      own_gate = test_gate (fixture, own);
      copy (own, a, 0, shared, 0, SIZE);
    }
  gate = test_gate (fixture, other);
  copy (other, b, 0, shared, 0, SIZE);
  if (is_first)
    {
      test_open (own_gate);
      test_synchronize (own);
    }
  copy (own, a, 0, shared, 0, SIZE);
  fill_word (own, shared, 0x02020202);
  g_assert_cmpuint (test_get_number (own, "n-hazard-waits"), ==, 1);
  test_open (gate);
  test_assert_content (a, ones);
  test_assert_content (b, ones);
}

static void
hazard_own_read (TestFixture *fixture)
{
  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    return;
  write_after_own_read (fixture, FALSE);
  write_after_own_read (fixture, TRUE);
}

/* Stream-ordered memory only exists after its stream has reached the allocation, so other streams
 * wait for the allocation. */
static void
hazard_ordered (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) first = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuStream) second = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) other = test_buffer (fixture, SIZE);
  g_autoptr (GpuBuffer) ordered = NULL;
  g_autoptr (GpuEvent) gate = NULL;
  g_autoptr (GBytes) expected = test_value_bytes (SIZE, 2);

  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS | GPU_CAPABILITIES_STREAM_ORDERED))
    return;
  gate = test_gate (fixture, first);
  fill_word (first, other, 1);
  ordered = gpu_buffer_new_on_stream (first, GPU_MEMORY_FLAGS_NONE, SIZE, &error);
  g_assert_no_error (error);
  fill_word (second, ordered, 0x02020202);
  g_assert_cmpuint (test_get_number (second, "n-hazard-waits"), ==, 1);
  test_open (gate);
  test_assert_content (ordered, expected);
}

/* The library inserts no waits if only one stream is used. */
static void
hazard_one_stream (TestFixture *fixture)
{
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) a = test_buffer (fixture, SIZE);
  g_autoptr (GpuBuffer) b = test_buffer (fixture, SIZE);
  g_autoptr (GBytes) expected = NULL;

  for (guint32 i = 0; i < 1000; i++)
    {
      fill_word (stream, a, (i & 0xff) * 0x01010101u);
      copy (stream, b, 0, a, 0, SIZE);
    }
  g_assert_cmpuint (test_get_number (stream, "n-hazard-waits"), ==, 0);
  expected = test_value_bytes (SIZE, 999 & 0xff);
  test_assert_content (b, expected);
}

static void
hazard_slices (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  gsize unit = MAX (gpu_device_get_base_alignment (fixture->device), 64);
  g_autoptr (GpuStream) fills = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuStream) copies = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) root = test_buffer_filled (fixture, unit * 4, 0);
  g_autoptr (GpuBuffer) low = gpu_buffer_slice (root, 0, unit * 3, &error);
  g_autoptr (GpuBuffer) high = gpu_buffer_slice (root, unit, unit * 3, &error);
  g_autoptr (GpuBuffer) inner = gpu_buffer_slice (high, unit, unit, &error);
  g_autoptr (GpuBuffer) slots = test_buffer (fixture, 1000 * 4);
  g_autoptr (GBytes) content = NULL;
  GpuBuffer *written[] = { low, root, high };
  GpuBuffer *read[] = { inner, high, low, root };
  const gsize at[] = { 0, unit, unit * 2, unit * 2 };

  g_assert_no_error (error);
  for (guint32 i = 0; i < 1000; i++)
    {
      fill_word (fills, written[i % 3], i);
      copy (copies, slots, i * 4, read[i % 4], at[i % 4], 4);
    }
  content = test_content (slots);
  for (guint32 i = 0; i < 1000; i++)
    g_assert_cmpuint (((const guint32 *) g_bytes_get_data (content, NULL))[i], ==, i);
}

/* --- random work against a model -------------------------------------------------------- */

#define N_BUFFERS 6
#define N_STREAMS 4
#define N_STEPS 400

/* Each thread holds `lock` while it submits an operation and applies the operation to `model`.
 * Therefore the model applies all operations in the order of submission. On the device, only the
 * hazards between the operations order the streams. */
typedef struct
{
  GMutex     lock;
  GpuBuffer *buffers[N_BUFFERS];
  guint8     model[N_BUFFERS][SIZE];
  GPtrArray *got;
  GPtrArray *wanted;
} World;

typedef struct
{
  World     *world;
  GpuStream *stream;
  guint32    seed;
} Actor;

static void
step (Actor *actor, GRand *rand)
{
  World *world = actor->world;
  g_autoptr (GError) error = NULL;
  guint to = (guint) g_rand_int_range (rand, 0, N_BUFFERS);
  guint from = (to + (guint) g_rand_int_range (rand, 1, N_BUFFERS)) % N_BUFFERS;
  gsize size = (gsize) g_rand_int_range (rand, 1, SIZE);
  gsize a = (gsize) g_rand_int_range (rand, 0, (gint32) (SIZE - size + 1));
  gsize b = (gsize) g_rand_int_range (rand, 0, (gint32) (SIZE - size + 1));
  guint8 value = (guint8) g_rand_int (rand);
  GpuMemory *memory = GPU_MEMORY (world->buffers[to]);
  GBytes *bytes;

  switch (g_rand_int_range (rand, 0, 4))
    {
    case 0:
      test_assert_ok (gpu_stream_fill (actor->stream, memory, a, size, &value, 1, &error), error);
      memset (world->model[to] + a, value, size);
      break;
    case 1:
      bytes = test_value_bytes (size, value);
      test_assert_ok (gpu_stream_write (actor->stream, memory, a, bytes, &error), error);
      g_bytes_unref (bytes);
      memset (world->model[to] + a, value, size);
      break;
    case 2:
      bytes = gpu_stream_read_bytes (actor->stream, memory, a, size, &error);
      g_assert_no_error (error);
      g_ptr_array_add (world->got, bytes);
      g_ptr_array_add (world->wanted, g_bytes_new (world->model[to] + a, size));
      break;
    default:
      copy (actor->stream, world->buffers[to], a, world->buffers[from], b, size);
      memcpy (world->model[to] + a, world->model[from] + b, size);
      break;
    }
}

static gpointer
act (gpointer data)
{
  Actor *actor = data;
  g_autoptr (GRand) rand = g_rand_new_with_seed (actor->seed);

  for (guint i = 0; i < N_STEPS; i++)
    {
      g_mutex_lock (&actor->world->lock);
      step (actor, rand);
      g_mutex_unlock (&actor->world->lock);
    }
  return NULL;
}

static void
random_work (TestFixture *fixture, GpuStreamFlags flags)
{
  g_autofree World *world = g_new0 (World, 1);
  Actor actors[N_STREAMS];
  GThread *threads[N_STREAMS];

  g_mutex_init (&world->lock);
  world->got = g_ptr_array_new_with_free_func ((GDestroyNotify) g_bytes_unref);
  world->wanted = g_ptr_array_new_with_free_func ((GDestroyNotify) g_bytes_unref);
  for (guint i = 0; i < N_BUFFERS; i++)
    world->buffers[i] = test_buffer_filled (fixture, SIZE, 0);
  for (guint i = 0; i < N_STREAMS; i++)
    {
      actors[i].world = world;
      actors[i].stream = test_stream (fixture, flags);
      actors[i].seed = (guint32) g_test_rand_int ();
    }
  for (guint i = 0; i < N_STREAMS; i++)
    threads[i] = g_thread_new ("actor", act, &actors[i]);
  for (guint i = 0; i < N_STREAMS; i++)
    g_thread_join (threads[i]);

  for (guint i = 0; i < N_STREAMS; i++)
    test_synchronize (actors[i].stream);
  for (guint i = 0; i < N_BUFFERS; i++)
    {
      g_autoptr (GBytes) content = test_content (world->buffers[i]);

      test_assert_mem (g_bytes_get_data (content, NULL), world->model[i], SIZE);
      g_object_unref (world->buffers[i]);
    }
  g_assert_cmpuint (world->got->len, >, 0);
  for (guint i = 0; i < world->got->len; i++)
    test_assert_bytes (world->got->pdata[i], world->wanted->pdata[i]);
  g_ptr_array_unref (world->got);
  g_ptr_array_unref (world->wanted);
  for (guint i = 0; i < N_STREAMS; i++)
    g_object_unref (actors[i].stream);
  g_mutex_clear (&world->lock);
}

/* --- one memory, several buffers ----------------------------------------------------------- */

/* Wraps the memory of @buffer. */
static GpuBuffer *
wrap (TestFixture *fixture, GpuBuffer *buffer)
{
  g_autoptr (GError) error = NULL;
  guint64 handle = gpu_memory_get_native_handle (GPU_MEMORY (buffer));
  GpuBuffer *wrapped = gpu_buffer_new_wrapped (fixture->context, handle, SIZE, GPU_WRAP_MODE_BORROW,
                                               NULL, &error);

  g_assert_no_error (error);
  return wrapped;
}

/* A wrapper of memory that the library allocated is tracked as the same memory, and keeps it
 * allocated. */
static void
hazard_own_wrapped (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
  g_autoptr (GpuBuffer) wrapped = wrap (fixture, buffer);
  g_autoptr (GpuBuffer) slice = gpu_buffer_slice (wrapped, SIZE / 2, 1024, &error);

  g_assert_no_error (error);
  test_same_memory (fixture, wrapped, 0, buffer, 0);
  test_same_memory (fixture, buffer, 0, wrapped, 0);
  test_same_memory (fixture, slice, 0, buffer, SIZE / 2);
  g_assert_false (gpu_stream_copy (fixture->stream, GPU_MEMORY (wrapped), 0, GPU_MEMORY (buffer),
                                   16, 64, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "overlap");
  gpu_memory_release (GPU_MEMORY (buffer));
  test_same_memory (fixture, wrapped, SIZE / 2, slice, 0);
}

/* Returns a buffer whose memory the library allocated in another context, so that this context
 * treats it as foreign. */
static GpuBuffer *
foreign_buffer (TestFixture *fixture, GpuContext **other)
{
  g_autoptr (GError) error = NULL;
  GpuBuffer *buffer;

  *other = gpu_context_new_wrapped (fixture->device,
                                    gpu_context_get_native_handle (fixture->context),
                                    GPU_WRAP_MODE_BORROW, &error);
  if (g_error_matches (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED))
    {
      g_clear_error (&error);
      *other = gpu_context_new (fixture->device, GPU_CONTEXT_FLAGS_NONE, &error);
    }
  g_assert_no_error (error);
  buffer = gpu_buffer_new (*other, GPU_MEMORY_FLAGS_NONE, SIZE, &error);
  g_assert_no_error (error);
  return buffer;
}

static void
hazard_wrapped_twice (TestFixture *fixture)
{
  g_autoptr (GpuContext) other = NULL;
  g_autoptr (GpuBuffer) buffer = foreign_buffer (fixture, &other);
  g_autoptr (GpuBuffer) first = wrap (fixture, buffer);
  g_autoptr (GpuBuffer) second = wrap (fixture, buffer);

  test_same_memory (fixture, first, 0, second, 0);
  g_clear_object (&first);
  first = wrap (fixture, buffer);
  test_same_memory (fixture, second, 0, first, 0);
}

/* If a program wraps the memory of a finalized buffer in a new buffer, uses of the new buffer wait
 * for the pending work of the finalized buffer. */
static void
hazard_wrapped_again (TestFixture *fixture)
{
  g_autoptr (GpuContext) other = NULL;
  g_autoptr (GpuBuffer) buffer = foreign_buffer (fixture, &other);
  g_autoptr (GpuStream) fills = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuStream) copies = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) slots = test_buffer (fixture, SIZE);
  g_autoptr (GBytes) content = NULL;

  for (guint32 i = 0; i < SIZE / 4; i++)
    {
      g_autoptr (GpuBuffer) to = wrap (fixture, buffer);
      g_autoptr (GpuBuffer) from = NULL;

      fill_word (fills, to, i);
      g_clear_object (&to);
      from = wrap (fixture, buffer);
      copy (copies, slots, i * 4, from, (i * 4) % SIZE, 4);
    }
  content = test_content (slots);
  for (guint32 i = 0; i < SIZE / 4; i++)
    g_assert_cmpuint (((const guint32 *) g_bytes_get_data (content, NULL))[i], ==, i);
  g_assert_cmpuint (test_get_number (copies, "n-hazard-waits"), >, 0);
}

static void
hazard_random (TestFixture *fixture)
{
  random_work (fixture, GPU_STREAM_FLAGS_NONE);
}

static void
hazard_random_out_of_order (TestFixture *fixture)
{
  if (test_has (fixture, GPU_CAPABILITIES_OUT_OF_ORDER))
    random_work (fixture, GPU_STREAM_FLAGS_OUT_OF_ORDER);
}

/* --- one memory, several images ------------------------------------------------------------ */

/* @to and @from are images of the same memory. One stream fills a texel of @to, and another stream
 * copies this texel from @from. */
static void
assert_same_texels (TestFixture *fixture, GpuImage *to, GpuImage *from)
{
  const guint n = 200;
  const GpuExtent one = { 1, 1, 1 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) fills = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuStream) copies = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) slots = test_buffer (fixture, n);
  g_autoptr (GBytes) content = NULL;
  const guint8 *values;

  for (guint i = 0; i < n; i++)
    {
      const GpuColor color = { i, 0, 0, 0 };
      const GpuLayout slot = { .x = i };

      test_assert_ok (gpu_stream_fill_image (fills, to, &color, NULL, NULL, &error), error);
      test_assert_ok (gpu_stream_copy_region (copies, GPU_MEMORY (slots), &slot, GPU_MEMORY (from),
                                              NULL, &one, &error), error);
    }

  content = test_content (slots);
  values = g_bytes_get_data (content, NULL);
  for (guint i = 0; i < n; i++)
    g_assert_cmpuint (values[i], ==, i);
  g_assert_cmpuint (test_get_number (fills, "n-hazard-waits"), >, 0);
  g_assert_cmpuint (test_get_number (copies, "n-hazard-waits"), >, 0);
}

static void
hazard_image_wrapped (TestFixture *fixture)
{
  const GpuImageFormat format = { GPU_CHANNEL_ORDER_R, GPU_CHANNEL_TYPE_UINT8 };
  const GpuExtent extent = { 256, 256, 1 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuImage) image = NULL;
  g_autoptr (GpuImage) wrapped = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_IMAGES))
    return;

  image = gpu_image_new (fixture->context, GPU_MEMORY_FLAGS_NONE, &format, GPU_IMAGE_TYPE_IMAGE_2D,
                         &extent, &error);
  g_assert_no_error (error);
  wrapped = gpu_image_new_wrapped (fixture->context,
                                   gpu_memory_get_native_handle (GPU_MEMORY (image)), &format,
                                   GPU_WRAP_MODE_BORROW, NULL, &error);
  if (g_error_matches (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED))
    {
      g_test_skip (error->message);
      return;
    }
  g_assert_no_error (error);
  assert_same_texels (fixture, image, wrapped);
  assert_same_texels (fixture, wrapped, image);
  g_assert_true (gpu_memory_equal (GPU_MEMORY (image), GPU_MEMORY (wrapped)));
}

/* Two images over the same host memory share memory only if the device uses the host memory in
 * place. */
static void
hazard_image_host (TestFixture *fixture)
{
  const GpuImageFormat format = { GPU_CHANNEL_ORDER_R, GPU_CHANNEL_TYPE_UINT8 };
  const GpuExtent extent = { 256, 256, 1 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_value_bytes (256 * 256, 0);
  g_autoptr (GpuImage) one = NULL;
  g_autoptr (GpuImage) other = NULL;

  if (g_strcmp0 (gpu_device_get_backend (fixture->device), "host") != 0)
    {
      g_test_skip ("the device is not the host");
      return;
    }

  one = gpu_image_new_for_host_bytes (fixture->context, GPU_MEMORY_FLAGS_NONE, &format,
                                      GPU_IMAGE_TYPE_IMAGE_2D, &extent, bytes, 0, 0, &error);
  g_assert_no_error (error);
  other = gpu_image_new_for_host_bytes (fixture->context, GPU_MEMORY_FLAGS_NONE, &format,
                                        GPU_IMAGE_TYPE_IMAGE_2D, &extent, bytes, 0, 0, &error);
  g_assert_no_error (error);
  assert_same_texels (fixture, one, other);
}

/* --- messages --------------------------------------------------------------------------- */

static GLogWriterOutput
print_fields (GLogLevelFlags level, const GLogField *fields, gsize n_fields, gpointer data)
{
  for (gsize i = 0; i < n_fields; i++)
    if (g_str_has_prefix (fields[i].key, "GPUMEM_") || g_str_equal (fields[i].key, "CODE_FILE")
        || g_str_equal (fields[i].key, "MESSAGE") || g_str_equal (fields[i].key, "GLIB_DOMAIN"))
      g_printerr ("%s=%s;", fields[i].key, (const char *) fields[i].value);

  return G_LOG_WRITER_HANDLED;
}

/* With GPUMEM_DEBUG the library logs structured messages. The test checks the message that one
 * stream waits for another. */
static void
hazard_messages (TestFixture *fixture)
{
  g_autofree char *before = g_strdup (g_getenv ("GPUMEM_DEBUG"));

  if (g_test_subprocess ())
    {
      g_autoptr (GpuStream) first = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
      g_autoptr (GpuStream) second = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
      g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);

      g_log_set_writer_func (print_fields, NULL, NULL);
      while (test_get_number (second, "n-hazard-waits") == 0)
        {
          fill_word (first, buffer, 1);
          fill_word (second, buffer, 2);
        }
      return;
    }

  g_setenv ("GPUMEM_DEBUG", "hazards", TRUE);
  g_test_trap_subprocess (NULL, TEST_CHILD_TIMEOUT, G_TEST_SUBPROCESS_DEFAULT);
  if (before != NULL)
    g_setenv ("GPUMEM_DEBUG", before, TRUE);
  else
    g_unsetenv ("GPUMEM_DEBUG");
  g_test_trap_assert_passed ();
  g_test_trap_assert_stderr ("*MESSAGE=hazards: gpu_stream_fill: * waits for 1 others;"
                             "GLIB_DOMAIN=gpumem;CODE_FILE=*gpu-submission-hazard.c;"
                             "GPUMEM_TOPIC=hazards;*");
}

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
  test_add ("two-streams", hazard_two_streams);
  test_add ("two-out-of-order", hazard_two_out_of_order);
  test_add ("blocking", hazard_blocking);
  test_add ("later-work", hazard_later_work);
  test_add ("untracked", hazard_untracked);
  test_add ("kernel-arguments", hazard_kernel_arguments);
  test_add ("readers-and-writers", hazard_readers_and_writers);
  test_add ("readers", hazard_readers);
  test_add ("held-readers", hazard_held_readers);
  test_add ("own-read", hazard_own_read);
  test_add ("ordered", hazard_ordered);
  test_add ("one-stream", hazard_one_stream);
  test_add ("slices", hazard_slices);
  test_add ("own-wrapped", hazard_own_wrapped);
  test_add ("wrapped-twice", hazard_wrapped_twice);
  test_add ("wrapped-again", hazard_wrapped_again);
  test_add ("image-wrapped", hazard_image_wrapped);
  test_add ("image-host", hazard_image_host);
  test_add ("messages", hazard_messages);
  test_add ("random", hazard_random);
  test_add ("random-out-of-order", hazard_random_out_of_order);
  return test_run ();
}
