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

/* The handle of exported memory. */
typedef struct
{
  guint64 offset;                   /* of the buffer in the file */
} GpuHostHandle;

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

/* A mapping of some pages of a file, shared by all buffers in its range. */
struct _GpuHostFile
{
  guint        n_users;             /* protected by lock, like the list */
  dev_t        device;
  ino_t        inode;
  int          fd;
  guint64      offset;              /* of the first page in the file */
  guint8      *data;
  gsize        size;
  gboolean     is_constant;         /* read-only, and not shared by other buffers */
  GpuHostFile *first;               /* the first mapping of the same file, or NULL if this is the
                                     * first; `n_users` of the first mapping includes this one */
};

static GMutex lock;
static GSList *files;

/* Sets `offset` and `size` of @file to the whole pages that contain the given range. The caller has
 * checked that the file contains this range. */
static void
file_set_pages (GpuHostFile *file,
                guint64      offset,
                gsize        size)
{
  gsize page = (gsize) sysconf (_SC_PAGESIZE);
  gsize lead = offset % page;

  file->offset = offset - lead;
  file->size = (lead + size + page - 1) / page * page;
}

static gpointer
map_pages (const GpuHostFile *file,
           int                protection,
           int                flags)
{
  return mmap (NULL, file->size, protection, flags, file->fd, (off_t) file->offset);
}

/* Falls back to a private mapping: older versions of Linux refuse shared mappings of a file that is
 * sealed against writing. */
static gpointer
map_constant (const GpuHostFile *file)
{
  gpointer data = map_pages (file, PROT_READ, MAP_SHARED);

  return data != MAP_FAILED || errno != EPERM ? data : map_pages (file, PROT_READ, MAP_PRIVATE);
}

static GpuHostFile *
file_map_locked (int                 fd,
                 const struct stat  *status,
                 guint64             offset,
                 gsize               size,
                 gboolean            allow_constant,
                 GError            **error)
{
  GpuHostFile *file = g_new0 (GpuHostFile, 1);
  gpointer data;

  file->n_users = 1;
  file->device = status->st_dev;
  file->inode = status->st_ino;
  file->fd = fd;
  file_set_pages (file, offset, size);
  data = map_pages (file, PROT_READ | PROT_WRITE, MAP_SHARED);

  if (data == MAP_FAILED && allow_constant && (errno == EPERM || errno == EACCES))
    {
      data = map_constant (file);
      file->is_constant = TRUE;
    }

  if (data == MAP_FAILED)
    {
      set_error ("mmap", errno, file->size, error);
      g_free (file);
      return NULL;
    }

  file->data = data;

  return file;
}

static gboolean
file_covers (const GpuHostFile *file,
             guint64            offset,
             gsize              size)
{
  return offset >= file->offset && size <= file->size
         && offset - file->offset <= file->size - size;
}

/* Returns a mapping that covers the range. If there is none, returns any other mapping of the file,
 * or NULL if the file has no mapping. */
static GpuHostFile *
find_locked (const struct stat *status,
             guint64            offset,
             gsize              size)
{
  GpuHostFile *other = NULL;

  for (GSList *l = files; l != NULL; l = l->next)
    {
      GpuHostFile *file = l->data;

      if (file->is_constant || file->device != status->st_dev || file->inode != status->st_ino)
        continue;

      if (file_covers (file, offset, size))
        return file;

      other = file;
    }

  return other;
}

/* The caller has checked that the file contains the range. Takes ownership of @fd on success. */
static GpuHostFile *
file_use_locked (int        fd,
                 guint64    offset,
                 gsize      size,
                 gboolean   allow_constant,
                 GError   **error)
{
  struct stat status;
  GpuHostFile *found;
  GpuHostFile *file;

  if (fstat (fd, &status) != 0)
    {
      set_error ("fstat", errno, size, error);
      return NULL;
    }

  found = find_locked (&status, offset, size);

  if (found != NULL && file_covers (found, offset, size))
    {
      g_close (fd, NULL);
      found->n_users++;
      return found;
    }

  file = file_map_locked (fd, &status, offset, size, allow_constant, error);

  if (file == NULL)
    return NULL;

  files = g_slist_prepend (files, file);

  /* Track all writable mappings of a file as the same memory. */
  if (found != NULL && !file->is_constant)
    {
      file->first = found->first != NULL ? found->first : found;
      file->first->n_users++;
    }

  return file;
}

/* Takes ownership of @fd. */
static GpuHostFile *
file_use (int        fd,
          guint64    offset,
          gsize      size,
          gboolean   allow_constant,
          GError   **error)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&lock);
  GpuHostFile *file = file_use_locked (fd, offset, size, allow_constant, error);

  if (file == NULL)
    g_close (fd, NULL);

  return file;
}

/* All writable mappings of a file get the same id, the id of the first mapping, because they are
 * tracked as the same memory. If the first mapping begins at the start of the file, the id is its
 * address. Other memory objects at that address have the same id. Otherwise, the id is the address
 * of the GpuHostFile of the first mapping. */
void
_gpu_host_file_identify (GpuHostFile   *file,
                         gconstpointer  data,
                         GpuAliasKey   *alias_key)
{
  const GpuHostFile *first = file->first != NULL ? file->first : file;

  alias_key->id = first->offset == 0 ? (guintptr) first->data : (guintptr) first;
  alias_key->offset = file->offset + (gsize) ((const guint8 *) data - file->data);
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
  g_close (file->fd, NULL);
  g_free (file);
}

void
_gpu_host_file_unuse (GpuHostFile *file)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&lock);

  file_unuse_locked (file);
}

/* Takes ownership of @fd. */
static GpuNativeBuffer *
buffer_new (int        fd,
            guint64    offset,
            gsize      size,
            gboolean   allow_constant,
            GError   **error)
{
  GpuHostFile *file = file_use (fd, offset, size, allow_constant, error);
  GpuNativeBuffer *buffer;

  if (file == NULL)
    return NULL;

  buffer = _gpu_host_buffer_new (file->data + (offset - file->offset), size, "shared");
  buffer->is_constant = file->is_constant;
  buffer->is_shareable = TRUE;
  ((GpuHostBuffer *) buffer)->file = file;

  return buffer;
}

GpuNativeBuffer *
_gpu_host_buffer_alloc_shared (gsize    size,
                               GError **error)
{
  int fd = memfd_create ("gpumem", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  const char *failed = NULL;

  if (fd < 0)
    {
      set_error ("memfd_create", errno, size, error);
      return NULL;
    }

  /* The seals prevent a process that receives the file from truncating the memory of the other
   * processes. */
  if (ftruncate (fd, size) != 0)
    failed = "ftruncate";
  else if (fcntl (fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    failed = "fcntl (F_ADD_SEALS)";

  if (failed != NULL)
    {
      set_error (failed, errno, size, error);
      g_close (fd, NULL);
      return NULL;
    }

  return buffer_new (fd, 0, size, FALSE, error);
}

GBytes *
_gpu_host_buffer_export_fd (GpuNativeContext  *context G_GNUC_UNUSED,
                            GpuNativeBuffer   *buffer,
                            int               *fd,
                            GError           **error)
{
  GpuHostBuffer *self = (GpuHostBuffer *) buffer;
  GpuHostFile *file = self->root != NULL ? self->root->file : self->file;
  GpuHostHandle handle = { 0 };

  if (file == NULL)
    {
      g_set_error_literal (error, GPU_ERROR, GPU_ERROR_IPC, "host: the memory has no file");
      return NULL;
    }

  *fd = _gpu_descriptor_duplicate (file->fd, error);

  if (*fd < 0)
    return NULL;

  handle.offset = file->offset + (guint64) (self->data - file->data);

  return g_bytes_new (&handle, sizeof handle);
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
holds_range (int      fd,
             guint64  offset,
             gsize    size,
             GError **error)
{
  struct stat status;

  if (fstat (fd, &status) == 0 && offset <= (guint64) status.st_size
      && size <= (guint64) status.st_size - offset)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_IPC,
               "host: the file behind descriptor %d does not contain %" G_GSIZE_FORMAT
               " bytes at offset %" G_GUINT64_FORMAT, fd, size, offset);

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

static GpuNativeBuffer *
open_range (GpuNativeContext  *context,
            int                fd,
            guint64            offset,
            gsize              size,
            gboolean           allow_constant,
            GError           **error)
{
  int own;

  if (!check_size (context, size, error) || !is_sealed (fd, error)
      || !holds_range (fd, offset, size, error))
    return NULL;

  own = _gpu_descriptor_duplicate (fd, error);

  if (own < 0)
    return NULL;

  return buffer_new (own, offset, size, allow_constant, error);
}

GpuNativeBuffer *
_gpu_host_buffer_import_fd (GpuNativeContext  *context,
                            GBytes            *handle,
                            int                fd,
                            gsize              size,
                            GError           **error)
{
  GpuHostHandle given;

  if (g_bytes_get_size (handle) != sizeof given)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_IPC,
                   "host: the handle has %" G_GSIZE_FORMAT " bytes, not %" G_GSIZE_FORMAT,
                   g_bytes_get_size (handle), sizeof given);
      return NULL;
    }

  memcpy (&given, g_bytes_get_data (handle, NULL), sizeof given);

  return open_range (context, fd, given.offset, size, FALSE, error);
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
  g_autoptr (GBytes) bytes = _gpu_host_buffer_export_fd (context, buffer, fd, error);
  GpuHostHandle handle;
  struct stat status;

  if (bytes == NULL)
    return FALSE;

  if (fstat (*fd, &status) != 0)
    {
      set_error ("fstat", errno, buffer->size, error);
      g_close (*fd, NULL);
      return FALSE;
    }

  memcpy (&handle, g_bytes_get_data (bytes, NULL), sizeof handle);
  *whole_size = (gsize) status.st_size;
  *offset = handle.offset;

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
  return open_range (context, fd, offset, size, TRUE, error);
}
