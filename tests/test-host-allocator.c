/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The allocator of page-locked memory: rounding, reuse, and limits. */
#include "config.h"

#include "test-util.h"

#define PAGE 4096

static GpuHostAllocator *
make (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  GpuHostAllocator *allocator = gpu_host_allocator_new (fixture->context,
                                                        GPU_HOST_MEMORY_FLAGS_NONE,
                                                        &error);

  g_assert_no_error (error);
  g_assert_true (test_get_object (allocator, "context") == fixture->context);
  return allocator;
}

static GpuHostMemory *
alloc (GpuHostAllocator *allocator, gsize size)
{
  g_autoptr (GError) error = NULL;
  GpuHostMemory *memory = gpu_host_allocator_alloc (allocator, size, &error);

  g_assert_no_error (error);
  g_assert_cmpuint (gpu_memory_get_size (GPU_MEMORY (memory)), ==, size);
  memset (gpu_host_memory_get_data (memory), 0x77, size);
  return memory;
}

static void
assert_figures (GpuHostAllocator *allocator, guint64 active, guint64 held)
{
  g_assert_cmpuint (test_get_number (allocator, "active-bytes"), ==, active);
  g_assert_cmpuint (test_get_number (allocator, "held-bytes"), ==, held);
}

/* Sizes are rounded up to whole pages, not to powers of two. */
static void
allocator_rounding (TestFixture *fixture)
{
  const gsize sizes[] = { 1, 4095, 4096, 4097, 100000, 1048577 };
  g_autoptr (GpuHostAllocator) allocator = make (fixture);

  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    {
      gsize rounded = (sizes[i] + PAGE - 1) / PAGE * PAGE;
      g_autoptr (GpuHostMemory) memory = alloc (allocator, sizes[i]);

      assert_figures (allocator, rounded, 0);
      g_assert_cmpuint (gpu_context_get_host_allocated_size (fixture->context), ==, rounded);
      g_clear_object (&memory);
      assert_figures (allocator, 0, rounded);
      gpu_host_allocator_trim (allocator, 0);
      assert_figures (allocator, 0, 0);
      g_assert_cmpuint (gpu_context_get_host_allocated_size (fixture->context), ==, 0);
    }
}

/* The allocator reuses the smallest cached block that is large enough, if at most an eighth of the
 * block is unused. */
static void
allocator_reuse (TestFixture *fixture)
{
  g_autoptr (GpuHostAllocator) allocator = make (fixture);
  g_autoptr (GpuHostMemory) small = alloc (allocator, 16 * PAGE);
  g_autoptr (GpuHostMemory) large = alloc (allocator, 18 * PAGE);
  guint64 small_address = gpu_host_memory_get_address (small);
  guint64 large_address = gpu_host_memory_get_address (large);
  g_autoptr (GpuHostMemory) same = NULL;
  g_autoptr (GpuHostMemory) other = NULL;

  g_clear_object (&large);
  g_clear_object (&small);
  assert_figures (allocator, 0, 34 * PAGE);
  same = alloc (allocator, 16 * PAGE - 10);
  g_assert_cmpuint (gpu_host_memory_get_address (same), ==, small_address);
  other = alloc (allocator, 16 * PAGE);
  g_assert_cmpuint (gpu_host_memory_get_address (other), ==, large_address);
  assert_figures (allocator, 34 * PAGE, 0);
  g_clear_object (&other);
  other = alloc (allocator, 15 * PAGE);
  g_assert_cmpuint (gpu_host_memory_get_address (other), !=, large_address);
  assert_figures (allocator, 31 * PAGE, 18 * PAGE);
}

static void
allocator_limit (TestFixture *fixture)
{
  g_autoptr (GpuHostAllocator) allocator = make (fixture);
  GpuHostMemory *memories[4];

  for (guint i = 0; i < 4; i++)
    memories[i] = alloc (allocator, (i + 1) * PAGE);
  g_object_set (allocator, "held-limit", (guint64) 7 * PAGE, NULL);
  g_assert_cmpuint (test_get_number (allocator, "held-limit"), ==, 7 * PAGE);
  for (guint i = 0; i < 3; i++)
    g_object_unref (memories[i]);
  assert_figures (allocator, 4 * PAGE, 6 * PAGE);
  g_object_unref (memories[3]);
  /* The trim freed the two oldest blocks, so that blocks of 3 and 4 pages remain */
  assert_figures (allocator, 0, 7 * PAGE);
  gpu_host_allocator_trim (allocator, 5 * PAGE);
  assert_figures (allocator, 0, 4 * PAGE);
  g_object_set (allocator, "held-limit", (guint64) 0, NULL);
  assert_figures (allocator, 0, 0);
  g_object_unref (alloc (allocator, PAGE));
  assert_figures (allocator, 0, 0);
}

/* Memory far beyond that of the host is refused at once, with the sizes. */
static void
allocator_beyond_memory (TestFixture *fixture)
{
  const gsize size = (gsize) 1 << 45;
  g_autoptr (GpuHostAllocator) allocator = make (fixture);
  g_autofree char *text = g_strdup_printf ("%" G_GSIZE_FORMAT " bytes", size);
  g_autoptr (GError) error = NULL;

  g_assert_null (gpu_host_allocator_alloc (allocator, size, &error));
  test_assert_gpu_error (error, GPU_ERROR_OUT_OF_HOST_MEMORY, "gpu_host_allocator_alloc", text);
  assert_figures (allocator, 0, 0);
}

/* Memory is not reused while pending work or a view uses it. */
static void
allocator_in_use (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuHostAllocator) allocator = make (fixture);
  g_autoptr (GpuHostMemory) memory = alloc (allocator, 4 * PAGE);
  g_autoptr (GpuHostMemory) other = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, 4 * PAGE);
  g_autoptr (GBytes) expected = test_value_bytes (4 * PAGE, 0x77);
  g_autoptr (GBytes) view = gpu_host_memory_get_bytes (memory);
  guint64 address = gpu_host_memory_get_address (memory);
  TestHold *hold;

  gpu_memory_release (GPU_MEMORY (memory));
  assert_figures (allocator, 4 * PAGE, 0);
  g_clear_pointer (&view, g_bytes_unref);
  assert_figures (allocator, 0, 4 * PAGE);

  if (!test_can_hold (fixture))
    return;
  g_clear_object (&memory);
  memory = alloc (allocator, 4 * PAGE);
  g_assert_cmpuint (gpu_host_memory_get_address (memory), ==, address);
  hold = test_hold (fixture->stream);
  test_assert_ok (gpu_stream_copy (fixture->stream, GPU_MEMORY (buffer), 0, GPU_MEMORY (memory), 0,
                                   4 * PAGE, &error), error);
  g_clear_object (&memory);
  assert_figures (allocator, 4 * PAGE, 0);
  other = alloc (allocator, 4 * PAGE);
  g_assert_cmpuint (gpu_host_memory_get_address (other), !=, address);
  memset (gpu_host_memory_get_data (other), 0, 4 * PAGE);
  test_hold_release (hold);
  test_assert_content (buffer, expected);
  test_hold_free (hold);
  while (test_get_number (allocator, "held-bytes") == 0)
    g_usleep (1000);
}

/* Adds 3 to four values from @begin bytes on, through a slice of @memory. */
static void
add_in_slice (TestFixture *fixture, GpuKernel *kernel, GpuHostMemory *memory, gsize begin)
{
  const GpuExtent grid = { 4, 1, 1 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) slice = gpu_buffer_new_for_memory (GPU_MEMORY (memory), begin, 16, &error);

  g_assert_no_error (error);
  test_assert_ok (gpu_stream_launch (fixture->stream, kernel, &grid, NULL, &error, slice, 3),
                  error);
  test_assert_ok (gpu_host_memory_synchronize (memory, GPU_MAP_FLAGS_READ, NULL, &error), error);
}

/* Blocks that have been mapped are reused like other blocks, and have slices. */
static void
allocator_mapped (TestFixture *fixture)
{
  static const char source[] =
    "__kernel void add (__global int *values, int n) { values[get_global_id (0)] += n; }\n";
  const GpuExtent grid = { 64, 1, 1 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuHostAllocator) allocator = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  gsize begin;

  if (!test_has (fixture, GPU_CAPABILITIES_SOURCE))
    return;
  kernel = test_kernel (fixture, source, "add");
  begin = MAX (gpu_device_get_base_alignment (fixture->device), 16);
  allocator = gpu_host_allocator_new (fixture->context, GPU_HOST_MEMORY_FLAGS_MAPPED, &error);
  g_assert_no_error (error);
  for (guint i = 0; i < 4; i++)
    {
      g_autoptr (GpuHostMemory) memory = gpu_host_allocator_alloc (allocator, PAGE, &error);
      const gint32 *data;

      if (memory == NULL)
        {
          test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_host_allocator_alloc");
          g_test_skip ("the device has no fine-grain shared virtual memory");
          return;
        }
      data = gpu_host_memory_get_data (memory);
      memset (gpu_host_memory_get_data (memory), 0, PAGE);
      test_assert_ok (gpu_stream_launch (fixture->stream, kernel, &grid, NULL, &error, memory, 5),
                      error);
      test_assert_ok (gpu_host_memory_synchronize (memory, GPU_MAP_FLAGS_READ, NULL, &error),
                      error);
      for (guint j = 0; j < 64; j++)
        g_assert_cmpint (data[j], ==, 5);
      add_in_slice (fixture, kernel, memory, PAGE - begin);
      for (guint j = 64; j < PAGE / 4; j++)
        g_assert_cmpint (data[j], ==, j * 4 >= PAGE - begin && j * 4 < PAGE - begin + 16 ? 3 : 0);
      assert_figures (allocator, PAGE, 0);
    }
}

static void
allocator_outlived (TestFixture *fixture)
{
  GpuHostAllocator *allocator = make (fixture);
  g_autoptr (GpuHostMemory) memory = alloc (allocator, 3 * PAGE);

  g_object_unref (alloc (allocator, 9 * PAGE));
  g_object_unref (allocator);
  g_assert_cmpuint (gpu_context_get_host_allocated_size (fixture->context), ==, 3 * PAGE);
  test_assert_value (gpu_host_memory_get_data (memory), 0x77, 3 * PAGE);
  test_drop_context (fixture);
}

static void
allocator_refused (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuHostAllocator) allocator = make (fixture);

  g_assert_null (gpu_host_allocator_alloc (allocator, 0, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_host_allocator_alloc", "0 bytes");
  g_assert_null (gpu_host_allocator_alloc (allocator, G_MAXSIZE, &error));
  test_assert_gpu_error (error, GPU_ERROR_OUT_OF_HOST_MEMORY, "gpu_host_allocator_alloc");
  g_assert_null (gpu_host_allocator_new (fixture->context, GPU_HOST_MEMORY_FLAGS_READ_ONLY,
                                         &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_host_allocator_new");
}

static gpointer
work (gpointer data)
{
  GpuHostAllocator *allocator = data;
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = gpu_stream_new (test_get_object (allocator, "context"),
                                                 GPU_STREAM_FLAGS_NONE, &error);

  g_assert_no_error (error);
  for (guint i = 0; i < 100; i++)
    {
      gsize size = (i % 7 + 1) * 3000;
      g_autoptr (GpuHostMemory) memory = alloc (allocator, size);
      guint8 value = (guint8) i;

      test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (memory), 0, size, &value, 1, &error),
                      error);
      if (i % 3 == 0)
        {
          test_assert_ok (gpu_host_memory_synchronize (memory, GPU_MAP_FLAGS_READ, NULL, &error),
                          error);
          test_assert_value (gpu_host_memory_get_data (memory), value, size);
        }
    }

  return NULL;
}

static void
allocator_threads (TestFixture *fixture)
{
  g_autoptr (GpuHostAllocator) allocator = make (fixture);
  GThread *threads[4];

  g_object_set (allocator, "held-limit", (guint64) 10 * PAGE, NULL);
  for (guint i = 0; i < 4; i++)
    threads[i] = g_thread_new ("work", work, allocator);
  for (guint i = 0; i < 4; i++)
    g_thread_join (threads[i]);
  while (test_get_number (allocator, "active-bytes") != 0)
    g_usleep (1000);
  g_assert_cmpuint (test_get_number (allocator, "held-bytes"), <=, 10 * PAGE);
}

static void
allocator_numa_node (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuHostAllocator) allocator =
    g_initable_new (GPU_TYPE_HOST_ALLOCATOR, NULL, &error, "context", fixture->context, "numa-node",
                    0, NULL);
  g_autoptr (GpuHostMemory) memory = NULL;
  int requested = -1;
  int node = -2;

  g_assert_no_error (error);
  memory = gpu_host_allocator_alloc (allocator, 4 * 1024 * 1024, &error);
  g_assert_no_error (error);
  g_object_get (allocator, "numa-node", &requested, NULL);
  g_object_get (memory, "numa-node", &node, NULL);
  g_assert_cmpint (requested, ==, 0);
  g_assert_cmpint (node, >=, GPU_NUMA_NODE_NONE);
  g_assert_cmpint (node, <=, 0);
  g_clear_object (&allocator);
  allocator = g_initable_new (GPU_TYPE_HOST_ALLOCATOR, NULL, &error, "context", fixture->context,
                              "numa-node", -3, NULL);
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_host_allocator_new",
                         "NUMA node -3");
}

/* The memory of the host, not that of the device. */
static void
allocator_memory_info (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuHostAllocator) allocator = make (fixture);
  g_autoptr (GpuHostAllocator) never = g_object_new (GPU_TYPE_HOST_ALLOCATOR, NULL);
  g_autoptr (GpuDevice) host = gpu_device_find ("host", &error);
  guint64 free_size = 0, total_size = 0;

  g_assert_no_error (error);
  test_assert_ok (gpu_allocator_get_memory_info (GPU_ALLOCATOR (allocator), &free_size, &total_size,
                                                 &error), error);
  g_assert_cmpuint (total_size, ==, gpu_device_get_memory_size (host));
  g_assert_cmpuint (free_size, >, 0);
  g_assert_cmpuint (free_size, <=, total_size);
  g_assert_false (gpu_allocator_get_memory_info (GPU_ALLOCATOR (never), &free_size, &total_size,
                                                 &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_allocator_get_memory_info",
                         "never initialised");
}

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
  test_add ("rounding", allocator_rounding);
  test_add ("reuse", allocator_reuse);
  test_add ("limit", allocator_limit);
  test_add ("beyond-memory", allocator_beyond_memory);
  test_add ("in-use", allocator_in_use);
  test_add ("mapped", allocator_mapped);
  test_add ("outlived", allocator_outlived);
  test_add ("refused", allocator_refused);
  test_add ("threads", allocator_threads);
  test_add ("numa-node", allocator_numa_node);
  test_add ("memory-info", allocator_memory_info);
  return test_run ();
}
