/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "tools/gpumem-command.h"
#include "tools/gpumem-features.h"
#include "tools/gpumem-format.h"
#include "tools/gpumem-table.h"
#ifdef HAVE_TOUR
#include "tools/gpumem-json.h"
#endif

#define MARGIN "  "

static void
add_device (GpumemTable *table,
            GpuDevice   *device)
{
  g_autofree char *memory = gpumem_format_size (gpu_device_get_memory_size (device));
  g_autofree char *text = NULL;
  g_autoptr (GError) error = NULL;
  gboolean usable = gpu_device_check (device, &error);

  if (usable)
    {
      g_auto (GStrv) features = gpumem_list_features (device);

      text = g_strjoinv (" ", features);
    }
  else
    text = g_strdup_printf ("cannot be used: %s", error->message);
  gpumem_table_add (table, usable ? GPUMEM_STYLE_PLAIN : GPUMEM_STYLE_FAINT,
                    (const char *const[]) { gpu_device_get_id (device),
                                            gpu_device_get_name (device),
                                            gpumem_get_device_type_name (
                                              gpu_device_get_device_type (device)),
                                            memory, gpu_device_get_driver_version (device),
                                            text });
}

static void
print_devices (GList *devices)
{
  static const GpumemColumn columns[] = {
    { "DEVICE", FALSE, 0 }, { "NAME", FALSE, 24 }, { "TYPE", FALSE, 0 }, { "MEMORY", TRUE, 0 },
    { "DRIVER", FALSE, 8 }, { "FEATURES", FALSE, 28 }
  };
  g_autoptr (GpumemTable) table = gpumem_table_new (columns, G_N_ELEMENTS (columns));

  for (GList *l = devices; l != NULL; l = l->next)
    add_device (table, l->data);
  gpumem_table_print (table, gpumem_terminal_width ());
}

static void
print_absent_backends (void)
{
  static const GpumemColumn columns[] = { { NULL, FALSE, 0 }, { NULL, FALSE, 40 } };
  g_auto (GStrv) backends = gpu_device_list_backends ();
  g_autoptr (GpumemTable) table = gpumem_table_new (columns, G_N_ELEMENTS (columns));
  gboolean any = FALSE;

  for (guint i = 0; backends[i] != NULL; i++)
    {
      g_autofree char *name = g_strconcat (MARGIN, backends[i], NULL);
      g_autoptr (GError) error = NULL;

      if (gpu_device_check_backend (backends[i], &error))
        continue;
      gpumem_table_add (table, GPUMEM_STYLE_PLAIN, (const char *const[]) { name, error->message });
      any = TRUE;
    }
  if (!any)
    return;
  g_print ("\n%sBack ends without devices%s\n", gpumem_style_begin (GPUMEM_STYLE_TITLE),
           gpumem_style_end (GPUMEM_STYLE_TITLE));
  gpumem_table_print (table, gpumem_terminal_width ());
}

#ifdef HAVE_TOUR
static void
print_json (GList *devices)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();
  g_auto (GStrv) backends = gpu_device_list_backends ();

  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "devices");
  json_builder_begin_array (builder);
  for (GList *l = devices; l != NULL; l = l->next)
    {
      json_builder_begin_object (builder);
      gpumem_json_add_device (builder, l->data);
      json_builder_end_object (builder);
    }
  json_builder_end_array (builder);
  json_builder_set_member_name (builder, "backends");
  json_builder_begin_array (builder);
  for (guint i = 0; backends[i] != NULL; i++)
    {
      g_autoptr (GError) error = NULL;

      json_builder_begin_object (builder);
      gpumem_json_add_string (builder, "name", backends[i]);
      gpumem_json_add_boolean (builder, "present", gpu_device_check_backend (backends[i], &error));
      gpumem_json_add_string (builder, "reason", error != NULL ? error->message : NULL);
      json_builder_end_object (builder);
    }
  json_builder_end_array (builder);
  json_builder_end_object (builder);
  gpumem_json_print (builder);
}
#endif

static int
run_devices (char **arguments)
{
  G_GNUC_UNUSED gboolean json = FALSE;
  const GOptionEntry entries[] = {
#ifdef HAVE_TOUR
    { "json", 0, 0, G_OPTION_ARG_NONE, &json, "Print JSON", NULL },
#endif
    { NULL, 0, 0, 0, NULL, NULL, NULL }
  };
  g_autolist (GpuDevice) devices = NULL;

  if (!gpumem_command_parse (&gpumem_devices_command, entries, arguments))
    return GPUMEM_EXIT_USAGE;
  if (arguments[1] != NULL)
    return gpumem_command_usage (&gpumem_devices_command, "unexpected argument '%s'", arguments[1]);
  devices = gpu_device_list ();
#ifdef HAVE_TOUR
  if (json)
    {
      print_json (devices);
      return GPUMEM_EXIT_OK;
    }
#endif
  print_devices (devices);
  print_absent_backends ();
  return GPUMEM_EXIT_OK;
}

const GpumemCommand gpumem_devices_command = {
  .name = "devices",
  .parameters = "",
  .summary = "list every device of every back end",
  .description =
    "The first column is the device's id, which 'gpumem info', 'gpumem bandwidth', 'gpumem pool',\n"
    "'gpumem tour --device' and the environment variable GPUMEM_DEVICE take.",
  .run = run_devices
};
