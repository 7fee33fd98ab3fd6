/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Allocation, commitment and freeing of buffers. */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "gpumem/base/gpu-memory-limits-private.h"
#include "gpumem/base/gpu-pages-private.h"
#include "gpumem/host/gpu-host.h"

/* Buffers of at least this size begin at a multiple of it, as on CUDA. Segments of pools must. */
#define LARGE_ALIGNMENT 512

gboolean
_gpu_host_get_memory (guint64  *free_size,
                      guint64  *total_size,
                      GError  **error)
{
  GpuMemoryLimits limits;

  _gpu_memory_limits_read ("", &limits);
  *free_size = limits.free_size;
  *total_size = limits.total_size;

  if (limits.total_size > 0)
    return TRUE;

  g_set_error_literal (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                       "host: sysconf: the system does not report the size of its memory");

  return FALSE;
}

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
  guint64 held = _gpu_native_context_get_held (context, TRUE);
  guint64 free_size = 0;
  guint64 total_size = 0;

  _gpu_host_get_memory (&free_size, &total_size, NULL);
  g_set_error (error, GPU_ERROR, GPU_ERROR_OUT_OF_DEVICE_MEMORY,
               "host: %s: %s (%d): %" G_GSIZE_FORMAT " bytes requested, %" G_GUINT64_FORMAT
               " free of %" G_GUINT64_FORMAT ", %" G_GUINT64_FORMAT
               " held by the contexts of the process",
               function, code == ENOMEM ? "ENOMEM" : g_strerror (code), code, size, free_size,
               total_size, held);
}

gboolean
_gpu_host_check_room (GpuNativeContext  *context,
                      gsize              size,
                      GError           **error)
{
  guint64 total = context->devices[0]->memory_size;
  guint64 held = _gpu_native_context_get_held (context, TRUE);

  if (size <= total - MIN (held, total))
    return TRUE;

  _gpu_host_set_no_memory (context, "memory limit", ENOMEM, size, error);

  return FALSE;
}

GpuNativeBuffer *
_gpu_host_buffer_alloc_aligned (GpuNativeContext  *context,
                                gsize              size,
                                gsize              alignment,
                                GError           **error)
{
  GpuNativeBuffer *buffer;
  void *data;
  int code;

  if (!_gpu_host_check_room (context, size, error))
    return NULL;

  if (size >= LARGE_ALIGNMENT)
    alignment = MAX (alignment, LARGE_ALIGNMENT);

  code = posix_memalign (&data, alignment, size);

  if (code != 0)
    {
      _gpu_host_set_no_memory (context, "posix_memalign", code, size, error);
      g_prefix_error (error, "alignment of %" G_GSIZE_FORMAT " bytes: ", alignment);
      return NULL;
    }

  buffer = _gpu_host_buffer_new (data, size, "memory");
  ((GpuHostBuffer *) buffer)->allocation = data;

  return buffer;
}

/* --- committing memory ------------------------------------------------------------------------ */

/* Fails if the buffer exceeds the free memory. Without this check, Linux would kill a process to
 * get memory. */
gboolean
_gpu_host_buffer_commit (GpuNativeContext  *context,
                         GpuNativeBuffer   *buffer,
                         GError           **error)
{
  GpuHostBuffer *self = (GpuHostBuffer *) buffer;
  int code;

  if (self->mapped_size == 0 && self->file == NULL)
    {
      memset (self->data, 0, buffer->size);
      return TRUE;
    }

  code = _gpu_pages_commit (self->data, buffer->size);

  if (code == 0)
    return TRUE;

  _gpu_host_set_no_memory (context, "madvise", code, buffer->size, error);

  return FALSE;
}

/* --- freeing ---------------------------------------------------------------------------------- */

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

  if (buffer->range != NULL)
    _gpu_host_range_free (buffer->range);

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
