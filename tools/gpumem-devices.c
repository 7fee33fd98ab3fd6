/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "tools/gpumem-command.h"
#include "tools/gpumem-features.h"
#include "tools/gpumem-format.h"
#include "tools/gpumem-table.h"
#include "tools/gpumem-topology.h"
#include "tools/gpumem-usage.h"
#ifdef HAVE_TOUR
#include "tools/gpumem-json.h"
#endif

#define MARGIN "  "

static void
print_title (const char *title)
{
  g_print ("\n%s%s%s\n", gpumem_style_begin (GPUMEM_STYLE_TITLE), title,
           gpumem_style_end (GPUMEM_STYLE_TITLE));
}

static void
add_device (GpumemTable *table,
            GpuDevice   *device)
{
  g_autofree char *memory = gpumem_format_size (gpu_device_get_memory_size (device));
  g_autofree char *used = NULL;
  g_autofree char *available = NULL;
  g_autoptr (GpuContext) context = NULL;
  GpumemUsage usage;
  gboolean usable = gpu_device_check (device, NULL);

  if (gpumem_usage_get (device, &context, &usage))
    {
      used = gpumem_format_size (usage.used);
      available = gpumem_format_size (usage.free);
    }
  gpumem_table_add (table, usable ? GPUMEM_STYLE_PLAIN : GPUMEM_STYLE_FAINT,
                    (const char *const[]) { gpu_device_get_id (device),
                                            gpu_device_get_name (device),
                                            gpumem_get_device_type_name (
                                              gpu_device_get_device_type (device)),
                                            memory, used != NULL ? used : "-",
                                            available != NULL ? available : "-",
                                            gpu_device_get_driver_version (device) });
}

static void
add_features (GpumemTable *table,
              GpuDevice   *device)
{
  g_autofree char *name = g_strconcat (MARGIN, gpu_device_get_id (device), NULL);
  g_autofree char *text = NULL;
  g_autoptr (GError) error = NULL;

  if (gpu_device_check (device, &error))
    {
      g_auto (GStrv) features = gpumem_list_features (device);

      text = g_strjoinv (" ", features);
    }
  else
    {
      g_autofree char *reason = gpumem_command_plain (error->message);

      text = g_strdup_printf ("cannot be used: %s", reason);
    }
  gpumem_table_add (table, error == NULL ? GPUMEM_STYLE_PLAIN : GPUMEM_STYLE_FAINT,
                    (const char *const[]) { name, text });
}

static void
print_devices (GList *devices)
{
  static const GpumemColumn columns[] = {
    { "DEVICE", FALSE, 0 }, { "NAME", FALSE, 16 }, { "TYPE", FALSE, 0 }, { "MEMORY", TRUE, 0 },
    { "USED", TRUE, 0 }, { "FREE", TRUE, 0 }, { "DRIVER", FALSE, 8 }
  };
  static const GpumemColumn feature_columns[] = { { NULL, FALSE, 0 }, { NULL, FALSE, 28 } };
  g_autoptr (GpumemTable) table = gpumem_table_new (columns, G_N_ELEMENTS (columns));
  g_autoptr (GpumemTable) features = gpumem_table_new (feature_columns,
                                                       G_N_ELEMENTS (feature_columns));

  for (GList *l = devices; l != NULL; l = l->next)
    {
      add_device (table, l->data);
      add_features (features, l->data);
    }
  gpumem_table_print (table, gpumem_terminal_width ());
  print_title ("Features");
  gpumem_table_print (features, gpumem_terminal_width ());
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
      g_autofree char *reason = NULL;
      g_autoptr (GError) error = NULL;

      if (gpu_device_check_backend (backends[i], &error))
        continue;
      reason = gpumem_command_plain (error->message);
      gpumem_table_add (table, GPUMEM_STYLE_PLAIN, (const char *const[]) { name, reason });
      any = TRUE;
    }
  if (!any)
    return;
  print_title ("Back ends without devices");
  gpumem_table_print (table, gpumem_terminal_width ());
}

#ifdef HAVE_TOUR
static void
print_json (GList    *devices,
            gboolean  csv)
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
      gpumem_json_add_usage (builder, l->data);
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
  gpumem_json_print (builder, csv ? "devices" : NULL);
}
#endif

static int
run_devices (char **arguments)
{
  G_GNUC_UNUSED gboolean json = FALSE;
  G_GNUC_UNUSED gboolean csv = FALSE;
  gboolean topology = FALSE;
  const GOptionEntry entries[] = {
    { "topology", 0, 0, G_OPTION_ARG_NONE, &topology,
      "Show where the devices are, and the links between them", NULL },
#ifdef HAVE_TOUR
    GPUMEM_JSON_ENTRIES (&json, &csv)
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
  if (json || csv)
    {
      if (topology)
        gpumem_topology_print_json (devices, csv);
      else
        print_json (devices, csv);
      return GPUMEM_EXIT_OK;
    }
#endif
  if (topology)
    {
      gpumem_topology_print (devices);
      return GPUMEM_EXIT_OK;
    }
  print_devices (devices);
  print_absent_backends ();
  return GPUMEM_EXIT_OK;
}

const GpumemCommand gpumem_devices_command = {
  .name = "devices",
  .parameters = "",
  .summary = "list every device of every back end",
  .description =
    "The first column is the device's id, which 'gpumem info', 'gpumem monitor',\n"
    "'gpumem bandwidth', 'gpumem pool', 'gpumem tour --device' and the environment variable\n"
    "GPUMEM_DEVICE take. USED and FREE are the memory of all processes, or \"-\" if no driver\n"
    "reports it.\n\n"
    "With --topology, the first table has the PCI bus id of each device and the nearest NUMA\n"
    "node. The second table has the link from each device to each other device of its back\n"
    "end: LINK is its kind, RANK its rank by speed, where 0 is the fastest, ACCESS whether the\n"
    "device can access memory of the peer, ATOMICS whether it has atomic operations there, and\n"
    "ARRAYS whether it can access arrays of the peer. Only CUDA describes links.",
  .run = run_devices
};
