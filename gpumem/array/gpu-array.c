/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/array/gpu-array-private.h"
#include "gpumem/base/gpu-debug-private.h"
#include "gpumem/device/gpu-context-private.h"
#include "gpumem/memory/gpu-memory-private.h"

/**
 * SECTION:gpu-array
 * @title: GpuArray
 * @short_description: memory as an array of elements
 * @see_also: #GpuDType, #GpuMemory
 *
 */

/**
 * GpuArray:
 *
 * Memory as an array of elements, with a shape and strides like those of a NumPy array.
 *
 * |[<!-- language="C" -->
 * const gssize shape[] = { 480, 640 };
 * g_autoptr (GpuArray) floats = gpu_array_new (context, GPU_DTYPE_FLOAT32, shape, 2, &error);
 * g_autoptr (GpuArray) columns = gpu_array_slice (floats, 1, 0, 320, 1, &error);
 * g_autoptr (GBytes) content = gpu_array_read_bytes (columns, NULL, GPU_ARRAY_ORDER_C, NULL,
 *                                                    &error);
 * ]|
 *
 * An array has elements of one type, in up to %GPU_ARRAY_MAX_DIMS dimensions. Its strides are the
 * distances in bytes between neighbouring elements along each dimension. They may be negative, or 0
 * for repeated elements. An array without elements has no memory; an array without dimensions has
 * one element. The memory is any memory except an image: a #GpuBuffer, a #GpuSvm, a #GpuHostMemory
 * or the memory of an allocator.
 *
 * The shape, the strides and the type of an array never change, and any thread may use an array.
 * gpu_array_slice(), gpu_array_reshape() and similar functions return views: arrays over the same
 * memory. Each view holds a reference to the memory. The library does no arithmetic on arrays; they
 * describe memory to kernels. For arithmetic, write a kernel, or pass the array through DLPack to a
 * library such as CuPy or PyTorch: see gpu_array_to_dlpack().
 *
 * Copying an array whose rows are not contiguous takes several commands of the driver. Until the
 * last command completes, other users of the memory may see some rows copied and others not.
 *
 * Since: 0.1
 */

enum
{
  PROP_0,
  PROP_CONTEXT,
  PROP_MEMORY,
  PROP_DTYPE,
  PROP_N_DIMS,
  PROP_OFFSET,
  PROP_SIZE,
  PROP_SHARES_BYTES,
  N_PROPS
};

static GParamSpec *props[N_PROPS];

G_DEFINE_FINAL_TYPE (GpuArray, gpu_array, G_TYPE_OBJECT)

static void
gpu_array_get_property (GObject    *object,
                        guint       id,
                        GValue     *value,
                        GParamSpec *pspec)
{
  GpuArray *array = GPU_ARRAY (object);

  switch (id)
    {
    case PROP_CONTEXT:
      g_value_set_object (value, array->context);
      break;
    case PROP_MEMORY:
      g_value_set_object (value, array->memory);
      break;
    case PROP_DTYPE:
      g_value_set_boxed (value, array->dtype);
      break;
    case PROP_N_DIMS:
      g_value_set_uint (value, array->layout.n_dims);
      break;
    case PROP_OFFSET:
      g_value_set_uint64 (value, array->layout.offset);
      break;
    case PROP_SIZE:
      g_value_set_uint64 (value, gpu_array_get_size (array));
      break;
    case PROP_SHARES_BYTES:
      g_value_set_boolean (value, array->shares_bytes);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
gpu_array_finalize (GObject *object)
{
  GpuArray *array = GPU_ARRAY (object);

  g_clear_pointer (&array->dtype, gpu_dtype_unref);
  g_clear_object (&array->memory);
  g_clear_object (&array->context);
  _gpu_live_add (GPU_LIVE_ARRAY, -1);

  G_OBJECT_CLASS (gpu_array_parent_class)->finalize (object);
}

static void
install_objects (void)
{
  const GParamFlags flags = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS;

  /**
   * GpuArray:context:
   *
   * The context of the memory.
   *
   * Since: 0.1
   */
  props[PROP_CONTEXT] = g_param_spec_object ("context", NULL, NULL, GPU_TYPE_CONTEXT, flags);
  /**
   * GpuArray:memory:
   *
   * The memory of the elements: see gpu_array_get_memory().
   *
   * Since: 0.1
   */
  props[PROP_MEMORY] = g_param_spec_object ("memory", NULL, NULL, GPU_TYPE_MEMORY, flags);
  /**
   * GpuArray:dtype:
   *
   * The type of the elements.
   *
   * Since: 0.1
   */
  props[PROP_DTYPE] = g_param_spec_boxed ("dtype", NULL, NULL, GPU_TYPE_DTYPE, flags);
}

static void
install_numbers (void)
{
  const GParamFlags flags = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS;

  /**
   * GpuArray:n-dims:
   *
   * The number of dimensions.
   *
   * Since: 0.1
   */
  props[PROP_N_DIMS] = g_param_spec_uint ("n-dims", NULL, NULL, 0, GPU_ARRAY_MAX_DIMS, 0, flags);
  /**
   * GpuArray:offset:
   *
   * The offset in the memory, in bytes, of the element whose indices are all 0.
   *
   * Since: 0.1
   */
  props[PROP_OFFSET] = g_param_spec_uint64 ("offset", NULL, NULL, 0, G_MAXUINT64, 0, flags);
  /**
   * GpuArray:size:
   *
   * The size of all elements, in bytes.
   *
   * Since: 0.1
   */
  props[PROP_SIZE] = g_param_spec_uint64 ("size", NULL, NULL, 0, G_MAXUINT64, 0, flags);
  /**
   * GpuArray:shares-bytes:
   *
   * Whether elements of the array may share bytes, or elements of an array that it views do share
   * bytes. The library refuses to write, fill and copy to such an array, because a change of one
   * element could change others. For the array itself the test is conservative: it is also %TRUE if
   * rows of elements are interleaved. An array without elements shares no bytes.
   *
   * Since: 0.1
   */
  props[PROP_SHARES_BYTES] = g_param_spec_boolean ("shares-bytes", NULL, NULL, FALSE, flags);
}

static void
gpu_array_class_init (GpuArrayClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);

  object_class->get_property = gpu_array_get_property;
  object_class->finalize = gpu_array_finalize;

  install_objects ();
  install_numbers ();
  g_object_class_install_properties (object_class, N_PROPS, props);
}

static void
gpu_array_init (GpuArray *array)
{
  _gpu_live_add (GPU_LIVE_ARRAY, 1);
}

GpuArray *
_gpu_array_new (GpuContext           *context,
                GpuMemory            *memory,
                GpuDType             *dtype,
                const GpuArrayLayout *layout)
{
  GpuArray *array = g_object_new (GPU_TYPE_ARRAY, NULL);

  array->context = g_object_ref (context);
  array->memory = memory != NULL ? g_object_ref (memory) : NULL;
  array->dtype = gpu_dtype_ref (dtype);
  array->layout = *layout;
  array->shares_bytes = _gpu_array_layout_may_overlap (layout);
  array->overlaps = array->shares_bytes && _gpu_array_layout_overlaps (layout);

  return array;
}

gboolean
_gpu_array_check (GpuArray    *array,
                  const char  *function,
                  GError     **error)
{
  if (G_LIKELY (array->context != NULL))
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s: the array was never initialised; call gpu_array_new() for an array", function);

  return FALSE;
}

/**
 * gpu_array_get_context:
 * @array: a #GpuArray
 *
 * Gets the context of the memory.
 *
 * Returns: (transfer none) (nullable): the context; %NULL if @array was never initialised
 *
 * Since: 0.1
 */
GpuContext *
gpu_array_get_context (GpuArray *array)
{
  g_return_val_if_fail (GPU_IS_ARRAY (array), NULL);

  return array->context;
}

/**
 * gpu_array_get_memory:
 * @array: a #GpuArray
 *
 * Gets the memory object that contains the elements. gpu_array_get_offset() and
 * gpu_array_get_range() return the position of the elements in the memory.
 *
 * Returns: (transfer none) (nullable): the memory; %NULL for an array without elements, unless the
 *   array was created for existing memory
 *
 * Since: 0.1
 */
GpuMemory *
gpu_array_get_memory (GpuArray *array)
{
  g_return_val_if_fail (GPU_IS_ARRAY (array), NULL);

  return array->memory;
}

/**
 * gpu_array_get_dtype:
 * @array: a #GpuArray
 *
 * Gets the type of the elements.
 *
 * Returns: (transfer none) (nullable): the type; %NULL if @array was never initialised
 *
 * Since: 0.1
 */
GpuDType *
gpu_array_get_dtype (GpuArray *array)
{
  g_return_val_if_fail (GPU_IS_ARRAY (array), NULL);

  return array->dtype;
}

/**
 * gpu_array_get_n_dims:
 * @array: a #GpuArray
 *
 * Gets the number of dimensions.
 *
 * Returns: the number, at most %GPU_ARRAY_MAX_DIMS
 *
 * Since: 0.1
 */
guint
gpu_array_get_n_dims (GpuArray *array)
{
  g_return_val_if_fail (GPU_IS_ARRAY (array), 0);

  return array->layout.n_dims;
}

/**
 * gpu_array_get_shape:
 * @array: a #GpuArray
 * @n_dims: (out) (optional): the number of dimensions
 *
 * Gets the number of elements along each dimension.
 *
 * Returns: (array length=n_dims) (transfer none): the numbers
 *
 * Since: 0.1
 */
const gssize *
gpu_array_get_shape (GpuArray *array,
                     guint    *n_dims)
{
  g_return_val_if_fail (GPU_IS_ARRAY (array), NULL);

  if (n_dims != NULL)
    *n_dims = array->layout.n_dims;

  return array->layout.shape;
}

/**
 * gpu_array_get_strides:
 * @array: a #GpuArray
 * @n_dims: (out) (optional): the number of dimensions
 *
 * Gets the distance between neighbouring elements along each dimension.
 *
 * Returns: (array length=n_dims) (transfer none): the strides in bytes, which may be negative or 0
 *
 * Since: 0.1
 */
const gssize *
gpu_array_get_strides (GpuArray *array,
                       guint    *n_dims)
{
  g_return_val_if_fail (GPU_IS_ARRAY (array), NULL);

  if (n_dims != NULL)
    *n_dims = array->layout.n_dims;

  return array->layout.strides;
}

/**
 * gpu_array_get_offset:
 * @array: a #GpuArray
 *
 * Gets the offset in the memory of the element whose indices are all 0. With negative strides,
 * other elements precede that element.
 *
 * Returns: the offset in bytes
 *
 * Since: 0.1
 */
gsize
gpu_array_get_offset (GpuArray *array)
{
  g_return_val_if_fail (GPU_IS_ARRAY (array), 0);

  return array->layout.offset;
}

/**
 * gpu_array_get_n_elements:
 * @array: a #GpuArray
 *
 * Gets the number of elements.
 *
 * Returns: the number
 *
 * Since: 0.1
 */
gsize
gpu_array_get_n_elements (GpuArray *array)
{
  g_return_val_if_fail (GPU_IS_ARRAY (array), 0);

  return _gpu_array_layout_get_n_elements (&array->layout);
}

/**
 * gpu_array_get_size:
 * @array: a #GpuArray
 *
 * Gets the size of all elements, without the gaps between them.
 *
 * Returns: the size in bytes
 *
 * Since: 0.1
 */
gsize
gpu_array_get_size (GpuArray *array)
{
  g_return_val_if_fail (GPU_IS_ARRAY (array), 0);

  return _gpu_array_layout_get_size (&array->layout);
}

/**
 * gpu_array_get_range:
 * @array: a #GpuArray
 * @offset: (out): the offset in the memory of the first byte that belongs to an element
 * @size: (out): the number of bytes from @offset to the end of the last element
 *
 * Gets the range of the memory that contains all elements and the gaps between them.
 *
 * Since: 0.1
 */
void
gpu_array_get_range (GpuArray *array,
                     gsize    *offset,
                     gsize    *size)
{
  gsize end;

  g_return_if_fail (GPU_IS_ARRAY (array));
  g_return_if_fail (offset != NULL && size != NULL);

  _gpu_array_layout_get_range (&array->layout, offset, &end);
  *size = end - *offset;
}

/**
 * gpu_array_is_contiguous:
 * @array: a #GpuArray
 * @order: the order of the elements
 *
 * Returns whether the elements are in @order without gaps. An array of one dimension without gaps,
 * and an array without elements, are contiguous in both orders.
 *
 * Returns: %TRUE if the array is contiguous
 *
 * Since: 0.1
 */
gboolean
gpu_array_is_contiguous (GpuArray      *array,
                         GpuArrayOrder  order)
{
  g_return_val_if_fail (GPU_IS_ARRAY (array), FALSE);

  return _gpu_array_layout_is_contiguous (&array->layout, order);
}

/**
 * gpu_array_is_writable:
 * @array: a #GpuArray
 *
 * Returns whether code outside of the library, such as the consumer of a DLPack tensor, may write
 * the elements. It may do so if the memory has neither %GPU_MEMORY_FLAGS_READ_ONLY nor
 * %GPU_MEMORY_FLAGS_HOST_READ_ONLY, and #GpuArray:shares-bytes is %FALSE. In a view of
 * gpu_array_broadcast(), elements share bytes, so neither this view nor a slice of it is writable.
 * May be called from any thread.
 *
 * Returns: %TRUE if the elements may be written
 *
 * Since: 0.1
 */
gboolean
gpu_array_is_writable (GpuArray *array)
{
  const GpuMemoryFlags barred = GPU_MEMORY_FLAGS_READ_ONLY | GPU_MEMORY_FLAGS_HOST_READ_ONLY;

  g_return_val_if_fail (GPU_IS_ARRAY (array), FALSE);

  return array->context != NULL && (array->memory == NULL || (array->memory->flags & barred) == 0)
         && !array->shares_bytes;
}

/**
 * gpu_array_get_device_address:
 * @array: a #GpuArray
 *
 * Gets the device address of the element whose indices are all 0, see
 * gpu_memory_get_device_address().
 *
 * Returns: the address, 0 if the driver does not report it, or there are no elements
 *
 * Since: 0.1
 */
guint64
gpu_array_get_device_address (GpuArray *array)
{
  guint64 address;

  g_return_val_if_fail (GPU_IS_ARRAY (array), 0);

  address = array->memory != NULL ? gpu_memory_get_device_address (array->memory) : 0;

  return address != 0 ? address + array->layout.offset : 0;
}

/* If the host may access the storage, returns it and adds a user to it. The caller removes that
 * user by _gpu_storage_unuse(). Otherwise returns NULL. */
static GpuStorage *
acquire_host (GpuArray *array)
{
  const GpuMemoryFlags barred = GPU_MEMORY_FLAGS_HOST_NO_ACCESS | GPU_MEMORY_FLAGS_HOST_WRITE_ONLY;
  GpuMemory *memory = array->memory;

  if (memory == NULL || !memory->has_host_data || (memory->flags & barred) != 0)
    return NULL;

  return _gpu_memory_acquire (memory, "gpu_array_get_host_address", NULL);
}

/**
 * gpu_array_get_host_address:
 * @array: a #GpuArray
 *
 * Gets the host address of the element whose indices are all 0, in memory that the host may access
 * at any time without mapping it: all memory of the host back end, fine-grain #GpuSvm, and
 * #GpuHostMemory. Before you read the memory, wait for the work that writes it. The address does
 * not keep the memory allocated, unlike the result of gpu_array_get_host_bytes().
 *
 * Returns: the address, or 0 if the host cannot access the memory without a mapping, if the flags
 *   forbid the host to read it, if the memory was released, or if the array has no elements
 *
 * Since: 0.1
 */
guint64
gpu_array_get_host_address (GpuArray *array)
{
  GpuStorage *storage;
  guint64 address;

  g_return_val_if_fail (GPU_IS_ARRAY (array), 0);

  storage = acquire_host (array);

  if (storage == NULL)
    return 0;

  address = (guint64) (guintptr) storage->buffer->host;
  _gpu_storage_unuse (storage);

  return address != 0 ? address + array->layout.offset : 0;
}

static void
release_view (gpointer data)
{
  GpuStorage *storage = data;

  _gpu_storage_unuse (storage);
  _gpu_storage_unref (storage);
}

/**
 * gpu_array_get_host_bytes:
 * @array: a #GpuArray
 *
 * Gets the elements and the gaps between them as #GBytes, if the host may access the memory at any
 * time, see gpu_array_get_host_address(). gpu_array_get_range() gets the position of these bytes in
 * the memory. The #GBytes is not a copy, so its contents change with the memory. The memory stays
 * allocated until the #GBytes is freed, even after gpu_memory_release().
 *
 * Returns: (transfer full) (nullable): the bytes; %NULL if gpu_array_get_host_address() returns 0
 *
 * Since: 0.1
 */
GBytes *
gpu_array_get_host_bytes (GpuArray *array)
{
  GpuStorage *storage;
  gsize begin;
  gsize end;

  g_return_val_if_fail (GPU_IS_ARRAY (array), NULL);

  storage = acquire_host (array);

  if (storage == NULL)
    return NULL;

  if (storage->buffer->host == NULL)
    {
      _gpu_storage_unuse (storage);
      return NULL;
    }

  _gpu_array_layout_get_range (&array->layout, &begin, &end);

  return g_bytes_new_with_free_func ((guint8 *) storage->buffer->host + begin, end - begin,
                                     release_view, _gpu_storage_ref (storage));
}

/**
 * gpu_array_get_descriptor:
 * @array: a #GpuArray
 * @error: return location for an error
 *
 * Gets a structure that describes the array to a kernel, for gpu_arguments_add_value() or for a
 * buffer of such structures. The structure has the layout of an array argument in Numba, in 64-bit
 * words:
 *
 * |[<!-- language="C" -->
 * struct
 * {
 *   void    *meminfo;            // 0
 *   void    *parent;             // 0
 *   int64_t  n_elements;
 *   int64_t  item_size;          // bytes
 *   void    *data;               // address of the element with all indices 0
 *   int64_t  shape[n_dims];
 *   int64_t  strides[n_dims];    // bytes
 * };
 * ]|
 *
 * Register the memory with gpu_arguments_add_indirect(), so that the library tracks its use.
 *
 * Returns: (transfer full): the structure, or %NULL with %GPU_ERROR_NOT_SUPPORTED if the driver
 *   does not report the address of the memory (see gpu_memory_get_device_address()), or
 *   %GPU_ERROR_RELEASED
 *
 * Since: 0.1
 */
GBytes *
gpu_array_get_descriptor (GpuArray  *array,
                          GError   **error)
{
  const char *function = "gpu_array_get_descriptor";
  gint64 words[5 + 2 * GPU_ARRAY_MAX_DIMS] = { 0 };
  const GpuArrayLayout *layout;
  guint64 address;

  g_return_val_if_fail (GPU_IS_ARRAY (array), NULL);

  layout = &array->layout;
  address = gpu_array_get_device_address (array);

  if (!_gpu_array_check (array, function, error)
      || (array->memory != NULL && !_gpu_memory_check (array->memory, function, error)))
    return NULL;

  if (address == 0 && array->memory != NULL)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                   "%s: the driver of %s does not report the address of memory", function,
                   array->memory->storage->context->devices[0]->id);
      return NULL;
    }

  words[2] = (gint64) gpu_array_get_n_elements (array);
  words[3] = (gint64) layout->item_size;
  words[4] = (gint64) address;

  for (guint i = 0; i < layout->n_dims; i++)
    {
      words[5 + i] = layout->shape[i];
      words[5 + layout->n_dims + i] = layout->strides[i];
    }

  return g_bytes_new (words, (5 + 2 * layout->n_dims) * sizeof *words);
}
