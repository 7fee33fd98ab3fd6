/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Copies between two array layouts of the same shape. Divides a copy into regions, each of which
 * has rows and slices. */
#pragma once

#include "gpumem/format/gpu-array-layout-private.h"

G_BEGIN_DECLS

/* The source or the destination of a copy. If a region has a single row, the row pitch is 0. If a
 * region has a single slice, the slice pitch is 0. */
typedef struct
{
  gsize offset;                     /* of the first region, in bytes */
  gsize row_pitch;
  gsize slice_pitch;
} GpuArrayPlanSide;

typedef struct
{
  GpuExtent         extent;         /* of each region, with the width in bytes; empty if there is
                                     * nothing to copy */
  GpuArrayPlanSide  to;
  GpuArrayPlanSide  from;
  guint             n_loops;        /* number of nested loops over the regions. In the arrays
                                     * below, the innermost loop is first */
  gsize             counts[GPU_ARRAY_MAX_DIMS];
  gssize            to_steps[GPU_ARRAY_MAX_DIMS];   /* bytes */
  gssize            from_steps[GPU_ARRAY_MAX_DIMS]; /* bytes */
  gsize             n_regions;
} GpuArrayPlan;

/* Called for each region, with the offsets of the region in the destination and in the source.
 * FALSE stops the iteration. */
typedef gboolean (*GpuArrayPlanFunc) (const GpuArrayPlan  *plan,
                                      gsize                to,
                                      gsize                from,
                                      gpointer             data,
                                      GError             **error);

/* Plans a copy. @to and @from must have the same shape and item size. */
void     _gpu_array_plan_init     (GpuArrayPlan          *plan,
                                   const GpuArrayLayout  *to,
                                   const GpuArrayLayout  *from);
gboolean _gpu_array_plan_run      (const GpuArrayPlan    *plan,
                                   GpuArrayPlanFunc       func,
                                   gpointer               data,
                                   GError               **error);
/* Removes the @n innermost loops. The caller must execute them itself, once for each remaining
 * region. */
void     _gpu_array_plan_drop_loops (GpuArrayPlan        *plan,
                                   guint                  n);
/* Executes the copy between two ranges of host memory. */
void     _gpu_array_plan_copy     (const GpuArrayPlan    *plan,
                                   gpointer               to,
                                   gconstpointer          from);

G_END_DECLS
