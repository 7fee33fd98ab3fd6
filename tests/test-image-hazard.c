/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Kernels that use one image on two streams: a use only waits for conflicting uses. Mip levels of
 * an image are tracked separately. */
#include "config.h"

#include "test-util.h"

#define WIDTH  8
#define HEIGHT 4
#define SIZE   (WIDTH * HEIGHT * 4)

typedef enum { READ, WRITE, ADD, N_USES } Use;

typedef struct
{
  TestFixture *fixture;
  GpuKernel   *kernels[N_USES];     /* NULL for unsupported uses */
} Kernels;

static const GpuImageFormat r_int = { GPU_CHANNEL_ORDER_R, GPU_CHANNEL_TYPE_INT32 };
static const GpuImageFormat rgba8 = { GPU_CHANNEL_ORDER_RGBA, GPU_CHANNEL_TYPE_UINT8 };

/* --- kernels ---------------------------------------------------------------------------------- */

#define PLACE \
  "  int2 at = (int2) ((int) get_global_id (0), (int) get_global_id (1));\n" \
  "  int i = at.y * (int) get_global_size (0) + at.x;\n"

static const char source[] =
  "__kernel void get (__read_only image2d_t image, sampler_t s, __global int *out)\n"
  "{\n" PLACE
  "  int4 texel = read_imagei (image, s, at);\n"
  "  out[i] = texel.x;\n"
  "}\n"
  "__kernel void put (__write_only image2d_t image, sampler_t s, __global int *out)\n"
  "{\n" PLACE
  "  write_imagei (image, at, (int4) (5, 0, 0, 0));\n"
  "  out[i] = -1;\n"
  "}\n";

static const char add_source[] =
  "__kernel void add (read_write image2d_t image, sampler_t s, __global int *out)\n"
  "{\n" PLACE
  "  int4 texel = read_imagei (image, at);\n"
  "  write_imagei (image, at, texel + (int4) (1, 0, 0, 0));\n"
  "  out[i] = texel.x;\n"
  "}\n";

static void
get_kernels (Kernels *k)
{
  g_autoptr (GpuProgram) add = NULL;

  k->kernels[READ] = test_kernel (k->fixture, source, "get");
  k->kernels[WRITE] = test_kernel (k->fixture, source, "put");

  if (test_is_opencl (k->fixture))
    add = gpu_program_new_from_source (k->fixture->context, add_source, "-cl-std=CL2.0", NULL);
  if (add != NULL)
    k->kernels[ADD] = gpu_program_get_kernel (add, "add", NULL);
}

/* Returns the value that the image has after @use, if it had @value before. */
static gint32
get_left (Use    use,
          gint32 value)
{
  return use == WRITE ? 5 : use == ADD ? value + 1 : value;
}

static void
launch (Kernels    *k,
        GpuStream  *stream,
        Use         use,
        GpuImage   *image,
        GpuSampler *sampler,
        GpuBuffer  *out)
{
  const GpuExtent grid = { WIDTH, HEIGHT, 1 };
  g_autoptr (GError) error = NULL;

  test_assert_ok (gpu_stream_launch (stream, k->kernels[use], &grid, NULL, &error, image, sampler,
                                     out), error);
}

static void
check_words (GBytes *bytes,
             gint32  value)
{
  const gint32 *words = g_bytes_get_data (bytes, NULL);

  for (guint i = 0; i < WIDTH * HEIGHT; i++)
    g_assert_cmpint (words[i], ==, value);
}

static void
check_found (GpuBuffer *out,
             Use        use,
             gint32     value)
{
  g_autoptr (GBytes) content = test_content (out);

  check_words (content, use == WRITE ? -1 : value);
}

static void
check_left (GpuImage *image,
            gint32    value)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) content = gpu_image_read_bytes (image, NULL, NULL, NULL, NULL, &error);

  g_assert_no_error (error);
  check_words (content, value);
}

/* A gate blocks the first kernel. The second kernel must wait for the first, unless both only read
 * the image. */
static void
check_order (Kernels    *k,
             GpuSampler *sampler,
             Use         first,
             Use         second)
{
  const GpuColor one = { 1, 0, 0, 0 };
  const GpuExtent extent = { WIDTH, HEIGHT, 1 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) a = test_stream (k->fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuStream) b = test_stream (k->fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) a_out = test_buffer (k->fixture, SIZE);
  g_autoptr (GpuBuffer) b_out = test_buffer (k->fixture, SIZE);
  g_autoptr (GpuImage) image = gpu_image_new (k->fixture->context, GPU_MEMORY_FLAGS_NONE, &r_int,
                                              GPU_IMAGE_TYPE_IMAGE_2D, &extent, &error);
  g_autoptr (GpuEvent) gate = NULL;
  g_autoptr (GpuEvent) event = NULL;
  gboolean waits = first != READ || second != READ;

  g_assert_no_error (error);
  test_assert_ok (gpu_image_fill (image, NULL, &one, NULL, NULL, NULL, &error), error);
  gate = test_gate (k->fixture, a);
  launch (k, a, first, image, sampler, a_out);
  launch (k, b, second, image, sampler, b_out);
  g_assert_cmpuint (test_get_number (b, "n-hazard-waits"), ==, waits ? 1 : 0);

  if (waits)
    {
      event = test_record (b);
      g_assert_false (gpu_event_wait_timeout (event, 10000, NULL, &error));
      test_assert_gpu_error (error, GPU_ERROR_TIMED_OUT);
    }
  else
    {
      test_synchronize (b);
    }

  test_open (gate);
  check_found (a_out, first, 1);
  check_found (b_out, second, get_left (first, 1));
  check_left (image, get_left (second, get_left (first, 1)));
}

static void
hazard_kernels (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuSampler) sampler = NULL;
  Kernels k = { fixture, { NULL } };

  if (!test_has (fixture, GPU_CAPABILITIES_IMAGES | GPU_CAPABILITIES_SOURCE
                          | GPU_CAPABILITIES_ARGUMENT_INFO | GPU_CAPABILITIES_USER_EVENTS))
    return;

  sampler = gpu_sampler_new (fixture->context, FALSE, GPU_ADDRESS_MODE_CLAMP_TO_EDGE,
                             GPU_FILTER_MODE_NEAREST, &error);
  g_assert_no_error (error);
  get_kernels (&k);

  for (Use first = READ; first < N_USES; first++)
    for (Use second = READ; second < N_USES; second++)
      if (k.kernels[first] != NULL && k.kernels[second] != NULL)
        check_order (&k, sampler, first, second);

  for (Use use = READ; use < N_USES; use++)
    g_clear_object (&k.kernels[use]);
}

/* --- levels ----------------------------------------------------------------------------------- */

/* Gets two levels of 16 x 8 and 8 x 4 texels. Returns FALSE if the device has no mip levels. */
static gboolean
get_levels (TestFixture *fixture,
            GpuImage    *levels[2])
{
  const GpuExtent extent = { 2 * WIDTH, 2 * HEIGHT, 1 };
  g_autoptr (GError) error = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_IMAGES | GPU_CAPABILITIES_MIPMAPS))
    return FALSE;

  levels[0] = gpu_image_new_mipmapped (fixture->context, GPU_MEMORY_FLAGS_NONE, &rgba8,
                                       GPU_IMAGE_TYPE_IMAGE_2D, &extent, 2, &error);
  g_assert_no_error (error);
  levels[1] = gpu_image_get_level (levels[0], 1, &error);
  g_assert_no_error (error);

  return TRUE;
}

static void
write_level (GpuImage *level,
             GBytes   *bytes)
{
  g_autoptr (GError) error = NULL;

  test_assert_ok (gpu_image_write_bytes (level, NULL, NULL, NULL, bytes, 0, 0, NULL, &error),
                  error);
}

static void
check_level (GpuImage      *level,
             gconstpointer  expected)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) content = gpu_image_read_bytes (level, NULL, NULL, NULL, NULL, &error);

  g_assert_no_error (error);
  test_assert_mem (g_bytes_get_data (content, NULL), expected, g_bytes_get_size (content));
}

/* Copies between two levels of an image. Regions with equal coordinates in two levels do not
 * overlap. */
static void
levels_copy (TestFixture *fixture)
{
  const GpuExtent extent = { WIDTH, HEIGHT, 1 };
  const GpuLayout at = { 5, 3, 0, 0, 0 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) large = test_random_bytes (4 * SIZE);
  g_autoptr (GBytes) small = test_random_bytes (SIZE);
  guint8 pixels[4 * SIZE];
  guint8 expected[SIZE];
  GpuImage *levels[2];

  if (!get_levels (fixture, levels))
    return;

  write_level (levels[0], large);
  write_level (levels[1], small);
  memcpy (pixels, g_bytes_get_data (large, NULL), sizeof pixels);

  for (guint y = 0; y < HEIGHT; y++)
    memcpy (expected + y * WIDTH * 4, pixels + y * 2 * WIDTH * 4, WIDTH * 4);

  test_assert_ok (gpu_stream_copy_region (fixture->stream, GPU_MEMORY (levels[1]), NULL,
                                          GPU_MEMORY (levels[0]), NULL, &extent, &error), error);
  test_synchronize (fixture->stream);
  check_level (levels[0], pixels);
  check_level (levels[1], expected);

  for (guint y = 0; y < HEIGHT; y++)
    memcpy (pixels + ((y + 3) * 2 * WIDTH + 5) * 4, expected + y * WIDTH * 4, WIDTH * 4);

  test_assert_ok (gpu_stream_copy_region (fixture->stream, GPU_MEMORY (levels[0]), &at,
                                          GPU_MEMORY (levels[1]), NULL, &extent, &error), error);
  test_synchronize (fixture->stream);
  check_level (levels[0], pixels);
  check_level (levels[1], expected);
  g_object_unref (levels[1]);
  g_object_unref (levels[0]);
}

static GpuMapping *
map_level (GpuImage *level,
           guint8    value)
{
  g_autoptr (GError) error = NULL;
  GpuMapping *mapping = gpu_image_map (level, NULL, GPU_MAP_FLAGS_WRITE, NULL, NULL, NULL, &error);
  guint8 *data;

  g_assert_no_error (error);
  data = (guint8 *) gpu_mapping_get_data (mapping);

  for (gsize y = 0; y < test_get_number (level, "height"); y++)
    memset (data + y * gpu_mapping_get_row_pitch (mapping), value,
            4 * test_get_number (level, "width"));

  return mapping;
}

/* A level may be mapped or written while another level is mapped. */
static void
levels_map (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  g_autoptr (GpuMapping) first = NULL;
  g_autoptr (GpuMapping) second = NULL;
  g_autoptr (GBytes) threes = test_value_bytes (4 * SIZE, 3);
  g_autoptr (GBytes) fours = test_value_bytes (SIZE, 4);
  GpuImage *levels[2];

  if (!test_has (fixture, GPU_CAPABILITIES_MAP) || !get_levels (fixture, levels))
    return;

  first = map_level (levels[0], 3);
  write_level (levels[1], bytes);
  check_level (levels[1], g_bytes_get_data (bytes, NULL));
  g_assert_false (gpu_image_write_bytes (levels[0], NULL, NULL, NULL, threes, 0, 0, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_BUSY, "mapped");
  second = map_level (levels[1], 4);
  test_assert_ok (gpu_mapping_unmap (first, &error), error);
  test_assert_ok (gpu_mapping_unmap (second, &error), error);
  check_level (levels[0], g_bytes_get_data (threes, NULL));
  check_level (levels[1], g_bytes_get_data (fours, NULL));
  g_object_unref (levels[1]);
  g_object_unref (levels[0]);
}

int
main (int    argc,
      char **argv)
{
  test_init (&argc, &argv);
  test_add ("kernels", hazard_kernels);
  test_add ("levels-copy", levels_copy);
  test_add ("levels-map", levels_map);

  return test_run ();
}
