/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The first part of every program: definitions of OpenCL C that C can express. Includes no system
 * header, so that programs can use all other names.
 */
#include "config.h"

#include "gpumem/dialect/gpu-builtin-private.h"
#include "gpumem/dialect/gpu-source-private.h"
#include "gpumem/host/compiler/gpu-host-compiler.h"
#include "gpumem/host/executor/gpu-host-abi.h"

/* Qualifiers expand to words such as gpu_host_kernel, which the rewriter finds and removes. */
static const char language[] =
  "#define __GPUMEM_HOST__ 1\n"
  "#define __OPENCL_VERSION__ 120\n"
  "#define __OPENCL_C_VERSION__ 120\n"
  "#define CL_VERSION_1_0 100\n"
  "#define CL_VERSION_1_1 110\n"
  "#define CL_VERSION_1_2 120\n"
  "#define cl_khr_fp64 1\n"
  "#define cl_khr_int64_base_atomics 1\n"
  "#define cl_khr_int64_extended_atomics 1\n"
  "#define cl_khr_3d_image_writes 1\n"
  "#define __IMAGE_SUPPORT__ 1\n"
  "#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__\n"
  "#define __ENDIAN_LITTLE__ 1\n"
  "#endif\n"
  "#define __kernel gpu_host_kernel\n"
  "#define kernel gpu_host_kernel\n"
  "#define __global gpu_host_global\n"
  "#define global gpu_host_global\n"
  "#define __local gpu_host_local\n"
  "#define local gpu_host_local\n"
  "#define __constant gpu_host_constant\n"
  "#define constant gpu_host_constant\n"
  "#define __private\n"
  "#define private\n"
  "#define bool _Bool\n"
  "#define true 1\n"
  "#define false 0\n"
  "#define NULL ((void *) 0)\n"
  "typedef unsigned char uchar;\n"
  "typedef unsigned short ushort;\n"
  "typedef unsigned int uint;\n"
  "typedef unsigned long ulong;\n"
  "typedef __SIZE_TYPE__ size_t;\n"
  "typedef __PTRDIFF_TYPE__ ptrdiff_t;\n"
  "typedef __INTPTR_TYPE__ intptr_t;\n"
  "typedef __UINTPTR_TYPE__ uintptr_t;\n"
  "extern int printf (const char *, ...) __attribute__ ((format (printf, 1, 2)));\n";

/* Constants that gpu-source.c does not define. */
static const char constants[] =
  "#define HUGE_VALF __builtin_huge_valf ()\n"
  "#define HUGE_VAL __builtin_huge_val ()\n"
  "#define INFINITY __builtin_inff ()\n"
  "#define NAN __builtin_nanf (\"\")\n";

static const char work_items[] =
  "static __thread GpuHostItem *gpu_host_self;\n"
  "static inline uint get_work_dim (void) { return gpu_host_self->work_dim; }\n"
  "static inline size_t get_global_size (uint d)\n"
  "{ return d < 3 ? gpu_host_self->global_size[d] : 1; }\n"
  "static inline size_t get_local_size (uint d)\n"
  "{ return d < 3 ? gpu_host_self->local_size[d] : 1; }\n"
  "static inline size_t get_enqueued_local_size (uint d)\n"
  "{ return d < 3 ? gpu_host_self->block[d] : 1; }\n"
  "static inline size_t get_num_groups (uint d)\n"
  "{ return d < 3 ? gpu_host_self->n_groups[d] : 1; }\n"
  "static inline size_t get_group_id (uint d)\n"
  "{ return d < 3 ? gpu_host_self->group[d] : 0; }\n"
  "static inline size_t get_local_id (uint d)\n"
  "{ return d < 3 ? gpu_host_self->item[d] : 0; }\n"
  "static inline size_t get_global_offset (uint d)\n"
  "{ return d < 3 ? gpu_host_self->offset[d] : 0; }\n"
  "static inline size_t gpu_host_get_place (uint d)\n"
  "{ return get_group_id (d) * get_enqueued_local_size (d) + get_local_id (d); }\n"
  "static inline size_t get_global_id (uint d)\n"
  "{ return gpu_host_get_place (d) + get_global_offset (d); }\n"
  "static inline size_t get_global_linear_id (void)\n"
  "{ return (gpu_host_get_place (2) * get_global_size (1) + gpu_host_get_place (1))\n"
  "         * get_global_size (0) + gpu_host_get_place (0); }\n"
  "static inline size_t get_local_linear_id (void)\n"
  "{ return (get_local_id (2) * get_local_size (1) + get_local_id (1)) * get_local_size (0)\n"
  "         + get_local_id (0); }\n"
  "typedef uint cl_mem_fence_flags;\n"
  "#define CLK_LOCAL_MEM_FENCE 1\n"
  "#define CLK_GLOBAL_MEM_FENCE 2\n"
  "static inline void gpu_host_barrier (cl_mem_fence_flags flags)\n"
  "{\n"
  "  GpuHostItem *self = gpu_host_self;\n"
  "  (void) flags;\n"
  "  if (self->barrier) self->barrier (self);\n"
  "  gpu_host_self = self;\n"
  "}\n"
  "#define barrier(flags) gpu_host_barrier (flags)\n"
  "#define work_group_barrier(flags, ...) gpu_host_barrier (flags)\n"
  "#define mem_fence(flags) ((void) (flags), __atomic_thread_fence (__ATOMIC_SEQ_CST))\n"
  "#define read_mem_fence(flags) ((void) (flags), __atomic_thread_fence (__ATOMIC_ACQUIRE))\n"
  "#define write_mem_fence(flags) ((void) (flags), __atomic_thread_fence (__ATOMIC_RELEASE))\n"
  "#define prefetch(pointer, n) ((void) (pointer), (void) (n))\n"
  "typedef uint event_t;\n"
  "static __thread const char *gpu_host_locals, *gpu_host_locals_end;\n"
  "static inline void gpu_host_add_local (const void *variable, size_t size)\n"
  "{\n"
  "  const char *begin = variable;\n"
  "  if (!gpu_host_locals || begin < gpu_host_locals) gpu_host_locals = begin;\n"
  "  if (begin + size > gpu_host_locals_end) gpu_host_locals_end = begin + size;\n"
  "}\n"
  "static inline bool gpu_host_is_local (const volatile void *pointer)\n"
  "{\n"
  "  size_t at = (size_t) pointer;\n"
  "  return at - (size_t) gpu_host_self->scratch < gpu_host_self->scratch_size\n"
  "         || (at >= (size_t) gpu_host_locals && at < (size_t) gpu_host_locals_end);\n"
  "}\n"
  "#define GPU_HOST_GROUP_COPY(to, to_step, from, from_step, n, event) ({ \\\n"
  "  __auto_type gpu_host_to = (to); __auto_type gpu_host_from = (from); \\\n"
  "  size_t gpu_host_n = (n); \\\n"
  "  for (size_t gpu_host_i = get_local_linear_id (); gpu_host_i < gpu_host_n; \\\n"
  "       gpu_host_i += get_local_size (0) * get_local_size (1) * get_local_size (2)) \\\n"
  "    gpu_host_to[gpu_host_i * (to_step)] = gpu_host_from[gpu_host_i * (from_step)]; \\\n"
  "  (event_t) (event); })\n"
  "#define async_work_group_copy(to, from, n, event) \\\n"
  "  GPU_HOST_GROUP_COPY (to, 1, from, 1, n, event)\n"
  "#define async_work_group_strided_copy(to, from, n, stride, event) ({ \\\n"
  "  __auto_type gpu_host_target = (to); \\\n"
  "  size_t gpu_host_step = (stride); \\\n"
  "  bool gpu_host_gathers = gpu_host_is_local (gpu_host_target); \\\n"
  "  GPU_HOST_GROUP_COPY (gpu_host_target, gpu_host_gathers ? 1 : gpu_host_step, from, \\\n"
  "                       gpu_host_gathers ? gpu_host_step : 1, n, event); })\n"
  "#define wait_group_events(n, events) \\\n"
  "  ((void) (n), (void) (events), gpu_host_barrier (0))\n";

/* Functions for all scalar types. */
static const char common[] =
  "#define min(x, y) ({ __auto_type gpu_host_x = (x); __auto_type gpu_host_y = (y); \\\n"
  "  gpu_host_y < gpu_host_x ? gpu_host_y : gpu_host_x; })\n"
  "#define max(x, y) ({ __auto_type gpu_host_x = (x); __auto_type gpu_host_y = (y); \\\n"
  "  gpu_host_x < gpu_host_y ? gpu_host_y : gpu_host_x; })\n"
  "#define clamp(x, low, high) min (max (x, low), high)\n"
  "#define select(a, b, c) ((c) ? (b) : (a))\n"
  "#define bitselect(a, b, c) ({ __auto_type gpu_host_c = (c); \\\n"
  "  ((a) & ~gpu_host_c) | ((b) & gpu_host_c); })\n"
  "#define mix(x, y, a) ({ __auto_type gpu_host_x = (x); \\\n"
  "  gpu_host_x + ((y) - gpu_host_x) * (a); })\n"
  "#define step(edge, x) ({ __auto_type gpu_host_x = (x); \\\n"
  "  (__typeof__ (gpu_host_x)) (gpu_host_x < (edge) ? 0 : 1); })\n"
  "#define smoothstep(low, high, x) ({ __auto_type gpu_host_low = (low); \\\n"
  "  __auto_type gpu_host_t = clamp (((x) - gpu_host_low) / ((high) - gpu_host_low), \\\n"
  "                                  0.0f, 1.0f); \\\n"
  "  gpu_host_t * gpu_host_t * (3 - 2 * gpu_host_t); })\n"
  "#define sign(x) ({ __auto_type gpu_host_x = (x); \\\n"
  "  (__typeof__ (gpu_host_x)) (gpu_host_x > 0 ? 1 : gpu_host_x < 0 ? -1 \\\n"
  "                             : gpu_host_x == 0 ? gpu_host_x : 0); })\n"
  "#define degrees(x) ({ __auto_type gpu_host_x = (x); \\\n"
  "  (__typeof__ (gpu_host_x)) (gpu_host_x * (180.0 / M_PI)); })\n"
  "#define radians(x) ({ __auto_type gpu_host_x = (x); \\\n"
  "  (__typeof__ (gpu_host_x)) (gpu_host_x * (M_PI / 180.0)); })\n"
  "#define isnan(x) __builtin_isnan (x)\n"
  "#define isinf(x) (__builtin_isinf (x) != 0)\n"
  "#define isfinite(x) __builtin_isfinite (x)\n"
  "#define isnormal(x) __builtin_isnormal (x)\n"
  "#define signbit(x) (__builtin_signbit (x) != 0)\n"
  "#define GPU_HOST_AS(T, x) ({ __auto_type gpu_host_x = (x); T gpu_host_y; \\\n"
  "  _Static_assert (sizeof gpu_host_x == sizeof (T), \"as_\" #T \" requires the same size\"); \\\n"
  "  __builtin_memcpy (&gpu_host_y, &gpu_host_x, sizeof (T)); gpu_host_y; })\n";

static const char integers[] =
  "#define GPU_HOST_BITS(x) ((uint) sizeof (x) * 8)\n"
  "#define GPU_HOST_MASK(x) (~0UL >> (64 - GPU_HOST_BITS (x)))\n"
  "#define abs(x) ({ __auto_type gpu_host_x = (x); \\\n"
  "  (__typeof__ (gpu_host_x)) (gpu_host_x < 0 ? -gpu_host_x : gpu_host_x); })\n"
  "#define abs_diff(x, y) ({ __auto_type gpu_host_x = (x); __auto_type gpu_host_y = (y); \\\n"
  "  (__typeof__ (gpu_host_x)) (gpu_host_x < gpu_host_y ? gpu_host_y - gpu_host_x \\\n"
  "                                                     : gpu_host_x - gpu_host_y); })\n"
  "#define hadd(x, y) ({ __auto_type gpu_host_x = (x); __auto_type gpu_host_y = (y); \\\n"
  "  (__typeof__ (gpu_host_x)) (((__int128) gpu_host_x + gpu_host_y) >> 1); })\n"
  "#define rhadd(x, y) ({ __auto_type gpu_host_x = (x); __auto_type gpu_host_y = (y); \\\n"
  "  (__typeof__ (gpu_host_x)) (((__int128) gpu_host_x + gpu_host_y + 1) >> 1); })\n"
  "#define mul24(x, y) ((x) * (y))\n"
  "#define mad24(x, y, z) ((x) * (y) + (z))\n"
  "#define mul_hi(x, y) ({ __auto_type gpu_host_x = (x); __auto_type gpu_host_y = (y); \\\n"
  "  (__typeof__ (gpu_host_x)) (_Generic (gpu_host_x, \\\n"
  "    ulong: (unsigned __int128) gpu_host_x * (unsigned __int128) gpu_host_y, \\\n"
  "    default: (__int128) gpu_host_x * (__int128) gpu_host_y) >> GPU_HOST_BITS (gpu_host_x)); })\n"
  "#define mad_hi(x, y, z) (mul_hi (x, y) + (z))\n"
  "#define rotate(x, n) ({ __auto_type gpu_host_x = (x); \\\n"
  "  uint gpu_host_bits = GPU_HOST_BITS (gpu_host_x); \\\n"
  "  uint gpu_host_n = (uint) (n) & (gpu_host_bits - 1); \\\n"
  "  ulong gpu_host_v = (ulong) gpu_host_x & GPU_HOST_MASK (gpu_host_x); \\\n"
  "  (__typeof__ (gpu_host_x)) (gpu_host_v << gpu_host_n \\\n"
  "    | gpu_host_v >> ((gpu_host_bits - gpu_host_n) & (gpu_host_bits - 1))); })\n"
  "#define popcount(x) ({ __auto_type gpu_host_x = (x); (__typeof__ (gpu_host_x)) \\\n"
  "  __builtin_popcountl ((ulong) gpu_host_x & GPU_HOST_MASK (gpu_host_x)); })\n"
  "#define clz(x) ({ __auto_type gpu_host_x = (x); \\\n"
  "  ulong gpu_host_v = (ulong) gpu_host_x & GPU_HOST_MASK (gpu_host_x); \\\n"
  "  (__typeof__ (gpu_host_x)) (gpu_host_v == 0 ? GPU_HOST_BITS (gpu_host_x) \\\n"
  "    : __builtin_clzl (gpu_host_v) - (64 - GPU_HOST_BITS (gpu_host_x))); })\n"
  "#define ctz(x) ({ __auto_type gpu_host_x = (x); \\\n"
  "  ulong gpu_host_v = (ulong) gpu_host_x & GPU_HOST_MASK (gpu_host_x); \\\n"
  "  (__typeof__ (gpu_host_x)) (gpu_host_v == 0 ? GPU_HOST_BITS (gpu_host_x) \\\n"
  "    : (uint) __builtin_ctzl (gpu_host_v)); })\n"
  "#define GPU_HOST_SAT_LIKE(x, v) _Generic ((x), \\\n"
  "  char: gpu_host_sat_char_i, signed char: gpu_host_sat_char_i, \\\n"
  "  uchar: gpu_host_sat_uchar_i, short: gpu_host_sat_short_i, \\\n"
  "  ushort: gpu_host_sat_ushort_i, int: gpu_host_sat_int_i, uint: gpu_host_sat_uint_i, \\\n"
  "  long: gpu_host_sat_long_i, ulong: gpu_host_sat_ulong_i) (v)\n"
  "#define add_sat(x, y) GPU_HOST_SAT_LIKE (x, (__int128) (x) + (y))\n"
  "#define sub_sat(x, y) GPU_HOST_SAT_LIKE (x, (__int128) (x) - (y))\n";

static const char atomics[] =
  "#define atomic_add(p, v) __atomic_fetch_add ((p), (v), __ATOMIC_RELAXED)\n"
  "#define atomic_sub(p, v) __atomic_fetch_sub ((p), (v), __ATOMIC_RELAXED)\n"
  "#define atomic_and(p, v) __atomic_fetch_and ((p), (v), __ATOMIC_RELAXED)\n"
  "#define atomic_or(p, v) __atomic_fetch_or ((p), (v), __ATOMIC_RELAXED)\n"
  "#define atomic_xor(p, v) __atomic_fetch_xor ((p), (v), __ATOMIC_RELAXED)\n"
  "#define atomic_inc(p) __atomic_fetch_add ((p), 1, __ATOMIC_RELAXED)\n"
  "#define atomic_dec(p) __atomic_fetch_sub ((p), 1, __ATOMIC_RELAXED)\n"
  "#define atomic_xchg(p, v) ({ __auto_type gpu_host_p = (p); \\\n"
  "  __typeof__ (*gpu_host_p + 0) gpu_host_v = (v), gpu_host_old; \\\n"
  "  __atomic_exchange (gpu_host_p, &gpu_host_v, &gpu_host_old, __ATOMIC_RELAXED); \\\n"
  "  gpu_host_old; })\n"
  "#define atomic_cmpxchg(p, c, v) ({ __auto_type gpu_host_p = (p); \\\n"
  "  __typeof__ (*gpu_host_p + 0) gpu_host_old = (c); \\\n"
  "  __atomic_compare_exchange_n (gpu_host_p, &gpu_host_old, (v), 0, __ATOMIC_RELAXED, \\\n"
  "                               __ATOMIC_RELAXED); \\\n"
  "  gpu_host_old; })\n"
  "#define GPU_HOST_ATOMIC_IF(p, v, op) ({ __auto_type gpu_host_p = (p); \\\n"
  "  __typeof__ (*gpu_host_p + 0) gpu_host_v = (v); \\\n"
  "  __typeof__ (gpu_host_v) gpu_host_old = __atomic_load_n (gpu_host_p, __ATOMIC_RELAXED); \\\n"
  "  while (gpu_host_v op gpu_host_old \\\n"
  "         && !__atomic_compare_exchange_n (gpu_host_p, &gpu_host_old, gpu_host_v, 0, \\\n"
  "                                          __ATOMIC_RELAXED, __ATOMIC_RELAXED)) \\\n"
  "    ; \\\n"
  "  gpu_host_old; })\n"
  "#define atomic_min(p, v) GPU_HOST_ATOMIC_IF (p, v, <)\n"
  "#define atomic_max(p, v) GPU_HOST_ATOMIC_IF (p, v, >)\n"
  "#define atom_add atomic_add\n"
  "#define atom_sub atomic_sub\n"
  "#define atom_and atomic_and\n"
  "#define atom_or atomic_or\n"
  "#define atom_xor atomic_xor\n"
  "#define atom_inc atomic_inc\n"
  "#define atom_dec atomic_dec\n"
  "#define atom_xchg atomic_xchg\n"
  "#define atom_cmpxchg atomic_cmpxchg\n"
  "#define atom_min atomic_min\n"
  "#define atom_max atomic_max\n";

static const char mathematics[] =
  "static inline float gpu_host_rsqrt_f (float x) { return 1.0f / __builtin_sqrtf (x); }\n"
  "static inline double gpu_host_rsqrt_d (double x) { return 1.0 / __builtin_sqrt (x); }\n"
  "#define rsqrt(x) _Generic ((x), float: gpu_host_rsqrt_f, default: gpu_host_rsqrt_d) (x)\n"
  "#define exp10(x) pow (_Generic ((x), float: 10.0f, default: 10.0), x)\n"
  "#define sinpi(x) sin (_Generic ((x), float: M_PI_F, default: M_PI) * (x))\n"
  "#define cospi(x) cos (_Generic ((x), float: M_PI_F, default: M_PI) * (x))\n"
  "#define powr(x, y) pow (x, y)\n"
  "#define pown(x, n) pow (x, _Generic ((x), float: (float) (n), default: (double) (n)))\n"
  "#define ldexp(x, n) _Generic ((x), float: __builtin_ldexpf (x, n), \\\n"
  "                              default: __builtin_ldexp (x, n))\n"
  "#define ilogb(x) _Generic ((x), float: __builtin_ilogbf (x), default: __builtin_ilogb (x))\n"
  "#define fma(x, y, z) _Generic ((x) + (y) + (z), float: __builtin_fmaf (x, y, z), \\\n"
  "                               default: __builtin_fma (x, y, z))\n"
  "#define mad(x, y, z) ((x) * (y) + (z))\n"
  "#define maxmag(x, y) (fabs (x) > fabs (y) ? (x) : fabs (y) > fabs (x) ? (y) : fmax (x, y))\n"
  "#define minmag(x, y) (fabs (x) < fabs (y) ? (x) : fabs (y) < fabs (x) ? (y) : fmin (x, y))\n"
  "#define fract(x, p) ({ __auto_type gpu_host_x = (x); \\\n"
  "  *(p) = floor (gpu_host_x); \\\n"
  "  fmin (gpu_host_x - floor (gpu_host_x), \\\n"
  "        _Generic (gpu_host_x, float: 0x1.fffffep-1f, default: 0x1.fffffffffffffp-1)); })\n"
  "#define modf(x, p) _Generic ((x), \\\n"
  "  float: __builtin_modff (x, (void *) (p)), default: __builtin_modf (x, (void *) (p)))\n"
  "#define frexp(x, p) _Generic ((x), \\\n"
  "  float: __builtin_frexpf (x, p), default: __builtin_frexp (x, p))\n"
  "#define sincos(x, p) ({ __auto_type gpu_host_a = (x); *(p) = cos (gpu_host_a); \\\n"
  "  sin (gpu_host_a); })\n"
  "#define native_divide(x, y) ((x) / (y))\n"
  "#define half_divide(x, y) ((x) / (y))\n"
  "#define native_recip(x) (1.0f / (x))\n"
  "#define half_recip(x) (1.0f / (x))\n"
  "#define native_powr(x, y) pow (x, y)\n"
  "#define half_powr(x, y) pow (x, y)\n";

/* Integer types with their bounds, and floating-point types. */
static const struct
{
  const char *name;
  const char *low;
  const char *high;
  gboolean    is_float;
}
types[] =
{
  { "char", "SCHAR_MIN", "SCHAR_MAX", FALSE },
  { "uchar", "0", "UCHAR_MAX", FALSE },
  { "short", "SHRT_MIN", "SHRT_MAX", FALSE },
  { "ushort", "0", "USHRT_MAX", FALSE },
  { "int", "INT_MIN", "INT_MAX", FALSE },
  { "uint", "0", "UINT_MAX", FALSE },
  { "long", "LONG_MIN", "LONG_MAX", FALSE },
  { "ulong", "0", "ULONG_MAX", FALSE },
  { "float", NULL, NULL, TRUE },
  { "double", NULL, NULL, TRUE }
};

static const struct
{
  const char *suffix;
  const char *function;
}
roundings[] =
{
  { "_rte", "rint" },
  { "_rtz", "trunc" },
  { "_rtp", "ceil" },
  { "_rtn", "floor" }
};

/* Appends macros that round floating-point values and leave integers unchanged. */
static void
append_roundings (GString *text)
{
  for (gsize i = 0; i < G_N_ELEMENTS (roundings); i++)
    g_string_append_printf (text,
                            "#define gpu_host%s(x) _Generic ((x), "
                            "float: __builtin_%sf ((float) (x)), "
                            "double: __builtin_%s ((double) (x)), default: (x))\n",
                            roundings[i].suffix, roundings[i].function, roundings[i].function);
}

static void
append_saturation (GString    *text,
                   const char *name,
                   const char *low,
                   const char *high)
{
  g_string_append_printf (text,
                          "static inline %s gpu_host_sat_%s_i (__int128 x)\n"
                          "{ return x < %s ? %s : x > %s ? %s : (%s) x; }\n",
                          name, name, low, low, high, high, name);
  g_string_append_printf (text,
                          "static inline %s gpu_host_sat_%s_d (double x)\n"
                          "{ return x != x ? 0 : x <= (double) %s ? %s"
                          " : x >= (double) %s ? %s : (%s) x; }\n",
                          name, name, low, low, high, high, name);
  g_string_append_printf (text,
                          "#define convert_%s_sat(x) _Generic ((x), float: gpu_host_sat_%s_d, "
                          "double: gpu_host_sat_%s_d, default: gpu_host_sat_%s_i) (x)\n",
                          name, name, name, name);
}

static void
append_conversions (GString *text)
{
  append_roundings (text);

  for (gsize i = 0; i < G_N_ELEMENTS (types); i++)
    {
      const char *name = types[i].name;

      g_string_append_printf (text,
                              "#define convert_%s(x) ((%s) (x))\n"
                              "#define as_%s(x) GPU_HOST_AS (%s, x)\n",
                              name, name, name, name);

      if (!types[i].is_float)
        append_saturation (text, name, types[i].low, types[i].high);

      for (gsize j = 0; j < G_N_ELEMENTS (roundings); j++)
        {
          const char *suffix = roundings[j].suffix;

          if (types[i].is_float)
            g_string_append_printf (text, "#define convert_%s%s(x) ((%s) (x))\n", name, suffix,
                                    name);
          else
            g_string_append_printf (text,
                                    "#define convert_%s%s(x) ((%s) gpu_host%s (x))\n"
                                    "#define convert_%s_sat%s(x) convert_%s_sat (gpu_host%s (x))\n",
                                    name, suffix, name, suffix, name, suffix, name, suffix);
        }
    }
}

static void
append_mathematics (GString *text)
{
  for (const char *const *name = _gpu_builtin_unary; *name != NULL; name++)
    g_string_append_printf (text,
                            "static inline float gpu_host_%s_f (float x)"
                            " { return __builtin_%sf (x); }\n"
                            "static inline double gpu_host_%s_d (double x)"
                            " { return __builtin_%s (x); }\n"
                            "#define %s(x) _Generic ((x), float: gpu_host_%s_f, "
                            "default: gpu_host_%s_d) (x)\n",
                            *name, *name, *name, *name, *name, *name, *name);

  for (const char *const *name = _gpu_builtin_binary; *name != NULL; name++)
    g_string_append_printf (text,
                            "static inline float gpu_host_%s_f (float x, float y)"
                            " { return __builtin_%sf (x, y); }\n"
                            "static inline double gpu_host_%s_d (double x, double y)"
                            " { return __builtin_%s (x, y); }\n"
                            "#define %s(x, y) _Generic ((x) + (y), float: gpu_host_%s_f, "
                            "default: gpu_host_%s_d) (x, y)\n",
                            *name, *name, *name, *name, *name, *name, *name);

  for (const char *const *name = _gpu_builtin_fast; *name != NULL; name++)
    g_string_append_printf (text, "#define native_%s(x) %s (x)\n#define half_%s(x) %s (x)\n",
                            *name, *name, *name, *name);

  g_string_append (text, mathematics);
}

char *
_gpu_host_prelude_new (gboolean images)
{
  GString *text = g_string_new (GPU_HOST_ABI (GPU_HOST_ABI_AS_TEXT) "\n");

  g_string_append (text, language);
  g_string_append (text, _gpu_source_constants);
  g_string_append (text, constants);
  g_string_append (text, work_items);
  g_string_append (text, common);
  append_conversions (text);
  g_string_append (text, integers);
  g_string_append (text, atomics);
  append_mathematics (text);

  if (images)
    _gpu_host_prelude_append_images (text);

  return g_string_free (text, FALSE);
}
