/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Memory and addresses apart, GpuVirtualOps, for those that count what a context holds. */
#pragma once

#include "gpumem/backend/gpu-backend.h"

G_BEGIN_DECLS

/* FALSE with GPU_ERROR_NOT_SUPPORTED where the device cannot, for @shareable pieces unless it can
 * pass them on. What can is asked through context->backend->virtual_memory. */
gboolean        _gpu_virtual_check         (GpuNativeContext  *context,
                                            gboolean           shareable,
                                            GError           **error);
/* A piece is memory that the context holds from here until it is destroyed, mapped or not. */
GpuNativeChunk *_gpu_virtual_create_chunk  (GpuNativeContext  *context,
                                            gsize              size,
                                            gboolean           shareable,
                                            GError           **error);
void            _gpu_virtual_destroy_chunk (GpuNativeContext  *context,
                                            GpuNativeChunk    *chunk);

G_END_DECLS
