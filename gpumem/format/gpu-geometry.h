/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#if !defined (__GPUMEM_INSIDE__) && !defined (GPUMEM_COMPILATION)
#error "Only <gpumem/gpumem.h> can be included directly."
#endif

#include <gpumem/base/gpu-types.h>

G_BEGIN_DECLS

/**
 * GpuExtent:
 * @width: bytes of a row in linear memory, texels of a row of an image, or work-items along the
 *   first dimension
 * @height: number of rows, or work-items along the second dimension; 1 for a single row
 * @depth: number of slices, or work-items along the third dimension; 1 for a single slice
 *
 * A size in up to three dimensions: of a region of memory, of an image, of a grid or of a block.
 *
 * Copies and fills of a region whose width or height is 0 do nothing. They refuse the depth 0 with
 * %GPU_ERROR_INVALID_ARGUMENT, because an initializer in C with fewer than three numbers, such as
 * `{ 640, 480 }`, sets it by mistake. A map refuses every empty region.
 *
 * Since: 0.1
 */
struct _GpuExtent
{
  gsize width;
  gsize height;
  gsize depth;
};

/**
 * GpuLayout:
 * @x: first byte within a row, or first texel in an image
 * @y: first row
 * @z: first slice
 * @row_pitch: bytes from one row to the next; 0 for rows without gaps, and for images, which have
 *   pitches of their own
 * @slice_pitch: bytes from one slice to the next; 0 for slices without gaps, and for images
 *
 * The position of a region: its origin and, in linear memory, its pitches.
 *
 * Since: 0.1
 */
struct _GpuLayout
{
  gsize x;
  gsize y;
  gsize z;
  gsize row_pitch;
  gsize slice_pitch;
};

#define GPU_TYPE_EXTENT (gpu_extent_get_type ())
#define GPU_TYPE_LAYOUT (gpu_layout_get_type ())

GPU_AVAILABLE_IN_0_1
GType      gpu_extent_get_type (void) G_GNUC_CONST;
GPU_AVAILABLE_IN_0_1
GpuExtent *gpu_extent_new      (gsize            width,
                                gsize            height,
                                gsize            depth);
GPU_AVAILABLE_IN_0_1
gboolean   gpu_extent_equal    (const GpuExtent *a,
                                const GpuExtent *b);

GPU_AVAILABLE_IN_0_1
GType      gpu_layout_get_type (void) G_GNUC_CONST;
GPU_AVAILABLE_IN_0_1
GpuLayout *gpu_layout_new      (gsize            x,
                                gsize            y,
                                gsize            z,
                                gsize            row_pitch,
                                gsize            slice_pitch);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (GpuExtent, g_free)
G_DEFINE_AUTOPTR_CLEANUP_FUNC (GpuLayout, g_free)

G_END_DECLS
