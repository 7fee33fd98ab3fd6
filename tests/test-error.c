/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Errors and debugging: the error domain for language bindings, messages that begin with the
 * failing function, and the count of live objects. */
#include "config.h"

#include "test-util.h"

static void
error_domain (void)
{
  g_autoptr (GEnumClass) codes = g_type_class_ref (GPU_TYPE_ERROR);

  g_assert_cmpstr (g_quark_to_string (GPU_ERROR), ==, "gpu-error-quark");
  g_assert_cmpuint (codes->n_values, ==, GPU_ERROR_IPC + 1);
  g_assert_cmpstr (g_enum_get_value (codes, GPU_ERROR_OUT_OF_DEVICE_MEMORY)->value_nick, ==,
                   "out-of-device-memory");
}

static guint32
n_alive (const char *kind)
{
  g_autoptr (GVariant) alive = gpu_debug_list_live_objects ();
  guint32 n = 0;

  g_assert_true (g_variant_is_of_type (alive, G_VARIANT_TYPE ("a{su}")));
  g_variant_lookup (alive, kind, "u", &n);
  return n;
}

/* The count must include every live object, because all tests use it to detect leaks. */
static void
error_live_objects (TestFixture *fixture)
{
  g_autoptr (GpuBuffer) first = test_buffer (fixture, 64);
  g_autoptr (GpuBuffer) second = test_buffer (fixture, 64);
  g_autoptr (GpuEvent) event = test_record (fixture->stream);
  g_autoptr (GpuArguments) arguments = gpu_arguments_new ();

  g_assert_cmpuint (n_alive ("context"), ==, 1);
  g_assert_cmpuint (n_alive ("native-context"), ==, 1);
  g_assert_cmpuint (n_alive ("stream"), ==, 1);
  g_assert_cmpuint (n_alive ("buffer"), ==, 2);
  g_assert_cmpuint (n_alive ("storage"), ==, 2);
  g_assert_cmpuint (n_alive ("event"), ==, 1);
  g_assert_cmpuint (n_alive ("arguments"), ==, 1);
  g_clear_object (&second);
  g_assert_cmpuint (n_alive ("buffer"), ==, 1);
}

#define assert_begins(error, function) \
  G_STMT_START { \
    g_assert_nonnull (error); \
    if (!g_str_has_prefix ((error)->message, function ": ")) \
      g_error ("'%s' does not begin with '%s: '", (error)->message, function); \
    g_clear_error (&(error)); \
  } G_STMT_END

static void
error_texts (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, 64);
  GpuMemory *memory = GPU_MEMORY (buffer);
  guint8 data[100] = { 0 };

  g_assert_false (gpu_stream_copy (fixture->stream, memory, 60, memory, 0, 8, &error));
  assert_begins (error, "gpu_stream_copy");
  g_assert_false (gpu_stream_fill (fixture->stream, memory, 60, 8, data, 1, &error));
  assert_begins (error, "gpu_stream_fill");
  g_assert_false (gpu_buffer_read (buffer, NULL, 60, data, 8, NULL, &error));
  assert_begins (error, "gpu_buffer_read");
  g_assert_false (gpu_buffer_write (buffer, NULL, 60, data, 8, NULL, &error));
  assert_begins (error, "gpu_buffer_write");
  g_assert_null (gpu_buffer_read_bytes (buffer, NULL, 60, 8, NULL, &error));
  assert_begins (error, "gpu_buffer_read_bytes");
  g_assert_null (gpu_buffer_slice (buffer, 60, 8, &error));
  assert_begins (error, "gpu_buffer_slice");
  g_assert_null (gpu_buffer_new (fixture->context, GPU_MEMORY_FLAGS_NONE, 0, &error));
  assert_begins (error, "gpu_buffer_new");
  g_assert_null (gpu_device_find ("nothing", &error));
  assert_begins (error, "gpu_device_find");
}

/* The example of the documentation of GpuError, verbatim. */
static void
error_example (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) from = test_buffer (fixture, 20000);
  g_autoptr (GpuBuffer) to = test_buffer (fixture, 10000);

  g_assert_false (gpu_stream_copy (fixture->stream, GPU_MEMORY (to), 4096, GPU_MEMORY (from), 0,
                                   8192, &error));
  g_assert_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT);
  g_assert_cmpstr (error->message, ==, "gpu_stream_copy: offset 4096 + size 8192 exceeds the "
                   "10000 bytes of the destination");
}

/* Callers that ignore errors pass NULL. */
static void
error_null (TestFixture *fixture)
{
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, 64);
  guint8 data[100] = { 0 };

  g_assert_false (gpu_buffer_read (buffer, NULL, 60, data, 8, NULL, NULL));
  g_assert_null (gpu_buffer_new (fixture->context, GPU_MEMORY_FLAGS_NONE, 0, NULL));
  g_assert_null (gpu_buffer_slice (buffer, 64, 1, NULL));
  g_assert_false (gpu_stream_fill (fixture->stream, GPU_MEMORY (buffer), 0, 65, data, 1, NULL));
  g_assert_null (gpu_device_find ("nothing", NULL));
  g_assert_null (gpu_program_new_from_source (fixture->context, "nonsense", NULL, NULL));
}

static void
error_geometry (void)
{
  g_autoptr (GpuExtent) extent = gpu_extent_new (1, 2, 3);
  g_autoptr (GpuExtent) same = g_boxed_copy (GPU_TYPE_EXTENT, extent);
  g_autoptr (GpuLayout) layout = gpu_layout_new (1, 2, 3, 4, 5);
  g_autoptr (GpuLayout) copy = g_boxed_copy (GPU_TYPE_LAYOUT, layout);

  g_assert_true (gpu_extent_equal (extent, same));
  same->depth = 4;
  g_assert_false (gpu_extent_equal (extent, same));
  g_assert_cmpuint (copy->x, ==, 1);
  g_assert_cmpuint (copy->y, ==, 2);
  g_assert_cmpuint (copy->z, ==, 3);
  g_assert_cmpuint (copy->row_pitch, ==, 4);
  g_assert_cmpuint (copy->slice_pitch, ==, 5);
}

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
  test_add ("live-objects", error_live_objects);
  test_add ("texts", error_texts);
  test_add ("example", error_example);
  test_add ("null", error_null);
  test_add_plain ("domain", error_domain);
  test_add_plain ("geometry", error_geometry);
  return test_run ();
}
