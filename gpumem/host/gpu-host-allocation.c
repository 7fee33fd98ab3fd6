/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Allocation, commitment and freeing of buffers. */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gpumem/host/gpu-host.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* Bytes to commit between two checks of the free memory. */
#define COMMIT_STEP ((gsize) 256 * 1024 * 1024)

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

  code = posix_memalign (&data, alignment, size);

  if (code != 0)
    {
      _gpu_host_set_no_memory (context, "posix_memalign", code, size, error);
      return NULL;
    }

  buffer = _gpu_host_buffer_new (data, size, "memory");
  ((GpuHostBuffer *) buffer)->allocation = data;

  return buffer;
}

/* --- committing memory ------------------------------------------------------------------------ */

static void
touch (guint8 *data,
       gsize   size)
{
  gsize page = (gsize) sysconf (_SC_PAGESIZE);

  for (gsize i = 0; i < size; i += page)
    *(volatile guint8 *) (data + i) = 0;

  *(volatile guint8 *) (data + size - 1) = 0;
}

/* Returns 0 or an errno. If the machine has no memory, madvise() returns an error on Linux 5.14 or
 * later. On older versions of Linux, the write in touch() ends the process. */
static int
populate (guint8 *data,
          gsize   size)
{
  while (madvise (data, size, MADV_POPULATE_WRITE) != 0)
    {
      if (errno == EINVAL)
        {
          touch (data, size);
          return 0;
        }

      if (errno != EAGAIN && errno != EINTR)
        return errno;
    }

  return 0;
}

/* Fails if the buffer exceeds the free memory. Without this check, Linux would kill a process to
 * get memory. */
gboolean
_gpu_host_buffer_commit (GpuNativeContext  *context,
                         GpuNativeBuffer   *buffer,
                         GError           **error)
{
  GpuHostBuffer *self = (GpuHostBuffer *) buffer;

  if (self->mapped_size == 0 && self->file == NULL)
    {
      touch (self->data, buffer->size);
      return TRUE;
    }

  for (gsize done = 0; done < buffer->size; done += COMMIT_STEP)
    {
      gsize rest = buffer->size - done;
      GpuHostLimits limits;
      int code = ENOMEM;

      _gpu_host_read_limits ("", &limits);

      if (rest <= limits.free_size)
        code = populate (self->data + done, MIN (rest, COMMIT_STEP));

      if (code != 0)
        {
          _gpu_host_set_no_memory (context, "madvise", code, buffer->size, error);
          return FALSE;
        }
    }

  return TRUE;
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
