/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "gpumem/staging/gpu-transfer-private.h"

/* Small copies are cut in a few chunks, so that the first is on its way early; each costs the
 * driver some calls and the device a wait. */
#define CHUNKS_WANTED 4
#define CHUNKS_OF_SLOT_MAX 8

/* What a thread copies at a time: less to share the work, more to be woken less often. */
#define PIECES_WANTED 32
#define PIECES_OF_SLOT_MIN 4
#define PIECES_OF_SLOT_MAX 64

/* Of the rows that are copied one by one */
#define ROW_SIZE_MIN 64

/* From here on it pays to keep what is written out of the caches. */
#define STREAM_SIZE_MIN 4096

#define ALIGNMENT 4096
#define N_CHUNKS_MAX (1 << 20)

static gsize
divide_up (gsize a,
           gsize b)
{
  return (a + b - 1) / b;
}

/* Rows and slices that follow each other without gaps on both sides are one row. */
static void
join_rows (GpuTransferShape      *shape,
           const GpuTransferCopy *copy)
{
  gsize slice = shape->width * shape->height;

  if (copy->is_image
      || (shape->height > 1 && (copy->device.row_pitch != shape->width
                                || copy->host.row_pitch != shape->width))
      || (shape->depth > 1 && (copy->device.slice_pitch != slice
                               || copy->host.slice_pitch != slice)))
    return;

  shape->width = slice * shape->depth;
  shape->height = 1;
  shape->depth = 1;
}

static void
cut (GpuTransferShape *shape,
     gsize             unit)
{
  gsize slice = shape->width * shape->height;
  gsize size = shape->chunk_size;

  shape->box_width = shape->width;
  shape->box_height = 1;
  shape->box_depth = 1;

  if (shape->width > size)
    shape->box_width = size / unit * unit;
  else if (slice > size)
    shape->box_height = size / shape->width;
  else
    {
      shape->box_height = shape->height;
      shape->box_depth = MIN (size / slice, shape->depth);
    }

  shape->across = divide_up (shape->width, shape->box_width);
  shape->down = divide_up (shape->height, shape->box_height);
}

gboolean
_gpu_transfer_shape_init (GpuTransferShape *shape,
                          GpuTransferCopy  *copy)
{
  gsize slot = _gpu_transfer_get_slot_size ();
  gsize size;
  gsize n_chunks;

  shape->width = copy->extent.width * copy->unit;
  shape->height = copy->extent.height;
  shape->depth = copy->extent.depth;
  join_rows (shape, copy);

  size = shape->width * shape->height * shape->depth;
  shape->chunk_size = CLAMP (divide_up (size, CHUNKS_WANTED), slot / CHUNKS_OF_SLOT_MAX, slot);
  /* A whole number of them to a slot, each at a place that any copy likes */
  shape->chunk_size = slot / (slot / shape->chunk_size) / ALIGNMENT * ALIGNMENT;
  shape->piece_size = CLAMP (size / PIECES_WANTED, slot / PIECES_OF_SLOT_MAX,
                             slot / PIECES_OF_SLOT_MIN);
  cut (shape, copy->unit);

  if ((shape->width < ROW_SIZE_MIN && size != shape->width)
      || !g_size_checked_mul (&n_chunks, shape->across, shape->down)
      || !g_size_checked_mul (&n_chunks, n_chunks, divide_up (shape->depth, shape->box_depth))
      || n_chunks > N_CHUNKS_MAX)
    return FALSE;

  shape->n_chunks = n_chunks;

  return TRUE;
}

void
_gpu_transfer_get_box (const GpuTransferShape *shape,
                       guint                   chunk,
                       GpuTransferBox         *box)
{
  gsize row = chunk / shape->across;

  box->x = chunk % shape->across * shape->box_width;
  box->y = row % shape->down * shape->box_height;
  box->z = row / shape->down * shape->box_depth;
  box->width = MIN (shape->box_width, shape->width - box->x);
  box->height = MIN (shape->box_height, shape->height - box->y);
  box->depth = MIN (shape->box_depth, shape->depth - box->z);
}

guint
_gpu_transfer_get_n_pieces (const GpuTransferShape *shape,
                            const GpuTransferBox   *box)
{
  gsize n_rows = box->height * box->depth;
  gsize n_pieces = divide_up (box->width * n_rows, shape->piece_size);

  return n_rows > 1 ? MIN (n_pieces, n_rows) : n_pieces;
}

/* Memory that the processor does not look at for now is written past the caches. */
static void
copy_streaming (guint8       *to,
                const guint8 *from,
                gsize         size)
{
#ifdef __SSE2__
  gsize begin = MIN (-(guintptr) to % 64, size);

  memcpy (to, from, begin);
  to += begin;
  from += begin;
  size -= begin;

  for (; size >= 64; size -= 64, to += 64, from += 64)
    {
      __m128i a = _mm_loadu_si128 ((const __m128i *) from);
      __m128i b = _mm_loadu_si128 ((const __m128i *) from + 1);
      __m128i c = _mm_loadu_si128 ((const __m128i *) from + 2);
      __m128i d = _mm_loadu_si128 ((const __m128i *) from + 3);

      _mm_stream_si128 ((__m128i *) to, a);
      _mm_stream_si128 ((__m128i *) to + 1, b);
      _mm_stream_si128 ((__m128i *) to + 2, c);
      _mm_stream_si128 ((__m128i *) to + 3, d);
    }

  /* Before others are told that the bytes are there */
  _mm_sfence ();
#endif

  memcpy (to, from, size);
}

/* What goes to the device is best left in the caches, where the device finds it; what comes from
 * there would only push out what the program works with. */
static void
copy_row (const GpuTransferCopy *copy,
          guint8                *host,
          guint8                *data,
          gsize                  size)
{
  if (copy->write)
    memcpy (data, host, size);
  else if (size < STREAM_SIZE_MIN)
    memcpy (host, data, size);
  else
    copy_streaming (host, data, size);
}

void
_gpu_transfer_copy_piece (const GpuTransferCopy  *copy,
                          const GpuTransferShape *shape,
                          const GpuTransferBox   *box,
                          guint                   piece,
                          guint8                 *data)
{
  guint8 *host = (guint8 *) copy->host.data + copy->host.offset + box->x;
  gsize n_rows = box->height * box->depth;
  guint n_pieces = _gpu_transfer_get_n_pieces (shape, box);
  gsize begin;
  gsize end;

  if (n_rows == 1)
    {
      begin = piece * shape->piece_size;
      end = MIN (begin + shape->piece_size, box->width);
      host += box->y * copy->host.row_pitch + box->z * copy->host.slice_pitch;
      copy_row (copy, host + begin, data + begin, end - begin);
      return;
    }

  begin = n_rows * piece / n_pieces;
  end = n_rows * (piece + 1) / n_pieces;

  for (gsize row = begin; row < end; row++)
    copy_row (copy, host + (box->y + row % box->height) * copy->host.row_pitch
                    + (box->z + row / box->height) * copy->host.slice_pitch,
              data + row * box->width, box->width);
}
