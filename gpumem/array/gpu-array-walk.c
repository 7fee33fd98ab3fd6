/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The arguments of the kernels that copy between arrays: how to find the units. */
#include "config.h"

#include "gpumem/array/gpu-array-kernel-private.h"

/* The largest unit in bytes of the kernels for all devices, and of those for GPUs. */
#define MAX_UNIT     8
#define MAX_GPU_UNIT 16

/* Units of 1 and 2 bytes are copied in words of this many bytes where possible. */
#define WORD 4

/* The number of work-items of a launch is a multiple of this number, even if fewer units remain. */
#define GROUP 256

/* If less than one in PART of the side of a tile is used, too many work-items have nothing to
 * copy. */
#define PART 4

/* Copies of more memory than the cache of a GPU holds, which has 50 MB on an H200, evict their own
 * units first. A smaller copy would be slower. */
#define STREAMED_SIZE ((gsize) 64 << 20)

static gboolean
add_axis (GpuArrayWalk *walk,
          gsize         count,
          gint64        to_step,
          gint64        from_step)
{
  guint n = (guint) walk->n_axes;

  if (count == 1)
    return TRUE;

  if (n == GPU_ARRAY_WALK_MAX_AXES)
    return FALSE;

  walk->counts[n] = count;
  walk->to_steps[n] = to_step;
  walk->from_steps[n] = from_step;
  walk->n_units *= count;
  walk->n_axes++;

  return TRUE;
}

/* Returns the size in bytes of the items that the kernel copies: the largest power of two up to
 * @max_unit that divides the width of a row and all addresses, offsets and strides. */
static gsize
get_unit (const GpuArrayPlan *plan,
          guint64             addresses,
          gsize               max_unit)
{
  const GpuArrayPlanSide *to = &plan->to;
  const GpuArrayPlanSide *from = &plan->from;
  guint64 bits = max_unit | addresses | plan->extent.width | to->offset | to->row_pitch
                 | to->slice_pitch | from->offset | from->row_pitch | from->slice_pitch;

  for (guint i = 0; i < plan->n_loops; i++)
    bits |= (guint64) plan->to_steps[i] | (guint64) plan->from_steps[i];

  return bits & -bits;
}

static void
set_walk (GpuArrayKernelCopy *copy)
{
  const GpuArrayPlan *plan = &copy->plan;
  const gint64 unit = (gint64) copy->unit;
  GpuArrayWalk *walk = &copy->walk;
  guint n = 0;

  *walk = (GpuArrayWalk) { .n_units = 1 };
  add_axis (walk, plan->extent.width / copy->unit, 1, 1);
  add_axis (walk, plan->extent.height, (gint64) plan->to.row_pitch / unit,
            (gint64) plan->from.row_pitch / unit);
  add_axis (walk, plan->extent.depth, (gint64) plan->to.slice_pitch / unit,
            (gint64) plan->from.slice_pitch / unit);

  while (n < plan->n_loops
         && add_axis (walk, plan->counts[n], plan->to_steps[n] / unit,
                      plan->from_steps[n] / unit))
    n++;

  _gpu_array_plan_drop_loops (&copy->plan, n);
}

gsize
_gpu_array_walk_round (guint64 n_units)
{
  return (gsize) (n_units + GROUP - 1) / GROUP * GROUP;
}

void
_gpu_array_walk_init (GpuArrayKernelCopy *copy,
                      const GpuArrayPlan *plan,
                      guint64             addresses)
{
  copy->plan = *plan;
  copy->unit = get_unit (plan, addresses, MAX_UNIT);
  copy->for_gpu = FALSE;
  copy->is_list = FALSE;
  set_walk (copy);
  copy->n_items = _gpu_array_walk_round (copy->walk.n_units);
}

gboolean
_gpu_array_list_walk_init (GpuArrayKernelCopy    *copy,
                           const GpuArrayRowCopy *rows,
                           guint64                addresses,
                           gboolean               in_parts)
{
  GpuArrayListWalk *list = &copy->list;
  const GpuArrayWalk *walk = &copy->walk;
  guint first;

  _gpu_array_walk_init (copy, &rows->plan,
                        addresses | (guint64) rows->to_step | (guint64) rows->from_step);
  copy->is_list = TRUE;
  first = in_parts && walk->n_axes > 0 ? 1 : 0;
  *list = (GpuArrayListWalk) { .to_step = rows->to_step / (gint64) copy->unit,
                               .from_step = rows->from_step / (gint64) copy->unit,
                               .n_axes = (guint32) walk->n_axes - first, .n_units = 1,
                               .is_put = rows->is_put };

  /* The index of a part in a launch has 32 bits. */
  if (copy->plan.n_regions > 1
      || walk->n_units > (G_MAXUINT32 - GROUP) / GPU_ARRAY_KERNEL_LIST)
    return FALSE;

  if (first > 0)
    {
      list->n_units = (guint32) walk->counts[0];
      list->to_unit_step = walk->to_steps[0];
      list->from_unit_step = walk->from_steps[0];
    }

  list->n_parts = (guint32) walk->n_units / list->n_units;
  memcpy (list->to_steps, walk->to_steps + first, list->n_axes * sizeof *list->to_steps);
  memcpy (list->from_steps, walk->from_steps + first, list->n_axes * sizeof *list->from_steps);

  for (guint i = 0; i < list->n_axes; i++)
    list->counts[i] = (guint32) walk->counts[first + i];

  return TRUE;
}

/* --- kernels for GPUs ------------------------------------------------------- */

typedef struct
{
  guint sides[2];                   /* units of a tile along the axes 0 and 1 */
  guint group;
} Shape;

/* By kind and unit. Must match the source of the kernels. */
static const Shape shapes[][GPU_ARRAY_KERNEL_N_UNITS] =
{
  [GPU_ARRAY_KERNEL_TILES] = { { { 64, 64 }, 256 }, { { 64, 64 }, 256 }, { { 32, 32 }, 128 },
                               { { 16, 16 }, 128 }, { { 16, 16 }, 128 } },
  [GPU_ARRAY_KERNEL_WORDS] = { { { 64, 128 }, 256 }, { { 64, 64 }, 256 } }
};

static const Shape *
get_shape (const GpuArrayKernelCopy *copy,
           GpuArrayKernelKind        kind)
{
  return &shapes[kind][g_bit_nth_lsf (copy->unit, -1)];
}

/* Returns the axis along which neighbouring units are closest to each other in the source. Returns
 * 0 if that is also the axis along which they are closest in the destination, or if a tile would
 * not be faster. */
static guint
find_tile_axis (const GpuArrayKernelCopy *copy)
{
  const GpuArrayWalk *walk = &copy->walk;
  const Shape *shape = get_shape (copy, GPU_ARRAY_KERNEL_TILES);
  guint axis = 0;

  for (guint i = 1; i < walk->n_axes; i++)
    if (walk->from_steps[i] != 0 && ABS (walk->from_steps[i]) < ABS (walk->from_steps[axis]))
      axis = i;

  return walk->counts[0] * PART >= shape->sides[0] && walk->counts[axis] * PART >= shape->sides[1]
         ? axis : 0;
}

/* Makes @axis axis 1. */
static void
swap_axes (GpuArrayWalk *walk,
           guint         axis)
{
  const guint64 count = walk->counts[axis];
  const gint64 to_step = walk->to_steps[axis];
  const gint64 from_step = walk->from_steps[axis];

  walk->counts[axis] = walk->counts[1];
  walk->to_steps[axis] = walk->to_steps[1];
  walk->from_steps[axis] = walk->from_steps[1];
  walk->counts[1] = count;
  walk->to_steps[1] = to_step;
  walk->from_steps[1] = from_step;
}

/* Returns whether the units of a tile can be copied in words of 4 bytes: the units along axis 0 are
 * contiguous in the destination, those along axis 1 in the source, and each row starts and ends at
 * a multiple of 4 bytes. */
static gboolean
fits_words (const GpuArrayKernelCopy *copy,
            guint64                   addresses)
{
  const GpuArrayPlan *plan = &copy->plan;
  const GpuArrayWalk *walk = &copy->walk;
  guint64 steps = walk->counts[0] | walk->counts[1] | (guint64) walk->from_steps[0]
                  | (guint64) walk->to_steps[1];

  for (guint i = 2; i < walk->n_axes; i++)
    steps |= (guint64) walk->to_steps[i] | (guint64) walk->from_steps[i];

  for (guint i = 0; i < plan->n_loops; i++)
    addresses |= (guint64) plan->to_steps[i] | (guint64) plan->from_steps[i];

  return copy->unit < WORD && walk->to_steps[0] == 1 && walk->from_steps[1] == 1
         && (steps * copy->unit | addresses | plan->to.offset | plan->from.offset) % WORD == 0;
}

/* Divides the axes 0 and 1 into tiles. */
static void
set_tiles (GpuArrayKernelCopy *copy)
{
  const Shape *shape = get_shape (copy, copy->kind);
  GpuArrayGpuWalk *walk = &copy->gpu_walk;

  copy->group = shape->group;

  for (guint i = 0; i < 2; i++)
    {
      const guint side = shape->sides[i];

      walk->lengths[i] = walk->counts[i];
      walk->tile_to[i] = walk->to_steps[i];
      walk->tile_from[i] = walk->from_steps[i];
      walk->counts[i] = (walk->counts[i] - 1) / side + 1;
      walk->to_steps[i] *= side;
      walk->from_steps[i] *= side;
    }
}

/* For n < 2^31, n / count is (n * multiplier / 2^32 + n) / 2^shift, without overflow. */
static void
set_divisors (GpuArrayGpuWalk *walk)
{
  for (guint i = 0; i < walk->n_axes; i++)
    {
      const guint64 count = walk->counts[i];
      const guint shift = g_bit_storage (count - 1) * (count > 1);

      walk->shifts[i] = shift;
      walk->multipliers[i] = (guint32) (((((guint64) 1 << shift) - count) << 32) / count + 1);
    }
}

/* Chooses the kind of kernel, and reorders the axes for it. */
static void
choose_kind (GpuArrayKernelCopy *copy,
             guint64             addresses)
{
  const guint axis = find_tile_axis (copy);

  copy->kind = GPU_ARRAY_KERNEL_ROWS;

  if (axis == 0)
    return;

  swap_axes (&copy->walk, axis);
  copy->kind = fits_words (copy, addresses) ? GPU_ARRAY_KERNEL_WORDS : GPU_ARRAY_KERNEL_TILES;
}

/* Returns the number of groups of a launch. */
static gsize
count_groups (const GpuArrayKernelCopy *copy)
{
  const gsize group = GPU_ARRAY_KERNEL_GROUP * GPU_ARRAY_KERNEL_ITEMS;
  gsize n = 1;

  if (copy->kind == GPU_ARRAY_KERNEL_ROWS)
    return (copy->walk.n_units - 1) / group + 1;

  for (guint i = 0; i < copy->gpu_walk.n_axes; i++)
    n *= copy->gpu_walk.counts[i];

  return n;
}

gboolean
_gpu_array_gpu_walk_init (GpuArrayKernelCopy *copy,
                          const GpuArrayPlan *plan,
                          guint64             addresses,
                          gsize               size)
{
  const GpuArrayWalk *all = &copy->walk;
  GpuArrayGpuWalk *walk = &copy->gpu_walk;
  gsize n_groups;

  copy->plan = *plan;
  copy->unit = get_unit (plan, addresses, MAX_GPU_UNIT);
  copy->for_gpu = TRUE;
  copy->is_list = FALSE;
  copy->group = GPU_ARRAY_KERNEL_GROUP;
  set_walk (copy);
  choose_kind (copy, addresses);

  if (all->n_axes == 0
      || (copy->kind == GPU_ARRAY_KERNEL_ROWS && all->n_units > G_MAXINT32))
    return FALSE;

  *walk = (GpuArrayGpuWalk) { .n_units = (guint32) all->n_units, .n_axes = (guint32) all->n_axes,
                              .is_streamed = size > STREAMED_SIZE };

  for (guint i = 0; i < walk->n_axes; i++)
    {
      if (all->counts[i] > G_MAXINT32)
        return FALSE;

      walk->counts[i] = (guint32) all->counts[i];
      walk->to_steps[i] = all->to_steps[i];
      walk->from_steps[i] = all->from_steps[i];
    }

  if (copy->kind != GPU_ARRAY_KERNEL_ROWS)
    set_tiles (copy);

  n_groups = count_groups (copy);
  copy->n_items = n_groups * copy->group;
  set_divisors (walk);

  return n_groups <= G_MAXINT32;
}
