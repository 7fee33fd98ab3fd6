/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/memory/gpu-virtual-memory-private.h"

gboolean
_gpu_virtual_check (GpuNativeContext  *context,
                    gboolean           shareable,
                    GError           **error)
{
  GpuCapabilities wanted = GPU_CAPABILITIES_VIRTUAL_MEMORY;

  if (shareable)
    wanted |= GPU_CAPABILITIES_IPC_FDS;

  if (context->backend->virtual_memory != NULL
      && (~context->devices[0]->capabilities & wanted) == 0)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
               "device %s cannot map memory%s to reserved addresses",
               context->devices[0]->id,
               shareable ? " that can be shared as a file descriptor" : "");

  return FALSE;
}

GpuNativeChunk *
_gpu_virtual_create_chunk (GpuNativeContext  *context,
                           gsize              size,
                           GpuNativeBuffer   *shared,
                           GError           **error)
{
  GpuNativeChunk *chunk;

  if (!_gpu_virtual_check (context, shared != NULL, error))
    return NULL;

  chunk = context->backend->virtual_memory->create_chunk (context, FALSE, size, shared, error);

  if (chunk != NULL)
    g_atomic_pointer_add (&context->allocated, (gssize) size);

  return chunk;
}

GpuNativeChunk *
_gpu_virtual_create_host_chunk (GpuNativeContext  *context,
                                gsize              size,
                                GError           **error)
{
  GpuNativeChunk *chunk = context->backend->virtual_memory->create_chunk (context, TRUE, size, NULL,
                                                                          error);

  if (chunk != NULL)
    g_atomic_pointer_add (&context->allocated_host, (gssize) size);

  return chunk;
}

void
_gpu_virtual_destroy_chunk (GpuNativeContext *context,
                            GpuNativeChunk   *chunk)
{
  g_atomic_pointer_add (chunk->is_host ? &context->allocated_host : &context->allocated,
                        -(gssize) chunk->size);
  context->backend->virtual_memory->destroy_chunk (context, chunk);
}
