/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Rewrites the vector literals of a preprocessed program as C. The prelude declares vectors as
 * structures. The meaning of "(float4) (a, b, c, d)" depends on the number of values, and on which
 * of the values are vectors. Outside functions, a literal must become a constant. Line breaks are
 * preserved.
 */
#include "config.h"

#include "gpumem/host/compiler/gpu-host-source.h"

static const guint lengths[] = { 2, 3, 4, 8, 16 };

/* "(float4) (first, ...)" */
typedef struct
{
  guint  first;             /* first token */
  guint  end;               /* token after the literal */
  char  *type;
  char  *element;
  guint  n_components;
  GArray *values;           /* of GpuSourceRange */
} Literal;

static void
literal_clear (Literal *literal)
{
  g_free (literal->type);
  g_free (literal->element);
  g_clear_pointer (&literal->values, g_array_unref);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Literal, literal_clear)

static gboolean
parse (GpuSource *source,
       guint      i,
       Literal   *literal)
{
  guint last;

  if (!_gpu_source_is_vector_literal (source, i))
    return FALSE;

  literal->first = i;
  literal->end = _gpu_source_skip (source, i + 3);
  literal->type = source_get_text (source, i + 1);
  literal->element = g_strndup (literal->type, strcspn (literal->type, "0123456789"));
  literal->n_components = _gpu_source_get_n_components (source, i + 1);
  literal->values = g_array_new (FALSE, FALSE, sizeof (GpuSourceRange));
  last = literal->end - 1;

  for (guint first = i + 4; first < last; )
    {
      GpuSourceRange value = { first, _gpu_source_find_end (source, first, last) };

      g_array_append_val (literal->values, value);
      first = value.last + 1;
    }

  return !source->is_open && literal->values->len > 0;
}

/* --- outside functions ------------------------------------------------------------------------ */

/* Returns the text of the tokens in @range on one line, without the line markers of the
 * preprocessor. */
static char *
get_flat_text (GpuSource      *source,
               GpuSourceRange  range)
{
  GString *text = g_string_new (NULL);
  gsize end = 0;

  for (guint i = range.first; i < range.last; i++)
    {
      const GpuSourceToken *token = source_get (source, i);

      if (text->len > 0 && token->start > end)
        g_string_append_c (text, ' ');

      g_string_append_len (text, source->text + token->start, token->length);
      end = token->start + token->length;
    }

  return g_string_free (text, FALSE);
}

/* Collects the values of all components, including those of nested literals. */
static gboolean
collect_components (GpuSource *source,
                    guint      i,
                    GPtrArray *components)
{
  g_auto (Literal) literal = { 0 };
  guint n_before = components->len;

  if (!parse (source, i, &literal))
    return FALSE;

  for (guint j = 0; j < literal.values->len; j++)
    {
      GpuSourceRange value = g_array_index (literal.values, GpuSourceRange, j);

      if (!_gpu_source_is_vector_literal (source, value.first))
        g_ptr_array_add (components, get_flat_text (source, value));
      else if (!collect_components (source, value.first, components))
        return FALSE;
    }

  if (components->len == n_before + 1)
    {
      for (guint j = 1; j < literal.n_components; j++)
        g_ptr_array_add (components, g_strdup (components->pdata[n_before]));
    }

  return components->len == n_before + literal.n_components;
}

/* Leaves invalid literals unchanged, so that the compiler reports them. */
static void
rewrite_constant (GpuHostRewriter *rewriter,
                  const Literal   *literal)
{
  g_autoptr (GPtrArray) components = g_ptr_array_new_with_free_func (g_free);
  g_autoptr (GString) text = g_string_new (NULL);

  if (!collect_components (&rewriter->source, literal->first, components))
    return;

  g_string_append_printf (text, "(%s) { { ", literal->type);

  for (guint i = 0; i < components->len; i++)
    g_string_append_printf (text, "%s%s", i > 0 ? ", " : "",
                            (const char *) components->pdata[i]);

  g_string_append (text, " } }");
  _gpu_host_rewriter_replace (rewriter, literal->first, text->str);

  for (guint i = literal->first + 1; i < literal->end; i++)
    _gpu_host_rewriter_replace (rewriter, i, "");
}

/* --- inside functions ------------------------------------------------------------------------- */

static void rewrite_range (GpuHostRewriter *rewriter,
                           guint            first,
                           guint            last,
                           gboolean         is_outside);

/* Replaces the brackets of a literal with @before and @after. Separates its values with commas, or
 * assigns each of them to a variable. */
static void
rewrite_values (GpuHostRewriter *rewriter,
                const Literal   *literal,
                const char      *before,
                gboolean         commas,
                const char      *after)
{
  _gpu_host_rewriter_replace (rewriter, literal->first, before);

  for (guint i = 1; i <= 3; i++)
    _gpu_host_rewriter_replace (rewriter, literal->first + i, "");

  for (guint i = 0; i < literal->values->len; i++)
    {
      GpuSourceRange value = g_array_index (literal->values, GpuSourceRange, i);
      g_autofree char *separator = commas ? g_strdup (",")
                                          : g_strdup_printf ("); __auto_type gpu_host_%u = (",
                                                             i + 1);

      rewrite_range (rewriter, value.first, value.last, FALSE);

      if (i + 1 < literal->values->len)
        _gpu_host_rewriter_replace (rewriter, value.last, separator);
    }

  _gpu_host_rewriter_replace (rewriter, literal->end - 1, after);
}

/* Rewrites a literal with one value: a number for all components, or a vector of the same type. */
static void
rewrite_single (GpuHostRewriter *rewriter,
                const Literal   *literal)
{
  const char *type = literal->type;
  g_autofree char *after = NULL;

  after = g_strdup_printf ("); _Generic (gpu_host_0, %s: gpu_host_same_%s, "
                           "default: gpu_host_fill_%s) (gpu_host_0); })", type, type, type);
  rewrite_values (rewriter, literal, "({ __auto_type gpu_host_0 = (", FALSE, after);
}

/* Rewrites a literal with several values, some of which are vectors. */
static void
rewrite_mixed (GpuHostRewriter *rewriter,
               const Literal   *literal)
{
  const char *element = literal->element;
  g_autoptr (GString) after = g_string_new ("); _Static_assert (");

  for (guint i = 0; i < literal->values->len; i++)
    {
      g_string_append_printf (after, "%s_Generic (gpu_host_%u", i > 0 ? " + " : "", i);

      for (guint j = 0; j < G_N_ELEMENTS (lengths); j++)
        g_string_append_printf (after, ", %s%u: %u", element, lengths[j], lengths[j]);

      g_string_append (after, ", default: 1)");
    }

  g_string_append_printf (after, " == %u, \"wrong number of components for %s\"); "
                          "%s gpu_host_v; %s *gpu_host_p = gpu_host_v.gpu_host_v; ",
                          literal->n_components, literal->type, literal->type, element);

  for (guint i = 0; i < literal->values->len; i++)
    {
      g_string_append_printf (after, "gpu_host_p = _Generic (gpu_host_%u", i);

      for (guint j = 0; j < G_N_ELEMENTS (lengths); j++)
        g_string_append_printf (after, ", %s%u: gpu_host_put_%s%u", element, lengths[j], element,
                                lengths[j]);

      g_string_append_printf (after, ", default: gpu_host_put_%s) (gpu_host_p, gpu_host_%u); ",
                              element, i);
    }

  g_string_append (after, "gpu_host_v; })");
  rewrite_values (rewriter, literal, "({ __auto_type gpu_host_0 = (", FALSE, after->str);
}

static void
rewrite_expression (GpuHostRewriter *rewriter,
                    const Literal   *literal)
{
  g_autofree char *before = NULL;

  if (literal->values->len == 1)
    {
      rewrite_single (rewriter, literal);
    }
  else if (literal->values->len < literal->n_components)
    {
      rewrite_mixed (rewriter, literal);
    }
  else if (literal->values->len == literal->n_components)
    {
      before = g_strdup_printf ("((%s) { { ", literal->type);
      rewrite_values (rewriter, literal, before, TRUE, " } })");
    }
}

static void
rewrite_range (GpuHostRewriter *rewriter,
               guint            first,
               guint            last,
               gboolean         is_outside)
{
  guint i = first;

  while (i < last)
    {
      g_auto (Literal) literal = { 0 };

      if (!parse (&rewriter->source, i, &literal) || literal.end > last)
        {
          i++;
          continue;
        }

      if (is_outside)
        rewrite_constant (rewriter, &literal);
      else
        rewrite_expression (rewriter, &literal);

      i = literal.end;
    }
}

char *
_gpu_host_rewrite_vectors (const char *text)
{
  GpuHostRewriter rewriter;
  GpuSource *source = &rewriter.source;
  guint i = 0;

  _gpu_host_rewriter_init (&rewriter, text);

  for (guint j = 0; j < source->functions->len; j++)
    {
      GpuSourceFunction *function = source->functions->pdata[j];

      rewrite_range (&rewriter, i, function->body.first, TRUE);
      rewrite_range (&rewriter, function->body.first, function->body.last, FALSE);
      i = function->body.last;
    }

  rewrite_range (&rewriter, i, source->tokens->len, TRUE);
  _gpu_host_rewriter_copy_rest (&rewriter);
  _gpu_source_clear (source);

  return g_string_free (rewriter.output, FALSE);
}
