/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Shared virtual memory: its properties, and stream operations on it. */
#include "config.h"

#include "test-svm-util.h"

#define SIZE 8192

/* --- allocation ----------------------------------------------------------------------- */

static void
svm_properties (TestFixture *fixture)
{
  gsize before = gpu_context_get_allocated_size (fixture->context);
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) attributes = NULL;
  GpuSvmFlags flags;
  guint64 alignment;
  guint64 size;
  GpuSvm *svm;

  if (!test_has_svm (fixture))
    return;
  svm = test_svm (fixture, GPU_SVM_FLAGS_NONE, SIZE);
  g_assert_cmpuint (gpu_memory_get_size (GPU_MEMORY (svm)), ==, SIZE);
  g_assert_cmpuint (gpu_memory_get_device_address (GPU_MEMORY (svm)), !=, 0);
  g_assert_cmpuint (gpu_memory_get_native_handle (GPU_MEMORY (svm)), !=, 0);
  g_assert_cmpuint (gpu_context_get_allocated_size (fixture->context), ==, before + SIZE);
  g_object_get (svm, "svm-flags", &flags, "alignment", &alignment, "size", &size, NULL);
  g_assert_cmpuint (flags, ==, test_get_number (svm, "svm-flags"));
  g_assert_cmpuint (alignment, ==, 0);
  g_assert_cmpuint (test_get_number (svm, "alignment"), ==, 0);
  g_assert_cmpuint (size, ==, SIZE);
  g_assert_true ((gpu_svm_get_data (svm) != NULL) == ((flags & GPU_SVM_FLAGS_FINE_GRAIN) != 0));
  attributes = gpu_memory_get_attributes (GPU_MEMORY (svm), &error);
  g_assert_no_error (error);
  g_assert_true (g_variant_lookup (attributes, "size", "t", &size));
  g_assert_cmpuint (size, ==, SIZE);
  gpu_memory_release (GPU_MEMORY (svm));
  g_assert_null (gpu_svm_get_data (svm));
  g_object_unref (svm);
  g_assert_cmpuint (gpu_context_get_allocated_size (fixture->context), ==, before);
}

static void
svm_alignment (TestFixture *fixture)
{
  if (!test_has_svm (fixture))
    return;
  for (gsize alignment = 1; alignment <= 1 << 20; alignment *= 4)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GpuSvm) svm = gpu_svm_new (fixture->context, GPU_MEMORY_FLAGS_NONE,
                                            GPU_SVM_FLAGS_NONE,
                                            100, alignment, &error);

      g_assert_no_error (error);
      g_assert_cmpuint (test_get_number (svm, "alignment"), ==, alignment);
      g_assert_cmpuint (gpu_memory_get_device_address (GPU_MEMORY (svm)) % alignment, ==, 0);
      test_svm_set (svm, 0, 100, 7);
      test_svm_check (svm, 0, 100, 7);
    }
}

static void
svm_initable (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuSvm) empty = g_object_new (GPU_TYPE_SVM, NULL);
  g_autoptr (GpuSvm) svm = NULL;

  g_assert_null (gpu_svm_get_data (empty));
  g_assert_null (gpu_svm_get_bytes (empty, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_svm_get_bytes");
  g_assert_null (gpu_svm_map (empty, NULL, GPU_MAP_FLAGS_READ, 0, 1, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_svm_map");
  g_assert_false (gpu_svm_prefetch (empty, NULL, GPU_MIGRATE_FLAGS_NONE, 0, 1, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_svm_prefetch");
  g_assert_false (gpu_svm_advise (empty, GPU_MEMORY_ADVICE_READ_MOSTLY, 0, 1, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_svm_advise");
  g_assert_false (gpu_svm_attach (empty, NULL, GPU_SVM_ATTACHMENT_STREAM, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_svm_attach");
  g_assert_false (g_initable_init (G_INITABLE (empty), NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "context");

  if (!test_has_svm (fixture))
    return;
  svm = g_initable_new (GPU_TYPE_SVM, NULL, &error, "context", fixture->context, "size",
                        (guint64) SIZE, "alignment", (guint64) 64, NULL);
  g_assert_no_error (error);
  g_assert_cmpuint (gpu_memory_get_size (GPU_MEMORY (svm)), ==, SIZE);
}

/* Memory of 0 bytes is an argument of kernels and of commands that move 0 bytes, no more. */
static void
svm_empty (TestFixture *fixture)
{
  gsize before = gpu_context_get_allocated_size (fixture->context);
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuSvm) svm = NULL;
  g_autoptr (GpuSvm) other = NULL;
  GpuMemory *memory;

  if (!test_has_svm (fixture))
    return;
  svm = test_svm (fixture, GPU_SVM_FLAGS_NONE, 0);
  other = test_svm (fixture, GPU_SVM_FLAGS_NONE, 0);
  memory = GPU_MEMORY (svm);
  g_assert_cmpuint (gpu_memory_get_size (memory), ==, 0);
  g_assert_cmpuint (gpu_memory_get_device_address (memory), !=, 0);
  g_assert_cmpuint (gpu_memory_get_device_address (memory), !=,
                    gpu_memory_get_device_address (GPU_MEMORY (other)));
  test_assert_ok (gpu_stream_fill (fixture->stream, memory, 0, 0, "a", 1, &error),
                  error);
  test_assert_ok (gpu_stream_copy (fixture->stream, GPU_MEMORY (other), 0, memory, 0, 0, &error),
                  error);
  test_assert_ok (gpu_svm_prefetch (svm, fixture->stream, GPU_MIGRATE_FLAGS_NONE, 0, 0, &error),
                  error);
  g_assert_false (gpu_stream_fill (fixture->stream, memory, 0, 1, "a", 1, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_stream_fill", "0 bytes");
  g_assert_null (gpu_svm_map (svm, NULL, GPU_MAP_FLAGS_READ, 0, 0, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "cannot map 0 bytes");
  g_clear_object (&svm);
  g_clear_object (&other);
  test_synchronize (fixture->stream);
  g_assert_cmpuint (gpu_context_get_allocated_size (fixture->context), ==, before);
}

static void
refuse (TestFixture *fixture, GpuMemoryFlags flags, GpuSvmFlags svm_flags, gsize size,
        gsize alignment, GpuError code, const char *word)
{
  g_autoptr (GError) error = NULL;

  g_assert_null (gpu_svm_new (fixture->context, flags, svm_flags, size, alignment, &error));
  test_assert_gpu_error (error, code, "gpu_svm_new", word);
}

static void
svm_invalid_arguments (TestFixture *fixture)
{
  const GpuError wrong = GPU_ERROR_INVALID_ARGUMENT;
  const GpuSvmFlags both = GPU_SVM_FLAGS_FINE_GRAIN | GPU_SVM_FLAGS_ATOMICS;
  GpuCapabilities can = gpu_device_get_capabilities (fixture->device);

  if ((can & GPU_CAPABILITIES_SVM_FINE) == 0)
    refuse (fixture, 0, GPU_SVM_FLAGS_FINE_GRAIN, SIZE, 0, GPU_ERROR_NOT_SUPPORTED, "fine grain");
  if ((can & GPU_CAPABILITIES_SVM_ATOMICS) == 0)
    refuse (fixture, 0, both, SIZE, 0, GPU_ERROR_NOT_SUPPORTED, "atomic");
  if ((can & GPU_CAPABILITIES_SVM_COARSE) == 0)
    refuse (fixture, 0, 0, SIZE, 0, GPU_ERROR_NOT_SUPPORTED, "shared virtual memory");
  if (!test_has_svm (fixture))
    return;
  refuse (fixture, 0, 0, SIZE, 3, wrong, "3");
  refuse (fixture, 0, 0, SIZE, G_MAXSIZE / 2 + 1, wrong, "alignment");
  refuse (fixture, 0, 0, SIZE, (gsize) 1 << 60, GPU_ERROR_OUT_OF_DEVICE_MEMORY,
          "1152921504606846976");
  refuse (fixture, 0, GPU_SVM_FLAGS_ATOMICS, SIZE, 0, wrong, "GPU_SVM_FLAGS_FINE_GRAIN");
  refuse (fixture, 0, (GpuSvmFlags) 64, SIZE, 0, wrong, "unknown flags 0x40");
  refuse (fixture, GPU_MEMORY_FLAGS_ALLOC_HOST, 0, SIZE, 0, wrong, "alloc-host");
  refuse (fixture, GPU_MEMORY_FLAGS_SHAREABLE, 0, SIZE, 0, wrong, "shareable");
  refuse (fixture, GPU_MEMORY_FLAGS_READ_ONLY | GPU_MEMORY_FLAGS_WRITE_ONLY, 0, SIZE, 0, wrong,
          "read-only");
  refuse (fixture, 0, 0, (gsize) 1 << 60, 0, GPU_ERROR_OUT_OF_DEVICE_MEMORY, "1152921504606846976");
  refuse (fixture, 0, 0, G_MAXSIZE - 100, 1 << 20, GPU_ERROR_OUT_OF_DEVICE_MEMORY, "bytes");
  if (test_has_exclusive_handover (fixture))
    refuse (fixture, GPU_MEMORY_FLAGS_UNTRACKED, 0, SIZE, 0, GPU_ERROR_NOT_SUPPORTED,
            "GPU_MEMORY_FLAGS_UNTRACKED");
}

/* The access flags of buffers also restrict the access of the host and of kernels to SVM. */
static void
svm_access (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuSvm) svm = NULL;

  if (!test_has_svm (fixture))
    return;
  svm = gpu_svm_new (fixture->context,
                     GPU_MEMORY_FLAGS_WRITE_ONLY | GPU_MEMORY_FLAGS_HOST_READ_ONLY,
                     GPU_SVM_FLAGS_NONE, SIZE, 0, &error);
  g_assert_no_error (error);
  g_assert_null (gpu_svm_map (svm, NULL, GPU_MAP_FLAGS_WRITE, 0, 1, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "host-read-only");
  test_assert_ok (gpu_stream_fill (fixture->stream, GPU_MEMORY (svm), 0, SIZE,
                                   (const guint8 *) "z", 1, &error), error);
  test_svm_check (svm, 0, SIZE, 'z');
}

/* --- stream operations ---------------------------------------------------------------- */

static void
svm_linear (TestFixture *fixture)
{
  static const guint8 three[] = { 1, 2, 3 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  g_autoptr (GBytes) got = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE, 9);
  g_autoptr (GpuSvm) a = NULL;
  g_autoptr (GpuSvm) b = NULL;
  GpuStream *stream = fixture->stream;
  const guint8 *expected = g_bytes_get_data (bytes, NULL);
  GpuMapping *mapping;

  if (!test_has_svm (fixture))
    return;
  a = test_svm (fixture, GPU_SVM_FLAGS_NONE, SIZE);
  b = test_svm (fixture, GPU_SVM_FLAGS_NONE, SIZE);
  test_assert_ok (gpu_stream_write (stream, GPU_MEMORY (a), 0, bytes, &error), error);
  mapping = test_svm_map (a, GPU_MAP_FLAGS_READ, 0, SIZE);
  test_assert_mem (gpu_mapping_get_data (mapping), expected, SIZE);
  g_object_unref (mapping);

  /* Copy to other SVM, within one allocation, to a buffer and back */
  test_assert_ok (gpu_stream_copy (stream, GPU_MEMORY (b), 0, GPU_MEMORY (a), 0, SIZE, &error),
                  error);
  test_assert_ok (gpu_stream_copy (stream, GPU_MEMORY (b), 4096, GPU_MEMORY (b), 0, 1000, &error),
                  error);
  test_assert_ok (gpu_stream_copy (stream, GPU_MEMORY (buffer), 100, GPU_MEMORY (b), 4000, 1096,
                                   &error), error);
  test_assert_ok (gpu_stream_copy (stream, GPU_MEMORY (a), 0, GPU_MEMORY (buffer), 0, 1300,
                                   &error), error);
  mapping = test_svm_map (a, GPU_MAP_FLAGS_READ, 0, SIZE);
  test_assert_value (gpu_mapping_get_data (mapping), 9, 100);
  test_assert_mem ((guint8 *) gpu_mapping_get_data (mapping) + 100, expected + 4000, 96);
  test_assert_mem ((guint8 *) gpu_mapping_get_data (mapping) + 196, expected, 1000);
  test_assert_value ((guint8 *) gpu_mapping_get_data (mapping) + 1196, 9, 104);
  test_assert_mem ((guint8 *) gpu_mapping_get_data (mapping) + 1300, expected + 1300, SIZE - 1300);
  g_object_unref (mapping);

  test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (a), 128, 3000, three, 3, &error), error);
  test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (a), 4096, 4096, "abcd", 4,
                                   &error), error);
  got = gpu_stream_read_bytes (stream, GPU_MEMORY (a), 0, SIZE, &error);
  g_assert_no_error (error);
  test_synchronize (stream);
  expected = g_bytes_get_data (got, NULL);
  for (gsize i = 0; i < 3000; i++)
    g_assert_cmpuint (expected[128 + i], ==, three[i % 3]);
  for (gsize i = 4096; i < SIZE; i++)
    g_assert_cmpuint (expected[i], ==, "abcd"[i % 4]);
}

static void
svm_regions (TestFixture *fixture)
{
  const GpuExtent extent = { 10, 8, 3 };
  const GpuLayout to = { .x = 64, .row_pitch = 32, .slice_pitch = 32 * 8 };
  const GpuLayout from = { .x = 128, .row_pitch = 64, .slice_pitch = 64 * 8 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  const guint8 *expected = g_bytes_get_data (bytes, NULL);
  g_autoptr (GpuSvm) a = NULL;
  g_autoptr (GpuSvm) b = NULL;
  GpuMapping *mapping;

  if (!test_has_svm (fixture))
    return;
  a = test_svm (fixture, GPU_SVM_FLAGS_NONE, SIZE);
  b = test_svm (fixture, GPU_SVM_FLAGS_NONE, SIZE);
  test_svm_set (b, 0, SIZE, 5);
  test_assert_ok (gpu_stream_write (fixture->stream, GPU_MEMORY (a), 0, bytes, &error), error);
  test_assert_ok (gpu_stream_copy_region (fixture->stream, GPU_MEMORY (b), &to, GPU_MEMORY (a),
                                          &from, &extent, &error), error);
  mapping = test_svm_map (b, GPU_MAP_FLAGS_READ, 0, SIZE);
  for (gsize z = 0; z < extent.depth; z++)
    for (gsize y = 0; y < extent.height; y++)
      {
        const guint8 *row = (guint8 *) gpu_mapping_get_data (mapping) + 64 + z * 256 + y * 32;

        test_assert_mem (row, expected + 128 + z * 512 + y * 64, 10);
        test_assert_value (row + 10, 5, 22);
      }
  g_object_unref (mapping);
}

static void
svm_migrate (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE, 4);
  g_autoptr (GpuSvm) svm = NULL;
  GpuMemory *memories[2];

  if (!test_has_svm (fixture))
    return;
  svm = test_svm (fixture, GPU_SVM_FLAGS_NONE, SIZE);
  memories[0] = GPU_MEMORY (buffer);
  memories[1] = GPU_MEMORY (svm);
  test_svm_set (svm, 0, SIZE, 3);
  for (guint i = 0; i < 2; i++)
    {
      GpuMigrateFlags flags = i == 0 ? GPU_MIGRATE_FLAGS_HOST : GPU_MIGRATE_FLAGS_NONE;

      test_assert_ok (gpu_stream_migrate (fixture->stream, memories, 2, flags, &error), error);
      test_svm_check (svm, 0, SIZE, 3);
      test_assert_ok (gpu_svm_prefetch (svm, NULL, flags, 100, 1000, &error), error);
      test_assert_ok (gpu_svm_prefetch (svm, fixture->stream, flags, 0, SIZE, &error), error);
      test_svm_check (svm, 0, SIZE, 3);
    }
  test_assert_ok (gpu_svm_prefetch (svm, NULL, GPU_MIGRATE_FLAGS_NONE, SIZE, 0, &error), error);
  g_assert_false (gpu_svm_prefetch (svm, NULL, GPU_MIGRATE_FLAGS_NONE, 1, SIZE, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_svm_prefetch", "8192");
  g_assert_false (gpu_svm_prefetch (svm, NULL, (GpuMigrateFlags) 64, 0, SIZE, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "0x40");
  test_synchronize (fixture->stream);
}

/* Only the discarded bytes lose their content. Later writes to these bytes are not lost. */
static void
svm_content_undefined (TestFixture *fixture)
{
  static const GpuMigrateFlags places[] = { GPU_MIGRATE_FLAGS_NONE, GPU_MIGRATE_FLAGS_HOST };
  const gsize half = SIZE / 2;
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuSvm) svm = NULL;
  g_autoptr (GpuBuffer) slice = NULL;
  GpuMemory *memories[1];

  if (!test_has_svm (fixture))
    return;
  svm = test_svm (fixture, GPU_SVM_FLAGS_NONE, SIZE);
  slice = gpu_buffer_new_for_memory (GPU_MEMORY (svm), half, half, &error);
  g_assert_no_error (error);
  memories[0] = GPU_MEMORY (slice);
  for (guint i = 0; i < G_N_ELEMENTS (places); i++)
    {
      GpuMigrateFlags flags = places[i] | GPU_MIGRATE_FLAGS_CONTENT_UNDEFINED;

      test_svm_set (svm, 0, SIZE, 5 + i);
      test_assert_ok (gpu_svm_prefetch (svm, fixture->stream, flags, 100, 1000, &error), error);
      test_svm_check (svm, 0, 100, 5 + i);
      test_svm_check (svm, 1100, SIZE - 1100, 5 + i);

      test_assert_ok (gpu_stream_migrate (fixture->stream, memories, 1, flags, &error), error);
      test_svm_check (svm, 0, 100, 5 + i);
      test_svm_check (svm, 1100, half - 1100, 5 + i);

      test_svm_set (svm, 100, 1000, 5 + i);
      test_svm_set (svm, half, half, 5 + i);
      test_svm_check (svm, 0, SIZE, 5 + i);
    }
}

static void
svm_advice (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuDevice) other = NULL;
  g_autoptr (GpuSvm) svm = NULL;

  if (!test_has_svm (fixture))
    return;
  svm = test_svm (fixture, GPU_SVM_FLAGS_NONE, SIZE);
  test_svm_set (svm, 0, SIZE, 3);
  for (int i = 0; i <= GPU_MEMORY_ADVICE_UNSET_ACCESSED_BY; i++)
    {
      GpuMemoryAdvice advice = (GpuMemoryAdvice) i;

      test_assert_ok (gpu_svm_advise (svm, advice, 0, SIZE, NULL, &error), error);
      test_assert_ok (gpu_svm_advise (svm, advice, 0, SIZE, fixture->device, &error), error);
      test_assert_ok (gpu_svm_advise (svm, advice, SIZE, 0, NULL, &error), error);
    }
  test_svm_check (svm, 0, SIZE, 3);
  g_assert_false (gpu_svm_advise (svm, (GpuMemoryAdvice) 77, 0, SIZE, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "77");
  g_assert_false (gpu_svm_advise (svm, GPU_MEMORY_ADVICE_READ_MOSTLY, 1, SIZE, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "8192");
  other = gpu_device_find ("host", &error);
  g_assert_no_error (error);
  if (other != fixture->device)
    {
      g_assert_false (gpu_svm_advise (svm, GPU_MEMORY_ADVICE_ACCESSED_BY, 0, SIZE, other, &error));
      test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "host");
    }
}

/* Copies between SVM and host memory, and SVM as a buffer. */
static void
svm_host_memory (TestFixture *fixture)
{
  const guint8 value = 6;
  const guint8 other = 9;
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuHostMemory) memory = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuSvm) svm = NULL;
  g_autoptr (GBytes) bytes = NULL;

  if (!test_has_svm (fixture))
    return;
  svm = test_svm (fixture, GPU_SVM_FLAGS_NONE, SIZE);
  memory = gpu_host_memory_new_aligned (fixture->context, 0, SIZE, &error);
  g_assert_no_error (error);
  test_assert_ok (gpu_stream_fill (fixture->stream, GPU_MEMORY (memory), 0, SIZE, &value, 1,
                                   &error), error);
  test_svm_set (svm, 0, SIZE, 2);
  test_assert_ok (gpu_stream_copy (fixture->stream, GPU_MEMORY (svm), 0, GPU_MEMORY (memory), 0,
                                   SIZE / 2, &error), error);
  test_svm_check (svm, 0, SIZE / 2, value);
  test_svm_check (svm, SIZE / 2, SIZE / 2, 2);
  test_assert_ok (gpu_stream_copy (fixture->stream, GPU_MEMORY (memory), 0, GPU_MEMORY (svm),
                                   SIZE / 2, SIZE / 2, &error), error);
  bytes = gpu_host_memory_read_bytes (memory, SIZE / 2 - 1, 2, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (((const guint8 *) g_bytes_get_data (bytes, NULL))[0], ==, 2);
  g_assert_cmpuint (((const guint8 *) g_bytes_get_data (bytes, NULL))[1], ==, value);

  buffer = gpu_buffer_new_for_memory (GPU_MEMORY (svm), 0, SIZE / 2, &error);
  g_assert_no_error (error);
  test_assert_ok (gpu_stream_fill (fixture->stream, GPU_MEMORY (buffer), 0, SIZE / 2, &other, 1,
                                   &error), error);
  test_svm_check (svm, 0, SIZE / 2, 9);
  test_svm_check (svm, SIZE / 2, SIZE / 2, 2);
}

/* The attributes show the advice that the driver received. */
static void
svm_advice_attributes (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) attributes = NULL;
  g_autoptr (GpuSvm) svm = NULL;
  const char *place = NULL;
  gboolean read_mostly = FALSE;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_SVM_FINE))
    return;
  svm = test_svm (fixture, GPU_SVM_FLAGS_NONE, 65536);
  test_svm_set (svm, 0, 65536, 3);
  test_assert_ok (gpu_svm_advise (svm, GPU_MEMORY_ADVICE_READ_MOSTLY, 0, 65536, NULL, &error),
                  error);
  test_assert_ok (gpu_svm_advise (svm, GPU_MEMORY_ADVICE_PREFERRED_LOCATION, 0, 65536, NULL,
                                  &error), error);
  test_assert_ok (gpu_svm_prefetch (svm, NULL, GPU_MIGRATE_FLAGS_NONE, 0, 65536, &error), error);
  test_synchronize (fixture->stream);
  attributes = gpu_memory_get_attributes (GPU_MEMORY (svm), &error);
  g_assert_no_error (error);
  g_assert_true (g_variant_lookup (attributes, "is-managed", "b", &read_mostly));
  g_assert_true (read_mostly);
  g_assert_true (g_variant_lookup (attributes, "read-mostly", "b", &read_mostly));
  g_assert_true (read_mostly);
  g_assert_true (g_variant_lookup (attributes, "preferred-location", "&s", &place));
  g_assert_cmpstr (place, ==, "host");
  g_assert_true (g_variant_lookup (attributes, "last-prefetch-location", "&s", &place));
  g_assert_cmpstr (place, ==, gpu_device_get_id (fixture->device));
}

static void
svm_attach (TestFixture *fixture)
{
  static const GpuSvmAttachment attachments[] = {
    GPU_SVM_ATTACHMENT_GLOBAL, GPU_SVM_ATTACHMENT_HOST, GPU_SVM_ATTACHMENT_STREAM,
    GPU_SVM_ATTACHMENT_HOST, GPU_SVM_ATTACHMENT_GLOBAL, GPU_SVM_ATTACHMENT_STREAM,
  };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuSvm) svm = NULL;

  if (!test_has_svm (fixture))
    return;
  svm = test_svm (fixture, GPU_SVM_FLAGS_NONE, SIZE);
  for (gsize i = 0; i < G_N_ELEMENTS (attachments); i++)
    {
      guint8 value = (guint8) (i + 1);

      test_assert_ok (gpu_svm_attach (svm, i % 2 ? stream : NULL, attachments[i], &error), error);
      test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (svm), 0, SIZE, &value, 1, &error),
                      error);
      test_svm_check (svm, 0, SIZE, value);
    }
  g_assert_false (gpu_svm_attach (svm, NULL, (GpuSvmAttachment) 9, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "9");
}

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
  test_add ("properties", svm_properties);
  test_add ("alignment", svm_alignment);
  test_add ("initable", svm_initable);
  test_add ("empty", svm_empty);
  test_add ("invalid-arguments", svm_invalid_arguments);
  test_add ("access", svm_access);
  test_add ("linear", svm_linear);
  test_add ("regions", svm_regions);
  test_add ("migrate", svm_migrate);
  test_add ("content-undefined", svm_content_undefined);
  test_add ("advice", svm_advice);
  test_add ("host-memory", svm_host_memory);
  test_add ("advice-attributes", svm_advice_attributes);
  test_add ("attach", svm_attach);

  return test_run ();
}
