/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Regions of linear memory: rows and slices with pitches between them. */
#pragma once

#include "gpumem/backend/gpu-backend.h"

G_BEGIN_DECLS

/* Returns whether the extent has one dimension. */
static inline gboolean
_gpu_extent_is_line (const GpuExtent *extent)
{
  return extent->height == 1 && extent->depth == 1;
}

/* Sets @side to the position of a region of @extent with @layout, and @end to the first byte after
 * the region. If @layout is NULL, the region has rows without gaps and begins at the first byte.
 * Returns FALSE if the pitches are too small, or if @end would exceed a gsize. Does not check
 * whether the region lies within any memory. */
gboolean _gpu_region_resolve (const GpuLayout  *layout,
                              const GpuExtent  *extent,
                              const char       *function,
                              const char       *what,
                              GpuRegionSide    *side,
                              gsize            *end,
                              GError          **error);
/* Returns the offset of the first byte after a region, or the offset of the region if it is empty.
 * Does not check for overflow: the region must lie within memory. */
gsize    _gpu_region_get_end (const GpuRegionSide *side,
                              const GpuExtent     *extent);
gboolean _gpu_region_is_empty (const GpuExtent *extent);
/* Fails for the depth 0, which an initializer in C with fewer than three numbers sets. */
gboolean _gpu_region_check_depth (const GpuExtent  *extent,
                                  const char       *function,
                                  GError          **error);
/* Copies a region of host memory to @to, without the gaps between its rows. The width of @extent is
 * in bytes. */
void     _gpu_region_pack     (const GpuRegionSide *side,
                               const GpuExtent     *extent,
                               gpointer             to);

G_END_DECLS
