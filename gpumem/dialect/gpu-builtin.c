/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Built-in functions are macros in the preludes of the host and CUDA back ends, and overloaded
 * functions in OpenCL drivers. If a program defines a function with the name of a built-in
 * function, the compiler reports errors that do not mention the cause, often for lines that are not
 * part of the program.
 */
#include "config.h"

#include <string.h>

#include "gpumem/base/gpu-error.h"
#include "gpumem/dialect/gpu-builtin-private.h"
#include "gpumem/dialect/gpu-source-private.h"

const char *const _gpu_builtin_unary[] =
{
  "acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt", "ceil", "cos", "cosh", "erf", "erfc",
  "exp", "exp2", "expm1", "fabs", "floor", "lgamma", "log", "log10", "log1p", "log2", "logb",
  "rint", "round", "sin", "sinh", "sqrt", "tan", "tanh", "tgamma", "trunc", NULL
};

const char *const _gpu_builtin_binary[] =
{
  "atan2", "copysign", "fdim", "fmax", "fmin", "fmod", "hypot", "nextafter", "pow", "remainder",
  NULL
};

const char *const _gpu_builtin_fast[] =
{
  "cos", "exp", "exp10", "exp2", "log", "log10", "log2", "rsqrt", "sin", "sqrt", "tan", NULL
};

/* Sorted within each group; docs/reference/portable-kernels.xml has the same list. */
static const char *const names[] =
{
  /* work-items, synchronization, copies */
  "async_work_group_copy", "async_work_group_strided_copy", "barrier", "get_enqueued_local_size",
  "get_global_id", "get_global_linear_id", "get_global_offset", "get_global_size", "get_group_id",
  "get_local_id", "get_local_linear_id", "get_local_size", "get_num_groups", "get_work_dim",
  "mem_fence", "prefetch", "read_mem_fence", "wait_group_events", "work_group_barrier",
  "write_mem_fence",

  /* integers */
  "abs", "abs_diff", "add_sat", "clz", "ctz", "hadd", "mad24", "mad_hi", "mad_sat", "mul24",
  "mul_hi", "popcount", "rhadd", "rotate", "sub_sat", "upsample",

  /* any type */
  "all", "any", "bitselect", "clamp", "degrees", "max", "min", "mix", "printf", "radians",
  "select", "shuffle", "shuffle2", "sign", "smoothstep", "step", "vec_step",

  /* geometry */
  "cross", "distance", "dot", "fast_distance", "fast_length", "fast_normalize", "length",
  "normalize",

  /* mathematics */
  "acos", "acosh", "acospi", "asin", "asinh", "asinpi", "atan", "atan2", "atan2pi", "atanh",
  "atanpi", "cbrt", "ceil", "copysign", "cos", "cosh", "cospi", "erf", "erfc", "exp", "exp10",
  "exp2", "expm1", "fabs", "fdim", "floor", "fma", "fmax", "fmin", "fmod", "fract", "frexp",
  "hypot", "ilogb", "ldexp", "lgamma", "lgamma_r", "log", "log10", "log1p", "log2", "logb", "mad",
  "maxmag", "minmag", "modf", "nan", "nextafter", "pow", "pown", "powr", "remainder", "remquo",
  "rint", "rootn", "round", "rsqrt", "sin", "sincos", "sinh", "sinpi", "sqrt", "tan", "tanh",
  "tanpi", "tgamma", "trunc",

  /* comparisons */
  "isequal", "isfinite", "isgreater", "isgreaterequal", "isinf", "isless", "islessequal",
  "islessgreater", "isnan", "isnormal", "isnotequal", "isordered", "isunordered", "signbit",

  /* images */
  "get_image_array_size", "get_image_channel_data_type", "get_image_channel_order",
  "get_image_depth", "get_image_dim", "get_image_height", "get_image_num_mip_levels",
  "get_image_width", "read_imagef", "read_imagei", "read_imageui", "write_imagef", "write_imagei",
  "write_imageui"
};

/* Names that may follow the prefixes "native_" and "half_" */
static const char *const approximations[] =
{
  "cos", "divide", "exp", "exp10", "exp2", "log", "log10", "log2", "powr", "recip", "rsqrt", "sin",
  "sqrt", "tan"
};

/* Names that may follow the prefixes "atomic_" and "atom_" */
static const char *const atomics[] =
{
  "add", "and", "cmpxchg", "dec", "inc", "max", "min", "or", "sub", "xchg", "xor"
};

/* Types that may follow the prefixes "convert_" and "as_". A number of components may follow the
 * type. In names that begin with "convert_", a suffix such as "_sat_rte" may follow as well. */
static const char *const types[] =
{
  "char", "double", "float", "half", "int", "long", "short", "uchar", "uint", "ulong", "ushort"
};

static gboolean
contains (const char *const *array,
          gsize              n,
          const char        *name)
{
  for (gsize i = 0; i < n; i++)
    {
      if (g_str_equal (array[i], name))
        return TRUE;
    }

  return FALSE;
}

/* If @text begins with a number of vector components, advances @text past the number and returns
 * TRUE. */
static gboolean
skip_components (const char **text)
{
  static const char *const numbers[] = { "16", "2", "3", "4", "8" };

  for (gsize i = 0; i < G_N_ELEMENTS (numbers); i++)
    {
      if (g_str_has_prefix (*text, numbers[i]))
        {
          *text += strlen (numbers[i]);
          return TRUE;
        }
    }

  return FALSE;
}

/* Returns whether @text consists of an optional "_sat" and an optional rounding mode. */
static gboolean
is_conversion_suffix (const char *text)
{
  if (g_str_has_prefix (text, "_sat"))
    text += strlen ("_sat");

  return *text == '\0' || g_str_equal (text, "_rte") || g_str_equal (text, "_rtz")
         || g_str_equal (text, "_rtp") || g_str_equal (text, "_rtn");
}

static gboolean
is_type (const char *name,
         gboolean    is_conversion)
{
  for (gsize i = 0; i < G_N_ELEMENTS (types); i++)
    {
      const char *rest = name + strlen (types[i]);

      if (!g_str_has_prefix (name, types[i]))
        continue;

      skip_components (&rest);

      if (*rest == '\0' || (is_conversion && is_conversion_suffix (rest)))
        return TRUE;
    }

  return FALSE;
}

/* Returns the rest of @name after @prefix, or an empty string if @name does not begin with
 * @prefix. */
static const char *
get_rest (const char *name,
          const char *prefix)
{
  return g_str_has_prefix (name, prefix) ? name + strlen (prefix) : "";
}

/* Returns whether @rest may follow "vload" or "vstore". Examples are "4", "_half" and
 * "a_half16_rte". */
static gboolean
is_vector_access (const char *rest)
{
  if (skip_components (&rest))
    return *rest == '\0';

  if (g_str_has_prefix (rest, "a_half"))
    rest += strlen ("a_half");
  else if (g_str_has_prefix (rest, "_half"))
    rest += strlen ("_half");
  else
    return FALSE;

  skip_components (&rest);

  return !g_str_has_prefix (rest, "_sat") && is_conversion_suffix (rest);
}

gboolean
_gpu_builtin_has_name (const char *name)
{
  return contains (names, G_N_ELEMENTS (names), name)
         || contains (approximations, G_N_ELEMENTS (approximations), get_rest (name, "native_"))
         || contains (approximations, G_N_ELEMENTS (approximations), get_rest (name, "half_"))
         || contains (atomics, G_N_ELEMENTS (atomics), get_rest (name, "atomic_"))
         || contains (atomics, G_N_ELEMENTS (atomics), get_rest (name, "atom_"))
         || is_type (get_rest (name, "convert_"), TRUE)
         || is_type (get_rest (name, "as_"), FALSE)
         || is_vector_access (get_rest (name, "vload"))
         || is_vector_access (get_rest (name, "vstore"));
}

static void
explain_names (GpuSource  *source,
               GError    **error)
{
  g_autoptr (GString) found = g_string_new (NULL);
  guint n = 0;

  for (guint i = 0; i < source->functions->len; i++)
    {
      const char *name = ((GpuSourceFunction *) source->functions->pdata[i])->name;

      if (_gpu_builtin_has_name (name))
        g_string_append_printf (found, "%s\"%s\"", n++ > 0 ? ", " : "", name);
    }

  if (n > 0)
    g_prefix_error (error, "the program defines %s, %s of OpenCL C: rename %s; ", found->str,
                    n == 1 ? "the name of a built-in function" : "names of built-in functions",
                    n == 1 ? "it" : "them");
}

/* OpenCL drivers may have the type half and images that a kernel reads and writes, so this only
 * explains errors about them. */
static void
explain_language (GpuSource  *source,
                  GError    **error)
{
  const GpuSourceRange all = { 0, source->tokens->len };

  if (source_has (source, all, "__global__") && !source_has (source, all, "__kernel")
      && !source_has (source, all, "kernel"))
    g_prefix_error (error, "the source is CUDA C++, which only builds on the CUDA back end; ");
  else if (source_has (source, all, "half") && strstr ((*error)->message, "half") != NULL)
    g_prefix_error (error, "the portable dialect has no type \"half\": compute with float; ");
  else if ((source_has (source, all, "read_write") || source_has (source, all, "__read_write"))
           && strstr ((*error)->message, "read_write") != NULL)
    g_prefix_error (error, "the portable dialect has no images that a kernel reads and writes: "
                    "read one image, and write another; ");
}

void
_gpu_builtin_explain_failure (const char  *source,
                              GError     **error)
{
  GpuSource parsed;

  if (error == NULL || !g_error_matches (*error, GPU_ERROR, GPU_ERROR_BUILD_FAILED))
    return;

  _gpu_source_init (&parsed, source, "__kernel");
  explain_names (&parsed, error);
  explain_language (&parsed, error);
  _gpu_source_clear (&parsed);
}
