/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The verbs of a stream that move arrays, whatever their strides are. */
#include "config.h"

#include "gpumem/array/gpu-array-io-private.h"
#include "gpumem/array/gpu-array-kernel-private.h"
#include "gpumem/command/gpu-command-private.h"
#include "gpumem/command/gpu-copy-cross-driver-private.h"
#include "gpumem/device/gpu-context-private.h"
#include "gpumem/format/gpu-dtype-private.h"

/* A copy, while its regions are submitted. */
typedef struct
{
  const char   *function;
  GpuTimeline  *timeline;
  GpuMemory    *memory;
  GpuMemory    *source;             /* of a copy on the device */
  GBytes       *bytes;              /* of one with the host */
  guint8       *data;
  gsize         size;
  GpuPending   *pending;
  const guint8 *value;              /* to fill with */
} Transfer;

static GpuLayout
get_layout (const GpuArrayPlanSide *side,
            gsize                   offset)
{
  return (GpuLayout) { offset, 0, 0, side->row_pitch, side->slice_pitch };
}

static gboolean
write_region (const GpuArrayPlan  *plan,
              gsize                to,
              gsize                from,
              gpointer             data,
              GError             **error)
{
  const Transfer *t = data;
  const GpuLayout layout = get_layout (&plan->to, to);
  const GpuLayout host_layout = get_layout (&plan->from, from);
  const GpuHostBytes host = { t->data, t->size, &host_layout, t->bytes };

  if (plan->extent.height == 1)
    return _gpu_timeline_write (t->timeline, t->function, t->memory, to, t->data + from,
                                plan->extent.width, t->bytes, t->pending, error);

  return _gpu_timeline_write_region (t->timeline, t->function, t->memory, &layout, &host,
                                     &plan->extent, t->pending, error);
}

static gboolean
read_region (const GpuArrayPlan  *plan,
             gsize                to,
             gsize                from,
             gpointer             data,
             GError             **error)
{
  const Transfer *t = data;
  const GpuLayout layout = get_layout (&plan->from, from);
  const GpuLayout host_layout = get_layout (&plan->to, to);
  const GpuHostBytes host = { t->data, t->size, &host_layout, t->bytes };

  if (plan->extent.height == 1)
    return _gpu_timeline_read (t->timeline, t->function, t->memory, from, t->data + to,
                               plan->extent.width, t->bytes, t->pending, error);

  return _gpu_timeline_read_region (t->timeline, t->function, t->memory, &layout, &host,
                                    &plan->extent, t->pending, error);
}

static gboolean
copy_region (const GpuArrayPlan  *plan,
             gsize                to,
             gsize                from,
             gpointer             data,
             GError             **error)
{
  const Transfer *t = data;
  const GpuLayout to_layout = get_layout (&plan->to, to);
  const GpuLayout from_layout = get_layout (&plan->from, from);

  if (plan->extent.height == 1)
    return _gpu_timeline_copy (t->timeline, t->function, t->memory, to, t->source, from,
                               plan->extent.width, NULL, error);

  return _gpu_timeline_copy_region (t->timeline, t->function, t->memory, &to_layout, t->source,
                                    &from_layout, &plan->extent, error);
}

static gboolean
fill_region (const GpuArrayPlan  *plan,
             gsize                to,
             gsize                from G_GNUC_UNUSED,
             gpointer             data,
             GError             **error)
{
  const Transfer *t = data;
  const GpuLayout layout = get_layout (&plan->to, to);

  if (plan->extent.height == 1)
    return _gpu_timeline_fill (t->timeline, t->function, t->memory, to, plan->extent.width,
                               t->value, t->size, error);

  return _gpu_timeline_fill_region (t->timeline, t->function, t->memory, &layout, &plan->extent,
                                    t->value, t->size, error);
}

GpuTimeline *
_gpu_array_peek_timeline (GpuArray    *array,
                          GpuStream   *stream,
                          const char  *function,
                          GError     **error)
{
  if (!_gpu_array_check (array, function, error))
    return NULL;

  return _gpu_context_peek_timeline (array->context, stream, function, error);
}

gboolean
_gpu_array_check_apart (const GpuArrayLayout  *layout,
                        const char            *function,
                        GError               **error)
{
  g_autofree char *shape = NULL;
  g_autofree char *strides = NULL;

  if (!_gpu_array_layout_overlaps (layout))
    return TRUE;

  shape = _gpu_array_numbers_to_string (layout->shape, layout->n_dims);
  strides = _gpu_array_numbers_to_string (layout->strides, layout->n_dims);
  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s: elements of %" G_GSIZE_FORMAT " bytes with the shape %s and the strides %s "
               "share memory, and cannot be written", function, layout->item_size, shape,
               strides);

  return FALSE;
}

gboolean
_gpu_array_fill (GpuArray      *array,
                 GpuTimeline   *timeline,
                 const guint8  *value,
                 gsize          size,
                 const char    *function,
                 GError       **error)
{
  Transfer transfer = { .function = function, .timeline = timeline, .memory = array->memory,
                        .value = value, .size = size };
  GpuArrayPlan plan;

  if (!_gpu_array_check_apart (&array->layout, function, error))
    return FALSE;

  _gpu_array_plan_init (&plan, &array->layout, &array->layout);

  return _gpu_array_plan_run (&plan, fill_region, &transfer, error);
}

gboolean
_gpu_array_write (GpuArray              *array,
                  GpuTimeline           *timeline,
                  GBytes                *bytes,
                  const GpuArrayLayout  *host,
                  GpuPending            *pending,
                  const char            *function,
                  GError               **error)
{
  g_autoptr (GBytes) ordered = NULL;
  Transfer transfer = { .function = function, .timeline = timeline, .memory = array->memory };
  GpuArrayLayout packed;
  GpuArrayPlan plan;
  GpuArrayPlan packed_plan;

  if (!_gpu_array_check_apart (&array->layout, function, error))
    return FALSE;

  _gpu_array_plan_init (&plan, &array->layout, host);
  _gpu_array_layout_pack (&array->layout, &packed);
  _gpu_array_plan_init (&packed_plan, &array->layout, &packed);

  /* The processor puts elements into another order in less time than so many commands take. */
  if (packed_plan.n_regions < plan.n_regions)
    {
      GpuArrayPlan order;
      gpointer data;

      ordered = _gpu_bytes_new (_gpu_array_layout_get_size (&packed), function, &data, error);

      if (ordered == NULL)
        return FALSE;

      _gpu_array_plan_init (&order, &packed, host);
      _gpu_array_plan_copy (&order, data, g_bytes_get_data (bytes, NULL));
      plan = packed_plan;
      bytes = ordered;
    }

  transfer.bytes = bytes;
  transfer.data = (guint8 *) g_bytes_get_data (bytes, &transfer.size);
  transfer.pending = plan.n_regions == 1 ? pending : NULL;

  return _gpu_array_plan_run (&plan, write_region, &transfer, error);
}

gboolean
_gpu_array_read (GpuArray            *array,
                 GpuTimeline         *timeline,
                 GBytes              *bytes,
                 const GpuArrayPlan  *plan,
                 GpuPending          *pending,
                 const char          *function,
                 GError             **error)
{
  Transfer transfer = { .function = function, .timeline = timeline, .memory = array->memory,
                        .bytes = bytes };

  transfer.data = (guint8 *) g_bytes_get_data (bytes, &transfer.size);

  /* Who waits for the one command keeps the bytes. */
  if (plan->n_regions == 1 && pending != NULL)
    {
      transfer.pending = pending;
      transfer.bytes = NULL;
    }

  return _gpu_array_plan_run (plan, read_region, &transfer, error);
}

/* --- from array to array ---------------------------------------------------- */

/* Whether some byte may be both read and written. */
static gboolean
arrays_meet (GpuArray *a,
             GpuArray *b)
{
  gsize a_begin;
  gsize a_end;
  gsize b_begin;
  gsize b_end;
  GpuStorage *a_storage = a->memory->storage;
  GpuStorage *b_storage = b->memory->storage;

  if (a_storage->root != b_storage->root)
    return FALSE;

  _gpu_array_layout_get_range (&a->layout, &a_begin, &a_end);
  _gpu_array_layout_get_range (&b->layout, &b_begin, &b_end);

  return a_begin + a_storage->offset < b_end + b_storage->offset
         && b_begin + b_storage->offset < a_end + a_storage->offset;
}

gboolean
_gpu_array_copy_to (GpuArray     *array,
                    GpuTimeline  *timeline,
                    GpuArray     *source,
                    const char   *function,
                    GError      **error)
{
  g_autoptr (GpuArray) apart = NULL;
  Transfer transfer = { .function = function, .timeline = timeline, .memory = array->memory };
  GpuArrayKernelCopy copy;
  GpuArrayLayout from;
  GpuArrayPlan plan;

  if (!_gpu_array_check_apart (&array->layout, function, error))
    return FALSE;

  if (!gpu_dtype_equal (array->dtype, source->dtype))
    {
      g_autofree char *to_name = gpu_dtype_get_name (array->dtype);
      g_autofree char *from_name = gpu_dtype_get_name (source->dtype);

      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "%s: elements of type %s are not copied to some of type %s: arrays are not "
                   "converted", function, from_name, to_name);
      return FALSE;
    }

  from = source->layout;

  if (!_gpu_array_layout_broadcast (&from, array->layout.shape, array->layout.n_dims, function,
                                    error))
    return FALSE;

  if (_gpu_array_layout_get_n_elements (&from) == 0)
    return TRUE;

  if (!_gpu_memory_check (array->memory, function, error)
      || !_gpu_memory_check (source->memory, function, error))
    return FALSE;

  if (arrays_meet (array, source))
    {
      apart = gpu_array_new_like (source, NULL, NULL, error);

      return apart != NULL
             && _gpu_array_copy_to (apart, timeline, source, function, error)
             && _gpu_array_copy_to (array, timeline, apart, function, error);
    }

  if (array->memory->storage->context != source->memory->storage->context
      && _gpu_timeline_is_cross_driver (timeline, array->memory, source->memory))
    return _gpu_array_copy_cross_driver (array, timeline, source, function, error);

  transfer.source = source->memory;
  _gpu_array_plan_init (&plan, &array->layout, &from);

  if (_gpu_array_kernel_prepare (&copy, timeline, array, source, &plan))
    return _gpu_array_kernel_run (&copy, timeline, array, source, function, error);

  return _gpu_array_plan_run (&plan, copy_region, &transfer, error);
}

/**
 * gpu_stream_copy_array:
 * @stream: a #GpuStream
 * @destination: an array of the stream's context, or of any other one
 * @source: an array of the same type; of the stream's context if @destination is not
 * @error: return location for an error
 *
 * Copies elements from array to array on the device. @source is repeated to the shape of
 * @destination, see gpu_array_broadcast(). The two may share memory. It is as many commands as it
 * takes regions, see gpu_stream_copy_region(): one for up to three dimensions that both have in the
 * same order, one for each index of a fourth, one for each row of a transposed matrix. Instead of
 * more than a few, and of many short rows, it is a kernel, where there is a compiler and kernels
 * reach the memory; the first such copy in a context has it built, or loaded from the cache of
 * programs. Does not block but for that; the memory is kept until the copy is done.
 *
 * Between two back ends, or two contexts of OpenCL, it is gpu_stream_copy() if the elements follow
 * each other in the same order on both sides. Otherwise they are packed before, on the side of
 * @source, or unpacked after, on that of @destination, or both, in memory that is allocated for it,
 * and in the order of @stream: with what blocks there, and with its failures.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_INVALID_ARGUMENT if the types or the shapes differ or
 *   elements of @destination share memory, or with an error as of gpu_stream_copy_region(),
 *   gpu_stream_copy() or, for arrays that share memory or are packed, gpu_buffer_new()
 *
 * Since: 0.1
 */
gboolean
gpu_stream_copy_array (GpuStream  *stream,
                       GpuArray   *destination,
                       GpuArray   *source,
                       GError    **error)
{
  const char *function = "gpu_stream_copy_array";
  GpuTimeline *timeline;

  g_return_val_if_fail (GPU_IS_STREAM (stream), FALSE);
  g_return_val_if_fail (GPU_IS_ARRAY (destination), FALSE);
  g_return_val_if_fail (GPU_IS_ARRAY (source), FALSE);

  timeline = _gpu_stream_get_timeline (stream, function, error);

  return timeline != NULL
         && _gpu_array_check (destination, function, error)
         && _gpu_array_check (source, function, error)
         && _gpu_array_copy_to (destination, timeline, source, function, error);
}

/**
 * gpu_stream_fill_array:
 * @stream: a #GpuStream
 * @array: an array of the stream's context
 * @value: the bytes of one element
 * @error: return location for an error
 *
 * Sets all elements to the same value on the device, see gpu_stream_fill() and
 * gpu_stream_fill_region(). Does not block; the memory is kept until it is done.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_INVALID_ARGUMENT if @value has not the size of an
 *   element or elements share memory, or with an error as of gpu_stream_fill_region()
 *
 * Since: 0.1
 */
gboolean
gpu_stream_fill_array (GpuStream  *stream,
                       GpuArray   *array,
                       GBytes     *value,
                       GError    **error)
{
  const char *function = "gpu_stream_fill_array";
  GpuTimeline *timeline;
  const guint8 *data;
  gsize size;

  g_return_val_if_fail (GPU_IS_STREAM (stream), FALSE);
  g_return_val_if_fail (GPU_IS_ARRAY (array), FALSE);
  g_return_val_if_fail (value != NULL, FALSE);

  timeline = _gpu_stream_get_timeline (stream, function, error);
  data = g_bytes_get_data (value, &size);

  if (timeline == NULL || !_gpu_array_check (array, function, error))
    return FALSE;

  if (size == array->layout.item_size)
    return _gpu_array_fill (array, timeline, data, size, function, error);

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s: a value of %" G_GSIZE_FORMAT " bytes is no element of %" G_GSIZE_FORMAT,
               function, size, array->layout.item_size);

  return FALSE;
}

/**
 * gpu_stream_write_array:
 * @stream: a #GpuStream
 * @array: an array of the stream's context
 * @bytes: what to write
 * @offset: where in @bytes the element with all indices 0 is
 * @strides: (array length=n_strides) (nullable): bytes from one element to the next along each
 *   dimension of @array; %NULL for C order without gaps
 * @n_strides: number of elements in @strides
 * @error: return location for an error
 *
 * Copies elements from the host to the device, as gpu_stream_write_region() does. Strides may be
 * any; if they are in another order than those of @array the elements are put into that order
 * first, by the thread that calls. Blocks no more than gpu_stream_write(); @bytes and the memory
 * are kept until the copy is done.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_INVALID_ARGUMENT if elements lie outside of @bytes, or
 *   those of @array share memory, %GPU_ERROR_OUT_OF_HOST_MEMORY, or an error as of
 *   gpu_stream_write_region()
 *
 * Since: 0.1
 */
gboolean
gpu_stream_write_array (GpuStream     *stream,
                        GpuArray      *array,
                        GBytes        *bytes,
                        gsize          offset,
                        const gssize  *strides,
                        guint          n_strides,
                        GError       **error)
{
  const char *function = "gpu_stream_write_array";
  GpuTimeline *timeline;
  GpuArrayLayout host;

  g_return_val_if_fail (GPU_IS_STREAM (stream), FALSE);
  g_return_val_if_fail (GPU_IS_ARRAY (array), FALSE);
  g_return_val_if_fail (bytes != NULL, FALSE);
  g_return_val_if_fail (strides != NULL || n_strides == 0, FALSE);

  timeline = _gpu_stream_get_timeline (stream, function, error);

  return timeline != NULL
         && _gpu_array_get_host_layout (array, g_bytes_get_size (bytes), offset, strides, n_strides,
                                        function, &host, error)
         && _gpu_array_write (array, timeline, bytes, &host, NULL, function, error);
}

/**
 * gpu_stream_read_array:
 * @stream: a #GpuStream
 * @array: an array of the stream's context
 * @bytes: memory that may be written, see gpu_stream_read_into()
 * @offset: where in @bytes the element with all indices 0 is
 * @strides: (array length=n_strides) (nullable): bytes from one element to the next along each
 *   dimension of @array; %NULL for C order without gaps
 * @n_strides: number of elements in @strides
 * @error: return location for an error
 *
 * Copies elements from the device into the memory of @bytes, as gpu_stream_read_region_into()
 * does: what lies between them is left alone. It is as many commands as it takes regions, see
 * gpu_stream_copy_array(); gpu_array_read_strided() needs fewer, but waits for them. Blocks no more
 * than gpu_stream_read(); @bytes and the memory are kept until the copy is done, and what @bytes
 * hold is right then.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_INVALID_ARGUMENT if elements lie outside of @bytes or
 *   share a place there, or with an error as of gpu_stream_read_region_into()
 *
 * Since: 0.1
 */
gboolean
gpu_stream_read_array (GpuStream     *stream,
                       GpuArray      *array,
                       GBytes        *bytes,
                       gsize          offset,
                       const gssize  *strides,
                       guint          n_strides,
                       GError       **error)
{
  const char *function = "gpu_stream_read_array";
  GpuTimeline *timeline;
  GpuArrayLayout host;
  GpuArrayPlan plan;

  g_return_val_if_fail (GPU_IS_STREAM (stream), FALSE);
  g_return_val_if_fail (GPU_IS_ARRAY (array), FALSE);
  g_return_val_if_fail (bytes != NULL, FALSE);
  g_return_val_if_fail (strides != NULL || n_strides == 0, FALSE);

  timeline = _gpu_stream_get_timeline (stream, function, error);

  if (timeline == NULL
      || !_gpu_array_get_host_layout (array, g_bytes_get_size (bytes), offset, strides, n_strides,
                                      function, &host, error)
      || !_gpu_array_check_apart (&host, function, error))
    return FALSE;

  _gpu_array_plan_init (&plan, &host, &array->layout);

  return _gpu_array_read (array, timeline, bytes, &plan, NULL, function, error);
}

/**
 * gpu_stream_wait_array:
 * @stream: a #GpuStream
 * @array: an array of the stream's context
 * @error: return location for an error
 *
 * Has @stream wait for all work on the memory of @array that was submitted before, on whatever
 * stream. The library does that by itself for all that it submits: this is for work that the
 * program puts into the driver's stream behind its back, see also gpu_memory_add_stream(). What is
 * submitted later elsewhere comes after the waiting, not after that work: record an event on
 * @stream and wait for it there. Does not block.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_INVALID_ARGUMENT if @array is of another context,
 *   %GPU_ERROR_RELEASED, %GPU_ERROR_BUSY if the memory is mapped, the error of the last write of
 *   the memory if it failed, or the driver's error
 *
 * Since: 0.1
 */
gboolean
gpu_stream_wait_array (GpuStream  *stream,
                       GpuArray   *array,
                       GError    **error)
{
  const char *function = "gpu_stream_wait_array";
  GpuAccess access = { .write = TRUE };
  const GpuSubmission submission = { .function = function, .accesses = &access, .n_accesses = 1,
                                     .reads = TRUE };
  GpuTimeline *timeline;

  g_return_val_if_fail (GPU_IS_STREAM (stream), FALSE);
  g_return_val_if_fail (GPU_IS_ARRAY (array), FALSE);

  timeline = _gpu_stream_get_timeline (stream, function, error);

  if (timeline == NULL || !_gpu_array_check (array, function, error))
    return FALSE;

  if (array->memory == NULL)
    return TRUE;

  if (!_gpu_memory_check (array->memory, function, error))
    return FALSE;

  access.memory = array->memory;
  access.size = array->memory->span;

  return _gpu_submit (timeline, &submission, NULL, error);
}
