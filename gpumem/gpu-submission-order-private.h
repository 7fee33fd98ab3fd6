/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The part of a submission that puts it behind work elsewhere. */
#pragma once

#include "gpumem/gpu-submission-private.h"

G_BEGIN_DECLS

typedef struct
{
  GpuTimeline         *timeline;
  const GpuSubmission *submission;
  GpuStorage         **roots;       /* each once, by address, locked */
  guint                n_roots;
  GPtrArray           *waits;       /* of GpuFence on other timelines; NULL while there is none */
  GPtrArray           *user_events; /* that may fail the waits; NULL likewise */
  GpuNativeEvent      *user_wait;   /* of the submission's user event, nullable */
  guint64              own;         /* the last point of this timeline that must come before */
  gboolean             has_failure_lock;
} GpuSubmitter;

/* With the locks of the roots held: what must come before. */
gboolean _gpu_submitter_collect_locked (GpuSubmitter  *s,
                                        GError       **error);
/* With the failure lock held: what has failed by now is over, and must not be waited for. FALSE if
 * it is what the caller asked to wait for. */
gboolean _gpu_submitter_drop_failed    (GpuSubmitter  *s,
                                        GError       **error);
/* With the timeline's lock held: has the stream wait for what was collected; and, with the failure
 * lock held too, for what a failure of a user event has overtaken. */
gboolean _gpu_submitter_order_locked   (GpuSubmitter  *s,
                                        GError       **error);
void     _gpu_submitter_clear          (GpuSubmitter  *s);

G_END_DECLS
