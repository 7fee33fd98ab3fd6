/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Threads that run jobs. A thread ends after some time without a job.
 *
 * Not a GThreadPool: if no thread can be started, a GThreadPool queues the job or aborts. The
 * caller must get an error instead, because the job would never run.
 */
#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

typedef void (*GpuWorkerFunc) (gpointer data);

/* Must be a static variable. All members must be zero, except the name of the threads. */
typedef struct
{
  const char *name;
  GMutex      lock;                 /* guards the fields below */
  GCond       cond;
  GQueue      jobs;                 /* pending jobs, which the running threads will take */
  gint        n_unserved;           /* atomic; pending jobs that no thread without a job will take,
                                     * also read without the lock */
  GQueue      deferred;             /* jobs that wait until a thread is free or can be started */
  gint        n_deferred;           /* atomic; length of deferred, also read without the lock */
  guint       n_threads;
  guint       n_idle;               /* threads without a job, including those that start */
  GCond       linger_cond;
  gint        n_lingering;          /* atomic; jobs in _gpu_workers_linger() */
  guint       max_threads;
} GpuWorkers;

/* Runs @func on a thread without a job, which is started if necessary. If @max_threads is below
 * G_MAXUINT, at most that many threads run, and the job may have to wait for a thread. If no thread
 * can take the job and no thread can be started, fails with GPU_ERROR_OUT_OF_HOST_MEMORY without
 * queueing the job. Does not block. */
gboolean _gpu_workers_push            (GpuWorkers      *workers,
                                       guint            max_threads,
                                       GpuWorkerFunc    func,
                                       gpointer         data,
                                       GError         **error);
/* Like @n calls of _gpu_workers_push(), but wakes all threads at once. Returns the number of jobs
 * that were queued, and sets @error only if there is none. */
guint    _gpu_workers_push_many       (GpuWorkers      *workers,
                                       guint            max_threads,
                                       GpuWorkerFunc    func,
                                       gpointer         data,
                                       guint            n,
                                       GError         **error);
/* Returns whether a job waits that no thread without a job will take. Takes no lock. */
static inline gboolean
_gpu_workers_has_unserved (GpuWorkers *workers)
{
  return __atomic_load_n (&workers->n_unserved, __ATOMIC_RELAXED) > 0;
}

/* Called by a job, which must end if this returns TRUE: other jobs wait, and the job is queued
 * behind them. Takes no lock if no job waits. */
gboolean _gpu_workers_yield           (GpuWorkers      *workers,
                                       GpuWorkerFunc    func,
                                       gpointer         data);
/* Returns whether a job still waits for something. Called with a lock: must not block. */
typedef gboolean (*GpuWorkerAwaits) (gpointer data);
/* Called by a job that waits for something: blocks until @awaits returns FALSE, until @deadline, or
 * until another job waits for a thread. In the last two cases, the job should end. */
void     _gpu_workers_linger          (GpuWorkers      *workers,
                                       GpuWorkerAwaits  awaits,
                                       gpointer         data,
                                       gint64           deadline);
/* Must be called when the result of an @awaits function has become FALSE. Takes no lock if no job
 * lingers. */
void     _gpu_workers_wake_lingering  (GpuWorkers      *workers);
/* Like _gpu_workers_push() with G_MAXUINT threads, for a job that no thread waits for. If no thread
 * can be started, the job runs when a thread becomes free, or when a later call starts a thread. */
void     _gpu_workers_defer           (GpuWorkers      *workers,
                                       GpuWorkerFunc    func,
                                       gpointer         data);
/* Tries to start a thread if jobs are deferred. Takes no lock if no jobs are deferred. */
void     _gpu_workers_retry           (GpuWorkers      *workers);
/* Ends the threads beyond @max_threads. */
void     _gpu_workers_set_max_threads (GpuWorkers      *workers,
                                       guint            max_threads);
/* Does the work of a task. Returns the result, or -1 with an error. */
typedef gssize (*GpuTaskFunc) (gpointer       source,
                               gpointer       data,
                               GCancellable  *cancellable,
                               GError       **error);

/* Calls @func and completes @task with its result, as a truth value if @is_boolean. */
void     _gpu_workers_run_task_here   (GTask           *task,
                                       gboolean         is_boolean,
                                       GpuTaskFunc      func);
/* Like g_task_run_in_thread(), but completes @task with an error if no thread can be started. There
 * is no limit on the number of threads, because a task may wait for work that another task submits.
 * The thread releases its references to the task and its source object before the callback runs. */
void     _gpu_workers_run_task        (GTask           *task,
                                       gboolean         is_boolean,
                                       GpuTaskFunc      func);

G_END_DECLS
