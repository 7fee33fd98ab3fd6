/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Every operation of a stream, compared with plain loops over host memory. The random numbers come
 * from GTest, which prints the seed at the start. --seed repeats a run. */
#include "config.h"

#include "test-util.h"

#define SIZE 65536

static gsize
random_below (gsize limit)
{
  return limit <= 1 ? 0 : (gsize) g_test_rand_int_range (0, (gint32) limit);
}

/* Returns a copy of the content, which the test uses as the model. */
static guint8 *
copy_of (GBytes *bytes)
{
  return g_memdup2 (g_bytes_get_data (bytes, NULL), g_bytes_get_size (bytes));
}

static void
assert_model (GpuBuffer *buffer, const guint8 *model)
{
  g_autoptr (GBytes) content = test_content (buffer);

  test_assert_mem (g_bytes_get_data (content, NULL), model, g_bytes_get_size (content));
}

/* --- linear ---------------------------------------------------------------------- */

static void
stream_copy (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) from = test_random_bytes (SIZE);
  g_autoptr (GBytes) to = test_random_bytes (SIZE);
  g_autoptr (GpuBuffer) source = test_buffer_from (fixture, from);
  g_autoptr (GpuBuffer) destination = test_buffer_from (fixture, to);
  g_autofree guint8 *model = copy_of (to);

  for (guint i = 0; i < 300; i++)
    {
      gsize size = 1 + random_below (i % 10 == 0 ? SIZE : 200);
      gsize a = random_below (SIZE - size + 1);
      gsize b = random_below (SIZE - size + 1);

      test_assert_ok (gpu_stream_copy (fixture->stream, GPU_MEMORY (destination), b,
                                       GPU_MEMORY (source), a, size, &error), error);
      memcpy (model + b, (const guint8 *) g_bytes_get_data (from, NULL) + a, size);
    }
  test_synchronize (fixture->stream);
  assert_model (destination, model);
  test_assert_content (source, from);
}

static void
stream_copy_within (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  g_autoptr (GpuBuffer) buffer = test_buffer_from (fixture, bytes);
  g_autofree guint8 *model = copy_of (bytes);

  for (guint i = 0; i < 100; i++)
    {
      gsize size = 1 + random_below (SIZE / 4);
      gsize a = random_below (SIZE - size + 1);
      gsize b = random_below (SIZE - size + 1);

      if (a < b + size && b < a + size)
        {
          g_assert_false (gpu_stream_copy (fixture->stream, GPU_MEMORY (buffer), b,
                                           GPU_MEMORY (buffer), a, size, &error));
          test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "overlap");
          continue;
        }
      test_assert_ok (gpu_stream_copy (fixture->stream, GPU_MEMORY (buffer), b,
                                       GPU_MEMORY (buffer), a, size, &error), error);
      memcpy (model + b, model + a, size);
    }
  test_synchronize (fixture->stream);
  assert_model (buffer, model);
}

static void
stream_write_read (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE, 0);
  g_autofree guint8 *model = g_malloc0 (SIZE);
  g_autofree guint8 *direct = g_malloc0 (SIZE);
  g_autoptr (GPtrArray) got = g_ptr_array_new_with_free_func ((GDestroyNotify) g_bytes_unref);
  g_autoptr (GPtrArray) wanted = g_ptr_array_new_with_free_func ((GDestroyNotify) g_bytes_unref);

  for (guint i = 0; i < 200; i++)
    {
      gsize size = 1 + random_below (2000);
      gsize offset = random_below (SIZE - size + 1);
      g_autoptr (GBytes) bytes = test_random_bytes (size);
      GBytes *back;

      memcpy (model + offset, g_bytes_get_data (bytes, NULL), size);
      test_assert_ok (gpu_stream_write (fixture->stream, GPU_MEMORY (buffer), offset, bytes,
                                        &error), error);
      offset = random_below (SIZE - size + 1);
      back = gpu_stream_read_bytes (fixture->stream, GPU_MEMORY (buffer), offset, size, &error);
      g_assert_no_error (error);
      g_ptr_array_add (got, back);
      g_ptr_array_add (wanted, g_bytes_new (model + offset, size));
    }
  test_assert_ok (gpu_stream_read (fixture->stream, GPU_MEMORY (buffer), 0, direct, SIZE, &error),
                  error);
  test_synchronize (fixture->stream);
  for (guint i = 0; i < got->len; i++)
    test_assert_bytes (got->pdata[i], wanted->pdata[i]);
  test_assert_mem (direct, model, SIZE);
}

/* The stream keeps the GBytes of a write alive, and copies the pattern of a fill during the
 * call. */
static void
stream_keeps_bytes_alive (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE, 0);
  g_autoptr (GpuEvent) gate = NULL;
  g_autofree guint8 *model = g_malloc0 (SIZE);

  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    return;
  gate = test_gate (fixture, fixture->stream);
  for (gsize i = 0; i < 64; i++)
    {
      g_autoptr (GBytes) bytes = test_value_bytes (512, (guint8) i + 1);
      guint8 pattern[16];

      memset (model + i * 1024, (int) i + 1, 512);
      memset (model + i * 1024 + 512, (int) i + 100, 512);
      memset (pattern, (int) i + 100, sizeof pattern);
      test_assert_ok (gpu_stream_write (fixture->stream, GPU_MEMORY (buffer), i * 1024, bytes,
                                        &error), error);
      test_assert_ok (gpu_stream_fill (fixture->stream, GPU_MEMORY (buffer), i * 1024 + 512, 512,
                                       pattern, sizeof pattern, &error), error);
      memset (pattern, 0xff, sizeof pattern);
    }
  g_assert_cmpuint (test_get_number (fixture->stream, "n-submitted"), >=, 128);
  test_open (gate);
  test_synchronize (fixture->stream);
  assert_model (buffer, model);
}

/* --- fills -------------------------------------------------------------------------- */

static void
fill_model (guint8 *model, gsize size, const guint8 *pattern, gsize pattern_size)
{
  for (gsize i = 0; i < size; i++)
    model[i] = pattern[i % pattern_size];
}

static void
fill_once (TestFixture *fixture, GpuBuffer *buffer, guint8 *model, gsize offset, gsize n,
           gsize pattern_size)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) pattern = test_random_bytes (pattern_size);

  test_assert_ok (gpu_stream_fill (fixture->stream, GPU_MEMORY (buffer), offset, n * pattern_size,
                                   g_bytes_get_data (pattern, NULL), pattern_size, &error), error);
  fill_model (model + offset, n * pattern_size, g_bytes_get_data (pattern, NULL), pattern_size);
}

static void
stream_fill (TestFixture *fixture)
{
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  g_autoptr (GpuBuffer) buffer = test_buffer_from (fixture, bytes);
  g_autofree guint8 *model = copy_of (bytes);

  for (gsize pattern_size = 1; pattern_size <= 128; pattern_size++)
    {
      gsize n_max = SIZE / pattern_size / 4;

      /* Fill at an offset that is a multiple of the pattern size, then at any offset, with one,
       * some and many repetitions of the pattern */
      fill_once (fixture, buffer, model, pattern_size * random_below (n_max), n_max, pattern_size);
      fill_once (fixture, buffer, model, random_below (SIZE / 2), 1 + random_below (n_max),
                 pattern_size);
      fill_once (fixture, buffer, model, random_below (SIZE / 2), 1, pattern_size);
      if (pattern_size % 16 == 0)
        {
          test_synchronize (fixture->stream);
          assert_model (buffer, model);
        }
    }
  for (gsize pattern_size = 129; pattern_size < 5000; pattern_size = pattern_size * 2 + 1)
    fill_once (fixture, buffer, model, random_below (SIZE / 2),
               1 + random_below (SIZE / 2 / pattern_size), pattern_size);
  test_synchronize (fixture->stream);
  assert_model (buffer, model);
}

/* --- regions -------------------------------------------------------------------------- */

typedef struct
{
  GpuLayout layout;
  gsize     row_pitch;              /* resolved: never 0 for packed rows */
  gsize     slice_pitch;
} Side;

/* Returns a random layout that places @extent within SIZE bytes. */
static Side
random_side (const GpuExtent *extent)
{
  Side side = { 0 };
  gsize last;
  gsize room;

  side.row_pitch = extent->width + random_below (40);
  side.slice_pitch = side.row_pitch * (extent->height + random_below (4));
  side.layout.x = random_below (side.row_pitch - extent->width + 1);
  last = (extent->depth - 1) * side.slice_pitch + (extent->height - 1) * side.row_pitch +
         side.layout.x + extent->width;
  g_assert_cmpuint (last, <=, SIZE);
  room = (SIZE - last) / side.slice_pitch;
  side.layout.z = random_below (room + 1);
  if (side.layout.z < room)
    side.layout.y = random_below (side.slice_pitch / side.row_pitch - extent->height + 1);
  side.layout.row_pitch = side.row_pitch;
  side.layout.slice_pitch = side.slice_pitch;
  return side;
}

static GpuExtent
random_extent (void)
{
  GpuExtent extent;

  extent.width = 1 + random_below (100);
  extent.height = 1 + random_below (12);
  extent.depth = 1 + random_below (6);
  return extent;
}

static gsize
side_offset (const Side *side, gsize y, gsize z)
{
  return (side->layout.z + z) * side->slice_pitch + (side->layout.y + y) * side->row_pitch +
         side->layout.x;
}

static void
copy_model (guint8 *to, const Side *to_side, const guint8 *from, const Side *from_side,
            const GpuExtent *extent)
{
  for (gsize z = 0; z < extent->depth; z++)
    for (gsize y = 0; y < extent->height; y++)
      memcpy (to + side_offset (to_side, y, z), from + side_offset (from_side, y, z),
              extent->width);
}

static Side
tight_side (const GpuExtent *extent)
{
  Side side = { 0 };

  side.row_pitch = extent->width;
  side.slice_pitch = extent->width * extent->height;
  return side;
}

static void
stream_copy_region (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) from = test_random_bytes (SIZE);
  g_autoptr (GBytes) to = test_random_bytes (SIZE);
  g_autoptr (GpuBuffer) source = test_buffer_from (fixture, from);
  g_autoptr (GpuBuffer) destination = test_buffer_from (fixture, to);
  g_autofree guint8 *model = copy_of (to);

  for (guint i = 0; i < 200; i++)
    {
      GpuExtent extent = random_extent ();
      Side a = i % 5 == 1 ? tight_side (&extent) : random_side (&extent);
      Side b = i % 5 == 2 ? tight_side (&extent) : random_side (&extent);

      test_assert_ok (gpu_stream_copy_region (fixture->stream, GPU_MEMORY (destination),
                                              i % 5 == 2 ? NULL : &b.layout, GPU_MEMORY (source),
                                              &a.layout, &extent, &error), error);
      copy_model (model, &b, g_bytes_get_data (from, NULL), &a, &extent);
      if (i % 20 == 0)
        {
          test_synchronize (fixture->stream);
          assert_model (destination, model);
        }
    }
  test_synchronize (fixture->stream);
  assert_model (destination, model);
}

static void
stream_write_region (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) from = test_random_bytes (SIZE);
  g_autoptr (GBytes) to = test_random_bytes (SIZE);
  g_autoptr (GpuBuffer) buffer = test_buffer_from (fixture, to);
  g_autofree guint8 *model = copy_of (to);

  for (guint i = 0; i < 200; i++)
    {
      GpuExtent extent = random_extent ();
      Side a = i % 3 == 0 ? tight_side (&extent) : random_side (&extent);
      Side b = random_side (&extent);

      test_assert_ok (gpu_stream_write_region (fixture->stream, GPU_MEMORY (buffer), &b.layout,
                                               from, i % 3 == 0 ? NULL : &a.layout, &extent,
                                               &error), error);
      copy_model (model, &b, g_bytes_get_data (from, NULL), &a, &extent);
    }
  test_synchronize (fixture->stream);
  assert_model (buffer, model);
}

static void
stream_read_region (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  g_autoptr (GpuBuffer) buffer = test_buffer_from (fixture, bytes);

  for (guint i = 0; i < 200; i++)
    {
      GpuExtent extent = random_extent ();
      gsize size = extent.width * extent.height * extent.depth;
      Side a = random_side (&extent);
      Side tight = tight_side (&extent);
      g_autofree guint8 *model = g_malloc (size);
      g_autoptr (GBytes) got = gpu_stream_read_region (fixture->stream, GPU_MEMORY (buffer),
                                                       &a.layout, &extent, &error);

      g_assert_no_error (error);
      g_assert_cmpuint (g_bytes_get_size (got), ==, size);
      test_synchronize (fixture->stream);
      copy_model (model, &tight, g_bytes_get_data (bytes, NULL), &a, &extent);
      test_assert_mem (g_bytes_get_data (got, NULL), model, size);
    }
}

static void
stream_fill_region (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  g_autoptr (GpuBuffer) buffer = test_buffer_from (fixture, bytes);
  g_autofree guint8 *model = copy_of (bytes);

  for (guint i = 0; i < 100; i++)
    {
      gsize pattern_size = 1 + random_below (20);
      g_autoptr (GBytes) pattern = test_random_bytes (pattern_size);
      GpuExtent extent = random_extent ();
      Side side;

      extent.width = pattern_size * (1 + random_below (5));
      side = random_side (&extent);
      test_assert_ok (gpu_stream_fill_region (fixture->stream, GPU_MEMORY (buffer), &side.layout,
                                              &extent, g_bytes_get_data (pattern, NULL),
                                              pattern_size, &error), error);
      for (gsize z = 0; z < extent.depth; z++)
        for (gsize y = 0; y < extent.height; y++)
          fill_model (model + side_offset (&side, y, z), extent.width,
                      g_bytes_get_data (pattern, NULL), pattern_size);
    }
  test_synchronize (fixture->stream);
  assert_model (buffer, model);
}

static void
stream_slices (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  gsize unit = MAX (gpu_device_get_base_alignment (fixture->device), 64);
  gsize size = unit * 8;
  g_autoptr (GBytes) bytes = test_random_bytes (size);
  g_autoptr (GpuBuffer) parent = test_buffer_from (fixture, bytes);
  g_autoptr (GpuBuffer) low = gpu_buffer_slice (parent, 0, unit * 4, &error);
  g_autoptr (GpuBuffer) high = gpu_buffer_slice (parent, unit * 2, unit * 6, &error);
  g_autofree guint8 *model = copy_of (bytes);

  g_assert_no_error (error);
  test_assert_ok (gpu_stream_copy (fixture->stream, GPU_MEMORY (high), unit * 3, GPU_MEMORY (low),
                                   unit, unit * 3, &error), error);
  memcpy (model + unit * 5, model + unit, unit * 3);
  test_synchronize (fixture->stream);
  assert_model (parent, model);

  /* The same bytes, through two buffers */
  test_assert_ok (gpu_stream_copy (fixture->stream, GPU_MEMORY (high), 0, GPU_MEMORY (low),
                                   unit * 2, unit, &error), error);
  test_synchronize (fixture->stream);
  assert_model (parent, model);
  g_assert_false (gpu_stream_copy (fixture->stream, GPU_MEMORY (parent), unit * 2 + 5,
                                   GPU_MEMORY (high), 0, unit, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "overlap");
}

/* --- other operations -------------------------------------------------------------------- */

static void
stream_migrate (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  g_autoptr (GpuBuffer) a = test_buffer_from (fixture, bytes);
  g_autoptr (GpuBuffer) b = test_buffer_from (fixture, bytes);
  GpuMemory *both[] = { GPU_MEMORY (a), GPU_MEMORY (b) };

  test_assert_ok (gpu_stream_migrate (fixture->stream, both, 2, GPU_MIGRATE_FLAGS_HOST, &error),
                  error);
  test_assert_ok (gpu_stream_migrate (fixture->stream, both, 2, GPU_MIGRATE_FLAGS_NONE, &error),
                  error);
  test_synchronize (fixture->stream);
  test_assert_content (a, bytes);
  test_assert_content (b, bytes);
  test_assert_ok (gpu_stream_migrate (fixture->stream, both, 1,
                                      GPU_MIGRATE_FLAGS_CONTENT_UNDEFINED, &error), error);
  test_synchronize (fixture->stream);
}

static void
stream_map (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  g_autoptr (GpuBuffer) buffer = test_buffer_from (fixture, bytes);
  g_autofree guint8 *model = copy_of (bytes);

  if (!test_has (fixture, GPU_CAPABILITIES_MAP))
    return;
  for (guint i = 0; i < 50; i++)
    {
      gsize size = 1 + random_below (3000);
      gsize offset = random_below (SIZE - size + 1);
      g_autoptr (GpuMapping) mapping = gpu_stream_map (fixture->stream, GPU_MEMORY (buffer),
                                                       GPU_MAP_FLAGS_NONE, offset, size, &error);

      g_assert_no_error (error);
      test_synchronize (fixture->stream);
      test_assert_mem (gpu_mapping_get_data (mapping), model + offset, size);
      memset (gpu_mapping_get_data (mapping), (int) i, size);
      memset (model + offset, (int) i, size);
      test_assert_ok (gpu_mapping_unmap (mapping, &error), error);
    }
  test_synchronize (fixture->stream);
  assert_model (buffer, model);
}

static void
stream_counters (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
  g_autoptr (GpuEvent) gate = NULL;
  guint8 zero = 0;

  g_assert_cmpuint (test_get_number (stream, "n-submitted"), ==, 0);
  g_assert_cmpuint (test_get_number (stream, "n-completed"), ==, 0);
  g_assert_true (gpu_stream_is_idle (stream, &error));
  g_assert_no_error (error);
  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    return;

  gate = test_gate (fixture, stream);
  for (guint i = 0; i < 10; i++)
    {
      guint64 before = test_get_number (stream, "n-submitted");

      test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (buffer), 0, SIZE, &zero, 1, &error),
                      error);
      g_assert_cmpuint (test_get_number (stream, "n-submitted"), ==, before + 1);
    }
  g_assert_false (gpu_stream_is_idle (stream, &error));
  g_assert_no_error (error);
  g_assert_cmpuint (test_get_number (stream, "n-completed"), <,
                    test_get_number (stream, "n-submitted"));
  test_open (gate);
  test_synchronize (stream);
  g_assert_true (gpu_stream_is_idle (stream, &error));
  g_assert_cmpuint (test_get_number (stream, "n-completed"), ==,
                    test_get_number (stream, "n-submitted"));
}

/* A stream waits for an event of another stream, but not for later work of that stream. A stream
 * also waits for a user event. */
static void
stream_wait_event (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) first = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuStream) second = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE, 0);
  g_autoptr (GpuEvent) gate = NULL;
  g_autoptr (GpuEvent) reached = NULL;
  g_autoptr (GpuEvent) last = NULL;
  guint8 value = 1;

  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    return;
  gate = test_gate (fixture, first);
  test_assert_ok (gpu_stream_fill (first, GPU_MEMORY (buffer), 0, SIZE, &value, 1, &error), error);
  reached = test_record (first);
  test_assert_ok (gpu_stream_wait_event (second, reached, &error), error);
  last = test_record (second);

  g_assert_false (gpu_event_wait_timeout (last, 20000, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_TIMED_OUT);
  g_assert_cmpint (gpu_event_query (reached, &error), ==, GPU_EVENT_STATUS_PENDING);
  test_open (gate);
  test_assert_ok (gpu_event_wait (last, NULL, &error), error);
  g_assert_cmpint (gpu_event_query (reached, &error), ==, GPU_EVENT_STATUS_COMPLETE);

  /* A wait for a completed event does not block */
  test_assert_ok (gpu_stream_wait_event (second, reached, &error), error);
  test_assert_ok (gpu_stream_wait_event (second, gate, &error), error);
  test_synchronize (second);
}

static void
stream_flush_barrier (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
  g_autoptr (GpuEvent) event = NULL;
  guint8 value = 3;

  test_assert_ok (gpu_stream_flush (fixture->stream, &error), error);
  test_assert_ok (gpu_stream_barrier (fixture->stream, &error), error);
  test_assert_ok (gpu_stream_fill (fixture->stream, GPU_MEMORY (buffer), 0, SIZE, &value, 1,
                                   &error), error);
  test_assert_ok (gpu_stream_barrier (fixture->stream, &error), error);
  test_assert_ok (gpu_stream_flush (fixture->stream, &error), error);
  event = test_record (fixture->stream);
  test_assert_ok (gpu_event_wait (event, NULL, &error), error);
}

/* On an out-of-order stream, no work is reordered across a barrier. */
static void
stream_out_of_order (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = NULL;
  g_autoptr (GpuBuffer) a = test_buffer_filled (fixture, SIZE, 0);
  g_autoptr (GpuBuffer) b = test_buffer_filled (fixture, SIZE, 0);
  guint8 value = 0;

  if (!test_has (fixture, GPU_CAPABILITIES_OUT_OF_ORDER))
    return;
  stream = test_stream (fixture, GPU_STREAM_FLAGS_OUT_OF_ORDER);
  g_assert_cmpuint (test_get_number (stream, "flags"), ==, GPU_STREAM_FLAGS_OUT_OF_ORDER);
  for (guint i = 0; i < 200; i++)
    {
      value = (guint8) i;
      test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (a), 0, SIZE, &value, 1, &error), error);
      if (i % 2 == 0)
        test_assert_ok (gpu_stream_barrier (stream, &error), error);
      test_assert_ok (gpu_stream_copy (stream, GPU_MEMORY (b), 0, GPU_MEMORY (a), 0, SIZE,
                                       &error), error);
    }
  test_synchronize (stream);
  {
    g_autoptr (GBytes) content = test_content (b);

    test_assert_value (g_bytes_get_data (content, NULL), value, SIZE);
  }
}

/* Frees streams at once after their work has completed. Intel's driver then hung. */
static void
stream_out_of_order_freed (TestFixture *fixture)
{
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);

  if (!test_has (fixture, GPU_CAPABILITIES_OUT_OF_ORDER))
    return;

  for (guint i = 0; i < 200; i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_OUT_OF_ORDER);
      g_autoptr (GpuEvent) event = NULL;
      guint8 value = (guint8) i;

      test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (buffer), 0, SIZE, &value, 1, &error),
                      error);
      event = test_record (stream);
      test_assert_ok (gpu_stream_flush (stream, &error), error);
      while (gpu_event_query (event, &error) == GPU_EVENT_STATUS_PENDING)
        ;
      g_assert_no_error (error);
    }
}

static void
stream_properties (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = NULL;
  g_autoptr (GpuStream) second = NULL;
  g_autoptr (GpuStream) same = NULL;
  g_autoptr (GpuContext) context = NULL;
  GpuStreamFlags flags = GPU_STREAM_FLAGS_NONE;

  if ((gpu_device_get_capabilities (fixture->device) & GPU_CAPABILITIES_PROFILING) != 0)
    flags = GPU_STREAM_FLAGS_PROFILING;
  stream = gpu_stream_new_full (fixture->context, fixture->device, flags, 0, &error);
  g_assert_no_error (error);
  g_assert_true (gpu_stream_get_context (stream) == fixture->context);
  g_assert_true (gpu_device_equal (test_get_object (stream, "device"), fixture->device));
  g_assert_cmpuint (test_get_number (stream, "flags"), ==, flags);
  g_assert_cmpint (gpu_stream_get_priority (stream), ==, 0);
  g_object_get (stream, "context", &context, NULL);
  g_assert_true (context == fixture->context);
  second = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  if (test_is_opencl (fixture))
    g_assert_cmpuint (gpu_stream_get_native_handle (stream), !=,
                      gpu_stream_get_native_handle (second));
  same = gpu_context_get_default_stream (fixture->context);
  g_assert_true (same == fixture->stream);
}

static void
stream_priority (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  int least, greatest;

  if (!test_has (fixture, GPU_CAPABILITIES_PRIORITY))
    return;
  test_assert_ok (gpu_context_get_priority_range (fixture->context, &least, &greatest, &error),
                  error);
  for (int priority = greatest - 100; priority <= least + 100; priority++)
    {
      g_autoptr (GpuStream) stream = gpu_stream_new_full (fixture->context, NULL,
                                                          GPU_STREAM_FLAGS_NONE, priority, &error);

      g_assert_no_error (error);
      g_assert_cmpint (gpu_stream_get_priority (stream), ==, CLAMP (priority, greatest, least));
    }
}

static void
stream_wrapped (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) owner = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuStream) wrapped = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
  g_autoptr (GBytes) expected = test_value_bytes (SIZE, 5);
  guint8 value = 5;

  wrapped = gpu_stream_new_wrapped (fixture->context, gpu_stream_get_native_handle (owner),
                                    GPU_WRAP_MODE_BORROW, &error);
  if (wrapped == NULL)
    {
      test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED);
      g_test_skip ("the back end cannot wrap streams");
      return;
    }
  g_assert_no_error (error);
  /* If the driver counts references, the borrowing wrapper holds a reference. */
  if (test_is_opencl (fixture))
    g_clear_object (&owner);
  test_assert_ok (gpu_stream_fill (wrapped, GPU_MEMORY (buffer), 0, SIZE, &value, 1, &error),
                  error);
  test_assert_content (buffer, expected);
}

/* A native stream can only be wrapped in the context to which it belongs. */
static void
stream_wrapped_foreign (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuContext) own = gpu_context_new (fixture->device, GPU_CONTEXT_FLAGS_OWN, &error);
  g_autoptr (GpuStream) owner = NULL;

  g_assert_no_error (error);
  owner = gpu_stream_new (own, GPU_STREAM_FLAGS_NONE, &error);
  g_assert_no_error (error);
  g_assert_null (gpu_stream_new_wrapped (fixture->context, gpu_stream_get_native_handle (owner),
                                         GPU_WRAP_MODE_BORROW, &error));
  if (g_str_equal (gpu_device_get_backend (fixture->device), "host"))
    test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED);
  else
    test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_stream_new_wrapped",
                           "context");
}

/* An event that is recorded on a borrowed stream completes only after the work that the owner of
 * the stream has submitted before. */
static void
stream_wrapped_after_owner (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) owner = NULL;
  g_autoptr (GpuStream) wrapped = NULL;
  g_autoptr (GpuEvent) event = NULL;
  g_autoptr (GCancellable) cancellable = g_cancellable_new ();
  g_autoptr (GAsyncResult) result = NULL;
  TestHold *hold;

  if (!test_can_hold (fixture))
    return;
  owner = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  wrapped = gpu_stream_new_wrapped (fixture->context, gpu_stream_get_native_handle (owner),
                                    GPU_WRAP_MODE_BORROW, &error);
  if (wrapped == NULL)
    {
      test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED);
      g_test_skip ("the back end cannot wrap streams");
      return;
    }
  g_assert_no_error (error);
  hold = test_hold (owner);
  event = test_record (wrapped);
  g_assert_false (gpu_event_wait_timeout (event, 20000, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_TIMED_OUT);
  test_hold_release (hold);
  test_assert_ok (gpu_event_wait (event, NULL, &error), error);
  test_hold_free (hold);

  hold = test_hold (owner);
  g_cancellable_cancel (cancellable);
  g_assert_false (gpu_stream_synchronize (wrapped, cancellable, &error));
  test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
  test_hold_release (hold);
  test_synchronize (wrapped);
  test_hold_free (hold);

  hold = test_hold (owner);
  gpu_stream_synchronize_async (wrapped, NULL, test_take_result, &result);
  g_assert_false (gpu_stream_is_idle (wrapped, &error));
  g_assert_no_error (error);
  test_hold_release (hold);
  test_assert_ok (gpu_stream_synchronize_finish (wrapped, test_await (&result), &error), error);
  test_hold_free (hold);
}

static void
stream_synchronize_async (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
  g_autoptr (GAsyncResult) result = NULL;
  g_autoptr (GAsyncResult) idle = NULL;
  guint8 value = 3;

  test_assert_ok (gpu_stream_fill (fixture->stream, GPU_MEMORY (buffer), 0, SIZE, &value, 1,
                                   &error), error);
  gpu_stream_synchronize_async (fixture->stream, NULL, test_take_result, &result);
  g_assert_null (result);
  test_assert_ok (gpu_stream_synchronize_finish (fixture->stream, test_await (&result), &error),
                  error);
  g_assert_true (gpu_stream_is_idle (fixture->stream, &error));
  gpu_stream_synchronize_async (fixture->stream, NULL, test_take_result, &idle);
  g_assert_null (idle);
  test_assert_ok (gpu_stream_synchronize_finish (fixture->stream, test_await (&idle), &error),
                  error);
}

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
  test_add ("copy", stream_copy);
  test_add ("copy-within", stream_copy_within);
  test_add ("write-read", stream_write_read);
  test_add ("keeps-bytes-alive", stream_keeps_bytes_alive);
  test_add ("fill", stream_fill);
  test_add ("copy-region", stream_copy_region);
  test_add ("write-region", stream_write_region);
  test_add ("read-region", stream_read_region);
  test_add ("fill-region", stream_fill_region);
  test_add ("slices", stream_slices);
  test_add ("migrate", stream_migrate);
  test_add ("map", stream_map);
  test_add ("counters", stream_counters);
  test_add ("wait-event", stream_wait_event);
  test_add ("flush-barrier", stream_flush_barrier);
  test_add ("out-of-order", stream_out_of_order);
  test_add ("out-of-order-freed", stream_out_of_order_freed);
  test_add ("properties", stream_properties);
  test_add ("priority", stream_priority);
  test_add ("wrapped", stream_wrapped);
  test_add ("wrapped-foreign", stream_wrapped_foreign);
  test_add ("wrapped-after-owner", stream_wrapped_after_owner);
  test_add ("synchronize-async", stream_synchronize_async);
  return test_run ();
}
