/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Pools: memory from every kind of pool has the right content, can be reused as soon as it is
 * freed, and is never written by its new user while work of its previous user is pending. */
#include "config.h"

#include <string.h>

#include "test-allocator-util.h"
#include "test-pool-util.h"

#ifdef HAVE_CUDA
#include "cuda-driver/cuda-driver.h"
#endif

#define SIZE 100000

#ifdef HAVE_CUDA
static gboolean
is_stand_in (TestFixture *fixture)
{
  return g_str_equal (gpu_device_get_backend (fixture->device), "cuda")
         && gpumem_cuda_driver_symbol ("gpumem_cuda_driver_set_fail") != NULL;
}
#endif

static void
fill (GpuStream *stream, GpuBuffer *buffer, guint8 value)
{
  g_autoptr (GError) error = NULL;

  gpu_stream_fill (stream, GPU_MEMORY (buffer), 0, gpu_memory_get_size (GPU_MEMORY (buffer)),
                   &value, 1, &error);
  g_assert_no_error (error);
}

static void
copy (GpuStream *stream, GpuBuffer *to, GpuBuffer *from)
{
  g_autoptr (GError) error = NULL;

  gpu_stream_copy (stream, GPU_MEMORY (to), 0, GPU_MEMORY (from), 0,
                   gpu_memory_get_size (GPU_MEMORY (from)), &error);
  g_assert_no_error (error);
}

/* @stream is nullable. */
static void
assert_filled_on (GpuStream *stream, GpuBuffer *buffer, guint8 value)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) content =
    gpu_buffer_read_bytes (buffer, stream, 0, gpu_memory_get_size (GPU_MEMORY (buffer)), NULL,
                           &error);

  g_assert_no_error (error);
  test_assert_value (g_bytes_get_data (content, NULL), value, g_bytes_get_size (content));
}

static void
assert_filled (GpuBuffer *buffer, guint8 value)
{
  assert_filled_on (NULL, buffer, value);
}

/* Adjacent blocks and their slices keep their own content. */
static void
check_content (TestFixture *fixture, GpuMemoryPool *pool)
{
  const gsize sizes[] = { 1, 511, 512, 513, 4096, 70000, 1 << 20, (1 << 20) + 1, 5 << 20 };
  GpuBuffer *buffers[G_N_ELEMENTS (sizes)];

  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    {
      buffers[i] = test_pool_take (pool, sizes[i], NULL);
      fill (fixture->stream, buffers[i], i + 1);
    }

  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    assert_filled (buffers[i], i + 1);

  {
    g_autoptr (GError) error = NULL;
    g_autoptr (GpuBuffer) slice = gpu_buffer_slice (buffers[5], 4096, 1000, &error);
    g_autoptr (GBytes) content = NULL;

    g_assert_no_error (error);
    fill (fixture->stream, slice, 0xee);
    content = test_content (buffers[5]);
    test_assert_value (g_bytes_get_data (content, NULL), 6, 4096);
    test_assert_value ((const guint8 *) g_bytes_get_data (content, NULL) + 4096, 0xee, 1000);
    test_assert_value ((const guint8 *) g_bytes_get_data (content, NULL) + 5096, 6, 70000 - 5096);
  }

  assert_filled (buffers[4], 5);
  assert_filled (buffers[6], 7);

  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    g_object_unref (buffers[i]);
}

static void
pool_content (TestFixture *fixture)
{
  test_pool_each_kind (fixture, check_content);
}

static void
count_release (guint *n)
{
  (*n)++;
}

/* The last unref makes the memory available for reuse at once. The recycled buffer object keeps no
 * data, signal handlers or weak references of its previous use. */
static void
check_reuse (TestFixture *fixture, GpuMemoryPool *pool)
{
  GpuBuffer *buffer = test_pool_take (pool, SIZE, NULL);
  gpointer seen = buffer;
  guint n_former = 0, n_released = 0;
  guint64 handle = gpu_memory_get_native_handle (GPU_MEMORY (buffer));
  guint64 managed = test_pool_get_figure (pool, "managed-bytes");

  g_assert_cmpuint (managed, >=, SIZE);
  g_signal_connect_swapped (buffer, "released", G_CALLBACK (count_release), &n_former);
  g_object_set_data (G_OBJECT (buffer), "mine", &n_former);
  g_object_add_weak_pointer (G_OBJECT (buffer), &seen);
  g_object_unref (buffer);
  g_assert_null (seen);

  for (guint i = 0; i < 100; i++)
    {
      buffer = test_pool_take (pool, SIZE - i, NULL);
      g_assert_cmpuint (gpu_memory_get_native_handle (GPU_MEMORY (buffer)), ==, handle);
      g_assert_null (g_object_get_data (G_OBJECT (buffer), "mine"));
      g_assert_false (gpu_memory_is_released (GPU_MEMORY (buffer)));
      fill (fixture->stream, buffer, i);
      assert_filled (buffer, i);
      g_object_unref (buffer);
      test_synchronize (fixture->stream);
    }

  buffer = test_pool_take (pool, SIZE, NULL);
  g_signal_connect_swapped (buffer, "released", G_CALLBACK (count_release), &n_released);
  gpu_memory_release (GPU_MEMORY (buffer));
  g_assert_cmpuint (n_released, ==, 1);
  g_assert_cmpuint (n_former, ==, 0);
  g_assert_cmpuint (test_pool_get_figure (pool, "active-blocks"), ==, 0);
  g_object_unref (buffer);
  g_assert_cmpuint (test_pool_get_figure (pool, "managed-bytes"), ==, managed);
  g_assert_cmpuint (test_pool_get_figure (pool, "n-growths"), ==, 1);
}

static void
pool_reuse (TestFixture *fixture)
{
  test_pool_each_kind (fixture, check_reuse);
}

/* Buffers are dropped while work on their allocation stream and on another stream still uses the
 * buffers. */
static void
check_in_flight (TestFixture *fixture, GpuMemoryPool *pool)
{
  g_autoptr (GpuStream) first = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuStream) second = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) results = test_buffer (fixture, 64);
  GpuBuffer *outs[24];
  TestHold *hold = test_hold (first);

  for (guint i = 0; i < G_N_ELEMENTS (outs); i++)
    {
      GpuStream *stream = i % 3 == 0 ? second : first;
      GpuBuffer *buffer = test_pool_take (pool, SIZE, stream);

      outs[i] = test_buffer (fixture, SIZE);
      fill (stream, buffer, i + 1);
      copy (i % 2 == 0 ? first : stream, outs[i], buffer);
      g_object_unref (buffer);
    }

  test_hold_release (hold);

  for (guint i = 0; i < G_N_ELEMENTS (outs); i++)
    {
      assert_filled (outs[i], i + 1);
      g_object_unref (outs[i]);
    }

  test_hold_free (hold);
}

static void
pool_in_flight (TestFixture *fixture)
{
  if (test_can_hold (fixture))
    test_pool_each_kind (fixture, check_in_flight);
}

/* The pool gets memory from the driver while work on the default stream is pending, and after that
 * work has failed. */
static void
check_growth (TestFixture *fixture, GpuMemoryPool *pool)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) first = gpu_context_get_default_stream (fixture->context);
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) pending = test_buffer (fixture, SIZE);
  g_autoptr (GpuEvent) gate = test_gate (fixture, first);
  g_autoptr (GpuBuffer) small = NULL, large = NULL;

  fill (first, pending, 1);
  small = test_pool_take (pool, SIZE, stream);
  fill (stream, small, 2);
  assert_filled_on (stream, small, 2);
  test_assert_ok (gpu_event_fail (gate, "not for the pool", &error), error);
  large = test_pool_take (pool, 5 << 20, stream);
  fill (stream, large, 3);
  assert_filled_on (stream, large, 3);
  g_assert_false (gpu_stream_synchronize (first, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_FAILED, "not for the pool");
}

static void
pool_growth (TestFixture *fixture)
{
  if (test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    test_pool_each_kind (fixture, check_growth);
}

/* Frees memory that pending work uses, fails that work before or after the pool reuses the memory,
 * and returns the buffer over the reused memory. */
static GpuBuffer *
reuse_failed (TestFixture *fixture, GpuMemoryPool *pool, GpuStream *stream, gboolean is_late)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) failing = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  GpuBuffer *buffer = test_pool_take (pool, 5 << 20, failing);
  g_autoptr (GpuEvent) gate = test_gate (fixture, failing);

  gpu_memory_pool_set_limit (pool, test_pool_get_figure (pool, "managed-bytes"));
  fill (failing, buffer, 1);
  g_object_unref (buffer);

  if (is_late)
    buffer = test_pool_take (pool, 5 << 20, stream);
  test_assert_ok (gpu_event_fail (gate, "for the previous owner", &error), error);
  if (!is_late)
    buffer = test_pool_take (pool, 5 << 20, stream);

  return buffer;
}

/* A failure of work that used memory before reaches neither the next request for that memory, nor
 * the next work that uses it. */
static void
check_reuse_after_failure (TestFixture *fixture, GpuMemoryPool *pool)
{
  for (guint is_late = 0; is_late <= 1; is_late++)
    {
      g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
      g_autoptr (GpuBuffer) buffer = reuse_failed (fixture, pool, stream, is_late);

      fill (stream, buffer, 2);
      test_synchronize (stream);
      assert_filled_on (stream, buffer, 2);
    }
}

static void
pool_reuse_after_failure (TestFixture *fixture)
{
  if (test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    test_pool_each_kind (fixture, check_reuse_after_failure);
}

/* Drops the pool first, then the context, and then the memory, with work in flight. */
static void
check_pool_dropped_first (TestFixture *fixture, GpuMemoryPool *pool)
{
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) out = test_buffer (fixture, SIZE);
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuMemoryPool) mine =
    gpu_memory_pool_new (fixture->context, test_get_number (pool, "kind"), GPU_MEMORY_FLAGS_NONE,
                         &error);
  GpuBuffer *buffer = test_pool_take (mine, SIZE, stream);
  GpuBuffer *other = test_pool_take (mine, SIZE, NULL);
  TestHold *hold;

  fill (stream, other, 8);
  hold = test_hold (stream);
  fill (stream, buffer, 9);
  g_object_unref (other);
  g_clear_object (&mine);
  copy (stream, out, buffer);
  g_object_unref (buffer);
  test_hold_release (hold);
  assert_filled (out, 9);
  test_hold_free (hold);
}

static void
pool_dropped_first (TestFixture *fixture)
{
  if (test_can_hold (fixture))
    test_pool_each_kind (fixture, check_pool_dropped_first);
}

/* The statistics match the allocations and frees. */
static void
check_statistics (TestFixture *fixture G_GNUC_UNUSED, GpuMemoryPool *pool)
{
  g_autoptr (GVariant) figures = NULL;
  GpuBuffer *buffers[10];
  guint64 value;

  for (guint i = 0; i < 10; i++)
    buffers[i] = test_pool_take (pool, 1000 * (i + 1), NULL);
  for (guint i = 0; i < 4; i++)
    g_object_unref (buffers[i]);

  g_assert_cmpuint (test_pool_get_figure (pool, "active-blocks"), ==, 6);
  g_assert_cmpuint (test_pool_get_figure (pool, "active-bytes"), ==, 45000);
  g_assert_cmpuint (test_pool_get_figure (pool, "peak-active-bytes"), ==, 55000);
  g_assert_cmpuint (test_pool_get_figure (pool, "held-blocks"), >=, 1);
  g_assert_cmpuint (test_pool_get_figure (pool, "used-bytes"), >=, 45000);
  g_assert_cmpuint (test_pool_get_figure (pool, "managed-bytes"), >=,
                    test_pool_get_figure (pool, "used-bytes"));
  g_assert_cmpuint (test_pool_get_figure (pool, "n-allocs"), ==, 10);
  g_assert_cmpuint (test_pool_get_figure (pool, "n-frees"), ==, 4);

  figures = gpu_memory_pool_get_statistics (pool);
  g_assert_true (g_variant_lookup (figures, "active-bytes", "t", &value));
  g_assert_cmpuint (value, ==, 45000);

  for (guint i = 4; i < 10; i++)
    g_object_unref (buffers[i]);
  g_assert_cmpuint (test_pool_get_figure (pool, "active-bytes"), ==, 0);
  gpu_memory_pool_free_held (pool);
  g_assert_cmpuint (test_pool_get_figure (pool, "managed-bytes"), ==, 0);
  g_assert_cmpuint (test_pool_get_figure (pool, "held-blocks"), ==, 0);
}

static void
pool_statistics (TestFixture *fixture)
{
  test_pool_each_kind (fixture, check_statistics);
}

static void
assert_peaks (GpuMemoryPool *pool,
              guint64        active)
{
  g_assert_cmpuint (test_pool_get_figure (pool, "active-bytes"), ==, active);
  g_assert_cmpuint (test_pool_get_figure (pool, "peak-active-bytes"), ==, active);
  g_assert_cmpuint (test_pool_get_figure (pool, "peak-used-bytes"), ==,
                    test_pool_get_figure (pool, "used-bytes"));
  g_assert_cmpuint (test_pool_get_figure (pool, "peak-managed-bytes"), ==,
                    test_pool_get_figure (pool, "managed-bytes"));
}

/* A reset sets the peaks to the present values; later maxima count again. */
static void
check_peaks (TestFixture *fixture G_GNUC_UNUSED, GpuMemoryPool *pool)
{
  g_autoptr (GpuBuffer) kept = test_pool_take (pool, 3000, NULL);

  g_object_unref (test_pool_take (pool, 100000, NULL));
  g_assert_cmpuint (test_pool_get_figure (pool, "peak-active-bytes"), ==, 103000);
  gpu_memory_pool_reset_peaks (pool);
  assert_peaks (pool, 3000);

  g_object_unref (test_pool_take (pool, 50000, NULL));
  g_assert_cmpuint (test_pool_get_figure (pool, "peak-active-bytes"), ==, 53000);
  g_assert_cmpuint (test_pool_get_figure (pool, "peak-used-bytes"), >=, 53000);

  gpu_memory_pool_free_held (pool);
  gpu_memory_pool_reset_peaks (pool);
  assert_peaks (pool, 3000);

  g_clear_object (&kept);
  gpu_memory_pool_free_held (pool);
  gpu_memory_pool_reset_peaks (pool);
  assert_peaks (pool, 0);
  g_assert_cmpuint (test_pool_get_figure (pool, "peak-managed-bytes"), ==, 0);
}

static void
pool_peaks (TestFixture *fixture)
{
  test_pool_each_kind (fixture, check_peaks);
}

/* The snapshot contains all managed memory, each byte once. */
static void
check_snapshot (TestFixture *fixture G_GNUC_UNUSED, GpuMemoryPool *pool)
{
  g_autoptr (GpuBuffer) kept = test_pool_take (pool, 70000, NULL);
  g_autoptr (GVariant) snapshot = NULL;
  guint64 sum = 0, active = 0;
  GVariantIter iter;
  GVariant *segment;

  g_object_unref (test_pool_take (pool, 5000, NULL));
  snapshot = gpu_memory_pool_snapshot (pool);
  g_variant_iter_init (&iter, snapshot);

  while ((segment = g_variant_iter_next_value (&iter)) != NULL)
    {
      g_autoptr (GVariant) blocks = g_variant_lookup_value (segment, "blocks",
                                                            G_VARIANT_TYPE ("aa{sv}"));

      for (gsize i = 0; i < g_variant_n_children (blocks); i++)
        {
          g_autoptr (GVariant) block = g_variant_get_child_value (blocks, i);
          guint64 size, requested;
          const char *state;

          g_assert_true (g_variant_lookup (block, "state", "&s", &state));
          g_assert_true (g_variant_lookup (block, "size", "t", &size));
          sum += g_str_equal (state, "unmapped") ? 0 : size;
          if (g_variant_lookup (block, "requested", "t", &requested))
            active += requested;
        }

      g_variant_unref (segment);
    }

  g_assert_cmpuint (sum, ==, test_pool_get_figure (pool, "managed-bytes"));
  g_assert_cmpuint (active, ==, 70000);
}

static void
pool_snapshot (TestFixture *fixture)
{
  test_pool_each_kind (fixture, check_snapshot);
}

static guint64
get_allocated (TestFixture *fixture)
{
  return gpu_context_get_allocated_size (fixture->context)
         + gpu_context_get_host_allocated_size (fixture->context);
}

static void
check_stop_holding (TestFixture *fixture, GpuMemoryPool *pool)
{
  guint64 before = get_allocated (fixture);
  GpuBuffer *kept = test_pool_take (pool, SIZE, NULL);
  GpuBuffer *dropped = test_pool_take (pool, SIZE, NULL);

  fill (fixture->stream, kept, 3);
  g_object_unref (dropped);
  gpu_memory_pool_stop_holding (pool);
  g_assert_cmpuint (get_allocated (fixture), >, before);
  assert_filled (kept, 3);
  g_object_unref (kept);
  g_assert_cmpuint (test_pool_get_figure (pool, "managed-bytes"), ==, 0);
  g_assert_cmpuint (get_allocated (fixture), ==, before);

  g_object_unref (test_pool_take (pool, SIZE, NULL));
  g_assert_cmpuint (test_pool_get_figure (pool, "managed-bytes"), ==, 0);
}

static void
pool_stop_holding (TestFixture *fixture)
{
  test_pool_each_kind (fixture, check_stop_holding);
}

/* After gpu_memory_pool_stop_holding(), a pool frees memory when the work on it completes, whether
 * or not the program calls gpu_memory_pool_free_held(). */
static void
check_stop_holding_in_flight (TestFixture *fixture, GpuMemoryPool *pool)
{
  gpu_memory_pool_stop_holding (pool);

  for (guint i = 0; i < 20; i++)
    {
      g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
      TestHold *hold = test_hold (stream);
      GpuBuffer *buffer = test_pool_take (pool, SIZE, stream);
      gint64 deadline = g_get_monotonic_time () + TEST_DEADLINE * G_USEC_PER_SEC;

      fill (stream, buffer, i);
      g_object_unref (buffer);
      g_assert_cmpuint (test_pool_get_figure (pool, "managed-bytes"), >, 0);
      test_hold_release (hold);

      if (i % 2 == 0)
        gpu_memory_pool_free_held (pool);
      while (test_pool_get_figure (pool, "managed-bytes") > 0 && g_get_monotonic_time () < deadline)
        g_usleep (200);
      g_assert_cmpuint (test_pool_get_figure (pool, "managed-bytes"), ==, 0);
      test_hold_free (hold);
    }
}

static void
pool_stop_holding_in_flight (TestFixture *fixture)
{
  if (test_can_hold (fixture))
    test_pool_each_kind (fixture, check_stop_holding_in_flight);
}

static void
trim_it (GpuContext *context G_GNUC_UNUSED, guint64 requested G_GNUC_UNUSED, GpuMemoryPool *pool)
{
  g_autoptr (GpuBuffer) buffer = gpu_memory_pool_alloc_buffer (pool, 1 << 20, NULL, NULL);

  gpu_memory_pool_free_held (pool);
}

/* A handler of "memory-pressure" may call the pool that needs memory. */
static void
check_memory_pressure (TestFixture *fixture, GpuMemoryPool *pool)
{
  g_autoptr (GError) error = NULL;
  gulong handler = g_signal_connect (fixture->context, "memory-pressure", G_CALLBACK (trim_it),
                                     pool);

  g_assert_null (gpu_memory_pool_alloc_buffer (pool, (gsize) 1 << 46, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_OUT_OF_DEVICE_MEMORY);
  g_signal_handler_disconnect (fixture->context, handler);
}

/* --- memory info ----------------------------------------------------------------------- */

#define LIMIT ((guint64) 48 << 20)

static void
assert_memory_info (GpuMemoryPool *pool, guint64 free_bytes, guint64 total)
{
  g_autoptr (GError) error = NULL;
  guint64 free_size, total_size;

  test_assert_ok (gpu_allocator_get_memory_info (GPU_ALLOCATOR (pool), &free_size, &total_size,
                                                 &error), error);
  g_assert_cmpuint (free_size, ==, free_bytes);
  g_assert_cmpuint (total_size, ==, total);
}

/* All memory that is not in use is free, even if the pool holds it. */
static void
assert_unused_is_free (GpuMemoryPool *pool)
{
  assert_memory_info (pool, LIMIT - test_pool_get_figure (pool, "used-bytes"), LIMIT);
}

static void
check_memory_info (TestFixture *fixture G_GNUC_UNUSED, GpuMemoryPool *pool)
{
  g_autoptr (GpuBuffer) buffer = NULL;

  gpu_memory_pool_set_limit (pool, LIMIT);
  assert_unused_is_free (pool);
  buffer = test_pool_take (pool, 3 << 20, NULL);
  g_object_unref (test_pool_take (pool, 5 << 20, NULL));
  g_assert_cmpuint (test_pool_get_figure (pool, "used-bytes"), >=, 3 << 20);
  assert_unused_is_free (pool);

  /* More than the new limit is in use */
  gpu_memory_pool_set_limit (pool, 1 << 20);
  assert_memory_info (pool, 0, 1 << 20);
}

static void
pool_memory_info (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuImmediateAllocator) allocator =
    gpu_immediate_allocator_new (fixture->stream, GPU_MEMORY_FLAGS_NONE, &error);
  g_autoptr (GpuLimitAllocator) limit = NULL;

  g_assert_no_error (error);
  test_pool_each_kind (fixture, check_memory_info);
  limit = gpu_limit_allocator_new (GPU_ALLOCATOR (allocator), LIMIT);

  for (guint kind = GPU_MEMORY_POOL_SEGMENTS; kind <= GPU_MEMORY_POOL_BINS; kind++)
    {
      g_autoptr (GpuMemoryPool) pool =
        gpu_memory_pool_new_for_allocator (GPU_ALLOCATOR (limit), kind, 4, &error);
      g_autoptr (GpuBuffer) buffer = NULL;

      g_assert_no_error (error);
      buffer = test_pool_take (pool, 3 << 20, NULL);
      assert_unused_is_free (pool);
      g_clear_object (&buffer);
      assert_memory_info (pool, LIMIT, LIMIT);
    }
}

/* The handlers of requests that request memory themselves */
typedef struct
{
  GpuMemoryPool *pool;
  gsize          size;
  guint          n_calls;
} Greedy;

static void
request_more (Greedy *greedy)
{
  g_autoptr (GError) error = NULL;

  greedy->n_calls++;
  g_assert_null (gpu_memory_pool_alloc_buffer (greedy->pool, greedy->size, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_OUT_OF_DEVICE_MEMORY);
}

static gboolean
request_for_pool (GpuMemoryPool *pool G_GNUC_UNUSED, guint64 requested G_GNUC_UNUSED,
                  Greedy *greedy)
{
  request_more (greedy);
  return FALSE;
}

static void
request_for_context (GpuContext *context G_GNUC_UNUSED, guint64 requested G_GNUC_UNUSED,
                     Greedy *greedy)
{
  request_more (greedy);
}

/* A request of a handler fails like any other, but does not call the handlers again. */
static void
check_greedy_handler (TestFixture *fixture, GpuMemoryPool *pool)
{
  Greedy of_pool = { pool, 48 << 20, 0 };
  Greedy of_context = of_pool;
  gulong handler = g_signal_connect (fixture->context, "memory-pressure",
                                     G_CALLBACK (request_for_context), &of_context);
  g_autoptr (GError) error = NULL;

  gpu_memory_pool_set_limit (pool, 36 << 20);
  g_signal_connect (pool, "out-of-memory", G_CALLBACK (request_for_pool), &of_pool);
  g_assert_null (gpu_memory_pool_alloc_buffer (pool, of_pool.size, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_OUT_OF_DEVICE_MEMORY);
  g_signal_handler_disconnect (fixture->context, handler);
  g_signal_handlers_disconnect_by_data (pool, &of_pool);
  g_assert_cmpuint (of_pool.n_calls, >, 0);
  g_assert_cmpuint (of_pool.n_calls, <, 20);
  g_assert_cmpuint (of_context.n_calls, >, 0);
  g_assert_cmpuint (of_context.n_calls, <, 20);
}

/* The emissions for one request, and the memory that the handler of the context frees */
typedef struct
{
  guint      n_of_pool, n_of_context;
  guint      n_retries;             /* number of further times that the handler of the pool returns
                                     * TRUE */
  guint64    requested;             /* argument of the last emission of the context */
  GpuBuffer *buffer;                /* nullable */
} Emissions;

static gboolean
count_of_pool (GpuMemoryPool *pool G_GNUC_UNUSED, guint64 requested G_GNUC_UNUSED,
               Emissions *emissions)
{
  gboolean retry = emissions->n_retries > 0;

  emissions->n_of_pool++;
  emissions->n_retries -= retry;
  return retry;
}

static void
count_of_context (GpuContext *context G_GNUC_UNUSED, guint64 requested, Emissions *emissions)
{
  emissions->n_of_context++;
  emissions->requested = requested;
  g_clear_object (&emissions->buffer);
}

typedef struct
{
  GpuMemoryPool *pool;
  gsize          size;
} Request;

static gpointer
fail_to_allocate (gpointer data)
{
  const Request *request = data;
  g_autoptr (GError) error = NULL;

  g_assert_null (gpu_memory_pool_alloc_buffer (request->pool, request->size, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_OUT_OF_DEVICE_MEMORY);
  return NULL;
}

/* For requests of other threads, the main context emits ::memory-pressure once. So a program that
 * does not iterate its main context does not accumulate pending emissions. */
static void
check_thread_emissions (TestFixture *fixture, GpuMemoryPool *pool, gsize size)
{
  Emissions emissions = { 0 };
  Request request = { pool, size };
  gulong handler = g_signal_connect (fixture->context, "memory-pressure",
                                     G_CALLBACK (count_of_context), &emissions);

  for (guint n_emitted = 1; n_emitted <= 2; n_emitted++)
    {
      const Request smaller = { pool, size - 1 };

      for (guint i = 0; i < 3; i++)
        g_thread_join (g_thread_new ("request", fail_to_allocate,
                                     (gpointer) (i == 1 ? &request : &smaller)));
      g_assert_cmpuint (emissions.n_of_context, ==, n_emitted - 1);
      while (g_main_context_iteration (NULL, FALSE))
        continue;
      g_assert_cmpuint (emissions.n_of_context, ==, n_emitted);
      g_assert_cmpuint (emissions.requested, >=, size);
    }
  g_signal_handler_disconnect (fixture->context, handler);
}

typedef struct
{
  Request  request;
  guint    n_emitted;
} Insistent;

/* A handler that itself requests memory that there is not */
static void
insist (GpuContext *context G_GNUC_UNUSED, guint64 requested G_GNUC_UNUSED, Insistent *insistent)
{
  if (++insistent->n_emitted < 10)
    fail_to_allocate (&insistent->request);
}

static gpointer
iterate (gpointer data G_GNUC_UNUSED)
{
  while (g_main_context_iteration (NULL, FALSE))
    continue;
  return NULL;
}

/* A request of a handler emits no ::memory-pressure, neither at once nor in the next iteration of
 * the main context, also if another thread iterates the main context than created the context. */
static void
check_insistent_handler (TestFixture *fixture, GpuMemoryPool *pool, gsize size)
{
  for (guint i = 0; i < 2; i++)
    {
      Insistent insistent = { { pool, size }, 0 };
      gulong handler = g_signal_connect (fixture->context, "memory-pressure", G_CALLBACK (insist),
                                         &insistent);

      g_thread_join (g_thread_new ("request", fail_to_allocate, &insistent.request));
      if (i == 0)
        iterate (NULL);
      else
        g_thread_join (g_thread_new ("iterate", iterate, NULL));
      g_assert_cmpuint (insistent.n_emitted, ==, 1);
      g_signal_handler_disconnect (fixture->context, handler);
    }
}

/* A request of @size emits ::out-of-memory as often as the handler returns TRUE and once more, but
 * at most three times, and then ::memory-pressure once. Memory that any handler frees is used. */
static void
check_emissions (TestFixture *fixture, GpuMemoryPool *pool, gsize size)
{
  for (guint n_retries = 0; n_retries < 6; n_retries++)
    {
      Emissions emissions = { .n_retries = n_retries };
      gulong handler = g_signal_connect (fixture->context, "memory-pressure",
                                         G_CALLBACK (count_of_context), &emissions);
      g_autoptr (GpuBuffer) buffer = NULL;
      Request request = { pool, size };

      g_signal_connect (pool, "out-of-memory", G_CALLBACK (count_of_pool), &emissions);
      fail_to_allocate (&request);
      g_assert_cmpuint (emissions.n_of_pool, ==, MIN (n_retries + 1, 3));
      g_assert_cmpuint (emissions.n_of_context, ==, 1);

      emissions.buffer = test_pool_take (pool, size / 2 + 1, NULL);
      buffer = test_pool_take (pool, size / 2 + 1, NULL);
      g_assert_cmpuint (emissions.n_of_context, ==, 2);
      g_signal_handler_disconnect (fixture->context, handler);
      g_signal_handlers_disconnect_by_data (pool, &emissions);
    }

  check_thread_emissions (fixture, pool, size);
  check_insistent_handler (fixture, pool, size);
}

/* A pool whose memory comes from @upstream emits nothing if @upstream grows, and once if @upstream
 * refuses a request. */
static void
check_nested_emissions (TestFixture *fixture, GpuMemoryPool *upstream, GpuMemoryPoolKind kind)
{
  Emissions emissions = { 0 };
  gulong handler = g_signal_connect (fixture->context, "memory-pressure",
                                     G_CALLBACK (count_of_context), &emissions);
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuMemoryPool) pool = gpu_memory_pool_new_for_allocator (GPU_ALLOCATOR (upstream),
                                                                      kind, 4, &error);

  g_assert_no_error (error);
  g_object_unref (test_pool_take (pool, SIZE, NULL));
  g_assert_cmpuint (emissions.n_of_context, ==, 0);
  g_signal_handler_disconnect (fixture->context, handler);
  check_emissions (fixture, pool, 40 << 20);
}

static void
check_limited_emissions (TestFixture *fixture, GpuMemoryPool *pool)
{
  gpu_memory_pool_set_limit (pool, 36 << 20);
  check_emissions (fixture, pool, 40 << 20);
  check_nested_emissions (fixture, pool, GPU_MEMORY_POOL_SEGMENTS);
  check_nested_emissions (fixture, pool, GPU_MEMORY_POOL_BINS);
}

static void
pool_emissions (TestFixture *fixture)
{
  test_pool_each_kind (fixture, check_limited_emissions);
}

static void
count_toggles (gpointer n_toggles, GObject *pool G_GNUC_UNUSED, gboolean is_last G_GNUC_UNUSED)
{
  ++*(guint *) n_toggles;
}

/* A pool takes no reference to itself while it grows: the toggle reference of a language binding
 * may need a lock, such as that of the interpreter, whose holder waits for the growth. */
static void
check_toggles (TestFixture *fixture G_GNUC_UNUSED, GpuMemoryPool *pool)
{
  guint n_toggles = 0;

  g_object_add_toggle_ref (G_OBJECT (pool), count_toggles, &n_toggles);
  g_object_unref (pool);
  g_assert_cmpuint (n_toggles, ==, 1);
  g_object_unref (test_pool_take (pool, SIZE, NULL));
  g_assert_cmpuint (n_toggles, ==, 1);
  g_object_ref (pool);
  g_object_remove_toggle_ref (G_OBJECT (pool), count_toggles, &n_toggles);
}

static void
pool_toggles (TestFixture *fixture)
{
  test_pool_each_kind (fixture, check_toggles);
}

#ifdef HAVE_CUDA
/* Half of the memory of the device is in use. */
static void
check_device_emissions (TestFixture *fixture, GpuMemoryPool *pool)
{
  gsize size = gpu_device_get_memory_size (fixture->device) / 20;
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;

  if ((test_get_number (pool, "flags") & GPU_MEMORY_FLAGS_ALLOC_HOST) != 0)
    return;

  buffer = gpu_buffer_new (fixture->context, GPU_MEMORY_FLAGS_NONE, 10 * size, &error);
  g_assert_no_error (error);
  check_emissions (fixture, pool, 12 * size);
}

/* The device only has memory for a smaller segment than the pool requests first. */
static void
check_smaller_segment (TestFixture *fixture)
{
  Emissions emissions = { 0 };
  gulong handler = g_signal_connect (fixture->context, "memory-pressure",
                                     G_CALLBACK (count_of_context), &emissions);
  g_autoptr (GpuMemoryPool) upstream = test_pool (fixture, GPU_MEMORY_POOL_SEGMENTS);
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuMemoryPool) pool = gpu_memory_pool_new_for_allocator (GPU_ALLOCATOR (upstream),
                                                                      GPU_MEMORY_POOL_BINS, 4,
                                                                      &error);
  g_autoptr (GpuBuffer) full = NULL;
  GpuMemoryInfoSource source;
  guint64 free_size, total_size;

  g_assert_no_error (error);
  test_assert_ok (gpu_context_get_memory_info (fixture->context, &free_size, &total_size, &source,
                                               &error), error);
  full = gpu_buffer_new (fixture->context, GPU_MEMORY_FLAGS_NONE, free_size - (10 << 20), &error);
  g_assert_no_error (error);
  g_object_unref (test_pool_take (pool, SIZE, NULL));
  g_assert_cmpuint (test_pool_get_figure (upstream, "managed-bytes"), <, 10 << 20);
  g_assert_cmpuint (emissions.n_of_context, ==, 0);
  g_signal_handler_disconnect (fixture->context, handler);
}

static gboolean
drop_buffer (GpuOomAllocator *allocator G_GNUC_UNUSED, guint64 requested G_GNUC_UNUSED,
             GpuBuffer **buffer)
{
  g_clear_object (buffer);
  return TRUE;
}

/* The device refuses a request, which the allocator of the pool then serves. */
static void
check_served_emission (TestFixture *fixture)
{
  gsize size = gpu_device_get_memory_size (fixture->device) / 20;
  Emissions emissions = { 0 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) full = gpu_buffer_new (fixture->context, GPU_MEMORY_FLAGS_NONE, 10 * size,
                                               &error);
  g_autoptr (GpuImmediateAllocator) immediate = NULL;
  g_autoptr (GpuOomAllocator) allocator = NULL;
  g_autoptr (GpuMemoryPool) pool = NULL;
  gulong handler;

  g_assert_no_error (error);
  immediate = gpu_immediate_allocator_new (fixture->stream, GPU_MEMORY_FLAGS_NONE, &error);
  g_assert_no_error (error);
  allocator = gpu_oom_allocator_new (GPU_ALLOCATOR (immediate));
  g_signal_connect (allocator, "out-of-memory", G_CALLBACK (drop_buffer), &full);
  pool = gpu_memory_pool_new_for_allocator (GPU_ALLOCATOR (allocator), GPU_MEMORY_POOL_BINS, 4,
                                            &error);
  g_assert_no_error (error);
  handler = g_signal_connect (fixture->context, "memory-pressure", G_CALLBACK (count_of_context),
                              &emissions);
  g_object_unref (test_pool_take (pool, 12 * size, NULL));
  g_assert_null (full);
  g_assert_cmpuint (emissions.n_of_context, ==, 1);
  g_signal_handler_disconnect (fixture->context, handler);
}
#endif

static void
pool_device_emissions (TestFixture *fixture)
{
#ifdef HAVE_CUDA
  if (is_stand_in (fixture))
    {
      test_pool_each_kind (fixture, check_device_emissions);
      check_smaller_segment (fixture);
      check_served_emission (fixture);
    }
  else
#endif
    g_test_skip ("needs most of the memory of the device");
}

static void
pool_greedy_handler (TestFixture *fixture)
{
  test_pool_each_kind (fixture, check_greedy_handler);
}

static void
pool_memory_pressure (TestFixture *fixture)
{
  test_pool_each_kind (fixture, check_memory_pressure);
}

static gboolean
never_called (gpointer data G_GNUC_UNUSED)
{
  g_assert_not_reached ();
}

static void
set_freed (gpointer data)
{
  *(gboolean *) data = TRUE;
}

/* An emission that is still pending when the program drops its main context keeps nothing alive. */
static void
pool_pressure_never_emitted (TestFixture *fixture)
{
  GMainContext *main_context = g_main_context_new ();
  g_autoptr (GSource) source = g_idle_source_new ();
  g_autoptr (GError) error = NULL;
  Emissions emissions = { 0 };
  gboolean is_freed = FALSE;
  GpuContext *context;
  Request request;

  g_main_context_push_thread_default (main_context);
  context = gpu_context_new (fixture->device, GPU_CONTEXT_FLAGS_NONE, &error);
  g_main_context_pop_thread_default (main_context);
  g_assert_no_error (error);
  g_signal_connect (context, "memory-pressure", G_CALLBACK (count_of_context), &emissions);
  g_source_set_callback (source, never_called, &is_freed, set_freed);
  g_source_attach (source, main_context);

  request = (Request) { gpu_memory_pool_new (context, GPU_MEMORY_POOL_AUTOMATIC,
                                             GPU_MEMORY_FLAGS_NONE, &error), SIZE };
  g_assert_no_error (error);
  gpu_memory_pool_set_limit (request.pool, SIZE / 2);
  g_thread_join (g_thread_new ("request", fail_to_allocate, &request));
  g_object_unref (request.pool);
  g_object_unref (context);
  g_main_context_unref (main_context);
  g_assert_true (is_freed);
  g_assert_cmpuint (emissions.n_of_context, ==, 0);
}

static gboolean
give_up (GpuMemoryPool *pool G_GNUC_UNUSED, guint64 requested, GPtrArray *victims)
{
  g_assert_cmpuint (requested, ==, 8 << 20);
  if (victims->len == 0)
    return FALSE;
  g_ptr_array_remove_index (victims, victims->len - 1);
  return TRUE;
}

/* The pool retries as long as a handler frees memory. After that the allocation fails with an error
 * that quotes the pool's figures. */
static void
check_out_of_memory (TestFixture *fixture G_GNUC_UNUSED, GpuMemoryPool *pool)
{
  g_autoptr (GPtrArray) victims = g_ptr_array_new_with_free_func (g_object_unref);
  g_autoptr (GPtrArray) mine = g_ptr_array_new_with_free_func (g_object_unref);
  g_autoptr (GError) error = NULL;
  GpuBuffer *buffer;

  gpu_memory_pool_set_limit (pool, 36 << 20);
  g_assert_cmpuint (test_get_number (pool, "limit"), ==, 36 << 20);
  g_signal_connect (pool, "out-of-memory", G_CALLBACK (give_up), victims);

  for (guint i = 0; i < 2; i++)
    g_ptr_array_add (victims, test_pool_take (pool, 8 << 20, NULL));
  for (guint i = 0; i < 4; i++)
    g_ptr_array_add (mine, test_pool_take (pool, 8 << 20, NULL));
  g_assert_cmpuint (victims->len, ==, 0);
  g_assert_cmpuint (test_pool_get_figure (pool, "managed-bytes"), <=, 36 << 20);

  buffer = gpu_memory_pool_alloc_buffer (pool, 8 << 20, NULL, &error);
  g_assert_null (buffer);
  test_assert_gpu_error (error, GPU_ERROR_OUT_OF_DEVICE_MEMORY, "8388608", "33554432", "37748736");
  g_assert_cmpuint (test_pool_get_figure (pool, "n-refused"), ==, 1);

  g_ptr_array_set_size (mine, 3);
  g_ptr_array_add (mine, test_pool_take (pool, 8 << 20, NULL));
}

static void
pool_out_of_memory (TestFixture *fixture)
{
  test_pool_each_kind (fixture, check_out_of_memory);
}

/* Takes and drops blocks that are small enough for the caches of threads. */
static void
take_and_drop (GpuMemoryPool *pool)
{
  g_autoptr (GPtrArray) buffers = g_ptr_array_new_with_free_func (g_object_unref);

  for (guint i = 0; i < 40; i++)
    g_ptr_array_add (buffers, test_pool_take (pool, i % 2 == 0 ? 1 << 20 : 5000, NULL));
}

/* The threshold applies to unused memory only, of blocks of all sizes. Each release of a block, and
 * a lower threshold, free unused memory above the threshold. */
static void
check_release_threshold (TestFixture *fixture G_GNUC_UNUSED, GpuMemoryPool *pool)
{
  GpuBuffer *used = test_pool_take (pool, 16 << 20, NULL);
  guint64 n_growths;

  g_object_unref (test_pool_take (pool, 8 << 20, NULL));
  n_growths = test_pool_get_figure (pool, "n-growths");
  g_object_set (pool, "release-threshold", (guint64) 12 << 20, NULL);
  g_object_unref (test_pool_take (pool, 8 << 20, NULL));
  g_object_unref (test_pool_take (pool, 8 << 20, NULL));
  g_assert_cmpuint (test_pool_get_figure (pool, "n-growths"), ==, n_growths);

  g_object_set (pool, "release-threshold", (guint64) 0, NULL);
  g_object_unref (used);
  g_assert_cmpuint (test_pool_get_figure (pool, "managed-bytes"), ==, 0);

  take_and_drop (pool);
  g_assert_cmpuint (test_pool_get_figure (pool, "managed-bytes"), ==, 0);
  g_object_set (pool, "release-threshold", G_MAXUINT64, NULL);
  take_and_drop (pool);
  g_assert_cmpuint (test_pool_get_figure (pool, "managed-bytes"), >, 0);
  g_object_set (pool, "release-threshold", (guint64) 0, NULL);
  g_assert_cmpuint (test_pool_get_figure (pool, "managed-bytes"), ==, 0);
}

static void
pool_release_threshold (TestFixture *fixture)
{
  test_pool_each_kind (fixture, check_release_threshold);
}

static void
check_arguments (TestFixture *fixture, GpuMemoryPool *pool)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuContext) context = gpu_context_new (fixture->device, GPU_CONTEXT_FLAGS_NONE,
                                                    &error);
  g_autoptr (GpuStream) foreign = gpu_context_get_default_stream (context);
  const char *id = gpu_device_get_id (fixture->device);
  g_autofree char *text = g_strdup_printf ("the allocator GpuMemoryPool belongs to another "
                                           "context, on %s, than the pool, on %s", id, id);

  g_assert_null (gpu_memory_pool_alloc_buffer (pool, 0, NULL, &error));
  g_assert_no_error (error);
  g_assert_null (gpu_memory_pool_alloc_buffer (pool, 10, foreign, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "another context");
  g_assert_null (g_initable_new (GPU_TYPE_MEMORY_POOL, NULL, &error, "context", context,
                                 "allocator", pool, NULL));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, text);
  g_assert_false (gpu_memory_pool_set_fraction (pool, 1.5, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "1.5");
  g_assert_true (gpu_memory_pool_set_fraction (pool, 0.5, &error));
  g_assert_no_error (error);
  g_assert_cmpuint (test_get_number (pool, "limit"), ==,
                    gpu_device_get_memory_size (fixture->device) / 2);
  g_assert_null (gpu_memory_pool_alloc_buffer (pool, G_MAXSIZE, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_OUT_OF_DEVICE_MEMORY);
}

static void
pool_arguments (TestFixture *fixture)
{
  test_pool_each_kind (fixture, check_arguments);
}

/* --- blocks --------------------------------------------------------------------------- */

static GpuMemoryPool *
make_pool (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  GpuMemoryPool *pool = gpu_memory_pool_new (fixture->context, GPU_MEMORY_POOL_AUTOMATIC,
                                             GPU_MEMORY_FLAGS_NONE, &error);

  g_assert_no_error (error);
  return pool;
}

/* The pool has no blocks if the driver reports no addresses. */
static gboolean
has_blocks (GpuMemoryPool *pool)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuMemoryBlock) block = gpu_memory_pool_alloc_block (pool, 512, NULL, &error);

  if (block != NULL)
    return TRUE;

  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "addresses");
  g_test_skip ("memory without addresses has no blocks");
  return FALSE;
}

static void
pool_blocks (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuMemoryPool) pool = make_pool (fixture);
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  GpuMemoryBlock *block, *other;
  guint64 address;

  if (!has_blocks (pool))
    return;

  block = gpu_memory_pool_alloc_block (pool, 1000, stream, &error);
  g_assert_no_error (error);
  address = gpu_memory_block_get_address (block);
  g_assert_cmpuint (address % 512, ==, 0);
  g_assert_cmpuint (gpu_memory_block_get_size (block), ==, 1000);

  /* Another reference keeps the block */
  gpu_memory_block_ref (block);
  gpu_memory_pool_free_block (pool, block, stream, NULL);
  other = gpu_memory_pool_alloc_block (pool, 1000, stream, &error);
  g_assert_cmpuint (gpu_memory_block_get_address (other), !=, address);
  gpu_memory_block_unref (block);
  gpu_memory_block_unref (other);
  block = gpu_memory_pool_alloc_block (pool, 1000, stream, &error);
  other = gpu_memory_pool_alloc_block (pool, 1000, stream, &error);
  g_assert_true (gpu_memory_block_get_address (block) == address
                 || gpu_memory_block_get_address (other) == address);
  gpu_memory_pool_free_block (pool, block, NULL, NULL);
  gpu_memory_pool_free_block (pool, other, stream, NULL);

  block = gpu_memory_pool_alloc_block_aligned (pool, 10, 1 << 16, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (gpu_memory_block_get_address (block) % (1 << 16), ==, 0);
  gpu_memory_pool_free_block (pool, block, NULL, NULL);
  gpu_memory_pool_free_block (pool, NULL, NULL, NULL);
  g_assert_null (gpu_memory_pool_alloc_block_aligned (pool, 10, (gsize) 1 << 46, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_OUT_OF_DEVICE_MEMORY,
                         "gpu_memory_pool_alloc_block_aligned: alignment of 70368744177664 bytes");
  g_assert_null (gpu_memory_pool_alloc_block (pool, (gsize) 1 << 46, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_OUT_OF_DEVICE_MEMORY, "gpu_memory_pool_alloc_block: ");
  g_assert_null (gpu_memory_pool_alloc_block_aligned (pool, 10, 3, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "3");
  g_assert_null (gpu_memory_pool_alloc_block (pool, 0, NULL, &error));
  g_assert_no_error (error);
  g_assert_cmpuint (test_pool_get_figure (pool, "active-blocks"), ==, 0);
}

/* The message of an error starts with the function that the program called, and names no other
 * function of pools. */
static void
assert_names (GError **error, GpuError code, const char *function)
{
  g_autofree char *start = g_strdup_printf ("%s: ", function);

  g_assert_error (*error, GPU_ERROR, (int) code);
  g_test_message ("%s", (*error)->message);
  g_assert_true (g_str_has_prefix ((*error)->message, start));
  g_assert_null (strstr ((*error)->message + strlen (start), "gpu_memory_pool_"));
  g_clear_error (error);
}

static void
check_messages (GpuMemoryPool *pool, GpuError code, gboolean blocks)
{
  const gsize sizes[] = { 100, 1000 };
  g_autoptr (GError) error = NULL;

  g_assert_null (gpu_memory_pool_alloc_buffer (pool, 1000, NULL, &error));
  assert_names (&error, code, "gpu_memory_pool_alloc_buffer");

  if (!blocks)
    return;

  g_assert_null (gpu_memory_pool_alloc_block (pool, 1000, NULL, &error));
  assert_names (&error, code, "gpu_memory_pool_alloc_block");
  g_assert_null (gpu_memory_pool_alloc_blocks (pool, sizes, 2, NULL, &error));
  assert_names (&error, code, "gpu_memory_pool_alloc_blocks");
  g_assert_null (gpu_memory_pool_alloc_block_aligned (pool, 1000, 4096, NULL, &error));
  assert_names (&error, code, "gpu_memory_pool_alloc_block_aligned");
}

static void
check_limit_messages (TestFixture *fixture G_GNUC_UNUSED, GpuMemoryPool *pool)
{
  gpu_memory_pool_set_limit (pool, 1);
  check_messages (pool, GPU_ERROR_OUT_OF_DEVICE_MEMORY, FALSE);
}

static void
pool_messages (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuMemoryPool) pool = make_pool (fixture);
  g_autoptr (GpuMemoryPool) divided = NULL;
  g_autoptr (TestAllocator) allocator = test_allocator_new (fixture);

  test_pool_each_kind (fixture, check_limit_messages);

  if (!has_blocks (pool))
    return;

  gpu_memory_pool_free_held (pool);
  gpu_memory_pool_set_limit (pool, 1);
  check_messages (pool, GPU_ERROR_OUT_OF_DEVICE_MEMORY, TRUE);

  /* Memory at an odd address cannot be a segment */
  allocator->gives = TEST_GIVES_SLICE;
  divided = gpu_memory_pool_new_for_allocator (GPU_ALLOCATOR (allocator), GPU_MEMORY_POOL_SEGMENTS,
                                               4, &error);
  g_assert_no_error (error);
  g_assert_null (gpu_memory_pool_alloc_buffer (divided, 1000, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "TestAllocator", "a multiple of ",
                         "GPU_MEMORY_POOL_BINS");
  check_messages (divided, GPU_ERROR_NOT_SUPPORTED, TRUE);
}

#ifdef HAVE_CUDA
/* The free memory of the pool has a pending use on another stream, and no stream can wait for that
 * stream. */
static void
check_wait_messages (TestFixture *fixture, GpuMemoryPool *pool)
{
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GPtrArray) buffers = g_ptr_array_new_with_free_func (g_object_unref);
  TestHold *hold = test_hold (stream);
  GpuBuffer *buffer;

  gpu_memory_pool_set_limit (pool, 4 << 20);
  while ((buffer = gpu_memory_pool_alloc_buffer (pool, 1000, stream, NULL)) != NULL)
    g_ptr_array_add (buffers, buffer);
  g_ptr_array_set_size (buffers, 0);

  g_assert_true (GPUMEM_CUDA_DRIVER (set_fail) ("cuStreamWaitEvent:1:999:0"));
  check_messages (pool, GPU_ERROR_FAILED, test_get_number (pool, "kind") != GPU_MEMORY_POOL_BINS);
  g_assert_true (GPUMEM_CUDA_DRIVER (set_fail) (""));
  test_hold_release (hold);
  test_hold_free (hold);
}
#endif

static void
pool_wait_messages (TestFixture *fixture)
{
#ifdef HAVE_CUDA
  if (is_stand_in (fixture))
    test_pool_each_kind (fixture, check_wait_messages);
  else
#endif
    g_test_skip ("only the stand-in for CUDA fails on demand");
}

static void
pool_blocks_at_once (TestFixture *fixture)
{
  const gsize sizes[] = { 100, 5000, 100, 1 << 20, 700, 3 << 20 };
  const gsize with_nothing[] = { 0, 300, 0 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuMemoryPool) pool = make_pool (fixture);
  g_autoptr (GPtrArray) list = NULL;
  GpuMemoryBlock **blocks;

  if (!has_blocks (pool))
    return;

  list = gpu_memory_pool_alloc_blocks (pool, sizes, G_N_ELEMENTS (sizes), NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (list->len, ==, G_N_ELEMENTS (sizes));
  blocks = (GpuMemoryBlock **) list->pdata;
  g_assert_cmpuint (test_pool_get_figure (pool, "active-blocks"), ==, G_N_ELEMENTS (sizes));

  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    {
      guint64 begin = gpu_memory_block_get_address (blocks[i]);

      g_assert_cmpuint (gpu_memory_block_get_size (blocks[i]), ==, sizes[i]);
      for (guint k = 0; k < i; k++)
        g_assert_true (begin >= gpu_memory_block_get_address (blocks[k]) + sizes[k]
                       || begin + sizes[i] <= gpu_memory_block_get_address (blocks[k]));
    }

  gpu_memory_pool_free_blocks (pool, blocks, G_N_ELEMENTS (sizes), fixture->stream);
  g_assert_cmpuint (test_pool_get_figure (pool, "active-blocks"), ==, 0);

  g_ptr_array_set_free_func (list, NULL);
  g_clear_pointer (&list, g_ptr_array_unref);
  list = gpu_memory_pool_alloc_blocks (pool, NULL, 0, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (list->len, ==, 0);
  g_clear_pointer (&list, g_ptr_array_unref);
  g_assert_null (gpu_memory_pool_alloc_blocks (pool, with_nothing, G_N_ELEMENTS (with_nothing),
                                               NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "size 0 of 3 is 0");
  g_assert_null (gpu_memory_pool_alloc_blocks (pool, sizes, (guint) G_MAXINT + 1, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "2147483648 blocks", "2147483647");
  g_assert_cmpuint (test_pool_get_figure (pool, "active-blocks"), ==, 0);

  list = gpu_memory_pool_alloc_blocks (pool, sizes, G_N_ELEMENTS (sizes), NULL, &error);
  g_assert_no_error (error);
  g_clear_pointer (&list, g_ptr_array_unref);
  g_assert_cmpuint (test_pool_get_figure (pool, "active-blocks"), ==, 0);

  gpu_memory_pool_set_limit (pool, 2 << 20);
  gpu_memory_pool_free_held (pool);
  g_assert_null (gpu_memory_pool_alloc_blocks (pool, sizes, G_N_ELEMENTS (sizes), NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_OUT_OF_DEVICE_MEMORY, "3145728");
  g_assert_cmpuint (test_pool_get_figure (pool, "active-blocks"), ==, 0);
}

/* If two streams use a block, a third stream gets the block only after the work of both streams. */
static void
pool_block_streams (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuMemoryPool) pool = make_pool (fixture);
  g_autoptr (GpuStream) first = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuStream) second = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuStream) third = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  TestHold *hold;
  GpuMemoryBlock *block;
  guint64 address;

  if (!has_blocks (pool) || !test_can_hold (fixture))
    return;

  gpu_memory_pool_set_limit (pool, 4 << 20);
  block = gpu_memory_pool_alloc_block (pool, 3 << 20, first, &error);
  g_assert_no_error (error);
  address = gpu_memory_block_get_address (block);
  hold = test_hold (second);
  test_assert_ok (gpu_memory_block_add_stream (block, second, &error), error);
  gpu_memory_pool_free_block (pool, block, first, NULL);

  block = gpu_memory_pool_alloc_block (pool, 3 << 20, third, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (gpu_memory_block_get_address (block), ==, address);
  g_assert_cmpuint (test_pool_get_figure (pool, "n-waits"), >=, 1);
  g_assert_false (gpu_stream_is_idle (third, &error));
  g_assert_no_error (error);
  test_hold_release (hold);
  test_synchronize (third);
  gpu_memory_block_unref (block);
  test_hold_free (hold);
}

/* Work that the program submits to a native stream counts as a use of the memory until the work
 * completes, even if the GpuStream that borrows the native stream is finalized before. */
static void
check_borrowed_stream (TestFixture *fixture, GpuMemoryPool *pool)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) owner = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuStream) other = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuStream) borrowed =
    gpu_stream_new_wrapped (fixture->context, gpu_stream_get_native_handle (owner),
                            GPU_WRAP_MODE_BORROW, &error);
  g_autoptr (GpuBuffer) buffer = NULL;
  guint64 handle;
  TestHold *hold;

  g_assert_no_error (error);
  gpu_memory_pool_set_limit (pool, 4 << 20);
  buffer = test_pool_take (pool, 3 << 20, borrowed);
  handle = gpu_memory_get_native_handle (GPU_MEMORY (buffer));
  test_synchronize (borrowed);
  hold = test_hold (owner);
  g_clear_object (&buffer);
  g_clear_object (&borrowed);

  buffer = test_pool_take (pool, 3 << 20, other);
  if (gpu_memory_get_native_handle (GPU_MEMORY (buffer)) == handle)
    {
      fill (other, buffer, 1);
      g_usleep (20000);
      g_assert_false (gpu_stream_is_idle (other, &error));
      g_assert_no_error (error);
    }
  test_hold_release (hold);
  fill (other, buffer, 2);
  assert_filled (buffer, 2);
  test_hold_free (hold);
}

static void
pool_borrowed_stream (TestFixture *fixture)
{
  if (!test_can_hold (fixture))
    return;
  if (g_str_equal (gpu_device_get_backend (fixture->device), "host"))
    g_test_skip ("the host back end has no native streams");
  else
    test_pool_each_kind (fixture, check_borrowed_stream);
}

static void
add_name (GObject *object G_GNUC_UNUSED, GParamSpec *pspec, GString *names)
{
  g_string_append_printf (names, "%s ", pspec->name);
}

static void
set_knobs (GpuMemoryPool *pool, guint64 value)
{
  g_object_set (pool, "limit", value << 30, "soft-limit", value << 29, "release-threshold",
                value << 28, "fragmentation-target", value / 16.0, "history-size", (guint) value,
                NULL);
}

/* g_object_thaw_notify() notifies once for each changed property. Setting the same value does not
 * notify. */
static void
check_notifications (TestFixture *fixture G_GNUC_UNUSED, GpuMemoryPool *pool)
{
  static const char *const knobs[] = { "limit", "soft-limit", "release-threshold",
                                       "fragmentation-target", "history-size" };
  g_autoptr (GString) names = g_string_new (NULL);

  g_signal_connect (pool, "notify", G_CALLBACK (add_name), names);
  g_object_freeze_notify (G_OBJECT (pool));
  for (guint i = 1; i < 4; i++)
    set_knobs (pool, i);
  g_assert_cmpstr (names->str, ==, "");
  g_object_thaw_notify (G_OBJECT (pool));
  for (guint i = 0; i < G_N_ELEMENTS (knobs); i++)
    {
      g_auto (GStrv) parts = g_strsplit (names->str, knobs[i], -1);

      /* "limit" is a substring of "soft-limit" */
      g_assert_cmpuint (g_strv_length (parts), ==, i == 0 ? 3 : 2);
    }

  g_string_truncate (names, 0);
  set_knobs (pool, 3);
  g_object_freeze_notify (G_OBJECT (pool));
  set_knobs (pool, 3);
  g_object_thaw_notify (G_OBJECT (pool));
  g_assert_cmpstr (names->str, ==, "");
}

static void
pool_notifications (TestFixture *fixture)
{
  test_pool_each_kind (fixture, check_notifications);
}

static gboolean
count_interval (gpointer data)
{
  (*(guint *) data)++;

  return G_SOURCE_CONTINUE;
}

/* Runs the main loop until at least four notification intervals of the pool have passed. Counts
 * them with a timeout that has the same interval as the pool's timeout and starts later. */
static void
iterate_intervals (guint msec)
{
  guint n = 0;
  guint id = g_timeout_add (msec, count_interval, &n);

  while (n < 4)
    g_main_context_iteration (NULL, TRUE);
  g_source_remove (id);
}

static void
count_notification (guint *n)
{
  (*n)++;
}

/* If `notify-interval` is set, the pool emits the notify signals of changed counters from the main
 * loop, at most once in each interval. Bound properties are thereby updated. */
static void
check_interval (TestFixture *fixture, GpuMemoryPool *pool)
{
  g_autoptr (GpuBuffer) buffer = NULL;
  guint n_active = 0;
  guint n_refused = 0;

  g_signal_connect_swapped (pool, "notify::active-bytes", G_CALLBACK (count_notification),
                            &n_active);
  g_signal_connect_swapped (pool, "notify::n-refused", G_CALLBACK (count_notification), &n_refused);
  buffer = test_pool_take (pool, SIZE, NULL);
  iterate_intervals (5);
  g_assert_cmpuint (n_active, ==, 0);

  g_object_set (pool, "notify-interval", 5, NULL);
  g_assert_cmpuint (test_get_number (pool, "notify-interval"), ==, 5);
  iterate_intervals (5);
  g_assert_cmpuint (n_active, ==, 0);
  for (guint i = 0; i < 100; i++)
    {
      g_clear_object (&buffer);
      buffer = test_pool_take (pool, SIZE * (i % 2 + 1), NULL);
      fill (fixture->stream, buffer, i);
    }
  iterate_intervals (5);
  g_assert_cmpuint (n_active, >=, 1);
  g_assert_cmpuint (n_active, <=, 2);
  g_assert_cmpuint (n_refused, ==, 0);

  g_object_set (pool, "notify-interval", 0, NULL);
  g_clear_object (&buffer);
  test_synchronize (fixture->stream);
  n_active = 0;
  iterate_intervals (5);
  g_assert_cmpuint (n_active, ==, 0);
  g_object_set (pool, "notify-interval", 1, NULL);
}

static void
stop_interval (GpuMemoryPool *pool, GParamSpec *pspec G_GNUC_UNUSED, gpointer n)
{
  (*(guint *) n)++;
  g_object_set (pool, "notify-interval", 0, NULL);
}

/* A handler ends the notifications while they are emitted. */
static void
check_interval_ended (TestFixture *fixture, GpuMemoryPool *pool)
{
  g_autoptr (GpuBuffer) buffer = NULL;
  guint n = 0;

  g_signal_connect (pool, "notify::active-blocks", G_CALLBACK (stop_interval), &n);
  g_object_set (pool, "notify-interval", 1, NULL);
  buffer = test_pool_take (pool, SIZE, NULL);
  while (n == 0)
    g_main_context_iteration (NULL, TRUE);
  g_clear_object (&buffer);
  test_synchronize (fixture->stream);
  iterate_intervals (1);
  g_assert_cmpuint (n, ==, 1);
  g_assert_cmpuint (test_get_number (pool, "notify-interval"), ==, 0);
}

static void
drop_pool (GpuMemoryPool *pool G_GNUC_UNUSED, GParamSpec *pspec G_GNUC_UNUSED, gpointer owned)
{
  g_clear_object ((GpuMemoryPool **) owned);
}

/* A handler drops the last reference to the pool while the notifications are emitted. */
static void
check_interval_dropped (TestFixture *fixture, GpuMemoryPool *pool)
{
  g_autoptr (GError) error = NULL;
  GpuMemoryPool *mine = gpu_memory_pool_new (fixture->context, test_get_number (pool, "kind"),
                                             GPU_MEMORY_FLAGS_NONE, &error);

  g_assert_no_error (error);
  g_signal_connect (mine, "notify::n-allocs", G_CALLBACK (drop_pool), &mine);
  g_object_set (mine, "notify-interval", 1, NULL);
  g_object_unref (test_pool_take (mine, SIZE, NULL));
  while (mine != NULL)
    g_main_context_iteration (NULL, TRUE);
  iterate_intervals (1);
}

static void
pool_interval (TestFixture *fixture)
{
  test_pool_each_kind (fixture, check_interval);
  test_pool_each_kind (fixture, check_interval_ended);
  test_pool_each_kind (fixture, check_interval_dropped);
  iterate_intervals (1);
}

/* A buffer that is dropped while its notifications are frozen is not recycled, and does not delay
 * the finalization of the pool. */
static void
check_frozen_notifications (TestFixture *fixture, GpuMemoryPool *pool)
{
  g_autoptr (GError) error = NULL;
  GpuMemoryPool *mine = gpu_memory_pool_new (fixture->context, test_get_number (pool, "kind"),
                                             GPU_MEMORY_FLAGS_NONE, &error);
  GpuBuffer *frozen, *other;

  g_assert_no_error (error);
  frozen = test_pool_take (mine, SIZE, NULL);
  g_object_freeze_notify (G_OBJECT (frozen));
  g_object_unref (frozen);
  other = test_pool_take (mine, SIZE, NULL);
  g_assert_true (other != frozen);
  g_object_unref (other);
  g_object_unref (mine);

  /* The remaining reference was the pool's */
  g_object_thaw_notify (G_OBJECT (frozen));
  g_object_unref (frozen);
}

static void
pool_frozen_notifications (TestFixture *fixture)
{
  test_pool_each_kind (fixture, check_frozen_notifications);
}

/* --- threads ---------------------------------------------------------------------------- */

#define N_THREADS 4
#define N_ROUNDS  300
#define N_DROPS   20000

typedef struct
{
  TestFixture   *fixture;
  GpuMemoryPool *pool;
  GpuBuffer     *exchange[8];
  GMutex         lock;
} Shared;

static gpointer
run_thread (gpointer data)
{
  Shared *shared = data;
  g_autoptr (GpuStream) stream = test_stream (shared->fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GRand) rand = g_rand_new_with_seed (GPOINTER_TO_UINT (g_thread_self ()));

  for (guint i = 0; i < N_ROUNDS; i++)
    {
      gsize size = 1 + (gsize) g_rand_int (rand) % (1u << g_rand_int_range (rand, 8, 20));
      GpuBuffer *buffer = test_pool_take (shared->pool, size, stream);
      g_autoptr (GpuBuffer) copied = test_pool_take (shared->pool, size, stream);
      guint8 value = g_rand_int (rand);
      guint place = g_rand_int_range (rand, 0, 8);
      GpuBuffer *other;

      fill (stream, buffer, value);
      copy (stream, copied, buffer);

      /* Another thread may receive this buffer, fill it and drop it */
      g_mutex_lock (&shared->lock);
      other = shared->exchange[place];
      shared->exchange[place] = buffer;
      g_mutex_unlock (&shared->lock);

      if (other != NULL && i % 4 == 0)
        fill (stream, other, ~value);
      g_clear_object (&other);
      if (i % 8 == 0)
        assert_filled (copied, value);
    }

  test_synchronize (stream);
  return NULL;
}

static void
check_threads (TestFixture *fixture, GpuMemoryPool *pool)
{
  Shared shared = { .fixture = fixture, .pool = pool };
  GThread *threads[N_THREADS];

  g_mutex_init (&shared.lock);
  for (guint i = 0; i < N_THREADS; i++)
    threads[i] = g_thread_new ("test-pool", run_thread, &shared);
  for (guint i = 0; i < N_THREADS; i++)
    g_thread_join (threads[i]);
  for (guint i = 0; i < G_N_ELEMENTS (shared.exchange); i++)
    g_clear_object (&shared.exchange[i]);
  g_mutex_clear (&shared.lock);

  g_assert_cmpuint (test_pool_get_figure (pool, "active-blocks"), ==, 0);
  g_assert_cmpuint (test_pool_get_figure (pool, "n-allocs"), ==, 2 * N_THREADS * N_ROUNDS);
}

static void
pool_threads (TestFixture *fixture)
{
  test_pool_each_kind (fixture, check_threads);
}

typedef struct
{
  GpuMemoryPool *pool;
  gint           n_begun;           /* atomic; rounds */
  gint           n_ended;           /* atomic */
} Limits;

/* Changes another limit of the pool in each round. */
static gpointer
run_targets (gpointer data)
{
  Limits *limits = data;

  for (gint i = 1; i <= N_ROUNDS; i++)
    {
      g_autoptr (GError) error = NULL;

      while (g_atomic_int_get (&limits->n_begun) < i)
        g_thread_yield ();
      test_assert_ok (gpu_memory_pool_set_fragmentation_target (limits->pool, i, &error), error);
      g_atomic_int_set (&limits->n_ended, i);
    }

  return NULL;
}

/* Two threads change different limits at the same time. Both changes are in effect. */
static void
check_limits_of_threads (TestFixture *fixture, GpuMemoryPool *pool)
{
  Limits limits = { .pool = pool };
  GThread *thread = g_thread_new ("test-pool", run_targets, &limits);

  for (gint i = 1; i <= N_ROUNDS; i++)
    {
      g_autoptr (GpuBuffer) buffer = NULL;
      g_autoptr (GError) error = NULL;

      gpu_memory_pool_free_held (pool);
      g_atomic_int_set (&limits.n_begun, i);
      gpu_memory_pool_set_limit (pool, i % 2);
      while (g_atomic_int_get (&limits.n_ended) < i)
        g_thread_yield ();

      buffer = gpu_memory_pool_alloc_buffer (pool, 4096, fixture->stream, &error);
      if (i % 2 == 0)
        g_assert_no_error (error);
      else
        g_assert_error (error, GPU_ERROR, GPU_ERROR_OUT_OF_DEVICE_MEMORY);
    }

  g_thread_join (thread);
}

static void
pool_limits_of_threads (TestFixture *fixture)
{
  test_pool_each_kind (fixture, check_limits_of_threads);
}

static gpointer
run_dropper (gpointer data)
{
  Shared *shared = data;
  g_autoptr (GpuStream) stream = test_stream (shared->fixture, GPU_STREAM_FLAGS_NONE);

  for (guint i = 0; i < N_DROPS; i++)
    {
      g_autoptr (GpuBuffer) buffer = test_pool_take (shared->pool, 64, stream);

      g_assert_cmpuint (gpu_memory_get_size (GPU_MEMORY (buffer)), ==, 64);
    }

  return NULL;
}

/* A thread does not reuse a buffer object that another thread is still finalizing. */
static void
check_object_reuse_race (TestFixture *fixture, GpuMemoryPool *pool)
{
  Shared shared = { .fixture = fixture, .pool = pool };
  GThread *threads[N_THREADS];

  for (guint i = 0; i < N_THREADS; i++)
    threads[i] = g_thread_new ("test-pool", run_dropper, &shared);
  for (guint i = 0; i < N_THREADS; i++)
    g_thread_join (threads[i]);

  g_assert_cmpuint (test_pool_get_figure (pool, "active-blocks"), ==, 0);
  g_assert_cmpuint (test_pool_get_figure (pool, "n-allocs"), ==, N_THREADS * N_DROPS);
}

static void
pool_object_reuse_race (TestFixture *fixture)
{
  test_pool_each_kind (fixture, check_object_reuse_race);
}

static gpointer
run_last (gpointer data)
{
  g_object_unref (data);
  return NULL;
}

/* The pool is closed while threads drop the last buffers of the pool. */
static void
check_close_while_freeing (TestFixture *fixture, GpuMemoryPool *pool)
{
  const GpuMemoryPoolKind kind = test_get_number (pool, "kind");

  for (guint i = 0; i < 50; i++)
    {
      g_autoptr (GError) error = NULL;
      GpuMemoryPool *closing = gpu_memory_pool_new (fixture->context, kind, GPU_MEMORY_FLAGS_NONE,
                                                    &error);
      GpuBuffer *buffers[N_THREADS];
      GThread *threads[N_THREADS];

      g_assert_no_error (error);
      for (guint j = 0; j < N_THREADS; j++)
        buffers[j] = test_pool_take (closing, 4096, fixture->stream);
      for (guint j = 0; j < N_THREADS; j++)
        threads[j] = g_thread_new ("test-pool", run_last, buffers[j]);
      g_object_unref (closing);
      for (guint j = 0; j < N_THREADS; j++)
        g_thread_join (threads[j]);
    }

  g_assert_cmpuint (gpu_context_get_allocated_size (fixture->context), ==, 0);
}

static void
pool_close_while_freeing (TestFixture *fixture)
{
  test_pool_each_kind (fixture, check_close_while_freeing);
}

/* Creates a pool on top of another pool. The segments of the upper pool are blocks of the lower
 * pool. */
static void
pool_on_pool (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuMemoryPool) outer = gpu_memory_pool_new (fixture->context,
                                                         GPU_MEMORY_POOL_AUTOMATIC,
                                                         GPU_MEMORY_FLAGS_NONE,
                                                         &error);
  g_autoptr (GpuMemoryPool) inner = NULL;
  GpuBuffer *buffers[5];

  g_assert_no_error (error);
  inner = g_initable_new (GPU_TYPE_MEMORY_POOL, NULL, &error, "allocator", outer, NULL);
  g_assert_no_error (error);
  for (guint i = 0; i < G_N_ELEMENTS (buffers); i++)
    {
      const guint8 value = (guint8) (i + 1);

      buffers[i] = gpu_memory_pool_alloc_buffer (inner, 5000 + 777 * i, NULL, &error);
      g_assert_no_error (error);
      test_assert_ok (gpu_buffer_fill (buffers[i], NULL, 0, 5000 + 777 * i, &value, 1, NULL,
                                       &error), error);
    }
  for (guint i = 0; i < G_N_ELEMENTS (buffers); i++)
    {
      g_autoptr (GBytes) expected = test_value_bytes (5000 + 777 * i, (guint8) (i + 1));

      test_assert_content (buffers[i], expected);
      g_object_unref (buffers[i]);
    }
}

/* Memory of sizes that are never requested again must not accumulate in a pool of the default
 * kind. */
static void
pool_unique_sizes (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuMemoryPool) pool = gpu_memory_pool_new (fixture->context, GPU_MEMORY_POOL_AUTOMATIC,
                                                        GPU_MEMORY_FLAGS_NONE, &error);
  guint64 active;
  guint64 managed;

  g_assert_no_error (error);
  for (gsize i = 1; i <= 600; i++)
    {
      g_autoptr (GpuBuffer) buffer = gpu_memory_pool_alloc_buffer (pool, i * 10000,
                                                                   fixture->stream, &error);

      g_assert_no_error (error);
    }
  g_object_get (pool, "peak-active-bytes", &active, "peak-managed-bytes", &managed, NULL);
  g_assert_cmpuint (active, >=, 6000000);
  g_assert_cmpuint (active, <, 6100000);
  g_assert_cmpuint (managed, <=, 64 << 20);
}

static GpuMemoryPool *
ref_pool (GpuBuffer *buffer)
{
  GpuMemoryPool *pool;

  g_object_get (buffer, "pool", &pool, NULL);

  return pool;
}

static void
assert_pool (GpuBuffer *buffer, GpuMemoryPool *expected)
{
  g_autoptr (GpuMemoryPool) pool = ref_pool (buffer);

  g_assert_true (pool == expected);
}

static gpointer
release_later (gpointer data)
{
  g_usleep (g_random_int_range (0, 100));
  gpu_memory_release (data);

  return NULL;
}

static void
check_property (TestFixture *fixture, GpuMemoryPool *pool)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_pool_take (pool, 8192, NULL);
  g_autoptr (GpuBuffer) slice = gpu_buffer_slice (buffer, 4096, 100, &error);

  g_assert_no_error (error);
  gpu_memory_release (GPU_MEMORY (buffer));
  assert_pool (buffer, NULL);
  assert_pool (slice, pool);
  gpu_memory_release (GPU_MEMORY (slice));
  assert_pool (slice, NULL);
  assert_pool (buffer, NULL);
  g_clear_object (&buffer);
  assert_pool (slice, NULL);

  buffer = test_pool_take (pool, 100, fixture->stream);
  gpu_buffer_spill (buffer, NULL, &error);
  g_assert_no_error (error);
  assert_pool (buffer, pool);
  gpu_memory_release (GPU_MEMORY (buffer));
  assert_pool (buffer, NULL);

  for (guint i = 0; i < 300; i++)
    {
      g_autoptr (GpuBuffer) shared = test_pool_take (pool, 100, NULL);
      g_autoptr (GpuMemoryPool) owner = pool;
      GThread *thread = g_thread_new ("test-pool", release_later, shared);

      for (g_object_ref (owner); owner != NULL; owner = ref_pool (shared))
        {
          g_assert_true (owner == pool);
          g_object_unref (owner);
        }

      g_thread_join (thread);
    }
}

/* GpuMemory:pool is NULL once the memory is released, also if another thread releases the memory
 * at that moment. A slice keeps the pool of its released parent, and spilled memory has a pool. */
static void
pool_property (TestFixture *fixture)
{
  test_pool_each_kind (fixture, check_property);
}

/* GObject replaces a value that a property cannot have, with a warning and without an error. */
static void
pool_unknown_values (TestFixture *fixture)
{
  const guint unknown = 1u << 30;
  GpuContext *context = fixture->context;
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuDeferredAllocator) allocator = gpu_deferred_allocator_new (context, 0, &error);

  g_assert_no_error (error);
  g_assert_null (gpu_memory_pool_new (context, (GpuMemoryPoolKind) 99, 0, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_memory_pool_new", "99");
  g_assert_null (gpu_memory_pool_new (context, GPU_MEMORY_POOL_BINS, unknown, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_memory_pool_new", "0x40000000");
  g_assert_null (gpu_memory_pool_new_for_allocator (GPU_ALLOCATOR (allocator),
                                                    (GpuMemoryPoolKind) -1, 0, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "for_allocator", "-1");
  g_assert_null (gpu_deferred_allocator_new (context, unknown, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_deferred", "0x40000000");
  g_assert_null (gpu_immediate_allocator_new (fixture->stream, unknown, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_immediate", "0x40000000");
  g_assert_null (gpu_stream_allocator_new (fixture->stream, unknown, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_stream", "0x40000000");
  g_assert_null (gpu_svm_allocator_new (context, unknown, 0, 0, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "memory flags 0x40000000");
  g_assert_null (gpu_svm_allocator_new (context, 0, unknown, 0, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "SVM flags 0x40000000");
  g_assert_null (gpu_host_allocator_new (context, unknown, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_host_allocator", "0x40000000");
  g_assert_null (gpu_host_memory_new (context, unknown, 64, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_host_memory", "0x40000000");
  g_assert_null (gpu_program_new_from_source_full (context, "", NULL, unknown, NULL, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "program flags 0x40000000");
}

/* @pool allocates page-locked memory of the host: the host accesses it in place, it can be filled
 * and copied, and freed memory returns to the system. */
static void
check_host_memory (TestFixture *fixture, GpuMemoryPool *pool)
{
  const gsize size = (7 << 20) + 100;
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) small = test_pool_take (pool, 1000, NULL);
  g_autoptr (GpuBuffer) large = test_pool_take (pool, size, NULL);
  g_autoptr (GpuBuffer) target = test_buffer_filled (fixture, size, 1);
  g_autoptr (GpuMapping) mapping = NULL;

  g_assert_cmpuint (test_pool_get_figure (pool, "managed-bytes"), >=, size);
  mapping = gpu_buffer_map (large, fixture->stream, GPU_MAP_FLAGS_WRITE, 0, size, NULL, &error);
  g_assert_no_error (error);
  memset (gpu_mapping_get_data (mapping), 9, size);
  g_clear_object (&mapping);
  copy (fixture->stream, target, large);
  assert_filled (target, 9);
  fill (fixture->stream, target, 4);
  copy (fixture->stream, large, target);
  assert_filled (large, 4);
  fill (fixture->stream, large, 6);
  assert_filled (large, 6);
  gpu_memory_release (GPU_MEMORY (large));
  gpu_memory_release (GPU_MEMORY (small));
  test_synchronize (fixture->stream);
  gpu_memory_pool_trim (pool, 0);
  g_assert_cmpuint (test_pool_get_figure (pool, "managed-bytes"), ==, 0);
}

static void
trim (GpuMemoryPool *pool)
{
  gpu_memory_pool_trim (pool, 0);
}

/* If the host lacks memory for another object, a handler of ::memory-pressure can return the free
 * memory of the pool to the system. */
static void
check_host_pressure (TestFixture *fixture, GpuMemoryPool *pool)
{
  g_autoptr (GError) error = NULL;
  gulong handler = g_signal_connect_swapped (fixture->context, "memory-pressure",
                                             G_CALLBACK (trim), pool);

  g_object_unref (test_pool_take (pool, SIZE, NULL));
  g_assert_cmpuint (gpu_context_get_host_allocated_size (fixture->context), >=, SIZE);
  g_assert_null (gpu_host_memory_new (fixture->context, GPU_HOST_MEMORY_FLAGS_NONE,
                                      G_MAXSSIZE / 2, &error));
  test_assert_gpu_error (error, GPU_ERROR_OUT_OF_HOST_MEMORY, "gpu_host_memory_new");
  g_assert_cmpuint (gpu_context_get_host_allocated_size (fixture->context), ==, 0);
  g_signal_handler_disconnect (fixture->context, handler);
}

static void
pool_host_memory (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuMemoryPool) pool = test_pool_of_host (fixture);
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuMapping) mapping = NULL;

  if (pool == NULL)
    {
      g_test_skip ("no chunks of host memory");
      return;
    }

  buffer = test_pool_take (pool, SIZE, NULL);
  g_assert_cmpuint (gpu_context_get_allocated_size (fixture->context), ==, 0);
  mapping = gpu_buffer_map (buffer, fixture->stream, GPU_MAP_FLAGS_READ, 0, SIZE, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (gpu_mapping_get_address (mapping), ==,
                    gpu_memory_get_device_address (GPU_MEMORY (buffer)));
  g_clear_object (&mapping);
  g_clear_object (&buffer);
  check_host_memory (fixture, pool);
  g_assert_cmpuint (gpu_context_get_host_allocated_size (fixture->context), ==, 0);
  check_host_pressure (fixture, pool);
}

/* Segments of page-locked memory, also on devices without chunks of host memory. The memory of the
 * host is free for them. */
static void
pool_host_segments (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuDevice) host = gpu_device_find ("host", &error);
  g_autoptr (GpuMemoryPool) pool = gpu_memory_pool_new (fixture->context, GPU_MEMORY_POOL_SEGMENTS,
                                                        GPU_MEMORY_FLAGS_ALLOC_HOST, &error);
  guint64 free_size, total_size;

  g_assert_no_error (error);
  check_host_memory (fixture, pool);
  test_assert_ok (gpu_allocator_get_memory_info (GPU_ALLOCATOR (pool), &free_size, &total_size,
                                                 &error), error);
  g_assert_cmpuint (total_size, ==, gpu_device_get_memory_size (host));
}

static void
assert_rows (GpuBuffer *buffer, const GpuLayout *layout, const GpuExtent *extent, guint8 inside,
             guint8 outside)
{
  g_autoptr (GBytes) content = test_content (buffer);
  const guint8 *data = g_bytes_get_data (content, NULL);

  for (gsize i = 0; i < g_bytes_get_size (content); i++)
    {
      gsize at = i % layout->row_pitch;

      g_assert_cmpuint (data[i], ==, at >= layout->x && at < layout->x + extent->width ? inside
                                                                                       : outside);
    }
}

/* Rows in several chunks of host memory: they are filled, and copied in both directions. */
static void
pool_host_rows (TestFixture *fixture)
{
  const GpuLayout layout = { .x = 100, .row_pitch = 4096 };
  const GpuExtent extent = { 3000, 2048, 1 };
  const guint8 five = 5;
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuMemoryPool) pool = test_pool_of_host (fixture);
  g_autoptr (GpuBuffer) rows = NULL;
  g_autoptr (GpuBuffer) target = NULL;

  if (pool == NULL)
    {
      g_test_skip ("no chunks of host memory");
      return;
    }

  rows = test_pool_take (pool, layout.row_pitch * extent.height, NULL);
  target = test_buffer_filled (fixture, layout.row_pitch * extent.height, 1);
  fill (fixture->stream, rows, 2);
  test_assert_ok (gpu_stream_fill_region (fixture->stream, GPU_MEMORY (rows), &layout, &extent,
                                          &five, 1, &error), error);
  assert_rows (rows, &layout, &extent, 5, 2);
  test_assert_ok (gpu_stream_copy_region (fixture->stream, GPU_MEMORY (target), &layout,
                                          GPU_MEMORY (rows), &layout, &extent, &error), error);
  assert_rows (target, &layout, &extent, 5, 1);
  fill (fixture->stream, target, 7);
  test_assert_ok (gpu_stream_copy_region (fixture->stream, GPU_MEMORY (rows), &layout,
                                          GPU_MEMORY (target), &layout, &extent, &error), error);
  assert_rows (rows, &layout, &extent, 7, 2);
}

/* Copies of an image from and to several chunks of host memory. */
static void
pool_host_image (TestFixture *fixture)
{
  const GpuImageFormat format = { GPU_CHANNEL_ORDER_RGBA, GPU_CHANNEL_TYPE_UINT8 };
  const GpuLayout layout = { .x = 400, .row_pitch = 4096 };
  const GpuLayout origin = { 0 };
  const GpuExtent extent = { 512, 2048, 1 };
  const GpuExtent bytes = { 4 * 512, 2048, 1 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuMemoryPool) pool = test_pool_of_host (fixture);
  g_autoptr (GpuBuffer) rows = NULL;
  g_autoptr (GpuImage) image = NULL;

  if (pool == NULL || !test_has (fixture, GPU_CAPABILITIES_IMAGES))
    {
      g_test_skip ("no chunks of host memory, or no images");
      return;
    }

  rows = test_pool_take (pool, layout.row_pitch * extent.height, NULL);
  image = gpu_image_new (fixture->context, GPU_MEMORY_FLAGS_NONE, &format,
                         GPU_IMAGE_TYPE_IMAGE_2D, &extent, &error);
  g_assert_no_error (error);
  fill (fixture->stream, rows, 3);
  test_assert_ok (gpu_stream_copy_region (fixture->stream, GPU_MEMORY (image), &origin,
                                          GPU_MEMORY (rows), &layout, &extent, &error), error);
  fill (fixture->stream, rows, 8);
  test_assert_ok (gpu_stream_copy_region (fixture->stream, GPU_MEMORY (rows), &layout,
                                          GPU_MEMORY (image), &origin, &extent, &error), error);
  assert_rows (rows, &layout, &bytes, 3, 8);
}

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
  test_add ("content", pool_content);
  test_add ("reuse", pool_reuse);
  test_add ("in-flight", pool_in_flight);
  test_add ("growth", pool_growth);
  test_add ("reuse-after-failure", pool_reuse_after_failure);
  test_add ("pool-dropped-first", pool_dropped_first);
  test_add ("statistics", pool_statistics);
  test_add ("peaks", pool_peaks);
  test_add ("snapshot", pool_snapshot);
  test_add ("stop-holding", pool_stop_holding);
  test_add ("stop-holding-in-flight", pool_stop_holding_in_flight);
  test_add ("memory-pressure", pool_memory_pressure);
  test_add ("pressure-never-emitted", pool_pressure_never_emitted);
  test_add ("memory-info", pool_memory_info);
  test_add ("emissions", pool_emissions);
  test_add ("device-emissions", pool_device_emissions);
  test_add ("toggles", pool_toggles);
  test_add ("greedy-handler", pool_greedy_handler);
  test_add ("out-of-memory", pool_out_of_memory);
  test_add ("release-threshold", pool_release_threshold);
  test_add ("arguments", pool_arguments);
  test_add ("unknown-values", pool_unknown_values);
  test_add ("blocks", pool_blocks);
  test_add ("messages", pool_messages);
  test_add ("wait-messages", pool_wait_messages);
  test_add ("blocks-at-once", pool_blocks_at_once);
  test_add ("block-streams", pool_block_streams);
  test_add ("borrowed-stream", pool_borrowed_stream);
  test_add ("notifications", pool_notifications);
  test_add ("notify-interval", pool_interval);
  test_add ("frozen-notifications", pool_frozen_notifications);
  test_add ("threads", pool_threads);
  test_add ("limits-of-threads", pool_limits_of_threads);
  test_add ("object-reuse-race", pool_object_reuse_race);
  test_add ("close-while-freeing", pool_close_while_freeing);
  test_add ("pool-on-pool", pool_on_pool);
  test_add ("unique-sizes", pool_unique_sizes);
  test_add ("property", pool_property);

  test_add ("host-memory", pool_host_memory);
  test_add ("host-segments", pool_host_segments);
  test_add ("host-rows", pool_host_rows);
  test_add ("host-image", pool_host_image);
  return test_run ();
}
