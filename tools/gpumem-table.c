/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <string.h>

#include "tools/gpumem-table.h"

#define GAP 2

typedef struct
{
  GpumemStyle   style;
  char        **cells;
} Row;

struct _GpumemTable
{
  const GpumemColumn *columns;
  guint               n_columns;
  GPtrArray          *rows;     /* of Row */
};

static void
row_free (gpointer data)
{
  Row *row = data;

  g_strfreev (row->cells);
  g_free (row);
}

/* @columns must outlive the table. If the columns have titles, the first row shows them. */
GpumemTable *
gpumem_table_new (const GpumemColumn *columns,
                  guint               n_columns)
{
  GpumemTable *table = g_new0 (GpumemTable, 1);
  g_autofree const char **titles = g_new0 (const char *, n_columns + 1);

  table->columns = columns;
  table->n_columns = n_columns;
  table->rows = g_ptr_array_new_with_free_func (row_free);
  for (guint i = 0; i < n_columns; i++)
    titles[i] = columns[i].title;
  if (titles[0] != NULL)
    gpumem_table_add (table, GPUMEM_STYLE_TITLE, titles);
  return table;
}

void
gpumem_table_free (GpumemTable *table)
{
  g_ptr_array_unref (table->rows);
  g_free (table);
}

/* @cells: the text of each column; NULL for an empty cell */
void
gpumem_table_add (GpumemTable       *table,
                  GpumemStyle        style,
                  const char *const *cells)
{
  Row *row = g_new0 (Row, 1);

  row->style = style;
  row->cells = g_new0 (char *, table->n_columns + 1);
  for (guint i = 0; i < table->n_columns; i++)
    row->cells[i] = g_utf8_make_valid (cells[i] != NULL ? cells[i] : "", -1);
  g_ptr_array_add (table->rows, row);
}

static guint
total_width (const guint *widths,
             guint        n_columns)
{
  guint total = GAP * (n_columns - 1);

  for (guint i = 0; i < n_columns; i++)
    total += widths[i];
  return total;
}

static guint *
natural_widths (GpumemTable *table)
{
  guint *widths = g_new0 (guint, table->n_columns);

  for (guint i = 0; i < table->rows->len; i++)
    {
      Row *row = g_ptr_array_index (table->rows, i);

      for (guint j = 0; j < table->n_columns; j++)
        widths[j] = MAX (widths[j], g_utf8_strlen (row->cells[j], -1));
    }
  return widths;
}

#define NARROWEST 4

/* Shrinks the widest of the columns that may shrink, until the table fits or no column may shrink
 * further. If @force is TRUE, all columns may shrink. */
static void
fit_widths (GpumemTable *table,
            guint       *widths,
            guint        width,
            gboolean     force)
{
  while (total_width (widths, table->n_columns) > width)
    {
      guint widest = table->n_columns;

      for (guint j = 0; j < table->n_columns; j++)
        {
          guint narrowest = force ? NARROWEST : table->columns[j].narrowest;

          if (narrowest > 0 && widths[j] > narrowest &&
              (widest == table->n_columns || widths[j] > widths[widest]))
            widest = j;
        }
      if (widest == table->n_columns)
        return;
      widths[widest]--;
    }
}

/* Removes up to @width characters from the start of @text, and returns them. Splits at a space, or
 * after a hyphen if there is no space. If there is neither, splits after @width characters. */
static char *
take_line (const char **text,
           guint        width)
{
  const char *start = *text;
  const char *end = start;
  const char *space = NULL;
  const char *hyphen = NULL;

  for (guint i = 0; i < width && *end != '\0'; i++)
    {
      if (*end == '-')
        hyphen = end + 1;
      end = g_utf8_next_char (end);
      if (*end == ' ' || *end == '\0')
        space = end;
    }
  if (space != NULL || hyphen != NULL)
    end = space != NULL ? space : hyphen;
  *text = end;
  while (**text == ' ')
    (*text)++;
  return g_strndup (start, end - start);
}

static void
append_cell (GString            *line,
             const GpumemColumn *column,
             guint               width,
             const char         *text)
{
  guint padding = width - MIN (width, g_utf8_strlen (text, -1));

  if (column->right)
    g_string_append_printf (line, "%*s%s", (int) padding, "", text);
  else
    g_string_append_printf (line, "%s%*s", text, (int) padding, "");
}

static void
print_row (GpumemTable *table,
           Row         *row,
           const guint *widths)
{
  g_autofree const char **rest = g_new0 (const char *, table->n_columns);
  gboolean more = TRUE;

  for (guint j = 0; j < table->n_columns; j++)
    rest[j] = row->cells[j];
  while (more)
    {
      g_autoptr (GString) line = g_string_new (NULL);

      more = FALSE;
      for (guint j = 0; j < table->n_columns; j++)
        {
          g_autofree char *text = take_line (&rest[j], MAX (widths[j], 1));

          if (j > 0)
            g_string_append_printf (line, "%*s", GAP, "");
          append_cell (line, &table->columns[j], widths[j], text);
          more |= *rest[j] != '\0';
        }
      g_strchomp (line->str);
      g_print ("%s%s%s\n", gpumem_style_begin (row->style), line->str,
               gpumem_style_end (row->style));
    }
}

void
gpumem_table_print (GpumemTable *table,
                    guint        width)
{
  g_autofree guint *widths = natural_widths (table);

  fit_widths (table, widths, width, FALSE);
  fit_widths (table, widths, width, TRUE);
  for (guint i = 0; i < table->rows->len; i++)
    print_row (table, g_ptr_array_index (table->rows, i), widths);
}
