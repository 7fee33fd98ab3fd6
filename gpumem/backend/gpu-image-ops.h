/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Images. gpu-backend.h has the rules for every op. */
#pragma once

#include "gpumem/backend/gpu-memory-ops.h"

G_BEGIN_DECLS

/* The description of an image. If images of @type have fewer than three dimensions, the unused
 * dimensions of @extent are 1. */
typedef struct
{
  GpuImageType   type;
  GpuImageFormat format;
  gsize          texel_size;        /* bytes */
  GpuExtent      extent;            /* of the first level, in texels; in arrays, the number of
                                     * layers is the height (1D) or the depth (2D and cubemaps); a
                                     * cubemap has 6 layers */
  guint          n_levels;          /* 1 without mip levels */
} GpuImageDescription;

struct _GpuNativeImage
{
  GpuNativeMemory     base;
  GpuImageDescription description;
  gsize               row_pitch;    /* bytes; the size of a row if the image is not linear */
  gsize               slice_pitch;  /* bytes; the size of a slice if the image is not linear */
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

/* A back end has this table only if one of its devices may have GPU_CAPABILITIES_IMAGES. */
typedef struct
{
  /* Whether kernels accept an image with a sampler as a value argument. */
  gboolean          has_textures;

  /* any thread. Appends a GpuImageFormat for each format that images of @type may have if they are
   * created with @flags. */
  GpuImageListFormatsOp *list_formats;
  /* any thread. Gets the maximum extent of images of @type. All members are 0 if there are no such
   * images. */
  GpuImageGetMaxExtentOp *get_max_extent;
  /* any thread. The format is one of list_formats(), the extent is not empty and at most the
   * maximum, and the number of levels is valid: it is 1 without GPU_CAPABILITIES_MIPMAPS. @data, if
   * not NULL, is the initial content of the first level, with the given pitches. The op copies
   * @data before it returns. */
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
  /* any thread; may be NULL. @format may be NULL. If the driver does not report the format of the
   * texels, the image has the format @format. If the driver reports a format that differs from
   * @format, the op fails. */
  GpuImageWrapOp *wrap;
  /* any thread; may be NULL. Gets the mip level @level of @image, counted from 0. The level exists.
   * @image outlives the result. */
  GpuNativeImage *  (*get_level)      (GpuNativeContext          *context,
                                       GpuNativeImage            *image,
                                       guint                      level,
                                       GError                   **error);
  /* any thread; may be NULL. Gets the handle, never 0, of the driver's texture object for @image
   * and @sampler, or of its surface object for @image if @sampler is NULL. The handle is valid
   * until the image is freed. */
  GpuImageGetObjectOp *get_object;

  /* All ops below are stream ops. */

  /* May be NULL: the public class then writes a row of texels and copies it. @texel has
   * description.texel_size bytes, which may change once the call has returned. */
  GpuImageFillOp *fill;
  /* May be NULL. Like GpuBufferOps.map(); also sets the pitches of the mapping. */
  GpuImageMapOp *map;
} GpuImageOps;

G_END_DECLS
