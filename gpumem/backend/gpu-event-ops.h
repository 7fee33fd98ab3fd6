/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Events. gpu-backend.h has the rules for every op. */
#pragma once

#include "gpumem/backend/gpu-native-types.h"

G_BEGIN_DECLS

struct _GpuNativeEvent
{
  const GpuBackend *backend;
  gatomicrefcount   refs;           /* managed by _gpu_native_event_ref() and _unref() */
  gboolean          is_user;        /* set by wrap() for an event that the program completes with a
                                     * driver call */
};

typedef GBytes *GpuEventExportHandleOp (GpuNativeEvent *event,
                                        GError        **error);
typedef GpuNativeEvent *GpuEventImportHandleOp (GpuNativeContext *context,
                                                GBytes           *handle,
                                                GError          **error);

typedef struct
{
  /* any thread; both may be NULL. create_user() creates an event that set_user() completes or
   * fails. set_user() is called once for each event. If the event fails, the driver ends the work
   * that waits for the event without running that work. (Intel's OpenCL runtime for CPUs runs the
   * work nevertheless.) The timeline reports the failure even if the driver reports no error. */
  GpuNativeEvent * (*create_user)        (GpuNativeContext   *context,
                                          GError            **error);
  gboolean         (*set_user)           (GpuNativeEvent     *event,
                                          gboolean            success,
                                          GError            **error);
  /* any thread; may be NULL. Creates an object for an event of the program. If the op fails, the
   * caller keeps the ownership of @handle. */
  GpuNativeEvent * (*wrap)               (GpuNativeContext   *context,
                                          guint64             handle,
                                          GpuWrapMode         mode,
                                          GError            **error);
  /* any thread. Called after the last reference was dropped. Frees the structure itself. */
  void             (*free)               (GpuNativeEvent     *event);
  guint64          (*get_handle)         (GpuNativeEvent     *event);
  /* any thread; does not block. FAILED sets @error, and so does PENDING if the driver could not
   * report the status. */
  GpuEventStatus   (*query)              (GpuNativeEvent     *event,
                                          GError            **error);
  /* any thread. Blocks until the event completes or fails. The stream of the event has been
   * flushed. The thread sleeps in the driver. @urgent is TRUE if a thread of the program waits: the
   * op may then poll before it sleeps, for as long as the flags of the context allow. */
  gboolean         (*wait)               (GpuNativeEvent     *event,
                                          gboolean            urgent,
                                          GError            **error);
  /* a thread of the program; NULL: the driver cannot wake a thread late. Polls until the event
   * completes or fails, but at most until @deadline, and for as long as the flags of the context
   * allow. Returns TRUE if the event has completed without a failure. */
  gboolean         (*poll)               (GpuNativeEvent     *event,
                                          gint64              deadline);
  /* any thread; may be NULL. Gets a time in nanoseconds of a clock of the device. The event has
   * completed. */
  gboolean         (*get_profiling_time) (GpuNativeEvent     *event,
                                          GpuProfilingPoint   point,
                                          guint64            *nanoseconds,
                                          GError            **error);
  /* any thread; may be NULL: the public class then subtracts the end times of the two events. Both
   * events record times, have completed, and belong to the same context. */
  gboolean         (*get_elapsed)        (GpuNativeEvent     *event,
                                          GpuNativeEvent     *since,
                                          gint64             *nanoseconds,
                                          GError            **error);
  /* any thread; may be NULL: the public class then uses the time from STARTED to ENDED. Gets the
   * duration of the operation of @event, which has completed and belongs to a profiling stream. */
  gboolean         (*get_duration)       (GpuNativeEvent     *event,
                                          guint64            *nanoseconds,
                                          GError            **error);
  /* any thread; both may be NULL. export_handle() creates a handle of @event, which was recorded
   * with GPU_EVENT_FLAGS_INTERPROCESS. The event must live for as long as other processes wait for
   * it. import_handle() creates an event from such a handle; the new event completes when the
   * exported event completes. The bytes of a handle come from another process: import_handle()
   * fails with GPU_ERROR_IPC if the handle is invalid. */
  GpuEventExportHandleOp *export_handle;
  GpuEventImportHandleOp *import_handle;
} GpuEventOps;

G_END_DECLS
