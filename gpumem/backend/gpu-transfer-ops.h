/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Ops of the staging engine. gpu-backend.h has the rules for every op. */
#pragma once

#include "gpumem/backend/gpu-native-types.h"

G_BEGIN_DECLS

/* From how many bytes on it is worth it for a GPU at the end of a link: less is copied about as
 * fast by the driver, which holds up the caller until the work before is over, but with writes that
 * its own buffers have room for. */
#define GPU_TRANSFER_MIN_WRITE       ((gsize) 8 * 1024 * 1024)
#define GPU_TRANSFER_MIN_READ        ((gsize) 2 * 1024 * 1024)
#define GPU_TRANSFER_MIN_ASYNC_WRITE ((gsize) 2 * 1024 * 1024)
#define GPU_TRANSFER_MIN_ASYNC_READ  ((gsize) 64 * 1024)

/* What the staging engine needs, beside GpuBufferOps.alloc_host(). */
typedef struct
{
  /* Whether the driver reads memory of the host that it has not page-locked itself while the call
   * is made, and not when it is the turn of the copy: behind such a wait that is too early. */
  gboolean          needs_page_locked;
  /* any thread. From how many bytes on ordinary memory of the host had better go by way of
   * page-locked memory, to the device if @write: because it is faster, or, unless @blocking,
   * because the driver would hold up the caller. G_MAXSIZE if it never had, 0 if there is no way to
   * do so. */
  gsize             (*get_min_size)   (GpuNativeContext        *context,
                                       gboolean                 write,
                                       gboolean                 blocking);
  /* any thread, without locks, before the first copy is staged; nullable: they do. Whether waits
   * work: the driver is asked once. */
  gboolean          (*has_host_waits) (GpuNativeContext        *context);
  /* any thread. Whether the @size bytes at @data are no ordinary memory: the driver copies them at
   * full speed as they are. FALSE if that is only so for some of them. */
  gboolean          (*is_page_locked) (GpuNativeContext        *context,
                                       gconstpointer            data,
                                       gsize                    size);
  /* any thread. An event for GpuStreamOps.wait() alone that signal_host_wait() completes, which is
   * called before the last reference goes. */
  GpuNativeEvent *  (*create_host_wait) (GpuNativeContext        *context,
                                         GError                 **error);
  void              (*signal_host_wait) (GpuNativeEvent        *host_wait);
} GpuTransferOps;

G_END_DECLS
