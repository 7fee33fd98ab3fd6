/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Wrappers of the ops of GpuVirtualOps that allocate and free physical memory. The wrappers count
 * the memory in GpuNativeContext.allocated or allocated_host. */
#pragma once

#include "gpumem/backend/gpu-backend.h"

G_BEGIN_DECLS

/* Returns FALSE with GPU_ERROR_NOT_SUPPORTED if the device does not support virtual memory, or if
 * @shareable is TRUE and the device cannot export physical memory. If the result is TRUE, the
 * caller may use context->backend->virtual_memory. */
gboolean        _gpu_virtual_check         (GpuNativeContext  *context,
                                            gboolean           shareable,
                                            GError           **error);
/* Creates a chunk of physical memory, which can be shared if @shared, the range that it will be
 * mapped to, is not NULL. The context counts the chunk until it is destroyed, even
 * while the chunk is not mapped to any addresses. */
GpuNativeChunk *_gpu_virtual_create_chunk  (GpuNativeContext  *context,
                                            gsize              size,
                                            GpuNativeBuffer   *shared,
                                            GError           **error);
/* Creates a chunk of page-locked memory of the host. The device has host chunks. */
GpuNativeChunk *_gpu_virtual_create_host_chunk (GpuNativeContext *context,
                                            gsize              size,
                                            GError           **error);
void            _gpu_virtual_destroy_chunk (GpuNativeContext  *context,
                                            GpuNativeChunk    *chunk);

G_END_DECLS
