/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Shared by the files of the staging engine. */
#pragma once

#include "gpumem/base/gpu-debug-private.h"
#include "gpumem/staging/gpu-transfer.h"

G_BEGIN_DECLS

/* Of one copy. */
#define GPU_TRANSFER_MAX_SLOTS 8

/* One piece of page-locked memory, in bytes. Small ones where all that can be is staged, so that
 * tests see much happen. */
static inline gsize
_gpu_transfer_get_slot_size (void)
{
  return _gpu_debug_has (GPU_DEBUG_STAGE) ? 64 * 1024 : 4 * 1024 * 1024;
}

typedef struct
{
  GpuNativeMemory *memory;
  gboolean         leased;          /* until its copy has been submitted, or is over */
  GpuNativeEvent  *busy;            /* nullable; it is used until then */
  gconstpointer    order;           /* of the copy that it is busy with */
} GpuTransferSlot;

typedef struct
{
  GpuTransferSlot *slot;
  guint8          *data;
  GpuNativeEvent  *before;          /* nullable; what to wait for before the first use */
} GpuTransferLease;

/* How many there are of @wanted, at most GPU_TRANSFER_MAX_SLOTS; those that can be used at once
 * come first. At most @max_new are allocated, which takes the driver long. */
guint    _gpu_transfer_ring_lease   (GpuNativeContext       *context,
                                     gconstpointer           order,
                                     guint                   wanted,
                                     guint                   max_new,
                                     GpuTransferLease       *leases);
/* They are busy until @event, and other copies of @order may take them before. */
void     _gpu_transfer_ring_submit  (GpuNativeContext       *context,
                                     gconstpointer           order,
                                     const GpuTransferLease *leases,
                                     guint                   n_leases,
                                     GpuNativeEvent         *event);
/* Nothing uses them: @leases that were not submitted. */
void     _gpu_transfer_ring_return  (GpuNativeContext       *context,
                                     const GpuTransferLease *leases,
                                     guint                   n_leases);
/* @event, to which the caller has a reference, has come: what was busy until then is not. */
void     _gpu_transfer_ring_finish  (GpuNativeContext       *context,
                                     GpuNativeEvent         *event);

/* A chunk, as the device sees it and as it lies in page-locked memory. */
typedef struct
{
  gsize x;                          /* bytes */
  gsize y;
  gsize z;
  gsize width;                      /* bytes */
  gsize height;
  gsize depth;
} GpuTransferBox;

/* gpu-transfer-chunking.c: how a copy is cut. Chunks are whole slices, rows of one slice, or a part
 * of one row. */
typedef struct
{
  gsize width;                      /* bytes */
  gsize height;
  gsize depth;
  gsize box_width;                  /* of a chunk that is not the last of its kind */
  gsize box_height;
  gsize box_depth;
  gsize per_row;                    /* chunks in a row */
  gsize per_slice;                  /* and in a slice, counted in rows of chunks */
  guint n_chunks;
  gsize chunk_size;                 /* bytes, at most */
  gsize piece_size;                 /* bytes that a thread copies at a time, about */
} GpuTransferChunking;

/* FALSE for what has too many chunks or rows that are too small. */
gboolean _gpu_transfer_chunking_init (GpuTransferChunking    *chunking,
                                      GpuTransferCopy        *copy);
void     _gpu_transfer_get_box      (const GpuTransferChunking *chunking,
                                     guint                      chunk,
                                     GpuTransferBox            *box);
guint    _gpu_transfer_get_n_pieces (const GpuTransferChunking *chunking,
                                     const GpuTransferBox      *box);
/* Between the memory of the host and @data, where @box lies without gaps. */
void     _gpu_transfer_copy_piece   (const GpuTransferCopy     *copy,
                                     const GpuTransferChunking *chunking,
                                     const GpuTransferBox      *box,
                                     guint                      piece,
                                     guint8                    *data);

/* gpu-transfer-threads.c: call @func with @data on a thread that copies, or on one that may wait
 * for the device. FALSE if no thread can be started. */
typedef void (*GpuTransferFunc) (gpointer data);

gboolean _gpu_transfer_push_copy    (GpuTransferFunc         func,
                                     gpointer                data);
gboolean _gpu_transfer_push_wait    (GpuTransferFunc         func,
                                     gpointer                data);
/* Reports once that no thread could be started. Caller holds no lock. */
void     _gpu_transfer_report_threads (void);

G_END_DECLS
