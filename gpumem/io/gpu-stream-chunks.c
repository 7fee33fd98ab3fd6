/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/backend/gpu-native-context-private.h"
#include "gpumem/base/gpu-error-private.h"
#include "gpumem/base/gpu-workers-private.h"
#include "gpumem/command/gpu-command-private.h"
#include "gpumem/command/gpu-memory-task-private.h"
#include "gpumem/command/gpu-staging-private.h"
#include "gpumem/io/gpu-stream-chunks-private.h"
#include "gpumem/memory/gpu-host-memory-private.h"

/* Large enough for the speed of the link, small enough for the caches of the CPU, in bytes */
#define MAX_CHUNK_SIZE ((gsize) 512 * 1024)

gboolean
_gpu_stream_chunks_check_range (GpuMemory    *memory,
                                GpuTimeline  *timeline,
                                gsize         offset,
                                gsize         size,
                                gboolean      write,
                                const char   *function,
                                GError      **error)
{
  if (!_gpu_memory_check (memory, function, error)
      || !_gpu_memory_check_range (memory, function, write ? "destination" : "source", offset, size,
                                   error)
      || !_gpu_memory_check_host (memory, function, write, error))
    return FALSE;

  return memory->storage->context == timeline->context
         || _gpu_native_context_set_memory_mismatch (function, memory->size,
                                                     memory->storage->context, timeline->context,
                                                     error);
}

gboolean
_gpu_stream_chunks_init (GpuStreamChunks  *chunks,
                         GpuMemory        *memory,
                         GpuStream        *stream,
                         gsize             offset,
                         gsize             size,
                         gboolean          write,
                         const char       *function,
                         GError          **error)
{
  GpuTimeline *timeline = _gpu_memory_peek_timeline (memory, stream, function, NULL, error);

  if (timeline == NULL
      || !_gpu_stream_chunks_check_range (memory, timeline, offset, size, write, function, error))
    return FALSE;

  return _gpu_stream_chunks_open (chunks, memory, timeline, offset, size, error);
}

gboolean
_gpu_stream_chunks_open (GpuStreamChunks  *chunks,
                         GpuMemory        *memory,
                         GpuTimeline      *timeline,
                         gsize             offset,
                         gsize             size,
                         GError          **error)
{
  chunks->chunk_size = CLAMP (size, 1, MAX_CHUNK_SIZE);
  chunks->host = gpu_host_memory_new (memory->context, GPU_HOST_MEMORY_FLAGS_NONE,
                                      chunks->chunk_size * GPU_STREAM_CHUNKS, error);

  if (chunks->host == NULL)
    return FALSE;

  chunks->memory = g_object_ref (memory);
  chunks->timeline = _gpu_timeline_ref (timeline);
  _gpu_timeline_use (timeline);
  chunks->offset = offset;
  chunks->size = size;

  return TRUE;
}

/* Copies in flight hold references to both memory objects. */
void
_gpu_stream_chunks_clear (GpuStreamChunks *chunks)
{
  if (chunks->timeline != NULL)
    {
      for (guint i = 0; i < GPU_STREAM_CHUNKS; i++)
        _gpu_timeline_unwatch (chunks->timeline, &chunks->pending[i]);

      _gpu_timeline_unuse (chunks->timeline);
      g_clear_pointer (&chunks->timeline, _gpu_timeline_unref);
    }

  g_clear_object (&chunks->host);
  g_clear_object (&chunks->memory);
}

gboolean
_gpu_stream_chunks_check (GpuStreamChunks  *chunks,
                          GCancellable     *cancellable,
                          const char       *function,
                          GError          **error)
{
  if (chunks->memory != NULL)
    return _gpu_error_check_cancelled (cancellable, function, error);

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "the stream has no memory; create it with %s()", function);

  return FALSE;
}

guint8 *
_gpu_stream_chunks_get_data (GpuStreamChunks *chunks,
                             guint            place)
{
  return (guint8 *) chunks->host->data + place * chunks->chunk_size;
}

gboolean
_gpu_stream_chunks_copy (GpuStreamChunks  *chunks,
                         guint             place,
                         gsize             begin,
                         gsize             size,
                         gboolean          write,
                         const char       *function,
                         GError          **error)
{
  g_auto (GpuHostWait) wait = { NULL };
  GpuMemory *host = GPU_MEMORY (chunks->host);
  gsize host_offset = place * chunks->chunk_size;
  gsize offset = chunks->offset + begin;
  const GpuRangeCopy copy = write
                            ? (GpuRangeCopy) { chunks->memory, offset, host, host_offset, size }
                            : (GpuRangeCopy) { host, host_offset, chunks->memory, offset, size };

  _gpu_host_wait_begin (&wait, chunks->timeline);

  if (!_gpu_timeline_check_capture (chunks->timeline, function, error)
      || !_gpu_timeline_copy (chunks->timeline, function, &copy, NULL, error))
    return FALSE;

  /* Both memory objects belong to one context, so the copy is one submission. _gpu_submit() may
   * repeat it, and the last attempt copies all bytes. A failure of an earlier attempt is not one of
   * the copy. */
  _gpu_timeline_unwatch (chunks->timeline, &chunks->pending[place]);
  _gpu_timeline_watch (chunks->timeline, &chunks->pending[place], wait.work.last);

  return TRUE;
}

gboolean
_gpu_stream_chunks_wait (GpuStreamChunks  *chunks,
                         guint             place,
                         GCancellable     *cancellable,
                         const char       *function,
                         GError          **error)
{
  GpuWatch *pending = &chunks->pending[place];

  if (pending->last == 0)
    return TRUE;

  if (!_gpu_timeline_wait_until (chunks->timeline, pending->last, -1, cancellable, error))
    {
      if (!g_cancellable_is_cancelled (cancellable))
        _gpu_timeline_unwatch (chunks->timeline, pending);
      g_prefix_error (error, "%s: ", function);
      return FALSE;
    }

  _gpu_timeline_unwatch (chunks->timeline, pending);

  return TRUE;
}

gboolean
_gpu_stream_chunks_seek (GpuStreamChunks  *chunks,
                         goffset           offset,
                         GSeekType         type,
                         gsize            *position,
                         GError          **error)
{
  gsize base = type == G_SEEK_CUR ? chunks->position : type == G_SEEK_END ? chunks->size : 0;

  if (offset < 0 ? (guint64) -(offset + 1) >= base : (guint64) offset > chunks->size - base)
    {
      g_set_error (error, G_IO_ERROR, G_IO_ERROR_INVALID_ARGUMENT,
                   "cannot seek by %" G_GOFFSET_FORMAT " bytes from byte %" G_GSIZE_FORMAT
                   " of %" G_GSIZE_FORMAT, offset, base, chunks->size);
      return FALSE;
    }

  *position = base + (gsize) offset;

  return TRUE;
}

/* A cancellation after the end loses no bytes: the task returns its result. */
GTask *
_gpu_stream_chunks_new_task (gpointer             stream,
                             gpointer             tag,
                             gconstpointer        data,
                             gsize                size,
                             int                  priority,
                             GCancellable        *cancellable,
                             GAsyncReadyCallback  callback,
                             gpointer             user_data)
{
  GTask *task = g_task_new (stream, cancellable, callback, user_data);
  GpuStreamBytes *bytes = g_new (GpuStreamBytes, 1);

  *bytes = (GpuStreamBytes) { (gpointer) data, size };
  g_task_set_source_tag (task, tag);
  g_task_set_priority (task, priority);
  g_task_set_check_cancellable (task, FALSE);
  g_task_set_task_data (task, bytes, g_free);

  return task;
}

void
_gpu_stream_chunks_run_task (GTask       *task,
                             gboolean     at_once,
                             gboolean     is_boolean,
                             GpuTaskFunc  func)
{
  if (at_once)
    _gpu_workers_run_task_here (task, is_boolean, func);
  else
    _gpu_workers_run_task (task, is_boolean, func);
}

static gboolean
return_true (GSeekable *seekable G_GNUC_UNUSED)
{
  return TRUE;
}

static gboolean
return_false (GSeekable *seekable G_GNUC_UNUSED)
{
  return FALSE;
}

static gboolean
refuse_truncate (GSeekable     *seekable,
                 goffset        offset G_GNUC_UNUSED,
                 GCancellable  *cancellable G_GNUC_UNUSED,
                 GError       **error)
{
  g_set_error (error, G_IO_ERROR, G_IO_ERROR_NOT_SUPPORTED, "the memory of a %s has a fixed size",
               G_OBJECT_TYPE_NAME (seekable));

  return FALSE;
}

void
_gpu_stream_chunks_init_seekable (GSeekableIface *iface)
{
  iface->can_seek = return_true;
  iface->can_truncate = return_false;
  iface->truncate_fn = refuse_truncate;
}
