/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Streams. gpu-backend.h has the rules for every op. */
#pragma once

#include "gpumem/backend/gpu-native-types.h"

G_BEGIN_DECLS

struct _GpuNativeStream
{
  const GpuBackend *backend;
  GpuNativeContext *context;        /* owned by the timeline that owns the stream */
  gboolean          partial;        /* set by an op that fails after it has enqueued some of its
                                     * commands; cleared by the caller */
};

typedef struct
{
  /* Whether wait() accepts events of other contexts of the back end. */
  gboolean          foreign_events;
  /* Whether wrap() accepts GPU_STREAM_HANDLE_DEFAULT and similar handles. If FALSE, the public
   * class rejects these handles, because the driver would use them as pointers. */
  gboolean          has_default_handles;
  /* Whether record() supports timing on streams without GPU_STREAM_FLAGS_PROFILING. */
  gboolean          times_any;
  /* Whether finish() reports failed work, and takes less time than recording an event and waiting
   * for that event. */
  gboolean          finish_reports_failure;

  /* any thread. @device is a device of the context. The public class has checked that the device
   * supports @flags and @priority. */
  GpuNativeStream * (*create)     (GpuNativeContext        *context,
                                   GpuNativeDevice         *device,
                                   GpuStreamFlags           flags,
                                   int                      priority,
                                   GError                 **error);
  /* any thread; may be NULL. Sets @device and @flags to those of the foreign stream. If the back
   * end has user events, a borrowed stream of the driver must remain valid until free(): work that
   * waits for user events may be pending when the program drops the stream, and the library does
   * not wait for that work with locks held. */
  GpuNativeStream * (*wrap)       (GpuNativeContext        *context,
                                   guint64                  handle,
                                   GpuWrapMode              mode,
                                   GpuNativeDevice        **device,
                                   GpuStreamFlags          *flags,
                                   GError                 **error);
  /* any thread. Called when all submitted work has completed, or when the context is lost. Must not
   * block on the device. */
  void              (*free)       (GpuNativeStream         *stream);
  guint64           (*get_handle) (GpuNativeStream         *stream);
  /* any thread; NULL if the driver has no such call. Does not block. Returns whether all work in
   * the stream has completed, including work that the program submitted with driver calls of its
   * own. Fails with GPU_ERROR_NOT_SUPPORTED if the query would invalidate the capture of another
   * stream. */
  GpuEventStatus    (*query)      (GpuNativeStream         *stream,
                                   GError                 **error);
  /* stream. Creates an event that completes when all work submitted so far has completed. @flags
   * may request timing, or an event for GpuEventOps.export_handle(), but never both. The public
   * class requests an event for export_handle() only if that op is not NULL. */
  GpuNativeEvent *  (*record)     (GpuNativeStream         *stream,
                                   GpuEventFlags            flags,
                                   GError                 **error);
  /* stream. Orders all later work after @events. None of @events has failed, but the context of a
   * foreign event may be lost. If the op fails after it has enqueued a wait for some of @events, it
   * may still set @event. */
  gboolean          (*wait)       (GpuNativeStream         *stream,
                                   GpuNativeEvent *const   *events,
                                   guint                    n_events,
                                   GpuNativeEvent         **event,
                                   GError                 **error);
  /* stream. Orders all later work after all earlier work; for out-of-order streams. */
  gboolean          (*barrier)    (GpuNativeStream         *stream,
                                   GpuNativeEvent         **event,
                                   GError                 **error);
  /* stream. Ensures that submitted work starts even if no thread waits for it. */
  gboolean          (*flush)      (GpuNativeStream         *stream,
                                   GError                 **error);
  /* any thread, even while another thread is in a stream op. Blocks until all work submitted before
   * this call has completed or failed. If finish_reports_failure is FALSE, this op is called only
   * if record() failed. */
  gboolean          (*finish)     (GpuNativeStream         *stream,
                                   GError                 **error);
  /* any thread; NULL if the driver cannot capture work. Does not block. @stream may have a handle
   * that the driver has given to another stream since. Sets @id to a number that no other stream of
   * the process ever has, 0 if the driver has no such numbers, and @capture to the number of the
   * capture in which the stream takes part, 0 for none. @id is nullable. */
  void              (*get_state)  (GpuNativeStream         *stream,
                                   guint64                 *id,
                                   guint64                 *capture);
  /* any thread; not NULL if get_state() is not NULL. Lets the captured graph and its copies call
   * @release when the last of them is destroyed. @release is called on any thread, must not call
   * the driver, and is never called if the op fails. */
  gboolean          (*retain_in_capture) (GpuNativeStream  *stream,
                                          GDestroyNotify    release,
                                          gpointer          data,
                                          GError          **error);
  /* any thread; not NULL if get_state() is not NULL. Sets the rule by which the driver refuses
   * calls of this thread while any stream is capturing. Returns the previous rule. */
  guint             (*set_capture_rule) (guint              rule);
  /* any thread; nullable. Called when the use of a borrowed stream has ended: the program may then
   * destroy the driver's stream, so no op but free() may use its handle. */
  void              (*end_use)    (GpuNativeStream         *stream);
} GpuStreamOps;

/* The rule that refuses no call. */
#define GPU_CAPTURE_RULE_NONE 2

G_END_DECLS
