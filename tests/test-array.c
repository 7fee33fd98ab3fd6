/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Arrays on every device: each result is compared with a loop over the elements on the host. */
#include "config.h"

#include "test-array-util.h"

#define MAX_DIMS 5

/* --- random blocks ----------------------------------------------------------- */

static GpuDType *
random_dtype (void)
{
  GpuDType *const numbers[] = { GPU_DTYPE_UINT8, GPU_DTYPE_FLOAT16, GPU_DTYPE_FLOAT32,
                                GPU_DTYPE_COMPLEX64, GPU_DTYPE_COMPLEX128 };
  gint32 i = g_test_rand_int_range (0, G_N_ELEMENTS (numbers) + 1);

  return i < (gint32) G_N_ELEMENTS (numbers)
         ? gpu_dtype_ref (numbers[i]) : gpu_dtype_new (GPU_DTYPE_KIND_OPAQUE, 12, NULL);
}

/* Narrows one dimension, or permutes the dimensions. */
static void
narrow (TestArray *model)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuArray) whole = g_steal_pointer (&model->array);
  guint n_dims;
  const gssize *shape = gpu_array_get_shape (whole, &n_dims);
  guint axis = (guint) g_test_rand_int_range (0, (gint32) n_dims);
  guint axes[GPU_ARRAY_MAX_DIMS];
  gssize start = g_test_rand_int_range (0, (gint32) shape[axis]);
  gssize stop = g_test_rand_int_range ((gint32) start + 1, (gint32) shape[axis] + 1);
  gssize steps[] = { 1, 1, 1, 2, 3 };
  gssize step = steps[g_test_rand_int_range (0, G_N_ELEMENTS (steps))];

  for (guint i = 0; i < n_dims; i++)
    axes[i] = i == 0 ? axis : i == axis ? 0 : i;

  switch (g_test_rand_int_range (0, 6))
    {
    case 0:
      model->array = gpu_array_transpose (whole, axes, n_dims, &error);
      break;
    case 1:
      model->array = gpu_array_slice (whole, axis, stop - 1, start > 0 ? start - 1 : G_MINSSIZE,
                                      -step, &error);
      break;
    default:
      model->array = gpu_array_slice (whole, axis, start, stop, step, &error);
    }

  g_assert_no_error (error);
}

static void
make_random (TestArray       *model,
             TestFixture *fixture,
             guint        n_dims)
{
  g_autoptr (GpuDType) dtype = random_dtype ();
  gssize shape[MAX_DIMS];

  for (guint i = 0; i < n_dims; i++)
    shape[i] = g_test_rand_int_range (1, n_dims > 3 ? 6 : 12);

  test_array_init (model, fixture, dtype, shape, n_dims,
                   (GpuArrayOrder) g_test_rand_int_range (0, 2));

  for (gint32 i = g_test_rand_int_range (0, 5); i > 0; i--)
    narrow (model);
}

static void
check_read (TestArray *model)
{
  g_autoptr (GError) error = NULL;

  for (GpuArrayOrder order = GPU_ARRAY_ORDER_C; order <= GPU_ARRAY_ORDER_F; order++)
    {
      g_autoptr (GBytes) expected = test_array_gather (model, order);
      g_autoptr (GBytes) bytes = gpu_array_read_bytes (model->array, NULL, order, NULL, &error);

      g_assert_no_error (error);
      test_assert_bytes (bytes, expected);
    }
}

static void
check_write (TestArray *model)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (gpu_array_get_size (model->array));
  GpuArrayOrder order = (GpuArrayOrder) g_test_rand_int_range (0, 2);

  test_array_scatter (model, order, bytes);
  test_assert_ok (gpu_array_write_bytes (model->array, NULL, order, bytes, NULL, &error), error);
  test_array_assert_memory (model);
}

/* Writes on one stream and reads on another; the test itself does not wait. */
static void
check_strided (TestArray       *model,
               GpuStream   *first,
               GpuStream   *second)
{
  g_autoptr (GError) error = NULL;
  guint n_dims;
  const gssize *shape = gpu_array_get_shape (model->array, &n_dims);
  gsize item = gpu_dtype_get_item_size (gpu_array_get_dtype (model->array));
  gssize strides[GPU_ARRAY_MAX_DIMS];
  gsize offset = 0;
  gssize stride = (gssize) item;
  g_autoptr (GBytes) bytes = NULL;
  g_autoptr (GBytes) back = NULL;
  g_autofree guint8 *target = NULL;

  for (guint i = 0; i < n_dims; i++)
    {
      stride += i % 2 == 0 ? 0 : 5;
      strides[i] = i == 1 ? -stride : stride;
      offset += i == 1 ? (gsize) (stride * (shape[i] - 1)) : 0;
      stride *= shape[i];
    }

  bytes = test_random_bytes ((gsize) stride + 3);
  target = g_malloc0 ((gsize) stride + 3);
  back = g_bytes_new_static (target, (gsize) stride + 3);
  test_assert_ok (gpu_stream_write_array (first, model->array, bytes, offset, strides, n_dims,
                                          &error), error);
  test_assert_ok (gpu_stream_read_array (second, model->array, back, offset, strides, n_dims,
                                         &error), error);
  test_synchronize (second);

  {
    const guint8 *data = g_bytes_get_data (bytes, NULL);
    g_autofree guint8 *expected = g_malloc0 ((gsize) stride + 3);
    gssize index[GPU_ARRAY_MAX_DIMS] = { 0 };

    do
      {
        gsize at = offset;

        for (guint i = 0; i < n_dims; i++)
          at += (gsize) (index[i] * strides[i]);

        memcpy (model->memory + test_array_get_offset (model->array, index), data + at, item);
        memcpy (expected + at, data + at, item);
      }
    while (test_array_next_index (model->array, GPU_ARRAY_ORDER_C, index));

    test_assert_mem (target, expected, (gsize) stride + 3);
    memset (target, 0, (gsize) stride + 3);
    test_assert_ok (gpu_array_read_strided (model->array, first, back, offset, strides, n_dims,
                                            NULL, &error), error);
    test_assert_mem (target, expected, (gsize) stride + 3);
  }

  test_array_assert_memory (model);
}

static void
check_copy (TestArray *model)
{
  g_autoptr (GError) error = NULL;
  g_auto (TestArray) copy = { NULL };
  g_autoptr (GBytes) expected = test_array_gather (model, GPU_ARRAY_ORDER_C);
  g_autoptr (GBytes) bytes = NULL;

  copy.array = gpu_array_copy (model->array, NULL, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (gpu_array_get_size (copy.array), ==,
                    gpu_memory_get_size (gpu_array_get_memory (copy.array)));
  bytes = gpu_array_read_bytes (copy.array, NULL, GPU_ARRAY_ORDER_C, NULL, &error);
  g_assert_no_error (error);
  test_assert_bytes (bytes, expected);
}

/* Many random blocks of three-dimensional arrays. */
static void
array_blocks (TestFixture *fixture)
{
  const guint n_cases = 10000;

  for (guint i = 0; i < n_cases; i++)
    {
      g_auto (TestArray) model = { NULL };

      make_random (&model, fixture, 3);

      switch (i % 4)
        {
        case 0:
          check_read (&model);
          break;
        case 1:
          check_write (&model);
          break;
        case 2:
          check_copy (&model);
          break;
        default:
          check_strided (&model, fixture->stream, fixture->stream);
        }
    }
}

/* Random shapes with up to the maximum number of dimensions. */
static void
array_dimensions (TestFixture *fixture)
{
  g_autoptr (GpuStream) first = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuStream) second = test_stream (fixture, GPU_STREAM_FLAGS_NONE);

  for (guint i = 0; i < 200; i++)
    {
      g_auto (TestArray) model = { NULL };

      make_random (&model, fixture, i % MAX_DIMS + 1);
      check_read (&model);
      check_write (&model);
      check_strided (&model, first, second);
      check_copy (&model);
    }
}

/* --- single features ---------------------------------------------------------- */

static void
array_properties (TestFixture *fixture)
{
  const gssize shape[] = { 4, 6 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuArray) array = gpu_array_new (fixture->context, GPU_DTYPE_FLOAT32, shape, 2,
                                              &error);
  g_autoptr (GpuArray) part = gpu_array_slice (array, 0, -1, G_MINSSIZE, -2, &error);
  g_autoptr (GpuContext) context = NULL;
  g_autoptr (GpuMemory) memory = NULL;
  g_autoptr (GpuDType) dtype = NULL;
  guint64 offset;
  guint64 size;
  guint n_dims;
  gsize begin;
  gsize length;

  g_assert_no_error (error);
  g_object_get (part, "context", &context, "memory", &memory, "dtype", &dtype, "n-dims", &n_dims,
                "offset", &offset, "size", &size, NULL);
  g_assert_true (context == fixture->context);
  g_assert_true (memory == gpu_array_get_memory (array));
  g_assert_true (gpu_dtype_equal (dtype, GPU_DTYPE_FLOAT32));
  g_assert_cmpuint (n_dims, ==, 2);
  g_assert_cmpuint (offset, ==, 72);
  g_assert_cmpuint (size, ==, 48);
  g_assert_cmpuint (gpu_array_get_n_elements (part), ==, 12);
  g_assert_cmpint (gpu_array_get_strides (part, NULL)[0], ==, -48);
  gpu_array_get_range (part, &begin, &length);
  g_assert_cmpuint (begin, ==, 24);
  g_assert_cmpuint (length, ==, 72);
  g_assert_true (gpu_array_is_contiguous (array, GPU_ARRAY_ORDER_C));
  g_assert_false (gpu_array_is_contiguous (array, GPU_ARRAY_ORDER_F));
  g_assert_false (gpu_array_is_contiguous (part, GPU_ARRAY_ORDER_C));
}

/* A view keeps the memory alive after the array and the buffer are freed. */
static void
array_views (TestFixture *fixture)
{
  const gssize shape[] = { 2, 3, 4 };
  const gssize flat[] = { 6, -1 };
  const gssize tall[] = { 5, 2, 3, 4 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (24);
  GpuArray *array = gpu_array_new_from_bytes (fixture->context, NULL, NULL, GPU_DTYPE_UINT8, shape,
                                              3, GPU_ARRAY_ORDER_C, bytes, &error);
  g_autoptr (GpuArray) row = gpu_array_index (array, 0, -1, &error);
  g_autoptr (GpuArray) grown = gpu_array_insert_axis (row, 1, &error);
  g_autoptr (GpuArray) reshaped = gpu_array_reshape (array, flat, 2, GPU_ARRAY_ORDER_C, &error);
  g_autoptr (GpuArray) raveled = gpu_array_ravel (array, GPU_ARRAY_ORDER_C, &error);
  g_autoptr (GpuArray) transposed = gpu_array_transpose (array, NULL, 0, &error);
  g_autoptr (GpuArray) repeated = gpu_array_broadcast (array, tall, 4, &error);
  g_autoptr (GpuArray) words = gpu_array_view (array, GPU_DTYPE_UINT32, &error);
  g_autoptr (GBytes) last = g_bytes_new_from_bytes (bytes, 12, 12);
  g_autoptr (GBytes) got = NULL;
  g_autoptr (GBytes) many = NULL;
  g_autoptr (GBytes) f_order = NULL;

  g_assert_no_error (error);
  g_object_unref (array);
  got = gpu_array_read_bytes (grown, NULL, GPU_ARRAY_ORDER_C, NULL, &error);
  test_assert_bytes (got, last);
  g_assert_cmpint (gpu_array_get_shape (grown, NULL)[1], ==, 1);
  g_assert_cmpint (gpu_array_get_shape (reshaped, NULL)[1], ==, 4);
  g_assert_cmpint (gpu_array_get_shape (raveled, NULL)[0], ==, 24);
  g_assert_cmpint (gpu_array_get_shape (words, NULL)[2], ==, 1);

  f_order = gpu_array_read_bytes (transposed, NULL, GPU_ARRAY_ORDER_F, NULL, &error);
  test_assert_bytes (f_order, bytes);
  many = gpu_array_read_bytes (repeated, NULL, GPU_ARRAY_ORDER_C, NULL, &error);
  g_assert_no_error (error);

  for (guint i = 0; i < 5; i++)
    {
      g_autoptr (GBytes) one = g_bytes_new_from_bytes (many, i * 24, 24);

      test_assert_bytes (one, bytes);
    }

  g_assert_null (gpu_array_ravel (transposed, GPU_ARRAY_ORDER_C, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_array_ravel", "(4, 3, 2)",
                         "gpu_array_copy()");
  g_assert_null (gpu_array_view (transposed, GPU_DTYPE_UINT16, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "shape (4, 3, 2)",
                         "strides (1, 4, 12)", "2 bytes");
  g_assert_false (gpu_array_write_bytes (repeated, NULL, GPU_ARRAY_ORDER_C, many, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "(5, 2, 3, 4)", "share");
}

/* gpu_array_ravel() refuses one dimension with gaps, in reverse order or with repeated elements,
 * which gpu_array_reshape() accepts. */
static void
array_ravel_gaps (TestFixture *fixture)
{
  const struct { gssize start; gssize stop; gssize step; } parts[] = { { 0, 6, 2 }, { 5, -7, -1 } };
  const gssize shape[] = { 6 };
  const gssize all = -1;
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (24);
  g_autoptr (GpuArray) array = gpu_array_new_from_bytes (fixture->context, NULL, NULL,
                                                         GPU_DTYPE_FLOAT32, shape, 1,
                                                         GPU_ARRAY_ORDER_C, bytes, &error);

  g_assert_no_error (error);

  for (guint i = 0; i < 2 * G_N_ELEMENTS (parts); i++)
    {
      const GpuArrayOrder order = i % 2 == 0 ? GPU_ARRAY_ORDER_C : GPU_ARRAY_ORDER_F;
      g_autoptr (GpuArray) part = gpu_array_slice (array, 0, parts[i / 2].start, parts[i / 2].stop,
                                                   parts[i / 2].step, &error);
      g_autoptr (GpuArray) flat = gpu_array_reshape (part, &all, 1, order, &error);
      g_autoptr (GpuArray) copy = gpu_array_copy (part, NULL, NULL, &error);
      g_autoptr (GpuArray) raveled = gpu_array_ravel (copy, order, &error);

      g_assert_no_error (error);
      g_assert_cmpint (gpu_array_get_strides (flat, NULL)[0], ==, 4 * parts[i / 2].step);
      g_assert_cmpint (gpu_array_get_strides (raveled, NULL)[0], ==, 4);
      g_assert_null (gpu_array_ravel (part, order, &error));
      test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_array_ravel", "contiguous",
                             i % 2 == 0 ? "C order" : "F order", "gpu_array_copy()");
    }
}

/* A view of an array whose elements share memory cannot be written either, even if the elements of
 * the view do not share memory: the write would change several elements of the array. */
static void
array_write_shared (TestFixture *fixture)
{
  const gssize shape[] = { 3, 1 };
  const gssize wide[] = { 3, 4 };
  const char *text = "elements of 1 bytes, or those of an array that it views, may share memory";
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (3);
  g_autoptr (GBytes) value = g_bytes_new_static ("x", 1);
  g_autoptr (GBytes) got = NULL;
  g_autoptr (GpuArray) array = gpu_array_new_from_bytes (fixture->context, NULL, NULL,
                                                         GPU_DTYPE_UINT8, shape, 2,
                                                         GPU_ARRAY_ORDER_C, bytes, &error);
  g_autoptr (GpuArray) repeated = gpu_array_broadcast (array, wide, 2, &error);
  g_autoptr (GpuArray) column = gpu_array_index (repeated, 1, 2, &error);
  g_autoptr (GpuArray) other = gpu_array_copy (column, NULL, NULL, &error);

  g_assert_no_error (error);
  g_assert_true (gpu_array_is_contiguous (column, GPU_ARRAY_ORDER_C));
  g_assert_false (gpu_array_is_writable (column));
  g_assert_true (gpu_array_is_writable (other));
  g_assert_false (gpu_array_write_bytes (column, NULL, GPU_ARRAY_ORDER_C, bytes, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "(3,)", text);
  g_assert_false (gpu_stream_fill_array (fixture->stream, column, value, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "(3,)", text);
  g_assert_false (gpu_stream_copy_array (fixture->stream, column, other, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "(3,)", text);

  got = gpu_array_read_bytes (array, NULL, GPU_ARRAY_ORDER_C, NULL, &error);
  g_assert_no_error (error);
  test_assert_bytes (got, bytes);
}

/* A view without elements can be written, filled and copied to. So can a row of interleaved rows
 * that share no bytes, although the library refuses to write the rows at once. */
static void
array_write_apart (TestFixture *fixture)
{
  const gssize shape[] = { 2, 3 };
  const gssize strides[] = { 3, 2 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, 8);
  g_autoptr (GBytes) value = g_bytes_new_static ("x", 1);
  g_autoptr (GBytes) nothing = g_bytes_new_static (NULL, 0);
  g_autoptr (GBytes) got = NULL;
  g_autoptr (GpuArray) rows = gpu_array_new_for_memory (GPU_MEMORY (buffer), 0, GPU_DTYPE_UINT8,
                                                        shape, 2, strides, 2, &error);
  g_autoptr (GpuArray) row = gpu_array_index (rows, 0, 1, &error);
  g_autoptr (GpuArray) element = gpu_array_slice (row, 0, 0, 1, 1, &error);
  g_autoptr (GpuArray) repeated = gpu_array_broadcast (element, shape, 2, &error);
  g_autoptr (GpuArray) none = gpu_array_slice (repeated, 0, 0, 0, 1, &error);

  g_assert_no_error (error);
  gpu_stream_fill (fixture->stream, GPU_MEMORY (buffer), 0, 8, "-", 1, &error);
  g_assert_no_error (error);
  g_assert_false (gpu_stream_fill_array (fixture->stream, rows, value, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "(3, 2)", "may share memory");
  g_assert_true (gpu_array_is_writable (row) && gpu_array_is_writable (none));
  gpu_stream_fill_array (fixture->stream, row, value, &error);
  g_assert_no_error (error);
  gpu_stream_fill_array (fixture->stream, none, value, &error);
  g_assert_no_error (error);
  gpu_array_write_bytes (none, NULL, GPU_ARRAY_ORDER_C, nothing, NULL, &error);
  g_assert_no_error (error);
  gpu_stream_copy_array (fixture->stream, none, none, &error);
  g_assert_no_error (error);

  got = test_content (buffer);
  g_assert_cmpmem (g_bytes_get_data (got, NULL), 8, "---x-x-x", 8);
}

/* gpu_array_split() makes the last part shorter if necessary, and rejects the part length 0. */
static void
array_split (TestFixture *fixture)
{
  const gssize shape[] = { 3, 10 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuArray) array = gpu_array_new (fixture->context, GPU_DTYPE_INT16, shape, 2, &error);
  g_autoptr (GPtrArray) parts = gpu_array_split (array, 1, 4, &error);

  g_assert_no_error (error);
  g_assert_cmpuint (parts->len, ==, 3);
  g_assert_cmpint (gpu_array_get_shape (parts->pdata[0], NULL)[1], ==, 4);
  g_assert_cmpint (gpu_array_get_shape (parts->pdata[2], NULL)[1], ==, 2);
  g_assert_cmpuint (gpu_array_get_offset (parts->pdata[2]), ==, 16);
  g_assert_null (gpu_array_split (array, 1, 0, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "length 0", "axis 1");
}

/* Arrays without elements, and arrays without dimensions. */
static void
array_empty (TestFixture *fixture)
{
  const gssize shape[] = { 3, 0, 2 };
  const guint32 value = 4711;
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) none = g_bytes_new (NULL, 0);
  g_autoptr (GBytes) one = g_bytes_new (&value, sizeof value);
  g_autoptr (GpuArray) empty = gpu_array_new_from_bytes (fixture->context, NULL, NULL,
                                                         GPU_DTYPE_FLOAT32, shape, 3,
                                                         GPU_ARRAY_ORDER_C, none, &error);
  g_autoptr (GpuArray) part = gpu_array_slice (empty, 0, 1, 3, 1, &error);
  g_autoptr (GpuArray) flat = gpu_array_ravel (part, GPU_ARRAY_ORDER_F, &error);
  g_autoptr (GpuArray) scalar = gpu_array_new_from_bytes (fixture->context, NULL, NULL,
                                                          GPU_DTYPE_UINT32, NULL, 0,
                                                          GPU_ARRAY_ORDER_C, one, &error);
  g_autoptr (GpuArray) empty_copy = gpu_array_copy (part, NULL, NULL, &error);
  g_autoptr (GBytes) got = NULL;
  g_autoptr (GBytes) nothing = NULL;

  g_assert_no_error (error);
  g_assert_null (gpu_array_get_memory (empty));
  g_assert_cmpuint (gpu_array_get_size (empty_copy), ==, 0);
  g_assert_cmpint (gpu_array_get_shape (flat, NULL)[0], ==, 0);
  nothing = gpu_array_read_bytes (part, NULL, GPU_ARRAY_ORDER_C, NULL, &error);
  g_assert_cmpuint (g_bytes_get_size (nothing), ==, 0);
  test_assert_ok (gpu_array_write_bytes (part, NULL, GPU_ARRAY_ORDER_C, none, NULL, &error), error);
  g_assert_cmpuint (gpu_array_get_n_dims (scalar), ==, 0);
  g_assert_cmpuint (gpu_array_get_n_elements (scalar), ==, 1);
  got = gpu_array_read_bytes (scalar, NULL, GPU_ARRAY_ORDER_C, NULL, &error);
  test_assert_bytes (got, one);
}

/* The offset and the strides of an array without elements, and the stride of a dimension of length
 * 1, are ignored. */
static void
array_ignored_values (TestFixture *fixture)
{
  const gssize none[] = { 0, 3 };
  const gssize lone[] = { 1, 4 };
  const gssize strides[] = { G_MINSSIZE, 4 };
  const gssize huge[] = { G_MINSSIZE, G_MINSSIZE };
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (16);
  g_autoptr (GpuBuffer) buffer = test_buffer_from (fixture, bytes);
  g_autoptr (GpuArray) empty = gpu_array_new_for_memory ((GpuMemory *) buffer, 1000,
                                                         GPU_DTYPE_UINT32, none, 2, huge, 2,
                                                         &error);
  g_autoptr (GpuArray) like = NULL;
  g_autoptr (GpuArray) row = gpu_array_new_for_memory ((GpuMemory *) buffer, 0, GPU_DTYPE_UINT32,
                                                       lone, 2, strides, 2, &error);
  g_autoptr (GpuArray) copy = NULL;
  g_autoptr (GBytes) got = NULL;

  g_assert_no_error (error);
  g_assert_cmpuint (gpu_array_get_n_elements (empty), ==, 0);
  like = gpu_array_new_like (empty, NULL, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (gpu_array_get_n_elements (like), ==, 0);
  copy = gpu_array_copy (row, NULL, NULL, &error);
  g_assert_no_error (error);
  got = gpu_array_read_bytes (copy, NULL, GPU_ARRAY_ORDER_C, NULL, &error);
  g_assert_no_error (error);
  test_assert_bytes (got, bytes);
}

static void
array_filled (TestFixture *fixture)
{
  const gssize shape[] = { 5, 7 };
  const guint8 pattern[] = "abcdefghijkl";
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) value = g_bytes_new (pattern, 12);
  g_autoptr (GpuDType) dtype = gpu_dtype_new (GPU_DTYPE_KIND_OPAQUE, 12, &error);
  g_auto (TestArray) model = { NULL };
  g_autoptr (GpuArray) whole = gpu_array_new_filled (fixture->context, NULL, NULL, dtype, shape, 2,
                                                     GPU_ARRAY_ORDER_F, NULL, &error);
  g_autoptr (GpuArray) half = gpu_array_slice (whole, 0, 1, 5, 2, &error);
  g_autoptr (GpuArray) other = gpu_array_new_filled (fixture->context, NULL, NULL, dtype, shape, 2,
                                                     GPU_ARRAY_ORDER_C, value, &error);
  g_autoptr (GBytes) all = NULL;

  g_assert_no_error (error);
  model.array = g_object_ref (half);
  model.size = gpu_array_get_size (whole);
  model.memory = g_malloc0 (model.size);
  test_array_assert_memory (&model);

  for (gssize y = 1; y < 5; y += 2)
    {
      for (gssize x = 0; x < 7; x++)
        memcpy (model.memory + test_array_get_offset (whole, (gssize[]) { y, x }), pattern, 12);
    }

  test_assert_ok (gpu_stream_fill_array (fixture->stream, half, value, &error), error);
  test_array_assert_memory (&model);
  all = gpu_array_read_bytes (other, NULL, GPU_ARRAY_ORDER_C, NULL, &error);
  g_assert_no_error (error);

  for (gsize i = 0; i < 35; i++)
    test_assert_mem ((const guint8 *) g_bytes_get_data (all, NULL) + i * 12, pattern, 12);
}

/* A copy between overlapping parts of one buffer has the same result as a copy through another
 * buffer. */
static void
array_overlapping_copy (TestFixture *fixture)
{
  const gssize length = 100;
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (400);
  g_autoptr (GpuArray) array = gpu_array_new_from_bytes (fixture->context, NULL, NULL,
                                                         GPU_DTYPE_INT32, &length, 1,
                                                         GPU_ARRAY_ORDER_C, bytes, &error);
  g_autoptr (GpuArray) to = gpu_array_slice (array, 0, 1, 100, 1, &error);
  g_autoptr (GpuArray) from = gpu_array_slice (array, 0, 0, 99, 1, &error);
  g_autoptr (GpuArray) back = gpu_array_slice (array, 0, G_MAXSSIZE, G_MINSSIZE, -1, &error);
  g_autoptr (GBytes) expected = g_bytes_new_from_bytes (bytes, 0, 396);
  g_autoptr (GBytes) got = NULL;
  g_autoptr (GBytes) reversed = NULL;

  g_assert_no_error (error);
  test_assert_ok (gpu_stream_copy_array (fixture->stream, to, from, &error), error);
  got = gpu_array_read_bytes (to, NULL, GPU_ARRAY_ORDER_C, NULL, &error);
  test_assert_bytes (got, expected);

  test_assert_ok (gpu_stream_copy_array (fixture->stream, array, back, &error), error);
  reversed = gpu_array_read_bytes (back, NULL, GPU_ARRAY_ORDER_C, NULL, &error);
  g_assert_no_error (error);
  test_assert_mem ((const guint8 *) g_bytes_get_data (reversed, NULL) + 4,
                   g_bytes_get_data (expected, NULL), 396);
}

static void
array_repeated (TestFixture *fixture)
{
  const gssize shape[] = { 4, 3 };
  const guint8 row[] = { 7, 8, 9 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = g_bytes_new (row, 3);
  g_autoptr (GpuArray) source = gpu_array_new_from_bytes (fixture->context, NULL, NULL,
                                                          GPU_DTYPE_UINT8, shape + 1, 1,
                                                          GPU_ARRAY_ORDER_C, bytes, &error);
  g_autoptr (GpuArray) array = gpu_array_new (fixture->context, GPU_DTYPE_UINT8, shape, 2, &error);
  g_autoptr (GpuArray) floats = gpu_array_new (fixture->context, GPU_DTYPE_FLOAT32, shape, 2,
                                               &error);
  g_autoptr (GBytes) got = NULL;

  test_assert_ok (gpu_stream_copy_array (fixture->stream, array, source, &error), error);
  got = gpu_array_read_bytes (array, NULL, GPU_ARRAY_ORDER_C, NULL, &error);
  g_assert_no_error (error);

  for (guint i = 0; i < 4; i++)
    test_assert_mem ((const guint8 *) g_bytes_get_data (got, NULL) + 3 * i, row, 3);

  g_assert_false (gpu_stream_copy_array (fixture->stream, source, array, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "(4, 3)", "(3,)");
  g_assert_false (gpu_stream_copy_array (fixture->stream, floats, array, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "float32", "uint8");
}

/* Arrays over memory of every kind, and from a pool. */
static void
check_over (TestFixture *fixture,
            GpuMemory   *memory)
{
  const gssize shape[] = { 3, 4 };
  const gssize strides[] = { -16, 8 };
  const gssize wrong[] = { 64, 8 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuArray) array = gpu_array_new_for_memory (memory, 40, GPU_DTYPE_UINT32, shape, 2,
                                                         strides, 2, &error);
  g_autoptr (GpuArray) tight = gpu_array_new_for_memory (memory, 4, GPU_DTYPE_UINT16, shape, 2,
                                                         NULL, 0, &error);
  g_autoptr (GBytes) content = test_random_bytes (24);
  g_autoptr (GBytes) got = NULL;

  g_assert_no_error (error);
  test_assert_ok (gpu_array_write_bytes (tight, NULL, GPU_ARRAY_ORDER_C, content, NULL, &error),
                  error);
  got = gpu_array_read_bytes (tight, NULL, GPU_ARRAY_ORDER_C, NULL, &error);
  test_assert_bytes (got, content);
  g_assert_cmpint (gpu_array_get_strides (array, NULL)[0], ==, -16);
  g_assert_null (gpu_array_new_for_memory (memory, 0, GPU_DTYPE_UINT32, shape, 2, strides, 2,
                                           &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "(-16, 8)", "offset 0");
  g_assert_null (gpu_array_new_for_memory (memory, 40, GPU_DTYPE_UINT32, shape, 2, wrong, 2,
                                           &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "(64, 8)");
  g_assert_null (gpu_array_new_for_memory (memory, 40, GPU_DTYPE_UINT32, shape, 2, strides, 1,
                                           &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "2 dimensions", "1 strides");
}

static void
array_memory (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuMemory) buffer = GPU_MEMORY (test_buffer (fixture, 100));
  g_autoptr (GpuHostMemory) host = gpu_host_memory_new_aligned (fixture->context, 4096, 100,
                                                                &error);
  g_autoptr (GpuSvm) svm = NULL;

  g_assert_no_error (error);
  check_over (fixture, buffer);
  check_over (fixture, GPU_MEMORY (host));

  if ((gpu_device_get_capabilities (fixture->device) & GPU_CAPABILITIES_SVM_COARSE) != 0)
    {
      svm = gpu_svm_new (fixture->context, GPU_MEMORY_FLAGS_NONE, GPU_SVM_FLAGS_NONE, 100, 0,
                         &error);
      g_assert_no_error (error);
      check_over (fixture, GPU_MEMORY (svm));
    }

  gpu_memory_release (buffer);
  g_assert_null (gpu_array_new_for_memory (buffer, 0, GPU_DTYPE_INT8, NULL, 0, NULL, 0, &error));
  test_assert_gpu_error (error, GPU_ERROR_RELEASED, "100 bytes");
}

static void
array_pool (TestFixture *fixture)
{
  const gssize shape[] = { 30, 40 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuMemoryPool) pool = gpu_memory_pool_new (fixture->context, GPU_MEMORY_POOL_AUTOMATIC,
                                                        GPU_MEMORY_FLAGS_NONE, &error);
  g_autoptr (GBytes) bytes = test_random_bytes (4800);
  g_autoptr (GpuArray) array = NULL;
  g_autoptr (GpuArray) like = NULL;
  g_autoptr (GBytes) got = NULL;

  g_assert_no_error (error);
  array = gpu_array_new_from_bytes (NULL, GPU_ALLOCATOR (pool), fixture->stream, GPU_DTYPE_FLOAT32,
                                    shape, 2, GPU_ARRAY_ORDER_F, bytes, &error);
  g_assert_no_error (error);
  like = gpu_array_copy (array, GPU_ALLOCATOR (pool), fixture->stream, &error);
  g_assert_no_error (error);
  g_assert_true (gpu_array_is_contiguous (like, GPU_ARRAY_ORDER_F));
  g_clear_object (&array);
  got = gpu_array_read_bytes (like, fixture->stream, GPU_ARRAY_ORDER_F, NULL, &error);
  test_assert_bytes (got, bytes);

  g_assert_null (gpu_array_new_full (NULL, NULL, NULL, GPU_DTYPE_INT8, shape, 2, GPU_ARRAY_ORDER_C,
                                     &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "neither a context");
  g_assert_null (gpu_array_new_from_bytes (fixture->context, NULL, NULL, GPU_DTYPE_INT8, shape, 2,
                                           GPU_ARRAY_ORDER_C, bytes, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "4800 bytes", "(30, 40)", "1200");
}

static void
array_fields (TestFixture *fixture)
{
  const gssize length = 3;
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuDType) dtype = gpu_dtype_new_from_format ("=T{B:id:h:x:(2,2)B:grid:}", &error);
  g_autoptr (GBytes) bytes = g_bytes_new_static ("abcdefgABCDEFG1234567", 21);
  g_autoptr (GpuArray) array = gpu_array_new_from_bytes (fixture->context, NULL, NULL, dtype,
                                                         &length, 1, GPU_ARRAY_ORDER_C, bytes,
                                                         &error);
  g_autoptr (GpuArray) ids = gpu_array_get_field (array, "id", &error);
  g_autoptr (GpuArray) grids = gpu_array_get_field (array, "grid", &error);
  g_autoptr (GBytes) id_bytes = gpu_array_read_bytes (ids, NULL, GPU_ARRAY_ORDER_C, NULL, &error);
  g_autoptr (GBytes) grid_bytes = gpu_array_read_bytes (grids, NULL, GPU_ARRAY_ORDER_C, NULL,
                                                        &error);

  g_assert_no_error (error);
  g_assert_cmpmem (g_bytes_get_data (id_bytes, NULL), 3, "aA1", 3);
  g_assert_cmpuint (gpu_array_get_n_dims (grids), ==, 3);
  g_assert_cmpmem (g_bytes_get_data (grid_bytes, NULL), 12, "defgDEFG4567", 12);
  g_assert_null (gpu_array_get_field (array, "y", &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "no field 'y', only 'id', 'x', 'grid'");
  g_assert_null (gpu_array_get_field (ids, "y", &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "the type has no field 'y'");
}

/* Gets the addresses of arrays for the host and for kernels. */
static void
array_addresses (TestFixture *fixture)
{
  const gssize shape[] = { 4, 5 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuArray) array = gpu_array_new (fixture->context, GPU_DTYPE_INT32, shape, 2, &error);
  g_autoptr (GpuArray) part = gpu_array_index (array, 0, 2, &error);
  g_autoptr (GBytes) descriptor = gpu_array_get_descriptor (part, &error);
  GpuMemory *memory = gpu_array_get_memory (array);
  const guint64 *words;
  gsize size;

  if (gpu_memory_get_device_address (memory) == 0)
    {
      g_assert_null (descriptor);
      test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "address");
      return;
    }

  g_assert_no_error (error);
  words = g_bytes_get_data (descriptor, &size);
  g_assert_cmpuint (size, ==, 7 * 8);
  g_assert_cmpuint (words[2], ==, 5);
  g_assert_cmpuint (words[3], ==, 4);
  g_assert_cmpuint (words[4], ==, gpu_memory_get_device_address (memory) + 40);
  g_assert_cmpuint (words[5], ==, 5);
  g_assert_cmpuint (words[6], ==, 4);
  g_assert_cmpuint (gpu_array_get_device_address (part), ==, words[4]);

  if (g_str_equal (gpu_device_get_backend (fixture->device), "host"))
    g_assert_cmpuint (gpu_array_get_host_address (part), ==, words[4]);
  else
    g_assert_cmpuint (gpu_array_get_host_address (part), ==, 0);
}

static void
array_async (TestFixture *fixture)
{
  const gssize shape[] = { 20, 30 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (2400);
  g_autoptr (GpuArray) array = gpu_array_new (fixture->context, GPU_DTYPE_UINT32, shape, 2, &error);
  gboolean has_gate = (gpu_device_get_capabilities (fixture->device)
                       & GPU_CAPABILITIES_USER_EVENTS) != 0;
  g_autoptr (GpuEvent) gate = has_gate ? test_gate (fixture, fixture->stream) : NULL;
  g_autoptr (GCancellable) cancellable = g_cancellable_new ();
  g_autoptr (GAsyncResult) written = NULL;
  g_autoptr (GAsyncResult) read = NULL;
  g_autoptr (GAsyncResult) cancelled = NULL;
  g_autoptr (GBytes) got = NULL;
  g_autofree guint8 *target = g_malloc0 (2400);
  g_autoptr (GBytes) into = g_bytes_new_static (target, 2400);
  const gssize strides[] = { 120, 4 };
  g_autoptr (GAsyncResult) read_strided = NULL;

  gpu_array_write_bytes_async (array, NULL, GPU_ARRAY_ORDER_F, bytes, NULL, test_take_result,
                               &written);
  gpu_array_read_bytes_async (array, NULL, GPU_ARRAY_ORDER_F, NULL, test_take_result, &read);
  gpu_array_read_strided_async (array, NULL, into, 0, strides, 2, NULL, test_take_result,
                                &read_strided);
  gpu_array_read_bytes_async (array, NULL, GPU_ARRAY_ORDER_C, cancellable, test_take_result,
                              &cancelled);
  g_cancellable_cancel (cancellable);
  test_await (&cancelled);
  g_assert_null (gpu_array_read_bytes_finish (array, cancelled, &error));
  test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);

  if (has_gate)
    {
      g_assert_null (read);
      test_open (gate);
    }

  test_await (&written);
  test_await (&read);
  test_await (&read_strided);
  test_assert_ok (gpu_array_write_bytes_finish (array, written, &error), error);
  got = gpu_array_read_bytes_finish (array, read, &error);
  g_assert_no_error (error);
  test_assert_bytes (got, bytes);
  test_assert_ok (gpu_array_read_strided_finish (array, read_strided, &error), error);

  for (guint y = 0; y < 20; y++)
    {
      for (guint x = 0; x < 30; x++)
        test_assert_mem (target + y * 120 + x * 4,
                         (const guint8 *) g_bytes_get_data (bytes, NULL) + (x * 20 + y) * 4, 4);
    }
}

static void
array_never_initialised (TestFixture *fixture G_GNUC_UNUSED)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuArray) array = g_object_new (GPU_TYPE_ARRAY, NULL);

  g_assert_null (gpu_array_get_dtype (array));
  g_assert_null (gpu_array_read_bytes (array, NULL, GPU_ARRAY_ORDER_C, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "never initialised");
  g_assert_null (gpu_array_ravel (array, GPU_ARRAY_ORDER_C, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "never initialised");
  g_assert_null (gpu_array_copy (array, NULL, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "never initialised");
  g_assert_null (gpu_array_get_descriptor (array, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "never initialised");
}

int
main (int    argc,
      char **argv)
{
  test_init (&argc, &argv);
  test_add ("properties", array_properties);
  test_add ("views", array_views);
  test_add ("ravel-gaps", array_ravel_gaps);
  test_add ("write-shared", array_write_shared);
  test_add ("write-apart", array_write_apart);
  test_add ("split", array_split);
  test_add ("empty", array_empty);
  test_add ("ignored-values", array_ignored_values);
  test_add ("filled", array_filled);
  test_add ("overlapping-copy", array_overlapping_copy);
  test_add ("repeated", array_repeated);
  test_add ("memory", array_memory);
  test_add ("pool", array_pool);
  test_add ("fields", array_fields);
  test_add ("addresses", array_addresses);
  test_add ("async", array_async);
  test_add ("never-initialised", array_never_initialised);
  test_add ("dimensions", array_dimensions);
  test_add ("blocks", array_blocks);

  return test_run ();
}
