/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The history of a pool: the events that the library returns, and the same events in the formats of
 * viewers. */
#include "config.h"

#include "test-pool-util.h"
#include "tools/gpumem-snapshot.h"

#define SIZE 100000

typedef struct
{
  guint   n;
  guint64 bytes, address, time;     /* of the last event */
  guint32 stream;
} Found;

static Found
find (GVariant *events, const char *wanted)
{
  Found found = { 0 };
  guint64 before = 0;

  for (gsize i = 0; i < g_variant_n_children (events); i++)
    {
      g_autoptr (GVariant) event = g_variant_get_child_value (events, i);
      const char *action;
      guint64 size, time;

      g_assert_true (g_variant_lookup (event, "action", "&s", &action));
      g_assert_true (g_variant_lookup (event, "size", "t", &size));
      g_assert_true (g_variant_lookup (event, "time", "t", &time));
      g_assert_cmpuint (time, >=, before);
      before = time;
      if (!g_str_equal (action, wanted))
        continue;
      found.n++;
      found.bytes += size;
      found.time = time;
      found.address = found.stream = 0;
      g_variant_lookup (event, "address", "t", &found.address);
      g_variant_lookup (event, "stream", "u", &found.stream);
    }

  return found;
}

/* Without an enabled history there are no events. An enabled history contains all events in order,
 * with address, time and stream. */
static void
check_events (TestFixture *fixture, GpuMemoryPool *pool)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GVariant) none = NULL;
  g_autoptr (GVariant) events = NULL;
  gint64 begin;
  GpuBuffer *first, *second;
  Found alloc, requested;

  g_assert_cmpuint (test_get_number (pool, "history-size"), ==, 0);
  g_object_unref (test_pool_take (pool, SIZE, NULL));
  none = gpu_memory_pool_get_history (pool);
  g_assert_cmpuint (g_variant_n_children (none), ==, 0);
  gpu_memory_pool_free_held (pool);

  g_assert_true (gpu_memory_pool_set_history_size (pool, 100, NULL));
  g_assert_cmpuint (test_get_number (pool, "history-size"), ==, 100);
  begin = g_get_monotonic_time ();
  first = test_pool_take (pool, SIZE, fixture->stream);
  second = test_pool_take (pool, 3 * SIZE, stream);
  g_object_unref (first);
  g_assert_null (gpu_memory_pool_alloc_buffer (pool, (gsize) 1 << 46, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_OUT_OF_DEVICE_MEMORY);

  events = gpu_memory_pool_get_history (pool);
  alloc = find (events, "alloc");
  requested = find (events, "free_requested");
  g_assert_cmpuint (alloc.n, ==, 2);
  g_assert_cmpuint (alloc.bytes, ==, 4 * SIZE);
  g_assert_cmpuint (alloc.stream, ==, 2);
  g_assert_cmpuint (alloc.time, >=, begin);
  g_assert_cmpuint (requested.n, ==, 1);
  g_assert_cmpuint (requested.bytes, ==, SIZE);
  g_assert_cmpuint (requested.stream, ==, 1);
  g_assert_cmpuint (find (events, "free_completed").bytes, ==, SIZE);
  g_assert_cmpuint (find (events, "oom").bytes, ==, (guint64) 1 << 46);

  if (test_get_number (pool, "kind") == GPU_MEMORY_POOL_BINS)
    g_assert_cmpuint (alloc.address, ==, gpu_memory_get_native_handle (GPU_MEMORY (second)));
  else if (gpu_memory_get_device_address (GPU_MEMORY (second)) != 0)
    g_assert_cmpuint (alloc.address, ==, gpu_memory_get_device_address (GPU_MEMORY (second)));
  g_object_unref (second);
}

static void
history_events (TestFixture *fixture)
{
  test_pool_each_kind (fixture, check_events);
}

/* In the events, allocations from the driver minus frees equal the bytes that the pool manages. */
static void
check_driver_events (TestFixture *fixture G_GNUC_UNUSED, GpuMemoryPool *pool)
{
  guint64 managed;

  g_assert_true (gpu_memory_pool_set_history_size (pool, 1000, NULL));

  for (guint i = 0; i < 4; i++)
    {
      g_autoptr (GpuBuffer) buffer = test_pool_take (pool, SIZE << (2 * i), NULL);
      g_autoptr (GVariant) events = NULL;
      guint64 sum;

      if (i == 2)
        gpu_memory_pool_free_held (pool);
      events = gpu_memory_pool_get_history (pool);
      g_object_get (pool, "managed-bytes", &managed, NULL);
      sum = find (events, "segment_alloc").bytes + find (events, "segment_map").bytes
            - find (events, "segment_free").bytes - find (events, "segment_unmap").bytes;
      g_assert_cmpuint (managed, >, 0);
      g_assert_cmpuint (sum, ==, managed);
    }
}

static void
history_driver_events (TestFixture *fixture)
{
  test_pool_each_kind (fixture, check_driver_events);
}

/* The history keeps the newest events. Setting its size clears it, and the size 0 disables it. */
static void
check_newest_events (TestFixture *fixture G_GNUC_UNUSED, GpuMemoryPool *pool)
{
  g_autoptr (GVariant) events = NULL;
  g_autoptr (GVariant) none = NULL;

  g_object_set (pool, "history-size", 8, NULL);
  for (guint i = 1; i <= 50; i++)
    g_object_unref (test_pool_take (pool, SIZE - i, NULL));
  events = gpu_memory_pool_get_history (pool);
  g_assert_cmpuint (find (events, "alloc").n, ==, 4);
  g_assert_cmpuint (find (events, "alloc").bytes, ==, 4 * SIZE - 47 - 48 - 49 - 50);
  g_assert_cmpuint (find (events, "free_completed").n, ==, 4);

  g_assert_true (gpu_memory_pool_set_history_size (pool, 0, NULL));
  g_object_unref (test_pool_take (pool, SIZE, NULL));
  none = gpu_memory_pool_get_history (pool);
  g_assert_cmpuint (g_variant_n_children (none), ==, 0);
}

static void
history_newest_events (TestFixture *fixture)
{
  test_pool_each_kind (fixture, check_newest_events);
}

/* Checks the events of blocks that are freed one by one, several at once, or while another
 * reference exists. */
static void
history_blocks (TestFixture *fixture)
{
  const gsize sizes[] = { 600, 70000 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuMemoryPool) pool = gpu_memory_pool_new (fixture->context, GPU_MEMORY_POOL_AUTOMATIC,
                                                        GPU_MEMORY_FLAGS_NONE, &error);
  g_autoptr (GVariant) events = NULL;
  g_autoptr (GVariant) more = NULL;
  g_autoptr (GVariant) refused = NULL;
  g_autoptr (GPtrArray) blocks = NULL;
  GpuMemoryBlock *block;

  g_assert_no_error (error);
  g_assert_true (gpu_memory_pool_set_history_size (pool, 100, NULL));
  block = gpu_memory_pool_alloc_block (pool, 5000, fixture->stream, &error);

  if (block == NULL)
    {
      test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "addresses");
      g_test_skip ("memory without addresses has no blocks");
      return;
    }

  gpu_memory_block_ref (block);
  gpu_memory_pool_free_block (pool, block, fixture->stream, NULL);
  events = gpu_memory_pool_get_history (pool);
  g_assert_cmpuint (find (events, "alloc").bytes, ==, 5000);
  g_assert_cmpuint (find (events, "alloc").address, ==, gpu_memory_block_get_address (block));
  g_assert_cmpuint (find (events, "free_requested").n, ==, 0);
  gpu_memory_block_unref (block);

  blocks = gpu_memory_pool_alloc_blocks (pool, sizes, 2, fixture->stream, &error);
  g_assert_no_error (error);
  g_ptr_array_set_free_func (blocks, NULL);
  gpu_memory_pool_free_blocks (pool, (GpuMemoryBlock **) blocks->pdata, 2, fixture->stream);
  more = gpu_memory_pool_get_history (pool);
  g_assert_cmpuint (find (more, "alloc").n, ==, 3);
  g_assert_cmpuint (find (more, "alloc").bytes, ==, 5000 + 600 + 70000);
  g_assert_cmpuint (find (more, "free_requested").n, ==, 3);
  g_assert_cmpuint (find (more, "free_requested").bytes, ==, 5000 + 600 + 70000);
  g_assert_cmpuint (find (more, "free_requested").stream, ==, 1);

  gpu_memory_pool_set_limit (pool, 1);
  gpu_memory_pool_free_held (pool);
  g_assert_null (gpu_memory_pool_alloc_blocks (pool, sizes, 2, fixture->stream, &error));
  test_assert_gpu_error (error, GPU_ERROR_OUT_OF_DEVICE_MEMORY);
  refused = gpu_memory_pool_get_history (pool);
  g_assert_cmpuint (find (refused, "alloc").n, ==, 3);
  g_assert_cmpuint (find (refused, "oom").n, ==, 1);
  g_assert_cmpuint (find (refused, "oom").bytes, ==, 600 + 70000);
  g_assert_cmpuint (find (refused, "oom").stream, ==, 1);
}

/* --- viewers ---------------------------------------------------------------------------------- */

/* A snapshot and its history become the segments and traces of PyTorch's viewer. */
static void
check_viewer (TestFixture *fixture G_GNUC_UNUSED, GpuMemoryPool *pool)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) kept = NULL;
  g_autoptr (GVariant) segments = NULL;
  g_autoptr (GVariant) events = NULL;
  g_autoptr (JsonNode) viewer = NULL;
  g_autoptr (JsonNode) perfetto = NULL;
  JsonArray *traces;

  g_assert_true (gpu_memory_pool_set_history_size (pool, 100, NULL));
  kept = test_pool_take (pool, SIZE, NULL);
  g_object_unref (test_pool_take (pool, SIZE, NULL));
  segments = gpu_memory_pool_snapshot (pool);
  events = gpu_memory_pool_get_history (pool);

  viewer = gpumem_snapshot_to_viewer (segments, events, &error);
  g_assert_no_error (error);
  traces = json_object_get_array_member (json_node_get_object (viewer), "device_traces");
  traces = json_array_get_array_element (traces, 0);
  g_assert_cmpuint (json_array_get_length (traces), ==, g_variant_n_children (events));
  g_assert_cmpuint (json_array_get_length (traces), >=, 5);
  g_assert_cmpint (json_object_get_int_member (json_array_get_object_element (traces, 0),
                                               "time_us"), >, 0);
  perfetto = gpumem_snapshot_to_perfetto (events, &error);
  g_assert_no_error (error);
}

static void
history_viewer (TestFixture *fixture)
{
  test_pool_each_kind (fixture, check_viewer);
}

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
  test_add ("events", history_events);
  test_add ("driver-events", history_driver_events);
  test_add ("newest-events", history_newest_events);
  test_add ("blocks", history_blocks);
  test_add ("viewer", history_viewer);

  return test_run ();
}
