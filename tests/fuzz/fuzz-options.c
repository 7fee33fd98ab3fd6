/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Parsing of build options for the CUDA compilers. */
#include "config.h"

#include "tests/fuzz/fuzz.h"

#ifdef HAVE_CUDA
#include "gpumem/cuda/compiler/gpu-cuda-compiler.h"

#define COMPUTE_CAPABILITY 90

static void
run (const guint8 *data,
     gsize         size)
{
  g_autofree char *text = size > 0 ? g_strndup ((const char *) data, size) : g_strdup ("");
  g_autoptr (GError) error = NULL;
  GpuCudaJit jit;

  if (_gpu_cuda_jit_init (&jit, text, &error))
    {
      FUZZ_REQUIRE (error == NULL && jit.n <= G_N_ELEMENTS (jit.options));
      _gpu_cuda_jit_clear (&jit);
    }
  else
    FUZZ_REQUIRE (error != NULL);
  g_clear_error (&error);

  for (guint language = 0; language <= GPU_CUDA_LANGUAGE_PORTABLE; language++)
    {
      g_autoptr (GPtrArray) options = _gpu_cuda_options_new (COMPUTE_CAPABILITY, language, text,
                                                             &error);

      FUZZ_REQUIRE ((options == NULL) == (error != NULL));
      g_clear_error (&error);
      if (options != NULL)
        {
          g_autofree char *macros = _gpu_cuda_options_take_macros (options);
        }
    }
}

static void
add_seeds (GPtrArray *seeds)
{
  static const char *const texts[] =
  {
    "-DN=1024 -D A=3 -U B -I /tmp -I.", "'-DTYPE=unsigned int' -DX=\"a b\"", "-cl-mad-enable -g",
    "-cl-std=CL2.0 -cl-fast-relaxed-math", "--gpu-architecture=sm_80 --maxrregcount=32",
    "-arch=sm_80 -O3 -fallback=binary verbose", "--pre-include=a.h -DF(x)=x"
  };

  for (guint i = 0; i < G_N_ELEMENTS (texts); i++)
    fuzz_add_text (seeds, texts[i]);
}

const FuzzTarget fuzz_options = { "options", run, add_seeds, FALSE };
#endif
