/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <string.h>

#include "gpumem/format/gpu-array-layout-private.h"

/* Number of differences of indices that _gpu_array_layout_overlaps() tries. */
#define MAX_STEPS 1000

char *
_gpu_array_numbers_to_string (const gssize *numbers,
                              guint         n)
{
  GString *text = g_string_new ("(");

  for (guint i = 0; i < n; i++)
    g_string_append_printf (text, "%s%" G_GSSIZE_FORMAT, i > 0 ? ", " : "", numbers[i]);

  return g_string_free (g_string_append (text, n == 1 ? ",)" : ")"), FALSE);
}

/* Fails with "function: the shape (2, 3) ", followed by @what. */
static gboolean
fail_shape (const char    *function,
            const gssize  *shape,
            guint          n_dims,
            const char    *what,
            GError       **error)
{
  g_autofree char *text = _gpu_array_numbers_to_string (shape, n_dims);

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT, "%s: the shape %s %s", function, text,
               what);

  return FALSE;
}

static gboolean
fail_n_dims (const char  *function,
             guint        n_dims,
             GError     **error)
{
  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s: an array of %u dimensions exceeds the limit of %d", function, n_dims,
               GPU_ARRAY_MAX_DIMS);

  return FALSE;
}

/* As in NumPy, the product of the nonzero lengths must not overflow, even if another length is 0
 * and the array has no elements. */
static gboolean
check_shape (const char    *function,
             const gssize  *shape,
             guint          n_dims,
             gsize          item_size,
             GError       **error)
{
  gsize size = item_size;

  if (n_dims > GPU_ARRAY_MAX_DIMS)
    return fail_n_dims (function, n_dims, error);

  for (guint i = 0; i < n_dims; i++)
    {
      if (shape[i] < 0)
        return fail_shape (function, shape, n_dims, "has a negative length", error);

      if ((shape[i] > 0 && !g_size_checked_mul (&size, size, (gsize) shape[i]))
          || size > G_MAXSSIZE)
        return fail_shape (function, shape, n_dims, "is larger than any memory", error);
    }

  return TRUE;
}

static void
set_dense_strides (GpuArrayLayout *layout,
                   GpuArrayOrder   order)
{
  gssize stride = (gssize) layout->item_size;

  for (guint i = 0; i < layout->n_dims; i++)
    {
      guint axis = order == GPU_ARRAY_ORDER_F ? i : layout->n_dims - 1 - i;

      layout->strides[axis] = stride;
      stride *= MAX (layout->shape[axis], 1);
    }
}

gboolean
_gpu_array_layout_init (GpuArrayLayout  *layout,
                        const gssize    *shape,
                        guint            n_dims,
                        gsize            item_size,
                        GpuArrayOrder    order,
                        const char      *function,
                        GError         **error)
{
  if (!check_shape (function, shape, n_dims, item_size, error))
    return FALSE;

  layout->n_dims = n_dims;
  layout->item_size = item_size;
  layout->offset = 0;

  for (guint i = 0; i < n_dims; i++)
    layout->shape[i] = shape[i];

  set_dense_strides (layout, order);

  return TRUE;
}

gsize
_gpu_array_layout_get_n_elements (const GpuArrayLayout *layout)
{
  gsize n = 1;

  for (guint i = 0; i < layout->n_dims; i++)
    n *= (gsize) layout->shape[i];

  return n;
}

gsize
_gpu_array_layout_get_size (const GpuArrayLayout *layout)
{
  return _gpu_array_layout_get_n_elements (layout) * layout->item_size;
}

gboolean
_gpu_array_layout_get_range (const GpuArrayLayout *layout,
                             gsize                *begin,
                             gsize                *end)
{
  gsize below = 0;
  gsize above = layout->item_size;

  *begin = layout->offset;
  *end = layout->offset;

  if (_gpu_array_layout_get_n_elements (layout) == 0)
    return TRUE;

  for (guint i = 0; i < layout->n_dims; i++)
    {
      gsize length = (gsize) layout->shape[i] - 1;
      gssize stride = layout->strides[i];
      gsize step = stride < 0 ? (gsize) 0 - (gsize) stride : (gsize) stride;
      gsize distance;
      gsize *side = stride < 0 ? &below : &above;

      if (!g_size_checked_mul (&distance, length, step)
          || !g_size_checked_add (side, *side, distance))
        return FALSE;
    }

  *begin = layout->offset - below;

  return below <= layout->offset && g_size_checked_add (end, layout->offset, above)
         && *end <= G_MAXSSIZE;
}

gboolean
_gpu_array_layout_is_contiguous (const GpuArrayLayout *layout,
                                 GpuArrayOrder         order)
{
  gssize stride = (gssize) layout->item_size;

  if (_gpu_array_layout_get_n_elements (layout) == 0)
    return TRUE;

  for (guint i = 0; i < layout->n_dims; i++)
    {
      guint axis = order == GPU_ARRAY_ORDER_F ? i : layout->n_dims - 1 - i;

      if (layout->shape[axis] == 1)
        continue;

      if (layout->strides[axis] != stride)
        return FALSE;

      stride *= layout->shape[axis];
    }

  return TRUE;
}

gboolean
_gpu_array_layout_same_shape (const GpuArrayLayout *a,
                              const GpuArrayLayout *b)
{
  return a->n_dims == b->n_dims
         && memcmp (a->shape, b->shape, a->n_dims * sizeof *a->shape) == 0;
}

/* The product may wrap around, but only for a dimension with fewer than two elements. The stride of
 * such a dimension is never used. */
static gssize
wrapping_product (gssize a,
                  gssize b)
{
  return (gssize) ((gsize) a * (gsize) b);
}

static gsize
absolute (gssize number)
{
  return number < 0 ? (gsize) 0 - (gsize) number : (gsize) number;
}

/* Sets @axes to the dimensions longer than 1, from the shortest stride to the longest. If strides
 * are equal, the last dimension comes first. */
static guint
sort_axes (const GpuArrayLayout *layout,
           guint                *axes)
{
  guint n = 0;

  for (guint axis = layout->n_dims; axis-- > 0; )
    {
      guint at = n;

      if (layout->shape[axis] == 1)
        continue;

      while (at > 0 && absolute (layout->strides[axes[at - 1]]) > absolute (layout->strides[axis]))
        {
          axes[at] = axes[at - 1];
          at--;
        }

      axes[at] = axis;
      n++;
    }

  return n;
}

gboolean
_gpu_array_layout_may_overlap (const GpuArrayLayout *layout)
{
  guint axes[GPU_ARRAY_MAX_DIMS];
  guint n = sort_axes (layout, axes);
  gsize extent = layout->item_size;

  if (_gpu_array_layout_get_n_elements (layout) == 0)
    return FALSE;

  for (guint i = 0; i < n; i++)
    {
      gsize stride = absolute (layout->strides[axes[i]]);

      if (stride < extent)
        return TRUE;

      extent += stride * ((gsize) layout->shape[axes[i]] - 1);
    }

  return FALSE;
}

/* Looks for two elements that share bytes. Their distance along the axes from @n on is @distance.
 * @differs: their indices differ along one of these axes. */
static gboolean
find_overlap (const GpuArrayLayout *layout,
              const guint          *axes,
              guint                 n,
              gssize                distance,
              gboolean              differs,
              guint                *n_steps)
{
  gssize reach = (gssize) layout->item_size - 1;
  gssize stride;
  gssize last;

  if (n == 0)
    return differs && ABS (distance) <= reach;

  for (guint i = 0; i + 1 < n; i++)
    reach += (gssize) absolute (layout->strides[axes[i]]) * (layout->shape[axes[i]] - 1);

  stride = (gssize) absolute (layout->strides[axes[n - 1]]);
  last = layout->shape[axes[n - 1]] - 1;

  /* The other axes can only make up for a distance of @reach. Either element can be the first one,
   * so the first index that differs is larger. */
  for (gssize step = differs ? MAX (-last, -((reach + distance) / stride)) : 0;
       step <= MIN (last, (reach - distance) / stride) && *n_steps < MAX_STEPS; step++)
    {
      ++*n_steps;

      if (find_overlap (layout, axes, n - 1, distance + step * stride, differs || step != 0,
                        n_steps))
        return TRUE;
    }

  return FALSE;
}

gboolean
_gpu_array_layout_overlaps (const GpuArrayLayout *layout)
{
  guint axes[GPU_ARRAY_MAX_DIMS];
  guint n = sort_axes (layout, axes);
  guint n_steps = 0;

  if (!_gpu_array_layout_may_overlap (layout))
    return FALSE;

  for (guint i = 0; i < n; i++)
    {
      if (absolute (layout->strides[axes[i]]) < layout->item_size)
        return TRUE;
    }

  return find_overlap (layout, axes, n, 0, FALSE, &n_steps);
}

void
_gpu_array_layout_pack (const GpuArrayLayout *layout,
                        GpuArrayLayout       *packed)
{
  guint axes[GPU_ARRAY_MAX_DIMS];
  guint n = sort_axes (layout, axes);
  gssize stride = (gssize) layout->item_size;

  *packed = *layout;
  packed->offset = 0;

  for (guint i = 0; i < layout->n_dims; i++)
    packed->strides[i] = 0;

  for (guint i = 0; i < n; i++)
    {
      guint axis = axes[i];

      if (layout->strides[axis] == 0)
        continue;

      packed->strides[axis] = layout->strides[axis] < 0 ? -stride : stride;

      if (layout->strides[axis] < 0)
        packed->offset += (gsize) stride * (gsize) MAX (layout->shape[axis] - 1, 0);

      stride *= MAX (layout->shape[axis], 1);
    }
}

/* --- views ------------------------------------------------------------------ */

static gboolean
check_axis (const GpuArrayLayout  *layout,
            guint                  axis,
            const char            *function,
            GError               **error)
{
  if (axis < layout->n_dims)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s: there is no axis %u in an array of %u dimensions", function, axis,
               layout->n_dims);

  return FALSE;
}

/* Resolves an index as in Python: a negative index counts from the end. Clamps the result to @least
 * and @most. */
static gssize
clamp_index (gssize index,
             gssize length,
             gssize least,
             gssize most)
{
  if (index < 0)
    index = index < -length ? least : index + length;

  return CLAMP (index, least, most);
}

/* Moves the offset of the array to an index. An array without elements keeps its offset, because
 * the product of index and stride could overflow. */
static void
move_offset (GpuArrayLayout *layout,
             guint           axis,
             gssize          index)
{
  if (_gpu_array_layout_get_n_elements (layout) > 0)
    layout->offset += (gsize) index * (gsize) layout->strides[axis];
}

gboolean
_gpu_array_layout_slice (GpuArrayLayout  *layout,
                         guint            axis,
                         gssize           start,
                         gssize           stop,
                         gssize           step,
                         const char      *function,
                         GError         **error)
{
  gssize length;
  gsize distance = 0;
  gsize by = absolute (step);

  if (!check_axis (layout, axis, function, error))
    return FALSE;

  if (step == 0)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "%s: a step of 0 along axis %u is invalid", function, axis);
      return FALSE;
    }

  length = layout->shape[axis];

  if (step > 0)
    {
      start = clamp_index (start, length, 0, length);
      stop = clamp_index (stop, length, 0, length);
      distance = stop > start ? (gsize) (stop - start) : 0;
    }
  else
    {
      start = clamp_index (start, length, -1, length - 1);
      stop = clamp_index (stop, length, -1, length - 1);
      distance = start > stop ? (gsize) (start - stop) : 0;
    }

  layout->shape[axis] = distance == 0 ? 0 : (gssize) ((distance - 1) / by + 1);

  move_offset (layout, axis, start);

  /* The stride of a single element is never used, and its product with a large step could
   * overflow. */
  if (layout->shape[axis] > 1)
    layout->strides[axis] = wrapping_product (layout->strides[axis], step);

  return TRUE;
}

gboolean
_gpu_array_layout_index (GpuArrayLayout  *layout,
                         guint            axis,
                         gssize           index,
                         const char      *function,
                         GError         **error)
{
  gssize length;

  if (!check_axis (layout, axis, function, error))
    return FALSE;

  length = layout->shape[axis];

  if (index < -length || index >= length)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "%s: there is no index %" G_GSSIZE_FORMAT " along axis %u, which has %"
                   G_GSSIZE_FORMAT, function, index, axis, length);
      return FALSE;
    }

  move_offset (layout, axis, index < 0 ? index + length : index);

  layout->n_dims--;

  for (guint i = axis; i < layout->n_dims; i++)
    {
      layout->shape[i] = layout->shape[i + 1];
      layout->strides[i] = layout->strides[i + 1];
    }

  return TRUE;
}

gboolean
_gpu_array_layout_insert_axis (GpuArrayLayout  *layout,
                               guint            axis,
                               const char      *function,
                               GError         **error)
{
  if (axis > layout->n_dims || layout->n_dims == GPU_ARRAY_MAX_DIMS)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "%s: an array of %u dimensions cannot get axis %u: the limit is %d", function,
                   layout->n_dims, axis, GPU_ARRAY_MAX_DIMS);
      return FALSE;
    }

  for (guint i = layout->n_dims; i > axis; i--)
    {
      layout->shape[i] = layout->shape[i - 1];
      layout->strides[i] = layout->strides[i - 1];
    }

  layout->n_dims++;
  layout->shape[axis] = 1;
  layout->strides[axis] = 0;

  return TRUE;
}

gboolean
_gpu_array_layout_permute (GpuArrayLayout  *layout,
                           const guint     *axes,
                           guint            n_axes,
                           const char      *function,
                           GError         **error)
{
  const GpuArrayLayout old = *layout;
  guint32 seen = 0;

  if (n_axes != layout->n_dims)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "%s: %u axes are not a permutation of %u dimensions", function, n_axes,
                   layout->n_dims);
      return FALSE;
    }

  for (guint i = 0; i < n_axes; i++)
    {
      if (!check_axis (layout, axes[i], function, error))
        return FALSE;

      if ((seen & (guint32) 1 << axes[i]) != 0)
        {
          g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                       "%s: axis %u is named twice", function, axes[i]);
          return FALSE;
        }

      seen |= (guint32) 1 << axes[i];
    }

  for (guint i = 0; i < n_axes; i++)
    {
      layout->shape[i] = old.shape[axes[i]];
      layout->strides[i] = old.strides[axes[i]];
    }

  return TRUE;
}

gboolean
_gpu_array_layout_broadcast (GpuArrayLayout  *layout,
                             const gssize    *shape,
                             guint            n_dims,
                             const char      *function,
                             GError         **error)
{
  const GpuArrayLayout old = *layout;
  gboolean fits = n_dims >= old.n_dims;

  if (!check_shape (function, shape, n_dims, layout->item_size, error))
    return FALSE;

  for (guint i = 0; i < n_dims && fits; i++)
    {
      guint missing = n_dims - old.n_dims;
      gssize length = i < missing ? 1 : old.shape[i - missing];

      fits = length == shape[i] || length == 1;
      layout->shape[i] = shape[i];
      layout->strides[i] = length == 1 && shape[i] != 1 ? 0
                           : i < missing ? 0 : old.strides[i - missing];
    }

  if (fits)
    {
      layout->n_dims = n_dims;
      return TRUE;
    }

  *layout = old;

  {
    g_autofree char *to = _gpu_array_numbers_to_string (shape, n_dims);

    g_autofree char *what = g_strdup_printf ("cannot be broadcast to %s", to);

    return fail_shape (function, old.shape, old.n_dims, what, error);
  }
}

/* Replaces a length of -1 in @shape, so that the number of elements is @n_elements. Returns FALSE
 * with @error if this is not possible. */
static gboolean
complete_shape (gsize         n_elements,
                gsize         item_size,
                gssize       *shape,
                guint         n_dims,
                const char   *function,
                GError      **error)
{
  gssize unknown = -1;
  gsize known = 1;

  for (guint i = 0; i < n_dims; i++)
    {
      if (shape[i] == -1 && unknown < 0)
        unknown = i;
      else if (shape[i] < 0)
        return fail_shape (function, shape, n_dims, "has a negative length", error);
      else if (!g_size_checked_mul (&known, known, (gsize) shape[i]))
        return fail_shape (function, shape, n_dims, "is larger than any memory", error);
    }

  if (unknown >= 0 && known > 0 && n_elements % known == 0)
    {
      shape[unknown] = (gssize) (n_elements / known);
      known = n_elements;
    }
  else if (unknown >= 0)
    known = n_elements + 1;

  if (known != n_elements)
    {
      g_autofree char *what = g_strdup_printf ("does not have %" G_GSIZE_FORMAT " elements",
                                               n_elements);

      return fail_shape (function, shape, n_dims, what, error);
    }

  return check_shape (function, shape, n_dims, item_size, error);
}

/* Returns whether @stride equals the length in bytes of the next faster-varying dimension, so that
 * the two dimensions can be joined. */
static gboolean
follows (gssize stride,
         gssize inner_stride,
         gssize inner_length)
{
  gssize end;

  return !__builtin_mul_overflow (inner_stride, inner_length, &end) && stride == end;
}

/* Sets @new_strides to the strides of a reshaped array: splits and joins dimensions, from the
 * fastest-varying dimension to the slowest. Both @old and @new are in that order, and @old has no
 * dimension of length 1. Returns FALSE if adjacent elements of the new shape would not be at a
 * constant distance. */
static gboolean
fit_strides (const gssize *old,
             const gssize *old_strides,
             guint         n_old,
             const gssize *new,
             gssize       *new_strides,
             guint         n_new)
{
  guint o = 0;
  guint n = 0;

  while (o < n_old && n < n_new)
    {
      gssize old_length = old[o];
      gssize new_length = new[n];
      guint first_new = n;
      gssize stride = old_strides[o];

      while (old_length != new_length)
        {
          if (new_length < old_length)
            new_length *= new[++n];
          else if (!follows (old_strides[o + 1], old_strides[o], old[o]))
            return FALSE;
          else
            old_length *= old[++o];
        }

      for (guint i = first_new; i <= n; i++)
        {
          new_strides[i] = stride;
          stride = wrapping_product (stride, new[i]);
        }

      n++;
      o++;
    }

  for (; n < n_new; n++)
    new_strides[n] = wrapping_product (new_strides[n - 1], new[n - 1]);

  return TRUE;
}

static void
reverse (gssize *numbers,
         guint   n)
{
  for (guint i = 0; i < n / 2; i++)
    {
      gssize number = numbers[i];

      numbers[i] = numbers[n - 1 - i];
      numbers[n - 1 - i] = number;
    }
}

/* Finds the strides of the new shape. For C order, reverses both shapes, because the last index
 * varies fastest. */
static gboolean
find_strides (const GpuArrayLayout *layout,
              GpuArrayLayout       *new,
              GpuArrayOrder         order)
{
  gssize shape[GPU_ARRAY_MAX_DIMS];
  gssize strides[GPU_ARRAY_MAX_DIMS];
  guint n = 0;
  gboolean fits;

  for (guint i = 0; i < layout->n_dims; i++)
    {
      guint axis = order == GPU_ARRAY_ORDER_F ? i : layout->n_dims - 1 - i;

      if (layout->shape[axis] == 1)
        continue;

      shape[n] = layout->shape[axis];
      strides[n++] = layout->strides[axis];
    }

  if (order == GPU_ARRAY_ORDER_C)
    reverse (new->shape, new->n_dims);

  fits = fit_strides (shape, strides, n, new->shape, new->strides, new->n_dims);

  if (order == GPU_ARRAY_ORDER_C)
    {
      reverse (new->shape, new->n_dims);
      reverse (new->strides, new->n_dims);
    }

  return fits;
}

gboolean
_gpu_array_layout_reshape (GpuArrayLayout  *layout,
                           const gssize    *shape,
                           guint            n_dims,
                           GpuArrayOrder    order,
                           const char      *function,
                           GError         **error)
{
  GpuArrayLayout new = { .n_dims = n_dims, .item_size = layout->item_size,
                         .offset = layout->offset };
  gsize n_elements = _gpu_array_layout_get_n_elements (layout);

  if (n_dims > GPU_ARRAY_MAX_DIMS)
    return fail_n_dims (function, n_dims, error);

  for (guint i = 0; i < n_dims; i++)
    new.shape[i] = shape[i];

  if (!complete_shape (n_elements, layout->item_size, new.shape, n_dims, function, error))
    return FALSE;

  if (n_elements <= 1)
    set_dense_strides (&new, order);
  else if (!find_strides (layout, &new, order))
    {
      g_autofree char *old = _gpu_array_numbers_to_string (layout->shape, layout->n_dims);
      g_autofree char *strides = _gpu_array_numbers_to_string (layout->strides, layout->n_dims);
      g_autofree char *what = g_strdup_printf ("is not possible for an array of shape %s and "
                                               "strides %s without a copy", old, strides);

      return fail_shape (function, new.shape, n_dims, what, error);
    }

  *layout = new;

  return TRUE;
}
