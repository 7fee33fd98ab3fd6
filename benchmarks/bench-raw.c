/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#ifdef HAVE_OPENCL
#include <gpumem/gpumem-opencl.h>
#endif

#include "benchmarks/bench-raw.h"

#ifdef HAVE_CUDA
#include "gpumem/cuda/driver/gpu-cuda-api.h"
#endif

static gboolean
is_cuda (GpuStream *stream)
{
  GpuContext *context = gpu_stream_get_context (stream);

  return g_strcmp0 (gpu_device_get_backend (gpu_context_get_device (context)), "cuda") == 0;
}

gboolean
bench_raw_can (GpuDevice *device)
{
  const char *backend = gpu_device_get_backend (device);

#ifdef HAVE_CUDA
  if (g_str_equal (backend, "cuda"))
    return TRUE;
#endif
#ifdef HAVE_OPENCL
  if (g_str_equal (backend, "opencl"))
    return TRUE;
#endif

  return backend == NULL;
}

static void
check (int         code,
       const char *function)
{
  if (code != 0)
    g_error ("%s: %d", function, code);
}

#ifdef HAVE_CUDA
static CUstream
enter (GpuStream *stream)
{
  guint64 context = gpu_context_get_native_handle (gpu_stream_get_context (stream));

  check (_gpu_cuda_raw.cuCtxSetCurrent ((CUcontext) (guintptr) context), "cuCtxSetCurrent");

  return (CUstream) (guintptr) gpu_stream_get_native_handle (stream);
}
#endif

void
bench_raw_write (GpuStream *stream,
                 GpuBuffer *buffer,
                 void      *data,
                 gsize      size)
{
#ifdef HAVE_CUDA
  if (is_cuda (stream))
    {
      CUstream raw = enter (stream);

      check (_gpu_cuda_raw.cuMemcpyHtoDAsync (gpu_memory_get_device_address (GPU_MEMORY (buffer)),
                                              data, size, raw), "cuMemcpyHtoDAsync");
      return;
    }
#endif
#ifdef HAVE_OPENCL
  check (clEnqueueWriteBuffer (gpu_stream_get_cl_queue (stream),
                               gpu_buffer_get_cl_mem (buffer), CL_FALSE, 0, size, data, 0,
                               NULL, NULL), "clEnqueueWriteBuffer");
#endif
}

void
bench_raw_read (GpuStream *stream,
                GpuBuffer *buffer,
                void      *data,
                gsize      size)
{
#ifdef HAVE_CUDA
  if (is_cuda (stream))
    {
      CUstream raw = enter (stream);

      check (_gpu_cuda_raw.cuMemcpyDtoHAsync (data,
                                              gpu_memory_get_device_address (GPU_MEMORY (buffer)),
                                              size, raw), "cuMemcpyDtoHAsync");
      return;
    }
#endif
#ifdef HAVE_OPENCL
  check (clEnqueueReadBuffer (gpu_stream_get_cl_queue (stream),
                              gpu_buffer_get_cl_mem (buffer), CL_FALSE, 0, size, data, 0,
                              NULL, NULL), "clEnqueueReadBuffer");
#endif
}

void
bench_raw_finish (GpuStream *stream)
{
#ifdef HAVE_CUDA
  if (is_cuda (stream))
    {
      check (_gpu_cuda_raw.cuStreamSynchronize (enter (stream)), "cuStreamSynchronize");
      return;
    }
#endif
#ifdef HAVE_OPENCL
  check (clFinish (gpu_stream_get_cl_queue (stream)), "clFinish");
#endif
}
