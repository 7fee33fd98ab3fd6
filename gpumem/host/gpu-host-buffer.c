/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "gpumem/base/gpu-error-private.h"
#include "gpumem/base/gpu-numa-private.h"
#include "gpumem/host/gpu-host.h"

/* Buffers of at least this size are allocated with mmap(), which provides pages at the first
 * write. */
#define MAP_THRESHOLD (256 * 1024)

/* A fill repeats the pattern until it has filled a block of this size, and then copies this block
 * again and again, because the block stays in the CPU's cache. */
#define FILL_BLOCK 4096

/* Several threads do the copies of a batch of at least this size in bytes. Each thread takes
 * BATCH_PART copies at a time. */
#define SHARE_THRESHOLD (1024 * 1024)
#define BATCH_PART      16

typedef struct
{
  GpuHostOperation  parent;
  guint8           *destination;
  const guint8     *source;
  gsize             size;
} GpuHostCopy;

typedef struct
{
  GpuHostOperation  parent;
  gsize             n_taken;        /* atomic */
  gsize             n_copies;
  gsize             n_bytes;
  struct
  {
    guint8         *destination;
    const guint8   *source;
    gsize           size;
  }                 copies[];
} GpuHostBatch;

typedef struct
{
  GpuHostOperation  parent;
  guint8           *destination;
  gsize             size;
  gsize             pattern_size;
  guint8            pattern[128];
} GpuHostFill;

typedef struct
{
  GpuHostOperation  parent;
  GpuNativeBuffer  *buffer;
} GpuHostFree;

static GpuNativeBuffer *
alloc_large (GpuNativeContext  *context,
             gsize              size,
             GError           **error)
{
  GpuNativeBuffer *buffer;
  void *data = mmap (NULL, size, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

  if (data == MAP_FAILED)
    {
      _gpu_host_set_no_memory (context, "mmap", errno, size, error);
      return NULL;
    }

  buffer = _gpu_host_buffer_new (data, size, "memory");
  ((GpuHostBuffer *) buffer)->mapped_size = size;

  return buffer;
}

GpuNativeBuffer *
_gpu_host_buffer_alloc (GpuNativeContext  *context,
                        GpuMemoryFlags     flags,
                        gsize              size,
                        gconstpointer      data,
                        GError           **error)
{
  GpuNativeBuffer *buffer;

  if (!_gpu_host_check_room (context, size, error))
    return NULL;

  if ((flags & GPU_MEMORY_FLAGS_SHAREABLE) != 0)
    buffer = _gpu_host_buffer_alloc_shared (size, error);
  else if (size < MAP_THRESHOLD)
    buffer = _gpu_host_buffer_alloc_aligned (context, size, GPU_HOST_BASE_ALIGNMENT, error);
  else
    buffer = alloc_large (context, size, error);

  if (buffer != NULL && data != NULL)
    memcpy (((GpuHostBuffer *) buffer)->data, data, size);

  return buffer;
}

GpuNativeBuffer *
_gpu_host_buffer_alloc_for_host (GpuNativeContext  *context G_GNUC_UNUSED,
                                 GpuMemoryFlags     flags G_GNUC_UNUSED,
                                 gpointer           data,
                                 gsize              size,
                                 GError           **error G_GNUC_UNUSED)
{
  return _gpu_host_buffer_new (data, size, "host");
}

/* Allocates host memory like any buffer, because kernels on the host can access all host memory,
 * and page locking has no effect. */
static GpuNativeBuffer *
host_buffer_alloc_host (GpuNativeContext    *context,
                        GpuHostMemoryFlags  *flags,
                        int                 *numa_node,
                        gsize                size,
                        GError             **error)
{
  GError *failure = NULL;
  GpuNativeBuffer *buffer = _gpu_host_buffer_alloc (context, GPU_MEMORY_FLAGS_NONE, size, NULL,
                                                    &failure);
  GpuHostBuffer *self;

  *flags &= ~GPU_HOST_MEMORY_FLAGS_WRITE_COMBINED;

  if (buffer == NULL)
    {
      failure->code = GPU_ERROR_OUT_OF_HOST_MEMORY;
      g_propagate_error (error, failure);
      return NULL;
    }

  self = (GpuHostBuffer *) buffer;
  *numa_node = self->mapped_size > 0
               ? _gpu_numa_bind (self->data, size, _gpu_numa_resolve ("", *numa_node, NULL))
               : GPU_NUMA_NODE_NONE;

  return buffer;
}

static GpuNativeBuffer *
host_buffer_register_host (GpuNativeContext    *context,
                           GpuHostMemoryFlags  *flags G_GNUC_UNUSED,
                           gpointer             data,
                           gsize                size,
                           GError             **error)
{
  return _gpu_host_buffer_alloc_for_host (context, GPU_MEMORY_FLAGS_NONE, data, size, error);
}

static GpuNativeBuffer *
host_buffer_use_host (GpuNativeContext  *context,
                      gpointer           data,
                      gsize              size,
                      GError           **error)
{
  return _gpu_host_buffer_alloc_for_host (context, GPU_MEMORY_FLAGS_NONE, data, size, error);
}

/* With GPU_WRAP_MODE_ADOPT, the memory must come from malloc(). */
static GpuNativeBuffer *
host_buffer_wrap (GpuNativeContext  *context G_GNUC_UNUSED,
                  guint64            handle,
                  gsize              size,
                  GpuWrapMode        mode,
                  GError           **error)
{
  gpointer data = (gpointer) (guintptr) handle;
  GpuNativeBuffer *buffer;

  if (handle == 0 || (guintptr) handle != handle || size == 0
      || (guintptr) data > G_MAXSIZE - size)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "host: cannot wrap %" G_GSIZE_FORMAT " bytes at address 0x%" G_GINT64_MODIFIER
                   "x; the address and the size must be valid and not 0", size, handle);
      return NULL;
    }

  buffer = _gpu_host_buffer_new (data, size, "wrapped");

  if (mode == GPU_WRAP_MODE_ADOPT)
    ((GpuHostBuffer *) buffer)->allocation = data;

  return buffer;
}

static void
host_buffer_move_slice (GpuNativeBuffer *slice,
                        GpuNativeBuffer *parent,
                        gsize            offset,
                        gsize            size)
{
  slice->size = size;
  slice->host = (guint8 *) parent->host + offset;
  ((GpuHostBuffer *) slice)->data = slice->host;
}

static GpuNativeBuffer *
host_buffer_slice (GpuNativeContext  *context G_GNUC_UNUSED,
                   GpuNativeBuffer   *parent,
                   GpuMemoryFlags     flags G_GNUC_UNUSED,
                   gsize              offset,
                   gsize              size,
                   GError           **error G_GNUC_UNUSED)
{
  GpuNativeBuffer *slice = _gpu_host_buffer_new (NULL, 0, "slice");

  ((GpuHostBuffer *) slice)->root = (GpuHostBuffer *) parent;
  host_buffer_move_slice (slice, parent, offset, size);

  return slice;
}

static guint8 *
data_at (GpuNativeBuffer *buffer,
         gsize            offset)
{
  return ((GpuHostBuffer *) buffer)->data + offset;
}

static gboolean
copy_run (GpuHostOperation  *operation,
          GError           **error G_GNUC_UNUSED)
{
  GpuHostCopy *copy = (GpuHostCopy *) operation;

  memmove (copy->destination, copy->source, copy->size);

  return TRUE;
}

static gboolean
submit_copy (GpuNativeStream  *stream,
             guint8           *destination,
             const guint8     *source,
             gsize             size,
             GpuNativeEvent  **event,
             GError          **error)
{
  GpuHostCopy *copy = _gpu_host_operation_new (sizeof *copy, copy_run);

  copy->destination = destination;
  copy->source = source;
  copy->size = size;

  return _gpu_host_stream_submit (stream, copy, event, error);
}

static gboolean
fill_run (GpuHostOperation  *operation,
          GError           **error G_GNUC_UNUSED)
{
  GpuHostFill *fill = (GpuHostFill *) operation;
  gsize block = MIN (fill->size, FILL_BLOCK);
  gsize done = fill->pattern_size;

  if (fill->pattern_size == 1)
    {
      memset (fill->destination, fill->pattern[0], fill->size);
      return TRUE;
    }

  memcpy (fill->destination, fill->pattern, fill->pattern_size);

  while (done < block)
    {
      gsize size = MIN (done, block - done);

      memcpy (fill->destination + done, fill->destination, size);
      done += size;
    }

  while (done < fill->size)
    {
      gsize size = MIN (block, fill->size - done);

      memcpy (fill->destination + done, fill->destination, size);
      done += size;
    }

  return TRUE;
}

static gboolean
host_buffer_copy (GpuNativeStream  *stream,
                  GpuNativeBuffer  *destination,
                  gsize             destination_offset,
                  GpuNativeBuffer  *source,
                  gsize             source_offset,
                  gsize             size,
                  GpuNativeEvent  **event,
                  GError          **error)
{
  return submit_copy (stream, data_at (destination, destination_offset),
                      data_at (source, source_offset), size, event, error);
}

/* All contexts use the same memory. */
static gboolean
host_buffer_copy_peer (GpuNativeStream   *stream,
                       GpuNativeContext  *destination_context G_GNUC_UNUSED,
                       GpuNativeBuffer   *destination,
                       gsize              destination_offset,
                       GpuNativeContext  *source_context G_GNUC_UNUSED,
                       GpuNativeBuffer   *source,
                       gsize              source_offset,
                       gsize              size,
                       GpuNativeEvent   **event,
                       GError           **error)
{
  return host_buffer_copy (stream, destination, destination_offset, source, source_offset, size,
                           event, error);
}

static void
run_parts (gpointer data)
{
  GpuHostBatch *batch = data;
  gsize begin;

  while ((begin = g_atomic_pointer_add (&batch->n_taken, BATCH_PART)) < batch->n_copies)
    for (gsize i = begin; i < MIN (begin + BATCH_PART, batch->n_copies); i++)
      memmove (batch->copies[i].destination, batch->copies[i].source, batch->copies[i].size);
}

static gboolean
batch_run (GpuHostOperation  *operation,
           GError           **error G_GNUC_UNUSED)
{
  GpuHostBatch *batch = (GpuHostBatch *) operation;

  if (batch->n_bytes >= SHARE_THRESHOLD && batch->n_copies > BATCH_PART)
    _gpu_host_pool_share (run_parts, batch);
  else
    run_parts (batch);

  return TRUE;
}

static gboolean
host_buffer_copy_batch (GpuNativeStream      *stream,
                        const GpuBufferCopy  *copies,
                        gsize                 n_copies,
                        GpuNativeEvent      **event,
                        GError              **error)
{
  GpuHostBatch *batch = _gpu_try_alloc0 ("host: memmove", sizeof *batch
                                                          + n_copies * sizeof batch->copies[0], 1,
                                         error);

  if (batch == NULL)
    return FALSE;

  batch->parent.kind = GPU_HOST_OPERATION_WORK;
  batch->parent.run = batch_run;
  batch->n_copies = n_copies;

  for (gsize i = 0; i < n_copies; i++)
    {
      batch->copies[i].destination = data_at (copies[i].destination, copies[i].destination_offset);
      batch->copies[i].source = data_at (copies[i].source, copies[i].source_offset);
      batch->copies[i].size = copies[i].size;
      batch->n_bytes += copies[i].size;
    }

  return _gpu_host_stream_submit (stream, batch, event, error);
}

static gboolean
host_buffer_write (GpuNativeStream  *stream,
                   GpuNativeBuffer  *destination,
                   gsize             offset,
                   gconstpointer     data,
                   gsize             size,
                   GpuNativeEvent  **event,
                   GError          **error)
{
  return submit_copy (stream, data_at (destination, offset), data, size, event, error);
}

static gboolean
host_buffer_read (GpuNativeStream  *stream,
                  GpuNativeBuffer  *source,
                  gsize             offset,
                  gpointer          data,
                  gsize             size,
                  GpuNativeEvent  **event,
                  GError          **error)
{
  return submit_copy (stream, data, data_at (source, offset), size, event, error);
}

static gboolean
host_buffer_fill (GpuNativeStream      *stream,
                  GpuNativeBuffer      *destination,
                  const GpuNativeFill  *given,
                  GpuNativeEvent      **event,
                  GError              **error)
{
  GpuHostFill *fill;

  if (given->pattern_size == 0 || given->pattern_size > sizeof fill->pattern
      || given->size % given->pattern_size != 0)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "host: cannot fill %" G_GSIZE_FORMAT " bytes with a pattern of %" G_GSIZE_FORMAT
                   " bytes", given->size, given->pattern_size);
      return FALSE;
    }

  fill = _gpu_host_operation_new (sizeof *fill, fill_run);
  fill->destination = data_at (destination, given->offset);
  fill->size = given->size;
  fill->pattern_size = given->pattern_size;
  memcpy (fill->pattern, given->pattern, given->pattern_size);

  return _gpu_host_stream_submit (stream, fill, event, error);
}

/* Allocates immediately. Only free_ordered() is ordered on the stream. */
static GpuNativeBuffer *
host_buffer_alloc_ordered (GpuNativeStream  *stream,
                           GpuMemoryFlags    flags,
                           gsize             size,
                           GpuNativeEvent  **event,
                           GError          **error)
{
  GpuNativeBuffer *buffer = _gpu_host_buffer_alloc (stream->context, flags, size, NULL, error);

  if (buffer == NULL || _gpu_host_stream_submit_nothing (stream, event, error))
    return buffer;

  _gpu_host_memory_free (stream->context, buffer);

  return NULL;
}

static void
free_release (GpuHostOperation *operation)
{
  _gpu_host_memory_free (NULL, ((GpuHostFree *) operation)->buffer);
}

static gboolean
host_buffer_free_ordered (GpuNativeStream  *stream,
                          GpuNativeBuffer  *buffer,
                          GError          **error)
{
  GpuHostFree *operation = _gpu_host_operation_new (sizeof *operation, NULL);

  operation->parent.release = free_release;
  operation->buffer = buffer;

  return _gpu_host_stream_submit (stream, operation, NULL, error);
}

static gpointer
host_buffer_map (GpuNativeStream  *stream,
                 GpuNativeBuffer  *buffer,
                 GpuMapFlags       flags G_GNUC_UNUSED,
                 gsize             offset,
                 gsize             size G_GNUC_UNUSED,
                 GpuNativeEvent  **event,
                 GError          **error)
{
  if (!_gpu_host_stream_submit_nothing (stream, event, error))
    return NULL;

  return data_at (buffer, offset);
}

const GpuBufferOps _gpu_host_buffer_ops =
{
  .alloc = _gpu_host_buffer_alloc,
  .commit = _gpu_host_buffer_commit,
  .alloc_for_host = _gpu_host_buffer_alloc_for_host,
  .alloc_host = host_buffer_alloc_host,
  .register_host = host_buffer_register_host,
  .use_host = host_buffer_use_host,
  .wrap = host_buffer_wrap,
  .slice = host_buffer_slice,
  .move_slice = host_buffer_move_slice,
  .export_fd = _gpu_host_buffer_export_fd,
  .import_fd = _gpu_host_buffer_import_fd,
  .get_fd_kinds = _gpu_host_buffer_get_fd_kinds,
  .share_fd = _gpu_host_buffer_share_fd,
  .open_fd = _gpu_host_buffer_open_fd,
  .alloc_ordered = host_buffer_alloc_ordered,
  .free_ordered = host_buffer_free_ordered,
  .copy = host_buffer_copy,
  .copy_peer = host_buffer_copy_peer,
  .copy_batch = host_buffer_copy_batch,
  .write = host_buffer_write,
  .read = host_buffer_read,
  .fill = host_buffer_fill,
  .map = host_buffer_map
};
