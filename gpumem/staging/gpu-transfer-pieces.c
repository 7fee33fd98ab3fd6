/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Reads a file into places in memory, or writes it from there, with several threads. Threads begin
 * the pieces of the file in order, so all bytes before the first failure are copied. */
#include "config.h"

#include "gpumem/staging/gpu-transfer-private.h"

/* These numbers determine the size of a piece, which one thread copies at a time. */
#define PIECES_WANTED 32
#define PIECES_OF_SLOT_MIN 4
#define PIECES_OF_SLOT_MAX 64

/* How long a thread waits for the next piece, in microseconds */
#define LINGER_TIME 300

struct _GpuTransferPieces
{
  gatomicrefcount   refs;
  GpuTransferPiecesCopy copy;       /* with references */
  GpuTransferMap    map;            /* of the range of the file, or empty */
  gsize             piece_size;     /* bytes */
  guint             n_chunks;
  gboolean          is_parallel;    /* several threads use the file at the same time */
  guint             max_workers;

  GMutex            lock;           /* guards the fields below */
  GCond             cond;
  guint            *n_left;         /* by chunk; pieces that are not copied yet */
  guint             n_ready;        /* number of leading chunks that threads may copy */
  guint             chunk;          /* the next chunk to copy, and its next piece */
  guint             piece;
  guint             n_done;         /* number of leading chunks that are copied */
  guint             n_copying;      /* threads that use the file or the memory */
  guint             n_workers;
  gboolean          stopped;        /* no thread begins another piece */
  GError           *failure;        /* nullable */
  gboolean          is_cancelled;   /* _gpu_transfer_pieces_cancel() caused `failure` */
  guint64           failed_at;      /* position of `failure` in the file */
  GDestroyNotify    on_stopped;     /* nullable; called once when no thread uses the file */
  gpointer          on_stopped_data;
};

static gsize
divide_up (gsize a,
           gsize b)
{
  return (a + b - 1) / b;
}

static gsize
get_chunk_bytes (const GpuTransferPieces *pieces,
                 guint                    chunk)
{
  gsize start = chunk * pieces->copy.chunk_size;

  return MIN (pieces->copy.chunk_size, pieces->copy.size - start);
}

static gsize
choose_piece_size (gsize size)
{
  gsize slot = _gpu_transfer_get_slot_size ();

  size = CLAMP (size / PIECES_WANTED, slot / PIECES_OF_SLOT_MAX, slot / PIECES_OF_SLOT_MIN);

  return divide_up (size, GPU_TRANSFER_FILE_ALIGNMENT) * GPU_TRANSFER_FILE_ALIGNMENT;
}

GpuTransferPieces *
_gpu_transfer_pieces_new (const GpuTransferPiecesCopy *copy)
{
  GpuTransferPieces *pieces = g_new0 (GpuTransferPieces, 1);

  g_atomic_ref_count_init (&pieces->refs);
  pieces->copy = *copy;
  pieces->piece_size = choose_piece_size (copy->size);
  pieces->n_chunks = divide_up (copy->size, copy->chunk_size);
  pieces->is_parallel = _gpu_transfer_file_is_parallel (copy->file, copy->read)
                        || _gpu_transfer_file_map (copy->file, copy->position, copy->size,
                                                   &pieces->map);
  pieces->max_workers = pieces->is_parallel ? _gpu_transfer_get_n_threads (TRUE) : 1;
  pieces->n_left = g_new (guint, pieces->n_chunks);
  _gpu_transfer_file_ref (copy->file);
  if (copy->progress != NULL)
    _gpu_progress_ref (copy->progress);
  if (copy->cancellable != NULL)
    g_object_ref (copy->cancellable);
  g_mutex_init (&pieces->lock);
  g_cond_init (&pieces->cond);

  for (guint i = 0; i < pieces->n_chunks; i++)
    pieces->n_left[i] = divide_up (get_chunk_bytes (pieces, i), pieces->piece_size);

  return pieces;
}

static GpuTransferPieces *
pieces_ref (GpuTransferPieces *pieces)
{
  g_atomic_ref_count_inc (&pieces->refs);

  return pieces;
}

void
_gpu_transfer_pieces_unref (GpuTransferPieces *pieces)
{
  if (!g_atomic_ref_count_dec (&pieces->refs))
    return;

  _gpu_transfer_map_clear (&pieces->map);
  g_clear_pointer (&pieces->copy.file, _gpu_transfer_file_unref);
  g_clear_pointer (&pieces->copy.progress, _gpu_progress_unref);
  g_clear_object (&pieces->copy.cancellable);
  g_clear_error (&pieces->failure);
  g_free (pieces->n_left);
  g_mutex_clear (&pieces->lock);
  g_cond_clear (&pieces->cond);
  g_free (pieces);
}

static gboolean
has_piece_locked (const GpuTransferPieces *pieces)
{
  return !pieces->stopped && pieces->chunk < pieces->n_ready
         && (pieces->is_parallel || pieces->n_copying == 0);
}

/* Called when no thread needs the file any more: when the copy has completed, the library must not
 * keep the file open. */
static void
close_file_locked (GpuTransferPieces *pieces)
{
  _gpu_transfer_map_clear (&pieces->map);
  g_clear_pointer (&pieces->copy.file, _gpu_transfer_file_unref);
}

/* Stops the copy because of @failure at @position. Takes ownership of @failure. Several pieces may
 * fail at the same time; the copy reports the first failure in the file. */
static void
fail_locked (GpuTransferPieces *pieces,
             guint64            position,
             GError            *failure)
{
  if (pieces->failure == NULL || position < pieces->failed_at)
    {
      g_clear_error (&pieces->failure);
      pieces->failure = failure;
      pieces->is_cancelled = FALSE;
      pieces->failed_at = position;
    }
  else
    g_error_free (failure);

  pieces->stopped = TRUE;
}

static void
cancel_locked (GpuTransferPieces *pieces,
               guint64            position)
{
  fail_locked (pieces, position,
               g_error_new (G_IO_ERROR, G_IO_ERROR_CANCELLED,
                            "the copy of %s was cancelled at byte %" G_GUINT64_FORMAT,
                            _gpu_transfer_file_get_name (pieces->copy.file), position));
}

/* Called when no thread uses the file any more after the copy has stopped. Unlocks for the call. */
static void
report_stopped_locked (GpuTransferPieces *pieces)
{
  GDestroyNotify func = g_steal_pointer (&pieces->on_stopped);

  if (func == NULL)
    return;

  g_mutex_unlock (&pieces->lock);
  func (pieces->on_stopped_data);
  g_mutex_lock (&pieces->lock);
}

/* Ends the use of the file if no thread uses it, and no thread will use it. */
static void
end_if_stopped_locked (GpuTransferPieces *pieces)
{
  if (pieces->n_copying > 0 || (!pieces->stopped && pieces->n_done < pieces->n_chunks))
    return;

  close_file_locked (pieces);
  report_stopped_locked (pieces);
}

/* Called when the next chunks are copied. Unlocks for the call of copied(), and to unmap the file,
 * which takes tens of milliseconds for some GiB. */
static void
report_done_locked (GpuTransferPieces *pieces)
{
  GpuTransferMap map = { NULL };
  guint n_done;

  while (pieces->n_done < pieces->n_ready && pieces->n_left[pieces->n_done] == 0)
    {
      if (pieces->copy.progress != NULL)
        _gpu_progress_add (pieces->copy.progress, get_chunk_bytes (pieces, pieces->n_done));
      pieces->n_done++;
    }

  n_done = pieces->n_done;
  if (n_done == pieces->n_chunks)
    {
      map = pieces->map;
      pieces->map.data = NULL;
      close_file_locked (pieces);
    }

  g_cond_broadcast (&pieces->cond);
  g_mutex_unlock (&pieces->lock);
  _gpu_transfer_map_clear (&map);
  pieces->copy.copied (pieces->copy.data, n_done);
  g_mutex_lock (&pieces->lock);
}

/* `n_copying` still counts this thread while it reports chunks, because the data of the callback
 * may be freed afterwards. */
static void
end_piece_locked (GpuTransferPieces *pieces,
                  guint              chunk,
                  gboolean           success)
{
  if (success && --pieces->n_left[chunk] == 0 && chunk == pieces->n_done)
    report_done_locked (pieces);

  if (--pieces->n_copying > 0)
    return;

  end_if_stopped_locked (pieces);
  g_cond_broadcast (&pieces->cond);
}

static void
copy_piece_locked (GpuTransferPieces *pieces)
{
  const GpuTransferPiecesCopy *copy = &pieces->copy;
  guint chunk = pieces->chunk;
  gsize begin = pieces->piece++ * pieces->piece_size;
  gsize bytes = get_chunk_bytes (pieces, chunk);
  guint64 position = copy->position + chunk * copy->chunk_size + begin;
  guint64 failed_at = position;
  GError *failure = NULL;

  if (g_cancellable_is_cancelled (copy->cancellable))
    {
      cancel_locked (pieces, position);
      end_if_stopped_locked (pieces);
      g_cond_broadcast (&pieces->cond);
      return;
    }

  if (begin + pieces->piece_size >= bytes)
    {
      pieces->chunk++;
      pieces->piece = 0;
    }

  pieces->n_copying++;
  g_mutex_unlock (&pieces->lock);
  _gpu_transfer_file_copy (copy->file, &pieces->map, copy->read, position,
                           copy->get_place (copy->data, chunk) + begin,
                           MIN (pieces->piece_size, bytes - begin), copy->position + copy->size,
                           &failed_at, &failure);
  g_mutex_lock (&pieces->lock);
  if (failure != NULL)
    fail_locked (pieces, failed_at, failure);
  end_piece_locked (pieces, chunk, failure == NULL);
}

static void copy_in_worker (gpointer data);

/* Each thread wakes at most two others, which wake further threads in turn: waking a thread takes
 * longer than copying a small piece. */
static void
wake_workers_locked (GpuTransferPieces *pieces)
{
  for (guint i = 0; i < 2 && has_piece_locked (pieces)
                    && pieces->n_workers < pieces->max_workers; i++)
    {
      if (_gpu_transfer_push_copies (copy_in_worker, pieces_ref (pieces), 1, TRUE) == 0)
        {
          _gpu_transfer_pieces_unref (pieces);
          return;
        }

      pieces->n_workers++;
    }
}

/* Returns FALSE if there is no piece after LINGER_TIME, so that the thread can serve other
 * copies. */
static gboolean
wait_for_piece_locked (GpuTransferPieces *pieces)
{
  gint64 deadline = g_get_monotonic_time () + LINGER_TIME;
  gboolean in_time = TRUE;

  while (in_time && !has_piece_locked (pieces) && !pieces->stopped
         && pieces->n_ready < pieces->n_chunks)
    in_time = g_cond_wait_until (&pieces->cond, &pieces->lock, deadline);

  return has_piece_locked (pieces);
}

static void
copy_in_worker (gpointer data)
{
  GpuTransferPieces *pieces = data;

  g_mutex_lock (&pieces->lock);
  wake_workers_locked (pieces);

  while (wait_for_piece_locked (pieces))
    copy_piece_locked (pieces);

  pieces->n_workers--;
  g_mutex_unlock (&pieces->lock);
  _gpu_transfer_pieces_unref (pieces);
}

void
_gpu_transfer_pieces_set_ready (GpuTransferPieces *pieces,
                                guint              n_ready)
{
  g_mutex_lock (&pieces->lock);
  pieces->n_ready = n_ready;
  g_cond_broadcast (&pieces->cond);
  wake_workers_locked (pieces);
  g_mutex_unlock (&pieces->lock);
}

gboolean
_gpu_transfer_pieces_wait (GpuTransferPieces *pieces,
                           guint              n_chunks)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&pieces->lock);

  while (pieces->n_done < n_chunks && !pieces->stopped)
    {
      if (has_piece_locked (pieces))
        copy_piece_locked (pieces);
      else
        g_cond_wait (&pieces->cond, &pieces->lock);
    }

  return !pieces->stopped || pieces->n_done >= n_chunks;
}

GError *
_gpu_transfer_pieces_get_failure (GpuTransferPieces *pieces,
                                  gboolean          *is_cancelled)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&pieces->lock);

  if (is_cancelled != NULL)
    *is_cancelled = pieces->is_cancelled;

  return pieces->failure != NULL ? g_error_copy (pieces->failure) : NULL;
}

void
_gpu_transfer_pieces_end (GpuTransferPieces *pieces)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&pieces->lock);

  pieces->stopped = TRUE;
  g_cond_broadcast (&pieces->cond);

  while (pieces->n_copying > 0)
    g_cond_wait (&pieces->cond, &pieces->lock);

  end_if_stopped_locked (pieces);
}

void
_gpu_transfer_pieces_cancel (GpuTransferPieces *pieces,
                             GDestroyNotify     func,
                             gpointer           data)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&pieces->lock);

  if (!pieces->stopped && pieces->n_done < pieces->n_chunks && pieces->copy.file != NULL)
    {
      gsize begun = pieces->chunk * pieces->copy.chunk_size + pieces->piece * pieces->piece_size;

      /* The last chunk may be shorter than the others. */
      cancel_locked (pieces, pieces->copy.position + MIN (begun, pieces->copy.size));
      pieces->is_cancelled = TRUE;
      g_cond_broadcast (&pieces->cond);
    }

  pieces->on_stopped = func;
  pieces->on_stopped_data = data;

  end_if_stopped_locked (pieces);
}
