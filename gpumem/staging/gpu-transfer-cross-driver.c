/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <string.h>

#include "gpumem/staging/gpu-transfer-cross-driver-private.h"

/* The maximum number of slots of one copy: enough to keep both streams busy, and few enough to
 * leave slots for other copies. */
#define MAX_SLOTS 4
#define CHUNKS_PER_SLOT 4

GpuCrossDriver *
_gpu_cross_driver_ref (GpuCrossDriver *cross)
{
  g_atomic_ref_count_inc (&cross->refs);

  return cross;
}

static void
clear_events (GpuNativeEvent **events,
              guint            n_events)
{
  for (guint i = 0; i < n_events; i++)
    g_clear_pointer (&events[i], _gpu_native_event_unref);

  g_free (events);
}

void
_gpu_cross_driver_unref (GpuCrossDriver *cross)
{
  if (!g_atomic_ref_count_dec (&cross->refs))
    return;

  for (guint side = 0; side < 2; side++)
    {
      clear_events (cross->events[side], cross->n_chunks);
      clear_events (cross->host_waits[side], cross->n_chunks + 1);
      g_clear_pointer (&cross->copy.sides[side].context, _gpu_native_context_unref);
    }

  for (guint i = 0; i < cross->n_leases; i++)
    g_clear_pointer (&cross->leases[i].before, _gpu_native_event_unref);

  g_clear_pointer (&cross->pieces, _gpu_transfer_pieces_unref);
  g_clear_pointer (&cross->earlier, g_ptr_array_unref);
  g_clear_pointer (&cross->last, _gpu_native_event_unref);

  g_ptr_array_unref (cross->waits);
  g_clear_pointer (&cross->first, _gpu_native_event_unref);
  g_clear_error (&cross->failure);
  g_mutex_clear (&cross->lock);
  g_cond_clear (&cross->cond);
  g_free (cross);
  _gpu_live_add (GPU_LIVE_TRANSFER, -1);
}

guint8 *
_gpu_cross_driver_get_place (GpuCrossDriver *cross,
                             guint           chunk)
{
  guint place = chunk % cross->n_places;

  if (cross->host != NULL)
    return cross->host + chunk * cross->chunk_size;

  return cross->leases[place / cross->per_lease].data
         + place % cross->per_lease * cross->chunk_size;
}

/* Returns the number of chunks at the start of the copy for which there is a free place in
 * page-locked memory. Later chunks reuse the places of earlier chunks. */
guint
_gpu_cross_driver_get_n_placed (const GpuCrossDriver *cross)
{
  return MIN (cross->n_places, cross->n_chunks);
}

/* --- the thread that passes chunks from one stream to the other ------------------------------- */

void
_gpu_cross_driver_signal_locked (GpuCrossDriver *cross,
                                 guint           side,
                                 guint           end)
{
  const GpuTransferOps *ops = cross->copy.sides[side].context->backend->transfer;

  for (guint i = cross->n_opened[side]; i < end; i++)
    {
      GpuNativeEvent *host_wait = g_steal_pointer (&cross->host_waits[side][i]);

      if (host_wait == NULL)
        continue;

      ops->signal_host_wait (host_wait);
      _gpu_native_event_unref (host_wait);
    }

  cross->n_opened[side] = MAX (cross->n_opened[side], end);
}

void
_gpu_cross_driver_fail_locked (GpuCrossDriver *cross,
                               guint           side,
                               GError         *failure)
{
  if (cross->failure == NULL)
    {
      cross->failure = failure;
      cross->failed = side;
    }
  else
    {
      g_clear_error (&failure);
    }
}

/* Waits until threads that are failing a user event have finished. Only then may the copy signal
 * the host-signalled waits of later commands. */
static void
wait_for_failing_events (GpuCrossDriver *cross)
{
  for (guint side = 0; side < 2; side++)
    {
      GpuNativeContext *context = cross->copy.sides[side].context;

      if (context == NULL)
        continue;

      g_mutex_lock (&context->failure_lock);
      g_mutex_unlock (&context->failure_lock);
    }
}

void
_gpu_cross_driver_wait_unlocked (GpuCrossDriver  *cross,
                                 GpuNativeEvent  *event,
                                 GError         **failure)
{
  g_mutex_unlock (&cross->lock);

  if (!event->backend->event->wait (event, FALSE, failure))
    wait_for_failing_events (cross);

  g_mutex_lock (&cross->lock);
}

/* Waits for earlier work in the user's stream. A failure of that work does not affect the copy.
 * Keeps the reference on `first` after the wait, because PoCL may still use an event that has
 * failed. */
static void
wait_for_turn_locked (GpuCrossDriver *cross)
{
  while (!cross->has_first && !cross->ended)
    g_cond_wait (&cross->cond, &cross->lock);

  if (cross->first != NULL)
    _gpu_cross_driver_wait_unlocked (cross, cross->first, NULL);
}

void
_gpu_cross_driver_wait_locked (GpuCrossDriver *cross,
                               guint           side,
                               guint           chunk)
{
  GError *failure = NULL;
  GError *reason;

  while (cross->n_submitted[side] <= chunk && !cross->ended)
    g_cond_wait (&cross->cond, &cross->lock);

  if (cross->n_submitted[side] <= chunk)
    return;

  _gpu_cross_driver_wait_unlocked (cross, cross->events[side][chunk], &failure);

  reason = cross->copy.explain (cross->copy.data, side);

  if (failure == NULL && reason == NULL)
    return;

  if (reason != NULL)
    g_clear_error (&failure);

  _gpu_cross_driver_fail_locked (cross, side, reason != NULL ? reason : failure);
}

static void
drive_chunk_locked (GpuCrossDriver *cross,
                    guint           chunk)
{
  if (chunk >= cross->n_places)
    _gpu_cross_driver_wait_locked (cross, TO, chunk - cross->n_places);

  _gpu_cross_driver_signal_locked (cross, FROM, chunk + 1);
  _gpu_cross_driver_wait_locked (cross, FROM, chunk);
  _gpu_cross_driver_signal_locked (cross, TO, chunk + 1);
}

static void
drive_locked (GpuCrossDriver *cross)
{
  wait_for_turn_locked (cross);
  _gpu_cross_driver_signal_locked (cross, FROM, _gpu_cross_driver_get_n_placed (cross));

  for (guint i = 0; i < cross->n_chunks; i++)
    drive_chunk_locked (cross, i);

  for (guint i = cross->n_chunks - _gpu_cross_driver_get_n_placed (cross); i < cross->n_chunks; i++)
    _gpu_cross_driver_wait_locked (cross, TO, i);

  _gpu_cross_driver_signal_locked (cross, FROM, cross->n_chunks + 1);

  while (!cross->ended)
    g_cond_wait (&cross->cond, &cross->lock);
}

static void
drive_cross_driver (gpointer data)
{
  GpuCrossDriver *cross = data;

  g_mutex_lock (&cross->lock);
  drive_locked (cross);
  cross->over = TRUE;
  g_mutex_unlock (&cross->lock);

  _gpu_transfer_ring_return (cross->ring, cross->leases, cross->n_leases);
  cross->copy.end (cross->copy.data);
  _gpu_cross_driver_unref (cross);
}

/* --- submitting ------------------------------------------------------------------------------- */

/* Creates the host-signalled wait that precedes command @i of @side. Sets @host_wait to NULL,
 * without an error, if the command need not wait. */
static gboolean
get_host_wait (GpuCrossDriver  *cross,
               guint            side,
               guint            i,
               GpuNativeEvent **host_wait,
               GError         **error)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&cross->lock);
  GpuNativeContext *context = cross->copy.sides[side].context;
  GpuNativeEvent *made;

  *host_wait = NULL;

  /* The places of the first chunks are free when the copy begins. On the side FROM, the wait before
   * command 0 therefore suffices for the commands of these chunks. */
  if (i < cross->n_opened[side]
      || (side == FROM && i > 0 && i < _gpu_cross_driver_get_n_placed (cross)))
    return TRUE;

  made = context->backend->transfer->create_host_wait (context, error);

  if (made == NULL)
    return FALSE;

  cross->host_waits[side][i] = made;
  *host_wait = _gpu_native_event_ref (made);

  return TRUE;
}

gboolean
_gpu_cross_driver_enqueue_wait (GpuCrossDriver   *cross,
                                GpuNativeStream  *stream,
                                guint             side,
                                guint             i,
                                GError          **error)
{
  g_autoptr (GpuNativeEvent) host_wait = NULL;
  GpuNativeEvent *event = NULL;
  gboolean success;

  if (!get_host_wait (cross, side, i, &host_wait, error))
    return FALSE;

  if (host_wait == NULL)
    return TRUE;

  success = stream->backend->stream->wait (stream, &host_wait, 1, cross->retain_waits ? &event
                                           : NULL,
                                           error);
  stream->partial |= success;

  if (event != NULL)
    g_ptr_array_add (cross->waits, event);

  return success;
}

gboolean
_gpu_cross_driver_submit_command (GpuCrossDriver   *cross,
                                  GpuNativeStream  *stream,
                                  guint             side,
                                  guint             chunk,
                                  GError          **error)
{
  const GpuBufferOps *ops = stream->backend->buffer;
  GpuNativeMemory *memory = cross->memories[side];
  gsize start = chunk * cross->chunk_size;
  gsize size = MIN (cross->copy.size - start, cross->chunk_size);
  gsize offset = cross->copy.sides[side].offset + start;
  guint8 *place = _gpu_cross_driver_get_place (cross, chunk);
  GpuNativeEvent *event = NULL;

  if (!_gpu_cross_driver_enqueue_wait (cross, stream, side, chunk, error)
      || !(side == FROM ? ops->read (stream, memory, offset, place, size, &event, error)
                        : ops->write (stream, memory, offset, place, size, &event, error)))
    return FALSE;

  stream->partial = TRUE;

  g_mutex_lock (&cross->lock);
  cross->events[side][chunk] = event;
  cross->n_submitted[side] = chunk + 1;
  g_cond_broadcast (&cross->cond);
  g_mutex_unlock (&cross->lock);

  return stream->backend->stream->flush (stream, error);
}

/* Records an event in the user's stream. When the event completes, the driving thread lets the
 * other stream start. */
gboolean
_gpu_cross_driver_submit_first (GpuCrossDriver   *cross,
                                GpuNativeStream  *stream,
                                GError          **error)
{
  GpuNativeEvent *first = stream->backend->stream->record (stream, GPU_EVENT_FLAGS_NONE, error);

  if (first == NULL || !stream->backend->stream->flush (stream, error))
    {
      g_clear_pointer (&first, _gpu_native_event_unref);
      return FALSE;
    }

  g_mutex_lock (&cross->lock);
  cross->first = first;
  cross->has_first = TRUE;
  g_cond_broadcast (&cross->cond);
  g_mutex_unlock (&cross->lock);

  return TRUE;
}

static gboolean
submit_sides (GpuCrossDriver          *cross,
              GpuNativeStream *const  *streams,
              guint                    sides,
              guint                   *side,
              GError                 **error)
{
  *side = TO;

  if ((sides & 1u << TO) != 0 && cross->copy.user == TO
      && !_gpu_cross_driver_submit_first (cross, streams[TO], error))
    return FALSE;

  for (guint i = 0; i < 2 * cross->n_chunks; i++)
    {
      *side = i % 2;

      if ((sides & 1u << *side) != 0
          && !_gpu_cross_driver_submit_command (cross, streams[*side], *side, i / 2, error))
        return FALSE;
    }

  *side = FROM;

  /* If the copy was submitted to the stream of the source, that stream must not complete before the
   * destination is written: let it wait for the last chunk of the other stream. */
  return cross->copy.user == TO || (sides & 1u << FROM) == 0
         || _gpu_cross_driver_enqueue_wait (cross, streams[FROM], FROM, cross->n_chunks, error);
}

void
_gpu_cross_driver_end_submission (GpuCrossDriver *cross,
                                  gboolean        whole,
                                  const GError   *failure)
{
  g_mutex_lock (&cross->lock);
  cross->whole = whole;
  cross->ended = TRUE;

  if (!whole)
    _gpu_cross_driver_fail_locked (cross, FROM, failure != NULL ? g_error_copy (failure) : NULL);

  g_cond_broadcast (&cross->cond);
  g_mutex_unlock (&cross->lock);
}

gboolean
_gpu_cross_driver_submit (GpuCrossDriver          *cross,
                          GpuNativeMemory *const  *memories,
                          GpuNativeStream *const  *streams,
                          guint                    sides,
                          gboolean                 retain_waits,
                          guint                   *failed,
                          GError                 **error)
{
  GError *failure = NULL;
  gboolean success;

  memcpy (cross->memories, memories, sizeof cross->memories);
  cross->retain_waits = retain_waits;
  cross->sides |= sides;
  success = submit_sides (cross, streams, sides, failed, &failure);

  if (!success || cross->sides == (1u << FROM | 1u << TO))
    _gpu_cross_driver_end_submission (cross, success, failure);

  if (failure != NULL)
    g_propagate_error (error, failure);

  for (guint side = 0; side < 2 && success; side++)
    {
      if ((sides & 1u << side) != 0)
        streams[side]->partial = FALSE;
    }

  return success;
}

GpuNativeEvent *
_gpu_cross_driver_get_event (GpuCrossDriver *cross,
                             guint           side)
{
  return _gpu_native_event_ref (cross->events[side][cross->n_chunks - 1]);
}

void
_gpu_cross_driver_abandon (GpuCrossDriver *cross)
{
  _gpu_cross_driver_end_submission (cross, FALSE, NULL);
}

gboolean
_gpu_cross_driver_check (GpuCrossDriver          *cross,
                         const GpuNativeContext  *known,
                         GError                 **error)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&cross->lock);

  if (!cross->whole || cross->failure == NULL || cross->reported
      || (known != NULL && cross->copy.sides[cross->failed].context == known))
    return TRUE;

  g_propagate_error (error, g_error_copy (cross->failure));

  return FALSE;
}

GpuEventStatus
_gpu_cross_driver_query (GpuCrossDriver  *cross,
                         GError         **error)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&cross->lock);
  GError *failure = NULL;

  if (cross->reported || (cross->ended && !cross->whole))
    return GPU_EVENT_STATUS_COMPLETE;

  if (cross->failure != NULL)
    failure = g_error_copy (cross->failure);

  for (guint side = 0; side < 2 && failure == NULL && !cross->over; side++)
    {
      if (cross->copy.sides[side].context != NULL)
        failure = cross->copy.explain (cross->copy.data, side);
    }

  if (failure == NULL)
    return cross->over ? GPU_EVENT_STATUS_COMPLETE : GPU_EVENT_STATUS_PENDING;

  g_propagate_error (error, failure);

  return GPU_EVENT_STATUS_FAILED;
}

/* --- creation --------------------------------------------------------------------------------- */

gboolean
_gpu_cross_driver_has_host_waits (GpuNativeContext *context)
{
  const GpuTransferOps *ops = context->backend->transfer;

  return ops != NULL && ops->get_min_size (context, TRUE, FALSE) > 0
         && (ops->has_host_waits == NULL || ops->has_host_waits (context));
}

/* Returns the context that allocates the page-locked memory through which the data are copied.
 * Prefers a context whose driver accepts only memory that it has page-locked itself, then a context
 * whose driver copies page-locked memory faster than pageable memory, then the context of the
 * destination. */
static GpuNativeContext *
choose_ring (const GpuCrossDriverCopy *copy)
{
  for (guint side = 0; side < 2; side++)
    {
      if (copy->sides[side].context->backend->transfer->needs_page_locked)
        return copy->sides[side].context;
    }

  for (guint side = 0; side < 2; side++)
    {
      GpuNativeContext *context = copy->sides[side].context;

      if (context->backend->transfer->get_min_size (context, side == TO, FALSE) != G_MAXSIZE)
        return context;
    }

  return copy->sides[TO].context;
}

static void
set_chunking (GpuCrossDriver *cross)
{
  gsize slot_size = _gpu_transfer_get_slot_size ();
  gsize size = cross->copy.size;
  gboolean fits = size <= MAX_SLOTS * slot_size;

  cross->chunk_size = fits ? slot_size / CHUNKS_PER_SLOT : slot_size;
  cross->per_lease = fits ? CHUNKS_PER_SLOT : 1;
  cross->n_chunks = (size + cross->chunk_size - 1) / cross->chunk_size;
}

static gboolean
lease (GpuCrossDriver *cross)
{
  guint wanted = MIN ((cross->n_chunks + cross->per_lease - 1) / cross->per_lease, MAX_SLOTS);

  cross->ring = choose_ring (&cross->copy);
  cross->n_leases = _gpu_transfer_ring_lease (cross->ring, cross, wanted, wanted,
                                              cross->leases);
  cross->n_places = cross->n_leases * cross->per_lease;

  if (cross->has_first)
    cross->n_opened[FROM] = _gpu_cross_driver_get_n_placed (cross);

  return cross->n_leases > 0;
}

GpuCrossDriver *
_gpu_cross_driver_new (const GpuCrossDriverCopy *copy)
{
  GpuCrossDriver *cross = g_new0 (GpuCrossDriver, 1);

  g_atomic_ref_count_init (&cross->refs);
  cross->copy = *copy;
  cross->has_first = copy->user == FROM;
  cross->waits = g_ptr_array_new_with_free_func ((GDestroyNotify) _gpu_native_event_unref);
  g_mutex_init (&cross->lock);
  g_cond_init (&cross->cond);
  set_chunking (cross);

  for (guint side = 0; side < 2; side++)
    {
      if (copy->sides[side].context != NULL)
        _gpu_native_context_ref (copy->sides[side].context);
      cross->events[side] = g_new0 (GpuNativeEvent *, cross->n_chunks);
      cross->host_waits[side] = g_new0 (GpuNativeEvent *, cross->n_chunks + 1);
    }

  _gpu_live_add (GPU_LIVE_TRANSFER, 1);

  return cross;
}

GpuCrossDriver *
_gpu_cross_driver_begin (const GpuCrossDriverCopy *copy,
                         const char              **reason)
{
  g_autoptr (GpuCrossDriver) cross = NULL;

  *reason = "a driver cannot make streams wait for the host";

  if (!_gpu_cross_driver_has_host_waits (copy->sides[FROM].context)
      || !_gpu_cross_driver_has_host_waits (copy->sides[TO].context))
    return NULL;

  cross = _gpu_cross_driver_new (copy);
  *reason = "no page-locked memory is left";

  if (!lease (cross))
    return NULL;

  *reason = "no thread can be started";

  if (!_gpu_transfer_push_wait (drive_cross_driver, _gpu_cross_driver_ref (cross)))
    {
      _gpu_cross_driver_unref (cross);
      _gpu_transfer_ring_return (cross->ring, cross->leases, cross->n_leases);
      _gpu_transfer_report_threads ();
      return NULL;
    }

  _gpu_debug_print (GPU_DEBUG_TRANSFER, "copying %" G_GSIZE_FORMAT " bytes from %s to %s in "
                    "%u chunks through %u places", copy->size,
                    copy->sides[FROM].context->devices[0]->id,
                    copy->sides[TO].context->devices[0]->id, cross->n_chunks, cross->n_places);

  return g_steal_pointer (&cross);
}
