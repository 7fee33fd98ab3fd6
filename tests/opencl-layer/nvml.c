/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A stand-in for libnvidia-ml.so.1, never installed:
 *
 *   GPUMEM_NVML=0000:2a:01.0=123456   the PCI address and the free bytes of the only device.
 *                                     Without the variable there is no driver; without the
 *                                     bytes the query fails.
 *   GPUMEM_NVML_PROCESSES=7:4096,8:   the processes of the device and their bytes; without the
 *                                     bytes they are unknown.
 *   GPUMEM_NVML_NAME=trainer          the name of each process; the default is "trainer".
 *   GPUMEM_NVML_LINK=nvlink           the link between any two devices: "nvlink", or the level of
 *                                     their common ancestor in the PCIe hierarchy. All PCI
 *                                     addresses are those of devices, without free bytes.
 */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#define NVML_EXPORT __attribute__ ((visibility ("default")))

enum
{
  NVML_SUCCESS,
  NVML_ERROR_UNINITIALIZED,
  NVML_ERROR_NO_PERMISSION = 4,
  NVML_ERROR_NOT_FOUND = 6,
  NVML_ERROR_INSUFFICIENT_SIZE = 7,
  NVML_ERROR_DRIVER_NOT_LOADED = 9
};

typedef struct
{
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
} nvmlMemory_t;

NVML_EXPORT int          nvmlInit_v2                      (void);
NVML_EXPORT int          nvmlDeviceGetHandleByPciBusId_v2 (const char    *bus_id,
                                                           const char   **device);
NVML_EXPORT int          nvmlDeviceGetMemoryInfo          (const char    *device,
                                                           nvmlMemory_t  *memory);
NVML_EXPORT const char * nvmlErrorString                  (int            code);

typedef struct
{
  unsigned int       pid;
  unsigned long long used;
  unsigned int       gpu_instance;
  unsigned int       compute_instance;
} nvmlProcessInfo_t;

NVML_EXPORT int          nvmlDeviceGetComputeRunningProcesses_v3 (const char        *device,
                                                                  unsigned int      *n,
                                                                  nvmlProcessInfo_t *processes);
NVML_EXPORT int          nvmlSystemGetProcessName         (unsigned int   pid,
                                                           char          *name,
                                                           unsigned int   size);

enum
{
  NVML_P2P_CAPS_INDEX_NVLINK = 2,
  NVML_P2P_STATUS_OK = 0,
  NVML_P2P_STATUS_NOT_SUPPORTED = 5
};

NVML_EXPORT int          nvmlDeviceGetP2PStatus           (const char    *device,
                                                           const char    *peer,
                                                           int            capability,
                                                           int           *status);
NVML_EXPORT int          nvmlDeviceGetTopologyCommonAncestor (const char *device,
                                                           const char    *peer,
                                                           int           *level);

static const char *text;

int
nvmlInit_v2 (void)
{
  text = getenv ("GPUMEM_NVML");
  return text != NULL ? NVML_SUCCESS : NVML_ERROR_DRIVER_NOT_LOADED;
}

int
nvmlDeviceGetHandleByPciBusId_v2 (const char  *bus_id,
                                  const char **device)
{
  const size_t size = strlen (bus_id);

  if (text == NULL)
    return NVML_ERROR_UNINITIALIZED;
  if (getenv ("GPUMEM_NVML_LINK") != NULL)
    {
      *device = "";
      return NVML_SUCCESS;
    }
  if (strncmp (text, bus_id, size) != 0 || text[size] != '=')
    return NVML_ERROR_NOT_FOUND;
  *device = text + size + 1;
  return NVML_SUCCESS;
}

int
nvmlDeviceGetMemoryInfo (const char   *device,
                         nvmlMemory_t *memory)
{
  if (device[0] == '\0')
    return NVML_ERROR_NO_PERMISSION;
  memory->free = strtoull (device, NULL, 10);
  memory->used = memory->free * 2;
  memory->total = memory->free + memory->used;
  return NVML_SUCCESS;
}

int
nvmlDeviceGetComputeRunningProcesses_v3 (const char        *device,
                                         unsigned int      *n,
                                         nvmlProcessInfo_t *processes)
{
  const char *rest = getenv ("GPUMEM_NVML_PROCESSES");
  unsigned int count = 0;

  (void) device;
  for (; rest != NULL && *rest != '\0'; count++)
    {
      char *end;

      if (count == *n)
        return NVML_ERROR_INSUFFICIENT_SIZE;
      processes[count] = (nvmlProcessInfo_t) { strtoul (rest, &end, 10), ~0ull, 0, 0 };
      if (end[1] >= '0' && end[1] <= '9')
        processes[count].used = strtoull (end + 1, NULL, 10);
      rest = strchr (rest, ',');
      if (rest != NULL)
        rest++;
    }
  *n = count;
  return NVML_SUCCESS;
}

int
nvmlSystemGetProcessName (unsigned int  pid,
                          char         *name,
                          unsigned int  size)
{
  const char *given = getenv ("GPUMEM_NVML_NAME");

  (void) pid;
  strncpy (name, given != NULL ? given : "/usr/bin/trainer", size);
  return NVML_SUCCESS;
}

int
nvmlDeviceGetP2PStatus (const char *device,
                        const char *peer,
                        int         capability,
                        int        *status)
{
  const char *given = getenv ("GPUMEM_NVML_LINK");

  (void) device;
  (void) peer;
  if (given == NULL)
    return NVML_ERROR_NOT_FOUND;
  *status = capability == NVML_P2P_CAPS_INDEX_NVLINK && strcmp (given, "nvlink") == 0
            ? NVML_P2P_STATUS_OK : NVML_P2P_STATUS_NOT_SUPPORTED;
  return NVML_SUCCESS;
}

int
nvmlDeviceGetTopologyCommonAncestor (const char *device,
                                     const char *peer,
                                     int        *level)
{
  const char *given = getenv ("GPUMEM_NVML_LINK");

  (void) device;
  (void) peer;
  if (given == NULL || given[0] < '0' || given[0] > '9')
    return NVML_ERROR_NOT_FOUND;
  *level = atoi (given);
  return NVML_SUCCESS;
}

const char *
nvmlErrorString (int code)
{
  return code == NVML_SUCCESS ? "Success" : "Some error";
}
