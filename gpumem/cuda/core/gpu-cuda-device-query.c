/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Queries of device attributes, and the list of devices. */
#include "config.h"

#include <string.h>

#include "gpumem/cuda/core/gpu-cuda.h"

/* Set by the first successful enumeration, and read only after that. */
static GPtrArray *known_devices;

void
_gpu_cuda_device_set_known (GPtrArray *devices)
{
  known_devices = g_ptr_array_ref (devices);
}

GpuCudaDevice *
_gpu_cuda_device_lookup (CUdevice handle)
{
  for (guint i = 0; known_devices != NULL && i < known_devices->len; i++)
    {
      GpuCudaDevice *device = g_ptr_array_index (known_devices, i);

      if (device->device == handle)
        return device;
    }

  return NULL;
}

gboolean
_gpu_cuda_device_get (GpuCudaDevice       *device,
                      CUdevice_attribute   attribute,
                      int                 *value,
                      GError             **error)
{
  CUresult code = _gpu_cuda.cuDeviceGetAttribute (value, attribute, device->device);

  if (code == CUDA_SUCCESS)
    return TRUE;

  _gpu_cuda_set_error (error, "cuDeviceGetAttribute", code, "attribute %u", attribute);

  return FALSE;
}

int
_gpu_cuda_get_optional (GpuCudaDevice      *device,
                        CUdevice_attribute  attribute)
{
  int value = 0;

  return _gpu_cuda_device_get (device, attribute, &value, NULL) ? MAX (value, 0) : 0;
}

gboolean
_gpu_cuda_get_uuid (CUdevice  device,
                    CUuuid   *uuid)
{
  if (_gpu_cuda.cuDeviceGetUuid (uuid, device) == CUDA_SUCCESS)
    return TRUE;

  memset (uuid, 0, sizeof *uuid);

  return FALSE;
}

char *
_gpu_cuda_format_uuid (const CUuuid *uuid)
{
  GString *text = g_string_new (NULL);

  for (gsize i = 0; i < sizeof uuid->bytes; i++)
    {
      if (i == 4 || i == 6 || i == 8 || i == 10)
        g_string_append_c (text, '-');
      g_string_append_printf (text, "%02x", (guint8) uuid->bytes[i]);
    }

  return g_string_free (text, FALSE);
}
