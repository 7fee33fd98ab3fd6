/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Checks which programs may be cached: only those whose builds read no file and no clock. */
#include "config.h"

#include "gpumem/program/gpu-program-cache-private.h"

#include "test-util.h"

#define PASTE "#define J(a, b) a##b\n"
#define KERNEL "\n__kernel void k (__global int *x) { x[0] = 1; }\n"

typedef struct
{
  const char *text;
  gboolean    closed;               /* cacheable if the assembler cannot read files */
  gboolean    open;                 /* cacheable if the assembler can read files */
} Case;

static const Case sources[] =
{
  { "", TRUE, TRUE },
  { "// includes # of particles, imports %\n", TRUE, TRUE },
  { "#include \"a.h\"\n", FALSE, FALSE },
  { "#__include_macros \"a.h\"\n", FALSE, FALSE },
  { "%: /**/ embed \"a.h\"\n", FALSE, FALSE },
  { "%\\\n:include \"a.h\"\n", FALSE, FALSE },
  { "/* asm */", TRUE, FALSE },
  { "/* the critical section */", TRUE, TRUE },
  { "__attribute__ ((section (\".x\\n.incbin \\\"a\\\"\"))) int x;", TRUE, FALSE },
  { "#define S(x) #x\n__attribute__ ((__section__ (S (.x)))) int x;", TRUE, FALSE },
  { "__attribute__ ((weakref (\"a\\n.incbin 'a'\"))) static void f (void);", TRUE, FALSE },
  /* Pragmas: only known pragmas are safe */
  { "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n#pragma unroll 4\n#pragma once\n", TRUE, TRUE },
  { "# /**/ pragma /**/ GCC diagnostic ignored \"-Wall\"\n", TRUE, TRUE },
  { "#pragma GCC dependency \"a.h\"\n", FALSE, FALSE },
  { "#pragma GCC pch_preprocess \"a.gch\"\n", FALSE, FALSE },
  { "#pragma clang module load a\n", FALSE, FALSE },
  { "#pragma unheard of\n", FALSE, FALSE },
  { "#define U _Pragma (\"unroll\")\n#define V _Pragma(\"GCC ivdep\")\n", TRUE, TRUE },
  { "_Pragma (\"GCC dependency \\\"a.h\\\"\")", FALSE, FALSE },
  { "_Pragma (\"unroll\") _Pragma (X)", FALSE, FALSE },
  { "__pragma (comment (a))", FALSE, FALSE },
  /* Macros that build forbidden words */
  { "#define word __TI ## ME__\n", FALSE, FALSE },
  { "#define word __TI/**/##/**/ME__\n", FALSE, FALSE },
  { PASTE "const int x = sizeof J (__TI, ME__);", FALSE, FALSE },
  { PASTE "#if J (__has_incl, ude) (\"a.h\")\n#endif", FALSE, FALSE },
  { PASTE "#if J (__has, _include_next) (<a.h>)\n#endif", FALSE, FALSE },
  { PASTE "J (_Prag, ma) (\"GCC dependency \\\"a.h\\\"\")", FALSE, FALSE },
  { "#define J(a, b) a %:%: b\nchar x[] = J (__DA, TE__);", FALSE, FALSE },
  { "#define J(a, b) a %\\\n:%: b\nchar x[] = J (__DA, TE__);", FALSE, FALSE },
  { "#define J(a, b) a ?\?=?\?= b\nchar x[] = J (__DA, TE__);", FALSE, FALSE },
  { "#define J(a, b) a #\\\n# b\nchar x[] = J (__DA, TE__);", FALSE, FALSE },
  { "#define J(a,/**/b) a##b\nchar x[] = J (__DA, TE__);", FALSE, FALSE },
  { "#define J(a, b) a /*\n*/ ## b\nchar x[] = J (__DA, TE__);", FALSE, FALSE },
  { "#define J(...) __VA_ARGS__ ## TE__\nchar x[] = J (__DA);", FALSE, FALSE },
  { "#define J(args...) args ## TE__\nchar x[] = J (__DA);", FALSE, FALSE },
  { "#define J(a, b, c) a##b##c\nchar x[] = J (__, DATE, __);", FALSE, FALSE },
  { "#define P(a) __##a##__\nchar x[] = P (DATE);", FALSE, FALSE },
  { "#define P(a) __T##a\n#define Q(a) P (I##a)\nchar x[] = Q (ME__);", FALSE, FALSE },
  { PASTE "#define A __in\nJ (A, clude)", TRUE, TRUE },
  { PASTE "J (a, sm) (\".incbin \\\"a\\\"\");", TRUE, FALSE },
  { PASTE "J (__as, m__) (\".incbin \\\"a\\\"\");", TRUE, FALSE },
  { PASTE "#define S(x) #x\nJ (a, sm) (S (.incbin));", TRUE, FALSE },
  { PASTE "__attribute__ ((J (sec, tion) (\".x\\n.incbin \\\"a\\\"\"))) int x;", TRUE, FALSE },
  { "#define P(a) __attribute__ ((sec##a (\".x\"))) int x;\nP (tion)", TRUE, FALSE },
  /* Macros that build no forbidden words */
  { PASTE "float J (load, 4) (__global float *a, int s, int m);", TRUE, TRUE },
  { "#define L(T, n) convert_##T##n##_rte (vload##n (a, s + m))\nchar f[] = \"%d\";", TRUE, TRUE },
  { "#define half(x) x##2 % 3\n#define file \"include\"", TRUE, TRUE },
};

static void
cacheable_sources (void)
{
  for (gsize i = 0; i < G_N_ELEMENTS (sources); i++)
    {
      g_autofree char *source = g_strconcat (sources[i].text, KERNEL, NULL);

      g_test_message ("%s", sources[i].text);
      g_assert_cmpint (_gpu_program_is_cacheable (source, "", NULL, TRUE), ==, sources[i].closed);
      g_assert_cmpint (_gpu_program_is_cacheable (source, "", NULL, FALSE), ==, sources[i].open);
    }
}

static const char *const harmless[] =
{
  "", " ", "-w", "-Werror -Wall -Wno-unused", "-O3 -g", "-cl-mad-enable -cl-std=CL3.0",
  "-cl-fast-relaxed-math\t-cl-opt-disable", "-cl-nv-maxrregcount=32 -cl-nv-verbose",
  "-cl-nv-maxrregcount 32 -cl-nv-opt-level 3 -w", "-DA -DB=2 -D C=3  -D D -UE -U F",
  "-D 'T=unsigned int' -DX=\"a b\" '-DF(x)=(x) * 2'", "-DINCLUDE=1 -Dsysroot=2 -DF(x)=x##_2",
  "--gpu-architecture=sm_90 --std=c++17 -default-device --use_fast_math",
  "-arch=compute_80 -std=c++14 -use_fast_math -lineinfo -G --fmad=false -ftz=true",
  "--gpu-architecture compute_90a --maxrregcount 64 -rdc true",
  "--device-as-default-execution-space",
  "--generate-line-info --device-debug --relocatable-device-code=true --extensible-whole-program",
  "-Xptxas -O3,-v --ptxas-options=-O0 --ptxas-options=--warn-on-spills",
  "--diag-suppress=161,177 -diag-warn=20 --prec-div=false -prec-sqrt=false --restrict",
  "--define-macro=A=1 --undefine-macro=B --disable-warnings -dlto -m64", NULL
};

static const char *const harmful[] =
{
  "-I.", "-I .", "\"-I/nowhere\"", "-DA=1 -I /nowhere", "-iquote.", "-isystem /usr", "-idirafter /",
  "-include a.h", "-include=a.h", "--pre-include=a.h", "-imacros a.h", "@file", "-D A=1 @file",
  "-resource-dir /usr", "-resource-dir=/usr", "--gcc-toolchain=/usr", "-F /usr", "-F/usr",
  "-fsanitize-ignorelist=a", "--sysroot=/", "--sysroot /", "-isysroot /", "-B/usr", "-L/usr",
  "-lm", "-T a.ld", "-specs=a", "-Wa,--defsym,a=1", "-Wp,-include,a.h", "-Wl,-T,a", "-Xclang -load",
  "-Xptxas --options-file=a", "-Xptxas -optf,a", "-Xptxas -O3,a.ptx", "--options-file=a", "-optf a",
  "--pch", "--use-pch=a", "--create-pch=a", "--pch-dir=/", "--time=-", "-time=a",
  "--fdevice-time-trace=a", "--library a", "--embed-dir=/", "-fplugin=a", "-fprofile-use=a",
  "-fmodules", "-ivfsoverlay a", "--config=a", "-x c", "file.cl", "-D", "-D -I.", "-U @file", "-",
  "--", "-D'A=1 -I.'", "-DA='1\n-include a.h'", "-DA=__DATE__", "-DA=__TI\"\"ME__", "-DA='", "-std",
  "-w # comment", "-w\n#define U -DJ(a,b)=a##b",
  "-std a/b", "-arch=@a", "-DA=1\n#include\"a\"", "-unknown", "--unknown=1", NULL
};

static void
cacheable_options (void)
{
  static const char kernel[] = KERNEL;

  for (gsize i = 0; harmless[i] != NULL; i++)
    {
      g_test_message ("%s", harmless[i]);
      g_assert_true (_gpu_program_is_cacheable (kernel, harmless[i], NULL, FALSE));
    }

  for (gsize i = 0; harmful[i] != NULL; i++)
    {
      g_test_message ("%s", harmful[i]);
      g_assert_false (_gpu_program_is_cacheable (kernel, harmful[i], NULL, TRUE));
    }
}

/* Macros defined in the options can also paste a forbidden word from parts in the source. */
static void
cacheable_options_with_source (void)
{
  static const char source[] = "char x[] = J (__DA, TE__);" KERNEL;

  g_assert_true (_gpu_program_is_cacheable (source, "-DJ(a,b)=a", NULL, TRUE));
  g_assert_false (_gpu_program_is_cacheable (source, "-DJ(a,b)=a##b", NULL, TRUE));
  g_assert_false (_gpu_program_is_cacheable (source, "'-D J(a,b)=a ## b'", NULL, TRUE));
  g_assert_false (_gpu_program_is_cacheable (PASTE "char x[] = J (A, TE__);" KERNEL, "-DA=__DA",
                                             NULL, TRUE));
}

/* Programs that only include named headers are cacheable, unless the headers read other files. */
static void
cacheable_headers (void)
{
  static const struct
  {
    const char *source;
    const char *text;               /* of the header "a/b.h" */
    gboolean    cacheable;
  }
  cases[] =
  {
    { "#include \"a/b.h\"\n", "", TRUE },
    { "# /**/ include /**/ <a/b.h>\n#include \"c.h\"", "#include \"c.h\"\n", TRUE },
    { "#include \"a/b.h\"\n", "#include \"d.h\"\n", FALSE },
    { "#include \"a/b.h\"\n", "#pragma GCC dependency \"c.h\"\n", FALSE },
    { "#include \"a/b.h\"\n", "const char x[] = __DATE__;\n", FALSE },
    { PASTE "#include \"a/b.h\"\n", "const char x[] = J (__DA, TE__);\n", FALSE },
    { "#include \"b.h\"\n", "", FALSE },
    { "#include \"a/b.h \"\n", "", FALSE },
    { "#include \"a/b.h>\n", "", FALSE },
    { "#include \"a/b.h\n", "", FALSE },
    { "#include \"\"\n", "", FALSE },
    { "#include A\n", "", FALSE },
    { "#include_next \"a/b.h\"\n", "", FALSE },
    { "#import \"a/b.h\"\n", "", FALSE },
    { "#if __has_include (\"a/b.h\")\n#endif\n", "", FALSE }
  };

  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      const char *headers[] = { "a/b.h", cases[i].text, "c.h", "", NULL };

      g_test_message ("%s / %s", cases[i].source, cases[i].text);
      g_assert_cmpint (_gpu_program_is_cacheable (cases[i].source, "", headers, TRUE), ==,
                       cases[i].cacheable);
      g_assert_false (_gpu_program_is_cacheable (cases[i].source, "-I/a", headers, TRUE));
    }
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/program-cacheable/sources", cacheable_sources);
  g_test_add_func ("/program-cacheable/options", cacheable_options);
  g_test_add_func ("/program-cacheable/options-with-source", cacheable_options_with_source);
  g_test_add_func ("/program-cacheable/headers", cacheable_headers);

  return g_test_run ();
}
