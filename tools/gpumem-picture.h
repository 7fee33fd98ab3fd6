/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

/* A picture in the format of the kernels. A pixel has 32 bits, with red in the lowest byte, then
 * green, blue and alpha. */
typedef struct
{
  guint   width;
  guint   height;
  GBytes *pixels;     /* width * height pixels, no padding between rows */
} GpumemPicture;

#define GPUMEM_PIXEL(red, green, blue, alpha) \
  ((guint32) (red) | (guint32) (green) << 8 | (guint32) (blue) << 16 | (guint32) (alpha) << 24)

guint32       *gpumem_picture_try_alloc (guint                 width,
                                         guint                 height,
                                         GError              **error);
GpumemPicture *gpumem_picture_new       (guint                 width,
                                         guint                 height,
                                         GBytes               *pixels);
GpumemPicture *gpumem_picture_load      (const char           *path,
                                         GError              **error);
GpumemPicture *gpumem_picture_landscape (guint                 width,
                                         guint                 height);
GpumemPicture *gpumem_picture_histogram (const guint32        *before,
                                         const guint32        *after);
gboolean       gpumem_picture_save      (const GpumemPicture  *picture,
                                         const char           *path,
                                         GError              **error);
void           gpumem_picture_free      (GpumemPicture        *picture);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (GpumemPicture, gpumem_picture_free)

G_END_DECLS
