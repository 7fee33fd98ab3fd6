/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Reports the progress of a long copy to a function of the program, in a main context.
 *
 * Threads of the library count bytes; the source of the main context calls the function at most
 * once in 40 ms. The call with the total is the last one, and the only one with that value.
 */
#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

typedef struct _GpuProgress GpuProgress;

/* Returns NULL, and calls @destroy, which is nullable, if @func is NULL. */
GpuProgress *_gpu_progress_new                (GMainContext          *context,
                                               gsize                  total,
                                               GFileProgressCallback  func,
                                               gpointer               data,
                                               GDestroyNotify         destroy);
GpuProgress *_gpu_progress_ref                (GpuProgress           *progress);
void         _gpu_progress_unref              (GpuProgress           *progress);
/* Counts bytes that are copied. Any thread may call this, also with locks held. */
void         _gpu_progress_add                (GpuProgress           *progress,
                                               gsize                  size);
/* Another thread submits the copy, while the calling thread waits until later submissions cannot
 * overtake it. */
void         _gpu_progress_set_ordered        (GpuProgress           *progress);
void         _gpu_progress_wait_until_ordered (GpuProgress           *progress);
/* Ends the reports and frees the data of the program; if @is_complete, reports the total first.
 * Caller holds no lock, and is the main context or the thread that began the copy. */
void         _gpu_progress_end                (GpuProgress           *progress,
                                               gboolean               is_complete);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (GpuProgress, _gpu_progress_unref)

G_END_DECLS
