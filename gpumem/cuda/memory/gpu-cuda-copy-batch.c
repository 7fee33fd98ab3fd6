/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Several copies in one call of the driver. */
#include "config.h"

#include "gpumem/cuda/core/gpu-cuda-call.h"

/* One call for fewer copies takes longer than a call for each copy. */
#define MIN_COPIES 4

/* The driver copies pageable host memory at once. */
static gboolean
is_pageable (const GpuNativeBuffer *buffer)
{
  return ((const GpuCudaBuffer *) buffer)->kind == GPU_CUDA_MEMORY_SYSTEM
         || (buffer->is_host_only && !buffer->is_locked);
}

/* Caller has entered the context. The driver refuses batches in the legacy default stream, and in
 * streams that are capturing. */
static gboolean
takes_batches (CUstream stream)
{
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

  return stream != NULL && stream != CU_STREAM_LEGACY
         && (!_gpu_cuda_has_group (GPU_CUDA_GROUP_CAPTURE, NULL)
             || (_gpu_cuda.cuStreamGetCaptureInfo_v2 (stream, &status, NULL, NULL, NULL, NULL)
                 == CUDA_SUCCESS && status == CU_STREAM_CAPTURE_STATUS_NONE));
}

static CUresult
copy_at_once (CUstream             stream,
              const GpuBufferCopy *copies,
              gsize                n_copies)
{
  g_autofree CUdeviceptr *addresses = g_new (CUdeviceptr, 2 * n_copies);
  CUdeviceptr *destinations = addresses, *sources = addresses + n_copies;
  g_autofree size_t *sizes = g_new (size_t, n_copies);
  CUmemcpyAttributes attributes = { .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM };
  size_t first = 0, failed = 0;

  for (gsize i = 0; i < n_copies; i++)
    {
      const GpuBufferCopy *copy = &copies[i];

      destinations[i] = ((GpuCudaBuffer *) copy->destination)->address + copy->destination_offset;
      sources[i] = ((GpuCudaBuffer *) copy->source)->address + copy->source_offset;
      sizes[i] = copy->size;
    }

  return _gpu_cuda.cuMemcpyBatchAsync (destinations, sources, sizes, n_copies, &attributes, &first,
                                       1, &failed, stream);
}

/* Copies one by one. Some copies may be in flight after a failure. */
static CUresult
copy_each (GpuNativeStream     *native,
           const GpuBufferCopy *copies,
           gsize                n_copies)
{
  CUstream stream = ((GpuCudaStream *) native)->stream;
  CUresult code = CUDA_SUCCESS;

  for (gsize i = 0; i < n_copies && code == CUDA_SUCCESS; i++)
    {
      const GpuBufferCopy *copy = &copies[i];

      code = _gpu_cuda_finish_for_host (native, copy->destination, copy->source);
      if (code == CUDA_SUCCESS)
        code = _gpu_cuda.cuMemcpyAsync (((GpuCudaBuffer *) copy->destination)->address
                                        + copy->destination_offset,
                                        ((GpuCudaBuffer *) copy->source)->address
                                        + copy->source_offset, copy->size, stream);
    }

  return code;
}

gboolean
_gpu_cuda_copy_batch (GpuNativeStream     *native,
                      const GpuBufferCopy *copies,
                      gsize                n_copies,
                      GpuNativeEvent     **event,
                      GError             **error)
{
  GpuCudaStream *stream = (GpuCudaStream *) native;
  gboolean at_once = n_copies >= MIN_COPIES
                     && _gpu_cuda_has_group (GPU_CUDA_GROUP_COPY_BATCH, NULL);
  GpuCudaCall call;
  CUresult code;

  for (gsize i = 0; i < n_copies && at_once; i++)
    at_once = !is_pageable (copies[i].destination) && !is_pageable (copies[i].source);

  if (!_gpu_cuda_begin (native, event, &call, error))
    return FALSE;

  at_once = at_once && takes_batches (stream->stream);
  code = at_once ? copy_at_once (stream->stream, copies, n_copies)
                 : copy_each (native, copies, n_copies);

  /* The driver does not say how many copies it has enqueued before a failure. */
  if (code != CUDA_SUCCESS)
    {
      native->partial = stream->last == NULL
                        || _gpu_cuda.cuEventRecord (stream->last, stream->stream) == CUDA_SUCCESS;
      if (!native->partial)
        _gpu_cuda.cuStreamSynchronize (stream->stream);
    }

  return _gpu_cuda_end (native, event, &call, code, error,
                        at_once ? "cuMemcpyBatchAsync" : "cuMemcpyAsync",
                        "%" G_GSIZE_FORMAT " copies", n_copies);
}
