/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#if !defined (__GPUMEM_INSIDE__) && !defined (GPUMEM_COMPILATION)
#error "Only <gpumem/gpumem.h> can be included directly."
#endif

#include <gpumem/base/gpu-types.h>

G_BEGIN_DECLS

#define GPU_TYPE_DEVICE_MODEL (gpu_device_model_get_type ())

GPU_AVAILABLE_IN_0_1
G_DECLARE_FINAL_TYPE (GpuDeviceModel, gpu_device_model, GPU, DEVICE_MODEL, GObject)

GPU_AVAILABLE_IN_0_1
GpuDeviceModel *gpu_device_model_new (void);

G_END_DECLS
