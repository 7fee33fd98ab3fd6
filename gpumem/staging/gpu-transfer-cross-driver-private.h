/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Declarations shared by copies between drivers and copies between files and a stream. */
#pragma once

#include "gpumem/staging/gpu-transfer-cross-driver.h"
#include "gpumem/staging/gpu-transfer-private.h"

G_BEGIN_DECLS

#define FROM GPU_CROSS_DRIVER_FROM
#define TO   GPU_CROSS_DRIVER_TO

struct _GpuCrossDriver
{
  gatomicrefcount   refs;
  GpuCrossDriverCopy copy;          /* with references to the contexts */
  gsize             chunk_size;     /* bytes */
  guint             n_chunks;
  guint             per_lease;      /* chunks that fit into one lease */
  guint             n_places;
  GpuNativeContext *ring;           /* the owner of the page-locked memory */
  GpuTransferLease  leases[GPU_TRANSFER_MAX_SLOTS];
  guint             n_leases;
  GpuNativeMemory  *memories[2];
  guint             sides;          /* the sides whose commands are submitted, as bits */
  gboolean          retain_waits;
  GPtrArray        *waits;          /* of GpuNativeEvent */
  GpuTransferPieces *pieces;        /* of a copy from or to a file, otherwise NULL */
  guint8           *host;           /* nullable; the memory of a direct copy */
  GPtrArray        *earlier;        /* nullable; of GpuCrossDriver: if one fails, the file is not
                                     * accessed */
  GpuNativeEvent   *last;           /* nullable; completes with the last command of a copy from or
                                     * to a file */

  GMutex            lock;           /* guards the fields below */
  GCond             cond;
  gboolean          has_first;      /* `first` has been recorded, or is not needed */
  GpuNativeEvent   *first;          /* nullable; completes when earlier work in the user's stream
                                     * has completed */
  GpuNativeEvent  **events[2];      /* of the commands, by chunk */
  GpuNativeEvent  **host_waits[2];  /* one before each command, and one after the last; elements may
                                     * be NULL */
  guint             n_opened[2];    /* number of leading host_waits that are signalled */
  guint             n_submitted[2]; /* number of submitted chunks */
  gboolean          ended;          /* the submission has ended; no more commands follow */
  gboolean          whole;          /* all commands were submitted */
  gboolean          over;           /* the driving thread has finished */
  GError           *failure;        /* nullable */
  guint             failed;         /* the side of `failure` */
  gboolean          reported;       /* `failure` is a cancellation, whose error the caller gets */
};

/* gpu-transfer-cross-driver.c */
GpuCrossDriver *_gpu_cross_driver_new        (const GpuCrossDriverCopy *copy);
guint8   *_gpu_cross_driver_get_place        (GpuCrossDriver           *cross,
                                              guint                     chunk);
guint     _gpu_cross_driver_get_n_placed     (const GpuCrossDriver     *cross);
/* Returns whether host-signalled waits work in @context. */
gboolean  _gpu_cross_driver_has_host_waits   (GpuNativeContext         *context);
/* Signals all host-signalled waits of @side before @end, in order. */
void      _gpu_cross_driver_signal_locked    (GpuCrossDriver           *cross,
                                              guint                     side,
                                              guint                     end);
/* Records that @side has failed, and keeps only the first error. The copy is not aborted: the
 * host-signalled waits must still be signalled in order, so that no two commands use a place in
 * page-locked memory at the same time. Takes ownership of @failure, which is nullable. */
void      _gpu_cross_driver_fail_locked      (GpuCrossDriver           *cross,
                                              guint                     side,
                                              GError                   *failure);
/* Waits for @event without the lock. */
void      _gpu_cross_driver_wait_unlocked    (GpuCrossDriver           *cross,
                                              GpuNativeEvent           *event,
                                              GError                  **failure);
/* Returns at once for chunks that are never submitted. */
void      _gpu_cross_driver_wait_locked      (GpuCrossDriver           *cross,
                                              guint                     side,
                                              guint                     chunk);
gboolean  _gpu_cross_driver_enqueue_wait     (GpuCrossDriver           *cross,
                                              GpuNativeStream          *stream,
                                              guint                     side,
                                              guint                     i,
                                              GError                  **error);
gboolean  _gpu_cross_driver_submit_command   (GpuCrossDriver           *cross,
                                              GpuNativeStream          *stream,
                                              guint                     side,
                                              guint                     chunk,
                                              GError                  **error);
gboolean  _gpu_cross_driver_submit_first     (GpuCrossDriver           *cross,
                                              GpuNativeStream          *stream,
                                              GError                  **error);
/* No more commands follow. */
void      _gpu_cross_driver_end_submission   (GpuCrossDriver           *cross,
                                              gboolean                  whole,
                                              const GError             *failure);

G_END_DECLS
