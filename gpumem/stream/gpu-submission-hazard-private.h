/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The part of a submission that puts it behind work elsewhere. */
#pragma once

#include "gpumem/stream/gpu-submission-private.h"

G_BEGIN_DECLS

/* A fence of another timeline that the stream has to wait for. */
typedef struct
{
  GpuFence         *fence;
  GpuNativeContext *context;        /* of that timeline, which whoever names the point holds */
  GPtrArray        *user_events;    /* that may fail it, nullable */
  GPtrArray        *cross;          /* copies between contexts, likewise; no driver tells of them */
  gboolean          is_asked;       /* its failure is that of the submission */
} GpuFenceWait;

typedef struct
{
  GpuTimeline         *timeline;
  const GpuSubmission *submission;
  GpuStorage         **roots;       /* each once, by address, locked */
  guint                n_roots;
  GArray              *waits;       /* of GpuFenceWait; NULL while there is none */
  gboolean             is_exclusive; /* whether it uses such memory */
  gboolean             is_external; /* likewise */
  gboolean             retains_events; /* of what hands external memory over: the work may fail */
  GpuNativeEvent      *handover[5]; /* n_handover: those */
  guint                n_handover;
  GPtrArray           *causes;      /* nullable; user events that fail the work which the caller
                                     * asked to wait for */
  gboolean             may_fail;    /* whether user events may fail the waits */
  GpuNativeEvent      *user_wait;   /* of the submission's user event, nullable */
  guint64              own;         /* the last point of this timeline that must come before */
  gboolean             has_failure_lock;
  gboolean             has_dropped; /* a wait for failed work, whose failure is not recorded yet */
  gboolean             may_retry;   /* this is the first attempt */
  gboolean             must_retry;  /* nothing was submitted, because of has_dropped */
  GpuNativeContext    *lost;        /* another one that turned out to be lost, nullable */
  GError              *loss;        /* how: for that context to be told, with no lock held */
  gboolean             is_others;   /* the error is one of theirs, not of our context */
} GpuSubmitter;

/* With the locks of the roots held: what must come before. */
gboolean _gpu_submitter_collect_locked (GpuSubmitter  *s,
                                        GError       **error);
/* What has failed by now is over, and must not be waited for. FALSE if it is what the caller asked
 * to wait for. With the failure lock held, if user events may fail what is waited for. */
gboolean _gpu_submitter_drop_failed    (GpuSubmitter  *s,
                                        GError       **error);
/* With the timeline's lock held: has the stream wait for what was collected; and, with the failure
 * lock held too, for what a failure of a user event has overtaken. */
gboolean _gpu_submitter_order_locked   (GpuSubmitter  *s,
                                        GError       **error);
/* With no lock held: sets is_others if @failure, of a copy, is a device lost that is not ours. */
void     _gpu_submitter_find_lost      (GpuSubmitter  *s,
                                        const GError  *failure);
void     _gpu_submitter_clear          (GpuSubmitter  *s);

/* gpu-submission.c: treats reads of exclusive or external memory as writes: one user at a time. */
void     _gpu_submitter_promote_to_write (GpuSubmitter *s);
gboolean _gpu_submitter_attach_locked  (GpuSubmitter  *s,
                                        GError       **error);
/* FALSE if the last write of memory that the submission reads failed. May ask the driver. Caller
 * holds no lock. */
gboolean _gpu_submission_check_writers  (const GpuSubmission *submission,
                                        GError              **error);
/* FALSE if the submission writes constant memory. */
gboolean _gpu_submission_check_constant (const GpuSubmission *submission,
                                        GError              **error);
/* With the locks: FALSE for memory that was released or is mapped meanwhile. */
gboolean _gpu_submission_check_locked  (const GpuSubmission  *submission,
                                        GError              **error);
/* What the driver took gets its number. Takes the events over, which are nullable: @timed is the
 * one that tells the times, if it is another than @event. */
void     _gpu_submission_enter_locked  (const GpuSubmission  *submission,
                                        GpuTimeline          *timeline,
                                        GpuNativeEvent       *event,
                                        GpuNativeEvent       *timed,
                                        GpuPending           *pending);

/* gpu-submission-external.c. With the locks: the stream takes external memory from the other API,
 * and gives it back, but for what stays mapped; also after a failure of either. @success: whether
 * what used it is in the stream. @event, nullable, stays as it is where nothing is given back. */
gboolean _gpu_submitter_acquire_locked (GpuSubmitter         *s,
                                        GError              **error);
gboolean _gpu_submitter_release_locked (GpuSubmitter         *s,
                                        gboolean              success,
                                        GpuNativeEvent      **event,
                                        GError              **error);
/* When the operation was entered. */
void     _gpu_submitter_retain_handover_locked (GpuSubmitter *s);
/* All of it, with the operation between. */
gboolean _gpu_submitter_run_external_locked (GpuSubmitter    *s,
                                        GpuPending           *pending,
                                        GError              **error);

G_END_DECLS
