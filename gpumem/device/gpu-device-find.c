/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <string.h>

#include "gpumem/base/gpu-debug-private.h"
#include "gpumem/device/gpu-device-private.h"

/* Appends the devices of @backend, or of all back ends if @backend is NULL. For a back end without
 * devices, appends the reason to @reasons. */
static void
collect_devices (const GpuBackend *backend,
                 GPtrArray        *devices,
                 GString          *reasons)
{
  _gpu_debug_check_keys ();

  for (guint i = 0; _gpu_backends[i] != NULL; i++)
    {
      g_autoptr (GError) error = NULL;
      GPtrArray *found;

      if (backend != NULL && backend != _gpu_backends[i])
        continue;

      found = _gpu_backend_list_devices (_gpu_backends[i], &error);
      if (found != NULL)
        {
          g_ptr_array_extend (devices, found, NULL, NULL);
          continue;
        }

      _gpu_debug_print (GPU_DEBUG_DEVICES, "%s: %s", _gpu_backends[i]->name, error->message);
      if (reasons != NULL)
        g_string_append_printf (reasons, "; %s: %s", _gpu_backends[i]->name, error->message);
    }
}

static gboolean
contains_casefolded (const char *text,
                     const char *part)
{
  g_autofree char *folded_text = NULL;
  g_autofree char *folded_part = NULL;

  if (text == NULL)
    return FALSE;

  folded_text = g_utf8_casefold (text, -1);
  folded_part = g_utf8_casefold (part, -1);

  return strstr (folded_text, folded_part) != NULL;
}

/* Parses "0000:65:00.0", or "65:00.0" for domain 0. */
static gboolean
parse_bus_id (const char *text,
              guint      *domain,
              guint      *bus,
              guint      *device,
              guint      *function)
{
  static const char pattern[] =
    "^(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([0-9a-f]{2})\\.([0-7])$";
  g_autoptr (GRegex) regex = g_regex_new (pattern, G_REGEX_CASELESS, 0, NULL);
  g_autoptr (GMatchInfo) match = NULL;
  guint *const parts[] = { domain, bus, device, function };

  if (!g_regex_match (regex, text, 0, &match))
    return FALSE;

  for (guint i = 0; i < G_N_ELEMENTS (parts); i++)
    {
      g_autofree char *digits = g_match_info_fetch (match, i + 1);

      *parts[i] = g_ascii_strtoull (digits, NULL, 16);
    }

  return TRUE;
}

static gboolean
is_same_bus_id (const char *a,
                const char *b)
{
  guint left[4];
  guint right[4];

  return a != NULL && parse_bus_id (a, &left[0], &left[1], &left[2], &left[3]) &&
         parse_bus_id (b, &right[0], &right[1], &right[2], &right[3]) &&
         memcmp (left, right, sizeof left) == 0;
}

/* Returns whether @id equals @text or continues after it with a colon: the text "opencl:0" matches
 * the id "opencl:0:1". */
static gboolean
is_id_within (const char *id,
              const char *text)
{
  gsize length = strlen (text);

  return g_ascii_strncasecmp (id, text, length) == 0 && (id[length] == '\0' || id[length] == ':');
}

/* Returns the first usable device, or the first device if none is usable. */
static GpuNativeDevice *
choose (GPtrArray *devices)
{
  for (guint i = 0; i < devices->len; i++)
    {
      GpuNativeDevice *native = g_ptr_array_index (devices, i);

      if (native->unusable == NULL)
        return native;
    }

  return devices->len > 0 ? g_ptr_array_index (devices, 0) : NULL;
}

static GpuNativeDevice *
find_by_id (GPtrArray  *devices,
            const char *name)
{
  g_autoptr (GPtrArray) matches = g_ptr_array_new ();

  for (guint i = 0; i < devices->len; i++)
    {
      GpuNativeDevice *native = g_ptr_array_index (devices, i);

      if (g_ascii_strcasecmp (native->id, name) == 0)
        return native;
      if (is_id_within (native->id, name))
        g_ptr_array_add (matches, native);
    }

  return choose (matches);
}

/* Prefers a match of the whole name, because the name of a device may be part of the name of
 * another device. */
static GpuNativeDevice *
find_by_name (GPtrArray  *devices,
              const char *name)
{
  g_autoptr (GPtrArray) whole = g_ptr_array_new ();
  g_autoptr (GPtrArray) part = g_ptr_array_new ();

  for (guint i = 0; i < devices->len; i++)
    {
      GpuNativeDevice *native = g_ptr_array_index (devices, i);

      if (g_ascii_strcasecmp (native->name, name) == 0)
        g_ptr_array_add (whole, native);
      if (contains_casefolded (native->name, name))
        g_ptr_array_add (part, native);
    }

  return choose (whole->len > 0 ? whole : part);
}

/* Finds the devices of platforms whose name contains @platform. If there are none, searches the
 * versions of the platforms: PoCL has the name "Portable Computing Language", and only its version
 * contains "PoCL". */
static GPtrArray *
list_on_platform (GPtrArray  *devices,
                  const char *platform)
{
  GPtrArray *matches = g_ptr_array_new ();

  for (guint by_version = 0; by_version < 2 && matches->len == 0; by_version++)
    {
      for (guint i = 0; i < devices->len; i++)
        {
          GpuNativeDevice *native = g_ptr_array_index (devices, i);

          if (contains_casefolded (by_version ? native->version : native->platform, platform))
            g_ptr_array_add (matches, native);
        }
    }

  return matches;
}

/* Finds "opencl:pocl", "opencl:pocl:0" or "opencl:pocl:skylake": after the platform, a number is
 * the position of a device in the platform, and other text is a part of a device's name. */
static GpuNativeDevice *
find_on_platform (GPtrArray  *devices,
                  const char *name)
{
  g_autoptr (GPtrArray) matches = NULL;
  g_auto (GStrv) parts = g_strsplit (name, ":", 3);
  guint64 position;

  if (parts[0] == NULL || parts[1] == NULL || *parts[1] == '\0')
    return NULL;
  /* A number is the position of a platform, not a part of its version: "opencl:1". */
  if (g_ascii_string_to_unsigned (parts[1], 10, 0, G_MAXUINT, &position, NULL))
    return NULL;

  matches = list_on_platform (devices, parts[1]);
  if (parts[2] == NULL)
    return choose (matches);
  if (g_ascii_string_to_unsigned (parts[2], 10, 0, G_MAXUINT, &position, NULL))
    return position < matches->len ? g_ptr_array_index (matches, position) : NULL;

  return find_by_name (matches, parts[2]);
}

static GpuNativeDevice *
find_by_bus_id (GPtrArray  *devices,
                const char *name)
{
  g_autoptr (GPtrArray) matches = g_ptr_array_new ();

  for (guint i = 0; i < devices->len; i++)
    {
      GpuNativeDevice *native = g_ptr_array_index (devices, i);

      if (is_same_bus_id (native->pci_bus_id, name))
        g_ptr_array_add (matches, native);
    }

  return choose (matches);
}

static void
set_not_found (const char  *name,
               GPtrArray   *devices,
               GString     *reasons,
               GError     **error)
{
  g_autoptr (GString) text = g_string_new (NULL);

  for (guint i = 0; i < devices->len; i++)
    {
      GpuNativeDevice *native = g_ptr_array_index (devices, i);

      g_string_append_printf (text, "%s%s (%s)", i > 0 ? ", " : "", native->id, native->name);
    }

  g_set_error (error, GPU_ERROR, GPU_ERROR_NO_DEVICE,
               "gpu_device_find: no device is called \"%s\"; there are: %s%s", name,
               devices->len > 0 ? text->str : "none", reasons->str);
}

/* Returns the back end that @name starts with, or NULL. */
static const GpuBackend *
backend_of (const char *name)
{
  g_autofree char *first = g_ascii_strdown (name, strcspn (name, ":"));

  return _gpu_backend_lookup (first);
}

static GpuNativeDevice *
find_native (const char  *name,
             GError     **error)
{
  const GpuBackend *backend = backend_of (name);
  g_autoptr (GPtrArray) devices = g_ptr_array_new ();
  g_autoptr (GString) reasons = g_string_new (NULL);
  GpuNativeDevice *native = NULL;

  if (!g_utf8_validate (name, -1, NULL) || *name == '\0')
    {
      g_autofree char *valid = g_utf8_make_valid (name, -1);

      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "gpu_device_find: \"%s\" cannot be the name of a device; "
                   "pass an id such as cuda:0, or a name in UTF-8", valid);
      return NULL;
    }

  collect_devices (backend, devices, reasons);

  if (backend != NULL)
    {
      native = find_by_id (devices, name);
      if (native == NULL)
        native = find_on_platform (devices, name);
    }
  else
    {
      native = find_by_bus_id (devices, name);
      if (native == NULL)
        native = find_by_name (devices, name);
    }

  if (native == NULL)
    set_not_found (name, devices, reasons, error);

  return native;
}

/**
 * gpu_device_list:
 *
 * Lists all devices of all back ends, including devices that cannot be used (see
 * gpu_device_check()), in the order of gpu_device_list_backends(). The last device is always
 * `host`.
 *
 * The first call finds the devices, and blocks for some tens of milliseconds while drivers start
 * (`clGetPlatformIDs()`, `clGetDeviceIDs()`). A back end whose driver is not installed has no
 * devices; each call searches for the missing driver again.
 *
 * Returns: (element-type GpuDevice) (transfer full): the devices
 *
 * Since: 0.1
 */
GList *
gpu_device_list (void)
{
  g_autoptr (GPtrArray) devices = g_ptr_array_new ();
  GList *list = NULL;

  collect_devices (NULL, devices, NULL);

  for (guint i = devices->len; i > 0; i--)
    list = g_list_prepend (list,
                           _gpu_device_new_for_native (g_ptr_array_index (devices, i - 1)));

  return list;
}

/**
 * gpu_device_find:
 * @name: the name of a device, in one of the forms below
 * @error: return location for a #GError
 *
 * Finds a device by name. Case does not matter. @name is one of
 *
 * - an id as in #GpuDevice:id: `host`, `opencl:0:1`;
 * - the start of an id: `opencl`, or `opencl:0` for platform 0;
 * - a back end and a part of the name of a platform, optionally followed by the position of a
 *   device or by a part of the name of a device: `opencl:pocl`, `opencl:pocl:0`,
 *   `opencl:nvidia:A100`;
 * - a PCI bus id, with or without the domain: `0000:65:00.0`, `65:00.0`;
 * - the name of the device, or a part of it: `GeForce`.
 *
 * If several devices match, the function returns the first usable one. It returns a device that
 * cannot be used only if no usable device matches (see gpu_device_check()).
 *
 * Returns: (transfer full): the device, or %NULL with %GPU_ERROR_NO_DEVICE and a message that lists
 *   all devices, or %GPU_ERROR_INVALID_ARGUMENT if @name is empty or not valid UTF-8
 *
 * Since: 0.1
 */
GpuDevice *
gpu_device_find (const char  *name,
                 GError     **error)
{
  GpuNativeDevice *native;

  g_return_val_if_fail (name != NULL, NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  native = find_native (name, error);

  return native != NULL ? _gpu_device_new_for_native (native) : NULL;
}

static int
rank (GpuNativeDevice *native)
{
  switch (native->type)
    {
    case GPU_DEVICE_TYPE_GPU:
      return 3;
    case GPU_DEVICE_TYPE_ACCELERATOR:
      return 2;
    case GPU_DEVICE_TYPE_CPU:
      return 1;
    case GPU_DEVICE_TYPE_HOST:
    default:
      return 0;
    }
}

/**
 * gpu_device_get_default:
 * @error: return location for a #GError
 *
 * Gets the default device. The environment variable `GPUMEM_DEVICE` can name the device, in a form
 * that gpu_device_find() accepts. If the variable is not set or is empty, the library prefers a
 * usable GPU to an accelerator, an accelerator to a CPU with a driver, and such a CPU to the host.
 *
 * Returns: (transfer full): the device, or %NULL with an error of gpu_device_find() if no device
 *   matches `GPUMEM_DEVICE`, or with %GPU_ERROR_NO_DEVICE if the device in `GPUMEM_DEVICE` cannot
 *   be used
 *
 * Since: 0.1
 */
GpuDevice *
gpu_device_get_default (GError **error)
{
  const char *wanted = g_getenv ("GPUMEM_DEVICE");
  g_autoptr (GPtrArray) devices = g_ptr_array_new ();
  g_autoptr (GpuDevice) device = NULL;
  GpuNativeDevice *best = NULL;

  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  if (wanted != NULL && *wanted != '\0')
    {
      device = gpu_device_find (wanted, error);
      if (device == NULL || !gpu_device_check (device, error))
        {
          g_prefix_error (error, "GPUMEM_DEVICE: ");
          return NULL;
        }
      return g_steal_pointer (&device);
    }

  collect_devices (NULL, devices, NULL);

  for (guint i = 0; i < devices->len; i++)
    {
      GpuNativeDevice *native = g_ptr_array_index (devices, i);

      if (native->unusable == NULL && (best == NULL || rank (native) > rank (best)))
        best = native;
    }

  if (best == NULL)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_NO_DEVICE,
                   "gpu_device_get_default: no device can be used");
      return NULL;
    }

  return _gpu_device_new_for_native (best);
}

/**
 * gpu_device_list_backends:
 *
 * Lists the back ends that this library was built with, in order of preference. A back end is
 * listed even if its driver is not installed (see gpu_device_check_backend()). Starts no driver.
 *
 * Returns: (array zero-terminated=1) (transfer full): the names of the back ends, such as `opencl`
 *   and `host`
 *
 * Since: 0.1
 */
char **
gpu_device_list_backends (void)
{
  g_autoptr (GStrvBuilder) builder = g_strv_builder_new ();

  for (guint i = 0; _gpu_backends[i] != NULL; i++)
    g_strv_builder_add (builder, _gpu_backends[i]->name);

  return g_strv_builder_end (builder);
}

/**
 * gpu_device_check_backend:
 * @backend: the name of a back end
 * @error: return location for a #GError
 *
 * Checks whether a back end has a usable device.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_NOT_SUPPORTED if this library was built without the
 *   back end, %GPU_ERROR_NO_DEVICE, or the driver's error
 *
 * Since: 0.1
 */
gboolean
gpu_device_check_backend (const char  *backend,
                          GError     **error)
{
  const GpuBackend *found;
  GPtrArray *devices;
  GpuNativeDevice *native;

  g_return_val_if_fail (backend != NULL, FALSE);
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);

  found = _gpu_backend_lookup (backend);
  if (found == NULL)
    {
      g_auto (GStrv) names = gpu_device_list_backends ();
      g_autofree char *list = g_strjoinv (", ", names);

      g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                   "gpu_device_check_backend: no back end is called \"%s\"; there are: %s",
                   backend, list);
      return FALSE;
    }

  devices = _gpu_backend_list_devices (found, error);
  if (devices == NULL)
    return FALSE;

  native = choose (devices);
  if (native->unusable != NULL)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_NO_DEVICE, "%s (%s) cannot be used: %s",
                   native->id, native->name, native->unusable);
      return FALSE;
    }

  return TRUE;
}
