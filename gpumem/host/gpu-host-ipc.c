/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Memory shared between processes: anonymous files that the processes map. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <glib/gstdio.h>

#include "gpumem/base/gpu-descriptor-private.h"
#include "gpumem/host/gpu-host.h"

/* EPERM, EACCES and ENODEV mean that the file cannot be mapped: this library did not export it. */
static GpuError
to_gpu_error (int code)
{
  switch (code)
    {
    case ENOMEM:
      return GPU_ERROR_OUT_OF_DEVICE_MEMORY;
    case EPERM:
    case EACCES:
    case ENODEV:
      return GPU_ERROR_IPC;
    default:
      return GPU_ERROR_FAILED;
    }
}

static void
set_error (const char  *function,
           int          code,
           gsize        size,
           GError     **error)
{
  g_set_error (error, GPU_ERROR, to_gpu_error (code),
               "host: %s: %s (%d): %" G_GSIZE_FORMAT " bytes requested", function,
               g_strerror (code), code, size);
}

/* Some pages of a file. */
typedef struct
{
  int     fd;
  dev_t   device;
  ino_t   inode;
  guint64 offset;                   /* of the first page in the file */
  gsize   size;
} Pages;

/* A mapping of some pages of a file, or of pages of several files one after the other, shared by
 * all buffers in its range. */
struct _GpuHostFile
{
  guint        n_users;             /* protected by lock, like the list */
  guint        n_pages;
  Pages       *pages;
  guint8      *data;
  gsize        size;
  gboolean     is_constant;         /* read-only, and not shared by other buffers */
  GpuHostFile *first;               /* the first mapping of the same file, or NULL if this is the
                                     * first; `n_users` of the first mapping includes this one. NULL
                                     * for several files */
};

/* Memory of other processes. */
typedef struct
{
  const int         *fds;
  const GpuHostPart *parts;         /* of the file behind each descriptor */
  guint              n;
  gsize              size;          /* sum of all parts */
} Source;

static GMutex lock;
static GSList *files;

/* Sets @pages to the whole pages that contain the given part. The caller has checked that the file
 * contains this part. */
static void
pages_set (Pages             *pages,
           const GpuHostPart *part)
{
  gsize page = (gsize) sysconf (_SC_PAGESIZE);
  gsize lead = part->offset % page;

  pages->offset = part->offset - lead;
  pages->size = (lead + part->size + page - 1) / page * page;
}

static gboolean
pages_equal (const Pages *one,
             const Pages *other)
{
  return one->device == other->device && one->inode == other->inode
         && one->offset == other->offset && one->size == other->size;
}

static gpointer
map_pages (const Pages *pages,
           gpointer     address,
           int          protection,
           int          flags)
{
  return mmap (address, pages->size, protection, flags, pages->fd, (off_t) pages->offset);
}

/* Falls back to a private mapping: older versions of Linux refuse shared mappings of a file that is
 * sealed against writing. */
static gpointer
map_constant (const Pages *pages)
{
  gpointer data = map_pages (pages, NULL, PROT_READ, MAP_SHARED);

  return data != MAP_FAILED || errno != EPERM ? data
                                              : map_pages (pages, NULL, PROT_READ, MAP_PRIVATE);
}

/* Maps the pages of several files. On failure, errno is set. */
static gpointer
map_all (const GpuHostFile *file)
{
  guint8 *data = mmap (NULL, file->size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                       0);
  gsize at = 0;

  for (guint i = 0; i < file->n_pages && data != MAP_FAILED; i++)
    {
      if (map_pages (&file->pages[i], data + at, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED)
          == MAP_FAILED)
        {
          const int code = errno;

          munmap (data, file->size);
          errno = code;
          return MAP_FAILED;
        }

      at += file->pages[i].size;
    }

  return data;
}

static gboolean
file_map (GpuHostFile  *file,
          gboolean      allow_constant,
          GError      **error)
{
  gpointer data;

  if (file->n_pages > 1)
    data = map_all (file);
  else
    data = map_pages (file->pages, NULL, PROT_READ | PROT_WRITE, MAP_SHARED);

  if (data == MAP_FAILED && allow_constant && (errno == EPERM || errno == EACCES))
    {
      data = map_constant (file->pages);
      file->is_constant = TRUE;
    }

  if (data == MAP_FAILED)
    {
      set_error ("mmap", errno, file->size, error);
      return FALSE;
    }

  file->data = data;

  return TRUE;
}

/* Frees a file that is not mapped. */
static void
file_free (GpuHostFile *file)
{
  for (guint i = 0; i < file->n_pages; i++)
    g_close (file->pages[i].fd, NULL);

  g_free (file->pages);
  g_free (file);
}

/* Creates a file that is not mapped yet, with duplicates of the descriptors. */
static GpuHostFile *
file_new (const Source  *source,
          GError       **error)
{
  GpuHostFile *file = g_new0 (GpuHostFile, 1);

  file->n_users = 1;
  file->pages = g_new0 (Pages, source->n);

  for (guint i = 0; i < source->n; i++)
    {
      Pages *pages = &file->pages[i];
      struct stat status;

      pages->fd = _gpu_descriptor_duplicate (source->fds[i], error);

      if (pages->fd < 0)
        break;

      file->n_pages++;

      if (fstat (pages->fd, &status) != 0)
        {
          set_error ("fstat", errno, source->size, error);
          break;
        }

      pages->device = status.st_dev;
      pages->inode = status.st_ino;
      pages_set (pages, &source->parts[i]);
      file->size += pages->size;

      if (i == source->n - 1)
        return file;
    }

  file_free (file);

  return NULL;
}

static gboolean
pages_cover (const Pages *pages,
             const Pages *part)
{
  return part->offset >= pages->offset && part->size <= pages->size
         && part->offset - pages->offset <= pages->size - part->size;
}

/* Whether the mapping @file contains all pages of @part, in the same order. */
static gboolean
file_covers (const GpuHostFile *file,
             const GpuHostFile *part)
{
  if (file->n_pages != part->n_pages)
    return FALSE;

  if (file->n_pages == 1)
    return pages_cover (file->pages, part->pages);

  for (guint i = 0; i < file->n_pages; i++)
    {
      if (!pages_equal (&file->pages[i], &part->pages[i]))
        return FALSE;
    }

  return TRUE;
}

/* Returns a mapping that covers @wanted. If there is none and @wanted is a single file, returns any
 * other mapping of that file alone, or NULL if the file has no mapping. */
static GpuHostFile *
find_locked (const GpuHostFile *wanted)
{
  GpuHostFile *other = NULL;

  for (GSList *l = files; l != NULL; l = l->next)
    {
      GpuHostFile *file = l->data;

      if (file->is_constant || file->n_pages != wanted->n_pages
          || file->pages->device != wanted->pages->device
          || file->pages->inode != wanted->pages->inode)
        continue;

      if (file_covers (file, wanted))
        return file;

      if (wanted->n_pages == 1)
        other = file;
    }

  return other;
}

/* The caller has checked that the files contain the parts. */
static GpuHostFile *
file_use (const Source  *source,
          gboolean       allow_constant,
          GError       **error)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&lock);
  GpuHostFile *file = file_new (source, error);
  GpuHostFile *found;

  if (file == NULL)
    return NULL;

  found = find_locked (file);

  if (found != NULL && file_covers (found, file))
    {
      file_free (file);
      found->n_users++;
      return found;
    }

  if (!file_map (file, allow_constant, error))
    {
      file_free (file);
      return NULL;
    }

  files = g_slist_prepend (files, file);

  /* Track all writable mappings of a file as the same memory. */
  if (found != NULL && !file->is_constant)
    {
      file->first = found->first != NULL ? found->first : found;
      file->first->n_users++;
    }

  return file;
}

/* All writable mappings of a file get the same id, the id of the first mapping, because they are
 * tracked as the same memory. If the first mapping begins at the start of the file, the id is its
 * address. Other memory objects at that address have the same id. Otherwise, the id is the address
 * of the GpuHostFile of the first mapping. A mapping of several files has an id of its own. */
void
_gpu_host_file_identify (GpuHostFile   *file,
                         gconstpointer  data,
                         GpuAliasKey   *alias_key)
{
  const GpuHostFile *first = file->first != NULL ? file->first : file;
  const gsize at = (gsize) ((const guint8 *) data - file->data);

  alias_key->id = first->pages->offset == 0 ? (guintptr) first->data : (guintptr) first;
  alias_key->offset = at + (file->n_pages == 1 ? file->pages->offset : 0);
}

static void
file_unuse_locked (GpuHostFile *file)
{
  if (--file->n_users > 0)
    return;

  if (file->first != NULL)
    file_unuse_locked (file->first);

  files = g_slist_remove (files, file);
  munmap (file->data, file->size);
  file_free (file);
}

void
_gpu_host_file_unuse (GpuHostFile *file)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&lock);

  file_unuse_locked (file);
}

static GpuNativeBuffer *
buffer_new (const Source  *source,
            gboolean       allow_constant,
            GError       **error)
{
  GpuHostFile *file = file_use (source, allow_constant, error);
  GpuNativeBuffer *buffer;
  Pages wanted;

  if (file == NULL)
    return NULL;

  /* The mapping may begin before the wanted pages. */
  pages_set (&wanted, source->parts);
  buffer = _gpu_host_buffer_new (file->data + (wanted.offset - file->pages->offset)
                                 + (source->parts->offset - wanted.offset), source->size,
                                 "shared");
  buffer->is_constant = file->is_constant;
  buffer->is_shareable = TRUE;
  ((GpuHostBuffer *) buffer)->file = file;

  return buffer;
}

GpuNativeBuffer *
_gpu_host_buffer_alloc_shared (gsize    size,
                               GError **error)
{
  const GpuHostPart part = { 0, size };
  GpuNativeBuffer *buffer;
  const char *function;
  int fd = _gpu_host_create_sealed_file (size, &function);
  const Source source = { &fd, &part, 1, size };

  if (fd < 0)
    {
      set_error (function, errno, size, error);
      return NULL;
    }

  buffer = buffer_new (&source, FALSE, error);
  g_close (fd, NULL);

  return buffer;
}

/* Adds the parts of the files of @file that contain @size bytes from @data on to @parts, and a
 * descriptor for each part to @fds. */
static gboolean
file_list_parts (const GpuHostFile  *file,
                 const guint8       *data,
                 gsize               size,
                 GArray             *parts,
                 GArray             *fds,
                 GError            **error)
{
  gsize skip = (gsize) (data - file->data);

  for (guint i = 0; size > 0; i++)
    {
      const Pages *pages = &file->pages[i];
      GpuHostPart part = { pages->offset + skip, 0 };
      int fd;

      if (skip >= pages->size)
        {
          skip -= pages->size;
          continue;
        }

      fd = _gpu_descriptor_duplicate (pages->fd, error);

      if (fd < 0)
        return FALSE;

      part.size = MIN (size, pages->size - skip);
      g_array_append_val (fds, fd);
      g_array_append_val (parts, part);
      size -= part.size;
      skip = 0;
    }

  return TRUE;
}

GBytes *
_gpu_host_buffer_export_fd (GpuNativeContext  *context G_GNUC_UNUSED,
                            GpuNativeBuffer   *buffer,
                            gsize              size,
                            GArray            *fds,
                            GError           **error)
{
  g_autoptr (GArray) parts = g_array_new (FALSE, FALSE, sizeof (GpuHostPart));
  GpuHostBuffer *self = (GpuHostBuffer *) buffer;
  GpuHostFile *file = self->root != NULL ? self->root->file : self->file;
  gboolean listed;

  if (self->root != NULL && self->root->range != NULL)
    {
      listed = _gpu_host_range_list_parts (self, size, parts, fds, error);
    }
  else if (file != NULL)
    {
      listed = file_list_parts (file, self->data, size, parts, fds, error);
    }
  else
    {
      g_set_error_literal (error, GPU_ERROR, GPU_ERROR_IPC, "host: the memory has no file");
      return NULL;
    }

  return listed ? g_bytes_new (parts->data, parts->len * sizeof (GpuHostPart)) : NULL;
}

static gboolean
is_sealed (int      fd,
           GError **error)
{
  int seals = fcntl (fd, F_GET_SEALS);

  if (seals >= 0 && (seals & F_SEAL_SHRINK) != 0)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_IPC,
               "host: the file behind descriptor %d can be truncated: it must be a memfd with "
               "F_SEAL_SHRINK", fd);

  return FALSE;
}

static gboolean
holds_part (int                 fd,
            const GpuHostPart  *part,
            GError            **error)
{
  struct stat status;

  if (fstat (fd, &status) == 0 && part->offset <= (guint64) status.st_size
      && part->size <= (guint64) status.st_size - part->offset)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_IPC,
               "host: the file behind descriptor %d does not contain %" G_GUINT64_FORMAT
               " bytes at offset %" G_GUINT64_FORMAT, fd, part->size, part->offset);

  return FALSE;
}

/* The size may come from another process, so it is checked before mmap(). */
static gboolean
check_size (GpuNativeContext  *context,
            gsize              size,
            GError           **error)
{
  guint64 largest = context->devices[0]->max_allocation;

  if (size <= largest)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_IPC,
               "host: %" G_GSIZE_FORMAT " bytes exceed the largest allocation, %" G_GUINT64_FORMAT
               " bytes", size, largest);

  return FALSE;
}

/* Memory of several parts is mapped without gaps, so only the first part may begin within a page,
 * and only the last part may end within one. */
static gboolean
check_parts (const Source  *source,
             GError       **error)
{
  const gsize page = (gsize) sysconf (_SC_PAGESIZE);
  gsize left = source->size;

  for (guint i = 0; i < source->n; i++)
    {
      const GpuHostPart *part = &source->parts[i];
      const gboolean is_last = i == source->n - 1;

      if (part->size == 0 || part->size > left || (is_last && part->size != left)
          || (i > 0 && part->offset % page != 0)
          || (!is_last && (part->offset % page + part->size % page) % page != 0))
        {
          g_set_error (error, GPU_ERROR, GPU_ERROR_IPC,
                       "host: part %u of %u has %" G_GUINT64_FORMAT " bytes at offset %"
                       G_GUINT64_FORMAT ", which do not fit the rest of %" G_GSIZE_FORMAT
                       " bytes and pages of %" G_GSIZE_FORMAT " bytes", i, source->n, part->size,
                       part->offset, left, page);
          return FALSE;
        }

      if (!is_sealed (source->fds[i], error) || !holds_part (source->fds[i], part, error))
        return FALSE;

      left -= part->size;
    }

  return TRUE;
}

static GpuNativeBuffer *
open_parts (GpuNativeContext  *context,
            const Source      *source,
            gboolean           allow_constant,
            GError           **error)
{
  if (!check_size (context, source->size, error) || !check_parts (source, error))
    return NULL;

  return buffer_new (source, allow_constant, error);
}

GpuNativeBuffer *
_gpu_host_buffer_import_fd (GpuNativeContext  *context,
                            GBytes            *handle,
                            const int         *fds,
                            guint              n_fds,
                            gsize              size,
                            GError           **error)
{
  const gsize n_bytes = g_bytes_get_size (handle);
  g_autofree GpuHostPart *parts = NULL;
  Source source = { fds, NULL, n_fds, size };

  if (n_bytes % sizeof *parts != 0 || n_bytes / sizeof *parts != n_fds)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_IPC,
                   "host: the handle has %" G_GSIZE_FORMAT " bytes, not %" G_GSIZE_FORMAT
                   " for each of %u file descriptors", n_bytes, sizeof *parts, n_fds);
      return NULL;
    }

  /* The bytes may not be aligned. */
  parts = g_memdup2 (g_bytes_get_data (handle, NULL), n_bytes);
  source.parts = parts;

  return open_parts (context, &source, FALSE, error);
}

GpuFdKinds
_gpu_host_buffer_get_fd_kinds (GpuNativeContext *context G_GNUC_UNUSED,
                               gboolean          import G_GNUC_UNUSED)
{
  return GPU_FD_KINDS_OPAQUE;
}

gboolean
_gpu_host_buffer_share_fd (GpuNativeContext  *context,
                           GpuNativeBuffer   *buffer,
                           GpuFdKinds         kind G_GNUC_UNUSED,
                           int               *fd,
                           gsize             *whole_size,
                           gsize             *offset,
                           GError           **error)
{
  g_autoptr (GArray) fds = _gpu_descriptors_new ();
  g_autoptr (GBytes) bytes = _gpu_host_buffer_export_fd (context, buffer, buffer->size, fds,
                                                         error);
  struct stat status;

  if (bytes == NULL)
    return FALSE;

  *fd = _gpu_descriptors_take_only (fds, buffer->size, error);

  if (*fd < 0)
    return FALSE;

  if (fstat (*fd, &status) != 0)
    {
      set_error ("fstat", errno, buffer->size, error);
      g_close (*fd, NULL);
      return FALSE;
    }

  *whole_size = (gsize) status.st_size;
  *offset = ((const GpuHostPart *) g_bytes_get_data (bytes, NULL))->offset;

  return TRUE;
}

GpuNativeBuffer *
_gpu_host_buffer_open_fd (GpuNativeContext  *context,
                          GpuFdKinds         kind G_GNUC_UNUSED,
                          int                fd,
                          gsize              whole_size G_GNUC_UNUSED,
                          gsize              offset,
                          gsize              size,
                          GError           **error)
{
  const GpuHostPart part = { offset, size };
  const Source source = { &fd, &part, 1, size };

  return open_parts (context, &source, TRUE, error);
}
