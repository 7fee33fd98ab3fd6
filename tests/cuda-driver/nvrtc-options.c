/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Parses the common options of NVRTC. Some options have no effect in the stand-in. */
#include "config.h"

#include <string.h>

#include "nvrtc.h"

typedef enum
{
  OPTION_IGNORED,               /* --name */
  OPTION_IGNORED_VALUE,         /* --name=value, --name value */
  OPTION_ARCHITECTURE,
  OPTION_STANDARD,
  OPTION_PASSED,                /* passed to c++ as a flag of one letter */
  OPTION_INCLUDE,
  OPTION_RELOCATABLE,
  OPTION_MAYBE_RELOCATABLE
} OptionKind;

static const struct
{
  const char *name;
  OptionKind  kind;
  const char *flag;
}
option_names[] = {
  { "gpu-architecture", OPTION_ARCHITECTURE, NULL },
  { "arch", OPTION_ARCHITECTURE, NULL },
  { "std", OPTION_STANDARD, NULL },
  { "include-path", OPTION_PASSED, "-I" },
  { "I", OPTION_PASSED, "-I" },
  { "define-macro", OPTION_PASSED, "-D" },
  { "D", OPTION_PASSED, "-D" },
  { "undefine-macro", OPTION_PASSED, "-U" },
  { "U", OPTION_PASSED, "-U" },
  { "pre-include", OPTION_INCLUDE, NULL },
  { "include", OPTION_INCLUDE, NULL },
  { "device-c", OPTION_RELOCATABLE, NULL },
  { "dc", OPTION_RELOCATABLE, NULL },
  { "relocatable-device-code", OPTION_MAYBE_RELOCATABLE, NULL },
  { "rdc", OPTION_MAYBE_RELOCATABLE, NULL },
  { "maxrregcount", OPTION_IGNORED_VALUE, NULL },
  { "ftz", OPTION_IGNORED_VALUE, NULL },
  { "prec-sqrt", OPTION_IGNORED_VALUE, NULL },
  { "prec-div", OPTION_IGNORED_VALUE, NULL },
  { "fmad", OPTION_IGNORED_VALUE, NULL },
  { "diag-suppress", OPTION_IGNORED_VALUE, NULL },
  { "diag-warn", OPTION_IGNORED_VALUE, NULL },
  { "diag-error", OPTION_IGNORED_VALUE, NULL },
  { "ptxas-options", OPTION_IGNORED_VALUE, NULL },
  { "optimization-info", OPTION_IGNORED_VALUE, NULL },
  { "split-compile", OPTION_IGNORED_VALUE, NULL },
  { "dopt", OPTION_IGNORED_VALUE, NULL },
  { "device-w", OPTION_IGNORED, NULL },
  { "dw", OPTION_IGNORED, NULL },
  { "device-debug", OPTION_IGNORED, NULL },
  { "G", OPTION_IGNORED, NULL },
  { "generate-line-info", OPTION_IGNORED, NULL },
  { "lineinfo", OPTION_IGNORED, NULL },
  { "use_fast_math", OPTION_IGNORED, NULL },
  { "extra-device-vectorization", OPTION_IGNORED, NULL },
  { "extensible-whole-program", OPTION_IGNORED, NULL },
  { "ewp", OPTION_IGNORED, NULL },
  { "device-int128", OPTION_IGNORED, NULL },
  { "no-source-include", OPTION_IGNORED, NULL },
  { "disable-warnings", OPTION_IGNORED, NULL },
  { "w", OPTION_IGNORED, NULL },
  { "restrict", OPTION_IGNORED, NULL },
  { "device-as-default-execution-space", OPTION_IGNORED, NULL },
  { "default-device", OPTION_IGNORED, NULL },
  { "display-error-number", OPTION_IGNORED, NULL },
  { "no-display-error-number", OPTION_IGNORED, NULL },
  { "minimal", OPTION_IGNORED, NULL },
};

/* Returns the index of the option in option_names, or -1. Sets @value to the value if @option
 * contains it, as in "--name=value", and otherwise to NULL. */
static gssize
find_option (const char  *option,
             const char **value)
{
  const char *name = option + (option[0] == '-') + (option[0] == '-' && option[1] == '-');
  gsize length = strcspn (name, "=");

  *value = name[length] == '=' ? name + length + 1 : NULL;
  if (name == option)
    return -1;
  for (gsize i = 0; i < G_N_ELEMENTS (option_names); i++)
    if (strlen (option_names[i].name) == length &&
        strncmp (name, option_names[i].name, length) == 0)
      return i;
  for (gsize i = 0; i < G_N_ELEMENTS (option_names); i++)
    if (option_names[i].kind == OPTION_PASSED && option_names[i].name[1] == '\0' &&
        name[0] == option_names[i].name[0] && name == option + 1)
      {
        *value = name + 1;
        return i;
      }
  return -1;
}

static gboolean
set_architecture (NvrtcOptions *options,
                  const char *value)
{
  const char *number = strchr (value, '_');

  options->compute_only = g_str_has_prefix (value, "compute_");
  if (number == NULL || (!options->compute_only && !g_str_has_prefix (value, "sm_")))
    return FALSE;
  options->architecture = g_ascii_strtoull (number + 1, NULL, 10);
  return nvrtc_has_architecture (options->architecture);
}

static gboolean
apply_option (NvrtcOptions *options,
              gsize       place,
              const char *value)
{
  switch (option_names[place].kind)
    {
    case OPTION_ARCHITECTURE:
      return set_architecture (options, value);
    case OPTION_STANDARD:
      g_free (options->standard);
      options->standard = g_strdup (value);
      return g_str_has_prefix (value, "c++");
    case OPTION_PASSED:
      g_ptr_array_add (options->flags, g_strconcat (option_names[place].flag, value, NULL));
      return TRUE;
    case OPTION_INCLUDE:
      g_ptr_array_add (options->flags, g_strdup ("-include"));
      g_ptr_array_add (options->flags, g_strdup (value));
      return TRUE;
    case OPTION_RELOCATABLE:
      options->relocatable = TRUE;
      return TRUE;
    case OPTION_MAYBE_RELOCATABLE:
      options->relocatable = g_str_equal (value, "true");
      return TRUE;
    default:
      return TRUE;
    }
}

gboolean
nvrtc_parse_options (nvrtcProgram       self,
               NvrtcOptions       *options,
               int                n,
               const char *const *words)
{
  for (int i = 0; i < n; i++)
    {
      const char *word = words[i];
      const char *value;
      gssize place = find_option (word, &value);
      OptionKind kind = place >= 0 ? option_names[place].kind : OPTION_IGNORED;

      if (kind != OPTION_IGNORED && kind != OPTION_RELOCATABLE && value == NULL && i + 1 < n)
        value = words[++i];
      if (place < 0)
        g_string_append_printf (self->log, "nvrtc: error: unrecognized option %s found\n", word);
      else if (!apply_option (options, place, value != NULL ? value : ""))
        g_string_append_printf (self->log, "nvrtc: error: invalid value for %s\n", word);
      else
        continue;
      return FALSE;
    }
  return TRUE;
}
