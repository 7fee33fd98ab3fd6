/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* NVML, NVIDIA's management library, which is loaded at run time. Without a context, it reports the
 * memory of a device and the memory of each process. */
#pragma once

#include "tools/gpumem-usage.h"

G_BEGIN_DECLS

typedef struct
{
  guint    pid;
  guint64  used;      /* bytes, G_MAXUINT64 if the driver does not report it */
  char    *name;      /* nullable */
} GpumemProcess;

/* Returns: %FALSE if the library is missing or does not support the device */
gboolean   gpumem_nvml_get_usage      (const char  *pci_bus_id,
                                       GpumemUsage *usage);
/* Returns: the kind of the link between two devices, or %NULL if it is unknown */
const char *gpumem_nvml_get_link      (const char  *pci_bus_id,
                                       const char  *peer_bus_id);
/* Returns: (transfer full): the processes on the device, of GpumemProcess */
GPtrArray *gpumem_nvml_list_processes (const char  *pci_bus_id);

G_END_DECLS
