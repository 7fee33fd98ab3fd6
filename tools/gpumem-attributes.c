/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <string.h>

#include "tools/gpumem-attributes.h"
#include "tools/gpumem-format.h"

/* Attributes have the names that the driver uses, so the names differ between back ends. An
 * attribute belongs to the first group that contains a word of its name, or else to the last
 * group. */
static const struct
{
  const char *title;
  const char *words;
} groups[] = {
  { "Images", " image image1d image2d image3d samplers sampler surface surface1d surface2d "
              "surface3d texture texture1d texture2d texture3d texturecubemap gl " },
  { "Memory shared with the host", " svm unified managed pageable coherent integrated " },
  { "Floating point", " fp soft rounding " },
  { "Programs", " compiler linker il ils spir printf kernel kernels c language "
                "program capability " },
  { "Queues and events", " queue queues pipe event events profiling timer stream streams enqueue "
                         "priority async overlap " },
  { "Partitions", " partition partitionable reference parent " },
  { "Computing", " compute computing units work group groups block grid warp wavefront simd vector "
                 "clock sub subs thread threads multiprocessor registers collective eus slices "
                 "atomic atomics execution " },
  { "Memory", " memory mem cache cacheline alloc allocation addr address align alignment local "
              "global constant shared correction parameter args size variable " },
  { "Device and driver", "" }
};

/* The indices of the groups in the order of printing. */
static const guint order[] = { 8, 7, 1, 6, 2, 3, 4, 0, 5 };

G_STATIC_ASSERT (G_N_ELEMENTS (order) == G_N_ELEMENTS (groups));

static gboolean
has_word (const char *words,
          const char *word)
{
  g_autofree char *spaced = g_strdup_printf (" %s ", word);

  return strstr (words, spaced) != NULL;
}

guint
gpumem_attribute_n_groups (void)
{
  return G_N_ELEMENTS (groups);
}

const char *
gpumem_attribute_group (guint group)
{
  return groups[order[group]].title;
}

/* Returns: the group of the attribute @nick, as a position in `order` */
guint
gpumem_attribute_classify (const char *nick)
{
  g_auto (GStrv) words = g_strsplit (nick, "-", -1);
  guint found = G_N_ELEMENTS (groups) - 1;

  for (guint i = 0; i < found; i++)
    for (guint j = 0; words[j] != NULL; j++)
      if (has_word (groups[i].words, words[j]))
        found = i;
  for (guint i = 0; i < G_N_ELEMENTS (order); i++)
    if (order[i] == found)
      return i;
  g_return_val_if_reached (0);
}

/* Returns whether the name of the attribute indicates a number of bytes, not of work-items, pixels
 * or bits. */
static gboolean
is_size (const char *nick)
{
  static const char *const others[] = { "work", "group", "image", "align", "line", "vector" };

  for (guint i = 0; i < G_N_ELEMENTS (others); i++)
    if (strstr (nick, others[i]) != NULL)
      return FALSE;
  return g_str_has_suffix (nick, "-size") || g_str_has_suffix (nick, "-memory") ||
         g_str_has_suffix (nick, "-allocation") || g_str_has_suffix (nick, "-pitch") ||
         strstr (nick, "mem-") != NULL || strstr (nick, "cache-") != NULL;
}

/* Formats the value. Adds a size with a unit to a number of at least 1024 bytes. */
char *
gpumem_attribute_format (const char *nick,
                         GVariant   *value)
{
  g_autofree char *text = gpumem_format_variant (value);
  guint64 number = 0;

  if (g_variant_is_of_type (value, G_VARIANT_TYPE_UINT64))
    number = g_variant_get_uint64 (value);
  else if (g_variant_is_of_type (value, G_VARIANT_TYPE_UINT32))
    number = g_variant_get_uint32 (value);
  if (number >= 1024 && is_size (nick))
    {
      g_autofree char *size = gpumem_format_size (number);

      return g_strdup_printf ("%s (%s)", text, size);
    }
  return g_steal_pointer (&text);
}
