/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Copies between contexts that no driver copies between. */
#pragma once

#include "gpumem/stream/gpu-submission-private.h"

G_BEGIN_DECLS

/* Whether the copy, between memory of two contexts, has to go by way of the host. */
gboolean _gpu_timeline_is_cross_driver (GpuTimeline  *timeline,
                                        GpuMemory    *destination,
                                        GpuMemory    *source);
/* (transfer none): the stream in @context for the part of @timeline's work that is done there. What
 * follows the last copy across on either stream comes after all that was before it on both. */
GpuTimeline *_gpu_timeline_get_partner (GpuTimeline       *timeline,
                                    GpuNativeContext  *context,
                                    const char        *function,
                                    GError           **error);
/* How a caller takes it that it may have to do a copy by itself. */
typedef struct
{
  GCancellable *cancellable;        /* nullable */
  gboolean      must_not_block;     /* so nothing is done then, and would_block is set */
  gboolean      would_block;
} GpuPatience;

/* The ranges were checked, and are not empty. Without @patience, nullable, it blocks. */
gboolean _gpu_timeline_copy_cross_driver (GpuTimeline  *timeline,
                                          const char   *function,
                                          GpuMemory    *destination,
                                          gsize         destination_offset,
                                          GpuMemory    *source,
                                          gsize         source_offset,
                                          gsize         size,
                                          GpuPending   *pending,
                                          GpuPatience  *patience,
                                          GError      **error);
/* As _gpu_timeline_copy(), for copies of both kinds. */
gboolean _gpu_timeline_copy_with   (GpuTimeline  *timeline,
                                    const char   *function,
                                    GpuMemory    *destination,
                                    gsize         destination_offset,
                                    GpuMemory    *source,
                                    gsize         source_offset,
                                    gsize         size,
                                    GpuPatience  *patience,
                                    GError      **error);

G_END_DECLS
