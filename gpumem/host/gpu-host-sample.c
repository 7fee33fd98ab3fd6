/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * How kernels read and write images, by chapter 8 of the specification of OpenCL C, in double
 * precision: what other devices are compared with. What is undefined there is something that does
 * no harm here: no coordinate, be it huge or no number, reaches outside of the image.
 */
#include "config.h"

#include <math.h>
#include <string.h>

#include "gpumem/gpu-image-type-private.h"
#include "gpumem/gpu-texel-private.h"
#include "gpumem/host/gpu-host.h"

/* The place of a texel that there is not. */
#define OUTSIDE -1

/* One level of an image, with texels of the format in which they are read. */
typedef struct
{
  guint8         *data;
  GpuImageFormat  format;
  gsize           texel_size;
  GpuExtent       extent;
  gsize           row_pitch;
  gsize           slice_pitch;
  guint           n_dimensions;
  gboolean        has_layers;
} Level;

/* The one or two texels of a dimension that a coordinate lies at, and how much of the second. */
typedef struct
{
  gssize places[2];
  double weight;
} Axis;

/* --- samplers --------------------------------------------------------------------------------- */

static const GpuSamplerDescription *
get_sampler (GpuHostSize            bits,
             GpuSamplerDescription *constant)
{
  GpuAddressMode mode = bits % GPU_HOST_SAMPLER_LINEAR / GPU_HOST_SAMPLER_ADDRESS;

  if (bits >= GPU_HOST_SAMPLER_END)
    return &((const GpuNativeSampler *) bits)->description;

  *constant = (GpuSamplerDescription) { .normalized_coordinates =
                                          (bits & GPU_HOST_SAMPLER_NORMALIZED) != 0,
                                        .address_modes = { mode, mode, mode },
                                        .max_lod = G_MAXFLOAT };

  if ((bits & GPU_HOST_SAMPLER_LINEAR) != 0)
    constant->filter_mode = GPU_FILTER_MODE_LINEAR;

  return constant;
}

/* The type that the channels of @type are taken for. */
static GpuChannelType
get_read_type (GpuChannelType type,
               GpuReadMode    mode)
{
  static const struct
  {
    GpuChannelType normalized;
    GpuChannelType plain;
  }
  pairs[] =
  {
    { GPU_CHANNEL_TYPE_UNORM8, GPU_CHANNEL_TYPE_UINT8 },
    { GPU_CHANNEL_TYPE_UNORM16, GPU_CHANNEL_TYPE_UINT16 },
    { GPU_CHANNEL_TYPE_SNORM8, GPU_CHANNEL_TYPE_INT8 },
    { GPU_CHANNEL_TYPE_SNORM16, GPU_CHANNEL_TYPE_INT16 }
  };

  for (guint i = 0; i < G_N_ELEMENTS (pairs); i++)
    {
      if (mode == GPU_READ_MODE_ELEMENT && pairs[i].normalized == type)
        return pairs[i].plain;
      if (mode == GPU_READ_MODE_NORMALIZED && pairs[i].plain == type)
        return pairs[i].normalized;
    }

  return type;
}

static Level
get_level (const GpuHostImage          *image,
           guint                        number,
           const GpuSamplerDescription *sampler)
{
  const GpuHostNativeImage *self = (const GpuHostNativeImage *)
    ((const guint8 *) image - G_STRUCT_OFFSET (GpuHostNativeImage, view));
  GpuImageDescription description;
  Level level;

  level.data = _gpu_host_image_get_level (&self->parent, number, &description, &level.row_pitch,
                                          &level.slice_pitch);
  level.format = description.format;
  level.format.channel_type = get_read_type (level.format.channel_type, sampler->read_mode);

  /* What stands in memory is no color. */
  if (sampler->read_mode == GPU_READ_MODE_ELEMENT
      && level.format.channel_order == GPU_CHANNEL_ORDER_SRGBA)
    level.format.channel_order = GPU_CHANNEL_ORDER_RGBA;
  if (sampler->read_mode == GPU_READ_MODE_ELEMENT
      && level.format.channel_order == GPU_CHANNEL_ORDER_SBGRA)
    level.format.channel_order = GPU_CHANNEL_ORDER_BGRA;

  level.texel_size = description.texel_size;
  level.extent = description.extent;
  level.n_dimensions = _gpu_image_type_get_n_dimensions (description.type);
  level.has_layers = _gpu_image_type_has_layers (description.type);

  return level;
}

/* --- coordinates ------------------------------------------------------------------------------ */

/* What is no number is the least. */
static double
clamp (double value,
       double least,
       double most)
{
  return value > least ? MIN (value, most) : least;
}

/* Where the image is that @coordinate, normalized, falls into, from 0.0 to 1.0 over it. */
static double
wrap (double         coordinate,
      GpuAddressMode mode)
{
  return mode == GPU_ADDRESS_MODE_REPEAT ? coordinate - floor (coordinate)
                                         : fabs (coordinate - 2 * rint (coordinate / 2));
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

static Axis
get_axis (double         coordinate,
          gsize          size,
          GpuAddressMode mode,
          gboolean       is_normalized,
          gboolean       is_linear)
{
  gboolean wraps = mode >= GPU_ADDRESS_MODE_REPEAT;
  double u = is_normalized && !wraps ? coordinate * (double) size : coordinate;
  double first;
  Axis axis;

  /* Beyond two texels from the edge all places are the same. */
  if (wraps)
    u = clamp (wrap (is_normalized ? u : u / (double) size, mode) * (double) size, 0,
               (double) size);
  else
    u = clamp (u, -2, (double) size + 2);

  if (is_linear)
    u -= 0.5;

  first = floor (u);
  axis.weight = is_linear ? u - first : 0;

  for (guint i = 0; i < G_N_ELEMENTS (axis.places); i++)
    axis.places[i] = get_place ((gssize) first + i, (gssize) size, mode);

  return axis;
}

/* The coordinates of a texel by their dimensions: those without are 0, and so are the layers. */
static void
get_axes (const Level                 *level,
          const GpuSamplerDescription *sampler,
          const double                *coordinates,
          gboolean                     is_normalized,
          gboolean                     is_linear,
          Axis                        *axes)
{
  const gsize sizes[] = { level->extent.width, level->extent.height, level->extent.depth };

  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    {
      if (i < level->n_dimensions)
        axes[i] = get_axis (coordinates[i], sizes[i], sampler->address_modes[i], is_normalized,
                            is_linear);
      else if (i == level->n_dimensions && level->has_layers)
        axes[i] = (Axis) { { (gssize) rint (clamp (coordinates[i], 0, (double) (sizes[i] - 1))),
                             OUTSIDE }, 0 };
      else
        axes[i] = (Axis) { { 0, OUTSIDE }, 0 };
    }
}

/* --- texels ----------------------------------------------------------------------------------- */

/* Transparent black, and opaque where the format has no alpha, unless the sampler has another. */
static void
get_border (const Level                 *level,
            const GpuSamplerDescription *sampler,
            GpuTexel                    *texel)
{
  GpuTexelKind kind = _gpu_texel_get_kind (&level->format);

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

  _gpu_texel_restrict (&level->format, texel);
}

static guint8 *
get_data (const Level *level,
          gssize       x,
          gssize       y,
          gssize       z)
{
  return level->data + (gsize) z * level->slice_pitch + (gsize) y * level->row_pitch
         + (gsize) x * level->texel_size;
}

static void
get_texel (const Level                 *level,
           const GpuSamplerDescription *sampler,
           gssize                       x,
           gssize                       y,
           gssize                       z,
           GpuTexel                    *texel)
{
  if (x == OUTSIDE || y == OUTSIDE || z == OUTSIDE)
    get_border (level, sampler, texel);
  else
    _gpu_texel_read (&level->format, get_data (level, x, y, z), texel);
}

/* Texels that have no part in it are not looked at. */
static void
filter (const Level                 *level,
        const GpuSamplerDescription *sampler,
        const Axis                  *axes,
        GpuTexel                    *texel)
{
  double sums[4] = { 0, 0, 0, 0 };

  for (guint i = 0; i < 8; i++)
    {
      guint x = i & 1;
      guint y = i >> 1 & 1;
      guint z = i >> 2;
      double weight = (x == 0 ? 1 - axes[0].weight : axes[0].weight)
                      * (y == 0 ? 1 - axes[1].weight : axes[1].weight)
                      * (z == 0 ? 1 - axes[2].weight : axes[2].weight);

      if (weight == 0)
        continue;

      get_texel (level, sampler, axes[0].places[x], axes[1].places[y], axes[2].places[z], texel);

      for (guint c = 0; c < G_N_ELEMENTS (sums); c++)
        sums[c] += weight * texel->real[c];
    }

  for (guint c = 0; c < G_N_ELEMENTS (sums); c++)
    texel->real[c] = (float) sums[c];
}

/* There is nothing between integers. */
static void
sample_level (const Level                 *level,
              const GpuSamplerDescription *sampler,
              const double                *coordinates,
              GpuTexel                    *texel)
{
  gboolean is_linear = sampler->filter_mode == GPU_FILTER_MODE_LINEAR
                       && _gpu_texel_get_kind (&level->format) == GPU_TEXEL_REAL;
  Axis axes[3];

  get_axes (level, sampler, coordinates, sampler->normalized_coordinates, is_linear, axes);

  if (is_linear)
    filter (level, sampler, axes, texel);
  else
    get_texel (level, sampler, axes[0].places[0], axes[1].places[0], axes[2].places[0], texel);
}

/* --- what kernels call ------------------------------------------------------------------------ */

static void
sample_levels (const GpuHostImage          *image,
               const GpuSamplerDescription *sampler,
               const double                *coordinates,
               double                       lod,
               GpuTexel                    *texel)
{
  double wanted = clamp (lod + (double) sampler->lod_bias, sampler->min_lod, sampler->max_lod);
  double number = clamp (wanted, 0, image->n_levels - 1);
  gboolean is_linear = sampler->mip_filter_mode == GPU_FILTER_MODE_LINEAR;
  guint first = (guint) (is_linear ? floor (number) : ceil (number + 0.5) - 1);
  double part = number - first;
  Level level = get_level (image, first, sampler);
  GpuTexel next;

  sample_level (&level, sampler, coordinates, texel);

  if (!is_linear || part == 0 || _gpu_texel_get_kind (&level.format) != GPU_TEXEL_REAL)
    return;

  level = get_level (image, first + 1, sampler);
  sample_level (&level, sampler, coordinates, &next);

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
  const double positions[] = { coordinates[0], coordinates[1], coordinates[2] };
  GpuSamplerDescription constant;
  const GpuSamplerDescription *description = get_sampler (sampler, &constant);
  Level level;

  if (lod != NULL && image->n_levels > 1)
    {
      sample_levels (image, description, positions, *lod, texel);
      return;
    }

  level = get_level (image, 0, description);
  sample_level (&level, description, positions, texel);
}

/* Integers are texels, whatever the sampler says. */
static void
image_fetch (const GpuHostImage *image,
             GpuHostSize         sampler,
             const int          *coordinates,
             void               *texel)
{
  GpuSamplerDescription constant;
  const GpuSamplerDescription *description = get_sampler (sampler, &constant);
  Level level = get_level (image, 0, description);
  double positions[3];
  Axis axes[3];

  for (guint i = 0; i < G_N_ELEMENTS (positions); i++)
    positions[i] = coordinates[i] + (i < level.n_dimensions ? 0.5 : 0);

  get_axes (&level, description, positions, FALSE, FALSE, axes);
  get_texel (&level, description, axes[0].places[0], axes[1].places[0], axes[2].places[0], texel);
}

static void
image_store (const GpuHostImage *image,
             const int          *coordinates,
             const void         *texel)
{
  static const GpuSamplerDescription none;
  Level level = get_level (image, 0, &none);
  const gsize sizes[] = { level.extent.width, level.extent.height, level.extent.depth };

  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    {
      if (coordinates[i] < 0 || (gsize) coordinates[i] >= sizes[i])
        return;
    }

  _gpu_texel_write (&level.format, texel, get_data (&level, coordinates[0], coordinates[1],
                                                    coordinates[2]));
}

const GpuHostImageFunctions _gpu_host_image_functions =
{
  .sample = image_sample,
  .fetch = image_fetch,
  .store = image_store
};
