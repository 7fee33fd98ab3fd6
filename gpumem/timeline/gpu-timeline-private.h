/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The timeline counts the submissions of a stream and their completion.
 *
 * Every submission has a number. A point is a pair of a timeline and such a number. A point is
 * reached when that submission and all earlier submissions have completed. Counting needs no driver
 * call: a fence, which is an event of the driver, is recorded only when a thread, a stream or a job
 * must wait, or behind an operation that waits for another stream. Events, retained references,
 * hazard tracking and deferred reuse are built on points.
 * See docs/internals/timeline.md.
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
  gint             is_polled;       /* atomic; a wait with a timeout has polled the event */
  guint64          seq;
  GpuNativeEvent  *event;
} GpuFence;

typedef struct
{
  GpuTimeline *timeline;
  guint64      seq;
} GpuPoint;

/* @error is the error of the point, NULL if the point did not fail. Called once, on any thread,
 * with no lock held. */
typedef void (*GpuWaiterFunc) (gpointer      data,
                               const GError *error);

/* A watch on points of the timeline. If one of the points fails, the timeline keeps the failure
 * until the watch is removed. */
typedef struct
{
  GList   link;
  guint64 first;                    /* both 0 if no point is watched */
  guint64 last;
} GpuWatch;

/* The functions that reference and release a retained object. */
typedef struct
{
  GBoxedCopyFunc retain;
  GDestroyNotify release;
} GpuRetainType;

/* An object that is released once @seq is reached. */
typedef struct
{
  guint64         seq;
  gpointer        object;
  GDestroyNotify  release;
  gsize           size;             /* bytes of host memory that the object holds */
} GpuRetained;

/* Set in `flags` with GPUMEM_DEBUG=marks, so that _gpu_submit() tests it together with
 * GPU_STREAM_FLAGS_OUT_OF_ORDER. */
#define GPU_TIMELINE_MARKS (1 << 16)

/* The part that a stream of the program can have in a capture of work into a graph. */
typedef enum
{
  GPU_CAPTURE_ROLE_NONE,
  GPU_CAPTURE_ROLE_STREAM,          /* its work may be captured */
  GPU_CAPTURE_ROLE_LEGACY           /* the legacy default stream: any work of it ends captures of
                                     * other streams with an error, unless they are non-blocking */
} GpuCaptureRole;

/* The fields that every submission needs come first, in one cache line. */
struct _GpuTimeline
{
  GpuNativeContext *context;
  GpuNativeStream  *stream;         /* NULL after the driver's stream was freed, or if there is
                                     * none */
  guint64           submitted;      /* atomic; written under lock */
  guint64           completed;      /* atomic; written under lock */
  GpuStreamFlags    flags;          /* of the stream, and GPU_TIMELINE_MARKS */
  guint             n_user_waits;   /* atomic: length of user_waits; written under lock */
  GMutex            lock;
  GpuRetained       shared;         /* the last object passed to
                                     * _gpu_timeline_retain_shared_locked(); guarded by lock */
  GpuNativeDevice  *device;
  gboolean          is_borrowed;    /* the program may destroy `stream` once `users` is 0 */
  gboolean          is_ended;       /* guarded by lock; the last user of a borrowed stream was
                                     * removed */
  gint              is_pooled;      /* atomic; pool memory was freed in the order of this stream,
                                     * or the program registered the stream for its own work */
  gint              refs;
  gint              users;          /* atomic; number of objects that may submit work, such as a
                                     * GpuStream or a mapping */
  int               priority;
  guint64           n_hazard_waits; /* atomic */
  gint              failed;         /* atomic; whether any work ever failed */
  guint64           reported;       /* atomic; the failed last point that gpu_context_synchronize()
                                     * has reported since the last user was removed, 0 if none */
  gint              is_open;        /* atomic; whether the program has the handle of the driver's
                                     * stream, and may have submitted its own work */
  GpuCaptureRole    capture_role;   /* guarded by the lock of captures of pools */

  GMutex            dual_lock;      /* held by dual-stream submissions to this stream; taken before
                                     * failure locks and timeline locks */

  /* The lock guards the fields below. */
  guint64           barrier;        /* on an out-of-order stream: later work is ordered after the
                                     * points up to this one */
  GQueue            fences;         /* of GpuFence, by seq */
  GQueue            waiters;        /* of GpuWaiter, by seq */
  GArray           *retained;       /* of GpuRetained, by seq; a queue that starts at
                                     * retained_first */
  guint             retained_first;
  gsize             retained_size;  /* bytes of host memory that the retained objects hold */
  guint             n_cross_driver; /* the number of retained cross-driver copies */
  guint64           collect_to;     /* a job releases all objects retained up to this point */
  GArray           *jobs;           /* of guint64: the fences that jobs are waiting for */
  guint             n_finishing;    /* threads that wait for all work in `stream` */
  GpuNativeEvent   *timed_event;    /* of the last operation that has times, on profiling streams */
  guint64           timed_seq;      /* that operation, or the last of the waits, markers and points
                                     * that directly follow it */
  GArray           *failures;       /* of GpuFailure, by seq, without overlaps */
  guint64           n_failures_recorded; /* the serial of the next failure */
  guint             n_failures_max; /* when `failures` has this length, failures without a watch are
                                     * dropped */
  GQueue            watches;        /* of GpuWatch */
  GPtrArray        *user_waits;     /* of GpuUserWait: user events that submissions wait for */
  GHashTable       *user_events;    /* GpuUserEvent to the GpuUserWait in user_waits that was added
                                     * before the event failed */
  guint             n_events_failed; /* value of _gpu_user_events_failed when user_waits were last
                                      * searched for failed events */
  gboolean          is_unordered;   /* a user event has failed, so the driver may run later work
                                     * before pending earlier work; TRUE until a submission waits
                                     * for this earlier work */
  gboolean          is_prepared;    /* the stream has attached or acquired memory for the operation
                                     * that is being submitted */
  gpointer          file_queue;     /* nullable; a GpuTransferQueue: the pending copies of files */
  GPtrArray        *partners;       /* nullable; of GpuTimeline, each with a use and a reference:
                                     * streams of other contexts, for cross-driver copies, and one
                                     * of the same context, for gpu_buffer_unspill() */
};

GpuTimeline    *_gpu_timeline_new             (GpuNativeContext  *context,
                                               GpuNativeDevice   *device,
                                               GpuNativeStream   *stream,
                                               GpuStreamFlags     flags,
                                               int                priority);
/* Creates a timeline without a stream, whose point 1 is reached when @event completes. Takes
 * ownership of @event. The timeline is not in the list of its context. */
GpuTimeline    *_gpu_timeline_new_for_event   (GpuNativeContext  *context,
                                               GpuNativeEvent    *event);
GpuTimeline    *_gpu_timeline_ref             (GpuTimeline       *timeline);
void            _gpu_timeline_unref           (GpuTimeline       *timeline);
/* A new timeline has one user. When the last user is removed and all work has completed, the
 * driver's stream is freed; the points of the timeline remain valid. */
void            _gpu_timeline_use             (GpuTimeline       *timeline);
void            _gpu_timeline_unuse           (GpuTimeline       *timeline);
/* These functions keep the stream alive between the two calls, for a thread that waits for all work
 * in the stream and is not a user of the timeline. The first function returns FALSE if the stream
 * was freed, or is a borrowed stream that may be destroyed. The second function also retires the
 * points up to @seq, like _gpu_timeline_retire(), under the same lock. */
gboolean        _gpu_timeline_begin_finish_locked (GpuTimeline   *timeline,
                                               guint64           *submitted);
void            _gpu_timeline_end_finish      (GpuTimeline       *timeline,
                                               guint64            seq,
                                               const GError      *failure);
/* Called if no fence could be recorded. The program may destroy a borrowed stream as soon as the
 * lock is released, so this function waits for all work of the stream. Returns TRUE if all work has
 * completed, and sets @failure if work failed. Returns FALSE without waiting if the stream is not
 * borrowed, or if work waits for user events. */
gboolean        _gpu_timeline_drain_locked    (GpuTimeline       *timeline,
                                               GError           **failure);
/* Waits for the last point, for gpu_context_synchronize(). A timeline without users reports the
 * failure of its last point once: no new work can follow the failed work. */
gboolean        _gpu_timeline_synchronize     (GpuTimeline       *timeline,
                                               GError           **error);
/* (transfer full): lists the timelines of @context. */
GPtrArray      *_gpu_timeline_list            (GpuNativeContext  *context);

guint64         _gpu_timeline_get_submitted   (GpuTimeline       *timeline);

static inline gboolean
_gpu_timeline_is_complete (GpuTimeline *timeline,
                           guint64      seq)
{
  return __atomic_load_n (&timeline->completed, __ATOMIC_ACQUIRE) >= seq;
}

/* gpu-timeline-error.c. _gpu_timeline_init_failures() sets up a new timeline.
 * _gpu_timeline_fail_locked() marks the points in (@from, @to] as failed with @error, and takes
 * ownership of @error. */
void            _gpu_timeline_init_failures   (GpuTimeline       *timeline);
void            _gpu_timeline_fail_locked     (GpuTimeline       *timeline,
                                               guint64            from,
                                               guint64            to,
                                               GError            *error);
/* @failure is the driver's error for the points after @from. If the library knows which earlier
 * error caused it, both functions replace @failure by that error. The first function also moves the
 * user waits up to @seq to @retired; the caller frees them with _gpu_user_wait_free(). */
void            _gpu_timeline_retire_user_waits_locked (GpuTimeline *timeline,
                                               guint64            seq,
                                               GQueue            *retired,
                                               guint64           *from,
                                               GError           **failure);
void            _gpu_timeline_inherit_cause_locked (GpuTimeline  *timeline,
                                               guint64            from,
                                               GError           **failure);
void            _gpu_user_wait_free           (gpointer           wait);
/* Fails the point of an aborted staged copy. If a cross-driver copy failed, fails its point and all
 * later points submitted so far. The driver may not report these failures. Called when @retained is
 * retired. @failed is whether the driver reported a failure. */
void            _gpu_timeline_check_retained_locked (GpuTimeline *timeline,
                                                   const GpuRetained *retained,
                                                   gboolean           failed);
gboolean        _gpu_retained_is_cross_driver (const GpuRetained *retained);
/* The first function lists the pending cross-driver copies up to @seq, and returns NULL if there
 * are none. It sets @is_failing if another copy is known to have failed, and the failure is not
 * recorded yet. The second one makes work of another timeline, @timeline, depend on the
 * copies in @list: if a copy fails, the work that is submitted to @timeline before the failure is
 * recorded also fails. */
GPtrArray      *_gpu_timeline_list_cross_driver_locked (GpuTimeline *timeline,
                                               guint64            seq,
                                               gboolean          *is_failing);
void            _gpu_timeline_inherit_cross_driver_locked (GpuTimeline *timeline,
                                               GPtrArray         *list);
/* (nullable): lists the pending cross-driver copies whose failure fails the next copy with a file.
 * The newest copy with a file stands for all copies before it, so the list is short however many
 * copies are pending. Sets @failure if earlier work has failed, and no wait or query has reported
 * that yet: otherwise, a file would be written with undefined bytes. */
GPtrArray      *_gpu_timeline_list_earlier_locked (GpuTimeline   *timeline,
                                               GError           **failure);
/* Returns FALSE with the error if the point @seq failed. The point must be reached. */
gboolean        _gpu_timeline_check           (GpuTimeline       *timeline,
                                               guint64            seq,
                                               GError           **error);
/* Like _gpu_timeline_check(), for the points from @first to @last. */
gboolean        _gpu_timeline_check_points    (GpuTimeline       *timeline,
                                               guint64            first,
                                               guint64            last,
                                               GError           **error);
gboolean        _gpu_timeline_check_points_locked (GpuTimeline   *timeline,
                                               guint64            first,
                                               guint64            last,
                                               GError           **error);

/* Atomic; TRUE once any work or user event of the process has failed. While FALSE, submissions do
 * not look for failures. */
extern gint _gpu_timeline_any_failed;

/* Returns FALSE with the cause if the point @seq has failed, or will fail because of a failed user
 * event or a failed copy between two drivers. The point must not be known to be complete. */
gboolean        _gpu_timeline_check_pending   (GpuTimeline       *timeline,
                                               guint64            seq,
                                               GError           **error);
/* Like _gpu_timeline_check_pending(), without the failures of user events. */
gboolean        _gpu_timeline_check_cross_driver (GpuTimeline    *timeline,
                                               guint64            seq,
                                               GError           **error);
gboolean        _gpu_timeline_check_pending_locked (GpuTimeline  *timeline,
                                               guint64            seq,
                                               GError           **error);

/* Adds a point to @watch, after the points that it has. A new watch is zeroed. */
void            _gpu_timeline_watch           (GpuTimeline       *timeline,
                                               GpuWatch          *watch,
                                               guint64            seq);
void            _gpu_timeline_watch_locked    (GpuTimeline       *timeline,
                                               GpuWatch          *watch,
                                               guint64            seq);
/* Removes all points. */
void            _gpu_timeline_unwatch         (GpuTimeline       *timeline,
                                               GpuWatch          *watch);

/* Submissions happen between _lock() and _unlock(). */
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

/* Locks the timeline for driver calls. If user events may fail the work, first takes the failure
 * lock of the context. Returns whether it took the failure lock. Without that lock, PoCL may both
 * fail and execute a command that is enqueued while PoCL fails earlier work. */
gboolean        _gpu_timeline_lock_against_failure (GpuTimeline  *timeline);
void            _gpu_timeline_unlock_against_failure (GpuTimeline       *timeline,
                                                      gboolean           has_failure_lock);

/* For each user event that has failed since the last call, records that only the points submitted
 * so far fail with the event. Points submitted later do not depend on it. */
void            _gpu_timeline_note_failed_locked (GpuTimeline    *timeline);

/* Counts a submission and returns its number. */
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

/* Like _gpu_timeline_submit_locked(), for a wait, a marker or a point. The last operation of a
 * profiling stream remains the last one. */
static inline guint64
_gpu_timeline_submit_marker_locked (GpuTimeline *timeline)
{
  gboolean is_last = timeline->timed_seq == timeline->submitted;
  guint64 seq = _gpu_timeline_submit_locked (timeline);

  if (is_last)
    timeline->timed_seq = seq;

  return seq;
}

/* Appends a point, by counting a submission, if the program has access to the driver's stream. A
 * wait for this point includes work that the program itself submitted to the driver's stream. */
void            _gpu_timeline_append_point_locked (GpuTimeline   *timeline);
/* Appends a point after all work submitted so far, including work that the program submitted to the
 * driver's stream itself. Returns the point. If the use of a borrowed stream has ended (is_ended),
 * appends no point and returns the last one. */
guint64         _gpu_timeline_append_point    (GpuTimeline       *timeline);

/* Like _gpu_timeline_append_point(), but appends no point if only the library submits work. */
static inline guint64
_gpu_timeline_get_last_point (GpuTimeline *timeline)
{
  return G_UNLIKELY (g_atomic_int_get (&timeline->is_open))
         ? _gpu_timeline_append_point (timeline) : _gpu_timeline_get_submitted (timeline);
}

/* Counts a submission that has already completed, and returns its number. The timeline must be
 * idle. */
static inline guint64
_gpu_timeline_pass_locked (GpuTimeline *timeline)
{
  guint64 seq = timeline->submitted + 1;

  __atomic_store_n (&timeline->submitted, seq, __ATOMIC_RELEASE);
  __atomic_store_n (&timeline->completed, seq, __ATOMIC_RELEASE);

  return seq;
}

/* Returns whether all work of this timeline, and of all other timelines of its context, is known to
 * be complete. */
static inline gboolean
_gpu_timeline_is_alone_locked (GpuTimeline *timeline)
{
  return timeline->completed == timeline->submitted
         && g_atomic_int_get (&timeline->context->n_active) == 0;
}

/* Retains @object until all work submitted so far has completed. Takes ownership of @object. */
void            _gpu_timeline_retain_locked   (GpuTimeline       *timeline,
                                               gpointer           object,
                                               GDestroyNotify     release,
                                               gsize              size);
/* Like _gpu_timeline_retain_locked(), but adds a reference to @object instead of taking ownership.
 * Meant for objects that are used repeatedly, because consecutive uses share one reference. */
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

/* Records that the point @seq fails if @event fails. If @fence is not NULL, the stream waits for
 * @fence, and @event may fail @fence. Returns FALSE if @event has already failed: then, if @fence
 * is not NULL, only the result of @fence shows whether the point fails. */
gboolean        _gpu_timeline_wait_user_locked (GpuTimeline      *timeline,
                                               guint64            seq,
                                               GpuUserEvent      *event,
                                               GpuFence          *fence);
/* Returns whether work waits for a user event that has failed or may still fail. PoCL aborts if
 * such work fails after the driver's event of the work was released, so callers retain these events
 * until the work ends. */
gboolean        _gpu_timeline_search_failing_locked (GpuTimeline *timeline);

static inline gboolean
_gpu_timeline_may_fail_locked (GpuTimeline *timeline)
{
  return G_UNLIKELY (timeline->n_user_waits > 0)
         && _gpu_timeline_search_failing_locked (timeline);
}

/* Counts a submission for a command that is not an operation, such as a barrier, and retains its
 * @event. Takes ownership of @event. */
void            _gpu_timeline_retain_event_locked (GpuTimeline   *timeline,
                                                 GpuNativeEvent    *event);
/* (transfer full) (nullable): lists the user events that may fail work up to @seq. */
GPtrArray      *_gpu_timeline_list_user_events_locked (GpuTimeline *timeline,
                                               guint64            seq);
/* (transfer full) (nullable): lists the user events whose failure fails the point @seq. @seq may be
 * the next point. If @with_failed, also lists the user events of earlier failures that are not
 * recorded yet: they fail the next operation that the caller submits to the stream. */
GPtrArray      *_gpu_timeline_list_causes_locked (GpuTimeline    *timeline,
                                               guint64            seq,
                                               gboolean           with_failed);
/* Returns FALSE with the cause if the operation @seq, which is complete, failed because of a user
 * event. Drivers do not always report such failures. Earlier points may be pending. */
gboolean        _gpu_timeline_check_operation (GpuTimeline       *timeline,
                                               guint64            seq,
                                               GError           **error);
/* Appends pending fences to @events. After a user event has failed, later work must wait for these
 * fences, because PoCL no longer orders later work of the queue after earlier work that is still
 * running. */
void            _gpu_timeline_list_unordered_locked (GpuTimeline *timeline,
                                               GPtrArray         *events);
/* Records that later work now waits for the events of _gpu_timeline_list_unordered_locked(). */
void            _gpu_timeline_set_reordered_locked (GpuTimeline  *timeline);
/* Orders all later submissions after all earlier ones. */
gboolean        _gpu_timeline_barrier_locked  (GpuTimeline       *timeline,
                                               GError           **error);

/* Gets a fence that covers @seq, and records one if there is none. Sets @fence to NULL, without an
 * error, if @seq is reached. */
gboolean        _gpu_timeline_get_fence       (GpuTimeline       *timeline,
                                               guint64            seq,
                                               GpuFence         **fence,
                                               GError           **error);
GpuFence       *_gpu_fence_ref                (GpuFence          *fence);
void            _gpu_fence_unref              (GpuFence          *fence);

/* Marks @seq and all earlier points as complete. If @failure is not NULL, the newly completed
 * points failed. */
void            _gpu_timeline_retire          (GpuTimeline       *timeline,
                                               guint64            seq,
                                               const GError      *failure);
/* Adds a waiter for the points from @first to @last. Caller holds the lock. */
void            _gpu_timeline_add_waiter_locked (GpuTimeline     *timeline,
                                               guint64            first,
                                               guint64            last,
                                               GpuWaiterFunc      func,
                                               gpointer           data);

/* Removes a waiter. Returns FALSE if @func was or is being called. */
gboolean        _gpu_timeline_remove_waiter   (GpuTimeline       *timeline,
                                               GpuWaiterFunc      func,
                                               gpointer           data);

/* Blocks until the point is reached. Returns FALSE if the point failed. */
gboolean        _gpu_timeline_wait            (GpuTimeline       *timeline,
                                               guint64            seq,
                                               GError           **error);
/* Like _gpu_timeline_wait(), but ends at @deadline (monotonic microseconds, -1 for none) or on
 * cancellation. */
gboolean        _gpu_timeline_wait_until      (GpuTimeline       *timeline,
                                               guint64            seq,
                                               gint64             deadline,
                                               GCancellable      *cancellable,
                                               GError           **error);
GpuEventStatus  _gpu_timeline_query           (GpuTimeline       *timeline,
                                               guint64            seq,
                                               GError           **error);
/* Like _gpu_timeline_query() for @last, but returns GPU_EVENT_STATUS_FAILED, once @last is reached,
 * if any point from @first to @last failed. */
GpuEventStatus  _gpu_timeline_query_points    (GpuTimeline       *timeline,
                                               guint64            first,
                                               guint64            last,
                                               GError           **error);
/* Calls @func once @seq is reached. Returns FALSE, and does not call @func, if no fence could be
 * recorded or no thread started. */
gboolean        _gpu_timeline_notify          (GpuTimeline       *timeline,
                                               guint64            seq,
                                               GpuWaiterFunc      func,
                                               gpointer           data,
                                               GError           **error);
/* Like _gpu_timeline_notify(), but calls @func once @last is reached, with the error of any point
 * from @first to @last. */
gboolean        _gpu_timeline_notify_points   (GpuTimeline       *timeline,
                                               guint64            first,
                                               guint64            last,
                                               GpuWaiterFunc      func,
                                               gpointer           data,
                                               GError           **error);
/* Lets a job (a thread of the library that waits for points) release each object retained so far
 * when the work that uses the object has completed. */
void            _gpu_timeline_collect_locked  (GpuTimeline       *timeline);
/* Calls @func on a thread that waits for points, without locks. Does not block. */
void            _gpu_timeline_run_later       (GDestroyNotify     func,
                                               gpointer           data);
/* Ends the wait of a job for @seq. */
void            _gpu_timeline_job_end         (GpuTimeline       *timeline,
                                               guint64            seq);
/* Returns the first point that a job must wait for, because of a waiter or in order to release
 * objects. Returns 0 if there is none. */
guint64         _gpu_timeline_get_needed_locked (GpuTimeline     *timeline);
/* Queries the driver if that takes less time than a job. Returns whether @seq is reached, like
 * _gpu_timeline_query(). Caller holds no lock. */
gboolean        _gpu_timeline_try_retire      (GpuTimeline       *timeline,
                                               guint64            seq);
/* Releases @object once all work submitted so far has completed. @size is the number of bytes of
 * host memory that @object holds. Takes ownership of @object. */
void            _gpu_timeline_defer_until_complete (GpuTimeline       *timeline,
                                                    gpointer           object,
                                                    GDestroyNotify     release,
                                                    gsize              size);

/* gpu-timeline-release.c: begins the release of host memory, before the completion of the work that
 * used it is visible to other threads. Returns the argument of _gpu_release_end(). */
guint           _gpu_release_begin            (void);
void            _gpu_release_end              (guint              phase);

/* Adds the event of the operation @seq, the newest of the stream, as a fence. Takes ownership of
 * @event. */
void            _gpu_timeline_add_fence_locked (GpuTimeline      *timeline,
                                               guint64            seq,
                                               GpuNativeEvent    *event);
/* Returns whether a pending fence covers the point. */
gboolean        _gpu_timeline_has_fence_locked (GpuTimeline      *timeline,
                                               guint64            seq);
/* Sets _gpu_may_capture. Called when the program gets the handle of a stream or an event, and
 * before the library uses a handle of the program. */
void            _gpu_timeline_allow_captures  (void);
/* Returns the driver's number of the capture in which the stream takes part, 0 for none. Asks the
 * driver: a stream whose handle the program has never had joins a capture when it waits for an
 * event of a capturing stream. */
guint64         _gpu_timeline_get_capture_locked (GpuTimeline    *timeline);
/* Like _gpu_timeline_get_capture_locked(). Does not take the lock if no stream can be captured.
 * Callers must fail first in a forked process: a thread of the parent may have held the lock during
 * the fork. */
guint64         _gpu_timeline_get_capture     (GpuTimeline       *timeline);
/* Returns the number of the capture that a stream joins if it waits for the point, 0 for none.
 * Caller does not hold the lock. */
guint64         _gpu_timeline_get_capture_of  (GpuTimeline       *timeline,
                                               guint64            seq);
/* Returns whether the stream is being captured into a graph. */
gboolean        _gpu_timeline_is_capturing_locked (GpuTimeline   *timeline);
/* If the stream is being captured, lets the graph retain @object, until the graph and its copies
 * are destroyed. The caller has another reference to @object. */
gboolean        _gpu_timeline_retain_in_graph_locked (GpuTimeline          *timeline,
                                                      gpointer              object,
                                                      const GpuRetainType  *type,
                                                      GError              **error);
/* Sets GPU_ERROR_NOT_SUPPORTED for an operation that cannot be a part of the graph that the stream
 * with @handle captures. Returns FALSE. */
gboolean        _gpu_timeline_fail_captured   (guint64            handle,
                                               GError           **error);
/* Returns FALSE with GPU_ERROR_NOT_SUPPORTED if a graph may contain the work of the point: the work
 * is pending and has no fence, and the stream is being captured. Caller does not hold the lock. */
gboolean        _gpu_timeline_check_captured  (GpuTimeline       *timeline,
                                               guint64            seq,
                                               GError           **error);
/* Returns FALSE with GPU_ERROR_NOT_SUPPORTED if the stream is being captured: the host must not
 * query or wait for an event that is recorded now, which would invalidate the capture. */
gboolean        _gpu_timeline_check_fence_locked (GpuTimeline    *timeline,
                                               GError           **error);
/* The first function gets a fence that the host may query and wait for. It records none in a stream
 * that is being captured. The second one gets a fence that may only be passed to the driver's wait
 * of another stream. If that stream then joins a capture, sets @capture to the number of the
 * capture, otherwise to 0, and @captured to the handle of the stream of @timeline. */
GpuFence       *_gpu_timeline_get_fence_locked (GpuTimeline      *timeline,
                                               guint64            seq,
                                               GError           **error);
GpuFence       *_gpu_timeline_get_stream_fence_locked (GpuTimeline *timeline,
                                               guint64            seq,
                                               guint64           *capture,
                                               guint64           *captured,
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

/* The operation that a blocking call waits for. If `event` is NULL, the call need not wait. */
typedef struct
{
  GpuNativeEvent *event;
  guint64         covers;           /* the point that is reached when the event completes, 0 for
                                     * none; after a failure, the point of the commands that were
                                     * submitted */
  guint64         seq;              /* the point of the operation, if there is an event */
  gboolean        if_idle;          /* set by the caller: submit only if nothing is pending */
  gboolean        busy;             /* result of a submission with if_idle: TRUE if nothing was
                                     * submitted because work was pending */
} GpuPending;

/* Blocks until the event completes, and releases it. */
gboolean _gpu_pending_wait_for_event (GpuPending *pending,
                            GpuTimeline          *timeline,
                            GError              **error);

/* Blocks until the operation completes, and releases the event. */
static inline gboolean
_gpu_pending_wait (GpuPending   *pending,
                   GpuTimeline  *timeline,
                   GError      **error)
{
  return pending->event == NULL || _gpu_pending_wait_for_event (pending, timeline, error);
}

/* Like _gpu_pending_wait(), but ends on cancellation. */
gboolean _gpu_pending_wait_until (GpuPending     *pending,
                            GpuTimeline          *timeline,
                            GCancellable         *cancellable,
                            GError              **error);

typedef struct _GpuTaskWait GpuTaskWait;

/* Creates a structure that waits for @task. When @task is cancelled, or when _gpu_task_wait_end()
 * is called, @task returns in its main context. It returns @result, or TRUE if @result is NULL.
 * Takes ownership of @result. The error of _gpu_task_wait_end() gets the prefix @function
 * (nullable), which must live as long as the task. */
GpuTaskWait    *_gpu_task_wait_new            (GTask             *task,
                                               const char        *function,
                                               gpointer           result,
                                               GDestroyNotify     result_free);
/* A GpuWaiterFunc, called on any thread. Takes ownership of @wait, a GpuTaskWait. */
void            _gpu_task_wait_end            (gpointer           wait,
                                               const GError      *error);

/* Returns @task with TRUE when @last is reached, with the error of any point from @first to @last,
 * or when the task is cancelled. The error of the points begins with the name of the task. */
void            _gpu_timeline_return_task   (GpuTimeline     *timeline,
                                             guint64          first,
                                             guint64          last,
                                             GTask           *task);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (GpuTimeline, _gpu_timeline_unref)
G_DEFINE_AUTOPTR_CLEANUP_FUNC (GpuFence, _gpu_fence_unref)

G_END_DECLS
