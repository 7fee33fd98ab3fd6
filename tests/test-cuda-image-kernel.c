/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Images and samplers as kernel arguments on CUDA: constant samplers in kernels of the portable
 * dialect, attributes of such kernels, and the objects that CUDA C++ kernels take. */
#include "config.h"

#include <glib/gstdio.h>

#include "test-image-util.h"

#define NEEDED (GPU_CAPABILITIES_IMAGES | GPU_CAPABILITIES_SOURCE \
                | GPU_CAPABILITIES_ARGUMENT_INFO)

#define WIDTH  8
#define HEIGHT 5

static const GpuImageFormat r_float = { GPU_CHANNEL_ORDER_R, GPU_CHANNEL_TYPE_FLOAT32 };
static const GpuImageFormat r_int = { GPU_CHANNEL_ORDER_R, GPU_CHANNEL_TYPE_INT32 };
static const GpuExtent one = { 1, 1, 1 };

static GpuImage *
sheet_new (TestFixture *fixture,
           guint        first)
{
  return test_image_numbers (fixture, &r_float, GPU_IMAGE_TYPE_IMAGE_2D,
                             (GpuExtent) { WIDTH, HEIGHT, 1 }, first);
}

/* Launches @kernel with the objects (a NULL-terminated list) and a new buffer as arguments. Asserts
 * that the buffer then begins with the @n numbers of @expected. */
static void
assert_floats (TestFixture  *fixture,
               GpuKernel    *kernel,
               gpointer     *objects,
               const double *expected,
               guint         n)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) out = test_buffer_filled (fixture, n * sizeof (float), 0xff);
  g_autoptr (GpuArguments) arguments = gpu_arguments_new ();
  g_autoptr (GBytes) bytes = NULL;
  const float *values;

  for (guint i = 0; objects[i] != NULL; i++)
    {
      if (GPU_IS_SAMPLER (objects[i]))
        gpu_arguments_add_sampler (arguments, objects[i]);
      else
        gpu_arguments_add_memory (arguments, objects[i]);
    }

  gpu_arguments_add_memory (arguments, GPU_MEMORY (out));
  test_assert_ok (gpu_stream_launch_arguments (fixture->stream, kernel, &one, NULL, arguments,
                                               &error), error);
  bytes = test_content (out);
  values = g_bytes_get_data (bytes, NULL);

  for (guint i = 0; i < n; i++)
    g_assert_cmpfloat ((double) values[i], ==, expected[i]);
}

/* --- constant samplers ------------------------------------------------------------------------ */

static const char several[] =
  "constant sampler_t outer = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP\n"
  "                           | CLK_FILTER_NEAREST;\n"
  "float look_by (read_only image2d_t image, sampler_t by, float x, float y)\n"
  "{ return read_imagef (image, by, (float2) (x, y)).x; }\n"
  "float look_again (image2d_t image, float x, float y)\n"
  "{\n"
  "  const sampler_t inner = (CLK_FILTER_NEAREST | CLK_ADDRESS_MIRRORED_REPEAT)\n"
  "                          | CLK_NORMALIZED_COORDS_TRUE;\n"
  "  return look_by (image, inner, x, y);\n"
  "}\n"
  "kernel void look (read_only image2d_t image, sampler_t a, __read_only image2d_t other,\n"
  "                  sampler_t b, sampler_t c, global float *out)\n"
  "{\n"
  "  out[0] = look_by (image, a, -3.0f, 1.5f);\n"
  "  out[1] = look_by (other, a, 99.0f, 0.5f);\n"
  "  out[2] = look_by (image, b, 1.1875f, 0.5f);\n"
  "  out[3] = look_by (other, b, -0.0625f, 0.1f);\n"
  "  out[4] = look_by (image, c, 3.0f, 0.5f);\n"
  "  out[5] = look_by (other, outer, -1.0f, 0.5f);\n"
  "  out[6] = look_again (image, 1.1875f, -0.1f);\n"
  "  out[7] = read_imagef (other, (int2) (3, 2)).x;\n"
  "  out[8] = read_imagef (image, a, (int2) (-1, 4)).x;\n"
  "  out[9] = read_imagef (image, b, (int2) (2, 1)).x;\n"
  "}\n";

static void
kernel_samplers (TestFixture *fixture)
{
  static const double expected[] = { 8, 107, 17, 107, 2.5, 0, 6, 119, 32, 10 };
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuImage) image = NULL;
  g_autoptr (GpuImage) other = NULL;
  g_autoptr (GpuSampler) edge = NULL;
  g_autoptr (GpuSampler) repeat = NULL;
  g_autoptr (GpuSampler) linear = NULL;

  if (!test_is_cuda (fixture, NEEDED))
    return;

  kernel = test_kernel (fixture, several, "look");
  image = sheet_new (fixture, 0);
  other = sheet_new (fixture, 100);
  edge = test_sampler (fixture, FALSE, GPU_ADDRESS_MODE_CLAMP_TO_EDGE, GPU_FILTER_MODE_NEAREST);
  repeat = test_sampler (fixture, TRUE, GPU_ADDRESS_MODE_REPEAT, GPU_FILTER_MODE_NEAREST);
  linear = test_sampler (fixture, FALSE, GPU_ADDRESS_MODE_CLAMP_TO_EDGE, GPU_FILTER_MODE_LINEAR);
  assert_floats (fixture, kernel, (gpointer[]) { image, edge, other, repeat, linear, NULL },
                 expected, G_N_ELEMENTS (expected));
}

/* The library creates a texture for each different constant sampler. Equal constant samplers share
 * a texture. */
static void
kernel_constants (TestFixture *fixture)
{
  static const char *const modes[] = { "CLAMP_TO_EDGE", "CLAMP", "REPEAT", "MIRRORED_REPEAT" };
  static const double of_texels[] = { 0, 0, 0, 0 };
  static const double of_edges[] = { 0, 0, 7, 0 };
  static const double between[] = { 0, 0, 7, 0.5 };
  g_autoptr (GpuImage) image = NULL;

  if (!test_is_cuda (fixture, NEEDED))
    return;

  image = sheet_new (fixture, 0);

  for (guint i = 0; i < G_N_ELEMENTS (modes); i++)
    {
      g_autofree char *text = g_strdup_printf (
        "__constant sampler_t nearest = CLK_ADDRESS_%s | CLK_FILTER_NEAREST\n"
        "                               | CLK_NORMALIZED_COORDS_TRUE;\n"
        "__kernel void look (__read_only image2d_t image, __global float *out)\n"
        "{\n"
        "  const sampler_t linear = CLK_ADDRESS_%s | CLK_FILTER_LINEAR\n"
        "                           | CLK_NORMALIZED_COORDS_TRUE;\n"
        "  out[0] = read_imagef (image, nearest, (float2) (0.0625f, 0.1f)).x;\n"
        "  out[1] = read_imagef (image, nearest, (float2) (-0.0625f, 0.1f)).x;\n"
        "  out[2] = read_imagef (image, linear, (float2) (-0.0625f, 0.1f)).x;\n"
        "  out[3] = read_imagef (image, linear, (float2) (-0.125f, 0.1f)).x;\n"
        "}\n", modes[i], modes[i]);
      g_autoptr (GpuKernel) kernel = test_kernel (fixture, text, "look");
      const double expected[] = { of_texels[i], of_edges[i], of_edges[i],
                                  i == 2 ? 6.5 : between[i] };

      assert_floats (fixture, kernel, (gpointer[]) { image, NULL }, expected, 4);
    }
}

static void
kernel_too_many (TestFixture *fixture)
{
  static const char most[] =
    "__kernel void most (sampler_t a, sampler_t b, sampler_t c, sampler_t d, sampler_t e,\n"
    "                    sampler_t f, sampler_t g, sampler_t h, __read_only image1d_t i,\n"
    "                    __global float4 *out)\n"
    "{ out[0] = read_imagef (i, h, 1.0f); }\n"
    "__kernel void more (sampler_t a, sampler_t b, sampler_t c, sampler_t d, sampler_t e,\n"
    "                    sampler_t f, sampler_t g, sampler_t h, sampler_t i) { }\n";
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuProgram) program = NULL;
  g_autoptr (GpuKernel) kernel = NULL;

  if (!test_is_cuda (fixture, NEEDED))
    return;

  program = test_program (fixture, most);
  kernel = gpu_program_get_kernel (program, "most", &error);
  g_assert_no_error (error);
  g_clear_object (&kernel);
  g_assert_null (gpu_program_get_kernel (program, "more", &error));
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "\"more\"", "9 samplers", "8");
}

/* --- programs --------------------------------------------------------------------------------- */

static void
assert_argument (GpuKernel       *kernel,
                 guint            index,
                 GpuArgumentKind  kind,
                 const char      *name,
                 const char      *type)
{
  g_assert_cmpint (gpu_kernel_get_argument_kind (kernel, index), ==, kind);
  g_assert_cmpstr (gpu_kernel_get_argument_name (kernel, index), ==, name);
  g_assert_cmpstr (gpu_kernel_get_argument_type_name (kernel, index), ==, type);
}

static void
kernel_arguments (TestFixture *fixture)
{
  static const char *const types[] = { "image1d_t", "image1d_array_t", "image1d_buffer_t",
                                       "image2d_t", "image2d_array_t", "image3d_t" };

  if (!test_is_cuda (fixture, NEEDED))
    return;

  for (guint i = 0; i < G_N_ELEMENTS (types); i++)
    {
      const char *type = types[i];
      g_autofree char *text = g_strdup_printf ("kernel void f (read_only %s a, __write_only %s b,\n"
                                               "%s c, sampler_t d, float e, local int *g,\n"
                                               "const sampler_t h, write_only\n%s i) { }\n", type,
                                               type, type, type);
      g_autoptr (GpuKernel) kernel = test_kernel (fixture, text, "f");

      g_assert_cmpuint (gpu_kernel_get_n_arguments (kernel), ==, 8);
      assert_argument (kernel, 0, GPU_ARGUMENT_KIND_IMAGE, "a", type);
      assert_argument (kernel, 1, GPU_ARGUMENT_KIND_IMAGE, "b", type);
      assert_argument (kernel, 2, GPU_ARGUMENT_KIND_IMAGE, "c", type);
      assert_argument (kernel, 3, GPU_ARGUMENT_KIND_SAMPLER, "d", "sampler_t");
      assert_argument (kernel, 4, GPU_ARGUMENT_KIND_VALUE, "e", "float");
      assert_argument (kernel, 5, GPU_ARGUMENT_KIND_LOCAL, "g", "int*");
      assert_argument (kernel, 6, GPU_ARGUMENT_KIND_SAMPLER, "h", "sampler_t");
      assert_argument (kernel, 7, GPU_ARGUMENT_KIND_IMAGE, "i", type);
    }
}

/* Linked programs do not share samplers. */
static void
kernel_linked (TestFixture *fixture)
{
  static const char *const sources[] =
  {
    "float look (__read_only image2d_t image, sampler_t by, float x);\n"
    "float look_outside (__read_only image2d_t image);\n"
    "__kernel void f (__read_only image2d_t image, sampler_t by, __global float *out)\n"
    "{ out[0] = look (image, by, 3.5f); out[1] = look_outside (image); }\n",
    "float look (__read_only image2d_t image, sampler_t by, float x)\n"
    "{ return read_imagef (image, by, (float2) (x, 1.5f)).x; }\n"
    "float look_outside (__read_only image2d_t image)\n"
    "{\n"
    "  const sampler_t by = CLK_NORMALIZED_COORDS_TRUE | CLK_ADDRESS_REPEAT | CLK_FILTER_NEAREST;\n"
    "  return look (image, by, 1.3125f);\n"
    "}\n"
  };
  static const double expected[] = { 11, 18 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuProgram) program = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuImage) image = NULL;
  g_autoptr (GpuSampler) edge = NULL;
  GBytes *parts[2];

  if (!test_is_cuda (fixture, NEEDED) || !test_has (fixture, GPU_CAPABILITIES_LINKING))
    return;

  for (guint i = 0; i < G_N_ELEMENTS (parts); i++)
    {
      parts[i] = gpu_program_compile (fixture->context, sources[i], NULL, NULL, &error);
      g_assert_no_error (error);
    }

  program = gpu_program_new_linked (fixture->context, parts, 2, NULL, &error);
  g_assert_no_error (error);
  g_bytes_unref (parts[0]);
  g_bytes_unref (parts[1]);
  kernel = gpu_program_get_kernel (program, "f", &error);
  g_assert_no_error (error);
  image = sheet_new (fixture, 0);
  edge = test_sampler (fixture, FALSE, GPU_ADDRESS_MODE_CLAMP_TO_EDGE, GPU_FILTER_MODE_NEAREST);
  assert_floats (fixture, kernel, (gpointer[]) { image, edge, NULL }, expected, 2);
}

/* Macros defined in the options apply to the source. */
static void
kernel_macros (TestFixture *fixture)
{
  static const char text[] = "__kernel void f (__read_only IMAGE i, __global float *o)\n"
                             "{ o[0] = read_imagef (i, BY, 9.0f).x; }\n";
  static const char *const options[] = { "-DIMAGE=image1d_t", "-D", "BY=(CLK_FILTER_NEAREST|"
                                         "CLK_ADDRESS_CLAMP_TO_EDGE|CLK_NORMALIZED_COORDS_TRUE)",
                                         NULL };
  static const double expected[] = { 5 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuProgram) program = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuImage) image = NULL;
  g_autofree char *joined = g_strjoinv (" ", (char **) options);

  if (!test_is_cuda (fixture, NEEDED))
    return;

  program = gpu_program_new_from_source (fixture->context, text, joined, &error);
  g_assert_no_error (error);
  kernel = gpu_program_get_kernel (program, "f", &error);
  g_assert_no_error (error);
  image = test_image_numbers (fixture, &r_float, GPU_IMAGE_TYPE_IMAGE_1D, (GpuExtent) { 6, 1, 1 },
                              0);
  assert_floats (fixture, kernel, (gpointer[]) { image, NULL }, expected, 1);
}

/* Writes @header to a file and builds @text with the options @format, in which %s is the path of
 * the file. */
static void
assert_with_file (TestFixture *fixture,
                  const char  *header,
                  const char  *text,
                  const char  *format)
{
  static const double expected[] = { 2, 0 };
  g_autoptr (GError) error = NULL;
  g_autofree char *directory = g_dir_make_tmp ("gpumem-XXXXXX", &error);
  g_autofree char *path = g_build_filename (directory, "images.h", NULL);
  g_auto (GStrv) parts = g_strsplit (format, "%", 2);
  g_autofree char *options = g_strjoinv (directory, parts);
  g_autoptr (GpuProgram) program = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuImage) image = NULL;

  g_assert_no_error (error);
  g_file_set_contents (path, header, -1, &error);
  g_assert_no_error (error);
  program = gpu_program_new_from_source (fixture->context, text, options, &error);
  g_unlink (path);
  g_rmdir (directory);
  g_assert_no_error (error);
  kernel = gpu_program_get_kernel (program, "f", &error);
  g_assert_no_error (error);
  image = test_image_numbers (fixture, &r_float, GPU_IMAGE_TYPE_IMAGE_1D, (GpuExtent) { 4, 1, 1 },
                              0);
  assert_floats (fixture, kernel, (gpointer[]) { image, NULL }, expected, 2);
}

/* Only the files that the options include use images; the source does not. The files precede the
 * source, so their macros apply to the source. */
static void
kernel_included (TestFixture *fixture)
{
  static const char types[] =
    "#define IMAGE __read_only image1d_t\n"
    "__constant sampler_t BY = CLK_FILTER_NEAREST | CLK_ADDRESS_CLAMP;\n";
  static const char macros[] =
    "#define IMAGE __read_only image1d_t\n"
    "#define BY (CLK_FILTER_NEAREST | CLK_ADDRESS_CLAMP)\n";
  static const char including[] =
    "#include \"images.h\"\n"
    "__kernel void f (IMAGE i, __global float *o)\n"
    "{ o[0] = read_imagef (i, BY, 2.5f).x; o[1] = read_imagef (i, BY, 9.0f).x; }\n";
  static const char typed[] =
    "__kernel void f (__read_only image1d_t i, __global float *o)\n"
    "{ o[0] = read_imagef (i, BY, 2.5f).x; o[1] = read_imagef (i, BY, 9.0f).x; }\n";
  const char *text = strchr (including, '\n') + 1;

  if (!test_is_cuda (fixture, NEEDED))
    return;

  assert_with_file (fixture, types, including, "-I '%'");
  assert_with_file (fixture, macros, text, "--pre-include='%/images.h'");
  assert_with_file (fixture, macros, typed, "-include '%/images.h'");
  assert_with_file (fixture, "", typed, "'-DBY=(CLK_FILTER_NEAREST|CLK_ADDRESS_CLAMP)' "
                    "--pre-include='%/images.h'");
}

/* --- mip levels ------------------------------------------------------------------------------- */

static void
kernel_levels (TestFixture *fixture)
{
  static const char text[] =
    "__constant sampler_t mine = CLK_NORMALIZED_COORDS_TRUE | CLK_ADDRESS_CLAMP_TO_EDGE\n"
    "                            | CLK_FILTER_LINEAR;\n"
    "__kernel void look (__read_only image2d_t image, sampler_t by, __global float *out)\n"
    "{\n"
    "  out[0] = read_imagef (image, by, (float2) (0.5f, 0.5f)).x;\n"
    "  out[1] = read_imagef (image, by, (float2) (0.5f, 0.5f), 1.25f).x;\n"
    "  out[2] = read_imagef (image, mine, (float2) (0.5f, 0.5f), 1.25f).x;\n"
    "  out[3] = read_imagef (image, mine, (float2) (0.5f, 0.5f), 7).x;\n"
    "  out[4] = read_imagef (image, (int2) (1, 1)).x;\n"
    "}\n";
  static const double expected[] = { 0, 1.25, 1, 2, 0 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuImage) image = NULL;
  g_autoptr (GpuSampler) sampler = NULL;

  if (!test_is_cuda (fixture, NEEDED) || !test_has (fixture, GPU_CAPABILITIES_MIPMAPS))
    return;

  kernel = test_kernel (fixture, text, "look");
  image = gpu_image_new_mipmapped (fixture->context, GPU_MEMORY_FLAGS_NONE, &r_float,
                                   GPU_IMAGE_TYPE_IMAGE_2D, &(GpuExtent) { 8, 4, 1 }, 3, &error);
  g_assert_no_error (error);

  for (guint i = 0; i < 3; i++)
    {
      const GpuColor color = { i, 0, 0, 0 };
      g_autoptr (GpuImage) level = gpu_image_get_level (image, i, &error);

      g_assert_no_error (error);
      test_assert_ok (gpu_stream_fill_image (fixture->stream, level, &color, NULL, NULL, &error),
                      error);
    }

  sampler = g_initable_new (GPU_TYPE_SAMPLER, NULL, &error, "context", fixture->context,
                            "normalized-coordinates", TRUE, "mip-filter-mode",
                            GPU_FILTER_MODE_LINEAR, NULL);
  g_assert_no_error (error);
  assert_floats (fixture, kernel, (gpointer[]) { image, sampler, NULL }, expected, 5);
}

/* --- objects ---------------------------------------------------------------------------------- */

static guint64
object (GpuImage   *image,
        GpuSampler *sampler)
{
  g_autoptr (GError) error = NULL;
  guint64 handle = gpu_image_get_native_object (image, sampler, &error);

  g_assert_no_error (error);
  g_assert_cmpuint (handle, !=, 0);

  return handle;
}

/* An image has one texture object for all equal samplers. */
static void
object_same (TestFixture *fixture)
{
  g_autoptr (GpuImage) image = NULL;
  g_autoptr (GpuImage) other = NULL;
  g_autoptr (GpuSampler) nearest = NULL;
  g_autoptr (GpuSampler) equal = NULL;
  g_autoptr (GpuSampler) linear = NULL;

  if (!test_is_cuda (fixture, NEEDED))
    return;

  image = sheet_new (fixture, 0);
  other = sheet_new (fixture, 0);
  nearest = test_sampler (fixture, FALSE, GPU_ADDRESS_MODE_CLAMP_TO_EDGE, GPU_FILTER_MODE_NEAREST);
  equal = test_sampler (fixture, FALSE, GPU_ADDRESS_MODE_CLAMP_TO_EDGE, GPU_FILTER_MODE_NEAREST);
  linear = test_sampler (fixture, FALSE, GPU_ADDRESS_MODE_CLAMP_TO_EDGE, GPU_FILTER_MODE_LINEAR);
  g_assert_cmpuint (object (image, nearest), ==, object (image, nearest));
  g_assert_cmpuint (object (image, nearest), ==, object (image, equal));
  g_assert_cmpuint (object (image, nearest), !=, object (image, linear));
  g_assert_cmpuint (object (image, nearest), !=, object (other, nearest));
  g_assert_cmpuint (object (image, NULL), ==, object (image, NULL));
  g_assert_cmpuint (object (image, NULL), !=, object (other, NULL));
}

/* gpu_image_get_native_object() returns 0 and an error if the image cannot have a texture or
 * surface object. */
static void
object_none (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuContext) context = NULL;
  g_autoptr (GpuSampler) foreign = NULL;
  g_autoptr (GpuSampler) linear = NULL;
  g_autoptr (GpuImage) image = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuImage) row = NULL;

  if (!test_is_cuda (fixture, NEEDED))
    return;

  context = gpu_context_new (fixture->device, GPU_CONTEXT_FLAGS_NONE, &error);
  g_assert_no_error (error);
  foreign = gpu_sampler_new (context, FALSE, GPU_ADDRESS_MODE_CLAMP_TO_EDGE,
                             GPU_FILTER_MODE_NEAREST, &error);
  g_assert_no_error (error);
  image = test_image_numbers (fixture, &r_int, GPU_IMAGE_TYPE_IMAGE_1D, (GpuExtent) { WIDTH, 1, 1 },
                              0);
  g_assert_cmpuint (gpu_image_get_native_object (image, foreign, &error), ==, 0);
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_image_get_native_object",
                         "another context");

  /* Integers are not filtered. */
  linear = test_sampler (fixture, FALSE, GPU_ADDRESS_MODE_CLAMP_TO_EDGE, GPU_FILTER_MODE_LINEAR);
  g_assert_cmpuint (gpu_image_get_native_object (image, linear, &error), ==, 0);
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_image_get_native_object",
                         "r-int32", "filtered");

  buffer = test_buffer (fixture, 4 * WIDTH);
  row = gpu_image_new_for_buffer (buffer, GPU_MEMORY_FLAGS_NONE, &r_int,
                                  GPU_IMAGE_TYPE_IMAGE_1D_BUFFER,
                                  WIDTH, 1, 0, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (gpu_image_get_native_object (row, NULL, &error), ==, 0);
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "over a buffer", "no surface object");
  gpu_memory_release (GPU_MEMORY (image));
  g_assert_cmpuint (gpu_image_get_native_object (image, NULL, &error), ==, 0);
  test_assert_gpu_error (error, GPU_ERROR_RELEASED, "gpu_image_get_native_object");
}

static void
assert_refused (TestFixture  *fixture,
                const char   *text,
                GpuArguments *arguments,
                const char   *words)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuKernel) kernel = test_kernel (fixture, text, "f");

  g_assert_false (gpu_stream_launch_arguments (fixture->stream, kernel, &one, NULL, arguments,
                                               &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, words);
}

static void
object_refused (TestFixture *fixture)
{
  g_autoptr (GpuImage) image = NULL;
  g_autoptr (GpuSampler) sampler = NULL;
  g_autoptr (GpuArguments) alone = gpu_arguments_new ();
  g_autoptr (GpuArguments) surface = gpu_arguments_new ();

  if (!test_is_cuda (fixture, NEEDED))
    return;

  image = test_image_numbers (fixture, &r_int, GPU_IMAGE_TYPE_IMAGE_1D, (GpuExtent) { WIDTH, 1, 1 },
                              0);
  sampler = test_sampler (fixture, FALSE, GPU_ADDRESS_MODE_CLAMP_TO_EDGE, GPU_FILTER_MODE_NEAREST);
  gpu_arguments_add_sampler (alone, sampler);
  gpu_arguments_add_memory (surface, GPU_MEMORY (image));
  assert_refused (fixture, "extern \"C\" __global__ void f (unsigned long long s) { }", alone,
                  "sampler");
  assert_refused (fixture, "extern \"C\" __global__ void f (int s) { }", surface, "4 bytes");
}

/* The library does not track reads of a READ_ONLY image, so such an image must refuse writes. A
 * WRITE_ONLY image refuses reads. */
static void
object_access (TestFixture *fixture)
{
  static const char text[] = "extern \"C\" __global__ void f (unsigned long long object) { }";
  const GpuExtent row = { WIDTH, 1, 1 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuSampler) sampler = NULL;

  if (!test_is_cuda (fixture, NEEDED))
    return;

  kernel = test_kernel (fixture, text, "f");
  sampler = test_sampler (fixture, FALSE, GPU_ADDRESS_MODE_CLAMP_TO_EDGE, GPU_FILTER_MODE_NEAREST);

  for (guint i = 0; i < 2; i++)
    {
      g_autoptr (GpuImage) image = gpu_image_new (fixture->context,
                                                  i == 0 ? GPU_MEMORY_FLAGS_READ_ONLY
                                                  : GPU_MEMORY_FLAGS_WRITE_ONLY, &r_float,
                                                  GPU_IMAGE_TYPE_IMAGE_1D, &row, &error);
      g_autoptr (GpuArguments) texture = gpu_arguments_new ();
      g_autoptr (GpuArguments) surface = gpu_arguments_new ();
      g_autoptr (GpuLaunch) launch = NULL;
      const char *words = i == 0 ? "is written, which the flags of the image, read-only"
                                 : "is read, which the flags of the image, write-only";

      g_assert_no_error (error);
      gpu_arguments_add_texture (texture, image, sampler);
      gpu_arguments_add_memory (surface, GPU_MEMORY (image));
      assert_refused (fixture, text, i == 0 ? surface : texture, words);
      g_assert_null (gpu_launch_new (kernel, &one, NULL, NULL, 0, GPU_LAUNCH_FLAGS_NONE,
                                     i == 0 ? surface : texture, &error));
      test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "argument 0", words);
      g_assert_cmpuint (gpu_image_get_native_object (image, i == 0 ? NULL : sampler, &error), ==,
                        0);
      test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_image_get_native_object",
                             words);

      object (image, i == 0 ? sampler : NULL);
      launch = gpu_launch_new (kernel, &one, NULL, NULL, 0, GPU_LAUNCH_FLAGS_NONE,
                               i == 0 ? texture : surface, &error);
      g_assert_no_error (error);
      test_assert_ok (gpu_stream_launch_prepared (fixture->stream, launch, &error), error);
    }
}

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
  test_add ("samplers", kernel_samplers);
  test_add ("constants", kernel_constants);
  test_add ("too-many", kernel_too_many);
  test_add ("arguments", kernel_arguments);
  test_add ("linked", kernel_linked);
  test_add ("macros", kernel_macros);
  test_add ("included", kernel_included);
  test_add ("levels", kernel_levels);
  test_add ("same-objects", object_same);
  test_add ("no-objects", object_none);
  test_add ("refused", object_refused);
  test_add ("access", object_access);
  return test_run ();
}
