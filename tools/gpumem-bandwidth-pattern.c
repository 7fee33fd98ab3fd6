/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Fills memory with a pattern before copies, and checks the pattern after copies. */
#include "config.h"

#include <string.h>

#include "tools/gpumem-bandwidth.h"

/* The period of the pattern is not a power of two, so that the check detects swapped parts. */
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

/* Returns: (transfer full): a stream of the context of the memory */
static GpuStream *
get_stream (const GpumemPlace  *place,
            GError            **error)
{
  GpuContext *context = gpu_memory_get_context (place->memory);
  GpuStream *stream = gpu_context_get_default_stream (context);

  return stream != NULL ? stream : gpu_stream_new (context, GPU_STREAM_FLAGS_NONE, error);
}

static gboolean
write_place (const GpumemPlace  *place,
             gsize               offset,
             const guint8       *data,
             gsize               size,
             GError            **error)
{
  g_autoptr (GBytes) bytes = NULL;
  g_autoptr (GpuStream) stream = NULL;

  if (place->data != NULL)
    {
      memcpy ((guint8 *) place->data + offset, data, size);
      return TRUE;
    }
  bytes = g_bytes_new_static (data, size);
  stream = get_stream (place, error);
  return stream != NULL && gpu_stream_write (stream, place->memory, offset, bytes, error) &&
         gpu_stream_synchronize (stream, NULL, error);
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

      if (g_cancellable_set_error_if_cancelled (bench->cancellable, error) ||
          !write_place (place, offset, tile, length, error))
        return FALSE;
    }
  return TRUE;
}

/* Overwrites the destination, so that the check fails if a copy writes nothing. */
gboolean
gpumem_pattern_scrub (GpumemBench  *bench,
                      guint         lane,
                      gsize         size,
                      GError      **error)
{
  const GpumemPlace *place = gpumem_lane_get_destination (bench, lane);
  g_autoptr (GpuStream) stream = NULL;
  const guint8 zero = 0;

  if (place->data != NULL)
    {
      memset (place->data, 0, size);
      return TRUE;
    }
  stream = get_stream (place, error);
  return stream != NULL && gpu_stream_fill (stream, place->memory, 0, size, &zero, 1, error) &&
         gpu_stream_synchronize (stream, NULL, error);
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

static gboolean
read_place (const GpumemPlace  *place,
            gsize               offset,
            guint8             *data,
            gsize               size,
            GError            **error)
{
  g_autoptr (GpuStream) stream = get_stream (place, error);

  return stream != NULL && gpu_stream_read (stream, place->memory, offset, data, size, error) &&
         gpu_stream_synchronize (stream, NULL, error);
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

      if (g_cancellable_set_error_if_cancelled (bench->cancellable, error))
        return FALSE;
      if (place->data != NULL)
        got = (const guint8 *) place->data + offset;
      else if (!read_place (place, offset, scratch, length, error))
        return FALSE;
      if (memcmp (got, tile, length) != 0)
        *wrong = describe (got, tile, offset);
    }
  return TRUE;
}
