/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Parses sizes such as 4, 64K and 1MiB, and ranges of sizes. */
#include "config.h"

#include <string.h>

#include "tools/gpumem-bandwidth.h"
#include "tools/gpumem-format.h"

#define MAX_SIZE  (G_GUINT64_CONSTANT (1) << 40)
#define MAX_SIZES 64

static gboolean
fail (GError     **error,
      const char  *word,
      const char  *reason)
{
  g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, "the size '%s' %s", word, reason);
  return FALSE;
}

static gboolean
parse_size (const char  *word,
            guint64     *size,
            GError     **error)
{
  if (!gpumem_parse_size (word, size, error))
    return FALSE;
  if (*size == 0)
    return fail (error, word, "is too small: the minimum is 1 byte");
  if (*size > MAX_SIZE)
    return fail (error, word, "is too large: the maximum is 1T");
  return TRUE;
}

static gboolean
add_size (GArray      *sizes,
          guint64      size,
          const char  *word,
          GError     **error)
{
  for (guint i = 0; i < sizes->len; i++)
    if (g_array_index (sizes, guint64, i) == size)
      return TRUE;
  if (sizes->len == MAX_SIZES)
    return fail (error, word, "yields more than " G_STRINGIFY (MAX_SIZES) " sizes");
  g_array_append_val (sizes, size);
  return TRUE;
}

/* Parses "FROM-TO" or "FROM-TO:FACTOR". */
static gboolean
add_range (GArray      *sizes,
           const char  *word,
           GError     **error)
{
  g_auto (GStrv) parts = g_strsplit (word, ":", 2);
  g_auto (GStrv) ends = g_strsplit (parts[0], "-", 2);
  guint64 from, to, factor = 2;

  if (!parse_size (ends[0], &from, error) || !parse_size (ends[1], &to, error))
    return FALSE;
  if (parts[1] != NULL && !g_ascii_string_to_unsigned (parts[1], 10, 2, 1 << 20, &factor, NULL))
    return fail (error, word, "needs a factor that is a whole number from 2 to 1048576");
  if (from > to)
    return fail (error, word, "ends below its start");
  for (guint64 size = from; size <= to; size *= factor)
    if (!add_size (sizes, size, word, error))
      return FALSE;
  return TRUE;
}

static int
compare_sizes (gconstpointer a,
               gconstpointer b)
{
  guint64 one = *(const guint64 *) a;
  guint64 other = *(const guint64 *) b;

  return one < other ? -1 : one > other;
}

/* Returns: (transfer full): distinct guint64 in ascending order */
GArray *
gpumem_sizes_parse (const char  *list,
                    GError     **error)
{
  g_autoptr (GArray) sizes = g_array_new (FALSE, FALSE, sizeof (guint64));
  g_auto (GStrv) words = g_strsplit (list, ",", -1);

  for (guint i = 0; words[i] != NULL; i++)
    {
      const char *word = g_strstrip (words[i]);
      guint64 size = 0;

      if (strchr (word, '-') != NULL)
        {
          if (!add_range (sizes, word, error))
            return NULL;
        }
      else if (!parse_size (word, &size, error) || !add_size (sizes, size, word, error))
        return NULL;
    }
  if (sizes->len == 0)
    {
      g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
                   "the list of sizes '%s' is empty: the minimum is one size", list);
      return NULL;
    }
  g_array_sort (sizes, compare_sizes);
  return g_steal_pointer (&sizes);
}
