/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What all copies of arrays are made of. Only _gpu_array_wait() blocks. */
#pragma once

#include "gpumem/array/gpu-array-private.h"
#include "gpumem/format/gpu-array-plan-private.h"
#include "gpumem/stream/gpu-stream-private.h"

G_BEGIN_DECLS

/* (transfer none): the timeline of @stream, NULL for the default stream, or NULL with an error. */
GpuTimeline *_gpu_array_peek_timeline (GpuArray              *array,
                                       GpuStream             *stream,
                                       const char            *function,
                                       GError               **error);
/* FALSE, with an error, if elements may share a byte, so that they cannot be written. */
gboolean     _gpu_array_check_apart   (const GpuArrayLayout  *layout,
                                       const char            *function,
                                       GError               **error);
gboolean     _gpu_array_fill          (GpuArray              *array,
                                       GpuTimeline           *timeline,
                                       const guint8          *value,
                                       gsize                  size,
                                       const char            *function,
                                       GError               **error);
/* @pending, nullable, is set if the copy is a single command: else wait for all of @timeline. */
gboolean     _gpu_array_write         (GpuArray              *array,
                                       GpuTimeline           *timeline,
                                       GBytes                *bytes,
                                       const GpuArrayLayout  *host,
                                       GpuPending            *pending,
                                       const char            *function,
                                       GError               **error);
/* With @plan, from @array to a layout of the bytes. */
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
/* The same between memory that is _gpu_timeline_is_cross_driver(). */
gboolean     _gpu_array_copy_cross_driver (GpuArray              *array,
                                           GpuTimeline           *timeline,
                                           GpuArray              *source,
                                           const char            *function,
                                           GError               **error);
/* What methods that wait begin and end with. (transfer full): the timeline, or NULL with an error.
 * */
GpuTimeline *_gpu_array_begin         (GpuArray              *array,
                                       GpuStream             *stream,
                                       const char            *function,
                                       GCancellable          *cancellable,
                                       GError               **error);
/* For the one command of @pending, or, where there are more or the waiting may be cancelled, for
 * all. */
gboolean     _gpu_array_wait          (GpuTimeline           *timeline,
                                       GpuPending            *pending,
                                       const char            *function,
                                       GCancellable          *cancellable,
                                       GError               **error);
/* @function is its name. */
GTask       *_gpu_array_task_new      (GpuArray              *array,
                                       gpointer               tag,
                                       const char            *function,
                                       GCancellable          *cancellable,
                                       GAsyncReadyCallback    callback,
                                       gpointer               user_data);

G_END_DECLS
