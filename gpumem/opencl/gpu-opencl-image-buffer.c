/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Images that use a buffer as their storage. */
#include "config.h"

#include "gpumem/opencl/driver/gpu-opencl.h"

#define SIZE "%" G_GSIZE_FORMAT

/* Devices report the required alignment of rows and addresses in texels. The value 0 means that no
 * alignment is required. */
static gboolean
check_alignment (GpuNativeDevice  *device,
                 cl_device_info    info,
                 const char       *what,
                 gsize             value,
                 gsize             texel_size,
                 GError          **error)
{
  cl_uint texels = 0;

  if (!_gpu_opencl_device_get (((GpuOpenclDevice *) device)->id, info, &texels, sizeof texels,
                               error))
    return FALSE;

  if (texels == 0 || value % (texels * texel_size) == 0)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "device %s requires %s of an image over a buffer to be a multiple of %u texels of "
               SIZE " bytes, not " SIZE, device->id, what, texels, texel_size, value);
  return FALSE;
}

/* Gets the host address of a CL_MEM_USE_HOST_PTR buffer, or the offset in the parent buffer. */
static gboolean
get_beginning (cl_mem    mem,
               gsize    *beginning,
               GError  **error)
{
  gpointer data = NULL;

  if (!_gpu_opencl_mem_get (mem, CL_MEM_HOST_PTR, &data, sizeof data, error))
    return FALSE;

  *beginning = (gsize) data;

  return data != NULL
         || _gpu_opencl_mem_get (mem, CL_MEM_OFFSET, beginning, sizeof *beginning, error);
}

static gboolean
check_view (GpuNativeContext           *context,
            const GpuImageDescription  *description,
            cl_mem                      buffer,
            gsize                       row_pitch,
            GError                    **error)
{
  gsize beginning;

  if (!get_beginning (buffer, &beginning, error))
    return FALSE;

  for (guint i = 0; i < context->n_devices; i++)
    {
      GpuNativeDevice *device = context->devices[i];

      if ((device->capabilities & GPU_CAPABILITIES_IMAGE_FROM_BUFFER) == 0)
        {
          g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                       "device %s of the context does not support 2D images over buffers",
                       device->id);
          return FALSE;
        }

      if (!check_alignment (device, CL_DEVICE_IMAGE_PITCH_ALIGNMENT, "the row pitch", row_pitch,
                            description->texel_size, error)
          || !check_alignment (device, CL_DEVICE_IMAGE_BASE_ADDRESS_ALIGNMENT, "the address",
                               beginning, description->texel_size, error))
        return FALSE;
    }

  return TRUE;
}

/* PoCL creates images only over whole buffers. For a slice at offset 0, returns its parent, over
 * which the image can be created instead. */
static cl_mem
get_whole_buffer (GpuOpenclBuffer *buffer)
{
  return buffer->parent_offset == 0 ? buffer->parent : NULL;
}

GpuNativeImage *
_gpu_opencl_image_create_for_buffer (GpuNativeContext           *context,
                                     GpuMemoryFlags              flags,
                                     const GpuImageDescription  *description,
                                     GpuNativeBuffer            *native,
                                     gsize                       row_pitch,
                                     GError                    **error)
{
  GpuOpenclBuffer *buffer = (GpuOpenclBuffer *) native;
  const cl_mem_flags access = _gpu_opencl_get_access_flags (flags);
  const gboolean is_2d = description->type == GPU_IMAGE_TYPE_IMAGE_2D;
  cl_image_desc descriptor = _gpu_opencl_image_get_descriptor (description);
  cl_mem mem;
  cl_int code;

  if (buffer->usm != NULL)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                   "OpenCL creates images over buffers only, not over " SIZE " bytes of unified "
                   "shared memory of %s", native->size, context->devices[0]->id);
      return NULL;
    }

  if (is_2d && !check_view (context, description, buffer->mem, row_pitch, error))
    return NULL;

  if (is_2d)
    descriptor.image_row_pitch = row_pitch;
  descriptor.buffer = buffer->mem;
  mem = _gpu_opencl_image_create_mem (context, access, description, &descriptor, NULL, &code);

  if (code == CL_INVALID_MEM_OBJECT && get_whole_buffer (buffer) != NULL)
    {
      descriptor.buffer = get_whole_buffer (buffer);
      mem = _gpu_opencl_image_create_mem (context, access, description, &descriptor, NULL, &code);
    }
  if (code == CL_SUCCESS)
    return _gpu_opencl_image_new (mem, is_2d ? NULL : descriptor.buffer, description, 0, error);

  if (code == CL_INVALID_MEM_OBJECT && buffer->parent != NULL)
    _gpu_opencl_set_error_as (error, GPU_ERROR_NOT_SUPPORTED, "clCreateImage", code,
                              "the driver of %s does not create images over this slice of a "
                              "buffer", context->devices[0]->id);
  else
    _gpu_opencl_image_set_error (error, code, context, description, &descriptor);

  return NULL;
}
