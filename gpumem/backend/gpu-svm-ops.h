/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Shared virtual memory. gpu-backend.h has the rules for every op. */
#pragma once

#include "gpumem/backend/gpu-buffer-ops.h"

G_BEGIN_DECLS

typedef GpuNativeBuffer *GpuSvmAllocOp (GpuNativeContext *context,
                                        GpuMemoryFlags    flags,
                                        GpuSvmFlags       svm_flags,
                                        gsize             size,
                                        gsize             alignment,
                                        GError          **error);
typedef gboolean GpuSvmPrefetchOp (GpuNativeStream *stream,
                                   GpuNativeBuffer *buffer,
                                   GpuMigrateFlags  flags,
                                   gsize            offset,
                                   gsize            size,
                                   GpuNativeEvent **event,
                                   GError         **error);

/* Ops of shared virtual memory. Such memory is a GpuNativeBuffer, and all ops of buffers accept it.
 * GpuMemoryOps.get_address() returns its address, which host and device share. GpuNativeMemory.host
 * is set if the host may access the memory at any time. The public class has checked that the
 * device supports the requested flags. */
typedef struct
{
  /* Whether alloc() can exceed the device's max_allocation. */
  gboolean          is_unlimited;

  /* any thread. @alignment is a power of two, or 0 for any. */
  GpuSvmAllocOp *alloc;
  /* any thread; required if any device has GPU_CAPABILITIES_SVM_SYSTEM. Uses @data in place. @data
   * outlives the buffer. */
  GpuBufferAllocForHostOp *alloc_for_host;
  /* any thread; may be NULL: the public class then ignores advice. @device is a device of the same
   * back end, or NULL for the host. */
  gboolean          (*advise)         (GpuNativeContext        *context,
                                       GpuNativeBuffer         *buffer,
                                       GpuMemoryAdvice          advice,
                                       gsize                    offset,
                                       gsize                    size,
                                       GpuNativeDevice         *device,
                                       GError                 **error);

  /* All ops below are stream ops. Each may be NULL if the driver needs no call for its purpose. */

  /* From this point of the stream on, only @attachment (@stream, all streams, or the host) may
   * access the memory. */
  gboolean          (*attach)         (GpuNativeStream         *stream,
                                       GpuNativeBuffer         *buffer,
                                       GpuSvmAttachment         attachment,
                                       GpuNativeEvent         **event,
                                       GError                 **error);
  GpuSvmPrefetchOp *prefetch;
} GpuSvmOps;

G_END_DECLS
