/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Copies between arrays that take a kernel instead of many regions. */
#pragma once

#include "gpumem/array/gpu-array-private.h"
#include "gpumem/device/gpu-context-private.h"
#include "gpumem/format/gpu-array-plan-private.h"
#include "gpumem/program/gpu-kernel-private.h"

G_BEGIN_DECLS

#define GPU_ARRAY_WALK_MAX_AXES 8

/* The argument of the kernels: see the source. Steps and offsets are in units. */
typedef struct
{
  guint64 n_units;
  guint64 counts[GPU_ARRAY_WALK_MAX_AXES];
  gint64  to_steps[GPU_ARRAY_WALK_MAX_AXES];
  gint64  from_steps[GPU_ARRAY_WALK_MAX_AXES];
  gint64  to;
  gint64  from;
  guint64 n_axes;
} GpuArrayWalk;

typedef struct
{
  GpuArrayWalk   walk;
  GpuArrayPlan   plan;              /* the remaining loops */
  gsize          unit;              /* bytes that a work-item copies */
  GpuKernelCore *core;              /* not owned: the context owns it */
} GpuArrayKernelCopy;

/* FALSE if copies of regions are faster, or there is no kernel. */
gboolean         _gpu_array_kernel_prepare (GpuArrayKernelCopy        *copy,
                                            GpuTimeline               *timeline,
                                            GpuArray                  *to,
                                            GpuArray                  *from,
                                            const GpuArrayPlan        *plan);
/* @copy was prepared with the same arguments. */
gboolean         _gpu_array_kernel_run     (const GpuArrayKernelCopy  *copy,
                                            GpuTimeline               *timeline,
                                            GpuArray                  *to,
                                            GpuArray                  *from,
                                            const char                *function,
                                            GError                   **error);

G_END_DECLS
