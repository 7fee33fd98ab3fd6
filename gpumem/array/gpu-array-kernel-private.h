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

/* The number of rows that a launch of `gpumem_list_*` copies: all arguments have the 1,024 bytes
 * that every OpenCL device accepts. */
#define GPU_ARRAY_KERNEL_LIST 196

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

/* The argument of the kernels that copy rows by a list of their numbers. Must match `List` in their
 * source. The axes are those of a row. */
typedef struct
{
  gint64  to_steps[GPU_ARRAY_WALK_MAX_AXES];
  gint64  from_steps[GPU_ARRAY_WALK_MAX_AXES];
  gint64  to;
  gint64  from;
  gint64  to_step;                  /* from one row to the next */
  gint64  from_step;
  gint64  to_unit_step;             /* from one unit of a work-item to the next */
  gint64  from_unit_step;
  guint32 counts[GPU_ARRAY_WALK_MAX_AXES];
  guint32 n_axes;
  guint32 n_parts;                  /* of all rows of the launch; a work-item copies a part */
  guint32 n_units;                  /* of a part */
  guint32 is_put;                   /* whether the numbers are of rows of the destination */
  guint32 rows[GPU_ARRAY_KERNEL_LIST]; /* G_MAXUINT32 for a row that is not copied */
} GpuArrayListWalk;

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
  GpuArrayListWalk list;            /* `n_parts` is that of one row */
  GpuArrayPlan     plan;            /* one launch for each iteration of its loops */
  gsize            unit;            /* bytes */
  gsize            n_items;         /* work-items of a launch */
  gsize            group;           /* work-items of a group, for GPUs */
  gboolean         for_gpu;         /* launch a kernel for GPUs, with `gpu_walk` */
  gboolean         is_list;         /* launch a kernel for a list of rows, with `list` */
  GpuArrayKernelKind kind;          /* of the kernel for GPUs */
  GpuKernelCore   *core;            /* not owned: the context owns it */
} GpuArrayKernelCopy;

/* Returns the number of work-items of a launch of a kernel for all devices. */
gsize            _gpu_array_walk_round    (guint64                    n_units);
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
/* Copies of rows of arrays, like GpuBufferRowCopy, but with any strides within a row. */
typedef struct
{
  GpuArray       *to;
  GpuArray       *from;
  GpuArrayPlan    plan;             /* of the rows 0 */
  gssize          to_step;          /* bytes from one row to the next */
  gssize          from_step;
  const guint32  *rows;             /* G_MAXUINT32 for a row that is not copied */
  gsize           n_rows;
  gboolean        is_put;
} GpuArrayRowCopy;

/* Returns whether a kernel is faster than one command for each region. */
gboolean         _gpu_array_kernel_suits  (GpuTimeline               *timeline,
                                            const GpuArrayPlan        *plan);
/* Returns FALSE if one command for each region is faster, or if no kernel can copy the memory. */
gboolean         _gpu_array_kernel_prepare (GpuArrayKernelCopy        *copy,
                                            GpuTimeline               *timeline,
                                            GpuArray                  *to,
                                            GpuArray                  *from,
                                            const GpuArrayPlan        *plan);
/* The same for rows, with one command or more for each row. */
gboolean         _gpu_array_kernel_prepare_rows (GpuArrayKernelCopy    *copy,
                                            GpuTimeline               *timeline,
                                            const GpuArrayRowCopy     *rows);
/* Prepares the copy for one of the kernels that copy rows by a list. With @in_parts, each work-item
 * copies all units along the dimension with the shortest step, otherwise a single unit. Returns
 * FALSE if a row has too many dimensions or units. */
gboolean         _gpu_array_list_walk_init (GpuArrayKernelCopy        *copy,
                                            const GpuArrayRowCopy     *rows,
                                            guint64                    addresses,
                                            gboolean                   in_parts);
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
gboolean         _gpu_array_kernel_run_rows (const GpuArrayKernelCopy *copy,
                                            GpuTimeline               *timeline,
                                            const GpuArrayRowCopy     *rows,
                                            const char                *function,
                                            GError                   **error);

G_END_DECLS
