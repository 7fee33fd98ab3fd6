/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The source of a program as far as back ends have to understand it that turn OpenCL C into
 * something else: its tokens, its functions, and the parameters of those.
 */
#pragma once

#include <string.h>

#include <glib.h>

G_BEGIN_DECLS

/* The numbers of OpenCL C by their names, for the preludes: definitions that are C and C++. */
extern const char _gpu_source_constants[];

#define GPU_SOURCE_WORD  'w'
#define GPU_SOURCE_OTHER 'o'

typedef struct
{
  gsize start;
  gsize length;
  char  kind;                   /* the character itself, or WORD or OTHER */
} GpuSourceToken;

/* Tokens by number, from the first up to the last, which is no part of it. */
typedef struct
{
  guint first;
  guint last;
} GpuSourceRange;

typedef struct
{
  char           *name;         /* as it is written: NAME(scale), too, if that is a macro */
  GpuSourceRange  head;         /* of the definition up to the body */
  GpuSourceRange  words;        /* of the name */
  GpuSourceRange  parameters;
  GpuSourceRange  body;
  gboolean        is_kernel;
  gboolean        visited;      /* for those who walk through the calls */
} GpuSourceFunction;

typedef struct
{
  const char *text;
  const char *kernel_word;      /* what makes a function a kernel */
  GArray     *tokens;           /* of GpuSourceToken */
  GPtrArray  *functions;        /* of GpuSourceFunction, in order */
  GHashTable *by_name;          /* the same */
  gboolean    is_open;          /* a bracket is never closed */
} GpuSource;

/* Appends the tokens of @text to @tokens. Comments are none, and without @directives neither are
 * the lines of the preprocessor. */
void      _gpu_source_tokenize           (const char         *text,
                                          gboolean            directives,
                                          GArray             *tokens);

/* @text and @kernel_word stay with the caller. */
void      _gpu_source_init               (GpuSource          *source,
                                          const char         *text,
                                          const char         *kernel_word);
void      _gpu_source_clear              (GpuSource          *source);
/* The token behind the bracket that closes the one at @i. */
guint     _gpu_source_skip               (GpuSource          *source,
                                          guint               i);
/* The comma behind the parameter that begins at @i, or @last. */
guint     _gpu_source_find_end           (GpuSource          *source,
                                          guint               i,
                                          guint               last);
/* The last word of a parameter that is outside of brackets: its name. */
guint     _gpu_source_find_name          (GpuSource          *source,
                                          GpuSourceRange      parameter);
/* Whether the declaration behind the word for an address space at @i is that of a variable there,
 * and not of a pointer. */
gboolean  _gpu_source_is_variable        (GpuSource          *source,
                                          guint               i);
/* The type without the qualifiers of C and @qualifiers, which end with NULL. */
char     *_gpu_source_get_type           (GpuSource          *source,
                                          GpuSourceRange      range,
                                          const char *const  *qualifiers);
/* A type as OpenCL C calls it. */
char     *_gpu_source_name_type          (const char         *type);
/* Of the type of vectors at @i, "float4"; 0 if it is none. */
guint     _gpu_source_get_n_components   (const GpuSource    *source,
                                          guint               i);
/* Whether "(float4) (" begins at @i: a literal, and no cast. */
gboolean  _gpu_source_is_vector_literal  (const GpuSource    *source,
                                          guint               i);
/* What reqd_work_group_size says, as the program has it: three numbers with commas. NULL if there
 * is none. */
char     *_gpu_source_get_required_block (GpuSource          *source,
                                          GpuSourceFunction  *kernel);

static inline const GpuSourceToken *
source_get (const GpuSource *source,
            guint            i)
{
  return &g_array_index (source->tokens, GpuSourceToken, i);
}

static inline char
source_get_kind (const GpuSource *source,
                 guint            i)
{
  return i < source->tokens->len ? source_get (source, i)->kind : '\0';
}

static inline char *
source_get_text (const GpuSource *source,
                 guint            i)
{
  const GpuSourceToken *token = source_get (source, i);

  return g_strndup (source->text + token->start, token->length);
}

static inline gboolean
source_is (const GpuSource *source,
           guint            i,
           const char      *word)
{
  const GpuSourceToken *token;

  if (i >= source->tokens->len)
    return FALSE;

  token = source_get (source, i);

  return token->length == strlen (word)
         && memcmp (source->text + token->start, word, token->length) == 0;
}

/* Also what CUDA writes before the name of a kernel. */
static inline gboolean
source_is_attribute (const GpuSource *source,
                     guint            i)
{
  return (source_is (source, i, "__attribute__") || source_is (source, i, "__attribute")
          || source_is (source, i, "__launch_bounds__") || source_is (source, i, "__maxnreg__")
          || source_is (source, i, "__cluster_dims__") || source_is (source, i, "__block_size__")
          || source_is (source, i, "__align__"))
         && source_get_kind (source, i + 1) == '(';
}

static inline gboolean
source_has (const GpuSource *source,
            GpuSourceRange   range,
            const char      *word)
{
  for (guint i = range.first; i < range.last; i++)
    {
      if (source_is (source, i, word))
        return TRUE;
    }

  return FALSE;
}

G_END_DECLS
