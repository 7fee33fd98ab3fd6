/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Buffers: constructors, attributes, slices, release, and the blocking functions. */
#include "config.h"

#include "test-util.h"

#define SIZE 4096

static void
count (gpointer data)
{
  g_atomic_int_inc ((int *) data);
}

/* --- constructors ------------------------------------------------------------ */

static void
buffer_new (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  guint64 before = gpu_context_get_allocated_size (fixture->context);
  g_autoptr (GpuBuffer) buffer = gpu_buffer_new (fixture->context, GPU_MEMORY_FLAGS_NONE, 1000,
                                                 &error);
  GpuMemory *memory = GPU_MEMORY (buffer);
  g_autoptr (GpuContext) context = NULL;
  guint64 size = 0;
  guint flags = 99;

  g_assert_no_error (error);
  g_assert_cmpuint (gpu_memory_get_size (memory), ==, 1000);
  g_assert_cmpuint (gpu_memory_get_flags (memory), ==, GPU_MEMORY_FLAGS_NONE);
  g_assert_true (gpu_memory_get_context (memory) == fixture->context);
  g_assert_cmpuint (gpu_memory_get_native_handle (memory), !=, 0);
  g_assert_false (gpu_memory_is_released (memory));
  g_assert_null (gpu_memory_get_host_bytes (memory));
  g_assert_null (gpu_buffer_get_parent (buffer));
  g_assert_cmpuint (gpu_buffer_get_offset (buffer), ==, 0);
  g_assert_cmpuint (gpu_context_get_allocated_size (fixture->context), >=, before + 1000);

  g_object_get (buffer, "context", &context, "size", &size, "flags", &flags, NULL);
  g_assert_true (context == fixture->context);
  g_assert_cmpuint (size, ==, 1000);
  g_assert_cmpuint (flags, ==, GPU_MEMORY_FLAGS_NONE);

  g_clear_object (&buffer);
  g_assert_cmpuint (gpu_context_get_allocated_size (fixture->context), ==, before);
}

static void
buffer_new_from_bytes (TestFixture *fixture)
{
  for (gsize size = 1; size < 100000; size = size * 3 + 1)
    {
      g_autoptr (GBytes) bytes = test_random_bytes (size);
      g_autoptr (GBytes) twin = g_bytes_new (g_bytes_get_data (bytes, NULL), size);
      g_autoptr (GpuBuffer) buffer = test_buffer_from (fixture, twin);

      g_clear_pointer (&twin, g_bytes_unref);
      g_assert_cmpuint (gpu_memory_get_size (GPU_MEMORY (buffer)), ==, size);
      test_assert_content (buffer, bytes);
    }
}

static void
assert_host_bytes (GpuBuffer *buffer, gconstpointer data, gsize size)
{
  g_autoptr (GBytes) bytes = gpu_memory_get_host_bytes (GPU_MEMORY (buffer));

  g_assert_nonnull (bytes);
  g_assert_true (g_bytes_get_data (bytes, NULL) == data);
  g_assert_cmpuint (g_bytes_get_size (bytes), ==, size);
}

static void
buffer_for_host_bytes (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  guint8 *data = g_aligned_alloc (1, SIZE, 4096);
  int n_freed = 0;
  g_autoptr (GBytes) bytes = g_bytes_new_with_free_func (data, SIZE, count, &n_freed);
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuBuffer) half = NULL;
  g_autoptr (GpuBuffer) part = NULL;
  g_autoptr (GBytes) content = NULL;

  memset (data, 7, SIZE);
  buffer = gpu_buffer_new_for_host_bytes (fixture->context, GPU_MEMORY_FLAGS_NONE, bytes, &error);
  if ((gpu_device_get_capabilities (fixture->device) & GPU_CAPABILITIES_HOST_POINTER) == 0)
    {
      g_assert_null (buffer);
      test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED);
    }
  else
    {
      g_assert_no_error (error);
      g_clear_pointer (&bytes, g_bytes_unref);
      g_assert_cmpint (n_freed, ==, 0);
      half = gpu_buffer_slice (buffer, SIZE / 2, SIZE / 2, &error);
      g_assert_no_error (error);
      part = gpu_buffer_slice (half, SIZE / 4, 10, &error);
      g_assert_no_error (error);
      assert_host_bytes (buffer, data, SIZE);
      assert_host_bytes (half, data + SIZE / 2, SIZE / 2);
      assert_host_bytes (part, data + SIZE / 2 + SIZE / 4, 10);
      content = test_content (buffer);
      test_assert_value (g_bytes_get_data (content, NULL), 7, SIZE);
      g_clear_object (&part);
      g_clear_object (&half);
      g_clear_object (&buffer);
      test_drop_context (fixture);
      test_check_no_objects ();
    }
  g_clear_pointer (&bytes, g_bytes_unref);
  g_assert_cmpint (n_freed, ==, 1);
  g_aligned_free (data);
}

/* A release drops the bytes of the host, although the object still exists. Slices keep them. */
static void
buffer_releases_host_bytes (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autofree guint8 *data = NULL;
  int n_freed = 0;
  g_autoptr (GBytes) bytes = NULL;
  g_autoptr (GBytes) seen = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuBuffer) slice = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_HOST_POINTER))
    return;

  data = g_malloc0 (SIZE);
  bytes = g_bytes_new_with_free_func (data, SIZE, count, &n_freed);
  buffer = gpu_buffer_new_for_host_bytes (fixture->context, GPU_MEMORY_FLAGS_NONE, bytes, &error);
  g_assert_no_error (error);
  g_clear_pointer (&bytes, g_bytes_unref);
  slice = gpu_buffer_slice (buffer, 0, SIZE / 2, &error);
  g_assert_no_error (error);
  gpu_memory_release (GPU_MEMORY (buffer));
  g_assert_null (gpu_memory_get_host_bytes (GPU_MEMORY (buffer)));
  g_object_get (buffer, "host-bytes", &seen, NULL);
  g_assert_null (seen);
  assert_host_bytes (slice, data, SIZE / 2);
  g_assert_cmpint (n_freed, ==, 0);
  gpu_memory_release (GPU_MEMORY (slice));
  g_assert_null (gpu_memory_get_host_bytes (GPU_MEMORY (slice)));
  test_synchronize (fixture->stream);
  g_assert_cmpint (n_freed, ==, 1);
}

/* After a release, the bytes of the host live until pending work has completed. */
static void
buffer_releases_pending_host_bytes (TestFixture *fixture)
{
  const guint8 pattern = 9;
  g_autoptr (GError) error = NULL;
  g_autofree guint8 *data = NULL;
  int n_freed = 0;
  g_autoptr (GBytes) bytes = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (TestHold) hold = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_HOST_POINTER) || !test_can_hold (fixture))
    return;

  data = g_malloc0 (SIZE);
  bytes = g_bytes_new_with_free_func (data, SIZE, count, &n_freed);
  buffer = gpu_buffer_new_for_host_bytes (fixture->context, GPU_MEMORY_FLAGS_NONE, bytes, &error);
  g_assert_no_error (error);
  g_clear_pointer (&bytes, g_bytes_unref);
  hold = test_hold (fixture->stream);
  test_assert_ok (gpu_stream_fill (fixture->stream, GPU_MEMORY (buffer), 0, SIZE, &pattern, 1,
                                   &error), error);
  gpu_memory_release (GPU_MEMORY (buffer));
  g_assert_null (gpu_memory_get_host_bytes (GPU_MEMORY (buffer)));
  g_assert_cmpint (g_atomic_int_get (&n_freed), ==, 0);
  test_hold_release (hold);
  test_synchronize (fixture->stream);
  while (g_atomic_int_get (&n_freed) == 0)
    g_usleep (1000);
  g_assert_cmpint (g_atomic_int_get (&n_freed), ==, 1);
}

/* A buffer over host memory that neither host nor kernels write rejects all writes. */
static void
buffer_for_constant_bytes (TestFixture *fixture)
{
  const guint8 value = 1;
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_value_bytes (SIZE, 7);
  g_autoptr (GpuBuffer) other = test_buffer (fixture, SIZE);
  g_autoptr (GpuBuffer) buffer = NULL;
  GpuMemory *memory;

  if (!test_has (fixture, GPU_CAPABILITIES_HOST_POINTER))
    return;
  buffer = gpu_buffer_new_for_host_bytes (fixture->context, GPU_MEMORY_FLAGS_READ_ONLY
                                                            | GPU_MEMORY_FLAGS_HOST_READ_ONLY,
                                          bytes, &error);
  g_assert_no_error (error);
  memory = GPU_MEMORY (buffer);
  g_assert_false (gpu_stream_fill (fixture->stream, memory, 0, SIZE, &value, 1, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_stream_fill", "read only");
  g_assert_false (gpu_stream_copy (fixture->stream, memory, 0, GPU_MEMORY (other), 0, SIZE,
                                   &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_stream_copy", "read only");
  test_assert_ok (gpu_stream_copy (fixture->stream, GPU_MEMORY (other), 0, memory, 0, SIZE, &error),
                  error);
  test_synchronize (fixture->stream);
  test_assert_value (g_bytes_get_data (bytes, NULL), 7, SIZE);
}

static void
buffer_new_pitched (TestFixture *fixture)
{
  static const gsize rows[][3] = { { 1, 1, 1 }, { 100, 7, 4 }, { 1000, 33, 8 }, { 4096, 2, 16 } };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (GError) error = NULL;
      gsize row_size = rows[i][0];
      gsize n_rows = rows[i][1];
      g_autoptr (GpuBuffer) buffer = gpu_buffer_new_pitched (fixture->context,
                                                             GPU_MEMORY_FLAGS_NONE,
                                                             row_size, n_rows, rows[i][2], &error);
      g_autoptr (GBytes) bytes = test_random_bytes (row_size * n_rows);
      g_autoptr (GBytes) back = NULL;
      GpuExtent extent = { row_size, n_rows, 1 };
      GpuLayout layout = { 0 };

      g_assert_no_error (error);
      layout.row_pitch = gpu_buffer_get_row_pitch (buffer);
      g_assert_cmpuint (layout.row_pitch, >=, row_size);
      g_assert_cmpuint (layout.row_pitch % rows[i][2], ==, 0);
      g_assert_cmpuint (gpu_memory_get_size (GPU_MEMORY (buffer)), >=,
                        layout.row_pitch * (n_rows - 1) + row_size);

      test_assert_ok (gpu_stream_write_region (fixture->stream, GPU_MEMORY (buffer), &layout,
                                               bytes, NULL, &extent, &error), error);
      back = gpu_stream_read_region (fixture->stream, GPU_MEMORY (buffer), &layout, &extent,
                                     &error);
      g_assert_no_error (error);
      test_synchronize (fixture->stream);
      test_assert_bytes (back, bytes);
    }
}

static void
buffer_new_wrapped (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  g_autoptr (GBytes) other = test_random_bytes (SIZE);
  g_autoptr (GpuBuffer) owner = test_buffer_from (fixture, bytes);
  guint64 handle = gpu_memory_get_native_handle (GPU_MEMORY (owner));
  int n_notified = 0;
  GBytes *keeper = g_bytes_new_with_free_func (NULL, 0, count, &n_notified);
  g_autoptr (GpuBuffer) wrapped = gpu_buffer_new_wrapped (fixture->context, handle, SIZE,
                                                          GPU_WRAP_MODE_BORROW, keeper, &error);

  g_assert_no_error (error);
  g_bytes_unref (keeper);
  g_assert_cmpuint (gpu_memory_get_size (GPU_MEMORY (wrapped)), ==, SIZE);
  g_assert_true (gpu_memory_equal (GPU_MEMORY (owner), GPU_MEMORY (wrapped)));
  g_assert_cmpuint (gpu_memory_hash (GPU_MEMORY (owner)), ==,
                    gpu_memory_hash (GPU_MEMORY (wrapped)));
  test_assert_content (wrapped, bytes);
  test_assert_ok (gpu_buffer_write_bytes (wrapped, NULL, 0, other, NULL, &error), error);
  test_assert_content (owner, other);

  g_assert_cmpint (n_notified, ==, 0);
  g_clear_object (&wrapped);
  g_assert_cmpint (g_atomic_int_get (&n_notified), ==, 1);
  test_assert_content (owner, other);
}

/* A borrowed wrapper retains the cl_mem, so that the owner may be freed first. */
static void
buffer_wrapped_keeps_handle (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  g_autoptr (GpuBuffer) owner = test_buffer_from (fixture, bytes);
  g_autoptr (GpuBuffer) wrapped = NULL;

  if (!test_is_opencl (fixture))
    {
      g_test_skip ("this back end does not count handles");
      return;
    }
  wrapped = gpu_buffer_new_wrapped (fixture->context,
                                    gpu_memory_get_native_handle (GPU_MEMORY (owner)), 0,
                                    GPU_WRAP_MODE_BORROW, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (gpu_memory_get_size (GPU_MEMORY (wrapped)), ==, SIZE);
  g_assert_null (gpu_buffer_new_wrapped (fixture->context,
                                         gpu_memory_get_native_handle (GPU_MEMORY (owner)),
                                         SIZE + 1, GPU_WRAP_MODE_BORROW, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_buffer_new_wrapped");
  g_clear_object (&owner);
  test_assert_content (wrapped, bytes);
}

/* --- slices ------------------------------------------------------------------- */

static void
buffer_slice (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  gsize unit = MAX (gpu_device_get_base_alignment (fixture->device), 64);
  g_autoptr (GBytes) bytes = test_random_bytes (unit * 16);
  g_autoptr (GpuBuffer) parent = test_buffer_from (fixture, bytes);
  g_autoptr (GpuBuffer) slice = gpu_buffer_slice (parent, unit * 4, unit * 8, &error);
  g_autoptr (GpuBuffer) inner = NULL;
  g_autoptr (GBytes) part = g_bytes_new_from_bytes (bytes, unit * 4, unit * 8);
  g_autoptr (GBytes) inner_part = g_bytes_new_from_bytes (bytes, unit * 6, unit * 2 + 3);
  g_autoptr (GBytes) content = NULL;
  guint8 value = 0x5a;

  g_assert_no_error (error);
  g_assert_true (gpu_buffer_get_parent (slice) == parent);
  g_assert_cmpuint (gpu_buffer_get_offset (slice), ==, unit * 4);
  g_assert_cmpuint (gpu_memory_get_size (GPU_MEMORY (slice)), ==, unit * 8);
  g_assert_true (gpu_memory_get_context (GPU_MEMORY (slice)) == fixture->context);
  test_assert_content (slice, part);

  inner = gpu_buffer_slice (slice, unit * 2, unit * 2 + 3, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (gpu_memory_get_size (GPU_MEMORY (inner)), ==, unit * 2 + 3);
  test_assert_content (inner, inner_part);

  test_assert_ok (gpu_buffer_fill (inner, NULL, 1, unit, &value, 1, NULL, &error), error);
  g_clear_object (&inner);
  g_clear_object (&slice);
  content = test_content (parent);
  test_assert_mem (g_bytes_get_data (content, NULL), g_bytes_get_data (bytes, NULL), unit * 6 + 1);
  test_assert_value ((const guint8 *) g_bytes_get_data (content, NULL) + unit * 6 + 1, value, unit);
  test_assert_mem ((const guint8 *) g_bytes_get_data (content, NULL) + unit * 7 + 1,
                   (const guint8 *) g_bytes_get_data (bytes, NULL) + unit * 7 + 1, unit * 9 - 1);
}

static void
buffer_slice_outlives (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  gsize unit = MAX (gpu_device_get_base_alignment (fixture->device), 64);
  g_autoptr (GBytes) bytes = test_random_bytes (unit * 4);
  g_autoptr (GBytes) part = g_bytes_new_from_bytes (bytes, unit, unit);
  g_autoptr (GpuBuffer) parent = test_buffer_from (fixture, bytes);
  g_autoptr (GpuBuffer) slice = gpu_buffer_slice (parent, unit, unit, &error);
  g_autoptr (GpuBuffer) whole = gpu_buffer_slice (parent, 0, unit * 4, &error);

  g_assert_no_error (error);
  g_clear_object (&parent);
  test_drop_context (fixture);
  test_assert_content (slice, part);
  test_assert_content (whole, bytes);
}

static void
buffer_slice_flags (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  g_autoptr (GpuBuffer) parent = gpu_buffer_new_from_bytes (fixture->context,
                                                            GPU_MEMORY_FLAGS_READ_ONLY,
                                                            bytes, &error);
  g_autoptr (GpuBuffer) slice = gpu_buffer_slice (parent, 0, SIZE / 2, &error);
  g_autoptr (GpuBuffer) bad = NULL;
  g_autoptr (GpuBuffer) open = NULL;
  g_autoptr (GpuBuffer) narrow = NULL;

  g_assert_no_error (error);
  g_assert_cmpuint (gpu_memory_get_flags (GPU_MEMORY (slice)), ==, GPU_MEMORY_FLAGS_READ_ONLY);
  bad = gpu_buffer_slice_full (parent, GPU_MEMORY_FLAGS_WRITE_ONLY, 0, SIZE / 2, &error);
  g_assert_null (bad);
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_buffer_slice_full: ", "read-only",
                         "write-only");

  open = test_buffer_from (fixture, bytes);
  narrow = gpu_buffer_slice_full (open, GPU_MEMORY_FLAGS_WRITE_ONLY, 0, SIZE / 2, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (gpu_memory_get_flags (GPU_MEMORY (narrow)), ==, GPU_MEMORY_FLAGS_WRITE_ONLY);
}

static void
buffer_for_memory (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  gsize unit = MAX (gpu_device_get_base_alignment (fixture->device), 64);
  g_autoptr (GBytes) bytes = test_random_bytes (unit * 4);
  g_autoptr (GBytes) part = g_bytes_new_from_bytes (bytes, unit, unit);
  g_autoptr (GpuBuffer) whole = test_buffer_from (fixture, bytes);
  g_autoptr (GpuBuffer) buffer = gpu_buffer_new_for_memory (GPU_MEMORY (whole), unit, unit,
                                                            &error);

  g_assert_no_error (error);
  g_assert_true (gpu_buffer_get_memory (buffer) == GPU_MEMORY (whole));
  g_assert_true (gpu_buffer_get_parent (buffer) == whole);
  g_assert_null (gpu_buffer_get_memory (whole));
  test_assert_content (buffer, part);

  g_assert_null (gpu_buffer_new_for_memory (GPU_MEMORY (whole), unit, unit * 4, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_buffer_new_for_memory", "memory");
  g_assert_null (gpu_buffer_new_for_memory (GPU_MEMORY (whole), unit, 0, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_buffer_new_for_memory", "0 bytes");
  gpu_memory_release (GPU_MEMORY (whole));
  g_assert_null (gpu_buffer_new_for_memory (GPU_MEMORY (whole), 0, unit, &error));
  test_assert_gpu_error (error, GPU_ERROR_RELEASED, "gpu_buffer_new_for_memory");
}

/* --- identity, attributes, release ----------------------------------------------- */

static void
buffer_equality (TestFixture *fixture)
{
  g_autoptr (GpuBuffer) a = test_buffer (fixture, SIZE);
  g_autoptr (GpuBuffer) b = test_buffer (fixture, SIZE);

  g_assert_true (gpu_memory_equal (GPU_MEMORY (a), GPU_MEMORY (a)));
  g_assert_false (gpu_memory_equal (GPU_MEMORY (a), GPU_MEMORY (b)));
  g_assert_cmpuint (gpu_memory_get_native_handle (GPU_MEMORY (a)), !=,
                    gpu_memory_get_native_handle (GPU_MEMORY (b)));
}

/* Slices of the same range are equal, and equal to the buffer if they cover it. */
static void
buffer_equality_slices (TestFixture *fixture)
{
  const gsize half = MAX (gpu_device_get_base_alignment (fixture->device), 64);
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, 2 * half);
  g_autoptr (GpuBuffer) all = gpu_buffer_slice (buffer, 0, 2 * half, NULL);
  g_autoptr (GpuBuffer) first = gpu_buffer_slice (buffer, 0, half, NULL);
  g_autoptr (GpuBuffer) second = gpu_buffer_slice (buffer, half, half, NULL);
  g_autoptr (GpuBuffer) again = gpu_buffer_slice (all, half, half, NULL);
  g_autoptr (GpuBuffer) wrapped =
    gpu_buffer_new_wrapped (fixture->context, gpu_memory_get_native_handle (GPU_MEMORY (second)),
                            half, GPU_WRAP_MODE_BORROW, NULL, &error);

  g_assert_no_error (error);
  g_assert_true (gpu_memory_equal (GPU_MEMORY (buffer), GPU_MEMORY (all)));
  g_assert_cmpuint (gpu_memory_hash (GPU_MEMORY (buffer)), ==, gpu_memory_hash (GPU_MEMORY (all)));
  g_assert_true (gpu_memory_equal (GPU_MEMORY (second), GPU_MEMORY (again)));
  g_assert_cmpuint (gpu_memory_hash (GPU_MEMORY (second)), ==,
                    gpu_memory_hash (GPU_MEMORY (again)));
  g_assert_true (gpu_memory_equal (GPU_MEMORY (second), GPU_MEMORY (wrapped)));
  g_assert_cmpuint (gpu_memory_hash (GPU_MEMORY (second)), ==,
                    gpu_memory_hash (GPU_MEMORY (wrapped)));
  g_assert_false (gpu_memory_equal (GPU_MEMORY (first), GPU_MEMORY (second)));
  g_assert_false (gpu_memory_equal (GPU_MEMORY (first), GPU_MEMORY (buffer)));
  gpu_memory_release (GPU_MEMORY (again));
  g_assert_true (gpu_memory_equal (GPU_MEMORY (again), GPU_MEMORY (again)));
  g_assert_false (gpu_memory_equal (GPU_MEMORY (second), GPU_MEMORY (again)));
}

static void
buffer_attributes (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
  g_autoptr (GVariant) attributes = gpu_memory_get_attributes (GPU_MEMORY (buffer), &error);
  g_autoptr (GVariant) size = NULL;

  g_assert_no_error (error);
  g_assert_true (g_variant_is_of_type (attributes, G_VARIANT_TYPE_VARDICT));
  size = g_variant_lookup_value (attributes, "size", G_VARIANT_TYPE_UINT64);
  g_assert_nonnull (size);
  g_assert_cmpuint (g_variant_get_uint64 (size), ==, SIZE);
}

static void
buffer_flags (TestFixture *fixture)
{
  static const GpuMemoryFlags good[] = {
    GPU_MEMORY_FLAGS_READ_ONLY, GPU_MEMORY_FLAGS_WRITE_ONLY, GPU_MEMORY_FLAGS_HOST_READ_ONLY,
    GPU_MEMORY_FLAGS_HOST_WRITE_ONLY, GPU_MEMORY_FLAGS_HOST_NO_ACCESS, GPU_MEMORY_FLAGS_ALLOC_HOST,
    GPU_MEMORY_FLAGS_UNTRACKED, GPU_MEMORY_FLAGS_READ_ONLY | GPU_MEMORY_FLAGS_HOST_WRITE_ONLY,
  };
  static const GpuMemoryFlags bad[] = {
    GPU_MEMORY_FLAGS_READ_ONLY | GPU_MEMORY_FLAGS_WRITE_ONLY,
    GPU_MEMORY_FLAGS_HOST_READ_ONLY | GPU_MEMORY_FLAGS_HOST_WRITE_ONLY,
    GPU_MEMORY_FLAGS_HOST_READ_ONLY | GPU_MEMORY_FLAGS_HOST_NO_ACCESS,
    GPU_MEMORY_FLAGS_HOST_WRITE_ONLY | GPU_MEMORY_FLAGS_HOST_NO_ACCESS, 1 << 20,
  };

  for (guint i = 0; i < G_N_ELEMENTS (good); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GpuBuffer) buffer = gpu_buffer_new (fixture->context, good[i], SIZE, &error);

      g_assert_no_error (error);
      g_assert_cmpuint (gpu_memory_get_flags (GPU_MEMORY (buffer)), ==, good[i]);
    }
  for (guint i = 0; i < G_N_ELEMENTS (bad); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GpuBuffer) buffer = gpu_buffer_new (fixture->context, bad[i], SIZE, &error);

      g_assert_null (buffer);
      test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT);
    }
}

static void
buffer_host_access (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  g_autoptr (GpuBuffer) reads = gpu_buffer_new_from_bytes (fixture->context,
                                                           GPU_MEMORY_FLAGS_HOST_READ_ONLY, bytes,
                                                           &error);
  g_autoptr (GpuBuffer) writes = gpu_buffer_new (fixture->context, GPU_MEMORY_FLAGS_HOST_WRITE_ONLY,
                                                 SIZE, &error);
  g_autoptr (GpuBuffer) none = gpu_buffer_new (fixture->context, GPU_MEMORY_FLAGS_HOST_NO_ACCESS,
                                               SIZE,
                                               &error);
  g_autoptr (GBytes) back = NULL;
  g_autoptr (GpuMapping) mapping = NULL;

  g_assert_no_error (error);
  test_assert_content (reads, bytes);
  g_assert_false (gpu_buffer_write_bytes (reads, NULL, 0, bytes, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT);
  mapping = gpu_buffer_map (reads, NULL, GPU_MAP_FLAGS_WRITE, 0, SIZE, NULL, &error);
  g_assert_null (mapping);
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT);

  test_assert_ok (gpu_buffer_write_bytes (writes, NULL, 0, bytes, NULL, &error), error);
  back = gpu_buffer_read_bytes (writes, NULL, 0, SIZE, NULL, &error);
  g_assert_null (back);
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT);

  back = gpu_buffer_read_bytes (none, NULL, 0, SIZE, NULL, &error);
  g_assert_null (back);
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT);
  test_assert_ok (gpu_buffer_copy (none, NULL, 0, reads, 0, SIZE, NULL, &error), error);
  test_assert_ok (gpu_buffer_copy (writes, NULL, 0, none, 0, SIZE, NULL, &error), error);
}

static void
buffer_release (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE, 1);
  GpuMemory *memory = GPU_MEMORY (buffer);
  g_autoptr (GBytes) bytes = test_value_bytes (SIZE, 2);
  guint64 before = gpu_context_get_allocated_size (fixture->context);
  int n_released = 0;
  int n_notified = 0;
  guint8 data[8] = { 0 };

  g_signal_connect_swapped (buffer, "released", G_CALLBACK (count), &n_released);
  g_signal_connect_swapped (buffer, "notify::released", G_CALLBACK (count), &n_notified);
  gpu_memory_release (memory);
  g_assert_cmpint (n_released, ==, 1);
  g_assert_cmpint (n_notified, ==, 1);
  g_assert_cmpuint (gpu_memory_get_native_handle (memory), ==, 0);
  g_assert_true (gpu_memory_is_released (memory));
  g_assert_cmpuint (gpu_context_get_allocated_size (fixture->context), ==, before - SIZE);
  gpu_memory_release (memory);
  g_assert_cmpint (n_released, ==, 1);
  g_assert_cmpint (n_notified, ==, 1);

  g_assert_false (gpu_buffer_read (buffer, NULL, 0, data, 8, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_RELEASED);
  g_assert_false (gpu_buffer_write_bytes (buffer, NULL, 0, bytes, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_RELEASED);
  g_assert_false (gpu_stream_fill (fixture->stream, memory, 0, SIZE, data, 1, &error));
  test_assert_gpu_error (error, GPU_ERROR_RELEASED);
  g_assert_null (gpu_buffer_slice (buffer, 0, SIZE, &error));
  test_assert_gpu_error (error, GPU_ERROR_RELEASED);
  g_assert_null (gpu_stream_map (fixture->stream, memory, GPU_MAP_FLAGS_READ, 0, SIZE, &error));
  test_assert_gpu_error (error, GPU_ERROR_RELEASED);
  g_assert_null (gpu_memory_get_attributes (memory, &error));
  test_assert_gpu_error (error, GPU_ERROR_RELEASED);
}

static void
drop (GpuMemory *memory,
      gpointer   data)
{
  g_object_unref (memory);
  ++*(int *) data;
}

/* The handler of the signal drops the last reference of the program. */
static void
buffer_dropped_by_handler (TestFixture *fixture)
{
  GpuBuffer *buffer = test_buffer (fixture, SIZE);
  int n_dropped = 0;

  g_signal_connect (buffer, "released", G_CALLBACK (drop), &n_dropped);
  g_object_add_weak_pointer (G_OBJECT (buffer), (gpointer *) &buffer);
  gpu_memory_release (GPU_MEMORY (buffer));
  g_assert_cmpint (n_dropped, ==, 1);
  g_assert_null (buffer);
}

/* A slice keeps the memory of its released parent. */
static void
buffer_release_parent (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  g_autoptr (GpuBuffer) buffer = test_buffer_from (fixture, bytes);
  g_autoptr (GpuBuffer) slice = gpu_buffer_slice (buffer, 0, SIZE, &error);

  g_assert_no_error (error);
  gpu_memory_release (GPU_MEMORY (buffer));
  g_assert_false (gpu_memory_is_released (GPU_MEMORY (slice)));
  test_assert_content (slice, bytes);
  gpu_memory_release (GPU_MEMORY (slice));
  g_assert_null (gpu_buffer_read_bytes (slice, NULL, 0, SIZE, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_RELEASED);
}

/* --- blocking functions ------------------------------------------------------------ */

static void
buffer_read_write (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE, 0);
  guint8 model[SIZE] = { 0 };
  guint8 data[SIZE];

  for (guint i = 0; i < 200; i++)
    {
      gsize offset = (gsize) g_test_rand_int_range (0, SIZE);
      gsize size = (gsize) g_test_rand_int_range (1, (gint32) (SIZE - offset + 1));

      memset (data, (int) i, size);
      memset (model + offset, (int) i, size);
      test_assert_ok (gpu_buffer_write (buffer, i % 2 == 0 ? NULL : fixture->stream, offset, data,
                                        size, NULL, &error), error);
      memset (data, 0xee, sizeof data);
      test_assert_ok (gpu_buffer_read (buffer, NULL, 0, data, SIZE, NULL, &error), error);
      test_assert_mem (data, model, SIZE);
    }
}

/* A try function copies if the memory has no pending work. Otherwise it returns FALSE without an
 * error. */
static void
buffer_try (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE, 1);
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuStream) other = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuEvent) gate = NULL;
  guint8 data[SIZE] = { 0 };
  const guint64 address = (guint64) (gsize) data;
  const guint8 two = 2;

  test_assert_ok (gpu_buffer_try_read_address (buffer, stream, 0, address, SIZE, &error), error);
  test_assert_value (data, 1, SIZE);
  memset (data, 5, SIZE);
  test_assert_ok (gpu_buffer_try_write_address (buffer, stream, 0, address, SIZE, &error), error);
  g_assert_false (gpu_buffer_try_read_address (buffer, NULL, 0, 0, 1, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "0x0");
  g_assert_false (gpu_buffer_try_write_address (buffer, NULL, 1, address, SIZE, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_buffer_try_write_address");
  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    return;

  gate = test_gate (fixture, stream);
  test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (buffer), 0, SIZE, &two, 1, &error), error);
  memset (data, 0, SIZE);
  g_assert_false (gpu_buffer_try_read_address (buffer, stream, 0, address, SIZE, &error));
  g_assert_no_error (error);
  g_assert_false (gpu_buffer_try_read_address (buffer, other, 0, address, SIZE, &error));
  g_assert_no_error (error);
  g_assert_false (gpu_buffer_try_write_address (buffer, other, 0, address, SIZE, &error));
  g_assert_no_error (error);
  test_assert_value (data, 0, SIZE);
  test_open (gate);
  test_synchronize (stream);
  test_assert_ok (gpu_buffer_try_read_address (buffer, other, 0, address, SIZE, &error), error);
  test_assert_value (data, 2, SIZE);
  gpu_memory_release (GPU_MEMORY (buffer));
  g_assert_false (gpu_buffer_try_read_address (buffer, NULL, 0, address, SIZE, &error));
  test_assert_gpu_error (error, GPU_ERROR_RELEASED);
}

static void
set_done (gpointer user_data)
{
  *(gboolean *) user_data = TRUE;
}

/* A GBytes over memory of the program is written and read in place. The main context unrefs the
 * GBytes when the device has finished with the memory. */
static void
buffer_address_bytes (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE, 1);
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GBytes) seven = test_value_bytes (SIZE, 7);
  guint8 data[SIZE];
  gboolean written = FALSE;
  gboolean read = FALSE;
  GBytes *bytes;

  memset (data, 7, SIZE);
  bytes = gpu_bytes_new_for_address ((guint64) (gsize) data, SIZE, NULL, set_done, &written,
                                     &error);
  g_assert_no_error (error);
  g_assert_true (g_bytes_get_data (bytes, NULL) == data);
  test_assert_ok (gpu_stream_write (stream, GPU_MEMORY (buffer), 0, bytes, &error), error);
  g_bytes_unref (bytes);
  test_synchronize (stream);
  test_wait_until (&written);
  test_assert_content (buffer, seven);

  memset (data, 0, SIZE);
  bytes = gpu_bytes_new_for_address ((guint64) (gsize) data, SIZE, NULL, set_done, &read, &error);
  g_assert_no_error (error);
  g_assert_false (gpu_stream_read_into (stream, GPU_MEMORY (buffer), 1, bytes, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_stream_read_into");
  test_assert_ok (gpu_stream_read_into (stream, GPU_MEMORY (buffer), 0, bytes, &error), error);
  g_bytes_unref (bytes);
  test_synchronize (stream);
  test_wait_until (&read);
  test_assert_value (data, 7, SIZE);

  g_assert_null (gpu_bytes_new_for_address (0, 1, NULL, set_done, &read, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "0x0");
  g_assert_null (gpu_bytes_new_for_address (G_MAXUINT64, 2, NULL, set_done, &read, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "0xffffffffffffffff");
}

static void
buffer_read_part (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  g_autoptr (GpuBuffer) buffer = test_buffer_from (fixture, bytes);
  g_autoptr (GBytes) part = gpu_buffer_read_bytes (buffer, NULL, 17, 1001, NULL, &error);

  g_assert_no_error (error);
  g_assert_cmpuint (g_bytes_get_size (part), ==, 1001);
  test_assert_mem (g_bytes_get_data (part, NULL),
                   (const guint8 *) g_bytes_get_data (bytes, NULL) + 17, 1001);
}

static void
buffer_fill_copy (TestFixture *fixture)
{
  static const guint8 pattern[] = { 1, 2, 3 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) a = test_buffer_filled (fixture, SIZE, 9);
  g_autoptr (GpuBuffer) b = test_buffer_filled (fixture, SIZE, 8);
  g_autoptr (GBytes) content = NULL;
  const guint8 *data;

  test_assert_ok (gpu_buffer_fill (a, NULL, 30, 300, pattern, 3, NULL, &error), error);
  test_assert_ok (gpu_buffer_copy (b, NULL, 100, a, 27, 306, NULL, &error), error);
  content = test_content (b);
  data = g_bytes_get_data (content, NULL);
  test_assert_value (data, 8, 100);
  test_assert_value (data + 100, 9, 3);
  for (gsize i = 0; i < 300; i++)
    g_assert_cmpuint (data[103 + i], ==, pattern[i % 3]);
  test_assert_value (data + 403, 9, 3);
  test_assert_value (data + 406, 8, SIZE - 406);
}

/* --- asynchronous functions ----------------------------------------------------------- */

static void
buffer_async (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  g_autoptr (GpuBuffer) a = test_buffer_filled (fixture, SIZE, 9);
  g_autoptr (GpuBuffer) b = test_buffer_filled (fixture, SIZE, 9);
  g_autoptr (GBytes) content = NULL;
  g_autoptr (GAsyncResult) write = NULL;
  g_autoptr (GAsyncResult) fill = NULL;
  g_autoptr (GAsyncResult) copy = NULL;
  g_autoptr (GAsyncResult) read = NULL;
  guint8 pattern[4] = { 1, 2, 3, 4 };

  /* The hazards on the buffers order each call after the previous one */
  gpu_buffer_write_bytes_async (a, NULL, 0, bytes, NULL, NULL, NULL, NULL, test_take_result,
                                &write);
  gpu_buffer_copy_async (b, NULL, 0, a, 0, SIZE, NULL, test_take_result, &copy);
  test_assert_ok (gpu_stream_fill (fixture->stream, GPU_MEMORY (a), 0, SIZE, pattern, 4,
                                   &error), error);
  gpu_memory_wait_async (GPU_MEMORY (a), NULL, test_take_result, &fill);
  memset (pattern, 0, sizeof pattern);
  g_assert_true (write == NULL && copy == NULL && fill == NULL);
  test_assert_ok (gpu_buffer_write_bytes_finish (a, test_await (&write), &error), error);
  test_assert_ok (gpu_memory_wait_finish (GPU_MEMORY (a), test_await (&fill), &error), error);
  test_assert_ok (gpu_buffer_copy_finish (b, test_await (&copy), &error), error);
  test_assert_content (b, bytes);

  gpu_buffer_read_bytes_async (a, NULL, 4, 8, NULL, NULL, NULL, NULL, test_take_result, &read);
  content = gpu_buffer_read_bytes_finish (a, test_await (&read), &error);
  g_assert_no_error (error);
  g_assert_cmpmem (g_bytes_get_data (content, NULL), g_bytes_get_size (content),
                   "\1\2\3\4\1\2\3\4", 8);
}

static void
buffer_async_map (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE, 0x33);
  g_autoptr (GAsyncResult) result = NULL;
  g_autoptr (GpuMapping) mapping = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_MAP))
    return;
  gpu_buffer_map_async (buffer, NULL, GPU_MAP_FLAGS_READ, 16, 64, NULL, test_take_result, &result);
  mapping = gpu_buffer_map_finish (buffer, test_await (&result), &error);
  g_assert_no_error (error);
  g_assert_cmpuint (gpu_mapping_get_size (mapping), ==, 64);
  test_assert_value (gpu_mapping_get_data (mapping), 0x33, 64);
}

static void
buffer_async_errors (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE, 1);
  g_autoptr (GCancellable) cancellable = g_cancellable_new ();
  g_autoptr (GpuBuffer) closed = NULL;
  g_autoptr (GAsyncResult) too_far = NULL;
  g_autoptr (GAsyncResult) refused = NULL;
  g_autoptr (GAsyncResult) cancelled = NULL;

  gpu_buffer_read_bytes_async (buffer, NULL, SIZE, 1, NULL, NULL, NULL, NULL, test_take_result,
                               &too_far);
  g_assert_null (too_far);
  g_assert_null (gpu_buffer_read_bytes_finish (buffer, test_await (&too_far), &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "4096");

  /* The library allocates the bytes of the result before it rejects this read, and must then free
   * them */
  closed = gpu_buffer_new (fixture->context, GPU_MEMORY_FLAGS_HOST_NO_ACCESS, SIZE, &error);
  g_assert_no_error (error);
  gpu_buffer_read_bytes_async (closed, NULL, 0, SIZE, NULL, NULL, NULL, NULL, test_take_result,
                               &refused);
  g_assert_null (gpu_buffer_read_bytes_finish (closed, test_await (&refused), &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_buffer_read_bytes");

  g_cancellable_cancel (cancellable);
  gpu_buffer_read_bytes_async (buffer, NULL, 0, 1, cancellable, NULL, NULL, NULL, test_take_result,
                               &cancelled);
  g_assert_null (gpu_buffer_read_bytes_finish (buffer, test_await (&cancelled), &error));
  test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
  g_assert_null (gpu_buffer_read_bytes (buffer, NULL, 0, 1, cancellable, &error));
  test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
}

/* --- invalid values ---------------------------------------------------------------------- */

static void
buffer_without_init (void)
{
  g_autoptr (GpuBuffer) buffer = g_object_new (GPU_TYPE_BUFFER, NULL);
  g_autoptr (GError) error = NULL;
  guint8 byte;

  g_assert_cmpuint (gpu_memory_get_size (GPU_MEMORY (buffer)), ==, 0);
  g_assert_false (gpu_buffer_read (buffer, NULL, 0, &byte, 1, NULL, &error));
  g_assert_nonnull (error);
  g_assert_true (error->domain == GPU_ERROR);
}

/* Passes uninitialized objects to every function of streams and buffers. The objects have a size,
 * so that no call fails because of an invalid range. */
static void
buffer_sized_without_init (TestFixture *fixture)
{
  g_autoptr (GpuMemory) empty = g_object_new (GPU_TYPE_BUFFER, "context", fixture->context,
                                              "size", (guint64) SIZE, NULL);
  g_autoptr (GpuBuffer) whole = test_buffer_filled (fixture, SIZE, 1);
  GpuMemory *memory = GPU_MEMORY (whole);
  GpuStream *stream = fixture->stream;
  guint8 bytes[SIZE] = { 0 };
  g_autoptr (GError) error = NULL;

  g_assert_false (gpu_stream_copy (stream, empty, 0, memory, 0, SIZE, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "initialised");
  g_assert_false (gpu_stream_copy (stream, memory, 0, empty, 0, SIZE, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "initialised");
  g_assert_false (gpu_buffer_copy (whole, NULL, 0, GPU_BUFFER (empty), 0, SIZE, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "initialised");
  g_assert_false (gpu_stream_fill (stream, empty, 0, SIZE, bytes, 1, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "initialised");
  g_assert_false (gpu_stream_read (stream, empty, 0, bytes, SIZE, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "initialised");
  g_assert_null (gpu_stream_map (stream, empty, GPU_MAP_FLAGS_READ, 0, SIZE, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "initialised");
}

/* NVIDIA's OpenCL driver crashes if overlapping sub-buffers are freed oldest first, so the library
 * must free them in another order. */
static void
buffer_overlapping_slices (TestFixture *fixture)
{
  static const guint8 values[] = { 1, 2, 3 };
  gsize step = MAX (gpu_device_get_base_alignment (fixture->device), 64);
  g_autoptr (GpuBuffer) whole = test_buffer_filled (fixture, 4 * step, 0);
  g_autoptr (GBytes) content = NULL;
  const guint8 *data;

  for (guint round = 0; round < 20; round++)
    {
      GpuBuffer *slices[G_N_ELEMENTS (values)];

      for (guint i = 0; i < G_N_ELEMENTS (values); i++)
        {
          g_autoptr (GError) error = NULL;

          slices[i] = gpu_buffer_slice (whole, i * step, 2 * step, &error);
          g_assert_no_error (error);
          test_assert_ok (gpu_stream_fill (fixture->stream, GPU_MEMORY (slices[i]), 0, 2 * step,
                                           &values[i], 1, &error), error);
        }
      /* Free the slices from the oldest on, while the fills run */
      for (guint i = 0; i < G_N_ELEMENTS (values); i++)
        g_object_unref (slices[(i + round) % G_N_ELEMENTS (values)]);
    }

  content = test_content (whole);
  data = g_bytes_get_data (content, NULL);
  test_assert_value (data, 1, step);
  test_assert_value (data + step, 2, step);
  test_assert_value (data + 2 * step, 3, 2 * step);
}

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
  test_add ("new", buffer_new);
  test_add ("new-from-bytes", buffer_new_from_bytes);
  test_add ("for-host-bytes", buffer_for_host_bytes);
  test_add ("releases-host-bytes", buffer_releases_host_bytes);
  test_add ("releases-pending-host-bytes", buffer_releases_pending_host_bytes);
  test_add ("for-constant-bytes", buffer_for_constant_bytes);
  test_add ("new-pitched", buffer_new_pitched);
  test_add ("new-wrapped", buffer_new_wrapped);
  test_add ("wrapped-keeps-handle", buffer_wrapped_keeps_handle);
  test_add ("slice", buffer_slice);
  test_add ("slice-outlives", buffer_slice_outlives);
  test_add ("slice-flags", buffer_slice_flags);
  test_add ("for-memory", buffer_for_memory);
  test_add ("equality", buffer_equality);
  test_add ("equality/slices", buffer_equality_slices);
  test_add ("attributes", buffer_attributes);
  test_add ("flags", buffer_flags);
  test_add ("host-access", buffer_host_access);
  test_add ("release", buffer_release);
  test_add ("dropped-by-handler", buffer_dropped_by_handler);
  test_add ("release-parent", buffer_release_parent);
  test_add ("read-write", buffer_read_write);
  test_add ("try", buffer_try);
  test_add ("address-bytes", buffer_address_bytes);
  test_add ("read-part", buffer_read_part);
  test_add ("fill-copy", buffer_fill_copy);
  test_add ("async", buffer_async);
  test_add ("async-map", buffer_async_map);
  test_add ("overlapping-slices", buffer_overlapping_slices);
  test_add ("async-errors", buffer_async_errors);
  test_add_plain ("without-init", buffer_without_init);
  test_add ("sized-without-init", buffer_sized_without_init);
  return test_run ();
}
