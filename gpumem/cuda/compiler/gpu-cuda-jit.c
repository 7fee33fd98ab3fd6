/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Options for programs from binaries, for example "max-registers=32 line-info". The equivalent
 * options of the CUDA tools, for example "-maxrregcount=32 -lineinfo", are also accepted. The info
 * log and the error log are always requested.
 */
#include "config.h"

#include <string.h>

#include "gpumem/cuda/compiler/gpu-cuda-compiler.h"

#define LOG_SIZE 16384

typedef enum { FLAG, NUMBER, TARGET, FALLBACK, CACHE } ValueKind;

static const struct
{
  const char   *name;
  CUjit_option  option;
  ValueKind     kind;
}
words[] =
{
  { "max-registers", CU_JIT_MAX_REGISTERS, NUMBER },
  { "maxrregcount", CU_JIT_MAX_REGISTERS, NUMBER },
  { "threads-per-block", CU_JIT_THREADS_PER_BLOCK, NUMBER },
  { "optimization-level", CU_JIT_OPTIMIZATION_LEVEL, NUMBER },
  { "opt-level", CU_JIT_OPTIMIZATION_LEVEL, NUMBER },
  { "target", CU_JIT_TARGET, TARGET },
  { "gpu-architecture", CU_JIT_TARGET, TARGET },
  { "gpu-name", CU_JIT_TARGET, TARGET },
  { "arch", CU_JIT_TARGET, TARGET },
  { "fallback", CU_JIT_FALLBACK_STRATEGY, FALLBACK },
  { "cache", CU_JIT_CACHE_MODE, CACHE },
  { "debug-info", CU_JIT_GENERATE_DEBUG_INFO, FLAG },
  { "device-debug", CU_JIT_GENERATE_DEBUG_INFO, FLAG },
  { "g", CU_JIT_GENERATE_DEBUG_INFO, FLAG },
  { "G", CU_JIT_GENERATE_DEBUG_INFO, FLAG },
  { "line-info", CU_JIT_GENERATE_LINE_INFO, FLAG },
  { "lineinfo", CU_JIT_GENERATE_LINE_INFO, FLAG },
  { "generate-line-info", CU_JIT_GENERATE_LINE_INFO, FLAG },
  { "verbose", CU_JIT_LOG_VERBOSE, FLAG },
  { "v", CU_JIT_LOG_VERBOSE, FLAG }
};

static const struct
{
  ValueKind   kind;
  const char *name;
  guint       value;
}
choices[] =
{
  { FALLBACK, "ptx", 0 }, { FALLBACK, "binary", 1 },
  { CACHE, "none", 0 }, { CACHE, "cg", 1 }, { CACHE, "ca", 2 }
};

static void
add (GpuCudaJit   *jit,
     CUjit_option  option,
     gpointer      value)
{
  guint i = 0;

  /* The last value of a repeated option takes effect. */
  while (i < jit->n && jit->options[i] != option)
    i++;

  jit->options[i] = option;
  jit->values[i] = value;
  jit->n = MAX (jit->n, i + 1);
}

static gboolean
parse_value (ValueKind   kind,
             const char *text,
             guint64    *value)
{
  if (kind == FLAG)
    {
      *value = 1;
      return text == NULL;
    }

  if (text == NULL)
    return FALSE;

  if (kind == TARGET && (g_str_has_prefix (text, "sm_") || g_str_has_prefix (text, "sm-")))
    text += 3;
  else if (kind == TARGET && g_str_has_prefix (text, "compute_"))
    text += 8;

  for (gsize i = 0; i < G_N_ELEMENTS (choices); i++)
    {
      if (choices[i].kind == kind && g_str_equal (choices[i].name, text))
        {
          *value = choices[i].value;
          return TRUE;
        }
    }

  return (kind == NUMBER || kind == TARGET) &&
         g_ascii_string_to_unsigned (text, 10, 0, G_MAXINT32, value, NULL);
}

/* Parses "O3", the option -O3 without the dash. */
static gboolean
parse_level (const char *name,
             guint64    *level)
{
  return name[0] == 'O' && parse_value (NUMBER, name + 1, level);
}

/* Returns whether @word is an option that only compilers of source use. For programs from binaries,
 * such options have no effect. They are no error, because a context prepends its options to those
 * of every program. */
static gboolean
is_for_source (const char *word)
{
  return g_str_has_prefix (word, "-D") || g_str_has_prefix (word, "-I") ||
         g_str_has_prefix (word, "-cl-");
}

static gboolean
parse_word (GpuCudaJit  *jit,
            char       **list,
            gsize       *at,
            GError     **error)
{
  const char *word = list[*at];
  const char *name = word + strspn (word, "-");
  const char *equals = strchr (name, '=');
  g_autofree char *key = equals != NULL ? g_strndup (name, equals - name) : g_strdup (name);
  const char *text = equals != NULL ? equals + 1 : NULL;
  guint64 value;

  if (is_for_source (word))
    {
      *at += word[2] == '\0' && list[*at + 1] != NULL;
      return TRUE;
    }

  if (parse_level (name, &value))
    {
      add (jit, CU_JIT_OPTIMIZATION_LEVEL, GUINT_TO_POINTER ((guint) value));
      return TRUE;
    }

  for (gsize i = 0; i < G_N_ELEMENTS (words); i++)
    {
      if (!g_str_equal (words[i].name, key))
        continue;

      if (text == NULL && words[i].kind != FLAG && list[*at + 1] != NULL)
        text = list[++*at];

      if (!parse_value (words[i].kind, text, &value))
        break;

      add (jit, words[i].option, GUINT_TO_POINTER ((guint) value));
      return TRUE;
    }

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "unknown option '%s' for a binary, or invalid value", word);

  return FALSE;
}

gboolean
_gpu_cuda_jit_init (GpuCudaJit  *jit,
                    const char  *options,
                    GError     **error)
{
  g_auto (GStrv) list = NULL;
  g_autoptr (GError) reason = NULL;

  memset (jit, 0, sizeof *jit);

  if (options != NULL && options[strspn (options, " \t\n")] != '\0' &&
      !g_shell_parse_argv (options, NULL, &list, &reason))
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT, "the options '%s': %s", options,
                   reason->message);
      return FALSE;
    }

  for (gsize i = 0; list != NULL && list[i] != NULL; i++)
    {
      if (!parse_word (jit, list, &i, error))
        return FALSE;
    }

  jit->info_log = g_malloc0 (LOG_SIZE);
  jit->error_log = g_malloc0 (LOG_SIZE);
  add (jit, CU_JIT_INFO_LOG_BUFFER, jit->info_log);
  add (jit, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, GUINT_TO_POINTER (LOG_SIZE - 1));
  add (jit, CU_JIT_ERROR_LOG_BUFFER, jit->error_log);
  add (jit, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, GUINT_TO_POINTER (LOG_SIZE - 1));

  return TRUE;
}

void
_gpu_cuda_jit_clear (GpuCudaJit *jit)
{
  g_clear_pointer (&jit->info_log, g_free);
  g_clear_pointer (&jit->error_log, g_free);
}

static void
append_log (GString    *log,
            const char *text)
{
  g_autofree char *valid = text != NULL ? g_utf8_make_valid (text, -1) : g_strdup ("");

  g_strstrip (valid);

  if (*valid == '\0')
    return;

  if (log->len > 0)
    g_string_append_c (log, '\n');

  g_string_append (log, valid);
}

void
_gpu_cuda_jit_append_log (GpuCudaJit *jit,
                          GString    *log)
{
  append_log (log, jit->error_log);
  append_log (log, jit->info_log);
}
