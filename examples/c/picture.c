/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* picture: blurs a picture and inverts its colours on the device.
 *
 *   cc picture.c -o picture $(pkg-config --cflags --libs gpumem-1.0 gdk-pixbuf-2.0)
 *   ./picture holiday.jpeg blurred.png
 *
 * Without arguments, the program draws a picture and writes picture.png.
 */
#include <gdk-pixbuf/gdk-pixbuf.h>
#include <gpumem/gpumem.h>

#define RADIUS 2

/* This OpenCL C is also valid C, so the host back end can compile it. */
static const char source[] =
  "__kernel void\n"
  "blur (__global const uchar *in, __global uchar *out, int width, int height, int stride,\n"
  "      int channels, int radius)\n"
  "{\n"
  "  int x = (int) get_global_id (0);\n"
  "  int y = (int) get_global_id (1);\n"
  "\n"
  "  for (int c = 0; c < channels; c++)\n"
  "    {\n"
  "      int sum = 0;\n"
  "      int n = 0;\n"
  "\n"
  "      for (int v = max (y - radius, 0); v <= min (y + radius, height - 1); v++)\n"
  "        for (int u = max (x - radius, 0); u <= min (x + radius, width - 1); u++)\n"
  "          {\n"
  "            sum += in[v * stride + u * channels + c];\n"
  "            n++;\n"
  "          }\n"
  "      out[y * stride + x * channels + c] = (uchar) (sum / n);\n"
  "    }\n"
  "}\n"
  "\n"
  "__kernel void\n"
  "invert (__global uchar *pixels, int stride, int channels)\n"
  "{\n"
  "  int first = (int) get_global_id (1) * stride + (int) get_global_id (0) * channels;\n"
  "\n"
  "  for (int c = 0; c < 3; c++)\n"
  "    pixels[first + c] = (uchar) (255 - pixels[first + c]);\n"
  "}\n";

static GdkPixbuf *
draw_picture (void)
{
  GdkPixbuf *picture = gdk_pixbuf_new (GDK_COLORSPACE_RGB, FALSE, 8, 320, 240);
  guint8 *pixels = gdk_pixbuf_get_pixels (picture);
  int stride = gdk_pixbuf_get_rowstride (picture);

  for (int y = 0; y < 240; y++)
    {
      for (int x = 0; x < 320; x++)
        {
          guint8 *pixel = pixels + y * stride + x * 3;

          pixel[0] = x * 255 / 319;
          pixel[1] = y * 255 / 239;
          pixel[2] = (x / 16 + y / 16) % 2 * 255;
        }
    }

  return picture;
}

/* Processes the picture on the device. Returns a picture of the same size. */
static GdkPixbuf *
process (GpuContext *context, GdkPixbuf *picture, GError **error)
{
  g_autoptr (GBytes) pixels = gdk_pixbuf_read_pixel_bytes (picture);
  g_autoptr (GpuBuffer) in = NULL;
  g_autoptr (GpuBuffer) out = NULL;
  g_autoptr (GpuProgram) program = NULL;
  g_autoptr (GpuKernel) blur = NULL;
  g_autoptr (GpuKernel) invert = NULL;
  g_autoptr (GBytes) result = NULL;
  g_autoptr (GpuStream) stream = gpu_context_get_default_stream (context);
  gsize size = g_bytes_get_size (pixels);
  int width = gdk_pixbuf_get_width (picture);
  int height = gdk_pixbuf_get_height (picture);
  int stride = gdk_pixbuf_get_rowstride (picture);
  int channels = gdk_pixbuf_get_n_channels (picture);
  GpuExtent grid = { width, height, 1 };

  if ((program = gpu_program_new_from_source (context, source, NULL, error)) == NULL ||
      (blur = gpu_program_get_kernel (program, "blur", error)) == NULL ||
      (invert = gpu_program_get_kernel (program, "invert", error)) == NULL ||
      (in = gpu_buffer_new (context, GPU_MEMORY_FLAGS_NONE, size, error)) == NULL ||
      (out = gpu_buffer_new (context, GPU_MEMORY_FLAGS_NONE, size, error)) == NULL)
    return NULL;

  if (!gpu_stream_write (stream, GPU_MEMORY (in), 0, pixels, error) ||
      !gpu_stream_launch (stream, blur, &grid, NULL, error, in, out, width, height, stride,
                          channels, RADIUS) ||
      !gpu_stream_launch (stream, invert, &grid, NULL, error, out, stride, channels) ||
      (result = gpu_buffer_read_bytes (out, stream, 0, size, NULL, error)) == NULL)
    return NULL;

  return gdk_pixbuf_new_from_bytes (result, GDK_COLORSPACE_RGB, channels == 4, 8, width, height,
                                    stride);
}

/* Verifies about 10,000 pixels on the CPU. */
static gboolean
check (GdkPixbuf *picture, GdkPixbuf *result, GError **error)
{
  const guint8 *in = gdk_pixbuf_read_pixels (picture);
  const guint8 *out = gdk_pixbuf_read_pixels (result);
  int width = gdk_pixbuf_get_width (picture);
  int height = gdk_pixbuf_get_height (picture);
  int stride = gdk_pixbuf_get_rowstride (picture);
  int channels = gdk_pixbuf_get_n_channels (picture);
  gsize step = MAX ((gsize) width * height / 10000, 1);

  for (gsize i = 0; i < (gsize) width * height; i += step)
    {
      int x = i % width;
      int y = i / width;
      int sum = 0;
      int n = 0;

      for (int v = MAX (y - RADIUS, 0); v <= MIN (y + RADIUS, height - 1); v++)
        for (int u = MAX (x - RADIUS, 0); u <= MIN (x + RADIUS, width - 1); u++, n++)
          sum += in[v * stride + u * channels];
      if (out[y * stride + x * channels] != 255 - sum / n)
        {
          g_set_error (error, GPU_ERROR, GPU_ERROR_FAILED, "red at %d, %d is %d, not %d", x, y,
                       out[y * stride + x * channels], 255 - sum / n);
          return FALSE;
        }
    }

  return TRUE;
}

int
main (int argc, char **argv)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuContext) context = NULL;
  g_autoptr (GdkPixbuf) picture = NULL;
  g_autoptr (GdkPixbuf) result = NULL;
  const char *target = argc > 2 ? argv[2] : "picture.png";

  picture = argc > 1 ? gdk_pixbuf_new_from_file (argv[1], &error) : draw_picture ();

  if (picture == NULL ||
      (context = gpu_context_new_default (&error)) == NULL ||
      (result = process (context, picture, &error)) == NULL ||
      !check (picture, result, &error) ||
      !gdk_pixbuf_save (result, target, "png", &error, NULL))
    {
      g_printerr ("picture: %s\n", error->message);
      return 1;
    }

  g_print ("blurred and inverted %d x %d pixels on %s: see %s\n", gdk_pixbuf_get_width (result),
           gdk_pixbuf_get_height (result), gpu_device_get_id (gpu_context_get_device (context)),
           target);
  return 0;
}
