/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gpumem/base/gpu-descriptor-private.h"
#include "gpumem/base/gpu-enumtypes.h"
#include "gpumem/base/gpu-error.h"
#include "gpumem/base/gpu-nick-private.h"
#include "gpumem/io/gpu-file-private.h"

/**
 * SECTION:gpu-file
 * @title: GpuFile
 * @short_description: copies between files and memory of the device
 * @see_also: #GpuInputStream, #GpuOutputStream
 */

/**
 * GpuFile:
 *
 * An open file. gpu_stream_read_file() and gpu_stream_write_file() copy between files and memory.
 *
 * |[<!-- language="C" -->
 * g_autoptr (GFile) path = g_file_new_for_path ("weights.bin");
 * g_autoptr (GpuFile) file = gpu_file_open (path, GPU_FILE_FLAGS_READ, &error);
 *
 * if (file == NULL
 *     || !gpu_memory_read_file (GPU_MEMORY (buffer), NULL, 0, file, 0, size, NULL, &error))
 *   g_error ("%s", error->message);
 * ]|
 *
 * Several threads read from the file, or write to it, directly in the page-locked memory of the
 * context (see gpu_context_set_staging_limit()), while the device transfers other parts. So a copy
 * of any size needs little memory of the host.
 *
 * gpu_stream_read_file() and gpu_stream_write_file() copy in the order of a stream, and return at
 * once. gpu_memory_read_file() and gpu_memory_write_file() also wait until the copy has completed.
 * gpu_memory_read_file_async() and gpu_memory_write_file_async() report the progress and the end of
 * the copy. All of them can be cancelled.
 *
 * If the file fails, the error has the domain %G_IO_ERROR and names the position in the file. All
 * bytes before this position are copied: for a read, they are in the memory, for a write, they are
 * in the file. The contents behind this position are undefined. A file that ends too early is
 * %G_IO_ERROR_PARTIAL_INPUT. A full disk is %G_IO_ERROR_NO_SPACE.
 *
 * After a file has failed in a read, calls that read the memory fail with the error of the file,
 * because the last write of the memory failed. To use the bytes before the position, write the
 * bytes behind it first, for example with gpu_stream_fill().
 *
 * The file must support positions: regular files and block devices do, pipes and sockets do not.
 * For those, see #GpuInputStream and #GpuOutputStream. The functions do not use the current
 * position of the descriptor. They do not flush data to the disk: use fsync() if a crash of the
 * system must not lose data. The library closes a descriptor of its own for the file, which
 * releases the locks that the process has on the file with fcntl().
 *
 * Any thread may use a #GpuFile. Copies in flight keep the file open.
 *
 * Since: 0.1
 */
struct _GpuFile
{
  GObject          parent_instance;
  GpuTransferFile *core;            /* NULL in an object that no constructor of the class made */
  GpuFileFlags     flags;
};

G_DEFINE_FINAL_TYPE (GpuFile, gpu_file, G_TYPE_OBJECT)

/* The flags of a descriptor that another descriptor for the same file must have */
#define KEPT_MODE (O_ACCMODE | O_SYNC | O_DSYNC)

enum
{
  PROP_0,
  PROP_FLAGS,
  N_PROPS
};

static GParamSpec *props[N_PROPS];

static void
gpu_file_finalize (GObject *object)
{
  g_clear_pointer (&GPU_FILE (object)->core, _gpu_transfer_file_unref);
  G_OBJECT_CLASS (gpu_file_parent_class)->finalize (object);
}

static void
gpu_file_get_property (GObject    *object,
                       guint       id,
                       GValue     *value,
                       GParamSpec *pspec)
{
  switch (id)
    {
    case PROP_FLAGS:
      g_value_set_flags (value, GPU_FILE (object)->flags);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
gpu_file_class_init (GpuFileClass *class)
{
  GObjectClass *object_class = G_OBJECT_CLASS (class);

  object_class->finalize = gpu_file_finalize;
  object_class->get_property = gpu_file_get_property;

  /**
   * GpuFile:flags:
   *
   * The access that the file allows, and %GPU_FILE_FLAGS_DIRECT if copies bypass the page cache.
   *
   * Since: 0.1
   */
  props[PROP_FLAGS] = g_param_spec_flags ("flags", NULL, NULL, GPU_TYPE_FILE_FLAGS,
                                          GPU_FILE_FLAGS_NONE,
                                          G_PARAM_READABLE | G_PARAM_STATIC_STRINGS);
  g_object_class_install_properties (object_class, N_PROPS, props);
}

static void
gpu_file_init (GpuFile *file G_GNUC_UNUSED)
{
}

static gboolean
check_open (GpuFile     *file,
            const char  *function,
            GError     **error)
{
  if (file->core != NULL)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s: the GpuFile is not open; create it with gpu_file_open() or "
               "gpu_file_new_for_fd()", function);

  return FALSE;
}

GpuTransferFile *
_gpu_file_peek_core (GpuFile     *file,
                     gboolean     read,
                     const char  *function,
                     GError     **error)
{
  if (!check_open (file, function, error))
    return NULL;

  if ((file->flags & (read ? GPU_FILE_FLAGS_READ : GPU_FILE_FLAGS_WRITE)) != 0)
    return file->core;

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT, "%s: %s is not open for %s", function,
               _gpu_transfer_file_get_name (file->core), read ? "reading" : "writing");

  return NULL;
}

static void
set_wrong_type (const char  *function,
                const char  *name,
                GError     **error)
{
  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s: %s is not a regular file or a block device; to read from a pipe or a socket, "
               "use a GpuOutputStream over the memory, and to write to it, a GpuInputStream",
               function, name);
}

static gboolean
check_type (int          fd,
            const char  *function,
            const char  *name,
            GError     **error)
{
  struct stat status;

  if (fstat (fd, &status) == 0 && !S_ISDIR (status.st_mode) && lseek (fd, 0, SEEK_CUR) >= 0)
    return TRUE;

  set_wrong_type (function, name, error);

  return FALSE;
}

/* Takes ownership of @fd. @mode has the access mode of open(), and flags. The file may lack support
 * for direct access: then all copies use the page cache. */
static GpuFile *
file_new (int          fd,
          int          mode,
          gboolean     direct,
          const char  *function,
          const char  *name,
          GError     **error)
{
  g_autofree char *path = g_strdup_printf ("/proc/self/fd/%d", fd);
  int access = mode & O_ACCMODE;
  int direct_fd = -1;
  GpuFile *file;

  if (!check_type (fd, function, name, error))
    {
      g_close (fd, NULL);
      return NULL;
    }

  if (direct)
    direct_fd = open (path, (mode & KEPT_MODE) | O_DIRECT | O_CLOEXEC);

  file = g_object_new (GPU_TYPE_FILE, NULL);
  file->core = _gpu_transfer_file_new (fd, direct_fd, name);
  file->flags = access == O_RDONLY ? GPU_FILE_FLAGS_READ
                : access == O_WRONLY ? GPU_FILE_FLAGS_WRITE
                : GPU_FILE_FLAGS_READ | GPU_FILE_FLAGS_WRITE;
  if (direct_fd >= 0)
    file->flags |= GPU_FILE_FLAGS_DIRECT;

  return file;
}

static gboolean
check_flags (GpuFileFlags   flags,
             GpuFileFlags   allowed,
             gboolean       valid,
             const char    *rule,
             const char    *function,
             GError       **error)
{
  g_autofree char *text = NULL;

  if (valid && (flags & ~allowed) == 0)
    return TRUE;

  text = _gpu_flags_get_nicks (GPU_TYPE_FILE_FLAGS, flags);
  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s: cannot open a file with flags %s: %s", function, text, rule);

  return FALSE;
}

/* Sets the error of a failed open(). open() fails with ENXIO for a socket, and for a pipe without a
 * reader. */
static void
set_not_opened (int          code,
                const char  *path,
                const char  *name,
                const char  *function,
                GError     **error)
{
  struct stat status;

  if (code == ENXIO && stat (path, &status) == 0
      && (S_ISFIFO (status.st_mode) || S_ISSOCK (status.st_mode)))
    set_wrong_type (function, name, error);
  else
    g_set_error (error, G_IO_ERROR, g_io_error_from_errno (code), "%s: cannot open %s: %s",
                 function, name, g_strerror (code));
}

/**
 * gpu_file_open:
 * @file: a local file
 * @flags: %GPU_FILE_FLAGS_READ, %GPU_FILE_FLAGS_WRITE or both, and options
 * @error: return location for an error
 *
 * Opens a file. May block.
 *
 * Returns: (transfer full): the open file, or %NULL with %GPU_ERROR_INVALID_ARGUMENT for flags
 *   without an access, %GPU_FILE_FLAGS_CREATE without %GPU_FILE_FLAGS_WRITE, a file without a local
 *   path, a directory that is opened for reading, a pipe or a socket; or an error of the domain
 *   %G_IO_ERROR, such as %G_IO_ERROR_NOT_FOUND
 *
 * Since: 0.1
 */
GpuFile *
gpu_file_open (GFile         *file,
               GpuFileFlags   flags,
               GError       **error)
{
  const char *function = "gpu_file_open";
  const GpuFileFlags both = GPU_FILE_FLAGS_READ | GPU_FILE_FLAGS_WRITE;
  gboolean creates = (flags & GPU_FILE_FLAGS_CREATE) != 0;
  g_autofree char *path = NULL;
  g_autofree char *name = NULL;
  int access;
  int fd;

  g_return_val_if_fail (G_IS_FILE (file), NULL);

  if (!check_flags (flags, both | GPU_FILE_FLAGS_CREATE | GPU_FILE_FLAGS_DIRECT,
                    (flags & both) != 0 && (!creates || (flags & GPU_FILE_FLAGS_WRITE) != 0),
                    "read or write is required, and create requires write", function, error))
    return NULL;

  path = g_file_get_path (file);

  if (path == NULL)
    {
      g_autofree char *uri = g_file_get_uri (file);

      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT, "%s: %s has no local path",
                   function, uri);
      return NULL;
    }

  name = g_filename_display_name (path);
  access = (flags & both) == both ? O_RDWR : (flags & both) == GPU_FILE_FLAGS_READ ? O_RDONLY
                                                                                   : O_WRONLY;
  /* O_NOCTTY: a terminal must not become the controlling terminal of the process. */
  fd = g_open (path, access | O_CLOEXEC | O_NONBLOCK | O_NOCTTY
                     | (creates ? O_CREAT | O_TRUNC : 0), 0666);

  if (fd < 0)
    {
      set_not_opened (errno, path, name, function, error);
      return NULL;
    }

  return file_new (fd, access, (flags & GPU_FILE_FLAGS_DIRECT) != 0, function, name, error);
}

/* The copy uses the page cache, because not all parts of a file can be accessed without it. */
static int
duplicate (int      fd,
           int      mode,
           GError **error)
{
  g_autofree char *path = g_strdup_printf ("/proc/self/fd/%d", fd);
  int copy = (mode & O_DIRECT) != 0 ? open (path, (mode & KEPT_MODE) | O_CLOEXEC) : -1;

  return copy >= 0 ? copy : _gpu_descriptor_duplicate (fd, error);
}

/* Returns the name of the file for messages: the path under which it was opened, as far as the
 * system knows it, and the descriptor. */
static char *
get_name (int fd)
{
  g_autofree char *link = g_strdup_printf ("/proc/self/fd/%d", fd);
  g_autofree char *path = g_file_read_link (link, NULL);
  g_autofree char *name = path != NULL ? g_filename_display_name (path) : NULL;

  return path != NULL && g_path_is_absolute (path)
         ? g_strdup_printf ("%s (descriptor %d)", name, fd)
         : g_strdup_printf ("the file with descriptor %d", fd);
}

/* @mode has the flags of the descriptor, or is negative if it is not open. */
static gboolean
check_mode (int          fd,
            int          mode,
            const char  *function,
            GError     **error)
{
  const char *reason = mode < 0 ? "is not open"
                       : (mode & O_PATH) != 0
                         ? "is open with O_PATH, and can neither read nor write"
                       : (mode & O_APPEND) != 0
                         ? "is open for appending, and cannot write at a position"
                       : NULL;

  if (reason == NULL)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT, "%s: file descriptor %d %s", function,
               fd, reason);

  return FALSE;
}

/**
 * gpu_file_new_for_fd: (constructor)
 * @fd: the descriptor of an open file
 * @flags: %GPU_FILE_FLAGS_NONE or %GPU_FILE_FLAGS_DIRECT
 * @error: return location for an error
 *
 * Creates a #GpuFile for a file that the program has opened. Duplicates @fd, so the program may
 * close it at any time. The access is that of @fd.
 *
 * Returns: (transfer full): the open file, or %NULL with %GPU_ERROR_INVALID_ARGUMENT for other
 *   flags, a descriptor that is not open or is open for appending or with O_PATH, a directory, a
 *   pipe or a socket; or %GPU_ERROR_FAILED if the process has too many open files
 *
 * Since: 0.1
 */
GpuFile *
gpu_file_new_for_fd (int            fd,
                     GpuFileFlags   flags,
                     GError       **error)
{
  const char *function = "gpu_file_new_for_fd";
  g_autofree char *name = get_name (fd);
  int mode = fd < 0 ? -1 : fcntl (fd, F_GETFL);
  int copy;

  if (!check_flags (flags, GPU_FILE_FLAGS_DIRECT, TRUE,
                    "only direct is possible, because the access is that of the descriptor",
                    function, error)
      || !check_mode (fd, mode, function, error))
    return NULL;

  copy = duplicate (fd, mode, error);

  if (copy < 0)
    {
      g_prefix_error (error, "%s: ", function);
      return NULL;
    }

  return file_new (copy, mode, (flags & GPU_FILE_FLAGS_DIRECT) != 0
                   || (mode & O_DIRECT) != 0, function, name, error);
}

/* Sets errno on failure. */
static gboolean
read_size (int      fd,
           guint64 *size)
{
  struct stat status;

  if (fstat (fd, &status) != 0)
    return FALSE;

  *size = (guint64) status.st_size;

  return !S_ISBLK (status.st_mode) || ioctl (fd, BLKGETSIZE64, size) == 0;
}

/* Returns 1 if a file of size 0 has contents, as character devices and files of /proc have, 0 if it
 * is empty, or -1 with errno on failure. A descriptor for direct access cannot read one byte
 * (EINVAL), and belongs to a file with a size. */
static gssize
read_hidden (GpuFile *file,
             int      fd)
{
  guint8 byte;
  gssize n;

  if ((file->flags & GPU_FILE_FLAGS_READ) == 0)
    return 0;

  n = pread (fd, &byte, 1, 0);

  return n < 0 && errno == EINVAL ? 0 : n;
}

/**
 * gpu_file_get_size:
 * @file: a #GpuFile
 * @error: return location for an error
 *
 * Gets the current size of the file. It may change at any time, for example if the file is written.
 *
 * The system reports no size for character devices, such as /dev/zero, and for most files of /proc.
 * So if the size is 0 and @file is open for reading, the function calls pread(), and fails if that
 * fails or the file has contents. To copy such a file, pass the number of bytes, or read it with
 * g_file_get_contents().
 *
 * Returns: the size in bytes, or -1 with an error of the domain %G_IO_ERROR, such as
 *   %G_IO_ERROR_NOT_SUPPORTED if the system reports no size
 *
 * Since: 0.1
 */
gint64
gpu_file_get_size (GpuFile  *file,
                   GError  **error)
{
  const char *function = "gpu_file_get_size";
  gssize n_hidden = 0;
  guint64 size;
  int fd;

  g_return_val_if_fail (GPU_IS_FILE (file), -1);

  if (!check_open (file, function, error))
    return -1;

  fd = _gpu_transfer_file_get_fd (file->core);

  if (!read_size (fd, &size) || (size == 0 && (n_hidden = read_hidden (file, fd)) < 0))
    {
      int code = errno;

      g_set_error (error, G_IO_ERROR, g_io_error_from_errno (code), "%s: %s: %s", function,
                   _gpu_transfer_file_get_name (file->core), g_strerror (code));
      return -1;
    }

  if (n_hidden == 0)
    return (gint64) size;

  g_set_error (error, G_IO_ERROR, G_IO_ERROR_NOT_SUPPORTED,
               "%s: the system reports no size for %s, which is not empty: pass the number of "
               "bytes to copy", function, _gpu_transfer_file_get_name (file->core));

  return -1;
}
