/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Buffers as memory of the process: made over it, allocated, and freed. */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "gpumem/host/gpu-host.h"

GpuNativeBuffer *
_gpu_host_buffer_new (gpointer    data,
                      gsize       size,
                      const char *origin)
{
  GpuHostBuffer *buffer = g_new0 (GpuHostBuffer, 1);

  buffer->parent.backend = &_gpu_host_backend;
  buffer->parent.size = size;
  buffer->parent.host = data;
  buffer->data = data;
  buffer->origin = origin;

  return &buffer->parent;
}

void
_gpu_host_set_no_memory (GpuNativeContext  *context,
                         const char        *function,
                         int                code,
                         gsize              size,
                         GError           **error)
{
  gsize held = __atomic_load_n (&context->allocated, __ATOMIC_RELAXED);
  guint64 free_size = 0;
  guint64 total_size = 0;

  _gpu_host_get_memory (&free_size, &total_size, NULL);
  g_set_error (error, GPU_ERROR, GPU_ERROR_OUT_OF_DEVICE_MEMORY,
               "host: %s: %s (%d): %" G_GSIZE_FORMAT " bytes requested, %" G_GUINT64_FORMAT
               " free of %" G_GUINT64_FORMAT ", %" G_GSIZE_FORMAT " held by the context",
               function, code == ENOMEM ? "ENOMEM" : g_strerror (code), code, size, free_size,
               total_size, held);
}

GpuNativeBuffer *
_gpu_host_buffer_alloc_aligned (GpuNativeContext  *context,
                                gsize              size,
                                gsize              alignment,
                                GError           **error)
{
  GpuNativeBuffer *buffer;
  void *data;
  int code = posix_memalign (&data, alignment, size);

  if (code != 0)
    {
      _gpu_host_set_no_memory (context, "posix_memalign", code, size, error);
      return NULL;
    }

  buffer = _gpu_host_buffer_new (data, size, "memory");
  ((GpuHostBuffer *) buffer)->allocation = data;

  return buffer;
}

GpuHostBuffer *
_gpu_host_memory_get_buffer (const GpuNativeMemory *memory)
{
  return memory->is_image ? ((GpuHostNativeImage *) memory)->memory : (GpuHostBuffer *) memory;
}

static void
free_buffer (GpuHostBuffer *buffer)
{
  if (buffer->mapped_size > 0)
    munmap (buffer->data, buffer->mapped_size);

  if (buffer->file != NULL)
    _gpu_host_file_unuse (buffer->file);

  free (buffer->allocation);
  g_free (buffer);
}

void
_gpu_host_memory_free (GpuNativeContext *context G_GNUC_UNUSED,
                       GpuNativeMemory  *memory)
{
  GpuHostBuffer *buffer = _gpu_host_memory_get_buffer (memory);

  if (memory->is_image)
    g_free (memory);

  free_buffer (buffer);
}

guint8 *
_gpu_host_memory_get_data (const GpuNativeMemory *memory)
{
  return _gpu_host_memory_get_buffer (memory)->data;
}
