/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Copies between contexts that no driver copies between. */
#pragma once

#include "gpumem/gpu-submission-private.h"

G_BEGIN_DECLS

/* Whether the copy, between memory of two contexts, has to go by way of the host. */
gboolean _gpu_timeline_is_across   (GpuTimeline  *timeline,
                                    GpuMemory    *destination,
                                    GpuMemory    *source);
/* (transfer none): the stream in @context for the part of @timeline's work that is done there. What
 * follows the last copy across on either stream comes after all that was before it on both. */
GpuTimeline *_gpu_timeline_get_partner (GpuTimeline       *timeline,
                                    GpuNativeContext  *context,
                                    const char        *function,
                                    GError           **error);
/* The ranges were checked, and are not empty. */
gboolean _gpu_timeline_copy_across (GpuTimeline  *timeline,
                                    const char   *function,
                                    GpuMemory    *destination,
                                    gsize         destination_offset,
                                    GpuMemory    *source,
                                    gsize         source_offset,
                                    gsize         size,
                                    GpuPending   *pending,
                                    GError      **error);

G_END_DECLS
