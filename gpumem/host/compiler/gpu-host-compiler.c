/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Runs the C compiler of the machine, without a shell and in a temporary directory: once to
 * preprocess a program, and again to compile the rewritten program.
 */
#include "config.h"

#include <string.h>
#include <unistd.h>

#include "gpumem/base/gpu-directory-private.h"
#include "gpumem/dialect/gpu-builtin-private.h"
#include "gpumem/dialect/gpu-option-private.h"
#include "gpumem/host/compiler/gpu-host-command.h"
#include "gpumem/host/compiler/gpu-host-compiler.h"

#define PRELUDE_FILE      "gpumem-prelude.h"
#define PRELUDE_PATH      "./" PRELUDE_FILE
#define SOURCE_FILE       "program.cl"
#define PREPROCESSED_FILE "program.i"
#define REWRITTEN_FILE    "rewritten.i"
#define OBJECT_FILE       "program.so"

/* Options for every program. Contraction of a * b + c is off, because results would depend on the
 * processor. Strict aliasing is off, because kernels often access memory through pointers of
 * another type. */
static const char *const fixed_options[] =
{
  "-std=gnu11", "-shared", "-fPIC", "-fvisibility=hidden", "-fgnu89-inline", "-fno-builtin",
  "-fno-strict-aliasing", "-fno-math-errno", "-ffp-contract=off", "-fwrapv", "-fsigned-char",
  "-Wno-attributes", "-Werror=implicit-function-declaration", "-Wl,-z,defs"
};

typedef struct
{
  GPtrArray *preprocess;        /* options for the first run; owns the strings */
  GPtrArray *compile;           /* options for the second run; owns the strings */
} Options;

static void
options_clear (Options *options)
{
  g_ptr_array_unref (options->preprocess);
  g_ptr_array_unref (options->compile);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Options, options_clear)

/* Returns the path and the first arguments of the compiler, or NULL. */
static char **
find_compiler (GError **error)
{
  const char *command = g_getenv ("CC");
  g_auto (GStrv) words = NULL;
  char *path;

  if (command == NULL || command[0] == '\0')
    command = GPU_HOST_CC;

#if GLIB_SIZEOF_LONG != 8
  g_set_error_literal (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                       "host: programs require a system with a 64-bit long");
  return NULL;
#endif

  if (!g_shell_parse_argv (command, NULL, &words, NULL))
    words = g_strsplit (command, " ", -1);

  path = words[0] != NULL ? g_find_program_in_path (words[0]) : NULL;

  if (path == NULL)
    {
      g_autofree char *name = g_filename_display_name (command);

      g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                   "host: programs need a C compiler, but '%s' was not found", name);
      return NULL;
    }

  g_free (words[0]);
  words[0] = path;

  return g_steal_pointer (&words);
}

gboolean
_gpu_host_compiler_check (GError **error)
{
  g_auto (GStrv) compiler = find_compiler (error);

  return compiler != NULL;
}

static void
append_copies (GPtrArray         *array,
               const char *const *strings,
               gsize              n)
{
  for (gsize i = 0; i < n; i++)
    g_ptr_array_add (array, g_strdup (strings[i]));
}

/* Appends the compiler's messages to @log. @product is the file in @directory that the compiler
 * writes; both may be NULL. */
static gboolean
run_compiler (GPtrArray   *arguments,
              const char  *directory,
              const char  *product,
              GString     *log,
              GError     **error)
{
  g_auto (GStrv) compiler = find_compiler (error);
  g_autofree char *name = NULL;
  g_autofree char *text = NULL;
  g_autoptr (GError) reason = NULL;

  if (compiler == NULL)
    return FALSE;

  if (_gpu_host_command_run ((const char *const *) compiler, arguments, directory, "C",
                             product, log, &reason))
    return TRUE;

  name = g_filename_display_name (compiler[0]);
  text = g_utf8_make_valid (log->str, (gssize) log->len);

  if (reason->domain == G_SPAWN_ERROR)
    g_set_error (error, GPU_ERROR, GPU_ERROR_FAILED, "host: %s: %s", name, reason->message);
  else
    g_set_error (error, GPU_ERROR, GPU_ERROR_BUILD_FAILED, "host: %s: %s:\n%s", name,
                 reason->message, text);

  return FALSE;
}

const char *
_gpu_host_compiler_identify (void)
{
  static char *identity;

  if (g_once_init_enter (&identity))
    {
      g_autoptr (GPtrArray) arguments = g_ptr_array_new ();
      g_autoptr (GString) text = g_string_new (NULL);
      g_auto (GStrv) compiler = find_compiler (NULL);
      g_autofree char *command = compiler != NULL ? g_strjoinv (" ", compiler) : NULL;

      g_ptr_array_add (arguments, (gpointer) "--version");
      run_compiler (arguments, NULL, NULL, text, NULL);
      g_string_truncate (text, strcspn (text->str, "\n"));
      g_once_init_leave (&identity, g_strdup_printf ("%s: %s", command != NULL ? command : "none",
                                                     text->str));
    }

  return identity;
}

static gboolean
set_bad_option (const char  *option,
                GError     **error)
{
  g_set_error (error, GPU_ERROR, GPU_ERROR_BUILD_FAILED,
               "host: the option '%s' is not supported; supported options are -D, -I, -w, -g, "
               "-Werror and the options of OpenCL that begin with -cl-", option);

  return FALSE;
}

/* Adds -D or -I, with the value in the same word or in the next word. Relative directories are
 * resolved against the current directory of this process, because the compiler runs in another
 * directory. */
static gboolean
add_pair (Options     *options,
          char       **words,
          gsize       *i,
          GError     **error)
{
  gboolean is_directory = words[*i][1] == 'I';
  const char *value = words[*i] + 2;

  if (*value == '\0')
    {
      if (words[*i + 1] == NULL)
        return set_bad_option (words[*i], error);

      value = words[++*i];
    }

  if (is_directory)
    {
      g_autofree char *path = g_canonicalize_filename (value, NULL);

      g_ptr_array_add (options->preprocess, g_strconcat ("-I", path, NULL));
    }
  else
    {
      g_ptr_array_add (options->preprocess, g_strconcat ("-D", value, NULL));
    }

  return TRUE;
}

static gboolean
add_option (Options     *options,
            char       **words,
            gsize       *i,
            GError     **error)
{
  const char *word = words[*i];

  if (g_str_has_prefix (word, "-D") || g_str_has_prefix (word, "-I"))
    return add_pair (options, words, i, error);

  if (g_str_equal (word, "-w") || g_str_equal (word, "-g") || g_str_equal (word, "-Werror"))
    g_ptr_array_add (options->compile, g_strdup (word));
  else if (g_str_equal (word, "-cl-opt-disable"))
    g_ptr_array_add (options->compile, g_strdup ("-O0"));
  else if (g_str_equal (word, "-cl-single-precision-constant"))
    g_ptr_array_add (options->compile, g_strdup ("-fsingle-precision-constant"));
  else if (g_str_equal (word, "-cl-fast-relaxed-math"))
    g_ptr_array_add (options->preprocess, g_strdup ("-D__FAST_RELAXED_MATH__=1"));
  else if (!g_str_has_prefix (word, "-cl-") || !_gpu_option_is_valid (word))
    return set_bad_option (word, error);

  return TRUE;
}

static gboolean
parse_options (Options     *options,
               const char  *text,
               GError     **error)
{
  g_auto (GStrv) words = NULL;
  g_autoptr (GError) reason = NULL;

  if (text == NULL || text[strspn (text, " \t\n")] == '\0')
    return TRUE;

  if (!g_shell_parse_argv (text, NULL, &words, &reason))
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_BUILD_FAILED,
                   "host: cannot parse the options '%s': %s", text, reason->message);
      return FALSE;
    }

  for (gsize i = 0; words[i] != NULL; i++)
    {
      if (!add_option (options, words, &i, error))
        return FALSE;
    }

  return TRUE;
}

char *
_gpu_host_directory_new (GError **error)
{
  g_autoptr (GError) reason = NULL;
  char *directory = _gpu_directory_new (&reason);

  if (directory == NULL)
    g_set_error (error, GPU_ERROR, GPU_ERROR_FAILED, "host: %s", reason->message);

  return directory;
}

static gboolean
write_file (const char  *directory,
            const char  *name,
            const char  *text,
            GError     **error)
{
  g_autoptr (GError) reason = NULL;

  if (_gpu_directory_write (directory, name, text, &reason))
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_FAILED, "host: %s", reason->message);

  return FALSE;
}

static GBytes *
read_file (const char  *directory,
           const char  *name,
           GError     **error)
{
  g_autofree char *path = g_build_filename (directory, name, NULL);
  g_autoptr (GError) reason = NULL;
  char *data;
  gsize size;

  if (g_file_get_contents (path, &data, &size, &reason))
    return g_bytes_new_take (data, size);

  g_set_error (error, GPU_ERROR, GPU_ERROR_FAILED, "host: %s", reason->message);

  return NULL;
}

/* Writes the headers beside the source, where the compiler finds them first. */
static gboolean
write_headers (const char         *directory,
               const char *const  *headers,
               GError            **error)
{
  static const char *const own[] =
  {
    PRELUDE_FILE, SOURCE_FILE, PREPROCESSED_FILE, REWRITTEN_FILE, OBJECT_FILE, NULL
  };
  g_autoptr (GError) reason = NULL;

  for (guint i = 0; headers != NULL && headers[i] != NULL; i += 2)
    {
      g_autofree char *first = g_strndup (headers[i], strcspn (headers[i], "/"));

      if (g_strv_contains (own, first))
        {
          g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                       "host: a header cannot have the name '%s', because the compiler needs '%s' "
                       "for a file of its own", headers[i], first);
          return FALSE;
        }
    }

  if (_gpu_directory_write_all (directory, headers, &reason))
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_FAILED, "host: %s", reason->message);

  return FALSE;
}

static gboolean
preprocess (const char  *directory,
            const char  *source,
            gboolean     images,
            Options     *options,
            GString     *log,
            GError     **error)
{
  static const char *const last[] =
  {
    "-std=gnu11", "-E", "-x", "c", "-include", PRELUDE_PATH, SOURCE_FILE, "-o",
    PREPROCESSED_FILE
  };
  g_autofree char *prelude = _gpu_host_prelude_new (images);

  if (!write_file (directory, PRELUDE_FILE, prelude, error)
      || !write_file (directory, SOURCE_FILE, source, error))
    return FALSE;

  append_copies (options->preprocess, last, G_N_ELEMENTS (last));

  return run_compiler (options->preprocess, directory, PREPROCESSED_FILE, log, error);
}

static gboolean
rewrite (const char  *directory,
         gboolean     images,
         GError     **error)
{
  g_autoptr (GBytes) bytes = read_file (directory, PREPROCESSED_FILE, error);
  g_autofree char *text = NULL;
  g_autofree char *rewritten = NULL;

  if (bytes == NULL)
    return FALSE;

  text = g_strndup (g_bytes_get_data (bytes, NULL), g_bytes_get_size (bytes));

  if (images)
    {
      char *scalar = _gpu_host_rewrite_vectors (text);

      g_free (text);
      text = scalar;
    }

  rewritten = _gpu_host_rewrite (text, error);

  return rewritten != NULL && write_file (directory, REWRITTEN_FILE, rewritten, error);
}

static gboolean
compile (const char  *directory,
         Options     *options,
         GString     *log,
         GError     **error)
{
  static const char *const last[] =
  {
    "-x", "cpp-output", REWRITTEN_FILE, "-x", "none", "-o", OBJECT_FILE, "-lm"
  };

  append_copies (options->compile, last, G_N_ELEMENTS (last));

  return run_compiler (options->compile, directory, OBJECT_FILE, log, error);
}

/* @headers (nullable) has names and texts, alternately. */
static gboolean
have_images (const char *const *headers)
{
  gboolean found = FALSE;

  for (; headers != NULL && *headers != NULL && !found; headers += 2)
    found = _gpu_host_text_has_images (headers[1]);

  return found;
}

#define VECTOR "(?:u?(?:char|short|int|long)|float|double)(?:2|3|4|8|16)"

/* Says in @error which function of OpenCL C is missing, or that the compiler refused an operator on
 * vectors, which are structures in C. */
static void
explain (const char  *source,
         const char  *log,
         GError     **error)
{
  const char *function = " error: (?:implicit declaration of|.*undeclared) function '(\\w+)'";
  const char *operator =
    " error: (?:(?:invalid (?:operands|argument type)|cannot (?:in|de)crement).*'" VECTOR "'"
    "|wrong type argument to |.* value where scalar is required|.*scalar type \\('" VECTOR "'"
    "|.*(?:assigning to|initializing).*'" VECTOR "'.* type '[a-z ]+'|invalid initializer"
    "|incompatible type for argument \\d+ of 'gpu_host_|non-floating-point argument"
    "|.*no member named '(?:[xyzw]{2,4}|s[0-9a-fA-F]{2,}|lo|hi|even|odd)')";
  g_autoptr (GRegex) regex = g_regex_new (function, G_REGEX_RAW, 0, NULL);
  g_autoptr (GMatchInfo) match = NULL;
  g_autofree char *name = NULL;

  if (error == NULL || !g_error_matches (*error, GPU_ERROR, GPU_ERROR_BUILD_FAILED))
    return;

  for (g_regex_match (regex, log, 0, &match); name == NULL && g_match_info_matches (match);
       g_match_info_next (match, NULL))
    {
      name = g_match_info_fetch (match, 1);
      if (!_gpu_builtin_has_name (name))
        g_clear_pointer (&name, g_free);
    }

  if (name != NULL)
    g_prefix_error (error, "the host has no function '%s' of OpenCL C: see \"The portable "
                    "dialect\" in the manual; ", name);
  else if (g_regex_match_simple ("\\b" VECTOR "\\b", source, G_REGEX_RAW, 0)
           && g_regex_match_simple (operator, log, G_REGEX_RAW, 0))
    g_prefix_error (error, "the host has no operators and no functions on vectors: compute each "
                    "component, and see \"The portable dialect\" in the manual; ");
}

GBytes *
_gpu_host_compiler_run (const char         *source,
                        const char         *options_text,
                        const char *const  *headers,
                        char              **log,
                        GError            **error)
{
  g_auto (Options) options = { g_ptr_array_new_with_free_func (g_free),
                               g_ptr_array_new_with_free_func (g_free) };
  g_autoptr (GString) messages = g_string_new (NULL);
  g_autofree char *directory = NULL;
  gboolean images = _gpu_host_text_has_images (source)
                    || (options_text != NULL && _gpu_host_text_has_images (options_text))
                    || have_images (headers);
  GBytes *object = NULL;

  append_copies (options.compile, fixed_options, G_N_ELEMENTS (fixed_options));
  g_ptr_array_add (options.compile, g_strdup ("-O2"));
  if (headers != NULL)
    g_ptr_array_add (options.preprocess, g_strdup ("-I."));

  if (!parse_options (&options, options_text, error) || !_gpu_host_compiler_check (error))
    return NULL;

  directory = _gpu_host_directory_new (error);

  if (directory == NULL)
    return NULL;

  if (write_headers (directory, headers, error)
      && preprocess (directory, source, images, &options, messages, error)
      && rewrite (directory, images, error)
      && compile (directory, &options, messages, error))
    object = read_file (directory, OBJECT_FILE, error);
  else
    {
      explain (source, messages->str, error);
      _gpu_builtin_explain_failure (source, error);
    }

  _gpu_directory_remove (directory);

  if (object != NULL && messages->len > 0)
    *log = g_utf8_make_valid (messages->str, (gssize) messages->len);

  return object;
}
