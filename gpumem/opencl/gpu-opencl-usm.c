/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Unified shared memory, through cl_intel_unified_shared_memory. This memory has an address but no
 * cl_mem. The extension has functions for copies and fills. Copies from and to buffers and images
 * treat the address like host memory.
 */
#include "config.h"

#include "gpumem/opencl/driver/gpu-opencl.h"

#define SIZE "%" G_GSIZE_FORMAT

static const struct
{
  GpuSvmFlags     kind;
  cl_device_info  capabilities;
  const char     *function;
  const char     *nick;
} kinds[] =
{
  { GPU_SVM_FLAGS_USM_DEVICE, CL_DEVICE_DEVICE_MEM_CAPABILITIES_INTEL, "clDeviceMemAllocINTEL",
    "usm-device" },
  { GPU_SVM_FLAGS_USM_HOST, CL_DEVICE_HOST_MEM_CAPABILITIES_INTEL, "clHostMemAllocINTEL",
    "usm-host" },
  { GPU_SVM_FLAGS_USM_SHARED, CL_DEVICE_SINGLE_DEVICE_SHARED_MEM_CAPABILITIES_INTEL,
    "clSharedMemAllocINTEL", "usm-shared" }
};

static gsize
get_index (GpuSvmFlags kind)
{
  gsize i = 0;

  while (i < G_N_ELEMENTS (kinds) - 1 && kinds[i].kind != kind)
    i++;

  return i;
}

static gboolean
load (GpuOpenclDevice *device)
{
  cl_platform_id platform = device->cl_platform;
  GpuOpenclUsm *usm = &device->usm;

  usm->alloc_device = (clDeviceMemAllocINTEL_fn)
    clGetExtensionFunctionAddressForPlatform (platform, "clDeviceMemAllocINTEL");
  usm->alloc_host = (clHostMemAllocINTEL_fn)
    clGetExtensionFunctionAddressForPlatform (platform, "clHostMemAllocINTEL");
  usm->alloc_shared = (clSharedMemAllocINTEL_fn)
    clGetExtensionFunctionAddressForPlatform (platform, "clSharedMemAllocINTEL");
  usm->free = (clMemFreeINTEL_fn)
    clGetExtensionFunctionAddressForPlatform (platform, "clMemFreeINTEL");
  usm->set_argument = (clSetKernelArgMemPointerINTEL_fn)
    clGetExtensionFunctionAddressForPlatform (platform, "clSetKernelArgMemPointerINTEL");
  usm->fill = (clEnqueueMemFillINTEL_fn)
    clGetExtensionFunctionAddressForPlatform (platform, "clEnqueueMemFillINTEL");
  usm->copy = (clEnqueueMemcpyINTEL_fn)
    clGetExtensionFunctionAddressForPlatform (platform, "clEnqueueMemcpyINTEL");

  return usm->alloc_device != NULL && usm->alloc_host != NULL && usm->alloc_shared != NULL
         && usm->free != NULL && usm->set_argument != NULL && usm->fill != NULL
         && usm->copy != NULL;
}

/* Requires OpenCL 2.0, for clSetKernelExecInfo(). */
void
_gpu_opencl_device_read_usm (GpuOpenclDevice *device)
{
  if (device->api < 20 || !_gpu_opencl_device_has (device, "cl_intel_unified_shared_memory")
      || !load (device))
    return;

  for (gsize i = 0; i < G_N_ELEMENTS (kinds); i++)
    {
      cl_bitfield bits = 0;

      if (!_gpu_opencl_device_get (device->id, kinds[i].capabilities, &bits, sizeof bits, NULL)
          || (bits & CL_UNIFIED_SHARED_MEMORY_ACCESS_INTEL) == 0)
        continue;

      device->base.usm_kinds |= kinds[i].kind;

      if (kinds[i].kind == GPU_SVM_FLAGS_USM_HOST
          || (kinds[i].kind == GPU_SVM_FLAGS_USM_SHARED
              && (bits & CL_UNIFIED_SHARED_MEMORY_CONCURRENT_ACCESS_INTEL) != 0))
        device->usm.fine |= kinds[i].kind;
    }
}

/* Drivers refuse alignments beyond the size of the largest type. For larger alignments, this file
 * allocates more memory and aligns the start within it. */
#define MAX_ALIGNMENT 128

static gpointer
call_alloc (GpuOpenclContext *context,
            GpuSvmFlags       kind,
            gsize             size,
            gsize             alignment,
            cl_int           *code)
{
  GpuOpenclDevice *device = (GpuOpenclDevice *) context->base.devices[0];
  const GpuOpenclUsm *usm = &device->usm;

  if (kind == GPU_SVM_FLAGS_USM_HOST)
    return usm->alloc_host (context->context, NULL, size, (cl_uint) alignment, code);

  return (kind == GPU_SVM_FLAGS_USM_DEVICE ? usm->alloc_device : usm->alloc_shared)
         (context->context, device->id, NULL, size, (cl_uint) alignment, code);
}

GpuNativeBuffer *
_gpu_opencl_usm_alloc (GpuNativeContext  *context,
                       GpuSvmFlags        kind,
                       gsize              size,
                       gsize              alignment,
                       GError           **error)
{
  const GpuOpenclUsm *usm = &((GpuOpenclDevice *) context->devices[0])->usm;
  gsize room = alignment > MAX_ALIGNMENT ? alignment : 0;
  cl_int code = CL_OUT_OF_RESOURCES;
  gpointer data = NULL;
  GpuOpenclBuffer *buffer;

  if (size <= G_MAXSIZE - room)
    data = call_alloc ((GpuOpenclContext *) context, kind, size + room,
                       room == 0 ? alignment : 0, &code);

  if (data == NULL)
    {
      /* If memory is short, drivers return various codes, or NULL with CL_SUCCESS. */
      _gpu_opencl_set_error_as (error, GPU_ERROR_OUT_OF_DEVICE_MEMORY,
                                kinds[get_index (kind)].function, code,
                                SIZE " bytes requested, aligned to " SIZE ", " SIZE
                                " bytes held by the context", size, alignment,
                                (gsize) g_atomic_pointer_get (&context->allocated));
      return NULL;
    }

  buffer = (GpuOpenclBuffer *) _gpu_opencl_buffer_new (NULL, size);
  buffer->usm = usm;
  buffer->usm_kind = kind;
  buffer->usm_allocation = data;
  buffer->usm_start = room == 0 ? data : (gpointer) (((guintptr) data + room - 1)
                                                     & ~(guintptr) (room - 1));
  buffer->svm = buffer->svm_argument = buffer->usm_start;

  if ((usm->fine & kind) != 0)
    buffer->base.host = buffer->svm;

  return &buffer->base;
}

GpuNativeBuffer *
_gpu_opencl_usm_slice (GpuOpenclBuffer *parent,
                       gsize            offset,
                       gsize            size)
{
  GpuOpenclBuffer *buffer = (GpuOpenclBuffer *) _gpu_opencl_buffer_new (NULL, size);

  buffer->usm = parent->usm;
  buffer->usm_kind = parent->usm_kind;
  buffer->usm_start = parent->usm_start;
  buffer->svm = buffer->svm_argument = (guint8 *) parent->svm + offset;

  if (parent->base.host != NULL)
    buffer->base.host = (guint8 *) parent->base.host + offset;

  return &buffer->base;
}

void
_gpu_opencl_usm_get_attributes (GpuOpenclBuffer *buffer,
                                GVariantDict    *attributes)
{
  g_variant_dict_insert (attributes, "usm-type", "s", kinds[get_index (buffer->usm_kind)].nick);
  g_variant_dict_insert (attributes, "size", "t", (guint64) buffer->base.size);
}

/* --- commands --------------------------------------------------------------------------------- */

gboolean
_gpu_opencl_usm_copy (GpuNativeStream     *stream,
                      const GpuOpenclUsm  *usm,
                      gpointer             destination,
                      gconstpointer        source,
                      gsize                size,
                      GpuNativeEvent     **event,
                      GError             **error)
{
  cl_event native = NULL;
  cl_int code = usm->copy (_gpu_opencl_stream_handle (stream), CL_FALSE, destination, source, size,
                           0, NULL, event != NULL ? &native : NULL);

  return _gpu_opencl_enqueued (stream, code, "clEnqueueMemcpyINTEL", native, event, error,
                               SIZE " bytes", size);
}

gboolean
_gpu_opencl_usm_fill (GpuNativeStream      *stream,
                      GpuNativeBuffer      *destination,
                      const GpuNativeFill  *fill,
                      GpuNativeEvent      **event,
                      GError              **error)
{
  GpuOpenclBuffer *buffer = (GpuOpenclBuffer *) destination;
  cl_event native = NULL;
  cl_int code = buffer->usm->fill (_gpu_opencl_stream_handle (stream),
                                   (guint8 *) buffer->svm + fill->offset, fill->pattern,
                                   fill->pattern_size, fill->size, 0, NULL,
                                   event != NULL ? &native : NULL);

  return _gpu_opencl_enqueued (stream, code, "clEnqueueMemFillINTEL", native, event, error,
                               SIZE " bytes from offset " SIZE " of " SIZE " bytes, with a pattern "
                               "of " SIZE " bytes", fill->size, fill->offset, destination->size,
                               fill->pattern_size);
}

gpointer
_gpu_opencl_usm_map (GpuNativeStream  *stream,
                     GpuNativeBuffer  *native,
                     GpuMapFlags       flags G_GNUC_UNUSED,
                     gsize             offset,
                     gsize             size G_GNUC_UNUSED,
                     GpuNativeEvent  **event,
                     GError          **error)
{
  GpuOpenclBuffer *buffer = (GpuOpenclBuffer *) native;

  if (buffer->usm_kind != GPU_SVM_FLAGS_USM_DEVICE)
    return _gpu_opencl_pass (stream, event, error) ? (guint8 *) buffer->svm + offset : NULL;

  g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
               "the host cannot access " SIZE " bytes of unified shared memory of device %s; copy "
               "them with gpu_stream_read() and gpu_stream_write()", native->size,
               stream->context->devices[0]->id);
  return NULL;
}
