/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Kernels: argument information, launch arguments, grids, and invalid calls. */
#include "config.h"

#include <math.h>

#include "test-util.h"

#define N_ITEMS 256
#define N_THREADS 4

static const char axpy_source[] =
  "__kernel void axpy (__global float *y, __global const float *x, const float a,\n"
  "                    const int n, __local float *scratch)\n"
  "{\n"
  "  int i = (int) get_global_id (0);\n"
  "  if (i < n)\n"
  "    y[i] = a * x[i] + y[i];\n"
  "}\n";

static GpuKernel *
axpy (TestFixture *fixture)
{
  return test_kernel (fixture, axpy_source, "axpy");
}

static gboolean
describes_arguments (TestFixture *fixture)
{
  return test_has (fixture, GPU_CAPABILITIES_SOURCE | GPU_CAPABILITIES_ARGUMENT_INFO);
}

/* --- information ---------------------------------------------------------------------- */

static void
kernel_info (TestFixture *fixture)
{
  static const GpuArgumentKind kinds[] = {
    GPU_ARGUMENT_KIND_MEMORY, GPU_ARGUMENT_KIND_MEMORY, GPU_ARGUMENT_KIND_VALUE,
    GPU_ARGUMENT_KIND_VALUE, GPU_ARGUMENT_KIND_LOCAL,
  };
  static const char *const names[] = { "y", "x", "a", "n", "scratch" };
  static const char *const types[] = { "float*", "float*", "float", "int", "float*" };
  g_autoptr (GpuKernel) kernel = NULL;

  if (!describes_arguments (fixture))
    return;
  kernel = axpy (fixture);
  g_assert_cmpstr (gpu_kernel_get_name (kernel), ==, "axpy");
  g_assert_nonnull (gpu_kernel_get_program (kernel));
  g_assert_cmpuint (gpu_kernel_get_n_arguments (kernel), ==, 5);
  g_assert_cmpuint (gpu_kernel_get_native_handle (kernel), !=, 0);
  for (guint i = 0; i < 5; i++)
    {
      g_assert_cmpint (gpu_kernel_get_argument_kind (kernel, i), ==, kinds[i]);
      g_assert_cmpstr (gpu_kernel_get_argument_name (kernel, i), ==, names[i]);
      g_assert_cmpstr (gpu_kernel_get_argument_type_name (kernel, i), ==, types[i]);
    }
}

static void
kernel_attributes (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GVariant) attributes = NULL;
  guint64 size = 0;

  if (!test_has (fixture, GPU_CAPABILITIES_SOURCE))
    return;
  kernel = axpy (fixture);
  attributes = gpu_kernel_get_attributes (kernel, &error);
  g_assert_no_error (error);
  g_assert_true (g_variant_is_of_type (attributes, G_VARIANT_TYPE_VARDICT));
  g_assert_true (g_variant_lookup (attributes, "work-group-size", "t", &size));
  g_assert_cmpuint (size, >, 0);
}

/* --- values of every type --------------------------------------------------------------- */

static const char scalars_source[] =
  "__kernel void scalars (__global long *out, __global float *real, char b, uchar ub, short h,\n"
  "                       ushort uh, int i, uint ui, long q, ulong uq, float f)\n"
  "{\n"
  "  out[0] = b; out[1] = ub; out[2] = h; out[3] = uh; out[4] = i; out[5] = ui; out[6] = q;\n"
  "  out[7] = (long) uq;\n"
  "  real[0] = f;\n"
  "}\n";

static void
assert_scalars (GpuBuffer *integers, GpuBuffer *real, const gint64 *expected, float f)
{
  g_autoptr (GBytes) got = test_content (integers);
  g_autoptr (GBytes) got_real = test_content (real);
  const gint64 *values = g_bytes_get_data (got, NULL);

  for (guint i = 0; i < 8; i++)
    g_assert_cmpint (values[i], ==, expected[i]);
  g_assert_cmpmem (g_bytes_get_data (got_real, NULL), 4, &f, 4);
}

static void
kernel_scalars (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuBuffer) out = NULL;
  g_autoptr (GpuBuffer) real = NULL;
  g_autoptr (GpuArguments) arguments = NULL;
  const gint64 lowest[] = {
    G_MININT8, 0, G_MININT16, 0, G_MININT32, 0, G_MININT64, (gint64) G_MAXUINT64
  };
  const gint64 highest[] = {
    G_MAXINT8, G_MAXUINT8, G_MAXINT16, G_MAXUINT16, G_MAXINT32, G_MAXUINT32, G_MAXINT64, 1
  };
  GpuExtent grid = { 1, 1, 1 };

  if (!describes_arguments (fixture))
    return;
  kernel = test_kernel (fixture, scalars_source, "scalars");
  out = test_buffer_filled (fixture, 64, 0);
  real = test_buffer_filled (fixture, 4, 0);
  test_assert_ok (gpu_stream_launch (fixture->stream, kernel, &grid, NULL, &error, out, real,
                                     G_MININT8, 0, G_MININT16, 0, G_MININT32, 0u, G_MININT64,
                                     G_MAXUINT64, 0.1), error);
  assert_scalars (out, real, lowest, 0.1f);
  test_assert_ok (gpu_stream_launch (fixture->stream, kernel, &grid, NULL, &error, out, real,
                                     G_MAXINT8, G_MAXUINT8, G_MAXINT16, G_MAXUINT16, G_MAXINT32,
                                     G_MAXUINT32, G_MAXINT64, (guint64) 1, -1e30), error);
  assert_scalars (out, real, highest, -1e30f);

  arguments = gpu_arguments_new ();
  gpu_arguments_add_memory (arguments, GPU_MEMORY (out));
  gpu_arguments_add_memory (arguments, GPU_MEMORY (real));
  for (guint i = 0; i < 8; i++)
    if (i % 2 == 0)
      gpu_arguments_add_int (arguments, highest[i]);
    else
      gpu_arguments_add_double (arguments, (double) highest[i]);
  gpu_arguments_add_int (arguments, -5);
  g_assert_cmpuint (gpu_arguments_get_length (arguments), ==, 11);
  test_assert_ok (gpu_stream_launch_arguments (fixture->stream, kernel, &grid, NULL, arguments,
                                               &error), error);
  assert_scalars (out, real, highest, -5);
}

static void
kernel_double (TestFixture *fixture)
{
  static const char source[] =
    "#ifdef __OPENCL_VERSION__\n"
    "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n"
    "#endif\n"
    "__kernel void twice (__global double *x, const double by) { x[0] = by * 2; }\n";
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuBuffer) out = NULL;
  GpuExtent grid = { 1, 1, 1 };

  if (!describes_arguments (fixture) || !test_has (fixture, GPU_CAPABILITIES_FP64))
    return;
  kernel = test_kernel (fixture, source, "twice");
  out = test_buffer (fixture, 8);
  for (double by = 1e-300; by < 1e300; by *= 1e100)
    {
      double expected = by * 2;
      g_autoptr (GBytes) content = NULL;

      test_assert_ok (gpu_stream_launch (fixture->stream, kernel, &grid, NULL, &error, out, by),
                      error);
      content = test_content (out);
      g_assert_cmpmem (g_bytes_get_data (content, NULL), 8, &expected, 8);
    }
}

typedef struct
{
  gint32 x;
  float  y;
  guint8 z[4];
} Struct;

static void
kernel_struct (TestFixture *fixture)
{
  static const char source[] =
    "typedef struct { int x; float y; uchar z[4]; } Struct;\n"
    "__kernel void unpack (__global int *out, const Struct s)\n"
    "{\n"
    "  out[0] = s.x; out[1] = (int) s.y; out[2] = s.z[0] + s.z[3];\n"
    "}\n";
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuBuffer) out = NULL;
  g_autoptr (GpuArguments) arguments = NULL;
  g_autoptr (GBytes) content = NULL;
  const Struct value = { -7, 12, { 3, 0, 0, 200 } };
  const gint32 expected[] = { -7, 12, 203 };
  GpuExtent grid = { 1, 1, 1 };

  if (!test_has (fixture, GPU_CAPABILITIES_SOURCE))
    return;
  kernel = test_kernel (fixture, source, "unpack");
  out = test_buffer (fixture, 12);
  arguments = gpu_arguments_new ();
  gpu_arguments_add_memory (arguments, GPU_MEMORY (out));
  gpu_arguments_add_value (arguments, &value, sizeof value);
  test_assert_ok (gpu_stream_launch_arguments (fixture->stream, kernel, &grid, NULL, arguments,
                                               &error), error);
  content = test_content (out);
  g_assert_cmpmem (g_bytes_get_data (content, NULL), 12, expected, 12);
}

static void
kernel_null_memory (TestFixture *fixture)
{
  static const char source[] =
    "__kernel void is_null (__global int *out, __global int *maybe)\n"
    "{\n"
    "  out[0] = maybe == 0 ? 1 : 2;\n"
    "}\n";
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuBuffer) out = NULL;
  GpuExtent grid = { 1, 1, 1 };

  if (!describes_arguments (fixture))
    return;
  kernel = test_kernel (fixture, source, "is_null");
  out = test_buffer (fixture, 4);
  for (gint32 i = 1; i <= 2; i++)
    {
      g_autoptr (GpuBuffer) other = test_buffer (fixture, 4);
      g_autoptr (GpuArguments) arguments = gpu_arguments_new ();
      g_autoptr (GBytes) content = NULL;

      gpu_arguments_add_memory (arguments, GPU_MEMORY (out));
      gpu_arguments_add_memory (arguments, i == 1 ? NULL : GPU_MEMORY (other));
      test_assert_ok (gpu_stream_launch_arguments (fixture->stream, kernel, &grid, NULL, arguments,
                                                   &error), error);
      content = test_content (out);
      g_assert_cmpmem (g_bytes_get_data (content, NULL), 4, &i, 4);
    }
}

/* --- grids and blocks --------------------------------------------------------------------- */

static const char ids_source[] =
  "__kernel void ids (__global uint *out)\n"
  "{\n"
  "  size_t i = (get_global_id (2) * get_global_size (1) + get_global_id (1)) *\n"
  "             get_global_size (0) + get_global_id (0);\n"
  "  out[i] = (uint) (get_global_id (0) + 100 * get_global_id (1) + 10000 * get_global_id (2)\n"
  "           + 1000000 * get_local_id (0) + 100000000 * get_group_id (1));\n"
  "}\n";

static void
run_ids (TestFixture *fixture, GpuKernel *kernel, const GpuExtent *grid, const GpuExtent *block)
{
  g_autoptr (GError) error = NULL;
  gsize n = grid->width * grid->height * grid->depth;
  g_autoptr (GpuBuffer) out = test_buffer_filled (fixture, n * 4, 0xff);
  g_autoptr (GBytes) content = NULL;
  const guint32 *values;

  test_assert_ok (gpu_stream_launch (fixture->stream, kernel, grid, block, &error, out), error);
  content = test_content (out);
  values = g_bytes_get_data (content, NULL);
  for (gsize z = 0; z < grid->depth; z++)
    for (gsize y = 0; y < grid->height; y++)
      for (gsize x = 0; x < grid->width; x++)
        {
          guint32 value = values[(z * grid->height + y) * grid->width + x];

          g_assert_cmpuint (value % 1000000, ==, x + 100 * y + 10000 * z);
          if (block != NULL)
            g_assert_cmpuint (value / 1000000, ==, x % block->width + 100 * (y / block->height));
        }
}

static void
kernel_grids (TestFixture *fixture)
{
  static const GpuExtent grids[] = { { 60, 1, 1 }, { 12, 10, 1 }, { 6, 4, 8 }, { 1, 1, 7 } };
  static const GpuExtent blocks[] = { { 6, 1, 1 }, { 3, 2, 1 }, { 2, 4, 2 }, { 1, 1, 1 } };
  g_autoptr (GpuKernel) kernel = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_SOURCE))
    return;
  kernel = test_kernel (fixture, ids_source, "ids");
  for (guint i = 0; i < G_N_ELEMENTS (grids); i++)
    {
      run_ids (fixture, kernel, &grids[i], NULL);
      run_ids (fixture, kernel, &grids[i], &blocks[i]);
    }
}

static void
kernel_bad_grids (TestFixture *fixture)
{
  static const GpuExtent bad[] = { { 0, 1, 1 }, { 4, 0, 1 }, { 4, 1, 0 } };
  static const GpuExtent endless[] = { { G_MAXSIZE, 2, 1 }, { (gsize) 1 << 32, (gsize) 1 << 32, 1 },
                                       { 1, G_MAXSIZE, G_MAXSIZE },
                                       { (gsize) 1 << 22, (gsize) 1 << 22, (gsize) 1 << 22 } };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuBuffer) out = NULL;
  GpuExtent grid = { 4, 1, 1 };
  GpuExtent huge = { (gsize) 1 << 30, 1, 1 };
  GpuExtent huge_grid = { (gsize) 1 << 31, 1, 1 };

  if (!test_has (fixture, GPU_CAPABILITIES_SOURCE))
    return;
  kernel = test_kernel (fixture, ids_source, "ids");
  out = test_buffer (fixture, 64);
  for (guint i = 0; i < G_N_ELEMENTS (bad); i++)
    {
      g_assert_false (gpu_stream_launch (fixture->stream, kernel, &bad[i], NULL, &error, out));
      test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "0");
      g_assert_false (gpu_stream_launch (fixture->stream, kernel, &grid, &bad[i], &error, out));
      test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "0");
    }
  for (guint i = 0; i < G_N_ELEMENTS (endless); i++)
    {
      g_autofree char *height = g_strdup_printf ("%" G_GSIZE_FORMAT, endless[i].height);

      g_assert_false (gpu_stream_launch (fixture->stream, kernel, &endless[i], NULL, &error, out));
      test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_stream_launch", height);
    }
  g_assert_false (gpu_stream_launch (fixture->stream, kernel, &huge_grid, &huge, &error, out));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "1073741824");
  if ((gpu_device_get_capabilities (fixture->device) & GPU_CAPABILITIES_NON_UNIFORM_GROUPS) == 0)
    {
      GpuExtent three = { 3, 1, 1 };

      g_assert_false (gpu_stream_launch (fixture->stream, kernel, &grid, &three, &error, out));
      test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "3", "4", "round the grid up");
    }
}

/* Each group sums its part in local memory; after each barrier half as many work-items are
 * active. */
static void
kernel_reduction (TestFixture *fixture)
{
  static const char source[] =
    "__kernel void sum (__global const uint *in, __global uint *out, __local uint *part)\n"
    "{\n"
    "  uint l = (uint) get_local_id (0);\n"
    "  part[l] = in[get_global_id (0)];\n"
    "  barrier (CLK_LOCAL_MEM_FENCE);\n"
    "  for (uint n = (uint) get_local_size (0) / 2; n > 0; n /= 2)\n"
    "    {\n"
    "      if (l < n)\n"
    "        part[l] += part[l + n];\n"
    "      barrier (CLK_LOCAL_MEM_FENCE);\n"
    "    }\n"
    "  if (l == 0)\n"
    "    out[get_group_id (0)] = part[0];\n"
    "}\n";
  const guint n = 4096;
  const guint group = 64;
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GBytes) bytes = NULL;
  g_autoptr (GpuBuffer) in = NULL;
  g_autoptr (GpuBuffer) out = NULL;
  g_autoptr (GBytes) content = NULL;
  GpuExtent grid = { 4096, 1, 1 };
  GpuExtent block = { 64, 1, 1 };

  if (!describes_arguments (fixture))
    return;
  kernel = test_kernel (fixture, source, "sum");
  bytes = test_random_bytes (n * 4);
  in = test_buffer_from (fixture, bytes);
  out = test_buffer_filled (fixture, n / group * 4, 0);
  test_assert_ok (gpu_stream_launch (fixture->stream, kernel, &grid, &block, &error, in, out,
                                     (gsize) group * 4), error);
  content = test_content (out);
  for (guint i = 0; i < n / group; i++)
    {
      const guint32 *values = g_bytes_get_data (bytes, NULL);
      guint32 sum = 0;

      for (guint j = 0; j < group; j++)
        sum += values[i * group + j];
      g_assert_cmpuint (((const guint32 *) g_bytes_get_data (content, NULL))[i], ==, sum);
    }
}

/* A launch that needs more local memory than the device has fails with an error; it does not abort
 * the process. */
static void
kernel_local_limit (TestFixture *fixture)
{
  static const char source[] =
    "__kernel void touch (__global uint *out, __local uint *one, __local uint *other)\n"
    "{\n"
    "  one[0] = 1;\n"
    "  other[0] = 2;\n"
    "  out[0] = one[0] + other[0];\n"
    "}\n";
  const gsize too_large[][2] = { { G_MAXSIZE / 2, 4 }, { G_MAXSIZE, G_MAXSIZE },
                                 { 4, (gsize) 1 << 46 } };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuBuffer) out = NULL;
  g_autoptr (GBytes) expected = g_bytes_new_static ("\3\0\0", 4);
  g_autoptr (GVariant) limit = NULL;
  GpuExtent grid = { 1, 1, 1 };

  if (!describes_arguments (fixture))
    return;
  kernel = test_kernel (fixture, source, "touch");
  out = test_buffer_filled (fixture, 4, 0);
  for (guint i = 0; i < G_N_ELEMENTS (too_large); i++)
    {
      g_assert_false (gpu_stream_launch (fixture->stream, kernel, &grid, NULL, &error, out,
                                         too_large[i][0], too_large[i][1])
                      && gpu_stream_synchronize (fixture->stream, NULL, &error));
      g_assert_nonnull (error);
      g_assert_true (error->domain == GPU_ERROR);
      if (i == 2)                   /* the size, or the sum of both */
        test_assert_gpu_error (error, GPU_ERROR_LAUNCH_FAILED, " 703687441");
      g_clear_error (&error);
    }
  limit = test_take_attribute (gpu_device_get_attributes (fixture->device, NULL),
                               "local-mem-size");
  if (limit != NULL)
    {
      g_autofree char *size = g_strdup_printf ("%" G_GUINT64_FORMAT,
                                               g_variant_get_uint64 (limit));

      g_assert_false (gpu_stream_launch (fixture->stream, kernel, &grid, NULL, &error, out,
                                         (gsize) g_variant_get_uint64 (limit), (gsize) 64));
      test_assert_gpu_error (error, GPU_ERROR_LAUNCH_FAILED, "touch", size);
    }
  test_assert_ok (gpu_stream_launch (fixture->stream, kernel, &grid, NULL, &error, out, (gsize) 64,
                                     (gsize) 64), error);
  test_assert_content (out, expected);
}

/* --- invalid arguments ---------------------------------------------------------------------- */

static GpuArguments *
axpy_arguments (GpuBuffer *y, GpuBuffer *x)
{
  GpuArguments *arguments = gpu_arguments_new ();

  gpu_arguments_add_memory (arguments, GPU_MEMORY (y));
  gpu_arguments_add_memory (arguments, GPU_MEMORY (x));
  return arguments;
}

#define assert_refused(fixture, kernel, arguments, ...) \
  G_STMT_START { \
    GError *refused_ = NULL; \
    GpuExtent grid_ = { 4, 1, 1 }; \
    g_assert_false (gpu_stream_launch_arguments ((fixture)->stream, kernel, &grid_, NULL, \
                                                 arguments, &refused_)); \
    test_assert_gpu_error (refused_, GPU_ERROR_INVALID_ARGUMENT, __VA_ARGS__); \
  } G_STMT_END

static void
kernel_invalid_arguments (TestFixture *fixture)
{
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuBuffer) y = NULL;
  g_autoptr (GpuBuffer) x = NULL;
  g_autoptr (GpuArguments) few = NULL;
  g_autoptr (GpuArguments) kind = NULL;
  g_autoptr (GpuArguments) size = NULL;
  g_autoptr (GpuArguments) local = NULL;

  if (!describes_arguments (fixture))
    return;
  kernel = axpy (fixture);
  y = test_buffer_filled (fixture, 64, 0);
  x = test_buffer_filled (fixture, 64, 0);

  few = axpy_arguments (y, x);
  assert_refused (fixture, kernel, few, "axpy", "5", "2");

  kind = axpy_arguments (y, x);
  gpu_arguments_add_memory (kind, GPU_MEMORY (x));
  gpu_arguments_add_int (kind, 4);
  gpu_arguments_add_local (kind, 64);
  assert_refused (fixture, kernel, kind, "axpy", "2", "a");

  size = axpy_arguments (y, x);
  gpu_arguments_add_value (size, "12345678", 8);
  gpu_arguments_add_int (size, 4);
  gpu_arguments_add_local (size, 64);
  assert_refused (fixture, kernel, size, "axpy", "4", "8");

  local = axpy_arguments (y, x);
  gpu_arguments_add_double (local, 1);
  gpu_arguments_add_int (local, 4);
  gpu_arguments_add_local (local, 0);
  assert_refused (fixture, kernel, local, "axpy", "0");
}

static void
refuse_number (TestFixture *fixture, GpuKernel *kernel, GpuBuffer *out, double value,
               const char *text)
{
  g_autoptr (GpuArguments) arguments = gpu_arguments_new ();

  gpu_arguments_add_memory (arguments, GPU_MEMORY (out));
  gpu_arguments_add_double (arguments, value);
  gpu_arguments_add_double (arguments, 0);
  assert_refused (fixture, kernel, arguments, "uchar", text);
}

static void
kernel_value_ranges (TestFixture *fixture)
{
  static const char source[] =
    "__kernel void narrow (__global float *out, const uchar n, const float f)\n"
    "{\n"
    "  out[0] = f; out[1] = n;\n"
    "}\n";
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuBuffer) out = NULL;
  g_autoptr (GpuArguments) whole = NULL;
  g_autoptr (GpuArguments) large = NULL;
  g_autoptr (GpuArguments) nan = NULL;
  g_autoptr (GBytes) content = NULL;
  GpuExtent grid = { 1, 1, 1 };

  if (!describes_arguments (fixture))
    return;
  kernel = test_kernel (fixture, source, "narrow");
  out = test_buffer_filled (fixture, 8, 0);
  refuse_number (fixture, kernel, out, 256, "256");
  refuse_number (fixture, kernel, out, -1, "-1");
  refuse_number (fixture, kernel, out, 1.5, "1.5");
  refuse_number (fixture, kernel, out, G_MAXDOUBLE, "e+308");
  refuse_number (fixture, kernel, out, NAN, "nan");
  refuse_number (fixture, kernel, out, -INFINITY, "-inf");

  whole = gpu_arguments_new ();
  gpu_arguments_add_memory (whole, GPU_MEMORY (out));
  gpu_arguments_add_int (whole, G_MAXINT64);
  gpu_arguments_add_int (whole, 0);
  assert_refused (fixture, kernel, whole, "narrow", "9223372036854775807");

  large = gpu_arguments_new ();
  gpu_arguments_add_memory (large, GPU_MEMORY (out));
  gpu_arguments_add_int (large, 1);
  gpu_arguments_add_double (large, 1e39);
  assert_refused (fixture, kernel, large, "float", "e+39");

  /* NaN is a valid value for floating point arguments only. */
  nan = gpu_arguments_new ();
  gpu_arguments_add_memory (nan, GPU_MEMORY (out));
  gpu_arguments_add_int (nan, 255);
  gpu_arguments_add_double (nan, NAN);
  test_assert_ok (gpu_stream_launch_arguments (fixture->stream, kernel, &grid, NULL, nan, &error),
                  error);
  content = test_content (out);
  g_assert_true (isnan (((const float *) g_bytes_get_data (content, NULL))[0]));
  g_assert_cmpfloat (((const float *) g_bytes_get_data (content, NULL))[1], ==, 255);
}

static void
kernel_invalid_memory (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuContext) other = gpu_context_new (fixture->device, GPU_CONTEXT_FLAGS_NONE, &error);
  g_autoptr (GpuBuffer) foreign = gpu_buffer_new (other, GPU_MEMORY_FLAGS_NONE, 64, &error);
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, 64, 0);
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuStream) foreign_stream = NULL;
  GpuExtent grid = { 4, 1, 1 };

  g_assert_no_error (error);
  if (!describes_arguments (fixture))
    return;
  kernel = axpy (fixture);
  g_assert_false (gpu_stream_launch (fixture->stream, kernel, &grid, NULL, &error, buffer,
                                     foreign, 1.0, 4, (gsize) 4));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "context");
  foreign_stream = gpu_stream_new (other, GPU_STREAM_FLAGS_NONE, &error);
  g_assert_no_error (error);
  g_assert_false (gpu_stream_launch (foreign_stream, kernel, &grid, NULL, &error, foreign,
                                     foreign, 1.0, 4, (gsize) 4));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "context");
  gpu_memory_release (GPU_MEMORY (buffer));
  g_assert_false (gpu_stream_launch (fixture->stream, kernel, &grid, NULL, &error, buffer,
                                     buffer, 1.0, 4, (gsize) 4));
  test_assert_gpu_error (error, GPU_ERROR_RELEASED);
}

static void
kernel_declared_arguments (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuBuffer) y = NULL;
  g_autoptr (GpuBuffer) x = NULL;
  g_autoptr (GBytes) content = NULL;
  GpuExtent grid = { 4, 1, 1 };
  const float ones[] = { 1, 1, 1, 1 };

  if (!test_has (fixture, GPU_CAPABILITIES_SOURCE))
    return;
  kernel = axpy (fixture);
  y = test_buffer_filled (fixture, 16, 0);
  x = test_buffer (fixture, 16);
  test_assert_ok (gpu_buffer_write (x, NULL, 0, ones, 16, NULL, &error), error);
  test_assert_ok (gpu_kernel_declare_arguments (kernel, "ppfil", &error), error);
  test_assert_ok (gpu_stream_launch (fixture->stream, kernel, &grid, NULL, &error, y, x, 3.0, 4,
                                     (gsize) 16), error);
  content = test_content (y);
  for (guint i = 0; i < 4; i++)
    g_assert_cmpfloat (((const float *) g_bytes_get_data (content, NULL))[i], ==, 3);

  g_assert_false (gpu_kernel_declare_arguments (kernel, "ppf", &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "5", "3");
  g_assert_false (gpu_kernel_declare_arguments (kernel, "ppfi!", &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "!");
  if ((gpu_device_get_capabilities (fixture->device) & GPU_CAPABILITIES_ARGUMENT_INFO) != 0)
    {
      g_assert_false (gpu_kernel_declare_arguments (kernel, "ppdil", &error));
      test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "d");
    }
}

/* --- launches from several threads -------------------------------------------------------- */

typedef struct
{
  TestFixture *fixture;
  GpuKernel   *kernel;
  guint32      value;
} Launcher;

static gpointer
launch_many (gpointer data)
{
  Launcher *launcher = data;
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = test_stream (launcher->fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) out = test_buffer_filled (launcher->fixture, N_ITEMS * 4, 0);
  g_autoptr (GBytes) content = NULL;
  GpuExtent grid = { N_ITEMS, 1, 1 };

  for (guint i = 0; i < 200; i++)
    test_assert_ok (gpu_stream_launch (stream, launcher->kernel, &grid, NULL, &error, out,
                                       launcher->value), error);
  content = test_content (out);
  for (guint i = 0; i < N_ITEMS; i++)
    g_assert_cmpuint (((const guint32 *) g_bytes_get_data (content, NULL))[i], ==,
                      200 * launcher->value);
  return NULL;
}

/* Several threads launch one kernel, each with its own arguments. */
static void
kernel_threads (TestFixture *fixture)
{
  static const char source[] =
    "__kernel void add (__global uint *x, const uint n) { x[get_global_id (0)] += n; }\n";
  g_autoptr (GpuKernel) kernel = NULL;
  Launcher launchers[N_THREADS];
  GThread *threads[N_THREADS];

  if (!describes_arguments (fixture))
    return;
  kernel = test_kernel (fixture, source, "add");
  for (guint i = 0; i < N_THREADS; i++)
    {
      launchers[i] = (Launcher) { fixture, kernel, i + 1 };
      threads[i] = g_thread_new ("launch", launch_many, &launchers[i]);
    }
  for (guint i = 0; i < N_THREADS; i++)
    g_thread_join (threads[i]);
}

/* Kernels that only read the same buffer may run at the same time on two streams. */
static void
kernel_read_only (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuBuffer) x = NULL;
  GpuExtent grid = { 4, 1, 1 };
  GpuStream *streams[2];
  GpuBuffer *ys[2];

  if (!describes_arguments (fixture))
    return;
  kernel = axpy (fixture);
  x = test_buffer_filled (fixture, 16, 0);
  for (guint i = 0; i < 2; i++)
    {
      streams[i] = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
      ys[i] = test_buffer_filled (fixture, 16, 0);
    }
  for (guint i = 0; i < 100; i++)
    test_assert_ok (gpu_stream_launch (streams[i % 2], kernel, &grid, NULL, &error, ys[i % 2], x,
                                       1.0, 4, (gsize) 4), error);
  for (guint i = 0; i < 2; i++)
    {
      g_assert_cmpuint (test_get_number (streams[i], "n-hazard-waits"), ==, 0);
      g_object_unref (streams[i]);
      g_object_unref (ys[i]);
    }
}

/* Each kind of launch refuses memory with GPU_MEMORY_FLAGS_READ_ONLY for a pointer that is not
 * const, and accepts it for a pointer to const. */
static void
kernel_read_only_flag (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (512);
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuBuffer) whole = NULL;
  g_autoptr (GpuBuffer) part = NULL;
  g_autoptr (GpuBuffer) y = NULL;
  GpuBuffer *refused[2];
  GpuExtent grid = { 4, 1, 1 };

  if (!describes_arguments (fixture))
    return;
  kernel = axpy (fixture);
  y = test_buffer_filled (fixture, 16, 0);
  whole = gpu_buffer_new_from_bytes (fixture->context, GPU_MEMORY_FLAGS_READ_ONLY, bytes, &error);
  g_assert_no_error (error);
  part = gpu_buffer_slice (whole, 0, 256, &error);
  g_assert_no_error (error);
  refused[0] = whole;
  refused[1] = part;
  for (guint i = 0; i < G_N_ELEMENTS (refused); i++)
    {
      g_autoptr (GpuArguments) arguments = gpu_arguments_new ();

      gpu_arguments_add_memory (arguments, GPU_MEMORY (refused[i]));
      gpu_arguments_add_memory (arguments, GPU_MEMORY (y));
      gpu_arguments_add_double (arguments, 1);
      gpu_arguments_add_int (arguments, 4);
      gpu_arguments_add_local (arguments, 4);
      g_assert_false (gpu_stream_launch (fixture->stream, kernel, &grid, NULL, &error, refused[i],
                                         y, 1.0, 4, (gsize) 4));
      test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "argument 0 (y) of kernel axpy",
                             "read-only", "const");
      assert_refused (fixture, kernel, arguments, "axpy", "read-only");
      g_assert_null (gpu_launch_new (kernel, &grid, NULL, NULL, 0, GPU_LAUNCH_FLAGS_NONE, arguments,
                                     &error));
      test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "axpy", "read-only");
      test_assert_ok (gpu_stream_launch (fixture->stream, kernel, &grid, NULL, &error, y,
                                         refused[i], 0.0, 4, (gsize) 4), error);
    }
  test_assert_content (whole, bytes);
}

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
  test_add ("info", kernel_info);
  test_add ("attributes", kernel_attributes);
  test_add ("scalars", kernel_scalars);
  test_add ("double", kernel_double);
  test_add ("struct", kernel_struct);
  test_add ("null-memory", kernel_null_memory);
  test_add ("grids", kernel_grids);
  test_add ("bad-grids", kernel_bad_grids);
  test_add ("reduction", kernel_reduction);
  test_add ("local-limit", kernel_local_limit);
  test_add ("invalid-arguments", kernel_invalid_arguments);
  test_add ("value-ranges", kernel_value_ranges);
  test_add ("invalid-memory", kernel_invalid_memory);
  test_add ("declared-arguments", kernel_declared_arguments);
  test_add ("threads", kernel_threads);
  test_add ("read-only", kernel_read_only);
  test_add ("read-only-flag", kernel_read_only_flag);
  return test_run ();
}
