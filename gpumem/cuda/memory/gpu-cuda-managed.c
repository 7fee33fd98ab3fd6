/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Managed memory. A device with CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS shares the memory
 * with the host page by page and needs no attachment. On other devices, the process crashes if the
 * host accesses a page while the device may use the memory. For these devices, the memory is
 * attached to the host, to one stream or to all streams, and attachments change in stream order.
 * The public class attaches the memory before each use, and rejects uses that conflict with a
 * mapping.
 */
#include "config.h"

#include "gpumem/cuda/core/gpu-cuda-call.h"
#include "gpumem/cuda/memory/gpu-cuda-managed.h"

static gboolean
is_concurrent (const GpuNativeDevice *device)
{
  return (device->capabilities & GPU_CAPABILITIES_SVM_FINE) != 0;
}

/* Allocates additional bytes for the alignment only if @alignment exceeds the base alignment of the
 * device. */
GpuCudaBuffer *
_gpu_cuda_managed_alloc (GpuCudaContext  *context,
                         gsize            size,
                         gsize            alignment,
                         GError         **error)
{
  const GpuNativeDevice *device = &context->device->base;
  unsigned int flags = is_concurrent (device) ? CU_MEM_ATTACH_GLOBAL : CU_MEM_ATTACH_HOST;
  gsize room = alignment > device->base_alignment ? alignment : 0;
  CUdeviceptr allocation = 0;
  CUdeviceptr address;
  GpuCudaManaged *managed;
  GpuCudaBuffer *buffer;
  CUresult code = CUDA_ERROR_OUT_OF_MEMORY;

  if (size <= G_MAXSIZE - room)
    code = _gpu_cuda.cuMemAllocManaged (&allocation, size + room, flags);
  if (_gpu_cuda_trim_pools (context, code) && size <= G_MAXSIZE - room)
    code = _gpu_cuda.cuMemAllocManaged (&allocation, size + room, flags);

  if (code != CUDA_SUCCESS)
    {
      _gpu_cuda_fail_alloc (context, "cuMemAllocManaged", code, size, error);
      if (room != 0)
        g_prefix_error (error, "alignment of %" G_GSIZE_FORMAT " bytes: ", alignment);

      return NULL;
    }

  address = room != 0 ? (allocation + room - 1) / room * room : allocation;
  managed = g_new0 (GpuCudaManaged, 1);
  managed->allocation = allocation;
  managed->context = context->context;
  managed->attachment = GPU_SVM_ATTACHMENT_HOST;
  buffer = _gpu_cuda_buffer_new (address, size, GPU_CUDA_MEMORY_MANAGED);
  buffer->shared = managed;
  buffer->is_managed = TRUE;
  buffer->base.is_exclusive = !is_concurrent (device);

  if (!buffer->base.is_exclusive)
    buffer->base.host = (gpointer) (guintptr) address;

  return buffer;
}

/* Completes an op that has no work to do. */
static gboolean
do_nothing (GpuNativeStream  *stream,
            GpuNativeEvent  **event,
            GError          **error)
{
  GpuCudaCall call;

  return event == NULL
         || (_gpu_cuda_begin (stream, event, &call, error)
             && _gpu_cuda_end (stream, event, &call, CUDA_SUCCESS, error, "cuEventRecord",
                               "managed memory"));
}

/* --- attachment ------------------------------------------------------------------------------- */

/* Returns the attachment to use instead of @attachment. The driver cannot attach memory to a
 * default stream, whose handle stands for several streams, or to a stream of another context. */
static GpuSvmAttachment
widen (const GpuCudaStream  *stream,
       const GpuCudaManaged *managed,
       GpuSvmAttachment      attachment)
{
  if (attachment == GPU_SVM_ATTACHMENT_STREAM
      && (stream->stream == CU_STREAM_LEGACY || stream->stream == CU_STREAM_PER_THREAD
          || managed->context != ((GpuCudaContext *) stream->base.context)->context))
    return GPU_SVM_ATTACHMENT_GLOBAL;

  return attachment;
}

static unsigned int
to_flags (GpuSvmAttachment attachment)
{
  switch (attachment)
    {
    case GPU_SVM_ATTACHMENT_HOST:
      return CU_MEM_ATTACH_HOST;
    case GPU_SVM_ATTACHMENT_GLOBAL:
      return CU_MEM_ATTACH_GLOBAL;
    case GPU_SVM_ATTACHMENT_STREAM:
    default:
      return CU_MEM_ATTACH_SINGLE;
    }
}

static gboolean
is_attached (const GpuCudaStream  *stream,
             const GpuCudaManaged *managed,
             GpuSvmAttachment      attachment)
{
  return managed->attachment == attachment
         && (attachment != GPU_SVM_ATTACHMENT_STREAM || managed->stream == stream->serial);
}

/* When a stream is destroyed, the driver detaches the memory that is attached to it. The memory
 * never seems attached to a later stream, because serials are not reused. The driver only attaches
 * whole allocations, and requires the size argument 0 for them. */
gboolean
_gpu_cuda_managed_attach (GpuNativeStream   *native,
                          GpuNativeBuffer   *native_buffer,
                          GpuSvmAttachment   attachment,
                          GpuNativeEvent   **event,
                          GError           **error)
{
  GpuCudaStream *stream = (GpuCudaStream *) native;
  GpuCudaBuffer *buffer = (GpuCudaBuffer *) native_buffer;
  GpuCudaManaged *managed = buffer->shared;
  GpuCudaCall call;
  CUresult code;

  if (buffer->kind != GPU_CUDA_MEMORY_MANAGED)
    return do_nothing (native, event, error);

  attachment = widen (stream, managed, attachment);

  if (buffer->base.is_exclusive && is_attached (stream, managed, attachment))
    return do_nothing (native, event, error);

  if (!_gpu_cuda_begin (native, event, &call, error))
    return FALSE;

  code = _gpu_cuda.cuStreamAttachMemAsync (stream->stream, managed->allocation, 0,
                                           to_flags (attachment));

  if (code == CUDA_SUCCESS)
    {
      managed->attachment = attachment;
      managed->stream = stream->serial;
    }

  return _gpu_cuda_end (native, event, &call, code, error, "cuStreamAttachMemAsync",
                        "%" G_GSIZE_FORMAT " bytes, flags %u", native_buffer->size,
                        to_flags (attachment));
}

/* --- locations of pages ----------------------------------------------------------------------- */

/* Ignores failures for system memory: the driver may not support prefetching and advice for memory
 * that it did not allocate. */
static CUresult
pass_over_unknown (const GpuCudaBuffer *buffer,
                   CUresult             code)
{
  if (buffer->kind == GPU_CUDA_MEMORY_SYSTEM
      && (code == CUDA_ERROR_INVALID_VALUE || code == CUDA_ERROR_NOT_SUPPORTED))
    return CUDA_SUCCESS;

  return code;
}

/* @device may be CU_DEVICE_CPU. */
static CUmemLocation
to_location (CUdevice device)
{
  if (device == CU_DEVICE_CPU)
    return (CUmemLocation) { CU_MEM_LOCATION_TYPE_HOST, 0 };

  return (CUmemLocation) { CU_MEM_LOCATION_TYPE_DEVICE, device };
}

static CUresult
prefetch_entered (CUdeviceptr address,
                  gsize       size,
                  CUdevice    device,
                  CUstream    stream)
{
  if (_gpu_cuda.has[GPU_CUDA_GROUP_MEMORY_LOCATION])
    return _gpu_cuda.cuMemPrefetchAsync_v2 (address, size, to_location (device), 0, stream);

  return _gpu_cuda.cuMemPrefetchAsync (address, size, device, stream);
}

static CUresult
advise_entered (CUdeviceptr  address,
                gsize        size,
                CUmem_advise advice,
                CUdevice     device)
{
  if (_gpu_cuda.has[GPU_CUDA_GROUP_MEMORY_LOCATION])
    return _gpu_cuda.cuMemAdvise_v2 (address, size, advice, to_location (device));

  return _gpu_cuda.cuMemAdvise (address, size, advice, device);
}

/* Devices without concurrent access cannot prefetch. For these devices, attaching the memory to the
 * host migrates it to the host, and migration to the device does nothing. */
gboolean
_gpu_cuda_prefetch (GpuNativeStream  *stream,
                    GpuNativeBuffer  *native,
                    GpuMigrateFlags   flags,
                    gsize             offset,
                    gsize             size,
                    GpuNativeEvent  **event,
                    GError          **error)
{
  GpuCudaBuffer *buffer = (GpuCudaBuffer *) native;
  GpuCudaContext *context = (GpuCudaContext *) stream->context;
  gboolean to_host = (flags & GPU_MIGRATE_FLAGS_HOST) != 0;
  CUdevice device = to_host ? CU_DEVICE_CPU : context->device->device;
  GpuCudaCall call;
  CUresult code;

  if (native->is_exclusive && to_host)
    return _gpu_cuda_managed_attach (stream, native, GPU_SVM_ATTACHMENT_HOST, event, error);

  if (!is_concurrent (&context->device->base))
    return do_nothing (stream, event, error);

  if (!_gpu_cuda_begin (stream, event, &call, error))
    return FALSE;

  code = prefetch_entered (buffer->address + offset, size, device,
                           ((GpuCudaStream *) stream)->stream);

  return _gpu_cuda_end (stream, event, &call, pass_over_unknown (buffer, code), error,
                        "cuMemPrefetchAsync", "%" G_GSIZE_FORMAT " bytes from offset %"
                        G_GSIZE_FORMAT " of %" G_GSIZE_FORMAT " bytes to %s", size, offset,
                        native->size, to_host ? "the host" : context->device->base.id);
}

gboolean
_gpu_cuda_managed_advise (GpuNativeContext  *context,
                          GpuNativeBuffer   *native,
                          GpuMemoryAdvice    advice,
                          gsize              offset,
                          gsize              size,
                          GpuNativeDevice   *device,
                          GError           **error)
{
  static const CUmem_advise advices[] =
  {
    [GPU_MEMORY_ADVICE_READ_MOSTLY]              = CU_MEM_ADVISE_SET_READ_MOSTLY,
    [GPU_MEMORY_ADVICE_UNSET_READ_MOSTLY]        = CU_MEM_ADVISE_UNSET_READ_MOSTLY,
    [GPU_MEMORY_ADVICE_PREFERRED_LOCATION]       = CU_MEM_ADVISE_SET_PREFERRED_LOCATION,
    [GPU_MEMORY_ADVICE_UNSET_PREFERRED_LOCATION] = CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION,
    [GPU_MEMORY_ADVICE_ACCESSED_BY]              = CU_MEM_ADVISE_SET_ACCESSED_BY,
    [GPU_MEMORY_ADVICE_UNSET_ACCESSED_BY]        = CU_MEM_ADVISE_UNSET_ACCESSED_BY
  };
  GpuCudaBuffer *buffer = (GpuCudaBuffer *) native;
  CUdevice place = device != NULL ? ((GpuCudaDevice *) device)->device : CU_DEVICE_CPU;
  gboolean entered;
  CUresult code;

  /* The driver rejects advice for devices without concurrent access. */
  if (!is_concurrent (context->devices[0]) || (device != NULL && !is_concurrent (device)))
    return TRUE;

  if (!_gpu_cuda_enter ((GpuCudaContext *) context, &entered, error))
    return FALSE;

  code = advise_entered (buffer->address + offset, size, advices[advice], place);
  code = pass_over_unknown (buffer, code);
  _gpu_cuda_leave (entered);

  if (code == CUDA_SUCCESS)
    return TRUE;

  _gpu_cuda_set_error (error, "cuMemAdvise", code, "%" G_GSIZE_FORMAT " bytes from offset %"
                       G_GSIZE_FORMAT " of %" G_GSIZE_FORMAT " bytes, advice %u, %s", size, offset,
                       native->size, advices[advice], device != NULL ? device->id : "the host");

  return FALSE;
}

/* --- attributes ------------------------------------------------------------------------------- */

static const char *
name_place (int place)
{
  GpuCudaDevice *device;

  if (place == CU_DEVICE_CPU)
    return "host";

  device = place >= 0 ? _gpu_cuda_device_lookup (place) : NULL;

  return device != NULL ? device->base.id : "none";
}

static gboolean
get_range (const GpuCudaBuffer   *buffer,
           CUmem_range_attribute  attribute,
           int                   *values,
           gsize                  n_values)
{
  return _gpu_cuda.cuMemRangeGetAttribute (values, n_values * sizeof *values, attribute,
                                           buffer->address, buffer->base.size) == CUDA_SUCCESS;
}

static void
insert_accessors (const GpuCudaBuffer *buffer,
                  GVariantDict        *attributes)
{
  int places[GPU_CUDA_MAX_PEERS + 1];
  GVariantBuilder builder;

  if (!get_range (buffer, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, places, G_N_ELEMENTS (places)))
    return;

  g_variant_builder_init (&builder, G_VARIANT_TYPE_STRING_ARRAY);

  for (gsize i = 0; i < G_N_ELEMENTS (places); i++)
    {
      if (places[i] != CU_DEVICE_INVALID)
        g_variant_builder_add (&builder, "s", name_place (places[i]));
    }

  g_variant_dict_insert_value (attributes, "accessed-by", g_variant_builder_end (&builder));
}

void
_gpu_cuda_managed_get_attributes (GpuNativeContext *context,
                                  GpuCudaBuffer    *buffer,
                                  GVariantDict     *attributes)
{
  int value = 0;
  gboolean entered;

  if (!_gpu_cuda_enter ((GpuCudaContext *) context, &entered, NULL))
    return;

  if (get_range (buffer, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, &value, 1))
    g_variant_dict_insert (attributes, "read-mostly", "b", value != 0);
  if (get_range (buffer, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, &value, 1))
    g_variant_dict_insert (attributes, "preferred-location", "s", name_place (value));
  if (get_range (buffer, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, &value, 1))
    g_variant_dict_insert (attributes, "last-prefetch-location", "s", name_place (value));

  insert_accessors (buffer, attributes);
  _gpu_cuda_leave (entered);
}
