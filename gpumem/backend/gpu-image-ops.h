/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Images. gpu-backend.h has the rules for every op. */
#pragma once

#include "gpumem/backend/gpu-memory-ops.h"

G_BEGIN_DECLS

/* What an image is. The dimensions of @extent that its type does not have are 1. */
typedef struct
{
  GpuImageType   type;
  GpuImageFormat format;
  gsize          texel_size;        /* bytes */
  GpuExtent      extent;            /* texels, of the first level; the layers of an array stand in
                                     * the dimension after those of a layer: 6 for a cubemap */
  guint          n_levels;          /* 1 without mip levels */
} GpuImageDescription;

struct _GpuNativeImage
{
  GpuNativeMemory     base;
  GpuImageDescription description;
  gsize               row_pitch;    /* bytes: those of the memory where it is linear, or else of */
  gsize               slice_pitch;  /* texels that follow each other tightly */
};

typedef gboolean GpuImageListFormatsOp (GpuNativeContext *context,
                                        GpuMemoryFlags    flags,
                                        GpuImageType      type,
                                        GArray           *formats,
                                        GError          **error);
typedef void GpuImageGetMaxExtentOp (GpuNativeContext *context,
                                     GpuImageType      type,
                                     GpuExtent        *extent);
typedef GpuNativeImage *GpuImageCreateForBufferOp (GpuNativeContext          *context,
                                                   GpuMemoryFlags             flags,
                                                   const GpuImageDescription *description,
                                                   GpuNativeBuffer           *buffer,
                                                   gsize                      row_pitch,
                                                   GError                   **error);
typedef GpuNativeImage *GpuImageWrapOp (GpuNativeContext     *context,
                                        guint64               handle,
                                        const GpuImageFormat *format,
                                        GpuWrapMode           mode,
                                        GError              **error);
typedef gboolean GpuImageGetObjectOp (GpuNativeContext *context,
                                      GpuNativeImage   *image,
                                      GpuNativeSampler *sampler,
                                      guint64          *handle,
                                      GError          **error);
typedef gboolean GpuImageFillOp (GpuNativeStream     *stream,
                                 GpuNativeImage      *image,
                                 const GpuRegionSide *side,
                                 const GpuExtent     *extent,
                                 gconstpointer        texel,
                                 GpuNativeEvent     **event,
                                 GError             **error);
typedef gpointer GpuImageMapOp (GpuNativeStream     *stream,
                                GpuNativeImage      *image,
                                GpuMapFlags          flags,
                                const GpuRegionSide *side,
                                const GpuExtent     *extent,
                                gsize               *row_pitch,
                                gsize               *slice_pitch,
                                GpuNativeEvent     **event,
                                GError             **error);

/* Images: everything where the capability GPU_CAPABILITIES_IMAGES is, or the back end has none. */
typedef struct
{
  /* Whether an image and a sampler make a value that kernels take as an argument. */
  gboolean          has_textures;

  /* any thread. Appends the formats, of GpuImageFormat, that images of @type with @flags have. */
  GpuImageListFormatsOp *list_formats;
  /* any thread. The greatest extent of images of @type, all zeros where there are none. */
  GpuImageGetMaxExtentOp *get_max_extent;
  /* any thread. The format is one of list_formats(), the extent not empty and at most the greatest,
   * the number of levels 1 unless GPU_CAPABILITIES_MIPMAPS is there, and possible then. @data, if
   * not NULL, are the texels of the first level to begin with, with these pitches, copied before
   * the call returns. */
  GpuNativeImage *  (*create)         (GpuNativeContext          *context,
                                       GpuMemoryFlags             flags,
                                       const GpuImageDescription *description,
                                       gconstpointer              data,
                                       gsize                      row_pitch,
                                       gsize                      slice_pitch,
                                       GError                   **error);
  /* any thread; may be NULL. Uses @data in place; it outlives the image. */
  GpuNativeImage *  (*create_for_host) (GpuNativeContext          *context,
                                        GpuMemoryFlags             flags,
                                        const GpuImageDescription *description,
                                        gpointer                   data,
                                        gsize                      row_pitch,
                                        gsize                      slice_pitch,
                                        GError                   **error);
  /* any thread; may be NULL. An image over @buffer, which outlives it, of the type 1D_BUFFER, or 2D
   * with @row_pitch where GPU_CAPABILITIES_IMAGE_FROM_BUFFER is there. @buffer may be a slice. What
   * @row_pitch and the beginning of the buffer have to be multiples of is for the op to check. */
  GpuImageCreateForBufferOp *create_for_buffer;
  /* any thread; may be NULL. @format, nullable, is what the texels mean where the driver does not
   * tell; it is an error where it does and tells another one. */
  GpuImageWrapOp *wrap;
  /* any thread; may be NULL. A level, from 0 on, of @image, which has that many and outlives it. */
  GpuNativeImage *  (*get_level)      (GpuNativeContext          *context,
                                       GpuNativeImage            *image,
                                       guint                      level,
                                       GError                   **error);
  /* any thread; may be NULL. The driver's handle, never 0, of what kernels read @image by with
   * @sampler, or write it by if that is NULL. It lives as long as the image. */
  GpuImageGetObjectOp *get_object;

  /* The rest are stream ops. */

  /* May be NULL: the front class then writes a row of texels and copies it. @texel are
   * description.texel_size bytes, which may change once the call has returned. */
  GpuImageFillOp *fill;
  /* May be NULL. The same as GpuBufferOps.map(), with the pitches of what comes. */
  GpuImageMapOp *map;
} GpuImageOps;

G_END_DECLS
