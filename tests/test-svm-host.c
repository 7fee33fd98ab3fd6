/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Host access to shared virtual memory: mappings and fine-grained memory. */
#include "config.h"

#include "test-svm-util.h"

#define SIZE 8192

/* --- mappings ------------------------------------------------------------------------- */

static void
svm_map (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuMapping) mapping = NULL;
  g_autoptr (GBytes) bytes = NULL;
  g_autoptr (GpuSvm) svm = NULL;
  guint64 address;

  if (!test_has_svm (fixture))
    return;
  svm = test_svm (fixture, GPU_SVM_FLAGS_NONE, SIZE);
  address = gpu_memory_get_device_address (GPU_MEMORY (svm));
  test_svm_set (svm, 0, SIZE, 1);
  mapping = test_svm_map (svm, GPU_MAP_FLAGS_NONE, 1000, 100);
  g_assert_cmpuint (gpu_mapping_get_address (mapping), ==, address + 1000);
  g_assert_cmpuint (gpu_mapping_get_size (mapping), ==, 100);
  g_assert_cmpuint (gpu_mapping_get_row_pitch (mapping), ==, 100);
  test_assert_value (gpu_mapping_get_data (mapping), 1, 100);
  memset (gpu_mapping_get_data (mapping), 2, 50);
  bytes = gpu_mapping_get_bytes (mapping);
  g_clear_object (&mapping);
  test_assert_value (g_bytes_get_data (bytes, NULL), 2, 50);
  g_clear_pointer (&bytes, g_bytes_unref);
  test_svm_check (svm, 950, 50, 1);
  test_svm_check (svm, 1000, 50, 2);
  test_svm_check (svm, 1050, 50, 1);
  gpu_memory_release (GPU_MEMORY (svm));
  g_assert_null (gpu_svm_map (svm, NULL, GPU_MAP_FLAGS_READ, 0, 1, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_RELEASED, "gpu_svm_map");
}

/* Two mappings for reading exist at the same time. The mapping on another stream waits for the fill
 * on the default stream. */
static void
svm_map_shared (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuMapping) first = NULL;
  g_autoptr (GpuMapping) second = NULL;
  g_autoptr (GpuSvm) svm = NULL;

  if (!test_has_svm (fixture))
    return;
  svm = test_svm (fixture, GPU_SVM_FLAGS_NONE, SIZE);
  test_assert_ok (gpu_stream_fill (fixture->stream, GPU_MEMORY (svm), 0, SIZE,
                                   (const guint8 *) "q", 1, &error), error);
  first = gpu_stream_map (stream, GPU_MEMORY (svm), GPU_MAP_FLAGS_READ, 0, SIZE, &error);
  g_assert_no_error (error);
  second = test_svm_map (svm, GPU_MAP_FLAGS_READ, 0, SIZE);
  test_synchronize (stream);
  test_assert_value (gpu_mapping_get_data (first), 'q', SIZE);
  g_clear_object (&first);
  test_assert_value (gpu_mapping_get_data (second), 'q', SIZE);
  g_clear_object (&second);
  test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (svm), 0, SIZE, "r", 1,
                                   &error), error);
  test_svm_check (svm, 0, SIZE, 'r');
}

/* Wraps the native handle of SVM as a buffer. */
static void
svm_wrapped (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) other = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuMapping) mapping = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  GpuSvm *svm;

  if (!test_has_svm (fixture))
    return;
  svm = test_svm (fixture, GPU_SVM_FLAGS_NONE, SIZE);
  buffer = gpu_buffer_new_wrapped (fixture->context,
                                   gpu_memory_get_native_handle (GPU_MEMORY (svm)), SIZE,
                                   GPU_WRAP_MODE_BORROW, NULL, &error);
  g_assert_no_error (error);
  for (guint8 i = 0; i < 20; i++)
    {
      test_assert_ok (gpu_stream_fill (i % 2 ? other : fixture->stream,
                                       i % 3 ? GPU_MEMORY (svm) : GPU_MEMORY (buffer), 0, SIZE, &i,
                                       1, &error), error);
      mapping = gpu_buffer_map (buffer, NULL, GPU_MAP_FLAGS_READ, 100, 200, NULL, &error);
      g_assert_no_error (error);
      test_assert_value (gpu_mapping_get_data (mapping), i, 200);
      g_clear_object (&mapping);
    }
  g_object_unref (svm);
  test_assert_ok (gpu_stream_fill (other, GPU_MEMORY (buffer), 0, SIZE, "w", 1,
                                   &error), error);
  test_synchronize (other);
}

static void
svm_busy (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
  g_autoptr (GpuMapping) mapping = NULL;
  g_autoptr (GpuSvm) svm = NULL;
  GpuMemory *memory;
  gboolean reads;

  if (!test_has_svm (fixture))
    return;
  svm = test_svm (fixture, GPU_SVM_FLAGS_NONE, SIZE);
  memory = GPU_MEMORY (svm);
  mapping = test_svm_map (svm, GPU_MAP_FLAGS_WRITE, 0, 100);
  g_assert_false (gpu_stream_copy (fixture->stream, GPU_MEMORY (buffer), 0, memory, 0, 50,
                                   &error));
  test_assert_gpu_error (error, GPU_ERROR_BUSY, "gpu_stream_copy", "mapped for writing");
  g_clear_object (&mapping);
  test_svm_set (svm, 0, SIZE, 6);
  mapping = test_svm_map (svm, GPU_MAP_FLAGS_READ, 0, 100);
  g_assert_false (gpu_stream_fill (fixture->stream, memory, 99, 1, "x", 1,
                                   &error));
  test_assert_gpu_error (error, GPU_ERROR_BUSY, "gpu_stream_fill");

  /* While the memory is mapped for reading, the device may read it, unless the host and a stream
   * must not use SVM at the same time. */
  reads = gpu_stream_copy (fixture->stream, GPU_MEMORY (buffer), 0, memory, 0, 50, &error);
  g_assert_true (reads == !test_has_exclusive_handover (fixture));
  if (!reads)
    test_assert_gpu_error (error, GPU_ERROR_BUSY, "mapped", "cannot use any part of this memory");
  reads = gpu_stream_fill (fixture->stream, memory, 100, 1, "x", 1, &error);
  g_assert_true (reads == !test_has_exclusive_handover (fixture));
  if (!reads)
    test_assert_gpu_error (error, GPU_ERROR_BUSY, "mapped", "cannot use any part of this memory");
  g_clear_object (&mapping);
  test_assert_ok (gpu_stream_copy (fixture->stream, GPU_MEMORY (buffer), 0, memory, 0, 50, &error),
                  error);
  test_synchronize (fixture->stream);
}

static void
svm_map_async (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCancellable) cancellable = g_cancellable_new ();
  g_autoptr (GAsyncResult) result = NULL;
  g_autoptr (GpuMapping) mapping = NULL;
  g_autoptr (GpuSvm) svm = NULL;

  if (!test_has_svm (fixture))
    return;
  svm = test_svm (fixture, GPU_SVM_FLAGS_NONE, SIZE);
  test_assert_ok (gpu_stream_fill (fixture->stream, GPU_MEMORY (svm), 0, SIZE,
                                   (const guint8 *) "q", 1, &error), error);
  gpu_svm_map_async (svm, NULL, GPU_MAP_FLAGS_READ, 0, SIZE, NULL, test_take_result, &result);
  mapping = gpu_svm_map_finish (svm, test_await (&result), &error);
  g_assert_no_error (error);
  test_assert_value (gpu_mapping_get_data (mapping), 'q', SIZE);
  g_clear_object (&mapping);
  g_clear_object (&result);
  g_cancellable_cancel (cancellable);
  gpu_svm_map_async (svm, NULL, GPU_MAP_FLAGS_READ, 0, SIZE, cancellable, test_take_result,
                     &result);
  g_assert_null (gpu_svm_map_finish (svm, test_await (&result), &error));
  test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
  test_svm_check (svm, 0, SIZE, 'q');
}

/* --- fine grain ----------------------------------------------------------------------- */

static void
svm_fine_grain (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
  g_autoptr (GBytes) expected = test_value_bytes (SIZE, 8);
  g_autoptr (GBytes) bytes = NULL;
  GpuSvm *svm;

  if (!test_has (fixture, GPU_CAPABILITIES_SVM_FINE))
    return;
  svm = test_svm (fixture, GPU_SVM_FLAGS_FINE_GRAIN, SIZE);
  g_assert_cmpuint (gpu_memory_get_device_address (GPU_MEMORY (svm)), ==,
                    (guint64) (gsize) gpu_svm_get_data (svm));
  memset (gpu_svm_get_data (svm), 8, SIZE);
  test_assert_ok (gpu_stream_copy (fixture->stream, GPU_MEMORY (buffer), 0, GPU_MEMORY (svm), 0,
                                   SIZE, &error), error);
  test_assert_content (buffer, expected);
  test_assert_ok (gpu_stream_fill (fixture->stream, GPU_MEMORY (svm), 0, SIZE,
                                   (const guint8 *) "f", 1, &error), error);
  bytes = gpu_svm_get_bytes (svm, &error);
  g_assert_no_error (error);
  g_object_unref (svm);
  test_synchronize (fixture->stream);
  g_assert_cmpuint (g_bytes_get_size (bytes), ==, SIZE);
  test_assert_value (g_bytes_get_data (bytes, NULL), 'f', SIZE);
}

static void
svm_coarse_grain (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuSvm) svm = NULL;

  if (!test_has_svm (fixture))
    return;
  svm = test_svm (fixture, GPU_SVM_FLAGS_NONE, SIZE);
  if ((test_get_number (svm, "svm-flags") & GPU_SVM_FLAGS_FINE_GRAIN) != 0)
    {
      g_test_skip ("the host can access all shared memory at any time");
      return;
    }
  g_assert_null (gpu_svm_get_data (svm));
  g_assert_null (gpu_svm_get_bytes (svm, &error));
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_svm_get_bytes", "gpu_svm_map");
}

static void
svm_system_memory (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
  g_autoptr (GBytes) bytes = test_value_bytes (SIZE, 1);
  g_autoptr (GBytes) none = g_bytes_new (NULL, 0);
  g_autoptr (GBytes) seen = NULL;
  GpuMemory *memory;
  GpuSvm *svm = gpu_svm_new_for_bytes (fixture->context, GPU_MEMORY_FLAGS_NONE, bytes, &error);

  if (svm == NULL)
    {
      g_assert_true ((gpu_device_get_capabilities (fixture->device) & GPU_CAPABILITIES_SVM_SYSTEM)
                     == 0);
      test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_svm_new_for_bytes");
      return;
    }
  memory = GPU_MEMORY (svm);
  seen = gpu_memory_get_host_bytes (memory);
  g_assert_true (seen == bytes);
  g_assert_true (gpu_svm_get_data (svm) == g_bytes_get_data (bytes, NULL));
  test_assert_ok (gpu_stream_fill (fixture->stream, memory, 10, 20, "ab", 2,
                                   &error), error);
  test_assert_ok (gpu_stream_copy (fixture->stream, GPU_MEMORY (buffer), 0, memory, 0, SIZE,
                                   &error), error);
  test_assert_ok (gpu_stream_copy (fixture->stream, memory, 4000, GPU_MEMORY (buffer), 10, 4,
                                   &error), error);
  test_assert_ok (gpu_svm_prefetch (svm, NULL, GPU_MIGRATE_FLAGS_NONE, 0, SIZE, &error), error);
  test_assert_ok (gpu_svm_advise (svm, GPU_MEMORY_ADVICE_READ_MOSTLY, 0, SIZE, NULL, &error),
                  error);
  test_assert_ok (gpu_svm_attach (svm, NULL, GPU_SVM_ATTACHMENT_GLOBAL, &error), error);
  test_synchronize (fixture->stream);
  g_variant_unref (gpu_memory_get_attributes (memory, &error));
  g_assert_no_error (error);
  g_object_unref (svm);
  test_assert_mem ((const guint8 *) g_bytes_get_data (bytes, NULL) + 4000, "abab", 4);
  g_assert_null (gpu_svm_new_for_bytes (fixture->context, GPU_MEMORY_FLAGS_NONE, none, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "0 bytes");
}

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
  test_add ("map", svm_map);
  test_add ("map-shared", svm_map_shared);
  test_add ("wrapped", svm_wrapped);
  test_add ("busy", svm_busy);
  test_add ("map-async", svm_map_async);
  test_add ("fine-grain", svm_fine_grain);
  test_add ("coarse-grain", svm_coarse_grain);
  test_add ("system-memory", svm_system_memory);

  return test_run ();
}
