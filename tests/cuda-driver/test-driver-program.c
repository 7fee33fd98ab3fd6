/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The compiler of the stand-ins, and kernels that it has compiled. */
#include "config.h"

#include "test-driver.h"

typedef gpointer Program;

static struct
{
  guint (*nvrtcCreateProgram) (Program *, const char *, const char *, int, const char *const *,
                               const char *const *);
  guint (*nvrtcDestroyProgram) (Program *);
  guint (*nvrtcCompileProgram) (Program, int, const char *const *);
  guint (*nvrtcAddNameExpression) (Program, const char *);
  guint (*nvrtcGetLoweredName) (Program, const char *, const char **);
  guint (*nvrtcGetProgramLogSize) (Program, size_t *);
  guint (*nvrtcGetProgramLog) (Program, char *);
  guint (*nvrtcGetCUBINSize) (Program, size_t *);
  guint (*nvrtcGetCUBIN) (Program, char *);
  guint (*nvrtcGetPTXSize) (Program, size_t *);
  guint (*nvrtcGetPTX) (Program, char *);
} nvrtc;

static const char source[] =
  "__constant__ float table[4] = { 1, 2, 3, 4 };\n"
  "__device__ int counter;\n"
  "struct pair { int a; double b; };\n"
  "template <class T> __global__ void scale (T *data, T by)\n"
  "{\n"
  "  data[blockIdx.x * blockDim.x + threadIdx.x] *= by;\n"
  "}\n"
  "extern \"C\" __global__ void __launch_bounds__ (128, 2)\n"
  "sum (const float *in, float *out, pair p)\n"
  "{\n"
  "  extern __shared__ float part[];\n"
  "  __shared__ float all;\n"
  "  unsigned i = threadIdx.x;\n"
  "  part[i] = in[blockIdx.x * blockDim.x + i];\n"
  "  __syncthreads ();\n"
  "  for (unsigned s = blockDim.x / 2; s > 0; s /= 2)\n"
  "    {\n"
  "      if (i < s) part[i] += part[i + s];\n"
  "      __syncthreads ();\n"
  "    }\n"
  "  if (i == 0) { all = part[0] * p.b + p.a; atomicAdd (&counter, 1); }\n"
  "  __syncthreads ();\n"
  "  if (i == 5) out[blockIdx.x] = all;\n"
  "}\n"
  "extern \"C\" __global__ void warp (float *x)\n"
  "{\n"
  "  float v = x[threadIdx.x];\n"
  "  for (int o = 16; o > 0; o /= 2) v += __shfl_down_sync (0xffffffffu, v, o);\n"
  "  if (threadIdx.x % 32 == 0) x[threadIdx.x] = v;\n"
  "}\n"
  "namespace ns {\n"
  "extern \"C\" __global__ void trap (int when) { if (when) asm volatile (\"trap;\"); }\n"
  "}\n"
  "extern \"C\" __global__ void wild (int *where) { *where = 1; }\n"
  "extern \"C\" __global__ void divergent () { if (threadIdx.x == 0) __syncwarp (2);"
  " __syncthreads (); }\n";

static void
open_nvrtc (void)
{
  g_autofree char *path = g_build_filename (g_getenv ("G_TEST_BUILDDIR") != NULL
                                            ? g_getenv ("G_TEST_BUILDDIR") : "tests",
                                            "cuda-driver/lib/libnvrtc.so.13", NULL);
  gpointer module = dlopen (path, RTLD_NOW | RTLD_LOCAL);

  if (module == NULL)
    g_error ("%s", dlerror ());
#define FIND(name) nvrtc.name = dlsym (module, #name); g_assert_nonnull (nvrtc.name)
  FIND (nvrtcCreateProgram);
  FIND (nvrtcDestroyProgram);
  FIND (nvrtcCompileProgram);
  FIND (nvrtcAddNameExpression);
  FIND (nvrtcGetLoweredName);
  FIND (nvrtcGetProgramLogSize);
  FIND (nvrtcGetProgramLog);
  FIND (nvrtcGetCUBINSize);
  FIND (nvrtcGetCUBIN);
  FIND (nvrtcGetPTXSize);
  FIND (nvrtcGetPTX);
#undef FIND
}

/* Compiles to a CUBIN or to PTX. */
static char *
build (const char  *text,
       const char  *option,
       gboolean     ptx,
       gsize       *size,
       char       **lowered)
{
  const char *name;
  Program program;
  char *image;

  g_assert_cmpuint (nvrtc.nvrtcCreateProgram (&program, text, NULL, 0, NULL, NULL), ==, 0);
  if (lowered != NULL)
    nvrtc.nvrtcAddNameExpression (program, "scale<float>");
  g_assert_cmpuint (nvrtc.nvrtcCompileProgram (program, 1, &option), ==, 0);
  if (lowered != NULL)
    {
      g_assert_cmpuint (nvrtc.nvrtcGetLoweredName (program, "scale<float>", &name), ==, 0);
      *lowered = g_strdup (name);
    }
  (ptx ? nvrtc.nvrtcGetPTXSize : nvrtc.nvrtcGetCUBINSize) (program, size);
  image = g_malloc (*size);
  (ptx ? nvrtc.nvrtcGetPTX : nvrtc.nvrtcGetCUBIN) (program, image);
  nvrtc.nvrtcDestroyProgram (&program);
  return image;
}

CUmodule
load_source (const char *text)
{
  gsize size;
  g_autofree char *image = build (text, "--gpu-architecture=sm_90", FALSE, &size, NULL);
  CUmodule module;

  OK (cuModuleLoadDataEx, &module, image, 0, NULL, NULL);
  return module;
}

void
launch_kernel (CUmodule    module,
               const char *name,
               guint       n_blocks,
               guint       n_threads,
               guint       shared,
               void      **arguments)
{
  CUfunction function;

  OK (cuModuleGetFunction, &function, module, name);
  OK (cuLaunchKernel, function, n_blocks, 1, 1, n_threads, 1, 1, shared, NULL, arguments, NULL);
}

static void
check_globals (CUmodule module,
               int      count)
{
  CUdeviceptr address;
  float table[4];
  gsize size;
  int counter;

  OK (cuModuleGetGlobal, &address, &size, module, "table");
  g_assert_cmpuint (size, ==, sizeof table);
  OK (cuMemcpyDtoH, table, address, sizeof table);
  g_assert_cmpfloat (table[3], ==, 4);
  OK (cuModuleGetGlobal, &address, &size, module, "counter");
  OK (cuMemcpyDtoH, &counter, address, sizeof counter);
  g_assert_cmpint (counter, ==, count);
  FAILS (CUDA_ERROR_NOT_FOUND, cuModuleGetGlobal, &address, &size, module, "nothing");
}

static void
check_information (CUmodule module)
{
  static const gsize sizes[] = { 8, 8, 16 };
  static const gsize offsets[] = { 0, 8, 16 };
  CUfunction function;
  const char *name;
  gsize offset, size;
  guint n;
  int value;

  OK (cuModuleGetFunction, &function, module, "sum");
  for (gsize i = 0; i < G_N_ELEMENTS (sizes); i++)
    {
      OK (cuFuncGetParamInfo, function, i, &offset, &size);
      g_assert_cmpuint (offset, ==, offsets[i]);
      g_assert_cmpuint (size, ==, sizes[i]);
    }
  FAILS (CUDA_ERROR_INVALID_VALUE, cuFuncGetParamInfo, function, 3, &offset, &size);
  OK (cuFuncGetName, &name, function);
  g_assert_cmpstr (name, ==, "sum");
  OK (cuFuncGetAttribute, &value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function);
  g_assert_cmpint (value, ==, 128);
  OK (cuModuleGetFunctionCount, &n, module);
  g_assert_cmpuint (n, ==, 6);
  FAILS (CUDA_ERROR_NOT_FOUND, cuModuleGetFunction, &function, module, "scale");
}

/* Runs the kernels of an image compiled from `source`. */
static void
check_image (const char *image,
             const char *scale)
{
  float in[256], out[256];
  float by = 2;
  /* The stand-in checks each word of an argument that may be an address, so no padding */
  struct { int a; int unused; double b; } pair = { 5, 0, 2 };
  CUdeviceptr one, other;
  CUmodule module;
  void *sum_arguments[] = { &one, &other, &pair };
  void *scale_arguments[] = { &one, &by };

  begin ();
  OK (cuModuleLoadDataEx, &module, image, 0, NULL, NULL);
  OK (cuMemAlloc, &one, sizeof in);
  OK (cuMemAlloc, &other, sizeof in);
  for (guint i = 0; i < G_N_ELEMENTS (in); i++)
    in[i] = i;
  OK (cuMemcpyHtoD, one, in, sizeof in);
  for (guint i = 0; i < 10; i++)
    launch_kernel (module, "sum", 2, 128, 512, sum_arguments);
  OK (cuMemcpyDtoH, out, other, sizeof out);
  g_assert_cmpfloat (out[0], ==, 127 * 64 * 2 + 5);
  g_assert_cmpfloat (out[1], ==, (127 * 64 + 128 * 128) * 2 + 5);
  check_globals (module, 20);
  if (scale != NULL)
    {
      check_information (module);
      launch_kernel (module, scale, 4, 64, 0, scale_arguments);
      launch_kernel (module, "warp", 1, 64, 0, scale_arguments);
      OK (cuMemcpyDtoH, out, one, sizeof out);
      g_assert_cmpfloat (out[255], ==, 510);
      g_assert_cmpfloat (out[0], ==, 31 * 32);
      g_assert_cmpfloat (out[32], ==, 31 * 32 + 2 * 32 * 32);
    }
  OK (cuModuleUnload, module);
  OK (cuMemFree, one);
  OK (cuMemFree, other);
  end ();
}

static void
test_cubin (void)
{
  gsize size;
  g_autofree char *lowered = NULL;
  g_autofree char *image = build (source, "--gpu-architecture=sm_90", FALSE, &size, &lowered);

  g_assert_cmpmem (image, 4, "\177ELF", 4);
  g_assert_cmpstr (lowered, ==, "_Z5scaleIfEvPT_S0_");
  check_image (image, lowered);
}

static void
test_ptx (void)
{
  gsize size;
  g_autofree char *image = build (source, "-arch=compute_80", TRUE, &size, NULL);

  g_assert_nonnull (strstr (image, ".target sm_80"));
  g_assert_nonnull (strstr (image, ".entry sum"));
  check_image (image, NULL);
}

static void
test_link (void)
{
  static const char one[] = "extern __device__ int twice (int x);\n"
                            "extern \"C\" __global__ void k (int *x) { *x = twice (*x); }\n";
  static const char two[] = "__device__ int twice (int x) { return 2 * x; }\n";
  gsize size;
  g_autofree char *image = NULL;
  CUlinkState state;
  CUmodule module;
  CUdeviceptr memory;
  void *arguments[] = { &memory };
  void *cubin;
  int value;

  begin ();
  OK (cuLinkCreate, 0, NULL, NULL, &state);
  image = build (one, "-rdc=true", FALSE, &size, NULL);
  FAILS (CUDA_ERROR_INVALID_IMAGE, cuModuleLoadDataEx, &module, image, 0, NULL, NULL);
  OK (cuLinkAddData, state, CU_JIT_INPUT_CUBIN, image, size, NULL, 0, NULL, NULL);
  g_free (image);
  image = build (two, "-rdc=true", TRUE, &size, NULL);
  OK (cuLinkAddData, state, CU_JIT_INPUT_PTX, image, size, NULL, 0, NULL, NULL);
  OK (cuLinkComplete, state, &cubin, &size);
  OK (cuModuleLoadDataEx, &module, cubin, 0, NULL, NULL);
  OK (cuLinkDestroy, state);
  OK (cuMemAlloc, &memory, 4);
  OK (cuMemsetD32Async, memory, 21, 1, NULL);
  launch_kernel (module, "k", 1, 1, 0, arguments);
  OK (cuMemcpyDtoH, &value, memory, 4);
  g_assert_cmpint (value, ==, 42);
  OK (cuMemFree, memory);
  OK (cuModuleUnload, module);
  end ();
}

static void
test_bad_source (void)
{
  const char *option = "--no-such-option";
  g_autofree char *log = NULL;
  Program program;
  gsize size;

  nvrtc.nvrtcCreateProgram (&program, "\n__global__ void k () { nothing (); }", "k.cu", 0, NULL,
                            NULL);
  g_assert_cmpuint (nvrtc.nvrtcCompileProgram (program, 0, NULL), ==, 6);
  nvrtc.nvrtcGetProgramLogSize (program, &size);
  log = g_malloc (size);
  nvrtc.nvrtcGetProgramLog (program, log);
  g_assert_nonnull (strstr (log, "k.cu:2:"));
  g_assert_nonnull (strstr (log, "nothing"));
  g_assert_cmpuint (nvrtc.nvrtcCompileProgram (program, 1, &option), ==, 5);
  nvrtc.nvrtcDestroyProgram (&program);
}

static void
test_bad_image (void)
{
  char log[200];
  CUjit_option options[] = { CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES };
  void *values[] = { log, GSIZE_TO_POINTER (sizeof log) };
  g_autofree char *other = NULL;
  CUmodule module;
  gsize size;

  begin ();
  FAILS (CUDA_ERROR_INVALID_PTX, cuModuleLoadDataEx, &module, "no ptx", 2, options, values);
  g_assert_nonnull (strstr (log, "ptxas"));
  FAILS (CUDA_ERROR_INVALID_IMAGE, cuModuleLoadDataEx, &module, "\1\2\3\4", 0, NULL, NULL);
  other = build (source, "-arch=sm_80", FALSE, &size, NULL);
  FAILS (CUDA_ERROR_NO_BINARY_FOR_GPU, cuModuleLoadDataEx, &module, other, 0, NULL, NULL);
  end ();
}

/* Checks that the kernel fails and that its context is lost with all objects. */
static void
check_stops (const char *kernel,
             guint64     argument,
             CUresult    code)
{
  gsize size;
  g_autofree char *image = build (source, "--gpu-architecture=sm_90", FALSE, &size, NULL);
  void *arguments[] = { &argument };
  CUcontext context;
  CUdeviceptr memory;
  CUmodule module;
  CUevent event;

  OK (cuCtxCreate, &context, 0, 1);
  OK (cuMemAlloc, &memory, 64);
  OK (cuEventCreate, &event, 0);
  OK (cuModuleLoadDataEx, &module, image, 0, NULL, NULL);
  launch_kernel (module, kernel, 3, 64, 0, arguments);
  g_assert_cmpuint (driver.cuCtxSynchronize (), ==, code);
  g_assert_cmpuint (driver.cuMemsetD8Async (memory, 0, 64, NULL), ==, code);
  g_assert_cmpuint (driver.cuEventRecord (event, NULL), ==, code);
  g_assert_cmpuint (driver.cuEventDestroy (event), ==, code);
  g_assert_cmpuint (driver.cuModuleUnload (module), ==, code);
  g_assert_cmpuint (driver.cuMemFree (memory), ==, code);
  OK (cuCtxDestroy, context);
  /* Check that other contexts still work */
  begin ();
  OK (cuMemAlloc, &memory, 64);
  OK (cuMemFree, memory);
  end ();
}

static void
test_trap (void)
{
  check_stops ("trap", 1, CUDA_ERROR_LAUNCH_FAILED);
}

static void
test_wild_address (void)
{
#if !defined (__SANITIZE_THREAD__)
  check_stops ("wild", 8, CUDA_ERROR_ILLEGAL_ADDRESS);
#else
  g_test_skip ("signals and fibers do not go together there");
#endif
}

static void
test_divergent (void)
{
  check_stops ("divergent", 0, CUDA_ERROR_LAUNCH_TIMEOUT);
}

void
add_program_tests (void)
{
  open_nvrtc ();
  g_test_add_func ("/cuda-driver/program/cubin", test_cubin);
  g_test_add_func ("/cuda-driver/program/ptx", test_ptx);
  g_test_add_func ("/cuda-driver/program/link", test_link);
  g_test_add_func ("/cuda-driver/program/bad-source", test_bad_source);
  g_test_add_func ("/cuda-driver/program/bad-image", test_bad_image);
  g_test_add_func ("/cuda-driver/program/trap", test_trap);
  g_test_add_func ("/cuda-driver/program/wild-address", test_wild_address);
  g_test_add_func ("/cuda-driver/program/divergent", test_divergent);
}
