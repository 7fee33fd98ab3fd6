/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Reads texels through a sampler. Uses plain structures only: the stand-in CUDA driver of the tests
 * compiles it as well (tests/cuda-driver/).
 */
#pragma once

#include "gpumem/backend/gpu-backend.h"
#include "gpumem/format/gpu-texel-private.h"

G_BEGIN_DECLS

/* The stand-in is compiled with 1. A constant: a test per texel would cost the host time. */
#ifndef GPU_HOST_TEXTURE_CUDA
#define GPU_HOST_TEXTURE_CUDA 0
#endif

/* A level of an image, by its dimensions and then the layers; unused dimensions have size 1. */
typedef struct
{
  guint8 *data;                     /* of the first texel */
  gssize  sizes[3];
  gssize  pitches[3];               /* bytes from one texel, row, slice or layer to the next */
} GpuHostLevel;

typedef struct
{
  const GpuHostLevel *levels;
  guint               n_levels;
  guint               n_dimensions; /* of a layer, where there are layers */
  gboolean            has_layers;
  GpuImageFormat      formats[GPU_READ_MODE_NORMALIZED + 1]; /* of the texels, by read mode */
} GpuHostTexture;

/* The index of no texel. */
#define GPU_HOST_OUTSIDE -1

/* Finds the texel that @mode reads at any @place, or GPU_HOST_OUTSIDE. */
gssize _gpu_host_texture_find   (gint64                       place,
                                 gint64                       size,
                                 GpuAddressMode               mode);
/* Sets @texel to the border color. */
void   _gpu_host_texture_border (const GpuHostTexture        *texture,
                                 const GpuSamplerDescription *sampler,
                                 GpuTexel                    *texel);
/*
 * Reads at three @coordinates; that of the layer follows those within a layer. @lod may be NULL.
 *
 * By default as OpenCL C specifies, in double precision. With GPU_HOST_TEXTURE_CUDA as NVIDIA's
 * devices do: weights are multiples of 1/256, a level of detail half-way between two levels reads
 * the less detailed one, a coordinate is rounded down to a texel before it is mirrored, and the
 * border color of integers is the bits of the numbers.
 */
void   _gpu_host_texture_sample (const GpuHostTexture        *texture,
                                 const GpuSamplerDescription *sampler,
                                 const float                 *coordinates,
                                 const float                 *lod,
                                 GpuTexel                    *texel);

G_END_DECLS
