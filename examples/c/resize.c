/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* resize: halves a picture on the device, through an image and a sampler.
 *
 *   cc resize.c -o resize $(pkg-config --cflags --libs gpumem-1.0 gdk-pixbuf-2.0) -lm
 *   ./resize holiday.jpeg small.png
 *
 * Without arguments, the program draws a picture and writes resize.png.
 */
#include <math.h>

#include <gdk-pixbuf/gdk-pixbuf.h>
#include <gpumem/gpumem.h>

/* Samplers in hardware interpolate with weights of about eight bits, so results may differ from
 * those of the CPU. */
#define TOLERANCE 2

/* A kernel in the portable dialect, which OpenCL, CUDA and the host back end can build. */
static const char source[] =
  "__kernel void\n"
  "resize (__read_only image2d_t in, sampler_t between, __write_only image2d_t out)\n"
  "{\n"
  "  int x = (int) get_global_id (0);\n"
  "  int y = (int) get_global_id (1);\n"
  "  float u = ((float) x + 0.5f) / (float) get_image_width (out);\n"
  "  float v = ((float) y + 0.5f) / (float) get_image_height (out);\n"
  "\n"
  "  write_imagef (out, (int2) (x, y), read_imagef (in, between, (float2) (u, v)));\n"
  "}\n";

/* Images have texels of four bytes, including alpha. */
static GdkPixbuf *
draw_picture (void)
{
  GdkPixbuf *picture = gdk_pixbuf_new (GDK_COLORSPACE_RGB, TRUE, 8, 321, 240);
  guint8 *pixels = gdk_pixbuf_get_pixels (picture);
  int stride = gdk_pixbuf_get_rowstride (picture);

  for (int y = 0; y < 240; y++)
    {
      for (int x = 0; x < 321; x++)
        {
          guint8 *pixel = pixels + y * stride + x * 4;

          pixel[0] = x * 255 / 320;
          pixel[1] = y * 255 / 239;
          pixel[2] = (x / 16 + y / 16) % 2 * 255;
          pixel[3] = 255;
        }
    }

  return picture;
}

static GdkPixbuf *
load_picture (const char *path, GError **error)
{
  g_autoptr (GdkPixbuf) picture = gdk_pixbuf_new_from_file (path, error);

  return picture != NULL ? gdk_pixbuf_add_alpha (picture, FALSE, 0, 0, 0) : NULL;
}

static GdkPixbuf *
process (GpuContext *context, GdkPixbuf *picture, GError **error)
{
  static const GpuImageFormat format = { GPU_CHANNEL_ORDER_RGBA, GPU_CHANNEL_TYPE_UNORM8 };
  g_autoptr (GBytes) pixels = gdk_pixbuf_read_pixel_bytes (picture);
  g_autoptr (GpuStream) stream = gpu_context_get_default_stream (context);
  g_autoptr (GpuProgram) program = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuSampler) sampler = NULL;
  g_autoptr (GpuImage) in = NULL;
  g_autoptr (GpuImage) out = NULL;
  g_autoptr (GBytes) result = NULL;
  GpuExtent extent = { gdk_pixbuf_get_width (picture), gdk_pixbuf_get_height (picture), 1 };
  GpuExtent half = { MAX (extent.width / 2, 1), MAX (extent.height / 2, 1), 1 };

  /* Rows of a pixbuf may be padded: pass the row pitch. */
  if ((program = gpu_program_new_from_source (context, source, NULL, error)) == NULL ||
      (kernel = gpu_program_get_kernel (program, "resize", error)) == NULL ||
      (sampler = gpu_sampler_new (context, TRUE, GPU_ADDRESS_MODE_CLAMP_TO_EDGE,
                                  GPU_FILTER_MODE_LINEAR, error)) == NULL ||
      (in = gpu_image_new_from_bytes (context, GPU_MEMORY_FLAGS_READ_ONLY, &format,
                                      GPU_IMAGE_TYPE_IMAGE_2D, &extent, pixels,
                                      gdk_pixbuf_get_rowstride (picture), 0, error)) == NULL ||
      (out = gpu_image_new (context, GPU_MEMORY_FLAGS_WRITE_ONLY, &format, GPU_IMAGE_TYPE_IMAGE_2D,
                            &half, error)) == NULL)
    return NULL;

  if (!gpu_stream_launch (stream, kernel, &half, NULL, error, in, sampler, out) ||
      (result = gpu_image_read_bytes (out, stream, NULL, NULL, NULL, error)) == NULL)
    return NULL;

  return gdk_pixbuf_new_from_bytes (result, GDK_COLORSPACE_RGB, TRUE, 8, half.width, half.height,
                                    4 * half.width);
}

/* Interpolates red between four pixels of the picture. */
static double
sample (GdkPixbuf *picture, double x, double y)
{
  const guint8 *pixels = gdk_pixbuf_read_pixels (picture);
  int stride = gdk_pixbuf_get_rowstride (picture);
  double sum = 0;

  for (int j = 0; j < 2; j++)
    for (int i = 0; i < 2; i++)
      {
        int u = CLAMP (floor (x) + i, 0, gdk_pixbuf_get_width (picture) - 1);
        int v = CLAMP (floor (y) + j, 0, gdk_pixbuf_get_height (picture) - 1);

        sum += (1 - fabs (x - floor (x) - i)) * (1 - fabs (y - floor (y) - j))
               * pixels[v * stride + u * 4];
      }

  return sum;
}

/* Verifies every pixel on the CPU. */
static gboolean
check (GdkPixbuf *picture, GdkPixbuf *result, GError **error)
{
  const guint8 *out = gdk_pixbuf_read_pixels (result);
  int width = gdk_pixbuf_get_width (result);
  int height = gdk_pixbuf_get_height (result);
  int stride = gdk_pixbuf_get_rowstride (result);

  for (int y = 0; y < height; y++)
    for (int x = 0; x < width; x++)
      {
        double expected = sample (picture,
                                  (x + 0.5) * gdk_pixbuf_get_width (picture) / width - 0.5,
                                  (y + 0.5) * gdk_pixbuf_get_height (picture) / height - 0.5);

        if (fabs (out[y * stride + x * 4] - expected) > TOLERANCE)
          {
            g_set_error (error, GPU_ERROR, GPU_ERROR_FAILED, "red at %d, %d is %d, not %.1f", x,
                         y, out[y * stride + x * 4], expected);
            return FALSE;
          }
      }

  return TRUE;
}

static gboolean
has_images (GpuContext *context)
{
  return (gpu_device_get_capabilities (gpu_context_get_device (context))
          & GPU_CAPABILITIES_IMAGES) != 0;
}

int
main (int argc, char **argv)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuContext) context = NULL;
  g_autoptr (GdkPixbuf) picture = NULL;
  g_autoptr (GdkPixbuf) result = NULL;
  const char *target = argc > 2 ? argv[2] : "resize.png";

  picture = argc > 1 ? load_picture (argv[1], &error) : draw_picture ();

  if (picture != NULL && (context = gpu_context_new_default (&error)) != NULL &&
      !has_images (context))
    {
      g_print ("the device has no images\n");
      return 77;
    }

  if (error != NULL || (result = process (context, picture, &error)) == NULL ||
      !check (picture, result, &error) ||
      !gdk_pixbuf_save (result, target, "png", &error, NULL))
    {
      g_printerr ("resize: %s\n", error->message);
      return 1;
    }

  g_print ("%d x %d pixels from %d x %d on %s: see %s\n", gdk_pixbuf_get_width (result),
           gdk_pixbuf_get_height (result), gdk_pixbuf_get_width (picture),
           gdk_pixbuf_get_height (picture),
           gpu_device_get_id (gpu_context_get_device (context)), target);
  return 0;
}
