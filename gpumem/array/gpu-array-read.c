/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The blocking and asynchronous methods that read an array. */
#include "config.h"

#include "gpumem/array/gpu-array-io-private.h"
#include "gpumem/base/gpu-error-private.h"
#include "gpumem/command/gpu-command-private.h"
#include "gpumem/command/gpu-memory-task-private.h"

/* Rows of fewer than SHORT_ROW bytes are read together with the gaps between them, if elements and
 * gaps together are at most MOST_BETWEEN times as large as the elements. */
#define SHORT_ROW 256
#define MOST_BETWEEN 4

/* A read in flight: the destination of the elements, and their layout in the caller's bytes. */
typedef struct
{
  GBytes         *bytes;
  GpuArrayLayout  host;             /* within @bytes */
  GBytes         *staged;           /* NULL if elements are read into @bytes directly */
  GpuArrayLayout  layout;           /* within @staged */
  gboolean        is_split;         /* the read consists of several commands */
} Landing;

static void
landing_clear (Landing *landing)
{
  g_clear_pointer (&landing->bytes, g_bytes_unref);
  g_clear_pointer (&landing->staged, g_bytes_unref);
}

static void
landing_free (gpointer data)
{
  landing_clear (data);
  g_free (data);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Landing, landing_clear)

static gsize
count_rows (const GpuArrayPlan *plan)
{
  return plan->n_regions * plan->extent.height * plan->extent.depth;
}

/* Chooses one of three layouts to read into: the layout that the caller requested; the order of the
 * elements on the device, which needs fewer commands; or the order on the device with the gaps
 * between the elements. For the second and the third layout, sets @staged, and landing_end()
 * reorders the elements. */
static GpuArrayPlan
choose_plan (GpuArray *array,
             Landing  *landing,
             gboolean *staged)
{
  GpuArrayPlan plan;
  GpuArrayPlan other;
  gsize begin;
  gsize end;

  _gpu_array_plan_init (&plan, &landing->host, &array->layout);
  _gpu_array_layout_pack (&array->layout, &landing->layout);
  _gpu_array_plan_init (&other, &landing->layout, &array->layout);
  *staged = other.n_regions < plan.n_regions;

  if (*staged)
    plan = other;

  _gpu_array_layout_get_range (&array->layout, &begin, &end);

  if (count_rows (&plan) <= 1 || plan.extent.width >= SHORT_ROW
      || (end - begin) / MOST_BETWEEN > _gpu_array_layout_get_size (&landing->host))
    return plan;

  *staged = TRUE;
  landing->layout = array->layout;
  landing->layout.offset -= begin;

  return (GpuArrayPlan) { .extent = { end - begin, 1, 1 }, .from = { .offset = begin },
                          .n_regions = 1 };
}

static gboolean
landing_begin (Landing      *landing,
               GpuArray     *array,
               GpuTimeline  *timeline,
               GpuPending   *pending,
               const char   *function,
               GError      **error)
{
  gboolean staged;
  GpuArrayPlan plan;
  gpointer data;
  gsize size;

  if (!_gpu_array_check_apart (&landing->host, function, error))
    return FALSE;

  if (_gpu_array_layout_get_n_elements (&landing->host) == 0)
    return TRUE;

  plan = choose_plan (array, landing, &staged);
  landing->is_split = plan.n_regions > 1;

  if (staged)
    {
      gsize begin;

      _gpu_array_layout_get_range (&landing->layout, &begin, &size);
      landing->staged = _gpu_bytes_new (size, function, &data, error);

      if (landing->staged == NULL)
        return FALSE;
    }

  return _gpu_array_read (array, timeline, staged ? landing->staged : landing->bytes, &plan,
                          pending, function, error);
}

/* Reads spilled memory in place, without its device. Returns FALSE if the memory is not spilled.
 * Sets @n_moves for was_moved(). */
static gboolean
landing_take_spilled (Landing  *landing,
                      GpuArray *array,
                      gint     *n_moves)
{
  g_clear_pointer (&landing->staged, g_bytes_unref);

  if (array->memory != NULL)
    landing->staged = _gpu_memory_ref_spilled (array->memory, n_moves);

  landing->layout = array->layout;

  return landing->staged != NULL;
}

/* Returns whether the read must be repeated, because another thread moved the memory. */
static gboolean
was_moved (GpuArray  *array,
           gint       n_moves,
           GError   **failure)
{
  return array->memory != NULL && _gpu_memory_was_moved (array->memory, n_moves, failure);
}

/* Called after the elements were read. */
static void
landing_end (Landing *landing)
{
  GpuArrayPlan plan;

  if (landing->staged == NULL)
    return;

  _gpu_array_plan_init (&plan, &landing->host, &landing->layout);
  _gpu_array_plan_copy (&plan, (gpointer) g_bytes_get_data (landing->bytes, NULL),
                        g_bytes_get_data (landing->staged, NULL));
}

/* Reads the memory of the device, and begins @wait unless an earlier attempt began it. */
static gboolean
land_device (Landing       *landing,
             GpuArray      *array,
             GpuStream     *stream,
             const char    *function,
             GCancellable  *cancellable,
             GpuHostWait   *wait,
             GError       **error)
{
  GpuPending pending = { NULL, 0 };

  return (wait->timeline != NULL
          || _gpu_array_begin (array, stream, function, cancellable, wait, error))
         && landing_begin (landing, array, wait->timeline, cancellable == NULL ? &pending : NULL,
                           function, error)
         && _gpu_array_wait (wait, &pending, function, cancellable, error);
}

/* Completes a read of spilled memory. @wait may have commands of an earlier attempt, which
 * write to the same destination. */
static gboolean
land_spilled (Landing            *landing,
              const GpuHostWait  *wait,
              const char         *function,
              GCancellable       *cancellable,
              GError            **error)
{
  if (wait->timeline != NULL && landing->is_split)
    _gpu_memory_wait_for_work (wait, function, cancellable, NULL);

  return _gpu_error_check_cancelled (cancellable, function, error)
         && _gpu_array_check_apart (&landing->host, function, error);
}

static gboolean
land (Landing       *landing,
      GpuArray      *array,
      GpuStream     *stream,
      const char    *function,
      GCancellable  *cancellable,
      GError       **error)
{
  g_auto (GpuHostWait) wait = { NULL };
  GError *failure = NULL;
  gboolean success;
  gint n_moves = 0;

  do
    {
      success = landing_take_spilled (landing, array, &n_moves)
                ? land_spilled (landing, &wait, function, cancellable, &failure)
                : land_device (landing, array, stream, function, cancellable, &wait, &failure);
    }
  while (!success && was_moved (array, n_moves, &failure));

  if (success)
    landing_end (landing);
  else
    g_propagate_error (error, failure);

  return success;
}

/* Allocates host memory for the elements, without gaps between them. */
static gboolean
landing_init (Landing        *landing,
              GpuArray       *array,
              GpuArrayOrder   order,
              const char     *function,
              GError        **error)
{
  gpointer data;
  gsize size;

  if (!_gpu_array_get_dense_layout (array, order, function, &landing->host, error))
    return FALSE;

  size = _gpu_array_layout_get_size (&landing->host);
  landing->bytes = _gpu_bytes_new (size, function, &data, error);

  return landing->bytes != NULL;
}

/**
 * gpu_array_read_bytes:
 * @array: a #GpuArray
 * @stream: (nullable): the stream to read on, %NULL for the default stream
 * @order: the order of the elements in the returned bytes
 * @cancellable: (nullable): a #GCancellable, or %NULL
 * @error: return location for an error
 *
 * Reads all elements into new host memory, without gaps, and blocks until they are read (OpenCL:
 * clEnqueueReadBuffer, clEnqueueReadBufferRect; CUDA: cuMemcpyDtoHAsync, cuMemcpy2DAsync,
 * cuMemcpy3DAsync). If @order differs from the order in memory, the calling thread reorders the
 * elements. @cancellable cancels the wait, not the read. Reads spilled memory from the host, like
 * gpu_buffer_read().
 *
 * Returns: (transfer full): the bytes, or %NULL with %GPU_ERROR_OUT_OF_HOST_MEMORY, an error of
 *   gpu_stream_read_region() or of earlier work on the stream, or %G_IO_ERROR_CANCELLED
 *
 * Since: 0.1
 */
GBytes *
gpu_array_read_bytes (GpuArray       *array,
                      GpuStream      *stream,
                      GpuArrayOrder   order,
                      GCancellable   *cancellable,
                      GError        **error)
{
  const char *function = "gpu_array_read_bytes";
  g_auto (Landing) landing = { NULL };

  g_return_val_if_fail (GPU_IS_ARRAY (array), NULL);
  g_return_val_if_fail (stream == NULL || GPU_IS_STREAM (stream), NULL);

  if (!landing_init (&landing, array, order, function, error)
      || !land (&landing, array, stream, function, cancellable, error))
    return NULL;

  return g_steal_pointer (&landing.bytes);
}

/**
 * gpu_array_read_strided:
 * @array: a #GpuArray
 * @stream: (nullable): the stream to read on, %NULL for the default stream
 * @bytes: writable memory, see gpu_stream_read_into()
 * @offset: the offset in @bytes of the element whose indices are all 0
 * @strides: (array length=n_strides) (nullable): the distance between neighbouring elements in
 *   @bytes along each dimension; %NULL for C order without gaps
 * @n_strides: the number of strides
 * @cancellable: (nullable): a #GCancellable, or %NULL
 * @error: return location for an error
 *
 * Reads all elements into existing host memory and blocks until they are read, like
 * gpu_array_read_bytes(). The gaps between the elements in @bytes are not changed. After
 * cancellation, @bytes may contain some of the elements.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_INVALID_ARGUMENT if elements are outside of @bytes or
 *   overlap in @bytes, or with an error of gpu_array_read_bytes()
 *
 * Since: 0.1
 */
gboolean
gpu_array_read_strided (GpuArray      *array,
                        GpuStream     *stream,
                        GBytes        *bytes,
                        gsize          offset,
                        const gssize  *strides,
                        guint          n_strides,
                        GCancellable  *cancellable,
                        GError       **error)
{
  const char *function = "gpu_array_read_strided";
  g_auto (Landing) landing = { NULL };

  g_return_val_if_fail (GPU_IS_ARRAY (array), FALSE);
  g_return_val_if_fail (stream == NULL || GPU_IS_STREAM (stream), FALSE);
  g_return_val_if_fail (bytes != NULL, FALSE);
  g_return_val_if_fail (strides != NULL || n_strides == 0, FALSE);

  landing.bytes = g_bytes_ref (bytes);

  return _gpu_array_get_host_layout (array, g_bytes_get_size (bytes), offset, strides, n_strides,
                                     function, &landing.host, error)
         && land (&landing, array, stream, function, cancellable, error);
}

/* Begins the read of @task. Begins @wait if a stream executes commands of the read. */
static void
begin (GTask        *task,
       Landing      *landing,
       GpuStream    *stream,
       GpuHostWait  *wait,
       GError      **error)
{
  GpuArray *array = g_task_get_source_object (task);
  const char *function = g_task_get_name (task);
  gint n_moves = 0;

  do
    {
      if (landing_take_spilled (landing, array, &n_moves))
        {
          if (!landing->is_split)
            _gpu_host_wait_end (wait);

          _gpu_array_check_apart (&landing->host, function, error);
        }
      else if (wait->timeline != NULL
               || _gpu_array_begin (array, stream, function, g_task_get_cancellable (task), wait,
                                    error))
        landing_begin (landing, array, wait->timeline, NULL, function, error);
    }
  while (was_moved (array, n_moves, error));
}

/* Takes ownership of @landing and @error. Submits the read unless @error is set. */
static void
land_async (GTask      *task,
            Landing    *landing,
            GpuStream  *stream,
            GError     *error)
{
  g_auto (GpuHostWait) wait = { NULL };

  if (error == NULL)
    begin (task, landing, stream, &wait, &error);

  _gpu_memory_end_task (task, &wait, landing, landing_free, error);
}

static Landing *
land_finish (GAsyncResult  *result,
             const char    *function,
             GError       **error)
{
  Landing *landing = _gpu_error_propagate_pointer (result, function, error);

  if (landing != NULL)
    landing_end (landing);

  return landing;
}

/**
 * gpu_array_read_bytes_async:
 * @array: a #GpuArray
 * @stream: (nullable): the stream to read on, %NULL for the default stream
 * @order: the order of the elements in the returned bytes
 * @cancellable: (nullable): a #GCancellable, or %NULL
 * @callback: (scope async) (nullable): called after the elements were read
 * @user_data: for @callback
 *
 * Reads like gpu_array_read_bytes(), but does not wait until the elements are read. May block under
 * the same conditions as gpu_stream_read(). @callback is called in the thread-default main context
 * of the calling thread.
 *
 * Since: 0.1
 */
void
gpu_array_read_bytes_async (GpuArray            *array,
                            GpuStream           *stream,
                            GpuArrayOrder        order,
                            GCancellable        *cancellable,
                            GAsyncReadyCallback  callback,
                            gpointer             user_data)
{
  const char *function = "gpu_array_read_bytes_async";
  g_autoptr (GTask) task = NULL;
  Landing *landing;
  GError *error = NULL;

  g_return_if_fail (GPU_IS_ARRAY (array));
  g_return_if_fail (stream == NULL || GPU_IS_STREAM (stream));

  task = _gpu_array_task_new (array, gpu_array_read_bytes_async, function, cancellable, callback,
                              user_data);
  landing = g_new0 (Landing, 1);
  landing_init (landing, array, order, function, &error);
  land_async (task, landing, stream, error);
}

/**
 * gpu_array_read_bytes_finish:
 * @array: a #GpuArray
 * @result: the #GAsyncResult of the callback
 * @error: return location for an error
 *
 * Finishes gpu_array_read_bytes_async(). If the elements were not read in the requested order, this
 * function reorders them on the calling thread.
 *
 * Returns: (transfer full): like gpu_array_read_bytes()
 *
 * Since: 0.1
 */
GBytes *
gpu_array_read_bytes_finish (GpuArray      *array,
                             GAsyncResult  *result,
                             GError       **error)
{
  Landing *landing;
  GBytes *bytes;

  g_return_val_if_fail (g_task_is_valid (result, array), NULL);

  landing = land_finish (result, "gpu_array_read_bytes_async", error);

  if (landing == NULL)
    return NULL;

  bytes = g_steal_pointer (&landing->bytes);
  landing_free (landing);

  return bytes;
}

/**
 * gpu_array_read_strided_async:
 * @array: a #GpuArray
 * @stream: (nullable): the stream to read on, %NULL for the default stream
 * @bytes: writable memory
 * @offset: the offset in @bytes of the element whose indices are all 0
 * @strides: (array length=n_strides) (nullable): the distance between neighbouring elements in
 *   @bytes along each dimension; %NULL for C order without gaps
 * @n_strides: the number of strides
 * @cancellable: (nullable): a #GCancellable, or %NULL
 * @callback: (scope async) (nullable): called after the elements were read
 * @user_data: for @callback
 *
 * Reads like gpu_array_read_strided(), but does not wait until the elements are read. May block
 * under the same conditions as gpu_stream_read(). @callback is called in the thread-default main
 * context of the calling thread. @bytes contains the elements once gpu_array_read_strided_finish()
 * has returned.
 *
 * Since: 0.1
 */
void
gpu_array_read_strided_async (GpuArray            *array,
                              GpuStream           *stream,
                              GBytes              *bytes,
                              gsize                offset,
                              const gssize        *strides,
                              guint                n_strides,
                              GCancellable        *cancellable,
                              GAsyncReadyCallback  callback,
                              gpointer             user_data)
{
  const char *function = "gpu_array_read_strided_async";
  g_autoptr (GTask) task = NULL;
  Landing *landing;
  GError *error = NULL;

  g_return_if_fail (GPU_IS_ARRAY (array));
  g_return_if_fail (stream == NULL || GPU_IS_STREAM (stream));
  g_return_if_fail (bytes != NULL);
  g_return_if_fail (strides != NULL || n_strides == 0);

  task = _gpu_array_task_new (array, gpu_array_read_strided_async, function, cancellable, callback,
                              user_data);
  landing = g_new0 (Landing, 1);
  landing->bytes = g_bytes_ref (bytes);
  _gpu_array_get_host_layout (array, g_bytes_get_size (bytes), offset, strides, n_strides,
                              function, &landing->host, &error);
  land_async (task, landing, stream, error);
}

/**
 * gpu_array_read_strided_finish:
 * @array: a #GpuArray
 * @result: the #GAsyncResult of the callback
 * @error: return location for an error
 *
 * Finishes gpu_array_read_strided_async(). If the elements were not read in the requested order,
 * this function reorders them on the calling thread.
 *
 * Returns: like gpu_array_read_strided()
 *
 * Since: 0.1
 */
gboolean
gpu_array_read_strided_finish (GpuArray      *array,
                               GAsyncResult  *result,
                               GError       **error)
{
  Landing *landing;

  g_return_val_if_fail (g_task_is_valid (result, array), FALSE);

  landing = land_finish (result, "gpu_array_read_strided_async", error);

  if (landing == NULL)
    return FALSE;

  landing_free (landing);

  return TRUE;
}
