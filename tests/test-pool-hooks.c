/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The functions of a pool for other libraries: addresses and streams of the driver, freed and used
 * by any thread, under the limits and the counters of the pool. */
#include "config.h"

#ifdef HAVE_CUDA
#include "cuda-driver/cuda-driver.h"
#endif
#include "test-pool-hooks-util.h"

#define MIB       ((gsize) 1 << 20)
#define N_THREADS 4

static gboolean
setup (TestHooks *hooked, TestFixture *fixture)
{
  return test_hooks_init (hooked, fixture, GPU_MEMORY_POOL_AUTOMATIC, GPU_STREAM_FLAGS_NONE);
}

static void
trim_all (TestHooks *hooked)
{
  test_hooks_trim (hooked);
  g_assert_cmpuint (test_hooks_get_figure (hooked, "managed-bytes"), ==, 0);
}

/* Work of another library: the pool does not know the buffer. */
static GpuBuffer *
wrap (TestFixture *fixture, guint64 address, gsize size)
{
  g_autoptr (GError) error = NULL;
  GpuBuffer *buffer = gpu_buffer_new_wrapped (fixture->context, address, size,
                                              GPU_WRAP_MODE_BORROW, NULL, &error);

  g_assert_no_error (error);
  return buffer;
}

/* Fills memory on a stream as another library does. On CUDA, the library does not see the work, so
 * that it cannot order it. */
static void
fill (TestFixture *fixture, GpuStream *stream, guint64 address, guint8 value, gsize size)
{
  g_autoptr (GError) error = NULL;
#ifdef HAVE_CUDA
  guint (*set) (guint64, guchar, gsize, gpointer) = NULL;

  if (g_str_equal (gpu_device_get_backend (fixture->device), "cuda"))
    set = gpumem_cuda_driver_symbol ("cuMemsetD8Async");

  if (set != NULL)
    {
      test_assert_ok (gpu_context_push_current (fixture->context, &error), error);
      g_assert_cmpuint (set (address, value, size, test_hooks_get_handle (stream)), ==, 0);
      gpu_context_pop_current (fixture->context, NULL);
      return;
    }
#endif
  {
    g_autoptr (GpuBuffer) buffer = wrap (fixture, address, size);

    test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (buffer), 0, size, &value, 1, &error),
                    error);
  }
}

static void
check_filled (TestFixture *fixture, guint64 address, guint8 value, gsize size)
{
  g_autoptr (GpuBuffer) buffer = wrap (fixture, address, size);
  g_autoptr (GBytes) content = test_content (buffer);

  test_assert_value (g_bytes_get_data (content, NULL), value, size);
}

static void
test_addresses (TestFixture *fixture)
{
  guint64 address, start = 1;
  gsize size = 1;
  g_autoptr (GError) error = NULL;
  TestHooks hooked;

  if (!setup (&hooked, fixture))
    return;

  address = test_hooks_take (&hooked, 3 * MIB + 5, hooked.a);
  g_assert_cmpuint (test_hooks_get_figure (&hooked, "active-blocks"), ==, 1);
  g_assert_cmpuint (test_hooks_get_figure (&hooked, "active-bytes"), ==, 3 * MIB + 5);
  g_assert_cmpuint (test_hooks_get_figure (&hooked, "no-such-figure"), ==, 0);

  g_assert_true (hooked.hooks->lookup (hooked.hooks->pool, address, &start, &size));
  g_assert_cmpuint (start, ==, address);
  g_assert_cmpuint (size, ==, 3 * MIB + 5);
  g_assert_true (hooked.hooks->lookup (hooked.hooks->pool, address + 3 * MIB, &start, &size));
  g_assert_cmpuint (start, ==, address);
  g_assert_cmpuint (size, ==, 3 * MIB + 5);
  g_assert_false (hooked.hooks->lookup (hooked.hooks->pool, address + 3 * MIB + 5, &start, &size));
  g_assert_false (hooked.hooks->lookup (hooked.hooks->pool, 4096, NULL, NULL));

  g_assert_false (hooked.hooks->free (hooked.hooks->pool, address + 512, hooked.a));
  test_hooks_drop (&hooked, address, hooked.a);
  g_assert_false (hooked.hooks->free (hooked.hooks->pool, address, hooked.a));
  g_assert_false (hooked.hooks->lookup (hooked.hooks->pool, address, NULL, NULL));
  g_assert_false (hooked.hooks->add_stream (hooked.hooks->pool, address, hooked.b, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "add_stream");
  g_clear_error (&error);

  g_assert_cmpuint (hooked.hooks->alloc (hooked.hooks->pool, 0, hooked.a, &error), ==, 0);
  g_assert_no_error (error);
  g_assert_cmpuint (test_hooks_get_figure (&hooked, "active-blocks"), ==, 0);
  trim_all (&hooked);
  test_hooks_clear (&hooked);
}

/* The second stream gets memory that the first stream still writes. */
static void
check_order (TestFixture *fixture, gboolean by_add_stream)
{
  g_autoptr (GError) error = NULL;
  TestHold *hold;
  guint64 address;
  TestHooks hooked;

  if (!test_can_hold (fixture) || !setup (&hooked, fixture))
    return;

  gpu_memory_pool_set_limit (hooked.pool, 4 * MIB);
  address = test_hooks_take (&hooked, 3 * MIB, by_add_stream ? hooked.b : hooked.a);
  if (by_add_stream)
    test_assert_ok (hooked.hooks->add_stream (hooked.hooks->pool, address, hooked.a, &error),
                    error);
  hold = test_hold (hooked.first);
  fill (fixture, hooked.first, address, 1, 3 * MIB);
  test_hooks_drop (&hooked, address, by_add_stream ? hooked.b : hooked.a);
  test_hold_release (hold);

  address = test_hooks_take (&hooked, 3 * MIB, hooked.b);
  fill (fixture, hooked.second, address, 2, 3 * MIB);
  test_synchronize (hooked.second);
  test_synchronize (hooked.first);
  check_filled (fixture, address, 2, 3 * MIB);

  test_hooks_drop (&hooked, address, hooked.b);
  test_hold_free (hold);
  test_hooks_clear (&hooked);
}

static void
test_order (TestFixture *fixture)
{
  check_order (fixture, FALSE);
}

/* Work of the next user of the memory runs after pending work of an added stream, if it gets the
 * same memory. */
static void
check_pending (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  TestHold *hold;
  guint64 address;
  TestHooks hooked;

  if (!test_can_hold (fixture) || !setup (&hooked, fixture))
    return;

  if (hooked.a != NULL)
    {
      /* A pool may grow to the peak of its use without a wait for the work that is held. */
      address = test_hooks_take (&hooked, 16 * MIB, hooked.b);
      test_hooks_drop (&hooked, address, hooked.b);
      trim_all (&hooked);

      address = test_hooks_take (&hooked, 3 * MIB, hooked.b);
      test_assert_ok (hooked.hooks->add_stream (hooked.hooks->pool, address, hooked.a, &error),
                      error);
      hold = test_hold (hooked.first);
      fill (fixture, hooked.first, address, 1, 3 * MIB);
      test_hooks_drop (&hooked, address, hooked.b);

      address = test_hooks_take (&hooked, 3 * MIB, hooked.b);
      fill (fixture, hooked.second, address, 2, 3 * MIB);
      test_hold_release (hold);
      test_synchronize (hooked.first);
      test_synchronize (hooked.second);
      test_hold_free (hold);
      check_filled (fixture, address, 2, 3 * MIB);
      test_hooks_drop (&hooked, address, hooked.b);
      trim_all (&hooked);
    }

  test_hooks_clear (&hooked);
}

static void
test_added_stream (TestFixture *fixture)
{
  check_pending (fixture);
  check_order (fixture, TRUE);
}

static gboolean
free_one (GpuMemoryPool *pool, guint64 requested, gpointer data)
{
  GpuPoolHooks *hooks = NULL;
  guint64 *address = data;

  g_assert_cmpuint (requested, ==, 6 * MIB);
  g_object_get (pool, "hooks", &hooks, NULL);
  if (*address == 0 || !hooks->free (hooks->pool, *address, NULL))
    return FALSE;
  *address = 0;
  return TRUE;
}

static void
test_limit (TestFixture *fixture)
{
  guint64 held, address;
  g_autoptr (GError) error = NULL;
  gulong handler;
  TestHooks hooked;

  if (!setup (&hooked, fixture))
    return;

  gpu_memory_pool_set_limit (hooked.pool, 8 * MIB);
  held = test_hooks_take (&hooked, 6 * MIB, NULL);
  g_assert_cmpuint (hooked.hooks->alloc (hooked.hooks->pool, 6 * MIB, NULL, &error), ==, 0);
  test_assert_gpu_error (error, GPU_ERROR_OUT_OF_DEVICE_MEMORY, "6291456");

  handler = g_signal_connect (hooked.pool, "out-of-memory", G_CALLBACK (free_one), &held);
  address = test_hooks_take (&hooked, 6 * MIB, NULL);
  g_signal_handler_disconnect (hooked.pool, handler);
  g_assert_cmpuint (test_hooks_get_figure (&hooked, "active-blocks"), ==, 1);
  g_assert_cmpuint (test_hooks_get_figure (&hooked, "peak-managed-bytes"), <=, 8 * MIB);

  /* The pool frees the rest. */
  g_assert_cmpuint (address, !=, 0);
  test_hooks_clear (&hooked);
}

/* --- threads ---------------------------------------------------------------------------------- */

typedef struct
{
  TestHooks   *hooked;
  GAsyncQueue *queue;               /* of addresses that another thread frees */
  guint        number;
} Worker;

static gpointer
work (gpointer data)
{
  Worker *worker = data;
  TestHooks *hooked = worker->hooked;
  gpointer stream = worker->number % 2 == 0 ? hooked->a : hooked->b;

  for (guint i = 0; i < 3000; i++)
    {
      gsize size = 1 + (i * 7919 + worker->number * 104729) % (i % 50 == 0 ? 3 * MIB : 20000);
      guint64 address = test_hooks_take (hooked, size, stream), start;
      gsize found;
      gpointer other;

      g_assert_true (hooked->hooks->lookup (hooked->hooks->pool, address, &start, &found));
      g_assert_cmpuint (start, ==, address);
      g_assert_cmpuint (found, ==, size);
      g_async_queue_push (worker->queue, GSIZE_TO_POINTER (address));
      other = i >= 20 ? g_async_queue_try_pop (worker->queue) : NULL;
      if (other != NULL)
        test_hooks_drop (hooked, GPOINTER_TO_SIZE (other),
                                            stream);
    }

  return NULL;
}

static void
run_workers (TestHooks *hooked, GThreadFunc func, GAsyncQueue *queue)
{
  GThread *threads[N_THREADS];
  Worker workers[N_THREADS];

  for (guint i = 0; i < N_THREADS; i++)
    {
      workers[i] = (Worker) { hooked, queue, i };
      threads[i] = g_thread_new ("hooks", func, &workers[i]);
    }
  for (guint i = 0; i < N_THREADS; i++)
    g_thread_join (threads[i]);
}

/* Memory is freed on other threads and streams than it was allocated on. */
static void
test_threads (TestFixture *fixture)
{
  g_autoptr (GAsyncQueue) queue = g_async_queue_new ();
  gpointer address;
  TestHooks hooked;

  if (!setup (&hooked, fixture))
    return;

  run_workers (&hooked, work, queue);

  while ((address = g_async_queue_try_pop (queue)) != NULL)
    test_hooks_drop (&hooked, GPOINTER_TO_SIZE (address), hooked.a);
  g_assert_cmpuint (test_hooks_get_figure (&hooked, "active-blocks"), ==, 0);
  g_assert_cmpuint (test_hooks_get_figure (&hooked, "active-bytes"), ==, 0);
  trim_all (&hooked);
  test_hooks_clear (&hooked);
}

/* --- ended streams ---------------------------------------------------------------------------- */

static void
test_ended (TestFixture *fixture)
{
  guint64 address;
  TestHooks hooked;

  if (!setup (&hooked, fixture))
    return;

  for (guint i = 0; i < 20; i++)
    {
      g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
      gpointer handle = test_hooks_get_handle (stream);

      address = test_hooks_take (&hooked, 3 * MIB, handle);
      test_hooks_drop (&hooked, address, handle);
      test_synchronize (stream);
      hooked.hooks->end_stream (hooked.hooks->pool, handle);
      hooked.hooks->end_stream (hooked.hooks->pool, handle);
    }

  address = test_hooks_take (&hooked, 3 * MIB, hooked.a);
  g_assert_cmpuint (test_hooks_get_figure (&hooked, "managed-bytes"), <, 20 * MIB);
  test_hooks_drop (&hooked, address, hooked.a);
  test_hooks_clear (&hooked);
}

/* A free may name a stream that has ended and that the driver has destroyed. Its work that was
 * submitted before still delays the reuse of the memory. */
static void
test_free_after_end (TestFixture *fixture)
{
  guint64 address;
  GpuStream *stream;
  gpointer handle;
  TestHold *hold;
  TestHooks hooked;

  if (!test_can_hold (fixture) || !setup (&hooked, fixture))
    return;
  if (hooked.a == NULL)
    {
      test_hooks_clear (&hooked);
      g_test_skip ("the device has no handles of streams");
      return;
    }

  stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  handle = test_hooks_get_handle (stream);
  gpu_memory_pool_set_limit (hooked.pool, 4 * MIB);
  test_hooks_drop (&hooked, test_hooks_take (&hooked, 512, handle), handle);
  address = test_hooks_take (&hooked, 3 * MIB, hooked.a);
  hold = test_hold (stream);
  fill (fixture, stream, address, 1, 3 * MIB);
  hooked.hooks->end_stream (hooked.hooks->pool, handle);
  test_hold_release (hold);
  g_object_unref (stream);

  test_hooks_drop (&hooked, address, handle);
  address = test_hooks_take (&hooked, 3 * MIB, hooked.b);
  fill (fixture, hooked.second, address, 2, 3 * MIB);
  test_synchronize (hooked.second);
  check_filled (fixture, address, 2, 3 * MIB);
  test_hooks_drop (&hooked, address, hooked.b);
  test_hold_free (hold);
  test_hooks_clear (&hooked);
}

static gpointer
use_and_end (gpointer data)
{
  Worker *worker = data;
  TestHooks *hooked = worker->hooked;

  for (guint i = 0; i < 500; i++)
    {
      guint64 address = test_hooks_take (hooked, 1 + i * 100, hooked->a);

      if (i % 4 == worker->number)
        hooked->hooks->end_stream (hooked->hooks->pool, hooked->a);
      test_hooks_drop (hooked, address, hooked->a);
    }

  return NULL;
}

/* A stream ends while other threads use it. */
static void
test_ended_by_threads (TestFixture *fixture)
{
  TestHooks hooked;

  if (!setup (&hooked, fixture))
    return;

  run_workers (&hooked, use_and_end, NULL);

  g_assert_cmpuint (test_hooks_get_figure (&hooked, "active-blocks"), ==, 0);
  test_hooks_clear (&hooked);
}

/* Memory for the per-thread default stream, and its frees, are ordered with the legacy one. */
static void
test_per_thread (TestFixture *fixture)
{
  gpointer per_thread = GSIZE_TO_POINTER (GPU_STREAM_HANDLE_PER_THREAD);
  g_autoptr (GError) error = NULL;
  guint64 address;
  TestHooks hooked;

  if (!test_is_cuda (fixture, 0) || !setup (&hooked, fixture))
    return;

  address = test_hooks_take (&hooked, MIB, per_thread);
  test_assert_ok (hooked.hooks->add_stream (hooked.hooks->pool, address, per_thread, &error),
                  error);
  test_hooks_drop (&hooked, address, per_thread);
  g_assert_cmpuint (test_hooks_take (&hooked, MIB, NULL), ==, address);
  test_hooks_drop (&hooked, address, NULL);
  test_hooks_clear (&hooked);
}

/* The driver cannot report the id of a stream on its first use, which is a free. The stream keeps
 * its record when the id is known, so that the pool does not wait for the device. */
static void
test_unknown_id (TestFixture *fixture)
{
#ifdef HAVE_CUDA
  guint64 address;
  guint64 n_waits;
  TestHooks hooked;

  if (gpumem_cuda_driver_symbol ("gpumem_cuda_driver_set_fail") == NULL
      || !test_is_cuda (fixture, 0))
    {
      g_test_skip ("only the stand-in can fail");
      return;
    }
  if (!setup (&hooked, fixture))
    return;

  address = test_hooks_take (&hooked, MIB, hooked.a);
  g_assert_true (GPUMEM_CUDA_DRIVER (set_fail) ("cuStreamGetId:1:999"));
  test_hooks_drop (&hooked, address, hooked.b);
  GPUMEM_CUDA_DRIVER (set_fail) ("");
  n_waits = GPUMEM_CUDA_DRIVER (get_count) ("cuCtxSynchronize");

  address = test_hooks_take (&hooked, MIB, hooked.b);
  g_assert_cmpuint (GPUMEM_CUDA_DRIVER (get_count) ("cuCtxSynchronize"), ==, n_waits);
  test_hooks_drop (&hooked, address, hooked.b);
  test_hooks_clear (&hooked);
#else
  g_test_skip ("built without CUDA");
#endif
}

/* The driver gives the handle of a destroyed stream to a new stream. */
static void
test_reused_handle (TestFixture *fixture)
{
#ifdef HAVE_CUDA
  TestHold *hold;
  guint64 address;
  guint64 n_waits;
  TestHooks hooked;

  if (gpumem_cuda_driver_symbol ("gpumem_cuda_driver_renew_stream") == NULL
      || !test_is_cuda (fixture, 0))
    {
      g_test_skip ("only the stand-in can reuse the handle of a stream");
      return;
    }
  if (!test_can_hold (fixture) || !setup (&hooked, fixture))
    return;

  gpu_memory_pool_set_limit (hooked.pool, 4 * MIB);
  address = test_hooks_take (&hooked, 3 * MIB, hooked.a);
  hold = test_hold (hooked.first);
  fill (fixture, hooked.first, address, 1, 3 * MIB);
  test_hooks_drop (&hooked, address, hooked.a);
  test_hold_release (hold);
  GPUMEM_CUDA_DRIVER (renew_stream) ((gsize) hooked.a);
  n_waits = GPUMEM_CUDA_DRIVER (get_count) ("cuCtxSynchronize");

  address = test_hooks_take (&hooked, 3 * MIB, hooked.a);
  g_assert_cmpuint (GPUMEM_CUDA_DRIVER (get_count) ("cuCtxSynchronize"), ==, n_waits + 1);
  fill (fixture, hooked.second, address, 2, 3 * MIB);
  test_synchronize (hooked.second);
  test_synchronize (hooked.first);
  check_filled (fixture, address, 2, 3 * MIB);
  test_hooks_drop (&hooked, address, hooked.b);
  test_hold_free (hold);
  test_hooks_clear (&hooked);
#else
  g_test_skip ("built without CUDA");
#endif
}

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
  test_add ("addresses", test_addresses);
  test_add ("order", test_order);
  test_add ("added-stream", test_added_stream);
  test_add ("limit", test_limit);
  test_add ("threads", test_threads);
  test_add ("ended", test_ended);
  test_add ("free-after-end", test_free_after_end);
  test_add ("ended-by-threads", test_ended_by_threads);
  test_add ("per-thread", test_per_thread);
  test_add ("unknown-id", test_unknown_id);
  test_add ("reused-handle", test_reused_handle);

  return test_run ();
}
