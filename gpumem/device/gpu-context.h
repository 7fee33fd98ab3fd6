/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#if !defined (__GPUMEM_INSIDE__) && !defined (GPUMEM_COMPILATION)
#error "Only <gpumem/gpumem.h> can be included directly."
#endif

#include <gpumem/base/gpu-types.h>

G_BEGIN_DECLS

#define GPU_TYPE_CONTEXT (gpu_context_get_type ())

GPU_AVAILABLE_IN_0_1
G_DECLARE_FINAL_TYPE (GpuContext, gpu_context, GPU, CONTEXT, GObject)

GPU_AVAILABLE_IN_0_1
GpuContext *gpu_context_new                (GpuDevice            *device,
                                            GpuContextFlags       flags,
                                            GError              **error);
GPU_AVAILABLE_IN_0_1
GpuContext *gpu_context_new_for_devices    (GpuDevice           **devices,
                                            gsize                 n_devices,
                                            GError              **error);
GPU_AVAILABLE_IN_0_1
GpuContext *gpu_context_new_default        (GError              **error);
GPU_AVAILABLE_IN_0_1
GpuContext *gpu_context_new_wrapped        (GpuDevice            *device,
                                            guint64               handle,
                                            GpuWrapMode           mode,
                                            GError              **error);

GPU_AVAILABLE_IN_0_1
GpuDevice  *gpu_context_get_device         (GpuContext           *context);
GPU_AVAILABLE_IN_0_1
GList      *gpu_context_list_devices       (GpuContext           *context);
GPU_AVAILABLE_IN_0_1
GpuStream  *gpu_context_get_default_stream (GpuContext           *context);
GPU_AVAILABLE_IN_0_1
guint64     gpu_context_get_native_handle  (GpuContext           *context);
GPU_AVAILABLE_IN_0_1
const char *gpu_context_get_build_options  (GpuContext           *context);
GPU_AVAILABLE_IN_0_1
void        gpu_context_set_build_options  (GpuContext           *context,
                                            const char           *options);
GPU_AVAILABLE_IN_0_1
GpuFdKinds  gpu_context_get_export_kinds   (GpuContext           *context);
GPU_AVAILABLE_IN_0_1
GpuFdKinds  gpu_context_get_import_kinds   (GpuContext           *context);
GPU_AVAILABLE_IN_0_1
gboolean    gpu_context_get_memory_info    (GpuContext           *context,
                                            guint64              *free_size,
                                            guint64              *total_size,
                                            GpuMemoryInfoSource  *source,
                                            GError              **error);
GPU_AVAILABLE_IN_0_1
guint64     gpu_context_get_allocated_size (GpuContext           *context);
GPU_AVAILABLE_IN_0_1
guint64     gpu_context_get_host_allocated_size (GpuContext      *context);
GPU_AVAILABLE_IN_0_1
gboolean    gpu_context_get_limit          (GpuContext           *context,
                                            GpuLimit              limit,
                                            guint64              *value,
                                            GError              **error);
GPU_AVAILABLE_IN_0_1
gboolean    gpu_context_set_limit          (GpuContext           *context,
                                            GpuLimit              limit,
                                            guint64               value,
                                            GError              **error);
GPU_AVAILABLE_IN_0_1
GList      *gpu_context_list_image_formats (GpuContext           *context,
                                            GpuMemoryFlags        flags,
                                            GpuImageType          type,
                                            GError              **error);
GPU_AVAILABLE_IN_0_1
gboolean    gpu_context_get_max_image_extent (GpuContext         *context,
                                            GpuImageType          type,
                                            GpuExtent            *extent,
                                            GError              **error);
GPU_AVAILABLE_IN_0_1
gboolean    gpu_context_synchronize        (GpuContext           *context,
                                            GError              **error);
GPU_AVAILABLE_IN_0_1
gboolean    gpu_context_is_lost            (GpuContext           *context);

GPU_AVAILABLE_IN_0_1
gboolean    gpu_context_get_api_version    (GpuContext           *context,
                                            guint                *version,
                                            GError              **error);
GPU_AVAILABLE_IN_0_1
gboolean    gpu_context_get_cache_preference (GpuContext         *context,
                                            GpuCachePreference   *preference,
                                            GError              **error);
GPU_AVAILABLE_IN_0_1
gboolean    gpu_context_set_cache_preference (GpuContext         *context,
                                            GpuCachePreference    preference,
                                            GError              **error);
GPU_AVAILABLE_IN_0_1
gboolean    gpu_context_get_priority_range (GpuContext           *context,
                                            int                  *least,
                                            int                  *greatest,
                                            GError              **error);
GPU_AVAILABLE_IN_0_1
gboolean    gpu_context_push_current       (GpuContext           *context,
                                            GError              **error);
GPU_AVAILABLE_IN_0_1
gboolean    gpu_context_pop_current        (GpuContext           *context,
                                            GError              **error);
GPU_AVAILABLE_IN_0_1
GVariant   *gpu_context_get_address_attributes (GpuContext       *context,
                                            guint64               address,
                                            GError              **error);
GPU_AVAILABLE_IN_0_1
gboolean    gpu_context_enable_peer_access (GpuContext           *context,
                                            GpuContext           *peer,
                                            GError              **error);
GPU_AVAILABLE_IN_0_1
gboolean    gpu_context_disable_peer_access (GpuContext          *context,
                                            GpuContext           *peer,
                                            GError              **error);
GPU_AVAILABLE_IN_0_1
gboolean    gpu_context_start_profiler     (GpuContext           *context,
                                            GError              **error);
GPU_AVAILABLE_IN_0_1
gboolean    gpu_context_stop_profiler      (GpuContext           *context,
                                            GError              **error);

G_END_DECLS
