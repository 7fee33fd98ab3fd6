/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <string.h>

#include "gpumem/format/gpu-region-private.h"

static gboolean
add_product (gsize *sum,
             gsize  count,
             gsize  step)
{
  gsize product;

  return g_size_checked_mul (&product, count, step) && g_size_checked_add (sum, *sum, product);
}

static gboolean
fail_pitches (const GpuExtent  *extent,
              gsize             row_pitch,
              gsize             slice_pitch,
              const char       *function,
              const char       *what,
              GError          **error)
{
  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s: row pitch %" G_GSIZE_FORMAT " and slice pitch %" G_GSIZE_FORMAT " of the %s "
               "are too small for a region of %" G_GSIZE_FORMAT " bytes x %" G_GSIZE_FORMAT
               " rows x %" G_GSIZE_FORMAT " slices", function, row_pitch, slice_pitch, what,
               extent->width, extent->height, extent->depth);

  return FALSE;
}

/* The slice pitch that follows from the row pitch is too large for a number. */
static gboolean
fail_rows (const GpuExtent  *extent,
           gsize             row_pitch,
           const char       *function,
           const char       *what,
           GError          **error)
{
  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s: a region of %" G_GSIZE_FORMAT " bytes x %" G_GSIZE_FORMAT " rows x %"
               G_GSIZE_FORMAT " slices of the %s, row pitch %" G_GSIZE_FORMAT ", exceeds the "
               "address space", function, extent->width, extent->height, extent->depth, what,
               row_pitch);

  return FALSE;
}

static gboolean
fail_origin (const GpuExtent      *extent,
             const GpuLayout      *layout,
             const GpuRegionSide  *side,
             const char           *function,
             const char           *what,
             GError              **error)
{
  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s: a region of %" G_GSIZE_FORMAT " bytes x %" G_GSIZE_FORMAT " rows x %"
               G_GSIZE_FORMAT " slices at byte %" G_GSIZE_FORMAT ", row %" G_GSIZE_FORMAT
               ", slice %" G_GSIZE_FORMAT " of the %s, row pitch %" G_GSIZE_FORMAT
               ", slice pitch %" G_GSIZE_FORMAT ", exceeds the address space", function,
               extent->width, extent->height, extent->depth, layout->x, layout->y, layout->z,
               what, side->row_pitch, side->slice_pitch);

  return FALSE;
}

gboolean
_gpu_region_is_empty (const GpuExtent *extent)
{
  return extent->width == 0 || extent->height == 0 || extent->depth == 0;
}

gboolean
_gpu_region_check_depth (const GpuExtent  *extent,
                         const char       *function,
                         GError          **error)
{
  if (extent->depth != 0)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s: the depth of the extent %" G_GSIZE_FORMAT " x %" G_GSIZE_FORMAT " x 0 is 0; "
               "pass 1 for a single row or slice", function, extent->width, extent->height);

  return FALSE;
}

gsize
_gpu_region_get_end (const GpuRegionSide *side,
                     const GpuExtent     *extent)
{
  if (_gpu_region_is_empty (extent))
    return side->offset;

  return side->offset + (extent->depth - 1) * side->slice_pitch
         + (extent->height - 1) * side->row_pitch + extent->width;
}

void
_gpu_region_pack (const GpuRegionSide *side,
                  const GpuExtent     *extent,
                  gpointer             to)
{
  guint8 *row = to;

  for (gsize z = 0; z < extent->depth; z++)
    for (gsize y = 0; y < extent->height; y++, row += extent->width)
      memcpy (row, (const guint8 *) side->data + side->offset + z * side->slice_pitch
                   + y * side->row_pitch, extent->width);
}

gboolean
_gpu_region_resolve (const GpuLayout  *layout,
                     const GpuExtent  *extent,
                     const char       *function,
                     const char       *what,
                     GpuRegionSide    *side,
                     gsize            *end,
                     GError          **error)
{
  static const GpuLayout tight;
  gsize rows;

  if (layout == NULL)
    layout = &tight;

  side->row_pitch = layout->row_pitch != 0 ? layout->row_pitch : extent->width;
  side->slice_pitch = layout->slice_pitch;
  side->offset = layout->x;

  if (side->slice_pitch == 0
      && !g_size_checked_mul (&side->slice_pitch, side->row_pitch, MAX (extent->height, 1)))
    return fail_rows (extent, side->row_pitch, function, what, error);

  if (side->row_pitch < extent->width
      || !g_size_checked_mul (&rows, side->row_pitch, extent->height)
      || (extent->depth > 1 && side->slice_pitch < rows))
    return fail_pitches (extent, side->row_pitch, side->slice_pitch, function, what, error);

  if (!add_product (&side->offset, layout->y, side->row_pitch)
      || !add_product (&side->offset, layout->z, side->slice_pitch))
    return fail_origin (extent, layout, side, function, what, error);

  *end = side->offset;

  if (_gpu_region_is_empty (extent))
    return TRUE;

  if (!add_product (end, extent->depth - 1, side->slice_pitch)
      || !add_product (end, extent->height - 1, side->row_pitch)
      || !add_product (end, extent->width, 1))
    return fail_origin (extent, layout, side, function, what, error);

  return TRUE;
}
