/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "tools/gpumem-command.h"
#include "tools/gpumem-nvml.h"
#include "tools/gpumem-table.h"
#include "tools/gpumem-topology.h"
#ifdef HAVE_TOUR
#include "tools/gpumem-json.h"
#endif

/* The link from one device to another, as the driver describes it. */
typedef struct
{
  GpuDevice  *device;
  GpuDevice  *peer;
  const char *kind;             /* nullable */
  gint32      rank;             /* 0 is the fastest */
  gboolean    access;           /* whether `device` can access memory of `peer` */
  gboolean    atomics;
  gboolean    arrays;
} Link;

/* --- reading ---------------------------------------------------------------- */

static char *
get_bus_id (GpuDevice *device)
{
  char *bus_id = NULL;

  g_object_get (device, "pci-bus-id", &bus_id, NULL);
  return bus_id;
}

/* Reads the node from the kernel. Returns: -1 if it is unknown */
static int
read_numa_node (const char *bus_id)
{
  g_autofree char *name = g_ascii_strdown (bus_id, -1);
  g_autofree char *path = g_build_filename ("/sys/bus/pci/devices", name, "numa_node", NULL);
  g_autofree char *text = NULL;

  return g_file_get_contents (path, &text, NULL, NULL) ? (int) g_ascii_strtoll (text, NULL, 10)
                                                       : -1;
}

/* Returns: the NUMA node of the host that is the nearest to @device, or -1 */
static int
get_numa_node (GpuDevice *device)
{
  g_autoptr (GVariant) attributes = gpu_device_get_attributes (device, NULL);
  g_autofree char *bus_id = get_bus_id (device);
  gint32 node = -1;

  if (attributes != NULL && g_variant_lookup (attributes, "host-numa-id", "i", &node) && node >= 0)
    return node;
  return bus_id != NULL ? read_numa_node (bus_id) : -1;
}

/* Returns: %FALSE if the driver does not describe the link */
static gboolean
link_init (Link      *link,
           GpuDevice *device,
           GpuDevice *peer)
{
  g_autoptr (GVariant) attributes = gpu_device_get_peer_attributes (device, peer, NULL);
  g_autofree char *bus_id = get_bus_id (device);
  g_autofree char *peer_bus_id = get_bus_id (peer);

  *link = (Link) { .device = device, .peer = peer };
  if (attributes == NULL || !gpu_device_can_access_peer (device, peer, &link->access, NULL))
    return FALSE;
  g_variant_lookup (attributes, "performance-rank", "i", &link->rank);
  g_variant_lookup (attributes, "native-atomic-supported", "b", &link->atomics);
  g_variant_lookup (attributes, "array-access-supported", "b", &link->arrays);
  if (bus_id != NULL && peer_bus_id != NULL)
    link->kind = gpumem_nvml_get_link (bus_id, peer_bus_id);
  return TRUE;
}

/* Returns: (transfer full): the links in both directions, of Link */
static GArray *
list_links (GList *devices)
{
  GArray *links = g_array_new (FALSE, FALSE, sizeof (Link));

  for (GList *l = devices; l != NULL; l = l->next)
    for (GList *m = devices; m != NULL; m = m->next)
      {
        Link link;

        if (l != m && gpu_device_check (l->data, NULL) && gpu_device_check (m->data, NULL)
            && link_init (&link, l->data, m->data))
          g_array_append_val (links, link);
      }
  return links;
}

/* --- tables ----------------------------------------------------------------- */

static void
print_places (GList *devices)
{
  static const GpumemColumn columns[] = {
    { "DEVICE", FALSE, 0 }, { "NAME", FALSE, 16 }, { "PCI BUS ID", FALSE, 0 },
    { "NUMA NODE", TRUE, 0 }
  };
  g_autoptr (GpumemTable) table = gpumem_table_new (columns, G_N_ELEMENTS (columns));

  for (GList *l = devices; l != NULL; l = l->next)
    {
      g_autofree char *bus_id = get_bus_id (l->data);
      int node = get_numa_node (l->data);
      g_autofree char *node_text = node >= 0 ? g_strdup_printf ("%d", node) : g_strdup ("-");

      gpumem_table_add (table, gpu_device_check (l->data, NULL) ? GPUMEM_STYLE_PLAIN
                                                                : GPUMEM_STYLE_FAINT,
                        (const char *const[]) { gpu_device_get_id (l->data),
                                                gpu_device_get_name (l->data),
                                                bus_id != NULL ? bus_id : "-", node_text });
    }
  gpumem_table_print (table, gpumem_terminal_width ());
}

static const char *
format_boolean (gboolean value)
{
  return value ? "yes" : "no";
}

static void
print_links (const GArray *links)
{
  static const GpumemColumn columns[] = {
    { "DEVICE", FALSE, 0 }, { "PEER", FALSE, 0 }, { "LINK", FALSE, 0 }, { "RANK", TRUE, 0 },
    { "ACCESS", FALSE, 0 }, { "ATOMICS", FALSE, 0 }, { "ARRAYS", FALSE, 0 }
  };
  g_autoptr (GpumemTable) table = gpumem_table_new (columns, G_N_ELEMENTS (columns));

  for (guint i = 0; i < links->len; i++)
    {
      const Link *link = &g_array_index (links, Link, i);
      g_autofree char *rank = g_strdup_printf ("%d", link->rank);

      gpumem_table_add (table, link->access ? GPUMEM_STYLE_PLAIN : GPUMEM_STYLE_FAINT,
                        (const char *const[]) { gpu_device_get_id (link->device),
                                                gpu_device_get_id (link->peer),
                                                link->kind != NULL ? link->kind : "-", rank,
                                                format_boolean (link->access),
                                                format_boolean (link->atomics),
                                                format_boolean (link->arrays) });
    }
  gpumem_table_print (table, gpumem_terminal_width ());
}

void
gpumem_topology_print (GList *devices)
{
  g_autoptr (GArray) links = list_links (devices);

  print_places (devices);
  g_print ("\n%sLinks%s\n", gpumem_style_begin (GPUMEM_STYLE_TITLE),
           gpumem_style_end (GPUMEM_STYLE_TITLE));
  if (links->len > 0)
    print_links (links);
  else
    g_print ("No driver describes a link between two devices\n");
}

/* --- JSON ------------------------------------------------------------------- */

#ifdef HAVE_TOUR
static void
add_place (JsonBuilder *builder,
           GpuDevice   *device)
{
  g_autofree char *bus_id = get_bus_id (device);
  int node = get_numa_node (device);

  json_builder_begin_object (builder);
  gpumem_json_add_string (builder, "id", gpu_device_get_id (device));
  gpumem_json_add_string (builder, "name", gpu_device_get_name (device));
  gpumem_json_add_string (builder, "pci-bus-id", bus_id);
  if (node >= 0)
    gpumem_json_add_int (builder, "numa-node", node);
  else
    gpumem_json_add_string (builder, "numa-node", NULL);
  json_builder_end_object (builder);
}

static void
add_link (JsonBuilder *builder,
          const Link  *link)
{
  json_builder_begin_object (builder);
  gpumem_json_add_string (builder, "device", gpu_device_get_id (link->device));
  gpumem_json_add_string (builder, "peer", gpu_device_get_id (link->peer));
  gpumem_json_add_string (builder, "link", link->kind);
  gpumem_json_add_int (builder, "performance-rank", link->rank);
  gpumem_json_add_boolean (builder, "access", link->access);
  gpumem_json_add_boolean (builder, "native-atomics", link->atomics);
  gpumem_json_add_boolean (builder, "array-access", link->arrays);
  json_builder_end_object (builder);
}

void
gpumem_topology_print_json (GList    *devices,
                            gboolean  csv)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();
  g_autoptr (GArray) links = list_links (devices);

  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "devices");
  json_builder_begin_array (builder);
  for (GList *l = devices; l != NULL; l = l->next)
    add_place (builder, l->data);
  json_builder_end_array (builder);
  json_builder_set_member_name (builder, "links");
  json_builder_begin_array (builder);
  for (guint i = 0; i < links->len; i++)
    add_link (builder, &g_array_index (links, Link, i));
  json_builder_end_array (builder);
  json_builder_end_object (builder);
  gpumem_json_print (builder, csv ? "links" : NULL);
}
#endif
