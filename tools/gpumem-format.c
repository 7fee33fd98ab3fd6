/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <errno.h>
#include <string.h>

#include "tools/gpumem-format.h"

/* Formats a size of memory with a binary unit, such as "9.4 MiB". */
char *
gpumem_format_size (guint64 bytes)
{
  static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
  double value = bytes;
  guint i = 0;

  while (value >= 1023.95 && i + 1 < G_N_ELEMENTS (units))
    {
      value /= 1024;
      i++;
    }
  return i == 0 ? g_strdup_printf ("%u B", (guint) bytes)
                : g_strdup_printf ("%.1f %s", value, units[i]);
}

char *
gpumem_format_time (gint64 nanoseconds)
{
  if (nanoseconds < 999500)
    return g_strdup_printf ("%.1f us", nanoseconds / 1e3);
  if (nanoseconds < 999995000)
    return g_strdup_printf ("%.2f ms", nanoseconds / 1e6);
  return g_strdup_printf ("%.2f s", nanoseconds / 1e9);
}

/* Formats a speed with a decimal unit, as in data sheets, such as "8.2 GB/s". */
char *
gpumem_format_speed (guint64 bytes,
                     gint64  nanoseconds)
{
  if (bytes == 0 || nanoseconds <= 0)
    return g_strdup ("");
  return g_strdup_printf ("%.2f GB/s", (double) bytes / nanoseconds);
}

static void
append_variant (GString  *text,
                GVariant *value)
{
  g_autofree char *printed = NULL;

  if (g_variant_is_of_type (value, G_VARIANT_TYPE_VARIANT))
    {
      g_autoptr (GVariant) inner = g_variant_get_variant (value);

      append_variant (text, inner);
    }
  else if (g_variant_is_of_type (value, G_VARIANT_TYPE_STRING))
    g_string_append (text, g_variant_get_string (value, NULL));
  else if (g_variant_is_of_type (value, G_VARIANT_TYPE_BOOLEAN))
    g_string_append (text, g_variant_get_boolean (value) ? "yes" : "no");
  else if (g_variant_is_of_type (value, G_VARIANT_TYPE_BYTE))
    g_string_append_printf (text, "%02x", g_variant_get_byte (value));
  else if (g_variant_is_container (value) &&
           !g_variant_is_of_type (value, G_VARIANT_TYPE_DICTIONARY))
    {
      gboolean bytes = g_variant_is_of_type (value, G_VARIANT_TYPE_BYTESTRING);

      for (gsize i = 0; i < g_variant_n_children (value); i++)
        {
          g_autoptr (GVariant) child = g_variant_get_child_value (value, i);

          if (i > 0 && !bytes)
            g_string_append (text, ", ");
          append_variant (text, child);
        }
    }
  else
    {
      printed = g_variant_print (value, FALSE);
      g_string_append (text, printed);
    }
}

/* Formats a value for readers: strings without quotes, lists with commas, bytes in hexadecimal. */
char *
gpumem_format_variant (GVariant *value)
{
  GString *text = g_string_new (NULL);

  append_variant (text, value);
  if (text->len == 0)
    g_string_append (text, "-");
  return g_string_free (text, FALSE);
}

gboolean
gpumem_parse_size (const char  *word,
                   guint64     *size,
                   GError     **error)
{
  static const char letters[] = "kmgtpe";
  const char *letter;
  char *end = (char *) word;
  guint shift = 0;

  errno = 0;
  *size = g_ascii_isdigit (word[0]) ? g_ascii_strtoull (word, &end, 10) : 0;
  if (end > word && *end != '\0' && (letter = strchr (letters, g_ascii_tolower (*end))) != NULL)
    {
      shift = 10 * (letter - letters + 1);
      end++;
      if (g_ascii_strcasecmp (end, "iB") == 0)
        end += 2;
    }
  if (end == word || *end != '\0')
    g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
                 "the size '%s' is not a number of bytes such as 4096, 64K or 1GiB", word);
  else if (errno == ERANGE || *size > G_MAXUINT64 >> shift)
    g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
                 "the size '%s' is too large: the maximum is 2^64 - 1 bytes", word);
  else
    {
      *size <<= shift;
      return TRUE;
    }
  return FALSE;
}
