/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Memory of other APIs, through cl_khr_external_memory. */
#include "config.h"

#include <unistd.h>

#include "gpumem/base/gpu-descriptor-private.h"
#include "gpumem/opencl/driver/gpu-opencl.h"

/* Lists of up to this many buffers are on the stack; longer lists are rare. */
#define N_ON_STACK 16

static const struct
{
  cl_external_memory_handle_type_khr type;
  GpuFdKinds                         kind;
} types[] =
{
  { CL_EXTERNAL_MEMORY_HANDLE_OPAQUE_FD_KHR, GPU_FD_KINDS_OPAQUE },
  { CL_EXTERNAL_MEMORY_HANDLE_DMA_BUF_KHR, GPU_FD_KINDS_DMA_BUF }
};

static GpuFdKinds
read_kinds (GpuOpenclDevice *device)
{
  gsize size = 0;
  g_autofree cl_external_memory_handle_type_khr *list =
    _gpu_opencl_device_get_data (device->id, CL_DEVICE_EXTERNAL_MEMORY_IMPORT_HANDLE_TYPES_KHR,
                                 &size, NULL);
  GpuFdKinds kinds = GPU_FD_KINDS_NONE;

  for (gsize i = 0; list != NULL && i < size / sizeof *list; i++)
    {
      for (gsize k = 0; k < G_N_ELEMENTS (types); k++)
        {
          if (types[k].type == list[i])
            kinds |= types[k].kind;
        }
    }

  return kinds;
}

void
_gpu_opencl_device_read_external (GpuOpenclDevice *device)
{
  /* clCreateBufferWithProperties(), which imports the memory, requires OpenCL 3.0. */
  if (device->api < 30 || !_gpu_opencl_device_has (device, "cl_khr_external_memory"))
    return;

  device->acquire_external = (clEnqueueAcquireExternalMemObjectsKHR_fn)
    clGetExtensionFunctionAddressForPlatform (device->cl_platform,
                                              "clEnqueueAcquireExternalMemObjectsKHR");
  device->release_external = (clEnqueueReleaseExternalMemObjectsKHR_fn)
    clGetExtensionFunctionAddressForPlatform (device->cl_platform,
                                              "clEnqueueReleaseExternalMemObjectsKHR");

  if (device->acquire_external != NULL && device->release_external != NULL)
    device->fd_kinds = read_kinds (device);
}

GpuFdKinds
_gpu_opencl_get_fd_kinds (GpuNativeContext *context,
                          gboolean          import)
{
  GpuFdKinds kinds = GPU_FD_KINDS_NONE;

  for (guint i = 0; import && i < context->n_devices; i++)
    {
      const GpuOpenclDevice *device = (GpuOpenclDevice *) context->devices[i];

      kinds = i == 0 ? device->fd_kinds : kinds & device->fd_kinds;
    }

  return kinds;
}

static void
set_import_error (GError **error,
                  cl_int   code,
                  int      fd,
                  gsize    size)
{
  GpuError meaning = _gpu_opencl_error_map (code);

  if (meaning == GPU_ERROR_INVALID_ARGUMENT || meaning == GPU_ERROR_FAILED)
    meaning = GPU_ERROR_IPC;

  _gpu_opencl_set_error_as (error, meaning, "clCreateBufferWithProperties", code,
                            "%" G_GSIZE_FORMAT " bytes behind file descriptor %d", size, fd);
}

GpuNativeBuffer *
_gpu_opencl_open_fd (GpuNativeContext  *context,
                     GpuFdKinds         kind,
                     int                fd,
                     gsize              whole_size G_GNUC_UNUSED,
                     gsize              offset G_GNUC_UNUSED,
                     gsize              size,
                     GError           **error)
{
  cl_mem_properties properties[3] = { 0 };
  GpuNativeBuffer *buffer;
  cl_mem mem;
  cl_int code;
  int copy;

  copy = _gpu_descriptor_duplicate (fd, error);

  if (copy < 0)
    return NULL;

  properties[0] = kind == GPU_FD_KINDS_OPAQUE ? CL_EXTERNAL_MEMORY_HANDLE_OPAQUE_FD_KHR
                                              : CL_EXTERNAL_MEMORY_HANDLE_DMA_BUF_KHR;
  properties[1] = (cl_mem_properties) copy;
  mem = clCreateBufferWithProperties (_gpu_opencl_context_handle (context), properties,
                                      CL_MEM_READ_WRITE, size, NULL, &code);

  /* The driver takes ownership of the descriptor only on success. On failure, NVIDIA's driver
   * returns an invalid non-NULL handle and a positive code: check the code, not the handle. */
  if (code != CL_SUCCESS)
    {
      close (copy);
      set_import_error (error, code, fd, size);
      return NULL;
    }

  buffer = _gpu_opencl_buffer_new (mem, size);
  buffer->is_external = TRUE;
  buffer->acquire_waits = _gpu_opencl_device_is_nvidia ((GpuOpenclDevice *) context->devices[0]);

  return buffer;
}

static gboolean
enqueue_ownership (GpuNativeStream                           *stream,
                   GpuNativeBuffer *const                    *buffers,
                   guint                                      n_buffers,
                   clEnqueueAcquireExternalMemObjectsKHR_fn   enqueue,
                   const char                                *function,
                   GpuNativeEvent                           **event,
                   GError                                   **error)
{
  cl_mem on_stack[N_ON_STACK];
  g_autofree cl_mem *allocated = NULL;
  cl_mem *list = on_stack;
  cl_event native = NULL;
  gboolean held;
  cl_int code;

  if (n_buffers > N_ON_STACK)
    list = allocated = g_new (cl_mem, n_buffers);
  for (guint i = 0; i < n_buffers; i++)
    list[i] = _gpu_opencl_buffer_handle (buffers[i]);

  held = _gpu_opencl_hold_slices (stream);
  code = enqueue (_gpu_opencl_stream_handle (stream), n_buffers, list, 0, NULL,
                  event != NULL ? &native : NULL);
  _gpu_opencl_release_slices (stream, held);

  return _gpu_opencl_enqueued (stream, code, function, native, event, error,
                               "%u buffers, the first of %" G_GSIZE_FORMAT " bytes", n_buffers,
                               buffers[0]->size);
}

gboolean
_gpu_opencl_acquire (GpuNativeStream         *stream,
                     GpuNativeBuffer *const  *buffers,
                     guint                    n_buffers,
                     GpuNativeEvent         **event,
                     GError                 **error)
{
  return enqueue_ownership (stream, buffers, n_buffers,
                            ((GpuOpenclStream *) stream)->device->acquire_external,
                            "clEnqueueAcquireExternalMemObjectsKHR", event, error);
}

gboolean
_gpu_opencl_release (GpuNativeStream         *stream,
                     GpuNativeBuffer *const  *buffers,
                     guint                    n_buffers,
                     GpuNativeEvent         **event,
                     GError                 **error)
{
  return enqueue_ownership (stream, buffers, n_buffers,
                            ((GpuOpenclStream *) stream)->device->release_external,
                            "clEnqueueReleaseExternalMemObjectsKHR", event, error);
}
