/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/base/gpu-error.h"
#include "gpumem/base/gpu-workers-private.h"

/* The time in microseconds after which a thread without a job ends. */
#define IDLE_TIME (15 * G_TIME_SPAN_SECOND)

typedef struct
{
  GpuWorkerFunc func;
  gpointer      data;
} Job;

static Job *
job_new (GpuWorkerFunc func,
         gpointer      data)
{
  Job *job = g_new (Job, 1);

  job->func = func;
  job->data = data;

  return job;
}

/* Called after each change of the pending jobs, of the threads without a job, or of the limit. The
 * store is relaxed: threads that read the number take the lock before they rely on it. */
static void
update_unserved_locked (GpuWorkers *workers)
{
  /* Threads beyond the limit end instead of taking a job. */
  guint n_ending = MAX (workers->n_threads, workers->max_threads) - workers->max_threads;
  guint n_serving = MAX (workers->n_idle, n_ending) - n_ending;
  gint n_unserved = (gint) workers->jobs.length - (gint) n_serving;

  __atomic_store_n (&workers->n_unserved, MAX (n_unserved, 0), __ATOMIC_RELAXED);
}

static void
queue_job_locked (GpuWorkers    *workers,
                  GpuWorkerFunc  func,
                  gpointer       data)
{
  g_queue_push_tail (&workers->jobs, job_new (func, data));
  update_unserved_locked (workers);
}

static gboolean
has_job_locked (const GpuWorkers *workers)
{
  return workers->jobs.length > 0 || workers->deferred.length > 0;
}

static Job *
pop_job_locked (GpuWorkers *workers)
{
  if (workers->jobs.length > 0)
    return g_queue_pop_head (&workers->jobs);

  g_atomic_int_add (&workers->n_deferred, -1);

  return g_queue_pop_head (&workers->deferred);
}

/* Waits for a job, for a thread that `n_idle` counts. Returns NULL if the thread must end. */
static Job *
take_job_locked (GpuWorkers *workers)
{
  gint64 deadline = g_get_monotonic_time () + IDLE_TIME;
  gboolean in_time = TRUE;
  Job *job = NULL;

  while (in_time && !has_job_locked (workers) && workers->n_threads <= workers->max_threads)
    in_time = g_cond_wait_until (&workers->cond, &workers->lock, deadline);

  if (workers->n_threads <= workers->max_threads && has_job_locked (workers))
    job = pop_job_locked (workers);
  else
    workers->n_threads--;

  workers->n_idle--;
  update_unserved_locked (workers);

  /* The signal that woke this thread may have announced a new job. Wake another thread to take the
   * job, because this thread ends. */
  if (job == NULL)
    g_cond_signal (&workers->cond);

  return job;
}

static gpointer
worker_main (gpointer data)
{
  GpuWorkers *workers = data;
  Job *job;

  g_mutex_lock (&workers->lock);

  while ((job = take_job_locked (workers)) != NULL)
    {
      g_mutex_unlock (&workers->lock);
      job->func (job->data);
      g_free (job);
      g_mutex_lock (&workers->lock);
      workers->n_idle++;
      update_unserved_locked (workers);
    }

  g_mutex_unlock (&workers->lock);

  return NULL;
}

static gboolean
add_thread_locked (GpuWorkers  *workers,
                   GError     **error)
{
  g_autoptr (GError) failure = NULL;
  GThread *thread = g_thread_try_new (workers->name, worker_main, workers, &failure);

  if (thread != NULL)
    {
      g_thread_unref (thread);
      workers->n_threads++;
      workers->n_idle++;
      update_unserved_locked (workers);
      return TRUE;
    }

  g_set_error (error, GPU_ERROR, GPU_ERROR_OUT_OF_HOST_MEMORY,
               "thread \"%s\" cannot be started, with %u of them running: %s", workers->name,
               workers->n_threads, failure->message);

  return FALSE;
}

/* Queues a job, for which it starts a thread if necessary. */
static gboolean
push_locked (GpuWorkers     *workers,
             GpuWorkerFunc   func,
             gpointer        data,
             GError        **error)
{
  gboolean is_limited = workers->max_threads < G_MAXUINT;

  /* If the number of threads is limited, a failure to start a thread is only an error if no thread
   * runs. A running thread takes the new job after its current job. */
  if (workers->n_idle <= workers->jobs.length
      && (!is_limited || workers->n_threads < workers->max_threads)
      && !add_thread_locked (workers, is_limited && workers->n_threads > 0 ? NULL : error)
      && (!is_limited || workers->n_threads == 0))
    return FALSE;

  queue_job_locked (workers, func, data);

  return TRUE;
}

guint
_gpu_workers_push_many (GpuWorkers     *workers,
                        guint           max_threads,
                        GpuWorkerFunc   func,
                        gpointer        data,
                        guint           n,
                        GError        **error)
{
  gboolean is_unserved;
  guint i = 0;

  g_mutex_lock (&workers->lock);
  workers->max_threads = max_threads;
  while (i < n && push_locked (workers, func, data, i == 0 ? error : NULL))
    i++;
  is_unserved = workers->n_lingering > 0 && workers->n_unserved > 0;
  g_mutex_unlock (&workers->lock);

  if (is_unserved)
    g_cond_broadcast (&workers->linger_cond);

  /* Wake idle threads without the lock: a thread that finds it taken would sleep again. */
  if (i == 1)
    g_cond_signal (&workers->cond);
  else if (i > 1)
    g_cond_broadcast (&workers->cond);

  return i;
}

gboolean
_gpu_workers_push (GpuWorkers     *workers,
                   guint           max_threads,
                   GpuWorkerFunc   func,
                   gpointer        data,
                   GError        **error)
{
  return _gpu_workers_push_many (workers, max_threads, func, data, 1, error) == 1;
}

gboolean
_gpu_workers_yield (GpuWorkers    *workers,
                    GpuWorkerFunc  func,
                    gpointer       data)
{
  g_autoptr (GMutexLocker) locker = NULL;

  if (!_gpu_workers_has_unserved (workers))
    return FALSE;

  locker = g_mutex_locker_new (&workers->lock);

  if (workers->n_unserved == 0)
    return FALSE;

  /* Wakes no thread: this one takes the first job. */
  queue_job_locked (workers, func, data);

  return TRUE;
}

void
_gpu_workers_linger (GpuWorkers      *workers,
                     GpuWorkerAwaits  awaits,
                     gpointer         data,
                     gint64           deadline)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&workers->lock);
  gboolean in_time = TRUE;

  /* Before awaits(), so that it sees the change or _gpu_workers_wake_lingering() sees the thread */
  g_atomic_int_inc (&workers->n_lingering);

  while (in_time && workers->n_unserved == 0 && awaits (data))
    in_time = g_cond_wait_until (&workers->linger_cond, &workers->lock, deadline);

  g_atomic_int_add (&workers->n_lingering, -1);
}

void
_gpu_workers_wake_lingering (GpuWorkers *workers)
{
  if (g_atomic_int_get (&workers->n_lingering) == 0)
    return;

  /* A thread that has called awaits() too early waits by now. */
  g_mutex_lock (&workers->lock);
  g_mutex_unlock (&workers->lock);
  g_cond_broadcast (&workers->linger_cond);
}

void
_gpu_workers_defer (GpuWorkers    *workers,
                    GpuWorkerFunc  func,
                    gpointer       data)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&workers->lock);

  workers->max_threads = G_MAXUINT;

  if (workers->n_idle > workers->jobs.length || add_thread_locked (workers, NULL))
    {
      queue_job_locked (workers, func, data);
    }
  else
    {
      g_queue_push_tail (&workers->deferred, job_new (func, data));
      g_atomic_int_inc (&workers->n_deferred);
    }

  g_cond_signal (&workers->cond);
}

void
_gpu_workers_retry (GpuWorkers *workers)
{
  g_autoptr (GMutexLocker) locker = NULL;

  if (g_atomic_int_get (&workers->n_deferred) == 0)
    return;

  locker = g_mutex_locker_new (&workers->lock);

  if (workers->deferred.length > 0 && workers->n_idle <= workers->jobs.length)
    add_thread_locked (workers, NULL);
}

void
_gpu_workers_set_max_threads (GpuWorkers *workers,
                              guint       max_threads)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&workers->lock);

  workers->max_threads = max_threads;
  update_unserved_locked (workers);
  g_cond_broadcast (&workers->cond);
}

/* --- tasks ------------------------------------------------------------------------------------ */

typedef struct
{
  GTask       *task;
  GpuTaskFunc  func;
  gboolean     is_boolean;
  gssize       result;
  GError      *error;
} TaskJob;

static void
task_job_free (gpointer data)
{
  TaskJob *job = data;

  g_clear_error (&job->error);
  g_object_unref (job->task);
  g_free (job);
}

static void
call_func (TaskJob *job)
{
  job->result = job->func (g_task_get_source_object (job->task), g_task_get_task_data (job->task),
                           g_task_get_cancellable (job->task), &job->error);
}

static gboolean
complete_task (gpointer data)
{
  TaskJob *job = data;

  if (job->result < 0)
    g_task_return_error (job->task, g_steal_pointer (&job->error));
  else if (job->is_boolean)
    g_task_return_boolean (job->task, job->result > 0);
  else
    g_task_return_int (job->task, job->result);

  return G_SOURCE_REMOVE;
}

/* The main context gets the reference to the task: a thread that releases it later may release the
 * last reference to the source object after the program has released its own. */
static void
run_task (gpointer data)
{
  TaskJob *job = data;
  g_autoptr (GSource) source = g_idle_source_new ();
  g_autoptr (GMainContext) context = g_main_context_ref (g_task_get_context (job->task));

  call_func (job);
  g_source_set_callback (source, complete_task, job, task_job_free);
  g_source_set_priority (source, g_task_get_priority (job->task));
  g_source_attach (source, context);
}

static TaskJob *
task_job_new (GTask       *task,
              gboolean     is_boolean,
              GpuTaskFunc  func)
{
  TaskJob *job = g_new (TaskJob, 1);

  *job = (TaskJob) { g_object_ref (task), func, is_boolean, -1, NULL };

  return job;
}

void
_gpu_workers_run_task_here (GTask       *task,
                            gboolean     is_boolean,
                            GpuTaskFunc  func)
{
  TaskJob *job = task_job_new (task, is_boolean, func);

  call_func (job);
  complete_task (job);
  task_job_free (job);
}

void
_gpu_workers_run_task (GTask       *task,
                       gboolean     is_boolean,
                       GpuTaskFunc  func)
{
  static GpuWorkers workers = { .name = "gpumem-task" };
  TaskJob *job = task_job_new (task, is_boolean, func);

  if (_gpu_workers_push (&workers, G_MAXUINT, run_task, job, &job->error))
    return;

  complete_task (job);
  task_job_free (job);
}
