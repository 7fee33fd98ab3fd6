/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Streams. gpu-backend.h has the rules for every op. */
#pragma once

#include "gpumem/backend/gpu-native-types.h"

G_BEGIN_DECLS

struct _GpuNativeStream
{
  const GpuBackend *backend;
  GpuNativeContext *context;        /* owned by the timeline that owns the stream */
  gboolean          partial;        /* set by an op that fails with a part of it at work; taken
                                     * back by who called it */
};

typedef struct
{
  /* Whether wait() takes events of other contexts of the back end. */
  gboolean          foreign_events;
  /* Whether wrap() takes GPU_STREAM_HANDLE_DEFAULT and the like; the front class refuses them else,
   * for a driver may take them for addresses. */
  gboolean          has_default_handles;
  /* Whether record() takes the time on streams without GPU_STREAM_FLAGS_PROFILING. */
  gboolean          times_any;
  /* Whether finish() tells if work failed, and costs less than an event and the wait for it. */
  gboolean          finish_reports_failure;

  /* any thread. @device is one of the context's. The capabilities for @flags and @priority were
   * checked. */
  GpuNativeStream * (*create)     (GpuNativeContext        *context,
                                   GpuNativeDevice         *device,
                                   GpuStreamFlags           flags,
                                   int                      priority,
                                   GError                 **error);
  /* any thread; may be NULL. Sets @device and @flags to what the foreign stream has. */
  GpuNativeStream * (*wrap)       (GpuNativeContext        *context,
                                   guint64                  handle,
                                   GpuWrapMode              mode,
                                   GpuNativeDevice        **device,
                                   GpuStreamFlags          *flags,
                                   GError                 **error);
  /* any thread. All submitted work is complete, or the context is lost. Must not block on the
   * device. */
  void              (*free)       (GpuNativeStream         *stream);
  guint64           (*get_handle) (GpuNativeStream         *stream);
  /* any thread; NULL if the driver has no such call. Does not block. Returns whether all work in
   * the stream is complete, including work that the program put there itself. */
  GpuEventStatus    (*query)      (GpuNativeStream         *stream,
                                   GError                 **error);
  /* stream. An event that completes when all work submitted so far has. @flags may ask for
   * timing, or for an event that GpuEventOps.export_handle() takes, but never for both; the front
   * class asks for the latter only where that is not NULL. */
  GpuNativeEvent *  (*record)     (GpuNativeStream         *stream,
                                   GpuEventFlags            flags,
                                   GError                 **error);
  /* stream. All work submitted later waits for @events, none of which has failed, but that another
   * context, of one of them, may be lost. @event may be set although it fails: part of the wait is
   * in the stream then. */
  gboolean          (*wait)       (GpuNativeStream         *stream,
                                   GpuNativeEvent *const   *events,
                                   guint                    n_events,
                                   GpuNativeEvent         **event,
                                   GError                 **error);
  /* stream. All work submitted later waits for all submitted before; for out-of-order streams. */
  gboolean          (*barrier)    (GpuNativeStream         *stream,
                                   GpuNativeEvent         **event,
                                   GError                 **error);
  /* stream. Makes sure that submitted work starts without anybody waiting for it. */
  gboolean          (*flush)      (GpuNativeStream         *stream,
                                   GError                 **error);
  /* any thread, also while another is in a stream op. Blocks until all work submitted before is
   * complete, also where it fails; without finish_reports_failure only called where record()
   * failed. */
  gboolean          (*finish)     (GpuNativeStream         *stream,
                                   GError                 **error);
} GpuStreamOps;

G_END_DECLS
