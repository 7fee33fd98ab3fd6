/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Sizes above 4 GiB, and invalid values of every kind. Each invalid value causes a GError whose
 * message quotes the value. */
#include "config.h"

#include "test-util.h"

#define SIZE 4096
#define GIB ((gsize) 1 << 30)

/* --- above 4 GiB ------------------------------------------------------------------------ */

/* Creates a huge buffer. Only pages that the test writes use memory. */
static GpuBuffer *
huge_buffer (TestFixture *fixture, gsize size)
{
  g_autoptr (GError) error = NULL;
  GpuBuffer *buffer;

  if (!g_str_equal (gpu_device_get_backend (fixture->device), "host"))
    {
      g_test_skip ("only the host back end is known to leave untouched memory alone");
      return NULL;
    }
  if (gpu_device_get_max_allocation (fixture->device) < size)
    {
      g_test_skip_printf ("%s has not %" G_GSIZE_FORMAT " bytes in one piece",
                          gpu_device_get_id (fixture->device), size);
      return NULL;
    }
  buffer = gpu_buffer_new (fixture->context, GPU_MEMORY_FLAGS_NONE, size, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (gpu_memory_get_size (GPU_MEMORY (buffer)), ==, size);
  return buffer;
}

static void
assert_at (GpuBuffer *buffer, gsize offset, guint8 value)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = gpu_buffer_read_bytes (buffer, NULL, offset, SIZE, NULL, &error);

  g_assert_no_error (error);
  test_assert_value (g_bytes_get_data (bytes, NULL), value, SIZE);
}

/* Writes @value at @offset, and a different value at the position that results if @offset is
 * truncated to 32 bits. */
static void
mark (GpuBuffer *buffer, gsize offset, guint8 value)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_value_bytes (SIZE, value);
  g_autoptr (GBytes) other = test_value_bytes (SIZE, (guint8) ~value);

  test_assert_ok (gpu_buffer_write_bytes (buffer, NULL, offset & G_MAXUINT32, other, NULL,
                                          &error), error);
  test_assert_ok (gpu_buffer_write_bytes (buffer, NULL, offset, bytes, NULL, &error), error);
}

static void
limits_huge_linear (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  const gsize size = 5 * GIB + 3 * SIZE;
  const gsize a = 4 * GIB + 5 * SIZE;
  const gsize b = 5 * GIB + SIZE;
  g_autoptr (GpuBuffer) buffer = huge_buffer (fixture, size);
  guint8 pattern[2] = { 0x77, 0x77 };

  if (buffer == NULL)
    return;
  mark (buffer, a, 0x21);
  assert_at (buffer, a, 0x21);
  assert_at (buffer, a & G_MAXUINT32, (guint8) ~0x21);

  mark (buffer, b, 0);
  test_assert_ok (gpu_buffer_copy (buffer, NULL, b, buffer, a, SIZE, NULL, &error), error);
  assert_at (buffer, b, 0x21);
  assert_at (buffer, b & G_MAXUINT32, 0xff);

  test_assert_ok (gpu_buffer_fill (buffer, NULL, a, SIZE, pattern, 2, NULL, &error), error);
  assert_at (buffer, a, 0x77);
  assert_at (buffer, a & G_MAXUINT32, (guint8) ~0x21);
  g_assert_false (gpu_buffer_write (buffer, NULL, size - 1, pattern, 2, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "5368721407", "5368721408");
}

static void
limits_huge_slice (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  const gsize a = 4 * GIB + 5 * SIZE;
  g_autoptr (GpuBuffer) buffer = huge_buffer (fixture, 5 * GIB);
  g_autoptr (GpuBuffer) slice = NULL;
  g_autoptr (GpuBuffer) long_slice = NULL;
  g_autoptr (GpuMapping) mapping = NULL;

  if (buffer == NULL)
    return;
  mark (buffer, a, 0x42);
  slice = gpu_buffer_slice (buffer, a, SIZE, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (gpu_buffer_get_offset (slice), ==, a);
  assert_at (slice, 0, 0x42);
  long_slice = gpu_buffer_slice (buffer, SIZE, 4 * GIB + 6 * SIZE, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (gpu_memory_get_size (GPU_MEMORY (long_slice)), ==, 4 * GIB + 6 * SIZE);
  assert_at (long_slice, a - SIZE, 0x42);

  mapping = gpu_buffer_map (buffer, NULL, GPU_MAP_FLAGS_READ, a, SIZE, NULL, &error);
  g_assert_no_error (error);
  test_assert_value (gpu_mapping_get_data (mapping), 0x42, SIZE);
}

static void
limits_huge_region (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = huge_buffer (fixture, 6 * GIB);
  g_autoptr (GBytes) bytes = test_value_bytes (2 * SIZE, 0x13);
  g_autoptr (GBytes) back = NULL;
  const gsize pitch = GIB / 2;
  GpuExtent extent = { SIZE, 2, 1 };
  GpuLayout layout = { 0, 9, 0, GIB / 2, 0 };
  GpuLayout by_slice = { 0, 0, 1, SIZE, 4 * GIB + pitch };
  GpuExtent row = { SIZE, 1, 1 };

  if (buffer == NULL)
    return;
  mark (buffer, 9 * pitch, 1);
  mark (buffer, 10 * pitch, 2);
  test_assert_ok (gpu_stream_write_region (fixture->stream, GPU_MEMORY (buffer), &layout, bytes,
                                           NULL, &extent, &error), error);
  back = gpu_stream_read_region (fixture->stream, GPU_MEMORY (buffer), &layout, &extent, &error);
  g_assert_no_error (error);
  test_synchronize (fixture->stream);
  test_assert_bytes (back, bytes);
  assert_at (buffer, 9 * pitch, 0x13);
  assert_at (buffer, 10 * pitch, 0x13);
  assert_at (buffer, pitch, (guint8) ~1);
  assert_at (buffer, 2 * pitch, (guint8) ~2);

  g_clear_pointer (&back, g_bytes_unref);
  back = gpu_stream_read_region (fixture->stream, GPU_MEMORY (buffer), &by_slice, &row, &error);
  g_assert_no_error (error);
  test_synchronize (fixture->stream);
  test_assert_value (g_bytes_get_data (back, NULL), 0x13, SIZE);
}

/* --- values ------------------------------------------------------------------------------ */

typedef struct
{
  gsize       offset;
  gsize       size;
  const char *words[2];
} Range;

static const Range bad_ranges[] = {
  { 0, SIZE + 1, { "4097", "4096" } },
  { SIZE, 1, { "4096", "1" } },
  { SIZE - 9, 10, { "4087", "10" } },
  { SIZE + 1, 1, { "4097", "4096" } },
  { 1, G_MAXSIZE, { "18446744073709551615", "4096" } },
  { G_MAXSIZE, 1, { "18446744073709551615", "4096" } },
  { G_MAXSIZE, G_MAXSIZE, { "18446744073709551615", "4096" } },
  { G_MAXSIZE - 9, 10, { "18446744073709551606", "4096" } },
  { (gsize) 1 << 63, (gsize) 1 << 63, { "9223372036854775808", "4096" } },
  { (gsize) 1 << 32, 1, { "4294967296", "4096" } },
};

#define assert_range_error(error, range) \
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, (range)->words[0], (range)->words[1])

static void
limits_ranges (TestFixture *fixture)
{
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE, 1);
  g_autoptr (GpuBuffer) other = test_buffer_filled (fixture, SIZE, 1);
  g_autoptr (GBytes) expected = test_value_bytes (SIZE, 1);
  GpuMemory *memory = GPU_MEMORY (buffer);
  GpuMemory *source = GPU_MEMORY (other);
  guint8 data[16] = { 0 };

  for (guint i = 0; i < G_N_ELEMENTS (bad_ranges); i++)
    {
      const Range *range = &bad_ranges[i];
      GpuStream *stream = fixture->stream;
      g_autoptr (GError) error = NULL;

      g_assert_false (gpu_buffer_read (buffer, NULL, range->offset, data, range->size, NULL,
                                       &error));
      assert_range_error (error, range);
      g_assert_false (gpu_buffer_write (buffer, NULL, range->offset, data, range->size, NULL,
                                        &error));
      assert_range_error (error, range);
      g_assert_null (gpu_buffer_read_bytes (buffer, NULL, range->offset, range->size, NULL,
                                            &error));
      assert_range_error (error, range);
      g_assert_false (gpu_stream_fill (stream, memory, range->offset, range->size, data, 1,
                                       &error));
      assert_range_error (error, range);
      g_assert_false (gpu_stream_copy (stream, memory, range->offset, source, 0, range->size,
                                       &error));
      assert_range_error (error, range);
      g_assert_false (gpu_stream_copy (stream, memory, 0, source, range->offset, range->size,
                                       &error));
      assert_range_error (error, range);
      g_assert_false (gpu_stream_read (stream, memory, range->offset, data, range->size, &error));
      assert_range_error (error, range);
      g_assert_null (gpu_stream_read_bytes (stream, memory, range->offset, range->size, &error));
      assert_range_error (error, range);
      g_assert_null (gpu_stream_map (stream, memory, GPU_MAP_FLAGS_READ, range->offset,
                                     range->size, &error));
      assert_range_error (error, range);
      g_assert_null (gpu_buffer_slice (buffer, range->offset, range->size, &error));
      assert_range_error (error, range);
    }
  test_assert_content (buffer, expected);
}

/* Operations of size 0 do nothing; memory of size 0 cannot be created. */
static void
limits_empty (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE, 1);
  g_autoptr (GpuBuffer) other = test_buffer_filled (fixture, SIZE, 2);
  g_autoptr (GBytes) expected = test_value_bytes (SIZE, 1);
  g_autoptr (GBytes) none = g_bytes_new (NULL, 0);
  g_autoptr (GBytes) read = NULL;
  GpuMemory *memory = GPU_MEMORY (buffer);
  guint8 zero = 0;

  test_assert_ok (gpu_buffer_read (buffer, NULL, SIZE, &zero, 0, NULL, &error), error);
  test_assert_ok (gpu_buffer_write (buffer, NULL, 5, &zero, 0, NULL, &error), error);
  test_assert_ok (gpu_stream_copy (fixture->stream, memory, 0, GPU_MEMORY (other), 0, 0, &error),
                  error);
  test_assert_ok (gpu_stream_copy (fixture->stream, memory, 7, memory, 7, 0, &error), error);
  test_assert_ok (gpu_stream_fill (fixture->stream, memory, 0, 0, &zero, 1, &error), error);
  test_assert_ok (gpu_stream_write (fixture->stream, memory, SIZE, none, &error), error);
  for (guint i = 0; i < 2; i++)
    {
      GpuExtent extent = { i != 0, i != 1, 1 };

      test_assert_ok (gpu_stream_copy_region (fixture->stream, memory, NULL, GPU_MEMORY (other),
                                              NULL, &extent, &error), error);
      test_assert_ok (gpu_stream_fill_region (fixture->stream, memory, NULL, &extent, &zero, 1,
                                              &error), error);
    }
  read = gpu_buffer_read_bytes (buffer, NULL, SIZE, 0, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (g_bytes_get_size (read), ==, 0);
  test_assert_content (buffer, expected);

  g_assert_false (gpu_buffer_read (buffer, NULL, SIZE + 1, &zero, 0, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "4097", "4096");
  g_assert_false (gpu_stream_fill (fixture->stream, memory, SIZE + 1, 0, &zero, 1, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "4097", "4096");
  g_assert_null (gpu_buffer_slice (buffer, 0, 0, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "0");
  g_assert_null (gpu_buffer_map (buffer, NULL, GPU_MAP_FLAGS_READ, 0, 0, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "0");
  g_assert_null (gpu_buffer_new_from_bytes (fixture->context, GPU_MEMORY_FLAGS_NONE, none, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "0");
}

static void
limits_write (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE, 1);
  g_autoptr (GBytes) bytes = test_value_bytes (10, 0);
  GpuMemory *memory = GPU_MEMORY (buffer);

  g_assert_false (gpu_stream_write (fixture->stream, memory, SIZE - 9, bytes, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "4087", "10", "4096");
  g_assert_false (gpu_stream_write (fixture->stream, memory, G_MAXSIZE - 5, bytes, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "18446744073709551610");
}

static void
limits_new (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  gsize most = gpu_device_get_max_allocation (fixture->device);

  g_assert_null (gpu_buffer_new (fixture->context, GPU_MEMORY_FLAGS_NONE, 0, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "0");
  g_assert_null (gpu_buffer_new (fixture->context, GPU_MEMORY_FLAGS_NONE, G_MAXSIZE, &error));
  test_assert_gpu_error (error, GPU_ERROR_OUT_OF_DEVICE_MEMORY, "18446744073709551615");
  if (most < G_MAXSIZE)
    {
      g_autofree char *text = g_strdup_printf ("%" G_GSIZE_FORMAT, most);

      g_assert_null (gpu_buffer_new (fixture->context, GPU_MEMORY_FLAGS_NONE, most + 1, &error));
      test_assert_gpu_error (error, GPU_ERROR_OUT_OF_DEVICE_MEMORY, text);
    }
  g_assert_null (gpu_buffer_new_pitched (fixture->context, GPU_MEMORY_FLAGS_NONE, 0, 5, 4, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "0");
  g_assert_null (gpu_buffer_new_pitched (fixture->context, GPU_MEMORY_FLAGS_NONE, 5, 0, 4, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "0");
  g_assert_null (gpu_buffer_new_pitched (fixture->context, GPU_MEMORY_FLAGS_NONE, (gsize) 1 << 40,
                                         (gsize) 1 << 40, 4, &error));
  g_assert_nonnull (error);
  g_assert_true (error->domain == GPU_ERROR);
  g_clear_error (&error);
  g_assert_null (gpu_buffer_new_wrapped (fixture->context, 0, SIZE, GPU_WRAP_MODE_BORROW, NULL,
                                         &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "0");
}

static void
limits_slice_alignment (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  gsize alignment = gpu_device_get_base_alignment (fixture->device);
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, MAX (alignment, 64) * 4);
  g_autofree char *text = g_strdup_printf ("%" G_GSIZE_FORMAT, alignment);
  g_autoptr (GpuBuffer) slice = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_SUB_BUFFERS))
    return;
  if (alignment <= 1)
    {
      g_test_skip ("slices may begin at any offset");
      return;
    }
  slice = gpu_buffer_slice (buffer, alignment + 1, 1, &error);
  g_assert_null (slice);
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, text);
}

static void
limits_overlap (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE, 1);
  GpuMemory *memory = GPU_MEMORY (buffer);
  GpuExtent extent = { 64, 4, 1 };
  GpuLayout a = { 0, 0, 0, 128, 0 };
  GpuLayout b = { 32, 2, 0, 128, 0 };
  GpuLayout beside = { 64, 0, 0, 128, 0 };

  g_assert_false (gpu_stream_copy (fixture->stream, memory, 100, memory, 0, 101, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "overlap", "100", "101");
  g_assert_false (gpu_stream_copy (fixture->stream, memory, 0, memory, 1, 2, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "overlap");
  test_assert_ok (gpu_stream_copy (fixture->stream, memory, 1, memory, 1, 100, &error), error);
  test_assert_ok (gpu_stream_copy (fixture->stream, memory, 100, memory, 0, 100, &error), error);
  g_assert_false (gpu_stream_copy_region (fixture->stream, memory, &b, memory, &a, &extent,
                                          &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "overlap");
  test_assert_ok (gpu_stream_copy_region (fixture->stream, memory, &beside, memory, &a, &extent,
                                          &error), error);
  test_synchronize (fixture->stream);
}

typedef struct
{
  GpuExtent   extent;
  GpuLayout   layout;
  const char *word;
} Region;

static const Region bad_regions[] = {
  { { 4097, 1, 1 }, { 0 }, "4097" },
  { { 64, 65, 1 }, { 0 }, "4096" },
  { { 64, 2, 1 }, { .row_pitch = 63 }, "63" },
  { { 64, 2, 2 }, { .row_pitch = 64, .slice_pitch = 127 }, "127" },
  { { 64, 1, 1 }, { .x = 4033 }, "4033" },
  { { 64, 1, 1 }, { .y = 64, .row_pitch = 64 }, "4096" },
  { { 64, 1, 1 }, { .z = G_MAXSIZE, .row_pitch = 64, .slice_pitch = 64 }, "18446744073709551615" },
  { { 64, 1, 1 }, { .x = G_MAXSIZE }, "18446744073709551615" },
  { { 64, 3, 1 }, { .row_pitch = G_MAXSIZE / 2 }, "9223372036854775807" },
  { { G_MAXSIZE, G_MAXSIZE, G_MAXSIZE }, { 0 }, "18446744073709551615" },
  { { 2, (gsize) 1 << 63, 1 }, { 0 }, "9223372036854775808" },
};

static void
limits_regions (TestFixture *fixture)
{
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE, 1);
  g_autoptr (GpuBuffer) other = test_buffer_filled (fixture, SIZE, 1);
  g_autoptr (GBytes) bytes = test_value_bytes (SIZE, 1);
  GpuMemory *memory = GPU_MEMORY (buffer);
  GpuStream *stream = fixture->stream;

  for (guint i = 0; i < G_N_ELEMENTS (bad_regions); i++)
    {
      const Region *bad = &bad_regions[i];
      g_autoptr (GError) error = NULL;

      g_assert_false (gpu_stream_copy_region (stream, memory, &bad->layout, GPU_MEMORY (other),
                                              NULL, &bad->extent, &error));
      test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, bad->word);
      g_assert_false (gpu_stream_write_region (stream, memory, &bad->layout, bytes, NULL,
                                               &bad->extent, &error));
      test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, bad->word);
      g_assert_false (gpu_stream_write_region (stream, memory, NULL, bytes, &bad->layout,
                                               &bad->extent, &error));
      test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, bad->word);
      g_assert_null (gpu_stream_read_region (stream, memory, &bad->layout, &bad->extent, &error));
      test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, bad->word);
      g_assert_false (gpu_stream_fill_region (stream, memory, &bad->layout, &bad->extent,
                                              (const guint8 *) "x", 1, &error));
      test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, bad->word);
    }
}

/* Marks the bytes of the region in a map of SIZE bytes. Returns TRUE if a byte was marked
 * already. */
static gboolean
mark_region (guint8 *map, const GpuLayout *layout, const GpuExtent *extent)
{
  gboolean found = FALSE;

  for (gsize z = 0; z < extent->depth; z++)
    for (gsize y = 0; y < extent->height; y++)
      for (gsize x = 0; x < extent->width; x++)
        {
          guint8 *byte = &map[(layout->z + z) * layout->slice_pitch +
                              (layout->y + y) * layout->row_pitch + layout->x + x];

          found |= *byte != 0;
          *byte = 1;
        }
  return found;
}

/* A copy between two regions of one memory, with equal pitches, is refused if and only if the
 * regions share a byte, and are not the same bytes. */
static void
limits_overlap_regions (TestFixture *fixture)
{
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE, 1);
  GpuMemory *memory = GPU_MEMORY (buffer);
  guint n_overlaps = 0;

  for (guint i = 0; i < 2000; i++)
    {
      g_autoptr (GError) error = NULL;
      guint8 map[SIZE] = { 0 };
      gsize row_pitch = (gsize) g_test_rand_int_range (4, 12);
      gsize n_rows = (gsize) g_test_rand_int_range (2, 8);
      GpuExtent extent = { (gsize) g_test_rand_int_range (1, (gint32) row_pitch + 1),
                           (gsize) g_test_rand_int_range (1, (gint32) n_rows + 1),
                           (gsize) g_test_rand_int_range (1, 4) };
      GpuLayout layouts[2];

      for (guint j = 0; j < 2; j++)
        {
          layouts[j].x = (gsize) g_test_rand_int_range (0, (gint32) (row_pitch - extent.width) + 1);
          layouts[j].y = (gsize) g_test_rand_int_range (0, (gint32) (n_rows - extent.height) + 1);
          layouts[j].z = (gsize) g_test_rand_int_range (0, 4);
          layouts[j].row_pitch = row_pitch;
          layouts[j].slice_pitch = row_pitch * n_rows;
        }
      mark_region (map, &layouts[0], &extent);
      if (mark_region (map, &layouts[1], &extent)
          && (layouts[0].x != layouts[1].x || layouts[0].y != layouts[1].y
              || layouts[0].z != layouts[1].z))
        {
          n_overlaps++;
          g_assert_false (gpu_stream_copy_region (fixture->stream, memory, &layouts[0], memory,
                                                  &layouts[1], &extent, &error));
          test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "overlap");
        }
      else
        test_assert_ok (gpu_stream_copy_region (fixture->stream, memory, &layouts[0], memory,
                                                &layouts[1], &extent, &error), error);
    }
  g_assert_cmpuint (n_overlaps, >, 100);
  test_synchronize (fixture->stream);
}

static void
limits_patterns (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE, 1);
  GpuMemory *memory = GPU_MEMORY (buffer);
  GpuExtent extent = { 10, 2, 1 };
  guint8 pattern[8] = { 0 };

  g_assert_false (gpu_stream_fill (fixture->stream, memory, 0, 16, pattern, 0, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "the pattern is empty");
  g_assert_false (gpu_stream_fill (fixture->stream, memory, 0, 10, pattern, 4, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "10", "4");
  g_assert_false (gpu_stream_fill_region (fixture->stream, memory, NULL, &extent, pattern, 4,
                                          &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "10", "4");
}

static void
limits_flags (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE, 1);
  GpuMemory *memory = GPU_MEMORY (buffer);

  g_assert_null (gpu_stream_new (fixture->context, 1 << 20, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "100000");
  g_assert_null (gpu_stream_record (fixture->stream, 1 << 20, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "100000");
  g_assert_null (gpu_stream_map (fixture->stream, memory, 1 << 20, 0, SIZE, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "100000");
  g_assert_null (gpu_stream_map (fixture->stream, memory,
                                 GPU_MAP_FLAGS_READ | GPU_MAP_FLAGS_WRITE_INVALIDATE, 0, SIZE,
                                 &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT);
  g_assert_false (gpu_stream_migrate (fixture->stream, &memory, 1, 1 << 20, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "100000");
  g_assert_false (gpu_stream_migrate (fixture->stream, &memory, 0, 0, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "0");
}

/* Copies between contexts are allowed: see test-optional-features.c */
static void
limits_foreign_context (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuContext) other = gpu_context_new (fixture->device, GPU_CONTEXT_FLAGS_NONE, &error);
  g_autoptr (GpuBuffer) foreign = gpu_buffer_new (other, GPU_MEMORY_FLAGS_NONE, SIZE, &error);
  GpuMemory *memory = GPU_MEMORY (foreign);
  guint8 byte = 0;

  g_assert_no_error (error);
  g_assert_false (gpu_stream_fill (fixture->stream, memory, 0, SIZE, &byte, 1, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "context");
  g_assert_false (gpu_buffer_read (foreign, fixture->stream, 0, &byte, 1, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "context");
  g_assert_null (gpu_buffer_map (foreign, fixture->stream, GPU_MAP_FLAGS_READ, 0, 1, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "context");
  g_assert_false (gpu_stream_migrate (fixture->stream, &memory, 1, 0, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "context");
}

/* Messages that say what is wrong with the value. */
static void
limits_messages (TestFixture *fixture)
{
  const GpuImageFormat format = { GPU_CHANNEL_ORDER_R, GPU_CHANNEL_TYPE_UINT8 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE, 1);
  g_autoptr (GBytes) bytes = g_bytes_new_static ("abcd", 4);
  g_autoptr (GpuHostMemory) constant = NULL;
  g_autoptr (GpuImage) image = NULL;
  GpuMemory *memory = GPU_MEMORY (buffer);

  g_assert_null (gpu_buffer_map (buffer, NULL, (GpuMapFlags) 512, 0, 1, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "unknown map flags 0x200");
  g_assert_null (gpu_buffer_new (fixture->context, (GpuMemoryFlags) (1 << 20), SIZE, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "unknown memory flags 0x100000");
  g_assert_false (gpu_stream_migrate (fixture->stream, &memory, 0, 0, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "at least 1");

  constant = gpu_host_memory_new_registered (fixture->context, GPU_HOST_MEMORY_FLAGS_READ_ONLY,
                                             bytes, &error);
  g_assert_no_error (error);
  g_assert_false (gpu_stream_fill (fixture->stream, GPU_MEMORY (constant), 0, 4,
                                   (const guint8 *) "", 1, &error));
  g_assert_null (strstr (error->message, "kernel"));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "the memory is read only");

  if (!test_has (fixture, GPU_CAPABILITIES_IMAGES))
    return;

  image = gpu_image_new (fixture->context, 0, &format, GPU_IMAGE_TYPE_IMAGE_2D,
                         &(GpuExtent) { 4, 4, 1 }, &error);
  g_assert_no_error (error);
  g_assert_null (gpu_image_map (image, NULL, GPU_MAP_FLAGS_READ, NULL,
                                &(GpuExtent) { 0, 1, 1 }, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "0 x 1 x 1 texels");
  g_assert_null (gpu_sampler_new (fixture->context, TRUE, GPU_ADDRESS_MODE_REPEAT,
                                  (GpuFilterMode) 9, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "filter mode 9");
}

static void
dispose_and_read (gpointer object)
{
  g_autofree GParamSpec **pspecs = NULL;
  guint n;

  g_object_run_dispose (object);
  pspecs = g_object_class_list_properties (G_OBJECT_GET_CLASS (object), &n);
  for (guint i = 0; i < n; i++)
    {
      g_auto (GValue) value = G_VALUE_INIT;

      if (pspecs[i]->flags & G_PARAM_READABLE)
        g_object_get_property (object, pspecs[i]->name, &value);
    }
}

/* Functions and properties of objects after g_object_run_dispose(), which a binding may call. */
static void
limits_disposed (TestFixture *fixture)
{
  const GpuImageFormat format = { GPU_CHANNEL_ORDER_R, GPU_CHANNEL_TYPE_UINT8 };
  const gssize shape[] = { SIZE };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = gpu_stream_new (fixture->context, 0, &error);
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE, 1);
  g_autoptr (GpuArray) array = gpu_array_new_for_memory (GPU_MEMORY (buffer), 0, GPU_DTYPE_UINT8,
                                                         shape, 1, NULL, 0, &error);
  g_autoptr (GpuArray) slice = NULL;
  g_autoptr (GpuHostAllocator) allocator = gpu_host_allocator_new (fixture->context, 0, &error);
  g_autoptr (GpuEvent) event = gpu_stream_record (stream, 0, &error);
  g_autoptr (GpuHostMemory) host = NULL;
  g_autoptr (GpuImage) image = NULL;
  g_autoptr (GpuImage) view = NULL;
  g_autoptr (GBytes) bytes = NULL;

  dispose_and_read (stream);
  dispose_and_read (buffer);
  dispose_and_read (array);
  dispose_and_read (allocator);
  dispose_and_read (event);

  g_assert_true (gpu_stream_get_context (stream) == fixture->context);
  bytes = gpu_buffer_read_bytes (buffer, NULL, 0, SIZE, NULL, &error);
  g_assert_no_error (error);
  test_assert_value (g_bytes_get_data (bytes, NULL), 1, SIZE);
  slice = gpu_array_slice (array, 0, 1, 3, 1, &error);
  g_assert_no_error (error);
  g_assert_true (gpu_array_get_context (slice) == fixture->context);
  host = gpu_host_allocator_alloc (allocator, SIZE, &error);
  g_assert_no_error (error);
  g_assert_true (gpu_memory_get_context (GPU_MEMORY (host)) == fixture->context);
  test_assert_ok (gpu_event_wait (event, NULL, &error), error);

  if (!test_has (fixture, GPU_CAPABILITIES_IMAGES))
    return;

  image = gpu_image_new_mipmapped (fixture->context, 0, &format, GPU_IMAGE_TYPE_IMAGE_2D,
                                   &(GpuExtent) { 4, 4, 1 }, 2, &error);
  if (image == NULL)
    {
      test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED);
      return;
    }
  view = gpu_image_get_level (image, 1, &error);
  g_assert_no_error (error);
  dispose_and_read (view);
  g_assert_true (gpu_image_get_parent (view) == image);
}

static void
expect_check (const char *function, const char *check)
{
  g_autofree char *pattern = g_strdup_printf ("*%s: assertion '%s' failed*", function, check);

  g_test_expect_message ("gpumem", G_LOG_LEVEL_CRITICAL, pattern);
}

/* Messages about objects of another type quote the check of the public header. */
static void
limits_types (TestFixture *fixture)
{
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, 16);
  GpuMemory *memory = GPU_MEMORY (buffer);
  gpointer wrong = fixture->context;
  const GpuExtent one = { 1, 1, 1 };
  guint8 data[16] = { 0 };

  expect_check ("gpu_buffer_read", "GPU_IS_BUFFER (buffer)");
  g_assert_false (gpu_buffer_read (wrong, NULL, 0, data, 16, NULL, NULL));
  expect_check ("gpu_buffer_write", "GPU_IS_BUFFER (buffer)");
  g_assert_false (gpu_buffer_write (NULL, NULL, 0, data, 16, NULL, NULL));
  expect_check ("gpu_stream_copy", "GPU_IS_STREAM (stream)");
  g_assert_false (gpu_stream_copy (wrong, memory, 0, memory, 0, 16, NULL));
  expect_check ("gpu_stream_copy", "GPU_IS_MEMORY (source)");
  g_assert_false (gpu_stream_copy (fixture->stream, memory, 0, NULL, 0, 16, NULL));
  expect_check ("gpu_stream_fill", "GPU_IS_MEMORY (destination)");
  g_assert_false (gpu_stream_fill (fixture->stream, wrong, 0, 16, data, 1, NULL));
  expect_check ("gpu_stream_launch", "GPU_IS_KERNEL (kernel)");
  g_assert_false (gpu_stream_launch (fixture->stream, wrong, &one, NULL, NULL));
  expect_check ("gpu_memory_pool_alloc_block", "GPU_IS_MEMORY_POOL (pool)");
  g_assert_null (gpu_memory_pool_alloc_block (wrong, 16, NULL, NULL));
  expect_check ("gpu_memory_get_size", "GPU_IS_MEMORY (memory)");
  g_assert_cmpuint (gpu_memory_get_size (wrong), ==, 0);
  g_test_assert_expected_messages ();
}

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
  test_add ("huge-linear", limits_huge_linear);
  test_add ("huge-slice", limits_huge_slice);
  test_add ("huge-region", limits_huge_region);
  test_add ("ranges", limits_ranges);
  test_add ("empty", limits_empty);
  test_add ("write", limits_write);
  test_add ("new", limits_new);
  test_add ("slice-alignment", limits_slice_alignment);
  test_add ("overlap", limits_overlap);
  test_add ("overlap-regions", limits_overlap_regions);
  test_add ("regions", limits_regions);
  test_add ("patterns", limits_patterns);
  test_add ("flags", limits_flags);
  test_add ("foreign-context", limits_foreign_context);
  test_add ("messages", limits_messages);
  test_add ("disposed", limits_disposed);
  test_add ("types", limits_types);
  return test_run ();
}
