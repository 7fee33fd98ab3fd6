/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#if !defined (__GPUMEM_INSIDE__) && !defined (GPUMEM_COMPILATION)
#error "Only <gpumem/gpumem.h> can be included directly."
#endif

#include <gpumem/base/gpu-types.h>

G_BEGIN_DECLS

#define GPU_TYPE_DEVICE (gpu_device_get_type ())

GPU_AVAILABLE_IN_0_1
G_DECLARE_FINAL_TYPE (GpuDevice, gpu_device, GPU, DEVICE, GObject)

GPU_AVAILABLE_IN_0_1
GList           *gpu_device_list                   (void);
GPU_AVAILABLE_IN_0_1
GpuDevice       *gpu_device_find                   (const char       *name,
                                                    GError          **error);
GPU_AVAILABLE_IN_0_1
GpuDevice       *gpu_device_get_default            (GError          **error);
GPU_AVAILABLE_IN_0_1
char           **gpu_device_list_backends          (void);
GPU_AVAILABLE_IN_0_1
gboolean         gpu_device_check_backend          (const char       *backend,
                                                    GError          **error);

GPU_AVAILABLE_IN_0_1
const char      *gpu_device_get_id                 (GpuDevice        *device);
GPU_AVAILABLE_IN_0_1
const char      *gpu_device_get_name               (GpuDevice        *device);
GPU_AVAILABLE_IN_0_1
const char      *gpu_device_get_backend            (GpuDevice        *device);
GPU_AVAILABLE_IN_0_1
const char      *gpu_device_get_driver_version     (GpuDevice        *device);
GPU_AVAILABLE_IN_0_1
GpuDeviceType    gpu_device_get_device_type        (GpuDevice        *device);
GPU_AVAILABLE_IN_0_1
GpuCapabilities  gpu_device_get_capabilities       (GpuDevice        *device);
GPU_AVAILABLE_IN_0_1
guint64          gpu_device_get_memory_size        (GpuDevice        *device);
GPU_AVAILABLE_IN_0_1
guint64          gpu_device_get_max_allocation     (GpuDevice        *device);
GPU_AVAILABLE_IN_0_1
gsize            gpu_device_get_base_alignment     (GpuDevice        *device);
GPU_AVAILABLE_IN_0_1
guint64          gpu_device_get_native_handle      (GpuDevice        *device);
GPU_AVAILABLE_IN_0_1
gboolean         gpu_device_check                  (GpuDevice        *device,
                                                    GError          **error);
GPU_AVAILABLE_IN_0_1
GVariant        *gpu_device_get_attributes         (GpuDevice        *device,
                                                    GError          **error);
GPU_AVAILABLE_IN_0_1
gboolean         gpu_device_can_access_peer        (GpuDevice        *device,
                                                    GpuDevice        *peer,
                                                    gboolean         *can_access,
                                                    GError          **error);
GPU_AVAILABLE_IN_0_1
GVariant        *gpu_device_get_peer_attributes    (GpuDevice        *device,
                                                    GpuDevice        *peer,
                                                    GError          **error);
GPU_AVAILABLE_IN_0_1
GVariant        *gpu_device_characterize           (GpuDevice        *device,
                                                    GError          **error);
GPU_AVAILABLE_IN_0_1
char            *gpu_device_explain_bank_conflicts (GpuDevice        *device,
                                                    gsize             item_size,
                                                    const gsize      *shape,
                                                    gsize             n_dimensions,
                                                    guint            *ways,
                                                    GError          **error);
GPU_AVAILABLE_IN_0_1
gboolean         gpu_device_equal                  (GpuDevice        *a,
                                                    GpuDevice        *b);
GPU_AVAILABLE_IN_0_1
guint            gpu_device_hash                   (GpuDevice        *device);

G_END_DECLS
