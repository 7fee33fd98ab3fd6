/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <gdk-pixbuf/gdk-pixbuf.h>

#include "tools/gpumem-picture.h"

#define MAX_PIXELS (G_GUINT64_CONSTANT (1) << 27)   /* 512 MiB; the tour uses a dozen */

/* Returns: (transfer full): memory for the pixels; free with g_free() */
guint32 *
gpumem_picture_try_alloc (guint    width,
                          guint    height,
                          GError **error)
{
  guint32 *pixels = g_try_new (guint32, (gsize) width * height);

  if (pixels == NULL)
    g_set_error (error, G_IO_ERROR, G_IO_ERROR_NO_SPACE,
                 "No memory for a picture of %u x %u pixels", width, height);
  return pixels;
}

/* @pixels: (transfer full) */
GpumemPicture *
gpumem_picture_new (guint   width,
                    guint   height,
                    GBytes *pixels)
{
  GpumemPicture *picture = g_new0 (GpumemPicture, 1);

  picture->width = width;
  picture->height = height;
  picture->pixels = pixels;
  return picture;
}

void
gpumem_picture_free (GpumemPicture *picture)
{
  g_bytes_unref (picture->pixels);
  g_free (picture);
}

static gboolean
check_size (const char *path,
            int         width,
            int         height,
            GError    **error)
{
  if ((guint64) width * height <= MAX_PIXELS)
    return TRUE;
  g_set_error (error, G_IO_ERROR, G_IO_ERROR_NOT_SUPPORTED,
               "The picture '%s' has %d x %d pixels, more than the %" G_GUINT64_FORMAT
               " million that are supported", path, width, height, MAX_PIXELS / 1000000);
  return FALSE;
}

static GpumemPicture *
pack_pixels (GdkPixbuf *pixbuf,
             GError   **error)
{
  int width = gdk_pixbuf_get_width (pixbuf);
  int height = gdk_pixbuf_get_height (pixbuf);
  int n_channels = gdk_pixbuf_get_n_channels (pixbuf);
  guint32 *pixels = gpumem_picture_try_alloc (width, height, error);

  if (pixels == NULL)
    return NULL;
  for (int y = 0; y < height; y++)
    {
      const guint8 *from = gdk_pixbuf_read_pixels (pixbuf) +
                           (gsize) y * gdk_pixbuf_get_rowstride (pixbuf);
      guint32 *to = pixels + (gsize) y * width;

      for (int x = 0; x < width; x++, from += n_channels)
        to[x] = GPUMEM_PIXEL (from[0], from[1], from[2], n_channels > 3 ? from[3] : 255);
    }
  return gpumem_picture_new (width, height,
                             g_bytes_new_take (pixels, sizeof (guint32) * width * height));
}

/* Reads a PNG, a JPEG or any other format of gdk-pixbuf. */
GpumemPicture *
gpumem_picture_load (const char *path,
                     GError    **error)
{
  g_autoptr (GdkPixbuf) pixbuf = NULL;
  g_autoptr (GdkPixbuf) upright = NULL;
  int width = 0;
  int height = 0;

  if (g_file_test (path, G_FILE_TEST_EXISTS) && !g_file_test (path, G_FILE_TEST_IS_REGULAR))
    {
      g_set_error (error, G_IO_ERROR, G_IO_ERROR_NOT_REGULAR_FILE, "'%s' is not a file", path);
      return NULL;
    }
  if (gdk_pixbuf_get_file_info (path, &width, &height) != NULL &&
      !check_size (path, width, height, error))
    return NULL;
  pixbuf = gdk_pixbuf_new_from_file (path, error);
  if (pixbuf == NULL)
    return NULL;
  upright = gdk_pixbuf_apply_embedded_orientation (pixbuf);
  if (!check_size (path, gdk_pixbuf_get_width (upright), gdk_pixbuf_get_height (upright), error))
    return NULL;
  return pack_pixels (upright, error);
}

static gboolean
has_alpha (const GpumemPicture *picture)
{
  gsize n_pixels = (gsize) picture->width * picture->height;
  const guint32 *pixels = g_bytes_get_data (picture->pixels, NULL);

  for (gsize i = 0; i < n_pixels; i++)
    if (pixels[i] >> 24 != 255)
      return TRUE;
  return FALSE;
}

static GdkPixbuf *
unpack_pixels (const GpumemPicture *picture)
{
  const guint32 *from = g_bytes_get_data (picture->pixels, NULL);
  gboolean alpha = has_alpha (picture);
  GdkPixbuf *pixbuf = gdk_pixbuf_new (GDK_COLORSPACE_RGB, alpha, 8, picture->width,
                                      picture->height);

  if (pixbuf == NULL)
    return NULL;
  for (guint y = 0; y < picture->height; y++)
    {
      guint8 *to = gdk_pixbuf_get_pixels (pixbuf) + (gsize) y * gdk_pixbuf_get_rowstride (pixbuf);

      for (guint x = 0; x < picture->width; x++, from++)
        {
          *to++ = *from & 255;
          *to++ = *from >> 8 & 255;
          *to++ = *from >> 16 & 255;
          if (alpha)
            *to++ = *from >> 24;
        }
    }
  return pixbuf;
}

/* Writes a PNG atomically: @path never contains a partial file. */
gboolean
gpumem_picture_save (const GpumemPicture *picture,
                     const char          *path,
                     GError             **error)
{
  g_autoptr (GdkPixbuf) pixbuf = unpack_pixels (picture);
  g_autofree char *png = NULL;
  gsize size = 0;

  if (pixbuf == NULL)
    {
      g_set_error (error, G_IO_ERROR, G_IO_ERROR_NO_SPACE,
                   "No memory for a picture of %u x %u pixels", picture->width, picture->height);
      return FALSE;
    }
  return gdk_pixbuf_save_to_buffer (pixbuf, &png, &size, "png", error, "compression", "3", NULL) &&
         g_file_set_contents (path, png, size, error);
}
