/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/array/gpu-array-private.h"
#include "gpumem/memory/gpu-memory-private.h"
#include "gpumem/program/gpu-arguments-private.h"

/* The memory, or a slice that begins with the element with all indices 0 if the memory does not.
 * What comes behind is not cut off: OpenCL leaves open what becomes of writes to a buffer beside
 * those to a part of it. */
static GpuMemory *
get_array_memory (GpuArray    *array,
                  gsize        begin,
                  gsize        end,
                  GError     **error)
{
  const char *function = "gpu_arguments_add_array";
  GpuMemory *memory = array->memory;
  gsize offset = array->layout.offset;

  if (!_gpu_memory_check (memory, function, error))
    return NULL;

  if (begin < offset && gpu_memory_get_device_address (memory) == 0)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                   "%s: elements of the array begin %" G_GSIZE_FORMAT " bytes before the one with "
                   "all indices 0, where kernels of this driver do not get", function,
                   offset - begin);
      return NULL;
    }

  if (offset == 0)
    return g_object_ref (memory);

  return (GpuMemory *) gpu_buffer_new_for_memory (memory, offset, end - offset, error);
}

/**
 * gpu_arguments_add_array:
 * @arguments: a #GpuArguments
 * @array: (transfer none): an array of the context of the kernel
 * @error: return location for an error
 *
 * Adds a pointer to the element of @array with all indices 0; a null pointer if it has no elements.
 * The strides are the kernel's affair, whether the array is gpu_array_is_contiguous() or not: see
 * gpu_array_get_descriptor() for a way to tell them. The launch counts as a use of the memory from
 * the first byte of an element to the end of the last one. An array that begins within its memory
 * has a slice of that made for it (OpenCL: clCreateSubBuffer). Any thread, does not block.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_INVALID_ARGUMENT if @array was never initialised or
 *   begins where no slice may, see gpu_buffer_slice(), with %GPU_ERROR_NOT_SUPPORTED if strides are
 *   negative and the driver tells no addresses, with %GPU_ERROR_RELEASED, or the driver's error
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

  _gpu_arguments_add_range (arguments, memory, begin - array->layout.offset, end - begin);

  return TRUE;
}
