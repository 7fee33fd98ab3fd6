/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Shared virtual memory: where it is, what streams do with it, and when the host may touch it. */
#include "config.h"

#include "test-util.h"

#define SIZE 8192
#define N_THREADS 4
#define N_ROUNDS 50
#define N_LOST 2000

static GpuSvm *
svm_new (TestFixture *fixture, GpuSvmFlags flags, gsize size)
{
  g_autoptr (GError) error = NULL;
  GpuSvm *svm = gpu_svm_new (fixture->context, GPU_MEMORY_NONE, flags, size, 0, &error);

  g_assert_no_error (error);
  g_assert_true (GPU_IS_SVM (svm));
  return svm;
}

static GpuMapping *
map (GpuSvm *svm, GpuMapFlags flags, gsize offset, gsize size)
{
  g_autoptr (GError) error = NULL;
  GpuMapping *mapping = gpu_svm_map (svm, NULL, flags, offset, size, NULL, &error);

  g_assert_no_error (error);
  g_assert_true (GPU_IS_MAPPING (mapping));
  return mapping;
}

static void
set (GpuSvm *svm, gsize offset, gsize size, guint8 value)
{
  g_autoptr (GpuMapping) mapping = map (svm, GPU_MAP_FLAGS_WRITE_INVALIDATE, offset, size);

  memset (gpu_mapping_get_data (mapping), value, size);
}

static void
check (GpuSvm *svm, gsize offset, gsize size, guint8 value)
{
  g_autoptr (GpuMapping) mapping = map (svm, GPU_MAP_FLAGS_READ, offset, size);

  test_assert_value (gpu_mapping_get_data (mapping), value, size);
}

static gboolean
is_shared (TestFixture *fixture)
{
  return test_has (fixture, GPU_CAPABILITIES_SVM_COARSE);
}

/* The host and a stream of a device cannot both use it. */
static gboolean
takes_turns (TestFixture *fixture)
{
  return g_str_has_prefix (gpu_device_get_id (fixture->device), "cuda:")
         && (gpu_device_get_capabilities (fixture->device) & GPU_CAPABILITIES_SVM_FINE) == 0;
}

/* --- making it ------------------------------------------------------------------------ */

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

  if (!is_shared (fixture))
    return;
  svm = svm_new (fixture, GPU_SVM_FLAGS_NONE, SIZE);
  g_assert_cmpuint (gpu_memory_get_size (GPU_MEMORY (svm)), ==, SIZE);
  g_assert_cmpuint (gpu_memory_get_device_address (GPU_MEMORY (svm)), !=, 0);
  g_assert_cmpuint (gpu_memory_get_native_handle (GPU_MEMORY (svm)), !=, 0);
  g_assert_cmpuint (gpu_context_get_allocated_size (fixture->context), ==, before + SIZE);
  g_object_get (svm, "svm-flags", &flags, "alignment", &alignment, "size", &size, NULL);
  g_assert_cmpuint (flags, ==, gpu_svm_get_svm_flags (svm));
  g_assert_cmpuint (alignment, ==, 0);
  g_assert_cmpuint (gpu_svm_get_alignment (svm), ==, 0);
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
  if (!is_shared (fixture))
    return;
  for (gsize alignment = 1; alignment <= 1 << 20; alignment *= 4)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GpuSvm) svm = gpu_svm_new (fixture->context, GPU_MEMORY_NONE, GPU_SVM_FLAGS_NONE,
                                            100, alignment, &error);

      g_assert_no_error (error);
      g_assert_cmpuint (gpu_svm_get_alignment (svm), ==, alignment);
      g_assert_cmpuint (gpu_memory_get_device_address (GPU_MEMORY (svm)) % alignment, ==, 0);
      set (svm, 0, 100, 7);
      check (svm, 0, 100, 7);
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

  if (!is_shared (fixture))
    return;
  svm = g_initable_new (GPU_TYPE_SVM, NULL, &error, "context", fixture->context, "size",
                        (guint64) SIZE, "alignment", (guint64) 64, NULL);
  g_assert_no_error (error);
  g_assert_cmpuint (gpu_memory_get_size (GPU_MEMORY (svm)), ==, SIZE);
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
svm_refused (TestFixture *fixture)
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
  if (!is_shared (fixture))
    return;
  refuse (fixture, 0, 0, 0, 0, wrong, "0 bytes");
  refuse (fixture, 0, 0, SIZE, 3, wrong, "3");
  refuse (fixture, 0, 0, SIZE, G_MAXSIZE / 2 + 1, wrong, "alignment");
  refuse (fixture, 0, GPU_SVM_FLAGS_ATOMICS, SIZE, 0, wrong, "atomics");
  refuse (fixture, 0, (GpuSvmFlags) 64, SIZE, 0, wrong, "0x40");
  refuse (fixture, GPU_MEMORY_ALLOC_HOST, 0, SIZE, 0, wrong, "alloc-host");
  refuse (fixture, GPU_MEMORY_SHAREABLE, 0, SIZE, 0, wrong, "shareable");
  refuse (fixture, GPU_MEMORY_READ_ONLY | GPU_MEMORY_WRITE_ONLY, 0, SIZE, 0, wrong, "read-only");
  refuse (fixture, 0, 0, (gsize) 1 << 60, 0, GPU_ERROR_OUT_OF_DEVICE_MEMORY, "1152921504606846976");
  refuse (fixture, 0, 0, G_MAXSIZE - 100, 1 << 20, GPU_ERROR_OUT_OF_DEVICE_MEMORY, "bytes");
  if (takes_turns (fixture))
    refuse (fixture, GPU_MEMORY_UNTRACKED, 0, SIZE, 0, GPU_ERROR_NOT_SUPPORTED, "tracked");
}

/* What of it the host and kernels do is said by the same flags as of a buffer. */
static void
svm_access (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuSvm) svm = NULL;

  if (!is_shared (fixture))
    return;
  svm = gpu_svm_new (fixture->context, GPU_MEMORY_WRITE_ONLY | GPU_MEMORY_HOST_READ_ONLY,
                     GPU_SVM_FLAGS_NONE, SIZE, 0, &error);
  g_assert_no_error (error);
  g_assert_null (gpu_svm_map (svm, NULL, GPU_MAP_FLAGS_WRITE, 0, 1, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "host-read-only");
  test_assert_ok (gpu_stream_fill (fixture->stream, GPU_MEMORY (svm), 0, SIZE,
                                   (const guint8 *) "z", 1, &error), error);
  check (svm, 0, SIZE, 'z');
}

/* --- what streams do with it ---------------------------------------------------------- */

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

  if (!is_shared (fixture))
    return;
  a = svm_new (fixture, GPU_SVM_FLAGS_NONE, SIZE);
  b = svm_new (fixture, GPU_SVM_FLAGS_NONE, SIZE);
  test_assert_ok (gpu_stream_write (stream, GPU_MEMORY (a), 0, bytes, &error), error);
  mapping = map (a, GPU_MAP_FLAGS_READ, 0, SIZE);
  test_assert_mem (gpu_mapping_get_data (mapping), expected, SIZE);
  g_object_unref (mapping);

  /* To itself elsewhere, to another one, to a buffer and back */
  test_assert_ok (gpu_stream_copy (stream, GPU_MEMORY (b), 0, GPU_MEMORY (a), 0, SIZE, &error),
                  error);
  test_assert_ok (gpu_stream_copy (stream, GPU_MEMORY (b), 4096, GPU_MEMORY (b), 0, 1000, &error),
                  error);
  test_assert_ok (gpu_stream_copy (stream, GPU_MEMORY (buffer), 100, GPU_MEMORY (b), 4000, 1096,
                                   &error), error);
  test_assert_ok (gpu_stream_copy (stream, GPU_MEMORY (a), 0, GPU_MEMORY (buffer), 0, 1300,
                                   &error), error);
  mapping = map (a, GPU_MAP_FLAGS_READ, 0, SIZE);
  test_assert_value (gpu_mapping_get_data (mapping), 9, 100);
  test_assert_mem ((guint8 *) gpu_mapping_get_data (mapping) + 100, expected + 4000, 96);
  test_assert_mem ((guint8 *) gpu_mapping_get_data (mapping) + 196, expected, 1000);
  test_assert_value ((guint8 *) gpu_mapping_get_data (mapping) + 1196, 9, 104);
  test_assert_mem ((guint8 *) gpu_mapping_get_data (mapping) + 1300, expected + 1300, SIZE - 1300);
  g_object_unref (mapping);

  test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (a), 128, 3000, three, 3, &error), error);
  test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (a), 4096, 4096, (const guint8 *) "abcd", 4,
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

  if (!is_shared (fixture))
    return;
  a = svm_new (fixture, GPU_SVM_FLAGS_NONE, SIZE);
  b = svm_new (fixture, GPU_SVM_FLAGS_NONE, SIZE);
  set (b, 0, SIZE, 5);
  test_assert_ok (gpu_stream_write (fixture->stream, GPU_MEMORY (a), 0, bytes, &error), error);
  test_assert_ok (gpu_stream_copy_region (fixture->stream, GPU_MEMORY (b), &to, GPU_MEMORY (a),
                                          &from, &extent, &error), error);
  mapping = map (b, GPU_MAP_FLAGS_READ, 0, SIZE);
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

  if (!is_shared (fixture))
    return;
  svm = svm_new (fixture, GPU_SVM_FLAGS_NONE, SIZE);
  memories[0] = GPU_MEMORY (buffer);
  memories[1] = GPU_MEMORY (svm);
  set (svm, 0, SIZE, 3);
  for (guint i = 0; i < 2; i++)
    {
      GpuMigrateFlags flags = i == 0 ? GPU_MIGRATE_FLAGS_HOST : GPU_MIGRATE_FLAGS_NONE;

      test_assert_ok (gpu_stream_migrate (fixture->stream, memories, 2, flags, &error), error);
      check (svm, 0, SIZE, 3);
      test_assert_ok (gpu_svm_prefetch (svm, NULL, flags, 100, 1000, &error), error);
      test_assert_ok (gpu_svm_prefetch (svm, fixture->stream, flags, 0, SIZE, &error), error);
      check (svm, 0, SIZE, 3);
    }
  test_assert_ok (gpu_svm_prefetch (svm, NULL, GPU_MIGRATE_FLAGS_NONE, SIZE, 0, &error), error);
  g_assert_false (gpu_svm_prefetch (svm, NULL, GPU_MIGRATE_FLAGS_NONE, 1, SIZE, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_svm_prefetch", "8192");
  g_assert_false (gpu_svm_prefetch (svm, NULL, (GpuMigrateFlags) 64, 0, SIZE, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "0x40");
  test_synchronize (fixture->stream);
}

static void
svm_advice (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuDevice) other = NULL;
  g_autoptr (GpuSvm) svm = NULL;

  if (!is_shared (fixture))
    return;
  svm = svm_new (fixture, GPU_SVM_FLAGS_NONE, SIZE);
  set (svm, 0, SIZE, 3);
  for (int i = 0; i <= GPU_MEMORY_ADVICE_UNSET_ACCESSED_BY; i++)
    {
      GpuMemoryAdvice advice = (GpuMemoryAdvice) i;

      test_assert_ok (gpu_svm_advise (svm, advice, 0, SIZE, NULL, &error), error);
      test_assert_ok (gpu_svm_advise (svm, advice, 0, SIZE, fixture->device, &error), error);
      test_assert_ok (gpu_svm_advise (svm, advice, SIZE, 0, NULL, &error), error);
    }
  check (svm, 0, SIZE, 3);
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

/* What a driver was told shows in the attributes. */
static void
svm_places (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) attributes = NULL;
  g_autoptr (GpuSvm) svm = NULL;
  const char *place = NULL;
  gboolean read_mostly = FALSE;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_SVM_FINE))
    return;
  svm = svm_new (fixture, GPU_SVM_FLAGS_NONE, 65536);
  set (svm, 0, 65536, 3);
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

  if (!is_shared (fixture))
    return;
  svm = svm_new (fixture, GPU_SVM_FLAGS_NONE, SIZE);
  for (gsize i = 0; i < G_N_ELEMENTS (attachments); i++)
    {
      guint8 value = (guint8) (i + 1);

      test_assert_ok (gpu_svm_attach (svm, i % 2 ? stream : NULL, attachments[i], &error), error);
      test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (svm), 0, SIZE, &value, 1, &error),
                      error);
      check (svm, 0, SIZE, value);
    }
  g_assert_false (gpu_svm_attach (svm, NULL, (GpuSvmAttachment) 9, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "9");
}

/* --- mappings ------------------------------------------------------------------------- */

static void
svm_map (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuMapping) mapping = NULL;
  g_autoptr (GBytes) bytes = NULL;
  g_autoptr (GpuSvm) svm = NULL;
  guint64 address;

  if (!is_shared (fixture))
    return;
  svm = svm_new (fixture, GPU_SVM_FLAGS_NONE, SIZE);
  address = gpu_memory_get_device_address (GPU_MEMORY (svm));
  set (svm, 0, SIZE, 1);
  mapping = map (svm, GPU_MAP_FLAGS_NONE, 1000, 100);
  g_assert_cmpuint (gpu_mapping_get_address (mapping), ==, address + 1000);
  g_assert_cmpuint (gpu_mapping_get_size (mapping), ==, 100);
  g_assert_cmpuint (gpu_mapping_get_row_pitch (mapping), ==, 100);
  test_assert_value (gpu_mapping_get_data (mapping), 1, 100);
  memset (gpu_mapping_get_data (mapping), 2, 50);
  bytes = gpu_mapping_get_bytes (mapping);
  g_clear_object (&mapping);
  test_assert_value (g_bytes_get_data (bytes, NULL), 2, 50);
  g_clear_pointer (&bytes, g_bytes_unref);
  check (svm, 950, 50, 1);
  check (svm, 1000, 50, 2);
  check (svm, 1050, 50, 1);
  gpu_memory_release (GPU_MEMORY (svm));
  g_assert_null (gpu_svm_map (svm, NULL, GPU_MAP_FLAGS_READ, 0, 1, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_RELEASED, "gpu_svm_map");
}

/* Two that read, and one on another stream that waits for what a first one writes. */
static void
svm_map_shared (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuMapping) first = NULL;
  g_autoptr (GpuMapping) second = NULL;
  g_autoptr (GpuSvm) svm = NULL;

  if (!is_shared (fixture))
    return;
  svm = svm_new (fixture, GPU_SVM_FLAGS_NONE, SIZE);
  test_assert_ok (gpu_stream_fill (fixture->stream, GPU_MEMORY (svm), 0, SIZE,
                                   (const guint8 *) "q", 1, &error), error);
  first = gpu_stream_map (stream, GPU_MEMORY (svm), GPU_MAP_FLAGS_READ, 0, SIZE, &error);
  g_assert_no_error (error);
  second = map (svm, GPU_MAP_FLAGS_READ, 0, SIZE);
  test_synchronize (stream);
  test_assert_value (gpu_mapping_get_data (first), 'q', SIZE);
  g_clear_object (&first);
  test_assert_value (gpu_mapping_get_data (second), 'q', SIZE);
  g_clear_object (&second);
  test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (svm), 0, SIZE, (const guint8 *) "r", 1,
                                   &error), error);
  check (svm, 0, SIZE, 'r');
}

/* A buffer around the same memory, by its handle. */
static void
svm_wrapped (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) other = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuMapping) mapping = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  GpuSvm *svm;

  if (!is_shared (fixture))
    return;
  svm = svm_new (fixture, GPU_SVM_FLAGS_NONE, SIZE);
  buffer = gpu_buffer_new_wrapped (fixture->context,
                                   gpu_memory_get_native_handle (GPU_MEMORY (svm)), SIZE,
                                   GPU_WRAP_MODE_BORROW, &error);
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
  test_assert_ok (gpu_stream_fill (other, GPU_MEMORY (buffer), 0, SIZE, (const guint8 *) "w", 1,
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

  if (!is_shared (fixture))
    return;
  svm = svm_new (fixture, GPU_SVM_FLAGS_NONE, SIZE);
  memory = GPU_MEMORY (svm);
  mapping = map (svm, GPU_MAP_FLAGS_WRITE, 0, 100);
  g_assert_false (gpu_stream_copy (fixture->stream, GPU_MEMORY (buffer), 0, memory, 0, 50,
                                   &error));
  test_assert_gpu_error (error, GPU_ERROR_BUSY, "gpu_stream_copy", "mapped for writing");
  g_clear_object (&mapping);
  set (svm, 0, SIZE, 6);
  mapping = map (svm, GPU_MAP_FLAGS_READ, 0, 100);
  g_assert_false (gpu_stream_fill (fixture->stream, memory, 99, 1, (const guint8 *) "x", 1,
                                   &error));
  test_assert_gpu_error (error, GPU_ERROR_BUSY, "gpu_stream_fill");

  /* What else the device may do depends on whether it takes turns. */
  reads = gpu_stream_copy (fixture->stream, GPU_MEMORY (buffer), 0, memory, 0, 50, &error);
  g_assert_true (reads == !takes_turns (fixture));
  if (!reads)
    test_assert_gpu_error (error, GPU_ERROR_BUSY, "mapped");
  reads = gpu_stream_fill (fixture->stream, memory, 100, 1, (const guint8 *) "x", 1, &error);
  g_assert_true (reads == !takes_turns (fixture));
  if (!reads)
    test_assert_gpu_error (error, GPU_ERROR_BUSY, "mapped");
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

  if (!is_shared (fixture))
    return;
  svm = svm_new (fixture, GPU_SVM_FLAGS_NONE, SIZE);
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
  check (svm, 0, SIZE, 'q');
}

/* --- fine grain ----------------------------------------------------------------------- */

static void
svm_fine (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
  g_autoptr (GBytes) expected = test_value_bytes (SIZE, 8);
  g_autoptr (GBytes) bytes = NULL;
  GpuSvm *svm;

  if (!test_has (fixture, GPU_CAPABILITIES_SVM_FINE))
    return;
  svm = svm_new (fixture, GPU_SVM_FLAGS_FINE_GRAIN, SIZE);
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
svm_coarse (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuSvm) svm = NULL;

  if (!is_shared (fixture))
    return;
  svm = svm_new (fixture, GPU_SVM_FLAGS_NONE, SIZE);
  if ((gpu_svm_get_svm_flags (svm) & GPU_SVM_FLAGS_FINE_GRAIN) != 0)
    {
      g_test_skip ("the host reaches all shared memory at any time");
      return;
    }
  g_assert_null (gpu_svm_get_data (svm));
  g_assert_null (gpu_svm_get_bytes (svm, &error));
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_svm_get_bytes", "gpu_svm_map");
}

static void
svm_system (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
  g_autoptr (GBytes) bytes = test_value_bytes (SIZE, 1);
  g_autoptr (GBytes) none = g_bytes_new (NULL, 0);
  GpuMemory *memory;
  GpuSvm *svm = gpu_svm_new_for_bytes (fixture->context, GPU_MEMORY_NONE, bytes, &error);

  if (svm == NULL)
    {
      g_assert_true ((gpu_device_get_capabilities (fixture->device) & GPU_CAPABILITIES_SVM_SYSTEM)
                     == 0);
      test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_svm_new_for_bytes");
      return;
    }
  memory = GPU_MEMORY (svm);
  g_assert_true (gpu_memory_get_host_bytes (memory) == bytes);
  g_assert_true (gpu_svm_get_data (svm) == g_bytes_get_data (bytes, NULL));
  test_assert_ok (gpu_stream_fill (fixture->stream, memory, 10, 20, (const guint8 *) "ab", 2,
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
  g_assert_null (gpu_svm_new_for_bytes (fixture->context, GPU_MEMORY_NONE, none, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "0 bytes");
}

/* --- streams, threads, lifetime ------------------------------------------------------- */

/* Nobody tells a stream to wait for the other. */
static void
svm_streams (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) other = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, N_ROUNDS * 64);
  g_autoptr (GpuSvm) svm = NULL;
  g_autoptr (GBytes) content = NULL;

  if (!is_shared (fixture))
    return;
  svm = svm_new (fixture, GPU_SVM_FLAGS_NONE, SIZE);
  for (guint i = 0; i < N_ROUNDS; i++)
    {
      guint8 value = (guint8) i;
      GpuStream *stream = i % 2 ? other : fixture->stream;

      test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (svm), 0, SIZE, &value, 1, &error),
                      error);
      /* Two that read, on two streams */
      for (guint j = 0; j < 2; j++)
        test_assert_ok (gpu_stream_copy (j ? other : fixture->stream, GPU_MEMORY (buffer),
                                         i * 64 + j * 32, GPU_MEMORY (svm), SIZE - 32, 32,
                                         &error), error);
    }
  content = test_content (buffer);
  for (guint i = 0; i < N_ROUNDS; i++)
    test_assert_value ((const guint8 *) g_bytes_get_data (content, NULL) + i * 64, (guint8) i, 64);
}

/* A stream that is gone has nothing any more, and the next one may have its handle. */
static void
svm_lost_streams (TestFixture *fixture)
{
  g_autoptr (GpuSvm) svm = NULL;

  if (!is_shared (fixture))
    return;
  svm = svm_new (fixture, GPU_SVM_FLAGS_NONE, SIZE);
  for (guint i = 0; i < N_ROUNDS; i++)
    {
      g_autoptr (GError) error = NULL;
      GpuStream *stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
      guint8 value = (guint8) i;

      test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (svm), 0, SIZE, &value, 1, &error),
                      error);
      g_object_unref (stream);
      if (i % 3 == 0)
        check (svm, 0, SIZE, value);
    }
}

static void
svm_dropped (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, N_LOST * 4);
  g_autoptr (GBytes) content = NULL;
  const guint8 *data;

  if (!is_shared (fixture))
    return;
  for (guint i = 0; i < N_LOST; i++)
    {
      g_autoptr (GpuSvm) svm = svm_new (fixture, GPU_SVM_FLAGS_NONE, 64);
      guint8 value = (guint8) (i * 7);

      test_assert_ok (gpu_stream_fill (fixture->stream, GPU_MEMORY (svm), 0, 64, &value, 1,
                                       &error), error);
      test_assert_ok (gpu_stream_copy (fixture->stream, GPU_MEMORY (buffer), i * 4,
                                       GPU_MEMORY (svm), 0, 4, &error), error);
      if (i % 2)
        gpu_memory_release (GPU_MEMORY (svm));
    }
  content = test_content (buffer);
  data = g_bytes_get_data (content, NULL);
  for (guint i = 0; i < N_LOST; i++)
    test_assert_value (data + i * 4, (guint8) (i * 7), 4);
}

typedef struct
{
  TestFixture *fixture;
  GpuSvm      *shared;
  guint8       number;
} Worker;

static gpointer
work (gpointer data)
{
  Worker *worker = data;
  TestFixture *fixture = worker->fixture;
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuSvm) own = svm_new (fixture, GPU_SVM_FLAGS_NONE, SIZE);

  for (guint i = 0; i < N_ROUNDS; i++)
    {
      g_autoptr (GError) error = NULL;
      guint8 value = (guint8) (worker->number * N_ROUNDS + i);

      test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (own), 0, SIZE, &value, 1, &error),
                      error);
      test_assert_ok (gpu_stream_copy (stream, GPU_MEMORY (worker->shared), worker->number * 1024,
                                       GPU_MEMORY (own), 0, 1024, &error), error);
      test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (own), 0, SIZE, (const guint8 *) "", 1,
                                       &error), error);
      test_assert_ok (gpu_stream_copy (stream, GPU_MEMORY (own), 0, GPU_MEMORY (worker->shared),
                                       worker->number * 1024, 1024, &error), error);
      check (own, 0, 1024, value);
    }

  return NULL;
}

static void
svm_threads (TestFixture *fixture)
{
  g_autoptr (GpuSvm) shared = NULL;
  GThread *threads[N_THREADS];
  Worker workers[N_THREADS];

  if (!is_shared (fixture))
    return;
  shared = svm_new (fixture, GPU_SVM_FLAGS_NONE, SIZE);
  for (guint8 i = 0; i < N_THREADS; i++)
    {
      workers[i] = (Worker) { fixture, shared, i };
      threads[i] = g_thread_new ("svm", work, &workers[i]);
    }
  for (guint i = 0; i < N_THREADS; i++)
    g_thread_join (threads[i]);
}

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
  test_add ("properties", svm_properties);
  test_add ("alignment", svm_alignment);
  test_add ("initable", svm_initable);
  test_add ("refused", svm_refused);
  test_add ("access", svm_access);
  test_add ("linear", svm_linear);
  test_add ("regions", svm_regions);
  test_add ("migrate", svm_migrate);
  test_add ("advice", svm_advice);
  test_add ("places", svm_places);
  test_add ("attach", svm_attach);
  test_add ("map", svm_map);
  test_add ("map-shared", svm_map_shared);
  test_add ("wrapped", svm_wrapped);
  test_add ("busy", svm_busy);
  test_add ("map-async", svm_map_async);
  test_add ("fine", svm_fine);
  test_add ("coarse", svm_coarse);
  test_add ("system", svm_system);
  test_add ("streams", svm_streams);
  test_add ("lost-streams", svm_lost_streams);
  test_add ("dropped", svm_dropped);
  test_add ("threads", svm_threads);

  return test_run ();
}
