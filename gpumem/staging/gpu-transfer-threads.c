/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Two groups of threads. Copying threads, as many as GPUMEM_COPY_THREADS, wait for nothing but
 * work. Waiting threads wait for the device, one for each copy that no caller waits for. Both end
 * after a while without work.
 *
 * Not a GThreadPool: that queues a task for which it can start no thread, and the caller must know,
 * because the stream would wait for the copy for ever.
 */
#include "config.h"

#include "gpumem/staging/gpu-transfer-private.h"

#define DEFAULT_MAX_THREADS 8
#define MAX_THREADS 256

/* Microseconds that a thread waits for more to do. */
#define IDLE_TIME (15 * G_TIME_SPAN_SECOND)

static GMutex lock;
static guint  n_threads;            /* guarded by it; 0 before it is known */
static gint   n_threads_known;      /* atomic; the same */

static guint
get_default (void)
{
  const char *text = g_getenv ("GPUMEM_COPY_THREADS");
  guint64 value;

  if (text == NULL)
    return MIN (g_get_num_processors (), DEFAULT_MAX_THREADS);

  if (g_ascii_string_to_unsigned (text, 10, 1, MAX_THREADS, &value, NULL))
    return value;

  g_warning ("GPUMEM_COPY_THREADS=%s is no number from 1 to %d", text, MAX_THREADS);

  return MIN (g_get_num_processors (), DEFAULT_MAX_THREADS);
}

guint
_gpu_transfer_get_n_threads (void)
{
  guint n = (guint) g_atomic_int_get (&n_threads_known);

  if (n != 0)
    return n;

  g_mutex_lock (&lock);
  if (n_threads == 0)
    n_threads = get_default ();
  n = n_threads;
  g_atomic_int_set (&n_threads_known, (gint) n);
  g_mutex_unlock (&lock);

  return n;
}

/* --- worker pools ----------------------------------------------------------------------------- */

typedef struct
{
  GpuTransferFunc run;
  gpointer        data;
} Job;

typedef struct
{
  const char *name;
  GMutex      lock;                 /* guards what follows */
  GCond       cond;
  GQueue      jobs;                 /* of Job, that no thread has taken */
  guint       n_threads;
  guint       n_idle;               /* of them */
  guint       max_threads;
} WorkerPool;

static WorkerPool copy_workers = { .name = "gpumem-copy" };
static WorkerPool drive_workers = { .name = "gpumem-drive" };

/* Why a thread could not be started: once, and taken by who tells. */
static char *failure_text;          /* atomic */
static gint  has_failed;            /* atomic */

/* NULL if the thread is not needed any more. */
static Job *
take_job (WorkerPool *pool)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&pool->lock);
  gint64 deadline = g_get_monotonic_time () + IDLE_TIME;
  gboolean in_time = TRUE;

  pool->n_idle++;
  while (in_time && g_queue_is_empty (&pool->jobs) && pool->n_threads <= pool->max_threads)
    in_time = g_cond_wait_until (&pool->cond, &pool->lock, deadline);
  pool->n_idle--;

  if (pool->n_threads <= pool->max_threads && !g_queue_is_empty (&pool->jobs))
    return g_queue_pop_head (&pool->jobs);

  /* It may have been woken for what another thread has to do now. */
  pool->n_threads--;
  g_cond_signal (&pool->cond);

  return NULL;
}

static gpointer
worker_main (gpointer data)
{
  WorkerPool *pool = data;
  Job *job;

  while ((job = take_job (pool)) != NULL)
    {
      job->run (job->data);
      g_free (job);
    }

  return NULL;
}

static gboolean
add_thread_locked (WorkerPool *pool)
{
  g_autoptr (GError) failure = NULL;
  GThread *thread = g_thread_try_new (pool->name, worker_main, pool, &failure);

  if (thread != NULL)
    {
      g_thread_unref (thread);
      pool->n_threads++;
      return TRUE;
    }

  if (g_atomic_int_compare_and_exchange (&has_failed, FALSE, TRUE))
    g_atomic_pointer_set (&failure_text, g_strdup (failure->message));

  return FALSE;
}

void
_gpu_transfer_report_threads (void)
{
  g_autofree char *text = NULL;

  if (g_atomic_pointer_get (&failure_text) != NULL)
    text = __atomic_exchange_n (&failure_text, NULL, __ATOMIC_ACQ_REL);

  if (text != NULL)
    g_message ("gpumem: no thread for copies, which go on more slowly: %s", text);
}

static gboolean
has_thread_locked (WorkerPool *pool)
{
  return pool->n_idle > pool->jobs.length
         || (pool->n_threads < pool->max_threads && add_thread_locked (pool));
}

/* FALSE, and nothing done, if there is no thread for it. Where there is a limit those at work take
 * it soon. */
static gboolean
worker_pool_push (WorkerPool      *pool,
                  guint            max_threads,
                  GpuTransferFunc  run,
                  gpointer         data)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&pool->lock);
  Job *job;

  pool->max_threads = max_threads;
  if (!has_thread_locked (pool) && (max_threads == G_MAXUINT || pool->n_threads == 0))
    return FALSE;

  job = g_new (Job, 1);
  job->run = run;
  job->data = data;
  g_queue_push_tail (&pool->jobs, job);
  g_cond_signal (&pool->cond);

  return TRUE;
}

gboolean
_gpu_transfer_push_copy (GpuTransferFunc func,
                         gpointer        data)
{
  return worker_pool_push (&copy_workers, _gpu_transfer_get_n_threads (), func, data);
}

gboolean
_gpu_transfer_push_wait (GpuTransferFunc func,
                         gpointer        data)
{
  return worker_pool_push (&drive_workers, G_MAXUINT, func, data);
}

void
_gpu_transfer_set_n_threads (guint n)
{
  n = MIN (n, MAX_THREADS);

  g_mutex_lock (&lock);
  n_threads = n != 0 ? n : get_default ();
  n = n_threads;
  g_atomic_int_set (&n_threads_known, (gint) n);
  g_mutex_unlock (&lock);

  g_mutex_lock (&copy_workers.lock);
  copy_workers.max_threads = n;
  g_cond_broadcast (&copy_workers.cond);
  g_mutex_unlock (&copy_workers.lock);
}
