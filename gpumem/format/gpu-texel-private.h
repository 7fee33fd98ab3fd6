/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Texels as stored in memory and as seen by kernels, independent of any driver. */
#pragma once

#include <gpumem/gpumem.h>

G_BEGIN_DECLS

#define GPU_TEXEL_SIZE_MAX 16

typedef enum
{
  GPU_TEXEL_REAL,                   /* normalized and floating-point channels */
  GPU_TEXEL_INTEGER,                /* signed integer channels */
  GPU_TEXEL_NATURAL                 /* unsigned integer channels */
} GpuTexelKind;

/* Red, green, blue and alpha, in the types that read_imagef(), read_imagei() and read_imageui()
 * return. */
typedef union
{
  float   real[4];
  gint32  integer[4];
  guint32 natural[4];
} GpuTexel;

GpuTexelKind _gpu_texel_get_kind   (const GpuImageFormat *format);
/* Returns the integer that @channel stores for 1.0, or 0 if the format is not normalized. Channel 0
 * is red. */
guint        _gpu_texel_get_one    (const GpuImageFormat *format,
                                    guint                 channel);
/* Reads a texel as a kernel does. Components that @format lacks are 0, or 1 for alpha. The single
 * channel of luminance is read as red, green and blue, and that of intensity also as alpha. */
void         _gpu_texel_read       (const GpuImageFormat *format,
                                    const guint8         *data,
                                    GpuTexel             *texel);
/* Writes a texel. Rounds to the nearest value, with ties to even, and clamps. */
void         _gpu_texel_write      (const GpuImageFormat *format,
                                    const GpuTexel       *texel,
                                    guint8               *data);
/* Changes the components that @format does not store to the values that _gpu_texel_read() would
 * return for them. Does not round. */
void         _gpu_texel_restrict   (const GpuImageFormat *format,
                                    GpuTexel             *texel);
/* Writes @color to @data, which has gpu_image_format_get_texel_size() bytes. */
void         _gpu_texel_from_color (const GpuImageFormat *format,
                                    const GpuColor       *color,
                                    guint8               *data);

G_END_DECLS
