/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Copies without staging that report their progress: one operation of a stream, in several
 * commands. A thread waits for the event of each command and counts its bytes. The thread only
 * observes the copy: order, completion and failure of the operation do not depend on it. */
#include "config.h"

#include "gpumem/staging/gpu-transfer-private.h"

/* The number of parts is limited because each part has an event, and because the CUDA driver blocks
 * the caller while about 50 events are pending. */
#define MIN_PART_SIZE (16 * 1024 * 1024)
#define MAX_PARTS 16
/* Parts begin at multiples of this size, because drivers copy aligned memory faster. */
#define ALIGNMENT 4096

typedef struct
{
  GpuNativeContext *context;
  GpuProgress      *progress;
  gsize             size;           /* of each part, except the last one, in bytes */
  guint             n_events;
  GpuNativeEvent   *events[MAX_PARTS - 1]; /* of all parts except the last one */
} Parts;

static void
parts_free (Parts *parts)
{
  for (guint i = 0; i < parts->n_events; i++)
    g_clear_pointer (&parts->events[i], _gpu_native_event_unref);

  _gpu_progress_unref (parts->progress);
  _gpu_native_context_unref (parts->context);
  g_free (parts);
  _gpu_live_add (GPU_LIVE_TRANSFER, -1);
}

/* Stops at the first failure: the operation itself reports the error. */
static void
count_parts (gpointer data)
{
  Parts *parts = data;
  gboolean success = TRUE;

  for (guint i = 0; i < parts->n_events && success; i++)
    {
      success = parts->events[i]->backend->event->wait (parts->events[i], FALSE, NULL);

      if (success)
        _gpu_progress_add (parts->progress, parts->size);
    }

  parts_free (parts);
}

static gboolean
enqueue_part (const GpuTransferCopy  *copy,
              GpuNativeStream        *stream,
              gsize                   done,
              gsize                   size,
              GpuNativeEvent        **event,
              GError                **error)
{
  const GpuBufferOps *ops = stream->backend->buffer;
  guint8 *data = (guint8 *) copy->host.data + done;
  gsize offset = copy->device.offset + done;

  return copy->write ? ops->write (stream, copy->device.memory, offset, data, size, event, error)
                     : ops->read (stream, copy->device.memory, offset, data, size, event, error);
}

static gboolean
enqueue_parts (const GpuTransferCopy  *copy,
               GpuNativeStream        *stream,
               Parts                  *parts,
               GError                **error)
{
  gsize size = copy->extent.width;
  gsize done = 0;

  while (size - done > parts->size)
    {
      GpuNativeEvent **event = &parts->events[parts->n_events];

      if (!enqueue_part (copy, stream, done, parts->size, event, error))
        {
          stream->partial |= done > 0;
          return FALSE;
        }

      parts->n_events++;
      done += parts->size;
    }

  if (enqueue_part (copy, stream, done, size - done, NULL, error))
    return TRUE;

  stream->partial = TRUE;

  return FALSE;
}

gboolean
_gpu_transfer_has_parts (gsize size)
{
  return size > MIN_PART_SIZE;
}

gboolean
_gpu_transfer_submit_parts (const GpuTransferCopy  *copy,
                            GpuNativeStream        *stream,
                            GError                **error)
{
  Parts *parts = g_new0 (Parts, 1);
  gboolean success;

  parts->context = _gpu_native_context_ref (stream->context);
  parts->progress = _gpu_progress_ref (copy->progress);
  parts->size = MAX (MIN_PART_SIZE, (copy->extent.width / MAX_PARTS / ALIGNMENT + 1) * ALIGNMENT);
  _gpu_live_add (GPU_LIVE_TRANSFER, 1);
  success = enqueue_parts (copy, stream, parts, error);

  /* Without a flushed stream or a thread, the copy only reports its end. */
  if (!success || !stream->backend->stream->flush (stream, NULL)
      || !_gpu_transfer_push_wait (count_parts, parts))
    parts_free (parts);

  return success;
}
