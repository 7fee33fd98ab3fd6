/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Mappings: the bytes that the host sees, lifetimes, and the operations that a mapping excludes. */
#include "config.h"

#include "test-util.h"

#define SIZE 8192

static GpuMapping *
map (GpuBuffer *buffer, GpuMapFlags flags, gsize offset, gsize size)
{
  g_autoptr (GError) error = NULL;
  GpuMapping *mapping = gpu_buffer_map (buffer, NULL, flags, offset, size, NULL, &error);

  g_assert_no_error (error);
  g_assert_true (GPU_IS_MAPPING (mapping));
  return mapping;
}

static void
unmap (GpuMapping *mapping)
{
  g_autoptr (GError) error = NULL;

  test_assert_ok (gpu_mapping_unmap (mapping, &error), error);
}

static void
count (int *n)
{
  (*n)++;
}

static void
mapping_read (TestFixture *fixture)
{
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuMapping) mapping = NULL;
  int n_notified = 0;

  if (!test_has (fixture, GPU_CAPABILITIES_MAP))
    return;
  buffer = test_buffer_from (fixture, bytes);
  mapping = map (buffer, GPU_MAP_FLAGS_READ, 128, 1000);
  g_assert_true (test_get_object (mapping, "memory") == buffer);
  g_assert_cmpint (test_get_number (mapping, "flags"), ==, GPU_MAP_FLAGS_READ);
  g_assert_cmpuint (gpu_mapping_get_size (mapping), ==, 1000);
  g_assert_true (test_get_number (mapping, "mapped"));
  g_assert_cmpuint (gpu_mapping_get_address (mapping), ==,
                    (guint64) (gsize) gpu_mapping_get_data (mapping));
  test_assert_mem (gpu_mapping_get_data (mapping),
                   (const guint8 *) g_bytes_get_data (bytes, NULL) + 128, 1000);
  g_signal_connect_swapped (mapping, "notify::mapped", G_CALLBACK (count), &n_notified);
  unmap (mapping);
  g_assert_cmpint (n_notified, ==, 1);
  g_assert_false (test_get_number (mapping, "mapped"));
  unmap (mapping);
  g_assert_cmpint (n_notified, ==, 1);
  g_assert_null (gpu_mapping_get_data (mapping));
  g_assert_cmpuint (gpu_mapping_get_address (mapping), ==, 0);
}

static void
mapping_write (TestFixture *fixture)
{
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GBytes) content = NULL;
  const guint8 *data;
  GpuMapping *mapping;

  if (!test_has (fixture, GPU_CAPABILITIES_MAP))
    return;
  buffer = test_buffer_filled (fixture, SIZE, 1);
  mapping = map (buffer, GPU_MAP_FLAGS_WRITE, 1000, 100);
  test_assert_value (gpu_mapping_get_data (mapping), 1, 100);
  memset ((guint8 *) gpu_mapping_get_data (mapping) + 10, 2, 20);
  unmap (mapping);
  g_object_unref (mapping);
  mapping = map (buffer, GPU_MAP_FLAGS_WRITE_INVALIDATE, 2000, 100);
  memset (gpu_mapping_get_data (mapping), 3, 100);
  /* Dropping the last reference unmaps */
  g_object_unref (mapping);
  mapping = map (buffer, GPU_MAP_FLAGS_NONE, 3000, 100);
  test_assert_value (gpu_mapping_get_data (mapping), 1, 100);
  memset (gpu_mapping_get_data (mapping), 4, 100);
  g_object_unref (mapping);

  content = test_content (buffer);
  data = g_bytes_get_data (content, NULL);
  test_assert_value (data, 1, 1010);
  test_assert_value (data + 1010, 2, 20);
  test_assert_value (data + 1030, 1, 970);
  test_assert_value (data + 2000, 3, 100);
  test_assert_value (data + 2100, 1, 900);
  test_assert_value (data + 3000, 4, 100);
  test_assert_value (data + 3100, 1, SIZE - 3100);
}

/* Copies bytes out of a mapping and into a mapping. The copies hold no reference on the mapping. */
static void
mapping_copies (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) two = test_value_bytes (20, 2);
  g_autoptr (GBytes) none = g_bytes_new (NULL, 0);
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuMapping) mapping = NULL;
  g_autoptr (GpuMapping) reading = NULL;
  g_autoptr (GBytes) before = NULL;
  g_autoptr (GBytes) after = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_MAP))
    return;
  buffer = test_buffer_filled (fixture, SIZE, 1);
  mapping = map (buffer, GPU_MAP_FLAGS_NONE, 1000, 100);
  before = gpu_mapping_read_bytes (mapping, 90, 10, &error);
  g_assert_no_error (error);
  test_assert_ok (gpu_mapping_write_bytes (mapping, 80, two, &error), error);
  test_assert_ok (gpu_mapping_write_bytes (mapping, 100, none, &error), error);
  after = gpu_mapping_read_bytes (mapping, 80, 20, &error);
  g_assert_no_error (error);
  test_assert_bytes (after, two);
  g_assert_false (gpu_mapping_write_bytes (mapping, 81, two, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "81", "20", "100");
  g_assert_null (gpu_mapping_read_bytes (mapping, G_MAXSIZE, 2, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "100");
  unmap (mapping);
  test_assert_value (g_bytes_get_data (before, NULL), 1, 10);
  g_assert_null (gpu_mapping_read_bytes (mapping, 0, 1, &error));
  test_assert_gpu_error (error, GPU_ERROR_RELEASED);
  g_assert_false (gpu_mapping_write_bytes (mapping, 0, none, &error));
  test_assert_gpu_error (error, GPU_ERROR_RELEASED);

  reading = map (buffer, GPU_MAP_FLAGS_READ, 1080, 20);
  g_assert_false (gpu_mapping_write_bytes (reading, 0, two, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "reading");
  g_clear_pointer (&after, g_bytes_unref);
  after = gpu_mapping_read_bytes (reading, 0, 20, &error);
  g_assert_no_error (error);
  test_assert_bytes (after, two);
}

/* The bytes keep the mapping alive, the mapping keeps the buffer, the buffer keeps the context. */
static void
mapping_bytes (TestFixture *fixture)
{
  g_autoptr (GBytes) expected = test_random_bytes (SIZE);
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuMapping) mapping = NULL;
  g_autoptr (GBytes) bytes = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_MAP))
    return;
  buffer = test_buffer_from (fixture, expected);
  mapping = map (buffer, GPU_MAP_FLAGS_READ, 0, SIZE);
  bytes = gpu_mapping_get_bytes (mapping);
  g_assert_true (g_bytes_get_data (bytes, NULL) == gpu_mapping_get_data (mapping));
  g_clear_object (&mapping);
  g_clear_object (&buffer);
  test_drop_context (fixture);
  test_assert_bytes (bytes, expected);
}

static void
mapping_busy (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuMapping) mapping = NULL;
  g_autoptr (GBytes) bytes = NULL;
  g_autoptr (GBytes) more = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_MAP))
    return;
  buffer = test_buffer_filled (fixture, SIZE, 6);
  mapping = map (buffer, GPU_MAP_FLAGS_READ, 0, SIZE);
  bytes = gpu_mapping_get_bytes (mapping);
  more = gpu_mapping_get_bytes (mapping);
  g_assert_false (gpu_mapping_unmap (mapping, &error));
  test_assert_gpu_error (error, GPU_ERROR_BUSY);
  g_clear_pointer (&bytes, g_bytes_unref);
  g_assert_false (gpu_mapping_unmap (mapping, &error));
  test_assert_gpu_error (error, GPU_ERROR_BUSY);
  test_assert_value (g_bytes_get_data (more, NULL), 6, SIZE);
  g_clear_pointer (&more, g_bytes_unref);
  test_assert_ok (gpu_mapping_unmap (mapping, &error), error);
  test_assert_ok (gpu_mapping_unmap (mapping, &error), error);
  g_assert_null (gpu_mapping_get_bytes (mapping));
}

static void
fill_range (GpuStream *stream, GpuBuffer *buffer, gsize offset, gsize size, gboolean is_free)
{
  const guint8 value = 3;
  g_autoptr (GError) error = NULL;

  g_assert_cmpint (gpu_stream_fill (stream, GPU_MEMORY (buffer), offset, size, &value, 1, &error),
                   ==, is_free);
  if (!is_free)
    test_assert_gpu_error (error, GPU_ERROR_BUSY, "gpu_stream_fill");
}

/* As long as a mapping exists, operations on its bytes fail; operations on all other bytes
 * succeed. */
static void
mapping_several_mappings (TestFixture *fixture)
{
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuMapping) first = NULL;
  g_autoptr (GpuMapping) again = NULL;
  g_autoptr (GpuMapping) behind = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_MAP))
    return;
  buffer = test_buffer_filled (fixture, SIZE, 1);
  first = map (buffer, GPU_MAP_FLAGS_READ, 256, 256);
  again = map (buffer, GPU_MAP_FLAGS_READ, 256, 256);
  behind = map (buffer, GPU_MAP_FLAGS_READ, 512, 256);
  fill_range (fixture->stream, buffer, 0, 256, TRUE);
  fill_range (fixture->stream, buffer, 0, 257, FALSE);
  fill_range (fixture->stream, buffer, 768, 256, TRUE);
  fill_range (fixture->stream, buffer, 767, 256, FALSE);

  unmap (behind);
  fill_range (fixture->stream, buffer, 512, 256, TRUE);
  fill_range (fixture->stream, buffer, 511, 2, FALSE);
  unmap (first);
  fill_range (fixture->stream, buffer, 256, 256, FALSE);
  unmap (again);
  fill_range (fixture->stream, buffer, 0, SIZE, TRUE);
  test_synchronize (fixture->stream);
}

/* --- unmapping while another thread reads ---------------------------------------------- */

#define N_RACES 4000

typedef struct
{
  GpuMapping *mapping;
  gint        round;                /* atomic; the reader copies it to `followed` */
  gint        followed;             /* atomic */
} Race;

/* If the reader gets bytes, their range is still mapped and holds the expected values. */
static void
look (GpuMapping *mapping, gint round)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = NULL;

  if (round % 2 == 0)
    bytes = gpu_mapping_get_bytes (mapping);
  else
    bytes = gpu_mapping_read_bytes (mapping, 0, 64, &error);
  if (bytes != NULL)
    {
      g_assert_true (round % 2 != 0 || test_get_number (mapping, "mapped"));
      test_assert_value (g_bytes_get_data (bytes, NULL), 6, 64);
    }
  else if (round % 2 != 0)
    test_assert_gpu_error (error, GPU_ERROR_RELEASED);
}

static gpointer
keep_looking (gpointer data)
{
  Race *race = data;

  for (gint round = 1; round <= N_RACES; round++)
    {
      while (g_atomic_int_get (&race->round) < round)
        g_thread_yield ();
      look (race->mapping, round);
      g_atomic_int_set (&race->followed, round);
    }
  return NULL;
}

static void
mapping_unmap_race (TestFixture *fixture)
{
  g_autoptr (GpuBuffer) buffer = NULL;
  Race race = { NULL, 0, 0 };
  GThread *thread;

  if (!test_has (fixture, GPU_CAPABILITIES_MAP))
    return;
  buffer = test_buffer_filled (fixture, SIZE, 6);
  thread = g_thread_new ("look", keep_looking, &race);
  for (gint round = 1; round <= N_RACES; round++)
    {
      g_autoptr (GError) error = NULL;

      race.mapping = map (buffer, GPU_MAP_FLAGS_READ, 0, SIZE);
      g_atomic_int_set (&race.round, round);
      for (guint i = round % 64; i > 0; i--)
        g_atomic_int_get (&race.followed);
      if (!gpu_mapping_unmap (race.mapping, &error))
        test_assert_gpu_error (error, GPU_ERROR_BUSY);
      while (g_atomic_int_get (&race.followed) < round)
        g_thread_yield ();
      unmap (race.mapping);
      g_clear_object (&race.mapping);
    }
  g_thread_join (thread);
}

/* Operations on bytes mapped for writing fail; operations on other bytes, and all operations after
 * the unmap, succeed. */
static void
mapping_excludes (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuMapping) writing = NULL;
  g_autoptr (GpuMapping) reading = NULL;
  GpuStream *stream = fixture->stream;
  GpuMemory *memory;
  guint8 value = 9;

  if (!test_has (fixture, GPU_CAPABILITIES_MAP))
    return;
  buffer = test_buffer_filled (fixture, SIZE, 6);
  memory = GPU_MEMORY (buffer);
  writing = map (buffer, GPU_MAP_FLAGS_WRITE, 0, 1024);
  g_assert_false (gpu_stream_fill (stream, memory, 0, SIZE, &value, 1, &error));
  test_assert_gpu_error (error, GPU_ERROR_BUSY, "1024");
  g_assert_false (gpu_stream_copy (stream, memory, 4096, memory, 1000, 1000, &error));
  test_assert_gpu_error (error, GPU_ERROR_BUSY, "1024");
  test_assert_ok (gpu_stream_fill (stream, memory, 1024, 1024, &value, 1, &error), error);
  test_synchronize (stream);
  unmap (writing);
  test_assert_ok (gpu_stream_fill (stream, memory, 0, 1024, &value, 1, &error), error);

  reading = map (buffer, GPU_MAP_FLAGS_READ, 0, 2048);
  test_assert_value (gpu_mapping_get_data (reading), 9, 2048);
  test_assert_ok (gpu_stream_copy (stream, memory, 4096, memory, 0, 2048, &error), error);
  g_assert_false (gpu_stream_fill (stream, memory, 0, 16, &value, 1, &error));
  test_assert_gpu_error (error, GPU_ERROR_BUSY);
  test_synchronize (stream);
}

/* Mappings for reading may overlap; a mapping for writing must not overlap another mapping. */
static void
mapping_overlaps (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuMapping) first = NULL;
  g_autoptr (GpuMapping) second = NULL;
  g_autoptr (GpuMapping) beside = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_MAP))
    return;
  buffer = test_buffer_filled (fixture, SIZE, 6);
  first = map (buffer, GPU_MAP_FLAGS_READ, 0, 1000);
  second = map (buffer, GPU_MAP_FLAGS_READ, 500, 1000);
  test_assert_value (gpu_mapping_get_data (second), 6, 1000);
  g_assert_null (gpu_buffer_map (buffer, NULL, GPU_MAP_FLAGS_WRITE, 999, 1, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_BUSY);
  beside = map (buffer, GPU_MAP_FLAGS_WRITE, 1500, 1);
  unmap (first);
  test_assert_value (gpu_mapping_get_data (second), 6, 1000);
}

/* A map waits for the pending work of every stream that uses the memory. */
static void
mapping_waits (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) buffer = NULL;
  const gsize size = 1 << 22;

  if (!test_has (fixture, GPU_CAPABILITIES_MAP))
    return;
  buffer = test_buffer (fixture, size);
  for (guint i = 0; i < 10; i++)
    {
      guint8 value = (guint8) (i * 20);
      g_autoptr (GpuMapping) mapping = NULL;

      test_assert_ok (gpu_stream_fill (i % 2 == 0 ? stream : fixture->stream, GPU_MEMORY (buffer),
                                       0, size, &value, 1, &error), error);
      mapping = map (buffer, GPU_MAP_FLAGS_WRITE, 0, size);
      test_assert_value (gpu_mapping_get_data (mapping), value, size);
      memset (gpu_mapping_get_data (mapping), value + 1, size);
      unmap (mapping);
      {
        g_autoptr (GBytes) content = gpu_buffer_read_bytes (buffer, stream, size - 64, 64, NULL,
                                                            &error);

        g_assert_no_error (error);
        test_assert_value (g_bytes_get_data (content, NULL), value + 1, 64);
      }
    }
}

static void
mapping_slice (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  gsize unit = MAX (gpu_device_get_base_alignment (fixture->device), 64);
  g_autoptr (GBytes) bytes = test_random_bytes (unit * 4);
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuBuffer) slice = NULL;
  g_autoptr (GpuMapping) mapping = NULL;
  guint8 value = 0;

  if (!test_has (fixture, GPU_CAPABILITIES_MAP))
    return;
  buffer = test_buffer_from (fixture, bytes);
  slice = gpu_buffer_slice (buffer, unit, unit * 2, &error);
  g_assert_no_error (error);
  mapping = map (slice, GPU_MAP_FLAGS_READ, 8, unit);
  test_assert_mem (gpu_mapping_get_data (mapping),
                   (const guint8 *) g_bytes_get_data (bytes, NULL) + unit + 8, unit);
  g_assert_false (gpu_stream_fill (fixture->stream, GPU_MEMORY (buffer), unit + 8, 1, &value, 1,
                                   &error));
  test_assert_gpu_error (error, GPU_ERROR_BUSY);
}

/* Released memory stays allocated while it is mapped. */
static void
mapping_released_memory (TestFixture *fixture)
{
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuMapping) mapping = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_MAP))
    return;
  buffer = test_buffer_from (fixture, bytes);
  mapping = map (buffer, GPU_MAP_FLAGS_READ, 0, SIZE);
  gpu_memory_release (GPU_MEMORY (buffer));
  test_assert_mem (gpu_mapping_get_data (mapping), g_bytes_get_data (bytes, NULL), SIZE);
  unmap (mapping);
}

/* Unmapping one range must not discard the hazards of other ranges: a copy of another range still
 * waits for the pending fill of that range. */
static void
mapping_unmap_keeps_hazards (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) writes = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuStream) copies = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuBuffer) copy = NULL;
  g_autoptr (GpuMapping) mapping = NULL;
  g_autoptr (GpuEvent) gate = NULL;
  g_autoptr (GpuEvent) copied = NULL;
  g_autoptr (GBytes) expected = test_value_bytes (1024, 7);
  guint8 value = 7;

  if (!test_has (fixture, GPU_CAPABILITIES_MAP | GPU_CAPABILITIES_USER_EVENTS))
    return;
  buffer = test_buffer_filled (fixture, SIZE, 1);
  copy = test_buffer_filled (fixture, 1024, 0);
  mapping = map (buffer, GPU_MAP_FLAGS_WRITE, 0, 1024);
  gate = test_gate (fixture, writes);
  test_assert_ok (gpu_stream_fill (writes, GPU_MEMORY (buffer), 2048, 1024, &value, 1, &error),
                  error);
  unmap (mapping);
  test_assert_ok (gpu_stream_copy (copies, GPU_MEMORY (copy), 0, GPU_MEMORY (buffer), 2048, 1024,
                                   &error), error);
  copied = test_record (copies);
  g_assert_false (gpu_event_wait_timeout (copied, 20000, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_TIMED_OUT);
  test_open (gate);
  test_assert_content (copy, expected);
}

/* The unmap of a read-only mapping does not wait for other reads. */
static void
mapping_unmap_reads (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) copies = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuStream) stream = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuBuffer) copy = NULL;
  g_autoptr (GpuMapping) mapping = NULL;
  g_autoptr (GpuEvent) gate = NULL;
  g_autoptr (GpuEvent) unmapped = NULL;
  g_autoptr (GBytes) ones = test_value_bytes (1024, 1);

  if (!test_has (fixture, GPU_CAPABILITIES_MAP | GPU_CAPABILITIES_USER_EVENTS
                          | GPU_CAPABILITIES_OUT_OF_ORDER))
    return;
  stream = test_stream (fixture, GPU_STREAM_FLAGS_OUT_OF_ORDER);
  buffer = test_buffer_filled (fixture, SIZE, 1);
  copy = test_buffer_filled (fixture, 1024, 0);
  mapping = gpu_stream_map (stream, GPU_MEMORY (buffer), GPU_MAP_FLAGS_READ, 0, 1024, &error);
  g_assert_no_error (error);
  test_synchronize (stream);
  gate = test_gate (fixture, copies);
  test_assert_ok (gpu_stream_copy (copies, GPU_MEMORY (copy), 0, GPU_MEMORY (buffer), 0, 1024,
                                   &error), error);
  unmap (mapping);
  unmapped = test_record (stream);
  test_assert_ok (gpu_event_wait_timeout (unmapped, TEST_DEADLINE * G_USEC_PER_SEC, NULL, &error),
                  error);
  test_open (gate);
  test_assert_content (copy, ones);
}

/* The unmap of a read-only mapping does not count as a write of the memory. So if the last write
 * failed, later uses still report that failure. */
static void
mapping_unmap_keeps_failure (TestFixture *fixture)
{
  const GpuStreamFlags flags[] = { GPU_STREAM_FLAGS_NONE, GPU_STREAM_FLAGS_OUT_OF_ORDER };
  guint8 value = 7;

  if (!test_has (fixture, GPU_CAPABILITIES_MAP | GPU_CAPABILITIES_USER_EVENTS
                          | GPU_CAPABILITIES_OUT_OF_ORDER))
    return;
  for (guint i = 0; i < G_N_ELEMENTS (flags); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GpuStream) stream = test_stream (fixture, flags[i]);
      g_autoptr (GpuStream) writes = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
      g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE, 1);
      g_autoptr (GpuBuffer) copy = test_buffer_filled (fixture, 1024, 0);
      g_autoptr (GBytes) zeros = test_value_bytes (1024, 0);
      g_autoptr (GpuMapping) mapping = NULL;
      g_autoptr (GpuEvent) gate = NULL;

      mapping = gpu_stream_map (stream, GPU_MEMORY (buffer), GPU_MAP_FLAGS_READ, 0, 1024, &error);
      g_assert_no_error (error);
      test_synchronize (stream);
      gate = test_gate (fixture, writes);
      test_assert_ok (gpu_stream_fill (writes, GPU_MEMORY (buffer), 2048, 1024, &value, 1, &error),
                      error);
      test_assert_ok (gpu_event_fail (gate, "no data", &error), error);
      g_assert_false (gpu_stream_synchronize (writes, NULL, &error));
      g_clear_error (&error);
      unmap (mapping);
      g_assert_false (gpu_stream_copy (fixture->stream, GPU_MEMORY (copy), 0, GPU_MEMORY (buffer),
                                       2048, 1024, &error));
      g_assert_nonnull (error);
      g_assert_nonnull (strstr (error->message, "last write"));
      test_assert_content (copy, zeros);
    }
}

/* If a fill of a region consists of several operations, and one of them fails because of a mapped
 * range, the error names the fill. */
static void
mapping_excludes_region (TestFixture *fixture)
{
  static const GpuExtent extent = { 64, 8, 2 };
  static const GpuLayout layout = { .row_pitch = 128, .slice_pitch = 2048 };
  static const gsize rows[] = { 0, 1, 7, 16, 23 };
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE, 1);

  if (!test_has (fixture, GPU_CAPABILITIES_MAP))
    return;
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GpuMapping) mapping = map (buffer, GPU_MAP_FLAGS_READ, rows[i] * 128, 64);

      g_assert_false (gpu_stream_fill_region (fixture->stream, GPU_MEMORY (buffer), &layout,
                                              &extent, (const guint8 *) "r", 1, &error));
      g_assert_true (g_str_has_prefix (error->message, "gpu_stream_fill_region: "));
      test_assert_gpu_error (error, GPU_ERROR_BUSY, "mapped");
    }
}

/* --- refused operations that consist of several commands -------------------------------------- */

#define LARGE (512 * 1024)

typedef gboolean (*Command) (GpuStream *stream, GpuBuffer *buffer, GError **error);

/* Drivers have no such pattern, so the library copies the filled part. */
static gboolean
fill_odd (GpuStream *stream, GpuBuffer *buffer, GError **error)
{
  return gpu_stream_fill (stream, GPU_MEMORY (buffer), 0, LARGE / 3 * 3,
                          (const guint8 *) "odd", 3, error);
}

static gboolean
fill_large (GpuStream *stream, GpuBuffer *buffer, GError **error)
{
  g_autoptr (GBytes) pattern = test_random_bytes (LARGE / 4);

  return gpu_stream_fill (stream, GPU_MEMORY (buffer), 0, LARGE,
                          g_bytes_get_data (pattern, NULL), LARGE / 4, error);
}

static gboolean
fill_rows (GpuStream *stream, GpuBuffer *buffer, GError **error)
{
  const GpuExtent extent = { 1024, 128, 2 };
  const GpuLayout layout = { .row_pitch = 2048, .slice_pitch = LARGE / 2 };

  return gpu_stream_fill_region (stream, GPU_MEMORY (buffer), &layout, &extent,
                                 (const guint8 *) "r", 1, error);
}

/* A fourth dimension requires one command for each of its indices. Only the last region is
 * mapped. */
static GpuArray *
array_new (GpuBuffer *buffer)
{
  const gssize shape[] = { 2, 3, 3, 64 };
  const gssize strides[] = { LARGE - 65536, 8192, 1024, 1 };
  g_autoptr (GError) error = NULL;
  GpuArray *array = gpu_array_new_for_memory (GPU_MEMORY (buffer), 0, GPU_DTYPE_UINT8, shape,
                                              G_N_ELEMENTS (shape), strides,
                                              G_N_ELEMENTS (strides), &error);

  g_assert_no_error (error);
  return array;
}

static gboolean
fill_array (GpuStream *stream, GpuBuffer *buffer, GError **error)
{
  g_autoptr (GpuArray) array = array_new (buffer);
  g_autoptr (GBytes) value = test_value_bytes (1, 7);

  return gpu_stream_fill_array (stream, array, value, error);
}

static gboolean
write_array (GpuStream *stream, GpuBuffer *buffer, GError **error)
{
  g_autoptr (GpuArray) array = array_new (buffer);
  g_autoptr (GBytes) bytes = test_random_bytes (2 * 3 * 3 * 64);

  return gpu_stream_write_array (stream, array, bytes, 0, NULL, 0, error);
}

static gboolean
copy_array (GpuStream *stream, GpuBuffer *buffer, GError **error)
{
  g_autoptr (GpuArray) array = array_new (buffer);
  g_autoptr (GpuArray) source = gpu_array_new_like (array, NULL, NULL, error);

  return source != NULL && gpu_stream_copy_array (stream, array, source, error);
}

/* The mapped bytes are the last that each of the operations would write. */
static void
mapping_refused_changes_nothing (TestFixture *fixture)
{
  static const Command commands[] = { fill_odd, fill_large, fill_rows, fill_array, write_array,
                                      copy_array };
  static const gsize ends[] = { LARGE / 3 * 3, LARGE, LARGE - 1024,
                                LARGE - 65536 + 2 * 8192 + 2 * 1024 + 64,
                                LARGE - 65536 + 2 * 8192 + 2 * 1024 + 64,
                                LARGE - 65536 + 2 * 8192 + 2 * 1024 + 64 };
  g_autoptr (GBytes) before = test_random_bytes (LARGE);
  g_autoptr (GpuBuffer) buffer = test_buffer_from (fixture, before);

  if (!test_has (fixture, GPU_CAPABILITIES_MAP))
    return;
  for (guint i = 0; i < G_N_ELEMENTS (commands); i++)
    {
      g_autoptr (GError) error = NULL;
      GpuMapping *mapping = map (buffer, GPU_MAP_FLAGS_READ, ends[i] - 1, 1);

      g_test_message ("command %u", i);
      g_assert_false (commands[i] (fixture->stream, buffer, &error));
      test_assert_gpu_error (error, GPU_ERROR_BUSY, "mapped for reading");
      g_object_unref (mapping);
      test_assert_content (buffer, before);
      test_assert_ok (commands[i] (fixture->stream, buffer, &error), error);
      test_synchronize (fixture->stream);
      test_assert_ok (gpu_buffer_write_bytes (buffer, fixture->stream, 0, before, NULL, &error),
                      error);
    }
}

/* A mapping of bytes between the regions excludes nothing, and a refused read leaves the memory of
 * the host as it was. */
static void
mapping_array_regions (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, LARGE, 1);
  g_autoptr (GpuArray) array = array_new (buffer);
  g_autoptr (GBytes) bytes = test_value_bytes (2 * 3 * 3 * 64, 9);
  g_autoptr (GpuMapping) mapping = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_MAP))
    return;
  mapping = map (buffer, GPU_MAP_FLAGS_WRITE, LARGE / 2, 100);
  test_assert_ok (fill_array (fixture->stream, buffer, &error), error);
  test_synchronize (fixture->stream);
  unmap (mapping);
  g_clear_object (&mapping);

  mapping = map (buffer, GPU_MAP_FLAGS_WRITE, LARGE - 65536, 1);
  g_assert_false (gpu_stream_read_array (fixture->stream, array, bytes, 0, NULL, 0, &error));
  test_assert_gpu_error (error, GPU_ERROR_BUSY, "gpu_stream_read_array", "mapped for writing");
  test_synchronize (fixture->stream);
  test_assert_value (g_bytes_get_data (bytes, NULL), 9, g_bytes_get_size (bytes));
}

/* Drops a mapping at once on an out-of-order stream: the unmap must not overtake the map. */
static void
mapping_out_of_order (TestFixture *fixture)
{
  g_autoptr (GpuStream) stream = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GBytes) expected = test_value_bytes (SIZE, 100);

  if (!test_has (fixture, GPU_CAPABILITIES_MAP | GPU_CAPABILITIES_OUT_OF_ORDER))
    return;
  stream = test_stream (fixture, GPU_STREAM_FLAGS_OUT_OF_ORDER);
  buffer = test_buffer (fixture, SIZE);
  for (guint8 i = 1; i <= 100; i++)
    {
      g_autoptr (GError) error = NULL;
      GpuMapping *mapping;

      test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (buffer), 0, SIZE, &i, 1, &error),
                      error);
      mapping = gpu_stream_map (stream, GPU_MEMORY (buffer),
                                i % 2 == 0 ? GPU_MAP_FLAGS_READ : GPU_MAP_FLAGS_WRITE, 0, SIZE,
                                &error);
      g_assert_no_error (error);
      g_object_unref (mapping);
    }
  test_assert_content (buffer, expected);
}

static void
mapping_pitched (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = gpu_buffer_new_pitched (fixture->context, GPU_MEMORY_FLAGS_NONE,
                                                         100,
                                                         8, 4, &error);
  g_autoptr (GpuMapping) mapping = NULL;

  g_assert_no_error (error);
  if (!test_has (fixture, GPU_CAPABILITIES_MAP))
    return;
  mapping = map (buffer, GPU_MAP_FLAGS_WRITE_INVALIDATE, 0,
                 gpu_memory_get_size (GPU_MEMORY (buffer)));
  g_assert_cmpuint (gpu_mapping_get_row_pitch (mapping), ==, gpu_buffer_get_row_pitch (buffer));
}

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
  test_add ("read", mapping_read);
  test_add ("write", mapping_write);
  test_add ("copies", mapping_copies);
  test_add ("bytes", mapping_bytes);
  test_add ("busy", mapping_busy);
  test_add ("several-mappings", mapping_several_mappings);
  test_add ("unmap-race", mapping_unmap_race);
  test_add ("excludes", mapping_excludes);
  test_add ("overlaps", mapping_overlaps);
  test_add ("waits", mapping_waits);
  test_add ("slice", mapping_slice);
  test_add ("released-memory", mapping_released_memory);
  test_add ("unmap-keeps-hazards", mapping_unmap_keeps_hazards);
  test_add ("unmap-reads", mapping_unmap_reads);
  test_add ("unmap-keeps-failure", mapping_unmap_keeps_failure);
  test_add ("excludes-region", mapping_excludes_region);
  test_add ("refused-changes-nothing", mapping_refused_changes_nothing);
  test_add ("array-regions", mapping_array_regions);
  test_add ("out-of-order", mapping_out_of_order);
  test_add ("pitched", mapping_pitched);
  return test_run ();
}
