/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "test-array-util.h"

void
test_array_clear (TestArray *model)
{
  g_clear_object (&model->array);
  g_clear_pointer (&model->memory, g_free);
}

void
test_array_init (TestArray     *model,
                 TestFixture   *fixture,
                 GpuDType      *dtype,
                 const gssize  *shape,
                 guint          n_dims,
                 GpuArrayOrder  order)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) content = NULL;

  model->array = gpu_array_new_full (fixture->context, NULL, NULL, dtype, shape, n_dims, order,
                                     &error);
  g_assert_no_error (error);
  model->size = gpu_array_get_size (model->array);
  content = test_random_bytes (model->size);
  model->memory = g_memdup2 (g_bytes_get_data (content, NULL), model->size);
  test_assert_ok (gpu_buffer_write_bytes (GPU_BUFFER (gpu_array_get_memory (model->array)), NULL, 0,
                                          content, NULL, &error), error);
}

gsize
test_array_get_offset (GpuArray     *array,
                       const gssize *index)
{
  const gssize *strides = gpu_array_get_strides (array, NULL);
  gsize offset = gpu_array_get_offset (array);

  for (guint i = 0; i < gpu_array_get_n_dims (array); i++)
    offset += (gsize) (index[i] * strides[i]);

  return offset;
}

gboolean
test_array_next_index (GpuArray      *array,
                       GpuArrayOrder  order,
                       gssize        *index)
{
  guint n_dims;
  const gssize *shape = gpu_array_get_shape (array, &n_dims);

  for (guint i = 0; i < n_dims; i++)
    {
      guint axis = order == GPU_ARRAY_ORDER_F ? i : n_dims - 1 - i;

      if (++index[axis] < shape[axis])
        return TRUE;

      index[axis] = 0;
    }

  return FALSE;
}

GBytes *
test_array_gather (TestArray     *model,
                   GpuArrayOrder  order)
{
  gsize item = gpu_dtype_get_item_size (gpu_array_get_dtype (model->array));
  gsize size = gpu_array_get_size (model->array);
  guint8 *data = g_malloc (MAX (size, 1));
  gssize index[GPU_ARRAY_MAX_DIMS] = { 0 };

  for (gsize i = 0; i < size; i += item, test_array_next_index (model->array, order, index))
    memcpy (data + i, model->memory + test_array_get_offset (model->array, index), item);

  return g_bytes_new_take (data, size);
}

void
test_array_scatter (TestArray     *model,
                    GpuArrayOrder  order,
                    GBytes        *bytes)
{
  gsize item = gpu_dtype_get_item_size (gpu_array_get_dtype (model->array));
  gsize size;
  const guint8 *data = g_bytes_get_data (bytes, &size);
  gssize index[GPU_ARRAY_MAX_DIMS] = { 0 };

  for (gsize i = 0; i < size; i += item, test_array_next_index (model->array, order, index))
    memcpy (model->memory + test_array_get_offset (model->array, index), data + i, item);
}

void
test_array_assert_memory (TestArray *model)
{
  g_autoptr (GBytes) expected = g_bytes_new_static (model->memory, model->size);

  test_assert_content (GPU_BUFFER (gpu_array_get_memory (model->array)), expected);
}
