/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Orders a submission after work of other streams. */
#pragma once

#include "gpumem/stream/gpu-submission-private.h"

G_BEGIN_DECLS

/* A fence of another timeline, for which the stream must wait. */
typedef struct
{
  GpuFence         *fence;
  GpuNativeContext *context;        /* the context of that timeline; borrowed */
  GPtrArray        *user_events;    /* nullable; user events whose failure may fail the fence */
  GPtrArray        *cross;          /* nullable; cross-driver copies whose failure fails the fence;
                                     * drivers do not report such failures */
  guint64           capture;        /* the number of the capture that the fence belongs to, or 0 */
  gboolean          is_asked;       /* the fence belongs to `submission->after`, so its failure
                                     * fails the submission */
} GpuFenceWait;

typedef struct
{
  GpuTimeline         *timeline;
  const GpuSubmission *submission;
  GpuStorage         **roots;       /* unique, sorted by address, locked */
  guint                n_roots;
  GArray              *waits;       /* of GpuFenceWait; NULL if empty */
  guint64              capture;     /* the number of the capture that the stream takes part in or
                                     * joins, or 0; set before the first wait */
  gboolean             is_searching; /* find `capture`, and collect no waits */
  gboolean             has_others;  /* other streams have pending work that the submission must
                                     * follow; only set while is_searching is */
  guint64              captured;    /* the handle of a stream: one of the waits is for captured
                                     * work of it. 0 for none */
  gboolean             is_exclusive; /* some of the memory is exclusive */
  gboolean             is_external; /* some of the memory is external */
  gboolean             retains_events; /* collect the events of acquire, release and barriers in
                                        * `handover` and retain them, because the work may fail */
  GpuNativeEvent      *handover[5]; /* events of acquire, release and barriers */
  guint                n_handover;
  GPtrArray           *causes;      /* nullable; user events whose failure fails
                                     * `submission->after` */
  gboolean             may_fail;    /* whether user events may fail the waits */
  GpuNativeEvent      *user_wait;   /* native event of `submission->user_event`; nullable */
  guint64              own;         /* the last submission to the same stream that the operation
                                     * must follow */
  gboolean             has_failure_lock;
  gboolean             has_dropped; /* the submission no longer waits for some work that has failed;
                                     * that failure is not recorded yet */
  gboolean             may_retry;   /* whether this is the first attempt */
  gboolean             must_retry;  /* nothing was submitted, because has_dropped was set */
  GpuNativeContext    *lost;        /* another context that was lost; nullable */
  GError              *loss;        /* the error that shows the loss of `lost`; marks that context
                                     * as lost after all locks are released */
  gboolean             is_others;   /* the error to report belongs to another context */
} GpuSubmitter;

/* Collects the earlier work that the submission must follow. Caller holds the locks of the
 * roots. */
gboolean _gpu_submitter_collect_locked (GpuSubmitter  *s,
                                        GError       **error);
/* Removes the waits for failed work. Fails if `submission->after` failed. Caller holds the failure
 * lock if user events may fail the waits. */
gboolean _gpu_submitter_drop_failed    (GpuSubmitter  *s,
                                        GError       **error);
/* A graph waits for no work outside of it, and the driver does not merge two captures: such a wait
 * would invalidate the capture. If the submission is captured or joins a capture, removes the waits
 * for completed and failed work, and fails with GPU_ERROR_NOT_SUPPORTED if others remain, or with
 * their error if `submission->after` failed. Caller holds the timeline's lock. */
gboolean _gpu_submitter_isolate_locked (GpuSubmitter  *s,
                                        GError       **error);
/* Makes the stream wait for the collected fences. If a user event has failed, the driver may run
 * later work before earlier work: if the failure lock is held, also waits for the earlier work.
 * Caller holds the timeline's lock. */
gboolean _gpu_submitter_order_locked   (GpuSubmitter  *s,
                                        GError       **error);
/* @failure is the error of a copy between contexts. Sets is_others if @failure reports that the
 * other context is lost. Caller holds no lock. */
void     _gpu_submitter_find_lost      (GpuSubmitter  *s,
                                        const GError  *failure);
void     _gpu_submitter_clear          (GpuSubmitter  *s);

/* gpu-submission.c. Treats reads of exclusive or external memory as writes, so that such memory has
 * one user at a time. */
void     _gpu_submitter_promote_to_write (GpuSubmitter *s);
gboolean _gpu_submitter_attach_locked  (GpuSubmitter  *s,
                                        GError       **error);
/* Returns FALSE with an error if the submission reads memory whose last write failed. May query the
 * driver. Caller holds no lock. */
gboolean _gpu_submission_check_writers  (const GpuSubmission *submission,
                                        GError              **error);
/* Returns FALSE with an error if the submission writes constant memory. */
gboolean _gpu_submission_check_constant (const GpuSubmission *submission,
                                        GError              **error);
/* Returns whether the stream has received some commands of an operation, also those that attach or
 * acquire its memory, and resets this for the next operation. */
static inline gboolean
_gpu_submission_take_partial_locked (GpuTimeline *timeline)
{
  gboolean partial = timeline->stream->partial || timeline->is_prepared;

  timeline->stream->partial = timeline->is_prepared = FALSE;

  return partial;
}

/* Counts an operation that the driver accepted. Takes ownership of @event and @timed, which may be
 * NULL. @event is the event of the last command. If another command is the one to be timed, @timed
 * is the event of that command. */
void     _gpu_submission_enter_locked  (const GpuSubmission  *submission,
                                        GpuTimeline          *timeline,
                                        GpuNativeEvent       *event,
                                        GpuNativeEvent       *timed,
                                        GpuPending           *pending);

/* gpu-submission-external.c. The first function acquires external memory from the other API. The
 * second function releases the memory unless it stays mapped, and must be called even after an
 * acquire or an operation has failed. @success is whether the operation was enqueued. @event is
 * nullable, and is not changed if nothing is released. Caller holds the locks. */
gboolean _gpu_submitter_acquire_locked (GpuSubmitter         *s,
                                        GError              **error);
gboolean _gpu_submitter_release_locked (GpuSubmitter         *s,
                                        gboolean              success,
                                        GpuNativeEvent      **event,
                                        GError              **error);
/* Makes the timeline retain the events in `handover` until the operation completes. Caller has
 * counted the operation as a submission. */
void     _gpu_submitter_retain_handover_locked (GpuSubmitter *s);
/* Acquires, runs the operation and releases. */
gboolean _gpu_submitter_run_external_locked (GpuSubmitter    *s,
                                        GpuPending           *pending,
                                        GError              **error);

G_END_DECLS
