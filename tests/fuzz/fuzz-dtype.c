/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Element types: conversion from and to NumPy's type strings and PEP 3118 formats. */
#include "config.h"

#include "tests/fuzz/fuzz.h"

static void
check_fields (GpuDType *type)
{
  for (guint i = 0; i < gpu_dtype_get_n_fields (type); i++)
    {
      const char *name = gpu_dtype_get_field_name (type, i);
      GpuDType *field = gpu_dtype_get_field_type (type, i);
      guint n_dims = 0;
      const gssize *shape = gpu_dtype_get_field_shape (type, i, &n_dims);
      gsize size = gpu_dtype_get_item_size (field);
      gsize end;

      for (guint k = 0; k < n_dims; k++)
        FUZZ_REQUIRE (g_size_checked_mul (&size, size, (gsize) shape[k]));
      FUZZ_REQUIRE (g_size_checked_add (&end, gpu_dtype_get_field_offset (type, i), size));
      FUZZ_REQUIRE (end <= gpu_dtype_get_item_size (type));
      FUZZ_REQUIRE (name != NULL && gpu_dtype_find_field (type, name) == (int) i);
    }
}

/* Checks that the library can parse the text that it writes for a type. */
static void
check_texts (GpuDType *type)
{
  g_autofree char *text = gpu_dtype_to_string (type);
  g_autofree char *name = gpu_dtype_get_name (type);
  g_autofree char *format = gpu_dtype_to_format (type);
  gsize size = gpu_dtype_get_item_size (type);

  FUZZ_REQUIRE (text != NULL && name != NULL);
  FUZZ_REQUIRE (size > 0 && size <= G_MAXSSIZE);

  if (format != NULL)
    {
      g_autoptr (GpuDType) again = gpu_dtype_new_from_format (format, NULL);

      FUZZ_REQUIRE (again != NULL && gpu_dtype_equal (again, type));
      FUZZ_REQUIRE (gpu_dtype_hash (again) == gpu_dtype_hash (type));
    }
  {
    g_autoptr (GpuDType) again = gpu_dtype_new_from_string (text, NULL);

    FUZZ_REQUIRE (again != NULL && gpu_dtype_get_item_size (again) == size);
  }
}

static void
run (const guint8 *data,
     gsize         size)
{
  g_autofree char *text = g_strndup ((const char *) data, size);

  for (guint i = 0; i < 2 && text != NULL; i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GpuDType) type = i == 0 ? gpu_dtype_new_from_string (text, &error)
                                         : gpu_dtype_new_from_format (text, &error);

      FUZZ_REQUIRE ((type == NULL) == (error != NULL));
      if (type == NULL)
        continue;
      check_fields (type);
      check_texts (type);
    }
}

static void
add_seeds (GPtrArray *seeds)
{
  static const char *const texts[] =
  {
    "<f4", "|b1", "|V12", "bfloat16", "complex64", "void96", "uint16",
    "f", "<q", "Zd", "12x", "(2,3)f", "(2)5x", "=T{B:id:3xd:weight:8x(2,3)h:grid:8x}",
    "T{b:a:l:b:h:c:}", "T{T{f:x:f:y:}:p:3B:rgb:}", "T{i:a:T{T{?}}:b:}"
  };

  for (guint i = 0; i < G_N_ELEMENTS (texts); i++)
    fuzz_add_text (seeds, texts[i]);
}

const FuzzTarget fuzz_dtype = { "dtype", run, add_seeds, FALSE };
