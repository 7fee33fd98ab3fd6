/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Events for the work of one call of a language binding. */
#include "config.h"

#include "gpumem/command/gpu-staging-private.h"
#include "gpumem/gpumem-bindings.h"
#include "gpumem/stream/gpu-event-private.h"
#include "gpumem/stream/gpu-stream-private.h"

gboolean
_gpu_binding_submit (GpuStream             *stream,
                     GpuBindingSubmitFunc   submit,
                     gpointer               data,
                     GpuEvent             **event,
                     GError               **error)
{
  g_auto (GpuHostWait) wait = { NULL };
  GpuTimeline *timeline = _gpu_stream_get_timeline (stream, "gpu_stream_record", error);

  *event = NULL;

  if (timeline == NULL || !_gpu_timeline_check_capture (timeline, "gpu_stream_record", error))
    return FALSE;

  _gpu_host_wait_begin (&wait, timeline);

  if (!submit (data, error))
    return FALSE;

  /* The program may have submitted work with the driver's handle, so ask the driver. */
  if (wait.work.last == 0)
    return gpu_stream_is_idle (stream, NULL)
           || (*event = gpu_stream_record (stream, GPU_EVENT_FLAGS_NONE, error)) != NULL;

  if (_gpu_timeline_query_points (timeline, wait.work.first, wait.work.last, NULL)
      != GPU_EVENT_STATUS_COMPLETE)
    *event = _gpu_event_new_for_points (stream->context, timeline, wait.work.first,
                                        wait.work.last);

  return TRUE;
}
