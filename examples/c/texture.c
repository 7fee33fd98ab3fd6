/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* texture: mirrors a GdkTexture on the device. No display is needed.
 *
 *   cc texture.c -o texture $(pkg-config --cflags --libs gpumem-1.0 gtk4)
 */
#include <gdk/gdk.h>
#include <gpumem/gpumem.h>

#define WIDTH 64
#define HEIGHT 48
#define STRIDE (WIDTH * sizeof (guint32))

static const char source[] =
  "__kernel void\n"
  "mirror (__read_only image2d_t in, sampler_t exact, __write_only image2d_t out)\n"
  "{\n"
  "  int x = (int) get_global_id (0);\n"
  "  int y = (int) get_global_id (1);\n"
  "  int2 from = (int2) (get_image_width (in) - 1 - x, y);\n"
  "\n"
  "  write_imagef (out, (int2) (x, y), read_imagef (in, exact, from));\n"
  "}\n";

/* GDK_MEMORY_DEFAULT, the format of gdk_texture_download(), is 0xaarrggbb. */
static guint32
get_colour (guint x, guint y)
{
  return 0xff000000 | x << 18 | y << 10 | (x ^ y);
}

static GdkTexture *
draw_texture (void)
{
  g_autofree guint32 *pixels = g_new (guint32, WIDTH * HEIGHT);
  g_autoptr (GBytes) bytes = NULL;

  for (guint y = 0; y < HEIGHT; y++)
    for (guint x = 0; x < WIDTH; x++)
      pixels[y * WIDTH + x] = get_colour (x, y);

  bytes = g_bytes_new_take (g_steal_pointer (&pixels), HEIGHT * STRIDE);
  return gdk_memory_texture_new (WIDTH, HEIGHT, GDK_MEMORY_DEFAULT, bytes, STRIDE);
}

static GBytes *
download (GdkTexture *texture)
{
  guint8 *pixels = g_malloc (HEIGHT * STRIDE);

  gdk_texture_download (texture, pixels, STRIDE);
  return g_bytes_new_take (pixels, HEIGHT * STRIDE);
}

/* The kernel does not use the colours, so the order of the channels does not matter. */
static GdkTexture *
mirror (GpuContext *context, GdkTexture *texture, GError **error)
{
  static const GpuImageFormat format = { GPU_CHANNEL_ORDER_RGBA, GPU_CHANNEL_TYPE_UNORM8 };
  const GpuExtent extent = { WIDTH, HEIGHT, 1 };
  g_autoptr (GpuStream) stream = NULL;
  g_autoptr (GBytes) pixels = download (texture);
  g_autoptr (GpuProgram) program = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuSampler) sampler = NULL;
  g_autoptr (GpuImage) in = NULL;
  g_autoptr (GpuImage) out = NULL;
  g_autoptr (GBytes) result = NULL;

  if ((stream = gpu_stream_new (context, GPU_STREAM_FLAGS_NONE, error)) == NULL ||
      (program = gpu_program_new_from_source (context, source, NULL, error)) == NULL ||
      (kernel = gpu_program_get_kernel (program, "mirror", error)) == NULL ||
      (sampler = gpu_sampler_new (context, FALSE, GPU_ADDRESS_MODE_CLAMP_TO_EDGE,
                                  GPU_FILTER_MODE_NEAREST, error)) == NULL ||
      (in = gpu_image_new_from_bytes (context, GPU_MEMORY_FLAGS_READ_ONLY, &format,
                                      GPU_IMAGE_TYPE_IMAGE_2D, &extent, pixels, STRIDE, 0,
                                      error)) == NULL ||
      (out = gpu_image_new (context, GPU_MEMORY_FLAGS_WRITE_ONLY, &format, GPU_IMAGE_TYPE_IMAGE_2D,
                            &extent, error)) == NULL ||
      !gpu_stream_launch (stream, kernel, &extent, NULL, error, in, sampler, out) ||
      (result = gpu_image_read_bytes (out, stream, NULL, NULL, NULL, error)) == NULL)
    return NULL;

  return gdk_memory_texture_new (WIDTH, HEIGHT, GDK_MEMORY_DEFAULT, result, STRIDE);
}

int
main (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuContext) context = gpu_context_new_default (&error);
  g_autoptr (GdkTexture) texture = draw_texture ();
  g_autoptr (GdkTexture) mirrored = NULL;
  g_autoptr (GBytes) bytes = NULL;
  const guint32 *pixels;

  if (context != NULL && !(gpu_device_get_capabilities (gpu_context_get_device (context))
                           & GPU_CAPABILITIES_IMAGES))
    {
      g_print ("the device has no images\n");
      return 77;
    }
  if (context == NULL || (mirrored = mirror (context, texture, &error)) == NULL)
    {
      g_printerr ("texture: %s\n", error->message);
      return 1;
    }

  bytes = download (mirrored);
  pixels = g_bytes_get_data (bytes, NULL);
  for (guint y = 0; y < HEIGHT; y++)
    for (guint x = 0; x < WIDTH; x++)
      if (pixels[y * WIDTH + x] != get_colour (WIDTH - 1 - x, y))
        g_error ("the pixel at %u, %u is %08x", x, y, pixels[y * WIDTH + x]);

  g_print ("mirrored a texture of %d x %d pixels on %s\n", WIDTH, HEIGHT,
           gpu_device_get_id (gpu_context_get_device (context)));
  return 0;
}
