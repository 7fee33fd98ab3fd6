/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Copies of the rows of an array, which are its elements along the first axis, by a list of their
 * numbers. */
#include "config.h"

#include "gpumem/array/gpu-array-io-private.h"
#include "gpumem/array/gpu-array-kernel-private.h"
#include "gpumem/base/gpu-error-private.h"
#include "gpumem/command/gpu-command-private.h"

/* The numbers that describe a copy, as in gpu_stream_copy_batch() */
#define N_NUMBERS 5

/* The compiler only vectorizes loops whose number of iterations it knows. */
#define N_VECTORIZED 64

typedef struct
{
  const char      *function;
  GpuArray        *destination;
  GpuArray        *source;
  GpuArrayLayout   to;
  GpuArrayLayout   from;
  gboolean         is_put;          /* whether the numbers are of rows of the destination */
  const gint64    *rows;
  gsize            n_rows;
  gboolean         is_counted;      /* whether all numbers are counted from the first row, and are
                                     * less than 2^31; set by check_rows() */
  gint64           first;           /* the least number, counted from the first row; likewise */
  gint64           last;            /* the greatest number; likewise */
} Rows;

/* --- checks --------------------------------------------------------------------------- */

/* Returns the layout whose rows the numbers are of. */
static const GpuArrayLayout *
get_numbered (const Rows *rows)
{
  return rows->is_put ? &rows->to : &rows->from;
}

/* Returns the number of a row, counted from the first row. */
static gsize
get_row (const Rows *rows,
         gsize       i)
{
  const gint64 row = rows->rows[i];

  return (gsize) (row < 0 ? row + get_numbered (rows)->shape[0] : row);
}

/* The bits that occur in numbers of rows, and the least and the greatest of their lower halves */
typedef struct
{
  guint64 bits;
  gint32  least;
  gint32  greatest;
} Summary;

static inline __attribute__ ((always_inline)) void
summarize (const gint64 *rows,
           gsize         n_rows,
           Summary      *summary)
{
  Summary next = *summary;

  for (gsize i = 0; i < n_rows; i++)
    {
      const gint32 low = (gint32) rows[i];

      next.bits |= (guint64) rows[i];
      next.least = MIN (next.least, low);
      next.greatest = MAX (next.greatest, low);
    }

  *summary = next;
}

/* Finds the first and the last row of a list of numbers from 0 to 2^31 - 1. Returns FALSE if the
 * list has other numbers. */
static gboolean
find_counted_rows (Rows *rows)
{
  Summary summary = { 0, G_MAXINT32, 0 };
  gsize i = 0;

  for (; i + N_VECTORIZED <= rows->n_rows; i += N_VECTORIZED)
    summarize (rows->rows + i, N_VECTORIZED, &summary);
  summarize (rows->rows + i, rows->n_rows - i, &summary);

  rows->first = summary.least;
  rows->last = summary.greatest;
  rows->is_counted = summary.bits <= G_MAXINT32;

  return rows->is_counted;
}

static gboolean
check_row (const Rows  *rows,
           gsize        i,
           gint64       n,
           GError     **error)
{
  if (rows->rows[i] >= -n && rows->rows[i] < n)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s: row %" G_GINT64_FORMAT " at position %" G_GSIZE_FORMAT " of the list is out"
               " of bounds for an array with %" G_GINT64_FORMAT " rows", rows->function,
               rows->rows[i], i, n);

  return FALSE;
}

/* Checks the numbers, and sets the members of @rows that summarize them. */
static gboolean
check_rows (Rows    *rows,
            GError **error)
{
  const GpuArrayLayout *layout = get_numbered (rows);
  gint64 n;

  if (layout->n_dims == 0)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "%s: the %s has no dimensions, so it has no rows", rows->function,
                   rows->is_put ? "destination" : "source");
      return FALSE;
    }

  n = layout->shape[0];
  if (find_counted_rows (rows) && rows->last < n)
    return TRUE;

  rows->first = G_MAXINT64;
  rows->last = 0;
  for (gsize i = 0; i < rows->n_rows; i++)
    {
      if (!check_row (rows, i, n, error))
        return FALSE;

      rows->first = MIN (rows->first, (gint64) get_row (rows, i));
      rows->last = MAX (rows->last, (gint64) get_row (rows, i));
    }

  return TRUE;
}

/* Broadcasts the source of put_rows(), and checks the shape of the destination of take_rows(). */
static gboolean
match_shapes (Rows    *rows,
              GError **error)
{
  g_autofree char *expected = NULL;
  g_autofree char *shape = NULL;
  GpuArrayLayout rows_layout = *get_numbered (rows);

  rows_layout.shape[0] = rows->n_rows;
  if (rows->is_put)
    return _gpu_array_layout_broadcast (&rows->from, rows_layout.shape, rows_layout.n_dims,
                                        rows->function, error);

  if (_gpu_array_layout_same_shape (&rows->to, &rows_layout))
    return TRUE;

  expected = _gpu_array_numbers_to_string (rows_layout.shape, rows_layout.n_dims);
  shape = _gpu_array_numbers_to_string (rows->to.shape, rows->to.n_dims);
  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s: the destination has the shape %s, but %" G_GSIZE_FORMAT " rows of the source "
               "have the shape %s", rows->function, shape, rows->n_rows, expected);

  return FALSE;
}

/* --- the copies ------------------------------------------------------------------------ */

/* Sets @row to the layout of the first row of @layout. */
static void
get_first_row (const GpuArrayLayout *layout,
               GpuArrayLayout       *row)
{
  *row = *layout;
  row->n_dims--;
  memmove (row->shape, layout->shape + 1, row->n_dims * sizeof *row->shape);
  memmove (row->strides, layout->strides + 1, row->n_dims * sizeof *row->strides);
}

/* Sets @seen to a bit for each row of the destination of put_rows(), and otherwise to NULL. */
static gboolean
alloc_seen (const Rows  *rows,
            guint8     **seen,
            GError     **error)
{
  *seen = NULL;

  if (rows->is_put)
    *seen = _gpu_try_alloc0 (rows->function, (gsize) rows->to.shape[0] / 8 + 1, 1, error);

  return *seen != NULL || !rows->is_put;
}

/* Returns whether a row has occurred before. @seen is from alloc_seen(). */
static gboolean
has_occurred (guint8 *seen,
              gsize   row)
{
  const guint8 bit = 1 << row % 8;

  if (seen == NULL)
    return FALSE;

  if ((seen[row / 8] & bit) != 0)
    return TRUE;

  seen[row / 8] |= bit;

  return FALSE;
}

/* Lists the copies of rows of @size bytes, in the order of the list. For a row that occurs several
 * times in the destination, all copies but the last are of 0 bytes, so that each copy has the
 * position of its row in the list. */
static gboolean
list_copies (const Rows  *rows,
             gsize        size,
             guint64     *ranges,
             GError     **error)
{
  g_autofree guint8 *seen = NULL;

  if (!alloc_seen (rows, &seen, error))
    return FALSE;

  for (gsize i = rows->n_rows; i-- > 0;)
    {
      const gsize row = get_row (rows, i);
      const gsize to = rows->is_put ? row : i;
      const gsize from = rows->is_put ? i : row;
      guint64 *range = ranges + i * N_NUMBERS;

      range[0] = 0;
      range[1] = rows->to.offset + to * (gsize) rows->to.strides[0];
      range[2] = 1;
      range[3] = rows->from.offset + from * (gsize) rows->from.strides[0];
      range[4] = has_occurred (seen, row) ? 0 : size;
    }

  return TRUE;
}

static inline __attribute__ ((always_inline)) void
narrow (const gint64 *rows,
        gsize         n_rows,
        guint32      *numbers)
{
  for (gsize i = 0; i < n_rows; i++)
    numbers[i] = (guint32) rows[i];
}

/* Lists the numbers of the rows, counted from the first row. */
static void
list_numbers (const Rows *rows,
              guint32    *numbers)
{
  gsize i = 0;

  for (; rows->is_counted && i + N_VECTORIZED <= rows->n_rows; i += N_VECTORIZED)
    narrow (rows->rows + i, N_VECTORIZED, numbers + i);

  for (; i < rows->n_rows; i++)
    numbers[i] = (guint32) get_row (rows, i);
}

/* Sets @unique to whether each row of the destination occurs once. */
static gboolean
check_unique (const Rows     *rows,
              const guint32  *numbers,
              gboolean       *unique,
              GError        **error)
{
  g_autofree guint8 *seen = NULL;

  *unique = TRUE;
  if (!alloc_seen (rows, &seen, error))
    return FALSE;

  for (gsize i = 0; seen != NULL && *unique && i < rows->n_rows; i++)
    *unique = !has_occurred (seen, numbers[i]);

  return TRUE;
}

/* Copies contiguous rows with one operation, which needs no list of copies. */
static gboolean
copy_numbered (const Rows     *rows,
               GpuTimeline    *timeline,
               const guint32  *numbers,
               gsize           size,
               GError        **error)
{
  const GpuBufferRowCopy copy = {
    .destination_offset = rows->to.offset, .destination_step = rows->to.strides[0],
    .source_offset = rows->from.offset, .source_step = rows->from.strides[0],
    .size = size, .rows = numbers, .n_rows = rows->n_rows, .is_put = rows->is_put
  };

  return _gpu_timeline_copy_rows (timeline, rows->function, rows->destination->memory,
                                  rows->source->memory, &copy, (guint32) rows->first,
                                  (guint32) rows->last, error);
}

/* Checks the copies before the first of them, so that refused copies change nothing. */
static gboolean
check_each (const Rows      *rows,
            GpuArrayLayout  *to,
            GpuArrayLayout  *from,
            const guint64   *ranges,
            GError         **error)
{
  GpuMemory *to_memory = rows->destination->memory;
  GpuMemory *from_memory = rows->source->memory;

  for (gsize i = 0; i < rows->n_rows; i++, ranges += N_NUMBERS)
    {
      g_autofree char *function = NULL;

      to->offset = ranges[1];
      from->offset = ranges[3];
      if (ranges[4] == 0 || _gpu_array_check_mappings (to_memory, to, from_memory, from,
                                                       rows->function, NULL))
        continue;

      function = g_strdup_printf ("%s: copy %" G_GSIZE_FORMAT, rows->function, i);
      if (!_gpu_array_check_mappings (to_memory, to, from_memory, from, function, error))
        return FALSE;
    }

  return TRUE;
}

/* Copies one row after the other, for rows with gaps between their elements. */
static gboolean
copy_each (const Rows      *rows,
           GpuTimeline     *timeline,
           GpuArrayLayout  *to,
           GpuArrayLayout  *from,
           const guint64   *ranges,
           GError         **error)
{
  for (gsize i = 0; i < rows->n_rows; i++, ranges += N_NUMBERS)
    {
      g_autoptr (GpuArray) to_row = NULL;
      g_autoptr (GpuArray) from_row = NULL;

      if (ranges[4] == 0)
        continue;

      to->offset = ranges[1];
      from->offset = ranges[3];
      to_row = _gpu_array_new (rows->destination->context, rows->destination->memory,
                               rows->destination->dtype, to);
      from_row = _gpu_array_new (rows->source->context, rows->source->memory, rows->source->dtype,
                                 from);
      if (!_gpu_array_copy_to (to_row, timeline, from_row, rows->function, error))
        return FALSE;
    }

  return TRUE;
}

/* For a row that occurs several times in the destination, marks all but the last of its copies. */
static gboolean
mark_repeated (const Rows  *rows,
               guint32     *numbers,
               GError     **error)
{
  g_autofree guint8 *seen = NULL;

  if (!alloc_seen (rows, &seen, error))
    return FALSE;

  for (gsize i = seen != NULL ? rows->n_rows : 0; i-- > 0;)
    if (has_occurred (seen, numbers[i]))
      numbers[i] = G_MAXUINT32;

  return TRUE;
}

/* Copies many rows with each launch of a kernel. Sets @success if a kernel suits the copy. */
static gboolean
copy_by_kernel (const Rows           *rows,
                GpuTimeline          *timeline,
                const GpuArrayLayout *to,
                const GpuArrayLayout *from,
                guint32              *numbers,
                gboolean             *success,
                GError              **error)
{
  GpuArrayRowCopy copy = {
    .to = rows->destination, .to_step = rows->to.strides[0],
    .from = rows->source, .from_step = rows->from.strides[0],
    .rows = numbers, .n_rows = rows->n_rows, .is_put = rows->is_put
  };
  GpuArrayKernelCopy kernel;

  _gpu_array_plan_init (&copy.plan, to, from);

  if (!_gpu_array_kernel_prepare_rows (&kernel, timeline, &copy))
    return FALSE;

  *success = mark_repeated (rows, numbers, error)
             && _gpu_array_kernel_run_rows (&kernel, timeline, &copy, rows->function, error);

  return TRUE;
}

/* Copies the rows with few operations, without a list of the copies. @to and @from are the first
 * rows, and contiguous if @whole is TRUE. Returns FALSE if neither a kernel nor the back end can do
 * that, and otherwise sets @success. */
static gboolean
copy_listed (const Rows           *rows,
             GpuTimeline          *timeline,
             const GpuArrayLayout *to,
             const GpuArrayLayout *from,
             gboolean              whole,
             gboolean             *success,
             GError              **error)
{
  const gboolean is_batched = whole && _gpu_timeline_can_copy_rows (timeline,
                                                                    rows->destination->memory,
                                                                    rows->source->memory);
  g_autofree guint32 *numbers = NULL;
  gboolean unique;

  if (get_numbered (rows)->shape[0] > G_MAXUINT32)
    return FALSE;

  numbers = _gpu_try_alloc (rows->function, rows->n_rows, sizeof *numbers, error);
  *success = FALSE;
  if (numbers == NULL)
    return TRUE;

  list_numbers (rows, numbers);
  if (!is_batched)
    return copy_by_kernel (rows, timeline, to, from, numbers, success, error);

  *success = check_unique (rows, numbers, &unique, error);
  if (*success && !unique)
    return FALSE;

  *success = *success && copy_numbered (rows, timeline, numbers, _gpu_array_layout_get_size (to),
                                        error);

  return TRUE;
}

static gboolean
copy_apart (Rows         *rows,
            GpuTimeline  *timeline,
            GError      **error)
{
  GpuMemory *memories[] = { rows->destination->memory, rows->source->memory };
  g_autofree guint64 *ranges = NULL;
  GpuArrayLayout to, from;
  gboolean whole, success;
  gsize size;

  get_first_row (&rows->to, &to);
  get_first_row (&rows->from, &from);
  size = _gpu_array_layout_get_size (&to);
  whole = _gpu_array_layout_is_contiguous (&to, GPU_ARRAY_ORDER_C)
          && _gpu_array_layout_is_contiguous (&from, GPU_ARRAY_ORDER_C);

  if (copy_listed (rows, timeline, &to, &from, whole, &success, error))
    return success;

  ranges = _gpu_try_alloc (rows->function, rows->n_rows, N_NUMBERS * sizeof *ranges, error);
  if (ranges == NULL || !list_copies (rows, size, ranges, error))
    return FALSE;

  if (whole)
    return _gpu_timeline_copy_batch (timeline, rows->function, memories, G_N_ELEMENTS (memories),
                                     ranges, rows->n_rows * N_NUMBERS, error);

  return check_each (rows, &to, &from, ranges, error)
         && copy_each (rows, timeline, &to, &from, ranges, error);
}

static gboolean
copy_rows (Rows       *rows,
           GpuStream  *stream,
           GError    **error)
{
  GpuTimeline *timeline = _gpu_stream_get_timeline (stream, rows->function, error);
  g_autoptr (GpuArray) apart = NULL;

  if (timeline == NULL || !_gpu_array_check (rows->destination, rows->function, error)
      || !_gpu_array_check (rows->source, rows->function, error)
      || !_gpu_array_check_copy (rows->destination, rows->source, rows->function, error))
    return FALSE;

  rows->to = rows->destination->layout;
  rows->from = rows->source->layout;
  if (!check_rows (rows, error) || !match_shapes (rows, error))
    return FALSE;

  if (rows->n_rows == 0 || _gpu_array_layout_get_n_elements (&rows->to) == 0)
    return TRUE;

  if (!_gpu_memory_check (rows->destination->memory, rows->function, error)
      || !_gpu_memory_check (rows->source->memory, rows->function, error))
    return FALSE;

  if (!_gpu_array_meets (rows->destination, rows->source))
    return copy_apart (rows, timeline, error);

  apart = gpu_array_new_like (rows->source, NULL, NULL, error);
  if (apart == NULL || !_gpu_array_copy_to (apart, timeline, rows->source, rows->function, error))
    return FALSE;

  rows->source = apart;
  rows->from = apart->layout;

  return match_shapes (rows, error) && copy_apart (rows, timeline, error);
}

/**
 * gpu_stream_take_rows:
 * @stream: a #GpuStream
 * @destination: an array of @n_rows rows
 * @source: an array of the same type, whose rows have the same shape. One of the two arrays is of
 *   the stream's context
 * @rows: (array length=n_rows): the numbers of the rows of @source, which may repeat; a negative
 *   number counts from the end
 * @n_rows: number of elements in @rows
 * @error: return location for an error
 *
 * Copies rows of @source, which are its elements along the first axis, to all rows of @destination:
 * row i of @destination becomes row @rows[i] of @source, as with take() of NumPy. The two arrays
 * may overlap.
 *
 * If the elements of a row are contiguous in both arrays, all copies are one operation, as with
 * gpu_stream_copy_batch(). Otherwise, and in streams with %GPU_STREAM_FLAGS_OUT_OF_ORDER or
 * %GPU_STREAM_FLAGS_PROFILING, each launch of a kernel copies many rows. This requires more than a
 * few rows, a device with a compiler, and memory that kernels can access and that is not mapped. In
 * all other cases, the function copies each row as gpu_stream_copy_array() does. Blocks under the
 * same conditions as these functions. The library reads @rows before the function returns, and
 * holds references to the memory of both arrays until the copies complete.
 *
 * All numbers and mappings are checked before the first copy. If the library or a driver refuses a
 * copy after that, other copies may still take place.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_INVALID_ARGUMENT if a number is out of bounds, @source
 *   has no dimensions, the types or the shapes do not match, or #GpuArray:shares-bytes of
 *   @destination is %TRUE; or with an error of gpu_stream_copy_batch() or gpu_stream_copy_array()
 *
 * Since: 0.1
 */
gboolean
gpu_stream_take_rows (GpuStream     *stream,
                      GpuArray      *destination,
                      GpuArray      *source,
                      const gint64  *rows,
                      gsize          n_rows,
                      GError       **error)
{
  Rows list = { .function = "gpu_stream_take_rows", .destination = destination, .source = source,
                .rows = rows, .n_rows = n_rows };

  g_return_val_if_fail (GPU_IS_STREAM (stream), FALSE);
  g_return_val_if_fail (GPU_IS_ARRAY (destination), FALSE);
  g_return_val_if_fail (GPU_IS_ARRAY (source), FALSE);
  g_return_val_if_fail (rows != NULL || n_rows == 0, FALSE);

  return copy_rows (&list, stream, error);
}

/**
 * gpu_stream_put_rows:
 * @stream: a #GpuStream
 * @destination: an array
 * @source: an array of the same type. One of the two arrays is of the stream's context
 * @rows: (array length=n_rows): the numbers of the rows of @destination; a negative number counts
 *   from the end
 * @n_rows: number of elements in @rows
 * @error: return location for an error
 *
 * Copies the rows of @source to rows of @destination: row @rows[i] of @destination becomes row i of
 * @source. @source is broadcast to @n_rows rows of the shape of those of @destination, see
 * gpu_array_broadcast(). If a number occurs several times, its last position counts. Otherwise like
 * gpu_stream_take_rows().
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_INVALID_ARGUMENT if a number is out of bounds,
 *   @destination has no dimensions, the types do not match, @source cannot be broadcast to the
 *   shape of the rows, or #GpuArray:shares-bytes of @destination is %TRUE; or with an error of
 *   gpu_stream_copy_batch() or gpu_stream_copy_array()
 *
 * Since: 0.1
 */
gboolean
gpu_stream_put_rows (GpuStream     *stream,
                     GpuArray      *destination,
                     GpuArray      *source,
                     const gint64  *rows,
                     gsize          n_rows,
                     GError       **error)
{
  Rows list = { .function = "gpu_stream_put_rows", .destination = destination, .source = source,
                .is_put = TRUE, .rows = rows, .n_rows = n_rows };

  g_return_val_if_fail (GPU_IS_STREAM (stream), FALSE);
  g_return_val_if_fail (GPU_IS_ARRAY (destination), FALSE);
  g_return_val_if_fail (GPU_IS_ARRAY (source), FALSE);
  g_return_val_if_fail (rows != NULL || n_rows == 0, FALSE);

  return copy_rows (&list, stream, error);
}
