/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Ops of the staging engine. gpu-backend.h has the rules for every op. */
#pragma once

#include "gpumem/backend/gpu-native-types.h"

G_BEGIN_DECLS

/* The sizes from which staging pays off for a GPU behind a link such as PCIe. Below these sizes,
 * the driver copies about as fast as the staging engine. But the driver blocks the caller until
 * earlier work has completed, unless the copy is an asynchronous write that fits into the driver's
 * own buffers. */
#define GPU_TRANSFER_MIN             ((gsize) 4 * 1024 * 1024)
#define GPU_TRANSFER_MIN_ASYNC_WRITE ((gsize) 2 * 1024 * 1024)
#define GPU_TRANSFER_MIN_ASYNC_READ  ((gsize) 64 * 1024)

/* Requirements of the staging engine, in addition to GpuBufferOps.alloc_host(). */
typedef struct
{
  /* Whether copies that are ordered after a host-signalled wait require host memory that the driver
   * has page-locked. The driver then reads any other host memory during the call that enqueues the
   * copy, which is too early. */
  gboolean          needs_page_locked;
  /* any thread. Gets the size from which copies of pageable memory should be staged: copies to the
   * device if @write is TRUE, otherwise copies from the device. Copies should be staged if staging
   * is faster. If @blocking is FALSE, they should also be staged if the driver would block the
   * caller. Returns G_MAXSIZE if no copy should be staged, and 0 if staging is not possible. */
  gsize             (*get_min_size)   (GpuNativeContext        *context,
                                       gboolean                 write,
                                       gboolean                 blocking);
  /* any thread, without locks. Called before the first copy is staged. Returns whether
   * host-signalled waits work with this driver. The op tests the driver only once. If the op is
   * NULL, host-signalled waits work. */
  gboolean          (*has_host_waits) (GpuNativeContext        *context);
  /* any thread. Returns whether all @size bytes at @data are page-locked, so that the driver copies
   * them at full speed. FALSE if only some of them are. */
  gboolean          (*is_page_locked) (GpuNativeContext        *context,
                                       gconstpointer            data,
                                       gsize                    size);
  /* any thread. Creates an event that is used only with GpuStreamOps.wait(). signal_host_wait()
   * completes the event, and is always called before the last reference to the event is dropped. */
  GpuNativeEvent *  (*create_host_wait) (GpuNativeContext        *context,
                                         GError                 **error);
  void              (*signal_host_wait) (GpuNativeEvent        *host_wait);
} GpuTransferOps;

G_END_DECLS
