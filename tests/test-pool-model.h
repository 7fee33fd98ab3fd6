/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A program that does with a pool whatever it is told by numbers, and checks all that can be seen
 * from the outside. Random tests and the fuzz target feed it.
 */
#pragma once

#include "test-pool-sim.h"

G_BEGIN_DECLS

typedef struct _Model Model;

/* Numbers to decide by: below @n. */
typedef guint64 (*ModelChoose) (gpointer data,
                                guint64  n);

Model   *model_new   (gboolean     chunks,
                      ModelChoose  choose,
                      gpointer     data);
/* Everything is given back, and has come back. */
void     model_free  (Model       *model);
void     model_step  (Model       *model);
/* The sums are those of what is alive, and the map of the pool is whole. */
void     model_check (Model       *model);
GpuPool *model_pool  (Model       *model);

G_END_DECLS
