/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Ops that buffers and images share. */
#include "config.h"

#include "gpumem/cuda/core/gpu-cuda-call.h"
#include "gpumem/cuda/image/gpu-cuda-image.h"

static void
memory_free (GpuNativeContext *context,
             GpuNativeMemory  *memory)
{
  if (memory->is_image)
    _gpu_cuda_image_free (context, memory);
  else
    _gpu_cuda_buffer_free (context, memory);
}

/* Arrays have no address. */
static guint64
memory_get_address (GpuNativeMemory *memory)
{
  if (memory->is_host_only)
    return 0;

  return memory->is_image ? ((GpuCudaImage *) memory)->address
                          : ((GpuCudaBuffer *) memory)->address;
}

static guint64
memory_get_handle (GpuNativeMemory *memory)
{
  return memory->is_image ? _gpu_cuda_image_get_handle ((GpuCudaImage *) memory)
                          : ((GpuCudaBuffer *) memory)->address;
}

static gboolean
memory_get_attributes (GpuNativeContext  *context,
                       GpuNativeMemory   *memory,
                       GVariantDict      *attributes,
                       GError           **error)
{
  GpuCudaBuffer *buffer = (GpuCudaBuffer *) memory;

  if (memory->is_host_only)
    return TRUE;

  if (memory->is_image)
    return _gpu_cuda_image_get_attributes (context, (GpuCudaImage *) memory, attributes, error);

  /* These kinds are unknown to the driver. */
  if (buffer->kind == GPU_CUDA_MEMORY_SYSTEM || buffer->kind == GPU_CUDA_MEMORY_RESERVED)
    return TRUE;

  if (buffer->is_managed)
    _gpu_cuda_managed_get_attributes (context, buffer, attributes);

  return _gpu_cuda_get_address_attributes (context, memory_get_address (memory), attributes,
                                           error);
}

static void
memory_identify (GpuNativeContext *context G_GNUC_UNUSED,
                 GpuNativeMemory  *memory,
                 GpuAliasKey      *alias_key)
{
  GpuCudaBuffer *buffer = (GpuCudaBuffer *) memory;

  if (memory->is_image)
    {
      alias_key->id = (guintptr) ((GpuCudaImage *) memory)->array;
      return;
    }

  alias_key->id = buffer->kind == GPU_CUDA_MEMORY_IMPORTED
                  ? _gpu_cuda_import_get_address (buffer->shared) : buffer->address;
  alias_key->offset = buffer->address - alias_key->id;

  if (buffer->around != 0)
    {
      alias_key->outer = buffer->around;
      alias_key->outer_offset = buffer->address - buffer->around;
    }
}

static gboolean
prefetch_all (GpuNativeStream         *stream,
              GpuNativeMemory *const  *memories,
              guint                    n_memories,
              GpuMigrateFlags          flags,
              GError                 **error)
{
  for (guint i = 0; i < n_memories; i++)
    {
      if (memories[i]->is_image || !((GpuCudaBuffer *) memories[i])->is_managed)
        continue;

      if (!_gpu_cuda_prefetch (stream, memories[i], flags, 0, memories[i]->size, NULL, error))
        {
          stream->partial = i > 0;
          return FALSE;
        }
    }

  return TRUE;
}

/* Only managed memory can migrate; device memory never moves. */
static gboolean
memory_migrate (GpuNativeStream         *stream,
                GpuNativeMemory *const  *memories,
                guint                    n_memories,
                GpuMigrateFlags          flags,
                GpuNativeEvent         **event,
                GError                 **error)
{
  GpuCudaCall call;

  if (!prefetch_all (stream, memories, n_memories, flags, error))
    return FALSE;

  return event == NULL
         || (_gpu_cuda_begin (stream, event, &call, error)
             && _gpu_cuda_end (stream, event, &call, CUDA_SUCCESS, error, "cuEventRecord",
                               "%u memories", n_memories));
}

const GpuMemoryOps _gpu_cuda_memory_ops =
{
  .copies_peers   = TRUE,
  .free           = memory_free,
  .get_handle     = memory_get_handle,
  .get_address    = memory_get_address,
  .get_attributes = memory_get_attributes,
  .identify       = memory_identify,
  .copy_region    = _gpu_cuda_copy_region,
  .migrate        = memory_migrate,
  .unmap          = _gpu_cuda_unmap
};
