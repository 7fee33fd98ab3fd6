/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/gpumem-tour.h"

#define BAND 32         /* rows between two checks of the cancellable */
#define ONE  65536      /* the sum of the weights */

typedef struct
{
  const GpumemPicture  *picture;
  GpumemProgress       *progress;
  GCancellable         *cancellable;
  GError              **error;
} Work;

/* Reports the progress of @pass, one of five passes. Returns FALSE if the tour was cancelled. */
static gboolean
go_on (Work *work,
       guint pass,
       guint row)
{
  if (row % BAND != 0)
    return TRUE;
  gpumem_progress_part (work->progress, (pass + (double) row / work->picture->height) / 5);
  return !g_cancellable_set_error_if_cancelled (work->cancellable, work->error);
}

static void
compute_weights (guint32 weights[GPUMEM_N_WEIGHTS])
{
  double bell[GPUMEM_N_WEIGHTS];
  double sum = 0;
  guint32 rest = ONE;

  for (int i = 0; i < GPUMEM_N_WEIGHTS; i++)
    {
      double x = (i - GPUMEM_BLUR_RADIUS) / (GPUMEM_BLUR_RADIUS / 2.5);

      bell[i] = exp (-x * x / 2);
      sum += bell[i];
    }
  for (int i = 0; i < GPUMEM_N_WEIGHTS; i++)
    {
      weights[i] = floor (bell[i] / sum * ONE);
      rest -= weights[i];
    }
  weights[GPUMEM_BLUR_RADIUS] += rest;
}

/* Adds the bytes, multiplied by the weight, to the sums. The blur treats the four bytes of a pixel
 * in the same way, so their order does not matter. */
static void
add_weighted (guint32      *sums,
              const guint8 *bytes,
              gsize         n_bytes,
              guint32       weight)
{
  for (gsize i = 0; i < n_bytes; i++)
    sums[i] += weight * bytes[i];
}

static void
store_sums (guint8        *bytes,
            guint32       *sums,
            gsize          n_bytes)
{
  for (gsize i = 0; i < n_bytes; i++)
    {
      bytes[i] = (sums[i] + ONE / 2) / ONE;
      sums[i] = 0;
    }
}

static gboolean
blur_rows (Work                  *work,
           const GpumemReference *reference,
           const guint32         *from,
           guint32               *to)
{
  gsize width = work->picture->width;
  g_autofree guint32 *row = g_new (guint32, width + 2 * GPUMEM_BLUR_RADIUS);
  g_autofree guint32 *sums = g_new0 (guint32, 4 * width);

  for (guint y = 0; y < work->picture->height; y++, from += width, to += width)
    {
      if (!go_on (work, 0, y))
        return FALSE;
      memcpy (row + GPUMEM_BLUR_RADIUS, from, width * sizeof (guint32));
      for (guint i = 0; i < GPUMEM_BLUR_RADIUS; i++)
        {
          row[i] = from[0];
          row[GPUMEM_BLUR_RADIUS + width + i] = from[width - 1];
        }
      for (guint i = 0; i < GPUMEM_N_WEIGHTS; i++)
        add_weighted (sums, (const guint8 *) (row + i), 4 * width, reference->weights[i]);
      store_sums ((guint8 *) to, sums, 4 * width);
    }
  return TRUE;
}

static gboolean
blur_columns (Work                  *work,
              const GpumemReference *reference,
              const guint32         *from,
              guint32               *to)
{
  gsize width = work->picture->width;
  int height = work->picture->height;
  g_autofree guint32 *sums = g_new0 (guint32, 4 * width);

  for (int y = 0; y < height; y++, to += width)
    {
      if (!go_on (work, 1, y))
        return FALSE;
      for (int i = 0; i < GPUMEM_N_WEIGHTS; i++)
        {
          gsize row = CLAMP (y + i - GPUMEM_BLUR_RADIUS, 0, height - 1);

          add_weighted (sums, (const guint8 *) (from + row * width), 4 * width,
                        reference->weights[i]);
        }
      store_sums ((guint8 *) to, sums, 4 * width);
    }
  return TRUE;
}

static guint8
luminance (guint32 pixel)
{
  return (77 * (pixel & 0xff) + 150 * (pixel >> 8 & 0xff) + 29 * (pixel >> 16 & 0xff)) / 256;
}

static int
sobel (const guint8 *above,
       const guint8 *here,
       const guint8 *below)
{
  int x = abs ((above[2] + 2 * here[2] + below[2]) - (above[0] + 2 * here[0] + below[0]));
  int y = abs ((below[0] + 2 * below[1] + below[2]) - (above[0] + 2 * above[1] + above[2]));

  return MIN (MAX (x, y) + 3 * MIN (x, y) / 8, 255);
}

/* Computes the luminance, with a margin of one pixel that repeats the outermost pixels. */
static guint8 *
light_with_margin (const GpumemPicture *picture)
{
  const guint32 *pixels = g_bytes_get_data (picture->pixels, NULL);
  gsize width = picture->width;
  gsize height = picture->height;
  gsize stride = width + 2;
  guint8 *light = g_malloc (stride * (height + 2));

  for (gsize y = 0; y < height + 2; y++)
    {
      const guint32 *from = pixels + (CLAMP (y, 1, height) - 1) * width;
      guint8 *row = light + y * stride;

      for (gsize x = 0; x < width; x++)
        row[x + 1] = luminance (from[x]);
      row[0] = row[1];
      row[width + 1] = row[width];
    }
  return light;
}

static gboolean
find_edges (Work    *work,
            guint32 *to)
{
  g_autofree guint8 *light = light_with_margin (work->picture);
  gsize width = work->picture->width;
  gsize stride = width + 2;

  for (guint y = 0; y < work->picture->height; y++, to += width)
    {
      const guint8 *row = light + y * stride;

      if (!go_on (work, 2, y))
        return FALSE;
      for (gsize x = 0; x < width; x++)
        {
          int value = sobel (row + x, row + x + stride, row + x + 2 * stride);

          to[x] = GPUMEM_PIXEL (value, value, value, 255);
        }
    }
  return TRUE;
}

static gboolean
count (Work          *work,
       const guint32 *pixels,
       guint32       *counts)
{
  for (guint y = 0; y < work->picture->height; y++, pixels += work->picture->width)
    {
      if (!go_on (work, 3, y))
        return FALSE;
      for (guint x = 0; x < work->picture->width; x++)
        {
          counts[pixels[x] & 0xff]++;
          counts[256 + (pixels[x] >> 8 & 0xff)]++;
          counts[512 + (pixels[x] >> 16 & 0xff)]++;
          counts[768 + luminance (pixels[x])]++;
        }
    }
  return TRUE;
}

/* Interpolates between four pixels. Outside the picture, repeats the outermost pixels. */
static double
interpolate (const GpumemPicture *picture,
             const guint8        *bytes,
             double               x,
             double               y)
{
  gsize width = picture->width;
  gssize left = floor (x);
  gssize top = floor (y);
  gsize u[] = { CLAMP (left, 0, (gssize) width - 1), CLAMP (left + 1, 0, (gssize) width - 1) };
  gsize v[] = { CLAMP (top, 0, picture->height - 1), CLAMP (top + 1, 0, picture->height - 1) };
  double across = x - left;
  double down = y - top;

  return (1 - down) * ((1 - across) * bytes[4 * (v[0] * width + u[0])] +
                       across * bytes[4 * (v[0] * width + u[1])]) +
         down * ((1 - across) * bytes[4 * (v[1] * width + u[0])] +
                 across * bytes[4 * (v[1] * width + u[1])]);
}

static gboolean
resize (Work            *work,
        GpumemReference *reference)
{
  const GpumemPicture *picture = work->picture;
  const guint8 *pixels = g_bytes_get_data (picture->pixels, NULL);
  guint8 *to = (guint8 *) reference->resized;

  for (guint y = 0; y < reference->resized_height; y++)
    {
      double v = (y + 0.5) / reference->resized_height * picture->height - 0.5;

      if (!go_on (work, 4, y))
        return FALSE;
      for (guint x = 0; x < reference->resized_width; x++)
        {
          double u = (x + 0.5) / reference->resized_width * picture->width - 0.5;

          for (guint i = 0; i < 4; i++)
            *to++ = rint (interpolate (picture, pixels + i, u, v));
        }
    }
  return TRUE;
}

GpumemReference *
gpumem_reference_new (const GpumemPicture  *picture,
                      GpumemProgress       *progress,
                      GCancellable         *cancellable,
                      GError              **error)
{
  g_autoptr (GpumemReference) reference = g_new0 (GpumemReference, 1);
  Work work = { picture, progress, cancellable, error };
  const guint32 *pixels = g_bytes_get_data (picture->pixels, NULL);
  gint64 start = gpumem_tour_clock ();

  gpumem_progress_begin (progress, "reference on this CPU");
  compute_weights (reference->weights);
  reference->blurred = gpumem_picture_try_alloc (picture->width, picture->height, error);
  if (reference->blurred != NULL)
    reference->edges = gpumem_picture_try_alloc (picture->width, picture->height, error);
  reference->resized_width = MAX (picture->width * 2 / 3, 1);
  reference->resized_height = MAX (picture->height * 2 / 3, 1);
  if (reference->edges != NULL)
    reference->resized = gpumem_picture_try_alloc (reference->resized_width,
                                                   reference->resized_height, error);
  if (reference->resized == NULL ||
      !blur_rows (&work, reference, pixels, reference->edges) ||
      !blur_columns (&work, reference, reference->edges, reference->blurred) ||
      !find_edges (&work, reference->edges) ||
      !count (&work, pixels, reference->before) ||
      !count (&work, reference->blurred, reference->after) ||
      !resize (&work, reference))
    return NULL;
  reference->nanoseconds = gpumem_tour_clock () - start;
  return g_steal_pointer (&reference);
}

void
gpumem_reference_free (GpumemReference *reference)
{
  g_free (reference->blurred);
  g_free (reference->edges);
  g_free (reference->resized);
  g_free (reference);
}
