/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/memory/gpu-memory-private.h"

/**
 * SECTION:gpu-allocator
 * @title: GpuAllocator
 * @short_description: whatever memory comes from
 * @see_also: #GpuDeferredAllocator, #GpuAllocatorAdaptor
 *
 * An allocator makes memory of a size. Libraries that need memory take a #GpuAllocator, so that the
 * program decides where it comes from: from the driver, see #GpuDeferredAllocator and its kin, from
 * a pool, from the program itself, or through adaptors that count it, limit it or write it down,
 * see #GpuAllocatorAdaptor.
 *
 * Memory need not be given back: that happens when nothing refers to it any more. It may be, with
 * gpu_allocator_free(), before the last reference is gone.
 *
 * A class of a program implements at least `alloc()` and `get_context()`. In Python:
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
 * Allocators of this library may be used by any thread, at the same time as by others.
 */

/**
 * GpuAllocator:
 *
 * Whatever memory comes from.
 *
 * Since: 0.1
 */

/**
 * GpuAllocatorInterface:
 * @alloc: gives memory of @size bytes at least, which is never 0, or sets an error. Memory that may
 *   be in use elsewhere is not given.
 * @free: takes memory back, before its last reference is gone. gpu_memory_release() by default;
 *   memory may also go without it, by gpu_memory_release() or with its last reference.
 * @get_context: tells what context memory belongs to
 * @get_memory_info: tells free and total bytes; those of the context by default
 * @trim: gives back to the driver what is held for later, but for so many bytes; does nothing by
 *   default
 *
 * What an allocator does. `alloc` and `get_context` have to be implemented.
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

/* Allocators of programs are not to be trusted. */
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
                   "gpu_allocator_alloc: the allocator %s gave neither %" G_GSIZE_FORMAT
                   " bytes nor an error", name, size);
      return FALSE;
    }

  if (!_gpu_memory_check (memory, "gpu_allocator_alloc", error))
    return FALSE;

  if (memory->size >= size)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_FAILED,
               "gpu_allocator_alloc: the allocator %s gave %" G_GSIZE_FORMAT " bytes and not %"
               G_GSIZE_FORMAT, name, memory->size, size);

  return FALSE;
}

/**
 * gpu_allocator_alloc:
 * @allocator: a #GpuAllocator
 * @size: size in bytes
 * @stream: (nullable): the stream that the memory is for, or %NULL for any; memory can be used on
 *   every stream of its context anyway
 * @error: return location for an error
 *
 * Gets memory, whose content is undefined. It comes back when nothing refers to it any more, or
 * with gpu_allocator_free() or gpu_memory_release(); work that was submitted before goes on.
 * Whether it blocks, and with which errors it fails, depends on @allocator.
 *
 * Returns: (transfer full) (nullable): the memory, of @size bytes or more; %NULL with no error for
 *   a @size of 0, or %NULL with %GPU_ERROR_OUT_OF_DEVICE_MEMORY, another error of @allocator, or
 *   %GPU_ERROR_FAILED if an implementation gave neither memory nor an error, or too little memory
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
 * Gives @memory back before its last reference is gone. Whoever took it must not use it any more,
 * and mostly finds it released; work that was submitted before goes on. It is no error to leave
 * this out: memory comes back with its last reference as well. Does not block, unless an
 * implementation of @allocator does.
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
 * Gets the context that memory of @allocator belongs to.
 *
 * Returns: (transfer none) (nullable): the context; %NULL if the allocator was never initialised,
 *   or does not tell
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
 * @free_size: (out): bytes that @allocator could still give, as far as it knows
 * @total_size: (out): bytes that there are for it altogether
 * @error: return location for an error
 *
 * Asks how much memory there is: what gpu_context_get_memory_info() says, unless @allocator knows
 * better, as a limit does. Does not block.
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
 * @held_bytes: how much to keep on holding, 0 for nothing
 *
 * Has @allocator give back to the driver what it holds to hand out again, or has not freed yet,
 * beyond @held_bytes; those that hold nothing do nothing. It may block.
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
