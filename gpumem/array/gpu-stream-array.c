/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The operations of a stream that copy and fill arrays, with any strides. */
#include "config.h"

#include <string.h>

#include "gpumem/array/gpu-array-io-private.h"
#include "gpumem/array/gpu-array-kernel-private.h"
#include "gpumem/base/gpu-error-private.h"
#include "gpumem/command/gpu-command-private.h"
#include "gpumem/command/gpu-copy-cross-driver-private.h"
#include "gpumem/device/gpu-context-private.h"
#include "gpumem/format/gpu-dtype-private.h"

/* The parameters of a copy or a fill, for the functions that submit its regions. */
typedef struct
{
  const char   *function;
  GpuTimeline  *timeline;
  GpuMemory    *memory;             /* the destination; NULL for copies to the host */
  GpuMemory    *source;             /* NULL for copies from the host and for fills */
  GBytes       *bytes;              /* for copies from or to the host */
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
    return _gpu_timeline_read (t->timeline, t->function, t->source, from, t->data + to,
                               plan->extent.width, t->bytes, t->pending, error);

  return _gpu_timeline_read_region (t->timeline, t->function, t->source, &layout, &host,
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
  const GpuRangeCopy copy = { t->memory, to, t->source, from, plan->extent.width };

  if (plan->extent.height == 1)
    return _gpu_timeline_copy (t->timeline, t->function, &copy, NULL, error);

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

static gsize
get_region_size (const GpuArrayPlan     *plan,
                 const GpuArrayPlanSide *side)
{
  return (plan->extent.depth - 1) * side->slice_pitch
         + (plan->extent.height - 1) * side->row_pitch + plan->extent.width;
}

/* Checks the mappings of one region. If @plan is NULL, checks the whole memory. */
static gboolean
check_region (const GpuArrayPlan  *plan,
              gsize                to,
              gsize                from,
              gpointer             data,
              GError             **error)
{
  const Transfer *t = data;
  GpuAccess accesses[2];
  guint n = 0;

  if (t->memory != NULL)
    accesses[n++] = (GpuAccess) { t->memory, TRUE, to, plan == NULL
                                  ? t->memory->span : get_region_size (plan, &plan->to) };

  if (t->source != NULL)
    accesses[n++] = (GpuAccess) { t->source, FALSE, from, plan == NULL
                                  ? t->source->span : get_region_size (plan, &plan->from) };

  return _gpu_submission_check_mappings (t->function, accesses, n, error);
}

/* Gets the addresses of the first byte of all regions and of the byte after the last. @base is the
 * address of offset 0. */
static void
get_range (const GpuArrayPlan      *plan,
           const GpuArrayPlanSide  *side,
           const gssize            *steps,
           const guint8            *base,
           const guint8           **begin,
           const guint8           **end)
{
  *begin = base + side->offset;
  *end = *begin + get_region_size (plan, side);

  for (guint i = 0; i < plan->n_loops; i++)
    *(steps[i] < 0 ? begin : end) += steps[i] * (gssize) (plan->counts[i] - 1);
}

static gboolean
has_same_steps (const GpuArrayPlan *plan)
{
  return plan->to.row_pitch == plan->from.row_pitch
         && plan->to.slice_pitch == plan->from.slice_pitch
         && memcmp (plan->to_steps, plan->from_steps, plan->n_loops * sizeof *plan->to_steps) == 0;
}

/* The bytes that both the first and the last region of a transfer may include */
typedef struct
{
  const guint8 *to;                 /* address of offset 0 of the destination */
  const guint8 *from;               /* address of offset 0 of the source */
  const guint8 *begin;
  const guint8 *end;
  gsize         unit;               /* a row begins and ends at a multiple of this many bytes, from
                                     * `begin` on */
  guint8       *written;            /* for each unit from `begin` to `end`, a bit that is 1 if the
                                     * transfer writes the unit */
} SharedRange;

/* Sets @first and @last to the units of a row that are in the range. Returns FALSE if there are
 * none. */
static gboolean
clip_row (const SharedRange *range,
          const guint8      *begin,
          gsize              width,
          gsize             *first,
          gsize             *last)
{
  const guint8 *end = MIN (begin + width, range->end);

  begin = MAX (begin, range->begin);

  if (begin >= end)
    return FALSE;

  *first = (gsize) (begin - range->begin) / range->unit;
  *last = (gsize) (end - range->begin) / range->unit - 1;

  return TRUE;
}

/* The bits from @first to @last in the byte @i of a bitmap, one of those with these bits */
static guint8
get_mask (gsize i,
          gsize first,
          gsize last)
{
  guint mask = 0xff;

  if (i == first / 8)
    mask &= 0xffu << first % 8;

  if (i == last / 8)
    mask &= 0xffu >> (7 - last % 8);

  return (guint8) mask;
}

static void
set_bits (guint8 *bits,
          gsize   first,
          gsize   last)
{
  gsize begin = first / 8;
  gsize end = last / 8;

  bits[begin] |= get_mask (begin, first, last);
  bits[end] |= get_mask (end, first, last);

  if (end - begin > 1)
    memset (bits + begin + 1, 0xff, end - begin - 1);
}

static gboolean
has_bit (const guint8 *bits,
         gsize         first,
         gsize         last)
{
  for (gsize i = first / 8; i <= last / 8; i++)
    {
      if ((bits[i] & get_mask (i, first, last)) != 0)
        return TRUE;
    }

  return FALSE;
}

static gboolean
mark_written (const GpuArrayPlan  *plan,
              gsize                to,
              gsize                from G_GNUC_UNUSED,
              gpointer             data,
              GError             **error G_GNUC_UNUSED)
{
  const SharedRange *range = data;
  gsize first, last;

  for (gsize z = 0; z < plan->extent.depth; z++)
    for (gsize y = 0; y < plan->extent.height; y++)
      if (clip_row (range, range->to + to + z * plan->to.slice_pitch + y * plan->to.row_pitch,
                    plan->extent.width, &first, &last))
        set_bits (range->written, first, last);

  return TRUE;
}

static gboolean
is_not_written (const GpuArrayPlan  *plan,
                gsize                to G_GNUC_UNUSED,
                gsize                from,
                gpointer             data,
                GError             **error G_GNUC_UNUSED)
{
  const SharedRange *range = data;
  gsize first, last;

  for (gsize z = 0; z < plan->extent.depth; z++)
    for (gsize y = 0; y < plan->extent.height; y++)
      if (clip_row (range, range->from + from + z * plan->from.slice_pitch
                           + y * plan->from.row_pitch, plan->extent.width, &first, &last)
          && has_bit (range->written, first, last))
        return FALSE;

  return TRUE;
}

static gsize
get_divisor (gsize a,
             gsize b)
{
  while (b != 0)
    {
      gsize rest = a % b;

      a = b;
      b = rest;
    }

  return a;
}

/* Returns the largest size that divides the width of a row and the distances of all rows, given the
 * distance of the first ones of both sides. For whole elements, it is their size. */
static gsize
get_unit (const GpuArrayPlan *plan,
          gsize               distance)
{
  const GpuArrayPlanSide *sides[] = { &plan->to, &plan->from };
  gsize unit = get_divisor (plan->extent.width, distance);

  for (guint i = 0; i < G_N_ELEMENTS (sides); i++)
    {
      if (plan->extent.height > 1)
        unit = get_divisor (unit, sides[i]->row_pitch);

      if (plan->extent.depth > 1)
        unit = get_divisor (unit, sides[i]->slice_pitch);
    }

  for (guint i = 0; i < plan->n_loops; i++)
    {
      unit = get_divisor (unit, (gsize) ABS (plan->to_steps[i]));
      unit = get_divisor (unit, (gsize) ABS (plan->from_steps[i]));
    }

  return unit;
}

/* Checks a transfer between memory and host bytes that may be the same bytes. The checks of single
 * regions do not suffice, because a region may write the source of a later region. A transfer of
 * all bytes to themselves is valid. */
static gboolean
check_host_overlap (const GpuArrayPlan  *plan,
                    const Transfer      *transfer,
                    GError             **error)
{
  gboolean write = transfer->memory != NULL;
  GpuMemory *memory = write ? transfer->memory : transfer->source;
  const guint8 *place = _gpu_memory_get_place (memory);
  const guint8 *to, *to_end, *from, *from_end;
  g_autofree guint8 *written = NULL;
  SharedRange range = { write ? place : transfer->data, write ? transfer->data : place };

  if (place == NULL || transfer->data == NULL)
    return TRUE;

  get_range (plan, &plan->to, plan->to_steps, range.to, &to, &to_end);
  get_range (plan, &plan->from, plan->from_steps, range.from, &from, &from_end);

  if (to >= from_end || from >= to_end || (to == from && has_same_steps (plan)))
    return TRUE;

  range.begin = MAX (to, from);
  range.end = MIN (to_end, from_end);
  range.unit = get_unit (plan, (gsize) (MAX (to, from) - MIN (to, from)));
  range.written = written = _gpu_try_alloc0 (transfer->function,
                                             (gsize) (range.end - range.begin) / range.unit / 8 + 1,
                                             1, error);

  if (written == NULL)
    return FALSE;

  _gpu_array_plan_run (plan, mark_written, &range, NULL);

  return _gpu_array_plan_run (plan, is_not_written, &range, NULL)
         || _gpu_fail_host_overlap (place, (gsize) ((write ? to : from) - place), write ? from : to,
                                    transfer->function, error);
}

gboolean
_gpu_array_check_mappings (GpuMemory             *to_memory,
                           const GpuArrayLayout  *to,
                           GpuMemory             *from_memory,
                           const GpuArrayLayout  *from,
                           const char            *function,
                           GError               **error)
{
  Transfer transfer = { .function = function, .memory = to_memory, .source = from_memory };
  GpuArrayPlan plan;

  _gpu_array_plan_init (&plan, to, from);

  return check_region (NULL, 0, 0, &transfer, NULL)
         || _gpu_array_plan_run (&plan, check_region, &transfer, error);
}

/* Before the first of several regions, checks all of them, so that a refused operation changes
 * nothing. Usually no part of the memory is mapped, and a single check suffices. */
static gboolean
run_plan (const GpuArrayPlan  *plan,
          GpuArrayPlanFunc     submit_region,
          Transfer            *transfer,
          GError             **error)
{
  if (plan->n_regions > 1 && !check_host_overlap (plan, transfer, error))
    return FALSE;

  if (plan->n_regions > 1 && !check_region (NULL, 0, 0, transfer, NULL)
      && !_gpu_array_plan_run (plan, check_region, transfer, error))
    return FALSE;

  return _gpu_array_plan_run (plan, submit_region, transfer, error);
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

/* @others: words for elements of other arrays that may share the memory, or "" */
static gboolean
fail_shared (const GpuArrayLayout  *layout,
             const char            *others,
             const char            *function,
             GError               **error)
{
  g_autofree char *shape = _gpu_array_numbers_to_string (layout->shape, layout->n_dims);
  g_autofree char *strides = _gpu_array_numbers_to_string (layout->strides, layout->n_dims);

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s: an array of shape %s and strides %s cannot be written: its elements of %"
               G_GSIZE_FORMAT " bytes%s may share memory", function, shape, strides,
               layout->item_size, others);

  return FALSE;
}

gboolean
_gpu_array_check_apart (const GpuArrayLayout  *layout,
                        const char            *function,
                        GError               **error)
{
  return !_gpu_array_layout_may_overlap (layout) || fail_shared (layout, "", function, error);
}

/* Returns FALSE if a write of one element could change another element of @array, or of an array
 * that it views. */
static gboolean
check_writable (GpuArray    *array,
                const char  *function,
                GError     **error)
{
  return !array->shares_bytes
         || fail_shared (&array->layout, ", or those of an array that it views,", function, error);
}

/* Fills the first element, and copies it to all elements with a kernel. Returns FALSE if a command
 * for each region is faster, or if no kernel can write the memory; otherwise sets @success. */
static gboolean
fill_by_kernel (GpuArray            *array,
                const Transfer      *fill,
                const GpuArrayPlan  *plan,
                gboolean            *success,
                GError             **error)
{
  GpuArrayLayout element = array->layout;
  g_autoptr (GpuArray) first = NULL;
  GpuArrayKernelCopy copy;
  GpuArrayPlan repeat;

  if (!_gpu_array_kernel_suits (fill->timeline, plan))
    return FALSE;

  memset (element.strides, 0, sizeof element.strides);
  first = _gpu_array_new (array->context, array->memory, array->dtype, &element);
  _gpu_array_plan_init (&repeat, &array->layout, &element);

  /* In a stream without an order, nothing orders the kernel after the fill of untracked memory. */
  if (!_gpu_array_kernel_prepare (&copy, fill->timeline, array, first, &repeat)
      || ((fill->timeline->flags & GPU_STREAM_FLAGS_OUT_OF_ORDER) != 0
          && (fill->memory->storage->root->flags & GPU_MEMORY_FLAGS_UNTRACKED) != 0))
    return FALSE;

  *success = _gpu_timeline_fill (fill->timeline, fill->function, fill->memory, element.offset,
                                 fill->size, fill->value, fill->size, error)
             && _gpu_array_kernel_run (&copy, fill->timeline, array, first, fill->function, error);

  return TRUE;
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
  gboolean success;

  if (!check_writable (array, function, error))
    return FALSE;

  _gpu_array_plan_init (&plan, &array->layout, &array->layout);

  if (fill_by_kernel (array, &transfer, &plan, &success, error))
    return success;

  return run_plan (&plan, fill_region, &transfer, error);
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

  if (!check_writable (array, function, error))
    return FALSE;

  _gpu_array_plan_init (&plan, &array->layout, host);
  _gpu_array_layout_pack (&array->layout, &packed);
  _gpu_array_plan_init (&packed_plan, &array->layout, &packed);

  /* If this reduces the number of commands, first reorder the elements on the host: that takes less
   * time than the additional commands would take. */
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

  return run_plan (&plan, write_region, &transfer, error);
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
  Transfer transfer = { .function = function, .timeline = timeline, .source = array->memory,
                        .bytes = bytes };

  transfer.data = (guint8 *) g_bytes_get_data (bytes, &transfer.size);

  /* If the read is a single command, the caller waits for this command and keeps a reference to the
   * bytes until it completes. The submission then needs no reference to the bytes. */
  if (plan->n_regions == 1 && pending != NULL)
    {
      transfer.pending = pending;
      transfer.bytes = NULL;
    }

  return run_plan (plan, read_region, &transfer, error);
}

/* --- from array to array ---------------------------------------------------- */

/* Gets the positions of offset 0 of the memory of both arrays, to compare them. Returns FALSE if
 * the arrays use different memory. */
static gboolean
get_bases (GpuArray *a,
           GpuArray *b,
           gsize    *a_base,
           gsize    *b_base)
{
  /* Does not read the offsets of different memory, which other threads may be unspilling */
  if (a->memory->storage->root == b->memory->storage->root)
    {
      *a_base = a->memory->storage->offset;
      *b_base = b->memory->storage->offset;
      return TRUE;
    }

  *a_base = (gsize) _gpu_memory_get_place (a->memory);
  *b_base = (gsize) _gpu_memory_get_place (b->memory);

  return *a_base != 0 && *b_base != 0;
}

gboolean
_gpu_array_meets (GpuArray *a,
                  GpuArray *b)
{
  gsize a_base, a_begin, a_end;
  gsize b_base, b_begin, b_end;

  if (!get_bases (a, b, &a_base, &b_base))
    return FALSE;

  _gpu_array_layout_get_range (&a->layout, &a_begin, &a_end);
  _gpu_array_layout_get_range (&b->layout, &b_begin, &b_end);

  return a_begin + a_base < b_end + b_base && b_begin + b_base < a_end + a_base;
}

gboolean
_gpu_array_check_copy (GpuArray    *array,
                       GpuArray    *source,
                       const char  *function,
                       GError     **error)
{
  g_autofree char *to_name = NULL;
  g_autofree char *from_name = NULL;

  if (!check_writable (array, function, error))
    return FALSE;

  if (gpu_dtype_equal (array->dtype, source->dtype))
    return TRUE;

  to_name = gpu_dtype_get_name (array->dtype);
  from_name = gpu_dtype_get_name (source->dtype);
  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s: cannot copy elements of type %s to elements of type %s without a conversion",
               function, from_name, to_name);

  return FALSE;
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

  if (!_gpu_array_check_copy (array, source, function, error))
    return FALSE;

  from = source->layout;

  if (!_gpu_array_layout_broadcast (&from, array->layout.shape, array->layout.n_dims, function,
                                    error))
    return FALSE;

  if (_gpu_array_layout_get_n_elements (&from) == 0)
    return TRUE;

  if (!_gpu_memory_check (array->memory, function, error)
      || !_gpu_memory_check (source->memory, function, error))
    return FALSE;

  if (_gpu_array_meets (array, source))
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

  return run_plan (&plan, copy_region, &transfer, error);
}

/**
 * gpu_stream_copy_array:
 * @stream: a #GpuStream
 * @destination: an array of any context
 * @source: an array of the same type. One of the two arrays is of the stream's context
 * @error: return location for an error
 *
 * Copies elements between arrays on the device. @source is broadcast to the shape of @destination,
 * see gpu_array_broadcast(). The two arrays may overlap.
 *
 * The function copies one or more regions, each with one command: see gpu_stream_copy_region(). A
 * region has up to three dimensions, which must have the same order in both arrays. With a fourth
 * dimension, the function copies one region for each index of that dimension. If one of the arrays
 * is a transposed matrix, the function copies one region for each row. For more than a few regions,
 * and for many short rows, the library launches a kernel instead, if the device has a compiler and
 * kernels can access the memory. The first such copy in a context blocks while the kernel is built,
 * or loaded from the program cache. Other copies only block under the same conditions as
 * gpu_stream_copy_region(). The library holds references to the memory of both arrays until the
 * copy completes.
 *
 * Between two back ends, or two OpenCL contexts, the function calls gpu_stream_copy() if the
 * elements are contiguous in the same order in both arrays. Otherwise the function packs the
 * elements into temporary memory in the context of @source, or unpacks them from temporary memory
 * in the context of @destination, or both. The packing and unpacking is ordered with the work in
 * @stream. Copies between back ends or OpenCL contexts may block under the same conditions as
 * gpu_stream_copy(), and fail with its errors.
 *
 * Copies by a kernel, and copies between back ends or OpenCL contexts, use all bytes from the first
 * element to the last. They fail with %GPU_ERROR_BUSY even if only bytes between elements are
 * mapped.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_INVALID_ARGUMENT if the types differ, if @source cannot
 *   be broadcast to the shape of @destination, or if #GpuArray:shares-bytes of @destination is
 *   %TRUE; or with an error of gpu_stream_copy_region() or gpu_stream_copy(). If the copy needs
 *   temporary memory, because the arrays overlap or must be packed, also with an error of
 *   gpu_buffer_new()
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
 * Sets all elements to one value on the device, see gpu_stream_fill() and gpu_stream_fill_region().
 * A kernel fills many regions, under the same conditions as in gpu_stream_copy_array(). Does not
 * block, except that the first such fill in a context may block while the kernel is built, or
 * loaded from the program cache. The library holds a reference to the memory of @array until the
 * fill completes.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_INVALID_ARGUMENT if @value does not have the size of an
 *   element, or #GpuArray:shares-bytes of @array is %TRUE, or with an error of
 *   gpu_stream_fill_region()
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
               "%s: the value has %" G_GSIZE_FORMAT " bytes, but an element has %" G_GSIZE_FORMAT,
               function, size, array->layout.item_size);

  return FALSE;
}

/**
 * gpu_stream_write_array:
 * @stream: a #GpuStream
 * @array: an array of the stream's context
 * @bytes: the elements to write
 * @offset: the offset in @bytes of the element whose indices are all 0
 * @strides: (array length=n_strides) (nullable): the distance between neighbouring elements in
 *   @bytes along each dimension of @array; %NULL for C order without gaps
 * @n_strides: the number of strides
 * @error: return location for an error
 *
 * Copies elements from the host to the device, like gpu_stream_write_region(). Any strides are
 * allowed. If the elements have another order in @bytes than in @array, the calling thread reorders
 * them first. May block under the same conditions as gpu_stream_write(). The library holds
 * references to @bytes and to the memory of @array until the copy completes.
 *
 * If @array uses host memory in place, @bytes may be this memory. Each element must then be written
 * to itself, or no element in @bytes may share a byte with an element of @array.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_INVALID_ARGUMENT if an element is outside of @bytes, if
 *   #GpuArray:shares-bytes of @array is %TRUE or if elements in @bytes share bytes with @array
 *   otherwise than described above, %GPU_ERROR_OUT_OF_HOST_MEMORY, or an error of
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
 * @bytes: writable memory, see gpu_stream_read_into()
 * @offset: the offset in @bytes of the element whose indices are all 0
 * @strides: (array length=n_strides) (nullable): the distance between neighbouring elements in
 *   @bytes along each dimension of @array; %NULL for C order without gaps
 * @n_strides: the number of strides
 * @error: return location for an error
 *
 * Copies elements from the device into the memory of @bytes, like gpu_stream_read_region_into().
 * The gaps between the elements in @bytes are not changed. May block under the same conditions as
 * gpu_stream_read(). The function copies one or more regions, each with one command: see
 * gpu_stream_copy_array(). gpu_array_read_strided() may need fewer commands, but waits until they
 * complete. The library holds references to @bytes and to the memory of @array until the copy
 * completes. After that, @bytes contains the elements.
 *
 * If @array uses host memory in place, @bytes may be this memory. Each element must then be read to
 * itself, or no element in @bytes may share a byte with an element of @array.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_INVALID_ARGUMENT if elements are outside of @bytes or
 *   overlap in @bytes, or if elements in @bytes share bytes with @array otherwise than described
 *   above; with %GPU_ERROR_OUT_OF_HOST_MEMORY; or with an error of gpu_stream_read_region_into()
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
 * Makes @stream wait for all earlier work on the memory of @array, on any stream. Does not block.
 *
 * The library itself orders the work that it submits. Call this function before you submit work to
 * the driver's stream directly, see also gpu_memory_add_stream(). Later work on other streams is
 * ordered after this wait, but not after your work: record an event on @stream, and make the other
 * streams wait for it.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_INVALID_ARGUMENT if @array is of another context,
 *   %GPU_ERROR_RELEASED, %GPU_ERROR_BUSY if the memory is mapped, the error of the last write of
 *   the memory if that write failed, or the driver's error
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
