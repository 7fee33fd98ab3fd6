/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef __linux__
#include <linux/magic.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#endif

#include "gpumem/staging/gpu-transfer-private.h"

/* The smallest write that maps the file, in bytes; shorter ones take less time than a mapping */
#define MAPPED_MIN ((gsize) 256 * 1024)
/* The fewest threads for such writes: in one thread, pwrite() is about four times as fast. */
#define MAPPED_THREADS 6

struct _GpuTransferFile
{
  gatomicrefcount  refs;
  int              fd;
  gboolean         is_mappable;     /* whether writes may map the file */
  int              direct_fd;       /* -1 if all accesses use the page cache */
  char            *name;
};

/* --- writes to files in memory ---------------------------------------------------------------- */

/* Returns whether writes may map the file: only files of tmpfs. Other file systems must prepare a
 * page before it is written, and copy_to_pages() does not ensure that. Containers may not allow
 * process_vm_writev(). */
static gboolean
is_mappable (int fd G_GNUC_UNUSED)
{
#ifdef __linux__
  const int flags = fcntl (fd, F_GETFL);
  struct statfs system;
  struct stat status;

  return flags >= 0 && (flags & O_ACCMODE) == O_RDWR && (flags & O_APPEND) == 0
         && fstat (fd, &status) == 0 && S_ISREG (status.st_mode)
         && fstatfs (fd, &system) == 0 && system.f_type == TMPFS_MAGIC
         && process_vm_writev (getpid (), NULL, 0, NULL, 0, 0) == 0;
#else
  return FALSE;
#endif
}

/* Copies like memcpy(), but returns the number of copied bytes if a page of @to does not exist, or
 * -1. */
static gssize
copy_to_pages (guint8       *to G_GNUC_UNUSED,
               const guint8 *from G_GNUC_UNUSED,
               gsize         size G_GNUC_UNUSED)
{
#ifdef __linux__
  const struct iovec local = { (void *) from, size };
  const struct iovec remote = { to, size };

  return process_vm_writev (getpid (), &local, 1, &remote, 1, 0);
#else
  return -1;
#endif
}

gboolean
_gpu_transfer_file_map (GpuTransferFile *file,
                        guint64          position,
                        gsize            size,
                        GpuTransferMap  *map)
{
  const guint64 begin = position - position % (guint64) sysconf (_SC_PAGESIZE);
  struct stat status;
  gpointer data;

  if (size < MAPPED_MIN || !file->is_mappable
      || _gpu_transfer_get_n_threads (TRUE) < MAPPED_THREADS
      || fstat (file->fd, &status) != 0 || status.st_size < 0
      || (guint64) status.st_size < position + size)
    return FALSE;

  map->size = size + (gsize) (position - begin);
  data = mmap (NULL, map->size, PROT_READ | PROT_WRITE, MAP_SHARED, file->fd, (off_t) begin);

  if (data == MAP_FAILED)
    return FALSE;

#ifdef MADV_DONTFORK
  madvise (data, map->size, MADV_DONTFORK);
#endif
  map->data = data;
  map->position = begin;

  return TRUE;
}

void
_gpu_transfer_map_clear (GpuTransferMap *map)
{
  if (map->data != NULL)
    munmap (map->data, map->size);

  map->data = NULL;
}

/* Copies to the pages of the file, without the kernel's lock of the file. If another process
 * truncates the file meanwhile, or no page is left, the kernel copies less, where an access of the
 * mapping by the processor would end the process. Returns the number of bytes, which may be 0.
 * Always leaves a page to pwrite(), which updates the time of the file. */
static gsize
write_mapped (const GpuTransferMap *map,
              guint64               position,
              const guint8         *data,
              gsize                 size)
{
  const gsize page = (gsize) sysconf (_SC_PAGESIZE);
  gssize n;

  if (map == NULL || map->data == NULL || size <= page)
    return 0;

  n = copy_to_pages (map->data + (position - map->position), data, size - page);

  return n > 0 ? (gsize) n : 0;
}

/* --- files ------------------------------------------------------------------------------------ */

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
  file->is_mappable = is_mappable (fd);

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

/* A read at @position has found the end of the file before @end. Files of /proc have the size 0. */
static void
set_end_error (GpuTransferFile *file,
               guint64          position,
               guint64          end,
               GError         **error)
{
  struct stat status;

  if (fstat (file->fd, &status) == 0 && S_ISREG (status.st_mode) && status.st_size > 0)
    position = MIN (position, (guint64) status.st_size);

  g_set_error (error, G_IO_ERROR, G_IO_ERROR_PARTIAL_INPUT, "%s ends at byte %" G_GUINT64_FORMAT
               ", before the end of the copy at byte %" G_GUINT64_FORMAT, file->name, position,
               end);
}

/* Writes some bytes, like pwrite(). */
static gssize
write_part (int                   fd,
            const GpuTransferMap *map,
            off_t                 position,
            const guint8         *data,
            gsize                 size)
{
  const gsize n = write_mapped (map, (guint64) position, data, size);

  return n > 0 ? (gssize) n : pwrite (fd, data, size, position);
}

gboolean
_gpu_transfer_file_copy (GpuTransferFile       *file,
                         const GpuTransferMap  *map,
                         gboolean               read,
                         guint64                position,
                         guint8                *data,
                         gsize                  size,
                         guint64                end,
                         guint64               *failed_at,
                         GError               **error)
{
  gboolean direct = file->direct_fd >= 0;
  gsize done = 0;

  while (done < size)
    {
      gsize part = size - done;
      off_t at = (off_t) (position + done);
      int fd = direct ? choose_fd (file, position + done, data + done, &part) : file->fd;
      gssize n = read ? pread (fd, data + done, part, at)
                      : write_part (fd, map, at, data + done, part);

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
            set_end_error (file, position + done, end, error);
          else
            set_errno_error (file, read ? "read" : "write", position + done,
                             n < 0 ? errno : ENOSPC, error);
          return FALSE;
        }

      done += (gsize) n;
    }

  return TRUE;
}
