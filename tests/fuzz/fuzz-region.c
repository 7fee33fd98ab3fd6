/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Compares the library's checks of regions with arithmetic that cannot overflow. */
#include "config.h"

#include "gpumem/format/gpu-region-private.h"
#include "tests/fuzz/fuzz.h"

/* Saturating arithmetic in 128 bits. */
__extension__ typedef unsigned __int128 Big;

#define MOST ((Big) 1 << 126)

static Big
multiply (Big a,
          Big b)
{
  return a != 0 && b > MOST / a ? MOST : a * b;
}

static Big
add (Big a,
     Big b)
{
  return MIN (a + b, MOST);
}

static void
check (const GpuLayout     *layout,
       const GpuExtent     *extent,
       const GpuRegionSide *side,
       gsize                end)
{
  gboolean is_empty = extent->width == 0 || extent->height == 0 || extent->depth == 0;
  Big row = layout->row_pitch != 0 ? layout->row_pitch : extent->width;
  Big slice = layout->slice_pitch != 0 ? layout->slice_pitch
                                       : multiply (row, MAX (extent->height, 1));
  Big offset = add (layout->x, add (multiply (layout->y, row), multiply (layout->z, slice)));
  Big last = offset;

  if (!is_empty)
    last = add (offset, add (extent->width, add (multiply (extent->height - 1, row),
                                                 multiply (extent->depth - 1, slice))));

  FUZZ_REQUIRE (_gpu_region_is_empty (extent) == is_empty);
  FUZZ_REQUIRE (side->row_pitch == row && side->slice_pitch == slice);
  FUZZ_REQUIRE (side->offset == offset && end == last);
  FUZZ_REQUIRE (_gpu_region_get_end (side, extent) == end);
  FUZZ_REQUIRE (row >= extent->width);
}

static void
run (const guint8 *data,
     gsize         size)
{
  FuzzInput input = { data, size };

  while (input.size > 0)
    {
      g_autoptr (GError) error = NULL;
      GpuExtent extent;
      GpuLayout layout;
      GpuRegionSide side;
      gsize end = 0;
      gboolean is_resolved;

      extent.width = fuzz_take_size (&input);
      extent.height = fuzz_take_size (&input);
      extent.depth = fuzz_take_size (&input);
      layout.row_pitch = fuzz_take_size (&input);
      layout.slice_pitch = fuzz_take_size (&input);
      layout.x = fuzz_take_size (&input);
      layout.y = fuzz_take_size (&input);
      layout.z = fuzz_take_size (&input);

      is_resolved = _gpu_region_resolve (&layout, &extent, "f", "buffer", &side, &end, &error);
      FUZZ_REQUIRE (is_resolved == (error == NULL));
      if (is_resolved)
        check (&layout, &extent, &side, end);
    }
}

static void
add_seeds (GPtrArray *seeds)
{
  fuzz_add_random (seeds, 8, 24);
  fuzz_add_random (seeds, 8, 120);
}

const FuzzTarget fuzz_region = { "region", run, add_seeds, FALSE };
