/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Shows the memory of devices, processes and pools at regular intervals. */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "tools/gpumem-command.h"
#include "tools/gpumem-format.h"
#include "tools/gpumem-interrupt.h"
#include "tools/gpumem-nvml.h"
#include "tools/gpumem-status.h"
#include "tools/gpumem-table.h"
#ifdef HAVE_TOUR
#include "tools/gpumem-json.h"
#endif

#define DEFAULT_INTERVAL 1.0
#define MIN_INTERVAL     0.05
#define MAX_INTERVAL     3600.0

typedef struct
{
  GpuDevice   *device;
  GpuContext  *context;     /* nullable */
  char        *pci_bus_id;  /* nullable */
  gboolean     known;
  GpumemUsage  usage;
  GPtrArray   *processes;   /* nullable; of GpumemProcess. If several entries are for the same
                             * device, only the first lists the processes */
} Entry;

typedef struct
{
  GPtrArray *entries;       /* of Entry */
  GPtrArray *pools;         /* of GpumemPoolStatus */
  gboolean   csv;
  gboolean   json;
  gboolean   once;
  gboolean   with_header;   /* print the line of CSV titles */
  double     interval;      /* seconds */
} Monitor;

static void
entry_free (gpointer data)
{
  Entry *entry = data;

  g_clear_pointer (&entry->processes, g_ptr_array_unref);
  g_clear_object (&entry->context);
  g_free (entry->pci_bus_id);
  g_object_unref (entry->device);
  g_free (entry);
}

static void
monitor_clear (Monitor *monitor)
{
  g_clear_pointer (&monitor->entries, g_ptr_array_unref);
  g_clear_pointer (&monitor->pools, g_ptr_array_unref);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Monitor, monitor_clear)

/* Returns whether no earlier entry is for the same device: CUDA and OpenCL both list an NVIDIA
 * device. */
static gboolean
is_first (Monitor *monitor,
          Entry   *entry)
{
  for (guint i = 0; i < monitor->entries->len; i++)
    {
      Entry *other = g_ptr_array_index (monitor->entries, i);

      if (other == entry)
        return TRUE;
      if (entry->pci_bus_id != NULL && g_strcmp0 (other->pci_bus_id, entry->pci_bus_id) == 0)
        return FALSE;
    }
  return TRUE;
}

static void
sample (Monitor *monitor)
{
  for (guint i = 0; i < monitor->entries->len; i++)
    {
      Entry *entry = g_ptr_array_index (monitor->entries, i);

      g_clear_pointer (&entry->processes, g_ptr_array_unref);
      entry->known = gpumem_usage_get (entry->device, &entry->context, &entry->usage);
      if (entry->pci_bus_id != NULL && is_first (monitor, entry))
        entry->processes = gpumem_nvml_list_processes (entry->pci_bus_id);
    }
  g_clear_pointer (&monitor->pools, g_ptr_array_unref);
  monitor->pools = gpumem_status_list ();
}

/* --- text ------------------------------------------------------------------------------------ */

static void
print_devices (const Monitor *monitor)
{
  static const GpumemColumn columns[] = {
    { "DEVICE", FALSE, 0 }, { "NAME", FALSE, 16 }, { "TOTAL", TRUE, 0 }, { "USED", TRUE, 0 },
    { "FREE", TRUE, 0 }, { "USE", TRUE, 0 }
  };
  g_autoptr (GpumemTable) table = gpumem_table_new (columns, G_N_ELEMENTS (columns));

  for (guint i = 0; i < monitor->entries->len; i++)
    {
      const Entry *entry = g_ptr_array_index (monitor->entries, i);
      const guint64 size = entry->known ? entry->usage.total
                                        : gpu_device_get_memory_size (entry->device);
      g_autofree char *total = gpumem_format_size (size);
      g_autofree char *used = gpumem_format_size (entry->usage.used);
      g_autofree char *unused = gpumem_format_size (entry->usage.free);
      const double used_part = (double) entry->usage.used / MAX (size, 1);
      g_autofree char *part = g_strdup_printf ("%.0f %%", 100 * used_part);

      gpumem_table_add (table, entry->known ? GPUMEM_STYLE_PLAIN : GPUMEM_STYLE_FAINT,
                        (const char *const[]) { gpu_device_get_id (entry->device),
                                                gpu_device_get_name (entry->device), total,
                                                entry->known ? used : "-",
                                                entry->known ? unused : "-",
                                                entry->known ? part : "-" });
    }
  gpumem_table_print (table, gpumem_terminal_width ());
}

static void
print_processes (const Monitor *monitor)
{
  static const GpumemColumn columns[] = {
    { "DEVICE", FALSE, 0 }, { "PID", TRUE, 0 }, { "PROCESS", FALSE, 16 }, { "USED", TRUE, 0 }
  };
  g_autoptr (GpumemTable) table = gpumem_table_new (columns, G_N_ELEMENTS (columns));
  guint n = 0;

  for (guint i = 0; i < monitor->entries->len; i++)
    {
      const Entry *entry = g_ptr_array_index (monitor->entries, i);

      for (guint j = 0; entry->processes != NULL && j < entry->processes->len; j++, n++)
        {
          const GpumemProcess *process = g_ptr_array_index (entry->processes, j);
          g_autofree char *pid = g_strdup_printf ("%u", process->pid);
          g_autofree char *used = process->used != G_MAXUINT64 ? gpumem_format_size (process->used)
                                                               : g_strdup ("-");

          gpumem_table_add (table, GPUMEM_STYLE_PLAIN,
                            (const char *const[]) { gpu_device_get_id (entry->device), pid,
                                                    process->name != NULL ? process->name : "-",
                                                    used });
        }
    }
  if (n == 0)
    return;
  g_print ("\n");
  gpumem_table_print (table, gpumem_terminal_width ());
}

static void
print_pools (const Monitor *monitor)
{
  static const GpumemColumn columns[] = {
    { "PID", TRUE, 0 }, { "PROCESS", FALSE, 12 }, { "DEVICE", FALSE, 0 }, { "POOL", FALSE, 0 },
    { "MANAGED", TRUE, 0 }, { "ACTIVE", TRUE, 0 }, { "FRAGMENTED", TRUE, 0 }
  };
  g_autoptr (GpumemTable) table = gpumem_table_new (columns, G_N_ELEMENTS (columns));

  if (!gpumem_status_has_folder ())
    g_print ("\nPools are not shown: XDG_RUNTIME_DIR is not set to an absolute path.\n");
  if (monitor->pools->len == 0)
    return;
  for (guint i = 0; i < monitor->pools->len; i++)
    {
      const GpumemPoolStatus *pool = g_ptr_array_index (monitor->pools, i);
      g_autofree char *pid = g_strdup_printf ("%u", pool->pid);
      g_autofree char *managed = gpumem_format_size (pool->managed);
      g_autofree char *active = gpumem_format_size (pool->active);
      g_autofree char *part = g_strdup_printf ("%.1f %%",
                                               100 * gpumem_status_get_fragmentation (pool));

      gpumem_table_add (table, GPUMEM_STYLE_PLAIN,
                        (const char *const[]) { pid, pool->name, pool->device, pool->kind, managed,
                                                active, part });
    }
  g_print ("\n");
  gpumem_table_print (table, gpumem_terminal_width ());
}

static GString *screen;

static void
keep_text (const char *text)
{
  g_string_append (screen, text);
}

/* Writes the whole screen with one call, so that the terminal does not flicker. Omits lines that do
 * not fit, so that the terminal does not scroll. */
static void
draw (const Monitor *monitor,
      guint          height)
{
  GPrintFunc before = NULL;
  g_auto (GStrv) lines = NULL;

  if (height > 0)
    {
      screen = g_string_new (NULL);
      before = g_set_print_handler (keep_text);
    }
  print_devices (monitor);
  print_processes (monitor);
  print_pools (monitor);
  if (height == 0)
    return;
  g_set_print_handler (before);
  lines = g_strsplit (screen->str, "\n", -1);
  g_string_assign (screen, "\033[H");
  for (guint i = 0; lines[i] != NULL && i + 1 < height; i++)
    g_string_append_printf (screen, "%s\033[K\n", lines[i]);
  g_string_append (screen, "\033[J");
  g_print ("%s", screen->str);
  g_string_free (g_steal_pointer (&screen), TRUE);
}

/* --- JSON and CSV ---------------------------------------------------------------------------- */

#ifdef HAVE_TOUR
static void
begin_row (JsonBuilder *builder,
           const char  *time,
           const char  *what,
           const char  *device,
           gint64       pid,
           const char  *name)
{
  json_builder_begin_object (builder);
  gpumem_json_add_string (builder, "time", time);
  gpumem_json_add_string (builder, "kind", what);
  gpumem_json_add_string (builder, "device", device);
  if (pid > 0)
    gpumem_json_add_int (builder, "pid", pid);
  else
    gpumem_json_add_string (builder, "pid", NULL);
  gpumem_json_add_string (builder, "name", name);
}

/* Adds the sizes; null for an unknown size. */
static void
add_sizes (JsonBuilder  *builder,
           const gint64 *sizes)
{
  static const char *const names[] = { "total", "used", "free", "managed", "active" };

  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    if (sizes[i] >= 0)
      gpumem_json_add_int (builder, names[i], sizes[i]);
    else
      gpumem_json_add_string (builder, names[i], NULL);
}

static void
end_row (JsonBuilder *builder,
         double       fragmentation)
{
  if (fragmentation >= 0)
    gpumem_json_add_double (builder, "fragmentation", fragmentation);
  else
    gpumem_json_add_string (builder, "fragmentation", NULL);
  json_builder_end_object (builder);
}

static void
add_entry (JsonBuilder *builder,
           const char  *time,
           const Entry *entry)
{
  const GpumemUsage *usage = &entry->usage;
  const char *id = gpu_device_get_id (entry->device);
  const gint64 size = gpu_device_get_memory_size (entry->device);

  begin_row (builder, time, "device", id, 0, gpu_device_get_name (entry->device));
  add_sizes (builder, entry->known
                      ? (gint64[]) { usage->total, usage->used, usage->free, -1, -1 }
                      : (gint64[]) { size, -1, -1, -1, -1 });
  end_row (builder, -1);
  for (guint i = 0; entry->processes != NULL && i < entry->processes->len; i++)
    {
      const GpumemProcess *process = g_ptr_array_index (entry->processes, i);

      begin_row (builder, time, "process", id, process->pid, process->name);
      add_sizes (builder, (gint64[]) { -1, process->used, -1, -1, -1 });
      end_row (builder, -1);
    }
}

static void
print_data (Monitor *monitor)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();
  g_autoptr (JsonNode) root = NULL;
  g_autoptr (GDateTime) now = g_date_time_new_now_utc ();
  g_autofree char *time = g_date_time_format_iso8601 (now);
  g_autofree char *text = NULL;

  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "rows");
  json_builder_begin_array (builder);
  for (guint i = 0; i < monitor->entries->len; i++)
    add_entry (builder, time, g_ptr_array_index (monitor->entries, i));
  for (guint i = 0; i < monitor->pools->len; i++)
    {
      const GpumemPoolStatus *pool = g_ptr_array_index (monitor->pools, i);

      begin_row (builder, time, "pool", pool->device, pool->pid, pool->name);
      add_sizes (builder, (gint64[]) { -1, -1, -1, pool->managed, pool->active });
      end_row (builder, gpumem_status_get_fragmentation (pool));
    }
  json_builder_end_array (builder);
  json_builder_end_object (builder);
  root = json_builder_get_root (builder);
  text = json_to_string (root, FALSE);
  if (monitor->csv)
    gpumem_csv_print (root, "rows", monitor->with_header);
  else
    g_print ("%s\n", text);
  monitor->with_header = FALSE;
}
#endif

/* --- the command ----------------------------------------------------------------------------- */

static void
show (Monitor *monitor)
{
  sample (monitor);
#ifdef HAVE_TOUR
  if (monitor->csv || monitor->json)
    print_data (monitor);
  else
#endif
    draw (monitor, monitor->once ? 0 : gpumem_terminal_height ());
}

/* Returns: %FALSE after Ctrl-C */
static gboolean
wait_interval (Monitor      *monitor,
               GCancellable *cancellable)
{
  GPollFD poll;

  if (!g_cancellable_make_pollfd (cancellable, &poll))
    {
      g_usleep (monitor->interval * G_USEC_PER_SEC);
      return !g_cancellable_is_cancelled (cancellable);
    }
  g_poll (&poll, 1, monitor->interval * 1000);
  g_cancellable_release_fd (cancellable);
  return !g_cancellable_is_cancelled (cancellable);
}

static int
watch (Monitor    *monitor,
       const char *name)
{
  g_autoptr (GCancellable) cancellable = g_cancellable_new ();
  g_autoptr (GpumemInterrupt) interrupt = NULL;
  g_autolist (GpuDevice) devices = NULL;
  g_autoptr (GError) error = NULL;

  if (name == NULL)
    devices = gpu_device_list ();
  else
    devices = g_list_prepend (NULL, gpu_device_find (name, &error));
  if (error != NULL)
    {
      g_clear_list (&devices, NULL);
      gpumem_complain ("%s", error->message);
      return GPUMEM_EXIT_FAILED;
    }
  monitor->entries = g_ptr_array_new_with_free_func (entry_free);
  for (GList *l = devices; l != NULL; l = l->next)
    {
      Entry *entry = g_new0 (Entry, 1);

      entry->device = g_object_ref (l->data);
      g_object_get (entry->device, "pci-bus-id", &entry->pci_bus_id, NULL);
      g_ptr_array_add (monitor->entries, entry);
    }
  interrupt = gpumem_interrupt_new (cancellable);
  if (!monitor->once && !monitor->csv && !monitor->json && gpumem_terminal_height () > 0)
    g_print ("\033[2J");
  do
    show (monitor);
  while (!monitor->once && ferror (stdout) == 0 && wait_interval (monitor, cancellable));
  return GPUMEM_EXIT_OK;
}

static int
run_monitor (char **arguments)
{
  g_auto (Monitor) monitor = { .interval = DEFAULT_INTERVAL, .with_header = TRUE };
  const GOptionEntry entries[] = {
    { "interval", 'i', 0, G_OPTION_ARG_DOUBLE, &monitor.interval,
      "Time between two views [1]", "SECONDS" },
    { "once", 0, 0, G_OPTION_ARG_NONE, &monitor.once, "Print one view, and end", NULL },
#ifdef HAVE_TOUR
    GPUMEM_JSON_ENTRIES (&monitor.json, &monitor.csv)
#endif
    { NULL, 0, 0, 0, NULL, NULL, NULL }
  };

  if (!gpumem_command_parse (&gpumem_monitor_command, entries, arguments))
    return GPUMEM_EXIT_USAGE;
  if (arguments[1] != NULL && arguments[2] != NULL)
    return gpumem_command_usage (&gpumem_monitor_command,
                                 "too many arguments: '%s'; name at most one device",
                                 arguments[2]);
  if (!(monitor.interval >= MIN_INTERVAL && monitor.interval <= MAX_INTERVAL))
    return gpumem_command_usage (&gpumem_monitor_command,
                                 "invalid interval of %g seconds: use %g to %g", monitor.interval,
                                 MIN_INTERVAL, MAX_INTERVAL);
  return watch (&monitor, arguments[1]);
}

const GpumemCommand gpumem_monitor_command = {
  .name = "monitor",
  .parameters = "[DEVICE]",
  .summary = "show used and free memory, by device, process and pool",
  .description =
    "DEVICE is an id from 'gpumem devices'; the default is all devices. Ctrl-C ends the view.\n\n"
    "USED and FREE are the memory of all processes, or \"-\" if no driver reports it. Processes\n"
    "are those that NVIDIA's driver reports. Pools are those of your programs that run with\n"
    "GPUMEM_STATUS=1 in their environment, and with the same XDG_RUNTIME_DIR as this command.\n"
    "FRAGMENTED is the part of a pool's free memory outside its largest free block.\n\n"
    "With --json or --csv, each view is a line of JSON, or a row for each device, process and\n"
    "pool.",
  .run = run_monitor
};
