/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Threads that run jobs and end after some time without a job.
 *
 * Not a GThreadPool: if no thread can be started, a GThreadPool queues the job or aborts. The
 * caller must get an error instead, because the job would never run.
 */
#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

typedef void (*GpuWorkerFunc) (gpointer data);

/* Statically allocated: all zero except the name, which the threads get. */
typedef struct
{
  const char *name;
  GMutex      lock;                 /* guards the fields below */
  GCond       cond;
  GQueue      jobs;                 /* pending, each with an idle or a new thread */
  GQueue      deferred;             /* pending, without a thread */
  gint        n_deferred;           /* atomic; length of deferred, also read without the lock */
  guint       n_threads;
  guint       n_idle;               /* threads without a job */
  guint       max_threads;
} GpuWorkers;

/* Runs @func on a thread of its own or, if @max_threads is below G_MAXUINT, on the next free one of
 * at most @max_threads. Fails with GPU_ERROR_OUT_OF_HOST_MEMORY, without queueing the job, if there
 * is no thread and none can be started. Does not block. */
gboolean _gpu_workers_push            (GpuWorkers      *workers,
                                       guint            max_threads,
                                       GpuWorkerFunc    func,
                                       gpointer         data,
                                       GError         **error);
/* The same for a job that nothing waits for: if no thread can be started, the job runs when a
 * thread becomes free or a later call starts one. */
void     _gpu_workers_defer           (GpuWorkers      *workers,
                                       GpuWorkerFunc    func,
                                       gpointer         data);
/* Starts a thread for deferred jobs, if there are any and one can be started. Without deferred jobs
 * this takes no lock. */
void     _gpu_workers_retry           (GpuWorkers      *workers);
/* Ends the threads beyond @max_threads. */
void     _gpu_workers_set_max_threads (GpuWorkers      *workers,
                                       guint            max_threads);
/* Like g_task_run_in_thread(), but returns an error of @task if no thread can be started. There is
 * no limit on the number of threads, because a task may wait for work that another task submits.
 * The thread may release the last reference to the task and its source object. */
void     _gpu_workers_run_task        (GTask           *task,
                                       GTaskThreadFunc  func);

G_END_DECLS
