/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <math.h>
#include <string.h>

#include "tools/gpumem-picture.h"

#define BAR      4      /* pixels of one of the 256 steps */
#define PANEL    320    /* pixels of a panel's height */
#define GAP      24
#define LEFT     96     /* room for the labels of the vertical axis */
#define TITLE    34     /* room above a panel */
#define FOOT     34     /* room below a panel */
#define WIDTH    (LEFT + 256 * BAR + 2 * GAP)
#define HEIGHT   (2 * (TITLE + PANEL + FOOT) + GAP)

#define BACKGROUND GPUMEM_PIXEL (18, 20, 26, 255)
#define INK        GPUMEM_PIXEL (190, 196, 206, 255)
#define GRID       44   /* brightness */

/* Letters of 3 x 5 pixels. Each octal digit is a row, the first row first. */
#define DOT   3         /* pixels of the picture for each pixel of a letter */
#define PITCH (4 * DOT)

static const guint16 digits[] = {
  075557, 026227, 071747, 071717, 055711, 074717, 074757, 071111, 075757, 075717
};
static const guint16 letters[] = {
  025755, 065656, 034443, 065556, 074647, 074644, 034553, 055755, 072227, 011152, 055655, 044447,
  057755, 065555, 025552, 065644, 025573, 065655, 034216, 072222, 055557, 055552, 055775, 055255,
  055222, 071247
};

static guint16
get_glyph (char c)
{
  if (g_ascii_isdigit (c))
    return digits[c - '0'];
  return g_ascii_isalpha (c) ? letters[g_ascii_toupper (c) - 'A'] : 0;
}

static void
draw_text (guint32    *pixels,
           guint       x,
           guint       y,
           const char *text)
{
  for (; *text != '\0'; text++, x += PITCH)
    for (guint row = 0; row < 5 * DOT; row++)
      for (guint column = 0; column < 3 * DOT; column++)
        if (get_glyph (*text) >> (14 - 3 * (row / DOT) - column / DOT) & 1)
          pixels[(gsize) (y + row) * WIDTH + x + column] = INK;
}

/* Converts the counts of one channel to heights. The heights are proportional to the square roots
 * of the counts, so that small counts are visible. */
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

/* Draws the curves of red, green and blue. Where curves overlap, adds their colours. */
static void
draw_panel (guint32       *pixels,
            const guint32 *counts,
            double         highest)
{
  guint heights[3][256];

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

static char *
format_count (double count)
{
  if (count >= 1e6)
    return g_strdup_printf ("%.0fM", count / 1e6);
  return count >= 1e4 ? g_strdup_printf ("%.0fK", count / 1e3) : g_strdup_printf ("%.0f", count);
}

/* Draws the grid with labels. The vertical scale shows square roots of counts. */
static void
draw_axes (guint32 *pixels,
           guint    top,
           double   highest)
{
  for (guint i = 0; i <= 4; i++)
    {
      g_autofree char *text = format_count (highest * (4 - i) * (4 - i) / 16);

      draw_text (pixels, LEFT - 8 - PITCH * strlen (text), top + i * PANEL / 4 - (i > 0 ? 8 : 0),
                 text);
    }
  for (guint i = 0; i <= 8; i++)
    {
      g_autofree char *text = g_strdup_printf ("%u", MIN (32 * i, 255));

      draw_text (pixels, LEFT + 32 * BAR * i - PITCH * strlen (text) / 2, top + PANEL + 8, text);
    }
}

/* Draws two histograms, one above the other. Each has 256 counts for each of red, green and
 * blue. */
GpumemPicture *
gpumem_picture_histogram (const guint32 *before,
                          const guint32 *after)
{
  static const char *const titles[] = {
    "pixels by brightness of red  green and blue  before the blur",
    "pixels by brightness of red  green and blue  after the blur"
  };
  const guint32 *const counts[] = { before, after };
  gsize size = (gsize) WIDTH * HEIGHT * sizeof (guint32);
  guint32 *pixels = g_malloc (size);

  for (gsize i = 0; i < (gsize) WIDTH * HEIGHT; i++)
    pixels[i] = BACKGROUND;
  for (guint i = 0; i < G_N_ELEMENTS (counts); i++)
    {
      const guint top = TITLE + i * (TITLE + PANEL + FOOT);
      const double highest = find_highest (counts[i]);

      draw_text (pixels, LEFT, top - TITLE / 2 - 5, titles[i]);
      draw_panel (pixels + (gsize) top * WIDTH + LEFT, counts[i], highest);
      draw_axes (pixels, top, highest);
    }
  return gpumem_picture_new (WIDTH, HEIGHT, g_bytes_new_take (pixels, size));
}
