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

/* Shared virtual memory. It is a buffer, and the ops of buffers take it. GpuMemoryOps.get_address()
 * tells where it is, for host and device alike, and GpuNativeMemory.host is set where the host may
 * touch it at any time. The capabilities for what is asked for were checked. */
typedef struct
{
  /* Whether alloc() gives more than the device's max_allocation. */
  gboolean          is_unlimited;

  /* any thread. @alignment is a power of two, or 0 for any. */
  GpuSvmAllocOp *alloc;
  /* any thread; where GPU_CAPABILITIES_SVM_SYSTEM is. Uses @data in place; it outlives the
   * memory. */
  GpuBufferAllocForHostOp *alloc_for_host;
  /* any thread; may be NULL: advice is then lost. @device, of the same back end, is NULL for the
   * host. */
  gboolean          (*advise)         (GpuNativeContext        *context,
                                       GpuNativeBuffer         *buffer,
                                       GpuMemoryAdvice          advice,
                                       gsize                    offset,
                                       gsize                    size,
                                       GpuNativeDevice         *device,
                                       GError                 **error);

  /* The rest are stream ops, and may be NULL where there is nothing to do. */

  /* From this point of the stream on @attachment may use the memory, and nobody else. */
  gboolean          (*attach)         (GpuNativeStream         *stream,
                                       GpuNativeBuffer         *buffer,
                                       GpuSvmAttachment         attachment,
                                       GpuNativeEvent         **event,
                                       GError                 **error);
  GpuSvmPrefetchOp *prefetch;
} GpuSvmOps;

G_END_DECLS
