/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Views: arrays over the memory of other arrays. */
#include "config.h"

#include "gpumem/array/gpu-array-private.h"
#include "gpumem/format/gpu-dtype-private.h"

static GpuArray *
view_new (GpuArray             *array,
          GpuDType             *dtype,
          const GpuArrayLayout *layout)
{
  GpuArray *view = _gpu_array_new (array->context, array->memory, dtype, layout);

  if (array->overlaps && _gpu_array_layout_get_n_elements (layout) > 0)
    view->overlaps = view->shares_bytes = TRUE;

  return view;
}

/**
 * gpu_array_slice:
 * @array: a #GpuArray
 * @axis: a dimension
 * @start: the index of the first element
 * @stop: the index of the end, which is not included
 * @step: the distance between elements of the view, not 0; negative for the reverse order
 * @error: return location for an error
 *
 * Creates a view of a range along one dimension. As in Python, a negative index counts from the
 * end, and an index outside of the dimension is clamped: %G_MINSSIZE and %G_MAXSSIZE select all
 * elements. Like all functions that create views, this function neither calls a driver nor blocks.
 *
 * Returns: (transfer full): the view, or %NULL with %GPU_ERROR_INVALID_ARGUMENT if @axis is out of
 *   range, or @step is 0
 *
 * Since: 0.1
 */
GpuArray *
gpu_array_slice (GpuArray  *array,
                 guint      axis,
                 gssize     start,
                 gssize     stop,
                 gssize     step,
                 GError   **error)
{
  const char *function = "gpu_array_slice";
  GpuArrayLayout layout;

  g_return_val_if_fail (GPU_IS_ARRAY (array), NULL);

  layout = array->layout;

  return _gpu_array_check (array, function, error)
         && _gpu_array_layout_slice (&layout, axis, start, stop, step, function, error)
         ? view_new (array, array->dtype, &layout) : NULL;
}

/**
 * gpu_array_index:
 * @array: a #GpuArray
 * @axis: a dimension
 * @index: the index along @axis; a negative index counts from the end
 * @error: return location for an error
 *
 * Creates a view of one index along a dimension. The view has one dimension less.
 *
 * Returns: (transfer full): the view, or %NULL with %GPU_ERROR_INVALID_ARGUMENT if @axis or @index
 *   is out of range
 *
 * Since: 0.1
 */
GpuArray *
gpu_array_index (GpuArray  *array,
                 guint      axis,
                 gssize     index,
                 GError   **error)
{
  const char *function = "gpu_array_index";
  GpuArrayLayout layout;

  g_return_val_if_fail (GPU_IS_ARRAY (array), NULL);

  layout = array->layout;

  return _gpu_array_check (array, function, error)
         && _gpu_array_layout_index (&layout, axis, index, function, error)
         ? view_new (array, array->dtype, &layout) : NULL;
}

/**
 * gpu_array_insert_axis:
 * @array: a #GpuArray
 * @axis: the position of the new dimension
 * @error: return location for an error
 *
 * Creates a view with one more dimension, of length 1.
 *
 * Returns: (transfer full): the view, or %NULL with %GPU_ERROR_INVALID_ARGUMENT if @axis is out of
 *   range, or the view would have too many dimensions
 *
 * Since: 0.1
 */
GpuArray *
gpu_array_insert_axis (GpuArray  *array,
                       guint      axis,
                       GError   **error)
{
  const char *function = "gpu_array_insert_axis";
  GpuArrayLayout layout;

  g_return_val_if_fail (GPU_IS_ARRAY (array), NULL);

  layout = array->layout;

  return _gpu_array_check (array, function, error)
         && _gpu_array_layout_insert_axis (&layout, axis, function, error)
         ? view_new (array, array->dtype, &layout) : NULL;
}

static GpuArray *
reshape (GpuArray       *array,
         const gssize   *shape,
         guint           n_dims,
         GpuArrayOrder   order,
         const char     *function,
         GError        **error)
{
  GpuArrayLayout layout = array->layout;

  return _gpu_array_check (array, function, error)
         && _gpu_array_layout_reshape (&layout, shape, n_dims, order, function, error)
         ? view_new (array, array->dtype, &layout) : NULL;
}

/**
 * gpu_array_reshape:
 * @array: a #GpuArray
 * @shape: (array length=n_dims) (nullable): the new shape; one length may be -1, and is then
 *   computed from the other lengths
 * @n_dims: the number of dimensions of the view
 * @order: the order in which elements are read and placed
 * @error: return location for an error
 *
 * Creates a view with the same elements and another shape. The function never copies elements: if
 * the strides do not allow such a view, call gpu_array_copy() first.
 *
 * Returns: (transfer full): the view, or %NULL with %GPU_ERROR_INVALID_ARGUMENT if @shape has
 *   another number of elements, or the view would need a copy
 *
 * Since: 0.1
 */
GpuArray *
gpu_array_reshape (GpuArray       *array,
                   const gssize   *shape,
                   guint           n_dims,
                   GpuArrayOrder   order,
                   GError        **error)
{
  g_return_val_if_fail (GPU_IS_ARRAY (array), NULL);
  g_return_val_if_fail (shape != NULL || n_dims == 0, NULL);

  return reshape (array, shape, n_dims, order, "gpu_array_reshape", error);
}

static GpuArray *
fail_ravel (GpuArray       *array,
            GpuArrayOrder   order,
            GError        **error)
{
  const GpuArrayLayout *layout = &array->layout;
  g_autofree char *shape = _gpu_array_numbers_to_string (layout->shape, layout->n_dims);
  g_autofree char *strides = _gpu_array_numbers_to_string (layout->strides, layout->n_dims);

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "gpu_array_ravel: an array of shape %s and strides %s is not contiguous in %s "
               "order; ravel the result of gpu_array_copy(), or create a view with gaps with "
               "gpu_array_reshape()", shape, strides, order == GPU_ARRAY_ORDER_F ? "F" : "C");

  return NULL;
}

/**
 * gpu_array_ravel:
 * @array: a #GpuArray
 * @order: the order in which elements are read
 * @error: return location for an error
 *
 * Creates a view with all elements in one dimension. The elements of @array must be contiguous in
 * @order, see gpu_array_is_contiguous(): kernels may therefore access the view without its stride.
 * If they are not contiguous, call gpu_array_copy() first. gpu_array_reshape() also creates views
 * with gaps and of reversed elements.
 *
 * In Python, `Array.ravel()` returns a copy of such an array, as NumPy does.
 *
 * Returns: (transfer full): the view, or %NULL with %GPU_ERROR_INVALID_ARGUMENT if @array is not
 *   contiguous
 *
 * Since: 0.1
 */
GpuArray *
gpu_array_ravel (GpuArray       *array,
                 GpuArrayOrder   order,
                 GError        **error)
{
  const gssize all = -1;
  const gssize none = 0;

  g_return_val_if_fail (GPU_IS_ARRAY (array), NULL);

  if (!_gpu_array_check (array, "gpu_array_ravel", error))
    return NULL;
  if (!gpu_array_is_contiguous (array, order))
    return fail_ravel (array, order, error);

  return reshape (array, gpu_array_get_n_elements (array) > 0 ? &all : &none, 1, order,
                  "gpu_array_ravel", error);
}

/**
 * gpu_array_transpose:
 * @array: a #GpuArray
 * @axes: (array length=n_axes) (nullable): for each dimension of the view, the dimension of @array;
 *   %NULL for the reverse order
 * @n_axes: the number of elements in @axes
 * @error: return location for an error
 *
 * Creates a view with the dimensions in another order.
 *
 * Returns: (transfer full): the view, or %NULL with %GPU_ERROR_INVALID_ARGUMENT if @axes is not a
 *   permutation of the dimensions
 *
 * Since: 0.1
 */
GpuArray *
gpu_array_transpose (GpuArray     *array,
                     const guint  *axes,
                     guint         n_axes,
                     GError      **error)
{
  const char *function = "gpu_array_transpose";
  guint reverse[GPU_ARRAY_MAX_DIMS];
  GpuArrayLayout layout;

  g_return_val_if_fail (GPU_IS_ARRAY (array), NULL);
  g_return_val_if_fail (axes != NULL || n_axes == 0, NULL);

  layout = array->layout;

  if (axes == NULL || n_axes == 0)
    {
      n_axes = layout.n_dims;
      axes = reverse;

      for (guint i = 0; i < n_axes; i++)
        reverse[i] = n_axes - 1 - i;
    }

  return _gpu_array_check (array, function, error)
         && _gpu_array_layout_permute (&layout, axes, n_axes, function, error)
         ? view_new (array, array->dtype, &layout) : NULL;
}

/**
 * gpu_array_broadcast:
 * @array: a #GpuArray
 * @shape: (array length=n_dims) (nullable): the new shape
 * @n_dims: the number of dimensions of the view
 * @error: return location for an error
 *
 * Creates a view that repeats the elements along dimensions of length 1 and along new leading
 * dimensions, with strides of 0. If elements of the view share memory, neither the view nor a view
 * of it can be written.
 *
 * Returns: (transfer full): the view, or %NULL with %GPU_ERROR_INVALID_ARGUMENT if @array cannot be
 *   broadcast to @shape
 *
 * Since: 0.1
 */
GpuArray *
gpu_array_broadcast (GpuArray      *array,
                     const gssize  *shape,
                     guint          n_dims,
                     GError       **error)
{
  const char *function = "gpu_array_broadcast";
  GpuArrayLayout layout;

  g_return_val_if_fail (GPU_IS_ARRAY (array), NULL);
  g_return_val_if_fail (shape != NULL || n_dims == 0, NULL);

  layout = array->layout;

  return _gpu_array_check (array, function, error)
         && _gpu_array_layout_broadcast (&layout, shape, n_dims, function, error)
         ? view_new (array, array->dtype, &layout) : NULL;
}

/**
 * gpu_array_split:
 * @array: a #GpuArray
 * @axis: a dimension
 * @length: the length of each part along @axis, at least 1
 * @error: return location for an error
 *
 * Creates views of consecutive parts of the same length. The last part is shorter if @length does
 * not divide the dimension.
 *
 * Returns: (transfer container) (element-type GpuArray): the parts, to which the #GPtrArray holds
 *   references; empty if there are no elements along @axis; %NULL with %GPU_ERROR_INVALID_ARGUMENT
 *   if @axis or @length is out of range
 *
 * Since: 0.1
 */
GPtrArray *
gpu_array_split (GpuArray  *array,
                 guint      axis,
                 gssize     length,
                 GError   **error)
{
  const char *function = "gpu_array_split";
  g_autoptr (GPtrArray) parts = g_ptr_array_new_with_free_func (g_object_unref);
  gssize all;

  g_return_val_if_fail (GPU_IS_ARRAY (array), NULL);

  if (!_gpu_array_check (array, function, error))
    return NULL;

  if (axis >= array->layout.n_dims || length < 1)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "%s: cannot split an array of %u dimensions into parts of length %"
                   G_GSSIZE_FORMAT " along axis %u", function, array->layout.n_dims, length, axis);
      return NULL;
    }

  all = array->layout.shape[axis];

  for (gssize start = 0; start < all; start += MIN (length, all - start))
    {
      GpuArrayLayout layout = array->layout;

      _gpu_array_layout_slice (&layout, axis, start, start + MIN (length, all - start), 1,
                               function, NULL);
      g_ptr_array_add (parts, view_new (array, array->dtype, &layout));
    }

  return g_steal_pointer (&parts);
}

/* Divides the bytes of the last dimension into items of @item_size, and so changes the length of
 * that dimension. */
static gboolean
resize_items (GpuArrayLayout  *layout,
              gsize            item_size,
              const char      *function,
              GError         **error)
{
  guint last = layout->n_dims - 1;
  gsize old_size = layout->item_size;
  gsize size;

  if (item_size == old_size)
    return TRUE;

  if (layout->n_dims == 0
      || (layout->strides[last] != (gssize) old_size && layout->shape[last] != 1)
      || (size = (gsize) layout->shape[last] * old_size) % item_size != 0)
    {
      g_autofree char *shape = _gpu_array_numbers_to_string (layout->shape, layout->n_dims);
      g_autofree char *strides = _gpu_array_numbers_to_string (layout->strides, layout->n_dims);

      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "%s: cannot view elements of %" G_GSIZE_FORMAT " bytes in an array of shape %s "
                   "and strides %s as elements of %" G_GSIZE_FORMAT " bytes", function, old_size,
                   shape, strides, item_size);
      return FALSE;
    }

  layout->shape[last] = (gssize) (size / item_size);
  layout->strides[last] = (gssize) item_size;
  layout->item_size = item_size;

  return TRUE;
}

/**
 * gpu_array_view:
 * @array: a #GpuArray
 * @dtype: the type of the view
 * @error: return location for an error
 *
 * Creates a view that reinterprets the bytes as another type. If the sizes of the types differ, the
 * last dimension must have no gaps. The view has another length along that dimension.
 *
 * Returns: (transfer full): the view, or %NULL with %GPU_ERROR_INVALID_ARGUMENT if the layout does
 *   not allow such a view
 *
 * Since: 0.1
 */
GpuArray *
gpu_array_view (GpuArray  *array,
                GpuDType  *dtype,
                GError   **error)
{
  const char *function = "gpu_array_view";
  GpuArrayLayout layout;

  g_return_val_if_fail (GPU_IS_ARRAY (array), NULL);
  g_return_val_if_fail (dtype != NULL, NULL);

  layout = array->layout;

  if (!_gpu_array_check (array, function, error)
      || !resize_items (&layout, dtype->item_size, function, error))
    return NULL;

  return view_new (array, dtype, &layout);
}

/* The dimensions of the field follow those of the array. */
static gboolean
append_dims (GpuArrayLayout       *layout,
             const GpuDTypeField  *field,
             const char           *function,
             GError              **error)
{
  gssize stride = (gssize) field->type->item_size;

  if (layout->n_dims + field->n_dims > GPU_ARRAY_MAX_DIMS)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "%s: %u dimensions and %u of the field '%s' exceed the maximum of %d", function,
                   layout->n_dims, field->n_dims, field->name, GPU_ARRAY_MAX_DIMS);
      return FALSE;
    }

  for (guint i = field->n_dims; i-- > 0; stride *= field->shape[i])
    {
      layout->shape[layout->n_dims + i] = field->shape[i];
      layout->strides[layout->n_dims + i] = stride;
    }

  layout->n_dims += field->n_dims;
  layout->item_size = field->type->item_size;

  if (_gpu_array_layout_get_n_elements (layout) > 0)
    layout->offset += field->offset;

  return TRUE;
}

/* Returns the end of an error about an unknown field. */
static char *
list_fields (GpuDType *dtype)
{
  GString *names = g_string_new (NULL);

  for (guint i = 0; i < gpu_dtype_get_n_fields (dtype); i++)
    g_string_append_printf (names, "%s'%s'", i > 0 ? ", " : ", only ",
                            gpu_dtype_get_field_name (dtype, i));

  return g_string_free (names, FALSE);
}

/**
 * gpu_array_get_field:
 * @array: a #GpuArray of records
 * @name: the name of a field
 * @error: return location for an error
 *
 * Creates a view of one field of all records. If the field has a shape, the dimensions of the field
 * follow the dimensions of @array.
 *
 * Returns: (transfer full): the view, or %NULL with %GPU_ERROR_INVALID_ARGUMENT if the type of
 *   @array has no such field
 *
 * Since: 0.1
 */
GpuArray *
gpu_array_get_field (GpuArray    *array,
                     const char  *name,
                     GError     **error)
{
  const char *function = "gpu_array_get_field";
  const GpuDTypeField *field;
  GpuArrayLayout layout;
  int index;

  g_return_val_if_fail (GPU_IS_ARRAY (array), NULL);
  g_return_val_if_fail (name != NULL, NULL);

  if (!_gpu_array_check (array, function, error))
    return NULL;

  index = gpu_dtype_find_field (array->dtype, name);

  if (index < 0)
    {
      g_autofree char *names = list_fields (array->dtype);

      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "%s: the type has no field '%s'%s", function, name, names);
      return NULL;
    }

  field = &g_array_index (array->dtype->fields, GpuDTypeField, index);
  layout = array->layout;

  if (!append_dims (&layout, field, function, error))
    return NULL;

  return view_new (array, field->type, &layout);
}
