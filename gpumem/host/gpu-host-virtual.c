/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Virtual memory: reserved addresses, and parts of an anonymous file that are mapped there. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <glib/gstdio.h>

#include "gpumem/base/gpu-attributes-private.h"
#include "gpumem/host/gpu-host.h"

/* The usual granularity of GPUs. Smaller chunks could exceed the system's limit of about 65,000
 * mappings per process. */
#define GRANULARITY ((gsize) 2 * 1024 * 1024)

typedef struct
{
  GpuNativeChunk parent;
  guint64        offset;            /* within the file of the context */
} GpuHostChunk;

static gboolean
host_virtual_get_granularity (GpuNativeContext  *context G_GNUC_UNUSED,
                              gsize             *granularity,
                              GError           **error G_GNUC_UNUSED)
{
  *granularity = GRANULARITY;

  return TRUE;
}

/* Aligns the range to the granularity, like a GPU. */
static GpuNativeBuffer *
host_virtual_reserve (GpuNativeContext  *context,
                      gsize              size,
                      GError           **error)
{
  gsize whole = size <= G_MAXSIZE - GRANULARITY ? size + GRANULARITY : G_MAXSIZE;
  GpuNativeBuffer *buffer;
  guint8 *start;
  guint8 *data = mmap (NULL, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  gsize before;

  if (data == MAP_FAILED)
    {
      _gpu_host_set_no_memory (context, "mmap", errno, size, error);
      return NULL;
    }

  before = (GRANULARITY - (guintptr) data % GRANULARITY) % GRANULARITY;
  start = data + before;

  if (before > 0)
    munmap (data, before);
  if (before < GRANULARITY)
    munmap (start + size, GRANULARITY - before);

  buffer = _gpu_host_buffer_new (start, size, "reserved");
  ((GpuHostBuffer *) buffer)->mapped_size = size;

  return buffer;
}

/* --- chunks ----------------------------------------------------------------------------------- */

void
_gpu_host_chunks_clear (GpuHostContext *context)
{
  if (context->chunks_fd >= 0)
    g_close (context->chunks_fd, NULL);

  g_mutex_clear (&context->chunks_lock);
}

/* Extends the file by @size bytes at @offset. On failure, errno is set and @function is the call
 * that failed. Caller holds `chunks_lock`. */
static gboolean
extend_locked (GpuHostContext  *context,
               gsize            size,
               guint64         *offset,
               const char     **function)
{
  if (context->chunks_fd < 0)
    {
      *function = "memfd_create";
      context->chunks_fd = memfd_create ("gpumem-chunks", MFD_CLOEXEC);
    }

  if (context->chunks_fd < 0)
    return FALSE;

  *function = "ftruncate";
  *offset = context->chunks_end;

  if (size > (guint64) G_MAXINT64 - *offset)
    {
      errno = EFBIG;
      return FALSE;
    }

  if (ftruncate (context->chunks_fd, (off_t) (*offset + size)) != 0)
    return FALSE;

  context->chunks_end += size;

  return TRUE;
}

static GpuNativeChunk *
host_virtual_create_chunk (GpuNativeContext  *context,
                           gsize              size,
                           gboolean           shareable,
                           GError           **error)
{
  GpuHostContext *self = (GpuHostContext *) context;
  const char *function;
  GpuHostChunk *chunk;
  guint64 offset = 0;
  gboolean extended;
  int code;

  /* A forked child shares the file, but does not see when the parent extends it. */
  if (!_gpu_backend_check_process (error))
    return NULL;

  if (shareable)
    {
      g_set_error_literal (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                           "host: virtual memory cannot be shared with other processes; share a "
                           "buffer instead");
      return NULL;
    }

  if (!_gpu_host_check_room (context, size, error))
    return NULL;

  g_mutex_lock (&self->chunks_lock);
  extended = extend_locked (self, size, &offset, &function);
  code = errno;
  g_mutex_unlock (&self->chunks_lock);

  if (!extended)
    {
      _gpu_host_set_no_memory (context, function, code, size, error);
      return NULL;
    }

  chunk = g_new0 (GpuHostChunk, 1);
  chunk->parent.backend = &_gpu_host_backend;
  chunk->parent.size = size;
  chunk->offset = offset;

  return &chunk->parent;
}

static void
host_virtual_destroy_chunk (GpuNativeContext *context,
                            GpuNativeChunk   *chunk)
{
  GpuHostChunk *self = (GpuHostChunk *) chunk;

  /* Do not punch a hole in a forked child: the child shares the file with its parent, which may
   * still use the pages. */
  if (G_LIKELY (!g_atomic_int_get (&_gpu_forked)))
    fallocate (((GpuHostContext *) context)->chunks_fd,
               FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t) self->offset,
               (off_t) chunk->size);

  g_free (self);
}

/* --- mappings --------------------------------------------------------------------------------- */

static void
close_pages (guint8 *data,
             gsize   size)
{
  mmap (data, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

static gboolean
host_virtual_map (GpuNativeContext       *context,
                  GpuNativeBuffer        *range,
                  gsize                   offset,
                  GpuNativeChunk *const  *chunks,
                  guint                   n_chunks,
                  GError                **error)
{
  const int fd = ((GpuHostContext *) context)->chunks_fd;
  guint8 *begin = ((GpuHostBuffer *) range)->data + offset;
  guint8 *data = begin;

  for (guint i = 0; i < n_chunks; i++)
    {
      const gsize size = chunks[i]->size;

      if (mmap (data, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
                (off_t) ((GpuHostChunk *) chunks[i])->offset) == MAP_FAILED)
        {
          _gpu_host_set_no_memory (context, "mmap", errno, size, error);
          close_pages (begin, (gsize) (data - begin) + size);
          return FALSE;
        }

      data += size;
    }

  return TRUE;
}

static void
host_virtual_unmap (GpuNativeContext *context G_GNUC_UNUSED,
                    GpuNativeBuffer  *range,
                    gsize             offset,
                    gsize             size)
{
  close_pages (((GpuHostBuffer *) range)->data + offset, size);
}

const GpuVirtualOps _gpu_host_virtual_ops =
{
  .get_granularity = host_virtual_get_granularity,
  .reserve = host_virtual_reserve,
  .create_chunk = host_virtual_create_chunk,
  .destroy_chunk = host_virtual_destroy_chunk,
  .map = host_virtual_map,
  .unmap = host_virtual_unmap
};
