/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Functions shared by the methods that copy arrays. Only _gpu_array_wait() blocks. */
#pragma once

#include "gpumem/array/gpu-array-private.h"
#include "gpumem/format/gpu-array-plan-private.h"
#include "gpumem/stream/gpu-stream-private.h"

G_BEGIN_DECLS

/* (transfer none): the timeline of @stream, or of the default stream if @stream is NULL. Returns
 * NULL with an error. */
GpuTimeline *_gpu_array_peek_timeline (GpuArray              *array,
                                       GpuStream             *stream,
                                       const char            *function,
                                       GError               **error);
/* Fails if elements may share a byte, because such elements must not be written. */
gboolean     _gpu_array_check_apart   (const GpuArrayLayout  *layout,
                                       const char            *function,
                                       GError               **error);
/* Fails if @array cannot be written, or if @source has another type. */
gboolean     _gpu_array_check_copy    (GpuArray              *array,
                                       GpuArray              *source,
                                       const char            *function,
                                       GError               **error);
/* Fails if a mapping conflicts with a copy from @from to @to, which have the same shape. */
gboolean     _gpu_array_check_mappings (GpuMemory            *to_memory,
                                       const GpuArrayLayout  *to,
                                       GpuMemory             *from_memory,
                                       const GpuArrayLayout  *from,
                                       const char            *function,
                                       GError               **error);
/* Returns whether the address ranges of the arrays overlap. A copy between such arrays could read
 * bytes that it has already written. Both arrays have elements, in memory that is not released. */
gboolean     _gpu_array_meets         (GpuArray              *array,
                                       GpuArray              *other);
gboolean     _gpu_array_fill          (GpuArray              *array,
                                       GpuTimeline           *timeline,
                                       const guint8          *value,
                                       gsize                  size,
                                       const char            *function,
                                       GError               **error);
/* @pending is nullable. If the copy is a single command, sets @pending, with which the caller can
 * wait for this command. Otherwise leaves @pending unchanged, and the caller must wait for the work
 * of its GpuHostWait. */
gboolean     _gpu_array_write         (GpuArray              *array,
                                       GpuTimeline           *timeline,
                                       GBytes                *bytes,
                                       const GpuArrayLayout  *host,
                                       GpuPending            *pending,
                                       const char            *function,
                                       GError               **error);
/* Copies @array to @bytes with @plan. */
gboolean     _gpu_array_read          (GpuArray              *array,
                                       GpuTimeline           *timeline,
                                       GBytes                *bytes,
                                       const GpuArrayPlan    *plan,
                                       GpuPending            *pending,
                                       const char            *function,
                                       GError               **error);
gboolean     _gpu_array_copy_to       (GpuArray              *array,
                                       GpuTimeline           *timeline,
                                       GpuArray              *source,
                                       const char            *function,
                                       GError               **error);
/* Like _gpu_array_copy_to(), for memory for which _gpu_timeline_is_cross_driver() is TRUE. */
gboolean     _gpu_array_copy_cross_driver (GpuArray              *array,
                                           GpuTimeline           *timeline,
                                           GpuArray              *source,
                                           const char            *function,
                                           GError               **error);
/* Called first by all blocking methods. Begins @wait. */
gboolean     _gpu_array_begin         (GpuArray              *array,
                                       GpuStream             *stream,
                                       const char            *function,
                                       GCancellable          *cancellable,
                                       GpuHostWait           *wait,
                                       GError               **error);
/* Called last by all blocking methods. Waits for the command of @pending or, if there are several
 * commands or the wait may be cancelled, for the work of @wait. */
gboolean     _gpu_array_wait          (const GpuHostWait     *wait,
                                       GpuPending            *pending,
                                       const char            *function,
                                       GCancellable          *cancellable,
                                       GError               **error);
/* Creates a task with the name @function. */
GTask       *_gpu_array_task_new      (GpuArray              *array,
                                       gpointer               tag,
                                       const char            *function,
                                       GCancellable          *cancellable,
                                       GAsyncReadyCallback    callback,
                                       gpointer               user_data);

G_END_DECLS
