/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Ops of the staging engine. gpu-backend.h has the rules for every op. */
#pragma once

#include "gpumem/backend/gpu-native-types.h"

G_BEGIN_DECLS

/* The sizes from which staging pays off for a GPU behind a link such as PCIe. The driver copies
 * smaller sizes about as fast as the staging engine does, but blocks the caller until earlier work
 * has completed, except for asynchronous writes that fit into the driver's own buffers. */
#define GPU_TRANSFER_MIN_WRITE       ((gsize) 8 * 1024 * 1024)
#define GPU_TRANSFER_MIN_READ        ((gsize) 2 * 1024 * 1024)
#define GPU_TRANSFER_MIN_ASYNC_WRITE ((gsize) 2 * 1024 * 1024)
#define GPU_TRANSFER_MIN_ASYNC_READ  ((gsize) 64 * 1024)

/* Requirements of the staging engine, in addition to GpuBufferOps.alloc_host(). */
typedef struct
{
  /* Whether the driver reads host memory during the call, instead of when it executes the copy,
   * unless the driver itself has page-locked that memory. For a copy that is ordered after a
   * host-signalled wait, a read during the call is too early. */
  gboolean          needs_page_locked;
  /* any thread. Gets the size from which copies of pageable memory should be staged: copies to the
   * device if @write is TRUE, otherwise copies from the device. Copies are staged if staging is
   * faster or, if @blocking is FALSE, if the driver would block the caller. Returns G_MAXSIZE to
   * never stage memory, and 0 if staging is not possible. */
  gsize             (*get_min_size)   (GpuNativeContext        *context,
                                       gboolean                 write,
                                       gboolean                 blocking);
  /* any thread, without locks, called before the first copy is staged. Returns whether
   * host-signalled waits work with this driver. The op tests this only once. If the op is NULL,
   * host-signalled waits work. */
  gboolean          (*has_host_waits) (GpuNativeContext        *context);
  /* any thread. Returns whether all @size bytes at @data are page-locked, so that the driver copies
   * them at full speed. FALSE if only some of them are. */
  gboolean          (*is_page_locked) (GpuNativeContext        *context,
                                       gconstpointer            data,
                                       gsize                    size);
  /* any thread. Creates an event for GpuStreamOps.wait() only. signal_host_wait() completes it, and
   * is always called before the last reference is dropped. */
  GpuNativeEvent *  (*create_host_wait) (GpuNativeContext        *context,
                                         GError                 **error);
  void              (*signal_host_wait) (GpuNativeEvent        *host_wait);
} GpuTransferOps;

G_END_DECLS
