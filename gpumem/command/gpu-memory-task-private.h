/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Helpers to begin and end the blocking methods of memory and their asynchronous variants. */
#pragma once

#include "gpumem/memory/gpu-memory-private.h"
#include "gpumem/stream/gpu-submission-private.h"

G_BEGIN_DECLS

/* (transfer none): gets the timeline of @stream, or of the default stream. Returns NULL on
 * error. */
GpuTimeline *_gpu_memory_peek_timeline      (GpuMemory            *memory,
                                             GpuStream            *stream,
                                             const char           *function,
                                             GCancellable         *cancellable,
                                             GError              **error);
/* Gets the timeline like _gpu_memory_peek_timeline(), and begins @wait for operations that the host
 * waits for. Fails with GPU_ERROR_NOT_SUPPORTED if the stream is being captured. */
gboolean     _gpu_memory_begin_wait         (GpuMemory            *memory,
                                             GpuStream            *stream,
                                             const char           *function,
                                             GCancellable         *cancellable,
                                             GpuHostWait          *wait,
                                             GError              **error);
gboolean     _gpu_memory_wait_for_operation (GpuTimeline          *timeline,
                                             GpuPending           *pending,
                                             const char           *function,
                                             GError              **error);
/* Waits for the work that was submitted within @wait. */
gboolean     _gpu_memory_wait_for_work      (const GpuHostWait    *wait,
                                             const char           *function,
                                             GCancellable         *cancellable,
                                             GError              **error);
/* Like _gpu_uses_wait(), but does not block: @task returns the result. Takes ownership of @task and
 * @uses. Called in the main context of @task. */
void         _gpu_uses_wait_task            (GTask                *task,
                                             GArray               *uses,
                                             GpuUseIgnoreFunc     *can_ignore,
                                             const char           *function);
/* Copies a range of @contents, the result of _gpu_memory_ref_spilled(), to @data. */
gboolean     _gpu_memory_read_spilled       (GpuMemory            *memory,
                                             GBytes               *contents,
                                             gsize                 offset,
                                             gpointer              data,
                                             gsize                 size,
                                             const char           *function,
                                             GError              **error);
/* Begins an asynchronous method. Returns its task and begins @wait, unless it sets @error. */
GTask       *_gpu_memory_begin_task         (GpuMemory            *memory,
                                             GpuStream            *stream,
                                             const char           *function,
                                             gpointer              tag,
                                             GCancellable         *cancellable,
                                             GAsyncReadyCallback   callback,
                                             gpointer              user_data,
                                             GpuHostWait          *wait,
                                             GError              **error);
/* If @error is NULL, the task returns @result once the work that was submitted within @wait has
 * completed, or soon if @wait has no timeline. Otherwise the task returns @error at once. Takes
 * ownership of @result and @error. */
void         _gpu_memory_end_task           (GTask                *task,
                                             const GpuHostWait    *wait,
                                             gpointer              result,
                                             GDestroyNotify        result_free,
                                             GError               *error);

G_END_DECLS
