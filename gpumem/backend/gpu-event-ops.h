/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Events. gpu-backend.h has the rules for every op. */
#pragma once

#include "gpumem/backend/gpu-native-types.h"

G_BEGIN_DECLS

struct _GpuNativeEvent
{
  const GpuBackend *backend;
  gatomicrefcount   refs;           /* managed by _gpu_native_event_ref() and _unref() */
};

typedef GBytes *GpuEventExportHandleOp (GpuNativeEvent *event,
                                        GError        **error);
typedef GpuNativeEvent *GpuEventImportHandleOp (GpuNativeContext *context,
                                                GBytes           *handle,
                                                GError          **error);

typedef struct
{
  /* any thread; both may be NULL. An event that set_user() completes or fails, once. When it
   * fails, work that waits for it completes. Drivers that support this do not run that work,
   * and report an error; the timeline reports the failure with every driver. */
  GpuNativeEvent * (*create_user)        (GpuNativeContext   *context,
                                          GError            **error);
  gboolean         (*set_user)           (GpuNativeEvent     *event,
                                          gboolean            success,
                                          GError            **error);
  /* any thread, no reference left. Frees the structure itself. */
  void             (*free)               (GpuNativeEvent     *event);
  guint64          (*get_handle)         (GpuNativeEvent     *event);
  /* any thread; does not block. FAILED sets @error. */
  GpuEventStatus   (*query)              (GpuNativeEvent     *event,
                                          GError            **error);
  /* any thread; blocks until the event completes or fails. The stream of the event was flushed.
   * The thread sleeps; with @urgent, when the user's own thread waits, it may poll for as long as
   * the flags of the context allow. */
  gboolean         (*wait)               (GpuNativeEvent     *event,
                                          gboolean            urgent,
                                          GError            **error);
  /* any thread; may be NULL. In nanoseconds of a clock of the device. The event is complete. */
  gboolean         (*get_profiling_time) (GpuNativeEvent     *event,
                                          GpuProfilingPoint   point,
                                          guint64            *nanoseconds,
                                          GError            **error);
  /* any thread; may be NULL: the difference of the times at which the two ended is taken. Both
   * tell times, are complete, and of one context. */
  gboolean         (*get_elapsed)        (GpuNativeEvent     *event,
                                          GpuNativeEvent     *since,
                                          gint64             *nanoseconds,
                                          GError            **error);
  /* any thread; may be NULL: the time from STARTED to ENDED. How long the operation of @event took,
   * which is complete and of a profiling stream. */
  gboolean         (*get_duration)       (GpuNativeEvent     *event,
                                          guint64            *nanoseconds,
                                          GError            **error);
  /* any thread; both may be NULL. What another process makes an event from that completes with
   * @event, which was recorded with GPU_EVENT_FLAGS_INTERPROCESS and lives while others wait; and
   * an event from that. The bytes come from outside: ones that are none are GPU_ERROR_IPC. */
  GpuEventExportHandleOp *export_handle;
  GpuEventImportHandleOp *import_handle;
} GpuEventOps;

G_END_DECLS
