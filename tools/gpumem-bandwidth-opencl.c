/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Copies and mappings with direct calls of OpenCL. */
#include "config.h"

#include <gpumem/gpumem-opencl.h>

#include "tools/gpumem-bandwidth-raw.h"

static gboolean
check (cl_int       code,
       const char  *function,
       GError     **error)
{
  if (code == CL_SUCCESS)
    return TRUE;
  g_set_error (error, GPU_ERROR, GPU_ERROR_FAILED, "%s, called directly: error %d", function,
               code);
  return FALSE;
}

static cl_mem
get_mem (const GpumemPlace *place)
{
  return (cl_mem) (guintptr) gpu_memory_get_native_handle (place->memory);
}

/* Returns: (nullable): the address of shared virtual memory or host memory */
static gpointer
get_pointer (const GpumemPlace *place)
{
  return place->data == NULL && GPU_IS_SVM (place->memory)
           ? (gpointer) (guintptr) gpu_memory_get_device_address (place->memory) : place->data;
}

static gboolean
opencl_copy (const GpumemRaw    *raw,
             guint               lane,
             const GpumemPlace  *to,
             const GpumemPlace  *from,
             gsize               size,
             GError            **error)
{
  cl_command_queue queue = gpu_stream_get_cl_queue (raw->streams[lane]);

  if (get_pointer (from) != NULL && get_pointer (to) != NULL)
    return check (clEnqueueSVMMemcpy (queue, CL_FALSE, get_pointer (to), get_pointer (from), size,
                                      0, NULL, NULL), "clEnqueueSVMMemcpy", error);
  if (from->data != NULL)
    return check (clEnqueueWriteBuffer (queue, get_mem (to), CL_FALSE, 0, size, from->data, 0,
                                        NULL, NULL), "clEnqueueWriteBuffer", error);
  if (to->data != NULL)
    return check (clEnqueueReadBuffer (queue, get_mem (from), CL_FALSE, 0, size, to->data, 0,
                                       NULL, NULL), "clEnqueueReadBuffer", error);
  return check (clEnqueueCopyBuffer (queue, get_mem (from), get_mem (to), 0, 0, size, 0, NULL,
                                     NULL), "clEnqueueCopyBuffer", error);
}

static gboolean
opencl_wait (const GpumemRaw  *raw,
             guint             lane,
             GError          **error)
{
  return check (clFinish (gpu_stream_get_cl_queue (raw->streams[lane])), "clFinish", error);
}

static gpointer
opencl_map (const GpumemRaw    *raw,
            guint               lane,
            const GpumemPlace  *place,
            gboolean            write,
            gsize               size,
            GError            **error)
{
  cl_map_flags flags = write ? CL_MAP_WRITE_INVALIDATE_REGION : CL_MAP_READ;
  cl_int code = CL_SUCCESS;
  gpointer data = clEnqueueMapBuffer (gpu_stream_get_cl_queue (raw->streams[lane]),
                                      get_mem (place), CL_TRUE, flags, 0, size, 0, NULL, NULL,
                                      &code);

  return check (code, "clEnqueueMapBuffer", error) ? data : NULL;
}

static gboolean
opencl_unmap (const GpumemRaw    *raw,
              guint               lane,
              const GpumemPlace  *place,
              gpointer            data,
              GError            **error)
{
  return check (clEnqueueUnmapMemObject (gpu_stream_get_cl_queue (raw->streams[lane]),
                                         get_mem (place), data, 0, NULL, NULL),
                "clEnqueueUnmapMemObject", error);
}

const GpumemRawDriver gpumem_raw_opencl = {
  .backend = "opencl",
  .copy = opencl_copy,
  .wait = opencl_wait,
  .map = opencl_map,
  .unmap = opencl_unmap
};
