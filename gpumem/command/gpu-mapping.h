/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#if !defined (__GPUMEM_INSIDE__) && !defined (GPUMEM_COMPILATION)
#error "Only <gpumem/gpumem.h> can be included directly."
#endif

#include <gpumem/base/gpu-types.h>

G_BEGIN_DECLS

#define GPU_TYPE_MAPPING (gpu_mapping_get_type ())

GPU_AVAILABLE_IN_0_1
G_DECLARE_FINAL_TYPE (GpuMapping, gpu_mapping, GPU, MAPPING, GObject)

GPU_AVAILABLE_IN_0_1
gpointer     gpu_mapping_get_data        (GpuMapping  *mapping);
GPU_AVAILABLE_IN_0_1
guint64      gpu_mapping_get_address     (GpuMapping  *mapping);
GPU_AVAILABLE_IN_0_1
gsize        gpu_mapping_get_size        (GpuMapping  *mapping);
GPU_AVAILABLE_IN_0_1
void         gpu_mapping_get_extent      (GpuMapping  *mapping,
                                          GpuExtent   *extent);
GPU_AVAILABLE_IN_0_1
gsize        gpu_mapping_get_row_pitch   (GpuMapping  *mapping);
GPU_AVAILABLE_IN_0_1
gsize        gpu_mapping_get_slice_pitch (GpuMapping  *mapping);
GPU_AVAILABLE_IN_0_1
GBytes      *gpu_mapping_get_bytes       (GpuMapping  *mapping);
GPU_AVAILABLE_IN_0_1
GBytes      *gpu_mapping_read_bytes      (GpuMapping  *mapping,
                                          gsize        offset,
                                          gsize        size,
                                          GError     **error);
GPU_AVAILABLE_IN_0_1
gboolean     gpu_mapping_write_bytes     (GpuMapping  *mapping,
                                          gsize        offset,
                                          GBytes      *bytes,
                                          GError     **error);
GPU_AVAILABLE_IN_0_1
gboolean     gpu_mapping_unmap           (GpuMapping  *mapping,
                                          GError     **error);

G_END_DECLS
