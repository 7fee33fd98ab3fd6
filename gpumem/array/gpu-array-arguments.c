/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/array/gpu-array-private.h"
#include "gpumem/memory/gpu-memory-private.h"
#include "gpumem/program/gpu-arguments-private.h"

static void
propagate_with_advice (GError  *from,
                       GError **error)
{
  g_autofree char *message = from->message;

  from->message = g_strconcat (message, g_error_matches (from, GPU_ERROR,
                                                         GPU_ERROR_INVALID_ARGUMENT)
                               ? "; pass a copy of the part, or the whole array and an offset"
                               : "", NULL);
  g_propagate_error (error, from);
}

static GpuMemory *
fail_negative (const GpuArrayLayout  *layout,
               gsize                  size,
               const char            *function,
               GError               **error)
{
  g_autofree char *shape = _gpu_array_numbers_to_string (layout->shape, layout->n_dims);
  g_autofree char *strides = _gpu_array_numbers_to_string (layout->strides, layout->n_dims);

  g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
               "%s: elements of an array of shape %s and strides %s begin %" G_GSIZE_FORMAT
               " bytes before the element whose indices are all 0; kernels of this driver cannot "
               "access these elements: pass the result of gpu_array_copy()", function, shape,
               strides, size);

  return NULL;
}

/* Returns the memory if the element whose indices are all 0 is at the start of the memory.
 * Otherwise returns a slice from that element to the end of the last element. Slices are avoided
 * where possible, because OpenCL does not define concurrent writes to a buffer and to a slice of
 * that buffer. */
static GpuMemory *
get_array_memory (GpuArray    *array,
                  gsize        begin,
                  gsize        end,
                  GError     **error)
{
  const char *function = "gpu_arguments_add_array";
  GpuMemory *memory = array->memory;
  gsize offset = array->layout.offset;
  GError *local_error = NULL;
  GpuBuffer *slice;

  if (!_gpu_memory_check (memory, function, error))
    return NULL;

  if (begin < offset && gpu_memory_get_device_address (memory) == 0)
    return fail_negative (&array->layout, offset - begin, function, error);

  if (offset == 0)
    return g_object_ref (memory);

  slice = _gpu_memory_slice (memory, function, "memory", GPU_MEMORY_FLAGS_NONE, offset,
                             end - offset, &local_error);

  if (slice == NULL)
    propagate_with_advice (local_error, error);

  return (GpuMemory *) slice;
}

/**
 * gpu_arguments_add_array:
 * @arguments: a #GpuArguments
 * @array: (transfer none): an array of the context of the kernel
 * @error: return location for an error
 *
 * Adds a pointer to the element of @array whose indices are all 0, or a null pointer if @array has
 * no elements. The kernel does not get the strides: pass the structure of
 * gpu_array_get_descriptor() if the kernel needs them. The launch counts as a use of the memory
 * from the first byte that belongs to an element to the end of the last element. If the element
 * whose indices are all 0 is not at the start of the memory, the argument is a slice of the memory
 * (OpenCL: clCreateSubBuffer). The launch rejects an array whose elements share memory, such as one
 * of gpu_array_broadcast(), for an argument that the driver describes as a pointer to non-const.
 * May be called from any thread; does not block.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_INVALID_ARGUMENT if @array was never initialised or
 *   starts at an offset that gpu_buffer_slice() rejects, with %GPU_ERROR_NOT_SUPPORTED if strides
 *   are negative and the driver does not report addresses, with %GPU_ERROR_RELEASED, or the
 *   driver's error
 *
 * Since: 0.1
 */
gboolean
gpu_arguments_add_array (GpuArguments  *arguments,
                         GpuArray      *array,
                         GError       **error)
{
  g_autoptr (GpuMemory) memory = NULL;
  gsize begin = 0;
  gsize end = 0;

  g_return_val_if_fail (arguments != NULL, FALSE);
  g_return_val_if_fail (GPU_IS_ARRAY (array), FALSE);

  if (!_gpu_array_check (array, "gpu_arguments_add_array", error))
    return FALSE;

  if (gpu_array_get_n_elements (array) > 0)
    {
      _gpu_array_layout_get_range (&array->layout, &begin, &end);
      memory = get_array_memory (array, begin, end, error);

      if (memory == NULL)
        return FALSE;
    }

  _gpu_arguments_add_range (arguments, memory, begin - array->layout.offset, end - begin,
                            array->shares_bytes);

  return TRUE;
}
