/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Memory of captured graphs. While a stream is capturing, the pool makes no call that the driver
 * refuses, on which the stand-in ends the program, and no other request gets memory of the graph
 * before the graph is destroyed. */
#include "config.h"

#ifdef HAVE_CUDA
#include "cuda-driver/cuda-driver.h"
#include "gpumem/cuda/driver/gpu-cuda-types.h"
#endif
#include "test-pool-util.h"

#ifdef HAVE_CUDA

#define KIB    ((gsize) 1 << 10)
#define MIB    ((gsize) 1 << 20)
#define NUMBER 77                   /* of an announced capture */

typedef struct
{
  CUresult (*begin)         (CUstream stream, CUstreamCaptureMode mode);
  CUresult (*end)           (CUstream stream, CUgraph *graph);
  CUresult (*destroy_graph) (CUgraph graph);
} Driver;

typedef struct
{
  Driver         driver;
  GpuContext    *context;
  GpuMemoryPool *pool;
  GpuPoolHooks  *hooks;
  GpuStream     *stream, *other;
  gpointer       a, b;              /* the driver's handles */
} Captured;

static gboolean
setup (Captured *captured, TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  Driver driver = { NULL, };

  *captured = (Captured) { .context = fixture->context };
  if (!test_is_cuda (fixture, GPU_CAPABILITIES_VIRTUAL_MEMORY))
    return FALSE;

  driver.begin = gpumem_cuda_driver_symbol ("cuStreamBeginCapture_v2");
  driver.end = gpumem_cuda_driver_symbol ("cuStreamEndCapture");
  driver.destroy_graph = gpumem_cuda_driver_symbol ("cuGraphDestroy");
  if (driver.begin == NULL || driver.end == NULL || driver.destroy_graph == NULL)
    {
      g_test_skip ("the driver does not capture streams");
      return FALSE;
    }

  captured->driver = driver;
  captured->pool = gpu_memory_pool_new (fixture->context, GPU_MEMORY_POOL_EXPANDABLE,
                                        GPU_MEMORY_FLAGS_NONE, &error);
  g_assert_no_error (error);
  g_object_get (captured->pool, "hooks", &captured->hooks, NULL);
  captured->stream = test_stream (fixture, GPU_STREAM_FLAGS_NON_BLOCKING);
  captured->other = test_stream (fixture, GPU_STREAM_FLAGS_NON_BLOCKING);
  captured->a = (gpointer) (gsize) gpu_stream_get_native_handle (captured->stream);
  captured->b = (gpointer) (gsize) gpu_stream_get_native_handle (captured->other);
  test_assert_ok (gpu_context_push_current (fixture->context, &error), error);

  return TRUE;
}

static guint64
get_figure (Captured *captured, const char *name)
{
  return captured->hooks->get_figure (captured->hooks->pool, name);
}

/* A trim records the fences that show that the work has completed; the next one frees. */
static void
trim_all (Captured *captured)
{
  captured->hooks->trim (captured->hooks->pool, 0);
  test_synchronize (captured->stream);
  test_synchronize (captured->other);
  captured->hooks->trim (captured->hooks->pool, 0);
}

static void
drop_all (Captured *captured)
{
  g_clear_object (&captured->pool);
  g_clear_object (&captured->stream);
  g_clear_object (&captured->other);
  gpu_context_pop_current (captured->context, NULL);
}

static void
teardown (Captured *captured)
{
  trim_all (captured);
  g_assert_cmpuint (get_figure (captured, "active-blocks"), ==, 0);
  g_assert_cmpuint (get_figure (captured, "managed-bytes"), ==, 0);
  captured->hooks->end_stream (captured->hooks->pool, captured->a);
  captured->hooks->end_stream (captured->hooks->pool, captured->b);
  drop_all (captured);
}

/* Returns FALSE if the driver is not the stand-in. */
static gboolean
set_fault (const char *spec)
{
  __typeof__ (&gpumem_cuda_driver_set_fail) set_fail = GPUMEM_CUDA_DRIVER (set_fail);

  return set_fail != NULL && set_fail (spec);
}

static guint
count_user_objects (void)
{
  __typeof__ (&gpumem_cuda_driver_get_live) get_live = GPUMEM_CUDA_DRIVER (get_live);

  return get_live != NULL ? get_live ("user object") : 0;
}

static guint64
take (Captured *captured, gsize size, gpointer stream)
{
  g_autoptr (GError) error = NULL;
  guint64 address = captured->hooks->alloc (captured->hooks->pool, size, stream, &error);

  g_assert_no_error (error);
  g_assert_cmpuint (address, !=, 0);
  return address;
}

static void
drop (Captured *captured, guint64 address, gpointer stream)
{
  g_assert_true (captured->hooks->free (captured->hooks->pool, address, stream));
}

static void
begin (Captured *captured)
{
  g_assert_cmpuint (captured->driver.begin (captured->a, CU_STREAM_CAPTURE_MODE_GLOBAL), ==, 0);
}

static CUgraph
end (Captured *captured)
{
  CUgraph graph = NULL;

  g_assert_cmpuint (captured->driver.end (captured->a, &graph), ==, 0);
  g_assert_nonnull (graph);
  return graph;
}

/* Takes much memory on the other stream. None of it lies in [@address, @address + @size). */
static void
check_private (Captured *captured, guint64 address, gsize size)
{
  guint64 taken[20];

  for (guint i = 0; i < G_N_ELEMENTS (taken); i++)
    {
      taken[i] = take (captured, size, captured->b);
      g_assert_true (taken[i] >= address + size || taken[i] + size <= address);
    }
  for (guint i = 0; i < G_N_ELEMENTS (taken); i++)
    drop (captured, taken[i], captured->b);
}

/* --- a capture that the pool detects ---------------------------------------------------------- */

static void
test_detected (TestFixture *fixture)
{
  guint64 address, kept, start;
  gsize size;
  CUgraph graph;
  Captured captured;

  if (!setup (&captured, fixture))
    return;

  begin (&captured);
  address = take (&captured, MIB, captured.a);
  drop (&captured, address, captured.a);
  /* The graph runs its work in order, so it can reuse its own memory. */
  kept = take (&captured, MIB, captured.a);
  g_assert_cmpuint (kept, ==, address);
  g_assert_true (captured.hooks->lookup (captured.hooks->pool, kept + 1000, &start, &size));
  g_assert_cmpuint (start, ==, kept);
  g_assert_cmpuint (size, ==, MIB);
  check_private (&captured, kept, MIB);
  captured.hooks->trim (captured.hooks->pool, 0);
  graph = end (&captured);

  check_private (&captured, kept, MIB);
  drop (&captured, kept, captured.a);
  trim_all (&captured);
  check_private (&captured, kept, MIB);
  trim_all (&captured);
  g_assert_cmpuint (get_figure (&captured, "managed-bytes"), >=, MIB);

  g_assert_cmpuint (captured.driver.destroy_graph (graph), ==, 0);
  teardown (&captured);
}

/* The memory outlives the graph if the program has not freed it. */
static void
test_kept (TestFixture *fixture)
{
  guint64 address;
  Captured captured;

  if (!setup (&captured, fixture))
    return;

  begin (&captured);
  address = take (&captured, MIB, captured.a);
  g_assert_cmpuint (captured.driver.destroy_graph (end (&captured)), ==, 0);
  trim_all (&captured);
  check_private (&captured, address, MIB);
  drop (&captured, address, captured.b);
  teardown (&captured);
}

/* --- an announced capture --------------------------------------------------------------------- */

static gboolean
is_stream (gpointer stream, gpointer data)
{
  return stream == data;
}

static void
test_announced (TestFixture *fixture)
{
  guint64 address, again;
  g_autoptr (GError) error = NULL;
  GpuPoolHooks *hooks;
  Captured captured;

  if (!setup (&captured, fixture))
    return;

  hooks = captured.hooks;
  g_assert_false (hooks->end_capture (hooks->pool, NUMBER));
  g_assert_false (hooks->release_capture (hooks->pool, NUMBER));
  g_assert_false (hooks->begin_capture (hooks->pool, 0, NULL, NULL, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "0");
  g_clear_error (&error);
  test_assert_ok (hooks->begin_capture (hooks->pool, NUMBER, is_stream, captured.a, NULL, &error),
                  error);
  g_assert_false (hooks->begin_capture (hooks->pool, NUMBER, NULL, NULL, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_BUSY, "77");
  g_clear_error (&error);

  begin (&captured);
  address = take (&captured, MIB, captured.a);
  check_private (&captured, address, MIB);
  g_assert_cmpuint (captured.driver.destroy_graph (end (&captured)), ==, 0);
  g_assert_true (hooks->end_capture (hooks->pool, NUMBER));
  drop (&captured, address, captured.a);

  /* A second graph with the same number shares the memory. */
  test_assert_ok (hooks->begin_capture (hooks->pool, NUMBER, is_stream, captured.a, NULL, &error),
                  error);
  again = take (&captured, MIB, captured.a);
  g_assert_cmpuint (again, ==, address);
  g_assert_true (hooks->end_capture (hooks->pool, NUMBER));
  trim_all (&captured);
  check_private (&captured, address, MIB);

  g_assert_true (hooks->release_capture (hooks->pool, NUMBER));
  g_assert_false (hooks->release_capture (hooks->pool, NUMBER));
  check_private (&captured, address, MIB);
  drop (&captured, again, captured.a);
  teardown (&captured);
}

/* --- memory that is short meanwhile ----------------------------------------------------------- */

/* The pool can only get memory by a wait for the capturing stream, or by moving memory. */
static void
test_short (TestFixture *fixture)
{
  guint64 address;
  g_autoptr (GError) error = NULL;
  CUgraph graph;
  Captured captured;

  if (!setup (&captured, fixture))
    return;

  gpu_memory_pool_set_limit (captured.pool, 8 * MIB);
  drop (&captured, take (&captured, 6 * MIB, captured.a), captured.a);

  begin (&captured);
  g_assert_cmpuint (captured.hooks->alloc (captured.hooks->pool, 5 * MIB, captured.a, &error), ==,
                    0);
  test_assert_gpu_error (error, GPU_ERROR_OUT_OF_DEVICE_MEMORY, "5242880");
  g_clear_error (&error);
  g_assert_cmpuint (captured.hooks->alloc (captured.hooks->pool, 5 * MIB, captured.b, &error), ==,
                    0);
  test_assert_gpu_error (error, GPU_ERROR_OUT_OF_DEVICE_MEMORY, "5242880");
  graph = end (&captured);

  address = take (&captured, 7 * MIB, captured.b);
  drop (&captured, address, captured.b);
  g_assert_cmpuint (captured.driver.destroy_graph (graph), ==, 0);
  teardown (&captured);
}

/* The pool can only get memory after work of the legacy default stream. */
static void
test_legacy (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) blocking = NULL;
  CUgraph graph;
  Captured captured;

  if (!setup (&captured, fixture))
    return;

  blocking = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  captured.a = (gpointer) (gsize) gpu_stream_get_native_handle (blocking);
  gpu_memory_pool_set_limit (captured.pool, 12 * MIB);
  drop (&captured, take (&captured, 6 * MIB, NULL), NULL);

  begin (&captured);
  drop (&captured, take (&captured, 512, captured.a), captured.a);
  g_assert_cmpuint (captured.hooks->alloc (captured.hooks->pool, 5 * MIB, captured.b, &error), ==,
                    0);
  test_assert_gpu_error (error, GPU_ERROR_OUT_OF_DEVICE_MEMORY, "5242880");
  graph = end (&captured);

  drop (&captured, take (&captured, 5 * MIB, captured.b), captured.b);
  g_assert_cmpuint (captured.driver.destroy_graph (graph), ==, 0);
  test_assert_ok (gpu_context_synchronize (captured.context, &error), error);
  trim_all (&captured);
  test_assert_ok (gpu_context_synchronize (captured.context, &error), error);
  teardown (&captured);
}

/* The pool has enough free memory, but would have to move it. */
static void
test_moves (TestFixture *fixture)
{
  guint64 blocks[3], address;
  g_autoptr (GError) error = NULL;
  CUgraph graph;
  Captured captured;

  if (!setup (&captured, fixture))
    return;

  gpu_memory_pool_set_limit (captured.pool, 12 * MIB);
  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    blocks[i] = take (&captured, 2 * MIB, captured.b);
  drop (&captured, blocks[0], captured.b);
  drop (&captured, blocks[2], captured.b);

  begin (&captured);
  drop (&captured, take (&captured, 512, captured.a), captured.a);
  for (guint i = 0; i < 3; i++)
    {
      g_assert_cmpuint (captured.hooks->alloc (captured.hooks->pool, 6 * MIB, captured.b, &error),
                        ==, 0);
      test_assert_gpu_error (error, GPU_ERROR_OUT_OF_DEVICE_MEMORY, "6291456");
      g_clear_error (&error);
    }
  graph = end (&captured);

  g_assert_cmpuint (captured.driver.destroy_graph (graph), ==, 0);
  trim_all (&captured);
  address = take (&captured, 8 * MIB, captured.b);
  drop (&captured, address, captured.b);
  drop (&captured, blocks[1], captured.b);
  teardown (&captured);
}

/* The pool is dropped before the graph. */
static void
test_dropped (TestFixture *fixture)
{
  CUgraph graph;
  Captured captured;

  if (!setup (&captured, fixture))
    return;

  begin (&captured);
  take (&captured, MIB, captured.a);
  drop (&captured, take (&captured, MIB, captured.a), captured.a);
  graph = end (&captured);
  g_clear_object (&captured.pool);
  g_assert_cmpuint (captured.driver.destroy_graph (graph), ==, 0);
  drop_all (&captured);
}

/* --- replays that are pending ----------------------------------------------------------------- */

static gpointer
release (gpointer data)
{
  Captured *captured = data;

  g_assert_true (captured->hooks->release_capture (captured->hooks->pool, NUMBER));
  return NULL;
}

/* While a replay is pending on a stream that the pool does not know, no other request gets memory
 * of the graph. */
static void
test_pending (TestFixture *fixture)
{
  guint64 address;
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) replay = NULL;
  GThread *thread;
  TestHold *hold;
  Captured captured;

  if (!test_can_hold (fixture) || !setup (&captured, fixture))
    return;

  test_assert_ok (captured.hooks->begin_capture (captured.hooks->pool, NUMBER, is_stream,
                                                 captured.a, NULL, &error), error);
  begin (&captured);
  address = take (&captured, MIB, captured.a);
  drop (&captured, address, captured.a);
  g_assert_cmpuint (captured.driver.destroy_graph (end (&captured)), ==, 0);
  g_assert_true (captured.hooks->end_capture (captured.hooks->pool, NUMBER));

  replay = test_stream (fixture, GPU_STREAM_FLAGS_NON_BLOCKING);
  hold = test_hold (replay);
  thread = g_thread_new ("release", release, &captured);
  g_usleep (100000);
  check_private (&captured, address, MIB);
  test_hold_release (hold);
  g_thread_join (thread);
  test_hold_free (hold);
  teardown (&captured);
}

/* The pool is dropped while a stream is capturing for another pool. Its memory returns later. */
static void
test_dropped_meanwhile (TestFixture *fixture)
{
  guint64 address;
  g_autoptr (GError) error = NULL;
  GpuMemoryPool *pool;
  GpuPoolHooks *hooks = NULL;
  CUgraph graph;
  Captured captured;

  if (!setup (&captured, fixture))
    return;

  pool = gpu_memory_pool_new (fixture->context, GPU_MEMORY_POOL_EXPANDABLE, GPU_MEMORY_FLAGS_NONE,
                              &error);
  g_assert_no_error (error);
  g_object_get (pool, "hooks", &hooks, NULL);
  test_assert_ok (hooks->begin_capture (hooks->pool, NUMBER, NULL, NULL, NULL, &error), error);
  address = hooks->alloc (hooks->pool, MIB, NULL, &error);
  g_assert_no_error (error);
  g_assert_true (hooks->free (hooks->pool, address, NULL));
  g_assert_true (hooks->end_capture (hooks->pool, NUMBER));

  begin (&captured);
  drop (&captured, take (&captured, MIB, captured.a), captured.a);
  g_object_unref (pool);
  graph = end (&captured);
  g_assert_cmpuint (captured.driver.destroy_graph (graph), ==, 0);
  teardown (&captured);
}

/* The stream of a capture ends before the capture is known to have ended. */
static void
test_ended_stream (TestFixture *fixture)
{
  guint64 address;
  CUgraph graph;
  Captured captured;

  if (!setup (&captured, fixture))
    return;

  begin (&captured);
  address = take (&captured, MIB, captured.a);
  graph = end (&captured);
  captured.hooks->end_stream (captured.hooks->pool, captured.a);
  g_clear_object (&captured.stream);

  check_private (&captured, address, MIB);
  drop (&captured, address, captured.a);
  g_assert_cmpuint (captured.driver.destroy_graph (graph), ==, 0);
  captured.stream = g_object_ref (captured.other);
  captured.a = captured.b;
  teardown (&captured);
}

/* Free memory of a graph is not found. */
static void
test_lookup (TestFixture *fixture)
{
  guint64 address;
  Captured captured;

  if (!setup (&captured, fixture))
    return;

  begin (&captured);
  address = take (&captured, MIB, captured.a);
  g_assert_true (captured.hooks->lookup (captured.hooks->pool, address + 100, NULL, NULL));
  drop (&captured, address, captured.a);
  g_assert_false (captured.hooks->lookup (captured.hooks->pool, address, NULL, NULL));
  g_assert_false (captured.hooks->lookup (captured.hooks->pool, address + 100, NULL, NULL));
  g_assert_cmpuint (captured.driver.destroy_graph (end (&captured)), ==, 0);
  teardown (&captured);
}

static gboolean
release_graph (GpuMemoryPool *pool G_GNUC_UNUSED, guint64 requested G_GNUC_UNUSED,
               gpointer data G_GNUC_UNUSED)
{
  g_assert_not_reached ();
  return FALSE;
}

/* A request that finds no memory gets that of destroyed graphs, without the signal. */
static void
test_room (TestFixture *fixture)
{
  guint64 address;
  CUgraph graph;
  Captured captured;

  if (!setup (&captured, fixture))
    return;

  gpu_memory_pool_set_limit (captured.pool, 40 * MIB);
  begin (&captured);
  drop (&captured, take (&captured, 30 * MIB, captured.a), captured.a);
  graph = end (&captured);
  g_assert_cmpuint (captured.driver.destroy_graph (graph), ==, 0);
  g_signal_connect (captured.pool, "out-of-memory", G_CALLBACK (release_graph), NULL);
  address = take (&captured, 36 * MIB, captured.b);
  drop (&captured, address, captured.b);
  teardown (&captured);
}

/* Memory for the per-thread default stream is ordered as for the legacy default stream, so that it
 * cannot belong to a graph. */
static void
test_per_thread (TestFixture *fixture)
{
  const gpointer per_thread = GSIZE_TO_POINTER (GPU_STREAM_HANDLE_PER_THREAD);
  gpointer own;
  g_autoptr (GError) error = NULL;
  CUgraph graph;
  Captured captured;

  if (!setup (&captured, fixture))
    return;

  own = captured.a;
  captured.a = per_thread;
  drop (&captured, take (&captured, MIB, per_thread), per_thread);
  begin (&captured);
  g_assert_cmpuint (captured.hooks->alloc (captured.hooks->pool, MIB, per_thread, &error), ==, 0);
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "GpuPoolHooks", "per-thread");
  graph = end (&captured);
  g_assert_cmpuint (captured.driver.destroy_graph (graph), ==, 0);
  drop (&captured, take (&captured, MIB, per_thread), per_thread);
  captured.a = own;
  test_assert_ok (gpu_context_synchronize (captured.context, &error), error);
  trim_all (&captured);
  test_assert_ok (gpu_context_synchronize (captured.context, &error), error);
  teardown (&captured);
}

/* --- threads ---------------------------------------------------------------------------------- */

typedef struct
{
  Captured *captured;
  gint      stopped;                /* atomic */
  gint      n;                      /* atomic: allocations so far */
} Allocating;

static gpointer
allocate (gpointer data)
{
  Allocating *allocating = data;
  Captured *captured = allocating->captured;
  guint64 held = 0;

  while (!g_atomic_int_get (&allocating->stopped))
    {
      guint64 address = take (captured, 1000 + 64 * KIB * (g_atomic_int_get (&allocating->n) % 3),
                              captured->b);

      if (held != 0)
        drop (captured, held, captured->b);
      held = address;
      g_atomic_int_inc (&allocating->n);
    }
  if (held != 0)
    drop (captured, held, captured->b);
  return NULL;
}

/* A capture is released while threads allocate from it. The threads get memory of the capture or
 * of the pool, and no memory is lost. */
static void
test_released_meanwhile (TestFixture *fixture)
{
  Allocating allocating = { NULL, };
  g_autoptr (GError) error = NULL;
  GpuPoolHooks *hooks;
  GThread *threads[3];
  Captured captured;

  if (!setup (&captured, fixture))
    return;

  hooks = captured.hooks;
  allocating.captured = &captured;
  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    threads[i] = g_thread_new ("allocate", allocate, &allocating);
  for (guint i = 0; i < 2000; i++)
    {
      const gint before = g_atomic_int_get (&allocating.n);

      test_assert_ok (hooks->begin_capture (hooks->pool, NUMBER, is_stream, captured.b, NULL,
                                            &error), error);
      while (g_atomic_int_get (&allocating.n) - before < (gint) i % 4)
        g_thread_yield ();
      if (i % 2 == 0)
        g_assert_true (hooks->end_capture (hooks->pool, NUMBER));
      g_assert_true (hooks->release_capture (hooks->pool, NUMBER));
      g_assert_false (hooks->release_capture (hooks->pool, NUMBER));
    }
  g_atomic_int_set (&allocating.stopped, TRUE);
  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    g_thread_join (threads[i]);
  teardown (&captured);
}

/* --- the history ------------------------------------------------------------------------------ */

/* The event at @place of the history is this one. */
static void
check_event (GVariant *events, gsize place, const char *action, guint64 address, guint64 size)
{
  g_autoptr (GVariant) event = g_variant_get_child_value (events, place);
  const char *name;
  guint64 value;
  guint32 stream;

  g_assert_true (g_variant_lookup (event, "action", "&s", &name));
  g_assert_cmpstr (name, ==, action);
  g_assert_true (g_variant_lookup (event, "address", "t", &value));
  g_assert_cmpuint (value, ==, address);
  g_assert_true (g_variant_lookup (event, "size", "t", &value));
  g_assert_cmpuint (value, ==, size);
  g_assert_true (g_variant_lookup (event, "stream", "u", &stream));
}

/* The history has the blocks of a graph, besides the larger blocks that the graph owns. */
static void
test_history (TestFixture *fixture)
{
  guint64 address;
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) events = NULL;
  gsize n;
  Captured captured;

  if (!setup (&captured, fixture))
    return;

  test_assert_ok (gpu_memory_pool_set_history_size (captured.pool, 100, &error), error);
  begin (&captured);
  address = take (&captured, 5000, captured.a);
  drop (&captured, address, captured.a);
  g_assert_cmpuint (captured.driver.destroy_graph (end (&captured)), ==, 0);
  events = gpu_memory_pool_get_history (captured.pool);
  n = g_variant_n_children (events);
  g_assert_cmpuint (n, >=, 3);
  check_event (events, n - 2, "graph_alloc", address, 5000);
  check_event (events, n - 1, "graph_free", address, 5000);
  test_assert_ok (gpu_memory_pool_set_history_size (captured.pool, 0, &error), error);
  teardown (&captured);
}

/* If the driver cannot report that the graph is destroyed, the memory stays in use until the pool
 * is dropped, and the object of the driver for the report is freed. */
static void
test_not_retained (TestFixture *fixture)
{
  guint live;
  CUgraph graph;
  Captured captured;

  if (!setup (&captured, fixture))
    return;

  live = count_user_objects ();
  if (!set_fault ("cuGraphRetainUserObject:1:999"))
    {
      g_test_skip ("the driver is not the stand-in");
      teardown (&captured);
      return;
    }
  begin (&captured);
  drop (&captured, take (&captured, MIB, captured.a), captured.a);
  set_fault ("");
  g_assert_cmpuint (count_user_objects (), ==, live);
  graph = end (&captured);
  g_assert_cmpuint (captured.driver.destroy_graph (graph), ==, 0);
  trim_all (&captured);
  g_assert_cmpuint (get_figure (&captured, "managed-bytes"), >=, MIB);
  drop_all (&captured);
}

#endif

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
#ifdef HAVE_CUDA
  test_add ("detected", test_detected);
  test_add ("kept", test_kept);
  test_add ("announced", test_announced);
  test_add ("short", test_short);
  test_add ("legacy", test_legacy);
  test_add ("moves", test_moves);
  test_add ("dropped", test_dropped);
  test_add ("pending", test_pending);
  test_add ("dropped-meanwhile", test_dropped_meanwhile);
  test_add ("ended-stream", test_ended_stream);
  test_add ("lookup", test_lookup);
  test_add ("room", test_room);
  test_add ("per-thread", test_per_thread);
  test_add ("released-meanwhile", test_released_meanwhile);
  test_add ("history", test_history);
  test_add ("not-retained", test_not_retained);
#endif

  return test_run ();
}
