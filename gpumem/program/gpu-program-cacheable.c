/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Checks whether the result of a build depends on source and options alone. A build that may read a
 * file or the clock must not be cached. The text is not preprocessed, so some programs are built
 * again without need: a directive in a comment or a string counts, too.
 */
#include "config.h"

#include <string.h>

#include "gpumem/program/gpu-program-cache-private.h"

#define SPACES " \t\v\f"

static gboolean
has_match (const char *pattern,
           const char *text)
{
  g_autoptr (GRegex) regex = g_regex_new (pattern, G_REGEX_RAW | G_REGEX_OPTIMIZE, 0, NULL);
  g_autoptr (GError) error = NULL;

  return g_regex_match_full (regex, text, -1, 0, 0, NULL, &error) || error != NULL;
}

/* The length of a line splice at @text, or 0. Compilers allow blanks after the backslash. */
static gsize
get_splice_length (const char *text)
{
  gsize length = 1 + strspn (text + 1, SPACES);

  if (text[0] != '\\')
    return 0;
  if (text[length] == '\r' && text[length + 1] == '\n')
    return length + 2;

  return text[length] == '\r' || text[length] == '\n' ? length + 1 : 0;
}

/* @text without line splices, with the trigraph of '#' replaced and lines ended by '\n'. */
static char *
join_lines (const char *text)
{
  GString *joined = g_string_sized_new (strlen (text));

  while (*text != '\0')
    {
      gsize splice = get_splice_length (text);

      if (splice > 0)
        {
          text += splice;
        }
      else if (g_str_has_prefix (text, "\?\?="))
        {
          g_string_append_c (joined, '#');
          text += 3;
        }
      else
        {
          g_string_append_c (joined, *text == '\r' ? '\n' : *text);
          text++;
        }
    }

  return g_string_free (joined, FALSE);
}

/* Past blanks and comments, which may span lines in a directive. */
static const char *
skip_blanks (const char *text)
{
  while (TRUE)
    {
      const char *end;

      text += strspn (text, SPACES);
      if (!g_str_has_prefix (text, "/*"))
        return text;

      end = strstr (text + 2, "*/");
      text = end != NULL ? end + 2 : text + strlen (text);
    }
}

static gboolean
names_files (const char *directive)
{
  g_autofree char *line = NULL;

  if (g_str_has_prefix (directive, "include") || g_str_has_prefix (directive, "import") ||
      g_str_has_prefix (directive, "embed"))
    return TRUE;
  if (!g_str_has_prefix (directive, "pragma"))
    return FALSE;

  line = g_strndup (directive, strcspn (directive, "\n"));

  return has_match ("include|import|dependency", line);
}

static gboolean
has_file_directive (const char *text)
{
  for (; (text = strpbrk (text, "#%")) != NULL; text++)
    {
      if (*text == '%' && text[1] != ':')
        continue;
      if (names_files (skip_blanks (text + (*text == '%' ? 2 : 1))))
        return TRUE;
    }

  return FALSE;
}

/* Any assembly counts: an assembler reads files with .incbin and .include, and macros can spell
 * these directives in pieces. */
static gboolean
has_volatile_word (const char *text,
                   gboolean    any_assembly)
{
  static const char files_or_time[] = "__has_(?:include|embed)|__DATE__|__TIME";

  return has_match (files_or_time, text) ||
         (!any_assembly && has_match ("\\b(?:asm|__asm|__asm__)\\b", text));
}

static gboolean
is_source_cacheable (const char *source,
                     gboolean    any_assembly)
{
  g_autofree char *text = join_lines (source);
  g_autoptr (GRegex) paste = g_regex_new ("\\s*(?:##|%:%:)\\s*", G_REGEX_RAW, 0, NULL);
  g_autofree char *pasted = g_regex_replace_literal (paste, text, -1, 0, "", 0, NULL);

  /* The trigraph of the backslash is a line splice only with some options. */
  if (pasted == NULL || strstr (source, "\?\?/") != NULL)
    return FALSE;

  /* Also as written: for some compilers a backslash before blanks is no line splice. */
  return !has_file_directive (text) && !has_volatile_word (source, any_assembly) &&
         !has_volatile_word (text, any_assembly) && !has_volatile_word (pasted, any_assembly);
}

/* Options that name files or directories, or pass options to another tool, are not cacheable. */
static gboolean
are_options_cacheable (const char *options,
                       gboolean    any_assembly)
{
  static const char file[] =
    "(?:^|[\\s,])(?:@|-[IiBLT]|-X(?!ptxas)|-l(?!ineinfo)|-W[alp],|--?(?:include|imacros|"
    "pre-include|embed-dir|sysroot|specs|config|library|fplugin|fprofile|fmodule|"
    "opt(?:ions-)?f|(?:use-|create-)?pch))";
  g_autoptr (GRegex) quotes = g_regex_new ("[\"'\\\\]", G_REGEX_RAW, 0, NULL);
  g_autofree char *text = g_regex_replace_literal (quotes, options, -1, 0, "", 0, NULL);

  return text != NULL && !has_match (file, text) && !has_match (file, options) &&
         !has_volatile_word (text, any_assembly);
}

gboolean
_gpu_program_is_cacheable (const char *source,
                           const char *options,
                           gboolean    any_assembly)
{
  return is_source_cacheable (source, any_assembly) &&
         are_options_cacheable (options, any_assembly);
}
