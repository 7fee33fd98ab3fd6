/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/base/gpu-thread-private.h"

guint64
_gpu_thread_get_number (void)
{
  static guint64 n_threads;         /* atomic */
  static __thread guint64 number;

  if (number == 0)
    number = __atomic_add_fetch (&n_threads, 1, __ATOMIC_RELAXED);

  return number;
}
