/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <string.h>

#include "gpumem/format/gpu-array-plan-private.h"

typedef struct
{
  gsize  count;
  gssize to;                        /* bytes from one element to the next */
  gssize from;
} Axis;

/* Lists the dimensions that have more than one element, except dimensions with the stride 0 in both
 * layouts. Sorts them by their step in the destination, the shortest first. Reverses a dimension if
 * its step in the destination is negative, or if that step is 0 and the step in the source is
 * negative. */
static guint
list_axes (GpuArrayPlan         *plan,
           const GpuArrayLayout *to,
           const GpuArrayLayout *from,
           Axis                 *axes)
{
  guint n = 0;

  for (guint i = to->n_dims; i-- > 0; )
    {
      Axis axis = { (gsize) to->shape[i], to->strides[i], from->strides[i] };
      guint at = n;

      if (axis.count == 1 || (axis.to == 0 && axis.from == 0))
        continue;

      if (axis.to < 0 || (axis.to == 0 && axis.from < 0))
        {
          plan->to.offset += (gsize) axis.to * (axis.count - 1);
          plan->from.offset += (gsize) axis.from * (axis.count - 1);
          axis.to = -axis.to;
          axis.from = -axis.from;
        }

      for (; at > 0 && axes[at - 1].to > axis.to; at--)
        axes[at] = axes[at - 1];

      axes[at] = axis;
      n++;
    }

  return n;
}

/* Returns whether @step equals the length in bytes of the last axis. */
static gboolean
extends_axis (gssize step,
              gssize last_step,
              gsize  last_count)
{
  gssize end;

  return !__builtin_mul_overflow (last_step, (gssize) last_count, &end) && step == end;
}

/* Joins each axis with the previous axis if, in the source and in the destination, it continues
 * where the previous axis ends. */
static guint
join_axes (Axis  *axes,
           guint  n)
{
  guint joined = 0;

  for (guint i = 0; i < n; i++)
    {
      Axis *last = joined > 0 ? &axes[joined - 1] : NULL;

      if (last != NULL && extends_axis (axes[i].to, last->to, last->count)
          && extends_axis (axes[i].from, last->from, last->count))
        last->count *= axes[i].count;
      else
        axes[joined++] = axes[i];
    }

  return joined;
}

/* Returns whether the steps of @axis can be pitches. Both steps must be positive. The step in the
 * destination must be at least @to, and the step in the source at least @from, which are the sizes
 * of a row or of a slice. */
static gboolean
holds (const Axis *axis,
       gsize       to,
       gsize       from)
{
  return axis->to > 0 && (gsize) axis->to >= to && axis->from > 0 && (gsize) axis->from >= from;
}

static void
add_loop (GpuArrayPlan *plan,
          const Axis   *axis)
{
  plan->counts[plan->n_loops] = axis->count;
  plan->to_steps[plan->n_loops] = axis->to;
  plan->from_steps[plan->n_loops] = axis->from;
  plan->n_loops++;
  plan->n_regions *= axis->count;
}

static void
add_axis (GpuArrayPlan *plan,
          const Axis   *axis)
{
  GpuExtent *extent = &plan->extent;

  if (extent->height == 1 && extent->depth == 1 && axis->to == (gssize) extent->width
      && axis->from == (gssize) extent->width)
    {
      extent->width *= axis->count;
    }
  else if (extent->height == 1 && holds (axis, extent->width, extent->width))
    {
      extent->height = axis->count;
      plan->to.row_pitch = (gsize) axis->to;
      plan->from.row_pitch = (gsize) axis->from;
    }
  else if (extent->height > 1 && extent->depth == 1
           && holds (axis, plan->to.row_pitch * extent->height,
                     plan->from.row_pitch * extent->height))
    {
      extent->depth = axis->count;
      plan->to.slice_pitch = (gsize) axis->to;
      plan->from.slice_pitch = (gsize) axis->from;
    }
  else
    add_loop (plan, axis);
}

void
_gpu_array_plan_init (GpuArrayPlan         *plan,
                      const GpuArrayLayout *to,
                      const GpuArrayLayout *from)
{
  Axis axes[GPU_ARRAY_MAX_DIMS];
  guint n;

  memset (plan, 0, sizeof *plan);

  if (_gpu_array_layout_get_n_elements (to) == 0)
    return;

  plan->to.offset = to->offset;
  plan->from.offset = from->offset;
  plan->extent = (GpuExtent) { to->item_size, 1, 1 };
  plan->n_regions = 1;

  n = list_axes (plan, to, from, axes);
  n = join_axes (axes, n);

  for (guint i = 0; i < n; i++)
    add_axis (plan, &axes[i]);
}

gboolean
_gpu_array_plan_run (const GpuArrayPlan  *plan,
                     GpuArrayPlanFunc     func,
                     gpointer             data,
                     GError             **error)
{
  gsize indices[GPU_ARRAY_MAX_DIMS] = { 0 };
  gsize to = plan->to.offset;
  gsize from = plan->from.offset;

  for (gsize region = 0; region < plan->n_regions; region++)
    {
      if (!func (plan, to, from, data, error))
        return FALSE;

      for (guint i = 0; i < plan->n_loops; i++)
        {
          to += (gsize) plan->to_steps[i];
          from += (gsize) plan->from_steps[i];

          if (++indices[i] < plan->counts[i])
            break;

          to -= (gsize) plan->to_steps[i] * plan->counts[i];
          from -= (gsize) plan->from_steps[i] * plan->counts[i];
          indices[i] = 0;
        }
    }

  return TRUE;
}

void
_gpu_array_plan_drop_loops (GpuArrayPlan *plan,
                            guint         n)
{
  for (guint i = 0; i < n; i++)
    plan->n_regions /= plan->counts[i];

  plan->n_loops -= n;
  memmove (plan->counts, plan->counts + n, plan->n_loops * sizeof *plan->counts);
  memmove (plan->to_steps, plan->to_steps + n, plan->n_loops * sizeof *plan->to_steps);
  memmove (plan->from_steps, plan->from_steps + n, plan->n_loops * sizeof *plan->from_steps);
}

typedef struct
{
  guint8       *to;
  const guint8 *from;
} HostCopy;

/* If @width is a constant, such as the size of a numeric type, the compiler inlines memcpy().
 * Pitches may be negative. */
#define COPY_ROWS(width) \
  for (gsize row = 0; row < n; row++, to += to_pitch, from += from_pitch) \
    memcpy (to, from, width)

static void
copy_rows (guint8       *to,
           gssize        to_pitch,
           const guint8 *from,
           gssize        from_pitch,
           gsize         width,
           gsize         n)
{
  switch (width)
    {
    case 1:
      COPY_ROWS (1);
      break;
    case 2:
      COPY_ROWS (2);
      break;
    case 4:
      COPY_ROWS (4);
      break;
    case 8:
      COPY_ROWS (8);
      break;
    case 16:
      COPY_ROWS (16);
      break;
    default:
      COPY_ROWS (width);
    }
}

static gboolean
copy_region (const GpuArrayPlan  *plan,
             gsize                to,
             gsize                from,
             gpointer             data,
             GError             **error G_GNUC_UNUSED)
{
  const HostCopy *copy = data;

  for (gsize slice = 0; slice < plan->extent.depth; slice++)
    copy_rows (copy->to + to + slice * plan->to.slice_pitch, (gssize) plan->to.row_pitch,
               copy->from + from + slice * plan->from.slice_pitch, (gssize) plan->from.row_pitch,
               plan->extent.width, plan->extent.height);

  return TRUE;
}

/* If each region is a single row, one call of copy_rows() copies all rows of the innermost
 * dimension, because copy_rows() accepts any pitch. Drivers do not. */
void
_gpu_array_plan_copy (const GpuArrayPlan *plan,
                      gpointer            to,
                      gconstpointer       from)
{
  GpuArrayPlan rows = *plan;
  HostCopy copy = { to, from };

  if (plan->extent.height == 1 && plan->n_loops > 0)
    {
      rows.extent.height = plan->counts[0];
      rows.to.row_pitch = (gsize) plan->to_steps[0];
      rows.from.row_pitch = (gsize) plan->from_steps[0];
      _gpu_array_plan_drop_loops (&rows, 1);
    }

  _gpu_array_plan_run (&rows, copy_region, &copy, NULL);
}
