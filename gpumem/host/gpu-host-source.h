/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A program behind the preprocessor, as far as the host back end has to understand it: its tokens
 * and its functions.
 */
#pragma once

#include <string.h>

#include "gpumem/host/gpu-host.h"

G_BEGIN_DECLS

#define GPU_HOST_WORD  'w'
#define GPU_HOST_OTHER 'o'

typedef struct
{
  gsize start;
  gsize length;
  char  kind;                   /* the character itself, or WORD or OTHER */
} GpuHostToken;

/* Tokens by number, from the first up to the last, which is no part of it. */
typedef struct
{
  guint first;
  guint last;
} GpuHostRange;

typedef struct
{
  char         *name;
  GpuHostRange  head;           /* of the definition up to the body */
  GpuHostRange  parameters;
  GpuHostRange  body;
  gboolean      is_kernel;
  gboolean      visited;
} GpuHostFunction;

typedef struct
{
  const char *text;
  GArray     *tokens;           /* of GpuHostToken */
  GPtrArray  *functions;        /* of GpuHostFunction, in order */
  GHashTable *by_name;          /* the same */
  gboolean    is_open;          /* a bracket is never closed */
} GpuHostSource;

void            _gpu_host_source_init        (GpuHostSource         *source,
                                              const char            *text);
void            _gpu_host_source_clear       (GpuHostSource         *source);
/* The token behind the bracket that closes the one at @i. */
guint           _gpu_host_source_skip        (GpuHostSource         *source,
                                              guint                  i);
/* Whether @function or anything it calls waits at a barrier. */
gboolean        _gpu_host_source_has_barrier (GpuHostSource         *source,
                                              GpuHostFunction       *function);
/* The text that describes all kernels, to stand behind the program. */
char           *_gpu_host_source_describe    (GpuHostSource         *source,
                                              GError               **error);

static inline const GpuHostToken *
source_get (const GpuHostSource *source,
            guint                i)
{
  return &g_array_index (source->tokens, GpuHostToken, i);
}

static inline char
source_get_kind (const GpuHostSource *source,
                 guint                i)
{
  return i < source->tokens->len ? source_get (source, i)->kind : '\0';
}

static inline char *
source_get_text (const GpuHostSource *source,
                 guint                i)
{
  const GpuHostToken *token = source_get (source, i);

  return g_strndup (source->text + token->start, token->length);
}

static inline gboolean
source_is (const GpuHostSource *source,
           guint                i,
           const char          *word)
{
  const GpuHostToken *token;

  if (i >= source->tokens->len)
    return FALSE;

  token = source_get (source, i);

  return token->length == strlen (word)
         && memcmp (source->text + token->start, word, token->length) == 0;
}

static inline gboolean
source_is_attribute (const GpuHostSource *source,
                     guint                i)
{
  return (source_is (source, i, "__attribute__") || source_is (source, i, "__attribute"))
         && source_get_kind (source, i + 1) == '(';
}

static inline gboolean
source_has (const GpuHostSource *source,
            GpuHostRange         range,
            const char          *word)
{
  for (guint i = range.first; i < range.last; i++)
    {
      if (source_is (source, i, word))
        return TRUE;
    }

  return FALSE;
}

G_END_DECLS
