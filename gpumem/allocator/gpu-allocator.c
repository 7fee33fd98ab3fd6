/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/device/gpu-context-private.h"
#include "gpumem/memory/gpu-memory-private.h"

/**
 * SECTION:gpu-allocator
 * @title: GpuAllocator
 * @short_description: a source of memory
 * @see_also: #GpuBasicAllocator, #GpuAllocatorAdaptor, #GpuMemoryPool
 */

/**
 * GpuAllocator:
 *
 * An interface for sources of memory.
 *
 * |[<!-- language="C" -->
 * g_autoptr (GpuMemory) memory = gpu_allocator_alloc (allocator, size, stream, &error);
 *
 * if (memory != NULL)
 *   {
 *     gpu_stream_write (stream, memory, 0, bytes, &error);
 *     gpu_allocator_free (allocator, memory);
 *   }
 * ]|
 *
 * A library that takes a #GpuAllocator leaves the source of memory to the program: the driver
 * (#GpuBasicAllocator), a pool (#GpuMemoryPool), a class of the program, or adaptors that count,
 * limit or log requests (#GpuAllocatorAdaptor).
 *
 * The last unref of a #GpuMemory frees the memory. gpu_allocator_free() frees it earlier.
 *
 * A class of the program implements at least `alloc()` and `get_context()`. In Python:
 *
 * |[<!-- language="Python" -->
 * class Allocator(GObject.Object, Gpu.Allocator):
 *     def __init__(self, context):
 *         super().__init__()
 *         self._context = context
 *
 *     def do_get_context(self):
 *         return self._context
 *
 *     def do_alloc(self, size, stream):
 *         return Gpu.Buffer(self._context, size)
 * ]|
 *
 * Several threads may use an allocator of this library at the same time.
 *
 * Since: 0.1
 */

/**
 * GpuAllocatorInterface:
 * @alloc: returns at least @size bytes of memory, or sets an error. @size is never 0. The memory
 *   must not be in use elsewhere, must not be an image, and must belong to the context that
 *   `get_context` returns.
 * @free: implements gpu_allocator_free(), which frees memory while references to it still exist.
 *   The default implementation calls gpu_memory_release(). If the program calls
 *   gpu_memory_release() or drops the last reference, this function is not called.
 * @get_context: returns the context of the memory
 * @get_memory_info: returns the free and the total bytes; by default the values of the context
 * @trim: implements gpu_allocator_trim(). The default implementation does nothing
 *
 * The virtual functions of an allocator. `alloc` and `get_context` are mandatory.
 *
 * Since: 0.1
 */

G_DEFINE_INTERFACE (GpuAllocator, gpu_allocator, G_TYPE_OBJECT)

static void
default_free (GpuAllocator *allocator G_GNUC_UNUSED,
              GpuMemory    *memory)
{
  gpu_memory_release (memory);
}

static gboolean
default_get_memory_info (GpuAllocator  *allocator,
                         guint64       *free_size,
                         guint64       *total_size,
                         GError       **error)
{
  GpuContext *context = gpu_allocator_get_context (allocator);
  GpuMemoryInfoSource source;

  if (context != NULL)
    return gpu_context_get_memory_info (context, free_size, total_size, &source, error);

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "gpu_allocator_get_memory_info: the allocator %s has no context",
               G_OBJECT_TYPE_NAME (allocator));

  return FALSE;
}

static void
default_trim (GpuAllocator *allocator G_GNUC_UNUSED,
              guint64       held_bytes G_GNUC_UNUSED)
{
}

static void
gpu_allocator_default_init (GpuAllocatorInterface *iface)
{
  iface->free = default_free;
  iface->get_memory_info = default_get_memory_info;
  iface->trim = default_trim;
}

static const char *
get_device_id (GpuContext *context)
{
  GpuNativeContext *native = _gpu_context_get_native (context);

  return native != NULL ? native->devices[0]->id : "no device";
}

static void
set_other_context (GpuAllocator  *allocator,
                   GpuMemory     *memory,
                   GError       **error)
{
  const char *id = get_device_id (memory->context);
  const char *own = get_device_id (gpu_allocator_get_context (allocator));
  gboolean same = g_str_equal (id, own);

  g_set_error (error, GPU_ERROR, GPU_ERROR_FAILED,
               "gpu_allocator_alloc: the allocator %s returned a %s of %s context of %s; allocate "
               "from the context of the allocator%s%s, which gpu_allocator_get_context() returns",
               G_OBJECT_TYPE_NAME (allocator), G_OBJECT_TYPE_NAME (memory),
               same ? "another" : "a", id, same ? "" : ", of ", same ? "" : own);
}

/* Checks that the memory has bytes that the context of the allocator can use: a pool, an array or
 * an adaptor may crash otherwise. */
static gboolean
check_kind (GpuAllocator  *allocator,
            GpuMemory     *memory,
            GError       **error)
{
  GpuContext *context = gpu_allocator_get_context (allocator);

  if (memory->is_image)
    g_set_error (error, GPU_ERROR, GPU_ERROR_FAILED,
                 "gpu_allocator_alloc: the allocator %s returned a %s, which has texels instead "
                 "of bytes; return a buffer",
                 G_OBJECT_TYPE_NAME (allocator), G_OBJECT_TYPE_NAME (memory));
  else if (context != NULL && context != memory->context)
    set_other_context (allocator, memory, error);
  else
    return TRUE;

  return FALSE;
}

/* Validates the result of an allocator, because the program may implement the allocator. */
static gboolean
check_memory (GpuAllocator  *allocator,
              GpuMemory     *memory,
              gsize          size,
              GError       **error)
{
  const char *name = G_OBJECT_TYPE_NAME (allocator);

  if (memory == NULL)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_FAILED,
                   "gpu_allocator_alloc: the allocator %s returned neither %" G_GSIZE_FORMAT
                   " bytes nor an error", name, size);
      return FALSE;
    }

  if (!_gpu_memory_check (memory, "gpu_allocator_alloc", error)
      || !check_kind (allocator, memory, error))
    return FALSE;

  if (memory->size >= size)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_FAILED,
               "gpu_allocator_alloc: the allocator %s returned %" G_GSIZE_FORMAT
               " bytes for a request of %" G_GSIZE_FORMAT, name, memory->size, size);

  return FALSE;
}

/**
 * gpu_allocator_alloc:
 * @allocator: a #GpuAllocator
 * @size: size in bytes
 * @stream: (nullable): the stream that uses the memory first, or %NULL; all streams of the context
 *   may use the memory
 * @error: return location for an error
 *
 * Allocates memory with undefined content. To free the memory, call gpu_allocator_free() or
 * gpu_memory_release(), or drop the last reference. The memory is then freed when the work that was
 * submitted before has completed. @allocator determines whether this function blocks, and with
 * which errors it fails.
 *
 * Returns: (transfer full) (nullable): the memory, of @size bytes or more; %NULL without an error
 *   for a @size of 0, or %NULL with %GPU_ERROR_OUT_OF_DEVICE_MEMORY, another error of @allocator,
 *   or %GPU_ERROR_FAILED if the class does not implement `alloc`, or an implementation returned no
 *   memory and no error, too few bytes, an image, or memory of another context than
 *   gpu_allocator_get_context()
 *
 * Since: 0.1
 */
GpuMemory *
gpu_allocator_alloc (GpuAllocator  *allocator,
                     gsize          size,
                     GpuStream     *stream,
                     GError       **error)
{
  GpuAllocatorInterface *iface;
  g_autoptr (GpuMemory) memory = NULL;
  g_autoptr (GError) failure = NULL;

  g_return_val_if_fail (GPU_IS_ALLOCATOR (allocator), NULL);
  g_return_val_if_fail (stream == NULL || GPU_IS_STREAM (stream), NULL);

  if (size == 0)
    return NULL;

  iface = GPU_ALLOCATOR_GET_IFACE (allocator);

  if (iface->alloc != NULL)
    memory = iface->alloc (allocator, size, stream, &failure);
  else
    g_set_error (&failure, GPU_ERROR, GPU_ERROR_FAILED,
                 "gpu_allocator_alloc: the class %s does not implement alloc(); in Python, define "
                 "do_alloc()", G_OBJECT_TYPE_NAME (allocator));

  if (failure == NULL && check_memory (allocator, memory, size, &failure))
    return g_steal_pointer (&memory);

  g_propagate_error (error, g_steal_pointer (&failure));

  return NULL;
}

/**
 * gpu_allocator_free:
 * @allocator: a #GpuAllocator
 * @memory: (nullable): memory of @allocator, or %NULL to do nothing
 *
 * Frees @memory before its last reference is dropped. Most allocators release @memory, so the
 * caller must not use @memory any more. The memory is freed after all work that was submitted
 * earlier has completed. The call is optional, because the last unref also frees the memory. Does
 * not block, unless the implementation of @allocator blocks.
 *
 * @memory must be memory of @allocator: a #GpuBasicAllocator does not track its memory, and
 * releases any memory. A #GpuAllocatorAdaptor does nothing for memory of another allocator, unless
 * its class is of another language and overrides `alloc`.
 *
 * Since: 0.1
 */
void
gpu_allocator_free (GpuAllocator *allocator,
                    GpuMemory    *memory)
{
  g_return_if_fail (GPU_IS_ALLOCATOR (allocator));
  g_return_if_fail (memory == NULL || GPU_IS_MEMORY (memory));

  if (memory != NULL)
    GPU_ALLOCATOR_GET_IFACE (allocator)->free (allocator, memory);
}

/**
 * gpu_allocator_get_context:
 * @allocator: a #GpuAllocator
 *
 * Gets the context of the memory of @allocator.
 *
 * Returns: (transfer none) (nullable): the context; %NULL if the allocator was never initialised,
 *   or does not implement this function
 *
 * Since: 0.1
 */
GpuContext *
gpu_allocator_get_context (GpuAllocator *allocator)
{
  GpuAllocatorInterface *iface;

  g_return_val_if_fail (GPU_IS_ALLOCATOR (allocator), NULL);

  iface = GPU_ALLOCATOR_GET_IFACE (allocator);

  return iface->get_context != NULL ? iface->get_context (allocator) : NULL;
}

/**
 * gpu_allocator_get_memory_info:
 * @allocator: a #GpuAllocator
 * @free_size: (out): bytes that @allocator can still allocate, if the allocator can determine the
 *   number
 * @total_size: (out): total bytes available to @allocator
 * @error: return location for an error
 *
 * Gets the free and the total memory: the values of gpu_context_get_memory_info(), unless
 * @allocator overrides them. A #GpuHostAllocator has the memory of the host; a #GpuLimitAllocator
 * and a #GpuMemoryPool apply their limits. Does not block.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_INVALID_ARGUMENT if @allocator has no context, or with
 *   the driver's error
 *
 * Since: 0.1
 */
gboolean
gpu_allocator_get_memory_info (GpuAllocator  *allocator,
                               guint64       *free_size,
                               guint64       *total_size,
                               GError       **error)
{
  g_return_val_if_fail (GPU_IS_ALLOCATOR (allocator), FALSE);
  g_return_val_if_fail (free_size != NULL && total_size != NULL, FALSE);

  *free_size = 0;
  *total_size = 0;

  return GPU_ALLOCATOR_GET_IFACE (allocator)->get_memory_info (allocator, free_size, total_size,
                                                               error);
}

/**
 * gpu_allocator_trim:
 * @allocator: a #GpuAllocator
 * @held_bytes: bytes to keep cached, 0 for none
 *
 * Frees memory that @allocator keeps although the program no longer uses it, such as cached memory,
 * until @allocator keeps at most @held_bytes of such memory. May block.
 *
 * Since: 0.1
 */
void
gpu_allocator_trim (GpuAllocator *allocator,
                    guint64       held_bytes)
{
  g_return_if_fail (GPU_IS_ALLOCATOR (allocator));

  GPU_ALLOCATOR_GET_IFACE (allocator)->trim (allocator, held_bytes);
}
