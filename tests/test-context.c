/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Contexts: their devices, default stream, memory figures, limits and foreign handles. */
#include "config.h"

#include <sys/wait.h>
#include <unistd.h>

#include <gpumem/gpumem-bindings.h>

#include "test-util.h"

#define SIZE 65536
/* Enough for a fork while another thread holds the lock of a stream. */
#define N_FORKS 50

static void
context_new (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuContext) other = gpu_context_new (fixture->device, GPU_CONTEXT_FLAGS_NONE, &error);
  g_autoptr (GpuDevice) device = NULL;
  GList *devices = gpu_context_list_devices (fixture->context);

  g_assert_no_error (error);
  g_assert_true (other != fixture->context);
  g_assert_true (gpu_context_get_device (fixture->context) == fixture->device);
  g_assert_cmpuint (g_list_length (devices), ==, 1);
  g_assert_true (devices->data == fixture->device);
  g_object_get (other, "device", &device, NULL);
  g_assert_true (device == fixture->device);
  if (test_is_opencl (fixture))
    g_assert_cmpuint (gpu_context_get_native_handle (other), !=,
                      gpu_context_get_native_handle (fixture->context));
  g_assert_false (gpu_context_is_lost (fixture->context));
  g_list_free_full (devices, g_object_unref);
}

/* A toggle notify, with which a language binding follows the references to an object. Needs the
 * lock of @context. */
static void
need_context (gpointer context, GObject *object G_GNUC_UNUSED, gboolean is_last)
{
  if (!is_last)
    gpu_context_get_build_options (context);
}

/* The library takes references to a context without the lock of the context. */
static void
context_toggles (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  GpuContext *context = gpu_context_new (fixture->device, GPU_CONTEXT_FLAGS_NONE, &error);

  g_assert_no_error (error);
  g_object_add_toggle_ref (G_OBJECT (context), need_context, context);
  g_object_unref (context);
  g_object_unref (gpu_context_get_default_stream (context));
  g_object_remove_toggle_ref (G_OBJECT (context), need_context, context);
}

typedef struct
{
  GpuContext *context;
  GpuStream  *stream;               /* nullable; owned by its toggle reference */
} Binding;

/* The first reference that a new stream takes to its context lets the program get the default
 * stream. */
static void
get_stream (gpointer data, GObject *context, gboolean is_last)
{
  Binding *binding = data;

  if (is_last || binding->stream != NULL)
    return;
  binding->stream = gpu_context_get_default_stream (GPU_CONTEXT (context));
  g_object_add_toggle_ref (G_OBJECT (binding->stream), need_context, context);
  g_object_unref (binding->stream);
}

/* The library takes references to a default stream without the lock of the context, also if the
 * stream was created while the library was creating one. */
static void
context_stream_toggles (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = NULL;
  Binding binding = { NULL, NULL };

#ifdef __SANITIZE_THREAD__
  g_test_skip ("GLib 2.74 calls toggle notifies under its lock of weak references");
  return;
#endif
  binding.context = gpu_context_new (fixture->device, GPU_CONTEXT_FLAGS_NONE, &error);
  g_assert_no_error (error);
  g_object_add_toggle_ref (G_OBJECT (binding.context), get_stream, &binding);
  g_object_unref (binding.context);
  stream = gpu_context_get_default_stream (binding.context);
  g_assert_true (stream == binding.stream);
  g_object_remove_toggle_ref (G_OBJECT (stream), need_context, binding.context);
  g_clear_object (&stream);
  g_object_remove_toggle_ref (G_OBJECT (binding.context), get_stream, &binding);
}

static void
context_default_stream (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuContext) context = gpu_context_new (fixture->device, GPU_CONTEXT_FLAGS_NONE,
                                                    &error);
  g_autoptr (GpuStream) stream = gpu_context_get_default_stream (context);
  g_autoptr (GpuStream) same = gpu_context_get_default_stream (context);
  guint64 handle = gpu_stream_get_native_handle (stream);

  g_assert_true (stream == same);
  g_assert_true (gpu_stream_get_context (stream) == context);
  g_assert_cmpuint (test_get_number (stream, "flags"), ==, GPU_STREAM_FLAGS_NONE);

  /* The context returns another object for the same stream */
  g_clear_object (&stream);
  g_clear_object (&same);
  stream = gpu_context_get_default_stream (context);
  g_assert_cmpuint (gpu_stream_get_native_handle (stream), ==, handle);
}

static void
count (int *n)
{
  (*n)++;
}

static void
context_build_options (TestFixture *fixture)
{
  g_autofree char *options = NULL;
  int n_notified = 0;

  g_signal_connect_swapped (fixture->context, "notify::build-options", G_CALLBACK (count),
                            &n_notified);
  g_assert_null (gpu_context_get_build_options (fixture->context));
  gpu_context_set_build_options (fixture->context, "-DX=1");
  g_assert_cmpstr (gpu_context_get_build_options (fixture->context), ==, "-DX=1");
  g_assert_cmpint (n_notified, ==, 1);
  gpu_context_set_build_options (fixture->context, "-DX=1");
  g_assert_cmpint (n_notified, ==, 1);
  g_object_set (fixture->context, "build-options", "-DX=2", NULL);
  g_assert_cmpint (n_notified, ==, 2);
  g_object_get (fixture->context, "build-options", &options, NULL);
  g_assert_cmpstr (options, ==, "-DX=2");
  gpu_context_set_build_options (fixture->context, NULL);
  g_assert_null (gpu_context_get_build_options (fixture->context));
}

/* GpuContext:allocator is the allocator of arrays for which the program names none. */
static void
context_allocator (TestFixture *fixture)
{
  const gssize shape = 100;
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuDeferredAllocator) upstream =
    gpu_deferred_allocator_new (fixture->context, GPU_MEMORY_FLAGS_NONE, &error);
  g_autoptr (GpuStatisticsAllocator) counting =
    gpu_statistics_allocator_new (GPU_ALLOCATOR (upstream));
  g_autoptr (GpuAllocator) got = NULL;

  g_object_set (fixture->context, "allocator", counting, NULL);
  g_object_get (fixture->context, "allocator", &got, NULL);
  g_assert_true (got == GPU_ALLOCATOR (counting));

  for (guint i = 1; i <= 3; i++)
    {
      g_autoptr (GpuArray) array = NULL;
      g_autoptr (GVariant) counters = NULL;
      gint64 count;

      if (i == 3)
        g_object_set (fixture->context, "allocator", NULL, NULL);
      array = i == 1 ? gpu_array_new (fixture->context, GPU_DTYPE_UINT8, &shape, 1, &error)
                     : gpu_array_new_full (fixture->context, NULL, NULL, GPU_DTYPE_UINT8,
                                           &shape, 1, GPU_ARRAY_ORDER_C, &error);
      g_assert_no_error (error);
      counters = gpu_statistics_allocator_get_counters (counting);
      g_assert_true (g_variant_lookup (counters, "total-count", "x", &count));
      g_assert_cmpint (count, ==, MIN (i, 2));
    }
  g_object_set (fixture->context, "allocator", fixture->stream, NULL);
  g_assert_null (gpu_array_new (fixture->context, GPU_DTYPE_UINT8, &shape, 1, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_array_new",
                         "GpuContext:allocator is a GpuStream");
  g_object_set (fixture->context, "allocator", NULL, NULL);
}

static void
context_memory_info (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  guint64 before = 0;
  guint64 after = 0;
  guint64 total = 0;
  GpuMemoryInfoSource source;

  test_assert_ok (gpu_context_get_memory_info (fixture->context, &before, &total, &source, &error),
                  error);
  g_assert_cmpuint (total, >, 0);
  g_assert_cmpuint (before, <=, total);
  g_assert_cmpuint (gpu_context_get_allocated_size (fixture->context), ==, 0);
  buffer = test_buffer (fixture, SIZE);
  g_assert_cmpuint (gpu_context_get_allocated_size (fixture->context), ==, SIZE);
  test_assert_ok (gpu_context_get_memory_info (fixture->context, &after, &total, &source, &error),
                  error);
  if (source == GPU_MEMORY_INFO_SOURCE_ACCOUNTING)
    g_assert_cmpuint (after, ==, before - SIZE);
}

/* Limits that a driver does not report or cannot change are refused. */
static void
context_limits (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GEnumClass) limits = g_type_class_ref (GPU_TYPE_LIMIT);
  guint64 value = 0;

  for (guint limit = GPU_LIMIT_STACK_SIZE; limit <= GPU_LIMIT_MALLOC_HEAP_SIZE; limit++)
    {
      if (!gpu_context_get_limit (fixture->context, limit, &value, &error))
        test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED);
      else
        g_assert_cmpuint (value, >, 0);
      if (!gpu_context_set_limit (fixture->context, limit, MAX (value, 1024), &error))
        test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED,
                               g_enum_get_value (limits, limit)->value_nick);
    }
  g_assert_false (gpu_context_get_limit (fixture->context, 99, &value, &error));
  g_assert_nonnull (error);
  g_assert_true (error->domain == GPU_ERROR);
}

static void
context_synchronize (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  GpuStream *streams[3];
  guint8 value = 1;

  for (guint i = 0; i < 3; i++)
    {
      g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);

      streams[i] = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
      for (guint j = 0; j < 50; j++)
        test_assert_ok (gpu_stream_fill (streams[i], GPU_MEMORY (buffer), 0, SIZE, &value, 1,
                                         &error), error);
    }
  test_assert_ok (gpu_context_synchronize (fixture->context, &error), error);
  for (guint i = 0; i < 3; i++)
    {
      g_assert_cmpuint (test_get_number (streams[i], "n-completed"), ==,
                        test_get_number (streams[i], "n-submitted"));
      g_object_unref (streams[i]);
    }
}

static void
context_wrapped (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuContext) wrapped = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);

  g_assert_null (gpu_context_new_wrapped (fixture->device, 0, GPU_WRAP_MODE_BORROW, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "0");
  if (!test_is_opencl (fixture))
    {
      g_test_skip ("contexts of this back end have no native handles");
      return;
    }
  wrapped = gpu_context_new_wrapped (fixture->device,
                                     gpu_context_get_native_handle (fixture->context),
                                     GPU_WRAP_MODE_BORROW, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (gpu_context_get_native_handle (wrapped), ==,
                    gpu_context_get_native_handle (fixture->context));
  buffer = gpu_buffer_new_from_bytes (wrapped, GPU_MEMORY_FLAGS_NONE, bytes, &error);
  g_assert_no_error (error);
  test_drop_context (fixture);
  test_assert_content (buffer, bytes);
}

static void
context_for_devices (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuContext) one = gpu_context_new_for_devices (&fixture->device, 1, &error);
  g_autoptr (GpuContext) none = NULL;
  GList *list;

  g_assert_no_error (error);
  list = gpu_context_list_devices (one);
  g_assert_cmpuint (g_list_length (list), ==, 1);
  g_list_free_full (list, g_object_unref);
  none = gpu_context_new_for_devices (NULL, 0, &error);
  g_assert_null (none);
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT);
}

/* For every two devices, the constructor of a common context fails, or the context lets both
 * devices use the same memory. */
static void
context_pairs (void)
{
  GPtrArray *all = test_devices ();
  guint n_pairs = 0;

  for (guint i = 0; i + 1 < all->len; i++)
    {
      g_autoptr (GError) error = NULL;
      GpuDevice *pair[] = { all->pdata[i], all->pdata[i + 1] };
      g_autoptr (GpuContext) context = gpu_context_new_for_devices (pair, 2, &error);
      TestFixture fixture = { pair[0], context, NULL };
      g_autoptr (GpuStream) second = NULL;
      g_autoptr (GpuBuffer) buffer = NULL;
      g_autoptr (GBytes) content = NULL;
      guint8 value = 0x44;

      if (context == NULL)
        {
          g_assert_true (g_error_matches (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED) ||
                         g_error_matches (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT));
          continue;
        }
      n_pairs++;
      buffer = test_buffer_filled (&fixture, SIZE, 1);
      second = gpu_stream_new_full (context, pair[1], GPU_STREAM_FLAGS_NONE, 0, &error);
      g_assert_no_error (error);
      g_assert_true (test_get_object (second, "device") == pair[1]);
      test_assert_ok (gpu_stream_fill (second, GPU_MEMORY (buffer), 0, SIZE, &value, 1, &error),
                      error);
      content = test_content (buffer);
      test_assert_value (g_bytes_get_data (content, NULL), value, SIZE);
    }
  if (n_pairs == 0)
    g_test_skip ("no two devices can share a context");
}

static void
context_without_init (void)
{
  g_autoptr (GpuContext) context = g_object_new (GPU_TYPE_CONTEXT, NULL);
  g_autoptr (GError) error = NULL;

  g_assert_null (gpu_context_get_device (context));
  g_assert_null (gpu_context_get_default_stream (context));
  g_assert_null (gpu_stream_new (context, GPU_STREAM_FLAGS_NONE, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT);
  g_assert_null (gpu_buffer_new (context, GPU_MEMORY_FLAGS_NONE, 1, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT);
  g_assert_null (gpu_event_new_user (context, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT);
  g_assert_null (gpu_program_new_from_source (context, "", NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT);
  g_assert_false (gpu_context_synchronize (context, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT);
}

static int
is_lost (GError **error)
{
  gboolean is = g_error_matches (*error, GPU_ERROR, GPU_ERROR_DEVICE_LOST);

  g_clear_error (error);
  return is;
}

/* Uses the objects of the parent process in a child process. Returns the number of the first failed
 * step, or 0. */
static int
use_after_fork (TestFixture *fixture, GpuBuffer *buffer, GBytes *large)
{
  g_autoptr (GError) error = NULL;
  const guint8 two = 2;

  if (gpu_context_new (fixture->device, GPU_CONTEXT_FLAGS_NONE,
                       &error) != NULL || !is_lost (&error))
    return 1;
  if (gpu_stream_fill (fixture->stream, GPU_MEMORY (buffer), 0, SIZE, &two, 1, &error)
      || !is_lost (&error))
    return 2;
  if (gpu_buffer_read_bytes (buffer, NULL, 0, SIZE, NULL, &error) != NULL || !is_lost (&error))
    return 3;
  if (gpu_stream_new (fixture->context, GPU_STREAM_FLAGS_NONE, &error) != NULL
      || !is_lost (&error))
    return 4;
  if (gpu_buffer_write_bytes (buffer, NULL, 0, large, NULL, &error) || !is_lost (&error))
    return 5;
  return 0;
}

/* Neither drivers nor threads survive a fork: calls in the child fail, and the parent keeps
 * working. */
static void
context_forked (TestFixture *fixture)
{
  /* Large enough to be copied by the threads of the staging engine. */
  const gsize large_size = 16 * 1024 * 1024;
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, large_size, 0);
  g_autoptr (GBytes) large = test_value_bytes (large_size, 1);
  g_autoptr (GError) error = NULL;
  int status = 0;
  pid_t child;

  test_assert_ok (gpu_buffer_write_bytes (buffer, NULL, 0, large, NULL, &error), error);
  child = fork ();
  g_assert_cmpint (child, >=, 0);
  if (child == 0)
    {
      alarm (TEST_DEADLINE);
      test_end_child (use_after_fork (fixture, buffer, large));
    }
  g_assert_cmpint (waitpid (child, &status, 0), ==, child);
  g_assert_false (WIFSIGNALED (status));
  g_assert_cmpint (WEXITSTATUS (status), ==, 0);
  test_assert_content (buffer, large);
}

/* Takes the lock of a stream often. */
typedef struct
{
  GpuStream *stream;
  gint       stop;
} Queries;

static gpointer
query_stream (gpointer data)
{
  Queries *queries = data;

  while (!g_atomic_int_get (&queries->stop))
    gpu_stream_is_idle (queries->stream, NULL);
  return NULL;
}

typedef struct
{
  GpuStream *stream;
  GpuMemory *memory;
  GpuArray  *array;
} Forked;

static gboolean
fill_one (gpointer data, GError **error)
{
  const Forked *forked = data;
  const guint8 one = 1;

  return gpu_stream_fill (forked->stream, forked->memory, 0, SIZE, &one, 1, error);
}

/* Calls whose work a graph cannot contain, so that they ask the driver for a capture. Returns the
 * number of the first failed step, or 0. */
static int
call_after_fork (Forked *forked)
{
  static const guint8 pattern[5000] = { 1, 2, 3 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = g_bytes_new_static (pattern, sizeof pattern);
  GpuEvent *event;
  guint8 byte;

  if (_gpu_binding_submit (forked->stream, fill_one, forked, &event, &error) || !is_lost (&error))
    return 1;
  if (gpu_buffer_read (GPU_BUFFER (forked->memory), forked->stream, 0, &byte, 1, NULL, &error)
      || !is_lost (&error))
    return 2;
  if (gpu_array_write_bytes (forked->array, forked->stream, GPU_ARRAY_ORDER_C, bytes, NULL,
                             &error) || !is_lost (&error))
    return 3;
  if (gpu_stream_fill (forked->stream, forked->memory, 1, 2 * sizeof pattern, pattern,
                       sizeof pattern, &error) || !is_lost (&error))
    return 4;
  if (gpu_stream_is_idle (forked->stream, &error) || !is_lost (&error))
    return 5;
  return 0;
}

/* The child must take no lock of the stream. Another thread of the parent often holds it, also
 * during some of the forks. */
static void
context_forked_while_locked (TestFixture *fixture)
{
  const gssize length = 5000;
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuArray) array = gpu_array_new_for_memory (GPU_MEMORY (buffer), 0, GPU_DTYPE_UINT8,
                                                         &length, 1, NULL, 0, &error);
  Forked forked = { fixture->stream, GPU_MEMORY (buffer), array };
  Queries queries = { fixture->stream, FALSE };
  GThread *thread;

  g_assert_no_error (error);
  gpu_stream_get_native_handle (fixture->stream);   /* from now on, the stream may be captured */
  thread = g_thread_new ("queries", query_stream, &queries);
  for (guint i = 0; i < N_FORKS; i++)
    {
      int status = 0;
      pid_t child = fork ();

      g_assert_cmpint (child, >=, 0);
      if (child == 0)
        {
          alarm (TEST_DEADLINE);
          test_end_child (call_after_fork (&forked));
        }
      g_assert_cmpint (waitpid (child, &status, 0), ==, child);
      g_assert_false (WIFSIGNALED (status));
      g_assert_cmpint (WEXITSTATUS (status), ==, 0);
    }
  g_atomic_int_set (&queries.stop, TRUE);
  g_thread_join (thread);
  test_synchronize (fixture->stream);
}

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
  test_add ("new", context_new);
  test_add ("default-stream", context_default_stream);
  test_add ("toggles", context_toggles);
  test_add ("stream-toggles", context_stream_toggles);
  test_add ("build-options", context_build_options);
  test_add ("allocator", context_allocator);
  test_add ("memory-info", context_memory_info);
  test_add ("limits", context_limits);
  test_add ("synchronize", context_synchronize);
  test_add ("wrapped", context_wrapped);
  test_add ("for-devices", context_for_devices);
  test_add ("forked", context_forked);
  test_add ("forked-while-locked", context_forked_while_locked);
  test_add_plain ("pairs", context_pairs);
  test_add_plain ("without-init", context_without_init);
  return test_run ();
}
