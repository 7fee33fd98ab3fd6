/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Texels as they stand in memory, and as kernels see them: no driver is in between. */
#pragma once

#include <gpumem/gpumem.h>

G_BEGIN_DECLS

#define GPU_TEXEL_SIZE_MAX 16

typedef enum
{
  GPU_TEXEL_REAL,                   /* of normalized and floating-point channels */
  GPU_TEXEL_INTEGER,                /* of signed ones */
  GPU_TEXEL_NATURAL                 /* of unsigned ones */
} GpuTexelKind;

/* Red, green, blue, alpha: what read_imagef(), read_imagei() and read_imageui() give. */
typedef union
{
  float   real[4];
  gint32  integer[4];
  guint32 natural[4];
} GpuTexel;

GpuTexelKind _gpu_texel_get_kind   (const GpuImageFormat *format);
/* The number that stands for 1.0 in @channel, 0 of the red one; 0 unless normalized. */
guint        _gpu_texel_get_one    (const GpuImageFormat *format,
                                    guint                 channel);
/* Channels that the format lacks are 0, alpha 1. */
void         _gpu_texel_read       (const GpuImageFormat *format,
                                    const guint8         *data,
                                    GpuTexel             *texel);
/* Rounds to the nearest and to even, and clamps. */
void         _gpu_texel_write      (const GpuImageFormat *format,
                                    const GpuTexel       *texel,
                                    guint8               *data);
/* Keeps of @texel what a texel of @format can hold: the rest is 0, alpha 1. */
void         _gpu_texel_restrict   (const GpuImageFormat *format,
                                    GpuTexel             *texel);
/* @data: gpu_image_format_get_texel_size() bytes. */
void         _gpu_texel_from_color (const GpuImageFormat *format,
                                    const GpuColor       *color,
                                    guint8               *data);

G_END_DECLS
