/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Images from every constructor, copies of whole images and of parts between all kinds of memory,
 * fills, mappings, samplers, and kernels with images and samplers, while driver calls fail. */
#include "config.h"

#include "fault-util.h"

#define WIDTH  16
#define HEIGHT 20
#define SIZE   (4 * WIDTH * HEIGHT)
#define PITCH  (4 * WIDTH + 12)

static const GpuImageFormat rgba8 = { GPU_CHANNEL_ORDER_RGBA, GPU_CHANNEL_TYPE_UINT8 };
static const GpuImageFormat r32 = { GPU_CHANNEL_ORDER_R, GPU_CHANNEL_TYPE_UINT32 };
static const GpuExtent extent = { WIDTH, HEIGHT, 1 };
static const GpuExtent row = { WIDTH, 1, 1 };

static const char source[] =
  "__kernel void copy (__read_only image2d_t from, sampler_t s, __write_only image2d_t to)\n"
  "{\n"
  "  int2 at = (int2) (get_global_id (0), get_global_id (1));\n"
  "  write_imageui (to, at, read_imageui (from, s, at));\n"
  "}\n";

static gboolean
has (GpuContext *context, GpuCapabilities capability)
{
  return (gpu_device_get_capabilities (gpu_context_get_device (context)) & capability) != 0;
}

static GBytes *
value_bytes (gsize size, guint8 value)
{
  guint8 *data = g_malloc (size);

  memset (data, value, size);
  return g_bytes_new_take (data, size);
}

static gboolean
check (GpuImage *image, guint8 value, const char *what, GError **error)
{
  g_autoptr (GBytes) bytes = gpu_image_read_bytes (image, NULL, NULL, NULL, NULL, error);

  if (bytes == NULL)
    return FALSE;
  fault_check (g_bytes_get_data (bytes, NULL), value, g_bytes_get_size (bytes), what);
  return TRUE;
}

static GpuImage *
filled (GpuContext *context, const GpuImageFormat *format, guint8 value, GError **error)
{
  g_autoptr (GBytes) bytes = value_bytes (SIZE, value);

  return gpu_image_new_from_bytes (context, GPU_MEMORY_FLAGS_NONE, format, GPU_IMAGE_TYPE_IMAGE_2D,
                                   &extent, bytes, 0, 0, error);
}

static gboolean
tell (GpuContext *context, GError **error)
{
  g_autolist (GpuImageFormat) formats = NULL;
  g_autoptr (GpuImage) image = NULL;
  g_autoptr (GVariant) attributes = NULL;
  GpuExtent most;

  formats = gpu_context_list_image_formats (context, GPU_MEMORY_FLAGS_READ_ONLY,
                                            GPU_IMAGE_TYPE_IMAGE_3D,
                                            error);
  if (formats == NULL || !gpu_context_get_max_image_extent (context, GPU_IMAGE_TYPE_IMAGE_2D, &most,
                                                            error))
    return FALSE;
  image = gpu_image_new (context, GPU_MEMORY_FLAGS_NONE, &rgba8, GPU_IMAGE_TYPE_IMAGE_2D, &extent,
                         error);
  if (image == NULL)
    return FALSE;
  attributes = gpu_memory_get_attributes (GPU_MEMORY (image), error);
  return attributes != NULL;
}

static gboolean
host (GpuContext *context, GError **error)
{
  g_autoptr (GBytes) bytes = value_bytes (PITCH * HEIGHT, 3);
  g_autoptr (GpuImage) gaps = NULL;
  g_autoptr (GpuImage) image = NULL;
  g_autoptr (GpuMapping) mapping = NULL;

  gaps = gpu_image_new_from_bytes (context, GPU_MEMORY_FLAGS_NONE, &rgba8, GPU_IMAGE_TYPE_IMAGE_2D,
                                   &extent, bytes, PITCH, 0, error);
  if (gaps == NULL || !check (gaps, 3, "from bytes", error))
    return FALSE;
  if (g_str_equal (gpu_device_get_backend (gpu_context_get_device (context)), "cuda"))
    return TRUE;
  image = gpu_image_new_for_host_bytes (context, GPU_MEMORY_FLAGS_NONE, &rgba8,
                                        GPU_IMAGE_TYPE_IMAGE_2D,
                                        &extent, bytes, PITCH, 0, error);
  if (image == NULL)
    return FALSE;
  mapping = gpu_image_map (image, NULL, GPU_MAP_FLAGS_NONE, NULL, &row, NULL, error);
  if (mapping == NULL)
    return FALSE;
  fault_check (gpu_mapping_get_data (mapping), 3, 4 * WIDTH, "map");
  return gpu_mapping_unmap (mapping, error) && check (image, 3, "for host bytes", error);
}

static gboolean
over_buffer (GpuContext *context, GError **error)
{
  const GpuColor color = { 6, 6, 6, 6 };
  const guint8 zero = 0;
  g_autoptr (GpuBuffer) buffer = gpu_buffer_new (context, GPU_MEMORY_FLAGS_NONE, SIZE, error);
  g_autoptr (GpuImage) image = NULL;
  g_autoptr (GpuImage) wrapped = NULL;
  g_autoptr (GpuMapping) mapping = NULL;
  g_autoptr (GpuStream) stream = gpu_context_get_default_stream (context);
  GpuMemory *memory;

  if (buffer == NULL || stream == NULL ||
      !gpu_buffer_fill (buffer, NULL, 0, SIZE, &zero, 1, NULL, error))
    return FALSE;
  image = gpu_image_new_for_buffer (buffer, GPU_MEMORY_FLAGS_NONE, &rgba8,
                                    GPU_IMAGE_TYPE_IMAGE_1D_BUFFER,
                                    WIDTH, 1, 0, error);
  if (image == NULL || !gpu_image_fill (image, NULL, &color, NULL, NULL, NULL, error) ||
      !check (image, 6, "fill of a buffer", error))
    return FALSE;
  mapping = gpu_image_map (image, NULL, GPU_MAP_FLAGS_READ, NULL, NULL, NULL, error);
  if (mapping == NULL)
    return FALSE;
  fault_check (gpu_mapping_get_data (mapping), 6, 4 * WIDTH, "map of a buffer");
  if (!gpu_mapping_unmap (mapping, error))
    return FALSE;
  /* In CUDA an image over a buffer has no handle. */
  if (g_str_equal (gpu_device_get_backend (gpu_context_get_device (context)), "cuda"))
    return TRUE;
  wrapped = gpu_image_new_wrapped (context, gpu_memory_get_native_handle (GPU_MEMORY (image)), NULL,
                                   GPU_WRAP_MODE_BORROW, NULL, error);
  if (wrapped == NULL)
    return FALSE;
  memory = GPU_MEMORY (wrapped);
  return gpu_stream_migrate (stream, &memory, 1, GPU_MIGRATE_FLAGS_NONE, error) &&
         check (wrapped, 6, "wrapped over a buffer", error);
}

/* An image over a slice: the library must release the image, the slice and the buffer in the right
 * order. */
static gboolean
over_slice (GpuContext *context, GError **error)
{
  g_autoptr (GBytes) bytes = value_bytes (SIZE, 2);
  g_autoptr (GpuBuffer) buffer = gpu_buffer_new_from_bytes (context, GPU_MEMORY_FLAGS_NONE, bytes,
                                                            error);
  g_autoptr (GpuBuffer) slice = NULL;
  g_autoptr (GpuImage) image = NULL;

  if (buffer == NULL)
    return FALSE;
  slice = gpu_buffer_slice (buffer, 0, 512, error);
  if (slice == NULL)
    return FALSE;
  image = gpu_image_new_for_buffer (slice, GPU_MEMORY_FLAGS_NONE, &rgba8,
                                    GPU_IMAGE_TYPE_IMAGE_1D_BUFFER,
                                    WIDTH, 1, 0, error);
  g_clear_object (&slice);
  g_clear_object (&buffer);
  return image != NULL && check (image, 2, "over a slice", error);
}

static gboolean
rows_over_buffer (GpuContext *context, GError **error)
{
  g_autoptr (GpuBuffer) buffer = gpu_buffer_new_pitched (context, GPU_MEMORY_FLAGS_NONE, 4 * WIDTH,
                                                         HEIGHT, 4, error);
  g_autoptr (GBytes) bytes = value_bytes (SIZE, 5);
  g_autoptr (GpuImage) image = NULL;

  if (buffer == NULL)
    return FALSE;
  image = gpu_image_new_for_buffer (buffer, GPU_MEMORY_FLAGS_NONE, &rgba8, GPU_IMAGE_TYPE_IMAGE_2D,
                                    WIDTH,
                                    HEIGHT, 0, error);
  return image != NULL &&
         gpu_image_write_bytes (image, NULL, NULL, NULL, bytes, 0, 0, NULL, error) &&
         check (image, 5, "rows over a buffer", error);
}

/* Copies rows with gaps: the library copies a few rows one by one, and many rows through a
 * buffer. */
static gboolean
gaps (GpuContext *context, GpuStream *stream, gsize height, GError **error)
{
  const GpuLayout layout = { 4, 0, 0, PITCH, 0 };
  const GpuExtent part = { WIDTH, height, 1 };
  g_autoptr (GpuBuffer) buffer = gpu_buffer_new (context, GPU_MEMORY_FLAGS_NONE, PITCH * HEIGHT + 4,
                                                 error);
  g_autoptr (GpuImage) from = NULL;
  g_autoptr (GpuImage) to = NULL;

  if (buffer == NULL)
    return FALSE;
  from = filled (context, &rgba8, 7, error);
  if (from == NULL)
    return FALSE;
  to = filled (context, &rgba8, 7, error);
  return to != NULL &&
         gpu_stream_copy_region (stream, GPU_MEMORY (buffer), &layout, GPU_MEMORY (from), NULL,
                                 &part, error) &&
         gpu_stream_copy_region (stream, GPU_MEMORY (to), NULL, GPU_MEMORY (buffer), &layout,
                                 &part, error) &&
         gpu_stream_synchronize (stream, NULL, error) && check (to, 7, "copies with gaps", error);
}

static gboolean
formats (GpuContext *context, GpuStream *stream, GError **error)
{
  g_autoptr (GpuImage) from = filled (context, &rgba8, 8, error);
  g_autoptr (GpuImage) to = NULL;
  g_autoptr (GpuImage) same = NULL;

  if (from == NULL)
    return FALSE;
  to = gpu_image_new (context, GPU_MEMORY_FLAGS_NONE, &r32, GPU_IMAGE_TYPE_IMAGE_2D, &extent,
                      error);
  if (to == NULL)
    return FALSE;
  same = gpu_image_new (context, GPU_MEMORY_FLAGS_NONE, &r32, GPU_IMAGE_TYPE_IMAGE_2D, &extent,
                        error);
  return same != NULL &&
         gpu_stream_copy_region (stream, GPU_MEMORY (to), NULL, GPU_MEMORY (from), NULL, &extent,
                                 error) &&
         gpu_stream_copy_region (stream, GPU_MEMORY (same), NULL, GPU_MEMORY (to), NULL, &extent,
                                 error) &&
         gpu_stream_synchronize (stream, NULL, error) &&
         check (same, 8, "copies between formats", error);
}

/* A blocking operation with one command waits for the event of this command. A blocking operation
 * with several commands waits for the event of a marker. */
static gboolean
blocking (GpuContext *context, GError **error)
{
  const GpuColor color = { 9, 9, 9, 9 };
  const GpuExtent few = { WIDTH, 3, 1 };
  g_autoptr (GpuImage) image = filled (context, &rgba8, 0, error);
  g_autoptr (GpuImage) level = NULL;
  guint8 data[(4 * WIDTH + 1) * 3];

  memset (data, 9, sizeof data);
  if (image == NULL || !gpu_image_fill (image, NULL, &color, NULL, NULL, NULL, error) ||
      !gpu_image_write (image, NULL, NULL, &few, data, 4 * WIDTH + 1, 0, NULL, error) ||
      !check (image, 9, "writes in pieces", error))
    return FALSE;
  memset (data, 0, sizeof data);
  level = gpu_image_get_level (image, 0, error);
  if (level == NULL || !gpu_image_read (level, NULL, NULL, &few, data, 4 * WIDTH, 0, NULL, error))
    return FALSE;
  fault_check (data, 9, 4 * WIDTH * 3, "read");
  return TRUE;
}

/* Fills half-float texels with 70000, which becomes infinity. If the driver would store another
 * value, the library fills through a buffer. */
static gboolean
infinite (GpuContext *context, GError **error)
{
  const GpuImageFormat halves = { GPU_CHANNEL_ORDER_RGBA, GPU_CHANNEL_TYPE_FLOAT16 };
  const GpuColor color = { 70000, 70000, 70000, 70000 };
  g_autoptr (GpuImage) image = gpu_image_new (context, GPU_MEMORY_FLAGS_NONE, &halves,
                                              GPU_IMAGE_TYPE_IMAGE_2D, &extent, error);
  guint16 texel[4];

  if (image == NULL || !gpu_image_fill (image, NULL, &color, NULL, NULL, NULL, error) ||
      !gpu_image_read (image, NULL, NULL, &(GpuExtent) { 1, 1, 1 }, texel, 0, 0, NULL, error))
    return FALSE;
  if (texel[0] != 0x7c00)
    g_error ("infinity is 0x%04x", texel[0]);
  return TRUE;
}

static gboolean
launch (GpuContext *context, GError **error)
{
  g_autoptr (GpuProgram) program = gpu_program_new_from_source (context, source, NULL, error);
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuSampler) sampler = NULL;
  g_autoptr (GpuSampler) wrapped = NULL;
  g_autoptr (GpuImage) from = NULL;
  g_autoptr (GpuImage) to = NULL;
  g_autoptr (GpuStream) stream = gpu_context_get_default_stream (context);

  if (program == NULL || stream == NULL)
    return FALSE;
  kernel = gpu_program_get_kernel (program, "copy", error);
  if (kernel == NULL)
    return FALSE;
  sampler = gpu_sampler_new (context, FALSE, GPU_ADDRESS_MODE_CLAMP_TO_EDGE,
                             GPU_FILTER_MODE_NEAREST, error);
  if (sampler == NULL)
    return FALSE;
  if (gpu_sampler_get_native_handle (sampler) != 0)
    {
      wrapped = gpu_sampler_new_wrapped (context, gpu_sampler_get_native_handle (sampler),
                                         GPU_WRAP_MODE_BORROW, error);
      if (wrapped == NULL)
        return FALSE;
      g_clear_object (&sampler);
      sampler = g_steal_pointer (&wrapped);
    }
  from = filled (context, &rgba8, 4, error);
  if (from == NULL)
    return FALSE;
  to = gpu_image_new (context, GPU_MEMORY_FLAGS_NONE, &rgba8, GPU_IMAGE_TYPE_IMAGE_2D, &extent,
                      error);
  if (to == NULL || !gpu_stream_launch (stream, kernel, &extent, NULL, error, from, sampler, to))
    return FALSE;
  g_clear_object (&sampler);
  g_clear_object (&from);
  return check (to, 4, "kernel", error);
}

static gboolean
on_stream (GpuContext *context, GpuStreamFlags flags, GError **error)
{
  g_autoptr (GpuStream) stream = gpu_stream_new (context, flags, error);

  return stream != NULL && gaps (context, stream, 3, error) &&
         gaps (context, stream, HEIGHT, error) && formats (context, stream, error);
}

static gboolean
image (GpuContext *context, GError **error)
{
  return tell (context, error) && host (context, error) && over_buffer (context, error) &&
         over_slice (context, error) &&
         (!has (context, GPU_CAPABILITIES_IMAGE_FROM_BUFFER) ||
          rows_over_buffer (context, error)) &&
         on_stream (context, GPU_STREAM_FLAGS_NONE, error) &&
         (!has (context, GPU_CAPABILITIES_OUT_OF_ORDER) ||
          on_stream (context, GPU_STREAM_FLAGS_OUT_OF_ORDER | GPU_STREAM_FLAGS_PROFILING,
                     error)) &&
         blocking (context, error) && infinite (context, error) &&
         (!has (context, GPU_CAPABILITIES_SOURCE) || launch (context, error));
}

int
main (void)
{
  return fault_run (image);
}
