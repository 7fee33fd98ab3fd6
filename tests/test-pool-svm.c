/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Shared virtual memory from pools, and addresses of blocks as kernel arguments. */
#include "config.h"

#include "test-util.h"

#define N    1000
#define SIZE (N * sizeof (gint32))

static const char source[] =
  "__kernel void add (__global int *to, __global const int *from, int n)\n"
  "{\n"
  "  int i = (int) get_global_id (0);\n"
  "  to[i] = from[i] + n;\n"
  "}\n"
  "__kernel void point (__global ulong *to, __global int *target)\n"
  "{\n"
  "  to[0] = (ulong) target;\n"
  "}\n";

static const GpuExtent items = { N, 1, 1 };
static const GpuExtent one = { 1, 1, 1 };

/* Returns NULL if the memory of the pool cannot be divided into blocks. This may only happen with
 * segments of coarse-grained SVM on CUDA. */
static GpuMemoryPool *
pool_new (TestFixture *fixture, GpuMemoryPoolKind kind)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuSvmAllocator) allocator =
    gpu_svm_allocator_new (fixture->context, GPU_MEMORY_FLAGS_NONE, GPU_SVM_FLAGS_NONE, 0, NULL,
                           &error);
  g_autoptr (GpuLimitAllocator) limit = NULL;
  g_autoptr (GpuMemoryPool) pool = NULL;
  g_autoptr (GpuSvm) svm = NULL;

  g_assert_no_error (error);
  limit = gpu_limit_allocator_new (GPU_ALLOCATOR (allocator), 1 << 30);
  pool = gpu_memory_pool_new_for_allocator (GPU_ALLOCATOR (limit), kind, 4, &error);
  g_assert_no_error (error);
  svm = gpu_memory_pool_alloc_svm (pool, 64, NULL, &error);

  if (svm != NULL)
    return g_steal_pointer (&pool);

  g_assert_cmpint (kind, ==, GPU_MEMORY_POOL_SEGMENTS);
  g_assert_cmpuint (gpu_device_get_capabilities (fixture->device) & GPU_CAPABILITIES_SVM_FINE, ==,
                    0);
  g_assert_cmpstr (gpu_device_get_backend (fixture->device), ==, "cuda");
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "cannot be divided", "BINS");
  return NULL;
}

static GpuSvm *
take (GpuMemoryPool *pool, GpuStream *stream)
{
  g_autoptr (GError) error = NULL;
  GpuSvm *svm = gpu_memory_pool_alloc_svm (pool, SIZE, stream, &error);

  g_assert_no_error (error);
  g_assert_cmpuint (gpu_memory_get_size (GPU_MEMORY (svm)), ==, SIZE);
  return svm;
}

static guint64
address_of (GpuSvm *svm)
{
  return gpu_memory_get_device_address (GPU_MEMORY (svm));
}

static void
write_ints (GpuSvm *svm, gint32 first)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuMapping) mapping = gpu_svm_map (svm, NULL, GPU_MAP_FLAGS_WRITE_INVALIDATE, 0, SIZE,
                                                NULL, &error);
  gint32 *data;

  g_assert_no_error (error);
  data = gpu_mapping_get_data (mapping);
  g_assert_cmpuint ((guintptr) data, ==, address_of (svm));
  for (guint i = 0; i < N; i++)
    data[i] = first + (gint32) i;
  test_assert_ok (gpu_mapping_unmap (mapping, &error), error);
}

static void
check_ints (GpuSvm *svm, gint32 first)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuMapping) mapping = gpu_svm_map (svm, NULL, GPU_MAP_FLAGS_READ, 0, SIZE, NULL,
                                                &error);
  const gint32 *data;

  g_assert_no_error (error);
  data = gpu_mapping_get_data (mapping);
  for (guint i = 0; i < N; i++)
    g_assert_cmpint (data[i], ==, first + (gint32) i);
}

/* Adjacent allocations keep their content, memory has the same address in kernels as on the host,
 * and memory is reused. */
static void
check_content (TestFixture *fixture, GpuMemoryPool *pool)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuKernel) add = test_kernel (fixture, source, "add");
  g_autoptr (GpuKernel) point = test_kernel (fixture, source, "point");
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) out = test_buffer (fixture, 8);
  g_autoptr (GpuSvm) from = take (pool, stream);
  g_autoptr (GpuSvm) to = take (pool, NULL);
  g_autoptr (GpuSvm) other = take (pool, NULL);
  g_autoptr (GBytes) content = NULL;
  guint64 address = address_of (to), seen;

  write_ints (from, 7);
  write_ints (other, 1000000);
  test_assert_ok (gpu_stream_launch (stream, add, &items, NULL, &error, to, from, 100), error);
  check_ints (to, 107);
  check_ints (from, 7);
  check_ints (other, 1000000);

  test_assert_ok (gpu_stream_launch (stream, point, &one, NULL, &error, out, to), error);
  content = test_content (out);
  memcpy (&seen, g_bytes_get_data (content, NULL), sizeof seen);
  g_assert_cmpuint (seen, ==, address);

  g_clear_object (&to);
  test_synchronize (stream);
  test_synchronize (fixture->stream);
  to = take (pool, stream);
  write_ints (to, 3);
  check_ints (from, 7);
  check_ints (to, 3);
}

static void
svm_content (TestFixture *fixture)
{
  if (!test_has (fixture, GPU_CAPABILITIES_SVM_COARSE))
    return;

  for (guint kind = GPU_MEMORY_POOL_AUTOMATIC; kind <= GPU_MEMORY_POOL_BINS; kind++)
    {
      g_autoptr (GpuMemoryPool) pool =
        kind != GPU_MEMORY_POOL_EXPANDABLE ? pool_new (fixture, kind) : NULL;

      if (pool != NULL)
        check_content (fixture, pool);
    }
}

/* A pool over a pool of shared memory allocates shared memory, too, with the alignment of the
 * allocator. */
static void
svm_over_pool (TestFixture *fixture)
{
  const guint64 alignment = 8192;
  g_autoptr (GpuSvmAllocator) allocator = NULL;
  g_autoptr (GpuMemoryPool) inner = NULL;
  g_autoptr (GError) error = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_SVM_COARSE))
    return;

  allocator = gpu_svm_allocator_new (fixture->context, GPU_MEMORY_FLAGS_NONE, GPU_SVM_FLAGS_NONE,
                                     alignment, NULL, &error);
  g_assert_no_error (error);
  inner = gpu_memory_pool_new_for_allocator (GPU_ALLOCATOR (allocator), GPU_MEMORY_POOL_AUTOMATIC,
                                             4, &error);
  g_assert_no_error (error);

  for (guint i = 0; i < 2; i++)
    {
      GpuMemoryPoolKind kind = i == 0 ? GPU_MEMORY_POOL_AUTOMATIC : GPU_MEMORY_POOL_BINS;
      g_autoptr (GpuLimitAllocator) limit = gpu_limit_allocator_new (GPU_ALLOCATOR (inner),
                                                                     1 << 30);
      g_autoptr (GpuMemoryPool) outer =
        gpu_memory_pool_new_for_allocator (GPU_ALLOCATOR (limit), kind, 4, &error);
      g_autoptr (GpuSvm) first = NULL;
      g_autoptr (GpuSvm) second = NULL;

      g_assert_no_error (error);
      check_content (fixture, outer);
      first = take (outer, NULL);
      second = take (outer, NULL);
      g_assert_cmpuint (address_of (first) % alignment, ==, 0);
      g_assert_cmpuint (address_of (second) % alignment, ==, 0);
    }
}

/* If memory is released while work on it is pending, the next stream waits for that work. */
static void
check_reuse_order (TestFixture *fixture, GpuMemoryPool *pool)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) first = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuStream) second = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuKernel) add = test_kernel (fixture, source, "add");
  g_autoptr (GpuSvm) result = take (pool, first);
  GpuSvm *svm = take (pool, first);
  TestHold *hold;

  write_ints (svm, 50);
  gpu_memory_pool_set_limit (pool, 1);
  hold = test_hold (first);
  test_assert_ok (gpu_stream_launch (first, add, &items, NULL, &error, result, svm, 1), error);
  g_object_unref (svm);

  for (guint i = 0; i < 20; i++)
    {
      g_autoptr (GpuSvm) next = gpu_memory_pool_alloc_svm (pool, SIZE, second, NULL);
      const guint8 value = 0xee;

      if (next != NULL)
        test_assert_ok (gpu_stream_fill (second, GPU_MEMORY (next), 0, SIZE, &value, 1, &error),
                        error);
    }

  test_hold_release (hold);
  check_ints (result, 51);
  test_hold_free (hold);
}

static void
svm_reuse_order (TestFixture *fixture)
{
  if (!test_has (fixture, GPU_CAPABILITIES_SVM_COARSE) || !test_can_hold (fixture))
    return;

  for (guint kind = GPU_MEMORY_POOL_SEGMENTS; kind <= GPU_MEMORY_POOL_BINS; kind++)
    {
      g_autoptr (GpuMemoryPool) pool = pool_new (fixture, kind);

      if (pool != NULL)
        check_reuse_order (fixture, pool);
    }
}

/* SVM objects keep the memory of their pool alive after the pool is freed. */
static void
svm_outlives_pool (TestFixture *fixture)
{
  g_autoptr (GpuMemoryPool) pool = NULL;
  g_autoptr (GpuSvm) svm = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_SVM_COARSE))
    return;

  pool = pool_new (fixture, GPU_MEMORY_POOL_AUTOMATIC);
  svm = take (pool, NULL);
  g_clear_object (&pool);
  write_ints (svm, 9);
  check_ints (svm, 9);
}

static void
svm_errors (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuMemoryPool) pool = gpu_memory_pool_new (fixture->context, GPU_MEMORY_POOL_AUTOMATIC,
                                                        GPU_MEMORY_FLAGS_NONE, &error);

  g_assert_no_error (error);
  g_assert_null (gpu_memory_pool_alloc_svm (pool, SIZE, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_memory_pool_alloc_svm", "the driver",
                         "GpuSvmAllocator");

  if (!test_has (fixture, GPU_CAPABILITIES_SVM_COARSE))
    return;

  g_clear_object (&pool);
  pool = pool_new (fixture, GPU_MEMORY_POOL_BINS);
  g_assert_null (gpu_memory_pool_alloc_svm (pool, 0, NULL, &error));
  g_assert_no_error (error);
}

/* --- addresses ------------------------------------------------------------------------------- */

/* A kernel receives a block as a pointer or as a number, as the kernel declares its argument. */
static void
check_blocks (TestFixture *fixture, GpuMemoryPool *pool)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuKernel) add = test_kernel (fixture, source, "add");
  g_autoptr (GpuBuffer) from = test_buffer_filled (fixture, SIZE, 1);
  g_autoptr (GpuBuffer) to = test_buffer (fixture, SIZE);
  g_autoptr (GpuArguments) arguments = gpu_arguments_new ();
  g_autoptr (GBytes) content = NULL;
  GpuMemoryBlock *first = gpu_memory_pool_alloc_block (pool, SIZE, fixture->stream, &error);
  GpuMemoryBlock *second = gpu_memory_pool_alloc_block (pool, SIZE, fixture->stream, &error);
  const gint32 *data;

  g_assert_no_error (error);

  for (guint i = 0; i < 3; i++)
    {
      gpu_arguments_clear (arguments);
      if (i == 2)
        gpu_arguments_add_memory (arguments, GPU_MEMORY (to));
      else
        gpu_arguments_add_address (arguments, gpu_memory_block_get_address (i == 0 ? first
                                                                                   : second));
      if (i == 0)
        gpu_arguments_add_memory (arguments, GPU_MEMORY (from));
      else
        gpu_arguments_add_address (arguments, gpu_memory_block_get_address (i == 1 ? first
                                                                                   : second));
      gpu_arguments_add_int (arguments, i + 1);
      test_assert_ok (gpu_stream_launch_arguments (fixture->stream, add, &items, NULL, arguments,
                                                   &error), error);
    }

  gpu_memory_block_unref (first);
  gpu_memory_block_unref (second);
  content = test_content (to);
  data = g_bytes_get_data (content, NULL);
  for (guint i = 0; i < N; i++)
    g_assert_cmpint (data[i], ==, 0x01010101 + 6);
}

static void
svm_blocks (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuMemoryPool) pool = gpu_memory_pool_new (fixture->context, GPU_MEMORY_POOL_AUTOMATIC,
                                                        GPU_MEMORY_FLAGS_NONE, &error);
  g_autoptr (GpuMemoryPool) shared = NULL;
  GpuMemoryBlock *block;

  g_assert_no_error (error);
  block = gpu_memory_pool_alloc_block (pool, 64, NULL, &error);

  if (block != NULL)
    {
      gpu_memory_block_unref (block);
      check_blocks (fixture, pool);
    }
  else
    {
      test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "addresses");
    }

  if (!test_has (fixture, GPU_CAPABILITIES_SVM_COARSE))
    return;

  shared = pool_new (fixture, GPU_MEMORY_POOL_SEGMENTS);

  if (shared != NULL)
    check_blocks (fixture, shared);
}

/* A launch rejects an address as the value of an argument that is not a pointer. */
static void
svm_address_for_value (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuKernel) add = test_kernel (fixture, source, "add");
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
  g_autoptr (GpuArguments) arguments = gpu_arguments_new ();

  gpu_arguments_add_memory (arguments, GPU_MEMORY (buffer));
  gpu_arguments_add_memory (arguments, GPU_MEMORY (buffer));
  gpu_arguments_add_address (arguments, 4096);
  g_assert_false (gpu_stream_launch_arguments (fixture->stream, add, &items, NULL, arguments,
                                               &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "argument 2", "an address");
}

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
  test_add ("content", svm_content);
  test_add ("over-pool", svm_over_pool);
  test_add ("reuse-order", svm_reuse_order);
  test_add ("outlives-pool", svm_outlives_pool);
  test_add ("errors", svm_errors);
  test_add ("blocks", svm_blocks);
  test_add ("address-for-value", svm_address_for_value);

  return test_run ();
}
