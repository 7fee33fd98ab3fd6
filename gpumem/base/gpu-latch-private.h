/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Blocks a thread until another thread opens the latch, a deadline passes or a GCancellable is
 * cancelled. */
#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

typedef struct _GpuLatch GpuLatch;

GpuLatch *_gpu_latch_new   (void);
GpuLatch *_gpu_latch_ref   (GpuLatch      *latch);
void      _gpu_latch_unref (GpuLatch      *latch);
/* A GpuWaiterFunc. Takes ownership of @latch. */
void      _gpu_latch_open  (gpointer       latch,
                            const GError  *error);
/* @deadline: a time of g_get_monotonic_time(), or -1 for no deadline. */
gboolean  _gpu_latch_wait  (GpuLatch      *latch,
                            gint64         deadline,
                            GCancellable  *cancellable,
                            GError       **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (GpuLatch, _gpu_latch_unref)

G_END_DECLS
