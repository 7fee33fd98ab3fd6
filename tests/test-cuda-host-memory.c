/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Page-locked CUDA memory: flags for the driver, overlaps, and out-of-memory. The tests intercept
 * functions of the driver that the library has loaded. */
#include "config.h"

#include "gpumem/cuda/core/gpu-cuda.h"
#include "test-cuda-util.h"

#define SIZE 65536

static __typeof__ (_gpu_cuda.cuMemHostAlloc) real_alloc;
static gsize most;                  /* simulated limit of the driver, in bytes */
static guint n_allocated;

static CUresult
limited_alloc (void **data, size_t size, unsigned int flags)
{
  if (size > most)
    return CUDA_ERROR_OUT_OF_MEMORY;
  n_allocated++;
  return real_alloc (data, size, flags);
}

static void
limit (gsize size)
{
  real_alloc = _gpu_cuda.cuMemHostAlloc;
  _gpu_cuda.cuMemHostAlloc = limited_alloc;
  most = size;
  n_allocated = 0;
}

static void
no_limit (void)
{
  _gpu_cuda.cuMemHostAlloc = real_alloc;
}

static void
memory_flags (TestFixture *fixture)
{
  const GpuHostMemoryFlags asked = GPU_HOST_MEMORY_FLAGS_PORTABLE
                                   | GPU_HOST_MEMORY_FLAGS_WRITE_COMBINED;
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuHostMemory) memory = NULL;
  unsigned int flags = 0;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_NONE))
    return;
  memory = gpu_host_memory_new (fixture->context, asked, SIZE, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (test_get_number (memory, "host-flags") & asked, ==, asked);
  g_assert_cmpuint (gpu_memory_get_device_address (GPU_MEMORY (memory)), !=, 0);
  test_cuda_push (fixture);
  g_assert_cmpint (_gpu_cuda.cuMemHostGetFlags (&flags, gpu_host_memory_get_data (memory)), ==,
                   CUDA_SUCCESS);
  test_cuda_pop (fixture);
  g_assert_true ((flags & CU_MEMHOSTALLOC_WRITECOMBINED) != 0);
}

static void
memory_out_of_memory (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_NONE))
    return;
  limit (SIZE - 1);
  g_assert_null (gpu_host_memory_new (fixture->context, GPU_HOST_MEMORY_FLAGS_NONE, SIZE, &error));
  no_limit ();
  test_assert_gpu_error (error, GPU_ERROR_OUT_OF_HOST_MEMORY, "gpu_host_memory_new",
                         "cuMemHostAlloc", "65536");
  g_assert_cmpuint (gpu_context_get_host_allocated_size (fixture->context), ==, 0);
}

/* The allocator frees its cached blocks if the driver is out of memory. */
static void
memory_allocator_frees_cache (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuHostAllocator) allocator = NULL;
  g_autoptr (GpuHostMemory) memory = NULL;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_NONE))
    return;
  allocator = gpu_host_allocator_new (fixture->context, GPU_HOST_MEMORY_FLAGS_NONE, &error);
  g_assert_no_error (error);
  memory = gpu_host_allocator_alloc (allocator, SIZE, &error);
  g_assert_no_error (error);
  g_clear_object (&memory);
  g_assert_cmpuint (test_get_number (allocator, "held-bytes"), ==, SIZE);
  limit (SIZE);
  memory = gpu_host_allocator_alloc (allocator, SIZE, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (n_allocated, ==, 0);
  g_clear_object (&memory);
  g_assert_null (gpu_host_allocator_alloc (allocator, 2 * SIZE, &error));
  no_limit ();
  test_assert_gpu_error (error, GPU_ERROR_OUT_OF_HOST_MEMORY, "gpu_host_allocator_alloc",
                         "131072");
  g_assert_cmpuint (test_get_number (allocator, "held-bytes"), ==, 0);
}

static GpuHostMemory *
try_register (TestFixture *fixture, GpuHostMemoryFlags flags, gpointer data, gsize size,
              GError **error)
{
  g_autoptr (GBytes) bytes = g_bytes_new_static (data, size);

  return gpu_host_memory_new_registered (fixture->context, flags, bytes, error);
}

/* The driver locks a page only once: a range within registered memory shares the registration, but
 * a range that extends beyond the registered memory is refused. */
static void
memory_overlaps (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autofree guint8 *data = g_malloc0 (SIZE);
  g_autoptr (GpuHostMemory) whole = NULL;
  g_autoptr (GpuHostMemory) part = NULL;
  guint8 value = 4;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_NONE))
    return;
  whole = try_register (fixture, GPU_HOST_MEMORY_FLAGS_NONE, data, SIZE / 2, &error);
  g_assert_no_error (error);
  g_assert_null (try_register (fixture, GPU_HOST_MEMORY_FLAGS_NONE, data + 100, SIZE / 2, &error));
  test_assert_gpu_error (error, GPU_ERROR_BUSY, "gpu_host_memory_new_registered");
  part = try_register (fixture, GPU_HOST_MEMORY_FLAGS_NONE, data + 100, 200, &error);
  g_assert_no_error (error);
  gpu_memory_release (GPU_MEMORY (whole));
  test_assert_ok (gpu_stream_fill (fixture->stream, GPU_MEMORY (part), 0, 200, &value, 1, &error),
                  error);
  test_synchronize (fixture->stream);
  test_assert_value (data, 0, 100);
  test_assert_value (data + 100, 4, 200);
  gpu_memory_release (GPU_MEMORY (part));
  g_clear_object (&whole);
  whole = try_register (fixture, GPU_HOST_MEMORY_FLAGS_NONE, data + 100, SIZE - 100, &error);
  g_assert_no_error (error);
}

/* Read-only pages get a read-only registration, which a writable registration of the same pages
 * does not share. */
static void
memory_read_only (TestFixture *fixture)
{
  const CUdevice_attribute supported = CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED;
  g_autoptr (GError) error = NULL;
  g_autofree guint8 *data = g_malloc0 (SIZE);
  g_autoptr (GpuHostMemory) memory = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GBytes) zeros = test_value_bytes (SIZE, 0);
  int value = 0;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_NONE))
    return;
  if (_gpu_cuda.cuDeviceGetAttribute (&value, supported, 0) != CUDA_SUCCESS || value == 0)
    {
      g_test_skip ("the driver does not support read-only pages");
      return;
    }
  buffer = test_buffer_filled (fixture, SIZE, 1);
  memory = try_register (fixture, GPU_HOST_MEMORY_FLAGS_READ_ONLY, data, SIZE, &error);
  g_assert_no_error (error);
  g_assert_true (test_get_number (memory, "page-locked"));
  g_assert_null (try_register (fixture, GPU_HOST_MEMORY_FLAGS_NONE, data, 100, &error));
  test_assert_gpu_error (error, GPU_ERROR_BUSY, "read-only");
  test_assert_ok (gpu_stream_copy (fixture->stream, GPU_MEMORY (buffer), 0, GPU_MEMORY (memory), 0,
                                   SIZE, &error), error);
  test_assert_content (buffer, zeros);
}

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
  test_add ("flags", memory_flags);
  test_add ("out-of-memory", memory_out_of_memory);
  test_add ("allocator-frees-cache", memory_allocator_frees_cache);
  test_add ("overlaps", memory_overlaps);
  test_add ("read-only", memory_read_only);
  return test_run ();
}
