/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The check whether a program may be cached. An input consists of build options up to the first
 * NUL, and of source code. The target adds code that includes a file or depends on the time; no
 * such program may be cached. */
#include "config.h"

#include "gpumem/program/gpu-program-cache-private.h"
#include "tests/fuzz/fuzz.h"

static void
require_uncached (const char *options,
                  const char *more_options,
                  const char *start,
                  const char *source,
                  const char *end)
{
  g_autofree char *all_options = g_strconcat (options, more_options, NULL);
  /* Two newlines, because @source may end in a line splice */
  g_autofree char *text = g_strconcat (start, source, "\n\n", end, NULL);

  FUZZ_REQUIRE (!_gpu_program_is_cacheable (text, all_options, NULL, TRUE));
}

static void
run (const guint8 *data,
     gsize         size)
{
  const char *text = size > 0 ? (const char *) data : "";
  g_autofree char *options = g_strndup (text, size);
  gsize length = MIN (strlen (options) + 1, size);
  g_autofree char *source = g_strndup (text + length, size - length);
  gboolean closed = _gpu_program_is_cacheable (source, options, NULL, TRUE);
  gboolean open = _gpu_program_is_cacheable (source, options, NULL, FALSE);

  FUZZ_REQUIRE (closed || !open);
  require_uncached (options, " -I/a", "", source, "");
  require_uncached (options, "\n-include a", "", source, "");
  require_uncached (options, " @a", "", source, "");
  require_uncached (options, "", "#include \"a\"\n", source, "");
  require_uncached (options, "", "", source, "#/**/include \"a\"\n");
  require_uncached (options, "", "", source, "#pragma GCC dependency \"a\"\n");
  require_uncached (options, "", "", source, "char gpu_x[] = __DATE__;\n");
  require_uncached (options, "", "", source,
                    "#define GPU_J(a, b) a##b\nchar gpu_x[] = GPU_J (__DA, TE__);\n");
  require_uncached (options, " -DGPU_J(a,b)=a##b", "char gpu_x[] = GPU_J (__DA, TE__);\n", source,
                    "");
}

static void
add_seeds (GPtrArray *seeds)
{
  static const char paste[] =
    "-DA=1 -D 'T=unsigned int' -cl-std=CL2.0\0#define J(a, b) convert_ ## a ## b\n"
    "%:define S(x) #x\n/* section */ __kernel void k (__global int *x) { J (x, 4) (S (a)); }\n";
  static const char words[] =
    "--gpu-architecture=sm_90 -Xptxas -O3,-v\0#pragma unroll\n#define U _Pragma (\"unroll\")\n"
    "__asm__ (\"nop\"); __attribute__ ((section (\".a\"))) int \?\?= \\\n __has_include __TIME__\n";
  static const char joined[] =
    "\0#define J(a, b, ...) a ## b ## __VA_ARGS__\nJ (__, DATE, __) J (__ha, s_include) J (a, sm)";

  fuzz_add_seed (seeds, paste, sizeof paste - 1);
  fuzz_add_seed (seeds, words, sizeof words - 1);
  fuzz_add_seed (seeds, joined, sizeof joined - 1);
}

const FuzzTarget fuzz_cacheable = { "cacheable", run, add_seeds, FALSE };
