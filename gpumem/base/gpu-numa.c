/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gpumem/base/gpu-error.h"
#include "gpumem/base/gpu-numa-private.h"

/* The library calls mbind() without libnuma. A preferred node, and not a required one: if a
 * required node is full, the kernel ends the process. */
#define PREFERRED 1

#define MAX_NODES 1024
#define LONG_BITS (8 * sizeof (unsigned long))

static char *
read_text (const char *root,
           const char *name)
{
  g_autofree char *path = g_strconcat (root, name, NULL);
  char *text = NULL;

  return g_file_get_contents (path, &text, NULL, NULL) ? g_strstrip (text) : NULL;
}

/* Returns the list of the nodes with memory, such as "0-1,4". Returns NULL if the host has only one
 * such node. */
static char *
list_nodes (const char *root)
{
  g_autofree char *text = read_text (root, "/sys/devices/system/node/has_memory");

  return text != NULL && strpbrk (text, "-,") != NULL ? g_steal_pointer (&text) : NULL;
}

static gboolean
has_node (const char *list,
          int         node)
{
  g_auto (GStrv) ranges = g_strsplit (list, ",", -1);

  for (gsize i = 0; ranges[i] != NULL; i++)
    {
      const char *dash = strchr (ranges[i], '-');
      gint64 first = g_ascii_strtoll (ranges[i], NULL, 10);
      gint64 last = dash != NULL ? g_ascii_strtoll (dash + 1, NULL, 10) : first;

      if (first <= node && node <= last)
        return TRUE;
    }

  return FALSE;
}

gboolean
_gpu_numa_check (const char  *root,
                 const char  *function,
                 int          node,
                 GError     **error)
{
  g_autofree char *nodes = NULL;

  if (node == GPU_NUMA_NODE_NONE || node == GPU_NUMA_NODE_DEVICE)
    return TRUE;

  nodes = list_nodes (root);

  if (node >= 0 && (nodes == NULL || has_node (nodes, node)))
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s: there is no NUMA node %d with memory: the nodes are %s", function, node,
               nodes != NULL ? nodes : "0");

  return FALSE;
}

/* The kernel reports -1, GPU_NUMA_NODE_NONE, for a device that is not near any node. */
static int
find_node (const char *root,
           const char *pci_bus_id)
{
  g_autofree char *name = g_strconcat ("/sys/bus/pci/devices/", pci_bus_id, "/numa_node", NULL);
  g_autofree char *text = read_text (root, name);

  return text != NULL ? (int) g_ascii_strtoll (text, NULL, 10) : GPU_NUMA_NODE_NONE;
}

int
_gpu_numa_resolve (const char *root,
                   int         node,
                   const char *pci_bus_id)
{
  g_autofree char *nodes = NULL;

  if (node == GPU_NUMA_NODE_NONE || (node == GPU_NUMA_NODE_DEVICE && pci_bus_id == NULL))
    return GPU_NUMA_NODE_NONE;

  nodes = list_nodes (root);

  if (nodes == NULL)
    return GPU_NUMA_NODE_NONE;

  if (node == GPU_NUMA_NODE_DEVICE)
    node = find_node (root, pci_bus_id);

  return has_node (nodes, node) ? node : GPU_NUMA_NODE_NONE;
}

int
_gpu_numa_bind (gpointer data,
                gsize    size,
                int      node)
{
#ifdef SYS_mbind
  unsigned long mask[MAX_NODES / LONG_BITS] = { 0 };
  gsize page = (gsize) sysconf (_SC_PAGESIZE);
  gsize lead = -(guintptr) data % page;

  if (node < 0 || node >= MAX_NODES || size < lead + page)
    return GPU_NUMA_NODE_NONE;

  mask[(gsize) node / LONG_BITS] = 1UL << (gsize) node % LONG_BITS;

  /* The kernel uses one bit less than the given number of bits. */
  if (syscall (SYS_mbind, (guint8 *) data + lead, (size - lead) / page * page, PREFERRED, mask,
               (unsigned long) MAX_NODES + 1, 0) == 0)
    return node;
#endif

  return GPU_NUMA_NODE_NONE;
}
