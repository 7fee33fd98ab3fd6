/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "test-svm-util.h"

GpuSvm *
test_svm (TestFixture *fixture, GpuSvmFlags flags, gsize size)
{
  g_autoptr (GError) error = NULL;
  GpuSvm *svm = gpu_svm_new (fixture->context, GPU_MEMORY_FLAGS_NONE, flags, size, 0, &error);

  g_assert_no_error (error);
  g_assert_true (GPU_IS_SVM (svm));
  return svm;
}

GpuMapping *
test_svm_map (GpuSvm *svm, GpuMapFlags flags, gsize offset, gsize size)
{
  g_autoptr (GError) error = NULL;
  GpuMapping *mapping = gpu_svm_map (svm, NULL, flags, offset, size, NULL, &error);

  g_assert_no_error (error);
  g_assert_true (GPU_IS_MAPPING (mapping));
  return mapping;
}

void
test_svm_set (GpuSvm *svm, gsize offset, gsize size, guint8 value)
{
  g_autoptr (GpuMapping) mapping = test_svm_map (svm, GPU_MAP_FLAGS_WRITE_INVALIDATE, offset, size);

  memset (gpu_mapping_get_data (mapping), value, size);
}

void
test_svm_check (GpuSvm *svm, gsize offset, gsize size, guint8 value)
{
  g_autoptr (GpuMapping) mapping = test_svm_map (svm, GPU_MAP_FLAGS_READ, offset, size);

  test_assert_value (gpu_mapping_get_data (mapping), value, size);
}

gboolean
test_has_svm (TestFixture *fixture)
{
  return test_has (fixture, GPU_CAPABILITIES_SVM_COARSE);
}

/* Returns TRUE if the host and a stream of the device must not use an SVM allocation at the same
 * time. */
gboolean
test_has_exclusive_handover (TestFixture *fixture)
{
  return g_str_has_prefix (gpu_device_get_id (fixture->device), "cuda:")
         && (gpu_device_get_capabilities (fixture->device) & GPU_CAPABILITIES_SVM_FINE) == 0;
}
