/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* GpuWorkers: threads for jobs and tasks. */
#include "config.h"

#include "gpumem/base/gpu-workers-private.h"

#include "test-util.h"

/* The calling thread holds the lock of the workers. If there are no deferred jobs, a retry must not
 * take this lock, because the thread would deadlock. */
static void
workers_retry (void)
{
  static GpuWorkers workers = { .name = "test" };

  g_mutex_lock (&workers.lock);
  _gpu_workers_retry (&workers);
  g_mutex_unlock (&workers.lock);
}

int
main (int    argc,
      char **argv)
{
  test_init (&argc, &argv);
  test_add_plain ("retry", workers_retry);
  return test_run ();
}
