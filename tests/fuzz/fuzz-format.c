/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Conversion of image formats from and to names. */
#include "config.h"

#include "tests/fuzz/fuzz.h"

static void
run (const guint8 *data,
     gsize         size)
{
  g_autofree char *text = size > 0 ? g_strndup ((const char *) data, size) : g_strdup ("");
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuImageFormat) format = gpu_image_format_new_from_string (text, &error);
  g_autoptr (GpuImageFormat) again = NULL;
  g_autofree char *name = NULL;

  FUZZ_REQUIRE ((format == NULL) == (error != NULL));
  if (format == NULL)
    return;

  name = gpu_image_format_to_string (format);
  again = gpu_image_format_new_from_string (name, NULL);
  FUZZ_REQUIRE (again != NULL && gpu_image_format_equal (again, format));
}

static void
add_seeds (GPtrArray *seeds)
{
  static const char *const texts[] =
  {
    "rgba-unorm8", "r-float", "rg-snorm16", "bgra-unorm8", "a-uint32", "rgb-unorm565",
    "srgba-unorm8", "depth-float", "luminance-half-float"
  };

  for (guint i = 0; i < G_N_ELEMENTS (texts); i++)
    fuzz_add_text (seeds, texts[i]);
}

const FuzzTarget fuzz_format = { "format", run, add_seeds, FALSE };
