/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Events shared between processes. */
#include "config.h"

#include "gpumem/device/gpu-ipc-private.h"
#include "gpumem/stream/gpu-event-private.h"

/**
 * gpu_event_export_handle:
 * @event: a #GpuEvent of gpu_stream_record() with %GPU_EVENT_FLAGS_INTERPROCESS
 * @error: return location for an error
 *
 * Exports @event as a handle for gpu_event_new_from_handle() in another process of the machine
 * (CUDA: cuIpcGetEventHandle). The program must keep a reference to @event while another process
 * waits for the exported event. Does not block.
 *
 * Returns: (transfer full): the handle, or %NULL with %GPU_ERROR_NOT_SUPPORTED if the back end
 *   cannot share events, %GPU_ERROR_INVALID_ARGUMENT without %GPU_EVENT_FLAGS_INTERPROCESS, or the
 *   driver's error
 *
 * Since: 0.1
 */
GBytes *
gpu_event_export_handle (GpuEvent  *event,
                         GError   **error)
{
  const char *function = "gpu_event_export_handle";
  g_auto (GpuIpcEnvelope) envelope = { .fd = -1 };
  GpuNativeEvent *shared;
  GpuNativeContext *context;
  GError *failure = NULL;

  g_return_val_if_fail (GPU_IS_EVENT (event), NULL);

  if (!_gpu_event_check (event, function, error)
      || !_gpu_context_check (_gpu_event_get_context (event), function, error))
    return NULL;

  context = _gpu_context_get_native (_gpu_event_get_context (event));
  shared = _gpu_event_get_shared (event);

  if (context->backend->event->export_handle == NULL)
    {
      _gpu_backend_fail (context->backend, function, "events for other processes", error);
      return NULL;
    }

  if (shared == NULL)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "%s: the event was recorded without GPU_EVENT_FLAGS_INTERPROCESS", function);
      return NULL;
    }

  envelope.payload = context->backend->event->export_handle (shared, &failure);

  if (!_gpu_native_context_end (context, function, failure, error))
    return NULL;

  return _gpu_ipc_envelope_seal (&envelope, GPU_IPC_EVENT, context->backend);
}

/**
 * gpu_event_new_from_handle:
 * @context: a #GpuContext on the same device of the machine
 * @handle: the handle that gpu_event_export_handle() returned in another process
 * @error: return location for an error
 *
 * Creates an object for an event that another process exported (CUDA: cuIpcOpenEventHandle).
 * Streams, threads and main loops can wait for the object as for any event. The object has no
 * times, and gpu_context_synchronize() does not wait for it. If the other process exits before the
 * event completes, it depends on the driver whether waits for the event ever end. Does not block.
 *
 * Returns: (transfer full): the event, or %NULL with %GPU_ERROR_IPC if @handle is invalid, belongs
 *   to another back end, or refers to an event that was finalized, %GPU_ERROR_NOT_SUPPORTED on
 *   devices without %GPU_CAPABILITIES_IPC_HANDLES, or the driver's error
 *
 * Since: 0.1
 */
GpuEvent *
gpu_event_new_from_handle (GpuContext  *context,
                           GBytes      *handle,
                           GError     **error)
{
  const char *function = "gpu_event_new_from_handle";
  g_auto (GpuIpcEnvelope) envelope = { 0 };
  g_autoptr (GpuTimeline) timeline = NULL;
  GpuNativeContext *native;
  GpuNativeEvent *imported;
  GError *failure = NULL;

  g_return_val_if_fail (GPU_IS_CONTEXT (context), NULL);
  g_return_val_if_fail (handle != NULL, NULL);

  native = _gpu_ipc_import_begin (context, GPU_IPC_EVENT, handle, function, &envelope, error);

  if (native == NULL)
    return NULL;

  imported = native->backend->event->import_handle (native, envelope.payload, &failure);

  if (!_gpu_native_context_end (native, function, failure, error))
    return NULL;

  timeline = _gpu_timeline_new_for_event (native, imported);

  return _gpu_event_new_for_point (context, timeline, 1, NULL);
}
