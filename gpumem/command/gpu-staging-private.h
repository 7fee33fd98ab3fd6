/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Between the verbs that copy memory of the host and the staging engine. */
#pragma once

#include "gpumem/staging/gpu-transfer.h"
#include "gpumem/stream/gpu-submission-private.h"

G_BEGIN_DECLS

/* NULL if the copy had better go straight: like one of less than this, without a closer look. */
#define GPU_STAGING_SIZE_MIN (16 * 1024)

GpuTransfer *_gpu_timeline_stage         (GpuTimeline            *timeline,
                                          GpuMemory              *memory,
                                          const GpuTransferCopy  *copy,
                                          gboolean                blocking);
/* _gpu_submit() of a staged copy, whose operation puts it into the stream. Ends it. */
gboolean     _gpu_submit_staged          (GpuTimeline            *timeline,
                                          GpuSubmission          *submission,
                                          GpuTransfer            *transfer,
                                          GpuPending             *pending,
                                          GError                **error);

G_END_DECLS
