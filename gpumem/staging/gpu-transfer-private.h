/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Declarations shared by the files of the staging engine. */
#pragma once

#include "gpumem/base/gpu-debug-private.h"
#include "gpumem/staging/gpu-transfer-file.h"
#include "gpumem/staging/gpu-transfer.h"

G_BEGIN_DECLS

/* The maximum number of slots of one copy. */
#define GPU_TRANSFER_MAX_SLOTS 8

/* Returns the size of a slot of page-locked memory, in bytes. Slots are small if GPUMEM_DEBUG
 * forces staging, so that tests use many of them. */
static inline gsize
_gpu_transfer_get_slot_size (void)
{
  return _gpu_debug_has (GPU_DEBUG_STAGE) ? 64 * 1024 : 4 * 1024 * 1024;
}

typedef struct
{
  GpuNativeMemory *memory;
  gboolean         leased;          /* TRUE from the lease of the slot until the copy is submitted,
                                     * or until the lease is returned without a copy */
  GpuNativeEvent  *busy;            /* nullable; completes when the slot is no longer in use */
  gconstpointer    order;           /* `order` of the last copy that used the slot */
} GpuTransferSlot;

typedef struct
{
  GpuTransferSlot *slot;
  guint8          *data;
  GpuNativeEvent  *before;          /* nullable; the event to wait for before the first use */
} GpuTransferLease;

/* Leases up to @wanted slots, at most GPU_TRANSFER_MAX_SLOTS, and returns their number. First
 * leases free slots, then allocates at most @max_new slots, because allocation is slow. Last,
 * leases busy slots that an earlier copy with the same @order used. */
guint    _gpu_transfer_ring_lease   (GpuNativeContext       *context,
                                     gconstpointer           order,
                                     guint                   wanted,
                                     guint                   max_new,
                                     GpuTransferLease       *leases);
/* Like _gpu_transfer_ring_lease(), for a copy whose caller must not block: first leases busy slots
 * that an earlier copy with the same @order used, then at most half of the free slots. If there is
 * no slot, allocates one beyond the limit, unless the limit disables staging. The caller leases for
 * one copy of an @order at a time, and submits that copy before it leases for the next one. So each
 * @order has at most one slot beyond the limit, until the submission of a copy fails. */
guint    _gpu_transfer_ring_lease_in_order (GpuNativeContext *context,
                                     gconstpointer           order,
                                     guint                   wanted,
                                     GpuTransferLease       *leases);
/* Ends the leases and marks their slots as busy until @event completes. Only other copies with the
 * same @order may lease the slots before @event completes. */
void     _gpu_transfer_ring_submit  (GpuNativeContext       *context,
                                     gconstpointer           order,
                                     const GpuTransferLease *leases,
                                     guint                   n_leases,
                                     GpuNativeEvent         *event);
/* Returns @leases to the ring. They were not submitted, and no command uses their slots. */
void     _gpu_transfer_ring_return  (GpuNativeContext       *context,
                                     const GpuTransferLease *leases,
                                     guint                   n_leases);
/* Marks as free the slots that were busy until @event completed. @event must have completed. Caller
 * holds a reference to @event. */
void     _gpu_transfer_ring_finish  (GpuNativeContext       *context,
                                     GpuNativeEvent         *event);

/* The position of a chunk on the device, and its extent in page-locked memory. */
typedef struct
{
  gsize x;                          /* bytes */
  gsize y;
  gsize z;
  gsize width;                      /* bytes */
  gsize height;
  gsize depth;
} GpuTransferBox;

/* gpu-transfer-chunking.c: the division of a copy into chunks. A chunk consists of whole slices, of
 * rows of one slice, or of a part of one row. */
typedef struct
{
  gsize width;                      /* bytes */
  gsize height;
  gsize depth;
  gsize box_width;                  /* size of a chunk; the last one in a row, slice or copy may be
                                     * smaller */
  gsize box_height;
  gsize box_depth;
  gsize per_row;                    /* chunks in a row */
  gsize per_slice;                  /* rows of chunks in a slice */
  guint n_chunks;
  gsize chunk_size;                 /* maximum size of a chunk, in bytes */
  gsize piece_size;                 /* bytes that a thread copies at a time, approximately */
  gboolean is_cached;               /* the copied bytes stay in the caches of the processors */
} GpuTransferChunking;

/* Returns FALSE for a copy with too many chunks or with rows that are too small. */
gboolean _gpu_transfer_chunking_init (GpuTransferChunking    *chunking,
                                      GpuTransferCopy        *copy,
                                      gboolean                blocking);
void     _gpu_transfer_get_box      (const GpuTransferChunking *chunking,
                                     guint                      chunk,
                                     GpuTransferBox            *box);
guint    _gpu_transfer_get_n_pieces (const GpuTransferChunking *chunking,
                                     const GpuTransferBox      *box);
/* Copies between the host memory and @data, which holds @box tightly packed. */
void     _gpu_transfer_copy_piece   (const GpuTransferCopy     *copy,
                                     const GpuTransferChunking *chunking,
                                     const GpuTransferBox      *box,
                                     guint                      piece,
                                     guint8                    *data);

/* gpu-transfer-claims.c: the pieces of a copy, which threads take in order, without a lock. */
typedef struct
{
  guint n_chunks;
  gint *first;                      /* by chunk: its first piece; the last element counts all */
  gint *n_left;                     /* atomic; by chunk: pieces that are not copied yet */
  gint  n_ready;                    /* atomic; leading pieces that threads may take */
  gint  next;                       /* atomic; the next piece to take */
} GpuTransferClaims;

void     _gpu_transfer_claims_init  (GpuTransferClaims         *claims,
                                     const GpuTransferChunking *chunking);
void     _gpu_transfer_claims_clear (GpuTransferClaims         *claims);
/* Allows threads to take the pieces of the first @n_chunks chunks. */
void     _gpu_transfer_claims_set_ready (GpuTransferClaims     *claims,
                                     guint                      n_chunks);
/* Takes a piece. Returns FALSE if none is ready. */
gboolean _gpu_transfer_claims_take  (GpuTransferClaims         *claims,
                                     guint                     *chunk,
                                     guint                     *piece);
/* Reports that a piece of @chunk is copied. Returns TRUE if it was the last one of the chunk. */
gboolean _gpu_transfer_claims_end   (GpuTransferClaims         *claims,
                                     guint                      chunk);
gboolean _gpu_transfer_claims_has_piece (GpuTransferClaims     *claims);
gboolean _gpu_transfer_claims_is_copied (GpuTransferClaims     *claims,
                                     guint                      chunk);
/* Returns the number of pieces that no thread has taken, ready or not. */
guint    _gpu_transfer_claims_get_n_left (GpuTransferClaims    *claims);
/* Returns whether all chunks are ready. */
gboolean _gpu_transfer_claims_is_all_ready (GpuTransferClaims  *claims);

/* gpu-transfer-streaming.c: copies @size bytes, which do not overlap. The second function is for
 * data that a device reads soon. */
void     _gpu_transfer_copy_streaming (guint8               *to,
                                     const guint8           *from,
                                     gsize                   size);
void     _gpu_transfer_copy_for_device (guint8              *to,
                                     const guint8           *from,
                                     gsize                   size);

/* gpu-transfer-pieces.c: copies between a file and places in memory, by several threads. */
typedef struct _GpuTransferPieces GpuTransferPieces;

typedef struct
{
  GpuTransferFile *file;
  gboolean         read;            /* from the file into the memory */
  guint64          position;        /* of the first byte in the file */
  gsize            size;            /* bytes, not 0 */
  gsize            chunk_size;      /* bytes */
  GpuProgress     *progress;        /* nullable */
  GCancellable    *cancellable;     /* nullable; ends the copy before the next piece */
  /* Returns the place of @chunk. */
  guint8 *       (*get_place) (gpointer data, guint chunk);
  /* Called on any thread, without locks, when the first @n_done chunks are copied. Calls may
   * overtake each other. */
  void           (*copied)    (gpointer data, guint n_done);
  gpointer         data;
} GpuTransferPiecesCopy;

GpuTransferPieces *_gpu_transfer_pieces_new (const GpuTransferPiecesCopy *copy);
void     _gpu_transfer_pieces_unref (GpuTransferPieces       *pieces);
/* Allows threads to copy the chunks before @n_ready. */
void     _gpu_transfer_pieces_set_ready (GpuTransferPieces   *pieces,
                                     guint                    n_ready);
/* Waits until the first @n_chunks chunks are copied. Meanwhile this thread copies as well, because
 * all other threads may be busy with a slow file. Returns FALSE if the copy has stopped before. */
gboolean _gpu_transfer_pieces_wait  (GpuTransferPieces       *pieces,
                                     guint                    n_chunks);
/* Stops the copy, waits until no thread uses the file or calls functions of the copy, and closes
 * the file. */
void     _gpu_transfer_pieces_end   (GpuTransferPieces       *pieces);
/* (transfer full) (nullable): gets the error if the file failed or the copy was cancelled. Sets
 * @is_cancelled, which is nullable, to whether _gpu_transfer_pieces_cancel() caused the error. */
GError  *_gpu_transfer_pieces_get_failure (GpuTransferPieces *pieces,
                                     gboolean                *is_cancelled);
/* Cancels the copy, unless it has ended. Does not block. Calls @func once, on any thread, without
 * locks, when no thread uses the file any more. */
void     _gpu_transfer_pieces_cancel (GpuTransferPieces      *pieces,
                                     GDestroyNotify           func,
                                     gpointer                 data);

/* gpu-transfer-threads.c. _gpu_transfer_push_copies() calls @func with @data on @n copying threads,
 * or threads for files if @for_file is TRUE, and returns the number of calls, which is lower if
 * threads cannot be started. _gpu_transfer_push_wait() calls it on a thread that may wait for the
 * device, and returns FALSE if no thread can be started. */
typedef void (*GpuTransferFunc) (gpointer data);

guint    _gpu_transfer_push_copies  (GpuTransferFunc         func,
                                     gpointer                data,
                                     guint                   n,
                                     gboolean                for_file);
/* Called by a copying thread: if other copies wait for a thread, queues @func behind them and
 * returns TRUE. */
gboolean _gpu_transfer_yield_copy   (GpuTransferFunc         func,
                                     gpointer                data);
/* For a copying thread without a piece to copy: returns whether other copies wait for a thread. */
gboolean _gpu_transfer_must_yield   (void);
/* Blocks a copying thread until @awaits returns FALSE, until @deadline, or until other copies wait
 * for a thread. @awaits is called with a lock: it must not block. */
typedef gboolean (*GpuTransferAwaits) (gpointer data);
void     _gpu_transfer_linger       (GpuTransferAwaits       awaits,
                                     gpointer                data,
                                     gint64                  deadline);
/* Must be called when the result of an @awaits function has become FALSE. */
void     _gpu_transfer_wake_lingering (void);
gboolean _gpu_transfer_push_wait    (GpuTransferFunc         func,
                                     gpointer                data);
/* Logs once per process that no thread could be started. Caller holds no lock. */
void     _gpu_transfer_report_threads (void);

G_END_DECLS
