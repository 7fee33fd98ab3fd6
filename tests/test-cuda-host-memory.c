/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Page-locked CUDA memory: flags for the driver, overlaps, out-of-memory, and large memory, whose
 * pages the library maps. The tests intercept functions of the loaded driver. */
#include "config.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpumem/cuda/core/gpu-cuda.h"
#include "test-cuda-util.h"

#define SIZE 65536
#define LARGE ((gsize) 9 * 1024 * 1024 + 100)

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

/* --- large memory ----------------------------------------------------------------------------- */

static __typeof__ (_gpu_cuda.cuMemHostRegister) real_register;
static __typeof__ (_gpu_cuda.cuMemHostUnregister) real_unregister;
static guint n_registered;
static guint n_unregistered;

static CUresult CUDAAPI
count_register (void *data, size_t size, unsigned int flags)
{
  n_registered++;
  return real_register (data, size, flags);
}

static CUresult CUDAAPI
refuse_register (void *data G_GNUC_UNUSED, size_t size G_GNUC_UNUSED,
                 unsigned int flags G_GNUC_UNUSED)
{
  n_registered++;
  return CUDA_ERROR_OPERATING_SYSTEM;
}

static CUresult CUDAAPI
count_unregister (void *data)
{
  n_unregistered++;
  return real_unregister (data);
}

static CUresult CUDAAPI
fail_unregister (void *data)
{
  n_unregistered++;
  real_unregister (data);
  return CUDA_ERROR_UNKNOWN;
}

static void
intercept (__typeof__ (_gpu_cuda.cuMemHostRegister) on_register,
           __typeof__ (_gpu_cuda.cuMemHostUnregister) on_unregister)
{
  real_register = _gpu_cuda.cuMemHostRegister;
  real_unregister = _gpu_cuda.cuMemHostUnregister;
  _gpu_cuda.cuMemHostRegister = on_register;
  _gpu_cuda.cuMemHostUnregister = on_unregister;
  n_registered = 0;
  n_unregistered = 0;
}

static void
stop_intercepting (void)
{
  _gpu_cuda.cuMemHostRegister = real_register;
  _gpu_cuda.cuMemHostUnregister = real_unregister;
}

/* Copies @memory to a device and back. */
static void
assert_usable (TestFixture *fixture, GpuHostMemory *memory)
{
  g_autoptr (GError) error = NULL;
  const gsize size = gpu_memory_get_size (GPU_MEMORY (memory));
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, size, 1);
  guint8 *data = gpu_host_memory_get_data (memory);

  memset (data, 7, size);
  test_assert_ok (gpu_stream_copy (fixture->stream, GPU_MEMORY (buffer), 0, GPU_MEMORY (memory), 0,
                                   size, &error), error);
  test_assert_ok (gpu_host_memory_synchronize (memory, GPU_MAP_FLAGS_WRITE, NULL, &error), error);
  memset (data, 0, size);
  test_assert_ok (gpu_stream_copy (fixture->stream, GPU_MEMORY (memory), 0, GPU_MEMORY (buffer), 0,
                                   size, &error), error);
  test_synchronize (fixture->stream);
  test_assert_value (data, 7, size);
}

/* The driver locks pages of the library with one registration, and unlocks them. */
static void
memory_large (TestFixture *fixture)
{
  const GpuHostMemoryFlags known = GPU_HOST_MEMORY_FLAGS_PORTABLE | GPU_HOST_MEMORY_FLAGS_MAPPED;
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuHostMemory) memory = NULL;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_NONE))
    return;
  limit (0);
  intercept (count_register, count_unregister);
  memory = gpu_host_memory_new (fixture->context, GPU_HOST_MEMORY_FLAGS_NONE, LARGE, &error);
  no_limit ();
  g_assert_no_error (error);
  g_assert_cmpuint (n_registered, ==, 1);
  g_assert_true (test_get_number (memory, "page-locked"));
  g_assert_cmpuint (test_get_number (memory, "host-flags"), ==, known);
  g_assert_cmpuint (gpu_host_memory_get_address (memory) % (2 * 1024 * 1024), ==, 0);
  g_assert_cmpuint (gpu_memory_get_device_address (GPU_MEMORY (memory)), !=, 0);
  g_assert_cmpuint (gpu_context_get_host_allocated_size (fixture->context), ==, LARGE);
  assert_usable (fixture, memory);
  g_clear_object (&memory);
  g_assert_cmpuint (n_unregistered, ==, 1);
  g_assert_cmpuint (gpu_context_get_host_allocated_size (fixture->context), ==, 0);
  stop_intercepting ();
}

/* Memory that cannot be registered is from the driver. */
static void
memory_large_unregistered (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuHostMemory) memory = NULL;
  g_autoptr (GpuHostMemory) combined = NULL;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_NONE))
    return;
  limit (LARGE);
  intercept (refuse_register, count_unregister);
  combined = gpu_host_memory_new (fixture->context, GPU_HOST_MEMORY_FLAGS_WRITE_COMBINED, LARGE,
                                  &error);
  g_assert_no_error (error);
  g_assert_cmpuint (n_allocated, ==, 1);
  g_assert_cmpuint (n_registered, ==, 0);
  memory = gpu_host_memory_new (fixture->context, GPU_HOST_MEMORY_FLAGS_NONE, LARGE, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (n_allocated, ==, 2);
  g_assert_cmpuint (n_registered, ==, 1);
  assert_usable (fixture, memory);
  g_clear_object (&memory);
  g_assert_cmpuint (n_unregistered, ==, 0);
  stop_intercepting ();
  no_limit ();
}

static void
memory_large_out_of_memory (TestFixture *fixture)
{
  const gsize total = (gsize) sysconf (_SC_PHYS_PAGES) * (gsize) sysconf (_SC_PAGESIZE);
  g_autoptr (GError) error = NULL;
  g_autofree char *size = g_strdup_printf ("%" G_GSIZE_FORMAT " bytes", LARGE);

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_NONE))
    return;
  limit (0);
  intercept (refuse_register, count_unregister);
  g_assert_null (gpu_host_memory_new (fixture->context, GPU_HOST_MEMORY_FLAGS_NONE, LARGE,
                                      &error));
  test_assert_gpu_error (error, GPU_ERROR_OUT_OF_HOST_MEMORY, "cuMemHostAlloc", size,
                         "the limit of locked memory is", "ulimit -l");
  g_clear_error (&error);
  n_registered = 0;
  g_assert_null (gpu_host_memory_new (fixture->context, GPU_HOST_MEMORY_FLAGS_NONE, 2 * total,
                                      &error));
  test_assert_gpu_error (error, GPU_ERROR_OUT_OF_HOST_MEMORY, "gpu_host_memory_new", "free of",
                         "request less");
  g_assert_cmpuint (n_registered, ==, 0);
  g_assert_cmpuint (gpu_context_get_host_allocated_size (fixture->context), ==, 0);
  stop_intercepting ();
  no_limit ();
}

static gboolean
is_mapped (guint8 *page)
{
  guint8 resident;

  return mincore (page, 1, &resident) == 0;
}

/* Freed memory is unmapped, but not while the driver still uses its addresses. */
static void
memory_large_unmapped (TestFixture *fixture)
{
  guint8 *kept[8];
  guint n_mapped = 0;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_NONE))
    return;
  for (guint i = 0; i < 16; i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GpuHostMemory) memory = NULL;
      guint8 *data;

      memory = gpu_host_memory_new (fixture->context, GPU_HOST_MEMORY_FLAGS_NONE, LARGE, &error);
      g_assert_no_error (error);
      data = gpu_host_memory_get_data (memory);
      intercept (count_register, i % 2 == 0 ? count_unregister : fail_unregister);
      gpu_memory_release (GPU_MEMORY (memory));
      g_assert_cmpuint (n_unregistered, ==, 1);
      stop_intercepting ();
      if (i % 2 == 0)
        n_mapped += is_mapped (data);
      else
        kept[i / 2] = data;
    }
  for (guint i = 0; i < G_N_ELEMENTS (kept); i++)
    g_assert_true (is_mapped (kept[i]));
  /* Another thread may map memory there. */
  g_assert_cmpuint (n_mapped, <, 4);
}

/* A forked process does not unmap addresses that it may use for other memory. */
static void
memory_large_forked (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuHostMemory) memory = NULL;
  int status = 0;
  guint8 *data;
  pid_t child;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_NONE))
    return;
  memory = gpu_host_memory_new (fixture->context, GPU_HOST_MEMORY_FLAGS_NONE, LARGE, &error);
  g_assert_no_error (error);
  data = gpu_host_memory_get_data (memory);
  child = fork ();
  if (child == 0)
    {
      alarm (TEST_DEADLINE);
      data = mmap (data, LARGE, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
      g_object_unref (memory);
      data[LARGE - 1] = 1;
      test_end_child (0);
    }
  g_assert_cmpint (waitpid (child, &status, 0), ==, child);
  g_assert_true (WIFEXITED (status));
  g_assert_cmpint (WEXITSTATUS (status), ==, 0);
  assert_usable (fixture, memory);
}

static gpointer
alloc_in_thread (gpointer data)
{
  TestFixture *fixture = data;
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = gpu_stream_new (fixture->context, GPU_STREAM_FLAGS_NONE, &error);
  guint8 value = 3;

  g_assert_no_error (error);
  for (guint i = 0; i < 4; i++)
    {
      g_autoptr (GpuHostMemory) memory = NULL;

      memory = gpu_host_memory_new (fixture->context, GPU_HOST_MEMORY_FLAGS_NONE, LARGE, &error);
      g_assert_no_error (error);
      test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (memory), 0, LARGE, &value, 1, &error),
                      error);
      test_synchronize (stream);
      test_assert_value (gpu_host_memory_get_data (memory), 3, LARGE);
    }
  return NULL;
}

static void
memory_large_threads (TestFixture *fixture)
{
  GThread *threads[4];

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_NONE))
    return;
  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    threads[i] = g_thread_new ("alloc", alloc_in_thread, fixture);
  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    g_thread_join (threads[i]);
  g_assert_cmpuint (gpu_context_get_host_allocated_size (fixture->context), ==, 0);
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
  test_add ("large", memory_large);
  test_add ("large-unregistered", memory_large_unregistered);
  test_add ("large-out-of-memory", memory_large_out_of_memory);
  test_add ("large-unmapped", memory_large_unmapped);
  test_add ("large-forked", memory_large_forked);
  test_add ("large-threads", memory_large_threads);
  return test_run ();
}
