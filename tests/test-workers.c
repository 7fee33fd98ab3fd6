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

/* A job that waits for `has_happened`, and another job. */
typedef struct
{
  GpuWorkers workers;
  GpuLatch  *reached;               /* the job lingers */
  GpuLatch  *left;                  /* the job has ended */
  GpuLatch  *served;                /* the other job has ended */
  gint       has_happened;          /* atomic */
} Lingering;

static gboolean
awaits (gpointer data)
{
  Lingering *lingering = data;

  _gpu_latch_open (_gpu_latch_ref (lingering->reached), NULL);
  return !g_atomic_int_get (&lingering->has_happened);
}

static void
linger (gpointer data)
{
  Lingering *lingering = data;

  _gpu_workers_linger (&lingering->workers, awaits, lingering, G_MAXINT64);
  _gpu_latch_open (_gpu_latch_ref (lingering->left), NULL);
}

static void
serve (gpointer data)
{
  _gpu_latch_open (_gpu_latch_ref (((Lingering *) data)->served), NULL);
}

static void
push_lingering (Lingering *lingering, guint max_threads, GpuWorkerFunc func)
{
  g_autoptr (GError) error = NULL;

  test_assert_ok (_gpu_workers_push (&lingering->workers, max_threads, func, lingering, &error),
                  error);
}

static void
lingering_begin (Lingering *lingering)
{
  lingering->reached = _gpu_latch_new ();
  lingering->left = _gpu_latch_new ();
  lingering->served = _gpu_latch_new ();
  push_lingering (lingering, 1, linger);
  g_assert_true (_gpu_latch_wait (lingering->reached, -1, NULL, NULL));
}

static void
lingering_end (Lingering *lingering)
{
  g_assert_true (_gpu_latch_wait (lingering->left, -1, NULL, NULL));
  _gpu_latch_unref (lingering->reached);
  _gpu_latch_unref (lingering->left);
  _gpu_latch_unref (lingering->served);
}

/* A job that lingers ends as soon as another job needs its thread. */
static void
workers_linger (void)
{
  static Lingering lingering = { .workers = { .name = "test" } };

  lingering_begin (&lingering);
  push_lingering (&lingering, 1, serve);
  g_assert_true (_gpu_latch_wait (lingering.served, -1, NULL, NULL));
  lingering_end (&lingering);
}

/* The same, while a thread without a job has not yet noticed that it exceeds the limit. */
static void
workers_linger_limited (void)
{
  static Lingering lingering = { .workers = { .name = "test" } };

  lingering_begin (&lingering);
  push_lingering (&lingering, 2, serve);
  g_assert_true (_gpu_latch_wait (lingering.served, -1, NULL, NULL));
  _gpu_latch_unref (lingering.served);
  lingering.served = _gpu_latch_new ();
  _gpu_workers_set_max_threads (&lingering.workers, 1);
  push_lingering (&lingering, 1, serve);
  g_assert_true (_gpu_latch_wait (lingering.served, -1, NULL, NULL));
  lingering_end (&lingering);
}

/* A job that lingers ends when it need not wait any more. It stays if another thread takes the
 * other job. */
static void
workers_linger_woken (void)
{
  static Lingering lingering = { .workers = { .name = "test" } };

  lingering_begin (&lingering);
  push_lingering (&lingering, 2, serve);
  g_assert_false (_gpu_workers_has_unserved (&lingering.workers));
  g_assert_true (_gpu_latch_wait (lingering.served, -1, NULL, NULL));
  g_assert_cmpint (g_atomic_int_get (&lingering.workers.n_lingering), ==, 1);
  g_atomic_int_set (&lingering.has_happened, TRUE);
  _gpu_workers_wake_lingering (&lingering.workers);
  lingering_end (&lingering);
}

int
main (int    argc,
      char **argv)
{
  test_init (&argc, &argv);
  test_add_plain ("retry", workers_retry);
  test_add_plain ("yield", workers_yield);
  test_add_plain ("linger", workers_linger);
  test_add_plain ("linger-limited", workers_linger_limited);
  test_add_plain ("linger-woken", workers_linger_woken);
  return test_run ();
}
