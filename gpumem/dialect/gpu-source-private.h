/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A parser for the source of a program, for back ends that translate OpenCL C. The parser finds the
 * tokens, the functions and their parameters.
 */
#pragma once

#include <string.h>

#include <glib.h>

G_BEGIN_DECLS

/* Definitions of the numeric constants of OpenCL C for the preludes of the back ends. They are
 * valid in C and C++. */
extern const char _gpu_source_constants[];

#define GPU_SOURCE_WORD  'w'
#define GPU_SOURCE_OTHER 'o'

typedef struct
{
  gsize start;
  gsize length;
  char  kind;                   /* WORD, OTHER, or the punctuation character itself */
} GpuSourceToken;

/* The tokens from index `first` to index `last` - 1. */
typedef struct
{
  guint first;
  guint last;
} GpuSourceRange;

typedef struct
{
  char           *name;         /* as in the source; may be a macro call such as NAME ( scale ) */
  GpuSourceRange  head;         /* the tokens of the definition that precede its body */
  GpuSourceRange  words;        /* the tokens of the name */
  GpuSourceRange  parameters;
  GpuSourceRange  body;
  gboolean        is_kernel;
  gboolean        visited;      /* set by callers that traverse the call graph */
} GpuSourceFunction;

typedef struct
{
  const char *text;
  const char *kernel_word;      /* the keyword that marks kernels */
  GArray     *tokens;           /* of GpuSourceToken */
  GPtrArray  *functions;        /* of GpuSourceFunction, in source order */
  GHashTable *by_name;          /* from names to the elements of `functions` */
  gboolean    is_open;          /* whether a bracket has no closing bracket */
} GpuSource;

/* Appends the tokens of @text to @tokens. Skips comments. Skips preprocessor directives if
 * @directives is FALSE. */
void      _gpu_source_tokenize           (const char         *text,
                                          gboolean            directives,
                                          GArray             *tokens);

/* Parses @text. Does not copy @text and @kernel_word, which must outlive @source. */
void      _gpu_source_init               (GpuSource          *source,
                                          const char         *text,
                                          const char         *kernel_word);
void      _gpu_source_clear              (GpuSource          *source);
/* Returns the token after the bracket that closes the bracket at @i. */
guint     _gpu_source_skip               (GpuSource          *source,
                                          guint               i);
/* Returns the comma after the parameter that begins at @i, or @last if no comma follows. */
guint     _gpu_source_find_end           (GpuSource          *source,
                                          guint               i,
                                          guint               last);
/* Returns the name of a parameter, which is its last word outside brackets. */
guint     _gpu_source_find_name          (GpuSource          *source,
                                          GpuSourceRange      parameter);
/* Returns TRUE if the address space qualifier at @i begins the declaration of a variable in that
 * address space. Returns FALSE if it belongs to the target of a pointer. */
gboolean  _gpu_source_is_variable        (GpuSource          *source,
                                          guint               i);
/* Returns the type in @range, without the qualifiers of C and those in the NULL-terminated
 * @qualifiers. */
char     *_gpu_source_get_type           (GpuSource          *source,
                                          GpuSourceRange      range,
                                          const char *const  *qualifiers);
/* Returns the name of @type in OpenCL C, such as "uint" for "unsigned int". */
char     *_gpu_source_name_type          (const char         *type);
/* Returns the number of components if the token at @i is a vector type, such as "float4". Returns 0
 * for any other token. */
guint     _gpu_source_get_n_components   (const GpuSource    *source,
                                          guint               i);
/* Returns whether a vector literal, such as "(float4) (", begins at @i. */
gboolean  _gpu_source_is_vector_literal  (const GpuSource    *source,
                                          guint               i);
/* Returns the arguments of the attribute reqd_work_group_size, as in the source, or NULL if @kernel
 * has no such attribute. */
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

/* Returns whether an attribute begins at @i. This includes the attributes of CUDA that may precede
 * the name of a kernel. */
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
