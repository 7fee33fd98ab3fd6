/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Prints a JSON tree as comma-separated values. */
#include "config.h"

#include <string.h>

#include "tools/gpumem-json.h"

/* A row maps columns to text. Columns are printed in the order of their first use. */
typedef struct
{
  GPtrArray  *columns;    /* of strings */
  GPtrArray  *rows;       /* of GHashTable */
} Sheet;

static void
set_cell (Sheet      *sheet,
          GHashTable *row,
          const char *column,
          const char *text)
{
  if (!g_ptr_array_find_with_equal_func (sheet->columns, column, g_str_equal, NULL))
    g_ptr_array_add (sheet->columns, g_strdup (column));
  g_hash_table_insert (row, g_strdup (column), g_strdup (text));
}

static char *
format_scalar (JsonNode *node)
{
  g_autofree char *text = json_to_string (node, FALSE);

  if (json_node_get_value_type (node) == G_TYPE_STRING)
    return g_strdup (json_node_get_string (node));
  return JSON_NODE_HOLDS_NULL (node) ? g_strdup ("") : g_steal_pointer (&text);
}

/* Formats an array of scalars as words, and an array of objects as JSON. */
static char *
format_array (JsonNode *node)
{
  JsonArray *array = json_node_get_array (node);
  g_autoptr (GString) text = g_string_new (NULL);

  for (guint i = 0; i < json_array_get_length (array); i++)
    {
      JsonNode *element = json_array_get_element (array, i);
      g_autofree char *word = NULL;

      if (!JSON_NODE_HOLDS_VALUE (element))
        return json_to_string (node, FALSE);
      word = format_scalar (element);
      g_string_append_printf (text, "%s%s", i > 0 ? " " : "", word);
    }
  return g_string_free (g_steal_pointer (&text), FALSE);
}

/* Adds the members of @object. The names of columns for a nested object begin with the name of
 * that object.
 * @left_out: (nullable): a member to omit */
static void
fill_row (Sheet      *sheet,
          GHashTable *row,
          const char *prefix,
          JsonObject *object,
          const char *left_out)
{
  g_autoptr (GList) members = json_object_get_members (object);

  for (GList *l = members; l != NULL; l = l->next)
    {
      JsonNode *node = json_object_get_member (object, l->data);
      g_autofree char *column = g_strconcat (prefix, l->data, NULL);
      g_autofree char *text = NULL;

      if (g_strcmp0 (l->data, left_out) == 0)
        continue;
      if (JSON_NODE_HOLDS_OBJECT (node))
        {
          g_autofree char *inner = g_strconcat (column, ".", NULL);

          fill_row (sheet, row, inner, json_node_get_object (node), NULL);
          continue;
        }
      text = JSON_NODE_HOLDS_ARRAY (node) ? format_array (node) : format_scalar (node);
      set_cell (sheet, row, column, text);
    }
}

static GHashTable *
add_row (Sheet *sheet)
{
  GHashTable *row = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);

  g_ptr_array_add (sheet->rows, row);
  return row;
}

/* Adds the rows of @array. If @inner is NULL, each element of @array becomes a row. Otherwise each
 * element of @array contains an array named @inner, and each element of this inner array becomes a
 * row. The row then also has the members of the element of @array, in columns whose names begin
 * with @outer. */
static void
add_rows (Sheet      *sheet,
          JsonArray  *array,
          const char *outer,
          const char *inner)
{
  for (guint i = 0; i < json_array_get_length (array); i++)
    {
      JsonObject *object = json_array_get_object_element (array, i);
      g_autofree char *prefix = g_strconcat (outer, ".", NULL);
      JsonArray *children;

      if (inner == NULL)
        {
          fill_row (sheet, add_row (sheet), "", object, NULL);
          continue;
        }
      children = json_object_get_array_member (object, inner);
      for (guint j = 0; j < json_array_get_length (children); j++)
        {
          GHashTable *row = add_row (sheet);

          fill_row (sheet, row, prefix, object, inner);
          fill_row (sheet, row, "", json_array_get_object_element (children, j), NULL);
        }
    }
}

/* Quotes @text as RFC 4180 requires. Replaces line ends by spaces, so that each row is one line. */
static void
append_cell (GString    *line,
             const char *text)
{
  gboolean quoted = strpbrk (text, ",\"\r\n") != NULL;

  if (quoted)
    g_string_append_c (line, '"');
  for (; *text != '\0'; text++)
    {
      if (*text == '"')
        g_string_append_c (line, '"');
      g_string_append_c (line, *text == '\n' || *text == '\r' ? ' ' : *text);
    }
  if (quoted)
    g_string_append_c (line, '"');
}

static void
print_sheet (const Sheet *sheet,
             gboolean     with_header)
{
  for (gint i = with_header ? -1 : 0; i < (gint) sheet->rows->len; i++)
    {
      g_autoptr (GString) line = g_string_new (NULL);

      for (guint j = 0; j < sheet->columns->len; j++)
        {
          const char *column = g_ptr_array_index (sheet->columns, j);
          const char *text = i < 0 ? column
                             : g_hash_table_lookup (g_ptr_array_index (sheet->rows, i), column);

          if (j > 0)
            g_string_append_c (line, ',');
          append_cell (line, text != NULL ? text : "");
        }
      g_print ("%s\n", line->str);
    }
}

/* @rows: the name of the array whose elements become rows. "OUTER/INNER" means the elements of the
 * array INNER in each element of the array OUTER. "" makes one row of the whole object. */
void
gpumem_csv_print (JsonNode   *root,
                  const char *rows,
                  gboolean    with_header)
{
  JsonObject *object = json_node_get_object (root);
  g_auto (GStrv) names = g_strsplit (rows, "/", 2);
  Sheet sheet = { g_ptr_array_new_with_free_func (g_free),
                  g_ptr_array_new_with_free_func ((GDestroyNotify) g_hash_table_unref) };

  if (names[0] == NULL)
    fill_row (&sheet, add_row (&sheet), "", object, NULL);
  else
    add_rows (&sheet, json_object_get_array_member (object, names[0]), names[0], names[1]);
  print_sheet (&sheet, with_header);
  g_ptr_array_unref (sheet.columns);
  g_ptr_array_unref (sheet.rows);
}
