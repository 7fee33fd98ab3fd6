/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "tools/gpumem-nvml.h"
#include "tools/gpumem-usage.h"

/* Tries NVML before a context of the library, because a context on an NVIDIA device uses hundreds
 * of megabytes itself. */
gboolean
gpumem_usage_get (GpuDevice    *device,
                  GpuContext  **context,
                  GpumemUsage  *usage)
{
  g_autofree char *pci_bus_id = NULL;
  GpuMemoryInfoSource source;

  g_object_get (device, "pci-bus-id", &pci_bus_id, NULL);
  if (pci_bus_id != NULL && gpumem_nvml_get_usage (pci_bus_id, usage))
    return TRUE;
  if (!gpu_device_check (device, NULL))
    return FALSE;
  if (*context == NULL)
    *context = gpu_context_new (device, GPU_CONTEXT_FLAGS_NONE, NULL);
  if (*context == NULL ||
      !gpu_context_get_memory_info (*context, &usage->free, &usage->total, &source, NULL) ||
      source == GPU_MEMORY_INFO_SOURCE_ACCOUNTING)
    return FALSE;
  usage->used = usage->total - MIN (usage->free, usage->total);
  return TRUE;
}
