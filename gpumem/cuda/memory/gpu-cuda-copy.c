/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Linear copies. Host memory that the device can access also has a device address. Only functions
 * that determine the memory type from the address, such as cuMemcpyAsync(), accept this address for
 * both the source and the destination. */
#include "config.h"

#include "gpumem/cuda/core/gpu-cuda-call.h"

static inline CUstream
get_stream (GpuNativeStream *stream)
{
  return ((GpuCudaStream *) stream)->stream;
}

/* A slice of pageable memory has another kind than its parent, so this function compares flags that
 * slices inherit. */
static gboolean
is_used_at_once (const GpuCudaBuffer *buffer,
                 GpuNativeContext    *context)
{
  return buffer->kind == GPU_CUDA_MEMORY_SYSTEM
         || (buffer->base.is_host_only && !buffer->base.is_locked
             && g_atomic_int_get (&context->stages_host_memory));
}

/* The driver may copy pageable host memory immediately, before pending work in the stream has
 * completed. The pending work may still write that memory, through the staging engine or from a
 * device that can access host memory. Therefore wait for the stream first, unless it is being
 * captured: the driver then refuses the wait, and a graph executes its work in order. */
CUresult
_gpu_cuda_finish_for_host (GpuNativeStream *stream,
                           GpuNativeMemory *a,
                           GpuNativeMemory *b)
{
  GpuNativeMemory *memories[] = { a, b };
  gboolean waits = FALSE;
  CUresult code;

  for (guint i = 0; i < G_N_ELEMENTS (memories); i++)
    waits |= memories[i] != NULL && !memories[i]->is_image
             && is_used_at_once ((GpuCudaBuffer *) memories[i], stream->context);

  if (!waits)
    return CUDA_SUCCESS;

  code = _gpu_cuda_check_capture (get_stream (stream));
  if (code == CUDA_SUCCESS)
    return _gpu_cuda.cuStreamSynchronize (get_stream (stream));

  return code == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED ? CUDA_SUCCESS : code;
}

static inline gboolean
is_on_device (GpuNativeBuffer *destination,
              GpuNativeBuffer *source)
{
  return G_LIKELY (destination->host == NULL) && G_LIKELY (source->host == NULL);
}

/* Ends a copy that failed or that returns an event. */
GPU_COLD static gboolean
end_copy (GpuNativeStream  *stream,
          GpuNativeBuffer  *destination,
          gsize             destination_offset,
          GpuNativeBuffer  *source,
          gsize             source_offset,
          gsize             size,
          GpuNativeEvent  **event,
          GpuCudaCall      *call,
          CUresult          code,
          GError          **error)
{
  return _gpu_cuda_end (stream, event, call, code, error,
                        is_on_device (destination, source) ? "cuMemcpyDtoDAsync" : "cuMemcpyAsync",
                        "%" G_GSIZE_FORMAT " bytes from offset %" G_GSIZE_FORMAT " of %"
                        G_GSIZE_FORMAT " bytes to offset %" G_GSIZE_FORMAT " of %" G_GSIZE_FORMAT
                        " bytes", size, source_offset, source->size, destination_offset,
                        destination->size);
}

/* Copies if the source or the destination is host memory. The driver may access pageable host
 * memory immediately, so waits for the earlier work of the stream first. */
GPU_COLD static CUresult
copy_after_host (GpuNativeStream *stream,
                 GpuNativeBuffer *destination,
                 CUdeviceptr      to,
                 GpuNativeBuffer *source,
                 CUdeviceptr      from,
                 gsize            size)
{
  CUresult code = _gpu_cuda_finish_for_host (stream, destination, source);

  return code == CUDA_SUCCESS ? _gpu_cuda.cuMemcpyAsync (to, from, size, get_stream (stream))
                              : code;
}

GPU_HOT gboolean
_gpu_cuda_copy (GpuNativeStream  *stream,
                GpuNativeBuffer  *destination,
                gsize             destination_offset,
                GpuNativeBuffer  *source,
                gsize             source_offset,
                gsize             size,
                GpuNativeEvent  **event,
                GError          **error)
{
  CUdeviceptr to = ((GpuCudaBuffer *) destination)->address + destination_offset;
  CUdeviceptr from = ((GpuCudaBuffer *) source)->address + source_offset;
  gboolean on_device = is_on_device (destination, source);
  GpuCudaCall call;
  CUresult code;

  if (!(on_device && _gpu_cuda_begin_plain (stream, event, &call))
      && !_gpu_cuda_begin (stream, event, &call, error))
    return FALSE;

  do
    code = on_device ? _gpu_cuda.cuMemcpyDtoDAsync (to, from, size, get_stream (stream))
                     : copy_after_host (stream, destination, to, source, from, size);
  while (G_UNLIKELY (code != CUDA_SUCCESS) && _gpu_cuda_enter_late (stream, &call, code));

  return _gpu_cuda_end_plain (stream, &call, code)
         || end_copy (stream, destination, destination_offset, source, source_offset, size, event,
                      &call, code, error);
}

/* If the flag `stages_host_memory` of @context is set, also sets it in the context of @stream:
 * copies on @stream from or to memory of @context must wait for staged writes. */
void
_gpu_cuda_copy_staging_flag (GpuNativeStream  *stream,
                             GpuNativeContext *context)
{
  if (context != NULL && g_atomic_int_get (&context->stages_host_memory))
    g_atomic_int_set (&stream->context->stages_host_memory, TRUE);
}

gboolean
_gpu_cuda_copy_peer (GpuNativeStream   *stream,
                     GpuNativeContext  *destination_context,
                     GpuNativeBuffer   *destination,
                     gsize              destination_offset,
                     GpuNativeContext  *source_context,
                     GpuNativeBuffer   *source,
                     gsize              source_offset,
                     gsize              size,
                     GpuNativeEvent   **event,
                     GError           **error)
{
  GpuCudaCall call;
  CUresult code;

  _gpu_cuda_copy_staging_flag (stream, destination_context);
  _gpu_cuda_copy_staging_flag (stream, source_context);

  /* Host memory has the same address in all contexts. */
  if (destination->host != NULL || source->host != NULL)
    return _gpu_cuda_copy (stream, destination, destination_offset, source, source_offset, size,
                           event, error);

  if (!_gpu_cuda_begin (stream, event, &call, error))
    return FALSE;

  code = _gpu_cuda.cuMemcpyPeerAsync (((GpuCudaBuffer *) destination)->address
                                      + destination_offset,
                                      ((GpuCudaContext *) destination_context)->context,
                                      ((GpuCudaBuffer *) source)->address + source_offset,
                                      ((GpuCudaContext *) source_context)->context, size,
                                      get_stream (stream));

  return _gpu_cuda_end (stream, event, &call, code, error, "cuMemcpyPeerAsync",
                        "%" G_GSIZE_FORMAT " bytes from offset %" G_GSIZE_FORMAT " of %"
                        G_GSIZE_FORMAT " bytes on %s to offset %" G_GSIZE_FORMAT " of %"
                        G_GSIZE_FORMAT " bytes on %s", size, source_offset, source->size,
                        source_context->devices[0]->id, destination_offset, destination->size,
                        destination_context->devices[0]->id);
}

static inline CUresult
copy_in (GpuCudaBuffer *to,
         gsize          offset,
         gconstpointer  data,
         gsize          size,
         CUstream       stream)
{
  if (to->base.host == NULL)
    return _gpu_cuda.cuMemcpyHtoDAsync (to->address + offset, data, size, stream);

  return _gpu_cuda.cuMemcpyAsync (to->address + offset, (guintptr) data, size, stream);
}

static inline CUresult
copy_out (gpointer       data,
          GpuCudaBuffer *from,
          gsize          offset,
          gsize          size,
          CUstream       stream)
{
  if (from->base.host == NULL)
    return _gpu_cuda.cuMemcpyDtoHAsync (data, from->address + offset, size, stream);

  return _gpu_cuda.cuMemcpyAsync ((guintptr) data, from->address + offset, size, stream);
}

/* Returns the size of the first copy from or to @data: the driver rejects copies that begin in
 * page-locked memory and extend past its end. */
static gsize
get_piece (gconstpointer data,
           gsize         size)
{
  CUdeviceptr address = (guintptr) data;
  guint64 start;
  guint64 range;

  if (_gpu_cuda_get_pointer_attribute (address, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 0) == 0)
    return size;

  start = _gpu_cuda_get_pointer_attribute (address, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address);
  range = _gpu_cuda_get_pointer_attribute (address, CU_POINTER_ATTRIBUTE_RANGE_SIZE, size);

  return start + range > address ? MIN (size, start + range - address) : size;
}

/* Called after a copy failed with @code. If only a part of the caller's memory is page-locked,
 * copies in pieces. Otherwise, returns @code. */
GPU_COLD static CUresult
copy_pieces (GpuNativeStream *stream,
             GpuCudaBuffer   *buffer,
             gsize            offset,
             guint8          *data,
             gsize            size,
             gboolean         in,
             CUresult         code)
{
  gsize piece = get_piece (data, size);

  if (piece == size)
    return code;

  for (gsize done = 0; done < size; done += piece)
    {
      piece = get_piece (data + done, size - done);
      code = in ? copy_in (buffer, offset + done, data + done, piece, get_stream (stream))
                : copy_out (data + done, buffer, offset + done, piece, get_stream (stream));

      if (code != CUDA_SUCCESS)
        return code;

      stream->partial = done + piece < size;
    }

  return code;
}

static inline CUresult
write_bytes (GpuNativeStream *stream,
             GpuCudaCall     *call,
             GpuCudaBuffer   *to,
             gsize            offset,
             gconstpointer    data,
             gsize            size)
{
  CUresult code;

  do
    code = copy_in (to, offset, data, size, get_stream (stream));
  while (G_UNLIKELY (code != CUDA_SUCCESS) && _gpu_cuda_enter_late (stream, call, code));

  return G_LIKELY (code != CUDA_ERROR_INVALID_VALUE)
         ? code : copy_pieces (stream, to, offset, (guint8 *) data, size, TRUE, code);
}

static inline CUresult
read_bytes (GpuNativeStream *stream,
            GpuCudaCall     *call,
            GpuCudaBuffer   *from,
            gsize            offset,
            gpointer         data,
            gsize            size)
{
  CUresult code;

  do
    code = copy_out (data, from, offset, size, get_stream (stream));
  while (G_UNLIKELY (code != CUDA_SUCCESS) && _gpu_cuda_enter_late (stream, call, code));

  return G_LIKELY (code != CUDA_ERROR_INVALID_VALUE)
         ? code : copy_pieces (stream, from, offset, data, size, FALSE, code);
}

/* Does not block behind pending work, within limits. */
static CUresult
write_behind (GpuNativeStream  *stream,
              GpuCudaCall      *call,
              GpuCudaBuffer    *to,
              gsize             offset,
              gconstpointer     data,
              gsize             size,
              const char      **function)
{
  CUresult code;

  if (to->base.host != NULL)
    return write_bytes (stream, call, to, offset, data, size);

  code = _gpu_cuda_write_behind ((GpuCudaContext *) stream->context, get_stream (stream),
                                 to->address + offset, data, size, function);

  return G_LIKELY (code != CUDA_ERROR_INVALID_VALUE)
         ? code : copy_pieces (stream, to, offset, (guint8 *) data, size, TRUE, code);
}

gboolean
_gpu_cuda_write (GpuNativeStream  *stream,
                 GpuNativeBuffer  *destination,
                 gsize             offset,
                 gconstpointer     data,
                 gsize             size,
                 GpuNativeEvent  **event,
                 GError          **error)
{
  GpuCudaBuffer *to = (GpuCudaBuffer *) destination;
  const char *function = to->base.host == NULL ? "cuMemcpyHtoDAsync" : "cuMemcpyAsync";
  GpuCudaCall call;
  CUresult code;

  if (!_gpu_cuda_begin (stream, event, &call, error))
    return FALSE;

  code = _gpu_cuda_finish_for_host (stream, destination, NULL);

  if (code == CUDA_SUCCESS)
    code = write_behind (stream, &call, to, offset, data, size, &function);

  return _gpu_cuda_end (stream, event, &call, code, error, function,
                        "%" G_GSIZE_FORMAT " bytes to offset %" G_GSIZE_FORMAT " of %"
                        G_GSIZE_FORMAT " bytes", size, offset, destination->size);
}

/* If @data is pageable memory, the driver call returns after the copy has completed. */
gboolean
_gpu_cuda_read (GpuNativeStream  *stream,
                GpuNativeBuffer  *source,
                gsize             offset,
                gpointer          data,
                gsize             size,
                GpuNativeEvent  **event,
                GError          **error)
{
  GpuCudaBuffer *from = (GpuCudaBuffer *) source;
  GpuCudaCall call;
  CUresult code;

  if (!_gpu_cuda_begin (stream, event, &call, error))
    return FALSE;

  code = _gpu_cuda_finish_for_host (stream, source, NULL);

  if (code == CUDA_SUCCESS)
    code = read_bytes (stream, &call, from, offset, data, size);

  return _gpu_cuda_end (stream, event, &call, code, error,
                        from->base.host == NULL ? "cuMemcpyDtoHAsync" : "cuMemcpyAsync",
                        "%" G_GSIZE_FORMAT " bytes from offset %" G_GSIZE_FORMAT " of %"
                        G_GSIZE_FORMAT " bytes", size, offset, source->size);
}

/* Begins a copy for which the caller waits. */
static inline gboolean
begin_now (GpuNativeStream  *stream,
           GpuNativeBuffer  *buffer,
           GpuCudaCall      *call,
           GError          **error)
{
  return (G_LIKELY (buffer->host == NULL) && _gpu_cuda_begin_plain (stream, NULL, call))
         || _gpu_cuda_begin (stream, NULL, call, error);
}

/* Sets the error of a copy for which the caller waits, or of the wait. */
GPU_COLD static gboolean
fail_now (GpuNativeStream  *stream,
          GpuCudaCall      *call,
          CUresult          code,
          const char       *function,
          GpuNativeBuffer  *buffer,
          gsize             offset,
          gsize             size,
          GError          **error)
{
  return _gpu_cuda_end (stream, NULL, call, code, error, function,
                        "%" G_GSIZE_FORMAT " bytes at offset %" G_GSIZE_FORMAT " of %"
                        G_GSIZE_FORMAT " bytes", size, offset, buffer->size);
}

/* Waits even if the copy failed, because the caller may reuse its memory after this call. */
GPU_HOT static gboolean
end_now (GpuNativeStream  *stream,
         GpuCudaCall      *call,
         CUresult          code,
         const char       *function,
         GpuNativeBuffer  *buffer,
         gsize             offset,
         gsize             size,
         GError          **error)
{
  CUresult waited;

  do
    waited = _gpu_cuda.cuStreamSynchronize (get_stream (stream));
  while (G_UNLIKELY (waited != CUDA_SUCCESS) && _gpu_cuda_enter_late (stream, call, waited));

  stream->partial = FALSE;

  if (G_LIKELY (code == CUDA_SUCCESS))
    {
      function = "cuStreamSynchronize";
      code = waited;
    }

  return _gpu_cuda_end_plain (stream, call, code)
         || fail_now (stream, call, code, function, buffer, offset, size, error);
}

GPU_HOT gboolean
_gpu_cuda_write_now (GpuNativeStream  *stream,
                     GpuNativeBuffer  *destination,
                     gsize             offset,
                     gconstpointer     data,
                     gsize             size,
                     GError          **error)
{
  GpuCudaBuffer *to = (GpuCudaBuffer *) destination;
  GpuCudaCall call;

  if (!begin_now (stream, destination, &call, error))
    return FALSE;

  return end_now (stream, &call, write_bytes (stream, &call, to, offset, data, size),
                  to->base.host == NULL ? "cuMemcpyHtoDAsync" : "cuMemcpyAsync", destination,
                  offset, size, error);
}

GPU_HOT gboolean
_gpu_cuda_read_now (GpuNativeStream  *stream,
                    GpuNativeBuffer  *source,
                    gsize             offset,
                    gpointer          data,
                    gsize             size,
                    GError          **error)
{
  GpuCudaBuffer *from = (GpuCudaBuffer *) source;
  GpuCudaCall call;

  if (!begin_now (stream, source, &call, error))
    return FALSE;

  return end_now (stream, &call, read_bytes (stream, &call, from, offset, data, size),
                  from->base.host == NULL ? "cuMemcpyDtoHAsync" : "cuMemcpyAsync", source, offset,
                  size, error);
}
