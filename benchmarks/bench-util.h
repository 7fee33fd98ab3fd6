/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Measures the overhead of the library over raw driver calls. Rounds of the same operations
 * alternate between the library and raw calls.
 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef void (*BenchFunc) (gpointer bench);

typedef struct
{
  const char *name;
  guint       n;                /* operations per round */
  BenchFunc   ours;
  BenchFunc   raw;
} BenchOperation;

/* Prints for each operation two medians of the CPU time of the calling thread, in nanoseconds: with
 * the library and with raw calls. Also prints their difference and their ratio. @settle is called
 * before each round and must wait for all pending operations. */
void   bench_overhead (const BenchOperation *operations,
                       gsize                 n_operations,
                       BenchFunc             settle,
                       gpointer              bench);

/* Returns the median of @n values. Sorts @values. */
double bench_median   (double               *values,
                       guint                 n);

G_END_DECLS
