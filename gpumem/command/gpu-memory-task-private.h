/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How blocking methods of memory, and their asynchronous pairs, begin and end. */
#pragma once

#include "gpumem/memory/gpu-memory-private.h"
#include "gpumem/stream/gpu-submission-private.h"

G_BEGIN_DECLS

/* (transfer none): the timeline for a method of @memory, or NULL. */
GpuTimeline *_gpu_memory_peek_timeline      (GpuMemory            *memory,
                                             GpuStream            *stream,
                                             const char           *function,
                                             GCancellable         *cancellable,
                                             GError              **error);
/* (transfer full): the same. */
GpuTimeline *_gpu_memory_get_timeline       (GpuMemory            *memory,
                                             GpuStream            *stream,
                                             const char           *function,
                                             GCancellable         *cancellable,
                                             GError              **error);
gboolean     _gpu_memory_wait_for_operation (GpuTimeline          *timeline,
                                             GpuPending           *pending,
                                             const char           *function,
                                             GError              **error);
/* For all that was submitted to @timeline. */
gboolean     _gpu_memory_wait_for_all       (GpuTimeline          *timeline,
                                             const char           *function,
                                             GCancellable         *cancellable,
                                             GError              **error);
/* Begins an asynchronous method: returns its task and sets the timeline, NULL on failure. */
GTask       *_gpu_memory_begin_task         (GpuMemory            *memory,
                                             GpuStream            *stream,
                                             const char           *function,
                                             gpointer              tag,
                                             GCancellable         *cancellable,
                                             GAsyncReadyCallback   callback,
                                             gpointer              user_data,
                                             GpuTimeline         **timeline,
                                             GError              **error);
/* Returns @result once all work submitted to @timeline is complete, or @error; takes both over. */
void         _gpu_memory_end_task           (GTask                *task,
                                             GpuTimeline          *timeline,
                                             gpointer              result,
                                             GDestroyNotify        result_free,
                                             GError               *error);

G_END_DECLS
