/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Devices: the list, search by name, the default device, and attributes. */
#include "config.h"

#include <stdio.h>

#include "test-util.h"

static void
device_list (void)
{
  GList *devices = gpu_device_list ();
  GList *again = gpu_device_list ();
  g_autoptr (GHashTable) ids = g_hash_table_new (g_str_hash, g_str_equal);
  gboolean has_host = FALSE;

  g_assert_nonnull (devices);
  g_assert_cmpuint (g_list_length (devices), ==, g_list_length (again));
  for (GList *a = devices, *b = again; a != NULL; a = a->next, b = b->next)
    {
      g_assert_true (a->data == b->data);
      g_assert_true (g_hash_table_add (ids, (gpointer) gpu_device_get_id (a->data)));
      has_host |= g_str_equal (gpu_device_get_id (a->data), "host");
    }
  g_assert_true (has_host);
  g_hash_table_remove_all (ids);
  g_list_free_full (devices, g_object_unref);
  g_list_free_full (again, g_object_unref);
}

static void
device_backends (void)
{
  g_auto (GStrv) names = gpu_device_list_backends ();
  g_autoptr (GError) error = NULL;

  g_assert_true (g_strv_contains ((const char *const *) names, "host"));
  test_assert_ok (gpu_device_check_backend ("host", &error), error);
  g_assert_false (gpu_device_check_backend ("abacus", &error));
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "abacus", "host");
}

static void
device_not_found (void)
{
  static const char *const wrong[] = { "no such device", "host:77", "opencl:99", "opencl:99:0",
                                       "opencl:0:99", "0000:ff:1f.7" };
  g_autoptr (GError) error = NULL;

  for (guint i = 0; i < G_N_ELEMENTS (wrong); i++)
    {
      g_assert_null (gpu_device_find (wrong[i], &error));
      test_assert_gpu_error (error, GPU_ERROR_NO_DEVICE, wrong[i]);
    }
  g_assert_null (gpu_device_find ("", &error));
  g_assert_nonnull (error);
  g_assert_true (error->domain == GPU_ERROR);
  g_clear_error (&error);
  g_assert_null (gpu_device_find ("\xff\xfe", &error));
  g_assert_nonnull (error);
  g_assert_true (g_utf8_validate (error->message, -1, NULL));
}

/* In a device ID, the number after the name of the back end is an index. It never matches a part of
 * the name or version of a platform. */
static void
device_no_position (void)
{
  g_autoptr (GError) error = NULL;
  guint n_platforms = 0;

  for (guint i = 0; i < test_devices ()->len; i++)
    {
      guint platform;

      if (sscanf (gpu_device_get_id (test_devices ()->pdata[i]), "opencl:%u:", &platform) == 1)
        n_platforms = MAX (n_platforms, platform + 1);
    }

  for (guint i = n_platforms; i < n_platforms + 10; i++)
    {
      g_autofree char *name = g_strdup_printf ("opencl:%u", i);
      g_autoptr (GpuDevice) device = gpu_device_find (name, &error);

      if (device == NULL)
        test_assert_gpu_error (error, GPU_ERROR_NO_DEVICE, name);
      else                          /* on a platform that was not selected */
        g_assert_true (g_str_has_prefix (gpu_device_get_id (device), name));
    }
}

/* GPUMEM_DEVICE selects the default device; otherwise the default is a GPU if there is one. */
static void
device_default (void)
{
  g_autofree char *saved = g_strdup (g_getenv ("GPUMEM_DEVICE"));
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuDevice) chosen = NULL;
  g_autoptr (GpuDevice) host = NULL;
  g_autoptr (GpuContext) context = NULL;

  g_unsetenv ("GPUMEM_DEVICE");
  chosen = gpu_device_get_default (&error);
  g_assert_no_error (error);
  test_assert_ok (gpu_device_check (chosen, &error), error);
  for (guint i = 0; i < test_devices ()->len; i++)
    {
      GpuDeviceType type = gpu_device_get_device_type (test_devices ()->pdata[i]);

      if (type == GPU_DEVICE_TYPE_GPU)
        g_assert_cmpint (gpu_device_get_device_type (chosen), ==, type);
    }

  g_setenv ("GPUMEM_DEVICE", "host", TRUE);
  host = gpu_device_get_default (&error);
  g_assert_no_error (error);
  g_assert_cmpstr (gpu_device_get_id (host), ==, "host");
  context = gpu_context_new_default (&error);
  g_assert_no_error (error);
  g_assert_true (gpu_context_get_device (context) == host);

  g_setenv ("GPUMEM_DEVICE", "marble run", TRUE);
  g_assert_null (gpu_device_get_default (&error));
  test_assert_gpu_error (error, GPU_ERROR_NO_DEVICE, "GPUMEM_DEVICE", "marble run");
  g_assert_null (gpu_context_new_default (&error));
  test_assert_gpu_error (error, GPU_ERROR_NO_DEVICE, "marble run");
  if (saved != NULL)
    g_setenv ("GPUMEM_DEVICE", saved, TRUE);
  else
    g_unsetenv ("GPUMEM_DEVICE");
}

static void
assert_found (const char *name, GpuDevice *device)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuDevice) found = gpu_device_find (name, &error);

  g_assert_no_error (error);
  g_assert_true (found == device);
}

/* Devices of two back ends may have the same bus id; the lookup returns the first usable device. */
static void
assert_found_by_bus_id (GpuDevice *device)
{
  const char *bus_id = test_get_string (device, "pci-bus-id");
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuDevice) found = NULL;
  GpuDevice *first = NULL;

  for (guint i = 0; i < test_devices ()->len && first == NULL; i++)
    {
      GpuDevice *other = test_devices ()->pdata[i];
      const char *other_id = test_get_string (other, "pci-bus-id");

      if (other_id != NULL && g_ascii_strcasecmp (other_id, bus_id) == 0)
        first = other;
    }

  found = gpu_device_find (bus_id, &error);
  g_assert_no_error (error);
  g_assert_cmpstr (test_get_string (found, "pci-bus-id"), ==, bus_id);
  if (found != first)               /* in a back end that was not selected */
    g_assert_cmpstr (gpu_device_get_backend (found), !=, gpu_device_get_backend (first));
}

static void
device_find (TestFixture *fixture)
{
  g_autofree char *upper = g_ascii_strup (gpu_device_get_id (fixture->device), -1);
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuDevice) by_name = gpu_device_find (gpu_device_get_name (fixture->device), &error);

  assert_found (gpu_device_get_id (fixture->device), fixture->device);
  assert_found (upper, fixture->device);
  g_assert_no_error (error);
  g_assert_nonnull (strstr (gpu_device_get_name (by_name), gpu_device_get_name (fixture->device)));
  if (test_get_string (fixture->device, "pci-bus-id") != NULL)
    assert_found_by_bus_id (fixture->device);
  if (test_get_string (fixture->device, "platform") != NULL && test_is_opencl (fixture))
    {
      g_autofree char *name = g_strdup_printf ("opencl:%s",
                                               test_get_string (fixture->device, "platform"));
      g_autoptr (GpuDevice) found = gpu_device_find (name, &error);

      g_assert_no_error (error);
      g_assert_cmpstr (test_get_string (found, "platform"), ==,
                       test_get_string (fixture->device, "platform"));
    }
}

static void
device_values (TestFixture *fixture)
{
  GpuDevice *device = fixture->device;
  gsize alignment = gpu_device_get_base_alignment (device);
  g_autofree char *id = NULL;
  guint64 memory_size = 0;
  guint64 max_allocation = 0;
  GpuCapabilities capabilities = GPU_CAPABILITIES_NONE;

  g_assert_cmpstr (gpu_device_get_name (device), !=, "");
  g_assert_nonnull (test_get_string (device, "vendor"));
  g_assert_nonnull (test_get_string (device, "version"));
  g_assert_nonnull (gpu_device_get_driver_version (device));
  g_assert_true (g_str_has_prefix (gpu_device_get_id (device), gpu_device_get_backend (device)));
  g_assert_cmpuint (gpu_device_get_memory_size (device), >=, 1 << 20);
  g_assert_cmpuint (gpu_device_get_max_allocation (device), >=, 1 << 20);
  g_assert_cmpuint (alignment, >, 0);
  g_assert_cmpuint (alignment & (alignment - 1), ==, 0);
  if (test_is_opencl (fixture))
    g_assert_cmpuint (gpu_device_get_native_handle (device), !=, 0);
  g_assert_true (gpu_device_equal (device, device));
  g_assert_cmpuint (gpu_device_hash (device), ==, gpu_device_hash (device));

  g_object_get (device, "id", &id, "memory-size", &memory_size, "max-allocation", &max_allocation,
                "capabilities", &capabilities, NULL);
  g_assert_cmpstr (id, ==, gpu_device_get_id (device));
  g_assert_cmpuint (memory_size, ==, gpu_device_get_memory_size (device));
  g_assert_cmpuint (max_allocation, ==, gpu_device_get_max_allocation (device));
  g_assert_cmpuint (capabilities, ==, gpu_device_get_capabilities (device));
}

/* The SPIR-V module in test-program.c needs the capability Kernel, which has the number 6. */
static void
check_spirv (GVariant *attributes)
{
  g_autoptr (GVariant) capabilities = NULL;
  g_autofree const char **sets = NULL;
  const guint32 *values;
  gsize n = 0;
  gboolean has_kernel = FALSE;

  if (!g_variant_lookup (attributes, "spirv-extended-instruction-sets", "^a&s", &sets))
    return;
  g_assert_true (g_strv_contains (sets, "OpenCL.std"));
  capabilities = g_variant_lookup_value (attributes, "spirv-capabilities", G_VARIANT_TYPE ("au"));
  g_assert_nonnull (capabilities);
  values = g_variant_get_fixed_array (capabilities, &n, sizeof *values);
  for (gsize i = 0; i < n; i++)
    has_kernel |= values[i] == 6;
  g_assert_true (has_kernel);
}

static void
device_attributes (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) all = gpu_device_get_attributes (fixture->device, &error);
  GVariantIter iter;
  const char *nick;
  GVariant *value;
  guint n = 0;

  g_assert_no_error (error);
  g_assert_true (g_variant_is_of_type (all, G_VARIANT_TYPE_VARDICT));
  g_variant_iter_init (&iter, all);
  while (g_variant_iter_next (&iter, "{&sv}", &nick, &value))
    {
      g_autoptr (GVariant) one =
        test_take_attribute (gpu_device_get_attributes (fixture->device, &error), nick);

      g_assert_no_error (error);
      g_assert_true (g_variant_type_equal (g_variant_get_type (one), g_variant_get_type (value)));
      for (const char *c = nick; *c != '\0'; c++)
        g_assert_true (g_ascii_islower (*c) || g_ascii_isdigit (*c) || *c == '-');
      g_variant_unref (value);
      n++;
    }
  g_assert_cmpuint (n, >=, test_is_opencl (fixture) ? 60 : 10);
  check_spirv (all);
}

static void
device_characterize (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) traits = gpu_device_characterize (fixture->device, &error);
  g_autofree char *text = NULL;
  const gsize shape[] = { 32, 33 };
  gboolean fp64 = FALSE;
  guint64 local = 0;
  guint ways = 0;

  g_assert_no_error (error);
  g_assert_true (g_variant_is_of_type (traits, G_VARIANT_TYPE_VARDICT));
  g_assert_true (g_variant_lookup (traits, "fp64", "b", &fp64));
  g_assert_cmpint (fp64, ==, (gpu_device_get_capabilities (fixture->device) &
                              GPU_CAPABILITIES_FP64) != 0);
  g_assert_true (g_variant_lookup (traits, "usable-local-memory-size", "t", &local));
  g_assert_cmpuint (local, >=, 1024);

  text = gpu_device_explain_bank_conflicts (fixture->device, 4, shape, 2, &ways, &error);
  if (text == NULL)
    test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED);
  else
    g_assert_cmpuint (ways, ==, 1);
  g_assert_null (gpu_device_explain_bank_conflicts (fixture->device, 0, shape, 2, &ways, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "0");
}

/* GPUMEM_DEBUG with @text: returns the output of a program that finds a device and copies to it. */
static char *
get_debug_output (const char *text)
{
  g_autoptr (GSubprocessLauncher) launcher =
    g_subprocess_launcher_new (G_SUBPROCESS_FLAGS_STDERR_PIPE | G_SUBPROCESS_FLAGS_STDOUT_SILENCE);
  g_autoptr (GSubprocess) process = NULL;
  g_autoptr (GError) error = NULL;
  g_autofree char *path = g_file_read_link ("/proc/self/exe", NULL);
  char *output = NULL;

  g_subprocess_launcher_setenv (launcher, "GPUMEM_DEBUG", text, TRUE);
  process = g_subprocess_launcher_spawn (launcher, &error, path, "--debug-keys", NULL);
  g_assert_no_error (error);
  test_assert_ok (g_subprocess_communicate_utf8 (process, NULL, NULL, NULL, &output, &error),
                  error);
  test_assert_ok (g_subprocess_wait_check (process, NULL, &error), error);
  g_test_message ("%s: %s", text, output);
  return output;
}

/* The output has @warning once, or no warning if @warning is NULL. */
static void
assert_debug_warning (const char *text, const char *warning)
{
  g_autofree char *output = get_debug_output (text);
  const char *found = strstr (output, warning != NULL ? warning : "GPUMEM_DEBUG");

  g_assert_true ((found != NULL) == (warning != NULL));
  g_assert_true (found == NULL || strstr (found + 1, "GPUMEM_DEBUG") == NULL);
}

/* Finds a device twice, and copies pageable memory. */
static int
use_device (void)
{
  static const char zeros[1 << 20];
  g_autoptr (GpuDevice) device = gpu_device_find ("host", NULL);
  g_autoptr (GpuDevice) again = gpu_device_find ("host", NULL);
  g_autoptr (GpuContext) context = gpu_context_new (device, GPU_CONTEXT_FLAGS_NONE, NULL);
  g_autoptr (GpuBuffer) buffer = gpu_buffer_new (context, GPU_MEMORY_FLAGS_NONE, sizeof zeros,
                                                 NULL);

  g_assert_true (device == again);
  g_assert_true (gpu_buffer_write (buffer, NULL, 0, zeros, sizeof zeros, NULL, NULL));
  return 0;
}

/* Unknown words of GPUMEM_DEBUG are reported once, with the keys; "help" lists the keys. The word
 * "all" selects all messages, without keys that change how the library works. */
static void
device_debug_keys (void)
{
  static const struct
  {
    const char *keys;
    gboolean    stages, completes;
  }
  cases[] =
  {
    { "all", FALSE, TRUE },
    { "stage,all", TRUE, TRUE },
    { "ALL completion stage", TRUE, FALSE },
    { "transfer;stage", TRUE, FALSE },
    { "completion", FALSE, TRUE },
  };

  assert_debug_warning ("eror,pool;hazard", "GPUMEM_DEBUG: unknown \"eror\", \"hazard\"; the keys "
                                            "are errors, hazards, ");
  assert_debug_warning ("Errors:host_delay, pool;transfer", NULL);
  assert_debug_warning ("all", NULL);
  assert_debug_warning ("help", "Supported debug values: ");
  assert_debug_warning ("errors, HELP", "Supported debug values: ");
  assert_debug_warning ("", NULL);

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *output = get_debug_output (cases[i].keys);

      g_assert_true ((strstr (output, "staging 1048576 bytes to the device") != NULL)
                     == cases[i].stages);
      g_assert_true ((strstr (output, "completion: ") != NULL) == cases[i].completes);
    }
}

/* Devices live until the process ends. */
static void
device_lives (void)
{
  GpuDevice *host;

  if (!g_test_subprocess ())
    {
      g_test_trap_subprocess (NULL, TEST_CHILD_TIMEOUT, G_TEST_SUBPROCESS_INHERIT_STDERR);
      g_test_trap_assert_passed ();
      return;
    }

  g_ptr_array_set_size (test_devices (), 0);
  host = gpu_device_find ("host", NULL);
  g_object_set_data (G_OBJECT (host), "name of the program", (gpointer) "this one");
  g_object_unref (host);
  host = gpu_device_find ("host", NULL);
  g_assert_cmpstr (g_object_get_data (G_OBJECT (host), "name of the program"), ==, "this one");
  g_object_unref (host);
}

/* The model is empty until a main loop runs, then has the devices of gpu_device_list(). */
static void
on_items_changed (GListModel *model, guint position, guint n_removed, guint n_added, gpointer data)
{
  g_assert_cmpuint (position, ==, 0);
  g_assert_cmpuint (n_removed, ==, 0);
  g_assert_cmpuint (n_added, ==, g_list_model_get_n_items (model));
  *(guint *) data += n_added;
}

static void
device_model (void)
{
  GList *devices = gpu_device_list ();
  g_autoptr (GpuDeviceModel) model = gpu_device_model_new ();
  GpuDeviceModel *dropped = gpu_device_model_new ();
  GListModel *list = G_LIST_MODEL (model);
  gboolean loading = TRUE;
  guint n_added = 0;
  guint n_items;
  guint i = 0;

  g_assert_true (g_list_model_get_item_type (list) == GPU_TYPE_DEVICE);
  g_assert_cmpuint (g_list_model_get_n_items (list), ==, 0);
  g_assert_null (g_list_model_get_item (list, 0));
  g_signal_connect (list, "items-changed", G_CALLBACK (on_items_changed), &n_added);
  g_object_unref (dropped);
  while (loading)
    {
      g_main_context_iteration (NULL, TRUE);
      g_object_get (model, "loading", &loading, "n-items", &n_items, NULL);
      g_assert_cmpuint (n_items, ==, n_added);
      g_assert_true (loading == (n_items == 0));
    }
  while (g_main_context_iteration (NULL, FALSE))
    ;
  g_assert_cmpuint (n_added, ==, g_list_length (devices));
  for (GList *l = devices; l != NULL; l = l->next)
    {
      g_autoptr (GpuDevice) device = g_list_model_get_item (list, i++);

      g_assert_true (device == l->data);
    }
  g_assert_null (g_list_model_get_item (list, i));
  g_list_free_full (devices, g_object_unref);
}

/* A context that g_async_initable_new_async() creates is like a context of gpu_context_new(), and
 * the errors are the same. */
static void
device_context_async (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GAsyncResult) result = NULL;
  g_autoptr (GAsyncResult) failure = NULL;
  g_autoptr (GObject) source = NULL;
  g_autoptr (GpuContext) context = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GBytes) content = NULL;
  g_autoptr (GBytes) sevens = test_value_bytes (100, 7);

  g_async_initable_new_async (GPU_TYPE_CONTEXT, G_PRIORITY_DEFAULT, NULL, test_take_result, &result,
                              "device", fixture->device, NULL);
  g_assert_null (result);
  source = g_async_result_get_source_object (test_await (&result));
  context = GPU_CONTEXT (g_async_initable_new_finish (G_ASYNC_INITABLE (source), result, &error));
  g_assert_no_error (error);
  g_assert_true (gpu_context_get_device (context) == fixture->device);
  buffer = gpu_buffer_new_from_bytes (context, GPU_MEMORY_FLAGS_NONE, sevens, &error);
  g_assert_no_error (error);
  content = test_content (buffer);
  g_assert_true (g_bytes_equal (content, sevens));

  g_clear_object (&source);
  g_async_initable_new_async (GPU_TYPE_CONTEXT, G_PRIORITY_DEFAULT, NULL, test_take_result,
                              &failure, NULL);
  source = g_async_result_get_source_object (test_await (&failure));
  g_assert_null (g_async_initable_new_finish (G_ASYNC_INITABLE (source), failure, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "device");
}

int
main (int argc, char **argv)
{
  if (argc == 2 && g_str_equal (argv[1], "--debug-keys"))
    return use_device ();
  test_init (&argc, &argv);
  test_add ("find", device_find);
  test_add ("values", device_values);
  test_add ("attributes", device_attributes);
  test_add ("characterize", device_characterize);
  test_add ("context-async", device_context_async);
  test_add_plain ("list", device_list);
  test_add_plain ("model", device_model);
  test_add_plain ("debug-keys", device_debug_keys);
  test_add_plain ("lives", device_lives);
  test_add_plain ("backends", device_backends);
  test_add_plain ("not-found", device_not_found);
  test_add_plain ("no-position", device_no_position);
  test_add_plain ("default", device_default);
  return test_run ();
}
