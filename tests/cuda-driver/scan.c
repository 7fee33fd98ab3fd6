/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Reads preprocessed CUDA C++: finds the kernels, and rewrites syntax that C++ lacks:
 *
 *   extern __shared__ T name[];     in a function: becomes a pointer to the launch's shared memory.
 *                                   At file scope: becomes a variable that converts to this
 *                                   pointer
 *   asm ("trap;")                   becomes __trap ()
 */
#include "config.h"

#include "gpumem/dialect/gpu-source-private.h"
#include "nvrtc.h"

typedef struct
{
  GpuSource  source;
  gsize      copied;        /* bytes of the source that were copied or skipped */
  GString   *out;
  GPtrArray *kernels;
  GPtrArray *scopes;        /* for each open brace: the name of a namespace, or NULL */
  char      *namespace;     /* nullable; the name for the next opening brace */
  gboolean   is_template;
} Scanner;

static gsize
get_start (Scanner *scanner,
           guint    i)
{
  return source_get (&scanner->source, i)->start;
}

static gsize
get_end (Scanner *scanner,
         guint    i)
{
  return get_start (scanner, i) + source_get (&scanner->source, i)->length;
}

/* Gets the text of the tokens from @first up to, but excluding, @last. */
static char *
get_text (Scanner *scanner,
          guint    first,
          guint    last)
{
  gsize start = get_start (scanner, first);

  return g_strndup (scanner->source.text + start,
                    first < last ? get_end (scanner, last - 1) - start : 0);
}

/* Replaces tokens and preserves line breaks, so that later lines keep their numbers. */
static void
replace (Scanner    *scanner,
         guint       first,
         guint       last,
         const char *text)
{
  const char *source = scanner->source.text;
  gsize start = get_start (scanner, first);
  gsize end = get_end (scanner, last - 1);

  g_string_append_len (scanner->out, source + scanner->copied, start - scanner->copied);
  g_string_append (scanner->out, text);
  for (gsize i = start; i < end; i++)
    if (source[i] == '\n')
      g_string_append_c (scanner->out, '\n');
  scanner->copied = end;
}

/* --- kernels ---------------------------------------------------------------------------------- */

static void
add_kernel (Scanner *scanner,
            guint    i,
            char    *bound)
{
  g_autoptr (GString) name = g_string_new (NULL);
  g_autofree char *plain = source_get_text (&scanner->source, i);
  ScannedKernel *kernel = g_new0 (ScannedKernel, 1);

  for (guint j = 0; j < scanner->scopes->len; j++)
    {
      const char *namespace = scanner->scopes->pdata[j];

      if (namespace != NULL && namespace[0] != '\0')
        g_string_append_printf (name, "%s::", namespace);
    }
  kernel->name = g_strconcat (name->str, plain, NULL);
  kernel->max_threads = bound;
  g_ptr_array_add (scanner->kernels, kernel);
}

/* Reads the declaration after __global__, if it declares a kernel. */
static void
read_kernel (Scanner *scanner,
             guint    i)
{
  GpuSource *source = &scanner->source;
  char *bound = NULL;
  char kind;

  while ((kind = source_get_kind (source, i)) != '\0' && kind != ';' && kind != '{')
    {
      guint next = i + 1;

      if (kind == '(')
        i = _gpu_source_skip (source, i);
      else if (kind != GPU_SOURCE_WORD || source_get_kind (source, next) != '(')
        i = next;
      else if (source_is_attribute (source, i))
        {
          if (source_is (source, i, "__launch_bounds__") && bound == NULL)
            bound = get_text (scanner, next + 1,
                              _gpu_source_find_end (source, next + 1,
                                                    _gpu_source_skip (source, next) - 1));
          i = _gpu_source_skip (source, next);
        }
      else
        {
          if (source_get_kind (source, _gpu_source_skip (source, next)) == '{' &&
              !scanner->is_template)
            add_kernel (scanner, i, g_steal_pointer (&bound));
          break;
        }
    }
  g_free (bound);
}

/* --- rewriting -------------------------------------------------------------------------------- */

static void
read_namespace (Scanner *scanner,
                guint    first)
{
  guint i = first;

  while (source_get_kind (&scanner->source, i) == GPU_SOURCE_WORD ||
         source_get_kind (&scanner->source, i) == ':')
    i++;
  if (source_get_kind (&scanner->source, i) == '{')
    {
      g_free (scanner->namespace);
      scanner->namespace = get_text (scanner, first, i);
    }
}

static gboolean
is_in_function (Scanner *scanner)
{
  for (guint i = 0; i < scanner->scopes->len; i++)
    if (scanner->scopes->pdata[i] == NULL)
      return TRUE;
  return FALSE;
}

/* The current token is "extern". */
static void
rewrite_extern (Scanner *scanner,
                guint    i)
{
  GpuSource *source = &scanner->source;
  guint bracket = i;
  guint end;
  g_autofree char *type = NULL;
  g_autofree char *name = NULL;
  g_autofree char *text = NULL;

  /* extern "C" { */
  if (source_get_kind (source, i + 2) == '{')
    {
      g_free (scanner->namespace);
      scanner->namespace = g_strdup ("");
    }
  if (!source_is (source, i + 1, "__shared__"))
    return;
  while (source_get_kind (source, bracket) != '[' && source_get_kind (source, bracket) != ';' &&
         source_get_kind (source, bracket) != '\0')
    bracket++;
  if (source_get_kind (source, bracket) != '[')
    return;
  end = _gpu_source_skip (source, bracket);
  type = get_text (scanner, i + 2, bracket - 1);
  name = source_get_text (source, bracket - 1);
  if (is_in_function (scanner))
    text = g_strdup_printf ("%s *const %s = (%s *) gpumem_self->shared", type, name, type);
  else
    text = g_strdup_printf ("static gpumem_shared<%s> %s", type, name);
  replace (scanner, i, end, text);
}

/* The current token is "asm". */
static void
rewrite_asm (Scanner *scanner,
             guint    i)
{
  GpuSource *source = &scanner->source;
  guint open = i + 1;
  g_autofree char *code = NULL;

  if (source_is (source, open, "volatile") || source_is (source, open, "__volatile__"))
    open++;
  if (source_get_kind (source, open) != '(')
    return;
  code = source_get_text (source, open + 1);
  if (g_str_has_prefix (code, "\"trap;"))
    replace (scanner, i, _gpu_source_skip (source, open), "__trap ()");
}

static void
scan_token (Scanner *scanner,
            guint    i)
{
  GpuSource *source = &scanner->source;
  char kind = source_get_kind (source, i);

  if (source_is (source, i, "template"))
    scanner->is_template = TRUE;
  else if (source_is (source, i, "namespace"))
    read_namespace (scanner, i + 1);
  else if (source_is (source, i, "__global__"))
    read_kernel (scanner, i + 1);
  else if (source_is (source, i, "extern"))
    rewrite_extern (scanner, i);
  else if (source_is (source, i, "asm") || source_is (source, i, "__asm__"))
    rewrite_asm (scanner, i);
  else if (kind == '{')
    g_ptr_array_add (scanner->scopes, g_steal_pointer (&scanner->namespace));
  else if (kind == '}' && scanner->scopes->len > 0)
    g_ptr_array_set_size (scanner->scopes, scanner->scopes->len - 1);
  if (kind == '{' || kind == '}' || kind == ';')
    scanner->is_template = FALSE;
}

char *
scan_source (const char *text,
             GPtrArray  *kernels)
{
  Scanner scanner = { .source.text = text, .kernels = kernels, .out = g_string_new (NULL) };

  scanner.source.tokens = g_array_new (FALSE, FALSE, sizeof (GpuSourceToken));
  scanner.scopes = g_ptr_array_new_with_free_func (g_free);
  _gpu_source_tokenize (text, FALSE, scanner.source.tokens);
  for (guint i = 0; i < scanner.source.tokens->len; i++)
    scan_token (&scanner, i);
  g_string_append (scanner.out, text + scanner.copied);
  g_array_unref (scanner.source.tokens);
  g_ptr_array_unref (scanner.scopes);
  g_free (scanner.namespace);
  return g_string_free (scanner.out, FALSE);
}
