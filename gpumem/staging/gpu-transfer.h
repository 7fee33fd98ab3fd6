/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The staging engine: copies between ordinary memory of the host and the device in chunks, which
 * several threads copy from or to page-locked memory while the device moves those before.
 *
 * All commands are in the user's own stream when _gpu_transfer_submit() returns. A chunk to the
 * device waits there for a signal, which it gets once the bytes are in place; a chunk from the
 * device waits for the signal of the one that had its place before. Nothing ever waits for work
 * that is submitted later, and no lock of the library is needed to go on.
 */
#pragma once

#include "gpumem/backend/gpu-backend.h"

G_BEGIN_DECLS

typedef struct _GpuTransfer GpuTransfer;

typedef struct
{
  gboolean       write;             /* to the device */
  gboolean       is_image;
  gboolean       in_order;          /* the memory of the host is the library's: it is used when
                                     * its turn has come in the stream. Not with blocking */
  GpuRegionSide  device;            /* its memory is given with the submission */
  GpuRegionSide  host;
  GpuExtent      extent;            /* as the back ends take it, not empty */
  gsize          unit;              /* bytes of one of its width */
  GBytes        *bytes;             /* nullable; keeps the memory of the host */
} GpuTransferCopy;

/* NULL for a copy that had better go straight. @order is of what goes to one stream, in order.
 * With @blocking the caller waits in _gpu_transfer_end() until the memory of the host is done
 * with. Called without any lock. */
GpuTransfer *_gpu_transfer_begin         (GpuNativeContext       *context,
                                          gconstpointer           order,
                                          const GpuTransferCopy  *copy,
                                          gboolean                blocking);
/* A stream op. */
gboolean     _gpu_transfer_submit        (GpuTransfer            *transfer,
                                          GpuNativeStream        *stream,
                                          GpuNativeMemory        *memory,
                                          GpuNativeEvent        **event,
                                          GError                **error);
/* Whether a submission that failed has put something into the stream: it must not be tried in
 * another way. */
gboolean     _gpu_transfer_has_begun     (GpuTransfer            *transfer);
/* Once, with no lock held; @success if the operation was submitted, in whatever way. Nothing looks
 * at the caller's memory afterwards unless it was staged and the caller does not block. FALSE if a
 * caller who blocks did not get all of it. */
gboolean     _gpu_transfer_end           (GpuTransfer            *transfer,
                                          gboolean                success,
                                          GError                **error);

GpuTransfer *_gpu_transfer_ref           (GpuTransfer            *transfer);
void         _gpu_transfer_unref         (GpuTransfer            *transfer);
/* Once the operation is over: whether the bytes got where they belong. The driver cannot tell, for
 * a copy that had to be given up is let go to its end. FALSE if it was submitted and did not. */
gboolean     _gpu_transfer_check         (GpuTransfer            *transfer,
                                          GError                **error);

/* gpu-transfer-ring.c: the page-locked memory of a context. */
gsize        _gpu_transfer_get_limit     (GpuNativeContext       *context);
void         _gpu_transfer_set_limit     (GpuNativeContext       *context,
                                          gsize                   limit);
gsize        _gpu_transfer_get_size      (GpuNativeContext       *context);
/* Frees what no copy uses, down to @size bytes. TRUE if there was any. */
gboolean     _gpu_transfer_trim          (GpuNativeContext       *context,
                                          gsize                   size);

/* gpu-transfer-threads.c: threads that copy, of the whole process. */
guint        _gpu_transfer_get_n_threads (void);
void         _gpu_transfer_set_n_threads (guint                   n_threads);

G_END_DECLS
