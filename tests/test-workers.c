/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* GpuWorkers: threads for jobs and tasks. */
#include "config.h"

#include "gpumem/base/gpu-latch-private.h"
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

/* A job that another job may interrupt. */
typedef struct
{
  GpuWorkers workers;
  GpuLatch  *pushed;                /* both jobs are queued */
  GpuLatch  *ended;
  GString   *order;
} Turns;

static void
run_long (gpointer data)
{
  Turns *turns = data;

  if (turns->order->len == 0)
    g_assert_true (_gpu_latch_wait (turns->pushed, -1, NULL, NULL));
  g_string_append_c (turns->order, 'a');
  if (_gpu_workers_yield (&turns->workers, run_long, turns))
    return;
  g_string_append_c (turns->order, 'c');
  _gpu_latch_open (_gpu_latch_ref (turns->ended), NULL);
}

static void
run_short (gpointer data)
{
  g_string_append_c (((Turns *) data)->order, 'b');
}

/* A job gives its thread to a job that waits, and runs again behind it. It keeps the thread if no
 * job waits. */
static void
workers_yield (void)
{
  static Turns turns = { .workers = { .name = "test" } };
  g_autoptr (GpuLatch) pushed = _gpu_latch_new ();
  g_autoptr (GpuLatch) ended = _gpu_latch_new ();
  g_autoptr (GError) error = NULL;

  turns.pushed = pushed;
  turns.ended = ended;
  turns.order = g_string_new (NULL);
  test_assert_ok (_gpu_workers_push (&turns.workers, 1, run_long, &turns, &error), error);
  test_assert_ok (_gpu_workers_push (&turns.workers, 1, run_short, &turns, &error), error);
  _gpu_latch_open (_gpu_latch_ref (pushed), NULL);
  g_assert_true (_gpu_latch_wait (ended, -1, NULL, NULL));
  g_assert_cmpstr (turns.order->str, ==, "abac");
  g_string_free (turns.order, TRUE);
}

int
main (int    argc,
      char **argv)
{
  test_init (&argc, &argv);
  test_add_plain ("retry", workers_retry);
  test_add_plain ("yield", workers_yield);
  return test_run ();
}
