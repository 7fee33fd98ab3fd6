/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "test-allocator-util.h"

static void allocator_iface_init (GpuAllocatorInterface *iface);

G_DEFINE_FINAL_TYPE_WITH_CODE (TestAllocator, test_allocator, G_TYPE_OBJECT,
                               G_IMPLEMENT_INTERFACE (GPU_TYPE_ALLOCATOR, allocator_iface_init))

static void
test_allocator_finalize (GObject *object)
{
  TestAllocator *allocator = TEST_ALLOCATOR (object);

  g_queue_clear_full (&allocator->kept, g_object_unref);
  g_clear_object (&allocator->context);

  G_OBJECT_CLASS (test_allocator_parent_class)->finalize (object);
}

static void
test_allocator_class_init (TestAllocatorClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = test_allocator_finalize;
}

static void
test_allocator_init (TestAllocator *allocator)
{
  g_queue_init (&allocator->kept);
}

static GpuMemory *
alloc_foreign (TestAllocator *allocator, gsize size, GError **error)
{
  g_autoptr (GpuContext) other = gpu_context_new (gpu_context_get_device (allocator->context),
                                                  GPU_CONTEXT_FLAGS_NONE, error);

  return other != NULL
         ? GPU_MEMORY (gpu_buffer_new (other, GPU_MEMORY_FLAGS_NONE, size, error)) : NULL;
}

static GpuMemory *
alloc_image (TestAllocator *allocator, GError **error)
{
  const GpuImageFormat format = { GPU_CHANNEL_ORDER_R, GPU_CHANNEL_TYPE_UINT8 };
  const GpuExtent extent = { 10, 10, 1 };

  return GPU_MEMORY (gpu_image_new (allocator->context, GPU_MEMORY_FLAGS_NONE, &format,
                                    GPU_IMAGE_TYPE_IMAGE_2D, &extent, error));
}

static GpuMemory *
alloc_slice (TestAllocator *allocator, gsize size, GError **error)
{
  g_autoptr (GpuBuffer) buffer = gpu_buffer_new (allocator->context, GPU_MEMORY_FLAGS_NONE,
                                                 size + 1, error);

  return buffer != NULL ? GPU_MEMORY (gpu_buffer_slice (buffer, 1, size, error)) : NULL;
}

static GpuMemory *
allocator_alloc (GpuAllocator  *object,
                 gsize          size,
                 GpuStream     *stream G_GNUC_UNUSED,
                 GError       **error)
{
  TestAllocator *allocator = TEST_ALLOCATOR (object);
  GpuMemory *memory;

  allocator->n_allocs++;

  if (allocator->gives == TEST_GIVES_NOTHING)
    return NULL;

  if (allocator->gives == TEST_GIVES_ERROR)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_OUT_OF_DEVICE_MEMORY, "no room in the test");
      return NULL;
    }

  if (allocator->gives == TEST_GIVES_FOREIGN)
    return alloc_foreign (allocator, size, error);

  if (allocator->gives == TEST_GIVES_IMAGE)
    return alloc_image (allocator, error);

  if (allocator->gives == TEST_GIVES_SLICE)
    return alloc_slice (allocator, size, error);

  memory = g_queue_pop_tail (&allocator->kept);

  if (memory == NULL)
    memory = GPU_MEMORY (gpu_buffer_new (allocator->context, GPU_MEMORY_FLAGS_NONE,
                                         allocator->gives == TEST_GIVES_LITTLE ? 1 : size, error));

  if (allocator->gives == TEST_GIVES_RELEASED)
    gpu_memory_release (memory);

  return memory;
}

static void
allocator_free (GpuAllocator *object,
                GpuMemory    *memory)
{
  g_queue_push_tail (&TEST_ALLOCATOR (object)->kept, g_object_ref (memory));
}

static GpuContext *
allocator_get_context (GpuAllocator *object)
{
  TestAllocator *allocator = TEST_ALLOCATOR (object);

  return allocator->hides_context ? NULL : allocator->context;
}

static void
allocator_iface_init (GpuAllocatorInterface *iface)
{
  iface->alloc = allocator_alloc;
  iface->free = allocator_free;
  iface->get_context = allocator_get_context;
}

TestAllocator *
test_allocator_new (TestFixture *fixture)
{
  TestAllocator *allocator = g_object_new (TEST_TYPE_ALLOCATOR, NULL);

  allocator->context = g_object_ref (fixture->context);

  return allocator;
}

GpuAllocator *
test_deferred (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  GpuDeferredAllocator *allocator = gpu_deferred_allocator_new (fixture->context,
                                                                GPU_MEMORY_FLAGS_NONE,
                                                                &error);

  g_assert_no_error (error);

  return GPU_ALLOCATOR (allocator);
}

GpuMemory *
test_alloc (GpuAllocator *allocator, gsize size)
{
  g_autoptr (GError) error = NULL;
  GpuMemory *memory = gpu_allocator_alloc (allocator, size, NULL, &error);

  g_assert_no_error (error);
  g_assert_true (GPU_IS_MEMORY (memory));
  g_assert_cmpuint (gpu_memory_get_size (memory), ==, size);

  return memory;
}

void
test_check_memory (TestFixture *fixture, GpuMemory *memory)
{
  const gsize size = gpu_memory_get_size (memory);
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (size);
  g_autoptr (GpuBuffer) copy = test_buffer_filled (fixture, size, 0);

  test_assert_ok (gpu_stream_write (fixture->stream, memory, 0, bytes, &error), error);
  test_assert_ok (gpu_stream_copy (fixture->stream, GPU_MEMORY (copy), 0, memory, 0, size,
                                   &error), error);
  test_assert_content (copy, bytes);
}

void
test_check_allocator (TestFixture *fixture, GpuAllocator *allocator, GType type)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuMemory) one = test_alloc (allocator, 10000);
  g_autoptr (GpuMemory) other = test_alloc (allocator, 4096);
  guint64 free_size;
  guint64 total_size;

  g_assert_true (G_OBJECT_TYPE (one) == type);
  g_assert_true (gpu_memory_get_context (one) == fixture->context);
  g_assert_true (gpu_allocator_get_context (allocator) == fixture->context);
  g_assert_false (gpu_memory_equal (one, other));
  test_check_memory (fixture, one);
  test_check_memory (fixture, other);
  test_assert_ok (gpu_allocator_get_memory_info (allocator, &free_size, &total_size, &error),
                  error);
  g_assert_cmpuint (total_size, >=, free_size);
  g_assert_cmpuint (total_size, >, 0);

  g_assert_null (gpu_allocator_alloc (allocator, 0, NULL, &error));
  g_assert_no_error (error);
  gpu_allocator_free (allocator, NULL);
  gpu_allocator_free (allocator, one);
  g_assert_true (gpu_memory_is_released (one));
}
