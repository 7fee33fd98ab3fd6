/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Programs: builds, logs, options, binaries and the cache on disk. The tests of the cache include
 * damaged entries, the size limit, and several processes that share the cache. */
#include "config.h"

#include <signal.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <unistd.h>
#include <utime.h>

#include <glib/gstdio.h>

#include "test-util.h"

#define N_ITEMS 64
#define N_PROCESSES 3
#define N_SHARED 2

static const char *self;
static char **environment;           /* copied before any driver is loaded */

static const char set_source[] =
  "#ifndef VALUE\n"
  "#define VALUE 1\n"
  "#endif\n"
  "__kernel void set (__global uint *x)\n"
  "{\n"
  "  x[get_global_id (0)] = VALUE;\n"
  "}\n"
  "__kernel void other (__global uint *x)\n"
  "{\n"
  "  x[get_global_id (0)] = 0;\n"
  "}\n";

/* Returns the value that the program of set_source writes to a buffer. */
static guint32
run_program (TestFixture *fixture, GpuProgram *program)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuKernel) kernel = gpu_program_get_kernel (program, "set", &error);
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, N_ITEMS * 4, 0);
  g_autoptr (GBytes) content = NULL;
  GpuExtent grid = { N_ITEMS, 1, 1 };
  const guint32 *values;

  g_assert_no_error (error);
  /* Intel's driver does not describe kernels in binaries. */
  if (test_get_string (program, "source") == NULL)
    test_assert_ok (gpu_kernel_declare_arguments (kernel, "p", &error), error);
  test_assert_ok (gpu_stream_launch (fixture->stream, kernel, &grid, NULL, &error, buffer),
                  error);
  content = test_content (buffer);
  values = g_bytes_get_data (content, NULL);
  for (guint i = 1; i < N_ITEMS; i++)
    g_assert_cmpuint (values[i], ==, values[0]);
  return values[0];
}

static GpuProgram *
build (TestFixture *fixture, const char *options, GpuProgramFlags flags)
{
  g_autoptr (GError) error = NULL;
  GpuProgram *program = gpu_program_new_from_source_full (fixture->context, set_source, options,
                                                          flags, NULL, NULL, &error);

  g_assert_no_error (error);
  g_assert_nonnull (program);
  return program;
}

/* --- building --------------------------------------------------------------------- */

static void
program_build (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuProgram) program = NULL;
  g_auto (GStrv) names = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_SOURCE))
    {
      program = gpu_program_new_from_source (fixture->context, set_source, NULL, &error);
      g_assert_null (program);
      test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED);
      return;
    }
  program = build (fixture, NULL, GPU_PROGRAM_FLAGS_NONE);
  g_assert_true (gpu_program_get_context (program) == fixture->context);
  g_assert_cmpstr (test_get_string (program, "source"), ==, set_source);
  g_assert_cmpstr (test_get_string (program, "options"), ==, "");
  names = gpu_program_list_kernels (program, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (g_strv_length (names), ==, 2);
  g_assert_true (g_strv_contains ((const char *const *) names, "set"));
  g_assert_true (g_strv_contains ((const char *const *) names, "other"));
  g_assert_cmpuint (run_program (fixture, program), ==, 1);

  g_assert_null (gpu_program_get_kernel (program, "no_such_kernel", &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "no_such_kernel");
}

/* Back ends that translate OpenCL C ignore options of OpenCL without an effect on the device, but
 * reject options that do not exist. */
static void
program_unknown_options (TestFixture *fixture)
{
  static const char *const wrong[] = { "-cl-fast-relaxd-math", "-cl-", "-cl-mad-enable=1",
                                       "-cl-std=CL9.9" };
  g_autoptr (GpuProgram) program = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_SOURCE))
    return;
  program = build (fixture, "-cl-no-signed-zeros -cl-std=CL1.2", GPU_PROGRAM_FLAGS_NONE);
  g_assert_cmpuint (run_program (fixture, program), ==, 1);
  for (guint i = 0; i < G_N_ELEMENTS (wrong) && !test_is_opencl (fixture); i++)
    {
      g_autoptr (GError) error = NULL;

      g_assert_null (gpu_program_new_from_source (fixture->context, set_source, wrong[i],
                                                  &error));
      test_assert_gpu_error (error, GPU_ERROR_BUILD_FAILED, wrong[i]);
    }
}

static void
program_options (TestFixture *fixture)
{
  g_autoptr (GpuProgram) seven = NULL;
  g_autoptr (GpuProgram) eight = NULL;
  g_autoptr (GpuProgram) both = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_SOURCE))
    return;
  seven = build (fixture, "-DVALUE=7", GPU_PROGRAM_FLAGS_NONE);
  g_assert_cmpstr (test_get_string (seven, "options"), ==, "-DVALUE=7");
  g_assert_cmpuint (run_program (fixture, seven), ==, 7);

  gpu_context_set_build_options (fixture->context, "-DVALUE=8");
  g_assert_cmpstr (gpu_context_get_build_options (fixture->context), ==, "-DVALUE=8");
  eight = build (fixture, NULL, GPU_PROGRAM_FLAGS_NONE);
  g_assert_cmpuint (run_program (fixture, eight), ==, 8);

  gpu_context_set_build_options (fixture->context, "-DVALUE=HALF*2");
  both = build (fixture, "-DHALF=21", GPU_PROGRAM_FLAGS_NONE);
  g_assert_nonnull (strstr (test_get_string (both, "options"), "-DVALUE=HALF*2"));
  g_assert_nonnull (strstr (test_get_string (both, "options"), "-DHALF=21"));
  g_assert_cmpuint (run_program (fixture, both), ==, 42);
  g_assert_cmpuint (run_program (fixture, seven), ==, 7);
}

/* Options without the end of a quote or of an option fail by themselves: they take no part of the
 * options that follow, and the error names them alone. */
static void
program_incomplete_options (TestFixture *fixture)
{
  static const struct
  {
    const char *common, *own, *message;
    gboolean    is_quote;
  }
  cases[] =
  {
    { NULL, "-DVALUE=3 -I", "the options \"-DVALUE=3 -I\": -I requires a value" },
    { "-DVALUE=3", "-D", "the options \"-D\": -D requires a value" },
    { "-D", "-DVALUE=3", "the options of the context \"-D\": -D requires a value" },
    { "-DVALUE=3 -I ", NULL, "the options of the context \"-DVALUE=3 -I \": -I requires a value" },
    { "-DA='1", "-DVALUE='3", "the options of the context: ", TRUE },
    { "-DA='1'", "-DVALUE=\"3", "the options: ", TRUE },
  };

  if (!test_has (fixture, GPU_CAPABILITIES_SOURCE))
    return;
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      const char *wrong = strstr (cases[i].message, "context") ? cases[i].common : cases[i].own;
      const char *other = wrong == cases[i].own ? cases[i].common : cases[i].own;
      g_autoptr (GError) error = NULL;

      if (cases[i].is_quote && test_is_opencl (fixture))
        continue;
      gpu_context_set_build_options (fixture->context, cases[i].common);
      g_assert_null (gpu_program_new_from_source (fixture->context, set_source, cases[i].own,
                                                  &error));
      g_assert_true (other == NULL || strstr (error->message, other) == NULL);
      test_assert_gpu_error (error, GPU_ERROR_BUILD_FAILED, "gpu_program_new_from_source",
                             cases[i].message, wrong);
      if ((gpu_device_get_capabilities (fixture->device) & GPU_CAPABILITIES_LINKING) == 0)
        continue;
      g_assert_null (gpu_program_compile (fixture->context, set_source, cases[i].own, NULL,
                                          &error));
      test_assert_gpu_error (error, GPU_ERROR_BUILD_FAILED, "gpu_program_compile",
                             cases[i].message, wrong);
    }
}

/* A quoted value keeps its blanks, in the options of the context and in those of the program. A
 * comment of the context, as in a shell, does not hide the options of the program. */
static void
program_quoted_options (TestFixture *fixture)
{
  g_autoptr (GpuProgram) program = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_SOURCE) || test_is_opencl (fixture))
    return;
  gpu_context_set_build_options (fixture->context, "-D 'HALF=20 + 1' -DUNIT='' # half");
  program = build (fixture, "-DVALUE='HALF * 2'\" UNIT\"", GPU_PROGRAM_FLAGS_NONE);
  g_assert_cmpuint (run_program (fixture, program), ==, 22);
}

static void
program_log (TestFixture *fixture)
{
  static const char wrong[] =
    "__kernel void wrong (__global uint *x)\n"
    "{\n"
    "  x[0] = undeclared_thing;\n"
    "}\n";
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuProgram) program = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_SOURCE))
    return;
  for (guint i = 0; i < 2; i++)
    {
      program = gpu_program_new_from_source (fixture->context, wrong, NULL, &error);
      g_assert_null (program);
      g_assert_nonnull (error);
      g_assert_false (g_str_has_suffix (error->message, "\n"));
      test_assert_gpu_error (error, GPU_ERROR_BUILD_FAILED, "undeclared_thing");
    }
  program = gpu_program_new_from_source (fixture->context, set_source, "-no-such-option-at-all",
                                         &error);
  g_assert_null (program);
  g_assert_nonnull (error);
  g_assert_true (error->domain == GPU_ERROR);
  g_clear_error (&error);
  program = gpu_program_new_from_source (fixture->context, "", NULL, &error);
  if (program == NULL)
    g_assert_true (error->domain == GPU_ERROR);
}

static void
program_binary (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuProgram) program = NULL;
  g_autoptr (GpuProgram) again = NULL;
  g_autoptr (GpuProgram) junk = NULL;
  g_autoptr (GBytes) binary = NULL;
  g_autoptr (GBytes) noise = test_random_bytes (1000);
  g_autoptr (GBytes) nothing = g_bytes_new (NULL, 0);

  if (!test_has (fixture, GPU_CAPABILITIES_SOURCE | GPU_CAPABILITIES_BINARY))
    return;
  program = build (fixture, "-DVALUE=11", GPU_PROGRAM_FLAGS_NO_CACHE);
  binary = gpu_program_get_binary (program, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (g_bytes_get_size (binary), >, 0);
  g_clear_object (&program);
  again = gpu_program_new_from_binary (fixture->context, binary, NULL, &error);
  g_assert_no_error (error);
  g_assert_null (test_get_string (again, "source"));
  g_assert_cmpuint (run_program (fixture, again), ==, 11);

  junk = gpu_program_new_from_binary (fixture->context, noise, NULL, &error);
  g_assert_null (junk);
  g_assert_nonnull (error);
  g_assert_true (error->domain == GPU_ERROR);
  g_clear_error (&error);
  junk = gpu_program_new_from_binary (fixture->context, nothing, NULL, &error);
  g_assert_null (junk);
  g_assert_nonnull (error);
  g_assert_true (error->domain == GPU_ERROR);
}

/* The kernel of set_source in SPIR-V 1.0, with the value 31. Each instruction begins with its
 * length in words and its opcode. */
#define OP(length, number) ((length) << 16 | (number))

static const guint32 set_il[] =
{
  0x07230203, 0x00010000, 0, 16, 0,     /* magic, version, generator, bound of ids, schema */
  OP (2, 17), 4,                        /* OpCapability Addresses */
  OP (2, 17), 6,                        /* OpCapability Kernel */
  OP (2, 17), 11,                       /* OpCapability Int64 */
  OP (3, 14), 2, 2,                     /* OpMemoryModel Physical64 OpenCL */
  OP (5, 15), 6, 10, 0x00746573, 9,     /* OpEntryPoint Kernel %10 "set" %9 */
  OP (4, 71), 9, 11, 28,                /* OpDecorate %9 BuiltIn GlobalInvocationId */
  OP (3, 71), 9, 22,                    /* OpDecorate %9 Constant */
  OP (2, 19), 1,                        /* %1 = OpTypeVoid */
  OP (4, 21), 2, 32, 0,                 /* %2 = OpTypeInt 32 0 */
  OP (4, 21), 3, 64, 0,                 /* %3 = OpTypeInt 64 0 */
  OP (4, 23), 4, 3, 3,                  /* %4 = OpTypeVector %3 3 */
  OP (4, 32), 5, 1, 4,                  /* %5 = OpTypePointer Input %4 */
  OP (4, 32), 6, 5, 2,                  /* %6 = OpTypePointer CrossWorkgroup %2 */
  OP (4, 33), 7, 1, 6,                  /* %7 = OpTypeFunction %1 %6 */
  OP (4, 43), 2, 8, 31,                 /* %8 = OpConstant %2 31 */
  OP (4, 59), 5, 9, 1,                  /* %9 = OpVariable %5 Input */
  OP (5, 54), 1, 10, 0, 7,              /* %10 = OpFunction %1 None %7 */
  OP (3, 55), 6, 11,                    /* %11 = OpFunctionParameter %6 */
  OP (2, 248), 12,                      /* %12 = OpLabel */
  OP (6, 61), 4, 13, 9, 2, 32,          /* %13 = OpLoad %4 %9 Aligned 32 */
  OP (5, 81), 3, 14, 13, 0,             /* %14 = OpCompositeExtract %3 %13 0 */
  OP (5, 70), 6, 15, 11, 14,            /* %15 = OpInBoundsPtrAccessChain %6 %11 %14 */
  OP (5, 62), 15, 8, 2, 4,              /* OpStore %15 %8 Aligned 4 */
  OP (1, 253),                          /* OpReturn */
  OP (1, 56)                            /* OpFunctionEnd */
};

static void
program_il_runs (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = g_bytes_new_static (set_il, sizeof set_il);
  g_autoptr (GpuProgram) program = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_IL))
    return;
  program = gpu_program_new_from_il (fixture->context, bytes, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (run_program (fixture, program), ==, 31);
}

static void
program_il (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) noise = test_random_bytes (400);
  g_autoptr (GpuProgram) program = gpu_program_new_from_il (fixture->context, noise, NULL, &error);

  g_assert_null (program);
  if ((gpu_device_get_capabilities (fixture->device) & GPU_CAPABILITIES_IL) == 0)
    test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED);
  else
    g_assert_true (error->domain == GPU_ERROR);
}

static void
program_file (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *directory = g_dir_make_tmp ("gpumem-XXXXXX", &error);
  g_autofree char *path = g_build_filename (directory, "set.cl", NULL);
  g_autoptr (GFile) file = g_file_new_for_path (path);
  g_autoptr (GpuProgram) program = NULL;

  g_assert_no_error (error);
  if (!test_has (fixture, GPU_CAPABILITIES_SOURCE))
    return;
  g_assert_null (gpu_program_new_from_file (fixture->context, file, NULL, &error));
  test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_NOT_FOUND, "set.cl");
  g_file_set_contents (path, set_source, -1, &error);
  g_assert_no_error (error);
  program = gpu_program_new_from_file (fixture->context, file, "-DVALUE=77", &error);
  g_assert_no_error (error);
  g_assert_cmpuint (run_program (fixture, program), ==, 77);
  g_file_set_contents (path, "__kernel void set (\0) { }", 25, &error);
  g_assert_no_error (error);
  g_assert_null (gpu_program_new_from_file (fixture->context, file, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "NUL", "offset 19");
  g_unlink (path);
  g_rmdir (directory);
}

static void
program_async (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCancellable) cancellable = g_cancellable_new ();
  g_autoptr (GAsyncResult) good = NULL;
  g_autoptr (GAsyncResult) bad = NULL;
  g_autoptr (GAsyncResult) cancelled = NULL;
  g_autoptr (GpuProgram) program = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_SOURCE))
    return;
  g_cancellable_cancel (cancellable);
  gpu_program_new_from_source_async (fixture->context, set_source, "-DVALUE=5", NULL,
                                     test_take_result, &good);
  gpu_program_new_from_source_async (fixture->context, "this is no program", NULL, NULL,
                                     test_take_result, &bad);
  gpu_program_new_from_source_async (fixture->context, set_source, NULL, cancellable,
                                     test_take_result, &cancelled);
  g_assert_true (good == NULL && bad == NULL && cancelled == NULL);
  program = gpu_program_new_from_source_finish (test_await (&good), &error);
  g_assert_no_error (error);
  g_assert_cmpuint (run_program (fixture, program), ==, 5);
  g_assert_null (gpu_program_new_from_source_finish (test_await (&bad), &error));
  test_assert_gpu_error (error, GPU_ERROR_BUILD_FAILED);
  g_assert_null (gpu_program_new_from_source_finish (test_await (&cancelled), &error));
  test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
}

/* --- the cache ------------------------------------------------------------------------ */

/* Returns a new directory for the cache. Returns NULL and skips the test if programs are not
 * cached. */
static char *
cache_begin (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  char *directory;

  if (!test_has (fixture, GPU_CAPABILITIES_SOURCE | GPU_CAPABILITIES_BINARY))
    return NULL;
  directory = g_dir_make_tmp ("gpumem-cache-XXXXXX", &error);
  g_assert_no_error (error);
  g_setenv ("GPUMEM_CACHE_DIR", directory, TRUE);
  return directory;
}

static GPtrArray *
cache_files (const char *directory)
{
  g_autoptr (GDir) dir = g_dir_open (directory, 0, NULL);
  GPtrArray *files = g_ptr_array_new_with_free_func (g_free);
  const char *name;

  while (dir != NULL && (name = g_dir_read_name (dir)) != NULL)
    g_ptr_array_add (files, g_build_filename (directory, name, NULL));
  return files;
}

static guint64
cache_size (const char *directory)
{
  g_autoptr (GPtrArray) files = cache_files (directory);
  guint64 size = 0;

  for (guint i = 0; i < files->len; i++)
    {
      GStatBuf status;

      if (g_stat (files->pdata[i], &status) == 0)
        size += (guint64) status.st_size;
    }
  return size;
}

static void
cache_end (char *directory)
{
  g_autoptr (GPtrArray) files = cache_files (directory);

  for (guint i = 0; i < files->len; i++)
    g_unlink (files->pdata[i]);
  g_assert_cmpint (g_rmdir (directory), ==, 0);
  g_free (directory);
  g_unsetenv ("GPUMEM_CACHE_SIZE");
  g_setenv ("GPUMEM_CACHE_DIR", "", TRUE);
}

static void
assert_built (TestFixture *fixture, const char *options, GpuProgramFlags flags, gboolean cached,
              guint32 value)
{
  g_autoptr (GpuProgram) program = build (fixture, options, flags);

  g_assert_cmpint (gpu_program_is_from_cache (program), ==, cached);
  g_assert_cmpuint (run_program (fixture, program), ==, value);
}

static void
program_cache (TestFixture *fixture)
{
  char *directory = cache_begin (fixture);
  g_autoptr (GPtrArray) files = NULL;

  if (directory == NULL)
    return;
  assert_built (fixture, "-DVALUE=1", GPU_PROGRAM_FLAGS_NO_CACHE, FALSE, 1);
  assert_built (fixture, "-DVALUE=1", GPU_PROGRAM_FLAGS_NONE, FALSE, 1);
  assert_built (fixture, "-DVALUE=1", GPU_PROGRAM_FLAGS_NONE, TRUE, 1);
  assert_built (fixture, "-DVALUE=2", GPU_PROGRAM_FLAGS_NONE, FALSE, 2);
  assert_built (fixture, "-DVALUE=2", GPU_PROGRAM_FLAGS_NONE, TRUE, 2);
  assert_built (fixture, "-DVALUE=1", GPU_PROGRAM_FLAGS_NO_CACHE, FALSE, 1);
  files = cache_files (directory);
  g_assert_cmpuint (files->len, ==, 2);

  g_setenv ("GPUMEM_CACHE_DIR", "", TRUE);
  assert_built (fixture, "-DVALUE=1", GPU_PROGRAM_FLAGS_NONE, FALSE, 1);
  cache_end (directory);
}

/* A build that depends on more than the source and the options is not cached. */
static void
program_cache_external_inputs (TestFixture *fixture)
{
  char *directory = cache_begin (fixture);
  g_autofree char *path = NULL;
  g_autoptr (GPtrArray) files = NULL;

  if (directory == NULL)
    return;
  path = g_strconcat (directory, ".h", NULL);
  for (guint i = 1; i <= 2; i++)
    assert_built (fixture, "-DVALUE=sizeof(__TIME__)", GPU_PROGRAM_FLAGS_NONE, FALSE, 9);
  for (guint i = 1; i <= 4; i++)
    {
      const char *names[] = { "--pre-include=", "--pre-include ", "-include=", "-include " };
      g_autofree char *text = g_strdup_printf ("#define VALUE %u\n", i);
      g_autofree char *options = g_strconcat (names[i - 1], "'", path, "'", NULL);

      if (!g_str_equal (gpu_device_get_backend (fixture->device), "cuda"))
        continue;
      g_assert_true (g_file_set_contents (path, text, -1, NULL));
      assert_built (fixture, options, GPU_PROGRAM_FLAGS_NONE, FALSE, i);
      g_assert_true (g_file_set_contents (path, "#define VALUE 17\n", -1, NULL));
      assert_built (fixture, options, GPU_PROGRAM_FLAGS_NONE, FALSE, 17);
    }
  files = cache_files (directory);
  g_assert_cmpuint (files->len, ==, 0);
  g_unlink (path);
  cache_end (directory);
}

/* Kernels of a program from the cache have the same argument information as those of the program
 * that was built. */
static void
program_cache_arguments (TestFixture *fixture)
{
  char *directory = cache_begin (fixture);

  if (directory == NULL)
    return;
  for (guint i = 0; i < 2; i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GpuProgram) program = build (fixture, NULL, GPU_PROGRAM_FLAGS_NONE);
      g_autoptr (GpuKernel) kernel = gpu_program_get_kernel (program, "set", &error);

      g_assert_no_error (error);
      g_assert_cmpint (gpu_program_is_from_cache (program), ==, i == 1);
      g_assert_cmpuint (gpu_kernel_get_n_arguments (kernel), ==, 1);
      if ((gpu_device_get_capabilities (fixture->device) & GPU_CAPABILITIES_ARGUMENT_INFO) != 0)
        {
          g_assert_cmpint (gpu_kernel_get_argument_kind (kernel, 0), ==,
                           GPU_ARGUMENT_KIND_MEMORY);
          g_assert_cmpstr (gpu_kernel_get_argument_name (kernel, 0), ==, "x");
        }
    }
  cache_end (directory);
}

static void
damage (const char *path, guint how)
{
  g_autofree char *data = NULL;
  g_autoptr (GError) error = NULL;
  gsize size;

  g_file_get_contents (path, &data, &size, &error);
  g_assert_no_error (error);
  switch (how)
    {
    case 0:
      data[size / 2] ^= 1;
      break;
    case 1:
      size /= 2;
      break;
    case 2:
      size = 0;
      break;
    default:
      data[0] ^= 0x80;
      break;
    }
  g_file_set_contents (path, data, (gssize) size, &error);
  g_assert_no_error (error);
}

static void
program_cache_damaged_entry (TestFixture *fixture)
{
  char *directory = cache_begin (fixture);

  if (directory == NULL)
    return;
  assert_built (fixture, NULL, GPU_PROGRAM_FLAGS_NONE, FALSE, 1);
  for (guint how = 0; how < 4; how++)
    {
      g_autoptr (GPtrArray) files = cache_files (directory);

      g_assert_cmpuint (files->len, ==, 1);
      damage (files->pdata[0], how);
      assert_built (fixture, NULL, GPU_PROGRAM_FLAGS_NONE, FALSE, 1);
      assert_built (fixture, NULL, GPU_PROGRAM_FLAGS_NONE, TRUE, 1);
    }
  cache_end (directory);
}

/* An entry with a wrong digest is rejected, although the rest of its content is valid. */
static void
program_cache_digest (TestFixture *fixture)
{
  char *directory = cache_begin (fixture);
  g_autoptr (GPtrArray) files = NULL;
  g_autofree char *data = NULL;
  gsize size;

  if (directory == NULL)
    return;
  assert_built (fixture, NULL, GPU_PROGRAM_FLAGS_NONE, FALSE, 1);
  files = cache_files (directory);
  g_assert_true (g_file_get_contents (files->pdata[0], &data, &size, NULL));
  g_assert_cmpuint (size, >, 64);
  g_assert_true (g_str_has_prefix (data, "gpumem program 2\n"));
  data[63] ^= 1;
  g_assert_true (g_file_set_contents (files->pdata[0], data, (gssize) size, NULL));
  assert_built (fixture, NULL, GPU_PROGRAM_FLAGS_NONE, FALSE, 1);
  assert_built (fixture, NULL, GPU_PROGRAM_FLAGS_NONE, TRUE, 1);
  cache_end (directory);
}

/* An entry that another user owns or can write is not used but replaced. */
static void
program_cache_owner (TestFixture *fixture)
{
  static const int modes[] = { 0620, 0602, 0666 };
  char *directory = cache_begin (fixture);
  g_autoptr (GPtrArray) files = NULL;
  GStatBuf status;

  if (directory == NULL)
    return;
  assert_built (fixture, NULL, GPU_PROGRAM_FLAGS_NONE, FALSE, 1);
  files = cache_files (directory);
  g_assert_cmpuint (files->len, ==, 1);
  for (guint i = 0; i < G_N_ELEMENTS (modes); i++)
    {
      g_assert_cmpint (g_chmod (files->pdata[0], modes[i]), ==, 0);
      assert_built (fixture, NULL, GPU_PROGRAM_FLAGS_NONE, FALSE, 1);
      assert_built (fixture, NULL, GPU_PROGRAM_FLAGS_NONE, TRUE, 1);
      g_assert_cmpint (g_stat (files->pdata[0], &status), ==, 0);
      g_assert_cmpint (status.st_mode & 0777, ==, 0600);
    }
  if (geteuid () == 0 && chown (files->pdata[0], 65534, 65534) == 0)
    {
      assert_built (fixture, NULL, GPU_PROGRAM_FLAGS_NONE, FALSE, 1);
      assert_built (fixture, NULL, GPU_PROGRAM_FLAGS_NONE, TRUE, 1);
      g_assert_cmpint (g_stat (files->pdata[0], &status), ==, 0);
      g_assert_cmpuint (status.st_uid, ==, geteuid ());
    }
  cache_end (directory);
}

/* Writes @text to an old file in @directory. */
static char *
add_old_file (const char *directory, const char *name, const char *text)
{
  char *path = g_build_filename (directory, name, NULL);
  struct utimbuf old = { 1000000000, 1000000000 };

  g_assert_true (g_file_set_contents (path, text, -1, NULL));
  g_assert_cmpint (g_utime (path, &old), ==, 0);
  return path;
}

#define KEY "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

/* The cache never removes files of other programs, regardless of their name and age. It removes
 * incomplete files of processes that have ended. */
static void
program_cache_foreign (TestFixture *fixture)
{
  static const struct
  {
    const char *name, *text;
    gboolean stays;
  } cases[] = {
    { "thesis.program", "all of it", TRUE }, { "my.program.txt", "", TRUE },
    { ".program", "gpumem program 2\n", TRUE }, { KEY ".program", "a key of another", TRUE },
    { KEY ".program.bak", "gpumem program 2\n", TRUE }, { KEY ".programs", "", TRUE },
    { "0" KEY ".program", "gpumem program 2\n", TRUE },
    { KEY ".program.ABC123", "not of the cache", TRUE },
    { KEY ".program.ABC124", "gpumem program 2\nhalf", FALSE },
    { KEY ".program.ABC125", "", FALSE },
  };
  char *directory = cache_begin (fixture);
  g_autoptr (GPtrArray) paths = g_ptr_array_new_with_free_func (g_free);
  g_autoptr (GPtrArray) files = NULL;
  g_autofree char *limit = NULL;

  if (directory == NULL)
    return;
  assert_built (fixture, "-DVALUE=100", GPU_PROGRAM_FLAGS_NONE, FALSE, 100);
  limit = g_strdup_printf ("%" G_GUINT64_FORMAT, cache_size (directory) * 3 / 2);
  g_setenv ("GPUMEM_CACHE_SIZE", limit, TRUE);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    g_ptr_array_add (paths, add_old_file (directory, cases[i].name, cases[i].text));

  assert_built (fixture, "-DVALUE=101", GPU_PROGRAM_FLAGS_NONE, FALSE, 101);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *text = NULL;

      g_test_message ("%s", cases[i].name);
      g_assert_cmpint (g_file_get_contents (paths->pdata[i], &text, NULL, NULL), ==,
                       cases[i].stays);
      if (cases[i].stays)
        g_assert_cmpstr (text, ==, cases[i].text);
    }
  files = cache_files (directory);
  g_assert_cmpuint (files->len, ==, G_N_ELEMENTS (cases) - 2 + 1);
  cache_end (directory);
}

/* A program from the cache has the log of its build. */
static void
program_cache_log (TestFixture *fixture)
{
  static const char source[] =
    "#warning shaved yak\n"
    "__kernel void set (__global uint *x) { x[get_global_id (0)] = 1; }\n";
  char *directory = cache_begin (fixture);
  g_autofree char *first = NULL;

  if (directory == NULL)
    return;
  for (guint i = 0; i < 3; i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GpuProgram) program = gpu_program_new_from_source (fixture->context, source, NULL,
                                                                    &error);

      g_assert_no_error (error);
      g_assert_cmpint (gpu_program_is_from_cache (program), ==, i > 0);
      if (i == 0)
        first = g_strdup (gpu_program_get_build_log (program));
      g_assert_cmpstr (gpu_program_get_build_log (program), ==, first);
    }
  if (g_str_equal (gpu_device_get_backend (fixture->device), "host"))
    g_assert_nonnull (strstr (first, "shaved yak"));
  cache_end (directory);
}

/* Builds a kernel "set" whose source begins with @start. */
static void
assert_uncached (TestFixture *fixture, const char *start, guint32 value)
{
  g_autofree char *source = g_strconcat (start, "\n", set_source, NULL);
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuProgram) program = gpu_program_new_from_source (fixture->context, source, NULL,
                                                                &error);

  g_test_message ("%s", start);
  g_assert_no_error (error);
  g_assert_false (gpu_program_is_from_cache (program));
  g_assert_cmpuint (run_program (fixture, program), ==, value);
}

/* Tests every form of the #include directive that names a file. Programs with such a directive are
 * not cached, because the file may change between two builds. */
static void
program_cache_includes (TestFixture *fixture)
{
  static const char *const starts[] = {
    "#include \"%s\"", "#/**/include \"%s\"", "#/*\n*/include \"%s\"",
    "/* a */ # /*\n*/ /* */ include \"%s\"", "#inc\\\nlude \"%s\"",
    "#inc\\  \nlude \"%s\"", "#inc\\\r\nlude \"%s\"", "#\\\ninclude \"%s\"",
    "#define FILE \"%s\"\n#include FILE", "%:include \"%s\"", "%: /*\n*/ include \"%s\"",
    "char open[] = \"/*\";\n#include \"%s\"\n"
  };
  char *directory = cache_begin (fixture);
  g_autofree char *path = NULL;
  g_autoptr (GPtrArray) files = NULL;

  if (directory == NULL)
    return;
  path = g_strconcat (directory, ".h", NULL);
  for (guint i = 0; i < G_N_ELEMENTS (starts); i++)
    {
      g_autofree char *start = NULL;
      g_auto (GStrv) parts = g_strsplit (starts[i], "%s", 2);

      if (!g_str_equal (gpu_device_get_backend (fixture->device), "host"))
        break;
      start = g_strconcat (parts[0], path, parts[1], NULL);
      for (guint value = 5; value < 7; value++)
        {
          g_autofree char *text = g_strdup_printf ("#define VALUE %u\n", value);

          g_assert_true (g_file_set_contents (path, text, -1, NULL));
          assert_uncached (fixture, start, value);
        }
    }
  files = cache_files (directory);
  g_assert_cmpuint (files->len, ==, 0);
  g_unlink (path);
  cache_end (directory);
}

/* Builds that depend on more than the source text are not cached. Assembler code can read files,
 * and macros can build the names of features such as __TIME__. */
static void
program_cache_volatile (TestFixture *fixture)
{
  static const struct
  {
    const char *start, *options;
    gboolean cached;
  } cases[] = {
    { "__asm__ (\".section .note\\n.incbin \\\"/etc/passwd\\\"\\n.previous\");", NULL, FALSE },
    { "__asm__ (\".section .note\\n.in\" \"cbin \\\"/etc/passwd\\\"\\n.previous\");", NULL, FALSE },
    { "#define word __as##m\nword (\"\");", NULL, FALSE },
    { "#define J(a, b) a##b\nJ (__as, m__) (\"\");", NULL, FALSE },
    { "#define J(a, b) a##b\nstatic const char text[] = J (__TI, ME__);", NULL, FALSE },
    { "static const char text[] = J (__TI, ME__);", "'-DJ(a, b)=a##b'", FALSE },
    { "__attribute__ ((section (\".x\\n.incbin \\\"/etc/passwd\\\"\\n#\"))) int x;", NULL,
      FALSE },
    { "/* __TIME\\\n__ */", NULL, FALSE },
    { "#define time __TI ## ME__\n", NULL, FALSE },
    { "#if __has_include (\"nothing\")\n#endif", NULL, FALSE },
    { "/* \?\?/ */", NULL, FALSE },
    { "", "-I/nowhere", FALSE },
    { "", "\"-I/nowhere\"", FALSE },
    { "", "-DA=1 -I /nowhere", FALSE },
    { "", "-DA=__DATE__", FALSE },
    { "/* plasma: includes # of particles, imports % */", NULL, TRUE },
    { "#define half(x) x##2 % 3\n#define file \"include\"", "-DA=1 -w", TRUE },
    { "#define J(a, b) a##b\nstatic const int J (a, b) = 1, s = 2;", "-D'A(a, b)=a##b' -Werror",
      TRUE },
  };
  char *directory = cache_begin (fixture);

  if (directory == NULL)
    return;
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *source = g_strconcat (cases[i].start, "\n", set_source, NULL);

      if (!g_str_equal (gpu_device_get_backend (fixture->device), "host"))
        break;
      for (guint round = 0; round < 2; round++)
        {
          g_autoptr (GError) error = NULL;
          g_autoptr (GpuProgram) program =
            gpu_program_new_from_source (fixture->context, source, cases[i].options, &error);

          g_test_message ("%s %s", cases[i].start, cases[i].options);
          g_assert_no_error (error);
          g_assert_cmpint (gpu_program_is_from_cache (program), ==,
                           cases[i].cached && round == 1);
          g_assert_cmpuint (run_program (fixture, program), ==, 1);
        }
    }
  cache_end (directory);
}

/* A process may inherit an ignored SIGCHLD from its parent. In such a process the exit status of
 * the compiler is lost. If the compiler also inherits the setting, the exit statuses of its own
 * subprocesses are lost too. */
static void
program_sigchld_ignored (TestFixture *fixture)
{
  void (*before) (int);

  if (!g_str_equal (gpu_device_get_backend (fixture->device), "host") ||
      !test_has (fixture, GPU_CAPABILITIES_SOURCE))
    return;
  before = signal (SIGCHLD, SIG_IGN);
  for (guint i = 1; i < 4; i++)
    {
      g_autofree char *options = g_strdup_printf ("-DVALUE=%u", i);
      g_autoptr (GpuProgram) program = NULL;
      g_autoptr (GError) error = NULL;

      assert_built (fixture, options, GPU_PROGRAM_FLAGS_NO_CACHE, FALSE, i);
      program = gpu_program_new_from_source (fixture->context, "#error shaved yak", NULL, &error);
      g_assert_null (program);
      test_assert_gpu_error (error, GPU_ERROR_BUILD_FAILED, "shaved yak");
      program = gpu_program_new_from_source (fixture->context,
                                             "__kernel void k (__global int *x) { x[0] = yak; }",
                                             NULL, &error);
      g_assert_null (program);
      test_assert_gpu_error (error, GPU_ERROR_BUILD_FAILED, "yak");
    }
  signal (SIGCHLD, before);
}

/* An entry that cannot be loaded is not removed, because the failure may be temporary. */
static void
program_cache_temporary_failure (TestFixture *fixture)
{
  const struct rlimit nothing = { 0, RLIM_INFINITY };
  char *directory = cache_begin (fixture);
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuProgram) program = NULL;
  struct rlimit before;

  if (directory == NULL)
    return;
  assert_built (fixture, NULL, GPU_PROGRAM_FLAGS_NONE, FALSE, 1);
  if (g_str_equal (gpu_device_get_backend (fixture->device), "host"))
    {
      signal (SIGXFSZ, SIG_IGN);
      g_assert_cmpint (getrlimit (RLIMIT_FSIZE, &before), ==, 0);
      g_assert_cmpint (setrlimit (RLIMIT_FSIZE, &nothing), ==, 0);
      program = gpu_program_new_from_source (fixture->context, set_source, NULL, &error);
      g_assert_cmpint (setrlimit (RLIMIT_FSIZE, &before), ==, 0);
      test_assert_gpu_error (error, GPU_ERROR_FAILED, "host: ");
      g_assert_null (program);
    }
  assert_built (fixture, NULL, GPU_PROGRAM_FLAGS_NONE, TRUE, 1);
  cache_end (directory);
}

static void
program_cache_limit (TestFixture *fixture)
{
  char *directory = cache_begin (fixture);
  g_autofree char *limit = NULL;
  guint64 one;

  if (directory == NULL)
    return;
  assert_built (fixture, "-DVALUE=100", GPU_PROGRAM_FLAGS_NONE, FALSE, 100);
  one = cache_size (directory);
  g_assert_cmpuint (one, >, 0);
  limit = g_strdup_printf ("%" G_GUINT64_FORMAT, one * 5 / 2);
  g_setenv ("GPUMEM_CACHE_SIZE", limit, TRUE);
  for (guint i = 101; i < 105; i++)
    {
      g_autofree char *options = g_strdup_printf ("-DVALUE=%u", i);

      assert_built (fixture, options, GPU_PROGRAM_FLAGS_NONE, FALSE, i);
      g_assert_cmpuint (cache_size (directory), <=, one * 5 / 2);
    }
  assert_built (fixture, "-DVALUE=104", GPU_PROGRAM_FLAGS_NONE, TRUE, 104);
  assert_built (fixture, "-DVALUE=100", GPU_PROGRAM_FLAGS_NONE, FALSE, 100);
  cache_end (directory);
}

/* Storing an entry must not open the other entries: the cache may contain thousands. */
static void
program_cache_store_opens_one (TestFixture *fixture)
{
  char *directory = cache_begin (fixture);
  g_autoptr (GPtrArray) files = NULL;
  gssize at = 0, n;
  int fd;
  char events[16384] __attribute__ ((aligned (__alignof__ (struct inotify_event))));

  if (directory == NULL)
    return;
  for (guint i = 100; i < 103; i++)
    {
      g_autofree char *options = g_strdup_printf ("-DVALUE=%u", i);

      assert_built (fixture, options, GPU_PROGRAM_FLAGS_NONE, FALSE, i);
    }
  files = cache_files (directory);
  g_assert_cmpuint (files->len, ==, 3);
  fd = inotify_init1 (IN_NONBLOCK | IN_CLOEXEC);
  g_assert_cmpint (fd, >=, 0);
  g_assert_cmpint (inotify_add_watch (fd, directory, IN_OPEN | IN_CREATE), >=, 0);
  assert_built (fixture, "-DVALUE=103", GPU_PROGRAM_FLAGS_NONE, FALSE, 103);
  n = read (fd, events, sizeof events);
  g_assert_cmpint (n, >, 0);
  while (at < n)
    {
      const struct inotify_event *event = (const struct inotify_event *) (events + at);

      for (guint i = 0; i < files->len; i++)
        g_assert_false (event->len > 0 && g_str_has_suffix (files->pdata[i], event->name));
      at += (gssize) (sizeof *event + event->len);
    }
  g_close (fd, NULL);
  cache_end (directory);
}

/* The least recently used entry is removed first. */
static void
program_cache_least_recently_used (TestFixture *fixture)
{
  const struct utimbuf past = { 1000000000, 1000000000 };
  char *directory = cache_begin (fixture);
  g_autoptr (GPtrArray) files = NULL;
  g_autofree char *limit = NULL;

  if (directory == NULL)
    return;
  assert_built (fixture, "-DVALUE=100", GPU_PROGRAM_FLAGS_NONE, FALSE, 100);
  assert_built (fixture, "-DVALUE=101", GPU_PROGRAM_FLAGS_NONE, FALSE, 101);
  limit = g_strdup_printf ("%" G_GUINT64_FORMAT, cache_size (directory) * 5 / 4);
  g_setenv ("GPUMEM_CACHE_SIZE", limit, TRUE);
  files = cache_files (directory);
  for (guint i = 0; i < files->len; i++)
    g_assert_cmpint (utime (files->pdata[i], &past), ==, 0);
  assert_built (fixture, "-DVALUE=100", GPU_PROGRAM_FLAGS_NONE, TRUE, 100);
  assert_built (fixture, "-DVALUE=102", GPU_PROGRAM_FLAGS_NONE, FALSE, 102);
  assert_built (fixture, "-DVALUE=100", GPU_PROGRAM_FLAGS_NONE, TRUE, 100);
  assert_built (fixture, "-DVALUE=101", GPU_PROGRAM_FLAGS_NONE, FALSE, 101);
  cache_end (directory);
}

/* An entry under the file name of another program is rejected. */
static void
program_cache_swapped_entries (TestFixture *fixture)
{
  char *directory = cache_begin (fixture);
  g_autoptr (GPtrArray) files = NULL;
  g_autofree char *aside = NULL;

  if (directory == NULL)
    return;
  assert_built (fixture, "-DVALUE=1", GPU_PROGRAM_FLAGS_NONE, FALSE, 1);
  assert_built (fixture, "-DVALUE=2", GPU_PROGRAM_FLAGS_NONE, FALSE, 2);
  files = cache_files (directory);
  g_assert_cmpuint (files->len, ==, 2);
  aside = g_strconcat (files->pdata[0], ".aside", NULL);
  g_assert_cmpint (g_rename (files->pdata[0], aside), ==, 0);
  g_assert_cmpint (g_rename (files->pdata[1], files->pdata[0]), ==, 0);
  g_assert_cmpint (g_rename (aside, files->pdata[1]), ==, 0);
  assert_built (fixture, "-DVALUE=1", GPU_PROGRAM_FLAGS_NONE, FALSE, 1);
  assert_built (fixture, "-DVALUE=2", GPU_PROGRAM_FLAGS_NONE, FALSE, 2);
  cache_end (directory);
}

/* If the cache directory cannot be created, programs are still built, without an error. */
static void
program_cache_unwritable (TestFixture *fixture)
{
  if (!test_has (fixture, GPU_CAPABILITIES_SOURCE | GPU_CAPABILITIES_BINARY))
    return;
  g_setenv ("GPUMEM_CACHE_DIR", "/dev/null/nowhere", TRUE);
  assert_built (fixture, NULL, GPU_PROGRAM_FLAGS_NONE, FALSE, 1);
  assert_built (fixture, NULL, GPU_PROGRAM_FLAGS_NONE, FALSE, 1);
  g_setenv ("GPUMEM_CACHE_DIR", "", TRUE);
}

/* Runs in several processes at once, which all build and cache the same programs. */
static void
program_shared_child (TestFixture *fixture)
{
  const char *directory = g_getenv ("TEST_SHARED_CACHE");

  if (directory == NULL)
    {
      g_test_skip ("runs as a part of cache-processes");
      return;
    }
  g_setenv ("GPUMEM_CACHE_DIR", directory, TRUE);
  for (guint i = 0; i < N_SHARED * 3; i++)
    {
      g_autofree char *options = g_strdup_printf ("-DVALUE=%u", 200 + i % N_SHARED);
      g_autoptr (GpuProgram) program = build (fixture, options, GPU_PROGRAM_FLAGS_NONE);

      g_assert_cmpuint (run_program (fixture, program), ==, 200 + i % N_SHARED);
      if (i >= N_SHARED)
        g_assert_true (gpu_program_is_from_cache (program));
    }
}

/* Starts a child process with the original environment, because Khronos' OpenCL loader truncates
 * OCL_ICD_FILENAMES in the environment of this process after the name of the first driver. */
static GSubprocess *
start_sharer (const char *path, const char *directory)
{
  g_autoptr (GSubprocessLauncher) launcher =
    g_subprocess_launcher_new (G_SUBPROCESS_FLAGS_STDOUT_SILENCE);
  g_autoptr (GError) error = NULL;
  GSubprocess *child;

  g_subprocess_launcher_set_environ (launcher, environment);
  g_subprocess_launcher_setenv (launcher, "TEST_SHARED_CACHE", directory, TRUE);
  child = g_subprocess_launcher_spawn (launcher, &error, self, "-q", "--GTestSubprocess", "-p",
                                       path, NULL);
  g_assert_no_error (error);
  return child;
}

static void
program_cache_processes (TestFixture *fixture)
{
  char *directory = cache_begin (fixture);
  g_autofree char *path = NULL;
  g_autoptr (GPtrArray) files = NULL;
  GSubprocess *children[N_PROCESSES];

  if (directory == NULL)
    return;

  /* Fill PoCL's own cache: processes that store one program in this cache at the same time can fail
   * an assertion of PoCL. */
  g_setenv ("GPUMEM_CACHE_DIR", "", TRUE);
  for (guint i = 0; i < N_SHARED; i++)
    {
      g_autofree char *options = g_strdup_printf ("-DVALUE=%u", 200 + i);

      g_object_unref (build (fixture, options, GPU_PROGRAM_FLAGS_NONE));
    }
  g_setenv ("GPUMEM_CACHE_DIR", directory, TRUE);

  path = g_strdup_printf ("/program/%s/subprocess/shared", gpu_device_get_id (fixture->device));
  for (guint i = 0; i < N_PROCESSES; i++)
    children[i] = start_sharer (path, directory);
  for (guint i = 0; i < N_PROCESSES; i++)
    {
      g_autoptr (GError) error = NULL;

      test_assert_ok (g_subprocess_wait_check (children[i], NULL, &error), error);
      g_object_unref (children[i]);
    }
  files = cache_files (directory);
  g_assert_cmpuint (files->len, ==, N_SHARED);
  assert_built (fixture, "-DVALUE=200", GPU_PROGRAM_FLAGS_NONE, TRUE, 200);
  cache_end (directory);
}

/* test-opencl-wrapped.c and test-cuda-wrapped.c test programs of the driver. */
static void
program_wrapped (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuProgram) program = NULL;
  g_autoptr (GpuProgram) wrapped = NULL;

  if (g_str_equal (gpu_device_get_backend (fixture->device), "host"))
    {
      g_assert_null (gpu_program_new_wrapped (fixture->context, 1, GPU_WRAP_MODE_BORROW, &error));
      test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_program_new_wrapped", "host");
      return;
    }

  g_assert_null (gpu_program_new_wrapped (fixture->context, 0, GPU_WRAP_MODE_BORROW, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_program_new_wrapped", "0");
  if (!test_has (fixture, GPU_CAPABILITIES_SOURCE))
    return;

  program = test_program (fixture, set_source);
  wrapped = gpu_program_new_wrapped (fixture->context, test_get_number (program, "native-handle"),
                                     GPU_WRAP_MODE_BORROW, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (run_program (fixture, wrapped), ==, 1);
  g_assert_null (test_get_string (wrapped, "source"));
  g_assert_false (gpu_program_is_from_cache (wrapped));
}

int
main (int argc, char **argv)
{
  int status;

  self = argv[0];
  environment = g_get_environ ();
  test_init (&argc, &argv);
  g_setenv ("GPUMEM_CACHE_DIR", "", TRUE);
  test_add ("build", program_build);
  test_add ("options", program_options);
  test_add ("unknown-options", program_unknown_options);
  test_add ("incomplete-options", program_incomplete_options);
  test_add ("quoted-options", program_quoted_options);
  test_add ("log", program_log);
  test_add ("binary", program_binary);
  test_add ("il", program_il);
  test_add ("il-runs", program_il_runs);
  test_add ("file", program_file);
  test_add ("async", program_async);
  test_add ("cache", program_cache);
  test_add ("cache-external-inputs", program_cache_external_inputs);
  test_add ("cache-least-recently-used", program_cache_least_recently_used);
  test_add ("cache-store-opens-one", program_cache_store_opens_one);
  test_add ("cache-swapped-entries", program_cache_swapped_entries);
  test_add ("cache-arguments", program_cache_arguments);
  test_add ("cache-damaged-entry", program_cache_damaged_entry);
  test_add ("cache-digest", program_cache_digest);
  test_add ("cache-owner", program_cache_owner);
  test_add ("cache-foreign", program_cache_foreign);
  test_add ("cache-log", program_cache_log);
  test_add ("cache-includes", program_cache_includes);
  test_add ("cache-volatile", program_cache_volatile);
  test_add ("cache-temporary-failure", program_cache_temporary_failure);
  test_add ("cache-limit", program_cache_limit);
  test_add ("sigchld-ignored", program_sigchld_ignored);
  test_add ("cache-unwritable", program_cache_unwritable);
  test_add ("cache-processes", program_cache_processes);
  test_add ("wrapped", program_wrapped);
  test_add ("subprocess/shared", program_shared_child);
  status = test_run ();
  g_strfreev (environment);
  return status;
}
