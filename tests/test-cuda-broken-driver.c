/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Broken and incomplete CUDA drivers, and the resulting errors. Every test is a separate process,
 * because a process lists the devices only once. */
#include "config.h"

#include <sys/resource.h>

#include "gpumem/cuda/compiler/gpu-cuda-nvrtc.h"
#include "gpumem/cuda/core/gpu-cuda.h"
#include "test-util.h"

#define CHILD_VARIABLE "GPUMEM_TEST_EXPECTED"
#define LOCK_LIMIT (4 << 20)

static gboolean
has_stand_in (void)
{
  g_autoptr (GpuDevice) device = gpu_device_find ("cuda:0", NULL);

  if (device != NULL && g_str_has_prefix (gpu_device_get_name (device), "Stand-in"))
    return TRUE;
  g_test_skip ("only with the stand-in driver");
  return FALSE;
}

static void
driver_child (void)
{
  g_auto (GStrv) words = g_strsplit (g_getenv (CHILD_VARIABLE), ";", -1);
  g_autoptr (GError) error = NULL;

  g_assert_false (gpu_device_check_backend ("cuda", &error));
  g_assert_nonnull (error);
  g_assert_true (error->domain == GPU_ERROR);
  g_test_message ("%s", error->message);
  if (g_str_equal (words[0], "cuInit"))
    g_assert_cmpint (error->code, ==, GPU_ERROR_NO_DEVICE);
  for (guint i = 0; words[i] != NULL; i++)
    {
      if (strstr (error->message, words[i]) == NULL)
        g_error ("\"%s\" does not say \"%s\"", error->message, words[i]);
    }
}

static void
run_child (const char *path, const char *stand_in, const char *expected)
{
  g_autofree char *before = g_strdup (g_getenv ("GPUMEM_CUDA_DRIVER"));

  g_setenv ("GPUMEM_CUDA_DRIVER", stand_in, TRUE);
  g_setenv (CHILD_VARIABLE, expected, TRUE);
  g_test_trap_subprocess (path, TEST_CHILD_TIMEOUT, G_TEST_SUBPROCESS_INHERIT_STDERR);
  g_unsetenv (CHILD_VARIABLE);
  if (before != NULL)
    g_setenv ("GPUMEM_CUDA_DRIVER", before, TRUE);
  else
    g_unsetenv ("GPUMEM_CUDA_DRIVER");
  g_test_trap_assert_passed ();
}

/* Each error message contains the reason for the failure. */
static void
load_broken_drivers (void)
{
  static const struct
  {
    const char *stand_in;
    const char *expected;
  } cases[] =
  {
    { "devices=0", "cuInit;CUDA_ERROR_NO_DEVICE (100);CUDA_VISIBLE_DEVICES" },
    { "fail=cuInit:1:34", "cuInit;CUDA_ERROR_STUB_LIBRARY (34);libcuda.so.1 is the stub" },
    { "fail=cuInit:1:803", "cuInit;CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803);restart" },
    { "fail=cuInit:1:802", "cuInit;CUDA_ERROR_SYSTEM_NOT_READY (802);fabric manager" },
    { "fail=cuInit:1:999", "cuInit;CUDA_ERROR_UNKNOWN (999);kernel module" },
    { "fail=cuInit:1:12345", "cuInit;unknown code (12345)" },
    { "fail=cuDeviceGetCount:1:999", "cuDeviceGetCount;CUDA_ERROR_UNKNOWN (999)" },
    { "fail=cuDeviceGet:2:101", "cuDeviceGet;CUDA_ERROR_INVALID_DEVICE (101);device 1 of 2" },
    { "version=11030", "cuDeviceGetUuid;CUDA 11.3;11.4" }
  };

  if (!has_stand_in ())
    return;
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    run_child ("/cuda-broken-driver/subprocess/driver", cases[i].stand_in, cases[i].expected);
}

/* A device that fails is listed with the reason, and other devices stay usable. */
static void
driver_child_device (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuDevice) broken = gpu_device_find ("cuda:0", &error);
  g_autoptr (GpuDevice) found = NULL;

  g_assert_no_error (error);
  g_assert_false (gpu_device_check (broken, &error));
  test_assert_gpu_error (error, GPU_ERROR_NO_DEVICE, g_getenv (CHILD_VARIABLE));
  g_assert_null (gpu_context_new (broken, GPU_CONTEXT_FLAGS_NONE, &error));
  test_assert_gpu_error (error, GPU_ERROR_NO_DEVICE, g_getenv (CHILD_VARIABLE));

  found = gpu_device_find ("cuda", &error);
  g_assert_no_error (error);
  g_assert_cmpstr (gpu_device_get_id (found), ==, "cuda:1");
}

static void
load_bad_devices (void)
{
  if (!has_stand_in ())
    return;
  run_child ("/cuda-broken-driver/subprocess/device", "fail=cuDeviceGetName:1:46",
             "CUDA_ERROR_DEVICE_UNAVAILABLE (46)");
  run_child ("/cuda-broken-driver/subprocess/device", "fail=cuDeviceTotalMem:1:999",
             "cuDeviceTotalMem");
  run_child ("/cuda-broken-driver/subprocess/device", "fail=cuDeviceGetAttribute:1:999",
             "cuDeviceGetAttribute");
}

/* A failed initialization is retried. */
static void
driver_child_retry (void)
{
  g_autoptr (GError) error = NULL;

  g_assert_false (gpu_device_check_backend ("cuda", &error));
  g_assert_error (error, GPU_ERROR, GPU_ERROR_NO_DEVICE);
  g_clear_error (&error);
  test_assert_ok (gpu_device_check_backend ("cuda", &error), error);
}

/* The oldest supported driver lacks several groups of functions. Calls that need these functions
 * fail with an error. */
static void
driver_child_old_driver (void)
{
  g_autoptr (GError) error = NULL;

  test_assert_ok (gpu_device_check_backend ("cuda", &error), error);
  g_assert_true (_gpu_cuda_has_group (GPU_CUDA_GROUP_CORE, &error));
  g_assert_false (_gpu_cuda_has_group (GPU_CUDA_GROUP_KERNEL_INFO, &error));
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "CUDA 11.4", "cuModuleGetFunctionCount",
                         "12.4");
}

/* Advice and prefetches of managed memory work with old drivers, whose functions take devices, and
 * with newer drivers, whose functions take locations. */
static void
driver_child_memory_locations (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuDevice) device = gpu_device_find ("cuda:0", &error);
  g_autoptr (GpuContext) context = NULL;
  g_autoptr (GpuSvm) svm = NULL;
  g_autoptr (GVariant) attributes = NULL;
  const char *text;

  g_assert_no_error (error);
  g_assert_cmpint (_gpu_cuda.has[GPU_CUDA_GROUP_MEMORY_LOCATION], ==,
                   g_str_equal (g_getenv (CHILD_VARIABLE), "new"));
  context = gpu_context_new (device, GPU_CONTEXT_FLAGS_NONE, &error);
  g_assert_no_error (error);
  svm = gpu_svm_new (context, GPU_MEMORY_FLAGS_NONE, GPU_SVM_FLAGS_NONE, 4096, 0, &error);
  g_assert_no_error (error);
  test_assert_ok (gpu_svm_prefetch (svm, NULL, GPU_MIGRATE_FLAGS_HOST, 0, 4096, &error), error);
  test_assert_ok (gpu_svm_advise (svm, GPU_MEMORY_ADVICE_PREFERRED_LOCATION, 0, 4096, device,
                                  &error), error);
  attributes = gpu_memory_get_attributes (GPU_MEMORY (svm), &error);
  g_assert_no_error (error);
  g_assert_true (g_variant_lookup (attributes, "last-prefetch-location", "&s", &text));
  g_assert_cmpstr (text, ==, "host");
  g_assert_true (g_variant_lookup (attributes, "preferred-location", "&s", &text));
  g_assert_cmpstr (text, ==, "cuda:0");
}

/* Memory can be exported if the device reports support for IPC, or if the driver is too old to
 * report the support. */
static void
driver_child_ipc (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuDevice) device = gpu_device_find ("cuda:0", &error);
  g_autoptr (GpuContext) context = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GBytes) handle = NULL;
  gboolean can_pass = g_str_equal (g_getenv (CHILD_VARIABLE), "yes");

  g_assert_no_error (error);
  g_assert_cmpint ((gpu_device_get_capabilities (device) & GPU_CAPABILITIES_IPC_HANDLES) != 0, ==,
                   can_pass);
  context = gpu_context_new (device, GPU_CONTEXT_FLAGS_NONE, &error);
  g_assert_no_error (error);
  buffer = gpu_buffer_new (context, GPU_MEMORY_FLAGS_NONE, 4096, &error);
  g_assert_no_error (error);
  handle = gpu_buffer_export_handle (buffer, &error);
  if (can_pass)
    g_assert_no_error (error);
  else
    test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "cuda:0");
}

/* Each kind of page-locked memory beyond the limit of the process fails with advice. Memory within
 * the limit can be allocated afterwards. */
static void
driver_child_lock_limit (void)
{
  const gsize size = 8 << 20;
  const struct rlimit limit = { LOCK_LIMIT, LOCK_LIMIT };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuDevice) device = gpu_device_find ("cuda:0", &error);
  g_autoptr (GpuContext) context = gpu_context_new (device, GPU_CONTEXT_FLAGS_NONE, &error);
  g_autoptr (GBytes) bytes = g_bytes_new_take (g_malloc0 (size), size);
  g_autoptr (GpuHostMemory) memory = NULL;
  g_autoptr (GpuMemoryPool) pool = NULL;

  g_assert_no_error (error);
  g_assert_cmpint (setrlimit (RLIMIT_MEMLOCK, &limit), ==, 0);
  g_assert_null (gpu_host_memory_new (context, GPU_HOST_MEMORY_FLAGS_NONE, size, &error));
  test_assert_gpu_error (error, GPU_ERROR_OUT_OF_HOST_MEMORY, "gpu_host_memory_new", "8388608",
                         "limit of locked memory is 4194304 bytes", "ulimit -l");
  g_assert_null (gpu_host_memory_new_registered (context, GPU_HOST_MEMORY_FLAGS_NONE, bytes,
                                                 &error));
  test_assert_gpu_error (error, GPU_ERROR_OUT_OF_HOST_MEMORY, "gpu_host_memory_new_registered",
                         "8388608", "4194304 bytes", "ulimit -l");
  g_assert_null (gpu_buffer_new (context, GPU_MEMORY_FLAGS_ALLOC_HOST, size, &error));
  test_assert_gpu_error (error, GPU_ERROR_OUT_OF_HOST_MEMORY, "gpu_buffer_new", "8388608",
                         "4194304 bytes", "ulimit -l");

  pool = gpu_memory_pool_new (context, GPU_MEMORY_POOL_EXPANDABLE, GPU_MEMORY_FLAGS_ALLOC_HOST,
                              &error);
  g_assert_no_error (error);
  g_assert_null (gpu_memory_pool_alloc_buffer (pool, size, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_OUT_OF_HOST_MEMORY, "8388608", "4194304 bytes",
                         "ulimit -l");
  g_assert_cmpuint (gpu_context_get_host_allocated_size (context), ==, 0);
  memory = gpu_host_memory_new (context, GPU_HOST_MEMORY_FLAGS_NONE, 4 << 20, &error);
  g_assert_no_error (error);
}

/* The library refuses peer access by a device whose number in the driver is GPU_CUDA_MAX_PEERS or
 * greater. */
static void
driver_child_many_devices (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuDevice) low = gpu_device_find ("cuda:63", &error);
  g_autoptr (GpuDevice) high = gpu_device_find ("cuda:64", &error);
  g_autoptr (GpuContext) context = NULL;
  g_autoptr (GpuContext) peer = NULL;
  gboolean can_access = FALSE;

  g_assert_no_error (error);
  context = gpu_context_new (high, GPU_CONTEXT_FLAGS_NONE, &error);
  g_assert_no_error (error);
  peer = gpu_context_new (low, GPU_CONTEXT_FLAGS_NONE, &error);
  g_assert_no_error (error);

  test_assert_ok (gpu_device_can_access_peer (low, high, &can_access, &error), error);
  g_assert_true (can_access);
  test_assert_ok (gpu_context_enable_peer_access (peer, context, &error), error);

  test_assert_ok (gpu_device_can_access_peer (high, low, &can_access, &error), error);
  g_assert_false (can_access);
  g_assert_false (gpu_context_enable_peer_access (context, peer, &error));
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "cuda:64", "64 devices");
  g_assert_false (gpu_context_disable_peer_access (context, peer, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "cuCtxDisablePeerAccess");
}

/* The error names the function of NVRTC that failed. */
static void
driver_child_nvrtc (void)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *failure = g_strconcat ("is unusable: ", g_getenv (CHILD_VARIABLE), NULL);

  g_assert_false (_gpu_cuda_nvrtc_load (&error));
  g_assert_null (strstr (error->message, "has no"));
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, failure);
}

static void
load_broken_nvrtc (void)
{
  static const char *const functions[] = {
    "nvrtcVersion", "nvrtcGetNumSupportedArchs", "nvrtcGetSupportedArchs"
  };

  if (!has_stand_in ())
    return;
  for (guint i = 0; i < G_N_ELEMENTS (functions); i++)
    {
      g_autofree char *fault = g_strdup_printf ("fail=%u", i + 1);

      g_setenv ("GPUMEM_CUDA_NVRTC", fault, TRUE);
      run_child ("/cuda-broken-driver/subprocess/nvrtc", "", functions[i]);
      g_unsetenv ("GPUMEM_CUDA_NVRTC");
    }
}

static void
load_usable_drivers (void)
{
  if (!has_stand_in ())
    return;
  run_child ("/cuda-broken-driver/subprocess/retry", "fail=cuInit:1:999", "");
  run_child ("/cuda-broken-driver/subprocess/old-driver", "version=11040", "");
  run_child ("/cuda-broken-driver/subprocess/memory-locations", "version=11040", "old");
  run_child ("/cuda-broken-driver/subprocess/memory-locations", "version=12010", "old");
  run_child ("/cuda-broken-driver/subprocess/memory-locations", "version=12020", "new");
  run_child ("/cuda-broken-driver/subprocess/memory-locations", "", "new");
  run_child ("/cuda-broken-driver/subprocess/ipc", "version=11040", "yes");
  run_child ("/cuda-broken-driver/subprocess/ipc", "", "yes");
  run_child ("/cuda-broken-driver/subprocess/ipc", "ipc=no", "no");
  run_child ("/cuda-broken-driver/subprocess/many-devices", "devices=65,memory=1M", "");
}

static void
load_lock_limit (void)
{
  struct rlimit limit;

  g_assert_cmpint (getrlimit (RLIMIT_MEMLOCK, &limit), ==, 0);
  if (limit.rlim_max < LOCK_LIMIT)
    g_test_skip ("the process may lock too little memory");
  else if (has_stand_in ())
    run_child ("/cuda-broken-driver/subprocess/lock-limit", "memlock=yes", "");
}

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
  test_add_plain ("broken-drivers", load_broken_drivers);
  test_add_plain ("bad-devices", load_bad_devices);
  test_add_plain ("usable-drivers", load_usable_drivers);
  test_add_plain ("broken-nvrtc", load_broken_nvrtc);
  test_add_plain ("lock-limit", load_lock_limit);
  test_add_plain ("subprocess/driver", driver_child);
  test_add_plain ("subprocess/device", driver_child_device);
  test_add_plain ("subprocess/retry", driver_child_retry);
  test_add_plain ("subprocess/old-driver", driver_child_old_driver);
  test_add_plain ("subprocess/memory-locations", driver_child_memory_locations);
  test_add_plain ("subprocess/ipc", driver_child_ipc);
  test_add_plain ("subprocess/many-devices", driver_child_many_devices);
  test_add_plain ("subprocess/nvrtc", driver_child_nvrtc);
  test_add_plain ("subprocess/lock-limit", driver_child_lock_limit);
  return test_run ();
}
