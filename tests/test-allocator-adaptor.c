/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Adaptors: statistics, limits, logging and deferred frees, with every way of freeing memory. */
#include "config.h"

#include <fcntl.h>
#include <glib/gstdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test-allocator-util.h"

#define MIB (1024 * 1024)

static gint64
get_counter (GpuStatisticsAllocator *allocator, const char *name)
{
  g_autoptr (GVariant) counters = gpu_statistics_allocator_get_counters (allocator);
  gint64 from_property;
  gint64 value;

  g_assert_true (g_variant_lookup (counters, name, "x", &value));
  g_object_get (allocator, name, &from_property, NULL);
  g_assert_cmpint (value, ==, from_property);

  return value;
}

/* Reads a single property, because another thread may free memory between two reads. */
static gint64
get_current (GpuStatisticsAllocator *allocator)
{
  gint64 current;

  g_object_get (allocator, "current-bytes", &current, NULL);
  return current;
}

static void
assert_bytes (GpuStatisticsAllocator *allocator, gint64 current, gint64 peak, gint64 total)
{
  g_assert_cmpint (get_counter (allocator, "current-bytes"), ==, current);
  g_assert_cmpint (get_counter (allocator, "peak-bytes"), ==, peak);
  g_assert_cmpint (get_counter (allocator, "total-bytes"), ==, total);
}

static void
assert_count (GpuStatisticsAllocator *allocator, gint64 current, gint64 peak, gint64 total)
{
  g_assert_cmpint (get_counter (allocator, "current-count"), ==, current);
  g_assert_cmpint (get_counter (allocator, "peak-count"), ==, peak);
  g_assert_cmpint (get_counter (allocator, "total-count"), ==, total);
}

static void
assert_popped (GpuStatisticsAllocator *allocator, gint64 current, gint64 peak, gint64 total)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) counters = gpu_statistics_allocator_pop (allocator, &error);
  const char *const names[] = { "current-bytes", "peak-bytes", "total-bytes" };
  const gint64 expected[] = { current, peak, total };

  g_assert_no_error (error);

  for (guint i = 0; i < 3; i++)
    {
      gint64 value;

      g_assert_true (g_variant_lookup (counters, names[i], "x", &value));
      g_assert_cmpint (value, ==, expected[i]);
    }
}

static void
assert_memory_info (GpuAllocator *allocator, guint64 free_size, guint64 total_size)
{
  g_autoptr (GError) error = NULL;
  guint64 sizes[2];

  test_assert_ok (gpu_allocator_get_memory_info (allocator, &sizes[0], &sizes[1], &error), error);
  g_assert_cmpuint (sizes[0], ==, free_size);
  g_assert_cmpuint (sizes[1], ==, total_size);
}

/* An adaptor returns the memory of its upstream with unchanged properties. */
static void
adaptor_forwards (TestFixture *fixture)
{
  g_autoptr (GpuAllocator) upstream = test_deferred (fixture);
  g_autoptr (GOutputStream) output = g_memory_output_stream_new_resizable ();
  GpuAllocator *adaptors[] =
  {
    GPU_ALLOCATOR (gpu_limit_allocator_new (upstream, MIB)),
    GPU_ALLOCATOR (gpu_statistics_allocator_new (upstream)),
    GPU_ALLOCATOR (gpu_tracking_allocator_new (upstream, 0)),
    GPU_ALLOCATOR (gpu_logging_allocator_new (upstream, output)),
    GPU_ALLOCATOR (gpu_oom_allocator_new (upstream)),
    GPU_ALLOCATOR (gpu_deferred_free_allocator_new (upstream))
  };

  for (guint i = 0; i < G_N_ELEMENTS (adaptors); i++)
    {
      g_autoptr (GpuAllocator) seen = NULL;

      test_check_allocator (fixture, adaptors[i], GPU_TYPE_BUFFER);
      g_object_get (adaptors[i], "upstream", &seen, NULL);
      g_assert_true (seen == upstream);
      g_assert_true (test_get_object (adaptors[i], "upstream")
                     == upstream);
      g_object_unref (adaptors[i]);
    }
}

static void
adaptor_limit (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuAllocator) upstream = test_deferred (fixture);
  g_autoptr (GpuLimitAllocator) limit = gpu_limit_allocator_new (upstream, 10000);
  GpuAllocator *allocator = GPU_ALLOCATOR (limit);
  g_autoptr (GpuMemory) one = test_alloc (allocator, 6000);
  g_autoptr (GpuMemory) other = test_alloc (allocator, 4000);

  g_assert_null (gpu_allocator_alloc (allocator, 1, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_OUT_OF_DEVICE_MEMORY, "1 bytes", "limit of 10000",
                         "10000 are in use");
  test_check_memory (fixture, one);

  g_clear_object (&other);
  g_assert_cmpuint (test_get_number (limit, "active-bytes"), ==, 6000);
  assert_memory_info (allocator, 4000, 10000);

  g_object_set (limit, "limit", (guint64) 5000, NULL);
  g_assert_null (gpu_allocator_alloc (allocator, 1, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_OUT_OF_DEVICE_MEMORY, "limit of 5000", "6000 are in use");
  assert_memory_info (allocator, 0, 5000);

  gpu_allocator_free (allocator, one);
  g_assert_cmpuint (test_get_number (limit, "active-bytes"), ==, 0);
  other = test_alloc (allocator, 5000);
}

/* Failed requests do not count. */
static void
adaptor_limit_failed (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TestAllocator) upstream = test_allocator_new (fixture);
  g_autoptr (GpuLimitAllocator) limit = gpu_limit_allocator_new (GPU_ALLOCATOR (upstream), 10000);

  upstream->gives = TEST_GIVES_ERROR;
  g_assert_null (gpu_allocator_alloc (GPU_ALLOCATOR (limit), 9000, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_OUT_OF_DEVICE_MEMORY, "no room in the test");
  g_assert_cmpuint (test_get_number (limit, "active-bytes"), ==, 0);
  g_assert_cmpuint (test_get_number (limit, "limit"), ==, 10000);
}

/* Slices and mappings keep the memory allocated. The release of the last of these objects frees the
 * memory exactly once. */
static void
adaptor_freed_once (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuAllocator) upstream = test_deferred (fixture);
  g_autoptr (GpuStatisticsAllocator) statistics = gpu_statistics_allocator_new (upstream);
  GpuAllocator *allocator = GPU_ALLOCATOR (statistics);
  g_autoptr (GpuMemory) memory = test_alloc (allocator, 4096);
  g_autoptr (GpuBuffer) slice = gpu_buffer_slice (GPU_BUFFER (memory), 0, 1024, &error);
  g_autoptr (GpuMapping) mapping = NULL;

  g_assert_no_error (error);
  gpu_memory_release (memory);
  assert_bytes (statistics, 4096, 4096, 4096);
  mapping = gpu_buffer_map (slice, NULL, GPU_MAP_FLAGS_READ, 0, 16, NULL, &error);
  g_assert_no_error (error);
  g_clear_object (&slice);
  assert_bytes (statistics, 4096, 4096, 4096);
  g_clear_object (&mapping);
  test_poll (get_current (statistics) == 0);
  assert_bytes (statistics, 0, 4096, 4096);
  g_clear_object (&memory);

  memory = test_alloc (allocator, 100);
  gpu_memory_release (memory);
  gpu_allocator_free (allocator, memory);
  gpu_memory_release (memory);
  g_clear_object (&memory);
  assert_bytes (statistics, 0, 4096, 4196);

  memory = test_alloc (upstream, 100);
  gpu_allocator_free (allocator, memory);
  g_assert_false (gpu_memory_is_released (memory));
  assert_bytes (statistics, 0, 4096, 4196);
  assert_count (statistics, 0, 1, 2);
}

static void
adaptor_statistics (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuAllocator) upstream = test_deferred (fixture);
  g_autoptr (GpuStatisticsAllocator) statistics = gpu_statistics_allocator_new (upstream);
  GpuAllocator *allocator = GPU_ALLOCATOR (statistics);
  g_autoptr (GpuMemory) one = test_alloc (allocator, 1000);
  g_autoptr (GpuMemory) two = test_alloc (allocator, 200);
  g_autoptr (GpuMemory) three = NULL;

  g_clear_object (&two);
  assert_bytes (statistics, 1000, 1200, 1200);
  assert_count (statistics, 1, 2, 2);

  gpu_statistics_allocator_push (statistics);
  two = test_alloc (allocator, 50);
  gpu_statistics_allocator_push (statistics);
  three = test_alloc (allocator, 500);
  g_clear_object (&three);
  g_clear_object (&one);
  assert_popped (statistics, -1000, 500, 500);
  assert_popped (statistics, -950, 550, 550);
  assert_bytes (statistics, 50, 1550, 1750);
  assert_count (statistics, 1, 3, 4);

  g_assert_null (gpu_statistics_allocator_pop (statistics, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "no push");
}

static gpointer
push_in_thread (gpointer allocator)
{
  gpu_statistics_allocator_push (allocator);

  return NULL;
}

static gpointer
pop_in_thread (gpointer allocator)
{
  g_autoptr (GError) error = NULL;

  g_assert_null (gpu_statistics_allocator_pop (allocator, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "no push");

  return NULL;
}

/* A thread never pops the counters of a thread that has exited, although the addresses of threads
 * are reused. */
static void
adaptor_statistics_threads (TestFixture *fixture)
{
  g_autoptr (GpuAllocator) upstream = test_deferred (fixture);
  g_autoptr (GpuStatisticsAllocator) statistics = gpu_statistics_allocator_new (upstream);

  for (guint i = 0; i < 20; i++)
    {
      g_thread_join (g_thread_new ("push", push_in_thread, statistics));
      g_thread_join (g_thread_new ("pop", pop_in_thread, statistics));
    }

  gpu_statistics_allocator_push (statistics);
  assert_popped (statistics, 0, 0, 0);
}

/* Memory may outlive its adaptors, which may be freed in any order. */
static void
adaptor_outlived (TestFixture *fixture)
{
  g_autoptr (GpuAllocator) upstream = test_deferred (fixture);
  g_autoptr (GpuLimitAllocator) limit = gpu_limit_allocator_new (upstream, MIB);
  g_autoptr (GpuStatisticsAllocator) statistics =
    gpu_statistics_allocator_new (GPU_ALLOCATOR (limit));
  g_autoptr (GpuTrackingAllocator) tracking =
    gpu_tracking_allocator_new (GPU_ALLOCATOR (statistics), 8);
  g_autoptr (GpuMemory) memory = test_alloc (GPU_ALLOCATOR (tracking), 1000);
  g_autoptr (GpuMemory) other = test_alloc (GPU_ALLOCATOR (tracking), 1000);

  g_clear_object (&upstream);
  g_clear_object (&tracking);
  assert_bytes (statistics, 2000, 2000, 2000);
  test_check_memory (fixture, memory);
  g_clear_object (&memory);
  assert_bytes (statistics, 1000, 2000, 2000);
  g_clear_object (&statistics);
  g_clear_object (&limit);
}

/* The counts stay correct if upstream caches freed memory and returns it again. */
static void
adaptor_caching_upstream (TestFixture *fixture)
{
  g_autoptr (TestAllocator) upstream = test_allocator_new (fixture);
  g_autoptr (GpuStatisticsAllocator) inner =
    gpu_statistics_allocator_new (GPU_ALLOCATOR (upstream));
  g_autoptr (GpuLimitAllocator) limit = gpu_limit_allocator_new (GPU_ALLOCATOR (inner), 150);
  GpuAllocator *allocator = GPU_ALLOCATOR (limit);

  for (guint i = 1; i <= 10; i++)
    {
      g_autoptr (GpuMemory) memory = test_alloc (allocator, 100);

      assert_bytes (inner, 100, 100, 100 * i);
      gpu_allocator_free (allocator, memory);
      g_assert_false (gpu_memory_is_released (memory));
      assert_bytes (inner, 0, 100, 100 * i);
      g_assert_cmpuint (upstream->kept.length, ==, 1);
      gpu_allocator_free (allocator, memory);
      g_assert_cmpuint (upstream->kept.length, ==, 1);
    }
}

/* --- tracking ---------------------------------------------------------------- */

/* The list of blocks holds the address, size and tag of each live block. */
static void
adaptor_tracking (TestFixture *fixture)
{
  g_autoptr (GpuAllocator) upstream = test_deferred (fixture);
  g_autoptr (GpuTrackingAllocator) tracking = gpu_tracking_allocator_new (upstream, 0);
  GpuAllocator *allocator = GPU_ALLOCATOR (tracking);
  g_autoptr (GpuMemory) plain = test_alloc (allocator, 1000);
  g_autoptr (GpuMemory) weights = NULL;
  g_autoptr (GpuMemory) gone = NULL;
  g_autoptr (GVariant) blocks = NULL;
  g_autofree char *report = NULL;
  g_autofree char *tag = NULL;
  guint64 expected[2];

  g_object_set (tracking, "tag", "weights", NULL);
  weights = test_alloc (allocator, 234);
  gone = test_alloc (allocator, 10);
  g_object_get (tracking, "tag", &tag, NULL);
  g_assert_cmpstr (tag, ==, "weights");
  g_object_set (tracking, "tag", NULL, NULL);
  g_clear_object (&gone);

  blocks = gpu_tracking_allocator_list_blocks (tracking);
  g_assert_cmpstr (g_variant_get_type_string (blocks), ==, "aa{sv}");
  g_assert_cmpuint (g_variant_n_children (blocks), ==, 2);
  expected[0] = gpu_memory_get_device_address (plain) != 0 ? gpu_memory_get_device_address (plain)
                                                           : gpu_memory_get_native_handle (plain);

  for (guint i = 0; i < 2; i++)
    {
      g_autoptr (GVariant) block = g_variant_get_child_value (blocks, i);
      const char *name = NULL;
      guint64 address = 0;
      guint64 size = 0;
      gint64 age = -1;

      g_assert_true (g_variant_lookup (block, "address", "t", &address));
      g_assert_true (g_variant_lookup (block, "size", "t", &size));
      g_assert_true (g_variant_lookup (block, "age", "x", &age));
      g_assert_true (g_variant_lookup (block, "tag", "&s", &name) == (i == 1));
      g_assert_cmpuint (size, ==, i == 0 ? 1000 : 234);
      g_assert_cmpint (age, >=, 0);
      g_assert_cmpstr (name, ==, i == 0 ? NULL : "weights");
      g_assert_true ((address == expected[0]) == (i == 0));
    }

  report = gpu_tracking_allocator_report (tracking);
  g_assert_true (g_str_has_prefix (report, "2 in use, 1234 bytes:\n"));
  g_assert_nonnull (strstr (report, ": 234 bytes, for "));
  g_assert_nonnull (strstr (report, ", 'weights'\n"));
  g_clear_object (&weights);
  gpu_memory_release (plain);
  g_clear_pointer (&report, g_free);
  report = gpu_tracking_allocator_report (tracking);
  g_assert_cmpstr (report, ==, "");
}

static void
check_usage (GpuTrackingAllocator *tracking, const char *tag, guint64 bytes, guint64 count,
             guint64 peak_bytes, guint64 peak_count)
{
  g_autoptr (GVariant) usage = NULL;

  g_object_get (tracking, "usage", &usage, NULL);
  for (gsize i = 0; i < g_variant_n_children (usage); i++)
    {
      g_autoptr (GVariant) entry = g_variant_get_child_value (usage, i);
      const char *name = NULL;
      guint64 got[4];

      g_variant_lookup (entry, "tag", "&s", &name);
      if (g_strcmp0 (name, tag) != 0)
        continue;
      g_assert_true (g_variant_lookup (entry, "bytes", "t", &got[0])
                     && g_variant_lookup (entry, "count", "t", &got[1])
                     && g_variant_lookup (entry, "peak-bytes", "t", &got[2])
                     && g_variant_lookup (entry, "peak-count", "t", &got[3]));
      g_assert_cmpuint (got[0], ==, bytes);
      g_assert_cmpuint (got[1], ==, count);
      g_assert_cmpuint (got[2], ==, peak_bytes);
      g_assert_cmpuint (got[3], ==, peak_count);
      return;
    }
  g_assert_cmpuint (bytes + count + peak_bytes + peak_count, ==, 0);
}

static char *
find_tag (GpuTrackingAllocator *tracking, guint64 size, gpointer data)
{
  return size == 1000 ? g_strdup ("large") : NULL;
}

/* The usage has the memory of each tag now, and at the time of the peak of all memory. */
static void
adaptor_usage (TestFixture *fixture)
{
  g_autoptr (GpuAllocator) upstream = test_deferred (fixture);
  g_autoptr (GpuTrackingAllocator) tracking = gpu_tracking_allocator_new (upstream, 0);
  GpuAllocator *allocator = GPU_ALLOCATOR (tracking);
  g_autoptr (GpuMemory) plain = test_alloc (allocator, 100);
  g_autoptr (GpuMemory) large = NULL;
  g_autoptr (GpuMemory) named = NULL;
  g_autoptr (GpuMemory) later = NULL;
  gulong handler = g_signal_connect (tracking, "find-tag", G_CALLBACK (find_tag), NULL);

  large = test_alloc (allocator, 1000);
  g_object_set (tracking, "tag", "named", NULL);
  named = test_alloc (allocator, 2000);
  check_usage (tracking, NULL, 100, 1, 100, 1);
  check_usage (tracking, "large", 1000, 1, 1000, 1);
  check_usage (tracking, "named", 2000, 1, 2000, 1);
  g_clear_object (&large);
  check_usage (tracking, "large", 0, 0, 1000, 1);
  g_object_set (tracking, "tag", "later", NULL);
  /* The tag of a handler takes precedence. */
  large = test_alloc (allocator, 1000);
  check_usage (tracking, "large", 1000, 1, 1000, 1);
  g_clear_object (&large);
  later = test_alloc (allocator, 500);
  check_usage (tracking, "later", 500, 1, 0, 0);
  g_assert_cmpuint (test_get_number (tracking, "peak-bytes"), ==, 3100);
  g_clear_object (&later);
  check_usage (tracking, "later", 0, 0, 0, 0);
  later = test_alloc (allocator, 1001);
  g_assert_cmpuint (test_get_number (tracking, "peak-bytes"), ==, 3101);
  check_usage (tracking, "large", 0, 0, 0, 0);
  check_usage (tracking, "later", 1001, 1, 1001, 1);
  g_signal_handler_disconnect (tracking, handler);
  g_object_set (tracking, "tag", NULL, NULL);
  large = test_alloc (allocator, 1);
  check_usage (tracking, NULL, 101, 2, 101, 2);
  g_clear_object (&tracking);
}

static void
adaptor_backtrace (TestFixture *fixture)
{
#ifdef HAVE_BACKTRACE
  g_autoptr (GpuAllocator) upstream = test_deferred (fixture);
  g_autoptr (GpuTrackingAllocator) tracking = gpu_tracking_allocator_new (upstream, 16);
  g_autoptr (GpuMemory) memory = test_alloc (GPU_ALLOCATOR (tracking), 1000);
  g_autofree char *report = gpu_tracking_allocator_report (tracking);
  g_autoptr (GVariant) blocks = gpu_tracking_allocator_list_blocks (tracking);
  g_autoptr (GVariant) block = g_variant_get_child_value (blocks, 0);
  g_autoptr (GVariant) backtrace = g_variant_lookup_value (block, "backtrace",
                                                           G_VARIANT_TYPE ("at"));

  g_assert_cmpuint (test_get_number (tracking, "backtrace-depth"), ==, 16);
  g_assert_nonnull (backtrace);
  g_assert_cmpuint (g_variant_n_children (backtrace), >, 3);
  g_assert_cmpuint (g_variant_n_children (backtrace), <=, 16);
  g_assert_nonnull (strstr (report, "test-allocator-adaptor"));
#else
  g_test_skip ("the C library has no backtrace()");
#endif
}

/* If "warn-leaks" is set, finalizing the allocator warns of memory that is still in use. */
static void
adaptor_warns (TestFixture *fixture)
{
  g_autoptr (GpuAllocator) upstream = test_deferred (fixture);
  g_autoptr (GpuTrackingAllocator) tracking = gpu_tracking_allocator_new (upstream, 0);
  g_autoptr (GpuMemory) memory = test_alloc (GPU_ALLOCATOR (tracking), 1000);

  g_object_set (tracking, "warn-leaks", TRUE, NULL);
  g_test_expect_message ("gpumem", G_LOG_LEVEL_WARNING, "*memory is in use*1000 bytes*");
  g_clear_object (&tracking);
  g_test_assert_expected_messages ();

  g_clear_object (&memory);
  tracking = gpu_tracking_allocator_new (upstream, 0);
  g_object_set (tracking, "warn-leaks", TRUE, NULL);
  memory = test_alloc (GPU_ALLOCATOR (tracking), 1000);
  g_clear_object (&memory);
}

/* --- logging ----------------------------------------------------------------- */

typedef struct
{
  char    action[32];
  guint64 pointer;
  gsize   size;
  guint64 stream;
} Line;

/* Parses and validates every line of the table. */
static GArray *
parse_log (const char *text, gsize size)
{
  g_autofree char *whole = g_strndup (text, size);
  g_auto (GStrv) lines = g_strsplit (whole, "\n", -1);
  GArray *parsed = g_array_new (FALSE, TRUE, sizeof (Line));
  guint n = g_strv_length (lines);

  g_assert_cmpuint (n, >=, 2);
  g_assert_cmpstr (lines[0], ==, "Thread,Time,Action,Pointer,Size,Stream");
  g_assert_cmpstr (lines[n - 1], ==, "");

  for (guint i = 1; i + 1 < n; i++)
    {
      g_auto (GStrv) fields = g_strsplit (lines[i], ",", -1);
      Line line;

      g_assert_cmpuint (g_strv_length (fields), ==, 6);
      g_assert_cmpuint (g_ascii_strtoull (fields[0], NULL, 10), >, 0);
      g_assert_true (g_regex_match_simple ("^[0-2]\\d:[0-5]\\d:[0-6]\\d\\.\\d{6}$", fields[1], 0,
                                           0));
      g_strlcpy (line.action, fields[2], sizeof line.action);
      g_assert_true (g_str_has_prefix (fields[3], "0x"));
      line.pointer = g_ascii_strtoull (fields[3], NULL, 16);
      line.size = g_ascii_strtoull (fields[4], NULL, 10);
      line.stream = g_ascii_strtoull (fields[5], NULL, 16);
      g_array_append_val (parsed, line);
    }

  return parsed;
}

static GArray *
parse_output (GOutputStream *output)
{
  GMemoryOutputStream *memory = G_MEMORY_OUTPUT_STREAM (output);

  return parse_log (g_memory_output_stream_get_data (memory),
                    g_memory_output_stream_get_data_size (memory));
}

static void
assert_line (GArray *lines, guint i, const char *action, guint64 pointer, gsize size,
             guint64 stream)
{
  const Line *line = &g_array_index (lines, Line, i);

  g_assert_cmpuint (i, <, lines->len);
  g_assert_cmpstr (line->action, ==, action);
  g_assert_cmphex (line->pointer, ==, pointer);
  g_assert_cmpuint (line->size, ==, size);
  g_assert_cmphex (line->stream, ==, stream);
}

static void
adaptor_logging (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TestAllocator) upstream = test_allocator_new (fixture);
  g_autoptr (GOutputStream) output = g_memory_output_stream_new_resizable ();
  g_autoptr (GpuLoggingAllocator) logging =
    gpu_logging_allocator_new (GPU_ALLOCATOR (upstream), output);
  GpuAllocator *allocator = GPU_ALLOCATOR (logging);
  guint64 stream = gpu_stream_get_native_handle (fixture->stream);
  g_autoptr (GpuMemory) one = test_alloc (allocator, 1000);
  g_autoptr (GpuMemory) two = gpu_allocator_alloc (allocator, 77, fixture->stream, &error);
  g_autoptr (GArray) lines = NULL;
  guint64 pointers[2] = { gpu_memory_get_device_address (one),
                          gpu_memory_get_device_address (two) };

  g_assert_no_error (error);

  if (pointers[0] == 0)
    {
      pointers[0] = gpu_memory_get_native_handle (one);
      pointers[1] = gpu_memory_get_native_handle (two);
    }

  g_clear_object (&one);
  upstream->gives = TEST_GIVES_ERROR;
  g_assert_null (gpu_allocator_alloc (allocator, 5, NULL, &error));
  g_clear_error (&error);
  g_assert_true (test_get_object (logging, "output") == output);
  test_assert_ok (gpu_logging_allocator_flush (logging, &error), error);
  lines = parse_output (output);
  g_assert_cmpuint (lines->len, ==, 4);
  assert_line (lines, 0, "allocate", pointers[0], 1000, 0);
  assert_line (lines, 1, "allocate", pointers[1], 77, stream);
  assert_line (lines, 2, "free", pointers[0], 1000, 0);
  assert_line (lines, 3, "allocate failure", 0, 5, 0);

  /* The last line is written after the last memory is freed. */
  g_clear_object (&logging);
  g_clear_object (&two);
  g_array_unref (lines);
  lines = parse_output (output);
  g_assert_cmpuint (lines->len, ==, 5);
  assert_line (lines, 4, "free", pointers[1], 77, stream);
}

static void
adaptor_logging_path (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *folder = g_dir_make_tmp ("gpumem-XXXXXX", &error);
  g_autofree char *path = g_build_filename (folder, "log.csv", NULL);
  g_autofree char *nowhere = g_build_filename (folder, "missing", "log.csv", NULL);
  g_autoptr (GpuAllocator) upstream = test_deferred (fixture);
  g_autofree char *text = NULL;
  gsize size;

  g_assert_null (gpu_logging_allocator_new_for_path (upstream, nowhere, &error));
  test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_NOT_FOUND, "missing");

  for (guint i = 0; i < 2; i++)
    {
      g_autoptr (GpuLoggingAllocator) logging =
        gpu_logging_allocator_new_for_path (upstream, path, &error);
      g_autoptr (GArray) lines = NULL;

      g_assert_no_error (error);

      for (guint j = 0; j < 500; j++)
        {
          g_autoptr (GpuMemory) memory = test_alloc (GPU_ALLOCATOR (logging), 100 + j);
        }

      g_clear_object (&logging);
      g_assert_true (g_file_get_contents (path, &text, &size, &error));
      lines = parse_log (text, size);
      g_clear_pointer (&text, g_free);
      g_assert_cmpuint (lines->len, ==, 1000);
      g_assert_cmpuint (g_array_index (lines, Line, 999).size, ==, 599);
    }

  g_assert_cmpint (g_remove (path), ==, 0);
  g_assert_cmpint (g_rmdir (folder), ==, 0);
}

/* Logs one allocation to @path. */
static void
log_to_path (GpuAllocator *upstream, const char *path)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuLoggingAllocator) logging =
    gpu_logging_allocator_new_for_path (upstream, path, &error);
  g_autoptr (GpuMemory) memory = NULL;

  g_assert_no_error (error);
  memory = test_alloc (GPU_ALLOCATOR (logging), 100);
  g_clear_object (&memory);
  test_assert_ok (gpu_logging_allocator_flush (logging, &error), error);
}

/* A log keeps a symbolic link, and the mode and the other names of the file. */
static void
check_links (GpuAllocator *upstream, const char *folder)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *real = g_build_filename (folder, "real", NULL);
  g_autofree char *other = g_build_filename (folder, "other", NULL);
  g_autofree char *name = g_build_filename (folder, "link", NULL);
  g_autofree char *text = NULL;
  g_autoptr (GArray) lines = NULL;
  struct stat status;
  gsize size;

  g_assert_true (g_file_set_contents (real, "earlier\n", -1, &error));
  g_assert_cmpint (g_chmod (real, 0600), ==, 0);
  g_assert_cmpint (link (real, other), ==, 0);
  g_assert_cmpint (symlink ("real", name), ==, 0);
  log_to_path (upstream, name);

  g_assert_true (g_file_test (name, G_FILE_TEST_IS_SYMLINK));
  g_assert_cmpint (stat (real, &status), ==, 0);
  g_assert_cmpuint (status.st_nlink, ==, 2);
  g_assert_cmpuint (status.st_mode & 0777, ==, 0600);
  g_assert_true (g_file_get_contents (other, &text, &size, &error));
  lines = parse_log (text, size);
  g_assert_cmpuint (lines->len, ==, 2);

  g_assert_cmpint (g_remove (name), ==, 0);
  g_assert_cmpint (g_remove (other), ==, 0);
  g_assert_cmpint (g_remove (real), ==, 0);
}

/* A log passes through a FIFO and fails for a folder. */
static void
check_no_file (GpuAllocator *upstream, const char *folder)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *path = g_build_filename (folder, "fifo", NULL);
  char text[4096];
  g_autoptr (GArray) lines = NULL;
  gssize size;
  int fd;

  g_assert_cmpint (mkfifo (path, 0600), ==, 0);
  fd = g_open (path, O_RDONLY | O_NONBLOCK | O_CLOEXEC, 0);
  g_assert_cmpint (fd, >=, 0);
  log_to_path (upstream, path);
  size = read (fd, text, sizeof text);
  g_assert_cmpint (size, >, 0);
  lines = parse_log (text, (gsize) size);
  g_assert_cmpuint (lines->len, ==, 2);
  g_assert_cmpint (close (fd), ==, 0);
  g_assert_cmpint (g_remove (path), ==, 0);

  g_assert_cmpint (g_mkdir (path, 0700), ==, 0);
  g_assert_null (gpu_logging_allocator_new_for_path (upstream, path, &error));
  test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_IS_DIRECTORY);
  g_assert_cmpint (g_rmdir (path), ==, 0);
}

static void
adaptor_logging_links (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *folder = g_dir_make_tmp ("gpumem-XXXXXX", &error);
  g_autoptr (GpuAllocator) upstream = test_deferred (fixture);

  check_links (upstream, folder);
  check_no_file (upstream, folder);
  g_assert_cmpint (g_rmdir (folder), ==, 0);
}

/* If no more output can be written, a flush fails once, and no memory leaks. */
static void
adaptor_logging_full (TestFixture *fixture)
{
  char room[8];
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuAllocator) upstream = test_deferred (fixture);
  g_autoptr (GOutputStream) output = g_memory_output_stream_new (room, sizeof room, NULL, NULL);
  g_autoptr (GpuLoggingAllocator) logging = gpu_logging_allocator_new (upstream, output);
  g_autoptr (GpuMemory) memory = test_alloc (GPU_ALLOCATOR (logging), 100);

  g_assert_false (gpu_logging_allocator_flush (logging, &error));
  test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_NO_SPACE);
  test_assert_ok (gpu_logging_allocator_flush (logging, &error), error);
  test_check_memory (fixture, memory);
}

/* An output whose flush takes long. */
#define N_FLUSHERS 4
#define N_FLUSHES  20
#define FLUSH_TIME 500              /* microseconds */

typedef struct
{
  GFilterOutputStream parent;
} SlowOutput;

typedef GFilterOutputStreamClass SlowOutputClass;

static GType slow_output_get_type (void);

G_DEFINE_TYPE (SlowOutput, slow_output, G_TYPE_FILTER_OUTPUT_STREAM)

static gboolean
slow_output_flush (GOutputStream *output, GCancellable *cancellable, GError **error)
{
  g_usleep (FLUSH_TIME);
  return TRUE;
}

static void
slow_output_class_init (SlowOutputClass *klass)
{
  G_OUTPUT_STREAM_CLASS (klass)->flush = slow_output_flush;
}

static void
slow_output_init (SlowOutput *output)
{
}

static gpointer
flush_often (gpointer data)
{
  for (guint i = 0; i < N_FLUSHES; i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GpuMemory) memory = test_alloc (GPU_ALLOCATOR (data), 100);

      test_assert_ok (gpu_logging_allocator_flush (data, &error), error);
    }
  return NULL;
}

/* A GOutputStream allows one operation at a time. Threads that flush wait for each other, and lose
 * no lines. */
static void
adaptor_logging_flush (TestFixture *fixture)
{
  g_autoptr (GpuAllocator) upstream = test_deferred (fixture);
  g_autoptr (GOutputStream) base = g_memory_output_stream_new_resizable ();
  g_autoptr (GOutputStream) output =
    g_object_new (slow_output_get_type (), "base-stream", base, NULL);
  g_autoptr (GpuLoggingAllocator) logging = gpu_logging_allocator_new (upstream, output);
  g_autoptr (GArray) lines = NULL;
  g_autoptr (GError) error = NULL;
  GThread *threads[N_FLUSHERS];

  for (guint i = 0; i < N_FLUSHERS; i++)
    threads[i] = g_thread_new ("flusher", flush_often, logging);
  for (guint i = 0; i < N_FLUSHERS; i++)
    g_thread_join (threads[i]);
  test_assert_ok (gpu_logging_allocator_flush (logging, &error), error);
  lines = parse_output (base);
  g_assert_cmpuint (lines->len, ==, 2 * N_FLUSHERS * N_FLUSHES);
}

/* --- failure ----------------------------------------------------------------- */

typedef struct
{
  GpuMemory *hog;
  guint64    size;
  guint      n_calls;
} Relief;

static gboolean
make_room (GpuOomAllocator *allocator G_GNUC_UNUSED, guint64 size, gpointer data)
{
  Relief *relief = data;

  relief->n_calls++;
  relief->size = size;

  if (relief->hog == NULL)
    return FALSE;

  g_clear_object (&relief->hog);

  return TRUE;
}

/* If the handler of "out-of-memory" frees memory, the adaptor repeats the request. */
static void
adaptor_failure (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuAllocator) upstream = test_deferred (fixture);
  g_autoptr (GpuLimitAllocator) limit = gpu_limit_allocator_new (upstream, 1000);
  g_autoptr (GpuOomAllocator) failure = gpu_oom_allocator_new (GPU_ALLOCATOR (limit));
  GpuAllocator *allocator = GPU_ALLOCATOR (failure);
  Relief relief = { test_alloc (allocator, 800), 0, 0 };
  g_autoptr (GpuMemory) memory = NULL;

  g_assert_null (gpu_allocator_alloc (allocator, 300, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_OUT_OF_DEVICE_MEMORY, "limit of 1000");

  g_signal_connect (failure, "out-of-memory", G_CALLBACK (make_room), &relief);
  memory = test_alloc (allocator, 300);
  g_assert_cmpuint (relief.n_calls, ==, 1);
  g_assert_cmpuint (relief.size, ==, 300);
  test_check_memory (fixture, memory);

  g_assert_null (gpu_allocator_alloc (allocator, 900, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_OUT_OF_DEVICE_MEMORY, "300 are in use");
  g_assert_cmpuint (relief.n_calls, ==, 2);
}

static gboolean
allocate_more (GpuAllocator *allocator, guint64 size, guint *n_calls)
{
  g_autoptr (GError) error = NULL;

  g_assert_cmpuint (++*n_calls, <, 10);
  g_assert_null (gpu_allocator_alloc (allocator, size, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_OUT_OF_DEVICE_MEMORY, "limit of 1000");
  return FALSE;
}

/* A handler that allocates with the same allocator is not called for its own allocation. */
static void
adaptor_failure_nested (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuAllocator) upstream = test_deferred (fixture);
  g_autoptr (GpuLimitAllocator) limit = gpu_limit_allocator_new (upstream, 1000);
  g_autoptr (GpuOomAllocator) failure = gpu_oom_allocator_new (GPU_ALLOCATOR (limit));
  guint n_calls = 0;

  g_signal_connect (failure, "out-of-memory", G_CALLBACK (allocate_more), &n_calls);
  g_assert_null (gpu_allocator_alloc (GPU_ALLOCATOR (failure), 1001, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_OUT_OF_DEVICE_MEMORY, "limit of 1000");
  g_assert_cmpuint (n_calls, ==, 1);
}

/* The handler is only called when upstream is out of memory. */
static void
adaptor_failure_other (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TestAllocator) upstream = test_allocator_new (fixture);
  g_autoptr (GpuOomAllocator) failure = gpu_oom_allocator_new (GPU_ALLOCATOR (upstream));
  Relief relief = { NULL, 0, 0 };

  g_signal_connect (failure, "out-of-memory", G_CALLBACK (make_room), &relief);
  upstream->gives = TEST_GIVES_NOTHING;
  g_assert_null (gpu_allocator_alloc (GPU_ALLOCATOR (failure), 300, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_FAILED, "neither");
  g_assert_cmpuint (relief.n_calls, ==, 0);
}

/* --- freeing later ------------------------------------------------------------ */

static void
assert_pending (GpuDeferredFreeAllocator *allocator, guint count, guint64 bytes)
{
  g_assert_cmpuint (test_get_number (allocator, "pending-count"), ==, count);
  g_assert_cmpuint (test_get_number (allocator, "pending-bytes"), ==, bytes);
}

static void
adaptor_deferred_free (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuAllocator) upstream = test_deferred (fixture);
  g_autoptr (GpuStatisticsAllocator) inner = gpu_statistics_allocator_new (upstream);
  g_autoptr (GpuDeferredFreeAllocator) lazy =
    gpu_deferred_free_allocator_new (GPU_ALLOCATOR (inner));
  g_autoptr (GpuStatisticsAllocator) outer = gpu_statistics_allocator_new (GPU_ALLOCATOR (lazy));
  GpuAllocator *allocator = GPU_ALLOCATOR (outer);
  g_autoptr (GpuMemory) memory = NULL;

  g_assert_cmpuint (test_get_number (lazy, "max-count"), ==, 10);
  g_assert_cmpuint (test_get_number (lazy, "max-bytes"), <, G_MAXUINT64);

  for (guint i = 1; i <= 10; i++)
    {
      memory = test_alloc (allocator, 100);

      if (i % 2 == 0)
        gpu_allocator_free (allocator, memory);

      g_clear_object (&memory);
      assert_pending (lazy, i, 100 * i);
      g_assert_cmpint (get_counter (outer, "current-bytes"), ==, 0);
      g_assert_cmpint (get_counter (inner, "current-bytes"), ==, 100 * i);
      g_assert_cmpuint (gpu_context_get_allocated_size (fixture->context), ==, 100 * i);
    }

  memory = test_alloc (allocator, 100);
  g_clear_object (&memory);
  assert_pending (lazy, 0, 0);
  g_assert_cmpint (get_counter (inner, "current-bytes"), ==, 0);
  g_assert_cmpuint (gpu_context_get_allocated_size (fixture->context), ==, 0);

  g_object_set (lazy, "max-bytes", (guint64) 1000, NULL);
  memory = test_alloc (allocator, 1001);
  g_clear_object (&memory);
  assert_pending (lazy, 0, 0);

  gpu_deferred_free_allocator_hold (lazy);
  memory = test_alloc (allocator, 1001);
  g_clear_object (&memory);
  assert_pending (lazy, 1, 1001);
  test_assert_ok (gpu_deferred_free_allocator_unhold (lazy, &error), error);
  assert_pending (lazy, 0, 0);
  g_assert_false (gpu_deferred_free_allocator_unhold (lazy, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "no hold");

  memory = test_alloc (allocator, 10);
  g_clear_object (&memory);
  gpu_allocator_trim (allocator, 100);
  assert_pending (lazy, 1, 10);
  gpu_allocator_trim (allocator, 0);
  assert_pending (lazy, 0, 0);
}

/* An adaptor does not free memory that it did not allocate, nor the memory of its upstream. */
static void
adaptor_free_foreign (TestFixture *fixture)
{
  g_autoptr (GpuAllocator) upstream = test_deferred (fixture);
  GpuAllocator *adaptors[] = {
    GPU_ALLOCATOR (gpu_deferred_free_allocator_new (upstream)),
    GPU_ALLOCATOR (gpu_limit_allocator_new (upstream, 1000)),
    GPU_ALLOCATOR (gpu_statistics_allocator_new (upstream)),
    GPU_ALLOCATOR (gpu_oom_allocator_new (upstream))
  };

  for (guint i = 0; i < G_N_ELEMENTS (adaptors); i++)
    {
      g_autoptr (GpuMemory) own = test_alloc (adaptors[i], 100);
      g_autoptr (GpuMemory) foreign = test_alloc (upstream, 100);
      g_autoptr (GpuMemory) other = test_alloc (adaptors[(i + 1) % G_N_ELEMENTS (adaptors)], 100);

      gpu_allocator_free (adaptors[i], foreign);
      gpu_allocator_free (adaptors[i], other);
      g_assert_false (gpu_memory_is_released (foreign));
      g_assert_false (gpu_memory_is_released (other));
      gpu_allocator_free (adaptors[i], own);
      g_assert_true (gpu_memory_is_released (own));
      gpu_allocator_free (adaptors[i], own);
    }

  for (guint i = 0; i < G_N_ELEMENTS (adaptors); i++)
    g_object_unref (adaptors[i]);
}

/* If upstream is out of memory, the adaptor frees the pending memory and repeats the request. */
static void
adaptor_deferred_free_room (TestFixture *fixture)
{
  g_autoptr (GpuAllocator) upstream = test_deferred (fixture);
  g_autoptr (GpuLimitAllocator) limit = gpu_limit_allocator_new (upstream, 1000);
  g_autoptr (GpuDeferredFreeAllocator) lazy =
    gpu_deferred_free_allocator_new (GPU_ALLOCATOR (limit));
  GpuAllocator *allocator = GPU_ALLOCATOR (lazy);
  g_autoptr (GpuMemory) memory = test_alloc (allocator, 800);
  g_autoptr (GpuMemory) kept = NULL;

  g_assert_cmpuint (test_get_number (lazy, "max-bytes"), ==, 200);
  g_object_set (lazy, "max-bytes", (guint64) 1000, NULL);
  g_clear_object (&memory);
  assert_pending (lazy, 1, 800);
  memory = test_alloc (allocator, 700);
  assert_pending (lazy, 0, 0);
  kept = test_alloc (allocator, 100);
  g_clear_object (&memory);
  assert_pending (lazy, 1, 700);

  /* Finalizing the adaptor frees pending memory. Memory released later is freed directly. */
  g_clear_object (&lazy);
  g_assert_cmpuint (test_get_number (limit, "active-bytes"), ==, 100);
  g_clear_object (&kept);
  g_assert_cmpuint (test_get_number (limit, "active-bytes"), ==, 0);
}

/* --- threads ------------------------------------------------------------------- */

#define N_THREADS 4
#define N_ROUNDS  200

static gpointer
work (gpointer data)
{
  GpuAllocator *allocator = data;
  GpuMemory *held[4] = { NULL };

  for (guint i = 0; i < N_ROUNDS; i++)
    {
      GpuMemory **place = &held[i % G_N_ELEMENTS (held)];

      if (*place != NULL && i % 3 == 0)
        gpu_allocator_free (allocator, *place);

      g_clear_object (place);
      *place = test_alloc (allocator, 64 + i);
    }

  for (guint i = 0; i < G_N_ELEMENTS (held); i++)
    g_clear_object (&held[i]);

  return NULL;
}

static void
adaptor_threads (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuAllocator) upstream = test_deferred (fixture);
  g_autoptr (GpuLimitAllocator) limit = gpu_limit_allocator_new (upstream, MIB);
  g_autoptr (GpuDeferredFreeAllocator) lazy =
    gpu_deferred_free_allocator_new (GPU_ALLOCATOR (limit));
  g_autoptr (GpuStatisticsAllocator) statistics =
    gpu_statistics_allocator_new (GPU_ALLOCATOR (lazy));
  g_autoptr (GpuTrackingAllocator) tracking =
    gpu_tracking_allocator_new (GPU_ALLOCATOR (statistics), 4);
  g_autoptr (GOutputStream) output = g_memory_output_stream_new_resizable ();
  g_autoptr (GpuLoggingAllocator) logging =
    gpu_logging_allocator_new (GPU_ALLOCATOR (tracking), output);
  g_autoptr (GHashTable) live = g_hash_table_new_full (g_int64_hash, g_int64_equal, g_free, NULL);
  g_autoptr (GArray) lines = NULL;
  g_autofree char *report = NULL;
  GThread *threads[N_THREADS];
  const gint64 total = N_THREADS * (64 * N_ROUNDS + N_ROUNDS * (N_ROUNDS - 1) / 2);

  for (guint i = 0; i < N_THREADS; i++)
    threads[i] = g_thread_new ("allocator", work, logging);

  for (guint i = 0; i < N_THREADS; i++)
    g_thread_join (threads[i]);

  g_assert_cmpint (get_counter (statistics, "current-bytes"), ==, 0);
  g_assert_cmpint (get_counter (statistics, "current-count"), ==, 0);
  g_assert_cmpint (get_counter (statistics, "total-bytes"), ==, total);
  g_assert_cmpint (get_counter (statistics, "total-count"), ==, N_THREADS * N_ROUNDS);
  g_assert_cmpint (get_counter (statistics, "peak-count"), <=, N_THREADS * 4);
  report = gpu_tracking_allocator_report (tracking);
  g_assert_cmpstr (report, ==, "");
  gpu_deferred_free_allocator_flush (lazy);
  g_assert_cmpuint (test_get_number (limit, "active-bytes"), ==, 0);

  /* In the log, no pointer is allocated again before it is freed, and all memory is freed */
  test_assert_ok (gpu_logging_allocator_flush (logging, &error), error);
  lines = parse_output (output);
  g_assert_cmpuint (lines->len, ==, 2 * N_THREADS * N_ROUNDS);

  for (guint i = 0; i < lines->len; i++)
    {
      const Line *line = &g_array_index (lines, Line, i);

      if (g_str_equal (line->action, "allocate"))
        g_assert_true (g_hash_table_add (live, g_memdup2 (&line->pointer, sizeof line->pointer)));
      else
        g_assert_true (g_hash_table_remove (live, &line->pointer));
    }

  g_assert_cmpuint (g_hash_table_size (live), ==, 0);
}

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
  test_add ("forwards", adaptor_forwards);
  test_add ("limit", adaptor_limit);
  test_add ("limit-failed", adaptor_limit_failed);
  test_add ("freed-once", adaptor_freed_once);
  test_add ("statistics", adaptor_statistics);
  test_add ("statistics-threads", adaptor_statistics_threads);
  test_add ("outlived", adaptor_outlived);
  test_add ("caching-upstream", adaptor_caching_upstream);
  test_add ("tracking", adaptor_tracking);
  test_add ("usage", adaptor_usage);
  test_add ("backtrace", adaptor_backtrace);
  test_add ("warns", adaptor_warns);
  test_add ("logging", adaptor_logging);
  test_add ("logging-path", adaptor_logging_path);
  test_add ("logging-links", adaptor_logging_links);
  test_add ("logging-full", adaptor_logging_full);
  test_add ("logging-flush", adaptor_logging_flush);
  test_add ("failure", adaptor_failure);
  test_add ("failure-other", adaptor_failure_other);
  test_add ("failure-nested", adaptor_failure_nested);
  test_add ("deferred-free", adaptor_deferred_free);
  test_add ("free-foreign", adaptor_free_foreign);
  test_add ("deferred-free-room", adaptor_deferred_free_room);
  test_add ("threads", adaptor_threads);

  return test_run ();
}
