/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Copies between a file and memory, in the order of a stream. */
#include "config.h"

#include "gpumem/staging/gpu-transfer-cross-driver-private.h"

struct _GpuTransferQueue
{
  gatomicrefcount refs;
  GMutex          lock;             /* guards the fields below */
  GCond           cond;
  GQueue          copies;           /* of GpuCrossDriver; submitted, in the order of the stream */
  gboolean        is_reserved;      /* a copy leases its memory or is being submitted */
  gboolean        is_driven;        /* a thread drives the copies */
};

GpuTransferQueue *
_gpu_transfer_queue_new (void)
{
  GpuTransferQueue *queue = g_new0 (GpuTransferQueue, 1);

  g_atomic_ref_count_init (&queue->refs);
  g_mutex_init (&queue->lock);
  g_cond_init (&queue->cond);

  return queue;
}

GpuTransferQueue *
_gpu_transfer_queue_ref (GpuTransferQueue *queue)
{
  g_atomic_ref_count_inc (&queue->refs);

  return queue;
}

void
_gpu_transfer_queue_unref (GpuTransferQueue *queue)
{
  if (!g_atomic_ref_count_dec (&queue->refs))
    return;

  g_mutex_clear (&queue->lock);
  g_cond_clear (&queue->cond);
  g_free (queue);
}

/* --- driving ---------------------------------------------------------------------------------- */

static gboolean
is_read (const GpuCrossDriver *cross)
{
  return cross->copy.user == TO;
}

/* Returns the file's side, which has no context. */
static guint
get_file_side (const GpuCrossDriver *cross)
{
  return 1 - cross->copy.user;
}

static guint8 *
get_place (gpointer data,
           guint    chunk)
{
  return _gpu_cross_driver_get_place (data, chunk);
}

/* Called by the threads that copy when the first @n_done chunks of the file are copied. */
static void
on_copied (gpointer data,
           guint    n_done)
{
  GpuCrossDriver *cross = data;
  guint end = is_read (cross) ? n_done : MIN (n_done + cross->n_places, cross->n_chunks);

  if (cross->copy.file.is_direct)
    return;

  g_mutex_lock (&cross->lock);
  _gpu_cross_driver_signal_locked (cross, cross->copy.user, end);
  g_mutex_unlock (&cross->lock);
}

/* Fails the copy if work on which it depends has failed. */
static void
inherit_failure_locked (GpuCrossDriver *cross)
{
  GPtrArray *earlier = g_steal_pointer (&cross->earlier);
  GError *failure = NULL;

  g_mutex_unlock (&cross->lock);

  for (guint i = 0; earlier != NULL && i < earlier->len && failure == NULL; i++)
    _gpu_cross_driver_query (earlier->pdata[i], &failure);

  g_clear_pointer (&earlier, g_ptr_array_unref);

  if (failure == NULL)
    failure = cross->copy.explain (cross->copy.data, cross->copy.user);

  g_mutex_lock (&cross->lock);

  if (failure != NULL)
    _gpu_cross_driver_fail_locked (cross, get_file_side (cross), failure);
}

/* Waits until the stream reaches the copy, and until the places are free. A copy to the file has no
 * `first`, unless it is direct: its first command reaches the stream in order. */
static void
wait_for_turn_locked (GpuCrossDriver *cross)
{
  GError *failure = NULL;

  while (!cross->has_first && !cross->ended)
    g_cond_wait (&cross->cond, &cross->lock);

  for (guint i = 0; i < cross->n_leases; i++)
    {
      if (cross->leases[i].before != NULL)
        _gpu_cross_driver_wait_unlocked (cross, cross->leases[i].before, NULL);
    }

  if (cross->first != NULL)
    _gpu_cross_driver_wait_unlocked (cross, cross->first, &failure);

  /* A failure of earlier work does not affect a copy that replaces the contents of the memory. */
  if (failure != NULL && !is_read (cross))
    _gpu_cross_driver_fail_locked (cross, cross->copy.user, failure);
  else
    g_clear_error (&failure);

  if (cross->first != NULL)
    inherit_failure_locked (cross);
}

static gboolean
wait_for_pieces_unlocked (GpuCrossDriver *cross,
                          guint           n_chunks)
{
  gboolean success;

  g_mutex_unlock (&cross->lock);
  success = _gpu_transfer_pieces_wait (cross->pieces, n_chunks);
  g_mutex_lock (&cross->lock);

  return success;
}

static void
set_ready_unlocked (GpuCrossDriver *cross,
                    guint           n_ready)
{
  g_mutex_unlock (&cross->lock);
  _gpu_transfer_pieces_set_ready (cross->pieces, n_ready);
  g_mutex_lock (&cross->lock);
}

/* Passes chunks from one side to the other until all are passed or the copy has failed. Threads
 * wait for a chunk of the stream only after the chunk before it in the same place. */
static void
drive_chunks_locked (GpuCrossDriver *cross)
{
  guint user = cross->copy.user;
  guint n_places = _gpu_cross_driver_get_n_placed (cross);

  if (is_read (cross))
    set_ready_unlocked (cross, n_places);
  else
    _gpu_cross_driver_signal_locked (cross, user, n_places);

  for (guint i = is_read (cross) ? n_places : 0; i < cross->n_chunks; i++)
    {
      guint before = i >= n_places ? i - n_places + 1 : 0;

      if (!wait_for_pieces_unlocked (cross, before))
        return;

      _gpu_cross_driver_wait_locked (cross, user, is_read (cross) ? before - 1 : i);
      if (i == 0 && cross->failure == NULL)
        inherit_failure_locked (cross);

      if (cross->failure != NULL || (cross->ended && !cross->whole))
        return;

      set_ready_unlocked (cross, i + 1);
    }
}

static void
drive_locked (GpuCrossDriver *cross)
{
  guint user = cross->copy.user;
  gboolean is_cancelled;
  GError *failure;

  wait_for_turn_locked (cross);

  if (cross->failure == NULL && cross->copy.file.is_direct)
    set_ready_unlocked (cross, cross->n_chunks);
  else if (cross->failure == NULL)
    drive_chunks_locked (cross);

  if (cross->failure == NULL && (!cross->ended || cross->whole))
    wait_for_pieces_unlocked (cross, cross->n_chunks);

  g_mutex_unlock (&cross->lock);
  _gpu_transfer_pieces_end (cross->pieces);
  failure = _gpu_transfer_pieces_get_failure (cross->pieces, &is_cancelled);
  g_mutex_lock (&cross->lock);

  if (failure != NULL)
    {
      cross->reported = is_cancelled && cross->failure == NULL;
      g_prefix_error (&failure, "%s: ", cross->copy.file.function);
      _gpu_cross_driver_fail_locked (cross, get_file_side (cross), failure);
    }

  _gpu_cross_driver_signal_locked (cross, user, cross->n_chunks + 1);

  for (guint i = 0; i < cross->n_chunks && !cross->copy.file.is_direct; i++)
    _gpu_cross_driver_wait_locked (cross, user, i);

  while (!cross->ended)
    g_cond_wait (&cross->cond, &cross->lock);
}

static void
drive (GpuCrossDriver *cross)
{
  GPtrArray *earlier;
  GpuNativeEvent *last;

  g_mutex_lock (&cross->lock);
  drive_locked (cross);
  cross->over = TRUE;
  last = cross->last;
  earlier = g_steal_pointer (&cross->earlier);
  g_mutex_unlock (&cross->lock);

  /* Each copy refers to the copy before it: do not let a long chain free itself recursively. */
  g_clear_pointer (&earlier, g_ptr_array_unref);

  /* A copy whose submission failed has no last event; its places are still leased. */
  if (last != NULL)
    last->backend->event->wait (last, FALSE, NULL);

  if (cross->n_leases > 0 && last != NULL)
    _gpu_transfer_ring_finish (cross->ring, last);
  else if (cross->n_leases > 0)
    _gpu_transfer_ring_return (cross->ring, cross->leases, cross->n_leases);

  cross->copy.end (cross->copy.data);
  _gpu_cross_driver_unref (cross);
}

static void
drive_queue (gpointer data)
{
  GpuTransferQueue *queue = data;

  g_mutex_lock (&queue->lock);

  while (TRUE)
    {
      GpuCrossDriver *cross;

      while (queue->is_reserved && g_queue_is_empty (&queue->copies))
        g_cond_wait (&queue->cond, &queue->lock);

      cross = g_queue_pop_head (&queue->copies);
      if (cross == NULL)
        break;

      g_mutex_unlock (&queue->lock);
      drive (cross);
      g_mutex_lock (&queue->lock);
    }

  queue->is_driven = FALSE;
  g_mutex_unlock (&queue->lock);
  _gpu_transfer_queue_unref (queue);
}

/* Waits until no other thread leases memory for a copy of this stream or submits it: that copy will
 * share its memory. Starts the thread that drives the copies before the first command is submitted,
 * because later that may fail. */
static gboolean
reserve (GpuTransferQueue *queue)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&queue->lock);

  while (queue->is_reserved)
    g_cond_wait (&queue->cond, &queue->lock);

  if (!queue->is_driven && !_gpu_transfer_push_wait (drive_queue, _gpu_transfer_queue_ref (queue)))
    {
      _gpu_transfer_queue_unref (queue);
      return FALSE;
    }

  queue->is_driven = TRUE;
  queue->is_reserved = TRUE;

  return TRUE;
}

static void
end_reservation (GpuTransferQueue *queue)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&queue->lock);

  queue->is_reserved = FALSE;
  g_cond_broadcast (&queue->cond);
}

/* Takes ownership of @cross. */
static void
push (GpuTransferQueue *queue,
      GpuCrossDriver   *cross)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&queue->lock);

  g_queue_push_tail (&queue->copies, cross);
  g_cond_broadcast (&queue->cond);
}

/* --- submitting ------------------------------------------------------------------------------- */

static gboolean
submit_commands (GpuCrossDriver   *cross,
                 GpuNativeStream  *stream,
                 GError          **error)
{
  guint user = cross->copy.user;
  gboolean has_commands = !cross->copy.file.is_direct;

  if ((is_read (cross) || !has_commands)
      && !_gpu_cross_driver_submit_first (cross, stream, error))
    return FALSE;

  for (guint i = 0; has_commands && i < cross->n_chunks; i++)
    {
      if (!_gpu_cross_driver_submit_command (cross, stream, user, i, error))
        return FALSE;
    }

  return (is_read (cross) && has_commands)
         || _gpu_cross_driver_enqueue_wait (cross, stream, user, cross->n_chunks, error);
}

gboolean
_gpu_cross_file_submit (GpuCrossDriver   *cross,
                        GpuNativeMemory  *memory,
                        GpuNativeStream  *stream,
                        gboolean          retain_waits,
                        GPtrArray        *earlier,
                        GError           *failure,
                        GpuNativeEvent  **event,
                        GError          **error)
{
  const GpuStreamOps *ops = stream->backend->stream;
  GError *reason = NULL;
  gboolean success;

  cross->memories[cross->copy.user] = memory;
  if (cross->copy.file.is_direct)
    cross->host = (guint8 *) memory->host + cross->copy.sides[cross->copy.user].offset;
  cross->retain_waits = retain_waits;
  cross->earlier = earlier;
  cross->failure = failure;
  cross->failed = get_file_side (cross);
  push (cross->copy.file.queue, _gpu_cross_driver_ref (cross));
  success = submit_commands (cross, stream, &reason)
            && (cross->last = ops->record (stream, GPU_EVENT_FLAGS_NONE, &reason)) != NULL
            && ops->flush (stream, &reason);

  if (success)
    {
      stream->partial = FALSE;
      if (event != NULL)
        *event = _gpu_native_event_ref (cross->last);
      if (cross->n_leases > 0)
        _gpu_transfer_ring_submit (cross->ring, cross->copy.file.order, cross->leases,
                                   cross->n_leases, cross->last);
    }
  else
    {
      g_clear_pointer (&cross->last, _gpu_native_event_unref);
    }

  _gpu_cross_driver_end_submission (cross, success, reason);
  end_reservation (cross->copy.file.queue);
  if (reason != NULL)
    g_propagate_error (error, reason);

  return success;
}

void
_gpu_cross_file_abandon (GpuCrossDriver *cross)
{
  if (cross->n_leases > 0)
    _gpu_transfer_ring_return (cross->ring, cross->leases, cross->n_leases);
  end_reservation (cross->copy.file.queue);
  cross->copy.end (cross->copy.data);
}

void
_gpu_cross_file_cancel (GpuCrossDriver *cross,
                        GDestroyNotify  func,
                        gpointer        data)
{
  _gpu_transfer_pieces_cancel (cross->pieces, func, data);
}

/* Prefers a failure that the driving thread has recorded: it precedes a cancellation. */
GError *
_gpu_cross_file_get_failure (GpuCrossDriver *cross)
{
  const char *function = cross->copy.file.function;
  GError *failure;

  g_mutex_lock (&cross->lock);
  failure = cross->failure != NULL ? g_error_copy (cross->failure) : NULL;
  g_mutex_unlock (&cross->lock);

  if (failure == NULL)
    failure = _gpu_transfer_pieces_get_failure (cross->pieces, NULL);
  if (failure != NULL && !g_str_has_prefix (failure->message, function))
    g_prefix_error (&failure, "%s: ", function);

  return failure;
}

gboolean
_gpu_cross_file_is_whole (GpuCrossDriver *cross)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&cross->lock);

  return cross->copy.file.file != NULL && cross->whole;
}

/* --- creation --------------------------------------------------------------------------------- */

/* Leases the places. A copy that the host performs directly needs none. */
static gboolean
lease (GpuCrossDriver *cross)
{
  guint wanted = (cross->n_chunks + cross->per_lease - 1) / cross->per_lease;

  if (cross->copy.file.is_direct)
    {
      cross->n_places = cross->n_chunks;
      return TRUE;
    }

  cross->ring = cross->copy.sides[cross->copy.user].context;
  cross->n_leases = _gpu_transfer_ring_lease_in_order (cross->ring, cross->copy.file.order, wanted,
                                                       cross->leases);
  cross->n_places = cross->n_leases * cross->per_lease;

  return cross->n_leases > 0;
}

GpuCrossDriver *
_gpu_cross_file_begin (const GpuCrossDriverCopy *copy,
                       const char              **reason)
{
  g_autoptr (GpuCrossDriver) cross = NULL;
  GpuTransferPiecesCopy pieces = { .file = copy->file.file, .read = copy->user == TO,
                                   .position = copy->file.position, .size = copy->size,
                                   .progress = copy->file.progress,
                                   .cancellable = copy->file.cancellable,
                                   .get_place = get_place, .copied = on_copied };

  *reason = "a driver cannot make streams wait for the host";

  if (!_gpu_cross_driver_has_host_waits (copy->sides[copy->user].context))
    return NULL;

  *reason = "no thread can be started";

  if (!reserve (copy->file.queue))
    {
      _gpu_transfer_report_threads ();
      return NULL;
    }

  cross = _gpu_cross_driver_new (copy);
  cross->has_first = copy->user == FROM && !copy->file.is_direct;
  *reason = "no page-locked memory is left";

  if (!lease (cross))
    {
      end_reservation (copy->file.queue);
      return NULL;
    }

  pieces.chunk_size = cross->chunk_size;
  pieces.data = cross;
  cross->pieces = _gpu_transfer_pieces_new (&pieces);

  return g_steal_pointer (&cross);
}
