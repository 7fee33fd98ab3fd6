/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Programs in CUDA C++, their binaries, and launch features that only CUDA has. */
#include "config.h"

#include <glib/gstdio.h>

#include "test-util.h"

#define N_ITEMS 256

static const char cpp_source[] =
  "struct Pair { int a; float b; };\n"
  "__constant__ float factor = 3;\n"
  "__device__ int counter;\n"
  "template <class T> __global__ void scale (T *x, T by) { x[threadIdx.x] *= by; }\n"
  "__global__ void plain (const float *in, float *out, int n, double d, Pair p)\n"
  "{\n"
  "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
  "  if (i < n)\n"
  "    out[i] = in[i] * factor + (float) d + p.a + p.b;\n"
  "}\n"
  "extern \"C\" __global__ void __launch_bounds__ (128) count (int *out)\n"
  "{\n"
  "  out[blockIdx.x * blockDim.x + threadIdx.x] = atomicAdd (&counter, 1);\n"
  "}\n"
  "extern \"C\" __global__ void turn (unsigned *x)\n"
  "{\n"
  "  extern __shared__ unsigned shared[];\n"
  "  shared[threadIdx.x] = x[threadIdx.x];\n"
  "  __syncthreads ();\n"
  "  x[threadIdx.x] = shared[blockDim.x - 1 - threadIdx.x];\n"
  "}\n"
  "#if 0\n"
  "__global__ void missing (Nothing *x) { }\n"
  "#endif\n";

static GpuKernel *
get_kernel (GpuProgram *program, const char *name)
{
  g_autoptr (GError) error = NULL;
  GpuKernel *kernel = gpu_program_get_kernel (program, name, &error);

  g_assert_no_error (error);
  return kernel;
}

static GBytes *
floats (float start)
{
  float *data = g_new (float, N_ITEMS);

  for (guint i = 0; i < N_ITEMS; i++)
    data[i] = start + i;
  return g_bytes_new_take (data, N_ITEMS * sizeof *data);
}

/* --- CUDA C++ -------------------------------------------------------------------------------- */

static void
program_cpp (TestFixture *fixture)
{
  static const struct { gint32 a; float b; } pair = { 7, 0.5f };
  const GpuExtent grid = { N_ITEMS, 1, 1 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuProgram) program = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GBytes) bytes = floats (1);
  g_autoptr (GpuBuffer) in = NULL;
  g_autoptr (GpuBuffer) out = NULL;
  g_autoptr (GBytes) content = NULL;
  g_auto (GStrv) names = NULL;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_SOURCE))
    return;
  program = test_program (fixture, cpp_source);
  names = gpu_program_list_kernels (program, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (g_strv_length (names), ==, 3);
  g_assert_true (g_strv_contains ((const char *const *) names, "plain"));
  g_assert_true (g_strv_contains ((const char *const *) names, "count"));

  kernel = get_kernel (program, "plain");
  g_assert_cmpuint (gpu_kernel_get_n_arguments (kernel), ==, 5);
  g_assert_cmpint (gpu_kernel_get_argument_kind (kernel, 0), ==, GPU_ARGUMENT_KIND_MEMORY);
  g_assert_cmpint (gpu_kernel_get_argument_kind (kernel, 2), ==, GPU_ARGUMENT_KIND_VALUE);
  g_assert_cmpstr (gpu_kernel_get_argument_name (kernel, 1), ==, "out");
  g_assert_cmpstr (gpu_kernel_get_argument_type_name (kernel, 0), ==, "float*");
  g_assert_cmpstr (gpu_kernel_get_argument_type_name (kernel, 3), ==, "double");
  g_assert_cmpstr (gpu_kernel_get_argument_type_name (kernel, 4), ==, "Pair");

  in = test_buffer_from (fixture, bytes);
  out = test_buffer_filled (fixture, N_ITEMS * 4, 0);
  test_assert_ok (gpu_stream_launch (fixture->stream, kernel, &grid, NULL, &error, in, out,
                                     N_ITEMS, 0.25, &pair), error);
  content = test_content (out);
  for (guint i = 0; i < N_ITEMS; i++)
    g_assert_cmpfloat (((const float *) g_bytes_get_data (content, NULL))[i], ==,
                       (1.0f + i) * 3 + 0.25f + 7.5f);

  g_assert_null (gpu_program_get_kernel (program, "nothing", &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "nothing", "plain", "count");
}

/* A kernel accepts an address in place of a buffer if it only needs the pointer. */
static void
program_address (TestFixture *fixture)
{
  const GpuExtent grid = { 64, 1, 1 };
  const guint32 short_address = 1;
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuProgram) program = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuBuffer) out = NULL;
  g_autoptr (GpuArguments) arguments = NULL;
  g_autoptr (GpuArguments) wrong = NULL;
  g_autoptr (GBytes) content = NULL;
  guint64 address;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_SOURCE))
    return;
  program = test_program (fixture, cpp_source);
  kernel = get_kernel (program, "count");
  out = test_buffer_filled (fixture, 256, 0xff);
  test_synchronize (fixture->stream);
  address = gpu_memory_get_device_address (GPU_MEMORY (out));
  arguments = gpu_arguments_new ();
  gpu_arguments_add_value (arguments, &address, sizeof address);
  test_assert_ok (gpu_stream_launch_arguments (fixture->stream, kernel, &grid, NULL, arguments,
                                               &error), error);
  test_synchronize (fixture->stream);
  content = test_content (out);
  for (guint i = 0; i < 64; i++)
    g_assert_cmpuint (((const guint32 *) g_bytes_get_data (content, NULL))[i], <, 64);

  wrong = gpu_arguments_new ();
  gpu_arguments_add_value (wrong, &short_address, sizeof short_address);
  g_assert_false (gpu_stream_launch_arguments (fixture->stream, kernel, &grid, NULL, wrong,
                                               &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "count", "4 bytes");
}

/* For a kernel template the library only knows the sizes of the arguments, which the driver
 * reports. */
static void
program_template (TestFixture *fixture)
{
  static const char *const names[] = { "scale<double>", "scale<float>", NULL };
  const GpuExtent grid = { 64, 1, 1 };
  const float by = 2;
  const double wide = 2;
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuProgram) program = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GBytes) bytes = floats (0);
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuArguments) right = gpu_arguments_new ();
  g_autoptr (GpuArguments) wrong = gpu_arguments_new ();
  g_autoptr (GpuArguments) local = gpu_arguments_new ();
  g_autoptr (GBytes) content = NULL;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_SOURCE))
    return;
  program = gpu_program_new_from_source_full (fixture->context, cpp_source, NULL,
                                              GPU_PROGRAM_FLAGS_NONE, names, NULL, &error);
  g_assert_no_error (error);
  kernel = get_kernel (program, "scale<float>");
  g_assert_cmpuint (gpu_kernel_get_n_arguments (kernel), ==, 2);
  g_assert_cmpint (gpu_kernel_get_argument_kind (kernel, 0), ==, GPU_ARGUMENT_KIND_UNKNOWN);
  buffer = test_buffer_from (fixture, bytes);

  gpu_arguments_add_memory (right, GPU_MEMORY (buffer));
  gpu_arguments_add_value (right, &by, sizeof by);
  test_assert_ok (gpu_stream_launch_arguments (fixture->stream, kernel, &grid, NULL, right,
                                               &error), error);
  content = test_content (buffer);
  for (guint i = 0; i < N_ITEMS; i++)
    g_assert_cmpfloat (((const float *) g_bytes_get_data (content, NULL))[i], ==,
                       i < 64 ? 2.0f * i : i);

  gpu_arguments_add_memory (wrong, GPU_MEMORY (buffer));
  gpu_arguments_add_value (wrong, &wide, sizeof wide);
  g_assert_false (gpu_stream_launch_arguments (fixture->stream, kernel, &grid, NULL, wrong,
                                               &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "scale<float>", "4", "8");
  gpu_arguments_add_memory (local, GPU_MEMORY (buffer));
  gpu_arguments_add_local (local, 64);
  g_assert_false (gpu_stream_launch_arguments (fixture->stream, kernel, &grid, NULL, local,
                                               &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "scale", "local memory");
}

static void
program_includes (TestFixture *fixture)
{
  static const char source[] =
    "#include \"value.h\"\n"
    "extern \"C\" __global__ void set (int *x) { *x = VALUE; }\n";
  const GpuExtent grid = { 1, 1, 1 };
  g_autoptr (GError) error = NULL;
  g_autofree char *directory = g_dir_make_tmp ("gpumem-XXXXXX", &error);
  g_autofree char *path = g_build_filename (directory, "value.h", NULL);
  g_autofree char *options = g_strdup_printf ("-I '%s'", directory);

  g_assert_no_error (error);
  for (gint32 i = 5; test_is_cuda (fixture, GPU_CAPABILITIES_SOURCE) && i < 7; i++)
    {
      g_autofree char *text = g_strdup_printf ("#define VALUE %d\n", i);
      g_autoptr (GpuProgram) program = NULL;
      g_autoptr (GpuKernel) kernel = NULL;
      g_autoptr (GpuBuffer) buffer = test_buffer (fixture, 4);
      g_autoptr (GBytes) content = NULL;

      g_file_set_contents (path, text, -1, &error);
      g_assert_no_error (error);
      program = gpu_program_new_from_source (fixture->context, source, options, &error);
      g_assert_no_error (error);
      g_assert_false (gpu_program_is_from_cache (program));
      kernel = get_kernel (program, "set");
      test_assert_ok (gpu_stream_launch (fixture->stream, kernel, &grid, NULL, &error, buffer),
                      error);
      content = test_content (buffer);
      g_assert_cmpmem (g_bytes_get_data (content, NULL), 4, &i, 4);
    }
  g_unlink (path);
  g_rmdir (directory);
}

/* --- binaries -------------------------------------------------------------------------------- */

static void
program_images (TestFixture *fixture)
{
  static const char *const options[] = { NULL, "-arch=compute_80" };
  const GpuExtent grid = { 64, 1, 1 };

  for (guint i = 0; test_is_cuda (fixture, GPU_CAPABILITIES_SOURCE)
                    && i < G_N_ELEMENTS (options); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GpuProgram) program = NULL;
      g_autoptr (GpuProgram) loaded = NULL;
      g_autoptr (GpuKernel) kernel = NULL;
      g_autoptr (GpuBuffer) out = test_buffer (fixture, 256);
      g_autoptr (GBytes) image = NULL;
      g_autoptr (GBytes) cut = NULL;

      program = gpu_program_new_from_source (fixture->context, cpp_source, options[i], &error);
      g_assert_no_error (error);
      image = gpu_program_get_binary (program, &error);
      g_assert_no_error (error);
      g_clear_object (&program);
      loaded = gpu_program_new_from_binary (fixture->context, image,
                                            "max-registers=32 line-info -O2", &error);
      g_assert_no_error (error);
      kernel = get_kernel (loaded, "count");
      g_clear_object (&loaded);
      g_assert_cmpint (gpu_kernel_get_argument_kind (kernel, 0), ==, GPU_ARGUMENT_KIND_MEMORY);
      test_assert_ok (gpu_stream_launch (fixture->stream, kernel, &grid, NULL, &error, out),
                      error);
      test_synchronize (fixture->stream);

      g_assert_null (gpu_program_new_from_binary (fixture->context, image, "no-such-word",
                                                  &error));
      test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "no-such-word");
      cut = g_bytes_new_from_bytes (image, 0, g_bytes_get_size (image) / 2);
      if (memcmp (g_bytes_get_data (image, NULL), "\177ELF", 4) != 0)
        continue;
      g_assert_null (gpu_program_new_from_binary (fixture->context, cut, NULL, &error));
      test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "bytes");
    }
}

/* --- launches -------------------------------------------------------------------------------- */

static guint64
get_attribute (TestFixture *fixture, const char *nick)
{
  g_autoptr (GVariant) value =
    test_take_attribute (gpu_device_get_attributes (fixture->device, NULL), nick);

  g_assert_nonnull (value);
  return g_variant_is_of_type (value, G_VARIANT_TYPE_UINT32) ? g_variant_get_uint32 (value)
                                                             : g_variant_get_uint64 (value);
}

/* Dynamic shared memory above the default limit, and above the limit of the device. */
static void
program_shared (TestFixture *fixture)
{
  const GpuExtent grid = { 64, 1, 1 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuProgram) program = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (256);
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuArguments) arguments = gpu_arguments_new ();
  g_autoptr (GBytes) content = NULL;
  guint64 most;
  gsize sizes[3] = { 256, 49152 };

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_SOURCE))
    return;
  most = get_attribute (fixture, "local-mem-size");
  sizes[2] = most;
  program = test_program (fixture, cpp_source);
  kernel = get_kernel (program, "turn");
  buffer = test_buffer_from (fixture, bytes);
  gpu_arguments_add_memory (arguments, GPU_MEMORY (buffer));
  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    test_assert_ok (test_launch (fixture->stream, kernel, &grid, NULL, sizes[i],
                                 GPU_LAUNCH_FLAGS_NONE, arguments, &error), error);
  content = test_content (buffer);
  for (guint i = 0; i < 64; i++)
    g_assert_cmpuint (((const guint32 *) g_bytes_get_data (content, NULL))[i], ==,
                      ((const guint32 *) g_bytes_get_data (bytes, NULL))[63 - i]);

  g_assert_false (test_launch (fixture->stream, kernel, &grid, NULL, most + 4,
                               GPU_LAUNCH_FLAGS_NONE, arguments, &error));
  test_assert_gpu_error (error, GPU_ERROR_LAUNCH_FAILED, "turn");
  g_assert_false (test_launch (fixture->stream, kernel, &grid, NULL, G_MAXSIZE,
                               GPU_LAUNCH_FLAGS_NONE, arguments, &error));
  test_assert_gpu_error (error, GPU_ERROR_LAUNCH_FAILED, "turn");
}

/* Launches two kernel objects of one function with different dynamic shared sizes. The driver has
 * only one limit for the function, which the launches must not lower for each other. */
static void
program_shared_limit_per_function (TestFixture *fixture)
{
  const GpuExtent grid = { 64, 1, 1 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuProgram) program = NULL;
  GpuKernel *kernels[2];
  g_autoptr (GBytes) bytes = test_random_bytes (256);
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuArguments) arguments = gpu_arguments_new ();
  guint64 most;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_SOURCE))
    return;
  most = get_attribute (fixture, "local-mem-size");
  program = test_program (fixture, cpp_source);
  kernels[0] = get_kernel (program, "turn");
  kernels[1] = get_kernel (program, "turn");
  buffer = test_buffer_from (fixture, bytes);
  gpu_arguments_add_memory (arguments, GPU_MEMORY (buffer));
  for (guint i = 0; i < 12; i++)
    {
      const gsize sizes[] = { most, most / 3 * 2, 256, most };

      /* Set the limit through one kernel object. The limit then also applies to the other
       * object. */
      if (i >= 8)
        test_assert_ok (gpu_kernel_set_attribute (kernels[i % 2], "max-dynamic-shared-size",
                                                  8192 * i, &error), error);
      test_assert_ok (test_launch (fixture->stream, kernels[(i + 1) % 2], &grid, NULL,
                                   sizes[i / 2 % G_N_ELEMENTS (sizes)], GPU_LAUNCH_FLAGS_NONE,
                                   arguments, &error), error);
      test_assert_ok (test_launch (fixture->stream, kernels[i % 2], &grid, NULL,
                                   sizes[(i + 1) % G_N_ELEMENTS (sizes)], GPU_LAUNCH_FLAGS_NONE,
                                   arguments, &error), error);
    }
  /* The data was reversed an even number of times. */
  test_assert_content (buffer, bytes);
  g_object_unref (kernels[0]);
  g_object_unref (kernels[1]);
}

/* Grids that the default block does not divide, and blocks that exceed the limits of the kernel or
 * the device. */
static void
program_blocks (TestFixture *fixture)
{
  static const GpuExtent grids[] = {
    { 1, 1, 1 }, { 997, 1, 1 }, { 33, 31, 1 }, { 1, 1, 130 }, { 7, 1, 11 }, { 96, 5, 3 }
  };
  static const GpuExtent wrong[][2] = {
    { { 256, 1, 1 }, { 256, 1, 1 } }, { { 4096, 1, 1 }, { 4096, 1, 1 } },
    { { 1, 1, 128 }, { 1, 1, 128 } }, { { 1, 100000, 1 }, { 1, 1, 1 } },
    { { 100, 1, 1 }, { 64, 1, 1 } }
  };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuProgram) program = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuBuffer) out = NULL;
  g_autoptr (GpuBuffer) counter = NULL;
  gint32 expected = 0;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_SOURCE))
    return;
  program = test_program (fixture, cpp_source);
  kernel = get_kernel (program, "count");
  counter = gpu_program_get_global (program, "counter", &error);
  g_assert_no_error (error);
  out = test_buffer (fixture, 4 * 1024);
  for (guint i = 0; i < G_N_ELEMENTS (grids); i++)
    {
      g_autoptr (GBytes) content = NULL;

      test_assert_ok (gpu_stream_launch (fixture->stream, kernel, &grids[i], NULL, &error, out),
                      error);
      test_synchronize (fixture->stream);
      expected += grids[i].width * grids[i].height * grids[i].depth;
      content = test_content (counter);
      g_assert_cmpmem (g_bytes_get_data (content, NULL), 4, &expected, 4);
    }
  for (guint i = 0; i < G_N_ELEMENTS (wrong); i++)
    {
      g_autofree char *size = g_strdup_printf ("%" G_GSIZE_FORMAT, MAX (wrong[i][0].width,
                                               MAX (wrong[i][0].height, wrong[i][0].depth)));

      g_assert_false (gpu_stream_launch (fixture->stream, kernel, &wrong[i][0], &wrong[i][1],
                                         &error, out));
      test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, size);
    }
}

static void
program_required_block (TestFixture *fixture)
{
  static const char source[] =
    "__kernel void __attribute__ ((reqd_work_group_size (4, 2, 1))) f (__global int *x)\n"
    "{\n"
    "  x[get_group_id (0) + 2 * get_group_id (1)] = (int) (get_local_size (0)\n"
    "                                               + 10 * get_local_size (1));\n"
    "}\n";
  const GpuExtent grid = { 8, 4, 1 };
  const GpuExtent odd = { 8, 3, 1 };
  const GpuExtent block = { 8, 1, 1 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuBuffer) out = NULL;
  g_autoptr (GVariant) required = NULL;
  g_autofree char *text = NULL;
  g_autoptr (GBytes) content = NULL;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_SOURCE))
    return;
  kernel = test_kernel (fixture, source, "f");
  out = test_buffer_filled (fixture, 16, 0);
  required = test_take_attribute (gpu_kernel_get_attributes (kernel, &error),
                                  "compile-work-group-size");
  g_assert_no_error (error);
  text = g_variant_print (required, FALSE);
  g_assert_cmpstr (text, ==, "(4, 2, 1)");
  test_assert_ok (gpu_stream_launch (fixture->stream, kernel, &grid, NULL, &error, out), error);
  content = test_content (out);
  for (guint i = 0; i < 4; i++)
    g_assert_cmpint (((const gint32 *) g_bytes_get_data (content, NULL))[i], ==, 24);
  g_assert_false (gpu_stream_launch (fixture->stream, kernel, &grid, &block, &error, out));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "4 x 2 x 1", "8 x 1 x 1");
  g_assert_false (gpu_stream_launch (fixture->stream, kernel, &odd, NULL, &error, out));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "8 x 3 x 1", "multiple");
}

/* If a program describes a kernel in a way that this version of the library does not support, the
 * description has no effect. */
static void
program_unsupported_description (TestFixture *fixture)
{
  static const char source[] =
    "#define KERNEL(name) extern \"C\" __global__ void name (int *x)\n"
    "KERNEL (f) { x[threadIdx.x] = blockDim.x; }\n"
    "struct Info\n"
    "{\n"
    "  unsigned version, language, n_arguments, block[3], text_size;\n"
    "  struct { char kind, type, read_only, reserved; unsigned size; } arguments[2];\n"
    "  char text[4];\n"
    "};\n"
    "extern \"C\" { __device__ Info gpu_info_f =\n"
    "  { 1, 0, 1, { 4, 2, 1 }, 1, { { 'i', '?', 0, 0, 8 }, { } }, { } }; }\n";
  const GpuExtent grid = { 8, 1, 1 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuArguments) arguments = gpu_arguments_new ();
  g_autoptr (GpuBuffer) out = NULL;
  g_autoptr (GVariant) required = NULL;
  g_autofree char *text = NULL;
  g_autoptr (GBytes) content = NULL;
  guint64 address;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_SOURCE))
    return;
  kernel = test_kernel (fixture, source, "f");
  out = test_buffer_filled (fixture, 32, 0);
  required = test_take_attribute (gpu_kernel_get_attributes (kernel, &error),
                                  "compile-work-group-size");
  g_assert_no_error (error);
  text = g_variant_print (required, FALSE);
  g_assert_cmpstr (text, ==, "(0, 0, 0)");
  address = gpu_memory_get_native_handle (GPU_MEMORY (out));
  gpu_arguments_add_value (arguments, &address, sizeof address);
  test_assert_ok (gpu_stream_launch_arguments (fixture->stream, kernel, &grid, &grid, arguments,
                                               &error), error);
  test_synchronize (fixture->stream);
  content = test_content (out);
  for (guint i = 0; i < 8; i++)
    g_assert_cmpint (((const gint32 *) g_bytes_get_data (content, NULL))[i], ==, 8);
}

static void
program_attributes (TestFixture *fixture)
{
  static const char *const nicks[] = {
    "max-threads-per-block", "shared-size", "const-size", "local-size", "n-registers",
    "ptx-version", "binary-version"
  };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuProgram) program = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GVariant) most = NULL;
  g_autoptr (GVariant) shared = NULL;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_SOURCE))
    return;
  program = test_program (fixture, cpp_source);
  kernel = get_kernel (program, "count");
  for (guint i = 0; i < G_N_ELEMENTS (nicks); i++)
    {
      g_autoptr (GVariant) value = test_take_attribute (gpu_kernel_get_attributes (kernel, &error),
                                                        nicks[i]);

      g_assert_no_error (error);
      g_assert_true (g_variant_is_of_type (value, G_VARIANT_TYPE_INT32));
    }
  most = test_take_attribute (gpu_kernel_get_attributes (kernel, &error), "max-threads-per-block");
  g_assert_cmpint (g_variant_get_int32 (most), ==, 128);
  test_assert_ok (gpu_kernel_set_attribute (kernel, "max-dynamic-shared-size", 8192, &error),
                  error);
  shared = test_take_attribute (gpu_kernel_get_attributes (kernel, &error),
                                "max-dynamic-shared-size");
  g_assert_cmpint (g_variant_get_int32 (shared), ==, 8192);
  test_assert_ok (gpu_kernel_set_attribute (kernel, "preferred-shared-carveout", 50, &error),
                  error);
  g_assert_false (gpu_kernel_set_attribute (kernel, "n-registers", 1, &error));
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "n-registers");
  g_assert_false (gpu_kernel_set_attribute (kernel, "max-dynamic-shared-size",
                                            (gint64) 1 << 40, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "1099511627776");
}

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
  g_setenv ("GPUMEM_CACHE_DIR", "", TRUE);
  test_add ("cpp", program_cpp);
  test_add ("address", program_address);
  test_add ("template", program_template);
  test_add ("includes", program_includes);
  test_add ("images", program_images);
  test_add ("shared", program_shared);
  test_add ("shared-limit-per-function", program_shared_limit_per_function);
  test_add ("blocks", program_blocks);
  test_add ("required-block", program_required_block);
  test_add ("unsupported-description", program_unsupported_description);
  test_add ("attributes", program_attributes);
  return test_run ();
}
