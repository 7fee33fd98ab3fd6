/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The CUDA back end without a device: compiling sources and parsing binaries. Only needs NVRTC or
 * its stand-in. */
#include "config.h"

#include <elf.h>

#include "gpumem/cuda/compiler/gpu-cuda-compiler.h"
#include "gpumem/cuda/compiler/gpu-cuda-nvrtc.h"
#include "test-util.h"

#define CUDA_MACHINE 190
#define MACHINE_OFFSET 18

static const char ptx[] =
  "//\n"
  "// Some compiler\n"
  "//\n"
  "\n"
  ".version 8.0\n"
  ".target sm_80\n"
  ".address_size 64\n"
  ".visible .entry _Z5scaleIfEvPT_(\n"
  "  .param .u64 _Z5scaleIfEvPT__param_0,\n"
  "  .param .u64 .ptr .global .align 4 p1,\n"
  "  .param .align 4 .b8 p2[12],\n"
  "  .param .f32 p3,\n"
  "  .param .u8 p4\n"
  ")\n"
  "{\n"
  "  ret;\n"
  "}\n"
  ".visible .entry nothing()\n"
  ".maxntid 64, 1, 1\n"
  "{\n"
  "  ret;\n"
  "}\n";

static GBytes *
bytes_of (const char *text)
{
  return g_bytes_new_static (text, strlen (text));
}

/* --- languages ------------------------------------------------------------------------------- */

static void
source_languages (void)
{
  static const char *const portable[] = {
    "__kernel void f (__global int *x) { }", "kernel void f (global int *x) { }",
    "float twice (float x) { return 2 * x; }", "#define K __kernel\nK void f (void) { }",
    "/* __global__ */ // __global__\n__kernel void f (void) { }",
    "__kernel void f (void) { printf (\"__global__\"); }", ""
  };
  static const char *const cpp[] = {
    "__global__ void f (int *x) { }", "__device__ int f () { return 1; }",
    "__global__ void kernel (int *x) { }", "template <class T> T twice (T x) { return 2 * x; }",
    "// __kernel\nextern \"C\" __global__ void f (int *x) { }"
  };

  for (guint i = 0; i < G_N_ELEMENTS (portable); i++)
    g_assert_cmpint (_gpu_cuda_source_identify (portable[i], NULL), ==, GPU_CUDA_LANGUAGE_PORTABLE);
  for (guint i = 0; i < G_N_ELEMENTS (cpp); i++)
    g_assert_cmpint (_gpu_cuda_source_identify (cpp[i], NULL), ==, GPU_CUDA_LANGUAGE_CPP);
}

/* Returns the rewritten program without the prelude. */
static char *
prepare (const char *source, GpuCudaLanguage language)
{
  g_autoptr (GPtrArray) options = g_ptr_array_new ();
  g_autofree char *text = _gpu_cuda_source_prepare (source, language, options, NULL);
  const char *start = strstr (text, "#line 1 \"program.");

  g_assert_nonnull (start);
  return g_strdup (strchr (start, '\n') + 1);
}

static void
source_rewrites (void)
{
  static const struct { const char *from; const char *to; } cases[] = {
    { "__kernel void f (__local int *a, int b) { a[0] = b; }",
      "__kernel void f (gpu_local<int *> gpu_local_a, int b)"
      " { int * a = gpu_local_a.get (); a[0] = b; }"
      " GPU_DESCRIBE (f, 1, gpu_block (0, 0, 0), \"a\\0int*\\0b\\0int\\0\")\n" },
    { "void g (__local int *a, local int *b) { }", "void g ( int *a,  int *b) { }\n" },
    { "void g (void) { __local int a[4], b; __local int *p = a; x ((__local int *) p); }",
      "void g (void) { __shared__ int a[4], b;  int *p = a; x (( int *) p); }\n" },
    { "constant int a[2] = { 1, 2 }; int f (__constant int *p) { return p[0]; }",
      "__constant__ int a[2] = { 1, 2 }; int f (__constant int *p) { return p[0]; }\n" },
    { "__kernel __attribute__ ((reqd_work_group_size (8, N, 1))) void f (void) { }",
      "__kernel __launch_bounds__ (gpu_product (8, N, 1))        void f (void) { }"
      " GPU_DESCRIBE (f, 1, gpu_block (8, N, 1), \"\")\n" },
    { "float4 f (float2 a) { return (float4) (a, (float2) (1)); }",
      "float4 f (float2 a) { return gpu_make<float4> (a, gpu_make<float2> (1)); }\n" },
    { "__kernel void NAME (f, 2) (__local int *a) { a[0] = 1; }",
      "__kernel void NAME (f, 2) (gpu_local<int *> gpu_local_a)"
      " { int * a = gpu_local_a.get (); a[0] = 1; }"
      " GPU_DESCRIBE (NAME(f,2), 1, gpu_block (0, 0, 0), \"a\\0int*\\0\")\n" },
    { "#define ZERO (int2) (0, 0)\n#include <local/global.h>\n// local (int2) (1)\nint local_x;",
      "#define ZERO gpu_make<int2> (0, 0)\n#include <local/global.h>\n// local (int2) (1)\n"
      "int local_x;\n" },
    { "int a = (int) (1);\nchar *b = \"local (int2) (1)\";",
      "int a = (int) (1);\nchar *b = \"local (int2) (1)\";\n" }
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *got = prepare (cases[i].from, GPU_CUDA_LANGUAGE_PORTABLE);

      /* Whitespace does not matter. */
      g_auto (GStrv) left = g_strsplit_set (got, " ", -1);
      g_auto (GStrv) right = g_strsplit_set (cases[i].to, " ", -1);
      g_autofree char *squeezed = g_strjoinv ("", left);
      g_autofree char *expected = g_strjoinv ("", right);

      g_assert_cmpstr (squeezed, ==, expected);
    }
}

/* Truncated sources are passed on to the compiler, which reports the error. */
static void
source_truncated (void)
{
  static const char *const broken[] = {
    "__kernel", "__kernel void f (", "__kernel void f (__local", "__kernel void f () {", "{{{{",
    "}}}}", "(((", "\"", "'", "/*", "//", "#", "#define", "__local", "(float4)", "(float4) (",
    "__attribute__", "__attribute__ ((reqd_work_group_size", "__kernel void f (,,,) {}",
    "__kernel void f (__local *) {}", "extern \"C\" {", "\\", "\\\n", "#if\\\n"
  };

  for (guint i = 0; i < G_N_ELEMENTS (broken); i++)
    {
      g_free (prepare (broken[i], GPU_CUDA_LANGUAGE_PORTABLE));
      g_free (prepare (broken[i], GPU_CUDA_LANGUAGE_CPP));
    }
}

/* The end of a directive is found despite strings, numbers and backslashes, so the kernel after it
 * is translated and described. */
static void
source_directives (void)
{
  static const char *const directives[] = {
    "#define P \"/*\"\n", "#define P \"//\" \\\n  (\n", "#define P '\"' /*\n(*/\n",
    "#define P 1 \\\r\n  (\r\n", "#define P \"a\\\r\n\\\"(\"\n", "#define N 1'000 /*\n(*/\n",
    "#error don't\n", "#define P a /* \"\n\" ( */ \"/*\"\n",
    "const char *p = \"a\\\r\n\\\";(\";\n"
  };

  for (guint i = 0; i < G_N_ELEMENTS (directives); i++)
    {
      g_autofree char *source = g_strconcat (directives[i],
                                             "__kernel void f (__local int *a) { a[0] = 1; }\n",
                                             NULL);
      g_autofree char *text = prepare (source, GPU_CUDA_LANGUAGE_PORTABLE);

      g_test_message ("%s", text);
      g_assert_nonnull (strstr (text, "gpu_local<int *> gpu_local_a"));
      g_assert_nonnull (strstr (text, "GPU_DESCRIBE (f, 1,"));
    }
}

/* The library reads the argument types of a kernel from the source only if the declaration is
 * unambiguous. */
static void
source_described (void)
{
  static const char source[] =
    "template <class T> __global__ void many (T *x) { }\n"
    "extern \"C\" { __global__ void __launch_bounds__ (64) one (const float *x, double) { } }\n"
    "__global__ void two (struct S s) { }\n"
    "__global__ void over (int *x) { }\n"
    "__global__ void over (float *x) { }\n"
    "namespace n { __global__ void inner (int *x) { } }\n"
    "__global__ void NAME (made) (int *x) { }\n"
    "#define  renamed other \n"
    "__global__ void renamed (int *x) { }\n"
    "__global__ void BOUNDS (256) bounded (int *x) { }\n"
    "#define ANY \\\n  template <class T>\n"
    "ANY __global__ void any (T *x) { }\n"
    "SOME (T) __global__ void some (T *x) { }\n"
    "#define EXPORT extern \"C\"\n"
    "EXPORT __global__ void exported (int *x) { }\n"
    "__global__ void deduced (auto *x) { }\n";
  g_autofree char *text = prepare (source, GPU_CUDA_LANGUAGE_CPP);

  g_assert_nonnull (strstr (text,
                            "(one, 0, gpu_block (0, 0, 0), \"x\\0float*\\0\\0double\\0\")"));
  g_assert_nonnull (strstr (text, "GPU_DESCRIBE (two, 0,"));
  g_assert_null (strstr (text, "GPU_DESCRIBE (many"));
  g_assert_null (strstr (text, "GPU_DESCRIBE (over"));
  g_assert_null (strstr (text, "GPU_DESCRIBE (inner"));
  g_assert_nonnull (strstr (text, "(bounded, 0, gpu_block (0, 0, 0), \"x\\0int*\\0\")"));
  g_assert_nonnull (strstr (text, "GPU_DESCRIBE (exported, 0,"));
  g_assert_null (strstr (text, "GPU_DESCRIBE (NAME"));
  g_assert_null (strstr (text, "GPU_DESCRIBE (renamed"));
  g_assert_null (strstr (text, "GPU_DESCRIBE (any"));
  g_assert_null (strstr (text, "GPU_DESCRIBE (some"));
  g_assert_null (strstr (text, "GPU_DESCRIBE (deduced"));
}

/* Macros in the options become lines of the program, in order; other options are unchanged. */
static void
source_macros (void)
{
  static const struct { const char *options; const char *lines; const char *left; } cases[] = {
    { "-DA", "#undef A\n#define A 1\n", "" },
    { "-D A -DB= -DC=a=b", "#undef A\n#define A 1\n#undef B\n#define B \n"
                           "#undef C\n#define C a=b\n", "" },
    { "-DN=1 -w -UN -DN=2", "#undef N\n#define N 1\n#undef N\n#undef N\n#define N 2\n", "-w" },
    { "--define-macro=A=x --define-macro B --undefine-macro=A -D=C=3",
      "#undef A\n#define A x\n#undef B\n#define B 1\n#undef A\n#undef C\n#define C 3\n", "" },
    { "'-DF(x, y)=x + y' '-DT=unsigned int'",
      "#undef F\n#define F(x, y) x + y\n#undef T\n#define T unsigned int\n", "" },
    { "-D -DA-B -D1 -UA=1 -D'A=\\' -D", "", "-D-DA-B -D1 -UA=1 -DA=\\ -D" },
    { "-DA --pre-include=x.h -UA", "", "-DA --pre-include=x.h -UA" },
    { "-DA -include x.h", "", "-DA -include x.h" }
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GPtrArray) options = _gpu_cuda_options_new (80, GPU_CUDA_LANGUAGE_CPP,
                                                             cases[i].options, &error);
      g_autofree char *lines = NULL;
      g_autofree char *left = NULL;

      g_assert_no_error (error);
      lines = _gpu_cuda_options_take_macros (options);
      g_assert_cmpstr (lines, ==, cases[i].lines);
      g_assert_true (g_str_has_prefix (options->pdata[options->len - 1], "--gpu-architecture"));
      g_ptr_array_set_size (options, options->len - 1);
      g_ptr_array_add (options, NULL);
      left = g_strjoinv (" ", (char **) options->pdata);
      g_assert_cmpstr (left, ==, cases[i].left);
    }
}

/* --- names ----------------------------------------------------------------------------------- */

static void
source_names (void)
{
  static const char *const names[] = {
    "plain", "_Z1fPf", "_ZL6hiddeni", "_ZN2ns5innerEPi", "_Z4overPi", "_Z4overPf",
    "_Z5scaleIfEvPT_", "_Z5scaleIiEvPT_", "_Z7scaledfi", NULL
  };

  g_assert_cmpstr (_gpu_cuda_name_find (names, "plain"), ==, "plain");
  g_assert_cmpstr (_gpu_cuda_name_find (names, "f"), ==, "_Z1fPf");
  g_assert_cmpstr (_gpu_cuda_name_find (names, "hidden"), ==, "_ZL6hiddeni");
  g_assert_cmpstr (_gpu_cuda_name_find (names, "ns::inner"), ==, "_ZN2ns5innerEPi");
  g_assert_cmpstr (_gpu_cuda_name_find (names, "_Z4overPf"), ==, "_Z4overPf");
  g_assert_null (_gpu_cuda_name_find (names, "over"));
  g_assert_null (_gpu_cuda_name_find (names, "scale"));
  g_assert_null (_gpu_cuda_name_find (names, "inner"));
  g_assert_null (_gpu_cuda_name_find (names, ""));
  g_assert_null (_gpu_cuda_name_find (names, "::"));

  for (guint i = 0; names[i] != NULL; i++)
    {
      static const char *const simple[] = {
        "plain", "f", "hidden", "ns::inner", "over", "over", "_Z5scaleIfEvPT_",
        "_Z5scaleIiEvPT_", "scaledf"
      };
      g_autofree char *name = _gpu_cuda_name_simplify (names[i]);

      g_assert_cmpstr (name, ==, simple[i]);
    }
}

static void
source_bad_names (void)
{
  static const char *const bad[] = { "_Z", "_ZN", "_Z999f", "_Z0", "_ZN1", "_ZN1aE1", "_ZL", "" };

  for (guint i = 0; i < G_N_ELEMENTS (bad); i++)
    g_free (_gpu_cuda_name_simplify (bad[i]));
}

/* --- options of binaries --------------------------------------------------------------------- */

static gpointer
option_value (GpuCudaJit *jit, CUjit_option option)
{
  for (guint i = 0; i < jit->n; i++)
    if (jit->options[i] == option)
      return jit->values[i];
  return GUINT_TO_POINTER (G_MAXUINT);
}

static void
assert_option (const char *options, CUjit_option option, guint value)
{
  g_autoptr (GError) error = NULL;
  GpuCudaJit jit;

  test_assert_ok (_gpu_cuda_jit_init (&jit, options, &error), error);
  g_assert_cmpuint (GPOINTER_TO_UINT (option_value (&jit, option)), ==, value);
  g_assert_true (option_value (&jit, CU_JIT_ERROR_LOG_BUFFER) == jit.error_log);
  _gpu_cuda_jit_clear (&jit);
}

static void
source_jit_options (void)
{
  static const char *const bad[] = {
    "max-registers", "max-registers=", "max-registers=x", "max-registers=-1", "line-info=1",
    "fallback=some", "target=sm_x", "unknown", "-unknown=3", "'", "-O", "-Ox",
    "max-registers=99999999999"
  };

  assert_option (NULL, CU_JIT_MAX_REGISTERS, G_MAXUINT);
  assert_option ("max-registers=32", CU_JIT_MAX_REGISTERS, 32);
  assert_option ("-maxrregcount=40 -O2", CU_JIT_MAX_REGISTERS, 40);
  assert_option ("--maxrregcount 41", CU_JIT_MAX_REGISTERS, 41);
  assert_option ("max-registers=1 max-registers=2", CU_JIT_MAX_REGISTERS, 2);
  assert_option ("-lineinfo -O3", CU_JIT_OPTIMIZATION_LEVEL, 3);
  assert_option ("optimization-level=1", CU_JIT_OPTIMIZATION_LEVEL, 1);
  assert_option ("-lineinfo", CU_JIT_GENERATE_LINE_INFO, 1);
  assert_option ("-fallback=binary", CU_JIT_FALLBACK_STRATEGY, 1);
  assert_option ("cache=ca", CU_JIT_CACHE_MODE, 2);
  assert_option ("target=90", CU_JIT_TARGET, 90);
  assert_option ("-arch=sm_80", CU_JIT_TARGET, 80);
  assert_option ("-DX=1 -I /tmp -cl-mad-enable verbose", CU_JIT_LOG_VERBOSE, 1);

  for (guint i = 0; i < G_N_ELEMENTS (bad); i++)
    {
      g_autoptr (GError) error = NULL;
      GpuCudaJit jit;

      g_assert_false (_gpu_cuda_jit_init (&jit, bad[i], &error));
      test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT);
    }
}

/* --- binaries -------------------------------------------------------------------------------- */

static void
assert_sizes (GBytes *image, const char *kernel, const gsize *sizes, guint n_sizes)
{
  g_autoptr (GArray) got = _gpu_cuda_binary_get_sizes (image, kernel);

  g_assert_nonnull (got);
  g_assert_cmpuint (got->len, ==, n_sizes);
  for (guint i = 0; i < n_sizes; i++)
    g_assert_cmpuint (g_array_index (got, gsize, i), ==, sizes[i]);
}

/* Adds an entry in the format of nvcc: a header of 64 bytes with the compressed size in its fifth
 * word, and the data. */
static void
add_to_fatbin (GByteArray *fatbin, guint16 kind, guint32 compressed_size, GBytes *part)
{
  gsize size;
  gconstpointer data = g_bytes_get_data (part, &size);
  guint32 words[16] = { 1 << 24 | 1 << 16 | kind, 64, size, 0, compressed_size };

  g_byte_array_append (fatbin, (guint8 *) words, sizeof words);
  g_byte_array_append (fatbin, data, size);
  *(guint64 *) (fatbin->data + 8) = fatbin->len - 16;
}

#define FATBIN_HEADER_SIZE 16

static void
start_fatbin (GByteArray *fatbin)
{
  static const guint8 header[FATBIN_HEADER_SIZE] = { 0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0 };

  g_byte_array_append (fatbin, header, sizeof header);
}

/* An unreadable entry of a fatbin does not prevent the use of a readable entry behind it. */
static void
assert_in_fatbin (GBytes *image)
{
  g_autoptr (GByteArray) array = g_byte_array_new ();
  g_autoptr (GBytes) noise = test_random_bytes (40);
  g_autoptr (GBytes) fatbin = NULL;
  g_auto (GStrv) expected = _gpu_cuda_binary_list_kernels (image);
  g_auto (GStrv) names = NULL;

  start_fatbin (array);
  add_to_fatbin (array, 1, 37, noise);
  names = _gpu_cuda_binary_list_kernels ((fatbin = g_bytes_new (array->data, array->len)));
  g_assert_null (names);
  g_bytes_unref (fatbin);

  add_to_fatbin (array, 2, 0, image);
  fatbin = g_bytes_new (array->data, array->len);
  names = _gpu_cuda_binary_list_kernels (fatbin);
  g_assert_true (g_strv_equal ((const char *const *) names, (const char *const *) expected));
  for (guint i = 0; names[i] != NULL; i++)
    {
      g_autoptr (GArray) sizes = _gpu_cuda_binary_get_sizes (image, names[i]);

      assert_sizes (fatbin, names[i], (const gsize *) (gpointer) sizes->data, sizes->len);
    }
}

static void
source_ptx (void)
{
  static const gsize sizes[] = { 8, 8, 12, 4, 1 };
  g_autoptr (GBytes) image = bytes_of (ptx);
  g_auto (GStrv) names = _gpu_cuda_binary_list_kernels (image);
  g_autoptr (GError) error = NULL;

  g_assert_cmpint (_gpu_cuda_binary_identify (image), ==, GPU_CUDA_BINARY_PTX);
  test_assert_ok (_gpu_cuda_binary_check (image, &error), error);
  g_assert_cmpuint (g_strv_length (names), ==, 2);
  g_assert_cmpstr (names[0], ==, "_Z5scaleIfEvPT_");
  g_assert_cmpstr (names[1], ==, "nothing");
  assert_sizes (image, names[0], sizes, G_N_ELEMENTS (sizes));
  assert_sizes (image, names[1], NULL, 0);
  g_assert_null (_gpu_cuda_binary_get_sizes (image, "missing"));
  assert_in_fatbin (image);
}

/* Program-scope variables are found. Variables of the compiler and of the library, string literals
 * and constants of a function do not count. */
static void
source_ptx_variables (void)
{
#define PTX_START ".version 9.0\n.target sm_90\n"
  static const struct { const char *text; const char *name; } cases[] =
  {
    { PTX_START ".const .align 8 .b8 gpu_global_offset[24];\n"
      ".const .align 4 .b8 gpu_info_k[12] = {1};\n"
      ".const .align 4 .b8 _ZZ1kE2sl[12] = {0, 0, 64};\n"
      ".global .align 1 .b8 $str[6] = {104, 105, 32};\n"
      ".global .align 4 .b8 __cudart_i2opi_f[24] = {65, 144};\n"
      ".visible .entry k(\n)\n{\n  ld.const.u32 %r1, [gpu_global_offset];\n}\n", NULL },
    { PTX_START ".const .align 4 .b8 table[16] = {0, 0};\n", "table" },
    { PTX_START ".visible .global .align 4 .u32 counter;\n", "counter" },
    { PTX_START ".global .align 4 .u32 start = 3;\n", "start" },
    { PTX_START ".global .align 4 .u32 _ZZ1kE7counter;\n", "_ZZ1kE7counter" },
    { PTX_START ".const .align 4 .u32 _ZL5limit = 4;\n", "_ZL5limit" },
    { PTX_START ".const .align 4 .u32 _ZN1n5valueE = 4;\n", "_ZN1n5valueE" }
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (GBytes) image = bytes_of (cases[i].text);
      g_autofree char *name = NULL;

      g_assert_cmpint (_gpu_cuda_binary_find_variable (image, &name), ==, cases[i].name != NULL);
      g_assert_cmpstr (name, ==, cases[i].name);
    }
}

static void
assert_refused (gconstpointer data, gsize size)
{
  g_autoptr (GBytes) image = g_bytes_new_static (data, size);
  g_autoptr (GError) error = NULL;
  g_auto (GStrv) names = NULL;
  g_autoptr (GArray) sizes = NULL;

  g_assert_false (_gpu_cuda_binary_check (image, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT);
  names = _gpu_cuda_binary_list_kernels (image);
  sizes = _gpu_cuda_binary_get_sizes (image, "f");
}

/* Invalid binaries are refused without reads past the end of the data. */
static void
source_junk (void)
{
  static const guint8 fatbin[32] = { 0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0, 16 };
  static const guint8 long_fatbin[32] = { 0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0, 17 };
  static const guint8 elf[64] = { 0x7f, 'E', 'L', 'F', 2, 1, 1, [58] = 64, [60] = 200 };
  g_autoptr (GBytes) nothing = g_bytes_new_static (NULL, 0);
  g_autoptr (GBytes) whole = g_bytes_new_static (fatbin, sizeof fatbin);
  g_autoptr (GBytes) noise = test_random_bytes (1000);
  g_autoptr (GError) error = NULL;

  g_assert_cmpint (_gpu_cuda_binary_identify (whole), ==, GPU_CUDA_BINARY_FATBIN);
  test_assert_ok (_gpu_cuda_binary_check (whole, &error), error);
  g_assert_cmpint (_gpu_cuda_binary_identify (nothing), ==, GPU_CUDA_BINARY_UNKNOWN);
  assert_refused (NULL, 0);
  assert_refused (long_fatbin, sizeof long_fatbin);
  assert_refused (fatbin, 20);
  assert_refused (elf, sizeof elf);
  assert_refused (elf, 10);
  assert_refused (g_bytes_get_data (noise, NULL), 1000);
  assert_refused ("// only a comment", 17);
  assert_refused (".versio", 7);
  assert_refused ("x", 1);
}

/* A section of type NOBITS contains no symbol names, even if its offset points to bytes of the
 * file. */
static void
source_empty_sections (void)
{
  struct
  {
    Elf64_Ehdr header;
    Elf64_Shdr sections[2];
  }
  image =
  {
    .header =
    {
      .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
      .e_type = ET_EXEC, .e_machine = CUDA_MACHINE, .e_shoff = sizeof (Elf64_Ehdr),
      .e_shentsize = sizeof (Elf64_Shdr), .e_shnum = 2, .e_shstrndx = 1
    },
    .sections =
    {
      { .sh_name = 100, .sh_type = SHT_PROGBITS },
      { .sh_type = SHT_NOBITS, .sh_offset = (guint64) 1 << 46, .sh_size = 4096 }
    }
  };
  g_autoptr (GBytes) bytes = g_bytes_new_static (&image, sizeof image);

  g_assert_cmpint (_gpu_cuda_binary_identify (bytes), ==, GPU_CUDA_BINARY_ELF);
  g_assert_null (_gpu_cuda_binary_list_kernels (bytes));
  g_assert_null (_gpu_cuda_binary_get_sizes (bytes, "f"));
}

typedef struct
{
  Elf64_Ehdr header;
  Elf64_Shdr sections[2];
  char       names[24];
}
SmallCubin;

/* A cubin with one kernel, named k. */
static const SmallCubin small_cubin =
{
  .header =
  {
    .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
    .e_type = ET_EXEC, .e_machine = CUDA_MACHINE, .e_shoff = sizeof (Elf64_Ehdr),
    .e_shentsize = sizeof (Elf64_Shdr), .e_shnum = 2, .e_shstrndx = 1
  },
  .sections =
  {
    { .sh_name = 1, .sh_type = SHT_PROGBITS, .sh_offset = sizeof (Elf64_Ehdr), .sh_size = 8 },
    { .sh_type = SHT_STRTAB, .sh_offset = G_STRUCT_OFFSET (SmallCubin, names), .sh_size = 24 }
  },
  .names = "\0.nv.constant0.k"
};

static void
assert_lists_k (GBytes *image)
{
  g_autoptr (GError) error = NULL;
  g_auto (GStrv) names = _gpu_cuda_binary_list_kernels (image);

  test_assert_ok (_gpu_cuda_binary_check (image, &error), error);
  g_assert_cmpuint (g_strv_length (names), ==, 1);
  g_assert_cmpstr (names[0], ==, "k");
}

/* The driver trusts the sizes of the sections in a cubin, so the library checks each size. */
static void
source_sections (void)
{
  const guint64 size = sizeof (SmallCubin);
  const guint64 bad[][2] = {
    { size + 1, 0 }, { 0, size + 1 }, { size, 1 }, { size - 8, 9 }, { G_MAXUINT64, 1 },
    { 8, G_MAXUINT64 - 4 }, { (guint64) 1 << 63, (guint64) 1 << 63 }
  };
  g_autoptr (GBytes) good = g_bytes_new_static (&small_cubin, sizeof small_cubin);

  assert_lists_k (good);
  for (guint i = 0; i < G_N_ELEMENTS (bad); i++)
    for (guint k = 0; k < G_N_ELEMENTS (small_cubin.sections); k++)
      {
        g_autofree SmallCubin *cubin = g_memdup2 (&small_cubin, sizeof small_cubin);

        cubin->sections[k].sh_offset = bad[i][0];
        cubin->sections[k].sh_size = bad[i][1];
        assert_refused (cubin, sizeof *cubin);
      }
}

/* The library also checks the sizes of the entries of a fatbin, and the sizes in a cubin that is an
 * entry. */
static void
source_fatbin_entries (void)
{
  const guint16 cubin_kind = 2;
  SmallCubin cubin = small_cubin;
  g_autoptr (GBytes) image = g_bytes_new_static (&cubin, sizeof cubin);
  g_autoptr (GByteArray) array = g_byte_array_new ();
  g_autoptr (GBytes) good = NULL;
  g_autofree guint8 *copy = NULL;

  start_fatbin (array);
  add_to_fatbin (array, cubin_kind, 0, image);
  add_to_fatbin (array, cubin_kind, 0, image);
  good = g_bytes_new (array->data, array->len);
  assert_lists_k (good);
  copy = g_memdup2 (array->data, array->len);

  /* Each row of `bad` contains an invalid header size of the second entry, or an invalid data size
   * as two 32-bit words */
  {
    guint32 *words = (guint32 *) (copy + FATBIN_HEADER_SIZE + 64 + sizeof cubin);
    const guint32 bad[][3] = { { 23, sizeof cubin, 0 }, { 0, 0, 0 }, { 64, sizeof cubin + 1, 0 },
                               { 72, sizeof cubin, 0 }, { 64, 8, 1 }, { G_MAXUINT32, 0, 0 } };

    for (guint i = 0; i < G_N_ELEMENTS (bad); i++)
      {
        memcpy (words + 1, bad[i], sizeof bad[i]);
        assert_refused (copy, array->len);
      }
  }

  cubin.sections[0].sh_size = sizeof cubin;
  g_byte_array_set_size (array, 0);
  start_fatbin (array);
  add_to_fatbin (array, cubin_kind, 0, image);
  assert_refused (array->data, array->len);
}

/* --- the compiler ---------------------------------------------------------------------------- */

static int capability = 90;

static gboolean
has_compiler (void)
{
  g_autoptr (GError) error = NULL;

  capability = 90;
  if (_gpu_cuda_nvrtc_load (&error))
    return TRUE;
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "libnvrtc", "GPUMEM_NVRTC");
  g_test_skip ("NVRTC is not installed");
  return FALSE;
}

static guint
get_machine (GBytes *image)
{
  const guint8 *data = g_bytes_get_data (image, NULL);

  return data[MACHINE_OFFSET] | data[MACHINE_OFFSET + 1] << 8;
}

static GBytes *
compile (const char *source, const char *options, char **log)
{
  g_autoptr (GError) error = NULL;
  GBytes *image = _gpu_cuda_compile (capability, source, options, NULL, FALSE, NULL, NULL, log,
                                     &error);

  g_assert_no_error (error);
  return image;
}

/* Every truncated image is refused without reads past the end of the data. */
static void
assert_truncated (GBytes *image)
{
  gsize size;
  const guint8 *data = g_bytes_get_data (image, &size);

  for (gsize i = 1; i <= 16; i++)
    {
      g_autofree guint8 *copy = g_memdup2 (data, size * i / 17);

      assert_refused (copy, size * i / 17);
    }
}

static void
source_compile (void)
{
  static const char source[] =
    "typedef struct { int x; float y; uchar z[4]; } Struct;\n"
    "__kernel void first (__global float *a, float b, char c, Struct d, __local int *e) { }\n"
    "__kernel void second (void) { }\n";
  static const gsize sizes[] = { 8, 4, 1, 12, 4 };
  g_autoptr (GBytes) image = NULL;
  g_autoptr (GError) error = NULL;
  g_auto (GStrv) names = NULL;

  if (!has_compiler ())
    return;
  image = compile (source, NULL, NULL);
  test_assert_ok (_gpu_cuda_binary_check (image, &error), error);
  g_assert_cmpint (_gpu_cuda_binary_identify (image), ==, GPU_CUDA_BINARY_ELF);
  if (get_machine (image) != CUDA_MACHINE)
    return;
  names = _gpu_cuda_binary_list_kernels (image);
  g_assert_nonnull (names);
  g_assert_cmpuint (g_strv_length (names), ==, 2);
  g_assert_true (g_strv_contains ((const char *const *) names, "first"));
  g_assert_true (g_strv_contains ((const char *const *) names, "second"));
  assert_sizes (image, "first", sizes, G_N_ELEMENTS (sizes));
  assert_sizes (image, "second", NULL, 0);
  assert_truncated (image);
  assert_in_fatbin (image);
}

/* A program that uses any of the valid names compiles together with the prelude and the appended
 * code. */
static void
source_valid (void)
{
  static const char *const sources[] = {
    "#define NAME(x) x##_f32\n"
    "extern \"C\" __global__ void NAME (scale) (float *p, float f) { p[0] *= f; }\n",
    "#define k k_2\nextern \"C\" __global__ void k (float *p) { p[0] = 1; }\n",
    "#define BOUNDS(n) __launch_bounds__ (n)\n"
    "extern \"C\" __global__ void BOUNDS (256) k (float *p) { p[0] = 1; }\n"
    "BOUNDS (128) __global__ void l (float *p) { p[0] = 1; }\n",
    "#define ANY template <class X>\nANY __global__ void k (X *p) { p[0] = 1; }\n",
    "#define n 100\n#define text 6\n#define block 5\n#define describe 7\n#define info 8\n"
    "extern \"C\" __global__ void k (float *p) { p[0] = n; }\n",
    "#define NAME(x, y) x##_##y\n"
    "__kernel void NAME (scale, 2) (__global float *p, __local float *l, float f)\n"
    "{ l[0] = f; p[0] *= l[0]; }\n",
    "#define k k_2\n__kernel void k (__global float *p, __local float *l) { p[0] = l[0]; }\n",
    "extern \"C\" __global__ void k (float *p) { p[0] = 1; }\n",
    "__kernel void k (__global float *p, __local float *l) { p[0] = l[0]; }\n",
    "#ifdef TYPE\n__kernel void k (SPACE TYPE *p, __local TYPE *l) { p[0] = l[T]; }\n#endif\n",
  };
  static const char *const options[] = {
    NULL, "--std=c++14", "--std=c++17", "--std=c++20", "-DN=1024 -DA=3 -DL=2 -DP=7 -DF=8 -Dn=4",
    "-DT=5 -Da=1 -Dx=2 -Dy=3 -Dz=4 -Db=6 -Dc=7 -Di=8 -Ds=9 -DV=10 -DS=11 -DR=12 -Dv=13 -Dr=14",
    "'-DTYPE=unsigned int' -DSPACE=global -DT=(get_local_id(0)) -Dsize=2 -Dtype=3 -Dvalue=4 -Dp=q"
  };

  if (!has_compiler ())
    return;
  for (guint i = 0; i < G_N_ELEMENTS (sources); i++)
    for (guint j = 0; j < G_N_ELEMENTS (options); j++)
      {
        g_autoptr (GBytes) image = compile (sources[i], options[j], NULL);

        g_assert_nonnull (image);
      }
}

static void
source_architecture (void)
{
  static const char source[] =
    "extern \"C\" __global__ void first (float *a, float b, short c) { *a = b + c; }\n";
  static const gsize sizes[] = { 8, 4, 2 };
  g_autoptr (GBytes) image = NULL;

  if (!has_compiler ())
    return;
  image = compile (source, "-arch=compute_90", NULL);
  if (_gpu_cuda_binary_identify (image) == GPU_CUDA_BINARY_PTX &&
      g_strstr_len (g_bytes_get_data (image, NULL), g_bytes_get_size (image), ".param") != NULL)
    assert_sizes (image, "first", sizes, G_N_ELEMENTS (sizes));
  g_clear_pointer (&image, g_bytes_unref);

  /* The library requests PTX for a device that the compiler does not support yet */
  capability = 999;
  image = compile (source, NULL, NULL);
  g_assert_cmpint (_gpu_cuda_binary_identify (image), !=, GPU_CUDA_BINARY_UNKNOWN);
}

static void
source_log (void)
{
  static const char unused[] = "__kernel void f (__global int *x) { int never_used; x[0] = 1; }";
  g_autofree char *log = NULL;
  g_autoptr (GBytes) image = NULL;
  g_autoptr (GError) error = NULL;

  if (!has_compiler ())
    return;
  g_assert_null (_gpu_cuda_compile (90, "__kernel void f (int x)\n{\n  wrong;\n}\n", NULL,
                                    NULL, FALSE, NULL, NULL, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_BUILD_FAILED, "program.cl", "3", "wrong");
  g_assert_null (_gpu_cuda_compile (90, "__global__ void f (int x)\n{\n  wrong;\n}\n", NULL,
                                    NULL, FALSE, NULL, NULL, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_BUILD_FAILED, "program.cu", "3", "wrong");
  g_assert_null (_gpu_cuda_compile (90, unused, "-no-such-option", NULL, FALSE, NULL, NULL, NULL,
                                    &error));
  test_assert_gpu_error (error, GPU_ERROR_BUILD_FAILED, "no-such-option");

  /* If the compiler prints no warning here, the test of warnings as errors is not possible */
  image = compile (unused, NULL, &log);
  if (log == NULL || strstr (log, "warning") == NULL)
    return;
  g_assert_nonnull (strstr (log, "never_used"));
  g_assert_null (_gpu_cuda_compile (90, unused, "-Werror", NULL, FALSE, NULL, NULL, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_BUILD_FAILED, "never_used");
  g_clear_pointer (&log, g_free);
  g_clear_pointer (&image, g_bytes_unref);
  image = compile (unused, "-w", &log);
  g_assert_null (log);
}

/* The compiler returns the mangled names of the requested kernels. */
static void
source_lowered (void)
{
  static const char *const names[] = { "scale<float>", "ns::f", NULL };
  static const char *const wrong[] = { "scale<nothing>", NULL };
  static const char source[] =
    "template <class T> __global__ void scale (T *x) { *x *= 2; }\n"
    "namespace ns { __global__ void f (int *x) { *x = 1; } }\n";
  g_auto (GStrv) lowered = NULL;
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) image = NULL;

  if (!has_compiler ())
    return;
  image = _gpu_cuda_compile (90, source, "--std=c++17", NULL, FALSE, names, &lowered, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (g_strv_length (lowered), ==, 2);
  g_assert_true (g_str_has_prefix (lowered[0], "_Z5scaleIfE"));
  g_assert_true (g_str_has_prefix (lowered[1], "_ZN2ns1fE"));
  g_assert_null (_gpu_cuda_compile (90, source, NULL, NULL, FALSE, wrong, &lowered, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_BUILD_FAILED);
}

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
  test_add_plain ("languages", source_languages);
  test_add_plain ("rewrites", source_rewrites);
  test_add_plain ("truncated", source_truncated);
  test_add_plain ("directives", source_directives);
  test_add_plain ("described", source_described);
  test_add_plain ("macros", source_macros);
  test_add_plain ("names", source_names);
  test_add_plain ("bad-names", source_bad_names);
  test_add_plain ("jit-options", source_jit_options);
  test_add_plain ("ptx", source_ptx);
  test_add_plain ("ptx-variables", source_ptx_variables);
  test_add_plain ("junk", source_junk);
  test_add_plain ("empty-sections", source_empty_sections);
  test_add_plain ("sections", source_sections);
  test_add_plain ("fatbin-entries", source_fatbin_entries);
  test_add_plain ("compile", source_compile);
  test_add_plain ("valid", source_valid);
  test_add_plain ("architecture", source_architecture);
  test_add_plain ("log", source_log);
  test_add_plain ("lowered", source_lowered);
  return test_run ();
}
