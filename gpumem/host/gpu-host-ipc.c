/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Memory for several processes: files without a name that all of them map. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <glib/gstdio.h>

#include "gpumem/host/gpu-host.h"

/* Where in the file a buffer begins. */
typedef struct
{
  guint64 offset;
} GpuHostHandle;

/* What may not be mapped is no memory of ours. */
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

/* A file that is mapped, once however often it is imported, unless it has grown since. */
struct _GpuHostFile
{
  guint        n_users;             /* guarded by the lock, as is the list */
  dev_t        device;
  ino_t        inode;
  int          fd;
  guint8      *data;
  gsize        size;
  gboolean     is_constant;         /* mapped to be read, and for one buffer alone */
  GpuHostFile *smaller;             /* nullable, with a use: the first mapping of the same file */
};

static GMutex lock;
static GSList *files;

/* Where nobody may write, a file that is sealed against that has no shared mapping either. */
static gpointer
map_constant (int   fd,
              gsize size)
{
  gpointer data = mmap (NULL, size, PROT_READ, MAP_SHARED, fd, 0);

  return data != MAP_FAILED || errno != EPERM ? data
                                              : mmap (NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
}

static GpuHostFile *
file_map_locked (int                 fd,
                 const struct stat  *status,
                 gboolean            allow_constant,
                 GError            **error)
{
  gboolean is_constant = FALSE;
  GpuHostFile *file;
  gpointer data = mmap (NULL, status->st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

  if (data == MAP_FAILED && allow_constant && (errno == EPERM || errno == EACCES))
    {
      data = map_constant (fd, status->st_size);
      is_constant = TRUE;
    }

  if (data == MAP_FAILED)
    {
      set_error ("mmap", errno, status->st_size, error);
      return NULL;
    }

  file = g_new0 (GpuHostFile, 1);
  file->device = status->st_dev;
  file->inode = status->st_ino;
  file->fd = fd;
  file->data = data;
  file->size = status->st_size;
  file->is_constant = is_constant;

  return file;
}

/* The mapping of @end bytes of the file, or else the newest one of fewer. */
static GpuHostFile *
find_locked (const struct stat *status,
             gsize              end)
{
  GpuHostFile *smaller = NULL;

  for (GSList *l = files; l != NULL; l = l->next)
    {
      GpuHostFile *file = l->data;

      if (file->is_constant || file->device != status->st_dev || file->inode != status->st_ino)
        continue;

      if (file->size >= end)
        return file;

      if (smaller == NULL)
        smaller = file;
    }

  return smaller;
}

/* @end bytes of it are there. Takes @fd over, but not if it fails. */
static GpuHostFile *
file_use_locked (int        fd,
                 gsize      end,
                 gboolean   allow_constant,
                 GError   **error)
{
  struct stat status;
  GpuHostFile *found;
  GpuHostFile *file;

  if (fstat (fd, &status) != 0)
    {
      set_error ("fstat", errno, 0, error);
      return NULL;
    }

  found = find_locked (&status, end);

  if (found != NULL && found->size >= end)
    {
      g_close (fd, NULL);
      found->n_users++;
      return found;
    }

  file = file_map_locked (fd, &status, allow_constant, error);

  if (file == NULL)
    return NULL;

  file->n_users = 1;
  files = g_slist_prepend (files, file);

  /* Both are tracked as one. */
  if (found != NULL && !file->is_constant)
    {
      file->smaller = found->smaller != NULL ? found->smaller : found;
      file->smaller->n_users++;
    }

  return file;
}

/* Takes @fd over. */
static GpuHostFile *
file_use (int        fd,
          gsize      end,
          gboolean   allow_constant,
          GError   **error)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&lock);
  GpuHostFile *file = file_use_locked (fd, end, allow_constant, error);

  if (file == NULL)
    g_close (fd, NULL);

  return file;
}

void
_gpu_host_file_identify (GpuHostFile   *file,
                         gconstpointer  data,
                         GpuAliasKey   *alias_key)
{
  const GpuHostFile *first = file->smaller != NULL ? file->smaller : file;

  alias_key->id = (guintptr) first->data;
  alias_key->offset = (gsize) ((const guint8 *) data - file->data);
}

static void
file_unuse_locked (GpuHostFile *file)
{
  if (--file->n_users > 0)
    return;

  if (file->smaller != NULL)
    file_unuse_locked (file->smaller);

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

/* Takes @fd over. */
static GpuNativeBuffer *
buffer_new (int        fd,
            gsize      offset,
            gsize      size,
            gboolean   allow_constant,
            GError   **error)
{
  GpuHostFile *file = file_use (fd, offset + size, allow_constant, error);
  GpuNativeBuffer *buffer;

  if (file == NULL)
    return NULL;

  buffer = _gpu_host_buffer_new (file->data + offset, size, "shared");
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

  if (fd < 0)
    {
      set_error ("memfd_create", errno, size, error);
      return NULL;
    }

  /* Nobody who gets it can take the memory away from under the others. */
  if (ftruncate (fd, size) != 0
      || fcntl (fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    {
      set_error ("ftruncate", errno, size, error);
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

  *fd = fcntl (file->fd, F_DUPFD_CLOEXEC, 3);

  if (*fd < 0)
    {
      set_error ("fcntl", errno, buffer->size, error);
      return NULL;
    }

  handle.offset = self->data - file->data;

  return g_bytes_new (&handle, sizeof handle);
}

/* The file must hold the range, and be sealed so that it goes on to. */
static gboolean
check_file (int      fd,
            guint64  offset,
            gsize    size,
            GError **error)
{
  int seals = fcntl (fd, F_GET_SEALS);
  struct stat status;

  if (seals >= 0 && (seals & F_SEAL_SHRINK) != 0 && fstat (fd, &status) == 0
      && offset <= (guint64) status.st_size && size <= (guint64) status.st_size - offset)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_IPC,
               "host: the file does not hold %" G_GSIZE_FORMAT " bytes at %" G_GUINT64_FORMAT
               ", or not for good", size, offset);

  return FALSE;
}

static GpuNativeBuffer *
open_range (int        fd,
            guint64    offset,
            gsize      size,
            gboolean   allow_constant,
            GError   **error)
{
  int own;

  if (!check_file (fd, offset, size, error))
    return NULL;

  own = fcntl (fd, F_DUPFD_CLOEXEC, 3);

  if (own < 0)
    {
      set_error ("fcntl", errno, size, error);
      return NULL;
    }

  return buffer_new (own, offset, size, allow_constant, error);
}

GpuNativeBuffer *
_gpu_host_buffer_import_fd (GpuNativeContext  *context G_GNUC_UNUSED,
                            GBytes            *handle,
                            int                fd,
                            gsize              size,
                            GError           **error)
{
  GpuHostHandle given;

  if (g_bytes_get_size (handle) != sizeof given)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_IPC, "host: %" G_GSIZE_FORMAT " bytes are no handle",
                   g_bytes_get_size (handle));
      return NULL;
    }

  memcpy (&given, g_bytes_get_data (handle, NULL), sizeof given);

  return open_range (fd, given.offset, size, FALSE, error);
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
  GpuHostBuffer *self = (GpuHostBuffer *) buffer;
  GpuHostFile *file = self->root != NULL ? self->root->file : self->file;

  if (bytes == NULL)
    return FALSE;

  *whole_size = file->size;
  *offset = self->data - file->data;

  return TRUE;
}

GpuNativeBuffer *
_gpu_host_buffer_open_fd (GpuNativeContext  *context G_GNUC_UNUSED,
                          GpuFdKinds         kind G_GNUC_UNUSED,
                          int                fd,
                          gsize              whole_size G_GNUC_UNUSED,
                          gsize              offset,
                          gsize              size,
                          GError           **error)
{
  return open_range (fd, offset, size, TRUE, error);
}
