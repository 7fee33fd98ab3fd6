/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Managed memory: functions that implement GpuSvmOps. */
#pragma once

#include "gpumem/cuda/core/gpu-cuda.h"

G_BEGIN_DECLS

/* Caller has entered the context. */
GpuCudaBuffer *_gpu_cuda_managed_alloc  (GpuCudaContext    *context,
                                         gsize              size,
                                         gsize              alignment,
                                         GError           **error);
gboolean       _gpu_cuda_managed_attach (GpuNativeStream   *stream,
                                         GpuNativeBuffer   *buffer,
                                         GpuSvmAttachment   attachment,
                                         GpuNativeEvent   **event,
                                         GError           **error);
gboolean       _gpu_cuda_managed_advise (GpuNativeContext  *context,
                                         GpuNativeBuffer   *buffer,
                                         GpuMemoryAdvice    advice,
                                         gsize              offset,
                                         gsize              size,
                                         GpuNativeDevice   *device,
                                         GError           **error);

G_END_DECLS
