/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <errno.h>
#include <glib/gstdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gpumem/staging/gpu-transfer-file.h"

struct _GpuTransferFile
{
  gatomicrefcount  refs;
  int              fd;
  int              direct_fd;       /* -1 if all accesses use the page cache */
  char            *name;
};

GpuTransferFile *
_gpu_transfer_file_new (int         fd,
                        int         direct_fd,
                        const char *name)
{
  GpuTransferFile *file = g_new0 (GpuTransferFile, 1);

  g_atomic_ref_count_init (&file->refs);
  file->fd = fd;
  file->direct_fd = direct_fd;
  file->name = g_strdup (name);

  return file;
}

GpuTransferFile *
_gpu_transfer_file_ref (GpuTransferFile *file)
{
  g_atomic_ref_count_inc (&file->refs);

  return file;
}

void
_gpu_transfer_file_unref (GpuTransferFile *file)
{
  if (!g_atomic_ref_count_dec (&file->refs))
    return;

  g_close (file->fd, NULL);
  if (file->direct_fd >= 0)
    g_close (file->direct_fd, NULL);
  g_free (file->name);
  g_free (file);
}

gboolean
_gpu_transfer_file_is_parallel (GpuTransferFile *file,
                                gboolean         read)
{
  return read || file->direct_fd >= 0;
}

int
_gpu_transfer_file_get_fd (GpuTransferFile *file)
{
  return file->fd;
}

const char *
_gpu_transfer_file_get_name (GpuTransferFile *file)
{
  return file->name;
}

gboolean
_gpu_transfer_file_suits (GpuTransferFile *file,
                          guint64          position,
                          gconstpointer    data)
{
  return file->direct_fd < 0
         || ((position | (guintptr) data) & (GPU_TRANSFER_FILE_ALIGNMENT - 1)) == 0;
}

/* For a file with direct_fd. Returns the descriptor for the next system call, and reduces @size to
 * the bytes that the call may copy. The bytes behind the last aligned byte go through the page
 * cache. */
static int
choose_fd (GpuTransferFile *file,
           guint64          position,
           gconstpointer    data,
           gsize           *size)
{
  const gsize mask = GPU_TRANSFER_FILE_ALIGNMENT - 1;

  if (((position | (guintptr) data) & mask) != 0 || *size <= mask)
    return file->fd;

  *size &= ~mask;

  return file->direct_fd;
}

static void
set_errno_error (GpuTransferFile *file,
                 const char      *verb,
                 guint64          position,
                 int              code,
                 GError         **error)
{
  g_set_error (error, G_IO_ERROR, g_io_error_from_errno (code),
               "cannot %s %s at byte %" G_GUINT64_FORMAT ": %s", verb, file->name, position,
               g_strerror (code));
}

/* A read at @position has found the end of the file. Files of /proc have the size 0. */
static void
set_end_error (GpuTransferFile *file,
               guint64          position,
               GError         **error)
{
  struct stat status;

  if (fstat (file->fd, &status) == 0 && S_ISREG (status.st_mode) && status.st_size > 0)
    position = MIN (position, (guint64) status.st_size);

  g_set_error (error, G_IO_ERROR, G_IO_ERROR_PARTIAL_INPUT, "%s ends at byte %" G_GUINT64_FORMAT,
               file->name, position);
}

gboolean
_gpu_transfer_file_copy (GpuTransferFile  *file,
                         gboolean          read,
                         guint64           position,
                         guint8           *data,
                         gsize             size,
                         guint64          *failed_at,
                         GError          **error)
{
  gboolean direct = file->direct_fd >= 0;
  gsize done = 0;

  while (done < size)
    {
      gsize part = size - done;
      off_t at = (off_t) (position + done);
      int fd = direct ? choose_fd (file, position + done, data + done, &part) : file->fd;
      gssize n = read ? pread (fd, data + done, part, at) : pwrite (fd, data + done, part, at);

      if (n < 0 && errno == EINTR)
        continue;

      /* The file system or the device needs a larger alignment than GPU_TRANSFER_FILE_ALIGNMENT. */
      if (n < 0 && errno == EINVAL && fd != file->fd)
        {
          direct = FALSE;
          continue;
        }

      if (n <= 0)
        {
          *failed_at = position + done;
          if (n == 0 && read)
            set_end_error (file, position + done, error);
          else
            set_errno_error (file, read ? "read" : "write", position + done,
                             n < 0 ? errno : ENOSPC, error);
          return FALSE;
        }

      done += (gsize) n;
    }

  return TRUE;
}
