/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Threads that run jobs, and end after a while without one.
 *
 * Not a GThreadPool: that queues a job for which no thread can be started, and may abort, while the
 * caller has to know, because the job would never run.
 */
#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

typedef void (*GpuWorkerFunc) (gpointer data);

/* Static; zero but for the name, which is that of the threads. */
typedef struct
{
  const char *name;
  GMutex      lock;                 /* guards what follows */
  GCond       cond;
  GQueue      jobs;                 /* that no thread has taken, and threads are there for */
  GQueue      deferred;             /* that wait for any thread */
  guint       n_threads;
  guint       n_idle;               /* of them */
  guint       max_threads;
} GpuWorkers;

/* Runs @func on a thread of its own, or, with @max_threads below G_MAXUINT, as soon as one of so
 * many is free. FALSE with GPU_ERROR_OUT_OF_HOST_MEMORY, and nothing done, if there is no thread
 * and none can be started. */
gboolean _gpu_workers_push            (GpuWorkers      *workers,
                                       guint            max_threads,
                                       GpuWorkerFunc    func,
                                       gpointer         data,
                                       GError         **error);
/* The same for a job without a waiter: if no thread can be started it runs as soon as a thread is
 * free, or a later call starts one. */
void     _gpu_workers_defer           (GpuWorkers      *workers,
                                       GpuWorkerFunc    func,
                                       gpointer         data);
/* Starts a thread for deferred jobs, if there are any and one can be started. */
void     _gpu_workers_retry           (GpuWorkers      *workers);
/* Threads beyond @max_threads end. */
void     _gpu_workers_set_max_threads (GpuWorkers      *workers,
                                       guint            max_threads);
/* As g_task_run_in_thread(); returns an error of @task if no thread can be started. */
void     _gpu_workers_run_task        (GTask           *task,
                                       GTaskThreadFunc  func);

G_END_DECLS
