/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <string.h>

#include "gpumem/staging/gpu-transfer-cross-driver.h"
#include "gpumem/staging/gpu-transfer-private.h"

#define FROM GPU_ACROSS_FROM
#define TO   GPU_ACROSS_TO

/* Of one copy: enough to keep both sides at work, and for other copies to be in flight as well. */
#define MAX_SLOTS 4
#define CHUNKS_PER_SLOT 4

struct _GpuAcross
{
  gatomicrefcount   refs;
  GpuAcrossCopy     copy;           /* with references to the contexts */
  gsize             chunk_size;     /* bytes */
  guint             n_chunks;
  guint             per_lease;      /* chunks that have a place in one */
  guint             n_places;
  GpuNativeContext *ring;           /* whose page-locked memory it is */
  GpuTransferLease  leases[MAX_SLOTS];
  guint             n_leases;
  GpuNativeMemory  *memories[2];
  guint             sides;          /* that were submitted, as bits */
  gboolean          keep_waits;
  GPtrArray        *waits;          /* of GpuNativeEvent */

  GMutex            lock;           /* guards what follows */
  GCond             cond;
  gboolean          has_first;      /* first has been recorded, or is not needed */
  GpuNativeEvent   *first;          /* nullable; when it is the turn of the copy */
  GpuNativeEvent  **events[2];      /* of the commands, by chunk */
  GpuNativeEvent  **gates[2];       /* before them, and one behind all; NULL where nothing waits */
  guint             n_opened[2];    /* gates */
  guint             n_submitted[2]; /* chunks */
  gboolean          ended;          /* nothing more is submitted */
  gboolean          whole;          /* all of it was */
  gboolean          has_failed;     /* a command did, or not all was submitted */
  gboolean          over;           /* nobody attends to it any more */
  GError           *failure;        /* nullable */
  guint             failed;         /* the side whose it is */
};

GpuAcross *
_gpu_across_ref (GpuAcross *across)
{
  g_atomic_ref_count_inc (&across->refs);

  return across;
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
_gpu_across_unref (GpuAcross *across)
{
  if (!g_atomic_ref_count_dec (&across->refs))
    return;

  for (guint side = 0; side < 2; side++)
    {
      clear_events (across->events[side], across->n_chunks);
      clear_events (across->gates[side], across->n_chunks + 1);
      _gpu_native_context_unref (across->copy.sides[side].context);
    }

  g_ptr_array_unref (across->waits);
  g_clear_pointer (&across->first, _gpu_native_event_unref);
  g_clear_error (&across->failure);
  g_mutex_clear (&across->lock);
  g_cond_clear (&across->cond);
  g_free (across);
  _gpu_live_add (GPU_LIVE_TRANSFER, -1);
}

static guint8 *
get_place (GpuAcross *across,
           guint      chunk)
{
  guint place = chunk % across->n_places;

  return across->leases[place / across->per_lease].data
         + place % across->per_lease * across->chunk_size;
}

/* Chunks that have a place to begin with. */
static guint
get_n_placed (const GpuAcross *across)
{
  return MIN (across->n_places, across->n_chunks);
}

/* --- the thread that takes chunks from one stream to the other -------------------------------- */

/* All gates of @side before @end, in their order. */
static void
open_gates_locked (GpuAcross *across,
                   guint      side,
                   guint      end)
{
  const GpuTransferOps *ops = across->copy.sides[side].context->backend->transfer;

  for (guint i = across->n_opened[side]; i < end; i++)
    {
      GpuNativeEvent *gate = g_steal_pointer (&across->gates[side][i]);

      if (gate == NULL)
        continue;

      ops->open_gate (gate);
      _gpu_native_event_unref (gate);
    }

  across->n_opened[side] = MAX (across->n_opened[side], end);
}

/* The first failure is kept. Both streams run to their end all the same, in the same turns: no
 * command may use a place while another one does. Takes @failure over, which is nullable. */
static void
note_failure_locked (GpuAcross *across,
                     guint      side,
                     GError    *failure)
{
  across->has_failed = TRUE;

  if (across->failure == NULL)
    {
      across->failure = failure;
      across->failed = side;
    }
  else
    {
      g_clear_error (&failure);
    }
}

/* Whoever is failing an event of the user must be done with it before gates behind it open. */
static void
settle_failure (GpuAcross *across)
{
  for (guint side = 0; side < 2; side++)
    {
      GMutex *failure_lock = &across->copy.sides[side].context->failure_lock;

      g_mutex_lock (failure_lock);
      g_mutex_unlock (failure_lock);
    }
}

static void
wait_unlocked (GpuAcross       *across,
               GpuNativeEvent  *event,
               GError         **failure)
{
  g_mutex_unlock (&across->lock);

  if (!event->backend->event->wait (event, FALSE, failure))
    settle_failure (across);

  g_mutex_lock (&across->lock);
}

/* What came before the copy is over also if it failed. The event stays: PoCL may still be failing
 * it. */
static void
wait_for_turn_locked (GpuAcross *across)
{
  while (!across->has_first && !across->ended)
    g_cond_wait (&across->cond, &across->lock);

  if (across->first != NULL)
    wait_unlocked (across, across->first, NULL);
}

/* Of what is never submitted there is nothing to wait for. */
static void
wait_for_chunk_locked (GpuAcross *across,
                       guint      side,
                       guint      chunk)
{
  GError *failure = NULL;
  GError *reason;

  while (across->n_submitted[side] <= chunk && !across->ended)
    g_cond_wait (&across->cond, &across->lock);

  if (across->n_submitted[side] <= chunk)
    return;

  wait_unlocked (across, across->events[side][chunk], &failure);

  if (failure == NULL)
    return;

  reason = across->copy.explain (across->copy.data, side);

  if (reason != NULL)
    g_clear_error (&failure);

  note_failure_locked (across, side, reason != NULL ? reason : failure);
}

static void
attend_chunk_locked (GpuAcross *across,
                     guint      chunk)
{
  if (chunk >= across->n_places)
    wait_for_chunk_locked (across, TO, chunk - across->n_places);

  open_gates_locked (across, FROM, chunk + 1);
  wait_for_chunk_locked (across, FROM, chunk);
  open_gates_locked (across, TO, chunk + 1);
}

static void
attend_locked (GpuAcross *across)
{
  wait_for_turn_locked (across);
  open_gates_locked (across, FROM, get_n_placed (across));

  for (guint i = 0; i < across->n_chunks; i++)
    attend_chunk_locked (across, i);

  for (guint i = across->n_chunks - get_n_placed (across); i < across->n_chunks; i++)
    wait_for_chunk_locked (across, TO, i);

  open_gates_locked (across, FROM, across->n_chunks + 1);

  while (!across->ended)
    g_cond_wait (&across->cond, &across->lock);
}

static void
attend_across (gpointer data)
{
  GpuAcross *across = data;

  g_mutex_lock (&across->lock);
  attend_locked (across);
  across->over = TRUE;
  g_mutex_unlock (&across->lock);

  _gpu_transfer_ring_return (across->ring, across->leases, across->n_leases);
  across->copy.end (across->copy.data);
  _gpu_across_unref (across);
}

/* --- submitting ------------------------------------------------------------------------------- */

/* The gate before command @i of @side: NULL without error if that is open. */
static gboolean
get_gate (GpuAcross       *across,
          guint            side,
          guint            i,
          GpuNativeEvent **gate,
          GError         **error)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&across->lock);
  GpuNativeContext *context = across->copy.sides[side].context;
  GpuNativeEvent *made;

  *gate = NULL;

  /* The first one is for all that have a place to begin with. */
  if (i < across->n_opened[side] || (side == FROM && i > 0 && i < get_n_placed (across)))
    return TRUE;

  made = context->backend->transfer->create_gate (context, error);

  if (made == NULL)
    return FALSE;

  across->gates[side][i] = made;
  *gate = _gpu_native_event_ref (made);

  return TRUE;
}

static gboolean
wait_for_gate (GpuAcross        *across,
               GpuNativeStream  *stream,
               guint             side,
               guint             i,
               GError          **error)
{
  g_autoptr (GpuNativeEvent) gate = NULL;
  GpuNativeEvent *event = NULL;
  gboolean success;

  if (!get_gate (across, side, i, &gate, error))
    return FALSE;

  if (gate == NULL)
    return TRUE;

  success = stream->backend->stream->wait (stream, &gate, 1, across->keep_waits ? &event : NULL,
                                           error);
  stream->partial |= success;

  if (event != NULL)
    g_ptr_array_add (across->waits, event);

  return success;
}

static gboolean
submit_command (GpuAcross        *across,
                GpuNativeStream  *stream,
                guint             side,
                guint             chunk,
                GError          **error)
{
  const GpuBufferOps *ops = stream->backend->buffer;
  GpuNativeMemory *memory = across->memories[side];
  gsize start = chunk * across->chunk_size;
  gsize size = MIN (across->copy.size - start, across->chunk_size);
  gsize offset = across->copy.sides[side].offset + start;
  guint8 *place = get_place (across, chunk);
  GpuNativeEvent *event = NULL;

  if (!wait_for_gate (across, stream, side, chunk, error)
      || !(side == FROM ? ops->read (stream, memory, offset, place, size, &event, error)
                        : ops->write (stream, memory, offset, place, size, &event, error)))
    return FALSE;

  stream->partial = TRUE;

  g_mutex_lock (&across->lock);
  across->events[side][chunk] = event;
  across->n_submitted[side] = chunk + 1;
  g_cond_broadcast (&across->cond);
  g_mutex_unlock (&across->lock);

  return stream->backend->stream->flush (stream, error);
}

/* In the user's stream; the attendant has the other one begin. */
static gboolean
submit_first (GpuAcross        *across,
              GpuNativeStream  *stream,
              GError          **error)
{
  GpuNativeEvent *first = stream->backend->stream->record (stream, GPU_EVENT_FLAGS_NONE, error);

  if (first == NULL || !stream->backend->stream->flush (stream, error))
    {
      g_clear_pointer (&first, _gpu_native_event_unref);
      return FALSE;
    }

  g_mutex_lock (&across->lock);
  across->first = first;
  across->has_first = TRUE;
  g_cond_broadcast (&across->cond);
  g_mutex_unlock (&across->lock);

  return TRUE;
}

static gboolean
submit_sides (GpuAcross               *across,
              GpuNativeStream *const  *streams,
              guint                    sides,
              guint                   *side,
              GError                 **error)
{
  *side = TO;

  if ((sides & 1u << TO) != 0 && across->copy.user == TO
      && !submit_first (across, streams[TO], error))
    return FALSE;

  for (guint i = 0; i < 2 * across->n_chunks; i++)
    {
      *side = i % 2;

      if ((sides & 1u << *side) != 0
          && !submit_command (across, streams[*side], *side, i / 2, error))
        return FALSE;
    }

  *side = FROM;

  /* The user's stream is through when the other one is. */
  return across->copy.user == TO || (sides & 1u << FROM) == 0
         || wait_for_gate (across, streams[FROM], FROM, across->n_chunks, error);
}

static void
end_submission (GpuAcross    *across,
                gboolean      whole,
                const GError *failure)
{
  g_mutex_lock (&across->lock);
  across->whole = whole;
  across->ended = TRUE;

  if (!whole)
    note_failure_locked (across, FROM, failure != NULL ? g_error_copy (failure) : NULL);

  g_cond_broadcast (&across->cond);
  g_mutex_unlock (&across->lock);
}

gboolean
_gpu_across_submit (GpuAcross               *across,
                    GpuNativeMemory *const  *memories,
                    GpuNativeStream *const  *streams,
                    guint                    sides,
                    gboolean                 keep_waits,
                    guint                   *failed,
                    GError                 **error)
{
  GError *failure = NULL;
  gboolean success;

  memcpy (across->memories, memories, sizeof across->memories);
  across->keep_waits = keep_waits;
  across->sides |= sides;
  success = submit_sides (across, streams, sides, failed, &failure);

  if (!success || across->sides == (1u << FROM | 1u << TO))
    end_submission (across, success, failure);

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
_gpu_across_get_event (GpuAcross *across,
                       guint      side)
{
  return _gpu_native_event_ref (across->events[side][across->n_chunks - 1]);
}

void
_gpu_across_give_up (GpuAcross *across)
{
  end_submission (across, FALSE, NULL);
}

gboolean
_gpu_across_check (GpuAcross               *across,
                   const GpuNativeContext  *known,
                   GError                 **error)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&across->lock);

  if (!across->whole || across->failure == NULL
      || across->copy.sides[across->failed].context == known)
    return TRUE;

  g_propagate_error (error, g_error_copy (across->failure));

  return FALSE;
}

static gboolean
is_failing_locked (GpuAcross *across)
{
  for (guint side = 0; side < 2; side++)
    {
      g_autoptr (GError) reason = across->copy.explain (across->copy.data, side);

      if (reason != NULL)
        return TRUE;
    }

  return FALSE;
}

gboolean
_gpu_across_is_over (GpuAcross *across)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&across->lock);

  return across->over || across->has_failed || is_failing_locked (across);
}

/* --- the beginning ---------------------------------------------------------------------------- */

static gboolean
has_gates (GpuNativeContext *context)
{
  const GpuTransferOps *ops = context->backend->transfer;

  return ops != NULL && ops->get_min_size (context, TRUE, FALSE) > 0
         && (ops->has_gates == NULL || ops->has_gates (context));
}

/* Whose driver must have page-locked memory of its own behind gates; or whose copies it better than
 * other memory; else that of the destination. */
static GpuNativeContext *
choose_ring (const GpuAcrossCopy *copy)
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
set_shape (GpuAcross *across)
{
  gsize slot_size = _gpu_transfer_get_slot_size ();
  gsize size = across->copy.size;
  gboolean fits = size <= MAX_SLOTS * slot_size;

  across->chunk_size = fits ? slot_size / CHUNKS_PER_SLOT : slot_size;
  across->per_lease = fits ? CHUNKS_PER_SLOT : 1;
  across->n_chunks = (size + across->chunk_size - 1) / across->chunk_size;
}

static gboolean
lease (GpuAcross *across)
{
  guint wanted = MIN ((across->n_chunks + across->per_lease - 1) / across->per_lease, MAX_SLOTS);

  across->ring = choose_ring (&across->copy);
  across->n_leases = _gpu_transfer_ring_lease (across->ring, across, wanted, wanted,
                                               across->leases);
  across->n_places = across->n_leases * across->per_lease;

  if (across->has_first)
    across->n_opened[FROM] = get_n_placed (across);

  return across->n_leases > 0;
}

static GpuAcross *
across_new (const GpuAcrossCopy *copy)
{
  GpuAcross *across = g_new0 (GpuAcross, 1);

  g_atomic_ref_count_init (&across->refs);
  across->copy = *copy;
  across->has_first = copy->user == FROM;
  across->waits = g_ptr_array_new_with_free_func ((GDestroyNotify) _gpu_native_event_unref);
  g_mutex_init (&across->lock);
  g_cond_init (&across->cond);
  set_shape (across);

  for (guint side = 0; side < 2; side++)
    {
      _gpu_native_context_ref (copy->sides[side].context);
      across->events[side] = g_new0 (GpuNativeEvent *, across->n_chunks);
      across->gates[side] = g_new0 (GpuNativeEvent *, across->n_chunks + 1);
    }

  _gpu_live_add (GPU_LIVE_TRANSFER, 1);

  return across;
}

GpuAcross *
_gpu_across_begin (const GpuAcrossCopy  *copy,
                   const char          **reason)
{
  g_autoptr (GpuAcross) across = NULL;

  *reason = "a driver cannot have streams wait for the host";

  if (!has_gates (copy->sides[FROM].context) || !has_gates (copy->sides[TO].context))
    return NULL;

  across = across_new (copy);
  *reason = "no page-locked memory is left";

  if (!lease (across))
    return NULL;

  *reason = "no thread can be started";

  if (!_gpu_transfer_push_wait (attend_across, _gpu_across_ref (across)))
    {
      _gpu_across_unref (across);
      _gpu_transfer_ring_return (across->ring, across->leases, across->n_leases);
      _gpu_transfer_tell_threads ();
      return NULL;
    }

  _gpu_debug_print (GPU_DEBUG_TRANSFER, "%" G_GSIZE_FORMAT " bytes go from %s to %s by way of %u "
                    "chunks in %u places", copy->size, copy->sides[FROM].context->devices[0]->id,
                    copy->sides[TO].context->devices[0]->id, across->n_chunks, across->n_places);

  return g_steal_pointer (&across);
}
