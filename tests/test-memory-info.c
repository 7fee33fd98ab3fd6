/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Sources of the amount of free memory (parity row D24): a vendor extension of OpenCL, NVIDIA's
 * management library, or the library's own accounting of all contexts. */
#include "config.h"

#include "test-util.h"

#define SIZE 1000000

static guint64
get_free (GpuContext *context, GpuMemoryInfoSource *source)
{
  g_autoptr (GError) error = NULL;
  guint64 free_size = 0;
  guint64 total_size = 0;

  test_assert_ok (gpu_context_get_memory_info (context, &free_size, &total_size, source, &error),
                  error);
  g_assert_cmpuint (free_size, <=, total_size);
  if (*source != GPU_MEMORY_INFO_SOURCE_DRIVER)
    g_assert_cmpuint (total_size, ==,
                      gpu_device_get_memory_size (gpu_context_get_device (context)));
  return free_size;
}

static void
assert_accounting (TestFixture *fixture)
{
  GpuMemoryInfoSource source;
  guint64 before = get_free (fixture->context, &source);
  g_autoptr (GpuBuffer) buffer = NULL;

  g_assert_cmpuint (source, ==, GPU_MEMORY_INFO_SOURCE_ACCOUNTING);
  g_assert_cmpuint (before, ==, gpu_device_get_memory_size (fixture->device));
  buffer = test_buffer (fixture, SIZE);
  g_assert_cmpuint (get_free (fixture->context, &source), ==, before - SIZE);
}

/* An allocation in one context reduces the free memory of every other context of the process. */
static void
info_contexts (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuContext) other = gpu_context_new (fixture->device, GPU_CONTEXT_FLAGS_NONE, &error);
  g_autoptr (GpuBuffer) buffer = NULL;
  GpuMemoryInfoSource source;
  guint64 before;

  g_assert_no_error (error);
  before = get_free (other, &source);
  if (source != GPU_MEMORY_INFO_SOURCE_ACCOUNTING)
    {
      g_test_skip ("the driver or the system reports free memory");
      return;
    }
  buffer = test_buffer (fixture, SIZE);
  g_assert_cmpuint (gpu_context_get_allocated_size (other), ==, 0);
  g_assert_cmpuint (get_free (other, &source), ==, before - SIZE);
  g_assert_cmpuint (get_free (fixture->context, &source), ==, before - SIZE);
  gpu_memory_release (GPU_MEMORY (buffer));
  g_assert_cmpuint (get_free (other, &source), ==, before);
  g_clear_object (&other);
  g_assert_cmpuint (get_free (fixture->context, &source), ==, before);
}

/* --- vendors simulated by the OpenCL layer ------------------------------------------------ */

static const struct
{
  const char *name;
  const char *vendor;
  const char *nvml;
}
cases[] =
{
  { "amd", "amd:1234", NULL },
  { "amd-silent", "amd:0", NULL },
  { "nvidia", "nvidia:2a:1", "0000:2a:01.0=7654321" },
  { "nvidia-other", "nvidia:2a:1", "0000:2b:00.0=7654321" },
  { "nvidia-silent", "nvidia:2a:1", "0000:2a:01.0=" },
  { "nvidia-without", "nvidia:2a:1", NULL }
};

static void
run_case (TestFixture *fixture, const char *name)
{
  g_autofree char *folder = g_test_build_filename (G_TEST_BUILT, "opencl-layer", "lib", NULL);
  const char *before = g_getenv ("LD_LIBRARY_PATH");
  g_autofree char *kept = g_strdup (before != NULL ? before : "");
  g_autofree char *path = g_strconcat (folder, ":", kept, NULL);
  guint i = 0;

  while (!g_str_equal (cases[i].name, name))
    i++;
  g_setenv ("LD_LIBRARY_PATH", path, TRUE);
  g_setenv ("GPUMEM_LAYER_VENDOR", cases[i].vendor, TRUE);
  if (cases[i].nvml != NULL)
    g_setenv ("GPUMEM_NVML", cases[i].nvml, TRUE);
  test_run_under_layer (fixture, name);
  g_setenv ("LD_LIBRARY_PATH", kept, TRUE);
  g_unsetenv ("GPUMEM_LAYER_VENDOR");
  g_unsetenv ("GPUMEM_NVML");
}

static gboolean
has_vendor (TestFixture *fixture)
{
  if (test_is_opencl (fixture) && g_getenv ("GPUMEM_LAYER_VENDOR") != NULL)
    return TRUE;
  g_test_skip ("runs in a process of its own, on OpenCL under the layer");
  return FALSE;
}

static void
info_amd (TestFixture *fixture)
{
  GpuMemoryInfoSource source;

  if (!has_vendor (fixture))
    return;
  g_assert_cmpuint (get_free (fixture->context, &source), ==, 1234 * 1024);
  g_assert_cmpuint (source, ==, GPU_MEMORY_INFO_SOURCE_EXTENSION);
}

static void
info_nvidia (TestFixture *fixture)
{
  GpuMemoryInfoSource source;

  if (!has_vendor (fixture))
    return;
  g_assert_cmpstr (test_get_string (fixture->device, "pci-bus-id"), ==, "0000:2a:01.0");
  g_assert_cmpuint (get_free (fixture->context, &source), ==, 7654321);
  g_assert_cmpuint (source, ==, GPU_MEMORY_INFO_SOURCE_NVML);
}

/* If neither the extension nor NVIDIA's library reports the free memory, the library uses its own
 * accounting. */
static void
info_accounting_fallback (TestFixture *fixture)
{
  if (has_vendor (fixture))
    assert_accounting (fixture);
}

static void
info_run_amd (TestFixture *fixture)
{
  run_case (fixture, "amd");
}

static void
info_run_nvidia (TestFixture *fixture)
{
  run_case (fixture, "nvidia");
}

static void
info_run_accounting_fallback (TestFixture *fixture)
{
  run_case (fixture, "amd-silent");
  run_case (fixture, "nvidia-other");
  run_case (fixture, "nvidia-silent");
  run_case (fixture, "nvidia-without");
}

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
  test_add ("contexts", info_contexts);
  test_add ("amd", info_run_amd);
  test_add ("nvidia", info_run_nvidia);
  test_add ("accounting-fallback", info_run_accounting_fallback);
  test_add ("subprocess/amd", info_amd);
  test_add ("subprocess/amd-silent", info_accounting_fallback);
  test_add ("subprocess/nvidia", info_nvidia);
  test_add ("subprocess/nvidia-other", info_accounting_fallback);
  test_add ("subprocess/nvidia-silent", info_accounting_fallback);
  test_add ("subprocess/nvidia-without", info_accounting_fallback);
  return test_run ();
}
