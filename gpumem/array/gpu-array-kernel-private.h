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

/* `gpumem_rows_*`: the number of work-items in a group, and of units that each of them copies. */
#define GPU_ARRAY_KERNEL_GROUP 256
#define GPU_ARRAY_KERNEL_ITEMS 4

/* The kernels for GPUs copy units of 1, 2, 4, 8 and 16 bytes. */
#define GPU_ARRAY_KERNEL_N_UNITS 5

/* The argument that the copy kernels take by value. Must match `Walk` in their source. Steps and
 * offsets are multiples of the unit, which has 1, 2, 4 or 8 bytes. */
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

/* The same for the kernels for GPUs. Their units may also have 16 bytes. */
typedef struct
{
  gint64  to_steps[GPU_ARRAY_WALK_MAX_AXES];
  gint64  from_steps[GPU_ARRAY_WALK_MAX_AXES];
  gint64  to;
  gint64  from;
  guint32 counts[GPU_ARRAY_WALK_MAX_AXES];
  guint32 multipliers[GPU_ARRAY_WALK_MAX_AXES]; /* to divide by a count */
  guint32 shifts[GPU_ARRAY_WALK_MAX_AXES];
  guint32 n_axes;
  guint32 n_units;
  guint32 lengths[2];               /* tiles: units along the axes 0 and 1. The counts and steps of
                                     * these two axes are those of tiles */
  gint64  tile_to[2];               /* tiles: steps from one unit to the next */
  gint64  tile_from[2];
  guint64 is_streamed;              /* rows: evict the units from the cache first */
} GpuArrayGpuWalk;

extern const char _gpu_array_kernel_source[];
extern const char _gpu_array_gpu_kernel_source[];

/* The kinds of kernels for GPUs. */
typedef enum
{
  GPU_ARRAY_KERNEL_ROWS,
  GPU_ARRAY_KERNEL_TILES,
  GPU_ARRAY_KERNEL_WORDS
} GpuArrayKernelKind;

typedef struct
{
  GpuArrayWalk     walk;
  GpuArrayGpuWalk  gpu_walk;
  GpuArrayPlan     plan;            /* one launch for each iteration of its loops */
  gsize            unit;            /* bytes */
  gsize            n_items;         /* work-items of a launch */
  gsize            group;           /* work-items of a group, for GPUs */
  gboolean         for_gpu;         /* launch a kernel for GPUs, with `gpu_walk` */
  GpuArrayKernelKind kind;          /* of the kernel for GPUs */
  GpuKernelCore   *core;            /* not owned: the context owns it */
} GpuArrayKernelCopy;

/* Prepares the copy for one of the kernels for all devices. @addresses contains each bit that is
 * set in an address of the memory. */
void             _gpu_array_walk_init     (GpuArrayKernelCopy        *copy,
                                           const GpuArrayPlan        *plan,
                                           guint64                    addresses);
/* Prepares the copy for one of the kernels for GPUs. @size is the size of the memory from the first
 * to the last element of both arrays. Returns FALSE if the copy has too many units. */
gboolean         _gpu_array_gpu_walk_init (GpuArrayKernelCopy        *copy,
                                           const GpuArrayPlan        *plan,
                                           guint64                    addresses,
                                           gsize                      size);
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
