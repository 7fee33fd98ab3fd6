/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The prelude of programs. It includes no header, so that a program can use any name. CUDA uses the
 * names of some functions of OpenCL C. The prelude defines these functions under names that begin
 * with gpu_, and macros with the names of OpenCL C.
 */
#include "config.h"

#include "gpumem/cuda/compiler/gpu-cuda-compiler.h"
#include "gpumem/dialect/gpu-builtin-private.h"
#include "gpumem/dialect/gpu-source-private.h"

/* This part is also the prelude of CUDA C++ programs. All names begin with gpu_, even those in the
 * expansion of GPU_DESCRIBE, because macros of the program could replace names without this prefix.
 * GPU_DESCRIBE calls a second macro, so that a kernel name that is a macro is expanded first. */
static const char description[] =
  "template <class T> struct gpu_type { enum { code = 'v' }; };\n"
  "#define GPU_CODE(T, c) template <> struct gpu_type<T> { enum { code = c }; };\n"
  "GPU_CODE (char, 'b') GPU_CODE (signed char, 'b') GPU_CODE (unsigned char, 'B')\n"
  "GPU_CODE (bool, '?') GPU_CODE (short, 'h') GPU_CODE (unsigned short, 'H')\n"
  "GPU_CODE (int, 'i') GPU_CODE (unsigned, 'I')\n"
  "GPU_CODE (long, 'q') GPU_CODE (unsigned long, 'Q') GPU_CODE (long long, 'q')\n"
  "GPU_CODE (unsigned long long, 'Q') GPU_CODE (float, 'f') GPU_CODE (double, 'd')\n"
  "template <class T> struct gpu_type<const T> : gpu_type<T> { };\n"
  "template <class T> struct gpu_type<volatile T> : gpu_type<T> { };\n"
  "template <class T> struct gpu_type<const volatile T> : gpu_type<T> { };\n"
  "template <class T> struct gpu_is_const { enum { value = 0 }; };\n"
  "template <class T> struct gpu_is_const<const T> { enum { value = 1 }; };\n"
  "template <class P> struct gpu_local;\n"
  "struct gpu_argument\n"
  "{\n"
  "  char kind, type, read_only, reserved;\n"
  "  unsigned size;\n"
  "};\n"
  "template <class T> struct gpu_parameter\n"
  "{\n"
  "  static __device__ constexpr gpu_argument get ()\n"
  "  { return { 'v', gpu_type<T>::code, 0, 0, sizeof (T) }; }\n"
  "};\n"
  "template <class T> struct gpu_parameter<T *>\n"
  "{\n"
  "  static __device__ constexpr gpu_argument get ()\n"
  "  { return { 'p', gpu_type<T>::code, gpu_is_const<T>::value, 0, sizeof (T *) }; }\n"
  "};\n"
  "template <class T> struct gpu_parameter<gpu_local<T *>>\n"
  "{\n"
  "  static __device__ constexpr gpu_argument get ()\n"
  "  { return { 'l', gpu_type<T>::code, 0, 0, 4 }; }\n"
  "};\n"
  "template <unsigned N, unsigned L> struct gpu_info\n"
  "{\n"
  "  unsigned version, language, n_arguments, block[3], text_size;\n"
  "  gpu_argument arguments[N + 1];\n"
  "  char text[L];\n"
  "};\n"
  "struct gpu_block\n"
  "{\n"
  "  unsigned x, y, z;\n"
  "  __device__ constexpr gpu_block (unsigned a, unsigned b = 1, unsigned c = 1)\n"
  "  : x (a), y (b), z (c) { }\n"
  "};\n"
  "__device__ constexpr unsigned gpu_product (unsigned x, unsigned y = 1, unsigned z = 1)\n"
  "{ return x * y * z; }\n"
  "template <class F> struct gpu_signature;\n"
  "template <class... A> struct gpu_signature<void (A...)>\n"
  "{\n"
  "  enum { gpu_n = sizeof... (A) };\n"
  "  template <unsigned L> static __device__ constexpr gpu_info<gpu_n, L>\n"
  "  gpu_describe (unsigned language, gpu_block block, const char (&text)[L])\n"
  "  {\n"
  "    gpu_info<gpu_n, L> info = { 1, language, gpu_n, { block.x, block.y, block.z }, L,\n"
  "                                { gpu_parameter<A>::get ()..., { } }, { } };\n"
  "    for (unsigned i = 0; i < L; i++)\n"
  "      info.text[i] = text[i];\n"
  "    return info;\n"
  "  }\n"
  "};\n"
  "#define GPU_DESCRIBE_NAMED(kernel_, language, block, text) \\\n"
  "  extern \"C\" { __device__ gpu_info<gpu_signature<decltype (kernel_)>::gpu_n, sizeof text> \\\n"
  "  gpu_info_##kernel_ = \\\n"
  "  gpu_signature<decltype (kernel_)>::gpu_describe (language, block, text); }\n"
  "#define GPU_DESCRIBE(kernel_, language, block, text) \\\n"
  "  GPU_DESCRIBE_NAMED (kernel_, language, block, text)\n";

/* Keywords and types of OpenCL C. Keywords that CUDA uses as names, such as "global", cannot be
 * macros; gpu-cuda-rewrite.c replaces them. */
static const char language[] =
  "#define __GPUMEM_CUDA__ 1\n"
  "#define __OPENCL_VERSION__ 120\n"
  "#define __OPENCL_C_VERSION__ 120\n"
  "#define CL_VERSION_1_0 100\n"
  "#define CL_VERSION_1_1 110\n"
  "#define CL_VERSION_1_2 120\n"
  "#define cl_khr_fp64 1\n"
  "#define cl_khr_int64_base_atomics 1\n"
  "#define cl_khr_int64_extended_atomics 1\n"
  "#define __ENDIAN_LITTLE__ 1\n"
  "#define __kernel extern \"C\" __global__\n"
  "#define __global\n"
  "#define __constant const\n"
  "#define __local __shared__\n"
  "#define __private\n"
  "#define restrict __restrict__\n"
  "#ifndef NULL\n"
  "#define NULL 0\n"
  "#endif\n"
  "typedef unsigned char uchar;\n"
  "typedef unsigned short ushort;\n"
  "typedef unsigned int uint;\n"
  "typedef unsigned long ulong;\n"
  "typedef decltype (sizeof 0) size_t;\n"
  "typedef decltype ((char *) 0 - (char *) 0) ptrdiff_t;\n"
  "typedef ptrdiff_t intptr_t;\n"
  "typedef size_t uintptr_t;\n"
  "#define GPU_INLINE inline __device__\n"
  "#define GPU_EACH_INTEGER(_) \\\n"
  "  _(char) _(uchar) _(short) _(ushort) _(int) _(uint) _(long) _(ulong)\n"
  "#define GPU_EACH_TYPE(_) GPU_EACH_INTEGER (_) _(float) _(double)\n"
  "extern __shared__ __align__ (16) unsigned char gpu_shared[];\n"
  "template <class P> struct gpu_local\n"
  "{\n"
  "  uint offset;\n"
  "  __device__ P get () const { return (P) (gpu_shared + offset); }\n"
  "};\n";

/* Constants in addition to those of gpu-source.c. */
static const char constants[] =
  "#define INFINITY gpu_as<float> (0x7f800000U)\n"
  "#define NAN gpu_as<float> (0x7fc00000U)\n"
  "#define HUGE_VALF INFINITY\n"
  "#define HUGE_VAL ((double) INFINITY)\n";

static const char work_items[] =
  "#define GPU_PICK(d, of, other) ((d) == 0 ? of.x : (d) == 1 ? of.y : (d) == 2 ? of.z : other)\n"
  "GPU_INLINE size_t get_local_id (uint d) { return GPU_PICK (d, threadIdx, 0); }\n"
  "GPU_INLINE size_t get_local_size (uint d) { return GPU_PICK (d, blockDim, 1); }\n"
  "GPU_INLINE size_t get_enqueued_local_size (uint d) { return GPU_PICK (d, blockDim, 1); }\n"
  "GPU_INLINE size_t get_group_id (uint d) { return GPU_PICK (d, blockIdx, 0); }\n"
  "GPU_INLINE size_t get_num_groups (uint d) { return GPU_PICK (d, gridDim, 1); }\n"
  "GPU_INLINE size_t get_global_size (uint d) { return get_num_groups (d) * get_local_size (d); }\n"
  "#ifdef GPU_PART\n"
  "GPU_INLINE size_t get_global_offset (uint) { return 0; }\n"
  "#else\n"
  "extern \"C\" { __constant__ size_t " GPU_CUDA_OFFSET_NAME "[3]; }\n"
  "GPU_INLINE size_t get_global_offset (uint d)\n"
  "{ return d < 3 ? " GPU_CUDA_OFFSET_NAME "[d] : 0; }\n"
  "#endif\n"
  "GPU_INLINE size_t gpu_get_place (uint d)\n"
  "{ return get_group_id (d) * get_local_size (d) + get_local_id (d); }\n"
  "GPU_INLINE size_t get_global_id (uint d) { return gpu_get_place (d) + get_global_offset (d); }\n"
  "GPU_INLINE size_t get_global_linear_id ()\n"
  "{ return (gpu_get_place (2) * get_global_size (1) + gpu_get_place (1)) * get_global_size (0)\n"
  "         + gpu_get_place (0); }\n"
  "GPU_INLINE size_t get_local_linear_id ()\n"
  "{ return (get_local_id (2) * get_local_size (1) + get_local_id (1)) * get_local_size (0)\n"
  "         + get_local_id (0); }\n"
  "GPU_INLINE uint get_work_dim ()\n"
  "{ return get_global_size (2) > 1 || get_global_offset (2) > 0 ? 3\n"
  "         : get_global_size (1) > 1 || get_global_offset (1) > 0 ? 2 : 1; }\n"
  "typedef uint cl_mem_fence_flags;\n"
  "#define CLK_LOCAL_MEM_FENCE 1\n"
  "#define CLK_GLOBAL_MEM_FENCE 2\n"
  "GPU_INLINE void mem_fence (cl_mem_fence_flags flags)\n"
  "{\n"
  "  if (flags & CLK_GLOBAL_MEM_FENCE)\n"
  "    __threadfence ();\n"
  "  else\n"
  "    __threadfence_block ();\n"
  "}\n"
  "#define read_mem_fence(flags) mem_fence (flags)\n"
  "#define write_mem_fence(flags) mem_fence (flags)\n"
  "#define barrier(flags) __syncthreads ()\n"
  "#define work_group_barrier(...) __syncthreads ()\n"
  "#define prefetch(pointer, n) ((void) (pointer), (void) (n))\n"
  "typedef uint event_t;\n"
  "template <class T, class F>\n"
  "GPU_INLINE event_t gpu_group_copy (T *to, size_t to_step, const F *from, size_t from_step,\n"
  "                                   size_t n, event_t event)\n"
  "{\n"
  "  size_t n_items = get_local_size (0) * get_local_size (1) * get_local_size (2);\n"
  "  for (size_t i = get_local_linear_id (); i < n; i += n_items)\n"
  "    to[i * to_step] = from[i * from_step];\n"
  "  return event;\n"
  "}\n"
  "template <class T, class F>\n"
  "GPU_INLINE event_t async_work_group_copy (T *to, const F *from, size_t n, event_t event)\n"
  "{ return gpu_group_copy (to, 1, from, 1, n, event); }\n"
  "template <class T, class F>\n"
  "GPU_INLINE event_t async_work_group_strided_copy (T *to, const F *from, size_t n,\n"
  "                                                  size_t stride, event_t event)\n"
  "{\n"
  "  bool gathers = __isShared ((const void *) to);\n"
  "  return gpu_group_copy (to, gathers ? 1 : stride, from, gathers ? stride : 1, n, event);\n"
  "}\n"
  "#define wait_group_events(n, events) ((void) (n), (void) (events), __syncthreads ())\n";

static const char conversions[] =
  "template <class T, class F> GPU_INLINE T gpu_as (F from)\n"
  "{\n"
  "  static_assert (sizeof (T) == sizeof (F), \"a type of another size\");\n"
  "  union { F from; T to; } both = { from };\n"
  "  return both.to;\n"
  "}\n"
  "template <class T> struct gpu_range;\n"
  "#define GPU_RANGE(T, low_, high_) template <> struct gpu_range<T> \\\n"
  "  { \\\n"
  "    static __device__ constexpr T low () { return low_; } \\\n"
  "    static __device__ constexpr T high () { return high_; } \\\n"
  "  };\n"
  "GPU_RANGE (char, CHAR_MIN, CHAR_MAX) GPU_RANGE (uchar, 0, UCHAR_MAX)\n"
  "GPU_RANGE (short, SHRT_MIN, SHRT_MAX) GPU_RANGE (ushort, 0, USHRT_MAX)\n"
  "GPU_RANGE (int, INT_MIN, INT_MAX) GPU_RANGE (uint, 0, UINT_MAX)\n"
  "GPU_RANGE (long, LONG_MIN, LONG_MAX) GPU_RANGE (ulong, 0, ULONG_MAX)\n"
  "template <class T, class F> GPU_INLINE T gpu_saturate (F x)\n"
  "{\n"
  "  if ((F) -1 > (F) 0)\n"
  "    return x > (ulong) gpu_range<T>::high () ? gpu_range<T>::high () : (T) x;\n"
  "  if (x < 0)\n"
  "    return gpu_range<T>::low () == 0 ? (T) 0\n"
  "           : (long) x < (long) gpu_range<T>::low () ? gpu_range<T>::low () : (T) x;\n"
  "  return (ulong) x > (ulong) gpu_range<T>::high () ? gpu_range<T>::high () : (T) x;\n"
  "}\n"
  "template <class T> GPU_INLINE T gpu_saturate (double x)\n"
  "{\n"
  "  return x != x ? (T) 0 : x <= (double) gpu_range<T>::low () ? gpu_range<T>::low ()\n"
  "         : x >= (double) gpu_range<T>::high () ? gpu_range<T>::high () : (T) x;\n"
  "}\n"
  "template <class T> GPU_INLINE T gpu_saturate (float x)\n"
  "{ return gpu_saturate<T> ((double) x); }\n"
  "#define GPU_ROUNDING(suffix, function) \\\n"
  "  template <class F> GPU_INLINE F gpu_round##suffix (F x) { return x; } \\\n"
  "  GPU_INLINE float gpu_round##suffix (float x) { return function##f (x); } \\\n"
  "  GPU_INLINE double gpu_round##suffix (double x) { return function (x); }\n"
  "GPU_ROUNDING (_rte, rint) GPU_ROUNDING (_rtz, trunc)\n"
  "GPU_ROUNDING (_rtp, ceil) GPU_ROUNDING (_rtn, floor)\n"
  "#define GPU_CONVERT_VECTOR(T, N, name, expression) \\\n"
  "  template <class F> GPU_INLINE gpu_vector<T, N> convert_##name (gpu_vector<F, N> from) \\\n"
  "  { gpu_vector<T, N> result; \\\n"
  "    for (int i = 0; i < N; i++) { F x = from[i]; result[i] = expression; } \\\n"
  "    return result; }\n"
  "#define GPU_CONVERT(T, suffix, expression) \\\n"
  "  template <class F> GPU_INLINE T convert_##T##suffix (F x) { return expression; } \\\n"
  "  GPU_CONVERT_VECTOR (T, 2, T##2##suffix, expression) \\\n"
  "  GPU_CONVERT_VECTOR (T, 3, T##3##suffix, expression) \\\n"
  "  GPU_CONVERT_VECTOR (T, 4, T##4##suffix, expression) \\\n"
  "  GPU_CONVERT_VECTOR (T, 8, T##8##suffix, expression) \\\n"
  "  GPU_CONVERT_VECTOR (T, 16, T##16##suffix, expression)\n"
  "#define GPU_CONVERT_ROUNDED(T, suffix) \\\n"
  "  GPU_CONVERT (T, suffix, (T) gpu_round##suffix (x)) \\\n"
  "  GPU_CONVERT (T, _sat##suffix, gpu_saturate<T> (gpu_round##suffix (x)))\n"
  "#define GPU_CONVERT_INTEGER(T) \\\n"
  "  GPU_CONVERT (T, _sat, gpu_saturate<T> (x)) \\\n"
  "  GPU_CONVERT_ROUNDED (T, _rte) GPU_CONVERT_ROUNDED (T, _rtz) \\\n"
  "  GPU_CONVERT_ROUNDED (T, _rtp) GPU_CONVERT_ROUNDED (T, _rtn)\n"
  "GPU_EACH_INTEGER (GPU_CONVERT_INTEGER)\n"
  "#define GPU_CONVERT_ANY(T) GPU_CONVERT (T, , (T) x)\n"
  "GPU_EACH_TYPE (GPU_CONVERT_ANY)\n"
  "#define GPU_CONVERT_REAL(T) \\\n"
  "  GPU_CONVERT (T, _rte, (T) x) GPU_CONVERT (T, _rtz, (T) x) \\\n"
  "  GPU_CONVERT (T, _rtp, (T) x) GPU_CONVERT (T, _rtn, (T) x)\n"
  "GPU_CONVERT_REAL (float) GPU_CONVERT_REAL (double)\n"
  "#define GPU_AS(T) \\\n"
  "  template <class F> GPU_INLINE T as_##T (F x) { return gpu_as<T> (x); } \\\n"
  "  template <class F> GPU_INLINE gpu_vector<T, 2> as_##T##2 (F x) \\\n"
  "  { return gpu_as<gpu_vector<T, 2>> (x); } \\\n"
  "  template <class F> GPU_INLINE gpu_vector<T, 3> as_##T##3 (F x) \\\n"
  "  { return gpu_as<gpu_vector<T, 3>> (x); } \\\n"
  "  template <class F> GPU_INLINE gpu_vector<T, 4> as_##T##4 (F x) \\\n"
  "  { return gpu_as<gpu_vector<T, 4>> (x); } \\\n"
  "  template <class F> GPU_INLINE gpu_vector<T, 8> as_##T##8 (F x) \\\n"
  "  { return gpu_as<gpu_vector<T, 8>> (x); } \\\n"
  "  template <class F> GPU_INLINE gpu_vector<T, 16> as_##T##16 (F x) \\\n"
  "  { return gpu_as<gpu_vector<T, 16>> (x); }\n"
  "GPU_EACH_TYPE (GPU_AS)\n";

static const char common[] =
  "#define GPU_LIFT_1(name) \\\n"
  "  template <class T, int N> GPU_INLINE gpu_vector<T, N> name (gpu_vector<T, N> x) \\\n"
  "  GPU_EACH (name (x[i]))\n"
  "#define GPU_LIFT_2(name) \\\n"
  "  template <class T, int N> \\\n"
  "  GPU_INLINE gpu_vector<T, N> name (gpu_vector<T, N> x, gpu_vector<T, N> y) \\\n"
  "  GPU_EACH (name (x[i], y[i])) \\\n"
  "  template <class T, int N, class S, GPU_ENABLE (S)> \\\n"
  "  GPU_INLINE gpu_vector<T, N> name (gpu_vector<T, N> x, S y) GPU_EACH (name (x[i], (T) y))\n"
  "#define GPU_LIFT_3(name) \\\n"
  "  template <class T, int N> GPU_INLINE gpu_vector<T, N> \\\n"
  "  name (gpu_vector<T, N> x, gpu_vector<T, N> y, gpu_vector<T, N> z) \\\n"
  "  GPU_EACH (name (x[i], y[i], z[i])) \\\n"
  "  template <class T, int N, class S, class U, GPU_ENABLE (S), class = GPU_SCALAR_OF (U)> \\\n"
  "  GPU_INLINE gpu_vector<T, N> name (gpu_vector<T, N> x, S y, U z) \\\n"
  "  GPU_EACH (name (x[i], (T) y, (T) z)) \\\n"
  "  template <class T, int N, class S, GPU_ENABLE (S)> \\\n"
  "  GPU_INLINE gpu_vector<T, N> name (gpu_vector<T, N> x, gpu_vector<T, N> y, S z) \\\n"
  "  GPU_EACH (name (x[i], y[i], (T) z))\n"
  "template <class A, class B> GPU_INLINE auto gpu_min (A x, B y) { return y < x ? y : x; }\n"
  "template <class A, class B> GPU_INLINE auto gpu_max (A x, B y) { return x < y ? y : x; }\n"
  "GPU_LIFT_2 (gpu_min) GPU_LIFT_2 (gpu_max)\n"
  "template <class A, class B, class C> GPU_INLINE auto gpu_clamp (A x, B low, C high)\n"
  "{ return gpu_min (gpu_max (x, low), high); }\n"
  "template <class A, class B, class C> GPU_INLINE auto gpu_mix (A x, B y, C a)\n"
  "{ return x + (y - x) * a; }\n"
  "template <class A, class B, class C> GPU_INLINE auto gpu_mad (A x, B y, C z)\n"
  "{ return x * y + z; }\n"
  "template <class A, class B, class C> GPU_INLINE auto gpu_select (A a, B b, C c)\n"
  "{ return c ? b : a; }\n"
  "template <class T, int N, class C>\n"
  "GPU_INLINE gpu_vector<T, N>\n"
  "gpu_select (gpu_vector<T, N> a, gpu_vector<T, N> b, gpu_vector<C, N> c)\n"
  "GPU_EACH (c[i] < 0 ? b[i] : a[i])\n"
  "template <class T> GPU_INLINE T gpu_bitselect (T a, T b, T c) { return (a & ~c) | (b & c); }\n"
  "template <class E, class T> GPU_INLINE T gpu_step (E edge, T x)\n"
  "{ return (T) (x < edge ? 0 : 1); }\n"
  "template <class A, class B, class C> GPU_INLINE auto gpu_smoothstep (A low, B high, C x)\n"
  "{\n"
  "  auto t = gpu_clamp ((x - low) / (high - low), 0.0f, 1.0f);\n"
  "  return t * t * (3 - 2 * t);\n"
  "}\n"
  "template <class T> GPU_INLINE T gpu_sign (T x)\n"
  "{ return (T) (x > 0 ? 1 : x < 0 ? -1 : x == 0 ? x : 0); }\n"
  "template <class T> GPU_INLINE T gpu_degrees (T x) { return (T) (x * (180.0 / M_PI)); }\n"
  "template <class T> GPU_INLINE T gpu_radians (T x) { return (T) (x * (M_PI / 180.0)); }\n"
  "template <class T> GPU_INLINE int gpu_isnan (T x) { return x != x; }\n"
  "template <class T> GPU_INLINE int gpu_isinf (T x) { return x == x && x - x != x - x; }\n"
  "template <class T> GPU_INLINE int gpu_isfinite (T x) { return x - x == x - x; }\n"
  "GPU_INLINE int gpu_isnormal (float x)\n"
  "{ return gpu_isfinite (x) && (x >= FLT_MIN || x <= -FLT_MIN); }\n"
  "GPU_INLINE int gpu_isnormal (double x)\n"
  "{ return gpu_isfinite (x) && (x >= DBL_MIN || x <= -DBL_MIN); }\n"
  "GPU_INLINE int gpu_signbit (float x) { return gpu_as<int> (x) < 0; }\n"
  "GPU_INLINE int gpu_signbit (double x) { return gpu_as<long> (x) < 0; }\n"
  "template <class T> GPU_INLINE int gpu_any (T x) { return x < 0; }\n"
  "template <class T, int N> GPU_INLINE int gpu_any (gpu_vector<T, N> x)\n"
  "{ int result = 0; for (int i = 0; i < N; i++) result |= x[i] < 0; return result; }\n"
  "template <class T> GPU_INLINE int gpu_all (T x) { return x < 0; }\n"
  "template <class T, int N> GPU_INLINE int gpu_all (gpu_vector<T, N> x)\n"
  "{ int result = 1; for (int i = 0; i < N; i++) result &= x[i] < 0; return result; }\n";

static const char integers[] =
  "template <class T> GPU_INLINE uint gpu_bits (T) { return 8 * sizeof (T); }\n"
  "template <class T> GPU_INLINE ulong gpu_unsigned (T x)\n"
  "{ return (ulong) x & ~0UL >> (64 - gpu_bits (x)); }\n"
  "template <class T> GPU_INLINE T gpu_abs (T x) { return x < 0 ? -x : x; }\n"
  "template <class T> GPU_INLINE T gpu_abs_diff (T x, T y) { return x < y ? y - x : x - y; }\n"
  "template <class T> GPU_INLINE T gpu_hadd (T x, T y) { return (x & y) + ((x ^ y) >> 1); }\n"
  "template <class T> GPU_INLINE T gpu_rhadd (T x, T y) { return (x | y) - ((x ^ y) >> 1); }\n"
  "template <class A, class B> GPU_INLINE auto gpu_mul24 (A x, B y) { return x * y; }\n"
  "GPU_INLINE ulong gpu_mul_hi (ulong x, ulong y)\n"
  "{\n"
  "  ulong low = (x & UINT_MAX) * (y & UINT_MAX);\n"
  "  ulong middle = (x >> 32) * (y & UINT_MAX) + (low >> 32);\n"
  "  ulong other = (x & UINT_MAX) * (y >> 32) + (middle & UINT_MAX);\n"
  "  return (x >> 32) * (y >> 32) + (middle >> 32) + (other >> 32);\n"
  "}\n"
  "GPU_INLINE long gpu_mul_hi (long x, long y)\n"
  "{ return gpu_mul_hi ((ulong) x, (ulong) y) - (x < 0 ? y : 0) - (y < 0 ? x : 0); }\n"
  "GPU_INLINE uint gpu_mul_hi (uint x, uint y) { return (ulong) x * y >> 32; }\n"
  "template <class T> GPU_INLINE T gpu_mul_hi (T x, T y) { return (long) x * y >> gpu_bits (x); }\n"
  "template <class T> GPU_INLINE T gpu_mad_hi (T x, T y, T z) { return gpu_mul_hi (x, y) + z; }\n"
  "template <class T, class S> GPU_INLINE T gpu_rotate (T x, S by)\n"
  "{\n"
  "  uint bits = gpu_bits (x);\n"
  "  uint n = (uint) by & (bits - 1);\n"
  "  return (T) (gpu_unsigned (x) << n | gpu_unsigned (x) >> ((bits - n) & (bits - 1)));\n"
  "}\n"
  "template <class T> GPU_INLINE T gpu_popcount (T x) { return __popcll (gpu_unsigned (x)); }\n"
  "template <class T> GPU_INLINE T gpu_clz (T x)\n"
  "{ return __clzll (gpu_unsigned (x)) - (64 - gpu_bits (x)); }\n"
  "template <class T> GPU_INLINE T gpu_ctz (T x)\n"
  "{ return x == 0 ? gpu_bits (x) : __ffsll (gpu_unsigned (x)) - 1; }\n"
  "GPU_INLINE ulong gpu_add_sat (ulong x, ulong y) { return x + y < x ? ULONG_MAX : x + y; }\n"
  "GPU_INLINE ulong gpu_sub_sat (ulong x, ulong y) { return y > x ? 0 : x - y; }\n"
  "GPU_INLINE long gpu_add_sat (long x, long y)\n"
  "{\n"
  "  long sum = (long) ((ulong) x + (ulong) y);\n"
  "  return ((x ^ sum) & (y ^ sum)) >= 0 ? sum : x < 0 ? LONG_MIN : LONG_MAX;\n"
  "}\n"
  "GPU_INLINE long gpu_sub_sat (long x, long y)\n"
  "{\n"
  "  long difference = (long) ((ulong) x - (ulong) y);\n"
  "  return ((x ^ y) & (x ^ difference)) >= 0 ? difference : x < 0 ? LONG_MIN : LONG_MAX;\n"
  "}\n"
  "template <class T> GPU_INLINE T gpu_add_sat (T x, T y)\n"
  "{ return gpu_saturate<T> ((long) x + (long) y); }\n"
  "template <class T> GPU_INLINE T gpu_sub_sat (T x, T y)\n"
  "{ return gpu_saturate<T> ((long) x - (long) y); }\n"
  "GPU_LIFT_1 (gpu_abs) GPU_LIFT_1 (gpu_popcount) GPU_LIFT_1 (gpu_clz) GPU_LIFT_1 (gpu_ctz)\n"
  "GPU_LIFT_2 (gpu_abs_diff) GPU_LIFT_2 (gpu_hadd) GPU_LIFT_2 (gpu_rhadd) GPU_LIFT_2 (gpu_mul_hi)\n"
  "GPU_LIFT_2 (gpu_rotate) GPU_LIFT_2 (gpu_add_sat) GPU_LIFT_2 (gpu_sub_sat)\n";

static const char atomics[] =
  "template <class T> struct gpu_atomic;\n"
  "#define GPU_ATOMIC(T, B, C) \\\n"
  "  template <> struct gpu_atomic<T> { typedef B bits; typedef C ordered; };\n"
  "GPU_ATOMIC (int, int, int) GPU_ATOMIC (uint, unsigned, unsigned)\n"
  "GPU_ATOMIC (long, unsigned long long, long long)\n"
  "GPU_ATOMIC (ulong, unsigned long long, unsigned long long)\n"
  "GPU_ATOMIC (long long, unsigned long long, long long)\n"
  "GPU_ATOMIC (unsigned long long, unsigned long long, unsigned long long)\n"
  "#define GPU_ATOMIC_OP(name, function, kind) \\\n"
  "  template <class T, class V> GPU_INLINE T gpu_atomic_##name (volatile T *at, V value) \\\n"
  "  { typedef typename gpu_atomic<T>::kind K; return (T) function ((K *) at, (K) (T) value); }\n"
  "GPU_ATOMIC_OP (add, atomicAdd, bits) GPU_ATOMIC_OP (and, atomicAnd, bits)\n"
  "GPU_ATOMIC_OP (or, atomicOr, bits) GPU_ATOMIC_OP (xor, atomicXor, bits)\n"
  "GPU_ATOMIC_OP (xchg, atomicExch, bits) GPU_ATOMIC_OP (min, atomicMin, ordered)\n"
  "GPU_ATOMIC_OP (max, atomicMax, ordered)\n"
  "template <class V> GPU_INLINE float gpu_atomic_xchg (volatile float *at, V value)\n"
  "{ return atomicExch ((float *) at, (float) value); }\n"
  "template <class T, class V> GPU_INLINE T gpu_atomic_sub (volatile T *at, V value)\n"
  "{ return gpu_atomic_add (at, (T) (0 - (ulong) (T) value)); }\n"
  "template <class T, class C, class V>\n"
  "GPU_INLINE T gpu_atomic_cmpxchg (volatile T *at, C compare, V value)\n"
  "{\n"
  "  typedef typename gpu_atomic<T>::bits B;\n"
  "  return (T) atomicCAS ((B *) at, (B) (T) compare, (B) (T) value);\n"
  "}\n";

static const char mathematics[] =
  "GPU_INLINE float gpu_rsqrt (float x) { return 1.0f / ::sqrtf (x); }\n"
  "GPU_INLINE double gpu_rsqrt (double x) { return 1.0 / ::sqrt (x); }\n"
  "GPU_INLINE float gpu_exp10 (float x) { return ::powf (10.0f, x); }\n"
  "GPU_INLINE double gpu_exp10 (double x) { return ::pow (10.0, x); }\n"
  "GPU_INLINE float gpu_sinpi (float x) { return ::sinf (M_PI_F * x); }\n"
  "GPU_INLINE double gpu_sinpi (double x) { return ::sin (M_PI * x); }\n"
  "GPU_INLINE float gpu_cospi (float x) { return ::cosf (M_PI_F * x); }\n"
  "GPU_INLINE double gpu_cospi (double x) { return ::cos (M_PI * x); }\n"
  "GPU_INLINE float gpu_pown (float x, int n) { return ::powf (x, (float) n); }\n"
  "GPU_INLINE double gpu_pown (double x, int n) { return ::pow (x, (double) n); }\n"
  "GPU_INLINE float gpu_ldexp (float x, int n) { return ::ldexpf (x, n); }\n"
  "GPU_INLINE double gpu_ldexp (double x, int n) { return ::ldexp (x, n); }\n"
  "GPU_INLINE int gpu_ilogb (float x) { return ::ilogbf (x); }\n"
  "GPU_INLINE int gpu_ilogb (double x) { return ::ilogb (x); }\n"
  "GPU_INLINE float gpu_fma (float x, float y, float z) { return ::fmaf (x, y, z); }\n"
  "GPU_INLINE double gpu_fma (double x, double y, double z) { return ::fma (x, y, z); }\n"
  "GPU_INLINE float gpu_frexp (float x, int *p) { return ::frexpf (x, p); }\n"
  "GPU_INLINE double gpu_frexp (double x, int *p) { return ::frexp (x, p); }\n"
  "GPU_INLINE float gpu_modf (float x, float *p) { return ::modff (x, p); }\n"
  "GPU_INLINE double gpu_modf (double x, double *p) { return ::modf (x, p); }\n"
  "GPU_LIFT_1 (gpu_rsqrt) GPU_LIFT_1 (gpu_exp10) GPU_LIFT_1 (gpu_sinpi) GPU_LIFT_1 (gpu_cospi)\n"
  "GPU_LIFT_3 (gpu_fma)\n"
  "template <class T> GPU_INLINE T gpu_fract (T x, T *p)\n"
  "{\n"
  "  T largest = sizeof (T) == 4 ? (T) 0.999999940395355224609375 : (T) (1 - DBL_EPSILON / 2);\n"
  "  *p = gpu_floor (x);\n"
  "  return gpu_fmin (x - *p, largest);\n"
  "}\n"
  "template <class T> GPU_INLINE T gpu_sincos (T x, T *p)\n"
  "{ *p = gpu_cos (x); return gpu_sin (x); }\n"
  "template <class T> GPU_INLINE T gpu_maxmag (T x, T y)\n"
  "{ T a = gpu_fabs (x), b = gpu_fabs (y); return a > b ? x : b > a ? y : gpu_fmax (x, y); }\n"
  "template <class T> GPU_INLINE T gpu_minmag (T x, T y)\n"
  "{ T a = gpu_fabs (x), b = gpu_fabs (y); return a < b ? x : b < a ? y : gpu_fmin (x, y); }\n"
  "template <class T> GPU_INLINE T gpu_dot (T x, T y) { return x * y; }\n"
  "template <class T, int N> GPU_INLINE T gpu_dot (gpu_vector<T, N> x, gpu_vector<T, N> y)\n"
  "{\n"
  "  T sum = x[0] * y[0];\n"
  "  for (int i = 1; i < N; i++)\n"
  "    sum = sum + x[i] * y[i];\n"
  "  return sum;\n"
  "}\n"
  "template <class V> GPU_INLINE auto gpu_length (V x) { return gpu_sqrt (gpu_dot (x, x)); }\n"
  "template <class V> GPU_INLINE auto gpu_distance (V x, V y) { return gpu_length (x - y); }\n"
  "template <class V> GPU_INLINE V gpu_normalize (V x) { return x / gpu_length (x); }\n"
  "template <class T, int N>\n"
  "GPU_INLINE gpu_vector<T, N> gpu_cross (gpu_vector<T, N> a, gpu_vector<T, N> b)\n"
  "{\n"
  "  gpu_vector<T, N> result = 0;\n"
  "  result.x = a.y * b.z - a.z * b.y;\n"
  "  result.y = a.z * b.x - a.x * b.z;\n"
  "  result.z = a.x * b.y - a.y * b.x;\n"
  "  return result;\n"
  "}\n";

/* Functions of OpenCL C that are neither in _gpu_builtin_unary nor in _gpu_builtin_binary, with
 * their parameters. */
static const char *const functions[] =
{
  "min(x, y)", "max(x, y)", "clamp(x, y, z)", "mix(x, y, z)", "mad(x, y, z)", "select(x, y, z)",
  "bitselect(x, y, z)", "step(x, y)", "smoothstep(x, y, z)", "sign(x)", "degrees(x)",
  "radians(x)", "isnan(x)", "isinf(x)", "isfinite(x)", "isnormal(x)", "signbit(x)", "any(x)",
  "all(x)", "abs(x)", "abs_diff(x, y)", "hadd(x, y)", "rhadd(x, y)", "mul24(x, y)",
  "mul_hi(x, y)", "mad_hi(x, y, z)", "rotate(x, y)", "popcount(x)", "clz(x)", "ctz(x)",
  "add_sat(x, y)", "sub_sat(x, y)", "rsqrt(x)", "exp10(x)", "sinpi(x)", "cospi(x)", "pown(x, y)",
  "ldexp(x, y)", "ilogb(x)", "fma(x, y, z)", "frexp(x, y)", "modf(x, y)", "fract(x, y)",
  "sincos(x, y)", "maxmag(x, y)", "minmag(x, y)", "dot(x, y)", "length(x)", "distance(x, y)",
  "normalize(x)", "cross(x, y)", "atomic_add(x, y)", "atomic_sub(x, y)", "atomic_and(x, y)",
  "atomic_or(x, y)", "atomic_xor(x, y)", "atomic_xchg(x, y)", "atomic_min(x, y)",
  "atomic_max(x, y)", "atomic_cmpxchg(x, y, z)"
};

static const char synonyms[] =
  "#define mad24(x, y, z) gpu_mad (x, y, z)\n"
  "#define powr(x, y) gpu_pow (x, y)\n"
  "#define native_powr(x, y) gpu_pow (x, y)\n"
  "#define half_powr(x, y) gpu_pow (x, y)\n"
  "#define native_divide(x, y) ((x) / (y))\n"
  "#define half_divide(x, y) ((x) / (y))\n"
  "#define native_recip(x) (1.0f / (x))\n"
  "#define half_recip(x) (1.0f / (x))\n"
  "#define fast_length(x) gpu_length (x)\n"
  "#define fast_distance(x, y) gpu_distance (x, y)\n"
  "#define fast_normalize(x) gpu_normalize (x)\n"
  "#define atomic_inc(x) gpu_atomic_add (x, 1)\n"
  "#define atomic_dec(x) gpu_atomic_sub (x, 1)\n"
  "#define atom_add(x, y) gpu_atomic_add (x, y)\n"
  "#define atom_sub(x, y) gpu_atomic_sub (x, y)\n"
  "#define atom_and(x, y) gpu_atomic_and (x, y)\n"
  "#define atom_or(x, y) gpu_atomic_or (x, y)\n"
  "#define atom_xor(x, y) gpu_atomic_xor (x, y)\n"
  "#define atom_inc(x) gpu_atomic_add (x, 1)\n"
  "#define atom_dec(x) gpu_atomic_sub (x, 1)\n"
  "#define atom_xchg(x, y) gpu_atomic_xchg (x, y)\n"
  "#define atom_cmpxchg(x, y, z) gpu_atomic_cmpxchg (x, y, z)\n"
  "#define atom_min(x, y) gpu_atomic_min (x, y)\n"
  "#define atom_max(x, y) gpu_atomic_max (x, y)\n";

static void
append_vector_names (GString *text)
{
  static const char *const types[] =
  {
    "char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", "float", "double"
  };
  static const guint lengths[] = { 2, 3, 4, 8, 16 };

  for (gsize i = 0; i < G_N_ELEMENTS (types); i++)
    {
      for (gsize j = 0; j < G_N_ELEMENTS (lengths); j++)
        g_string_append_printf (text, "#define %s%u gpu_%s%u\n", types[i], lengths[j], types[i],
                                lengths[j]);
    }
}

static void
append_mathematics (GString *text)
{
  for (const char *const *name = _gpu_builtin_unary; *name != NULL; name++)
    g_string_append_printf (text,
                            "GPU_INLINE float gpu_%s (float x) { return ::%sf (x); }\n"
                            "GPU_INLINE double gpu_%s (double x) { return ::%s (x); }\n"
                            "GPU_LIFT_1 (gpu_%s)\n",
                            *name, *name, *name, *name, *name);

  for (const char *const *name = _gpu_builtin_binary; *name != NULL; name++)
    g_string_append_printf (text,
                            "GPU_INLINE float gpu_%s (float x, float y)"
                            " { return ::%sf (x, y); }\n"
                            "GPU_INLINE double gpu_%s (double x, double y)"
                            " { return ::%s (x, y); }\n"
                            "GPU_LIFT_2 (gpu_%s)\n",
                            *name, *name, *name, *name, *name);

  g_string_append (text, mathematics);
}

/* Appends macros with the names of OpenCL C functions. They hide CUDA's functions of the same
 * names, so code that uses the functions of CUDA must precede the macros. */
static void
append_macros (GString *text)
{
  for (const char *const *name = _gpu_builtin_unary; *name != NULL; name++)
    g_string_append_printf (text, "#define %s(x) gpu_%s (x)\n", *name, *name);

  for (const char *const *name = _gpu_builtin_binary; *name != NULL; name++)
    g_string_append_printf (text, "#define %s(x, y) gpu_%s (x, y)\n", *name, *name);

  for (gsize i = 0; i < G_N_ELEMENTS (functions); i++)
    g_string_append_printf (text, "#define %s gpu_%s\n", functions[i], functions[i]);

  for (const char *const *name = _gpu_builtin_fast; *name != NULL; name++)
    g_string_append_printf (text,
                            "#define native_%s(x) gpu_%s (x)\n#define half_%s(x) gpu_%s (x)\n",
                            *name, *name, *name, *name);

  g_string_append (text, synonyms);
}

void
_gpu_cuda_prelude_append (GString         *text,
                          GpuCudaLanguage  language_,
                          gboolean         has_images)
{
  g_string_append (text, description);

  if (language_ != GPU_CUDA_LANGUAGE_PORTABLE)
    return;

  g_string_append (text, language);
  g_string_append (text, _gpu_source_constants);
  g_string_append (text, constants);
  g_string_append (text, work_items);
  _gpu_cuda_prelude_append_vectors (text);
  if (has_images)
    _gpu_cuda_prelude_append_native (text);
  append_vector_names (text);
  g_string_append (text, conversions);
  g_string_append (text, common);
  g_string_append (text, integers);
  g_string_append (text, atomics);
  append_mathematics (text);
  if (has_images)
    _gpu_cuda_prelude_append_images (text);
  append_macros (text);
}
