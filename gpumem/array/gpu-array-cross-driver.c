/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Copies of arrays between contexts of different drivers. */
#include "config.h"

#include "gpumem/array/gpu-array-io-private.h"
#include "gpumem/array/gpu-array-kernel-private.h"
#include "gpumem/command/gpu-command-private.h"
#include "gpumem/command/gpu-copy-cross-driver-private.h"

typedef struct
{
  const char  *function;
  GpuTimeline *timeline;            /* the stream of the caller */
  GpuArray    *array;
  GpuArray    *source;
  GpuArray    *sent;                /* @source, or its elements packed in the order of @array */
  GpuArray    *landing;             /* @array, or packed elements with its driver */
  gboolean     is_to;               /* whether @timeline is a stream of @array's driver */
} CrossCopy;

/* Returns whether the elements are one contiguous run of bytes in both layouts, in the same
 * order. */
static gboolean
is_linear (const GpuArrayLayout *to,
           const GpuArrayLayout *from)
{
  GpuArrayPlan plan;

  _gpu_array_plan_init (&plan, to, from);

  return plan.n_regions == 1 && plan.extent.height == 1;
}

/* Returns whether the elements are contiguous in some order of the dimensions, with positive
 * strides. */
static gboolean
is_dense (GpuArray *array)
{
  GpuArrayLayout packed;

  if (_gpu_array_layout_may_overlap (&array->layout))
    return FALSE;

  _gpu_array_layout_pack (&array->layout, &packed);

  for (guint i = 0; i < packed.n_dims; i++)
    packed.strides[i] = ABS (packed.strides[i]);

  packed.offset = 0;

  return is_linear (&packed, &array->layout);
}

/* Returns the array to copy from: @source, or a new array in the context of @source, into which the
 * caller packs the elements. */
static GpuArray *
get_sent (GpuArray    *array,
          GpuArray    *source,
          const char  *function,
          GError     **error)
{
  gboolean repeats = !_gpu_array_layout_same_shape (&array->layout, &source->layout);

  if (is_dense (source))
    return g_object_ref (source);

  return _gpu_array_new_like (repeats ? source : array, source->context, NULL, NULL, function,
                              error);
}

/* Returns the array to which the bytes of @sent are copied. This is @array itself, if the elements
 * of both arrays are contiguous and in the same order in memory. Otherwise it is a new array in the
 * context of @array, from which the caller copies the elements to @array. */
static GpuArray *
get_landing (GpuArray    *array,
             GpuArray    *sent,
             const char  *function,
             GError     **error)
{
  GpuArrayLayout from = sent->layout;

  if (_gpu_array_layout_broadcast (&from, array->layout.shape, array->layout.n_dims, function,
                                   NULL)
      && is_linear (&array->layout, &from))
    return g_object_ref (array);

  return _gpu_array_new_like (sent, array->context, NULL, NULL, function, error);
}

/* Copies the first @size bytes of the elements, or all bytes if @size is 0. */
static gboolean
copy_bytes (GpuTimeline  *timeline,
            GpuArray     *to,
            GpuArray     *from,
            gsize         size,
            const char   *function,
            GError      **error)
{
  GpuRangeCopy copy = { .destination = to->memory, .source = from->memory };
  gsize end;

  _gpu_array_layout_get_range (&to->layout, &copy.destination_offset, &end);
  _gpu_array_layout_get_range (&from->layout, &copy.source_offset, &end);
  copy.size = size != 0 ? size : end - copy.source_offset;

  return _gpu_timeline_copy (timeline, function, &copy, NULL, error);
}

/* Copies elements between the memory of two drivers. `partner` is a stream of the other driver. If
 * `partner` packs the elements before the copy, the packing must run after the earlier work of
 * @timeline. If `partner` unpacks the elements after the copy, later work of @timeline must wait
 * for the unpacking. In both cases, a copy of one byte between the two streams orders them; the
 * value of the byte does not matter. */
static gboolean
copy_packed (const CrossCopy  *copy,
             GpuTimeline      *partner,
             GError          **error)
{
  const char *function = copy->function;
  GpuTimeline *timeline = copy->timeline;
  gboolean is_to = copy->is_to;

  if (copy->sent != copy->source
      && ((is_to && !copy_bytes (timeline, copy->landing, copy->source, 1, function, error))
          || !_gpu_array_copy_to (copy->sent, is_to ? partner : timeline, copy->source, function,
                                  error)))
    return FALSE;

  if (!copy_bytes (timeline, copy->landing, copy->sent, 0, function, error))
    return FALSE;

  return copy->landing == copy->array
         || (_gpu_array_copy_to (copy->array, is_to ? timeline : partner, copy->landing, function,
                                 error)
             && (is_to || copy_bytes (timeline, copy->landing, copy->sent, 1, function, error)));
}

gboolean
_gpu_array_copy_cross_driver (GpuArray     *array,
                              GpuTimeline  *timeline,
                              GpuArray     *source,
                              const char   *function,
                              GError      **error)
{
  gboolean is_to = array->memory->storage->context == timeline->context;
  GpuMemory *far = (is_to ? source : array)->memory;
  GpuAccess accesses[] = { _gpu_array_get_access (array, TRUE),
                           _gpu_array_get_access (source, FALSE) };
  g_autoptr (GpuArray) sent = NULL;
  g_autoptr (GpuArray) landing = NULL;
  GpuTimeline *partner;
  CrossCopy copy;
  gboolean success;

  /* The copy of one byte may change @array, so check for mappings first. */
  if (!_gpu_memory_check_host (source->memory, function, FALSE, error)
      || !_gpu_memory_check_host (array->memory, function, TRUE, error)
      || !_gpu_submission_check_mappings (function, accesses, G_N_ELEMENTS (accesses), error))
    return FALSE;

  sent = get_sent (array, source, function, error);
  landing = sent != NULL ? get_landing (array, sent, function, error) : NULL;
  partner = landing != NULL
            ? _gpu_timeline_get_partner (timeline, far->storage->context, function, error) : NULL;

  if (partner == NULL)
    return FALSE;

  copy = (CrossCopy) { function, timeline, array, source, sent, landing, is_to };
  success = copy_packed (&copy, partner, error);
  _gpu_timeline_release_partner (partner);

  return success;
}
