/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The timeline: what a stream has submitted and what of it is complete.
 *
 * Every submission is counted. A point is a pair of a timeline and such a number, and it is
 * reached when that submission and all before it are complete. Counting needs no driver call: a
 * fence, an event of the driver, is recorded only when somebody waits. Events, references kept in
 * flight, hazard tracking and deferred reuse stand on this. See docs/internals/timeline.md.
 */
#pragma once

#include "gpumem/backend/gpu-backend.h"
#include "gpumem/base/gpu-attributes-private.h"

G_BEGIN_DECLS

typedef struct _GpuTimeline  GpuTimeline;
typedef struct _GpuUserEvent GpuUserEvent;

/* An event of the driver that completes when the timeline reaches @seq. */
typedef struct
{
  gatomicrefcount  refs;
  guint64          seq;
  GpuNativeEvent  *event;
} GpuFence;

typedef struct
{
  GpuTimeline *timeline;
  guint64      seq;
} GpuPoint;

/* @error is NULL when the point was reached well. Called once, on any thread, with no lock held. */
typedef void (*GpuWaiterFunc) (gpointer      data,
                               const GError *error);

/* Somebody who may ask how a point ended: its failure is not forgotten. */
typedef struct
{
  GList   link;
  guint64 seq;
} GpuWatch;

/* How something is kept that has references. */
typedef struct
{
  GBoxedCopyFunc retain;
  GDestroyNotify release;
} GpuRetainType;

/* What is let go of once @seq is reached. */
typedef struct
{
  guint64         seq;
  gpointer        object;
  GDestroyNotify  release;
  gsize           size;             /* bytes of host memory that it holds */
} GpuRetained;

/* What every submission needs comes first, in one line. */
struct _GpuTimeline
{
  GpuNativeContext *context;
  GpuNativeStream  *stream;         /* NULL once nobody uses it */
  guint64           submitted;      /* atomic; written under lock */
  guint64           completed;      /* atomic; written under lock */
  GpuStreamFlags    flags;
  guint             n_user_waits;   /* atomic: length of user_waits; written under lock */
  GMutex            lock;
  GpuRetained       shared;         /* the last that was kept with a reference of its own; under
                                     * lock */
  GpuNativeDevice  *device;
  gboolean          is_borrowed;    /* the program may destroy stream once users is 0 */
  gboolean          is_ended;       /* under lock: is_borrowed, and users was 0 */
  gint              is_pooled;      /* atomic; memory of a pool was given back here, or the program
                                     * said that its own work here uses some */
  gint              refs;
  gint              users;          /* atomic; who may submit: GpuStream, mappings */
  int               priority;
  guint64           n_hazard_waits; /* atomic */
  gint              failed;         /* atomic; whether anything ever failed */
  gint              is_open;        /* atomic; whether the program has the driver's stream, and may
                                     * have put work of its own into it */

  GMutex            dual_lock;      /* of operations in a stream of another context as well, that
                                     * are submitted here; before failure locks and timelines */

  /* The lock guards what follows. */
  guint64           barrier;        /* out of order: all up to here is ordered before the rest */
  GQueue            fences;         /* of GpuFence, by seq */
  GQueue            waiters;        /* of GpuWaiter, by seq */
  GArray           *retained;       /* of GpuRetained, by seq; a queue that starts at
                                     * retained_first */
  guint             retained_first;
  gsize             retained_size;  /* bytes of host memory that it holds */
  guint             n_cross_driver; /* how many are copies between contexts */
  guint64           collect_to;     /* a job lets go of everything up to here */
  GArray           *jobs;           /* of guint64: the fences that jobs are waiting for */
  guint             n_finishing;    /* threads that wait for all that is in stream */
  GpuNativeEvent   *timed_event;    /* of the submission timed_seq, on profiling streams */
  guint64           timed_seq;
  GArray           *failures;       /* of GpuFailure, by seq; no two have a point in common */
  guint64           n_failures_recorded; /* the serial of the next failure */
  guint             n_failures_max; /* so many before those that nobody asks for are forgotten */
  GQueue            watches;        /* of GpuWatch */
  GPtrArray        *user_waits;     /* of GpuUserWait: user events that submissions wait for */
  guint             n_events_failed; /* _gpu_user_events_failed when user_waits were last searched
                                      * for failed events */
  gboolean          is_unordered;   /* one has failed since later work waits for what it overtook */
  GPtrArray        *partners;       /* nullable; of GpuTimeline, with a use and a reference: streams
                                     * in other contexts, for copies between them and this one */
};

GpuTimeline    *_gpu_timeline_new             (GpuNativeContext  *context,
                                               GpuNativeDevice   *device,
                                               GpuNativeStream   *stream,
                                               GpuStreamFlags     flags,
                                               int                priority);
/* One without a stream, whose point 1 is reached with @event, which it takes over. It is none of
 * the context's that others look for. */
GpuTimeline    *_gpu_timeline_new_for_event   (GpuNativeContext  *context,
                                               GpuNativeEvent    *event);
GpuTimeline    *_gpu_timeline_ref             (GpuTimeline       *timeline);
void            _gpu_timeline_unref           (GpuTimeline       *timeline);
/* A new timeline has one user. Once there is none, and all is complete, the driver's stream goes;
 * the points of the timeline stay. */
void            _gpu_timeline_use             (GpuTimeline       *timeline);
void            _gpu_timeline_unuse           (GpuTimeline       *timeline);
/* The stream stays between the two, for who waits for all that is in it, and is no user. FALSE if
 * it is gone. */
gboolean        _gpu_timeline_begin_finish_locked (GpuTimeline   *timeline,
                                               guint64           *submitted);
void            _gpu_timeline_end_finish      (GpuTimeline       *timeline);
/* Where no fence could be recorded in a stream that is borrowed, which may be gone as soon as the
 * lock is released: TRUE once all in it is over, with @failure if badly. */
gboolean        _gpu_timeline_drain_locked    (GpuTimeline       *timeline,
                                               GError           **failure);
/* Every living timeline of @context, with a reference each. */
GPtrArray      *_gpu_timeline_list            (GpuNativeContext  *context);

guint64         _gpu_timeline_get_submitted   (GpuTimeline       *timeline);

static inline gboolean
_gpu_timeline_is_complete (GpuTimeline *timeline,
                           guint64      seq)
{
  return __atomic_load_n (&timeline->completed, __ATOMIC_ACQUIRE) >= seq;
}

/* gpu-timeline-error.c, for a new timeline and for what retires: the points after @from up to @to
 * failed with @error, which is taken over. */
void            _gpu_timeline_init_failures   (GpuTimeline       *timeline);
void            _gpu_timeline_fail_locked     (GpuTimeline       *timeline,
                                               guint64            from,
                                               guint64            to,
                                               GError            *error);
/* Two reasons that are better than what the driver told of the points after @from. The first also
 * moves the waits up to @seq to @retired, for _gpu_user_wait_free(). */
void            _gpu_timeline_retire_user_waits_locked (GpuTimeline *timeline,
                                               guint64            seq,
                                               GQueue            *retired,
                                               guint64           *from,
                                               GError           **failure);
void            _gpu_timeline_inherit_cause_locked (GpuTimeline  *timeline,
                                               guint64            from,
                                               GError           **failure);
void            _gpu_user_wait_free           (gpointer           wait);
/* A copy that the engine gave up fails by itself: its commands did not. Called as @retained leaves;
 * @failed: whether the driver tells of a failure. */
void            _gpu_timeline_check_retained_locked (GpuTimeline *timeline,
                                                   const GpuRetained *retained,
                                                   gboolean           failed);
gboolean        _gpu_retained_is_cross_driver (const GpuRetained *retained);
/* Copies between contexts up to @seq that are not over, NULL if there are none, and their failure
 * as that of all that is submitted to another timeline from now on, until it is noticed. */
GPtrArray      *_gpu_timeline_list_cross_driver_locked (GpuTimeline *timeline,
                                               guint64            seq);
void            _gpu_timeline_inherit_cross_driver_locked (GpuTimeline *timeline,
                                               GPtrArray         *list);
/* Why the point @seq, which is complete, failed: TRUE if it did not. */
gboolean        _gpu_timeline_check           (GpuTimeline       *timeline,
                                               guint64            seq,
                                               GError           **error);

/* Atomic; TRUE once any work of the process has failed. Until then nobody looks for failures. */
extern gint _gpu_timeline_any_failed;

/* FALSE, with the reason, if the point @seq will fail because of a user event that has failed. For
 * points that are not known to be complete. */
gboolean        _gpu_timeline_check_pending   (GpuTimeline       *timeline,
                                               guint64            seq,
                                               GError           **error);

void            _gpu_timeline_watch           (GpuTimeline       *timeline,
                                               GpuWatch          *watch,
                                               guint64            seq);
void            _gpu_timeline_unwatch         (GpuTimeline       *timeline,
                                               GpuWatch          *watch);

/* Between _lock() and _unlock(), by whoever submits. */
static inline void
_gpu_timeline_lock (GpuTimeline *timeline)
{
  g_mutex_lock (&timeline->lock);
}

static inline void
_gpu_timeline_unlock (GpuTimeline *timeline)
{
  g_mutex_unlock (&timeline->lock);
}

/* The same for calls of the driver. While user events may fail the work, it also takes the failure
 * lock of the context, which comes first, and tells so: PoCL may both fail and run what is enqueued
 * while it is failing what comes before. */
gboolean        _gpu_timeline_lock_against_failure (GpuTimeline  *timeline);
void            _gpu_timeline_unlock_against_failure (GpuTimeline       *timeline,
                                                      gboolean           has_failure_lock);

/* Ends the range of points that each failed user event fails at the last submission. */
void            _gpu_timeline_note_failed_locked (GpuTimeline    *timeline);

/* Counts a submission; its number. */
static inline guint64
_gpu_timeline_submit_locked (GpuTimeline *timeline)
{
  guint64 seq = timeline->submitted + 1;

  if (G_UNLIKELY (timeline->n_user_waits > 0))
    _gpu_timeline_note_failed_locked (timeline);

  if (G_UNLIKELY (timeline->completed == timeline->submitted))
    g_atomic_int_inc (&timeline->context->n_active);

  __atomic_store_n (&timeline->submitted, seq, __ATOMIC_RELEASE);

  return seq;
}

/* Counts one that stands for work which the program may itself have put into the driver's stream,
 * where it has that: who waits for it waits for that work. */
void            _gpu_timeline_append_point_locked (GpuTimeline   *timeline);
/* The point behind all that was submitted so far, such work too. Behind the last of a stream that
 * is borrowed and gone there is one already. */
guint64         _gpu_timeline_append_point    (GpuTimeline       *timeline);

/* The same, but without a new point if only the library submits work to the stream. */
static inline guint64
_gpu_timeline_get_last_point (GpuTimeline *timeline)
{
  return G_UNLIKELY (g_atomic_int_get (&timeline->is_open))
         ? _gpu_timeline_append_point (timeline) : _gpu_timeline_get_submitted (timeline);
}

/* Counts a submission to an idle timeline that is over already; its number. */
static inline guint64
_gpu_timeline_pass_locked (GpuTimeline *timeline)
{
  guint64 seq = timeline->submitted + 1;

  __atomic_store_n (&timeline->submitted, seq, __ATOMIC_RELEASE);
  __atomic_store_n (&timeline->completed, seq, __ATOMIC_RELEASE);

  return seq;
}

/* Whether all work of the context, of this timeline before all, is known to be over. */
static inline gboolean
_gpu_timeline_is_alone_locked (GpuTimeline *timeline)
{
  return timeline->completed == timeline->submitted
         && g_atomic_int_get (&timeline->context->n_active) == 0;
}

/* Keeps @object until all that is submitted now is complete. */
void            _gpu_timeline_retain_locked   (GpuTimeline       *timeline,
                                               gpointer           object,
                                               GDestroyNotify     release,
                                               gsize              size);
/* The same, with a reference of its own, for what is used again and again: one reference does for
 * a row of uses. */
GPU_COLD void   _gpu_timeline_share_locked    (GpuTimeline         *timeline,
                                               gpointer             object,
                                               const GpuRetainType *type);

static inline void
_gpu_timeline_retain_shared_locked (GpuTimeline         *timeline,
                                    gpointer             object,
                                    const GpuRetainType *type)
{
  if (G_LIKELY (timeline->shared.object == object))
    timeline->shared.seq = timeline->submitted;
  else
    _gpu_timeline_share_locked (timeline, object, type);
}

/* @fence, if not NULL, is what the stream waits for and @event may fail. If that has failed by now,
 * only the fence will tell whether it fails with it. */
void            _gpu_timeline_wait_user_locked (GpuTimeline      *timeline,
                                               guint64            seq,
                                               GpuUserEvent      *event,
                                               GpuFence          *fence);
/* Whether work waits for a user event that may still fail, or has failed. PoCL aborts when such
 * work fails and nobody holds its event, so that all its events are kept meanwhile. */
gboolean        _gpu_timeline_search_failing_locked (GpuTimeline *timeline);

static inline gboolean
_gpu_timeline_may_fail_locked (GpuTimeline *timeline)
{
  return G_UNLIKELY (timeline->n_user_waits > 0)
         && _gpu_timeline_search_failing_locked (timeline);
}

/* Keeps @event, of a command that is no operation of its own, as a submission. */
void            _gpu_timeline_retain_event_locked (GpuTimeline   *timeline,
                                                 GpuNativeEvent    *event);
/* Those of them that work up to @seq waits for; NULL if there are none. */
GPtrArray      *_gpu_timeline_list_user_events_locked (GpuTimeline *timeline,
                                               guint64            seq);
/* (transfer full) (nullable): the user events that the point @seq depends on: if one of them fails,
 * the point fails. @seq may be the next point. */
GPtrArray      *_gpu_timeline_list_causes_locked (GpuTimeline    *timeline,
                                               guint64            seq);
/* FALSE, with the reason, if a user event failed the complete operation @seq, which drivers do not
 * always report. Points before it may be pending. */
gboolean        _gpu_timeline_check_operation (GpuTimeline       *timeline,
                                               guint64            seq,
                                               GError           **error);
/* Adds to @events those of fences that later work must wait for after a failure: PoCL gives up the
 * order of a queue when a user event fails, while work before it still runs. */
void            _gpu_timeline_list_unordered_locked (GpuTimeline *timeline,
                                               GPtrArray         *events);
/* Later work waits for them now. */
void            _gpu_timeline_set_reordered_locked (GpuTimeline  *timeline);
/* Orders all that is submitted later after all that is submitted now. */
gboolean        _gpu_timeline_barrier_locked  (GpuTimeline       *timeline,
                                               GError           **error);

/* A fence that covers @seq, recorded if there is none yet; NULL if @seq is reached already. */
gboolean        _gpu_timeline_get_fence       (GpuTimeline       *timeline,
                                               guint64            seq,
                                               GpuFence         **fence,
                                               GError           **error);
GpuFence       *_gpu_fence_ref                (GpuFence          *fence);
void            _gpu_fence_unref              (GpuFence          *fence);

/* @seq and all before it are over, @failure says if badly. */
void            _gpu_timeline_retire          (GpuTimeline       *timeline,
                                               guint64            seq,
                                               const GError      *failure);
/* Gives @func to the timeline, with its lock held. */
void            _gpu_timeline_add_waiter_locked (GpuTimeline     *timeline,
                                               guint64            seq,
                                               GpuWaiterFunc      func,
                                               gpointer           data);

/* Takes back what was given to the timeline, if @func was not called yet. */
gboolean        _gpu_timeline_remove_waiter   (GpuTimeline       *timeline,
                                               GpuWaiterFunc      func,
                                               gpointer           data);

/* Blocks until the point is reached; FALSE if it failed. */
gboolean        _gpu_timeline_wait            (GpuTimeline       *timeline,
                                               guint64            seq,
                                               GError           **error);
/* The same, giving up at @deadline (monotonic microseconds, -1 for never) or when cancelled. */
gboolean        _gpu_timeline_wait_until      (GpuTimeline       *timeline,
                                               guint64            seq,
                                               gint64             deadline,
                                               GCancellable      *cancellable,
                                               GError           **error);
GpuEventStatus  _gpu_timeline_query           (GpuTimeline       *timeline,
                                               guint64            seq,
                                               GError           **error);
/* Calls @func once @seq is reached. FALSE, and no call, if no fence could be recorded. */
gboolean        _gpu_timeline_notify          (GpuTimeline       *timeline,
                                               guint64            seq,
                                               GpuWaiterFunc      func,
                                               gpointer           data,
                                               GError           **error);
/* Has a job let go of everything submitted so far as soon as it is complete. */
void            _gpu_timeline_collect_locked  (GpuTimeline       *timeline);
/* The job that waited for @seq does so no more. */
void            _gpu_timeline_job_end         (GpuTimeline       *timeline,
                                               guint64            seq);
/* The first point that a waiter or a reaper needs, 0 if nobody needs any. */
guint64         _gpu_timeline_get_needed_locked (GpuTimeline     *timeline);
/* The same, and gives @object to the timeline until then. */
void            _gpu_timeline_defer_until_complete (GpuTimeline       *timeline,
                                                    gpointer           object,
                                                    GDestroyNotify     release);

GpuFence       *_gpu_timeline_get_fence_locked (GpuTimeline      *timeline,
                                               guint64            seq,
                                               GError           **error);

void            _gpu_point_set                (GpuPoint          *point,
                                               GpuTimeline       *timeline,
                                               guint64            seq);
void            _gpu_point_clear              (GpuPoint          *point);

static inline gboolean
_gpu_point_is_pending (const GpuPoint *point)
{
  return point->timeline != NULL && !_gpu_timeline_is_complete (point->timeline, point->seq);
}

/* What to wait for after an operation: nothing if there is no event. */
typedef struct
{
  GpuNativeEvent *event;
  guint64         covers;           /* the point that is reached with the event, 0 for none; after
                                     * a failure, that of the part which the driver took */
  guint64         seq;              /* of the operation, with an event */
  gboolean        if_idle;          /* set by the caller: submit only what waits for nothing */
  gboolean        busy;             /* with if_idle: nothing was submitted */
} GpuPending;

/* Blocks until the operation is over, and lets go of the event. */
gboolean _gpu_pending_wait (GpuPending           *pending,
                            GpuTimeline          *timeline,
                            GError              **error);

typedef struct _GpuTaskWait GpuTaskWait;

/* Returns @task in its main context, once its cancellable is cancelled or _gpu_task_wait_end() is
 * called: with @result, which it takes over, or with TRUE if that is NULL. */
GpuTaskWait    *_gpu_task_wait_new            (GTask             *task,
                                               gpointer           result,
                                               GDestroyNotify     result_free);
/* A GpuWaiterFunc, on any thread; takes over the GpuTaskWait that @wait is. */
void            _gpu_task_wait_end            (gpointer           wait,
                                               const GError      *error);

/* Returns @task once the point is reached, or once its cancellable is cancelled: with @result,
 * which it takes over, or with TRUE if that is NULL. */
void            _gpu_timeline_return_task   (GpuTimeline     *timeline,
                                             guint64          seq,
                                             GTask           *task,
                                             gpointer         result,
                                             GDestroyNotify   result_free);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (GpuTimeline, _gpu_timeline_unref)
G_DEFINE_AUTOPTR_CLEANUP_FUNC (GpuFence, _gpu_fence_unref)

G_END_DECLS
