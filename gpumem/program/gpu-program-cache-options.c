/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Lists the build options that do not prevent caching. They are options of OpenCL, of NVRTC and of
 * the host compiler that name no file or folder. A program with any other option is not cached.
 */
#include "config.h"

#include <string.h>

#include "gpumem/program/gpu-program-cache-private.h"

/* Options without a value; some of them may also have "=" and a value */
#define FLAGS \
  "-(?:w|g|G|dc|dw|dlto|ewp|m32|m64|O(?:[0-4sz]|fast)?|W[\\w+-]+|cl-[\\w-]+)|" \
  "--?(?:brief-diagnostics|builtin-(?:initializer-list|move-forward)|default-device|" \
  "device-(?:as-default-execution-space|c|debug|float128|int128|stack-protector|w)|" \
  "disable-warnings|(?:no-)?(?:display-error-number|err-no)|dlink-time-opt|" \
  "extensible-whole-program|extra-device-vectorization|gen(?:erate)?-(?:line-info|opt-lto)|" \
  "lineinfo|minimal|modify-stack-limit|no-source-include|optix-ir|restrict|use_fast_math|" \
  "Wreorder|warning-as-error)"
/* Options with a value, which follows after "=" or in the next word */
#define VALUED \
  "-cl-nv-[\\w-]+|" \
  "--?(?:arch|diag-(?:error|suppress|warn)|dopt|fmad|frandom-seed|ftz|gpu-architecture|" \
  "jump-table-density|jtd|maxrregcount|opt(?:imization)?-info|prec-(?:div|sqrt)|rdc|" \
  "relocatable-device-code|split-compile|std)"
#define VALUE "[\\w.+][\\w.,:+-]*"
#define PTXAS "-Xptxas|--ptxas-options"
#define PTXAS_VALUE \
  "(?:--?(?:O[0-4]|v|verbose|w|Werror|warn-[\\w-]+|d[ls]cm=\\w+|fmad=\\w+|maxrregcount=\\d+|" \
  "allow-expensive-optimizations=\\w+)(?:,(?=-)|$))+"
#define MACRO "-[DU]|--(?:un)?define-macro"
#define MACRO_VALUE "[^-@].*"

/* `whole` matches an option in one word; `name` and `value` match an option in two words. */
static const struct
{
  const char *whole;
  const char *name;
  const char *value;
}
patterns[] =
{
  { "^(?:" FLAGS ")(?:=" VALUE ")?$", NULL, NULL },
  { "^(?:" VALUED ")=" VALUE "$", "^(?:" VALUED ")$", "^" VALUE "$" },
  { "^(?:" PTXAS ")=" PTXAS_VALUE "$", "^(?:" PTXAS ")$", "^" PTXAS_VALUE "$" },
  { "^(?:-[DU]|--(?:un)?define-macro=)" MACRO_VALUE "$", "^(?:" MACRO ")$", "^" MACRO_VALUE "$" }
};

static gboolean
has_match (const char *pattern,
           const char *word)
{
  return g_regex_match_simple (pattern, word, G_REGEX_RAW | G_REGEX_DOTALL | G_REGEX_DOLLAR_ENDONLY,
                               0);
}

/* Returns the number of words that the option at @words takes, or 0 if the option is not in the
 * list. */
static guint
count_words (char **words)
{
  for (gsize i = 0; i < G_N_ELEMENTS (patterns); i++)
    {
      if (patterns[i].name != NULL && words[1] != NULL && has_match (patterns[i].name, words[0])
          && has_match (patterns[i].value, words[1]))
        return 2;
    }

  for (gsize i = 0; i < G_N_ELEMENTS (patterns); i++)
    {
      if (has_match (patterns[i].whole, words[0]))
        return 1;
    }

  return 0;
}

/* Splits the options into words as a shell would, and checks the words. */
static gboolean
are_words_known (char **words)
{
  while (*words != NULL)
    {
      guint n = count_words (words);

      if (n == 0)
        return FALSE;
      words += n;
    }

  return TRUE;
}

/* Checks the options for drivers that split them at every blank, even within quotes. Such a driver
 * may interpret a part of a quoted value as another option. */
static gboolean
are_parts_known (const char *unquoted)
{
  g_auto (GStrv) words = g_regex_split_simple ("\\s+", unquoted, G_REGEX_RAW, 0);

  for (gsize i = 0; words[i] != NULL;)
    {
      guint n = count_words (words + i);

      /* Check text after '#' too: such text is a comment for a shell, but not for drivers. */
      if (n == 0 && words[i][0] != '\0' && strchr ("-@#", words[i][0]) != NULL)
        return FALSE;
      i += MAX (n, 1);
    }

  return TRUE;
}

char *
_gpu_program_options_unquote (const char *options)
{
  GString *text = g_string_new (NULL);

  for (; *options != '\0'; options++)
    {
      if (strchr ("\"'\\", *options) == NULL)
        g_string_append_c (text, *options);
    }

  return g_string_free (text, FALSE);
}

gboolean
_gpu_program_options_are_cacheable (const char *options)
{
  g_autofree char *unquoted = _gpu_program_options_unquote (options);
  g_auto (GStrv) words = NULL;

  if (options[strspn (options, " \t\n\v\f\r")] == '\0')
    return TRUE;

  return g_shell_parse_argv (options, NULL, &words, NULL) && are_words_known (words)
         && are_parts_known (unquoted);
}
