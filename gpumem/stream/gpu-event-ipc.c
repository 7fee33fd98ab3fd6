/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Events that pass to other processes. */
#include "config.h"

#include "gpumem/device/gpu-ipc-private.h"
#include "gpumem/stream/gpu-event-private.h"

/**
 * gpu_event_export_handle:
 * @event: a #GpuEvent that gpu_stream_record() made with %GPU_EVENT_FLAGS_INTERPROCESS
 * @error: return location for an error
 *
 * Makes a handle of @event that another process of the machine opens with
 * gpu_event_new_from_handle() (CUDA: cuIpcGetEventHandle). @event must live as long as another
 * process waits for it. Does not block.
 *
 * Returns: (transfer full): the handle, or %NULL with %GPU_ERROR_NOT_SUPPORTED on back ends whose
 *   events do not pass, %GPU_ERROR_INVALID_ARGUMENT without %GPU_EVENT_FLAGS_INTERPROCESS, or the
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
 * @handle: what gpu_event_export_handle() gave in another process
 * @error: return location for an error
 *
 * Makes an event of one of another process (CUDA: cuIpcOpenEventHandle). It can be waited for like
 * any other: by streams, by threads and by the main loop. It tells no times, and is not among what
 * gpu_context_synchronize() waits for. If the other process goes without completing it, the driver
 * decides what becomes of who waits. Does not block.
 *
 * Returns: (transfer full): the event, or %NULL with %GPU_ERROR_IPC if @handle is none, of another
 *   back end, or of an event that is gone, %GPU_ERROR_NOT_SUPPORTED on devices without
 *   %GPU_CAPABILITIES_IPC_HANDLES, or the driver's error
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
