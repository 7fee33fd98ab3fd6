/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Tuples of numbers, and the sizes and layouts of regions that stand for them. */
#include "gpumem-fast-function.h"

#define MAX_NUMBERS 5

static GpuFastClass extent_class = { "Gpu", "Extent", gpu_extent_get_type, NULL };
static GpuFastClass layout_class = { "Gpu", "Layout", gpu_layout_get_type, NULL };

/* Gets a number, or the numbers of a tuple or a list. Returns their number, or 0 for values that
 * the overrides handle. */
static guint
get_numbers (PyObject *value,
             gsize    *numbers,
             guint     most)
{
  gsize *items = numbers;
  gsize n_items;

  if (gpu_fast_get_size (value, numbers))
    return 1;

  if ((!PyTuple_CheckExact (value) && !PyList_CheckExact (value))
      || PySequence_Fast_GET_SIZE (value) > most
      || !gpu_fast_to_gsize_array (value, FALSE, &items, &n_items))
    return 0;

  return n_items;
}

gboolean
gpu_fast_to_extent (PyObject  *value,
                    GpuExtent *extent)
{
  gsize numbers[] = { 1, 1, 1 };
  gpointer boxed;

  if (gpu_fast_to_boxed (value, GPU_TYPE_EXTENT, FALSE, &boxed))
    {
      *extent = *(const GpuExtent *) boxed;
      return TRUE;
    }

  if (get_numbers (value, numbers, G_N_ELEMENTS (numbers)) == 0)
    return FALSE;

  *extent = (GpuExtent) { numbers[0], numbers[1], numbers[2] };

  return TRUE;
}

gboolean
gpu_fast_to_layout (PyObject         *value,
                    guint             most,
                    GpuLayout        *storage,
                    const GpuLayout **layout)
{
  gsize numbers[MAX_NUMBERS] = { 0 };
  gpointer boxed;

  *layout = NULL;

  if (gpu_fast_is_none (value))
    return TRUE;

  if (gpu_fast_to_boxed (value, GPU_TYPE_LAYOUT, FALSE, &boxed))
    *storage = *(const GpuLayout *) boxed;
  else if (get_numbers (value, numbers, most) > 0)
    *storage = (GpuLayout) { numbers[0], numbers[1], numbers[2], numbers[3], numbers[4] };
  else
    return FALSE;

  *layout = storage;

  return TRUE;
}

PyObject *
gpu_fast_pack_extent (PyObject         *module G_GNUC_UNUSED,
                      PyObject *const  *args,
                      Py_ssize_t        n_args)
{
  GpuExtent extent;

  if (n_args != 1 || !gpu_fast_to_extent (args[0], &extent))
    Py_RETURN_NONE;

  return gpu_fast_from_boxed (&extent_class, &extent, FALSE);
}

PyObject *
gpu_fast_pack_layout (PyObject         *module G_GNUC_UNUSED,
                      PyObject *const  *args,
                      Py_ssize_t        n_args)
{
  const GpuLayout *layout;
  GpuLayout storage;
  gsize most;

  if (n_args != 2 || !gpu_fast_get_size (args[1], &most) || most > MAX_NUMBERS
      || !gpu_fast_to_layout (args[0], most, &storage, &layout))
    Py_RETURN_NONE;

  return gpu_fast_from_boxed (&layout_class, (gpointer) layout, FALSE);
}

PyObject *
gpu_fast_unpack (PyObject         *module G_GNUC_UNUSED,
                 PyObject *const  *args,
                 Py_ssize_t        n_args)
{
  if (n_args == 1 && pyg_boxed_check (args[0], GPU_TYPE_EXTENT))
    {
      const GpuExtent *extent = pyg_boxed_get (args[0], GpuExtent);

      return Py_BuildValue ("(KKK)", (unsigned long long) extent->width,
                            (unsigned long long) extent->height,
                            (unsigned long long) extent->depth);
    }

  if (n_args == 1 && pyg_boxed_check (args[0], GPU_TYPE_LAYOUT))
    {
      const GpuLayout *layout = pyg_boxed_get (args[0], GpuLayout);

      return Py_BuildValue ("(KKKKK)", (unsigned long long) layout->x,
                            (unsigned long long) layout->y, (unsigned long long) layout->z,
                            (unsigned long long) layout->row_pitch,
                            (unsigned long long) layout->slice_pitch);
    }

  PyErr_SetString (PyExc_TypeError, "unpack() takes a Gpu.Extent or a Gpu.Layout");

  return NULL;
}
