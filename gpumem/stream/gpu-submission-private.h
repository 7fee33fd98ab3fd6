/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Submitting an operation: locks on all the memory that it uses, waits for uses on other streams,
 * the driver's call, and the new points.
 */
#pragma once

#include "gpumem/memory/gpu-memory-private.h"

G_BEGIN_DECLS

/* A use of memory. Without a memory object, of storage that the caller is a user of: nothing is
 * then refused. */
typedef struct
{
  GpuMemory  *memory;
  gboolean    write;
  gsize       offset;               /* within the memory */
  gsize       size;
  GpuStorage *storage;              /* set from the memory, if there is one */
  gboolean    is_promoted;          /* set if a read is ordered as a write */
} GpuAccess;

typedef gboolean (*GpuOperationFunc) (gconstpointer     operation,
                                      GpuNativeStream  *stream,
                                      GpuNativeEvent  **event,
                                      GError          **error);

typedef struct _GpuRetain GpuRetain;

/* An object that is retained until the operation completes. */
struct _GpuRetain
{
  gpointer             object;
  const GpuRetainType *type;
  gsize                size;        /* bytes of host memory; 0 for what is used again and again */
  const GpuRetain     *next;        /* nullable */
};

extern const GpuRetainType _gpu_retain_bytes;

/* Small: it is cleared for every operation, and larger ones much slower. */
typedef struct
{
  const char       *function;       /* of the public API, for errors */
  GpuAccess        *accesses;
  guint             n_accesses;
  guint             peers : 1;      /* memory may be of other contexts of the back end */
  guint             maps : 1;       /* it is the host that uses the memory from then on */
  guint             unmaps : 1;     /* up to then it was */
  guint             reads : 1;      /* it also reads what it writes: refused after a failed write */
  GpuOperationFunc  run;            /* calls the driver; NULL to submit nothing but waits */
  GpuOperationFunc  run_infallible; /* nullable; in the place of run where no event of the user
                                     * can hold up the work or make it fail */
  GpuOperationFunc  run_now;        /* nullable; the same, over when it returns, without an event */
  gconstpointer     operation;
  const GpuRetain  *retain;         /* nullable */
  GpuUserEvent     *user_event;     /* that the stream waits for first, nullable */
  const GpuPoint   *after;          /* likewise */
} GpuSubmission;

/* @pending, if not NULL, is set to what to wait for, with _gpu_pending_wait(). */
gboolean _gpu_submit       (GpuTimeline          *timeline,
                            const GpuSubmission  *submission,
                            GpuPending           *pending,
                            GError              **error);

/* One operation in two streams, as they are of two drivers: each with one access, and no run. */
typedef struct
{
  GpuTimeline   *timeline;
  GpuSubmission  submission;
} GpuDualSide;

/* Called once for both sides, with the locks of both, or for one and then the other: @sides has
 * bits. @failed is the side that failed, if one did; @event, nullable, of the user's stream, is for
 * the GpuPending or profiling. */
typedef gboolean (*GpuDualFunc) (gpointer                 data,
                                 GpuNativeStream *const  *streams,
                                 guint                    sides,
                                 gboolean                 may_fail,
                                 GpuNativeEvent         **event,
                                 guint                   *failed,
                                 GError                 **error);

/* Both get a point, or none does but for what is in the streams already. It may block in a driver
 * until events of the user are set, but not with a failure lock. @user is the side whose
 * stream is the user's. */
gboolean _gpu_submit_dual  (GpuDualSide          *sides,
                            guint                 user,
                            GpuDualFunc           run,
                            gpointer              data,
                            GpuPending           *pending,
                            GError              **error);

G_END_DECLS
