/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Reports the progress of a task, a long copy, to a function of the program.
 *
 * Threads of the library count the bytes that they have copied. A GSource in the main context of
 * the task calls the function of the program at most once in 40 ms. Only the last call reports the
 * total.
 */
#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

typedef struct _GpuProgress GpuProgress;

/* Begins the reports of @task. If @func is NULL, only calls @destroy, which may be NULL. */
void         _gpu_progress_begin (GTask                  *task,
                                  gsize                   total,
                                  GFileProgressCallback   func,
                                  gpointer                data,
                                  GDestroyNotify          destroy);
/* Returns NULL if @task reports no progress. */
GpuProgress *_gpu_progress_peek  (GTask                  *task);
GpuProgress *_gpu_progress_ref   (GpuProgress            *progress);
void         _gpu_progress_unref (GpuProgress            *progress);
/* Counts @size copied bytes. Any thread may call this function, even while it holds locks, and even
 * after the end of the reports. */
void         _gpu_progress_add   (GpuProgress            *progress,
                                  gsize                   size);
/* Ends the reports of @task and frees the data of the program; if @is_complete, reports the total
 * first. Must be called before @task returns. Has no effect if @task reports no progress. Caller
 * holds no lock, and is the main context of @task or the thread that created @task. */
void         _gpu_progress_end   (GTask                  *task,
                                  gboolean                is_complete);

G_END_DECLS
