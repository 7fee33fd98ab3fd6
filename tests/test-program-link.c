/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Programs that are linked from several parts, kernel names and program variables (parity rows D12,
 * D49, C4, C7). */
#include "config.h"

#include "test-util.h"

#define N_ITEMS 64

static const char main_source[] =
  "float twice (float x);\n"
  "__kernel void apply (__global float *p)\n"
  "{\n"
  "  p[get_global_id (0)] = twice (p[get_global_id (0)]);\n"
  "}\n";

static const char part_source[] = "float twice (float x) { return 2 * x; }\n";

static const char global_source[] =
  "__global int counter[4] = { 1, 2, 3, 4 };\n"
  "__kernel void bump (__global int *p)\n"
  "{\n"
  "  p[get_global_id (0)] = counter[get_global_id (0)];\n"
  "  counter[get_global_id (0)] += 10;\n"
  "}\n";

static void
assert_doubles (TestFixture *fixture, GpuKernel *kernel)
{
  const GpuExtent grid = { N_ITEMS, 1, 1 };
  g_autoptr (GError) error = NULL;
  float *data = g_new (float, N_ITEMS);
  g_autoptr (GBytes) bytes = g_bytes_new_take (data, N_ITEMS * sizeof *data);
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GBytes) content = NULL;
  const float *result;

  for (guint i = 0; i < N_ITEMS; i++)
    data[i] = i;
  buffer = test_buffer_from (fixture, bytes);
  test_assert_ok (gpu_kernel_declare_arguments (kernel, "p", &error), error);
  test_assert_ok (gpu_stream_launch (fixture->stream, kernel, &grid, NULL, &error, buffer), error);
  content = test_content (buffer);
  result = g_bytes_get_data (content, NULL);
  for (guint i = 0; i < N_ITEMS; i++)
    g_assert_cmpfloat (result[i], ==, 2.0f * i);
}

static GBytes *
compile (TestFixture *fixture, const char *source)
{
  g_autoptr (GError) error = NULL;
  GBytes *part = gpu_program_compile (fixture->context, source, NULL, NULL, &error);

  g_assert_no_error (error);
  g_assert_cmpuint (g_bytes_get_size (part), >, 0);
  return part;
}

static void
link_parts (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) first = NULL;
  g_autoptr (GBytes) second = NULL;
  g_autoptr (GpuProgram) program = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  GBytes *parts[2];

  if (!test_has (fixture, GPU_CAPABILITIES_LINKING | GPU_CAPABILITIES_SOURCE))
    return;
  parts[0] = first = compile (fixture, main_source);
  parts[1] = second = compile (fixture, part_source);
  program = gpu_program_new_linked (fixture->context, parts, 2, NULL, &error);
  g_assert_no_error (error);
  g_assert_null (test_get_string (program, "source"));
  kernel = gpu_program_get_kernel (program, "apply", &error);
  g_assert_no_error (error);
  assert_doubles (fixture, kernel);
}

static void
link_invalid_parts (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) good = NULL;
  g_autoptr (GBytes) bad = g_bytes_new_static ("none", 4);

  if (!test_has (fixture, GPU_CAPABILITIES_LINKING | GPU_CAPABILITIES_SOURCE))
    return;
  good = compile (fixture, main_source);
  g_assert_null (gpu_program_new_linked (fixture->context, NULL, 0, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_program_new_linked", "0 parts");
  g_assert_null (gpu_program_new_linked (fixture->context, &bad, 1, NULL, &error));
  g_assert_nonnull (error);
  g_assert_true (g_str_has_prefix (error->message, "gpu_program_new_linked: "));
  g_clear_error (&error);
  if (test_is_opencl (fixture))
    {
      g_autoptr (GByteArray) array = g_bytes_unref_to_array (g_bytes_ref (good));
      g_autoptr (GBytes) damaged = NULL;

      array->data[array->len / 2] ^= 1;
      damaged = g_bytes_new (array->data, array->len);
      g_assert_null (gpu_program_new_linked (fixture->context, &damaged, 1, NULL, &error));
      test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_program_new_linked",
                             "damaged");
    }
  g_assert_null (gpu_program_compile (fixture->context, "__kernel void broken (", NULL, NULL,
                                      &error));
  g_assert_nonnull (error);
  g_assert_false (g_str_has_suffix (error->message, "\n"));
  test_assert_gpu_error (error, GPU_ERROR_BUILD_FAILED, "gpu_program_compile");
}

static void
link_not_supported (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = g_bytes_new_static ("none", 4);

  if ((gpu_device_get_capabilities (fixture->device) & GPU_CAPABILITIES_LINKING) != 0)
    {
      g_test_skip ("the device has a linker");
      return;
    }
  g_assert_null (gpu_program_compile (fixture->context, part_source, NULL, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_program_compile");
  g_assert_null (gpu_program_new_linked (fixture->context, &bytes, 1, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_program_new_linked");
}

/* The names of kernels in the source differ from those in the binary only in languages with
 * templates. */
static void
link_template_names (TestFixture *fixture)
{
  static const char source[] =
    "template <typename T> __global__ void apply (T *p)\n"
    "{\n"
    "  p[blockIdx.x * blockDim.x + threadIdx.x] *= 2;\n"
    "}\n";
  static const char *const names[] = { "apply<float>", NULL };
  static const char *const none[] = { NULL };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuProgram) program = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_SOURCE))
    return;
  g_assert_null (gpu_program_new_from_source_full (fixture->context, source, NULL,
                                                   GPU_PROGRAM_FLAGS_NONE, none, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "no name");

  /* Build twice, the second time from the cache. */
  for (guint i = 0; i < 2; i++)
    {
      g_autoptr (GpuKernel) kernel = NULL;

      g_clear_object (&program);
      program = gpu_program_new_from_source_full (fixture->context, source, NULL,
                                                  GPU_PROGRAM_FLAGS_NONE, names, NULL, &error);
      if (!g_str_equal (gpu_device_get_backend (fixture->device), "cuda"))
        {
          g_assert_null (program);
          test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "names");
          return;
        }
      g_assert_no_error (error);
      g_assert_nonnull (gpu_program_get_lowered_name (program, "apply<float>"));
      g_assert_null (gpu_program_get_lowered_name (program, "apply<int>"));
      kernel = gpu_program_get_kernel (program, "apply<float>", &error);
      g_assert_no_error (error);
      assert_doubles (fixture, kernel);
    }
}

static void
link_global (TestFixture *fixture)
{
  static const gint32 first[] = { 1, 2, 3, 4 };
  static const gint32 then[] = { 11, 12, 13, 14 };
  static const gint32 set[] = { -1, -2, -3, -4 };
  const GpuExtent grid = { 4, 1, 1 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuBuffer) counter = NULL;
  g_autoptr (GBytes) content = NULL;
  GpuProgram *program;

  if (!test_has (fixture, GPU_CAPABILITIES_GLOBALS | GPU_CAPABILITIES_SOURCE))
    return;
  program = test_program (fixture, global_source);
  kernel = gpu_program_get_kernel (program, "bump", &error);
  g_assert_no_error (error);
  counter = gpu_program_get_global (program, "counter", &error);
  g_assert_no_error (error);
  g_assert_cmpuint (gpu_memory_get_size (GPU_MEMORY (counter)), ==, sizeof first);
  g_assert_null (gpu_program_get_global (program, "sin", &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_program_get_global", "sin");
  g_object_unref (program);

  buffer = test_buffer_filled (fixture, sizeof first, 0);
  test_assert_ok (gpu_stream_launch (fixture->stream, kernel, &grid, NULL, &error, buffer), error);
  test_synchronize (fixture->stream);
  content = test_content (buffer);
  test_assert_mem (g_bytes_get_data (content, NULL), first, sizeof first);
  g_clear_pointer (&content, g_bytes_unref);
  content = test_content (counter);
  test_assert_mem (g_bytes_get_data (content, NULL), then, sizeof then);

  test_assert_ok (gpu_buffer_write (counter, NULL, 0, set, sizeof set, NULL, &error), error);
  test_assert_ok (gpu_stream_launch (fixture->stream, kernel, &grid, NULL, &error, buffer), error);
  g_clear_pointer (&content, g_bytes_unref);
  content = test_content (buffer);
  test_assert_mem (g_bytes_get_data (content, NULL), set, sizeof set);
}

/* The buffer of a variable keeps the program alive. */
static void
link_global_outlives_program (TestFixture *fixture)
{
  static const gint32 first[] = { 1, 2, 3, 4 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuProgram) program = NULL;
  g_autoptr (GpuBuffer) counter = NULL;
  g_autoptr (GpuBuffer) slice = NULL;
  g_autoptr (GBytes) content = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_GLOBALS | GPU_CAPABILITIES_SOURCE))
    return;
  program = test_program (fixture, global_source);
  counter = gpu_program_get_global (program, "counter", &error);
  g_assert_no_error (error);
  g_clear_object (&program);
  content = test_content (counter);
  test_assert_mem (g_bytes_get_data (content, NULL), first, sizeof first);
  gpu_memory_release (GPU_MEMORY (counter));
  g_assert_null (gpu_buffer_slice (counter, 0, 4, &error));
  test_assert_gpu_error (error, GPU_ERROR_RELEASED);
}

static void
link_global_errors (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuProgram) program = NULL;
  g_autoptr (GpuProgram) empty = g_object_new (GPU_TYPE_PROGRAM, NULL);

  if (!test_has (fixture, GPU_CAPABILITIES_SOURCE))
    return;
  program = test_program (fixture, "__kernel void k (__global int *p) { p[0] = 1; }");
  g_assert_null (gpu_program_get_global (program, "k", &error));
  g_assert_true (g_error_matches (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED)
                 || g_error_matches (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT));
  g_clear_error (&error);
  g_assert_null (gpu_program_get_global (empty, "k", &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "never built");
}

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
  test_add ("parts", link_parts);
  test_add ("invalid-parts", link_invalid_parts);
  test_add ("not-supported", link_not_supported);
  test_add ("template-names", link_template_names);
  test_add ("global", link_global);
  test_add ("global-outlives-program", link_global_outlives_program);
  test_add ("global-errors", link_global_errors);
  return test_run ();
}
