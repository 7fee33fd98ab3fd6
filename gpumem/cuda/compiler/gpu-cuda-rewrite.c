/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Translates the portable dialect to CUDA C++ before preprocessing. The prelude covers everything
 * that macros and classes can express. This file translates the rest: words whose meaning depends
 * on their position, vector literals, and parameters in local memory. It also adds a description
 * after each kernel, into which the compiler inserts the types of the parameters. Line numbers do
 * not change, so that the messages of the compiler refer to the lines of the program.
 */
#include "config.h"

#include "gpumem/cuda/compiler/gpu-cuda-compiler.h"
#include "gpumem/dialect/gpu-source-private.h"

/* Qualifiers of parameters, in addition to those of C. */
static const char *const qualifiers[] =
{
  "__global", "__local", "__constant", "__private", "__read_only", "__write_only",
  "__grid_constant__", NULL
};

typedef struct
{
  GpuSource  source;
  GString   *output;
  gsize      copied;            /* bytes of the text already in the output */
  guint      language;          /* value of `language` in the descriptions of the kernels: bit 0 for
                                 * the portable dialect, a bitmap of the constant samplers from bit
                                 * 8 on */
} Rewriter;

static void
rewriter_init (Rewriter   *rewriter,
               const char *text,
               const char *kernel_word)
{
  _gpu_source_init (&rewriter->source, text, kernel_word);
  rewriter->output = g_string_new (NULL);
  rewriter->copied = 0;
  rewriter->language = 0;
}

static char *
rewriter_end (Rewriter *rewriter)
{
  g_string_append (rewriter->output, rewriter->source.text + rewriter->copied);
  _gpu_source_clear (&rewriter->source);

  return g_string_free (rewriter->output, FALSE);
}

/* Replaces token @i by the three texts. If @replacement is NULL, keeps the token between the other
 * two texts. */
static void
replace (Rewriter   *rewriter,
         guint       i,
         const char *before,
         const char *replacement,
         const char *after)
{
  const GpuSourceToken *token = source_get (&rewriter->source, i);
  const char *text = rewriter->source.text;

  g_string_append_len (rewriter->output, text + rewriter->copied, token->start - rewriter->copied);
  g_string_append (rewriter->output, before);

  if (replacement != NULL)
    g_string_append (rewriter->output, replacement);
  else
    g_string_append_len (rewriter->output, text + token->start, token->length);

  g_string_append (rewriter->output, after);
  rewriter->copied = token->start + token->length;
}

/* --- words, everywhere but in lines such as #include ------------------------------------------ */

/* Called with a "#" at @i. Returns the token after the line if the line is a directive without
 * code, such as #include; otherwise, returns @i. */
static guint
skip_directive (GpuSource *source,
                guint      i)
{
  static const char *const words[] = { "include", "pragma", "error", "warning", "line" };
  gsize start = source_get (source, i)->start;
  gsize end;

  for (gsize j = start; j > 0 && source->text[j - 1] != '\n'; j--)
    {
      if (!g_ascii_isspace (source->text[j - 1]))
        return i;
    }

  for (gsize j = 0; j < G_N_ELEMENTS (words); j++)
    {
      if (!source_is (source, i + 1, words[j]))
        continue;

      end = start + strcspn (source->text + start, "\n");

      while (i < source->tokens->len && source_get (source, i)->start < end)
        i++;
    }

  return i;
}

/* Returns the replacement of a keyword of OpenCL C that CUDA C++ uses as a name, or of an image
 * qualifier. Returns NULL for other tokens. */
static const char *
get_long_word (GpuSource *source,
               guint      i,
               gboolean   has_images)
{
  static const char *const words[][2] =
  {
    { "kernel", "__kernel" }, { "global", "__global" }, { "local", "__local" },
    { "constant", "__constant" }, { "private", "__private" }, { "read_only", "__read_only" },
    { "write_only", "__write_only" }
  };
  gsize n = G_N_ELEMENTS (words) - (has_images ? 0 : 2);

  for (gsize j = 0; j < n; j++)
    {
      if (source_is (source, i, words[j][0]))
        return words[j][1];
    }

  return NULL;
}

static char *
rewrite_words (const char *text,
               gboolean    has_images)
{
  Rewriter rewriter;
  GpuSource *source = &rewriter.source;
  guint i = 0;

  rewriter_init (&rewriter, text, "__kernel");
  g_array_set_size (source->tokens, 0);
  _gpu_source_tokenize (text, TRUE, source->tokens);

  while (i < source->tokens->len)
    {
      const char *word = get_long_word (source, i, has_images);
      guint next = source_get_kind (source, i) == '#' ? skip_directive (source, i) : i;

      if (next > i)
        {
          i = next;
          continue;
        }

      if (word != NULL)
        {
          replace (&rewriter, i, "", word, "");
        }
      else if (_gpu_source_is_vector_literal (source, i))
        {
          replace (&rewriter, i, "", "", "");
          replace (&rewriter, i + 1, "gpu_make<", NULL, ">");
          replace (&rewriter, i + 2, "", "", "");
          i += 2;
        }

      i++;
    }

  return rewriter_end (&rewriter);
}

/* --- functions -------------------------------------------------------------------------------- */

/* Removes the attributes at @i that only OpenCL C compilers support, or replaces them by attributes
 * of CUDA. Returns the token after the attributes, or @i if there are none. */
static guint
replace_attribute (Rewriter          *rewriter,
                   GpuSourceFunction *function,
                   guint              i)
{
  GpuSource *source = &rewriter->source;
  GpuSourceRange range = { i, source_is_attribute (source, i) ? _gpu_source_skip (source, i + 1)
                                                              : i };
  g_autofree char *block = NULL;
  g_autofree char *bounds = NULL;

  if (source_has (source, range, "reqd_work_group_size")
      || source_has (source, range, "__reqd_work_group_size__"))
    block = _gpu_source_get_required_block (source, function);
  else if (!source_has (source, range, "work_group_size_hint")
           && !source_has (source, range, "vec_type_hint"))
    return i;

  if (block != NULL)
    bounds = g_strdup_printf ("__launch_bounds__ (gpu_product (%s))", block);

  for (; i < range.last; i++)
    {
      replace (rewriter, i, "", bounds != NULL ? bounds : "", "");
      g_clear_pointer (&bounds, g_free);
    }

  return range.last;
}

/* Returns the replacement of "__constant" at @i. A sampler needs no constant memory, because its
 * value is a number. */
static const char *
get_constant_word (GpuSource *source,
                   guint      i)
{
  gboolean is_const = source_is (source, i + 1, "const");

  if (source_is (source, i + (is_const ? 2 : 1), "sampler_t"))
    return is_const ? "" : "const";

  return "__constant__";
}

/* Rewrites the tokens between function bodies. Moves constants at file scope to constant memory. */
static void
rewrite_head (Rewriter          *rewriter,
              GpuSourceFunction *function,
              guint              first,
              guint              last)
{
  GpuSource *source = &rewriter->source;
  guint depth = 0;
  guint i = first;

  while (i < last)
    {
      char kind = source_get_kind (source, i);
      guint next = function != NULL ? replace_attribute (rewriter, function, i) : i;

      if (next > i)
        {
          i = next;
          continue;
        }

      depth += kind == '(';
      depth -= kind == ')' && depth > 0;

      if (source_is (source, i, "__local"))
        replace (rewriter, i, "", "", "");
      else if (source_is (source, i, "__constant") && depth == 0)
        replace (rewriter, i, "", get_constant_word (source, i), "");

      i++;
    }
}

static void
remove_local (Rewriter       *rewriter,
              GpuSourceRange  range)
{
  for (guint i = range.first; i < range.last; i++)
    {
      if (source_is (&rewriter->source, i, "__local"))
        replace (rewriter, i, "", "", "");
    }
}

/* Returns the pointer type in @range without words that a template argument cannot contain. */
static char *
get_pointer_type (GpuSource      *source,
                  GpuSourceRange  range)
{
  GString *type = g_string_new (NULL);
  gboolean behind_star = FALSE;

  for (guint i = range.first; i < range.last; i++)
    {
      g_autofree char *word = source_get_text (source, i);

      behind_star = behind_star || *word == '*';

      if (source_is (source, i, "__local") || g_str_has_prefix (word, "restrict")
          || g_str_has_prefix (word, "__restrict") || (behind_star && *word != '*'))
        continue;

      g_string_append_printf (type, "%s%s", type->len > 0 ? " " : "", word);
    }

  return g_string_free (type, FALSE);
}

/* Replaces a parameter that is a pointer to local memory by an offset. Also appends to @start, the
 * text for the start of the body, a variable of the same name that contains the pointer. */
static void
rewrite_local (Rewriter       *rewriter,
               GpuSourceRange  range,
               GString        *start)
{
  GpuSource *source = &rewriter->source;
  guint name = _gpu_source_find_name (source, range);
  g_autofree char *word = source_get_text (source, name);
  g_autofree char *type = get_pointer_type (source, (GpuSourceRange) { range.first, name });
  g_autofree char *parameter = g_strdup_printf ("gpu_local<%s> gpu_local_%s", type, word);

  g_string_append_printf (start, " %s %s = gpu_local_%s.get ();", type, word, word);

  for (guint i = range.first; i < range.last; i++)
    replace (rewriter, i, "", i == name ? parameter : "", "");
}

/* Appends the name and the type of a parameter to @names, a string literal. A "\0" follows the
 * name, and another follows the type. */
static void
append_names (GpuSource      *source,
              GpuSourceRange  range,
              GString        *names)
{
  guint name = _gpu_source_find_name (source, range);
  g_autofree char *word = source_get_text (source, name);
  g_autofree char *type = _gpu_source_get_type (source, (GpuSourceRange) { range.first, name },
                                                qualifiers);
  g_autofree char *nice = _gpu_source_name_type (type);

  /* A parameter without a name consists of a type only. */
  g_string_append_printf (names, "%s\\0%s\\0", *nice != '\0' ? word : "",
                          *nice != '\0' ? nice : word);
}

static void
rewrite_parameters (Rewriter          *rewriter,
                    GpuSourceFunction *kernel,
                    GpuCudaLanguage    language,
                    GString           *start,
                    GString           *names)
{
  GpuSource *source = &rewriter->source;
  guint first = kernel->parameters.first;
  guint last = kernel->parameters.last;

  if (last - first == 1 && source_is (source, first, "void"))
    first = last;

  while (first < last)
    {
      guint end = _gpu_source_find_end (source, first, last);
      GpuSourceRange range = { first, end };

      append_names (source, range, names);

      if (language == GPU_CUDA_LANGUAGE_PORTABLE && source_has (source, range, "__local")
          && source_has (source, range, "*"))
        rewrite_local (rewriter, range, start);
      else if (language == GPU_CUDA_LANGUAGE_PORTABLE)
        remove_local (rewriter, range);

      first = end + 1;
    }
}

static void
rewrite_body (Rewriter       *rewriter,
              GpuSourceRange  body)
{
  GpuSource *source = &rewriter->source;
  guint parentheses = 0;

  for (guint i = body.first; i < body.last; i++)
    {
      char kind = source_get_kind (source, i);

      parentheses += kind == '(';
      parentheses -= kind == ')' && parentheses > 0;

      if (source_is (source, i, "__local"))
        replace (rewriter, i, "", parentheses == 0 && _gpu_source_is_variable (source, i)
                                  ? "__shared__" : "", "");
    }
}

/* Returns whether the text defines the word at @i as a macro whose replacement matches @pattern.
 * Also returns TRUE if the match fails with an error. */
static gboolean
is_defined (GpuSource  *source,
            guint       i,
            const char *pattern)
{
  g_autofree char *word = source_get_text (source, i);
  g_autofree char *escaped = g_regex_escape_string (word, -1);
  g_autofree char *line = g_strconcat ("^[ \\t]*#[ \\t]*define[ \\t]+", escaped,
                                       "(?![\\w$])(?:.|\\\\\\r?\\n)*?", pattern, NULL);
  g_autoptr (GRegex) regex = g_regex_new (line, G_REGEX_RAW | G_REGEX_MULTILINE, 0, NULL);
  g_autoptr (GError) error = NULL;

  return g_regex_match_full (regex, source->text, -1, 0, 0, NULL, &error) || error != NULL;
}

/* Returns whether GPU_DESCRIBE may be appended to a kernel in CUDA C++. If GPU_DESCRIBE did not
 * compile, it would break a valid program. Returns FALSE for templates, for a kernel whose name is
 * a macro, and if the declaration may contain macros that expand to a template. */
static gboolean
is_plain (GpuSource         *source,
          GpuSourceFunction *kernel)
{
  gboolean is_attribute = FALSE;

  if (kernel->words.last - kernel->words.first > 1 || is_defined (source, kernel->words.first, "")
      || source_has (source, kernel->parameters, "auto"))
    return FALSE;

  for (guint i = kernel->head.first; i < kernel->words.first; i++)
    {
      gboolean has_list = source_get_kind (source, i + 1) == '(';

      /* After __global__, parentheses can only belong to attributes. */
      is_attribute = is_attribute || source_is (source, i, source->kernel_word);

      if (source_get_kind (source, i) != GPU_SOURCE_WORD)
        continue;

      if (!source_is_attribute (source, i)
          && ((has_list && !is_attribute) || is_defined (source, i, "\\btemplate\\b")))
        return FALSE;

      if (has_list)
        i = _gpu_source_skip (source, i + 1) - 1;
    }

  return TRUE;
}

/* Returns whether @function is a kernel that its name alone identifies, and that GPU_DESCRIBE
 * supports. */
static gboolean
can_be_described (GpuSource         *source,
                  GpuSourceFunction *function)
{
  gboolean is_portable = g_str_equal (source->kernel_word, "__kernel");
  guint n = 0;

  if (!function->is_kernel || source->is_open || source_has (source, function->head, "template")
      || source_has (source, function->head, ":") || (!is_portable && !is_plain (source, function)))
    return FALSE;

  for (guint i = 0; i < source->functions->len; i++)
    {
      GpuSourceFunction *other = source->functions->pdata[i];

      n += g_str_equal (other->name, function->name)
           && source_has (source, other->head, "template") == FALSE;
    }

  /* The portable dialect has no overloading: a second definition is in another branch of #if. */
  return n == 1 || is_portable;
}

static void
rewrite_function (Rewriter          *rewriter,
                  GpuSourceFunction *function,
                  GpuCudaLanguage    language,
                  guint              first)
{
  GpuSource *source = &rewriter->source;
  GpuSourceRange body = function->body;
  gboolean is_portable = language == GPU_CUDA_LANGUAGE_PORTABLE;
  gboolean is_described = can_be_described (source, function);
  g_autofree char *block = NULL;
  g_autofree char *description = NULL;
  g_autoptr (GString) start = g_string_new (NULL);
  g_autoptr (GString) names = g_string_new (NULL);

  if (is_portable)
    rewrite_head (rewriter, function, first, function->parameters.first);

  if (function->is_kernel)
    rewrite_parameters (rewriter, function, language, start, names);
  else if (is_portable)
    remove_local (rewriter, function->parameters);

  if (start->len > 0)
    replace (rewriter, body.first, "", NULL, start->str);

  if (is_portable)
    rewrite_body (rewriter, (GpuSourceRange) { body.first + 1, body.last - 1 });

  if (!is_described)
    return;

  block = is_portable ? _gpu_source_get_required_block (source, function) : NULL;
  description = g_strdup_printf (" GPU_DESCRIBE (%s, %u, gpu_block (%s), \"%s\")",
                                 function->name, rewriter->language,
                                 block != NULL ? block : "0, 0, 0", names->str);
  replace (rewriter, body.last - 1, "", NULL, description);
}

static char *
rewrite_functions (const char      *text,
                   GpuCudaLanguage  language,
                   guint            samplers)
{
  gboolean is_portable = language == GPU_CUDA_LANGUAGE_PORTABLE;
  Rewriter rewriter;
  GpuSource *source = &rewriter.source;
  guint i = 0;

  rewriter_init (&rewriter, text, is_portable ? "__kernel" : "__global__");
  rewriter.language = (is_portable ? 1 : 0) | samplers << 8;

  for (guint j = 0; j < source->functions->len; j++)
    {
      GpuSourceFunction *function = source->functions->pdata[j];

      rewrite_function (&rewriter, function, language, i);
      i = function->body.last;
    }

  if (is_portable)
    rewrite_head (&rewriter, NULL, i, source->tokens->len);

  return rewriter_end (&rewriter);
}

/* A source without kernels is portable unless it contains words of CUDA. Sets @is_certain to FALSE
 * if the source has no words that identify its language. */
static GpuCudaLanguage
identify (const char *text,
          gboolean   *is_certain)
{
  static const char *const cuda[] = { "__device__", "__constant__", "__shared__", "template" };
  GpuSource source = { .text = text, .tokens = g_array_new (FALSE, FALSE,
                                                            sizeof (GpuSourceToken)) };
  GpuSourceRange all = { 0, 0 };
  gboolean has_kernel;
  gboolean is_cuda;

  _gpu_source_tokenize (text, TRUE, source.tokens);
  all.last = source.tokens->len;
  has_kernel = source_has (&source, all, "__kernel") || source_has (&source, all, "kernel");
  is_cuda = source_has (&source, all, "__global__");

  for (gsize i = 0; i < G_N_ELEMENTS (cuda) && !has_kernel; i++)
    is_cuda = is_cuda || source_has (&source, all, cuda[i]);

  g_array_unref (source.tokens);
  *is_certain = has_kernel || is_cuda;

  return is_cuda ? GPU_CUDA_LANGUAGE_CPP : GPU_CUDA_LANGUAGE_PORTABLE;
}

GpuCudaLanguage
_gpu_cuda_source_identify (const char         *source,
                           const char *const  *headers)
{
  gboolean is_certain;
  GpuCudaLanguage language = identify (source, &is_certain);

  for (; !is_certain && headers != NULL && *headers != NULL; headers += 2)
    language = identify (headers[1], &is_certain);

  return language;
}

/* Returns FALSE if an option selects C++03 or C++11: the descriptions of kernels need C++14, which
 * is the default. */
static gboolean
can_describe (GPtrArray *options)
{
  for (guint i = 0; i < options->len; i++)
    {
      const char *option = options->pdata[i];

      if (g_str_has_prefix (option, "-std") || g_str_has_prefix (option, "--std"))
        {
          if (strstr (option, "c++03") != NULL || strstr (option, "c++11") != NULL)
            return FALSE;
        }
    }

  return TRUE;
}

/* Returns a bitmap of the constant samplers in @headers. */
static guint
find_samplers_in (char     **headers,
                  gboolean   is_part)
{
  guint samplers = 0;

  for (; headers != NULL && *headers != NULL; headers += 2)
    samplers |= _gpu_cuda_source_find_samplers (headers[1], is_part);

  return samplers;
}

static void
rewrite_headers (char     **headers,
                 gboolean   has_images,
                 guint      samplers)
{
  for (; headers != NULL && *headers != NULL; headers += 2)
    {
      g_autofree char *words = rewrite_words (headers[1], has_images);

      g_free (headers[1]);
      headers[1] = rewrite_functions (words, GPU_CUDA_LANGUAGE_PORTABLE, samplers);
    }
}

char *
_gpu_cuda_source_prepare (const char       *source,
                          GpuCudaLanguage   language,
                          GPtrArray        *options,
                          char            **headers)
{
  gboolean is_portable = language == GPU_CUDA_LANGUAGE_PORTABLE;
  /* If @options include a file, that file can use images and samplers, directly or through macros
   * of @options. */
  gboolean has_file = _gpu_cuda_options_include (options);
  gboolean is_relocatable = _gpu_cuda_options_have (options, "-rdc")
                            || _gpu_cuda_options_have (options, "--relocatable-device-code");
  gboolean is_part = has_file || is_relocatable;
  gboolean has_images;
  GString *text = g_string_new (NULL);
  g_autofree char *macros = NULL;
  g_autofree char *words = NULL;
  g_autofree char *functions = NULL;
  guint samplers;

  if (!is_portable && !can_describe (options))
    return g_string_free (g_string_append (text, source), FALSE);

  macros = _gpu_cuda_options_take_macros (options);
  has_images = is_portable && (has_file || _gpu_cuda_source_has_images (source)
                               || _gpu_cuda_source_has_images (macros));
  samplers = has_images ? _gpu_cuda_source_find_samplers (source, is_part)
                          | _gpu_cuda_source_find_samplers (macros, is_part)
                          | find_samplers_in (headers, is_part) : 0;
  if (is_portable)
    rewrite_headers (headers, has_images, samplers);

  words = is_portable ? rewrite_words (source, has_images) : g_strdup (source);
  functions = rewrite_functions (words, language, samplers);
  if (is_relocatable)
    g_string_append (text, "#define GPU_PART 1\n");
  _gpu_cuda_prelude_append (text, language, has_images);

  /* The macros of the options follow the prelude and NVRTC's own declarations, because a macro such
   * as T, defined as float, must not change these declarations. */
  g_clear_pointer (&words, g_free);
  words = is_portable ? rewrite_words (macros, has_images) : g_strdup (macros);
  g_string_append_printf (text, "#line 1 \"options\"\n%s", words);
  g_string_append_printf (text, "#line 1 \"program.%s\"\n%s\n", is_portable ? "cl" : "cu",
                          functions);

  return g_string_free (text, FALSE);
}
