/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/base/gpu-descriptor-private.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "gpumem/base/gpu-error.h"

int
_gpu_descriptor_duplicate (int      fd,
                           GError **error)
{
  int copy = fcntl (fd, F_DUPFD_CLOEXEC, 3);
  int code = errno;
  struct rlimit limit;

  if (copy >= 0)
    return copy;

  if (code == EMFILE && getrlimit (RLIMIT_NOFILE, &limit) == 0)
    g_set_error (error, GPU_ERROR, GPU_ERROR_FAILED,
                 "fcntl: %s (%d): file descriptor %d; the process may have %" G_GUINT64_FORMAT
                 " open (RLIMIT_NOFILE)", g_strerror (code), code, fd, (guint64) limit.rlim_cur);
  else
    g_set_error (error, GPU_ERROR, GPU_ERROR_FAILED, "fcntl: %s (%d): file descriptor %d",
                 g_strerror (code), code, fd);

  return -1;
}

static void
close_descriptor (gpointer data)
{
  close (*(const int *) data);
}

GArray *
_gpu_descriptors_new (void)
{
  GArray *fds = g_array_new (FALSE, FALSE, sizeof (int));

  g_array_set_clear_func (fds, close_descriptor);

  return fds;
}

int
_gpu_descriptors_take_only (GArray  *fds,
                            gsize    size,
                            GError **error)
{
  int fd;

  if (fds->len != 1)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                   "the %" G_GSIZE_FORMAT " bytes of the buffer lie in %u chunks of a pool, which "
                   "have a file descriptor each: use gpu_buffer_export_fds(), or allocate the "
                   "buffer with gpu_buffer_new()", size, fds->len);
      return -1;
    }

  fd = g_array_index (fds, int, 0);
  g_array_set_clear_func (fds, NULL);
  g_array_set_size (fds, 0);

  return fd;
}
