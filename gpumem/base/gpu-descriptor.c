/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/base/gpu-descriptor-private.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>

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
