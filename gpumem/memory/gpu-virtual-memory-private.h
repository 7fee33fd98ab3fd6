/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* GpuVirtualOps (physical memory and addresses, separately) with accounting in the context. */
#pragma once

#include "gpumem/backend/gpu-backend.h"

G_BEGIN_DECLS

/* FALSE with GPU_ERROR_NOT_SUPPORTED if the device lacks virtual memory or, if @shareable, chunks
 * that can be exported. If TRUE, use context->backend->virtual_memory. */
gboolean        _gpu_virtual_check         (GpuNativeContext  *context,
                                            gboolean           shareable,
                                            GError           **error);
/* The context counts a chunk from its creation until it is destroyed, mapped or not. */
GpuNativeChunk *_gpu_virtual_create_chunk  (GpuNativeContext  *context,
                                            gsize              size,
                                            gboolean           shareable,
                                            GError           **error);
void            _gpu_virtual_destroy_chunk (GpuNativeContext  *context,
                                            GpuNativeChunk    *chunk);

G_END_DECLS
