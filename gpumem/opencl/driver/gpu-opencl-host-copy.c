/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Copies between host memory and a range of a cl_mem. */
#include "config.h"

#include "gpumem/opencl/driver/gpu-opencl.h"

/* Returns whether PoCL may ignore a copy between host memory and a range of a buffer. If @data is
 * the address at which the memory of the whole buffer begins, PoCL copies nothing, although the
 * range begins elsewhere. The program knows that address if the buffer uses its memory, or from a
 * mapping. Commands for rectangles are never ignored, so they are also used if the driver does not
 * report the address. */
static gboolean
may_be_ignored (GpuNativeStream *stream,
                cl_mem           mem,
                gsize            offset,
                gconstpointer    data)
{
  gsize parent_offset = 0;
  gpointer host = NULL;
  cl_uint n_mapped = 0;
  cl_mem root = NULL;

  if (G_LIKELY (((GpuOpenclDevice *) stream->context->devices[0])->pocl == 0))
    return FALSE;

  if (!_gpu_opencl_mem_find_parent (mem, &root, &parent_offset, NULL))
    return TRUE;

  if (root == NULL)
    root = mem;

  return offset + parent_offset > 0
         && (!_gpu_opencl_mem_get (root, CL_MEM_HOST_PTR, &host, sizeof host, NULL)
             || (host != NULL && host == data)
             || !_gpu_opencl_mem_get (root, CL_MEM_MAP_COUNT, &n_mapped, sizeof n_mapped, NULL)
             || n_mapped > 0);
}

cl_int
_gpu_opencl_enqueue_write (GpuNativeStream  *stream,
                           cl_mem            mem,
                           gsize             offset,
                           gconstpointer     data,
                           gsize             size,
                           cl_event         *event,
                           const char      **function)
{
  const gsize to[] = { offset, 0, 0 };
  const gsize from[] = { 0, 0, 0 };
  const gsize region[] = { size, 1, 1 };

  if (G_UNLIKELY (may_be_ignored (stream, mem, offset, data)))
    {
      *function = "clEnqueueWriteBufferRect";
      return clEnqueueWriteBufferRect (_gpu_opencl_stream_handle (stream), mem, CL_FALSE, to, from,
                                       region, 0, 0, 0, 0, data, 0, NULL, event);
    }

  *function = "clEnqueueWriteBuffer";

  return clEnqueueWriteBuffer (_gpu_opencl_stream_handle (stream), mem, CL_FALSE, offset, size,
                               data, 0, NULL, event);
}

cl_int
_gpu_opencl_enqueue_read (GpuNativeStream  *stream,
                          cl_mem            mem,
                          gsize             offset,
                          gpointer          data,
                          gsize             size,
                          cl_event         *event,
                          const char      **function)
{
  const gsize to[] = { 0, 0, 0 };
  const gsize from[] = { offset, 0, 0 };
  const gsize region[] = { size, 1, 1 };

  if (G_UNLIKELY (may_be_ignored (stream, mem, offset, data)))
    {
      *function = "clEnqueueReadBufferRect";
      return clEnqueueReadBufferRect (_gpu_opencl_stream_handle (stream), mem, CL_FALSE, from, to,
                                      region, 0, 0, 0, 0, data, 0, NULL, event);
    }

  *function = "clEnqueueReadBuffer";

  return clEnqueueReadBuffer (_gpu_opencl_stream_handle (stream), mem, CL_FALSE, offset, size, data,
                              0, NULL, event);
}
