/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Checks whether the result of a build depends only on source and options. A build that may read a
 * file or the clock must not be cached.
 *
 * The check does not preprocess the text. In case of doubt, it rejects the program: even a
 * directive in a comment or a string prevents caching. A macro with ## can build new words from the
 * identifiers in the text, so a forbidden word counts as present if it can be built from those
 * identifiers.
 */
#include "config.h"

#include <string.h>

#include "gpumem/program/gpu-program-cache-private.h"

#define SPACES " \t\v\f"

/* Pragmas that never read a file. Any other pragma prevents caching. */
#define PRAGMAS \
  "(?:OPENCL|STDC|once|pack|(?:no)?unroll(?:_and_jam)?|ivdep|message|(?:push|pop)_macro|nv_\\w+|" \
  "diag_\\w+|hd_warning_disable|GCC\\s+(?:diagnostic|unroll|ivdep|poison|system_header|" \
  "(?:push|pop)_options)|clang\\s+(?:diagnostic|loop|fp|optimize))\\b"

/* Also returns TRUE if the match fails with an error, for example at the match limit: TRUE prevents
 * caching. */
static gboolean
has_match (const char *pattern,
           const char *text)
{
  g_autoptr (GRegex) regex = g_regex_new (pattern, G_REGEX_RAW | G_REGEX_OPTIMIZE, 0, NULL);
  g_autoptr (GError) error = NULL;

  return g_regex_match_full (regex, text, -1, 0, 0, NULL, &error) || error != NULL;
}

/* Returns the length of the line splice (a backslash and the end of the line) at @text, or 0 if
 * there is none. Compilers allow blanks after the backslash. */
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

/* Removes line splices, replaces the digraph and the trigraph of '#', and ends each line with '\n'.
 * Replaces digraphs last, because compilers recognize digraphs after they have removed splices. */
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

  g_string_replace (joined, "%:", "#", 0);

  return g_string_free (joined, FALSE);
}

/* Skips blanks and comments. A comment within a directive may span lines. */
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

/* Returns whether @directive includes one of @headers by its name in quotes or angle brackets. */
static gboolean
names_header (const char         *directive,
              const char *const  *headers)
{
  const char *name;
  const char *end;

  if (headers == NULL || !g_str_has_prefix (directive, "include"))
    return FALSE;

  name = skip_blanks (directive + strlen ("include"));
  if (*name != '"' && *name != '<')
    return FALSE;

  end = strpbrk (name + 1, *name == '"' ? "\"\n" : ">\n");
  for (; end != NULL && *headers != NULL; headers += 2)
    {
      if (strncmp (*headers, name + 1, end - name - 1) == 0
          && (*headers)[end - name - 1] == '\0' && *end != '\n')
        return TRUE;
    }

  return FALSE;
}

static gboolean
names_files (const char         *directive,
             const char *const  *headers)
{
  static const char *const names[] = { "include", "__include", "import", "embed" };

  if (names_header (directive, headers))
    return FALSE;

  for (gsize i = 0; i < G_N_ELEMENTS (names); i++)
    {
      if (g_str_has_prefix (directive, names[i]))
        return TRUE;
    }

  return g_str_has_prefix (directive, "pragma")
         && !g_regex_match_simple ("^" PRAGMAS, skip_blanks (directive + strlen ("pragma")),
                                   G_REGEX_RAW, 0);
}

static gboolean
has_file_directive (const char         *text,
                    const char *const  *headers)
{
  while ((text = strchr (text, '#')) != NULL)
    {
      if (names_files (skip_blanks (++text), headers))
        return TRUE;
    }

  return FALSE;
}

/* Returns whether @text contains a string, or a '#' operator that may create a string. */
static gboolean
has_string (const char *text)
{
  return strchr (text, '"') != NULL || has_match ("[^\\s#][ \t]*#(?!#)", text);
}

/* Assemblers read files with .incbin and .include, and macros can hide these directives. If
 * @any_assembly is FALSE, this function therefore returns TRUE for any assembly, and for any
 * attribute whose string is passed to the assembler. */
static gboolean
has_volatile_word (const char *text,
                   gboolean    any_assembly)
{
  static const char common[] = "__has_(?:include|embed)|__DATE__|__TIME|__pragma\\b|"
                               "_Pragma(?!\\s*\\(\\s*\"\\s*" PRAGMAS ")";
  static const char assembly[] = "\\b(?:asm|__asm|__asm__)\\b";
  static const char attributes[] = "\\b(?:__)?(?:section|symver|alias|weakref|ifunc)(?:__)?\\b";

  if (has_match (common, text))
    return TRUE;

  return !any_assembly && (has_match (assembly, text)
                           || (has_string (text) && has_match (attributes, text)));
}

/* --- words made by ## ------------------------------------------------------------------------- */

static const char *const common_words[] =
{
  "__has_include", "__has_include_next", "__has_embed", "__DATE__", "__TIME__", "__TIMESTAMP__",
  "__pragma", "_Pragma", NULL
};

static const char *const assembly_words[] =
{
  "asm", "__asm", "__asm__", "section", "__section__", "symver", "__symver__", "alias", "__alias__",
  "weakref", "__weakref__", "ifunc", "__ifunc__", NULL
};

/* Returns the parameters of the macro that @line defines. Returns NULL if @line cannot be parsed:
 * the caller must then assume that every operand may be a parameter. */
static char **
get_parameters (const char *line)
{
  g_autoptr (GRegex) regex = NULL;
  g_autoptr (GMatchInfo) match = NULL;
  g_autofree char *list = NULL;

  regex = g_regex_new ("^\\s*#\\s*define\\s+\\w++(?:\\(([\\w\\s,.]*)\\)|(?!\\())", G_REGEX_RAW, 0,
                       NULL);
  if (!g_regex_match (regex, line, 0, &match))
    return NULL;

  list = g_match_info_fetch (match, 1);

  return g_regex_split_simple ("[\\s,.]+", list, G_REGEX_RAW, 0);
}

/* Returns whether pasting @operands may produce @word. A parameter may stand for any text. */
static gboolean
can_make (const char  *word,
          char       **operands,
          char       **parameters)
{
  for (; *operands != NULL; operands++)
    {
      if (parameters != NULL && **operands != '\0' && strstr (word, *operands) == NULL
          && !g_strv_contains ((const char *const *) parameters, *operands)
          && !g_str_has_prefix (*operands, "__VA_"))
        return FALSE;
    }

  return TRUE;
}

/* Returns whether a chain of ## in @line can produce @word. The list of operands contains an empty
 * string for an operand that is not a plain word. Such an operand may stand for any text. */
static gboolean
can_paste (const char *line,
           const char *word)
{
  g_autoptr (GRegex) regex = g_regex_new ("\\w*(?:\\s*##\\s*\\w*)+", G_REGEX_RAW, 0, NULL);
  g_autoptr (GMatchInfo) match = NULL;
  g_auto (GStrv) parameters = get_parameters (line);

  for (g_regex_match (regex, line, 0, &match); g_match_info_matches (match);
       g_match_info_next (match, NULL))
    {
      g_autofree char *chain = g_match_info_fetch (match, 0);
      g_auto (GStrv) operands = g_regex_split_simple ("\\s*##\\s*", chain, G_REGEX_RAW, 0);

      if (can_make (word, operands, parameters))
        return TRUE;
    }

  return FALSE;
}

/* Returns whether @word is a concatenation of two or more of @tokens. */
static gboolean
can_join (const char *word,
          GHashTable *tokens)
{
  gsize length = strlen (word);
  gboolean reached[32] = { TRUE };

  for (gsize start = 0; start < length; start++)
    {
      for (gsize end = start + 1; reached[start] && end <= length; end++)
        {
          g_autofree char *part = g_strndup (word + start, end - start);

          if (end - start < length && g_hash_table_contains (tokens, part))
            reached[end] = TRUE;
        }
    }

  return reached[length];
}

static GHashTable *
list_tokens (const char *text)
{
  GHashTable *tokens = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);

  while (*text != '\0')
    {
      gsize length = strspn (text, G_CSET_A_2_Z G_CSET_a_2_z G_CSET_DIGITS "_");

      if (length > 0)
        g_hash_table_add (tokens, g_strndup (text, length));
      text += MAX (length, 1);
    }

  return tokens;
}

static gboolean
can_spell (const char        *text,
           const char *const *words)
{
  g_autoptr (GHashTable) tokens = list_tokens (text);
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);

  for (; *words != NULL; words++)
    {
      if (!can_join (*words, tokens))
        continue;

      for (gsize i = 0; lines[i] != NULL; i++)
        {
          if (strstr (lines[i], "##") != NULL && can_paste (lines[i], *words))
            return TRUE;
        }
    }

  return FALSE;
}

/* ---------------------------------------------------------------------------------------------- */

static gboolean
is_text_cacheable (const char         *text,
                   const char *const  *headers,
                   gboolean            any_assembly)
{
  g_autofree char *joined = join_lines (text);

  /* "??/" is the trigraph of the backslash. The compiler options determine whether it starts a line
   * splice, so always reject it. */
  if (strstr (text, "\?\?/") != NULL || has_file_directive (joined, headers))
    return FALSE;

  /* Also check the original text: some compilers do not treat a backslash before blanks as a
   * splice. */
  if (has_volatile_word (text, any_assembly) || has_volatile_word (joined, any_assembly))
    return FALSE;

  if (strstr (joined, "##") == NULL)
    return TRUE;

  return !can_spell (joined, common_words)
         && (any_assembly || !has_string (joined) || !can_spell (joined, assembly_words));
}

gboolean
_gpu_program_is_cacheable (const char         *source,
                           const char         *options,
                           const char *const  *headers,
                           gboolean            any_assembly)
{
  g_autofree char *unquoted = _gpu_program_options_unquote (options);
  g_autofree char *own = g_strconcat (options, "\n\n", unquoted, "\n\n", source, NULL);
  g_autofree char *others = headers != NULL ? g_strjoinv ("\n\n", (char **) headers) : NULL;
  g_autofree char *text = g_strconcat (own, "\n\n", others, NULL);

  return _gpu_program_options_are_cacheable (options)
         && is_text_cacheable (text, headers, any_assembly);
}
