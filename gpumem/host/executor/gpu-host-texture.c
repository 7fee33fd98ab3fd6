/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Sampling of images, as chapter 8 of the OpenCL C specification defines it. Uses double precision,
 * because tests use the results as the reference for other devices. Never reads outside the image,
 * even for coordinates with undefined results, such as huge values and NaN.
 */
#include "config.h"

#include <math.h>

#include "gpumem/host/executor/gpu-host-texture.h"

#define OUTSIDE GPU_HOST_OUTSIDE

/* The two texels next to a coordinate in one dimension: their offsets in bytes, or OUTSIDE, and
 * their weights. */
typedef struct
{
  gssize offsets[2];
  double weights[2];
} Axis;

/* --- coordinates ------------------------------------------------------------------------------ */

/* Returns @least for NaN. */
static double
clamp (double value,
       double least,
       double most)
{
  double above = value > least ? value : least;

  return MIN (above, most);
}

/* Like floor(), but without a function call, for values that a gssize can hold. */
static gssize
get_floor (double value)
{
  gssize whole = (gssize) value;

  return whole - (value < (double) whole);
}

/* Maps a normalized coordinate to the range from 0.0 to 1.0 by repeating or mirroring the image. */
static double
wrap (double         coordinate,
      GpuAddressMode mode)
{
  if (mode != GPU_ADDRESS_MODE_REPEAT)
    return fabs (coordinate - 2 * rint (coordinate / 2));

  return coordinate - (fabs (coordinate) < G_MAXINT32 ? (double) get_floor (coordinate)
                                                      : floor (coordinate));
}

/* Converts a coordinate to texels. Clamps to two texels beyond the edges, because all positions
 * farther outside read the same value. */
static double
get_position (double         coordinate,
              gssize         size,
              GpuAddressMode mode,
              gboolean       is_normalized)
{
  double scale = (double) size;

  if (GPU_HOST_TEXTURE_CUDA)
    return isnan (coordinate) ? 0 : clamp (is_normalized ? coordinate * scale : coordinate, -1e9,
                                           1e9);

  if (mode >= GPU_ADDRESS_MODE_REPEAT)
    return clamp (wrap (is_normalized ? coordinate : coordinate / scale, mode) * scale, 0, scale);

  return clamp (is_normalized ? coordinate * scale : coordinate, -2, scale + 2);
}

/* Like _gpu_host_texture_find(), but without a division. If @mode is REPEAT or MIRRORED_REPEAT,
 * @place must therefore be at most one texel outside the image. */
static gssize
get_place (gssize         place,
           gssize         size,
           GpuAddressMode mode)
{
  switch (mode)
    {
    case GPU_ADDRESS_MODE_CLAMP_TO_EDGE:
    case GPU_ADDRESS_MODE_MIRRORED_REPEAT:
      return CLAMP (place, 0, size - 1);
    case GPU_ADDRESS_MODE_REPEAT:
      return place < 0 ? place + size : place < size ? place : place - size;
    case GPU_ADDRESS_MODE_NONE:
    case GPU_ADDRESS_MODE_CLAMP_TO_BORDER:
    default:
      return place >= 0 && place < size ? place : OUTSIDE;
    }
}

gssize
_gpu_host_texture_find (gint64         place,
                        gint64         size,
                        GpuAddressMode mode)
{
  gint64 period = mode == GPU_ADDRESS_MODE_REPEAT ? size : 2 * size;
  gint64 rest;

  if (mode < GPU_ADDRESS_MODE_REPEAT)
    return get_place (place, size, mode);

  rest = place % period;

  if (rest < 0)
    rest += period;

  return MIN (rest, 2 * size - 1 - rest);
}

static gssize
find_place (gssize         place,
            gssize         size,
            GpuAddressMode mode)
{
  return GPU_HOST_TEXTURE_CUDA ? _gpu_host_texture_find (place, size, mode)
                          : get_place (place, size, mode);
}

static double
round_weight (double weight)
{
  return GPU_HOST_TEXTURE_CUDA ? floor (weight * 256 + 0.5) / 256 : weight;
}

static void
get_axis (Axis           *axis,
          double          position,
          gssize          size,
          gssize          pitch,
          GpuAddressMode  mode)
{
  gssize first = get_floor (position - 0.5);
  double weight = round_weight (position - 0.5 - (double) first);

  axis->weights[0] = 1 - weight;
  axis->weights[1] = weight;

  for (guint i = 0; i < G_N_ELEMENTS (axis->offsets); i++)
    {
      gssize place = find_place (first + i, size, mode);

      axis->offsets[i] = place == OUTSIDE ? OUTSIDE : place * pitch;
    }
}

/* --- texels ----------------------------------------------------------------------------------- */

/* If the format has no alpha channel, the border color is opaque. */
void
_gpu_host_texture_border (const GpuHostTexture        *texture,
                          const GpuSamplerDescription *sampler,
                          GpuTexel                    *texel)
{
  const GpuImageFormat *format = &texture->formats[sampler->read_mode];
  GpuTexelKind kind = _gpu_texel_get_kind (format);

  for (guint i = 0; i < G_N_ELEMENTS (sampler->border_color); i++)
    {
      double value = sampler->border_color[i];

      if (kind == GPU_TEXEL_REAL || GPU_HOST_TEXTURE_CUDA)
        texel->real[i] = sampler->border_color[i];
      else if (kind == GPU_TEXEL_INTEGER)
        texel->integer[i] = (gint32) rint (clamp (value, G_MININT32, G_MAXINT32));
      else
        texel->natural[i] = (guint32) rint (clamp (value, 0, G_MAXUINT32));
    }

  _gpu_texel_restrict (format, texel);
}

/* Returns the address of the layer nearest to the coordinate. */
static const guint8 *
get_layer (const GpuHostTexture *texture,
           const GpuHostLevel   *level,
           const float          *coordinates)
{
  guint i = texture->n_dimensions;

  if (!texture->has_layers)
    return level->data;

  return level->data
         + (gssize) rint (clamp (coordinates[i], 0, (double) (level->sizes[i] - 1)))
           * level->pitches[i];
}

static void
sample_nearest (const GpuHostTexture        *texture,
                const GpuHostLevel          *level,
                const GpuSamplerDescription *sampler,
                const float                 *coordinates,
                GpuTexel                    *texel)
{
  const GpuImageFormat *format = &texture->formats[sampler->read_mode];
  const guint8 *data = get_layer (texture, level, coordinates);

  for (guint i = 0; i < texture->n_dimensions; i++)
    {
      GpuAddressMode mode = sampler->address_modes[i];
      double position = get_position (coordinates[i], level->sizes[i], mode,
                                      sampler->normalized_coordinates);
      gssize place = find_place (get_floor (position), level->sizes[i], mode);

      if (place == OUTSIDE)
        {
          _gpu_host_texture_border (texture, sampler, texel);
          return;
        }

      data += place * level->pitches[i];
    }

  _gpu_texel_read (format, data, texel);
}

static void
filter (const GpuHostTexture        *texture,
        const guint8                *data,
        const GpuSamplerDescription *sampler,
        const Axis                  *axes,
        GpuTexel                    *texel)
{
  const GpuImageFormat *format = &texture->formats[sampler->read_mode];
  double sums[4] = { 0, 0, 0, 0 };

  for (guint i = 0; i < 1u << texture->n_dimensions; i++)
    {
      guint x = i & 1;
      guint y = i >> 1 & 1;
      guint z = i >> 2;
      gssize offsets[] = { axes[0].offsets[x], axes[1].offsets[y], axes[2].offsets[z] };
      double weight = axes[0].weights[x] * axes[1].weights[y] * axes[2].weights[z];
      GpuTexel part;

      if (weight == 0)
        continue;

      if (offsets[0] == OUTSIDE || offsets[1] == OUTSIDE || offsets[2] == OUTSIDE)
        _gpu_host_texture_border (texture, sampler, &part);
      else
        _gpu_texel_read (format, data + offsets[0] + offsets[1] + offsets[2], &part);

      for (guint c = 0; c < G_N_ELEMENTS (sums); c++)
        sums[c] += weight * part.real[c];
    }

  for (guint c = 0; c < G_N_ELEMENTS (sums); c++)
    texel->real[c] = (float) sums[c];
}

static void
sample_linear (const GpuHostTexture        *texture,
               const GpuHostLevel          *level,
               const GpuSamplerDescription *sampler,
               const float                 *coordinates,
               GpuTexel                    *texel)
{
  Axis axes[] = { { { 0, 0 }, { 1, 0 } }, { { 0, 0 }, { 1, 0 } }, { { 0, 0 }, { 1, 0 } } };

  for (guint i = 0; i < texture->n_dimensions; i++)
    {
      GpuAddressMode mode = sampler->address_modes[i];
      double position = get_position (coordinates[i], level->sizes[i], mode,
                                      sampler->normalized_coordinates);

      get_axis (&axes[i], position, level->sizes[i], level->pitches[i], mode);
    }

  filter (texture, get_layer (texture, level, coordinates), sampler, axes, texel);
}

/* Integer formats are never filtered. */
static void
sample_level (const GpuHostTexture        *texture,
              guint                        number,
              const GpuSamplerDescription *sampler,
              const float                 *coordinates,
              GpuTexel                    *texel)
{
  const GpuHostLevel *level = &texture->levels[number];

  if (sampler->filter_mode == GPU_FILTER_MODE_LINEAR
      && _gpu_texel_get_kind (&texture->formats[sampler->read_mode]) == GPU_TEXEL_REAL)
    sample_linear (texture, level, sampler, coordinates, texel);
  else
    sample_nearest (texture, level, sampler, coordinates, texel);
}

static guint
get_nearest_level (double number)
{
  return (guint) (GPU_HOST_TEXTURE_CUDA ? floor (number + 0.5) : ceil (number + 0.5) - 1);
}

static void
sample_levels (const GpuHostTexture        *texture,
               const GpuSamplerDescription *sampler,
               const float                 *coordinates,
               double                       lod,
               GpuTexel                    *texel)
{
  double wanted = clamp (lod + (double) sampler->lod_bias, sampler->min_lod, sampler->max_lod);
  double number = clamp (wanted, 0, texture->n_levels - 1);
  gboolean is_linear = sampler->mip_filter_mode == GPU_FILTER_MODE_LINEAR;
  guint first = is_linear ? (guint) number : get_nearest_level (number);
  double part = round_weight (number - first);
  GpuTexel next;

  sample_level (texture, first, sampler, coordinates, texel);

  if (!is_linear || part == 0
      || _gpu_texel_get_kind (&texture->formats[sampler->read_mode]) != GPU_TEXEL_REAL)
    return;

  sample_level (texture, first + 1, sampler, coordinates, &next);

  for (guint c = 0; c < G_N_ELEMENTS (next.real); c++)
    texel->real[c] = (float) ((1 - part) * texel->real[c] + part * next.real[c]);
}

void
_gpu_host_texture_sample (const GpuHostTexture        *texture,
                          const GpuSamplerDescription *sampler,
                          const float                 *coordinates,
                          const float                 *lod,
                          GpuTexel                    *texel)
{
  if (lod != NULL && texture->n_levels > 1)
    sample_levels (texture, sampler, coordinates, *lod, texel);
  else
    sample_level (texture, 0, sampler, coordinates, texel);
}
