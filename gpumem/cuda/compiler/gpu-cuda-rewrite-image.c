/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Finds image types and constant samplers in a portable source. The value of a constant sampler
 * determines its number. The set of samplers in use is determined here, so that a launch creates no
 * textures that the kernel cannot use. If a source cannot be parsed, all samplers count as used.
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

/* Returns TRUE if the token at @i begins an #include or is a ## operator: the included file or the
 * pasted tokens may contain names that the source does not contain. */
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

/* Sets @value if the token at @i is the name of a sampler constant. Otherwise, returns FALSE. */
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

/* If "sampler_t name = CLK_... | CLK_... ;" begins at @i, adds the sampler to @samplers and returns
 * the last token of the declaration. Otherwise, returns @i. */
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

/* Returns TRUE if the token at @i may be part of a sampler that read_sampler() does not find: in
 * another file, in a declaration of another form, or in pasted tokens. */
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

  /* The other parts of the program may declare samplers that this source does not contain. */
  return is_part ? ALL_SAMPLERS : samplers;
}
