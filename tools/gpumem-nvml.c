/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <gmodule.h>

#include "tools/gpumem-nvml.h"

#define LIBRARY           "libnvidia-ml.so.1"
#define SUCCESS           0
#define MAX_PROCESSES     4096
#define P2P_CAPS_NVLINK   2
#define P2P_STATUS_OK     0

/* The structures and functions of NVML, as NVIDIA declares them. */
typedef struct nvmlDevice_st *nvmlDevice_t;

typedef struct
{
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
} nvmlMemory_t;

typedef struct
{
  unsigned int       version;
  unsigned long long total;
  unsigned long long reserved;
  unsigned long long free;
  unsigned long long used;
} nvmlMemory_v2_t;

typedef struct
{
  unsigned int       pid;
  unsigned long long used;
  unsigned int       gpu_instance;
  unsigned int       compute_instance;
} nvmlProcessInfo_t;

typedef int (*ListFunc) (nvmlDevice_t       device,
                         unsigned int      *n,
                         nvmlProcessInfo_t *processes);

static struct
{
  int      (*init)          (void);
  int      (*get_device)    (const char      *pci_bus_id,
                             nvmlDevice_t    *device);
  int      (*get_memory)    (nvmlDevice_t     device,
                             nvmlMemory_t    *memory);
  int      (*get_memory_v2) (nvmlDevice_t     device,     /* nullable, as those below */
                             nvmlMemory_v2_t *memory);
  int      (*get_name)      (unsigned int     pid,
                             char            *name,
                             unsigned int     size);
  int      (*get_p2p)       (nvmlDevice_t     device,
                             nvmlDevice_t     peer,
                             int              capability,
                             int             *status);
  int      (*get_ancestor)  (nvmlDevice_t     device,
                             nvmlDevice_t     peer,
                             int             *level);
  ListFunc   lists[2];                                    /* list compute and graphics processes */
} nvml;

/* Loads version 3 of the functions that list processes, or version 2, which uses the same
 * structure. Does not load version 1, which uses another structure. */
static void
load_optional (GModule *module)
{
  static const char *const names[][2] = {
    { "nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2" },
    { "nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v2" }
  };

  g_module_symbol (module, "nvmlDeviceGetMemoryInfo_v2", (gpointer *) &nvml.get_memory_v2);
  g_module_symbol (module, "nvmlSystemGetProcessName", (gpointer *) &nvml.get_name);
  g_module_symbol (module, "nvmlDeviceGetP2PStatus", (gpointer *) &nvml.get_p2p);
  g_module_symbol (module, "nvmlDeviceGetTopologyCommonAncestor",
                   (gpointer *) &nvml.get_ancestor);
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    if (!g_module_symbol (module, names[i][0], (gpointer *) &nvml.lists[i]))
      g_module_symbol (module, names[i][1], (gpointer *) &nvml.lists[i]);
}

/* Loads and initializes NVML once. It is never closed. */
static gboolean
load (void)
{
  static int loaded = -1;
  GModule *module;

  if (loaded >= 0)
    return loaded;
  module = g_module_open (LIBRARY, G_MODULE_BIND_LAZY | G_MODULE_BIND_LOCAL);
  loaded = module != NULL && g_module_symbol (module, "nvmlInit_v2", (gpointer *) &nvml.init) &&
           g_module_symbol (module, "nvmlDeviceGetHandleByPciBusId_v2",
                            (gpointer *) &nvml.get_device) &&
           g_module_symbol (module, "nvmlDeviceGetMemoryInfo", (gpointer *) &nvml.get_memory) &&
           nvml.init () == SUCCESS;
  if (loaded)
    load_optional (module);
  return loaded;
}

/* Prefers version 2 of the function. In this version, as in nvidia-smi, the used memory does not
 * include the memory that the driver reserves. */
gboolean
gpumem_nvml_get_usage (const char  *pci_bus_id,
                       GpumemUsage *usage)
{
  nvmlMemory_v2_t memory_v2 = { .version = sizeof (nvmlMemory_v2_t) | 2 << 24 };
  nvmlMemory_t memory = { 0 };
  nvmlDevice_t device = NULL;

  if (!load () || nvml.get_device (pci_bus_id, &device) != SUCCESS)
    return FALSE;
  if (nvml.get_memory_v2 != NULL && nvml.get_memory_v2 (device, &memory_v2) == SUCCESS)
    *usage = (GpumemUsage) { memory_v2.total, memory_v2.used, memory_v2.free };
  else if (nvml.get_memory (device, &memory) == SUCCESS)
    *usage = (GpumemUsage) { memory.total, memory.used, memory.free };
  else
    return FALSE;
  return TRUE;
}

/* NVLink, or the part of the PCIe hierarchy that both devices share. */
const char *
gpumem_nvml_get_link (const char *pci_bus_id,
                      const char *peer_bus_id)
{
  static const struct { int level; const char *name; } ancestors[] = {
    { 0, "same board" }, { 10, "PCIe switch" }, { 20, "PCIe switches" },
    { 30, "PCIe host bridge" }, { 40, "NUMA node" }, { 50, "between NUMA nodes" }
  };
  nvmlDevice_t device = NULL;
  nvmlDevice_t peer = NULL;
  int status = -1;
  int level = -1;

  if (!load () || nvml.get_device (pci_bus_id, &device) != SUCCESS
      || nvml.get_device (peer_bus_id, &peer) != SUCCESS)
    return NULL;
  if (nvml.get_p2p != NULL
      && nvml.get_p2p (device, peer, P2P_CAPS_NVLINK, &status) == SUCCESS
      && status == P2P_STATUS_OK)
    return "NVLink";
  if (nvml.get_ancestor == NULL || nvml.get_ancestor (device, peer, &level) != SUCCESS)
    return NULL;
  for (guint i = 0; i < G_N_ELEMENTS (ancestors); i++)
    if (ancestors[i].level == level)
      return ancestors[i].name;
  return NULL;
}

static void
process_free (gpointer data)
{
  GpumemProcess *process = data;

  g_free (process->name);
  g_free (process);
}

/* Replaces unprintable characters in the name of a program, so that the name cannot contain escape
 * sequences for the terminal. */
static char *
make_printable (const char *text)
{
  g_autofree char *valid = g_utf8_make_valid (text, -1);
  GString *printable = g_string_new (NULL);

  for (const char *c = valid; *c != '\0'; c = g_utf8_next_char (c))
    g_string_append_unichar (printable,
                             g_unichar_isprint (g_utf8_get_char (c)) ? g_utf8_get_char (c) : '_');
  return g_string_free (printable, FALSE);
}

static char *
find_name (guint pid)
{
  g_autofree char *base = NULL;
  char name[256] = "";

  if (nvml.get_name == NULL || nvml.get_name (pid, name, sizeof name) != SUCCESS)
    return NULL;
  name[sizeof name - 1] = '\0';
  base = g_path_get_basename (name);
  return make_printable (base);
}

static void
add_process (GPtrArray               *processes,
             const nvmlProcessInfo_t *info)
{
  GpumemProcess *process;

  for (guint i = 0; i < processes->len; i++)
    if (((GpumemProcess *) g_ptr_array_index (processes, i))->pid == info->pid)
      return;
  process = g_new0 (GpumemProcess, 1);
  process->pid = info->pid;
  process->used = info->used;
  process->name = find_name (info->pid);
  g_ptr_array_add (processes, process);
}

/* Reads the lists of compute and graphics processes. A process may be on both lists, so
 * add_process() ignores duplicates. */
GPtrArray *
gpumem_nvml_list_processes (const char *pci_bus_id)
{
  GPtrArray *processes = g_ptr_array_new_with_free_func (process_free);
  nvmlDevice_t device = NULL;

  if (!load () || nvml.get_device (pci_bus_id, &device) != SUCCESS)
    return processes;
  for (guint i = 0; i < G_N_ELEMENTS (nvml.lists); i++)
    {
      g_autofree nvmlProcessInfo_t *list = g_new0 (nvmlProcessInfo_t, MAX_PROCESSES);
      unsigned int n = MAX_PROCESSES;

      if (nvml.lists[i] == NULL || nvml.lists[i] (device, &n, list) != SUCCESS)
        continue;
      for (guint j = 0; j < MIN (n, MAX_PROCESSES); j++)
        add_process (processes, &list[j]);
    }
  return processes;
}
