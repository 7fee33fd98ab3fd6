/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The library's PTX kernels, implemented in C and found by name. */
#include "config.h"

#include <string.h>

#include "driver.h"
#include "kernel.h"

#define TABLE_SIZE 3072

/* Fills memory with the repeated units of a table. The parameters are those of the kernel in
 * gpumem/cuda/memory/gpu-cuda-fill.c. */
static void
fill (void (*function) (void),
      void **arguments)
{
  guint64 destination = *(guint64 *) arguments[0];
  guint64 n_units = *(guint64 *) arguments[1];
  guint unit_size = *(guint *) arguments[2];
  guint n_table = *(guint *) arguments[3];
  const guint8 *table = arguments[4];

  /* The first thread does the work of the whole grid. */
  (void) function;
  for (guint64 i = 0; i < n_units; i++)
    memcpy (GSIZE_TO_POINTER (destination + i * unit_size), table + i % n_table * unit_size,
            unit_size);
}

static const gsize fill_sizes[] = { 8, 8, 4, 4, TABLE_SIZE };
static const gsize fill_alignments[] = { 8, 8, 4, 4, 16 };

static const KernelEntry builtins[] = {
  { NULL, fill, "gpu_fill", fill_sizes, fill_alignments, 5, 0 },
};

gconstpointer
builtin_find (const char *name)
{
  for (gsize i = 0; i < G_N_ELEMENTS (builtins); i++)
    if (g_str_equal (builtins[i].name, name))
      return &builtins[i];
  return NULL;
}
