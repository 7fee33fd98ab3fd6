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
 *
 * A list of what a kernel is given, for gpu_stream_launch_arguments(): memory, sizes of local
 * memory, and values. Values are given as their bytes, or as a number: a number is converted to
 * the type of the argument when it is launched, and one that the type cannot hold is an error
 * there, so nothing is ever cut off.
 *
 * A list can be launched many times, on any kernel that it fits, and be changed in between. What
 * it was at the launch counts. References may be taken and dropped on any thread; while one
 * thread changes a list, no other may use it.
 *
 * |[<!-- language="C" -->
 * g_autoptr (GpuArguments) arguments = gpu_arguments_new ();
 *
 * gpu_arguments_add_memory (arguments, GPU_MEMORY (buffer));
 * gpu_arguments_add_double (arguments, 0.5);
 * gpu_stream_launch_arguments (stream, kernel, &grid, NULL, arguments, &error);
 * ]|
 */

/**
 * GpuArguments:
 *
 * What a kernel is given at a launch.
 *
 * Since: 0.1
 */
G_DEFINE_BOXED_TYPE (GpuArguments, gpu_arguments, gpu_arguments_ref, gpu_arguments_unref)

/* An item that holds objects has what it holds referenced. */
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
 * Makes an empty list.
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
 * Takes a reference. Any thread may do so at any time.
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
 * Drops a reference; the last one frees the list and lets go of the memory in it. Launches that
 * were made from it are not touched. Any thread may do so at any time.
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
 * Tells how many arguments were added.
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
 * Takes everything out of the list, so that it can be filled anew.
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
 * @memory: (transfer none): memory of the context of the kernel, no image
 *
 * Tells of memory that the kernel reaches though it is no argument: through pointers that stand in
 * other memory, as the nodes of a list do (OpenCL: clSetKernelExecInfo with
 * CL_KERNEL_EXEC_INFO_SVM_PTRS, or CL_KERNEL_EXEC_INFO_SVM_FINE_GRAIN_SYSTEM; on CUDA and on the
 * host kernels reach all memory of their device). It is kept until the kernel has run, the kernel
 * counts as a writer of it, unless it has %GPU_MEMORY_FLAGS_READ_ONLY, and waits for its uses on
 * other streams. On OpenCL it has to be a #GpuSvm: other memory has no address there, and launches
 * are %GPU_ERROR_NOT_SUPPORTED. It does not count as an argument: gpu_arguments_get_length() is as
 * before. The list holds the memory until it is cleared or freed.
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
 * @memory: (nullable) (transfer none): memory of the context of the kernel; %NULL passes a null
 *   pointer
 *
 * Adds memory: a buffer for a pointer, an image for an image. Kernels in CUDA C++ take an image as
 * a surface object, to read and write its texels, so it cannot be one with
 * %GPU_MEMORY_FLAGS_READ_ONLY. The list holds the memory until it is cleared or freed.
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
                          gsize         size)
{
  GpuArgumentItem *item = append_objects (arguments, GPU_ARGUMENT_ITEM_MEMORY, memory, NULL);

  item->size = size;
  item->value.offset = offset;
}

/**
 * gpu_arguments_add_sampler:
 * @arguments: a #GpuArguments
 * @sampler: (transfer none): a sampler of the context of the kernel
 *
 * Adds a sampler, the `sampler_t` of OpenCL C. The list holds it until it is cleared or freed.
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
 * Adds an image and how it is read as one argument, the `cudaTextureObject_t` of kernels in CUDA
 * C++ (cuTexObjectCreate, once for a pair). An image with %GPU_MEMORY_FLAGS_WRITE_ONLY has none.
 * The list holds both until it is cleared or freed.
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
 * Adds local memory, the `__local` pointers of OpenCL C.
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
 * @data: (array length=size) (transfer none): the value as the device takes it
 * @size: bytes of the value
 *
 * Adds a value of any type, structures and vectors too, by its bytes. They are copied.
 *
 * Since: 0.1
 */
void
gpu_arguments_add_value (GpuArguments *arguments,
                         const guint8 *data,
                         gsize         size)
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
 * @address: an address that kernels see, as of gpu_memory_block_get_address(); 0 passes a null
 *   pointer
 *
 * Adds an address: for a pointer, or for an unsigned integer of 64 bits (OpenCL:
 * clSetKernelArgSVMPointer for a pointer, for which it has to lie in shared virtual memory). Nobody
 * knows then that the kernel uses the memory there: it is neither kept, nor put in order with other
 * uses. On OpenCL devices without %GPU_CAPABILITIES_SVM_COARSE a launch with it for a pointer is
 * %GPU_ERROR_NOT_SUPPORTED.
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
 * @value: a whole number
 *
 * Adds a whole number, converted to the type of the argument at the launch: to any integer that
 * can hold it (else the launch fails with %GPU_ERROR_INVALID_ARGUMENT) or to a floating point
 * type. Numbers from 2^63 on go through gpu_arguments_add_uint().
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
 * @value: a whole number
 *
 * Adds a whole number that is not negative, as gpu_arguments_add_int() does, up to 2^64 - 1.
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
 * Adds a number, converted to the type of the argument at the launch: to a floating point type,
 * where not a number and the infinities stay what they are and any other number too large for it
 * is an error, or to an integer, where the number must be whole and within its range. Errors are
 * %GPU_ERROR_INVALID_ARGUMENT of the launch.
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
