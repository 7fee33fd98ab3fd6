/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Information and settings that only some drivers have, and copies between contexts. Each call
 * succeeds or fails with GPU_ERROR_NOT_SUPPORTED (parity rows D4, D7, D9, D17 to D21, D41, D43,
 * D56). */
#include "config.h"

#include "test-util.h"

#define SIZE 4096

static gboolean
is_cuda (TestFixture *fixture)
{
  return g_str_equal (gpu_device_get_backend (fixture->device), "cuda");
}

static void
assert_code (const GError *error, GpuError code)
{
  g_assert_nonnull (error);
  g_assert_cmpuint (error->domain, ==, GPU_ERROR);
  g_assert_cmpint (error->code, ==, (gint) code);
}

/* Returns @success. If @success is FALSE, checks that the error says that the back end does not
 * support @function. */
static gboolean
check_support (TestFixture *fixture, gboolean success, GError **error, const char *function)
{
  if (success)
    {
      g_assert_no_error (*error);
      g_assert_true (is_cuda (fixture));
      return TRUE;
    }
  test_assert_gpu_error (*error, GPU_ERROR_NOT_SUPPORTED, function);
  g_assert_false (is_cuda (fixture));
  return FALSE;
}

/* --- contexts ------------------------------------------------------------------------------- */

static void
driver_flags (TestFixture *fixture)
{
  const GpuContextFlags own = GPU_CONTEXT_FLAGS_OWN | GPU_CONTEXT_FLAGS_SCHED_BLOCKING
                              | GPU_CONTEXT_FLAGS_MAP_HOST;
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuContext) context = NULL;
  GpuContextFlags flags = 0;

  context = gpu_context_new (fixture->device, own, &error);
  g_assert_no_error (error);
  g_assert_cmpint (test_get_number (context, "flags") & own, ==, own);
  g_object_get (context, "flags", &flags, NULL);
  g_assert_cmpint (flags, ==, test_get_number (context, "flags"));

  g_assert_null (gpu_context_new (fixture->device,
                                  GPU_CONTEXT_FLAGS_SCHED_SPIN | GPU_CONTEXT_FLAGS_SCHED_YIELD,
                                  &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT,
                         "flags sched-spin | sched-yield cannot");
  g_assert_null (gpu_context_new (fixture->device, 1 << 20, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "0x100000");
  g_clear_object (&context);
  context = gpu_context_new (fixture->device, GPU_CONTEXT_FLAGS_SCHED_SPIN | GPU_CONTEXT_FLAGS_OWN,
                             &error);
  check_support (fixture, context != NULL, &error, "gpu_context_new");
}

static void
driver_api_version (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  guint version = 0;

  if (gpu_context_get_api_version (fixture->context, &version, &error))
    g_assert_cmpuint (version, >=, 1000);
  else
    test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_context_get_api_version");
}

static void
driver_cache_preference (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  GpuCachePreference preference = 17;
  gboolean success;

  success = gpu_context_get_cache_preference (fixture->context, &preference, &error);
  if (check_support (fixture, success, &error, "gpu_context_get_cache_preference"))
    g_assert_cmpint (preference, <=, GPU_CACHE_PREFERENCE_EQUAL);
  success = gpu_context_set_cache_preference (fixture->context, GPU_CACHE_PREFERENCE_L1, &error);
  check_support (fixture, success, &error, "gpu_context_set_cache_preference");
  g_assert_false (gpu_context_set_cache_preference (fixture->context, 17, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "17");
}

static void
driver_priority_range (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  int least = 77;
  int greatest = 77;

  test_assert_ok (gpu_context_get_priority_range (fixture->context, &least, &greatest, &error),
                  error);
  g_assert_cmpint (greatest, <=, least);
  if ((gpu_device_get_capabilities (fixture->device) & GPU_CAPABILITIES_PRIORITY) == 0)
    g_assert_cmpint (least - greatest, ==, 0);
  else
    {
      g_autoptr (GpuStream) stream = gpu_stream_new_full (fixture->context, NULL,
                                                          GPU_STREAM_FLAGS_NONE, greatest,
                                                          &error);

      g_assert_no_error (error);
      g_assert_cmpint (gpu_stream_get_priority (stream), ==, greatest);
    }
}

static void
driver_current_context (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuContext) other = NULL;
  gboolean success = gpu_context_push_current (fixture->context, &error);

  if (!check_support (fixture, success, &error, "gpu_context_push_current"))
    {
      success = gpu_context_pop_current (fixture->context, &error);
      check_support (fixture, success, &error, "gpu_context_pop_current");
      return;
    }
  other = gpu_context_new (fixture->device, GPU_CONTEXT_FLAGS_OWN, &error);
  g_assert_no_error (error);
  g_assert_false (gpu_context_pop_current (other, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_context_pop_current");
  test_assert_ok (gpu_context_pop_current (fixture->context, &error), error);
}

static void
driver_address_attributes (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
  g_autoptr (GVariant) attributes = NULL;
  guint64 address = gpu_memory_get_device_address (GPU_MEMORY (buffer));
  guint64 start = 0;

  attributes = gpu_context_get_address_attributes (fixture->context, address, &error);
  if (!check_support (fixture, attributes != NULL, &error, "gpu_context_get_address_attributes"))
    return;
  g_assert_true (g_variant_lookup (attributes, "range-start", "t", &start));
  g_assert_cmpuint (start, <=, address);
}

static void
driver_profiler (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  gboolean success = gpu_context_start_profiler (fixture->context, &error);

  check_support (fixture, success, &error, "gpu_context_start_profiler");
  success = gpu_context_stop_profiler (fixture->context, &error);
  check_support (fixture, success, &error, "gpu_context_stop_profiler");
}

static void
driver_uninitialised (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuContext) context = g_object_new (GPU_TYPE_CONTEXT, NULL);
  GpuCachePreference preference;
  guint version;
  int least;
  int greatest;

  g_assert_cmpint (test_get_number (context, "flags"), ==, GPU_CONTEXT_FLAGS_NONE);
  g_assert_false (gpu_context_get_api_version (context, &version, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "never initialised");
  g_assert_false (gpu_context_get_cache_preference (context, &preference, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "never initialised");
  g_assert_false (gpu_context_get_priority_range (context, &least, &greatest, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "never initialised");
  g_assert_false (gpu_context_push_current (context, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "never initialised");
  g_assert_null (gpu_context_get_address_attributes (context, 16, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "never initialised");
  g_assert_false (gpu_context_enable_peer_access (context, context, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "never initialised");
}

/* --- streams ------------------------------------------------------------------------------ */

static void
driver_default_streams (TestFixture *fixture)
{
  static const guint64 handles[] = { GPU_STREAM_HANDLE_DEFAULT, GPU_STREAM_HANDLE_LEGACY,
                                     GPU_STREAM_HANDLE_PER_THREAD };
  g_autoptr (GError) error = NULL;

  for (guint i = 0; i < G_N_ELEMENTS (handles); i++)
    {
      g_autoptr (GpuStream) stream = NULL;
      g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE, 1);
      g_autoptr (GBytes) expected = test_value_bytes (SIZE, 9);
      guint8 value = 9;

      stream = gpu_stream_new_wrapped (fixture->context, handles[i], GPU_WRAP_MODE_BORROW, &error);
      if (!is_cuda (fixture))
        {
          g_assert_null (stream);
          assert_code (error, GPU_ERROR_INVALID_ARGUMENT);
          g_clear_error (&error);
          continue;
        }
      g_assert_no_error (error);
      test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (buffer), 0, SIZE, &value, 1, &error),
                      error);
      test_assert_content (buffer, expected);
    }
}

/* Records an event with a time on a stream without profiling, whose other events have no times. */
static void
driver_timing (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuEvent) before = NULL;
  g_autoptr (GpuEvent) after = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
  guint8 value = 1;
  gint64 nanoseconds = -1;

  g_assert_null (gpu_stream_record (fixture->stream, GPU_EVENT_FLAGS_TIMING
                                    | GPU_EVENT_FLAGS_INTERPROCESS, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "flags timing | interprocess cannot");
  before = gpu_stream_record (fixture->stream, GPU_EVENT_FLAGS_TIMING, &error);
  if (test_is_opencl (fixture))
    {
      g_assert_null (before);
      test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_stream_record", "flags timing",
                             "GPU_STREAM_FLAGS_PROFILING");
      return;
    }
  g_assert_no_error (error);
  test_assert_ok (gpu_stream_fill (fixture->stream, GPU_MEMORY (buffer), 0, SIZE, &value, 1,
                                   &error), error);
  after = gpu_stream_record (fixture->stream, GPU_EVENT_FLAGS_TIMING, &error);
  g_assert_no_error (error);
  test_assert_ok (gpu_event_wait (after, NULL, &error), error);
  test_assert_ok (gpu_event_get_elapsed (after, before, &nanoseconds, &error), error);
  g_assert_cmpint (nanoseconds, >=, 0);
}

/* Times of two contexts cannot be compared, even if the driver would compare them. */
static void
driver_timing_contexts (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuContext) other = NULL;
  g_autoptr (GpuStream) stream = NULL;
  g_autoptr (GpuStream) far_stream = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuBuffer) far_buffer = NULL;
  g_autoptr (GpuEvent) event = NULL;
  g_autoptr (GpuEvent) far = NULL;
  gint64 nanoseconds;

  if (!test_has (fixture, GPU_CAPABILITIES_PROFILING))
    return;
  other = gpu_context_new (fixture->device, GPU_CONTEXT_FLAGS_NONE, &error);
  g_assert_no_error (error);
  far_stream = gpu_stream_new (other, GPU_STREAM_FLAGS_PROFILING, &error);
  g_assert_no_error (error);
  far_buffer = gpu_buffer_new (other, GPU_MEMORY_FLAGS_NONE, SIZE, &error);
  g_assert_no_error (error);
  stream = test_stream (fixture, GPU_STREAM_FLAGS_PROFILING);
  buffer = test_buffer (fixture, SIZE);
  test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (buffer), 0, SIZE, "t", 1,
                                   &error), error);
  test_assert_ok (gpu_stream_fill (far_stream, GPU_MEMORY (far_buffer), 0, SIZE,
                                   (const guint8 *) "t", 1, &error), error);
  event = test_record (stream);
  far = test_record (far_stream);
  test_synchronize (stream);
  test_synchronize (far_stream);
  g_assert_false (gpu_event_get_elapsed (far, event, &nanoseconds, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_event_get_elapsed", "contexts");
}

/* --- between contexts ---------------------------------------------------------------------- */

/* Runs only if the driver has two devices with peer access. */
static void
use_peer (TestFixture *fixture, GpuDevice *peer)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuContext) other = gpu_context_new (peer, GPU_CONTEXT_FLAGS_NONE, &error);
  g_autoptr (GVariant) rank = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  g_autoptr (GpuBuffer) near = test_buffer (fixture, SIZE);
  g_autoptr (GpuBuffer) far = NULL;

  g_assert_no_error (error);
  rank = test_take_attribute (gpu_device_get_peer_attributes (fixture->device, peer, &error),
                              "performance-rank");
  g_assert_no_error (error);
  g_assert_nonnull (rank);
  test_assert_ok (gpu_context_enable_peer_access (fixture->context, other, &error), error);
  g_assert_false (gpu_context_enable_peer_access (fixture->context, other, &error));
  test_assert_gpu_error (error, GPU_ERROR_BUSY, "gpu_context_enable_peer_access");
  far = gpu_buffer_new_from_bytes (other, GPU_MEMORY_FLAGS_NONE, bytes, &error);
  g_assert_no_error (error);
  test_assert_ok (gpu_stream_copy (fixture->stream, GPU_MEMORY (near), 0, GPU_MEMORY (far), 0, SIZE,
                                   &error), error);
  test_assert_content (near, bytes);
  test_assert_ok (gpu_context_disable_peer_access (fixture->context, other, &error), error);
  g_assert_false (gpu_context_disable_peer_access (fixture->context, other, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_context_disable_peer_access");
}

static void
driver_peers (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuContext) other = gpu_context_new (fixture->device, GPU_CONTEXT_FLAGS_NONE, &error);
  GPtrArray *devices = test_devices ();
  gboolean can_access = TRUE;

  g_assert_no_error (error);
  test_assert_ok (gpu_device_can_access_peer (fixture->device, fixture->device, &can_access,
                                              &error), error);
  g_assert_false (can_access);
  for (guint i = 0; i < devices->len; i++)
    {
      test_assert_ok (gpu_device_can_access_peer (fixture->device, devices->pdata[i], &can_access,
                                                  &error), error);
      if (can_access)
        use_peer (fixture, devices->pdata[i]);
    }
  g_assert_null (gpu_device_get_peer_attributes (fixture->device, fixture->device, &error));
  assert_code (error, is_cuda (fixture) ? GPU_ERROR_INVALID_ARGUMENT : GPU_ERROR_NOT_SUPPORTED);
  g_clear_error (&error);
  g_assert_false (gpu_context_enable_peer_access (fixture->context, fixture->context, &error));
  assert_code (error, is_cuda (fixture) ? GPU_ERROR_INVALID_ARGUMENT : GPU_ERROR_NOT_SUPPORTED);
  g_clear_error (&error);
  g_assert_false (gpu_context_disable_peer_access (fixture->context, other, &error));
  g_clear_error (&error);
}

/* Copies to and from another context of the same back end are ordered after earlier work. */
static void
driver_copy_peer (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuContext) context = gpu_context_new (fixture->device, GPU_CONTEXT_FLAGS_OWN, &error);
  g_autoptr (GpuStream) stream = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  g_autoptr (GpuBuffer) source = test_buffer (fixture, SIZE);
  g_autoptr (GpuBuffer) far = NULL;
  g_autoptr (GpuBuffer) back = test_buffer (fixture, SIZE);

  g_assert_no_error (error);
  stream = gpu_context_get_default_stream (context);
  far = gpu_buffer_new (context, GPU_MEMORY_FLAGS_NONE, SIZE, &error);
  g_assert_no_error (error);
  test_assert_ok (gpu_stream_write (fixture->stream, GPU_MEMORY (source), 0, bytes, &error), error);
  test_assert_ok (gpu_stream_copy (stream, GPU_MEMORY (far), 0, GPU_MEMORY (source), 0, SIZE,
                                   &error), error);
  test_assert_ok (gpu_stream_copy (fixture->stream, GPU_MEMORY (back), 0, GPU_MEMORY (far), 0,
                                   SIZE, &error), error);
  test_assert_content (back, bytes);

  /* The source or the destination must belong to the stream's context. */
  g_assert_false (gpu_stream_copy (stream, GPU_MEMORY (back), 0, GPU_MEMORY (source), 0, SIZE,
                                   &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_stream_copy", "contexts");
}

static void
driver_copy_peer_dropped (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  g_autoptr (GpuBuffer) back = test_buffer (fixture, SIZE);

  for (guint i = 0; i < 10; i++)
    {
      g_autoptr (GpuContext) context = gpu_context_new (fixture->device, GPU_CONTEXT_FLAGS_OWN,
                                                        &error);
      g_autoptr (GpuBuffer) far = NULL;

      g_assert_no_error (error);
      far = gpu_buffer_new_from_bytes (context, GPU_MEMORY_FLAGS_NONE, bytes, &error);
      g_assert_no_error (error);
      test_assert_ok (gpu_stream_copy (fixture->stream, GPU_MEMORY (back), 0, GPU_MEMORY (far), 0,
                                       SIZE, &error), error);
    }
  test_assert_content (back, bytes);
}

static void
driver_foreign_event (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuContext) context = gpu_context_new (fixture->device, GPU_CONTEXT_FLAGS_OWN, &error);
  g_autoptr (GpuStream) stream = NULL;
  g_autoptr (GpuEvent) event = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
  guint8 value = 3;

  g_assert_no_error (error);
  stream = gpu_context_get_default_stream (context);
  test_assert_ok (gpu_stream_fill (fixture->stream, GPU_MEMORY (buffer), 0, SIZE, &value, 1,
                                   &error), error);
  event = test_record (fixture->stream);
  test_assert_ok (gpu_stream_wait_event (stream, event, &error), error);
  test_synchronize (stream);
  g_assert_cmpint (gpu_event_query (event, &error), ==, GPU_EVENT_STATUS_COMPLETE);
}

/* --- memory --------------------------------------------------------------------------------- */

static void
driver_stream_ordered_memory (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) expected = test_value_bytes (SIZE, 5);
  g_autoptr (GpuStream) other = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) kept = NULL;
  guint8 value = 5;

  if (!test_has (fixture, GPU_CAPABILITIES_STREAM_ORDERED))
    {
      g_assert_null (gpu_buffer_new_on_stream (fixture->stream, GPU_MEMORY_FLAGS_NONE, SIZE,
                                               &error));
      test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_buffer_new_on_stream");
      return;
    }
  kept = test_buffer_filled (fixture, SIZE, 0);
  for (guint i = 0; i < 50; i++)
    {
      g_autoptr (GpuBuffer) buffer = gpu_buffer_new_on_stream (fixture->stream,
                                                               GPU_MEMORY_FLAGS_NONE,
                                                               SIZE, &error);
      GpuStream *stream = i % 3 == 0 ? other : fixture->stream;

      g_assert_no_error (error);
      g_assert_cmpuint (gpu_memory_get_size (GPU_MEMORY (buffer)), ==, SIZE);
      test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (buffer), 0, SIZE, &value, 1, &error),
                      error);
      test_assert_ok (gpu_stream_copy (fixture->stream, GPU_MEMORY (kept), 0, GPU_MEMORY (buffer),
                                       0, SIZE, &error), error);
    }
  test_assert_content (kept, expected);
  test_synchronize (fixture->stream);
  test_synchronize (other);
  while (gpu_context_get_allocated_size (fixture->context) != SIZE)
    g_usleep (500);
  g_assert_null (gpu_buffer_new_on_stream (fixture->stream, GPU_MEMORY_FLAGS_NONE, 0, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "0 bytes");
  g_assert_null (gpu_buffer_new_on_stream (fixture->stream, GPU_MEMORY_FLAGS_ALLOC_HOST, SIZE,
                                           &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "flags alloc-host request");
}

/* Stream-ordered memory may outlive its stream, and a slice may hold the last reference to the
 * memory. */
static void
driver_stream_ordered_outlives_stream (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) expected = test_value_bytes (SIZE, 8);
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuBuffer) slice = NULL;
  guint8 value = 8;
  GpuStream *stream;

  if (!test_has (fixture, GPU_CAPABILITIES_STREAM_ORDERED))
    return;
  stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  buffer = gpu_buffer_new_on_stream (stream, GPU_MEMORY_FLAGS_NONE, 2 * SIZE, &error);
  g_assert_no_error (error);
  test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (buffer), 0, 2 * SIZE, &value, 1, &error),
                  error);
  slice = gpu_buffer_slice (buffer, SIZE, SIZE, &error);
  g_assert_no_error (error);
  g_clear_object (&buffer);
  g_object_unref (stream);
  test_assert_content (slice, expected);
}

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
  test_add ("flags", driver_flags);
  test_add ("api-version", driver_api_version);
  test_add ("cache-preference", driver_cache_preference);
  test_add ("priority-range", driver_priority_range);
  test_add ("current-context", driver_current_context);
  test_add ("address-attributes", driver_address_attributes);
  test_add ("profiler", driver_profiler);
  test_add_plain ("uninitialised", driver_uninitialised);
  test_add ("default-streams", driver_default_streams);
  test_add ("timing", driver_timing);
  test_add ("timing-contexts", driver_timing_contexts);
  test_add ("peers", driver_peers);
  test_add ("copy-peer", driver_copy_peer);
  test_add ("copy-peer-dropped", driver_copy_peer_dropped);
  test_add ("foreign-event", driver_foreign_event);
  test_add ("stream-ordered-memory", driver_stream_ordered_memory);
  test_add ("stream-ordered-outlives-stream", driver_stream_ordered_outlives_stream);
  return test_run ();
}
