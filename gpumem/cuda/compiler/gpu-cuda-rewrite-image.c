/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Finds image types and constant samplers in a portable source. A constant sampler has a number
 * that depends on its value. The set of samplers in use is determined here, so that launches create
 * no textures that their kernel cannot use. A source that cannot be parsed is assumed to use all
 * samplers.
 */
#include "config.h"

#include "gpumem/cuda/compiler/gpu-cuda-compiler.h"
#include "gpumem/dialect/gpu-source-private.h"

#define ALL_SAMPLERS ((1u << GPU_CUDA_N_CONSTANT_SAMPLERS) - 1)
#define WORD(name, value) { #name, value },

static GpuSource
source_new (const char *text)
{
  GpuSource source = { .text = text, .tokens = g_array_new (FALSE, FALSE,
                                                            sizeof (GpuSourceToken)) };

  _gpu_source_tokenize (text, TRUE, source.tokens);

  return source;
}

/* Whether names may be hidden in an included file or in pasted tokens. */
static gboolean
is_hidden (GpuSource *source,
           guint      i)
{
  return source_get_kind (source, i) == '#'
         && (source_is (source, i + 1, "include") || source_get_kind (source, i + 1) == '#');
}

gboolean
_gpu_cuda_source_has_images (const char *text)
{
  static const char *const words[] =
  {
    "image1d_t", "image1d_array_t", "image1d_buffer_t", "image2d_t", "image2d_array_t",
    "image3d_t", "sampler_t"
  };
  GpuSource source = source_new (text);
  GpuSourceRange all = { 0, source.tokens->len };
  gboolean found = FALSE;

  for (gsize i = 0; i < G_N_ELEMENTS (words) && !found; i++)
    found = source_has (&source, all, words[i]);

  for (guint i = 0; i < source.tokens->len && !found; i++)
    found = is_hidden (&source, i);

  g_array_unref (source.tokens);

  return found;
}

static gboolean
is_prefix (GpuSource  *source,
           guint       i,
           const char *prefix)
{
  const GpuSourceToken *token = source_get (source, i);
  gsize length = strlen (prefix);

  return token->length >= length && memcmp (source->text + token->start, prefix, length) == 0;
}

/* Only accepts the names of sampler constants. */
static gboolean
find_value (GpuSource *source,
            guint      i,
            guint     *value)
{
  static const struct
  {
    const char *name;
    guint       value;
  }
  words[] = { GPU_CUDA_SAMPLER_WORDS (WORD) };

  for (gsize j = 0; j < G_N_ELEMENTS (words); j++)
    {
      if (source_is (source, i, words[j].name))
        {
          *value = words[j].value;
          return TRUE;
        }
    }

  return FALSE;
}

/* Adds the sampler of "sampler_t name = CLK_... | CLK_... ;" at @i to @samplers and returns its
 * last token. Returns @i if there is no such declaration. */
static guint
read_sampler (GpuSource *source,
              guint      i,
              guint     *samplers)
{
  guint bits = 0;
  guint j = i + 3;

  if (!source_is (source, i, "sampler_t") || source_get_kind (source, i + 1) != GPU_SOURCE_WORD
      || source_get_kind (source, i + 2) != '=')
    return i;

  for (; j < source->tokens->len && source_get_kind (source, j) != ';'; j++)
    {
      guint value = 0;

      if (strchr ("|()", source_get_kind (source, j)) == NULL && !find_value (source, j, &value))
        {
          *samplers = ALL_SAMPLERS;
          return j;
        }

      bits |= value;
    }

  *samplers |= 1u << GPU_CUDA_SAMPLER_NUMBER (bits);

  return j;
}

/* Whether there may be a sampler that read_sampler() cannot see: in another file, under another
 * name, or in pasted tokens. */
static gboolean
may_hide_sampler (GpuSource *source,
                  guint      i)
{
  return is_prefix (source, i, "CLK_ADDRESS_") || is_prefix (source, i, "CLK_FILTER_")
         || is_prefix (source, i, "CLK_NORMALIZED_COORDS_") || is_hidden (source, i);
}

guint
_gpu_cuda_source_find_samplers (const char *text,
                                gboolean    is_part)
{
  GpuSource source = source_new (text);
  guint samplers = 0;
  guint i = 0;

  while (i < source.tokens->len)
    {
      guint next = read_sampler (&source, i, &samplers);

      if (next == i && may_hide_sampler (&source, i))
        samplers = ALL_SAMPLERS;

      i = next + 1;
    }

  g_array_unref (source.tokens);

  /* Other parts of a program may declare further samplers. */
  return is_part ? ALL_SAMPLERS : samplers;
}
