/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the methods of memory that wait, and their asynchronous pairs, begin and end with. */
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
/* What an asynchronous method has begun: its task, and the timeline, NULL if it failed. */
GTask       *_gpu_memory_begin_task         (GpuMemory            *memory,
                                             GpuStream            *stream,
                                             const char           *function,
                                             gpointer              tag,
                                             GCancellable         *cancellable,
                                             GAsyncReadyCallback   callback,
                                             gpointer              user_data,
                                             GpuTimeline         **timeline,
                                             GError              **error);
/* Returns @result once all that was submitted to @timeline is over, or @error; takes both over. */
void         _gpu_memory_end_task           (GTask                *task,
                                             GpuTimeline          *timeline,
                                             gpointer              result,
                                             GDestroyNotify        result_free,
                                             GError               *error);

G_END_DECLS
