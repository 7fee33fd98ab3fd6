/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What is copied, and whether it arrived. */
#include "config.h"

#include <string.h>

#include "tools/gpumem-bandwidth.h"

/* No power of two, so that pieces that change places are seen. */
#define TILE_SIZE ((gsize) 1048573)

static const guint8 *
get_tile (guint lane)
{
  static guint8 *tiles[GPUMEM_N_LANES];

  if (g_once_init_enter (&tiles[lane]))
    {
      guint8 *tile = g_malloc (TILE_SIZE);
      guint64 state = lane + 1;

      for (gsize i = 0; i < TILE_SIZE; i++)
        {
          state = state * G_GUINT64_CONSTANT (6364136223846793005) + 1442695040888963407;
          tile[i] = state >> 56;
        }
      g_once_init_leave (&tiles[lane], tile);
    }
  return tiles[lane];
}

gboolean
gpumem_pattern_fill (GpumemBench  *bench,
                     guint         lane,
                     gsize         size,
                     GError      **error)
{
  const GpumemPlace *place = gpumem_lane_get_source (bench, lane);
  const guint8 *tile = get_tile (lane);

  for (gsize offset = 0; offset < size; offset += TILE_SIZE)
    {
      gsize length = MIN (TILE_SIZE, size - offset);

      if (place->data != NULL)
        memcpy ((guint8 *) place->data + offset, tile, length);
      else if (!gpu_buffer_write (GPU_BUFFER (place->memory), NULL, offset, tile, length,
                                  bench->cancellable, error))
        return FALSE;
    }
  return TRUE;
}

/* Overwrites where the bytes are to arrive. */
gboolean
gpumem_pattern_scrub (GpumemBench  *bench,
                      guint         lane,
                      gsize         size,
                      GError      **error)
{
  const GpumemPlace *place = gpumem_lane_get_destination (bench, lane);
  const guint8 zero = 0;

  if (place->data == NULL)
    return gpu_buffer_fill (GPU_BUFFER (place->memory), NULL, 0, size, &zero, 1,
                            bench->cancellable, error);
  memset (place->data, 0, size);
  return TRUE;
}

static char *
describe (const guint8 *got,
          const guint8 *expected,
          gsize         offset)
{
  gsize i = 0;

  while (got[i] == expected[i])
    i++;
  return g_strdup_printf ("byte %" G_GSIZE_FORMAT " is 0x%02x and not 0x%02x", offset + i, got[i],
                          expected[i]);
}

gboolean
gpumem_pattern_check (GpumemBench  *bench,
                      guint         lane,
                      gsize         size,
                      char        **wrong,
                      GError      **error)
{
  const GpumemPlace *place = gpumem_lane_get_destination (bench, lane);
  const guint8 *tile = get_tile (lane);
  g_autofree guint8 *scratch = place->data == NULL ? g_malloc (MIN (TILE_SIZE, size)) : NULL;

  for (gsize offset = 0; offset < size && *wrong == NULL; offset += TILE_SIZE)
    {
      gsize length = MIN (TILE_SIZE, size - offset);
      const guint8 *got = scratch;

      if (place->data != NULL)
        got = (const guint8 *) place->data + offset;
      else if (!gpu_buffer_read (GPU_BUFFER (place->memory), NULL, offset, scratch, length,
                                 bench->cancellable, error))
        return FALSE;
      if (memcmp (got, tile, length) != 0)
        *wrong = describe (got, tile, offset);
    }
  return TRUE;
}
