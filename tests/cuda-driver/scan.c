/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Reads preprocessed CUDA C++: where the kernels are, and what C++ has no word for.
 *
 *   extern __shared__ T name[];     becomes a macro for the launch's shared memory, up to the end
 *                                   of the block that it stands in
 *   asm ("trap;")                   becomes __trap ()
 */
#include "config.h"

#include <string.h>

#include "nvrtc.h"

typedef struct
{
  char      *namespace;     /* nullable */
  GPtrArray *macros;        /* nullable */
} Scope;

typedef struct
{
  const char *at;
  GString    *out;
  GPtrArray  *kernels;
  GPtrArray  *scopes;       /* of Scope; the file is the first */
  char       *namespace;    /* nullable; of the block that begins next */
  gboolean    is_template;
  guint       line;
  char       *file;
} Scanner;

static void
scope_free (gpointer data)
{
  Scope *scope = data;

  g_free (scope->namespace);
  g_clear_pointer (&scope->macros, g_ptr_array_unref);
  g_free (scope);
}

static gboolean
is_word (char c)
{
  return g_ascii_isalnum (c) || c == '_' || c == '$';
}

static gsize
word_length (const char *text)
{
  gsize n = 0;

  while (is_word (text[n]))
    n++;
  return n;
}

static gboolean
is_this_word (const char *text,
              const char *word)
{
  gsize n = word_length (text);

  return n == strlen (word) && strncmp (text, word, n) == 0;
}

/* A literal, from its first quote to behind its last one. */
static const char *
skip_literal (const char *text)
{
  char quote = *text++;

  while (*text != '\0' && *text != quote)
    text += *text == '\\' && text[1] != '\0' ? 2 : 1;
  return *text != '\0' ? text + 1 : text;
}

static const char *
skip_blanks (const char *text)
{
  while (g_ascii_isspace (*text))
    text++;
  return text;
}

/* From '(' to behind its ')'. */
static const char *
skip_parentheses (const char *text)
{
  guint depth = 0;

  do
    {
      if (*text == '"' || *text == '\'')
        {
          text = skip_literal (text);
          continue;
        }
      depth += *text == '(';
      depth -= *text == ')';
      text++;
    }
  while (depth > 0 && *text != '\0');
  return text;
}

/* --- output ----------------------------------------------------------------------------------- */

static void
copy_to (Scanner    *scanner,
         const char *end)
{
  for (const char *c = scanner->at; c < end; c++)
    scanner->line += *c == '\n';
  g_string_append_len (scanner->out, scanner->at, end - scanner->at);
  scanner->at = end;
}

/* As copy_to(), but what stands there is left out. */
static void
skip_to (Scanner    *scanner,
         const char *end)
{
  for (const char *c = scanner->at; c < end; c++)
    scanner->line += *c == '\n';
  scanner->at = end;
}

static void
put_directive (Scanner    *scanner,
               const char *format,
               ...) G_GNUC_PRINTF (2, 3);

static void
put_directive (Scanner    *scanner,
               const char *format,
               ...)
{
  va_list arguments;

  g_string_append_c (scanner->out, '\n');
  va_start (arguments, format);
  g_string_append_vprintf (scanner->out, format, arguments);
  va_end (arguments);
  g_string_append_printf (scanner->out, "\n# %u %s\n", scanner->line, scanner->file);
}

/* --- kernels ---------------------------------------------------------------------------------- */

static char *
get_namespaces (Scanner *scanner)
{
  GString *text = g_string_new (NULL);

  for (guint i = 0; i < scanner->scopes->len; i++)
    {
      const Scope *scope = scanner->scopes->pdata[i];

      if (scope->namespace != NULL && scope->namespace[0] != '\0')
        g_string_append_printf (text, "%s::", scope->namespace);
    }
  return g_string_free (text, FALSE);
}

/* The first argument of __launch_bounds__(). */
static char *
get_bound (const char *text)
{
  const char *end = skip_parentheses (text);
  gsize n = 1;

  for (guint depth = 0; text + n < end - 1 && (text[n] != ',' || depth > 0); n++)
    {
      depth += text[n] == '(';
      depth -= text[n] == ')';
    }
  return g_strndup (text + 1, n - 1);
}

static void
add_kernel (Scanner    *scanner,
            const char *name,
            gsize       length,
            char       *bound)
{
  g_autofree char *namespaces = get_namespaces (scanner);
  g_autofree char *plain = g_strndup (name, length);
  ScannedKernel *kernel = g_new0 (ScannedKernel, 1);

  kernel->name = g_strconcat (namespaces, plain, NULL);
  kernel->max_threads = bound;
  g_ptr_array_add (scanner->kernels, kernel);
}

/* Behind __global__: what is declared there, if that is the kernel itself. */
static void
read_kernel (Scanner    *scanner,
             const char *text)
{
  char *bound = NULL;

  while (*text != '\0' && *text != ';' && *text != '{')
    {
      gsize n = word_length (text);
      const char *next = skip_blanks (text + n);

      if (n == 0)
        text = *text == '(' ? skip_parentheses (text) : text + 1;
      else if (*next != '(')
        text = next;
      else if (is_this_word (text, "__launch_bounds__") && bound == NULL)
        {
          bound = get_bound (next);
          text = skip_parentheses (next);
        }
      else if (is_this_word (text, "__attribute__") || is_this_word (text, "__launch_bounds__") ||
               is_this_word (text, "__cluster_dims__") || is_this_word (text, "__maxnreg__"))
        text = skip_parentheses (next);
      else
        {
          if (*skip_blanks (skip_parentheses (next)) == '{' && !scanner->is_template)
            add_kernel (scanner, text, n, g_steal_pointer (&bound));
          break;
        }
    }
  g_free (bound);
}

/* --- other words ------------------------------------------------------------------------------ */

static void
read_namespace (Scanner    *scanner,
                const char *text)
{
  gsize n;

  text = skip_blanks (text);
  for (n = 0; is_word (text[n]) || text[n] == ':'; n++)
    ;
  if (*skip_blanks (text + n) == '{')
    {
      g_free (scanner->namespace);
      scanner->namespace = g_strndup (text, n);
    }
}

/* FALSE if it is no shared memory that the launch gives. */
static gboolean
rewrite_shared (Scanner    *scanner,
                const char *text)
{
  const char *type = skip_blanks (text);
  const char *end = strchr (type, ';');
  const char *bracket = strchr (type, '[');
  Scope *scope = scanner->scopes->pdata[scanner->scopes->len - 1];
  const char *name;
  g_autofree char *macro = NULL;
  g_autofree char *type_text = NULL;

  if (!is_this_word (type, "__shared__") || end == NULL || bracket == NULL || bracket > end)
    return FALSE;
  type += strlen ("__shared__");
  for (text = bracket; g_ascii_isspace (text[-1]); text--)
    ;
  for (name = text; is_word (name[-1]); name--)
    ;
  macro = g_strndup (name, text - name);
  type_text = g_strndup (type, name - type);
  g_strdelimit (type_text, "\n", ' ');
  skip_to (scanner, end + 1);
  put_directive (scanner, "#undef %s\n#define %s ((%s *) gpumem_self->shared)", macro, macro,
                 type_text);
  if (scanner->scopes->len > 1)
    {
      if (scope->macros == NULL)
        scope->macros = g_ptr_array_new_with_free_func (g_free);
      g_ptr_array_add (scope->macros, g_steal_pointer (&macro));
    }
  return TRUE;
}

static gboolean
rewrite_trap (Scanner    *scanner,
              const char *text)
{
  const char *open = skip_blanks (text);

  if (is_this_word (open, "volatile") || is_this_word (open, "__volatile__"))
    open = skip_blanks (open + word_length (open));
  if (*open != '(' || !g_str_has_prefix (skip_blanks (open + 1), "\"trap;"))
    return FALSE;
  skip_to (scanner, skip_parentheses (open));
  g_string_append (scanner->out, "__trap ()");
  return TRUE;
}

static void
scan_word (Scanner *scanner)
{
  const char *word = scanner->at;
  const char *behind = word + word_length (word);

  if (is_this_word (word, "template"))
    scanner->is_template = TRUE;
  else if (is_this_word (word, "namespace"))
    read_namespace (scanner, behind);
  else if (is_this_word (word, "__global__"))
    read_kernel (scanner, behind);
  else if ((is_this_word (word, "extern") && rewrite_shared (scanner, behind)) ||
           ((is_this_word (word, "asm") || is_this_word (word, "__asm__")) &&
            rewrite_trap (scanner, behind)))
    return;
  copy_to (scanner, behind);
}

static void
open_scope (Scanner *scanner)
{
  Scope *scope = g_new0 (Scope, 1);

  scope->namespace = g_steal_pointer (&scanner->namespace);
  g_ptr_array_add (scanner->scopes, scope);
}

static void
close_scope (Scanner *scanner)
{
  Scope *scope = scanner->scopes->pdata[scanner->scopes->len - 1];

  for (guint i = 0; scope->macros != NULL && i < scope->macros->len; i++)
    put_directive (scanner, "#undef %s", (char *) scope->macros->pdata[i]);
  if (scanner->scopes->len > 1)
    g_ptr_array_remove_index (scanner->scopes, scanner->scopes->len - 1);
}

/* # 12 "file" */
static void
read_marker (Scanner *scanner)
{
  const char *text = scanner->at + 2;
  const char *end = strchr (text, '\n');
  const char *quote = strchr (text, '"');
  char *number_end;
  guint line = g_ascii_strtoull (text, &number_end, 10);

  end = end != NULL ? end : text + strlen (text);
  copy_to (scanner, end);
  if (number_end == text || quote == NULL || quote > end)
    return;
  g_free (scanner->file);
  scanner->file = g_strndup (quote, skip_literal (quote) - quote);
  scanner->line = line - 1;         /* the line break is still to come */
}

static void
scan_character (Scanner *scanner)
{
  char c = *scanner->at;

  if (c == '#' && (scanner->out->len == 0 || g_str_has_suffix (scanner->out->str, "\n")) &&
      scanner->at[1] == ' ')
    {
      read_marker (scanner);
      return;
    }
  copy_to (scanner, c == '"' || c == '\'' ? skip_literal (scanner->at) : scanner->at + 1);
  if (c == '{')
    open_scope (scanner);
  else if (c == '}')
    close_scope (scanner);
  if (c == '{' || c == '}' || c == ';')
    scanner->is_template = FALSE;
}

char *
scan_source (const char *text,
             GPtrArray  *kernels)
{
  Scanner scanner = { .at = text, .kernels = kernels, .line = 1 };
  gboolean in_number = FALSE;

  scanner.out = g_string_new (NULL);
  scanner.scopes = g_ptr_array_new_with_free_func (scope_free);
  scanner.file = g_strdup ("\"\"");
  open_scope (&scanner);
  while (*scanner.at != '\0')
    {
      in_number = g_ascii_isdigit (*scanner.at) || (in_number && *scanner.at == '\'');
      if (in_number && *scanner.at == '\'')
        copy_to (&scanner, scanner.at + 1);
      else if (is_word (*scanner.at))
        scan_word (&scanner);
      else
        scan_character (&scanner);
    }
  g_ptr_array_unref (scanner.scopes);
  g_free (scanner.namespace);
  g_free (scanner.file);
  return g_string_free (scanner.out, FALSE);
}
