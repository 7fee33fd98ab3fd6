/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Images and samplers as kernel arguments: the argument information of kernels, invalid arguments,
 * and illegal samplers. */
#include "config.h"

#include <math.h>

#include "test-image-util.h"

#define WIDTH  12
#define HEIGHT 5

static const GpuImageFormat r_float = { GPU_CHANNEL_ORDER_R, GPU_CHANNEL_TYPE_FLOAT32 };
static const GpuImageFormat r_int = { GPU_CHANNEL_ORDER_R, GPU_CHANNEL_TYPE_INT32 };
static const GpuExtent flat = { WIDTH, HEIGHT, 1 };

static gboolean
can_run (TestFixture *fixture)
{
  return test_has (fixture, GPU_CAPABILITIES_IMAGES | GPU_CAPABILITIES_SOURCE
                            | GPU_CAPABILITIES_ARGUMENT_INFO);
}

static const char source[] =
  "__kernel void read (__read_only image2d_t image, sampler_t by, __global float *out)\n"
  "{\n"
  "  int x = (int) get_global_id (0), y = (int) get_global_id (1);\n"
  "  int n = (int) get_global_size (0);\n"
  "  float2 at = (float2) ((float) x + 0.5f, (float) y + 0.5f);\n"
  "  out[n * y + x] = read_imagef (image, by, at).x;\n"
  "}\n"
  "__kernel void plain (image2d_t image, __global float *out)\n"
  "{ out[0] = read_imagef (image, (int2) (0, 0)).x; }\n"
  "__kernel void write (write_only image2d_t image, float value)\n"
  "{\n"
  "  int2 at = (int2) ((int) get_global_id (0), (int) get_global_id (1));\n"
  "  write_imagef (image, at, (float4) (value));\n"
  "}\n";

static void
arguments_info (TestFixture *fixture)
{
  g_autoptr (GpuKernel) read = NULL;
  g_autoptr (GpuKernel) write = NULL;

  if (!can_run (fixture))
    return;

  read = test_kernel (fixture, source, "read");
  write = test_kernel (fixture, source, "write");
  g_assert_cmpint (gpu_kernel_get_argument_kind (read, 0), ==, GPU_ARGUMENT_KIND_IMAGE);
  g_assert_cmpint (gpu_kernel_get_argument_kind (read, 1), ==, GPU_ARGUMENT_KIND_SAMPLER);
  g_assert_cmpint (gpu_kernel_get_argument_kind (read, 2), ==, GPU_ARGUMENT_KIND_MEMORY);
  g_assert_cmpint (gpu_kernel_get_argument_kind (write, 0), ==, GPU_ARGUMENT_KIND_IMAGE);
  g_assert_cmpstr (gpu_kernel_get_argument_type_name (read, 0), ==, "image2d_t");
  g_assert_cmpstr (gpu_kernel_get_argument_type_name (read, 1), ==, "sampler_t");
}

typedef void (*AddFunc) (GpuArguments *arguments,
                         gpointer      object);

static void
add_memory (GpuArguments *arguments,
            gpointer      object)
{
  gpu_arguments_add_memory (arguments, object);
}

static void
add_sampler (GpuArguments *arguments,
             gpointer      object)
{
  gpu_arguments_add_sampler (arguments, object);
}

static void
add_number (GpuArguments *arguments,
            gpointer      object)
{
  gpu_arguments_add_int (arguments, GPOINTER_TO_INT (object));
}

/* Launches the kernel "read" with the image and the sampler, and expects an error. */
static void
assert_refused (TestFixture *fixture,
                GpuKernel   *kernel,
                AddFunc      add_first,
                gpointer     first,
                AddFunc      add_second,
                gpointer     second,
                GpuError     code,
                const char  *word,
                const char  *other)
{
  g_autoptr (GpuBuffer) out = test_buffer (fixture, WIDTH * HEIGHT * 4);
  g_autoptr (GpuArguments) arguments = gpu_arguments_new ();
  g_autoptr (GError) error = NULL;

  add_first (arguments, first);
  add_second (arguments, second);
  gpu_arguments_add_memory (arguments, GPU_MEMORY (out));
  g_assert_false (gpu_stream_launch_arguments (fixture->stream, kernel, &flat, NULL, arguments,
                                               &error));
  test_assert_gpu_error (error, code, "gpu_stream_launch", word, other);
}

static void
arguments_mismatches (TestFixture *fixture)
{
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuImage) image = NULL;
  g_autoptr (GpuImage) row = NULL;
  g_autoptr (GpuImage) hidden = NULL;
  g_autoptr (GpuImage) released = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuSampler) sampler = NULL;
  const GpuError wrong = GPU_ERROR_INVALID_ARGUMENT;

  if (!can_run (fixture))
    return;

  kernel = test_kernel (fixture, source, "read");
  image = test_image (fixture, 0, &r_float, GPU_IMAGE_TYPE_IMAGE_2D, flat);
  row = test_image (fixture, 0, &r_float, GPU_IMAGE_TYPE_IMAGE_1D, (GpuExtent) { WIDTH, 1, 1 });
  hidden = test_image (fixture, GPU_MEMORY_FLAGS_WRITE_ONLY, &r_float, GPU_IMAGE_TYPE_IMAGE_2D,
                       flat);
  released = test_image (fixture, 0, &r_float, GPU_IMAGE_TYPE_IMAGE_2D, flat);
  gpu_memory_release (GPU_MEMORY (released));
  buffer = test_buffer (fixture, 64);
  sampler = test_sampler (fixture, FALSE, GPU_ADDRESS_MODE_CLAMP_TO_EDGE, GPU_FILTER_MODE_NEAREST);

  assert_refused (fixture, kernel, add_memory, row, add_sampler, sampler, wrong, "image2d_t",
                  "an image of type 1d");
  assert_refused (fixture, kernel, add_memory, buffer, add_sampler, sampler, wrong,
                  "an image, image2d_t", "not memory");
  assert_refused (fixture, kernel, add_sampler, sampler, add_sampler, sampler, wrong,
                  "an image, image2d_t", "not a sampler");
  assert_refused (fixture, kernel, add_number, GINT_TO_POINTER (1), add_sampler, sampler, wrong,
                  "an image, image2d_t", "not a number");
  assert_refused (fixture, kernel, add_memory, hidden, add_sampler, sampler, wrong,
                  "argument 0 (image)",
                  "read, which the flags of the image, write-only, do not allow");
  assert_refused (fixture, kernel, add_memory, image, add_memory, image, wrong,
                  "argument 1 (by)", "is a sampler, not an image of type 2d");
  assert_refused (fixture, kernel, add_memory, image, add_memory, buffer, wrong, "is a sampler",
                  "not memory");
  assert_refused (fixture, kernel, add_memory, released, add_sampler, sampler,
                  GPU_ERROR_RELEASED, "released", "240 bytes");
}

static void
arguments_mismatches_more (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuContext) other = NULL;
  g_autoptr (GpuSampler) foreign = NULL;
  g_autoptr (GpuSampler) sampler = NULL;
  g_autoptr (GpuKernel) read = NULL;
  g_autoptr (GpuKernel) plain = NULL;
  g_autoptr (GpuKernel) write = NULL;
  g_autoptr (GpuImage) image = NULL;
  g_autoptr (GpuImage) hidden = NULL;
  g_autoptr (GpuImage) constant = NULL;
  g_autoptr (GpuArguments) texture = NULL;
  g_autoptr (GpuBuffer) out = NULL;
  const char *id = gpu_device_get_id (fixture->device);
  g_autofree char *text = g_strdup_printf ("a sampler of another context, on %s, than the kernel, "
                                           "on %s", id, id);

  if (!can_run (fixture))
    return;

  other = gpu_context_new (fixture->device, GPU_CONTEXT_FLAGS_NONE, &error);
  g_assert_no_error (error);
  foreign = gpu_sampler_new (other, FALSE, GPU_ADDRESS_MODE_CLAMP_TO_EDGE,
                             GPU_FILTER_MODE_NEAREST, &error);
  g_assert_no_error (error);
  sampler = test_sampler (fixture, FALSE, GPU_ADDRESS_MODE_CLAMP_TO_EDGE, GPU_FILTER_MODE_NEAREST);
  read = test_kernel (fixture, source, "read");
  plain = test_kernel (fixture, source, "plain");
  write = test_kernel (fixture, source, "write");
  image = test_image (fixture, 0, &r_float, GPU_IMAGE_TYPE_IMAGE_2D, flat);
  hidden = test_image (fixture, GPU_MEMORY_FLAGS_WRITE_ONLY, &r_float, GPU_IMAGE_TYPE_IMAGE_2D,
                       flat);
  constant = test_image (fixture, GPU_MEMORY_FLAGS_READ_ONLY, &r_float, GPU_IMAGE_TYPE_IMAGE_2D,
                         flat);
  out = test_buffer (fixture, WIDTH * HEIGHT * 4);

  /* Two CUDA contexts on one device are the same context. */
  if (gpu_context_get_native_handle (other)
      != gpu_context_get_native_handle (fixture->context))
    assert_refused (fixture, read, add_memory, image, add_sampler, foreign,
                    GPU_ERROR_INVALID_ARGUMENT, "argument 1 (by)", text);

  g_assert_false (gpu_stream_launch (fixture->stream, write, &flat, NULL, &error, constant, 1.0));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "argument 0 (image)", "written");
  g_assert_false (gpu_stream_launch (fixture->stream, plain, &flat, NULL, &error, hidden, out));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "argument 0 (image)", "read");

  texture = gpu_arguments_new ();
  gpu_arguments_add_texture (texture, image, sampler);
  gpu_arguments_add_sampler (texture, sampler);
  gpu_arguments_add_memory (texture, GPU_MEMORY (out));
  g_assert_false (gpu_stream_launch_arguments (fixture->stream, read, &flat, NULL, texture,
                                               &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "image2d_t", "not a texture");
}

/* Images of integer formats cannot be filtered. Only a texture argument combines an image with a
 * sampler, so a launch can only refuse this combination in a texture argument. */
static void
arguments_textures (TestFixture *fixture)
{
  static const char look[] = "extern \"C\" __global__ void look (unsigned long long t) { }\n";
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuSampler) linear = NULL;
  g_autoptr (GpuImage) image = NULL;
  g_autoptr (GpuArguments) arguments = NULL;

  if (!g_str_equal (gpu_device_get_backend (fixture->device), "cuda"))
    {
      g_test_skip ("only the cuda back end has textures");
      return;
    }

  if (!can_run (fixture))
    return;

  kernel = test_kernel (fixture, look, "look");
  linear = gpu_sampler_new (fixture->context, FALSE, GPU_ADDRESS_MODE_CLAMP_TO_EDGE,
                            GPU_FILTER_MODE_LINEAR, &error);
  g_assert_no_error (error);
  image = test_image (fixture, 0, &r_int, GPU_IMAGE_TYPE_IMAGE_2D, flat);
  arguments = gpu_arguments_new ();
  gpu_arguments_add_texture (arguments, image, linear);
  g_assert_false (gpu_stream_launch_arguments (fixture->stream, kernel, &flat, NULL, arguments,
                                               &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "r-int32", "filtered");
}

static void
assert_no_sampler (TestFixture *fixture,
                   const char  *words,
                   const char  *property,
                   ...) G_GNUC_NULL_TERMINATED;

static void
assert_no_sampler (TestFixture *fixture,
                   const char  *words,
                   const char  *property,
                   ...)
{
  g_autoptr (GError) error = NULL;
  GObject *sampler;
  va_list ap;

  va_start (ap, property);
  sampler = g_object_new_valist (GPU_TYPE_SAMPLER, property, ap);
  va_end (ap);
  g_assert_false (g_initable_init (G_INITABLE (sampler), NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_sampler_new", words);
  g_object_unref (sampler);
}

static void
arguments_illegal_samplers (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  GpuContext *context = fixture->context;

  if (!test_has (fixture, GPU_CAPABILITIES_IMAGES))
    return;

  g_assert_null (gpu_sampler_new (context, FALSE, GPU_ADDRESS_MODE_REPEAT,
                                  GPU_FILTER_MODE_NEAREST, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "address mode repeat", "normalized");
  g_assert_null (gpu_sampler_new (context, TRUE, 77, GPU_FILTER_MODE_NEAREST, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "unknown address mode 77");
  g_assert_null (gpu_sampler_new (context, TRUE, GPU_ADDRESS_MODE_REPEAT, 5, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "unknown filter mode");
  assert_no_sampler (fixture, "no context", "filter-mode", GPU_FILTER_MODE_NEAREST, NULL);
  assert_no_sampler (fixture, "address mode mirrored-repeat", "context", context, "address-mode-z",
                     GPU_ADDRESS_MODE_MIRRORED_REPEAT, NULL);
  assert_no_sampler (fixture, "bias of nan", "context", context, "lod-bias", (double) NAN, NULL);
  assert_no_sampler (fixture, "from 3 to 2", "context", context, "min-lod", 3.0, "max-lod", 2.0,
                     NULL);
  assert_no_sampler (fixture, "cannot be filtered", "context", context, "read-mode",
                     GPU_READ_MODE_ELEMENT, "filter-mode", GPU_FILTER_MODE_LINEAR, NULL);
}

/* --- programs --------------------------------------------------------------------------------- */

/* The host back end must reject sources that OpenCL compilers reject. */
static void
arguments_bad_sources (TestFixture *fixture)
{
  static const char *const sources[] =
  {
    "__kernel void f (__write_only image2d_t i, __global float4 *o)\n"
    "{ o[0] = read_imagef (i, (int2) (0, 0)); }\n",
    "__kernel void f (__read_only image2d_t i)\n"
    "{ write_imagef (i, (int2) (0, 0), (float4) (0)); }\n",
    "__kernel void f (__read_only image2d_t i, __global float4 *o)\n"
    "{ o[0] = read_imagef (i, (int4) (0, 0, 0, 0)); }\n",
    "__kernel void f (__read_only image3d_t i, sampler_t s, __global float4 *o)\n"
    "{ o[0] = read_imagef (i, s, (float2) (0, 0)); }\n",
    "__kernel void f (__read_only image1d_buffer_t i, sampler_t s, __global float4 *o)\n"
    "{ o[0] = read_imagef (i, s, 0); }\n",
    "__kernel void f (__global float4 *i, __global float4 *o)\n"
    "{ o[0] = read_imagef (i, (int2) (0, 0)); }\n",
    "__kernel void f (__write_only image2d_t i)\n"
    "{ write_imagef (i, (int2) (0, 0), (int4) (0)); }\n",
    "void g (__write_only image2d_t i) { }\n"
    "__kernel void f (__read_only image2d_t i) { g (i); }\n",
    "__kernel void f (__global float4 *o) { o[0] = (float4) ((float2) (1, 2), 3); }\n",
    "__kernel void f (__global float4 *o) { o[0] = (float4) (1, 2, 3, 4, 5); }\n",
    "__kernel void f (__global float4 *o) { o[0] = (float4) ((int4) (1, 2, 3, 4)); }\n",
    "__constant float4 c = (float4) (1, 2, 3);\n"
    "__kernel void f (__global float4 *o) { o[0] = c; }\n"
  };

  if (!can_run (fixture))
    return;

  if (!g_str_equal (gpu_device_get_backend (fixture->device), "host"))
    {
      g_test_skip ("other compilers have other messages, and some accept more");
      return;
    }

  for (guint i = 0; i < G_N_ELEMENTS (sources); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GpuProgram) program = gpu_program_new_from_source (fixture->context, sources[i],
                                                                    "-Werror", &error);

      if (program != NULL)
        g_error ("this was built:\n%s", sources[i]);

      test_assert_gpu_error (error, GPU_ERROR_BUILD_FAILED, "program.cl:");
    }
}

/* Builds valid but unusual sources: argument types behind a macro, barriers, and a vector
 * argument. */
static void
arguments_odd_sources (TestFixture *fixture)
{
  static const char pasted[] =
    "#define JOIN(a, b) a##b\n"
    "__kernel void f (__read_only JOIN (image, 2d_t) i, SAMPLER s, __global float *out,\n"
    "                 __local JOIN (float, 4) *shared, float4 more)\n"
    "{\n"
    "  int x = (int) get_global_id (0);\n"
    "  shared[get_local_id (0)] = read_imagef (i, s, (JOIN (int, 2)) (x, 1));\n"
    "  barrier (CLK_LOCAL_MEM_FENCE);\n"
    "  out[x] = shared[get_local_size (0) - 1 - get_local_id (0)].x + more.z;\n"
    "}\n";
  const GpuExtent grid = { WIDTH, 1, 1 };
  const GpuColor color = { 6, 0, 0, 0 };
  const float more[4] = { 1, 10, 100, 1000 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuProgram) program = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuImage) image = NULL;
  g_autoptr (GpuSampler) sampler = NULL;
  g_autoptr (GpuBuffer) out = NULL;
  g_autoptr (GBytes) got = NULL;

  if (!can_run (fixture))
    return;

  if (g_str_equal (gpu_device_get_backend (fixture->device), "cuda"))
    {
      g_test_skip ("CUDA finds image arguments only by the types in the source");
      return;
    }

  program = gpu_program_new_from_source (fixture->context, pasted, "-DSAMPLER=sampler_t", &error);
  g_assert_no_error (error);
  kernel = gpu_program_get_kernel (program, "f", &error);
  g_assert_no_error (error);
  image = test_image (fixture, 0, &r_float, GPU_IMAGE_TYPE_IMAGE_2D, flat);
  sampler = test_sampler (fixture, FALSE, GPU_ADDRESS_MODE_CLAMP_TO_EDGE, GPU_FILTER_MODE_NEAREST);
  out = test_buffer_filled (fixture, WIDTH * sizeof (float), 0);
  test_assert_ok (gpu_stream_fill_image (fixture->stream, image, &color, NULL, NULL, &error),
                  error);
  test_assert_ok (gpu_stream_launch (fixture->stream, kernel, &grid, &grid, &error, image,
                                     sampler, out, (gsize) WIDTH * 16, more), error);
  got = test_content (out);

  for (guint i = 0; i < WIDTH; i++)
    g_assert_cmpfloat (((const float *) g_bytes_get_data (got, NULL))[i], ==, 106);
}

int
main (int    argc,
      char **argv)
{
  test_init (&argc, &argv);
  test_add ("info", arguments_info);
  test_add ("mismatches", arguments_mismatches);
  test_add ("mismatches-more", arguments_mismatches_more);
  test_add ("textures", arguments_textures);
  test_add ("illegal-samplers", arguments_illegal_samplers);
  test_add ("bad-sources", arguments_bad_sources);
  test_add ("odd-sources", arguments_odd_sources);

  return test_run ();
}
