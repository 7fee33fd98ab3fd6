/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Constructors of arrays, for new and for existing memory. */
#include "config.h"

#include "gpumem/array/gpu-array-io-private.h"
#include "gpumem/array/gpu-array-private.h"
#include "gpumem/device/gpu-context-private.h"
#include "gpumem/format/gpu-dtype-private.h"
#include "gpumem/memory/gpu-memory-private.h"

/* Gets the allocator of @context in @allocator, or NULL. */
static gboolean
find_allocator (GpuContext    *context,
                const char    *function,
                GpuAllocator **allocator,
                GError       **error)
{
  GObject *object = _gpu_context_ref_allocator (context);

  if (object == NULL || GPU_IS_ALLOCATOR (object))
    {
      *allocator = (GpuAllocator *) object;
      return TRUE;
    }

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s: the property GpuContext:allocator is a %s, not a GpuAllocator", function,
               G_OBJECT_TYPE_NAME (object));
  g_object_unref (object);

  return FALSE;
}

/* Allocates memory for @layout. Returns NULL without an error for 0 bytes. */
static GpuMemory *
allocate (GpuContext            *context,
          GpuAllocator          *allocator,
          GpuStream             *stream,
          const GpuArrayLayout  *layout,
          const char            *function,
          GError               **error)
{
  gsize size = _gpu_array_layout_get_size (layout);
  g_autoptr (GpuMemory) memory = NULL;
  g_autoptr (GpuAllocator) own = NULL;

  if (size == 0)
    return NULL;

  if (allocator == NULL && !find_allocator (context, function, &own, error))
    return NULL;

  if (allocator == NULL)
    allocator = own;

  if (allocator == NULL)
    return (GpuMemory *) _gpu_buffer_new (context, function, GPU_MEMORY_FLAGS_NONE, size, error);

  memory = gpu_allocator_alloc (allocator, size, stream, error);

  if (memory == NULL)
    {
      g_prefix_error (error, "%s: ", function);
      return NULL;
    }

  if (memory->context == context)
    return g_steal_pointer (&memory);

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s: the allocator %s belongs to another context, on %s, than the array, on %s",
               function, G_OBJECT_TYPE_NAME (allocator),
               _gpu_context_get_native (memory->context)->devices[0]->id,
               _gpu_context_get_native (context)->devices[0]->id);

  return NULL;
}

/* Returns the context of a new array: @context, or the context of @allocator if @context is
 * NULL. */
static GpuContext *
find_context (GpuContext    *context,
              GpuAllocator  *allocator,
              const char    *function,
              GError       **error)
{
  if (context == NULL && allocator != NULL)
    context = gpu_allocator_get_context (allocator);

  if (context == NULL)
    g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                 "%s: neither a context nor an allocator that has one is given: pass the context, "
                 "or implement get_context() of the allocator; in Python, define do_get_context()",
                 function);
  else if (!_gpu_context_check (context, function, error))
    return NULL;

  return context;
}

static GpuArray *
new_for_layout (GpuContext            *context,
                GpuAllocator          *allocator,
                GpuStream             *stream,
                GpuDType              *dtype,
                const GpuArrayLayout  *layout,
                const char            *function,
                GError               **error)
{
  g_autoptr (GpuMemory) memory = NULL;

  context = find_context (context, allocator, function, error);

  if (context == NULL)
    return NULL;

  memory = allocate (context, allocator, stream, layout, function, error);

  if (memory == NULL && _gpu_array_layout_get_size (layout) > 0)
    return NULL;

  return _gpu_array_new (context, memory, dtype, layout);
}

static GpuArray *
new_for_shape (GpuContext     *context,
               GpuAllocator   *allocator,
               GpuStream      *stream,
               GpuDType       *dtype,
               const gssize   *shape,
               guint           n_dims,
               GpuArrayOrder   order,
               const char     *function,
               GError        **error)
{
  GpuArrayLayout layout;

  if (!_gpu_array_layout_init (&layout, shape, n_dims, dtype->item_size, order, function, error))
    return NULL;

  return new_for_layout (context, allocator, stream, dtype, &layout, function, error);
}

/**
 * gpu_array_new:
 * @context: a #GpuContext
 * @dtype: the type of the elements
 * @shape: (array length=n_dims) (nullable): the number of elements along each dimension
 * @n_dims: the number of dimensions, 0 for an array of one element
 * @error: return location for an error
 *
 * Allocates an array in C order with undefined content (OpenCL: clCreateBuffer; CUDA: cuMemAlloc),
 * or with #GpuContext:allocator. Blocks if that allocator blocks.
 *
 * Returns: (transfer full): the array, or %NULL with %GPU_ERROR_INVALID_ARGUMENT if @shape is
 *   invalid, or an error of gpu_buffer_new()
 *
 * Since: 0.1
 */
GpuArray *
gpu_array_new (GpuContext    *context,
               GpuDType      *dtype,
               const gssize  *shape,
               guint          n_dims,
               GError       **error)
{
  g_return_val_if_fail (GPU_IS_CONTEXT (context), NULL);
  g_return_val_if_fail (dtype != NULL, NULL);
  g_return_val_if_fail (shape != NULL || n_dims == 0, NULL);

  return new_for_shape (context, NULL, NULL, dtype, shape, n_dims, GPU_ARRAY_ORDER_C,
                        "gpu_array_new", error);
}

/**
 * gpu_array_new_full:
 * @context: (nullable): a #GpuContext, or %NULL for the context of @allocator
 * @allocator: (nullable): the allocator of the memory; if %NULL, #GpuContext:allocator, or else the
 *   memory is a new #GpuBuffer of @context
 * @stream: (nullable): the stream that uses the memory first, passed to @allocator
 * @dtype: the type of the elements
 * @shape: (array length=n_dims) (nullable): the number of elements along each dimension
 * @n_dims: the number of dimensions, 0 for an array of one element
 * @order: the order of the elements
 * @error: return location for an error
 *
 * Allocates an array with undefined content from a #GpuMemoryPool or another #GpuAllocator. Blocks
 * if @allocator blocks.
 *
 * Returns: (transfer full): the array, or %NULL with %GPU_ERROR_INVALID_ARGUMENT if @shape is
 *   invalid, if there is no context, or if @allocator belongs to another context, or an error of
 *   gpu_buffer_new() or gpu_allocator_alloc()
 *
 * Since: 0.1
 */
GpuArray *
gpu_array_new_full (GpuContext     *context,
                    GpuAllocator   *allocator,
                    GpuStream      *stream,
                    GpuDType       *dtype,
                    const gssize   *shape,
                    guint           n_dims,
                    GpuArrayOrder   order,
                    GError        **error)
{
  g_return_val_if_fail (context == NULL || GPU_IS_CONTEXT (context), NULL);
  g_return_val_if_fail (allocator == NULL || GPU_IS_ALLOCATOR (allocator), NULL);
  g_return_val_if_fail (stream == NULL || GPU_IS_STREAM (stream), NULL);
  g_return_val_if_fail (dtype != NULL, NULL);
  g_return_val_if_fail (shape != NULL || n_dims == 0, NULL);

  return new_for_shape (context, allocator, stream, dtype, shape, n_dims, order,
                        "gpu_array_new_full", error);
}

/**
 * gpu_array_new_filled:
 * @context: (nullable): a #GpuContext, or %NULL for the context of @allocator
 * @allocator: (nullable): the allocator of the memory; if %NULL, #GpuContext:allocator, or else the
 *   memory is a new #GpuBuffer of @context
 * @stream: (nullable): the stream to fill on, %NULL for the default stream
 * @dtype: the type of the elements
 * @shape: (array length=n_dims) (nullable): the number of elements along each dimension
 * @n_dims: the number of dimensions, 0 for an array of one element
 * @order: the order of the elements
 * @value: (nullable): the bytes of one element, %NULL for zeros
 * @error: return location for an error
 *
 * Allocates an array and fills it with one value (OpenCL: clEnqueueFillBuffer; CUDA:
 * cuMemsetD8Async, cuMemsetD16Async, cuMemsetD32Async). Does not block: later work that uses the
 * array is ordered after the fill.
 *
 * Returns: (transfer full): the array, or %NULL with an error of gpu_array_new_full() or
 *   gpu_stream_fill_array()
 *
 * Since: 0.1
 */
GpuArray *
gpu_array_new_filled (GpuContext     *context,
                      GpuAllocator   *allocator,
                      GpuStream      *stream,
                      GpuDType       *dtype,
                      const gssize   *shape,
                      guint           n_dims,
                      GpuArrayOrder   order,
                      GBytes         *value,
                      GError        **error)
{
  const char *function = "gpu_array_new_filled";
  static const guint8 zero;
  g_autoptr (GpuArray) array = NULL;
  GpuTimeline *timeline = NULL;
  const guint8 *data = &zero;
  gsize size = 1;

  g_return_val_if_fail (context == NULL || GPU_IS_CONTEXT (context), NULL);
  g_return_val_if_fail (allocator == NULL || GPU_IS_ALLOCATOR (allocator), NULL);
  g_return_val_if_fail (stream == NULL || GPU_IS_STREAM (stream), NULL);
  g_return_val_if_fail (dtype != NULL, NULL);
  g_return_val_if_fail (shape != NULL || n_dims == 0, NULL);

  array = new_for_shape (context, allocator, stream, dtype, shape, n_dims, order, function, error);

  if (value != NULL)
    data = g_bytes_get_data (value, &size);

  if (array != NULL && value != NULL && size != dtype->item_size)
    g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                 "%s: the value has %" G_GSIZE_FORMAT " bytes, but an element has %"
                 G_GSIZE_FORMAT, function, size, dtype->item_size);
  else if (array != NULL)
    timeline = _gpu_array_peek_timeline (array, stream, function, error);

  if (timeline == NULL || !_gpu_array_fill (array, timeline, data, size, function, error))
    return NULL;

  return g_steal_pointer (&array);
}

/**
 * gpu_array_new_from_bytes:
 * @context: (nullable): a #GpuContext, or %NULL for the context of @allocator
 * @allocator: (nullable): the allocator of the memory; if %NULL, #GpuContext:allocator, or else the
 *   memory is a new #GpuBuffer of @context
 * @stream: (nullable): the stream to write on, %NULL for the default stream
 * @dtype: the type of the elements
 * @shape: (array length=n_dims) (nullable): the number of elements along each dimension
 * @n_dims: the number of dimensions, 0 for an array of one element
 * @order: the order of the elements in @bytes and in the array
 * @bytes: the elements, without gaps
 * @error: return location for an error
 *
 * Allocates an array with a copy of @bytes (OpenCL: clEnqueueWriteBuffer; CUDA: cuMemcpyHtoDAsync).
 * May block under the same conditions as gpu_stream_write(). Later work that uses the array is
 * ordered after the copy, which holds a reference to @bytes until it completes.
 *
 * Returns: (transfer full): the array, or %NULL with %GPU_ERROR_INVALID_ARGUMENT if the size of
 *   @bytes is not the size of the array, or with an error of gpu_array_new_full() or
 *   gpu_stream_write()
 *
 * Since: 0.1
 */
GpuArray *
gpu_array_new_from_bytes (GpuContext     *context,
                          GpuAllocator   *allocator,
                          GpuStream      *stream,
                          GpuDType       *dtype,
                          const gssize   *shape,
                          guint           n_dims,
                          GpuArrayOrder   order,
                          GBytes         *bytes,
                          GError        **error)
{
  const char *function = "gpu_array_new_from_bytes";
  g_autoptr (GpuArray) array = NULL;
  GpuTimeline *timeline = NULL;
  GpuArrayLayout layout;
  gsize size;

  g_return_val_if_fail (context == NULL || GPU_IS_CONTEXT (context), NULL);
  g_return_val_if_fail (allocator == NULL || GPU_IS_ALLOCATOR (allocator), NULL);
  g_return_val_if_fail (stream == NULL || GPU_IS_STREAM (stream), NULL);
  g_return_val_if_fail (dtype != NULL, NULL);
  g_return_val_if_fail (shape != NULL || n_dims == 0, NULL);
  g_return_val_if_fail (bytes != NULL, NULL);

  if (!_gpu_array_layout_init (&layout, shape, n_dims, dtype->item_size, order, function, error))
    return NULL;

  size = _gpu_array_layout_get_size (&layout);

  if (g_bytes_get_size (bytes) != size)
    {
      g_autofree char *text = _gpu_array_numbers_to_string (shape, n_dims);

      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "%s: there are %" G_GSIZE_FORMAT " bytes, but an array of shape %s has %"
                   G_GSIZE_FORMAT, function, g_bytes_get_size (bytes), text, size);
      return NULL;
    }

  array = new_for_layout (context, allocator, stream, dtype, &layout, function, error);

  if (array != NULL)
    timeline = _gpu_array_peek_timeline (array, stream, function, error);

  if (timeline == NULL
      || !_gpu_array_write (array, timeline, bytes, &layout, NULL, function, error))
    return NULL;

  return g_steal_pointer (&array);
}

static gboolean
check_within (const GpuArrayLayout  *layout,
              gsize                  size,
              const char            *what,
              const char            *function,
              GError               **error)
{
  gsize begin;
  gsize end;
  g_autofree char *shape = NULL;
  g_autofree char *strides = NULL;

  /* The offset of an array without elements has no meaning. */
  if (_gpu_array_layout_get_n_elements (layout) == 0
      || (_gpu_array_layout_get_range (layout, &begin, &end) && end <= size))
    return TRUE;

  shape = _gpu_array_numbers_to_string (layout->shape, layout->n_dims);
  strides = _gpu_array_numbers_to_string (layout->strides, layout->n_dims);
  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s: elements of %" G_GSIZE_FORMAT " bytes with the shape %s and the strides %s, "
               "from offset %" G_GSIZE_FORMAT " on, exceed the %" G_GSIZE_FORMAT
               " bytes of the %s", function, layout->item_size, shape, strides, layout->offset,
               size, what);

  return FALSE;
}

static gboolean
set_strides (GpuArrayLayout  *layout,
             const gssize    *strides,
             guint            n_strides,
             const char      *function,
             GError         **error)
{
  if (n_strides != 0 && n_strides != layout->n_dims)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "%s: an array of %u dimensions cannot have %u strides", function,
                   layout->n_dims, n_strides);
      return FALSE;
    }

  for (guint i = 0; i < n_strides; i++)
    layout->strides[i] = strides[i];

  return TRUE;
}

/* An array does not use its memory, so the memory may be spilled. */
static gboolean
check_linear (GpuMemory   *memory,
              const char  *function,
              GError     **error)
{
  if (memory->storage == NULL || g_atomic_int_get (&memory->state) == GPU_MEMORY_STATE_RELEASED)
    return _gpu_memory_fail (memory, function, error);

  return _gpu_memory_check_bounds (memory, function, "memory", 0, 0, error);
}

/**
 * gpu_array_new_for_memory:
 * @memory: linear memory: any memory except an image
 * @offset: the offset in @memory, in bytes, of the element whose indices are all 0
 * @dtype: the type of the elements
 * @shape: (array length=n_dims) (nullable): the number of elements along each dimension
 * @n_dims: the number of dimensions, 0 for an array of one element
 * @strides: (array length=n_strides) (nullable): the distance between neighbouring elements along
 *   each dimension, in bytes; %NULL for C order without gaps
 * @n_strides: the number of strides: @n_dims, or 0
 * @error: return location for an error
 *
 * Creates an array for existing memory, which may be spilled, and holds a reference to the memory.
 * Neither calls a driver nor blocks.
 *
 * Returns: (transfer full): the array, or %NULL with %GPU_ERROR_INVALID_ARGUMENT if elements are
 *   outside of @memory or if @memory is an image, or %GPU_ERROR_RELEASED
 *
 * Since: 0.1
 */
GpuArray *
gpu_array_new_for_memory (GpuMemory     *memory,
                          gsize          offset,
                          GpuDType      *dtype,
                          const gssize  *shape,
                          guint          n_dims,
                          const gssize  *strides,
                          guint          n_strides,
                          GError       **error)
{
  const char *function = "gpu_array_new_for_memory";
  GpuArrayLayout layout;

  g_return_val_if_fail (GPU_IS_MEMORY (memory), NULL);
  g_return_val_if_fail (dtype != NULL, NULL);
  g_return_val_if_fail (shape != NULL || n_dims == 0, NULL);
  g_return_val_if_fail (strides != NULL || n_strides == 0, NULL);

  if (!check_linear (memory, function, error)
      || !_gpu_array_layout_init (&layout, shape, n_dims, dtype->item_size, GPU_ARRAY_ORDER_C,
                                  function, error)
      || !set_strides (&layout, strides, n_strides, function, error))
    return NULL;

  layout.offset = offset;

  if (!check_within (&layout, memory->size, "memory", function, error))
    return NULL;

  return _gpu_array_new (memory->context, memory, dtype, &layout);
}

gboolean
_gpu_array_get_dense_layout (GpuArray        *array,
                             GpuArrayOrder    order,
                             const char      *function,
                             GpuArrayLayout  *layout,
                             GError         **error)
{
  return _gpu_array_check (array, function, error)
         && _gpu_array_layout_init (layout, array->layout.shape, array->layout.n_dims,
                                    array->layout.item_size, order, function, error);
}

gboolean
_gpu_array_get_host_layout (GpuArray        *array,
                            gsize            size,
                            gsize            offset,
                            const gssize    *strides,
                            guint            n_strides,
                            const char      *function,
                            GpuArrayLayout  *layout,
                            GError         **error)
{
  if (!_gpu_array_get_dense_layout (array, GPU_ARRAY_ORDER_C, function, layout, error)
      || !set_strides (layout, strides, n_strides, function, error))
    return FALSE;

  layout->offset = offset;

  return check_within (layout, size, "host bytes", function, error);
}

/* Keeps the order of the elements of @array in memory. If elements share memory, they have no such
 * order: then keeps the C order of @layout. */
static void
keep_order (const GpuArrayLayout *array,
            GpuArrayLayout       *layout)
{
  GpuArrayLayout forwards = *array;
  GpuArrayLayout packed;

  for (guint i = 0; i < forwards.n_dims; i++)
    forwards.strides[i] = forwards.shape[i] == 1 ? 0 : ABS (forwards.strides[i]);

  _gpu_array_layout_pack (&forwards, &packed);

  if (!_gpu_array_layout_may_overlap (&packed))
    *layout = packed;
}

GpuArray *
_gpu_array_new_like (GpuArray      *array,
                     GpuContext    *context,
                     GpuAllocator  *allocator,
                     GpuStream     *stream,
                     const char    *function,
                     GError       **error)
{
  GpuArrayLayout layout;

  if (!_gpu_array_get_dense_layout (array, GPU_ARRAY_ORDER_C, function, &layout, error))
    return NULL;

  /* The strides of an array without elements have no meaning. */
  if (_gpu_array_layout_get_size (&layout) > 0)
    keep_order (&array->layout, &layout);

  return new_for_layout (context, allocator, stream, array->dtype, &layout, function, error);
}

/**
 * gpu_array_new_like:
 * @array: a #GpuArray
 * @allocator: (nullable): the allocator of the memory; if %NULL, #GpuContext:allocator, or else the
 *   memory is a new #GpuBuffer
 * @stream: (nullable): the stream that uses the memory first, passed to @allocator
 * @error: return location for an error
 *
 * Allocates an array with the type and the shape of @array, and with the same order of dimensions
 * in memory, but without gaps. Its content is undefined. Blocks if @allocator blocks.
 *
 * Returns: (transfer full): the array, or %NULL with an error of gpu_array_new_full()
 *
 * Since: 0.1
 */
GpuArray *
gpu_array_new_like (GpuArray      *array,
                    GpuAllocator  *allocator,
                    GpuStream     *stream,
                    GError       **error)
{
  g_return_val_if_fail (GPU_IS_ARRAY (array), NULL);
  g_return_val_if_fail (allocator == NULL || GPU_IS_ALLOCATOR (allocator), NULL);
  g_return_val_if_fail (stream == NULL || GPU_IS_STREAM (stream), NULL);

  return _gpu_array_new_like (array, array->context, allocator, stream, "gpu_array_new_like",
                              error);
}

/**
 * gpu_array_copy:
 * @array: a #GpuArray
 * @allocator: (nullable): the allocator of the memory; if %NULL, #GpuContext:allocator, or else the
 *   memory is a new #GpuBuffer
 * @stream: (nullable): the stream to copy on, %NULL for the default stream
 * @error: return location for an error
 *
 * Allocates an array like gpu_array_new_like(), and copies the elements on the device. Does not
 * block: later work that uses the array is ordered after the copy.
 *
 * Returns: (transfer full): the array, or %NULL with an error of gpu_array_new_like() or
 *   gpu_stream_copy_array()
 *
 * Since: 0.1
 */
GpuArray *
gpu_array_copy (GpuArray      *array,
                GpuAllocator  *allocator,
                GpuStream     *stream,
                GError       **error)
{
  const char *function = "gpu_array_copy";
  g_autoptr (GpuArray) copy = NULL;
  GpuTimeline *timeline = NULL;

  g_return_val_if_fail (GPU_IS_ARRAY (array), NULL);
  g_return_val_if_fail (allocator == NULL || GPU_IS_ALLOCATOR (allocator), NULL);
  g_return_val_if_fail (stream == NULL || GPU_IS_STREAM (stream), NULL);

  copy = _gpu_array_new_like (array, array->context, allocator, stream, function, error);

  if (copy != NULL)
    timeline = _gpu_array_peek_timeline (copy, stream, function, error);

  if (timeline == NULL || !_gpu_array_copy_to (copy, timeline, array, function, error))
    return NULL;

  return g_steal_pointer (&copy);
}
