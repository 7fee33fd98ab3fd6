/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* gpu_stream_take_rows() and gpu_stream_put_rows(), compared with copies of host memory. */
#include "config.h"

#include <dlfcn.h>

#ifdef HAVE_CUDA
#include "cuda-driver/cuda-driver.h"
#endif
#include "test-array-util.h"

#define N_ROWS 48
#define WIDTH  24

/* Arrays of rows of WIDTH elements */
typedef enum
{
  WHOLE,
  REVERSED,
  EVERY_SECOND,
  WITH_GAPS,
  TRANSPOSED,
  N_LAYOUTS
} Layout;

static void
replace (TestArray *model,
         GpuArray  *view,
         GError    *error)
{
  g_assert_no_error (error);
  g_object_unref (model->array);
  model->array = view;
}

static void
make_rows (TestArray   *model,
           TestFixture *fixture,
           Layout       layout)
{
  const gssize shape[] = { layout == TRANSPOSED ? WIDTH : N_ROWS,
                           layout == TRANSPOSED ? N_ROWS : layout == WITH_GAPS ? 2 * WIDTH
                           : WIDTH };
  GError *error = NULL;

  test_array_init (model, fixture, GPU_DTYPE_FLOAT32, shape, 2, GPU_ARRAY_ORDER_C);
  if (layout == REVERSED)
    replace (model, gpu_array_slice (model->array, 0, G_MAXSSIZE, G_MINSSIZE, -1, &error), error);
  else if (layout == EVERY_SECOND)
    replace (model, gpu_array_slice (model->array, 0, 1, G_MAXSSIZE, 2, &error), error);
  else if (layout == WITH_GAPS)
    replace (model, gpu_array_slice (model->array, 1, 0, G_MAXSSIZE, 2, &error), error);
  else if (layout == TRANSPOSED)
    replace (model, gpu_array_transpose (model->array, (guint[]) { 1, 0 }, 2, &error), error);
}

static gssize
count_rows (GpuArray *array)
{
  return gpu_array_get_shape (array, NULL)[0];
}

/* Copies one row between the models of the host. */
static void
copy_row (TestArray *to,
          gssize     to_row,
          TestArray *from,
          gssize     from_row)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuArray) target = gpu_array_index (to->array, 0, to_row, &error);
  g_autoptr (GpuArray) source = gpu_array_index (from->array, 0, from_row, &error);
  TestArray to_model = { target, to->memory, to->size };
  TestArray from_model = { source, from->memory, from->size };
  g_autoptr (GBytes) bytes = NULL;

  g_assert_no_error (error);
  bytes = test_array_gather (&from_model, GPU_ARRAY_ORDER_C);
  test_array_scatter (&to_model, GPU_ARRAY_ORDER_C, bytes);
}

/* Chooses rows from the first to the last. Some of them occur several times. */
static gint64 *
choose_rows (gsize  n,
             gssize n_rows)
{
  gint64 *rows = g_new (gint64, n);

  for (gsize i = 0; i < n; i++)
    rows[i] = g_test_rand_int_range (-n_rows, n_rows);
  rows[0] = n_rows - 1;
  rows[n - 1] = -n_rows;
  return rows;
}

static void
check_layouts (TestFixture *fixture,
               Layout       to_layout,
               Layout       from_layout,
               gboolean     is_put)
{
  g_auto (TestArray) to = { NULL, };
  g_auto (TestArray) from = { NULL, };
  g_autoptr (GError) error = NULL;
  g_autofree gint64 *rows = NULL;
  gssize n, n_rows;

  make_rows (&to, fixture, to_layout);
  make_rows (&from, fixture, from_layout);
  n = count_rows (is_put ? from.array : to.array);
  n_rows = count_rows (is_put ? to.array : from.array);
  rows = choose_rows (n, n_rows);
  if (is_put)
    test_assert_ok (gpu_stream_put_rows (fixture->stream, to.array, from.array, rows, n, &error),
                    error);
  else
    test_assert_ok (gpu_stream_take_rows (fixture->stream, to.array, from.array, rows, n, &error),
                    error);
  for (gssize i = 0; i < n; i++)
    copy_row (&to, is_put ? rows[i] : i, &from, is_put ? i : rows[i]);
  memset (rows, 0x7f, n * sizeof *rows);        /* the copies do not need the list any more */
  test_synchronize (fixture->stream);
  test_array_assert_memory (&to);
  test_array_assert_memory (&from);
}

/* Also bytes between the elements keep their values. */
static void
rows_layouts (TestFixture *fixture)
{
  for (Layout to = WHOLE; to < N_LAYOUTS; to++)
    for (Layout from = WHOLE; from < N_LAYOUTS; from++)
      for (guint is_put = 0; is_put < 2; is_put++)
        check_layouts (fixture, to, from, is_put);
}

/* Rows of one element, of many dimensions, and without elements; no rows */
static void
rows_shapes (TestFixture *fixture)
{
  const gssize shapes[][4] = { { 40, 0, 0, 0 }, { 40, 2, 3, 4 }, { 40, 0, 3, 4 } };
  const guint n_dims[] = { 1, 4, 4 };
  g_autofree gint64 *rows = choose_rows (40, 40);

  for (guint i = 0; i < G_N_ELEMENTS (shapes); i++)
    {
      g_auto (TestArray) to = { NULL, };
      g_autoptr (GError) error = NULL;
      g_autoptr (GpuArray) from = gpu_array_new (fixture->context, GPU_DTYPE_UINT16, shapes[i],
                                                 n_dims[i], &error);
      g_autoptr (GpuArray) none = NULL;

      g_assert_no_error (error);
      if (gpu_array_get_size (from) == 0)
        {
          test_assert_ok (gpu_stream_take_rows (fixture->stream, from, from, rows, 40, &error),
                          error);
          test_assert_ok (gpu_stream_put_rows (fixture->stream, from, from, rows, 40, &error),
                          error);
          continue;
        }
      test_array_init (&to, fixture, GPU_DTYPE_UINT16, shapes[i], n_dims[i], GPU_ARRAY_ORDER_C);
      test_assert_ok (gpu_stream_copy_array (fixture->stream, from, to.array, &error), error);
      none = gpu_array_slice (from, 0, 7, 7, 1, &error);
      test_assert_ok (gpu_stream_put_rows (fixture->stream, to.array, none, NULL, 0, &error),
                      error);
      test_assert_ok (gpu_stream_take_rows (fixture->stream, none, to.array, NULL, 0, &error),
                      error);
      test_assert_ok (gpu_stream_take_rows (fixture->stream, to.array, from, rows, 40, &error),
                      error);
      {
        TestArray source = { from, g_memdup2 (to.memory, to.size), to.size };

        for (guint j = 0; j < 40; j++)
          copy_row (&to, j, &source, rows[j]);
        g_free (source.memory);
      }
      test_array_assert_memory (&to);
    }
}

/* Rows of an array that are written from other rows of the same array */
static void
rows_overlap (TestFixture *fixture)
{
  g_auto (TestArray) model = { NULL, };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuArray) reversed = NULL;
  g_autoptr (GpuArray) half = NULL;
  gint64 rows[N_ROWS];

  make_rows (&model, fixture, WHOLE);
  reversed = gpu_array_slice (model.array, 0, G_MAXSSIZE, G_MINSSIZE, -1, &error);
  half = gpu_array_slice (model.array, 0, 0, N_ROWS / 2, 1, &error);
  g_assert_no_error (error);
  for (guint round = 0; round < 2; round++)
    {
      TestArray old = { model.array, g_memdup2 (model.memory, model.size), model.size };

      for (guint i = 0; i < N_ROWS; i++)
        rows[i] = (i * 7 + 3) % N_ROWS;
      if (round == 0)
        test_assert_ok (gpu_stream_put_rows (fixture->stream, model.array, reversed, rows, N_ROWS,
                                             &error), error);
      else
        test_assert_ok (gpu_stream_take_rows (fixture->stream, half, model.array, rows, N_ROWS / 2,
                                              &error), error);
      for (guint i = 0; i < N_ROWS / (round + 1); i++)
        copy_row (&model, round == 0 ? rows[i] : i, &old, round == 0 ? N_ROWS - 1 - i : rows[i]);
      g_free (old.memory);
      test_array_assert_memory (&model);
    }
}

/* One row for several rows, and rows that share memory as a source */
static void
rows_broadcast (TestFixture *fixture)
{
  const gssize shape[] = { N_ROWS, WIDTH };
  const gint64 rows[] = { 5, -1, 0, 5 };
  g_auto (TestArray) to = { NULL, };
  g_auto (TestArray) from = { NULL, };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuArray) row = NULL;
  g_autoptr (GpuArray) repeated = NULL;
  g_autoptr (GpuArray) four = NULL;

  make_rows (&to, fixture, WHOLE);
  make_rows (&from, fixture, WHOLE);
  row = gpu_array_index (from.array, 0, 9, &error);
  repeated = gpu_array_broadcast (row, shape, 2, &error);
  four = gpu_array_slice (to.array, 0, 20, 24, 1, &error);
  g_assert_no_error (error);
  test_assert_ok (gpu_stream_put_rows (fixture->stream, to.array, row, rows, 4, &error), error);
  test_assert_ok (gpu_stream_take_rows (fixture->stream, four, repeated, rows, 4, &error), error);
  for (guint i = 0; i < 4; i++)
    {
      copy_row (&to, rows[i], &from, 9);
      copy_row (&to, 20 + i, &from, 9);
    }
  test_array_assert_memory (&to);
}

/* If a number occurs several times, its last position counts, in every order of the copies. */
static void
rows_repeated (TestFixture *fixture)
{
  g_auto (TestArray) to = { NULL, };
  g_auto (TestArray) from = { NULL, };
  g_autoptr (GError) error = NULL;
  gint64 rows[N_ROWS];

  make_rows (&to, fixture, WHOLE);
  make_rows (&from, fixture, WHOLE);
  for (guint i = 0; i < N_ROWS; i++)
    rows[i] = i % 2 == 0 ? 3 : 3 - N_ROWS;
  test_assert_ok (gpu_stream_put_rows (fixture->stream, to.array, from.array, rows, N_ROWS, &error),
                  error);
  copy_row (&to, 3, &from, N_ROWS - 1);
  test_array_assert_memory (&to);
}

/* --- rows with gaps between their elements ---------------------------------------------- */

#define N_STRIDED 450

/* Sets @model to N_STRIDED rows of 2 x @width elements, which are not contiguous. */
static void
make_strided (TestArray   *model,
              TestFixture *fixture,
              GpuDType    *dtype,
              gssize       width,
              gboolean     is_turned)
{
  const gssize shape[] = { is_turned ? width : N_STRIDED + 3, 4,
                           is_turned ? N_STRIDED + 3 : 2 * width };
  GError *error = NULL;

  test_array_init (model, fixture, dtype, shape, 3, GPU_ARRAY_ORDER_C);
  if (is_turned)
    replace (model, gpu_array_transpose (model->array, (guint[]) { 2, 1, 0 }, 3, &error), error);
  else
    replace (model, gpu_array_slice (model->array, 2, 1, G_MAXSSIZE, 2, &error), error);
  replace (model, gpu_array_slice (model->array, 0, N_STRIDED + 1, 1, -1, &error), error);
  replace (model, gpu_array_slice (model->array, 1, G_MAXSSIZE, G_MINSSIZE, -2, &error), error);
}

/* Takes or puts N_STRIDED rows, some of them several times. */
static void
check_strided (TestFixture *fixture,
               GpuStream   *stream,
               TestArray   *to,
               TestArray   *from,
               gboolean     is_put)
{
  g_autofree gint64 *rows = choose_rows (N_STRIDED, N_STRIDED);
  g_autoptr (GError) error = NULL;

  if (is_put)
    test_assert_ok (gpu_stream_put_rows (stream, to->array, from->array, rows, N_STRIDED, &error),
                    error);
  else
    test_assert_ok (gpu_stream_take_rows (stream, to->array, from->array, rows, N_STRIDED, &error),
                    error);
  for (gsize i = 0; i < N_STRIDED; i++)
    copy_row (to, is_put ? rows[i] : (gssize) i, from, is_put ? (gssize) i : rows[i]);
  memset (rows, 0x7f, N_STRIDED * sizeof *rows);
  test_synchronize (stream);
  test_array_assert_memory (to);
  test_array_assert_memory (from);
}

static gboolean
has_out_of_order (TestFixture *fixture)
{
  return (gpu_device_get_capabilities (fixture->device) & GPU_CAPABILITIES_OUT_OF_ORDER) != 0;
}

/* Each element size, rows of one element and of more than a kernel copies, and rows that are
 * broadcast, in streams of all kinds */
static void
rows_strided (TestFixture *fixture)
{
  GpuDType *dtypes[] = { GPU_DTYPE_UINT8, GPU_DTYPE_FLOAT16, GPU_DTYPE_FLOAT32, GPU_DTYPE_INT64,
                         GPU_DTYPE_COMPLEX128 };
  const gssize widths[] = { 1, 5, 8, 300, 2 };

  for (guint flags = 0; flags < 3; flags++)
    for (guint i = 0; i < G_N_ELEMENTS (dtypes); i++)
      {
        g_autoptr (GpuStream) stream = NULL;
        g_auto (TestArray) to = { NULL, };
        g_auto (TestArray) from = { NULL, };
        g_autoptr (GError) error = NULL;

        if (flags == 1 && !has_out_of_order (fixture))
          continue;
        stream = test_stream (fixture, flags == 1 ? GPU_STREAM_FLAGS_OUT_OF_ORDER
                              : flags == 2 ? GPU_STREAM_FLAGS_PROFILING : GPU_STREAM_FLAGS_NONE);
        make_strided (&to, fixture, dtypes[i], widths[i], i % 2 == 0);
        make_strided (&from, fixture, dtypes[i], widths[i], i % 3 == 0);
        check_strided (fixture, stream, &to, &from, FALSE);
        check_strided (fixture, stream, &to, &from, TRUE);
        replace (&from, gpu_array_index (from.array, 0, 7, &error), error);
        replace (&from, gpu_array_broadcast (from.array, gpu_array_get_shape (to.array, NULL), 3,
                                             &error), error);
        check_strided (fixture, stream, &to, &from, TRUE);
      }
}

/* Contiguous rows of 8 bytes, at any address, in streams in which one command cannot do several
 * copies */
static void
rows_whole_out_of_order (TestFixture *fixture)
{
  const gssize shape[] = { N_STRIDED, 13 };

  for (guint i = 0; i < 2; i++)
    {
      g_autoptr (GpuStream) stream = NULL;
      g_auto (TestArray) to = { NULL, };
      g_auto (TestArray) from = { NULL, };
      GError *error = NULL;

      if (i == 0 && !has_out_of_order (fixture))
        continue;
      stream = test_stream (fixture, i == 0 ? GPU_STREAM_FLAGS_OUT_OF_ORDER
                                            : GPU_STREAM_FLAGS_PROFILING);
      test_array_init (&to, fixture, GPU_DTYPE_UINT8, shape, 2, GPU_ARRAY_ORDER_C);
      test_array_init (&from, fixture, GPU_DTYPE_UINT8, shape, 2, GPU_ARRAY_ORDER_C);
      replace (&to, gpu_array_slice (to.array, 1, 0, 8, 1, &error), error);
      replace (&from, gpu_array_slice (from.array, 1, 0, 8, 1, &error), error);
      check_strided (fixture, stream, &to, &from, FALSE);
      check_strided (fixture, stream, &to, &from, TRUE);
    }
}

/* Rows of one array that are copied to others of its rows */
static void
rows_strided_overlap (TestFixture *fixture)
{
  g_auto (TestArray) model = { NULL, };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuArray) reversed = NULL;
  g_autofree gint64 *rows = choose_rows (N_STRIDED, N_STRIDED);
  TestArray old;

  make_strided (&model, fixture, GPU_DTYPE_FLOAT32, 4, TRUE);
  reversed = gpu_array_slice (model.array, 0, G_MAXSSIZE, G_MINSSIZE, -1, &error);
  g_assert_no_error (error);
  old = (TestArray) { reversed, g_memdup2 (model.memory, model.size), model.size };
  test_assert_ok (gpu_stream_put_rows (fixture->stream, model.array, reversed, rows, N_STRIDED,
                                       &error), error);
  for (gsize i = 0; i < N_STRIDED; i++)
    copy_row (&model, rows[i], &old, (gssize) i);
  g_free (old.memory);
  test_array_assert_memory (&model);
}

/* Refuses copies of @n rows, one of which is mapped, before the first copy. The error names the
 * position in the list. Bytes between the rows may be mapped. */
static void
check_mapped_strided (TestFixture *fixture,
                      gsize        n)
{
  const gssize shape[] = { N_STRIDED, 8 };
  g_auto (TestArray) to = { NULL, };
  g_auto (TestArray) from = { NULL, };
  g_autofree gint64 *rows = g_new (gint64, n);
  GError *error = NULL;

  test_array_init (&to, fixture, GPU_DTYPE_UINT32, shape, 2, GPU_ARRAY_ORDER_C);
  test_array_init (&from, fixture, GPU_DTYPE_UINT32, shape, 2, GPU_ARRAY_ORDER_C);
  replace (&to, gpu_array_slice (to.array, 1, 0, G_MAXSSIZE, 2, &error), error);
  replace (&from, gpu_array_slice (from.array, 1, 0, G_MAXSSIZE, 2, &error), error);
  replace (&from, gpu_array_slice (from.array, 0, 0, (gssize) n, 1, &error), error);
  for (gsize i = 0; i < n; i++)
    rows[i] = (gint64) (N_STRIDED - 1 - i);

  for (guint is_allowed = 0; is_allowed < 2; is_allowed++)
    {
      /* An element of the row of the second copy, or the gap behind the row */
      const gsize offset = (N_STRIDED - 2) * 32 + (is_allowed ? 28 : 8);
      g_autoptr (GpuMapping) mapping = gpu_buffer_map (GPU_BUFFER (gpu_array_get_memory (to.array)),
                                                       fixture->stream, GPU_MAP_FLAGS_READ, offset,
                                                       4, NULL, &error);

      g_assert_no_error (error);
      g_assert_cmpint (gpu_stream_put_rows (fixture->stream, to.array, from.array, rows, n, &error),
                       ==, is_allowed);
      if (!is_allowed)
        test_assert_gpu_error (error, GPU_ERROR_BUSY, "gpu_stream_put_rows: copy 1: bytes");
      g_clear_error (&error);
      for (gsize i = 0; i < n && is_allowed; i++)
        copy_row (&to, rows[i], &from, (gssize) i);
      test_assert_ok (gpu_mapping_unmap (mapping, &error), error);
      test_array_assert_memory (&to);
    }
}

static void
rows_mapped_strided (TestFixture *fixture)
{
  check_mapped_strided (fixture, 3);
  check_mapped_strided (fixture, N_STRIDED / 2);
}

/* --- lifetime, order, threads, failures -------------------------------------------------- */

/* The copies keep the memory alive until they have run. */
static void
rows_references (TestFixture *fixture)
{
  for (Layout layout = WHOLE; layout < N_LAYOUTS; layout++)
    {
      g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
      g_auto (TestArray) to = { NULL, };
      g_auto (TestArray) from = { NULL, };
      g_autoptr (GError) error = NULL;
      g_autofree gint64 *rows = choose_rows (N_ROWS, N_ROWS / 2);
      TestHold *hold;

      make_rows (&to, fixture, WHOLE);
      make_rows (&from, fixture, layout);
      /* Loads the kernel: drivers wait for pending work while they load it. */
      test_assert_ok (gpu_stream_take_rows (stream, to.array, from.array, rows, N_ROWS, &error),
                      error);
      hold = test_can_hold (fixture) ? test_hold (stream) : NULL;
      test_assert_ok (gpu_stream_take_rows (stream, to.array, from.array, rows, N_ROWS, &error),
                      error);
      for (guint i = 0; i < N_ROWS; i++)
        copy_row (&to, i, &from, rows[i]);
      g_clear_object (&from.array);
      if (hold != NULL)
        test_hold_release (hold);
      test_synchronize (stream);
      g_clear_pointer (&hold, test_hold_free);
      test_array_assert_memory (&to);
    }
}

/* The copies run after earlier writes of the source on another stream, and before later reads of
 * the destination there. */
static void
rows_order (TestFixture *fixture)
{
  const gssize shape[] = { 1000, 64 };
  g_autoptr (GpuStream) other = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuArray) from = gpu_array_new (fixture->context, GPU_DTYPE_UINT8, shape, 2, &error);
  g_autoptr (GpuArray) to = gpu_array_new (fixture->context, GPU_DTYPE_UINT8, shape, 2, &error);
  g_autofree gint64 *rows = choose_rows (1000, 1000);

  g_assert_no_error (error);
  for (guint8 round = 0; round < 30; round++)
    {
      g_autoptr (GBytes) value = g_bytes_new (&round, 1);
      g_autoptr (GBytes) expected = test_value_bytes (64000, round);
      g_autoptr (GBytes) got = NULL;

      test_assert_ok (gpu_stream_fill_array (other, from, value, &error), error);
      test_assert_ok (gpu_stream_take_rows (fixture->stream, to, from, rows, 1000, &error), error);
      got = gpu_array_read_bytes (to, other, GPU_ARRAY_ORDER_C, NULL, &error);
      g_assert_no_error (error);
      test_assert_bytes (got, expected);
    }
}

/* Takes 800 rows, of 64 bytes each, while @mapped is mapped. */
static void
check_mapped (TestFixture  *fixture,
              GpuArray     *from,
              const gint64 *rows,
              gsize         mapped,
              gboolean      is_allowed)
{
  const gssize shape[] = { 800, 64 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuArray) to = gpu_array_new (fixture->context, GPU_DTYPE_UINT8, shape, 2, &error);
  g_autoptr (GpuMapping) mapping = gpu_buffer_map (GPU_BUFFER (gpu_array_get_memory (from)),
                                                   fixture->stream, GPU_MAP_FLAGS_WRITE,
                                                   mapped * 64, 64, NULL, &error);

  g_assert_no_error (error);
  g_assert_cmpint (gpu_stream_take_rows (fixture->stream, to, from, rows, 800, &error), ==,
                   is_allowed);
  if (!is_allowed)
    test_assert_gpu_error (error, GPU_ERROR_BUSY, "gpu_stream_take_rows");
  test_synchronize (fixture->stream);
}

/* The copies use the rows from the least to the greatest of the list, and no other rows: other rows
 * may be mapped. */
static void
rows_mapped (TestFixture *fixture)
{
  const gssize shape[] = { 1000, 64 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuArray) from = gpu_array_new (fixture->context, GPU_DTYPE_UINT8, shape, 2, &error);
  gint64 rows[800];

  g_assert_no_error (error);
  for (guint from_end = 0; from_end < 2; from_end++)
    {
      for (gint64 i = 0; i < 800; i++)
        rows[i] = 100 + i * 7 % 800 - (from_end && i % 3 == 0 ? 1000 : 0);

      check_mapped (fixture, from, rows, 99, TRUE);
      check_mapped (fixture, from, rows, 100, FALSE);
      check_mapped (fixture, from, rows, 899, FALSE);
      check_mapped (fixture, from, rows, 900, TRUE);
    }
}

/* Rows between those of the list may be mapped, and the error names the copy of a mapped row. */
static void
rows_mapped_between (TestFixture *fixture)
{
  const gssize shape[] = { 100, 64 };
  const gint64 rows[] = { 97, 3, -50 };
  const gssize mapped[] = { 51, 49, 4, 96, 3, 50 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuArray) all = gpu_array_new (fixture->context, GPU_DTYPE_UINT8, shape, 2, &error);
  g_autoptr (GpuArray) some = gpu_array_new (fixture->context, GPU_DTYPE_UINT8,
                                             (gssize[]) { 3, 64 }, 2, &error);
  GpuBuffer *buffer = GPU_BUFFER (gpu_array_get_memory (all));

  g_assert_no_error (error);
  for (guint i = 0; i < G_N_ELEMENTS (mapped); i++)
    {
      gboolean is_allowed = i < 4;
      const char *text = mapped[i] == 3 ? "copy 1: bytes 192 to 256" : "copy 2: bytes 3200 to 3264";
      g_autoptr (GpuMapping) mapping = gpu_buffer_map (buffer, fixture->stream,
                                                       GPU_MAP_FLAGS_WRITE, mapped[i] * 64, 64,
                                                       NULL, &error);

      g_assert_no_error (error);
      g_assert_cmpint (gpu_stream_put_rows (fixture->stream, all, some, rows, 3, &error), ==,
                       is_allowed);
      if (!is_allowed)
        test_assert_gpu_error (error, GPU_ERROR_BUSY, "gpu_stream_put_rows", text);
      g_clear_error (&error);
      g_assert_cmpint (gpu_stream_take_rows (fixture->stream, some, all, rows, 3, &error), ==,
                       is_allowed);
      if (!is_allowed)
        test_assert_gpu_error (error, GPU_ERROR_BUSY, "gpu_stream_take_rows", text);
      g_clear_error (&error);
      test_synchronize (fixture->stream);
    }
}

/* If rows of the destination repeat, the error names the position of the copy in the list, for
 * arrays of one context and for copies from host memory, which are single copies. */
static void
rows_mapped_repeated (TestFixture *fixture)
{
  const gssize shape[] = { 100, 64 };
  const gint64 rows[] = { 97, 3, 97, 3, -1, 50, 3 };
  const gsize n = G_N_ELEMENTS (rows);
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) values = test_random_bytes (7 * 64);
  g_autoptr (GpuArray) to = gpu_array_new (fixture->context, GPU_DTYPE_UINT8, shape, 2, &error);
  g_autoptr (GpuHostMemory) host = gpu_host_memory_new_aligned (fixture->context, 64, 7 * 64,
                                                                &error);
  g_autoptr (GpuBuffer) device = test_buffer_from (fixture, values);
  GpuMemory *sources[] = { GPU_MEMORY (device), GPU_MEMORY (host) };

  g_assert_no_error (error);
  memcpy (gpu_host_memory_get_data (host), g_bytes_get_data (values, NULL), 7 * 64);
  for (guint i = 0; i < G_N_ELEMENTS (sources); i++)
    {
      g_autoptr (GpuArray) from = gpu_array_new_for_memory (sources[i], 0, GPU_DTYPE_UINT8,
                                                            (gssize[]) { 7, 64 }, 2, NULL, 0,
                                                            &error);
      g_autoptr (GpuMapping) mapping = NULL;
      g_autoptr (GBytes) got = NULL;

      g_assert_no_error (error);
      mapping = gpu_buffer_map (GPU_BUFFER (gpu_array_get_memory (to)), fixture->stream,
                                GPU_MAP_FLAGS_READ, 50 * 64, 64, NULL, &error);
      g_assert_no_error (error);
      g_assert_false (gpu_stream_put_rows (fixture->stream, to, from, rows, n, &error));
      test_assert_gpu_error (error, GPU_ERROR_BUSY, "gpu_stream_put_rows: copy 5: bytes 3200 to");
      test_assert_ok (gpu_mapping_unmap (mapping, &error), error);
      test_assert_ok (gpu_stream_put_rows (fixture->stream, to, from, rows, n, &error), error);
      got = gpu_array_read_bytes (to, fixture->stream, GPU_ARRAY_ORDER_C, NULL, &error);
      g_assert_no_error (error);
      for (guint at = 2; at < n; at += at == 2 ? 2 : 1)
        test_assert_mem ((const guint8 *) g_bytes_get_data (got, NULL)
                         + (rows[at] < 0 ? rows[at] + 100 : rows[at]) * 64,
                         (const guint8 *) g_bytes_get_data (values, NULL) + at * 64, 64);
    }
}

typedef struct
{
  TestFixture *fixture;
  TestArray   *source;
} Work;

static gpointer
run_copies (gpointer data)
{
  const Work *work = data;
  g_autoptr (GpuStream) stream = test_stream (work->fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GError) error = NULL;
  g_auto (TestArray) to = { NULL, };

  make_rows (&to, work->fixture, WHOLE);
  for (guint round = 0; round < 20; round++)
    {
      g_autofree gint64 *rows = choose_rows (N_ROWS, N_ROWS);

      test_assert_ok (gpu_stream_take_rows (stream, to.array, work->source->array, rows, N_ROWS,
                                            &error), error);
      for (guint i = 0; i < N_ROWS; i++)
        copy_row (&to, i, work->source, rows[i]);
      test_synchronize (stream);
      test_array_assert_memory (&to);
    }
  return NULL;
}

static void
rows_threads (TestFixture *fixture)
{
  g_auto (TestArray) from = { NULL, };
  Work work = { fixture, &from };
  GThread *threads[4];

  make_rows (&from, fixture, REVERSED);
  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    threads[i] = g_thread_new ("rows", run_copies, &work);
  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    g_thread_join (threads[i]);
}

/* Spills and restores the memory of two arrays until the test is done. */
typedef struct
{
  GpuArray *arrays[2];
  gint      n_rounds;               /* atomic; of copies */
  gint      is_done;                /* atomic */
} Mover;

/* Without a pause, the thread that copies might only run while the memory moves. */
static void
let_copy (Mover *mover)
{
  gint n = g_atomic_int_get (&mover->n_rounds);

  while (g_atomic_int_get (&mover->n_rounds) < n + 2 && !g_atomic_int_get (&mover->is_done))
    g_thread_yield ();
}

static gpointer
run_mover (gpointer data)
{
  Mover *mover = data;

  for (guint i = 0; !g_atomic_int_get (&mover->is_done) || i % 4 != 0; i++)
    {
      GpuBuffer *buffer = GPU_BUFFER (gpu_array_get_memory (mover->arrays[i % 2]));
      g_autoptr (GError) error = NULL;

      test_assert_ok (i / 2 % 2 == 0 ? gpu_buffer_spill (buffer, NULL, &error)
                                     : gpu_buffer_unspill (buffer, NULL, &error), error);
      if (i % 4 == 3)
        let_copy (mover);
    }

  return NULL;
}

/* While a thread moves the memory, each copy of rows either runs, with the right memory, or is
 * refused, and changes nothing. The first copies of the context load the kernels meanwhile. */
static void
rows_moved (TestFixture *fixture)
{
  g_autofree gint64 *rows = choose_rows (N_ROWS, N_ROWS);
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_auto (TestArray) to = { NULL, };
  g_auto (TestArray) from = { NULL, };
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = NULL;
  GThread *thread;
  Mover mover;
  guint n_done = 0;

  make_rows (&to, fixture, WHOLE);
  make_rows (&from, fixture, WHOLE);
  for (gint64 i = 0; i < N_ROWS; i++)
    {
      rows[i] = (i * 7 + 3) % N_ROWS;
      copy_row (&to, i, &from, rows[i]);
    }
  bytes = test_array_gather (&to, GPU_ARRAY_ORDER_C);
  test_assert_ok (gpu_array_write_bytes (to.array, NULL, GPU_ARRAY_ORDER_C, bytes, NULL, &error),
                  error);
  mover = (Mover) { .arrays = { to.array, from.array } };
  thread = g_thread_new ("mover", run_mover, &mover);

  for (guint round = 0; round < 400 || n_done < 20; round++)
    {
      if (gpu_stream_take_rows (stream, to.array, from.array, rows, N_ROWS, &error))
        n_done++;
      else
        g_assert_error (error, GPU_ERROR, GPU_ERROR_BUSY);
      g_clear_error (&error);
      if (!gpu_stream_put_rows (stream, from.array, to.array, rows, N_ROWS, &error))
        g_assert_error (error, GPU_ERROR, GPU_ERROR_BUSY);
      g_clear_error (&error);
      g_atomic_int_inc (&mover.n_rounds);
    }

  g_atomic_int_set (&mover.is_done, TRUE);
  g_thread_join (thread);
  test_synchronize (stream);
  test_array_assert_memory (&from);
  test_array_assert_memory (&to);
}

/* A user event fails, for which the copies wait: they do not run, and a wait for them fails. */
static void
rows_behind_failure (TestFixture *fixture)
{
  g_autofree gint64 *rows = choose_rows (N_ROWS, N_ROWS);
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuEvent) event = NULL;
  g_autoptr (GError) error = NULL;
  g_auto (TestArray) to = { NULL, };
  g_auto (TestArray) from = { NULL, };

  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    return;

  make_rows (&to, fixture, WHOLE);
  make_rows (&from, fixture, WHOLE);
  event = test_gate (fixture, stream);
  test_assert_ok (gpu_stream_take_rows (stream, to.array, from.array, rows, N_ROWS, &error), error);
  test_assert_ok (gpu_event_fail (event, "not now", &error), error);
  g_assert_false (gpu_stream_synchronize (stream, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_FAILED, "not now");
}

#ifdef HAVE_CUDA
static void
fill_with (GpuStream *stream,
           GpuArray  *array,
           guint8     value)
{
  g_autoptr (GBytes) bytes = g_bytes_new (&value, 1);
  g_autoptr (GError) error = NULL;

  test_assert_ok (gpu_stream_fill_array (stream, array, bytes, &error), error);
}

/* The driver refuses a launch of a copy of rows. Earlier launches of the copy, of @n_before rows,
 * are pending. The error names the call. Later work of other streams is ordered after the pending
 * launches, and works. */
static void
check_refused_launch (TestFixture *fixture,
                      GpuArray    *to,
                      GpuArray    *from,
                      const char  *fault,
                      gsize        n_before)
{
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuStream) other = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  const gsize n_rows = (gsize) count_rows (to);
  g_autofree gint64 *rows = choose_rows (n_rows, (gssize) n_rows);
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) got = NULL;
  TestHold *hold;
  const guint8 *data;

  fill_with (other, to, 1);
  fill_with (other, from, 2);
  hold = test_hold (stream);
  g_assert_true (GPUMEM_CUDA_DRIVER (set_fail) (fault));
  g_assert_false (gpu_stream_take_rows (stream, to, from, rows, n_rows, &error));
  g_assert_true (GPUMEM_CUDA_DRIVER (set_fail) (""));
  g_assert_nonnull (strstr (error->message, "gpu_stream_take_rows"));
  g_assert_nonnull (strstr (error->message, "cuLaunchKernel"));
  g_clear_error (&error);

  fill_with (other, from, 3);
  test_hold_release (hold);
  got = gpu_array_read_bytes (to, other, GPU_ARRAY_ORDER_C, NULL, &error);
  g_assert_no_error (error);
  data = g_bytes_get_data (got, NULL);
  test_assert_value (data, 2, n_before * WIDTH);
  test_assert_value (data + n_before * WIDTH, 1, (n_rows - n_before) * WIDTH);
  g_clear_pointer (&got, g_bytes_unref);

  test_assert_ok (gpu_stream_take_rows (stream, to, from, rows, n_rows, &error), error);
  got = gpu_array_read_bytes (to, other, GPU_ARRAY_ORDER_C, NULL, &error);
  g_assert_no_error (error);
  test_assert_value (g_bytes_get_data (got, NULL), 3, n_rows * WIDTH);
  test_hold_free (hold);
}

/* Copies to every other element of a row are launches for many rows each. */
static void
rows_launches (TestFixture *fixture)
{
  guint64 (*get_count) (const char *function)
    = gpumem_cuda_driver_symbol ("gpumem_cuda_driver_get_count");
  g_auto (TestArray) to = { NULL, };
  g_auto (TestArray) from = { NULL, };
  guint64 n_calls;

  if (strcmp (gpu_device_get_backend (fixture->device), "cuda") != 0 || get_count == NULL)
    {
      g_test_skip ("only the stand-in for CUDA counts calls");
      return;
    }

  make_strided (&to, fixture, GPU_DTYPE_UINT32, 8, TRUE);
  make_strided (&from, fixture, GPU_DTYPE_UINT32, 8, FALSE);
  for (guint is_put = 0; is_put < 2; is_put++)
    {
      n_calls = get_count ("cuLaunchKernel") + get_count ("cuMemcpy*Async*");
      check_strided (fixture, fixture->stream, &to, &from, is_put);
      n_calls = get_count ("cuLaunchKernel") + get_count ("cuMemcpy*Async*") - n_calls;
      g_test_message ("%" G_GUINT64_FORMAT " calls", n_calls);
      g_assert_cmpuint (n_calls, <, 20);
    }
}

/* Refuses the launch of each of the kernels, and the second launch of a longer copy. */
static void
rows_refused_launch (TestFixture *fixture)
{
  static const struct { gssize n_rows; const char *fault; gsize n_before; gboolean strided; }
    cases[] = {
      { 500, "cuLaunchKernel:1", 0, FALSE }, { 2000, "cuLaunchKernel:1", 0, FALSE },
      { 5000, "cuLaunchKernel:1", 0, FALSE }, { 5000, "cuLaunchKernel:2", 4096, FALSE },
      { 500, "cuLaunchKernel:1", 0, TRUE }, { 500, "cuLaunchKernel:2", 196, TRUE } };

  if (strcmp (gpu_device_get_backend (fixture->device), "cuda") != 0
      || gpumem_cuda_driver_symbol ("gpumem_cuda_driver_set_fail") == NULL)
    {
      g_test_skip ("only the stand-in for CUDA fails on demand");
      return;
    }

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      const gssize shape[] = { cases[i].n_rows, WIDTH };
      g_autoptr (GError) error = NULL;
      g_autoptr (GpuArray) from = gpu_array_new_full (fixture->context, NULL, NULL,
                                                      GPU_DTYPE_UINT8, shape, 2,
                                                      cases[i].strided ? GPU_ARRAY_ORDER_F
                                                      : GPU_ARRAY_ORDER_C, &error);
      g_autoptr (GpuArray) to = gpu_array_new (fixture->context, GPU_DTYPE_UINT8, shape, 2, &error);

      g_assert_no_error (error);
      check_refused_launch (fixture, to, from, cases[i].fault, cases[i].n_before);
    }
}
#endif

static GpuArray *
make_bytes (GpuBuffer *buffer,
            gsize      offset,
            gssize     n_rows,
            gssize     width)
{
  g_autoptr (GError) error = NULL;
  GpuArray *array = gpu_array_new_for_memory (GPU_MEMORY (buffer), offset, GPU_DTYPE_UINT8,
                                              (gssize[]) { n_rows, width }, 2, NULL, 0, &error);

  g_assert_no_error (error);
  return array;
}

/* --- refusals ----------------------------------------------------------------------------- */

static void
assert_refused (TestFixture *fixture,
                GpuArray    *numbered,
                GpuArray    *other,
                gint64       row,
                const char  *text,
                const char  *more)
{
  const gint64 rows[] = { 1, 0, row };
  g_autoptr (GError) error = NULL;

  g_assert_false (gpu_stream_take_rows (fixture->stream, other, numbered, rows, 3, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_stream_take_rows", text, more);
  g_clear_error (&error);
  g_assert_false (gpu_stream_put_rows (fixture->stream, numbered, other, rows, 3, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_stream_put_rows", text, more);
}

/* The same for one number at any position of a long list. */
static void
rows_refused_in_long_list (TestFixture *fixture)
{
  const gint64 refused[] = { 200, -201, G_MAXINT32, (gint64) G_MAXINT32 + 1, G_MAXUINT32,
                             G_GINT64_CONSTANT (0x100000005), -(G_GINT64_CONSTANT (1) << 40) };
  const guint positions[] = { 0, 63, 64, 127, 128, 199 };
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, 400, 7);
  g_autoptr (GpuArray) from = make_bytes (buffer, 0, 200, 1);
  g_autoptr (GpuArray) to = make_bytes (buffer, 200, 200, 1);
  g_autoptr (GBytes) before = test_content (buffer);
  g_autoptr (GBytes) after = NULL;
  gint64 rows[200];

  for (guint i = 0; i < 200; i++)
    rows[i] = i * 7 % 200;

  for (guint i = 0; i < G_N_ELEMENTS (refused) * G_N_ELEMENTS (positions); i++)
    {
      const guint position = positions[i % G_N_ELEMENTS (positions)];
      const gint64 number = refused[i / G_N_ELEMENTS (positions)];
      g_autofree char *text = g_strdup_printf ("row %" G_GINT64_FORMAT " at position %u", number,
                                               position);
      g_autoptr (GError) error = NULL;

      rows[position] = number;
      g_assert_false (gpu_stream_take_rows (fixture->stream, to, from, rows, 200, &error));
      test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, text, "with 200 rows");
      rows[position] = position * 7 % 200;
    }

  after = test_content (buffer);
  test_assert_bytes (after, before);
}

/* If one number is out of bounds, no row is copied. The error names the number and its position. */
static void
rows_refused (TestFixture *fixture)
{
  const gssize shape[] = { 3, WIDTH }, short_shape[] = { 3, WIDTH - 1 };
  const gint64 rows[] = { 1, 0, 2 };
  g_auto (TestArray) from = { NULL, };
  g_auto (TestArray) to = { NULL, };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuArray) numbers = NULL;
  g_autoptr (GpuArray) narrow = NULL;
  g_autoptr (GpuArray) number = NULL;
  g_autoptr (GpuArray) shared = NULL;

  make_rows (&from, fixture, WHOLE);
  test_array_init (&to, fixture, GPU_DTYPE_FLOAT32, shape, 2, GPU_ARRAY_ORDER_C);
  numbers = gpu_array_new (fixture->context, GPU_DTYPE_INT32, shape, 2, &error);
  narrow = gpu_array_new (fixture->context, GPU_DTYPE_FLOAT32, short_shape, 2, &error);
  number = gpu_array_new (fixture->context, GPU_DTYPE_FLOAT32, NULL, 0, &error);
  shared = gpu_array_broadcast (number, shape, 2, &error);
  g_assert_no_error (error);
  assert_refused (fixture, from.array, to.array, N_ROWS, "row 48 at position 2", "with 48 rows");
  assert_refused (fixture, from.array, to.array, -N_ROWS - 1, "row -49 at position 2", "48 rows");
  assert_refused (fixture, from.array, to.array, G_MININT64, "row -9223372036854775808", "48");
  assert_refused (fixture, from.array, to.array, G_MAXINT64, "row 9223372036854775807", "48");
  assert_refused (fixture, from.array, numbers, 2, "type", "int32");
  assert_refused (fixture, from.array, narrow, 2, "(3, 23)", "(3, 24)");
  assert_refused (fixture, number, to.array, 2, "no dimensions", "no rows");
  g_assert_false (gpu_stream_take_rows (fixture->stream, shared, from.array, rows, 3, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "share memory");
  g_clear_error (&error);
  g_assert_false (gpu_stream_take_rows (fixture->stream, to.array, from.array, rows, 2, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "(3, 24)", "2 rows", "(2, 24)");
  g_clear_error (&error);
  test_array_assert_memory (&to);
  test_array_assert_memory (&from);
  gpu_memory_release (gpu_array_get_memory (from.array));
  g_assert_false (gpu_stream_take_rows (fixture->stream, to.array, from.array, rows, 3, &error));
  test_assert_gpu_error (error, GPU_ERROR_RELEASED, "gpu_stream_take_rows");
}

/* --- many rows ------------------------------------------------------------------------- */

/* Copies @n of n + 3 rows in a random order, without repeated numbers. */
static void
check_many (TestFixture *fixture,
            gsize        n,
            gsize        width,
            gboolean     is_put)
{
  const gsize sizes[] = { (is_put ? n + 3 : n) * width, (is_put ? n : n + 3) * width };
  const gsize offsets[] = { 3, width % 4 };             /* so that the rows have any alignment */
  g_autofree gint64 *rows = g_new (gint64, n + 3);
  g_autoptr (GBytes) target = test_random_bytes (sizes[0] + offsets[0]);
  g_autoptr (GBytes) data = test_random_bytes (sizes[1] + offsets[1]);
  g_autoptr (GpuBuffer) to_buffer = test_buffer_from (fixture, target);
  g_autoptr (GpuBuffer) from_buffer = test_buffer_from (fixture, data);
  g_autoptr (GpuArray) to = make_bytes (to_buffer, offsets[0], sizes[0] / width, width);
  g_autoptr (GpuArray) from = make_bytes (from_buffer, offsets[1], sizes[1] / width, width);
  g_autofree guint8 *model = g_memdup2 (g_bytes_get_data (target, NULL), g_bytes_get_size (target));
  const guint8 *source = g_bytes_get_data (data, NULL);
  g_autoptr (GBytes) expected = NULL;
  g_autoptr (GBytes) content = NULL;
  g_autoptr (GError) error = NULL;

  for (gsize i = 0; i < n + 3; i++)
    {
      gsize j = g_test_rand_int_range (0, i + 1);

      rows[i] = rows[j];
      rows[j] = i;
    }
  for (gsize i = 0; i < n; i++)
    memcpy (model + offsets[0] + (is_put ? rows[i] : (gint64) i) * width,
            source + offsets[1] + (is_put ? (gint64) i : rows[i]) * width, width);
  if (is_put)
    test_assert_ok (gpu_stream_put_rows (fixture->stream, to, from, rows, n, &error), error);
  else
    test_assert_ok (gpu_stream_take_rows (fixture->stream, to, from, rows, n, &error), error);
  test_synchronize (fixture->stream);
  content = test_content (to_buffer);
  expected = g_bytes_new (model, g_bytes_get_size (target));
  g_assert_true (g_bytes_equal (content, expected));
}

/* More rows than a launch of a kernel copies, and rows of more than one block */
static void
rows_many (TestFixture *fixture)
{
  const gsize numbers[] = { 3, 4, 1010, 1011, 4096, 4097, 9000 };
  const gsize widths[] = { 1, 12, 16, 1000, 16384, 40001 };

  for (guint is_put = 0; is_put < 2; is_put++)
    {
      for (guint i = 0; i < G_N_ELEMENTS (numbers); i++)
        check_many (fixture, numbers[i], 16 + i, is_put);
      for (guint i = 0; i < G_N_ELEMENTS (widths); i++)
        check_many (fixture, 20, widths[i], is_put);
    }
}

/* --- no memory ------------------------------------------------------------------------- */

/* Atomic; the number of allocations before the one that fails; negative if none fails */
static gint refused_in = -1;

static gpointer
try_alloc (const char *function,
           gsize       n,
           gsize       size)
{
  if (g_atomic_int_get (&refused_in) >= 0 && g_atomic_int_add (&refused_in, -1) == 0)
    return NULL;

  return ((gpointer (*) (gsize, gsize)) dlsym (RTLD_NEXT, function)) (n, size);
}

gpointer
g_try_malloc_n (gsize n,
                gsize size)
{
  return try_alloc ("g_try_malloc_n", n, size);
}

gpointer
g_try_malloc0_n (gsize n,
                 gsize size)
{
  return try_alloc ("g_try_malloc0_n", n, size);
}

typedef gboolean (*CopyFunc) (GpuStream *stream,
                              GpuArray  *to,
                              GpuArray  *from,
                              GError   **error);

static gboolean
put_unique (GpuStream *stream,
            GpuArray  *to,
            GpuArray  *from,
            GError   **error)
{
  return gpu_stream_put_rows (stream, to, from, (gint64[]) { 2, 0, 3, 1 }, 4, error);
}

static gboolean
put_repeated (GpuStream *stream,
              GpuArray  *to,
              GpuArray  *from,
              GError   **error)
{
  return gpu_stream_put_rows (stream, to, from, (gint64[]) { 2, 0, 2, 1 }, 4, error);
}

static gboolean
take (GpuStream *stream,
      GpuArray  *to,
      GpuArray  *from,
      GError   **error)
{
  return gpu_stream_take_rows (stream, to, from, (gint64[]) { 2, 0, 2, 1 }, 4, error);
}

static gboolean
copy_batch (GpuStream *stream,
            GpuArray  *to,
            GpuArray  *from,
            GError   **error)
{
  GpuMemory *memories[] = { gpu_array_get_memory (to), gpu_array_get_memory (from) };
  const guint64 ranges[] = { 0, 3, 1, 0, 5, 0, 8, 1, 5, 5 };

  return gpu_stream_copy_batch (stream, memories, G_N_ELEMENTS (memories), ranges,
                                G_N_ELEMENTS (ranges), error);
}

/* Each list of a copy has as many elements as the program asks for. If the host has no memory for
 * one of them, the copy fails, and the process does not end. `n_lists` are the lists of each copy
 * and back end: a list whose failure would end the process is missing in the count. */
static void
rows_no_memory (TestFixture *fixture)
{
  static const CopyFunc copies[] = { put_unique, put_repeated, take, copy_batch };
  static const struct { const char *backend; gint n_lists[G_N_ELEMENTS (copies)]; } counts[] = {
    { "host", { 4, 10, 3, 6 } }, { "cuda", { 2, 9, 1, 5 } }, { "opencl", { 3, 9, 2, 5 } }
  };
  const char *backend = gpu_device_get_backend (fixture->device);
  guint row = 0;
  g_autoptr (GpuBuffer) to_buffer = test_buffer (fixture, 100);
  g_autoptr (GpuBuffer) from_buffer = test_buffer (fixture, 100);
  g_autoptr (GpuArray) to = make_bytes (to_buffer, 3, 4, 5);
  g_autoptr (GpuArray) from = make_bytes (from_buffer, 0, 4, 5);

  while (!g_str_equal (counts[row].backend, backend))
    g_assert_cmpuint (++row, <, G_N_ELEMENTS (counts));

  for (guint i = 0; i < G_N_ELEMENTS (copies); i++)
    {
      gboolean success = FALSE;

      for (gint n = 0; !success; n++)
        {
          g_autoptr (GError) error = NULL;

          g_atomic_int_set (&refused_in, n);
          success = copies[i] (fixture->stream, to, from, &error);
          if (success)
            g_assert_cmpint (n, >=, counts[row].n_lists[i]);
          else
            test_assert_gpu_error (error, GPU_ERROR_OUT_OF_HOST_MEMORY, "gpu_stream_", "allocate");
        }
      g_atomic_int_set (&refused_in, -1);
    }
  test_synchronize (fixture->stream);
}

/* Rows of managed memory, which the kernel of the CUDA back end does not copy. On devices without
 * concurrent access, streams attach this memory before the copy. */
static void
rows_managed (TestFixture *fixture)
{
  static const gint64 numbers[] = { 5, 2, 7, 0, 6 };
  const gssize shape[] = { 8, WIDTH };
  const gssize taken_shape[] = { G_N_ELEMENTS (numbers), WIDTH };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuDType) dtype = gpu_dtype_new (GPU_DTYPE_KIND_UINT, 1, &error);
  g_autoptr (GBytes) bytes = test_random_bytes (8 * WIDTH);
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, G_N_ELEMENTS (numbers) * WIDTH);
  g_autoptr (GpuSvm) svm = NULL;
  g_autoptr (GpuArray) source = NULL;
  g_autoptr (GpuArray) taken = NULL;
  g_autoptr (GBytes) got = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_SVM_COARSE))
    return;
  svm = gpu_svm_new (fixture->context, GPU_MEMORY_FLAGS_NONE, GPU_SVM_FLAGS_NONE, 8 * WIDTH, 0,
                     &error);
  g_assert_no_error (error);
  test_assert_ok (gpu_stream_write (fixture->stream, GPU_MEMORY (svm), 0, bytes, &error), error);
  source = gpu_array_new_for_memory (GPU_MEMORY (svm), 0, dtype, shape, 2, NULL, 0, &error);
  g_assert_no_error (error);
  taken = gpu_array_new_for_memory (GPU_MEMORY (buffer), 0, dtype, taken_shape, 2, NULL, 0, &error);
  g_assert_no_error (error);
  test_assert_ok (gpu_stream_take_rows (fixture->stream, taken, source, numbers,
                                        G_N_ELEMENTS (numbers), &error), error);
  got = test_content (buffer);
  for (gsize i = 0; i < G_N_ELEMENTS (numbers); i++)
    test_assert_mem ((const guint8 *) g_bytes_get_data (got, NULL) + i * WIDTH,
                     (const guint8 *) g_bytes_get_data (bytes, NULL) + numbers[i] * WIDTH, WIDTH);
}

int
main (int   argc,
      char *argv[])
{
  test_init (&argc, &argv);
  test_add ("layouts", rows_layouts);
  test_add ("shapes", rows_shapes);
  test_add ("overlap", rows_overlap);
  test_add ("broadcast", rows_broadcast);
  test_add ("repeated", rows_repeated);
  test_add ("strided", rows_strided);
  test_add ("whole-out-of-order", rows_whole_out_of_order);
  test_add ("strided-overlap", rows_strided_overlap);
  test_add ("mapped-strided", rows_mapped_strided);
  test_add ("references", rows_references);
  test_add ("order", rows_order);
  test_add ("mapped", rows_mapped);
  test_add ("mapped-between", rows_mapped_between);
  test_add ("mapped-repeated", rows_mapped_repeated);
  test_add ("threads", rows_threads);
  test_add ("moved", rows_moved);
#ifdef HAVE_CUDA
  test_add ("launches", rows_launches);
  test_add ("refused-launch", rows_refused_launch);
#endif
  test_add ("behind-failure", rows_behind_failure);
  test_add ("refused", rows_refused);
  test_add ("refused-in-long-list", rows_refused_in_long_list);
  test_add ("managed", rows_managed);
  test_add ("many", rows_many);
  test_add ("no-memory", rows_no_memory);

  return test_run ();
}
