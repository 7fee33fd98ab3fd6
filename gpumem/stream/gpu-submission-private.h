/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Submits an operation: locks the memory that it uses, orders it after conflicting uses on other
 * streams, calls the driver and records the new uses of the memory.
 */
#pragma once

#include "gpumem/memory/gpu-memory-private.h"

G_BEGIN_DECLS

/* A use of memory. If `memory` is NULL, the access is not checked. The caller must then set
 * `storage`, and must be a user of that storage. */
typedef struct
{
  GpuMemory  *memory;
  gboolean    write;
  gsize       offset;               /* within the memory */
  gsize       size;
  GpuStorage *storage;              /* set from `memory` unless `memory` is NULL */
  gboolean    is_promoted;          /* set if a read is ordered as a write */
} GpuAccess;

typedef gboolean (*GpuOperationFunc) (gconstpointer     operation,
                                      GpuNativeStream  *stream,
                                      GpuNativeEvent  **event,
                                      GError          **error);

/* Returns FALSE with an error if a mapping conflicts with a part of @access. Caller holds the lock
 * of the root. */
typedef gboolean (*GpuCheckPartsFunc) (gconstpointer     operation,
                                       const GpuAccess  *access,
                                       GError          **error);

typedef struct _GpuRetain GpuRetain;

/* An object that is retained until the operation completes. */
struct _GpuRetain
{
  gpointer             object;
  const GpuRetainType *type;
  gsize                size;        /* bytes of host memory; 0 for an object that many operations
                                     * share */
  const GpuRetain     *next;        /* nullable */
};

extern const GpuRetainType _gpu_retain_bytes;

/* Keep this struct small: it is cleared for every operation. */
typedef struct
{
  const char       *function;       /* public function; for errors */
  GpuAccess        *accesses;
  guint             n_accesses;
  guint             peers : 1;      /* the memory may belong to other contexts of the back end */
  guint             maps : 1;       /* the host owns the memory afterwards */
  guint             unmaps : 1;     /* the host owned the memory until now */
  guint             is_marked : 1;  /* submit_marked() has begun the range for profilers */
  guint             reads : 1;      /* also reads the memory that it writes, and so fails if the
                                     * last write of the memory failed */
  guint             ignores_failure : 1; /* a failure of `after` does not fail the submission; user
                                          * events must not be able to fail `after` */
  GpuOperationFunc  run;            /* calls the driver; NULL only to enqueue waits */
  GpuOperationFunc  run_infallible; /* nullable; replaces `run` if no user event can delay the work
                                     * or fail it */
  GpuOperationFunc  run_now;        /* nullable; replaces `run`: completes before it returns,
                                     * records no event */
  GpuCheckPartsFunc check_parts;    /* nullable; if a mapping conflicts with an access, decides
                                     * whether it conflicts with the bytes that are really used */
  gconstpointer     operation;
  const GpuRetain  *retain;         /* nullable */
  GpuUserEvent     *user_event;     /* the user event to wait for first; nullable */
  const GpuPoint   *after;          /* the earlier work to wait for first; nullable */
} GpuSubmission;

/* If @pending is not NULL, sets it for _gpu_pending_wait(). If the operation must follow work that
 * is being captured into a graph, its stream joins the capture. The host never sees the result of
 * such an operation, so the submission fails instead with GPU_ERROR_NOT_SUPPORTED, and leaves the
 * capture intact, if @pending is not NULL, if it maps memory, or within a GpuHostWait. */
gboolean _gpu_submit       (GpuTimeline          *timeline,
                            const GpuSubmission  *submission,
                            GpuPending           *pending,
                            GError              **error);

/* A scope in which the host waits for all that the calling thread submits to `timeline`, without a
 * GpuPending: the caller, or a thread of the library, waits for these points. It must not wait for
 * `submitted` of the timeline: if another thread submits work in between, that work may succeed
 * although the work of the calling thread failed. Declare with g_auto(), and initialize with
 * { NULL }. */
typedef struct _GpuHostWait GpuHostWait;

struct _GpuHostWait
{
  GpuTimeline *timeline;            /* NULL before the begin and after the end of the scope;
                                     * holds a reference */
  GpuHostWait *outer;               /* nullable; the scope that contains this one */
  GpuWatch     work;                /* the points of this thread; keeps their failures */
};

/* The innermost scope of the thread; nullable. Only for the functions of this file. */
extern __thread GpuHostWait *_gpu_host_wait __attribute__ ((tls_model ("initial-exec")));

void     _gpu_host_wait_begin  (GpuHostWait          *wait,
                                GpuTimeline          *timeline);
void     _gpu_host_wait_end    (GpuHostWait          *wait);
/* Called for each submission of a thread that is in a scope. */
GPU_COLD void
         _gpu_host_wait_add_locked (GpuTimeline      *timeline,
                                guint64               seq);
/* Blocks until the work of the scope has completed. Returns FALSE if any of this work failed. If
 * nothing was submitted in the scope, waits for all work of the timeline. */
gboolean _gpu_host_wait_block  (const GpuHostWait    *wait,
                                GCancellable         *cancellable,
                                GError              **error);
/* Like _gpu_timeline_notify(), for the work of the scope. */
gboolean _gpu_host_wait_notify (const GpuHostWait    *wait,
                                GpuWaiterFunc         func,
                                gpointer              data,
                                GError              **error);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (GpuHostWait, _gpu_host_wait_end)

/* Returns FALSE with an error if memory was released, or if a mapping conflicts with an access.
 * Caller holds the locks of the roots. */
gboolean _gpu_submission_check_locked   (const GpuSubmission  *submission,
                                         GError              **error);
/* Returns FALSE with an error if memory was released, or if a mapping conflicts with one of the
 * @accesses, whose memory must not be NULL. For commands that consist of several submissions: the
 * first submission checks only its own part of the memory. */
gboolean _gpu_submission_check_mappings (const char      *function,
                                         GpuAccess       *accesses,
                                         guint            n_accesses,
                                         GError         **error);

/* A stream and its half of an operation that executes in streams of two drivers. `submission` has
 * one access, and its `run` is NULL. */
typedef struct
{
  GpuTimeline   *timeline;
  GpuSubmission  submission;
} GpuDualSide;

/* Called once for both sides, with the locks of both sides held, or once for each side; @sides is
 * the bit mask of the sides to run. On failure, sets @failed to the side that failed. Sets @event
 * to an event of the user's stream if the GpuPending or profiling needs one, otherwise to NULL. */
typedef gboolean (*GpuDualFunc) (gpointer                 data,
                                 GpuNativeStream *const  *streams,
                                 guint                    sides,
                                 gboolean                 may_fail,
                                 GpuNativeEvent         **event,
                                 guint                   *failed,
                                 GError                 **error);

/* On success, both streams count the operation as a submission. On failure, a stream counts it only
 * if some of its commands are already enqueued. May block in a driver until user events are set,
 * but never with a failure lock held. @user is the index in @sides of the stream that the program
 * passed. */
gboolean _gpu_submit_dual  (GpuDualSide          *sides,
                            guint                 user,
                            GpuDualFunc           run,
                            gpointer              data,
                            GpuPending           *pending,
                            GError              **error);

G_END_DECLS
