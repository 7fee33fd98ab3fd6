/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "gpumem/backend/gpu-native-context-private.h"
#include "gpumem/timeline/gpu-timeline-private.h"

G_BEGIN_DECLS

/* Returns NULL for a context that was never initialised. */
GpuNativeContext *_gpu_context_get_native           (GpuContext        *context);
/* Returns FALSE with an error if @context was never initialised or is lost. */
gboolean          _gpu_context_check                (GpuContext        *context,
                                                     const char        *function,
                                                     GError           **error);
gboolean          _gpu_cache_preference_check       (GpuCachePreference  preference,
                                                     const char        *function,
                                                     GError           **error);
/* (transfer none) */
GpuTimeline      *_gpu_context_peek_default_timeline (GpuContext       *context,
                                                     const char        *function,
                                                     GError           **error);
typedef GpuStream *(*GpuStreamFunc) (GpuContext  *context,
                                     GpuTimeline *timeline);
/* (transfer full): gets the default stream. If no object for it exists, calls @create. Returns NULL
 * on error. */
GpuStream        *_gpu_context_ref_default_stream   (GpuContext        *context,
                                                     GpuStreamFunc      create);
/* (transfer full): gets GpuContext:allocator, whose type the caller must check; NULL if it is not
 * set. */
GObject          *_gpu_context_ref_allocator        (GpuContext        *context);
/* Emits ::memory-pressure for a request that failed. Returns TRUE if the handlers have run: the
 * caller should then try again. */
gboolean          _gpu_context_signal_pressure      (GpuContext        *context,
                                                     guint64            requested);

G_END_DECLS
