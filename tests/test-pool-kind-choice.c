/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The kind that an automatic pool selects, including when the driver cannot reserve addresses. */
#include "config.h"

#include <sys/resource.h>
#include <unistd.h>

#include "cuda-driver/cuda-driver.h"
#include "test-util.h"

#define SIZE 100000
/* Addresses for no pool */
#define FEW (512 << 20)

static gboolean
is_of (TestFixture *fixture, const char *backend)
{
  return g_str_equal (gpu_device_get_backend (fixture->device), backend);
}

static rlim_t
get_mapped_size (void)
{
  g_autofree char *text = NULL;

  g_assert_true (g_file_get_contents ("/proc/self/statm", &text, NULL, NULL));
  return g_ascii_strtoull (text, NULL, 10) * sysconf (_SC_PAGESIZE);
}

/* Makes reservations of addresses fail: on the host if they take more than @left bytes, on the
 * stand-in for CUDA by the fault @spec. Returns FALSE if the test can do neither. */
static gboolean
refuse_addresses (TestFixture *fixture, guint64 left, const char *spec)
{
  if (is_of (fixture, "host"))
    {
      struct rlimit limit;

      g_assert_cmpint (getrlimit (RLIMIT_AS, &limit), ==, 0);
      limit.rlim_cur = MIN (get_mapped_size () + left, limit.rlim_max);
      return setrlimit (RLIMIT_AS, &limit) == 0;
    }

  return gpumem_cuda_driver_symbol ("gpumem_cuda_driver_set_fail") != NULL
         && GPUMEM_CUDA_DRIVER (set_fail) (spec);
}

static void
give_addresses (TestFixture *fixture)
{
  struct rlimit limit;

  if (!is_of (fixture, "host"))
    {
      g_assert_true (GPUMEM_CUDA_DRIVER (set_fail) (""));
      return;
    }

  g_assert_cmpint (getrlimit (RLIMIT_AS, &limit), ==, 0);
  limit.rlim_cur = limit.rlim_max;
  g_assert_cmpint (setrlimit (RLIMIT_AS, &limit), ==, 0);
}

static void
check_works (TestFixture *fixture, GpuMemoryPool *pool)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = gpu_memory_pool_alloc_buffer (pool, SIZE, NULL, &error);
  g_autoptr (GBytes) content = NULL;
  const guint8 value = 7;

  g_assert_no_error (error);
  test_assert_ok (gpu_stream_fill (fixture->stream, GPU_MEMORY (buffer), 0, SIZE, &value, 1,
                                   &error), error);
  content = test_content (buffer);
  test_assert_value (g_bytes_get_data (content, NULL), value, SIZE);
}

/* If the process has too few addresses for twice the memory of the device, a pool takes fewer. */
static void
choice_fewer_addresses (TestFixture *fixture)
{
  const guint64 memory_size = gpu_device_get_memory_size (fixture->device);
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuMemoryPool) pool = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_VIRTUAL_MEMORY))
    return;

  if (!refuse_addresses (fixture, memory_size / 2 * 3, "cuMemAddressReserve:1:2"))
    {
      g_test_skip ("the test cannot make the driver refuse addresses");
      return;
    }

  pool = gpu_memory_pool_new (fixture->context, GPU_MEMORY_POOL_EXPANDABLE, GPU_MEMORY_FLAGS_NONE,
                              &error);
  give_addresses (fixture);
  g_assert_no_error (error);
  check_works (fixture, pool);
}

/* An automatic pool has the best kind. If the driver cannot reserve addresses, the pool has the
 * second best kind, and the creation of an expandable pool fails. */
static void
choice_no_addresses (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL, refused = NULL;
  g_autoptr (GpuMemoryPool) best = gpu_memory_pool_new (fixture->context, GPU_MEMORY_POOL_AUTOMATIC,
                                                        GPU_MEMORY_FLAGS_NONE, &error);
  g_autoptr (GpuMemoryPool) pool = NULL;
  g_autoptr (GpuMemoryPool) expandable = NULL;

  g_assert_no_error (error);
  check_works (fixture, best);

  if (!test_has (fixture, GPU_CAPABILITIES_VIRTUAL_MEMORY))
    return;

  g_assert_cmpint (test_get_number (best, "kind"), ==, GPU_MEMORY_POOL_EXPANDABLE);

  if (!refuse_addresses (fixture, FEW, "cuMemAddressReserve:1:2:0"))
    {
      g_test_skip ("the test cannot make the driver refuse addresses");
      return;
    }

  expandable = gpu_memory_pool_new (fixture->context, GPU_MEMORY_POOL_EXPANDABLE,
                                    GPU_MEMORY_FLAGS_NONE,
                                    &refused);
  pool = gpu_memory_pool_new (fixture->context, GPU_MEMORY_POOL_AUTOMATIC, GPU_MEMORY_FLAGS_NONE,
                              &error);
  give_addresses (fixture);

  if (expandable != NULL && is_of (fixture, "host"))
    {
      g_test_skip ("RLIMIT_AS has no effect here");
      return;
    }

  g_assert_null (expandable);
  test_assert_gpu_error (refused, GPU_ERROR_OUT_OF_DEVICE_MEMORY, "gpu_memory_pool_new",
                         is_of (fixture, "host") ? "mmap" : "cuMemAddressReserve");
  g_assert_no_error (error);
  g_assert_cmpint (test_get_number (pool, "kind"), ==, GPU_MEMORY_POOL_SEGMENTS);
  check_works (fixture, pool);
}

/* On a lost device no kind of pool can be created. */
static void
choice_device_lost (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuMemoryPool) pool = NULL;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_VIRTUAL_MEMORY))
    return;

  if (!refuse_addresses (fixture, FEW, "cuMemAddressReserve:1:700"))
    {
      g_test_skip ("no call of the driver can be made to fail");
      return;
    }

  pool = gpu_memory_pool_new (fixture->context, GPU_MEMORY_POOL_AUTOMATIC, GPU_MEMORY_FLAGS_NONE,
                              &error);
  give_addresses (fixture);
  g_assert_null (pool);
  test_assert_gpu_error (error, GPU_ERROR_DEVICE_LOST, "cuMemAddressReserve");
}

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
  test_add ("fewer-addresses", choice_fewer_addresses);
  test_add ("no-addresses", choice_no_addresses);
  test_add ("device-lost", choice_device_lost);

  return test_run ();
}
