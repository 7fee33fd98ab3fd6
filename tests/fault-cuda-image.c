/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* All kinds of CUDA arrays and their levels, wrapped arrays, copies of separate rows and slices,
 * mappings through page-locked blocks, texture and surface objects, while CUDA calls fail. */
#include "config.h"

#include "fault-util.h"

#define SIDE  8
#define TEXEL 4
#define ROW   (SIDE * TEXEL)

static const GpuImageFormat r8x4 = { GPU_CHANNEL_ORDER_RGBA, GPU_CHANNEL_TYPE_UINT8 };
static const GpuImageFormat r_float = { GPU_CHANNEL_ORDER_R, GPU_CHANNEL_TYPE_FLOAT32 };
static const GpuExtent flat = { SIDE, SIDE, 1 };

static const char cpp[] =
  "extern \"C\" __global__ void\n"
  "copy (unsigned long long from, unsigned long long linear, unsigned long long to)\n"
  "{\n"
  "  int x = threadIdx.x, y = threadIdx.y;\n"
  "  float v = tex2D<float> (from, x + 0.5f, y + 0.5f) + tex2D<float> (linear, x, y);\n"
  "  surf2Dwrite (v, to, 4 * x, y);\n"
  "}\n";

static const char portable[] =
  "__constant sampler_t edge = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP_TO_EDGE\n"
  "                            | CLK_FILTER_NEAREST;\n"
  "__kernel void\n"
  "copy (__read_only image2d_t from, sampler_t by, __write_only image2d_t to)\n"
  "{\n"
  "  int2 at = (int2) ((int) get_global_id (0), (int) get_global_id (1));\n"
  "  float2 middle = (float2) ((float) at.x + 0.5f, (float) at.y + 0.5f);\n"
  "  write_imagef (to, at, read_imagef (from, by, middle) + read_imagef (from, edge, middle)\n"
  "                        + read_imagef (from, at));\n"
  "}\n";

static const struct
{
  GpuImageType type;
  GpuExtent    extent;
}
shapes[] =
{
  { GPU_IMAGE_TYPE_IMAGE_1D, { SIDE, 1, 1 } },
  { GPU_IMAGE_TYPE_IMAGE_1D_ARRAY, { SIDE, 3, 1 } },
  { GPU_IMAGE_TYPE_IMAGE_2D_ARRAY, { SIDE, SIDE, 3 } },
  { GPU_IMAGE_TYPE_IMAGE_3D, { SIDE, SIDE, 3 } },
  { GPU_IMAGE_TYPE_CUBEMAP, { SIDE, SIDE, 6 } }
};

static gboolean
check (GpuImage *image, guint8 value, const char *what, GError **error)
{
  g_autoptr (GBytes) bytes = gpu_image_read_bytes (image, NULL, NULL, NULL, NULL, error);

  if (bytes == NULL)
    return FALSE;
  fault_check (g_bytes_get_data (bytes, NULL), value, g_bytes_get_size (bytes), what);
  return TRUE;
}

static gboolean
check_real (GpuImage *image, float value, const char *what, GError **error)
{
  g_autoptr (GBytes) bytes = gpu_image_read_bytes (image, NULL, NULL, NULL, NULL, error);
  const float *texels;

  if (bytes == NULL)
    return FALSE;
  texels = g_bytes_get_data (bytes, NULL);
  for (gsize i = 0; i < g_bytes_get_size (bytes) / sizeof value; i++)
    fault_check (texels[i] == value ? "\1" : "\0", 1, 1, what);
  return TRUE;
}

/* --- arrays ----------------------------------------------------------------------------------- */

static gboolean
shape (GpuContext *context, guint i, GError **error)
{
  const GpuExtent *extent = &shapes[i].extent;
  const gsize size = extent->width * extent->height * extent->depth * TEXEL;
  const GpuColor color = { 6, 6, 6, 6 };
  g_autofree guint8 *data = g_malloc (size);
  g_autoptr (GBytes) bytes = NULL;
  g_autoptr (GpuImage) image = NULL;
  g_autoptr (GpuImage) other = NULL;
  g_autoptr (GpuStream) stream = gpu_stream_new (context, GPU_STREAM_FLAGS_NONE, error);

  if (stream == NULL)
    return FALSE;
  memset (data, 4, size);
  bytes = g_bytes_new_take (g_steal_pointer (&data), size);
  image = gpu_image_new_from_bytes (context, GPU_MEMORY_FLAGS_NONE, &r8x4, shapes[i].type, extent,
                                    bytes,
                                    0, 0, error);
  if (image == NULL || !check (image, 4, "with data", error))
    return FALSE;
  other = gpu_image_new (context, GPU_MEMORY_FLAGS_NONE, &r8x4, shapes[i].type, extent, error);
  return other != NULL &&
         gpu_stream_fill_image (stream, image, &color, NULL, NULL, error) &&
         gpu_stream_copy_region (stream, GPU_MEMORY (other), NULL, GPU_MEMORY (image), NULL, extent,
                                 error) &&
         gpu_stream_synchronize (stream, NULL, error) && check (other, 6, "copied", error);
}

static gboolean
levels (GpuContext *context, GError **error)
{
  const GpuColor color = { 5, 5, 5, 5 };
  g_autoptr (GpuImage) image = gpu_image_new_mipmapped (context, GPU_MEMORY_FLAGS_NONE, &r8x4,
                                                        GPU_IMAGE_TYPE_IMAGE_2D, &flat, 3, error);
  g_autoptr (GpuImage) level = NULL;
  g_autoptr (GpuImage) wrapped = NULL;
  g_autoptr (GVariant) attributes = NULL;

  if (image == NULL)
    return FALSE;
  level = gpu_image_get_level (image, 2, error);
  if (level == NULL || !gpu_image_fill (level, NULL, &color, NULL, NULL, NULL, error))
    return FALSE;
  attributes = gpu_memory_get_attributes (GPU_MEMORY (level), error);
  if (attributes == NULL)
    return FALSE;
  wrapped = gpu_image_new_wrapped (context, gpu_memory_get_native_handle (GPU_MEMORY (level)), NULL,
                                   GPU_WRAP_MODE_BORROW, NULL, error);
  return wrapped != NULL && check (wrapped, 5, "a level, wrapped", error);
}

/* Slices are copied one by one if the slice pitch is not a multiple of the row pitch. */
static gboolean
pieces (GpuContext *context, GError **error)
{
  const GpuExtent extent = { SIDE, SIDE, 3 };
  const gsize pitch = SIDE * ROW + TEXEL;
  const GpuLayout layout = { 0, 0, 0, ROW, pitch };
  const guint8 two = 2;
  g_autoptr (GpuStream) stream = gpu_stream_new (context, GPU_STREAM_FLAGS_NONE, error);
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuImage) image = NULL;

  if (stream == NULL)
    return FALSE;
  buffer = gpu_buffer_new (context, GPU_MEMORY_FLAGS_NONE, 3 * pitch, error);
  if (buffer == NULL || !gpu_buffer_fill (buffer, NULL, 0, 3 * pitch, &two, 1, NULL, error))
    return FALSE;
  image = gpu_image_new (context, GPU_MEMORY_FLAGS_NONE, &r8x4, GPU_IMAGE_TYPE_IMAGE_3D, &extent,
                         error);
  return image != NULL &&
         gpu_stream_copy_region (stream, GPU_MEMORY (image), NULL, GPU_MEMORY (buffer), &layout,
                                 &extent, error) &&
         gpu_stream_synchronize (stream, NULL, error) && check (image, 2, "in pieces", error);
}

static gboolean
mappings (GpuContext *context, GError **error)
{
  g_autoptr (GpuImage) image = gpu_image_new (context, GPU_MEMORY_FLAGS_NONE, &r8x4,
                                              GPU_IMAGE_TYPE_IMAGE_2D, &flat, error);
  g_autoptr (GpuMapping) mapping = NULL;

  if (image == NULL)
    return FALSE;
  mapping = gpu_image_map (image, NULL, GPU_MAP_FLAGS_WRITE_INVALIDATE, NULL, NULL, NULL, error);
  if (mapping == NULL)
    return FALSE;
  memset (gpu_mapping_get_data (mapping), 3, SIDE * ROW);
  if (!gpu_mapping_unmap (mapping, error))
    return FALSE;
  g_clear_object (&mapping);
  mapping = gpu_image_map (image, NULL, GPU_MAP_FLAGS_READ | GPU_MAP_FLAGS_WRITE, NULL, NULL, NULL,
                           error);
  if (mapping == NULL)
    return FALSE;
  fault_check (gpu_mapping_get_data (mapping), 3, SIDE * ROW, "mapped");
  memset (gpu_mapping_get_data (mapping), 9, SIDE * ROW);
  return gpu_mapping_unmap (mapping, error) && check (image, 9, "unmapped", error);
}

/* --- objects ---------------------------------------------------------------------------------- */

typedef struct
{
  GpuImage   *from;
  GpuImage   *to;
  GpuSampler *nearest;
  GpuSampler *linear;
} Objects;

static void
objects_clear (Objects *objects)
{
  g_clear_object (&objects->from);
  g_clear_object (&objects->to);
  g_clear_object (&objects->nearest);
  g_clear_object (&objects->linear);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Objects, objects_clear)

static gboolean
objects_init (Objects *objects, GpuContext *context, GError **error)
{
  const GpuColor color = { 0.5, 0, 0, 0 };

  memset (objects, 0, sizeof *objects);
  objects->from = gpu_image_new (context, GPU_MEMORY_FLAGS_NONE, &r_float, GPU_IMAGE_TYPE_IMAGE_2D,
                                 &flat,
                                 error);
  if (objects->from == NULL ||
      !gpu_image_fill (objects->from, NULL, &color, NULL, NULL, NULL, error))
    return FALSE;
  objects->to = gpu_image_new (context, GPU_MEMORY_FLAGS_NONE, &r_float, GPU_IMAGE_TYPE_IMAGE_2D,
                               &flat,
                               error);
  if (objects->to == NULL)
    return FALSE;
  objects->nearest = gpu_sampler_new (context, FALSE, GPU_ADDRESS_MODE_CLAMP_TO_EDGE,
                                      GPU_FILTER_MODE_NEAREST, error);
  if (objects->nearest == NULL)
    return FALSE;
  objects->linear = gpu_sampler_new (context, FALSE, GPU_ADDRESS_MODE_CLAMP_TO_EDGE,
                                     GPU_FILTER_MODE_LINEAR, error);
  return objects->linear != NULL;
}

static gboolean
run (GpuContext *context, const char *source, GpuArguments *arguments, GError **error)
{
  g_autoptr (GpuProgram) program = gpu_program_new_from_source (context, source, NULL, error);
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuStream) stream = NULL;

  if (program == NULL)
    return FALSE;
  stream = gpu_stream_new (context, GPU_STREAM_FLAGS_NONE, error);
  if (stream == NULL)
    return FALSE;
  kernel = gpu_program_get_kernel (program, "copy", error);
  return kernel != NULL &&
         gpu_stream_launch_arguments (stream, kernel, &flat, &flat, arguments, error);
}

static gboolean
by_objects (GpuContext *context, GError **error)
{
  g_auto (Objects) objects = { 0 };
  g_autoptr (GpuArguments) arguments = gpu_arguments_new ();

  if (!objects_init (&objects, context, error) ||
      gpu_image_get_native_object (objects.from, objects.linear, error) == 0 ||
      gpu_image_get_native_object (objects.to, NULL, error) == 0)
    return FALSE;
  gpu_arguments_add_texture (arguments, objects.from, objects.nearest);
  gpu_arguments_add_texture (arguments, objects.from, objects.linear);
  gpu_arguments_add_memory (arguments, GPU_MEMORY (objects.to));
  return run (context, cpp, arguments, error) &&
         check_real (objects.to, 1, "by texture and surface", error);
}

static gboolean
by_dialect (GpuContext *context, GError **error)
{
  g_auto (Objects) objects = { 0 };
  g_autoptr (GpuArguments) arguments = gpu_arguments_new ();

  if (!objects_init (&objects, context, error))
    return FALSE;
  gpu_arguments_add_memory (arguments, GPU_MEMORY (objects.from));
  gpu_arguments_add_sampler (arguments, objects.linear);
  gpu_arguments_add_memory (arguments, GPU_MEMORY (objects.to));
  return run (context, portable, arguments, error) &&
         check_real (objects.to, 1.5, "in the portable dialect", error);
}

static gboolean
image (GpuContext *context, GError **error)
{
  for (guint i = 0; i < G_N_ELEMENTS (shapes); i++)
    {
      if (!shape (context, i, error))
        return FALSE;
    }
  return levels (context, error) && pieces (context, error) && mappings (context, error) &&
         by_objects (context, error) && by_dialect (context, error);
}

int
main (void)
{
  return fault_run (image);
}
