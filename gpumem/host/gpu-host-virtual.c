/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Virtual memory: reserved addresses, and the chunks that are mapped there. */
#include "config.h"

#include <errno.h>
#include <sys/mman.h>

#include "gpumem/host/gpu-host.h"

/* The usual granularity of GPUs. Smaller chunks could exceed the system's limit of about 65,000
 * mappings per process. */
#define GRANULARITY ((gsize) 2 * 1024 * 1024)

static gboolean
host_virtual_get_granularity (GpuNativeContext  *context G_GNUC_UNUSED,
                              gboolean           is_host G_GNUC_UNUSED,
                              gsize             *granularity,
                              GError           **error G_GNUC_UNUSED)
{
  *granularity = GRANULARITY;

  return TRUE;
}

/* Aligns the range to the granularity, like a GPU. */
static GpuNativeBuffer *
host_virtual_reserve (GpuNativeContext  *context,
                      gboolean           is_host G_GNUC_UNUSED,
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
  ((GpuHostBuffer *) buffer)->range = _gpu_host_range_new ();

  return buffer;
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
  guint8 *begin = ((GpuHostBuffer *) range)->data + offset;
  guint8 *data = begin;

  for (guint i = 0; i < n_chunks; i++)
    {
      const GpuHostChunk *chunk = (GpuHostChunk *) chunks[i];
      const gsize size = chunks[i]->size;

      if (mmap (data, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, chunk->fd,
                (off_t) chunk->offset) == MAP_FAILED)
        {
          _gpu_host_set_no_memory (context, "mmap", errno, size, error);
          close_pages (begin, (gsize) (data - begin) + size);
          return FALSE;
        }

      data += size;
    }

  _gpu_host_range_add (((GpuHostBuffer *) range)->range, offset, chunks, n_chunks);

  return TRUE;
}

static void
host_virtual_unmap (GpuNativeContext *context G_GNUC_UNUSED,
                    GpuNativeBuffer  *range,
                    gsize             offset,
                    gsize             size)
{
  _gpu_host_range_remove (((GpuHostBuffer *) range)->range, offset, size);
  close_pages (((GpuHostBuffer *) range)->data + offset, size);
}

const GpuVirtualOps _gpu_host_virtual_ops =
{
  .get_granularity = host_virtual_get_granularity,
  .reserve = host_virtual_reserve,
  .create_chunk = _gpu_host_create_chunk,
  .destroy_chunk = _gpu_host_destroy_chunk,
  .map = host_virtual_map,
  .unmap = host_virtual_unmap
};
