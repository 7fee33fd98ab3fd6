/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Loading the library or its typelib runs no driver code. On a machine without a driver the host
 * back end works, and the other back ends report the reason for their absence. Each test runs in a
 * separate process, because a loaded driver stays loaded. */
#include "config.h"

#include <glib/gstdio.h>

#include "test-util.h"

static void
add_driver_of (GPtrArray *drivers, const char *icd)
{
  g_autofree char *text = NULL;

  if (g_str_has_suffix (icd, ".icd") && g_file_get_contents (icd, &text, NULL, NULL))
    g_ptr_array_add (drivers, g_path_get_basename (g_strstrip (text)));
}

/* Lists the CUDA driver and the files that an OpenCL loader would load: those named in .icd files,
 * and those named in environment variables. */
static GPtrArray *
list_drivers (void)
{
  const char *vendors = g_getenv ("OCL_ICD_VENDORS");
  const char *direct = g_getenv ("OCL_ICD_FILENAMES");
  g_auto (GStrv) files = g_strsplit (direct != NULL ? direct : "", ":", -1);
  g_autoptr (GDir) dir = NULL;
  GPtrArray *drivers = g_ptr_array_new_with_free_func (g_free);
  const char *name;

  g_ptr_array_add (drivers, g_strdup ("libcuda.so.1"));
  for (guint i = 0; files[i] != NULL; i++)
    if (files[i][0] != '\0')
      g_ptr_array_add (drivers, g_path_get_basename (files[i]));

  if (vendors != NULL)
    add_driver_of (drivers, vendors);
  if (vendors == NULL || !g_file_test (vendors, G_FILE_TEST_IS_DIR))
    vendors = "/etc/OpenCL/vendors";
  dir = g_dir_open (vendors, 0, NULL);
  while (dir != NULL && (name = g_dir_read_name (dir)) != NULL)
    {
      g_autofree char *path = g_build_filename (vendors, name, NULL);

      add_driver_of (drivers, path);
    }
  return drivers;
}

/* Counts the mapped drivers. Compares file names up to ".so", so that any version matches. */
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
  g_autofree char *before = NULL;
  g_autofree char *after = NULL;
  g_auto (GStrv) backends = NULL;

  load_types ();
  backends = gpu_device_list_backends ();
  g_assert_nonnull (backends[0]);
  before = read_maps ();
  g_assert_cmpuint (count_mapped (before), ==, 0);

  /* The drivers are loaded now: check that count_mapped() detects them. */
  if (!gpu_device_check_backend ("cuda", NULL) && !gpu_device_check_backend ("opencl", NULL))
    return;
  after = read_maps ();
  g_assert_cmpuint (count_mapped (after), >, 0);
}

static void
check_absent (const char *backend)
{
  g_autoptr (GError) error = NULL;

  g_assert_false (gpu_device_check_backend (backend, &error));
  g_assert_nonnull (error);
  if (g_error_matches (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED))
    g_test_message ("built without %s", backend);
  else
    g_assert_error (error, GPU_ERROR, GPU_ERROR_NO_DEVICE);
  g_test_message ("%s", error->message);
  g_assert_cmpuint (strlen (error->message), >, 20);
  g_clear_error (&error);
  g_assert_null (gpu_device_find (backend, &error));
  test_assert_gpu_error (error, GPU_ERROR_NO_DEVICE);
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

  check_absent ("cuda");
  check_absent ("opencl");

  device = gpu_device_get_default (&error);
  g_assert_no_error (error);
  g_assert_cmpstr (gpu_device_get_id (device), ==, "host");
  context = gpu_context_new_default (&error);
  g_assert_no_error (error);
  buffer = gpu_buffer_new_from_bytes (context, GPU_MEMORY_FLAGS_NONE, bytes, &error);
  g_assert_no_error (error);
  test_assert_content (buffer, bytes);
}

static void
run_child (const char *path)
{
  g_test_trap_subprocess (path, TEST_CHILD_TIMEOUT, G_TEST_SUBPROCESS_INHERIT_STDERR);
  g_test_trap_assert_passed ();
}

static void
load_library (void)
{
  run_child ("/load-without-driver/subprocess/library");
}

/* Points the OpenCL loaders at an empty folder, hides all devices from CUDA, and configures the
 * stand-in CUDA driver without devices. */
static void
load_without_driver (void)
{
  static const char *const variables[] =
  {
    "GPUMEM_DEVICE", "OCL_ICD_VENDORS", "OPENCL_VENDOR_PATH", "OCL_ICD_FILENAMES",
    "CUDA_VISIBLE_DEVICES", "GPUMEM_CUDA_DRIVER"
  };
  g_autoptr (GError) error = NULL;
  g_autofree char *empty = g_dir_make_tmp ("gpumem-empty-XXXXXX", &error);
  const char *const values[] = { "", empty, empty, "", "-1", "devices=0" };
  char *before[G_N_ELEMENTS (variables)];

  g_assert_no_error (error);
  for (guint i = 0; i < G_N_ELEMENTS (variables); i++)
    {
      before[i] = g_strdup (g_getenv (variables[i]));
      g_setenv (variables[i], values[i], TRUE);
    }
  run_child ("/load-without-driver/subprocess/without-driver");
  for (guint i = 0; i < G_N_ELEMENTS (variables); i++)
    {
      if (before[i] != NULL)
        g_setenv (variables[i], before[i], TRUE);
      else
        g_unsetenv (variables[i]);
      g_free (before[i]);
    }
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
