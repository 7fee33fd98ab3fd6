/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Gets the free memory of an NVIDIA device from the management library (NVML). NVIDIA's OpenCL does
 * not report free memory. CUDA reports it only in a CUDA context, which would itself use memory. */
#include "config.h"

#include <gmodule.h>

#include "gpumem/opencl/driver/gpu-opencl.h"

#if defined (_WIN32)
#define NVML_LIBRARY "nvml.dll"
#else
#define NVML_LIBRARY "libnvidia-ml.so.1"
#endif

#define NVML_SUCCESS 0

/* These declarations match NVIDIA's header. */
typedef struct nvmlDevice_st *nvmlDevice_t;

typedef struct
{
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
} nvmlMemory_t;

static struct
{
  int          (*init)            (void);
  int          (*get_device)      (const char    *pci_bus_id,
                                   nvmlDevice_t  *device);
  int          (*get_memory_info) (nvmlDevice_t   device,
                                   nvmlMemory_t  *memory);
  const char * (*get_error)       (int            code);
}
nvml;

static gboolean
check (int          code,
       const char  *function,
       const char  *pci_bus_id,
       GError     **error)
{
  if (code == NVML_SUCCESS)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED, "%s: %s (%d): device %s", function,
               nvml.get_error (code), code, pci_bus_id);

  return FALSE;
}

/* Loads NVML, which is never unloaded. The drivers are never unloaded either. */
static gboolean
load (void)
{
  GModule *module = g_module_open (NVML_LIBRARY, G_MODULE_BIND_LAZY | G_MODULE_BIND_LOCAL);

  if (module == NULL)
    return FALSE;

  if (g_module_symbol (module, "nvmlInit_v2", (gpointer *) &nvml.init)
      && g_module_symbol (module, "nvmlDeviceGetHandleByPciBusId_v2", (gpointer *) &nvml.get_device)
      && g_module_symbol (module, "nvmlDeviceGetMemoryInfo", (gpointer *) &nvml.get_memory_info)
      && g_module_symbol (module, "nvmlErrorString", (gpointer *) &nvml.get_error)
      && nvml.init () == NVML_SUCCESS)
    return TRUE;

  g_module_close (module);

  return FALSE;
}

gboolean
_gpu_opencl_nvml_get_free (const char  *pci_bus_id,
                           guint64     *free_size,
                           GError     **error)
{
  enum { UNKNOWN, LOADED, MISSING };
  static gsize state = UNKNOWN;
  nvmlDevice_t device = NULL;
  nvmlMemory_t memory = { 0 };

  if (g_once_init_enter (&state))
    g_once_init_leave (&state, load () ? LOADED : MISSING);

  if (state == MISSING)
    {
      g_set_error_literal (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                           NVML_LIBRARY " is missing or does not initialize");
      return FALSE;
    }

  if (!check (nvml.get_device (pci_bus_id, &device), "nvmlDeviceGetHandleByPciBusId_v2",
              pci_bus_id, error)
      || !check (nvml.get_memory_info (device, &memory), "nvmlDeviceGetMemoryInfo", pci_bus_id,
                 error))
    return FALSE;

  *free_size = memory.free;

  return TRUE;
}
