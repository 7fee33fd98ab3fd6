/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <unistd.h>

#include "test-util.h"
#include "test-watchdog-util.h"

typedef struct
{
  GpuDevice *device;
  TestFunc   func;
  char      *path;
} TestCase;

typedef struct
{
  void (*func) (void);
  char *path;
} PlainCase;

static GPtrArray *devices;
static GPtrArray *owned;            /* data of the registered tests */
static char *program_name;

/* --- selected devices ------------------------------------------------------ */

static gboolean
contains (const char *text, const char *part)
{
  g_autofree char *small_text = text != NULL ? g_ascii_strdown (text, -1) : g_strdup ("");
  g_autofree char *small_part = g_ascii_strdown (part, -1);

  return strstr (small_text, small_part) != NULL;
}

static gboolean
device_matches (GpuDevice *device, const char *word)
{
  const char *backend = gpu_device_get_backend (device);
  const char *rest = strchr (word, ':');
  g_autoptr (GpuDevice) found = NULL;

  if (g_ascii_strcasecmp (word, gpu_device_get_id (device)) == 0 ||
      g_ascii_strcasecmp (word, backend) == 0)
    return TRUE;
  if (rest != NULL && (gsize) (rest - word) == strlen (backend) &&
      g_ascii_strncasecmp (word, backend, strlen (backend)) == 0)
    {
      found = gpu_device_find (word, NULL);
      return (found != NULL && gpu_device_equal (found, device)) ||
             contains (test_get_string (device, "platform"), rest + 1);
    }
  return contains (gpu_device_get_name (device), word);
}

static void
choose_devices (GList *all, const char *choice)
{
  g_auto (GStrv) words = g_strsplit_set (choice, ",;", -1);

  for (guint i = 0; words[i] != NULL; i++)
    {
      const char *word = g_strstrip (words[i]);
      guint n_matches = 0;

      if (word[0] == '\0')
        continue;
      for (GList *l = all; l != NULL; l = l->next)
        if (device_matches (l->data, word))
          {
            n_matches++;
            if (!g_ptr_array_find (devices, l->data, NULL))
              g_ptr_array_add (devices, g_object_ref (l->data));
          }
      if (n_matches == 0)
        g_error ("GPUMEM_TEST: no device matches '%s'", word);
    }
}

/* Frees @data at the end of the program, because GTest frees the data of a test only if the test
 * runs. */
static gpointer
own (gpointer data)
{
  if (owned == NULL)
    owned = g_ptr_array_new_with_free_func (g_free);
  g_ptr_array_add (owned, data);
  return data;
}

static void
say_why_not (gconstpointer data)
{
  g_test_skip (data);
}

static void
add_skipped (const char *what, const char *why)
{
  g_autofree char *path = g_strdup_printf ("/%s/%s", program_name, what);

  g_test_add_data_func (path, own (g_strdup (why)), say_why_not);
}

static void
find_devices (void)
{
  const char *choice = g_getenv ("GPUMEM_TEST");
  GList *all = gpu_device_list ();

  devices = g_ptr_array_new_with_free_func (g_object_unref);
  if (choice != NULL && choice[0] != '\0')
    choose_devices (all, choice);
  else
    {
      g_auto (GStrv) backends = gpu_device_list_backends ();

      for (guint i = 0; backends[i] != NULL; i++)
        {
          g_autoptr (GError) error = NULL;

          if (!gpu_device_check_backend (backends[i], &error))
            add_skipped (backends[i], error->message);
        }
      for (GList *l = all; l != NULL; l = l->next)
        {
          g_autoptr (GError) error = NULL;

          if (gpu_device_check (l->data, &error))
            g_ptr_array_add (devices, g_object_ref (l->data));
          else
            add_skipped (gpu_device_get_id (l->data), error->message);
        }
    }
  if (devices->len == 0)
    g_error ("there is no device to test");
  g_list_free_full (all, g_object_unref);
}

GPtrArray *
test_devices (void)
{
  return devices;
}

/* --- running --------------------------------------------------------------- */

void
test_init (int *argc, char ***argv)
{
  g_autofree char *base = g_path_get_basename ((*argv)[0]);
  const char *name = g_str_has_prefix (base, "lt-") ? base + 3 : base;

  g_test_init (argc, argv, NULL);
  program_name = g_strdup (g_str_has_prefix (name, "test-") ? name + 5 : name);
  test_watchdog_start ();
}

void
test_check_no_objects (void)
{
  gint64 deadline = g_get_monotonic_time () + TEST_DEADLINE * G_USEC_PER_SEC;

  for (;;)
    {
      g_autoptr (GVariant) alive = NULL;

      while (g_main_context_iteration (NULL, FALSE))
        ;
      alive = gpu_debug_list_live_objects ();
      if (g_variant_n_children (alive) == 0)
        return;
      if (g_get_monotonic_time () > deadline)
        {
          g_autofree char *text = g_variant_print (alive, FALSE);

          g_error ("still alive: %s", text);
        }
      g_usleep (500);
    }
}

void
test_drop_context (TestFixture *fixture)
{
  g_clear_object (&fixture->stream);
  g_clear_object (&fixture->context);
}

/* Creates a context. Waits up to a minute if the device is out of memory, because another test may
 * use all of it. */
static GpuContext *
new_context (GpuDevice *device)
{
  const gint64 deadline = g_get_monotonic_time () + 60 * G_USEC_PER_SEC;

  for (;;)
    {
      g_autoptr (GError) error = NULL;
      GpuContext *context = gpu_context_new (device, GPU_CONTEXT_FLAGS_NONE, &error);

      if (g_error_matches (error, GPU_ERROR, GPU_ERROR_OUT_OF_DEVICE_MEMORY)
          && g_get_monotonic_time () < deadline)
        {
          g_usleep (100 * 1000);
          continue;
        }
      g_assert_no_error (error);

      return context;
    }
}

static void
run_case (gconstpointer data)
{
  const TestCase *test = data;
  TestFixture fixture = { .device = test->device };

  test_watchdog_enter (test->path);
  fixture.context = new_context (test->device);
  g_assert_nonnull (fixture.context);
  fixture.stream = gpu_context_get_default_stream (fixture.context);
  g_assert_nonnull (fixture.stream);

  test->func (&fixture);

  test_drop_context (&fixture);
  test_check_no_objects ();
  test_watchdog_leave ();
}

static void
run_plain (gconstpointer data)
{
  const PlainCase *test = data;

  test_watchdog_enter (test->path);
  test->func ();
  test_check_no_objects ();
  test_watchdog_leave ();
}

void
test_add (const char *name, TestFunc func)
{
  if (devices == NULL)
    find_devices ();
  for (guint i = 0; i < devices->len; i++)
    {
      TestCase *test = own (g_new0 (TestCase, 1));

      test->device = devices->pdata[i];
      test->func = func;
      test->path = own (g_strdup_printf ("/%s/%s/%s", program_name,
                                         gpu_device_get_id (test->device), name));
      g_test_add_data_func (test->path, test, run_case);
    }
}

/* The list of test_add_list() */
static const TestEntry *all_tests;
static gsize n_all_tests;
static gboolean (*is_device_of_all) (TestFixture *fixture);

static void
run_list (TestFixture *fixture, const char *name)
{
  if (!is_device_of_all (fixture))
    return;
  for (gsize i = 0; i < n_all_tests; i++)
    if (name == NULL || g_str_equal (all_tests[i].name, name))
      all_tests[i].func (fixture);
}

static void
run_entry (TestFixture *fixture)
{
  run_list (fixture, strrchr (g_test_get_path (), '/') + 1);
}

static void
run_all (TestFixture *fixture)
{
  run_list (fixture, NULL);
}

void
test_add_list (const TestEntry *list, gsize n, gboolean (*is_device) (TestFixture *fixture))
{
  all_tests = list;
  n_all_tests = n;
  is_device_of_all = is_device;
  for (gsize i = 0; i < n; i++)
    test_add (list[i].name, run_entry);
  test_add ("subprocess/all", run_all);
}

void
test_add_plain (const char *name, void (*func) (void))
{
  PlainCase *test = own (g_new0 (PlainCase, 1));

  test->func = func;
  test->path = own (g_strdup_printf ("/%s/%s", program_name, name));
  g_test_add_data_func (test->path, test, run_plain);
}

int
test_run (void)
{
  int status = g_test_run ();

  test_watchdog_stop ();
  g_clear_pointer (&devices, g_ptr_array_unref);
  g_clear_pointer (&owned, g_ptr_array_unref);
  g_clear_pointer (&program_name, g_free);
  return status;
}

/* --- capabilities of devices ------------------------------------------------ */

gboolean
test_has (TestFixture *fixture, GpuCapabilities capability)
{
  GpuCapabilities lacking = capability & ~gpu_device_get_capabilities (fixture->device);
  g_autofree char *text = NULL;

  if (lacking == 0)
    return TRUE;
  text = g_flags_to_string (GPU_TYPE_CAPABILITIES, lacking);
  g_test_skip_printf ("%s lacks %s", gpu_device_get_id (fixture->device), text);
  return FALSE;
}

gboolean
test_is_cuda (TestFixture *fixture, GpuCapabilities capability)
{
  if (g_str_equal (gpu_device_get_backend (fixture->device), "cuda"))
    return test_has (fixture, capability);

  g_test_skip ("the device is not a CUDA device");

  return FALSE;
}

const char *
test_get_string (gpointer    object,
                 const char *property)
{
  g_autofree char *value = NULL;

  g_object_get (object, property, &value, NULL);

  return g_intern_string (value);
}

guint64
test_get_number (gpointer    object,
                 const char *property)
{
  g_auto (GValue) value = G_VALUE_INIT;

  g_value_init (&value, G_TYPE_UINT64);
  g_object_get_property (object, property, &value);

  return g_value_get_uint64 (&value);
}

gboolean
test_launch (GpuStream        *stream,
             GpuKernel        *kernel,
             const GpuExtent  *grid,
             const GpuExtent  *block,
             gsize             shared_size,
             GpuLaunchFlags    flags,
             GpuArguments     *arguments,
             GError          **error)
{
  g_autoptr (GpuLaunch) launch = gpu_launch_new (kernel, grid, block, NULL, shared_size, flags,
                                                 arguments, error);

  return launch != NULL && gpu_stream_launch_prepared (stream, launch, error);
}

GVariant *
test_take_attribute (GVariant   *attributes,
                     const char *nick)
{
  GVariant *value;

  g_assert_nonnull (attributes);
  value = g_variant_lookup_value (attributes, nick, NULL);
  g_variant_unref (attributes);

  return value;
}

gpointer
test_get_object (gpointer    object,
                 const char *property)
{
  g_autoptr (GObject) value = NULL;

  g_object_get (object, property, &value, NULL);

  return value;
}

gboolean
test_is_opencl (TestFixture *fixture)
{
  return g_str_equal (gpu_device_get_backend (fixture->device), "opencl");
}

gboolean
test_is_pocl (TestFixture *fixture)
{
  return g_strcmp0 (test_get_string (fixture->device, "platform"),
                    "Portable Computing Language") == 0;
}

gboolean
test_is_intel_cpu (TestFixture *fixture)
{
  return g_strcmp0 (test_get_string (fixture->device, "platform"), "Intel(R) OpenCL") == 0;
}

gboolean
test_is_nvidia_opencl (TestFixture *fixture)
{
  return test_is_opencl (fixture)
         && strstr (test_get_string (fixture->device, "platform"), "NVIDIA") != NULL;
}

gboolean
test_drops_writes (TestFixture *fixture)
{
  if (!test_is_nvidia_opencl (fixture) && !test_is_intel_cpu (fixture))
    return TRUE;

  g_test_skip ("kernels must not write outside of an image with NVIDIA's and Intel's OpenCL");

  return FALSE;
}

/* --- objects ---------------------------------------------------------------- */

GpuBuffer *
test_buffer (TestFixture *fixture, gsize size)
{
  g_autoptr (GError) error = NULL;
  GpuBuffer *buffer = gpu_buffer_new (fixture->context, GPU_MEMORY_FLAGS_NONE, size, &error);

  g_assert_no_error (error);
  g_assert_true (GPU_IS_BUFFER (buffer));
  return buffer;
}

GpuBuffer *
test_buffer_filled (TestFixture *fixture, gsize size, guint8 value)
{
  g_autoptr (GBytes) bytes = test_value_bytes (size, value);

  return test_buffer_from (fixture, bytes);
}

GpuBuffer *
test_buffer_from (TestFixture *fixture, GBytes *bytes)
{
  g_autoptr (GError) error = NULL;
  GpuBuffer *buffer = gpu_buffer_new_from_bytes (fixture->context, GPU_MEMORY_FLAGS_NONE, bytes,
                                                 &error);

  g_assert_no_error (error);
  g_assert_true (GPU_IS_BUFFER (buffer));
  return buffer;
}

GpuStream *
test_stream (TestFixture *fixture, GpuStreamFlags flags)
{
  g_autoptr (GError) error = NULL;
  GpuStream *stream = gpu_stream_new (fixture->context, flags, &error);

  g_assert_no_error (error);
  g_assert_true (GPU_IS_STREAM (stream));
  return stream;
}

GpuEvent *
test_record (GpuStream *stream)
{
  g_autoptr (GError) error = NULL;
  GpuEvent *event = gpu_stream_record (stream, GPU_EVENT_FLAGS_NONE, &error);

  g_assert_no_error (error);
  g_assert_true (GPU_IS_EVENT (event));
  return event;
}

GpuEvent *
test_gate (TestFixture *fixture, GpuStream *stream)
{
  g_autoptr (GError) error = NULL;
  GpuEvent *gate = gpu_event_new_user (fixture->context, &error);

  g_assert_no_error (error);
  g_assert_true (GPU_IS_EVENT (gate));
  test_assert_ok (gpu_stream_wait_event (stream, gate, &error), error);
  return gate;
}

void
test_open (GpuEvent *gate)
{
  g_autoptr (GError) error = NULL;

  test_assert_ok (gpu_event_complete (gate, &error), error);
}

void
test_synchronize (GpuStream *stream)
{
  g_autoptr (GError) error = NULL;

  test_assert_ok (gpu_stream_synchronize (stream, NULL, &error), error);
}

void
test_same_memory (TestFixture *fixture, GpuBuffer *to, gsize to_offset, GpuBuffer *from,
                  gsize from_offset)
{
  const guint32 n = 1000;
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) fills = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuStream) copies = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) slots = test_buffer (fixture, n * sizeof n);
  g_autoptr (GBytes) content = NULL;
  const guint32 *values;

  for (guint32 i = 0; i < n; i++)
    {
      test_assert_ok (gpu_stream_fill (fills, GPU_MEMORY (to), to_offset, sizeof i,
                                       (const guint8 *) &i, sizeof i, &error), error);
      test_assert_ok (gpu_stream_copy (copies, GPU_MEMORY (slots), i * sizeof i,
                                       GPU_MEMORY (from), from_offset, sizeof i, &error), error);
    }

  content = test_content (slots);
  values = g_bytes_get_data (content, NULL);
  for (guint32 i = 0; i < n; i++)
    g_assert_cmpuint (values[i], ==, i);
  g_assert_cmpuint (test_get_number (fills, "n-hazard-waits"), >, 0);
  g_assert_cmpuint (test_get_number (copies, "n-hazard-waits"), >, 0);
}

GpuProgram *
test_program (TestFixture *fixture, const char *source)
{
  g_autoptr (GError) error = NULL;
  GpuProgram *program = gpu_program_new_from_source (fixture->context, source, NULL, &error);

  g_assert_no_error (error);
  g_assert_true (GPU_IS_PROGRAM (program));
  return program;
}

GpuKernel *
test_kernel (TestFixture *fixture, const char *source, const char *name)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuProgram) program = test_program (fixture, source);
  GpuKernel *kernel = gpu_program_get_kernel (program, name, &error);

  g_assert_no_error (error);
  g_assert_true (GPU_IS_KERNEL (kernel));
  return kernel;
}

void
test_run_under_layer (TestFixture *fixture, const char *name)
{
  g_autofree char *layer = g_build_filename (g_test_get_dir (G_TEST_BUILT), "opencl-layer",
                                             ".libs", "gpumem-opencl-layer.so", NULL);
  g_autofree char *path = g_strdup_printf ("/%s/%s/subprocess/%s", program_name,
                                           gpu_device_get_id (fixture->device), name);

  if (!test_is_opencl (fixture))
    {
      g_test_skip ("the layer is between the library and OpenCL");
      return;
    }
  if (!g_file_test (layer, G_FILE_TEST_EXISTS))
    {
      g_test_skip_printf ("there is no %s", layer);
      return;
    }
  g_setenv ("OPENCL_LAYERS", layer, TRUE);
  g_test_trap_subprocess (path, TEST_CHILD_TIMEOUT, G_TEST_SUBPROCESS_INHERIT_STDERR);
  g_unsetenv ("OPENCL_LAYERS");
  g_test_trap_assert_passed ();
  g_test_trap_assert_stdout_unmatched ("*SKIP*");
}

/* --- blocked streams ---------------------------------------------------------- */

#define HOLD_SIZE 4096

/* The state of a blocked stream: a kernel that polls host memory, or a user event. */
struct _TestHold
{
  gint      *go;                    /* NULL if an event is used */
  GpuBuffer *buffer;
  GpuEvent  *done;                  /* recorded after the kernel */
  GpuEvent  *gate;
};

/* CUDA waits for all kernels of the device before it unregisters host memory. Until then it blocks
 * the calls of other threads, so a thread that has yet to end a polling kernel may never continue.
 * Therefore the buffers of all holds are freed together, when no kernel polls. */
static GMutex holds_lock;
static guint n_polling;
static GPtrArray *freed_holds;      /* of TestHold */

/* Returns TRUE if a polling kernel cannot block the stream. A GPU does not see writes of the host
 * during a kernel. Intel's CPU driver may run the kernel on the thread that waits for the stream.
 * This thread then cannot set the value that ends the kernel. */
static gboolean
needs_gate (TestFixture *fixture)
{
  return test_is_opencl (fixture) && !test_is_pocl (fixture);
}

gboolean
test_can_hold (TestFixture *fixture)
{
  return test_has (fixture, needs_gate (fixture) ? GPU_CAPABILITIES_USER_EVENTS
                                                 : GPU_CAPABILITIES_SOURCE);
}

TestHold *
test_hold (GpuStream *stream)
{
  static const char source[] =
    "__kernel void hold (__global volatile int *go) { while (go[0] == 0) ; }\n";
  g_autoptr (GError) error = NULL;
  TestHold *hold = g_new0 (TestHold, 1);
  GpuContext *context = gpu_stream_get_context (stream);
  TestFixture fixture = { .device = gpu_context_get_device (context), .context = context };
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GBytes) bytes = NULL;
  const GpuExtent one = { 1, 1, 1 };

  if (needs_gate (&fixture))
    {
      hold->gate = test_gate (&fixture, stream);
      return hold;
    }

  kernel = test_kernel (&fixture, source, "hold");
  g_mutex_lock (&holds_lock);
  n_polling++;
  g_mutex_unlock (&holds_lock);
  hold->go = g_aligned_alloc0 (1, HOLD_SIZE, HOLD_SIZE);
  bytes = g_bytes_new_with_free_func (hold->go, HOLD_SIZE, g_aligned_free, hold->go);
  hold->buffer = gpu_buffer_new_for_host_bytes (fixture.context, GPU_MEMORY_FLAGS_NONE, bytes,
                                                &error);
  g_assert_no_error (error);
  test_assert_ok (gpu_stream_launch (stream, kernel, &one, &one, &error, hold->buffer), error);
  hold->done = test_record (stream);
  test_assert_ok (gpu_stream_flush (stream, &error), error);
  return hold;
}

void
test_hold_release (TestHold *hold)
{
  if (hold->go != NULL)
    g_atomic_int_set (hold->go, 1);
  else if (gpu_event_query (hold->gate, NULL) == GPU_EVENT_STATUS_PENDING)
    test_open (hold->gate);
}

static void
hold_free (gpointer data)
{
  TestHold *hold = data;

  if (hold->done != NULL)
    gpu_event_wait (hold->done, NULL, NULL);
  g_clear_object (&hold->done);
  g_clear_object (&hold->buffer);
  g_clear_object (&hold->gate);
  g_free (hold);
}

void
test_hold_free (TestHold *hold)
{
  g_autoptr (GPtrArray) holds = NULL;

  test_hold_release (hold);
  if (hold->go == NULL)
    {
      hold_free (hold);
      return;
    }

  g_mutex_lock (&holds_lock);
  if (freed_holds == NULL)
    freed_holds = g_ptr_array_new_with_free_func (hold_free);
  g_ptr_array_add (freed_holds, hold);
  if (--n_polling == 0)
    holds = g_steal_pointer (&freed_holds);
  g_mutex_unlock (&holds_lock);
}

/* --- data -------------------------------------------------------------------- */

GBytes *
test_random_bytes (gsize size)
{
  guint32 *words = g_malloc (size + 4);

  for (gsize i = 0; i * 4 < size; i++)
    words[i] = (guint32) g_test_rand_int ();
  return g_bytes_new_take (words, size);
}

GBytes *
test_value_bytes (gsize size, guint8 value)
{
  guint8 *data = g_malloc (size);

  memset (data, value, size);
  return g_bytes_new_take (data, size);
}

GBytes *
test_content (GpuBuffer *buffer)
{
  g_autoptr (GError) error = NULL;
  GBytes *bytes = gpu_buffer_read_bytes (buffer, NULL, 0, gpu_memory_get_size (GPU_MEMORY (buffer)),
                                         NULL, &error);

  g_assert_no_error (error);
  g_assert_nonnull (bytes);
  return bytes;
}

/* --- waiting ------------------------------------------------------------------ */

static gboolean
expire (gpointer user_data)
{
  gboolean *expired = user_data;

  *expired = TRUE;
  return G_SOURCE_CONTINUE;
}

/* Becomes another program first, because valgrind looks for leaks in a process that exits, and the
 * memory of threads that did not survive the fork is lost. */
void
test_end_child (int status)
{
  const char command[] = { 'e', 'x', 'i', 't', ' ', (char) ('0' + status), '\0' };

  execl ("/bin/sh", "sh", "-c", command, NULL);
  _exit (127);
}

void
test_wait_until (gboolean *done)
{
  GMainContext *context = g_main_context_ref_thread_default ();
  GSource *timeout = g_timeout_source_new_seconds (TEST_DEADLINE);
  gboolean expired = FALSE;

  g_source_set_callback (timeout, expire, &expired, NULL);
  g_source_attach (timeout, context);
  while (!g_atomic_int_get (done) && !expired)
    g_main_context_iteration (context, TRUE);
  g_source_destroy (timeout);
  g_source_unref (timeout);
  g_main_context_unref (context);
  g_assert_true (g_atomic_int_get (done));
}

void
test_take_result (GObject *source, GAsyncResult *result, gpointer user_data)
{
  GAsyncResult **place = user_data;

  g_assert_null (*place);
  *place = g_object_ref (result);
}

GAsyncResult *
test_await (GAsyncResult **result)
{
  g_autoptr (GMainContext) context = g_main_context_ref_thread_default ();
  g_autoptr (GSource) timeout = g_timeout_source_new_seconds (TEST_DEADLINE);
  gboolean expired = FALSE;

  g_source_set_callback (timeout, expire, &expired, NULL);
  g_source_attach (timeout, context);
  while (*result == NULL && !expired)
    g_main_context_iteration (context, TRUE);
  g_source_destroy (timeout);
  g_assert_nonnull (*result);
  return *result;
}

/* --- checking ----------------------------------------------------------------- */

void
test_assert_error_at (const char *location, GError **error, GQuark domain, int code, ...)
{
  const char *word;
  va_list words;

  if (*error == NULL)
    g_error ("%s: no error where there must be one", location);
  if (!g_error_matches (*error, domain, code))
    g_error ("%s: expected %s %d, got %s %d: %s", location, g_quark_to_string (domain), code,
             g_quark_to_string ((*error)->domain), (*error)->code, (*error)->message);
  if (domain == G_IO_ERROR && code == G_IO_ERROR_CANCELLED
      && !g_str_has_prefix ((*error)->message, "gpu_"))
    g_error ("%s: no function in the text '%s'", location, (*error)->message);

  va_start (words, code);
  while ((word = va_arg (words, const char *)) != NULL)
    if (strstr ((*error)->message, word) == NULL)
      g_error ("%s: '%s' is not in the text '%s'", location, word, (*error)->message);
  va_end (words);
  g_clear_error (error);
}

void
test_assert_mem_at (const char *location, gconstpointer got, gconstpointer expected, gsize size)
{
  const guint8 *a = got;
  const guint8 *b = expected;

  if (size == 0 || memcmp (a, b, size) == 0)
    return;
  for (gsize i = 0; i < size; i++)
    if (a[i] != b[i])
      g_error ("%s: byte %" G_GSIZE_FORMAT " of %" G_GSIZE_FORMAT " is 0x%02x, not 0x%02x",
               location, i, size, a[i], b[i]);
}

void
test_assert_value_at (const char *location, gconstpointer got, guint8 value, gsize size)
{
  const guint8 *data = got;

  for (gsize i = 0; i < size; i++)
    if (data[i] != value)
      g_error ("%s: byte %" G_GSIZE_FORMAT " of %" G_GSIZE_FORMAT " is 0x%02x, not 0x%02x",
               location, i, size, data[i], value);
}

void
test_assert_bytes_at (const char *location, GBytes *got, GBytes *expected)
{
  gsize got_size;
  gsize expected_size;
  gconstpointer got_data = g_bytes_get_data (got, &got_size);
  gconstpointer expected_data = g_bytes_get_data (expected, &expected_size);

  if (got_size != expected_size)
    g_error ("%s: %" G_GSIZE_FORMAT " bytes, not %" G_GSIZE_FORMAT,
             location, got_size, expected_size);
  test_assert_mem_at (location, got_data, expected_data, got_size);
}

char *
test_get_digest (GpuBuffer *buffer, GError **error)
{
  gsize size = gpu_memory_get_size (GPU_MEMORY (buffer));
  g_autoptr (GBytes) content = gpu_buffer_read_bytes (buffer, NULL, 0, size, NULL, error);

  return content != NULL ? g_compute_checksum_for_bytes (G_CHECKSUM_MD5, content) : NULL;
}

guint
test_count_descriptors (const char *pattern)
{
  g_autoptr (GDir) folder = g_dir_open ("/proc/self/fd", 0, NULL);
  const char *name;
  guint n = 0;

  while ((name = g_dir_read_name (folder)) != NULL)
    {
      g_autofree char *path = g_build_filename ("/proc/self/fd", name, NULL);
      g_autofree char *file = g_file_read_link (path, NULL);

      n += file != NULL && g_regex_match_simple (pattern, file, 0, 0);
    }
  return n;
}

void
test_assert_content_at (const char *location, GpuBuffer *buffer, GBytes *expected)
{
  g_autoptr (GBytes) content = test_content (buffer);

  test_assert_bytes_at (location, content, expected);
}
