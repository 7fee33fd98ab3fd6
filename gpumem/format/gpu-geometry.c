/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <gpumem/gpumem.h>

/**
 * SECTION:gpu-geometry
 * @title: Sizes and layouts
 * @short_description: regions of memory and grids of work-items
 *
 * #GpuExtent is a size in up to three dimensions. #GpuLayout is the position of a region in linear
 * memory or in an image. Both are plain structures, which a C program puts on its stack:
 *
 * |[<!-- language="C" -->
 * GpuExtent grid = { 1920, 1080, 1 };
 * ]|
 *
 * Languages without structures on the stack allocate them with gpu_extent_new() and
 * gpu_layout_new(), and free them with g_free(). A height or depth of 0 means an empty extent, not
 * a single row or slice.
 */

static GpuExtent *
copy_extent (GpuExtent *extent)
{
  return g_memdup2 (extent, sizeof *extent);
}

static GpuLayout *
copy_layout (GpuLayout *layout)
{
  return g_memdup2 (layout, sizeof *layout);
}

G_DEFINE_BOXED_TYPE (GpuExtent, gpu_extent, copy_extent, g_free)
G_DEFINE_BOXED_TYPE (GpuLayout, gpu_layout, copy_layout, g_free)

/**
 * gpu_extent_new:
 * @width: bytes of a row in linear memory, texels of a row of an image, or work-items along the
 *   first dimension
 * @height: number of rows, or work-items along the second dimension
 * @depth: number of slices, or work-items along the third dimension
 *
 * Creates a size.
 *
 * Returns: (transfer full): a new #GpuExtent
 *
 * Since: 0.1
 */
GpuExtent *
gpu_extent_new (gsize width,
                gsize height,
                gsize depth)
{
  GpuExtent *extent = g_new (GpuExtent, 1);

  extent->width = width;
  extent->height = height;
  extent->depth = depth;

  return extent;
}

/**
 * gpu_extent_equal:
 * @a: a #GpuExtent
 * @b: a #GpuExtent
 *
 * Compares two sizes.
 *
 * Returns: %TRUE if all three dimensions are equal
 *
 * Since: 0.1
 */
gboolean
gpu_extent_equal (const GpuExtent *a,
                  const GpuExtent *b)
{
  g_return_val_if_fail (a != NULL, FALSE);
  g_return_val_if_fail (b != NULL, FALSE);

  return a->width == b->width && a->height == b->height && a->depth == b->depth;
}

/**
 * gpu_layout_new:
 * @x: first byte within a row, or first texel in an image
 * @y: first row
 * @z: first slice
 * @row_pitch: bytes from one row to the next; 0 for rows without gaps
 * @slice_pitch: bytes from one slice to the next; 0 for slices without gaps
 *
 * Creates a layout.
 *
 * Returns: (transfer full): a new #GpuLayout
 *
 * Since: 0.1
 */
GpuLayout *
gpu_layout_new (gsize x,
                gsize y,
                gsize z,
                gsize row_pitch,
                gsize slice_pitch)
{
  GpuLayout *layout = g_new (GpuLayout, 1);

  layout->x = x;
  layout->y = y;
  layout->z = z;
  layout->row_pitch = row_pitch;
  layout->slice_pitch = slice_pitch;

  return layout;
}
