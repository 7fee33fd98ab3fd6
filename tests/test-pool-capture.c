/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Memory of captured graphs. While a stream is capturing, the pool makes no call that the driver
 * refuses, on which the stand-in ends the program, and no other request gets memory of the graph
 * before the graph is destroyed. */
#include "config.h"

#ifdef HAVE_CUDA
#include "test-capture-util.h"
#endif
#include "test-pool-hooks-util.h"

#ifdef HAVE_CUDA

#define KIB    ((gsize) 1 << 10)
#define MIB    ((gsize) 1 << 20)
#define NUMBER 77                   /* of an announced capture */

static void
check_empty (TestHooks *captured)
{
  test_hooks_trim (captured);
  g_assert_cmpuint (test_hooks_get_figure (captured, "active-blocks"), ==, 0);
  g_assert_cmpuint (test_hooks_get_figure (captured, "managed-bytes"), ==, 0);
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

static void
begin (TestHooks *captured)
{
  test_capture_begin (captured->a, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

/* Takes much memory on the other stream. None of it lies in [@address, @address + @size). */
static void
check_private (TestHooks *captured, guint64 address, gsize size)
{
  guint64 taken[20];

  for (guint i = 0; i < G_N_ELEMENTS (taken); i++)
    {
      taken[i] = test_hooks_take (captured, size, captured->b);
      g_assert_true (taken[i] >= address + size || taken[i] + size <= address);
    }
  for (guint i = 0; i < G_N_ELEMENTS (taken); i++)
    test_hooks_drop (captured, taken[i], captured->b);
}

/* --- a capture that the pool detects ---------------------------------------------------------- */

static void
capture_detected (TestHooks *captured)
{
  guint64 address, kept, start;
  gsize size;
  CUgraph graph;

  begin (captured);
  address = test_hooks_take (captured, MIB, captured->a);
  test_hooks_drop (captured, address, captured->a);
  /* The graph runs its work in order, so it can reuse its own memory. */
  kept = test_hooks_take (captured, MIB, captured->a);
  g_assert_cmpuint (kept, ==, address);
  g_assert_true (captured->hooks->lookup (captured->hooks->pool, kept + 1000, &start, &size));
  g_assert_cmpuint (start, ==, kept);
  g_assert_cmpuint (size, ==, MIB);
  check_private (captured, kept, MIB);
  captured->hooks->trim (captured->hooks->pool, 0);
  graph = test_capture_end (captured->a);

  check_private (captured, kept, MIB);
  test_hooks_drop (captured, kept, captured->a);
  test_hooks_trim (captured);
  check_private (captured, kept, MIB);
  test_hooks_trim (captured);
  g_assert_cmpuint (test_hooks_get_figure (captured, "managed-bytes"), >=, MIB);

  test_graph_destroy (graph);
}

/* The memory outlives the graph if the program has not freed it. */
static void
capture_kept (TestHooks *captured)
{
  guint64 address;

  begin (captured);
  address = test_hooks_take (captured, MIB, captured->a);
  test_graph_destroy (test_capture_end (captured->a));
  test_hooks_trim (captured);
  check_private (captured, address, MIB);
  test_hooks_drop (captured, address, captured->b);
}

/* --- an announced capture --------------------------------------------------------------------- */

static gboolean
is_stream (gpointer stream, gpointer data)
{
  return stream == data;
}

static void
capture_announced (TestHooks *captured)
{
  guint64 address, again;
  g_autoptr (GError) error = NULL;
  GpuPoolHooks *hooks = captured->hooks;

  g_assert_false (hooks->end_capture (hooks->pool, NUMBER));
  g_assert_false (hooks->release_capture (hooks->pool, NUMBER));
  g_assert_false (hooks->begin_capture (hooks->pool, 0, NULL, NULL, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "0");
  g_clear_error (&error);
  test_assert_ok (hooks->begin_capture (hooks->pool, NUMBER, is_stream, captured->a, NULL, &error),
                  error);
  g_assert_false (hooks->begin_capture (hooks->pool, NUMBER, NULL, NULL, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_BUSY, "77");
  g_clear_error (&error);

  begin (captured);
  address = test_hooks_take (captured, MIB, captured->a);
  check_private (captured, address, MIB);
  test_graph_destroy (test_capture_end (captured->a));
  g_assert_true (hooks->end_capture (hooks->pool, NUMBER));
  test_hooks_drop (captured, address, captured->a);

  /* A second graph with the same number shares the memory. */
  test_assert_ok (hooks->begin_capture (hooks->pool, NUMBER, is_stream, captured->a, NULL, &error),
                  error);
  again = test_hooks_take (captured, MIB, captured->a);
  g_assert_cmpuint (again, ==, address);
  g_assert_true (hooks->end_capture (hooks->pool, NUMBER));
  test_hooks_trim (captured);
  check_private (captured, address, MIB);

  g_assert_true (hooks->release_capture (hooks->pool, NUMBER));
  g_assert_false (hooks->release_capture (hooks->pool, NUMBER));
  check_private (captured, address, MIB);
  test_hooks_drop (captured, again, captured->a);
}

/* --- memory that is short meanwhile ----------------------------------------------------------- */

/* The pool can only get memory by a wait for the capturing stream, or by moving memory. */
static void
capture_short (TestHooks *captured)
{
  guint64 address;
  g_autoptr (GError) error = NULL;
  CUgraph graph;

  gpu_memory_pool_set_limit (captured->pool, 8 * MIB);
  test_hooks_drop (captured, test_hooks_take (captured, 6 * MIB, captured->a), captured->a);

  begin (captured);
  g_assert_cmpuint (captured->hooks->alloc (captured->hooks->pool, 5 * MIB, captured->a, &error),
                    ==, 0);
  test_assert_gpu_error (error, GPU_ERROR_OUT_OF_DEVICE_MEMORY,
                         "GpuPoolHooks.alloc(): no memory for 5242880");
  g_clear_error (&error);
  g_assert_cmpuint (captured->hooks->alloc (captured->hooks->pool, 5 * MIB, captured->b, &error),
                    ==, 0);
  test_assert_gpu_error (error, GPU_ERROR_OUT_OF_DEVICE_MEMORY,
                         "GpuPoolHooks.alloc(): no memory for 5242880");
  graph = test_capture_end (captured->a);

  address = test_hooks_take (captured, 7 * MIB, captured->b);
  test_hooks_drop (captured, address, captured->b);
  test_graph_destroy (graph);
}

/* The capture begins while the pool serves a request, so one of its first queries does not report
 * the capture. The request fails for lack of memory, as in capture_short(). */
static void
capture_begins (TestHooks *captured)
{
  GpuPoolHooks *hooks = captured->hooks;
  CUgraph graph;

  if (gpumem_cuda_driver_symbol ("gpumem_cuda_driver_set_fail") == NULL)
    {
      g_test_skip ("the driver has no calls that fail");
      return;
    }

  gpu_memory_pool_set_limit (captured->pool, 8 * MIB);
  test_hooks_drop (captured, test_hooks_take (captured, 6 * MIB, captured->a), captured->a);
  begin (captured);
  test_hooks_drop (captured, test_hooks_take (captured, 512, captured->a), captured->a);

  for (guint i = 1; i <= 3; i++)
    {
      g_autofree char *fault = g_strdup_printf ("cuStreamGetCaptureInfo*:%u", i);
      g_autoptr (GError) error = NULL;

      g_assert_true (GPUMEM_CUDA_DRIVER (set_fail) (fault));
      g_assert_cmpuint (hooks->alloc (hooks->pool, 5 * MIB, captured->b, &error), ==, 0);
      test_assert_gpu_error (error, GPU_ERROR_OUT_OF_DEVICE_MEMORY, "5242880");
      g_assert_true (GPUMEM_CUDA_DRIVER (set_fail) (""));
    }

  graph = test_capture_end (captured->a);
  test_graph_destroy (graph);
}

/* The pool can only get memory after work of the legacy default stream. */
static void
capture_legacy (TestHooks *captured)
{
  g_autoptr (GError) error = NULL;
  CUgraph graph;

  g_object_unref (captured->first);
  captured->first = test_stream (captured->fixture, GPU_STREAM_FLAGS_NONE);
  captured->a = test_hooks_get_handle (captured->first);
  gpu_memory_pool_set_limit (captured->pool, 12 * MIB);
  test_hooks_drop (captured, test_hooks_take (captured, 6 * MIB, NULL), NULL);

  begin (captured);
  test_hooks_drop (captured, test_hooks_take (captured, 512, captured->a), captured->a);
  g_assert_cmpuint (captured->hooks->alloc (captured->hooks->pool, 5 * MIB, captured->b, &error),
                    ==, 0);
  test_assert_gpu_error (error, GPU_ERROR_OUT_OF_DEVICE_MEMORY, "5242880");
  graph = test_capture_end (captured->a);

  test_hooks_drop (captured, test_hooks_take (captured, 5 * MIB, captured->b), captured->b);
  test_graph_destroy (graph);
  test_assert_ok (gpu_context_synchronize (captured->fixture->context, &error), error);
  test_hooks_trim (captured);
  test_assert_ok (gpu_context_synchronize (captured->fixture->context, &error), error);
}

/* The pool has enough free memory, but would have to move it. */
static void
capture_moves (TestHooks *captured)
{
  guint64 blocks[3], address;
  g_autoptr (GError) error = NULL;
  GpuPoolHooks *hooks = captured->hooks;
  CUgraph graph;

  gpu_memory_pool_set_limit (captured->pool, 12 * MIB);
  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    blocks[i] = test_hooks_take (captured, 2 * MIB, captured->b);
  test_hooks_drop (captured, blocks[0], captured->b);
  test_hooks_drop (captured, blocks[2], captured->b);

  begin (captured);
  test_hooks_drop (captured, test_hooks_take (captured, 512, captured->a), captured->a);
  for (guint i = 0; i < 3; i++)
    {
      g_assert_cmpuint (hooks->alloc (hooks->pool, 6 * MIB, captured->b, &error), ==, 0);
      test_assert_gpu_error (error, GPU_ERROR_OUT_OF_DEVICE_MEMORY, "6291456");
      g_clear_error (&error);
    }
  graph = test_capture_end (captured->a);

  test_graph_destroy (graph);
  test_hooks_trim (captured);
  address = test_hooks_take (captured, 8 * MIB, captured->b);
  test_hooks_drop (captured, address, captured->b);
  test_hooks_drop (captured, blocks[1], captured->b);
}

/* The pool is dropped before the graph. */
static void
capture_dropped (TestHooks *captured)
{
  CUgraph graph;

  begin (captured);
  test_hooks_take (captured, MIB, captured->a);
  test_hooks_drop (captured, test_hooks_take (captured, MIB, captured->a), captured->a);
  graph = test_capture_end (captured->a);
  g_clear_object (&captured->pool);
  test_graph_destroy (graph);
}

/* --- replays that are pending ----------------------------------------------------------------- */

static gpointer
release (gpointer data)
{
  TestHooks *captured = data;

  g_assert_true (captured->hooks->release_capture (captured->hooks->pool, NUMBER));
  return NULL;
}

/* While a replay is pending on a stream that the pool does not know, no other request gets memory
 * of the graph. */
static void
capture_pending (TestHooks *captured)
{
  guint64 address;
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) replay = NULL;
  GThread *thread;
  TestHold *hold;

  if (!test_can_hold (captured->fixture))
    return;

  test_assert_ok (captured->hooks->begin_capture (captured->hooks->pool, NUMBER, is_stream,
                                                  captured->a, NULL, &error), error);
  begin (captured);
  address = test_hooks_take (captured, MIB, captured->a);
  test_hooks_drop (captured, address, captured->a);
  test_graph_destroy (test_capture_end (captured->a));
  g_assert_true (captured->hooks->end_capture (captured->hooks->pool, NUMBER));

  replay = test_stream (captured->fixture, GPU_STREAM_FLAGS_NON_BLOCKING);
  hold = test_hold (replay);
  thread = g_thread_new ("release", release, captured);
  g_usleep (100000);
  check_private (captured, address, MIB);
  test_hold_release (hold);
  g_thread_join (thread);
  test_hold_free (hold);
}

/* The pool is dropped while a stream is capturing for another pool. Its memory returns later. */
static void
capture_dropped_meanwhile (TestHooks *captured)
{
  guint64 address;
  g_autoptr (GError) error = NULL;
  GpuMemoryPool *pool;
  GpuPoolHooks *hooks = NULL;
  CUgraph graph;

  pool = gpu_memory_pool_new (captured->fixture->context, GPU_MEMORY_POOL_EXPANDABLE,
                              GPU_MEMORY_FLAGS_NONE, &error);
  g_assert_no_error (error);
  g_object_get (pool, "hooks", &hooks, NULL);
  test_assert_ok (hooks->begin_capture (hooks->pool, NUMBER, NULL, NULL, NULL, &error), error);
  address = hooks->alloc (hooks->pool, MIB, NULL, &error);
  g_assert_no_error (error);
  g_assert_true (hooks->free (hooks->pool, address, NULL));
  g_assert_true (hooks->end_capture (hooks->pool, NUMBER));

  begin (captured);
  test_hooks_drop (captured, test_hooks_take (captured, MIB, captured->a), captured->a);
  g_object_unref (pool);
  graph = test_capture_end (captured->a);
  test_graph_destroy (graph);
}

/* The stream of a capture ends before the capture is known to have ended. */
static void
capture_ended_stream (TestHooks *captured)
{
  guint64 address;
  CUgraph graph;

  begin (captured);
  address = test_hooks_take (captured, MIB, captured->a);
  graph = test_capture_end (captured->a);
  captured->hooks->end_stream (captured->hooks->pool, captured->a);
  g_clear_object (&captured->first);

  check_private (captured, address, MIB);
  test_hooks_drop (captured, address, captured->a);
  test_graph_destroy (graph);
  captured->first = g_object_ref (captured->second);
  captured->a = captured->b;
}

/* The stream is first used while it is capturing, when the driver does not report its id. Its
 * record ends with end_stream(), though the pool learned the id while it was frozen. */
static void
capture_first_use (TestHooks *captured)
{
  CUgraph graph;

  begin (captured);
  test_hooks_drop (captured, test_hooks_take (captured, MIB, captured->a), captured->a);
  test_graph_destroy (test_capture_end (captured->a));

  test_capture_begin (captured->b, CU_STREAM_CAPTURE_MODE_GLOBAL);
  test_hooks_drop (captured, test_hooks_take (captured, MIB, captured->b), captured->b);
  test_hooks_drop (captured, test_hooks_take (captured, MIB, captured->a), captured->a);
  graph = test_capture_end (captured->b);
  captured->hooks->end_stream (captured->hooks->pool, captured->a);
  g_clear_object (&captured->first);
  test_graph_destroy (graph);

  captured->first = g_object_ref (captured->second);
  captured->a = captured->b;
}

/* Free memory of a graph is not found. */
static void
capture_lookup (TestHooks *captured)
{
  guint64 address;

  begin (captured);
  address = test_hooks_take (captured, MIB, captured->a);
  g_assert_true (captured->hooks->lookup (captured->hooks->pool, address + 100, NULL, NULL));
  test_hooks_drop (captured, address, captured->a);
  g_assert_false (captured->hooks->lookup (captured->hooks->pool, address, NULL, NULL));
  g_assert_false (captured->hooks->lookup (captured->hooks->pool, address + 100, NULL, NULL));
  test_graph_destroy (test_capture_end (captured->a));
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
capture_room (TestHooks *captured)
{
  guint64 address;
  CUgraph graph;

  gpu_memory_pool_set_limit (captured->pool, 40 * MIB);
  begin (captured);
  test_hooks_drop (captured, test_hooks_take (captured, 30 * MIB, captured->a), captured->a);
  graph = test_capture_end (captured->a);
  test_graph_destroy (graph);
  g_signal_connect (captured->pool, "out-of-memory", G_CALLBACK (release_graph), NULL);
  address = test_hooks_take (captured, 36 * MIB, captured->b);
  test_hooks_drop (captured, address, captured->b);
}

/* Memory for the per-thread default stream is ordered as for the legacy default stream, so that it
 * cannot belong to a graph. */
static void
capture_per_thread (TestHooks *captured)
{
  const gpointer per_thread = GSIZE_TO_POINTER (GPU_STREAM_HANDLE_PER_THREAD);
  gpointer own;
  g_autoptr (GError) error = NULL;
  CUgraph graph;

  own = captured->a;
  captured->a = per_thread;
  test_hooks_drop (captured, test_hooks_take (captured, MIB, per_thread), per_thread);
  begin (captured);
  g_assert_cmpuint (captured->hooks->alloc (captured->hooks->pool, MIB, per_thread, &error), ==, 0);
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "GpuPoolHooks", "per-thread");
  graph = test_capture_end (captured->a);
  test_graph_destroy (graph);
  test_hooks_drop (captured, test_hooks_take (captured, MIB, per_thread), per_thread);
  captured->a = own;
  test_assert_ok (gpu_context_synchronize (captured->fixture->context, &error), error);
  test_hooks_trim (captured);
  test_assert_ok (gpu_context_synchronize (captured->fixture->context, &error), error);
}

/* --- threads ---------------------------------------------------------------------------------- */

typedef struct
{
  TestHooks *captured;
  gint       stopped;               /* atomic */
  gint       n;                     /* atomic: allocations so far */
} Allocating;

static gpointer
allocate (gpointer data)
{
  Allocating *allocating = data;
  TestHooks *captured = allocating->captured;
  guint64 held = 0;

  while (!g_atomic_int_get (&allocating->stopped))
    {
      const gsize size = 1000 + 64 * KIB * (g_atomic_int_get (&allocating->n) % 3);
      guint64 address = test_hooks_take (captured, size, captured->b);

      if (held != 0)
        test_hooks_drop (captured, held, captured->b);
      held = address;
      g_atomic_int_inc (&allocating->n);
    }
  if (held != 0)
    test_hooks_drop (captured, held, captured->b);
  return NULL;
}

/* A capture is released while threads allocate from it. The threads get memory of the capture or
 * of the pool, and no memory is lost. */
static void
capture_released_meanwhile (TestHooks *captured)
{
  Allocating allocating = { NULL, };
  g_autoptr (GError) error = NULL;
  GpuPoolHooks *hooks = captured->hooks;
  GThread *threads[3];

  allocating.captured = captured;
  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    threads[i] = g_thread_new ("allocate", allocate, &allocating);
  for (guint i = 0; i < 2000; i++)
    {
      const gint before = g_atomic_int_get (&allocating.n);

      test_assert_ok (hooks->begin_capture (hooks->pool, NUMBER, is_stream, captured->b, NULL,
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
capture_history (TestHooks *captured)
{
  guint64 address;
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) events = NULL;
  gsize n;

  test_assert_ok (gpu_memory_pool_set_history_size (captured->pool, 100, &error), error);
  begin (captured);
  address = test_hooks_take (captured, 5000, captured->a);
  test_hooks_drop (captured, address, captured->a);
  test_graph_destroy (test_capture_end (captured->a));
  events = gpu_memory_pool_get_history (captured->pool);
  n = g_variant_n_children (events);
  g_assert_cmpuint (n, >=, 3);
  check_event (events, n - 2, "graph_alloc", address, 5000);
  check_event (events, n - 1, "graph_free", address, 5000);
  test_assert_ok (gpu_memory_pool_set_history_size (captured->pool, 0, &error), error);
}

/* If the driver cannot report that the graph is destroyed, the memory stays in use until the pool
 * is dropped, and the object of the driver for the report is freed. */
static void
capture_not_retained (TestHooks *captured)
{
  guint live;
  CUgraph graph;

  live = count_user_objects ();
  if (!set_fault ("cuGraphRetainUserObject:1:999"))
    {
      g_test_skip ("the driver is not the stand-in");
      return;
    }
  begin (captured);
  test_hooks_drop (captured, test_hooks_take (captured, MIB, captured->a), captured->a);
  set_fault ("");
  g_assert_cmpuint (count_user_objects (), ==, live);
  graph = test_capture_end (captured->a);
  test_graph_destroy (graph);
  test_hooks_trim (captured);
  g_assert_cmpuint (test_hooks_get_figure (captured, "managed-bytes"), >=, MIB);
  g_clear_object (&captured->pool);
}

static const struct
{
  const char    *name;
  TestHooksFunc  func;
}
tests[] =
{
  { "detected", capture_detected },
  { "kept", capture_kept },
  { "announced", capture_announced },
  { "short", capture_short },
  { "begins", capture_begins },
  { "legacy", capture_legacy },
  { "moves", capture_moves },
  { "dropped", capture_dropped },
  { "pending", capture_pending },
  { "dropped-meanwhile", capture_dropped_meanwhile },
  { "ended-stream", capture_ended_stream },
  { "first-use", capture_first_use },
  { "lookup", capture_lookup },
  { "room", capture_room },
  { "per-thread", capture_per_thread },
  { "released-meanwhile", capture_released_meanwhile },
  { "history", capture_history },
  { "not-retained", capture_not_retained }
};

/* Every test leaves the pool empty, or drops the pool. */
static void
run_test (TestFixture *fixture)
{
  const char *name = strrchr (g_test_get_path (), '/') + 1;
  g_autoptr (GError) error = NULL;
  TestHooks captured;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_VIRTUAL_MEMORY) || !test_can_capture (fixture)
      || !test_hooks_init (&captured, fixture, GPU_MEMORY_POOL_EXPANDABLE,
                           GPU_STREAM_FLAGS_NON_BLOCKING))
    return;

  test_assert_ok (gpu_context_push_current (fixture->context, &error), error);
  for (guint i = 0; i < G_N_ELEMENTS (tests); i++)
    if (g_str_equal (tests[i].name, name))
      tests[i].func (&captured);
  if (captured.pool != NULL)
    check_empty (&captured);
  test_hooks_clear (&captured);
  gpu_context_pop_current (fixture->context, NULL);
}

#endif

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
#ifdef HAVE_CUDA
  for (guint i = 0; i < G_N_ELEMENTS (tests); i++)
    test_add (tests[i].name, run_test);
#endif

  return test_run ();
}
