/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "test-pool-util.h"

GpuMemoryPool *
test_pool (TestFixture *fixture, GpuMemoryPoolKind kind)
{
  g_autoptr (GError) error = NULL;
  GpuMemoryPool *pool = gpu_memory_pool_new (fixture->context, kind, GPU_MEMORY_FLAGS_NONE, &error);

  if (pool == NULL)
    {
      g_assert_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED);
      g_assert_cmpint (kind, ==, GPU_MEMORY_POOL_EXPANDABLE);
      return NULL;
    }

  g_assert_no_error (error);
  g_assert_cmpint (test_get_number (pool, "kind"), ==, kind);
  return pool;
}

GpuMemoryPool *
test_pool_of_host (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  GpuMemoryPool *pool = gpu_memory_pool_new (fixture->context, GPU_MEMORY_POOL_EXPANDABLE,
                                             GPU_MEMORY_FLAGS_ALLOC_HOST, &error);

  if (pool == NULL)
    test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_memory_pool_new",
                           "use another kind");
  return pool;
}

void
test_pool_each_kind (TestFixture *fixture, TestPoolFunc func)
{
  g_autoptr (GpuMemoryPool) of_host = test_pool_of_host (fixture);

  for (guint kind = GPU_MEMORY_POOL_EXPANDABLE; kind <= GPU_MEMORY_POOL_BINS; kind++)
    {
      g_autoptr (GpuMemoryPool) pool = test_pool (fixture, kind);

      if (pool != NULL)
        func (fixture, pool);
    }

  if (of_host != NULL)
    func (fixture, of_host);
}

GpuBuffer *
test_pool_take (GpuMemoryPool *pool, gsize size, GpuStream *stream)
{
  g_autoptr (GError) error = NULL;
  GpuBuffer *buffer = gpu_memory_pool_alloc_buffer (pool, size, stream, &error);

  g_assert_no_error (error);
  g_assert_nonnull (buffer);
  g_assert_cmpuint (gpu_memory_get_size (GPU_MEMORY (buffer)), ==, size);
  g_assert_true (gpu_memory_get_context (GPU_MEMORY (buffer))
                 == gpu_allocator_get_context (GPU_ALLOCATOR (pool)));
  return buffer;
}

guint64
test_pool_get_figure (GpuMemoryPool *pool, const char *name)
{
  guint64 value;

  g_object_get (pool, name, &value, NULL);
  return value;
}
