/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Emulates queries that only devices of some vendors support:
 *
 *   GPUMEM_LAYER_VENDOR=amd:KIB          the free memory in KiB; with 0 the query fails
 *   GPUMEM_LAYER_VENDOR=nvidia:BUS:SLOT  the PCI position of the device
 *   GPUMEM_LAYER_PLATFORM=NAME           the name of every platform: "NVIDIA CUDA" enables the
 *                                        library's workarounds for NVIDIA's driver
 */

#include "config.h"

#include "layer.h"

#include <stdlib.h>
#include <string.h>

static cl_icd_dispatch driver;
static const char *extension;
static gsize free_memory[2];
static cl_device_pci_bus_info_khr bus;
static gboolean is_nvidia;
static const char *platform_name;

static char *
get_extensions (cl_device_id device)
{
  g_autofree char *text = NULL;
  size_t size = 0;

  driver.clGetDeviceInfo (device, CL_DEVICE_EXTENSIONS, 0, NULL, &size);
  text = g_malloc0 (size + 1);
  driver.clGetDeviceInfo (device, CL_DEVICE_EXTENSIONS, size, text, NULL);
  return g_strjoin (" ", text, extension, NULL);
}

static cl_int CL_API_CALL
get_device_info (cl_device_id   device,
                 cl_device_info info,
                 size_t         size,
                 void          *value,
                 size_t        *size_ret)
{
  static const char vendor[] = "NVIDIA Corporation";

  if (info == CL_DEVICE_EXTENSIONS)
    {
      g_autofree char *text = get_extensions (device);

      return layer_answer (text, strlen (text) + 1, size, value, size_ret);
    }
  if (info == CL_DEVICE_VENDOR && is_nvidia)
    return layer_answer (vendor, sizeof vendor, size, value, size_ret);
  if (info == CL_DEVICE_PCI_BUS_INFO_KHR && is_nvidia)
    return layer_answer (&bus, sizeof bus, size, value, size_ret);
  if (info == CL_DEVICE_GLOBAL_FREE_MEMORY_AMD && !is_nvidia)
    return layer_answer (free_memory, free_memory[0] != 0 ? sizeof free_memory : 0, size, value,
                         size_ret);
  return driver.clGetDeviceInfo (device, info, size, value, size_ret);
}

static cl_int CL_API_CALL
get_platform_info (cl_platform_id   platform,
                   cl_platform_info info,
                   size_t           size,
                   void            *value,
                   size_t          *size_ret)
{
  if (info == CL_PLATFORM_NAME)
    return layer_answer (platform_name, strlen (platform_name) + 1, size, value, size_ret);

  return driver.clGetPlatformInfo (platform, info, size, value, size_ret);
}

void
layer_add_vendor (void)
{
  const char *vendor = g_getenv ("GPUMEM_LAYER_VENDOR");

  driver = layer_target;
  platform_name = g_getenv ("GPUMEM_LAYER_PLATFORM");
  if (platform_name != NULL)
    layer_target.clGetPlatformInfo = get_platform_info;
  if (vendor == NULL)
    return;
  is_nvidia = g_str_has_prefix (vendor, "nvidia");
  if (is_nvidia ? sscanf (vendor, "nvidia:%x:%x", &bus.pci_bus, &bus.pci_device) != 2
                : sscanf (vendor, "amd:%zu", &free_memory[0]) != 1)
    {
      g_printerr ("gpumem-layer: GPUMEM_LAYER_VENDOR=%s is not understood\n", vendor);
      abort ();
    }
  free_memory[1] = free_memory[0] / 2;
  extension = is_nvidia ? "cl_khr_pci_bus_info" : "cl_amd_device_attribute_query";
  layer_target.clGetDeviceInfo = get_device_info;
}
