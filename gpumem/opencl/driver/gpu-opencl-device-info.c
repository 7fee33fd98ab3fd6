/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Device queries. */
#include "config.h"

#include <string.h>

#include "gpumem/opencl/driver/gpu-opencl.h"

GPtrArray *_gpu_opencl_known_devices;

char *
_gpu_opencl_clean_text (char *text)
{
  g_autofree char *owned = text;

  return g_strstrip (g_utf8_make_valid (owned, -1));
}

gpointer
_gpu_opencl_device_get_data (cl_device_id     id,
                             cl_device_info   info,
                             gsize           *size,
                             GError         **error)
{
  g_autofree char *data = NULL;
  gsize needed = 0;
  cl_int code = clGetDeviceInfo (id, info, 0, NULL, &needed);

  if (code == CL_SUCCESS)
    {
      data = g_malloc0 (needed + 1);
      /* Some drivers return an error for a read of 0 bytes. */
      if (needed > 0)
        code = clGetDeviceInfo (id, info, needed, data, NULL);
    }

  if (code != CL_SUCCESS)
    {
      _gpu_opencl_set_error (error, "clGetDeviceInfo", code, "info 0x%04x", info);
      return NULL;
    }

  if (size != NULL)
    *size = needed;

  return g_steal_pointer (&data);
}

gboolean
_gpu_opencl_device_get (cl_device_id     id,
                        cl_device_info   info,
                        gpointer         value,
                        gsize            size,
                        GError         **error)
{
  cl_int code = clGetDeviceInfo (id, info, size, value, NULL);

  if (code == CL_SUCCESS)
    return TRUE;

  _gpu_opencl_set_error (error, "clGetDeviceInfo", code, "info 0x%04x", info);
  return FALSE;
}

gboolean
_gpu_opencl_device_has (GpuOpenclDevice *device,
                        const char      *extension)
{
  return g_strv_contains ((const char *const *) device->extensions, extension);
}

gboolean
_gpu_opencl_device_hangs (GpuOpenclDevice *device)
{
  if (device->pocl > 0)
    return g_str_has_prefix (device->base.name, "basic");

  return g_str_equal (device->base.platform, "Oclgrind");
}

gboolean
_gpu_opencl_device_is_nvidia (GpuOpenclDevice *device)
{
  return strstr (device->base.platform, "NVIDIA") != NULL;
}

gboolean
_gpu_opencl_device_is_intel_cpu (GpuOpenclDevice *device)
{
  return g_str_equal (device->base.platform, "Intel(R) OpenCL")
         && device->base.type == GPU_DEVICE_TYPE_CPU;
}

GpuOpenclDevice *
_gpu_opencl_device_lookup (cl_device_id id)
{
  for (guint i = 0; _gpu_opencl_known_devices != NULL && i < _gpu_opencl_known_devices->len; i++)
    {
      GpuOpenclDevice *device = g_ptr_array_index (_gpu_opencl_known_devices, i);

      if (device->id == id)
        return device;
    }

  return NULL;
}
