/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Runs pool operations that a sequence of numbers chooses, and checks all visible results. Random
 * tests and the fuzz target supply the numbers.
 */
#pragma once

#include "test-pool-sim.h"

G_BEGIN_DECLS

typedef struct _Model Model;

/* Returns the next number, less than @n. */
typedef guint64 (*ModelChoose) (gpointer data,
                                guint64  n);

Model   *model_new   (gboolean     chunks,
                      gboolean     thread_heaps,
                      ModelChoose  choose,
                      gpointer     data);
/* Releases all blocks, and asserts that all memory was returned. */
void     model_free  (Model       *model);
void     model_step  (Model       *model);
/* Asserts that the counters match the live blocks, and that the pool's map is consistent. */
void     model_check (Model       *model);
GpuPool *model_pool  (Model       *model);
void     model_get_sim_stats (Model    *model,
                              SimStats *stats);

G_END_DECLS
