/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Events. Each holds the point of its last record. */
#include "config.h"

#include "driver.h"

#define MAX_BEHIND_VALUE 150

#define FLAGS (CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS)

static CUresult
get_event (CUevent handle)
{
  TRY (object_check (handle, OBJECT_EVENT));
  return handle->object.context->error;
}

/* The host cannot wait for an event that a capture recorded. The real driver also invalidates the
 * capture. */
static CUresult
get_recorded (CUevent handle)
{
  TRY (get_event (handle));
  return handle->capture != 0
         ? misuse (CUDA_ERROR_CAPTURED_EVENT, "the event was recorded in a capture") : CUDA_SUCCESS;
}

ENTRY (cuEventCreate, (CUevent *event, unsigned int flags), (event, flags))
{
  Context *context;

  TRY (context_current (&context));
  if ((flags & ~FLAGS) != 0 ||
      ((flags & CU_EVENT_INTERPROCESS) != 0 && (flags & CU_EVENT_DISABLE_TIMING) == 0))
    return CUDA_ERROR_INVALID_VALUE;
  *event = object_new (sizeof (Event), OBJECT_EVENT, context);
  (*event)->flags = flags;
  if ((flags & CU_EVENT_INTERPROCESS) != 0)
    event_share (*event);
  return CUDA_SUCCESS;
}

ENTRY (cuEventDestroy, (CUevent event), (event))
{
  CUresult error;

  TRY (object_check (event, OBJECT_EVENT));
  error = event->object.context->error;
  g_clear_pointer (&event->point, point_unref);
  event_close (event);
  object_kill (event);
  return error;
}

ENTRY (cuEventRecord, (CUevent event, CUstream handle), (event, handle))
{
  Stream *stream;
  Op *op;

  TRY (stream_resolve (handle, &stream));
  TRY (object_check (event, OBJECT_EVENT));
  if (event->object.context != stream->object.context)
    return misuse (CUDA_ERROR_INVALID_HANDLE, "the event is of another context than the stream");
  /* Like the real driver, limit the number of operations that are queued while the stream waits for
   * a value: block until there is room for the record */
  while (stream->n_value_waits > 0 && stream->ops.length > MAX_BEHIND_VALUE)
    pthread_cond_wait (&point_done, &driver_lock);
  /* The wait released the lock: check both handles again */
  TRY (stream_resolve (handle, &stream));
  TRY (object_check (event, OBJECT_EVENT));
  event->capture = stream->capture;
  event->captured = stream;
  if (event->capture != 0)
    return CUDA_SUCCESS;
  op = op_new (NULL, NULL, NULL);
  event_record_shared (event, op);
  g_clear_pointer (&event->point, point_unref);
  event->point = stream_submit (stream, op);
  stream_snapshot (stream, event->point);
  return CUDA_SUCCESS;
}

ENTRY (cuEventQuery, (CUevent event), (event))
{
  TRY (get_recorded (event));
  return event_is_over (event) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

ENTRY (cuEventSynchronize, (CUevent event), (event))
{
  Context *context;

  TRY (get_recorded (event));
  context = event->object.context;
  event_wait (event);
  if (event->point != NULL)
    stream_see_frees (context, event->point->stream_id);
  return context->error;
}

ENTRY (cuEventElapsedTime, (float *milliseconds, CUevent start, CUevent end),
       (milliseconds, start, end))
{
  TRY (get_event (start));
  TRY (get_event (end));
  if (((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING) != 0 || start->point == NULL ||
      end->point == NULL || start->object.context != end->object.context)
    return CUDA_ERROR_INVALID_HANDLE;
  if (!start->point->done || !end->point->done)
    return CUDA_ERROR_NOT_READY;
  *milliseconds = (end->point->time - start->point->time) / 1e6f;
  return CUDA_SUCCESS;
}

typedef struct
{
  Stream        *stream;
  const guint32 *word;
  guint32        value;
} ValueWait;

static void
value_done (gpointer data)
{
  ((ValueWait *) data)->stream->n_value_waits--;
}

static gboolean
value_is_reached (gpointer data)
{
  const ValueWait *wait = data;

  return (gint32) (__atomic_load_n (wait->word, __ATOMIC_ACQUIRE) - wait->value) >= 0;
}

ENTRY (cuStreamWaitValue32, (CUstream handle, CUdeviceptr address, cuuint32_t value,
                             unsigned int flags),
       (handle, address, value, flags))
{
  ValueWait *wait;
  Stream *stream;
  CUresult code;
  Op *op;

  TRY (stream_resolve (handle, &stream));
  if (flags != CU_STREAM_WAIT_VALUE_GEQ || address % sizeof value != 0)
    return CUDA_ERROR_INVALID_VALUE;
  wait = g_new (ValueWait, 1);
  wait->stream = stream;
  wait->word = GSIZE_TO_POINTER (address);
  wait->value = value;
  op = op_new (NULL, wait, g_free);
  op->ready = value_is_reached;
  op->done = value_done;
  code = memory_check (op, stream, address, sizeof value, FALSE, "the value");
  if (code != CUDA_SUCCESS)
    {
      op_free (op);
      return code;
    }
  stream->n_value_waits++;
  point_unref (stream_submit (stream, op));
  return CUDA_SUCCESS;
}

ENTRY (cuStreamWaitEvent, (CUstream handle, CUevent event, unsigned int flags),
       (handle, event, flags))
{
  Stream *stream;
  Op *op;

  TRY (stream_resolve (handle, &stream));
  TRY (get_event (event));
  if (flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (event->capture != 0)
    return capture_wait (stream, event);
  if (stream->capture != 0 && event->point != NULL)
    return misuse (CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
                   "captured work would wait for work that is not captured");
  if (event_is_over (event))
    return CUDA_SUCCESS;
  op = op_new (NULL, NULL, NULL);
  op_wait (op, event->point);
  event_wait_shared (event, op);
  point_unref (stream_submit (stream, op));
  return CUDA_SUCCESS;
}
