/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "tools/gpumem-features.h"
#include "tools/gpumem-json.h"
#include "tools/gpumem-usage.h"

/* @value: nullable */
void
gpumem_json_add_string (JsonBuilder *builder,
                        const char  *name,
                        const char  *value)
{
  g_autofree char *valid = value != NULL ? g_utf8_make_valid (value, -1) : NULL;

  json_builder_set_member_name (builder, name);
  if (valid != NULL)
    json_builder_add_string_value (builder, valid);
  else
    json_builder_add_null_value (builder);
}

void
gpumem_json_add_int (JsonBuilder *builder,
                     const char  *name,
                     gint64       value)
{
  json_builder_set_member_name (builder, name);
  json_builder_add_int_value (builder, value);
}

void
gpumem_json_add_double (JsonBuilder *builder,
                        const char  *name,
                        double       value)
{
  json_builder_set_member_name (builder, name);
  json_builder_add_double_value (builder, value);
}

void
gpumem_json_add_boolean (JsonBuilder *builder,
                         const char  *name,
                         gboolean     value)
{
  json_builder_set_member_name (builder, name);
  json_builder_add_boolean_value (builder, value);
}

/* Adds the properties of the device as members of the current object. */
void
gpumem_json_add_device (JsonBuilder *builder,
                        GpuDevice   *device)
{
  static const char *const texts[] = { "vendor", "platform", "version", "driver-version",
                                       "pci-bus-id" };
  g_auto (GStrv) features = gpumem_list_features (device);
  g_autoptr (GError) unusable = NULL;

  gpu_device_check (device, &unusable);
  gpumem_json_add_string (builder, "id", gpu_device_get_id (device));
  gpumem_json_add_string (builder, "name", gpu_device_get_name (device));
  gpumem_json_add_string (builder, "backend", gpu_device_get_backend (device));
  gpumem_json_add_string (builder, "type",
                          gpumem_get_device_type_name (gpu_device_get_device_type (device)));
  for (guint i = 0; i < G_N_ELEMENTS (texts); i++)
    {
      g_autofree char *text = NULL;

      g_object_get (device, texts[i], &text, NULL);
      gpumem_json_add_string (builder, texts[i], text);
    }
  gpumem_json_add_int (builder, "memory-size", gpu_device_get_memory_size (device));
  gpumem_json_add_int (builder, "max-allocation", gpu_device_get_max_allocation (device));
  gpumem_json_add_int (builder, "base-alignment", gpu_device_get_base_alignment (device));
  gpumem_json_add_boolean (builder, "usable", unusable == NULL);
  gpumem_json_add_string (builder, "reason", unusable != NULL ? unusable->message : NULL);
  json_builder_set_member_name (builder, "capabilities");
  json_builder_begin_array (builder);
  for (guint i = 0; features[i] != NULL; i++)
    json_builder_add_string_value (builder, features[i]);
  json_builder_end_array (builder);
}

void
gpumem_json_add_usage (JsonBuilder *builder,
                       GpuDevice   *device)
{
  g_autoptr (GpuContext) context = NULL;
  GpumemUsage usage;

  if (gpumem_usage_get (device, &context, &usage))
    {
      gpumem_json_add_int (builder, "used", usage.used);
      gpumem_json_add_int (builder, "free", usage.free);
      return;
    }
  gpumem_json_add_string (builder, "used", NULL);
  gpumem_json_add_string (builder, "free", NULL);
}

void
gpumem_json_print (JsonBuilder *builder,
                   const char  *rows)
{
  g_autoptr (JsonNode) root = json_builder_get_root (builder);
  g_autofree char *text = NULL;

  if (rows != NULL)
    {
      gpumem_csv_print (root, rows, TRUE);
      return;
    }
  text = json_to_string (root, TRUE);
  g_print ("%s\n", text);
}
