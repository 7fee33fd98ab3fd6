/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <string.h>

#include "tools/gpumem-attributes.h"
#include "tools/gpumem-command.h"
#include "tools/gpumem-features.h"
#include "tools/gpumem-format.h"
#include "tools/gpumem-table.h"
#include "tools/gpumem-usage.h"
#ifdef HAVE_TOUR
#include "tools/gpumem-json.h"
#endif

static const GpumemColumn columns[] = { { NULL, FALSE, 0 }, { NULL, FALSE, 30 } };

static void
print_heading (const char *title)
{
  g_print ("\n%s%s%s\n", gpumem_style_begin (GPUMEM_STYLE_TITLE), title,
           gpumem_style_end (GPUMEM_STYLE_TITLE));
}

static void
add_line (GpumemTable *table,
          const char  *name,
          const char  *value)
{
  g_autofree char *indented = g_strconcat ("  ", name, NULL);

  gpumem_table_add (table, GPUMEM_STYLE_PLAIN, (const char *const[]) { indented, value });
}

static void
add_size (GpumemTable *table,
          const char  *name,
          guint64      size)
{
  g_autofree char *value = gpumem_format_size (size);

  add_line (table, name, value);
}

static void
add_usage (GpumemTable *table,
           GpuDevice   *device)
{
  g_autoptr (GpuContext) context = NULL;
  GpumemUsage usage;

  if (gpumem_usage_get (device, &context, &usage))
    {
      add_size (table, "used", usage.used);
      add_size (table, "free", usage.free);
      return;
    }
  add_line (table, "used", "-");
  add_line (table, "free", "-");
}

static void
print_device (GpuDevice *device)
{
  g_autoptr (GpumemTable) table = gpumem_table_new (columns, G_N_ELEMENTS (columns));
  g_auto (GStrv) features = gpumem_list_features (device);
  g_autofree char *feature_text = g_strjoinv (" ", features);
  g_autofree char *reason = NULL;
  g_autoptr (GError) error = NULL;
  static const struct { const char *name, *property; } lines[] = {
    { "vendor", "vendor" }, { "platform", "platform" }, { "version", "version" },
    { "driver", "driver-version" }, { "PCI", "pci-bus-id" },
  };

  gpumem_command_print_device (device);
  add_line (table, "type", gpumem_get_device_type_name (gpu_device_get_device_type (device)));
  for (guint i = 0; i < G_N_ELEMENTS (lines); i++)
    {
      g_autofree char *value = NULL;

      g_object_get (device, lines[i].property, &value, NULL);
      if (value != NULL)
        add_line (table, lines[i].name, value);
    }
  add_size (table, "memory", gpu_device_get_memory_size (device));
  add_usage (table, device);
  add_size (table, "largest allocation", gpu_device_get_max_allocation (device));
  add_size (table, "alignment", gpu_device_get_base_alignment (device));
  add_line (table, "features", feature_text);
  if (!gpu_device_check (device, &error))
    reason = gpumem_command_plain (error->message);
  add_line (table, "usable", reason != NULL ? reason : "yes");
  gpumem_table_print (table, gpumem_terminal_width ());
}

/* Returns whether print_device() prints the attribute. */
static gboolean
is_in_head (const char *key)
{
  static const char *const shown[] = {
    "base-alignment", "capabilities", "device-type", "driver-version", "id", "max-allocation",
    "memory-size", "name", "pci-bus-id", "platform", "type", "vendor", "version", NULL
  };

  return g_strv_contains (shown, key);
}

static int
compare_strings (gconstpointer a,
                 gconstpointer b)
{
  return strcmp (*(const char *const *) a, *(const char *const *) b);
}

/* Returns: (transfer full): a copy of @dictionary, sorted by keys */
static GVariant *
sort_dictionary (GVariant *dictionary)
{
  g_autoptr (GPtrArray) keys = g_ptr_array_new ();
  GVariantBuilder builder;
  GVariantIter iter;
  const char *key;

  g_variant_iter_init (&iter, dictionary);
  while (g_variant_iter_next (&iter, "{&sv}", &key, NULL))
    g_ptr_array_add (keys, (gpointer) key);
  g_ptr_array_sort (keys, compare_strings);
  g_variant_builder_init (&builder, G_VARIANT_TYPE_VARDICT);
  for (guint i = 0; i < keys->len; i++)
    {
      g_autoptr (GVariant) value = NULL;

      key = g_ptr_array_index (keys, i);
      value = g_variant_lookup_value (dictionary, key, NULL);
      g_variant_builder_add (&builder, "{sv}", key, value);
    }
  return g_variant_ref_sink (g_variant_builder_end (&builder));
}

/* @group: the group to print, or -1 to print all groups */
static void
print_group (GVariant   *attributes,
             const char *title,
             int         group)
{
  g_autoptr (GpumemTable) table = gpumem_table_new (columns, G_N_ELEMENTS (columns));
  GVariantIter iter;
  const char *key;
  GVariant *value;
  gboolean any = FALSE;

  g_variant_iter_init (&iter, attributes);
  while (g_variant_iter_loop (&iter, "{&sv}", &key, &value))
    {
      g_autofree char *text = NULL;

      if (group >= 0 && (gpumem_attribute_classify (key) != (guint) group || is_in_head (key)))
        continue;
      text = gpumem_attribute_format (key, value);
      add_line (table, key, text);
      any = TRUE;
    }
  if (!any)
    return;
  print_heading (title);
  gpumem_table_print (table, gpumem_terminal_width ());
}

static void
print_text (GpuDevice *device,
            GVariant  *attributes,
            GVariant  *character)
{
  print_device (device);
  if (attributes != NULL)
    for (guint i = 0; i < gpumem_attribute_n_groups (); i++)
      print_group (attributes, gpumem_attribute_group (i), i);
  if (character != NULL)
    print_group (character, "Character", -1);
}

#ifdef HAVE_TOUR
static void
add_dictionary (JsonBuilder *builder,
                const char  *name,
                GVariant    *dictionary)
{
  if (dictionary == NULL)
    return;
  json_builder_set_member_name (builder, name);
  json_builder_add_value (builder, json_gvariant_serialize (dictionary));
}

static void
print_json (GpuDevice *device,
            GVariant  *attributes,
            GVariant  *character,
            gboolean   csv)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();

  json_builder_begin_object (builder);
  gpumem_json_add_device (builder, device);
  gpumem_json_add_usage (builder, device);
  add_dictionary (builder, "attributes", attributes);
  add_dictionary (builder, "character", character);
  json_builder_end_object (builder);
  gpumem_json_print (builder, csv ? "" : NULL);
}
#endif

/* If a query fails, prints a warning and all other values. */
static int
show (GpuDevice *device,
      gboolean   json G_GNUC_UNUSED,
      gboolean   csv G_GNUC_UNUSED)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GError) character_error = NULL;
  g_autoptr (GVariant) told = gpu_device_get_attributes (device, &error);
  g_autoptr (GVariant) derived = gpu_device_characterize (device, &character_error);
  g_autoptr (GVariant) attributes = told != NULL ? sort_dictionary (told) : NULL;
  g_autoptr (GVariant) character = derived != NULL ? sort_dictionary (derived) : NULL;

#ifdef HAVE_TOUR
  if (json)
    print_json (device, attributes, character, csv);
  else
#endif
    print_text (device, attributes, character);
  if (error != NULL)
    gpumem_complain ("%s", error->message);
  if (character_error != NULL)
    gpumem_complain ("%s", character_error->message);
  return error == NULL && character_error == NULL ? GPUMEM_EXIT_OK : GPUMEM_EXIT_FAILED;
}

static int
run_info (char **arguments)
{
  gboolean json = FALSE;
  gboolean csv = FALSE;
  const GOptionEntry entries[] = {
#ifdef HAVE_TOUR
    GPUMEM_JSON_ENTRIES (&json, &csv)
#endif
    { NULL, 0, 0, 0, NULL, NULL, NULL }
  };
  g_autoptr (GpuDevice) device = NULL;
  g_autoptr (GError) error = NULL;

  if (!gpumem_command_parse (&gpumem_info_command, entries, arguments))
    return GPUMEM_EXIT_USAGE;
  if (arguments[1] != NULL && arguments[2] != NULL)
    return gpumem_command_usage (&gpumem_info_command,
                                 "too many arguments: '%s'; name at most one device",
                                 arguments[2]);
  device = arguments[1] != NULL ? gpu_device_find (arguments[1], &error)
                                : gpu_device_get_default (&error);
  if (device == NULL)
    {
      gpumem_complain ("%s", error->message);
      return GPUMEM_EXIT_FAILED;
    }
  return show (device, json || csv, csv);
}

const GpumemCommand gpumem_info_command = {
  .name = "info",
  .parameters = "[DEVICE]",
  .summary = "show all properties of a device",
  .description =
    "DEVICE is an id from 'gpumem devices', such as host or opencl:0:0, or a PCI bus id. The\n"
    "default is the default device.",
  .run = run_info
};
