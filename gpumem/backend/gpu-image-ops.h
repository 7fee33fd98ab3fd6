/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Images. gpu-backend.h has the rules for every op. */
#pragma once

#include "gpumem/backend/gpu-memory-ops.h"

G_BEGIN_DECLS

/* The description of an image. Dimensions of @extent that images of @type lack are 1. */
typedef struct
{
  GpuImageType   type;
  GpuImageFormat format;
  gsize          texel_size;        /* bytes */
  GpuExtent      extent;            /* texels, of the first level; the number of layers is in the
                                     * dimension after the dimensions of a layer; a cubemap has 6
                                     * layers */
  guint          n_levels;          /* 1 without mip levels */
} GpuImageDescription;

struct _GpuNativeImage
{
  GpuNativeMemory     base;
  GpuImageDescription description;
  gsize               row_pitch;    /* bytes; of tightly packed texels if not linear */
  gsize               slice_pitch;  /* bytes; of tightly packed texels if not linear */
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

/* Present if any device has GPU_CAPABILITIES_IMAGES; otherwise the back end has no table. */
typedef struct
{
  /* Whether kernels accept an image with a sampler as a value argument. */
  gboolean          has_textures;

  /* any thread. Appends a GpuImageFormat for each format of images of @type with @flags. */
  GpuImageListFormatsOp *list_formats;
  /* any thread. Gets the maximum extent of images of @type, all zeros if there are none. */
  GpuImageGetMaxExtentOp *get_max_extent;
  /* any thread. The format is one of list_formats(), the extent is not empty and at most the
   * maximum, and the number of levels is valid: it is 1 without GPU_CAPABILITIES_MIPMAPS. @data, if
   * not NULL, is the initial contents of the first level, with these pitches, copied before the
   * call returns. */
  GpuNativeImage *  (*create)         (GpuNativeContext          *context,
                                       GpuMemoryFlags             flags,
                                       const GpuImageDescription *description,
                                       gconstpointer              data,
                                       gsize                      row_pitch,
                                       gsize                      slice_pitch,
                                       GError                   **error);
  /* any thread; may be NULL. Uses @data in place. @data outlives the image. */
  GpuNativeImage *  (*create_for_host) (GpuNativeContext          *context,
                                        GpuMemoryFlags             flags,
                                        const GpuImageDescription *description,
                                        gpointer                   data,
                                        gsize                      row_pitch,
                                        gsize                      slice_pitch,
                                        GError                   **error);
  /* any thread; may be NULL. Creates an image over @buffer, which outlives the image. The image is
   * of the type 1D_BUFFER, or 2D with @row_pitch if GPU_CAPABILITIES_IMAGE_FROM_BUFFER is present.
   * @buffer may be a slice. The op checks the alignment of @row_pitch and of the beginning of the
   * buffer. */
  GpuImageCreateForBufferOp *create_for_buffer;
  /* any thread; may be NULL. @format (nullable) is the format of the texels if the driver does not
   * report the format. If the driver reports another format than @format, the op fails. */
  GpuImageWrapOp *wrap;
  /* any thread; may be NULL. Gets the mip level @level of @image, counted from 0. The level exists.
   * @image outlives the result. */
  GpuNativeImage *  (*get_level)      (GpuNativeContext          *context,
                                       GpuNativeImage            *image,
                                       guint                      level,
                                       GError                   **error);
  /* any thread; may be NULL. Gets the driver's handle, never 0, by which kernels read @image with
   * @sampler, or write it if @sampler is NULL. The handle lives as long as the image. */
  GpuImageGetObjectOp *get_object;

  /* The remaining ops are stream ops. */

  /* May be NULL: the public class then writes a row of texels and copies it. @texel has
   * description.texel_size bytes, which may change once the call has returned. */
  GpuImageFillOp *fill;
  /* May be NULL. Like GpuBufferOps.map(); also sets the pitches of the mapping. */
  GpuImageMapOp *map;
} GpuImageOps;

G_END_DECLS
