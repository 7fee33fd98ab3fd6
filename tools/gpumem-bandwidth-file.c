/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The path "file": a file whose pages are in the page cache. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <glib/gstdio.h>

#include "tools/gpumem-bandwidth.h"

typedef struct
{
  gpointer data;
  gsize    size;
} Pages;

static void
pages_free (gpointer data)
{
  Pages *pages = data;

  munmap (pages->data, pages->size);
  g_free (pages);
}

/* Fails with GPU_ERROR_OUT_OF_HOST_MEMORY if the file system is full, so that the caller tries a
 * smaller size. */
static gboolean
fail (int          code,
      const char  *action,
      const char  *name,
      GError     **error)
{
  if (code == ENOSPC)
    g_set_error (error, GPU_ERROR, GPU_ERROR_OUT_OF_HOST_MEMORY,
                 "the file system of '%s' has too little space", name);
  else
    g_set_error (error, G_IO_ERROR, g_io_error_from_errno (code), "cannot %s '%s': %s", action,
                 name, g_strerror (code));
  return FALSE;
}

/* Creates a file and removes its name at once, so that no file is left if the command is killed.
 * Returns the descriptor, or -1. */
static int
create_file (const char  *path,
             GError     **error)
{
  const char *folder = path != NULL ? path : g_get_tmp_dir ();
  g_autofree char *name = path == NULL || g_file_test (path, G_FILE_TEST_IS_DIR)
                          ? g_build_filename (folder, "gpumem-bandwidth-XXXXXX", NULL) : NULL;
  int fd = name != NULL ? g_mkstemp (name)
                        : g_open (path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

  if (fd >= 0)
    g_unlink (name != NULL ? name : path);
  else
    fail (errno, "create the file", name != NULL ? name : path, error);
  return fd;
}

/* Maps the file, so that the pattern is filled and checked through the mapping. Reserves the space
 * first: a page that the file system cannot store would end the process. */
static gboolean
map_file (GpumemLane  *lane,
          int          fd,
          gsize        size,
          const char  *name,
          GError     **error)
{
  int code = posix_fallocate (fd, 0, size);
  gpointer data = code == 0 ? mmap (NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : NULL;
  Pages *pages;

  if (code != 0)
    return fail (code, "enlarge the file", name, error);
  if (data == MAP_FAILED)
    return fail (errno, "map the file", name, error);
  pages = g_new (Pages, 1);
  pages->data = data;
  pages->size = size;
  lane->near.data = data;
  lane->bytes = g_bytes_new_with_free_func (data, size, pages_free, pages);
  return TRUE;
}

gboolean
gpumem_file_prepare (GpumemBench  *bench,
                     guint         lane,
                     gsize         size,
                     GError      **error)
{
  GpumemLane *memories = &bench->lanes[lane];
  const char *name = bench->file != NULL ? bench->file : g_get_tmp_dir ();

  memories->fd = create_file (bench->file, error);
  if (memories->fd < 0)
    return FALSE;
  memories->file = gpu_file_new_for_fd (memories->fd, GPU_FILE_FLAGS_NONE, error);
  if (memories->file != NULL)
    return map_file (memories, memories->fd, size, name, error);
  g_close (memories->fd, NULL);
  return FALSE;
}

void
gpumem_file_clear (GpumemLane *lane)
{
  if (lane->file != NULL)
    g_close (lane->fd, NULL);
  g_clear_object (&lane->file);
}

gboolean
gpumem_file_copy (GpumemBench  *bench,
                  guint         lane,
                  gsize         size,
                  GError      **error)
{
  GpumemLane *memories = &bench->lanes[lane];

  if (lane == 1)
    return gpu_memory_write_file (memories->far.memory, bench->streams[lane], 0, memories->file, 0,
                                  size, NULL, error);
  return gpu_memory_read_file (memories->far.memory, bench->streams[lane], 0, memories->file, 0,
                               size, NULL, error);
}

/* Copies between the file and host memory. */
static gboolean
access_file (const GpumemLane  *lane,
             gboolean           write,
             guint8            *data,
             gsize              size,
             GError           **error)
{
  for (gsize done = 0; done < size; )
    {
      gssize n = write ? pwrite (lane->fd, data + done, size - done, done)
                       : pread (lane->fd, data + done, size - done, done);

      if (n < 0 && errno == EINTR)
        continue;
      if (n <= 0)
        return fail (n < 0 ? errno : EIO, write ? "write" : "read", "the file", error);
      done += n;
    }
  return TRUE;
}

/* Copies through page-locked memory, on drivers that cannot map device memory, such as CUDA. */
static gboolean
detour (GpumemBench  *bench,
        guint         lane,
        gsize         size,
        GError      **error)
{
  GpumemLane *memories = &bench->lanes[lane];
  const GpumemRaw *raw = &bench->raw;

  if (lane == 0)
    return access_file (memories, FALSE, memories->detour.data, size, error) &&
           raw->driver->copy (raw, lane, &memories->far, &memories->detour, size, error) &&
           raw->driver->wait (raw, lane, error);
  return raw->driver->copy (raw, lane, &memories->detour, &memories->far, size, error) &&
         raw->driver->wait (raw, lane, error) &&
         access_file (memories, TRUE, memories->detour.data, size, error);
}

gboolean
gpumem_file_copy_raw (GpumemBench  *bench,
                      guint         lane,
                      gsize         size,
                      GError      **error)
{
  GpumemLane *memories = &bench->lanes[lane];
  const GpumemRaw *raw = &bench->raw;
  gboolean success;
  gpointer data;

  if (raw->driver->map == NULL)
    return detour (bench, lane, size, error);
  data = raw->driver->map (raw, lane, &memories->far, lane == 0, size, error);
  if (data == NULL)
    return FALSE;
  success = access_file (memories, lane == 1, data, size, error);
  return raw->driver->unmap (raw, lane, &memories->far, data, success ? error : NULL) && success;
}
