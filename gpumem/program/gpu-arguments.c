/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <math.h>
#include <string.h>

#include "gpumem/base/gpu-debug-private.h"
#include "gpumem/format/gpu-half-private.h"
#include "gpumem/memory/gpu-memory-private.h"
#include "gpumem/program/gpu-arguments-private.h"

/**
 * SECTION:gpu-arguments
 * @title: GpuArguments
 * @short_description: the arguments of a launch
 * @see_also: #GpuKernel, gpu_stream_launch_arguments()
 */

/**
 * GpuArguments:
 *
 * A list of the arguments of a kernel: memory, images, samplers, sizes of local memory, and values.
 *
 * |[<!-- language="C" -->
 * g_autoptr (GpuArguments) arguments = gpu_arguments_new ();
 * GpuExtent grid = { 1024, 1, 1 };
 *
 * gpu_arguments_add_memory (arguments, GPU_MEMORY (buffer));
 * gpu_arguments_add_double (arguments, 0.5);
 * gpu_stream_launch_arguments (stream, kernel, &grid, NULL, arguments, &error);
 * ]|
 *
 * The program adds a value as a number, or as the bytes of the value. The launch converts a number
 * to the type of the argument, and fails if the type cannot hold the number, so no value is ever
 * truncated.
 *
 * A list may be used for many launches, of every kernel that takes such arguments. The program may
 * change the list between launches: a launch uses the contents of the list at the time of the call.
 *
 * References may be taken and dropped on any thread. While one thread changes a list, no other
 * thread may use it.
 *
 * Since: 0.1
 */
G_DEFINE_BOXED_TYPE (GpuArguments, gpu_arguments, gpu_arguments_ref, gpu_arguments_unref)

/* References the memory and the sampler of @item. */
static void
retain_objects (const GpuArgumentItem *item)
{
  if (item->type != GPU_ARGUMENT_ITEM_MEMORY && item->type != GPU_ARGUMENT_ITEM_SAMPLER
      && item->type != GPU_ARGUMENT_ITEM_TEXTURE)
    return;

  if (item->value.memory != NULL)
    g_object_ref (item->value.memory);

  if (item->value.sampler != NULL)
    g_object_ref (item->value.sampler);
}

static void
release_objects (GpuArgumentItem *item)
{
  if (item->type != GPU_ARGUMENT_ITEM_MEMORY && item->type != GPU_ARGUMENT_ITEM_SAMPLER
      && item->type != GPU_ARGUMENT_ITEM_TEXTURE)
    return;

  g_clear_object (&item->value.memory);
  g_clear_object (&item->value.sampler);
}

static GpuArgumentItem *
append (GpuArguments *arguments,
        GpuArgumentItemType      type)
{
  GpuArgumentItem *item;

  if (arguments->n_items == arguments->n_allocated)
    {
      GpuArgumentItem *items = g_new (GpuArgumentItem, arguments->n_allocated * 2);

      memcpy (items, arguments->items, arguments->n_items * sizeof *items);
      if (arguments->items != arguments->inline_items)
        g_free (arguments->items);
      arguments->items = items;
      arguments->n_allocated *= 2;
    }

  item = &arguments->items[arguments->n_items++];
  item->type = type;

  return item;
}

static GpuArgumentItem *
append_objects (GpuArguments        *arguments,
                GpuArgumentItemType  type,
                GpuMemory           *memory,
                GpuSampler          *sampler)
{
  GpuArgumentItem *item = append (arguments, type);

  item->value.memory = memory;
  item->value.sampler = sampler;
  item->size = 0;
  retain_objects (item);

  return item;
}

/**
 * gpu_arguments_new:
 *
 * Creates an empty list of arguments.
 *
 * Returns: (transfer full): a new #GpuArguments
 *
 * Since: 0.1
 */
GpuArguments *
gpu_arguments_new (void)
{
  GpuArguments *arguments = g_new (GpuArguments, 1);

  g_atomic_ref_count_init (&arguments->refs);
  arguments->n_items = 0;
  arguments->n_allocated = GPU_ARGUMENTS_N_INLINE;
  arguments->items = arguments->inline_items;
  arguments->indirect = NULL;
  _gpu_live_add (GPU_LIVE_ARGUMENTS, 1);

  return arguments;
}

GpuArguments *
_gpu_arguments_copy (GpuArguments *arguments)
{
  GpuArguments *copy = gpu_arguments_new ();

  for (guint i = 0; i < arguments->n_items; i++)
    {
      const GpuArgumentItem *item = &arguments->items[i];
      GpuArgumentItem *other = append (copy, item->type);

      *other = *item;

      retain_objects (item);
      if (item->type == GPU_ARGUMENT_ITEM_BYTES && item->size > GPU_ARGUMENT_INLINE_SIZE)
        other->value.allocated = g_memdup2 (item->value.allocated, item->size);
    }

  for (guint i = 0; i < _gpu_arguments_get_n_indirect (arguments); i++)
    gpu_arguments_add_indirect (copy, g_ptr_array_index (arguments->indirect, i));

  return copy;
}

/**
 * gpu_arguments_ref:
 * @arguments: a #GpuArguments
 *
 * Acquires a reference. May be called from any thread at any time.
 *
 * Returns: (transfer full): @arguments
 *
 * Since: 0.1
 */
GpuArguments *
gpu_arguments_ref (GpuArguments *arguments)
{
  g_return_val_if_fail (arguments != NULL, NULL);

  g_atomic_ref_count_inc (&arguments->refs);

  return arguments;
}

/**
 * gpu_arguments_unref:
 * @arguments: (transfer full): a #GpuArguments
 *
 * Releases a reference. Releasing the last reference frees the list and drops its references to
 * memory and samplers. Launches that were submitted or prepared with the list are not affected. May
 * be called from any thread at any time.
 *
 * Since: 0.1
 */
void
gpu_arguments_unref (GpuArguments *arguments)
{
  g_return_if_fail (arguments != NULL);

  if (!g_atomic_ref_count_dec (&arguments->refs))
    return;

  gpu_arguments_clear (arguments);
  if (arguments->items != arguments->inline_items)
    g_free (arguments->items);
  g_free (arguments);
  _gpu_live_add (GPU_LIVE_ARGUMENTS, -1);
}

/**
 * gpu_arguments_get_length:
 * @arguments: a #GpuArguments
 *
 * Gets the number of arguments in the list.
 *
 * Returns: the number of arguments
 *
 * Since: 0.1
 */
guint
gpu_arguments_get_length (GpuArguments *arguments)
{
  g_return_val_if_fail (arguments != NULL, 0);

  return arguments->n_items;
}

/**
 * gpu_arguments_clear:
 * @arguments: a #GpuArguments
 *
 * Removes all arguments and all indirect memory from the list.
 *
 * Since: 0.1
 */
void
gpu_arguments_clear (GpuArguments *arguments)
{
  g_return_if_fail (arguments != NULL);

  while (arguments->n_items > 0)
    {
      GpuArgumentItem *item = &arguments->items[--arguments->n_items];

      release_objects (item);
      if (item->type == GPU_ARGUMENT_ITEM_BYTES && item->size > GPU_ARGUMENT_INLINE_SIZE)
        g_free (item->value.allocated);
    }

  g_clear_pointer (&arguments->indirect, g_ptr_array_unref);
}

guint
_gpu_arguments_get_n_indirect (GpuArguments *arguments)
{
  return arguments->indirect != NULL ? arguments->indirect->len : 0;
}

/**
 * gpu_arguments_add_indirect:
 * @arguments: a #GpuArguments
 * @memory: (transfer none): memory of the context of the kernel, or a buffer of a peer (see
 *   gpu_context_enable_peer_access()); not an image
 *
 * Adds memory that the kernel accesses through a pointer stored in other memory, as in a linked
 * list. OpenCL: clSetKernelExecInfo with CL_KERNEL_EXEC_INFO_SVM_PTRS,
 * CL_KERNEL_EXEC_INFO_SVM_FINE_GRAIN_SYSTEM or CL_KERNEL_EXEC_INFO_DEVICE_PTRS_EXT. On CUDA and on
 * the host, no driver call is necessary, because kernels can access all memory of their device.
 *
 * The launch treats @memory like the memory of an argument. It retains @memory until the kernel has
 * completed. The kernel waits for pending uses of @memory on other streams, and counts as a writer
 * unless @memory has %GPU_MEMORY_FLAGS_READ_ONLY. The list retains @memory until it is cleared or
 * freed. gpu_arguments_get_length() does not count indirect memory.
 *
 * The launch fails with %GPU_ERROR_INVALID_ARGUMENT for memory that the program received as
 * read-only, such as the memory of a read-only DLPack tensor, because the kernel might write to it.
 * Pass such memory as an argument that is declared as a pointer to const, or copy it.
 *
 * @memory must have an address, see gpu_memory_get_device_address(). For other memory the launch
 * fails with %GPU_ERROR_NOT_SUPPORTED.
 *
 * Since: 0.1
 */
void
gpu_arguments_add_indirect (GpuArguments *arguments,
                            GpuMemory    *memory)
{
  g_return_if_fail (arguments != NULL);
  g_return_if_fail (GPU_IS_MEMORY (memory));

  if (arguments->indirect == NULL)
    arguments->indirect = g_ptr_array_new_with_free_func (g_object_unref);

  g_ptr_array_add (arguments->indirect, g_object_ref (memory));
}

/**
 * gpu_arguments_add_memory:
 * @arguments: a #GpuArguments
 * @memory: (nullable) (transfer none): memory of the context of the kernel, or a buffer of a peer
 *   (see gpu_context_enable_peer_access()); %NULL passes a null pointer
 *
 * Adds memory: an image for an image argument, any other memory for a pointer. The list retains
 * @memory until it is cleared or freed.
 *
 * Kernels in CUDA C++ take an image as a surface object, which reads and writes texels. On CUDA,
 * the launch therefore rejects an image with %GPU_MEMORY_FLAGS_READ_ONLY.
 *
 * Since: 0.1
 */
void
gpu_arguments_add_memory (GpuArguments *arguments,
                          GpuMemory    *memory)
{
  g_return_if_fail (arguments != NULL);
  g_return_if_fail (memory == NULL || GPU_IS_MEMORY (memory));

  append_objects (arguments, GPU_ARGUMENT_ITEM_MEMORY, memory, NULL);
}

void
_gpu_arguments_add_range (GpuArguments *arguments,
                          GpuMemory    *memory,
                          gsize         offset,
                          gsize         size,
                          gboolean      shares_bytes)
{
  GpuArgumentItem *item = append_objects (arguments, GPU_ARGUMENT_ITEM_MEMORY, memory, NULL);

  item->size = size;
  item->value.offset = offset;
  item->value.shares_bytes = shares_bytes;
}

/**
 * gpu_arguments_add_sampler:
 * @arguments: a #GpuArguments
 * @sampler: (transfer none): a sampler of the context of the kernel
 *
 * Adds a sampler, a `sampler_t` in OpenCL C. The list retains @sampler until it is cleared or
 * freed.
 *
 * Since: 0.1
 */
void
gpu_arguments_add_sampler (GpuArguments *arguments,
                           GpuSampler   *sampler)
{
  g_return_if_fail (arguments != NULL);
  g_return_if_fail (GPU_IS_SAMPLER (sampler));

  append_objects (arguments, GPU_ARGUMENT_ITEM_SAMPLER, NULL, sampler);
}

/**
 * gpu_arguments_add_texture:
 * @arguments: a #GpuArguments
 * @image: (transfer none): an image of the context of the kernel
 * @sampler: (transfer none): a sampler of the same context
 *
 * Adds an image and its sampler as one argument, a `cudaTextureObject_t` in CUDA C++. The texture
 * object is created once for each pair of image and sampler (cuTexObjectCreate). The launch rejects
 * an image with %GPU_MEMORY_FLAGS_WRITE_ONLY. The list retains the image and the sampler until it
 * is cleared or freed.
 *
 * Since: 0.1
 */
void
gpu_arguments_add_texture (GpuArguments *arguments,
                           GpuImage     *image,
                           GpuSampler   *sampler)
{
  g_return_if_fail (arguments != NULL);
  g_return_if_fail (GPU_IS_IMAGE (image));
  g_return_if_fail (GPU_IS_SAMPLER (sampler));

  append_objects (arguments, GPU_ARGUMENT_ITEM_TEXTURE, GPU_MEMORY (image), sampler);
}

/**
 * gpu_arguments_add_local:
 * @arguments: a #GpuArguments
 * @size: bytes for each work-group, not 0
 *
 * Adds local memory, a `__local` pointer in OpenCL C.
 *
 * Since: 0.1
 */
void
gpu_arguments_add_local (GpuArguments *arguments,
                         gsize         size)
{
  g_return_if_fail (arguments != NULL);

  append (arguments, GPU_ARGUMENT_ITEM_LOCAL)->size = size;
}

/**
 * gpu_arguments_add_value:
 * @arguments: a #GpuArguments
 * @data: (array length=size) (element-type guint8): the value, in the layout of the device
 * @size: bytes of the value
 *
 * Adds a value of any type by its bytes, for example a structure or a vector. The bytes are copied.
 *
 * Launches check the size of numbers and vectors on every device. On OpenCL, only the driver knows
 * the size of a type that the program defines, such as a structure. Drivers must refuse another
 * size, but PoCL accepts it, and the kernel then reads undefined bytes. To have the size checked,
 * declare it with gpu_kernel_declare_arguments(), as in `v12`.
 *
 * Since: 0.1
 */
void
gpu_arguments_add_value (GpuArguments  *arguments,
                         gconstpointer  data,
                         gsize          size)
{
  GpuArgumentItem *item;

  g_return_if_fail (arguments != NULL);
  g_return_if_fail (data != NULL || size == 0);

  item = append (arguments, GPU_ARGUMENT_ITEM_BYTES);
  item->size = size;
  if (size > GPU_ARGUMENT_INLINE_SIZE)
    item->value.allocated = g_memdup2 (data, size);
  else if (size > 0)
    memcpy (item->value.bytes, data, size);
}

/**
 * gpu_arguments_add_address:
 * @arguments: a #GpuArguments
 * @address: a device address, for example from gpu_memory_block_get_address(); 0 passes a null
 *   pointer
 *
 * Adds an address for an argument that is a pointer or a 64-bit integer. OpenCL, for a pointer:
 * clSetKernelArgSVMPointer, clSetKernelArgMemPointerINTEL or clSetKernelArgDevicePointerEXT.
 *
 * The library does not track the memory at @address: it neither retains that memory nor orders the
 * kernel after other uses of it.
 *
 * On OpenCL, if @address lies in a #GpuBuffer, the library calls clSetKernelArgDevicePointerEXT.
 * Otherwise, it tries clSetKernelArgSVMPointer, clSetKernelArgMemPointerINTEL and
 * clSetKernelArgDevicePointerEXT, in this order, until the driver accepts the address. It skips the
 * functions that the device does not support.
 *
 * On OpenCL devices without shared virtual memory and without cl_ext_buffer_device_address, a
 * launch that passes an address other than 0 for a pointer fails with %GPU_ERROR_NOT_SUPPORTED.
 *
 * Since: 0.1
 */
void
gpu_arguments_add_address (GpuArguments *arguments,
                           guint64       address)
{
  g_return_if_fail (arguments != NULL);

  append (arguments, GPU_ARGUMENT_ITEM_ADDRESS)->value.address = address;
}

/**
 * gpu_arguments_add_int:
 * @arguments: a #GpuArguments
 * @value: an integer
 *
 * Adds an integer. The argument may have an integer or floating-point type. The launch converts
 * @value to that type, and fails with %GPU_ERROR_INVALID_ARGUMENT if an integer type cannot hold
 * @value. Use gpu_arguments_add_uint() for values of 2^63 and more.
 *
 * Since: 0.1
 */
void
gpu_arguments_add_int (GpuArguments *arguments,
                       gint64        value)
{
  GpuArgumentItem *item;

  g_return_if_fail (arguments != NULL);

  item = append (arguments, GPU_ARGUMENT_ITEM_INT);
  item->value.number.integer = value;
  item->value.number.integral = TRUE;
  item->value.number.real = (gdouble) value;
  item->value.number.single = (gfloat) value;
  item->value.number.half = _gpu_half_from_double ((gdouble) value);
}

/**
 * gpu_arguments_add_uint:
 * @arguments: a #GpuArguments
 * @value: an unsigned integer
 *
 * Adds an unsigned integer. The launch converts @value in the same way as for
 * gpu_arguments_add_int().
 *
 * Since: 0.1
 */
void
gpu_arguments_add_uint (GpuArguments *arguments,
                        guint64       value)
{
  GpuArgumentItem *item;

  g_return_if_fail (arguments != NULL);

  item = append (arguments, GPU_ARGUMENT_ITEM_UINT);
  item->value.number.integer = (gint64) value;
  item->value.number.integral = TRUE;
  item->value.number.real = (gdouble) value;
  item->value.number.single = (gfloat) value;
  item->value.number.half = _gpu_half_from_double ((gdouble) value);
}

/**
 * gpu_arguments_add_double:
 * @arguments: a #GpuArguments
 * @value: a number
 *
 * Adds a number. The launch converts it to the type of the argument:
 *
 * - a floating-point type: the launch fails if a finite number is too large for the type;
 *   infinities and NaN are preserved
 * - an integer type: the launch fails unless the number is an integer within the range of the type
 *
 * The error of the launch is %GPU_ERROR_INVALID_ARGUMENT.
 *
 * Since: 0.1
 */
void
gpu_arguments_add_double (GpuArguments *arguments,
                          gdouble       value)
{
  GpuArgumentItem *item;

  g_return_if_fail (arguments != NULL);

  item = append (arguments, GPU_ARGUMENT_ITEM_DOUBLE);
  item->value.number.real = value;
  item->value.number.single = (gfloat) value;
  item->value.number.half = _gpu_half_from_double (value);
  item->value.number.integral = FALSE;
  item->value.number.integer = 0;

  if (value >= -0x1p63 && value < 0x1p64 && trunc (value) == value)
    {
      item->value.number.integral = TRUE;
      item->value.number.integer = value < 0x1p63 ? (gint64) value : (gint64) (guint64) value;
    }
}
