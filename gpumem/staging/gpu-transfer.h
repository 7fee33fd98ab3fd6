/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The staging engine: copies between pageable host memory and the device in chunks. Several threads
 * copy chunks from or to page-locked memory while the device transfers earlier chunks.
 *
 * All commands are in the user's own stream when _gpu_transfer_submit() returns. The command for a
 * chunk to the device waits for a signal that a thread has copied the chunk to its place. A place
 * is the part of the page-locked memory that holds one chunk at a time. The command for a chunk
 * from the device waits for a signal that a thread has copied the previous chunk out of the same
 * place. No command ever waits for work that is submitted later, and progress needs no lock of the
 * library.
 */
#pragma once

#include "gpumem/backend/gpu-backend.h"
#include "gpumem/base/gpu-progress-private.h"

G_BEGIN_DECLS

typedef struct _GpuTransfer GpuTransfer;

typedef struct
{
  gboolean       write;             /* TRUE for a copy to the device */
  gboolean       is_image;
  gboolean       in_order;          /* the host memory belongs to the library: access it in stream
                                     * order. FALSE for blocking copies */
  GpuRegionSide  device;            /* _gpu_transfer_submit() sets its memory */
  GpuRegionSide  host;
  GpuExtent      extent;            /* in the units of the back ends, not empty */
  gsize          unit;              /* bytes per unit of width */
  GBytes        *bytes;             /* nullable; the owner of the host memory */
  GpuProgress   *progress;          /* nullable; counts the bytes copied so far */
} GpuTransferCopy;

/* Returns NULL for a copy that should not be staged. Copies with the same @order are submitted to
 * the same in-order stream. With @blocking, _gpu_transfer_end() waits until the host memory is no
 * longer in use. Caller holds no lock. */
GpuTransfer *_gpu_transfer_begin         (GpuNativeContext       *context,
                                          gconstpointer           order,
                                          const GpuTransferCopy  *copy,
                                          gboolean                blocking);
/* Submits the commands, like a stream op of a back end. */
gboolean     _gpu_transfer_submit        (GpuTransfer            *transfer,
                                          GpuNativeStream        *stream,
                                          GpuNativeMemory        *memory,
                                          GpuNativeEvent        **event,
                                          GError                **error);
/* Returns whether a failed submission has put commands into the stream. If so, the copy must not be
 * retried without staging. */
gboolean     _gpu_transfer_has_begun     (GpuTransfer            *transfer);
/* Must be called once, with no lock held. @success is whether the operation was submitted, staged
 * or not. After the call, the transfer no longer uses the caller's memory, unless the copy was
 * staged without @blocking. Returns FALSE if a blocking copy is incomplete. */
gboolean     _gpu_transfer_end           (GpuTransfer            *transfer,
                                          gboolean                success,
                                          GError                **error);

GpuTransfer *_gpu_transfer_ref           (GpuTransfer            *transfer);
void         _gpu_transfer_unref         (GpuTransfer            *transfer);
/* Like _gpu_transfer_unref(), for the reference of the timeline, once the point of the copy is
 * reached. Unless the copy has failed, releases the host memory at once, although threads may still
 * hold references. */
void         _gpu_transfer_retire        (GpuTransfer            *transfer);
/* Returns FALSE if the operation was submitted and its copy failed. Called after the operation has
 * completed. The driver cannot report such a failure, because the commands of an aborted copy
 * complete normally. */
gboolean     _gpu_transfer_check         (GpuTransfer            *transfer,
                                          GError                **error);

/* gpu-transfer-parts.c: linear copies without staging that report their progress. Returns whether a
 * copy of @size bytes is divided. */
gboolean     _gpu_transfer_has_parts     (gsize                   size);
/* Submits a divided copy, like a stream op of a back end that creates no event. The memory of the
 * device is set, and the stream is in order. */
gboolean     _gpu_transfer_submit_parts  (const GpuTransferCopy  *copy,
                                          GpuNativeStream        *stream,
                                          GError                **error);

/* gpu-transfer-ring.c: the page-locked memory of a context. */
gsize        _gpu_transfer_get_limit     (GpuNativeContext       *context);
void         _gpu_transfer_set_limit     (GpuNativeContext       *context,
                                          gsize                   limit);
gsize        _gpu_transfer_get_size      (GpuNativeContext       *context);
/* Frees slots that no copy uses until all slots together have at most @size bytes. Returns TRUE if
 * any slot was freed. */
gboolean     _gpu_transfer_trim          (GpuNativeContext       *context,
                                          gsize                   size);

/* gpu-transfer-threads.c: the threads of the process that copy memory, or with @for_file those that
 * read and write files. */
guint        _gpu_transfer_get_n_threads (gboolean               for_file);
void         _gpu_transfer_set_n_threads (guint                   n_threads);

G_END_DECLS
