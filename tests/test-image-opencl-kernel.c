/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* OpenCL C kernels with images: reads and writes of every format and type, compared texel by texel
 * with gpu-texel.c, and the argument information and invalid arguments of such kernels. */
#include "config.h"

#include <math.h>

#include "gpumem/format/gpu-texel-private.h"
#include "test-util.h"

typedef struct
{
  GpuImageType  type;
  const char   *name;           /* in kernel names */
  const char   *c_type;
  GpuExtent     extent;
  gboolean      has_samplers;
} TypeInfo;

static const TypeInfo types[] =
{
  { GPU_IMAGE_TYPE_IMAGE_1D, "1d", "image1d_t", { 64, 1, 1 }, TRUE },
  { GPU_IMAGE_TYPE_IMAGE_1D_ARRAY, "1d_array", "image1d_array_t", { 16, 5, 1 }, TRUE },
  { GPU_IMAGE_TYPE_IMAGE_1D_BUFFER, "1d_buffer", "image1d_buffer_t", { 64, 1, 1 }, FALSE },
  { GPU_IMAGE_TYPE_IMAGE_2D, "2d", "image2d_t", { 16, 8, 1 }, TRUE },
  { GPU_IMAGE_TYPE_IMAGE_2D_ARRAY, "2d_array", "image2d_array_t", { 8, 4, 3 }, TRUE },
  { GPU_IMAGE_TYPE_IMAGE_3D, "3d", "image3d_t", { 8, 4, 4 }, TRUE }
};

static const char source[] =
  "#ifdef WRITE_3D\n"
  "#pragma OPENCL EXTENSION cl_khr_3d_image_writes : enable\n"
  "#endif\n"
  "#define AT_1d(x, y, z) (x)\n"
  "#define AT_1d_buffer(x, y, z) (x)\n"
  "#define AT_1d_array(x, y, z) (int2) (x, y)\n"
  "#define AT_2d(x, y, z) (int2) (x, y)\n"
  "#define AT_2d_array(x, y, z) (int4) (x, y, z, 0)\n"
  "#define AT_3d(x, y, z) (int4) (x, y, z, 0)\n"
  "#define PLACE \\\n"
  "  int x = get_global_id (0), y = get_global_id (1), z = get_global_id (2); \\\n"
  "  int i = (z * get_global_size (1) + y) * get_global_size (0) + x;\n"
  "#define READ(name, type, kind, texel) \\\n"
  "  __kernel void read_##name##_##kind (__read_only type image, sampler_t s, \\\n"
  "                                      __global texel *out) \\\n"
  "  { PLACE out[i] = read_image##kind (image, s, AT_##name (x, y, z)); }\n"
  "#define READ_PLAIN(name, type, kind, texel) \\\n"
  "  __kernel void plain_##name##_##kind (__read_only type image, __global texel *out) \\\n"
  "  { PLACE out[i] = read_image##kind (image, AT_##name (x, y, z)); }\n"
  "#define WRITE(name, type, kind, texel) \\\n"
  "  __kernel void write_##name##_##kind (__write_only type image, \\\n"
  "                                       __global const texel *in) \\\n"
  "  { PLACE write_image##kind (image, AT_##name (x, y, z), in[i]); }\n"
  "#define KINDS(what, name, type) \\\n"
  "  what (name, type, f, float4) what (name, type, i, int4) what (name, type, ui, uint4)\n"
  "#define ALL(name, type) KINDS (READ, name, type) KINDS (READ_PLAIN, name, type)\n"
  "ALL (1d, image1d_t)\n"
  "ALL (1d_array, image1d_array_t)\n"
  "ALL (2d, image2d_t)\n"
  "ALL (2d_array, image2d_array_t)\n"
  "ALL (3d, image3d_t)\n"
  "KINDS (READ_PLAIN, 1d_buffer, image1d_buffer_t)\n"
  "KINDS (WRITE, 1d, image1d_t)\n"
  "KINDS (WRITE, 1d_array, image1d_array_t)\n"
  "KINDS (WRITE, 1d_buffer, image1d_buffer_t)\n"
  "KINDS (WRITE, 2d, image2d_t)\n"
  "KINDS (WRITE, 2d_array, image2d_array_t)\n"
  "#ifdef WRITE_3D\n"
  "KINDS (WRITE, 3d, image3d_t)\n"
  "#endif\n"
  "__kernel void tell (__read_only image2d_t a, __read_only image2d_array_t b,\n"
  "                    __read_only image3d_t c, __read_only image1d_array_t d,\n"
  "                    __global int *out)\n"
  "{\n"
  "  out[0] = get_image_width (a);\n"
  "  out[1] = get_image_height (a);\n"
  "  out[2] = get_image_channel_order (a);\n"
  "  out[3] = get_image_channel_data_type (a);\n"
  "  out[4] = (int) get_image_array_size (b);\n"
  "  out[5] = get_image_dim (b).y;\n"
  "  out[6] = get_image_depth (c);\n"
  "  out[7] = get_image_dim (c).z;\n"
  "  out[8] = get_image_width (d);\n"
  "  out[9] = (int) get_image_array_size (d);\n"
  "}\n";

static gboolean
has_images (TestFixture *fixture)
{
  if (!test_is_opencl (fixture))
    {
      g_test_skip ("there is no OpenCL device");
      return FALSE;
    }

  return test_has (fixture, GPU_CAPABILITIES_IMAGES)
         && test_has (fixture, GPU_CAPABILITIES_SOURCE);
}

static gboolean
writes_3d (TestFixture *fixture)
{
  return (gpu_device_get_capabilities (fixture->device)
          & GPU_CAPABILITIES_IMAGE_3D_WRITES) != 0;
}

static GpuProgram *
build (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  GpuProgram *program;

  program = gpu_program_new_from_source (fixture->context, source,
                                         writes_3d (fixture) ? "-DWRITE_3D" : NULL, &error);
  g_assert_no_error (error);

  return program;
}

static GpuKernel *
get_kernel (GpuProgram     *program,
            const char     *what,
            const TypeInfo *type,
            const char     *kind)
{
  g_autofree char *name = g_strconcat (what, "_", type->name, "_", kind, NULL);
  g_autoptr (GError) error = NULL;
  GpuKernel *kernel = gpu_program_get_kernel (program, name, &error);

  g_assert_no_error (error);

  return kernel;
}

static gsize
count (const GpuExtent *extent)
{
  return extent->width * extent->height * extent->depth;
}

static GpuImage *
make_image (TestFixture          *fixture,
            const TypeInfo       *type,
            const GpuImageFormat *format,
            GBytes               *bytes)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  GpuImage *image;

  if (type->type == GPU_IMAGE_TYPE_IMAGE_1D_BUFFER)
    {
      buffer = test_buffer_from (fixture, bytes);
      image = gpu_image_new_for_buffer (buffer, GPU_MEMORY_FLAGS_NONE, format, type->type,
                                        type->extent.width, 1, 0, &error);
    }
  else
    {
      image = gpu_image_new_from_bytes (fixture->context, GPU_MEMORY_FLAGS_NONE, format, type->type,
                                        &type->extent, bytes, 0, 0, &error);
    }

  g_assert_no_error (error);

  return image;
}

/* Returns random texels with values that drivers preserve: no denormals, infinities or NaNs. */
static GBytes *
random_texels (const GpuImageFormat *format,
               gsize                 n)
{
  const gsize size = n * gpu_image_format_get_texel_size (format);
  g_autoptr (GBytes) random = test_random_bytes (size);
  guint8 *data = g_memdup2 (g_bytes_get_data (random, NULL), size);

  for (gsize i = 3; format->channel_type == GPU_CHANNEL_TYPE_FLOAT32 && i < size; i += 4)
    data[i] = (data[i] & 0x80) | 0x3f;
  for (gsize i = 1; format->channel_type == GPU_CHANNEL_TYPE_FLOAT16 && i < size; i += 2)
    data[i] = (data[i] & 0x80) | 0x34;

  return g_bytes_new_take (data, size);
}

static const char *
get_kind_name (const GpuImageFormat *format)
{
  static const char *const names[] = { [GPU_TEXEL_REAL] = "f", [GPU_TEXEL_INTEGER] = "i",
                                       [GPU_TEXEL_NATURAL] = "ui" };

  return names[_gpu_texel_get_kind (format)];
}

/* --- every format ----------------------------------------------------------------------------- */

static gboolean
has_alpha (const GpuImageFormat *format)
{
  switch (format->channel_order)
    {
    case GPU_CHANNEL_ORDER_R:
    case GPU_CHANNEL_ORDER_RG:
    case GPU_CHANNEL_ORDER_RGB:
    case GPU_CHANNEL_ORDER_LUMINANCE:
    case GPU_CHANNEL_ORDER_DEPTH:
      return FALSE;
    default:
      return TRUE;
    }
}

/* PoCL returns an alpha of 0, not 1, for integer formats without alpha. */
static gboolean
is_close (TestFixture          *fixture,
          const GpuImageFormat *format,
          const GpuTexel       *got,
          const GpuTexel       *expected,
          guint                 component)
{
  if (_gpu_texel_get_kind (format) == GPU_TEXEL_REAL)
    return fabsf (got->real[component] - expected->real[component])
           <= 1e-5f * MAX (1.0f, fabsf (expected->real[component]));

  return got->natural[component] == expected->natural[component]
         || (component == 3 && test_is_pocl (fixture) && !has_alpha (format)
             && got->natural[component] == 0);
}

static void
assert_texels (TestFixture          *fixture,
               const TypeInfo       *type,
               const GpuImageFormat *format,
               GBytes               *bytes,
               GpuBuffer            *out,
               const char           *what)
{
  const gsize texel_size = gpu_image_format_get_texel_size (format);
  g_autofree char *name = gpu_image_format_to_string (format);
  g_autoptr (GBytes) content = test_content (out);
  const GpuTexel *got = g_bytes_get_data (content, NULL);
  const guint8 *data = g_bytes_get_data (bytes, NULL);

  for (gsize i = 0; i < count (&type->extent); i++)
    {
      GpuTexel expected;

      _gpu_texel_read (format, data + i * texel_size, &expected);
      for (guint c = 0; c < 4; c++)
        {
          if (is_close (fixture, format, &got[i], &expected, c))
            continue;
          g_test_message ("%s, %s, %s: texel %" G_GSIZE_FORMAT ", component %u: got %g or %u, not "
                          "%g or %u", what, type->name, name, i, c, got[i].real[c],
                          got[i].natural[c], expected.real[c], expected.natural[c]);
          g_test_fail ();
          return;
        }
    }
}

static void
read_format (TestFixture          *fixture,
             GpuProgram           *program,
             GpuSampler           *sampler,
             const TypeInfo       *type,
             const GpuImageFormat *format)
{
  const gsize n = count (&type->extent);
  const char *kind = get_kind_name (format);
  g_autoptr (GBytes) bytes = random_texels (format, n);
  g_autoptr (GpuImage) image = make_image (fixture, type, format, bytes);
  g_autoptr (GpuBuffer) out = test_buffer_filled (fixture, 16 * n, 0);
  g_autoptr (GpuKernel) plain = get_kernel (program, "plain", type, kind);
  g_autoptr (GpuKernel) read = NULL;
  g_autoptr (GError) error = NULL;

  test_assert_ok (gpu_stream_launch (fixture->stream, plain, &type->extent, NULL, &error, image,
                                     out), error);
  assert_texels (fixture, type, format, bytes, out, "without a sampler");

  if (!type->has_samplers)
    return;

  read = get_kernel (program, "read", type, kind);
  test_assert_ok (gpu_buffer_fill (out, NULL, 0, 16 * n, (const guint8[]) { 0xff }, 1, NULL,
                                   &error), error);
  test_assert_ok (gpu_stream_launch (fixture->stream, read, &type->extent, NULL, &error, image,
                                     sampler, out), error);
  assert_texels (fixture, type, format, bytes, out, "with a sampler");
}

/* Returns random values, some outside of the format's range. */
static GBytes *
random_values (const GpuImageFormat *format,
               gsize                 n)
{
  const GpuTexelKind kind = _gpu_texel_get_kind (format);
  GpuTexel *values = g_new (GpuTexel, n);

  for (gsize i = 0; i < 4 * n; i++)
    {
      const gdouble random = g_test_rand_double_range (-1.5, 1.5);

      if (kind == GPU_TEXEL_REAL)
        values[i / 4].real[i % 4] = (float) random;
      else if (kind == GPU_TEXEL_INTEGER)
        values[i / 4].integer[i % 4] = (gint32) (random * (i % 3 == 0 ? 1e9 : 150));
      else
        values[i / 4].natural[i % 4] = (guint32) (fabs (random) * (i % 3 == 0 ? 2e9 : 200));
    }

  return g_bytes_new_take (values, n * sizeof *values);
}

/* Allows a difference of one if the specification of OpenCL leaves the rounding open. */
static gboolean
is_close_channel (const GpuImageFormat *format,
                  const guint8         *got,
                  const guint8         *expected)
{
  const GpuImageFormat single = { GPU_CHANNEL_ORDER_R, format->channel_type };
  const guint one = _gpu_texel_get_one (&single, 0);
  GpuTexel first;
  GpuTexel second;

  _gpu_texel_read (&single, got, &first);
  _gpu_texel_read (&single, expected, &second);

  if (one != 0)
    return fabsf (first.real[0] - second.real[0]) <= 1.01f / (float) one;
  if (format->channel_type == GPU_CHANNEL_TYPE_FLOAT16)
    return fabsf (first.real[0] - second.real[0]) <= 1e-3f * fabsf (second.real[0]);

  return first.natural[0] == second.natural[0];
}

static void
write_format (TestFixture          *fixture,
              GpuProgram           *program,
              const TypeInfo       *type,
              const GpuImageFormat *format)
{
  const gsize n = count (&type->extent);
  const gsize texel_size = gpu_image_format_get_texel_size (format);
  const gsize channel_size = gpu_image_format_get_channel_size (format);
  g_autofree char *name = gpu_image_format_to_string (format);
  g_autoptr (GBytes) values = random_values (format, n);
  g_autoptr (GBytes) zeros = test_value_bytes (n * texel_size, 0);
  g_autoptr (GpuImage) image = make_image (fixture, type, format, zeros);
  g_autoptr (GpuBuffer) in = test_buffer_from (fixture, values);
  g_autoptr (GpuKernel) kernel = get_kernel (program, "write", type, get_kind_name (format));
  g_autofree guint8 *expected = g_malloc0 (n * texel_size);
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = NULL;
  const guint8 *got;

  test_assert_ok (gpu_stream_launch (fixture->stream, kernel, &type->extent, NULL, &error, image,
                                     in), error);
  bytes = gpu_image_read_bytes (image, NULL, NULL, NULL, NULL, &error);
  g_assert_no_error (error);
  got = g_bytes_get_data (bytes, NULL);

  for (gsize i = 0; i < n; i++)
    _gpu_texel_write (format, (const GpuTexel *) g_bytes_get_data (values, NULL) + i,
                      expected + i * texel_size);

  for (gsize i = 0; i < n * texel_size; i += channel_size)
    {
      if (is_close_channel (format, got + i, expected + i))
        continue;
      g_test_message ("written, %s, %s: byte %" G_GSIZE_FORMAT " is 0x%02x, not 0x%02x",
                      type->name, name, i, got[i], expected[i]);
      g_test_fail ();
      return;
    }
}

static gboolean
is_plain (const GpuImageFormat *format)
{
  return format->channel_order != GPU_CHANNEL_ORDER_DEPTH
         && format->channel_order != GPU_CHANNEL_ORDER_SRGBA
         && format->channel_order != GPU_CHANNEL_ORDER_SBGRA
         && format->channel_type < GPU_CHANNEL_TYPE_UNORM_565;
}

static void
run_formats (TestFixture *fixture,
             guint        index)
{
  const TypeInfo *type = &types[index];
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuProgram) program = NULL;
  g_autoptr (GpuSampler) sampler = NULL;
  g_autolist (GpuImageFormat) formats = NULL;

  if (!has_images (fixture))
    return;

  program = build (fixture);
  sampler = gpu_sampler_new (fixture->context, FALSE, GPU_ADDRESS_MODE_CLAMP_TO_EDGE,
                             GPU_FILTER_MODE_NEAREST, &error);
  g_assert_no_error (error);
  formats = gpu_context_list_image_formats (fixture->context, GPU_MEMORY_FLAGS_NONE, type->type,
                                            &error);
  g_assert_no_error (error);
  g_assert_cmpuint (g_list_length (formats), >=, 10);

  for (GList *link = formats; link != NULL; link = link->next)
    {
      const GpuImageFormat *format = link->data;

      if (!is_plain (format))
        continue;
      read_format (fixture, program, sampler, type, format);
      if (type->type != GPU_IMAGE_TYPE_IMAGE_3D || writes_3d (fixture))
        write_format (fixture, program, type, format);
    }

  g_test_message ("%s: %u formats", type->name, g_list_length (formats));
}

#define TYPE_TEST(name, index) \
  static void name (TestFixture *fixture) { run_formats (fixture, index); }

TYPE_TEST (formats_1d, 0)
TYPE_TEST (formats_1d_array, 1)
TYPE_TEST (formats_1d_buffer, 2)
TYPE_TEST (formats_2d, 3)
TYPE_TEST (formats_2d_array, 4)
TYPE_TEST (formats_3d, 5)

/* --- arguments -------------------------------------------------------------------------------- */

static void
arguments (TestFixture *fixture)
{
  g_autoptr (GpuProgram) program = NULL;

  if (!has_images (fixture) || !test_has (fixture, GPU_CAPABILITIES_ARGUMENT_INFO))
    return;

  program = build (fixture);

  for (guint i = 0; i < G_N_ELEMENTS (types); i++)
    {
      g_autoptr (GpuKernel) plain = get_kernel (program, "plain", &types[i], "f");
      g_autoptr (GpuKernel) read = NULL;

      g_assert_cmpint (gpu_kernel_get_argument_kind (plain, 0), ==, GPU_ARGUMENT_KIND_IMAGE);
      g_assert_cmpstr (gpu_kernel_get_argument_type_name (plain, 0), ==, types[i].c_type);
      g_assert_cmpint (gpu_kernel_get_argument_kind (plain, 1), ==, GPU_ARGUMENT_KIND_MEMORY);
      if (!types[i].has_samplers)
        continue;
      read = get_kernel (program, "read", &types[i], "ui");
      g_assert_cmpint (gpu_kernel_get_argument_kind (read, 1), ==, GPU_ARGUMENT_KIND_SAMPLER);
      g_assert_cmpstr (gpu_kernel_get_argument_type_name (read, 1), ==, "sampler_t");
    }
}

static void
arguments_refused (TestFixture *fixture)
{
  const GpuImageFormat format = { GPU_CHANNEL_ORDER_RGBA, GPU_CHANNEL_TYPE_UINT8 };
  const GpuExtent extent = { 16, 8, 1 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuProgram) program = NULL;
  g_autoptr (GpuKernel) read = NULL;
  g_autoptr (GpuKernel) write = NULL;
  g_autoptr (GpuBuffer) out = NULL;
  g_autoptr (GpuImage) image = NULL;
  g_autoptr (GpuImage) row = NULL;
  g_autoptr (GpuSampler) sampler = NULL;

  if (!has_images (fixture) || !test_has (fixture, GPU_CAPABILITIES_ARGUMENT_INFO))
    return;

  program = build (fixture);
  read = get_kernel (program, "read", &types[3], "ui");
  write = get_kernel (program, "write", &types[3], "ui");
  out = test_buffer (fixture, 16 * 16 * 8);
  image = gpu_image_new (fixture->context, GPU_MEMORY_FLAGS_READ_ONLY, &format,
                         GPU_IMAGE_TYPE_IMAGE_2D,
                         &extent, &error);
  g_assert_no_error (error);
  row = gpu_image_new (fixture->context, GPU_MEMORY_FLAGS_NONE, &format, GPU_IMAGE_TYPE_IMAGE_1D,
                       &(GpuExtent) { 16, 1, 1 }, &error);
  g_assert_no_error (error);
  sampler = gpu_sampler_new (fixture->context, FALSE, GPU_ADDRESS_MODE_NONE,
                             GPU_FILTER_MODE_NEAREST, &error);
  g_assert_no_error (error);

  g_assert_false (gpu_stream_launch (fixture->stream, read, &extent, NULL, &error, NULL, sampler,
                                     out));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "image2d_t", "a null pointer");
  g_assert_false (gpu_stream_launch (fixture->stream, read, &extent, NULL, &error, out, sampler,
                                     out));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "image2d_t", "not memory");
  g_assert_false (gpu_stream_launch (fixture->stream, read, &extent, NULL, &error, row, sampler,
                                     out));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "image2d_t", "of type 1d");
  g_assert_false (gpu_stream_launch (fixture->stream, write, &extent, NULL, &error, image, out));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "is written", "flags");
  test_assert_ok (gpu_stream_launch (fixture->stream, read, &extent, NULL, &error, image, sampler,
                                     out), error);
  test_synchronize (fixture->stream);
}

static GpuImage *
make_any (TestFixture  *fixture,
          GpuImageType  type,
          GpuExtent     extent)
{
  const GpuImageFormat format = { GPU_CHANNEL_ORDER_RGBA, GPU_CHANNEL_TYPE_UNORM8 };
  g_autoptr (GError) error = NULL;
  GpuImage *image = gpu_image_new (fixture->context, GPU_MEMORY_FLAGS_NONE, &format, type, &extent,
                                   &error);

  g_assert_no_error (error);

  return image;
}

/* Kernels can query the attributes of an image, with OpenCL's numbers for the formats. */
static void
queries (TestFixture *fixture)
{
  static const gint32 expected[] = { 24, 20, 0x10b5, 0x10d2, 7, 12, 5, 5, 33, 9 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuProgram) program = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuImage) a = NULL;
  g_autoptr (GpuImage) b = NULL;
  g_autoptr (GpuImage) c = NULL;
  g_autoptr (GpuImage) d = NULL;
  g_autoptr (GpuBuffer) out = NULL;
  g_autoptr (GBytes) content = NULL;

  if (!has_images (fixture))
    return;

  program = build (fixture);
  kernel = gpu_program_get_kernel (program, "tell", &error);
  g_assert_no_error (error);
  a = make_any (fixture, GPU_IMAGE_TYPE_IMAGE_2D, (GpuExtent) { 24, 20, 1 });
  b = make_any (fixture, GPU_IMAGE_TYPE_IMAGE_2D_ARRAY, (GpuExtent) { 16, 12, 7 });
  c = make_any (fixture, GPU_IMAGE_TYPE_IMAGE_3D, (GpuExtent) { 6, 4, 5 });
  d = make_any (fixture, GPU_IMAGE_TYPE_IMAGE_1D_ARRAY, (GpuExtent) { 33, 9, 1 });
  out = test_buffer_filled (fixture, sizeof expected, 0);
  test_assert_ok (gpu_stream_launch (fixture->stream, kernel, &(GpuExtent) { 1, 1, 1 }, NULL,
                                     &error, a, b, c, d, out), error);
  content = test_content (out);
  test_assert_mem (g_bytes_get_data (content, NULL), expected, sizeof expected);
}

/* Drops all objects directly after submission, because pending launches must keep samplers and
 * images alive. */
static void
dropped (TestFixture *fixture)
{
  const GpuImageFormat format = { GPU_CHANNEL_ORDER_RGBA, GPU_CHANNEL_TYPE_UINT8 };
  g_autoptr (GpuProgram) program = NULL;
  g_autoptr (GpuKernel) read = NULL;

  if (!has_images (fixture))
    return;

  program = build (fixture);
  read = get_kernel (program, "read", &types[3], "ui");

  for (guint i = 0; i < 100; i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GBytes) bytes = test_value_bytes (4 * 16 * 8, (guint8) i);
      g_autoptr (GpuBuffer) out = test_buffer_filled (fixture, 16 * 16 * 8, 0);
      g_autoptr (GBytes) content = NULL;
      GpuImage *image = make_image (fixture, &types[3], &format, bytes);
      GpuSampler *sampler = gpu_sampler_new (fixture->context, FALSE, GPU_ADDRESS_MODE_NONE,
                                             GPU_FILTER_MODE_NEAREST, &error);
      const guint32 *texels;

      g_assert_no_error (error);
      test_assert_ok (gpu_stream_launch (fixture->stream, read, &types[3].extent, NULL, &error,
                                         image, sampler, out), error);
      g_object_unref (sampler);
      g_object_unref (image);
      content = test_content (out);
      texels = g_bytes_get_data (content, NULL);
      for (guint j = 0; j < 4 * 16 * 8; j++)
        g_assert_cmpuint (texels[j], ==, i);
    }
}

int
main (int    argc,
      char **argv)
{
  test_init (&argc, &argv);
  test_add ("1d", formats_1d);
  test_add ("1d-array", formats_1d_array);
  test_add ("1d-buffer", formats_1d_buffer);
  test_add ("2d", formats_2d);
  test_add ("2d-array", formats_2d_array);
  test_add ("3d", formats_3d);
  test_add ("arguments", arguments);
  test_add ("arguments-refused", arguments_refused);
  test_add ("queries", queries);
  test_add ("dropped", dropped);

  return test_run ();
}
