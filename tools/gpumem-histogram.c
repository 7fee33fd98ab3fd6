/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <math.h>

#include "tools/gpumem-picture.h"

#define BAR      4      /* pixels of one of the 256 steps */
#define PANEL    320    /* pixels of a panel's height */
#define MARGIN   24
#define WIDTH    (256 * BAR + 2 * MARGIN)
#define HEIGHT   (2 * PANEL + 3 * MARGIN)

#define BACKGROUND GPUMEM_PIXEL (18, 20, 26, 255)
#define GRID       44   /* brightness */

/* Counts of one channel as heights, on a scale of square roots so that small counts show. */
static void
scale_counts (const guint32 *counts,
              guint          heights[256],
              double         highest)
{
  for (guint i = 0; i < 256; i++)
    heights[i] = MIN (PANEL, (guint) (sqrt (counts[i] / highest) * PANEL));
}

static double
find_highest (const guint32 *counts)
{
  guint32 highest = 1;

  for (guint i = 0; i < 3 * 256; i++)
    highest = MAX (highest, counts[i]);
  return highest;
}

/* Red, green and blue add up where their curves overlap. */
static void
draw_panel (guint32       *pixels,
            const guint32 *counts)
{
  guint heights[3][256];
  double highest = find_highest (counts);

  for (guint i = 0; i < 3; i++)
    scale_counts (counts + 256 * i, heights[i], highest);
  for (guint y = 0; y < PANEL; y++)
    for (guint x = 0; x < 256 * BAR; x++)
      {
        guint light[3];
        guint dark = y % (PANEL / 4) == 0 || x % (32 * BAR) == 0 ? GRID : 28;

        for (guint i = 0; i < 3; i++)
          light[i] = PANEL - y <= heights[i][x / BAR] ? 214 : dark;
        pixels[(gsize) y * WIDTH + x] = GPUMEM_PIXEL (light[0], light[1], light[2], 255);
      }
}

/* Draws two histograms of 256 counts for each of red, green and blue, one above the other. */
GpumemPicture *
gpumem_picture_histogram (const guint32 *before,
                          const guint32 *after)
{
  gsize size = (gsize) WIDTH * HEIGHT * sizeof (guint32);
  guint32 *pixels = g_malloc (size);

  for (gsize i = 0; i < (gsize) WIDTH * HEIGHT; i++)
    pixels[i] = BACKGROUND;
  draw_panel (pixels + MARGIN * WIDTH + MARGIN, before);
  draw_panel (pixels + (PANEL + 2 * MARGIN) * WIDTH + MARGIN, after);
  return gpumem_picture_new (WIDTH, HEIGHT, g_bytes_new_take (pixels, size));
}
