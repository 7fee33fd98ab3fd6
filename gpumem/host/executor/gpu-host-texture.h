/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Reads texels through a sampler. Uses plain structures only, because the stand-in CUDA driver of
 * the tests (tests/cuda-driver/) also compiles this file.
 */
#pragma once

#include "gpumem/backend/gpu-backend.h"
#include "gpumem/format/gpu-texel-private.h"

G_BEGIN_DECLS

/* 0: samples by the rules of OpenCL. 1: samples like NVIDIA's devices, for the stand-in CUDA driver
 * of the tests. This is a macro because a check at run time would slow down the access to each
 * texel. */
#ifndef GPU_HOST_TEXTURE_CUDA
#define GPU_HOST_TEXTURE_CUDA 0
#endif

/* A mip level: sizes and pitches of its dimensions, then of the layers. Unused dimensions have
 * size 1. */
typedef struct
{
  guint8 *data;                     /* address of the first texel */
  gssize  sizes[3];
  gssize  pitches[3];               /* bytes from one texel, row, slice or layer to the next */
} GpuHostLevel;

typedef struct
{
  const GpuHostLevel *levels;
  guint               n_levels;
  guint               n_dimensions; /* of a layer, if there are layers */
  gboolean            has_layers;
  GpuImageFormat      formats[GPU_READ_MODE_NORMALIZED + 1]; /* texel format for each read mode */
} GpuHostTexture;

/* The index that stands for a position outside the image. */
#define GPU_HOST_OUTSIDE -1

/* Returns the index of the texel that @mode selects for the position @place, or GPU_HOST_OUTSIDE if
 * it selects none. @place may be any number. */
gssize _gpu_host_texture_find   (gint64                       place,
                                 gint64                       size,
                                 GpuAddressMode               mode);
/* Sets @texel to the border color. */
void   _gpu_host_texture_border (const GpuHostTexture        *texture,
                                 const GpuSamplerDescription *sampler,
                                 GpuTexel                    *texel);
/*
 * Samples at three @coordinates: those within a layer, then the number of the layer. @lod may be
 * NULL.
 *
 * By default, the result follows the specification of OpenCL C, in double precision. With
 * GPU_HOST_TEXTURE_CUDA, it follows NVIDIA's devices: weights are multiples of 1/256, a level of
 * detail half-way between two levels selects the less detailed one, coordinates are rounded down to
 * a texel before they are mirrored, and the border color of integer formats has the bits of the
 * floats.
 */
void   _gpu_host_texture_sample (const GpuHostTexture        *texture,
                                 const GpuSamplerDescription *sampler,
                                 const float                 *coordinates,
                                 const float                 *lod,
                                 GpuTexel                    *texel);

G_END_DECLS
