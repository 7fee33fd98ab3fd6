/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <string.h>

#include "gpumem/staging/gpu-transfer-private.h"

/* Small copies are split into a few chunks, so that the device starts early. More chunks would cost
 * more driver calls and, unless the copy is a blocking one to the device, more waits. */
#define CHUNKS_WANTED 4
#define CHUNKS_WANTED_FOR_BLOCKING_WRITE 8
#define CHUNKS_OF_SLOT_MAX 8

/* These numbers determine the size of a piece, which one thread copies at a time. A piece is so
 * small that threads can share the work, and so large that threads are not woken too often. */
#define PIECES_WANTED 32
#define PIECES_OF_SLOT_MIN 16
#define PIECES_OF_SLOT_MIN_FOR_BLOCKING_WRITE 32
#define PIECES_OF_SLOT_MAX 64

/* The size from which copies to the device leave their data in the caches, in slots. Such a copy
 * reuses its slots, and the device reads each chunk long after the processors wrote it. */
#define CACHED_SLOTS_MIN 32

/* The minimum size of rows that are copied one by one, in bytes */
#define ROW_SIZE_MIN 64

#define ALIGNMENT 4096
#define N_CHUNKS_MAX (1 << 20)

static gsize
divide_up (gsize a,
           gsize b)
{
  return (a + b - 1) / b;
}

/* Merges rows and slices that are tightly packed, both in the host memory and on the device, into
 * one row. */
static void
join_rows (GpuTransferChunking   *chunking,
           const GpuTransferCopy *copy)
{
  gsize slice = chunking->width * chunking->height;

  if (copy->is_image
      || (chunking->height > 1 && (copy->device.row_pitch != chunking->width
                                   || copy->host.row_pitch != chunking->width))
      || (chunking->depth > 1 && (copy->device.slice_pitch != slice
                                  || copy->host.slice_pitch != slice)))
    return;

  chunking->width = slice * chunking->depth;
  chunking->height = 1;
  chunking->depth = 1;
}

static void
cut (GpuTransferChunking *chunking,
     gsize                unit)
{
  gsize slice = chunking->width * chunking->height;
  gsize size = chunking->chunk_size;

  chunking->box_width = chunking->width;
  chunking->box_height = 1;
  chunking->box_depth = 1;

  if (chunking->width > size)
    chunking->box_width = size / unit * unit;
  else if (slice > size)
    chunking->box_height = size / chunking->width;
  else
    {
      chunking->box_height = chunking->height;
      chunking->box_depth = MIN (size / slice, chunking->depth);
    }

  chunking->per_row = divide_up (chunking->width, chunking->box_width);
  chunking->per_slice = divide_up (chunking->height, chunking->box_height);
}

gboolean
_gpu_transfer_chunking_init (GpuTransferChunking *chunking,
                             GpuTransferCopy     *copy,
                             gboolean             blocking)
{
  gboolean blocking_write = copy->write && blocking;
  gsize slot = _gpu_transfer_get_slot_size ();
  gsize n_wanted = blocking_write ? CHUNKS_WANTED_FOR_BLOCKING_WRITE : CHUNKS_WANTED;
  gsize n_pieces = blocking_write ? PIECES_OF_SLOT_MIN_FOR_BLOCKING_WRITE : PIECES_OF_SLOT_MIN;
  gsize size;
  gsize n_chunks;

  chunking->width = copy->extent.width * copy->unit;
  chunking->height = copy->extent.height;
  chunking->depth = copy->extent.depth;
  join_rows (chunking, copy);

  size = chunking->width * chunking->height * chunking->depth;
  chunking->chunk_size = CLAMP (divide_up (size, n_wanted), slot / CHUNKS_OF_SLOT_MAX, slot);
  /* Choose the size so that a slot holds a whole number of chunks, each aligned for every kind of
   * copy. */
  chunking->chunk_size = slot / (slot / chunking->chunk_size) / ALIGNMENT * ALIGNMENT;
  chunking->piece_size = CLAMP (size / PIECES_WANTED, slot / PIECES_OF_SLOT_MAX,
                                slot / n_pieces);
  chunking->is_cached = copy->write && size >= CACHED_SLOTS_MIN * slot;
  cut (chunking, copy->unit);

  if ((chunking->width < ROW_SIZE_MIN && size != chunking->width)
      || !g_size_checked_mul (&n_chunks, chunking->per_row, chunking->per_slice)
      || !g_size_checked_mul (&n_chunks, n_chunks, divide_up (chunking->depth, chunking->box_depth))
      || n_chunks > N_CHUNKS_MAX)
    return FALSE;

  chunking->n_chunks = n_chunks;

  return TRUE;
}

void
_gpu_transfer_get_box (const GpuTransferChunking *chunking,
                       guint                      chunk,
                       GpuTransferBox            *box)
{
  gsize row = chunk / chunking->per_row;

  box->x = chunk % chunking->per_row * chunking->box_width;
  box->y = row % chunking->per_slice * chunking->box_height;
  box->z = row / chunking->per_slice * chunking->box_depth;
  box->width = MIN (chunking->box_width, chunking->width - box->x);
  box->height = MIN (chunking->box_height, chunking->height - box->y);
  box->depth = MIN (chunking->box_depth, chunking->depth - box->z);
}

guint
_gpu_transfer_get_n_pieces (const GpuTransferChunking *chunking,
                            const GpuTransferBox      *box)
{
  gsize n_rows = box->height * box->depth;
  gsize n_pieces = divide_up (box->width * n_rows, chunking->piece_size);

  return n_rows > 1 ? MIN (n_pieces, n_rows) : n_pieces;
}

/* A large copy from the device bypasses the caches because its data would evict the working set of
 * the program. */
static void
copy_row (const GpuTransferCopy     *copy,
          const GpuTransferChunking *chunking,
          guint8                    *host,
          guint8                    *data,
          gsize                      size)
{
  if (chunking->is_cached)
    memcpy (data, host, size);
  else if (copy->write)
    _gpu_transfer_copy_for_device (data, host, size);
  else
    _gpu_transfer_copy_streaming (host, data, size);
}

/* Copies a piece of whole rows of @box. */
static void
copy_rows (const GpuTransferCopy     *copy,
           const GpuTransferChunking *chunking,
           const GpuTransferBox      *box,
           gsize                      begin,
           gsize                      end,
           guint8                    *data)
{
  guint8 *host = (guint8 *) copy->host.data + copy->host.offset + box->x;

  for (gsize row = begin; row < end; row++)
    copy_row (copy, chunking, host + (box->y + row % box->height) * copy->host.row_pitch
                              + (box->z + row / box->height) * copy->host.slice_pitch,
              data + row * box->width, box->width);
}

void
_gpu_transfer_copy_piece (const GpuTransferCopy     *copy,
                          const GpuTransferChunking *chunking,
                          const GpuTransferBox      *box,
                          guint                      piece,
                          guint8                    *data)
{
  gsize n_rows = box->height * box->depth;
  guint n_pieces = _gpu_transfer_get_n_pieces (chunking, box);
  gsize begin = piece * chunking->piece_size;
  gsize end = MIN (begin + chunking->piece_size, box->width);
  gsize offset = copy->host.offset + box->x + begin;

  if (n_rows > 1)
    copy_rows (copy, chunking, box, n_rows * piece / n_pieces, n_rows * (piece + 1) / n_pieces,
               data);
  else
    copy_row (copy, chunking, (guint8 *) copy->host.data + offset + box->y * copy->host.row_pitch
                              + box->z * copy->host.slice_pitch, data + begin, end - begin);
}
