/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Program sources: the translators of OpenCL C for the host and for CUDA, and the parser of C++
 * names. */
#include "config.h"

#include "gpumem/host/compiler/gpu-host-source.h"
#include "tests/fuzz/fuzz.h"

#ifdef HAVE_CUDA
#include "gpumem/cuda/compiler/gpu-cuda-compiler.h"

static void
prepare_cuda (const char *text)
{
  g_autofree char *name = _gpu_cuda_name_simplify (text);

  FUZZ_REQUIRE (name != NULL);
  _gpu_cuda_source_identify (text, NULL);
  for (guint language = 0; language <= GPU_CUDA_LANGUAGE_PORTABLE; language++)
    {
      g_autoptr (GPtrArray) options = g_ptr_array_new_with_free_func (g_free);
      g_autofree char *prepared = NULL;

      g_ptr_array_add (options, g_strdup ("-DA=1"));
      prepared = _gpu_cuda_source_prepare (text, language, options, NULL);
      FUZZ_REQUIRE (prepared != NULL);
    }
}
#endif

static void
rewrite_for_host (const char *text)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *rewritten = _gpu_host_rewrite (text, &error);
  g_autofree char *vectors = _gpu_host_rewrite_vectors (text);
  g_autofree char *both = NULL;

  FUZZ_REQUIRE ((rewritten == NULL) == (error != NULL));
  FUZZ_REQUIRE (vectors != NULL);
  both = _gpu_host_rewrite (vectors, NULL);
}

static void
run (const guint8 *data,
     gsize         size)
{
  g_autofree char *text = size > 0 ? g_strndup ((const char *) data, size) : g_strdup ("");

  rewrite_for_host (text);
#ifdef HAVE_CUDA
  prepare_cuda (text);
#endif
}

static void
add_seeds (GPtrArray *seeds)
{
  static const char *const texts[] =
  {
    "__kernel void scale (__global float *x, float f, __local int *l)\n"
    "{ size_t i = get_global_id (0); x[i] *= f; barrier (CLK_LOCAL_MEM_FENCE); }\n",
    "typedef struct { int x; uchar z[4]; } S;\n/* a comment */ // another\n"
    "kernel __attribute__ ((reqd_work_group_size (8, 1, 1)))\n"
    "void k (constant S *restrict s, global volatile double4 *d) { d[0].xyz = s->x; }\n",
    "__kernel void mirror (__read_only image2d_t in, sampler_t by, __write_only image2d_t out)\n"
    "{ write_imagef (out, (int2) (1, 2), read_imagef (in, by, (float2) (0.5f, 1))); }\n",
    "constant sampler_t s = CLK_FILTER_LINEAR | CLK_ADDRESS_CLAMP;\n"
    "int helper (int4 v) { return v.s0 + v.w; }\nkernel void k (global char *c) { *c = 'x'; }\n",
    "extern \"C\" __global__ void k (float *p, const int n) { p[threadIdx.x] = n; }\n"
    "template <class X> __global__ void t (X *p) { asm (\"mov\" : \"=r\" (p)); }\n",
    "#define NAME(x) x##_f32\\\n  more\n#ifdef A\n__kernel void NAME (k) (char a) { \"\\\"\"; }\n",
    "_Z5scaleIfEvPT_", "_ZN3one3twoIiLi3EE4callEPKcS2_j"
  };

  for (guint i = 0; i < G_N_ELEMENTS (texts); i++)
    fuzz_add_text (seeds, texts[i]);
}

const FuzzTarget fuzz_source = { "source", run, add_seeds, FALSE };
