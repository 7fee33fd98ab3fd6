/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <math.h>

#include "tools/gpumem-picture.h"

/* The default picture of the tour: an evening at a lake, under a ringed planet. The frame measures
 * 3 by 2 units. */
#define SHORE   1.52f       /* where the lake begins */
#define N_HILLS 4

typedef struct
{
  float red;
  float green;
  float blue;
} Colour;

typedef struct
{
  float   unit;             /* pixels */
  guint   width;            /* pixels */
  float  *hills[N_HILLS];   /* height of the crest in each column */
} Scene;

static Colour
mix (Colour a,
     Colour b,
     float  t)
{
  t = CLAMP (t, 0, 1);
  return (Colour) { a.red + (b.red - a.red) * t, a.green + (b.green - a.green) * t,
                    a.blue + (b.blue - a.blue) * t };
}

/* Returns the coverage, from 0 to 1, of a pixel whose center is @distance units outside an edge. */
static float
cover (const Scene *scene,
       float        distance)
{
  return CLAMP (0.5f - distance * scene->unit, 0, 1);
}

static Colour
draw_sky (float y)
{
  static const Colour stops[] = {
    { 13, 16, 48 }, { 48, 34, 98 }, { 142, 62, 118 }, { 240, 118, 92 }, { 255, 208, 128 }
  };
  float t = CLAMP (y / SHORE, 0, 1) * (G_N_ELEMENTS (stops) - 1);
  guint i = MIN ((guint) t, G_N_ELEMENTS (stops) - 2);

  return mix (stops[i], stops[i + 1], t - i);
}

/* Divides the sky into cells. Some cells contain one star, at a pseudo-random position. */
static float
star_light (const Scene *scene,
            float        x,
            float        y)
{
  const float cell = 0.055f;
  guint column = x / cell;
  guint row = y / cell;
  guint32 hash = (column * 73856093u) ^ (row * 19349663u);
  float star_x, star_y, distance;

  hash = (hash ^ (hash >> 13)) * 1274126177u;
  if (hash % 5 != 0)
    return 0;
  star_x = (column + 0.1f + 0.8f * (hash >> 8 & 255) / 255) * cell;
  star_y = (row + 0.1f + 0.8f * (hash >> 16 & 255) / 255) * cell;
  distance = hypotf (x - star_x, y - star_y) - 0.0012f - 0.0018f * (hash >> 24) / 255;
  return cover (scene, distance) * CLAMP (1 - y / 0.95f, 0, 1);
}

static Colour
draw_sun (const Scene *scene,
          Colour       colour,
          float        x,
          float        y)
{
  float distance = hypotf (x - 2.05f, y - 1.02f) - 0.17f;

  colour = mix (colour, (Colour) { 255, 196, 120 }, 0.75f * expf (-MAX (distance, 0) * 5));
  return mix (colour, (Colour) { 255, 244, 214 }, cover (scene, distance));
}

/* The rings are tilted ellipses around the planet, which hides their back half. */
static Colour
draw_rings (const Scene *scene,
            Colour       colour,
            float        x,
            float        y,
            gboolean     front)
{
  float along = x * 0.927f - y * 0.375f;
  float across = (x * 0.375f + y * 0.927f) * 3.6f;
  float radius = hypotf (along, across);
  float bands = 0.62f + 0.38f * sinf (radius * 150);
  float light = cover (scene, 0.36f - radius) * cover (scene, radius - 0.52f) *
                (1 - cover (scene, fabsf (radius - 0.455f) - 0.008f));

  if ((across > 0) != front)
    return colour;
  return mix (colour, (Colour) { 244, 214, 186 }, 0.85f * bands * light);
}

static Colour
draw_planet (const Scene *scene,
             Colour       colour,
             float        x,
             float        y)
{
  const float size = 0.27f;
  float radius = hypotf (x, y);
  float stripe = sinf ((y * 0.927f + x * 0.375f) * 46 + 1.5f * sinf (x * 9));
  float light = CLAMP (0.62f + (x * 0.66f + y * 0.5f) / size * 0.5f, 0.08f, 1);
  Colour ball = mix ((Colour) { 88, 142, 196 }, (Colour) { 150, 198, 214 }, 0.5f + 0.5f * stripe);

  colour = draw_rings (scene, colour, x, y, FALSE);
  ball = mix ((Colour) { 14, 18, 44 }, ball, light);
  colour = mix (colour, ball, cover (scene, radius - size));
  return draw_rings (scene, colour, x, y, TRUE);
}

static Colour
draw_hills (const Scene *scene,
            Colour       colour,
            guint        column,
            float        y)
{
  static const Colour crests[N_HILLS] = {
    { 178, 92, 118 }, { 116, 62, 104 }, { 64, 44, 84 }, { 26, 30, 52 }
  };
  static const Colour valleys[N_HILLS] = {
    { 250, 162, 120 }, { 176, 92, 112 }, { 92, 60, 96 }, { 18, 40, 52 }
  };

  for (guint i = 0; i < N_HILLS; i++)
    {
      float distance = scene->hills[i][column] - y;
      Colour hill = mix (crests[i], valleys[i], -distance / 0.42f);

      colour = mix (colour, hill, cover (scene, distance));
    }
  return colour;
}

static Colour
draw_above_shore (const Scene *scene,
                  guint        column,
                  float        y)
{
  float x = column / scene->unit;
  Colour colour = draw_sky (y);

  colour = mix (colour, (Colour) { 255, 250, 236 }, star_light (scene, x, y));
  colour = draw_sun (scene, colour, x, y);
  if (hypotf (x - 0.74f, y - 0.5f) < 0.55f)
    colour = draw_planet (scene, colour, x - 0.74f, y - 0.5f);
  return draw_hills (scene, colour, column, y);
}

/* The lake mirrors the scene above the shore, with ripples that grow towards the viewer. */
static Colour
draw_point (const Scene *scene,
            guint        column,
            float        y)
{
  float x = column / scene->unit;
  float depth = y - SHORE;
  float wave, sway;
  int mirrored;
  Colour colour;

  if (depth < 0)
    return draw_above_shore (scene, column, y);
  wave = sinf (64 * sqrtf (depth + 0.02f) * (1 + 0.5f * depth) + 0.8f * sinf (x * 5));
  sway = wave * depth * 0.09f;
  mirrored = CLAMP ((int) (column + sway * scene->unit), 0, (int) scene->width - 1);
  colour = draw_above_shore (scene, mirrored, MAX (SHORE - depth * 2.1f + sway * 0.6f, 0));
  colour = mix (colour, (Colour) { 20, 34, 66 }, 0.28f + 0.6f * depth + 0.10f * wave);
  return mix (colour, (Colour) { 255, 220, 168 }, 0.5f * expf (-depth * 120));
}

/* Computes the crests of the hills as sums of sine waves. */
static void
grow_hills (Scene *scene)
{
  static const float base[N_HILLS] = { 1.10f, 1.24f, 1.36f, 1.47f };
  static const float height[N_HILLS] = { 0.15f, 0.11f, 0.08f, 0.05f };

  for (guint i = 0; i < N_HILLS; i++)
    {
      scene->hills[i] = g_new (float, scene->width);
      for (guint column = 0; column < scene->width; column++)
        {
          float x = column / scene->unit * (1 + 0.45f * i) + 2.3f * i;
          float crest = sinf (x * 1.9f) + 0.55f * sinf (x * 4.3f + 1) + 0.22f * sinf (x * 10.7f) +
                        0.10f * sinf (x * 23.9f + 2) + 0.05f * fabsf (sinf (x * 61.3f));

          scene->hills[i][column] = base[i] - height[i] * crest;
        }
    }
}

GpumemPicture *
gpumem_picture_landscape (guint width,
                          guint height)
{
  Scene scene = { .unit = MIN (width / 3.0f, height / 2.0f), .width = width };
  gsize size = (gsize) width * height * sizeof (guint32);
  guint32 *pixels = g_malloc (size);

  grow_hills (&scene);
  for (guint y = 0; y < height; y++)
    for (guint x = 0; x < width; x++)
      {
        Colour colour = draw_point (&scene, x, (y + 0.5f) / scene.unit);

        pixels[(gsize) y * width + x] =
          GPUMEM_PIXEL (CLAMP (colour.red, 0, 255), CLAMP (colour.green, 0, 255),
                        CLAMP (colour.blue, 0, 255), 255);
      }
  for (guint i = 0; i < N_HILLS; i++)
    g_free (scene.hills[i]);
  return gpumem_picture_new (width, height, g_bytes_new_take (pixels, size));
}
