/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <string.h>

#include "gpumem/dialect/gpu-option-private.h"

#define PREFIX "-cl-"

static const char *const names[] =
{
  "denorms-are-zero",
  "fast-relaxed-math",
  "finite-math-only",
  "fp32-correctly-rounded-divide-sqrt",
  "kernel-arg-info",
  "mad-enable",
  "no-signed-zeros",
  "no-subgroup-ifp",
  "opt-disable",
  "single-precision-constant",
  "std=CL1.0",
  "std=CL1.1",
  "std=CL1.2",
  "std=CL2.0",
  "std=CL3.0",
  "std=CLC++",
  "std=CLC++1.0",
  "std=CLC++2021",
  "strict-aliasing",
  "uniform-work-group-size",
  "unsafe-math-optimizations",
  NULL
};

/* The beginnings of options of vendors */
static const char *const prefixes[] = { "amd-", "arm-", "fp64-gen-", "intel-", "nv-", "qcom-" };

gboolean
_gpu_option_is_valid (const char *word)
{
  if (!g_str_has_prefix (word, PREFIX))
    return TRUE;

  word += strlen (PREFIX);

  for (gsize i = 0; i < G_N_ELEMENTS (prefixes); i++)
    {
      if (g_str_has_prefix (word, prefixes[i]))
        return strpbrk (word, " \t\n") == NULL;
    }

  return g_strv_contains (names, word);
}
