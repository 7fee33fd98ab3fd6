/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Rewrites preprocessed OpenCL C as C: removes the qualifiers of kernels, address spaces and image
 * access, and makes variables in local memory thread-local, because one thread runs all work-items
 * of a group. Line breaks are preserved, and spaces replace removed words, so that messages of the
 * compiler have the right line numbers, and mostly the right columns.
 */
#include "config.h"

#include "gpumem/host/compiler/gpu-host-source.h"

void
_gpu_host_rewriter_init (GpuHostRewriter *rewriter,
                         const char      *text)
{
  _gpu_source_init (&rewriter->source, text, "gpu_host_kernel");
  rewriter->output = g_string_new (NULL);
  rewriter->copied = 0;
}

void
_gpu_host_rewriter_replace (GpuHostRewriter *rewriter,
                            guint            i,
                            const char      *replacement)
{
  const GpuSourceToken *token = source_get (&rewriter->source, i);

  g_string_append_len (rewriter->output, rewriter->source.text + rewriter->copied,
                       token->start - rewriter->copied);
  g_string_append (rewriter->output, replacement);
  rewriter->copied = token->start + token->length;
}

void
_gpu_host_rewriter_copy_rest (GpuHostRewriter *rewriter)
{
  g_string_append (rewriter->output, rewriter->source.text + rewriter->copied);
}

/* Removes the token at @i. @word is the word of the program that the prelude replaced by it. */
static void
remove_word (GpuHostRewriter *rewriter,
             guint            i,
             const char      *word)
{
  g_autofree char *spaces = g_strnfill (strlen (word), ' ');

  _gpu_host_rewriter_replace (rewriter, i, spaces);
}

/* Images that kernels write have a separate type. */
static void
replace_access (GpuHostRewriter *rewriter,
                guint            i)
{
  g_autofree char *type = source_get_kind (&rewriter->source, i + 1) == GPU_SOURCE_WORD
                          ? source_get_text (&rewriter->source, i + 1) : NULL;

  remove_word (rewriter, i, "__write_only");

  if (type != NULL && _gpu_host_is_image_type (type))
    {
      g_autofree char *written = g_strconcat ("gpu_host_write_", type, NULL);

      _gpu_host_rewriter_replace (rewriter, i + 1, written);
    }
}

/* Replaces a qualifier of a kernel, an address space or image access. Global variables outside
 * functions are exported. */
static void
replace_word (GpuHostRewriter *rewriter,
              guint            i,
              gboolean         is_outside)
{
  GpuSource *source = &rewriter->source;

  if (is_outside && source_is (source, i, "gpu_host_global"))
    _gpu_host_rewriter_replace (rewriter, i, "__attribute__ ((visibility (\"default\")))");
  else if (source_is (source, i, "gpu_host_kernel"))
    remove_word (rewriter, i, "__kernel");
  else if (source_is (source, i, "gpu_host_global"))
    remove_word (rewriter, i, "__global");
  else if (source_is (source, i, "gpu_host_local"))
    remove_word (rewriter, i, "__local");
  else if (source_is (source, i, "gpu_host_constant"))
    _gpu_host_rewriter_replace (rewriter, i, "const     ");     /* as long as __constant */
  else if (source_is (source, i, "gpu_host_read_only"))
    remove_word (rewriter, i, "__read_only");
  else if (source_is (source, i, "gpu_host_write_only"))
    replace_access (rewriter, i);
}

/* Appends the sizes of the variables in the declaration that begins with token @i. If the program
 * calls gpu_host_is_local(), also registers the variables for that function. Returns the end of the
 * declaration. */
static guint
append_local_sizes (GpuSource  *source,
                    const char *function,
                    guint       i,
                    gboolean    has_strided_copy,
                    GString    *sizes)
{
  while (i < source->tokens->len && source_get_kind (source, i) != ';')
    {
      char kind = source_get_kind (source, i);
      char next = source_get_kind (source, i + 1);

      if (kind == GPU_SOURCE_WORD && next != '\0' && strchr (";,=[", next) != NULL)
        {
          g_autofree char *name = source_get_text (source, i);

          g_string_append_printf (sizes,
                                  " static const GpuHostSize gpu_host_size_%u __attribute__ "
                                  "((used, section (\"gpu_host_sizes_%s\"))) = sizeof (%s);",
                                  i, function, name);

          if (has_strided_copy)
            g_string_append_printf (sizes, " gpu_host_add_local (&%s, sizeof (%s));", name, name);
        }

      i = strchr ("([{", kind) != NULL ? _gpu_source_skip (source, i) : i + 1;
    }

  return i;
}

static void
rewrite_body (GpuHostRewriter   *rewriter,
              GpuSourceFunction *function,
              gboolean           has_strided_copy)
{
  GpuSource *source = &rewriter->source;
  guint parentheses = 0;

  for (guint i = function->body.first; i < function->body.last; i++)
    {
      char kind = source_get_kind (source, i);

      parentheses += kind == '(';
      parentheses -= kind == ')';

      if (source_is (source, i, "gpu_host_local") && parentheses == 0
          && _gpu_source_is_variable (source, i))
        {
          g_autoptr (GString) sizes = g_string_new (";");

          _gpu_host_rewriter_replace (rewriter, i, "static __thread");
          i = append_local_sizes (source, function->name, i, has_strided_copy, sizes);

          if (i < source->tokens->len)
            _gpu_host_rewriter_replace (rewriter, i, sizes->str);
        }
      else
        {
          replace_word (rewriter, i, FALSE);
        }
    }
}

/* Returns whether an attribute that only OpenCL C compilers support begins at token @i. */
static gboolean
is_kernel_attribute (GpuSource *source,
                     guint      i)
{
  GpuSourceRange range = { i, 0 };

  if (!source_is_attribute (source, i))
    return FALSE;

  range.last = _gpu_source_skip (source, i + 1);

  return source_has (source, range, "reqd_work_group_size")
         || source_has (source, range, "work_group_size_hint")
         || source_has (source, range, "vec_type_hint");
}

static void
rewrite_head (GpuHostRewriter *rewriter,
              guint            first,
              guint            last)
{
  GpuSource *source = &rewriter->source;
  guint i = first;
  int depth = 0;

  while (i < last)
    {
      guint end = is_kernel_attribute (source, i) ? _gpu_source_skip (source, i + 1) : i;
      char kind = source_get_kind (source, i);

      depth += kind == '(' || kind == '{';
      depth -= kind == ')' || kind == '}';

      if (end == i)
        replace_word (rewriter, i++, depth == 0);

      for (; i < end; i++)
        {
          g_autofree char *word = source_get_text (source, i);

          remove_word (rewriter, i, word);
        }
    }
}

static void
rewrite_text (GpuHostRewriter *rewriter)
{
  GpuSource *source = &rewriter->source;
  const GpuSourceRange all = { 0, source->tokens->len };
  /* A variable of the macro async_work_group_strided_copy() */
  const gboolean has_strided_copy = source_has (source, all, "gpu_host_gathers");
  guint i = 0;

  for (guint j = 0; j < source->functions->len; j++)
    {
      GpuSourceFunction *function = source->functions->pdata[j];

      rewrite_head (rewriter, i, function->body.first);
      rewrite_body (rewriter, function, has_strided_copy);
      i = function->body.last;
    }

  rewrite_head (rewriter, i, source->tokens->len);
  _gpu_host_rewriter_copy_rest (rewriter);
}

char *
_gpu_host_rewrite (const char  *text,
                   GError     **error)
{
  g_autofree char *description = NULL;
  GpuHostRewriter rewriter;

  _gpu_host_rewriter_init (&rewriter, text);
  rewrite_text (&rewriter);

  /* If a bracket is missing, append nothing, so that the compiler reports the right line. */
  description = rewriter.source.is_open ? g_strdup ("")
                                        : _gpu_host_source_describe (&rewriter.source, error);

  if (description != NULL)
    g_string_append (rewriter.output, description);

  _gpu_source_clear (&rewriter.source);

  return g_string_free (rewriter.output, description == NULL);
}
