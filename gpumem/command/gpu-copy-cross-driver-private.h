/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Copies between contexts for which no driver has a copy operation. */
#pragma once

#include "gpumem/command/gpu-command-private.h"
#include "gpumem/stream/gpu-submission-private.h"

G_BEGIN_DECLS

/* Returns whether no driver has an operation for copies between these two memory objects of
 * different contexts. */
gboolean _gpu_timeline_is_cross_driver (GpuTimeline  *timeline,
                                        GpuMemory    *destination,
                                        GpuMemory    *source);
/* Returns whether a copy between memory of two contexts should go through page-locked memory.
 * Otherwise, the driver copies. If the devices can copy directly, this function has enabled the
 * access that they need. Caller holds no locks. */
gboolean _gpu_timeline_copies_through_host (GpuTimeline         *timeline,
                                            const GpuRangeCopy  *copy);
/* (transfer full): gets the stream in @context that executes cross-driver copies together with
 * @timeline. After such a copy, later work on either stream is ordered after all earlier work on
 * both streams. In the context of @timeline, gets the stream that gpu_buffer_unspill() writes on.
 * If work of that stream fails, later calls return another stream. */
GpuTimeline *_gpu_timeline_get_partner (GpuTimeline       *timeline,
                                    GpuNativeContext  *context,
                                    const char        *function,
                                    GError           **error);
void         _gpu_timeline_release_partner (GpuTimeline  *partner);
/* Options for a copy that no stream can execute: the calling thread performs the copy, and
 * blocks. */
typedef struct
{
  GCancellable *cancellable;        /* nullable */
  gboolean      must_not_block;     /* instead of blocking, submit nothing and set would_block */
  gboolean      would_block;
} GpuPatience;

/* Caller has checked that the ranges are within the memory and not empty, and that
 * _gpu_timeline_copies_through_host() is TRUE. If @patience is NULL, the call may block, unless the
 * driver has an operation for the copy. */
gboolean _gpu_timeline_copy_cross_driver (GpuTimeline         *timeline,
                                          const char          *function,
                                          const GpuRangeCopy  *copy,
                                          GpuPending          *pending,
                                          GpuPatience         *patience,
                                          GError             **error);
/* Like _gpu_timeline_copy(), but also copies between drivers. */
gboolean _gpu_timeline_copy_with   (GpuTimeline         *timeline,
                                    const char          *function,
                                    const GpuRangeCopy  *copy,
                                    GpuPatience         *patience,
                                    GError             **error);

G_END_DECLS
