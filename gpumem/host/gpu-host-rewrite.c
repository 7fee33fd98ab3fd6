/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * From OpenCL C to C, after the preprocessor: the words for address spaces and kernels go, local
 * variables become those of the thread that runs the group, and every kernel gets a function that
 * runs it for some work-items of a group and a description, in which the compiler itself fills in
 * sizes and types. Lines stay where they are, so that what the compiler says of them is right.
 */
#include "config.h"

#include <string.h>

#include "gpumem/host/gpu-host.h"

typedef struct
{
  gsize start;
  gsize length;
  char  kind;                   /* the character itself, or WORD or OTHER */
} Token;

#define WORD  'w'
#define OTHER 'o'

/* Tokens by number, from the first up to the last, which is no part of it. */
typedef struct
{
  guint first;
  guint last;
} Range;

typedef struct
{
  char     *name;
  Range     head;               /* of the declaration up to the body */
  Range     parameters;
  Range     body;
  gboolean  is_kernel;
  gboolean  visited;
} Function;

typedef struct
{
  const char *text;
  GArray     *tokens;           /* of Token */
  GPtrArray  *functions;        /* of Function */
  GHashTable *by_name;          /* the same, by name */
  GString    *output;
  gsize       copied;           /* so much of the text has gone to the output */
  gboolean    is_open;          /* a bracket is never closed */
} Rewriter;

typedef struct
{
  GpuHostArgumentKind kind;
  gboolean            read_only;
  char               *type;     /* as C; NULL for memory */
  char               *type_name;
  char               *name;
} Parameter;

static void
function_free (gpointer data)
{
  Function *function = data;

  g_free (function->name);
  g_free (function);
}

static void
parameter_clear (gpointer data)
{
  Parameter *parameter = data;

  g_free (parameter->type);
  g_free (parameter->type_name);
  g_free (parameter->name);
}

static gsize
get_word_length (const char *text)
{
  gsize length = 0;

  while (g_ascii_isalnum (text[length]) || text[length] == '_' || text[length] == '$')
    length++;

  return length;
}

static gsize
get_quoted_length (const char *text)
{
  gsize length = 1;

  while (text[length] != '\0' && text[length] != '\n' && text[length] != text[0])
    length += text[length] == '\\' && text[length + 1] != '\0' ? 2 : 1;

  return text[length] == text[0] ? length + 1 : length;
}

static void
add_token (Rewriter   *rewriter,
           const char *at,
           gsize       length,
           char        kind)
{
  Token token = { at - rewriter->text, length, kind };

  g_array_append_val (rewriter->tokens, token);
}

/* Lines of the preprocessor, markers and pragmas, are no tokens. */
static void
tokenize (Rewriter *rewriter)
{
  const char *p = rewriter->text;
  gboolean at_start = TRUE;

  while (*p != '\0')
    {
      gsize length = 1;
      char kind = *p;

      if (g_ascii_isspace (*p))
        {
          at_start = at_start || *p == '\n';
          p++;
          continue;
        }

      if (*p == '#' && at_start)
        {
          p += strcspn (p, "\n");
          continue;
        }

      if (g_ascii_isalpha (*p) || *p == '_' || *p == '$')
        {
          length = get_word_length (p);
          kind = WORD;
        }
      else if (g_ascii_isdigit (*p))
        {
          length = get_word_length (p);
          kind = OTHER;
        }
      else if (*p == '"' || *p == '\'')
        {
          length = get_quoted_length (p);
          kind = OTHER;
        }

      add_token (rewriter, p, length, kind);
      at_start = FALSE;
      p += length;
    }
}

static Token *
get_token (Rewriter *rewriter,
           guint     i)
{
  return &g_array_index (rewriter->tokens, Token, i);
}

static gboolean
token_is (Rewriter   *rewriter,
          guint       i,
          const char *word)
{
  const Token *token;

  if (i >= rewriter->tokens->len)
    return FALSE;

  token = get_token (rewriter, i);

  return token->length == strlen (word)
         && memcmp (rewriter->text + token->start, word, token->length) == 0;
}

static char
get_kind (Rewriter *rewriter,
          guint     i)
{
  return i < rewriter->tokens->len ? get_token (rewriter, i)->kind : '\0';
}

static char *
get_text (Rewriter *rewriter,
          guint     i)
{
  const Token *token = get_token (rewriter, i);

  return g_strndup (rewriter->text + token->start, token->length);
}

/* The token behind the bracket that closes the one at @i. */
static guint
skip_brackets (Rewriter *rewriter,
               guint     i)
{
  guint depth = 0;

  for (; i < rewriter->tokens->len; i++)
    {
      char kind = get_kind (rewriter, i);

      if (kind == '(' || kind == '[' || kind == '{')
        depth++;
      else if ((kind == ')' || kind == ']' || kind == '}') && --depth == 0)
        return i + 1;
    }

  rewriter->is_open = TRUE;

  return i;
}

static gboolean
is_attribute (Rewriter *rewriter,
              guint     i)
{
  return (token_is (rewriter, i, "__attribute__") || token_is (rewriter, i, "__attribute"))
         && get_kind (rewriter, i + 1) == '(';
}

static void
add_function (Rewriter *rewriter,
              guint     first,
              guint     name,
              guint     body)
{
  Function *function = g_new0 (Function, 1);

  function->name = get_text (rewriter, name);
  function->head = (Range) { first, body };
  function->parameters = (Range) { name + 2, skip_brackets (rewriter, name + 1) - 1 };
  function->body = (Range) { body, skip_brackets (rewriter, body) };

  for (guint i = first; i < name; i++)
    function->is_kernel = function->is_kernel || token_is (rewriter, i, "gpu_host_kernel");

  g_ptr_array_add (rewriter->functions, function);
  g_hash_table_replace (rewriter->by_name, function->name, function);
}

/* One declaration or definition outside of all functions; the token behind it. */
static guint
parse_declaration (Rewriter *rewriter,
                   guint     first)
{
  guint name = 0;
  gboolean is_value = FALSE;
  guint i = first;

  while (i < rewriter->tokens->len && get_kind (rewriter, i) != ';')
    {
      char kind = get_kind (rewriter, i);

      if (is_attribute (rewriter, i))
        {
          i = skip_brackets (rewriter, i + 1);
          continue;
        }

      if (kind == '{' && name != 0 && !is_value)
        {
          add_function (rewriter, first, name, i);
          return skip_brackets (rewriter, i);
        }

      if (kind == WORD && get_kind (rewriter, i + 1) == '(' && name == 0)
        name = i;

      is_value = is_value || kind == '=';
      i = kind == '(' || kind == '[' || kind == '{' ? skip_brackets (rewriter, i) : i + 1;
    }

  return i + 1;
}

/* Whether @function or anything it calls waits at a barrier. */
static gboolean
has_barrier (Rewriter *rewriter,
             Function *function)
{
  if (g_str_equal (function->name, "gpu_host_barrier"))
    return TRUE;

  function->visited = TRUE;

  for (guint i = function->body.first; i < function->body.last; i++)
    {
      g_autofree char *word = NULL;
      Function *called;

      if (get_kind (rewriter, i) != WORD)
        continue;

      word = get_text (rewriter, i);
      called = g_hash_table_lookup (rewriter->by_name, word);

      if (called != NULL && !called->visited && has_barrier (rewriter, called))
        return TRUE;
    }

  return FALSE;
}

static gboolean
kernel_has_barrier (Rewriter *rewriter,
                    Function *kernel)
{
  for (guint i = 0; i < rewriter->functions->len; i++)
    ((Function *) rewriter->functions->pdata[i])->visited = FALSE;

  return has_barrier (rewriter, kernel);
}

/* Puts @replacement in the place of token @i. */
static void
replace (Rewriter   *rewriter,
         guint       i,
         const char *replacement)
{
  const Token *token = get_token (rewriter, i);

  g_string_append_len (rewriter->output, rewriter->text + rewriter->copied,
                       token->start - rewriter->copied);
  g_string_append (rewriter->output, replacement);
  rewriter->copied = token->start + token->length;
}

/* Whether the declaration behind the word "local" at @i is that of a variable in local memory,
 * and not of a pointer there. */
static gboolean
is_local_variable (Rewriter *rewriter,
                   guint     i)
{
  for (i++; i < rewriter->tokens->len; i++)
    {
      char kind = get_kind (rewriter, i);

      if (is_attribute (rewriter, i))
        i = skip_brackets (rewriter, i + 1) - 1;
      else if (kind == '*' || kind == '(' || kind == ')')
        return FALSE;
      else if (strchr (";,=[", kind) != NULL)
        return TRUE;
    }

  return FALSE;
}

/* Notes down the sizes of the variables that the declaration from @i on makes. Returns the end of
 * the declaration. */
static guint
append_local_sizes (Rewriter   *rewriter,
                    const char *function,
                    guint       i,
                    GString    *sizes)
{
  while (i < rewriter->tokens->len && get_kind (rewriter, i) != ';')
    {
      char kind = get_kind (rewriter, i);
      char next = get_kind (rewriter, i + 1);

      if (kind == WORD && next != '\0' && strchr (";,=[", next) != NULL)
        {
          g_autofree char *name = get_text (rewriter, i);

          g_string_append_printf (sizes,
                                  " static const GpuHostSize gpu_host_size_%u __attribute__ "
                                  "((used, section (\"gpu_host_sizes_%s\"))) = sizeof (%s);",
                                  i, function, name);
        }

      i = kind == '(' || kind == '[' || kind == '{' ? skip_brackets (rewriter, i) : i + 1;
    }

  return i;
}

static void
rewrite_body (Rewriter *rewriter,
              Function *function)
{
  guint parentheses = 0;
  guint i = function->body.first;

  while (i < function->body.last)
    {
      char kind = get_kind (rewriter, i);

      if (kind == '(')
        parentheses++;
      else if (kind == ')')
        parentheses--;

      if (token_is (rewriter, i, "gpu_host_local") && parentheses == 0
          && is_local_variable (rewriter, i))
        {
          g_autoptr (GString) sizes = g_string_new (";");

          replace (rewriter, i, "static __thread");
          i = append_local_sizes (rewriter, function->name, i, sizes);

          if (i < rewriter->tokens->len)
            replace (rewriter, i, sizes->str);
        }
      else if (token_is (rewriter, i, "gpu_host_local")
               || token_is (rewriter, i, "gpu_host_global"))
        {
          replace (rewriter, i, "");
        }
      else if (token_is (rewriter, i, "gpu_host_constant"))
        {
          replace (rewriter, i, "const");
        }

      i++;
    }
}

static void
rewrite_head (Rewriter *rewriter,
              guint     first,
              guint     last)
{
  for (guint i = first; i < last; i++)
    {
      if (token_is (rewriter, i, "gpu_host_kernel") || token_is (rewriter, i, "gpu_host_local")
          || token_is (rewriter, i, "gpu_host_global"))
        replace (rewriter, i, "");
      else if (token_is (rewriter, i, "gpu_host_constant"))
        replace (rewriter, i, "const");
    }
}

static void
rewrite_text (Rewriter *rewriter)
{
  guint i = 0;

  for (guint j = 0; j < rewriter->functions->len; j++)
    {
      Function *function = rewriter->functions->pdata[j];

      rewrite_head (rewriter, i, function->body.first);
      rewrite_body (rewriter, function);
      i = function->body.last;
    }

  rewrite_head (rewriter, i, rewriter->tokens->len);
  g_string_append (rewriter->output, rewriter->text + rewriter->copied);
}

static gboolean
is_qualifier (Rewriter *rewriter,
              guint     i)
{
  static const char *const qualifiers[] =
  {
    "const", "__const", "volatile", "__volatile__", "restrict", "__restrict", "__restrict__",
    "gpu_host_global", "gpu_host_local", "gpu_host_constant"
  };

  for (gsize j = 0; j < G_N_ELEMENTS (qualifiers); j++)
    {
      if (token_is (rewriter, i, qualifiers[j]))
        return TRUE;
    }

  return FALSE;
}

/* As OpenCL C calls it. */
static char *
get_type_name (const char *type)
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

/* The type without qualifiers, from the tokens before the name. */
static char *
get_type (Rewriter *rewriter,
          Range     range)
{
  GString *type = g_string_new (NULL);

  for (guint i = range.first; i < range.last; i++)
    {
      g_autofree char *word = NULL;

      if (is_attribute (rewriter, i))
        {
          i = skip_brackets (rewriter, i + 1) - 1;
          continue;
        }

      if (is_qualifier (rewriter, i))
        continue;

      word = get_text (rewriter, i);

      if (type->len > 0 && get_kind (rewriter, i) != '*')
        g_string_append_c (type, ' ');

      g_string_append (type, word);
    }

  return g_string_free (type, FALSE);
}

/* The last word of a parameter that is outside of brackets. */
static guint
find_name (Rewriter *rewriter,
           Range     range)
{
  guint name = range.first;

  for (guint i = range.first; i < range.last; i++)
    {
      if (is_attribute (rewriter, i))
        i = skip_brackets (rewriter, i + 1) - 1;
      else if (get_kind (rewriter, i) == '[')
        i = skip_brackets (rewriter, i) - 1;
      else if (get_kind (rewriter, i) == WORD)
        name = i;
    }

  return name;
}

static gboolean
has_token (Rewriter   *rewriter,
           Range       range,
           const char *word)
{
  for (guint i = range.first; i < range.last; i++)
    {
      if (token_is (rewriter, i, word))
        return TRUE;
    }

  return FALSE;
}

/* Whether "const" stands before the first star. */
static gboolean
is_pointer_to_const (Rewriter *rewriter,
                     Range     range)
{
  for (guint i = range.first; i < range.last && get_kind (rewriter, i) != '*'; i++)
    {
      if (token_is (rewriter, i, "const") || token_is (rewriter, i, "__const"))
        return TRUE;
    }

  return has_token (rewriter, range, "gpu_host_constant");
}

static gboolean
parse_parameter (Rewriter   *rewriter,
                 Function   *kernel,
                 Range       range,
                 Parameter  *parameter,
                 GError    **error)
{
  guint name = find_name (rewriter, range);
  gboolean is_pointer = has_token (rewriter, range, "*") || has_token (rewriter, range, "[");
  gboolean is_memory = has_token (rewriter, range, "gpu_host_global")
                       || has_token (rewriter, range, "gpu_host_constant");

  parameter->type = get_type (rewriter, (Range) { range.first, name });
  parameter->type_name = get_type_name (parameter->type);
  parameter->name = get_text (rewriter, name);

  if (!is_pointer)
    {
      parameter->kind = GPU_HOST_ARGUMENT_VALUE;
      return TRUE;
    }

  if (!is_memory && !has_token (rewriter, range, "gpu_host_local"))
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_BUILD_FAILED,
                   "host: argument %s of kernel %s is a pointer that is neither __global nor "
                   "__constant nor __local", parameter->name, kernel->name);
      return FALSE;
    }

  parameter->kind = is_memory ? GPU_HOST_ARGUMENT_MEMORY : GPU_HOST_ARGUMENT_LOCAL;
  parameter->read_only = is_memory && is_pointer_to_const (rewriter, range);

  return TRUE;
}

static GArray *
parse_parameters (Rewriter  *rewriter,
                  Function  *kernel,
                  GError   **error)
{
  g_autoptr (GArray) parameters = g_array_new (FALSE, TRUE, sizeof (Parameter));
  Range all = kernel->parameters;
  guint first = all.first;

  g_array_set_clear_func (parameters, parameter_clear);

  if (all.first == all.last || (all.last - all.first == 1 && token_is (rewriter, first, "void")))
    return g_steal_pointer (&parameters);

  while (first < all.last)
    {
      guint i = first;

      while (i < all.last && get_kind (rewriter, i) != ',')
        i = strchr ("([{", get_kind (rewriter, i)) != NULL ? skip_brackets (rewriter, i) : i + 1;

      g_array_set_size (parameters, parameters->len + 1);

      if (!parse_parameter (rewriter, kernel, (Range) { first, MIN (i, all.last) },
                            &g_array_index (parameters, Parameter, parameters->len - 1), error))
        return NULL;

      first = i + 1;
    }

  return g_steal_pointer (&parameters);
}

/* The function that the library calls: it reads the arguments once for all of its items. */
static void
append_run (GString    *output,
            const char *name,
            GArray     *parameters)
{
  g_string_append_printf (output,
                          "static void gpu_host_run_%s (void **gpu_host_args, "
                          "GpuHostItem *gpu_host_item)\n{\n  (void) gpu_host_args;\n", name);

  for (guint i = 0; i < parameters->len; i++)
    {
      const Parameter *parameter = &g_array_index (parameters, Parameter, i);
      gboolean is_value = parameter->kind == GPU_HOST_ARGUMENT_VALUE;

      g_string_append_printf (output,
                              "  %s gpu_host_%u; __builtin_memcpy (&gpu_host_%u, "
                              "gpu_host_args[%u], sizeof gpu_host_%u);\n",
                              is_value ? parameter->type : "void *", i, i, i, i);
    }

  g_string_append (output, "  gpu_host_self = gpu_host_item;\n");

  for (guint i = 3; i-- > 0; )
    g_string_append_printf (output,
                            "  for (gpu_host_item->item[%u] = gpu_host_item->begin[%u];\n"
                            "       gpu_host_item->item[%u] < gpu_host_item->end[%u];\n"
                            "       gpu_host_item->item[%u]++)\n", i, i, i, i, i);

  g_string_append_printf (output, "    %s (", name);

  for (guint i = 0; i < parameters->len; i++)
    g_string_append_printf (output, "%sgpu_host_%u", i > 0 ? ", " : "", i);

  g_string_append (output, ");\n}\n");
}

/* The code of gpu_kernel_declare_arguments() for a type that only the compiler knows. */
static void
append_type_code (GString    *output,
                  const char *type)
{
  g_string_append_printf (output,
                          "_Generic ((%s *) 0, char *: 'b', signed char *: 'b', "
                          "unsigned char *: 'B', short *: 'h', unsigned short *: 'H', "
                          "int *: 'i', unsigned int *: 'I', long *: 'q', unsigned long *: 'Q', "
                          "long long *: 'q', unsigned long long *: 'Q', float *: 'f', "
                          "double *: 'd', default: 0)", type);
}

static void
append_arguments (GString    *output,
                  const char *name,
                  GArray     *parameters)
{
  static const char *const kinds[] = { "MEMORY", "LOCAL", "VALUE" };

  if (parameters->len == 0)
    return;

  g_string_append_printf (output, "static const GpuHostArgument gpu_host_arguments_%s[] =\n{\n",
                          name);

  for (guint i = 0; i < parameters->len; i++)
    {
      const Parameter *parameter = &g_array_index (parameters, Parameter, i);

      g_string_append_printf (output, "  { GPU_HOST_ARGUMENT_%s, \"%s\", \"%s\", ",
                              kinds[parameter->kind], parameter->name, parameter->type_name);

      if (parameter->kind == GPU_HOST_ARGUMENT_VALUE)
        {
          append_type_code (output, parameter->type);
          g_string_append_printf (output, ", 0, sizeof (%s) },\n", parameter->type);
        }
      else
        {
          g_string_append_printf (output, "0, %d, 0 },\n", parameter->read_only);
        }
    }

  g_string_append (output, "};\n");
}

static void
append_local_bounds (GString    *output,
                     const char *name)
{
  static const char *const bounds[] = { "start", "stop" };

  for (gsize i = 0; i < G_N_ELEMENTS (bounds); i++)
    g_string_append_printf (output,
                            "extern const GpuHostSize __%s_gpu_host_sizes_%s[] "
                            "__attribute__ ((weak, visibility (\"hidden\")));\n",
                            bounds[i], name);
}

/* What reqd_work_group_size says, as the program has it: three numbers with commas. */
static char *
get_required_block (Rewriter *rewriter,
                    Function *kernel)
{
  for (guint i = kernel->head.first; i < kernel->head.last; i++)
    {
      if ((token_is (rewriter, i, "reqd_work_group_size")
           || token_is (rewriter, i, "__reqd_work_group_size__"))
          && get_kind (rewriter, i + 1) == '(')
        {
          guint last = skip_brackets (rewriter, i + 1) - 2;
          gsize start = get_token (rewriter, i + 2)->start;
          const Token *end = get_token (rewriter, last);

          if (last >= i + 2)
            return g_strndup (rewriter->text + start, end->start + end->length - start);
        }
    }

  return g_strdup ("0, 0, 0");
}

static gboolean
append_kernel (Rewriter  *rewriter,
               Function  *kernel,
               GString   *entries,
               GError   **error)
{
  g_autoptr (GArray) parameters = parse_parameters (rewriter, kernel, error);
  g_autofree char *block = NULL;

  if (parameters == NULL)
    return FALSE;

  block = get_required_block (rewriter, kernel);
  append_run (rewriter->output, kernel->name, parameters);
  append_arguments (rewriter->output, kernel->name, parameters);
  append_local_bounds (rewriter->output, kernel->name);
  g_string_append_printf (entries,
                          "  { \"%s\", gpu_host_run_%s, %s%s, %u, %d, { %s }, "
                          "__start_gpu_host_sizes_%s, __stop_gpu_host_sizes_%s },\n",
                          kernel->name, kernel->name,
                          parameters->len > 0 ? "gpu_host_arguments_" : "0",
                          parameters->len > 0 ? kernel->name : "",
                          parameters->len, kernel_has_barrier (rewriter, kernel), block,
                          kernel->name, kernel->name);

  return TRUE;
}

static gboolean
append_program (Rewriter  *rewriter,
                GError   **error)
{
  g_autoptr (GString) entries = g_string_new (NULL);
  guint n_kernels = 0;

  g_string_append (rewriter->output, "\n# 1 \"gpumem\"\n");

  for (guint i = 0; i < rewriter->functions->len; i++)
    {
      Function *function = rewriter->functions->pdata[i];

      if (!function->is_kernel)
        continue;

      if (!append_kernel (rewriter, function, entries, error))
        return FALSE;

      n_kernels++;
    }

  if (n_kernels > 0)
    g_string_append_printf (rewriter->output,
                            "static const GpuHostKernelEntry gpu_host_kernels[] =\n{\n%s};\n",
                            entries->str);

  g_string_append_printf (rewriter->output,
                          "extern const GpuHostProgramEntry gpu_host_program;\n"
                          "__attribute__ ((visibility (\"default\"))) "
                          "const GpuHostProgramEntry gpu_host_program = { %d, %u, %s };\n",
                          GPU_HOST_ABI_VERSION, n_kernels,
                          n_kernels > 0 ? "gpu_host_kernels" : "0");

  return TRUE;
}

static void
rewriter_init (Rewriter   *rewriter,
               const char *text)
{
  rewriter->text = text;
  rewriter->tokens = g_array_new (FALSE, FALSE, sizeof (Token));
  rewriter->functions = g_ptr_array_new_with_free_func (function_free);
  rewriter->by_name = g_hash_table_new (g_str_hash, g_str_equal);
  rewriter->output = g_string_new (NULL);
  rewriter->copied = 0;
  rewriter->is_open = FALSE;
}

static void
rewriter_clear (Rewriter *rewriter)
{
  g_array_unref (rewriter->tokens);
  g_hash_table_unref (rewriter->by_name);
  g_ptr_array_unref (rewriter->functions);
  g_string_free (rewriter->output, TRUE);
}

char *
_gpu_host_rewrite (const char  *text,
                   GError     **error)
{
  Rewriter rewriter;
  char *output = NULL;
  guint i = 0;

  rewriter_init (&rewriter, text);
  tokenize (&rewriter);

  while (i < rewriter.tokens->len)
    i = parse_declaration (&rewriter, i);

  rewrite_text (&rewriter);

  /* The compiler tells better where a bracket is missing if nothing follows. */
  if (rewriter.is_open || append_program (&rewriter, error))
    output = g_strdup (rewriter.output->str);

  rewriter_clear (&rewriter);

  return output;
}
