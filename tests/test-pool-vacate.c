/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* gpu_buffer_vacate(): the buffer returns its memory to the pool, stays alive, and later gets
 * memory again. */
#include "config.h"

#include "test-util.h"

#define SIZE 5000

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

/* Work submitted before the buffer loses its memory continues, and later work is ordered after
 * that work. */
static void
vacate_refill (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuMemoryPool) pool = make_pool (fixture);
  g_autoptr (GpuBuffer) buffer = take (pool, SIZE);
  g_autoptr (GpuBuffer) copy = take (pool, SIZE);

  for (guint i = 0; i < 100; i++)
    {
      gsize size = i % 2 == 0 ? SIZE : SIZE + 2000 * i;
      GpuBuffer *other;

      fill (fixture, buffer, i);
      gpu_stream_copy (fixture->stream, GPU_MEMORY (copy), 0, GPU_MEMORY (buffer), 0, SIZE, &error);
      g_assert_no_error (error);
      g_assert_true (gpu_buffer_vacate (buffer));
      g_assert_cmpuint (get_active (pool), ==, 1);
      g_assert_true (gpu_memory_is_released (GPU_MEMORY (buffer)));
      g_assert_cmpuint (gpu_memory_get_native_handle (GPU_MEMORY (buffer)), ==, 0);
      other = take (pool, SIZE);
      fill (fixture, other, 0xff);
      check (copy, i);
      g_object_unref (other);

      g_assert_true (gpu_memory_pool_refill_buffer (pool, buffer, size, NULL, &error));
      g_assert_no_error (error);
      g_assert_false (gpu_memory_is_released (GPU_MEMORY (buffer)));
      g_assert_cmpuint (gpu_memory_get_size (GPU_MEMORY (buffer)), ==, size);
      fill (fixture, buffer, 100 + i);
      check (buffer, 100 + i);
      g_assert_cmpuint (get_active (pool), ==, 2);
    }
}

/* A buffer keeps memory that has other users. */
static void
vacate_in_use (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuMemoryPool) pool = make_pool (fixture);
  g_autoptr (GpuBuffer) buffer = take (pool, SIZE);
  g_autoptr (GpuBuffer) plain = gpu_buffer_new (fixture->context, GPU_MEMORY_FLAGS_NONE, SIZE,
                                                &error);
  g_autoptr (GpuBuffer) slice = gpu_buffer_slice (buffer, 0, SIZE, &error);

  g_assert_no_error (error);
  fill (fixture, buffer, 7);
  g_assert_false (gpu_buffer_vacate (plain));
  g_assert_false (gpu_buffer_vacate (slice));
  g_assert_false (gpu_buffer_vacate (buffer));
  check (slice, 7);
  g_clear_object (&slice);
  g_object_ref (buffer);
  g_assert_false (gpu_buffer_vacate (buffer));
  g_object_unref (buffer);
  check (buffer, 7);

  g_assert_true (gpu_buffer_vacate (buffer));
  g_assert_false (gpu_buffer_vacate (buffer));
  g_assert_false (gpu_buffer_spill (buffer, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_RELEASED, "gpu_buffer_spill");
  g_assert_false (gpu_buffer_unspill (buffer, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_RELEASED, "gpu_buffer_unspill");
  gpu_memory_release (GPU_MEMORY (buffer));
  g_assert_true (gpu_memory_pool_refill_buffer (pool, buffer, SIZE, NULL, &error));
  gpu_memory_release (GPU_MEMORY (buffer));
  g_assert_false (gpu_buffer_vacate (buffer));
}

static void
expect_refusal (GpuMemoryPool *pool,
                GpuBuffer     *buffer,
                gsize          size,
                const char    *words)
{
  g_autoptr (GError) error = NULL;

  g_assert_false (gpu_memory_pool_refill_buffer (pool, buffer, size, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, words);
}

static void
vacate_errors (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuMemoryPool) pool = make_pool (fixture);
  g_autoptr (GpuMemoryPool) other = make_pool (fixture);
  g_autoptr (GpuBuffer) buffer = take (pool, SIZE);

  expect_refusal (pool, buffer, SIZE, "was not vacated");
  g_assert_true (gpu_buffer_vacate (buffer));
  expect_refusal (other, buffer, SIZE, "another pool");
  expect_refusal (pool, buffer, 0, "0 bytes");
  gpu_buffer_read (buffer, NULL, 0, &(guint8) { 0 }, 1, NULL, &error);
  test_assert_gpu_error (error, GPU_ERROR_RELEASED, "released");
  g_clear_error (&error);

  gpu_memory_pool_set_limit (pool, 64 << 20);
  g_assert_false (gpu_memory_pool_refill_buffer (pool, buffer, 256 << 20, NULL, &error));
  g_assert_nonnull (error);
  g_assert_true (gpu_memory_is_released (GPU_MEMORY (buffer)));
  g_assert_cmpuint (get_active (pool), ==, 0);
  g_assert_true (gpu_memory_pool_refill_buffer (pool, buffer, SIZE, NULL, NULL));
  fill (fixture, buffer, 3);
  check (buffer, 3);
}

static guint
count_buffers (void)
{
  g_autoptr (GVariant) live = gpu_debug_list_live_objects ();
  guint count = 0;

  g_variant_lookup (live, "buffer", "u", &count);

  return count;
}

/* The pool does not count a buffer without memory, which may be dropped before or after the
 * pool. */
static void
vacate_drop_order (TestFixture *fixture)
{
  for (guint i = 0; i < 2; i++)
    {
      g_autoptr (GpuMemoryPool) pool = make_pool (fixture);
      g_autoptr (GpuBuffer) buffer = take (pool, SIZE);
      guint before = count_buffers ();

      g_assert_true (gpu_buffer_vacate (buffer));
      g_assert_cmpuint (count_buffers (), ==, before - 1);

      if (i == 0)
        g_clear_object (&pool);
      else
        g_clear_object (&buffer);
    }
}

int
main (int    argc,
      char **argv)
{
  test_init (&argc, &argv);
  test_add ("refill", vacate_refill);
  test_add ("in-use", vacate_in_use);
  test_add ("errors", vacate_errors);
  test_add ("drop-order", vacate_drop_order);

  return test_run ();
}
