/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Copies between arrays by a kernel instead of one command for each region. */
#pragma once

#include "gpumem/array/gpu-array-private.h"
#include "gpumem/device/gpu-context-private.h"
#include "gpumem/format/gpu-array-plan-private.h"
#include "gpumem/program/gpu-kernel-private.h"
#include "gpumem/stream/gpu-submission-private.h"

G_BEGIN_DECLS

#define GPU_ARRAY_WALK_MAX_AXES 8

/* The argument that the copy kernels take by value. Must match `Walk` in their source. Steps and
 * offsets are multiples of GpuArrayKernelCopy.unit bytes. */
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
  GpuArrayPlan   plan;              /* one launch for each iteration of its loops */
  gsize          unit;              /* bytes that a work-item copies */
  GpuKernelCore *core;              /* not owned: the context owns it */
} GpuArrayKernelCopy;

/* Returns FALSE if one command for each region is faster, or if no kernel can copy the memory. */
gboolean         _gpu_array_kernel_prepare (GpuArrayKernelCopy        *copy,
                                            GpuTimeline               *timeline,
                                            GpuArray                  *to,
                                            GpuArray                  *from,
                                            const GpuArrayPlan        *plan);
/* Returns the access to the bytes from the first to the last element. */
GpuAccess        _gpu_array_get_access     (GpuArray                  *array,
                                            gboolean                   write);
/* The caller has passed @copy and the same arguments to _gpu_array_kernel_prepare(). */
gboolean         _gpu_array_kernel_run     (const GpuArrayKernelCopy  *copy,
                                            GpuTimeline               *timeline,
                                            GpuArray                  *to,
                                            GpuArray                  *from,
                                            const char                *function,
                                            GError                   **error);

G_END_DECLS
