/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A parser for the source of a program, for back ends that translate OpenCL C: it finds the tokens,
 * the functions and their parameters.
 */
#pragma once

#include <string.h>

#include <glib.h>

G_BEGIN_DECLS

/* Definitions of the numeric constants of OpenCL C, valid in C and C++, for the preludes. */
extern const char _gpu_source_constants[];

#define GPU_SOURCE_WORD  'w'
#define GPU_SOURCE_OTHER 'o'

typedef struct
{
  gsize start;
  gsize length;
  char  kind;                   /* the character itself, WORD or OTHER */
} GpuSourceToken;

/* A range of token indices. It excludes last. */
typedef struct
{
  guint first;
  guint last;
} GpuSourceRange;

typedef struct
{
  char           *name;         /* as written, also a macro call such as NAME ( scale ) */
  GpuSourceRange  head;         /* the definition before the body */
  GpuSourceRange  words;        /* the name */
  GpuSourceRange  parameters;
  GpuSourceRange  body;
  gboolean        is_kernel;
  gboolean        visited;      /* for callers that traverse the call graph */
} GpuSourceFunction;

typedef struct
{
  const char *text;
  const char *kernel_word;      /* the keyword that marks kernels */
  GArray     *tokens;           /* of GpuSourceToken */
  GPtrArray  *functions;        /* of GpuSourceFunction, in source order */
  GHashTable *by_name;          /* of the same GpuSourceFunctions */
  gboolean    is_open;          /* a bracket is never closed */
} GpuSource;

/* Appends the tokens of @text to @tokens. Skips comments, and also preprocessor directives unless
 * @directives is TRUE. */
void      _gpu_source_tokenize           (const char         *text,
                                          gboolean            directives,
                                          GArray             *tokens);

/* Borrows @text and @kernel_word: they must outlive @source. */
void      _gpu_source_init               (GpuSource          *source,
                                          const char         *text,
                                          const char         *kernel_word);
void      _gpu_source_clear              (GpuSource          *source);
/* The token after the bracket that closes the bracket at @i. */
guint     _gpu_source_skip               (GpuSource          *source,
                                          guint               i);
/* The comma after the parameter that begins at @i, or @last. */
guint     _gpu_source_find_end           (GpuSource          *source,
                                          guint               i,
                                          guint               last);
/* The name of a parameter: its last word outside brackets. */
guint     _gpu_source_find_name          (GpuSource          *source,
                                          GpuSourceRange      parameter);
/* Whether the address space qualifier at @i begins the declaration of a variable in that address
 * space, not of a pointer. */
gboolean  _gpu_source_is_variable        (GpuSource          *source,
                                          guint               i);
/* The type without the qualifiers of C and those in @qualifiers, which is NULL-terminated. */
char     *_gpu_source_get_type           (GpuSource          *source,
                                          GpuSourceRange      range,
                                          const char *const  *qualifiers);
/* The name of @type in OpenCL C, such as "uint" for "unsigned int". */
char     *_gpu_source_name_type          (const char         *type);
/* The number of components of the vector type at @i, such as "float4"; 0 for any other token. */
guint     _gpu_source_get_n_components   (const GpuSource    *source,
                                          guint               i);
/* Whether a vector literal, such as "(float4) (", begins at @i. */
gboolean  _gpu_source_is_vector_literal  (const GpuSource    *source,
                                          guint               i);
/* The arguments of the reqd_work_group_size attribute as written in the program, or NULL. */
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

/* Also accepts the attributes of CUDA before the name of a kernel. */
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
