/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/host/gpu-host-source.h"

static void
function_free (gpointer data)
{
  GpuHostFunction *function = data;

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

static gsize
get_quoted_length (const char *text)
{
  gsize length = 1;

  while (text[length] != '\0' && text[length] != '\n' && text[length] != text[0])
    length += text[length] == '\\' && text[length + 1] != '\0' ? 2 : 1;

  return text[length] == text[0] ? length + 1 : length;
}

static void
add_token (GpuHostSource *source,
           const char    *at,
           gsize          length,
           char           kind)
{
  GpuHostToken token = { at - source->text, length, kind };

  g_array_append_val (source->tokens, token);
}

/* Lines of the preprocessor, markers and pragmas, are no tokens. */
static void
tokenize (GpuHostSource *source)
{
  const char *p = source->text;
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
          kind = GPU_HOST_WORD;
        }
      else if (g_ascii_isdigit (*p))
        {
          length = get_word_length (p);
          kind = GPU_HOST_OTHER;
        }
      else if (*p == '"' || *p == '\'')
        {
          length = get_quoted_length (p);
          kind = GPU_HOST_OTHER;
        }

      add_token (source, p, length, kind);
      at_start = FALSE;
      p += length;
    }
}

guint
_gpu_host_source_skip (GpuHostSource *source,
                       guint          i)
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

static void
add_function (GpuHostSource *source,
              guint          first,
              guint          name,
              guint          body)
{
  GpuHostFunction *function = g_new0 (GpuHostFunction, 1);

  function->name = source_get_text (source, name);
  function->head = (GpuHostRange) { first, body };
  function->parameters = (GpuHostRange) { name + 2, _gpu_host_source_skip (source, name + 1) - 1 };
  function->body = (GpuHostRange) { body, _gpu_host_source_skip (source, body) };

  for (guint i = first; i < name; i++)
    function->is_kernel = function->is_kernel || source_is (source, i, "gpu_host_kernel");

  g_ptr_array_add (source->functions, function);
  g_hash_table_replace (source->by_name, function->name, function);
}

/* One declaration or definition outside of all functions; the token behind it. */
static guint
parse_declaration (GpuHostSource *source,
                   guint          first)
{
  guint name = 0;
  gboolean is_value = FALSE;
  guint i = first;

  while (i < source->tokens->len && source_get_kind (source, i) != ';')
    {
      char kind = source_get_kind (source, i);

      if (source_is_attribute (source, i))
        {
          i = _gpu_host_source_skip (source, i + 1);
          continue;
        }

      if (kind == '{' && name != 0 && !is_value)
        {
          add_function (source, first, name, i);
          return _gpu_host_source_skip (source, i);
        }

      if (kind == GPU_HOST_WORD && source_get_kind (source, i + 1) == '(' && name == 0)
        name = i;

      is_value = is_value || kind == '=';
      i = strchr ("([{", kind) != NULL ? _gpu_host_source_skip (source, i) : i + 1;
    }

  return i + 1;
}

static gboolean
has_barrier (GpuHostSource   *source,
             GpuHostFunction *function)
{
  if (g_str_equal (function->name, "gpu_host_barrier"))
    return TRUE;

  function->visited = TRUE;

  for (guint i = function->body.first; i < function->body.last; i++)
    {
      g_autofree char *word = NULL;
      GpuHostFunction *called;

      if (source_get_kind (source, i) != GPU_HOST_WORD)
        continue;

      word = source_get_text (source, i);
      called = g_hash_table_lookup (source->by_name, word);

      if (called != NULL && !called->visited && has_barrier (source, called))
        return TRUE;
    }

  return FALSE;
}

gboolean
_gpu_host_source_has_barrier (GpuHostSource   *source,
                              GpuHostFunction *kernel)
{
  for (guint i = 0; i < source->functions->len; i++)
    ((GpuHostFunction *) source->functions->pdata[i])->visited = FALSE;

  return has_barrier (source, kernel);
}

void
_gpu_host_source_init (GpuHostSource *source,
                       const char    *text)
{
  guint i = 0;

  source->text = text;
  source->tokens = g_array_new (FALSE, FALSE, sizeof (GpuHostToken));
  source->functions = g_ptr_array_new_with_free_func (function_free);
  source->by_name = g_hash_table_new (g_str_hash, g_str_equal);
  source->is_open = FALSE;
  tokenize (source);

  while (i < source->tokens->len)
    i = parse_declaration (source, i);
}

void
_gpu_host_source_clear (GpuHostSource *source)
{
  g_array_unref (source->tokens);
  g_hash_table_unref (source->by_name);
  g_ptr_array_unref (source->functions);
}
