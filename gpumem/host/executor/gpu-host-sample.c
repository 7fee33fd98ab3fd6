/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The functions that kernels call to read and write images. To read with a sampler,
 * these functions call gpu-host-texture.c. */
#include "config.h"

#include "gpumem/host/executor/gpu-host-executor.h"

/* The samplers that the sampler constants in kernel sources denote. The index is the constant. */
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

static void
image_sample (const GpuHostImage *image,
              GpuHostSize         sampler,
              const float        *coordinates,
              const float        *lod,
              void               *texel)
{
  _gpu_host_texture_sample (&get_native (image)->texture, get_sampler (sampler), coordinates, lod,
                            texel);
}

/* Reads the texel at integer coordinates. The address modes of the sampler apply to coordinates
 * outside the image; its filter mode and normalization have no effect. */
static void
image_fetch (const GpuHostImage *image,
             GpuHostSize         sampler,
             const int          *coordinates,
             void               *texel)
{
  const GpuHostTexture *self = &get_native (image)->texture;
  const GpuSamplerDescription *description = get_sampler (sampler);
  const GpuHostLevel *level = &self->levels[0];
  const guint8 *data = level->data;
  guint i;

  for (i = 0; i < self->n_dimensions; i++)
    {
      gssize place = _gpu_host_texture_find (coordinates[i], level->sizes[i],
                                             description->address_modes[i]);

      if (place == GPU_HOST_OUTSIDE)
        {
          _gpu_host_texture_border (self, description, texel);
          return;
        }

      data += place * level->pitches[i];
    }

  if (self->has_layers)
    data += CLAMP (coordinates[i], 0, level->sizes[i] - 1) * level->pitches[i];

  _gpu_texel_read (&self->formats[description->read_mode], data, texel);
}

static void
image_store (const GpuHostImage *image,
             const int          *coordinates,
             const void         *texel)
{
  const GpuHostTexture *self = &get_native (image)->texture;
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
