/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/dialect/gpu-source-private.h"

const char _gpu_source_constants[] =
  "#define CHAR_BIT 8\n"
  "#define SCHAR_MAX 127\n"
  "#define SCHAR_MIN (-128)\n"
  "#define CHAR_MAX 127\n"
  "#define CHAR_MIN (-128)\n"
  "#define UCHAR_MAX 255\n"
  "#define SHRT_MAX 32767\n"
  "#define SHRT_MIN (-32768)\n"
  "#define USHRT_MAX 65535\n"
  "#define INT_MAX 2147483647\n"
  "#define INT_MIN (-2147483647 - 1)\n"
  "#define UINT_MAX 0xffffffffU\n"
  "#define LONG_MAX 0x7fffffffffffffffL\n"
  "#define LONG_MIN (-0x7fffffffffffffffL - 1)\n"
  "#define ULONG_MAX 0xffffffffffffffffUL\n"
  "#define FLT_DIG 6\n"
  "#define FLT_MANT_DIG 24\n"
  "#define FLT_MAX_EXP 128\n"
  "#define FLT_MIN_EXP (-125)\n"
  "#define FLT_RADIX 2\n"
  "#define FLT_MAX 3.40282346638528859812e+38f\n"
  "#define FLT_MIN 1.17549435082228750797e-38f\n"
  "#define FLT_EPSILON 1.1920928955078125e-7f\n"
  "#define MAXFLOAT FLT_MAX\n"
  "#define DBL_DIG 15\n"
  "#define DBL_MANT_DIG 53\n"
  "#define DBL_MAX 1.79769313486231570815e+308\n"
  "#define DBL_MIN 2.22507385850720138309e-308\n"
  "#define DBL_EPSILON 2.22044604925031308085e-16\n"
  "#define M_E 2.71828182845904523536\n"
  "#define M_LOG2E 1.44269504088896340736\n"
  "#define M_LOG10E 0.434294481903251827651\n"
  "#define M_LN2 0.693147180559945309417\n"
  "#define M_LN10 2.30258509299404568402\n"
  "#define M_PI 3.14159265358979323846\n"
  "#define M_PI_2 1.57079632679489661923\n"
  "#define M_PI_4 0.785398163397448309616\n"
  "#define M_1_PI 0.318309886183790671538\n"
  "#define M_2_PI 0.636619772367581343076\n"
  "#define M_2_SQRTPI 1.12837916709551257390\n"
  "#define M_SQRT2 1.41421356237309504880\n"
  "#define M_SQRT1_2 0.707106781186547524401\n"
  "#define M_E_F 2.71828182845904523536f\n"
  "#define M_LOG2E_F 1.44269504088896340736f\n"
  "#define M_LOG10E_F 0.434294481903251827651f\n"
  "#define M_LN2_F 0.693147180559945309417f\n"
  "#define M_LN10_F 2.30258509299404568402f\n"
  "#define M_PI_F 3.14159265358979323846f\n"
  "#define M_PI_2_F 1.57079632679489661923f\n"
  "#define M_PI_4_F 0.785398163397448309616f\n"
  "#define M_1_PI_F 0.318309886183790671538f\n"
  "#define M_2_PI_F 0.636619772367581343076f\n"
  "#define M_2_SQRTPI_F 1.12837916709551257390f\n"
  "#define M_SQRT2_F 1.41421356237309504880f\n"
  "#define M_SQRT1_2_F 0.707106781186547524401f\n";

static void
function_free (gpointer data)
{
  GpuSourceFunction *function = data;

  g_free (function->name);
  g_free (function);
}

static gsize
get_word_length (const char *text)
{
  gsize length = 0;

  while (g_ascii_isalnum (text[length]) || text[length] == '_' || text[length] == '$')
    length++;

  return length;
}

/* Accepts the digit separators of C++, as in 1'000. */
static gsize
get_number_length (const char *text)
{
  gsize length = get_word_length (text);

  while (text[length] == '\'' && g_ascii_isalnum (text[length + 1]))
    length += 1 + get_word_length (text + length + 1);

  return length;
}

/* Returns the length of the backslash at @text and the end of line after it, or 0. */
static gsize
get_continuation_length (const char *text)
{
  if (g_str_has_prefix (text, "\\\r\n"))
    return 3;

  return g_str_has_prefix (text, "\\\n") ? 2 : 0;
}

static gsize
get_quoted_length (const char *text)
{
  gsize length = 1;

  while (text[length] != '\0' && text[length] != '\n' && text[length] != text[0])
    {
      gsize continuation = get_continuation_length (text + length);

      if (continuation > 0)
        length += continuation;
      else
        length += text[length] == '\\' && text[length + 1] != '\0' ? 2 : 1;
    }

  return text[length] == text[0] ? length + 1 : length;
}

/* Returns the length of the comment at @text, or 0 if no comment begins there. */
static gsize
get_comment_length (const char *text)
{
  const char *end;

  if (text[0] != '/' || (text[1] != '/' && text[1] != '*'))
    return 0;

  if (text[1] == '/')
    return strcspn (text, "\n");

  end = strstr (text + 2, "*/");

  return end != NULL ? (gsize) (end + 2 - text) : strlen (text);
}

static gsize
get_token_length (const char *text,
                  char       *kind)
{
  *kind = GPU_SOURCE_OTHER;

  if (g_ascii_isalpha (*text) || *text == '_' || *text == '$')
    {
      *kind = GPU_SOURCE_WORD;
      return get_word_length (text);
    }

  if (g_ascii_isdigit (*text))
    return get_number_length (text);

  if (*text == '"' || *text == '\'')
    return get_quoted_length (text);

  *kind = *text;

  return 1;
}

/* Returns the length of the directive at @text. A backslash at the end of a line, and a comment,
 * continue the directive on the next line. A string may contain the characters of a comment. */
static gsize
get_directive_length (const char *text)
{
  gsize length = 0;
  char kind;

  while (text[length] != '\0' && text[length] != '\n')
    {
      gsize skipped = get_comment_length (text + length);

      if (skipped == 0)
        skipped = get_continuation_length (text + length);

      length += skipped > 0 ? skipped : get_token_length (text + length, &kind);
    }

  return length;
}

void
_gpu_source_tokenize (const char *text,
                      gboolean    directives,
                      GArray     *tokens)
{
  const char *p = text;
  gboolean at_start = TRUE;

  while (*p != '\0')
    {
      gsize comment = get_comment_length (p);
      GpuSourceToken token = { p - text, 0, '\0' };

      if (comment > 0)
        {
          p += comment;
          continue;
        }

      if (g_ascii_isspace (*p))
        {
          at_start = at_start || *p == '\n';
          p++;
          continue;
        }

      if (*p == '#' && at_start && !directives)
        {
          p += get_directive_length (p);
          continue;
        }

      token.length = get_token_length (p, &token.kind);
      g_array_append_val (tokens, token);
      at_start = FALSE;
      p += token.length;
    }
}

guint
_gpu_source_skip (GpuSource *source,
                  guint      i)
{
  guint depth = 0;

  for (; i < source->tokens->len; i++)
    {
      char kind = source_get_kind (source, i);

      if (kind == '(' || kind == '[' || kind == '{')
        depth++;
      else if ((kind == ')' || kind == ']' || kind == '}') && --depth == 0)
        return i + 1;
    }

  source->is_open = TRUE;

  return i;
}

guint
_gpu_source_find_end (GpuSource *source,
                      guint      i,
                      guint      last)
{
  while (i < last && source_get_kind (source, i) != ',')
    {
      gboolean opens = strchr ("([{", source_get_kind (source, i)) != NULL;

      i = opens ? _gpu_source_skip (source, i) : i + 1;
    }

  return MIN (i, last);
}

guint
_gpu_source_find_name (GpuSource      *source,
                       GpuSourceRange  parameter)
{
  guint name = parameter.first;

  for (guint i = parameter.first; i < parameter.last; i++)
    {
      if (source_is_attribute (source, i))
        i = _gpu_source_skip (source, i + 1) - 1;
      else if (source_get_kind (source, i) == '[')
        i = _gpu_source_skip (source, i) - 1;
      else if (source_get_kind (source, i) == GPU_SOURCE_WORD)
        name = i;
    }

  return name;
}

gboolean
_gpu_source_is_variable (GpuSource *source,
                         guint      i)
{
  for (i++; i < source->tokens->len; i++)
    {
      char kind = source_get_kind (source, i);

      if (source_is_attribute (source, i))
        i = _gpu_source_skip (source, i + 1) - 1;
      else if (kind == '*' || kind == '(' || kind == ')')
        return FALSE;
      else if (strchr (";,=[", kind) != NULL)
        return TRUE;
    }

  return FALSE;
}

static gboolean
is_qualifier (GpuSource         *source,
              guint              i,
              const char *const *more)
{
  static const char *const words[] =
  {
    "const", "__const", "volatile", "__volatile__", "restrict", "__restrict", "__restrict__"
  };

  for (gsize j = 0; j < G_N_ELEMENTS (words); j++)
    {
      if (source_is (source, i, words[j]))
        return TRUE;
    }

  for (; *more != NULL; more++)
    {
      if (source_is (source, i, *more))
        return TRUE;
    }

  return FALSE;
}

char *
_gpu_source_get_type (GpuSource         *source,
                      GpuSourceRange     range,
                      const char *const *qualifiers)
{
  GString *type = g_string_new (NULL);

  for (guint i = range.first; i < range.last; i++)
    {
      g_autofree char *word = NULL;

      if (source_is_attribute (source, i))
        {
          i = _gpu_source_skip (source, i + 1) - 1;
          continue;
        }

      if (is_qualifier (source, i, qualifiers))
        continue;

      word = source_get_text (source, i);

      if (type->len > 0 && source_get_kind (source, i) != '*')
        g_string_append_c (type, ' ');

      g_string_append (type, word);
    }

  return g_string_free (type, FALSE);
}

char *
_gpu_source_name_type (const char *type)
{
  static const char *const names[][2] =
  {
    { "unsigned char", "uchar" }, { "unsigned short", "ushort" }, { "unsigned int", "uint" },
    { "unsigned long", "ulong" }, { "unsigned", "uint" }
  };

  for (gsize i = 0; i < G_N_ELEMENTS (names); i++)
    {
      gsize length = strlen (names[i][0]);

      if (g_str_has_prefix (type, names[i][0]) && strchr ("*", type[length]) != NULL)
        return g_strconcat (names[i][1], type + length, NULL);
    }

  return g_strdup (type);
}

guint
_gpu_source_get_n_components (const GpuSource *source,
                              guint            i)
{
  static const char *const elements[] =
  {
    "char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", "float", "double"
  };
  static const char *const lengths[] = { "2", "3", "4", "8", "16" };
  g_autofree char *word = NULL;
  gsize length;

  if (source_get_kind (source, i) != GPU_SOURCE_WORD)
    return 0;

  word = source_get_text (source, i);
  length = strcspn (word, "0123456789");

  for (gsize j = 0; j < G_N_ELEMENTS (elements); j++)
    {
      if (strlen (elements[j]) != length || strncmp (elements[j], word, length) != 0)
        continue;

      for (gsize k = 0; k < G_N_ELEMENTS (lengths); k++)
        {
          if (g_str_equal (word + length, lengths[k]))
            return (guint) g_ascii_strtoull (lengths[k], NULL, 10);
        }
    }

  return 0;
}

gboolean
_gpu_source_is_vector_literal (const GpuSource *source,
                               guint            i)
{
  return source_get_kind (source, i) == '(' && source_get_kind (source, i + 2) == ')'
         && source_get_kind (source, i + 3) == '('
         && _gpu_source_get_n_components (source, i + 1) != 0;
}

char *
_gpu_source_get_required_block (GpuSource         *source,
                                GpuSourceFunction *kernel)
{
  for (guint i = kernel->head.first; i < kernel->head.last; i++)
    {
      if ((source_is (source, i, "reqd_work_group_size")
           || source_is (source, i, "__reqd_work_group_size__"))
          && source_get_kind (source, i + 1) == '(')
        {
          guint last = _gpu_source_skip (source, i + 1) - 2;
          gsize start = source_get (source, i + 2)->start;
          const GpuSourceToken *end = source_get (source, last);

          if (last >= i + 2)
            return g_strndup (source->text + start, end->start + end->length - start);
        }
    }

  return NULL;
}

static void
add_function (GpuSource      *source,
              guint           first,
              GpuSourceRange  words,
              guint           body)
{
  GpuSourceFunction *function = g_new0 (GpuSourceFunction, 1);
  GString *name = g_string_new (NULL);

  for (guint i = words.first; i < words.last; i++)
    {
      const GpuSourceToken *token = source_get (source, i);

      g_string_append (name, i > words.first ? " " : "");
      g_string_append_len (name, source->text + token->start, token->length);
    }

  function->name = g_string_free (name, FALSE);
  function->head = (GpuSourceRange) { first, body };
  function->words = words;
  function->parameters.first = words.last + 1;
  function->parameters.last = _gpu_source_skip (source, words.last) - 1;
  function->body = (GpuSourceRange) { body, _gpu_source_skip (source, body) };

  for (guint i = first; i < words.first; i++)
    function->is_kernel = function->is_kernel || source_is (source, i, source->kernel_word);

  g_ptr_array_add (source->functions, function);
  g_hash_table_replace (source->by_name, function->name, function);
}

/* Returns whether a function name may begin at @i, and sets @words to its tokens. The last match
 * before the body is the name; earlier matches are macros that expand to attributes. If the name is
 * a macro call, its arguments precede the parameters. */
static gboolean
find_name (GpuSource      *source,
           guint           i,
           GpuSourceRange *words)
{
  guint end;

  if (source_get_kind (source, i) != GPU_SOURCE_WORD || source_get_kind (source, i + 1) != '(')
    return FALSE;

  end = _gpu_source_skip (source, i + 1);
  *words = (GpuSourceRange) { i, source_get_kind (source, end) == '(' ? end : i + 1 };

  return TRUE;
}

/* Returns whether the search for the function name must end at @i. It ends at a specifier after the
 * parameters, and at a second kernel keyword, which begins the same function in another branch of a
 * preprocessor conditional. */
static gboolean
ends_head (GpuSource *source,
           guint      first,
           guint      i)
{
  return source_is (source, i, "noexcept") || source_is (source, i, "throw")
         || source_get_kind (source, i) == ':' || source_get_kind (source, i) == '-'
         || (source_is (source, i, source->kernel_word)
             && source_has (source, (GpuSourceRange) { first, i }, source->kernel_word));
}

/* Parses the declaration or definition at @first, at file scope. Returns the token after it. */
static guint
parse_declaration (GpuSource *source,
                   guint      first)
{
  GpuSourceRange words = { 0, 0 };
  gboolean is_complete = FALSE;
  gboolean is_value = FALSE;
  guint i = first;

  while (i < source->tokens->len && source_get_kind (source, i) != ';')
    {
      char kind = source_get_kind (source, i);

      if (source_is_attribute (source, i))
        {
          i = _gpu_source_skip (source, i + 1);
          continue;
        }

      if (kind == '{' && words.last != 0 && !is_value)
        {
          add_function (source, first, words, i);
          return _gpu_source_skip (source, i);
        }

      /* The block of extern "C" contains further definitions at file scope. */
      if (kind == '{' && i == first + 2 && source_is (source, first, "extern"))
        return i + 1;

      is_complete = is_complete || (words.last != 0 && ends_head (source, first, i));
      is_value = is_value || kind == '=';

      if (!is_complete && find_name (source, i, &words))
        i = words.last;
      else
        i = strchr ("([{", kind) != NULL ? _gpu_source_skip (source, i) : i + 1;
    }

  return i + 1;
}

void
_gpu_source_init (GpuSource  *source,
                  const char *text,
                  const char *kernel_word)
{
  guint i = 0;

  source->text = text;
  source->kernel_word = kernel_word;
  source->tokens = g_array_new (FALSE, FALSE, sizeof (GpuSourceToken));
  source->functions = g_ptr_array_new_with_free_func (function_free);
  source->by_name = g_hash_table_new (g_str_hash, g_str_equal);
  source->is_open = FALSE;
  _gpu_source_tokenize (text, FALSE, source->tokens);

  while (i < source->tokens->len)
    i = parse_declaration (source, i);
}

void
_gpu_source_clear (GpuSource *source)
{
  g_array_unref (source->tokens);
  g_hash_table_unref (source->by_name);
  g_ptr_array_unref (source->functions);
}
