/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Regions of linear memory: rows and slices with pitches between them. */
#pragma once

#include "gpumem/backend/gpu-backend.h"

G_BEGIN_DECLS

/* Resolves @layout, NULL for tight rows from the first byte on, for a region of @extent into
 * @side, with @end the first byte after the region. FALSE if the pitches are too small, or the
 * region is larger than a gsize; nothing is compared with the size of any memory. */
gboolean _gpu_region_resolve (const GpuLayout  *layout,
                              const GpuExtent  *extent,
                              const char       *function,
                              const char       *what,
                              GpuRegionSide    *side,
                              gsize            *end,
                              GError          **error);
/* The first byte after a region that is known to be within memory, and is not empty. */
gsize    _gpu_region_get_end (const GpuRegionSide *side,
                              const GpuExtent     *extent);
gboolean _gpu_region_is_empty (const GpuExtent *extent);

G_END_DECLS
