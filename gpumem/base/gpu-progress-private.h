/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Reports the progress of a long copy to a function of the program, in a main context.
 *
 * Threads of the library count the bytes that they copy. A GSource of the main context calls the
 * function of the program at most once in 40 ms. Only the last call reports the total.
 */
#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

typedef struct _GpuProgress GpuProgress;

/* If @func is NULL, calls @destroy, which may be NULL, and returns NULL. */
GpuProgress *_gpu_progress_new                (GMainContext          *context,
                                               gsize                  total,
                                               GFileProgressCallback  func,
                                               gpointer               data,
                                               GDestroyNotify         destroy);
GpuProgress *_gpu_progress_ref                (GpuProgress           *progress);
void         _gpu_progress_unref              (GpuProgress           *progress);
/* Counts @size copied bytes. Any thread may call this function, even while it holds locks. */
void         _gpu_progress_add                (GpuProgress           *progress,
                                               gsize                  size);
/* For a copy that another thread submits. That thread calls set_ordered() once no later submission
 * can overtake the copy. The thread that began the copy waits until then. */
void         _gpu_progress_set_ordered        (GpuProgress           *progress);
void         _gpu_progress_wait_until_ordered (GpuProgress           *progress);
/* Ends the reports and frees the data of the program; if @is_complete, reports the total first.
 * Caller holds no lock, and is the main context or the thread that began the copy. */
void         _gpu_progress_end                (GpuProgress           *progress,
                                               gboolean               is_complete);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (GpuProgress, _gpu_progress_unref)

G_END_DECLS
