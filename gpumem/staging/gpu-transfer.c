/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/staging/gpu-transfer-private.h"

/* How long a copying thread waits for the next chunk, in microseconds. Chunks of a copy in flight
 * usually arrive sooner. First it polls, because waking a thread takes as long as copying several
 * pieces. */
#define LINGER_TIME 300
#define POLL_TIME 50

/* The number of pieces that a thread copies before it serves other copies that wait for a thread:
 * about 4 MiB of a long copy. */
#define PIECES_PER_TURN 16

struct _GpuTransfer
{
  gatomicrefcount   refs;
  GpuNativeContext *context;
  gconstpointer     order;
  GpuTransferCopy   copy;
  GpuTransferChunking chunking;
  gboolean          blocking;
  gboolean          driven_by_caller; /* the blocking caller drives the copy */
  gboolean          submits_copied; /* each chunk is submitted after the CPU has copied it */
  guint             max_copy_workers;
  GpuTransferClaims claims;         /* the pieces that threads copy */
  gint              n_copying;      /* atomic; threads that may access the host memory */
  gint              is_aborted;     /* atomic; set with the lock */
  GpuTransferLease  leases[GPU_TRANSFER_MAX_SLOTS];
  guint             n_leases;
  guint             per_lease;      /* chunks that fit into one lease */
  guint             n_places;
  gboolean          enqueued;       /* at least one command is in the stream */
  gboolean          leases_returned; /* to the ring */
  GpuNativeEvent   *last;           /* nullable; completes with the last command */

  GMutex            lock;           /* guards the fields below */
  GCond             cond;
  gboolean          has_first;      /* `first` has been recorded */
  GpuNativeEvent   *first;          /* nullable; completes when an in-order write may begin */
  GpuNativeEvent  **events;         /* of the commands, by chunk; NULL until submitted */
  GpuNativeEvent  **host_waits;     /* by chunk; NULL if no command waits for the chunk */
  guint             n_submitted;    /* number of submitted chunks */
  gboolean          submitted;      /* TRUE if all chunks are submitted and `last` is set, or if the
                                     * submission failed */
  guint             n_ready;        /* number of leading chunks that threads may copy */
  gint              n_opened;       /* number of leading chunks that are copied and whose waits are
                                     * signalled; also read without the lock */
  guint             n_copy_workers;
  GError           *failure;        /* nullable; the error of the device that aborted the copy */
};

GpuTransfer *
_gpu_transfer_ref (GpuTransfer *transfer)
{
  g_atomic_ref_count_inc (&transfer->refs);

  return transfer;
}

static gboolean
is_aborted (GpuTransfer *transfer)
{
  return g_atomic_int_get (&transfer->is_aborted);
}

static guint
get_n_opened (GpuTransfer *transfer)
{
  return g_atomic_int_get (&transfer->n_opened);
}

static void
release_bytes (GpuTransfer *transfer)
{
  GBytes *bytes = g_atomic_pointer_exchange (&transfer->copy.bytes, NULL);

  g_clear_pointer (&bytes, g_bytes_unref);
}

void
_gpu_transfer_retire (GpuTransfer *transfer)
{
  /* Threads may still access the host memory if the operation failed, or if its caller blocks until
   * they have copied the last chunk. */
  if (get_n_opened (transfer) == transfer->chunking.n_chunks)
    release_bytes (transfer);

  _gpu_transfer_unref (transfer);
}

void
_gpu_transfer_unref (GpuTransfer *transfer)
{
  if (!g_atomic_ref_count_dec (&transfer->refs))
    return;

  for (guint i = 0; i < transfer->n_leases; i++)
    g_clear_pointer (&transfer->leases[i].before, _gpu_native_event_unref);

  for (guint i = 0; i < transfer->chunking.n_chunks; i++)
    {
      g_clear_pointer (&transfer->events[i], _gpu_native_event_unref);
      g_clear_pointer (&transfer->host_waits[i], _gpu_native_event_unref);
    }

  g_clear_pointer (&transfer->first, _gpu_native_event_unref);
  g_clear_pointer (&transfer->last, _gpu_native_event_unref);
  g_clear_error (&transfer->failure);
  release_bytes (transfer);
  g_clear_pointer (&transfer->copy.progress, _gpu_progress_unref);
  g_free (transfer->events);
  g_free (transfer->host_waits);
  _gpu_transfer_claims_clear (&transfer->claims);
  g_mutex_clear (&transfer->lock);
  g_cond_clear (&transfer->cond);
  _gpu_native_context_unref (transfer->context);
  g_free (transfer);
  _gpu_live_add (GPU_LIVE_TRANSFER, -1);
}

static GpuTransferLease *
get_lease (GpuTransfer *transfer,
           guint        chunk)
{
  return &transfer->leases[chunk % transfer->n_places / transfer->per_lease];
}

static guint8 *
get_place (GpuTransfer *transfer,
           guint        chunk)
{
  return get_lease (transfer, chunk)->data
         + chunk % transfer->n_places % transfer->per_lease * transfer->chunking.chunk_size;
}

/* --- copying ---------------------------------------------------------------------------------- */

static void
signal_host_wait_locked (GpuTransfer *transfer,
                         guint        chunk)
{
  if (transfer->host_waits[chunk] == NULL)
    return;

  transfer->context->backend->transfer->signal_host_wait (transfer->host_waits[chunk]);
  g_clear_pointer (&transfer->host_waits[chunk], _gpu_native_event_unref);
}

/* Aborts the copy. Once no thread accesses the host memory, signals all host-signalled waits, so
 * that no command waits forever. */
static void
abort_locked (GpuTransfer *transfer)
{
  g_atomic_int_set (&transfer->is_aborted, TRUE);

  for (guint i = 0; g_atomic_int_get (&transfer->n_copying) == 0
                    && i < transfer->chunking.n_chunks; i++)
    signal_host_wait_locked (transfer, i);

  g_cond_broadcast (&transfer->cond);
  _gpu_transfer_wake_lingering ();
}

/* Called when the CPU has copied the next chunk. */
static void
open_chunk_locked (GpuTransfer *transfer)
{
  guint chunk = get_n_opened (transfer);

  if (transfer->copy.progress != NULL)
    {
      GpuTransferBox box;

      _gpu_transfer_get_box (&transfer->chunking, chunk, &box);
      _gpu_progress_add (transfer->copy.progress, box.width * box.height * box.depth);
    }

  /* Before the command of the chunk can complete: see _gpu_transfer_retire() */
  g_atomic_int_inc (&transfer->n_opened);
  signal_host_wait_locked (transfer, chunk);
}

/* Called when all pieces of a chunk are copied: the leading chunks may be complete. */
static void
open_chunks (GpuTransfer *transfer)
{
  guint n_chunks = transfer->chunking.n_chunks;

  g_mutex_lock (&transfer->lock);

  while (!is_aborted (transfer) && get_n_opened (transfer) < n_chunks
         && _gpu_transfer_claims_is_copied (&transfer->claims, get_n_opened (transfer)))
    open_chunk_locked (transfer);

  if (transfer->submits_copied || get_n_opened (transfer) == n_chunks)
    g_cond_broadcast (&transfer->cond);
  g_mutex_unlock (&transfer->lock);
}

/* Takes and copies a piece. Returns FALSE if none is ready. Counts the thread before it checks
 * whether the copy is aborted: either the thread sees the abort, or abort_locked() sees the thread
 * and leaves the host waits to it. */
static gboolean
copy_piece (GpuTransfer *transfer)
{
  guint chunk, piece;
  gboolean is_claimed;

  g_atomic_int_inc (&transfer->n_copying);
  is_claimed = !is_aborted (transfer)
               && _gpu_transfer_claims_take (&transfer->claims, &chunk, &piece);

  if (is_claimed)
    {
      GpuTransferBox box;

      _gpu_transfer_get_box (&transfer->chunking, chunk, &box);
      _gpu_transfer_copy_piece (&transfer->copy, &transfer->chunking, &box, piece,
                                get_place (transfer, chunk));
      if (_gpu_transfer_claims_end (&transfer->claims, chunk))
        open_chunks (transfer);
    }

  if (g_atomic_int_dec_and_test (&transfer->n_copying) && is_aborted (transfer))
    {
      g_mutex_lock (&transfer->lock);
      abort_locked (transfer);
      g_mutex_unlock (&transfer->lock);
    }

  return is_claimed;
}

static gboolean
has_piece (GpuTransfer *transfer)
{
  return !is_aborted (transfer) && _gpu_transfer_claims_has_piece (&transfer->claims);
}

static void copy_in_worker (gpointer data);

/* Wakes all copying threads at once, also if no piece is ready yet. */
static void
wake_workers_locked (GpuTransfer *transfer)
{
  guint n = MIN (transfer->max_copy_workers - transfer->n_copy_workers,
                 _gpu_transfer_claims_get_n_left (&transfer->claims));
  guint n_pushed;

  if (n == 0 || is_aborted (transfer))
    return;

  for (guint i = 0; i < n; i++)
    _gpu_transfer_ref (transfer);

  n_pushed = _gpu_transfer_push_copies (copy_in_worker, transfer, n, FALSE);
  transfer->n_copy_workers += n_pushed;

  for (guint i = n_pushed; i < n; i++)
    _gpu_transfer_unref (transfer);
}

static gboolean
awaits_piece (gpointer data)
{
  GpuTransfer *transfer = data;

  return !is_aborted (transfer) && !_gpu_transfer_claims_has_piece (&transfer->claims)
         && !_gpu_transfer_claims_is_all_ready (&transfer->claims);
}

/* Waits until a piece of a chunk is ready to be copied. Returns FALSE if there is none after
 * LINGER_TIME, or while other copies wait for a thread, so that the thread can serve them. The lock
 * covers the last look for a piece and the end of the worker, so that set_ready_locked() wakes a
 * worker for the next piece. */
static gboolean
wait_for_piece (GpuTransfer *transfer)
{
  gint64 start = g_get_monotonic_time ();
  gboolean found;

  while (awaits_piece (transfer) && !_gpu_transfer_must_yield ()
         && g_get_monotonic_time () < start + POLL_TIME)
    continue;

  if (awaits_piece (transfer))
    _gpu_transfer_linger (awaits_piece, transfer, start + LINGER_TIME);

  if (has_piece (transfer))
    return TRUE;

  g_mutex_lock (&transfer->lock);
  found = has_piece (transfer);
  if (!found)
    transfer->n_copy_workers--;
  g_mutex_unlock (&transfer->lock);

  return found;
}

static void
copy_in_worker (gpointer data)
{
  GpuTransfer *transfer = data;
  guint n = 0;

  do
    {
      while (copy_piece (transfer))
        {
          if (++n >= PIECES_PER_TURN && _gpu_transfer_yield_copy (copy_in_worker, transfer))
            return;
        }
    }
  while (wait_for_piece (transfer));

  _gpu_transfer_unref (transfer);
}

/* Allows threads to copy the chunks before @n_ready. */
static void
set_ready_locked (GpuTransfer *transfer,
                  guint        n_ready)
{
  transfer->n_ready = n_ready;
  _gpu_transfer_claims_set_ready (&transfer->claims, n_ready);
  g_cond_broadcast (&transfer->cond);
  _gpu_transfer_wake_lingering ();
  wake_workers_locked (transfer);
}

/* --- waiting for the device ------------------------------------------------------------------- */

static GpuNativeEvent **
find_event_locked (GpuTransfer *transfer,
                   guint        chunk)
{
  if (!transfer->copy.write)
    return chunk < transfer->n_submitted ? &transfer->events[chunk] : NULL;

  /* When `first` completes, the previous uses of the leased slots have completed as well. The wait
   * for the first chunk clears `first`, so that later chunks do not wait for it. */
  if (chunk < transfer->n_places && transfer->copy.in_order)
    return transfer->has_first ? &transfer->first : NULL;

  if (chunk < transfer->n_places)
    return &get_lease (transfer, chunk)->before;

  chunk -= transfer->n_places;

  return chunk < transfer->n_submitted ? &transfer->events[chunk] : NULL;
}

/* Waits until @chunk may be copied. */
static gboolean
wait_for_chunk_locked (GpuTransfer *transfer,
                       guint        chunk)
{
  GpuNativeEvent **found = NULL;
  g_autoptr (GError) failure = NULL;
  GpuNativeEvent *event;
  gboolean success = TRUE;

  while (!is_aborted (transfer) && chunk >= transfer->n_ready
         && (found = find_event_locked (transfer, chunk)) == NULL)
    g_cond_wait (&transfer->cond, &transfer->lock);

  if (is_aborted (transfer) || chunk < transfer->n_ready)
    return !is_aborted (transfer);

  event = g_steal_pointer (found);

  if (event != NULL)
    {
      g_mutex_unlock (&transfer->lock);
      success = event->backend->event->wait (event, transfer->driven_by_caller, &failure);
      _gpu_native_event_unref (event);
      g_mutex_lock (&transfer->lock);
    }

  /* For a write, the events of the first n_places chunks are those of earlier work. A failure of
   * that work does not affect this copy. */
  if (!success && transfer->copy.write && chunk < transfer->n_places)
    success = TRUE;
  else if (!success && transfer->failure == NULL)
    transfer->failure = g_steal_pointer (&failure);

  if (success)
    set_ready_locked (transfer, chunk + 1);
  else
    abort_locked (transfer);

  return success;
}

static gboolean
is_copied_locked (GpuTransfer *transfer)
{
  return is_aborted (transfer) ? g_atomic_int_get (&transfer->n_copying) == 0
                               : get_n_opened (transfer) == transfer->chunking.n_chunks;
}

static void
wait_until_copied_locked (GpuTransfer *transfer)
{
  while (!is_copied_locked (transfer))
    g_cond_wait (&transfer->cond, &transfer->lock);
}

/* Drives the copy: waits for the device and allows threads to copy the next chunks. Runs on one
 * thread per copy. With @copies, or if there is no copying thread, this thread copies as well. */
static void
drive (GpuTransfer *transfer,
       gboolean     copies)
{
  GpuNativeEvent *last;

  g_mutex_lock (&transfer->lock);

  for (guint i = 0; i < transfer->chunking.n_chunks; i++)
    {
      if (!wait_for_chunk_locked (transfer, i))
        break;

      if (copies || transfer->n_copy_workers == 0)
        {
          g_mutex_unlock (&transfer->lock);
          while (copy_piece (transfer))
            continue;
          g_mutex_lock (&transfer->lock);
        }
    }

  wait_until_copied_locked (transfer);

  while (!transfer->submitted)
    g_cond_wait (&transfer->cond, &transfer->lock);

  last = transfer->last;
  g_mutex_unlock (&transfer->lock);

  if (last == NULL)
    return;

  last->backend->event->wait (last, transfer->driven_by_caller, NULL);
  _gpu_transfer_ring_finish (transfer->context, last);
}

static void
drive_in_thread (gpointer data)
{
  GpuTransfer *transfer = data;

  drive (transfer, FALSE);
  _gpu_transfer_unref (transfer);
}

/* --- submitting ------------------------------------------------------------------------------- */

static void
set_aborted_error_locked (GpuTransfer  *transfer,
                          GError      **error)
{
  if (transfer->failure != NULL)
    g_propagate_error (error, g_error_copy (transfer->failure));
  else
    g_set_error_literal (error, GPU_ERROR, GPU_ERROR_FAILED, "the copy was aborted");
}

/* Creates the host-signalled wait that precedes the command of @chunk. Sets @host_wait to NULL,
 * without an error, if the command need not wait. */
static gboolean
get_host_wait (GpuTransfer     *transfer,
               guint            chunk,
               GpuNativeEvent **host_wait,
               GError         **error)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&transfer->lock);
  GpuNativeEvent *made;

  *host_wait = NULL;

  if (is_aborted (transfer))
    {
      set_aborted_error_locked (transfer, error);
      return FALSE;
    }

  if (chunk < get_n_opened (transfer))
    return TRUE;

  made = transfer->context->backend->transfer->create_host_wait (transfer->context, error);

  if (made == NULL)
    return FALSE;

  transfer->host_waits[chunk] = made;
  *host_wait = _gpu_native_event_ref (made);

  return TRUE;
}

static gboolean
enqueue_host_wait (GpuTransfer      *transfer,
                   GpuNativeStream  *stream,
                   guint             chunk,
                   GError          **error)
{
  GpuNativeEvent *host_wait;
  gboolean success;

  if (!get_host_wait (transfer, chunk, &host_wait, error))
    return FALSE;

  if (host_wait == NULL)
    return TRUE;

  success = stream->backend->stream->wait (stream, &host_wait, 1, NULL, error);
  transfer->enqueued |= success;
  _gpu_native_event_unref (host_wait);

  return success;
}

/* Makes @stream wait until the place of @chunk is no longer in use. The next command copies the
 * chunk from the device to its place. */
static gboolean
wait_for_place (GpuTransfer      *transfer,
                GpuNativeStream  *stream,
                guint             chunk,
                GError          **error)
{
  GpuNativeEvent *before = chunk % transfer->per_lease == 0 && chunk < transfer->n_places
                           ? get_lease (transfer, chunk)->before : NULL;
  gboolean success;

  if (before == NULL)
    return chunk < transfer->n_places
           || enqueue_host_wait (transfer, stream, chunk - transfer->n_places, error);

  success = stream->backend->stream->wait (stream, &before, 1, NULL, error);
  transfer->enqueued |= success;

  return success;
}

static gboolean
enqueue_region (GpuTransfer           *transfer,
                GpuNativeStream       *stream,
                const GpuTransferBox  *box,
                guint8                *place,
                GpuNativeEvent       **event,
                GError               **error)
{
  const GpuTransferCopy *copy = &transfer->copy;
  const GpuExtent extent = { box->width / copy->unit, box->height, box->depth };
  const GpuRegionSide host = { .data = place, .row_pitch = box->width,
                               .slice_pitch = box->width * box->height };
  GpuRegionSide device = copy->device;

  device.offset += box->x + box->y * device.row_pitch + box->z * device.slice_pitch;
  device.x += box->x / copy->unit;
  device.y += box->y;
  device.z += box->z;

  return stream->backend->memory->copy_region (stream, copy->write ? &device : &host,
                                               copy->write ? &host : &device, &extent, event,
                                               error);
}

static gboolean
enqueue_chunk (GpuTransfer      *transfer,
               GpuNativeStream  *stream,
               guint             chunk,
               GpuNativeEvent  **event,
               GError          **error)
{
  const GpuBufferOps *ops = stream->backend->buffer;
  const GpuTransferCopy *copy = &transfer->copy;
  guint8 *place = get_place (transfer, chunk);
  GpuTransferBox box;

  _gpu_transfer_get_box (&transfer->chunking, chunk, &box);

  if (copy->is_image || transfer->chunking.height > 1 || transfer->chunking.depth > 1)
    return enqueue_region (transfer, stream, &box, place, event, error);

  return copy->write
         ? ops->write (stream, copy->device.memory, copy->device.offset + box.x, place, box.width,
                       event, error)
         : ops->read (stream, copy->device.memory, copy->device.offset + box.x, place, box.width,
                      event, error);
}

static gboolean
is_chunk_pending (GpuTransfer *transfer,
                  guint        chunk)
{
  return !is_aborted (transfer) && chunk >= get_n_opened (transfer);
}

/* Waits until the CPU has copied @chunk. Until then, this thread copies as well. */
static gboolean
wait_for_copied_chunk (GpuTransfer  *transfer,
                       guint         chunk,
                       GError      **error)
{
  g_autoptr (GMutexLocker) locker = NULL;
  gint64 start;

  while (is_chunk_pending (transfer, chunk) && copy_piece (transfer))
    continue;

  start = g_get_monotonic_time ();
  while (is_chunk_pending (transfer, chunk) && g_get_monotonic_time () < start + POLL_TIME)
    continue;

  if (!is_chunk_pending (transfer, chunk) && !is_aborted (transfer))
    return TRUE;

  locker = g_mutex_locker_new (&transfer->lock);
  while (is_chunk_pending (transfer, chunk))
    g_cond_wait (&transfer->cond, &transfer->lock);

  if (is_aborted (transfer))
    set_aborted_error_locked (transfer, error);

  return !is_aborted (transfer);
}

/* Called before the command of @chunk is submitted. Waits itself or makes @stream wait. */
static gboolean
wait_before_chunk (GpuTransfer      *transfer,
                   GpuNativeStream  *stream,
                   guint             chunk,
                   GError          **error)
{
  if (transfer->submits_copied)
    return wait_for_copied_chunk (transfer, chunk, error);

  return transfer->copy.write ? enqueue_host_wait (transfer, stream, chunk, error)
                              : wait_for_place (transfer, stream, chunk, error);
}

static gboolean
submit_chunk (GpuTransfer      *transfer,
              GpuNativeStream  *stream,
              guint             chunk,
              GError          **error)
{
  GpuNativeEvent *event = NULL;

  if (!wait_before_chunk (transfer, stream, chunk, error))
    return FALSE;

  if (!enqueue_chunk (transfer, stream, chunk, transfer->submits_copied ? NULL : &event, error))
    {
      transfer->enqueued |= stream->partial;
      return FALSE;
    }

  transfer->enqueued = TRUE;

  if (!stream->backend->stream->flush (stream, error))
    {
      g_clear_pointer (&event, _gpu_native_event_unref);
      return FALSE;
    }

  g_mutex_lock (&transfer->lock);
  transfer->events[chunk] = event;
  transfer->n_submitted = chunk + 1;
  g_cond_broadcast (&transfer->cond);
  g_mutex_unlock (&transfer->lock);

  return TRUE;
}

/* Records the event of the operation. For a copy from the device, the event also covers the final
 * copy out of page-locked memory. If the caller blocks, the event does not cover that copy, because
 * the calling thread may perform it. */
static GpuNativeEvent *
submit_end (GpuTransfer      *transfer,
            GpuNativeStream  *stream,
            GError          **error)
{
  guint last = transfer->chunking.n_chunks - 1;

  if (!transfer->copy.write && !transfer->blocking
      && !enqueue_host_wait (transfer, stream, last, error))
    return NULL;

  return stream->backend->stream->record (stream, GPU_EVENT_FLAGS_NONE, error);
}

/* Returns the leases to the ring, unless the caller blocks for a read. In that case threads still
 * copy out of the leased slots after the last command has completed, and _gpu_transfer_end()
 * returns the leases. */
static void
return_leases (GpuTransfer    *transfer,
               GpuNativeEvent *last)
{
  if (transfer->copy.write || !transfer->blocking)
    {
      transfer->leases_returned = TRUE;
      _gpu_transfer_ring_submit (transfer->context, transfer->order, transfer->leases,
                                 transfer->n_leases, last);
    }

  g_mutex_lock (&transfer->lock);
  transfer->last = last;
  transfer->submitted = TRUE;
  g_cond_broadcast (&transfer->cond);
  g_mutex_unlock (&transfer->lock);
}

/* Aborts the copy and waits until the commands that are already in the stream have completed,
 * because other copies will use the same slots. */
static gboolean
fail_submission (GpuTransfer     *transfer,
                 GpuNativeStream *stream)
{
  g_mutex_lock (&transfer->lock);
  abort_locked (transfer);
  wait_until_copied_locked (transfer);
  transfer->submitted = TRUE;
  g_mutex_unlock (&transfer->lock);

  if (transfer->enqueued)
    {
      stream->partial = TRUE;
      stream->backend->stream->finish (stream, NULL);
    }

  return FALSE;
}

/* Called before the first chunk of a copy that is ordered after earlier work of the stream. For a
 * copy to the device, records an event, so that the thread that drives the copy can wait for the
 * earlier work. */
static gboolean
submit_first (GpuTransfer      *transfer,
              GpuNativeStream  *stream,
              GError          **error)
{
  GpuNativeEvent *first = NULL;

  /* Set the flag before the first staged copy is submitted. An op that accesses pageable memory of
   * the library immediately then waits for the stream first. */
  g_atomic_int_set (&transfer->context->stages_host_memory, TRUE);

  if (!transfer->copy.write)
    return TRUE;

  first = stream->backend->stream->record (stream, GPU_EVENT_FLAGS_NONE, error);

  if (first == NULL || !stream->backend->stream->flush (stream, error))
    {
      g_clear_pointer (&first, _gpu_native_event_unref);
      return FALSE;
    }

  g_mutex_lock (&transfer->lock);
  transfer->first = first;
  transfer->has_first = TRUE;
  g_cond_broadcast (&transfer->cond);
  g_mutex_unlock (&transfer->lock);

  return TRUE;
}

gboolean
_gpu_transfer_submit (GpuTransfer      *transfer,
                      GpuNativeStream  *stream,
                      GpuNativeMemory  *memory,
                      GpuNativeEvent  **event,
                      GError          **error)
{
  GpuNativeEvent *last;

  transfer->copy.device.memory = memory;

  if (transfer->copy.in_order && !submit_first (transfer, stream, error))
    return fail_submission (transfer, stream);

  for (guint i = 0; i < transfer->chunking.n_chunks; i++)
    {
      if (!submit_chunk (transfer, stream, i, error))
        return fail_submission (transfer, stream);
    }

  last = submit_end (transfer, stream, error);

  if (last == NULL)
    return fail_submission (transfer, stream);

  if (event != NULL)
    *event = _gpu_native_event_ref (last);
  return_leases (transfer, last);

  return TRUE;
}

/* --- beginning and end ------------------------------------------------------------------------ */

/* Returns whether the whole range from the first byte to the last, including padding between rows,
 * is page-locked. */
static gboolean
is_page_locked (GpuNativeContext      *context,
                const GpuTransferCopy *copy)
{
  const GpuRegionSide *host = &copy->host;
  gsize size = (copy->extent.depth - 1) * host->slice_pitch
               + (copy->extent.height - 1) * host->row_pitch + copy->extent.width * copy->unit;

  return context->backend->transfer->is_page_locked (context,
                                                     (guint8 *) host->data + host->offset, size);
}

static gboolean
should_stage (GpuNativeContext      *context,
              const GpuTransferCopy *copy,
              gsize                  size,
              gboolean               blocking)
{
  const GpuTransferOps *ops = context->backend->transfer;
  gsize least = ops != NULL ? ops->get_min_size (context, copy->write, blocking) : 0;

  if (least == 0 || !_gpu_backend_check_process (NULL))
    return FALSE;

  if (_gpu_debug_has (GPU_DEBUG_STAGE))
    least = 1;
  else if (blocking && _gpu_transfer_get_n_threads (FALSE) == 1)
    least = G_MAXSIZE;

  return size >= least && (ops->has_host_waits == NULL || ops->has_host_waits (context))
         && !is_page_locked (context, copy);
}

static GpuTransfer *
transfer_new (GpuNativeContext          *context,
              gconstpointer              order,
              const GpuTransferCopy     *copy,
              const GpuTransferChunking *chunking,
              gboolean                   blocking)
{
  GpuTransfer *transfer = g_new0 (GpuTransfer, 1);

  g_atomic_ref_count_init (&transfer->refs);
  transfer->context = _gpu_native_context_ref (context);
  transfer->order = order;
  transfer->copy = *copy;
  transfer->chunking = *chunking;
  transfer->blocking = blocking;
  transfer->per_lease = _gpu_transfer_get_slot_size () / chunking->chunk_size;
  transfer->events = g_new0 (GpuNativeEvent *, chunking->n_chunks);
  transfer->host_waits = g_new0 (GpuNativeEvent *, chunking->n_chunks);
  _gpu_transfer_claims_init (&transfer->claims, chunking);
  if (copy->bytes != NULL)
    g_bytes_ref (copy->bytes);
  if (copy->progress != NULL)
    _gpu_progress_ref (copy->progress);
  g_mutex_init (&transfer->lock);
  g_cond_init (&transfer->cond);
  _gpu_live_add (GPU_LIVE_TRANSFER, 1);

  return transfer;
}

/* Leases slots of page-locked memory for the copy. At most a quarter of the wanted slots may be
 * newly allocated, so that allocation does not cost more time than staging saves. */
static void
lease (GpuTransfer *transfer)
{
  guint n_chunks = transfer->chunking.n_chunks;
  guint wanted = (n_chunks + transfer->per_lease - 1) / transfer->per_lease;

  transfer->n_leases = _gpu_transfer_ring_lease (transfer->context, transfer->order, wanted,
                                                 MAX (wanted / 4, 1), transfer->leases);
  transfer->n_places = MIN (transfer->n_leases * transfer->per_lease, n_chunks);
}

/* A blocking caller can drive the copy itself only if there is a place for every chunk, and no
 * earlier copy still uses any of these places. Otherwise the submission may block until chunks are
 * copied, so another thread must drive the copy. */
static void
choose_threads (GpuTransfer *transfer)
{
  transfer->driven_by_caller = transfer->blocking && transfer->n_places
    == transfer->chunking.n_chunks;

  for (guint i = 0; i < transfer->n_leases; i++)
    {
      if (transfer->leases[i].before != NULL)
        transfer->driven_by_caller = FALSE;
    }

  /* All places are free, so the CPU can copy all chunks before any command is submitted */
  transfer->submits_copied = transfer->driven_by_caller && transfer->copy.write
                             && !transfer->copy.in_order;

  transfer->max_copy_workers
    = MAX (_gpu_transfer_get_n_threads (FALSE) - transfer->driven_by_caller, 1);
}

/* Wakes the copying threads before any command is submitted: for a copy to the device, they begin
 * to fill the free places. Returns FALSE if another thread must drive the copy and that thread
 * cannot be started. */
static gboolean
start (GpuTransfer *transfer)
{
  guint n_ready = 0;

  while (transfer->copy.write && !transfer->copy.in_order && n_ready < transfer->n_places
         && get_lease (transfer, n_ready)->before == NULL)
    n_ready++;

  if (!transfer->driven_by_caller
      && !_gpu_transfer_push_wait (drive_in_thread, _gpu_transfer_ref (transfer)))
    {
      _gpu_transfer_unref (transfer);
      return FALSE;
    }

  g_mutex_lock (&transfer->lock);
  if (n_ready > transfer->n_ready || transfer->driven_by_caller)
    set_ready_locked (transfer, n_ready);
  g_mutex_unlock (&transfer->lock);

  return TRUE;
}

static void
report_direct (gsize       size,
               const char *reason)
{
  _gpu_debug_print (GPU_DEBUG_TRANSFER, "%" G_GSIZE_FORMAT " bytes of pageable memory "
                    "are not staged, and the caller may block: %s", size, reason);
}

GpuTransfer *
_gpu_transfer_begin (GpuNativeContext      *context,
                     gconstpointer          order,
                     const GpuTransferCopy *copy,
                     gboolean               blocking)
{
  gsize size = copy->extent.width * copy->unit * copy->extent.height * copy->extent.depth;
  GpuTransferCopy own = *copy;
  GpuTransferChunking chunking;
  GpuTransfer *transfer;

  if (!should_stage (context, copy, size, blocking)
      || !_gpu_transfer_chunking_init (&chunking, &own, blocking))
    return NULL;

  transfer = transfer_new (context, order, &own, &chunking, blocking);
  lease (transfer);

  if (transfer->n_leases == 0)
    {
      report_direct (size, "no page-locked memory is left");
      _gpu_transfer_unref (transfer);
      return NULL;
    }

  choose_threads (transfer);

  if (!start (transfer))
    {
      report_direct (size, "no thread can be started");
      _gpu_transfer_ring_return (context, transfer->leases, transfer->n_leases);
      _gpu_transfer_unref (transfer);
      _gpu_transfer_report_threads ();
      return NULL;
    }

  _gpu_debug_print (GPU_DEBUG_TRANSFER, "staging %" G_GSIZE_FORMAT " bytes %s the device in %u "
                    "chunks through %u places", size, copy->write ? "to" : "from",
                    chunking.n_chunks, transfer->n_places);

  return transfer;
}

/* Waits until no thread accesses the host memory or the page-locked memory of the copy. With
 * @give_up, aborts the copy first. */
static void
wait_for_end (GpuTransfer *transfer,
              gboolean     give_up)
{
  GpuNativeEvent *last;

  g_mutex_lock (&transfer->lock);

  if (give_up)
    {
      abort_locked (transfer);
      transfer->submitted = TRUE;
    }

  wait_until_copied_locked (transfer);
  last = is_aborted (transfer) ? transfer->last : NULL;
  g_mutex_unlock (&transfer->lock);

  if (last != NULL)
    last->backend->event->wait (last, FALSE, NULL);
}

gboolean
_gpu_transfer_has_begun (GpuTransfer *transfer)
{
  return transfer->enqueued;
}

gboolean
_gpu_transfer_check (GpuTransfer  *transfer,
                     GError      **error)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&transfer->lock);

  if (transfer->last == NULL || transfer->failure == NULL)
    return TRUE;

  set_aborted_error_locked (transfer, error);

  return FALSE;
}

gboolean
_gpu_transfer_end (GpuTransfer  *transfer,
                   gboolean      success,
                   GError      **error)
{
  gboolean is_staged = success && transfer->last != NULL;
  gboolean whole = TRUE;

  if (is_staged && transfer->driven_by_caller)
    drive (transfer, TRUE);
  else if (!is_staged || transfer->blocking)
    wait_for_end (transfer, !is_staged);

  if (!transfer->leases_returned)
    _gpu_transfer_ring_return (transfer->context, transfer->leases, transfer->n_leases);

  if (is_staged && transfer->blocking)
    {
      g_mutex_lock (&transfer->lock);
      whole = !is_aborted (transfer);
      if (!whole)
        set_aborted_error_locked (transfer, error);
      g_mutex_unlock (&transfer->lock);
    }

  _gpu_transfer_unref (transfer);
  _gpu_transfer_report_threads ();

  return whole;
}
