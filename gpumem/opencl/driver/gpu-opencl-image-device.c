/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Image capabilities and limits of a device. */
#include "config.h"

#include <string.h>

#include "gpumem/opencl/driver/gpu-opencl.h"

static gboolean
read_limits (GpuOpenclDevice *device)
{
  GpuOpenclImageLimits *limits = &device->image_limits;
  const struct
  {
    cl_device_info  info;
    gsize          *value;
  }
  entries[] =
  {
    { CL_DEVICE_IMAGE2D_MAX_WIDTH, &limits->width_2d },
    { CL_DEVICE_IMAGE2D_MAX_HEIGHT, &limits->height_2d },
    { CL_DEVICE_IMAGE3D_MAX_WIDTH, &limits->width_3d },
    { CL_DEVICE_IMAGE3D_MAX_HEIGHT, &limits->height_3d },
    { CL_DEVICE_IMAGE3D_MAX_DEPTH, &limits->depth_3d },
    { CL_DEVICE_IMAGE_MAX_BUFFER_SIZE, &limits->over_buffer },
    { CL_DEVICE_IMAGE_MAX_ARRAY_SIZE, &limits->n_layers }
  };

  for (gsize i = 0; i < G_N_ELEMENTS (entries); i++)
    {
      if (!_gpu_opencl_device_get (device->id, entries[i].info, entries[i].value,
                                   sizeof *entries[i].value, NULL))
        return FALSE;
    }

  return TRUE;
}

/* Returns whether the device has the optional feature @name of OpenCL C. Devices report features
 * since OpenCL 3.0. */
static gboolean
has_feature (GpuOpenclDevice *device,
             const char      *name)
{
  g_autofree cl_name_version *features = NULL;
  gsize size = 0;

  if (device->level >= 30)
    features = _gpu_opencl_device_get_data (device->id, CL_DEVICE_OPENCL_C_FEATURES, &size, NULL);

  for (gsize i = 0; features != NULL && i < size / sizeof *features; i++)
    {
      if (strncmp (features[i].name, name, sizeof features[i].name) == 0)
        return TRUE;
    }

  return FALSE;
}

static gboolean
has_rows_over_buffers (GpuOpenclDevice *device)
{
  cl_uint alignment = 0;

  if (device->level >= 20 || _gpu_opencl_device_has (device, "cl_khr_image2d_from_buffer"))
    _gpu_opencl_device_get (device->id, CL_DEVICE_IMAGE_PITCH_ALIGNMENT, &alignment,
                            sizeof alignment, NULL);

  device->base.row_alignment = alignment;

  return alignment != 0;
}

GpuCapabilities
_gpu_opencl_device_read_images (GpuOpenclDevice *device)
{
  GpuCapabilities capabilities = GPU_CAPABILITIES_IMAGES;
  cl_bool support = CL_FALSE;

  if (!_gpu_opencl_device_get (device->id, CL_DEVICE_IMAGE_SUPPORT, &support, sizeof support,
                               NULL)
      || support == CL_FALSE || !read_limits (device))
    return 0;

  if (has_rows_over_buffers (device))
    capabilities |= GPU_CAPABILITIES_IMAGE_FROM_BUFFER;
  if ((device->level >= 20 && device->level < 30)
      || _gpu_opencl_device_has (device, "cl_khr_3d_image_writes")
      || has_feature (device, "__opencl_c_3d_image_writes"))
    capabilities |= GPU_CAPABILITIES_IMAGE_3D_WRITES;
  if (_gpu_opencl_device_has (device, "cl_khr_mipmap_image"))
    capabilities |= GPU_CAPABILITIES_MIPMAPS;

  return capabilities;
}
