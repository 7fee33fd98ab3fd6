/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The stand-in for NVRTC puts kernel.h and this file before every CUDA C++ program that it compiles
 * for the host. CUDA's keywords become:
 *
 *   __global__, __device__, __constant__ ...    attributes, or nothing
 *   __shared__                                  static thread_local, because the blocks of a launch
 *                                               run one after another in one thread
 */
typedef unsigned int       gpumem_u32;
typedef unsigned long long gpumem_u64;
typedef __SIZE_TYPE__      size_t;
typedef __PTRDIFF_TYPE__   ptrdiff_t;

#define __CUDACC__ 1
#define __CUDACC_RTC__ 1
#define __CUDACC_VER_MAJOR__ 13
#define __CUDACC_VER_MINOR__ 0
#define warpSize 32

/* --- vectors ---------------------------------------------------------------------------------- */

#define GPUMEM_VECTORS(T, N)                                                       \
  struct N##1 { T x; };                                                            \
  struct alignas (2 * sizeof (T)) N##2 { T x, y; };                                \
  struct N##3 { T x, y, z; };                                                      \
  struct alignas (sizeof (T) < 8 ? 4 * sizeof (T) : 16) N##4 { T x, y, z, w; };    \
  static inline N##1 make_##N##1 (T x) { return { x }; }                           \
  static inline N##2 make_##N##2 (T x, T y) { return { x, y }; }                   \
  static inline N##3 make_##N##3 (T x, T y, T z) { return { x, y, z }; }           \
  static inline N##4 make_##N##4 (T x, T y, T z, T w) { return { x, y, z, w }; }

GPUMEM_VECTORS (signed char, char)
GPUMEM_VECTORS (unsigned char, uchar)
GPUMEM_VECTORS (short, short)
GPUMEM_VECTORS (unsigned short, ushort)
GPUMEM_VECTORS (int, int)
GPUMEM_VECTORS (unsigned int, uint)
GPUMEM_VECTORS (long, long)
GPUMEM_VECTORS (unsigned long, ulong)
GPUMEM_VECTORS (long long, longlong)
GPUMEM_VECTORS (unsigned long long, ulonglong)
GPUMEM_VECTORS (float, float)
GPUMEM_VECTORS (double, double)

struct dim3
{
  unsigned int x, y, z;

  constexpr dim3 (unsigned int x = 1, unsigned int y = 1, unsigned int z = 1) : x (x), y (y), z (z)
  {
  }
  constexpr dim3 (uint3 v) : x (v.x), y (v.y), z (v.z)
  {
  }
};

/* --- the thread that runs --------------------------------------------------------------------- */

/* Weak, so that all linked units share one variable. */
__attribute__ ((weak)) __thread gpumem_thread *gpumem_self;

/* The type of variables declared with extern __shared__ T NAME[] outside of functions; see
 * scan.c. */
template <class T> struct gpumem_shared
{
  operator T * () const { return (T *) gpumem_self->shared; }
  template <class U> explicit operator U * () const { return (U *) gpumem_self->shared; }
};

#define threadIdx (*reinterpret_cast<const uint3 *> (gpumem_self->thread))
#define blockIdx (*reinterpret_cast<const uint3 *> (gpumem_self->block))
#define blockDim (*reinterpret_cast<const uint3 *> (gpumem_self->block_size))
#define gridDim (*reinterpret_cast<const uint3 *> (gpumem_self->grid_size))

static inline void __syncthreads () { gpumem_self->barrier (gpumem_self); }
static inline void __syncwarp (unsigned int mask = ~0u)
{
  gpumem_self->warp_barrier (gpumem_self, mask);
}
static inline unsigned int __isShared (const void *pointer)
{
  size_t place = reinterpret_cast<size_t> (pointer);

  return place - reinterpret_cast<size_t> (gpumem_self->shared) < gpumem_self->shared_size
         || place - reinterpret_cast<size_t> (gpumem_self->variables) < gpumem_self->variables_size;
}
static inline void __threadfence () { __atomic_thread_fence (__ATOMIC_SEQ_CST); }
static inline void __threadfence_block () { __atomic_thread_fence (__ATOMIC_SEQ_CST); }
static inline void __threadfence_system () { __atomic_thread_fence (__ATOMIC_SEQ_CST); }
static inline void __nanosleep (unsigned int) { }
[[noreturn]] static inline void __trap ()
{
  gpumem_self->stop (gpumem_self, 719);
  __builtin_unreachable ();
}
[[noreturn]] static inline void gpumem_assert_failed ()
{
  gpumem_self->stop (gpumem_self, 710);
  __builtin_unreachable ();
}
#define assert(condition) ((condition) ? (void) 0 : gpumem_assert_failed ())

template <class T> static inline T
gpumem_exchange (unsigned int mask, T value, unsigned int lane)
{
  T result;

  static_assert (sizeof (T) <= 8, "eight bytes at most");
  __builtin_memcpy (&gpumem_self->slots[gpumem_self->lane], &value, sizeof value);
  __syncwarp (mask);
  __builtin_memcpy (&result, &gpumem_self->slots[lane], sizeof result);
  __syncwarp (mask);
  return result;
}

template <class T> static inline T
__shfl_sync (unsigned int mask, T value, int lane, int width = 32)
{
  return gpumem_exchange (mask, value, (gpumem_self->lane & ~(width - 1)) | (lane & (width - 1)));
}

template <class T> static inline T
__shfl_up_sync (unsigned int mask, T value, unsigned int by, int width = 32)
{
  unsigned int self = gpumem_self->lane;

  return gpumem_exchange (mask, value, (self & (width - 1)) < by ? self : self - by);
}

template <class T> static inline T
__shfl_down_sync (unsigned int mask, T value, unsigned int by, int width = 32)
{
  unsigned int self = gpumem_self->lane;

  return gpumem_exchange (mask, value,
                          (self & (width - 1)) + by >= (unsigned int) width ? self : self + by);
}

template <class T> static inline T
__shfl_xor_sync (unsigned int mask, T value, int with, int width = 32)
{
  unsigned int self = gpumem_self->lane;
  unsigned int other = self ^ with;

  return gpumem_exchange (mask, value, (other & ~(width - 1)) != (self & ~(width - 1)) ? self
                                                                                      : other);
}

static inline unsigned int
__ballot_sync (unsigned int mask, int predicate)
{
  unsigned int ballot = 0;

  for (unsigned int i = 0; i < 32; i++)
    if ((mask >> i & 1) != 0)
      ballot |= (unsigned int) (gpumem_exchange (mask, predicate != 0, i) ? 1 : 0) << i;
  return ballot;
}

static inline int __any_sync (unsigned int mask, int value)
{
  return __ballot_sync (mask, value) != 0;
}
static inline int __all_sync (unsigned int mask, int value)
{
  return __ballot_sync (mask, !value) == 0;
}

/* --- atomics ---------------------------------------------------------------------------------- */

template <class T> static inline T atomicAdd (T *place, T value)
{
  return __atomic_fetch_add (place, value, __ATOMIC_SEQ_CST);
}

#define GPUMEM_ATOMIC_FLOAT(T, BITS)                                               \
  template <> inline T atomicAdd<T> (T *place, T value)                            \
  {                                                                                \
    BITS *bits = reinterpret_cast<BITS *> (place);                                 \
    BITS old = __atomic_load_n (bits, __ATOMIC_SEQ_CST);                           \
    for (;;)                                                                       \
      {                                                                            \
        T from, to;                                                                \
        BITS wanted;                                                               \
        __builtin_memcpy (&from, &old, sizeof from);                               \
        to = from + value;                                                         \
        __builtin_memcpy (&wanted, &to, sizeof to);                                \
        if (__atomic_compare_exchange_n (bits, &old, wanted, false,                \
                                         __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))      \
          return from;                                                             \
      }                                                                            \
  }
GPUMEM_ATOMIC_FLOAT (float, gpumem_u32)
GPUMEM_ATOMIC_FLOAT (double, gpumem_u64)

template <class T> static inline T atomicSub (T *place, T value)
{
  return __atomic_fetch_sub (place, value, __ATOMIC_SEQ_CST);
}
template <class T> static inline T atomicAnd (T *place, T value)
{
  return __atomic_fetch_and (place, value, __ATOMIC_SEQ_CST);
}
template <class T> static inline T atomicOr (T *place, T value)
{
  return __atomic_fetch_or (place, value, __ATOMIC_SEQ_CST);
}
template <class T> static inline T atomicXor (T *place, T value)
{
  return __atomic_fetch_xor (place, value, __ATOMIC_SEQ_CST);
}
template <class T> static inline T atomicExch (T *place, T value)
{
  T old;

  __atomic_exchange (place, &value, &old, __ATOMIC_SEQ_CST);
  return old;
}
template <class T> static inline T atomicCAS (T *place, T expected, T value)
{
  __atomic_compare_exchange_n (place, &expected, value, false, __ATOMIC_SEQ_CST,
                               __ATOMIC_SEQ_CST);
  return expected;
}

template <class T, class Better> static inline T
gpumem_atomic_best (T *place, T value, Better better)
{
  T old = __atomic_load_n (place, __ATOMIC_SEQ_CST);

  while (better (value, old) &&
         !__atomic_compare_exchange_n (place, &old, value, false, __ATOMIC_SEQ_CST,
                                       __ATOMIC_SEQ_CST))
    ;
  return old;
}
template <class T> static inline T atomicMin (T *place, T value)
{
  return gpumem_atomic_best (place, value, [] (T a, T b) { return a < b; });
}
template <class T> static inline T atomicMax (T *place, T value)
{
  return gpumem_atomic_best (place, value, [] (T a, T b) { return a > b; });
}
static inline unsigned int atomicInc (unsigned int *place, unsigned int limit)
{
  unsigned int old = __atomic_load_n (place, __ATOMIC_SEQ_CST);

  while (!__atomic_compare_exchange_n (place, &old, old >= limit ? 0 : old + 1, false,
                                       __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
    ;
  return old;
}

/* Overloads for mixed types, such as atomicAdd (&x, 1) with an unsigned x. */
#define GPUMEM_ATOMIC_MIXED(name)                                                  \
  template <class T, class V> static inline T name (T *place, V value)             \
  {                                                                                \
    return name<T> (place, static_cast<T> (value));                                \
  }
GPUMEM_ATOMIC_MIXED (atomicAdd)
GPUMEM_ATOMIC_MIXED (atomicSub)
GPUMEM_ATOMIC_MIXED (atomicAnd)
GPUMEM_ATOMIC_MIXED (atomicOr)
GPUMEM_ATOMIC_MIXED (atomicXor)
GPUMEM_ATOMIC_MIXED (atomicExch)
GPUMEM_ATOMIC_MIXED (atomicMin)
GPUMEM_ATOMIC_MIXED (atomicMax)
template <class T, class V, class W> static inline T atomicCAS (T *place, V expected, W value)
{
  return atomicCAS<T> (place, static_cast<T> (expected), static_cast<T> (value));
}

/* --- mathematics ------------------------------------------------------------------------------ */

#define GPUMEM_MATH_1(name)                                                        \
  extern "C" double name (double) noexcept;                                        \
  extern "C" float name##f (float) noexcept;                                       \
  static inline float name (float x) { return name##f (x); }
#define GPUMEM_MATH_2(name)                                                        \
  extern "C" double name (double, double) noexcept;                                \
  extern "C" float name##f (float, float) noexcept;                                \
  static inline float name (float x, float y) { return name##f (x, y); }

GPUMEM_MATH_1 (acos) GPUMEM_MATH_1 (acosh) GPUMEM_MATH_1 (asin) GPUMEM_MATH_1 (asinh)
GPUMEM_MATH_1 (atan) GPUMEM_MATH_1 (atanh) GPUMEM_MATH_1 (cbrt) GPUMEM_MATH_1 (ceil)
GPUMEM_MATH_1 (cos) GPUMEM_MATH_1 (cosh) GPUMEM_MATH_1 (erf) GPUMEM_MATH_1 (erfc)
GPUMEM_MATH_1 (exp) GPUMEM_MATH_1 (exp2) GPUMEM_MATH_1 (exp10) GPUMEM_MATH_1 (expm1)
GPUMEM_MATH_1 (fabs) GPUMEM_MATH_1 (floor) GPUMEM_MATH_1 (lgamma) GPUMEM_MATH_1 (log)
GPUMEM_MATH_1 (log10) GPUMEM_MATH_1 (log1p) GPUMEM_MATH_1 (log2) GPUMEM_MATH_1 (logb)
GPUMEM_MATH_1 (nearbyint) GPUMEM_MATH_1 (rint) GPUMEM_MATH_1 (round) GPUMEM_MATH_1 (sin)
GPUMEM_MATH_1 (sinh) GPUMEM_MATH_1 (sqrt) GPUMEM_MATH_1 (tan) GPUMEM_MATH_1 (tanh)
GPUMEM_MATH_1 (tgamma) GPUMEM_MATH_1 (trunc)
GPUMEM_MATH_2 (atan2) GPUMEM_MATH_2 (copysign) GPUMEM_MATH_2 (fdim) GPUMEM_MATH_2 (fmax)
GPUMEM_MATH_2 (fmin) GPUMEM_MATH_2 (fmod) GPUMEM_MATH_2 (hypot) GPUMEM_MATH_2 (nextafter)
GPUMEM_MATH_2 (pow) GPUMEM_MATH_2 (remainder)

extern "C" double fma (double, double, double) noexcept;
extern "C" float fmaf (float, float, float) noexcept;
static inline float fma (float x, float y, float z) { return fmaf (x, y, z); }
extern "C" double ldexp (double, int) noexcept;
extern "C" float ldexpf (float, int) noexcept;
static inline float ldexp (float x, int n) { return ldexpf (x, n); }
extern "C" double frexp (double, int *) noexcept;
extern "C" float frexpf (float, int *) noexcept;
static inline float frexp (float x, int *n) { return frexpf (x, n); }
extern "C" double modf (double, double *) noexcept;
extern "C" float modff (float, float *) noexcept;
extern "C" int ilogb (double) noexcept;
extern "C" int ilogbf (float) noexcept;
static inline double rsqrt (double x) { return 1.0 / sqrt (x); }
static inline float rsqrtf (float x) { return 1.0f / sqrtf (x); }
static inline float rsqrt (float x) { return rsqrtf (x); }
static inline double sinpi (double x) { return sin (x * 3.14159265358979323846); }
static inline float sinpif (float x) { return sinpi (x); }
static inline double cospi (double x) { return cos (x * 3.14159265358979323846); }
static inline float cospif (float x) { return cospi (x); }
static inline void sincosf (float x, float *s, float *c) { *s = sinf (x); *c = cosf (x); }
static inline void sincos (double x, double *s, double *c) { *s = sin (x); *c = cos (x); }
template <class T> static inline bool isnan (T x) { return __builtin_isnan (x); }
template <class T> static inline bool isinf (T x) { return __builtin_isinf_sign (x) != 0; }
template <class T> static inline bool isfinite (T x) { return __builtin_isfinite (x); }
template <class T> static inline bool signbit (T x) { return __builtin_signbit (x); }

static inline float __expf (float x) { return expf (x); }
static inline float __logf (float x) { return logf (x); }
static inline float __sinf (float x) { return sinf (x); }
static inline float __cosf (float x) { return cosf (x); }
static inline float __powf (float x, float y) { return powf (x, y); }
static inline float __fdividef (float x, float y) { return x / y; }
static inline float __saturatef (float x) { return x < 0 ? 0 : x > 1 ? 1 : x; }
static inline float __fsqrt_rn (float x) { return sqrtf (x); }
static inline float __fmaf_rn (float x, float y, float z) { return fmaf (x, y, z); }

static inline int abs (int x) { return x < 0 ? -x : x; }
static inline long abs (long x) { return x < 0 ? -x : x; }
static inline long long abs (long long x) { return x < 0 ? -x : x; }
static inline float abs (float x) { return fabsf (x); }
static inline double abs (double x) { return fabs (x); }

#define GPUMEM_MINMAX(T)                                                           \
  static inline constexpr T min (T a, T b) { return b < a ? b : a; }               \
  static inline constexpr T max (T a, T b) { return a < b ? b : a; }
GPUMEM_MINMAX (int)
GPUMEM_MINMAX (unsigned int)
GPUMEM_MINMAX (long)
GPUMEM_MINMAX (unsigned long)
GPUMEM_MINMAX (long long)
GPUMEM_MINMAX (unsigned long long)
GPUMEM_MINMAX (float)
GPUMEM_MINMAX (double)
template <class A, class B> static inline constexpr auto min (A a, B b) { return b < a ? b : a; }
template <class A, class B> static inline constexpr auto max (A a, B b) { return a < b ? b : a; }

static inline int __popc (unsigned int x) { return __builtin_popcount (x); }
static inline int __popcll (gpumem_u64 x) { return __builtin_popcountll (x); }
static inline int __clz (int x) { return x == 0 ? 32 : __builtin_clz (x); }
static inline int __clzll (long long x) { return x == 0 ? 64 : __builtin_clzll (x); }
static inline int __ffs (int x) { return __builtin_ffs (x); }
static inline int __ffsll (long long x) { return __builtin_ffsll (x); }
static inline unsigned int __brev (unsigned int x)
{
  unsigned int result = 0;

  for (int i = 0; i < 32; i++)
    result |= (x >> i & 1) << (31 - i);
  return result;
}
static inline int __mul24 (int a, int b) { return a * b; }
static inline unsigned int __umul24 (unsigned int a, unsigned int b) { return a * b; }
static inline int __mulhi (int a, int b) { return (long long) a * b >> 32; }
static inline unsigned int __umulhi (unsigned int a, unsigned int b)
{
  return (gpumem_u64) a * b >> 32;
}
static inline long long __mul64hi (long long a, long long b) { return (__int128) a * b >> 64; }
static inline gpumem_u64 __umul64hi (gpumem_u64 a, gpumem_u64 b)
{
  return (unsigned __int128) a * b >> 64;
}

#define GPUMEM_BITS(name, TO, FROM)                                                \
  static inline TO name (FROM x)                                                   \
  {                                                                                \
    TO result;                                                                     \
    __builtin_memcpy (&result, &x, sizeof result);                                 \
    return result;                                                                 \
  }
GPUMEM_BITS (__float_as_int, int, float)
GPUMEM_BITS (__float_as_uint, unsigned int, float)
GPUMEM_BITS (__int_as_float, float, int)
GPUMEM_BITS (__uint_as_float, float, unsigned int)
GPUMEM_BITS (__double_as_longlong, long long, double)
GPUMEM_BITS (__longlong_as_double, double, long long)
static inline int __float2int_rn (float x) { return (int) rintf (x); }
static inline int __float2int_rz (float x) { return (int) x; }
static inline int __float2int_rd (float x) { return (int) floorf (x); }
static inline int __float2int_ru (float x) { return (int) ceilf (x); }
static inline unsigned int __float2uint_rz (float x) { return (unsigned int) x; }
static inline float __int2float_rn (int x) { return (float) x; }

extern "C" int printf (const char *, ...);
extern "C" void *memcpy (void *, const void *, size_t) noexcept;
extern "C" void *memset (void *, int, size_t) noexcept;
static inline long long clock64 () { return __builtin_ia32_rdtsc (); }
static inline long long clock () { return clock64 (); }
template <class T> static inline T __ldg (const T *place) { return *place; }
template <class T> static inline T __ldcs (const T *place) { return *place; }
template <class T> static inline void __stcs (T *place, T value) { *place = value; }

/* --- textures and surfaces -------------------------------------------------------------------- */

typedef gpumem_u64 cudaTextureObject_t;
typedef gpumem_u64 cudaSurfaceObject_t;

enum cudaSurfaceBoundaryMode
{
  cudaBoundaryModeZero,
  cudaBoundaryModeClamp,
  cudaBoundaryModeTrap
};

/* For each type that textures can return: the type and the number of its components. */
template <class T> struct gpumem_texel;
#define GPUMEM_TEXEL(T, E, N) \
  template <> struct gpumem_texel<T> { typedef E element; enum { n = N }; };
#define GPUMEM_TEXELS(T, N)                                                        \
  GPUMEM_TEXEL (T, T, 1) GPUMEM_TEXEL (N##1, T, 1) GPUMEM_TEXEL (N##2, T, 2)       \
  GPUMEM_TEXEL (N##4, T, 4)
GPUMEM_TEXELS (signed char, char)
GPUMEM_TEXELS (unsigned char, uchar)
GPUMEM_TEXELS (short, short)
GPUMEM_TEXELS (unsigned short, ushort)
GPUMEM_TEXELS (int, int)
GPUMEM_TEXELS (unsigned int, uint)
GPUMEM_TEXELS (float, float)
GPUMEM_TEXEL (char, char, 1)

template <class E> static inline E gpumem_component (unsigned int bits) { return (E) bits; }
template <> inline float gpumem_component<float> (unsigned int bits)
{
  return __uint_as_float (bits);
}

template <class T> static inline T
gpumem_fetch_texel (gpumem_u64 object, gpumem_kind kind, int layer, float level, float x,
                    float y = 0, float z = 0)
{
  const gpumem_fetch fetch = { object, kind, layer, { x, y, z }, level };
  typename gpumem_texel<T>::element part[4];
  unsigned int result[4];
  T texel;

  gpumem_self->fetch (gpumem_self, &fetch, result);
  for (int i = 0; i < gpumem_texel<T>::n; i++)
    part[i] = gpumem_component<typename gpumem_texel<T>::element> (result[i]);
  __builtin_memcpy (&texel, part, sizeof texel);
  return texel;
}

template <class T> static inline T tex1Dfetch (gpumem_u64 t, int x)
{
  return gpumem_fetch_texel<T> (t, FETCH_LINEAR, x, 0, 0);
}

#define GPUMEM_PARAMETERS(...) __VA_ARGS__
#define GPUMEM_TEXTURE(name, kind, parameters, layer, ...)                         \
  template <class T> static inline T                                               \
  name##Lod (gpumem_u64 t, GPUMEM_PARAMETERS parameters, float level)              \
  {                                                                                \
    return gpumem_fetch_texel<T> (t, kind, layer, level, __VA_ARGS__);             \
  }                                                                                \
  template <class T> static inline T                                               \
  name (gpumem_u64 t, GPUMEM_PARAMETERS parameters)                                \
  {                                                                                \
    return gpumem_fetch_texel<T> (t, kind, layer, 0, __VA_ARGS__);                 \
  }
GPUMEM_TEXTURE (tex1D, FETCH_1D, (float x), 0, x)
GPUMEM_TEXTURE (tex2D, FETCH_2D, (float x, float y), 0, x, y)
GPUMEM_TEXTURE (tex3D, FETCH_3D, (float x, float y, float z), 0, x, y, z)
GPUMEM_TEXTURE (tex1DLayered, FETCH_1D_LAYERED, (float x, int layer), layer, x)
GPUMEM_TEXTURE (tex2DLayered, FETCH_2D_LAYERED, (float x, float y, int layer), layer, x, y)
GPUMEM_TEXTURE (texCubemap, FETCH_CUBE, (float x, float y, float z), 0, x, y, z)
GPUMEM_TEXTURE (texCubemapLayered, FETCH_CUBE_LAYERED, (float x, float y, float z, int layer),
                layer, x, y, z)

/* T is any type of 1, 2, 4, 8 or 16 bytes. For a layered surface the third coordinate is the layer;
 * for cubes it is the index of the face, counted over all layers. */
template <class T> static inline void
gpumem_access_texel (gpumem_u64 object, gpumem_kind kind, bool writes, T *value, int mode, int x,
                     int y = 0, int z = 0, int layer = 0)
{
  const gpumem_access access = { object, kind, { x, y, z }, layer, sizeof (T),
                                 (unsigned int) mode, writes, value };

  gpumem_self->access (gpumem_self, &access);
}

#define GPUMEM_SURFACE(name, kind, parameters, ...)                                \
  template <class T> static inline T                                               \
  name##read (gpumem_u64 s, GPUMEM_PARAMETERS parameters,                          \
              cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap)                 \
  {                                                                                \
    T value;                                                                       \
    gpumem_access_texel (s, kind, false, &value, mode, __VA_ARGS__);               \
    return value;                                                                  \
  }                                                                                \
  template <class T> static inline void                                            \
  name##read (T *value, gpumem_u64 s, GPUMEM_PARAMETERS parameters,                \
              cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap)                 \
  {                                                                                \
    gpumem_access_texel (s, kind, false, value, mode, __VA_ARGS__);                \
  }                                                                                \
  template <class T> static inline void                                            \
  name##write (T value, gpumem_u64 s, GPUMEM_PARAMETERS parameters,                \
               cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap)                \
  {                                                                                \
    gpumem_access_texel (s, kind, true, &value, mode, __VA_ARGS__);                \
  }
GPUMEM_SURFACE (surf1D, FETCH_1D, (int x), x)
GPUMEM_SURFACE (surf2D, FETCH_2D, (int x, int y), x, y)
GPUMEM_SURFACE (surf3D, FETCH_3D, (int x, int y, int z), x, y, z)
GPUMEM_SURFACE (surf1DLayered, FETCH_1D_LAYERED, (int x, int layer), x, 0, 0, layer)
GPUMEM_SURFACE (surf2DLayered, FETCH_2D_LAYERED, (int x, int y, int layer), x, y, 0, layer)
GPUMEM_SURFACE (surfCubemap, FETCH_CUBE, (int x, int y, int side), x, y, 0, side)
GPUMEM_SURFACE (surfCubemapLayered, FETCH_CUBE_LAYERED, (int x, int y, int side), x, y, 0, side)

/* --- kernel descriptions ---------------------------------------------------------------------- */

template <size_t... I> struct gpumem_numbers { };
template <size_t N, size_t... I> struct gpumem_count : gpumem_count<N - 1, N - 1, I...> { };
template <size_t... I> struct gpumem_count<0, I...> { typedef gpumem_numbers<I...> type; };

template <class... P> struct gpumem_signature
{
  static constexpr size_t sizes[sizeof... (P) + 1] = { sizeof (P)..., 0 };
  static constexpr size_t alignments[sizeof... (P) + 1] = { alignof (P)..., 0 };

  template <size_t... I> static void
  call (void (*function) (), void **arguments, gpumem_numbers<I...>)
  {
    reinterpret_cast<void (*) (P...)> (function) (*static_cast<P *> (arguments[I])...);
  }
  static void run (void (*function) (), void **arguments)
  {
    call (function, arguments, typename gpumem_count<sizeof... (P)>::type ());
  }
};
template <class... P> constexpr size_t gpumem_signature<P...>::sizes[sizeof... (P) + 1];
template <class... P> constexpr size_t gpumem_signature<P...>::alignments[sizeof... (P) + 1];

template <class... P> static gpumem_kernel
gpumem_describe (const char *name, void (*function) (P...), int max_threads = 0)
{
  typedef gpumem_signature<P...> signature;

  return { reinterpret_cast<void (*) ()> (function), signature::run, name, signature::sizes,
           signature::alignments, sizeof... (P), max_threads };
}

/* The linker merges the pointers to the kernel descriptions of all units into one section. */
extern "C" __attribute__ ((weak, visibility ("hidden"))) gpumem_kernel *__start_gpumem_kernels;
extern "C" __attribute__ ((weak, visibility ("hidden"))) gpumem_kernel *__stop_gpumem_kernels;

extern "C" __attribute__ ((weak, used, visibility ("default"))) gpumem_kernel **
gpumem_get_kernels (size_t *n)
{
  *n = &__stop_gpumem_kernels - &__start_gpumem_kernels;
  return &__start_gpumem_kernels;
}

/* Returns the address of gpumem_self of the calling thread. Before the stand-in runs a thread of a
 * kernel on the calling thread, it stores a pointer to the KernelThread at that address. */
extern "C" __attribute__ ((weak, used, visibility ("default"))) gpumem_thread **
gpumem_get_place ()
{
  return &gpumem_self;
}
