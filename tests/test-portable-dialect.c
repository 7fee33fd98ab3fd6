/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The portable dialect: one source produces bit-identical results on every device, including the
 * host. */
#include "config.h"

#include "test-util.h"

#define N_ITEMS 1024
#define BLOCK 64
#define N_OUTPUTS 16

typedef struct
{
  const char *name;
  const char *source;
  gsize       local_size;       /* of an argument in local memory, 0 if the kernel has none */
  const char *options;
} Case;

static const char integers[] =
  "__kernel void run (__global const uint *in, __global uint *out)\n"
  "{\n"
  "  uint i = (uint) get_global_id (0);\n"
  "  uint n = (uint) get_global_size (0);\n"
  "  uint a = in[i], b = in[(i + 1) % n];\n"
  "  int s = (int) a, t = (int) b;\n"
  "  long l = (long) a << 32 | b, m = (long) b << 32 | a;\n"
  "  __global uint *o = out + i * 16;\n"
  "  o[0] = (uint) abs (s) ^ (uint) abs_diff (a, b) ^ min (a, b) ^ (uint) max (s, t);\n"
  "  o[1] = hadd (a, b) ^ (uint) rhadd (s, t) ^ (uint) clamp (s, -1000, 1000);\n"
  "  o[2] = mul_hi (a, b) ^ (uint) mul_hi (s, t) ^ mad_hi (a, b, 3u);\n"
  "  o[3] = (uint) mul_hi (l, m) ^ (uint) (mul_hi ((ulong) l, (ulong) m) >> 32);\n"
  "  o[4] = rotate (a, 7u) ^ (uint) rotate (s, 31) ^ (uint) rotate (l, 33L);\n"
  "  o[5] = popcount (a) + 100 * clz (b) + 10000 * (uint) clz (l) + (uint) popcount (m);\n"
  "  o[6] = add_sat (a, b) ^ sub_sat (a, b);\n"
  "  o[7] = (uint) add_sat (s, t) ^ (uint) sub_sat (s, t);\n"
  "  o[8] = (uint) (add_sat (l, m) >> 32) ^ (uint) sub_sat (l, m);\n"
  "  o[9] = add_sat ((uchar) a, (uchar) b) + 256u * (uchar) sub_sat ((char) a, (char) b);\n"
  "  o[10] = (ushort) add_sat ((short) a, (short) b)\n"
  "          + 65536u * sub_sat ((ushort) a, (ushort) b);\n"
  "  o[11] = (uint) mul24 (s >> 10, t >> 10) ^ (uint) mad24 (s >> 10, t >> 10, 5);\n"
  "  o[12] = (uint) (s / (t | 1)) ^ (uint) (s % (t | 1)) ^ (uint) (s >> (b & 31));\n"
  "  o[13] = convert_uchar_sat (s) + 256u * (uchar) convert_char_sat (t);\n"
  "  o[14] = as_uint (s) + (uint) select (1, 2, s > t) + bitselect (a, b, 0xff00ffu);\n"
  "  o[15] = (uint) (l / (m | 1)) ^ (uint) ((ulong) l % ((ulong) m | 1));\n"
  "}\n";

static const char reals[] =
  "#pragma OPENCL FP_CONTRACT OFF\n"
  "float polynomial (float x) { return (x * x - 2 * x) * x + 0.5f; }\n"
  "__kernel void run (__global const uint *in, __global uint *out)\n"
  "{\n"
  "  uint i = (uint) get_global_id (0);\n"
  "  uint n = (uint) get_global_size (0);\n"
  "  float x = (float) (int) in[i] / 65536.0f, y = (float) (in[(i + 1) % n] & 0xffff) + 0.25f;\n"
  "  float z = fabs (x);\n"
  "  __global uint *o = out + i * 16;\n"
  "  o[0] = as_uint (x * y + z);\n"
  "  o[1] = as_uint (x / y);\n"
  "  o[2] = as_uint (sqrt (z));\n"
  "  o[3] = as_uint (fma (x, y, z));\n"
  "  o[4] = as_uint (polynomial (y / 1000));\n"
  "  o[5] = as_uint (floor (x) + ceil (y) + trunc (x) + rint (y) + round (x));\n"
  "  o[6] = as_uint (fmin (x, y) - fmax (x, z));\n"
  "  o[7] = as_uint (clamp (x, -1.0f, 1.0f) + step (y, z) + sign (x));\n"
  "  o[8] = as_uint (mix (x, y, 0.25f));\n"
  "  o[9] = as_uint (fmod (x, y));\n"
  "  o[10] = as_uint (copysign (y, x)) ^ as_uint (fdim (x, y));\n"
  "  o[11] = (uint) convert_int (x) ^ (uint) convert_int_rtn (x) ^ (uint) convert_int_rte (y);\n"
  "  o[12] = convert_uchar_sat (x) + 256u * convert_ushort_sat_rte (x);\n"
  "  o[13] = (uint) isnan (x) + 2 * (uint) (isinf (y / (z - z)) != 0)\n"
  "          + 4 * (uint) (signbit (x) != 0);\n"
  "  o[14] = as_uint ((float) in[i]) ^ as_uint (convert_float ((int) in[i]));\n"
  "  o[15] = as_uint (ldexp (y, 3)) ^ (uint) ilogb (y) ^ as_uint (mad (2.0f, y, 1.0f));\n"
  "}\n";

/* A program with barriers and constant tables. Local memory is a variable, a kernel argument and an
 * argument of a function. */
static const char tiles[] =
  "#define SIDE 8\n"
  "typedef struct { uint add; uchar shift[4]; } Step;\n"
  "__constant uint weights[4] = { 1, 10, 100, 1000 };\n"
  "__constant Step step_of[2] = { { 3, { 1, 2, 3, 4 } }, { 5, { 0, 1, 0, 1 } } };\n"
  "uint sum (__local const uint *part, __constant uint *by, uint n)\n"
  "{\n"
  "  uint total = 0;\n"
  "  for (uint i = 0; i < n; i++)\n"
  "    total += part[i] * by[i & 3];\n"
  "  return total;\n"
  "}\n"
  "#if SIDE == 8\n"
  "__kernel __attribute__ ((reqd_work_group_size (SIDE * 8, 1, 1)))\n"
  "void run (__global const uint *in, __global uint *out, __local uint *scratch)\n"
  "#else\n"
  "__kernel void run (__global const uint *wrong)\n"
  "#endif\n"
  "{\n"
  "  __local uint tile[SIDE][SIDE + 1];\n"
  "  __local uint count;\n"
  "  __local uint *row;\n"
  "  uint l = (uint) get_local_id (0), x = l % SIDE, y = l / SIDE;\n"
  "  uint i = (uint) get_global_id (0);\n"
  "  row = tile[y];\n"
  "  if (l == 0)\n"
  "    count = 0;\n"
  "  row[x] = in[i];\n"
  "  scratch[l] = in[i] >> 16;\n"
  "  barrier (CLK_LOCAL_MEM_FENCE);\n"
  "  atomic_add (&count, tile[x][y] & 15);\n"
  "  barrier (CLK_LOCAL_MEM_FENCE);\n"
  "  for (uint k = 0; k < 16; k++)\n"
  "    out[i * 16 + k] = tile[x][y] + count * k\n"
  "                      + (sum (scratch, weights, l) << step_of[k & 1].shift[k & 3])\n"
  "                      + step_of[k & 1].add + (uint) get_group_id (0);\n"
  "}\n";

/* Kernels whose names are made by macros, as a replacement for templates. */
static const char named[] =
  "#define JOIN(a, b) a##b\n"
  "#define NAME(a, b) JOIN (a, b)\n"
  "#define END n\n"
  "#define BODY \\\n"
  "  uint l = (uint) get_local_id (0), i = (uint) get_global_id (0); \\\n"
  "  scratch[l] = in[i]; \\\n"
  "  barrier (CLK_LOCAL_MEM_FENCE); \\\n"
  "  for (uint k = 0; k < 16; k++) \\\n"
  "    out[i * 16 + k] = scratch[(l + k) % get_local_size (0)] + k;\n"
  "__kernel void\n"
  "NAME (ru, // made of two\n"
  "      END) (__global const uint *in, __global uint *out, __local uint *scratch)\n"
  "{ BODY }\n"
  "#define other NAME (an, other)\n"
  "__kernel void other (__global const uint *in, __global uint *out, __local uint *scratch)\n"
  "{ BODY }\n";

/* Options may define macros with any name that the program uses. */
static const char by_options[] =
  "#if T != 3 || !defined (L)\n"
  "#error \"not what was asked for\"\n"
  "#endif\n"
  "__kernel void run (__global const TYPE *in, SPACE TYPE *out)\n"
  "{\n"
  "  uint i = (uint) get_global_id (0);\n"
  "  for (uint n = 0; n < N; n++)\n"
  "    out[i * N + n] = F (in[i], n) + SEVEN;\n"
  "}\n";
#define OPTIONS "-DTYPE=uint -D SPACE=global -DT=3 -DN=16 -DA=a -DL -DP=p " \
                "-DF(x,y)=x*y -DSEVEN=7"

static const char atomics[] =
  "__kernel void run (__global const uint *in, volatile __global uint *out)\n"
  "{\n"
  "  uint a = in[get_global_id (0)];\n"
  "  volatile __global int *s = (volatile __global int *) out;\n"
  "  atomic_add (&out[a & 255], a >> 8);\n"
  "  atomic_sub (&out[256 + (a & 255)], a >> 8);\n"
  "  atomic_inc (&out[512 + (a & 15)]);\n"
  "  atomic_dec (&s[528 + (a & 15)]);\n"
  "  atomic_min (&out[544], a);\n"
  "  atomic_max (&out[545], a);\n"
  "  atomic_min (&s[546], (int) a);\n"
  "  atomic_max (&s[547], (int) a);\n"
  "  atomic_or (&out[548], a & 0x10101);\n"
  "  atomic_and (&out[549], a | 0xfff00000);\n"
  "  atomic_xor (&out[550], a);\n"
  "  atomic_cmpxchg (&out[551], 0u, 77u);\n"
  "  atomic_xchg (&out[552], 5u);\n"
  "}\n";

/* The same computation, by components and with vectors. */
static const char by_components[] =
  "#pragma OPENCL FP_CONTRACT OFF\n"
  "__kernel void run (__global const uint *in, __global uint *out)\n"
  "{\n"
  "  uint i = (uint) get_global_id (0);\n"
  "  __global const uint *p = in + i / 4 * 4;\n"
  "  uint n = (uint) get_global_size (0);\n"
  "  for (uint k = 0; k < 4; k++)\n"
  "    {\n"
  "      float x = (float) (int) p[k], y = (float) (p[3 - k] & 0xffff);\n"
  "      float v = x * 0.5f + y / (1.0f + k) - (x < y ? 1.0f : 2.0f);\n"
  "      out[i * 16 + k] = as_uint (v);\n"
  "      out[i * 16 + 4 + k] = as_uint (fmin (sqrt (fabs (v)), 100.0f));\n"
  "      out[i * 16 + 8 + k] = (uint) convert_uchar_sat (v) + (p[k] << 3 ^ p[k] >> 5);\n"
  "      out[i * 16 + 12 + k] = as_uint (x) + (k == 3 ? n : 7);\n"
  "    }\n"
  "}\n";

static const char by_vectors[] =
  "#pragma OPENCL FP_CONTRACT OFF\n"
  "#define HALF ((float4) (0.5f))\n"
  "__kernel void run (__global const uint *in, __global uint *out)\n"
  "{\n"
  "  uint i = (uint) get_global_id (0);\n"
  "  uint4 p = vload4 (i / 4, in);\n"
  "  float4 x = convert_float4 (as_int4 (p));\n"
  "  uint2 high = (uint2) (p.w, p.z);\n"
  "  float4 y = convert_float4 ((uint4) (high, p.y, p.x) & 0xffff);\n"
  "  float4 v = x * HALF + y / ((float4) (0, 1, 2, 3) + 1.0f);\n"
  "  uint4 last = as_uint4 (x) + (uint4) ((uint3) (7), (uint) get_global_size (0));\n"
  "  v.x -= x.x < y.x ? 1.0f : 2.0f;\n"
  "  v.y -= x.y < y.y ? 1.0f : 2.0f;\n"
  "  v.s2 -= x.s2 < y.s2 ? 1.0f : 2.0f;\n"
  "  v.w -= x.w < y.w ? 1.0f : 2.0f;\n"
  "  vstore4 (as_uint4 (v), i * 4, out);\n"
  "  vstore4 (as_uint4 (fmin (sqrt (fabs (v)), 100.0f)), i * 4 + 1, out);\n"
  "  vstore4 (convert_uint4 (convert_uchar4_sat (v)) + (p << 3 ^ p >> 5), i * 4 + 2, out);\n"
  "  vstore2 ((uint2) (last.x, last.y), i * 8 + 6, out);\n"
  "  out[i * 16 + 14] = last.z;\n"
  "  out[i * 16 + 15] = last.w;\n"
  "}\n";

/* Builds vectors and uses single components of them. On the host, vectors are unions, which have no
 * operators for whole vectors. */
static const char literals[] =
  "#define PAIR(a, b) ((uint2) (a, b))\n"
  "typedef struct { uint2 at; uint n; } Place;\n"
  "uint2 swap (uint2 v) { return (uint2) (v.y, v.x); }\n"
  "uint sum (uint4 v) { return v.s0 + 10 * v.s1 + 100 * v.s2 + 1000 * v.s3; }\n"
  "__kernel void run (__global const uint *in, __global uint *out)\n"
  "{\n"
  "  uint i = (uint) get_global_id (0);\n"
  "  uint a = in[i], b = in[(i + 1) % (uint) get_global_size (0)];\n"
  "  __global uint *o = out + i * 16;\n"
  "  uint2 p = PAIR (a, b), q = swap (p);\n"
  "  uint4 r = (uint4) (p, 7, q.x);\n"
  "  uint4 s = (uint4) (1, swap (\n"
  "    (uint2) (3, a)), (uint) 9.5f);\n"
  "  uint4 t = (uint4) (2, 3, (uint2) (a ^ b));\n"
  "  uint8 u = (uint8) (r, (uint4) (PAIR (1, 2), PAIR (3, b)));\n"
  "  float2 f = (float2) ((float) (a & 255), 0.5f), g = (float2) (f);\n"
  "  uint3 three = (uint3) (5, p);\n"
  "  uchar4 bytes = (uchar4) ((uchar) a, 1, 2, 3);\n"
  "  Place place;\n"
  "  place.at = (uint2) (4, 5);\n"
  "  place.n = sum ((uint4) (1, 2, 3, 4));\n"
  "  r.z = sum (s);\n"
  "  o[0] = p.x ^ q.y; o[1] = r.x; o[2] = r.y; o[3] = r.z; o[4] = r.w;\n"
  "  o[5] = s.x; o[6] = s.y; o[7] = s.z; o[8] = s.w;\n"
  "  o[9] = t.x + t.y + t.z * 3 + t.w;\n"
  "  o[10] = u.s0 + u.s1 + u.s2 + u.s3; o[11] = u.s4 + 3 * u.s5 + 5 * u.s6 + u.s7;\n"
  "  o[12] = as_uint (f.x * f.y + g.x);\n"
  "  o[13] = three.x + three.y * 2 + three.z;\n"
  "  o[14] = bytes.x + (uint) bytes.w + place.at.x * 10 + place.at.y + place.n;\n"
  "  o[15] = (uint) sizeof (uint4) + 100 * (uint) sizeof (float3) + 1000 * sizeof (uchar2);\n"
  "}\n";

static const char no_literals[] =
  "uint sum (uint x, uint y, uint z, uint w) { return x + 10 * y + 100 * z + 1000 * w; }\n"
  "__kernel void run (__global const uint *in, __global uint *out)\n"
  "{\n"
  "  uint i = (uint) get_global_id (0);\n"
  "  uint a = in[i], b = in[(i + 1) % (uint) get_global_size (0)];\n"
  "  __global uint *o = out + i * 16;\n"
  "  float x = (float) (a & 255);\n"
  "  o[0] = a ^ a; o[1] = a; o[2] = b; o[3] = sum (1, a, 3, 9); o[4] = b;\n"
  "  o[5] = 1; o[6] = a; o[7] = 3; o[8] = 9;\n"
  "  o[9] = 2 + 3 + (a ^ b) * 4;\n"
  "  o[10] = a + b + 7 + b; o[11] = 1 + 3 * 2 + 5 * 3 + b;\n"
  "  o[12] = as_uint (x * 0.5f + x);\n"
  "  o[13] = 5 + a * 2 + b;\n"
  "  o[14] = (a & 255) + 3 + 45 + 4321;\n"
  "  o[15] = 16 + 1600 + 2000;\n"
  "}\n";

/* Constants at file scope are initialised before any kernel runs. */
static const char constant_literals[] =
  "__constant uint4 table[2] = { (uint4) (1, 2, 3, 4), (uint4) (5,\n"
  "  6, 7, 1 << 3) };\n"
  "__constant float2 halves = (float2) (0.5f, -0.5f);\n"
  "__kernel void run (__global const uint *in, __global uint *out)\n"
  "{\n"
  "  uint i = (uint) get_global_id (0);\n"
  "  out[i * 16] = table[i & 1].x + table[i & 1].w;\n"
  "  out[i * 16 + 1] = as_uint (halves.x) + as_uint (halves.y);\n"
  "}\n";

static const char no_constant_literals[] =
  "__kernel void run (__global const uint *in, __global uint *out)\n"
  "{\n"
  "  uint i = (uint) get_global_id (0);\n"
  "  out[i * 16] = (i & 1) == 0 ? 5 : 13;\n"
  "  out[i * 16 + 1] = as_uint (0.5f) + as_uint (-0.5f);\n"
  "}\n";

static const Case cases[] =
{
  { "integers", integers, 0 },
  { "reals", reals, 0 },
  { "tiles", tiles, BLOCK * sizeof (guint32) },
  { "named", named, BLOCK * sizeof (guint32) },
  { "options", by_options, 0, OPTIONS },
  { "atomics", atomics, 0 },
  { "components", by_components, 0 }
};

/* --- running kernels ------------------------------------------------------------------ */

static GBytes *
get_input (void)
{
  g_autoptr (GRand) random = g_rand_new_with_seed (42);
  guint32 *data = g_new (guint32, N_ITEMS);

  for (guint i = 0; i < N_ITEMS; i++)
    data[i] = g_rand_int (random) >> g_rand_int_range (random, 0, 20);
  data[0] = 0;
  data[1] = G_MAXUINT32;
  data[2] = 0x80000000;
  data[3] = G_MAXINT32;
  return g_bytes_new_take (data, N_ITEMS * sizeof *data);
}

/* Builds with correctly rounded divisions and square roots, as in C. OpenCL rounds these correctly
 * only if the options request it and the device supports it. */
static GpuProgram *
build (GpuContext *context, const char *source, const char *options, GError **error)
{
  GpuDevice *device = gpu_context_get_device (context);
  GpuProgram *program = NULL;

  if (g_str_equal (gpu_device_get_backend (device), "opencl") && options == NULL)
    program = gpu_program_new_from_source (context, source,
                                           "-cl-fp32-correctly-rounded-divide-sqrt", NULL);
  if (program == NULL)
    program = gpu_program_new_from_source (context, source, options, error);
  return program;
}

/* Returns the output of the kernel "run" in @context. */
static GBytes *
run (GpuContext *context, const char *source, gsize local_size, const char *options)
{
  const gsize size = N_ITEMS * N_OUTPUTS * sizeof (guint32);
  const guint32 zero = 0;
  const GpuExtent grid = { N_ITEMS, 1, 1 };
  const GpuExtent block = { BLOCK, 1, 1 };
  g_autoptr (GpuStream) stream = gpu_context_get_default_stream (context);
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) input = get_input ();
  g_autoptr (GpuProgram) program = build (context, source, options, &error);
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuBuffer) in = NULL;
  g_autoptr (GpuBuffer) out = NULL;
  g_autoptr (GpuArguments) arguments = gpu_arguments_new ();
  GBytes *result;

  g_assert_no_error (error);
  kernel = gpu_program_get_kernel (program, "run", &error);
  g_assert_no_error (error);
  in = gpu_buffer_new_from_bytes (context, GPU_MEMORY_FLAGS_NONE, input, &error);
  g_assert_no_error (error);
  out = gpu_buffer_new (context, GPU_MEMORY_FLAGS_NONE, size, &error);
  g_assert_no_error (error);
  test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (out), 0, size, &zero,
                                   sizeof zero, &error), error);
  gpu_arguments_add_memory (arguments, GPU_MEMORY (in));
  gpu_arguments_add_memory (arguments, GPU_MEMORY (out));
  if (local_size > 0)
    gpu_arguments_add_local (arguments, local_size);
  test_assert_ok (gpu_stream_launch_arguments (stream, kernel, &grid, &block, arguments, &error),
                  error);
  result = gpu_buffer_read_bytes (out, stream, 0, size, NULL, &error);
  g_assert_no_error (error);
  return result;
}

static GpuContext *
host_context (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuDevice) host = gpu_device_find ("host", &error);
  GpuContext *context = NULL;

  if (host != NULL &&
      (gpu_device_get_capabilities (host) & GPU_CAPABILITIES_SOURCE) != 0)
    context = gpu_context_new (host, GPU_CONTEXT_FLAGS_NONE, &error);
  if (context == NULL)
    g_test_skip ("the host has no compiler to compare with");
  return context;
}

static void
assert_same (const char *name, GBytes *got, GBytes *expected)
{
  const guint32 *left = g_bytes_get_data (got, NULL);
  const guint32 *right = g_bytes_get_data (expected, NULL);

  for (guint i = 0; i < N_ITEMS * N_OUTPUTS; i++)
    if (left[i] != right[i])
      g_error ("%s: output %u of work-item %u is 0x%08x, on the host 0x%08x", name,
               i % N_OUTPUTS, i / N_OUTPUTS, left[i], right[i]);
}

static void
dialect_same_bits (TestFixture *fixture)
{
  g_autoptr (GpuContext) host = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_SOURCE | GPU_CAPABILITIES_ARGUMENT_INFO))
    return;
  host = host_context ();
  if (host == NULL)
    return;
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (GBytes) got = run (fixture->context, cases[i].source, cases[i].local_size,
                                    cases[i].options);
      g_autoptr (GBytes) expected = run (host, cases[i].source, cases[i].local_size,
                                         cases[i].options);

      assert_same (cases[i].name, got, expected);
    }
}

static void
dialect_vectors (TestFixture *fixture)
{
  g_autoptr (GBytes) got = NULL;
  g_autoptr (GBytes) expected = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_SOURCE | GPU_CAPABILITIES_ARGUMENT_INFO))
    return;
  if (g_str_equal (gpu_device_get_backend (fixture->device), "host"))
    {
      g_test_skip ("vector types of the host back end have no operators");
      return;
    }
  got = run (fixture->context, by_vectors, 0, NULL);
  expected = run (fixture->context, by_components, 0, NULL);
  assert_same ("vectors", got, expected);
}

static void
dialect_literals (TestFixture *fixture)
{
  g_autoptr (GBytes) got = NULL;
  g_autoptr (GBytes) expected = NULL;
  g_autoptr (GBytes) constants = NULL;
  g_autoptr (GBytes) expected_constants = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_SOURCE | GPU_CAPABILITIES_ARGUMENT_INFO))
    return;
  got = run (fixture->context, literals, 0, NULL);
  expected = run (fixture->context, no_literals, 0, NULL);
  assert_same ("literals", got, expected);
  constants = run (fixture->context, constant_literals, 0, NULL);
  expected_constants = run (fixture->context, no_constant_literals, 0, NULL);
  assert_same ("constants", constants, expected_constants);
}

/* Compiler messages refer to the lines of the original source. */
static void
assert_line (TestFixture *fixture, const char *wrong, const char *word, const char *line)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuProgram) program = NULL;

  program = gpu_program_new_from_source (fixture->context, wrong, NULL, &error);
  g_assert_null (program);
  test_assert_gpu_error (error, GPU_ERROR_BUILD_FAILED, word, line);
}

static void
dialect_line_numbers (TestFixture *fixture)
{
  static const char wrong[] =
    "/* one\n"
    "   two */\n"
    "#define MACRO \\\n"
    "  1\n"
    "__kernel void\n"
    "six (__global int *x,\n"
    "     __local int *y)\n"
    "{\n"
    "  x[0] = MACRO;\n"
    "  line_ten_is_wrong = y[0];\n"
    "}\n";
  static const char wrong_vectors[] =
    "__constant float4 one = (float4) (1,\n"
    "  2,\n"
    "  3, 4);\n"
    "__kernel void\n"
    "five (__global float4 *x)\n"
    "{\n"
    "  x[0] = (float4)\n"
    "    (1, 2,\n"
    "     (float2)\n"
    "     (3, 4));\n"
    "  x[1] = one;\n"
    "  line_twelve_is_wrong = 1;\n"
    "}\n";

  if (!test_has (fixture, GPU_CAPABILITIES_SOURCE))
    return;
  assert_line (fixture, wrong, "line_ten_is_wrong", "10");
  assert_line (fixture, wrong_vectors, "line_twelve_is_wrong", "12");
}

/* Compiler messages have the columns of the original source, if the compiler reports columns. */
static void
dialect_columns (TestFixture *fixture)
{
  static const char source[] =
    "__kernel __attribute__ ((reqd_work_group_size (4, 1, 1))) void f (__global int *x, "
    "__constant int *y, __local int *z) { __global int *a = x; a[0] = misplaced; }\n";
  const guint column = (guint) (strstr (source, "misplaced") - source) + 1;
  g_autofree char *place = g_strdup_printf (":1:%u", column);
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuProgram) program = NULL;

  /* The translation for CUDA preserves only lines. */
  if (!test_has (fixture, GPU_CAPABILITIES_SOURCE)
      || g_str_equal (gpu_device_get_backend (fixture->device), "cuda"))
    return;

  program = gpu_program_new_from_source (fixture->context, source, NULL, &error);
  g_assert_null (program);
  test_assert_gpu_error (error, GPU_ERROR_BUILD_FAILED, "misplaced", place);
}

/* Errors of a source in another language, or with a feature that the dialect lacks, say so. */
static void
dialect_other_language (TestFixture *fixture)
{
  static const char cuda[] = "extern \"C\" __global__ void f (int *x) { x[0] = 1; }\n";
  static const char half[] = "__kernel void f (__global float *x) { half h = x[0]; x[1] = h; }\n";
  static const char both[] =
    "__kernel void f (read_write image2d_t i)\n"
    "{ write_imagef (i, (int2) (1, 0), read_imagef (i, (int2) (0, 0))); }\n";
  const gboolean is_cuda = g_str_equal (gpu_device_get_backend (fixture->device), "cuda");
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuProgram) program = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_SOURCE))
    return;

  program = gpu_program_new_from_source (fixture->context, cuda, NULL, &error);
  g_assert_cmpint (program != NULL, ==, is_cuda);
  if (!is_cuda)
    test_assert_gpu_error (error, GPU_ERROR_BUILD_FAILED, "the source is CUDA C++",
                           "only builds on the CUDA back end");
  g_clear_object (&program);

  program = gpu_program_new_from_source (fixture->context, half, NULL, &error);
  if (program == NULL)          /* a driver may have cl_khr_fp16 */
    test_assert_gpu_error (error, GPU_ERROR_BUILD_FAILED, "has no type \"half\"");
  else
    g_assert_cmpstr (gpu_device_get_backend (fixture->device), ==, "opencl");
  g_clear_object (&program);

  program = gpu_program_new_from_source (fixture->context, both, NULL, &error);
  if (program == NULL)          /* a driver may have these images */
    test_assert_gpu_error (error, GPU_ERROR_BUILD_FAILED, "images that a kernel reads and writes");
  else
    g_assert_cmpstr (gpu_device_get_backend (fixture->device), ==, "opencl");
}

/* A program that defines a function with the name of a built-in function either builds, if the
 * compiler accepts it, or fails with an error that contains the name. */
static void
assert_reserved (TestFixture *fixture, const char *source, const char *name)
{
  const char *backend = gpu_device_get_backend (fixture->device);
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuProgram) program = NULL;
  g_autofree char *quoted = g_strdup_printf ("\"%s\"", name);

  program = gpu_program_new_from_source (fixture->context, source, NULL, &error);
  if (program == NULL)
    test_assert_gpu_error (error, GPU_ERROR_BUILD_FAILED, quoted, "built-in function", "rename");
  else
    g_assert_cmpstr (backend, ==, "opencl");
}

static void
dialect_reserved_names (TestFixture *fixture)
{
  static const char *const names[] =
  {
    "rotate", "mix", "step", "native_sin", "atomic_add", "convert_uchar_sat", "get_global_id"
  };
  static const char helper[] =
    "float clamp (float x) { return x < 0 ? 0 : x; }\n"
    "__kernel void run (__global float *x) { x[0] = clamp (x[0]); }\n";
  static const char unrelated[] =
    "float convert_float_image (float x) { return x; }\n"
    "float as_int_array (float x) { return x; }\n"
    "float vload4_test (float x) { return x; }\n"
    "float vstore_halfway (float x) { return x; }\n"
    "__kernel void rotated (__global float *mix) { mix[0] = undeclared; }\n";
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuProgram) program = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_SOURCE))
    return;

  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      g_autofree char *source = g_strdup_printf ("__kernel void %s (__global float *x, int n)\n"
                                                 "{ x[get_global_id (0)] = n; }\n", names[i]);

      assert_reserved (fixture, source, names[i]);
    }
  assert_reserved (fixture, helper, "clamp");

  program = gpu_program_new_from_source (fixture->context, unrelated, NULL, &error);
  g_assert_null (program);
  g_assert_error (error, GPU_ERROR, GPU_ERROR_BUILD_FAILED);
  g_assert_nonnull (strstr (error->message, "undeclared"));
  g_assert_null (strstr (error->message, "built-in function"));
}

/* Operators and functions on vectors are outside of the dialect. If the host rejects them, the
 * error says so, and errors of other kinds do not. */
static void
dialect_vector_operators (TestFixture *fixture)
{
  static const char vectors[] = "operators and no functions on vectors";
  static const struct { const char *statement, *advice; } builds[] =
  {
    { "x[2] = x[0] * x[1]", vectors }, { "x[2] = x[0] + 1", vectors },
    { "x[2] = sqrt (x[0])", vectors }, { "x[2].x = dot (x[0], x[1])", "no function 'dot'" },
    { "x[2] = vload4 (0, (__global float *) x)", "no function 'vload4'" },
    { "x[2] = -x[0]", vectors }, { "x[2] = 1.0f", vectors }, { "float4 v = 1.0f", vectors },
    /* Only for the host: other compilers reject some of these. */
    { "int4 v = (int4) (1); v = ~v", vectors }, { "int4 v = (int4) (1); v++", vectors },
    { "x[2].x = x[0] && x[1] ? 1 : 2", vectors }, { "if (x[0]) x[2].x = 1", vectors },
    { "x[2].xy = x[0].yx", vectors }, { "x[2].lo = x[0].hi", vectors },
    { "x[2] = select (x[0], x[1], x[2])", vectors }, { "if (isnan (x[0])) x[2].x = 1", vectors },
    { "x[2].x = undeclared", NULL }, { "x[2].x = misspelled (1)", NULL }, { "x[2].q = 1", NULL },
    { "x[2].x = x[0]", NULL }, { "x[2].x = four (1.0f)", NULL }, { "x[2].x = &x * 2", NULL }
  };
  const gboolean is_host = g_str_equal (gpu_device_get_backend (fixture->device), "host");

  if (!test_has (fixture, GPU_CAPABILITIES_SOURCE))
    return;

  for (guint i = 0; i < (is_host ? G_N_ELEMENTS (builds) : 8); i++)
    {
      g_autofree char *source = g_strdup_printf ("float four (float4 v) { return v.x; }\n"
                                                 "__kernel void run (__global float4 *x)\n"
                                                 "{ %s; }\n", builds[i].statement);
      g_autoptr (GError) error = NULL;
      g_autoptr (GpuProgram) program = NULL;

      program = gpu_program_new_from_source (fixture->context, source, NULL, &error);
      if (!is_host)
        {
          g_assert_no_error (error);
          continue;
        }
      g_assert_error (error, GPU_ERROR, GPU_ERROR_BUILD_FAILED);
      g_test_message ("%s: %s", builds[i].statement, error->message);
      g_assert_true ((strstr (error->message, "The portable dialect") != NULL)
                     == (builds[i].advice != NULL));
      g_assert_true (builds[i].advice == NULL || strstr (error->message, builds[i].advice) != NULL);
    }
}

/* The work-items of a group copy between global and local memory, of each type. They see the copies
 * of other work-items once they have waited. */
static void
dialect_group_copy (TestFixture *fixture)
{
  static const char source[] =
    "__kernel void run (__global const T *in, __global T *out, uint n)\n"
    "{\n"
    "  __local T tile[100], turned[100];\n"
    "  size_t first = get_group_id (0) * n;\n"
    "  event_t event = async_work_group_copy (tile, in + first, n, 0);\n"
    "  wait_group_events (1, &event);\n"
    "  for (uint i = (uint) (get_local_id (1) * get_local_size (0) + get_local_id (0)); i < n;\n"
    "       i += (uint) (get_local_size (0) * get_local_size (1)))\n"
    "    turned[n - 1 - i] = tile[i];\n"
    "  barrier (CLK_LOCAL_MEM_FENCE);\n"
    "  event = async_work_group_copy (out + first, turned, n, event);\n"
    "  wait_group_events (1, &event);\n"
    "}\n";
  static const struct { const char *option; gsize size; guint n; } types[] =
  {
    { "-DT=uint", 4, 100 }, { "-DT=uchar", 1, 12 }, { "-DT=float4", 16, 5 }, { "-DT=long", 8, 13 }
  };
  const GpuExtent grid = { 4 * 6, 3, 1 }, block = { 4, 3, 1 };
  g_autoptr (GError) error = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_SOURCE))
    return;

  for (gsize t = 0; t < G_N_ELEMENTS (types); t++)
    {
      const gsize n = types[t].n, size = types[t].size;
      g_autoptr (GpuProgram) program = gpu_program_new_from_source (fixture->context, source,
                                                                    types[t].option, &error);
      g_autoptr (GBytes) bytes = test_random_bytes (7 * n * size);
      g_autoptr (GpuBuffer) in = test_buffer_from (fixture, bytes);
      g_autoptr (GpuBuffer) out = test_buffer_from (fixture, bytes);
      g_autofree guint8 *turned = g_memdup2 (g_bytes_get_data (bytes, NULL), 7 * n * size);
      g_autoptr (GBytes) expected = NULL;
      g_autoptr (GpuKernel) kernel = NULL;

      g_assert_no_error (error);
      kernel = gpu_program_get_kernel (program, "run", &error);
      g_assert_no_error (error);
      test_assert_ok (gpu_stream_launch (fixture->stream, kernel, &grid, &block, &error, in, out,
                                         types[t].n), error);
      for (gsize i = 0; i < 6 * n; i++)         /* the seventh part stays */
        memcpy (turned + i * size, (const guint8 *) g_bytes_get_data (bytes, NULL)
                + (i / n * n + n - 1 - i % n) * size, size);
      expected = g_bytes_new (turned, 7 * n * size);
      test_assert_content (out, expected);
    }
}

/* Runs the kernel of dialect_group_strided_copy() with elements of @size bytes. */
static void
check_strided_copy (TestFixture *fixture,
                    GpuKernel   *kernel,
                    gsize        size,
                    guint        n,
                    guint        stride)
{
  const GpuExtent grid = { 4 * 6, 3, 1 }, block = { 4, 3, 1 };
  const gsize total = 6 * (gsize) n * stride;
  g_autoptr (GBytes) bytes = test_random_bytes (total * size);
  const guint8 *data = g_bytes_get_data (bytes, NULL);
  g_autofree guint8 *copied = g_malloc0 (total * size);
  g_autoptr (GBytes) zeros = g_bytes_new (copied, total * size);
  g_autoptr (GpuBuffer) in = test_buffer_from (fixture, bytes);
  g_autoptr (GpuBuffer) out = test_buffer_from (fixture, zeros);
  g_autoptr (GpuArguments) arguments = gpu_arguments_new ();
  g_autoptr (GBytes) expected = NULL;
  g_autoptr (GError) error = NULL;

  gpu_arguments_add_memory (arguments, GPU_MEMORY (in));
  gpu_arguments_add_memory (arguments, GPU_MEMORY (out));
  gpu_arguments_add_local (arguments, n * size);
  gpu_arguments_add_uint (arguments, n);
  gpu_arguments_add_uint (arguments, stride);
  test_assert_ok (gpu_stream_launch_arguments (fixture->stream, kernel, &grid, &block, arguments,
                                               &error), error);
  for (gsize i = 0; i < 6 * n; i++)
    {
      const gsize at = i * stride;

      memcpy (copied + (at + 1) * size, data + at * size, size);
      if (i % n < n - 1)
        memcpy (copied + (at + 2) * size, data + (at + stride + 1) * size, size);
      if (i % n == 0)
        memcpy (copied + at * size, data + at * size, size);
    }
  expected = g_bytes_new (copied, total * size);
  test_assert_content (out, expected);
}

/* Strided copies read from global memory to local memory with a stride, and write from local memory
 * with a stride: also through functions, and with local memory that is an argument. */
static void
dialect_group_strided_copy (TestFixture *fixture)
{
  static const char source[] =
    "event_t fetch (__local T *to, __global const T *from, uint n, uint stride)\n"
    "{ return async_work_group_strided_copy (to, from, n, stride, 0); }\n"
    "__kernel void run (__global const T *in, __global T *out, __local T *other, uint n,\n"
    "                   uint stride)\n"
    "{\n"
    "  __local T first, tile[50];\n"
    "  size_t begin = get_group_id (0) * n * stride;\n"
    "  event_t event = fetch (tile, in + begin, n, stride);\n"
    "  wait_group_events (1, &event);\n"
    "  event = fetch (other, in + begin + 1, n, stride);\n"
    "  event = async_work_group_strided_copy (&first, in + begin, 1, stride, event);\n"
    "  event = async_work_group_strided_copy (out + begin + 1, tile, n, stride, event);\n"
    "  wait_group_events (1, &event);\n"
    "  event = async_work_group_strided_copy (out + begin + 2, other + 1, n - 1, stride, 0);\n"
    "  event = async_work_group_strided_copy (out + begin, &first, 1, stride, event);\n"
    "  wait_group_events (1, &event);\n"
    "}\n";
  static const struct { const char *option; gsize size; guint n, stride; } types[] =
  {
    { "-DT=uint", 4, 50, 3 }, { "-DT=uchar", 1, 13, 5 }, { "-DT=float4", 16, 5, 3 },
    { "-DT=long", 8, 20, 4 }
  };

  if (!test_has (fixture, GPU_CAPABILITIES_SOURCE))
    return;

  for (gsize t = 0; t < G_N_ELEMENTS (types); t++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GpuProgram) program = gpu_program_new_from_source (fixture->context, source,
                                                                    types[t].option, &error);
      g_autoptr (GpuKernel) kernel = NULL;

      g_assert_no_error (error);
      kernel = gpu_program_get_kernel (program, "run", &error);
      g_assert_no_error (error);
      check_strided_copy (fixture, kernel, types[t].size, types[t].n, types[t].stride);
    }
}

/* The copies of a group convert elements of another type, which OpenCL drivers refuse. */
static void
dialect_group_conversion (TestFixture *fixture)
{
  static const char source[] =
    "__kernel void run (__global const uchar *in, __global int *out)\n"
    "{\n"
    "  __local float tile[8];\n"
    "  event_t event = async_work_group_strided_copy (tile, in, 8, 2, 0);\n"
    "  wait_group_events (1, &event);\n"
    "  event = async_work_group_copy (out, tile, 8, 0);\n"
    "  event = async_work_group_strided_copy (out + 8, tile, 8, 3, event);\n"
    "  wait_group_events (1, &event);\n"
    "}\n";
  const GpuExtent grid = { 4, 1, 1 };
  gint32 numbers[8 + 24] = { 0 };
  guint8 in_bytes[16];
  g_autoptr (GBytes) zeros = g_bytes_new (numbers, sizeof numbers);
  g_autoptr (GBytes) bytes = NULL;
  g_autoptr (GBytes) expected = NULL;
  g_autoptr (GpuBuffer) in = NULL;
  g_autoptr (GpuBuffer) out = test_buffer_from (fixture, zeros);
  g_autoptr (GpuProgram) program = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GError) error = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_SOURCE)
      || g_str_equal (gpu_device_get_backend (fixture->device), "opencl"))
    return;

  for (guint i = 0; i < 16; i++)
    in_bytes[i] = (guint8) (250 - 13 * i);
  for (guint i = 0; i < 8; i++)
    numbers[i] = numbers[8 + 3 * i] = in_bytes[2 * i];
  bytes = g_bytes_new (in_bytes, sizeof in_bytes);
  in = test_buffer_from (fixture, bytes);
  program = gpu_program_new_from_source (fixture->context, source, NULL, &error);
  g_assert_no_error (error);
  kernel = gpu_program_get_kernel (program, "run", &error);
  g_assert_no_error (error);
  test_assert_ok (gpu_stream_launch (fixture->stream, kernel, &grid, &grid, &error, in, out),
                  error);
  expected = g_bytes_new (numbers, sizeof numbers);
  test_assert_content (out, expected);
}

/* A program that undefines the name of a built-in function may define a function of that name. */
static void
dialect_undefined_builtin (TestFixture *fixture)
{
  static const char source[] =
    "#if defined (__GPUMEM_HOST__) || defined (__GPUMEM_CUDA__)\n"
    "#undef mix\n"
    "float mix (float x, float y, float a) { return a < 0.5f ? x : y; }\n"
    "#endif\n"
    "__kernel void run (__global float *x) { x[0] = mix (x[1], x[2], x[3]); }\n";
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuProgram) program = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_SOURCE))
    return;
  program = gpu_program_new_from_source (fixture->context, source, NULL, &error);
  g_assert_no_error (error);
}

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
  test_add ("same-bits", dialect_same_bits);
  test_add ("vectors", dialect_vectors);
  test_add ("literals", dialect_literals);
  test_add ("line-numbers", dialect_line_numbers);
  test_add ("columns", dialect_columns);
  test_add ("other-language", dialect_other_language);
  test_add ("reserved-names", dialect_reserved_names);
  test_add ("vector-operators", dialect_vector_operators);
  test_add ("group-copy", dialect_group_copy);
  test_add ("group-strided-copy", dialect_group_strided_copy);
  test_add ("group-conversion", dialect_group_conversion);
  test_add ("undefined-builtin", dialect_undefined_builtin);
  return test_run ();
}
