/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Converts the options of a program to those of NVRTC: passes options of NVRTC through, translates
 * options of OpenCL for programs in the portable dialect, and adds defaults for options that the
 * program does not set.
 */
#include "config.h"

#include <string.h>

#include "gpumem/cuda/compiler/gpu-cuda-compiler.h"
#include "gpumem/cuda/compiler/gpu-cuda-nvrtc.h"
#include "gpumem/dialect/gpu-option-private.h"

/* Other options of OpenCL are removed, because they have no effect that a portable program could
 * observe. */
static const struct
{
  const char *opencl;
  const char *nvrtc;
}
translations[] =
{
  { "-cl-mad-enable", "--fmad=true" },
  { "-cl-unsafe-math-optimizations", "--fmad=true" },
  { "-cl-fast-relaxed-math", "--use_fast_math" },
  { "-cl-fast-relaxed-math", "-D__FAST_RELAXED_MATH__=1" },
  { "-cl-denorms-are-zero", "--ftz=true" },
  { "-cl-opt-disable", "--ptxas-options=-O0" },
  { "-g", "--generate-line-info" }
};

gboolean
_gpu_cuda_options_have (GPtrArray  *options,
                        const char *prefix)
{
  for (guint i = 0; i < options->len; i++)
    {
      if (g_str_has_prefix (options->pdata[i], prefix))
        return TRUE;
    }

  return FALSE;
}

gboolean
_gpu_cuda_options_include (GPtrArray *options)
{
  return _gpu_cuda_options_have (options, "--pre-include")
         || _gpu_cuda_options_have (options, "-include");
}

/* Returns FALSE if @word is not an option of OpenCL. */
static gboolean
translate (const char *word,
           GPtrArray  *options)
{
  gboolean is_known = g_str_has_prefix (word, "-cl-") && _gpu_option_is_valid (word);

  for (gsize i = 0; i < G_N_ELEMENTS (translations); i++)
    {
      if (g_str_equal (word, translations[i].opencl))
        {
          g_ptr_array_add (options, g_strdup (translations[i].nvrtc));
          is_known = TRUE;
        }
    }

  return is_known;
}

/* Joins "-I path", "-D name" and "-U name" to one word each and translates the other options. */
static void
parse_words (char            **words,
             GpuCudaLanguage   language,
             GPtrArray        *options)
{
  for (gsize i = 0; words[i] != NULL; i++)
    {
      gboolean is_pair = g_str_equal (words[i], "-I") || g_str_equal (words[i], "-D") ||
                         g_str_equal (words[i], "-U");

      if (is_pair && words[i + 1] != NULL)
        {
          g_ptr_array_add (options, g_strconcat (words[i], words[i + 1], NULL));
          i++;
        }
      else if (language != GPU_CUDA_LANGUAGE_PORTABLE || !translate (words[i], options))
        {
          g_ptr_array_add (options, g_strdup (words[i]));
        }
    }
}

/* Selects machine code for the device if NVRTC supports the device. Otherwise, selects the newest
 * architecture that is older than the device, and PTX as the output: the driver compiles the PTX
 * for the device. */
static char *
get_architecture (int compute_capability)
{
  int best = 0;

  for (int i = 0; i < _gpu_cuda_nvrtc.n_architectures; i++)
    {
      int architecture = _gpu_cuda_nvrtc.architectures[i];

      if (architecture == compute_capability)
        return g_strdup_printf ("--gpu-architecture=sm_%d", architecture);

      if (architecture < compute_capability)
        best = MAX (best, architecture);
    }

  /* If the device is older than every architecture of NVRTC, let NVRTC report the error. */
  return g_strdup_printf ("--gpu-architecture=%s_%d", best > 0 ? "compute" : "sm",
                          best > 0 ? best : compute_capability);
}

static void
add_defaults (int              compute_capability,
              GpuCudaLanguage  language,
              GPtrArray       *options)
{
  /* The prelude is C++14, which is not the default of NVRTC before CUDA 12. */
  if (_gpu_cuda_nvrtc.version > 0 && _gpu_cuda_nvrtc.version < 12000 &&
      !_gpu_cuda_options_have (options, "--std") && !_gpu_cuda_options_have (options, "-std"))
    g_ptr_array_add (options, g_strdup ("--std=c++14"));

  if (!_gpu_cuda_options_have (options, "--gpu-architecture") &&
      !_gpu_cuda_options_have (options, "-arch"))
    g_ptr_array_add (options, get_architecture (compute_capability));

  if (language != GPU_CUDA_LANGUAGE_PORTABLE)
    return;

  /* If the compiler contracted a * b + c, results would differ from those of other devices. */
  if (!_gpu_cuda_options_have (options, "--fmad") && !_gpu_cuda_options_have (options, "-fmad") &&
      !_gpu_cuda_options_have (options, "--use_fast_math") &&
      !_gpu_cuda_options_have (options, "-use_fast_math"))
    g_ptr_array_add (options, g_strdup ("--fmad=false"));

  g_ptr_array_add (options, g_strdup ("--device-as-default-execution-space"));
  /* 161: unrecognized #pragma, such as #pragma OPENCL. */
  g_ptr_array_add (options, g_strdup ("--diag-suppress=161"));
}

GPtrArray *
_gpu_cuda_options_new (int               compute_capability,
                       GpuCudaLanguage   language,
                       const char       *text,
                       GError          **error)
{
  g_autoptr (GPtrArray) options = g_ptr_array_new_with_free_func (g_free);
  g_autoptr (GError) reason = NULL;
  g_auto (GStrv) words = NULL;

  if (text != NULL && text[strspn (text, " \t\n")] != '\0')
    {
      if (!g_shell_parse_argv (text, NULL, &words, &reason))
        {
          g_set_error (error, GPU_ERROR, GPU_ERROR_BUILD_FAILED, "the options '%s': %s", text,
                       reason->message);
          return NULL;
        }

      parse_words (words, language, options);
    }

  add_defaults (compute_capability, language, options);

  return g_steal_pointer (&options);
}

/* --- macros ----------------------------------------------------------------------------------- */

/* Returns the value of the option at @i if the option begins with @letter or @name; otherwise,
 * returns NULL. Sets @n_words to the number of words that the option and its value occupy. */
static const char *
get_value (GPtrArray  *options,
           guint       i,
           const char *letter,
           const char *name,
           guint      *n_words)
{
  const char *word = options->pdata[i];
  gboolean is_long = g_str_has_prefix (word, name);

  if (!is_long && !g_str_has_prefix (word, letter))
    return NULL;

  word += strlen (is_long ? name : letter);
  *n_words = *word == '\0' ? 2 : 1;

  if (*n_words == 2)
    return i + 1 < options->len ? options->pdata[i + 1] : NULL;

  if (is_long && *word != '=')
    return NULL;

  return *word == '=' ? word + 1 : word;
}

/* Appends the lines equivalent to "NAME", "NAME=VALUE" or "NAME(a,b)=VALUE". */
static gboolean
append_definition (const char *definition,
                   GString    *lines)
{
  static GRegex *regex;
  g_autoptr (GMatchInfo) match = NULL;
  g_autofree char *name = NULL;
  g_autofree char *list = NULL;
  g_autofree char *value = NULL;

  if (g_once_init_enter (&regex))
    g_once_init_leave (&regex, g_regex_new ("^([A-Za-z_]\\w*)(\\([^()]*\\))?(=[^\\n]*)?(?<!\\\\)$",
                                            G_REGEX_RAW | G_REGEX_DOLLAR_ENDONLY, 0, NULL));

  if (!g_regex_match (regex, definition, 0, &match))
    return FALSE;

  name = g_match_info_fetch (match, 1);
  list = g_match_info_fetch (match, 2);
  value = g_match_info_fetch (match, 3);
  g_string_append_printf (lines, "#undef %s\n#define %s%s %s\n", name, name,
                          list != NULL ? list : "",
                          value != NULL && *value == '=' ? value + 1 : "1");

  return TRUE;
}

static gboolean
append_undefinition (const char *name,
                     GString    *lines)
{
  if (!g_regex_match_simple ("^[A-Za-z_]\\w*$", name, G_REGEX_RAW | G_REGEX_DOLLAR_ENDONLY, 0))
    return FALSE;

  g_string_append_printf (lines, "#undef %s\n", name);

  return TRUE;
}

char *
_gpu_cuda_options_take_macros (GPtrArray *options)
{
  GString *lines = g_string_new (NULL);
  guint i = 0;

  /* If the options include a file before the program, this file may use the macros that other
   * options define. In that case, leave the definitions in the options. */
  if (_gpu_cuda_options_include (options))
    return g_string_free (lines, FALSE);

  while (i < options->len)
    {
      guint n_words = 1;
      const char *value = get_value (options, i, "-D", "--define-macro", &n_words);
      gboolean is_taken = value != NULL && append_definition (value, lines);

      if (value == NULL)
        {
          value = get_value (options, i, "-U", "--undefine-macro", &n_words);
          is_taken = value != NULL && append_undefinition (value, lines);
        }

      if (is_taken)
        g_ptr_array_remove_range (options, i, n_words);
      else
        i++;
    }

  return g_string_free (lines, FALSE);
}
