/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a thread sleeps on when it waits with a deadline or a cancellable. */
#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

typedef struct _GpuLatch GpuLatch;

GpuLatch *_gpu_latch_new   (void);
GpuLatch *_gpu_latch_ref   (GpuLatch      *latch);
void      _gpu_latch_unref (GpuLatch      *latch);
/* A GpuWaiterFunc; takes over the reference that @latch is. */
void      _gpu_latch_open  (gpointer       latch,
                            const GError  *error);
/* @deadline in monotonic microseconds, -1 for never. */
gboolean  _gpu_latch_wait  (GpuLatch      *latch,
                            gint64         deadline,
                            GCancellable  *cancellable,
                            GError       **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (GpuLatch, _gpu_latch_unref)

G_END_DECLS
