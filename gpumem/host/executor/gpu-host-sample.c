/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * How kernels read and write images, by chapter 8 of the specification of OpenCL C, in double
 * precision: what other devices are compared with. What is undefined there is something that does
 * no harm here: no coordinate, be it huge or no number, reaches outside of the image.
 */
#include "config.h"

#include <math.h>

#include "gpumem/format/gpu-texel-private.h"
#include "gpumem/host/executor/gpu-host-executor.h"

/* The place of a texel that there is not. */
#define OUTSIDE -1

/* The samplers that kernels write down, with their number. */
#define CONSTANT(filter, mode, normalized) \
  [(filter) * GPU_HOST_SAMPLER_LINEAR + (mode) * GPU_HOST_SAMPLER_ADDRESS \
   + (normalized) * GPU_HOST_SAMPLER_NORMALIZED] = { .normalized_coordinates = (normalized), \
                                                     .address_modes = { (mode), (mode), (mode) }, \
                                                     .filter_mode = (filter), \
                                                     .max_lod = G_MAXFLOAT }
#define CONSTANTS(mode) \
  CONSTANT (GPU_FILTER_MODE_NEAREST, mode, FALSE), CONSTANT (GPU_FILTER_MODE_NEAREST, mode, TRUE), \
  CONSTANT (GPU_FILTER_MODE_LINEAR, mode, FALSE), CONSTANT (GPU_FILTER_MODE_LINEAR, mode, TRUE)

static const GpuSamplerDescription constants[GPU_HOST_SAMPLER_END] =
{
  CONSTANTS (GPU_ADDRESS_MODE_NONE),
  CONSTANTS (GPU_ADDRESS_MODE_CLAMP_TO_EDGE),
  CONSTANTS (GPU_ADDRESS_MODE_CLAMP_TO_BORDER),
  CONSTANTS (GPU_ADDRESS_MODE_REPEAT),
  CONSTANTS (GPU_ADDRESS_MODE_MIRRORED_REPEAT)
};

/* The one or two texels of a dimension that a coordinate lies at: how many bytes away each of them
 * stands, or OUTSIDE, and how much of it there is. */
typedef struct
{
  gssize offsets[2];
  double weights[2];
} Axis;

static const GpuSamplerDescription *
get_sampler (GpuHostSize bits)
{
  return bits >= GPU_HOST_SAMPLER_END ? &((const GpuNativeSampler *) bits)->description
                                      : &constants[bits];
}

static const GpuHostNativeImage *
get_native (const GpuHostImage *image)
{
  return (const GpuHostNativeImage *)
    ((const guint8 *) image - G_STRUCT_OFFSET (GpuHostNativeImage, view));
}

/* --- coordinates ------------------------------------------------------------------------------ */

/* What is no number is the least. */
static double
clamp (double value,
       double least,
       double most)
{
  double above = value > least ? value : least;

  return MIN (above, most);
}

/* As floor(), which is a call, for what a gssize can hold. */
static gssize
get_floor (double value)
{
  gssize whole = (gssize) value;

  return whole - (value < (double) whole);
}

/* Where the image is that @coordinate, normalized, falls into, from 0.0 to 1.0 over it. */
static double
wrap (double         coordinate,
      GpuAddressMode mode)
{
  if (mode != GPU_ADDRESS_MODE_REPEAT)
    return fabs (coordinate - 2 * rint (coordinate / 2));

  return coordinate - (fabs (coordinate) < G_MAXINT32 ? (double) get_floor (coordinate)
                                                      : floor (coordinate));
}

/* Where @coordinate is, counted in texels. Beyond two texels from the edge all places are the
 * same. */
static double
get_position (double         coordinate,
              gssize         size,
              GpuAddressMode mode,
              gboolean       is_normalized)
{
  double scale = (double) size;

  if (mode >= GPU_ADDRESS_MODE_REPEAT)
    return clamp (wrap (is_normalized ? coordinate : coordinate / scale, mode) * scale, 0, scale);

  return clamp (is_normalized ? coordinate * scale : coordinate, -2, scale + 2);
}

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

/* The same for a texel that is any number of images away. */
static gssize
get_distant_place (gint64         place,
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

static void
get_axis (Axis           *axis,
          double          position,
          gssize          size,
          gssize          pitch,
          GpuAddressMode  mode)
{
  gssize first = get_floor (position - 0.5);
  double weight = position - 0.5 - (double) first;

  axis->weights[0] = 1 - weight;
  axis->weights[1] = weight;

  for (guint i = 0; i < G_N_ELEMENTS (axis->offsets); i++)
    {
      gssize place = get_place (first + i, size, mode);

      axis->offsets[i] = place == OUTSIDE ? OUTSIDE : place * pitch;
    }
}

/* --- texels ----------------------------------------------------------------------------------- */

/* Transparent black, and opaque where the format has no alpha, unless the sampler has another. */
static void
get_border (const GpuImageFormat        *format,
            const GpuSamplerDescription *sampler,
            GpuTexel                    *texel)
{
  GpuTexelKind kind = _gpu_texel_get_kind (format);

  for (guint i = 0; i < G_N_ELEMENTS (sampler->border_color); i++)
    {
      double value = sampler->border_color[i];

      if (kind == GPU_TEXEL_REAL)
        texel->real[i] = sampler->border_color[i];
      else if (kind == GPU_TEXEL_INTEGER)
        texel->integer[i] = (gint32) rint (clamp (value, G_MININT32, G_MAXINT32));
      else
        texel->natural[i] = (guint32) rint (clamp (value, 0, G_MAXUINT32));
    }

  _gpu_texel_restrict (format, texel);
}

/* The layer that @coordinate is nearest to. */
static const guint8 *
get_layer (const GpuHostNativeImage *image,
           const GpuHostLevel       *level,
           const float              *coordinates)
{
  guint i = image->n_dimensions;

  if (!image->has_layers)
    return level->data;

  return level->data
         + (gssize) rint (clamp (coordinates[i], 0, (double) (level->sizes[i] - 1)))
           * level->pitches[i];
}

static void
sample_nearest (const GpuHostNativeImage    *image,
                const GpuHostLevel          *level,
                const GpuSamplerDescription *sampler,
                const float                 *coordinates,
                GpuTexel                    *texel)
{
  const GpuImageFormat *format = &image->formats[sampler->read_mode];
  const guint8 *data = get_layer (image, level, coordinates);

  for (guint i = 0; i < image->n_dimensions; i++)
    {
      GpuAddressMode mode = sampler->address_modes[i];
      double position = get_position (coordinates[i], level->sizes[i], mode,
                                      sampler->normalized_coordinates);
      gssize place = get_place (get_floor (position), level->sizes[i], mode);

      if (place == OUTSIDE)
        {
          get_border (format, sampler, texel);
          return;
        }

      data += place * level->pitches[i];
    }

  _gpu_texel_read (format, data, texel);
}

/* Texels that have no part in it are not looked at. */
static void
filter (const GpuHostNativeImage    *image,
        const guint8                *data,
        const GpuSamplerDescription *sampler,
        const Axis                  *axes,
        GpuTexel                    *texel)
{
  const GpuImageFormat *format = &image->formats[sampler->read_mode];
  double sums[4] = { 0, 0, 0, 0 };

  for (guint i = 0; i < 1u << image->n_dimensions; i++)
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
        get_border (format, sampler, &part);
      else
        _gpu_texel_read (format, data + offsets[0] + offsets[1] + offsets[2], &part);

      for (guint c = 0; c < G_N_ELEMENTS (sums); c++)
        sums[c] += weight * part.real[c];
    }

  for (guint c = 0; c < G_N_ELEMENTS (sums); c++)
    texel->real[c] = (float) sums[c];
}

static void
sample_linear (const GpuHostNativeImage    *image,
               const GpuHostLevel          *level,
               const GpuSamplerDescription *sampler,
               const float                 *coordinates,
               GpuTexel                    *texel)
{
  Axis axes[] = { { { 0, 0 }, { 1, 0 } }, { { 0, 0 }, { 1, 0 } }, { { 0, 0 }, { 1, 0 } } };

  for (guint i = 0; i < image->n_dimensions; i++)
    {
      GpuAddressMode mode = sampler->address_modes[i];
      double position = get_position (coordinates[i], level->sizes[i], mode,
                                      sampler->normalized_coordinates);

      get_axis (&axes[i], position, level->sizes[i], level->pitches[i], mode);
    }

  filter (image, get_layer (image, level, coordinates), sampler, axes, texel);
}

/* There is nothing between integers. */
static void
sample_level (const GpuHostNativeImage    *image,
              guint                        number,
              const GpuSamplerDescription *sampler,
              const float                 *coordinates,
              GpuTexel                    *texel)
{
  const GpuHostLevel *level = &image->levels[number];

  if (sampler->filter_mode == GPU_FILTER_MODE_LINEAR
      && _gpu_texel_get_kind (&image->formats[sampler->read_mode]) == GPU_TEXEL_REAL)
    sample_linear (image, level, sampler, coordinates, texel);
  else
    sample_nearest (image, level, sampler, coordinates, texel);
}

/* --- what kernels call ------------------------------------------------------------------------ */

static void
sample_levels (const GpuHostNativeImage    *image,
               const GpuSamplerDescription *sampler,
               const float                 *coordinates,
               double                       lod,
               GpuTexel                    *texel)
{
  double wanted = clamp (lod + (double) sampler->lod_bias, sampler->min_lod, sampler->max_lod);
  double number = clamp (wanted, 0, image->view.n_levels - 1);
  gboolean is_linear = sampler->mip_filter_mode == GPU_FILTER_MODE_LINEAR;
  guint first = (guint) (is_linear ? number : ceil (number + 0.5) - 1);
  double part = number - first;
  GpuTexel next;

  sample_level (image, first, sampler, coordinates, texel);

  if (!is_linear || part == 0
      || _gpu_texel_get_kind (&image->formats[sampler->read_mode]) != GPU_TEXEL_REAL)
    return;

  sample_level (image, first + 1, sampler, coordinates, &next);

  for (guint c = 0; c < G_N_ELEMENTS (next.real); c++)
    texel->real[c] = (float) ((1 - part) * texel->real[c] + part * next.real[c]);
}

static void
image_sample (const GpuHostImage *image,
              GpuHostSize         sampler,
              const float        *coordinates,
              const float        *lod,
              void               *texel)
{
  const GpuHostNativeImage *self = get_native (image);

  if (lod != NULL && image->n_levels > 1)
    sample_levels (self, get_sampler (sampler), coordinates, *lod, texel);
  else
    sample_level (self, 0, get_sampler (sampler), coordinates, texel);
}

/* Integers are texels, whatever the sampler says. */
static void
image_fetch (const GpuHostImage *image,
             GpuHostSize         sampler,
             const int          *coordinates,
             void               *texel)
{
  const GpuHostNativeImage *self = get_native (image);
  const GpuSamplerDescription *description = get_sampler (sampler);
  const GpuImageFormat *format = &self->formats[description->read_mode];
  const GpuHostLevel *level = &self->levels[0];
  const guint8 *data = level->data;
  guint i;

  for (i = 0; i < self->n_dimensions; i++)
    {
      gssize place = get_distant_place (coordinates[i], level->sizes[i],
                                        description->address_modes[i]);

      if (place == OUTSIDE)
        {
          get_border (format, description, texel);
          return;
        }

      data += place * level->pitches[i];
    }

  if (self->has_layers)
    data += CLAMP (coordinates[i], 0, level->sizes[i] - 1) * level->pitches[i];

  _gpu_texel_read (format, data, texel);
}

static void
image_store (const GpuHostImage *image,
             const int          *coordinates,
             const void         *texel)
{
  const GpuHostNativeImage *self = get_native (image);
  const GpuHostLevel *level = &self->levels[0];
  guint8 *data = level->data;

  for (guint i = 0; i < G_N_ELEMENTS (level->sizes); i++)
    {
      if (coordinates[i] < 0 || coordinates[i] >= level->sizes[i])
        return;

      data += coordinates[i] * level->pitches[i];
    }

  _gpu_texel_write (&self->formats[GPU_READ_MODE_FORMAT], texel, data);
}

const GpuHostImageFunctions _gpu_host_image_functions =
{
  .sample = image_sample,
  .fetch = image_fetch,
  .store = image_store
};
