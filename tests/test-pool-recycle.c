/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The pool keeps the objects of dropped buffers, and uses them for its next buffers.
 * _gpu_binding_recycle_buffer() also keeps the data of the object. */
#include "config.h"

#include <sys/wait.h>
#include <unistd.h>

#include <gpumem/gpumem-bindings.h>

#include "test-util.h"

#define SIZE 5000
#define N_BUFFERS 16
#define N_POOLS 32
/* Enough for other threads to be in the middle of a change. */
#define N_LISTS 20000
#define N_FORKS 50

static GpuMemoryPool *
make_pool (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  GpuMemoryPool *pool = gpu_memory_pool_new (fixture->context, GPU_MEMORY_POOL_AUTOMATIC,
                                             GPU_MEMORY_FLAGS_NONE, &error);

  g_assert_no_error (error);

  return pool;
}

static GpuBuffer *
take (GpuMemoryPool *pool,
      gsize          size)
{
  g_autoptr (GError) error = NULL;
  GpuBuffer *buffer = gpu_memory_pool_alloc_buffer (pool, size, NULL, &error);

  g_assert_no_error (error);

  return buffer;
}

static guint64
get_active (GpuMemoryPool *pool)
{
  guint64 value;

  g_object_get (pool, "active-blocks", &value, NULL);

  return value;
}

static void
fill (TestFixture *fixture,
      GpuBuffer   *buffer,
      guint8       value)
{
  g_autoptr (GError) error = NULL;

  gpu_stream_fill (fixture->stream, GPU_MEMORY (buffer), 0,
                   gpu_memory_get_size (GPU_MEMORY (buffer)), &value, 1, &error);
  g_assert_no_error (error);
}

static void
check (GpuBuffer *buffer,
       guint8     value)
{
  gsize size = gpu_memory_get_size (GPU_MEMORY (buffer));
  g_autofree guint8 *data = g_malloc0 (size);
  g_autoptr (GError) error = NULL;

  gpu_buffer_read (buffer, NULL, 0, data, size, NULL, &error);
  g_assert_no_error (error);

  for (gsize i = 0; i < size; i++)
    g_assert_cmphex (data[i], ==, value);
}

static GQuark
get_retained (void)
{
  return g_quark_from_static_string ("test-retained");
}

/* Work submitted before the buffer is dropped continues, and work of the next buffer is ordered
 * after it. */
static void
recycle_data (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuMemoryPool) pool = make_pool (fixture);
  g_autoptr (GpuBuffer) copy = take (pool, SIZE);
  GpuBuffer *buffer = take (pool, SIZE);

  g_object_set_qdata (G_OBJECT (buffer), get_retained (), pool);

  for (guint i = 0; i < 100; i++)
    {
      gsize size = i % 2 == 0 ? SIZE : SIZE + 2000 * i;
      gpointer before = buffer;

      fill (fixture, buffer, i);
      gpu_stream_copy (fixture->stream, GPU_MEMORY (copy), 0, GPU_MEMORY (buffer), 0, SIZE, &error);
      g_assert_no_error (error);
      g_assert_true (_gpu_binding_can_recycle_buffer (buffer));
      _gpu_binding_recycle_buffer (buffer, get_retained ());
      g_assert_cmpuint (get_active (pool), ==, 1);

      buffer = take (pool, size);
      g_assert_true (buffer == before);
      g_assert_true (g_object_get_qdata (G_OBJECT (buffer), get_retained ()) == pool);
      g_assert_cmpuint (gpu_memory_get_size (GPU_MEMORY (buffer)), ==, size);
      fill (fixture, buffer, 0xff);
      check (copy, i);
      check (buffer, 0xff);
      g_assert_cmpuint (get_active (pool), ==, 2);
    }

  g_object_unref (buffer);
}

/* A buffer with other users, or without memory of a pool, is only unreferenced. */
static void
recycle_in_use (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuMemoryPool) pool = make_pool (fixture);
  GpuBuffer *buffer = take (pool, SIZE);
  g_autoptr (GpuBuffer) other = NULL;
  GpuBuffer *plain = gpu_buffer_new (fixture->context, GPU_MEMORY_FLAGS_NONE, SIZE, &error);
  GpuBuffer *slice = gpu_buffer_slice (buffer, 0, SIZE, &error);

  g_assert_no_error (error);
  fill (fixture, buffer, 7);
  g_assert_false (_gpu_binding_can_recycle_buffer (plain));
  g_assert_false (_gpu_binding_can_recycle_buffer (slice));
  _gpu_binding_recycle_buffer (g_object_ref (buffer), 0);
  check (buffer, 7);
  _gpu_binding_recycle_buffer (buffer, 0);
  other = take (pool, SIZE);
  g_assert_true (other != buffer);
  fill (fixture, other, 8);
  check (slice, 7);
  g_assert_cmpuint (get_active (pool), ==, 2);
  _gpu_binding_recycle_buffer (slice, 0);
  g_assert_cmpuint (get_active (pool), ==, 1);

  _gpu_binding_recycle_buffer (plain, 0);

  buffer = take (pool, SIZE);
  gpu_memory_release (GPU_MEMORY (buffer));
  g_assert_false (_gpu_binding_can_recycle_buffer (buffer));
  _gpu_binding_recycle_buffer (buffer, 0);
  g_assert_cmpuint (get_active (pool), ==, 1);
}

static void
count_call (gpointer data)
{
  (*(guint *) data)++;
}

static void
count_weak (gpointer  data,
            GObject  *object G_GNUC_UNUSED)
{
  count_call (data);
}

/* Weak references are cleared, and other data and signal handlers are dropped, before the object is
 * used again. */
static void
recycle_attached (TestFixture *fixture)
{
  g_autoptr (GpuMemoryPool) pool = make_pool (fixture);
  GQuark more = g_quark_from_static_string ("test-more");

  for (guint i = 0; i < 4; i++)
    {
      GpuBuffer *buffer = take (pool, SIZE);
      guint n_dropped = 0;
      guint n_handled = 0;
      gulong handler = g_signal_connect_swapped (buffer, "released", G_CALLBACK (count_call),
                                                 &n_handled);
      GWeakRef weak;

      g_weak_ref_init (&weak, i == 0 ? buffer : NULL);
      if (i == 1)
        g_object_weak_ref (G_OBJECT (buffer), count_weak, &n_dropped);
      if (i == 2)
        g_object_set_qdata_full (G_OBJECT (buffer), more, &n_dropped, count_call);
      if (i == 3)
        g_signal_handler_block (buffer, handler);

      _gpu_binding_recycle_buffer (buffer, get_retained ());
      g_assert_null (g_weak_ref_get (&weak));
      g_assert_cmpuint (n_dropped, ==, i == 1 || i == 2);
      g_weak_ref_clear (&weak);

      buffer = take (pool, SIZE);
      g_assert_null (g_object_get_qdata (G_OBJECT (buffer), more));
      g_assert_cmpuint (g_signal_handlers_block_matched (buffer, G_SIGNAL_MATCH_DATA, 0, 0, NULL,
                                                         NULL, &n_handled), ==, 0);
      gpu_memory_release (GPU_MEMORY (buffer));
      g_assert_cmpuint (n_handled, ==, 0);
      g_object_unref (buffer);
    }
}

static void
take_reference (gpointer  data,
                GClosure *closure G_GNUC_UNUSED)
{
  GpuBuffer **kept = data;

  g_object_ref (*kept);
}

/* A handler whose data takes a reference when it is freed keeps the buffer. */
static void
recycle_revived (TestFixture *fixture)
{
  g_autoptr (GpuMemoryPool) pool = make_pool (fixture);
  g_autoptr (GpuBuffer) buffer = take (pool, SIZE);
  g_autoptr (GpuBuffer) other = NULL;
  GpuBuffer *kept = buffer;

  fill (fixture, buffer, 5);
  g_signal_connect_data (buffer, "released", G_CALLBACK (count_call), &kept, take_reference,
                         G_CONNECT_SWAPPED);
  _gpu_binding_recycle_buffer (buffer, 0);
  other = take (pool, SIZE);
  g_assert_true (other != buffer);
  fill (fixture, other, 6);
  check (buffer, 5);
}

static guint
count_buffers (void)
{
  g_autoptr (GVariant) live = gpu_debug_list_live_objects ();
  guint count = 0;

  g_variant_lookup (live, "buffer", "u", &count);

  return count;
}

/* Recycled objects are not counted, and are freed with the pool, as is their data. A buffer that is
 * dropped after the pool is freed. */
static void
recycle_drop_order (TestFixture *fixture)
{
  for (guint i = 0; i < 2; i++)
    {
      g_autoptr (GpuMemoryPool) pool = make_pool (fixture);
      GpuBuffer *buffer = take (pool, SIZE);
      guint n_freed = 0;
      guint before;

      g_object_set_qdata_full (G_OBJECT (buffer), get_retained (), &n_freed, count_call);

      if (i == 0)
        g_clear_object (&pool);

      before = count_buffers ();
      _gpu_binding_recycle_buffer (buffer, get_retained ());
      g_assert_cmpuint (count_buffers (), <, before);
      g_assert_cmpuint (n_freed, ==, i == 0);
      g_clear_object (&pool);
      g_assert_cmpuint (n_freed, ==, 1);
    }
}

static gpointer
drop (gpointer object)
{
  g_object_unref (object);

  return NULL;
}

/* Threads keep recycled objects in several lists. A thread without an object takes one that another
 * thread dropped. */
static void
recycle_dropped_elsewhere (TestFixture *fixture)
{
  g_autoptr (GpuMemoryPool) pool = make_pool (fixture);
  GpuBuffer *buffer = take (pool, SIZE);

  for (guint i = 0; i < 40; i++)
    {
      gpointer before = buffer;

      g_thread_join (g_thread_new ("drop", drop, buffer));
      g_assert_cmpuint (get_active (pool), ==, 0);
      buffer = take (pool, SIZE);
      g_assert_true (buffer == before);
    }

  g_object_unref (buffer);
}

#define N_OWNERS 5
#define N_ORDERS 120

/* Drops the references on threads of their own: in the given order, or all at once. */
static void
drop_all (gpointer owners[N_OWNERS],
          guint    order)
{
  GThread *threads[N_OWNERS];
  guint n_threads = 0;

  for (guint n = N_OWNERS; n > 0; n--)
    {
      gpointer *picked = &owners[order % n];

      threads[n_threads++] = g_thread_new ("drop", drop, *picked);
      *picked = owners[n - 1];
      if (order < N_ORDERS)
        g_thread_join (threads[--n_threads]);
      order = order < N_ORDERS ? order / n : order;
    }

  while (n_threads > 0)
    g_thread_join (threads[--n_threads]);
}

/* Drops the last references to a context, a stream, a pool, a buffer and a slice while work is
 * pending. Returns FALSE if the device has no pools of that kind. */
static gboolean
drop_owners (TestFixture       *fixture,
             GpuMemoryPoolKind  kind,
             guint              order)
{
  g_autoptr (GError) error = NULL;
  const guint8 value = 7;
  GpuContext *context = gpu_context_new (fixture->device, GPU_CONTEXT_FLAGS_NONE, &error);
  GpuMemoryPool *pool;
  GpuStream *stream;
  GpuBuffer *buffers[2];

  g_assert_no_error (error);
  pool = gpu_memory_pool_new (context, kind, GPU_MEMORY_FLAGS_NONE, &error);
  if (g_error_matches (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED))
    {
      g_object_unref (context);
      return FALSE;
    }
  g_assert_no_error (error);
  stream = gpu_stream_new (context, GPU_STREAM_FLAGS_NONE, &error);
  g_assert_no_error (error);

  for (guint i = 0; i < 2; i++)
    {
      buffers[0] = gpu_memory_pool_alloc_buffer (pool, (1 + i) * SIZE, stream, &error);
      g_assert_no_error (error);
      if (i == 0)
        g_object_unref (buffers[0]);
    }
  buffers[1] = gpu_buffer_slice (buffers[0], 0, SIZE, &error);
  g_assert_no_error (error);
  gpu_stream_fill (stream, GPU_MEMORY (buffers[0]), 0, 2 * SIZE, &value, 1, &error);
  g_assert_no_error (error);

  drop_all ((gpointer[N_OWNERS]) { context, stream, pool, buffers[0], buffers[1] }, order);

  return TRUE;
}

/* The last references may be dropped in any order, on any threads. */
static void
recycle_last_references (TestFixture *fixture)
{
  const GpuMemoryPoolKind kinds[] = { GPU_MEMORY_POOL_SEGMENTS, GPU_MEMORY_POOL_EXPANDABLE };

  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
    for (guint order = 0; order < N_ORDERS + 40; order += order < N_ORDERS ? 7 : 1)
      if (!drop_owners (fixture, kinds[i], order))
        break;
}

/* A recycled object has no handler of any signal from before. */
static void
recycle_handlers (TestFixture *fixture)
{
  const char *const signals[] = { "notify::size", "notify", "released" };
  g_autoptr (GpuMemoryPool) pool = make_pool (fixture);

  for (guint i = 0; i < G_N_ELEMENTS (signals); i++)
    {
      guint n_calls = 0;
      GpuBuffer *buffer = take (pool, SIZE);
      gpointer before = buffer;

      g_signal_connect_swapped (buffer, signals[i], G_CALLBACK (count_call), &n_calls);
      g_object_unref (buffer);
      buffer = take (pool, SIZE);
      g_assert_true (buffer == before);
      g_object_notify (G_OBJECT (buffer), "size");
      g_assert_cmpuint (g_signal_handlers_disconnect_by_data (buffer, &n_calls), ==, 0);
      g_assert_cmpuint (n_calls, ==, 0);
      g_object_unref (buffer);
    }
}

/* A slice of a recycled buffer has the bytes of the new memory, not those of the memory before. */
static void
recycle_sliced (TestFixture *fixture)
{
  g_autoptr (GpuMemoryPool) pool = make_pool (fixture);
  GpuBuffer *buffer = take (pool, SIZE);
  g_autoptr (GpuBuffer) other = NULL;

  for (guint i = 1; i < 10; i++)
    {
      const gsize size = i * 40 * SIZE;
      g_autoptr (GError) error = NULL;
      g_autoptr (GpuBuffer) slice = NULL;
      gpointer before = buffer;

      g_object_unref (buffer);
      buffer = take (pool, size);
      g_assert_true (buffer == before);
      if (other == NULL)
        other = take (pool, SIZE);      /* in the place of the first buffer */
      fill (fixture, other, 0xff);
      fill (fixture, buffer, 0);
      slice = gpu_buffer_slice (buffer, 0, size, &error);
      g_assert_no_error (error);
      fill (fixture, slice, i);
      check (buffer, i);
      check (other, 0xff);
    }

  g_object_unref (buffer);
}

/* The data of a thread, which runs until the test sets `stop`. */
typedef struct
{
  TestFixture *fixture;
  gint         stop;
} Meanwhile;

/* Recycles buffers, and finalizes their pool. */
static gpointer
recycle_often (gpointer data)
{
  Meanwhile *meanwhile = data;

  while (!g_atomic_int_get (&meanwhile->stop))
    {
      g_autoptr (GpuMemoryPool) pool = make_pool (meanwhile->fixture);
      GpuBuffer *buffers[N_BUFFERS];

      for (guint i = 0; i < N_BUFFERS; i++)
        buffers[i] = take (pool, SIZE);
      for (guint i = 0; i < N_BUFFERS; i++)
        g_object_unref (buffers[i]);
    }

  return NULL;
}

/* The number of live buffers is plausible while other threads recycle buffers. */
static void
recycle_counts (TestFixture *fixture)
{
  g_autoptr (GpuMemoryPool) pool = make_pool (fixture);
  g_autoptr (GpuBuffer) buffer = take (pool, SIZE);
  Meanwhile meanwhile = { fixture, FALSE };
  GThread *threads[3];

  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    threads[i] = g_thread_new ("recycle", recycle_often, &meanwhile);

  for (guint i = 0; i < N_LISTS; i++)
    {
      g_autoptr (GVariant) live = gpu_debug_list_live_objects ();
      guint32 count = 0;

      g_variant_lookup (live, "buffer", "u", &count);
      g_assert_cmpuint (count, <=, 1 + 2 * G_N_ELEMENTS (threads) * N_BUFFERS);
    }

  g_atomic_int_set (&meanwhile.stop, TRUE);
  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    g_thread_join (threads[i]);
}

static gpointer
list_often (gpointer data)
{
  Meanwhile *meanwhile = data;

  while (!g_atomic_int_get (&meanwhile->stop))
    g_variant_unref (gpu_debug_list_live_objects ());

  return NULL;
}

/* A child can finalize a pool, even if another thread held the lock of the counts of live objects
 * during the fork. */
static void
recycle_forked (TestFixture *fixture)
{
  GpuMemoryPool *pools[N_POOLS];
  Meanwhile meanwhile = { fixture, FALSE };
  GThread *threads[3];

#ifdef __SANITIZE_ADDRESS__
  g_test_skip ("another thread may hold a lock of the address sanitizer during the fork");
  return;
#endif
  for (guint i = 0; i < N_POOLS; i++)
    {
      pools[i] = make_pool (fixture);
      g_object_unref (take (pools[i], SIZE));
    }
  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    threads[i] = g_thread_new ("list", list_often, &meanwhile);
  for (guint i = 0; i < N_FORKS; i++)
    {
      int status = 0;
      pid_t child = fork ();

      g_assert_cmpint (child, >=, 0);
      if (child == 0)
        {
          alarm (TEST_DEADLINE);
          g_object_unref (pools[0]);
          test_end_child (0);
        }
      g_assert_cmpint (waitpid (child, &status, 0), ==, child);
      g_assert_cmpint (status, ==, 0);
    }
  g_atomic_int_set (&meanwhile.stop, TRUE);
  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    g_thread_join (threads[i]);
  for (guint i = 0; i < N_POOLS; i++)
    g_object_unref (pools[i]);
}

int
main (int    argc,
      char **argv)
{
  test_init (&argc, &argv);
  test_add ("data", recycle_data);
  test_add ("in-use", recycle_in_use);
  test_add ("attached", recycle_attached);
  test_add ("revived", recycle_revived);
  test_add ("drop-order", recycle_drop_order);
  test_add ("dropped-elsewhere", recycle_dropped_elsewhere);
  test_add ("handlers", recycle_handlers);
  test_add ("last-references", recycle_last_references);
  test_add ("sliced", recycle_sliced);
  test_add ("counts", recycle_counts);
  test_add ("forked", recycle_forked);

  return test_run ();
}
