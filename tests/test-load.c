/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Loading the library, or its typelib, runs no driver code; and a machine without any driver
 * works on the host and says why on nothing else. Every test is a process of its own, for what
 * is loaded once stays. */
#include "config.h"

#include <glib/gstdio.h>

#include "test-util.h"

/* The files that the loader of OpenCL would load: what the .icd files name. */
static GPtrArray *
list_drivers (void)
{
  const char *folder = g_getenv ("OCL_ICD_VENDORS");
  g_autoptr (GDir) dir = NULL;
  GPtrArray *drivers = g_ptr_array_new_with_free_func (g_free);
  const char *name;

  if (folder == NULL || !g_file_test (folder, G_FILE_TEST_IS_DIR))
    folder = "/etc/OpenCL/vendors";
  dir = g_dir_open (folder, 0, NULL);
  while (dir != NULL && (name = g_dir_read_name (dir)) != NULL)
    {
      g_autofree char *path = g_build_filename (folder, name, NULL);
      g_autofree char *text = NULL;

      if (g_str_has_suffix (name, ".icd") && g_file_get_contents (path, &text, NULL, NULL))
        g_ptr_array_add (drivers, g_path_get_basename (g_strstrip (text)));
    }
  return drivers;
}

/* How many of the drivers are mapped, by the name before their first dot. */
static guint
count_mapped (const char *maps)
{
  g_autoptr (GPtrArray) drivers = list_drivers ();
  guint n = 0;

  for (guint i = 0; i < drivers->len; i++)
    {
      g_auto (GStrv) parts = g_strsplit (drivers->pdata[i], ".so", 2);
      g_autofree char *needle = g_strconcat ("/", parts[0], ".so", NULL);

      n += strstr (maps, needle) != NULL;
    }
  return n;
}

static char *
read_maps (void)
{
  char *maps = NULL;

  g_assert_true (g_file_get_contents ("/proc/self/maps", &maps, NULL, NULL));
  return maps;
}

static void
load_types (void)
{
  const GType types[] = {
    GPU_TYPE_DEVICE, GPU_TYPE_CONTEXT, GPU_TYPE_STREAM, GPU_TYPE_EVENT, GPU_TYPE_MEMORY,
    GPU_TYPE_BUFFER, GPU_TYPE_MAPPING, GPU_TYPE_PROGRAM, GPU_TYPE_KERNEL, GPU_TYPE_EXTENT,
    GPU_TYPE_LAYOUT, GPU_TYPE_ARGUMENTS, GPU_TYPE_ERROR, GPU_TYPE_CAPABILITIES,
  };

  for (guint i = 0; i < G_N_ELEMENTS (types); i++)
    {
      g_assert_cmpuint (types[i], !=, G_TYPE_INVALID);
      if (G_TYPE_IS_CLASSED (types[i]))
        g_type_class_unref (g_type_class_ref (types[i]));
    }
}

static void
child_library (void)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *before = NULL;
  g_autofree char *after = NULL;
  g_auto (GStrv) backends = NULL;

  load_types ();
  backends = gpu_device_list_backends ();
  g_assert_nonnull (backends[0]);
  before = read_maps ();
  g_assert_cmpuint (count_mapped (before), ==, 0);

  /* The look at the maps is good for something: now the drivers are there */
  if (!gpu_device_check_backend ("opencl", &error))
    return;
  after = read_maps ();
  g_assert_cmpuint (count_mapped (after), >, 0);
}

static void
child_without_driver (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuDevice) device = NULL;
  g_autoptr (GpuContext) context = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (1000);
  GList *devices = gpu_device_list ();

  g_assert_cmpuint (g_list_length (devices), ==, 1);
  g_assert_cmpstr (gpu_device_get_backend (devices->data), ==, "host");
  g_list_free_full (devices, g_object_unref);

  g_assert_false (gpu_device_check_backend ("opencl", &error));
  g_assert_nonnull (error);
  if (g_error_matches (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED))
    g_test_message ("built without OpenCL");
  else
    g_assert_error (error, GPU_ERROR, GPU_ERROR_NO_DEVICE);
  g_assert_cmpuint (strlen (error->message), >, 20);
  g_clear_error (&error);
  g_assert_null (gpu_device_find ("opencl", &error));
  test_assert_gpu_error (error, GPU_ERROR_NO_DEVICE);

  device = gpu_device_get_default (&error);
  g_assert_no_error (error);
  g_assert_cmpstr (gpu_device_get_id (device), ==, "host");
  context = gpu_context_new_default (&error);
  g_assert_no_error (error);
  buffer = gpu_buffer_new_from_bytes (context, GPU_MEMORY_NONE, bytes, &error);
  g_assert_no_error (error);
  test_assert_content (buffer, bytes);
}

static void
run_child (const char *path)
{
  g_test_trap_subprocess (path, TEST_DEADLINE * G_USEC_PER_SEC, G_TEST_SUBPROCESS_INHERIT_STDERR);
  g_test_trap_assert_passed ();
}

static void
load_library (void)
{
  run_child ("/load/subprocess/library");
}

/* The two ways in which the loaders of OpenCL are told where drivers are. */
static void
load_without_driver (void)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *empty = g_dir_make_tmp ("gpumem-empty-XXXXXX", &error);
  g_autofree char *vendors = g_strdup (g_getenv ("OCL_ICD_VENDORS"));

  g_assert_no_error (error);
  g_unsetenv ("GPUMEM_DEVICE");
  g_setenv ("OCL_ICD_VENDORS", empty, TRUE);
  g_setenv ("OPENCL_VENDOR_PATH", empty, TRUE);
  run_child ("/load/subprocess/without-driver");
  g_unsetenv ("OPENCL_VENDOR_PATH");
  if (vendors != NULL)
    g_setenv ("OCL_ICD_VENDORS", vendors, TRUE);
  else
    g_unsetenv ("OCL_ICD_VENDORS");
  g_rmdir (empty);
}

static void
load_typelib (void)
{
  static const char script[] =
    "import gi\n"
    "gi.require_version ('Gpu', '1.0')\n"
    "from gi.repository import Gpu\n"
    "for name in dir (Gpu):\n"
    "    getattr (Gpu, name)\n"
    "print (open ('/proc/self/maps').read ())\n";
  const char *python = g_getenv ("TEST_PYTHON");
  const char *typelibs = g_getenv ("GI_TYPELIB_PATH");
  g_autofree char *first = typelibs != NULL ? g_strndup (typelibs, strcspn (typelibs, ":")) : NULL;
  g_autofree char *typelib = first != NULL ? g_build_filename (first, "Gpu-1.0.typelib", NULL)
                             : NULL;
  const char *argv[] = { python, "-c", script, NULL };
  g_autoptr (GError) error = NULL;
  g_autofree char *maps = NULL;
  g_autofree char *messages = NULL;
  int status = 0;

  if (python == NULL || typelib == NULL || !g_file_test (typelib, G_FILE_TEST_EXISTS))
    {
      g_test_skip ("no typelib was built, or no Python that can load it");
      return;
    }
  g_spawn_sync (NULL, (char **) argv, NULL, G_SPAWN_SEARCH_PATH, NULL, NULL, &maps, &messages,
                &status, &error);
  g_assert_no_error (error);
  if (!g_spawn_check_wait_status (status, &error))
    g_error ("%s: %s", error->message, messages);
  g_assert_nonnull (strstr (maps, "/libgpumem-1.0.so"));
  g_assert_cmpuint (count_mapped (maps), ==, 0);
}

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
  test_add_plain ("library", load_library);
  test_add_plain ("without-driver", load_without_driver);
  test_add_plain ("typelib", load_typelib);
  test_add_plain ("subprocess/library", child_library);
  test_add_plain ("subprocess/without-driver", child_without_driver);
  return test_run ();
}
