/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Chunks of memory for pools: parts of anonymous files. All chunks of a context that cannot be
 * shared are in one file. Shareable chunks are in slabs, which are files of a fixed size: a process
 * that gets the descriptor of a chunk can access only its slab. Each range of addresses, and so
 * each pool, has slabs of its own. It lists the shareable chunks that are mapped to it, to export
 * them. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <glib/gstdio.h>

#include "gpumem/base/gpu-attributes-private.h"
#include "gpumem/base/gpu-descriptor-private.h"
#include "gpumem/host/gpu-host.h"

/* The size of a slab. A larger chunk has a slab of its own. With a file for each chunk, pools would
 * soon exceed the limit of descriptors, which is often 1,024. */
#define SLAB_SIZE ((guint64) 64 * 1024 * 1024)

struct _GpuHostSlab
{
  gatomicrefcount refs;             /* held by the chunks, and by the range while it adds some */
  int             fd;
  guint64         size;
  guint64         end;              /* offset of the next chunk; protected by the lock of
                                     * the range. The offset of a freed chunk is not reused */
};

struct _GpuHostRange
{
  GMutex       lock;                /* protects the next two members */
  GTree       *mapped;              /* key: the offset of a shareable chunk; value: GpuHostChunk */
  GpuHostSlab *slab;                /* the file that gets the next shareable chunk, or NULL */
};

static GpuHostSlab *
slab_new (guint64      size,
          const char **function)
{
  int fd = _gpu_host_create_sealed_file (size, function);
  GpuHostSlab *slab;

  if (fd < 0)
    return NULL;

  slab = g_new0 (GpuHostSlab, 1);
  g_atomic_ref_count_init (&slab->refs);
  slab->fd = fd;
  slab->size = size;

  return slab;
}

static void
slab_unref (GpuHostSlab *slab)
{
  if (!g_atomic_ref_count_dec (&slab->refs))
    return;

  g_close (slab->fd, NULL);
  g_free (slab);
}

void
_gpu_host_chunks_clear (GpuHostContext *context)
{
  if (context->chunks_fd >= 0)
    g_close (context->chunks_fd, NULL);

  g_mutex_clear (&context->chunks_lock);
}

int
_gpu_host_create_sealed_file (guint64      size,
                              const char **function)
{
  int fd = memfd_create ("gpumem", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  int code;

  *function = "memfd_create";

  if (fd < 0)
    return -1;

  *function = "ftruncate";

  /* The seals prevent a process that receives the file from truncating the memory of the other
   * processes. */
  if (ftruncate (fd, (off_t) size) == 0)
    {
      *function = "fcntl (F_ADD_SEALS)";

      if (fcntl (fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
        return fd;
    }

  code = errno;
  g_close (fd, NULL);
  errno = code;

  return -1;
}

/* Places @chunk in a slab. On failure, errno is set and @function is the call that failed. Caller
 * holds the lock of @range. */
static gboolean
place_in_slab_locked (GpuHostRange  *range,
                      GpuHostChunk  *chunk,
                      const char   **function)
{
  const gsize size = chunk->parent.size;
  GpuHostSlab *slab = range->slab;

  if (slab == NULL || size > slab->size - slab->end)
    {
      slab = slab_new (MAX (size, SLAB_SIZE), function);

      if (slab == NULL)
        return FALSE;

      g_clear_pointer (&range->slab, slab_unref);
      range->slab = slab;
    }

  g_atomic_ref_count_inc (&slab->refs);
  chunk->slab = slab;
  chunk->fd = slab->fd;
  chunk->offset = slab->end;
  slab->end += size;

  return TRUE;
}

/* Extends the file of the context by @chunk. On failure, errno is set and @function is the call
 * that failed. Caller holds `chunks_lock`. */
static gboolean
extend_locked (GpuHostContext  *context,
               GpuHostChunk    *chunk,
               const char     **function)
{
  const gsize size = chunk->parent.size;
  const guint64 offset = context->chunks_end;

  if (context->chunks_fd < 0)
    {
      *function = "memfd_create";
      context->chunks_fd = memfd_create ("gpumem-chunks", MFD_CLOEXEC);
    }

  if (context->chunks_fd < 0)
    return FALSE;

  *function = "ftruncate";

  if (size > (guint64) G_MAXINT64 - offset)
    {
      errno = EFBIG;
      return FALSE;
    }

  if (ftruncate (context->chunks_fd, (off_t) (offset + size)) != 0)
    return FALSE;

  context->chunks_end += size;
  chunk->fd = context->chunks_fd;
  chunk->offset = offset;

  return TRUE;
}

/* Gives @chunk a part of a file: of a slab of @range, or of the file of the context if @range is
 * NULL. Returns 0, or an errno of @function, which is the call that failed. */
static int
place (GpuHostContext  *context,
       GpuHostRange    *range,
       GpuHostChunk    *chunk,
       const char     **function)
{
  GMutex *lock = range != NULL ? &range->lock : &context->chunks_lock;
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (lock);
  gboolean placed = range != NULL ? place_in_slab_locked (range, chunk, function)
                                  : extend_locked (context, chunk, function);

  return placed ? 0 : errno;
}

GpuNativeChunk *
_gpu_host_create_chunk (GpuNativeContext  *context,
                        gboolean           is_host,
                        gsize              size,
                        GpuNativeBuffer   *shared,
                        GError           **error)
{
  GpuHostRange *range = shared != NULL ? ((GpuHostBuffer *) shared)->range : NULL;
  const char *function;
  GpuHostChunk *chunk;
  int code;

  /* A forked child shares the files, but does not see when the parent extends or fills them. */
  if (!_gpu_backend_check_process (error) || !_gpu_host_check_room (context, size, error))
    return NULL;

  chunk = g_new0 (GpuHostChunk, 1);
  chunk->parent.backend = &_gpu_host_backend;
  chunk->parent.size = size;
  chunk->parent.is_host = is_host;

  code = place ((GpuHostContext *) context, range, chunk, &function);

  if (code == 0)
    return &chunk->parent;

  g_free (chunk);
  _gpu_host_set_no_memory (context, function, code, size, error);

  return NULL;
}

void
_gpu_host_destroy_chunk (GpuNativeContext *context G_GNUC_UNUSED,
                         GpuNativeChunk   *chunk)
{
  GpuHostChunk *self = (GpuHostChunk *) chunk;

  /* Do not punch a hole in a forked child: the child shares the file with its parent, which may
   * still use the pages. */
  if (G_LIKELY (!g_atomic_int_get (&_gpu_forked)))
    fallocate (self->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t) self->offset,
               (off_t) chunk->size);

  if (self->slab != NULL)
    slab_unref (self->slab);

  g_free (self);
}

/* --- ranges ----------------------------------------------------------------------------------- */

static int
compare_offsets (gconstpointer a,
                 gconstpointer b)
{
  const gsize one = GPOINTER_TO_SIZE (a);
  const gsize other = GPOINTER_TO_SIZE (b);

  return (one > other) - (one < other);
}

GpuHostRange *
_gpu_host_range_new (void)
{
  GpuHostRange *range = g_new0 (GpuHostRange, 1);

  g_mutex_init (&range->lock);
  range->mapped = g_tree_new (compare_offsets);

  return range;
}

void
_gpu_host_range_free (GpuHostRange *range)
{
  g_tree_unref (range->mapped);
  g_clear_pointer (&range->slab, slab_unref);
  g_mutex_clear (&range->lock);
  g_free (range);
}

void
_gpu_host_range_add (GpuHostRange           *range,
                     gsize                   offset,
                     GpuNativeChunk *const  *chunks,
                     guint                   n_chunks)
{
  g_mutex_lock (&range->lock);

  for (guint i = 0; i < n_chunks; i++)
    {
      if (((GpuHostChunk *) chunks[i])->slab != NULL)
        g_tree_insert (range->mapped, GSIZE_TO_POINTER (offset), chunks[i]);

      offset += chunks[i]->size;
    }

  g_mutex_unlock (&range->lock);
}

void
_gpu_host_range_remove (GpuHostRange *range,
                        gsize         offset,
                        gsize         size)
{
  gconstpointer first = GSIZE_TO_POINTER (offset);
  GTreeNode *node;

  /* In a forked child, a thread that exists only in the parent may hold the lock. */
  if (G_UNLIKELY (g_atomic_int_get (&_gpu_forked)))
    return;

  g_mutex_lock (&range->lock);

  while ((node = g_tree_lower_bound (range->mapped, first)) != NULL
         && GPOINTER_TO_SIZE (g_tree_node_key (node)) - offset < size)
    g_tree_remove (range->mapped, g_tree_node_key (node));

  g_mutex_unlock (&range->lock);
}

/* Returns the node of the chunk that contains @offset, or NULL. */
static GTreeNode *
find_chunk_locked (GpuHostRange *range,
                   gsize         offset)
{
  GTreeNode *after = g_tree_upper_bound (range->mapped, GSIZE_TO_POINTER (offset));

  return after != NULL ? g_tree_node_previous (after) : g_tree_node_last (range->mapped);
}

/* Adds a part of @chunk to @parts: to the last part, if the new one follows it in the file of the
 * same slab, which has the descriptor @last. */
static gboolean
add_part (const GpuHostChunk  *chunk,
          gsize                offset,
          gsize                size,
          int                 *last,
          GArray              *parts,
          GArray              *fds,
          GError             **error)
{
  const GpuHostPart part = { chunk->offset + offset, size };
  int fd;

  if (parts->len > 0 && *last == chunk->fd)
    {
      GpuHostPart *before = &g_array_index (parts, GpuHostPart, parts->len - 1);

      if (before->offset + before->size == part.offset)
        {
          before->size += size;
          return TRUE;
        }
    }

  fd = _gpu_descriptor_duplicate (chunk->fd, error);

  if (fd < 0)
    return FALSE;

  *last = chunk->fd;
  g_array_append_val (fds, fd);
  g_array_append_val (parts, part);

  return TRUE;
}

gboolean
_gpu_host_range_list_parts (GpuHostBuffer  *buffer,
                            gsize           size,
                            GArray         *parts,
                            GArray         *fds,
                            GError        **error)
{
  GpuHostRange *range = buffer->root->range;
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&range->lock);
  gsize at = (gsize) (buffer->data - buffer->root->data);
  const gsize end = at + size;
  int last = -1;

  for (GTreeNode *node = find_chunk_locked (range, at); at < end; node = g_tree_node_next (node))
    {
      const gsize begin = node != NULL ? GPOINTER_TO_SIZE (g_tree_node_key (node)) : 0;
      const GpuHostChunk *chunk = node != NULL ? g_tree_node_value (node) : NULL;
      gsize part;

      if (chunk == NULL || begin > at || at - begin >= chunk->parent.size)
        {
          g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                       "host: the memory at offset %" G_GSIZE_FORMAT " of the pool's addresses "
                       "cannot be shared: create the pool with GPU_MEMORY_FLAGS_SHAREABLE", at);
          return FALSE;
        }

      part = MIN (end - at, chunk->parent.size - (at - begin));

      if (!add_part (chunk, at - begin, part, &last, parts, fds, error))
        return FALSE;

      at += part;
    }

  return TRUE;
}
