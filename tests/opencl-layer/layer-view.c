/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Emulates two-dimensional images over buffers, which PoCL lacks:
 *
 *   GPUMEM_LAYER_VIEWS=PITCH:BEGINNING   required alignments, in texels, of the pitch
 *                                        and of the first texel
 *
 * PoCL uses host memory as device memory, so the emulated image uses the memory of its buffer in
 * place. The image must not outlive the buffer.
 */

#include "config.h"

#include "layer.h"

#include <stdlib.h>
#include <string.h>

static cl_icd_dispatch driver;
static cl_uint pitch_alignment;
static cl_uint base_alignment;

static cl_int CL_API_CALL
get_device_info (cl_device_id   device,
                 cl_device_info info,
                 size_t         size,
                 void          *value,
                 size_t        *size_ret)
{
  const cl_uint *from = NULL;

  if (info == CL_DEVICE_IMAGE_PITCH_ALIGNMENT)
    from = &pitch_alignment;
  else if (info == CL_DEVICE_IMAGE_BASE_ADDRESS_ALIGNMENT)
    from = &base_alignment;
  else
    return driver.clGetDeviceInfo (device, info, size, value, size_ret);

  if (value != NULL && size < sizeof *from)
    return CL_INVALID_VALUE;
  if (value != NULL)
    memcpy (value, from, sizeof *from);
  if (size_ret != NULL)
    *size_ret = sizeof *from;
  return CL_SUCCESS;
}

/* Gets the address of the buffer's memory; on PoCL a mapping copies nothing. */
static void *
get_memory (cl_context context,
            cl_mem     buffer,
            cl_int    *code)
{
  cl_command_queue queue;
  cl_device_id device;
  size_t size = 0;
  void *data = NULL;

  *code = driver.clGetContextInfo (context, CL_CONTEXT_DEVICES, sizeof device, &device, NULL);
  if (*code == CL_SUCCESS)
    *code = driver.clGetMemObjectInfo (buffer, CL_MEM_SIZE, sizeof size, &size, NULL);
  if (*code != CL_SUCCESS)
    return NULL;

  queue = driver.clCreateCommandQueue (context, device, 0, code);
  if (queue == NULL)
    return NULL;
  data = driver.clEnqueueMapBuffer (queue, buffer, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0, size,
                                    0, NULL, NULL, code);
  if (data != NULL)
    driver.clEnqueueUnmapMemObject (queue, buffer, data, 0, NULL, NULL);
  driver.clFinish (queue);
  driver.clReleaseCommandQueue (queue);
  return data;
}

static cl_mem CL_API_CALL
create_image (cl_context             context,
              cl_mem_flags           flags,
              const cl_image_format *format,
              const cl_image_desc   *desc,
              void                  *host,
              cl_int                *code)
{
  cl_image_desc without = *desc;

  if (desc->image_type != CL_MEM_OBJECT_IMAGE2D || desc->buffer == NULL)
    return driver.clCreateImage (context, flags, format, desc, host, code);

  without.buffer = NULL;
  host = get_memory (context, desc->buffer, code);
  if (host == NULL)
    return NULL;
  return driver.clCreateImage (context, flags | CL_MEM_USE_HOST_PTR, format, &without, host,
                               code);
}

void
layer_add_views (void)
{
  const char *views = g_getenv ("GPUMEM_LAYER_VIEWS");

  if (views == NULL)
    return;
  if (sscanf (views, "%u:%u", &pitch_alignment, &base_alignment) != 2)
    {
      g_printerr ("gpumem-layer: GPUMEM_LAYER_VIEWS=%s is not understood\n", views);
      abort ();
    }
  driver = layer_target;
  layer_target.clGetDeviceInfo = get_device_info;
  layer_target.clCreateImage = create_image;
}
