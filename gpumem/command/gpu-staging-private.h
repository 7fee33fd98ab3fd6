/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The interface between the copy operations and the staging engine. */
#pragma once

#include "gpumem/staging/gpu-transfer.h"
#include "gpumem/stream/gpu-submission-private.h"

G_BEGIN_DECLS

/* Copies of up to this number of bytes are never staged, so callers need not call
 * _gpu_timeline_stage() for them. */
#define GPU_STAGING_SIZE_MIN (16 * 1024)

/* Returns NULL if the copy should be submitted to the driver directly. */
GpuTransfer *_gpu_timeline_stage         (GpuTimeline            *timeline,
                                          GpuMemory              *memory,
                                          const GpuTransferCopy  *copy,
                                          gboolean                blocking);
/* Returns FALSE with GPU_ERROR_NOT_SUPPORTED if the stream is being captured, for operations that a
 * graph cannot contain: the host would wait for the graph, threads of the library take part, or the
 * library frees memory that the graph would read again. Also returns FALSE if the device is lost or
 * the process was forked: in a forked process, not even the locks are usable. */
gboolean     _gpu_timeline_check_capture (GpuTimeline            *timeline,
                                          const char             *function,
                                          GError                **error);
/* Submits a staged copy with _gpu_submit(), and ends the transfer. */
gboolean     _gpu_submit_staged          (GpuTimeline            *timeline,
                                          GpuSubmission          *submission,
                                          GpuTransfer            *transfer,
                                          GpuPending             *pending,
                                          GError                **error);

G_END_DECLS
