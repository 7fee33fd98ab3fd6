/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The overhead of the library over raw driver calls: the same operations in turns, by the library
 * and by raw calls.
 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef void (*BenchFunc) (gpointer bench);

typedef struct
{
  const char *name;
  guint       n;                /* operations operations per round */
  BenchFunc   ours;
  BenchFunc   raw;
} BenchOperation;

/* Prints the median of each in nanoseconds of the calling thread, their difference and their
 * ratio. @settle is called before each round and must wait for all work of both. */
void   bench_overhead (const BenchOperation *operations,
                       gsize                 n_operations,
                       BenchFunc             settle,
                       gpointer              bench);

/* The median of @n values, which it sorts. */
double bench_median   (double               *values,
                       guint                 n);

G_END_DECLS
